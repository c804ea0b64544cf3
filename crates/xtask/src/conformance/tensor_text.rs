//! Part `tensor-text`: what the tensor and asynchronous instructions become, against ptxas's code for the same PTX.
//!
//! Every recorded form is put into a kernel that loads its registers and stores them, and both compilers translate it
//! at -O3. Compared are the operations that do the work ([`UNITS`]): their text without guards and numbers of registers
//! and scoreboards, as a bag. How operands are computed, loaded and moved, and in which order, is each compiler's own affair. What
//! differs must be explained, text by text ([`RULES`]); the task fails otherwise.

use super::json::Json;
use super::{Bar, Options, list_differences};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGETS: [&str; 5] = ["sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];

/// Families of the data, and how the instructions begin that are meant; all of them where nothing is said.
const FAMILIES: [(&str, &[&str]); 13] = [
    ("atom", &["multimem", "redux", "elect", "red.async", "vote", "match"]),
    ("bulk", &[]),
    ("cpasync", &[]),
    ("ctrl", &["griddepcontrol", "setmaxnreg"]),
    ("ldst", &["st.async", "st.bulk", "createpolicy", "mapa", "getctarank", "prefetch.tensormap"]),
    ("matmov", &[]),
    ("mbar", &[]),
    ("mma", &[]),
    ("mma.sp", &[]),
    ("sync", &[]),
    ("tcgen05", &[]),
    ("wgmma", &[]),
    ("wmma", &[]),
];

/// The operations that do the work; a star stands for any ending.
const UNITS: &[&str] = &[
    "ACQBULK",
    "ARRIVES",
    "ATOMG",
    "ATOMS",
    "B2R",
    "BAR",
    "BGMMA",
    "BMMA",
    "BPT",
    "CCTL*",
    "CGAERRBAR",
    "CREDUX",
    "DEPBAR",
    "DMMA",
    "ELECT",
    "ERRBAR",
    "F2FP",
    "FADD",
    "FENCE",
    "FFMA",
    "FMUL",
    "HADD2",
    "HGMMA",
    "HMMA",
    "IGMMA",
    "IMMA",
    "LDGDEPBAR",
    "LDGMC",
    "LDGSTS",
    "LDS",
    "LDSM",
    "LDT",
    "LDTM",
    "MATCH",
    "MEMBAR",
    "MOVM",
    "NANOSLEEP",
    "OMMA",
    "PREEXIT",
    "QGMMA",
    "QMMA",
    "RED",
    "REDAS",
    "REDG",
    "REDUX",
    "SHFL",
    "STAS",
    "STS",
    "STSM",
    "STTM",
    "SYNCS",
    "UBLK*",
    "UCCTL",
    "UCGABAR*",
    "UGETNEXTWORKID",
    "UMEMSETS",
    "USETMAXREG",
    "UTC*",
    "UTMA*",
    "UVIRTCOUNT",
    "VOTE",
    "WARPGROUP",
    "WARPGROUPSET",
    "WARPSYNC",
];

/// Why code differs: forms that contain all of `form`, in which ptxas has these texts beyond ours, and we those beyond
/// its. Texts are exact; `2 SHFL …` is one that occurs twice more.
struct Rule {
    name: &'static str,
    form: &'static [&'static str],
    /// Theirs and ours.
    differences: &'static [[&'static [&'static str]; 2]],
    why: &'static str,
}

/// Listed with more words in `docs/instructions.md`.
const RULES: &[Rule] = &[
    Rule {
        name: "sparse-order",
        form: &["mma.sp.sync"],
        differences: &[
            [&[QUAD_1, QUAD_2, QUAD_3, "SHFL.IDX P, R, R, R, 0x1c03"], &[QUAD_0]],
            [&[QUAD_1, QUAD_2, QUAD_3, "2 SHFL.IDX P, R, R, R, 0x1c03"], &[QUAD_0]],
            [
                &[QUAD_2, QUAD_3, "3 SHFL.IDX P, R, R, R, 0x1c03"],
                &["2 SHFL.IDX P, R, R, 0x0, 0x1c03", QUAD_1],
            ],
            [
                &["5 SHFL.IDX P, R, R, R, 0x1c03"],
                &["2 SHFL.IDX P, R, R, 0x0, 0x1c03", QUAD_1, QUAD_2, QUAD_3],
            ],
        ],
        why: "metadata is put in order by the threads that hold it; ptxas gathers it in every thread first",
    },
    Rule {
        name: "sparse-ordered",
        form: &["mma.sp::ordered_metadata", ".s32"],
        differences: &[
            [&[QUAD_1, QUAD_2, QUAD_3, "3 SHFL.IDX P, R, R, R, 0x1c03"], &[]],
            [&[QUAD_1, QUAD_2, QUAD_3, "5 SHFL.IDX P, R, R, R, 0x1c03"], &[]],
        ],
        why: "metadata of four-bit integers that is in order already stays where it is",
    },
    Rule {
        name: "sparse-bytes",
        form: &["mma.sp", ".m16n8k64", ".e"],
        differences: &[
            [
                &[
                    SPARSE_0,
                    "6 SHFL.DOWN P, R, R, 0x1, 0x1f",
                    QUAD_1,
                    QUAD_2,
                    QUAD_3,
                    "SHFL.IDX P, R, R, R, 0x1c03",
                    "5 SHFL.UP P, R, R, 0x1, R",
                    "SHFL.UP P, R, R, 0x2, R",
                ],
                &[SPARSE_1, "4 SHFL.BFLY P, R, R, 0x1, 0x1f"],
            ],
            [
                &[
                    SPARSE_0,
                    "6 SHFL.DOWN P, R, R, 0x1, 0x1f",
                    "SHFL.IDX P, R, R, R, 0x1c03",
                    "5 SHFL.UP P, R, R, 0x1, R",
                    "SHFL.UP P, R, R, 0x2, R",
                ],
                &[SPARSE_1, "4 SHFL.BFLY P, R, R, 0x1, 0x1f", QUAD_0],
            ],
            [
                &["6 SHFL.DOWN P, R, R, 0x1, 0x1f", "5 SHFL.UP P, R, R, 0x1, R", "SHFL.UP P, R, R, 0x2, R"],
                &["4 SHFL.BFLY P, R, R, 0x1, 0x1f", "2 SHFL.IDX P, R, R, R, 0x1c03"],
            ],
        ],
        why: "rows are exchanged with one neighbour, and the selector tells the halves of the metadata apart",
    },
    Rule {
        name: "four-tiles",
        form: &["wmma.load", ".shared.", "8 {"],
        differences: &[[&["2 LDSM.16.M88.2 R, [R]"], &["LDSM.16.M88.4 R, [R]"]]],
        why: "four tiles are read at once, where ptxas takes two twice",
    },
    Rule {
        name: "folded-offset",
        form: &["wmma.load", "m16n16k8.shared.tf32"],
        differences: &[
            [&["2 LDS R, [R]"], &["2 LDS R, [R+0x10]"]],
            [&["2 LDS R, [R]"], &["2 LDS R, [R+0x20]"]],
        ],
        why: "offsets are in the loads, where ptxas adds them before",
    },
    Rule {
        name: "swapped-halves",
        form: &["mma.sync.aligned.m8n8k4.", ".f16.f16."],
        differences: &[
            [&["2 HADD2.F32 R, -R, R.H1_H1"], &["2 HADD2.F32 R, -R, R.H0_H0"]],
            [&["4 HADD2.F32 R, -R, R.H1_H1"], &["4 HADD2.F32 R, -R, R.H0_H0"]],
            [&["4 HADD2.F32 R, -R, R.H1_H1", "4 SHFL.IDX P, R, R, R, 0x1f"], &["4 HADD2.F32 R, -R, R.H0_H0"]],
            [&["4 HADD2.F32 R, -R, R.H1_H1"], &["4 HADD2.F32 R, -R, R.H0_H0", "8 SHFL.IDX P, R, R, R, 0x1f"]],
            [&[], &["4 SHFL.IDX P, R, R, R, 0x1f"]],
        ],
        why: "halves change places before they are widened; tiles are turned by shuffles alone, without selections \
              between them, so that the whole is shorter even with more shuffles",
    },
    Rule {
        name: "bits",
        form: &[".s32.b1.b1.s32", "popc"],
        differences: &[
            [&["8 MOVM.U4TO8.M832 R, R"], &[]],
            [&["8 MOVM.U4TO8.M832 R, R"], &["4 IMMA.16832.U8.U8 R, R.ROW, R.COL, R"]],
            [&["12 MOVM.U4TO8.M832 R, R"], &[]],
            [&["12 MOVM.U4TO8.M832 R, R"], &["4 IMMA.16832.U8.U8 R, R.ROW, R.COL, R"]],
        ],
        why: "bits become bytes by shifts and masks; ptxas calls its four products of an exclusive or twice, \
              ours stand there",
    },
];

/// A word from one of the threads of a quad, and sparse products with the first and the second selector.
const QUAD_0: &str = "SHFL.IDX P, R, R, 0x0, 0x1c03";
const QUAD_1: &str = "SHFL.IDX P, R, R, 0x1, 0x1c03";
const QUAD_2: &str = "SHFL.IDX P, R, R, 0x2, 0x1c03";
const QUAD_3: &str = "SHFL.IDX P, R, R, 0x3, 0x1c03";
const SPARSE_0: &str = "HMMA.SP.16832.F32 R, R, R, R, R, 0x0";
const SPARSE_1: &str = "HMMA.SP.16832.F32 R, R, R, R, R, 0x1";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    shell::run(&mut shell::cargo(["build", "--quiet", "-p", "sassafras-cli"]))?;
    let compilers = Compilers {
        theirs: tools.bin().join("ptxas"),
        ours: shell::target_dir().join("debug/sassafras"),
        nvdisasm: tools.bin().join("nvdisasm"),
        scratch: shell::target_dir().join("conformance/tensor-text"),
    };
    shell::create_dir(&compilers.scratch)?;
    let batches = batches(options)?;
    let tallies = batches.par_iter().map(|batch| batch.compare(&compilers)).collect::<Result<Vec<_>>>()?;
    let mut total = Tally::default();
    println!("target    family       forms     same  explained");
    for (batch, tally) in batches.iter().zip(&tallies) {
        let Tally { forms, same, .. } = tally;
        let explained = tally.explained.values().sum::<usize>();
        println!("{:<9} {:<10} {forms:>7} {same:>8} {explained:>10}", batch.target, batch.family);
        total.add(tally);
    }
    println!("\nsame text {}", total.same);
    for rule in RULES {
        let count = total.explained.get(rule.name).copied().unwrap_or(0);
        println!("explained by rule {:<15} {count:>4}  {}", rule.name, rule.why);
    }
    println!("other {}", total.unexplained.len());
    list_differences("forms that differ, and nobody knows why", &total.unexplained, options.show);
    let explained = total.explained.values().sum::<usize>();
    Ok(vec![
        Bar { what: "the same operations", equal: total.same, all: total.forms, percent: 90 },
        Bar { what: "the same, or explained", equal: total.same + explained, all: total.forms, percent: 100 },
    ])
}

/// Which forms may stand in one module: target, family, and whether they use tensor memory in pairs.
type Key = (usize, usize, bool);

/// Forms of a family that one module may have together.
struct Batch {
    target: &'static str,
    family: &'static str,
    number: usize,
    forms: Vec<String>,
}

fn batches(options: &Options) -> Result<Vec<Batch>> {
    let path = options.forms();
    let mut all: BTreeMap<(usize, usize, bool), Vec<String>> = BTreeMap::new();
    for (number, line) in shell::read(&path)?.lines().enumerate() {
        let json = Json::parse(line).map_err(|e| format!("{}:{}: {e}", path.display(), number + 1))?;
        let (name, form) = (json.get("family")?.str()?, json.get("ptx")?.str()?);
        let meant = |(family, starts): &(&str, &[&str])| {
            *family == name && (starts.is_empty() || starts.iter().any(|s| form.starts_with(s)))
        };
        let Some(family) = FAMILIES.iter().position(meant) else { continue };
        if options.family.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        for accepted in json.get("accepted")?.array()? {
            let accepted = accepted.str()?;
            if let Some(target) = TARGETS.iter().position(|t| *t == accepted) {
                // A module uses tensor memory alone or in pairs, never both.
                let paired = form.contains("cta_group::2");
                all.entry((target, family, paired)).or_default().push(form.to_owned());
            }
        }
    }
    let batch = |(number, ((target, family, _), forms)): (usize, (Key, Vec<String>))| Batch {
        target: TARGETS[target],
        family: FAMILIES[family].0,
        number,
        forms,
    };
    Ok(all.into_iter().enumerate().map(batch).collect())
}

#[derive(Default)]
struct Tally {
    forms: usize,
    same: usize,
    explained: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.forms += other.forms;
        self.same += other.same;
        other.explained.iter().for_each(|(why, count)| *self.explained.entry(why).or_default() += count);
        self.unexplained.extend(other.unexplained.iter().cloned());
    }
}

/// How often each operation occurs.
type Bag = BTreeMap<String, usize>;

impl Batch {
    fn compare(&self, compilers: &Compilers) -> Result<Tally> {
        let theirs = compilers.operations(&compilers.theirs, "theirs", self)?;
        let ours = compilers.operations(&compilers.ours, "ours", self)?;
        let mut tally = Tally { forms: self.forms.len(), ..Tally::default() };
        for (form, pair) in self.forms.iter().zip(theirs.into_iter().zip(ours)) {
            let (theirs, ours) = match pair {
                (Ok(theirs), Ok(ours)) => (surplus(&theirs, &ours), surplus(&ours, &theirs)),
                (Err(why), _) | (_, Err(why)) => {
                    tally.unexplained.push(format!("{} {form}\n      {why}", self.target));
                    continue;
                }
            };
            if theirs.is_empty() && ours.is_empty() {
                tally.same += 1;
            } else if let Some(rule) = RULES.iter().find(|r| r.explains(form, &theirs, &ours)) {
                *tally.explained.entry(rule.name).or_default() += 1;
            } else {
                let differs = format!("      ptxas: {theirs:?}\n      ours:  {ours:?}");
                tally.unexplained.push(format!("{} {form}\n{differs}", self.target));
            }
        }
        Ok(tally)
    }
}

/// What is in one bag and not in the other.
fn surplus(of: &Bag, over: &Bag) -> Bag {
    let rest = |(text, count): (&String, &usize)| {
        let more = count.saturating_sub(over.get(text).copied().unwrap_or(0));
        (more > 0).then(|| (text.clone(), more))
    };
    of.iter().filter_map(rest).collect()
}

impl Rule {
    fn explains(&self, form: &str, theirs: &Bag, ours: &Bag) -> bool {
        let known = |[t, o]: &[&[&str]; 2]| bag_of(t) == *theirs && bag_of(o) == *ours;
        self.form.iter().all(|word| form.contains(word)) && self.differences.iter().any(known)
    }
}

/// The bag of texts that say how often they occur, if not once.
fn bag_of(texts: &[&str]) -> Bag {
    let counted = |text: &&str| match text.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, rest)))
    {
        Some((count, rest)) => (rest.to_owned(), count),
        None => (text.to_string(), 1),
    };
    texts.iter().map(counted).collect()
}

/// `HMMA` of `HMMA.16816.F32 R, R, R, R`.
fn operation(text: &str) -> &str {
    text.split(['.', ' ']).next().unwrap_or(text)
}

struct Compilers {
    theirs: PathBuf,
    ours: PathBuf,
    nvdisasm: PathBuf,
    scratch: PathBuf,
}

impl Compilers {
    /// The operations of each form of a batch. A form that is not compiled takes no other with it.
    fn operations(
        &self,
        compiler: &Path,
        label: &str,
        batch: &Batch,
    ) -> Result<Vec<std::result::Result<Bag, String>>> {
        let name = self.scratch.join(format!("{label}-{}", batch.number));
        let forms: Vec<&str> = batch.forms.iter().map(String::as_str).collect();
        if let Ok(all) = self.listing(compiler, &name, batch.target, &forms)? {
            return Ok(all.into_iter().map(Ok).collect());
        }
        let alone = |form: &&str| {
            let listing = self.listing(compiler, &name, batch.target, &[form])?;
            Ok(listing.map(|mut bags| bags.pop().unwrap_or_default()))
        };
        forms.iter().map(alone).collect()
    }

    fn listing(
        &self,
        compiler: &Path,
        name: &Path,
        target: &str,
        forms: &[&str],
    ) -> Result<std::result::Result<Vec<Bag>, String>> {
        let (source, cubin) = (name.with_extension("ptx"), name.with_extension("cubin"));
        shell::write(&source, module(target, forms))?;
        let mut command = Command::new(compiler);
        command.arg(format!("-arch={target}")).arg(&source).arg("-o").arg(&cubin);
        let output = shell::capture(&mut command)?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let output = shell::capture(Command::new(&self.nvdisasm).arg("-c").arg(&cubin))?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(Ok(bags(&String::from_utf8_lossy(&output.stdout), forms.len())))
    }
}

/// The bag of each kernel `k0`, `k1`, … of a listing.
fn bags(listing: &str, count: usize) -> Vec<Bag> {
    let mut all = vec![Bag::new(); count];
    let mut kernel = None;
    for line in listing.lines() {
        if let Some(section) = line.strip_prefix(".text.k") {
            kernel = section.trim_end_matches(':').parse::<usize>().ok().filter(|k| *k < count);
        } else if let (Some(kernel), Some(text)) = (kernel, instruction(line))
            && is_unit(operation(text))
        {
            *all[kernel].entry(without_registers(text)).or_default() += 1;
        }
    }
    all
}

/// The text of an instruction's line, without address and guard.
fn instruction(line: &str) -> Option<&str> {
    let (address, text) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let text = text.trim().strip_suffix(';')?.trim_end();
    let text = match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ')?.1,
        None => text,
    };
    address.chars().all(|c| c.is_ascii_hexdigit()).then_some(text)
}

fn is_unit(operation: &str) -> bool {
    UNITS.iter().any(|unit| match unit.strip_suffix('*') {
        Some(start) => operation.starts_with(start),
        None => operation == *unit,
    })
}

/// `R12` and `RZ` are `R`, and so are registers of the other files; labels are all the same.
fn without_registers(text: &str) -> String {
    let text = text.replace(".reuse", "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        if c == '`' {
            out.push('L');
            rest = rest.find(')').map_or("", |end| &rest[end + 1..]);
        } else if word.is_empty() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.push_str(file_of(word).unwrap_or(word));
            rest = &rest[end..];
        }
    }
    out
}

/// The file of a register's or a scoreboard's name.
fn file_of(word: &str) -> Option<&'static str> {
    ["UR", "UP", "SB", "R", "P", "B"].into_iter().find(|file| {
        let number = word.strip_prefix(file);
        number
            .is_some_and(|n| matches!(n, "Z" | "T") || !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn module(target: &str, forms: &[&str]) -> String {
    let mut text = format!(".version 9.0\n.target {target}\n.address_size 64\n");
    let variables = [("gvar", ".global .b32 gvar[4];\n"), ("cvar", ".const .b32 cvar[4];\n")];
    for (name, declaration) in variables {
        if forms.iter().any(|form| form.contains(name)) {
            text += declaration;
        }
    }
    let kernels = forms.iter().enumerate().map(|(number, form)| kernel(number, form));
    text + &kernels.collect::<String>()
}

/// A kernel that loads the registers of a form, has the form, and stores them.
fn kernel(number: usize, form: &str) -> String {
    let shared = if form.contains("svar") { ".shared .align 16 .b8 svar[64];\n" } else { "" };
    let mut loads = String::new();
    let mut stores = String::new();
    for (place, register) in registers(form).into_iter().enumerate() {
        let at = format!("[%base+{}]", 4096 * place);
        match register.trim_start_matches('%').trim_end_matches(|c: char| c.is_ascii_digit()) {
            "p" => {
                loads += &format!("ld.global.b32 %word, {at}; setp.ne.u32 {register}, %word, 0;\n");
                stores += &format!("selp.u32 %word, 1, 0, {register}; st.global.b32 {at}, %word;\n");
            }
            "q" => {
                loads +=
                    &format!("ld.global.v2.b64 {{%low,%high}}, {at}; mov.b128 {register}, {{%low,%high}};\n");
                stores +=
                    &format!("mov.b128 {{%low,%high}}, {register}; st.global.v2.b64 {at}, {{%low,%high}};\n");
            }
            kind => {
                let ty = match kind {
                    "b" => "b8",
                    "h" => "b16",
                    "r" | "f" => "b32",
                    _ => "b64",
                };
                loads += &format!("ld.global.{ty} {register}, {at};\n");
                stores += &format!("st.global.{ty} {at}, {register};\n");
            }
        }
    }
    format!(
        ".entry k{number}(.param .b64 kp) {{
.reg .b8 %b<10>; .reg .b16 %h<20>; .reg .b32 %r<300>, %word, %lane; .reg .b64 %rd<20>, %base, %at, %low, %high;
.reg .pred %p<8>; .reg .f32 %f<300>; .reg .f64 %d<80>; .reg .b128 %q<5>;
{shared}mov.u32 %lane, %tid.x; mul.wide.u32 %at, %lane, 16; ld.param.b64 %base, [kp]; add.s64 %base, %base, %at;
{loads}{form}\n{stores}ret; }}\n"
    )
}

/// The registers that a form names, each once: `%rd1`, `%p2`, ….
pub(super) fn registers(form: &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for (start, _) in form.match_indices('%') {
        let name = &form[start + 1..];
        let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
        let kind = name[..end].trim_end_matches(|c: char| c.is_ascii_digit());
        let known = ["b", "d", "f", "h", "p", "q", "r", "rd"].contains(&kind) && kind.len() < end;
        let register = &form[start..=start + end];
        if known && !all.contains(&register) {
            all.push(register);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_no_numbers() {
        let text = "SYNCS.ARRIVE.TRANS64 R6, [R0+URZ+0x8], R9.reuse";
        assert_eq!(without_registers(text), "SYNCS.ARRIVE.TRANS64 R, [R+UR+0x8], R");
        assert_eq!(without_registers("BAR.RED.AND 0x1, !PT"), "BAR.RED.AND 0x1, !P");
        assert_eq!(without_registers("BRA `(.L_x_1)"), "BRA L");
        assert_eq!(without_registers("DEPBAR.LE SB1, 0x0"), "DEPBAR.LE SB, 0x0");
    }

    #[test]
    fn lines_of_a_listing() {
        let line = "        /*00a0*/              @!P0 HMMA.16816.F32 R4, R8, R12, RZ ;";
        assert_eq!(instruction(line), Some("HMMA.16816.F32 R4, R8, R12, RZ"));
        assert_eq!(instruction(".L_x_1:"), None);
        let bags = bags(&format!(".text.k1:\n{line}\n{line}\n"), 2);
        assert_eq!(bags[0], Bag::new());
        assert_eq!(bags[1], Bag::from([("HMMA.16816.F32 R, R, R, R".to_owned(), 2)]));
    }

    #[test]
    fn each_register_once() {
        assert_eq!(registers("x {%r1,%r1},[%rd2+4],%p3,%tid.x;"), ["%r1", "%rd2", "%p3"]);
    }

    #[test]
    fn what_is_explained() {
        let rule =
            Rule { name: "", form: &["b1"], differences: &[[&["2 MOVM.16 R, R"], &["IMMA R"]]], why: "" };
        let bag = |text: &str, count| Bag::from([(text.to_owned(), count)]);
        assert!(rule.explains("mma.b1", &bag("MOVM.16 R, R", 2), &bag("IMMA R", 1)));
        assert!(!rule.explains("mma.b1", &bag("MOVM.16 R, R", 1), &bag("IMMA R", 1)));
        assert!(!rule.explains("mma.b1", &bag("MOVM.16 R, R", 2), &Bag::new()));
        assert!(!rule.explains("mma.s8", &bag("MOVM.16 R, R", 2), &bag("IMMA R", 1)));
    }

    #[test]
    fn the_documentation_lists_the_rules() {
        let page = include_str!("../../../../docs/instructions.md");
        let listed: Vec<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("| `")?.split_once("` | "))
            .map(|(name, _)| name)
            .collect();
        let missing: Vec<&str> = RULES.iter().map(|r| r.name).filter(|name| !listed.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
