//! Operations against independent formulations, and ptxas's instruction sequences against what PTX says that
//! they compute: the sequences are what ptxas 13.0 emits for sm_90, so their result is a check of every
//! operation in them.

use super::*;
use crate::arith::{Int, bits};
use sass::{Isa, Kind, Role};

fn words(op: Op, modifiers: &[M], args: &[u32]) -> Option<u64> {
    let args: Vec<Arg> = args.iter().map(|a| Arg::word(*a)).collect();
    eval(op, modifiers, &args).map(|r| r.bits())
}

const EDGES: [u32; 14] =
    [0, 1, 2, 3, 31, 32, 33, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];

fn samples() -> Vec<u32> {
    let mut x = 7u32;
    let random = std::iter::repeat_with(|| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        x ^ x >> 15
    });
    EDGES.into_iter().chain(random.take(24)).collect()
}

/// Runs lines of SASS without control flow; `input` goes to R0 and up.
fn run(lines: &str, input: &[u32], result: u8) -> u32 {
    let mut registers = [0u32; 256];
    registers[..input.len()].copy_from_slice(input);
    let mut predicates = [true; 8];
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let inst = sass::parse(Isa::Sm90, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        if predicates[usize::from(inst.guard.predicate)] == inst.guard.not {
            continue;
        }
        let mut args = Vec::new();
        let mut upper_half = None;
        for (index, (slot, operand)) in inst.operands().enumerate().filter(|(_, o)| o.0.role == Role::Use) {
            let number = operand.value as usize & 0xff;
            let bits = match operand.kind {
                Kind::R if inst.words(index) == 2 => {
                    let upper = if number == 255 { 255 } else { number + 1 };
                    u64::from(registers[upper]) << 32 | u64::from(registers[number])
                }
                Kind::R => registers[number].into(),
                Kind::P => predicates[number].into(),
                Kind::Literal => continue,
                // The text has the halves of an immediate one by one, the upper one first.
                Kind::Half => {
                    let upper = upper_half.take();
                    if upper.is_none() {
                        upper_half = Some(operand.value as u64 & 0xffff);
                        continue;
                    }
                    upper.unwrap_or(0) << 16 | operand.value as u64 & 0xffff
                }
                _ => operand.value as u32 as u64,
            };
            let negated = if slot.kind == Kind::P { operand.is_not() } else { operand.is_neg() };
            args.push(Arg { bits, negated, absolute: operand.is_abs(), part: M::Empty });
        }
        let modifiers: Vec<M> = inst.modifiers().collect();
        let results =
            eval(inst.op(), &modifiers, &args).unwrap_or_else(|| panic!("no meaning: {line} {args:?}"));
        let mut given = 0;
        for (_, operand) in inst.operands().filter(|(slot, _)| slot.role == Role::Def) {
            let number = operand.value as usize & 0xff;
            match operand.kind {
                Kind::R if number != 255 => {
                    registers[number] = results.bits() as u32;
                    if results.words() == 2 {
                        registers[number + 1] = (results.bits() >> 32) as u32;
                    }
                }
                Kind::P => {
                    if number != 7 {
                        predicates[number] =
                            results.predicate(given).unwrap_or_else(|| panic!("no predicate: {line}"));
                    }
                    given += 1;
                }
                _ => {}
            }
        }
    }
    registers[usize::from(result)]
}

/// `div.u32` and `div.s32` of R6 by R7 and of R0 by R7; with the remainder's tail in their place.
#[test]
fn ptxas_divides() {
    let unsigned = "
        I2F.U32.RP R0, R7
        IADD3 R9, RZ, -R7, RZ
        ISETP.NE.U32.AND P2, PT, R7, RZ, PT
        MUFU.RCP R0, R0
        IADD3 R4, R0, 0xffffffe, RZ
        F2I.FTZ.U32.TRUNC.NTZ R5, R4
        IMAD.MOV.U32 R4, RZ, RZ, RZ
        IMAD R9, R9, R5, RZ
        IMAD.HI.U32 R5, R5, R9, R4
        IMAD.HI.U32 R5, R5, R6, RZ
        IADD3 R8, -R5, RZ, RZ
        IMAD R6, R7, R8, R6
        ISETP.GE.U32.AND P0, PT, R6, R7, PT
        @P0 IMAD.IADD R6, R6, 0x1, -R7
        @P0 IADD3 R5, R5, 0x1, RZ
        ISETP.GE.U32.AND P1, PT, R6, R7, PT
        @P1 VIADD R5, R5, 0x1
        @!P2 LOP3.LUT R5, RZ, R7, RZ, 0x33, !PT";
    let signed = "
        IABS R9, R7
        IABS R10, R7
        I2F.RP R6, R9
        MUFU.RCP R6, R6
        VIADD R4, R6, 0xffffffe
        IABS R6, R0
        LOP3.LUT R0, R0, R7, RZ, 0x3c, !PT
        F2I.FTZ.U32.TRUNC.NTZ R5, R4
        ISETP.GE.AND P1, PT, R0, RZ, PT
        IMAD.MOV.U32 R4, RZ, RZ, RZ
        IMAD.MOV R8, RZ, RZ, -R5
        IMAD R11, R8, R9, RZ
        IADD3 R8, RZ, -R10, RZ
        IMAD.HI.U32 R5, R5, R11, R4
        IMAD.HI.U32 R5, R5, R6, RZ
        IMAD R4, R5, R8, R6
        ISETP.GT.U32.AND P2, PT, R9, R4, PT
        @!P2 IMAD.IADD R4, R4, 0x1, -R9
        @!P2 IADD3 R5, R5, 0x1, RZ
        ISETP.NE.AND P2, PT, R7, RZ, PT
        ISETP.GE.U32.AND P0, PT, R4, R9, PT
        @P0 VIADD R5, R5, 0x1
        @!P1 IADD3 R5, -R5, RZ, RZ
        @!P2 LOP3.LUT R5, RZ, R7, RZ, 0x33, !PT";
    for a in samples() {
        for b in samples() {
            let quotient = run(unsigned, &[0, 0, 0, 0, 0, 0, a, b], 5);
            assert_eq!(u64::from(quotient), Int::U32.div(a.into(), b.into()), "{a:#x} / {b:#x}");
            let quotient = run(signed, &[a, 0, 0, 0, 0, 0, 0, b], 5);
            assert_eq!(u64::from(quotient), Int::S32.div(a.into(), b.into()), "{a:#x} / {b:#x}");
        }
    }
}

/// Bit fields, 24-bit products, 16-bit shifts and clamps, rounding to tf32.
#[test]
fn ptxas_sequences() {
    let bfe = "
        PRMT R0, R0, 0x7604, R5
        PRMT R5, RZ, 0x4, R0
        PRMT R0, RZ, 0x5, R0
        SHF.R.S32.HI R5, RZ, R5, R4
        SGXT R5, R5, R0";
    let bfi = "
        PRMT R5, R0, 0x7604, R5
        PRMT R7, RZ, 0x4, R5
        PRMT R6, RZ, 0x5, R5
        SHF.L.U32 R4, R4, R7, RZ
        BMSK R5, R7, R6
        LOP3.LUT R5, R4, R5, R0, 0xe2, !PT";
    let mul24_hi = "
        SGXT R4, R4, 0x18
        SGXT R5, R5, 0x18
        IMAD.WIDE R4, R4, R5, RZ
        IMAD.MOV.U32 R0, RZ, RZ, R5
        SHF.R.S32.HI R5, RZ, 0x10, R4
        PRMT R5, R5, 0x5410, R0";
    let shr_s16 = "
        ISETP.GT.U32.AND P0, PT, R0, 0x7fff, PT
        SEL R0, R0, 0x7fff, !P0
        PRMT R4, R4, 0x9910, RZ
        PRMT R5, R0, 0x9910, RZ
        IMAD.MOV.U32 R0, RZ, RZ, R4
        SHF.R.S32.HI R5, RZ, R5, R0";
    let rna_tf32 = "
        HFMA2.MMA R5, -RZ, RZ, 0, 0.00048828125
        FSETP.GEU.AND P0, PT, |R0|, +INF , PT
        @!P0 IMAD.IADD.U32 R0, R0, 0x1, R5
        LOP3.LUT R5, R0, 0xffffe000, RZ, 0xc0, !PT";
    for a in samples() {
        for b in samples() {
            // The position is in R5, the length in R0.
            let field = bits::bfe(Int::S32, b.into(), a, a >> 8);
            let got = run(bfe, &[a >> 8, 0, 0, 0, b, a], 5);
            assert_eq!(u64::from(got), field, "bfe {b:#x} {a:#x}");
            let inserted = bits::bfi(Int::U32, b.into(), a.into(), b, a);
            let got = run(bfi, &[a, 0, 0, 0, b, b], 5);
            assert_eq!(u64::from(got), inserted, "bfi {b:#x} {a:#x}");
            let got = run(mul24_hi, &[0, 0, 0, 0, a, b], 5);
            assert_eq!(u64::from(got), Int::S32.mul24(true, a.into(), b.into()), "mul24 {a:#x} {b:#x}");
            let got = run(shr_s16, &[a, 0, 0, 0, b], 5) as u16;
            assert_eq!(u64::from(got), Int::S16.shr((b & 0xffff).into(), a), "shr {b:#x} {a:#x}");
            let got = run(rna_tf32, &[a], 5);
            let away = crate::arith::Flow::rounding(crate::arith::Rounding::Away);
            assert_eq!(u64::from(got), crate::arith::convert::f32_to_tf32(away, a.into()), "tf32 {a:#x}");
        }
    }
}

/// 64-bit arithmetic from 32-bit operations and their carries.
#[test]
fn carries() {
    let wide: Vec<u64> =
        samples().chunks(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[pair.len() - 1])).collect();
    let split = |x: u64| (x as u32, (x >> 32) as u32);
    let chain = |a: u64, b: u64, subtract: bool| {
        let ((a_low, a_high), (b_low, b_high)) = (split(a), split(b));
        let operand = |x: u32| if subtract { Arg::word(x).neg() } else { Arg::word(x) };
        let low = eval(Op::IADD3, &[], &[a_low.into(), operand(b_low), 0.into()]).unwrap();
        let carry = Arg::predicate(low.predicate(0).unwrap());
        let high = eval(Op::IADD3, &[M::X], &[a_high.into(), operand(b_high), 0.into(), carry]).unwrap();
        high.bits() << 32 | low.bits()
    };
    let less = |a: u64, b: u64, signed: bool| {
        let ((a_low, a_high), (b_low, b_high)) = (split(a), split(b));
        let low = eval(Op::ISETP, &[M::LT, M::U32, M::AND], &[a_low.into(), b_low.into()]).unwrap();
        let lower = Arg::predicate(low.predicate(0).unwrap());
        let modifiers: &[M] = if signed { &[M::LT, M::AND, M::EX] } else { &[M::LT, M::U32, M::AND, M::EX] };
        let args = [a_high.into(), b_high.into(), Arg::predicate(true), lower];
        eval(Op::ISETP, modifiers, &args).unwrap().predicate(0).unwrap()
    };
    for &a in &wide {
        for &b in &wide {
            assert_eq!(chain(a, b, false), a.wrapping_add(b));
            assert_eq!(chain(a, b, true), a.wrapping_sub(b));
            assert_eq!(less(a, b, false), a < b);
            assert_eq!(less(a, b, true), (a as i64) < b as i64);
            let ((a_low, a_high), (b_low, b_high)) = (split(a), split(b));
            for amount in 0..32 {
                let low = eval(Op::LEA, &[], &[a_low.into(), b_low.into(), amount.into()]).unwrap();
                let carry = Arg::predicate(low.predicate(0).unwrap());
                let args = [a_low.into(), b_high.into(), a_high.into(), amount.into(), carry];
                let high = eval(Op::LEA, &[M::HI, M::X], &args).unwrap();
                assert_eq!(high.bits() << 32 | low.bits(), (a << amount).wrapping_add(b));
            }
        }
    }
}

#[test]
fn wide_multiply_adds_64_bits() {
    let of = |modifiers: &[M], a: u32, b: u32, c: u64| {
        eval(Op::IMAD, modifiers, &[a.into(), b.into(), Arg::wide(c)]).unwrap()
    };
    for a in samples() {
        for b in samples() {
            let c = u64::from(a) << 33 ^ u64::from(b);
            let unsigned = u64::from(a) * u64::from(b);
            let signed = (i64::from(a as i32) * i64::from(b as i32)) as u64;
            assert_eq!(of(&[M::WIDE, M::U32], a, b, c).bits(), unsigned.wrapping_add(c));
            assert_eq!(of(&[M::WIDE, M::U32], a, b, c).predicate(0), Some(unsigned.overflowing_add(c).1));
            assert_eq!(of(&[M::WIDE], a, b, c).bits(), signed.wrapping_add(c));
            assert_eq!(of(&[M::HI], a, b, c).bits(), signed.wrapping_add(c) >> 32);
            assert_eq!(of(&[], a, b, c).bits(), u64::from(a.wrapping_mul(b).wrapping_add(c as u32)));
        }
    }
}

/// Every shift against `i128`, for all amounts.
#[test]
fn funnel_shifts() {
    let (low, high) = (0x89ab_cdefu32, 0xf123_4567u32);
    let wide = u64::from(high) << 32 | u64::from(low);
    for amount in 0..130u32 {
        for (name, width, signed) in
            [(M::U32, 32, false), (M::S32, 32, true), (M::U64, 64, false), (M::S64, 64, true)]
        {
            for wrap in [false, true] {
                let n = if wrap { amount % width } else { amount.min(width) };
                let source = if signed { i128::from(wide as i64) } else { i128::from(wide) };
                let cases = [(M::L, source << n), (M::R, source >> n)];
                for (direction, shifted) in cases {
                    for upper in [false, true] {
                        let mut modifiers = vec![direction];
                        modifiers.extend(wrap.then_some(M::W));
                        modifiers.push(name);
                        modifiers.extend(upper.then_some(M::HI));
                        let expected = if upper { shifted >> 32 } else { shifted } as u32;
                        let got = words(Op::SHF, &modifiers, &[low, amount, high]);
                        assert_eq!(got, Some(expected.into()), "{modifiers:?} {amount}");
                    }
                }
            }
        }
    }
}

#[test]
fn predicates() {
    let p = Arg::predicate;
    for row in 0..8u32 {
        let [a, b, c] = [row >> 2 & 1 == 1, row >> 1 & 1 == 1, row & 1 == 1];
        for table in [0x80u32, 0x96, 0x1b] {
            let args = [p(a), p(b), p(c), table.into(), (!table & 0xff).into()];
            let both = eval(Op::PLOP3, &[M::LUT], &args).unwrap();
            assert_eq!(both.predicate(0), Some(table >> row & 1 == 1));
            assert_eq!(both.predicate(1), Some(table >> row & 1 == 0));
        }
    }
    let lop = |args: &[Arg]| eval(Op::LOP3, &[M::LUT], args).unwrap().predicate(0);
    assert_eq!(lop(&[6.into(), 1.into(), 0.into(), 0xc0.into(), p(true).neg()]), Some(false));
    assert_eq!(lop(&[7.into(), 1.into(), 0.into(), 0xc0.into(), p(true).neg()]), Some(true));
    assert_eq!(words(Op::P2R, &[M::B1], &[0b101, 0xffff_ffff, 0x7f]), Some(0xffff_85ff));
    let args = [0b1111111.into(), Arg::word(0x0200).part(M::B1), 0b11.into()];
    assert_eq!(eval(Op::R2P, &[], &args).map(|r| r.bits()), Some(0b1111110));
}

#[test]
fn vectors_of_integers() {
    assert_eq!(words(Op::VIMNMX, &[M::S16x2, M::RELU], &[0x8000_0005, 0x0001_fffe, 0]), Some(0x0001_0005));
    assert_eq!(words(Op::VIMNMX, &[M::S16x2], &[0x8000_0005, 0x0001_fffe, 1]), Some(0x8000_fffe));
    assert_eq!(words(Op::VIADD, &[M::_16x2], &[0xffff_0001, 0x0001_0002]), Some(0x0000_0003));
    assert_eq!(words(Op::VIADD, &[M::S8x4, M::ISAT], &[0x7f80_0102, 0x01ff_0101]), Some(0x7f80_0203));
    assert_eq!(words(Op::VIMNMX3, &[M::U32], &[5, 9, 3, 1]), Some(3));
    assert_eq!(words(Op::VIADDMNMX, &[], &[5, 9, 3, 0]), Some(14));
    assert_eq!(
        words(Op::IDP, &[M::_4A, M::S8, M::U8], &[0xff00_0000, 0xff00_0000, 1]),
        Some((-254i32 as u32).into())
    );
    assert_eq!(words(Op::IDP, &[M::_4A, M::U8, M::S8], &[0xff00_0000, 0x0200_0000, 1]), Some(511));
    assert_eq!(words(Op::I2IP, &[M::U8, M::S32, M::SAT], &[300, 5, 0xabcd]), Some(0xabcd_ff05));
}

#[test]
fn floats() {
    let f = |x: f32| Arg::word(x.to_bits());
    let value = |r: Option<Results>| r.map(|r| f32::from_bits(r.bits() as u32));
    assert_eq!(value(eval(Op::FADD, &[], &[f(1.5).neg(), f(-2.0).abs()])), Some(0.5));
    assert_eq!(value(eval(Op::FFMA, &[M::SAT], &[f(2.0), f(3.0), f(1.0)])), Some(1.0));
    assert_eq!(value(eval(Op::FMNMX, &[], &[f(2.0), f(f32::NAN), Arg::predicate(true)])), Some(2.0));
    assert_eq!(value(eval(Op::FSET, &[M::BF, M::GT, M::AND], &[f(2.0), f(1.0)])), Some(1.0));
    let xorsign = [f(2.0).abs(), f(-3.0).abs(), Arg::predicate(true)];
    assert_eq!(value(eval(Op::FMNMX, &[M::XORSIGN], &xorsign)), Some(-2.0));
    assert_eq!(value(eval(Op::MUFU, &[M::EX2], &[f(3.0).neg()])), Some(0.125));
    let both = eval(Op::FSETP, &[M::GEU, M::FTZ, M::OR], &[f(f32::NAN), f(1.0), Arg::predicate(false)]);
    assert_eq!(both.and_then(|r| r.predicate(0)), Some(true));
    assert_eq!(both.and_then(|r| r.predicate(1)), Some(false));
    let d = |x: f64| Arg::wide(x.to_bits());
    assert_eq!(eval(Op::DFMA, &[], &[d(2.0), d(3.0), d(1.0).neg()]).map(|r| r.bits()), Some(5f64.to_bits()));
}

#[test]
fn halves() {
    // 1.0 and 2.0 (upper), as f16 and as bf16.
    let (f16, bf16) = (0x4000_3c00, 0x4000_3f80);
    assert_eq!(words(Op::HADD2, &[], &[f16, f16]), Some(0x4400_4000));
    assert_eq!(words(Op::HADD2, &[M::BF16_V2], &[bf16, bf16]), Some(0x4080_4000));
    let spread = [Arg::word(f16).part(M::H1_H1), Arg::word(f16), Arg::word(f16).part(M::H0_H0).neg()];
    assert_eq!(eval(Op::HFMA2, &[M::MMA], &spread).map(|r| r.bits()), Some(0x4200_3c00));
    let ones = Arg::word(0x3c00_3c00);
    let signs = [Arg::word(f16).part(M::H0_NH1).neg(), ones, Arg::word(0)];
    assert_eq!(eval(Op::HFMA2, &[], &signs).map(|r| r.bits()), Some(0xbc00_4000));
    let widen = [Arg::word(0).neg(), Arg::word(f16).part(M::H1_H1)];
    assert_eq!(eval(Op::HADD2, &[M::F32], &widen).map(|r| r.bits()), Some(2f32.to_bits().into()));
    assert_eq!(words(Op::HSET2, &[M::LT, M::AND], &[0x3c00_3c00, f16]), Some(0xffff_0000));
    assert_eq!(words(Op::HSET2, &[M::BF, M::LT, M::AND], &[0x3c00_3c00, f16]), Some(0x3c00_0000));
    let both = eval(Op::HSETP2, &[M::LT, M::AND], &[0x3c00_3c00.into(), f16.into()]).unwrap();
    assert_eq!((both.predicate(0), both.predicate(1)), (Some(false), Some(true)));
    assert_eq!(words(Op::HMNMX2, &[], &[0x7e00_3c00, f16, 1]), Some(0x4000_3c00));
}

#[test]
fn conversions() {
    let f = |x: f32| x.to_bits();
    assert_eq!(words(Op::F2I, &[M::TRUNC, M::NTZ], &[f(-2.75)]), Some(0xffff_fffe));
    assert_eq!(words(Op::F2I, &[M::S64, M::TRUNC], &[f(f32::NAN)]), Some(1 << 63));
    assert_eq!(words(Op::F2I, &[M::S8, M::TRUNC, M::NTZ], &[f(-300.0)]), Some(0xffff_ff80));
    assert_eq!(words(Op::I2F, &[M::U8], &[0x1234_56ff]), Some(f(255.0).into()));
    assert_eq!(words(Op::I2FP, &[M::F32, M::S32], &[0xffff_ffff]), Some(f(-1.0).into()));
    assert_eq!(words(Op::F2F, &[M::F64, M::F32], &[f(1.5)]), Some(1.5f64.to_bits()));
    assert_eq!(words(Op::F2F, &[M::F16, M::F32, M::RZ], &[f(65519.0)]), Some(0x7bff));
    assert_eq!(words(Op::FRND, &[M::FLOOR], &[f(-0.5)]), Some(f(-1.0).into()));
    assert_eq!(words(Op::F2FP, &[M::F16, M::F32, M::PACK_AB], &[f(2.0), f(1.0)]), Some(0x4000_3c00));
    let merge = [M::SATFINITE, M::E4M3, M::F32, M::PACK_AB_MERGE_C];
    assert_eq!(words(Op::F2FP, &merge, &[f(2.0), f(1e9), 0xabcd]), Some(0xabcd_407e));
    assert_eq!(words(Op::F2FP, &[M::F16, M::E4M3, M::UNPACK_B], &[0x407e]), Some(0x4000_5f00));
    let tf32 = [M::RELU, M::TF32, M::F32, M::PACK_B];
    assert_eq!(words(Op::F2FP, &tf32, &[0x3f80_3000]), Some(0x3f80_4000));
    assert_eq!(words(Op::F2FP, &tf32, &[f(-1.0)]), Some(0));
    assert_eq!(words(Op::F2IP, &[M::U8, M::F32, M::TRUNC, M::NTZ], &[0, f(7.9), 0]), Some(7));
}

/// What isn't known has no result: a modifier too many, an argument too few, a suffix of another operation.
#[test]
fn nothing_is_left_out() {
    assert_eq!(words(Op::FADD, &[M::FMZ], &[0, 0]), None);
    assert_eq!(words(Op::IADD3, &[M::WIDE], &[0, 0, 0]), None);
    assert_eq!(words(Op::IADD3, &[], &[0, 0]), None);
    assert_eq!(words(Op::IADD3, &[], &[0, 0, 0, 0]), None);
    assert_eq!(words(Op::LDG, &[], &[0]), None);
    assert_eq!(eval(Op::FADD, &[], &[Arg::word(0).part(M::H1), 0.into()]), None);
    assert_eq!(eval(Op::IADD3, &[], &[Arg::word(0).abs(), 0.into(), 0.into()]), None);
    assert_eq!(eval(Op::LOP3, &[M::LUT], &[Arg::word(0).neg(), 0.into(), 0.into(), 0.into()]), None);
}

/// A uniform operation computes the same as its counterpart on general registers.
#[test]
fn uniform_operations_match_their_counterparts() {
    assert_eq!(words(Op::UIADD3, &[], &[1, 2, 3]), Some(6));
    assert_eq!(words(Op::UIADD3, &[M::_64], &[u32::MAX, 1, 0]), Some(1 << 32));
    assert_eq!(words(Op::USHF, &[M::L, M::U32], &[1, 4, 0]), Some(16));
    assert_eq!(words(Op::ULOP3, &[M::LUT], &[6, 3, 0, 0xc0]), Some(2));
    assert_eq!(words(Op::UMOV, &[], &[9]), Some(9));
}
