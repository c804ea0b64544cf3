//! `bench instructions`: how many instructions two builds of the compiler execute for the same files, counted by
//! valgrind's cachegrind.
//!
//! Counts don't depend on the machine's load, so that a change of one percent shows. Both compile with one thread. Files
//! that both refuse, because they are for another target, are named and don't count.

use super::code::files;
use crate::{Result, shell};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCH: &str = "-arch=sm_90a";
/// Files whose ratios are shown, from the largest on.
const SHOWN: usize = 5;
/// What a change without a purpose may cost.
const BAR: f64 = 1.02;

/// Instructions for one file.
struct Row {
    name: String,
    before: u64,
    after: u64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.after as f64 / self.before as f64
    }
}

/// `BEFORE AFTER [DIR...]`: two programs, and folders of PTX.
pub fn run(arguments: &[String]) -> Result<()> {
    let [before, after, folders @ ..] = arguments else {
        return Err("bench instructions needs two programs: BEFORE AFTER [DIR...]".into());
    };
    let row = |file: &PathBuf| -> Result<Option<Row>> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match (count(before, file)?, count(after, file)?) {
            (Some(before), Some(after)) => Ok(Some(Row { name, before, after })),
            (None, None) => {
                println!("{name}: both refuse it");
                Ok(None)
            }
            _ => Err(format!("{name}: only one of them compiles it").into()),
        }
    };
    let rows = files(folders)?.par_iter().map(row).collect::<Result<Vec<_>>>()?;
    report(rows.into_iter().flatten().collect())
}

/// `None` if the program refuses the file.
fn count(program: &str, file: &Path) -> Result<Option<u64>> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", program]);
    command.args([ARCH, "-O3", "-w", "--split-compile=1"]).arg(file).args(["-o", "/dev/null"]);
    let output = shell::capture(&mut command)?;
    let report = String::from_utf8_lossy(&output.stderr);
    let counted = instructions(&report).ok_or_else(|| {
        format!("{program} {}: {}", file.display(), report.lines().last().unwrap_or_default())
    })?;
    Ok(output.status.success().then_some(counted))
}

/// The line `==1== I   refs:      1,576,481` of cachegrind's report.
fn instructions(report: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.contains("I   refs:") || line.contains("I refs:"))?;
    line.rsplit(' ').next()?.replace(',', "").parse().ok()
}

fn report(mut rows: Vec<Row>) -> Result<()> {
    if rows.is_empty() {
        return Err("there is nothing to compile".into());
    }
    rows.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for row in rows.iter().take(SHOWN) {
        println!("{:>8.3} of before {:>9.1} million  {}", row.ratio(), row.after as f64 / 1e6, row.name);
    }
    let median = rows.get(rows.len() / 2).map_or(f64::NAN, Row::ratio);
    println!("{median:>8.3} of before in the median");
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>() as f64;
    let (before, after) = (sum(|row| row.before), sum(|row| row.after));
    println!(
        "{} files, millions of instructions: {:.0} before, {:.0} after",
        rows.len(),
        before / 1e6,
        after / 1e6
    );
    let met = after <= before * BAR;
    println!("in all: {:.4} of before, bar {BAR}: {}", after / before, if met { "ok" } else { "MISSED" });
    if met { Ok(()) } else { Err("1 bar missed".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cachegrinds_report() {
        let text = "==7== \n==7== I   refs:      1,576,481\n";
        assert_eq!(instructions(text), Some(1_576_481));
        assert_eq!(instructions("==7== I refs:        12\n"), Some(12));
        assert_eq!(instructions("valgrind: no such file"), None);
    }

    #[test]
    fn the_bar_is_for_the_sum() {
        let row = |before, after| Row { name: String::new(), before, after };
        assert!(report(vec![row(1000, 1100), row(9000, 9000)]).is_ok());
        assert!(report(vec![row(1000, 1300), row(9000, 9000)]).is_err());
        assert!(report(vec![]).is_err());
    }
}
