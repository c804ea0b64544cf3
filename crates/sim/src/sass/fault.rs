//! Why a run stopped, and which results were read too early.

use super::Program;
use crate::ptx::{FaultKind, Thread};
use crate::verify::{Dependence, Relation, Report, Short, Site};
use sass::WORD_BYTES;
use sass::model::Touch;
use std::collections::BTreeMap;
use std::fmt;

/// What went wrong, at which instruction and in which thread.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What it was.
    pub kind: FaultKind,
    /// The instruction, where one is to blame.
    pub place: Option<Box<Place>>,
    /// The thread, likewise.
    pub thread: Option<Thread>,
    /// Dependences that the control codes did not cover before.
    pub hazards: Vec<Report>,
}

/// An instruction of a function.
#[derive(Clone, Debug)]
pub struct Place {
    /// The function's name.
    pub function: String,
    /// The instruction.
    pub site: Site,
}

impl Fault {
    pub(super) fn new(kind: FaultKind) -> Fault {
        Fault { kind, place: None, thread: None, hazards: Vec::new() }
    }

    /// A launch that no machine takes.
    pub(crate) fn of_launch(what: String) -> Fault {
        Fault::new(FaultKind::Launch { what })
    }

    pub(super) fn of_hazards(hazards: Vec<Report>) -> Fault {
        let what = hazards.first().map(Report::to_string).unwrap_or_default();
        Fault { hazards, ..Fault::new(FaultKind::Undefined { what }) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            let Place { function, site } = &**place;
            write!(f, "{function}+{:#x}: {}: ", site.address, site.text)?;
        }
        self.kind.fmt(f)?;
        if let Some(Thread { block: [bx, by, bz], thread: [x, y, z] }) = self.thread {
            write!(f, " (block {bx},{by},{bz} thread {x},{y},{z})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

impl Program {
    /// Where an instruction is.
    pub(super) fn place(&self, index: usize) -> Option<Box<Place>> {
        let routine = self.routine(index)?;
        let address = (index - routine.first) as u64 * WORD_BYTES;
        let text = self.image.code.get(index)?.at(address).to_string();
        Some(Box::new(Place { function: routine.name.clone(), site: Site { address, text } }))
    }
}

/// Dependences that were not covered, each pair of instructions once.
#[derive(Default)]
pub struct Hazards {
    pairs: BTreeMap<(usize, usize, Relation), (Short, Vec<u16>)>,
}

impl Hazards {
    pub fn add(&mut self, dependence: &Dependence, short: Short) {
        let key = (dependence.first, dependence.second, dependence.relation);
        let (_, registers) = self.pairs.entry(key).or_insert((short, Vec::new()));
        if !registers.contains(&dependence.register) {
            registers.push(dependence.register);
        }
    }

    pub fn reports(&self, program: &Program) -> Vec<Report> {
        let report = |(&(first, second, relation), (short, registers)): (&_, &(Short, Vec<u16>))| {
            let first = *program.place(first)?;
            Some(Report {
                section: first.function,
                relation,
                registers: registers.iter().map(|register| Touch::name((*register).into())).collect(),
                first: first.site,
                second: program.place(second)?.site,
                short: *short,
            })
        };
        self.pairs.iter().filter_map(report).collect()
    }
}
