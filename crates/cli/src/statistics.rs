//! `--compiler-stats`: time by phase and by compile unit under ptxas's names, and memory of the whole run. Memory of a
//! single phase or unit is not counted.

use crate::log::Log;
use crate::options::{Given, Id};
use sassafras::{Times, Usage};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

pub struct Statistics<'a> {
    pub inputs: &'a [String],
    /// The whole run, and the front end's part of it.
    pub time: Duration,
    pub parse: Duration,
    /// What the code generator took.
    pub times: &'a Times,
    pub functions: &'a [Usage],
}

/// What `--compiler-stats` lists.
#[derive(Clone, Copy)]
struct Wanted {
    time: bool,
    memory: bool,
    phases: bool,
    units: bool,
}

impl Wanted {
    fn of(given: &Given) -> Wanted {
        let words = given.list(Id::Stats);
        let wants = |names: [&str; 2]| words.iter().any(|word| names.contains(&word.as_str()));
        Wanted {
            time: wants(["time", "t"]),
            memory: wants(["memory", "m"]),
            phases: wants(["phase-wise", "p"]),
            units: wants(["detailed", "d"]),
        }
    }
}

impl Statistics<'_> {
    /// Prints, or adds to `--compiler-stats-file`; `Err` with the name of a file that can't be written.
    pub fn report(&self, given: &Given, log: &Log) -> Result<(), String> {
        if !given.has(Id::Stats) {
            return Ok(());
        }
        let wanted = Wanted::of(given);
        let parts = [self.whole_time(wanted), whole_memory(wanted), self.units(given, wanted)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match given.word(Id::StatsFile).filter(|_| !parts.is_empty()) {
            Some(file) => self.append(file, wanted, &parts).map_err(|_| file.to_string()),
            None => {
                parts.iter().for_each(|text| log.info(&format!("STAT: {text}")));
                Ok(())
            }
        }
    }

    fn append(&self, file: &str, wanted: Wanted, parts: &[String]) -> std::io::Result<()> {
        let mut file = std::fs::File::options().append(true).create(true).open(file)?;
        let input = self.inputs.first().map_or("", String::as_str);
        for (index, text) in parts.iter().enumerate() {
            // ptxas names the input before each part, but once if the first is the time.
            if index == 0 || !wanted.time {
                writeln!(file, "{input} >>\n")?;
            }
            writeln!(file, "{text}")?;
        }
        Ok(())
    }

    fn whole_time(&self, wanted: Wanted) -> Option<String> {
        let mut text = format!("CompileTime = {:.6} ms", milliseconds(self.time));
        if wanted.phases {
            text += " (100%)\n";
            for (phase, time) in self.phases() {
                let percent = 100.0 * time.as_secs_f64() / self.time.as_secs_f64();
                let name = format!("{phase}-time");
                let _ = writeln!(text, "{name:<21} : {:.3} ms ({percent:.2}%)", milliseconds(time));
            }
        }
        wanted.time.then_some(text)
    }

    fn phases(&self) -> [(&'static str, Duration); 6] {
        let Unit { lower, optimize } = Unit::of(self.times);
        [
            ("Parse", self.parse),
            ("CompileUnitSetup", self.times.part(Times::SETUP)),
            ("DAGgen", lower),
            ("OCG", optimize),
            ("ELF", self.times.part(Times::CONTAINER)),
            ("DebugInfo", self.times.part(Times::DEBUG)),
        ]
    }

    /// What is compiled for itself: kernels, and functions in an object for the linker. To ptxas every other function is
    /// a part of the kernels that call it.
    fn units(&self, given: &Given, wanted: Wanted) -> Option<String> {
        if !wanted.units || !(wanted.time || wanted.memory) {
            return None;
        }
        let of_kind = |entry| self.functions.iter().filter(move |function| function.entry == entry);
        let functions = of_kind(false).filter(|_| given.relocatable());
        let units = of_kind(true).chain(functions).map(|unit| unit_text(unit, wanted));
        Some(units.fold(String::new(), |text, unit| text + "\n" + &unit))
    }
}

/// The parts of a compile unit as ptxas divides it.
struct Unit {
    lower: Duration,
    optimize: Duration,
}

impl Unit {
    fn of(times: &Times) -> Unit {
        let lower = times.part(Times::LOWER);
        let others = [Times::SETUP, Times::CONTAINER, Times::DEBUG].map(|part| times.part(part));
        Unit { lower, optimize: times.all().saturating_sub(lower + others.iter().sum()) }
    }
}

fn unit_text(unit: &Usage, wanted: Wanted) -> String {
    let mut text = format!("Compile-unit with entry {}", unit.name);
    if wanted.time {
        let _ = write!(text, "\n\tTotal Compile-Unit time        = {:.3} ms", milliseconds(unit.times.all()));
    }
    if wanted.time && wanted.phases {
        let Unit { lower, optimize } = Unit::of(&unit.times);
        // A function has no part of the file to itself.
        for (phase, time) in [("DAGgen", lower), ("OCG", optimize), ("ELF", Duration::ZERO)] {
            let name = format!("{phase}-time");
            let _ = write!(text, "\n\t\t{name:<22} : {:.3} ms", milliseconds(time));
        }
        text += "\n";
    }
    text
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn whole_memory(wanted: Wanted) -> Option<String> {
    let peak = if wanted.memory { peak_kilobytes() } else { None };
    peak.map(|kilobytes| format!("PeakMemoryUsage = {kilobytes}.000 KB"))
}

/// The most memory that the process had so far, where the system tells.
fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
