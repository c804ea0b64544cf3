//! What a line of the table says: the types alone, for the crate and for its build script.

#![allow(missing_docs, reason = "types say what they are; fields are named as PTX names them")]

use crate::target::{Target, Toolkit, Version};
use crate::types::Type;
use crate::words::{Kind, Word};
use std::borrow::Cow;

/// One row: the modifiers and operands of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    pub slots: &'static [Slot],
    pub operands: &'static [Spec],
    pub gates: &'static [Gate],
    /// The row is there for the sake of this text.
    pub error: Option<&'static str>,
}

impl Form {
    /// Is there a place for a word of this kind?
    pub fn takes(&self, kind: Kind) -> bool {
        self.slots.iter().any(|slot| slot.kind == kind)
    }

    /// Had the release this row?
    pub fn is_known_to(&self, toolkit: Toolkit) -> bool {
        let mut needs = self.gates.iter().flat_map(|gate| gate.needs);
        !needs.any(|need| matches!(need, Need::Version(version) if *version > toolkit.newest_ptx()))
    }
}

/// Words one of which may or must be there.
pub type Words = &'static [Word];

/// A position for a modifier: one of some words.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub words: Words,
    /// Of the first word.
    pub kind: Kind,
    pub optional: bool,
}

impl Slot {
    /// The flag among its words: `.approx` of `<rnd>/.approx`.
    pub fn flag(&self) -> Option<Word> {
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
    /// A special register may stand there.
    pub special: bool,
    /// The register may be negated.
    pub negates: bool,
    /// The operand stands there if and only if the opcode has this word.
    pub when: Option<Word>,
    pub gate: Option<&'static Gate>,
    /// What a constant at this place must obey.
    pub limits: &'static [Limit],
    /// The element of a vector that is the index into an array of layers.
    pub index: Option<u8>,
}

impl Spec {
    /// Does the value of a constant matter here?
    pub fn bounds_constants(&self) -> bool {
        match self.role {
            Role::Pair(pair) => pair.0.bounds_constants() || pair.1.bounds_constants(),
            _ => self.limits.iter().any(|l| !l.test.of_vector()),
        }
    }
}

/// A bound on a constant or on a register's selector, and what ptxas says when it is broken.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub test: Test,
    /// `None` for what it says about most instructions.
    pub text: Option<&'static str>,
    /// The versions and targets that have it.
    pub when: Condition,
}

impl Limit {
    /// What ptxas says, with `$v`, `$n` and `$m` for value, position and mnemonic.
    pub fn text(&self) -> Cow<'static, str> {
        let usual = match (&self.test, self.text) {
            (_, Some(text)) => return Cow::Borrowed(text),
            (Test::Range(low, high), _) => {
                format!("value '$v' out of range, expected to be in range [{low}..{high}]")
            }
            (Test::Multiple(n), _) => format!("unexpected value '$v', expected to be multiple of {n}"),
            (Test::OneOf(values), _) => {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                format!("unexpected value '$v', expected to be {}", values.join(" or "))
            }
            // No other test is read without a text of its own.
            _ => "unexpected value '$v'".into(),
        };
        Cow::Owned(format!("Argument $n of instruction '$m': {usual}"))
    }
}

/// What a constant or a selector must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `0..15`
    Range(i64, i64),
    /// `!4`
    Except(i64),
    /// `4|8|16`
    OneOf(&'static [i64]),
    /// `/8`
    Multiple(i64),
    /// `pow2`
    PowerOfTwo,
    /// `nonzero`
    NonZero,
    /// `(0..1]`, of a float.
    Fraction,
    /// `.b0 .hXX`: the selectors that a register may have; `no selector` for none.
    Selector(&'static str),
    /// `no constant`
    Register,
    /// `size`: a vector of the size that the opcode asks for.
    Size,
    /// `vector`: a vector where the opcode asks for one.
    Vector,
}

impl Test {
    /// Is it about vectors as a whole?
    pub fn of_vector(&self) -> bool {
        matches!(self, Test::Size | Test::Vector)
    }
}

/// What an operand is to the instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Register that is written.
    Dest,
    /// Register or constant.
    Source,
    /// Register, constant, or the address of a variable or function.
    Movable,
    /// Register only.
    Register,
    /// Constant.
    Constant,
    /// A sink.
    Discard,
    /// Predicate register that is written.
    PredDest,
    /// Predicate register, perhaps negated; or a constant truth value.
    Pred,
    /// `[base + offset]` in a state space.
    Memory(Place),
    /// The base among other things in brackets.
    Base(Place),
    /// `[…]` with more in it than a plain address.
    Address(&'static [Spec]),
    /// `{x, y}`: a vector whose elements differ.
    Tuple(&'static [Spec]),
    /// `x|q`: the second is optional when it says so.
    Pair(&'static (Spec, Spec)),
    Label,
    /// The label of a `.branchtargets`.
    Targets,
    Function,
    Variable,
    /// A texture, sampler or surface variable, or a register with its handle.
    Handle,
    /// A sampler if textures and samplers are told apart, else the texture that has it in it.
    SamplerOf,
    List,
    Anything,
}

/// The state space that an address is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The n-th state space among the modifiers; generic if there is none.
    Named(u8),
    Shared,
    Global,
    /// A variable of any state space will do.
    Any,
}

/// The type that an operand must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// The type in the form's n-th type slot.
    Slot(u8),
    /// Twice as wide as that.
    Wide(u8),
    /// Its bits, shared out among the elements of a vector.
    Split(u8),
    /// A register at least as wide as that, of any class.
    AtLeast(u8),
    /// Packed in pairs into a register of 32 bits if it is 16 bits wide.
    Paired(u8),
    Fixed(Type),
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
    /// As many as the dimension word (`.3d`) says, less this.
    Dimension { less: u16 },
    /// Braces with at least this many, or a single register.
    AtLeast(u16),
    /// Braces or a single register, as many as are there.
    Free,
}

/// Lanes of a warp.
const LANES: u32 = 32;

impl Count {
    /// The kind of the words that give a number to a dimension; `x` is the number of repetitions.
    pub fn shape_kind(key: char) -> Kind {
        if key == 'x' { Kind::Repeat } else { Kind::Shape }
    }

    /// The registers of a matrix fragment whose elements have this type.
    pub fn fragment(self, shape: impl Fn(char) -> Option<u32>, element: Type) -> Option<u32> {
        let Count::Fragment { rows, columns, times, over, .. } = self else { return None };
        let register = element.bits().max(32);
        let bits = shape(rows)? * shape(columns)? * element.bits() * u32::from(times);
        Some(bits / (LANES * register * u32::from(over.max(1))))
    }

    /// Must one register stand in braces, too?
    pub fn needs_braces(self) -> bool {
        matches!(self, Count::Shape { .. } | Count::Fragment { .. } | Count::Dimension { .. })
    }
}

/// A requirement on target and version, and the name that ptxas gives to what requires it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub subject: Subject,
    pub name: &'static str,
    pub needs: &'static [Need],
}

/// What ptxas calls the thing that is too new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Feature,
    Instruction,
    Modifier,
}

/// The targets or versions that have it.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    AtLeast(u16),
    OneOf(&'static [Target]),
    Version(Version),
}

/// A `word`, `rule`, `amid` or `late` line.
#[derive(Debug)]
pub struct Rule {
    pub step: Step,
    pub when: Condition,
    pub then: Consequence,
}

/// When a rule is checked: while the modifiers are read, before the row's gates, among the modifiers that don't
/// belong, or after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Word,
    Rule,
    Amid,
    Late,
}

/// When a rule applies: all that it names must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// The lowest version to which the rule applies.
    pub from: Option<Version>,
    /// The version below which it applies.
    pub until: Option<Version>,
    /// The lowest target, and the one below which.
    pub from_sm: Option<u16>,
    pub until_sm: Option<u16>,
    /// The targets to which it applies, if not to all.
    pub inside: &'static [Target],
    /// The targets to which it doesn't apply.
    pub outside: &'static [Target],
    /// Of each group one must be there.
    pub present: &'static [Words],
    /// None of these may be there.
    pub absent: Words,
    /// The n-th type is one of these.
    pub types: &'static [(usize, Words)],
    /// The instruction has so many operands.
    pub operands: Option<usize>,
}

impl Condition {
    /// The first word that it names.
    pub fn first_word(&self) -> Option<Word> {
        self.present.iter().copied().flatten().chain(self.absent).next().copied()
    }

    /// Does it ask for no other version and target than these?
    pub fn is_current(&self, target: Target, version: Version) -> bool {
        self.from.is_none_or(|v| version.reaches(v))
            && self.until.is_none_or(|v| !version.reaches(v))
            && self.from_sm.is_none_or(|sm| target.sm() >= sm)
            && self.until_sm.is_none_or(|sm| target.sm() < sm)
            && (self.inside.is_empty() || self.inside.contains(&target))
            && !self.outside.contains(&target)
    }
}

/// What follows where a rule applies.
#[derive(Debug)]
pub enum Consequence {
    Gates(&'static [Gate]),
    Error(&'static str),
    Warning(&'static str),
}

/// All that the table has about one mnemonic.
#[derive(Debug)]
pub struct Instruction {
    pub mnemonic: &'static str,
    pub forms: &'static [&'static Form],
    /// The `rule`, `amid` and `late` lines, in order.
    pub rules: &'static [&'static Rule],
    /// How many operations (`.add`, `.exch`) a form takes at most.
    pub operations: usize,
    /// Some form takes argument lists in parentheses.
    pub takes_lists: bool,
    /// The sizes of the vectors that forms have, other than 1, 2 and 4, which every vector may have when it is read;
    /// in order.
    pub vector_sizes: &'static [u32],
}
