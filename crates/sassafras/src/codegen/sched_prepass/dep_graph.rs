//! What must stay in order within a window of a block, and how far apart it wants to be.
//!
//! * A value is used after it is defined.
//! * Memory dependences, acquire and release, convergence and scheduling barriers are what `effects.rs` says
//!   ([`Effects::stay_in_order`]).
//! * Products of warpgroups, their arrivals and waits are fences: what has nothing to do with the registers that they
//!   work on passes, so that it is done while they run.

use crate::analysis::effects::{Convergence, Effects, Motion};
use crate::mach::control_codes;
use ori::{Block, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::model::{Model, Part, Port, Unit};
use sass::{Isa, M};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What binds more around it than its effects say.
pub enum Cut {
    /// Nothing that touches the registers of products passes.
    Fence,
    /// Nothing passes.
    Wall,
}

pub fn cut(data: &InstData) -> Option<Cut> {
    match Effects::of(data).motion {
        Motion::Wgmma => Some(Cut::Fence),
        Motion::Barrier => Some(Cut::Wall),
        Motion::Free => None,
    }
}

/// The runs of instructions between walls, and the walls, cut to a length.
pub fn windows<'a>(function: &Function, insts: &'a [Inst], most: usize) -> Vec<&'a [Inst]> {
    let wall = |i: &Inst| Effects::of(&function.insts[*i]).motion == Motion::Barrier;
    let runs = insts.chunk_by(|a, b| wall(a) == wall(b) && !wall(a));
    runs.flat_map(|run| run.chunks(most)).collect()
}

/// The order of a window.
pub struct Graph {
    pub insts: Vec<Inst>,
    /// How long before the end of the window each wants to be done, in cycles.
    pub height: Vec<u32>,
    /// What runs each, if it is an instruction of the machine, and for how many cycles nothing else can begin there.
    pub pipe: Vec<Option<Unit>>,
    pub busy: Vec<u32>,
    /// Has it to be done where it is, whatever it needs?
    pub fence: Vec<bool>,
    /// Does it wait for products?
    pub is_wait: Vec<bool>,
    /// How many of these come before the first one that has use for its results; what only computes something else of
    /// them has none.
    pub waits_first: Vec<u32>,
    /// Who comes after each, and how many cycles.
    edges: Vec<SmallVec<[(usize, u32); 4]>>,
}

impl Graph {
    /// `together` says that the whole warp runs the block at once.
    pub fn new(
        function: &Function,
        (block, together): (Block, bool),
        insts: &[Inst],
        latencies: &mut Latencies,
    ) -> Graph {
        let ports: Vec<Ports> = insts.iter().map(|i| latencies.of(function, *i)).collect();
        let of = |inst: &Inst| {
            let data = &function.insts[*inst];
            let effects = Effects::of(data);
            match together && votes(data) && effects.motion == Motion::Free {
                true => Effects { convergence: Convergence::Matrix, ..effects },
                false => effects,
            }
        };
        let all: Vec<Effects> = insts.iter().map(of).collect();
        let mut graph = Graph {
            insts: insts.to_vec(),
            height: vec![0; insts.len()],
            pipe: ports.iter().map(|p| p.unit.map(pipe)).collect(),
            busy: ports.iter().map(|p| p.busy).collect(),
            fence: all.iter().map(|effects| effects.motion == Motion::Wgmma).collect(),
            is_wait: insts.iter().map(|i| is_wait(&function.insts[*i])).collect(),
            waits_first: vec![0; insts.len()],
            edges: vec![SmallVec::new(); insts.len()],
        };
        graph.values(function, &ports, latencies.model);
        graph.effects(function, &all);
        graph.fences(function);
        graph.replacements(function, block);
        graph.heights(function, block);
        graph.waits_first(&all, &ports);
        graph
    }

    pub fn after(&self, node: usize) -> &[(usize, u32)] {
        &self.edges[node]
    }

    pub fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.insts.len()];
        self.edges.iter().flatten().for_each(|(to, _)| waits[*to] += 1);
        waits
    }

    fn values(&mut self, function: &Function, ports: &[Ports], model: &Model) {
        let mut definition: FxHashMap<Value, usize> = FxHashMap::default();
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            let guard = data.guard.as_ref().map(|g| g.predicate);
            for value in data.uses() {
                if let Some(&from) = definition.get(&value) {
                    let file = function.values[value].file;
                    let cycles = ports[from].to(&ports[node], file, guard == Some(value), model);
                    self.edges[from].push((node, cycles));
                }
            }
            definition.extend(data.results.iter().map(|v| (*v, node)));
        }
    }

    fn effects(&mut self, function: &Function, all: &[Effects]) {
        let bound: Vec<(usize, &Effects)> = all.iter().enumerate().filter(|(_, e)| !e.is_free()).collect();
        for (i, (node, second)) in bound.iter().enumerate() {
            for (before, first) in bound[..i].iter().rev() {
                if Effects::stay_in_order(first, second) {
                    let cycles = self.apart(function, *before, *node);
                    self.edges[*before].push((*node, cycles));
                    if Effects::closes(first, second) {
                        break;
                    }
                }
            }
        }
    }

    /// Cycles between two that stay in order because of their effects.
    fn apart(&self, function: &Function, first: usize, second: usize) -> u32 {
        let data = |node: usize| &function.insts[self.insts[node]];
        let is_product = |node: usize| self.pipe[node] == Some(Unit::Gmma);
        match () {
            () if is_wait(data(second)) && is_product(first) => expected(Unit::Gmma),
            () if is_arrival(data(first)) && is_product(second) => ARRIVAL,
            () => 1,
        }
    }

    /// What touches the registers of products stays between the fences where it is. The rest may go behind a fence, and
    /// before a wait; but before the first of some products only what is done in uniform registers, so that no more is
    /// alive at it. Between them it takes no time: the next one has to wait for the one before.
    fn fences(&mut self, function: &Function) {
        if !self.fence.contains(&true) {
            return;
        }
        let flying = Flying::new(function, &self.insts);
        let (mut last, mut begun, mut since): (Option<usize>, Option<usize>, Vec<usize>) = Default::default();
        let mut follows_product = false;
        for node in 0..self.insts.len() {
            let data = &function.insts[self.insts[node]];
            if self.fence[node] {
                let cycles = if is_arrival(data) { ARRIVAL } else { 1 };
                since.drain(..).for_each(|before| self.edges[before].push((node, cycles)));
                last = Some(node);
                let is_product = self.pipe[node] == Some(Unit::Gmma);
                let goes_on = is_product && follows_product;
                begun = if is_wait(data) || goes_on { begun } else { last };
                follows_product = is_product;
                continue;
            }
            let bound = flying.touches(data);
            since.extend(bound.then_some(node));
            let after = if bound { last } else { begun.filter(|_| !is_uniform(function, data)) };
            if let Some(fence) = after {
                self.edges[fence].push((node, 0));
            }
        }
    }

    /// A value that takes the place of a parameter for the next block comes behind the uses of that, so that both can
    /// have one register.
    fn replacements(&mut self, function: &Function, block: Block) {
        let mut replaced: FxHashMap<Value, Value> = FxHashMap::default();
        for edge in function.blocks[block].end.edges() {
            // The arguments of an edge that was split stand in the block between.
            let between = &function.blocks[edge.to];
            let split = if between.insts.is_empty() { between.end.edges() } else { SmallVec::new() };
            for edge in split.into_iter().chain([edge]) {
                let params = &function.blocks[edge.to].params;
                replaced.extend(edge.args.iter().copied().zip(params.iter().copied()));
            }
        }
        if replaced.is_empty() {
            return;
        }
        let mut users: FxHashMap<Value, Vec<usize>> =
            replaced.values().map(|param| (*param, Vec::new())).collect();
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            for param in data.results.iter().filter_map(|v| replaced.get(v)) {
                for &user in users.get(param).into_iter().flatten() {
                    self.edges[user].push((node, 0));
                }
            }
            data.uses().for_each(|v| {
                if let Some(users) = users.get_mut(&v) {
                    users.push(node);
                }
            });
        }
    }

    /// Heights are times of an order made backwards from the end of the block, with one instruction a cycle and no unit
    /// busier than it can be: where many wait for a slow unit, what leads to the first of them stands higher than what
    /// leads to the last, though the ways are as long. What came later in the code is later here, if there is a choice,
    /// and before that what has a slow unit's result for itself ([`Graph::sharers`]).
    fn heights(&mut self, function: &Function, block: Block) {
        let branch = match function.blocks[block].end {
            Terminator::Branch { predicate, .. } => Some(predicate),
            _ => None,
        };
        let depth = self.depths();
        let mut users: Vec<usize> = self.edges.iter().map(|edges| edges.len()).collect();
        let mut before: Vec<SmallVec<[(usize, u32); 4]>> = vec![SmallVec::new(); self.insts.len()];
        for (node, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|(to, cycles)| before[*to].push((node, *cycles)));
        }
        for (node, inst) in self.insts.iter().enumerate() {
            let decides = branch.is_some_and(|p| function.insts[*inst].results.contains(&p));
            self.height[node] = match self.pipe[node] {
                _ if decides => TO_BRANCH,
                // Whoever waits for it, here or in the next round.
                Some(Unit::Gmma) => expected(Unit::Gmma),
                _ => self.busy[node],
            };
        }
        let (mut free, mut next) = ([0; Unit::COUNT], 0);
        let sharers = self.sharers(&before);
        let at = |time: u32, node: usize| (Reverse(time), Reverse(sharers[node]), depth[node], node);
        let ends = (0..self.insts.len()).filter(|node| users[*node] == 0);
        let mut open: BinaryHeap<_> = ends.map(|node| at(self.height[node], node)).collect();
        while let Some((Reverse(time), _, _, node)) = open.pop() {
            if let Some(pipe) = self.pipe[node] {
                let begins = time.max(free[pipe as usize]).max(next);
                if begins > time {
                    open.push(at(begins, node));
                    continue;
                }
                (free[pipe as usize], next) = (time + self.busy[node], time + 1);
            }
            self.height[node] = time;
            for &(from, cycles) in &before[node] {
                self.height[from] = self.height[from].max(time + cycles);
                users[from] -= 1;
                if users[from] == 0 {
                    open.push(at(self.height[from], from));
                }
            }
        }
        self.lift_constants(function);
        self.lift_products(function);
    }

    /// How many there are that use the same result of the unit for functions as each does; none if it uses no such result.
    /// These results come slowly. What many need of one can be done while the next ones come: so it had better not be
    /// left for the end, as that to which each result leads by itself has to be. Only products are waited for there.
    fn sharers(&self, before: &[SmallVec<[(usize, u32); 4]>]) -> Vec<u32> {
        if !self.fence.contains(&true) {
            return vec![0; self.insts.len()];
        }
        let of = |node: usize| {
            let makers = before[node].iter().filter(|(from, _)| self.pipe[*from] == Some(Unit::Xu));
            makers.map(|(from, _)| self.edges[*from].len() as u32).min().unwrap_or(0)
        };
        (0..self.insts.len()).map(of).collect()
    }

    fn waits_first(&mut self, all: &[Effects], ports: &[Ports]) {
        let mut before = vec![0; self.insts.len()];
        for node in 0..self.insts.len() {
            let behind = before[node] + u32::from(self.is_wait[node]);
            self.edges[node].iter().for_each(|(to, _)| before[*to] = before[*to].max(behind));
        }
        for node in (0..self.insts.len()).rev() {
            let first =
                self.edges[node].iter().map(|(to, _)| self.waits_first[*to]).min().unwrap_or(u32::MAX);
            let computes = all[node].is_free() && !ports[node].unit.is_some_and(|u| u.writes_late());
            self.waits_first[node] = if computes { first.max(before[node]) } else { before[node] };
        }
    }

    /// Uniform registers don't move: those that live longest come first, and have the same place everywhere.
    fn lift_constants(&mut self, function: &Function) {
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            let constant = matches!(data.op, Op::Machine(sass::Op::ULDC | sass::Op::LDCU));
            if constant && data.uses().next().is_none() {
                self.height[node] = u32::MAX / 2;
            }
        }
    }

    /// Nothing is as urgent as what the tensor cores have to do: a product goes as soon as it can.
    fn lift_products(&mut self, function: &Function) {
        for (node, inst) in self.insts.iter().enumerate() {
            if self.pipe[node] == Some(Unit::Gmma) || is_arrival(&function.insts[*inst]) {
                self.height[node] = u32::MAX / 4;
            }
        }
    }

    /// The longest way from the beginning of the window to each.
    fn depths(&self) -> Vec<u32> {
        let mut depth = vec![0; self.insts.len()];
        for node in 0..self.insts.len() {
            for (to, cycles) in &self.edges[node] {
                depth[*to] = depth[*to].max(depth[node] + cycles);
            }
        }
        depth
    }
}

/// A wait for products, or what stands for their results behind it.
fn is_wait(data: &InstData) -> bool {
    data.op == Op::Pseudo(Pseudo::Landed) || data.modifiers.first() == Some(&M::DEPBAR)
}

/// `WARPGROUP.ARRIVE`, and the cycles from there to the first product, or to there from what products read.
fn is_arrival(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::WARPGROUP) && data.modifiers.first() == Some(&M::ARRIVE)
}

const ARRIVAL: u32 = control_codes::ARRIVAL as u32;

/// Does it ask the threads that are here for predicates alone?
fn votes(data: &InstData) -> bool {
    matches!(data.op, Op::Machine(sass::Op::ELECT | sass::Op::VOTE | sass::Op::VOTEU))
}

/// Is it done in uniform registers, or brings it something there?
fn is_uniform(function: &Function, data: &InstData) -> bool {
    let uniform = |v: Value| matches!(function.values[v].file, File::UR | File::UP);
    data.results.iter().copied().all(uniform)
        && (data.op == Op::Machine(sass::Op::R2UR) || data.uses().all(uniform))
}

/// The general registers that products work on, and the words that they are put together of or taken apart into: all of
/// these have the same place, as long as nobody needs one at the same time as another.
pub struct Flying(FxHashSet<Value>);

impl Flying {
    pub fn new(function: &Function, insts: &[Inst]) -> Flying {
        let general = |v: &Value| function.values[*v].file == File::R;
        let all = || insts.iter().map(|i| &function.insts[*i]);
        let fences = all().filter(|data| Effects::of(data).motion == Motion::Wgmma);
        let touched = fences.flat_map(|data| data.uses().chain(data.results.iter().copied()));
        let whole: FxHashSet<Value> = touched.filter(general).collect();
        let mut flying = whole.clone();
        for data in all() {
            match data.op {
                Op::Pseudo(Pseudo::Pack) if data.results.iter().any(|v| whole.contains(v)) => {
                    flying.extend(data.uses().filter(general));
                }
                Op::Pseudo(Pseudo::Copy | Pseudo::Unpack) if data.uses().any(|v| whole.contains(&v)) => {
                    flying.extend(data.results.iter().copied().filter(general));
                }
                _ => {}
            }
        }
        Flying(flying)
    }

    pub fn touches(&self, data: &InstData) -> bool {
        data.uses().chain(data.results.iter().copied()).any(|v| self.0.contains(&v))
    }
}

/// From a comparison to the branch that it decides: see the model's guards.
const TO_BRANCH: u32 = 13;

/// What runs an instruction.
#[derive(Clone, Copy)]
struct Ports {
    unit: Option<Unit>,
    /// Cycles until the next one can begin there.
    busy: u32,
}

impl Ports {
    /// Cycles from an instruction to one that uses a value of this file.
    fn to(&self, other: &Ports, file: File, as_guard: bool, model: &Model) -> u32 {
        let Some(from) = self.unit else { return 0 };
        // Products queue up behind each other.
        if from == Unit::Gmma && other.unit == Some(Unit::Gmma) {
            return self.busy;
        }
        if from.writes_late() {
            return expected(from);
        }
        let (result, source) = match file {
            File::P if as_guard => (Part::P, Part::Guard),
            File::P => (Part::P, Part::P),
            File::UR => (Part::U, Part::U),
            File::UP => (Part::V, Part::V),
            File::R | File::B => (Part::R, Part::R),
        };
        // A value that is put together is used by someone.
        let to = other.unit.unwrap_or(Unit::Alu);
        let need = model.raw(Port { unit: from, part: result }, Port { unit: to, part: source });
        u32::from(need.cycles)
    }
}

/// About how long a result takes that comes when it comes. These numbers order code, and nothing relies on them.
fn expected(unit: Unit) -> u32 {
    match unit {
        Unit::Memory | Unit::Texture => 300,
        Unit::Shared => 30,
        Unit::Special | Unit::BarrierResult | Unit::MemoryBarrier => 40,
        Unit::SpecialUniform | Unit::UniformLate => 40,
        Unit::Fp64 => 48,
        Unit::Gmma => 64,
        _ => 24,
    }
}

/// Units that share what issues to them.
fn pipe(unit: Unit) -> Unit {
    match unit {
        Unit::Select | Unit::PredicateLogic | Unit::Clock | Unit::Predicates => Unit::Alu,
        Unit::MulHigh => Unit::Wide,
        unit => unit,
    }
}

/// The units of operations, each looked up once.
pub struct Latencies {
    model: &'static Model,
    isa: Isa,
    known: FxHashMap<(sass::Op, SmallVec<[M; 4]>), Ports>,
}

impl Latencies {
    pub fn new(isa: Isa) -> Latencies {
        Latencies { model: Model::of(isa), isa, known: FxHashMap::default() }
    }

    fn of(&mut self, function: &Function, inst: Inst) -> Ports {
        let data = &function.insts[inst];
        let Op::Machine(op) = data.op else { return Ports { unit: None, busy: 0 } };
        let key = (op, data.modifiers.clone());
        if let Some(ports) = self.known.get(&key) {
            return *ports;
        }
        let operands: SmallVec<[sass::Operand; 8]> =
            crate::codegen::legalize::operands(function, data, &mut |_, word| 2 + word).collect();
        let made = sass::Inst::new(self.isa, op, &data.modifiers, &operands).ok();
        let unit = made.map(|inst| self.model.unit(&inst));
        let next = match unit {
            Some(Unit::Gmma) => control_codes::wgmma_interval(data.modifiers.iter().copied()),
            _ => 0,
        };
        let busy = unit.map_or(1, |u| u32::from(self.model.interval(u).max(next)));
        let ports = Ports { unit, busy };
        self.known.insert(key, ports);
        ports
    }
}
