//! Random PTX programs, and the way back from one that shows an error to the smallest that still does.
//!
//! What is guaranteed of a [`Program`], and of whatever [`reduce`](Program::reduce) makes of it:
//! * The same kind and seed give the same program, everywhere.
//! * It is well defined: every register is written before it is read, every address is in bounds, threads touch
//!   memory of their own only, through operations that commute or in an order that they keep, every loop ends, every barrier and warp operation
//!   is reached by all that must come. What PTX leaves open (payloads of NaNs, addresses) is never seen in memory.
//!   So all that runs it must leave the same bytes.
//! * Any statement may be taken out or changed within its template; what is left is a program again. That is why
//!   conditions such as "all lanes are here" are decided when a program is printed, not when it is made.
//!
//! | question | place |
//! |---|---|
//! | which instructions occur, and how? | `generate/templates.tab` |
//! | how is a program put together? | [`build`] |
//! | what does it look like as PTX; where is its memory? | [`print`] |
//! | how do threads exchange values without races? | [`exchange`] |
//! | what stands in front of an operand? | [`derived`] |
//! | how does it become smaller? | [`reduce`] |
//! | which kernels have more values alive than registers? | [`pressure`] |

mod build;
mod class;
mod derived;
mod exchange;
mod kind;
pub mod pressure;
mod print;
mod reduce;
mod templates;

pub use kind::Kind;
pub use print::{PARAMETERS, memory_bytes, module, parameters, plain_module};

use class::Class;
use derived::Derived;
use exchange::Access;
use random::Random;

/// A program: one kernel, and the functions that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is to try.
    pub kind: Kind,
    /// What it is made from.
    pub seed: u64,
    /// Blocks.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    body: Vec<Statement>,
    /// Each may call those after it.
    functions: Vec<Vec<Statement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Statement {
    /// A row of the table, with what stands in its open places.
    Row {
        guard: Option<Guard>,
        template: usize,
        choices: Vec<Choice>,
    },
    /// An access of memory that threads share.
    Access(Access),
    If {
        condition: Guard,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// By a bit of the lane's number.
    Split {
        bit: u8,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    Loop {
        style: Style,
        trips: Trips,
        body: Vec<Statement>,
    },
    /// Several ways, by the low bits of a register.
    Switch {
        index: u8,
        ways: Ways,
        arms: Vec<Vec<Statement>>,
    },
    /// To the end of a loop, or of its body; 0 is the innermost. Where there is no such loop, to the end of a function;
    /// nothing in the kernel, whose threads stay together.
    Leave {
        condition: Guard,
        level: u8,
        again: bool,
    },
    /// Nothing where there is no such function.
    Call {
        function: u8,
        arguments: [u8; 3],
        results: [u8; 2],
    },
}

/// The classes of a function's arguments and results.
const ARGUMENTS: [Class; 3] = [Class::Word, Class::Long, Class::Float];
const RESULTS: [Class; 2] = [Class::Word, Class::Long];

/// A predicate register, and whether it must be false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guard {
    register: u8,
    negated: bool,
}

/// How a loop counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Up; asks at the end of the body.
    Bottom,
    /// Up; asks before the body.
    Top,
    /// Down to zero.
    Down,
    /// Up; threads with this predicate enter in the middle of the body.
    Middle(Guard),
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trips {
    Constant(u8),
    /// Three bits of a register.
    Register(u8),
    /// Three bits of a word of the kernel's second parameter: the same for all threads.
    Parameter(u8),
}

/// What stands in an open place of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Register(u8),
    /// The bits of a constant of the place's class.
    Constant(u64),
    Number(u32),
    /// Which of the texts.
    Text(u8),
    /// The counter of the innermost loop, for a 32-bit register; a constant outside of loops.
    Counter,
    /// What is computed right before.
    Derived(Derived),
}

impl Program {
    /// The kernel's name.
    pub fn name(&self) -> String {
        format!("{}{}", self.kind.letter(), self.seed)
    }

    /// Threads of the launch.
    pub fn threads(&self) -> u32 {
        self.grid * self.block
    }

    /// How many statements there are.
    pub fn size(&self) -> usize {
        self.blocks().flatten().map(Statement::size).sum()
    }

    /// The kernel's statements, then those of the functions.
    fn blocks(&self) -> impl Iterator<Item = &Vec<Statement>> {
        std::iter::once(&self.body).chain(&self.functions)
    }

    fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Vec<Statement>> {
        std::iter::once(&mut self.body).chain(&mut self.functions)
    }

    /// Bytes of global memory that the kernel's first parameter points to.
    pub fn memory_bytes(&self) -> usize {
        print::memory_bytes(self.threads())
    }
}

/// How the arms of a switch are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// By `brx.idx`; an arm may have several entries.
    Table,
    /// By a test for each value, from this one on. The first arm is for all others.
    Tests(i8),
    /// The same by a binary search.
    Search(i8),
}

impl Statement {
    /// The statements inside.
    fn blocks(&self) -> Vec<&Vec<Statement>> {
        match self {
            Statement::If { then, otherwise, .. } | Statement::Split { then, otherwise, .. } => {
                vec![then, otherwise]
            }
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter().collect(),
            _ => Vec::new(),
        }
    }

    fn blocks_mut(&mut self) -> Vec<&mut Vec<Statement>> {
        match self {
            Statement::If { then, otherwise, .. } | Statement::Split { then, otherwise, .. } => {
                vec![then, otherwise]
            }
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    fn size(&self) -> usize {
        1 + self.blocks().into_iter().flatten().map(Statement::size).sum::<usize>()
    }
}

/// How many different contents of memory there are.
pub const IMAGES: u64 = 16;

/// Memory before a program runs, for so many threads; a shorter one is the beginning of a longer one.
pub fn image(number: u64, threads: u32) -> Vec<u8> {
    let mut random = Random::new(number % IMAGES);
    let mut bytes = Vec::new();
    // The table and the totals: all kinds of values, side by side.
    while bytes.len() < print::RECORDS as usize {
        let class = [Class::Word, Class::Long, Class::Float, Class::Double][random.below(4)];
        bytes.extend(&class.constant(&mut random).to_le_bytes()[..class.bytes()]);
        bytes.resize(bytes.len().next_multiple_of(4).min(print::RECORDS as usize), 0);
    }
    for _ in 0..threads {
        for (class, _) in class::registers() {
            bytes.extend(class.constant(&mut random).to_le_bytes());
        }
        bytes.extend((0..print::SCRATCH / 8).flat_map(|_| random.next().to_le_bytes()));
        bytes.resize(bytes.len() + 8 * class::registers().count(), 0);
    }
    bytes
}

#[cfg(test)]
mod tests;
