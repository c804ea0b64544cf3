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
//! amid  ld/st .volatile .ca       : error 'Modifier '$1' cannot be combined with modifier '$2''
//! late  add/sub .cc .sat          : error 'Modifier '.cc' cannot be combined with modifier '.sat''
//! ```
//!
//! Modifiers: `.x` is required, `{…}` optional, `.x/.y` one of, `<set>` one of a set, `.m64n*k16` any that fits.
//! Words of different kinds match in any order, as in ptxas; types, operations, spaces and layouts keep theirs. `t0`,
//! `t1`, … are the types that stand in the form's type slots, in order.
//!
//! Operands, separated by commas:
//!
//! | operand | is |
//! |---|---|
//! | `d` `r` `i` | result register, register, constant |
//! | `a` `b` `c` | register or constant; `s` or special register; `x` or an address that is a constant, too |
//! | `p` `q` | predicate that may be negated, predicate result |
//! | `[m]` | address in the opcode's space; `[m1]` in its second one, `[m:shared]`, `[m:global]`, `[m:any]` |
//! | `[…]` | address with what stands in it; `m` in there is the base |
//! | `{a*4}` | vector of four; `{a}` of any size, `{a*2+}` of two or more or a lone register, `{a*dim}` by `.3d` |
//! | `{a, r}` | vector whose elements differ; in `{a*4^0}` element 0 is the index into an array |
//! | `a*v` | vector or scalar by `.v2`, `.v4`, `.v8` |
//! | `T` `P` | texture, sampler or surface; what holds the sampler |
//! | `L` `B` `F` `S` | label, label of branch targets, function, name of a variable |
//! | `_` `(*)` `*` | sink, argument list, anything |
//!
//! and what may be said of them:
//!
//! | operand | is |
//! |---|---|
//! | `a(0..15)` | in this range if a constant; `(32..512/32)` with steps, `(/8)` a multiple, `(-1\|1)` one of |
//! | `a#name` | within the limit of that name |
//! | `a:type` | of this type (default `t0`, any for `i`): a name, `any`, `tN` |
//! | `a:wN` `a:~tN` | twice as wide as `tN`; at least as wide, of any class |
//! | `a:xN` `a:/N` | two to a register if `tN` is half as wide as one; the bits of `tN`, shared among elements |
//! | `a_` | perhaps a sink, in a vector each element |
//! | `a?` | perhaps left out; a sampler if and only if the module doesn't tell it apart from the texture |
//! | `a\|q` | a pair |
//! | `a if .x` | there if and only if the opcode has that word |
//! | `a@gate` | only there if the gate is open |
//! | `-a` | perhaps negated |
//!
//! A matrix fragment is as many registers as hold its elements, spread over a warp: `{a:b32*mk1}` is this lane's part
//! of m×k elements of type `t1`, where m and k stand in the shape word; `*mk1/2` half of that. `{a*x*2}` is twice as
//! many as `.x4` says.
//!
//! A limit has a test and a text: `limit name = 0..15 : 'text'`. Other tests of constants are `4|8|16`, `/8`, `pow2`,
//! `nonzero`, `fraction`, `no constant`; `.b0 .hXX` and `no selector` are tests of the video selectors of registers.
//! `size` asks for a vector of the right size if it is one, `vector` for a vector where the opcode wants one. In its
//! text `$v` is the value or the right size, `$u` the same without a sign, `$n` the number of the operand, `$w` the
//! word in the row's first slot. `a(0..15)` is a limit with the text that most instructions have.
//!
//! ptxas checks an instruction in steps, and each step has its lines, in the order of the files:
//! 1. The modifiers one by one: unknown words, words said twice, `word` lines.
//! 2. The form: a row that takes the types and the words that choose a form ([`Kind::chooses_form`]). It ends here if
//!    there is none.
//! 3. The operands' kinds and types. It ends here if no row takes them.
//! 4. `rule` lines, then the gates of the row.
//! 5. Modifiers that the row doesn't take, required ones that aren't there, some faults of operands and `amid` lines,
//!    in the order of the vocabulary ([`Turn`]): an `amid` line has the turn of the group of the first word that it names.
//! 6. `late` lines.
//! 7. The gates of optional operands, sizes of vectors and other faults of operands, limits.
//!
//! These lines name what must be there, `!` what must not: of `.x/.y` one, or none. `ptx6.4` is the version from which
//! they apply, `!ptx8.1` the one below which, `sm70` and `!sm70` say the same of targets, `t1=.x/.y` asks for the
//! second type, `args=3` for three operands. All but `word` begin with mnemonics, `a/b` or `v*` or `*`. In texts `$m` is the mnemonic,
//! `$t0`, `$t1` are the types, `$types` is all of them (`.f32.s32`), `$op` is the operation, `$shape` the shape,
//! `$1`, `$2`, … are the words that met the groups of the line, and `$1::` is what follows the `::` of such a word.
//!
//! A gate is `F` (feature), `I` (instruction) or `M` (modifier) with the name that ptxas prints, and needs, in the
//! order in which ptxas asks for them: `>=90`, `in:SET`, `ptx8.0`. Several gates have `;` between them. In the place
//! of a gate `error 'text'` makes a row of something that ptxas knows well enough to say what is wrong with it. In a
//! rule, `warn 'text'` is a warning.

mod opcode;
mod read;

pub use opcode::{Fit, Opcode, OpcodeError, Remark, mnemonic, resolve};

use crate::target::{Target, Version};
use crate::types::Type;
use crate::words::{Kind, Turn, Word};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
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
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    pub slots: Vec<Slot>,
    pub operands: Vec<Spec>,
    pub gates: Vec<Gate>,
    /// The row is there for the sake of this text.
    pub error: Option<&'static str>,
}

impl Form {
    /// How many operations it takes.
    fn operations(&self) -> usize {
        self.slots.iter().filter(|slot| slot.kind.is_operation()).count()
    }

    /// Is there a place for a word of this kind?
    pub fn takes(&self, kind: Kind) -> bool {
        self.slots.iter().any(|slot| slot.kind == kind)
    }

    /// The sizes of its vectors, other than 1, 2 and 4, which every vector may have when it is read.
    fn vector_sizes(&self) -> Vec<u32> {
        fn add(form: &Form, specs: &[Spec], sizes: &mut Vec<u32>) {
            for spec in specs {
                match &spec.role {
                    Role::Address(inside) => add(form, inside, sizes),
                    _ => sizes.extend(form.sizes(spec.count).into_iter().filter(|n| !matches!(n, 1 | 2 | 4))),
                }
            }
        }
        let mut sizes = Vec::new();
        add(self, &self.operands, &mut sizes);
        sizes
    }

    /// The sizes of a vector with the words that the row takes; none where it can't tell.
    fn sizes(&self, count: Count) -> Vec<u32> {
        let of_kind = |kind: Kind| {
            self.slots.iter().filter(move |s| s.kind == kind).flat_map(|s| s.words.iter().copied())
        };
        let numbers = |key: char| of_kind(Count::shape_kind(key)).filter_map(move |w| w.number(key));
        match count {
            Count::Exactly(n) => vec![u32::from(n)],
            Count::Shape { key, times, over } => {
                numbers(key).map(|n| n * u32::from(times) / u32::from(over.max(1))).collect()
            }
            Count::Fragment { element, .. } => {
                let types = self.slots.iter().filter(|s| s.kind == Kind::Type).nth(element as usize);
                let types = types.iter().flat_map(|s| s.words.iter()).filter_map(|w| Type::of_word(*w));
                let types: Vec<Type> = types.collect();
                of_kind(Kind::Shape)
                    .flat_map(|shape| {
                        types.iter().filter_map(move |ty| count.fragment(|key| shape.number(key), *ty))
                    })
                    .collect()
            }
            Count::Dimension { .. } => (1..=5).collect(),
            Count::Vector => of_kind(Kind::Vector).filter_map(|w| w.number('v')).collect(),
            Count::One | Count::AtLeast(_) | Count::Free => Vec::new(),
        }
    }
}

/// Words one of which may or must be there. Most are few: these need no memory of their own.
pub type Words = SmallVec<[Word; 8]>;

#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub words: Words,
    /// Of the first word.
    pub kind: Kind,
    pub optional: bool,
}

impl Slot {
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
    /// A special register may stand there.
    pub special: bool,
    /// The register may be negated.
    pub negates: bool,
    /// The operand stands there if and only if the opcode has this word.
    pub when: Option<Word>,
    pub gate: Option<Box<Gate>>,
    /// What a constant at this place must obey.
    pub limits: Vec<Limit>,
    /// The element of a vector that is the index into an array of layers.
    pub index: Option<u8>,
}

impl Spec {
    /// Does the value of a constant matter here?
    fn bounds_constants(&self) -> bool {
        match &self.role {
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
    text: Option<&'static str>,
}

impl Limit {
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

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `0..15`
    Range(i64, i64),
    /// `4|8|16`
    OneOf(Vec<i64>),
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
    Address(Vec<Spec>),
    /// `{x, y}`: a vector whose elements differ.
    Tuple(Vec<Spec>),
    /// `x|q`: the second is optional when it says so.
    Pair(Box<(Spec, Spec)>),
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

#[derive(Debug, Default)]
pub struct Condition {
    /// The lowest version to which the rule applies.
    pub from: Option<Version>,
    /// The version below which it applies.
    pub until: Option<Version>,
    /// The lowest target, and the one below which.
    pub from_sm: Option<u16>,
    pub until_sm: Option<u16>,
    /// Of each group one must be there.
    pub present: Vec<Words>,
    /// None of these may be there.
    pub absent: Words,
    /// The n-th type is one of these.
    pub types: Vec<(usize, Words)>,
    /// The instruction has so many operands.
    pub operands: Option<usize>,
}

impl Condition {
    /// The first word that it names.
    fn first_word(&self) -> Option<Word> {
        self.present.iter().flatten().chain(&self.absent).next().copied()
    }

    /// Does it ask for no other version and target than these?
    pub fn is_current(&self, target: Target, version: Version) -> bool {
        self.from.is_none_or(|v| version.reaches(v))
            && self.until.is_none_or(|v| !version.reaches(v))
            && self.from_sm.is_none_or(|sm| target.sm() >= sm)
            && self.until_sm.is_none_or(|sm| target.sm() < sm)
    }
}

impl Rule {
    /// When what it says is said.
    pub fn turn(&self) -> Turn {
        match self.step {
            Step::Word | Step::Rule => Turn::FIRST,
            Step::Amid => self.when.first_word().map_or(Turn::FIRST, Turn::of_group),
            Step::Late => Turn::LAST,
        }
    }
}

#[derive(Debug)]
pub enum Consequence {
    Gates(Vec<Gate>),
    Error(&'static str),
    Warning(&'static str),
}

#[derive(Default)]
pub struct Table {
    rows: Vec<Lazy<Form>>,
    /// All `word`, `rule`, `amid` and `late` lines, in order.
    rules: Vec<Lazy<Rule>>,
    word_rules: Vec<u16>,
    /// The same by the words that they name.
    by_word: OnceLock<FxHashMap<Word, Vec<u16>>>,
    /// The rules for mnemonics that begin with a text.
    prefix_rules: Vec<(&'static str, u16)>,
    by_mnemonic: FxHashMap<&'static str, Lines>,
    definitions: read::Definitions,
}

/// The lines that name a mnemonic, and what they say together.
#[derive(Default)]
struct Lines {
    rows: Vec<u16>,
    rules: Vec<u16>,
    instruction: OnceLock<Box<Instruction>>,
}

/// All that the table has about one mnemonic.
pub struct Instruction {
    pub forms: Vec<u16>,
    /// The `rule`, `amid` and `late` lines, in order.
    rules: Vec<u16>,
    /// How many operations (`.add`, `.exch`) a form takes at most.
    operations: usize,
    /// Some form takes argument lists in parentheses.
    takes_lists: bool,
    /// See [`Table::vector_sizes`].
    vector_sizes: OnceLock<Vec<u32>>,
}

/// A line of the table and its place.
#[derive(Clone, Copy)]
struct Line {
    file: &'static str,
    number: usize,
    text: &'static str,
}

/// What a line says, once an opcode has asked for it; until then it takes little room.
struct Lazy<T> {
    line: Line,
    read: OnceLock<Box<T>>,
}

impl<T> Lazy<T> {
    fn new(line: Line) -> Lazy<T> {
        Lazy { line, read: OnceLock::new() }
    }

    /// # Panics
    /// If the line is malformed, which a test rules out.
    fn get(&self, read: impl Fn(&'static str) -> Result<T, String>) -> &T {
        let Line { file, number, text } = self.line;
        self.read.get_or_init(|| Box::new(read(text).unwrap_or_else(|e| panic!("{file}:{number}: {e}"))))
    }
}

impl Table {
    /// The table, made on first use.
    ///
    /// # Panics
    /// If a line of the table itself is malformed, which a test rules out.
    pub fn get() -> &'static Table {
        static CELL: OnceLock<Table> = OnceLock::new();
        CELL.get_or_init(|| read::table(FILES).unwrap_or_else(|e| panic!("instruction table: {e}")))
    }

    /// The mnemonic of the table that is spelled like this.
    pub fn mnemonic(&self, spelling: &str) -> Option<&'static str> {
        self.by_mnemonic.get_key_value(spelling).map(|(m, _)| *m)
    }

    pub fn instruction(&self, mnemonic: &str) -> Option<&Instruction> {
        let lines = self.by_mnemonic.get(mnemonic)?;
        Some(lines.instruction.get_or_init(|| Box::new(self.put_together(mnemonic, lines))))
    }

    fn put_together(&self, mnemonic: &str, lines: &Lines) -> Instruction {
        let prefixed = self.prefix_rules.iter().filter(|(prefix, _)| mnemonic.starts_with(prefix));
        let mut rules: Vec<u16> = lines.rules.iter().copied().chain(prefixed.map(|(_, id)| *id)).collect();
        rules.sort_unstable();
        rules.dedup();
        let forms = || lines.rows.iter().map(|id| self.form(*id));
        Instruction {
            forms: lines.rows.clone(),
            rules,
            operations: forms().map(Form::operations).max().unwrap_or(0),
            takes_lists: forms().flat_map(|form| &form.operands).any(|spec| spec.role == Role::List),
            vector_sizes: OnceLock::new(),
        }
    }

    /// The sizes of the vectors that forms of an instruction have, other than 1, 2 and 4; in order.
    fn vector_sizes<'t>(&'t self, instruction: &'t Instruction) -> &'t [u32] {
        instruction.vector_sizes.get_or_init(|| {
            let forms = instruction.forms.iter().map(|id| self.form(*id));
            let mut sizes: Vec<u32> = forms.flat_map(Form::vector_sizes).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        })
    }

    /// # Panics
    /// If the row is malformed, which a test rules out.
    pub fn form(&self, id: u16) -> &Form {
        self.rows[id as usize].get(|line| self.definitions.form(line))
    }

    fn rule(&self, id: u16) -> &Rule {
        self.rules[id as usize].get(|line| self.definitions.rule(line))
    }

    /// The `word` lines that name a word, in order.
    fn word_rules(&self, word: Word) -> impl Iterator<Item = &Rule> {
        let by_word = self.by_word.get_or_init(|| {
            let mut by_word: FxHashMap<Word, Vec<u16>> = FxHashMap::default();
            for &id in &self.word_rules {
                for word in self.rule(id).when.present.iter().flatten() {
                    let ids = by_word.entry(*word).or_default();
                    if ids.last() != Some(&id) {
                        ids.push(id);
                    }
                }
            }
            by_word
        });
        by_word.get(&word).into_iter().flatten().map(|id| self.rule(*id))
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
        let name = self.name;
        self.needs.iter().filter_map(move |need| match need {
            Need::Version(v) if !version.reaches(*v) => {
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
    fn all_lines_read() {
        let table = Table::get();
        assert!(table.rows.len() > 500 && table.rules.len() > 500);
        for (mnemonic, lines) in &table.by_mnemonic {
            assert!(!lines.rows.is_empty(), "rules about {mnemonic}, which is no instruction");
        }
        for (prefix, _) in &table.prefix_rules {
            assert!(table.by_mnemonic.keys().any(|m| m.starts_with(prefix)), "no instruction {prefix}*");
        }
        // These panic at a malformed line.
        for id in 0..table.rows.len() {
            table.form(id as u16);
        }
        for id in 0..table.rules.len() {
            table.rule(id as u16);
        }
    }
}
