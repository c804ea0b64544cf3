//! The schedule verifier: a static proof, over all paths through a cubin's code, that stall counts and scoreboards
//! cover every dependence, and that the threads of a warp keep out of each other's uniform registers.
//!
//! What it guarantees, for a file without reports and under [`sass::model`]:
//!
//! 1. Registers of every file (R, UR, P, UP, B; guards, masks of P2R and R2P included): whenever an instruction reads
//!    or writes one that an earlier one on any path writes or reads, the cycles between their issues are at least what
//!    the model asks for.
//! 2. Where the earlier one has no fixed latency, a scoreboard that speaks for it has been waited for: for a result the
//!    write scoreboard, for a source that is read late either one. It is waited for when it can be seen, two cycles
//!    after it was set. It is the instruction's own, or that of a later one that answers, or reads, after it.
//! 3. A wait counts where it is certain: the mask of any instruction, and DEPBAR without a guard. A wait for fewer than
//!    all (`DEPBAR.LE SB5, 0x1`) ends those that enough others, which answer in order, have followed on the scoreboard.
//! 4. Accumulators and register operands of asynchronous MMAs are left alone until WARPGROUP.DEPBAR has waited for
//!    their group; only the next MMA may follow sooner.
//! 5. Calls are followed into and back, each by the calls that led to it; branches through a table go to all targets
//!    that the cubin lists. Where code goes to code that is not there (calls of other sections and through registers,
//!    RET to an unknown caller), nothing late is under way, and results are old enough to be addresses.
//! 6. An operand that is kept in the operand cache (`.reuse`) is found by the next reader of its place, and was not
//!    overwritten until then (`cache.rs`).
//! 7. Divergent threads (`divergence.rs`) don't write over uniform registers that others of their warp still read
//!    (`uniform.rs`).
//!
//! How: the state at a point of the program is a set of *events*, accesses that a later instruction may still have to
//! wait for, each with its age in cycles and the scoreboards that end it (`state.rs`). Blocks are visited until
//! nothing changes; where paths meet, the worse holds (`flow.rs` says where they go).
//!
//! What it does not look at: memory order, the contents of asynchronous copies (groups of LDGSTS, barriers in memory),
//! whether WARPGROUP.ARRIVE stands where it must, and distances between independent instructions of one pipe.
//! [`mutants`] plants errors to try it.

mod cache;
mod differing;
mod divergence;
mod flow;
pub mod mutants;
mod report;
mod set;
mod stack;
mod state;
mod uniform;
mod values;

pub(crate) use cache::Cache;
pub(crate) use state::{Issue, State, cycles};

pub use report::{Report, Short, Site};

use cubin::attr::{Code as AttrCode, Value};
use cubin::{Body, Object};
use flow::Flow;
use report::Findings;
use sass::model::Port;
use sass::{Inst, Isa, Kind, M, Model, Op, Role, WORD_BYTES, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// The code of one section.
#[derive(Clone)]
pub struct Code {
    /// The section's name.
    pub name: String,
    /// The encoding.
    pub isa: Isa,
    /// Its instructions.
    pub insts: Vec<Inst>,
    /// Where indirect branches go: instruction indices, by the index of the branch.
    pub indirect: BTreeMap<usize, Vec<usize>>,
    /// The uniform registers that functions of the file write, called from anywhere, in the numbering of
    /// [`sass::model::Touch::registers`].
    pub written_by_functions: BTreeSet<u16>,
}

/// Why a file cannot be verified.
#[derive(Debug)]
pub enum Error {
    /// It is no cubin.
    Cubin(cubin::ReadError),
    /// No machine of this number is known.
    Target(u32),
    /// The word at this address of the section has no row in the instruction table.
    Word {
        /// The section.
        section: String,
        /// The address in it.
        address: u64,
    },
    /// The indirect branch at this address names no targets.
    Indirect {
        /// The section.
        section: String,
        /// The address in it.
        address: u64,
    },
    /// Arithmetic at this address has a word of a constant bank as operand. ptxas emits none from sm_90 on, so nothing
    /// is known about when it is there; an H200 was seen not to wait for it.
    Constant {
        /// The section.
        section: String,
        /// The address in it.
        address: u64,
    },
    /// No scoreboard tells when the atomic at this address is done: who waits for all scoreboards, as this section does
    /// (DEPBAR), doesn't wait for it. Elsewhere ptxas leaves the scoreboard out where nobody wants the result.
    Unsignalled {
        /// The section.
        section: String,
        /// The address in it.
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
            Error::Constant { section, address } => {
                write!(f, "{section}: how long the constant at {address:#x} takes is unknown on this machine")
            }
            Error::Unsignalled { section, address } => {
                write!(f, "{section}: no scoreboard tells when the atomic at {address:#x} is done")
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
    /// What the two do with the register.
    pub relation: Relation,
    /// In the numbering of [`sass::model::Touch::registers`].
    pub register: u16,
    /// Index of the earlier instruction, and the port that it has the register at.
    pub first: usize,
    /// Where the earlier one has it.
    pub from: Port,
    /// The later one.
    pub second: usize,
    /// Where the later one has it.
    pub to: Port,
    /// The later one writes the register and reads it, too.
    pub read_too: bool,
    /// Cycles between the two issues, at least.
    pub cycles: u16,
    /// The earlier one needs no signal, or it was waited for on every path.
    pub signalled: bool,
}

/// What was found in a file.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The machine that the file is for.
    pub sm: u32,
    /// Sections with code.
    pub sections: usize,
    /// Instructions in them.
    pub instructions: usize,
    /// What is missing.
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
        let written_by_functions = BTreeSet::new();
        sections.push(Code { name: function.to_string(), isa, insts, indirect, written_by_functions });
    }
    let functions = sections.iter().filter(|code| !is_kernel(object, &code.name));
    let written: BTreeSet<u16> = functions.flat_map(uniform::written).collect();
    sections.iter_mut().for_each(|code| code.written_by_functions.clone_from(&written));
    Ok(sections)
}

/// Kernels have parameters, and a bank for them even where they have none.
fn is_kernel(object: &Object, function: &str) -> bool {
    object.section(&format!(".nv.constant0.{function}")).is_some()
}

/// Where a function's indirect branches go: instruction indices, by the index of the branch. `INDIRECT_BRANCH_TARGETS` has
/// for each branch its offset, a zero, the number of targets, the targets.
pub fn indirect_branches(object: &Object, function: &str) -> BTreeMap<usize, Vec<usize>> {
    let attributes = object.attributes(&format!(".nv.info.{function}"));
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
    let program = Program::of(code)?;
    let mut findings = Findings::default();
    let waits_for_all = code.insts.iter().any(|inst| inst.op() == Op::DEPBAR && !inst.has(M::LE));
    for (index, inst) in code.insts.iter().enumerate() {
        let (section, address) = (|| code.name.clone(), WORD_BYTES * index as u64);
        if has_constant_operand(inst) && !code.isa.target().constant_operands {
            return Err(Error::Constant { section: section(), address });
        }
        if waits_for_all && matches!(inst.op(), Op::ATOM | Op::ATOMG) && inst.control.write.is_none() {
            return Err(Error::Unsignalled { section: section(), address });
        }
    }
    kept_operands(&program, code, &mut findings);
    uniform::check(program.model, code, &program.flow, &mut findings);
    for block in 0..program.flow.blocks() {
        late_touches(program.model, code, program.flow.block(block), &mut findings);
    }
    let mut found = |dependence: Dependence| {
        if let Some(short) = dependence.short(program.model) {
            findings.add(&dependence, short);
        }
    };
    for ((context, block), mut state) in program.fixpoint(0) {
        program.run(block, &mut state, &mut found);
        if let Some(last) = program.flow.block(block).last().filter(|_| program.flow.leaves(context, block)) {
            state.leave(last, &mut found);
        }
    }
    Ok(findings.reports(code))
}

/// What touches the result of an asynchronous MMA between it and the arrival of its warpgroup, within a block. ptxas does
/// so after none of 814 arrivals, and an H200 was seen to mix up the two values.
fn late_touches(model: &Model, code: &Code, block: Range<usize>, findings: &mut Findings) {
    // Who touched each register last since the arrival.
    let mut since: Option<BTreeMap<usize, (usize, Port)>> = None;
    for index in block {
        let inst = &code.insts[index];
        let is_mma = inst.op().is_wgmma();
        if inst.op() == Op::WARPGROUP && inst.has(M::ARRIVE) {
            since = Some(BTreeMap::new());
        }
        if since.is_none() {
            continue;
        }
        for touch in model.touches(inst).filter(|t| t.file == Kind::R) {
            for register in touch.registers() {
                if !is_mma {
                    since.iter_mut().for_each(|s| s.extend([(register, (index, touch.port))]));
                } else if touch.role == Role::Def
                    && let Some((first, from)) = since.as_ref().and_then(|s| s.get(&register).copied())
                {
                    let (relation, register) = (Relation::War, register as u16);
                    let (second, to) = (index, touch.port);
                    let late = Dependence {
                        relation,
                        register,
                        first,
                        from,
                        second,
                        to,
                        read_too: false,
                        cycles: 0,
                        signalled: true,
                    };
                    findings.add(&late, Short::Arrival);
                }
            }
        }
    }
}

/// Is a word of a constant bank an operand of something else than a load from there?
fn has_constant_operand(inst: &Inst) -> bool {
    let loads = matches!(inst.op(), Op::LDC | Op::ULDC | Op::LDCU);
    !loads && inst.operands().any(|(_, operand)| operand.kind == Kind::Const)
}

/// What is kept in the operand cache in vain, or longer than it holds. ptxas keeps 94,358 operands in real code, none
/// of them so.
fn kept_operands(program: &Program, code: &Code, findings: &mut Findings) {
    let mut cache = Cache::default();
    let mut found = |dependence: Dependence, short: Short| findings.add(&dependence, short);
    // Who comes to a label by a branch finds the cache empty, which is always right.
    for (index, inst) in code.insts.iter().enumerate() {
        cache.step(program.model, index, inst, &mut found);
    }
    cache.empty(code.insts.len().saturating_sub(1), &mut found);
}

/// Calls `found` for every dependence on any path whose first instruction may still be under way at the second: by the
/// model, or because it was issued less than `horizon` cycles ago. More than once where several paths have it.
pub fn dependences(code: &Code, horizon: u16, mut found: impl FnMut(Dependence)) -> Result<(), Error> {
    let program = Program::of(code)?;
    for ((_, block), mut state) in program.fixpoint(horizon) {
        program.run(block, &mut state, &mut found);
    }
    Ok(())
}

/// A section as the states see it.
struct Program {
    model: &'static Model,
    flow: Flow,
    issues: Vec<Issue>,
}

/// A block in a context.
type Node = (flow::Context, usize);

impl Program {
    fn of(code: &Code) -> Result<Program, Error> {
        let address = |index: usize| index as u64 * WORD_BYTES;
        if let Some(index) = code.insts.iter().position(|inst| inst.raw_word().is_some()) {
            return Err(Error::Word { section: code.name.clone(), address: address(index) });
        }
        let flow = Flow::of(code)
            .map_err(|index| Error::Indirect { section: code.name.clone(), address: address(index) })?;
        let model = Model::of(code.isa);
        let issues =
            code.insts.iter().enumerate().map(|(index, inst)| Issue::of(model, index, inst)).collect();
        Ok(Program { model, flow, issues })
    }

    fn run(&self, block: usize, state: &mut State, found: &mut impl FnMut(Dependence)) {
        for issue in &self.issues[self.flow.block(block)] {
            state.step(self.model, issue, found);
        }
    }

    /// The state at the start of each block that can be reached.
    fn fixpoint(&self, horizon: u16) -> BTreeMap<Node, State> {
        let mut contexts = flow::Contexts::default();
        let mut starts: BTreeMap<Node, State> = BTreeMap::new();
        let mut reached = vec![false; self.flow.blocks()];
        // The entry point first; then whatever no path reaches, each as an entry of its own.
        for block in 0..self.flow.blocks() {
            if reached[block] {
                continue;
            }
            let entry = (flow::Context::ROOT, block);
            starts.insert(entry, State::new(horizon));
            let mut open = BTreeSet::from([entry]);
            while let Some(node) = open.pop_first() {
                reached[node.1] = true;
                let mut state = starts[&node].clone();
                self.run(node.1, &mut state, &mut |_| ());
                if !self.flow.keeps(node.1) {
                    state = State::new(horizon);
                }
                let successors = self.flow.successors(node.0, node.1, &mut contexts);
                if let Some(context) = successors.again {
                    let inside =
                        starts.keys().filter(|(c, block)| *c == context && self.flow.returns(*block));
                    open.extend(inside.copied());
                }
                for next in successors.to {
                    let changed = match starts.get_mut(&next) {
                        Some(known) => known.merge(&state),
                        None => starts.insert(next, state.clone()).is_none(),
                    };
                    if changed {
                        open.insert(next);
                    }
                }
            }
        }
        starts
    }
}
