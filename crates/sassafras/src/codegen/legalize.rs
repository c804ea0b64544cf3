//! Legalization: gives every machine operation a form that the target has for the kinds of its operands.
//!
//! `sass::legal` decides which forms are legal. A constant without a form in its operand position is materialized in a
//! register. The pass materializes as few constants as possible, each once per block or once after a call; `remat` adds
//! more copies where registers are short. On targets whose arithmetic has no constant bank operands, such operands are
//! loaded.
//!
//! ```text
//! v2 = IADD3 4, 5, v1             v3 = MOV 4
//!                          ==>    v2 = IADD3 v3, 5, v1
//! ```
//!
//! Postcondition: `sass::legal` holds for every instruction. Cost: linear in the code; at most 2^8 sets of constants
//! are tried per instruction.

use crate::context::target::TargetMachine;
use crate::context::{Context, PassError, PassResult};
use ori::{Arg, Change, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::FxHashMap;
use sass::{SelectError, operands as machine};
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    legalize(function, context.machine)?;
    Ok(Change::Instructions)
}

fn legalize(function: &mut Function, target: &TargetMachine) -> PassResult {
    for block in function.blocks.keys() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut legal = Vec::with_capacity(insts.len());
        // Constants in registers, words and doubles. What lives across a call has to be saved for it.
        let mut shared: FxHashMap<(Arg, bool), Value> = FxHashMap::default();
        for inst in insts {
            if matches!(function.insts[inst].op, Op::Pseudo(Pseudo::Call | Pseudo::CallRoutine)) {
                shared.clear();
            }
            let is_constant = |arg: &Arg| matches!(arg, Arg::Imm(_) | Arg::Const { .. });
            if !function.insts[inst].args.iter().any(is_constant)
                && is_legal(function, target, &function.insts[inst])
            {
                legal.push(inst);
                continue;
            }
            let mut data = function.insts[inst].clone();
            constant_second(&mut data);
            if !target.constant_operands {
                load_constants(function, target, &mut data, &mut legal);
            }
            for at in constants_to_move(function, target, &data)? {
                let wide = is_double(&data);
                let constant = data.args[at];
                let value = *shared
                    .entry((constant, wide))
                    .or_insert_with(|| materialize(function, constant, wide, data.at, &mut legal));
                data.args[at] = value.into();
            }
            function.insts[inst] = data;
            legal.push(inst);
        }
        function.blocks[block].insts = legal;
    }
    Ok(())
}

/// A select takes a constant as the second operand only.
pub fn constant_second(data: &mut InstData) {
    use sass::Op::{FSEL, SEL, USEL};
    let is_constant = |arg: &Arg| matches!(arg, Arg::Imm(_) | Arg::Const { .. });
    if let (Op::Machine(SEL | FSEL | USEL), [first, second, Arg::Use(condition)]) =
        (data.op, &mut data.args[..])
        && is_constant(first)
        && !is_constant(second)
    {
        std::mem::swap(first, second);
        condition.negated = !condition.negated;
    }
}

/// Loads operands in constant banks to registers.
fn load_constants(function: &mut Function, target: &TargetMachine, data: &mut InstData, out: &mut Vec<Inst>) {
    use sass::Op::{LDC, MOV};
    let Op::Machine(op) = data.op else { return };
    if loads_constants(data.op) {
        return;
    }
    if let (MOV, [Arg::Const { bank, offset }]) = (op, &data.args[..]) {
        let from = Arg::Bank { bank: *bank, index: None, offset: *offset as i32 };
        (data.op, data.args) = (Op::Machine(LDC), smallvec![from]);
        return;
    }
    let uniform = data.results.iter().any(|v| matches!(function.values[*v].file, File::UR | File::UP));
    let (load, file) = match uniform {
        false => (LDC, File::R),
        true => (target.uniform_constant_load(), File::UR),
    };
    // The constants of doubles are two words.
    let (words, modifiers) = if is_double(data) { (2, smallvec![sass::M::_64]) } else { (1, smallvec![]) };
    for arg in &mut data.args {
        let Arg::Const { bank, offset } = *arg else { continue };
        if words == 1 && function.uniform_constant(bank, offset).is_some() {
            continue;
        }
        let from = match load {
            LDC => Arg::Bank { bank, index: None, offset: offset as i32 },
            _ => Arg::Const { bank, offset },
        };
        let value = function.value(file, words);
        let op = Op::Machine(load);
        let new = InstData {
            results: smallvec![value],
            args: smallvec![from],
            guard: None,
            op,
            modifiers: modifiers.clone(),
            at: data.at,
        };
        out.push(function.insts.push(new));
        *arg = value.into();
    }
}

/// Does it work on doubles? Their constants are upper halves.
fn is_double(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Machine(DADD | DMUL | DFMA | DSETP))
}

/// Materializes a constant: one word, or the two of a double.
fn materialize(function: &mut Function, constant: Arg, wide: bool, at: u32, out: &mut Vec<Inst>) -> Value {
    let mut add = |op: Op, words: u8, args: &[Arg]| {
        let value = function.value(File::R, words);
        let (results, args) = (smallvec![value], args.into());
        let data = InstData { op, modifiers: smallvec![], results, args, guard: None, at };
        out.push(function.insts.push(data));
        value
    };
    let mov = Op::Machine(sass::Op::MOV);
    match constant {
        _ if !wide => add(mov, 1, &[constant]),
        Arg::Const { bank, offset } => {
            let low = add(mov, 1, &[constant]);
            let high = add(mov, 1, &[Arg::Const { bank, offset: offset + 4 }]);
            add(Op::Pseudo(Pseudo::Pack), 2, &[low.into(), high.into()])
        }
        _ => {
            let (low, high) = (add(mov, 1, &[Arg::Imm(0)]), add(mov, 1, &[constant]));
            add(Op::Pseudo(Pseudo::Pack), 2, &[low.into(), high.into()])
        }
    }
}

/// The constants that must be in registers for the operation to have a form: a smallest set, of the last operands if
/// there is a choice.
fn constants_to_move(
    function: &mut Function,
    target: &TargetMachine,
    data: &InstData,
) -> Result<Vec<usize>, PassError> {
    if is_legal(function, target, data) {
        return Ok(Vec::new());
    }
    let is_constant = |at: &usize| matches!(data.args[*at], Arg::Imm(_) | Arg::Const { .. });
    let constants: Vec<usize> = (0..data.args.len()).rev().filter(is_constant).take(8).collect();
    let mut sets: Vec<u32> = (1..1 << constants.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    let register = function.value(File::R, 1);
    for set in sets {
        let moved: Vec<usize> =
            (0..constants.len()).filter(|i| set >> i & 1 == 1).map(|i| constants[i]).collect();
        let mut tried = data.clone();
        moved.iter().for_each(|at| tried.args[*at] = register.into());
        if is_legal(function, target, &tried) {
            return Ok(moved);
        }
    }
    match data.op {
        Op::Machine(op) => Err(SelectError::Operands(op).into()),
        Op::Generic(op) => Err(format!("{} was not expanded", op.name()).into()),
        Op::Pseudo(op) => Err(format!("{op:?} is illegal").into()),
    }
}

/// Does the target have a form of an operation for operands of these kinds?
///
/// Where arithmetic has no operands in constant banks, one of bank 0 stands for a uniform register.
pub fn is_legal(function: &Function, target: &TargetMachine, data: &InstData) -> bool {
    let Op::Machine(op) = data.op else { return true };
    // Any even register will do: only the kinds matter, and that the words of a value lie side by side.
    let mut operands: SmallVec<[sass::Operand; 8]> =
        operands(function, data, &mut |_, word| 2 + word).collect();
    if !target.constant_operands && !loads_constants(data.op) {
        for (operand, arg) in operands[data.results.len()..].iter_mut().zip(&data.args) {
            match arg {
                Arg::Const { bank: 0, .. } if target.uniform_registers && !is_double(data) => {
                    *operand = machine::ur(2);
                }
                Arg::Const { .. } => return false,
                _ => {}
            }
        }
    }
    sass::legal(target.isa, op, &data.modifiers, &operands)
}

fn loads_constants(op: Op) -> bool {
    matches!(op, Op::Machine(sass::Op::LDC | sass::Op::ULDC | sass::Op::LDCU))
}

/// Can the words of constant bank 0 that it has as operands be in uniform registers? Moves load them as well.
pub fn takes_uniform_constants(function: &Function, target: &TargetMachine, data: &InstData) -> bool {
    let is_move = data.op == Op::Machine(sass::Op::MOV);
    matches!(data.op, Op::Machine(_))
        && !is_move
        && !loads_constants(data.op)
        && is_legal(function, target, data)
}

/// The machine's operands for an instruction: results, then arguments. `register` gives the register of a
/// value's word.
pub fn operands<'a>(
    function: &'a Function,
    data: &'a InstData,
    register: &'a mut dyn FnMut(Value, u8) -> u8,
) -> impl Iterator<Item = sass::Operand> + 'a {
    let register = std::cell::RefCell::new(register);
    let operand_of = move |value: Value, word: Option<u8>| {
        let number = register.borrow_mut()(value, word.unwrap_or(0));
        register_of(function.values[value].file, number)
    };
    let count = data.results.len();
    (0..count + data.args.len()).map(move |i| {
        if i < count {
            return operand_of(data.results[i], None);
        }
        match &data.args[i - count] {
            Arg::Use(u) => {
                let mut operand = operand_of(u.value, u.part.map(|p| p.first));
                let predicate = matches!(function.values[u.value].file, File::P | File::UP);
                if u.absolute {
                    operand = operand.abs();
                }
                operand = match (u.negated, predicate) {
                    (true, true) => operand.not(),
                    (true, false) => operand.neg(),
                    _ => operand,
                };
                if u.inverted {
                    operand = operand.inv();
                }
                operand.suffixed(u.suffixes)
            }
            Arg::Imm(n) => machine::imm(*n),
            Arg::Const { bank, offset } => match function.uniform_constant(*bank, *offset) {
                Some(register) if !loads_constants(data.op) => machine::ur(register),
                _ => machine::c(*bank, i64::from(*offset)),
            },
            Arg::Bank { bank, index: None, offset } => machine::c_r(*bank, sass::RZ, i64::from(*offset)),
            Arg::Bank { bank, index: Some(index), offset } => {
                let at = operand_of(*index, None);
                match at.kind {
                    sass::Kind::U => machine::c_ur(*bank, at.value as u8, i64::from(*offset)),
                    _ => machine::c_r(*bank, at.value as u8, i64::from(*offset)),
                }
            }
            Arg::Address { .. } => machine::imm(0),
            Arg::Slot { .. } => match data.op {
                Op::Machine(sass::Op::LDC) => machine::c_r(0, sass::RZ, 0),
                Op::Machine(sass::Op::ULDC | sass::Op::LDCU) => machine::c(0, 0),
                _ => machine::imm(0),
            },
            Arg::Fixed { file, number } => register_of(*file, *number),
            Arg::Stack => machine::r(function.frame_register()),
            Arg::StackTop => machine::r(Function::STACK_POINTER),
            Arg::Incoming(offset) => machine::imm(i64::from(*offset as i32)),
            Arg::Name(m) => machine::name(*m),
            Arg::Zero(File::UR) => machine::urz(),
            Arg::Zero(_) => machine::rz(),
            Arg::MinusZero => machine::rz().neg(),
            Arg::True(true) => machine::pt(),
            Arg::True(false) => machine::pf(),
            Arg::Target(_) => machine::relative(0),
        }
    })
}

fn register_of(file: File, number: u8) -> sass::Operand {
    match file {
        File::R => machine::r(number),
        File::UR => machine::ur(number),
        File::P => machine::p(number),
        File::UP => machine::up(number),
        File::B => machine::b(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opt::combine::tests::{Interpreter, Random};
    use sass::M;
    use sass::Op::*;

    /// Operations with constants for any of their operands: `w` a word, `d` a double, `p` a predicate, `t` PT, `f` !PT,
    /// `z` zero, `l` a truth table, `n` a number of bits.
    const OPERATIONS: [(sass::Op, &[M], &str); 19] = [
        (IADD3, &[], "wwz"),
        (IADD3, &[], "www"),
        (IMAD, &[], "www"),
        (IMAD, &[M::U32], "wwz"),
        (LOP3, &[M::LUT], "wwwlf"),
        (SHF, &[M::L, M::U32], "wnz"),
        (SHF, &[M::R, M::U64], "wnw"),
        (PRMT, &[], "www"),
        (SEL, &[], "wwp"),
        (FSEL, &[], "wwp"),
        (FADD, &[], "ww"),
        (FMUL, &[], "ww"),
        (FFMA, &[], "www"),
        (ISETP, &[M::LT, M::AND], "twwp"),
        (FSETP, &[M::GEU, M::AND], "twwp"),
        (DADD, &[], "dd"),
        (DMUL, &[], "dd"),
        (DFMA, &[], "ddd"),
        (DSETP, &[M::LT, M::AND], "tddp"),
    ];

    /// A function that stores the result of one operation, whose arguments are in registers, numbers, or words of a bank.
    fn program(random: &mut Random, (op, modifiers, kinds): (sass::Op, &[M], &str)) -> Function {
        let mut f = Function::new("t");
        let block = f.block();
        let load = |f: &mut Function, words: u8, offset: i32| {
            let value = f.value(File::R, words);
            let from = Arg::Bank { bank: 0, index: None, offset };
            let mut data = InstData::new(Op::Machine(LDC), &[value], &[from]);
            data.modifiers = if words == 2 { smallvec![M::_64] } else { smallvec![] };
            f.append(block, data);
            value
        };
        let address = load(&mut f, 2, 0x210);
        let tested = load(&mut f, 1, 0x218);
        let predicate = f.value(File::P, 1);
        let test = [Arg::True(true), tested.into(), Arg::Imm(1), Arg::True(true)];
        let mut data = InstData::new(Op::Machine(ISETP), &[predicate], &test);
        data.modifiers = smallvec![M::LT, M::AND];
        f.append(block, data);
        let mut args = Vec::new();
        for (at, kind) in kinds.chars().enumerate() {
            let offset = 0x220 + 8 * at as i32;
            args.push(match (kind, random.below(3)) {
                ('w', 0) => load(&mut f, 1, offset).into(),
                ('d', 0) => load(&mut f, 2, offset).into(),
                ('w' | 'd', 1) => Arg::Const { bank: 0, offset: offset as u32 },
                ('w' | 'd', _) => Arg::Imm(random.one(&[0, 1, 0x7fff, -1, 0x3ff8_0000, -0x3ff0_0000])),
                ('p', 0) => Arg::not(predicate),
                ('p', _) => predicate.into(),
                ('n', _) => Arg::Imm(random.below(32) as i64),
                ('l', _) => Arg::Imm(random.below(256) as i64),
                ('z', _) => Arg::Zero(File::R),
                (sense, _) => Arg::True(sense == 't'),
            });
        }
        let (file, words) = match op {
            ISETP | FSETP | DSETP => (File::P, 1),
            DADD | DMUL | DFMA => (File::R, 2),
            _ => (File::R, 1),
        };
        let mut result = f.value(file, words);
        let mut data = InstData::new(Op::Machine(op), &[result], &args);
        data.modifiers = modifiers.into();
        f.append(block, data);
        if file == File::P {
            let word = f.value(File::R, 1);
            let args = [Arg::Imm(1), Arg::Zero(File::R), result.into()];
            f.append(block, InstData::new(Op::Machine(SEL), &[word], &args));
            result = word;
        }
        for word in 0..words {
            let args = [address.into(), Arg::Imm(4 * i64::from(word)), Arg::word(result, word)];
            let mut data = InstData::new(Op::Machine(STG), &[], &args);
            data.modifiers = smallvec![M::E];
            f.append(block, data);
        }
        f
    }

    #[test]
    fn operations_become_legal_and_keep_their_meaning() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut moved = 0;
        for target in targets::Target::ALL.iter().map(|t| t.name) {
            let machine = TargetMachine::of(ptx::Target::find(target).expect("a target")).expect("a machine");
            for operation in OPERATIONS {
                for seed in 0..60 {
                    let before = program(&mut random, operation);
                    let mut after = before.clone();
                    // Lowering gives stores the descriptor of global memory: here they are set aside.
                    let all = &mut after.blocks[Function::ENTRY].insts;
                    let is_store = |i: &Inst| before.insts[*i].op == Op::Machine(STG);
                    let stores: Vec<Inst> = all.extract_if(.., |i| is_store(i)).collect();
                    legalize(&mut after, machine).unwrap_or_else(|e| panic!("{target}: {e}\n{before}"));
                    for inst in &after.blocks[Function::ENTRY].insts {
                        let data = &after.insts[*inst];
                        assert!(is_legal(&after, machine, data), "{target}: {data:?}");
                    }
                    after.blocks[Function::ENTRY].insts.extend(stores);
                    ori::verify::verify(&after).unwrap_or_else(|e| panic!("{target}: {e}\n{after}"));
                    let insts = &after.blocks[Function::ENTRY].insts;
                    let (was, is) = (Interpreter::run(&before, seed), Interpreter::run(&after, seed));
                    assert_eq!(was, is, "{target}\n{before}\n{after}");
                    moved += insts.len() - before.blocks[Function::ENTRY].insts.len();
                }
            }
        }
        assert!(moved > 5000, "{moved}");
    }

    /// A form takes one constant: of several, all but one move.
    #[test]
    fn a_minimal_set_of_constants_moves() {
        let machine = TargetMachine::of(ptx::Target::find("sm_90").expect("a target")).expect("a machine");
        let count = |args: &[Arg]| {
            let mut f = Function::new("t");
            let block = f.block();
            let result = f.value(File::R, 1);
            f.append(block, InstData::new(Op::Machine(IADD3), &[result], args));
            legalize(&mut f, machine).expect("a form");
            f.blocks[block].insts.len() - 1
        };
        let (zero, [five, six, seven]) = (Arg::Zero(File::R), [5, 6, 7].map(Arg::Imm));
        assert_eq!(count(&[zero, five, zero]), 0);
        assert_eq!(count(&[five, zero, zero]), 1);
        assert_eq!(count(&[zero, five, six]), 1);
        assert_eq!(count(&[five, six, seven]), 2);
        // One register holds equal ones.
        assert_eq!(count(&[five, five, five]), 1);
    }
}
