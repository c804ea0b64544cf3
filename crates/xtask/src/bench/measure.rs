//! CPU time and peak memory of one process, from the kernel's own accounting of it.

use crate::{Result, shell, tools};
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu: f64,
    /// Peak resident memory, in megabytes.
    pub peak: f64,
}

impl Usage {
    /// The least of both: what disturbs a run only adds.
    pub fn best(self, other: Usage) -> Usage {
        Usage { cpu: self.cpu.min(other.cpu), peak: self.peak.min(other.peak) }
    }
}

/// Runs programs in turn, so many rounds, and prints what `wait4` says of each run. The standard library of Rust cannot
/// ask, and `/usr/bin/time` counts in hundredths of a second. The peak of a process is never less than that of the one
/// that starts it, here some 10 MB.
///
/// Arguments: the number of rounds, and a command line for each program, `;` before each.
const WAIT: &str = "
import os, sys
commands = []
for word in sys.argv[2:]:
    commands.append([]) if word == ';' else commands[-1].append(word)
usages = []
for _ in range(int(sys.argv[1])):
    for command in commands:
        child = os.posix_spawn(command[0], command, os.environ)
        _, status, usage = os.wait4(child, 0)
        if status != 0:
            sys.exit(command[0] + ' failed')
        usages.append(usage)
for usage in usages:
    print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
";

/// Says whether ptxas takes so many times more CPU time than we do; not enough is an error.
pub fn judge(ratio: f64, bar: f64) -> Result<()> {
    let met = ratio >= bar;
    println!("CPU time: {ratio:.1} times less, bar {bar}: {}", if met { "ok" } else { "MISSED" });
    if met { Ok(()) } else { Err("1 bar missed".into()) }
}

pub fn measure(program: &Path, arguments: &[&str]) -> Result<Usage> {
    let [usages] = measure_in_turn([(program, arguments)], 1)?;
    usages.into_iter().next().ok_or_else(|| "no measurement was printed".into())
}

/// What each run of each program took. Nothing but the programs runs in between.
pub fn measure_in_turn<const N: usize>(
    programs: [(&Path, &[&str]); N],
    rounds: usize,
) -> Result<[Vec<Usage>; N]> {
    let mut command = Command::new(tools::python());
    command.args(["-c", WAIT, &rounds.to_string()]);
    for (program, arguments) in programs {
        command.arg(";").arg(program).args(arguments);
    }
    let output = shell::capture(&mut command)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(stderr.lines().last().unwrap_or("a program failed").to_owned().into());
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    // The programs may have printed something before.
    let lines: Vec<&str> = stdout.lines().collect();
    let lines = lines.len().checked_sub(rounds * N).and_then(|printed| lines.get(printed..));
    let mut usages = [const { Vec::new() }; N];
    for (run, line) in lines.ok_or("measurements are missing")?.iter().enumerate() {
        usages[run % N].push(parse(line)?);
    }
    Ok(usages)
}

/// Seconds and kilobytes.
fn parse(line: &str) -> Result<Usage> {
    let (cpu, kilobytes) = line.split_once(' ').ok_or_else(|| format!("'{line}' is not a measurement"))?;
    Ok(Usage { cpu: cpu.parse()?, peak: kilobytes.parse::<f64>()? * 1024.0 / 1e6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_measurement() {
        assert_eq!(parse("1.5 1000").unwrap(), Usage { cpu: 1.5, peak: 1.024 });
        assert!(parse("").is_err());
        assert!(parse("noise").is_err());
    }

    #[test]
    fn runs_programs_in_turn() {
        let echo: (&Path, &[&str]) = (Path::new("/bin/echo"), &["noise"]);
        let [first, second] = measure_in_turn([echo, (Path::new("/bin/true"), &[])], 3).unwrap();
        assert_eq!((first.len(), second.len()), (3, 3));
        assert!(measure(Path::new("/bin/false"), &[]).is_err());
    }
}
