//! What must stay in order within a window of a block, and how far apart it wants to be.
//!
//! * A value is used after it is defined.
//! * Loads may pass each other, but not a store that may write what they read; nor do stores that may write the same
//!   place. Two accesses are apart if they are to different memories, or to the same base at offsets that don't overlap.
//! * What threads of a warp do together keeps its order; so do atomics and barriers, which no access passes.
//! * Nothing at all passes what is not known here: products of warpgroups, calls, convergence, clocks.

use crate::simplify;
use ori::{Arg, Block, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashMap;
use sass::model::{Model, Part, Port, Unit};
use sass::{Class, Isa, M};
use smallvec::SmallVec;

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
        let free =
            matches!(data.op, Op::Pseudo(Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef));
        return if free { Kind::Free } else { Kind::Wall };
    };
    use sass::Op::*;
    let fixed = |a: &Arg| matches!(a, Arg::Name(m) if simplify::is_lasting(*m));
    match op {
        LDC | ULDC | LDCU => Kind::Free,
        S2R | S2UR | CS2R if data.args.iter().all(fixed) => Kind::Free,
        S2R | S2UR | CS2R | BMOV | ELECT | LEPC | R2P | P2R => Kind::Wall,
        VOTE | VOTEU | SHFL | MATCH | REDUX | CREDUX => Kind::Warp,
        WARPSYNC => Kind::Meet,
        BAR | ATOM | ATOMG | ATOMS | RED => Kind::Order,
        LDG | LDS | LD | LDL | LDSM => access(data, op).map_or(Kind::Order, Kind::Load),
        STG | STS | ST | STL => access(data, op).map_or(Kind::Order, Kind::Store),
        _ => sass::Form::of(op).first().map_or(Kind::Wall, |form| of_class(form.class)),
    }
}

fn of_class(class: Class) -> Kind {
    use Class::*;
    match class {
        Alu | Fma | Wide | Half | Hmma2 | Double | Fp64 | Xu | Uniform => Kind::Free,
        Tensor => Kind::Matrix,
        _ => Kind::Wall,
    }
}

/// The bytes of a plain load or store; `None` if its modifiers say more than how wide it is.
fn access(data: &InstData, op: sass::Op) -> Option<Access> {
    use sass::Op::{LDG, LDL, LDS, LDSM, STG, STL, STS};
    let mut memory = match op {
        LDG | STG => Memory::Global,
        LDS | STS | LDSM => Memory::Shared,
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
    let base = base.filter(|_| op != LDSM);
    Some(Access { memory, base, offset, bytes })
}

/// Must the second stay behind the first, whatever values they have?
fn ordered(first: Kind, second: Kind) -> bool {
    use Kind::*;
    match (first, second) {
        (Free, _) | (_, Free) | (Load(_), Load(_)) => false,
        (Matrix, Meet | Wall) | (Meet | Wall, Matrix) => true,
        (Matrix, _) | (_, Matrix) => false,
        (Warp, Load(_) | Store(_)) | (Load(_) | Store(_), Warp) => false,
        (Load(a), Store(b)) | (Store(a), Load(b)) | (Store(a), Store(b)) => a.may_meet(&b),
        _ => true,
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
    /// The longest way to the end of the block in cycles.
    pub height: Vec<u32>,
    /// Cycles that an instruction takes to issue.
    pub issue: Vec<u32>,
    /// Who comes after each, and how many cycles.
    edges: Vec<SmallVec<[(usize, u32); 4]>>,
}

impl Graph {
    pub fn new(function: &Function, block: Block, insts: &[Inst], latencies: &mut Latencies) -> Graph {
        let ports: Vec<Ports> = insts.iter().map(|i| latencies.of(function, *i)).collect();
        let mut graph = Graph {
            insts: insts.to_vec(),
            height: vec![0; insts.len()],
            issue: ports.iter().map(|p| p.issue).collect(),
            edges: vec![SmallVec::new(); insts.len()],
        };
        graph.values(function, &ports, latencies.model);
        graph.effects(function);
        graph.replacements(function, block);
        graph.heights(function, block, &ports);
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

    fn effects(&mut self, function: &Function) {
        let bound: Vec<(usize, Kind)> = (0..self.insts.len())
            .map(|node| (node, kind(function, &function.insts[self.insts[node]])))
            .filter(|(_, kind)| *kind != Kind::Free)
            .collect();
        for (i, (node, second)) in bound.iter().enumerate() {
            for (before, first) in bound[..i].iter().rev() {
                if ordered(*first, *second) {
                    self.edges[*before].push((*node, 1));
                    // Who keeps its order with everything has all before it behind itself.
                    if *first == Kind::Order {
                        break;
                    }
                }
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
        let mut users: FxHashMap<Value, SmallVec<[usize; 4]>> = FxHashMap::default();
        for (node, inst) in self.insts.iter().enumerate() {
            let data = &function.insts[*inst];
            for param in data.results.iter().filter_map(|v| replaced.get(v)) {
                for &user in users.get(param).into_iter().flatten() {
                    self.edges[user].push((node, 0));
                }
            }
            data.uses().for_each(|v| users.entry(v).or_default().push(node));
        }
    }

    fn heights(&mut self, function: &Function, block: Block, ports: &[Ports]) {
        let branch = match function.blocks[block].end {
            Terminator::Branch { predicate, .. } => Some(predicate),
            _ => None,
        };
        for node in (0..self.insts.len()).rev() {
            let data = &function.insts[self.insts[node]];
            let decides = branch.is_some_and(|p| data.results.contains(&p));
            let own = if decides { TO_BRANCH } else { ports[node].issue };
            let behind = self.edges[node].iter().map(|(to, cycles)| self.height[*to] + cycles).max();
            self.height[node] = own.max(behind.unwrap_or(0));
            // Uniform registers don't move: those that live longest come first, and have the same place everywhere.
            if matches!(data.op, Op::Machine(sass::Op::ULDC | sass::Op::LDCU)) && data.uses().next().is_none()
            {
                self.height[node] = u32::MAX / 2;
            }
        }
    }
}

/// From a comparison to the branch that it decides: see the model's guards.
const TO_BRANCH: u32 = 13;

/// What runs an instruction.
#[derive(Clone, Copy)]
struct Ports {
    unit: Option<Unit>,
    issue: u32,
}

impl Ports {
    /// Cycles from an instruction to one that uses a value of this file.
    fn to(&self, other: &Ports, file: File, as_guard: bool, model: &Model) -> u32 {
        let Some(from) = self.unit else { return 0 };
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
        Unit::Special | Unit::SpecialUniform | Unit::UniformLate => 40,
        Unit::Fp64 => 48,
        _ => 24,
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
        let Op::Machine(op) = data.op else { return Ports { unit: None, issue: 0 } };
        let key = (op, data.modifiers.clone());
        if let Some(ports) = self.known.get(&key) {
            return *ports;
        }
        let operands: SmallVec<[sass::Operand; 8]> =
            crate::legalize::operands(function, data, &mut |_, word| 2 + word).collect();
        let made = sass::Inst::new(self.isa, op, &data.modifiers, &operands).ok();
        let unit = made.map(|inst| self.model.unit(&inst));
        let issue = unit.map_or(1, |u| u32::from(self.model.interval(u)).min(4));
        let ports = Ports { unit, issue };
        self.known.insert(key, ports);
        ports
    }
}
