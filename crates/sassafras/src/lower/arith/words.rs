//! Integer arithmetic on one or two words, shared by the integer, logic and video instructions.
//!
//! A number is its words, the low one first. Numbers of 8 and 16 bits are one word with undefined upper bits;
//! operations that read those extend first ([`Lower::field`]). All arithmetic is modulo 2^32 or 2^64.

use crate::lower::Lower;
use crate::lower::build::{NOT_PT, PT, RZ};
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op, operands as machine};
use smallvec::{SmallVec, smallvec};

pub type Words = SmallVec<[Arg; 2]>;

/// `.U32` for unsigned; signed is the default.
pub fn u32_unless(signed: bool) -> &'static [M] {
    if signed { &[] } else { &[M::U32] }
}

pub fn imm(word: u32) -> Arg {
    Arg::Imm(i64::from(word as i32))
}

fn is_constant(arg: &Arg) -> bool {
    matches!(arg, Arg::Imm(_))
}

/// Reading and writing.
impl Lower<'_, '_> {
    /// An integer operand; the upper half of a 16-bit one is undefined.
    pub(crate) fn number(&mut self, operand: &Operand, ty: Type) -> Option<Words> {
        match ty.bits() {
            64 => self.words(operand, ty).map(Words::from),
            16 | 32 => Some(smallvec![self.word(operand, ty)?]),
            _ => None,
        }
    }

    /// An integer operand, sign- or zero-extended to a word.
    pub(crate) fn extended_number(&mut self, operand: &Operand, ty: Type) -> Option<Words> {
        let mut number = self.number(operand, ty)?;
        if ty.bits() == 16 {
            number[0] = self.field(number[0], 0, 2, ty.is_signed());
        }
        Some(number)
    }

    /// Bytes of a word from byte `first` on, extended to a word.
    pub(crate) fn field(&mut self, word: Arg, first: u32, bytes: u32, signed: bool) -> Arg {
        let above = 32 - 8 * bytes;
        match word {
            _ if above == 0 => word,
            Arg::Imm(n) => {
                let top = (n as u32) << (above - 8 * first);
                imm(if signed { (top as i32 >> above) as u32 } else { top >> above })
            }
            _ => {
                // A selector digit is a byte number; bit 3 replicates its sign, and 7 is a byte of RZ.
                let last = first + bytes - 1;
                let fill = if signed { 8 + last } else { 7 };
                let digit = |i: u32| if i < bytes { first + i } else { fill };
                let selector = (0..4).map(|i| digit(i) << (4 * i)).sum();
                self.prmt(word, selector, RZ).into()
            }
        }
    }

    /// Replaces the bytes of a word from `first` on by the low bytes of another.
    pub(crate) fn replaced(&mut self, word: Arg, first: u32, bytes: u32, by: Arg) -> Value {
        let digit = |i: u32| if (first..first + bytes).contains(&i) { i - first } else { 4 + i };
        let selector = (0..4).map(|i| digit(i) << (4 * i)).sum();
        self.prmt(by, selector, word)
    }

    /// PRMT: bytes of two words, chosen by the digits of a selector.
    pub(crate) fn prmt(&mut self, a: Arg, selector: u32, b: Arg) -> Value {
        self.emit(Op::PRMT, &[], 1, &[a, imm(selector), b])
    }

    /// A number as a value.
    pub(crate) fn value(&mut self, words: &[Arg]) -> Value {
        match words {
            [word] => self.copy(*word),
            _ => {
                let zeros_named = |word: &Arg| if *word == RZ { Arg::Imm(0) } else { *word };
                self.pack(&words.iter().map(zeros_named).collect::<Words>())
            }
        }
    }

    /// Does the machine have this operation, with these modifiers, on registers?
    pub(crate) fn offers(&self, op: Op, modifiers: &[M], operands: &[sass::Operand]) -> bool {
        sass::legal(self.machine.isa, op, modifiers, operands)
    }
}

/// Sums, comparisons and what is made of them.
impl Lower<'_, '_> {
    /// `a + b`
    pub(crate) fn add(&mut self, a: &[Arg], b: &[Arg]) -> Words {
        self.sum(a, b, None, None)
    }

    /// The sum of two numbers of 64 bits, as a value.
    pub(crate) fn add64(&mut self, a: [Arg; 2], b: [Arg; 2]) -> Value {
        let sum = self.add(&a, &b);
        self.value(&sum)
    }

    /// `a - b`
    pub(crate) fn subtract(&mut self, a: &[Arg], b: &[Arg]) -> Words {
        self.difference(a, b, None, None)
    }

    /// `-a`
    pub(crate) fn negate(&mut self, a: &[Arg]) -> Words {
        let zero: Words = a.iter().map(|_| RZ).collect();
        self.subtract(&zero, a)
    }

    /// `a + b + carry`; the carry out goes to `out`.
    pub(crate) fn sum(&mut self, a: &[Arg], b: &[Arg], carry: Option<Arg>, out: Option<Value>) -> Words {
        self.chain(a.iter().copied().zip(b.iter().copied()).collect(), carry, out)
    }

    /// `a - b`, or `a + ~b + carry`. The carry out is that of `a + ~b + 1`: no borrow.
    pub(crate) fn difference(
        &mut self,
        a: &[Arg],
        b: &[Arg],
        carry: Option<Arg>,
        out: Option<Value>,
    ) -> Words {
        // RZ has no negation.
        let b: Words = b.iter().map(|word| if *word == RZ { Arg::Imm(0) } else { *word }).collect();
        let mut pairs: Vec<(Arg, Arg)> =
            a.iter().copied().zip(b.iter().map(|word| word.inverted())).collect();
        if let (None, [(_, first), ..], [low, ..]) = (carry, &mut pairs[..], &b[..]) {
            // The machine computes `-x` as `~x + 1` and so carries for 0, which the constant -0 would not.
            let low = if *low == Arg::Imm(0) { self.in_register(*low) } else { *low };
            *first = low.negated();
        }
        self.chain(pairs, carry, out)
    }

    fn chain(&mut self, pairs: Vec<(Arg, Arg)>, mut carry: Option<Arg>, out: Option<Value>) -> Words {
        let mut words = Words::new();
        let last = pairs.len() - 1;
        for (i, (a, b)) in pairs.into_iter().enumerate() {
            // A constant is the second operand.
            let (a, b) = if is_constant(&a) { (b, a) } else { (a, b) };
            let word = self.kernel.code.value(File::R, 1);
            let carry_out = if i < last { Some(self.kernel.code.value(File::P, 1)) } else { out };
            let results: SmallVec<[Value; 2]> = std::iter::once(word).chain(carry_out).collect();
            match carry {
                None => self.emit_to(Op::IADD3, &[], &results, &[a, b, RZ]),
                Some(carry) => self.emit_to(Op::IADD3, &[M::X], &results, &[a, b, RZ, carry, NOT_PT]),
            }
            carry = carry_out.map(Arg::from);
            words.push(word.into());
        }
        words
    }

    /// Compares a and b.
    pub(crate) fn relation(&mut self, relation: M, signed: bool, a: &[Arg], b: &[Arg]) -> Value {
        let sign = u32_unless(signed);
        match (a, b) {
            ([low, high], [low_b, high_b]) => {
                let below = self.emit_p(Op::ISETP, &[relation, M::U32, M::AND], &[PT, *low, *low_b, PT]);
                let modifiers = [&[relation], sign, &[M::AND, M::EX]].concat();
                self.emit_p(Op::ISETP, &modifiers, &[PT, *high, *high_b, PT, below.into()])
            }
            _ => {
                let modifiers = [&[relation], sign, &[M::AND]].concat();
                self.emit_p(Op::ISETP, &modifiers, &[PT, a[0], b[0], PT])
            }
        }
    }

    pub(crate) fn is_negative(&mut self, a: &[Arg]) -> Value {
        self.relation(M::LT, true, &a[a.len() - 1..], &[RZ])
    }

    /// `predicate ? yes : no`.
    pub(crate) fn choose(&mut self, predicate: Arg, yes: &[Arg], no: &[Arg]) -> Words {
        let pairs = yes.iter().zip(no);
        pairs
            .map(|(yes, no)| match is_constant(yes) {
                true => self.emit(Op::SEL, &[], 1, &[*no, *yes, predicate.negated()]).into(),
                false => self.emit(Op::SEL, &[], 1, &[*yes, *no, predicate]).into(),
            })
            .collect()
    }

    pub(crate) fn magnitude(&mut self, a: &[Arg]) -> Words {
        if let [word] = a {
            return smallvec![self.emit(Op::IABS, &[], 1, &[*word]).into()];
        }
        let negative = self.is_negative(a);
        let opposite = self.negate(a);
        self.choose(negative.into(), &opposite, a)
    }

    /// `|a - b|` without overflow, modulo 2^32 or 2^64.
    pub(crate) fn distance(&mut self, signed: bool, a: &[Arg], b: &[Arg]) -> Words {
        if let ([a], [b], true) = (a, b, self.has(Op::VABSDIFF)) {
            return smallvec![self.emit(Op::VABSDIFF, u32_unless(signed), 1, &[*a, *b, RZ]).into()];
        }
        let above = self.relation(M::GE, signed, a, b);
        let (down, up) = (self.subtract(a, b), self.subtract(b, a));
        self.choose(above.into(), &down, &up)
    }

    pub(crate) fn extreme(&mut self, max: bool, signed: bool, a: &[Arg], b: &[Arg]) -> Words {
        if let ([a], [b]) = (a, b) {
            let (a, b) = if is_constant(a) { (*b, *a) } else { (*a, *b) };
            let (op, sign) = self.extreme_form(signed);
            return smallvec![self.emit(op, sign, 1, &[a, b, Arg::True(!max)]).into()];
        }
        let relation = if max { M::GT } else { M::LT };
        let first = self.relation(relation, signed, a, b);
        self.choose(first.into(), a, b)
    }

    /// Minimum and maximum of words. VIMNMX has a modifier for signed on some machines and not on others.
    fn extreme_form(&self, signed: bool) -> (Op, &'static [M]) {
        let sign = u32_unless(signed);
        let on_registers = [machine::r(2), machine::r(2), machine::r(2), machine::pt()];
        let forms: [(Op, &'static [M]); 3] = [(Op::VIMNMX, sign), (Op::VIMNMX, &[M::S32]), (Op::IMNMX, sign)];
        let form = forms.into_iter().find(|(op, sign)| self.offers(*op, sign, &on_registers));
        form.unwrap_or((Op::IMNMX, sign))
    }
}

/// Shifts, clamped to the width.
impl Lower<'_, '_> {
    pub(crate) fn shift_left(&mut self, a: &[Arg], by: Arg) -> Words {
        let low = self.emit(Op::SHF, &[M::L, M::U32], 1, &[a[0], by, RZ]);
        let high = a.get(1).map(|high| self.emit(Op::SHF, &[M::L, M::U64, M::HI], 1, &[a[0], by, *high]));
        std::iter::once(low).chain(high).map(Arg::from).collect()
    }

    pub(crate) fn shift_right(&mut self, signed: bool, a: &[Arg], by: Arg) -> Words {
        let (word, long) = if signed { (M::S32, M::S64) } else { (M::U32, M::U64) };
        let mut shifted = Words::new();
        if let [low, high] = a {
            shifted.push(self.emit(Op::SHF, &[M::R, long], 1, &[*low, by, *high]).into());
        }
        shifted.push(self.emit(Op::SHF, &[M::R, word, M::HI], 1, &[RZ, by, a[a.len() - 1]]).into());
        shifted
    }

    /// LOP3 word by word.
    pub(crate) fn bitwise(&mut self, a: &[Arg], b: &[Arg], table: u8) -> Words {
        let pairs = a.iter().zip(b);
        pairs
            .map(|(a, b)| {
                // Only the second operand can be a constant; the operations commute.
                let (a, b) = if is_constant(a) { (b, a) } else { (a, b) };
                self.lop3(*a, *b, RZ, i64::from(table)).into()
            })
            .collect()
    }
}
