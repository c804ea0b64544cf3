//! Special registers: names, components, types, and what they require.

use crate::target::Version;
use crate::types::Type;

pub struct SpecialReg {
    pub name: &'static str,
    /// The type of the value, or of each component.
    pub ty: Type,
    /// `.x .y .z .w` exist.
    pub vector: bool,
    pub sm: u16,
    pub version: Version,
}

const fn row(name: &'static str, ty: Type, vector: bool, sm: u16, major: u8, minor: u8) -> SpecialReg {
    SpecialReg { name, ty, vector, sm, version: Version::new(major, minor) }
}

/// By name, without numbered families (`%envreg<32>`, `%pm<8>`), which [`find`] knows.
pub const TABLE: &[SpecialReg] = &[
    row("%tid", Type::U32, true, 0, 1, 0),
    row("%ntid", Type::U32, true, 0, 1, 0),
    row("%laneid", Type::U32, false, 0, 1, 3),
    row("%warpid", Type::U32, false, 0, 1, 3),
    row("%nwarpid", Type::U32, false, 20, 2, 0),
    row("%ctaid", Type::U32, true, 0, 1, 0),
    row("%nctaid", Type::U32, true, 0, 1, 0),
    row("%smid", Type::U32, false, 0, 1, 3),
    row("%nsmid", Type::U32, false, 20, 2, 0),
    row("%gridid", Type::U64, false, 0, 1, 0),
    row("%lanemask_eq", Type::U32, false, 20, 2, 0),
    row("%lanemask_le", Type::U32, false, 20, 2, 0),
    row("%lanemask_lt", Type::U32, false, 20, 2, 0),
    row("%lanemask_ge", Type::U32, false, 20, 2, 0),
    row("%lanemask_gt", Type::U32, false, 20, 2, 0),
    row("%clock", Type::U32, false, 0, 1, 0),
    row("%clock_hi", Type::U32, false, 20, 5, 0),
    row("%clock64", Type::U64, false, 20, 2, 0),
    row("%globaltimer", Type::U64, false, 30, 3, 1),
    row("%globaltimer_lo", Type::U32, false, 30, 3, 1),
    row("%globaltimer_hi", Type::U32, false, 30, 3, 1),
    row("%total_smem_size", Type::U32, false, 20, 4, 1),
    row("%dynamic_smem_size", Type::U32, false, 20, 4, 1),
    row("%aggr_smem_size", Type::U32, false, 90, 8, 1),
    row("%current_graph_exec", Type::U64, false, 50, 8, 0),
    row("%is_explicit_cluster", Type::PRED, false, 90, 7, 8),
    row("%clusterid", Type::U32, true, 90, 7, 8),
    row("%nclusterid", Type::U32, true, 90, 7, 8),
    row("%cluster_ctaid", Type::U32, true, 90, 7, 8),
    row("%cluster_nctaid", Type::U32, true, 90, 7, 8),
    row("%cluster_ctarank", Type::U32, false, 90, 7, 8),
    row("%cluster_nctarank", Type::U32, false, 90, 7, 8),
    row("%reserved_smem_offset_begin", Type::U32, false, 80, 7, 6),
    row("%reserved_smem_offset_end", Type::U32, false, 80, 7, 6),
    row("%reserved_smem_offset_cap", Type::U32, false, 80, 7, 6),
    row("%reserved_smem_offset_0", Type::U32, false, 80, 7, 6),
    row("%reserved_smem_offset_1", Type::U32, false, 80, 7, 6),
    row("WARP_SZ", Type::U32, false, 0, 1, 0),
    row("%envreg", Type::U32, false, 0, 2, 1),
    row("%pm", Type::U32, false, 0, 1, 3),
    row("%pm64", Type::U64, false, 50, 4, 0),
];

/// The row of a name. Numbered families give the row of the family, their number second.
pub fn find(name: &str) -> Option<(u16, Option<u8>)> {
    let row = |name: &str| TABLE.iter().position(|r| r.name == name).map(|i| i as u16);
    if let Some(i) = row(name).filter(|_| !matches!(name, "%envreg" | "%pm")) {
        return Some((i, None));
    }
    let families = [("%envreg", "", 32), ("%pm", "_64", 8), ("%pm", "", 8)];
    for (prefix, suffix, count) in families {
        let digits = name.strip_prefix(prefix).and_then(|n| n.strip_suffix(suffix));
        if let Some(n) = digits.and_then(|d| d.parse::<u8>().ok()).filter(|n| *n < count) {
            let family = if suffix.is_empty() { prefix } else { "%pm64" };
            return Some((row(family)?, Some(n)));
        }
    }
    None
}
