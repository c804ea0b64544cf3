//! Tests that contracted products and sums compute the same as the fused operation, and that only marked ones are
//! contracted.

use super::*;

struct Family {
    ops: [sass::Op; 3],
    modifiers: &'static [M],
    words: u8,
    /// Halves that operands can name.
    suffixes: &'static [M],
}

const FAMILIES: [Family; 4] = {
    use sass::Op::*;
    const HALVES: &[M] = &[M::Empty, M::H0_H0, M::H1_H1];
    [
        Family { ops: [FMUL, FADD, FFMA], modifiers: &[], words: 1, suffixes: &[M::Empty] },
        Family { ops: [DMUL, DADD, DFMA], modifiers: &[], words: 2, suffixes: &[M::Empty] },
        Family { ops: [HMUL2, HADD2, HFMA2], modifiers: &[], words: 1, suffixes: HALVES },
        Family { ops: [HMUL2, HADD2, HFMA2], modifiers: &[M::BF16_V2], words: 1, suffixes: HALVES },
    ]
};

/// A word whose halves are those that a suffix names.
fn moved(p: &mut Program, x: Arg, suffix: M) -> Arg {
    let selector = match suffix {
        M::H0_H0 => 0x1010,
        M::H1_H1 => 0x3232,
        _ => return x,
    };
    p.emit(sass::Op::PRMT, &[], &[(File::R, 1)], &[x, Arg::Imm(selector), RZ]).into()
}

fn store(p: &mut Program, value: Value, words: u8) {
    for word in 0..words {
        let part = if words == 1 { value.into() } else { Arg::word(value, word) };
        let args = [p.pairs[0].into(), Arg::Imm(8), part];
        p.push(Op::Machine(sass::Op::STG), &[M::E], &[], &args, None);
    }
}

/// The product and the sum, and the fused operation.
fn both(family: &Family, seed: u64) -> [Function; 2] {
    let mut p = Program::new(seed);
    let values = if family.words == 1 { p.words.clone() } else { p.pairs.clone() };
    let [a, b, d] = [0, 1, 2].map(|i| Arg::from(values[i]));
    let [of_a, of_b, of_d, of_product] = [(); 4].map(|()| p.random.one(family.suffixes));
    let (negated, first) = (p.random.below(2) == 0, p.random.below(2) == 0);
    let result = [(File::R, family.words)];
    let mut q = Program::new(seed);
    let product = p.emit(family.ops[0], family.modifiers, &result, &[a.suffixed(of_a), b.suffixed(of_b)]);
    let used = Arg::from(product).suffixed(of_product);
    let used = if negated { used.negated() } else { used };
    let args = if first { [used, d.suffixed(of_d)] } else { [d.suffixed(of_d), used] };
    let sum = p.emit(family.ops[1], family.modifiers, &result, &args);
    p.function.contractable.extend([product, sum]);
    store(&mut p, sum, family.words);
    let mut factors = [(a, of_a), (b, of_b)].map(|(x, of)| {
        let x = moved(&mut q, x, of);
        moved(&mut q, x, of_product)
    });
    if negated {
        factors[0] = factors[0].negated();
    }
    let fused = q.emit(family.ops[2], family.modifiers, &result, &[factors[0], factors[1], d.suffixed(of_d)]);
    store(&mut q, fused, family.words);
    [p.function, q.function]
}

fn combined(function: &Function) -> Function {
    let machine = crate::context::target::TargetMachine::of(ptx::Target::find("sm_90").expect("a target"))
        .expect("a machine");
    let registers = crate::module::launch_bounds::MOST;
    let mut context = Context::new(machine, registers, Tuning::default(), Fuel::new(None));
    let mut after = function.clone();
    run_clean(&mut after, &mut context).expect("a program");
    after
}

fn has(function: &Function, op: sass::Op) -> bool {
    let insts = &function.blocks[Function::ENTRY].insts;
    insts.iter().any(|i| function.insts[*i].op == Op::Machine(op))
}

#[test]
fn contracted_operations_round_once() {
    for family in &FAMILIES {
        for seed in 1..150 {
            let [before, fused] = both(family, seed);
            let after = combined(&before);
            assert!(!has(&after, family.ops[0]) && has(&after, family.ops[2]), "{before}\n{after}");
            for input in (1..12).chain(EDGES_FROM..EDGES_FROM + 40) {
                let (is, wanted) = (Interpreter::run(&after, input), Interpreter::run(&fused, input));
                assert!(is == wanted, "{is:x?} {wanted:x?}\n{before}\n{after}");
            }
            // One of the two marks is not enough.
            for kept in before.contractable.iter().copied() {
                let mut other = before.clone();
                other.contractable.retain(|v| *v == kept);
                assert!(has(&combined(&other), family.ops[0]), "{other}");
            }
        }
    }
}
