//! Directives that declare nothing: `.file`, `.loc`, `.section`, `.pragma`, `.alias`.

use super::*;
use crate::types::Type;

/// Where a pragma stands: some strings are allowed only in bodies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PragmaPlace {
    Module,
    /// Between an entry's parameters and its body.
    Directive,
    Body,
}

/// Pragmas that mean something only in a body, and since when; those with a blank are the beginning of one.
const BODY_PRAGMAS: &[(&str, Version)] = &[
    ("enable_smem_spilling", Version::new(8, 7)),
    ("used_bytes_mask ", Version::new(8, 3)),
    ("frequency ", Version::new(9, 0)),
];

impl<'s> Parser<'s> {
    pub(super) fn file(&mut self) -> Parse<File<'s>> {
        self.advance();
        let index = self.small_int()?;
        let path = self.string()?;
        let mut stamp = Vec::new();
        while stamp.len() < 2 && self.eat(b',') {
            stamp.push(self.int()?);
        }
        if !self.module.files.insert(index) {
            self.error(self.tok.span(), format!("Duplicate file index #{index}"));
        }
        Ok(File { index, path, stamp })
    }

    fn string(&mut self) -> Parse<&'s str> {
        if self.tok.kind != TokenKind::String {
            return self.syntax_error();
        }
        let token = self.bump();
        Ok(self.text(token))
    }

    pub(super) fn loc(&mut self) -> Parse<Loc> {
        let start = self.bump();
        let place = (self.small_int()?, self.small_int()?, self.small_int()?);
        let mut inlined = None;
        if self.eat(b',') {
            self.expect_word("function_name")?;
            let (function, _) = self.expect_name()?;
            let offset = if self.eat(b'+') { self.int()? as i64 } else { 0 };
            self.expect(b',')?;
            self.expect_word("inlined_at")?;
            let at @ (file, line, column) = (self.small_int()?, self.small_int()?, self.small_int()?);
            if !self.module.locs.contains(&at) {
                let text = format!(
                    "Source location {file} {line} {column} used in inlined_at directive must be used in a preceding .loc directive"
                );
                self.error(start.span(), text);
            }
            inlined = Some(Inlined { function, offset, file, line, column });
        }
        self.module.locs.insert(place);
        let (file, line, column) = place;
        Ok(Loc { file, line, column, inlined, span: start.span() })
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.tok.kind == TokenKind::Reserved && self.text(self.tok) == word {
            self.advance();
            return Ok(());
        }
        self.syntax_error()
    }

    pub(super) fn pragma(&mut self, place: PragmaPlace) -> Parse<Vec<&'s str>> {
        let start = self.bump().span();
        let mut strings = Vec::new();
        loop {
            strings.push(self.string()?);
            if !self.eat(b',') {
                break;
            }
        }
        self.gate(".pragma directive", Version::new(2, 0), 0, start);
        for string in &strings {
            let text = string.trim_matches('"');
            let is_it = |p: &str| text == p || p.ends_with(' ') && text.starts_with(p);
            let local = BODY_PRAGMAS.iter().find(|(p, _)| is_it(p));
            if let (Some((p, version)), PragmaPlace::Body) = (local, place) {
                self.gate(p.trim_end(), *version, 0, start);
            }
            if local.is_some() && place != PragmaPlace::Body {
                self.error(start, format!("Pragma '{text}' is allowed only within function scope"));
            } else if text.starts_with("abi_param_reg ") && place == PragmaPlace::Body {
                self.parameter_registers(text, start);
            } else if text == "enable_smem_spilling" && !self.function.entry && place == PragmaPlace::Body {
                self.error(start, format!("Pragma '{text}' cannot be specified for device functions"));
            }
        }
        self.expect(b';')?;
        Ok(strings)
    }

    /// Only a device function is called, and in one way.
    fn parameter_registers(&mut self, text: &str, at: Span) {
        let repeated = std::mem::replace(&mut self.function.parameter_registers, true);
        let problem = match (self.function.entry, repeated) {
            (true, _) => "cannot be specified for",
            (false, true) => "specified multiple times in",
            (false, false) => return,
        };
        let symbol = self.function.symbol.and_then(|symbol| self.symbols.get(symbol.0 as usize));
        let name = symbol.map_or("", |s| self.names.text(s.name));
        self.error(at, format!("Pragma '{text}' {problem} function '{name}'"));
    }

    /// `.alias g, f;`: the declared function `g` is `f`.
    pub(super) fn alias(&mut self) -> Parse<Alias> {
        let start = self.bump().span();
        let (alias, _) = self.expect_name()?;
        self.expect(b',')?;
        let (target, _) = self.expect_name()?;
        if !self.tok.is(b';') {
            return self.syntax_error();
        }
        self.gate(".alias", Version::new(6, 3), 30, start);
        let symbols = self.alias_symbols(alias, target, start);
        self.advance();
        let (alias, target) = symbols.unwrap_or((Symbol::UNKNOWN, Symbol::UNKNOWN));
        Ok(Alias { alias, target, span: start })
    }

    fn alias_symbols(&mut self, alias: Name, target: Name, span: Span) -> Option<(Symbol, Symbol)> {
        let names = [self.names.text(alias), self.names.text(target)];
        let mut symbols = [Symbol::UNKNOWN; 2];
        for (i, name) in [alias, target].into_iter().enumerate() {
            let Meaning::Symbol(symbol) = self.names.lookup_module(name) else {
                self.error(span, format!("Unknown symbol '{}'", names[i]));
                return None;
            };
            symbols[i] = symbol;
        }
        let [alias, target] = symbols;
        let mut errors = Vec::new();
        let signatures = symbols.map(|s| self.signatures.get(&s));
        for (i, signature) in signatures.iter().enumerate() {
            let name = names[i];
            match signature {
                None => errors.push(format!("Cannot define alias to variable object '{name}'")),
                Some(s) if s.entry => errors.push(format!("Cannot define alias to entry function '{name}'")),
                Some(s) if i == 0 && s.defined => {
                    errors.push(format!("Illegal redefinition of function '{name}' as alias"));
                }
                _ => {}
            }
        }
        if let [Some(a), Some(f)] = signatures
            && !a.entry
            && !f.entry
        {
            errors.extend(self.alias_misfits(a, f, alias == target, names));
        }
        let fine = errors.is_empty();
        for text in errors {
            self.error(span, text);
        }
        if fine && let Some(signature) = self.signatures.get_mut(&alias) {
            signature.alias_of = Some(target);
        }
        fine.then_some((alias, target))
    }

    /// What is wrong with an alias `a` of function `f`.
    fn alias_misfits(
        &self,
        a: &function::Signature,
        f: &function::Signature,
        same: bool,
        [alias, target]: [&str; 2],
    ) -> Vec<String> {
        let mut errors = Vec::new();
        if let Some(old) = a.alias_of {
            let old = self.symbols.get(old.0 as usize).map_or("", |s| self.names.text(s.name));
            return vec![format!("'{alias}' is already aliased to '{old}' and cannot be redefined")];
        }
        if same {
            return vec!["Cannot alias a function to itself".to_string()];
        }
        for (on, word) in [(f.linkage.weak, ".weak"), (f.linkage.external, ".extern")] {
            if on {
                errors.push(format!("Function '{target}' with {word} scope cannot be aliased"));
            }
        }
        let mut differences = f.differences(a);
        if f.noreturn != a.noreturn {
            differences.push(".noreturn directive");
        }
        for what in differences {
            errors.push(format!(
                "Mismatch in prototype of alias '{alias}' and aliasee '{target}'. {what} differ(s)"
            ));
        }
        errors
    }

    /// `.section .debug_info { label: .b8 1, 2 … }`
    pub(super) fn section(&mut self) -> Parse<Section<'s>> {
        self.advance();
        let name = self.dot();
        if name.is_empty() {
            return self.syntax_error();
        }
        let span = self.bump().span();
        self.gate(".section directive", Version::new(2, 0), 0, span);
        self.expect(b'{')?;
        let mut lines = Vec::new();
        while !self.eat(b'}') {
            if self.tok.kind == TokenKind::Ident {
                let token = self.bump();
                self.expect(b':')?;
                lines.push(SectionLine::Label(self.section_label(token)));
                continue;
            }
            let Some(ty) = decl::declared_type(self.dot()) else { return self.syntax_error() };
            self.advance();
            lines.push(SectionLine::Data(ty, self.section_values(ty)?));
        }
        Ok(Section { name, lines })
    }

    /// Labels of all sections share one space of names.
    fn section_label(&mut self, token: Token) -> &'s str {
        let text = self.text(token);
        let name = self.names.intern(text);
        if !self.module.section_labels.insert(name) {
            self.error(token.span(), format!("Duplicate definition of label '{text}'"));
        }
        text
    }

    /// Numbers separated by commas, or one of `label`, `label + 4`, `label - label`, `.debug_abbrev`: kept as
    /// they are written.
    fn section_values(&mut self, ty: Type) -> Parse<Vec<&'s str>> {
        let bits = if matches!(ty.name(), "b8" | "b16" | "b32" | "b64") { ty.bits() } else { 0 };
        if matches!(self.tok.kind, TokenKind::Ident | TokenKind::Dot) {
            return Ok(vec![self.section_reference(bits)?]);
        }
        let mut values = Vec::new();
        loop {
            let span = self.tok.span();
            let (text, value) = self.section_number()?;
            if bits == 0 && values.is_empty() {
                self.error(span, "Illegal type for dwarf data");
            }
            if !section_range(bits).contains(&value) {
                self.error(span, format!("Value out of range for type .b{bits} {value}"));
            }
            values.push(text);
            if !self.eat(b',') {
                return Ok(values);
            }
        }
    }

    fn section_number(&mut self) -> Parse<(&'s str, i128)> {
        let start = self.tok.span();
        let negative = self.eat(b'-');
        let end = self.tok.span();
        let magnitude = self.int()?;
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        Ok((self.slice(start.to(end)), value))
    }

    fn section_reference(&mut self, bits: u32) -> Parse<&'s str> {
        let start = self.bump().span();
        let mut end = start;
        let here = self.text(Token { kind: TokenKind::Ident, start: start.start, end: start.end });
        if self.eat(b'+') {
            end = self.tok.span();
            self.int()?;
        } else if !here.starts_with('.') && self.eat(b'-') {
            end = self.expect_name()?.1;
        }
        if !matches!(bits, 32 | 64) {
            self.error(start, "Illegal type for dwarf data");
        }
        Ok(self.slice(start.to(end)))
    }

    /// `.MACRO name a, b`: ptxas's scanner knows the word, but nothing can follow.
    pub(super) fn macro_directive<T>(&mut self) -> Parse<T> {
        self.advance();
        self.expect_name()?;
        while self.tok.kind == TokenKind::Ident {
            self.advance();
            self.eat(b',');
        }
        self.syntax_error()
    }
}

/// The numbers that a value of so many bits takes. ptxas looks at 64 bits of a positive number for `.b32`.
fn section_range(bits: u32) -> std::ops::Range<i128> {
    match bits {
        0 => 0..1,
        8 | 16 => -(1 << (bits - 1))..1 << bits,
        _ => -(1 << (bits - 1))..1 << 64,
    }
}
