//! `sassafras completions SHELL`: what a shell offers when the tab key is pressed. All of it is made from the tables of
//! options and commands.

use crate::hint::hint;
use crate::options::{Group, OPTIONS, Row};
use crate::tool::Tool;
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras completions bash | zsh | fish

Prints a script by which the shell completes options, their values and commands:

  bash   sassafras completions bash > ~/.local/share/bash-completion/completions/sassafras
  zsh    sassafras completions zsh > _sassafras, in a folder of $fpath
  fish   sassafras completions fish > ~/.config/fish/completions/sassafras.fish
";

pub fn completions(words: &[String], tools: &[Tool]) -> Result<String, String> {
    match words {
        [shell] if shell == "bash" => Ok(bash(tools)),
        [shell] if shell == "zsh" => Ok(zsh(tools)),
        [shell] if shell == "fish" => Ok(fish(tools)),
        [other] => {
            Err(format!("no shell '{other}' is known{}\n{USAGE}", hint(other, ["bash", "zsh", "fish"])))
        }
        _ => Err(format!("which shell?\n{USAGE}")),
    }
}

/// Options that people are offered: those of ptxas's help text and our own.
fn rows() -> impl Iterator<Item = &'static Row> {
    OPTIONS.iter().filter(|row| row.group != Group::Hidden)
}

/// The spellings of an option: `-arch` and `--gpu-name`.
fn spellings(row: &Row) -> Vec<String> {
    let short = (!row.short.is_empty()).then(|| format!("-{}", row.short));
    short.into_iter().chain([format!("--{}", row.long)]).collect()
}

fn takes_file(row: &Row) -> bool {
    row.value.starts_with("FILE")
}

fn bash(tools: &[Tool]) -> String {
    let mut script = String::from(
        "# bash completion for sassafras; `sassafras completions bash` prints it.\n\
         _sassafras() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n    \
         # The shell takes `=` for a word of its own.\n    \
         if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n    \
         if (( COMP_CWORD > 1 )); then\n        case ${COMP_WORDS[1]} in\n",
    );
    for tool in tools {
        let _ = writeln!(
            script,
            "            {}) [[ $cur == -* ]] && COMPREPLY=($(compgen -W '{}' -- \"$cur\")) || \
             COMPREPLY=($(compgen -f -W '{}' -- \"$cur\")); return;;",
            tool.name,
            tool.options().join(" "),
            tool.words().join(" ")
        );
    }
    script += "        esac\n    fi\n    case $prev in\n";
    for row in rows() {
        let names = spellings(row).join("|");
        let allowed = row.allowed();
        if !allowed.is_empty() {
            let _ = writeln!(
                script,
                "        {names}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return;;",
                allowed.join(" ")
            );
        } else if takes_file(row) {
            let _ = writeln!(script, "        {names}) COMPREPLY=($(compgen -f -- \"$cur\")); return;;");
        }
    }
    let options: Vec<String> = rows().flat_map(spellings).collect();
    let commands: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let _ = write!(
        script,
        "    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W '{}' -- \"$cur\"))\n    \
         elif (( COMP_CWORD == 1 )); then\n        COMPREPLY=($(compgen -f -W '{}' -- \"$cur\"))\n    \
         else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}}\n\
         complete -o filenames -F _sassafras sassafras\n",
        options.join(" "),
        commands.join(" ")
    );
    script
}

/// A text in single quotes, for all three shells.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn zsh(tools: &[Tool]) -> String {
    let mut script = String::from(
        "#compdef sassafras\n# zsh completion for sassafras; `sassafras completions zsh` prints it.\n\
         _sassafras() {\n    if (( CURRENT > 2 )); then\n        case $words[2] in\n",
    );
    for tool in tools {
        let _ = writeln!(
            script,
            "            {}) compadd -- {} {}; _files; return;;",
            tool.name,
            tool.options().join(" "),
            tool.words().join(" ")
        );
    }
    script += "        esac\n    elif [[ $words[2] != -* ]]; then\n        local -a commands=(\n";
    for Tool { name, about, .. } in tools {
        let _ = writeln!(script, "            {}", quote(&format!("{name}:{about}")));
    }
    script += "        )\n        _describe command commands\n    fi\n    _arguments \\\n";
    for row in rows() {
        let help = row.help.replace(['[', ']'], "").replace(':', "\\:");
        for name in spellings(row) {
            let allowed = row.allowed();
            let value = match () {
                _ if row.value.is_empty() => String::new(),
                _ if !allowed.is_empty() => format!(":value:({})", allowed.join(" ")),
                _ if takes_file(row) => ":file:_files".into(),
                _ => format!(":{}: ", row.value.replace(':', "\\:")),
            };
            let equals = if row.value.is_empty() { "" } else { "=" };
            let _ = writeln!(script, "        {} \\", quote(&format!("*{name}{equals}[{help}]{value}")));
        }
    }
    script + "        '*:PTX file:_files -g \"*.ptx\"'\n}\n_sassafras \"$@\"\n"
}

fn fish(tools: &[Tool]) -> String {
    let mut script =
        String::from("# fish completion for sassafras; `sassafras completions fish` prints it.\n");
    for tool in tools {
        let (name, about) = (tool.name, quote(tool.about));
        let _ = writeln!(script, "complete -c sassafras -n __fish_use_subcommand -a {name} -d {about}");
        for option in tool.options() {
            let (kind, option) = match option.strip_prefix("--") {
                Some(long) => ("-l", long),
                None => ("-o", option.trim_start_matches('-')),
            };
            let _ = writeln!(
                script,
                "complete -c sassafras -n '__fish_seen_subcommand_from {name}' {kind} {option}"
            );
        }
        for word in tool.words() {
            let _ =
                writeln!(script, "complete -c sassafras -n '__fish_seen_subcommand_from {name}' -a {word}");
        }
    }
    for row in rows() {
        // What the shell calls an old-style option has one dash, however long its name is.
        let short = if row.short.is_empty() { String::new() } else { format!(" -o {}", row.short) };
        let allowed = row.allowed();
        let value = match () {
            _ if row.value.is_empty() => String::new(),
            _ if !allowed.is_empty() => format!(" -x -a {}", quote(&allowed.join(" "))),
            _ if takes_file(row) => " -r".into(),
            _ => " -x".into(),
        };
        let help = quote(row.help);
        let _ = writeln!(
            script,
            "complete -c sassafras -n __fish_use_subcommand -l {}{short}{value} -d {help}",
            row.long
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;
    use std::process::Command;

    /// What bash offers for a command line whose last word is to be completed.
    fn offered(line: &[&str]) -> Vec<String> {
        let words: Vec<String> = line.iter().map(|word| quote(word)).collect();
        let call = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}; _sassafras; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            bash(TOOLS),
            words.join(" "),
            line.len() - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &call]).output().expect("bash");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect()
    }

    #[test]
    fn bash_completes_options_values_and_commands() {
        assert_eq!(offered(&["sassafras", "--gpu"]), ["--gpu-name"]);
        assert_eq!(offered(&["sassafras", "-arch", "sm_90"]), ["sm_90", "sm_90a"]);
        assert_eq!(offered(&["sassafras", "-arch", "=", "sm_12"]).len(), 6);
        assert_eq!(offered(&["sassafras", "--diagnostics", "=", "j"]), ["json"]);
        assert_eq!(offered(&["sassafras", "--dump-ir", "=", "sched-p"]), ["sched-prepass"]);
        assert_eq!(offered(&["sassafras", "insp"]), ["inspect"]);
        assert_eq!(offered(&["sassafras", "disasm", "--li"]), ["--life", "--like-nvdisasm"]);
        assert_eq!(offered(&["sassafras", "completions", "zs"]), ["zsh"]);
    }

    /// There is no zsh or fish where the tests run: every option and command is in their scripts, and quotes are even.
    #[test]
    fn other_shells_have_all_names() {
        for script in [zsh(TOOLS), fish(TOOLS)] {
            for row in rows() {
                assert!(script.contains(row.long), "{}", row.long);
            }
            assert!(TOOLS.iter().all(|tool| script.contains(tool.name)));
            let odd = script
                .lines()
                .filter(|line| !line.starts_with('#'))
                .find(|line| line.replace("'\\''", "").matches('\'').count() % 2 != 0);
            assert_eq!(odd, None);
        }
    }
}
