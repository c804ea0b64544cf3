//! The `sassafras` command: called with ptxas's words it does what ptxas does.

mod disasm;
mod inspect;
mod listing;
mod options;
mod verify;

use options::{Command, Request};
use ptx::diag::{ABORTED, render_ptxas, render_rich};
use std::io::Write;
use std::process::ExitCode;

/// ptxas knows two exit codes.
const FAILED: u8 = 255;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    match words.split_first() {
        Some((first, rest)) if first == "disasm" => return tool(disasm::disasm(rest)),
        Some((first, rest)) if first == "asm" => return tool(disasm::asm(rest)),
        Some((first, rest)) if first == "inspect" => return tool(inspect::inspect(rest)),
        Some((first, rest)) if first == "verify" => return checked(verify::verify(rest)),
        _ => {}
    }
    let command = match options::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("ptxas fatal   : {message}");
            return ExitCode::from(FAILED);
        }
    };
    match command {
        Command::Help => print!("{}", options::HELP),
        Command::Version => print!("{}", options::VERSION),
        Command::Compile(request) => return compile(&request),
    }
    ExitCode::SUCCESS
}

/// Prints what a tool says, or why it can't.
fn tool(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => {
            // A reader that closes the pipe early is no error of ours.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("sassafras: {}", message.trim_end());
            ExitCode::from(FAILED)
        }
    }
}

/// The same for a tool that can find fault: then the exit code is 1.
fn checked(result: Result<(String, bool), String>) -> ExitCode {
    let clean = result.as_ref().is_ok_and(|(_, clean)| *clean);
    let printed = tool(result.map(|(text, _)| text));
    if clean || printed != ExitCode::SUCCESS { printed } else { ExitCode::FAILURE }
}

fn compile(request: &Request) -> ExitCode {
    for input in &request.inputs {
        if let Err(text) = compile_file(request, input) {
            eprint!("{text}");
            return ExitCode::from(FAILED);
        }
    }
    ExitCode::SUCCESS
}

/// `Err` with what goes to stderr.
fn compile_file(request: &Request, input: &str) -> Result<(), String> {
    let unreadable = |_| format!("ptxas fatal   : Input file '{input}' could not be opened\n{ABORTED}\n");
    let bytes = std::fs::read(input).map_err(unreadable)?;
    let source = ptx::source_text(&bytes).map_err(|d| format!("{}{ABORTED}\n", render_ptxas(input, &[d])))?;
    let options = ptx::Options { file: input.to_string(), check_only: request.parse_only };
    let parsed = ptx::parse(source, &options);
    let render = |diagnostics: &[ptx::Diagnostic]| match request.rich {
        true => render_rich(input, source, diagnostics),
        false => render_ptxas(input, diagnostics),
    };
    let front_end = render(&parsed.diagnostics);
    let Some(module) = parsed.module.as_ref().filter(|_| !parsed.failed()) else {
        return Err(format!("{front_end}{ABORTED}\n"));
    };
    if let Some(refusal) = parsed.refused_for(&request.arch) {
        return Err(format!("{front_end}ptxas fatal   : {refusal}\n"));
    }
    eprint!("{front_end}");
    if request.parse_only {
        return Ok(());
    }
    let options = sassafras::Options {
        target: request.target,
        command_line: request.command_line.clone(),
        verify: request.verify,
        dump: request.dump.clone(),
    };
    let output = sassafras::compile(source, module, &options);
    eprint!("{}", output.log);
    let Some(cubin) = output.cubin else { return Err(render(&output.diagnostics)) };
    let path = &request.output;
    std::fs::write(path, cubin)
        .map_err(|_| format!("ptxas fatal   : Output file '{path}' could not be opened\n"))
}
