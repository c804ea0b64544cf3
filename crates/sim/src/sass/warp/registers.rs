//! Registers of a warp, special registers, and what is computed from them.

use super::{Condition, LANES, Now, POISON, PT, Source, Stop, Warp, lanes_of};
use crate::memory::{self, Space};
use crate::ptx::program::{Lanes, WarpOperation};
use crate::ptx::warp::together::operate;
use crate::ptx::{FaultKind, WARPS};
use crate::sass::block::Context;
use crate::sass::program::{ARGUMENTS, Compute, Dest, Index, Together, Truth};
use ori::arith::Int;
use ori::eval::Arg;
use sass::{M, RZ};

/// The register files. RZ, URZ, PT and UPT are never written.
pub struct Registers {
    general: Vec<[u32; LANES]>,
    uniform: [u32; 256],
    /// Lanes in which each predicate is true.
    predicates: [u32; 8],
    uniform_predicates: u8,
}

const ZERO: usize = RZ as usize;

impl Registers {
    /// What was never written is poison, or zero where that is harmless.
    pub fn new(poisoned: bool) -> Registers {
        let fill = if poisoned { POISON } else { 0 };
        let mut registers = Registers {
            general: vec![[fill; LANES]; 256],
            uniform: [fill; 256],
            predicates: [if poisoned { fill } else { 0 }; 8],
            uniform_predicates: 1 << PT,
        };
        registers.general[ZERO] = [0; LANES];
        registers.uniform[ZERO] = 0;
        registers.predicates[usize::from(PT)] = u32::MAX;
        registers
    }

    /// A register in the numbering of all files ([`sass::model::Touch::registers`]) loses its value.
    pub fn poison(&mut self, register: usize, mask: u32) {
        match register {
            0..256 => lanes_of(mask).for_each(|lane| self.general[register][lane] = POISON),
            256..512 => self.uniform[register - 256] = POISON,
            512..520 => self.predicates[register - 512] ^= mask,
            520..528 => self.uniform_predicates ^= 1 << (register - 520),
            _ => {}
        }
    }

    /// The lanes of a mask in which a condition holds.
    #[inline]
    pub fn holds(&self, condition: Condition, mask: u32) -> u32 {
        let lanes = match condition.source {
            Source::Predicate(number) => self.predicates[usize::from(number & 7)],
            Source::UniformPredicate(number) if self.uniform_predicates >> (number & 7) & 1 == 1 => u32::MAX,
            _ => 0,
        };
        mask & if condition.not { !lanes } else { lanes }
    }

    /// A word of a run of registers.
    #[inline]
    pub fn general(&self, first: u8, word: usize) -> &[u32; LANES] {
        let number = if first == RZ { ZERO } else { (usize::from(first) + word).min(ZERO) };
        &self.general[number]
    }

    fn uniform(&self, first: u8, word: usize) -> u32 {
        let number = if first == RZ { ZERO } else { (usize::from(first) + word).min(ZERO) };
        self.uniform[number]
    }

    /// The value in each lane.
    pub fn fetch(&self, context: &Context, source: Source) -> Result<Lanes, Stop> {
        let mut values = [0; LANES];
        self.fetch_to(context, source, &mut values)?;
        Ok(values)
    }

    #[inline]
    pub fn fetch_to(&self, context: &Context, source: Source, values: &mut Lanes) -> Result<(), Stop> {
        *values = match source {
            Source::General { first, words: 1 } => self.general(first, 0).map(u64::from),
            Source::General { first, .. } => {
                let (lower, upper) = (self.general(first, 0), self.general(first, 1));
                std::array::from_fn(|lane| u64::from(lower[lane]) | u64::from(upper[lane]) << 32)
            }
            Source::Constant { bank, offset, index: Index::General(register), bytes } => {
                let mut values = [0; LANES];
                for (value, index) in values.iter_mut().zip(self.general(register, 0)) {
                    // Lanes that are not active may hold anything.
                    *value = constant(context, bank, offset, *index, bytes).unwrap_or(POISON.into());
                }
                values
            }
            Source::Predicate(number) => {
                let lanes = self.predicates[usize::from(number & 7)];
                std::array::from_fn(|lane| u64::from(lanes >> lane & 1))
            }
            Source::Predicates => std::array::from_fn(|lane| {
                (0..7).fold(0, |bits, p| bits | u64::from(self.predicates[p] >> lane & 1) << p)
            }),
            _ => [self.fetch_uniform(context, source)?; LANES],
        };
        Ok(())
    }

    /// A value that is the same in every lane.
    pub fn fetch_uniform(&self, context: &Context, source: Source) -> Result<u64, Stop> {
        Ok(match source {
            Source::Immediate(value) => value,
            Source::Uniform { first, words } => {
                let upper = if words == 2 { self.uniform(first, 1) } else { 0 };
                u64::from(self.uniform(first, 0)) | u64::from(upper) << 32
            }
            Source::UniformPredicate(number) => u64::from(self.uniform_predicates >> (number & 7) & 1),
            Source::UniformPredicates => u64::from(self.uniform_predicates & 0x7f),
            Source::Predicate(number) => u64::from(self.predicates[usize::from(number & 7)] & 1),
            Source::Constant { bank, offset, index, bytes } => {
                let index = match index {
                    Index::Uniform(register) => self.uniform(register, 0),
                    _ => 0,
                };
                let address = i64::from(offset) + i64::from(index as i32);
                constant(context, bank, offset, index, bytes).ok_or((
                    FaultKind::OutOfBounds {
                        space: Space::Const.name(),
                        address: address as u64,
                        bytes: bytes.into(),
                    },
                    0,
                ))?
            }
            Source::General { .. } | Source::Predicates => 0,
        })
    }

    /// One or two words.
    #[inline]
    pub fn write(&mut self, mask: u32, dest: Dest, words: u8, values: &Lanes) {
        match dest {
            Dest::None => {}
            Dest::Uniform(first) => {
                let lane = mask.trailing_zeros() as usize & (LANES - 1);
                self.write_uniform(first, words, values[lane]);
            }
            Dest::General(first) => {
                for word in 0..usize::from(words) {
                    let number = usize::from(first) + word;
                    if number >= ZERO {
                        return;
                    }
                    let register = &mut self.general[number];
                    let written = values.map(|value| (value >> (32 * word)) as u32);
                    if mask == u32::MAX {
                        *register = written;
                        continue;
                    }
                    for lane in lanes_of(mask) {
                        register[lane] = written[lane];
                    }
                }
            }
        }
    }

    fn write_uniform(&mut self, first: u8, words: u8, value: u64) {
        for word in 0..usize::from(words) {
            if usize::from(first) + word < ZERO {
                self.uniform[usize::from(first) + word] = (value >> (32 * word)) as u32;
            }
        }
    }

    pub fn write_truth(&mut self, mask: u32, truth: Truth, values: &Lanes) {
        match truth {
            Truth::None => {}
            Truth::Predicate(number) => {
                let set = lanes_of(mask).filter(|lane| values[*lane] != 0).fold(0, |m, lane| m | 1 << lane);
                let predicate = &mut self.predicates[usize::from(number & 7)];
                *predicate = *predicate & !mask | set;
            }
            Truth::Uniform(number) => {
                let lane = mask.trailing_zeros() as usize & (LANES - 1);
                let bit = 1 << (number & 7);
                self.uniform_predicates &= !bit;
                if values[lane] != 0 {
                    self.uniform_predicates |= bit;
                }
            }
        }
    }

    /// The seven predicates of a file from the bits of a word.
    fn write_predicates(&mut self, mask: u32, uniform: bool, values: &Lanes) {
        for number in 0..PT {
            let bits = values.map(|value| value >> number & 1);
            let truth = if uniform { Truth::Uniform(number) } else { Truth::Predicate(number) };
            self.write_truth(mask, truth, &bits);
        }
    }
}

/// Bytes of a constant bank, zero-extended.
fn constant(context: &Context, bank: u8, offset: i32, index: u32, bytes: u8) -> Option<u64> {
    let start = usize::try_from(i64::from(offset) + i64::from(index as i32)).ok()?;
    let bank = context.bank(bank);
    bank.get(start..start.checked_add(bytes.into())?).map(memory::load)
}

impl Compute {
    fn unknown(&self) -> FaultKind {
        let modifiers = self.modifiers.iter().map(|modifier| format!(".{}", modifier.name()));
        FaultKind::Unsupported { what: format!("{}{}", self.op.name(), modifiers.collect::<String>()) }
    }
}

impl Warp {
    pub(super) fn compute(&mut self, now: &mut Now, compute: &Compute) -> Result<(), Stop> {
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let count = compute.arguments.len().min(ARGUMENTS);
        for (column, argument) in self.columns.iter_mut().zip(&compute.arguments) {
            self.registers.fetch_to(now.context, argument.source, column)?;
        }
        let mut args = [Arg::word(0); ARGUMENTS];
        for (arg, argument) in args.iter_mut().zip(&compute.arguments) {
            let (negated, absolute, part) = (argument.negated, argument.absolute, argument.part);
            *arg = Arg { bits: 0, negated, absolute, part };
        }
        // Where the lanes have the same arguments, one is enough: most addresses and counters are like that.
        let mask = if compute.uniform { 1 << first } else { now.mask };
        let same =
            self.columns[..count].iter().all(|column| column.iter().all(|bits| *bits == column[first]));
        let mut words = 0;
        for lane in lanes_of(if same { 1 << first } else { mask }) {
            for (arg, column) in args.iter_mut().zip(&self.columns[..count]) {
                arg.bits = column[lane];
            }
            let results = compute.meaning.eval(&compute.modifiers, &args[..count]);
            let Some(results) = &results else { return Err((compute.unknown(), first)) };
            words = results.words();
            self.values[lane] = results.bits();
            for (index, (truths, place)) in self.truths.iter_mut().zip(&compute.truths).enumerate() {
                match (results.predicate(index), place) {
                    (Some(truth), _) => truths[lane] = truth.into(),
                    (None, Truth::None) => {}
                    (None, _) => return Err((compute.unknown(), first)),
                }
            }
        }
        if same {
            self.values = [self.values[first]; LANES];
            self.truths = self.truths.map(|truths| [truths[first]; LANES]);
        }
        if let Some(uniform) = compute.to_predicates {
            self.registers.write_predicates(mask, uniform, &self.values);
            return Ok(());
        }
        self.registers.write(mask, compute.dest, words, &self.values);
        for (place, truths) in compute.truths.iter().zip(&self.truths) {
            self.registers.write_truth(mask, *place, truths);
        }
        Ok(())
    }

    pub(super) fn load_constant(
        &mut self,
        now: &mut Now,
        source: Source,
        signed: bool,
        dest: Dest,
        words: u8,
    ) -> Result<(), Stop> {
        let mut values = self.registers.fetch(now.context, source)?;
        if let (Source::Constant { bytes, .. }, true) = (source, signed) {
            let int = Int { bits: 8 * u32::from(bytes), signed };
            values = values.map(|value| int.extended(value));
        }
        self.registers.write(now.mask, dest, words, &values);
        Ok(())
    }

    /// The value of the first lane. That it is the first one's is *unverified*; code that needs the same lane
    /// twice gets the same twice.
    pub(super) fn make_uniform(
        &mut self,
        now: &mut Now,
        dest: Dest,
        source: Source,
        differs: Truth,
        or: bool,
    ) -> Result<(), Stop> {
        let values = self.registers.fetch(now.context, source)?;
        let chosen = values[now.mask.trailing_zeros() as usize & (LANES - 1)];
        let before = match (differs, or) {
            (Truth::Predicate(number), true) => {
                self.registers.fetch(now.context, Source::Predicate(number))?
            }
            _ => [0; LANES],
        };
        let others: Lanes =
            std::array::from_fn(|lane| u64::from(before[lane] != 0 || values[lane] != chosen));
        self.registers.write(now.mask, dest, 1, &values);
        self.registers.write_truth(now.mask, differs, &others);
        Ok(())
    }

    pub(super) fn special(&mut self, now: &mut Now, register: M, dest: Dest, words: u8) -> Result<(), Stop> {
        let context = &*now.context;
        let each = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let same = |value: u32| [u64::from(value); LANES];
        let tid = |axis: usize| each(&|lane| context.thread(self.index, lane).thread[axis]);
        let values: Lanes = match register {
            // The stack may grow down to the beginning of local memory.
            M::SRZ | M::SR_LMEMHIOFF => same(0),
            // Counters that count nothing.
            M::SR_PM0 | M::SR_PM1 | M::SR_PM2 | M::SR_PM3 => same(0),
            M::SR_PM4 | M::SR_PM5 | M::SR_PM6 | M::SR_PM7 => same(0),
            M::SR_PM_HI0 | M::SR_PM_HI1 | M::SR_PM_HI2 | M::SR_PM_HI3 => same(0),
            M::SR_PM_HI4 | M::SR_PM_HI5 | M::SR_PM_HI6 | M::SR_PM_HI7 => same(0),
            M::SR_TID_X => tid(0),
            M::SR_TID_Y => tid(1),
            M::SR_TID_Z => tid(2),
            M::SR_CTAID_X => same(context.block[0]),
            M::SR_CTAID_Y => same(context.block[1]),
            M::SR_CTAID_Z => same(context.block[2]),
            M::SR_LANEID => each(&|lane| lane),
            M::SR_EQMASK => each(&|lane| 1 << lane),
            M::SR_LTMASK => each(&|lane| (1 << lane) - 1),
            M::SR_LEMASK => each(&|lane| u32::MAX >> (31 - lane)),
            M::SR_GTMASK => each(&|lane| u32::MAX.unbounded_shl(lane + 1)),
            M::SR_GEMASK => each(&|lane| u32::MAX << lane),
            // %warpid is seven bits of one, %nwarpid eight of the other.
            M::SR_VIRTID => same(self.index << 8),
            M::SR_VIRTCFG => same(WARPS << 8),
            M::SR_VIRTUALSMID => same(0),
            M::SR_CgaCtaId => same(context.rank),
            M::SR_CgaSize => same(context.cluster.iter().product()),
            M::SR_SMEMSZ => same(now.common.shared.first().map_or(0, |shared| shared.len() as u32)),
            M::SR_SWINHI => same((Space::Shared.window() >> 32) as u32),
            M::SR_LWINHI => same((Space::Local.window() >> 32) as u32),
            M::SR_CLOCKLO | M::SR_GLOBALTIMERLO => [self.clock; LANES],
            M::SR_CLOCKHI | M::SR_GLOBALTIMERHI => same((self.clock >> 32) as u32),
            other => {
                let what = format!("the special register {}", other.name());
                return Err((FaultKind::Unsupported { what }, 0));
            }
        };
        self.registers.write(now.mask, dest, words, &values);
        Ok(())
    }

    pub(super) fn together(&mut self, now: &mut Now, together: &Together) -> Result<(), Stop> {
        let mut inputs = [[0; LANES]; 3];
        for (input, argument) in inputs.iter_mut().zip(&together.sources) {
            *input = self.registers.fetch(now.context, argument.source)?;
            if argument.negated {
                *input = input.map(|value| u64::from(value == 0));
            }
        }
        let operation = together.operation;
        let set = match operation {
            WarpOperation::Elect => {
                lanes_of(now.mask).filter(|lane| inputs[0][*lane] != 0).fold(0, |m, lane| m | 1 << lane)
            }
            _ => now.mask,
        };
        let mut outputs = operate(operation, &inputs, set);
        let [first, second] = together.truths;
        self.registers.write_truth(now.mask, first, &outputs[0]);
        self.registers.write_truth(now.mask, second, &outputs[1]);
        // The register of a vote has the ballot.
        if matches!(operation, WarpOperation::VoteAll | WarpOperation::VoteAny | WarpOperation::VoteUniform) {
            outputs = operate(WarpOperation::Ballot, &inputs, set);
        }
        for (dest, values) in together.dests.iter().zip(&outputs) {
            self.registers.write(now.mask, *dest, 1, values);
        }
        Ok(())
    }
}
