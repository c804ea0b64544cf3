//! Passes that make code better before register allocation; every one can be left out. `text` runs passes on IR text.

pub mod combine;
pub mod elide_waterfall;
pub mod if_convert;
pub mod iv_elim;
pub mod licm;
pub mod narrow_iv;
pub mod predicate_logic;
pub mod simplify;
pub mod sink;
pub mod tail_duplicate;
pub mod text;
pub mod uniform;
pub mod unroll;
