//! Tests that every idiom of `selects.rs`, `shifts.rs`, `products.rs`, `carries.rs` and of constant doubles is found,
//! and computes the same for random words and for edge values of the types.

use super::*;

/// Emits an idiom on three random words (and pairs) and gives the words to store.
type Idiom = fn(&mut Program, [Arg; 3]) -> Vec<Value>;

const WORD: [(File, u8); 1] = [(File::R, 1)];
const PREDICATE: [(File, u8); 1] = [(File::P, 1)];
const PT: Arg = Arg::True(true);

fn shifted(p: &mut Program, left: bool, x: Arg, n: i64) -> Arg {
    match left {
        true => p.emit(sass::Op::SHF, &[M::L, M::U32], &WORD, &[x, Arg::Imm(n), RZ]).into(),
        false => p.emit(sass::Op::SHF, &[M::R, M::U32, M::HI], &WORD, &[RZ, Arg::Imm(n), x]).into(),
    }
}

fn lop3(p: &mut Program, a: Arg, b: Arg, table: i64) -> Value {
    p.emit(sass::Op::LOP3, &[M::LUT], &WORD, &[a, b, RZ, Arg::Imm(table), Arg::True(false)])
}

fn min_max(p: &mut Program, modifiers: &[M], a: Arg, b: Arg, is_min: bool) -> Arg {
    p.emit(sass::Op::VIMNMX, modifiers, &WORD, &[a, b, Arg::True(is_min)]).into()
}

fn integer_select(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let relation = p.random.one(&[M::LT, M::LE, M::GT, M::GE]);
    let modifiers: &[M] = p.random.one(&[&[M::AND][..], &[M::U32, M::AND]]);
    let b = if p.random.below(3) == 0 { Arg::Imm(p.random.one(&IMMEDIATES)) } else { b };
    let test = p.emit(sass::Op::ISETP, &[&[relation], modifiers].concat(), &PREDICATE, &[PT, a, b, PT]);
    let test = if p.random.below(2) == 0 { Arg::from(test) } else { Arg::not(test) };
    let args = if p.random.below(2) == 0 { [a, b, test] } else { [b, a, test] };
    vec![p.emit(sass::Op::SEL, &[], &WORD, &args)]
}

fn float_select(p: &mut Program, [a, _, _]: [Arg; 3]) -> Vec<Value> {
    let limits =
        [0, 0x8000_0000u32, 0x3f80_0000, 0x7f80_0000, 0x7fc0_0000, 1].map(|b| Arg::Imm(b as i32 as i64));
    let limit = p.random.one(&limits);
    let relations = [M::LT, M::LE, M::GT, M::GE, M::LTU, M::LEU, M::GTU, M::GEU];
    let relation = p.random.one(&relations);
    let test = p.emit(sass::Op::FSETP, &[relation, M::AND], &PREDICATE, &[PT, a, limit, PT]);
    let test = if p.random.below(2) == 0 { Arg::from(test) } else { Arg::not(test) };
    let args = if p.random.below(2) == 0 { [a, limit, test] } else { [limit, a, test] };
    vec![p.emit(sass::Op::SEL, &[], &WORD, &args)]
}

fn predicate_in_word(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let test = p.predicate();
    let args = if p.random.below(2) == 0 { [Arg::Imm(1), RZ, test] } else { [RZ, Arg::Imm(-1), test] };
    let word = p.emit(sass::Op::SEL, &[], &WORD, &args);
    let relation = p.random.one(&[M::EQ, M::NE]);
    let again = p.emit(sass::Op::ISETP, &[relation, M::AND], &PREDICATE, &[PT, word.into(), RZ, PT]);
    let sum = p.emit(sass::Op::IADD3, &[], &WORD, &[a, b, RZ]);
    vec![p.emit(sass::Op::SEL, &[], &WORD, &[sum.into(), d, again.into()])]
}

fn sum_and_limit(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let a = if p.random.below(3) == 0 { a.negated() } else { a };
    let sum = p.emit(sass::Op::IADD3, &[], &WORD, &[a, b, RZ]).into();
    let kinds = [&[][..], &[M::U32], &[M::S16x2], &[M::U16x2], &[M::S16x2, M::RELU]];
    let (modifiers, is_min) = (p.random.one(&kinds), p.random.below(2) == 0);
    let args = if p.random.below(2) == 0 { [sum, d] } else { [d, sum] };
    let limited = min_max(p, modifiers, args[0], args[1], is_min);
    let relu = p.emit(sass::Op::VIMNMX, &[], &WORD, &[limited, RZ, Arg::True(false)]);
    vec![relu]
}

fn three(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let (modifiers, is_min) = (p.random.one(&[&[][..], &[M::U32]]), p.random.below(2) == 0);
    let two = min_max(p, modifiers, a, b, is_min);
    let is_min = if p.random.below(4) == 0 { !is_min } else { is_min };
    let modifiers = if modifiers.is_empty() && p.random.below(3) == 0 { &[M::RELU] } else { modifiers };
    let Arg::Use(u) = min_max(p, modifiers, d, two, is_min) else { return vec![] };
    vec![u.value]
}

fn wrapped(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let amount = Arg::from(lop3(p, b, Arg::Imm(31), 0xc0));
    let kinds: [(&[M], [Arg; 3]); 3] = [
        (&[M::L, M::U32], [a, amount, RZ]),
        (&[M::R, M::U32, M::HI], [RZ, amount, a]),
        (&[M::R, M::S32, M::HI], [RZ, amount, a]),
    ];
    let (modifiers, args) = p.random.one(&kinds);
    vec![p.emit(sass::Op::SHF, modifiers, &WORD, &args)]
}

fn funnel(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let n = 1 + p.random.below(31) as i64;
    let b = if p.random.below(2) == 0 { a } else { b };
    let m = if p.random.below(4) == 0 { 1 + p.random.below(31) as i64 } else { 32 - n };
    let (high, low) = (shifted(p, true, a, n), shifted(p, false, b, m));
    vec![match p.random.below(3) {
        0 => lop3(p, high, low, 0xfc),
        1 => lop3(p, low, high, 0x3c),
        _ => p.emit(sass::Op::IADD3, &[], &WORD, &[high, low, RZ]),
    }]
}

fn shifted_sum(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let n = 1 + p.random.below(31) as i64;
    let a = if p.random.below(3) == 0 { a.negated() } else { a };
    let low = shifted(p, false, b, n);
    vec![p.emit(sass::Op::IADD3, &[], &WORD, &[a, low, RZ])]
}

fn bytes(p: &mut Program, [a, _, _]: [Arg; 3]) -> Vec<Value> {
    let n = p.random.one(&[4, 8, 16, 24]);
    let modifiers = p.random.one(&[[M::R, M::U32, M::HI], [M::R, M::S32, M::HI]]);
    let low = p.emit(sass::Op::SHF, &modifiers, &WORD, &[RZ, Arg::Imm(n), a]).into();
    vec![match p.random.below(3) {
        0 => lop3(p, low, Arg::Imm(0xff), 0xc0),
        1 => {
            let bits = Arg::Imm(p.random.one(&[7, 8, 16]));
            p.emit(sass::Op::SGXT, &[M::U32], &WORD, &[low, bits])
        }
        _ => p.emit(sass::Op::SGXT, &[], &WORD, &[low, Arg::Imm(8)]),
    }]
}

fn sign_extended_sum(p: &mut Program, [a, _, _]: [Arg; 3]) -> Vec<Value> {
    let sign = p.emit(sass::Op::SHF, &[M::R, M::S32, M::HI], &WORD, &[RZ, Arg::Imm(31), a]);
    let x = p.random.one(&p.pairs);
    let sum = p.add64(Program::halves(x), [a, sign.into()]);
    let low = p.pseudo(Pseudo::Unpack, &[1, 1], &[sum.into()]);
    vec![low, Value(low.0 + 1)]
}

fn doubles(p: &mut Program, _: [Arg; 3]) -> Vec<Value> {
    let low = Arg::Imm(p.random.one(&[0, 0, 0, 1]));
    let high = Arg::Imm(p.random.one(&[0, 0x3fe0_0000, -0x4010_0000, 0x7ff0_0000, 0x7ff8_0000, 1]));
    let (low, high) = (p.emit(sass::Op::MOV, &[], &WORD, &[low]), p.emit(sass::Op::MOV, &[], &WORD, &[high]));
    let constant = Arg::from(p.pseudo(Pseudo::Pack, &[2], &[low.into(), high.into()]));
    let constant = match p.random.below(4) {
        0 => constant.negated(),
        1 => constant.absolute(),
        _ => constant,
    };
    let (x, y) = (p.random.one(&p.pairs).into(), p.random.one(&p.pairs).into());
    let (op, args) = match p.random.below(5) {
        0 => (sass::Op::DADD, vec![constant, x]),
        1 => (sass::Op::DADD, vec![x, constant]),
        2 => (sass::Op::DMUL, vec![constant, x]),
        3 => (sass::Op::DFMA, vec![x, y, constant]),
        _ => (sass::Op::DFMA, vec![constant, y, x]),
    };
    let result = p.emit(op, &[], &[(File::R, 2)], &args);
    let low = p.pseudo(Pseudo::Unpack, &[1, 1], &[result.into()]);
    vec![low, Value(low.0 + 1)]
}

fn signed_floats(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let number = Arg::Imm(p.random.one(&[0, 0x3f80_0000, -0x4080_0000, 0x7fc0_0000, 1, -0x8000_0000]));
    let constant = Arg::from(p.emit(sass::Op::MOV, &[], &WORD, &[number]));
    let constant = if p.random.below(2) == 0 { constant.negated() } else { constant.absolute() };
    vec![match p.random.below(3) {
        0 => p.emit(sass::Op::FADD, &[], &WORD, &[a, constant]),
        1 => p.emit(sass::Op::FMUL, &[], &WORD, &[constant, a]),
        _ => p.emit(sass::Op::FFMA, &[], &WORD, &[a, b, constant]),
    }]
}

fn packed_halves(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let modifiers = p.random.one(&[&[M::F16, M::F32, M::PACK_AB][..], &[M::BF16, M::F32, M::PACK_AB]]);
    let (low, high) = (
        p.emit(sass::Op::F2FP, modifiers, &WORD, &[RZ, a]),
        p.emit(sass::Op::F2FP, modifiers, &WORD, &[RZ, b]),
    );
    vec![p.emit(sass::Op::PRMT, &[], &WORD, &[low.into(), Arg::Imm(0x5410), high.into()])]
}

/// The second word of the lower half of a 64-bit product, before or after the upper half, with factors in any order.
fn middle_word(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    const PAIR: (File, u8) = (File::R, 2);
    const WITH_CARRY: [(File, u8); 2] = [(File::R, 1), (File::P, 1)];
    let wide = [M::WIDE, M::U32];
    // No parameters: these would be constant-bank operands, of one factor here and of the other one there.
    let [[a0, a1], [b0, b1]] = [(a, b), (b, d)].map(|(x, y)| {
        let product = p.emit(sass::Op::IMAD, &wide, &[PAIR], &[x, y, RZ]);
        [0, 1].map(|word| Arg::word(product, word))
    });
    let lowest = p.emit(sass::Op::IMAD, &wide, &[PAIR], &[a0, b0, RZ]);
    let lower = |p: &mut Program| {
        let crossed = p.random.below(2) == 0;
        let ([r, s], [t, u]) = if crossed { ([b0, a1], [a0, b1]) } else { ([a0, b1], [a1, b0]) };
        let word = p.emit(sass::Op::IMAD, &[], &WORD, &[r, s, Arg::word(lowest, 1)]);
        p.emit(sass::Op::IMAD, &[], &WORD, &[t, u, word.into()])
    };
    let is_first = p.random.below(2) == 0;
    let before = is_first.then(|| lower(p));
    let first = p.emit(sass::Op::IMAD, &wide, &[PAIR], &[a1, b0, RZ]);
    let middle = p.emit(sass::Op::IMAD, &wide, &[PAIR, (File::P, 1)], &[a0, b1, first.into()]);
    let args = [Arg::word(lowest, 1), Arg::word(middle, 0), RZ];
    let sum = p.emit(sass::Op::IADD3, &[], &WITH_CARRY, &args);
    let word = before.unwrap_or_else(|| lower(p));
    let args = [Arg::word(middle, 1), RZ, RZ, Value(sum.0 + 1).into(), Value(middle.0 + 1).into()];
    vec![word, p.emit(sass::Op::IADD3, &[M::X], &WORD, &args)]
}

/// A carry as a number, added to two words.
fn second_carry(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    const WITH_CARRY: [(File, u8); 2] = [(File::R, 1), (File::P, 1)];
    let no = Arg::True(false);
    let [first, second] = [(a, b), (b, d)].map(|(x, y)| {
        let sum = p.emit(sass::Op::IADD3, &[], &WITH_CARRY, &[x, y, RZ]);
        Arg::from(Value(sum.0 + 1))
    });
    let number = p.emit(sass::Op::IADD3, &[M::X], &WITH_CARRY, &[RZ, RZ, RZ, first, no]);
    let zero = p.emit(sass::Op::IADD3, &[M::X], &WORD, &[RZ, RZ, RZ, Value(number.0 + 1).into(), no]);
    let third = if p.random.below(4) == 0 { b } else { RZ };
    let low = p.emit(sass::Op::IADD3, &[M::X], &WITH_CARRY, &[number.into(), a, third, second, no]);
    let carry = Arg::from(Value(low.0 + 1));
    let high = p.emit(sass::Op::IADD3, &[M::X], &WORD, &[zero.into(), d, RZ, carry, no]);
    vec![low, high]
}

/// The lower word of a product of words.
fn low_word(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let modifiers = p.random.one(&[&[M::WIDE, M::U32][..], &[M::WIDE]]);
    let b = if p.random.below(2) == 0 { b } else { Arg::Imm(p.random.one(&IMMEDIATES)) };
    let addend = if p.random.below(2) == 0 { RZ } else { p.random.one(&p.pairs).into() };
    let product = p.emit(sass::Op::IMAD, modifiers, &[(File::R, 2)], &[a, b, addend]);
    let mut values = vec![p.emit(sass::Op::IADD3, &[], &WORD, &[d, Arg::word(product, 0), RZ])];
    if p.random.below(4) == 0 {
        values.push(p.emit(sass::Op::IADD3, &[], &WORD, &[d, Arg::word(product, 1), RZ]));
    }
    values
}

/// The product of two pairs, or of a pair and a word, added to a pair.
fn sum_with_product(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let x = p.random.one(&p.pairs);
    let product = p.emit(sass::Op::IMAD, &[M::WIDE, M::U32], &[(File::R, 2)], &[a, b, RZ]);
    let mut upper = p.emit(sass::Op::IMAD, &[], &WORD, &[d, b, Arg::word(product, 1)]);
    if p.random.below(2) == 0 {
        upper = p.emit(sass::Op::IMAD, &[], &WORD, &[a, d, upper.into()]);
    }
    let terms = [Program::halves(x), [Arg::word(product, 0), upper.into()]];
    let sum = if p.random.below(2) == 0 { p.add64(terms[0], terms[1]) } else { p.add64(terms[1], terms[0]) };
    let low = p.pseudo(Pseudo::Unpack, &[1, 1], &[sum.into()]);
    vec![low, Value(low.0 + 1)]
}

/// Multiples of one word.
fn multiples(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let multiple = |p: &mut Program, x: Arg| -> Arg {
        let factor = Arg::Imm(p.random.one(&IMMEDIATES));
        match p.random.below(4) {
            0 => x,
            1 => shifted(p, true, x, 5),
            _ => p.emit(sass::Op::IMAD, &[], &WORD, &[x, factor, RZ]).into(),
        }
    };
    let other = if p.random.below(8) == 0 { b } else { a };
    let (x, y, z) = (multiple(p, a), multiple(p, other), multiple(p, a));
    let factor = Arg::Imm(p.random.one(&IMMEDIATES));
    let sum = match p.random.below(2) {
        0 => p.emit(sass::Op::IADD3, &[], &WORD, &[x, y, RZ]),
        _ => p.emit(sass::Op::IMAD, &[], &WORD, &[x, factor, y]),
    };
    vec![p.emit(sass::Op::IMAD, &[], &WORD, &[sum.into(), Arg::Imm(3), z])]
}

fn packed_operations(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let half = |arg: Arg, half: M| match arg {
        Arg::Use(u) => Arg::Use(ori::Use { suffixes: sass::Suffixes::one(half), ..u }),
        arg => arg,
    };
    let b = if p.random.below(3) == 0 { b.negated() } else { b };
    let other = if p.random.below(3) == 0 { M::H0_H0 } else { M::H1_H1 };
    let (first, second) = (p.random.one(&[0, 1]), p.random.one(&[0, 1, 2]));
    let of = |p: &mut Program, own: M, third: M| -> Arg {
        let [x, y, z] = [half(a, own), half(b, own), half(d, third)];
        let one = match first {
            0 => p.emit(sass::Op::HADD2, &[], &WORD, &[x, y]),
            _ => p.emit(sass::Op::HMUL2, &[], &WORD, &[x, y]),
        };
        let one = half(one.into(), M::H0_H0);
        match second {
            0 => p.emit(sass::Op::HFMA2, &[], &WORD, &[one, z, x]).into(),
            1 => p.emit(sass::Op::HMNMX2, &[], &WORD, &[one, z, Arg::True(true)]).into(),
            _ => p.emit(sass::Op::HMUL2, &[M::BF16_V2], &WORD, &[z, one]).into(),
        }
    };
    let (low, high) = (of(p, M::H0_H0, M::H0_H0), of(p, M::H1_H1, other));
    vec![p.emit(sass::Op::PRMT, &[], &WORD, &[low, Arg::Imm(0x5410), high])]
}

fn broadcast_half(p: &mut Program, [a, b, _]: [Arg; 3]) -> Vec<Value> {
    let selector = Arg::Imm(p.random.one(&[0x1010, 0x3232, 0x5410, 0x7632, 0x3210]));
    let twice = p.emit(sass::Op::PRMT, &[], &WORD, &[a, selector, a]);
    vec![p.emit(sass::Op::HADD2, &[], &WORD, &[twice.into(), b])]
}

fn shifted_mask(p: &mut Program, [a, _, _]: [Arg; 3]) -> Vec<Value> {
    let masked = match p.random.below(2) {
        0 => {
            let mask = p.random.one(&[0xffff, 0xff, -0x1_0000, 0xfff0]);
            lop3(p, a, Arg::Imm(mask), 0xc0)
        }
        _ => {
            let selector = p.random.one(&[0x7710, 0x7732, 0x7770, 0x7772, 0x9910, 0xbb32, 0x7213]);
            p.emit(sass::Op::PRMT, &[], &WORD, &[a, Arg::Imm(selector), RZ])
        }
    };
    let (left, by) = (p.random.below(2) == 0, p.random.one(&[8, 16, 16, 24, 5]));
    let Arg::Use(u) = shifted(p, left, masked.into(), by) else { return vec![] };
    vec![u.value]
}

fn bounded_float(p: &mut Program, [a, b, d]: [Arg; 3]) -> Vec<Value> {
    let function = p.random.one(&[M::SIN, M::COS, M::TANH]);
    let value = p.emit(sass::Op::MUFU, &[function], &WORD, &[a]);
    let limit = Arg::Imm(p.random.one(&[-1.0f32, -0.99, -126.0, 0.5]).to_bits() as i32 as i64);
    let test = p.emit(sass::Op::FSETP, &[M::GEU, M::AND], &PREDICATE, &[PT, value.into(), limit, PT]);
    vec![value, p.emit(sass::Op::SEL, &[], &WORD, &[b, d, test.into()])]
}

/// How often of 200 programs each idiom is at least found on sm_90.
const IDIOMS: [(&str, Idiom, usize); 23] = [
    ("integer select", integer_select, 150),
    ("float select", float_select, 20),
    ("predicate in a word", predicate_in_word, 80),
    ("sum and limit", sum_and_limit, 150),
    ("three", three, 100),
    ("wrapped", wrapped, 190),
    ("funnel", funnel, 130),
    ("shifted sum", shifted_sum, 190),
    ("bytes", bytes, 100),
    ("sign-extended sum", sign_extended_sum, 190),
    ("doubles", doubles, 80),
    ("packed halves", packed_halves, 120),
    ("signed floats", signed_floats, 120),
    ("middle word", middle_word, 190),
    ("second carry", second_carry, 190),
    ("low word", low_word, 50),
    ("sum with product", sum_with_product, 180),
    ("multiples", multiples, 130),
    ("packed operations", packed_operations, 100),
    ("broadcast half", broadcast_half, 100),
    ("shifted mask", shifted_mask, 60),
    ("bounded float", bounded_float, 60),
    ("none", |p, [a, b, _]| vec![p.emit(sass::Op::FADD, &[], &WORD, &[a, b])], 0),
];

fn idiom(seed: u64, make: Idiom) -> Function {
    let mut program = Program::new(seed);
    let args = [(); 3].map(|()| program.random.one(&program.words).into());
    let values = make(&mut program, args);
    for value in values {
        let address = program.pairs[0].into();
        program.push(Op::Machine(sass::Op::STG), &[M::E], &[], &[address, Arg::Imm(8), value.into()], None);
    }
    program.function
}

#[test]
fn idioms_are_found_and_keep_their_meaning() {
    for target in ["sm_75", "sm_90", "sm_100", "sm_120"] {
        let machine = crate::context::target::TargetMachine::of(ptx::Target::find(target).expect("a target"))
            .expect("a machine");
        for (name, make, least) in IDIOMS {
            let mut found = 0;
            for seed in 1..200 {
                let mut context = Context::new(
                    machine,
                    crate::module::launch_bounds::MOST,
                    Tuning::default(),
                    Fuel::new(None),
                );
                let mut before = idiom(seed, make);
                ori::verify::verify(&before).unwrap_or_else(|e| panic!("{name}: {e}\n{before}"));
                crate::opt::dce::run(&mut before, &mut context).expect("a program");
                let mut after = before.clone();
                run_clean(&mut after, &mut context).expect("a program");
                run_clean(&mut after, &mut context).expect("a program");
                let inputs = (1..12).chain(EDGES_FROM..EDGES_FROM + 60);
                for input in inputs {
                    let (was, is) = (Interpreter::run(&before, input), Interpreter::run(&after, input));
                    assert!(was == is, "{target}, {name}: {was:x?} {is:x?}\n{before}\n{after}");
                }
                let count = |f: &Function| f.blocks[Function::ENTRY].insts.len();
                found += usize::from(count(&after) < count(&before));
            }
            assert!(target != "sm_90" || found >= least, "{name}: found {found} times");
        }
    }
}
