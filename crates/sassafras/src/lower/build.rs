//! The builder of lowering: reads PTX operands, appends Ori operations, writes PTX registers.
//!
//! Predication: operations without side effects are appended unguarded ([`Lower::emit`]). Only side effects
//! ([`Lower::effect`]) and the write of the result ([`Lower::set`]) carry the instruction's guard; where it is false
//! the result is the register's previous value.

use super::Lower;
use super::control::cfg;
use super::operand_use::{SELECTOR, VALUE};
use ori::entity::Entity;
use ori::{Arg, Edge, File, InstData, Op, Pseudo, Terminator, Value};
use ptx::Type;
use ptx::ast::{self, Operand};
use sass::M;
use smallvec::SmallVec;

pub const RZ: Arg = Arg::Zero(File::R);
pub const PT: Arg = Arg::True(true);
pub const NOT_PT: Arg = Arg::True(false);

/// Reading.
impl Lower<'_, '_> {
    /// The current value of a PTX register.
    pub(crate) fn read(&mut self, reg: ast::Reg) -> Value {
        if let Some(value) = self.now.get(reg) {
            return value;
        }
        let (file, words) = self.shape(reg);
        let value = self.undefined(file, words);
        self.now.set(reg, value);
        value
    }

    /// An operand of up to 32 bits: a register, or a constant of type `ty`.
    pub(crate) fn word(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        match operand {
            Operand::Reg(_) | Operand::Part { .. } => match self.whole(operand)? {
                Arg::Use(u) => {
                    let data = self.kernel.code.values[u.value];
                    // The register is wider than the type: its low word.
                    let words = u.part.map_or(data.words, |p| p.count);
                    let first = u.part.map_or(0, |p| p.first);
                    (data.file == File::R)
                        .then(|| if words == 1 { Arg::Use(u) } else { Arg::word(u.value, first) })
                }
                other => Some(other),
            },
            Operand::Special { .. } => self.special_word(operand).map(Arg::from),
            Operand::Sum(_) => self.address_words(operand).map(|words| words[0]),
            _ => {
                let bits = self.constant(operand, ty)?;
                Some(Arg::Imm(i64::from(bits as u32 as i32)))
            }
        }
    }

    /// The bits of a constant operand as a type sees them.
    pub(crate) fn constant(&self, operand: &Operand, ty: Type) -> Option<u64> {
        let bits = constant(operand, ty)?;
        self.mark_read(operand);
        Some(bits)
    }

    /// The bits of a word that is a constant, or a register that holds one ([`Constants`](super::control::constants)).
    pub(crate) fn known_word(&self, operand: &Operand) -> Option<u32> {
        let bits = self.constants.bits(operand, Type::U32)?;
        self.mark_read(operand);
        Some(bits as u32)
    }

    /// The two words of an operand of 64 bits.
    pub(crate) fn words(&mut self, operand: &Operand, ty: Type) -> Option<[Arg; 2]> {
        if let Operand::Reg(_) | Operand::Part { .. } = operand {
            let Arg::Use(u) = self.whole(operand)? else { return None };
            let first = u.part.map_or(0, |p| p.first);
            let words = u.part.map_or(self.kernel.code.values[u.value].words, |p| p.count);
            return (words == 2).then(|| [Arg::word(u.value, first), Arg::word(u.value, first + 1)]);
        }
        if let Operand::Special { .. } = operand {
            let value = self.special_wide(operand)?;
            return Some([Arg::word(value, 0), Arg::word(value, 1)]);
        }
        if let Operand::Sum(_) = operand {
            return self.address_words(operand);
        }
        let bits = self.constant(operand, ty)?;
        let half = |n: u64| Arg::Imm(i64::from(n as u32 as i32));
        Some([half(bits), half(bits >> 32)])
    }

    /// `variable + 4` as a number: the address within its space.
    fn address_words(&mut self, operand: &Operand) -> Option<[Arg; 2]> {
        let (symbol, plus) = self.symbol_and_offset(operand)?;
        let address = self.variable_address(symbol, plus)?;
        Some(match self.kernel.code.values[address].words {
            1 => [address.into(), Arg::Imm(0)],
            _ => [Arg::word(address, 0), Arg::word(address, 1)],
        })
    }

    /// An operand of 64 bits as one value.
    pub(crate) fn wide(&mut self, operand: &Operand, ty: Type) -> Option<Value> {
        if let Operand::Reg(reg) = operand {
            let value = self.read(*reg);
            self.mark_read(operand);
            return (self.kernel.code.values[value].words == 2).then_some(value);
        }
        let words = self.words(operand, ty)?;
        Some(self.pack(&words))
    }

    /// A register or an element of a vector register, at its full width.
    pub(crate) fn whole(&mut self, operand: &Operand) -> Option<Arg> {
        self.mark_read(operand);
        match operand {
            Operand::Reg(reg) => Some(self.read(*reg).into()),
            Operand::Part { reg, part, negated: false } => {
                let value = self.read(*reg);
                let bits = self.body.reg_decl(*reg).0.ty.bits();
                let at = u32::from(part.element()?) * bits;
                let (first, words) = ((at / 32) as u8, bits.div_ceil(32) as u8);
                if first + words > self.kernel.code.values[value].words {
                    return None;
                }
                Some(match bits {
                    32.. => Arg::part(value, first, words),
                    // Elements of 8 and 16 bits share a word.
                    _ => self.field(Arg::word(value, first), at % 32 / 8, bits / 8, false),
                })
            }
            _ => None,
        }
    }

    /// A predicate operand: `%p`, `!%p`, or a constant.
    pub(crate) fn predicate(&mut self, operand: &Operand) -> Option<Arg> {
        self.mark_read(operand);
        match operand {
            Operand::Reg(reg) => Some(self.read(*reg).into()),
            Operand::Not(reg) => Some(Arg::not(self.read(*reg))),
            Operand::Int { value, .. } => Some(Arg::True(*value != 0)),
            _ => None,
        }
    }

    /// Materializes an argument in a register.
    pub(crate) fn in_register(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Imm(_) | Arg::Const { .. } | Arg::Address { .. } => {
                self.emit(sass::Op::MOV, &[], 1, &[arg]).into()
            }
            other => other,
        }
    }
}

/// The bits of a constant operand, converted to a type; `None` if it is no constant.
pub fn constant(operand: &Operand, ty: Type) -> Option<u64> {
    let float = |x: f64| match ty.name() {
        "f64" => Some(x.to_bits()),
        "f32" | "b32" | "tf32" => Some(u64::from((x as f32).to_bits())),
        _ => None,
    };
    match *operand {
        Operand::Int { value, .. } => Some(value),
        Operand::F32(bits) if ty.bits() == 64 => Some(f64::from(f32::from_bits(bits)).to_bits()),
        Operand::F32(bits) => Some(u64::from(bits)),
        Operand::F64(bits) if ty.bits() == 64 => Some(bits),
        Operand::F64(bits) => float(f64::from_bits(bits)),
        _ => None,
    }
}

/// Appending.
impl Lower<'_, '_> {
    /// Does the machine have this operation at all?
    pub(crate) fn has(&self, op: sass::Op) -> bool {
        sass::Form::of(op).iter().any(|f| f.isas.contains(self.machine.isa))
    }

    /// Does the machine have a form with these modifiers and kinds of operands?
    pub(crate) fn takes(&self, op: sass::Op, modifiers: &[M], operands: &[sass::Operand]) -> bool {
        sass::legal(self.machine.isa, op, modifiers, operands)
    }

    pub(crate) fn data(&self, op: Op, modifiers: &[M], results: &[Value], args: &[Arg]) -> InstData {
        InstData {
            op,
            modifiers: modifiers.into(),
            results: results.into(),
            args: SmallVec::from_slice(args),
            guard: None,
            at: self.at,
        }
    }

    /// Appends a machine operation with one result in file R. Legalization repairs operands that the machine can't
    /// encode (constants in the wrong slot, two constants).
    pub(crate) fn emit(&mut self, op: sass::Op, modifiers: &[M], words: u8, args: &[Arg]) -> Value {
        let result = self.kernel.code.value(File::R, words);
        self.emit_to(op, modifiers, &[result], args);
        result
    }

    /// Appends a machine operation whose first result is a predicate; the second predicate result is left out.
    pub(crate) fn emit_p(&mut self, op: sass::Op, modifiers: &[M], args: &[Arg]) -> Value {
        let result = self.kernel.code.value(File::P, 1);
        self.emit_to(op, modifiers, &[result], args);
        result
    }

    pub(crate) fn emit_to(&mut self, op: sass::Op, modifiers: &[M], results: &[Value], args: &[Arg]) {
        let data = self.data(Op::Machine(op), modifiers, results, args);
        self.kernel.code.append(self.block, data);
    }

    /// Appends a machine operation with side effects: it carries the instruction's guard, and its results are undefined
    /// where the guard is false.
    pub(crate) fn effect(&mut self, op: sass::Op, modifiers: &[M], results: &[Value], args: &[Arg]) {
        let mut data = self.data(Op::Machine(op), modifiers, results, args);
        if let Some((predicate, negated)) = self.guard {
            let else_values = results.iter().map(|r| self.undefined_like(*r)).collect();
            data.guard = Some(ori::Guard { predicate, negated, else_values });
        }
        self.kernel.code.append(self.block, data);
    }

    /// Lowers `body` with `condition` added to the guard of its side effects.
    pub(crate) fn under(&mut self, condition: Arg, body: impl FnOnce(&mut Self)) {
        let outer = self.guard;
        let both = match outer {
            None => condition,
            Some((predicate, negated)) => {
                let guard = if negated { Arg::not(predicate) } else { predicate.into() };
                let args = [PT, guard, condition, PT, Arg::Imm(0x80), Arg::Imm(0)];
                self.emit_p(sass::Op::PLOP3, &[M::LUT], &args).into()
            }
        };
        if let Arg::Use(u) = both {
            self.guard = Some((u.value, u.negated));
            body(self);
            self.guard = outer;
        }
    }

    /// Lowers `code` into a block that is executed if a predicate is true. Returns the parameters of the join block:
    /// the results of `code`, or `before`.
    pub(crate) fn if_true(
        &mut self,
        predicate: Value,
        before: Vec<Value>,
        code: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (inside, after) = (self.kernel.code.block(), self.kernel.code.block());
        let (yes, no) = (Edge::to(inside), Edge { to: after, args: before.clone() });
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: false, yes, no };
        self.block = inside;
        let args = code(self, &before);
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge { to: after, args });
        self.block = after;
        let like = |s: &mut Self, v: &Value| {
            let data = s.kernel.code.values[*v];
            s.kernel.code.value(data.file, data.words)
        };
        let params: Vec<Value> = before.iter().map(|v| like(self, v)).collect();
        self.kernel.code.blocks[after].params = params.clone();
        params
    }

    /// Packs words into one value.
    pub(crate) fn pack(&mut self, words: &[Arg]) -> Value {
        let mut registers: SmallVec<[Arg; 4]> = SmallVec::new();
        for word in words {
            // The words of a value are values: a zero needs a register, too.
            let word = if *word == RZ { Arg::Imm(0) } else { *word };
            registers.push(self.in_register(word));
        }
        let words = registers;
        let count: u8 = words.iter().map(|w| self.count(w)).sum();
        let result = self.kernel.code.value(File::R, count);
        let data = self.data(Op::Pseudo(Pseudo::Pack), &[], &[result], &words);
        self.kernel.code.append(self.block, data);
        result
    }

    /// Copies an argument into a new value.
    pub(crate) fn copy(&mut self, arg: Arg) -> Value {
        match arg {
            Arg::Use(u) if u.is_plain() => {
                if u.part.is_none() {
                    return u.value;
                }
                let file = self.kernel.code.values[u.value].file;
                let result = self.kernel.code.value(file, self.count(&arg));
                let data = self.data(Op::Pseudo(Pseudo::Copy), &[], &[result], &[arg]);
                self.kernel.code.append(self.block, data);
                result
            }
            _ => self.emit(sass::Op::MOV, &[], 1, &[arg]),
        }
    }

    /// The number of words of an argument.
    pub(crate) fn count(&self, arg: &Arg) -> u8 {
        match arg {
            Arg::Use(u) => u.part.map_or(self.kernel.code.values[u.value].words, |p| p.count),
            _ => 1,
        }
    }
}

/// Writing.
impl Lower<'_, '_> {
    /// Writes a destination: a register, an element of one, a vector of registers, or the sink `_`. The value is as
    /// wide as the destination.
    pub(crate) fn set(&mut self, operand: &Operand, value: Value) -> Option<()> {
        let body = self.body;
        // A sign before a destination means nothing here.
        self.mark_parts(operand, VALUE | SELECTOR);
        match operand {
            Operand::Reg(reg) => self.set_reg(*reg, value),
            Operand::Sink => Some(()),
            Operand::Vector(range) => {
                let elements = body.list(*range);
                // `_` is as wide as the other elements.
                let known = elements.iter().find_map(|e| self.element_words(e));
                let width =
                    known.unwrap_or(self.kernel.code.values[value].words / elements.len().max(1) as u8);
                let pieces: Vec<Value> =
                    elements.iter().map(|_| self.kernel.code.value(File::R, width)).collect();
                let data = self.data(Op::Pseudo(Pseudo::Unpack), &[], &pieces, &[value.into()]);
                self.kernel.code.append(self.block, data);
                let whole = usize::from(width) * elements.len();
                elements.iter().zip(pieces).try_for_each(|(e, piece)| self.set(e, piece))?;
                (whole == usize::from(self.kernel.code.values[value].words)).then_some(())
            }
            Operand::Part { reg, part, .. } => {
                let (_, words) = self.shape(*reg);
                let width = self.kernel.code.values[value].words;
                let old = self.read(*reg);
                let bits = self.body.reg_decl(*reg).0.ty.bits();
                let at = u32::from(part.element()?) * bits;
                let (first, value) = match bits {
                    32.. => (part.element()? * width, value),
                    _ => {
                        let first = (at / 32) as u8;
                        let word = Arg::word(old, first);
                        (first, self.replaced(word, at % 32 / 8, bits / 8, value.into()))
                    }
                };
                let pieces: Vec<Arg> = (0..words / width)
                    .map(|i| if i * width == first { value.into() } else { Arg::part(old, i * width, width) })
                    .collect();
                let whole = self.pack(&pieces);
                self.set_reg(*reg, whole)
            }
            _ => None,
        }
    }

    /// The width of a destination in bits; `None` for `_`.
    pub(crate) fn width(&self, operand: &Operand) -> Option<u32> {
        match operand {
            Operand::Reg(reg) | Operand::Part { reg, .. } => Some(self.body.reg_decl(*reg).0.ty.bits()),
            _ => None,
        }
    }

    /// The words of an element of a destination vector; `None` for `_`, which is as wide as the others.
    fn element_words(&self, element: &Operand) -> Option<u8> {
        match element {
            Operand::Reg(reg) => Some(self.shape(*reg).1),
            _ => None,
        }
    }

    pub(crate) fn set_reg(&mut self, reg: ast::Reg, value: Value) -> Option<()> {
        let data = self.kernel.code.values[value];
        if self.shape(reg) != (data.file, data.words) {
            return None;
        }
        let value = match self.guard {
            None => value,
            Some((predicate, negated)) => self.guarded(predicate, negated, reg, value),
        };
        self.now.set(reg, value);
        self.bind(reg, value, self.at);
        Some(())
    }

    /// Writes the carry flag of `add.cc` and its kin.
    pub(crate) fn set_carry(&mut self, value: Value) -> Option<()> {
        self.set_reg(cfg::CARRY, value)
    }

    pub(crate) fn carry(&mut self) -> Arg {
        self.read(cfg::CARRY).into()
    }

    /// Lowers an instruction in blocks that only threads with a true guard execute.
    pub(crate) fn in_guarded_branch(&mut self, lower: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let Some((predicate, negated)) = self.guard.take() else { return lower(self) };
        let (inside, after) = (self.kernel.code.block(), self.kernel.code.block());
        let before = self.now.mark();
        let (yes, no) = (Edge::to(inside), Edge::to(after));
        let from = std::mem::replace(&mut self.block, inside);
        self.kernel.code.blocks[from].end =
            Terminator::Branch { predicate, negated, uniform: false, yes, no };
        lower(self)?;
        // Registers written inside become block parameters of the join.
        let mut args = (Vec::new(), Vec::new());
        for (reg, old, value) in self.now.changes(before) {
            let (file, words) = self.shape(reg);
            let old = old.unwrap_or_else(|| self.undefined(file, words));
            let param = self.kernel.code.value(file, words);
            self.kernel.code.blocks[after].params.push(param);
            args.0.push(value);
            args.1.push(old);
            self.now.set(reg, param);
        }
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge { to: after, args: args.0 });
        if let Terminator::Branch { no, .. } = &mut self.kernel.code.blocks[from].end {
            no.args = args.1;
        }
        self.block = after;
        Some(())
    }

    /// The value if the guard is true, else the register's previous one. If nothing but the defining operation was
    /// appended last, it takes the guard itself; otherwise a guarded copy does.
    fn guarded(&mut self, predicate: Value, negated: bool, reg: ast::Reg, value: Value) -> Value {
        let old = self.read(reg);
        let code = &mut self.kernel.code;
        let guard = ori::Guard { predicate, negated, else_values: SmallVec::from_slice(&[old]) };
        if let Some(last) = code.blocks[self.block].insts.last().copied()
            && code.insts[last].results[..] == [value]
            && code.insts[last].guard.is_none()
            && last.index() >= self.unguarded
        {
            code.insts[last].guard = Some(guard);
            self.unguarded = code.insts.len();
            return value;
        }
        let data = code.values[value];
        let result = code.value(data.file, data.words);
        let mut copy = self.data(Op::Pseudo(Pseudo::Copy), &[], &[result], &[value.into()]);
        copy.guard = Some(guard);
        self.kernel.code.append(self.block, copy);
        result
    }
}
