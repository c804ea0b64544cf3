//! The instruction table: every form of every instruction, as data.
//!
//! The rows stand in `table/*.tab`, one file per family, and read like the syntax lines of the PTX manual:
//!
//! ```text
//! set int = .s16 .u16 .s32 .u32 .s64 .u64          a named set of words
//! arch tc5 = 100f 100a 103f 103a 110f 110a         a named set of targets
//! add/sub <int>                   | d, a, b        mnemonics, modifiers | operands | gates
//! add   {<rnd>}{.ftz}{.sat}.f32   | d, a, b
//! add   .s16x2/.u16x2             | d:b32, a:b32, b:b32 | F'add.$t0' >=90 ptx8.0
//! word  .bf16                     : F'.bf16' >=80 ptx7.0
//! rule  add/sub .sat !.s32/.f32   : error 'Modifier '.sat' does not apply to '.$t0' type'
//! late  add/sub .cc .sat          : error 'Modifier '.cc' cannot be combined with modifier '.sat''
//! ```
//!
//! Modifiers: `.x` is required, `{…}` optional, `.x/.y` one of, `<set>` one of a set. Words of different kinds
//! match in any order, as in ptxas; types, spaces, layouts and shapes keep theirs. `t0`, `t1`, … are the types
//! that stand in the form's type slots, in order.
//!
//! Operands, separated by commas: `d` result register, `a` register or constant, `r` register, `i` constant,
//! `i(0..15)` constant in a range, `p` predicate that may be negated, `q` predicate result, `[…]` address with
//! what stands in it, `{a*4}` vector of four, `a*v` vector or scalar by `.v2`/`.v4`, `L` label, `F` function,
//! `S` name of a variable, `(*)` argument list, `*` anything. `:type` gives the type (default `t0`): a name,
//! `tN`, `wN` (twice as wide), `~tN` (at least as wide, any class), `any`. `?` makes an operand optional, `_`
//! lets a sink stand there, `x|q` is a pair.
//!
//! ptxas checks an instruction in steps, and each step has its lines, in the order of the files:
//! 1. The modifiers one by one: unknown words, words said twice, `word` lines.
//! 2. The form: a row that takes the types and the words that choose a form ([`Kind::chooses_form`]). It ends
//!    here if there is none.
//! 3. The operands. It ends here if no row takes them.
//! 4. `rule` lines, then the gates of the row.
//! 5. Modifiers that the row doesn't take, and required ones that aren't there.
//! 6. `late` lines.
//!
//! `word`, `rule` and `late` lines name what must be there, `!` what must not: of `.x/.y` one, or none.
//! `t1=.x/.y` asks for the second type, `args=3` for three operands. `rule` and `late` begin with mnemonics,
//! `a/b` or `v*` or `*`. In texts `$m` is the mnemonic, `$t0`, `$t1` are the types, `$types` is all of them
//! (`.f32.s32`), `$op` is the operation.
//!
//! A gate is `F` (feature), `I` (instruction) or `M` (modifier) with the name that ptxas prints, and needs, in
//! the order in which ptxas asks for them: `>=90`, `in:SET`, `ptx8.0`.

mod opcode;
mod read;

pub use opcode::{Fit, Opcode, OpcodeError, Remark, resolve};

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

    /// The flag among its words: `.approx` of `<rnd>/.approx`.
    fn flag(&self) -> Option<Word> {
        self.words.iter().copied().find(|w| matches!(w.kind(), Kind::Flag | Kind::FormFlag))
    }
}

/// What may stand at an operand's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub role: Role,
    pub ty: TypeRef,
    pub count: Count,
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
    /// Constant, within bounds.
    Constant(Option<(i64, i64)>),
    /// Predicate register that is written.
    PredDest,
    /// Predicate register, perhaps negated; or a constant truth value.
    Pred,
    /// `[…]`; empty for a plain address.
    Address(Vec<Spec>),
    /// `x|q`: the second is optional when it says so.
    Pair(Box<(Spec, Spec)>),
    Label,
    Function,
    Variable,
    List,
    Anything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// The type in the form's n-th type slot.
    Slot(u8),
    /// Twice as wide as that.
    Wide(u8),
    /// A register at least as wide as that, of any class.
    AtLeast(u8),
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
    /// Braces or a single register, as many as are there.
    Free,
}

/// A requirement on target and version, and the name that ptxas gives to what requires it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub subject: Subject,
    pub name: String,
    pub needs: Vec<Need>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Feature,
    Instruction,
    Modifier,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    AtLeast(u16),
    OneOf(Vec<Target>),
    Version(Version),
}

/// A `word`, `rule` or `late` line.
#[derive(Debug)]
pub struct Rule {
    pub step: Step,
    pub when: Condition,
    pub then: Consequence,
}

/// When a rule is checked: while the modifiers are read, before the row's gates, or at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Word,
    Rule,
    Late,
}

#[derive(Debug, Default)]
pub struct Condition {
    /// One of these mnemonics, or one that begins with it where it ended in `*`.
    pub mnemonics: Vec<(&'static str, bool)>,
    /// Of each group one must be there.
    pub present: Vec<Vec<Word>>,
    /// None of these may be there.
    pub absent: Vec<Word>,
    /// The n-th type is one of these.
    pub types: Vec<(usize, Vec<Word>)>,
    /// The instruction has so many operands.
    pub operands: Option<usize>,
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
    /// ptxas's words for each need that isn't met.
    pub fn refusals(&self, target: Target, version: Version) -> impl Iterator<Item = String> {
        let subject = match self.subject {
            Subject::Feature => "Feature",
            Subject::Instruction => "Instruction",
            Subject::Modifier => "Modifier",
        };
        let name = &self.name;
        self.needs.iter().filter_map(move |need| match need {
            Need::Version(v) if version < *v => {
                Some(format!("{subject} {name} requires PTX ISA .version {v} or later"))
            }
            Need::AtLeast(sm) if target.sm() < *sm => {
                Some(format!("{subject} {name} requires .target sm_{sm} or higher"))
            }
            Need::OneOf(targets) if !targets.contains(&target) => {
                Some(format!("{subject} {name} not supported on .target '{}'", target.name()))
            }
            _ => None,
        })
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
