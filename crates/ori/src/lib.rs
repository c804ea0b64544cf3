//! The IR: machine-level SSA on virtual registers.
//!
//! An operation is a SASS operation with values in place of registers: `sass::Op`, `sass::M` modifiers, results
//! first and then arguments, in the order of the machine's text. What has no machine form of its own (moves of
//! whole values, putting words together) is a [`Op::Pseudo`]. Types belong to operations; a value is some words
//! of a register file.
//!
//! | question | file |
//! |---|---|
//! | what is a function, block, value, instruction? | [`function`] |
//! | which rules does it obey? | [`verify`] |
//! | predecessors, order, dominators, post-dominators | [`cfg`] |
//! | what is live where | [`liveness`] |
//! | what may differ between threads, and where they part and meet | [`divergence`] |
//! | what does an operation compute? | [`eval`] |
//! | how is it printed, and read back? | [`text`], [`parse`] |

pub mod arith;
pub mod cfg;
pub mod divergence;
pub mod entity;
pub mod eval;
pub mod function;
pub mod liveness;
pub mod parse;
pub mod text;
pub mod verify;

pub use cfg::Cfg;
pub use divergence::Divergence;
pub use entity::{Block, Inst, Value};
pub use function::{
    Arg, Edge, File, Fixed, Function, Guard, Half, InstData, Op, Part, Pseudo, Terminator, Use,
};
