//! Operands that are computed right in front of the instruction that reads them: a source after `neg`, `abs` or `not`
//! of any type that has its width, and a source plus a number.
//!
//! A float operation may leave any NaN where it got one, and PTX doesn't say which. So there are two kinds:
//! * of the operand's own type: steps of that one format on a register of its class, whose bits nobody sees;
//! * of bits: steps of any format on an integer register. A NaN of the step's format becomes a number before the step,
//!   and all bits of the result are certain.

use super::class::Class;
use random::Random;

/// Most steps of one operand.
const STEPS: usize = 3;
/// Operands of one row that have a register of their own for the result.
const OPERANDS: usize = 14;
/// Registers of each width that [`Derived::operand`] writes: those of the operands, then the two halves of a value.
pub const REGISTERS: usize = OPERANDS + 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    pub base: Base,
    /// Of the operand's own type, not of bits.
    pub own: bool,
    /// Numbers of steps from the first on; 0 is none.
    steps: [u8; STEPS],
    /// Added by the operand itself: `%r1+5`.
    plus: i64,
    /// The integer register that gets the value as well, so that it is used twice.
    pub keep: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Register(u8),
    Constant(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

/// `D` becomes the destination, `S` the source.
type Operation = (&'static str, Option<Format>);

const PREDICATE: [Operation; 2] = [("not.pred D, S;", None), ("mov.pred D, S;", None)];

const SHORT: [Operation; 13] = [
    ("neg.s16 D, S;", None),
    ("neg.f16 D, S;", Some(Format::F16)),
    ("neg.ftz.f16 D, S;", Some(Format::F16)),
    ("neg.bf16 D, S;", Some(Format::Bf16)),
    ("abs.s16 D, S;", None),
    ("abs.f16 D, S;", Some(Format::F16)),
    ("abs.ftz.f16 D, S;", Some(Format::F16)),
    ("abs.bf16 D, S;", Some(Format::Bf16)),
    ("not.b16 D, S;", None),
    ("xor.b16 D, S, -32768;", None),
    ("and.b16 D, S, 32767;", None),
    ("sub.s16 D, 0, S;", None),
    ("mov.b16 D, S;", None),
];

const WORD: [Operation; 20] = [
    ("neg.s32 D, S;", None),
    ("neg.f32 D, S;", Some(Format::F32)),
    ("neg.ftz.f32 D, S;", Some(Format::F32)),
    ("neg.f16x2 D, S;", Some(Format::F16x2)),
    ("neg.ftz.f16x2 D, S;", Some(Format::F16x2)),
    ("neg.bf16x2 D, S;", Some(Format::Bf16x2)),
    ("abs.s32 D, S;", None),
    ("abs.f32 D, S;", Some(Format::F32)),
    ("abs.ftz.f32 D, S;", Some(Format::F32)),
    ("abs.f16x2 D, S;", Some(Format::F16x2)),
    ("abs.ftz.f16x2 D, S;", Some(Format::F16x2)),
    ("abs.bf16x2 D, S;", Some(Format::Bf16x2)),
    ("not.b32 D, S;", None),
    ("xor.b32 D, S, 0x80000000;", None),
    ("xor.b32 D, S, 0x80008000;", None),
    ("and.b32 D, S, 0x7fffffff;", None),
    ("and.b32 D, S, 0x7fff7fff;", None),
    ("sub.s32 D, 0, S;", None),
    ("prmt.b32 D, S, 0, 0x1032;", None),
    ("mov.b32 D, S;", None),
];

const LONG: [Operation; 9] = [
    ("neg.s64 D, S;", None),
    ("neg.f64 D, S;", Some(Format::F64)),
    ("abs.s64 D, S;", None),
    ("abs.f64 D, S;", Some(Format::F64)),
    ("not.b64 D, S;", None),
    ("xor.b64 D, S, 0x8000000000000000;", None),
    ("and.b64 D, S, 0x7fffffffffffffff;", None),
    ("sub.s64 D, 0, S;", None),
    ("mov.b64 D, S;", None),
];

/// The integer class of a class's width.
pub fn bits_class(class: Class) -> Class {
    match class.bytes() {
        1 => Class::Predicate,
        2 => Class::Short,
        4 => Class::Word,
        _ => Class::Long,
    }
}

fn operations(class: Class) -> &'static [Operation] {
    match class {
        Class::Predicate => &PREDICATE,
        Class::Short => &SHORT,
        Class::Word => &WORD,
        _ => &LONG,
    }
}

/// What half of a value of this class is.
fn half(class: Class) -> Option<Class> {
    match class {
        Class::Word => Some(Class::Short),
        Class::Long => Some(Class::Word),
        _ => None,
    }
}

fn own_format(class: Class) -> Option<Format> {
    match class {
        Class::Half => Some(Format::F16),
        Class::HalfPair => Some(Format::F16x2),
        Class::Brain => Some(Format::Bf16),
        Class::BrainPair => Some(Format::Bf16x2),
        Class::Float => Some(Format::F32),
        Class::Double => Some(Format::F64),
        _ => None,
    }
}

enum Step {
    Whole(Operation),
    /// On the low or the high half.
    Half(bool, Operation),
    /// Half of the result each, from these halves.
    Mix(&'static str),
}

const MIXES: [&str; 3] = ["{B, A}", "{A, A}", "{B, B}"];

/// The step with a number from 1 on.
fn step(class: Class, number: u8) -> Option<Step> {
    let mut number = usize::from(number).checked_sub(1)?;
    let whole = operations(class);
    if let Some(operation) = whole.get(number) {
        return Some(Step::Whole(*operation));
    }
    number -= whole.len();
    let parts = operations(half(class)?);
    if let Some(operation) = parts.get(number % parts.len()).filter(|_| number < 2 * parts.len()) {
        return Some(Step::Half(number >= parts.len(), *operation));
    }
    MIXES.get(number - 2 * parts.len()).map(|mix| Step::Mix(mix))
}

/// How many steps a class has.
fn steps(class: Class) -> usize {
    let halves = half(class).map_or(0, |half| 2 * operations(half).len() + MIXES.len());
    operations(class).len() + halves
}

impl Derived {
    /// One after steps.
    pub fn modified(class: Class, random: &mut Random) -> Derived {
        let own = own_format(class).is_some() && random.chance(40);
        let bits = bits_class(class);
        let count = 1 + random.below(4) % STEPS;
        let mut chosen = [0; STEPS];
        for place in &mut chosen[..count] {
            *place = if own { own_step(class, random) } else { bits_step(bits, random) };
        }
        let base = base(class, own, random);
        let keep = if !own && random.chance(20) { Some(random.below(8) as u8) } else { None };
        Derived { base, own, steps: chosen, plus: 0, keep }
    }

    /// One plus a number, mostly without steps. Predicates and float registers have no such operand.
    pub fn sum(class: Class, random: &mut Random) -> Derived {
        let steps = if random.chance(20) { [bits_step(bits_class(class), random), 0, 0] } else { [0; STEPS] };
        let number = match random.below(6) {
            0..3 => random.below(33) as i64 - 16,
            3 => bits_class(class).constant(random) as i64,
            4 => random.next() as i32 as i64,
            _ => 1 << random.below(40),
        };
        let count = bits_class(class).info().count;
        let base = Base::Register(random.below(usize::from(count)) as u8);
        Derived { base, own: false, steps, plus: number, keep: None }
    }

    /// An operand with this one's number added: as a sum or, for a plain program, by an instruction in front.
    pub fn with_number(
        &self,
        class: Class,
        operand: String,
        number: usize,
        plain: bool,
        out: &mut Vec<String>,
    ) -> String {
        if self.plus == 0 || number >= OPERANDS {
            return operand;
        }
        if !plain {
            return format!("{operand}+{}", self.plus);
        }
        let bits = bits_class(class);
        let register = name(bits, number);
        let ty = ["s16", "s32", "s64"][bits.bytes().ilog2() as usize - 1];
        out.push(format!("add.{ty} {register}, {operand}, {};", bits.literal(self.plus as u64)));
        register
    }

    /// Without its first or its last step, or nothing if there is nothing to take away.
    pub fn simpler(&self, last: bool) -> Option<Derived> {
        let mut next = Derived { keep: None, ..*self };
        if next != *self {
            return Some(next);
        }
        if !last && self.plus != 0 && self.plus != 1 {
            return Some(Derived { plus: 1, ..*self });
        }
        let count = self.steps.iter().filter(|step| **step != 0).count();
        if count <= usize::from(self.plus == 0) {
            return None;
        }
        if last {
            next.steps[count - 1] = 0;
        } else {
            next.steps.rotate_left(1);
            next.steps[STEPS - 1] = 0;
        }
        Some(next)
    }

    /// The register with the value, after the instructions that compute it.
    pub fn operand(&self, class: Class, source: &str, number: usize, out: &mut Vec<String>) -> String {
        if number >= OPERANDS {
            return source.to_string();
        }
        let bits = bits_class(class);
        let register = name(bits, number);
        let mut at = source.to_string();
        if matches!(self.base, Base::Constant(_)) && bits != Class::Predicate {
            out.push(format!("mov.{} {register}, {source};", bits.info().ty));
            at = register.clone();
        }
        // The format of which the value is no NaN for certain.
        let mut number_of = None;
        for step in self.steps.iter().map_while(|number| step(bits, *number)) {
            match step {
                Step::Whole(operation) => {
                    if !self.own && operation.1 != number_of {
                        at = without_nan(operation.1, &at, &register, out);
                    }
                    out.push(operation.0.replace('D', &register).replace('S', &at));
                    number_of = operation.1;
                }
                Step::Half(high, operation) => {
                    let Some(part) = half(bits) else { continue };
                    let halves = [name(part, OPERANDS), name(part, OPERANDS + 1)];
                    let [low, up] = &halves;
                    let ty = bits.info().ty;
                    out.push(format!("mov.{ty} {{{low}, {up}}}, {at};"));
                    let changed = &halves[usize::from(high)];
                    without_nan(operation.1, changed, changed, out);
                    out.push(operation.0.replace(['D', 'S'], changed));
                    out.push(format!("mov.{ty} {register}, {{{low}, {up}}};"));
                    number_of = None;
                }
                Step::Mix(mix) => {
                    let Some(part) = half(bits) else { continue };
                    let (low, up, ty) = (name(part, OPERANDS), name(part, OPERANDS + 1), bits.info().ty);
                    out.push(format!("mov.{ty} {{{low}, {up}}}, {at};"));
                    out.push(format!("mov.{ty} {register}, {};", mix.replace('A', &low).replace('B', &up)));
                    number_of = None;
                }
            }
            at = register.clone();
        }
        at
    }
}

fn own_step(class: Class, random: &mut Random) -> u8 {
    let all = operations(bits_class(class)).iter().zip(1u8..);
    let fitting: Vec<u8> = all.filter(|(op, _)| op.1 == own_format(class)).map(|(_, n)| n).collect();
    random.pick(&fitting)
}

fn bits_step(bits: Class, random: &mut Random) -> u8 {
    1 + random.below(steps(bits)) as u8
}

fn base(class: Class, own: bool, random: &mut Random) -> Base {
    let class = if own { class } else { bits_class(class) };
    if !own && random.chance(8) && class != Class::Predicate {
        return Base::Constant(class.constant(random));
    }
    Base::Register(random.below(usize::from(class.info().count)) as u8)
}

fn name(bits: Class, number: usize) -> String {
    format!("%m{}{number}", bits.info().name)
}

/// The value in `to`, or a number where it is a NaN.
fn without_nan(format: Option<Format>, from: &str, to: &str, out: &mut Vec<String>) -> String {
    let (test, ty, one) = match format {
        None => return from.to_string(),
        Some(Format::F32) => ("testp.notanumber.f32 %tp1, S;", "b32", "0x3f800000"),
        Some(Format::F64) => ("testp.notanumber.f64 %tp1, S;", "b64", "0x3ff0000000000000"),
        Some(Format::F16) => ("setp.nan.f16 %tp1, S, S;", "b16", "0x3c00"),
        Some(Format::Bf16) => ("setp.nan.bf16 %tp1, S, S;", "b16", "0x3f80"),
        Some(Format::F16x2) => {
            ("setp.nan.f16x2 %tp0|%tp1, S, S; or.pred %tp1, %tp0, %tp1;", "b32", "0x3c003c00")
        }
        Some(Format::Bf16x2) => {
            ("setp.nan.bf16x2 %tp0|%tp1, S, S; or.pred %tp1, %tp0, %tp1;", "b32", "0x3f803f80")
        }
    };
    out.push(test.replace('S', from));
    out.push(format!("selp.{ty} {to}, {one}, {from}, %tp1;"));
    to.to_string()
}
