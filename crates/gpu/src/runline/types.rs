//! Numbers of run lines: ten types, and arithmetic on their bits.
//!
//! A value is a `u64`. Integers are kept extended to 64 bits by their own signedness, floats as their bits in
//! the low end, so that equal values of a type are equal numbers (but for NaNs and the two zeros).

pub use random::splitmix64;

/// The type of a scalar or of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    kind: Kind,
    bytes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    Float,
}

const NAMES: [(&str, Type); 10] = [
    ("u8", Type { kind: Kind::Unsigned, bytes: 1 }),
    ("u16", Type { kind: Kind::Unsigned, bytes: 2 }),
    ("u32", Type { kind: Kind::Unsigned, bytes: 4 }),
    ("u64", Type { kind: Kind::Unsigned, bytes: 8 }),
    ("s8", Type { kind: Kind::Signed, bytes: 1 }),
    ("s16", Type { kind: Kind::Signed, bytes: 2 }),
    ("s32", Type { kind: Kind::Signed, bytes: 4 }),
    ("s64", Type::S64),
    ("f32", Type::F32),
    ("f64", Type::F64),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Min,
    Max,
}

impl Op {
    /// Whether floats have it.
    pub fn takes_floats(self) -> bool {
        matches!(self, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Min | Op::Max)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Type {
    /// The type of indices and of integers that nothing else gives a type.
    pub(super) const S64: Type = Type { kind: Kind::Signed, bytes: 8 };
    pub(super) const F32: Type = Type { kind: Kind::Float, bytes: 4 };
    pub(super) const F64: Type = Type { kind: Kind::Float, bytes: 8 };

    pub fn named(name: &str) -> Option<Type> {
        NAMES.iter().find(|(known, _)| *known == name).map(|&(_, ty)| ty)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, ty)| *ty == self).map_or("?", |&(name, _)| name)
    }

    /// In bytes.
    pub fn size(self) -> usize {
        usize::from(self.bytes)
    }

    pub fn is_float(self) -> bool {
        self.kind == Kind::Float
    }

    /// The value at the start of `bytes`; bytes that are missing read as zero.
    pub fn load(self, bytes: &[u8]) -> u64 {
        let mut raw = [0; 8];
        raw.iter_mut().zip(bytes.iter().take(self.size())).for_each(|(to, from)| *to = *from);
        self.extend(u64::from_le_bytes(raw))
    }

    pub fn store(self, value: u64, out: &mut Vec<u8>) {
        out.extend(value.to_le_bytes().iter().take(self.size()));
    }

    /// As a person reads it; floats with their bits, because a decimal can hide a wrong last place.
    pub fn show(self, value: u64) -> String {
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => format!("{:?} (0f{value:08X})", f32_of(value)),
            (Kind::Float, _) => format!("{:?} (0d{value:016X})", f64::from_bits(value)),
            (Kind::Signed, _) => format!("{}", value as i64),
            (Kind::Unsigned, _) => format!("{value} ({value:#x})"),
        }
    }

    /// Whether a run may give `got` where `want` is expected: the same bits, or two NaNs of any payload.
    pub fn agrees(self, got: u64, want: u64) -> bool {
        got == want || (self.is_nan(got) && self.is_nan(want))
    }

    fn is_nan(self, value: u64) -> bool {
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => f32_of(value).is_nan(),
            (Kind::Float, _) => f64::from_bits(value).is_nan(),
            _ => false,
        }
    }

    /// Drops the bits that the type does not have.
    fn extend(self, bits: u64) -> u64 {
        let spare = 64 - 8 * u32::from(self.bytes);
        match self.kind {
            Kind::Signed => ((bits << spare) as i64 >> spare) as u64,
            Kind::Unsigned | Kind::Float => bits << spare >> spare,
        }
    }

    /// The integer modulo the type's range, or the nearest float.
    pub(super) fn of_integer(self, value: i128) -> u64 {
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => u64::from((value as f32).to_bits()),
            (Kind::Float, _) => (value as f64).to_bits(),
            _ => self.extend(value as u64),
        }
    }

    /// The value of an integer type.
    pub(super) fn to_integer(self, value: u64) -> i128 {
        if self.kind == Kind::Signed { i128::from(value as i64) } else { i128::from(value) }
    }

    /// The value as another type: integers wrap, floats round to nearest even, and a float becomes the
    /// integer nearest to it towards zero, held to the type's range, with 0 for NaN (as `cvt.rzi` does).
    pub(super) fn convert(self, value: u64, to: Type) -> u64 {
        if !self.is_float() {
            return to.of_integer(self.to_integer(value));
        }
        match (self.bytes, to.kind, to.bytes) {
            (4, Kind::Float, 8) => f64::from(f32_of(value)).to_bits(),
            (8, Kind::Float, 4) => u64::from((f64::from_bits(value) as f32).to_bits()),
            (_, Kind::Float, _) => value,
            (4, ..) => to.saturate(f64::from(f32_of(value))),
            _ => to.saturate(f64::from_bits(value)),
        }
    }

    fn saturate(self, value: f64) -> u64 {
        let bits = 8 * u32::from(self.bytes);
        let (low, high) = match self.kind {
            Kind::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        };
        self.of_integer((value as i128).clamp(low, high))
    }

    /// `a op b`. Integers wrap; a shift by the width or more leaves zeros, or signs. `None`: a division by
    /// zero, or an operation that floats do not have.
    pub(super) fn binary(self, op: Op, a: u64, b: u64) -> Option<u64> {
        if self.is_float() && !op.takes_floats() {
            return None;
        }
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => Some(u64::from(f32_binary(op, f32_of(a), f32_of(b)).to_bits())),
            (Kind::Float, _) => Some(f64_binary(op, f64::from_bits(a), f64::from_bits(b)).to_bits()),
            _ => {
                integer_binary(op, self.to_integer(a), self.to_integer(b)).map(|value| self.of_integer(value))
            }
        }
    }

    /// `a * b + c`, for floats rounded once.
    pub(super) fn fma(self, a: u64, b: u64, c: u64) -> u64 {
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => u64::from(f32_of(a).mul_add(f32_of(b), f32_of(c)).to_bits()),
            (Kind::Float, _) => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
            _ => self.extend(a.wrapping_mul(b).wrapping_add(c)),
        }
    }

    pub(super) fn negate(self, value: u64) -> u64 {
        match (self.kind, self.bytes) {
            (Kind::Float, bytes) => value ^ 1 << (8 * u32::from(bytes) - 1),
            _ => self.extend(value.wrapping_neg()),
        }
    }

    pub(super) fn complement(self, value: u64) -> u64 {
        self.extend(!value)
    }

    /// Comparisons with NaN are false, but for `Ne`.
    pub(super) fn holds(self, relation: Relation, a: u64, b: u64) -> bool {
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => ordered(relation, f32_of(a), f32_of(b)),
            (Kind::Float, _) => ordered(relation, f64::from_bits(a), f64::from_bits(b)),
            _ => ordered(relation, self.to_integer(a), self.to_integer(b)),
        }
    }

    /// The `index`-th number of the generator that README.md describes: anything that the type can hold, or
    /// for floats a fraction in [-1, 1) with as many bits as the type is precise.
    pub(super) fn random(self, seed: u64, index: u64) -> u64 {
        let word = splitmix64(seed, index);
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => {
                let fraction = ((word >> 40) as f32 - (1 << 23) as f32) / (1 << 23) as f32;
                u64::from(fraction.to_bits())
            }
            (Kind::Float, _) => {
                let fraction = ((word >> 11) as f64 - (1u64 << 52) as f64) / (1u64 << 52) as f64;
                fraction.to_bits()
            }
            _ => self.extend(word >> (64 - 8 * u32::from(self.bytes))),
        }
    }

    /// A whole number from `low` up to but not including `high`; `None` where there is none.
    pub(super) fn random_between(self, seed: u64, index: u64, low: i128, high: i128) -> Option<u64> {
        let span = u128::try_from(high - low).ok().filter(|span| (1..=1 << 64).contains(span))?;
        let offset = (span * u128::from(splitmix64(seed, index))) >> 64;
        Some(self.of_integer(low + offset as i128))
    }
}

fn f32_of(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn integer_binary(op: Op, a: i128, b: i128) -> Option<i128> {
    let count = u32::try_from(b).unwrap_or(u32::MAX);
    Some(match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div => a.checked_div(b)?,
        Op::Rem => a.checked_rem(b)?,
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => a.checked_shl(count).unwrap_or(0),
        Op::Shr => a >> count.min(127),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
    })
}

/// `min` and `max` as PTX has them: a NaN gives way to a number, and -0 is below +0.
macro_rules! float_binary {
    ($name:ident, $float:ty) => {
        fn $name(op: Op, a: $float, b: $float) -> $float {
            let below = a.total_cmp(&b).is_lt();
            match op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::Div => a / b,
                _ if a.is_nan() => b,
                _ if b.is_nan() => a,
                Op::Min => {
                    if below {
                        a
                    } else {
                        b
                    }
                }
                _ => {
                    if below {
                        b
                    } else {
                        a
                    }
                }
            }
        }
    };
}

float_binary!(f32_binary, f32);
float_binary!(f64_binary, f64);

fn ordered<T: PartialOrd>(relation: Relation, a: T, b: T) -> bool {
    match relation {
        Relation::Eq => a == b,
        Relation::Ne => a != b,
        Relation::Lt => a < b,
        Relation::Le => a <= b,
        Relation::Gt => a > b,
        Relation::Ge => a >= b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(name: &str) -> Type {
        Type::named(name).unwrap()
    }

    fn f32_bits(value: f32) -> u64 {
        u64::from(value.to_bits())
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The published test vector of the algorithm for seed 1234567.
        let words: Vec<u64> = (0..5).map(|index| splitmix64(1234567, index)).collect();
        let expected = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn integers_wrap_at_their_own_width() {
        assert_eq!(ty("u32").binary(Op::Add, 0xffff_ffff, 2), Some(1));
        assert_eq!(ty("u8").binary(Op::Mul, 200, 3), Some(600 % 256));
        assert_eq!(ty("s32").binary(Op::Add, i32::MAX as u64, 1), Some(i32::MIN as i64 as u64));
        assert_eq!(ty("s32").binary(Op::Div, -7i64 as u64, 2), Some(-3i64 as u64));
        assert_eq!(ty("s32").binary(Op::Rem, -7i64 as u64, 2), Some(-1i64 as u64));
        assert_eq!(ty("u64").binary(Op::Mul, u64::MAX, u64::MAX), Some(1));
        assert_eq!(ty("s64").binary(Op::Div, i64::MIN as u64, -1i64 as u64), Some(i64::MIN as u64));
        assert_eq!(ty("u32").binary(Op::Div, 1, 0), None);
    }

    #[test]
    fn shifts_past_the_width_leave_zeros_or_signs() {
        let minus_eight = -8i64 as u64;
        assert_eq!(ty("u32").binary(Op::Shl, 1, 31), Some(0x8000_0000));
        assert_eq!(ty("u32").binary(Op::Shl, 1, 32), Some(0));
        assert_eq!(ty("u32").binary(Op::Shl, 1, 200), Some(0));
        assert_eq!(ty("u32").binary(Op::Shr, 0x8000_0000, 40), Some(0));
        assert_eq!(ty("s32").binary(Op::Shr, minus_eight, 1), Some(-4i64 as u64));
        assert_eq!(ty("s32").binary(Op::Shr, minus_eight, 99), Some(u64::MAX));
    }

    #[test]
    fn f32_arithmetic_rounds_to_f32() {
        let (a, b) = (16_777_216.0f32, 1.0f32);
        assert_eq!(ty("f32").binary(Op::Add, f32_bits(a), f32_bits(b)), Some(f32_bits(a)));
        assert_eq!(ty("f32").binary(Op::Rem, f32_bits(a), f32_bits(b)), None);
        // 1 + 2^-12 squared needs 25 bits: rounded alone it loses 2^-24, in an fma it does not.
        let x = 1.0 + 1.0 / 4096.0;
        let squared = f32_bits(x * x);
        assert_eq!(
            ty("f32").fma(f32_bits(x), f32_bits(x), ty("f32").negate(squared)),
            f32_bits(2f32.powi(-24))
        );
    }

    #[test]
    fn float_min_and_max_follow_ptx() {
        let (nan, zero, minus_zero) = (f32_bits(f32::NAN), f32_bits(0.0), f32_bits(-0.0));
        assert_eq!(ty("f32").binary(Op::Min, nan, f32_bits(3.0)), Some(f32_bits(3.0)));
        assert_eq!(ty("f32").binary(Op::Max, f32_bits(3.0), nan), Some(f32_bits(3.0)));
        assert_eq!(ty("f32").binary(Op::Min, zero, minus_zero), Some(minus_zero));
        assert_eq!(ty("f32").binary(Op::Max, minus_zero, zero), Some(zero));
    }

    #[test]
    fn conversions_round_wrap_and_saturate() {
        assert_eq!(ty("s32").convert(-1i64 as u64, ty("u32")), 0xffff_ffff);
        assert_eq!(ty("u32").convert(16_777_217, ty("f32")), f32_bits(16_777_216.0));
        assert_eq!(ty("f32").convert(f32_bits(-2.7), ty("s32")), -2i64 as u64);
        assert_eq!(ty("f32").convert(f32_bits(-2.7), ty("u32")), 0);
        assert_eq!(ty("f32").convert(f32_bits(1e30), ty("s32")), i32::MAX as u64);
        assert_eq!(ty("f32").convert(f32_bits(f32::NAN), ty("s32")), 0);
        assert_eq!(ty("f64").convert(0.1f64.to_bits(), ty("f32")), f32_bits(0.1));
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        for index in 0..1000 {
            let fraction = f32_of(ty("f32").random(7, index));
            assert!((-1.0..1.0).contains(&fraction));
            let whole = f32_of(ty("f32").random_between(7, index, -8, 8).unwrap());
            assert!((-8.0..8.0).contains(&whole) && whole.fract() == 0.0);
            assert!((5..9).contains(&ty("u32").random_between(7, index, 5, 9).unwrap()));
        }
        assert_eq!(ty("u32").random_between(7, 0, 5, 5), None);
        assert_eq!(ty("u64").random(3, 4), splitmix64(3, 4));
    }

    #[test]
    fn memory_is_little_endian() {
        let mut bytes = Vec::new();
        ty("s16").store(-2i64 as u64, &mut bytes);
        assert_eq!(bytes, [0xfe, 0xff]);
        assert_eq!(ty("s16").load(&bytes), -2i64 as u64);
        assert_eq!(ty("u16").load(&bytes), 0xfffe);
    }
}
