//! Random programs behave the same before and after: their final stores have the same addresses and values.

use super::*;
use ori::{Guard, eval};
use sass::M;

mod contract;
mod idioms;
mod signs;

/// A small generator of numbers.
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    pub fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A function of one block that grows at its end.
struct Program {
    function: Function,
    words: Vec<Value>,
    pairs: Vec<Value>,
    predicates: Vec<Value>,
    random: Random,
}

const IMMEDIATES: [i64; 9] = [0, 1, 2, 4, 8, 0x100, -1, -0x8000_0000, 0x3f80_0000];

impl Program {
    fn new(seed: u64) -> Program {
        let mut function = Function::new("t");
        function.block();
        let mut program = Program {
            function,
            words: vec![],
            pairs: vec![],
            predicates: vec![],
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        };
        for i in 0..4 {
            let from = |offset| [Arg::Bank { bank: 0, index: None, offset }];
            let word = program.emit(sass::Op::LDC, &[], &[(File::R, 1)], &from(0x210 + 16 * i));
            let pair = program.emit(sass::Op::LDC, &[M::_64], &[(File::R, 2)], &from(0x218 + 16 * i));
            program.words.push(word);
            program.pairs.push(pair);
        }
        let args = [Arg::True(true), program.words[0].into(), Arg::Imm(5), Arg::True(true)];
        let first = program.emit(sass::Op::ISETP, &[M::LT, M::AND], &[(File::P, 1)], &args);
        program.predicates.push(first);
        program
    }

    fn push(
        &mut self,
        op: Op,
        modifiers: &[M],
        results: &[(File, u8)],
        args: &[Arg],
        guard: Option<Guard>,
    ) -> Value {
        let values: SmallVec<[Value; 2]> =
            results.iter().map(|(file, words)| self.function.value(*file, *words)).collect();
        let first = values.first().copied().unwrap_or(Value(0));
        let args = SmallVec::from_slice(args);
        let data = InstData { op, modifiers: modifiers.into(), results: values, args, guard, at: 0 };
        self.function.append(Function::ENTRY, data);
        first
    }

    fn emit(&mut self, op: sass::Op, modifiers: &[M], results: &[(File, u8)], args: &[Arg]) -> Value {
        self.push(Op::Machine(op), modifiers, results, args, None)
    }

    fn pseudo(&mut self, op: Pseudo, words: &[u8], args: &[Arg]) -> Value {
        let results: Vec<_> = words.iter().map(|w| (File::R, *w)).collect();
        self.push(Op::Pseudo(op), &[], &results, args, None)
    }

    /// A word: of a value, of a pair, or a number.
    fn word(&mut self) -> Arg {
        match self.random.below(8) {
            0 => Arg::Imm(self.random.one(&IMMEDIATES)),
            1 => RZ,
            2 => {
                let pair = self.random.one(&self.pairs);
                Arg::word(pair, self.random.below(2) as u8)
            }
            _ => self.random.one(&self.words).into(),
        }
    }

    fn register(&mut self) -> Arg {
        loop {
            if let arg @ Arg::Use(_) = self.word() {
                return arg;
            }
        }
    }

    fn predicate(&mut self) -> Arg {
        let value = self.random.one(&self.predicates);
        if self.random.below(2) == 0 { Arg::not(value) } else { value.into() }
    }

    fn add64(&mut self, a: [Arg; 2], b: [Arg; 2]) -> Value {
        let low = self.emit(sass::Op::IADD3, &[], &[(File::R, 1), (File::P, 1)], &[a[0], b[0], RZ]);
        let carry = Value(low.0 + 1);
        let args = [a[1], b[1], RZ, carry.into(), Arg::True(false)];
        let high = self.emit(sass::Op::IADD3, &[M::X], &[(File::R, 1)], &args);
        self.pseudo(Pseudo::Pack, &[2], &[low.into(), high.into()])
    }

    fn halves(value: Value) -> [Arg; 2] {
        [Arg::word(value, 0), Arg::word(value, 1)]
    }

    fn step(&mut self) {
        let word = [(File::R, 1)];
        let (a, b, c) = (self.word(), self.word(), self.word());
        match self.random.below(33) {
            0..3 => {
                let b = if self.random.below(4) == 0 { b.negated() } else { b };
                let sum = self.emit(sass::Op::IADD3, &[], &word, &[a, b, RZ]);
                self.words.push(sum);
            }
            3 => {
                let value = self.emit(sass::Op::IMAD, &[], &word, &[a, b, c]);
                self.words.push(value);
            }
            4 => {
                let value = self.emit(sass::Op::IMAD, &[], &word, &[a, b, RZ]);
                self.words.push(value);
            }
            5 => {
                let n = Arg::Imm(self.random.below(32) as i64);
                let value = self.emit(sass::Op::SHF, &[M::L, M::U32], &word, &[a, n, RZ]);
                self.words.push(value);
            }
            6 => {
                let lut = Arg::Imm(self.random.below(256) as i64);
                let value = self.emit(sass::Op::LOP3, &[M::LUT], &word, &[a, b, c, lut, Arg::True(false)]);
                self.words.push(value);
            }
            7 => {
                let op = self.random.one(&[sass::Op::FADD, sass::Op::FMUL]);
                let value = self.emit(op, &[], &word, &[a, b]);
                self.words.push(value);
            }
            8 => {
                let value = self.emit(sass::Op::FFMA, &[], &word, &[a, b, c]);
                self.words.push(value);
            }
            31 => {
                let modifiers = self.random.one(&[&[M::HI, M::U32][..], &[M::HI], &[]]);
                let args = if self.random.below(2) == 0 { [a, b, RZ] } else { [b, a, RZ] };
                let value = self.emit(sass::Op::IMAD, modifiers, &word, &args);
                let lower = self.emit(sass::Op::IMAD, &[], &word, &[a, b, RZ]);
                self.words.extend([value, lower]);
            }
            32 => {
                let ftz = self.random.below(2) == 0;
                let op = self.random.one(&[sass::Op::FADD, sass::Op::FMUL]);
                let value = self.emit(op, if ftz { &[M::FTZ] } else { &[] }, &word, &[a, b]);
                let modifiers = self.random.one(&[&[M::SAT][..], &[M::FTZ, M::SAT]]);
                let value = self.emit(sass::Op::FADD, modifiers, &word, &[RZ, value.into()]);
                self.words.push(value);
            }
            9 => {
                let relation = self.random.one(&[M::LT, M::EQ, M::NE, M::GE]);
                let args = [Arg::True(true), a, b, self.predicate()];
                let value = self.emit(sass::Op::ISETP, &[relation, M::AND], &[(File::P, 1)], &args);
                self.predicates.push(value);
            }
            10 => {
                let p = self.predicate();
                let value = self.emit(sass::Op::SEL, &[], &word, &[a, b, p]);
                self.words.push(value);
            }
            11 => {
                let n = Arg::Imm(self.random.one(&IMMEDIATES));
                let value = self.emit(sass::Op::MOV, &[], &word, &[n]);
                self.words.push(value);
            }
            12 => {
                let words = [self.register(), self.register()];
                let else_value = self.random.one(&self.pairs);
                let guard = if self.random.below(2) == 0 { self.guard(&[else_value]) } else { None };
                let value = self.push(Op::Pseudo(Pseudo::Pack), &[], &[(File::R, 2)], &words, guard);
                self.pairs.push(value);
            }
            13 => {
                let pair = self.random.one(&self.pairs);
                let low = self.pseudo(Pseudo::Unpack, &[1, 1], &[pair.into()]);
                self.words.extend([low, Value(low.0 + 1)]);
                if self.random.below(2) == 0 {
                    let again = self.pseudo(Pseudo::Pack, &[2], &[low.into(), Value(low.0 + 1).into()]);
                    self.pairs.push(again);
                }
            }
            14 => {
                let pair = self.random.one(&self.pairs);
                let part = Arg::word(pair, self.random.below(2) as u8);
                let value = self.pseudo(Pseudo::Copy, &[1], &[part]);
                self.words.push(value);
            }
            15 => {
                let args = [self.register(), b, RZ];
                let wide = self.emit(sass::Op::IMAD, &[M::WIDE], &[(File::R, 2)], &args);
                let x = self.random.one(&self.pairs);
                let sum = self.add64(Self::halves(x), Self::halves(wide));
                self.pairs.push(sum);
            }
            16 => {
                let x = self.random.one(&self.pairs);
                let n = self.random.one(&[0, 4, 8, -8, 0x1000, 1 << 30]);
                let sum = self.add64(Self::halves(x), [Arg::Imm(n), Arg::Imm(n >> 32)]);
                self.pairs.push(sum);
            }
            17 => {
                let y = Self::halves(self.random.one(&self.pairs));
                let n = Arg::Imm(1 + self.random.below(31) as i64);
                let low = self.emit(sass::Op::SHF, &[M::L, M::U32], &word, &[y[0], n, RZ]);
                let high = self.emit(sass::Op::SHF, &[M::L, M::U64, M::HI], &word, &[y[0], n, y[1]]);
                let x = self.random.one(&self.pairs);
                let sum = self.add64(Self::halves(x), [low.into(), high.into()]);
                self.pairs.push(sum);
            }
            18 | 19 => self.guarded_load(),
            20 => self.guarded_vector(),
            21 => {
                let relation = self.random.one(&[M::LT, M::GEU, M::EQ, M::NEU, M::NUM, M::NAN]);
                let args = [Arg::True(true), a, b, Arg::True(true)];
                let value = self.emit(sass::Op::FSETP, &[relation, M::AND], &[(File::P, 1)], &args);
                self.predicates.push(value);
            }
            25 => {
                let a = self.register();
                let a = if self.random.below(2) == 0 { a.negated() } else { a.absolute() };
                let value = self.emit(sass::Op::FADD, &[], &word, &[a, Arg::MinusZero]);
                self.words.push(value);
            }
            26 => {
                let x = self.register();
                let value = self.emit(sass::Op::MUFU, &[M::EX2], &word, &[x]);
                let sum = self.emit(sass::Op::FADD, &[], &word, &[value.into(), Arg::Imm(0x3f80_0000)]);
                let args =
                    [Arg::True(true), Arg::from(sum).absolute(), Arg::Imm(0x0080_0000), Arg::True(true)];
                let normal = self.emit(sass::Op::FSETP, &[M::GEU, M::AND], &[(File::P, 1)], &args);
                self.words.extend([value, sum]);
                self.predicates.push(normal);
            }
            27 => {
                let numbers = [0x3f80_0000, 0x3e80_0000, 0x4b80_0000].map(Arg::Imm);
                let number = self.random.one(&numbers);
                let constant = self.emit(sass::Op::MOV, &[], &word, &[number]);
                let guard = self.guard(&[constant]);
                let args = [constant.into(), self.random.one(&numbers)];
                let value = self.push(Op::Machine(sass::Op::FMUL), &[], &word, &args, guard);
                self.words.push(value);
            }
            28 | 29 => {
                let selectors =
                    [0x7710, 0x7770, 0x9910, 0x8880, 0x7771, 0x7732, 0x3210, 0xb321, 0x7607, 0x9bd2];
                let selector = Arg::Imm(self.random.one(&selectors));
                let from = self.register();
                let value = self.emit(sass::Op::PRMT, &[], &word, &[from, selector, RZ]);
                self.words.push(value);
            }
            22..25 => {
                let lut = Arg::Imm(self.random.one(&[0xc0, 0xfc, 0x3c, 0xf8, 0x80, 0xfe, 0xca, 0x69]));
                let c = if self.random.below(2) == 0 { Arg::True(true) } else { self.predicate() };
                let args = [Arg::True(true), self.predicate(), self.predicate(), c, lut, Arg::Imm(0)];
                let value = self.emit(sass::Op::PLOP3, &[M::LUT], &[(File::P, 1)], &args);
                self.predicates.push(value);
            }
            _ => self.store(),
        }
    }

    fn guard(&mut self, else_values: &[Value]) -> Option<Guard> {
        let Arg::Use(u) = self.predicate() else { return None };
        Some(Guard { predicate: u.value, negated: u.negated, else_values: else_values.into() })
    }

    /// A load that only some threads do, into a register that the others keep.
    fn guarded_load(&mut self) {
        let undefined = self.pseudo(Pseudo::Undef, &[1], &[]);
        let guard = self.guard(&[undefined]);
        let args = [self.random.one(&self.pairs).into(), Arg::Imm(16)];
        let loaded = self.push(Op::Machine(sass::Op::LDG), &[M::E], &[(File::R, 1)], &args, guard.clone());
        let else_value = self.random.one(&self.words);
        let guard = guard.map(|g| Guard { else_values: smallvec![else_value], ..g });
        let copy = Op::Pseudo(Pseudo::Copy);
        let value = self.push(copy, &[], &[(File::R, 1)], &[loaded.into()], guard);
        self.words.push(value);
    }

    /// The same with two words at once.
    fn guarded_vector(&mut self) {
        let undefined = self.pseudo(Pseudo::Undef, &[2], &[]);
        let guard = self.guard(&[undefined]);
        let args = [self.random.one(&self.pairs).into(), Arg::Imm(16)];
        let load = Op::Machine(sass::Op::LDG);
        let loaded = self.push(load, &[M::E, M::_64], &[(File::R, 2)], &args, guard.clone());
        for word in Self::halves(loaded) {
            let else_value = self.random.one(&self.words);
            let guard = guard.clone().map(|g| Guard { else_values: smallvec![else_value], ..g });
            let value = self.push(Op::Pseudo(Pseudo::Copy), &[], &[(File::R, 1)], &[word], guard);
            self.words.push(value);
        }
    }

    fn store(&mut self) {
        let guard = if self.random.below(2) == 0 { self.guard(&[]) } else { None };
        let args = [self.random.one(&self.pairs).into(), Arg::Imm(8), self.random.one(&self.words).into()];
        self.push(Op::Machine(sass::Op::STG), &[M::E], &[], &args, guard);
    }
}

/// Seeds from here on give memory in which most words are at the edges of some type.
const EDGES_FROM: u64 = 1 << 32;

const EDGES: [u32; 24] = [
    0,
    1,
    0x8000_0000,
    0x8000_0001,
    u32::MAX,
    0x7fff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0xffc0_0001,
    0xff81_7f81,
    0x0040_0000,
    0x8040_0000,
    0x3c00_bc00,
    0xbc00_3c00,
    0x7c00_fc00,
    0x7e01_fe01,
    0x0001_8001,
    0x7ff0_0000,
    0xfff8_0000,
    0xbff0_0000,
    0x8000_8000,
];

/// The contents of memory, or of constant bank 0, at an address.
fn memory(seed: u64, address: u64) -> u32 {
    let mut random = Random((seed ^ address.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
    random.next();
    if seed >= EDGES_FROM {
        return if random.below(3) > 0 { random.one(&EDGES) } else { (random.next() >> 32) as u32 };
    }
    // Small numbers are where rules differ.
    if random.below(3) == 0 { random.below(3) as u32 } else { (random.next() >> 32) as u32 }
}

pub(crate) struct Interpreter<'a> {
    function: &'a Function,
    seed: u64,
    bits: Vec<u64>,
    stores: Vec<(u64, u32)>,
}

impl Interpreter<'_> {
    pub fn run(function: &Function, seed: u64) -> Vec<(u64, u32)> {
        let mut m = Interpreter { function, seed, bits: vec![0; function.values.len()], stores: Vec::new() };
        for inst in &function.blocks[Function::ENTRY].insts {
            m.inst(&function.insts[*inst]);
        }
        m.stores
    }

    fn arg(&self, arg: &Arg) -> eval::Arg {
        match arg {
            Arg::Use(u) => {
                let shift = u.part.map_or(0, |p| 32 * u32::from(p.first));
                let words = u.part.map_or(self.function.values[u.value].words, |p| p.count);
                let mask = if words == 1 { u64::from(u32::MAX) } else { u64::MAX };
                let bits = self.bits[u.value.index()] >> shift & mask;
                eval::Arg { bits, negated: u.negated, absolute: u.absolute, part: u.suffixes.first() }
            }
            Arg::Imm(n) => eval::Arg::word(*n as u32),
            Arg::Zero(_) => eval::Arg::word(0),
            Arg::MinusZero => eval::Arg::word(0).neg(),
            Arg::True(sense) => eval::Arg::predicate(*sense),
            Arg::Const { offset, .. } => eval::Arg::word(memory(self.seed, u64::from(*offset))),
            other => panic!("{other}"),
        }
    }

    /// Constants of doubles are their upper halves, or two words of a bank.
    fn arg_of(&self, op: sass::Op, arg: &Arg) -> eval::Arg {
        use sass::Op::{DADD, DFMA, DMUL, DSETP};
        let bits = match *arg {
            Arg::Imm(n) => (n as u64) << 32,
            Arg::Const { offset, .. } => {
                let word = |n: u32| u64::from(memory(self.seed, u64::from(offset + n)));
                word(0) | word(4) << 32
            }
            _ => return self.arg(arg),
        };
        if matches!(op, DADD | DFMA | DMUL | DSETP) {
            eval::Arg { bits, ..self.arg(arg) }
        } else {
            self.arg(arg)
        }
    }

    fn inst(&mut self, data: &InstData) {
        let holds = data.guard.as_ref().is_none_or(|g| (self.bits[g.predicate.index()] != 0) != g.negated);
        if !holds {
            for (result, else_value) in
                data.results.iter().zip(data.guard.iter().flat_map(|g| &g.else_values))
            {
                self.bits[result.index()] = self.bits[else_value.index()];
            }
            return;
        }
        let address = |m: &Self| match data.args[1] {
            Arg::Imm(n) => m.arg(&data.args[0]).bits.wrapping_add(n as u64),
            _ => panic!("no offset"),
        };
        match data.op {
            Op::Machine(sass::Op::STG) => {
                let stored = (address(self), self.arg(&data.args[2]).bits as u32);
                self.stores.push(stored);
            }
            Op::Machine(sass::Op::LDG) => {
                let word = |n: u64| u64::from(memory(self.seed, address(self).wrapping_add(n)));
                let high = if data.modifiers.contains(&M::_64) { word(4) << 32 } else { 0 };
                self.bits[data.results[0].index()] = word(0) | high;
            }
            Op::Machine(sass::Op::LDC) => {
                let Arg::Bank { offset, .. } = data.args[0] else { panic!("no constant bank") };
                let word = |n: u64| u64::from(memory(self.seed, offset as u64 + n));
                let high = if data.modifiers.is_empty() { 0 } else { word(4) << 32 };
                self.bits[data.results[0].index()] = word(0) | high;
            }
            Op::Machine(sass::Op::CS2R) => self.bits[data.results[0].index()] = 0,
            Op::Machine(op) => self.compute(op, data),
            Op::Generic(op) => {
                let args: Vec<eval::Arg> = data.args.iter().map(|a| self.arg(a)).collect();
                let results = eval::generic::eval(op, &data.modifiers, &args).expect("a meaning");
                self.bits[data.results[0].index()] = results.bits();
            }
            Op::Pseudo(Pseudo::Pack | Pseudo::Copy) => {
                let mut shift = 0;
                let mut all = 0;
                for arg in &data.args {
                    let Arg::Use(u) = arg else { panic!("no value") };
                    all |= self.arg(arg).bits << shift;
                    shift += 32 * u32::from(u.part.map_or(self.function.values[u.value].words, |p| p.count));
                }
                self.bits[data.results[0].index()] = all;
            }
            Op::Pseudo(Pseudo::Unpack) => {
                let bits = self.arg(&data.args[0]).bits;
                for (i, result) in data.results.iter().enumerate() {
                    self.bits[result.index()] = bits >> (32 * i) & u64::from(u32::MAX);
                }
            }
            Op::Pseudo(_) => {}
        }
    }

    fn compute(&mut self, op: sass::Op, data: &InstData) {
        let placeholder = usize::from(matches!(
            op,
            sass::Op::FSETP | sass::Op::HSETP2 | sass::Op::ISETP | sass::Op::DSETP | sass::Op::PLOP3
        ));
        let args: Vec<eval::Arg> = data.args[placeholder..].iter().map(|a| self.arg_of(op, a)).collect();
        let results = eval::eval(op, &data.modifiers, &args).unwrap_or_else(|| panic!("{op:?} {args:?}"));
        let mut predicates = 0..;
        for result in &data.results {
            self.bits[result.index()] = match self.function.values[*result].file {
                File::P => {
                    u64::from(predicates.next().and_then(|i| results.predicate(i)).expect("a predicate"))
                }
                _ => results.bits(),
            };
        }
    }
}

const RZ: Arg = Arg::Zero(File::R);

/// Random programs before and after a pass store the same. Says how many have fewer instructions.
pub(crate) fn keep_meaning(
    seeds: std::ops::Range<u64>,
    pass: impl Fn(&mut Function, &mut Context) -> crate::context::PassResult,
) -> usize {
    let machine = crate::context::target::TargetMachine::of(ptx::Target::find("sm_90").expect("a target"))
        .expect("a machine");
    let mut shorter = 0;
    for seed in seeds {
        let mut program = Program::new(seed);
        for _ in 0..40 {
            program.step();
        }
        (0..4).for_each(|_| program.store());
        let before = program.function;
        ori::verify::verify(&before).expect("a well-formed program");
        let mut after = before.clone();
        let registers = crate::module::launch_bounds::MOST;
        let mut context = Context::new(machine, registers, Tuning::default(), Fuel::new(None));
        pass(&mut after, &mut context).expect("a program");
        ori::verify::verify(&after).unwrap_or_else(|e| panic!("{e}\n{before}\n{after}"));
        for input in 1..4 {
            let (was, is) = (Interpreter::run(&before, input), Interpreter::run(&after, input));
            assert!(was == is, "seed {seed}, input {input}\n{was:x?}\n{is:x?}\n{before}\n{after}");
        }
        let count = |f: &Function| f.blocks[Function::ENTRY].insts.len();
        shorter += usize::from(count(&after) < count(&before));
    }
    shorter
}

/// The pass with its clean-ups.
fn run_clean(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    for pass in [run, crate::opt::simplify::run, crate::opt::dce::run] {
        let change = pass(function, context)?;
        context.analyses.invalidate(change);
    }
    Ok(())
}

#[test]
fn programs_keep_their_meaning() {
    // Nearly all have something to fold.
    let shorter = keep_meaning(1..3000, run_clean);
    assert!(shorter > 2900, "{shorter}");
}
