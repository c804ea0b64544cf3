//! The header of a module and its top level.

use super::*;

impl<'s> Parser<'s> {
    pub(super) fn module(&mut self) -> Parse<Module<'s>> {
        self.version_directive()?;
        let target_options = self.target_directive()?;
        let mut address_size = None;
        if self.dot() == ".address_size" {
            address_size = self.address_size()?;
        }
        let mut items = Vec::new();
        let mut checked = false;
        while self.tok.kind != TokenKind::Eof {
            if !checked {
                checked = true;
                self.check_target_version();
            }
            self.item(&mut items)?;
        }
        Ok(Module {
            version: self.version,
            target: self.target,
            target_options,
            address_size,
            items,
            names: Vec::new(),
            symbols: Vec::new(),
            opcodes: Vec::new(),
        })
    }

    fn version_directive(&mut self) -> Parse<()> {
        if self.dot() != ".version" {
            return self.missing(".version");
        }
        let start = self.bump();
        let number = self.bump();
        let text = self.text(number);
        let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (TokenKind::Float, Some((major, minor))) = (number.kind, parts) else {
            self.tok = number;
            return self.syntax_error();
        };
        self.version = Version::new(major, minor);
        self.header.version = start.span().to(number.span());
        if !self.version.known() {
            let current = Version::CURRENT;
            let message = format!("Unsupported .version {text}; current version is '{current}'");
            return self.fatal(self.header.version, message);
        }
        Ok(())
    }

    /// A header directive that isn't there. ptxas prints the name of the file; the renderer fills it in.
    fn missing<T>(&mut self, directive: &str) -> Parse<T> {
        self.fatal(self.tok.span(), format!("Missing {directive} directive at start of file '{FILE}'"))
    }

    fn target_directive(&mut self) -> Parse<Vec<&'s str>> {
        if self.dot() != ".target" {
            return self.missing(".target");
        }
        let start = self.bump();
        let mut options = Vec::new();
        let mut machine = None;
        loop {
            if self.tok.kind != TokenKind::Ident {
                return self.syntax_error();
            }
            let token = self.bump();
            self.header.target = start.span().to(token.span());
            let text = self.text(token);
            if text.starts_with("sm_") || text.starts_with("compute_") {
                match Target::find(text) {
                    Some(target) => machine = Some(target),
                    None => return self.fatal(token.span(), format!("Unsupported .target '{text}'")),
                }
            } else {
                self.separate_samplers |= text == "texmode_independent";
                options.push(text);
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.target = machine.unwrap_or_default();
        Ok(options)
    }

    fn address_size(&mut self) -> Parse<Option<u32>> {
        let start = self.bump();
        if self.tok.kind != TokenKind::Int {
            return self.syntax_error();
        }
        let token = self.bump();
        match self.text(token) {
            "32" => Ok(Some(32)),
            "64" => Ok(Some(64)),
            _ => {
                self.error(start.span(), "Illegal value for .address_size directive (must be 32 or 64)");
                Ok(None)
            }
        }
    }

    /// ptxas checks that the version knows the target only once a declaration follows the header.
    fn check_target_version(&mut self) {
        if self.version < self.target.since() {
            let (version, name) = (self.version, self.target.name());
            self.error(self.header.target, format!("PTX .version {version} does not support .target {name}"));
        }
    }

    fn item(&mut self, items: &mut Vec<Item<'s>>) -> Parse<()> {
        match self.dot() {
            ".file" => items.push(Item::File(self.file()?)),
            ".section" => items.push(Item::Section(self.section()?)),
            ".loc" => items.push(Item::Loc(self.loc()?)),
            ".pragma" => items.push(Item::Pragma(self.pragma()?)),
            ".alias" => items.push(self.alias()?),
            _ => self.declaration(items)?,
        }
        Ok(())
    }

    pub(super) fn file(&mut self) -> Parse<File<'s>> {
        self.bump();
        let index = self.small_int()?;
        if self.tok.kind != TokenKind::String {
            return self.syntax_error();
        }
        let token = self.bump();
        let path = self.text(token);
        let mut stamp = None;
        if self.eat(b',') {
            let time = self.int()?;
            self.expect(b',')?;
            stamp = Some((time, self.int()?));
        }
        Ok(File { index, path, stamp })
    }

    pub(super) fn loc(&mut self) -> Parse<Loc> {
        let start = self.bump();
        let (file, line, column) = (self.small_int()?, self.small_int()?, self.small_int()?);
        let mut inlined = None;
        if self.eat(b',') {
            self.expect_word("function_name")?;
            let (function, _) = self.expect_name()?;
            let offset = if self.eat(b'+') { self.int()? as i64 } else { 0 };
            self.expect(b',')?;
            self.expect_word("inlined_at")?;
            let (file, line, column) = (self.small_int()?, self.small_int()?, self.small_int()?);
            inlined = Some(Inlined { function, offset, file, line, column });
        }
        Ok(Loc { file, line, column, inlined, span: start.span() })
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.tok.kind == TokenKind::Ident && self.text(self.tok) == word {
            self.bump();
            return Ok(());
        }
        self.syntax_error()
    }

    pub(super) fn pragma(&mut self) -> Parse<Vec<&'s str>> {
        self.bump();
        let mut strings = Vec::new();
        loop {
            if self.tok.kind != TokenKind::String {
                return self.syntax_error();
            }
            let token = self.bump();
            strings.push(self.text(token));
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        Ok(strings)
    }

    fn alias(&mut self) -> Parse<Item<'s>> {
        let start = self.bump();
        let (alias, alias_span) = self.expect_name()?;
        self.expect(b',')?;
        let (target, target_span) = self.expect_name()?;
        self.expect(b';')?;
        let alias = self.function_symbol(alias, alias_span);
        let target = self.function_symbol(target, target_span);
        Ok(Item::Alias { alias, target, span: start.span() })
    }

    fn function_symbol(&mut self, name: Name, span: Span) -> Symbol {
        match self.names.lookup(name) {
            Meaning::Symbol(symbol) => symbol,
            _ => {
                let text = self.names.text(name);
                self.error(span, format!("Unknown symbol '{text}'"));
                Symbol::UNKNOWN
            }
        }
    }

    fn section(&mut self) -> Parse<Section<'s>> {
        self.bump();
        let name = self.dot();
        if name.is_empty() {
            return self.syntax_error();
        }
        self.bump();
        self.expect(b'{')?;
        let mut lines = Vec::new();
        while !self.eat(b'}') {
            if self.tok.kind == TokenKind::Ident {
                let token = self.bump();
                self.expect(b':')?;
                lines.push(SectionLine::Label(self.text(token)));
                continue;
            }
            let Some(ty) = self.dot().strip_prefix('.').and_then(crate::types::Type::find) else {
                return self.syntax_error();
            };
            self.bump();
            lines.push(SectionLine::Data(ty, self.section_values()?));
        }
        Ok(Section { name, lines })
    }

    /// `1, -2, label + 4, label - label, .debug_abbrev`: kept as they are written.
    fn section_values(&mut self) -> Parse<Vec<&'s str>> {
        let mut values = Vec::new();
        loop {
            let start = self.tok.span();
            let end = loop {
                self.eat(b'-');
                let value = match self.tok.kind {
                    TokenKind::Int | TokenKind::Ident | TokenKind::Dot => self.bump().span(),
                    _ => return self.syntax_error(),
                };
                if !(self.eat(b'+') || self.tok.is(b'-')) {
                    break value;
                }
            };
            values.push(self.slice(start.to(end)));
            if !self.eat(b',') {
                return Ok(values);
            }
        }
    }

    /// A plain integer token.
    pub(super) fn int(&mut self) -> Parse<u64> {
        if self.tok.kind != TokenKind::Int {
            return self.syntax_error();
        }
        let token = self.bump();
        Ok(expr::integer(self.text(token)).0)
    }

    pub(super) fn small_int(&mut self) -> Parse<u32> {
        Ok(self.int()?.min(u64::from(u32::MAX)) as u32)
    }
}

/// Where a message wants the name of the file.
pub(crate) const FILE: &str = "\u{1}";
