//! Integers: arithmetic, bit fields, logic and shifts.

use super::{Decoder, Dest, Ins, Number, Source, elements, int, map, map_two};
use crate::ptx::program::{Action, Function};
use ::ptx::Type;
use ::ptx::ast::Operand;
use ori::arith::bits::{self, Overflow, Permute};
use ori::arith::{Int, integer, video};

const OVERFLOW: [(&str, Overflow); 2] = [("clamp", Overflow::Clamp), ("wrap", Overflow::Wrap)];

impl<'a> Decoder<'a> {
    pub(super) fn integer(&self, ins: &Ins<'a>) -> Option<Action> {
        let name = ins.mnemonic();
        match name {
            "add" | "sub" | "addc" | "subc" => self.sum(ins),
            "mad.lo" | "mad.hi" | "madc.lo" | "madc.hi" => self.multiply_add(ins),
            "mul.wide" | "mad.wide" => self.wide(ins),
            "popc" | "clz" | "bfind" => self.count(ins),
            "bfe" | "bfi" | "bmsk" | "szext" | "fns" => self.field(ins),
            "dp4a" | "dp2a.lo" | "dp2a.hi" => self.dot_product(ins),
            _ => self.plain_integer(ins),
        }
    }

    /// Instructions whose operands are all of one type.
    fn plain_integer(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let Number::Int(int, count) = Number::of(ty)? else { return None };
        let relu = ins.flag("relu");
        let saturate = ins.flag("sat");
        let clamp = move |x: u64| if relu { int.max_of(x, 0) } else { x };
        let two = |f: fn(Int, u64, u64) -> u64| {
            (2, elements(int.bits, count, move |[a, b]: [u64; 2]| clamp(f(int, a, b))))
        };
        let high = ins.mnemonic().ends_with(".hi");
        let (inputs, function): (usize, Function) = match ins.mnemonic() {
            "mul.lo" => two(Int::mul_lo),
            "mul.hi" => two(Int::mul_hi),
            "mul24.lo" | "mul24.hi" => (2, map(move |[a, b]: [u64; 2]| int.mul24(high, a, b))),
            "mad24.lo" | "mad24.hi" => (
                3,
                map(move |[a, b, c]: [u64; 3]| {
                    let product = int.mul24(high, a, b);
                    if saturate { int.add_saturated(product, c) } else { int.add(product, c) }
                }),
            ),
            "sad" => (3, map(move |[a, b, c]: [u64; 3]| int.sad(a, b, c))),
            "div" => two(Int::div),
            "rem" => two(Int::rem),
            "abs" => (1, map(move |[a]: [u64; 1]| int.abs(a))),
            "neg" => (1, map(move |[a]: [u64; 1]| int.neg(a))),
            "min" => two(Int::min_of),
            "max" => two(Int::max_of),
            "brev" => (1, map(move |[a]: [u64; 1]| a.reverse_bits() >> (64 - int.bits))),
            _ => return None,
        };
        (!saturate || ins.mnemonic() == "mad24.hi").then_some(())?;
        self.uniform(ins, ty, inputs, function)
    }

    /// The carry flag as a result.
    fn carry(&self) -> Dest {
        Dest { slot: Some(self.body.carry), mask: 1, from: Int::U8 }
    }

    /// `add`, `sub` with saturation and with carry. The flag of a subtraction means no borrow, as in the machine: the manual
    /// calls it a borrow, but code of nvcc (divisions of 128 bits) reads it with `addc`, and as a carry.
    fn sum(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let Number::Int(int, count) = Number::of(ty)? else { return None };
        let subtract = ins.mnemonic().starts_with("sub");
        let (takes_carry, gives_carry) = (ins.mnemonic().ends_with('c'), ins.flag("cc"));
        if ins.flag("sat") {
            let f = if subtract { Int::sub_saturated } else { Int::add_saturated };
            (!takes_carry && !gives_carry).then_some(())?;
            return self.uniform(ins, ty, 2, elements(int.bits, count, move |[a, b]: [u64; 2]| f(int, a, b)));
        }
        if !takes_carry && !gives_carry {
            let f = if subtract { Int::sub } else { Int::add };
            return self.uniform(ins, ty, 2, elements(int.bits, count, move |[a, b]: [u64; 2]| f(int, a, b)));
        }
        (ins.len() == 3 && count == 1).then_some(())?;
        let dests = [self.dest(ins.get(0)?, ty)?, if gives_carry { self.carry() } else { Dest::SINK }];
        let without = Source::constant(u64::from(subtract));
        let carry = if takes_carry { Source::Slot(self.body.carry) } else { without };
        let sources = [self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, ty)?, carry];
        let function = map_two(move |[a, b, carry]: [u64; 3]| {
            let (result, carry) = match subtract {
                true => integer::sub_borrow(int, a, b, carry == 0),
                false => integer::add_carry(int, a, b, carry != 0),
            };
            (result, u64::from(carry))
        });
        Some(Action::Compute { sources: sources.into(), dests: dests.into(), function })
    }

    fn multiply_add(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let int = int(ty)?;
        let high = ins.mnemonic().ends_with(".hi");
        let (takes_carry, gives_carry) = (ins.mnemonic().starts_with("madc"), ins.flag("cc"));
        let product = move |a, b| if high { int.mul_hi(a, b) } else { int.mul_lo(a, b) };
        if ins.flag("sat") {
            (!takes_carry && !gives_carry).then_some(())?;
            let function = map(move |[a, b, c]: [u64; 3]| int.add_saturated(product(a, b), c));
            return self.uniform(ins, ty, 3, function);
        }
        if !takes_carry && !gives_carry {
            return self.uniform(ins, ty, 3, map(move |[a, b, c]: [u64; 3]| int.add(product(a, b), c)));
        }
        (ins.len() == 4).then_some(())?;
        let dests = [self.dest(ins.get(0)?, ty)?, if gives_carry { self.carry() } else { Dest::SINK }];
        let carry = if takes_carry { Source::Slot(self.body.carry) } else { Source::constant(0) };
        let argument = |i: usize| self.source(ins.get(i)?, ty);
        let sources = [argument(1)?, argument(2)?, argument(3)?, carry];
        let function = map_two(move |[a, b, c, carry]: [u64; 4]| {
            let (sum, carry) = integer::add_carry(int, product(a, b), c, carry != 0);
            (sum, u64::from(carry))
        });
        Some(Action::Compute { sources: sources.into(), dests: dests.into(), function })
    }

    fn wide(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let (int, wide) = (int(ty)?, ty.widened()?);
        let dest = self.dest(ins.get(0)?, wide)?;
        let mut sources = vec![self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, ty)?];
        let adds = ins.mnemonic() == "mad.wide";
        sources.push(if adds { self.source(ins.get(3)?, wide)? } else { Source::constant(0) });
        self.compute(dest, sources, map(move |[a, b, c]: [u64; 3]| int.mul_wide(a, b).wrapping_add(c)))
    }

    fn count(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let int = int(ty)?;
        let from_top = ins.flag("shiftamt");
        let dest = self.dest(ins.get(0)?, Type::U32)?;
        let function = match ins.mnemonic() {
            "popc" => map(|[a]: [u64; 1]| u64::from(a.count_ones())),
            "clz" => map(move |[a]: [u64; 1]| u64::from(a.leading_zeros() + int.bits - 64)),
            _ => map(move |[a]: [u64; 1]| u64::from(bits::bfind(int, from_top, a))),
        };
        self.compute(dest, vec![self.source(ins.get(1)?, ty)?], function)
    }

    fn field(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let int = int(ty)?;
        // How many operands have the instruction's type; the others are 32-bit counts.
        let (typed, function): (usize, Function) = match ins.mnemonic() {
            "bfe" => (1, map(move |[a, b, c]: [u64; 3]| bits::bfe(int, a, b as u32, c as u32))),
            "bfi" => (2, map(move |[a, b, c, d]: [u64; 4]| bits::bfi(int, a, b, c as u32, d as u32))),
            "fns" => (3, map(|[a, b, c]: [u64; 3]| bits::fns(a as u32, b as u32, c as u32 as i32).into())),
            "bmsk" => {
                let overflow = ins.choose(&OVERFLOW)?;
                (2, map(move |[a, b]: [u64; 2]| bits::bmsk(overflow, a as u32, b as u32).into()))
            }
            _ => {
                let overflow = ins.choose(&OVERFLOW)?;
                (1, map(move |[a, b]: [u64; 2]| bits::szext(overflow, int.signed, a as u32, b as u32).into()))
            }
        };
        let dest = self.dest(ins.get(0)?, ty)?;
        let sources = (1..ins.len())
            .map(|i| self.source(ins.get(i)?, if i <= typed { ty } else { Type::U32 }))
            .collect::<Option<_>>()?;
        self.compute(dest, sources, function)
    }

    fn dot_product(&self, ins: &Ins<'a>) -> Option<Action> {
        let (a_signed, b_signed) = (ins.ty()?.is_signed(), ins.ty()?.is_signed());
        let high = ins.mnemonic() == "dp2a.hi";
        let function = match ins.mnemonic() {
            "dp4a" => map(move |[a, b, c]: [u64; 3]| {
                video::dp4a(a_signed, b_signed, a as u32, b as u32, c as u32).into()
            }),
            _ => map(move |[a, b, c]: [u64; 3]| {
                video::dp2a(high, a_signed, b_signed, a as u32, b as u32, c as u32).into()
            }),
        };
        self.uniform(ins, Type::U32, 3, function)
    }

    pub(super) fn logic(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        match ins.mnemonic() {
            "lop3" => return self.lop3(ins, ty),
            "shl" | "shr" => return self.shift(ins, ty),
            "shf.l" | "shf.r" => return self.funnel(ins, ty),
            "prmt" => return self.permute(ins, ty),
            _ => {}
        }
        let mask = u64::MAX >> (64 - ty.bits().clamp(1, 64));
        let (inputs, function): (usize, Function) = match ins.mnemonic() {
            "and" => (2, map(|[a, b]: [u64; 2]| a & b)),
            "or" => (2, map(|[a, b]: [u64; 2]| a | b)),
            "xor" => (2, map(|[a, b]: [u64; 2]| a ^ b)),
            "not" => (1, map(move |[a]: [u64; 1]| !a & mask)),
            _ => (1, map(|[a]: [u64; 1]| u64::from(a == 0))),
        };
        self.uniform(ins, ty, inputs, function)
    }

    fn lop3(&self, ins: &Ins<'a>, ty: Type) -> Option<Action> {
        let boolean: Option<fn(bool, bool) -> bool> = ins.choose(&[
            ("and", (|a, b| a & b) as fn(bool, bool) -> bool),
            ("or", |a, b| a | b),
            ("xor", |a, b| a ^ b),
        ]);
        let argument = |i: usize| self.source(ins.get(i)?, ty);
        let mut sources = vec![argument(1)?, argument(2)?, argument(3)?, argument(4)?];
        let compute = |a: u64, b: u64, c: u64, table: u64| {
            u64::from(bits::lop3(a as u32, b as u32, c as u32, table as u32))
        };
        let Some(boolean) = boolean else {
            let dest = self.dest(ins.get(0)?, ty)?;
            return self.compute(dest, sources, map(move |[a, b, c, t]: [u64; 4]| compute(a, b, c, t)));
        };
        let dests = self.pair(ins.get(0)?, ty)?;
        sources.push(self.predicate(ins.get(5)?)?);
        let function = map_two(move |[a, b, c, t, p]: [u64; 5]| {
            let result = compute(a, b, c, t);
            (result, u64::from(boolean(result != 0, p != 0)))
        });
        Some(Action::Compute { sources: sources.into(), dests: dests.into(), function })
    }

    /// `d|p`, or `d` alone.
    pub(super) fn pair(&self, operand: &Operand, ty: Type) -> Option<[Dest; 2]> {
        match operand {
            Operand::Pair(range) => match self.code.list(*range) {
                [first, second] => Some([self.dest(first, ty)?, self.dest(second, Type::PRED)?]),
                _ => None,
            },
            other => Some([self.dest(other, ty)?, Dest::SINK]),
        }
    }

    fn shift(&self, ins: &Ins<'a>, ty: Type) -> Option<Action> {
        let int = int(ty)?;
        let left = ins.mnemonic() == "shl";
        let dest = self.dest(ins.get(0)?, ty)?;
        let sources = vec![self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, Type::U32)?];
        let function = map(move |[a, n]: [u64; 2]| {
            let amount = n as u32;
            if left { int.shl(a, amount) } else { int.shr(a, amount) }
        });
        self.compute(dest, sources, function)
    }

    fn funnel(&self, ins: &Ins<'a>, ty: Type) -> Option<Action> {
        let overflow = ins.choose(&OVERFLOW)?;
        let shift = if ins.mnemonic() == "shf.l" { bits::funnel_left } else { bits::funnel_right };
        let function = map(move |[a, b, n]: [u64; 3]| shift(overflow, a as u32, b as u32, n as u32).into());
        self.uniform(ins, ty, 3, function)
    }

    fn permute(&self, ins: &Ins<'a>, ty: Type) -> Option<Action> {
        let mode = ins.choose(&[
            ("f4e", Permute::Forward),
            ("b4e", Permute::Backward),
            ("rc8", Permute::Replicate8),
            ("ecl", Permute::ClampLeft),
            ("ecr", Permute::ClampRight),
            ("rc16", Permute::Replicate16),
        ]);
        let mode = mode.unwrap_or(Permute::Each);
        let function = map(move |[a, b, c]: [u64; 3]| bits::prmt(mode, a as u32, b as u32, c as u32).into());
        self.uniform(ins, ty, 3, function)
    }
}
