//! Moves, loads, stores, atomics and address conversions.
//!
//! Memory is sequentially consistent here, so orders, scopes and cache hints change nothing. Asynchronous
//! copies of `cp.async` are done on the spot, so waiting for them is nothing, too.

use super::{Decoder, Dest, Ins, Number, Source, constant, map, map_all};
use crate::memory::{RANK_SHIFT, Space, WINDOW, rank_and_offset};
use crate::ptx::program::{Action, Address, Atomic, AtomicFunction, Copy, Limit, Special};
use crate::ptx::races::{self, GroupStep};
use ::ptx::Type;
use ::ptx::ast::Operand;
use ::ptx::words::Kind;
use ori::arith::Int;
use ori::arith::float::{self, F32, Flow, Format, MinMax};

/// What changes nothing: how long data stays in which cache, and when it is seen.
pub(super) const HINTS: &[&str] = &[
    "weak",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "sc",
    "mmio",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "gl",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "noftz",
    "L1",
    "L2",
    "uni",
    "aligned",
    "L1::evict_first",
    "L1::evict_last",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::no_allocate",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_unchanged",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "tensormap",
    "fractional",
];

impl<'a> Decoder<'a> {
    pub(super) fn memory(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "mov" => self.mov(ins),
            "ld" | "ldu" => self.load(ins),
            "st" | "multimem.st" => self.store(ins),
            "atom" | "red" | "multimem.red" => self.atomic(ins),
            // Of one device, a reduction of what all have is what it has.
            "multimem.ld_reduce" => {
                ins.word(Kind::Op)?;
                ins.ignore(&["acc::f32", "acc::f16"]);
                self.load(ins)
            }
            "cvta" | "cvta.to" => self.cvta(ins),
            "isspacep" => self.isspacep(ins),
            "cp.async" => self.copy(ins),
            "mapa" | "getctarank" => self.rank(ins),
            "alloca" => {
                let ty = ins.ty()?;
                let align = ins.get(2).map_or(Some(16), |operand| constant(operand, Type::U32))?;
                Some(Action::Alloca {
                    dest: self.dest(ins.get(0)?, ty)?,
                    size: self.source(ins.get(1)?, ty)?,
                    align,
                })
            }
            "stacksave" => {
                let ty = ins.ty()?;
                Some(Action::StackSave { dest: self.dest(ins.get(0)?, ty)? })
            }
            "stackrestore" => {
                let ty = ins.ty()?;
                Some(Action::StackRestore { source: self.source(ins.get(0)?, ty)? })
            }
            // A policy is a hint; all are the same here.
            "createpolicy.fractional" | "createpolicy.range" | "createpolicy.cvt" => {
                ins.ignore(HINTS);
                self.space(ins)?;
                let dest = self.dest(ins.get(0)?, ins.ty()?)?;
                ins.skip(1);
                self.compute(dest, vec![Source::constant(0)], map(|[a]: [u64; 1]| a))
            }
            "cp.async.commit_group" | "cp.async.wait_group" | "cp.async.wait_all" => {
                self.group_step(ins, races::Kind::Copies)
            }
            "prefetch" | "prefetchu" | "applypriority" | "discard" => {
                ins.ignore(HINTS);
                self.space(ins)?;
                ins.skip(0);
                Some(Action::Nothing)
            }
            _ => None,
        }
    }

    /// `commit_group`, `wait_group` and `wait_all` of one kind or another.
    pub(super) fn group_step(&self, ins: &Ins<'a>, kind: races::Kind) -> Option<Action> {
        let step = match ins.mnemonic().rsplit('.').next()? {
            "commit_group" => GroupStep::Commit,
            "wait_group" => GroupStep::Wait(constant(ins.get(0)?, Type::U32)? as u32),
            _ => GroupStep::WaitAll,
        };
        self.nothing(ins)?;
        Some(Action::Group { kind, step })
    }

    /// The next state space among the modifiers; generic without one.
    pub(super) fn space(&self, ins: &Ins) -> Option<Space> {
        let word = ins.word(Kind::Space);
        if ins.mnemonic().starts_with("multimem") {
            return Some(Space::Multicast);
        }
        Some(match word {
            None => Space::Generic,
            Some("global") => Space::Global,
            Some("shared" | "shared::cta") => Space::Shared,
            Some("shared::cluster") => Space::Cluster,
            Some("local") => Space::Local,
            Some("const") => Space::Const,
            Some("param" | "param::entry" | "param::func") => Space::Param,
            Some(_) => return None,
        })
    }

    /// Copies, puts together and takes apart.
    fn mov(&self, ins: &Ins<'a>) -> Option<Action> {
        let _ = ins.word(Kind::Vector);
        let ty = ins.ty()?;
        let (to, from) = (ins.get(0)?, ins.get(1)?);
        let (to_vector, from_vector) = (matches!(to, Operand::Vector(_)), matches!(from, Operand::Vector(_)));
        let whole = ty.bits().div_ceil(64) as usize;
        let dests = if to_vector { self.pieces_to(to, ty)? } else { self.dests(to, ty)? };
        let sources = if from_vector { self.pieces_from(from, ty)? } else { self.sources(from, ty)? };
        if to_vector == from_vector {
            // Element by element; a constant goes to all.
            (dests.len() == sources.len()).then_some(())?;
            let function = map_all(|inputs, outputs| outputs.copy_from_slice(inputs));
            if dests.len() == 1 {
                return self.compute(dests[0], sources, map(|[a]: [u64; 1]| a));
            }
            return Some(Action::Compute { sources: sources.into(), dests: dests.into(), function });
        }
        let pieces = if to_vector { dests.len() } else { sources.len() };
        let width = ty.bits() / pieces.max(1) as u32;
        (width * pieces as u32 == ty.bits() && whole == if to_vector { sources.len() } else { dests.len() })
            .then_some(())?;
        let mask = u128::MAX >> (128 - width);
        let function = map_all(move |inputs, outputs| {
            let step = if to_vector { 64 } else { width };
            let joined = inputs
                .iter()
                .enumerate()
                .fold(0u128, |out, (i, x)| out | u128::from(*x) << (step * i as u32));
            let (step, mask) = if to_vector { (width, mask) } else { (64, u64::MAX.into()) };
            for (i, out) in outputs.iter_mut().enumerate() {
                *out = (joined >> (step * i as u32) & mask) as u64;
            }
        });
        Some(Action::Compute { sources: sources.into(), dests: dests.into(), function })
    }

    /// The registers of a vector that are each a part of a value of this type.
    fn pieces_to(&self, operand: &Operand, ty: Type) -> Option<Vec<Dest>> {
        let Operand::Vector(range) = operand else { return None };
        let list = self.code.list(*range);
        let piece = Type::bits_of(ty.bits() / list.len().max(1) as u32)?;
        list.iter().map(|operand| self.dest(operand, piece)).collect()
    }

    fn pieces_from(&self, operand: &Operand, ty: Type) -> Option<Vec<Source>> {
        let Operand::Vector(range) = operand else { return None };
        let list = self.code.list(*range);
        let piece = Type::bits_of(ty.bits() / list.len().max(1) as u32)?;
        list.iter().map(|operand| self.source(operand, piece)).collect()
    }

    /// The policy after `.L2::cache_hint` is the last operand.
    fn hinted(&self, ins: &Ins) -> usize {
        let hinted = ins.flag("L2::cache_hint");
        if hinted {
            ins.get(ins.len().saturating_sub(1));
        }
        ins.len() - usize::from(hinted)
    }

    fn load(&self, ins: &Ins<'a>) -> Option<Action> {
        let strong = is_strong(ins);
        ins.ignore(HINTS);
        let space = self.space(ins)?;
        let _ = ins.word(Kind::Vector);
        let ty = ins.ty()?;
        (self.hinted(ins) == 2).then_some(())?;
        let address = self.address(ins.get(1)?, space)?;
        let dests = self.dests(ins.get(0)?, ty)?;
        Some(Action::Load { address, bytes: ty.bytes().min(8), dests: dests.into(), strong })
    }

    fn store(&self, ins: &Ins<'a>) -> Option<Action> {
        let strong = is_strong(ins);
        ins.ignore(HINTS);
        let space = self.space(ins)?;
        let _ = ins.word(Kind::Vector);
        let ty = ins.ty()?;
        (self.hinted(ins) == 2).then_some(())?;
        let address = self.address(ins.get(0)?, space)?;
        let sources = self.sources(ins.get(1)?, ty)?;
        Some(Action::Store { address, bytes: ty.bytes().min(8), sources: sources.into(), strong })
    }

    fn atomic(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.ignore(HINTS);
        let space = self.space(ins)?;
        let _ = ins.word(Kind::Vector);
        let operation = ins.word(Kind::Op).or_else(|| ins.word(Kind::Exchange))?;
        let ty = ins.ty()?;
        let end = self.hinted(ins);
        let first = usize::from(ins.mnemonic() == "atom");
        let dests = if first == 1 { self.dests(ins.get(0)?, ty)? } else { Vec::new() };
        let address = self.address(ins.get(first)?, space)?;
        let mut sources = Vec::new();
        let mut words = 0;
        for i in first + 1..end {
            let operand = self.sources(ins.get(i)?, ty)?;
            words = operand.len();
            sources.extend(operand);
        }
        let per_element = ty.bits().div_ceil(64) as usize;
        let operands = if operation == "cas" { 2 } else { 1 };
        (end == first + 1 + operands && sources.len() == words * operands).then_some(())?;
        Some(Action::Atomic(Box::new(Atomic {
            count: words / per_element,
            dests: dests.into(),
            ..Atomic::new(address, ty.bytes(), sources, atomic_function(operation, ty)?)
        })))
    }

    fn cvta(&self, ins: &Ins<'a>) -> Option<Action> {
        let space = self.space(ins)?;
        let ty = ins.ty()?;
        let to_space = ins.mnemonic() == "cvta.to";
        let dest = self.dest(ins.get(0)?, ty)?;
        let source = self.source(ins.get(1)?, ty)?;
        let window = space.window();
        let function = match (to_space, space) {
            // As the machine does it, which matters for what is no address of shared memory.
            (true, Space::Shared | Space::Cluster) => map(|[a]: [u64; 1]| a % WINDOW),
            (true, _) => map(move |[a]: [u64; 1]| a.wrapping_sub(window)),
            (false, _) => map(move |[a]: [u64; 1]| a.wrapping_add(window)),
        };
        self.compute(dest, vec![source], function)
    }

    fn isspacep(&self, ins: &Ins<'a>) -> Option<Action> {
        let space = self.space(ins)?;
        let dest = self.dest(ins.get(0)?, Type::PRED)?;
        let source = self.source(ins.get(1)?, Type::U64)?;
        let rank = Source::Special(Special::ClusterCtarank);
        let function = map(move |[address, rank]: [u64; 2]| {
            let (found, offset) = Space::Generic.locate(address);
            u64::from(match space {
                Space::Cluster => found == Space::Shared,
                Space::Shared => found == space && rank_and_offset(offset).0 as u64 == rank,
                _ => found == space,
            })
        });
        self.compute(dest, vec![source, rank], function)
    }

    /// `[to], [from], bytes` and how many bytes to take, or whether to take none.
    fn copy(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.ignore(HINTS);
        let (to, from) = (self.space(ins)?, self.space(ins)?);
        let end = self.hinted(ins);
        let (to, from): (Address, Address) =
            (self.address(ins.get(0)?, to)?, self.address(ins.get(1)?, from)?);
        let bytes = constant(ins.get(2)?, Type::U32)? as u32;
        let limit = match (end, ins.get(3)) {
            (3, _) => Limit::None,
            (4, Some(operand)) if self.is_predicate(operand) => Limit::NoneIf(self.predicate(operand)?),
            (4, Some(operand)) => Limit::Bytes(self.source(operand, Type::U32)?),
            _ => return None,
        };
        Some(Action::Copy(Box::new(Copy { to, from, bytes, limit })))
    }

    fn is_predicate(&self, operand: &Operand) -> bool {
        match operand {
            Operand::Reg(reg) | Operand::Not(reg) => self.code.reg_decl(*reg).0.ty == Type::PRED,
            _ => false,
        }
    }

    /// The same place in another block of the cluster, or the block that an address is of.
    fn rank(&self, ins: &Ins<'a>) -> Option<Action> {
        const RANKS: u64 = 0xff << RANK_SHIFT;
        self.space(ins)?;
        let ty = ins.ty()?;
        let source = self.source(ins.get(1)?, ty)?;
        if ins.mnemonic() == "getctarank" {
            let dest = self.dest(ins.get(0)?, Type::U32)?;
            return self.compute(dest, vec![source], map(|[a]: [u64; 1]| (a & RANKS) >> RANK_SHIFT));
        }
        let rank = self.source(ins.get(2)?, Type::U32)?;
        let dest = self.dest(ins.get(0)?, ty)?;
        let function = map(|[a, rank]: [u64; 2]| a & !RANKS | rank << RANK_SHIFT & RANKS);
        self.compute(dest, vec![source, rank], function)
    }
}

/// Is an access one that threads may use to tell each other something?
fn is_strong(ins: &Ins) -> bool {
    const STRONG: [&str; 5] = [".volatile", ".relaxed", ".acquire", ".release", ".mmio"];
    ins.opcode.words.iter().any(|word| STRONG.contains(&word.text()))
}

pub(crate) fn atomic_function(operation: &str, ty: Type) -> Option<AtomicFunction> {
    match (operation, Number::of(ty)) {
        ("exch", _) => return Some(Box::new(|_, _, operands| operands[0])),
        ("cas", _) => {
            return Some(Box::new(|_, old, operands| if old == operands[0] { operands[1] } else { old }));
        }
        ("and", _) => return Some(Box::new(|_, old, operands| old & operands[0])),
        ("or", _) => return Some(Box::new(|_, old, operands| old | operands[0])),
        ("xor", _) => return Some(Box::new(|_, old, operands| old ^ operands[0])),
        (_, None) => return None,
        _ => {}
    }
    match Number::of(ty)? {
        Number::Int(int, 1) => {
            let f: fn(Int, u64, u64) -> u64 = match operation {
                "add" => Int::add,
                "min" => Int::min_of,
                "max" => Int::max_of,
                "inc" => |_, old, limit| if old >= limit { 0 } else { old + 1 },
                "dec" => |_, old, limit| if old == 0 || old > limit { limit } else { old - 1 },
                _ => return None,
            };
            Some(Box::new(move |_, old, operands| f(int, old as u64, operands[0] as u64).into()))
        }
        Number::Float(format, count) => {
            type Operation = fn(Format, Flow, u64, u64) -> u64;
            let f: Operation = match operation {
                "add" => float::add,
                "min" => |f, flow, a, b| float::min_max(f, flow, MinMax::default(), a, b),
                "max" => {
                    |f, flow, a, b| float::min_max(f, flow, MinMax { max: true, ..MinMax::default() }, a, b)
                }
                _ => return None,
            };
            let (width, mask) = (format.width(), u64::MAX >> (64 - format.width()));
            Some(Box::new(move |space, old, operands| {
                // `add.f32` on global memory flushes subnormals; on shared memory it doesn't.
                let flow = Flow { ftz: format == F32 && space == Space::Global, ..Flow::NEAREST };
                let element = |x: u128, i: u32| (x >> (i * width)) as u64 & mask;
                (0..count).fold(0, |out, i| {
                    let value = f(format, flow, element(old, i), element(operands[0], i));
                    out | u128::from(value) << (i * width)
                })
            }))
        }
        Number::Int(..) => None,
    }
}
