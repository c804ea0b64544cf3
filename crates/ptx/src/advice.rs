//! What a person wants to know beyond ptxas's message: the operand that is meant, what was expected there and what was
//! found, the form that would fit, the name that was meant, where a name was declared first, the header that would do.
//!
//! It is worked out only where [`crate::Options::advise`] asks for it, when a message has been made, so that neither
//! the messages nor the speed of the front end depend on it.

mod form;
mod nearest;
mod operands;

pub use nearest::nearest;

use crate::ast::{Inst, SymbolKind};
use crate::diag::{Advice, Severity, Span};
use crate::lex::{Lexer, Token, TokenKind};
use crate::parse::Parser;
use crate::table::{self, Role};
use crate::words::{Kind, Word};

/// So many messages of a text get advice; whoever reads more of them reads them by a program.
const MOST: usize = 200;

/// The text between the first two quotes after a beginning: `x` of `Unknown symbol 'x'`.
fn quoted<'m>(message: &'m str, start: &str) -> Option<&'m str> {
    message.strip_prefix(start)?.strip_prefix('\'')?.split('\'').next()
}

impl Parser<'_> {
    /// Works out what there is to say about the message that was made last.
    pub(crate) fn advise(&mut self) {
        let index = self.diagnostics.len().wrapping_sub(1);
        let Some(diagnostic) = self.diagnostics.get(index) else { return };
        if self.advice.len() >= MOST || diagnostic.severity < Severity::Warning {
            return;
        }
        let (message, span) = (diagnostic.message.clone(), diagnostic.span);
        let mut advice = Advice::default();
        self.advise_about_names(&message, span, &mut advice);
        self.advise_about_words(&message, span, &mut advice);
        self.advise_about_header(&message, &mut advice);
        if message == "Predicate expression expected" {
            let name = self.slice(span);
            advice.help.push(format!("a guard is a predicate: compare first, `setp.ne.b32 %p, {name}, 0;`"));
        }
        if message.starts_with("Parsing error near") {
            self.advise_about_syntax(span, &mut advice);
        }
        if advice != Advice::default() {
            self.advice.push((index, advice));
        }
    }

    /// Adds what the operands of an instruction tell about the messages from this one on.
    pub(crate) fn advise_about_operands(&mut self, from: usize, inst: &Inst) {
        for index in from..self.diagnostics.len() {
            let Some(diagnostic) = self.diagnostics.get(index) else { continue };
            let message = diagnostic.message.clone();
            let place = self.advice.iter().position(|(i, _)| *i == index);
            let mut advice = place.map(|place| self.advice.swap_remove(place).1).unwrap_or_default();
            if self.advice.len() < MOST {
                self.operand_advice(&message, inst, &mut advice);
            }
            if advice != Advice::default() {
                self.advice.push((index, advice));
            }
        }
        self.advice.sort_by_key(|(index, _)| *index);
    }

    fn advise_about_names(&self, message: &str, span: Span, advice: &mut Advice) {
        for start in ["Unknown symbol ", "Unrecognized initial value symbol "] {
            if let Some(name) = quoted(message, start) {
                advice.place = self.last_before(name, span.end);
                self.meant(name, advice);
                let line = advice.place.map_or("", |place| self.line_before(place.start));
                if advice.help.is_empty()
                    && line.split_whitespace().any(|word| word == "bra" || word.starts_with("bra."))
                {
                    advice
                        .help
                        .push(format!("put the label into this function: `{name}:` before an instruction"));
                }
            }
        }
        if let Some(name) = quoted(message, "Unknown field ") {
            advice.place = self.last_before(name, span.end);
        }
        for start in [
            "Duplicate definition of variable ",
            "Duplicate definition of function ",
            "Duplicate definition of label ",
            "Inconsistent redefinition of variable ",
            "Inconsistent redefinition of symbol ",
            "Inconsistent prototypes of ",
            "Inconsistent redefinition of ",
        ] {
            if let Some(name) = quoted(message, start) {
                let name = name.trim_end_matches('<');
                let here = self.last_before(name, span.end);
                advice.place = here;
                let first = here.and_then(|here| self.first_definition(name, here.start));
                advice.related.extend(first.map(|first| (first, format!("`{name}` is declared here first"))));
            }
        }
    }

    /// What a name without a meaning may have been meant to be.
    fn meant(&self, name: &str, advice: &mut Advice) {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let ranges = || self.body.regs.iter().filter_map(|reg| Some((reg, reg.range?)));
        if let Some((reg, count)) =
            ranges().find(|(reg, _)| self.names.text(reg.name) == prefix && prefix != name)
        {
            let ty = reg.ty.name();
            advice.label = Some("beyond the declared range".into());
            advice
                .notes
                .push(format!("`.reg .{ty} {prefix}<{count}>` declares {prefix}0 to {prefix}{}", count - 1));
            if let Ok(index) = name[prefix.len()..].parse::<u64>() {
                advice.help.push(format!("declare more of them: `.reg .{ty} {prefix}<{}>`", index + 1));
            }
            return;
        }
        // A name that differs in its number only is seldom what was meant.
        let registers =
            self.body.regs.iter().filter(|reg| reg.range.is_none()).map(|reg| self.names.text(reg.name));
        let members = ranges().map(|(reg, count)| {
            let first = self.names.text(reg.name);
            let digits = &name[prefix.len()..];
            let is_member = digits.parse::<u32>().is_ok_and(|index| index < count);
            format!("{first}{}", if is_member { digits } else { "0" })
        });
        let single = self.symbols.iter().filter(|symbol| symbol.member.is_none());
        let symbols = single.map(|symbol| self.names.text(symbol.name));
        let special = crate::sreg::TABLE.iter().map(|reg| reg.name);
        let known: Vec<String> =
            registers.chain(symbols).chain(special).map(String::from).chain(members).collect();
        match nearest(name, known.iter().map(String::as_str)) {
            Some(other) => advice.help.push(format!("did you mean `{other}`{}?", self.described(other))),
            None if name.starts_with('%') => {
                advice.help.push(format!("declare the register first: `.reg .b32 {name};`"));
            }
            None => {}
        }
    }

    /// `, the label in line 12`
    fn described(&self, name: &str) -> String {
        let symbol = self.symbols.iter().rev().find(|symbol| self.names.text(symbol.name) == name);
        let Some(symbol) = symbol else { return String::new() };
        let what = match symbol.kind {
            SymbolKind::Label | SymbolKind::Targets | SymbolKind::Prototype => "label",
            SymbolKind::Function { entry: true } => "kernel",
            SymbolKind::Function { .. } | SymbolKind::Alias(_) => "function",
            SymbolKind::Variable { .. } => "variable",
        };
        format!(", a {what}")
    }

    fn tokens(&self, from: u32) -> impl Iterator<Item = Token> {
        let source = self.source;
        let from = from.min(source.len() as u32);
        let mut lexer = Lexer::new(&source[from as usize..]);
        std::iter::from_fn(move || {
            let token = lexer.next();
            let is_end = matches!(token.kind, TokenKind::Eof | TokenKind::Unterminated);
            (!is_end).then(|| Token { start: token.start + from, end: token.end + from, ..token })
        })
    }

    /// The last time that a name stands before this place.
    fn last_before(&self, name: &str, end: u32) -> Option<Span> {
        let mut end = end as usize;
        // Comments may have the name, too: the lexer decides, line by line.
        while let Some(at) = self.source.get(..end)?.rfind(name) {
            let line = self.source[..at].rfind('\n').map_or(0, |at| at + 1);
            let is_it = |token: &Token| {
                token.start as usize == at && (token.end - token.start) as usize == name.len()
            };
            if self
                .tokens(line as u32)
                .take_while(|token| token.start as usize <= at)
                .any(|token| is_it(&token))
            {
                return Some(Span::new(at, at + name.len()));
            }
            end = at;
        }
        None
    }

    /// What stands in the line before a place.
    fn line_before(&self, at: u32) -> &str {
        let before = &self.source[..at as usize];
        &before[before.rfind('\n').map_or(0, |at| at + 1)..]
    }

    /// Where the scope that holds the place, or one around it, declares a name first.
    fn first_definition(&self, name: &str, before: u32) -> Option<Span> {
        let mut scopes: Vec<Option<Span>> = vec![None];
        for token in self.tokens(0).take_while(|token| token.start < before) {
            match token.kind {
                TokenKind::Punct(b'{') => scopes.push(None),
                TokenKind::Punct(b'}') if scopes.len() > 1 => drop(scopes.pop()),
                TokenKind::Ident if self.text(token) == name || self.is_range_of(token, name) => {
                    let scope = scopes.last_mut()?;
                    *scope = scope.or(Some(token.span()));
                }
                _ => {}
            }
        }
        // What stands in a scope before its declaration would have been unknown there, but for labels.
        let first = scopes.into_iter().rev().flatten().next()?;
        let is_label = |span: Span| self.source[span.end as usize..].trim_start().starts_with(':');
        let labelled =
            || self.tokens(first.start).filter(|token| self.text(*token) == name && is_label(token.span()));
        let is_used = self.source[..first.start as usize]
            .trim_end()
            .ends_with(|c: char| c == ',' || c.is_alphanumeric());
        match is_used && !is_label(first) {
            true => labelled().map(|token| token.span()).find(|span| span.start < before).or(Some(first)),
            false => Some(first),
        }
    }

    /// Does `%r<4>` stand here, and is the name `%r` with a number?
    fn is_range_of(&self, token: Token, name: &str) -> bool {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        self.text(token) == prefix && self.source[token.end as usize..].trim_start().starts_with('<')
    }

    /// Mnemonics and modifiers.
    fn advise_about_words(&self, message: &str, span: Span, advice: &mut Advice) {
        if let Some(name) = quoted(message, "Not a name of any known instruction: ") {
            advice.place = Some(Span { start: span.start, end: span.start + name.len() as u32 });
            let first = |mnemonic: &'static str| mnemonic.split('.').next().unwrap_or(mnemonic);
            match nearest(name, table::mnemonics().map(first)) {
                Some(other) => advice.help.push(format!("did you mean `{other}`?")),
                None => {
                    advice.help.push("`sassafras explain E0201` says where instructions are listed".into())
                }
            }
            return;
        }
        let Some(opcode) = self.opcode_at(span) else { return };
        let spelling: String = self.slice(opcode).split_whitespace().collect();
        let mnemonic = table::mnemonic(&spelling, spelling.len());
        if mnemonic.is_empty() {
            return;
        }
        if let Some(word) = quoted(message, "Unknown modifier ") {
            advice.place = self.word_in(opcode, word);
            let own = form::words(mnemonic).map(|word| word.text());
            match nearest(word, own) {
                Some(other) => advice.help.push(format!("did you mean `{other}`?")),
                None => advice.help.push(form::modifiers(mnemonic)),
            }
        } else if message.starts_with("Illegal modifier '")
            || message.contains("is not allowed for instruction")
        {
            let word = quoted(message, "Illegal modifier ").unwrap_or_default();
            advice.place = self.word_in(opcode, word);
            form::similar(mnemonic, &spelling, advice);
        } else if message.starts_with("Unexpected instruction types") {
            let last = self.tokens(opcode.start).take_while(|token| token.end <= opcode.end).last();
            let types = self.types_in(opcode).or(last.map(|token| token.span()));
            advice.place = types;
            advice.label = types.map(|_| "no form takes this".into());
            form::similar(mnemonic, &spelling, advice);
        } else if message.contains("modifier required for instruction")
            || message.contains("is required for instruction")
        {
            advice.place = Some(opcode);
            form::similar(mnemonic, &spelling, advice);
        } else if message.contains("qualifier expected for instruction") || message.starts_with("State space")
        {
            let spaces = ["global", "shared", "local", "const", "param", "tex"];
            advice.place = spaces.into_iter().find_map(|space| self.word_in(opcode, &format!(".{space}")));
        }
    }

    /// The opcode at the beginning of an instruction.
    fn opcode_at(&self, span: Span) -> Option<Span> {
        let mut tokens = self.tokens(span.start);
        let first = tokens.next().filter(|token| token.kind == TokenKind::Ident)?;
        let last = tokens.take_while(|token| token.kind == TokenKind::Dot).last();
        Some(first.span().to(last.unwrap_or(first).span()))
    }

    /// A dotted word of an opcode.
    fn word_in(&self, opcode: Span, word: &str) -> Option<Span> {
        let is_it = |token: &Token| {
            !word.is_empty() && self.text(*token).trim_start_matches('.') == word.trim_start_matches('.')
        };
        self.tokens(opcode.start)
            .take_while(|token| token.end <= opcode.end)
            .find(is_it)
            .map(|token| token.span())
    }

    /// The types of an opcode, from the first to the last.
    fn types_in(&self, opcode: Span) -> Option<Span> {
        let is_type = |token: &Token| {
            let word = Word::find(self.text(*token).trim_start_matches('.'));
            word.is_some_and(|word| word.kind() == Kind::Type)
        };
        let mut types = self.tokens(opcode.start).take_while(|token| token.end <= opcode.end).filter(is_type);
        let first = types.next()?;
        Some(first.span().to(types.last().unwrap_or(first).span()))
    }

    /// `.version` and `.target` that would do.
    fn advise_about_header(&self, message: &str, advice: &mut Advice) {
        let has = |span: Span| span.end > span.start;
        if let Some((_, rest)) = message.split_once("requires PTX ISA .version ") {
            let needed = rest.split(' ').next().unwrap_or_default();
            if has(self.header.version) {
                advice.related.push((self.header.version, "the version of this module".into()));
            }
            advice.help.push(format!("write `.version {needed}` or a later one in the header"));
        }
        let target = self.target.name();
        if let Some((_, rest)) = message.split_once("requires .target ") {
            let needed = rest.split(' ').next().unwrap_or_default();
            if has(self.header.target) {
                advice.related.push((self.header.target, "the target of this module".into()));
            }
            advice.help.push(format!(
                "write `.target {needed}` in the header, and compile with `-arch={needed}` or a later machine"
            ));
        } else if message.contains("not supported on .target") {
            if has(self.header.target) {
                advice.related.push((self.header.target, "the target of this module".into()));
            }
            let with = |suffix: &str| format!("{}{suffix}", target.trim_end_matches(['a', 'f']));
            let others = ["a", "f"].map(with).into_iter().filter(|name| name != target);
            let others: Vec<String> = others.filter(|name| crate::Target::find(name).is_some()).collect();
            if !others.is_empty() {
                advice.help.push(format!(
                    "features of one machine need its own target: try `.target {}` and the same `-arch`",
                    others.join("` or `.target ")
                ));
            }
        }
        if let Some(name) = quoted(message, "Unsupported .target ") {
            let known = targets::PTX_TARGETS.iter().map(|target| target.name);
            match nearest(name, known.clone()) {
                Some(other) => advice.help.push(format!("did you mean `{other}`?")),
                None => {
                    let newest: Vec<&str> = known.filter(|name| name.len() >= 5).collect();
                    advice.notes.push(format!("targets are {}", newest.join(", ")));
                }
            }
        }
        if message.starts_with("PTX .version") {
            let since = self.target.since();
            if has(self.header.version) {
                advice.related.push((self.header.version, "the version of this module".into()));
            }
            advice.help.push(format!("{target} needs `.version {since}` or later"));
        }
    }

    /// What is missing before a token that doesn't belong: most often the end of the statement before.
    fn advise_about_syntax(&self, span: Span, advice: &mut Advice) {
        let before = self.source[..span.start as usize].trim_end();
        let at = before.len();
        let is_on_this_line = !self.source[at..span.start as usize].contains('\n');
        let is_ended = before.ends_with([';', '{', '}', ':']);
        let opcode = self.slice(span);
        if !is_on_this_line && !is_ended && !before.is_empty() {
            advice
                .related
                .push((Span::new(at.saturating_sub(1), at), "the statement before has no `;`".into()));
            advice.help.push("end it with `;`".into());
        } else if self.function.symbol.is_none() && opcode.starts_with('.') {
            let words = [
                ".version",
                ".target",
                ".address_size",
                ".entry",
                ".func",
                ".global",
                ".visible",
                ".extern",
                ".const",
                ".shared",
            ];
            if let Some(other) = nearest(opcode, words).filter(|other| *other != opcode) {
                advice.help.push(format!("did you mean `{other}`?"));
            }
        } else if opcode.starts_with('.') {
            let words = [".reg", ".shared", ".local", ".param", ".pragma", ".loc", ".global", ".const"];
            if let Some(other) = nearest(opcode, words).filter(|other| *other != opcode) {
                advice.help.push(format!("did you mean `{other}`?"));
            }
        }
    }
}

/// Is an operand of this kind written?
fn is_result(role: &Role) -> bool {
    matches!(role, Role::Dest | Role::PredDest | Role::Discard)
}
