//! The types of PTX: how wide a value is and what its bits mean.

use crate::words::Word;

/// What the bits of a value mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub enum Class {
    /// Untyped bits.
    Bits,
    Unsigned,
    Signed,
    Float,
    /// Two or more narrow values in one register; the register is declared with a type of `Bits`.
    Packed,
    Pred,
    /// `.texref .samplerref .surfref`: opaque handles of 64 bits.
    Opaque,
}

/// A type, as small as a byte: an index into [`TYPES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub(crate) u8);

/// Name, width of the register in bits, class, and whether a register can be declared with it.
const TYPES: &[(&str, u16, Class, bool)] = &[
    ("b8", 8, Class::Bits, true),
    ("b16", 16, Class::Bits, true),
    ("b32", 32, Class::Bits, true),
    ("b64", 64, Class::Bits, true),
    ("b128", 128, Class::Bits, true),
    ("u8", 8, Class::Unsigned, true),
    ("u16", 16, Class::Unsigned, true),
    ("u32", 32, Class::Unsigned, true),
    ("u64", 64, Class::Unsigned, true),
    ("s8", 8, Class::Signed, true),
    ("s16", 16, Class::Signed, true),
    ("s32", 32, Class::Signed, true),
    ("s64", 64, Class::Signed, true),
    ("f16", 16, Class::Float, true),
    ("f16x2", 32, Class::Packed, true),
    ("bf16", 16, Class::Packed, false),
    ("bf16x2", 32, Class::Packed, false),
    ("tf32", 32, Class::Packed, false),
    ("f32", 32, Class::Float, true),
    ("f32x2", 64, Class::Packed, false),
    ("f64", 64, Class::Float, true),
    ("pred", 1, Class::Pred, true),
    ("u16x2", 32, Class::Packed, false),
    ("s16x2", 32, Class::Packed, false),
    ("b1", 1, Class::Packed, false),
    ("u2", 2, Class::Packed, false),
    ("s2", 2, Class::Packed, false),
    ("b2", 2, Class::Packed, false),
    ("u4", 4, Class::Packed, false),
    ("s4", 4, Class::Packed, false),
    ("e4m3", 8, Class::Packed, false),
    ("e5m2", 8, Class::Packed, false),
    ("e2m3", 8, Class::Packed, false),
    ("e3m2", 8, Class::Packed, false),
    ("e2m1", 8, Class::Packed, false),
    ("e4m3x2", 16, Class::Packed, false),
    ("e5m2x2", 16, Class::Packed, false),
    ("e2m3x2", 16, Class::Packed, false),
    ("e3m2x2", 16, Class::Packed, false),
    ("e2m1x2", 8, Class::Packed, false),
    ("e4m3x4", 32, Class::Packed, false),
    ("e5m2x4", 32, Class::Packed, false),
    ("e2m3x4", 32, Class::Packed, false),
    ("e3m2x4", 32, Class::Packed, false),
    ("e2m1x4", 16, Class::Packed, false),
    ("ue8m0", 8, Class::Packed, false),
    ("ue8m0x2", 16, Class::Packed, false),
    ("ue4m3", 8, Class::Packed, false),
    ("b1024", 1024, Class::Bits, false),
    ("b8x16", 8, Class::Packed, false),
    ("b6x16_p32", 8, Class::Packed, false),
    ("b4x16_p64", 8, Class::Packed, false),
    ("texref", 64, Class::Opaque, false),
    ("samplerref", 64, Class::Opaque, false),
    ("surfref", 64, Class::Opaque, false),
];

impl Type {
    /// `.b8`
    pub const B8: Type = Type(0);
    /// `.b16`
    pub const B16: Type = Type(1);
    /// `.b32`
    pub const B32: Type = Type(2);
    /// `.b64`
    pub const B64: Type = Type(3);
    /// `.u32`
    pub const U32: Type = Type(7);
    /// `.u64`
    pub const U64: Type = Type(8);
    /// `.s64`
    pub const S64: Type = Type(12);
    /// `.f32`
    pub const F32: Type = Type(18);
    /// `.f64`
    pub const F64: Type = Type(20);
    /// `.pred`
    pub const PRED: Type = Type(21);

    /// From the name without its dot.
    pub fn find(name: &str) -> Option<Type> {
        TYPES.iter().position(|t| t.0 == name).map(|i| Type(i as u8))
    }

    /// The type that a modifier names.
    pub fn of_word(word: Word) -> Option<Type> {
        Type::find(&word.text()[1..])
    }

    /// Untyped bits of a width.
    pub fn bits_of(bits: u32) -> Option<Type> {
        TYPES.iter().position(|t| u32::from(t.1) == bits && t.2 == Class::Bits).map(|i| Type(i as u8))
    }

    /// Its place in the list of types.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Without the dot.
    pub fn name(self) -> &'static str {
        TYPES[self.0 as usize].0
    }

    /// Width of the value (and of its register) in bits.
    pub fn bits(self) -> u32 {
        u32::from(TYPES[self.0 as usize].1)
    }

    /// Size in memory, in bytes.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// What its bits mean.
    pub fn class(self) -> Class {
        TYPES[self.0 as usize].2
    }

    /// May registers be declared with it?
    pub fn declarable(self) -> bool {
        TYPES[self.0 as usize].3
    }

    /// Is it a floating-point type (not a packed one)?
    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    /// Is it `.uN` or `.sN`?
    pub fn is_int(self) -> bool {
        matches!(self.class(), Class::Unsigned | Class::Signed)
    }

    /// Is it `.sN`?
    pub fn is_signed(self) -> bool {
        self.class() == Class::Signed
    }

    /// The type of a register of 32 bits that holds two of this, if it is a float of 16 bits.
    pub fn paired(self) -> Type {
        match self.name() {
            "f16" => Type::find("f16x2"),
            "bf16" => Type::find("bf16x2"),
            _ => None,
        }
        .unwrap_or(self)
    }

    /// The type of the same class and twice the width, as `mul.wide` and `mad.wide` give.
    pub fn widened(self) -> Option<Type> {
        let class = self.class();
        TYPES.iter().position(|t| t.2 == class && t.1 == 2 * self.bits() as u16).map(|i| Type(i as u8))
    }
}

impl std::fmt::Debug for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, ".{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_name_what_they_say() {
        let named = [
            (Type::B8, "b8"),
            (Type::B16, "b16"),
            (Type::B32, "b32"),
            (Type::B64, "b64"),
            (Type::U32, "u32"),
            (Type::U64, "u64"),
            (Type::S64, "s64"),
            (Type::F32, "f32"),
            (Type::F64, "f64"),
            (Type::PRED, "pred"),
        ];
        for (ty, name) in named {
            assert_eq!(ty.name(), name);
        }
        assert_eq!(Type::U32.widened(), Some(Type::U64));
    }
}
