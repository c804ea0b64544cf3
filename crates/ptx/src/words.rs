//! The vocabulary: every modifier word of PTX 9.0 with its kind.
//!
//! ptxas treats an opcode as a mnemonic and a bag of modifiers: modifiers of different kinds may come in any
//! order, those of one kind keep theirs, and a kind that an instruction doesn't take has a text of its own.
//! The kinds were found by putting each word on `add.s32` and reading the answer
//! (docs/ptx-language.md has the commands).

use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// What a modifier says. The order is the one in which ptxas complains about kinds that don't belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Space,
    Dimension,
    Geometry,
    Query,
    Eviction,
    Prefetch,
    CacheHint,
    Layout,
    Shape,
    /// `.x4`: how often a shape is taken.
    Repeat,
    Flag,
    Vector,
    Permute,
    Component,
    Compare,
    /// `.hi .lo`: comparison words that `mul` and `mad` spell their result half with.
    Rounding,
    Ftz,
    Sat,
    Cache,
    Order,
    Scope,
    Clamp,
    ShiftRight,
    Op,
    Type,
}

/// Every word by kind, without its dot. Position in this list is the word's number.
const VOCABULARY: &[(Kind, &str)] = &[
    (Kind::Type, "b1 b2 b8 b16 b32 b64 b128 u2 u4 u8 u16 u32 u64 s2 s4 s8 s16 s32 s64 u16x2 s16x2"),
    (Kind::Type, "f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64 pred"),
    (Kind::Type, "e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m3 e3m2 e2m1 e2m3x2 e3m2x2 e2m1x2"),
    (Kind::Type, "e2m3x4 e3m2x4 e2m1x4 ue8m0 ue8m0x2 ue4m3 b1024 texref samplerref surfref"),
    (Kind::Type, "b8x16 b6x16_p32 b4x16_p64"),
    (Kind::Rounding, "rn rz rm rp rni rzi rmi rpi rna rs"),
    (Kind::Ftz, "ftz"),
    (Kind::Sat, "sat"),
    (Kind::Space, "global shared shared::cta shared::cluster local const param param::entry param::func"),
    (Kind::Vector, "v2 v4 v8"),
    (Kind::Compare, "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"),
    (Kind::Dimension, "1d 2d 3d 4d 5d"),
    (Kind::Geometry, "a1d a2d cube acube 2dms a2dms"),
    (Kind::Query, "width height depth channel_data_type channel_order normalized_coords array_size"),
    (Kind::Query, "num_mipmap_levels num_samples filter_mode addr_mode_0 addr_mode_1 addr_mode_2"),
    (Kind::Query, "force_unnormalized_coords memory_layout"),
    (Kind::Eviction, "L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate"),
    (Kind::Eviction, "L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged"),
    (Kind::Prefetch, "L2::64B L2::128B L2::256B"),
    (Kind::CacheHint, "L2::cache_hint"),
    (Kind::Cache, "ca cg cs lu cv wb wt"),
    (Kind::Order, "weak volatile relaxed acquire release acq_rel sc mmio"),
    (Kind::Scope, "cta cluster gpu sys gl"),
    (Kind::Layout, "row col"),
    (Kind::Clamp, "clamp wrap zero trap"),
    (Kind::Permute, "f4e b4e rc8 rc16 ecl ecr"),
    (Kind::Component, "r g b a"),
    (Kind::ShiftRight, "shr7 shr15"),
    (Kind::Op, "add and or xor min max inc dec exch cas popc not"),
    (Kind::Flag, "L1 L2 approx full cc uni sync aligned all any ballot up down bfly idx wait read arrive"),
    (
        Kind::Flag,
        "NaN abs xorsign relu satfinite noftz oob acc::f16 acc::f32 po shiftamt nc noinc noComplete",
    ),
    (Kind::Flag, "async mbarrier alias tensormap tensormap::generic mbarrier_init op_restrict unified"),
    (
        Kind::Flag,
        "proxy::async::generic async::generic async::global async::shared::cta async::shared::cluster",
    ),
    (Kind::Flag, "sync_restrict::shared::cta sync_restrict::shared::cluster"),
    (
        Kind::Flag,
        "mbarrier::complete_tx::bytes mbarrier::arrive::one multicast::cluster multicast::cluster::all",
    ),
    (
        Kind::Flag,
        "bulk_group cp_mask ignore_oob tile im2col im2col_no_offs im2col::w im2col::w::128 tile::gather4",
    ),
    (
        Kind::Flag,
        "tile::scatter4 launch_dependents b0 trans sp sp::ordered_metadata block_scale scale_vec::1X",
    ),
    (Kind::Flag, "scale_vec::2X scale_vec::4X block16 block32 kind::f16 kind::tf32 kind::f8f6f4 kind::i8"),
    (Kind::Flag, "kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 cta_group::1 cta_group::2 pack::16b unpack::16b"),
    (Kind::Flag, "warpx4 warpx2::02_13 warpx2::01_23 collector::a::fill collector::a::use"),
    (Kind::Flag, "collector::a::lastuse collector::a::discard collector::b0::fill collector::b0::use"),
    (Kind::Flag, "collector::b0::lastuse collector::b0::discard collector::b1::fill collector::b1::use"),
    (Kind::Flag, "collector::b1::lastuse collector::b1::discard collector::b2::fill collector::b2::use"),
    (Kind::Flag, "collector::b2::lastuse collector::b2::discard collector::b3::fill collector::b3::use"),
    (Kind::Flag, "collector::b3::lastuse collector::b3::discard ashift shift mma ld st cp alloc dealloc"),
    (Kind::Flag, "get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z is_canceled"),
    (Kind::Flag, "global_address rank box_dim global_dim global_stride element_stride elemtype"),
    (Kind::Flag, "interleave_layout swizzle_mode swizzle_atomicity fill_mode"),
    (Kind::Flag, "finite infinite number notanumber normal subnormal"),
    (
        Kind::Shape,
        "m8n8 m16n8 m16n16 m8n16 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32",
    ),
    (Kind::Shape, "m16n8k64 m16n8k128 m16n8k256 m16n16k8 m16n16k16 m32n8k16 m8n32k16"),
    (Kind::Shape, "16x64b 16x128b 16x256b 32x32b 16x32bx2 128x256b 4x256b 128x128b 64x128b 32x128b"),
    (Kind::Repeat, "x1 x2 x4 x8 x16 x32 x64 x128"),
];

/// A word of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub u16);

struct Vocabulary {
    /// Text with the leading dot, and the kind, by word number.
    words: Vec<(String, Kind)>,
    by_text: FxHashMap<&'static str, Word>,
}

fn vocabulary() -> &'static Vocabulary {
    static CELL: OnceLock<Vocabulary> = OnceLock::new();
    CELL.get_or_init(|| {
        let mut v = Vocabulary { words: Vec::new(), by_text: FxHashMap::default() };
        let mut add = |text: &'static str, kind| {
            v.by_text.insert(text, Word(v.words.len() as u16));
            v.words.push((format!(".{text}"), kind));
        };
        for (kind, words) in VOCABULARY {
            words.split(' ').for_each(|w| add(w, *kind));
        }
        // wgmma: m64, n in steps of 8, k by type.
        for text in wgmma_shapes() {
            add(text, Kind::Shape);
        }
        v
    })
}

fn wgmma_shapes() -> impl Iterator<Item = &'static str> {
    static SHAPES: OnceLock<Vec<String>> = OnceLock::new();
    let shapes = SHAPES.get_or_init(|| {
        let ks = [8, 16, 32, 64, 128, 256, 512];
        (8..=256).step_by(8).flat_map(|n| ks.iter().map(move |k| format!("m64n{n}k{k}"))).collect()
    });
    shapes.iter().map(String::as_str)
}

impl Word {
    /// The word for a text without its dot.
    pub fn find(text: &str) -> Option<Word> {
        vocabulary().by_text.get(text).copied()
    }

    /// The words that begin with one text and end with another, in the order of the vocabulary.
    pub fn matching(start: &str, end: &str) -> Vec<Word> {
        let fits = |text: &str| text.starts_with(start) && text.ends_with(end);
        let words = vocabulary().words.iter().enumerate();
        words.filter(|(_, (text, _))| fits(&text[1..])).map(|(i, _)| Word(i as u16)).collect()
    }

    /// With the dot: `.f32`.
    pub fn text(self) -> &'static str {
        &vocabulary().words[self.0 as usize].0
    }

    /// The word without what tells it from its alternatives: `.cta_group` of `.cta_group::1`.
    pub fn group(self) -> &'static str {
        let text = self.text();
        text.split("::").next().unwrap_or(text)
    }

    pub fn kind(self) -> Kind {
        vocabulary().words[self.0 as usize].1
    }

    /// The number that stands behind `key` in the word: `n` of `.m64n128k16` is 128, `x` of `.x4` is 4.
    pub fn number(self, key: char) -> Option<u32> {
        let text = self.text();
        let at = text.find(key)?;
        let digits = text[at + 1..].split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    }
}

impl Kind {
    /// ptxas's words for a modifier of this kind on an instruction that doesn't take it.
    pub fn not_taken(self, word: &str, instruction: &str) -> String {
        match self {
            Kind::Space => format!("No state space qualifier expected for instruction '{instruction}'"),
            Kind::Compare => format!("Comparison qualifier is not allowed for instruction '{instruction}'"),
            Kind::Vector => format!("Vector qualifier is not allowed for instruction '{instruction}'"),
            Kind::Rounding => format!("Illegal rounding modifier for instruction '{instruction}'"),
            Kind::Query => format!("Illegal query modifier for instruction '{instruction}'"),
            Kind::Type => format!("Unexpected instruction types specified for '{instruction}'"),
            _ => format!("Illegal modifier '{}' for instruction '{instruction}'", self.name_of(word)),
        }
    }

    /// ptxas's words for a modifier of a kind that the instruction takes, but not this one.
    pub fn wrong_word(self, word: &str, instruction: &str) -> Option<String> {
        match self {
            Kind::Shape => Some(format!("Illegal matrix shape '{word}' for instruction '{instruction}'")),
            Kind::Space => Some(format!("State space incorrect for instruction '{instruction}'")),
            _ => None,
        }
    }

    /// How ptxas names a word of this kind in `Illegal modifier`.
    fn name_of(self, word: &str) -> &str {
        match self {
            Kind::Permute => "Permute",
            Kind::Dimension => "dimension",
            Kind::Component => "Component",
            Kind::Geometry => "Geometry",
            Kind::Clamp => "Clamp",
            Kind::ShiftRight => "Shift-right",
            Kind::Layout => ".alayout or .blayout",
            Kind::Eviction => ".level::eviction_priority",
            _ => word,
        }
    }

    /// What ptxas says when two different words of a kind meet that may stand once.
    pub fn twice(self, word: &str) -> Option<String> {
        match self {
            Kind::Rounding => Some("Multiple rounding modifiers specified".into()),
            Kind::Scope => Some("Multiple scope modifiers specified".into()),
            Kind::Shape => Some("Multiple matrix shape modifiers specified".into()),
            Kind::Repeat => Some("Multiple .num modifiers specified".into()),
            Kind::Ftz | Kind::Sat | Kind::Order => Some(format!("Duplicate {word} modifier")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_found() {
        for (i, (text, _)) in vocabulary().words.iter().enumerate() {
            assert_eq!(Word::find(&text[1..]), Some(Word(i as u16)), "{text} is listed twice");
        }
    }

    #[test]
    fn numbers_in_words() {
        let shape = Word::find("m64n128k16").unwrap();
        assert_eq!((shape.number('n'), shape.number('k')), (Some(128), Some(16)));
        assert_eq!(Word::find("x4").unwrap().number('x'), Some(4));
    }
}
