//! PTX ISA 9.0 as data, and what is new to 9.4: the instruction table, lexer, parser, checker and printer.
//!
//! ```
//! let source = ".version 9.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n";
//! let parsed = ptx::parse(source, &ptx::Options::default());
//! assert!(parsed.diagnostics.is_empty());
//! assert_eq!(ptx::print(&parsed.module.unwrap()), source.replace("() { ret; }", "()\n{\n\tret;\n}"));
//! ```
//!
//! The way through: [`lex`] cuts tokens, [`parse`](mod@parse) builds the [`ast`], asking [`table`] what an
//! opcode is and [`check`] whether an instruction's operands fit it. All that depends on an opcode's spelling
//! alone is decided once per spelling. Nothing here knows a machine, and no input makes it panic.

#![deny(missing_docs)]

pub mod advice;
pub mod ast;
mod check;
pub mod diag;
mod lex;
mod names;
mod parse;
mod print;
mod shape;
pub mod sreg;
pub mod table;
pub mod target;
pub mod types;
pub mod words;

pub use ast::Module;
pub use diag::{Advice, Diagnostic, Severity};
pub use parse::{parse, source_text};
pub use print::print;
pub use target::{Target, Toolkit, Version};
pub use types::Type;

/// How to read a module.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name of the file; some messages have it.
    pub file: String,
    /// Only the diagnostics are wanted: the module has no items, because what has been checked is forgotten, and
    /// memory stays small.
    pub check_only: bool,
    /// Work out [`Parsed::advice`].
    pub advise: bool,
    /// The release whose answers are wanted, and which knows no newer PTX. `None`: the answers of [`Toolkit::USUAL`], but
    /// newer PTX is accepted, too.
    pub toolkit: Option<Toolkit>,
}

impl Options {
    /// The options for a file of this name.
    pub fn for_file(file: &str) -> Options {
        Options { file: file.to_string(), ..Options::default() }
    }

    /// The release that says which PTX is accepted.
    pub(crate) fn newest_toolkit(&self) -> Toolkit {
        self.toolkit.unwrap_or(Toolkit::NEWEST)
    }
}

/// What came of a source text.
#[derive(Debug)]
pub struct Parsed<'s> {
    /// `None` after a fatal error.
    pub module: Option<Module<'s>>,
    /// In the order in which ptxas says them.
    pub diagnostics: Vec<Diagnostic>,
    /// More about some of them, by their number.
    pub advice: Vec<(usize, Advice)>,
}

impl Parsed<'_> {
    /// Why the module cannot be compiled for `-arch=NAME`, in ptxas's words. It says so only after the front end
    /// has found nothing wrong.
    pub fn refused_for(&self, arch: &str) -> Option<String> {
        let machine = Target::find(arch)?;
        self.module.as_ref().and_then(|m| m.target.refusal(machine, arch))
    }

    /// Was anything worse than a warning reported?
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity >= Severity::Error)
    }
}
