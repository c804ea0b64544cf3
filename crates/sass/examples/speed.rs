//! What the calls cost that a compiler makes for every instruction: `speed` prints nanoseconds a call, over a mix of
//! common instructions, for each of building, refusing, encoding, decoding, printing and parsing.

use sass::{Inst, Isa, M, Op, Operand, decode, encode, legal, operands::*, parse};
use std::hint::black_box;
use std::time::Instant;

const BATCHES: u32 = 200;
const ROUNDS: u32 = 200;

type Call = (Op, &'static [M], &'static [Operand]);

/// What has a form on sm_90.
const GOOD: [Call; 16] = [
    (Op::MOV, &[], &[r(1), c(0, 0x28)]),
    (Op::S2R, &[], &[r(0), name(M::SR_TID_X)]),
    (Op::IADD3, &[], &[r(4), p(0), r(2), r(3).neg(), rz()]),
    (Op::IADD3, &[M::X], &[r(5), r(2), r(3), rz(), p(0), pf()]),
    (Op::IMAD, &[], &[r(5), r(2), r(3), r(4)]),
    (Op::IMAD, &[M::WIDE, M::U32], &[r(2), r(3), imm(4), r(6)]),
    (Op::LOP3, &[M::LUT], &[r(2), r(3), r(4), rz(), imm(0xc0), pf()]),
    (Op::SHF, &[M::R, M::U32, M::HI], &[r(2), rz(), imm(5), r(6)]),
    (Op::ISETP, &[M::GE, M::U32, M::AND], &[p(1), pt(), r(0), imm(8), pt()]),
    (Op::FFMA, &[M::FTZ], &[r(0), r(1), real(-0.5), r(2).neg()]),
    (Op::FADD, &[], &[r(0), r(1), r(2)]),
    (Op::HFMA2, &[], &[r(0), r(1).suffix(M::H0_H0), r(2), r(3)]),
    (Op::LDG, &[M::E, M::_128], &[r(8), ur(4), r(2), imm(16)]),
    (Op::STG, &[M::E], &[ur(4), r(2), r(7)]),
    (Op::LDS, &[M::_64], &[r(4), r(7), imm(0x100)]),
    (Op::BRA, &[], &[relative(0x40)]),
];

/// What has none.
const BAD: [Call; 6] = [
    (Op::IADD3, &[], &[r(0), imm(1), r(1), rz()]),
    (Op::FFMA, &[], &[r(0), c(0, 0x210), r(1), r(2)]),
    (Op::IMAD, &[], &[r(0), imm(1), r(1), r(2)]),
    (Op::LDG, &[M::E], &[r(8), ur(4), r(2), imm(0x80_0000)]),
    (Op::HFMA2, &[], &[r(0), imm(1), r(2), r(3)]),
    (Op::ISETP, &[M::GE], &[p(1), pt(), r(0), imm(8), pt()]),
];

/// Calls `work` on every case, again and again; the best batch counts, since others use the machine too.
fn time<T, R>(what: &str, cases: &[T], work: impl Fn(&T) -> R) {
    let batch = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for case in cases {
                black_box(work(black_box(case)));
            }
        }
        start.elapsed()
    };
    let best = (0..BATCHES).map(|_| batch()).min().unwrap_or_default();
    let each = best.as_nanos() as f64 / f64::from(ROUNDS) / cases.len() as f64;
    println!("{what:18} {each:6.0} ns");
}

fn main() {
    let isa = Isa::Sm90;
    let build = |&(op, modifiers, operands): &Call| Inst::new(isa, op, modifiers, operands);
    let allowed = |&(op, modifiers, operands): &Call| legal(isa, op, modifiers, operands);
    let insts: Vec<Inst> = GOOD.iter().filter_map(|call| build(call).ok()).collect();
    let words: Vec<u128> = insts.iter().filter_map(|inst| encode(inst).ok()).collect();
    let texts: Vec<String> = insts.iter().map(Inst::to_string).collect();
    assert_eq!(words.len(), GOOD.len(), "every case has a word");
    assert!(BAD.iter().all(|call| !allowed(call)), "and no bad case has one");
    time("Inst::new", &GOOD, build);
    time("legal, it is", &GOOD, allowed);
    time("legal, it is not", &BAD, allowed);
    time("encode", &insts, encode);
    time("decode", &words, |&word| decode(isa, word));
    time("registers", &insts, |inst| inst.registers().count());
    time("print", &insts, Inst::to_string);
    time("parse", &texts, |text| parse(isa, text));
}
