//! Part `modifiers`: what changes a sign (`neg`, `abs`, `not`, `cnot`, and two of them one after the other, of every type
//! that fits the register) in front of every register operand of every recorded PTX instruction form, and of all of one
//! width at once; addresses, and values for memory, are among them. The compiler moves
//! such changes onto the operands of machine instructions; what it then makes at -O0, -O1 and -O3, run in the simulator,
//! must leave the memory that the interpreter leaves for the PTX.
//!
//! `--gpu` runs the code on this machine's GPU in place of the simulator. `--bundle DIR` writes the modules as PTX with
//! our cubins and ptxas's, and a manifest for a tool that runs the kernels of several cubins on a GPU and compares what
//! they leave. Without ptxas that is an error, unless `--ours-only` says so.
//!
//! Memory is well defined: a float that a change of signs gets is no NaN (PTX leaves the sign of the result open), where
//! a result is NaN, its one pattern is stored, and the metadata of a sparse matrix names two elements in order.

mod memory;
mod on_gpu;
mod text;

use super::{Bar, Options, forms, list_differences};
use crate::compile::{compile_ours, compile_theirs};
use crate::{Result, shell};
use rayon::prelude::*;
use sim::ptx::Launch;
use std::path::Path;
use text::{Case, Module, THREADS};

/// Unless `--target` names another.
const TARGET: &str = "sm_90a";
const LEVELS: [u8; 3] = [0, 1, 3];
/// Cases of one kernel, and kernels of a module.
const CASES: usize = 48;
const KERNELS: usize = 16;
/// A kernel of straight code has fewer steps.
const STEP_LIMIT: u64 = 1 << 22;

/// What became of some cases.
#[derive(Default)]
struct Tally {
    equal: usize,
    different: Vec<String>,
    /// Not run: what the interpreter or the compiler doesn't do, and why.
    left_out: Vec<String>,
}

impl Tally {
    fn add(mut self, other: Tally) -> Tally {
        self.equal += other.equal;
        self.different.extend(other.different);
        self.left_out.extend(other.left_out);
        self
    }
}

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let forms = forms::read(options)?;
    let target = options.target.as_deref().unwrap_or(TARGET);
    let taken = forms.iter().filter(|form| form.accepted().any(|t| t == target));
    // Those are for the usual target.
    let always = text::ALWAYS.into_iter().filter(|_| options.family.is_none() && options.target.is_none());
    let cases: Vec<Case> = taken.map(|form| form.ptx.as_str()).chain(always).flat_map(text::cases).collect();
    let modules: Vec<Module> = cases.chunks(CASES * KERNELS).map(|chunk| Module::new(chunk, CASES)).collect();
    println!("{} cases in {} modules", cases.len(), modules.len());
    if let Some(dir) = &options.bundle {
        write_bundle(dir, &modules, target, options.ours_only)?;
        return Ok(vec![Bar {
            what: "modules in the bundle",
            equal: modules.len(),
            all: modules.len(),
            percent: 100,
        }]);
    }
    let tally = match options.gpu {
        true => on_gpu::measure(&modules, target)?,
        false => modules.par_iter().map(|m| measure(m, target)).reduce(Tally::default, Tally::add),
    };
    list_differences("other memory than the interpreter leaves", &tally.different, options.show);
    list_differences("not run", &tally.left_out, options.show);
    let compared = tally.equal + tally.different.len();
    Ok(vec![
        Bar { what: "cases with the interpreter's memory", equal: tally.equal, all: compared, percent: 100 },
        Bar { what: "cases that run", equal: compared, all: cases.len(), percent: 100 },
    ])
}

/// Runs a module at all levels; one that can't be run or that differs is taken apart until the case is alone.
fn measure(module: &Module, target: &str) -> Tally {
    let text = module.text(target);
    let outcome: std::result::Result<Vec<Vec<usize>>, String> =
        memory_of_ptx(module, &text).and_then(|expected| {
            LEVELS.iter().map(|level| different(module, &text, target, *level, &expected)).collect()
        });
    match outcome {
        Ok(levels) => compared(module, &levels),
        Err(why) if module.cases() == 1 => {
            Tally { left_out: vec![format!("{}: {why}", module.case(0).name())], ..Tally::default() }
        }
        Err(_) => {
            module.halves().map(|half| measure(&half, target)).into_iter().fold(Tally::default(), Tally::add)
        }
    }
}

/// What became of the cases of a module, of which these are different at each level.
fn compared(module: &Module, levels: &[Vec<usize>]) -> Tally {
    let at = |case: usize| LEVELS.iter().zip(levels).filter(move |(_, all)| all.contains(&case));
    let wrong = (0..module.cases()).filter(|case| at(*case).next().is_some());
    let name = |case: usize| {
        let levels: Vec<String> = at(case).map(|(level, _)| format!("-O{level}")).collect();
        format!("{}: {}", levels.join(" "), module.case(case).name())
    };
    let different: Vec<String> = wrong.map(name).collect();
    Tally { equal: module.cases() - different.len(), different, left_out: Vec::new() }
}

type Memory = Vec<Vec<u8>>;

/// What each kernel leaves of the results, in the interpreter.
fn memory_of_ptx(module: &Module, text: &str) -> std::result::Result<Memory, String> {
    let parsed = ptx::parse(text, &ptx::Options::default());
    let failed = parsed.failed();
    let first = parsed.diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
    let tree = parsed.module.filter(|_| !failed).ok_or(first)?;
    let program = sim::ptx::Program::new(&tree, text);
    memory(module, || sim::ptx::Machine::new(&program))
}

/// The cases whose memory at a level is another.
fn different(
    module: &Module,
    text: &str,
    target: &str,
    level: u8,
    expected: &Memory,
) -> std::result::Result<Vec<usize>, String> {
    let cubin = compile_ours(text, target, level)?;
    let program = sim::sass::Program::new(&cubin).map_err(|e| e.to_string())?;
    let got = memory(module, || sim::sass::Machine::new(&program))?;
    Ok(module.differing(expected, &got))
}

fn memory<M: sim::Machine>(module: &Module, machine: impl Fn() -> M) -> std::result::Result<Memory, String> {
    let run = |kernel: usize| {
        let mut machine = machine();
        let inputs = machine.allocate(text::inputs());
        let results = machine.allocate(vec![0; module.result_bytes(kernel)]);
        let parameters = [inputs.to_le_bytes(), results.to_le_bytes()].concat();
        let name = Module::kernel_name(kernel);
        let launch = Launch::new(&name, [1; 3], [THREADS as u32, 1, 1], &parameters);
        machine.run(&Launch { step_limit: STEP_LIMIT, ..launch }).map_err(|fault| fault.to_string())?;
        Ok(machine.read(results, module.result_bytes(kernel)).unwrap_or_default().to_vec())
    };
    (0..module.kernels()).map(run).collect()
}

/// Modules, cubins, and `manifest.json` with a case for each kernel.
fn write_bundle(dir: &Path, modules: &[Module], target: &str, ours_only: bool) -> Result<()> {
    shell::create_dir(dir)?;
    let tools = if ours_only { None } else { Some(crate::tools::Tools::find()?) };
    let mut cases = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        let Some((text, module)) = compilable(module, target) else { continue };
        let source = dir.join(format!("m{number}.ptx"));
        shell::write(&source, &text)?;
        let mut cubins = Vec::new();
        for level in LEVELS {
            let file = format!("m{number}-ours-O{level}.cubin");
            std::fs::write(dir.join(&file), compile_ours(&text, target, level)?)?;
            cubins.push((format!("ours-O{level}"), file));
        }
        if let Some(tools) = &tools {
            for level in [0, 3] {
                let file = format!("m{number}-ptxas-O{level}.cubin");
                std::fs::write(dir.join(&file), compile_theirs(tools, dir, &text, target, level)?)?;
                cubins.push((format!("ptxas-O{level}"), file));
            }
        }
        let cubins: Vec<String> =
            cubins.iter().map(|(name, file)| format!("\"{name}\": \"{file}\"")).collect();
        for kernel in 0..module.kernels() {
            cases.push(format!(
                "{{\"name\": \"m{number} {0}\", \"kernel\": \"{0}\", \"cubins\": {{{1}}}, \"params\": [\
                 {{\"kind\": \"buf\", \"bytes\": {2}, \"init\": \"rand32\", \"seed\": {3}}}, \
                 {{\"kind\": \"buf\", \"bytes\": {4}, \"init\": \"zero\"}}], \
                 \"grid\": [1, 1, 1], \"block\": [{THREADS}, 1, 1], \"smem\": 0, \"ref\": \"ours-O0\"}}",
                Module::kernel_name(kernel),
                cubins.join(", "),
                text::inputs().len(),
                number * KERNELS + kernel + 1,
                module.result_bytes(kernel),
            ));
        }
    }
    shell::write(&dir.join("manifest.json"), format!("{{\"cases\": [\n{}\n]}}\n", cases.join(",\n")))?;
    println!(
        "{} kernels with our cubins{}; run a comparison of cubins with {}/manifest.json there",
        cases.len(),
        if ours_only { ", without ptxas's" } else { " and ptxas's" },
        dir.display()
    );
    Ok(())
}

/// The module without the cases that don't compile or run here.
fn compilable(module: &Module, target: &str) -> Option<(String, Module)> {
    let fits = |module: &Module| {
        let text = module.text(target);
        let expected = memory_of_ptx(module, &text)?;
        LEVELS.iter().try_for_each(|level| different(module, &text, target, *level, &expected).map(drop))
    };
    let kept = keep(module, &fits);
    (!kept.is_empty()).then(|| {
        let module = Module::new(&kept, CASES);
        (module.text(target), module)
    })
}

fn keep(module: &Module, fits: &dyn Fn(&Module) -> std::result::Result<(), String>) -> Vec<Case> {
    match fits(module) {
        Ok(()) => module.all().to_vec(),
        Err(_) if module.cases() == 1 => Vec::new(),
        Err(_) => module.halves().iter().flat_map(|half| keep(half, fits)).collect(),
    }
}
