//! `bench scale`: how time and memory grow with the size of a function, for shapes that make passes slow.
//!
//! The command runs beside ptxas with a limit of CPU time, and exponents are fitted to the sizes. [`count`] is the part
//! of `cargo xtask test`: it compiles the shapes in process and counts what is allocated, which is the same on every
//! machine and in every run. Most work here fills a vector, a table or a set, so work that grows too fast is seen in the
//! bytes; a search that allocates nothing is not, and takes the benchmark.

pub mod shapes;

use super::measure::{Usage, measure};
use crate::allocated::Allocated;
use crate::tools::Tools;
use crate::{Result, shell};
use shapes::{ALL, Shape};
use std::path::Path;

const SIZES: [usize; 4] = [1_000, 3_000, 10_000, 30_000];
const EXPONENT_BAR: f64 = 1.15;
/// A process that takes more seconds is stopped, and larger sizes are not tried.
const LIMIT: u32 = 30;

/// Sizes for counting. The exponent is that of the larger half: what every function takes is less there.
const COUNTED: [usize; 2] = [1_000, 4_000];
/// Of the bytes and the number of allocations. Tables that double make steps.
const COUNT_BAR: f64 = 1.3;

/// Shapes that grow faster today, each with a bar of its own above what it has: lower it with every improvement. The
/// first two have all values live in all blocks, so that sets of them grow with the square; the others are open.
const KNOWN: [(&str, f64); 4] =
    [("nested-loops", 2.3), ("sparse-joins", 2.1), ("calls", 1.9), ("tree", 1.45)];

pub fn run(names: &[String]) -> Result<()> {
    let (ptxas, ours) = (Tools::find()?.bin().join("ptxas"), shell::installed_command()?);
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    println!(
        "CPU time and peak memory at {SIZES:?} instructions, exponents of both, and how many times less than ptxas"
    );
    let mut missed = 0;
    for shape in ALL.iter().filter(|shape| names.is_empty() || names.iter().any(|name| name == shape.name)) {
        let (mut own, mut theirs): (Vec<Usage>, Vec<Usage>) = Default::default();
        for (index, size) in SIZES.into_iter().enumerate() {
            let source = dir.join("scale.ptx");
            shell::write(&source, shapes::module(shape, size))?;
            for (program, usages) in [(&ours, &mut own), (&ptxas, &mut theirs)] {
                // One that was stopped at a smaller size is not tried again.
                if usages.len() == index {
                    usages.extend(measure_limited(program, &source));
                }
            }
        }
        let exponents = [exponent(&own, |usage| usage.cpu), exponent(&own, |usage| usage.peak)];
        let is_met = own.len() == SIZES.len() && exponents.iter().all(|e| *e <= EXPONENT_BAR);
        missed += u32::from(!is_met);
        println!("{}{}", row(shape, &own, &theirs, exponents), if is_met { "" } else { "  MISSED" });
    }
    match missed {
        0 => Ok(()),
        missed => Err(format!("{missed} shapes grow with more than a power of {EXPONENT_BAR}").into()),
    }
}

/// `None` if it takes too long, or doesn't compile.
fn measure_limited(program: &Path, source: &Path) -> Option<Usage> {
    let command = "ulimit -t \"$1\"; exec \"$2\" -arch=sm_90a -O3 -w --split-compile=1 \"$3\" -o \"$3.cubin\" 2>/dev/null";
    let (program, source) = (program.to_string_lossy(), source.to_string_lossy());
    let arguments = ["-c", command, "sh", &LIMIT.to_string(), &program, &source];
    measure(Path::new("/bin/sh"), &arguments).ok()
}

/// The slope of the least squares line through the logarithms, of sizes from the second on: what every run takes is
/// little there.
fn exponent(usages: &[Usage], of: fn(&Usage) -> f64) -> f64 {
    let points = SIZES.iter().zip(usages).skip(1);
    let points: Vec<(f64, f64)> =
        points.map(|(size, usage)| ((*size as f64).ln(), of(usage).max(1e-3).ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    above / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

fn row(shape: &Shape, own: &[Usage], theirs: &[Usage], [time, memory]: [f64; 2]) -> String {
    let ms = |usages: &[Usage]| {
        let cells =
            (0..SIZES.len()).map(|i| usages.get(i).map_or("-".into(), |u| format!("{:.0}", 1e3 * u.cpu)));
        cells.map(|cell| format!("{cell:>7}")).collect::<String>()
    };
    let peak = own.last().map_or(0.0, |usage| usage.peak);
    let last = own.iter().zip(theirs).next_back();
    let ratio = last.map_or("-".into(), |(o, t)| format!("{:.1} {:.1}", t.cpu / o.cpu, t.peak / o.peak));
    format!(
        "{:<15}{} ms {peak:>6.0} MB  ^{time:.2} ^{memory:.2}  ptxas{} ms  {ratio}",
        shape.name,
        ms(own),
        ms(theirs)
    )
}

/// Compiles every shape in process and fails if what is allocated grows too fast.
pub fn count() -> Result<()> {
    let mut failed = Vec::new();
    for shape in ALL {
        let [small, large] = COUNTED.map(|size| allocated(shape, size));
        let (small, large) = (small?, large?);
        let factor = (COUNTED[1] as f64 / COUNTED[0] as f64).ln();
        let exponent = |small: u64, large: u64| (large as f64 / small as f64).ln() / factor;
        let exponents = [exponent(small.calls, large.calls), exponent(small.bytes, large.bytes)];
        let known = KNOWN.iter().find(|(name, _)| *name == shape.name);
        let bar = known.map_or(COUNT_BAR, |(_, bar)| *bar);
        if exponents.iter().any(|e| *e > bar) {
            failed.push(format!("{} ^{:.2} ^{:.2}", shape.name, exponents[0], exponents[1]));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("allocations and bytes grow too fast: {}", failed.join(", ")).into()),
    }
}

/// What compiling a shape allocates.
fn allocated(shape: &Shape, size: usize) -> Result<Allocated> {
    let source = shapes::module(shape, size);
    let target = ptx::Target::find("sm_90a").ok_or("no such target")?;
    let mut options = sassafras::Options::new(target);
    // What is counted is this thread's.
    options.threads = Some(1);
    let before = Allocated::so_far();
    let compiled = sassafras::compile(&source, &options);
    let after = Allocated::so_far();
    compiled.map_err(|error| format!("{} {size}: {error}", shape.name))?;
    Ok(Allocated { calls: after.calls - before.calls, bytes: after.bytes - before.bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_slopes() {
        let usages = SIZES.map(|size| Usage { cpu: 1e-6 * (size as f64).powf(1.5), peak: size as f64 });
        assert!((exponent(&usages, |u| u.cpu) - 1.5).abs() < 0.02);
        assert!((exponent(&usages, |u| u.peak) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_shape_compiles_at_any_size() {
        for shape in ALL {
            for size in [1, 20, 100] {
                allocated(shape, size).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}
