//! The classes of registers that programs have, and values that are worth trying in them.

use random::Random;

/// What a register holds. Integers and floats of one width are apart, so that bits of a NaN never get into integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Predicate,
    Short,
    Word,
    Long,
    Float,
    Double,
    Half,
    HalfPair,
    Brain,
    BrainPair,
}

pub struct Info {
    pub class: Class,
    /// In the table of templates.
    pub letter: char,
    /// The type of the declaration.
    pub ty: &'static str,
    /// Registers are called `%` and this and a number.
    pub name: &'static str,
    /// How many a program has.
    pub count: u8,
    pub bytes: usize,
}

#[rustfmt::skip]
pub const CLASSES: [Info; 10] = [
    Info { class: Class::Predicate, letter: 'p', ty: "pred", name: "p", count: 4, bytes: 1 },
    Info { class: Class::Short,     letter: 'h', ty: "b16",  name: "h", count: 4, bytes: 2 },
    Info { class: Class::Word,      letter: 'r', ty: "b32",  name: "r", count: 8, bytes: 4 },
    Info { class: Class::Long,      letter: 'd', ty: "b64",  name: "d", count: 4, bytes: 8 },
    Info { class: Class::Float,     letter: 'f', ty: "f32",  name: "f", count: 6, bytes: 4 },
    Info { class: Class::Double,    letter: 'g', ty: "f64",  name: "g", count: 4, bytes: 8 },
    Info { class: Class::Half,      letter: 'e', ty: "b16",  name: "e", count: 3, bytes: 2 },
    Info { class: Class::HalfPair,  letter: 'E', ty: "b32",  name: "x", count: 3, bytes: 4 },
    Info { class: Class::Brain,     letter: 'b', ty: "b16",  name: "b", count: 2, bytes: 2 },
    Info { class: Class::BrainPair, letter: 'B', ty: "b32",  name: "y", count: 2, bytes: 4 },
];

/// All registers, in the order in which their values lie in memory.
pub fn registers() -> impl Iterator<Item = (Class, u8)> {
    CLASSES.iter().flat_map(|info| (0..info.count).map(|number| (info.class, number)))
}

const INTEGERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
];

/// Exponents and significands of a format: zeros, subnormals, ones, largest values, infinities, NaNs.
fn float(random: &mut Random, exponent_bits: u32, significand_bits: u32) -> u64 {
    let (top, ones) = ((1u64 << exponent_bits) - 1, (1u64 << significand_bits) - 1);
    let bias = top >> 1;
    let near = bias.wrapping_add(random.below(9) as u64).wrapping_sub(4) & top;
    let exponent = match random.below(12) {
        0 => 0,
        1 => random.pick(&[1, 2, top - 1]),
        2 => top,
        3 => (bias + random.below(2 * significand_bits as usize + 20) as u64) & (top - 1).max(1),
        4 => random.next() & top,
        _ => near,
    };
    let significand = match random.below(4) {
        0 => 0,
        1 => random.pick(&[1, ones, 1 << (significand_bits - 1)]),
        2 => (random.next() & 7) << (significand_bits - 3),
        _ => random.next() & ones,
    };
    let sign = random.next() & 1;
    (sign << exponent_bits | exponent) << significand_bits | significand
}

impl Class {
    pub fn info(self) -> &'static Info {
        &CLASSES[self as usize]
    }

    pub fn bytes(self) -> usize {
        self.info().bytes
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    /// A value that is worth trying.
    pub fn constant(self, random: &mut Random) -> u64 {
        let value = match self {
            Class::Predicate => random.next() & 1,
            Class::Short | Class::Word | Class::Long => match random.below(10) {
                0..4 => random.pick(&INTEGERS),
                4 => random.pick(&INTEGERS).wrapping_neg(),
                5 => 1 << random.below(64),
                6 | 7 => random.below(256) as u64,
                _ => random.next(),
            },
            Class::Float => float(random, 8, 23),
            Class::Double => float(random, 11, 52),
            Class::Half => float(random, 5, 10),
            Class::Brain => float(random, 8, 7),
            Class::HalfPair => float(random, 5, 10) << 16 | float(random, 5, 10),
            Class::BrainPair => float(random, 8, 7) << 16 | float(random, 8, 7),
        };
        value & self.mask()
    }

    /// A constant as PTX text. Halves have none.
    pub fn literal(self, bits: u64) -> String {
        match self {
            Class::Float => format!("0f{bits:08x}"),
            Class::Double => format!("0d{bits:016x}"),
            Class::Short => format!("{}", bits as u16 as i16),
            Class::Word => format!("{}", bits as u32 as i32),
            _ => format!("{}", bits as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_the_order_of_the_enumeration() {
        for (i, info) in CLASSES.iter().enumerate() {
            assert_eq!(info.class as usize, i);
        }
    }

    #[test]
    fn constants_fit_their_class() {
        let mut random = Random::new(7);
        for info in &CLASSES {
            for _ in 0..1000 {
                assert_eq!(info.class.constant(&mut random) & !info.class.mask(), 0);
            }
        }
    }
}
