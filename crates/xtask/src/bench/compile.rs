//! `bench compile`: PTX to cubin at `-O3`, ptxas and sassafras in turn, for every file of some folders.

use super::code::files;
use super::measure::{Usage, judge, measure_in_turn};
use crate::tools::Tools;
use crate::{Result, shell};

const ARCH: &str = "-arch=sm_90a";
const ROUNDS: usize = 3;
/// Files whose ratios are shown, from the least on.
const SHOWN: usize = 5;
const CPU_BAR: f64 = 3.0;

/// What a file took, in seconds of CPU time.
struct Row {
    name: String,
    theirs: f64,
    own: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.theirs / self.own
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
        let least = |runs: &[Usage]| runs.iter().map(|run| run.cpu).fold(f64::INFINITY, f64::min);
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        rows.push(Row { name, theirs: least(&theirs), own: least(&own) });
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
        println!("{:>8.1} times less {:>9.1} ms  {}", row.ratio(), 1e3 * row.own, row.name);
    }
    let median = rows.get(rows.len() / 2).map_or(f64::NAN, Row::ratio);
    println!("{median:>8.1} times less in the median");
    let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let (theirs, own) = (sum(|row| row.theirs), sum(|row| row.own));
    println!("ptxas {theirs:.2} s, sassafras {own:.2} s in all");
    judge(theirs / own, CPU_BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_for_the_sum() {
        let row = |theirs: f64, own: f64| Row { name: String::new(), theirs, own };
        assert!(report(vec![row(1.0, 1.0), row(9.0, 1.0)]).is_ok());
        assert!(report(vec![row(1.0, 1.0), row(3.0, 1.0)]).is_err());
        assert!(report(vec![]).is_err());
    }
}
