//! Constants: what is known is computed by `ori::eval`, and stands in the instruction where the machine can have it
//! there.

use super::Combine;
use crate::analysis::effects::is_function;
use crate::codegen::legalize;
use ori::{Arg, File, Function, InstData, Op, Part, Pseudo, Use, Value, entity::Entity, eval};
use sass::M;

/// A parameter of the kernel that more instructions want has a register.
const FEW: u32 = 2;

impl Combine<'_> {
    /// Known words become immediates or RZ, known predicates PT or !PT, and words of constant bank 0 operands.
    pub(super) fn take_constants(&mut self, data: &mut InstData) {
        let Op::Machine(op) = data.op else { return };
        for at in 0..data.args.len() {
            if data.args[at] == Arg::Imm(0) && has_zero(op, at) {
                data.args[at] = Arg::Zero(File::R);
            }
        }
        legalize::constant_second(data);
        for at in 0..data.args.len() {
            let Arg::Use(u) = data.args[at] else { continue };
            if self.function.values[u.value].file == File::P {
                if let Some(bits) = self.known[u.value.index()]
                    && self.fuel.burn()
                {
                    data.args[at] = Arg::True((bits != 0) != u.negated);
                }
                continue;
            }
            if !takes_constants(op) || !u.is_plain() || self.words(&u) != 1 {
                continue;
            }
            let Some(constant) = self.constant(&u) else { continue };
            let before = std::mem::replace(&mut data.args[at], constant);
            let fits = self.is_legal(data) || self.swaps(op, at, data);
            if !fits || !self.fuel.burn() {
                data.args[at] = before;
            }
        }
    }

    /// What a guarded instruction keeps is in the register of its result: a constant of its own needs no move there.
    pub(super) fn keep_constants(&mut self, data: &mut InstData) {
        let at = data.at;
        let Some(guard) = &mut data.guard else { return };
        for kept in &mut guard.else_values {
            let (Some(bits), 2..) = (self.known[kept.index()], self.uses[kept.index()]) else { continue };
            let data = self.function.values[*kept];
            if data.file == File::R
                && self.fuel.burn()
                && let Some(own) = self.constant_value(bits, data.words, at)
            {
                self.uses[kept.index()] -= 1;
                *kept = own;
            }
        }
    }

    /// A new value with these bits, if one instruction is enough for it.
    pub(super) fn constant_value(&mut self, bits: u64, words: u8, at: u32) -> Option<Value> {
        let value = match (words, bits) {
            (1, _) => self.emit(Op::Machine(sass::Op::MOV), 1, &[Arg::Imm(i64::from(bits as i32))], at),
            (2, 0) => self.emit(Op::Machine(sass::Op::CS2R), 2, &[Arg::Name(M::SRZ)], at),
            _ => return None,
        };
        self.known[value.index()] = Some(bits);
        Some(value)
    }

    /// A constant that can't stand in the first place may be able to in the second.
    fn swaps(&self, op: sass::Op, at: usize, data: &mut InstData) -> bool {
        use sass::Op::{FADD, FFMA, FMUL, IADD3, IMAD, SEL};
        let register = matches!(data.args.get(1), Some(Arg::Use(_) | Arg::Zero(_)));
        if at != 0 || !register || !matches!(op, FADD | FFMA | FMUL | IADD3 | IMAD | SEL) {
            return false;
        }
        let swap = |data: &mut InstData| {
            data.args.swap(0, 1);
            if op == SEL {
                data.args[2] = data.args[2].negated();
            }
        };
        swap(data);
        let fits = self.is_legal(data);
        if !fits {
            swap(data);
        }
        fits
    }

    /// The constant that a word is.
    fn constant(&self, u: &Use) -> Option<Arg> {
        if let Some(bits) = self.bits().of_use(u) {
            return Some(match bits as u32 {
                0 => Arg::Zero(File::R),
                bits => Arg::Imm(i64::from(bits as i32)),
            });
        }
        let definition = self.define(u.value)?;
        // A uniform register is free for all.
        let few = self.uses[u.value.index()] <= FEW || !self.machine.constant_operands;
        match (definition.op, &definition.args[..]) {
            (Op::Machine(sass::Op::LDC), [Arg::Bank { bank: 0, index: None, offset }])
                if few && matches!(definition.modifiers[..], [] | [M::_64]) =>
            {
                let word = u.part.map_or(0, |p| u32::from(p.first));
                Some(Arg::Const { bank: 0, offset: u32::try_from(*offset).ok()? + 4 * word })
            }
            _ => None,
        }
    }

    fn bits(&self) -> Known<'_> {
        Known { function: self.function, bits: &self.known }
    }

    /// The results of an instruction, if they are known.
    pub(super) fn results(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        if self.is_never_below(data) {
            return Some(vec![(data.results[0], 1)]);
        }
        self.bits().results(data)
    }

    /// Finds out what an instruction gives, if all arguments are known. Its words become constants of their own; it is
    /// left for those of its results that aren't replaced everywhere.
    pub(super) fn evaluate(&mut self, data: &InstData) {
        let Some(results) = self.results(data) else {
            if self.has_no_carry(data) && self.fuel.burn() {
                self.known[data.results[1].index()] = Some(0);
                // `x + 0`
                if let Some(only) = self.only_term(data) {
                    self.same[data.results[0].index()] = only;
                }
            }
            return;
        };
        let is_move = match data.op {
            Op::Machine(op) => op == sass::Op::MOV && matches!(data.args[..], [Arg::Imm(_)]),
            Op::Pseudo(_) => true,
        };
        if !is_move && !self.fuel.burn() {
            return;
        }
        for (result, bits) in results {
            self.known[result.index()] = Some(bits);
            let words = self.function.values[result].words;
            if is_move || self.function.values[result].file != File::R {
                continue;
            }
            if let Some(value) = self.constant_value(bits, words, data.at) {
                self.same[result.index()] = value;
            }
        }
    }
}

/// Values whose bits are known: what is computed of them is known, too.
pub struct Known<'a> {
    pub function: &'a Function,
    /// By value.
    pub bits: &'a [Option<u64>],
}

impl Known<'_> {
    /// The bits of the words that are used, before anything is done to them.
    fn of_use(&self, u: &Use) -> Option<u64> {
        let bits = (*self.bits.get(u.value.index())?)?;
        match u.part {
            None => Some(bits),
            Some(Part { first, count }) if first + count <= 2 => {
                let mask = if count >= 2 { u64::MAX } else { u64::from(u32::MAX) };
                Some(bits >> (32 * u32::from(first)) & mask)
            }
            _ => None,
        }
    }

    /// The results of an instruction whose arguments are all known.
    pub fn results(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        if data.guard.is_some() {
            return None;
        }
        let Op::Machine(op) = data.op else { return self.packed_bits(data) };
        // Some thread is always there.
        if op == sass::Op::VOTEU && data.modifiers[..] == [M::ANY] && data.args[..] == [Arg::True(true)] {
            return Some(data.results.iter().map(|r| (*r, 1)).collect());
        }
        // All threads have it, whosever value each one gets.
        if op == sass::Op::SHFL {
            let bits = self.argument(data.args.first()?)?.bits;
            let word = data.results.iter().find(|r| self.function.values[**r].file == File::R)?;
            return Some(vec![(*word, bits)]);
        }
        if !is_function(data) || is_double_or_half(op) {
            return None;
        }
        let sources = if has_second_predicate(op) && data.results.len() == 1 { 1 } else { 0 };
        let args: Option<Vec<eval::Arg>> =
            data.args.get(sources..)?.iter().map(|a| self.argument(a)).collect();
        let results = eval::eval(op, &data.modifiers, &args?)?;
        let mut predicates = 0;
        let mut all = Vec::new();
        for result in &data.results {
            let shape = self.function.values[*result];
            let bits = match shape.file {
                File::R if shape.words == results.words() => results.bits(),
                File::P => {
                    predicates += 1;
                    u64::from(results.predicate(predicates - 1)?)
                }
                _ => return None,
            };
            all.push((*result, bits));
        }
        Some(all)
    }

    /// The bits of two words that are put together.
    fn packed_bits(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        let (Op::Pseudo(Pseudo::Pack), [Arg::Use(low), Arg::Use(high)]) = (data.op, &data.args[..]) else {
            return None;
        };
        let is_word = |u: &Use| u.part.map_or(self.function.values[u.value].words, |p| p.count) == 1;
        if !is_word(low) || !is_word(high) {
            return None;
        }
        let bits = self.of_use(high)? << 32 | self.of_use(low)?;
        Some(vec![(data.results[0], bits)])
    }

    fn argument(&self, arg: &Arg) -> Option<eval::Arg> {
        Some(match arg {
            Arg::Imm(n) => eval::Arg::word(*n as u32),
            Arg::Zero(_) => eval::Arg::word(0),
            Arg::MinusZero => eval::Arg::word(0).neg(),
            Arg::True(sense) => eval::Arg::predicate(*sense),
            Arg::Use(u) if u.suffixes[1] == M::Empty && !(u.negated && u.inverted) => eval::Arg {
                bits: self.of_use(u)?,
                negated: u.negated || u.inverted,
                absolute: u.absolute,
                part: u.suffixes[0],
            },
            _ => return None,
        })
    }
}

/// May RZ stand there in place of a zero?
fn has_zero(op: sass::Op, at: usize) -> bool {
    use sass::Op::{IADD3, IMAD, PRMT, SEL};
    match op {
        IADD3 | IMAD => at < 3,
        PRMT => at != 1,
        SEL => at < 2,
        _ => false,
    }
}

/// Operations whose immediates mean the bits that a register would have.
fn takes_constants(op: sass::Op) -> bool {
    use sass::Op::*;
    matches!(
        op,
        FADD | FFMA
            | FMNMX
            | FMUL
            | FSEL
            | FSETP
            | IADD3
            | IMAD
            | IMNMX
            | ISETP
            | LEA
            | LOP3
            | PRMT
            | SEL
            | SHF
            | VIMNMX
    )
}

/// Their immediates are upper halves, or two halves: not what `eval` takes.
fn is_double_or_half(op: sass::Op) -> bool {
    sass::Form::of(op).first().is_some_and(|form| {
        use sass::Class::*;
        matches!(form.class, Double | Fp64 | Half | Hmma2)
    })
}

/// The machine gives two predicates; where one of them has no value, `PT` stands before the arguments.
fn has_second_predicate(op: sass::Op) -> bool {
    use sass::Op::*;
    matches!(op, DSETP | FSETP | HSETP2 | ISETP | PLOP3)
}
