//! Control flow of a section: blocks, and where each goes.
//!
//! * A branch goes to its target, and on if it is conditional; an indirect branch to the targets that the cubin lists.
//! * BSYNC goes to the targets of the BSSYs that set its barrier register.
//! * A call within the section goes to the callee in a context of its own, and RET comes back after every call that
//!   the context was entered by. A context is the innermost `DEPTH` calls: deeper ones, recursion among them, share
//!   it. The return address is in a register that the caller sets, so ptxas also uses CALL as a far branch: a callee
//!   that never comes to a RET is one.
//! * A call that leaves the section, by a relocation or through a register, comes back to the next instruction; a RET
//!   that no call of the section leads to goes to code that is not here. What these meet there is unknown
//!   ([`Flow::leaves`]).

use super::Code;
use sass::{Inst, Kind, M, Op, PT, Role, WORD_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How deep calls are told apart.
const DEPTH: usize = 3;

/// The innermost calls on the way to a point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Context(u32);

impl Context {
    pub const ROOT: Context = Context(0);
}

/// A string of calls, and the contexts that the last of them was made in.
struct Calls {
    /// Blocks that end in the calls, innermost last.
    string: Vec<usize>,
    callers: BTreeSet<Context>,
}

/// The contexts that were met. The first is that of no call.
pub struct Contexts {
    met: Vec<Calls>,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts { met: vec![Calls { string: Vec::new(), callers: BTreeSet::new() }] }
    }
}

impl Contexts {
    /// The context of a call, and whether it can now return to a place that it could not return to before.
    fn enter(&mut self, from: Context, call: usize) -> (Context, bool) {
        let mut string = self.met[from.0 as usize].string.clone();
        string.push(call);
        if string.len() > DEPTH {
            string.remove(0);
        }
        let known = self.met.iter().position(|calls| calls.string == string);
        let index = known.unwrap_or_else(|| {
            self.met.push(Calls { string, callers: BTreeSet::new() });
            self.met.len() - 1
        });
        (Context(index as u32), self.met[index].callers.insert(from))
    }

    /// Where a RET goes: contexts, and the block of the call.
    fn callers(&self, context: Context) -> impl Iterator<Item = (Context, usize)> + '_ {
        let calls = &self.met[context.0 as usize];
        let last = calls.string.last().copied();
        calls.callers.iter().filter_map(move |&caller| Some((caller, last?)))
    }
}

/// What follows a block, beyond the instruction after it.
#[derive(Debug, Default)]
struct Exit {
    /// The block after it.
    next: Option<usize>,
    jumps: Vec<usize>,
    /// A call: the callee's block.
    callee: Option<usize>,
    returns: bool,
    /// A call that leaves the section.
    leaves: bool,
}

pub struct Flow {
    /// First instruction of each block, then the number of instructions.
    starts: Vec<usize>,
    exits: Vec<Exit>,
}

impl Flow {
    /// The blocks of a section, or the indirect branch whose targets are unknown.
    pub fn of(code: &Code) -> Result<Flow, usize> {
        let insts = &code.insts;
        let reconvergence = reconvergence_targets(insts);
        let mut starts = BTreeSet::from([0, insts.len()]);
        for (index, inst) in insts.iter().enumerate() {
            if is_control(inst.op()) {
                starts.insert(index + 1);
                starts.extend(jumps(code, index, &reconvergence)?);
            }
        }
        starts.retain(|&start| start <= insts.len());
        let starts: Vec<usize> = starts.into_iter().collect();
        let block_at =
            |index: usize| starts.binary_search(&index).ok().filter(|&block| block + 1 < starts.len());
        let mut exits = Vec::new();
        for (block, end) in starts.iter().skip(1).enumerate() {
            exits.push(exit(code, *end - 1, block, &reconvergence, &block_at)?);
        }
        let mut flow = Flow { starts, exits };
        for block in 0..flow.blocks() {
            if let Some(target) = flow.exits[block].callee.filter(|&callee| !flow.comes_back(callee)) {
                flow.exits[block].callee = None;
                flow.exits[block].jumps.push(target);
            }
        }
        Ok(flow)
    }

    /// Whether a RET can be reached from a block, calls taken as coming back.
    fn comes_back(&self, from: usize) -> bool {
        let mut seen = vec![false; self.blocks()];
        let mut open = vec![from];
        while let Some(block) = open.pop() {
            if std::mem::replace(&mut seen[block], true) {
                continue;
            }
            let exit = &self.exits[block];
            if exit.returns {
                return true;
            }
            open.extend(exit.jumps.iter().copied().chain(exit.next));
            open.extend(exit.callee.map(|_| block + 1).filter(|&back| back < self.blocks()));
        }
        false
    }

    pub fn blocks(&self) -> usize {
        self.exits.len()
    }

    pub fn block(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Where a block goes in a context.
    pub fn successors(&self, context: Context, block: usize, contexts: &mut Contexts) -> Successors {
        let exit = &self.exits[block];
        let mut to: Vec<_> = exit.jumps.iter().map(|&target| (context, target)).collect();
        to.extend(exit.next.map(|next| (context, next)));
        let mut again = None;
        if let Some(callee) = exit.callee {
            let (inside, may_return) = contexts.enter(context, block);
            to.push((inside, callee));
            again = Some(inside).filter(|_| may_return);
        }
        if exit.returns {
            let after = contexts.callers(context).map(|(outer, call)| (outer, call + 1));
            to.extend(after.filter(|&(_, back)| back < self.blocks()));
        }
        Successors { to, again }
    }

    /// Whether a block ends by going to code that is not here: in a call of such code, or in a RET to it.
    pub fn leaves(&self, context: Context, block: usize) -> bool {
        let exit = &self.exits[block];
        exit.leaves || exit.returns && context == Context::ROOT
    }

    /// Whether what is pending at the end of a block stays so on the way to the next.
    pub fn keeps(&self, block: usize) -> bool {
        !self.exits[block].leaves
    }

    pub fn returns(&self, block: usize) -> bool {
        self.exits[block].returns
    }
}

/// Where a block goes.
pub struct Successors {
    pub to: Vec<(Context, usize)>,
    /// A context that got a new caller: its RETs go there, too.
    pub again: Option<Context>,
}

fn is_control(op: Op) -> bool {
    use Op::*;
    matches!(op, BRA | BRX | BRXU | JMP | JMX | JMXU | CALL | RET | EXIT | BSYNC | WARPSYNC | BPT)
}

/// The targets of BSSY by barrier register.
fn reconvergence_targets(insts: &[Inst]) -> BTreeMap<i64, BTreeSet<usize>> {
    let mut targets: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
    for (index, inst) in insts.iter().enumerate().filter(|(_, inst)| inst.op() == Op::BSSY) {
        if let (Some(barrier), Some(target)) = (barrier(inst), relative(inst, index)) {
            targets.entry(barrier).or_default().insert(target);
        }
    }
    targets
}

fn barrier(inst: &Inst) -> Option<i64> {
    inst.operands().find(|(_, operand)| operand.kind == Kind::B).map(|(_, operand)| operand.value)
}

/// The instruction that a relative operand names.
fn relative(inst: &Inst, index: usize) -> Option<usize> {
    let (_, operand) = inst.operands().find(|(_, operand)| operand.kind == Kind::Relative)?;
    let target = (index as i64 + 1).checked_mul(WORD_BYTES as i64)?.checked_add(operand.value)?;
    usize::try_from(target / WORD_BYTES as i64).ok()
}

fn jumps(
    code: &Code,
    index: usize,
    reconvergence: &BTreeMap<i64, BTreeSet<usize>>,
) -> Result<Vec<usize>, usize> {
    let inst = &code.insts[index];
    Ok(match inst.op() {
        Op::BRX | Op::BRXU | Op::JMX | Op::JMXU => code.indirect.get(&index).ok_or(index)?.clone(),
        Op::BSYNC => {
            let targets = barrier(inst).and_then(|barrier| reconvergence.get(&barrier));
            // Compilers put BSYNC right before the meeting point, or name it as that point; then no other region can be
            // meant.
            match targets {
                Some(targets) if targets.contains(&(index + 1)) || targets.contains(&index) => {
                    vec![index + 1]
                }
                targets => targets.into_iter().flatten().copied().collect(),
            }
        }
        // The target of RET is the base that its register is added to.
        Op::RET => Vec::new(),
        _ => relative(inst, index).into_iter().collect(),
    })
}

fn exit(
    code: &Code,
    last: usize,
    block: usize,
    reconvergence: &BTreeMap<i64, BTreeSet<usize>>,
    block_at: &impl Fn(usize) -> Option<usize>,
) -> Result<Exit, usize> {
    let inst = &code.insts[last];
    let next = Some(block + 1).filter(|_| last + 1 < code.insts.len());
    if !is_control(inst.op()) {
        return Ok(Exit { next, ..Exit::default() });
    }
    let mut targets: Vec<usize> =
        jumps(code, last, reconvergence)?.into_iter().filter_map(block_at).collect();
    let conditional = is_conditional(inst);
    let falls = next.filter(|_| conditional);
    Ok(match inst.op() {
        Op::EXIT => Exit { next: falls, ..Exit::default() },
        Op::RET => Exit { next: falls, returns: true, ..Exit::default() },
        Op::CALL => match targets.pop() {
            Some(callee) => Exit { next: falls, callee: Some(callee), ..Exit::default() },
            None => Exit { next, leaves: true, ..Exit::default() },
        },
        Op::WARPSYNC | Op::BPT => Exit { next, jumps: targets, ..Exit::default() },
        _ => Exit { next: falls, jumps: targets, ..Exit::default() },
    })
}

/// Some threads may go on after the instruction.
fn is_conditional(inst: &Inst) -> bool {
    let guarded = inst.guard.predicate != PT || inst.guard.not;
    let by_operand = inst.operands().any(|(slot, operand)| match operand.kind {
        Kind::P | Kind::V => slot.role == Role::Use && (operand.value != i64::from(PT) || operand.is_not()),
        Kind::U => matches!(inst.op(), Op::BRA),
        _ => false,
    });
    guarded || by_operand || inst.has(M::DIV) || inst.has(M::CONV)
}
