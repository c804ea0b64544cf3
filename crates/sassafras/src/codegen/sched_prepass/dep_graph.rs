//! What must stay in order within a window of a block, and how far apart it wants to be.
//!
//! * A value is used after it is defined.
//! * Loads may pass each other, but not a store that may write what they read; nor do stores that may write the same
//!   place. Two accesses are apart if they are to different memories, or to the same base at offsets that don't overlap.
//! * What threads of a warp do together keeps its order; so do atomics and barriers, which no access passes.
//! * Products of warpgroups, their arrivals and waits are fences: what has nothing to do with the registers that they
//!   work on passes, so that it is done while they run.
//! * Nothing at all passes what is not known here: calls, convergence, clocks.

use crate::mach::control_codes;
use crate::opt::simplify;
use ori::{Arg, Block, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::model::{Model, Part, Port, Unit};
use sass::{Class, Isa, M};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How an instruction is bound to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Free,
    Load(Access),
    Store(Access),
    /// The threads of a warp do it together.
    Warp,
    /// The same, with their registers alone: it only stays where the threads have met.
    Matrix,
    /// No access to memory passes it.
    Order,
    /// The same, and the threads of a warp meet here.
    Meet,
    /// As `Order`; nor does anything pass that touches the registers of products: it is one of them, or has to do with
    /// their flight.
    Fence,
    /// Nothing passes it.
    Wall,
}

/// Which bytes are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Access {
    memory: Memory,
    base: Option<Value>,
    offset: i64,
    bytes: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Global,
    /// Global, and not written while the kernel runs.
    Constant,
    Shared,
    Local,
    Any,
}

impl Access {
    fn may_meet(&self, other: &Access) -> bool {
        use Memory::{Any, Constant};
        if self.memory == Constant || other.memory == Constant {
            return false;
        }
        if self.memory != other.memory && self.memory != Any && other.memory != Any {
            return false;
        }
        let same_base = self.base.is_some() && self.base == other.base;
        let overlap = self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes;
        !same_base || overlap
    }
}

fn kind(function: &Function, data: &InstData) -> Kind {
    let named = |a: &Arg| matches!(a, Arg::Fixed { .. } | Arg::StackTop);
    if data.args.iter().any(named) {
        return Kind::Wall;
    }
    // Strong reads of shared memory look like others.
    if data.results.iter().any(|r| function.awaited.contains(r)) {
        return Kind::Order;
    }
    let Op::Machine(op) = data.op else {
        return match data.op {
            Op::Pseudo(Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef) => Kind::Free,
            Op::Pseudo(Pseudo::Landed) => Kind::Fence,
            _ => Kind::Wall,
        };
    };
    use sass::Op::*;
    let fixed = |a: &Arg| matches!(a, Arg::Name(m) if simplify::is_lasting(*m));
    match op {
        LDC | ULDC | LDCU => Kind::Free,
        S2R | S2UR | CS2R if data.args.iter().all(fixed) => Kind::Free,
        S2R | S2UR | CS2R | BMOV | LEPC | R2P | P2R => Kind::Wall,
        ELECT | VOTE | VOTEU | SHFL | MATCH | REDUX | CREDUX => Kind::Warp,
        WARPSYNC => Kind::Meet,
        BAR | SYNCS | ATOM | ATOMG | ATOMS | RED => Kind::Order,
        // Copies to shared memory, their groups, and the wait for these.
        LDGSTS | LDGDEPBAR | DEPBAR => Kind::Order,
        HGMMA | IGMMA | QGMMA | BGMMA | WARPGROUP => Kind::Fence,
        LDG | LDS | LD | LDL | LDSM => access(data, op).map_or(Kind::Order, Kind::Load),
        STG | STS | ST | STL | STSM => access(data, op).map_or(Kind::Order, Kind::Store),
        _ => sass::Form::of(op).first().map_or(Kind::Wall, |form| of_class(form.class)),
    }
}

fn of_class(class: Class) -> Kind {
    use Class::*;
    match class {
        Alu | Fma | Wide | Half | Hmma2 | Double | Fp64 | Xu | Uniform => Kind::Free,
        Tensor => Kind::Matrix,
        // Copies that the machine makes on its own, of tensors and in bulk.
        UniformStore => Kind::Order,
        _ => Kind::Wall,
    }
}

/// The bytes of a plain load or store; `None` if its modifiers say more than how wide it is.
fn access(data: &InstData, op: sass::Op) -> Option<Access> {
    use sass::Op::{LDG, LDL, LDS, LDSM, STG, STL, STS, STSM};
    let mut memory = match op {
        LDG | STG => Memory::Global,
        LDS | STS | LDSM | STSM => Memory::Shared,
        LDL | STL => Memory::Local,
        _ => Memory::Any,
    };
    let mut bytes = 4;
    for modifier in &data.modifiers {
        match modifier {
            M::_64 => bytes = 8,
            M::_128 => bytes = 16,
            M::CONSTANT => memory = Memory::Constant,
            M::E | M::U8 | M::S8 | M::U16 | M::S16 | M::EF | M::EL | M::_16 | M::M88 | M::_4 | M::_2 => {}
            M::MT88 => {}
            _ => return None,
        }
    }
    let at = (0..data.args.len().checked_sub(1)?)
        .find(|at| matches!(data.args[at + 1], Arg::Imm(_)) && !matches!(data.args[*at], Arg::Imm(_)))?;
    let (base, Arg::Imm(offset)) = (data.args[at].value(), data.args[at + 1]) else { return None };
    // Threads of a warp name the rows of a matrix together.
    let base = base.filter(|_| !matches!(op, LDSM | STSM));
    Some(Access { memory, base, offset, bytes })
}

/// Must the second stay behind the first, whatever values they have?
fn ordered(first: Kind, second: Kind) -> bool {
    use Kind::*;
    match (first, second) {
        (Free, _) | (_, Free) | (Load(_), Load(_)) => false,
        (Matrix, Meet | Wall) | (Meet | Wall, Matrix) => true,
        (Matrix, _) | (_, Matrix) => false,
        (Warp, Load(_) | Store(_) | Fence) | (Load(_) | Store(_) | Fence, Warp) => false,
        (Load(a), Store(b)) | (Store(a), Load(b)) | (Store(a), Store(b)) => a.may_meet(&b),
        _ => true,
    }
}

/// What an instruction has to do with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    Nothing,
    /// It is a plain load of what may be written, and of what is not while the kernel runs.
    Reads,
    Constant,
    /// It may write, or order what others write.
    Writes,
}

impl Touch {
    pub fn of(function: &Function, data: &InstData) -> Touch {
        match kind(function, data) {
            Kind::Free | Kind::Warp | Kind::Matrix => Touch::Nothing,
            Kind::Load(Access { memory: Memory::Constant, .. }) => Touch::Constant,
            Kind::Load(_) => Touch::Reads,
            _ => Touch::Writes,
        }
    }
}

/// May it stand anywhere between what it needs and what needs it?
pub fn is_free(function: &Function, data: &InstData) -> bool {
    kind(function, data) == Kind::Free
}

/// What binds more around it than its effects say.
pub enum Cut {
    /// Nothing that touches the registers of products passes.
    Fence,
    /// Nothing passes.
    Wall,
}

pub fn cut(function: &Function, data: &InstData) -> Option<Cut> {
    match kind(function, data) {
        Kind::Fence => Some(Cut::Fence),
        Kind::Wall => Some(Cut::Wall),
        _ => None,
    }
}

/// The runs of instructions between walls, and the walls, cut to a length.
pub fn windows<'a>(function: &Function, insts: &'a [Inst], most: usize) -> Vec<&'a [Inst]> {
    let wall = |i: &Inst| kind(function, &function.insts[*i]) == Kind::Wall;
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
        let kind = |inst: &Inst| match kind(function, &function.insts[*inst]) {
            Kind::Warp if together && votes(&function.insts[*inst]) => Kind::Matrix,
            kind => kind,
        };
        let kinds: Vec<Kind> = insts.iter().map(kind).collect();
        let mut graph = Graph {
            insts: insts.to_vec(),
            height: vec![0; insts.len()],
            pipe: ports.iter().map(|p| p.unit.map(pipe)).collect(),
            busy: ports.iter().map(|p| p.busy).collect(),
            fence: kinds.iter().map(|kind| *kind == Kind::Fence).collect(),
            is_wait: insts.iter().map(|i| is_wait(&function.insts[*i])).collect(),
            waits_first: vec![0; insts.len()],
            edges: vec![SmallVec::new(); insts.len()],
        };
        graph.values(function, &ports, latencies.model);
        graph.effects(function, &kinds);
        graph.fences(function, &kinds);
        graph.replacements(function, block);
        graph.heights(function, block);
        graph.waits_first(&kinds, &ports);
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

    fn effects(&mut self, function: &Function, kinds: &[Kind]) {
        let bound: Vec<(usize, Kind)> =
            kinds.iter().copied().enumerate().filter(|(_, kind)| *kind != Kind::Free).collect();
        for (i, (node, second)) in bound.iter().enumerate() {
            for (before, first) in bound[..i].iter().rev() {
                if ordered(*first, *second) {
                    let cycles = self.apart(function, *before, *node);
                    self.edges[*before].push((*node, cycles));
                    // Who keeps its order with everything else has all before it behind itself.
                    if *first == Kind::Order && *second != Kind::Meet {
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
    fn fences(&mut self, function: &Function, kinds: &[Kind]) {
        if !kinds.contains(&Kind::Fence) {
            return;
        }
        let flying = Flying::new(function, &self.insts);
        let (mut last, mut begun, mut since): (Option<usize>, Option<usize>, Vec<usize>) = Default::default();
        let mut follows_product = false;
        for (node, kind) in kinds.iter().enumerate() {
            let data = &function.insts[self.insts[node]];
            if *kind == Kind::Fence {
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

    fn waits_first(&mut self, kinds: &[Kind], ports: &[Ports]) {
        let mut before = vec![0; self.insts.len()];
        for node in 0..self.insts.len() {
            let behind = before[node] + u32::from(self.is_wait[node]);
            self.edges[node].iter().for_each(|(to, _)| before[*to] = before[*to].max(behind));
        }
        for node in (0..self.insts.len()).rev() {
            let first =
                self.edges[node].iter().map(|(to, _)| self.waits_first[*to]).min().unwrap_or(u32::MAX);
            let computes = kinds[node] == Kind::Free && !ports[node].unit.is_some_and(|u| u.writes_late());
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
        let fences = all().filter(|data| kind(function, data) == Kind::Fence);
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
