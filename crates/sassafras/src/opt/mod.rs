//! SSA optimizations before register allocation. Passes do not call each other: clean-ups are rows of the table in
//! `passes.rs`.

pub mod atomic_aggregate;
pub mod bit_test;
pub mod combine;
pub mod dce;
pub mod elide_waterfall;
pub mod guard_select;
pub mod if_convert;
pub mod if_to_switch;
pub mod iv_elim;
pub mod licm;
pub mod load_elim;
pub mod mem_vectorize;
pub mod narrow_iv;
pub mod opposite_compares;
pub mod predicate_logic;
pub mod predicate_uses;
pub mod simplify;
pub mod sink;
pub mod split_pairs;
pub mod tail_duplicate;
pub mod uniform;
pub mod uniform_webs;
pub mod unroll;
