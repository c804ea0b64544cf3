//! The dependence graph of a window of a block, with latencies, and the priorities of list scheduling.
//!
//! * Data dependences: a value is used after it is defined.
//! * Memory dependences, acquire and release, convergence and scheduling barriers: what `analysis/effects.rs` says
//!   ([`Effects::stay_in_order`]). Where the warp runs a block together, shuffles and votes keep no order among each
//!   other: chains of them overlap.
//! * Fences: wgmma, their arrivals and waits order accesses to their registers. Other instructions pass them, and so run
//!   while wgmma are outstanding.
//! * Coalescing: the next value of a block parameter, or a word of it, is defined after the uses of the parameter, or of
//!   that word, so that both can have one register.
//!
//! The height of a node is its issue time, counted from the end of the block, in a backward list schedule with one
//! instruction per cycle and busy units. Linear in the edges; pairs of instructions with effects are compared until one
//! closes the other off.

use crate::analysis::effects::{Convergence, Effects, Motion};
use crate::context::Tuning;
use ori::entity::Entity;
use ori::{Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::model::{Model, Part, Port, Unit, issue};
use sass::{Isa, M};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an instruction orders.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    /// Nothing.
    Free,
    /// What its effects say.
    Effect,
    /// Accesses to registers of wgmma don't pass.
    Fence,
    /// A scheduling barrier: nothing passes.
    Barrier,
}

/// The roles of all instructions, found once: several orders of a block are tried.
pub struct Roles(Vec<Role>);

impl Roles {
    pub fn new(function: &Function, cfg: &Cfg) -> Roles {
        let mut roles = vec![Role::Free; function.insts.len()];
        for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
            let effects = Effects::of(&function.insts[*inst]);
            roles[inst.index()] = match effects.motion {
                Motion::Wgmma => Role::Fence,
                Motion::Barrier => Role::Barrier,
                Motion::Free if effects.is_free() => Role::Free,
                Motion::Free => Role::Effect,
            };
        }
        Roles(roles)
    }

    pub fn of(&self, inst: Inst) -> Role {
        self.0[inst.index()]
    }
}

/// Scheduling barriers, and the runs of instructions between them, cut to a length.
pub fn windows<'a>(roles: &Roles, insts: &'a [Inst], max_len: usize) -> Vec<&'a [Inst]> {
    let is_barrier = |i: &Inst| roles.of(*i) == Role::Barrier;
    let runs = insts.chunk_by(|a, b| is_barrier(a) == is_barrier(b) && !is_barrier(a));
    runs.flat_map(|run| run.chunks(max_len)).collect()
}

/// Does it wait for other threads of the warp, which may write uniform registers meanwhile?
pub fn is_wait_for_threads(data: &InstData) -> bool {
    matches!(data.op, Op::Machine(sass::Op::WARPSYNC | sass::Op::NANOSLEEP))
}

pub fn accesses_uniform(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.uses().chain(data.results.iter().copied()).any(|v| function.values[v].file == File::UR)
}

/// The successors or predecessors of each node, with latencies in cycles: one list, in the order of the nodes.
#[derive(Default)]
pub struct Edges {
    all: Vec<(usize, u32)>,
    /// Where those of each node begin in `all`, and the end.
    first: Vec<u32>,
}

impl Edges {
    /// From edges in any order: node, other node, latency. Those of a node keep their order.
    fn new(nodes: usize, edges: impl Iterator<Item = (usize, usize, u32)> + Clone) -> Edges {
        let mut next = vec![0; nodes + 1];
        edges.clone().for_each(|(from, ..)| next[from + 1] += 1);
        for node in 0..nodes {
            next[node + 1] += next[node];
        }
        let first = next.clone();
        let mut all = vec![(0, 0); first[nodes] as usize];
        for (from, to, latency) in edges {
            all[next[from] as usize] = (to, latency);
            next[from] += 1;
        }
        Edges { all, first }
    }

    pub fn of(&self, node: usize) -> &[(usize, u32)] {
        &self.all[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

pub struct DepGraph {
    pub insts: Vec<Inst>,
    /// The priority of each node: cycles from its issue to the end of the window.
    pub height: Vec<u32>,
    /// Cycles of the longest path from each node to the end, if the units were always free.
    pub path: Vec<u32>,
    /// The issue pipe of each machine instruction, and for how many cycles it is busy.
    pub pipe: Vec<Option<Unit>>,
    pub busy: Vec<u32>,
    /// Is it a wgmma, an arrival or a wait? These are scheduled whatever the pressure.
    pub is_fence: Vec<bool>,
    /// Does it wait for wgmma?
    pub is_wait: Vec<bool>,
    /// How many waits come before the first use that is more than another computation.
    pub waits_before_use: Vec<u32>,
    succs: Edges,
    /// The edges that were found, while the graph is built.
    found: Vec<(usize, usize, u32)>,
}

impl DepGraph {
    /// `convergent`: all threads of the warp run the block together.
    pub fn new(
        function: &Function,
        (block, convergent): (Block, bool),
        insts: &[Inst],
        roles: &Roles,
        latencies: &mut LatencyTable,
    ) -> DepGraph {
        let issue: Vec<Issue> = insts.iter().map(|i| latencies.issue(function, *i)).collect();
        let (mut graph, effects) =
            DepGraph::with_edges(function, (block, convergent), &issue, insts, roles, latencies);
        graph.compute_heights(function, block, latencies);
        graph.compute_waits_before_use(&effects, &issue);
        graph
    }

    /// The graph without priorities.
    pub fn without_heights(
        function: &Function,
        at: (Block, bool),
        insts: &[Inst],
        roles: &Roles,
        latencies: &mut LatencyTable,
    ) -> DepGraph {
        let issue: Vec<Issue> = insts.iter().map(|i| latencies.issue(function, *i)).collect();
        DepGraph::with_edges(function, at, &issue, insts, roles, latencies).0
    }

    fn with_edges(
        function: &Function,
        (block, convergent): (Block, bool),
        issue: &[Issue],
        insts: &[Inst],
        roles: &Roles,
        latencies: &mut LatencyTable,
    ) -> (DepGraph, Vec<Effects>) {
        let effects_of = |inst: &Inst| {
            let data = &function.insts[*inst];
            if roles.of(*inst) == Role::Free {
                return Effects::NONE;
            }
            let effects = Effects::of(data);
            match convergent && is_register_collective(data) && effects.motion == Motion::Free {
                true => Effects { convergence: Convergence::Matrix, ..effects },
                false => effects,
            }
        };
        let effects: Vec<Effects> = insts.iter().map(effects_of).collect();
        let mut graph = DepGraph {
            insts: insts.to_vec(),
            height: vec![0; insts.len()],
            path: Vec::new(),
            pipe: issue.iter().map(|p| p.unit.map(pipe)).collect(),
            busy: issue.iter().map(|p| p.busy).collect(),
            is_fence: effects.iter().map(|effects| effects.motion == Motion::Wgmma).collect(),
            is_wait: insts.iter().map(|i| is_wait(&function.insts[*i])).collect(),
            waits_before_use: vec![0; insts.len()],
            succs: Edges::default(),
            found: Vec::with_capacity(2 * insts.len()),
        };
        graph.add_data_deps(function, issue, latencies);
        graph.add_effect_deps(function, &effects, latencies);
        graph.add_fence_deps(function, roles);
        graph.add_wait_deps(function);
        graph.add_coalescing_deps(function, block);
        graph.succs = Edges::new(insts.len(), std::mem::take(&mut graph.found).iter().copied());
        (graph, effects)
    }

    pub fn succs(&self, node: usize) -> &[(usize, u32)] {
        self.succs.of(node)
    }

    pub fn pred_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.insts.len()];
        self.succs.all.iter().for_each(|(to, _)| counts[*to] += 1);
        counts
    }

    pub fn preds(&self) -> Edges {
        let of = |from: usize| self.succs(from).iter().map(move |(to, latency)| (*to, from, *latency));
        Edges::new(self.insts.len(), (0..self.insts.len()).flat_map(of))
    }

    fn add_data_deps(&mut self, function: &Function, issue: &[Issue], latencies: &mut LatencyTable) {
        // The node that defines each value, and one.
        let mut definition = std::mem::take(&mut latencies.nodes);
        definition.resize(function.values.len(), 0);
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            let guard = data.guard.as_ref().map(|g| g.predicate);
            for value in data.uses() {
                if let Some(from) = definition[value.index()].checked_sub(1).map(|from| from as usize) {
                    let file = function.values[value].file;
                    let latency = latencies.between(&issue[from], &issue[node], file, guard == Some(value));
                    self.found.push((from, node, latency));
                }
            }
            data.results.iter().for_each(|v| definition[v.index()] = node as u32 + 1);
        }
        let results = self.insts.iter().flat_map(|i| &function.insts[*i].results);
        results.for_each(|v| definition[v.index()] = 0);
        latencies.nodes = definition;
    }

    fn add_effect_deps(&mut self, function: &Function, effects: &[Effects], latencies: &LatencyTable) {
        // Loads and matrix operations keep no order among each other: for them only the others are looked at.
        let (mut all, mut others): (Vec<usize>, Vec<usize>) = Default::default();
        for (node, second) in effects.iter().enumerate().filter(|(_, effects)| !effects.is_free()) {
            let is_passive = second.is_passive();
            let earlier = if is_passive { &others } else { &all };
            for &before in earlier.iter().rev() {
                let first = &effects[before];
                if Effects::stay_in_order(first, second) {
                    let latency = self.effect_latency(function, before, node, latencies);
                    self.found.push((before, node, latency));
                    if Effects::closes(first, second) {
                        break;
                    }
                }
            }
            all.push(node);
            others.extend((!is_passive).then_some(node));
        }
    }

    fn effect_latency(
        &self,
        function: &Function,
        first: usize,
        second: usize,
        latencies: &LatencyTable,
    ) -> u32 {
        let data = |node: usize| &function.insts[self.insts[node]];
        match () {
            () if is_wait(data(second)) && self.is_wgmma(first) => latencies.expected(Unit::Gmma),
            () if is_arrival(data(first)) && self.is_wgmma(second) => ARRIVAL_LATENCY,
            () => 1,
        }
    }

    fn is_wgmma(&self, node: usize) -> bool {
        self.pipe[node] == Some(Unit::Gmma)
    }

    /// An access to registers of wgmma stays between its two fences. Other instructions may move below a fence, and above
    /// a wait; but above the first of a run of wgmma only uniform ones, so that the pressure in R doesn't rise there.
    /// Between the wgmma of a run they cost no time: each has to wait for the one before anyway.
    fn add_fence_deps(&mut self, function: &Function, roles: &Roles) {
        if !self.is_fence.contains(&true) {
            return;
        }
        let registers = WgmmaRegisters::new(function, &self.insts, roles);
        let (mut last_fence, mut run_start): (Option<usize>, Option<usize>) = Default::default();
        let mut accesses: Vec<usize> = Vec::new();
        let mut follows_wgmma = false;
        for node in 0..self.insts.len() {
            let data = &function.insts[self.insts[node]];
            if self.is_fence[node] {
                let latency = if is_arrival(data) { ARRIVAL_LATENCY } else { 1 };
                accesses.drain(..).for_each(|before| self.found.push((before, node, latency)));
                last_fence = Some(node);
                let is_wgmma = self.is_wgmma(node);
                let continues_run = is_wgmma && follows_wgmma;
                run_start = if is_wait(data) || continues_run { run_start } else { last_fence };
                follows_wgmma = is_wgmma;
                continue;
            }
            let is_access = registers.are_accessed_by(data);
            accesses.extend(is_access.then_some(node));
            let after = match is_access {
                true => last_fence,
                false => run_start.filter(|_| !is_uniform(function, data)),
            };
            if let Some(fence) = after {
                self.found.push((fence, node, 0));
            }
        }
    }

    /// Uniform registers are not live across a wait for other threads of the warp, which may write them meanwhile
    /// (`remat_uniform`): instructions that access them stay on their side of it.
    fn add_wait_deps(&mut self, function: &Function) {
        let data = |node: usize| &function.insts[self.insts[node]];
        let waits: Vec<usize> =
            (0..self.insts.len()).filter(|node| is_wait_for_threads(data(*node))).collect();
        if waits.is_empty() {
            return;
        }
        for node in 0..self.insts.len() {
            if !accesses_uniform(function, self.insts[node]) {
                continue;
            }
            let next = waits.partition_point(|wait| *wait < node);
            if let Some(before) = next.checked_sub(1) {
                self.found.push((waits[before], node, 1));
            }
            if let Some(after) = waits.get(next).filter(|after| **after != node) {
                self.found.push((node, *after, 1));
            }
        }
    }

    /// An argument of a block parameter is defined after the uses of the parameter, and a word of a pair that is packed
    /// for it after the uses of that word: their live ranges don't overlap.
    fn add_coalescing_deps(&mut self, function: &Function, block: Block) {
        let mut target_of = self.coalescing_targets(function, block);
        if target_of.is_empty() {
            return;
        }
        // The nodes that read each parameter so far, and which words.
        let mut users: FxHashMap<Value, Vec<(usize, u32)>> =
            target_of.values().map(|(param, _)| (*param, Vec::new())).collect();
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            for (param, words) in data.results.iter().filter_map(|v| target_of.remove(v)) {
                let readers = users.get(&param).into_iter().flatten().filter(|(_, read)| read & words != 0);
                readers.for_each(|(user, _)| self.found.push((*user, node, 0)));
            }
            for (value, words) in data.words_read() {
                if let Some(users) = users.get_mut(&value) {
                    users.push((node, words));
                }
            }
        }
    }

    /// The parameters that values are arguments of, and which of their words.
    fn coalescing_targets(&self, function: &Function, block: Block) -> FxHashMap<Value, (Value, u32)> {
        let mut targets: FxHashMap<Value, (Value, u32)> = FxHashMap::default();
        for edge in function.blocks[block].end.edges() {
            // The arguments of a split edge are in the block between.
            let between = &function.blocks[edge.to];
            let split = if between.insts.is_empty() { between.end.edges() } else { SmallVec::new() };
            for edge in split.into_iter().chain([edge]) {
                let params = function.blocks[edge.to].params.iter().map(|param| (*param, u32::MAX));
                targets.extend(edge.args.iter().copied().zip(params));
            }
        }
        if targets.is_empty() {
            return targets;
        }
        let packs = self.insts.iter().map(|i| &function.insts[*i]);
        for pack in packs.filter(|data| data.op == Op::Pseudo(Pseudo::Pack) && data.results.len() == 1) {
            let Some((param, u32::MAX)) = targets.get(&pack.results[0]).copied() else { continue };
            for (word, arg) in pack.args.iter().enumerate() {
                if let Some(value) = arg.value().filter(|v| function.values[*v].words == 1) {
                    targets.entry(value).or_insert((param, 1 << word.min(31)));
                }
            }
        }
        targets
    }

    /// Heights by backward list scheduling: where many nodes wait for a slow unit, those that lead to the first of them
    /// get greater heights than those that lead to the last, though the paths are equally long. Ties: results of the Xu
    /// unit with one use are last ([`DepGraph::sibling_counts`]), then the original order decides.
    fn compute_heights(&mut self, function: &Function, block: Block, latencies: &LatencyTable) {
        self.init_heights(function, block, latencies);
        self.path = self.height.clone();
        for node in (0..self.insts.len()).rev() {
            let after = self.succs(node).iter().map(|(to, latency)| self.path[*to] + latency).max();
            self.path[node] = self.path[node].max(after.unwrap_or(0));
        }
        let depth = self.depths();
        let preds = self.preds();
        let siblings = self.sibling_counts(&preds);
        let mut unscheduled_succs: Vec<usize> =
            (0..self.insts.len()).map(|node| self.succs(node).len()).collect();
        let mut ready = ReadyQueue::new(&self.pipe);
        let group = self.groups(&depth, &preds);
        let slow = |node: usize| if self.pipe[node] == Some(Unit::Xu) { group[node] } else { 0 };
        let tie = |node: usize| (Reverse(siblings[node]), depth[node], slow(node), node);
        let leaves = (0..self.insts.len()).filter(|node| unscheduled_succs[*node] == 0);
        leaves.for_each(|node| ready.push(self.pipe[node], self.height[node], tie(node)));
        while let Some((cycle, node)) = ready.pop() {
            if let Some(pipe) = self.pipe[node] {
                ready.issue(pipe, cycle, self.busy[node]);
            }
            self.height[node] = cycle;
            for &(pred, latency) in preds.of(node) {
                self.height[pred] = self.height[pred].max(cycle + latency);
                unscheduled_succs[pred] -= 1;
                if unscheduled_succs[pred] == 0 {
                    ready.push(self.pipe[pred], self.height[pred], tie(pred));
                }
            }
        }
        self.raise_uniform_constants(function);
        self.raise_wgmma(function);
    }

    /// Cycles from each node to the end of the block, for uses after it.
    fn init_heights(&mut self, function: &Function, block: Block, latencies: &LatencyTable) {
        let condition = function.blocks[block].end.decider();
        for (node, inst) in self.insts.iter().enumerate() {
            let decides = condition.is_some_and(|p| function.insts[*inst].results.contains(&p));
            self.height[node] = match self.pipe[node] {
                _ if decides => latencies.tuning.sched_branch_latency.min(MAX_LATENCY),
                // A wait follows, here or in the next iteration.
                Some(Unit::Gmma) => latencies.expected(Unit::Gmma),
                _ => self.busy[node],
            };
        }
    }

    /// How many nodes use the same result of the Xu unit as each does; 0 if it uses no such result. These results come
    /// slowly: what several nodes need of one is computed while the next ones are on their way, so it should not be left
    /// for the end, where what each result leads to by itself has to be. Only blocks with wgmma wait for the end.
    fn sibling_counts(&self, preds: &Edges) -> Vec<u32> {
        if !self.is_fence.contains(&true) {
            return vec![0; self.insts.len()];
        }
        let count = |node: usize| {
            let slow = preds.of(node).iter().filter(|(pred, _)| self.pipe[*pred] == Some(Unit::Xu));
            slow.map(|(pred, _)| self.succs(*pred).len() as u32).min().unwrap_or(0)
        };
        (0..self.insts.len()).map(count).collect()
    }

    /// By node: what it waits for last, if that has other uses; else what that waits for. Nodes of one group can begin at the
    /// same time. A slow unit finishes one group before the next: then what the next one waits for may come later, and
    /// is computed meanwhile.
    ///
    /// ```text
    /// m1 = FMNMX ..; m2 = FMNMX ..                            m1 = FMNMX ..
    /// e1 = MUFU (a - m1); f1 = MUFU (b - m2)         ==>      e1 = MUFU (a - m1); e2 = MUFU (c - m1)
    /// e2 = MUFU (c - m1); f2 = MUFU (d - m2)                  m2 = FMNMX ..
    ///                                                         f1 = MUFU (b - m2); f2 = MUFU (d - m2)
    /// ```
    fn groups(&self, depth: &[u32], preds: &Edges) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.insts.len()).collect();
        for node in 0..self.insts.len() {
            let latest = preds.of(node).iter().max_by_key(|(pred, latency)| depth[*pred] + latency);
            if let Some((pred, _)) = latest {
                group[node] = if self.succs(*pred).len() > 1 { *pred } else { group[*pred] };
            }
        }
        group
    }

    fn compute_waits_before_use(&mut self, effects: &[Effects], issue: &[Issue]) {
        let mut waits_before = vec![0; self.insts.len()];
        for node in 0..self.insts.len() {
            let after = waits_before[node] + u32::from(self.is_wait[node]);
            self.succs(node).iter().for_each(|(to, _)| waits_before[*to] = waits_before[*to].max(after));
        }
        for node in (0..self.insts.len()).rev() {
            let first_use =
                self.succs(node).iter().map(|(to, _)| self.waits_before_use[*to]).min().unwrap_or(u32::MAX);
            let computes = effects[node].is_free() && !issue[node].unit.is_some_and(|u| u.writes_late());
            self.waits_before_use[node] =
                if computes { first_use.max(waits_before[node]) } else { waits_before[node] };
        }
    }

    /// The allocator doesn't move uniform registers: constants, with the longest live ranges, are first, and get the same
    /// registers everywhere.
    fn raise_uniform_constants(&mut self, function: &Function) {
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            let constant = matches!(data.op, Op::Machine(sass::Op::ULDC | sass::Op::LDCU));
            if constant && data.uses().next().is_none() {
                self.height[node] = u32::MAX / 2;
            }
        }
    }

    /// A wgmma issues as soon as it can: nothing is as urgent as work for the tensor cores.
    fn raise_wgmma(&mut self, function: &Function) {
        for (node, inst) in self.insts.iter().enumerate() {
            if self.pipe[node] == Some(Unit::Gmma) || is_arrival(&function.insts[*inst]) {
                self.height[node] = u32::MAX / 4;
            }
        }
    }

    /// The longest path from the beginning of the window to each node.
    fn depths(&self) -> Vec<u32> {
        let mut depth = vec![0; self.insts.len()];
        for node in 0..self.insts.len() {
            for (to, latency) in self.succs(node) {
                depth[*to] = depth[*to].max(depth[node] + latency);
            }
        }
        depth
    }
}

/// The nodes that may be next in the backward schedule, by issue pipe: the one with the least cycle is, where a node
/// waits for its pipe, and all of them for a cycle of their own. So none is looked at again for every cycle that it has
/// to wait.
struct ReadyQueue {
    pipes: Vec<Pipe>,
    /// Whether there is an instruction in the last cycle.
    next_cycle: u32,
}

/// What decides among nodes of one cycle, the greatest first.
type Tie = (Reverse<u32>, u32, usize, usize);

#[derive(Default)]
struct Pipe {
    /// `None` for pseudo operations, which take no cycle.
    unit: Option<Unit>,
    free: u32,
    /// Those that may issue as soon as the pipe does, and those that may only later.
    now: BinaryHeap<Tie>,
    later: BinaryHeap<(Reverse<u32>, Tie)>,
}

impl ReadyQueue {
    fn new(pipes: &[Option<Unit>]) -> ReadyQueue {
        let mut units: Vec<Option<Unit>> = Vec::new();
        for pipe in pipes {
            if !units.contains(pipe) {
                units.push(*pipe);
            }
        }
        let pipes = units.into_iter().map(|unit| Pipe { unit, ..Pipe::default() }).collect();
        ReadyQueue { pipes, next_cycle: 0 }
    }

    fn push(&mut self, unit: Option<Unit>, cycle: u32, tie: Tie) {
        let pipe = self.pipes.iter_mut().find(|pipe| pipe.unit == unit);
        pipe.into_iter().for_each(|pipe| pipe.later.push((Reverse(cycle), tie)));
    }

    /// The next node, and its cycle.
    fn pop(&mut self) -> Option<(u32, usize)> {
        let next_cycle = self.next_cycle;
        let firsts = self.pipes.iter_mut().filter_map(|pipe| Some((pipe.first(next_cycle)?, pipe)));
        let ((Reverse(cycle), (.., node)), pipe) = firsts.max_by_key(|(first, _)| *first)?;
        if pipe.now.pop().is_none() {
            pipe.later.pop();
        }
        Some((cycle, node))
    }

    /// A pipe has got an instruction, for some cycles.
    fn issue(&mut self, unit: Unit, cycle: u32, busy: u32) {
        let pipe = self.pipes.iter_mut().find(|pipe| pipe.unit == Some(unit));
        pipe.into_iter().for_each(|pipe| pipe.free = cycle + busy);
        self.next_cycle = cycle + 1;
    }
}

impl Pipe {
    fn first(&mut self, next_cycle: u32) -> Option<(Reverse<u32>, Tie)> {
        let free = self.unit.map_or(0, |_| self.free.max(next_cycle));
        while let Some((Reverse(cycle), tie)) = self.later.peek().copied()
            && cycle <= free
        {
            self.later.pop();
            self.now.push(tie);
        }
        self.now.peek().map(|tie| (Reverse(free), *tie)).or_else(|| self.later.peek().copied())
    }
}

/// A wait for wgmma, or the pseudo operation that defines their results after it.
fn is_wait(data: &InstData) -> bool {
    data.op == Op::Pseudo(Pseudo::Landed) || data.modifiers.first() == Some(&M::DEPBAR)
}

/// `WARPGROUP.ARRIVE`
fn is_arrival(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::WARPGROUP) && data.modifiers.first() == Some(&M::ARRIVE)
}

/// Cycles from an arrival to the first wgmma, and from a write of what wgmma read to the arrival.
const ARRIVAL_LATENCY: u32 = issue::WGMMA_ARRIVAL as u32;

/// Do the threads of a warp exchange registers in it, and nothing else? Where they run it together, it reads and writes
/// registers as any other operation does.
pub fn is_register_collective(data: &InstData) -> bool {
    use sass::Op::{CREDUX, ELECT, MATCH, REDUX, SHFL, VOTE, VOTEU};
    matches!(data.op, Op::Machine(ELECT | VOTE | VOTEU | SHFL | MATCH | REDUX | CREDUX))
}

/// Does it run on the uniform datapath, or move a word there?
fn is_uniform(function: &Function, data: &InstData) -> bool {
    let uniform = |v: Value| matches!(function.values[v].file, File::UR | File::UP);
    data.results.iter().copied().all(uniform)
        && (data.op == Op::Machine(sass::Op::R2UR) || data.uses().all(uniform))
}

/// The values of R that wgmma read and write, and the words that these are packed from or unpacked to: they share
/// registers unless their live ranges overlap.
pub struct WgmmaRegisters(FxHashSet<Value>);

impl WgmmaRegisters {
    pub fn new(function: &Function, insts: &[Inst], roles: &Roles) -> WgmmaRegisters {
        let general = |v: &Value| function.values[*v].file == File::R;
        let all = || insts.iter().map(|i| &function.insts[*i]);
        let fences = insts.iter().filter(|i| roles.of(**i) == Role::Fence).map(|i| &function.insts[*i]);
        let operands = fences.flat_map(|data| data.uses().chain(data.results.iter().copied()));
        let tuples: FxHashSet<Value> = operands.filter(general).collect();
        if tuples.is_empty() {
            return WgmmaRegisters(tuples);
        }
        let mut registers = tuples.clone();
        for data in all() {
            match data.op {
                Op::Pseudo(Pseudo::Pack) if data.results.iter().any(|v| tuples.contains(v)) => {
                    registers.extend(data.uses().filter(general));
                }
                Op::Pseudo(Pseudo::Copy | Pseudo::Unpack) if data.uses().any(|v| tuples.contains(&v)) => {
                    registers.extend(data.results.iter().copied().filter(general));
                }
                _ => {}
            }
        }
        WgmmaRegisters(registers)
    }

    pub fn are_accessed_by(&self, data: &InstData) -> bool {
        !self.0.is_empty() && data.uses().chain(data.results.iter().copied()).any(|v| self.0.contains(&v))
    }
}

/// Tuned latencies are at most this, so that the lengths of paths don't overflow.
const MAX_LATENCY: u32 = u16::MAX as u32;

/// The unit of an instruction.
#[derive(Clone, Copy)]
struct Issue {
    unit: Option<Unit>,
    /// Cycles until the unit accepts the next instruction.
    busy: u32,
    /// LDSM: the warps of a tile load their fragments at once, and each of them takes several passes.
    loads_matrix: bool,
}

/// Units that share an issue port.
fn pipe(unit: Unit) -> Unit {
    match unit {
        Unit::Select | Unit::PredicateLogic | Unit::Clock | Unit::Predicates => Unit::Alu,
        Unit::MulHigh => Unit::Wide,
        unit => unit,
    }
}

/// The unit of an operation with these modifiers.
type KnownIssue = (SmallVec<[M; 4]>, Issue);

/// Units and latencies of operations; the unit of each is looked up once.
pub struct LatencyTable {
    model: &'static Model,
    isa: Isa,
    tuning: Tuning,
    known: FxHashMap<sass::Op, Vec<KnownIssue>>,
    /// By value: memory for [`DepGraph::add_data_deps`], all zero.
    nodes: Vec<u32>,
}

impl LatencyTable {
    pub fn new(isa: Isa, tuning: &Tuning) -> LatencyTable {
        LatencyTable {
            model: Model::of(isa),
            isa,
            tuning: *tuning,
            known: FxHashMap::default(),
            nodes: Vec::new(),
        }
    }

    fn issue(&mut self, function: &Function, inst: Inst) -> Issue {
        let data = &function.insts[inst];
        let Op::Machine(op) = data.op else {
            return Issue { unit: None, busy: 0, loads_matrix: false };
        };
        let known = self.known.entry(op).or_default();
        if let Some((_, issue)) = known.iter().find(|(modifiers, _)| *modifiers == data.modifiers) {
            return *issue;
        }
        let operands: SmallVec<[sass::Operand; 8]> =
            crate::codegen::legalize::operands(function, data, &mut |_, word| 2 + word).collect();
        let made = sass::Inst::new(self.isa, op, &data.modifiers, &operands).ok();
        let unit = made.map(|inst| self.model.unit(&inst));
        let interval = match unit {
            Some(Unit::Gmma) => issue::wgmma_interval(data.modifiers.iter().copied()),
            _ => 0,
        };
        let busy = unit.map_or(1, |u| u32::from(self.model.interval(u).max(interval)));
        let issue = Issue { unit, busy, loads_matrix: op == sass::Op::LDSM };
        known.push((data.modifiers.clone(), issue));
        issue
    }

    /// Cycles from a definition to a use of a value of this file.
    fn between(&self, def: &Issue, user: &Issue, file: File, as_guard: bool) -> u32 {
        let Some(from) = def.unit else { return 0 };
        // Wgmma queue up.
        if from == Unit::Gmma && user.unit == Some(Unit::Gmma) {
            return def.busy;
        }
        if def.loads_matrix {
            return self.tuning.sched_matrix_load_latency.min(MAX_LATENCY);
        }
        if from.writes_late() {
            return self.expected(from);
        }
        let (result, source) = match file {
            File::P if as_guard => (Part::P, Part::Guard),
            File::P => (Part::P, Part::P),
            File::UR => (Part::U, Part::U),
            File::UP => (Part::V, Part::V),
            File::R | File::B => (Part::R, Part::R),
        };
        // A pseudo operation stands for the uses of its result.
        let to = user.unit.unwrap_or(Unit::Alu);
        let need = self.model.raw(Port { unit: from, part: result }, Port { unit: to, part: source });
        u32::from(need.cycles)
    }

    /// The expected latency of a unit whose latency varies. Correctness doesn't depend on it: scoreboards do the waiting.
    fn expected(&self, unit: Unit) -> u32 {
        let tuning = &self.tuning;
        let latency = match unit {
            Unit::Memory | Unit::Texture => tuning.sched_memory_latency,
            Unit::Shared => tuning.sched_shared_latency,
            Unit::Special | Unit::BarrierResult | Unit::MemoryBarrier => tuning.sched_special_latency,
            Unit::SpecialUniform | Unit::UniformLate => tuning.sched_special_latency,
            Unit::Fp64 => tuning.sched_fp64_latency,
            Unit::Gmma => tuning.sched_wgmma_latency,
            _ => tuning.sched_other_latency,
        };
        latency.min(MAX_LATENCY)
    }
}
