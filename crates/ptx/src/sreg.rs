//! Special registers: names, components, types, and what they require.
//!
//! Widths and requirements were read from ptxas 13.0.88: `mov` of each register with each type, and under
//! `.version 1.0` with `.target sm_10`, which makes every requirement speak.

use crate::target::Version;
use crate::types::{Class, Type};

/// A special register; `sm` and `version` are the first that have it.
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct SpecialReg {
    pub name: &'static str,
    /// The type of the value, or of each component.
    pub ty: Type,
    /// The widths that can be read: a sum of 16, 32 and 64; 1 for a predicate.
    widths: u32,
    /// `.x .y .z .w` exist.
    pub vector: bool,
    pub sm: u16,
    pub version: Version,
}

impl SpecialReg {
    /// Can it be read as a value of this type, or of a wider one where that is allowed?
    pub fn fits(&self, need: Type, wider: bool) -> bool {
        match (need.class(), self.ty.class()) {
            (Class::Pred, other) | (other, Class::Pred) => other == Class::Pred,
            _ if wider => self.widths >= need.bits(),
            _ => self.widths & need.bits() != 0 && need.bits() <= 64,
        }
    }
}

const fn row(name: &'static str, ty: Type, widths: u32, sm: u16, major: u8, minor: u8) -> SpecialReg {
    SpecialReg { name, ty, widths, vector: false, sm, version: Version::new(major, minor) }
}

const fn vector(name: &'static str, widths: u32, sm: u16, major: u8, minor: u8) -> SpecialReg {
    SpecialReg { vector: true, ..row(name, Type::U32, widths, sm, major, minor) }
}

/// By name. Of the numbered `%envreg0` to `%envreg31` there is one row, which [`find`] knows.
pub const TABLE: &[SpecialReg] = &[
    vector("%tid", 16 + 32, 0, 1, 0),
    vector("%ntid", 16 + 32, 0, 1, 0),
    vector("%ctaid", 16 + 32, 0, 1, 0),
    vector("%nctaid", 16 + 32, 0, 1, 0),
    vector("%clusterid", 32, 90, 7, 8),
    vector("%nclusterid", 32, 90, 7, 8),
    vector("%cluster_ctaid", 32, 90, 7, 8),
    vector("%cluster_nctaid", 32, 90, 7, 8),
    row("%cluster_ctarank", Type::U32, 32, 90, 7, 8),
    row("%cluster_nctarank", Type::U32, 32, 90, 7, 8),
    row("%is_explicit_cluster", Type::PRED, 1, 90, 7, 8),
    row("%gridid", Type::U64, 16 + 32 + 64, 0, 1, 0),
    row("%laneid", Type::U32, 32, 0, 1, 3),
    row("%warpid", Type::U32, 32, 0, 1, 3),
    row("%nwarpid", Type::U32, 32, 20, 2, 0),
    row("%smid", Type::U32, 32, 0, 1, 3),
    row("%nsmid", Type::U32, 32, 20, 2, 0),
    row("%lanemask_eq", Type::U32, 32, 20, 2, 0),
    row("%lanemask_le", Type::U32, 32, 20, 2, 0),
    row("%lanemask_lt", Type::U32, 32, 20, 2, 0),
    row("%lanemask_ge", Type::U32, 32, 20, 2, 0),
    row("%lanemask_gt", Type::U32, 32, 20, 2, 0),
    row("%clock", Type::U32, 32, 0, 1, 0),
    row("%clock_hi", Type::U32, 32, 20, 5, 0),
    row("%clock64", Type::U64, 64, 20, 2, 0),
    row("%globaltimer", Type::U64, 64, 30, 3, 1),
    row("%globaltimer_lo", Type::U32, 32, 30, 3, 1),
    row("%globaltimer_hi", Type::U32, 32, 30, 3, 1),
    row("%total_smem_size", Type::U32, 32, 20, 4, 1),
    row("%dynamic_smem_size", Type::U32, 32, 20, 4, 1),
    row("%aggr_smem_size", Type::U32, 32, 90, 8, 1),
    row("%reserved_smem_offset_begin", Type::U32, 32, 80, 7, 6),
    row("%reserved_smem_offset_end", Type::U32, 32, 80, 7, 6),
    row("%reserved_smem_offset_cap", Type::U32, 32, 80, 7, 6),
    row("%reserved_smem_offset_0", Type::U32, 32, 80, 7, 6),
    row("%reserved_smem_offset_1", Type::U32, 32, 80, 7, 6),
    row("%current_graph_exec", Type::U64, 64, 50, 8, 0),
    row("%pm0", Type::U32, 32, 0, 1, 3),
    row("%pm1", Type::U32, 32, 0, 1, 3),
    row("%pm2", Type::U32, 32, 0, 1, 3),
    row("%pm3", Type::U32, 32, 0, 1, 3),
    row("%pm4", Type::U32, 32, 20, 3, 0),
    row("%pm5", Type::U32, 32, 20, 3, 0),
    row("%pm6", Type::U32, 32, 20, 3, 0),
    row("%pm7", Type::U32, 32, 20, 3, 0),
    row("%pm0_64", Type::U64, 64, 50, 4, 0),
    row("%pm1_64", Type::U64, 64, 50, 4, 0),
    row("%pm2_64", Type::U64, 64, 50, 4, 0),
    row("%pm3_64", Type::U64, 64, 50, 4, 0),
    row("%pm4_64", Type::U64, 64, 50, 4, 0),
    row("%pm5_64", Type::U64, 64, 50, 4, 0),
    row("%pm6_64", Type::U64, 64, 50, 4, 0),
    row("%pm7_64", Type::U64, 64, 50, 4, 0),
    row("%envreg", Type::U32, 32, 0, 1, 0),
];

/// The row of a name, and the number of a numbered one.
pub fn find(name: &str) -> Option<(u16, Option<u8>)> {
    let row = |name: &str| TABLE.iter().position(|r| r.name == name).map(|i| i as u16);
    match name.strip_prefix("%envreg") {
        Some("") => None,
        Some(digits) => {
            let number = digits.parse().ok().filter(|n| *n < 32)?;
            Some((row("%envreg")?, Some(number)))
        }
        None => Some((row(name)?, None)),
    }
}
