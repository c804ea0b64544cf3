//! Wall time of the stages and passes of a compilation (`--time-passes`).

use crate::context::Options;
use std::time::Duration;

/// The time of each part, in the order in which they first ran: passes by name, and the stages before and after them.
/// Times of functions that compile in parallel add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<(&'static str, Duration)>);

impl Times {
    /// Once for a module, before its functions: limits, variables, call graph.
    pub const SETUP: &str = "setup";
    /// From PTX to the IR of a function.
    pub const LOWER: &str = "lower";
    /// The file, without debug sections.
    pub const CONTAINER: &str = "container";
    /// Debug sections.
    pub const DEBUG: &str = "debug";

    /// Runs `work` and counts its time.
    pub(crate) fn of<T>(&mut self, part: &'static str, options: &Options, work: impl FnOnce() -> T) -> T {
        let start = options.now();
        let result = work();
        self.count(part, options.now() - start);
        result
    }

    pub(crate) fn count(&mut self, part: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == part) {
            Some((_, sum)) => *sum += took,
            None => self.0.push((part, took)),
        }
    }

    /// Adds the times of another function.
    pub(crate) fn add(&mut self, other: &Times) {
        other.0.iter().for_each(|(part, took)| self.count(part, *took));
    }

    /// The time of one part.
    pub fn part(&self, part: &str) -> Duration {
        self.0.iter().filter(|(name, _)| *name == part).map(|(_, took)| *took).sum()
    }

    /// The sum of all parts.
    pub fn all(&self) -> Duration {
        self.0.iter().map(|(_, took)| *took).sum()
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let milliseconds = |d: &Duration| d.as_secs_f64() * 1e3;
        let all = milliseconds(&self.all());
        for (name, took) in &self.0 {
            let took = milliseconds(took);
            writeln!(f, "{took:>10.3} ms {:>5.1} %  {name}", 100.0 * took / all.max(1e-9))?;
        }
        writeln!(f, "{all:>10.3} ms 100.0 %  all")
    }
}
