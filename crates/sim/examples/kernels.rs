//! Runs the kernels of a PTX file in the interpreter and from several cubins in the simulator, and compares the memory
//! that they leave.
//!
//! `cargo run --release -p sassafras-sim --example kernels -- [--blocks N] [--weak SEED] FILE.ptx FIRST.cubin [OTHER.cubin ...]`

use sim::kernels::{Case, Data};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut blocks = 2;
    if arguments.first().is_some_and(|argument| argument == "--blocks") {
        blocks = arguments.get(1).ok_or("how many blocks?")?.parse()?;
        arguments.drain(..2);
    }
    let mut weak = None;
    if arguments.first().is_some_and(|argument| argument == "--weak") {
        weak = Some(arguments.get(1).ok_or("which seed?")?.parse()?);
        arguments.drain(..2);
    }
    let [file, cubins @ ..] = &arguments[..] else { return Err("a PTX file and cubins are needed".into()) };
    let source = std::fs::read_to_string(file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let bytes = cubins.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let programs = bytes.iter().map(|cubin| sim::sass::Program::new(cubin)).collect::<Result<Vec<_>, _>>()?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    for case in Case::of(&module, blocks) {
        for data in [Data::Numbers, Data::Indices] {
            let start = Instant::now();
            let reference = case.run(&mut sim::ptx::Machine::new(&interpreted), data);
            let simulate = |program| {
                let mut machine = sim::sass::Machine::new(program);
                match weak {
                    Some(seed) => case.run(&mut sim::Adverse { machine, seed }, data),
                    None => case.run(&mut machine, data),
                }
            };
            let outcomes: Vec<Outcome> = programs.iter().map(simulate).collect();
            let mut all = vec![("PTX".to_string(), &reference)];
            all.extend(cubins.iter().cloned().zip(&outcomes));
            let verdict = verdicts(&all);
            println!("{file} {} {data:?}: {verdict} ({:.1} s)", case.kernel, start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

type Outcome = Result<Vec<Vec<u8>>, Box<dyn Error>>;

/// What each way does that differs from the first one that ends.
fn verdicts(outcomes: &[(String, &Outcome)]) -> String {
    let first = outcomes.iter().find_map(|(who, outcome)| Some((who, outcome.as_ref().ok()?)));
    let one = |(who, outcome): &(String, &Outcome)| match (outcome, first) {
        (Err(error), _) => Some(format!("FAULT {who}: {error}")),
        (Ok(memory), Some((_, first))) if memory == first => None,
        (Ok(memory), Some((other, first))) => {
            Some(format!("DIFFERENT {other} {who} {}", difference(first, memory)))
        }
        (Ok(_), None) => None,
    };
    let found: Vec<String> = outcomes.iter().filter_map(one).collect();
    if found.is_empty() { "same".to_string() } else { found.join("; ") }
}

fn difference(first: &[Vec<u8>], other: &[Vec<u8>]) -> String {
    let words = |buffer: &Vec<u8>| -> Vec<u32> {
        buffer.chunks_exact(4).filter_map(|word| word.try_into().ok().map(u32::from_le_bytes)).collect()
    };
    let mut found = Vec::new();
    for (number, (first, other)) in first.iter().zip(other).enumerate() {
        let pairs = words(first).into_iter().zip(words(other)).enumerate();
        found.extend(pairs.filter(|(_, (a, b))| a != b).map(|(at, (a, b))| (number, 4 * at, a, b)));
    }
    let first = found.first().map(|(buffer, at, a, b)| format!("buffer {buffer}+{at:#x} {a:08x} {b:08x}"));
    format!("{} words, first {}", found.len(), first.unwrap_or_default())
}
