//! The `sassafras` command: see the library.

mod allocator;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

// The unwinder from an archive: one library less to load.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a block without functions, for its attribute")]
#[link(name = "gcc_eh", kind = "static")]
unsafe extern "C" {}

fn main() -> ExitCode {
    // A bug is told like any other failure, and the callers of ptxas know one exit code for that.
    std::panic::set_hook(Box::new(|panic| {
        sassafras_cli::report_bug(panic);
        std::process::exit(sassafras_cli::FAILED.into());
    }));
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    ExitCode::from(sassafras_cli::command(&program, words.collect()))
}
