//! PTX versions and targets: which exist, which go together, and what a requirement on them means. The
//! table of targets is in the crate `targets`.

pub use targets::Suffix;

use targets::{PTX_TARGETS, PtxTarget};

/// A `.version`: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Version {
    pub major: u8,
    pub minor: u8,
}

impl Version {
    /// `.version major.minor`
    pub const fn new(major: u8, minor: u8) -> Version {
        Version { major, minor }
    }

    /// The oldest one: what needs no more needs no version.
    pub const FIRST: Version = Version::new(1, 0);

    /// Has this version what came with that one? ptxas takes 5.1 for 6.0.
    pub fn reaches(self, other: Version) -> bool {
        self >= other || self == Version::new(5, 1) && other == Version::new(6, 0)
    }
}

/// A release of the CUDA toolkit, by what its ptxas knows of PTX. Each knows all that the earlier ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the releases")]
pub enum Toolkit {
    V13_0,
    V13_1,
    V13_2,
    V13_3,
    V13_4,
}

impl Toolkit {
    /// Every release, the oldest first.
    pub const ALL: [Toolkit; 5] =
        [Toolkit::V13_0, Toolkit::V13_1, Toolkit::V13_2, Toolkit::V13_3, Toolkit::V13_4];

    /// The release that we stand in for unless another is asked for.
    pub const USUAL: Toolkit = Toolkit::V13_0;

    /// The newest one, which accepts all PTX that the others do.
    pub const NEWEST: Toolkit = Toolkit::V13_4;

    /// `13.0`
    pub fn name(self) -> &'static str {
        ["13.0", "13.1", "13.2", "13.3", "13.4"][self as usize]
    }

    /// What its ptxas says of itself: that of the newest package of the release.
    pub fn full_version(self) -> &'static str {
        ["13.0.88", "13.1.115", "13.2.86", "13.3.73", "13.4.92"][self as usize]
    }

    /// By name.
    pub fn find(name: &str) -> Option<Toolkit> {
        Toolkit::ALL.into_iter().find(|toolkit| toolkit.name() == name)
    }

    /// The newest PTX that it accepts: each release brought the next minor version.
    pub fn newest_ptx(self) -> Version {
        Version::new(9, self as u8)
    }

    /// Does it accept this version (`ptxas --list-version`)?
    pub fn accepts(self, version: Version) -> bool {
        const LAST_MINOR: [u8; 9] = [0, 5, 3, 2, 3, 1, 5, 8, 8];
        match LAST_MINOR.get(version.major as usize) {
            Some(last) => version.major >= 1 && version.minor <= *last,
            None => version.major == 9 && version <= self.newest_ptx(),
        }
    }

    /// Every version that it accepts, the oldest first.
    pub fn versions(self) -> impl Iterator<Item = Version> {
        let all = (1..=9).flat_map(|major| (0..10).map(move |minor| Version::new(major, minor)));
        all.filter(move |version| self.accepts(*version))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A `.target` machine: an index into [`PTX_TARGETS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target(pub(crate) u8);

impl Target {
    /// By name; `compute_90a` means `sm_90a`.
    pub fn find(name: &str) -> Option<Target> {
        let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
        PTX_TARGETS.iter().position(|t| &t.name[3..] == number).map(|i| Target(i as u8))
    }

    fn info(self) -> &'static PtxTarget {
        &PTX_TARGETS[self.0 as usize]
    }

    /// `sm_90a`
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// 90 of `sm_90a`.
    pub fn sm(self) -> u16 {
        self.info().sm
    }

    /// The description of the chip, if there is code for it.
    pub fn row(self) -> Option<&'static targets::Target> {
        targets::Target::of_sm(self.info().chip)
    }

    /// `a`, `f` or none.
    pub fn suffix(self) -> Suffix {
        self.info().suffix
    }

    /// Does this release know the name?
    pub fn is_known_to(self, toolkit: Toolkit) -> bool {
        self.since() <= toolkit.newest_ptx()
    }

    /// The first version that accepts it.
    pub fn since(self) -> Version {
        let (major, minor) = self.info().since;
        Version::new(major, minor)
    }
}

impl Target {
    /// Why code for this target cannot be compiled for the machine that the command line names, in ptxas's words.
    /// Read off all pairs of targets and machines.
    pub fn refusal(self, arch: Target, arch_name: &str) -> Option<String> {
        let name = self.name();
        if self.sm() > arch.sm() {
            return Some("SM version specified by .target is higher than default SM version assumed".into());
        }
        match self.suffix() {
            Suffix::Arch if self.info().chip != arch.info().chip => {
                Some(format!("Program with .target '{name}' cannot be compiled to future architecture"))
            }
            Suffix::Arch if arch.suffix() != Suffix::Arch => {
                Some(format!("PTX with .target '{name}' cannot be compiled for architecture '{arch_name}'"))
            }
            Suffix::Family if self.info().family != arch.info().family => {
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
