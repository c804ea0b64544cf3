//! Passes on IR text: the library side of `sassafras opt` and of the IR file tests (`tests/ir`).
//!
//! Reads functions in the text form of `ori`, runs the named passes on each, and prints them: as Ori, or after the first
//! machine pass, `regalloc`, as machine code (`mach/text.rs`). The verifier runs on the input and after every pass. Passes see the same context as in a compilation, with the limits that the options give;
//! the text has no launch bounds of its own. Linear in the text, beside the passes.

use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, JumpTables, Options};
use crate::lower::Kernel;
use crate::mach::unit::Unit;
use crate::module::launch_bounds;
use crate::passes;
use ori::parse::ParseError;
use ori::{Function, Op, Pseudo};
use std::fmt;

/// Why passes on IR text gave no result.
#[derive(Debug)]
pub enum OptError {
    /// The text is not in the text form of the IR.
    Parse(ParseError),
    /// There is no pass of this name.
    UnknownPass(String),
    /// There is no code generator for this target.
    UnknownTarget(&'static str),
    /// A pass failed, or the verifier rejects the input or what a pass made of it.
    Pass(String),
}

impl fmt::Display for OptError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            OptError::Parse(error) => error.fmt(f),
            OptError::UnknownPass(name) => write!(f, "unknown pass '{name}'"),
            OptError::UnknownTarget(name) => write!(f, "no code generator for '{name}'"),
            OptError::Pass(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for OptError {}

/// Runs passes, in the order given, on the functions of an IR text, and prints the result.
///
/// Of the options, the target, the level, the fuel, the tuning and the limit on registers count.
///
/// ```
/// use sassafras::{Options, opt_text, ptx};
///
/// let source = "function f {\nb0:\n    v0:R = MOV 0x1\n    exit\n}\n";
/// let options = Options::new(ptx::Target::find("sm_90").expect("a target"));
/// let text = opt_text(source, &["dce"], &options).expect("a function");
/// assert_eq!(text, "function f {\nb0:\n    exit\n}\n");
/// ```
pub fn opt_text(source: &str, passes: &[&str], options: &Options) -> Result<String, OptError> {
    if let Some(unknown) = passes.iter().find(|name| !pass_names().any(|known| known == **name)) {
        return Err(OptError::UnknownPass(unknown.to_string()));
    }
    let machine = TargetMachine::of(options.target).ok_or(OptError::UnknownTarget(options.target.name()))?;
    let registers = options.launch.max_registers.unwrap_or(launch_bounds::MOST);
    let mut texts = Vec::new();
    for function in ori::parse::parse(source).map_err(OptError::Parse)? {
        let mut context = Context::new(machine, registers, options.tuning, Fuel::new(options.fuel));
        let mut unit = Unit::new(kernel(function), options, passes::compile_routine);
        if !unit.kernel.entry {
            context.jump_tables = JumpTables::None;
        }
        let text = passes::run_named(&mut unit, passes, &mut context);
        texts.push(text.map_err(|e| OptError::Pass(e.to_string()))?);
    }
    Ok(texts.join("\n"))
}

/// The names of the passes, in the order in which they run.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    passes::names()
}

/// The kernel or device function of an IR text, with nothing that only its container would know.
fn kernel(code: Function) -> Kernel {
    let has = |op: Pseudo| code.insts.keys().any(|inst| code.insts[inst].op == Op::Pseudo(op));
    let (entry, calls) = (!has(Pseudo::Entry), has(Pseudo::Call));
    Kernel { entry, calls, ..Kernel::new(code) }
}
