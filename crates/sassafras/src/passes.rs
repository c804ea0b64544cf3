//! The pipeline: every pass from lowered Ori to bytes, in order, one row each.
//!
//! A row has the pass's name, the level of optimization from which on it runs, what it does in a line, and which
//! properties of the code it needs, establishes and invalidates; a test follows them through the table, at every level
//! and without each pass that may be left out. There is one signature for passes over Ori, and one for passes over
//! machine code.
//!
//! After each pass the code can be written to the log (`--dump-ir`) and is verified (`--verify`); its time is counted
//! (`--time-passes`). A pass of a level above 0 can be left out (`--disable-pass`). Rewrites that are not needed for
//! correct code ask for fuel first (`--fuel`), so that a wrong one is found by bisection.

use crate::codegen::{
    convergence_barriers, critical_edges, legalize, remat_uniform, sched_prepass, wgmma_tuples,
    yield_insertion,
};
use crate::context::target::TargetMachine;
use crate::context::{Context, Failure, Fuel, Options, Times};
use crate::mach::unit::{Stop, Unit};
use crate::mach::{
    control_codes, dead_predicates, emit, layout, linearize, pipe_balance, reuse, text, wgmma_hazards,
};
use crate::opt::{
    combine, elide_waterfall, if_convert, iv_elim, licm, narrow_iv, predicate_logic, simplify, sink, uniform,
    unroll,
};
use crate::regalloc;
use ori::Function;
use sass::Model;
use std::fmt::Write;

/// What holds for the code between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    /// Ori in SSA form: before register allocation.
    Ssa,
    /// Loops in which threads wait for others of their warp have `YIELD`.
    ForwardProgress,
    /// What the machine reads from uniform registers is computed there where it can be.
    UniformOperands,
    /// The accumulator of a wgmma is one value.
    WgmmaTuples,
    /// Divergent branches have `BSSY` and `BSYNC`.
    Convergence,
    /// An edge with arguments is the only edge out of its block.
    NoCriticalEdges,
    /// Every operation has a form on the target.
    Legal,
    /// Uniform values live where no divergent thread overwrites them.
    UniformLiveness,
    /// Operands are registers.
    Allocated,
    /// An instruction with an origin has the operation and operands of that Ori instruction.
    OriginsMatch,
    /// No register of an outstanding wgmma is accessed.
    NoWgmmaHazards,
    /// One list of instructions.
    Linear,
    /// Instructions have control codes.
    Timed,
    /// There are bytes.
    Encoded,
}

use Property::*;

/// One signature for each level of the code.
enum Run {
    Ori(fn(&mut Function, &mut Context) -> Result<(), String>),
    Mach(fn(&mut Unit, &mut Context) -> Result<(), Stop>),
}

enum Verifier {
    /// `ori::verify`
    Ori,
    /// `regalloc::check`
    Allocation,
    None,
}

struct Pass {
    name: &'static str,
    /// The level of optimization from which on it runs.
    level: u8,
    about: &'static str,
    run: Run,
    needs: &'static [Property],
    establishes: &'static [Property],
    invalidates: &'static [Property],
    verifier: Verifier,
    /// Code for a debugger is made without it: every write of a PTX register stays, needed or not.
    hides_registers: bool,
}

/// What a pass invalidates that makes or changes instructions and merges blocks, and one that changes loops and branches
/// as well.
const BY_CLEAN_UP: &[Property] = &[Convergence, NoCriticalEdges, Legal, UniformLiveness];
const BY_NEW_EDGES: &[Property] =
    &[ForwardProgress, Convergence, NoCriticalEdges, Legal, UniformLiveness, WgmmaTuples];

/// A pass over Ori.
const fn ori(
    name: &'static str,
    level: u8,
    about: &'static str,
    run: fn(&mut Function, &mut Context) -> Result<(), String>,
) -> Pass {
    let (needs, establishes) = (&[Ssa], &[]);
    let (run, verifier, invalidates) = (Run::Ori(run), Verifier::Ori, BY_CLEAN_UP);
    Pass { name, level, about, run, needs, establishes, invalidates, verifier, hides_registers: false }
}

/// A pass over machine code.
const fn mach(
    name: &'static str,
    level: u8,
    about: &'static str,
    run: fn(&mut Unit, &mut Context) -> Result<(), Stop>,
) -> Pass {
    let (needs, establishes, invalidates) = (&[Allocated], &[], &[]);
    let (run, verifier) = (Run::Mach(run), Verifier::None);
    Pass { name, level, about, run, needs, establishes, invalidates, verifier, hides_registers: false }
}

impl Pass {
    const fn needs(self, needs: &'static [Property]) -> Pass {
        Pass { needs, ..self }
    }

    const fn establishes(self, establishes: &'static [Property]) -> Pass {
        Pass { establishes, ..self }
    }

    const fn invalidates(self, invalidates: &'static [Property]) -> Pass {
        Pass { invalidates, ..self }
    }

    const fn verified_by(self, verifier: Verifier) -> Pass {
        Pass { verifier, ..self }
    }

    const fn hides_registers(self) -> Pass {
        Pass { hides_registers: true, ..self }
    }
}

const PASSES: &[Pass] = &[
    ori("simplify", 0, "trivial block parameters, copies, empty blocks and dead code go", |f, _| {
        simplify::run(f)
    })
    .invalidates(BY_CLEAN_UP)
    .hides_registers(),
    ori("combine", 1, "constant folding, CSE and peephole rules on SSA", combine::run),
    ori("narrow-iv", 1, "64-bit induction variables that fit into 32 bits", narrow_iv::run),
    ori("iv-elim", 1, "induction variables a constant apart become one", iv_elim::run),
    ori("if-convert", 1, "short branches become selects", if_convert::run).invalidates(BY_NEW_EDGES),
    ori("unroll", 2, "full and partial unrolling of loops of one block", unroll::run)
        .invalidates(BY_NEW_EDGES)
        .hides_registers(),
    ori("predicate-logic", 1, "fewer operations for trees of predicates", predicate_logic::run),
    ori("elide-waterfall", 1, "no waterfall loop where one thread asks", elide_waterfall::run)
        .invalidates(BY_NEW_EDGES),
    ori("licm", 1, "shuffles of loop invariants move to the preheader", licm::run),
    ori("yield-insertion", 0, "YIELD in loops that wait for other threads of the warp", |f, c| {
        yield_insertion::run(f, c.machine)
    })
    .establishes(&[ForwardProgress]),
    ori("uniform", 0, "descriptors and operands of tensor copies on the uniform datapath", uniform::run)
        .needs(&[Ssa, ForwardProgress])
        .establishes(&[UniformOperands]),
    ori("sink", 1, "values needed only after a loop are computed there", sink::run),
    ori("wgmma-tuples", 0, "accumulators of wgmma become register tuples", |f, c| {
        wgmma_tuples::run(f, c.machine)
    })
    .establishes(&[WgmmaTuples])
    .invalidates(&[NoCriticalEdges, Legal]),
    ori("convergence-barriers", 0, "BSSY and BSYNC around divergent regions", |f, c| {
        convergence_barriers::run(f, c.machine)
    })
    .needs(&[Ssa, ForwardProgress])
    .establishes(&[Convergence])
    .invalidates(&[NoCriticalEdges, Legal, UniformLiveness]),
    ori("critical-edges", 0, "splits edges, so that block arguments have a block to be moved in", |f, c| {
        critical_edges::run(f, c.machine)
    })
    .needs(&[Ssa, Convergence, WgmmaTuples])
    .establishes(&[NoCriticalEdges])
    .invalidates(&[]),
    ori("legalize", 0, "every operation gets a form of the target", |f, c| legalize::run(f, c.machine))
        .needs(&[Ssa, Convergence])
        .establishes(&[Legal])
        .invalidates(&[UniformLiveness]),
    ori("remat-uniform", 0, "uniform values are rematerialized where divergent threads write", |f, _| {
        remat_uniform::run(f)
    })
    .needs(&[Ssa, Convergence, Legal, UniformOperands])
    .establishes(&[UniformLiveness])
    .invalidates(&[]),
    ori(
        "sched-prepass",
        1,
        "list scheduling within blocks, bounded by register pressure",
        sched_prepass::run,
    )
    .needs(&[Ssa, Legal, UniformLiveness])
    .invalidates(&[]),
    mach("regalloc", 0, "registers, spills and parallel copies on SSA", allocate)
        .needs(&[Ssa, NoCriticalEdges, Legal, Convergence, UniformLiveness, WgmmaTuples])
        .establishes(&[Allocated, OriginsMatch])
        .invalidates(&[Ssa])
        .verified_by(Verifier::Allocation),
    mach("wgmma-hazards", 0, "WARPGROUP.ARRIVE before wgmma whose registers were accessed", |u, c| {
        wgmma_hazards::run(&u.kernel.code, &mut u.code, c.machine)
    })
    .establishes(&[NoWgmmaHazards]),
    mach("layout", 1, "latches are placed after the block that leads to them", |u, c| {
        layout::run(&u.kernel.code, &mut u.code, &mut c.fuel);
        Ok(())
    }),
    mach("dead-predicates", 1, "predicate results without a use become PT", |u, c| {
        dead_predicates::run(&u.kernel.code, &mut u.code, c.machine, &mut c.fuel);
        Ok(())
    })
    .needs(&[Allocated, OriginsMatch])
    .invalidates(&[OriginsMatch]),
    mach("pipe-balance", 1, "moves and sums go to the pipe that is free", |u, c| {
        pipe_balance::run(&mut u.code, c.machine, &mut c.fuel);
        Ok(())
    })
    .invalidates(&[OriginsMatch]),
    mach("linearize", 0, "prologue, epilogues and branches; blocks become a list", |u, c| {
        linearize::run(u, c.machine).map_err(Stop::Bug)
    })
    .needs(&[Allocated, NoWgmmaHazards])
    .establishes(&[Linear]),
    mach(
        "control-codes",
        0,
        "stalls and scoreboards: serial at -O0, else as early as the model allows",
        |u, c| {
            let (linear, model) = (&mut u.linear, Model::of(c.machine.isa));
            linear.timed = match u.options.level {
                0 => control_codes::serial(&linear.steps, model),
                _ => control_codes::exact(&linear.steps, model),
            };
            Ok(())
        },
    )
    .needs(&[Linear])
    .establishes(&[Timed]),
    mach("reuse", 1, "operands that the next reader takes from the operand cache", |u, c| {
        reuse::run(&u.linear.steps, &mut u.linear.timed, Model::of(c.machine.isa), &mut c.fuel);
        Ok(())
    })
    .needs(&[Linear, Timed]),
    mach("emit", 0, "branch distances, relocations, bytes", |u, c| {
        emit::run(u, c.machine).map_err(Stop::Bug)
    })
    .needs(&[Linear, Timed])
    .establishes(&[Encoded]),
];

fn allocate(unit: &mut Unit, context: &mut Context) -> Result<(), Stop> {
    let limits = regalloc::Limits::registers(context.registers);
    unit.code = regalloc::run(&mut unit.kernel.code, limits, context.register_goal)?;
    Ok(())
}

/// Which pass must come before which, and why. A test holds the table to it.
#[cfg(test)]
const ORDER: &[(&str, &str, &str)] = &[
    ("simplify", "combine", "a trivial block parameter is its value"),
    (
        "combine",
        "narrow-iv",
        "it looks for the words of counters and bounds, and combines what is left of them",
    ),
    ("narrow-iv", "iv-elim", "32-bit induction variables may advance with others"),
    ("combine", "iv-elim", "constants and sums are folded into the instructions that add them"),
    ("combine", "if-convert", "redundant and dead instructions make no side longer"),
    ("narrow-iv", "unroll", "the exit test of a 32-bit counter is shorter"),
    ("if-convert", "unroll", "a branch around a few instructions is no further block"),
    ("unroll", "elide-waterfall", "it looks for the operands of copies where they were computed"),
    ("unroll", "predicate-logic", "the tests of several iterations are joined"),
    ("if-convert", "predicate-logic", "conditions of branches that became selects are joined, too"),
    ("predicate-logic", "uniform", "what is left of conditions moves to uniform registers"),
    ("if-convert", "sink", "what both sides of a branch compute is used after it"),
    ("uniform", "sink", "descriptors that a block computes for itself are needed by fewer others"),
    ("elide-waterfall", "sink", "it looks for the operands of copies where they were computed"),
    ("licm", "uniform", "warp-uniform values move to uniform registers where they are needed"),
    ("elide-waterfall", "uniform", "operands that reach a block of wgmma are computed with theirs"),
    ("elide-waterfall", "convergence-barriers", "it looks for points where threads reconverge"),
    ("if-convert", "convergence-barriers", "a branch that is gone needs no region"),
    ("simplify", "wgmma-tuples", "words are followed through values, not through copies of them"),
    ("simplify", "convergence-barriers", "blocks that only follow another one need no region"),
    ("yield-insertion", "uniform", "uniform registers don't last over a YIELD"),
    ("yield-insertion", "convergence-barriers", "threads that must yield to others need not reconverge"),
    (
        "wgmma-tuples",
        "critical-edges",
        "words that become one parameter are packed at the end of the predecessor",
    ),
    ("convergence-barriers", "critical-edges", "regions add blocks and edges"),
    ("convergence-barriers", "legalize", "regions add instructions"),
    ("legalize", "remat-uniform", "constants that got uniform registers are rematerialized, too"),
    ("remat-uniform", "sched-prepass", "rematerialized values are scheduled"),
    ("legalize", "sched-prepass", "constants that got registers are scheduled, too"),
    ("dead-predicates", "pipe-balance", "a sum without carry fits other pipes"),
    ("layout", "linearize", "what falls through is known from the order"),
    ("control-codes", "reuse", "an instruction that yields empties the operand cache"),
];

/// Does a pass of this name exist?
pub fn is_pass(name: &str) -> bool {
    name == Times::LOWER || PASSES.iter().any(|pass| pass.name == name)
}

/// The pass to leave out.
pub fn optional(name: &str) -> Result<&'static str, String> {
    match PASSES.iter().find(|pass| pass.name == name) {
        None => Err(format!("There is no pass '{name}'")),
        Some(pass) if pass.level == 0 => Err(format!("Pass '{name}' is needed for correct code")),
        Some(pass) => Ok(pass.name),
    }
}

impl Options {
    /// Does another level generate the same code?
    pub fn is_same_level(&self, level: u8) -> bool {
        (self.level > 0) == (level > 0) && are_same(self.level, level)
    }
}

/// Do two levels turn on the same passes?
fn are_same(one: u8, other: u8) -> bool {
    PASSES.iter().all(|pass| (pass.level <= one) == (pass.level <= other))
}

impl Pass {
    fn runs(&self, options: &Options) -> bool {
        self.level <= options.level
            && !(options.debug_code && self.hides_registers)
            && !options.disabled_passes.contains(&self.name)
    }

    fn apply(&self, unit: &mut Unit, context: &mut Context) -> Result<(), Stop> {
        match self.run {
            Run::Ori(run) => run(&mut unit.kernel.code, context).map_err(Stop::Bug),
            Run::Mach(run) => run(unit, context),
        }
    }

    /// What holds after it, if it finds what it needs.
    fn follow(&self, holds: &mut Vec<Property>) -> Result<(), String> {
        if let Some(lacks) = self.needs.iter().find(|p| !holds.contains(p)) {
            return Err(format!("it needs {lacks:?}"));
        }
        holds.retain(|p| !self.invalidates.contains(p));
        holds.extend(self.establishes);
        Ok(())
    }

    fn verify(&self, unit: &Unit, context: &Context) -> Result<(), String> {
        let limits = regalloc::Limits::registers(context.registers);
        match self.verifier {
            Verifier::Ori => verify_ori(&unit.kernel.code),
            Verifier::Allocation => {
                regalloc::check(&unit.kernel.code, &unit.code, &limits, context.machine.isa)
            }
            Verifier::None => Ok(()),
        }
    }

    fn dump(&self, unit: &Unit, context: &Context, log: &mut String) {
        match self.run {
            Run::Ori(_) => dump_ori(self.name, &unit.kernel.code, log),
            Run::Mach(_) => {
                let text = text::text(unit, context.machine.isa);
                let _ = writeln!(log, "; machine code after {}\n{text}", self.name);
            }
        }
    }
}

/// The names of the passes on Ori, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().filter(|pass| matches!(pass.run, Run::Ori(_))).map(|pass| pass.name)
}

/// Runs passes on Ori in the order of their names here, whatever their level, and verifies the IR before the first and
/// after each of them.
pub fn run_named(function: &mut Function, names: &[&str], context: &mut Context) -> Result<(), Failure> {
    let verified = |name: &str, function: &Function| {
        verify_ori(function).map_err(|e| Failure::internal(name, &function.name, e))
    };
    verified("parse", function)?;
    for pass in names.iter().filter_map(|name| PASSES.iter().find(|pass| pass.name == *name)) {
        let Run::Ori(run) = pass.run else { continue };
        run(function, context).map_err(|e| Failure::internal(pass.name, &function.name, e))?;
        verified(pass.name, function)?;
    }
    Ok(())
}

fn verify_ori(function: &Function) -> Result<(), String> {
    ori::verify::verify(function).map_err(|e| e.to_string())
}

fn dump_ori(pass: &str, function: &Function, log: &mut String) {
    let _ = writeln!(log, "; after {pass}\n{function}");
}

/// Takes a function from lowered Ori to bytes. An error comes with the name of the pass.
pub fn run(
    unit: &mut Unit,
    machine: &'static TargetMachine,
    (times, log): (&mut Times, &mut String),
) -> Result<(), (&'static str, Stop)> {
    let options = unit.options;
    let mut context = Context {
        machine,
        registers: unit.kernel.registers(),
        occupancy: unit.kernel.launch.occupancy(machine),
        register_goal: None,
        tuning: options.tuning,
        fuel: Fuel::new(options.fuel),
    };
    let is_dumped = |pass: &str| options.dump.as_deref().is_some_and(|d| d == pass || d == "all");
    if is_dumped(Times::LOWER) {
        dump_ori(Times::LOWER, &unit.kernel.code, log);
    }
    if options.verify {
        verify_ori(&unit.kernel.code).map_err(|e| (Times::LOWER, Stop::Bug(e)))?;
    }
    let mut holds = vec![Ssa];
    for pass in PASSES.iter().filter(|pass| pass.runs(options)) {
        times.of(pass.name, || pass.apply(unit, &mut context)).map_err(|stop| (pass.name, stop))?;
        if is_dumped(pass.name) {
            pass.dump(unit, &context, log);
        }
        if options.verify {
            let verified = pass.follow(&mut holds).and_then(|()| pass.verify(unit, &context));
            verified.map_err(|e| (pass.name, Stop::Bug(e)))?;
        }
    }
    Ok(())
}

/// The phases that a book on ptxas names, with the pass here that does the same, or why there is none.
const PHASES: &str = include_str!("phases.txt");

/// `NAME: PASS, ...` or `NAME - reason`
fn phases() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = PHASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, about)| (name, about.trim()))
}

/// The text of `--help-passes`.
pub fn help() -> String {
    let mut text =
        String::from("Passes in order, with the level of optimization from which on each runs:\n\n");
    let _ = writeln!(text, "  {:<22} -   from PTX to Ori, the compiler's IR in SSA form", Times::LOWER);
    for pass in PASSES {
        let code = if matches!(pass.run, Run::Ori(_)) { "Ori " } else { "mach" };
        let _ = writeln!(text, "  {:<22} {}   {code}  {}", pass.name, pass.level, pass.about);
    }
    text += "\nA pass of level 0 is needed for correct code; any other can be left out (--disable-pass).\n";
    text += "\nThe phases of ptxas, and what does the same here:\n\n";
    for (name, about) in phases() {
        let _ = writeln!(text, "  {name:<40} {about}");
    }
    text
}

/// What `--dump-ir` shows of a PTX text after a pass.
#[cfg(test)]
pub fn code_after(pass: &str, source: &str) -> String {
    let module = ptx::parse(source, &ptx::Options::default()).module.expect("a module");
    let mut options = Options::new(ptx::Target::find("sm_90").expect("a target"));
    options.dump = Some(pass.to_string());
    crate::compile_module(&module, &options).log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(level: u8, debug_code: bool, disabled: &[&'static str]) -> Options {
        let target = ptx::Target::find("sm_90").expect("a target");
        Options { level, debug_code, disabled_passes: disabled.to_vec(), ..Options::new(target) }
    }

    /// Follows the properties through the passes that run; names the pass that lacks one.
    fn follow(options: &Options) -> Result<Vec<Property>, String> {
        let mut holds = vec![Ssa];
        for pass in PASSES.iter().filter(|pass| pass.runs(options)) {
            pass.follow(&mut holds).map_err(|e| format!("{}: {e}", pass.name))?;
        }
        Ok(holds)
    }

    #[test]
    fn passes_run_in_the_order_that_others_rely_on() {
        let position = |name: &str| PASSES.iter().position(|p| p.name == name);
        for (first, second, reason) in ORDER {
            let (Some(a), Some(b)) = (position(first), position(second)) else {
                panic!("{first} or {second} is no pass");
            };
            assert!(a < b, "{first} must come before {second}: {reason}");
        }
    }

    #[test]
    fn names_are_unique() {
        for (i, pass) in PASSES.iter().enumerate() {
            assert!(PASSES[..i].iter().all(|p| p.name != pass.name), "{}", pass.name);
        }
    }

    #[test]
    fn properties_hold_where_they_are_needed() {
        for (level, debug_code) in [(0, false), (0, true), (1, false), (2, false), (3, false)] {
            let holds = follow(&options(level, debug_code, &[])).unwrap_or_else(|e| panic!("-O{level}: {e}"));
            assert!(holds.contains(&Encoded), "-O{level}");
        }
    }

    #[test]
    fn optional_passes_establish_nothing_that_others_need() {
        for pass in PASSES.iter().filter(|pass| pass.level > 0) {
            assert_eq!(optional(pass.name), Ok(pass.name));
            let holds = follow(&options(3, false, &[pass.name]));
            assert!(holds.is_ok_and(|holds| holds.contains(&Encoded)), "without {}", pass.name);
        }
    }

    #[test]
    fn required_and_unknown_passes_cannot_be_disabled() {
        for pass in PASSES.iter().filter(|pass| pass.level == 0) {
            assert!(optional(pass.name).is_err(), "{}", pass.name);
        }
        assert_eq!(optional("nope"), Err("There is no pass 'nope'".to_string()));
    }

    #[test]
    fn every_phase_names_a_pass_or_a_reason() {
        let all: Vec<_> = phases().collect();
        assert_eq!(all.len(), 159);
        for (i, (name, about)) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|(other, _)| other != name), "{name} twice");
            match about.strip_prefix("- ") {
                Some(reason) => assert!(!reason.is_empty(), "{name}"),
                None => {
                    let (passes, _) = about.split_once("; ").unwrap_or((about, ""));
                    assert!(passes.split(", ").all(is_pass), "{name}: {passes}");
                }
            }
        }
    }

    #[test]
    fn help_lists_every_pass() {
        let help = help();
        assert!(PASSES.iter().all(|pass| help.contains(pass.about)));
        assert!(help.contains("OriDoPredication"));
    }

    #[test]
    fn machine_passes_have_a_text_form() {
        let source = "{ .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d; ld.param.u64 %d, [out]; \
                      ld.global.u32 %r1, [%d]; setp.eq.u32 %p, %r1, 0; @%p bra done; \
                      st.global.u32 [%d+4], %r1; done: ret; }";
        let source = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {source}\n"
        );
        for pass in PASSES.iter().filter(|pass| matches!(pass.run, Run::Mach(_))) {
            let text = code_after(pass.name, &source);
            assert!(text.starts_with(&format!("; machine code after {}\n", pass.name)), "{text}");
            assert!(text.contains("LDG.E"), "{}: {text}", pass.name);
        }
        assert!(code_after("regalloc", &source).contains("b0:\n"));
        assert!(code_after("linearize", &source).contains("EXIT"));
        assert!(code_after("emit", &source).contains("/*0000*/"));
    }

    #[test]
    fn fuel_ends() {
        let mut fuel = Fuel::new(Some(2));
        assert_eq!([fuel.burn(), fuel.burn(), fuel.burn()], [true, true, false]);
        assert!(Fuel::new(None).burn());
    }
}
