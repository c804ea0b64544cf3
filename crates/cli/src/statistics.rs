//! `--compiler-stats`: time and memory of the whole run. The words for finer numbers are accepted; there are none yet.

use crate::log::Log;
use crate::options::{Given, Id};
use std::io::Write;
use std::time::Duration;

pub struct Statistics<'g> {
    pub inputs: &'g [String],
    pub time: Duration,
}

impl Statistics<'_> {
    /// Prints, or adds to `--compiler-stats-file`; `Err` with the name of a file that can't be written.
    pub fn report(&self, given: &Given, log: &Log) -> Result<(), String> {
        let wanted = given.list(Id::Stats);
        let wants = |words: [&str; 2]| wanted.iter().any(|word| words.contains(&word.as_str()));
        let mut lines = Vec::new();
        if wants(["time", "t"]) {
            lines.push(format!("CompileTime = {:.6} ms", self.time.as_secs_f64() * 1e3));
        }
        if wants(["memory", "m"]) {
            lines.extend(peak_kilobytes().map(|kb| format!("PeakMemoryUsage = {kb}.000 KB")));
        }
        match given.word(Id::StatsFile).filter(|_| given.has(Id::Stats)) {
            Some(file) => self.append(file, &lines).map_err(|_| file.to_string()),
            None => {
                lines.iter().for_each(|line| log.info(&format!("STAT: {line}")));
                Ok(())
            }
        }
    }

    fn append(&self, file: &str, lines: &[String]) -> std::io::Result<()> {
        let mut file = std::fs::File::options().append(true).create(true).open(file)?;
        writeln!(file, "{} >>\n\n{}", self.inputs.join(","), lines.join("\n"))
    }
}

/// The most memory that the process had so far, where the system tells.
fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
