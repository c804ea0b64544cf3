//! The machine language of sm_75 to sm_121: one table, from which encoder, decoder, printer and operand roles follow.
//!
//! ```
//! use sass::{Inst, Isa, M, Op, decode, encode, operands::*};
//!
//! let load = Inst::new(Isa::Sm90, Op::LDG, &[M::E, M::_128], &[r(8), ur(4), r(2), imm(16)]).unwrap();
//! assert_eq!(load.to_string(), "LDG.E.128 R8, desc[UR4][R2.64+0x10]");
//! let word: u128 = encode(&load).unwrap();
//! assert_eq!(decode(Isa::Sm90, word), load);
//! ```
//!
//! - `table/*.txt`: one row per instruction family; README.md explains the notation.
//! - [`encode`] and [`decode`]: words. Decoding never fails: a word without a row becomes a raw instruction.
//! - `Display` and [`parse`]: nvdisasm's text.
//! - [`Inst::new`], [`select`], [`legal`]: the form for an operation and its operands on a target.
//! - [`Target`]: what a compiler must know of a chip beyond its instructions (crate `targets`).
//! - [`tensor_map`]: the bits of what tensor copies read.
//! - [`Inst::registers`]: what is read and written; [`Class`]: which pipe, which scoreboards.

#![deny(missing_docs)]

mod code;
mod control;
mod flag;
mod form;
mod inst;
mod isa;
pub mod model;
mod number;
mod select;
pub mod signs;
mod suffixes;
pub mod tensor_map;
mod text;

pub use code::{EncodeError, decode, encode};
pub use control::{Control, ControlError, SCOREBOARDS};
pub use form::{
    Bits, Class, FORMS, Form, Hide, Kind, M, M_NAMES, Mod, OP_NAMES, Op, RAW, Role, Scoreboards, Slot, When,
    Words,
};
pub use inst::{Access, Guard, Inst, Operand, PT, RZ, URZ, operands};
pub use isa::{Isa, IsaSet};
pub use model::Model;
pub use select::{SelectError, legal, runs, select};
pub use suffixes::Suffixes;
pub use targets::Target;
pub use text::{At, ParseError, WORD_BYTES, parse, parse_at};
