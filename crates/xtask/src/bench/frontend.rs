//! `bench frontend`: parse and check only (`-arch=compute_90a`), ptxas and sassafras in turn on the same file.

use super::generate;
use super::measure::{Usage, measure};
use crate::tools::Tools;
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCH: &str = "-arch=compute_90a";
const SIZES: [usize; 3] = [5, 50, 200];

/// A file is read three times, and a small one more often, until it is this much: what disturbs a run weighs more
/// there. The best run counts.
const LEAST_READ: usize = 150;

fn rounds(megabytes: usize) -> usize {
    LEAST_READ.div_ceil(megabytes.max(1)).clamp(3, 30)
}

/// The bars, and the size that the first two are about.
const BAR_SIZE: usize = 50;
const CPU_BAR: f64 = 10.0;
const MEMORY_BAR: f64 = 3.0;
/// How much more a megabyte may cost at one size than at another.
const SPREAD_BAR: f64 = 1.2;

struct Row {
    megabytes: usize,
    bytes: usize,
    ptxas: Usage,
    ours: Usage,
}

impl Row {
    fn cpu_ratio(&self) -> f64 {
        self.ptxas.cpu / self.ours.cpu
    }

    fn memory_ratio(&self) -> f64 {
        self.ptxas.peak / self.ours.peak
    }

    /// Milliseconds for a megabyte of PTX.
    fn per_megabyte(&self, usage: Usage) -> f64 {
        usage.cpu * 1e3 / (self.bytes as f64 / 1e6)
    }
}

pub fn run(sizes: &[usize]) -> Result<()> {
    let sizes = if sizes.is_empty() { &SIZES } else { sizes };
    let tools = Tools::find()?;
    let ours = shell::installed_command()?;
    check_that_both_read_all(&tools, &ours)?;
    let rows = sizes.iter().map(|size| measure_size(&tools, &ours, *size)).collect::<Result<Vec<_>>>()?;
    print_table(&rows);
    check_bars(&rows)
}

fn measure_size(tools: &Tools, ours: &Path, megabytes: usize) -> Result<Row> {
    let module = generate::module(megabytes * 1_000_000)?;
    let file = write_input(&format!("{megabytes}mb.ptx"), &module)?;
    let path = file.to_string_lossy();
    let arguments = [ARCH, &path];
    let mut best: Option<(Usage, Usage)> = None;
    for _ in 0..rounds(megabytes) {
        let ptxas = measure(&tools.bin().join("ptxas"), &arguments)?;
        let ours = measure(ours, &arguments)?;
        best = Some(best.map_or((ptxas, ours), |best| (best.0.best(ptxas), best.1.best(ours))));
    }
    let (ptxas, ours) = best.ok_or("no round was run")?;
    Ok(Row { megabytes, bytes: module.len(), ptxas, ours })
}

/// A program that stops early would win: both must find a mistake after the last kernel, and say the same.
fn check_that_both_read_all(tools: &Tools, ours: &Path) -> Result<()> {
    let module = generate::module(1_000_000)? + ".entry last() { bogus; }\n";
    let file = write_input("mistake-at-the-end.ptx", &module)?;
    let error = |program: &Path| {
        let output = shell::capture(Command::new(program).arg(ARCH).arg(&file))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = stderr.lines().find(|line| line.contains("error   : ")).map(str::to_owned);
        Ok::<_, crate::Error>((output.status.code(), line))
    };
    let (ptxas, ours) = (error(&tools.bin().join("ptxas"))?, error(ours)?);
    if ptxas.1.is_none() || ptxas != ours {
        return Err(
            format!("no comparison: of a mistake at the end, ptxas says {ptxas:?}, we say {ours:?}").into()
        );
    }
    Ok(())
}

fn write_input(name: &str, module: &str) -> Result<PathBuf> {
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    let file = dir.join(name);
    shell::write(&file, module)?;
    Ok(file)
}

fn print_table(rows: &[Row]) {
    println!("parse and check, best of several runs; CPU is user and system time");
    println!("            ptxas                        sassafras                    ptxas / sassafras");
    println!("size MB     CPU s    ms/MB  peak MB     CPU s    ms/MB  peak MB     CPU   memory");
    for row in rows {
        println!(
            "{:>7} {:>9.3} {:>8.2} {:>8.0} {:>9.3} {:>8.2} {:>8.0} {:>7.1} {:>8.1}",
            row.megabytes,
            row.ptxas.cpu,
            row.per_megabyte(row.ptxas),
            row.ptxas.peak,
            row.ours.cpu,
            row.per_megabyte(row.ours),
            row.ours.peak,
            row.cpu_ratio(),
            row.memory_ratio(),
        );
    }
}

fn check_bars(rows: &[Row]) -> Result<()> {
    let mut missed = 0;
    let mut bar = |what: String, met: bool| {
        println!("{what}: {}", if met { "ok" } else { "MISSED" });
        missed += usize::from(!met);
    };
    if let Some(row) = rows.iter().find(|row| row.megabytes == BAR_SIZE) {
        let (cpu, memory) = (row.cpu_ratio(), row.memory_ratio());
        bar(format!("CPU time at {BAR_SIZE} MB: {cpu:.1} times less, bar {CPU_BAR}"), cpu >= CPU_BAR);
        bar(
            format!("memory at {BAR_SIZE} MB: {memory:.1} times less, bar {MEMORY_BAR}"),
            memory >= MEMORY_BAR,
        );
    }
    let costs = rows.iter().map(|row| row.per_megabyte(row.ours));
    let spread = costs.clone().fold(0.0, f64::max) / costs.fold(f64::INFINITY, f64::min);
    if rows.len() > 1 {
        bar(
            format!("dearest megabyte against cheapest: {spread:.2}, bar {SPREAD_BAR}"),
            spread <= SPREAD_BAR,
        );
    }
    if missed == 0 { Ok(()) } else { Err(format!("{missed} bars missed").into()) }
}
