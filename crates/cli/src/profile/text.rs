//! The report as text.

use super::{Code, percent, short};
use sim::timing::{L2, Profile, Reason, Row};
use std::fmt::Write;

/// Reasons of an instruction that are named.
const NAMED: usize = 3;

/// All of it.
pub fn report(code: &Code, profile: &Profile, top: usize) -> String {
    let mut out = summary(code, profile);
    out.push_str(&listing(code, profile, top));
    out
}

/// What there is to say of the whole.
fn summary(code: &Code, profile: &Profile) -> String {
    let mut out = String::new();
    let Profile { kernel, grid: [gx, gy, gz], block: [bx, by, bz], .. } = profile;
    let _ = writeln!(out, "{}: {kernel} grid=({gx},{gy},{gz}) block=({bx},{by},{bz}), on an H200", code.file);
    if profile.sm != 90 {
        let sm = profile.sm;
        let _ = writeln!(out, "  the code is of sm_{sm}: the numbers of the model are those of sm_90");
    }
    let cycles = profile.cycles;
    let _ = writeln!(out, "  predicted    {cycles:.0} cycles, {:.2} us", profile.seconds * 1e6);
    let l2 = if profile.l2 == L2::Warm { "warm" } else { "cold" };
    let (blocks, simulated) = (profile.blocks, profile.simulated);
    let _ =
        write!(out, "  simulated    {simulated} of {blocks} blocks of one of {} SMs, ", profile.active_sms);
    let _ = writeln!(out, "{} warp instructions, L2 {l2}", short(profile.executed() as f64));
    if simulated < blocks {
        let _ = writeln!(
            out,
            "               the other {} take as long as blocks in the middle do",
            blocks - simulated
        );
    }
    if profile.assumed > 0 {
        let waits = profile.assumed;
        let _ = writeln!(
            out,
            "               {waits} waits for other blocks were taken for over: times are too short"
        );
    }
    let occupancy = &profile.occupancy;
    let limits: Vec<String> =
        occupancy.limits.iter().map(|(name, blocks)| format!("{name} {blocks}")).collect();
    let (blocks, warps, most) = (occupancy.blocks, occupancy.blocks * occupancy.warps, occupancy.most_warps);
    let _ = write!(
        out,
        "  occupancy    {blocks} blocks, {warps} of {most} warps ({}), ",
        percent(occupancy.part())
    );
    let _ = writeln!(out, "limited by {}; achieved {}", occupancy.limit(), percent(profile.achieved));
    let _ = write!(out, "               blocks by {}; ", limits.join(", "));
    let _ = writeln!(out, "{} registers, {} bytes of shared memory", occupancy.registers, occupancy.shared);
    let _ = writeln!(out, "  issue        {:.2} instructions a cycle and SM, of 4", profile.ipc);
    let pipes = profile.pipes.iter().filter(|(_, part)| *part >= 0.0005);
    let pipes: Vec<String> =
        pipes.map(|(pipe, part)| format!("{} {}", pipe.name(), percent(*part))).collect();
    let _ = writeln!(out, "  pipes        {}", pipes.join(", "));
    memory(&mut out, profile);
    roofline(&mut out, profile);
    reasons(&mut out, profile);
    out
}

fn memory(out: &mut String, profile: &Profile) {
    let t = &profile.traffic;
    let part = |of: u64, all: u64| percent(of as f64 / all.max(1) as f64);
    let _ = write!(
        out,
        "  global       {} requests, {} sectors",
        short(t.requests as f64),
        short(t.sectors as f64)
    );
    let _ = write!(
        out,
        " ({:.1} each); L1 has {}",
        t.sectors as f64 / t.requests.max(1) as f64,
        part(t.l1_hits, t.l1_asked)
    );
    let _ = writeln!(out, "; {} sectors of atomics", short(t.atomics as f64));
    let _ = write!(
        out,
        "  L2           {} read, {} written",
        short(t.l2_read as f64),
        short(t.l2_written as f64)
    );
    let _ = writeln!(out, " (sectors of 32 bytes)");
    let _ = write!(
        out,
        "  memory       {}B read, {}B written; ",
        short(32.0 * t.dram_read as f64),
        short(32.0 * t.dram_written as f64)
    );
    let _ = writeln!(
        out,
        "{}B/s of {}B/s",
        short(profile.dram_bytes() as f64 / profile.seconds),
        short(profile.peaks[2])
    );
    let _ = write!(
        out,
        "  shared       {} requests, {} passes, ",
        short(t.shared as f64),
        short(t.passes as f64)
    );
    let _ = writeln!(out, "{} of them by conflicts", short(t.conflicts as f64));
}

fn roofline(out: &mut String, profile: &Profile) {
    let all = profile.flops + profile.matrix_flops;
    let [scalar, matrix, bytes] = profile.peaks;
    let rate = |flops: f64| short(flops / profile.seconds);
    let _ = write!(out, "  roofline     {}FLOP/s of {}FLOP/s", rate(profile.flops), short(scalar));
    if profile.matrix_flops > 0.0 {
        let _ = write!(out, ", matrices {}FLOP/s of {}FLOP/s", rate(profile.matrix_flops), short(matrix));
    }
    let peak = if profile.matrix_flops > 0.0 { matrix } else { scalar };
    match profile.dram_bytes() {
        0 => out.push_str("; nothing comes from memory\n"),
        moved => {
            let intensity = all / moved as f64;
            let side = if intensity < peak / bytes { "memory's" } else { "arithmetic's" };
            let _ = writeln!(
                out,
                "; {intensity:.2} FLOP a byte of memory, on {side} side of {:.1}",
                peak / bytes
            );
        }
    }
}

/// Reasons with their parts, the largest first.
pub fn parts(cycles: &[u64; Reason::COUNT]) -> Vec<(Reason, f64)> {
    let sum = cycles.iter().sum::<u64>().max(1) as f64;
    let mut parts: Vec<(Reason, u64)> =
        Reason::ALL.into_iter().zip(*cycles).filter(|(_, c)| *c > 0).collect();
    parts.sort_by_key(|(reason, cycles)| (std::cmp::Reverse(*cycles), *reason));
    parts.into_iter().map(|(reason, cycles)| (reason, cycles as f64 / sum)).collect()
}

fn reasons(out: &mut String, profile: &Profile) {
    let named: Vec<String> = parts(&profile.reasons())
        .into_iter()
        .map(|(reason, part)| format!("{} {}", reason.name(), percent(part)))
        .collect();
    let _ = writeln!(out, "  warps        {}", named.join(", "));
}

/// The instructions with their counts.
fn listing(code: &Code, profile: &Profile, top: usize) -> String {
    let all: u64 = profile.instructions.iter().map(Row::cycles).sum();
    let mut rows: Vec<&Row> = profile.instructions.iter().collect();
    if top > 0 {
        rows.sort_by_key(|row| (std::cmp::Reverse(row.cycles()), row.index));
        rows.truncate(top);
    }
    let mut out = String::from("\n  cycles  executed  lanes   line  address  instruction\n");
    for row in rows {
        let line = code.ptx.line(&row.function, row.address).map_or("-".into(), |line| line.to_string());
        let part = row.cycles() as f64 / all.max(1) as f64;
        let lanes = row.count.lanes as f64 / row.count.executed.max(1) as f64;
        let _ = write!(
            out,
            "{:>8}  {:>8}  {lanes:>5.1}  {line:>5}",
            percent(part),
            short(row.count.executed as f64)
        );
        let _ = writeln!(out, "  {:>7}  {}", format!("{:04x}", row.address), row.text);
        let named: Vec<String> = parts(&row.count.cycles)
            .into_iter()
            .take(NAMED)
            .map(|(reason, part)| format!("{} {}", reason.name(), percent(part)))
            .collect();
        let _ = write!(out, "{:42}{}", "", named.join(", "));
        if row.count.sectors > 0 {
            let _ =
                write!(out, "; {:.1} sectors", row.count.sectors as f64 / row.count.executed.max(1) as f64);
        }
        if row.count.conflicts > 0 {
            let conflicts = row.count.conflicts as f64 / row.count.executed.max(1) as f64;
            let _ = write!(out, "; {conflicts:.1} passes by bank conflicts");
        }
        out.push('\n');
    }
    out
}
