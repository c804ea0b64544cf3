//! What functions use, as `-v` prints it, and the warnings about local memory.

use crate::log::{Log, Stop};
use crate::options::{Given, Id};
use cubin::{Body, Object, Section};
use sassafras::Usage;

/// XLA looks for the first three words.
pub fn check_registers(functions: &[Usage], log: &Log) -> Result<(), Stop> {
    // What a function calls has limits of its own.
    let is_over = |function: &&Usage| !function.calls_others && function.registers > function.max_registers;
    match functions.iter().find(is_over) {
        Some(Usage { name, registers, max_registers, .. }) => Err(log.fatal(&format!(
            "Register allocation failed: '{name}' needs {registers} registers, {max_registers} are allowed"
        ))),
        None => Ok(()),
    }
}

/// `--warn-on-local-memory-usage`, `--warn-on-spills`, and that of a stack of unknown size.
pub fn warn(given: &Given, functions: &[Usage], log: &mut Log) {
    for function in functions.iter().rev() {
        let Usage { name, frame_bytes, spill_stores, spill_loads, .. } = function;
        if given.has(Id::WarnLocalMemory) && *frame_bytes > 0 {
            log.warning(&format!(
                "Local memory used for function '{name}', size of stack frame: {frame_bytes} bytes"
            ));
        }
        if given.has(Id::WarnSpills) && spill_stores + spill_loads > 0 {
            log.warning(&format!(
                "Registers are spilled to local memory in function '{name}', {}",
                spills(function)
            ));
        }
    }
    // ptxas says so only with -g.
    let is_wanted = given.has(Id::DeviceDebug) && !given.has(Id::StackSizeWarning);
    for function in functions.iter().filter(|f| is_wanted && f.entry && f.stack_bytes.is_none()) {
        log.warning(&format!(
            "Stack size for entry function '{}' cannot be statically determined",
            function.name
        ));
    }
}

fn spills(function: &Usage) -> String {
    format!("{} bytes spill stores, {} bytes spill loads", function.spill_stores, function.spill_loads)
}

/// `-v`. ptxas prints kernels from last to first. Behind a kernel it has the functions that it can call; in an object
/// for the linker each function is listed for itself, before the kernels; so it does in a patch for tools, which has
/// none.
pub struct Report<'a> {
    pub given: &'a Given,
    pub functions: &'a [Usage],
    pub sections: Sections,
    pub log: &'a Log,
}

impl Report<'_> {
    pub fn print(&self) {
        let Report { given, functions, sections, log } = self;
        let sm = given.arch().target.sm();
        let global = sections.size(".nv.global") + sections.size(".nv.global.init");
        log.info(&format!("{global} bytes gmem{}", sections.constant_banks(sm, "")));
        if given.relocatable() || given.has(Id::ToolsPatch) {
            for function in functions.iter().rev().filter(|function| !function.entry) {
                self.properties(function);
                self.time(function);
            }
        }
        for kernel in functions.iter().rev().filter(|function| function.entry) {
            self.kernel(kernel, sm);
            kernel.callees.iter().filter_map(|f| functions.get(*f)).for_each(|f| self.properties(f));
        }
    }

    fn kernel(&self, kernel: &Usage, sm: u16) {
        let Report { given, sections, log, .. } = self;
        let Usage { name, registers, barriers, shared_bytes, .. } = kernel;
        log.info(&format!("Compiling entry function '{name}' for '{}'", given.arch().name));
        self.properties(kernel);
        let mut text = format!("Used {registers} registers, used {barriers} barriers");
        // The linker knows more.
        if let Some(stack) = kernel.stack_bytes.filter(|bytes| *bytes > 0 && !given.relocatable()) {
            text += &format!(", {stack} bytes cumulative stack size");
        }
        if *shared_bytes > 0 {
            text += &format!(", {shared_bytes} bytes smem");
        }
        log.info(&format!("{text}{}", sections.constant_banks(sm, &format!(".{name}"))));
        self.time(kernel);
    }

    fn properties(&self, function: &Usage) {
        let Usage { name, frame_bytes, .. } = function;
        let spills = spills(function);
        self.log
            .info(&format!("Function properties for {name}\n    {frame_bytes} bytes stack frame, {spills}"));
    }

    fn time(&self, function: &Usage) {
        self.log.info(&format!("Compile time = {:.3} ms", function.time.as_secs_f64() * 1e3));
    }
}

/// The names and sizes of a cubin's sections.
pub struct Sections(Vec<(String, u64)>);

impl Sections {
    pub fn of(cubin: &[u8], log: &Log) -> Result<Sections, Stop> {
        let unreadable = |error| log.fatal(&format!("Internal error: the cubin is not readable: {error}"));
        let object = Object::read(cubin).map_err(unreadable)?;
        Ok(Sections(object.sections.iter().map(|section| (section.name.clone(), size(section))).collect()))
    }

    fn size(&self, name: &str) -> u64 {
        self.0.iter().find(|(known, _)| known == name).map_or(0, |(_, size)| *size)
    }

    /// `, 364 bytes cmem[0], 8 bytes cmem[2]`: not every target names constant memory. A module's banks have no
    /// suffix, a kernel's have its name.
    fn constant_banks(&self, sm: u16, suffix: &str) -> String {
        let named = targets::Target::of_sm(sm).is_some_and(|target| target.reports_constant_banks);
        let banks = (0..18).filter(|_| named);
        let sized = banks.map(|bank| (bank, self.size(&format!(".nv.constant{bank}{suffix}"))));
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
