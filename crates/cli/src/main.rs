//! The `sassafras` command: called with ptxas's words it does what ptxas does.

mod allocator;
mod answer;
mod compile;
mod disasm;
mod doubles;
mod entries;
mod inputs;
mod inspect;
mod jobs;
mod listing;
mod log;
mod opt;
mod options;
mod run;
mod statistics;
mod tools;
mod trace;
mod usage;
mod verify;

use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    // A bug is told like any other failure, and the callers of ptxas know one exit code for that.
    std::panic::set_hook(Box::new(|panic| {
        log::Log::default().fatal(&format!("Internal error: {panic}"));
        std::process::exit(log::FAILED.into());
    }));
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    // Linked as ptxas, it is ptxas: a file may be called `disasm`.
    let is_ptxas = Path::new(&program).file_stem().is_some_and(|name| name == "ptxas");
    if let Some(exit_code) = (!is_ptxas).then(|| tools::call(&words)).flatten() {
        return exit_code;
    }
    match compile::run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(log::Stop) => ExitCode::from(log::FAILED),
    }
}
