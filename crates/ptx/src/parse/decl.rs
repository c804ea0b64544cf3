//! Declarations: variables, functions, parameters, registers, initialisers.

use super::*;
use crate::types::{Class, Type};

/// What a call or a second declaration of a function is compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signature {
    pub returns: Vec<Formal>,
    pub params: Vec<Formal>,
    /// The names of returns, then of params, for messages.
    pub names: Vec<Option<Name>>,
    pub entry: bool,
    pub defined: bool,
    pub external: bool,
}

impl Signature {
    pub fn of(returns: &[Param], params: &[Param]) -> Signature {
        Signature {
            returns: returns.iter().map(Formal::of).collect(),
            params: params.iter().map(Formal::of).collect(),
            names: returns.iter().chain(params).map(|p| p.name).collect(),
            ..Signature::default()
        }
    }
}

/// What matters of a parameter to callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Formal {
    pub ty: Type,
    pub bytes: u64,
    pub align: u64,
    pub memory: bool,
    pub vector: u8,
    pub array: bool,
}

impl Formal {
    fn of(param: &Param) -> Formal {
        Formal {
            ty: param.ty,
            bytes: param.bytes(),
            align: param.alignment(),
            memory: matches!(param.place, ParamPlace::Memory(_)),
            vector: param.vector,
            array: !param.dims.is_empty(),
        }
    }
}

/// The type part of a declaration: `.align 8 .v2 .f32` and attributes.
struct TypeSpec<'s> {
    align: Option<u32>,
    attributes: Vec<Attribute<'s>>,
    vector: u8,
    ty: Type,
    ptr: Option<Ptr>,
}

fn space(word: &str) -> Option<Space> {
    Some(match word {
        ".global" => Space::Global,
        ".const" => Space::Const,
        ".shared" | ".shared::cta" => Space::Shared,
        ".local" => Space::Local,
        ".param" => Space::Param,
        _ => return None,
    })
}

impl<'s> Parser<'s> {
    /// A variable or function at module scope.
    pub(super) fn declaration(&mut self, items: &mut Vec<Item<'s>>) -> Parse<()> {
        let start = self.tok.span();
        let linkage = self.linkage();
        match self.dot() {
            ".entry" | ".func" => {
                let function = self.function(linkage, start)?;
                items.push(Item::Function(Box::new(function)));
            }
            word => {
                let Some(space) = space(word) else { return self.syntax_error() };
                self.bump();
                let variables = self.variables(linkage, space)?;
                items.extend(variables.into_iter().map(Item::Variable));
            }
        }
        Ok(())
    }

    fn linkage(&mut self) -> Linkage {
        let mut linkage = Linkage::default();
        loop {
            match self.dot() {
                ".extern" => linkage.external = true,
                ".visible" => linkage.visible = true,
                ".weak" => linkage.weak = true,
                ".common" => linkage.common = true,
                _ => return linkage,
            }
            self.bump();
        }
    }

    /// What follows the state space of a variable declaration, to the semicolon.
    pub(super) fn variables(&mut self, linkage: Linkage, space: Space) -> Parse<Vec<Variable<'s>>> {
        let mut spec = self.type_spec()?;
        let mut variables = Vec::new();
        loop {
            variables.push(self.variable(linkage, space, &mut spec)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        Ok(variables)
    }

    fn variable(&mut self, linkage: Linkage, space: Space, spec: &mut TypeSpec<'s>) -> Parse<Variable<'s>> {
        let (name, span) = self.expect_name()?;
        let range = if self.tok.is(b'<') { Some(self.range_count(span)?) } else { None };
        let mut dims = self.dims()?;
        let init_at = self.tok.span();
        let init = if self.eat(b'=') { Some(self.initialiser(0)?) } else { None };
        if let (Some(first @ None), Some(Initialiser::List(list))) = (dims.first_mut(), &init) {
            *first = Some(list.len() as u64);
        }
        if init.is_some() && !matches!(space, Space::Global | Space::Const) {
            self.error(init_at, "Initialization of variable in this state space is not allowed");
        }
        let &mut TypeSpec { align, ty, vector, ptr, .. } = spec;
        let element = u64::from(ty.bytes()) * u64::from(vector);
        let bytes = dims.iter().fold(element, |n, d| n.saturating_mul(d.unwrap_or(0)));
        let array = !dims.is_empty();
        let kind =
            SymbolKind::Variable { space, ty, vector, bytes, align: alignment(ty, vector, align), array };
        let symbol = Symbol(self.symbols.len() as u32);
        for i in 0..range.unwrap_or(1) {
            let member = range.map(|_| i);
            self.symbols.push(SymbolInfo { name, member, kind: kind.clone(), span });
        }
        match range {
            Some(count) => self.declare_range(name, Meaning::Symbol(symbol), count, span),
            None => self.declare_variable(name, symbol, linkage, span),
        }
        let attributes = std::mem::take(&mut spec.attributes);
        Ok(Variable { linkage, symbol, range, space, align, attributes, ty, vector, dims, init, ptr, span })
    }

    /// `<n>` of a range of names.
    fn range_count(&mut self, span: Span) -> Parse<u32> {
        const MOST: u32 = 1 << 20;
        self.expect(b'<')?;
        let count = self.small_int()?;
        self.expect(b'>')?;
        if count > MOST {
            return self.fatal(span, format!("A range of {count} names is too large"));
        }
        Ok(count)
    }

    fn declare_range(&mut self, name: Name, first: Meaning, count: u32, span: Span) {
        if self.names.define_range(name, first, count).is_err() {
            let text = self.names.text(name);
            self.error(span, format!("Duplicate definition of variable '{text}<'"));
        }
    }

    /// A variable may be declared again after an `.extern` or another declaration of the same kind.
    fn declare_variable(&mut self, name: Name, symbol: Symbol, linkage: Linkage, span: Span) {
        let Err(old) = self.names.define(name, Meaning::Symbol(symbol)) else { return };
        let text = self.names.text(name);
        let same = match old {
            Meaning::Symbol(old) => {
                self.symbols.get(old.0 as usize).map(|s| &s.kind) == self.symbols.last().map(|s| &s.kind)
            }
            _ => false,
        };
        if same && (linkage.external || linkage.weak || linkage.common) {
            return;
        }
        self.error(span, format!("Duplicate definition of variable '{text}'"));
    }

    fn type_spec(&mut self) -> Parse<TypeSpec<'s>> {
        let (mut align, mut vector, mut attributes) = (None, 1, Vec::new());
        loop {
            let word = self.dot();
            match word {
                ".align" => align = Some(self.align()?),
                ".attribute" => attributes = self.attributes()?,
                ".v2" | ".v4" | ".v8" => {
                    vector = word.as_bytes()[2] - b'0';
                    self.bump();
                }
                _ => {
                    let Some(ty) = word.strip_prefix('.').and_then(Type::find) else {
                        return self.syntax_error();
                    };
                    let token = self.bump();
                    self.check_storable(ty, token.span());
                    let ptr = self.ptr()?;
                    if self.dot() == ".align" {
                        align = Some(self.align()?);
                    }
                    return Ok(TypeSpec { align, attributes, vector, ty, ptr });
                }
            }
        }
    }

    fn check_storable(&mut self, ty: Type, span: Span) {
        if ty.class() == Class::Packed && !matches!(ty.name(), "f16x2") {
            self.error(span, format!("Type '{ty:?}' is not allowed in a declaration"));
        }
    }

    fn align(&mut self) -> Parse<u32> {
        let start = self.bump();
        let value = self.small_int()?;
        if !value.is_power_of_two() {
            self.error(start.span(), "Alignment must be a power of two");
            return Ok(1);
        }
        Ok(value)
    }

    fn ptr(&mut self) -> Parse<Option<Ptr>> {
        if !self.eat_dot(".ptr") {
            return Ok(None);
        }
        let space = space(self.dot());
        if space.is_some() {
            self.bump();
        }
        let align = if self.dot() == ".align" { Some(self.align()?) } else { None };
        Ok(Some(Ptr { space, align }))
    }

    fn attributes(&mut self) -> Parse<Vec<Attribute<'s>>> {
        self.bump();
        self.expect(b'(')?;
        let mut attributes = Vec::new();
        loop {
            let word = self.dot();
            if word.is_empty() {
                return self.syntax_error();
            }
            self.bump();
            attributes.push(match word {
                ".managed" => Attribute::Managed,
                ".unified" => {
                    self.expect(b'(')?;
                    let low = self.int()?;
                    self.expect(b',')?;
                    let high = self.int()?;
                    self.expect(b')')?;
                    Attribute::Unified(low, high)
                }
                other => Attribute::Other(other),
            });
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')')?;
        Ok(attributes)
    }

    fn dims(&mut self) -> Parse<Vec<Option<u64>>> {
        let mut dims = Vec::new();
        while self.eat(b'[') {
            if self.eat(b']') {
                dims.push(None);
                continue;
            }
            let at = self.tok.span();
            match self.constant()? {
                expr::Value::Int { value, .. } => dims.push(Some(value)),
                _ => {
                    self.error(at, "Array dimension must be an integer");
                    dims.push(Some(0));
                }
            }
            self.expect(b']')?;
        }
        Ok(dims)
    }

    fn initialiser(&mut self, depth: u32) -> Parse<Initialiser> {
        if depth > 32 {
            return self.fatal(self.tok.span(), "Initialiser is nested too deeply");
        }
        if self.eat(b'{') {
            let mut list = Vec::new();
            if self.eat(b'}') {
                return Ok(Initialiser::List(list));
            }
            loop {
                list.push(self.initialiser(depth + 1)?);
                if !self.eat(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
            return Ok(Initialiser::List(list));
        }
        if self.tok.kind == TokenKind::Ident && self.text(self.tok) != "WARP_SZ" {
            return self.address_initialiser(None);
        }
        let value = self.constant()?;
        if let expr::Value::Int { value, .. } = value
            && self.tok.is(b'(')
        {
            return self.address_initialiser(Some(value));
        }
        Ok(match value {
            expr::Value::Int { value, .. } => Initialiser::Int(value),
            expr::Value::F32(bits) => Initialiser::F32(bits),
            expr::Value::F64(bits) => Initialiser::F64(bits),
        })
    }

    /// `name`, `name + 4`, `generic(name)`, `generic(name) + 4`, `0xff(name)`.
    fn address_initialiser(&mut self, mask: Option<u64>) -> Parse<Initialiser> {
        let mut generic = false;
        let mut closing = u32::from(mask.is_some());
        if mask.is_some() {
            self.expect(b'(')?;
        }
        let (mut name, mut span) = self.expect_name()?;
        if self.names.text(name) == "generic" && self.tok.is(b'(') {
            self.bump();
            generic = true;
            closing += 1;
            (name, span) = self.expect_name()?;
        }
        let mut offset = self.address_offset()?;
        for _ in 0..closing {
            self.expect(b')')?;
        }
        offset = offset.wrapping_add(self.address_offset()?);
        let symbol = match self.names.lookup(name) {
            Meaning::Symbol(symbol) => symbol,
            _ => {
                let text = self.names.text(name);
                self.error(span, format!("Unknown symbol '{text}'"));
                Symbol::UNKNOWN
            }
        };
        Ok(Initialiser::Address { symbol, offset, generic, mask })
    }

    fn address_offset(&mut self) -> Parse<i64> {
        if !self.tok.is(b'+') && !self.tok.is(b'-') {
            return Ok(0);
        }
        let negative = self.bump().start;
        let negative = self.source.as_bytes()[negative as usize] == b'-';
        match self.constant()? {
            expr::Value::Int { value, .. } if negative => Ok((value as i64).wrapping_neg()),
            expr::Value::Int { value, .. } => Ok(value as i64),
            _ => Ok(0),
        }
    }

    fn function(&mut self, linkage: Linkage, start: Span) -> Parse<Function<'s>> {
        let entry = self.eat_dot(".entry") || !self.eat_dot(".func");
        let attributes = if self.dot() == ".attribute" { self.attributes()? } else { Vec::new() };
        self.function = FunctionState::default();
        self.body = Body::default();
        self.names.open();
        let result = self.function_inside(entry, linkage, attributes, start);
        self.names.close();
        let (name, span, function) = result?;
        let mut function = function;
        function.symbol = self.declare_function(name, span, &function);
        Ok(function)
    }

    fn function_inside(
        &mut self,
        entry: bool,
        linkage: Linkage,
        attributes: Vec<Attribute<'s>>,
        start: Span,
    ) -> Parse<(Name, Span, Function<'s>)> {
        let returns = if self.tok.is(b'(') { self.params()? } else { Vec::new() };
        let (name, span) = self.expect_name()?;
        let params = if self.tok.is(b'(') { self.params()? } else { Vec::new() };
        let directives = self.function_directives()?;
        self.check_directives(&directives);
        let mut function = Function {
            entry,
            linkage,
            symbol: Symbol::UNKNOWN,
            attributes,
            returns,
            params,
            directives,
            body: None,
            span: start.to(span),
        };
        if self.eat(b';') {
            return Ok((name, span, function));
        }
        self.function.formals = Formals::of(&function);
        self.expose_for_recursion(name, span, &function);
        self.function_body()?;
        function.body = Some(std::mem::take(&mut self.body));
        Ok((name, span, function))
    }

    /// A function may call itself: its name must be known inside its body, but belongs to the module.
    fn expose_for_recursion(&mut self, name: Name, span: Span, function: &Function) {
        if self.names.lookup(name) == Meaning::Nothing {
            let symbol = self.new_symbol(name, SymbolKind::Function { entry: function.entry }, span);
            self.signatures.insert(symbol, signature(function));
            let _ = self.names.define(name, Meaning::Symbol(symbol));
            self.function.own = Some(symbol);
        }
    }

    fn declare_function(&mut self, name: Name, span: Span, function: &Function) -> Symbol {
        let mut new = signature(function);
        let own = self.function.own.take();
        let old = match self.names.lookup(name) {
            Meaning::Symbol(symbol) => self.signatures.get(&symbol).cloned().map(|s| (symbol, s)),
            _ => None,
        };
        let Some((symbol, old)) = old else {
            let kind = SymbolKind::Function { entry: function.entry };
            let symbol = own.unwrap_or_else(|| self.new_symbol(name, kind, span));
            self.declare(name, Meaning::Symbol(symbol), "function", span);
            self.signatures.insert(symbol, new);
            return symbol;
        };
        let text = self.names.text(name);
        if old.defined && new.defined {
            self.error(span, format!("Duplicate definition of function '{text}'"));
        } else if old.params != new.params {
            self.error(span, format!("Inconsistent prototypes of '{text}', parameter types differ"));
        } else if old.returns != new.returns {
            self.error(span, format!("Inconsistent prototypes of '{text}', return types differ"));
        } else if old.external && new.defined {
            let message =
                format!("Function definition conflicts with '.extern' declaration for function '{text}'");
            self.error(span, message);
        }
        new.defined |= old.defined;
        self.signatures.insert(symbol, new);
        symbol
    }

    pub(super) fn params(&mut self) -> Parse<Vec<Param>> {
        self.expect(b'(')?;
        let mut params = Vec::new();
        if self.eat(b')') {
            return Ok(params);
        }
        loop {
            params.push(self.param()?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')')?;
        Ok(params)
    }

    fn param(&mut self) -> Parse<Param> {
        let memory = match self.dot() {
            ".param" => true,
            ".reg" => false,
            _ => return self.syntax_error(),
        };
        self.bump();
        let TypeSpec { align, vector, ty, ptr, .. } = self.type_spec()?;
        let (mut name, mut span) = (None, self.tok.span());
        if self.tok.kind == TokenKind::Ident {
            let (n, s) = self.expect_name()?;
            (name, span) = (Some(n), s);
        }
        let dims = self.dims()?;
        let named = name.filter(|n| self.names.text(*n) != "_");
        let element = u64::from(ty.bytes()) * u64::from(vector);
        let bytes = dims.iter().fold(element, |n, d| n.saturating_mul(d.unwrap_or(0)));
        let place = if memory {
            let (space, align, array) = (Space::Param, alignment(ty, vector, align), !dims.is_empty());
            let kind = SymbolKind::Variable { space, ty, vector, bytes, align, array };
            let symbol_name = name.unwrap_or_else(|| self.names.intern("_"));
            let symbol = self.new_symbol(symbol_name, kind, span);
            if let Some(name) = named {
                self.declare(name, Meaning::Symbol(symbol), "parameter", span);
            }
            ParamPlace::Memory(symbol)
        } else {
            ParamPlace::Register(self.new_reg(name.unwrap_or(Name(0)), ty, vector, named, span))
        };
        Ok(Param { place, name: named, ty, vector, align, dims, ptr, span })
    }

    fn new_reg(&mut self, name: Name, ty: Type, vector: u8, named: Option<Name>, span: Span) -> Reg {
        let first = Reg(self.function.next_reg);
        self.function.next_reg = first.0.saturating_add(1);
        self.body.regs.push(RegDecl { name, ty, vector, range: None, first });
        if let Some(name) = named {
            self.declare(name, Meaning::Reg(first), "variable", span);
        }
        first
    }

    /// `.reg .b32 %a, %b<10>;` after `.reg`.
    pub(super) fn registers(&mut self) -> Parse<Range> {
        let TypeSpec { vector, ty, .. } = self.type_spec()?;
        let first_decl = self.body.regs.len() as u32;
        loop {
            let (name, span) = self.expect_name()?;
            if self.tok.is(b'<') {
                let count = self.range_count(span)?;
                let first = Reg(self.function.next_reg);
                let Some(next) = first.0.checked_add(count) else {
                    return self.fatal(span, "Too many registers declared");
                };
                self.function.next_reg = next;
                self.body.regs.push(RegDecl { name, ty, vector, range: Some(count), first });
                self.declare_range(name, Meaning::Reg(first), count, span);
            } else {
                self.new_reg(name, ty, vector, Some(name), span);
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        Ok(Range { first: first_decl, len: self.body.regs.len() as u32 - first_decl })
    }

    /// Directives that don't go together.
    fn check_directives(&mut self, directives: &[FunctionDirective]) {
        let find = |name: &str| directives.iter().find(|d| d.name == name);
        match (find(".maxntid"), find(".reqntid"), find(".minnctapersm")) {
            (Some(_), Some(second), _) => {
                let text = "Conflicting directives: .maxntid and .reqntid cannot both be specified";
                self.error(second.span, text);
            }
            (None, None, Some(alone)) => {
                let text = ".minnctapersm is ignored when neither .maxntid nor .reqntid is specified.";
                self.warn(alone.span, text);
            }
            _ => {}
        }
    }

    /// `.maxntid 256, 1, 1 .minnctapersm 2 .noreturn .pragma "…";` in any order.
    pub(super) fn function_directives(&mut self) -> Parse<Vec<FunctionDirective<'s>>> {
        let mut directives = Vec::new();
        loop {
            let name = self.dot();
            let Some(rule) = FUNCTION_DIRECTIVES.iter().find(|d| d.name == name) else {
                return Ok(directives);
            };
            let start = self.bump();
            let (mut values, mut strings) = (Vec::new(), Vec::new());
            if name == ".pragma" {
                while self.tok.kind == TokenKind::String {
                    let token = self.bump();
                    strings.push(self.text(token));
                    if !self.eat(b',') {
                        break;
                    }
                }
                self.expect(b';')?;
            }
            for i in 0..rule.values {
                if i > 0 && !self.eat(b',') {
                    break;
                }
                values.push(self.int()?);
            }
            if let Some(refusal) = rule.refusal(self.target, self.version) {
                self.error(start.span(), refusal);
            }
            directives.push(FunctionDirective { name, values, strings, span: start.span() });
        }
    }
}

fn signature(function: &Function) -> Signature {
    Signature {
        entry: function.entry,
        defined: function.body.is_some(),
        external: function.linkage.external,
        ..Signature::of(&function.returns, &function.params)
    }
}

/// A directive between a function's parameters and its body.
struct DirectiveRule {
    name: &'static str,
    /// How many numbers may follow.
    values: u8,
    sm: u16,
    version: Version,
}

const fn directive(name: &'static str, values: u8, sm: u16, major: u8, minor: u8) -> DirectiveRule {
    DirectiveRule { name, values, sm, version: Version::new(major, minor) }
}

const FUNCTION_DIRECTIVES: &[DirectiveRule] = &[
    directive(".maxnreg", 1, 0, 1, 3),
    directive(".maxntid", 3, 0, 1, 3),
    directive(".reqntid", 3, 0, 2, 1),
    directive(".minnctapersm", 1, 0, 2, 0),
    directive(".maxnctapersm", 1, 0, 1, 3),
    directive(".noreturn", 0, 30, 6, 4),
    directive(".pragma", 0, 0, 2, 0),
    directive(".reqnctapercluster", 3, 90, 7, 8),
    directive(".explicitcluster", 0, 90, 7, 8),
    directive(".maxclusterrank", 1, 90, 7, 8),
    directive(".blocksareclusters", 0, 90, 9, 0),
    directive(".abi_preserve", 1, 80, 9, 0),
    directive(".abi_preserve_control", 1, 80, 9, 0),
];

impl DirectiveRule {
    fn refusal(&self, target: Target, version: Version) -> Option<String> {
        let name = self.name;
        if version < self.version {
            let v = self.version;
            return Some(format!("Feature '{name}' requires PTX ISA .version {v} or later"));
        }
        let sm = self.sm;
        (target.sm() < sm).then(|| format!("Feature '{name}' requires .target sm_{sm} or higher"))
    }
}
