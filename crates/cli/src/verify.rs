//! `sassafras verify FILE... [--json]`: do the control codes of a cubin cover every dependence?
//!
//! Exit code 0: yes; 1: there are reports; 255: a file could not be verified.

use crate::answer::Answer;
use cubin::json::quoted;
use sim::verify::{Report, Short, Site, Verdict, verify as verify_cubin};
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras verify FILE... [--json]

Proves that stall counts and scoreboards cover every dependence on every path of the cubins' code, and that threads
which have diverged don't write over uniform registers that others read; reports the pairs of instructions where not.

  --json   print JSON
";

pub fn verify(words: &[String]) -> Result<Answer, String> {
    if let Some(option) = words.iter().find(|word| word.starts_with('-') && *word != "--json") {
        return Err(format!("unknown option {option}\n{USAGE}"));
    }
    let json = words.iter().any(|word| word == "--json");
    let files: Vec<&String> = words.iter().filter(|word| *word != "--json").collect();
    if files.is_empty() {
        return Err(format!("no file is given\n{USAGE}"));
    }
    let (mut parts, mut clean) = (Vec::new(), true);
    for file in files {
        let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let verdict = verify_cubin(&bytes).map_err(|error| format!("{file}: {error}"))?;
        clean &= verdict.reports.is_empty();
        parts.push(if json { object(file, &verdict) } else { text(file, &verdict) });
    }
    let out = if json { format!("[{}]\n", parts.join(",\n")) } else { parts.concat() };
    Ok(Answer { text: out, code: u8::from(!clean) })
}

fn text(file: &str, verdict: &Verdict) -> String {
    let mut out = String::new();
    for report in &verdict.reports {
        let _ = writeln!(out, "{report}");
    }
    let (instructions, reports) = (verdict.instructions, verdict.reports.len());
    let _ = writeln!(out, "{file}: sm_{}, {instructions} instructions, {reports} reports", verdict.sm);
    out
}

fn object(file: &str, verdict: &Verdict) -> String {
    let reports: Vec<String> = verdict.reports.iter().map(report).collect();
    format!(
        "{{\"file\":{},\"sm\":{},\"sections\":{},\"instructions\":{},\"reports\":[{}]}}",
        quoted(file),
        verdict.sm,
        verdict.sections,
        verdict.instructions,
        reports.join(",")
    )
}

fn report(report: &Report) -> String {
    let site = |site: &Site| format!("{{\"address\":{},\"text\":{}}}", site.address, quoted(&site.text));
    let registers: Vec<String> = report.registers.iter().map(|register| quoted(register)).collect();
    let missing = match report.short {
        Short::Signal(_) => "\"missing\":\"scoreboard\"".to_string(),
        Short::Cycles { have, need } => format!("\"missing\":\"cycles\",\"have\":{have},\"need\":{need}"),
        Short::Cached => "\"missing\":\"value\"".to_string(),
        Short::Unread => "\"missing\":\"reader\"".to_string(),
        Short::Arrival => "\"missing\":\"arrival\"".to_string(),
        Short::Divergent => "\"missing\":\"register\"".to_string(),
    };
    format!(
        "{{\"section\":{},\"relation\":{},\"registers\":[{}],\"first\":{},\"second\":{},{missing}}}",
        quoted(&report.section),
        quoted(&report.relation.to_string()),
        registers.join(","),
        site(&report.first),
        site(&report.second)
    )
}
