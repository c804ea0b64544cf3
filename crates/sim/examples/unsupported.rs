//! Lists the instructions of PTX files that the interpreter can't execute.
//!
//! `cargo run --release -p sassafras-sim --example unsupported -- FILE.ptx ...`

use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut instructions = 0;
    for file in std::env::args().skip(1) {
        let source = std::fs::read_to_string(&file)?;
        let Some(module) = ptx::parse(&source, &ptx::Options::default()).module else {
            println!("{file} does not parse");
            continue;
        };
        let program = sim::ptx::Program::new(&module, &source);
        instructions += program.instructions();
        for (_, what) in program.unsupported() {
            *found.entry(what.to_string()).or_default() += 1;
        }
    }
    for (what, count) in &found {
        println!("{count:6} {what}");
    }
    println!("{} of {instructions} instructions can't be executed", found.values().sum::<usize>());
    Ok(())
}
