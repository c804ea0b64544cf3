//! The header of a module, its top level, and what can only be said at its end.

use super::decl::Scope;
use super::directive::PragmaPlace;
use super::*;
use rustc_hash::FxHashSet;

/// Where the header said it, for messages that come later.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HeaderSpans {
    pub version: Span,
    pub target: Span,
}

/// What is known of the module while it is read.
#[derive(Default)]
pub(crate) struct ModuleState {
    /// `texmode_independent` stands in the header: samplers are variables of their own.
    pub independent_textures: bool,
    pub debug: bool,
    /// A `.target` has named a machine.
    pub has_target: bool,
    /// Something follows the header.
    pub has_items: bool,
    pub globals: FxHashMap<Symbol, decl::Global>,
    /// Indices of `.file`.
    pub files: FxHashSet<u32>,
    /// Places that a `.loc` has named.
    pub locs: FxHashSet<(u32, u32, u32)>,
    pub section_labels: FxHashSet<Name>,
    /// There are DWARF sections.
    pub sections: bool,
    /// Something has the attribute `.unified`.
    pub unified: bool,
    /// How many branch targets `L<n>` have named.
    pub numbered_targets: u64,
    /// Functions with a body that return more than one value.
    pub many_returns: Vec<Symbol>,
}

/// Words that may follow the machine in `.target`, and the version that brought them.
const TARGET_OPTIONS: &[(&str, Version)] = &[
    ("texmode_unified", Version::new(1, 5)),
    ("texmode_independent", Version::new(1, 5)),
    ("debug", Version::new(3, 0)),
    ("map_f64_to_f32", Version::new(1, 0)),
];

impl<'s> Parser<'s> {
    pub(super) fn module(&mut self) -> Parse<Module<'s>> {
        let version = self.version_directive()?;
        let target_options = self.target_directives()?;
        if !version {
            return self.missing(".version");
        }
        let Some(target_options) = target_options else { return self.missing(".target") };
        let address_size = if self.dot() == ".address_size" { self.address_size()? } else { None };
        let mut items = Vec::new();
        while self.tok.kind != TokenKind::Eof {
            self.item(&mut items)?;
            self.module.has_items = true;
            if self.check_only {
                items.clear();
            }
        }
        self.check_whole();
        Ok(Module {
            source: SourceText::new(self.source),
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

    /// `false` if it isn't there; that is said after the target has been read.
    fn version_directive(&mut self) -> Parse<bool> {
        if self.tok.kind != TokenKind::Version {
            return Ok(false);
        }
        let token = self.bump();
        let number = self.text(token).trim_start_matches(".version").trim();
        let parts = number.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts.map(|(major, minor)| Version::new(major, minor)) {
            Some(version) if self.toolkit.accepts(version) => self.version = version,
            _ => {
                let current = self.current_version;
                let message = format!("Unsupported .version {number}; current version is '{current}'");
                return self.fatal(token.span(), message);
            }
        }
        self.header.version = token.span();
        Ok(true)
    }

    fn missing<T>(&mut self, directive: &str) -> Parse<T> {
        let file = self.file_at(self.tok.start);
        self.fatal(self.tok.span(), format!("Missing {directive} directive at start of file '{file}'"))
    }

    /// All `.target` lines; the last machine counts. `None` if there is no line.
    fn target_directives(&mut self) -> Parse<Option<Vec<&'s str>>> {
        let mut options = None;
        while self.dot() == ".target" {
            let span = self.bump().span();
            let options = options.get_or_insert_default();
            loop {
                self.target_word(span, options)?;
                if !self.eat(b',') {
                    break;
                }
            }
        }
        Ok(options)
    }

    fn target_word(&mut self, directive: Span, options: &mut Vec<&'s str>) -> Parse<()> {
        let token = self.tok;
        let text = self.text(token);
        if token.kind != TokenKind::Ident || text == "texmode_raw" {
            return self.syntax_error();
        }
        self.advance();
        let machine = text.starts_with("sm_") || text.starts_with("compute_");
        if !machine && !self.module.has_target {
            let file = self.file_at(token.start);
            return self
                .fatal(token.span(), format!("Target architecture not defined at start of file '{file}'"));
        }
        if machine {
            let known = Target::find(text).filter(|target| target.is_known_to(self.toolkit));
            let Some(target) = known else {
                return self.fatal(token.span(), format!("Unsupported .target '{text}'"));
            };
            self.target = target;
            self.header.target = directive.to(token.span());
            self.module.has_target = true;
            return Ok(());
        }
        self.target_option(text, token.span(), options)
    }

    fn target_option(&mut self, text: &'s str, span: Span, options: &mut Vec<&'s str>) -> Parse<()> {
        self.separate_samplers |= text == "texmode_independent";
        let Some((_, version)) = TARGET_OPTIONS.iter().find(|(name, _)| *name == text) else {
            return self.fatal(span, format!("Unsupported .target '{text}'"));
        };
        self.gate(text, *version, 0, span);
        let other = match text {
            "texmode_unified" => "texmode_independent",
            "texmode_independent" => "texmode_unified",
            _ => "",
        };
        match text {
            _ if options.contains(&other) => {
                self.error(span, format!("Conflicting .target option '{text}'"));
            }
            "map_f64_to_f32" if self.target.sm() >= 13 => {
                self.error(span, "Directive map_f64_to_f32 is not supported with SM 1.3 or higher");
            }
            "texmode_independent" => self.module.independent_textures = true,
            "debug" => self.module.debug = true,
            _ => {}
        }
        options.push(text);
        Ok(())
    }

    fn address_size(&mut self) -> Parse<Option<u32>> {
        let start = self.bump();
        let bits = self.small_int()?;
        self.gate(".address_size directive", Version::new(2, 3), 0, start.span());
        if !matches!(bits, 32 | 64) {
            self.error(start.span(), "Illegal value for .address_size directive (must be 32 or 64)");
            return Ok(None);
        }
        Ok(Some(bits))
    }

    fn item(&mut self, items: &mut Vec<Item<'s>>) -> Parse<()> {
        match self.dot() {
            ".file" => items.push(Item::File(self.file()?)),
            ".section" => {
                self.module.sections = true;
                items.push(Item::Section(self.section()?));
            }
            ".pragma" => items.push(Item::Pragma(self.pragma(PragmaPlace::Module)?)),
            ".alias" => items.push(Item::Alias(self.alias()?)),
            ".MACRO" => return self.macro_directive(),
            ".IF" => return self.fatal(self.tok.span(), "Ill formed conditional"),
            _ => self.declaration(items)?,
        }
        Ok(())
    }

    /// A variable or function.
    fn declaration(&mut self, items: &mut Vec<Item<'s>>) -> Parse<()> {
        let start = self.tok.span();
        let linkage = self.linkage(LINKAGES);
        match self.dot() {
            ".entry" | ".func" if !linkage.common => {
                let function = self.function(linkage, start)?;
                items.push(Item::Function(Box::new(function)));
            }
            _ => {
                let variables = self.variables(linkage, Scope::Module)?;
                items.extend(variables.into_iter().map(Item::Variable));
            }
        }
        Ok(())
    }

    /// One word of linkage, if there is one.
    pub(super) fn linkage(&mut self, words: &[&str]) -> Linkage {
        let word = self.dot();
        if !words.contains(&word) {
            return Linkage::default();
        }
        let span = self.bump().span();
        match word {
            ".weak" => self.gate(".weak directive", Version::new(3, 1), 0, span),
            ".common" => self.gate(".common directive", Version::new(5, 0), 0, span),
            _ => {}
        }
        Linkage {
            external: word == ".extern",
            visible: word == ".visible",
            weak: word == ".weak",
            common: word == ".common",
        }
    }

    pub(super) fn is_defined_variable(&self, symbol: Symbol) -> bool {
        self.module.globals.get(&symbol).is_none_or(decl::Global::is_defined)
    }

    /// What ptxas says about a module that it has read to the end, without a place.
    fn check_whole(&mut self) {
        let failed = self.diagnostics.iter().any(|d| d.severity >= Severity::Error);
        if self.module.debug && !self.module.sections && self.module.has_items {
            self.report_whole(Severity::Error, "Debug information not found in presence of .target debug");
            return;
        }
        if failed {
            return;
        }
        let many: Vec<Symbol> = self.module.many_returns.clone();
        for symbol in many {
            let name = self.symbols.get(symbol.0 as usize).map_or("", |s| self.names.text(s.name));
            let text = format!("Function '{name}' with multiple return values found, disabling ABI");
            self.report_whole(Severity::Warning, text);
        }
        if self.module.unified {
            let text = "Feature 'unified Functions' requires command line option '--compile-only'.";
            self.report_whole(Severity::Error, text);
        }
        if !self.module.locs.is_empty() && self.module.files.is_empty() {
            let text = ".loc directive without .file directive is found, line information in generated binary may not be complete";
            self.report_whole(Severity::Warning, text);
        }
    }

    fn report_whole(&mut self, severity: Severity, message: impl Into<String>) {
        let message = message.into();
        self.diagnostics.push(Diagnostic {
            severity,
            file: None,
            line: None,
            span: Span::default(),
            message,
        });
    }

    /// ptxas compares version and target last, even after an error that ended the parse.
    pub(super) fn check_target_version(&mut self) {
        if self.module.has_items && self.version < self.target.since() {
            let (version, name) = (self.version, self.target.name());
            self.error(self.header.target, format!("PTX .version {version} does not support .target {name}"));
        }
    }

    /// A plain integer token.
    pub(super) fn int(&mut self) -> Parse<u64> {
        if self.tok.kind != TokenKind::Int {
            return self.syntax_error();
        }
        let token = self.bump();
        Ok(self.integer_token(token).0)
    }

    /// A plain integer of 32 bits; what doesn't fit is reported and cut off.
    pub(super) fn small_int(&mut self) -> Parse<u32> {
        let span = self.tok.span();
        let before = self.diagnostics.len();
        let value = self.int()?;
        if value > u64::from(u32::MAX) && self.diagnostics.len() == before {
            self.error(span, "Constant overflow");
        }
        Ok(value as u32)
    }
}

/// The words of linkage at module scope.
const LINKAGES: &[&str] = &[".extern", ".visible", ".weak", ".common"];
