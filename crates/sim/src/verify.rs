//! The schedule verifier: a static proof, over all paths through a cubin's code, that stall counts and scoreboards
//! cover every dependence.
//!
//! What it guarantees, for a file without reports and under [`sass::model`]: whenever an instruction reads or writes a
//! register (R, UR, P, UP, B, guards included) that an earlier one on any path wrote or reads, the cycles between their
//! issues are at least what the model asks for, and where the earlier one has no fixed latency, a scoreboard that
//! speaks for it has been waited for.
//!
//! How: the state at a point of the program is a set of *events*, accesses that a later instruction may still have to
//! wait for, each with its age in cycles and the scoreboards that end it (`state.rs`). Blocks are visited until
//! nothing changes; where paths meet, the worse holds. Functions of the same section are followed into and back, each
//! call apart (`flow.rs`).
//!
//! What it does not look at: memory order, the contents of asynchronous copies, calls that leave the section (after
//! which nothing is pending), and distances between independent instructions of one pipe.

mod flow;
mod report;
mod state;

pub(crate) use state::{Issue, State};

pub use report::{Report, Short, Site};

use cubin::attr::{Attr, Code as AttrCode, Value};
use cubin::{Body, Object};
use flow::Flow;
use report::Findings;
use sass::model::Port;
use sass::{Inst, Isa, Model, WORD_BYTES, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The code of one section.
pub struct Code {
    pub name: String,
    pub isa: Isa,
    pub insts: Vec<Inst>,
    /// Where indirect branches go: instruction indices, by the index of the branch.
    pub indirect: BTreeMap<usize, Vec<usize>>,
}

/// Why a file cannot be verified.
#[derive(Debug)]
pub enum Error {
    Cubin(cubin::ReadError),
    /// No machine of this number is known.
    Target(u32),
    /// The word at this address of the section has no row in the instruction table.
    Word {
        section: String,
        address: u64,
    },
    /// The indirect branch at this address names no targets.
    Indirect {
        section: String,
        address: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Cubin(error) => error.fmt(f),
            Error::Target(sm) => write!(f, "no machine sm_{sm} is known"),
            Error::Word { section, address } => {
                write!(f, "{section}: the word at {address:#x} is no instruction that is known")
            }
            Error::Indirect { section, address } => {
                write!(f, "{section}: the targets of the branch at {address:#x} are unknown")
            }
        }
    }
}

impl std::error::Error for Error {}

/// How two instructions depend on each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Relation {
    /// Read after write.
    Raw,
    /// Write after write.
    Waw,
    /// Write after read.
    War,
}

/// A dependence on a path, and what lies between its two instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependence {
    pub relation: Relation,
    /// In the numbering of [`sass::model::Touch::registers`].
    pub register: u16,
    /// Index of the earlier instruction, and the port that it has the register at.
    pub first: usize,
    pub from: Port,
    /// The later one.
    pub second: usize,
    pub to: Port,
    /// Cycles between the two issues, at least.
    pub cycles: u16,
    /// The earlier one needs no signal, or it was waited for on every path.
    pub signalled: bool,
}

/// What was found in a file.
#[derive(Debug, Default)]
pub struct Verdict {
    pub sm: u32,
    pub sections: usize,
    pub instructions: usize,
    pub reports: Vec<Report>,
}

/// Verifies every code section of a cubin.
pub fn verify(cubin: &[u8]) -> Result<Verdict, Error> {
    let object = Object::read(cubin).map_err(Error::Cubin)?;
    let mut verdict = Verdict { sm: u32::from(object.header.sm()), ..Verdict::default() };
    for code in read(&object)? {
        verdict.sections += 1;
        verdict.instructions += code.insts.len();
        verdict.reports.extend(verify_code(&code)?);
    }
    Ok(verdict)
}

/// The code sections of a cubin.
pub fn read(object: &Object) -> Result<Vec<Code>, Error> {
    let sm = u32::from(object.header.sm());
    let isa = Isa::of_sm(sm).ok_or(Error::Target(sm))?;
    let mut sections = Vec::new();
    for section in &object.sections {
        let (Some(function), Body::Bytes(bytes)) = (section.name.strip_prefix(".text."), &section.body)
        else {
            continue;
        };
        let words = bytes.chunks_exact(WORD_BYTES as usize).filter_map(|word| word.try_into().ok());
        let insts = words.map(|word| decode(isa, u128::from_le_bytes(word))).collect();
        let indirect = indirect_branches(object, function);
        sections.push(Code { name: function.to_string(), isa, insts, indirect });
    }
    Ok(sections)
}

/// `INDIRECT_BRANCH_TARGETS`: for each branch its offset, a zero, the number of targets, the targets.
fn indirect_branches(object: &Object, function: &str) -> BTreeMap<usize, Vec<usize>> {
    let name = format!(".nv.info.{function}");
    let attributes: &[Attr] = match object.section(&name).map(|(_, section)| &section.body) {
        Some(Body::Info(attributes)) => attributes,
        _ => &[],
    };
    let mut branches = BTreeMap::new();
    for attribute in attributes.iter().filter(|attribute| attribute.code == AttrCode::INDIRECT_BRANCH_TARGETS)
    {
        let Value::Words(words) = &attribute.value else { continue };
        let mut words = words.iter().map(|&word| word as usize);
        while let (Some(branch), Some(_), Some(count)) = (words.next(), words.next(), words.next()) {
            let targets = words.by_ref().take(count).map(|offset| offset / WORD_BYTES as usize).collect();
            branches.insert(branch / WORD_BYTES as usize, targets);
        }
    }
    branches
}

/// Verifies one section.
pub fn verify_code(code: &Code) -> Result<Vec<Report>, Error> {
    let model = Model::of(code.isa);
    let mut findings = Findings::default();
    dependences(code, 0, |dependence| {
        if let Some(short) = dependence.short(model) {
            findings.add(&dependence, short);
        }
    })?;
    Ok(findings.reports(code))
}

/// Calls `found` for every dependence on any path whose first instruction may still be under way at the second: by the
/// model, or because it was issued less than `horizon` cycles ago. More than once where several paths have it.
pub fn dependences(code: &Code, horizon: u16, mut found: impl FnMut(Dependence)) -> Result<(), Error> {
    let address = |index: usize| index as u64 * WORD_BYTES;
    if let Some(index) = code.insts.iter().position(|inst| inst.raw_word().is_some()) {
        return Err(Error::Word { section: code.name.clone(), address: address(index) });
    }
    let flow = Flow::of(code)
        .map_err(|index| Error::Indirect { section: code.name.clone(), address: address(index) })?;
    let model = Model::of(code.isa);
    let issues: Vec<Issue> =
        code.insts.iter().enumerate().map(|(index, inst)| Issue::of(model, index, inst)).collect();
    for ((_, block), mut state) in fixpoint(&issues, &flow, model, horizon) {
        for index in flow.block(block) {
            state.step(model, &issues[index], &mut found);
        }
    }
    Ok(())
}

/// The state at the start of each block that can be reached, by context and block.
fn fixpoint(
    issues: &[Issue],
    flow: &Flow,
    model: &Model,
    horizon: u16,
) -> BTreeMap<(flow::Context, usize), State> {
    let mut contexts = flow::Contexts::default();
    let mut starts: BTreeMap<(flow::Context, usize), State> = BTreeMap::new();
    let mut open = BTreeSet::new();
    // Entry points first; then whatever no path reaches, each as an entry of its own.
    for block in 0..flow.blocks() {
        let reached = starts.keys().any(|&(_, reached)| reached == block);
        if reached {
            continue;
        }
        starts.insert((flow::Context::ROOT, block), State::new(horizon));
        open.insert((flow::Context::ROOT, block));
        while let Some(node) = open.pop_first() {
            let mut state = starts[&node].clone();
            for index in flow.block(node.1) {
                state.step(model, &issues[index], &mut |_| ());
            }
            for (next, keeps) in flow.successors(node.0, node.1, &mut contexts) {
                let arriving = if keeps { state.clone() } else { State::new(horizon) };
                let changed = match starts.get_mut(&next) {
                    Some(known) => known.merge(&arriving),
                    None => {
                        starts.insert(next, arriving);
                        true
                    }
                };
                if changed {
                    open.insert(next);
                }
            }
        }
    }
    starts
}
