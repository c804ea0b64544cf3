//! The names that `.target` accepts: those of [`Target::ALL`], and those of chips that there is no code for.

use crate::Target;

/// How specific a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    /// Runs on every later machine.
    None,
    /// `a`: this machine alone.
    Arch,
    /// `f`: this family of machines.
    Family,
}

/// A name that `.target` accepts.
#[derive(Clone, Copy, Debug)]
pub struct PtxTarget {
    /// `sm_90a`
    pub name: &'static str,
    /// 90
    pub sm: u16,
    /// `a`, `f` or nothing
    pub suffix: Suffix,
    /// The first PTX version that accepts it (major, minor), found by binary search over `.version` with ptxas 13.0.88,
    /// of sm_107 with 13.4.92.
    pub since: (u8, u8),
    /// The chip: `sm`, but for sm_101, which is sm_110 by its older name.
    pub chip: u16,
    /// Chips of a family run each other's family-specific code. The lowest SM that names the family.
    pub family: Option<u16>,
}

impl PtxTarget {
    pub(crate) const fn new(name: &'static str, sm: u16, suffix: Suffix, major: u8, minor: u8) -> PtxTarget {
        PtxTarget { name, sm, suffix, since: (major, minor), chip: sm, family: None }
    }

    pub(crate) const fn in_family(self, family: u16) -> PtxTarget {
        PtxTarget { family: Some(family), ..self }
    }

    const fn on_chip(self, chip: u16) -> PtxTarget {
        PtxTarget { chip, ..self }
    }
}

use PtxTarget as T;

/// Chips that PTX may name and that there is no code for.
const WITHOUT_CODE: [PtxTarget; 25] = [
    T::new("sm_10", 10, Suffix::None, 1, 0),
    T::new("sm_11", 11, Suffix::None, 1, 0),
    T::new("sm_12", 12, Suffix::None, 1, 2),
    T::new("sm_13", 13, Suffix::None, 1, 2),
    T::new("sm_20", 20, Suffix::None, 2, 0),
    T::new("sm_21", 21, Suffix::None, 2, 0),
    T::new("sm_30", 30, Suffix::None, 3, 0),
    T::new("sm_32", 32, Suffix::None, 4, 0),
    T::new("sm_35", 35, Suffix::None, 3, 1),
    T::new("sm_37", 37, Suffix::None, 4, 1),
    T::new("sm_50", 50, Suffix::None, 4, 0),
    T::new("sm_52", 52, Suffix::None, 4, 1),
    T::new("sm_53", 53, Suffix::None, 4, 2),
    T::new("sm_60", 60, Suffix::None, 5, 0),
    T::new("sm_61", 61, Suffix::None, 5, 0),
    T::new("sm_62", 62, Suffix::None, 5, 0),
    T::new("sm_70", 70, Suffix::None, 5, 1),
    T::new("sm_72", 72, Suffix::None, 6, 1),
    T::new("sm_82", 82, Suffix::None, 6, 2),
    T::new("sm_101", 101, Suffix::None, 8, 6).in_family(101).on_chip(110),
    T::new("sm_101a", 101, Suffix::Arch, 8, 6).in_family(101).on_chip(110),
    T::new("sm_101f", 101, Suffix::Family, 8, 8).in_family(101).on_chip(110),
    T::new("sm_107", 107, Suffix::None, 9, 4).in_family(100),
    T::new("sm_107a", 107, Suffix::Arch, 9, 4).in_family(100),
    T::new("sm_107f", 107, Suffix::Family, 9, 4).in_family(100),
];

/// How many names there are.
const COUNT: usize = {
    let (mut count, mut row) = (WITHOUT_CODE.len(), 0);
    while row < Target::ALL.len() {
        count += Target::ALL[row].ptx.len();
        row += 1;
    }
    count
};

/// Every name that `.target` accepts. Made at build time: the checker of PTX asks for each instruction.
pub static PTX_TARGETS: [PtxTarget; COUNT] = {
    let mut all = [WITHOUT_CODE[0]; COUNT];
    let mut next = 0;
    while next < WITHOUT_CODE.len() {
        all[next] = WITHOUT_CODE[next];
        next += 1;
    }
    let mut row = 0;
    while row < Target::ALL.len() {
        let names = Target::ALL[row].ptx;
        let mut name = 0;
        while name < names.len() {
            all[next] = names[name];
            (next, name) = (next + 1, name + 1);
        }
        row += 1;
    }
    all
};
