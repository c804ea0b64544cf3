//! Checks `ori::eval` with code that ptxas made: executes one-instruction kernels of a cubin, thread by thread,
//! and compares memory with what the PTX interpreter leaves.
//!
//! `cargo run --release -p sim --example machine -- FILE.ptx FILE.cubin [SETS]`
//!
//! It knows loads, stores, branches and calls of straight sm_90 code, and takes everything else from
//! `ori::eval`; it is no simulator: there are no warps, barriers or times. Kernels that need more are counted.

use ori::eval::{Arg, eval};
use sass::{Inst, Isa, Kind, M, Op, Operand, Role};
use sim::ptx::{Launch, Machine, Program};
use std::collections::BTreeMap;
use std::error::Error;

mod inputs;
use inputs::{BYTES, THREADS, inputs};

/// Where the buffer lies.
const BUFFER: u64 = 0x5_0000_0000;
/// Where parameters begin in constant bank 0 of sm_90.
const PARAMETERS: usize = 0x210;
const STEP_LIMIT: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, cubin, rest @ ..] = &arguments[..] else {
        return Err("a PTX file and a cubin are needed".into());
    };
    let sets = rest.first().map_or(Ok(4), |n| n.parse::<u64>())?;
    let source = std::fs::read_to_string(file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let program = Program::new(&module, &source);
    let object = cubin::Object::read(&std::fs::read(cubin)?)?;
    let mut unknown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut same, mut different) = (0, 0);
    for kernel in program.kernels() {
        match check(&program, &object, kernel, sets) {
            Ok(differences) if differences.is_empty() => same += 1,
            Ok(differences) => {
                different += 1;
                println!("{kernel}: {} words differ", differences.len());
                differences.iter().take(3).for_each(|line| println!("    {line}"));
            }
            Err(what) => unknown.entry(what).or_default().push(kernel),
        }
    }
    for (what, kernels) in &unknown {
        println!("{} not compared: {what} ({})", kernels.len(), kernels[0]);
    }
    println!("{same} kernels the same, {different} different");
    Ok(())
}

fn check(program: &Program, object: &cubin::Object, kernel: &str, sets: u64) -> Result<Vec<String>, String> {
    let bytes = |name: String| match object.section(&name).map(|(_, section)| &section.body) {
        Some(cubin::Body::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    };
    let code: Vec<Inst> = bytes(format!(".text.{kernel}"))
        .chunks_exact(16)
        .map(|word| sass::decode(Isa::Sm90, word.try_into().map(u128::from_le_bytes).unwrap_or(0)))
        .collect();
    let banks: Vec<Vec<u8>> = (0..5).map(|bank| bytes(format!(".nv.constant{bank}.{kernel}"))).collect();
    let mut differences = Vec::new();
    for set in 0..sets {
        let mut machine = Machine::new(program);
        let buffer = machine.allocate(inputs(set));
        let mut parameters = buffer.to_le_bytes().to_vec();
        parameters.extend([THREADS as u8, 0, 0, 0]);
        let launch = Launch::new(kernel, [1; 3], [THREADS as u32, 1, 1], &parameters);
        machine.run(&launch).map_err(|fault| format!("interpreter: {}", fault.kind))?;
        let expected = machine.read(buffer, BYTES).unwrap_or_default();
        let mut memory = inputs(set);
        for thread in 0..THREADS {
            Thread::new(&banks, thread as u32).run(&code, &mut memory)?;
        }
        let words = memory.chunks_exact(8).zip(expected.chunks_exact(8)).enumerate();
        differences.extend(words.filter(|(_, (got, want))| got != want).map(|(i, (got, want))| {
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
            let (thread, offset) = (i / 32, i % 32 * 8);
            format!("set {set} thread {thread} +{offset}: {:016x}, machine {:016x}", word(want), word(got))
        }));
    }
    Ok(differences)
}

struct Thread {
    registers: [u32; 256],
    uniform: [u32; 256],
    predicates: [bool; 8],
    uniform_predicates: [bool; 8],
    banks: Vec<Vec<u8>>,
    shared: Vec<u8>,
    id: u32,
}

impl Thread {
    fn new(banks: &[Vec<u8>], id: u32) -> Thread {
        let mut banks = banks.to_vec();
        banks[0].resize(PARAMETERS + 16, 0);
        banks[0][PARAMETERS..PARAMETERS + 8].copy_from_slice(&BUFFER.to_le_bytes());
        Thread {
            registers: [0; 256],
            uniform: [0; 256],
            predicates: [true; 8],
            uniform_predicates: [true; 8],
            banks,
            shared: vec![0; 64 << 10],
            id,
        }
    }

    fn run(&mut self, code: &[Inst], memory: &mut [u8]) -> Result<(), String> {
        let mut pc = 0i64;
        for _ in 0..STEP_LIMIT {
            let inst = code.get(pc as usize / 16).ok_or("the end of the code")?;
            let guard = match inst.form().guard {
                Kind::V => self.uniform_predicates[usize::from(inst.guard.predicate)],
                _ => self.predicates[usize::from(inst.guard.predicate)],
            };
            pc += 16;
            if guard == inst.guard.not {
                continue;
            }
            match inst.op() {
                Op::EXIT => return Ok(()),
                Op::BRA | Op::CALL | Op::RET => {
                    let taken = self.sources(inst).first().is_none_or(|(operand, arg)| {
                        operand.kind != Kind::P || (arg.bits != 0) != arg.negated
                    });
                    if !taken {
                        continue;
                    }
                    let base = inst.operands().find(|(_, o)| o.kind == Kind::Relative).ok_or("no target")?.1;
                    pc += base.value;
                    if inst.op() == Op::RET {
                        let register =
                            inst.operands().find(|(_, o)| o.kind == Kind::R).ok_or("no register")?.1;
                        pc += i64::from(self.registers[register.value as usize & 255]);
                    }
                }
                _ => self.step(inst, memory)?,
            }
        }
        Err("no end".into())
    }

    fn step(&mut self, inst: &Inst, memory: &mut [u8]) -> Result<(), String> {
        match inst.op() {
            Op::NOP | Op::BSSY | Op::BSYNC | Op::BREAK | Op::WARPSYNC => Ok(()),
            Op::MEMBAR | Op::ERRBAR | Op::CGAERRBAR | Op::CCTL => Ok(()),
            Op::S2R | Op::S2UR => match inst.name(1) {
                M::SR_TID_X => {
                    self.set(inst, self.id.into(), 1);
                    Ok(())
                }
                M::SR_CgaCtaId => {
                    self.set(inst, 0, 1);
                    Ok(())
                }
                other => Err(format!("special register {other:?}")),
            },
            Op::CS2R => {
                self.set(inst, 0, inst.words(0) as u8);
                Ok(())
            }
            Op::R2UR | Op::LDC | Op::ULDC => {
                let bits = self.sources(inst).first().map_or(0, |(_, arg)| arg.bits);
                let words = inst.words(0) as u8;
                let sized = [(M::U8, 0xff), (M::U16, 0xffff)]
                    .iter()
                    .find(|(m, _)| inst.has(*m))
                    .map(|(_, mask)| mask);
                self.set(inst, bits & sized.copied().unwrap_or(u64::MAX), words);
                Ok(())
            }
            Op::LDG | Op::STG | Op::LDS | Op::STS => self.access(inst, memory),
            op => {
                let args: Vec<Arg> = self.sources(inst).into_iter().map(|(_, arg)| arg).collect();
                if op == Op::FCHK {
                    // Always the long way.
                    self.set_predicate(inst, &[Some(true)]);
                    return Ok(());
                }
                if op == Op::RAW {
                    return Err("an unknown word".into());
                }
                let modifiers: Vec<M> = inst.modifiers().collect();
                let results = eval(op, &modifiers, &args).ok_or_else(|| format!("{op:?} {modifiers:?}"))?;
                self.set(inst, results.bits(), results.words());
                self.set_predicate(inst, &[results.predicate(0), results.predicate(1)]);
                Ok(())
            }
        }
    }

    /// Source operands with their values.
    fn sources<'i>(&self, inst: &'i Inst) -> Vec<(&'i Operand, Arg)> {
        let text = inst.to_string();
        let mut tokens = text.split(',').peekable();
        let mut upper_half = None;
        let mut out = Vec::new();
        for (index, (slot, operand)) in inst.operands().enumerate() {
            let number = operand.value as usize & 0xff;
            let part = match operand.kind {
                Kind::R | Kind::U => match slot.suffix {
                    M::SIGN => M::SIGN,
                    _ => suffix(&mut tokens, if operand.kind == Kind::R { "R" } else { "UR" }, number),
                },
                _ => M::Empty,
            };
            if slot.role != Role::Use {
                continue;
            }
            // The operand of a constant load is as wide as the result.
            let of = if matches!(inst.op(), Op::LDC | Op::ULDC) { 0 } else { index };
            let pair = inst.words(of) == 2;
            let joined = |low: u32, high: u32| u64::from(low) | if pair { u64::from(high) << 32 } else { 0 };
            let next = if number == 255 { 255 } else { number + 1 };
            let bits = match operand.kind {
                Kind::R => joined(self.registers[number], self.registers[next]),
                Kind::U => joined(self.uniform[number], self.uniform[next]),
                Kind::P => self.predicates[number].into(),
                Kind::V => self.uniform_predicates[number].into(),
                Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU => {
                    let bank = &self.banks[usize::from(operand.bank)];
                    let index = match operand.kind {
                        Kind::ConstR => self.registers[usize::from(operand.index)],
                        Kind::ConstU => self.uniform[usize::from(operand.index)],
                        _ => 0,
                    };
                    let at = (operand.value + i64::from(index as i32)) as usize;
                    let word = |at: usize| {
                        bank.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
                    };
                    joined(word(at), word(at + 4))
                }
                Kind::Half | Kind::Bfloat => {
                    let half = operand.value as u64 & 0xffff;
                    match upper_half.take() {
                        None => {
                            upper_half = Some(half);
                            continue;
                        }
                        Some(upper) => upper << 16 | half,
                    }
                }
                Kind::Double if pair => (operand.value as u64) << 32,
                Kind::Literal | Kind::Name => continue,
                _ => operand.value as u32 as u64,
            };
            let negated = match operand.kind {
                Kind::P | Kind::V => operand.is_not(),
                _ => operand.is_neg(),
            };
            out.push((operand, Arg { bits, negated, absolute: operand.is_abs(), part }));
        }
        out
    }

    fn set(&mut self, inst: &Inst, bits: u64, words: u8) {
        let Some((_, dest)) =
            inst.operands().find(|(slot, o)| slot.role == Role::Def && matches!(o.kind, Kind::R | Kind::U))
        else {
            return;
        };
        let file = if dest.kind == Kind::R { &mut self.registers } else { &mut self.uniform };
        let number = dest.value as usize & 255;
        for word in 0..usize::from(words) {
            if number + word < 255 {
                file[number + word] = (bits >> (32 * word)) as u32;
            }
        }
    }

    fn set_predicate(&mut self, inst: &Inst, values: &[Option<bool>]) {
        let dests =
            inst.operands().filter(|(slot, o)| slot.role == Role::Def && matches!(o.kind, Kind::P | Kind::V));
        for ((_, dest), value) in dests.zip(values) {
            let file = if dest.kind == Kind::P { &mut self.predicates } else { &mut self.uniform_predicates };
            let number = dest.value as usize & 7;
            if let (Some(value), true) = (value, number != 7) {
                file[number] = *value;
            }
        }
    }

    fn access(&mut self, inst: &Inst, memory: &mut [u8]) -> Result<(), String> {
        let store = matches!(inst.op(), Op::STG | Op::STS);
        let global = matches!(inst.op(), Op::LDG | Op::STG);
        let sources = self.sources(inst);
        let registers: Vec<&(&Operand, Arg)> = sources.iter().filter(|(o, _)| o.kind == Kind::R).collect();
        let offset: i64 = sources.iter().filter(|(o, _)| o.kind.is_immediate()).map(|(o, _)| o.value).sum();
        let uniform: u64 = match global {
            true => 0,
            false => sources.iter().filter(|(o, _)| o.kind == Kind::U).map(|(_, a)| a.bits).sum(),
        };
        let base = registers.first().map_or(0, |(_, arg)| arg.bits);
        let address = base.wrapping_add(uniform).wrapping_add_signed(offset);
        let at = if global { address.wrapping_sub(BUFFER) } else { address & 0xffff } as usize;
        let (bytes, signed) = match () {
            () if inst.has(M::U8) => (1, false),
            () if inst.has(M::S8) => (1, true),
            () if inst.has(M::U16) => (2, false),
            () if inst.has(M::S16) => (2, true),
            () if inst.has(M::_64) => (8, false),
            () if inst.has(M::_128) => return Err("128-bit access".into()),
            () => (4, false),
        };
        let space = if global { memory } else { &mut self.shared[..] };
        let place = space.get_mut(at..at + bytes).ok_or_else(|| format!("address {address:#x}"))?;
        if store {
            let data = registers.get(1).map_or(0, |(_, arg)| arg.bits);
            place.copy_from_slice(&data.to_le_bytes()[..bytes]);
            return Ok(());
        }
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(place);
        let value = u64::from_le_bytes(word);
        let int = ori::arith::Int { bits: 8 * bytes as u32, signed };
        self.set(inst, int.extended(value), if bytes == 8 { 2 } else { 1 });
        Ok(())
    }
}

/// What stands behind a register in the text, going on from the operand before.
fn suffix<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>,
    file: &str,
    number: usize,
) -> M {
    const NAMES: [(&str, M); 9] = [
        ("H0_H0", M::H0_H0),
        ("H1_H1", M::H1_H1),
        ("H0_NH1", M::H0_NH1),
        ("F32", M::F32),
        ("H1", M::H1),
        ("B1", M::B1),
        ("B2", M::B2),
        ("B3", M::B3),
        ("64", M::Empty),
    ];
    let name = if number == 255 { format!("{file}Z") } else { format!("{file}{number}") };
    while let Some(token) = tokens.peek() {
        let last = token.split_whitespace().last().unwrap_or("").trim_end_matches(';');
        let bare = last.trim_start_matches(['-', '|', '~', '!']);
        let mut parts = bare.split(['.', '|']);
        let found = parts.next() == Some(&name);
        let part = parts.find_map(|p| NAMES.iter().find(|(n, _)| *n == p)).map_or(M::Empty, |(_, m)| *m);
        if found {
            tokens.next();
            return part;
        }
        // A hidden operand has no token; a token of another kind is passed over.
        let register = bare.starts_with("UR") || bare.starts_with('R');
        if register {
            return M::Empty;
        }
        tokens.next();
    }
    M::Empty
}
