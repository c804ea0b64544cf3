//! An order of low register pressure: as late as possible (ALAP), by a depth-first walk from anchored instructions.
//!
//! Front ends write a block in layers: all addresses, then all masks, then all loads; a whole layer is live at once.
//! Here anchors, the instructions with effects, keep their order; each is preceded by the operands it depends on that
//! are not scheduled yet, in post-order. Nothing passes a scheduling barrier, nothing that accesses registers of a wgmma
//! passes a fence, and nothing that accesses uniform registers passes a wait for other threads of the warp.
//!
//! ```text
//! v1 = IADD3 v0, 4, RZ            v1 = IADD3 v0, 4, RZ
//! v2 = IADD3 v0, 8, RZ     ==>    STG [v1], v3
//! STG [v1], v3                    v2 = IADD3 v0, 8, RZ
//! STG [v2], v4                    STG [v2], v4
//! ```
//!
//! Afterwards every definition is before its uses, and anchors are in the original order. Linear in the block.

use super::dep_graph::{Role, Roles, WgmmaRegisters, accesses_uniform, is_wait_for_threads};
use ori::entity::Entity;
use ori::{Cfg, File, Function, Inst, Value};

/// The instructions that keep their order.
#[derive(Clone, Copy, PartialEq)]
pub enum Anchors {
    /// Those with effects.
    Effects,
    /// Those that lower the pressure, too.
    EffectsAndReductions,
}

/// Reorders instructions of a block. `remaining_uses` counts the uses of each value in them, and one if it is live after
/// them.
pub fn order(
    function: &Function,
    insts: &[Inst],
    remaining_uses: &mut [u32],
    anchors: Anchors,
    tables: &mut Tables,
) -> Vec<Inst> {
    let is_anchor = find_anchors(function, insts, remaining_uses, anchors, &tables.roles);
    let order = Vec::with_capacity(insts.len());
    let mut walk = PostOrder { function, tables, order, stack: Vec::new() };
    let registers = WgmmaRegisters::new(function, insts, &walk.tables.roles);
    let (mut after_barrier, mut after_fence, mut after_wait) = (0, 0, 0);
    for (position, &inst) in insts.iter().enumerate() {
        let data = &function.insts[inst];
        if is_wait_for_threads(data) {
            let uniform = insts[after_wait..position].iter().filter(|i| accesses_uniform(function, **i));
            uniform.for_each(|i| walk.visit(*i));
            after_wait = position + 1;
        }
        match walk.tables.roles.of(inst) {
            Role::Barrier => {
                insts[after_barrier..position].iter().for_each(|i| walk.visit(*i));
                (after_barrier, after_fence) = (position + 1, position + 1);
            }
            Role::Fence => {
                let accessing = insts[after_fence..position]
                    .iter()
                    .filter(|i| registers.are_accessed_by(&function.insts[**i]));
                accessing.for_each(|i| walk.visit(*i));
                after_fence = position + 1;
            }
            Role::Free | Role::Effect => {}
        }
        walk.tables.pending[inst.index()] = true;
        data.results.iter().for_each(|v| walk.tables.definition[v.index()] = Some(inst));
        if is_anchor[position] {
            walk.visit(inst);
        }
    }
    insts[after_barrier..].iter().for_each(|i| walk.visit(*i));
    let results = insts.iter().flat_map(|i| &function.insts[*i].results);
    results.for_each(|v| walk.tables.definition[v.index()] = None);
    walk.order
}

fn find_anchors(
    function: &Function,
    insts: &[Inst],
    remaining_uses: &mut [u32],
    anchors: Anchors,
    roles: &Roles,
) -> Vec<bool> {
    let is_anchor = |inst: &Inst| {
        let data = &function.insts[*inst];
        let mut delta = 0;
        for value in data.uses() {
            let remaining = &mut remaining_uses[value.index()];
            *remaining -= 1;
            delta -= if *remaining == 0 { words(function, value) } else { 0 };
        }
        delta += data.results.iter().map(|v| words(function, *v)).sum::<i32>();
        let sets_predicate = data.results.iter().any(|v| function.values[*v].file == File::P);
        let reduces = anchors == Anchors::EffectsAndReductions && delta < 0 && !sets_predicate;
        roles.of(*inst) != Role::Free || reduces
    };
    let all = insts.iter().map(is_anchor).collect();
    // None of them is scheduled yet.
    let uses = insts.iter().flat_map(|i| function.insts[*i].uses());
    uses.for_each(|v| remaining_uses[v.index()] += 1);
    all
}

fn words(function: &Function, value: Value) -> i32 {
    let data = function.values[value];
    if data.file == File::R { data.words.into() } else { 0 }
}

/// Tables for a whole function; between two blocks nothing is in them.
pub struct Tables {
    /// The definition of each value, among the instructions seen so far.
    definition: Vec<Option<Inst>>,
    /// Which of them are not in the order yet.
    pending: Vec<bool>,
    pub roles: Roles,
}

impl Tables {
    pub fn new(function: &Function, cfg: &Cfg) -> Tables {
        Tables {
            definition: vec![None; function.values.len()],
            pending: vec![false; function.insts.len()],
            roles: Roles::new(function, cfg),
        }
    }
}

struct PostOrder<'a> {
    function: &'a Function,
    tables: &'a mut Tables,
    order: Vec<Inst>,
    /// What [`PostOrder::visit`] has begun; empty after it.
    stack: Vec<Inst>,
}

impl PostOrder<'_> {
    /// Appends an instruction after the pending ones that it depends on.
    fn visit(&mut self, inst: Inst) {
        let stack = &mut self.stack;
        stack.push(inst);
        while let Some(&next) = stack.last() {
            if !self.tables.pending[next.index()] {
                stack.pop();
                continue;
            }
            let before = stack.len();
            let definitions =
                self.function.insts[next].uses().filter_map(|v| self.tables.definition[v.index()]);
            stack.extend(definitions.filter(|inst| self.tables.pending[inst.index()]));
            if stack.len() == before {
                self.tables.pending[next.index()] = false;
                self.order.push(next);
                stack.pop();
            } else {
                // The first operand is visited first, but constants last: nothing else has to be live for them.
                stack[before..].sort_by_key(|i| self.function.insts[*i].uses().next().is_none());
                stack[before..].reverse();
            }
        }
    }
}
