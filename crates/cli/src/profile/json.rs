//! The report as JSON; docs/profile.md describes it.

use super::Code;
use cubin::json::quoted;
use sim::timing::{L2, Profile, Reason, Row};

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", fields.join(","))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A number that JSON has.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "0".into() }
}

/// All of it.
pub fn report(code: &Code, profile: &Profile) -> String {
    let axes = |sizes: [u32; 3]| list(sizes.map(|size| size.to_string()));
    let [flops, matrix_flops, bytes] = profile.peaks;
    let pipes = profile.pipes.iter().map(|(pipe, part)| (pipe.name(), number(*part)));
    object(&[
        ("schema", "1".into()),
        ("file", quoted(&code.file)),
        ("kernel", quoted(&profile.kernel)),
        ("grid", axes(profile.grid)),
        ("block", axes(profile.block)),
        ("sm", profile.sm.to_string()),
        ("active_sms", profile.active_sms.to_string()),
        ("l2", quoted(if profile.l2 == L2::Warm { "warm" } else { "cold" })),
        ("cycles", number(profile.cycles)),
        ("seconds", number(profile.seconds)),
        ("blocks_of_sm", profile.blocks.to_string()),
        ("simulated_blocks", profile.simulated.to_string()),
        ("simulated_cycles", profile.simulated_cycles.to_string()),
        ("assumed_waits", profile.assumed.to_string()),
        ("occupancy", occupancy(profile)),
        ("ipc", number(profile.ipc)),
        ("pipes", object(&pipes.collect::<Vec<_>>())),
        ("traffic", traffic(profile)),
        (
            "roofline",
            object(&[
                ("flops", number(profile.flops)),
                ("matrix_flops", number(profile.matrix_flops)),
                ("memory_bytes", profile.dram_bytes().to_string()),
                ("l2_bytes", profile.l2_bytes().to_string()),
                ("peak_flops_per_second", number(flops)),
                ("peak_matrix_flops_per_second", number(matrix_flops)),
                ("peak_bytes_per_second", number(bytes)),
            ]),
        ),
        ("stall_cycles", reasons(&profile.reasons())),
        ("instructions", list(profile.instructions.iter().map(|row| instruction(code, row)))),
    ])
}

fn occupancy(profile: &Profile) -> String {
    let occupancy = &profile.occupancy;
    let limits: Vec<_> = occupancy.limits.iter().map(|(name, blocks)| (*name, blocks.to_string())).collect();
    object(&[
        ("blocks", occupancy.blocks.to_string()),
        ("warps", (occupancy.blocks * occupancy.warps).to_string()),
        ("most_warps", occupancy.most_warps.to_string()),
        ("achieved", number(profile.achieved)),
        ("limit", quoted(occupancy.limit())),
        ("blocks_by", object(&limits)),
        ("registers", occupancy.registers.to_string()),
        ("shared_bytes", occupancy.shared.to_string()),
    ])
}

fn traffic(profile: &Profile) -> String {
    let t = &profile.traffic;
    let counts = [
        ("requests", t.requests),
        ("lines", t.lines),
        ("sectors", t.sectors),
        ("l1_sectors_asked", t.l1_asked),
        ("l1_sectors_hit", t.l1_hits),
        ("l2_sectors_read", t.l2_read),
        ("l2_sectors_written", t.l2_written),
        ("memory_sectors_read", t.dram_read),
        ("memory_sectors_written", t.dram_written),
        ("shared_requests", t.shared),
        ("shared_passes", t.passes),
        ("shared_conflicts", t.conflicts),
        ("atomic_sectors", t.atomics),
    ];
    object(&counts.map(|(name, count)| (name, count.to_string())))
}

/// Cycles by reason, those that there are.
fn reasons(cycles: &[u64; Reason::COUNT]) -> String {
    let some = Reason::ALL.into_iter().zip(cycles).filter(|(_, cycles)| **cycles > 0);
    object(&some.map(|(reason, cycles)| (reason.name(), cycles.to_string())).collect::<Vec<_>>())
}

fn instruction(code: &Code, row: &Row) -> String {
    let line = |line: Option<u64>| line.map_or("null".into(), |line| line.to_string());
    object(&[
        ("function", quoted(&row.function)),
        ("address", row.address.to_string()),
        ("text", quoted(&row.text)),
        ("ptx_line", line(code.ptx.line(&row.function, row.address))),
        ("source_line", line(code.origin.line(&row.function, row.address))),
        ("executed", row.count.executed.to_string()),
        ("lanes", row.count.lanes.to_string()),
        ("sectors", row.count.sectors.to_string()),
        ("shared_conflicts", row.count.conflicts.to_string()),
        ("stall_cycles", reasons(&row.count.cycles)),
    ])
}
