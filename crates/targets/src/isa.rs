//! The nine instruction encodings.

use crate::Target;

/// An instruction encoding. Targets that share one: 86 = 87 = 88, 120 = 121; `a` and `f` change nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// sm_75
    Sm75,
    /// sm_80
    Sm80,
    /// sm_86, sm_87, sm_88
    Sm86,
    /// sm_89
    Sm89,
    /// sm_90
    Sm90,
    /// sm_100
    Sm100,
    /// sm_103
    Sm103,
    /// sm_110
    Sm110,
    /// sm_120, sm_121
    Sm120,
}

impl Isa {
    /// Every encoding, oldest first.
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
        Target::of_sm(sm).map(|target| target.isa)
    }

    /// The lowest target number with this encoding.
    pub const fn sm(self) -> u32 {
        self.target().sm as u32
    }

    /// The first target with this encoding. All targets of an encoding agree on what code may contain.
    pub const fn target(self) -> &'static Target {
        let mut row = 0;
        while row + 1 < Target::ALL.len() && Target::ALL[row].isa as u8 != self as u8 {
            row += 1;
        }
        &Target::ALL[row]
    }

    /// URZ, the uniform register that reads as zero: the field is 6 bits wide up to sm_90, then 8.
    pub const fn urz(self) -> u8 {
        self.target().urz
    }
}
