//! Putting a program together from random numbers.
//!
//! A program takes its rows from some groups of the table only, so that each of them occurs in the company of
//! different others, and often.

mod patterns;

use super::class::Class;
use super::derived::Derived;
use super::templates::{self, Piece};
use super::{ARGUMENTS, Choice, Guard, Kind, Program, RESULTS, Statement, Style, Trips, Ways};
use random::Random;
use std::ops::Range;

/// Loops inside of each other.
const LOOP_DEPTH: u8 = 3;
/// Blocks inside of each other.
const DEPTH: u8 = 5;
/// Statements of a program, at most.
const STATEMENTS: usize = 60;
/// Functions beside the kernel, and statements of each, at most.
const FUNCTIONS: usize = 3;
const FUNCTION_STATEMENTS: usize = 15;
/// Sizes of a block: whole warps, and some that aren't.
const BLOCKS: [u32; 6] = [32, 32, 64, 64, 40, 33];

/// Statements of a program of another kind than mixed ones, at most.
const KIND_STATEMENTS: usize = 30;

/// The groups that programs of a kind take from.
const EXCHANGE_GROUPS: [&str; 7] = ["int32", "int64", "int16", "compare", "shared", "warp", "constant"];
const MODIFIERS_GROUPS: [&str; 10] =
    ["int32", "int64", "int16", "compare", "carry", "video", "f32", "f64", "half", "convert"];
const OPERANDS_GROUPS: [&str; 15] = [
    "int32", "int64", "int16", "compare", "carry", "video", "f32", "f64", "half", "convert", "global",
    "shared", "local", "atomic", "warp",
];
/// What all programs with computed operands have.
const APPROXIMATE: &str = "approx";

impl Program {
    /// The mixed program of a seed.
    pub fn new(seed: u64) -> Program {
        Program::of(Kind::Mixed, seed)
    }

    /// The program of a kind that a seed makes.
    pub fn of(kind: Kind, seed: u64) -> Program {
        if kind != Kind::Mixed {
            return Program::of_other_kind(kind, seed);
        }
        let mut random = Random::new(seed);
        let rows = rows(&mut random);
        let (grid, block) = (1 + random.below(2) as u32, random.pick(&BLOCKS));
        let left = 5 + random.below(STATEMENTS - 4);
        let functions = if random.chance(30) { 1 + random.below(FUNCTIONS) as u8 } else { 0 };
        let mut builder = Builder { kind, random, rows, left, callable: 0..functions };
        let body = builder.block(usize::MAX, 0, 0);
        let functions = (0..functions).map(|i| builder.function(i + 1..functions)).collect();
        Program { kind, seed, grid, block, body, functions }
    }

    fn of_other_kind(kind: Kind, seed: u64) -> Program {
        // Seeds of different kinds have nothing in common.
        let mut random = Random::new(seed.wrapping_add((kind as u64) << 56));
        let groups: &[&str] = match kind {
            Kind::Mixed | Kind::Exchange => &EXCHANGE_GROUPS,
            Kind::Modifiers => &MODIFIERS_GROUPS,
            Kind::Operands => &OPERANDS_GROUPS,
        };
        let mut chosen: Vec<&str> = groups.iter().copied().filter(|_| random.chance(35)).collect();
        chosen.push(if kind == Kind::Exchange { "int32" } else { APPROXIMATE });
        let all = templates::table().iter().enumerate();
        let rows = all.filter(|(_, template)| chosen.contains(&template.group)).map(|(i, _)| i).collect();
        let (grid, block) = (1 + random.below(2) as u32, random.pick(&BLOCKS));
        let left = 4 + random.below(KIND_STATEMENTS - 3);
        let mut builder = Builder { kind, random, rows, left, callable: 0..0 };
        let body = builder.block(usize::MAX, 0, 0);
        Program { kind, seed, grid, block, body, functions: Vec::new() }
    }
}

/// The rows that a program takes from.
fn rows(random: &mut Random) -> Vec<usize> {
    let groups: Vec<&str> =
        templates::groups().into_iter().filter(|group| *group == "int32" || random.chance(40)).collect();
    let all = templates::table().iter().enumerate();
    all.filter(|(_, template)| groups.contains(&template.group)).map(|(i, _)| i).collect()
}

struct Builder {
    kind: Kind,
    random: Random,
    rows: Vec<usize>,
    /// Statements that may still come.
    left: usize,
    /// The functions that may be called.
    callable: Range<u8>,
}

impl Builder {
    fn block(&mut self, most: usize, depth: u8, loops: u8) -> Vec<Statement> {
        let mut block = Vec::new();
        while self.left > 0 && block.len() < most {
            self.left -= 1;
            match self.kind {
                Kind::Exchange => self.exchange(depth, loops, &mut block),
                _ => block.push(self.statement(depth, loops)),
            }
        }
        block
    }

    fn function(&mut self, callable: Range<u8>) -> Vec<Statement> {
        self.callable = callable;
        self.left = 1 + self.random.below(FUNCTION_STATEMENTS);
        self.block(usize::MAX, 2, LOOP_DEPTH - 1)
    }

    fn inner(&mut self, depth: u8, loops: u8) -> Vec<Statement> {
        let most = 1 + self.random.below(8);
        self.block(most, depth + 1, loops)
    }

    fn statement(&mut self, depth: u8, loops: u8) -> Statement {
        let nested = depth < DEPTH;
        match self.random.below(100) {
            0..9 if nested => {
                let condition = self.guard();
                let then = self.inner(depth, loops);
                let otherwise = if self.random.chance(50) { self.inner(depth, loops) } else { Vec::new() };
                Statement::If { condition, then, otherwise }
            }
            9..17 if nested && loops < LOOP_DEPTH => {
                let middle = Style::Middle(self.guard());
                let style = self.random.pick(&[Style::Bottom, Style::Top, Style::Down, middle]);
                let trips = match self.random.below(20) {
                    // Enough for some iterations at a time, but not where threads wait for each other in each: in loops
                    // of loops they would spin for longer than a program may take.
                    0 if loops == 0 => {
                        let many = 30 + self.random.below(80) as u8;
                        Trips::Constant(if self.kind == Kind::Exchange { 1 + many % 5 } else { many })
                    }
                    0..12 => Trips::Constant(1 + self.random.below(self.most_trips(loops)) as u8),
                    // A register may say eight.
                    _ if self.kind == Kind::Exchange && loops > 0 => {
                        Trips::Constant(1 + self.random.below(self.most_trips(loops)) as u8)
                    }
                    _ => Trips::Register(self.register(Class::Word)),
                };
                Statement::Loop { style, trips, body: self.inner(depth, loops + 1) }
            }
            17..19 if nested => {
                let index = self.register(Class::Word);
                let first = self.random.below(12) as i8 - 8;
                let ways = self.random.pick(&[Ways::Table, Ways::Tests(first), Ways::Search(first)]);
                let arms = self.random.pick(&[2, 3, 4, 5, 6, 7]);
                Statement::Switch { index, ways, arms: (0..arms).map(|_| self.inner(depth, loops)).collect() }
            }
            19..25 if loops > 0 => {
                // One more than there are: out of a function, which counts the loop that it may be called from.
                let level = self.random.below(usize::from(loops) + 1) as u8;
                Statement::Leave { condition: self.guard(), level, again: self.random.chance(30) }
            }
            25..31 if !self.callable.is_empty() => self.call(),
            _ => self.row(loops > 0),
        }
    }

    /// The trip count of a loop in so many others. Where threads spin until the others arrive, the interpreter takes some
    /// ten thousand steps an iteration: three loops of five inside each other would exceed what a program may take.
    fn most_trips(&self, loops: u8) -> usize {
        match (self.kind, loops) {
            (Kind::Exchange, 0) => 4,
            (Kind::Exchange, 1..) => 2,
            _ => 5,
        }
    }

    fn call(&mut self) -> Statement {
        let function = self.callable.start + self.random.below(self.callable.len()) as u8;
        let arguments = ARGUMENTS.map(|class| self.register(class));
        let results = RESULTS.map(|class| self.register(class));
        Statement::Call { function, arguments, results }
    }

    fn row(&mut self, in_loop: bool) -> Statement {
        let template = self.random.pick(&self.rows);
        let guard = if self.random.chance(15) { Some(self.guard()) } else { None };
        let pieces = &templates::table()[template].pieces;
        let choices =
            pieces.iter().filter(|piece| piece.is_open()).map(|p| self.choice(p, in_loop)).collect();
        Statement::Row { guard, template, choices }
    }

    fn choice(&mut self, piece: &Piece, in_loop: bool) -> Choice {
        if let (Kind::Modifiers | Kind::Operands, Piece::Source(class) | Piece::SourceOrConstant(class)) =
            (self.kind, piece)
            && self.random.chance(55)
        {
            return Choice::Derived(match self.kind {
                Kind::Operands => Derived::sum(*class, &mut self.random),
                _ => Derived::modified(*class, &mut self.random),
            });
        }
        match piece {
            Piece::SourceOrConstant(class) if self.random.chance(35) => {
                Choice::Constant(class.constant(&mut self.random))
            }
            Piece::Source(Class::Word) | Piece::SourceOrConstant(Class::Word)
                if in_loop && self.random.chance(15) =>
            {
                Choice::Counter
            }
            Piece::Result(class) | Piece::Source(class) | Piece::SourceOrConstant(class) => {
                Choice::Register(self.register(*class))
            }
            Piece::Number { first, last, step } => {
                let steps = (last - first) / step + 1;
                Choice::Number(first + step * self.random.below(steps as usize) as u32)
            }
            Piece::OneOf(texts) => Choice::Text(self.random.below(texts.len()) as u8),
            Piece::Text(_) | Piece::Members | Piece::Full | Piece::Block => Choice::Number(0),
        }
    }

    fn guard(&mut self) -> Guard {
        Guard { register: self.register(Class::Predicate), negated: self.random.chance(50) }
    }

    fn register(&mut self, class: Class) -> u8 {
        self.random.below(usize::from(class.info().count)) as u8
    }
}
