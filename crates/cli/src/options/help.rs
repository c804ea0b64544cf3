//! Texts for people: `--help`, `--version`, `--list-version`, `--help-tune`.

use super::parse::Given;
use super::ptxas_help;
use super::table::{Effect, Group, Id, Kind, OPTIONS, Row};
use ptx::Toolkit;
use sassafras::{Knob, Tuning};
use std::fmt::Write;

pub const GROUPS: &[(Group, &str)] = &[
    (Group::Files, "Files and machine"),
    (Group::Code, "Code"),
    (Group::Registers, "Registers"),
    (Group::Memory, "Caches"),
    (Group::Debug, "Debugging"),
    (Group::Messages, "Messages"),
    (Group::Information, "Information"),
    (Group::Own, "Beyond ptxas"),
];

/// What the command line wants to know instead of a cubin. Help goes first, and answers a command line without input; it
/// lists the commands beside compiling, too.
///
/// `commands` is `None` if the command is called ptxas: then the text is laid out as ptxas's.
pub fn requested(given: &Given, commands: Option<&str>) -> Option<String> {
    let has_input = !given.inputs.is_empty() || given.has(Id::InputStrings);
    let help = |commands: Option<&str>| commands.map_or_else(ptxas_help::text, help);
    match () {
        _ if given.has(Id::Help) => Some(help(commands)),
        _ if given.has(Id::HelpPasses) => Some(sassafras::help_passes()),
        _ if given.has(Id::Version) => Some(version(given.toolkit().unwrap_or(Toolkit::USUAL))),
        _ if given.has(Id::ListVersion) => Some(versions(given.toolkit().unwrap_or(Toolkit::USUAL))),
        _ if given.has(Id::HelpTune) => Some(tuning()),
        _ if !has_input => Some(help(commands)),
        _ => None,
    }
}

/// Callers find the release that we stand in for: Triton looks for `release M.m`, XLA for `VM.m.p` as a word.
fn version(toolkit: Toolkit) -> String {
    let (release, full) = (toolkit.name(), toolkit.full_version());
    format!(
        "sassafras {}, an open PTX compiler, not made by NVIDIA\n\
         Stands in for ptxas of the Cuda compilation tools, release {release}, V{full}\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The versions of that release: who asks wants to know what to write.
fn versions(toolkit: Toolkit) -> String {
    toolkit.versions().map(|version| format!("{version}\n")).collect()
}

fn tuning() -> String {
    let line = |knob: &Knob| {
        let Knob { name, default, unit, meaning, origin } = knob;
        format!("{name}={default}  ({unit})\n    {meaning}\n    {origin}\n")
    };
    Tuning::KNOBS.iter().map(line).collect()
}

fn help(commands: &str) -> String {
    let mut text = String::from(
        "sassafras, an open PTX compiler with ptxas's options\n\n\
         usage: sassafras [OPTION]... FILE.ptx...   compile to a cubin; '-' is the standard input\n       \
         sassafras COMMAND ...               look at what was compiled\n\n\
         For example: sassafras -arch=sm_90 -v kernel.ptx -o kernel.cubin\n",
    );
    text += commands;
    text += "\nThe options are those of ptxas. A value follows after '=' or is the next word; it is glued to -O and -m.\n\
             * has no effect here, ! is refused: `sassafras help options` says why.\n";
    for (group, title) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for row in OPTIONS.iter().filter(|row| row.group == *group) {
            let mark = match row.effect {
                Effect::Done => "",
                Effect::None(_) => "*",
                Effect::WarnedFor(..) => "",
                Effect::Missing => "!",
            };
            option(&mut text, row, mark, row.help);
        }
    }
    text += "\n`sassafras help options` lists the options that ptxas does not document, too.\n\
             Messages have codes: `sassafras explain E0301` explains one, `sassafras help messages` lists them.\n";
    text
}

/// `sassafras help options`: all of them, with what comes of each.
pub fn effects() -> String {
    let mut text = String::from("Every option that ptxas 13.0 accepts, and our own:\n\n");
    for row in OPTIONS {
        let effect = match row.effect {
            Effect::Done if row.group == Group::Own => "ours",
            Effect::Done if row.group == Group::Hidden && !row.help.is_empty() => row.help,
            Effect::Done => "as with ptxas",
            Effect::None(reason) => &format!("no effect: {reason}"),
            Effect::Missing => "not supported: refused",
            Effect::WarnedFor(value, reason) => &format!("as with ptxas; '{value}' has no effect: {reason}"),
        };
        option(&mut text, row, "", effect);
    }
    text
}

/// The column of the explanations, and how wide names may be to be on the same line.
const COLUMN: usize = 34;

fn option(text: &mut String, row: &Row, mark: &str, about: &str) {
    let names = match row.short {
        "" => format!("--{}", row.long),
        short if short == row.long => format!("-[-]{}", row.long),
        short => format!("-{short}, --{}", row.long),
    };
    let value = match row.kind {
        _ if row.value.is_empty() => String::new(),
        Kind::Optional => format!("[={}]", row.value),
        _ => format!(" {}", row.value),
    };
    let names = format!("{mark:1} {names}{value}");
    if names.len() < COLUMN {
        let _ = writeln!(text, "{names:<COLUMN$}{about}");
    } else {
        let _ = writeln!(text, "{names}\n{:COLUMN$}{about}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_by_callers() {
        let text = version(Toolkit::USUAL);
        let release = text.split("release ").nth(1).unwrap();
        assert!(release.starts_with("13.0,"), "Triton's pattern: release (\\d+\\.\\d+)");
        let is_full = |word: &str| word.strip_prefix('V').is_some_and(|v| v.split('.').count() == 3);
        assert_eq!(text.split_whitespace().filter(|word| is_full(word)).count(), 1, "XLA's pattern");
    }

    #[test]
    fn versions_as_ptxas_lists_them() {
        let usual = versions(Toolkit::USUAL);
        assert_eq!(usual.lines().count(), 44);
        assert!(usual.ends_with("8.7\n8.8\n9.0\n"));
        assert_eq!(versions(Toolkit::V13_4), usual + "9.1\n9.2\n9.3\n9.4\n");
    }

    #[test]
    fn help_has_every_documented_option() {
        let text = help("");
        for row in OPTIONS.iter().filter(|row| row.group != Group::Hidden) {
            assert!(
                text.contains(&format!("-{}", row.long)) || text.contains(&format!("]{}", row.long)),
                "{}",
                row.long
            );
        }
    }
}
