//! Part `ordering-mutants`: losses of memory ordering planted in correct code, one at a time, each of which must be a
//! wrong result in the weak mode of the simulator (`Launch::weak`), with some seed of a few.
//!
//! The kernels are those of `crates/xtask/data/ordering.ptx`, compiled at -O0, where the order of the source is the order
//! of the code. Unplanted they must give the expected memory with every seed; a row of [`LOSSES`] changes one thing:
//! an ordering operation is not executed, an access moves over one, a strong access becomes a weak one, a scope becomes
//! smaller. Moves are checked to keep every dependence through registers, so that what a mutant has lost is the order
//! of memory and nothing else. Schedules are not checked here: control codes move with their instructions.

use super::{Bar, Options, list_differences};
use crate::{Result, shell};
use cubin::{Body, Object};
use gpu::runline::{self, Run};
use rayon::prelude::*;
use sass::{Inst, Isa, Kind, Role, WORD_BYTES};
use sim::ptx::Launch;

/// Seeds of the weak mode that are tried.
const SEEDS: u64 = 32;
/// A run with more steps of warps waits for something that never comes.
const STEP_LIMIT: u64 = 1 << 18;
/// A register that no kernel here uses.
const FREE: &str = "R200";

/// The n-th instruction of a kernel whose text, guard aside, begins so.
type Pick = (&'static str, usize);

#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It is not executed.
    Drop(Pick),
    /// Its text is changed.
    Change(Pick, &'static str, &'static str),
    /// The first is executed before the second, in front of which it does not stand.
    Before(Pick, Pick),
    /// The first is executed after the second.
    After(Pick, Pick),
}

use Loss::{After, Before, Change, Drop};

/// What is lost, the kernel that it is planted in, and how.
const LOSSES: &[(&str, &str, Loss)] = &[
    // Barriers of a block.
    ("BAR.SYNC deleted, shared", "barrier_shared", Drop(("BAR.SYNC", 0))),
    ("BAR.SYNC deleted, global", "barrier_global", Drop(("BAR.SYNC", 0))),
    ("shared load over BAR.SYNC", "barrier_shared", Before(("LDS", 0), ("BAR.SYNC", 0))),
    ("global load over BAR.SYNC", "barrier_global", Before(("LDG", 0), ("BAR.SYNC", 0))),
    ("shared store under BAR.SYNC", "barrier_shared", After(("STS", 0), ("BAR.SYNC", 0))),
    ("global store under BAR.SYNC", "barrier_global", After(("STG", 0), ("BAR.SYNC", 0))),
    ("BAR.SYNC before a write deleted, shared", "barrier_reuse_shared", Drop(("BAR.SYNC", 1))),
    ("BAR.SYNC before a write deleted, global", "barrier_reuse_global", Drop(("BAR.SYNC", 1))),
    ("shared load under BAR.SYNC", "barrier_reuse_shared", After(("LDS", 0), ("BAR.SYNC", 1))),
    ("global load under BAR.SYNC", "barrier_reuse_global", After(("LDG", 0), ("BAR.SYNC", 1))),
    ("shared store over BAR.SYNC", "barrier_reuse_shared", Before(("STS", 1), ("BAR.SYNC", 1))),
    ("global store over BAR.SYNC", "barrier_reuse_global", Before(("STG", 1), ("BAR.SYNC", 1))),
    ("shared store under BAR.ARV", "producer_shared", After(("STS", 0), ("BAR.ARV", 0))),
    ("global store under BAR.ARV", "producer_global", After(("STG", 0), ("BAR.ARV", 0))),
    ("shared load over BAR.SYNC of a consumer", "producer_shared", Before(("LDS", 0), ("BAR.SYNC", 0))),
    ("global load over BAR.SYNC of a consumer", "producer_global", Before(("LDG", 0), ("BAR.SYNC", 0))),
    // Divergent lanes of a warp.
    ("WARPSYNC deleted, shared", "lanes_shared", Drop(("WARPSYNC", 0))),
    ("WARPSYNC deleted, global", "lanes_global", Drop(("WARPSYNC", 0))),
    ("WARPSYNC of the other lanes deleted", "lanes_shared", Drop(("WARPSYNC", 1))),
    ("shared load over WARPSYNC", "lanes_shared", Before(("LDS", 0), ("WARPSYNC", 0))),
    ("global load over WARPSYNC", "lanes_global", Before(("LDG", 1), ("WARPSYNC", 1))),
    ("shared store under WARPSYNC", "lanes_shared", After(("STS", 1), ("WARPSYNC", 1))),
    ("global store under WARPSYNC", "lanes_global", After(("STG", 0), ("WARPSYNC", 0))),
    // A flag in shared memory.
    ("MEMBAR.CTA deleted, shared", "block_flag_shared", Drop(("MEMBAR", 0))),
    ("MEMBAR.CTA deleted, global", "block_flag_global", Drop(("MEMBAR", 0))),
    ("shared store under MEMBAR.CTA", "block_flag_shared", After(("STS", 1), ("MEMBAR", 0))),
    ("global store under MEMBAR.CTA", "block_flag_global", After(("STG", 0), ("MEMBAR", 0))),
    ("shared store under the store of a flag", "block_flag_shared", After(("STS", 1), ("STS", 2))),
    ("shared load over the load of a flag", "block_flag_shared", Before(("LDS", 1), ("LDS", 0))),
    ("global load over the load of a flag", "block_flag_global", Before(("LDG", 0), ("LDS", 0))),
    // Barriers in shared memory.
    ("shared store under SYNCS.ARRIVE", "mbarrier_shared", After(("STS", 0), ("SYNCS.ARRIVE", 0))),
    ("global store under SYNCS.ARRIVE", "mbarrier_global", After(("STG", 0), ("SYNCS.ARRIVE", 0))),
    ("shared load over SYNCS.PHASECHK", "mbarrier_shared", Before(("LDS", 0), ("SYNCS.PHASECHK", 0))),
    ("global load over SYNCS.PHASECHK", "mbarrier_global", Before(("LDG", 0), ("SYNCS.PHASECHK", 0))),
    // Messages between blocks.
    ("MEMBAR.ALL.GPU deleted", "message_gpu", Drop(("MEMBAR", 0))),
    ("MEMBAR.ALL.SYS deleted", "message_sys", Drop(("MEMBAR", 0))),
    ("MEMBAR.SC.GPU deleted, release", "message_fence", Drop(("MEMBAR", 0))),
    ("MEMBAR.GPU of the block only", "message_gpu", Change(("MEMBAR", 0), ".GPU", ".CTA")),
    ("MEMBAR.SYS of the block only", "message_sys", Change(("MEMBAR", 0), ".SYS", ".CTA")),
    ("BAR.SYNC before MEMBAR.GPU deleted", "message_gpu", Drop(("BAR.SYNC", 0))),
    ("BAR.SYNC behind CCTL.IVALL deleted", "message_gpu", Drop(("BAR.SYNC", 1))),
    ("CCTL.IVALL deleted, gpu", "message_gpu", Drop(("CCTL.IVALL", 0))),
    ("CCTL.IVALL deleted, sys", "message_sys", Drop(("CCTL.IVALL", 0))),
    ("CCTL.IVALL of a fence deleted", "message_fence", Drop(("CCTL.IVALL", 1))),
    ("CCTL.IVALL of an atomic deleted", "message_red", Drop(("CCTL.IVALL", 0))),
    ("MEMBAR before RED deleted", "message_red", Drop(("MEMBAR", 0))),
    ("MEMBAR before ATOM.EXCH deleted", "message_exchange", Drop(("MEMBAR", 0))),
    ("global store under MEMBAR.GPU", "message_thread", After(("STG", 0), ("MEMBAR", 0))),
    ("global store under STG.STRONG", "message_thread", After(("STG", 0), ("STG.E.STRONG", 0))),
    ("global load over CCTL.IVALL", "message_thread", Before(("LDG.E R", 1), ("CCTL.IVALL", 0))),
    ("global load over LDG.STRONG", "message_thread", Before(("LDG.E R", 1), ("LDG.E.STRONG", 0))),
    ("LDG.STRONG made weak", "message_fence", Change(("LDG.E.STRONG", 0), ".STRONG.SYS", "")),
    ("LDG.STRONG.SM made weak", "message_block", Change(("LDG.E.STRONG", 0), ".STRONG.SM", "")),
    (
        "STG.STRONG of the block only",
        "message_thread",
        Change(("STG.E.STRONG", 0), ".STRONG.GPU", ".STRONG.SM"),
    ),
    ("MEMBAR.CTA before STG.STRONG.SM deleted", "message_block", Drop(("MEMBAR", 0))),
    ("global store under STG.STRONG.SM", "message_block", After(("STG", 0), ("STG.E.STRONG", 0))),
    ("MEMBAR.SC deleted, store buffering", "store_buffering", Drop(("MEMBAR", 0))),
    ("strong load over MEMBAR.SC", "store_buffering", Before(("LDG", 0), ("MEMBAR", 0))),
    ("strong store under MEMBAR.SC", "store_buffering", After(("STG", 0), ("MEMBAR", 0))),
    // Locks and counters.
    ("MEMBAR of an unlock deleted", "lock", Drop(("MEMBAR", 0))),
    ("CCTL.IVALL of a lock deleted", "lock", Drop(("CCTL.IVALL", 0))),
    ("global load over the atomic of a lock", "lock", Before(("LDG", 0), ("ATOMG", 0))),
    ("global store under the store of an unlock", "lock", After(("STG", 0), ("STG.E.STRONG", 0))),
    ("MEMBAR.SC before ATOM deleted", "last_block", Drop(("MEMBAR", 0))),
    ("CCTL.IVALL of the last block deleted", "last_block", Drop(("CCTL.IVALL", 1))),
    ("global store under ATOM", "last_block", After(("STG", 0), ("ATOMG", 0))),
    // Asynchronous copies.
    ("DEPBAR of LDGSTS deleted", "copy_own", Drop(("DEPBAR", 0))),
    ("LDGDEPBAR deleted", "copy_own", Drop(("LDGDEPBAR", 0))),
    ("DEPBAR waits for one group less", "copy_own", Change(("DEPBAR", 0), "0x0", "0x1")),
    ("shared load over DEPBAR", "copy_own", Before(("LDS R", 0), ("DEPBAR", 0))),
    ("LDGDEPBAR before LDGSTS", "copy_own", Before(("LDGDEPBAR", 0), ("LDGSTS", 0))),
    ("BAR.SYNC behind DEPBAR deleted", "copy_other", Drop(("BAR.SYNC", 0))),
    ("DEPBAR under BAR.SYNC", "copy_other", After(("DEPBAR", 0), ("BAR.SYNC", 0))),
    ("shared load over the wait for UBLKCP", "bulk_load", Before(("LDS", 0), ("SYNCS.PHASECHK", 0))),
    ("DEPBAR of UBLKCP deleted", "bulk_store", Drop(("DEPBAR", 0))),
    ("UTMACMDFLUSH deleted", "bulk_store", Drop(("UTMACMDFLUSH", 0))),
    ("CCTL.IVALL behind a bulk wait deleted", "bulk_store", Drop(("CCTL.IVALL", 0))),
    ("global load over a bulk wait", "bulk_store", Before(("LDG", 1), ("DEPBAR", 0))),
    ("BAR.SYNC before UBLKCP deleted", "bulk_store", Drop(("BAR.SYNC", 0))),
    ("shared store under BAR.SYNC before UBLKCP", "bulk_store", After(("STS", 0), ("BAR.SYNC", 0))),
    ("shared store over a bulk wait", "bulk_reuse", Before(("STS", 1), ("DEPBAR", 0))),
    ("DEPBAR before a write deleted", "bulk_reuse", Drop(("DEPBAR", 0))),
    // Clusters.
    ("MEMBAR before UCGABAR_ARV deleted, remote store", "cluster_store", Drop(("MEMBAR", 0))),
    ("MEMBAR before UCGABAR_ARV deleted, remote load", "cluster_load", Drop(("MEMBAR", 0))),
    ("MEMBAR before UCGABAR_ARV deleted, global", "cluster_global", Drop(("MEMBAR", 0))),
    ("CCTL.IVALL behind UCGABAR_WAIT deleted", "cluster_global", Drop(("CCTL.IVALL", 0))),
    ("UCGABAR_WAIT deleted", "cluster_store", Drop(("UCGABAR_WAIT", 0))),
    ("shared load over UCGABAR_WAIT", "cluster_store", Before(("LDS", 0), ("UCGABAR_WAIT", 0))),
    ("remote load over UCGABAR_WAIT", "cluster_load", Before(("LD.E", 0), ("UCGABAR_WAIT", 0))),
    ("global load over UCGABAR_WAIT", "cluster_global", Before(("LDG", 1), ("UCGABAR_WAIT", 0))),
    ("remote store under UCGABAR_ARV", "cluster_store", After(("ST.E", 0), ("UCGABAR_ARV", 0))),
    ("global store under UCGABAR_ARV", "cluster_global", After(("STG", 0), ("UCGABAR_ARV", 0))),
    ("shared store over UCGABAR_WAIT", "cluster_load", Before(("STS", 1), ("UCGABAR_WAIT", 1))),
];

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let subject = Subject::new()?;
    let unplanted = subject.runs.par_iter().map(|run| subject.unplanted(run, SEEDS));
    let wrong: Vec<String> = unplanted.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    list_differences("correct code with a wrong result", &wrong, options.show);
    let tried: Vec<(&str, Planted)> = LOSSES
        .par_iter()
        .map(|(what, kernel, loss)| Ok((*what, subject.plant(kernel, *loss, SEEDS)?)))
        .collect::<Result<_>>()?;
    let missed: Vec<String> = tried
        .iter()
        .filter(|(_, planted)| planted.weak.is_none())
        .map(|(what, _)| what.to_string())
        .collect();
    list_differences("planted losses that are not found", &missed, options.show);
    let usual = tried.iter().filter(|(_, planted)| planted.is_found_without).count();
    println!("{} of {} losses show without the weak mode, too", usual, tried.len());
    let all = subject.runs.len();
    Ok(vec![
        Bar { what: "kernels that are right with every seed", equal: all - wrong.len(), all, percent: 100 },
        Bar {
            what: "planted losses of ordering that are found",
            equal: tried.len() - missed.len(),
            all: tried.len(),
            percent: 100,
        },
    ])
}

/// What became of a planted loss: the wrong result, and whether the usual mode has one, too.
struct Planted {
    weak: Option<String>,
    is_found_without: bool,
}

struct Subject {
    cubin: Vec<u8>,
    runs: Vec<Run>,
}

impl Subject {
    fn new() -> Result<Subject> {
        let source = shell::read(&shell::root().join("crates/xtask/data/ordering.ptx"))?;
        let module =
            ptx::parse(&source, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
        let options = sassafras::Options::new(module.target).with(|o| {
            o.level = 0;
        });
        let output = sassafras::compile_module(&module, &options);
        let cubin = output.cubin.ok_or_else(|| format!("{:?}", output.diagnostics))?;
        Ok(Subject { cubin, runs: runline::parse(&source)? })
    }

    /// The first seed that gives a wrong result, and the result.
    fn first_wrong(&self, cubin: &[u8], run: &Run, seeds: u64) -> Option<String> {
        let program = match sim::sass::Program::new(cubin) {
            Ok(program) => program,
            Err(error) => return Some(error.to_string()),
        };
        let wrong = |seed: u64| check(&program, run, Some(seed)).err();
        (0..seeds).find_map(|seed| wrong(seed).map(|what| format!("{}, seed {seed}: {what}", run.kernel)))
    }

    /// What is wrong with a kernel as it is, and where nothing waits for scoreboards.
    fn unplanted(&self, run: &Run, seeds: u64) -> Result<Option<String>> {
        let stripped = self.mutant(&run.kernel, None)?;
        Ok(self.first_wrong(&self.cubin, run, seeds).or_else(|| self.first_wrong(&stripped, run, seeds)))
    }

    fn plant(&self, kernel: &str, loss: Loss, seeds: u64) -> Result<Planted> {
        let run = self.runs.iter().find(|run| run.kernel == kernel);
        let run = run.ok_or_else(|| format!("there is no run of {kernel}"))?;
        let mutant = self.mutant(kernel, Some(loss))?;
        let is_found_without = check(&sim::sass::Program::new(&mutant)?, run, None).is_err();
        Ok(Planted { weak: self.first_wrong(&mutant, run, seeds), is_found_without })
    }

    /// The cubin with a loss in a kernel.
    fn mutant(&self, kernel: &str, loss: Option<Loss>) -> Result<Vec<u8>> {
        let mut object = Object::read(&self.cubin)?;
        let isa = Isa::of_sm(object.header.sm().into()).ok_or("no such machine")?;
        let (section, _) = object.section(&format!(".text.{kernel}")).ok_or("no such section")?;
        let Body::Bytes(bytes) = &mut object.sections[section].body else { return Err("no code".into()) };
        let words = bytes.chunks_exact(WORD_BYTES as usize).filter_map(|word| word.try_into().ok());
        let code: Vec<Inst> = words.map(|word| sass::decode(isa, u128::from_le_bytes(word))).collect();
        let code = plant(isa, code, loss).map_err(|what| format!("{kernel}, {loss:?}: {what}"))?;
        let words = code.iter().map(sass::encode).collect::<std::result::Result<Vec<u128>, _>>()?;
        *bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(object.write()?)
    }
}

/// Runs a kernel; what is wrong, if anything.
fn check(program: &sim::sass::Program, run: &Run, weak: Option<u64>) -> Planting<()> {
    let mut machine = sim::sass::Machine::new(program);
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters =
        run.parameters(&addresses, |_, _| Err::<Vec<u8>, String>("only buffers are passed here".into()))?;
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    let launch = Launch { step_limit: STEP_LIMIT, check_schedule: false, weak, ..launch };
    machine.run(&launch).map_err(|fault| fault.to_string())?;
    let read = |(address, data): (&u64, &[u8])| {
        machine.read(*address, data.len()).map(<[u8]>::to_vec).unwrap_or_default()
    };
    let results: Vec<Vec<u8>> = addresses.iter().zip(run.buffers()).map(read).collect();
    run.check(&results).map_err(|mismatch| mismatch.to_string())
}

type Planting<T> = std::result::Result<T, String>;

/// An instruction.
struct Line {
    inst: Inst,
    /// Where it stood, if it is not new.
    before: Option<usize>,
    /// The places that branches know it by.
    labels: Vec<usize>,
}

/// The code with a loss planted. Nothing waits for scoreboards any more, so that a copy lands where DEPBAR waits for it.
fn plant(isa: Isa, code: Vec<Inst>, loss: Option<Loss>) -> Planting<Vec<Inst>> {
    let line = |(index, mut inst): (usize, Inst)| {
        inst.control.wait = 0;
        Line { inst, before: Some(index), labels: vec![index] }
    };
    let mut lines: Vec<Line> = code.into_iter().enumerate().map(line).collect();
    match loss {
        None => {}
        Some(Drop(pick)) => {
            let at = find(&lines, pick)?;
            lines[at].inst.guard = sass::Guard { predicate: sass::PT, not: true };
        }
        Some(Change(pick, from, to)) => {
            let at = find(&lines, pick)?;
            let text = lines[at].inst.to_string();
            if !text.contains(from) {
                return Err(format!("{text} has no {from}"));
            }
            lines[at].inst = rewrite(isa, &lines[at].inst, &text.replacen(from, to, 1))?;
        }
        Some(Before(what, over)) => {
            let (at, to) = (find(&lines, what)?, find(&lines, over)?);
            move_up(isa, &mut lines, at, to)?;
        }
        Some(After(what, under)) => {
            let (at, to) = (find(&lines, what)?, find(&lines, under)?);
            move_down(isa, &mut lines, at, to)?;
        }
    }
    link(isa, &lines)
}

/// The instruction with another text.
fn rewrite(isa: Isa, inst: &Inst, text: &str) -> Planting<Inst> {
    let new = sass::parse(isa, text).map_err(|error| format!("{text}: {error}"))?;
    Ok(new.controlled(inst.control))
}

/// Moves an instruction in front of an earlier one. What a load returns waits in a register of its own.
fn move_up(isa: Isa, lines: &mut Vec<Line>, at: usize, to: usize) -> Planting<()> {
    if at <= to {
        return Err("it stands there already".into());
    }
    let inst = lines[at].inst.clone();
    let result = inst.operands().find(|(slot, operand)| slot.role == Role::Def && operand.kind == Kind::R);
    let labels = std::mem::take(&mut lines[to].labels);
    let text = without_descriptor(&inst);
    let (text, before) = match result.map(|(_, operand)| format!("R{}", operand.value)) {
        Some(register) => {
            lines[at].inst = rewrite(isa, &inst, &format!("MOV {register}, {FREE}"))?;
            // The code ends with NOPs.
            lines.pop();
            (text.replacen(&register, FREE, 1), None)
        }
        None => (text, remove(lines, at)),
    };
    let moved = rewrite(isa, &inst, &text)?;
    check_move(&lines[to..at], &moved)?;
    lines.insert(to, Line { inst: moved, before, labels });
    Ok(())
}

/// Moves an instruction behind a later one.
fn move_down(isa: Isa, lines: &mut Vec<Line>, at: usize, to: usize) -> Planting<()> {
    if at >= to {
        return Err("it stands there already".into());
    }
    let inst = lines[at].inst.clone();
    let moved = rewrite(isa, &inst, &without_descriptor(&inst))?;
    check_move(&lines[at + 1..=to], &moved)?;
    let before = remove(lines, at);
    lines.insert(to, Line { inst: moved, before, labels: Vec::new() });
    Ok(())
}

/// Takes an instruction out; who branches to it comes to the next one. Where it stood.
fn remove(lines: &mut Vec<Line>, at: usize) -> Option<usize> {
    let line = lines.remove(at);
    if let Some(next) = lines.get_mut(at) {
        next.labels.extend(line.labels);
    }
    line.before
}

/// The text of an access without the uniform register of its descriptor, which may hold something else elsewhere.
fn without_descriptor(inst: &Inst) -> String {
    let text = inst.to_string();
    match (text.split_once("desc["), inst.op()) {
        (Some((before, rest)), _) => match rest.split_once(']') {
            Some((_, address)) => format!("{before}{}", address.replacen(".64]", "]", 1)),
            None => text,
        },
        _ => text,
    }
}

fn find(lines: &[Line], (prefix, nth): Pick) -> Planting<usize> {
    let matches = |Line { inst, .. }: &Line| {
        let text = inst.to_string();
        let dropped = inst.guard.not && inst.guard.predicate == sass::PT;
        let bare =
            if text.starts_with('@') { text.split_once(' ').map_or("", |(_, rest)| rest) } else { &text };
        !dropped && bare.starts_with(prefix)
    };
    let mut found = lines.iter().enumerate().filter(|(_, line)| matches(line)).map(|(index, _)| index);
    found.nth(nth).ok_or_else(|| format!("there is no {prefix} with number {nth}"))
}

/// An instruction that moves over others must not depend on them, nor they on it.
fn check_move(over: &[Line], moved: &Inst) -> Planting<()> {
    for Line { inst, .. } in over {
        for a in inst.registers() {
            for b in moved.registers().filter(|b| b.file == a.file) {
                let apart = u16::from(a.first) + a.count <= b.first.into()
                    || u16::from(b.first) + b.count <= a.first.into();
                if !apart && (a.role == Role::Def || b.role == Role::Def) {
                    return Err(format!("{moved} depends on {inst}"));
                }
            }
        }
    }
    Ok(())
}

/// The instructions, with branches to where their targets are now.
fn link(isa: Isa, lines: &[Line]) -> Planting<Vec<Inst>> {
    let place = |index: i64| {
        let index = usize::try_from(index).ok()?;
        lines.iter().position(|line| line.labels.contains(&index))
    };
    let linked = lines.iter().enumerate().map(|(now, Line { inst, before, .. })| {
        let relative = inst.operands().find(|(_, operand)| operand.kind == Kind::Relative);
        let (Some((_, operand)), Some(before)) = (relative, before) else { return Ok(inst.clone()) };
        let target = *before as i64 + 1 + operand.value / WORD_BYTES as i64;
        let target = place(target).ok_or_else(|| format!("{inst} leads out of the kernel"))?;
        let text = inst.to_string();
        let (head, _) = text.rsplit_once(' ').ok_or("a branch without a target")?;
        let text = format!("{head} {:#x}", target as u64 * WORD_BYTES);
        let new = sass::parse_at(isa, &text, now as u64 * WORD_BYTES)
            .map_err(|error| format!("{text}: {error}"))?;
        Ok(new.controlled(inst.control))
    });
    linked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All losses, as the command plants them.
    #[test]
    fn planted_losses_of_ordering_are_found() {
        let subject = Subject::new().unwrap();
        for run in &subject.runs {
            assert_eq!(subject.unplanted(run, SEEDS).unwrap(), None);
        }
        for (what, kernel, loss) in LOSSES {
            let planted = subject.plant(kernel, *loss, SEEDS).unwrap();
            assert!(planted.weak.is_some(), "not found: {what}");
        }
        assert!(LOSSES.len() >= 30);
    }
}
