//! The command line: ptxas's words, and a few of our own.
//!
//! [`table`] has every option, [`parse`](mod@parse) the grammar, [`rules`] what ptxas says about options that don't
//! go together or don't fit the machine, [`help`] the texts for people.

mod arch;
pub mod help;
mod number;
mod parse;
mod ptxas_help;
mod rules;
mod table;
mod values;
mod words;

pub use arch::Arch;
pub use parse::{Given, parse};
pub use rules::{check, check_for_compilation, check_for_module, is_debugged};
pub use table::{Effect, Group, Id, OPTIONS, Row};
pub use values::machines;

use sassafras::CacheRule;

impl Given {
    pub fn arch(&self) -> Arch {
        self.word(Id::Arch).and_then(Arch::find).unwrap_or_default()
    }

    /// The toolkit whose ptxas we stand in for, if one is asked for.
    pub fn toolkit(&self) -> Option<ptx::Toolkit> {
        self.word(Id::CudaVersion).and_then(ptx::Toolkit::find)
    }

    pub fn output(&self) -> &str {
        self.word(Id::Output).unwrap_or("elf.o")
    }

    /// Is the cubin for the linker? A whole program that others may add to is one, too: what `-c` makes is linked alike.
    pub fn relocatable(&self) -> bool {
        self.has(Id::Relocatable) || self.has(Id::Extensible)
    }

    /// How hard to try; every number above 3 is 3. `--Ofast-compile` is one of the lower levels.
    pub fn level(&self) -> u8 {
        match (self.word(Id::FastCompile), self.number(Id::OptLevel)) {
            (Some("max"), _) => 0,
            (Some("mid" | "min"), _) => 1,
            (_, level) => level.map_or(3, |level| level.clamp(0, 3) as u8),
        }
    }

    /// How global accesses are cached: the second option is stronger, and leaves nothing of the first.
    pub fn cache_rule(&self, default: Id, forced: Id) -> Option<CacheRule> {
        match (self.word(forced), self.word(default)) {
            (Some(operator), _) => CacheRule::new(operator, true),
            (None, operator) => CacheRule::new(operator?, false),
        }
    }

    /// Options as a cubin's note has them: in the order of the table, short names, no files.
    pub fn note(&self) -> String {
        let noted = OPTIONS.iter().filter(|row| row.id.is_noted());
        noted.filter_map(|row| Some(format!("-{} {} ", row.short, self.get(row.id)?))).collect()
    }
}

impl std::fmt::Display for parse::Value {
    /// As a note has it: a flag has no value.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            parse::Value::On => Ok(()),
            parse::Value::Truth(truth) => write!(f, "{truth}"),
            parse::Value::Number(number) => write!(f, "{number}"),
            parse::Value::Word(word) => f.write_str(word),
            parse::Value::List(list) => f.write_str(&list.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;

    fn note(line: &str) -> String {
        let words = line.split(' ').map(str::to_string).collect();
        parse(words, &Log::default()).expect("a good command line").note()
    }

    /// What ptxas writes into the note of a cubin for these.
    #[test]
    fn notes_as_ptxas_writes_them() {
        for (line, wanted) in [
            ("k.ptx", ""),
            ("k.ptx -O0x2 -o x", "-O 2 "),
            ("-O k.ptx", "-O 0 "),
            ("-v -lineinfo k.ptx -arch sm_90", "-v  -lineinfo  -arch sm_90 "),
            ("-m 64 -O3 -m=64 k.ptx", "-O 3 -m 64 "),
            ("-arch sm_90 -arch=sm_80 k.ptx", "-arch sm_80 "),
            ("-arch=sm_90 -maxntid=1 -maxntid=2,3 k.ptx", "-maxntid 1,2,3 -arch sm_90 "),
            ("-arch=sm_90 -maxrregcount=0x20 k.ptx", "-maxrregcount 0x20 -arch sm_90 "),
            ("-jobserver --regAllocOptLevel=2 -abi=yes k.ptx", ""),
            (
                "-arch=sm_90 -O1 -m64 -v -w -Werror -lineinfo -c -ewp -e k -maxrregcount=32 -maxntid=32 \
                 -minnctapersm=2 -fmad=true -dlcm=ca -dscm=wb -flcm=cg -fscm=cg k.ptx",
                "-e k -v  -maxrregcount 32 -minnctapersm 2 -maxntid 32 -lineinfo  -O 1 -arch sm_90 -dlcm ca -dscm wb \
                 -flcm cg -fscm cg -m 64 -Werror  -w  -c  -fmad true -ewp  ",
            ),
        ] {
            assert_eq!(note(line), wanted, "{line}");
        }
    }
}
