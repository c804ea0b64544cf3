//! `sassafras man`: manual pages, made from the tables of options and commands.

use crate::hint::hint;
use crate::options::{Group, OPTIONS, Row, help};
use crate::tool::Tool;
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras man [COMMAND]

Prints the manual page of the compiler, or of a command, for `man -l -` and for packages.
";

pub fn man(words: &[String], tools: &[Tool]) -> Result<String, String> {
    match words {
        [] => Ok(compiler(tools)),
        [name] => {
            let own = tools.iter().map(|tool| (tool.name, tool.about, tool.usage));
            let of_toolkit = binutils::TOOLS.iter().map(|tool| (tool.name, tool.about, tool.usage));
            let known = own.chain(of_toolkit).find(|(known, ..)| known == name);
            let near = hint(name, tools.iter().map(|tool| tool.name));
            known.map(command).ok_or(format!("no command '{name}'{near}\n{USAGE}"))
        }
        _ => Err(format!("one command at a time\n{USAGE}")),
    }
}

/// The head of a page. There is no date in it: the same version makes the same page.
fn head(name: &str, about: &str) -> String {
    let title = name.to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {title} 1 \"\" \"Sassafras {version}\" \"Sassafras\"\n.SH NAME\n{} \\- {}\n",
        roff(name),
        roff(about)
    )
}

/// Text without a meaning for the formatter.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

fn compiler(tools: &[Tool]) -> String {
    let mut page = head("sassafras", "an open PTX compiler with ptxas's options");
    page += ".SH SYNOPSIS\n.B sassafras\n[\\fIOPTION\\fR]... \\fIFILE.ptx\\fR...\n.br\n.B sassafras\n\\fICOMMAND\\fR ...\n";
    page += ".SH DESCRIPTION\nReads PTX, the text that CUDA compilers produce, and writes a cubin, the machine code file that \
             the CUDA driver loads onto an NVIDIA GPU.\nCalled by a name that ends in \\fBptxas\\fR it takes ptxas's words \
             only; its messages and exit codes are ptxas's.\nThe file \\(aq\\-\\(aq is the standard input.\n";
    page += ".SH COMMANDS\n";
    for Tool { name, about, .. } in tools {
        let _ = write!(page, ".TP\n.B sassafras {name}\n{}\n", roff(about));
    }
    page +=
        ".SH OPTIONS\nA value follows after \\(aq=\\(aq or is the next word; it is glued to \\-O and \\-m.\n";
    for (group, title) in help::GROUPS {
        let _ = writeln!(page, ".SS {title}");
        OPTIONS.iter().filter(|row| row.group == *group).for_each(|row| option(&mut page, row));
    }
    page += ".SH EXIT STATUS\n0, or 255 if there was an error: then no cubin is written.\n";
    page +=
        ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf set and not empty, messages on a terminal have no colours.\n";
    page += ".TP\n.B MAKEFLAGS\nBelow \\fBmake \\-j\\fR, its job server says how many threads compile.\n";
    page += ".SH SEE ALSO\n";
    let pages: Vec<String> = tools.iter().map(|tool| format!(".BR sassafras\\-{} (1)", tool.name)).collect();
    page + &pages.join(",\n") + "\n"
}

fn option(page: &mut String, row: &Row) {
    debug_assert!(row.group != Group::Hidden);
    let long = format!("\\fB{}\\fR", roff(&format!("--{}", row.long)));
    let short = (!row.short.is_empty()).then(|| format!("\\fB{}\\fR, ", roff(&format!("-{}", row.short))));
    let value = if row.value.is_empty() { String::new() } else { format!(" \\fI{}\\fR", roff(row.value)) };
    let _ = write!(page, ".TP\n{}{long}{value}\n{}\n", short.unwrap_or_default(), roff(row.help));
}

/// The page of a command is what `--help` says, as it stands.
fn command((name, about, usage): (&str, &str, &str)) -> String {
    let mut page = head(&format!("sassafras-{name}"), about);
    page += ".SH DESCRIPTION\n.nf\n";
    for line in usage.lines() {
        page += &roff(line);
        page.push('\n');
    }
    page + ".fi\n.SH SEE ALSO\n.BR sassafras (1)\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;
    use std::process::Command;

    /// `man` formats every page without a warning, and nothing of the text is lost.
    #[test]
    fn pages_are_formatted() {
        let shown = |page: &str| {
            let file = std::env::temp_dir().join(format!("sassafras-man-{}.1", std::process::id()));
            std::fs::write(&file, page).expect("a file");
            let mut man = Command::new("man");
            man.args(["--warnings=w", "-E", "ascii", "-P", "cat", "-l"]).arg(&file);
            let output = man.env("MANWIDTH", "120").env("MAN_KEEP_FORMATTING", "").output().expect("man");
            std::fs::remove_file(&file).expect("removed");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let page = shown(&compiler(TOOLS));
        for row in OPTIONS.iter().filter(|row| row.group != Group::Hidden) {
            assert!(page.contains(&format!("--{}", row.long)), "--{}\n{page}", row.long);
        }
        for tool in TOOLS {
            let page = shown(&command((tool.name, tool.about, tool.usage)));
            let has = |word: &&str| page.contains(*word);
            let lost: Vec<&str> = tool.usage.split_whitespace().filter(|word| !has(word)).collect();
            assert!(lost.is_empty(), "{}: {lost:?}\n{page}", tool.name);
        }
    }
}
