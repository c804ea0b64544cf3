//! `--fdevice-time-trace`: adds what was done, and when, to a trace in Chrome's format that is there already. Names and
//! fields are ptxas's; functions that are compiled at the same time overlap.

use crate::options::{Given, Id};
use cubin::json::quoted;
use std::time::Duration;

/// The times of a compilation.
pub struct Trace<'a> {
    pub input: &'a str,
    /// By the compiler's clock, as all that follows.
    pub start: Duration,
    /// When the code generator began and ended.
    pub parsed: Duration,
    pub generated: Duration,
    pub end: Duration,
    pub functions: &'a [sassafras::Usage],
}

impl Trace<'_> {
    /// Extends the file that was named, or says what is wrong with it.
    pub fn write(&self, given: &Given) -> Result<(), String> {
        let Some(file) = given.word(Id::TimeTrace) else { return Ok(()) };
        let closed = || format!("File '{file}' could not be opened");
        let old = std::fs::read_to_string(file).map_err(|_| closed())?;
        let end = end_of_events(&old).ok_or_else(|| format!("Input file '{file}' not in expected format"))?;
        let (before, behind) = old.split_at(end);
        let comma = if before.trim_end().ends_with('[') { "" } else { "," };
        let pid = given.number(Id::TracePid).filter(|pid| *pid != 0);
        let events = self.events(pid.unwrap_or_else(|| std::process::id().into())).join(",");
        std::fs::write(file, format!("{before}{comma}{events}{behind}")).map_err(|_| closed())
    }

    fn events(&self, pid: i64) -> Vec<String> {
        let event = |name: &str, of: &str, from: Duration, time: Duration| {
            let (at, time) = (from.saturating_sub(self.start).as_micros(), time.as_micros());
            let of = quoted(of);
            format!(
                "{{\"args\":{{\"name\":{of}}},\"dur\":{time},\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":0,\"ts\":{at}}}"
            )
        };
        let mut all = vec![event("Total PTXAS Time", self.input, self.start, self.end - self.start)];
        for function in self.functions {
            all.push(event("Optimizing compilation unit", &function.name, function.start, function.time));
        }
        all.push(event("PTX parsing and setup time", "", self.start, self.parsed - self.start));
        all.push(event("Post processing", "", self.generated, self.end - self.generated));
        all
    }
}

/// Where the list of events ends, if the text has one.
fn end_of_events(text: &str) -> Option<usize> {
    const KEY: &str = "\"traceEvents\"";
    let after = text.find(KEY)? + KEY.len();
    let list = after + text[after..].find(|c: char| c != ':' && !c.is_whitespace())?;
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, c) in text[list..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (c == ']').then_some(list + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_list_is_found() {
        let end = |text| end_of_events(text).map(|at| &text[at..]);
        assert_eq!(end(r#"{"traceEvents":[]}"#), Some("]}"));
        assert_eq!(end(r#"{"a":[1],"traceEvents" : [{"x":["]\"]"]}, 2] ,"b":[3]}"#), Some(r#"] ,"b":[3]}"#));
        for bad in ["", "[]", r#"{"traceEvents":1}"#, r#"{"traceEvents":[{}"#] {
            assert_eq!(end(bad), None, "{bad}");
        }
    }
}
