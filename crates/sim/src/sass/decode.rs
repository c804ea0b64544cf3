//! From an instruction to a step: which action it is, and what its operands name.
//!
//! What has no action of its own is a computation, and [`ori::eval`] knows it or doesn't. An instruction that is
//! understood in part is not understood: it becomes `Unsupported`, with its text.

mod asynchronous;
mod matrix;
mod memory;
mod texture;
mod warpgroup;

use super::image::{CODE, Image};
use super::program::*;
use crate::ptx::program::{Reduction, Shuffle, WarpOperation};
use crate::sass::flight::Closing;
use crate::verify::cycles;
use ori::eval::Meaning;
use sass::{Class, Inst, Kind, M, Op, Operand, PT, RZ, Role, WORD_BYTES};

/// All instructions of an image.
pub fn steps(image: &Image) -> Vec<Step> {
    image.code.iter().enumerate().map(|(index, inst)| step(index, inst)).collect()
}

/// One instruction, with its index.
pub fn step(index: usize, inst: &Inst) -> Step {
    let decoder = Decoder { inst, index };
    Step {
        guard: decoder.guard(),
        waits: inst.control.wait,
        stall: cycles(inst.control),
        action: decoder.action().unwrap_or_else(|| Action::Unsupported(inst.to_string())),
    }
}

struct Decoder<'i> {
    inst: &'i Inst,
    /// In the numbering of all instructions.
    index: usize,
}

impl Decoder<'_> {
    fn guard(&self) -> Condition {
        let predicate = self.inst.guard.predicate;
        let source = match self.inst.form().guard {
            Kind::V => Source::UniformPredicate(predicate),
            _ => Source::Predicate(predicate),
        };
        Condition { source, not: self.inst.guard.not }
    }

    fn action(&self) -> Option<Action> {
        if !sass::runs(self.inst.op(), self.inst.operands().map(|(_, operand)| operand)) {
            return None;
        }
        Some(match self.inst.op() {
            Op::RAW => return None,
            Op::NOP | Op::PMTRIG | Op::ACQBULK | Op::PREEXIT => Action::Nothing,
            // The lanes that WARPSYNC.COLLECTIVE has brought together part at the next BSYNC.
            Op::ENDCOLLECTIVE => Action::Nothing,
            Op::ERRBAR | Op::CGAERRBAR | Op::CCTLL => Action::Nothing,
            Op::MEMBAR | Op::CCTL | Op::FENCE => self.fence(),
            Op::LDGDEPBAR => self.close_group(Closing::Ldgdepbar),
            Op::UTMACMDFLUSH => self.close_group(Closing::Utmacmdflush),
            Op::DEPBAR => self.wait_for_groups()?,
            Op::UCGABAR_ARV => Action::ArriveAtCluster,
            Op::UCGABAR_WAIT => Action::WaitForCluster,
            Op::STAS | Op::REDAS => self.store_remote()?,
            Op::YIELD => Action::Yield,
            Op::NANOSLEEP => Action::Sleep,
            Op::BPT => Action::Trap,
            Op::EXIT => Action::Exit { taken: self.condition() },
            Op::BRA => self.branch()?,
            Op::CALL | Op::RET | Op::JMP | Op::BRX | Op::JMX | Op::BRXU | Op::JMXU => self.jump()?,
            Op::BSSY => Action::Gather { taken: self.condition(), barrier: self.barrier()? },
            Op::BSYNC => Action::Meet { taken: self.condition(), barrier: self.barrier()? },
            Op::BREAK => Action::Leave { taken: self.condition(), barrier: self.barrier()? },
            Op::BMOV => self.move_barrier()?,
            Op::WARPSYNC => self.sync()?,
            Op::BAR => self.block_barrier()?,
            Op::B2R if self.inst.has(M::RESULT) => {
                Action::BarrierResult { dest: self.dest(), truth: self.truth(0) }
            }
            Op::S2R | Op::S2UR | Op::CS2R => self.special()?,
            Op::LEPC | Op::ULEPC => {
                let address = CODE.wrapping_add_signed(self.relative()?.checked_mul(WORD_BYTES as i64)?);
                let source = Source::Immediate(address);
                Action::LoadConstant { source, signed: false, dest: self.dest(), words: 2 }
            }
            Op::LDC | Op::ULDC | Op::LDCU => self.load_constant()?,
            Op::R2UR => Action::ToUniform {
                dest: self.dest(),
                source: self.sources()?.first()?.source,
                differs: self.truth(0),
                or: self.inst.has(M::OR),
            },
            Op::VOTE | Op::VOTEU | Op::MATCH | Op::REDUX | Op::ELECT | Op::SHFL => self.together()?,
            Op::LDG | Op::LD | Op::LDS | Op::LDL | Op::STG | Op::ST | Op::STS | Op::STL => self.access()?,
            Op::ATOM | Op::ATOMG | Op::ATOMS | Op::RED | Op::REDG => self.atomic()?,
            Op::TLD | Op::TEX | Op::TXD | Op::TLD4 => self.read_texture()?,
            Op::SULD | Op::SUST => self.access_surface()?,
            Op::TXQ => self.query_texture()?,
            Op::LDGMC => self.load_multicast()?,
            Op::LDGSTS => self.copy()?,
            Op::SYNCS => self.sync_unit()?,
            Op::ARRIVES => self.arrive_after_copies()?,
            Op::UBLKCP | Op::UBLKRED => self.bulk_copy()?,
            Op::UTMACCTL | Op::UBLKPF | Op::UTMAPF => Action::Nothing,
            Op::UTMALDG | Op::UTMASTG | Op::UTMAREDG => self.tensor_copy()?,
            Op::HGMMA | Op::QGMMA | Op::IGMMA | Op::BGMMA => self.wgmma()?,
            Op::WARPGROUP => self.warpgroup()?,
            Op::USETMAXREG => Action::GetRegisters { truth: self.truth(0) },
            Op::HMMA | Op::IMMA | Op::BMMA | Op::DMMA => self.mma()?,
            Op::LDSM | Op::STSM | Op::MOVM => self.matrices()?,
            Op::QSPC => self.query_space()?,
            _ => Action::Compute(Box::new(self.compute()?)),
        })
    }

    fn compute(&self) -> Option<Compute> {
        let inst = self.inst;
        let mut arguments = self.sources()?;
        let all = |source| Argument { source, negated: false, absolute: false, part: M::Empty };
        let to_predicates = match inst.op() {
            Op::P2R => {
                arguments.insert(0, all(Source::Predicates));
                None
            }
            Op::UP2UR => {
                arguments.insert(0, all(Source::UniformPredicates));
                None
            }
            Op::R2P => {
                arguments.insert(0, all(Source::Predicates));
                Some(false)
            }
            Op::UR2UP => {
                arguments.insert(0, all(Source::UniformPredicates));
                Some(true)
            }
            _ => None,
        };
        Some(Compute {
            op: inst.op(),
            meaning: Meaning::of(inst.op())?,
            modifiers: inst.modifiers().collect(),
            arguments: (arguments.len() <= ARGUMENTS).then(|| arguments.into())?,
            dest: self.dest(),
            truths: (0..self.defs(&[Kind::P, Kind::V]).count()).map(|index| self.truth(index)).collect(),
            to_predicates,
            uniform: inst.form().class == Class::Uniform,
        })
    }

    // Operands.

    fn defs<'k>(&'k self, kinds: &'k [Kind]) -> impl Iterator<Item = (usize, &'k Operand)> {
        let operands = self.inst.operands().enumerate();
        let defined = operands.filter(move |(_, (s, o))| s.role == Role::Def && kinds.contains(&o.kind));
        defined.map(|(index, (_, operand))| (index, operand))
    }

    fn dest(&self) -> Dest {
        match self.defs(&[Kind::R, Kind::U]).next() {
            Some((_, operand)) if operand.value == i64::from(RZ) => Dest::None,
            Some((_, operand)) if operand.kind == Kind::R => Dest::General(operand.value as u8),
            Some((_, operand)) => Dest::Uniform(operand.value as u8),
            None => Dest::None,
        }
    }

    /// Words of the register result.
    fn dest_words(&self) -> u8 {
        let index = self.defs(&[Kind::R, Kind::U]).next().map(|(index, _)| index);
        index.map_or(0, |index| self.inst.words(index) as u8)
    }

    fn truth(&self, index: usize) -> Truth {
        match self.defs(&[Kind::P, Kind::V]).nth(index) {
            Some((_, operand)) if operand.value == i64::from(PT) => Truth::None,
            Some((_, operand)) if operand.kind == Kind::P => Truth::Predicate(operand.value as u8),
            Some((_, operand)) => Truth::Uniform(operand.value as u8),
            None => Truth::None,
        }
    }

    /// Source operands in the order of the text, as `ori::eval` takes them.
    fn sources(&self) -> Option<Vec<Argument>> {
        let mut upper_half = None;
        let mut out = Vec::new();
        for (index, (slot, operand)) in self.inst.operands().enumerate() {
            if slot.role != Role::Use || matches!(operand.kind, Kind::Literal | Kind::Name) {
                continue;
            }
            let source = match operand.kind {
                // Two halves of one word, the upper one first.
                Kind::Half | Kind::Bfloat => {
                    let half = operand.value as u64 & 0xffff;
                    match upper_half.take() {
                        None => {
                            upper_half = Some(half);
                            continue;
                        }
                        Some(upper) => Source::Immediate(upper << 16 | half),
                    }
                }
                _ => self.source(index, operand)?,
            };
            let mut suffixes = self.inst.suffixes(index);
            let part = match (suffixes.next(), slot.suffix) {
                (None, M::SIGN) => M::SIGN,
                (None, _) => M::Empty,
                (Some(part), _) => part,
            };
            if suffixes.next().is_some() {
                return None;
            }
            let negated = match operand.kind {
                Kind::P | Kind::V => operand.is_not(),
                _ => operand.is_neg(),
            };
            out.push(Argument { source, negated, absolute: operand.is_abs(), part });
        }
        Some(out)
    }

    fn source(&self, index: usize, operand: &Operand) -> Option<Source> {
        let words = self.inst.words(index).min(2) as u8;
        let register = operand.value as u8;
        Some(match operand.kind {
            Kind::R => Source::General { first: register, words },
            Kind::U => Source::Uniform { first: register, words },
            Kind::P => Source::Predicate(register & 7),
            Kind::V => Source::UniformPredicate(register & 7),
            Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU => Source::Constant {
                bank: operand.bank,
                offset: i32::try_from(operand.value).ok()?,
                index: match operand.kind {
                    Kind::ConstR if operand.index != RZ => Index::General(operand.index),
                    Kind::ConstU if operand.index != RZ => Index::Uniform(operand.index),
                    _ => Index::None,
                },
                bytes: 4 * words,
            },
            // The upper word of a double.
            Kind::Double if words == 2 => Source::Immediate((operand.value as u64) << 32),
            Kind::Signed | Kind::Unsigned | Kind::Decimal | Kind::Float | Kind::Double => {
                Source::Immediate(u64::from(operand.value as u32))
            }
            _ => return None,
        })
    }

    /// The predicate that branches and their kin have beside their guard.
    fn condition(&self) -> Condition {
        let predicates = self
            .inst
            .operands()
            .filter(|(slot, operand)| slot.role == Role::Use && matches!(operand.kind, Kind::P | Kind::V));
        let mut conditions = predicates.map(|(_, operand)| Condition {
            source: match operand.kind {
                Kind::P => Source::Predicate(operand.value as u8 & 7),
                _ => Source::UniformPredicate(operand.value as u8 & 7),
            },
            not: operand.is_not(),
        });
        conditions.find(|condition| !condition.is_always()).unwrap_or(Condition::ALWAYS)
    }

    /// Several predicates that all must hold are not understood.
    fn only_condition(&self) -> Option<Condition> {
        let predicates = self.inst.operands().filter(|(slot, operand)| {
            let always = operand.value == i64::from(PT) && !operand.is_not();
            slot.role == Role::Use && matches!(operand.kind, Kind::P | Kind::V) && !always
        });
        (predicates.count() <= 1).then(|| self.condition())
    }

    // Control flow.

    /// Where a relative operand leads, as an index of an instruction.
    fn relative(&self) -> Option<i64> {
        let (_, operand) = self.inst.operands().find(|(_, operand)| operand.kind == Kind::Relative)?;
        (operand.value % WORD_BYTES as i64 == 0).then_some(())?;
        (self.index as i64 + 1).checked_add(operand.value / WORD_BYTES as i64)
    }

    fn branch(&self) -> Option<Action> {
        let target = u32::try_from(self.relative()?).ok()?;
        let mut operands = self.inst.operands().enumerate();
        let members = operands.find(|(_, (_, operand))| operand.kind == Kind::U);
        match (self.inst.has(M::DIV), self.inst.has(M::CONV), members) {
            (false, false, _) => {}
            (divergent, _, Some((index, (_, operand)))) if self.condition().is_always() => {
                let (members, inverted) = (self.source(index, operand)?, operand.is_neg());
                return Some(Action::BranchIfTogether { members, inverted, together: !divergent, target });
            }
            _ => return None,
        }
        Some(Action::Branch { taken: self.only_condition()?, target, any: self.inst.has(M::ANY) })
    }

    fn jump(&self) -> Option<Action> {
        let taken = self.only_condition()?;
        let next = CODE + (self.index as u64 + 1) * WORD_BYTES;
        let number = |kinds: &[Kind]| {
            let found = self.inst.operands().find(|(_, operand)| kinds.contains(&operand.kind));
            found.map(|(_, operand)| operand.value)
        };
        let relative = matches!(self.inst.op(), Op::BRX | Op::BRXU) || self.inst.has(M::REL);
        let offset = number(&[Kind::Relative, Kind::Signed, Kind::Unsigned]).unwrap_or(0);
        let base = if relative { next } else { 0 }.wrapping_add_signed(offset);
        let mut registers = self
            .inst
            .operands()
            .enumerate()
            .filter(|(_, (_, o))| matches!(o.kind, Kind::R | Kind::U | Kind::Const));
        let register = match registers.next() {
            Some((index, (_, operand))) => self.source(index, operand)?,
            None => Source::Immediate(0),
        };
        Some(Action::Jump { taken, base, register })
    }

    fn barrier(&self) -> Option<u8> {
        let (_, operand) = self.inst.operands().find(|(_, operand)| operand.kind == Kind::B)?;
        u8::try_from(operand.value).ok().filter(|barrier| *barrier < 16)
    }

    fn move_barrier(&self) -> Option<Action> {
        let (slot, operand) = self.inst.operands().find(|(_, operand)| operand.kind == Kind::B)?;
        let barrier = u8::try_from(operand.value).ok().filter(|barrier| *barrier < 16)?;
        let named = self.inst.operands().any(|(_, operand)| operand.kind == Kind::Name);
        let barriers = self.inst.operands().filter(|(_, operand)| operand.kind == Kind::B).count();
        if named || barriers != 1 || self.inst.has(M::PQUAD) {
            return None;
        }
        Some(match slot.role {
            Role::Use => Action::ReadBarrier { barrier, dest: self.dest(), clear: self.inst.has(M::CLEAR) },
            Role::Def => Action::WriteBarrier { barrier, source: self.sources()?.first()?.source },
        })
    }

    fn sync(&self) -> Option<Action> {
        if !self.condition().is_always() {
            return None;
        }
        // Where the lanes go on after ENDCOLLECTIVE is the next instruction there.
        let mut operands = self.inst.operands().enumerate();
        let members = operands.find(|(_, (_, o))| !matches!(o.kind, Kind::P | Kind::Relative));
        let members = match members {
            Some((index, (_, operand))) => self.source(index, operand)?,
            None => Source::Immediate(u32::MAX.into()),
        };
        Some(Action::Sync { members })
    }

    fn block_barrier(&self) -> Option<Action> {
        let inst = self.inst;
        let reduction = match () {
            () if inst.has(M::SCAN) => return None,
            () if !inst.has(M::RED) => Reduction::None,
            () if inst.has(M::POPC) => Reduction::Popc,
            () if inst.has(M::AND) => Reduction::And,
            () => Reduction::Or,
        };
        let predicate = if reduction == Reduction::None { Condition::ALWAYS } else { self.condition() };
        let numbers = self.sources()?.into_iter().map(|argument| argument.source);
        let numbers: Vec<Source> = numbers.filter(|source| !matches!(source, Source::Predicate(_))).collect();
        let packed = matches!(numbers[..], [Source::General { first: a, .. }, Source::General { first: b, .. }] if a == b);
        Some(Action::Barrier(Box::new(Barrier {
            number: numbers.first().copied().unwrap_or(Source::Immediate(0)),
            // None: all threads of the block.
            threads: numbers.get(1).copied().filter(|threads| *threads != Source::Immediate(0)),
            packed,
            waits: !inst.has(M::ARV),
            reduction,
            predicate,
        })))
    }

    // Values that are just there.

    fn special(&self) -> Option<Action> {
        let names = self.inst.operands().enumerate().find(|(_, (_, operand))| operand.kind == Kind::Name);
        let register = self.inst.name(names?.0);
        Some(Action::Special { register, dest: self.dest(), words: self.dest_words() })
    }

    fn load_constant(&self) -> Option<Action> {
        let inst = self.inst;
        if [M::IL, M::IS, M::ISL].into_iter().any(|mode| inst.has(mode)) {
            return None;
        }
        let (bytes, signed) = memory::size(inst);
        let mut sources = self.sources()?.into_iter();
        let source = match sources.next()?.source {
            Source::Constant { bank, offset, index, .. } => Source::Constant { bank, offset, index, bytes },
            _ => return None,
        };
        sources.next().is_none().then_some(Action::LoadConstant {
            source,
            signed,
            dest: self.dest(),
            words: self.dest_words(),
        })
    }

    // What the lanes of a warp do together.

    fn together(&self) -> Option<Action> {
        let inst = self.inst;
        let (dest, truth) = (self.dest(), self.truth(0));
        let none = (Dest::None, Truth::None);
        // For each of the two results of the operation, where it goes.
        let (operation, places) = match inst.op() {
            Op::VOTE | Op::VOTEU => return self.vote(),
            Op::MATCH if inst.has(M::ANY) => (WarpOperation::MatchAny, [(dest, Truth::None), none]),
            Op::MATCH => (WarpOperation::MatchAll, [(dest, Truth::None), (Dest::None, truth)]),
            Op::ELECT => (WarpOperation::Elect, [(dest, Truth::None), (Dest::None, truth)]),
            Op::REDUX => (WarpOperation::Reduce(reduction(inst)?), [(dest, Truth::None), none]),
            Op::SHFL => {
                let modes = [
                    (M::IDX, Shuffle::Index),
                    (M::UP, Shuffle::Up),
                    (M::DOWN, Shuffle::Down),
                    (M::BFLY, Shuffle::Butterfly),
                ];
                let (_, mode) = modes.into_iter().find(|(name, _)| inst.has(*name))?;
                (WarpOperation::Shuffle(mode), [(dest, Truth::None), (Dest::None, truth)])
            }
            _ => return None,
        };
        Some(Action::Together(Box::new(Together {
            operation,
            sources: self.sources()?.into(),
            dests: places.map(|(dest, _)| dest),
            truths: places.map(|(_, truth)| truth),
        })))
    }

    /// The ballot goes to the register, what it says to the predicate.
    fn vote(&self) -> Option<Action> {
        let operations = [
            (M::ALL, WarpOperation::VoteAll),
            (M::ANY, WarpOperation::VoteAny),
            (M::EQ, WarpOperation::VoteUniform),
        ];
        let (_, operation) = operations.into_iter().find(|(name, _)| self.inst.has(*name))?;
        Some(Action::Together(Box::new(Together {
            operation,
            sources: self.sources()?.into(),
            dests: [self.dest(), Dest::None],
            truths: [self.truth(0), Truth::None],
        })))
    }
}

fn reduction(inst: &Inst) -> Option<fn(u64, u64) -> u64> {
    use ori::arith::Int;
    let signed = inst.has(M::S32);
    Some(match () {
        () if inst.has(M::OR) => |a, b| a | b,
        () if inst.has(M::XOR) => |a, b| a ^ b,
        () if inst.has(M::SUM) => |a, b| Int::U32.add(a, b),
        () if inst.has(M::MIN) && signed => |a, b| Int::S32.min_of(a, b),
        () if inst.has(M::MAX) && signed => |a, b| Int::S32.max_of(a, b),
        () if inst.has(M::MIN) => |a, b| Int::U32.min_of(a, b),
        () if inst.has(M::MAX) => |a, b| Int::U32.max_of(a, b),
        () => |a, b| a & b,
    })
}
