//! The IR: machine-level SSA on virtual registers.
//!
//! An operation is a SASS operation with values in place of registers: `sass::Op`, `sass::M` modifiers, results
//! first and then arguments, in the order of the machine's text. Operations without a machine form of their own (moves
//! of whole values, concatenation of words) are a [`Op::Pseudo`]. Types belong to operations; a value is some words
//! of a register file.
//!
//! | question | file |
//! |---|---|
//! | what is a function, block, value, instruction? | [`function`] |
//! | how are instructions built and inserted? | [`builder`] |
//! | which rules does it obey? | [`verify`] |
//! | predecessors, reverse post-order, dominators, post-dominators | [`mod@cfg`] |
//! | loops: header, preheader, latches, exits, nesting | [`loops`] |
//! | what is live where | [`liveness`] |
//! | analyses that passes share, and when they become stale | [`analyses`] |
//! | which values vary between threads, which blocks are divergent, where threads reconverge | [`divergence`] |
//! | what does an operation compute? | [`eval`] |
//! | how is it printed, and read back? | [`text`], [`parse`] |

#![deny(missing_docs)]

pub mod analyses;
pub mod arith;
pub mod builder;
pub mod cfg;
pub mod divergence;
pub mod entity;
pub mod eval;
pub mod function;
pub mod liveness;
pub mod loops;
pub mod parse;
pub mod text;
pub mod verify;

pub use analyses::{Analyses, Change, Definitions};
pub use builder::Cursor;
pub use cfg::Cfg;
pub use divergence::Divergence;
pub use entity::{Block, Inst, LoopId, Value};
pub use function::{
    Arg, Edge, File, Fixed, Function, Generic, Guard, Half, InstData, Op, Part, Pseudo, Switch, Terminator,
    Use,
};
pub use loops::{Cycle, Loop, LoopForest};
