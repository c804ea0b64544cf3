//! The values that an option may have, where they can be listed: for ptxas's help text, for completions, and for advice.

use super::arch::Arch;
use super::table::{Id, Kind, Row};

impl Row {
    /// All values that the option takes, if they are few enough to be listed.
    pub fn allowed(&self) -> Vec<String> {
        match (self.id, self.kind) {
            (Id::Arch, _) => machines(),
            (_, Kind::NumberOf(numbers)) => numbers.iter().map(i32::to_string).collect(),
            (_, Kind::ListOf(words)) => words.iter().map(|word| word.to_string()).collect(),
            (Id::DumpIr | Id::DisablePass, _) => sassafras::pass_names().map(String::from).collect(),
            // What the help text calls the value names all of them.
            (_, Kind::Truth | Kind::OneOf(_) | Kind::Word) if self.value.contains('|') => {
                self.value.split('|').map(String::from).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Every name that `-arch` takes, in the order of ptxas's help text.
pub fn machines() -> Vec<String> {
    let numbers = || targets::PTX_TARGETS.iter().map(|target| target.name.trim_start_matches("sm_"));
    let all = ["compute_", "lto_", "sm_"]
        .into_iter()
        .flat_map(|prefix| numbers().map(move |n| format!("{prefix}{n}")));
    let mut names: Vec<String> = all.filter(|name| Arch::find(name).is_some()).collect();
    names.sort();
    names
}
