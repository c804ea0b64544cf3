//! A return before the prologue: where every thread that calls a recursive function together ends the recursion, none of
//! them needs a frame (shrink wrapping of the base case; Chow, "Minimizing register usage penalty at procedure calls",
//! PLDI 1988). Half of the calls of a function that calls itself twice end the recursion.
//!
//! ```text
//! f: IADD3 R1, R1, -0x20, RZ                f: ISETP.LT P0, R4, RZ
//!    STL.128 [R1], R16                         VOTE.ALL P1, P0
//!    ISETP.LT P0, R4, RZ             =>        @!P1 BRA y
//!    BSSY B6, x; @P0 BRA x                     MOV R4, RZ; RET.ABS.NODEC R20
//!    …                                      y: IADD3 R1, R1, -0x20, RZ; STL.128 [R1], R16; BSSY B6, x; @P0 BRA x; …
//! x: BSYNC B6; MOV R4, RZ; …; RET
//! ```
//!
//! Where threads disagree, all of them go on as they would, and meet where they would: the vote costs two instructions
//! there. Only the first branch of a function is looked at.

use crate::context::target::TargetMachine;
use crate::mach::inst::{MachFunction, MachInst};
use crate::module::abi::Convention;
use crate::regalloc::reg_set::RegSet;
use ori::entity::Entity;
use ori::{Arg, Block, Function, Op, Pseudo, Terminator};
use sass::model::Touches;
use sass::{Guard, Kind, Model, Role};

/// The most instructions on the way out, which are there twice then.
const MOST_ON_WAY_OUT: usize = 8;
const PREDICATES: u8 = 7;

/// The return that can be made before there is a frame.
pub struct EarlyReturn {
    /// The instructions of the first block up to the branch; one that enters a convergence region is not among them.
    pub before: usize,
    /// Where threads return.
    pub condition: Guard,
    /// A predicate for the vote.
    pub vote: u8,
    /// What is executed until the return.
    pub way_out: Vec<MachInst>,
    /// The general registers that the instructions before the branch write. What is in them may be read after the
    /// prologue, which must not use them.
    written: RegSet,
}

impl EarlyReturn {
    /// Is a general register written before the prologue?
    pub fn writes(&self, register: u8) -> bool {
        self.written.meets(RegSet::of(register, 1))
    }
}

/// The early return of a function that calls itself, if its first branch leads to one.
pub fn find(
    function: &Function,
    code: &MachFunction,
    insts: &[Vec<MachInst>],
    machine: &TargetMachine,
) -> Option<EarlyReturn> {
    let own = Convention::own(function).filter(|own| !own.is_routine())?;
    if function.moving_stack || !calls_itself(function) || is_target(function) {
        return None;
    }
    let Terminator::Branch { negated, yes, no, .. } = &function.blocks[Function::ENTRY].end else {
        return None;
    };
    let first = &insts[Function::ENTRY.index()];
    let region = first.last().filter(|inst| inst.op == sass::Op::BSSY);
    let before = first.len() - usize::from(region.is_some());
    let needs_no_frame = |inst: &MachInst| needs_no_frame(inst, own, machine);
    if !first[..before].iter().all(needs_no_frame) {
        return None;
    }
    let mut written = RegSet::default();
    for inst in &first[..before] {
        let defs = touches(inst, machine)?.filter(|t| t.file == Kind::R && t.role == Role::Def);
        defs.for_each(|def| written.add(RegSet::of(def.first, def.count)));
    }
    let vote = insts.iter().flatten().flat_map(|inst| &inst.operands).filter(|o| o.kind == Kind::P);
    let named = vote.filter_map(|o| u8::try_from(o.value).ok()).filter(|p| *p < PREDICATES);
    let vote = named.chain(code.branches.iter().copied()).max().map_or(0, |most| most + 1);
    if vote >= PREDICATES {
        return None;
    }
    let barrier = region.and_then(|inst| inst.operands.iter().find(|o| o.kind == Kind::B));
    let is_left =
        |inst: &MachInst| inst.op == sass::Op::BSYNC && barrier.is_some_and(|b| inst.operands.contains(b));
    let predicate = code.branches[Function::ENTRY.index()];
    let ways = [(yes.to, *negated), (no.to, !negated)];
    ways.into_iter().find_map(|(to, not)| {
        let way_out: Vec<MachInst> =
            way_out(function, to, insts)?.into_iter().filter(|inst| !is_left(inst)).cloned().collect();
        let is_short = way_out.len() <= MOST_ON_WAY_OUT;
        let condition = Guard { predicate, not };
        (is_short && way_out.iter().all(needs_no_frame)).then_some(EarlyReturn {
            before,
            condition,
            vote,
            way_out,
            written,
        })
    })
}

fn calls_itself(function: &Function) -> bool {
    let mut insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.any(|inst| match function.insts[*inst].args.first() {
        Some(Arg::Address { symbol, .. }) if function.insts[*inst].op == Op::Pseudo(Pseudo::Call) => {
            function.symbols.get(*symbol as usize) == Some(&function.name)
        }
        _ => false,
    })
}

/// Does a block lead to the first one?
fn is_target(function: &Function) -> bool {
    let mut edges = function.blocks.keys().flat_map(|b| function.blocks[b].end.edges());
    edges.any(|edge| edge.to == Function::ENTRY)
}

/// The instructions from a block to the return, if there is no branch between.
fn way_out<'a>(
    function: &Function,
    mut block: Block,
    insts: &'a [Vec<MachInst>],
) -> Option<Vec<&'a MachInst>> {
    let mut all = Vec::new();
    loop {
        all.extend(&insts[block.index()]);
        // A region that is left, too.
        if all.len() > MOST_ON_WAY_OUT + 1 {
            return None;
        }
        match &function.blocks[block].end {
            Terminator::Jump(edge) => block = edge.to,
            Terminator::Return => return Some(all),
            Terminator::Branch { .. } | Terminator::Switch(_) | Terminator::Exit => return None,
        }
    }
}

/// Can an instruction be executed before registers are saved and the stack pointer moves?
fn needs_no_frame(inst: &MachInst, own: Convention, machine: &TargetMachine) -> bool {
    if inst.target.is_some()
        || inst.address.is_some()
        || matches!(inst.op, sass::Op::CALL | sass::Op::WARPSYNC | sass::Op::LDGSTS)
    {
        return false;
    }
    let Some(mut touches) = touches(inst, machine) else { return false };
    touches.all(|touch| {
        let mut registers = touch.first..=touch.first.saturating_add((touch.count.max(1) - 1) as u8);
        let is_kept = |r: u8| {
            r == Function::STACK_POINTER || touch.role == Role::Def && own.preserving_usual().is_saved(r)
        };
        match touch.file {
            Kind::R => !registers.any(is_kept),
            Kind::B => false,
            _ => true,
        }
    })
}

/// The registers that an instruction reads and writes.
fn touches(inst: &MachInst, machine: &TargetMachine) -> Option<Touches> {
    let selected = sass::Inst::new(machine.isa, inst.op, &inst.modifiers, &inst.operands).ok()?;
    Some(Model::of(machine.isa).touches(&selected))
}
