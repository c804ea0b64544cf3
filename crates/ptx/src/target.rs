//! PTX versions and targets: which exist, which go together, and what a requirement on them means.

/// A `.version`: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
}

impl Version {
    pub const fn new(major: u8, minor: u8) -> Version {
        Version { major, minor }
    }

    /// The oldest one: what needs no more needs no version.
    pub const FIRST: Version = Version::new(1, 0);

    /// The newest one that the front end knows.
    pub const CURRENT: Version = Version::new(9, 0);

    /// Has this version what came with that one? ptxas takes 5.1 for 6.0.
    pub fn reaches(self, other: Version) -> bool {
        self >= other || self == Version::new(5, 1) && other == Version::new(6, 0)
    }

    /// Every version that ptxas 13.0 accepts (`ptxas --list-version`).
    pub fn known(self) -> bool {
        const LAST_MINOR: [u8; 10] = [0, 5, 3, 2, 3, 1, 5, 8, 8, 0];
        self.major >= 1 && LAST_MINOR.get(self.major as usize).is_some_and(|last| self.minor <= *last)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    /// Runs on every later machine.
    None,
    /// `a`: this machine alone.
    Arch,
    /// `f`: this family of machines.
    Family,
}

/// A `.target` machine: an index into [`TARGETS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target(pub(crate) u8);

pub struct TargetInfo {
    pub name: &'static str,
    pub sm: u16,
    pub suffix: Suffix,
    /// The first PTX version that accepts it.
    pub since: Version,
}

const fn row(name: &'static str, sm: u16, suffix: Suffix, major: u8, minor: u8) -> TargetInfo {
    TargetInfo { name, sm, suffix, since: Version::new(major, minor) }
}

/// Every target and the first version that accepts it, found by binary search over `.version` with ptxas
/// 13.0.88.
pub const TARGETS: &[TargetInfo] = &[
    row("sm_10", 10, Suffix::None, 1, 0),
    row("sm_11", 11, Suffix::None, 1, 0),
    row("sm_12", 12, Suffix::None, 1, 2),
    row("sm_13", 13, Suffix::None, 1, 2),
    row("sm_20", 20, Suffix::None, 2, 0),
    row("sm_21", 21, Suffix::None, 2, 0),
    row("sm_30", 30, Suffix::None, 3, 0),
    row("sm_32", 32, Suffix::None, 4, 0),
    row("sm_35", 35, Suffix::None, 3, 1),
    row("sm_37", 37, Suffix::None, 4, 1),
    row("sm_50", 50, Suffix::None, 4, 0),
    row("sm_52", 52, Suffix::None, 4, 1),
    row("sm_53", 53, Suffix::None, 4, 2),
    row("sm_60", 60, Suffix::None, 5, 0),
    row("sm_61", 61, Suffix::None, 5, 0),
    row("sm_62", 62, Suffix::None, 5, 0),
    row("sm_70", 70, Suffix::None, 5, 1),
    row("sm_72", 72, Suffix::None, 6, 1),
    row("sm_75", 75, Suffix::None, 6, 3),
    row("sm_80", 80, Suffix::None, 7, 0),
    row("sm_82", 82, Suffix::None, 6, 2),
    row("sm_86", 86, Suffix::None, 7, 1),
    row("sm_87", 87, Suffix::None, 7, 4),
    row("sm_88", 88, Suffix::None, 7, 3),
    row("sm_89", 89, Suffix::None, 7, 8),
    row("sm_90", 90, Suffix::None, 7, 8),
    row("sm_90a", 90, Suffix::Arch, 8, 0),
    row("sm_100", 100, Suffix::None, 8, 6),
    row("sm_100a", 100, Suffix::Arch, 8, 6),
    row("sm_100f", 100, Suffix::Family, 8, 8),
    row("sm_101", 101, Suffix::None, 8, 6),
    row("sm_101a", 101, Suffix::Arch, 8, 6),
    row("sm_101f", 101, Suffix::Family, 8, 8),
    row("sm_103", 103, Suffix::None, 8, 8),
    row("sm_103a", 103, Suffix::Arch, 8, 8),
    row("sm_103f", 103, Suffix::Family, 8, 8),
    row("sm_110", 110, Suffix::None, 9, 0),
    row("sm_110a", 110, Suffix::Arch, 9, 0),
    row("sm_110f", 110, Suffix::Family, 9, 0),
    row("sm_120", 120, Suffix::None, 8, 7),
    row("sm_120a", 120, Suffix::Arch, 8, 7),
    row("sm_120f", 120, Suffix::Family, 8, 8),
    row("sm_121", 121, Suffix::None, 8, 8),
    row("sm_121a", 121, Suffix::Arch, 8, 8),
    row("sm_121f", 121, Suffix::Family, 8, 8),
];

impl Target {
    /// By name; `compute_90a` means `sm_90a`.
    pub fn find(name: &str) -> Option<Target> {
        let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
        TARGETS.iter().position(|t| &t.name[3..] == number).map(|i| Target(i as u8))
    }

    fn info(self) -> &'static TargetInfo {
        &TARGETS[self.0 as usize]
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }

    pub fn sm(self) -> u16 {
        self.info().sm
    }

    pub fn suffix(self) -> Suffix {
        self.info().suffix
    }

    pub fn since(self) -> Version {
        self.info().since
    }
}

/// Machines that run each other's family-specific code.
const FAMILIES: &[&[u16]] = &[&[100, 103], &[101, 110], &[120, 121]];

impl Target {
    /// Why code for this target cannot be compiled for the machine that the command line names, in ptxas's words.
    /// Read off all pairs of targets and machines.
    pub fn refusal(self, arch: Target, arch_name: &str) -> Option<String> {
        let name = self.name();
        // sm_101 is sm_110 by its older name.
        let machine = |t: Target| if t.sm() == 101 { 110 } else { t.sm() };
        let family = |t: Target| FAMILIES.iter().position(|f| f.contains(&t.sm()));
        if self.sm() > arch.sm() {
            return Some("SM version specified by .target is higher than default SM version assumed".into());
        }
        match self.suffix() {
            Suffix::Arch if machine(self) != machine(arch) => {
                Some(format!("Program with .target '{name}' cannot be compiled to future architecture"))
            }
            Suffix::Arch if arch.suffix() != Suffix::Arch => {
                Some(format!("PTX with .target '{name}' cannot be compiled for architecture '{arch_name}'"))
            }
            Suffix::Family if family(self) != family(arch) => {
                let text = "cannot be compiled to different SM-family architecture";
                Some(format!("Program with .target '{name}' {text}"))
            }
            _ => None,
        }
    }
}

impl Default for Target {
    /// ptxas's default machine.
    fn default() -> Target {
        Target::find("sm_75").unwrap_or(Target(0))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
