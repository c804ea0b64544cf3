//! Two codes with the same launch, side by side.

use super::{Code, json, percent, short};
use sim::timing::{Profile, Reason, Row};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Cycles of warps that the SM's blocks spend, for each block that was simulated.
fn for_block(profile: &Profile, cycles: u64) -> f64 {
    cycles as f64 / profile.simulated.max(1) as f64
}

/// An operation without what differs between two codes of one kernel: registers and addresses.
fn operation(row: &Row) -> String {
    let words: Vec<&str> = row.text.split_whitespace().collect();
    let operation = words.iter().find(|word| !word.starts_with('@'));
    operation.map_or(String::new(), |word| word.trim_end_matches(';').to_string())
}

/// For each operation, how often a block executes it and the cycles of warps there.
fn operations(profile: &Profile) -> BTreeMap<String, [f64; 2]> {
    let mut sums: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for row in &profile.instructions {
        let sum = sums.entry(operation(row)).or_default();
        sum[0] += for_block(profile, row.count.executed);
        sum[1] += for_block(profile, row.cycles());
    }
    sums
}

/// A table of the difference.
pub fn text(codes: [&Code; 2], profiles: [&Profile; 2], top: usize) -> String {
    let mut out = String::new();
    let [a, b] = profiles;
    let [gx, gy, gz] = a.grid;
    let [bx, by, bz] = a.block;
    let _ = writeln!(out, "{} grid=({gx},{gy},{gz}) block=({bx},{by},{bz})", a.kernel);
    let _ = writeln!(out, "  A: {}\n  B: {}", codes[0].file, codes[1].file);
    let ratio = b.cycles / a.cycles;
    let _ = writeln!(out, "  speed of A in units of B's: {ratio:.3}\n");
    let _ = writeln!(out, "{:28}{:>14}{:>14}", "", "A", "B");
    let mut line = |name: &str, value: &dyn Fn(&Profile) -> String| {
        let _ = writeln!(out, "  {name:26}{:>14}{:>14}", value(a), value(b));
    };
    line("cycles", &|p| format!("{:.0}", p.cycles));
    line("warp instructions a block", &|p| short(for_block(p, p.executed())));
    line("instructions a cycle", &|p| format!("{:.2}", p.ipc));
    line("registers", &|p| p.occupancy.registers.to_string());
    line("blocks of an SM", &|p| p.occupancy.blocks.to_string());
    line("warps achieved", &|p| percent(p.achieved));
    line("sectors of global memory", &|p| short(p.traffic.sectors as f64));
    line("bytes of memory", &|p| short(p.dram_bytes() as f64));
    line("bank conflicts", &|p| short(p.traffic.conflicts as f64));
    let _ = writeln!(out, "\n  cycles of warps, for a block{:>14}{:>14}{:>14}", "A", "B", "A - B");
    let (first, second) = (a.reasons(), b.reasons());
    let mut reasons: Vec<(Reason, f64, f64)> = Reason::ALL
        .into_iter()
        .map(|reason| {
            let cycles = |p: &Profile, sums: &[u64; Reason::COUNT]| for_block(p, sums[reason as usize]);
            (reason, cycles(a, &first), cycles(b, &second))
        })
        .filter(|(_, a, b)| *a > 0.0 || *b > 0.0)
        .collect();
    reasons.sort_by(|x, y| (y.1 - y.2).abs().total_cmp(&(x.1 - x.2).abs()).then(x.0.cmp(&y.0)));
    for (reason, a, b) in reasons {
        let _ = writeln!(out, "  {:27}{a:>14.0}{b:>14.0}{:>+14.0}", reason.name(), a - b);
    }
    let _ = write!(out, "\n  {:24}{:>12}{:>12}", "operation", "executed A", "B");
    let _ = writeln!(out, "{:>12}{:>12}{:>12}", "cycles A", "B", "A - B");
    for (name, [a, b]) in differences(profiles).into_iter().take(if top == 0 { usize::MAX } else { top }) {
        let _ = write!(out, "  {name:24}{:>12.1}{:>12.1}", a[0], b[0]);
        let _ = writeln!(out, "{:>12.0}{:>12.0}{:>+12.0}", a[1], b[1], a[1] - b[1]);
    }
    out
}

/// Operations with what each code does of them, the largest difference of cycles first.
fn differences([a, b]: [&Profile; 2]) -> Vec<(String, [[f64; 2]; 2])> {
    let (mut first, second) = (operations(a), operations(b));
    let mut all: BTreeMap<String, [[f64; 2]; 2]> = BTreeMap::new();
    for (name, counts) in second {
        all.insert(name.clone(), [first.remove(&name).unwrap_or_default(), counts]);
    }
    all.extend(first.into_iter().map(|(name, counts)| (name, [counts, [0.0; 2]])));
    let mut all: Vec<_> = all.into_iter().collect();
    let difference = |[a, b]: &[[f64; 2]; 2]| (a[1] - b[1]).abs();
    all.sort_by(|x, y| difference(&y.1).total_cmp(&difference(&x.1)).then_with(|| x.0.cmp(&y.0)));
    all
}

/// Both reports, and the ratio.
pub fn json(codes: [&Code; 2], profiles: [&Profile; 2]) -> String {
    let ratio = profiles[1].cycles / profiles[0].cycles;
    let [a, b] = [0, 1].map(|index| json::report(codes[index], profiles[index]));
    format!("{{\"speed\":{ratio},\"a\":{a},\"b\":{b}}}")
}
