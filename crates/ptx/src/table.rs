//! The instruction table: every form of every instruction, as data.
//!
//! The rows stand in `table/*.tab`, one file per family, and read like the syntax lines of the PTX manual:
//!
//! ```text
//! set int = .s16 .u16 .s32 .u32 .s64 .u64          a named set of words
//! arch tc5 = 100f 100a 103f 103a 110f 110a         a named set of targets
//! add   <int>                     | d, a, b        mnemonic, modifiers | operands | gates
//! add   {<rnd>}{.ftz}{.sat}.f32   | d, a, b
//! add   .s16x2/.u16x2             | d:b32, a:b32, b:b32 | F'add.$t0' >=90 ptx8.0
//! rule  add .bf16                 : F'.bf16' >=80 ptx7.0
//! rule  vote !.sync               : error 'Instruction 'vote' without …'
//! ```
//!
//! Modifiers: `.x` is required, `{…}` optional, `.x/.y` one of, `<set>` one of a set, `.m64n*k16` any that fits. Words of different kinds
//! match in any order, as in ptxas; types, spaces, layouts and shapes keep theirs. `t0`, `t1`, … are the types
//! that stand in the form's type slots, in order.
//!
//! Operands, separated by commas: `d` result register, `a` register or constant, `r` register, `i` constant,
//! `i(0..15)` constant in a range, `i(32..512/32)` with steps, `i(-1|1)` one of, `a(…)` register or such a constant, `p` predicate that may be negated, `q` predicate result, `[…]` address with
//! what stands in it, `{a*4}` vector of four, `{a, b}` of two different ones, `a*v` vector or scalar by `.v2`/`.v4`, `L` label, `F` function,
//! `S` name of a variable, `(*)` argument list, `*` anything. `:type` gives the type (default `t0`, any for constants): a name,
//! `tN`, `wN` (twice as wide), `~tN` (at least as wide, any class), `xN` (two to a register if `tN` is half as
//! wide as one), `any`. `?` makes an operand optional, `_` lets a sink stand there, `x|q` is a pair.
//!
//! A matrix fragment is as many registers as hold its elements, spread over a warp: `{a:b32*mk1}` is this
//! lane's part of m×k elements of type `t1`, where m and k stand in the shape word; `*mk1/2` half of that.
//!
//! A rule's condition: words that are there (`.x`, `.x/.y`), words that are not (`!.x`), and the word at a type's
//! place (`t0=.f16`). `$m`, `$t0`, `$op`, `$shape` stand for the instruction's own words in texts and names.
//!
//! Rules are checked in the order of the files, before the gates of the row. A gate is `F` (feature), `I`
//! (instruction) or `M` (modifier) with the name that ptxas prints, and needs: `>=90`, `in:SET`, `ptx8.0`.

mod opcode;
mod read;

pub use opcode::{Fit, Opcode, OpcodeError, resolve};

use crate::target::{Target, Version};
use crate::words::{Kind, Word};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// The sources of the table, in the order in which rules are checked.
const FILES: &[(&str, &str)] = &[
    ("common.tab", include_str!("table/common.tab")),
    ("integer.tab", include_str!("table/integer.tab")),
    ("float.tab", include_str!("table/float.tab")),
    ("compare.tab", include_str!("table/compare.tab")),
    ("convert.tab", include_str!("table/convert.tab")),
    ("move.tab", include_str!("table/move.tab")),
    ("memory.tab", include_str!("table/memory.tab")),
    ("atomic.tab", include_str!("table/atomic.tab")),
    ("async.tab", include_str!("table/async.tab")),
    ("control.tab", include_str!("table/control.tab")),
    ("warp.tab", include_str!("table/warp.tab")),
    ("texture.tab", include_str!("table/texture.tab")),
    ("video.tab", include_str!("table/video.tab")),
    ("matrix.tab", include_str!("table/matrix.tab")),
    ("wgmma.tab", include_str!("table/wgmma.tab")),
    ("tcgen05.tab", include_str!("table/tcgen05.tab")),
];

/// One row: the modifiers and operands of a form.
#[derive(Debug, PartialEq)]
pub struct Form {
    pub mnemonic: &'static str,
    pub slots: Vec<Slot>,
    pub operands: Vec<Spec>,
    pub gates: Vec<Gate>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub words: Vec<Word>,
    pub optional: bool,
}

impl Slot {
    pub fn kind(&self) -> Kind {
        self.words.first().map_or(Kind::Flag, |w| w.kind())
    }
}

/// What may stand at an operand's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub role: Role,
    pub ty: TypeRef,
    pub count: Count,
    /// If it is a constant.
    pub values: Values,
    pub optional: bool,
    pub sink: bool,
    pub gate: Option<Gate>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Register that is written.
    Dest,
    /// Register or constant.
    Source,
    /// Register only.
    Register,
    /// Constant.
    Constant,
    /// Predicate register that is written.
    PredDest,
    /// Predicate register, perhaps negated; or a constant truth value.
    Pred,
    /// `[…]`; empty for a plain address.
    Address(Vec<Spec>),
    /// `{x, y}`: a vector whose elements differ.
    Tuple(Vec<Spec>),
    /// `x|q`: the second is optional when it says so.
    Pair(Box<(Spec, Spec)>),
    Label,
    Function,
    Variable,
    List,
    Anything,
}

/// The values that a constant may have.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Any,
    Range { low: i64, high: i64, step: i64 },
    OneOf(Vec<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// The type in the form's n-th type slot.
    Slot(u8),
    /// Twice as wide as that.
    Wide(u8),
    /// A register at least as wide as that, of any class.
    AtLeast(u8),
    /// Packed in pairs into a register of 32 bits if it is 16 bits wide.
    Paired(u8),
    Fixed(crate::types::Type),
    Any,
}

/// How many registers an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A single register or constant, without braces.
    One,
    /// Braces with this many; a lone register is the same as one in braces when this is 1.
    Exactly(u16),
    /// As many as `.v2`, `.v4`, `.v8` say; without braces when there is none.
    Vector,
    /// A number in a shape word, times and over small numbers: `{d*n/2}`.
    Shape { key: char, times: u16, over: u16 },
    /// A lane's part of a matrix with the shape's `rows` and `columns` and elements of the n-th type.
    Fragment { rows: char, columns: char, element: u8, times: u16, over: u16 },
    /// Braces or a single register, as many as are there.
    Free,
}

/// A requirement on target and version, and the name that ptxas gives to what requires it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub subject: Subject,
    pub name: String,
    pub need: Need,
    pub version: Option<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Feature,
    Instruction,
    Modifier,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    Nothing,
    AtLeast(u16),
    OneOf(Vec<Target>),
}

/// A rule of a `rule` line.
#[derive(Debug)]
pub struct Rule {
    pub when: Condition,
    pub then: Consequence,
}

#[derive(Debug)]
pub struct Condition {
    /// A mnemonic, a prefix when it ended in `*`, or `*`.
    pub mnemonic: &'static str,
    pub prefix: bool,
    /// Of each group one must be there.
    pub present: Vec<Vec<Word>>,
    pub absent: Vec<Word>,
    /// The n-th type must be one of these.
    pub types: Vec<(usize, Vec<Word>)>,
}

#[derive(Debug)]
pub enum Consequence {
    Gate(Gate),
    Error(String),
}

pub struct Table {
    pub forms: Vec<Form>,
    pub rules: Vec<Rule>,
    by_mnemonic: FxHashMap<&'static str, Vec<u16>>,
}

impl Table {
    /// The table, read on first use.
    ///
    /// # Panics
    /// If a row of the table itself is malformed, which a test rules out.
    pub fn get() -> &'static Table {
        static CELL: OnceLock<Table> = OnceLock::new();
        CELL.get_or_init(|| read::table(FILES).unwrap_or_else(|e| panic!("instruction table: {e}")))
    }

    pub fn forms_of(&self, mnemonic: &str) -> Option<&[u16]> {
        self.by_mnemonic.get(mnemonic).map(Vec::as_slice)
    }

    pub fn form(&self, id: u16) -> &Form {
        &self.forms[id as usize]
    }
}

impl Gate {
    /// ptxas's words when the gate is shut: for the version, and for the target.
    pub fn refusals(&self, target: Target, version: Version) -> [Option<String>; 2] {
        // An instruction that a version lacks is a feature.
        let (subject, since) = match self.subject {
            Subject::Feature => ("Feature", "Feature"),
            Subject::Instruction => ("Instruction", "Feature"),
            Subject::Modifier => ("Modifier", "Modifier"),
        };
        let name = &self.name;
        let newer = self.version.filter(|v| version < *v);
        let newer = newer.map(|v| format!("{since} {name} requires PTX ISA .version {v} or later"));
        let other = match &self.need {
            Need::AtLeast(sm) if target.sm() < *sm => {
                Some(format!("{subject} {name} requires .target sm_{sm} or higher"))
            }
            Need::OneOf(targets) if !targets.contains(&target) => {
                Some(format!("{subject} {name} not supported on .target '{}'", target.name()))
            }
            _ => None,
        };
        [newer, other]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads() {
        match read::table(FILES) {
            Ok(table) => assert!(table.forms.len() > 100),
            Err(e) => panic!("{e}"),
        }
    }
}
