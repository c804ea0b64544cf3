//! The commands beside compiling: each is a row. What one prints goes to stdout; why it can't goes to stderr.

use crate::log::FAILED;
use crate::{disasm, inspect, options};
use std::io::Write;
use std::process::ExitCode;

struct Tool {
    name: &'static str,
    about: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<String, String>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "disasm", about: "a listing with control codes", usage: disasm::USAGE, run: disasm::disasm },
    Tool { name: "asm", about: "a listing back to words", usage: disasm::USAGE, run: disasm::asm },
    Tool {
        name: "inspect",
        about: "what is in a cubin, a fat binary or a host file",
        usage: inspect::USAGE,
        run: inspect::inspect,
    },
    Tool { name: "help", about: "help on a command", usage: HELP_USAGE, run: help },
];

const HELP_USAGE: &str = "\
usage: sassafras help [COMMAND]

Prints how COMMAND is called; `help options` lists every option of ptxas with what comes of it.
";

/// Runs the command that the words name; `None` if they are words for ptxas.
pub fn run(words: &[String]) -> Option<ExitCode> {
    let (name, words) = words.split_first()?;
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    let wants_help = words.iter().any(|word| word == "--help" || word == "-h");
    let result = if wants_help { Ok(tool.usage.to_string()) } else { (tool.run)(words) };
    Some(match result {
        Ok(text) => {
            // A reader that closes the pipe early is no error of ours.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("sassafras: {}", message.trim_end());
            ExitCode::from(FAILED)
        }
    })
}

/// The commands, for the help text.
pub fn list() -> String {
    let row = |tool: &Tool| format!("  {:<9} {}\n", tool.name, tool.about);
    format!(
        "\nCommands (`sassafras COMMAND --help` says more):\n{}",
        TOOLS.iter().map(row).collect::<String>()
    )
}

fn help(words: &[String]) -> Result<String, String> {
    match words {
        [] => Ok(format!("{HELP_USAGE}{}", list())),
        [name] if name == "options" => Ok(options::help::effects()),
        [name, ..] => {
            let tool = TOOLS.iter().find(|tool| tool.name == name);
            tool.map(|tool| tool.usage.to_string())
                .ok_or(format!("no command '{name}'\n{HELP_USAGE}{}", list()))
        }
    }
}
