//! `mov`: registers, constants, special registers, addresses, and packing and unpacking; `cvt.pack`.

use crate::lower::Lower;
use crate::lower::build::{RZ, constant};
use crate::lower::instruction::Ins;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(crate) fn mov(&mut self, ins: &Ins<'a>) -> Option<()> {
        let vector = ins.one_of(&["v2", "v4"]);
        let ty = ins.ty()?;
        let (to, from) = (ins.get(0)?, ins.get(1)?);
        // The elements of `mov.b64 {…}` share its 64 bits; those of `mov.v2.b32 {…}` have 32 bits each.
        let element = |count: usize| if vector.is_some() { ty.bits() } else { ty.bits() / count as u32 };
        let value = match from {
            Operand::Vector(range) => {
                let list = self.body.list(*range);
                self.packed(list, element(list.len()))?
            }
            Operand::Special { row, .. } if ty == Type::PRED => self.special_predicate(*row)?,
            _ if ty == Type::PRED => {
                let from = self.predicate(from)?;
                self.predicate_value(from)
            }
            _ => self.moved(from, ty)?,
        };
        match to {
            Operand::Vector(range) if element(self.body.list(*range).len()) < 32 => {
                let list = self.body.list(*range);
                self.unpack_elements(list, element(list.len()), value)
            }
            _ => self.set(to, value),
        }
    }

    /// Packs elements of 8 to 64 bits.
    fn packed(&mut self, list: &[Operand], bits: u32) -> Option<Value> {
        let ty = Type::bits_of(bits)?;
        let mut words = Vec::new();
        for operand in list {
            match bits {
                64 => words.extend(self.words(operand, ty)?),
                _ => words.push(self.word(operand, ty)?),
            }
        }
        if bits == 8 {
            words = words.chunks(2).map(|pair| self.joined(pair, 0x0040)).collect();
        }
        if bits <= 16 {
            words = words.chunks(2).map(|pair| self.joined(pair, 0x5410)).collect();
        }
        Some(self.value(&words))
    }

    /// Packs the low halves or bytes of two words; a single one is unchanged.
    fn joined(&mut self, pair: &[Arg], selector: u32) -> Arg {
        match *pair {
            [low, high] => self.prmt(low, selector, high).into(),
            _ => pair[0],
        }
    }

    /// Unpacks elements of 8 or 16 bits to registers.
    fn unpack_elements(&mut self, list: &[Operand], bits: u32, value: Value) -> Option<()> {
        if (list.len() as u32 * bits).div_ceil(32) != u32::from(self.kernel.code.values[value].words) {
            return None;
        }
        for (i, to) in list.iter().enumerate() {
            let at = i as u32 * bits;
            let word = Arg::word(value, (at / 32) as u8);
            let element = match at % 32 {
                0 => word,
                shift => self.field(word, shift / 8, bits / 8, false),
            };
            let element = self.copy(element);
            self.set(to, element)?;
        }
        Some(())
    }

    /// An address, resized to its register.
    fn resized(&mut self, address: Value, ty: Type) -> Option<Value> {
        match (self.kernel.code.values[address].words, ty.bits()) {
            (1, 64) => Some(self.pack(&[address.into(), Arg::Imm(0)])),
            (1, 32) | (2, 64) => Some(address),
            (1, 128) => Some(self.quad([address.into(), Arg::Imm(0)])),
            (2, 128) => Some(self.quad([Arg::word(address, 0), Arg::word(address, 1)])),
            _ => None,
        }
    }

    /// 128 bits, the upper half zero: so ptxas extends addresses and constants, negative ones too.
    fn quad(&mut self, [low, high]: [Arg; 2]) -> Value {
        self.pack(&[low, high, Arg::Imm(0), Arg::Imm(0)])
    }

    /// A predicate operand as a value.
    fn predicate_value(&mut self, predicate: Arg) -> Value {
        match predicate {
            Arg::Use(u) if u.is_plain() => u.value,
            other => self.plop3(other, other, 0xc0),
        }
    }

    /// `cvt.pack`: a and b saturated to the narrow type, b below a, and the low bits of c above them.
    pub(crate) fn convert_pack(&mut self, ins: &Ins<'a>) -> Option<()> {
        let types = ins.types();
        let [to, from, ..] = types[..] else { return None };
        // `.sat` is mandatory.
        ins.flag("sat");
        let (a, b) = (self.word(ins.get(1)?, from)?, self.word(ins.get(2)?, from)?);
        let c = if ins.len() == 4 { self.word(ins.get(3)?, Type::U32)? } else { RZ };
        let name = match to.name() {
            "u16" => Some(M::U16),
            "s16" => Some(M::S16),
            "u8" => Some(M::U8),
            "s8" => Some(M::S8),
            _ => None,
        };
        let value = match name {
            Some(name) => self.emit(Op::I2IP, &[name, M::S32, M::SAT], 1, &[a, b, c]),
            None => self.pack_with_shifts(to.bits(), to.name().starts_with('s'), a, b, c),
        };
        self.set(ins.get(0)?, value)
    }

    /// `cvt.pack` to types of 2 and 4 bits, which I2IP lacks.
    fn pack_with_shifts(&mut self, bits: u32, signed: bool, a: Arg, b: Arg, c: Arg) -> Value {
        let mask = (1i64 << bits) - 1;
        let (least, most) = if signed { (-(mask + 1) / 2, mask / 2) } else { (0, mask) };
        let mut narrow = |arg: Arg| {
            let arg = self.extreme(false, true, &[arg], &[Arg::Imm(most)]);
            let arg = self.extreme(true, true, &arg, &[Arg::Imm(least)]);
            self.bitwise(&arg, &[Arg::Imm(mask)], 0xc0)
        };
        let (a, b) = (narrow(a), narrow(b));
        let a = self.shift_left(&a, Arg::Imm(bits.into()));
        let c = self.shift_left(&[c], Arg::Imm((2 * bits).into()));
        self.lop3(a[0], b[0], c[0], 0xfe)
    }

    fn moved(&mut self, from: &Operand, ty: Type) -> Option<Value> {
        match from {
            Operand::Reg(_) | Operand::Part { .. } => {
                let whole = self.whole(from)?;
                Some(self.copy(whole))
            }
            Operand::Special { row, component: None } if self.is_vector(*row) => self.special_vector(*row),
            Operand::Special { .. } if ty.bits() == 64 => self.special_wide(from),
            Operand::Special { .. } => self.special_word(from),
            Operand::Symbol(symbol) => {
                let address = self.variable_address(*symbol, 0)?;
                self.resized(address, ty)
            }
            Operand::Sum(_) => {
                let (symbol, plus) = self.symbol_and_offset(from)?;
                let address = self.variable_address(symbol, plus)?;
                self.resized(address, ty)
            }
            _ if ty.bits() == 64 => self.wide(from, ty),
            _ if ty.bits() == 128 => {
                let words = self.words(from, Type::U64)?;
                Some(self.quad(words))
            }
            _ => {
                let bits = constant(from, ty)?;
                Some(self.emit(Op::MOV, &[], 1, &[Arg::Imm(i64::from(bits as u32 as i32))]))
            }
        }
    }
}
