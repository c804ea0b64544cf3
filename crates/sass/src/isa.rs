//! The nine encodings.

/// An instruction encoding. Targets that share one: 86 = 87 = 88, 120 = 121; `a` and `f` change nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    Sm75,
    Sm80,
    Sm86,
    Sm89,
    Sm90,
    Sm100,
    Sm103,
    Sm110,
    Sm120,
}

impl Isa {
    pub const ALL: [Isa; 9] = [
        Isa::Sm75,
        Isa::Sm80,
        Isa::Sm86,
        Isa::Sm89,
        Isa::Sm90,
        Isa::Sm100,
        Isa::Sm103,
        Isa::Sm110,
        Isa::Sm120,
    ];

    /// The encoding of a target number: 75, 86, 121.
    pub fn of_sm(sm: u32) -> Option<Isa> {
        Some(match sm {
            75 => Isa::Sm75,
            80 => Isa::Sm80,
            86..=88 => Isa::Sm86,
            89 => Isa::Sm89,
            90 => Isa::Sm90,
            100 => Isa::Sm100,
            103 => Isa::Sm103,
            110 => Isa::Sm110,
            120 | 121 => Isa::Sm120,
            _ => return None,
        })
    }

    /// The lowest target number with this encoding.
    pub fn sm(self) -> u32 {
        [75, 80, 86, 89, 90, 100, 103, 110, 120][self as usize]
    }

    /// URZ, the uniform register that reads as zero: the field is 6 bits wide up to sm_90, then 8.
    pub fn urz(self) -> u8 {
        if self <= Isa::Sm90 { 63 } else { 255 }
    }
}

/// A set of encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsaSet(pub(crate) u16);

impl IsaSet {
    pub fn contains(self, isa: Isa) -> bool {
        self.0 >> isa as u16 & 1 == 1
    }
}
