//! `bench code`: what our code is made of, and ptxas's at `-O3`: one row for each count, the sums over all files.
//!
//! Counted in the decoded cubins. Padding behind the code doesn't count, but in code bytes; idle instructions within it
//! do. Loops are natural loops.

mod count;

use crate::tools::Tools;
use crate::{Result, shell};
use count::{COLUMNS, Column, Count};
use rayon::prelude::*;
use sass::Target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Threads of a block, for occupancy.
const BLOCK: u32 = 256;

#[derive(Default)]
struct Options {
    folders: Vec<String>,
    /// The compiler, in place of the one that is built for this.
    program: Option<PathBuf>,
    target: Option<String>,
    /// The column whose counts per file are listed.
    by: Option<String>,
}

/// What a compiler makes of a file.
struct File {
    count: Count,
    code_bytes: u64,
    /// Of each kernel, in the order of their names.
    registers: Vec<(String, u32)>,
}

struct Row {
    name: String,
    ours: File,
    ptxas: File,
}

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("program") => options.program = Some(arguments.value()?.into()),
            Long("target") => options.target = Some(arguments.value()?.string()?),
            Long("by") => options.by = Some(arguments.value()?.string()?),
            Value(folder) => options.folders.push(folder.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let tools = Tools::find()?;
    let ours = match &options.program {
        Some(program) => program.clone(),
        None => {
            shell::run(&mut shell::cargo(["build", "--quiet", "--release", "--package", "sassafras-cli"]))?;
            shell::target_dir().join("release/sassafras")
        }
    };
    let target = options.target.as_deref().unwrap_or("sm_90a");
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    let compiled: Result<Vec<_>> = files(&options.folders)?
        .par_iter()
        .enumerate()
        .map(|(index, file)| {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let cubin = dir.join(format!("code-{}-{index}.cubin", std::process::id()));
            let new = compile(&ours, target, file, &cubin)?;
            let reference = compile(&tools.bin().join("ptxas"), target, file, &cubin)?;
            Ok((name, new, reference))
        })
        .collect();
    let mut rows = Vec::new();
    for (name, new, reference) in compiled? {
        match (new, reference) {
            (Some(ours), Some(ptxas)) => rows.push(Row { name, ours, ptxas }),
            (None, Some(_)) => println!("{name}: we don't compile it"),
            (_, None) => println!("{name}: ptxas doesn't compile it"),
        }
    }
    if rows.is_empty() {
        return Err("nothing was compiled".into());
    }
    print(&mut rows, options.by.as_deref())
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

/// What a compiler makes of a file; `None` if it refuses.
fn compile(compiler: &Path, target: &str, file: &Path, cubin: &Path) -> Result<Option<File>> {
    let arch = format!("-arch={target}");
    let output = shell::capture(Command::new(compiler).args([&arch, "-O3", "-o"]).arg(cubin).arg(file))?;
    if !output.status.success() {
        return Ok(None);
    }
    let bytes = shell::read_bytes(cubin)?;
    std::fs::remove_file(cubin)?;
    let object = cubin::Object::read(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let sections = sim::verify::read(&object).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut count = Count::default();
    let mut code_bytes = 0;
    for code in &sections {
        code_bytes += code.insts.len() as u64 * sass::WORD_BYTES;
        count.add_section(code);
    }
    let kernels = cubin::inspect::CubinReport::new(&object).kernels;
    let mut registers: Vec<_> =
        kernels.into_iter().filter_map(|kernel| Some((kernel.name, kernel.registers?))).collect();
    registers.sort();
    Ok(Some(File { count, code_bytes, registers }))
}

fn ratio(a: usize, b: usize) -> f64 {
    a as f64 / b.max(1) as f64
}

/// The geometric mean of ratios.
fn mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// Resident warps of an SM by registers alone.
fn occupancy(registers: u32) -> u32 {
    let unit = Target::REGISTER_UNIT;
    let registers = registers.next_multiple_of(unit).max(unit);
    let warps = Target::PARTITIONS * (Target::REGISTERS_PER_PARTITION / (Target::WARP * registers));
    let of_block = BLOCK / Target::WARP;
    (warps / of_block * of_block).min(64)
}

fn print(rows: &mut [Row], by: Option<&str>) -> Result<()> {
    if let Some(by) = by {
        let column = COLUMNS.iter().find(|(_, name)| *name == by);
        let names = || COLUMNS.map(|(_, name)| name).join("', '");
        let &(column, _) = column.ok_or_else(|| format!("no column '{by}': there are '{}'", names()))?;
        rows.sort_by_key(|row| row.ours.count.of(column) as i64 - row.ptxas.count.of(column) as i64);
        println!("{:>8} {:>8}   {by}", "ours", "ptxas");
        for row in &*rows {
            println!("{:>8} {:>8}   {}", row.ours.count.of(column), row.ptxas.count.of(column), row.name);
        }
    }
    let (mut ours, mut ptxas) = (Count::default(), Count::default());
    for row in &*rows {
        ours.sum(&row.ours.count);
        ptxas.sum(&row.ptxas.count);
    }
    println!("{:<28} {:>9} {:>9} {:>7}", "", "ours", "ptxas", "ratio");
    for (column, name) in COLUMNS {
        let (a, b) = (ours.of(column), ptxas.of(column));
        println!("{name:<28} {a:>9} {b:>9} {:>7.3}", ratio(a, b));
    }
    let registers = |file: fn(&Row) -> &File| -> Vec<u32> {
        rows.iter().flat_map(|row| file(row).registers.iter().map(|(_, registers)| *registers)).collect()
    };
    let (a, b) = (registers(|row| &row.ours), registers(|row| &row.ptxas));
    let pairs = || a.iter().zip(&b);
    let of_kernels = mean(pairs().map(|(&a, &b)| f64::from(a) / f64::from(b)));
    println!("{:<28} {:>9} {:>9} {of_kernels:>7.3}", "registers, mean of kernels", sum(&a), sum(&b));
    let lower = pairs().filter(|&(&a, &b)| occupancy(a) < occupancy(b)).count();
    let higher = pairs().filter(|&(&a, &b)| occupancy(a) > occupancy(b)).count();
    println!(
        "occupancy of {} kernels by registers, blocks of {BLOCK}: lower {lower}, higher {higher}",
        a.len()
    );
    let code_bytes = |file: fn(&Row) -> &File| rows.iter().map(|row| file(row).code_bytes).sum::<u64>();
    let of_files = mean(rows.iter().map(|row| row.ours.code_bytes as f64 / row.ptxas.code_bytes as f64));
    let (a, b) = (code_bytes(|row| &row.ours), code_bytes(|row| &row.ptxas));
    println!("{:<28} {a:>9} {b:>9} {of_files:>7.3}", "code bytes, mean of files");
    let count = |count: &Count| count.of(Column::Instructions);
    let of_files = mean(rows.iter().map(|row| ratio(count(&row.ours.count), count(&row.ptxas.count))));
    println!("instructions, geometric mean of files: {of_files:.3}");
    let of = |count: &Count, operation: &String| count.by_operation.get(operation).copied().unwrap_or(0);
    let mut operations: Vec<&String> = ours.by_operation.keys().chain(ptxas.by_operation.keys()).collect();
    operations.sort();
    operations.dedup();
    operations.sort_by_key(|o| of(&ptxas, o) as i64 - of(&ours, o) as i64);
    let shown = operations.iter().take(16).map(|o| format!("{o} {} {}", of(&ours, o), of(&ptxas, o)));
    println!("most in excess (ours, ptxas): {}", shown.collect::<Vec<_>>().join(", "));
    Ok(())
}

fn sum(counts: &[u32]) -> u32 {
    counts.iter().sum()
}
