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

/// Waits for the program and prints what `wait4` says of it. The standard library of Rust cannot ask, and
/// `/usr/bin/time` counts in hundredths of a second. The peak of a process is never less than that of the one
/// that starts it, here some 10 MB.
const WAIT: &str = "
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(0 if status == 0 else 1)
";

pub fn measure(program: &Path, arguments: &[&str]) -> Result<Usage> {
    let mut command = Command::new(tools::python());
    command.args(["-c", WAIT]).arg(program).args(arguments);
    let output = shell::capture(&mut command)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {}", program.display(), stderr.lines().next().unwrap_or("")).into());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// The last line, after whatever the program printed: seconds and kilobytes.
fn parse(stdout: &str) -> Result<Usage> {
    let line = stdout.lines().last().ok_or("no measurement was printed")?;
    let (cpu, kilobytes) = line.split_once(' ').ok_or_else(|| format!("'{line}' is not a measurement"))?;
    Ok(Usage { cpu: cpu.parse()?, peak: kilobytes.parse::<f64>()? * 1024.0 / 1e6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_last_line() {
        assert_eq!(parse("noise\n1.5 1000\n").unwrap(), Usage { cpu: 1.5, peak: 1.024 });
        assert!(parse("").is_err());
        assert!(parse("noise\n").is_err());
    }
}
