//! Integer, logic and video instructions on every machine: the code is run by `ori::eval`, one instruction after the
//! other, and must give what the PTX manual says.

use ori::eval::{Arg, eval};
use sass::{Kind, Op, Role, Target};
use std::collections::BTreeMap;

/// The code of a kernel that gives its three words of parameters to a form in %r2, %r3 and %r4 and stores %r1.
fn code(machine: &str, form: &str) -> Vec<sass::Inst> {
    let source = format!(
        ".version 9.0\n.target {machine}\n.address_size 64\n\
         .entry k(.param .b32 a, .param .b32 b, .param .b32 c, .param .b64 to) {{\n\
         .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n\
         ld.param.b32 %r2, [a]; ld.param.b32 %r3, [b]; ld.param.b32 %r4, [c]; ld.param.b64 %rd8, [to];\n\
         {form}\nst.global.b32 [%rd8], %r1; ret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{form}: {:?}", parsed.diagnostics);
    let options = sassafras::Options::new(ptx::Target::find(machine).expect("a target")).with(|o| {
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    let cubin = output.cubin.unwrap_or_else(|| panic!("{form} for {machine}: {:?}", output.diagnostics));
    let object = cubin::Object::read(&cubin).expect("our cubin");
    let (_, section) = object.section(".text.k").expect("the kernel's code");
    let cubin::Body::Bytes(text) = &section.body else { panic!("code is bytes") };
    let isa = Target::of_name(machine).expect("a machine").isa;
    let words = text.chunks_exact(16).map(|w| u128::from_le_bytes(w.try_into().expect("16 bytes")));
    words.map(|word| sass::decode(isa, word)).collect()
}

/// A thread, as far as code without loops goes.
struct Thread {
    /// Constant bank 0 from the parameters on.
    parameters: [u32; 3],
    base: i64,
    registers: BTreeMap<i64, u32>,
    predicates: [bool; 16],
}

impl Thread {
    /// Runs until the store and returns what it stores.
    fn run(mut self, code: &[sass::Inst]) -> u32 {
        let mut at = 0;
        // No kernel here has a loop, but routines are called several times.
        for _ in 0..4 * code.len() {
            let inst = code.get(at).expect("an instruction");
            at += 1;
            let holds = self.predicates[usize::from(inst.guard.predicate)] != inst.guard.not;
            match inst.op() {
                Op::STG => {
                    let data = inst.operands().filter(|(_, o)| o.kind == Kind::R).last().expect("data");
                    return self.register(data.1.value);
                }
                Op::BSSY | Op::BSYNC => {}
                Op::BRA | Op::CALL | Op::RET if holds => at = self.target(inst, at),
                _ if holds => self.step(inst),
                _ => {}
            }
        }
        panic!("nothing is stored")
    }

    /// Where a branch goes, relative to the instruction after it and, for a return, to a register.
    fn target(&self, inst: &sass::Inst, next: usize) -> usize {
        let distance = inst.operands().find(|(_, o)| o.kind == Kind::Relative).expect("a distance").1.value;
        let offset =
            inst.operands().find(|(_, o)| o.kind == Kind::R).map_or(0, |(_, o)| self.register(o.value));
        usize::try_from(next as i64 + (distance + i64::from(offset)) / 16).expect("an instruction")
    }

    fn register(&self, number: i64) -> u32 {
        if number == i64::from(sass::RZ) { 0 } else { self.registers.get(&number).copied().unwrap_or(0) }
    }

    fn constant(&self, offset: i64) -> u32 {
        let word = usize::try_from((offset - self.base) / 4).ok();
        word.and_then(|w| self.parameters.get(w)).copied().unwrap_or(0)
    }

    fn step(&mut self, inst: &sass::Inst) {
        let mut args = Vec::new();
        let mut results = Vec::new();
        for (index, (slot, operand)) in inst.operands().enumerate() {
            if slot.role == Role::Def {
                results.push((operand.kind, operand.value, inst.words(index)));
                continue;
            }
            let bits = match operand.kind {
                Kind::R if inst.words(index) == 2 && operand.value != i64::from(sass::RZ) => {
                    u64::from(self.register(operand.value))
                        | u64::from(self.register(operand.value + 1)) << 32
                }
                Kind::R => self.register(operand.value).into(),
                Kind::U => self.register(UNIFORM + operand.value).into(),
                Kind::P | Kind::V => self.predicates[predicate(operand.kind, operand.value)].into(),
                Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU => {
                    u64::from(self.constant(operand.value))
                        | u64::from(self.constant(operand.value + 4)) << 32
                }
                Kind::Literal => continue,
                _ => u64::from(operand.value as u32),
            };
            let negated = operand.is_neg() || operand.is_not();
            args.push(Arg { bits, negated, absolute: operand.is_abs(), part: slot.suffix });
        }
        // Waiting changes nothing.
        if inst.op() == Op::NOP {
            return;
        }
        let modifiers: Vec<_> = inst.modifiers().filter(|m| !ALIASES.contains(&m.name())).collect();
        let (bits, predicates) = match inst.op() {
            Op::LDC | Op::ULDC | Op::LDCU => (args[0].bits, vec![]),
            op => {
                let got =
                    eval(op, &modifiers, &args).unwrap_or_else(|| panic!("{inst} has no meaning: {args:?}"));
                (got.bits(), (0..2).map_while(|i| got.predicate(i)).collect())
            }
        };
        let mut predicates = predicates.into_iter();
        for (kind, number, words) in results {
            match kind {
                Kind::P | Kind::V => {
                    let value = predicates.next();
                    if number != i64::from(sass::PT) {
                        self.predicates[predicate(kind, number)] = value.unwrap_or_else(|| panic!("{inst}"));
                    }
                }
                Kind::R if number == i64::from(sass::RZ) => {}
                _ => (0..words).for_each(|w| {
                    let first = if kind == Kind::U { UNIFORM } else { 0 };
                    self.registers.insert(first + number + i64::from(w), (bits >> (32 * w)) as u32);
                }),
            }
        }
    }
}

/// The number of UR0 among the registers of a thread.
const UNIFORM: i64 = 256;

/// The place of a predicate: PT is the last of the general ones, UPT of the uniform ones.
fn predicate(kind: Kind, number: i64) -> usize {
    number as usize + if kind == Kind::V { 8 } else { 0 }
}

/// Names that nvdisasm gives to an IMAD with certain operands.
const ALIASES: [&str; 3] = ["MOV", "IADD", "SHL"];

const WORDS: [u32; 14] = [
    0,
    1,
    5,
    31,
    32,
    63,
    0x7f,
    0x8080_ff7f,
    0x7fff_8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_0001,
    0xffff_fffe,
    0xffff_ffff,
];

type Meaning = fn(u32, u32, u32) -> u32;

fn check(forms: &[(&str, Meaning)]) {
    for target in Target::ALL {
        let (machine, base) = (target.name, target.small_params.into());
        for (form, meaning) in forms {
            let code = code(machine, form);
            for a in WORDS {
                for b in WORDS {
                    let c = a.rotate_left(7) ^ b;
                    let thread = Thread {
                        parameters: [a, b, c],
                        base,
                        registers: BTreeMap::new(),
                        predicates: std::array::from_fn(|number| number % 8 == 7),
                    };
                    let (got, wanted) = (thread.run(&code), meaning(a, b, c));
                    assert_eq!(got, wanted, "{form} of {a:#x}, {b:#x}, {c:#x} on {machine}");
                }
            }
        }
    }
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn folded(x: u64) -> u32 {
    x as u32 ^ (x >> 32) as u32
}

#[test]
fn words() {
    check(&[
        ("add.sat.s32 %r1, %r2, %r3;", |a, b, _| (a as i32).saturating_add(b as i32) as u32),
        ("sub.sat.s32 %r1, %r2, %r3;", |a, b, _| (a as i32).saturating_sub(b as i32) as u32),
        ("sub.s32 %r1, 7, %r2;", |a, _, _| 7u32.wrapping_sub(a)),
        ("mul24.hi.s32 %r1, %r2, %r3;", |a, b, _| {
            let signed = |x: u32| i64::from((x << 8) as i32 >> 8);
            ((signed(a) * signed(b)) >> 16) as u32
        }),
        ("sad.s32 %r1, %r2, %r3, %r4;", |a, b, c| c.wrapping_add((a as i32).abs_diff(b as i32))),
        ("min.s32 %r1, %r2, %r3;", |a, b, _| (a as i32).min(b as i32) as u32),
        ("max.u32 %r1, %r2, 77;", |a, _, _| a.max(77)),
        ("shl.b32 %r1, %r2, %r3;", |a, b, _| a.checked_shl(b).unwrap_or(0)),
        ("shr.s32 %r1, %r2, %r3;", |a, b, _| ((a as i32) >> b.min(31)) as u32),
        ("bfi.b32 %r1, %r2, %r3, 28, 9;", |a, b, _| a << 28 | b & 0x0fff_ffff),
        ("cnot.b32 %r1, %r2;", |a, _, _| u32::from(a == 0)),
        ("lop3.b32 %r1, %r2, %r3, 0xff00, 0x96;", |a, b, _| a ^ b ^ 0xff00),
    ]);
}

#[test]
fn halves() {
    const UNPACK: &str = "mov.b32 {%h2, %h3}, %r2; mov.b32 {%h4, %h5}, %r3;";
    for (form, meaning) in [
        (
            "mul.hi.s16 %h1, %h2, %h4;",
            (|a, b, _| u32::from(((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16)) as Meaning,
        ),
        ("max.u16 %h1, %h2, %h4;", |a, b, _| (a & 0xffff).max(b & 0xffff)),
        ("min.s16 %h1, %h2, -3;", |a, _, _| u32::from((a as i16).min(-3) as u16)),
        ("shr.s16 %h1, %h3, %r3;", |a, b, _| u32::from(((a >> 16) as i16 >> b.min(15)) as u16)),
        ("abs.s16 %h1, %h5;", |_, b, _| u32::from(((b >> 16) as i16).wrapping_abs() as u16)),
    ] {
        check(&[(&format!("{UNPACK} {form} mov.b32 %r1, {{%h1, 0}};"), meaning)]);
    }
}

#[test]
fn longs() {
    const PACK: &str = "mov.b64 %rd2, {%r2, %r3}; mov.b64 %rd3, {%r3, %r4};";
    const FOLD: &str = "mov.b64 {%r5, %r6}, %rd1; xor.b32 %r1, %r5, %r6;";
    for (form, meaning) in [
        ("sub.s64 %rd1, %rd2, %rd3;", (|a, b, c| folded(long(a, b).wrapping_sub(long(b, c)))) as Meaning),
        ("sub.s64 %rd1, %rd2, 0x500000000;", |a, b, _| folded(long(a, b).wrapping_sub(5 << 32))),
        ("mad.lo.s64 %rd1, %rd2, %rd3, 9;", |a, b, c| {
            folded(long(a, b).wrapping_mul(long(b, c)).wrapping_add(9))
        }),
        ("mul.hi.s64 %rd1, %rd2, %rd3;", |a, b, c| {
            folded(((i128::from(long(a, b) as i64) * i128::from(long(b, c) as i64)) >> 64) as u64)
        }),
        ("mul.hi.u64 %rd1, %rd2, %rd3;", |a, b, c| {
            folded(((u128::from(long(a, b)) * u128::from(long(b, c))) >> 64) as u64)
        }),
        ("min.s64 %rd1, %rd2, %rd3;", |a, b, c| folded((long(a, b) as i64).min(long(b, c) as i64) as u64)),
        ("shl.b64 %rd1, %rd2, %r4;", |a, b, c| folded(long(a, b).checked_shl(c).unwrap_or(0))),
        ("shr.s64 %rd1, %rd2, %r4;", |a, b, c| folded((long(a, b) as i64 >> c.min(63)) as u64)),
        ("abs.s64 %rd1, %rd2;", |a, b, _| folded((long(a, b) as i64).wrapping_abs() as u64)),
    ] {
        check(&[(&format!("{PACK} {form} {FOLD}"), meaning)]);
    }
}

/// The flag goes from any `.cc` to any instruction that reads it; a subtraction leaves "no borrow".
#[test]
fn carries() {
    check(&[
        ("add.cc.u32 %r5, %r2, %r3; addc.u32 %r1, %r4, 0;", |a, b, c| {
            c.wrapping_add(u32::from(a.checked_add(b).is_none()))
        }),
        ("sub.cc.u32 %r5, %r2, %r3; subc.u32 %r1, %r4, 0;", |a, b, c| c.wrapping_sub(u32::from(a < b))),
        ("sub.cc.u32 %r5, %r2, 0; subc.u32 %r1, %r4, %r3;", |_, b, c| c.wrapping_sub(b)),
        ("mad.lo.cc.u32 %r5, %r2, %r3, %r4; madc.hi.u32 %r1, %r2, %r3, 0;", |a, b, c| {
            ((u64::from(a) * u64::from(b) + u64::from(c)) >> 32) as u32
        }),
    ]);
}

/// Division by zero gives all ones, as in ptxas's code.
#[test]
fn division() {
    check(&[
        ("div.s32 %r1, %r2, %r3;", |a, b, _| match b {
            0 => u32::MAX,
            _ => (a as i32).wrapping_div(b as i32) as u32,
        }),
        ("rem.s32 %r1, %r2, %r3;", |a, b, _| match b {
            0 => u32::MAX,
            _ => (a as i32).wrapping_rem(b as i32) as u32,
        }),
        ("div.u32 %r1, %r2, %r3;", |a, b, _| a.checked_div(b).unwrap_or(u32::MAX)),
        (
            "mov.b64 %rd2, {%r2, %r4}; cvt.u64.u32 %rd3, %r3; rem.u64 %rd1, %rd2, %rd3; cvt.u32.u64 %r1, %rd1;",
            |a, b, c| long(a, c).checked_rem(b.into()).unwrap_or(u64::MAX) as u32,
        ),
        (
            "mov.b64 %rd2, {%r2, %r4}; mov.b64 %rd3, {%r3, %r2}; div.u64 %rd4, %rd2, %rd3; div.u64 %rd5, %rd3, %rd2; \
             xor.b64 %rd1, %rd4, %rd5; mov.b64 {%r5, %r6}, %rd1; xor.b32 %r1, %r5, %r6;",
            |a, b, c| {
                let (x, y) = (long(a, c), long(b, a));
                folded(x.checked_div(y).unwrap_or(u64::MAX) ^ y.checked_div(x).unwrap_or(u64::MAX))
            },
        ),
        (
            "mov.b64 %rd2, {%r2, %r4}; cvt.s64.s32 %rd3, %r3; div.s64 %rd4, %rd2, %rd3; rem.s64 %rd5, %rd2, %rd3; \
             xor.b64 %rd1, %rd4, %rd5; mov.b64 {%r5, %r6}, %rd1; xor.b32 %r1, %r5, %r6;",
            |a, b, c| {
                let (x, y) = (long(a, c) as i64, i64::from(b as i32));
                match y {
                    0 => 0,
                    _ => folded((x.wrapping_div(y) ^ x.wrapping_rem(y)) as u64),
                }
            },
        ),
        (
            "cvt.u16.u32 %h2, %r2; cvt.u16.u32 %h3, %r3; div.u16 %h1, %h2, %h3; cvt.u32.u16 %r1, %h1;",
            |a, b, _| (a & 0xffff).checked_div(b & 0xffff).unwrap_or(0xffff),
        ),
    ]);
}

#[test]
fn video() {
    check(&[
        ("vadd.s32.u32.s32.sat %r1, %r2, %r3;", |a, b, _| {
            (i64::from(a) + i64::from(b as i32)).clamp(i32::MIN.into(), i32::MAX.into()) as u32
        }),
        ("vsub.u32.s32.s32.sat %r1.h1, %r2.b3, %r3.h0, %r4;", |a, b, c| {
            let difference = i32::from((a >> 24) as i8) - i32::from(b as i16);
            c & 0xffff | (difference.clamp(0, 0xffff) as u32) << 16
        }),
        ("vabsdiff.u32.s32.u32.max %r1, %r2, %r3, %r4;", |a, b, c| {
            (i64::from(a as i32) - i64::from(b)).abs().max(c.into()) as u32
        }),
        ("vmad.s32.u32.u32.sat.shr7 %r1, -%r2, %r3, %r4;", |a, b, c| {
            let sum = i128::from(c as i32) - i128::from(a) * i128::from(b);
            (sum >> 7).clamp(i32::MIN.into(), i32::MAX.into()) as u32
        }),
        ("vavrg2.s32.s32.s32 %r1.h1, %r2.h31, %r3, %r4;", |_, b, c| {
            let sum = i32::from((b >> 16) as i16) * 2;
            c & 0xffff | (((sum + i32::from(sum >= 0)) >> 1) as u32) << 16
        }),
        ("vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4;", |a, b, c| {
            let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            pairs.fold(c, |sum, (a, b)| sum.wrapping_add(a.abs_diff(b).into()))
        }),
        ("vset4.s32.u32.lt %r1.b20, %r2, %r3, %r4;", |a, b, c| {
            let [a, b, mut c] = [a, b, c].map(u32::to_le_bytes);
            [0, 2].into_iter().for_each(|i| c[i] = u8::from(i16::from(a[i] as i8) < i16::from(b[i])));
            u32::from_le_bytes(c)
        }),
    ]);
}
