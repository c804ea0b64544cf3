//! `--help` of the command that is called `ptxas`: the options of ptxas 13.0.88 in the layout of its help text, which
//! programs read (LLVM's lit takes the machines from it: all `'sm_…'` between `--gpu-name` and the next two dashes).
//! The sentences are ours.

use super::table::{Group, Id, OPTIONS, Row};
use std::fmt::Write;

/// Values that hold without the option, as ptxas's help text has them.
const DEFAULTS: &[(Id, &str)] = &[
    (Id::FastCompile, "'0'"),
    (Id::StackProtector, "false"),
    (Id::Fmad, "true"),
    (Id::Arch, "'sm_75'"),
    (Id::Machine, "64"),
    (Id::OptLevel, "3"),
    (Id::Output, "'elf.o'"),
    (Id::Pic, "false"),
    (Id::RegisterUsage, "5"),
];

/// Options whose allowed values ptxas's help text lists below the sentences.
const LISTED: &[Id] = &[Id::Arch, Id::Machine, Id::Sanitize];

/// Columns of the short name, of its end, and of the widest line of text.
const SHORT: usize = 52;
const END: usize = 80;
const WIDTH: usize = 80;
const INDENT: &str = "        ";

/// The whole text.
pub fn text() -> String {
    let mut text = String::from("\nUsage  : ptxas [options] <ptx file>,...\n\nOptions\n=======\n\n");
    let mut rows: Vec<&Row> =
        OPTIONS.iter().filter(|row| !matches!(row.group, Group::Hidden | Group::Own)).collect();
    rows.sort_by_key(|row| row.long);
    rows.into_iter().for_each(|row| option(&mut text, row));
    text
}

fn option(text: &mut String, row: &Row) {
    let value = if row.value.is_empty() { String::new() } else { format!(" <{}>", row.value) };
    let head = format!("{:<SHORT$}", format!("--{}{value}", row.long));
    let head = format!("{head}(-{})", row.short);
    let _ = writeln!(text, "{head:<END$}");
    paragraph(text, &sentence(row.help));
    if LISTED.contains(&row.id) {
        let quote =
            |value: &String| if value.parse::<i64>().is_ok() { value.clone() } else { format!("'{value}'") };
        let values: Vec<String> = row.allowed().iter().map(quote).collect();
        // ptxas puts no blank behind these commas, but breaks lines there.
        paragraph(text, &format!("Allowed values for this option:  {}.", values.join(",\u{1}")));
    }
    if let Some((_, default)) = DEFAULTS.iter().find(|(id, _)| *id == row.id) {
        paragraph(text, &format!("Default value:  {default}."));
    }
    text.push('\n');
}

fn sentence(help: &str) -> String {
    let mut letters = help.chars();
    // Dashes would end the section of `--gpu-name` for those who look for the next option.
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let text: String = first.into_iter().chain(letters).collect();
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// Breaks lines at blanks, and at marks of which nothing is printed.
fn paragraph(text: &mut String, words: &str) {
    let mut line = String::new();
    for part in words.split_inclusive([' ', '\u{1}']) {
        let shown = part.trim_end_matches('\u{1}');
        if !line.is_empty() && INDENT.len() + line.len() + shown.trim_end().len() > WIDTH {
            let _ = writeln!(text, "{INDENT}{}", line.trim_end());
            line.clear();
        }
        line += shown;
    }
    let _ = writeln!(text, "{INDENT}{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ptxas 13.0.88 says: for each option its names, the values that it lists, and the default.
    const PTXAS: &str = include_str!("../../tests/help/ptxas-13.0.txt");

    /// A line for each option of a help text: `--long (-short) allowed… default`.
    fn facts(text: &str) -> Vec<String> {
        let mut facts: Vec<String> = Vec::new();
        let mut listing = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if line.starts_with("--") {
                let short = words.iter().rfind(|word| word.starts_with("(-")).expect("a short name");
                facts.push(format!("{} {short}", words[0]));
                listing = false;
                continue;
            }
            let Some(last) = facts.last_mut() else { continue };
            listing |= line.contains("Allowed values for this option:");
            if let Some((_, default)) = line.split_once("Default value:") {
                last.push_str(&format!(" default {}", default.trim().trim_end_matches('.')));
                listing = false;
            } else if listing {
                let list = line.split_once("option:").map_or(line, |(_, list)| list);
                last.push_str(&format!(" {}", list.trim()));
                listing &= !line.ends_with('.');
            }
        }
        facts.iter().map(|fact| fact.replace(", '", ",'").replace(". default", " default")).collect()
    }

    #[test]
    fn the_facts_are_those_of_ptxas() {
        let ours: Vec<String> =
            facts(&text()).iter().map(|fact| fact.trim_end_matches('.').to_string()).collect();
        assert_eq!(ours.join("\n"), PTXAS.trim_end());
    }

    /// The expression of LLVM's `llvm/test/lit.cfg.py`: `--gpu-name(.*?)--`, and in that `'sm_(\d+[af]?)'`.
    #[test]
    fn lit_finds_the_machines() {
        let text = text();
        let section =
            text.split("--gpu-name").nth(1).and_then(|rest| rest.split("--").next()).expect("a section");
        let machines: Vec<&str> = section.split('\'').filter(|word| word.starts_with("sm_")).collect();
        // The default is named once more.
        assert_eq!(machines.len(), 24, "{machines:?}");
        assert!(machines.contains(&"sm_90a") && machines.contains(&"sm_121f"));
    }

    #[test]
    fn lines_are_not_wide() {
        assert!(text().lines().all(|line| line.starts_with("--") || line.len() <= WIDTH));
    }
}
