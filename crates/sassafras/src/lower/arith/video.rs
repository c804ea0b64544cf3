//! Lowers the video instructions, scalar and SIMD. Since sm_75 the machine has only VABSDIFF and VABSDIFF4 of them.
//!
//! They follow the manual's pseudo-code, computed with numbers that hold every intermediate result: signed, of one word
//! if both operands are bytes or halves, else of two. ptxas agrees for all SIMD instructions. For scalar ones its code
//! departs from the manual, and from itself, in these cases (checked on an H200), where we follow the manual:
//!
//! | form | ptxas |
//! |---|---|
//! | `d.h1` | merges the upper half of the result, not the lower |
//! | `.sat` with `d.b0` … `d.h1` and a negative result | the largest number |
//! | `.sat` of `.u32` and 2^32 or more | the lower 32 bits |
//! | `.min`, `.max` | compares results of more than 32 bits after truncation, or with a wrong sign |
//! | `vmad` with `.u32` words | multiplies some of them as signed |
//!
//! The manual leaves one case open: it gives `vshl` 33 bits for its result. As in ptxas's code, it has 34.

use crate::lower::Lower;
use crate::lower::arith::words::{Words, imm, u32_unless};
use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::operand_use::{SELECTOR, SIGN, VALUE};
use ori::Arg;
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};
use smallvec::smallvec;

/// A byte range of a word.
#[derive(Clone, Copy, PartialEq)]
struct Lane {
    first: u32,
    bytes: u32,
}

impl Lane {
    const WORD: Lane = Lane { first: 0, bytes: 4 };
}

/// The operation on two numbers.
#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Distance,
    Average,
    Extreme { max: bool },
    Compare(M),
    Shift { left: bool, wrap: bool },
}

impl Operation {
    fn of(ins: &Ins) -> Option<Operation> {
        let name = ins.mnemonic().trim_end_matches(['2', '4']);
        Some(match name {
            "vadd" => Operation::Add,
            "vsub" => Operation::Subtract,
            "vabsdiff" => Operation::Distance,
            "vavrg" => Operation::Average,
            "vmin" | "vmax" => Operation::Extreme { max: name == "vmax" },
            "vset" => Operation::Compare(match ins.word(Kind::Compare)? {
                "eq" => M::EQ,
                "ne" => M::NE,
                "lt" => M::LT,
                "le" => M::LE,
                "gt" => M::GT,
                "ge" => M::GE,
                _ => return None,
            }),
            "vshl" | "vshr" => {
                Operation::Shift { left: name == "vshl", wrap: ins.one_of(&["wrap", "clamp"])? == "wrap" }
            }
            _ => return None,
        })
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn video(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "vmad" => self.video_mad(ins),
            name if name.ends_with('2') => self.video_simd(ins, 2),
            name if name.ends_with('4') => self.video_simd(ins, 4),
            _ => self.video_scalar(ins),
        }
    }

    /// What is written behind an operand (`.b2`, `.h10`): the size of an element in bytes, and the digits from the right.
    fn lane_selector(&self, operand: &Operand) -> Option<(u32, Vec<u32>)> {
        let Operand::Part { part, .. } = operand else { return None };
        self.mark_parts(operand, SELECTOR);
        let text = part.text();
        let bytes = if text.starts_with(".b") { 1 } else { 2 };
        Some((
            bytes,
            text.bytes().rev().filter(u8::is_ascii_digit).map(|digit| u32::from(digit - b'0')).collect(),
        ))
    }

    /// The one lane that a scalar instruction chooses.
    fn video_lane(&self, operand: &Operand) -> Lane {
        match self.lane_selector(operand) {
            Some((bytes, digits)) => Lane { first: bytes * digits.first().copied().unwrap_or(0), bytes },
            None => Lane::WORD,
        }
    }

    fn is_negated(&self, operand: &Operand) -> bool {
        self.mark_parts(operand, SIGN);
        matches!(operand, Operand::Negated(_) | Operand::Part { negated: true, .. })
    }

    /// The whole register of an operand, or a constant.
    fn video_word(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        self.mark_parts(operand, VALUE);
        match operand {
            Operand::Part { reg, .. } | Operand::Negated(reg) => self.word(&Operand::Reg(*reg), ty),
            _ => self.word(operand, ty),
        }
    }

    /// Writes a destination's register; the selected lane is merged already.
    fn set_register(&mut self, to: &Operand, word: Arg) -> Option<()> {
        let value = self.copy(word);
        match to {
            Operand::Part { reg, .. } => self.set(&Operand::Reg(*reg), value),
            whole => self.set(whole, value),
        }
    }

    /// A lane of a word as a signed number: of one word, but of two for a whole unsigned word.
    fn video_number(&mut self, word: Arg, lane: Lane, signed: bool) -> Words {
        let low = self.field(word, lane.first, lane.bytes, signed);
        if lane == Lane::WORD && !signed { smallvec![low, RZ] } else { smallvec![low] }
    }

    /// Sign-extends a number to more words.
    fn sign_extended(&mut self, number: &[Arg], words: usize) -> Words {
        let mut wide = Words::from(number);
        if wide.len() < words {
            let sign = self.shift_right(true, &number[number.len() - 1..], Arg::Imm(31))[0];
            wide.resize(words, sign);
        }
        wide
    }

    fn same_width(&mut self, a: &[Arg], b: &[Arg]) -> (Words, Words) {
        let words = a.len().max(b.len());
        (self.sign_extended(a, words), self.sign_extended(b, words))
    }

    /// Clamps a signed number to the range of a type.
    fn nearest(&mut self, number: &[Arg], signed: bool, bits: u32) -> Words {
        if (signed, bits) == (false, 32) {
            return self.nearest_unsigned(number);
        }
        let word = self.nearest_signed(number);
        if bits == 32 {
            return word;
        }
        let (least, most) =
            if signed { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let below = self.extreme(false, true, &word, &[Arg::Imm(most)]);
        self.extreme(true, true, &below, &[Arg::Imm(least)])
    }

    fn nearest_unsigned(&mut self, number: &[Arg]) -> Words {
        let Some(high) = self.all_above(number, RZ) else {
            return smallvec![self.extreme(true, true, number, &[RZ])[0], RZ];
        };
        let too_large = self.relation(M::NE, false, &[high], &[RZ]);
        let word = self.choose(too_large.into(), &[Arg::Imm(-1)], &number[..1]);
        let negative = self.is_negative(number);
        smallvec![self.choose(negative.into(), &[RZ], &word)[0], RZ]
    }

    fn nearest_signed(&mut self, number: &[Arg]) -> Words {
        if number.len() == 1 {
            return number.into();
        }
        let sign = self.shift_right(true, &number[..1], Arg::Imm(31))[0];
        let Some(high) = self.all_above(number, sign) else { return number.into() };
        let outside = self.relation(M::NE, false, &[high], &[RZ]);
        // All ones or zero by the true sign of the number, and so the largest or the smallest value.
        let really = self.shift_right(true, &number[number.len() - 1..], Arg::Imm(31))[0];
        let limit = self.lop3(really, imm(i32::MAX as u32), RZ, 0x3c);
        self.choose(outside.into(), &[limit.into()], &number[..1])
    }

    /// ORs the words above the lowest, each XORed with the same word. `None` if there are none.
    fn all_above(&mut self, number: &[Arg], word: Arg) -> Option<Arg> {
        match *number {
            [_, middle] if word == RZ => Some(middle),
            [_, middle] => Some(self.lop3(middle, word, RZ, 0x3c).into()),
            // (a ^ c) | (b ^ c)
            [_, middle, high] => Some(self.lop3(middle, high, word, 0x7e).into()),
            _ => None,
        }
    }
}

/// Scalar instructions.
impl<'a> Lower<'_, 'a> {
    fn video_scalar(&mut self, ins: &Ins<'a>) -> Option<()> {
        let types = ins.types();
        // `vset` gives 0 or 1 and so has no type of its own.
        let (signed, a_type, b_type) = match types[..] {
            [d, a, b] => (d.is_signed(), a, b),
            [a, b] => (false, a, b),
            _ => return None,
        };
        let (a_operand, b_operand) = (ins.get(1)?, ins.get(2)?);
        let (a, b) = (self.video_word(a_operand, a_type)?, self.video_word(b_operand, b_type)?);
        let a = self.video_number(a, self.video_lane(a_operand), a_type.is_signed());
        let b = self.video_number(b, self.video_lane(b_operand), b_type.is_signed());
        // The sum of two signed words takes 33 bits.
        let narrow = self.video_lane(a_operand) != Lane::WORD && self.video_lane(b_operand) != Lane::WORD;
        let (a, b) = if narrow { (a, b) } else { (self.sign_extended(&a, 2), self.sign_extended(&b, 2)) };
        let mut result = self.video_operation(Operation::of(ins)?, &a, &b);
        let to = self.video_lane(ins.get(0)?);
        if ins.flag("sat") {
            result = self.nearest(&result, signed, 8 * to.bytes);
        }
        let result = match ins.one_of(&["add", "min", "max"]) {
            _ if ins.len() == 3 => result[0],
            None => {
                let c = self.word(ins.get(3)?, Type::U32)?;
                self.replaced(c, to.first, to.bytes, result[0]).into()
            }
            Some(second) => {
                let c = self.word(ins.get(3)?, Type::U32)?;
                self.second_operation(second, signed, &result, c)
            }
        };
        self.set_register(ins.get(0)?, result)
    }

    fn second_operation(&mut self, second: &str, signed: bool, result: &[Arg], c: Arg) -> Arg {
        if second == "add" {
            return self.add(&result[..1], &[c])[0];
        }
        let c = self.video_number(c, Lane::WORD, signed);
        let (result, c) = self.same_width(result, &c);
        self.extreme(second == "max", true, &result, &c)[0]
    }

    fn video_operation(&mut self, operation: Operation, a: &[Arg], b: &[Arg]) -> Words {
        let (a, b) = self.same_width(a, b);
        match operation {
            Operation::Add => self.add(&a, &b),
            Operation::Subtract => self.subtract(&a, &b),
            Operation::Distance => {
                let difference = self.subtract(&a, &b);
                self.magnitude(&difference)
            }
            Operation::Average => self.video_average(&a, &b),
            Operation::Extreme { max } => self.extreme(max, true, &a, &b),
            Operation::Compare(relation) => {
                let holds = self.relation(relation, true, &a, &b);
                self.choose(holds.into(), &[Arg::Imm(1)], &[RZ])
            }
            Operation::Shift { left, wrap } => self.video_shift(left, wrap, &a, &b),
        }
    }

    /// Half the sum, rounded away from zero only if that is not negative.
    fn video_average(&mut self, a: &[Arg], b: &[Arg]) -> Words {
        let sum = self.add(a, b);
        // Plus one, unless the sign is set.
        let sign = self.shift_right(true, &sum, Arg::Imm(31));
        let rounded = self.add(&sum, &[Arg::Imm(1)]);
        let rounded = self.add(&rounded, &sign);
        self.shift_right(true, &rounded, Arg::Imm(1))
    }

    fn video_shift(&mut self, left: bool, wrap: bool, a: &[Arg], b: &[Arg]) -> Words {
        let amount = match wrap {
            true => self.bitwise(&b[..1], &[Arg::Imm(31)], 0xc0)[0],
            false => self.extreme(false, false, &b[..1], &[Arg::Imm(32)])[0],
        };
        let a = self.sign_extended(a, 2);
        if !left {
            return self.shift_right(true, &a, amount);
        }
        let shifted = self.shift_left(&a, amount);
        let high = self.emit(Op::SGXT, &[], 1, &[shifted[1], Arg::Imm(2)]);
        smallvec![shifted[0], high.into()]
    }

    /// `±(a * b) ± c`, scaled and saturated: 66 bits before that, so three words.
    fn video_mad(&mut self, ins: &Ins<'a>) -> Option<()> {
        let types = ins.types();
        let [_, a_type, b_type] = types[..] else { return None };
        let (a, b, c) = (ins.get(1)?, ins.get(2)?, ins.get(3)?);
        let minus_product = self.is_negated(a) != self.is_negated(b);
        // The destination's type doesn't affect the result.
        let signed = a_type.is_signed() || b_type.is_signed() || minus_product || self.is_negated(c);
        let product = self.video_product([a, b], [a_type, b_type])?;
        let c_word = self.video_word(c, Type::U32)?;
        let c_number = self.video_number(c_word, Lane::WORD, signed);
        let c_number = self.sign_extended(&c_number, 3);
        let mut sum = match (ins.flag("po"), minus_product, self.is_negated(c)) {
            (true, _, _) => self.sum(&product, &c_number, Some(PT), None),
            (_, true, _) => self.subtract(&c_number, &product),
            (_, _, true) => self.subtract(&product, &c_number),
            _ => self.add(&product, &c_number),
        };
        match ins.one_of(&["shr7", "shr15"]) {
            Some("shr7") => sum = self.scaled(&sum, 7),
            Some(_) => sum = self.scaled(&sum, 15),
            None => {}
        }
        if ins.flag("sat") {
            sum = self.nearest(&sum, signed, 32);
        }
        let value = self.copy(sum[0]);
        self.set(ins.get(0)?, value)
    }

    /// The product of two lanes as a signed number of three words.
    fn video_product(&mut self, operands: [&Operand; 2], types: [Type; 2]) -> Option<Words> {
        let mut factors = Vec::new();
        for (operand, ty) in operands.into_iter().zip(types) {
            let word = self.video_word(operand, ty)?;
            factors.push(self.video_number(word, self.video_lane(operand), ty.is_signed()));
        }
        // Only whole unsigned words are numbers of two words.
        factors.sort_by_key(|number| number.len());
        let (a, b) = (&factors[0], &factors[1]);
        let signed = b.len() == 1;
        let wide = self.imad(&[&[M::WIDE], u32_unless(signed)].concat(), 2, a[0], b[0], RZ);
        let (low, high) = (Arg::word(wide, 0), Arg::word(wide, 1));
        if signed {
            return Some(self.sign_extended(&[low, high], 3));
        }
        if a.len() == 2 {
            return Some(smallvec![low, high, RZ]);
        }
        // A negative number read as unsigned is 2^32 too large.
        let sign = self.shift_right(true, a, Arg::Imm(31))[0];
        let excess = self.lop3(sign, b[0], RZ, 0xc0);
        let upper = self.subtract(&[high, RZ], &[excess.into(), RZ]);
        Some(smallvec![low, upper[0], upper[1]])
    }

    /// Three words shifted right.
    fn scaled(&mut self, number: &[Arg], by: i64) -> Words {
        let low = self.emit(Op::SHF, &[M::R, M::U32], 1, &[number[0], Arg::Imm(by), number[1]]);
        let upper = self.shift_right(true, &number[1..], Arg::Imm(by));
        std::iter::once(low.into()).chain(upper).collect()
    }
}

/// SIMD instructions.
impl<'a> Lower<'_, 'a> {
    fn video_simd(&mut self, ins: &Ins<'a>, lanes: u32) -> Option<()> {
        let types = ins.types();
        let (signed, a_type, b_type) = match types[..] {
            [d, a, b] => (d.is_signed(), a, b),
            [a, b] => (false, a, b),
            _ => return None,
        };
        let bytes = 4 / lanes;
        let (to, a, b) = (ins.get(0)?, ins.get(1)?, ins.get(2)?);
        let digits = |operand: &Operand, first: u32| match self.lane_selector(operand) {
            Some((_, digits)) => digits,
            None => (first..first + lanes).collect(),
        };
        let (mask, from_a, from_b) = (digits(to, 0), digits(a, 0), digits(b, lanes));
        let words = [self.video_word(a, Type::U32)?, self.video_word(b, Type::U32)?];
        let c = self.word(ins.get(3)?, Type::U32)?;
        let operation = Operation::of(ins)?;
        let (saturate, add) = (ins.flag("sat"), ins.flag("add"));
        let plain = [to, a, b].iter().all(|operand| self.lane_selector(operand).is_none());
        // Distances of bytes fit into unsigned ones.
        let fits = !saturate || !signed;
        if matches!(operation, Operation::Distance)
            && lanes == 4
            && plain
            && a_type.is_signed() == b_type.is_signed()
            && (add || fits)
            && self.has(Op::VABSDIFF4)
        {
            let ty = (!a_type.is_signed()).then_some(M::U8);
            let modifiers: Vec<M> = ty.into_iter().chain(add.then_some(M::ACC)).collect();
            let c = if add { c } else { RZ };
            let distances = self.emit(Op::VABSDIFF4, &modifiers, 1, &[words[0], words[1], c]);
            return self.set(to, distances);
        }
        let mut result = c;
        for i in mask {
            let mut number = |digits: &[u32], ty: Type| {
                let digit = *digits.get(i as usize)?;
                let lane = Lane { first: digit % lanes * bytes, bytes };
                Some(self.video_number(words[usize::from(digit >= lanes)], lane, ty.is_signed()))
            };
            let (a, b) = (number(&from_a, a_type)?, number(&from_b, b_type)?);
            let mut lane = self.video_operation(operation, &a, &b);
            if saturate {
                lane = self.nearest(&lane, signed, 8 * bytes);
            }
            result = match add {
                true => self.add(&[result], &lane[..1])[0],
                false => self.replaced(result, i * bytes, bytes, lane[0]).into(),
            };
        }
        self.set_register(to, result)
    }
}
