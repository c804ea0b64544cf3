//! `setmaxnreg`: reallocation of registers between the warps of a block.
//!
//! A warp starts with the registers of the launch. `.dec` releases some to the block's pool, `.inc` waits until the pool
//! has enough. The register limit at each program point is known at compile time ([`crate::regalloc`] obeys it) if the
//! limit at entry is. All rules and messages here were measured on ptxas 13.0 for sm_90a to sm_120a:
//!
//! - It is known from `.maxnreg`, from `.maxntid` or `.reqntid` together with `.minnctapersm`, and from `-maxrregcount`;
//!   threads per block alone don't count. Otherwise all `setmaxnreg` of the kernel are left out.
//! - No `.inc` can be to less than the limit at entry: a smaller one lowers that limit.
//! - The kernel's register count is the limit at entry, whatever its code uses.
//! - At a join, the least of the predecessors' limits holds.
//!
//! ptxas also follows calls within a module. We compile functions separately, with their own register counts, so that a
//! kernel with such calls keeps its registers; leaving out only some `setmaxnreg` could make an `.inc` wait forever.
//! Functions of the driver get by with the registers of the calling convention.

use crate::context::{Failure, Lines};
use crate::module::launch_bounds::Launch;
use ptx::ast::{Function, Inst, Item, Module, Operand, Stmt};

/// Whether a function's `setmaxnreg` are obeyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconfiguration {
    /// There are none.
    #[default]
    Unused,
    /// They are left out, with the reason.
    Ignored(&'static str),
    /// They are obeyed. The register limit at entry.
    From(u32),
}

const ACROSS_UNITS: &str = "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across \
                            compilation units.";
const INTO_CALL: &str =
    "(C7506) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility into 'extern' call.";
const UNKNOWN_START: &str =
    "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";

impl Reconfiguration {
    /// `Err` if a `.dec` is to more registers than a thread ever has.
    pub fn plan(
        (module, lines): (&Module, &Lines),
        relocatable: bool,
        function: &Function,
        launch: &Launch,
    ) -> Result<Reconfiguration, Failure> {
        let (increases, decreases) = (counts(module, function, INCREASE), counts(module, function, DECREASE));
        if increases.is_empty() && decreases.is_empty() {
            return Ok(Reconfiguration::Unused);
        }
        let calls = instructions(module, function)
            .any(|(name, i)| name == "call" && !calls_driver(module, function, i));
        let start = launch.registers_at_start().filter(|_| function.entry);
        let ignored = |why| Ok(Reconfiguration::Ignored(why));
        let start = match start {
            _ if relocatable => return ignored(ACROSS_UNITS),
            _ if calls => return ignored(INTO_CALL),
            None => return ignored(UNKNOWN_START),
            Some(start) => increases.iter().map(|(n, _)| *n).fold(start, u32::min),
        };
        let most = increases.iter().map(|(n, _)| *n).fold(start, u32::max);
        match decreases.iter().find(|(count, _)| *count > most) {
            None => Ok(Reconfiguration::From(start)),
            Some((count, inst)) => Err(Failure {
                line: lines.line(inst.span.start),
                span: inst.span,
                message: format!(
                    "(C7406) setmaxnreg.dec has register count ({count}) which is larger than the largest temporal \
                     register count in the program ({most})"
                ),
            }),
        }
    }
}

/// Is the callee a function of the driver? An executable has a body for all others.
fn calls_driver(module: &Module, function: &Function, call: &Inst) -> bool {
    let operands = function.body.as_ref().map_or(&[][..], |body| body.list(call.operands));
    let callee = operands.iter().find(|o| !matches!(o, Operand::List(_)));
    let Some(Operand::Symbol(symbol)) = callee else { return false };
    let is_here = |item: &Item| match item {
        Item::Function(f) => f.symbol == *symbol && f.body.is_some(),
        Item::Alias(alias) => alias.alias == *symbol,
        _ => false,
    };
    !module.items.iter().any(is_here)
}

pub const INCREASE: &str = "setmaxnreg.inc";
pub const DECREASE: &str = "setmaxnreg.dec";

fn instructions<'a>(
    module: &'a Module,
    function: &'a Function,
) -> impl Iterator<Item = (&'static str, &'a Inst)> {
    let inst = |stmt: &'a Stmt| match stmt {
        Stmt::Inst(inst) => Some((module.opcodes[inst.opcode.0 as usize].mnemonic, inst)),
        _ => None,
    };
    function.body.iter().flat_map(|body| &body.stmts).filter_map(inst)
}

/// The register counts that instructions of this name ask for.
fn counts<'a>(module: &'a Module, function: &'a Function, name: &str) -> Vec<(u32, &'a Inst)> {
    let count = |inst: &Inst| match function.body.as_ref()?.list(inst.operands).first()? {
        Operand::Int { value, .. } => Some(*value as u32),
        _ => None,
    };
    let named = instructions(module, function).filter(|(found, _)| *found == name);
    named.filter_map(|(_, inst)| Some((count(inst)?, inst))).collect()
}
