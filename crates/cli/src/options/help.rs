//! Texts for people: `--help`, `--version`, `--list-version`.

use super::parse::Given;
use super::table::{Effect, Group, Id, OPTIONS, Row};
use crate::tools;
use ptx::Version;
use std::fmt::Write;

/// The release that we stand in for. Triton looks for `release M.m`, XLA for `VM.m.p` as a word.
const STANDS_IN_FOR: &str = "Stands in for ptxas of the Cuda compilation tools, release 13.0, V13.0.88";

const GROUPS: &[(Group, &str)] = &[
    (Group::Files, "Files and machine"),
    (Group::Code, "Code"),
    (Group::Registers, "Registers"),
    (Group::Memory, "Caches"),
    (Group::Debug, "Debugging"),
    (Group::Messages, "Messages"),
    (Group::Information, "Information"),
    (Group::Own, "Beyond ptxas"),
];

/// What the command line wants to know instead of a cubin. Help goes first, and answers a command line without input.
pub fn requested(given: &Given) -> Option<String> {
    let has_input = !given.inputs.is_empty() || given.has(Id::InputStrings);
    match () {
        _ if given.has(Id::Help) => Some(help()),
        _ if given.has(Id::Version) => Some(version()),
        _ if given.has(Id::ListVersion) => Some(versions()),
        _ if !has_input => Some(help()),
        _ => None,
    }
}

fn version() -> String {
    format!(
        "sassafras {}, an open PTX compiler, not made by NVIDIA\n{STANDS_IN_FOR}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn versions() -> String {
    let pairs =
        (1..=Version::CURRENT.major).flat_map(|major| (0..10).map(move |minor| Version::new(major, minor)));
    pairs.filter(|version| version.known()).map(|version| format!("{version}\n")).collect()
}

fn help() -> String {
    let mut text = String::from(
        "sassafras, an open PTX compiler with ptxas's options\n\n\
         Usage: sassafras [OPTION]... FILE.ptx...   compile to a cubin; '-' is the standard input\n       \
         sassafras COMMAND ...               look at what was compiled\n",
    );
    text += &tools::list();
    for (group, title) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        OPTIONS.iter().filter(|row| row.group == *group).for_each(|row| option(&mut text, row));
    }
    text += "\nA value follows after '=' or as the next word. `sassafras help options` lists the options that ptxas \
             accepts\nand does not document.\n";
    text
}

/// `sassafras help options`
pub fn hidden() -> String {
    let mut text = String::from("Options that ptxas accepts and does not document:\n");
    OPTIONS.iter().filter(|row| row.group == Group::Hidden).for_each(|row| option(&mut text, row));
    text
}

fn option(text: &mut String, row: &Row) {
    let short = if row.short.is_empty() { String::new() } else { format!("-{}, ", row.short) };
    let value = if row.value.is_empty() { String::new() } else { format!(" {}", row.value) };
    let names = format!("  {short}--{}{value}", row.long);
    let about = match row.effect {
        Effect::Done => row.help.to_string(),
        Effect::None(reason) => {
            [row.help, &format!("[no effect: {reason}]")].join(" ").trim_start().to_string()
        }
        Effect::Missing => [row.help, "[not supported: refused]"].join(" ").trim_start().to_string(),
    };
    if about.is_empty() {
        let _ = writeln!(text, "{names}");
    } else if names.len() < 32 {
        let _ = writeln!(text, "{names:<32} {about}");
    } else {
        let _ = writeln!(text, "{names}\n{:33}{about}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_by_callers() {
        let text = version();
        let release = text.split("release ").nth(1).unwrap();
        assert!(release.starts_with("13.0,"), "Triton's pattern: release (\\d+\\.\\d+)");
        let is_full = |word: &str| word.strip_prefix('V').is_some_and(|v| v.split('.').count() == 3);
        assert_eq!(text.split_whitespace().filter(|word| is_full(word)).count(), 1, "XLA's pattern");
    }

    #[test]
    fn versions_as_ptxas_lists_them() {
        assert_eq!(versions().lines().count(), 44);
        assert!(versions().ends_with("8.7\n8.8\n9.0\n"));
    }

    #[test]
    fn help_has_every_documented_option() {
        let text = help();
        for row in OPTIONS.iter().filter(|row| row.group != Group::Hidden) {
            assert!(text.contains(&format!("--{}", row.long)), "--{}", row.long);
        }
    }
}
