//! The commands beside compiling: each is a row. What one prints goes to stdout; why it can't goes to stderr.

use crate::answer::Answer;
use crate::log::FAILED;
use crate::{disasm, inspect, opt, options, run, verify};
use std::io::Write;
use std::path::Path;

struct Tool {
    name: &'static str,
    about: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<Answer, String>,
}

const TOOLS: &[Tool] = &[
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
        name: "opt",
        about: "run passes on IR text",
        usage: opt::USAGE,
        run: |w| opt::opt(w).map(Answer::from),
    },
    Tool {
        name: "help",
        about: "explain a command, or every option (`help options`)",
        usage: HELP_USAGE,
        run: |w| help(w).map(Answer::from),
    },
];

const HELP_USAGE: &str = "\
usage: sassafras help [COMMAND | options]

Prints how COMMAND is called, or every option that ptxas takes with what comes of it here.
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
    let (name, words) = words.split_first()?;
    if binutils::TOOLS.iter().any(|tool| tool.name == name) {
        return call_as(name, words);
    }
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    let wants_help = words.iter().any(|word| word == "--help" || word == "-h");
    let result = if wants_help { Ok(tool.usage.to_string().into()) } else { (tool.run)(words) };
    Some(match result {
        Ok(answer) => {
            // A reader that closes the pipe early is no error of ours.
            let _ = std::io::stdout().write_all(answer.text.as_bytes());
            answer.code
        }
        Err(message) => {
            eprintln!("sassafras: {}", message.trim_end());
            FAILED
        }
    })
}

/// The commands, for the help text.
pub fn list() -> String {
    let row = |tool: &Tool| format!("  {:<9} {}\n", tool.name, tool.about);
    let of_toolkit = |tool: &binutils::Tool| format!("  {:<9} {}\n", tool.name, tool.about);
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
        [name, ..] => {
            let tool = TOOLS.iter().find(|tool| tool.name == name);
            let of_toolkit = binutils::TOOLS.iter().find(|tool| tool.name == name).map(|tool| tool.usage);
            tool.map(|tool| tool.usage)
                .or(of_toolkit)
                .map(str::to_string)
                .ok_or(format!("no command '{name}'\n{HELP_USAGE}{}", list()))
        }
    }
}
