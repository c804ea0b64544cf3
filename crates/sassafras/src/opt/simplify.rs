//! Clean-up: copy propagation, trivial block parameter removal, straight-line block merging, and unreachable block
//! removal.
//!
//! A parameter is trivial if all its arguments are the same value, or the parameter itself around a loop (Braun et al.,
//! "Simple and Efficient Construction of Static Single Assignment Form"). That value dominates the block and replaces
//! the parameter. A block whose only predecessor jumps to it is merged into that predecessor. An unreachable block is
//! emptied, because passes that follow the CFG would leave its instructions with stale operands.
//!
//! ```text
//! b0:                                    b0:
//!   v1:R = Copy v0                         STG v5, v0
//!   jump b1(v1)                     →      exit
//! b1(v2:R):
//!   STG v5, v2; exit
//! ```
//!
//! Postcondition: no plain `Copy` is left, no parameter is trivial, no blocks joined by an edge without arguments can
//! be merged, and every instruction is reachable. Dead definitions are left to `dce`. Cost: about linear; an argument
//! is visited again when it is replaced.

use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, Function, Op, Pseudo, Terminator, Value};
use std::collections::VecDeque;
use std::ops::Range;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut equal = Equalities { to: function.values.keys().collect(), any: false };
    find_copies(function, &mut equal);
    let cfg = context.analyses.cfg(function);
    find_trivial_params(function, &cfg.order, &mut equal);
    if equal.any {
        for block in function.blocks.keys() {
            drop_arguments(function, &equal, block);
        }
        for block in function.blocks.keys() {
            replace_uses(function, &equal, block);
        }
    }
    let emptied = empty_unreachable_blocks(function, &cfg);
    let merged = merge_blocks(function, &cfg);
    Ok(Change::Instructions.when(equal.any).max(Change::ControlFlow.when(merged || emptied)))
}

/// Takes all out of the blocks that no path from the entry leads to. True if there was something.
fn empty_unreachable_blocks(function: &mut Function, cfg: &Cfg) -> bool {
    let mut any = false;
    for block in function.blocks.keys().filter(|block| !cfg.reachable(*block)) {
        let data = &mut function.blocks[block];
        any |= !(data.params.is_empty() && data.insts.is_empty() && data.end == Terminator::Exit);
        (data.params, data.insts, data.end) = (Vec::new(), Vec::new(), Terminator::Exit);
    }
    any
}

/// Values that are equal to another one, as a forest of links to it.
struct Equalities {
    to: Vec<Value>,
    any: bool,
}

impl Equalities {
    fn find(&self, mut value: Value) -> Value {
        while self.to[value.index()] != value {
            value = self.to[value.index()];
        }
        value
    }

    /// The same; halves the path.
    fn find_and_halve(&mut self, mut value: Value) -> Value {
        while self.to[value.index()] != value {
            let up = self.to[self.to[value.index()].index()];
            self.to[value.index()] = up;
            value = up;
        }
        value
    }

    fn set(&mut self, value: Value, as_: Value) -> bool {
        let root = self.find_and_halve(as_);
        let new = self.to[value.index()] == value && root != value;
        if new {
            self.to[value.index()] = root;
            self.any = true;
        }
        new
    }
}

fn find_copies(function: &Function, equal: &mut Equalities) {
    // Not all instructions: those that were removed are no longer in a block.
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    for inst in insts.map(|i| &function.insts[*i]) {
        if let (Op::Pseudo(Pseudo::Copy), [result], [Arg::Use(u)], None) =
            (inst.op, &inst.results[..], &inst.args[..], &inst.guard)
            && u.is_plain()
            && u.part.is_none()
        {
            equal.set(*result, u.value);
        }
    }
}

/// Finds all trivial parameters: a parameter is looked at again when one of its arguments is replaced.
fn find_trivial_params(function: &Function, order: &[Block], equal: &mut Equalities) {
    let mut params = Params::new(function, order, equal);
    let mut worklist: VecDeque<usize> = (0..params.all.len()).collect();
    let mut is_waiting = vec![true; params.all.len()];
    while let Some(param) = worklist.pop_front() {
        is_waiting[param] = false;
        let value = params.all[param].value;
        let Some(single) = params.single_argument(param, equal) else { continue };
        if equal.set(value, single) {
            for user in params.replace(value, single, equal) {
                if !std::mem::replace(&mut is_waiting[user], true) {
                    worklist.push_back(user);
                }
            }
        }
    }
    if equal.any {
        function.values.keys().for_each(|v| _ = equal.find_and_halve(v));
    }
}

/// The block parameters and their arguments.
struct Params {
    all: Vec<Param>,
    /// The arguments of all parameters: those of one are a range.
    args: Vec<Argument>,
    /// By value: the first and the last argument that is equal to it, as far as that is known.
    uses: Vec<Option<(u32, u32)>>,
}

struct Param {
    value: Value,
    args: Range<u32>,
}

struct Argument {
    value: Value,
    param: u32,
    /// The next argument that is equal to the same value.
    next: Option<u32>,
}

impl Params {
    fn new(function: &Function, order: &[Block], equal: &mut Equalities) -> Params {
        let mut incoming = vec![0u32; function.blocks.len()];
        let edges = || order.iter().flat_map(|b| function.blocks[*b].end.edges());
        edges().for_each(|edge| incoming[edge.to.index()] += 1);
        let mut params =
            Params { all: Vec::new(), args: Vec::new(), uses: vec![None; function.values.len()] };
        // The first parameter of each block, and its next incoming edge.
        let mut first = vec![(0, 0); function.blocks.len()];
        for block in order {
            first[block.index()].0 = params.all.len();
            for &value in &function.blocks[*block].params {
                let start = params.args.len() as u32;
                let args = start..start + incoming[block.index()];
                let param = params.all.len() as u32;
                params.args.extend(args.clone().map(|_| Argument { value, param, next: None }));
                params.all.push(Param { value, args });
            }
        }
        for edge in edges() {
            let (param, at) = first[edge.to.index()];
            first[edge.to.index()].1 += 1;
            for (i, arg) in edge.args.iter().enumerate() {
                let slot = params.all[param + i].args.start + at;
                params.args[slot as usize].value = *arg;
                params.add_use(equal.find_and_halve(*arg), (slot, slot));
            }
        }
        params
    }

    /// The only value among the arguments of a parameter, but for the parameter itself.
    fn single_argument(&self, param: usize, equal: &mut Equalities) -> Option<Value> {
        let Param { value, args } = &self.all[param];
        let mut single = None;
        for arg in &self.args[args.start as usize..args.end as usize] {
            let arg = equal.find_and_halve(arg.value);
            if arg != *value && *single.get_or_insert(arg) != arg {
                return None;
            }
        }
        single
    }

    /// Appends a list of arguments to those that are equal to a value.
    fn add_use(&mut self, value: Value, (head, tail): (u32, u32)) {
        let first = match self.uses[value.index()] {
            Some((first, last)) => {
                self.args[last as usize].next = Some(head);
                first
            }
            None => head,
        };
        self.uses[value.index()] = Some((first, tail));
    }

    /// The arguments that were equal to one value are equal to another now. Returns their parameters, but for those that
    /// are replaced themselves: their arguments leave the lists, or each step outwards of a nest of loops would look at
    /// those of all loops inside again.
    fn replace(&mut self, value: Value, by: Value, equal: &Equalities) -> Vec<usize> {
        let mut users = Vec::new();
        let mut next = self.uses[value.index()].take().map(|(head, _)| head);
        while let Some(arg) = next {
            let argument = &mut self.args[arg as usize];
            next = argument.next.take();
            let param = argument.param as usize;
            let user = self.all[param].value;
            if equal.to[user.index()] == user {
                users.push(param);
                self.add_use(by, (arg, arg));
            }
        }
        users
    }
}

/// Drops the arguments of replaced parameters from the edges of a block.
fn drop_arguments(function: &mut Function, equal: &Equalities, block: Block) {
    let kept = |function: &Function, to: Block| -> Vec<bool> {
        function.blocks[to].params.iter().map(|p| equal.find(*p) == *p).collect()
    };
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        let keep = kept(function, edge.to);
        if keep.len() == edge.args.len() {
            let mut keep = keep.into_iter();
            edge.args.retain(|_| keep.next().unwrap_or(true));
        }
    }
    function.blocks[block].end = end;
}

/// Drops replaced parameters and copies of a block, and renames its uses.
fn replace_uses(function: &mut Function, equal: &Equalities, block: Block) {
    function.blocks[block].params.retain(|p| equal.find(*p) == *p);
    function.blocks[block].end.map_uses(|v| equal.find(v));
    let mut insts = std::mem::take(&mut function.blocks[block].insts);
    insts.retain(|inst| {
        let data = &mut function.insts[*inst];
        data.map_uses(|v| equal.find(v));
        data.op != Op::Pseudo(Pseudo::Copy) || data.results.iter().any(|r| equal.find(*r) == *r)
    });
    function.blocks[block].insts = insts;
}

/// Merges blocks into their only predecessor, if that has no other successor. True if there were some.
fn merge_blocks(function: &mut Function, cfg: &Cfg) -> bool {
    let mut any = false;
    let mut preds: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
    let follows = |block: &Block| match &function.blocks[*block].end {
        Terminator::Jump(edge) => preds[edge.to.index()] == 1 && edge.args.is_empty(),
        _ => false,
    };
    if !cfg.order.iter().any(follows) {
        return false;
    }
    // The target of a convergence barrier has a predecessor more.
    for inst in function.insts.keys().map(|i| &function.insts[i]) {
        if matches!(inst.op, Op::Machine(sass::Op::BSSY | sass::Op::WARPSYNC)) {
            for arg in &inst.args {
                if let Arg::Target(block) = arg {
                    preds[block.index()] += 1;
                }
            }
        }
    }
    for &block in &cfg.order {
        while let Terminator::Jump(edge) = &function.blocks[block].end {
            let to = edge.to;
            if to == block || preds[to.index()] != 1 || !edge.args.is_empty() || to == Function::ENTRY {
                break;
            }
            any = true;
            let insts = std::mem::take(&mut function.blocks[to].insts);
            let end = std::mem::replace(&mut function.blocks[to].end, Terminator::Exit);
            let end_at = function.blocks[to].end_at;
            let merged = &mut function.blocks[block];
            merged.insts.extend(insts);
            (merged.end, merged.end_at) = (end, end_at);
        }
    }
    any
}
