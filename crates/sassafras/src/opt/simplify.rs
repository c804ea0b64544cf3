//! Removes what lowering leaves lying about: parameters that always have the same value, copies, blocks that only
//! follow another one, and operations and parameters that nobody needs.
//!
//! Lowering gives a block a parameter for every register that is live into it. One whose arguments are all the same
//! value (or the parameter itself, around a loop) is that value: it dominates the block, since every way leads over it.

use crate::analysis::effects::{is_pure, is_shuffle};
use ori::entity::Entity;
use ori::liveness::ValueSet;
use ori::{Arg, Block, Cfg, Function, Inst, InstData, Op, Pseudo, Terminator, Value};

pub fn run(function: &mut Function) -> crate::context::PassResult {
    let mut same = Same { to: function.values.keys().collect(), any: false };
    copies(function, &mut same);
    let order = Cfg::new(function).order;
    while params(function, &order, &mut same) {}
    if same.any {
        for block in function.blocks.keys() {
            drop_params(function, &same, block);
        }
        for block in function.blocks.keys() {
            replace(function, &same, block);
        }
    }
    merge(function);
    remove_unused(function);
    Ok(())
}

/// What each value is the same as.
struct Same {
    to: Vec<Value>,
    /// Is there a value that is the same as another?
    any: bool,
}

impl Same {
    fn find(&self, mut value: Value) -> Value {
        while self.to[value.index()] != value {
            value = self.to[value.index()];
        }
        value
    }

    fn set(&mut self, value: Value, as_: Value) -> bool {
        let root = self.find(as_);
        let new = self.find(value) == value && root != value;
        if new {
            self.to[value.index()] = root;
            self.any = true;
        }
        new
    }
}

fn copies(function: &Function, same: &mut Same) {
    for inst in function.insts.keys().map(|i| &function.insts[i]) {
        if let (Op::Pseudo(Pseudo::Copy), [result], [Arg::Use(u)], None) =
            (inst.op, &inst.results[..], &inst.args[..], &inst.guard)
            && u.is_plain()
            && u.part.is_none()
        {
            same.set(*result, u.value);
        }
    }
}

/// One round; did it find anything?
fn params(function: &Function, order: &[Block], same: &mut Same) -> bool {
    /// What the arguments of a parameter are so far.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Nothing,
        One(Value),
        Many,
    }
    let mut seen: Vec<Vec<Seen>> =
        function.blocks.keys().map(|b| vec![Seen::Nothing; function.blocks[b].params.len()]).collect();
    for &block in order {
        for edge in function.blocks[block].end.edges() {
            for (i, arg) in edge.args.iter().enumerate() {
                let arg = same.find(*arg);
                let slot = &mut seen[edge.to.index()][i];
                if arg != same.find(function.blocks[edge.to].params[i]) {
                    *slot = match *slot {
                        Seen::Nothing => Seen::One(arg),
                        Seen::One(other) if other == arg => Seen::One(arg),
                        _ => Seen::Many,
                    };
                }
            }
        }
    }
    let mut changed = false;
    for block in function.blocks.keys() {
        for (param, seen) in function.blocks[block].params.iter().zip(&seen[block.index()]) {
            if let Seen::One(value) = seen {
                changed |= same.set(*param, *value);
            }
        }
    }
    changed
}

/// Takes the parameters that are other values from a block, and their arguments from the edges to it.
fn drop_params(function: &mut Function, same: &Same, block: Block) {
    let kept = |function: &Function, to: Block| -> Vec<bool> {
        function.blocks[to].params.iter().map(|p| same.find(*p) == *p).collect()
    };
    // The arguments of this block's own edges: the parameters that they belong to are still all there, or gone.
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

fn replace(function: &mut Function, same: &Same, block: Block) {
    function.blocks[block].params.retain(|p| same.find(*p) == *p);
    function.blocks[block].end.map_uses(|v| same.find(v));
    let mut insts = std::mem::take(&mut function.blocks[block].insts);
    insts.retain(|inst| {
        let data = &mut function.insts[*inst];
        data.map_uses(|v| same.find(v));
        data.op != Op::Pseudo(Pseudo::Copy) || data.results.iter().any(|r| same.find(*r) == *r)
    });
    function.blocks[block].insts = insts;
}

/// A block that is the only way on from its only predecessor becomes part of that.
fn merge(function: &mut Function) {
    let cfg = Cfg::new(function);
    let mut preds: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
    // Control can also come to the target of a convergence barrier.
    for inst in function.insts.keys() {
        for arg in &function.insts[inst].args {
            if let Arg::Target(block) = arg {
                preds[block.index()] += 1;
            }
        }
    }
    for &block in &cfg.order {
        while let Terminator::Jump(edge) = &function.blocks[block].end {
            let to = edge.to;
            if to == block || preds[to.index()] != 1 || !edge.args.is_empty() || to == Function::ENTRY {
                break;
            }
            let insts = std::mem::take(&mut function.blocks[to].insts);
            let end = std::mem::replace(&mut function.blocks[to].end, Terminator::Exit);
            let end_at = function.blocks[to].end_at;
            let merged = &mut function.blocks[block];
            merged.insts.extend(insts);
            (merged.end, merged.end_at) = (end, end_at);
        }
    }
}

/// Takes out what nobody needs: operations that only compute, and parameters of blocks with their arguments.
pub fn remove_unused(function: &mut Function) {
    let needed = needed(function);
    for block in function.blocks.keys() {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|inst| has_effect(&function.insts[*inst], &needed));
        function.blocks[block].insts = insts;
        let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
        for edge in end.edges_mut() {
            let mut params = function.blocks[edge.to].params.iter();
            edge.args.retain(|_| params.next().is_some_and(|param| needed.contains(*param)));
        }
        function.blocks[block].end = end;
    }
    for block in function.blocks.keys() {
        function.blocks[block].params.retain(|param| needed.contains(*param));
    }
}

/// The values that something with an effect depends on, or the way that threads take. A parameter that only becomes
/// itself again around a loop is none of them.
fn needed(function: &Function) -> ValueSet {
    let mut makers: Vec<Option<Inst>> = vec![None; function.values.len()];
    let mut arguments = Arguments::new(function.values.len());
    let mut needed = Needed { values: ValueSet::new(function.values.len()), open: Vec::new() };
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        for inst in &data.insts {
            let operation = &function.insts[*inst];
            operation.results.iter().for_each(|result| makers[result.index()] = Some(*inst));
            if !is_pure(operation) && !is_shuffle(operation) {
                operation.uses().for_each(|v| needed.add(v));
            }
        }
        for edge in data.end.edges() {
            let params = &function.blocks[edge.to].params;
            params.iter().zip(&edge.args).for_each(|(param, arg)| arguments.add(*param, *arg));
        }
        if let Terminator::Branch { predicate, .. } = data.end {
            needed.add(predicate);
        }
    }
    while let Some(value) = needed.open.pop() {
        match makers[value.index()] {
            Some(inst) => function.insts[inst].uses().for_each(|v| needed.add(v)),
            None => arguments.of(value).for_each(|v| needed.add(v)),
        }
    }
    needed.values
}

/// Values that are needed, and those of them that what they come from was not yet looked at.
struct Needed {
    values: ValueSet,
    open: Vec<Value>,
}

impl Needed {
    fn add(&mut self, value: Value) {
        if !self.values.contains(value) {
            self.values.insert(value);
            self.open.push(value);
        }
    }
}

/// What the parameters of blocks can be: a list of arguments for each, all of them in one vector.
struct Arguments {
    /// The place of each parameter's last argument, counted from one; 0 if it has none.
    last: Vec<u32>,
    /// Arguments, each with the place of the one before it.
    all: Vec<(Value, u32)>,
}

impl Arguments {
    fn new(values: usize) -> Arguments {
        Arguments { last: vec![0; values], all: Vec::new() }
    }

    fn add(&mut self, param: Value, argument: Value) {
        self.all.push((argument, self.last[param.index()]));
        self.last[param.index()] = self.all.len() as u32;
    }

    fn of(&self, param: Value) -> impl Iterator<Item = Value> + '_ {
        let at = |place: u32| (place as usize).checked_sub(1).map(|i| self.all[i]);
        std::iter::successors(at(self.last[param.index()]), move |(_, before)| at(*before)).map(|(v, _)| v)
    }
}

fn has_effect(data: &InstData, needed: &ValueSet) -> bool {
    data.results.iter().any(|result| needed.contains(*result)) || !is_pure(data) && !is_shuffle(data)
}
