//! Every modifier word of PTX 9.0, with its kind: the data alone, for the crate and for its build script.

/// What a modifier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub enum Kind {
    Type,
    /// What an atomic, a reduction or a video instruction does with the value.
    Op,
    /// The operations that only `atom` and `red` know, and that have a text of their own.
    Exchange,
    /// Flags that choose the form together with the types.
    FormFlag,
    Space,
    Dimension,
    Geometry,
    Query,
    Eviction,
    Layout,
    Shape,
    /// `.x4`: how often a shape is taken.
    Repeat,
    Vector,
    Permute,
    Component,
    /// `.hi .lo` are comparison words; `mul` and `mad` have them in their mnemonics.
    Compare,
    Rounding,
    Clamp,
    ShiftRight,
    Flag,
    /// Looked at only by the instructions that they belong to; ignored by all others.
    Ignored,
    /// Known within some mnemonics only (`div.full`); unknown as a modifier.
    NameOnly,
}

/// Every word without its dot, in groups: kind, what ptxas says when two of the group meet (`$w` is the second
/// word; nothing if it is silent), the words. The order is the one in which ptxas complains about words that
/// don't belong. A word's number is its position in this list.
pub static VOCABULARY: &[(Kind, &str, &str)] = &[
    (Kind::Type, "", "b1 b2 b8 b16 b32 b64 b128 u2 u4 u8 u16 u32 u64 s2 s4 s8 s16 s32 s64 u16x2 s16x2"),
    (Kind::Type, "", "f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64 pred"),
    (Kind::Type, "", "e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m3 e3m2 e2m1 e2m3x2 e3m2x2 e2m1x2"),
    (Kind::Type, "", "e2m3x4 e3m2x4 e2m1x4 ue8m0 ue8m0x2 ue4m3 b1024 texref samplerref surfref"),
    // The first of these that no form takes is the only complaint.
    (Kind::FormFlag, "", "sync"),
    (Kind::Op, "", "add and or xor min max cas popc"),
    (Kind::FormFlag, "", "relu"),
    (Kind::FormFlag, "", "satfinite"),
    (Kind::FormFlag, "Multiple cache prefetching modifiers specified", "L2::64B L2::128B L2::256B"),
    (Kind::FormFlag, "Multiple $w modifiers specified", "L2::cache_hint"),
    (Kind::FormFlag, "Multiple $w modifiers specified", "multicast::cluster multicast::cluster::all"),
    (
        Kind::FormFlag,
        "Multiple .load_mode modifiers specified",
        "tile im2col im2col_no_offs im2col::w im2col::w::128 tile::gather4 tile::scatter4",
    ),
    (Kind::FormFlag, "Multiple $w modifiers specified", "cta_group::1 cta_group::2"),
    // Of these every wrong one is reported.
    (Kind::Dimension, "Multiple dimension modifiers specified", "1d 2d 3d 4d 5d"),
    (Kind::Flag, "Multiple cache operation modifiers specified", "L1 L2 tensormap"),
    (
        Kind::Eviction,
        "",
        "L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged",
    ),
    (Kind::Space, "", "global shared shared::cta shared::cluster local const param param::entry param::func"),
    (Kind::Flag, "", "uni"),
    (Kind::Flag, "Multiple sparsity modifiers specified", "sp sp::ordered_metadata"),
    (Kind::Flag, "Multiple .any/.all modifiers specified", "all any"),
    (Kind::Flag, "Multiple $w modifiers specified", "down"),
    (Kind::Flag, "Multiple $w modifiers specified", "warpx4 warpx2::02_13 warpx2::01_23"),
    (Kind::Flag, "Multiple $w modifiers specified", "shift mma ld st cp alloc dealloc"),
    (Kind::Flag, "Multiple $w modifiers specified", "pack::16b unpack::16b"),
    (Kind::Flag, "Multiple $w modifiers specified", "cp_mask"),
    (Kind::Flag, "Duplicate $w modifier", "oob"),
    (
        Kind::Flag,
        "Multiple $w modifiers specified",
        "mbarrier mbarrier::complete_tx::bytes mbarrier::arrive::one bulk_group",
    ),
    (Kind::Flag, "Multiple $w modifiers specified", "tensormap::generic async::generic"),
    (
        Kind::Flag,
        "Multiple $w modifiers specified",
        "get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z is_canceled",
    ),
    (Kind::Flag, "Duplicate $w modifier", "wait launch_dependents"),
    (Kind::Flag, "Multiple $w modifiers specified", "mbarrier_init"),
    (
        Kind::Flag,
        "Multiple $w modifiers specified",
        "sync_restrict::shared::cta sync_restrict::shared::cluster",
    ),
    (Kind::Flag, "Multiple $w modifiers specified", "aligned"),
    (Kind::Flag, "Multiple $w modifiers specified", "noinc"),
    (Kind::Flag, "Multiple $w modifiers specified", "noComplete"),
    (Kind::Flag, "Multiple shuffle modifiers specified", "up bfly idx"),
    (Kind::Flag, "Multiple vote modifiers specified", "ballot"),
    (Kind::Flag, "", "sat"),
    (Kind::Flag, "", "approx"),
    (Kind::Flag, "Duplicate $w modifier", "ftz"),
    (Kind::Flag, "Duplicate $w modifier", "noftz"),
    (Kind::Shape, "Multiple matrix shape modifiers specified", MATRIX_SHAPES),
    (Kind::Layout, "", "row col"),
    (Kind::Vector, "Multiple vector modifiers specified", "v2 v4 v8"),
    (Kind::Flag, "Multiple scope modifiers specified", "cta cluster gpu sys gl"),
    (
        Kind::Compare,
        "Multiple comparisons set",
        "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan",
    ),
    (Kind::Exchange, "", "inc dec exch"),
    (Kind::Flag, "Duplicate $w modifier", "weak volatile relaxed acquire release acq_rel sc"),
    (Kind::Flag, "Multiple $w modifiers specified", "mmio"),
    (Kind::Flag, "Duplicate $w modifier", "nc"),
    (
        Kind::Flag,
        "Multiple .kind modifiers specified",
        "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4",
    ),
    (Kind::Flag, "Multiple $w modifiers specified", "block_scale"),
    (Kind::Flag, "Multiple .scale_vec_size modifiers specified", "scale_vec::1X scale_vec::2X scale_vec::4X"),
    (Kind::Flag, "Multiple .scale_vectorsize modifiers specified", "block16 block32"),
    (Kind::Flag, "Multiple $w modifiers specified", "ashift"),
    (
        Kind::Flag,
        "Multiple .collector_usage modifiers specified",
        "collector::a::fill collector::a::use collector::a::lastuse collector::a::discard",
    ),
    (
        Kind::Flag,
        "Multiple .collector_usage modifiers specified",
        "collector::b0::fill collector::b0::use collector::b0::lastuse collector::b0::discard collector::b1::fill collector::b1::use collector::b1::lastuse collector::b1::discard collector::b2::fill collector::b2::use collector::b2::lastuse collector::b2::discard collector::b3::fill collector::b3::use collector::b3::lastuse collector::b3::discard",
    ),
    (Kind::Flag, "", "shiftamt"),
    (Kind::Flag, "", "cc"),
    (Kind::Rounding, "Multiple rounding modifiers specified", "rn rz rm rp rni rzi rmi rpi rna rs"),
    (Kind::Flag, "", "NaN"),
    (Kind::Flag, "Multiple $w modifiers specified", "xorsign"),
    (Kind::Flag, "Multiple cache operation modifiers specified", "ca cg cs lu cv wb wt"),
    (Kind::Geometry, "Multiple texture modifiers specified", "a1d a2d cube acube 2dms a2dms"),
    (Kind::Component, "Multiple component modifiers specified", "r g b a"),
    (
        Kind::Query,
        "Multiple query modifiers specified",
        "width height depth channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples filter_mode addr_mode_0 addr_mode_1 addr_mode_2 force_unnormalized_coords memory_layout",
    ),
    (Kind::Clamp, "Multiple clamp modifiers specified", "clamp wrap zero trap"),
    (Kind::ShiftRight, "Multiple shift-right modifiers specified", "shr7 shr15"),
    (Kind::Flag, "Conflicting use of '$w' modifier with operand negation", "po"),
    (Kind::Permute, "Multiple permute modifiers specified", "f4e b4e rc8 rc16 ecl ecr"),
    (Kind::Repeat, "Multiple .num modifiers specified", "x1 x2 x4 x8 x16 x32 x64 x128"),
    (Kind::Flag, "Multiple $w modifiers specified", "trans"),
    (Kind::Flag, "Multiple $w modifiers specified", "abs"),
    (Kind::Flag, "Multiple $w modifiers specified", "async alias"),
    (Kind::Flag, "Multiple $w modifiers specified", "read"),
    (
        Kind::Ignored,
        "Multiple testp operation modifiers specified",
        "finite infinite number notanumber normal subnormal",
    ),
    (Kind::Ignored, "Multiple accumulation precision modifiers specified", "acc::f16 acc::f32"),
    (
        Kind::Ignored,
        "Multiple $w modifiers specified",
        "global_address rank box_dim global_dim global_stride element_stride elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode",
    ),
    (Kind::Ignored, "", "b8x16"),
    (Kind::Ignored, "", "b6x16_p32 b4x16_p64"),
    (
        Kind::NameOnly,
        "",
        "not full arrive op_restrict unified proxy::async::generic async::global async::shared::cta async::shared::cluster ignore_oob b0",
    ),
];

/// `wgmma` has more of them: m64, n in steps of 8, k by type (`build/words.rs`).
pub const MATRIX_SHAPES: &str = "m8n8 m16n8 m16n16 m8n16 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 \
    m16n8k32 m16n8k64 m16n8k128 m16n8k256 m16n16k8 m16n16k16 m32n8k16 m8n32k16 \
    16x64b 16x128b 16x256b 32x32b 16x32bx2 128x256b 4x256b 128x128b 64x128b 32x128b";

/// A word of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub u16);

impl Word {
    /// The number that stands behind `key` in the word: `n` of `.m64n128k16` is 128, `x` of `.x4` is 4.
    pub fn number(self, key: char) -> Option<u32> {
        let text = self.text();
        let at = text.find(key)?;
        let digits = text[at + 1..].split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    }
}

impl Kind {
    /// An operation of an atomic, a reduction or a matrix of bits.
    pub fn is_operation(self) -> bool {
        matches!(self, Kind::Op | Kind::Exchange)
    }
}
