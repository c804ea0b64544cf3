//! Variables: what may be declared where, and what a second declaration may say.
//!
//! A declaration is words for storage and alignment in any order, a type, and declarators. ptxas looks at a
//! declarator once it has read the token behind it, so that is where its messages point to. The order of the
//! checks is the order of the messages, found with declarations that are wrong in two ways at once.

use super::*;
use crate::types::{Class, Type};

/// Where a declaration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Module,
    Body,
    /// A parameter of a function that has a body.
    EntryParam,
    FuncParam,
}

/// What a declaration says before its declarators: `.global .align 8 .v2 .f32`.
pub(super) struct Spec {
    pub space: Option<Space>,
    pub align: Option<u32>,
    pub attributes: Vec<Attribute>,
    pub vector: u8,
    pub ty: Type,
}

/// What can be declared with a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declarable {
    /// Everything: scalars, vectors, arrays, parameters.
    Basic,
    /// Scalars and arrays; vectors too if the flag is set.
    Packed { vectors: bool },
    /// Arrays alone.
    InstructionOnly,
    /// `.texref`, `.samplerref`, `.surfref`.
    Opaque,
}

/// Types that are not basic but can be named in a declaration.
const PACKED: &[(&str, Declarable)] = &[
    ("f16x2", Declarable::Packed { vectors: true }),
    ("e2m3x4", Declarable::Packed { vectors: false }),
    ("e3m2x4", Declarable::Packed { vectors: false }),
    ("e2m1x4", Declarable::Packed { vectors: false }),
    ("f32x2", Declarable::InstructionOnly),
    ("u16x2", Declarable::InstructionOnly),
    ("s16x2", Declarable::InstructionOnly),
    ("e4m3", Declarable::InstructionOnly),
    ("e5m2", Declarable::InstructionOnly),
    ("e4m3x2", Declarable::InstructionOnly),
    ("e5m2x2", Declarable::InstructionOnly),
    ("e2m3x2", Declarable::InstructionOnly),
    ("e3m2x2", Declarable::InstructionOnly),
    ("e2m1x2", Declarable::InstructionOnly),
    ("e4m3x4", Declarable::InstructionOnly),
    ("e5m2x4", Declarable::InstructionOnly),
    ("ue8m0x2", Declarable::InstructionOnly),
];

/// `None` for words that are no type to a declaration: `.bf16`, `.tf32`, `.b1024`, ….
fn declarable(ty: Type) -> Option<Declarable> {
    match ty.class() {
        Class::Opaque => Some(Declarable::Opaque),
        Class::Packed => PACKED.iter().find(|(name, _)| *name == ty.name()).map(|(_, kind)| *kind),
        _ if ty.bits() > 128 => None,
        _ => Some(Declarable::Basic),
    }
}

/// The type that a dotted word names in a declaration.
pub(super) fn declared_type(word: &str) -> Option<Type> {
    let ty = Type::find(word.strip_prefix('.')?)?;
    declarable(ty).map(|_| ty)
}

pub(super) fn space(word: &str) -> Option<Space> {
    const SPACES: [Space; 6] =
        [Space::Global, Space::Const, Space::Shared, Space::Local, Space::Param, Space::Reg];
    SPACES.into_iter().find(|s| s.text() == word)
}

/// A declared thing, as far as the checks look at it.
pub(super) struct Checked<'a, 's> {
    pub name: &'s str,
    pub scope: Scope,
    pub linkage: Linkage,
    pub space: Space,
    pub ty: Type,
    pub vector: u8,
    pub dims: &'a [Option<u64>],
    pub align: Option<u32>,
    pub attributes: &'a [Attribute],
    pub init: bool,
}

impl Checked<'_, '_> {
    /// Neither vector nor array.
    fn scalar(&self) -> bool {
        self.vector == 1 && self.dims.is_empty()
    }

    fn opaque(&self) -> bool {
        self.ty.class() == Class::Opaque && self.vector == 1
    }

    /// What is wrong with the type, whatever the storage.
    fn type_errors(&self) -> Vec<String> {
        let pred = self.ty == Type::PRED && !self.scalar();
        let instruction = self.scalar() && declarable(self.ty) == Some(Declarable::InstructionOnly);
        let inner = self.dims.iter().skip(1).any(|d| *d == Some(0));
        let mut errors = Errors::default();
        errors.check(pred, || "Predicate type can only be used to define scalar register variables".into());
        errors.check(instruction, || format!("Type {:?} may only be used as an instruction type", self.ty));
        errors.check(inner, || "Array of incomplete type".into());
        errors.0
    }

    /// What is wrong with the storage, in ptxas's order. `unified`: one texture mode for all samplers.
    fn storage_errors(&self, unified: bool) -> Vec<String> {
        let mut errors = Errors::default();
        self.type_and_space(unified, &mut errors);
        self.size(&mut errors);
        self.linkage_and_scope(&mut errors);
        errors.0
    }

    /// Which types the state space takes.
    fn type_and_space(&self, unified: bool, errors: &mut Errors) {
        let Checked { name, scope, space, .. } = *self;
        let opaque = self.opaque();
        let not_basic = declarable(self.ty) != Some(Declarable::Basic);
        let packed_param =
            self.dims.is_empty() && (self.vector > 1 || not_basic && (!opaque || scope == Scope::FuncParam));
        let texture_space = matches!(space, Space::Global | Space::Param);
        errors.check(opaque && scope == Scope::Body, || {
            "Texture/surface variable must be at module or entry parameter scope".into()
        });
        errors.check(self.ty == Type::PRED && self.scalar() && space != Space::Reg, || {
            format!("Predicate variable '{name}' must be in register state space")
        });
        errors.check(space == Space::Reg && (opaque || !self.dims.is_empty()), || {
            format!("Variable '{name}' cannot be allocated into a register")
        });
        errors.check(space == Space::Param && packed_param, || {
            format!("Variable '{name}' cannot be allocated in .param state space")
        });
        errors.check(opaque && self.scalar() && scope == Scope::Module && !texture_space, || {
            "Texture and surface variables must be declared in .global space".into()
        });
        errors.check(unified && opaque && self.scalar() && self.ty.name() == "samplerref", || {
            "Instruction or declaration violates .target texmode_unified setting".into()
        });
    }

    /// Alignment and number of elements.
    fn size(&self, errors: &mut Errors) {
        let Checked { name, scope, space, linkage, .. } = *self;
        let limited = space == Space::Param && !matches!(scope, Scope::EntryParam | Scope::Module);
        let unsized_ok =
            linkage.external || self.init || matches!(scope, Scope::FuncParam | Scope::EntryParam);
        errors.check(limited && self.align.is_some_and(|a| a > 128), || {
            format!(
                "Parameter '{name}' has illegal alignment (must be aligned to 1, 2, 4, 8, 16, 32, 64, or 128 bytes)"
            )
        });
        errors.check(incomplete(self.dims) && !unsized_ok, || {
            format!("Non-external variable '{name}' has incomplete type")
        });
    }

    fn linkage_and_scope(&self, errors: &mut Errors) {
        let Checked { name, scope, space, linkage, .. } = *self;
        for attribute in self.attributes {
            let word = attribute.word();
            errors
                .check(space != Space::Global, || format!("Illegal attribute '{word}' for symbol '{name}'"));
        }
        errors.check(linkage.common && space != Space::Global, || {
            ".common variables must be declared in .global space".into()
        });
        errors.check(linkage.common && self.opaque(), || "Illegal type for .common symbol".into());
        errors.check(scope == Scope::Module && matches!(space, Space::Reg | Space::Local), || {
            let space = space.text();
            format!("Module-scoped variables in {space} state space are not allowed with ABI")
        });
        errors.check(scope == Scope::Module && space == Space::Param, || {
            "Parameter variables may not be declared at module scope".into()
        });
    }
}

/// Messages in the order of the checks.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    fn check(&mut self, wrong: bool, text: impl FnOnce() -> String) {
        if wrong {
            self.0.push(text());
        }
    }
}

/// An array whose first dimension isn't said.
pub(super) fn incomplete(dims: &[Option<u64>]) -> bool {
    matches!(dims.first(), Some(None | Some(0)))
}

/// The kind of symbol that a variable in memory is.
pub(super) fn variable_kind(
    space: Space,
    ty: Type,
    vector: u8,
    align: Option<u32>,
    dims: &[Option<u64>],
) -> SymbolKind {
    let element = u64::from(ty.bytes()) * u64::from(vector);
    let bytes = dims.iter().fold(element, |n, d| n.saturating_mul(d.unwrap_or(0)));
    let align = alignment(ty, vector, align);
    SymbolKind::Variable { space, ty, vector, bytes, align, array: !dims.is_empty() }
}

/// Each member of a range in memory is a symbol; this many are enough for any program, and fit into memory.
const MOST_SYMBOLS: u64 = 1 << 20;

/// The parts of a declarator: `name`, `name<4>`, `name[2][3] = {…}`.
struct Declarator {
    name: Name,
    span: Span,
    range: Option<u32>,
    dims: Vec<Option<u64>>,
    init: Option<Initialiser>,
}

impl<'s> Parser<'s> {
    /// A declaration of variables, to its semicolon. The linkage has been read.
    pub(super) fn variables(&mut self, linkage: Linkage, scope: Scope) -> Parse<Vec<Variable>> {
        let mut spec = self.spec()?;
        let mut variables = Vec::new();
        if self.eat(b';') {
            return Ok(variables);
        }
        let first_decl = self.body.regs.len() as u32;
        loop {
            let declarator = self.declarator(&spec)?;
            if !self.tok.is(b',') && !self.tok.is(b';') {
                return self.syntax_error();
            }
            let Some(space) = spec.space else {
                return self.fatal(self.tok.span(), "No variable storage specified");
            };
            variables.extend(self.declare_one(declarator, linkage, scope, space, &mut spec)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        let len = self.body.regs.len() as u32 - first_decl;
        if len > 0 {
            self.add_statement(Stmt::Regs(Range { first: first_decl, len }));
        }
        Ok(variables)
    }

    /// Storage, alignment and attributes in any order, then the type.
    pub(super) fn spec(&mut self) -> Parse<Spec> {
        let (mut storage, mut align, mut attributes) = (None, None, Vec::new());
        loop {
            match self.dot() {
                ".align" => align = Some(self.align()?),
                ".attribute" => attributes.extend(self.attributes(true)?),
                word => {
                    let Some(found) = space(word) else { break };
                    let token = self.bump();
                    if storage.is_some() {
                        self.error(token.span(), "Multiple state spaces specified");
                    }
                    storage = storage.or(Some(found));
                    if found == Space::Const && self.tok.is(b'[') {
                        self.constant_bank()?;
                    }
                }
            }
        }
        let vector = match self.dot() {
            ".v2" => 2,
            ".v4" => 4,
            _ => 1,
        };
        if vector > 1 {
            self.advance();
        }
        let Some(ty) = declared_type(self.dot()) else { return self.syntax_error() };
        let token = self.bump();
        if ty.name() == "f16x2" {
            self.gate(".f16x2 packed data-type", Version::FIRST, 53, token.span());
            self.gate(".f16x2 packed data-type", Version::new(4, 2), 0, token.span());
        }
        if ty.class() == Class::Opaque {
            self.gate("opaque type", Version::new(1, 5), 0, token.span());
        }
        self.check_vector(ty, vector, token.span());
        Ok(Spec { space: storage, align, attributes, vector, ty })
    }

    fn check_vector(&mut self, ty: Type, vector: u8, span: Span) {
        if vector == 1 || ty == Type::PRED {
            return;
        }
        let kind = declarable(ty);
        if !matches!(kind, Some(Declarable::Basic | Declarable::Packed { vectors: true })) {
            self.error(span, "Vector type only allowed over basic types");
        }
        // An opaque handle counts as larger than 64 bits.
        if ty.bits() * u32::from(vector) > 128 || kind == Some(Declarable::Opaque) {
            self.error(span, "Vector type too large, exceeds 128 bit limit");
        }
    }

    /// `[n]` after `.const`, which went away in PTX 2.2; older modules can't be read either.
    fn constant_bank(&mut self) -> Parse<()> {
        let at = self.expect(b'[')?.span();
        self.small_int()?;
        self.expect(b']')?;
        self.error(at, "Deprecated feature: 'explicit constant banks' not supported as of PTX version 2.2");
        Ok(())
    }

    pub(super) fn align(&mut self) -> Parse<u32> {
        self.advance();
        let span = self.tok.span();
        let value = self.small_int()?;
        if value.is_power_of_two() {
            return Ok(value);
        }
        self.error(span, "Alignment must be a power of two");
        Ok(1)
    }

    /// `.attribute(.managed, .unified(1, 2))`; a function can't be managed.
    pub(super) fn attributes(&mut self, variable: bool) -> Parse<Vec<Attribute>> {
        let start = self.bump().span();
        self.gate(".attribute", Version::new(4, 0), 0, start);
        self.expect(b'(')?;
        let mut attributes = Vec::new();
        loop {
            let span = self.tok.span();
            if variable && self.eat_dot(".managed") {
                self.gate(".managed", Version::new(1, 0), 30, span);
                attributes.push(Attribute::Managed);
            } else if self.eat_dot(".unified") {
                self.expect(b'(')?;
                let low = self.int()?;
                self.expect(b',')?;
                let high = self.int()?;
                self.expect(b')')?;
                self.gate(".unified", Version::new(8, 0), 90, span);
                self.module.unified = true;
                attributes.push(Attribute::Unified(low, high));
            } else {
                return self.syntax_error();
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')')?;
        Ok(attributes)
    }

    fn declarator(&mut self, spec: &Spec) -> Parse<Declarator> {
        let (name, span) = self.expect_name()?;
        if self.tok.is(b'<') {
            let range = Some(self.range_count(span)?);
            return Ok(Declarator { name, span, range, dims: Vec::new(), init: None });
        }
        let dims = self.dims()?;
        let init = if self.eat(b'=') { Some(self.initialiser(spec.ty)?) } else { None };
        Ok(Declarator { name, span, range: None, dims, init })
    }

    /// `<n>` of a range of names.
    fn range_count(&mut self, span: Span) -> Parse<u32> {
        const MOST: u32 = 1 << 24;
        self.expect(b'<')?;
        let count = self.small_int()?;
        self.expect(b'>')?;
        if count > MOST {
            return self.fatal(span, format!("A range of {count} names is too large"));
        }
        Ok(count)
    }

    /// Only the first dimension may be left open.
    fn dims(&mut self) -> Parse<Vec<Option<u64>>> {
        let mut dims = Vec::new();
        while self.tok.is(b'[') {
            dims.push(self.dim(dims.is_empty())?.0);
        }
        Ok(dims)
    }

    /// `[4]`, or `[]` where it may be open; and the bracket behind it.
    pub(super) fn dim(&mut self, may_be_open: bool) -> Parse<(Option<u64>, Span)> {
        self.expect(b'[')?;
        let size = if may_be_open && self.tok.is(b']') { None } else { Some(self.int()?) };
        Ok((size, self.expect(b']')?.span()))
    }

    fn declare_one(
        &mut self,
        declarator: Declarator,
        linkage: Linkage,
        scope: Scope,
        space: Space,
        spec: &mut Spec,
    ) -> Parse<Option<Variable>> {
        let Declarator { name, span, range, mut dims, init } = declarator;
        let Spec { align, ty, vector, .. } = *spec;
        let checked = Checked {
            name: self.names.text(name),
            scope,
            linkage,
            space,
            ty,
            vector,
            dims: &dims,
            align,
            attributes: &spec.attributes,
            init: init.is_some(),
        };
        self.check_types(&checked, self.tok.span());
        if let Some(init) = &init {
            self.check_initialiser(&checked, init)?;
        }
        self.check_storage(&checked, self.tok.span());
        if let (Some(first @ (None | Some(0))), Some(Initialiser::List(list))) = (dims.first_mut(), &init) {
            *first = Some(list.len() as u64);
        }
        if space == Space::Reg {
            self.declare_registers(name, span, range, spec, scope)?;
            return Ok(None);
        }
        let kind = variable_kind(space, ty, vector, align, &dims);
        if range.is_some_and(|n| self.symbols.len() as u64 + u64::from(n) > MOST_SYMBOLS) {
            return self.fatal(span, "Too many variables declared");
        }
        let symbol = match range {
            Some(count) => self.declare_variables(name, kind, count, span),
            None => self.declare_variable(name, kind, linkage, &dims, scope, span),
        };
        let attributes = std::mem::take(&mut spec.attributes);
        Ok(Some(Variable { linkage, symbol, range, space, align, attributes, ty, vector, dims, init, span }))
    }

    pub(super) fn check_types(&mut self, checked: &Checked, span: Span) {
        for text in checked.type_errors() {
            self.error(span, text);
        }
    }

    pub(super) fn check_storage(&mut self, checked: &Checked, span: Span) {
        if checked.ty.bits() == 128 {
            self.gate("Type .b128", Version::new(8, 3), 70, span);
        }
        for text in checked.storage_errors(!self.module.independent_textures) {
            self.error(span, text);
        }
    }

    fn declare_registers(
        &mut self,
        name: Name,
        span: Span,
        range: Option<u32>,
        spec: &Spec,
        scope: Scope,
    ) -> Parse<()> {
        if self.function.next_reg.checked_add(range.unwrap_or(1)).is_none() {
            return self.fatal(span, "Too many registers declared");
        }
        if scope == Scope::Module {
            // An error already; what is left is that the name is taken.
            let kind = variable_kind(Space::Reg, spec.ty, spec.vector, None, &[]);
            self.declare_variable(name, kind, Linkage::default(), &[], scope, span);
            return Ok(());
        }
        let first = self.add_registers(name, spec.ty, spec.vector, range);
        match range {
            Some(count) => self.declare_range(name, Meaning::Reg(first), count),
            None => self.declare(name, Meaning::Reg(first), "variable"),
        }
        Ok(())
    }

    /// `name<count>` in memory: one symbol per member.
    fn declare_variables(&mut self, name: Name, kind: SymbolKind, count: u32, span: Span) -> Symbol {
        let first = Symbol(self.symbols.len() as u32);
        for i in 0..count {
            self.symbols.push(SymbolInfo { name, member: Some(i), kind: kind.clone(), span });
        }
        self.declare_range(name, Meaning::Symbol(first), count);
        first
    }

    fn declare_range(&mut self, name: Name, first: Meaning, count: u32) {
        let text = self.names.text(name);
        match self.names.define_range(name, first, count) {
            Err(old) => {
                if self.names.at_module_scope() && self.kind_of(old) != self.kind_of(first) {
                    self.error(self.tok.span(), format!("Inconsistent redefinition of variable '{text}<'"));
                }
                self.error(self.tok.span(), format!("Duplicate definition of variable '{text}<'"));
            }
            Ok(taken) => {
                for name in taken {
                    let text = self.names.text(name);
                    self.error(self.tok.span(), format!("Duplicate definition of variable '{text}'"));
                }
            }
        }
    }

    fn kind_of(&self, meaning: Meaning) -> Option<&SymbolKind> {
        match meaning {
            Meaning::Symbol(symbol) => self.symbols.get(symbol.0 as usize).map(|s| &s.kind),
            _ => None,
        }
    }

    /// Declares a variable that isn't in a register. At module scope an `.extern` may come before or after.
    fn declare_variable(
        &mut self,
        name: Name,
        kind: SymbolKind,
        linkage: Linkage,
        dims: &[Option<u64>],
        scope: Scope,
        span: Span,
    ) -> Symbol {
        let new = Global { linkage, dims: dims.to_vec(), defined: !linkage.external };
        let symbol = self.new_symbol(name, kind, span);
        let Err(old) = self.names.define(name, Meaning::Symbol(symbol)) else {
            if scope == Scope::Module {
                self.module.globals.insert(symbol, new);
            }
            return symbol;
        };
        match (scope, old) {
            (Scope::Module, Meaning::Symbol(old)) => self.redeclare_variable(name, old, symbol, new),
            _ => {
                let text = self.names.text(name);
                self.error(self.tok.span(), format!("Duplicate definition of variable '{text}'"));
                symbol
            }
        }
    }

    /// The symbol that both declarations share, if they go together.
    fn redeclare_variable(&mut self, name: Name, old: Symbol, new: Symbol, global: Global) -> Symbol {
        let text = self.names.text(name);
        let span = self.tok.span();
        let Some(before) = self.module.globals.get(&old).cloned() else {
            if !self.signatures.contains_key(&old) {
                // A member of a range.
                self.error(span, format!("Duplicate definition of variable '{text}'"));
                return new;
            }
            let before = self.signatures.get(&old).map(|s| s.linkage).unwrap_or_default();
            self.error(span, format!("Inconsistent redefinition of variable '{text}'"));
            self.duplicate_variable(text, before, global.linkage, !before.external);
            return new;
        };
        if !self.same_variable(old, &before, new, &global) {
            self.error(span, format!("Inconsistent redefinition of variable '{text}'"));
        }
        self.duplicate_variable(text, before.linkage, global.linkage, before.defined);
        let definition = global.defined && !before.defined;
        let kept = if definition { global } else { before };
        if let Some(info) = self.symbols.pop()
            && definition
            && let Some(shared) = self.symbols.get_mut(old.0 as usize)
        {
            shared.kind = info.kind;
        }
        self.module.globals.insert(old, kept);
        old
    }

    fn duplicate_variable(&mut self, text: &str, old: Linkage, new: Linkage, defined: bool) {
        let span = self.tok.span();
        if !new.external && defined {
            self.error(span, format!("Duplicate definition of variable '{text}'"));
        } else if old.external && new == Linkage::default() {
            self.error(span, format!("'.extern' variable '{text}' cannot be resolved by a '.static'"));
        }
    }

    /// The same type and the same dimensions, where both say them. The state space doesn't matter.
    fn same_variable(&self, old: Symbol, before: &Global, new: Symbol, global: &Global) -> bool {
        let shape = |s: Symbol| match self.symbols.get(s.0 as usize).map(|s| &s.kind) {
            Some(SymbolKind::Variable { ty, vector, .. }) => Some((*ty, *vector)),
            _ => None,
        };
        let dims = before.dims.len() == global.dims.len()
            && before.dims.iter().zip(&global.dims).all(|(a, b)| a == b || a.is_none() || b.is_none());
        shape(old) == shape(new) && dims
    }
}

/// What later declarations of a module variable are compared with.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    linkage: Linkage,
    dims: Vec<Option<u64>>,
    defined: bool,
}

impl Global {
    pub fn is_defined(&self) -> bool {
        self.defined
    }
}
