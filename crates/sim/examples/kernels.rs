//! Runs the kernels of a PTX file from several cubins in the simulator, and compares the memory that they leave.
//!
//! `cargo run --release -p sim --example kernels -- [--blocks N] FILE.ptx FIRST.cubin [OTHER.cubin ...]`

use sim::kernels::Case;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut blocks = 2;
    if arguments.first().is_some_and(|argument| argument == "--blocks") {
        blocks = arguments.get(1).ok_or("how many blocks?")?.parse()?;
        arguments.drain(..2);
    }
    let [file, cubins @ ..] = &arguments[..] else { return Err("a PTX file and cubins are needed".into()) };
    let source = std::fs::read_to_string(file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let bytes = cubins.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let programs = bytes.iter().map(|cubin| sim::sass::Program::new(cubin)).collect::<Result<Vec<_>, _>>()?;
    for case in Case::of(&module, blocks) {
        let start = Instant::now();
        let outcomes: Vec<Result<Vec<Vec<u8>>, String>> = programs
            .iter()
            .map(|program| case.run(&mut sim::sass::Machine::new(program)).map_err(|error| error.to_string()))
            .collect();
        let verdict = match (&outcomes[..], outcomes.iter().find_map(|outcome| outcome.as_ref().err())) {
            (_, Some(error)) => format!("FAULT {error}"),
            ([first, others @ ..], None) if others.iter().all(|other| other == first) => "same".to_string(),
            ([Ok(first), Ok(other), ..], None) => format!("DIFFERENT {}", difference(first, other)),
            _ => String::new(),
        };
        println!("{file} {}: {} ({:.1} s)", case.kernel, verdict.trim(), start.elapsed().as_secs_f64());
    }
    Ok(())
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
