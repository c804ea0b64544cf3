//! Part `matrix`: what the matrix instructions compute on machines that we don't have.
//!
//! Every recorded form becomes a kernel of one warp that gives each register of the instruction a random value, executes
//! it, and stores all of them with the memory that its address points to. The interpreter runs the PTX; the simulator
//! runs our code at -O0 and -O3, with the schedule checked, and ptxas's. All must leave the same memory. How `wmma`
//! spreads its matrices over a warp PTX leaves open, and the interpreter has a way of its own: there our code must do
//! what ptxas's does, if need be its code for Hopper.

use super::json::Json;
use super::tensor_text::registers;
use super::{Bar, Options, list_differences};
use crate::compile::{compile_ours, compile_theirs};
use crate::tools::Tools;
use crate::{Result, shell};
use gpu::runline::splitmix64;
use rayon::prelude::*;
use sim::Machine;
use sim::ptx::Launch;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TARGETS: [&str; 8] = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];
const FAMILIES: [&str; 4] = ["mma", "mma.sp", "wmma", "matmov"];
const LEVELS: [u8; 2] = [0, 3];
/// Forms in one module.
const BATCH: usize = 24;

/// The memory: the registers of each thread, what a global address points to, what shared memory begins as.
const SLOTS: usize = 512;
const MATRIX: usize = 32 * SLOTS;
const TILE: usize = 32 << 10;
/// Elements between rows of `wmma`'s matrices: 16 bytes at least in every type.
const STRIDE: usize = 128;

/// Random words keep these bits: any number, and those that are finite in every format (the upper bit of exponents of 4,
/// 5, 8 and 11 bits is clear, wherever numbers of 8 to 64 bits begin).
const SETS: [u32; 2] = [u32::MAX, 0xbfbf_bfbf];

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    let batches = batches(options)?;
    let scratch = shell::target_dir().join("conformance/matrix");
    let run = |(number, batch): (usize, &Batch)| batch.run(&tools, scratch.join(number.to_string()));
    let tallies = batches.par_iter().enumerate().map(run).collect::<Result<Vec<Tally>>>()?;
    let mut rows: BTreeMap<(usize, &str), Tally> = BTreeMap::new();
    let mut total = Tally::default();
    for (batch, tally) in batches.iter().zip(tallies) {
        rows.entry((batch.target, batch.family)).or_default().add(&tally);
        total.add(&tally);
    }
    println!("target    family       forms     ours    ptxas  not known");
    for ((target, family), tally) in &rows {
        let Tally { forms, ours, theirs, .. } = tally;
        let open: usize = tally.unknown.values().sum();
        println!("{:<9} {family:<10} {forms:>7} {ours:>8} {theirs:>8} {open:>10}", TARGETS[*target]);
    }
    println!();
    for (what, count) in &total.unknown {
        println!("not known {count:>4} times: {what}");
    }
    list_differences("other results", &total.different, options.show);
    let Tally { ours, wrong, theirs, theirs_wrong, .. } = total;
    let bar = |what, equal, wrong| Bar { what, equal, all: equal + wrong, percent: 100 };
    Ok(vec![
        bar("our code does what it should", ours, wrong),
        bar("ptxas's code does what the interpreter does", theirs, theirs_wrong),
    ])
}

/// A form with its operands.
struct Form {
    ptx: String,
    family: &'static str,
}

/// Forms that stand in one module.
struct Batch {
    target: usize,
    family: &'static str,
    forms: Vec<Form>,
}

fn batches(options: &Options) -> Result<Vec<Batch>> {
    let path = options.forms();
    let mut all: BTreeMap<(usize, &'static str), Vec<Form>> = BTreeMap::new();
    for (number, line) in shell::read(&path)?.lines().enumerate() {
        let json = Json::parse(line).map_err(|e| format!("{}:{}: {e}", path.display(), number + 1))?;
        let name = json.get("family")?.str()?;
        let Some(family) = FAMILIES.into_iter().find(|family| *family == name) else { continue };
        if options.family.as_ref().is_some_and(|only| only != family) {
            continue;
        }
        let ptx = json.get("ptx")?.str()?;
        for accepted in json.get("accepted")?.array()? {
            let accepted = accepted.str()?;
            let Some(target) = TARGETS.iter().position(|t| *t == accepted) else { continue };
            let forms = all.entry((target, family)).or_default();
            for selected in selections(ptx, family) {
                let form = Form { ptx: selected, family };
                if form.ptx == ptx || is_accepted(&module(TARGETS[target], &[&form])) {
                    forms.push(form);
                }
            }
        }
    }
    let mut batches = Vec::new();
    for ((target, family), forms) in all {
        let mut forms = forms.into_iter().peekable();
        while forms.peek().is_some() {
            batches.push(Batch { target, family, forms: forms.by_ref().take(BATCH).collect() });
        }
    }
    Ok(batches)
}

/// A form as it was recorded, and for sparse matrices with the metadata of the other threads.
fn selections(ptx: &str, family: &str) -> Vec<String> {
    let mut all = vec![ptx.to_owned()];
    if let Some(rest) = ptx.strip_suffix(",0;").filter(|_| family == "mma.sp") {
        all.extend((1..4).map(|selector| format!("{rest},{selector};")));
    }
    all
}

fn is_accepted(source: &str) -> bool {
    !ptx::parse(source, &ptx::Options::default()).failed()
}

#[derive(Default)]
struct Tally {
    forms: usize,
    ours: usize,
    wrong: usize,
    theirs: usize,
    theirs_wrong: usize,
    /// What an executor doesn't know, and how many codes have it.
    unknown: BTreeMap<String, usize>,
    different: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.forms += other.forms;
        self.ours += other.ours;
        self.wrong += other.wrong;
        self.theirs += other.theirs;
        self.theirs_wrong += other.theirs_wrong;
        other
            .unknown
            .iter()
            .for_each(|(what, count)| *self.unknown.entry(what.clone()).or_default() += count);
        self.different.extend(other.different.iter().cloned());
    }
}

/// What became of a kernel with each set: its memory, or what is not known, or why it stops.
type Memory = std::result::Result<Vec<Vec<u8>>, Stop>;

enum Stop {
    Unknown(String),
    Fault(String),
}

impl Batch {
    fn run(&self, tools: &Tools, scratch: PathBuf) -> Result<Tally> {
        let target = TARGETS[self.target];
        let forms: Vec<&Form> = self.forms.iter().collect();
        let source = module(target, &forms);
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.ok_or_else(|| format!("the kernels for {target} do not parse"))?;
        let interpreted = sim::ptx::Program::new(&module, &source);
        let theirs = sim::sass::Program::new(&compile_theirs(tools, &scratch, &source, target, 3)?)?;
        let compile = |level: &u8| Ok(sim::sass::Program::new(&compile_ours(&source, target, *level)?)?);
        let ours = LEVELS.iter().map(compile).collect::<Result<Vec<_>>>()?;
        let mut tally = Tally { forms: forms.len(), ..Tally::default() };
        for (number, form) in forms.iter().enumerate() {
            let kernel = format!("k{number}");
            let expected = form.memories(&kernel, || sim::ptx::Machine::new(&interpreted), true);
            // What ptxas knows of latencies beyond the model is not the question here.
            let mut theirs = form.memories(&kernel, || sim::sass::Machine::new(&theirs), false);
            let name = format!("{target} {}", form.ptx);
            let is_open = form.family == "wmma";
            if !is_open {
                match verdict(&expected, &theirs) {
                    Verdict::Same => tally.theirs += 1,
                    Verdict::Unknown(what) => *tally.unknown.entry(what).or_default() += 1,
                    Verdict::Different(what) => {
                        tally.theirs_wrong += 1;
                        tally.different.push(format!("{name}\n      ptxas: {what}"));
                    }
                }
            }
            if let (true, Err(Stop::Unknown(_))) = (is_open, &theirs) {
                theirs = form.on_hopper(tools, &scratch)?;
            }
            let expected = if is_open { &theirs } else { &expected };
            for (level, program) in LEVELS.iter().zip(&ours) {
                let got = form.memories(&kernel, || sim::sass::Machine::new(program), true);
                match verdict(expected, &got) {
                    Verdict::Same => tally.ours += 1,
                    Verdict::Unknown(what) => *tally.unknown.entry(what).or_default() += 1,
                    Verdict::Different(what) => {
                        tally.wrong += 1;
                        tally.different.push(format!("{name}\n      ours at -O{level}: {what}"));
                    }
                }
            }
        }
        Ok(tally)
    }
}

enum Verdict {
    Same,
    Unknown(String),
    Different(String),
}

fn verdict(expected: &Memory, got: &Memory) -> Verdict {
    match (expected, got) {
        (Err(Stop::Unknown(what)), _) | (_, Err(Stop::Unknown(what))) => Verdict::Unknown(what.clone()),
        (_, Err(Stop::Fault(why))) | (Err(Stop::Fault(why)), _) => {
            Verdict::Different(format!("stops: {why}"))
        }
        (Ok(expected), Ok(got)) if expected == got => Verdict::Same,
        (Ok(expected), Ok(got)) => {
            let places = expected.iter().flatten().zip(got.iter().flatten());
            Verdict::Different(format!("{} bytes differ", places.filter(|(a, b)| a != b).count()))
        }
    }
}

impl Form {
    fn memories<M: Machine>(&self, kernel: &str, machine: impl Fn() -> M, check_schedule: bool) -> Memory {
        SETS.iter().map(|set| self.memory(&mut machine(), kernel, *set, check_schedule)).collect()
    }

    /// What ptxas's code for a machine does of which everything is known.
    fn on_hopper(&self, tools: &Tools, scratch: &Path) -> Result<Memory> {
        let cubin = compile_theirs(tools, scratch, &module("sm_90a", &[self]), "sm_90a", 3)?;
        let program = sim::sass::Program::new(&cubin)?;
        Ok(self.memories("k0", || sim::sass::Machine::new(&program), false))
    }

    /// The memory after the kernel.
    fn memory(
        &self,
        machine: &mut dyn Machine,
        kernel: &str,
        set: u32,
        check_schedule: bool,
    ) -> std::result::Result<Vec<u8>, Stop> {
        let contents = self.contents(set);
        let size = contents.len();
        let address = machine.allocate(contents);
        let parameters = address.to_le_bytes();
        let launch = Launch { check_schedule, ..Launch::new(kernel, [1; 3], [32, 1, 1], &parameters) };
        match machine.run(&launch) {
            Ok(_) => Ok(machine.read(address, size).unwrap_or_default().to_vec()),
            Err(fault) => {
                let interpreted = fault.downcast_ref::<sim::ptx::Fault>().map(|fault| &fault.kind);
                let simulated = fault.downcast_ref::<sim::sass::Fault>().map(|fault| &fault.kind);
                Err(match interpreted.or(simulated) {
                    Some(sim::ptx::FaultKind::Unsupported { what }) => Stop::Unknown(instruction(what)),
                    _ => Stop::Fault(fault.to_string()),
                })
            }
        }
    }

    fn has_memory(&self) -> bool {
        self.ptx.contains('[')
    }

    fn has_shared(&self) -> bool {
        self.has_memory() && (self.ptx.contains(".shared") || self.family == "matmov")
    }

    /// The registers that the form reads or writes, each with its type and its place among those of its thread.
    fn slots(&self) -> Vec<(&str, &'static str, usize)> {
        let mut end = 0usize;
        let mut slots = Vec::new();
        for register in registers(&self.ptx) {
            let (ty, size) =
                match register.trim_start_matches('%').trim_end_matches(|c: char| c.is_ascii_digit()) {
                    "r" if register != STRIDE_REGISTER => ("b32", 4),
                    "f" => ("f32", 4),
                    "d" => ("f64", 8),
                    _ => continue,
                };
            let place = end.next_multiple_of(size);
            slots.push((register, ty, place));
            end = place + size;
        }
        slots
    }

    /// The memory before the kernel.
    fn contents(&self, set: u32) -> Vec<u8> {
        let words = if self.has_memory() { MATRIX + 2 * TILE } else { MATRIX } / 4;
        let word = |index: usize| (splitmix64(0, index as u64) >> 32) as u32;
        let mut bytes: Vec<u8> = (0..words).flat_map(|index| (word(index) & set).to_le_bytes()).collect();
        let metadata = self.slots().into_iter().find(|(name, ..)| *name == METADATA);
        if let (Some((_, _, place)), "mma.sp") = (metadata, self.family) {
            for thread in 0..32 {
                let at = thread * SLOTS + place;
                bytes[at..at + 4].copy_from_slice(&self.metadata(word(words + thread)).to_le_bytes());
            }
        }
        bytes
    }

    /// Which two of four elements there are: of tf32, whose halves go together, one of two. The two may stand in any
    /// order where the instruction doesn't say that they are in theirs.
    fn metadata(&self, random: u32) -> u32 {
        let choice = |nibble: u32| -> u32 {
            let a = nibble & 3;
            let b = (a + 1 + (nibble >> 2) % 3) & 3;
            match () {
                () if self.ptx.contains("tf32") => [0b0100, 0b1110][nibble as usize & 1],
                () if self.ptx.contains("ordered_metadata") => a.min(b) | a.max(b) << 2,
                () => a | b << 2,
            }
        };
        (0..8).map(|at| choice(random >> (4 * at) & 15) << (4 * at)).sum()
    }

    fn kernel(&self, number: usize) -> String {
        let (mut load, mut store) = (String::new(), String::new());
        for (register, ty, place) in self.slots() {
            load += &format!("ld.global.{ty} {register}, [%at1+{place}];\n");
            store += &format!("st.global.{ty} [%at1+{place}], {register};\n");
        }
        let (mut tile, mut fill, mut save) = ("", String::new(), String::new());
        if self.has_shared() {
            tile = ".shared .align 128 .b8 tile[32768];\n";
            let start = MATRIX + TILE;
            let each = |name: &str, body: &str| {
                format!(
                    "mov.u32 %word1, %word0;\n{name}: mul.wide.u32 %at2, %word1, 4; add.u64 %at3, %at0, %at2;
mov.u64 %at4, tile; add.u64 %at4, %at4, %at2;\n{body}
add.u32 %word1, %word1, 32; setp.lt.u32 %more, %word1, {}; @%more bra {name};\n",
                    TILE / 4
                )
            };
            fill =
                each("fill", &format!("ld.global.b32 %word2, [%at3+{start}]; st.shared.b32 [%at4], %word2;"));
            fill += "bar.sync 0;\n";
            save = "bar.sync 0;\n".to_owned();
            save += &each(
                "save",
                &format!("ld.shared.b32 %word2, [%at4]; st.global.b32 [%at3+{start}], %word2;"),
            );
        }
        let address = match self.has_shared() {
            // A row of eight for each thread, with room between them.
            true if self.family == "matmov" => {
                let generic = if self.ptx.contains(".shared") { "" } else { "cvta.shared.u64 %rd1, %rd1; " };
                format!("mov.u64 %rd1, tile; {generic}mad.wide.u32 %rd1, %word0, 48, %rd1;\n")
            }
            true => "mov.u64 %rd1, tile;\n".to_owned(),
            false => format!("add.u64 %rd1, %at0, {MATRIX};\n"),
        };
        format!(
            ".visible .entry k{number}(.param .u64 memory) {{
.reg .b16 %h<5>; .reg .b32 %r<256>, %word<3>; .reg .f32 %f<256>; .reg .f64 %d<64>; .reg .b64 %rd<4>, %at<5>;
.reg .pred %more;
{tile}ld.param.u64 %at0, [memory]; mov.u32 %word0, %tid.x; mad.wide.u32 %at1, %word0, {SLOTS}, %at0;
{fill}{load}mov.u32 {STRIDE_REGISTER}, {STRIDE};
mov.b16 %h1, 0; mov.b16 %h2, 0; mov.b16 %h3, 0; mov.b16 %h4, 0;
{address}{}\n{store}{save}ret; }}\n",
            self.ptx
        )
    }
}

/// Registers of the recorded forms: the stride of `wmma`, and what sparse matrices leave out.
const STRIDE_REGISTER: &str = "%r99";
const METADATA: &str = "%r60";

fn module(target: &str, forms: &[&Form]) -> String {
    let kernels = forms.iter().enumerate().map(|(number, form)| form.kernel(number));
    format!(".version 9.0\n.target {target}\n.address_size 64\n") + &kernels.collect::<String>()
}

/// The name of an instruction that isn't known: of PTX its kind or all of it, of the machine the operation and its shape.
fn instruction(what: &str) -> String {
    let name = what.split(' ').next().unwrap_or(what).trim_matches('\'');
    let words = |text: &str, count: usize| text.split('.').take(count).collect::<Vec<_>>().join(".");
    match name.split_once(".kind::") {
        Some((_, kind)) => format!("kind::{}", words(kind, 1)),
        None if name.starts_with(|c: char| c.is_ascii_uppercase()) => words(name, 2),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(ptx: &str, family: &'static str) -> Form {
        Form { ptx: ptx.into(), family }
    }

    #[test]
    fn metadata_names_two_of_four() {
        let pairs = |ptx: &str| -> Vec<(u32, u32)> {
            let form = form(ptx, "mma.sp");
            let words = (0..64).map(|index| form.metadata(splitmix64(0, index) as u32));
            words
                .flat_map(|word| (0..8).map(move |at| (word >> (4 * at) & 3, word >> (4 * at + 2) & 3)))
                .collect()
        };
        let any = pairs("mma.sp.sync.f16");
        assert!(any.iter().all(|(a, b)| a != b));
        assert!(any.iter().any(|(a, b)| a > b));
        assert!(pairs("mma.sp::ordered_metadata.sync.f16").iter().all(|(a, b)| a < b));
        assert!(pairs("mma.sp.sync.tf32").iter().all(|pair| [(0, 1), (2, 3)].contains(pair)));
    }

    #[test]
    fn names_of_what_is_not_known() {
        assert_eq!(instruction("QMMA.16832.F32.E4M3.E4M3 R4, R8, R12, R4"), "QMMA.16832");
        assert_eq!(instruction("'mma.sync.kind::mxf4.block_scale.f32' is not supported"), "kind::mxf4");
        assert_eq!(instruction("'ldmatrix.sync.m8n16.b8'"), "ldmatrix.sync.m8n16.b8");
    }

    #[test]
    fn kernels_are_accepted() {
        let forms = [
            form(
                "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8},[%rd1],%r99;",
                "wmma",
            ),
            form("ldmatrix.sync.aligned.m8n8.x1.b16 {%r1},[%rd1];", "matmov"),
            form(
                "mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4},{%r20,%r21},{%r30,%r31},{%f40,%f41,%f42,%f43},%r60,1;",
                "mma.sp",
            ),
        ];
        assert!(is_accepted(&module("sm_90a", &forms.iter().collect::<Vec<_>>())));
        assert_eq!(forms[1].slots(), [("%r1", "b32", 0)]);
        assert!(forms[0].slots().iter().all(|(name, ..)| *name != STRIDE_REGISTER));
    }
}
