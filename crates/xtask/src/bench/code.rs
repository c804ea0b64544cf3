//! `bench code`: how many instructions our code has, and ptxas's at `-O3`, in all and in innermost loops.
//!
//! Counted in listings of the cubins. Padding behind the code doesn't count; idle instructions within it do. A loop is
//! what lies between a branch and an earlier place that it goes to; it is innermost if no other lies in it.

use crate::tools::Tools;
use crate::{Result, shell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCH: &str = "-arch=sm_90a";

/// Instructions of a cubin, or of several.
#[derive(Clone, Default)]
struct Count {
    all: usize,
    in_loops: usize,
    by_operation: BTreeMap<String, usize>,
}

pub fn run(folders: &[String]) -> Result<()> {
    let tools = Tools::find()?;
    shell::run(&mut shell::cargo(["build", "--quiet", "--release", "--package", "sassafras-cli"]))?;
    let ours = shell::target_dir().join("release/sassafras");
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    let mut rows = Vec::new();
    for file in files(folders)? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let count = |program: &Path| count(program, &ours, &file, &dir.join("code.cubin"));
        let (new, reference) = (count(&ours)?, count(&tools.bin().join("ptxas"))?);
        match (new, reference) {
            (Some(new), Some(reference)) => rows.push((name, new, reference)),
            (None, Some(_)) => println!("{name}: we don't compile it"),
            (_, None) => println!("{name}: ptxas doesn't compile it"),
        }
    }
    if rows.is_empty() {
        return Err("nothing was compiled".into());
    }
    print(rows);
    Ok(())
}

/// The PTX files of folders, or of the repository's corpus.
pub fn files(folders: &[String]) -> Result<Vec<PathBuf>> {
    let corpus = shell::root().join("crates/ptx/tests/corpus");
    let folders: Vec<PathBuf> = match folders {
        [] => vec![corpus.join("inductor"), corpus.join("triton")],
        given => given.iter().map(PathBuf::from).collect(),
    };
    let mut all = Vec::new();
    for folder in folders {
        all.extend(shell::files_below(&folder, "ptx")?);
    }
    Ok(all)
}

/// The instructions of what a compiler makes of a file; `None` if it refuses.
fn count(compiler: &Path, lister: &Path, file: &Path, cubin: &Path) -> Result<Option<Count>> {
    let output = shell::capture(Command::new(compiler).args([ARCH, "-O3", "-o"]).arg(cubin).arg(file))?;
    if !output.status.success() {
        return Ok(None);
    }
    let listing = shell::capture(Command::new(lister).arg("disasm").arg(cubin))?;
    let listing = String::from_utf8_lossy(&listing.stdout);
    let mut count = Count::default();
    for section in listing.split(".section .text.").skip(1) {
        count.add(&instructions(section));
    }
    Ok(Some(count))
}

/// Address and text of each instruction of a section, up to the branch to itself that stands before the padding.
fn instructions(section: &str) -> Vec<(u64, &str)> {
    let read = |line: &'_ str| -> Option<(u64, usize)> {
        let from = line.find("/*")? + 2;
        let to = line[from..].find("*/")? + from;
        let address = u64::from_str_radix(&line[from..to], 16).ok()?;
        // The control code stands between address and text.
        let code = line[to + 2..].trim_start();
        let text = code.find(char::is_whitespace)? + (line.len() - code.len());
        Some((address, text))
    };
    let all = section.lines().filter_map(|line| read(line).map(|(at, text)| (at, line[text..].trim())));
    let mut all: Vec<(u64, &str)> = all.collect();
    let is_end = |(at, text): &(u64, &str)| jump(text) == Some(*at);
    if let Some(end) = all.iter().rposition(is_end) {
        all.truncate(end);
    }
    all
}

/// Where a branch goes.
fn jump(text: &str) -> Option<u64> {
    if !text.split_whitespace().any(|word| word == "BRA" || word.starts_with("BRA.")) {
        return None;
    }
    let label = text.split(".L_").nth(1)?;
    let digits = label.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(digits, 16).ok()
}

fn operation(text: &str) -> &str {
    let text = if text.starts_with('@') { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
    text.trim_start().split(['.', ' ']).next().unwrap_or_default()
}

impl Count {
    fn add(&mut self, instructions: &[(u64, &str)]) {
        let back = instructions.iter().filter_map(|(at, text)| Some((jump(text)?, *at)));
        let loops: Vec<(u64, u64)> = back.filter(|(to, at)| to <= at).collect();
        let contains = |a: &(u64, u64), b: &(u64, u64)| a != b && a.0 <= b.0 && b.1 <= a.1;
        let inner: Vec<_> = loops.iter().filter(|l| !loops.iter().any(|other| contains(l, other))).collect();
        for (at, text) in instructions {
            self.all += 1;
            self.in_loops += usize::from(inner.iter().any(|(first, last)| first <= at && at <= last));
            *self.by_operation.entry(operation(text).to_string()).or_default() += 1;
        }
    }

    fn sum(&mut self, other: &Count) {
        self.all += other.all;
        self.in_loops += other.in_loops;
        for (operation, count) in &other.by_operation {
            *self.by_operation.entry(operation.clone()).or_default() += count;
        }
    }
}

fn ratio(a: usize, b: usize) -> f64 {
    a as f64 / b.max(1) as f64
}

fn print(mut rows: Vec<(String, Count, Count)>) {
    rows.sort_by(|a, b| ratio(a.1.all, a.2.all).total_cmp(&ratio(b.1.all, b.2.all)));
    println!("ratio    ours   ptxas   in loops   ptxas   kernel");
    let (mut ours, mut ptxas, mut logarithms) = (Count::default(), Count::default(), 0.0);
    for (name, new, reference) in &rows {
        let all = ratio(new.all, reference.all);
        let (a, b, c, d) = (new.all, reference.all, new.in_loops, reference.in_loops);
        println!("{all:>5.2} {a:>7} {b:>7} {c:>10} {d:>7}   {name}");
        ours.sum(new);
        ptxas.sum(reference);
        logarithms += all.ln();
    }
    let mean = (logarithms / rows.len() as f64).exp();
    println!("all: {} against {}, ratio {:.3}", ours.all, ptxas.all, ratio(ours.all, ptxas.all));
    let loops = ratio(ours.in_loops, ptxas.in_loops);
    println!("innermost loops: {} against {}, ratio {loops:.3}", ours.in_loops, ptxas.in_loops);
    println!("geometric mean of the kernels: {mean:.3}");
    let of = |count: &Count, operation: &String| count.by_operation.get(operation).copied().unwrap_or(0);
    let mut operations: Vec<&String> = ours.by_operation.keys().chain(ptxas.by_operation.keys()).collect();
    operations.sort();
    operations.dedup();
    operations.sort_by_key(|o| of(&ptxas, o) as i64 - of(&ours, o) as i64);
    let shown = operations.iter().take(16).map(|o| format!("{o} {} {}", of(&ours, o), of(&ptxas, o)));
    println!("most in excess (ours, ptxas): {}", shown.collect::<Vec<_>>().join(", "));
}
