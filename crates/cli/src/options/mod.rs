//! The command line: ptxas's words, and a few of our own.
//!
//! [`table`] has every option, [`parse`](mod@parse) the grammar, [`rules`] what ptxas says about options that don't
//! go together or don't fit the machine, [`help`] the texts for people.

mod arch;
pub mod help;
mod number;
mod parse;
mod rules;
mod table;
mod words;

pub use arch::Arch;
pub use parse::{Given, parse};
pub use rules::{check, check_for_compilation, check_for_module};
pub use table::{Effect, Id, OPTIONS};

impl Given {
    pub fn arch(&self) -> Arch {
        self.word(Id::Arch).and_then(Arch::find).unwrap_or_default()
    }

    pub fn output(&self) -> &str {
        self.word(Id::Output).unwrap_or("elf.o")
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
