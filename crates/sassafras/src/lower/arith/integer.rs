//! Lowers integer arithmetic.
//!
//! The carry flag of `.cc` is the machine's: of a subtraction it means no borrow. PTX calls it a borrow, but ptxas
//! passes the same flag from any `.cc` to any `addc` or `subc`, and so do we.
//!
//! On an H200 all results are ptxas's, but for two of its mistakes: `madc.hi.sat.s32` does not saturate, and
//! `madc.hi.s16` takes the upper half of a 64-bit product.

use crate::lower::Lower;
use crate::lower::arith::words::{Words, imm, u32_unless};
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use ori::{Arg, File, Value};
use ptx::Type;
use sass::{M, Op, operands as machine};
use smallvec::smallvec;

/// Which half of a product.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    Low,
    High,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn integer(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "add" | "sub" | "addc" | "subc" => self.add_or_subtract(ins),
            "mul.lo" | "mad.lo" | "madc.lo" => self.multiply(ins, Half::Low),
            "mul.hi" | "mad.hi" | "madc.hi" => self.multiply(ins, Half::High),
            "mul.wide" | "mad.wide" => self.multiply_wide(ins),
            "mul24.lo" | "mad24.lo" => self.multiply24(ins, Half::Low),
            "mul24.hi" | "mad24.hi" => self.multiply24(ins, Half::High),
            "dp4a" => self.dot_product(ins, &[M::_4A], [M::U8, M::S8]),
            "dp2a.lo" => self.dot_product(ins, &[M::_2A, M::LO], [M::U16, M::S16]),
            "dp2a.hi" => self.dot_product(ins, &[M::_2A, M::HI], [M::U16, M::S16]),
            "sad" => self.sum_of_distance(ins),
            "div" | "rem" => self.divide(ins),
            "abs" | "neg" => self.abs_or_neg(ins),
            "min" | "max" => self.min_or_max(ins),
            "popc" | "clz" | "bfind" => self.count_bits(ins),
            "brev" => self.reverse_bits(ins),
            "bfe" => self.extract_bits(ins),
            "bfi" => self.insert_bits(ins),
            "bmsk" => self.bounded_width(ins, Op::BMSK),
            "szext" => self.bounded_width(ins, Op::SGXT),
            "fns" => self.find_nth_set(ins),
            _ => None,
        }
    }

    fn set_words(&mut self, ins: &Ins<'a>, words: &[Arg]) -> Option<()> {
        let value = self.value(words);
        self.set(ins.get(0)?, value)
    }

    fn add_or_subtract(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        if matches!(ty.name(), "s16x2" | "u16x2") {
            return self.add_pairs(ins, ty);
        }
        let (a, b) = (self.number(ins.get(1)?, ty)?, self.number(ins.get(2)?, ty)?);
        let minus = matches!(ins.mnemonic(), "sub" | "subc");
        let carry = matches!(ins.mnemonic(), "addc" | "subc").then(|| self.carry());
        let out = ins.flag("cc").then(|| self.kernel.code.value(File::P, 1));
        let mut sum = match minus {
            true => self.difference(&a, &b, carry, out),
            false => self.sum(&a, &b, carry, out),
        };
        if ins.flag("sat") {
            sum = self.saturated_sum(a[0], b[0], minus, sum[0]);
        }
        if let Some(out) = out {
            self.set_carry(out)?;
        }
        self.set_words(ins, &sum)
    }

    /// Saturates a signed sum or difference. It overflowed if its sign differs from a's though a and b (or -b) have the
    /// same sign.
    fn saturated_sum(&mut self, a: Arg, b: Arg, minus: bool, sum: Arg) -> Words {
        // Bit 4a + 2b + s of each truth table is for the signs a, b, s.
        let (above, below) = if minus { (1 << 0b011, 1 << 0b100) } else { (1 << 0b001, 1 << 0b110) };
        let (a, b) = (self.in_register(a), self.in_register(b));
        let mut overflow = |table: i64| -> Arg {
            let signs = [a, b, sum].map(|arg| arg.suffixed(M::SIGN));
            let args = [PT, signs[0], signs[1], signs[2], Arg::Imm(table), Arg::Imm(0)];
            self.emit_p(Op::PLOP3, &[M::LUT], &args).into()
        };
        let (above, below) = (overflow(above), overflow(below));
        let clamped = self.choose(above, &[imm(i32::MAX as u32)], &[sum]);
        self.choose(below, &[imm(i32::MIN as u32)], &clamped)
    }

    /// The saturated signed sum of words.
    pub(crate) fn add_saturated(&mut self, a: Arg, b: Arg) -> Arg {
        let sum = self.add(&[a], &[b]);
        self.saturated_sum(a, b, false, sum[0])[0]
    }

    /// Two 16-bit sums.
    fn add_pairs(&mut self, ins: &Ins<'a>, ty: Type) -> Option<()> {
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let a = self.in_register(a);
        let sum = match self.offers(Op::VIADD, &[M::_16x2], &[machine::r(2); 3]) {
            true => self.emit(Op::VIADD, &[M::_16x2], 1, &[a, b]),
            false => {
                // The upper halves without the carry of the lower ones.
                let upper = self.lop3(a, imm(0xffff_0000), RZ, 0xc0);
                let (low, high) = (self.add(&[a], &[b]), self.add(&[upper.into()], &[b]));
                self.prmt(low[0], 0x7610, high[0])
            }
        };
        self.set(ins.get(0)?, sum)
    }
}

/// Products.
impl<'a> Lower<'_, 'a> {
    /// `mul`, `mad` and `madc` with `.lo` or `.hi`.
    fn multiply(&mut self, ins: &Ins<'a>, half: Half) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = match half {
            Half::Low => (self.number(ins.get(1)?, ty)?, self.number(ins.get(2)?, ty)?),
            Half::High => (self.extended_number(ins.get(1)?, ty)?, self.extended_number(ins.get(2)?, ty)?),
        };
        let c = if ins.len() == 4 { Some(self.number(ins.get(3)?, ty)?) } else { None };
        let carry = ins.mnemonic().starts_with("madc").then(|| self.carry());
        let out = ins.flag("cc").then(|| self.kernel.code.value(File::P, 1));
        let saturate = ins.flag("sat");
        let product = match (half, &c) {
            (Half::Low, Some(c)) if carry.is_none() && out.is_none() => {
                let sum = self.low_product(&a, &b, c);
                return self.set_words(ins, &sum);
            }
            (Half::Low, _) => self.low_product(&a, &b, &[RZ, RZ][..a.len()]),
            (Half::High, _) => self.high_product(ty, &a, &b),
        };
        let Some(c) = c else { return self.set_words(ins, &product) };
        let mut sum = self.sum(&product, &c, carry, out);
        if saturate {
            sum = self.saturated_sum(product[0], c[0], false, sum[0]);
        }
        if let Some(out) = out {
            self.set_carry(out)?;
        }
        self.set_words(ins, &sum)
    }

    /// `a * b + c`, modulo 2^32 or 2^64.
    pub(crate) fn low_product(&mut self, a: &[Arg], b: &[Arg], c: &[Arg]) -> Words {
        let ([a0, a1], [b0, b1]) = (a, b) else {
            return smallvec![self.imad(&[], 1, a[0], b[0], c[0]).into()];
        };
        let c = self.accumulator(c);
        if c == RZ {
            // The upper word is added to each product in turn: as deep as the sum of all three, with an addition less.
            let low = self.imad(&[M::WIDE, M::U32], 2, *a0, *b0, RZ);
            let high = self.imad(&[], 1, *a1, *b0, Arg::word(low, 1));
            let high = self.imad(&[], 1, *a0, *b1, high.into());
            return smallvec![Arg::word(low, 0), high.into()];
        }
        // What is added comes last: it may be the sum of the iteration before.
        let cross = self.imad(&[], 1, *a1, *b0, RZ);
        let cross = self.imad(&[], 1, *a0, *b1, cross.into());
        let low = self.imad(&[M::WIDE, M::U32], 2, *a0, *b0, c);
        let high = self.add(&[Arg::word(low, 1)], &[cross.into()]);
        smallvec![Arg::word(low, 0), high[0]]
    }

    /// The upper half of the product of extended numbers.
    fn high_product(&mut self, ty: Type, a: &[Arg], b: &[Arg]) -> Words {
        let signed = ty.is_signed();
        match (a, b) {
            ([a0, a1], [b0, b1]) => self.high_product64(signed, [*a0, *a1], [*b0, *b1]),
            _ if ty.bits() == 16 => {
                let product = self.low_product(a, b, &[RZ]);
                self.shift_right(signed, &product, Arg::Imm(16))
            }
            _ => {
                let modifiers = [&[M::HI], u32_unless(signed)].concat();
                smallvec![self.imad(&modifiers, 1, a[0], b[0], RZ).into()]
            }
        }
    }

    /// Schoolbook multiplication. The two middle products sum up to 65 bits, whose carry is the second one of the highest
    /// word: so no pair has to be made of it and the word below.
    pub(crate) fn high_product64(&mut self, signed: bool, a: [Arg; 2], b: [Arg; 2]) -> Words {
        let wide = [M::WIDE, M::U32];
        let first = self.imad(&wide, 2, a[1], b[0], RZ);
        let (middle, carry) = self.with_carry(2);
        self.emit_to(Op::IMAD, &wide, &[middle, carry], &[a[0], b[1], first.into()]);
        let lowest = self.imad(&wide, 2, a[0], b[0], RZ);
        let (unused, rest) = self.with_carry(1);
        self.emit_to(Op::IADD3, &[], &[unused, rest], &[Arg::word(lowest, 1), Arg::word(middle, 0), RZ]);
        let highest = self.imad(&wide, 2, a[1], b[1], RZ);
        let (low, next) = self.with_carry(1);
        let args = [Arg::word(highest, 0), Arg::word(middle, 1), RZ, rest.into(), NOT_PT];
        self.emit_to(Op::IADD3, &[M::X], &[low, next], &args);
        let args = [Arg::word(highest, 1), RZ, RZ, next.into(), carry.into()];
        let high = [low.into(), self.emit(Op::IADD3, &[M::X], 1, &args).into()];
        if !signed {
            return high.into();
        }
        // A negative number read as unsigned is 2^64 too large.
        let corrected = self.subtract_if_negative(&high, &a, &b);
        self.subtract_if_negative(&corrected, &b, &a)
    }

    fn subtract_if_negative(&mut self, from: &[Arg], sign: &[Arg], amount: &[Arg]) -> Words {
        let negative = self.is_negative(sign);
        let less = self.subtract(from, amount);
        self.choose(negative.into(), &less, from)
    }

    fn with_carry(&mut self, words: u8) -> (Value, Value) {
        (self.kernel.code.value(File::R, words), self.kernel.code.value(File::P, 1))
    }

    /// `IMAD`, with a constant factor as the second operand.
    pub(crate) fn imad(&mut self, modifiers: &[M], words: u8, a: Arg, b: Arg, c: Arg) -> Value {
        let (a, b) = if matches!(a, Arg::Imm(_)) { (b, a) } else { (a, b) };
        self.emit(Op::IMAD, modifiers, words, &[a, b, c])
    }

    /// The 64-bit addend, as one operand.
    fn accumulator(&mut self, c: &[Arg]) -> Arg {
        if c.iter().all(|word| *word == RZ) { RZ } else { self.value(c).into() }
    }

    fn multiply_wide(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.extended_number(ins.get(1)?, ty)?, self.extended_number(ins.get(2)?, ty)?);
        let c = if ins.len() == 4 { self.number(ins.get(3)?, ty.widened()?)? } else { smallvec![RZ] };
        let c = self.accumulator(&c);
        let sum = match ty.bits() {
            16 => self.imad(&[], 1, a[0], b[0], c),
            _ => self.imad(&[&[M::WIDE], u32_unless(ty.is_signed())].concat(), 2, a[0], b[0], c),
        };
        self.set(ins.get(0)?, sum)
    }

    /// `mul24`: bits 0 to 31 of the product, or 16 to 47.
    fn multiply24(&mut self, ins: &Ins<'a>, half: Half) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let signed = ty.is_signed();
        let (a, b) = (self.field(a, 0, 3, signed), self.field(b, 0, 3, signed));
        let c = if ins.len() == 4 { self.word(ins.get(3)?, ty)? } else { RZ };
        if half == Half::Low {
            let sum = self.imad(&[], 1, a, b, c);
            return self.set(ins.get(0)?, sum);
        }
        let product = self.imad(&[&[M::WIDE], u32_unless(signed)].concat(), 2, a, b, RZ);
        let halves = [Arg::word(product, 0), Arg::Imm(16), Arg::word(product, 1)];
        let product: Arg = self.emit(Op::SHF, &[M::R, M::U32], 1, &halves).into();
        if ins.len() == 3 {
            return self.set_words(ins, &[product]);
        }
        let mut sum = self.add(&[product], &[c]);
        if ins.flag("sat") {
            sum = self.saturated_sum(product, c, false, sum[0]);
        }
        self.set_words(ins, &sum)
    }

    /// `elements` are the modifiers of a's elements, unsigned and signed; b's are bytes.
    fn dot_product(&mut self, ins: &Ins<'a>, kind: &[M], elements: [M; 2]) -> Option<()> {
        let types = ins.types();
        let [a_type, b_type] = types[..] else { return None };
        let mut args = Vec::new();
        for i in 1..4 {
            args.push(self.word(ins.get(i)?, a_type)?);
        }
        let a_name = elements[usize::from(a_type.is_signed())];
        let b_name = if b_type.is_signed() { M::S8 } else { M::U8 };
        let sum = self.emit(Op::IDP, &[kind, &[a_name, b_name]].concat(), 1, &args);
        self.set(ins.get(0)?, sum)
    }

    fn sum_of_distance(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.extended_number(ins.get(1)?, ty)?, self.extended_number(ins.get(2)?, ty)?);
        let c = self.number(ins.get(3)?, ty)?;
        if let ([a], [b], [c], true) = (&a[..], &b[..], &c[..], self.has(Op::VABSDIFF)) {
            let sum = self.emit(Op::VABSDIFF, u32_unless(ty.is_signed()), 1, &[*a, *b, *c]);
            return self.set(ins.get(0)?, sum);
        }
        let distance = self.distance(ty.is_signed(), &a, &b);
        let sum = self.add(&distance, &c);
        self.set_words(ins, &sum)
    }
}

/// Sign operations.
impl<'a> Lower<'_, 'a> {
    fn abs_or_neg(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let result = match ins.mnemonic() {
            "abs" => {
                let a = self.extended_number(ins.get(1)?, ty)?;
                self.magnitude(&a)
            }
            _ => {
                let a = self.number(ins.get(1)?, ty)?;
                self.negate(&a)
            }
        };
        self.set_words(ins, &result)
    }
}

/// Minimum and maximum.
impl<'a> Lower<'_, 'a> {
    fn min_or_max(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let max = ins.mnemonic() == "max";
        let relu = ins.flag("relu");
        let pair = match ty.name() {
            "s16" | "s16x2" => Some((M::S16x2, true)),
            "u16" | "u16x2" => Some((M::U16x2, false)),
            _ => None,
        };
        let result = match pair {
            Some((pair, signed)) => {
                let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
                self.extreme_pairs(pair, max, relu, a, b).unwrap_or_else(|| {
                    let halves = [0, 2].map(|first| {
                        let (a, b) = (self.field(a, first, 2, signed), self.field(b, first, 2, signed));
                        self.extreme_or_zero(max, relu, signed, &[a], &[b])[0]
                    });
                    self.prmt(halves[0], 0x5410, halves[1])
                })
            }
            None => {
                let (a, b) = (self.number(ins.get(1)?, ty)?, self.number(ins.get(2)?, ty)?);
                let result = self.extreme_or_zero(max, relu, ty.is_signed(), &a, &b);
                self.value(&result)
            }
        };
        self.set(ins.get(0)?, result)
    }

    /// With `relu`, at least zero.
    fn extreme_or_zero(&mut self, max: bool, relu: bool, signed: bool, a: &[Arg], b: &[Arg]) -> Words {
        let result = self.extreme(max, signed, a, b);
        if relu { self.extreme(true, signed, &result, &[RZ]) } else { result }
    }

    /// Packed 16-bit form, if the machine has it.
    fn extreme_pairs(&mut self, pair: M, max: bool, relu: bool, a: Arg, b: Arg) -> Option<Value> {
        let modifiers: &[M] = if relu { &[pair, M::RELU] } else { &[pair] };
        let registers = [machine::r(2), machine::r(2), machine::r(2), machine::pt()];
        let offered = self.offers(Op::VIMNMX, modifiers, &registers);
        offered.then(|| self.emit(Op::VIMNMX, modifiers, 1, &[a, b, Arg::True(!max)]))
    }
}

/// Bits and fields.
impl<'a> Lower<'_, 'a> {
    fn count_bits(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let a = self.number(ins.get(1)?, ty)?;
        let result = match ins.mnemonic() {
            "popc" => self.population(&a),
            "clz" => self.leading_zeros(&a),
            _ if ins.flag("shiftamt") => self.shift_to_leading_one(ty.is_signed(), &a),
            _ => self.leading_one(ty.is_signed(), &a),
        };
        self.set_words(ins, &[result])
    }

    fn population(&mut self, a: &[Arg]) -> Arg {
        let counts: Words = a.iter().map(|word| self.emit(Op::POPC, &[], 1, &[*word]).into()).collect();
        match counts[..] {
            [low, high] => self.add(&[low], &[high])[0],
            _ => counts[0],
        }
    }

    /// The index of the highest set bit of a word, or all ones if there is none.
    fn highest(&mut self, word: Arg) -> Arg {
        self.emit(Op::FLO, &[M::U32], 1, &[word]).into()
    }

    fn leading_zeros(&mut self, a: &[Arg]) -> Arg {
        let (word, width) = match *a {
            [low, high] => {
                let some = self.relation(M::NE, false, &[high], &[RZ]);
                let width = self.choose(some.into(), &[Arg::Imm(31)], &[Arg::Imm(63)]);
                (self.choose(some.into(), &[high], &[low])[0], width[0])
            }
            _ => (a[0], Arg::Imm(31)),
        };
        let highest = self.highest(word);
        self.subtract(&[width], &[highest])[0]
    }

    /// XORs a signed number with its sign: the highest set bit is then the highest that differs from the sign.
    fn without_sign(&mut self, signed: bool, a: &[Arg]) -> Words {
        if !signed {
            return a.into();
        }
        let sign = self.shift_right(true, &a[a.len() - 1..], Arg::Imm(31))[0];
        let signs: Words = a.iter().map(|_| sign).collect();
        self.bitwise(a, &signs, 0x3c)
    }

    fn leading_one(&mut self, signed: bool, a: &[Arg]) -> Arg {
        let a = self.without_sign(signed, a);
        let [low, high] = a[..] else { return self.highest(a[0]) };
        let (low, high) = (self.highest(low), self.highest(high));
        let found = self.relation(M::NE, false, &[high], &[Arg::Imm(-1)]);
        let above = self.add(&[high], &[Arg::Imm(32)]);
        self.choose(found.into(), &above, &[low])[0]
    }

    /// The left shift that moves the bit of [`Lower::leading_one`] to the top.
    fn shift_to_leading_one(&mut self, signed: bool, a: &[Arg]) -> Arg {
        let a = self.without_sign(signed, a);
        let amounts: Words =
            a.iter().map(|word| self.emit(Op::FLO, &[M::U32, M::SH], 1, &[*word]).into()).collect();
        let [low, high] = amounts[..] else { return amounts[0] };
        let in_high = self.relation(M::NE, false, &[high], &[Arg::Imm(-1)]);
        let in_low = self.relation(M::NE, false, &[low], &[Arg::Imm(-1)]);
        let below = self.add(&[low], &[Arg::Imm(32)]);
        let below = self.choose(in_low.into(), &below, &[Arg::Imm(-1)]);
        self.choose(in_high.into(), &[high], &below)[0]
    }

    fn reverse_bits(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let a = self.number(ins.get(1)?, ty)?;
        let result: Words = a.iter().rev().map(|word| self.emit(Op::BREV, &[], 1, &[*word]).into()).collect();
        self.set_words(ins, &result)
    }

    /// `bfe`. For words only the low byte of position and length counts; for 64 bits ptxas takes all bits.
    fn extract_bits(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let a = self.number(ins.get(1)?, ty)?;
        let (position, length) = (self.word(ins.get(2)?, Type::U32)?, self.word(ins.get(3)?, Type::U32)?);
        if let [word] = a[..] {
            let (position, length) = (self.field(position, 0, 1, false), self.field(length, 0, 1, false));
            let shifted = self.shift_right(ty.is_signed(), &[word], position);
            let result = self.emit(Op::SGXT, u32_unless(ty.is_signed()), 1, &[shifted[0], length]);
            return self.set(ins.get(0)?, result);
        }
        let mask = self.low_ones(length);
        let shifted = self.shift_right(ty.is_signed(), &a, position);
        let mut field = self.bitwise(&shifted, &mask, 0xc0);
        if ty.is_signed() {
            // The sign of the field; a length of 0 shifts everything out.
            let last = self.add(&[length], &[Arg::Imm(-1)]);
            let sign = self.shift_right(false, &field, last[0]);
            let negative = self.relation(M::NE, false, &sign, &[RZ, RZ]);
            let filled: Words =
                field.iter().zip(&mask).map(|(f, m)| self.lop3(*f, *m, RZ, 0xf3).into()).collect();
            field = self.choose(negative.into(), &filled, &field);
        }
        self.set_words(ins, &field)
    }

    /// A 64-bit mask of low ones.
    fn low_ones(&mut self, count: Arg) -> Words {
        let one = [self.in_register(Arg::Imm(1)), RZ];
        let power = self.shift_left(&one, count);
        self.add(&power, &[Arg::Imm(-1), Arg::Imm(-1)])
    }

    /// `bfi`; see [`Lower::extract_bits`] for position and length.
    fn insert_bits(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (field, into) = (self.number(ins.get(1)?, ty)?, self.number(ins.get(2)?, ty)?);
        let (position, length) = (self.word(ins.get(3)?, Type::U32)?, self.word(ins.get(4)?, Type::U32)?);
        if let ([field], [into]) = (&field[..], &into[..]) {
            let (position, length) = (self.field(position, 0, 1, false), self.field(length, 0, 1, false));
            let shifted = self.shift_left(&[*field], position);
            let mask = self.emit(Op::BMSK, &[], 1, &[position, length]);
            let result = self.lop3(shifted[0], mask.into(), *into, 0xe2);
            return self.set(ins.get(0)?, result);
        }
        let mask = self.low_ones(length);
        let field = self.bitwise(&field, &mask, 0xc0);
        let (field, mask) = (self.shift_left(&field, position), self.shift_left(&mask, position));
        let result: Words = (0..2).map(|i| self.lop3(field[i], into[i], mask[i], 0xf4).into()).collect();
        self.set_words(ins, &result)
    }

    /// `bmsk` and `szext`.
    fn bounded_width(&mut self, ins: &Ins<'a>, op: Op) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, Type::U32)?);
        let mode: &[M] = if ins.one_of(&["wrap", "clamp"])? == "wrap" { &[M::W] } else { &[] };
        let sign = if op == Op::SGXT { u32_unless(ty.is_signed()) } else { &[] };
        let result = self.emit(op, &[mode, sign].concat(), 1, &[a, b]);
        self.set(ins.get(0)?, result)
    }

    fn find_nth_set(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let mut args = Vec::new();
        for i in 1..4 {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let found = self.routine("fns", &args)?;
        self.set(ins.get(0)?, *found.first()?)
    }
}
