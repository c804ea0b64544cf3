//! `bench spills`: what is stored and loaded for want of registers, against ptxas, as both say it with `-v`.
//!
//! Kernels with 300 words alive at once come first: ours are checked and run, and may spill at most [`BAR`] times as
//! much as ptxas. Then each given folder is compiled with few registers.

use crate::pressure::{self, REGISTERS, Spills};
use crate::tools::Tools;
use crate::{Result, shell};
use sim::generate::pressure::Shape;
use std::path::Path;
use std::process::Command;

const WORDS: usize = 300;
const BAR: f64 = 1.5;
/// Registers for real kernels.
const FEW: [u32; 2] = [32, 64];

pub fn run(folders: &[String]) -> Result<()> {
    let tools = Tools::find()?;
    let ptxas = tools.bin().join("ptxas");
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    println!("registers   ours: stores   loads   ptxas: stores   loads   ratio   values");
    let mut over = Vec::new();
    for shape in Shape::PLAIN {
        let file = dir.join(format!("{}.ptx", shape.name()));
        shell::write(&file, sim::generate::pressure::module(shape, WORDS))?;
        for registers in REGISTERS {
            let ours = pressure::check(shape, WORDS, registers)?;
            let reference = spills(&ptxas, "sm_90", registers, &file)?.ok_or("ptxas refuses a kernel")?;
            print(registers, ours, reference, &shape.name());
            if f64::from(ours.sum()) > BAR * f64::from(reference.sum()) {
                over.push(format!("{} in {registers}", shape.name()));
            }
        }
    }
    corpus(folders, &ptxas)?;
    if over.is_empty() { Ok(()) } else { Err(format!("over the bar: {}", over.join(", ")).into()) }
}

fn corpus(folders: &[String], ptxas: &Path) -> Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    shell::run(&mut shell::cargo(["build", "--quiet", "--release", "--package", "sassafras-cli"]))?;
    let own = shell::target_dir().join("release/sassafras");
    for folder in folders {
        for registers in FEW {
            let (mut ours, mut reference) = (Spills::default(), Spills::default());
            for original in shell::files_below(Path::new(folder), "ptx")? {
                let file = shell::target_dir().join("bench/spills.ptx");
                shell::write(&file, unbound(&shell::read(&original)?))?;
                let both =
                    (spills(&own, "sm_90a", registers, &file)?, spills(ptxas, "sm_90a", registers, &file)?);
                let (Some(a), Some(b)) = both else {
                    println!("{}: not compiled with {registers} registers", original.display());
                    continue;
                };
                ours = Spills { stores: ours.stores + a.stores, loads: ours.loads + a.loads };
                reference = Spills { stores: reference.stores + b.stores, loads: reference.loads + b.loads };
            }
            print(registers, ours, reference, folder);
        }
    }
    Ok(())
}

/// The text without what its kernels say about their launch: with that, ptxas takes the option for a hint only.
fn unbound(text: &str) -> String {
    let directives = [".reqntid", ".maxntid", ".minnctapersm", ".maxnreg"];
    let says = |line: &&str| directives.iter().any(|d| line.trim_start().starts_with(d));
    let lines: Vec<&str> = text.lines().filter(|line| !says(line)).collect();
    lines.join("\n")
}

fn print(registers: u32, ours: Spills, reference: Spills, what: &str) {
    let ratio = f64::from(ours.sum()) / f64::from(reference.sum().max(1));
    let (a, b, c, d) = (ours.stores, ours.loads, reference.stores, reference.loads);
    println!("{registers:>9} {a:>14} {b:>7} {c:>15} {d:>7} {ratio:>7.2}   {what}");
}

/// What a compiler says of a file with `-v`; `None` if it refuses.
fn spills(compiler: &Path, target: &str, registers: u32, file: &Path) -> Result<Option<Spills>> {
    let cubin = shell::target_dir().join("bench/spills.cubin");
    let mut command = Command::new(compiler);
    command.args(["-v", "-arch", target, "--maxrregcount", &registers.to_string(), "-o"]);
    let output = shell::capture(command.arg(cubin).arg(file))?;
    if !output.status.success() {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let bytes = |what: &str| -> u32 {
        let before = text.match_indices(what).map(|(at, _)| &text[..at]);
        before.filter_map(|t| t.rsplit([' ', '\n']).find(|word| !word.is_empty())?.parse::<u32>().ok()).sum()
    };
    Ok(Some(Spills { stores: bytes("bytes spill stores"), loads: bytes("bytes spill loads") }))
}
