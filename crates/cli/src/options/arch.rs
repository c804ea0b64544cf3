//! The machines that `-arch` names.

use ptx::Target;

/// `-arch`: `sm_90` is compiled for; `compute_90` and `lto_90` are only checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Arch {
    pub name: String,
    pub target: Target,
}

impl Arch {
    pub fn find(name: &str) -> Option<Arch> {
        let number = ["sm_", "compute_", "lto_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
        let target = Target::find(&format!("sm_{number}"))?;
        // `.target` accepts more names than there is code for.
        targets::Target::of_sm(target.sm()).map(|_| Arch { name: name.to_string(), target })
    }

    /// Check, and write nothing.
    pub fn parse_only(&self) -> bool {
        !self.name.starts_with("sm_")
    }

    /// Names for link-time optimisation.
    pub fn is_lto(&self) -> bool {
        self.name.starts_with("lto_")
    }

    /// The number by which ptxas decides what a machine can do: `lto_90` can less than any machine.
    pub fn generation(&self) -> u16 {
        if self.is_lto() { 0 } else { self.target.sm() }
    }
}

impl Default for Arch {
    fn default() -> Arch {
        let target = Target::default();
        Arch { name: target.name().to_string(), target }
    }
}

pub fn is_known(name: &str) -> bool {
    Arch::find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_ptxas_lists() {
        let known = |prefix: &str| {
            let numbers = targets::PTX_TARGETS.iter().map(|t| t.name.trim_start_matches("sm_"));
            numbers.filter(|number| is_known(&format!("{prefix}{number}"))).count()
        };
        assert_eq!([known("sm_"), known("compute_"), known("lto_"), known("")], [23, 23, 23, 0]);
    }
}
