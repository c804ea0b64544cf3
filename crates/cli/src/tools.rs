//! The commands beside compiling: each is a row. What one prints goes to stdout; why it can't goes to stderr.

use crate::answer::Answer;
use crate::hint::hint;
use crate::log::FAILED;
use crate::messages::catalog;
use crate::tool::Tool;
use crate::{completions, disasm, doctor, explain, inspect, manual, opt, options, profile, run, verify};
use ptx::advice::nearest;
use std::io::Write;
use std::path::Path;

pub const TOOLS: &[Tool] = &[
    Tool {
        name: "disasm",
        about: "print the code of a cubin, with control codes",
        usage: disasm::DISASM_USAGE,
        run: |w| disasm::disasm(w).map(Answer::from),
    },
    Tool {
        name: "asm",
        about: "turn such a listing into code again",
        usage: disasm::ASM_USAGE,
        run: |w| disasm::asm(w).map(Answer::from),
    },
    Tool {
        name: "inspect",
        about: "print what is in a cubin, a fat binary or a host program",
        usage: inspect::USAGE,
        run: |w| inspect::inspect(w).map(Answer::from),
    },
    Tool {
        name: "verify",
        about: "check that the waits in a cubin cover every dependence",
        usage: verify::USAGE,
        run: verify::verify,
    },
    Tool {
        name: "run",
        about: "run kernels of a PTX file or a cubin, without a GPU",
        usage: run::USAGE,
        run: run::run,
    },
    Tool {
        name: "explain",
        about: "write a page that shows what becomes of a PTX file",
        usage: explain::USAGE,
        run: |w| explain::explain(w).map(Answer::from),
    },
    Tool {
        name: "profile",
        about: "predict how long kernels take on a GPU, and why",
        usage: profile::USAGE,
        run: profile::profile,
    },
    Tool {
        name: "opt",
        about: "run passes on IR text",
        usage: opt::USAGE,
        run: |w| opt::opt(w).map(Answer::from),
    },
    Tool {
        name: "doctor",
        about: "look for Triton, torch, JAX, nvcc and clang, and say how each calls us",
        usage: doctor::USAGE,
        run: doctor::doctor,
    },
    Tool {
        name: "completions",
        about: "print a script for bash, zsh or fish",
        usage: completions::USAGE,
        run: |w| completions::completions(w, TOOLS).map(Answer::from),
    },
    Tool {
        name: "man",
        about: "print a manual page",
        usage: manual::USAGE,
        run: |w| manual::man(w, TOOLS).map(Answer::from),
    },
    Tool {
        name: "help",
        about: "explain a command, or every option (`help options`)",
        usage: HELP_USAGE,
        run: |w| help(w).map(Answer::from),
    },
];

const HELP_USAGE: &str = "\
usage: sassafras help [COMMAND | options | messages]

Prints how COMMAND is called, every option that ptxas takes with what comes of it here, or the codes of all messages, of
which `sassafras explain CODE` says more.
";

/// Runs the tool of NVIDIA's toolkit that the command is called as; `None` if it is called otherwise.
pub fn call_as(program: &str, words: &[String]) -> Option<u8> {
    let name = Path::new(program).file_stem()?;
    let tool = binutils::TOOLS.iter().find(|tool| name == tool.name)?;
    Some(match (tool.run)(words) {
        Ok(answer) => {
            // A reader that closes the pipe early is no error of ours.
            let _ = std::io::stdout().write_all(&answer.text);
            answer.code
        }
        Err(message) => {
            eprintln!("{}", message.trim_end());
            FAILED
        }
    })
}

/// Runs the command that the words name; `None` if they are words for ptxas.
pub fn call(words: &[String]) -> Option<u8> {
    if let Some(code) = catalog::asked_for(words) {
        return Some(answer(catalog::explain(code).map(Answer::from)));
    }
    let (name, words) = words.split_first()?;
    if binutils::TOOLS.iter().any(|tool| tool.name == name) {
        return call_as(name, words);
    }
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    let wants_help = words.iter().any(|word| word == "--help" || word == "-h");
    let result = if wants_help { Ok(tool.usage.to_string().into()) } else { (tool.run)(words) };
    Some(answer(result.map_err(|message| with_near_option(tool, message))))
}

/// Prints, and says how the command ends.
fn answer(result: Result<Answer, String>) -> u8 {
    match result {
        Ok(answer) => {
            // A reader that closes the pipe early is no error of ours.
            let _ = std::io::stdout().write_all(answer.text.as_bytes());
            answer.code
        }
        Err(message) => {
            eprintln!("sassafras: {}", message.trim_end());
            FAILED
        }
    }
}

/// A message about an unknown option, with the option that may have been meant.
fn with_near_option(tool: &Tool, message: String) -> String {
    let Some(option) = message.strip_prefix("unknown option ").and_then(|rest| rest.lines().next()) else {
        return message;
    };
    match nearest(option, tool.options()) {
        Some(near) => message.replacen('\n', &format!("; did you mean {near}?\n"), 1),
        None => message,
    }
}

/// The commands, for the help text.
pub fn list() -> String {
    let row = |tool: &Tool| format!("  {:<11} {}\n", tool.name, tool.about);
    let of_toolkit = |tool: &binutils::Tool| format!("  {:<11} {}\n", tool.name, tool.about);
    format!(
        "\nCommands (`sassafras COMMAND --help` says more):\n{}",
        TOOLS.iter().map(row).collect::<String>()
            + &binutils::TOOLS.iter().map(of_toolkit).collect::<String>()
    )
}

fn help(words: &[String]) -> Result<String, String> {
    match words {
        [] => Ok(format!("{HELP_USAGE}{}", list())),
        [name] if name == "options" => Ok(options::help::effects()),
        [name] if name == "messages" => Ok(catalog::list()),
        [name, ..] => {
            let tool = TOOLS.iter().find(|tool| tool.name == name);
            let of_toolkit = binutils::TOOLS.iter().find(|tool| tool.name == name).map(|tool| tool.usage);
            let near = hint(name, TOOLS.iter().map(|tool| tool.name));
            tool.map(|tool| tool.usage)
                .or(of_toolkit)
                .map(str::to_string)
                .ok_or(format!("no command '{name}'{near}\n{HELP_USAGE}{}", list()))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_the_table() {
        let names: Vec<&str> = super::TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names, crate::tool::NAMES);
    }

    #[test]
    fn every_command_has_a_manual_page() {
        for name in super::list().lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
            let page = crate::manual::man(&[name.to_string()], super::TOOLS);
            assert!(page.is_ok_and(|page| page.starts_with(".TH SASSAFRAS-")), "{name}");
        }
    }
}
