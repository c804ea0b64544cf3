//! Tests that moving a sign modifier preserves its meaning: every operation of the table, on every operand, after every
//! operation that changes a sign, computes the same before and after.

use super::*;
use sass::{FORMS, Form, Kind, Mod, Role, Slot};

/// The operation that changes the sign of the operand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// `FADD ±x, -0`, with `.FTZ` or without.
    Float { flush: bool },
    /// `DADD -0, ±x`
    Double,
    /// `HADD2 ±x, -0`, of all, the lower or the upper half.
    Half { flush: bool, of: M },
    /// `HFMA2.BF16_V2 -0, 0, ±x`
    Bfloat { of: M },
    /// `IADD3 -x, 0, 0`
    Integer,
    /// `x ^ mask` or `x & ~mask` for the signs of a float, of halves, or all bits.
    Bits { mask: u32 },
}

const CHANGES: [Change; 13] = [
    Change::Float { flush: false },
    Change::Float { flush: true },
    Change::Double,
    Change::Half { flush: false, of: M::Empty },
    Change::Half { flush: true, of: M::Empty },
    Change::Half { flush: false, of: M::H0_H0 },
    Change::Half { flush: false, of: M::H1_H1 },
    Change::Bfloat { of: M::Empty },
    Change::Bfloat { of: M::H0_H0 },
    Change::Integer,
    Change::Bits { mask: 0x8000_0000 },
    Change::Bits { mask: 0x8000_8000 },
    Change::Bits { mask: u32::MAX },
];

impl Change {
    fn words(self) -> u8 {
        if self == Change::Double { 2 } else { 1 }
    }

    /// Makes the value; the first of `signs` is for `-x`, the second for `|x|`.
    fn emit(self, program: &mut Program, x: Value, [negated, absolute]: [bool; 2]) -> Value {
        let of = |part: M| Arg::Use(Use { negated, absolute, ..Use::of(x) }).suffixed(part);
        let word = [(File::R, 1)];
        let flushed: fn(bool) -> &'static [M] = |flush| if flush { &[M::FTZ] } else { &[] };
        match self {
            Change::Float { flush } => {
                program.emit(sass::Op::FADD, flushed(flush), &word, &[of(M::Empty), Arg::MinusZero])
            }
            Change::Double => {
                program.emit(sass::Op::DADD, &[], &[(File::R, 2)], &[Arg::MinusZero, of(M::Empty)])
            }
            Change::Half { flush, of: part } => {
                program.emit(sass::Op::HADD2, flushed(flush), &word, &[of(part), Arg::MinusZero])
            }
            Change::Bfloat { of: part } => {
                let args = [Arg::MinusZero, RZ, of(part)];
                program.emit(sass::Op::HFMA2, &[M::BF16_V2], &word, &args)
            }
            Change::Integer => {
                let x = Arg::Use(Use { negated, ..Use::of(x) });
                program.emit(sass::Op::IADD3, &[], &word, &[x, RZ, RZ])
            }
            Change::Bits { mask } => {
                let (mask, lut) = if absolute { (!mask, 0xc0) } else { (mask, 0x3c) };
                let args = [x.into(), Arg::Imm(i64::from(mask as i32)), RZ, Arg::Imm(lut), Arg::True(false)];
                program.emit(sass::Op::LOP3, &[M::LUT], &word, &args)
            }
        }
    }
}

/// The words of a register operand.
fn words(form: &Form, slot: &Slot, modifiers: &[M]) -> Option<u8> {
    let by = slot.words.by.iter().all(|m| {
        let Mod::Field { values, .. } = &form.mods[*m] else { return false };
        values.iter().all(|v| v.1 <= 1 || !modifiers.contains(&v.0))
    });
    (by && slot.words.count <= 2).then_some(slot.words.count.max(1) as u8)
}

/// A suffix of an operand that the form has.
fn suffix(form: &Form, index: usize, random: &mut Random) -> M {
    let values = form.mods.iter().find_map(|m| match m {
        Mod::Field { values, slot: Some(of), .. } if *of == index => Some(values),
        _ => None,
    });
    values.map_or(M::Empty, |values| random.one(values).0)
}

/// Operations whose second predicate result is left out, with `PT` for it.
fn has_second_predicate(op: sass::Op) -> bool {
    use sass::Op::*;
    matches!(op, DSETP | FSETP | HSETP2 | ISETP | PLOP3)
}

/// An operation in registers alone, on random operands of which one has another sign.
struct Case {
    before: Function,
    text: String,
}

/// Its operands, with `changed` as source `at`.
fn operands(
    program: &mut Program,
    form: &Form,
    modifiers: &[M],
    at: usize,
    change: Change,
    signs: [bool; 2],
) -> Option<Vec<Arg>> {
    let mut args = Vec::new();
    let mut source = 0;
    for (index, slot) in form.slots.iter().enumerate().filter(|(_, s)| s.role == Role::Use) {
        let arg = match slot.kind {
            Kind::R => {
                let words = words(form, slot, modifiers)?;
                if source == at && words != change.words() {
                    return None;
                }
                let load = Op::Machine(sass::Op::LDG);
                let wide: &[M] = if words == 2 { &[M::E, M::_64] } else { &[M::E] };
                let from = [program.pairs[0].into(), Arg::Imm(16 * source as i64)];
                let value = program.push(load, wide, &[(File::R, words)], &from, None);
                let value = if source == at { change.emit(program, value, signs) } else { value };
                source += 1;
                let mut u = Use::of(value);
                // Signs that were there before.
                u.negated = slot.neg.is_some() && !slot.inverts && program.random.below(4) == 0;
                u.absolute = slot.abs.is_some() && program.random.below(4) == 0;
                Arg::Use(u).suffixed(suffix(form, index, &mut program.random))
            }
            Kind::P => match program.random.below(3) {
                0 => Arg::True(program.random.below(2) == 0),
                _ => program.predicate(),
            },
            // Amounts of shifts, tables of logic.
            Kind::Unsigned | Kind::Decimal if slot.at.width() < 16 => {
                source += 1;
                Arg::Imm(program.random.below(1 << slot.at.width().min(5)) as i64)
            }
            _ => return None,
        };
        args.push(arg);
    }
    (at < source).then_some(args)
}

/// The function, if the form has operands and results of registers and a meaning.
fn case(
    form: &Form,
    seed: u64,
    at: usize,
    change: Change,
    signs: [bool; 2],
    machine: &'static TargetMachine,
) -> Option<Case> {
    let mut program = Program::new(seed);
    let modifiers = form.choose_modifiers(|values| program.random.one(values).0)?;
    let mut args = operands(&mut program, form, &modifiers, at, change, signs)?;
    // Some have a meaning only where a predicate is true.
    let understood = |bits: u64| -> Vec<eval::Arg> {
        let arg = |a: &Arg| match a {
            Arg::Use(u) => {
                eval::Arg { bits, negated: u.negated, absolute: u.absolute, part: u.suffixes.first() }
            }
            Arg::True(sense) => eval::Arg::predicate(*sense),
            _ => eval::Arg::word(1),
        };
        args.iter().map(arg).collect()
    };
    eval::eval(form.op, &modifiers, &understood(0))?;
    let meaning = eval::eval(form.op, &modifiers, &understood(1))?;
    let mut results = Vec::new();
    for slot in form.slots.iter().filter(|s| s.role == Role::Def) {
        match slot.kind {
            Kind::R => results.push((File::R, words(form, slot, &modifiers)?)),
            Kind::P if slot.hide == sass::Hide::Never && results.iter().all(|r| r.0 != File::P) => {
                results.push((File::P, 1));
            }
            Kind::P => {}
            _ => return None,
        }
    }
    let predicates = results.iter().filter(|r| r.0 == File::P).count();
    let register = results.iter().find(|r| r.0 == File::R).map_or(0, |r| r.1);
    if predicates > 0 && meaning.predicate(0).is_none() || register != meaning.words() {
        return None;
    }
    if has_second_predicate(form.op) {
        args.insert(0, Arg::True(true));
    }
    let first = program.emit(form.op, &modifiers, &results, &args);
    let last = program.function.blocks[Function::ENTRY].insts.last().copied()?;
    if !legalize::is_legal(&program.function, machine, &program.function.insts[last]) {
        return None;
    }
    let text = format!("{} {modifiers:?} operand {at} after {change:?} {signs:?}", form.op.name());
    for (i, (file, words)) in results.iter().enumerate() {
        program.store_result(Value(first.0 + i as u32), *file, *words);
    }
    Some(Case { before: program.function, text })
}

impl Program {
    fn store_result(&mut self, value: Value, file: File, words: u8) {
        let value = match file {
            File::P => self.emit(sass::Op::SEL, &[], &[(File::R, 1)], &[Arg::Imm(1), RZ, value.into()]),
            _ => value,
        };
        for word in 0..words {
            let args = [self.pairs[1].into(), Arg::Imm(4 * i64::from(word)), Arg::word(value, word)];
            self.push(Op::Machine(sass::Op::STG), &[M::E], &[], &args, None);
        }
    }
}

fn combined(before: &Function, machine: &'static TargetMachine, fuel: Option<u32>) -> Function {
    let mut after = before.clone();
    let fuel = Fuel::new(fuel);
    let registers = crate::module::launch_bounds::MOST;
    let mut context = Context::new(machine, registers, Default::default(), fuel);
    run_clean(&mut after, &mut context).expect("a function");
    after
}

#[test]
fn signs_keep_their_meaning_on_every_operation() {
    let targets = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100a", "sm_103a", "sm_120a"];
    let (mut cases, mut folded) = (0, 0);
    let mut wrong = Vec::new();
    for target in targets {
        let machine = TargetMachine::of(ptx::Target::find(target).expect("a target")).expect("a machine");
        for (number, form) in FORMS.iter().enumerate().filter(|(_, f)| f.isas.contains(machine.isa)) {
            for (iteration, change) in CHANGES.iter().cycle().take(3 * CHANGES.len()).enumerate() {
                for at in 0..3 {
                    let signs = [[true, false], [false, true], [true, true]][iteration / CHANGES.len()];
                    for spelling in 0..4 {
                        let seed = (number * 1000 + iteration * 10 + spelling) as u64 + 1;
                        let Some(case) = case(form, seed, at, *change, signs, machine) else { continue };
                        cases += 1;
                        let after = combined(&case.before, machine, None);
                        let count = |f: &Function| f.blocks[Function::ENTRY].insts.len();
                        folded +=
                            usize::from(count(&after) < count(&combined(&case.before, machine, Some(0))));
                        let differs = |input: u64| {
                            let input = EDGES_FROM + seed * 8 + input;
                            Interpreter::run(&case.before, input) != Interpreter::run(&after, input)
                        };
                        if (0..6).any(differs) {
                            wrong.push(format!("{target} {}", case.text));
                        }
                    }
                }
            }
        }
    }
    println!("{cases} cases, {folded} shorter, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 20_000 && folded > 2_000, "{cases} cases, {folded} shorter");
}
