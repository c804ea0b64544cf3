//! Dead code elimination: removes operations without uses or effects, and dead block parameters.
//!
//! Mark and sweep, starting from effects and branch predicates, through definitions and the arguments of block
//! parameters (Cytron et al., section 7.1, with all branches kept). Unlike use counting, this removes cycles of
//! parameters that only use each other.
//!
//! ```text
//! b1(v1:R, v2:R):                        b1(v2:R):
//!   v3:R = v1 + 1                   →      v4:P = v2 < 9
//!   v4:P = v2 < 9                          branch v4, b1(v2), b2
//!   branch v4, b1(v3, v2), b2
//! ```
//!
//! An unused carry is removed from the results of its sum, which turns the sum into an ordinary addition.
//!
//! ```text
//! v3:R, v4:P = IADD3 v1, v2, RZ     →    v3:R = IADD3 v1, v2, RZ
//! ```
//!
//! Postcondition: every value is live, except for further results of an instruction with a live result. Cost: linear.

use crate::analysis::effects::is_removable;
use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::liveness::ValueSet;
use ori::{Change, Function, Inst, InstData, Op, Terminator, Value};

pub fn run(function: &mut Function, _: &mut Context) -> PassResult<Change> {
    let Live { values, insts: live_insts, sums } = live(function);
    let mut removed = false;
    for block in function.blocks.keys() {
        let insts = &mut function.blocks[block].insts;
        let count = insts.len();
        insts.retain(|inst| live_insts[inst.index()]);
        removed |= insts.len() < count;
        let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
        for edge in end.edges_mut().into_iter().filter(|edge| !edge.args.is_empty()) {
            let mut params = function.blocks[edge.to].params.iter();
            edge.args.retain(|_| params.next().is_some_and(|param| values.contains(*param)));
        }
        function.blocks[block].end = end;
    }
    for inst in sums.into_iter().filter(|inst| live_insts[inst.index()]) {
        removed |= drop_unread_carries(&mut function.insts[inst], &values);
    }
    for block in function.blocks.keys() {
        let params = &mut function.blocks[block].params;
        let count = params.len();
        params.retain(|param| values.contains(*param));
        removed |= params.len() < count;
    }
    Ok(Change::Instructions.when(removed))
}

/// What an effect or a branch depends on. A parameter that is only passed to itself around a loop is not among it.
struct Live {
    values: ValueSet,
    /// By instruction, so that the sweep looks at none of them again: has it an effect, or a result that is live?
    insts: Vec<bool>,
    /// Sums with carries.
    sums: Vec<Inst>,
}

fn live(function: &Function) -> Live {
    let mut definitions: Vec<Option<Inst>> = vec![None; function.values.len()];
    let mut arguments = Arguments::new(function.values.len());
    let mut live = Worklist { marked: ValueSet::new(function.values.len()), open: Vec::new() };
    let mut insts = vec![false; function.insts.len()];
    let mut sums = Vec::new();
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        for inst in &data.insts {
            let operation = &function.insts[*inst];
            operation.results.iter().for_each(|result| definitions[result.index()] = Some(*inst));
            sums.extend(is_sum_with_carry(operation).then_some(*inst));
            if !is_removable(operation) {
                insts[inst.index()] = true;
                operation.uses().for_each(|v| live.mark(v));
            }
        }
        for edge in data.end.edges() {
            let params = &function.blocks[edge.to].params;
            params.iter().zip(&edge.args).for_each(|(param, arg)| arguments.add(*param, *arg));
        }
        data.end.decider().into_iter().for_each(|v| live.mark(v));
    }
    while let Some(value) = live.open.pop() {
        match definitions[value.index()] {
            // The operands of one that is live already are marked.
            Some(inst) if std::mem::replace(&mut insts[inst.index()], true) => {}
            Some(inst) => function.insts[inst].uses().for_each(|v| live.mark(v)),
            None => arguments.of(value).for_each(|v| live.mark(v)),
        }
    }
    Live { values: live.marked, insts, sums }
}

/// Live values; the operands of the open ones were not visited yet.
struct Worklist {
    marked: ValueSet,
    open: Vec<Value>,
}

impl Worklist {
    fn mark(&mut self, value: Value) {
        if !self.marked.contains(value) {
            self.marked.insert(value);
            self.open.push(value);
        }
    }
}

/// The arguments of block parameters: a linked list for each, all in one vector.
struct Arguments {
    /// The index of each parameter's last argument, counted from one; 0 if it has none.
    last: Vec<u32>,
    /// Arguments, each with the index of the one before it.
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
        let at = |index: u32| (index as usize).checked_sub(1).map(|i| self.all[i]);
        std::iter::successors(at(self.last[param.index()]), move |(_, before)| at(*before)).map(|(v, _)| v)
    }
}

fn is_sum_with_carry(data: &InstData) -> bool {
    data.results.len() > 1
        && data.guard.is_none()
        && matches!(data.op, Op::Machine(sass::Op::IADD3 | sass::Op::IMAD | sass::Op::LEA))
}

/// The carries of a sum come after it, and the machine has every sum without them.
fn drop_unread_carries(data: &mut InstData, live: &ValueSet) -> bool {
    let count = data.results.len();
    while data.results.len() > 1 && data.results.last().is_some_and(|carry| !live.contains(*carry)) {
        data.results.pop();
    }
    data.results.len() < count
}
