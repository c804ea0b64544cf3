//! `bench compile`: PTX to cubin at `-O3`, ptxas and sassafras in turn, for every file of some folders: CPU time and peak
//! memory.

use super::code::files;
use super::measure::{Usage, judge, measure_in_turn};
use crate::tools::Tools;
use crate::{Result, shell};

const ARCH: &str = "-arch=sm_90a";
const ROUNDS: usize = 3;
/// Files whose ratios are shown, from the least on.
const SHOWN: usize = 5;
const CPU_BAR: f64 = 3.0;

/// What a file took: the least of all runs.
struct Row {
    name: String,
    theirs: Usage,
    own: Usage,
}

impl Row {
    /// How many times less CPU time than ptxas.
    fn ratio(&self) -> f64 {
        self.theirs.cpu / self.own.cpu
    }

    /// The share of ptxas's peak memory.
    fn memory(&self) -> f64 {
        self.own.peak / self.theirs.peak
    }
}

pub fn run(folders: &[String]) -> Result<()> {
    let tools = Tools::find()?;
    let (ptxas, ours) = (tools.bin().join("ptxas"), shell::installed_command()?);
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    let cubin = dir.join("compile.cubin");
    let mut rows = Vec::new();
    for file in files(folders)? {
        let (name, cubin) = (file.to_string_lossy(), cubin.to_string_lossy());
        // One thread: more of them take no less CPU time.
        let arguments = [ARCH, "-O3", "-w", "--split-compile=1", &*name, "-o", &*cubin];
        let [theirs, own] = measure_in_turn([(&ptxas, &arguments), (&ours, &arguments)], ROUNDS)?;
        let least = |runs: Vec<Usage>| runs.into_iter().reduce(Usage::best).ok_or("no run was measured");
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        rows.push(Row { name, theirs: least(theirs)?, own: least(own)? });
    }
    report(rows)
}

fn report(mut rows: Vec<Row>) -> Result<()> {
    if rows.is_empty() {
        return Err("there is nothing to compile".into());
    }
    rows.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    println!(
        "{} files to cubins, the least of {ROUNDS} runs of each; CPU is user and system time",
        rows.len()
    );
    for row in rows.iter().take(SHOWN) {
        println!("{:>8.1} times less {:>9.1} ms  {}", row.ratio(), 1e3 * row.own.cpu, row.name);
    }
    let median = rows.get(rows.len() / 2).map_or(f64::NAN, Row::ratio);
    println!("{median:>8.1} times less in the median");
    let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let (theirs, own) = (sum(|row| row.theirs.cpu), sum(|row| row.own.cpu));
    println!("ptxas {theirs:.2} s, sassafras {own:.2} s in all: {:.1} times less", theirs / own);
    let memory = sum(|row| row.own.peak) / sum(|row| row.theirs.peak);
    println!("{memory:>8.2} of ptxas's peak memory over all files");
    if let Some(row) = rows.iter().max_by(|a, b| a.memory().total_cmp(&b.memory())) {
        println!(
            "{:>8.2} of ptxas's peak memory at most {:>5.0} MB  {}",
            row.memory(),
            row.own.peak,
            row.name
        );
    }
    judge(theirs / own, CPU_BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_for_the_sum() {
        let usage = |cpu: f64| Usage { cpu, peak: 1.0 };
        let row = |theirs: f64, own: f64| Row { name: String::new(), theirs: usage(theirs), own: usage(own) };
        assert!(report(vec![row(1.0, 1.0), row(9.0, 1.0)]).is_ok());
        assert!(report(vec![row(1.0, 1.0), row(3.0, 1.0)]).is_err());
        assert!(report(vec![]).is_err());
    }
}
