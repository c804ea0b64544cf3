//! The syntax tree of a module.
//!
//! Flat and small, because PTX files reach hundreds of megabytes: a function body is one vector of statements
//! and one arena of operands, names are interned, registers are numbers, and an opcode is resolved once per
//! spelling ([`crate::table::Opcode`]). Nested operands (vectors, addresses, argument lists) are ranges of the
//! same arena. Scopes are statements ([`Stmt::Open`], [`Stmt::Close`]).

#![allow(missing_docs, reason = "types say what they are; fields are named as PTX names them")]

use crate::diag::Span;
use crate::table::Opcode;
use crate::target::{Target, Version};
use crate::types::Type;

/// An interned name: an index into [`Module::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// A register of a function, numbered in order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u32);

/// A variable, function, label or other named thing: an index into [`Module::symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

impl Symbol {
    /// Stands in for a symbol that was not found; the error has been reported.
    pub const UNKNOWN: Symbol = Symbol(u32::MAX);
}

/// An index into [`Module::opcodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpcodeId(pub u32);

/// The text that a module was parsed from. It never takes part in comparisons of trees.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct SourceText<'s>(&'s str);

impl<'s> SourceText<'s> {
    pub(crate) fn new(text: &'s str) -> SourceText<'s> {
        SourceText(text)
    }

    /// The text itself.
    pub fn text(self) -> &'s str {
        self.0
    }
}

impl PartialEq for SourceText<'_> {
    fn eq(&self, _: &SourceText) -> bool {
        true
    }
}

/// A PTX module: what its header says, its items in order, and the tables that they index.
#[derive(Debug, PartialEq)]
pub struct Module<'s> {
    pub source: SourceText<'s>,
    pub version: Version,
    pub target: Target,
    /// `texmode_independent`, `debug`, `map_f64_to_f32`, … as written after the target.
    pub target_options: Vec<&'s str>,
    /// 32 or 64; `None` when the module doesn't say.
    pub address_size: Option<u32>,
    pub items: Vec<Item<'s>>,
    pub names: Vec<&'s str>,
    pub symbols: Vec<SymbolInfo>,
    pub opcodes: Vec<Opcode>,
}

/// What a symbol stands for, and where it is declared.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolInfo {
    /// The whole name, or what stands before the number of a member of a range.
    pub name: Name,
    pub member: Option<u32>,
    pub kind: SymbolKind,
    pub span: Span,
}

/// What a symbol stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum SymbolKind {
    /// A module variable, a function's variable, or a `.param` variable in a body or an entry's list.
    Variable {
        space: Space,
        ty: Type,
        vector: u8,
        bytes: u64,
        align: u64,
        array: bool,
    },
    Function {
        entry: bool,
    },
    Label,
    /// A label before `.branchtargets`, `.calltargets` or `.callprototype`.
    Targets,
    Prototype,
    Alias(Symbol),
}

/// A state space that variables are declared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
    Reg,
}

impl Space {
    /// As it is written: `.global`.
    pub fn text(self) -> &'static str {
        match self {
            Space::Global => ".global",
            Space::Const => ".const",
            Space::Shared => ".shared",
            Space::Local => ".local",
            Space::Param => ".param",
            Space::Reg => ".reg",
        }
    }
}

/// A declaration or directive at module scope.
#[derive(Debug, PartialEq)]
pub enum Item<'s> {
    Variable(Variable),
    Function(Box<Function<'s>>),
    File(File<'s>),
    Section(Section<'s>),
    Pragma(Vec<&'s str>),
    Alias(Alias),
}

/// `.alias alias, target;`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alias {
    pub alias: Symbol,
    pub target: Symbol,
    pub span: Span,
}

/// `.extern`, `.visible`, `.weak`, `.common`; none of them: local to the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linkage {
    pub external: bool,
    pub visible: bool,
    pub weak: bool,
    pub common: bool,
}

/// A declaration of one variable, or of a range of them.
#[derive(Debug, PartialEq)]
pub struct Variable {
    pub linkage: Linkage,
    /// The first of `range` symbols.
    pub symbol: Symbol,
    /// `Some(n)` for `name<n>`, which declares name0 … name(n-1).
    pub range: Option<u32>,
    pub space: Space,
    pub align: Option<u32>,
    pub attributes: Vec<Attribute>,
    pub ty: Type,
    /// 1 for a scalar.
    pub vector: u8,
    /// One entry per `[n]`; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    pub init: Option<Initialiser>,
    pub span: Span,
}

/// `.ptr .global .align 16` or `.ptr .texref` of an entry parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptr {
    pub space: Option<Space>,
    /// What it points to, if that is a texture, a sampler or a surface.
    pub opaque: Option<Type>,
    pub align: Option<u32>,
}

/// `.attribute(…)` of a variable or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    Managed,
    Unified(u64, u64),
}

impl Attribute {
    /// The name in the parentheses.
    pub fn word(&self) -> &'static str {
        match self {
            Attribute::Managed => ".managed",
            Attribute::Unified(..) => ".unified",
        }
    }
}

/// What a variable holds at first; floats are bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Initialiser {
    Int(u64),
    F32(u32),
    F64(u64),
    /// Address of a symbol plus an offset; `generic(x)`; `0xFF0000(x)` keeps a byte of it.
    Address {
        symbol: Symbol,
        offset: i64,
        generic: bool,
        mask: Option<u64>,
    },
    List(Vec<Initialiser>),
    /// `{width = 16, filter_mode = linear}` of a texture, sampler or surface.
    Fields(Vec<(Name, FieldValue)>),
}

/// The value of a field of a texture or sampler variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    Int(u64),
    F64(u64),
    Word(Name),
}

/// `.entry` or `.func`.
#[derive(Debug, PartialEq)]
pub struct Function<'s> {
    pub entry: bool,
    pub linkage: Linkage,
    pub symbol: Symbol,
    pub attributes: Vec<Attribute>,
    pub returns: Vec<Param>,
    pub params: Vec<Param>,
    pub directives: Vec<FunctionDirective<'s>>,
    /// `None` for a declaration.
    pub body: Option<Body<'s>>,
    pub span: Span,
}

/// A formal parameter: `.param` memory, or a register of a `.func`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub place: ParamPlace,
    pub name: Option<Name>,
    pub ty: Type,
    pub vector: u8,
    pub align: Option<u32>,
    pub dims: Vec<Option<u64>>,
    pub ptr: Option<Ptr>,
    pub span: Span,
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamPlace {
    Memory(Symbol),
    Register(Reg),
}

impl Param {
    /// Bytes that the parameter takes.
    pub fn bytes(&self) -> u64 {
        let element = u64::from(self.ty.bytes()) * u64::from(self.vector);
        self.dims.iter().fold(element, |n, d| n.saturating_mul(d.unwrap_or(0)))
    }

    /// The alignment that it has.
    pub fn alignment(&self) -> u64 {
        alignment(self.ty, self.vector, self.align)
    }
}

/// The alignment of a variable: that of its (vector) type, or what is written if that is more.
pub fn alignment(ty: Type, vector: u8, written: Option<u32>) -> u64 {
    // A predicate as a parameter counts as a word.
    let element = if ty == Type::PRED { 4 } else { u64::from(ty.bytes()) };
    (element * u64::from(vector)).max(written.map_or(1, u64::from)).max(1)
}

/// `.maxntid 256, 1, 1`, `.noreturn`, `.pragma "nounroll"`, …
#[derive(Debug, PartialEq)]
pub struct FunctionDirective<'s> {
    /// With its dot.
    pub name: &'s str,
    pub values: Vec<u64>,
    pub strings: Vec<&'s str>,
    pub span: Span,
}

/// What is between the braces of a function, scopes flattened; statements index the arena of operands.
#[derive(Debug, Default, PartialEq)]
pub struct Body<'s> {
    pub stmts: Vec<Stmt<'s>>,
    pub operands: Vec<Operand>,
    /// Declarations in order; a register's number is `first` of its declaration plus its index in it.
    pub regs: Vec<RegDecl>,
}

/// One register of a `.reg` statement, or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegDecl {
    /// The whole name, or what stands before `<` of a range.
    pub name: Name,
    pub ty: Type,
    pub vector: u8,
    /// `Some(n)` for `name<n>`.
    pub range: Option<u32>,
    pub first: Reg,
}

impl Body<'_> {
    /// The declaration of a register and its index in that declaration.
    pub fn reg_decl(&self, reg: Reg) -> (&RegDecl, u32) {
        let i = self.regs.partition_point(|d| d.first <= reg).saturating_sub(1);
        let decl = &self.regs[i];
        (decl, reg.0.saturating_sub(decl.first.0))
    }

    /// The operands behind a range.
    pub fn list(&self, range: Range) -> &[Operand] {
        self.operands.get(range.first as usize..(range.first + range.len) as usize).unwrap_or(&[])
    }
}

/// A run of the operand arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: u32,
    pub len: u32,
}

/// A statement of a function body.
#[derive(Debug, PartialEq)]
pub enum Stmt<'s> {
    Inst(Inst),
    Label(Symbol, Span),
    /// A run of [`Body::regs`] that one `.reg` statement declares.
    Regs(Range),
    Variable(Box<Variable>),
    Open,
    Close,
    Loc(Box<Loc>),
    Pragma(Box<Vec<&'s str>>),
    /// `L: .branchtargets a, b;` or `L: .calltargets f, g;`
    Targets(Box<Targets>),
    /// `P: .callprototype (…) _ (…);`
    Prototype(Box<Prototype<'s>>),
    /// A declaration of a function: it belongs to the module.
    Function(Box<Function<'s>>),
    Alias(Box<Alias>),
}

/// An instruction: what depends on the spelling of its opcode alone is in [`Module::opcodes`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inst {
    pub opcode: OpcodeId,
    pub guard: Option<Guard>,
    pub operands: Range,
    pub span: Span,
}

/// `@%p`, `@!%p`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    pub predicate: Predicate,
    pub negated: bool,
}

/// What a guard reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predicate {
    Reg(Reg),
    /// `%is_explicit_cluster`: a row of [`crate::sreg::TABLE`].
    Special(u16),
}

impl Guard {
    /// The register that it reads, unless that is a special one.
    pub fn reg(self) -> Option<Reg> {
        match self.predicate {
            Predicate::Reg(reg) => Some(reg),
            Predicate::Special(_) => None,
        }
    }
}

/// An operand; those with parts name a run of [`Body::operands`]. Floats are bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    Reg(Reg),
    /// `!%p`
    Not(Reg),
    /// `-%r`, of the video instructions.
    Negated(Reg),
    /// `%v.x`, or `%r.b0`, `%r.h1`, … of the video instructions; `-` before it.
    Part {
        reg: Reg,
        part: Part,
        negated: bool,
    },
    /// A special register: row of [`crate::sreg::TABLE`] and component (0 to 3 for `.x .y .z .w`).
    Special {
        row: u16,
        component: Option<u8>,
    },
    /// An integer constant with its sign extended to 64 bits; `unsigned` when the literal says so.
    Int {
        value: u64,
        unsigned: bool,
    },
    F32(u32),
    F64(u64),
    /// A variable, function or label.
    Symbol(Symbol),
    /// What follows the base of an address, or `variable + 4`.
    Offset(i64),
    /// Base and [`Operand::Offset`] of `variable + 4` outside brackets.
    Sum(Range),
    /// `variable[2]`, `variable[%r1 + 2]`: base and index, scaled by the size of an element; what is added to it.
    Element(Range),
    /// `[base + offset, more…]`
    Address(Range),
    /// `{a, b, c}`
    Vector(Range),
    /// `(a, b)` of a call.
    List(Range),
    /// `%p | %q`
    Pair(Range),
    /// `_`
    Sink,
    /// A name that is not known (yet): a label further down, or an error at the end of the function.
    Unresolved(Name),
}

/// A component or selector after a register, as it is written: `.x`, `.h10`, `.b7654`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part([u8; 6]);

/// The elements of a vector; `.r .g .b .a` mean the same.
pub const ELEMENTS: [&str; 4] = [".x", ".y", ".z", ".w"];

impl Part {
    /// A selector that there isn't: no instruction takes it.
    pub const UNKNOWN: Part = Part(*b".?\0\0\0\0");

    /// `.x .y .z .w`, `.r .g .b .a`, or the letter and digits of a video selector. ptxas takes `.b1024` for a type.
    pub fn find(text: &str) -> Option<Part> {
        let mut bytes = [0; 6];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let digits = |last: u8| bytes[2..].iter().all(|b| *b == 0 || (b'0'..=last).contains(b));
        let known = match bytes[..2] {
            [b'.', b'b'] => digits(b'7') && text != ".b1024",
            [b'.', b'h'] => digits(b'3'),
            [b'.', b'x' | b'y' | b'z' | b'w' | b'r' | b'g' | b'a'] => digits(0),
            _ => false,
        };
        known.then_some(Part(bytes))
    }

    /// As it is written, with its dot.
    pub fn text(&self) -> &str {
        let len = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..len]).unwrap_or("")
    }

    /// The element of a vector that `.x` … `.a` names.
    pub fn element(self) -> Option<u8> {
        let place = |names: [&str; 4]| names.iter().position(|n| *n == self.text());
        place(ELEMENTS).or(place([".r", ".g", ".b", ".a"])).map(|i| i as u8)
    }

    /// Is it this selector, where `X` stands for any digit?
    pub fn fits(self, pattern: &str) -> bool {
        let text = self.text();
        text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(|(b, p)| b == p || p == b'X')
    }
}

/// `.loc file line column`
#[derive(Clone, Debug, PartialEq)]
pub struct Loc {
    pub file: u32,
    pub line: u32,
    pub column: u32,
    /// `function_name label+offset, inlined_at file line column`
    pub inlined: Option<Inlined>,
    pub span: Span,
}

/// Where the code of a `.loc` was inlined.
#[derive(Clone, Debug, PartialEq)]
pub struct Inlined {
    pub function: Name,
    pub offset: i64,
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// `.file index "path"`
#[derive(Debug, PartialEq)]
pub struct File<'s> {
    pub index: u32,
    /// With its quotes.
    pub path: &'s str,
    /// Time and size, if they are there.
    pub stamp: Vec<u64>,
}

/// A DWARF section, kept as it is written.
#[derive(Debug, PartialEq)]
pub struct Section<'s> {
    pub name: &'s str,
    pub lines: Vec<SectionLine<'s>>,
}

/// A line of a DWARF section.
#[derive(Debug, PartialEq)]
pub enum SectionLine<'s> {
    Label(&'s str),
    /// `.b8 1, 2`, `.b32 .debug_abbrev`, `.b64 $L1 + 4`, `.b32 $a - $b`: the type and the written values.
    Data(Type, Vec<&'s str>),
}

/// `label: .branchtargets …;` or `label: .calltargets …;`
#[derive(Debug, PartialEq)]
pub struct Targets {
    pub label: Symbol,
    /// `.branchtargets` or `.calltargets`.
    pub calls: bool,
    pub targets: Range,
    pub span: Span,
}

/// `label: .callprototype …;`
#[derive(Debug, PartialEq)]
pub struct Prototype<'s> {
    pub label: Symbol,
    pub returns: Vec<Param>,
    pub params: Vec<Param>,
    pub directives: Vec<FunctionDirective<'s>>,
    pub span: Span,
}
