//! What the kernels of a cubin use, read off the cubin itself: for `-v`, and to keep to `-maxrregcount`.

use crate::log::{Log, Stop};
use crate::options::{Given, Id};
use cubin::inspect::{CubinReport, KernelReport};
use cubin::{Body, Object, Section};

/// The sizes in a cubin.
#[derive(Default)]
pub struct Usage {
    pub kernels: Vec<KernelReport>,
    sections: Vec<(String, u64)>,
}

impl Usage {
    /// Empty if nothing in the options asks for it.
    pub fn of(cubin: &[u8], given: &Given, log: &Log) -> Result<Usage, Stop> {
        if !given.has(Id::Verbose) && given.max_registers().is_none() {
            return Ok(Usage::default());
        }
        let unreadable = |error| log.fatal(&format!("Internal error: the cubin is not readable: {error}"));
        let object = Object::read(cubin).map_err(unreadable)?;
        let sections = object.sections.iter().map(|section| (section.name.clone(), size(section)));
        Ok(Usage { sections: sections.collect(), kernels: CubinReport::new(&object).kernels })
    }

    fn section(&self, name: &str) -> u64 {
        self.sections.iter().find(|(known, _)| known == name).map_or(0, |(_, size)| *size)
    }

    /// `, 364 bytes cmem[0], 8 bytes cmem[2]`: ptxas names constant memory only before sm_90. A module's banks have no
    /// suffix, a kernel's have its name.
    fn constant_banks(&self, sm: u16, suffix: &str) -> String {
        let banks = (0..18).filter(|_| sm < 90);
        let sized = banks.map(|bank| (bank, self.section(&format!(".nv.constant{bank}{suffix}"))));
        sized
            .filter(|(_, size)| *size > 0)
            .map(|(bank, size)| format!(", {size} bytes cmem[{bank}]"))
            .collect()
    }
}

/// Constants and variables are plain bytes; nothing else is asked for.
fn size(section: &Section) -> u64 {
    match &section.body {
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Zeros(size) => *size,
        _ => 0,
    }
}

/// XLA looks for the first three words.
pub fn check_registers(given: &Given, usage: &Usage, log: &Log) -> Result<(), Stop> {
    let Some(limit) = given.max_registers() else { return Ok(()) };
    match usage.kernels.iter().find_map(|k| Some((&k.name, k.registers.filter(|used| *used > limit)?))) {
        Some((name, used)) => Err(log.fatal(&format!(
            "Register allocation failed: '{name}' needs {used} registers, {limit} are allowed"
        ))),
        None => Ok(()),
    }
}

pub fn report(given: &Given, usage: &Usage, seconds: f64, log: &Log) {
    if !given.has(Id::Verbose) {
        return;
    }
    let arch = given.arch();
    let global = usage.section(".nv.global") + usage.section(".nv.global.init");
    log.info(&format!("{global} bytes gmem{}", usage.constant_banks(arch.target.sm(), "")));
    // The kernels are compiled in one go: each gets its share of the time.
    let milliseconds = seconds * 1e3 / usage.kernels.len().max(1) as f64;
    for kernel in &usage.kernels {
        let name = &kernel.name;
        let constants = usage.constant_banks(arch.target.sm(), &format!(".{name}"));
        log.info(&format!("Compiling entry function '{name}' for '{}'", arch.name));
        log.info(&format!("Function properties for {name}\n    {}", stack(kernel)));
        log.info(&format!("{}{constants}", kernel_usage(kernel)));
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

fn kernel_usage(kernel: &KernelReport) -> String {
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
