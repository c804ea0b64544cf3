//! Functions: signatures, what a second declaration may say, directives, bodies.
//!
//! A function is declared in the module when its parameters have been read, before its body, so that it can
//! call itself. Its parameters are declared only if a body may follow.

use super::decl::{Checked, Scope, incomplete, variable_kind};
use super::directive::PragmaPlace;
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
    pub noreturn: bool,
    pub defined: bool,
    /// Of the first declaration.
    pub linkage: Linkage,
    /// An alias has no body of its own, but can't be declared as one again.
    pub alias_of: Option<Symbol>,
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
    pub dims: Vec<Option<u64>>,
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
            dims: param.dims.clone(),
        }
    }
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

    fn of_function(function: &Function, defined: bool) -> Signature {
        Signature {
            entry: function.entry,
            noreturn: function.directives.iter().any(|d| d.name == ".noreturn"),
            defined,
            linkage: function.linkage,
            ..Signature::of(&function.returns, &function.params)
        }
    }

    /// How two prototypes differ, in ptxas's words and order.
    pub fn differences(&self, other: &Signature) -> Vec<&'static str> {
        let mut found = formals_differ(&self.params, &other.params);
        found.extend(formals_differ(&self.returns, &other.returns));
        found
    }
}

fn formals_differ(old: &[Formal], new: &[Formal]) -> Vec<&'static str> {
    let mut found = Vec::new();
    if old.len() != new.len() {
        found.push("number of parameters");
    }
    for (a, b) in old.iter().zip(new) {
        if (a.ty, a.vector, &a.dims) != (b.ty, b.vector, &b.dims) {
            found.push("parameter types");
        }
        if a.align != b.align {
            found.push("parameter alignment");
        }
        if a.memory != b.memory {
            found.push("parameter state space");
        }
    }
    found
}

/// A parameter as it is written; nothing has been declared yet.
struct Written {
    name: Option<Name>,
    span: Span,
    space: Option<Space>,
    align: Option<u32>,
    vector: u8,
    ty: Type,
    dims: Vec<Option<u64>>,
    ptr: Option<Ptr>,
}

/// A function as far as its body, and where ptxas compares it with what it knows of the name: behind the parameters
/// of an entry, at the token behind the directives of another function, which it must see to know that they end.
struct Heading<'s> {
    function: Function<'s>,
    name: Name,
    end: Span,
}

/// Which of its two lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Returns,
    Params,
}

/// Whose parameters these are: the rules differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Entry,
    Func,
    Prototype,
}

impl<'s> Parser<'s> {
    /// `.entry …` or `.func …` at module scope.
    pub(super) fn function(&mut self, linkage: Linkage, start: Span) -> Parse<Function<'s>> {
        let kinds = std::mem::take(&mut self.function.kinds);
        self.function = FunctionState { kinds, ..FunctionState::default() };
        self.function.kinds.clear();
        self.clear_body();
        let mut heading = self.heading(linkage, start)?;
        let entry = heading.function.entry;
        let defines = if entry { !self.tok.is(b';') } else { self.tok.is(b'{') };
        heading.function.symbol = self.declare_function(&heading, defines)?;
        let mut function = heading.function;
        if !defines {
            // A pragma of the module ends a declaration without a semicolon of its own.
            if entry || self.dot() != ".pragma" {
                self.expect(b';')?;
            }
            return Ok(function);
        }
        self.names.open();
        let inside = self.function_inside(&mut function);
        self.names.close();
        inside.map(|()| function)
    }

    fn function_inside(&mut self, function: &mut Function<'s>) -> Parse<()> {
        if let Some(param) = self.function.without_storage {
            return self.fatal(param, "No variable storage specified");
        }
        self.declare_params(function);
        if function.entry {
            function.directives = self.performance_directives()?;
        }
        self.function.entry = function.entry;
        self.function.symbol = Some(function.symbol);
        self.function.formals = Formals::of(function);
        let end = self.function_body()?;
        let symbol = function.symbol;
        self.check_extern(symbol, end);
        self.check_directives(&function.directives, end);
        if function.entry {
            self.check_parameter_space(function, end);
        } else if function.returns.len() > 1 {
            self.module.many_returns.push(symbol);
        }
        self.expand_sums()?;
        function.body = Some(self.take_body());
        Ok(())
    }

    /// `.func f(…);` inside a body: it belongs to the module all the same.
    pub(super) fn inner_declaration(&mut self, linkage: Linkage, start: Span) -> Parse<Function<'s>> {
        let mark = self.registers_so_far();
        let declared = self.inner_declaration_head(linkage, start);
        self.forget_registers(mark);
        declared
    }

    fn inner_declaration_head(&mut self, linkage: Linkage, start: Span) -> Parse<Function<'s>> {
        let mut heading = self.heading(linkage, start)?;
        heading.function.symbol = self.declare_function(&heading, false)?;
        self.expect(b';')?;
        Ok(heading.function)
    }

    /// To the end of an entry's parameters, or of another function's directives.
    fn heading(&mut self, linkage: Linkage, start: Span) -> Parse<Heading<'s>> {
        let entry = self.eat_dot(".entry");
        let mut attributes = Vec::new();
        let mut returns = Vec::new();
        if !entry {
            self.advance();
            if self.dot() == ".attribute" {
                attributes = self.attributes(false)?;
            }
            if self.tok.is(b'(') {
                returns = self.written_params(Owner::Func, List::Returns)?.0;
            }
        }
        let (name, span) = self.expect_name()?;
        let owner = if entry { Owner::Entry } else { Owner::Func };
        let (mut params, mut end) = (Vec::new(), None);
        if self.tok.is(b'(') {
            let list = self.written_params(owner, List::Params)?;
            (params, end) = (list.0, Some(list.1).filter(|_| entry));
        }
        let mut written = returns.iter().chain(&params);
        self.function.without_storage = written.find(|p: &&Written| p.space.is_none()).map(|p| p.span);
        let mut function = Function {
            entry,
            linkage,
            symbol: Symbol::UNKNOWN,
            attributes,
            returns: self.place_params(returns),
            params: self.place_params(params),
            directives: Vec::new(),
            body: None,
            span: start.to(span),
        };
        if !entry {
            function.directives = self.device_directives()?;
            self.check_returns(&function.returns, self.tok.span());
        }
        Ok(Heading { function, name, end: end.unwrap_or(self.tok.span()) })
    }

    /// Several values are returned in registers only.
    pub(super) fn check_returns(&mut self, returns: &[Param], span: Span) {
        if returns.len() > 1 && returns.iter().any(|p| matches!(p.place, ParamPlace::Memory(_))) {
            self.error(span, "Multiple return parameters require .register state space");
        }
    }

    /// `(…)` of a prototype; its parameters take no register and no place in memory.
    pub(super) fn prototype_params(&mut self, list: List) -> Parse<Vec<Param>> {
        let (written, _) = self.written_params(Owner::Prototype, list)?;
        Ok(self.place_params(written))
    }

    /// The parameters, and the parenthesis behind them.
    fn written_params(&mut self, owner: Owner, list: List) -> Parse<(Vec<Written>, Span)> {
        self.expect(b'(')?;
        let mut params: Vec<Written> = Vec::new();
        if self.tok.is(b')') {
            return Ok((params, self.bump().span()));
        }
        loop {
            let behind_open_array = params.iter().any(|p| incomplete(&p.dims));
            params.push(self.written_param(owner, behind_open_array)?);
            if !self.eat(b',') {
                break;
            }
        }
        let end = self.expect(b')')?.span();
        let is_open = params.iter().any(|p| incomplete(&p.dims));
        match (owner, list) {
            (_, List::Returns) if is_open => {
                self.error(end, "Output parameter cannot be an incomplete array.");
            }
            (Owner::Entry, _) if is_open => {
                self.error(end, "Parameter to entry function cannot be an incomplete array.");
            }
            _ => {}
        }
        if owner == Owner::Entry {
            self.gate("kernel parameter list", Version::new(1, 4), 0, end);
        }
        Ok((params, end))
    }

    fn written_param(&mut self, owner: Owner, behind_open_array: bool) -> Parse<Written> {
        let spec = self.spec()?;
        let ptr_span = self.tok.span();
        let ptr = self.ptr()?;
        let (name, span) = self.param_name()?;
        // ptxas judges a parameter when it has read the bracket that ends it, or else the token behind it.
        let (mut dims, mut end) = (Vec::new(), self.tok.span());
        if self.tok.is(b'[') {
            let (size, bracket) = self.param_size()?;
            (dims, end) = (vec![size], bracket);
        }
        if ptr.is_some() && owner != Owner::Entry {
            self.error(ptr_span, "Illegal placement of kernel parameter attribute");
        }
        if behind_open_array {
            self.error(end, "Only the last input parameter can be an incomplete array.");
        }
        if incomplete(&dims) {
            self.gate("Unsized Array Parameter", Version::FIRST, 30, end);
            self.gate("Unsized Array Parameter", Version::new(6, 0), 0, end);
        }
        if incomplete(&dims) && spec.space != Some(Space::Param) {
            self.error(end, "Incomplete array parameters must be in '.param' space");
        }
        let text = self.slice(span);
        match (owner, spec.space) {
            (_, Some(Space::Param)) | (Owner::Func | Owner::Prototype, Some(Space::Reg)) => {}
            (Owner::Entry, _) => {
                self.error(end, format!("Entry parameter '{text}' must have .param state space"))
            }
            _ => self.error(end, format!("Function parameter '{text}' has illegal state space")),
        }
        if owner == Owner::Func && text == "_" {
            self.error(end, "Illegal parameter name '_'");
        }
        let decl::Spec { space, align, vector, ty, .. } = spec;
        Ok(Written { name, span, space, align, vector, ty, dims, ptr })
    }

    /// A name, or `_`, which is one only here.
    /// `[4]` or `[]` of a parameter, and the bracket behind it. A size has 32 bits; one that is cut off to zero is none.
    fn param_size(&mut self) -> Parse<(Option<u64>, Span)> {
        self.expect(b'[')?;
        let before = self.diagnostics.len();
        let size = if self.tok.is(b']') { None } else { Some(self.small_int()?.into()) };
        let is_cut = self.diagnostics.len() > before;
        Ok((size.filter(|size| !is_cut || *size != 0), self.expect(b']')?.span()))
    }

    fn param_name(&mut self) -> Parse<(Option<Name>, Span)> {
        let token = self.tok;
        if token.kind == TokenKind::Reserved && self.text(token) == "_" {
            self.advance();
            return Ok((None, token.span()));
        }
        let (name, span) = self.expect_name()?;
        Ok((Some(name), span))
    }

    fn ptr(&mut self) -> Parse<Option<Ptr>> {
        if !self.eat_dot(".ptr") {
            return Ok(None);
        }
        self.gate("kernel parameter pointer attribute", Version::new(2, 2), 0, self.tok.span());
        let space = decl::space(self.dot()).filter(|s| !matches!(s, Space::Param | Space::Reg));
        if space.is_some() {
            self.advance();
        }
        let opaque =
            decl::declared_type(self.dot()).filter(|ty| space.is_none() && ty.class() == Class::Opaque);
        if opaque.is_some() {
            let feature = "kernel parameter pointers to opaque types";
            self.gate(feature, Version::new(4, 3), 0, self.tok.span());
            self.advance();
        }
        let align = if self.dot() == ".align" { Some(self.align()?) } else { None };
        Ok(Some(Ptr { space, opaque, align }))
    }

    /// Gives each parameter its register or its symbol.
    fn place_params(&mut self, written: Vec<Written>) -> Vec<Param> {
        let unnamed = self.names.intern("_");
        let place = |w: Written| {
            let Written { name, span, space, align, vector, ty, dims, ptr } = w;
            let place = if space == Some(Space::Reg) {
                ParamPlace::Register(self.add_registers(name.unwrap_or(unnamed), ty, vector, None))
            } else {
                let kind = variable_kind(Space::Param, ty, vector, align, &dims);
                ParamPlace::Memory(self.new_symbol(name.unwrap_or(unnamed), kind, span))
            };
            Param { place, name, ty, vector, align, dims, ptr, span }
        };
        written.into_iter().map(place).collect()
    }

    /// At the start of a body its parameters get a meaning.
    fn declare_params(&mut self, function: &Function<'s>) {
        let scope = if function.entry { Scope::EntryParam } else { Scope::FuncParam };
        let unnamed = self.names.intern("_");
        for param in function.returns.iter().chain(&function.params) {
            let name = param.name.unwrap_or(unnamed);
            let (space, meaning) = match param.place {
                ParamPlace::Register(reg) => (Space::Reg, Meaning::Reg(reg)),
                ParamPlace::Memory(symbol) => (Space::Param, Meaning::Symbol(symbol)),
            };
            let text = self.names.text(name);
            let checked = Checked {
                name: text,
                scope,
                linkage: Linkage::default(),
                space,
                ty: param.ty,
                vector: param.vector,
                dims: &param.dims,
                align: param.align,
                attributes: &[],
                init: false,
            };
            self.check_types(&checked, param.span);
            self.check_storage(&checked, param.span);
            if self.names.define(name, meaning).is_err() {
                self.error(param.span, format!("Duplicate definition of variable '{text}'"));
            }
        }
    }

    /// Declares the function in the module; `defines` if its body follows.
    fn declare_function(&mut self, heading: &Heading, defines: bool) -> Parse<Symbol> {
        let Heading { function, name, end: span } = heading;
        let (name, span) = (*name, *span);
        let mut new = Signature::of_function(function, defines);
        let text = self.names.text(name);
        let old = match self.names.lookup_module(name) {
            Meaning::Symbol(symbol) => Some(symbol),
            _ => None,
        };
        let Some(symbol) = old else {
            self.check_noreturn(&function.directives, &function.returns, text, span);
            let symbol = self.new_symbol(name, SymbolKind::Function { entry: function.entry }, function.span);
            self.names.define_module(name, Meaning::Symbol(symbol));
            self.signatures.insert(symbol, new);
            return Ok(symbol);
        };
        let Some(before) = self.signatures.get(&symbol).cloned() else {
            self.error(span, format!("Inconsistent redefinition of variable '{text}'"));
            self.check_noreturn(&function.directives, &function.returns, text, span);
            return self.variable_redefined(text, symbol, span);
        };
        if before.entry != new.entry {
            self.error(span, format!("Inconsistent redefinition of '{text}' as entry and function"));
        }
        if before.defined {
            self.error(span, format!("Duplicate definition of function '{text}'"));
        }
        let weaker = new.linkage == Linkage::default() && !before.linkage.external;
        for differ in [new.linkage != before.linkage && !weaker, new.noreturn != before.noreturn] {
            if differ {
                self.error(span, format!("Inconsistent redefinition of variable '{text}'"));
            }
        }
        for what in before.differences(&new) {
            self.error(span, format!("Inconsistent prototypes of '{text}', {what} differ"));
        }
        new.defined |= before.defined;
        new.linkage = before.linkage;
        new.alias_of = before.alias_of;
        self.signatures.insert(symbol, new);
        Ok(symbol)
    }

    /// The first declaration said that the body is elsewhere.
    fn check_extern(&mut self, symbol: Symbol, end: Span) {
        if self.signatures.get(&symbol).is_some_and(|s| s.linkage.external) {
            let text = self.symbols.get(symbol.0 as usize).map_or("", |s| self.names.text(s.name));
            let text =
                format!("Function definition conflicts with '.extern' declaration for function '{text}'");
            self.error(end, text);
        }
    }

    /// A function with the name of a variable: the end, unless the variable is defined elsewhere.
    fn variable_redefined(&mut self, text: &str, symbol: Symbol, span: Span) -> Parse<Symbol> {
        if !self.is_defined_variable(symbol) {
            return Ok(Symbol::UNKNOWN);
        }
        self.error(span, format!("Duplicate definition of function '{text}'"));
        self.fatal(span, format!("Inconsistent redefinition of symbol '{text}'"))
    }

    /// `.noreturn .abi_preserve 4 …` of a function or a prototype, in this order.
    pub(super) fn device_directives(&mut self) -> Parse<Vec<FunctionDirective<'s>>> {
        let mut directives: Vec<FunctionDirective> = Vec::new();
        while let Some(rule) = self.directive_rule(false) {
            if rule.name == ".noreturn" && !directives.is_empty() {
                break;
            }
            let directive = self.function_directive(rule)?;
            if directives.iter().any(|d| d.name == directive.name) {
                let word = directive.name;
                self.error(
                    directive.span,
                    format!("Attribute '{word}' specified multiple times in function"),
                );
            }
            directives.push(directive);
        }
        Ok(directives)
    }

    /// What returns something returns.
    pub(super) fn check_noreturn(
        &mut self,
        directives: &[FunctionDirective],
        returns: &[Param],
        name: &str,
        span: Span,
    ) {
        if !returns.is_empty() && directives.iter().any(|d| d.name == ".noreturn") {
            self.error(span, format!("Invalid directive '.noreturn' for function '{name}'"));
        }
    }

    /// `.maxntid 256, 1, 1 .minnctapersm 2 .pragma "…";` of an entry, in any order.
    fn performance_directives(&mut self) -> Parse<Vec<FunctionDirective<'s>>> {
        let mut directives: Vec<FunctionDirective> = Vec::new();
        while let Some(rule) = self.directive_rule(true) {
            let directive = self.function_directive(rule)?;
            let other = match rule.name {
                ".reqnctapercluster" => ".maxclusterrank",
                ".maxclusterrank" => ".reqnctapercluster",
                _ => "",
            };
            if directives.iter().any(|d| d.name == other) {
                let text =
                    "Conflicting directives: .reqnctapercluster and .maxclusterrank cannot both be specified";
                self.error(directive.span, text);
            }
            directives.push(directive);
        }
        Ok(directives)
    }

    fn directive_rule(&self, entry: bool) -> Option<&'static DirectiveRule> {
        let name = self.dot();
        DIRECTIVES.iter().find(|d| d.name == name && d.entry == entry)
    }

    fn function_directive(&mut self, rule: &'static DirectiveRule) -> Parse<FunctionDirective<'s>> {
        let name = self.dot();
        let span = self.tok.span();
        let (mut values, mut strings) = (Vec::new(), Vec::new());
        if name == ".pragma" {
            strings = self.pragma(PragmaPlace::Directive)?;
        } else {
            self.advance();
            for i in 0..rule.values {
                if i > 0 && !self.eat(b',') {
                    break;
                }
                values.push(u64::from(self.small_int()?));
            }
            self.gate(rule.feature, rule.version, rule.sm, span);
            self.check_values(rule, &values, span);
        }
        Ok(FunctionDirective { name, values, strings, span })
    }

    fn check_values(&mut self, rule: &DirectiveRule, values: &[u64], span: Span) {
        if rule.name == ".maxnctapersm" && self.version >= Version::new(2, 1) {
            let text = "Deprecated feature: '.maxnctapersm directive' not supported as of PTX version 2.1";
            self.error(span, text);
        } else if rule.name == ".maxnctapersm" && self.version == Version::new(2, 0) {
            self.warn(span, ".maxnctapersm directive deprecated in PTX version 2.0, will be ignored.");
        }
        if rule.positive && values.contains(&0) {
            let name = &rule.name[1..];
            self.error(span, format!("Positive non-zero value expected for {name}"));
        }
    }

    /// What is only known when all directives have been read is said at the end of the body.
    fn check_directives(&mut self, directives: &[FunctionDirective], end: Span) {
        // A directive with a wrong value counts for nothing.
        let has = |name: &str| directives.iter().any(|d| d.name == name && !zero(d));
        let threads = has(".maxntid") || has(".reqntid");
        if has(".minnctapersm") && !threads {
            self.warn(end, ".minnctapersm is ignored when neither .maxntid nor .reqntid is specified.");
        }
        if has(".blocksareclusters") && !(has(".reqntid") && has(".reqnctapercluster")) {
            let text =
                ".reqntid and .reqnctapercluster directive(s) required for directive '.blocksareclusters'";
            self.error(end, text);
        }
        if has(".maxntid") && has(".reqntid") {
            self.error(end, "Conflicting directives: .maxntid and .reqntid cannot both be specified");
        }
    }

    /// How much memory the parameters take.
    fn check_parameter_space(&mut self, function: &Function, end: Span) {
        const LARGE: u64 = targets::Target::SMALL_PARAM_BYTES as u64;
        let mut bytes = 0u64;
        for param in &function.params {
            bytes = bytes.checked_next_multiple_of(param.alignment()).unwrap_or(u64::MAX);
            bytes = bytes.saturating_add(param.bytes());
        }
        let most = match () {
            _ if self.target.sm() < 20 => 256,
            _ if self.version < Version::new(8, 1) => LARGE,
            _ => 32764,
        };
        if bytes > most {
            let name = self.symbols.get(function.symbol.0 as usize).map_or("", |s| self.names.text(s.name));
            let text = format!(
                "Entry function '{name}' uses too much parameter space ({bytes:#x} bytes, {most:#x} max)."
            );
            self.error(end, text);
        }
        if bytes > LARGE {
            let feature = "Kernel parameter size larger than 4352 bytes";
            if self.target.sm() < 70 {
                self.error(end, format!("Feature '{feature}' requires .target sm_70 or higher"));
            }
            self.gate(feature, Version::new(8, 1), 0, end);
        }
    }

    /// Reports that a feature needs a newer version or target, in this order.
    pub(crate) fn gate(&mut self, feature: &str, version: Version, sm: u16, span: Span) {
        if !self.version.reaches(version) {
            self.error(span, format!("Feature '{feature}' requires PTX ISA .version {version} or later"));
        }
        if self.target.sm() < sm {
            self.error(span, format!("Feature '{feature}' requires .target sm_{sm} or higher"));
        }
    }
}

/// Has a directive a zero where it may not?
fn zero(directive: &FunctionDirective) -> bool {
    directive.values.contains(&0) && DIRECTIVES.iter().any(|d| d.name == directive.name && d.positive)
}

/// A directive between a function's parameters and its body.
struct DirectiveRule {
    name: &'static str,
    /// Of entries, or of device functions and prototypes.
    entry: bool,
    /// How many numbers may follow; the first must.
    values: u8,
    /// Zero is refused.
    positive: bool,
    /// What the message about an old version or target calls it.
    feature: &'static str,
    version: Version,
    sm: u16,
}

/// Each row in the order of the fields of [`DirectiveRule`].
const fn rule(
    name: &'static str,
    entry: bool,
    values: u8,
    positive: bool,
    feature: &'static str,
    version: (u8, u8),
    sm: u16,
) -> DirectiveRule {
    DirectiveRule { name, entry, values, positive, feature, version: Version::new(version.0, version.1), sm }
}

#[rustfmt::skip]
const DIRECTIVES: &[DirectiveRule] = &[
    rule(".maxnreg",              true,  1, true,  ".maxnreg",                (1, 3), 0),
    rule(".maxntid",              true,  3, true,  ".maxntid",                (1, 3), 0),
    rule(".reqntid",              true,  3, true,  ".reqntid directive",      (2, 1), 0),
    rule(".minnctapersm",         true,  1, true,  ".minnctapersm directive", (2, 0), 0),
    rule(".maxnctapersm",         true,  1, true,  ".maxnctapersm",           (1, 3), 0),
    rule(".pragma",               true,  0, false, ".pragma directive",       (2, 0), 0),
    rule(".reqnctapercluster",    true,  3, false, ".reqnctapercluster",      (7, 8), 90),
    rule(".explicitcluster",      true,  0, false, ".explicitcluster",        (7, 8), 90),
    rule(".maxclusterrank",       true,  1, false, ".maxclusterrank",         (7, 8), 90),
    rule(".blocksareclusters",    true,  0, false, ".blocksareclusters",      (9, 0), 90),
    rule(".noreturn",             false, 0, false, ".noreturn",               (6, 4), 30),
    rule(".abi_preserve",         false, 1, false, ".abi_preserve",           (9, 0), 80),
    rule(".abi_preserve_control", false, 1, false, ".abi_preserve_control",   (9, 0), 80),
];
