//! What the verifier says.

use super::{Code, Dependence, Relation};
use sass::WORD_BYTES;
use sass::model::{Model, Signal, Touch};
use std::collections::BTreeMap;
use std::fmt;

/// What is missing between two instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Short {
    /// No scoreboard that speaks for the first was waited for.
    Signal(Signal),
    /// So many cycles too few have passed.
    Cycles {
        /// Cycles that pass.
        have: u16,
        /// Cycles that must.
        need: u16,
    },
    /// The operand cache keeps what the register no longer holds.
    Cached,
    /// The operand cache keeps something that no instruction finds there.
    Unread,
    /// The register of an asynchronous MMA is touched after the arrival of its warpgroup.
    Arrival,
    /// Threads that have diverged from the readers of a uniform register write over it.
    Divergent,
}

/// An instruction in a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// In bytes from the start of the section.
    pub address: u64,
    /// With its control code.
    pub text: String,
}

/// Two instructions, and what is missing between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The section's name.
    pub section: String,
    /// What the two do with the registers.
    pub relation: Relation,
    /// `R4`, `UP0`: the registers that are concerned.
    pub registers: Vec<String>,
    /// The earlier instruction.
    pub first: Site,
    /// The later one.
    pub second: Site,
    /// What is missing.
    pub short: Short,
}

impl Dependence {
    /// What the model asks for and the code does not give.
    pub fn short(&self, model: &Model) -> Option<Short> {
        let need = match self.relation {
            // Who reads a result has it before it writes its own: the read's distance is enough.
            Relation::Waw if self.read_too => return None,
            Relation::Raw => model.raw(self.from, self.to),
            Relation::Waw => model.waw(self.from, self.to),
            Relation::War => model.war(self.from, self.to),
        };
        match need.signal {
            Some(signal) if !self.signalled => Some(Short::Signal(signal)),
            _ if self.cycles < need.cycles => Some(Short::Cycles { have: self.cycles, need: need.cycles }),
            _ => None,
        }
    }
}

/// The dependences that are not covered, gathered by pair of instructions.
#[derive(Default)]
pub struct Findings {
    pairs: BTreeMap<(usize, usize, Relation), (Short, Vec<u16>)>,
}

impl Findings {
    pub fn add(&mut self, dependence: &Dependence, short: Short) {
        let key = (dependence.second, dependence.first, dependence.relation);
        let (worst, registers) = self.pairs.entry(key).or_insert((short, Vec::new()));
        *worst = (*worst).min(short);
        if !registers.contains(&dependence.register) {
            registers.push(dependence.register);
        }
    }

    /// One report for each pair of instructions and kind of dependence, in the order of the code.
    pub fn reports(self, code: &Code) -> Vec<Report> {
        self.pairs
            .into_iter()
            .map(|((second, first, relation), (short, registers))| Report {
                section: code.name.clone(),
                relation,
                registers: registers.into_iter().map(|register| Touch::name(register.into())).collect(),
                first: Site::of(code, first),
                second: Site::of(code, second),
                short,
            })
            .collect()
    }
}

impl Site {
    fn of(code: &Code, index: usize) -> Site {
        let (address, inst) = (index as u64 * WORD_BYTES, &code.insts[index]);
        Site { address, text: format!("{} {}", inst.control, inst.at(address)) }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Relation::Raw => "read after write",
            Relation::Waw => "write after write",
            Relation::War => "write after read",
        })
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Short::Signal(Signal::Write) => f.write_str("its write scoreboard is not waited for"),
            Short::Signal(Signal::Read) => f.write_str("its read scoreboard is not waited for"),
            Short::Cycles { have, need } => write!(f, "{have} cycles, {need} needed"),
            Short::Cached => f.write_str("the operand cache keeps the old value"),
            Short::Unread => f.write_str("the operand cache keeps it in vain"),
            Short::Arrival => f.write_str("no WARPGROUP.ARRIVE between"),
            Short::Divergent => f.write_str("divergent threads have written it"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let registers = match &self.registers[..] {
            [first, .., last] => format!("{first} to {last}"),
            registers => registers.concat(),
        };
        writeln!(f, "{}: {} of {registers}: {}", self.section, self.relation, self.short)?;
        writeln!(f, "  {:#06x} {}", self.first.address, self.first.text)?;
        writeln!(f, "  {:#06x} {}", self.second.address, self.second.text)
    }
}
