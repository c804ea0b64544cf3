//! Constant folding and propagation: evaluates instructions with constant operands (`analysis/constant_eval.rs`), and
//! makes constants operands where the machine has a form for that.
//!
//! ```text
//! v1 = MOV 0x10
//! v2 = IADD3 v0, v1, RZ             →    v2 = IADD3 v0, 0x10, RZ
//! v3 = LDC c[0x0][0x210]                 v4 = IMAD v2, c[0x0][0x210], RZ
//! v4 = IMAD v2, v3, RZ
//! ```

use super::Combine;
use crate::analysis::constant_eval::Constants;
use crate::codegen::legalize;
use ori::{Arg, File, InstData, Op, Use, Value, entity::Entity};
use sass::M;

impl Combine<'_> {
    /// Known words become immediates or RZ, known predicates PT or !PT, and words of constant bank 0 operands.
    pub(super) fn fold_constant_operands(&mut self, data: &mut InstData) {
        let Op::Machine(op) = data.op else { return };
        for at in 0..data.args.len() {
            if matches!(data.args[at], Arg::Imm(0)) && has_zero(op, at) {
                data.args[at] = Arg::Zero(File::R);
            }
        }
        legalize::constant_second(data);
        for at in 0..data.args.len() {
            let Arg::Use(u) = data.args[at] else { continue };
            if self.function.values[u.value].file == File::P {
                if let Some(holds) = self.known_predicate(u.value)
                    && self.fuel.burn()
                {
                    data.args[at] = Arg::True(holds != u.negated);
                }
                continue;
            }
            let constant = match self.words(&u) {
                1 if takes_constants(op) && u.is_plain() => self.constant_operand(&u),
                1 if op == sass::Op::IADD3 => self.inverted_constant(&u),
                1 if is_float(op) => self.signed_constant(&u),
                2 if is_double(op) => self.double_constant(&u),
                _ => None,
            };
            let Some(constant) = constant else { continue };
            let before = std::mem::replace(&mut data.args[at], constant);
            let fits = self.is_legal(data) || self.commutes_to_legal(op, at, data);
            if !fits || !self.fuel.burn() {
                data.args[at] = before;
            }
        }
    }

    /// An else value has the register of the result: a constant that is materialized for it alone needs no copy.
    pub(super) fn materialize_else_constants(&mut self, data: &mut InstData) {
        let at = data.at;
        let Some(guard) = &mut data.guard else { return };
        for else_value in &mut guard.else_values {
            let (Some(bits), 2..) = (self.known[else_value.index()], self.uses[else_value.index()]) else {
                continue;
            };
            let data = self.function.values[*else_value];
            if data.file == File::R
                && self.fuel.burn()
                && let Some(own) = self.materialize(bits, data.words, at)
            {
                self.uses[else_value.index()] -= 1;
                *else_value = own;
            }
        }
    }

    /// A new value with these bits, if one instruction can materialize it.
    pub(super) fn materialize(&mut self, bits: u64, words: u8, at: u32) -> Option<Value> {
        let value = match (words, bits) {
            (1, _) => self.emit(Op::Machine(sass::Op::MOV), 1, &[Arg::Imm(i64::from(bits as i32))], at),
            (2, 0) => self.emit(Op::Machine(sass::Op::CS2R), 2, &[Arg::Name(M::SRZ)], at),
            _ => return None,
        };
        self.known[value.index()] = Some(bits);
        Some(value)
    }

    /// Swaps the first two operands, if the machine has a form for the constant as the second.
    fn commutes_to_legal(&self, op: sass::Op, at: usize, data: &mut InstData) -> bool {
        use sass::Op::{DADD, DFMA, DMUL, FADD, FFMA, FMUL, IADD3, IMAD, SEL};
        let register = matches!(data.args.get(1), Some(Arg::Use(_) | Arg::Zero(_)));
        let commutes = matches!(op, DADD | DFMA | DMUL | FADD | FFMA | FMUL | IADD3 | IMAD | SEL);
        // Of two doubles that are NaN the order says which one the result is: a number may move.
        let is_unknown_double = is_double(op) && matches!(data.args[at], Arg::Const { .. });
        if at != 0 || !register || !commutes || is_unknown_double {
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

    /// A word as an immediate, RZ or a word of constant bank 0.
    fn constant_operand(&self, u: &Use) -> Option<Arg> {
        if let Some(bits) = self.constants().of_use(u) {
            return Some(match bits as u32 {
                0 => Arg::Zero(File::R),
                bits => Arg::Imm(i64::from(bits as i32)),
            });
        }
        let definition = self.definition_of(u.value)?;
        // Where it becomes a uniform register, it takes no register from the thread.
        let has_few_uses = self.uses[u.value.index()] <= self.tuning.constant_operand_uses
            || !self.machine.constant_operands;
        match (definition.op, &definition.args[..]) {
            (Op::Machine(sass::Op::LDC), [Arg::Bank { bank: 0, index: None, offset }])
                if has_few_uses && matches!(definition.modifiers[..], [] | [M::_64]) =>
            {
                let word = u.part.map_or(0, |p| u32::from(p.first));
                Some(Arg::Const { bank: 0, offset: u32::try_from(*offset).ok()? + 4 * word })
            }
            _ => None,
        }
    }

    /// The complement of a word as an immediate: of the upper word of a difference, where the lower one has the carry.
    fn inverted_constant(&self, u: &Use) -> Option<Arg> {
        let is_inverted_only = Use { inverted: false, ..*u }.is_plain() && u.inverted;
        let bits = self.constants().of_use(u).filter(|_| is_inverted_only)? as u32;
        Some(if bits == u32::MAX { Arg::Zero(File::R) } else { Arg::Imm(i64::from(!bits as i32)) })
    }

    /// A float with sign modifiers as an immediate.
    fn signed_constant(&self, u: &Use) -> Option<Arg> {
        let bits = self.constants().of_use(u)? as u32;
        let is_number = !f32::from_bits(bits).is_nan();
        is_number.then(|| with_sign(bits, u)).flatten()
    }

    /// A double as an immediate, which is its upper word: the lower word must be zero. Or two words of constant bank 0.
    fn double_constant(&self, u: &Use) -> Option<Arg> {
        let Some(bits) = self.constants().of_use(u) else {
            return self.constant_operand(u).filter(|_| u.is_plain() && u.part.is_none());
        };
        let is_number = !f64::from_bits(bits).is_nan();
        (is_number && bits as u32 == 0).then(|| with_sign((bits >> 32) as u32, u)).flatten()
    }

    pub(super) fn constants(&self) -> Constants<'_> {
        Constants { function: self.function, bits: &self.known }
    }

    /// The results of an instruction, if they are known.
    pub(super) fn results(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        if self.is_at_least(data) {
            return Some(vec![(data.results[0], 1)]);
        }
        if let Some(holds) = self.known_comparison(data) {
            return Some(vec![(data.results[0], holds.into())]);
        }
        self.constants().evaluate(data)
    }

    /// Evaluates an instruction with constant operands and materializes its results; it stays for other results.
    pub(super) fn evaluate(&mut self, data: &InstData) {
        let Some(results) = self.results(data) else {
            if self.has_no_carry(data) && self.fuel.burn() {
                self.known[data.results[1].index()] = Some(0);
                // `x + 0`
                if let Some(only) = self.only_term(data) {
                    self.equal_to[data.results[0].index()] = only;
                }
            }
            return;
        };
        let is_move = match data.op {
            Op::Machine(op) => op == sass::Op::MOV && matches!(data.args[..], [Arg::Imm(_)]),
            Op::Generic(_) => false,
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
            if let Some(value) = self.materialize(bits, words, data.at) {
                self.equal_to[result.index()] = value;
            }
        }
    }
}

/// Has the operand a form with RZ for zero?
fn has_zero(op: sass::Op, at: usize) -> bool {
    use sass::Op::{IADD3, IMAD, ISETP, PRMT, SEL};
    match op {
        IADD3 | IMAD => at < 3,
        ISETP => matches!(at, 1 | 2),
        PRMT => at != 1,
        SEL => at < 2,
        _ => false,
    }
}

/// The word of a float that has its sign, with the sign modifiers of an operand.
fn with_sign(bits: u32, u: &Use) -> Option<Arg> {
    const SIGN: u32 = 0x8000_0000;
    let magnitude = if u.absolute { bits & !SIGN } else { bits };
    let bits = if u.negated { magnitude ^ SIGN } else { magnitude };
    let is_signed_only = !u.inverted && u.suffixes.is_empty();
    is_signed_only.then_some(if bits == 0 { Arg::Zero(File::R) } else { Arg::Imm(i64::from(bits as i32)) })
}

/// Operations on floats whose operands can have signs.
fn is_float(op: sass::Op) -> bool {
    use sass::Op::{FADD, FFMA, FMUL, FSETP};
    matches!(op, FADD | FFMA | FMUL | FSETP)
}

fn is_double(op: sass::Op) -> bool {
    use sass::Op::{DADD, DFMA, DMUL, DSETP};
    matches!(op, DADD | DFMA | DMUL | DSETP)
}

/// Operations whose immediates are the bits that a register would have.
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
