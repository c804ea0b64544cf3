//! What the kernels of a cubin use, read off the cubin itself: for `-v`, and to keep to `-maxrregcount`.

use crate::log::{Log, Stop};
use crate::options::{Given, Id};
use cubin::inspect::KernelReport;

pub fn kernels(bytes: &[u8], log: &Log) -> Result<Vec<KernelReport>, Stop> {
    let unreadable = |error| log.fatal(&format!("Internal error: the cubin is not readable: {error}"));
    let images = cubin::inspect(bytes).map_err(unreadable)?.images;
    Ok(images.into_iter().filter_map(|image| image.cubin).flat_map(|cubin| cubin.kernels).collect())
}

/// XLA looks for the first three words.
pub fn check_registers(given: &Given, kernels: &[KernelReport], log: &Log) -> Result<(), Stop> {
    let Some(limit) = given.max_registers() else { return Ok(()) };
    match kernels.iter().find_map(|k| Some((&k.name, k.registers.filter(|used| *used > limit)?))) {
        Some((name, used)) => Err(log.fatal(&format!(
            "Register allocation failed: '{name}' needs {used} registers, {limit} are allowed"
        ))),
        None => Ok(()),
    }
}

pub fn report(given: &Given, kernels: &[KernelReport], seconds: f64, log: &Log) {
    if !given.has(Id::Verbose) {
        return;
    }
    if let Some(limit) = given.max_registers() {
        for KernelReport { name, .. } in kernels {
            // Both blanks are ptxas's.
            log.info(&format!(
                "Overriding maximum register limit 256 for '{name}' with  {limit} of maxrregcount option"
            ));
        }
    }
    // Module variables are not compiled yet, so there are no bytes of them.
    log.info("0 bytes gmem");
    // The kernels are compiled in one go: each gets its share of the time.
    let milliseconds = seconds * 1e3 / kernels.len().max(1) as f64;
    for kernel in kernels {
        let name = &kernel.name;
        log.info(&format!("Compiling entry function '{name}' for '{}'", given.arch().name));
        log.info(&format!("Function properties for {name}\n    {}", stack(kernel)));
        log.info(&usage(kernel));
        log.info(&format!("Compile time = {milliseconds:.3} ms"));
    }
}

/// Without a stack nothing is spilled. With one a cubin doesn't tell how much of it is for spilling.
fn stack(kernel: &KernelReport) -> String {
    match kernel.local_bytes.unwrap_or(0) {
        0 => "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads".into(),
        bytes => format!("{bytes} bytes stack frame"),
    }
}

/// ptxas names constant memory only before sm_90, which is not compiled for yet.
fn usage(kernel: &KernelReport) -> String {
    let mut text =
        format!("Used {} registers, used {} barriers", kernel.registers.unwrap_or(0), kernel.barriers);
    if let Some(bytes) = kernel.local_bytes.filter(|bytes| *bytes > 0) {
        text += &format!(", {bytes} bytes cumulative stack size");
    }
    if kernel.shared_bytes > 0 {
        text += &format!(", {} bytes smem", kernel.shared_bytes);
    }
    text
}
