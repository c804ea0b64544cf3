use super::templates::{self, Piece};
use super::*;
use crate::ptx::{Launch, Machine};
use std::collections::BTreeSet;

/// Memory after a run of the interpreter.
fn run(program: &Program) -> Result<Vec<u8>, String> {
    let source = module(std::slice::from_ref(program));
    let parsed = ::ptx::parse(&source, &::ptx::Options::default());
    let Some(module) = parsed.module.as_ref().filter(|_| !parsed.failed()) else {
        let line = |d: &::ptx::diag::Diagnostic| {
            let line = d.line.and_then(|line| source.lines().nth(line as usize - 1));
            format!("{}: {}\n", d.message, line.unwrap_or(""))
        };
        return Err(parsed.diagnostics.iter().map(line).collect());
    };
    let decoded = crate::ptx::Program::new(module, &source);
    let mut machine = Machine::new(&decoded);
    let address = machine.allocate(image(program.seed, program.threads()));
    let (name, parameters) = (program.name(), parameters(address));
    let launch = Launch::new(&name, [program.grid, 1, 1], [program.block, 1, 1], &parameters);
    let launch = Launch { check_races: true, ..launch };
    machine.run(&launch).map_err(|fault| {
        let line = source.lines().nth((fault.line as usize).saturating_sub(1)).unwrap_or("");
        format!("seed {}: {fault}: {line}", program.seed)
    })?;
    Ok(machine.read(address, program.memory_bytes()).unwrap_or_default().to_vec())
}

#[test]
fn programs_are_well_defined() {
    for seed in 0..300 {
        run(&Program::new(seed)).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// No fault, and no race on shared memory.
#[test]
fn programs_of_all_kinds_are_well_defined() {
    for kind in Kind::ALL {
        for seed in 0..150 {
            run(&Program::of(kind, seed)).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        }
    }
}

/// The row that patterns take for additions.
#[test]
fn the_first_row_adds() {
    let pieces = &templates::table()[0].pieces;
    assert!(matches!(pieces.first(), Some(Piece::Text("add."))));
    assert!(matches!(pieces.get(1), Some(Piece::OneOf(types)) if types[1] == "u32"));
}

/// Every row of the table, with several choices, runs.
#[test]
fn every_row_runs() {
    let mut random = Random::new(1);
    let mut errors = BTreeSet::new();
    for (index, template) in templates::table().iter().enumerate() {
        for round in 0..24u8 {
            let choice = |piece: &Piece| match piece {
                Piece::OneOf(texts) => Choice::Text(random.below(texts.len()) as u8),
                Piece::Number { last, .. } => Choice::Number(*last),
                Piece::SourceOrConstant(class) if round % 2 == 1 => {
                    Choice::Constant(class.constant(&mut random))
                }
                _ => Choice::Register(round),
            };
            let choices = template.pieces.iter().filter(|piece| piece.is_open()).map(choice).collect();
            let row = Statement::Row { guard: None, template: index, choices };
            let program = Program {
                kind: Kind::Operands,
                seed: 0,
                grid: 1,
                block: 32,
                body: vec![row],
                functions: Vec::new(),
            };
            errors.extend(run(&program).err());
        }
    }
    assert!(errors.is_empty(), "{}", Vec::from_iter(errors).concat());
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for seed in [0, 1, 77, u64::MAX] {
        assert_eq!(Program::new(seed), Program::new(seed));
    }
    assert_ne!(Program::new(1).body, Program::new(2).body);
    assert_eq!(image(3, 2), image(3, 5)[..print::memory_bytes(2)]);
}

/// A program is reduced to the one row that something depends on.
#[test]
fn reduction() {
    fn has(block: &[Statement], wanted: &str) -> bool {
        block.iter().any(|statement| match statement {
            Statement::Row { template, .. } => templates::table()[*template].group == wanted,
            other => other.blocks().into_iter().any(|inner| has(inner, wanted)),
        })
    }
    let has_carry = |program: &Program| program.blocks().any(|block| has(block, "carry"));
    let mut reduced = 0;
    for seed in 0..20 {
        let program = Program::new(seed);
        if !has_carry(&program) {
            continue;
        }
        let small = program.reduce(|candidate| has_carry(candidate) && run(candidate).is_ok());
        assert!(has_carry(&small));
        assert_eq!(small.size(), 1, "{small:?}");
        reduced += 1;
    }
    assert!(reduced > 2);
}
