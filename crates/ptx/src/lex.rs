//! The lexer: bytes to tokens, one at a time, no allocation.
//!
//! Input is ASCII without NUL (checked before lexing). A dotted word (`.global`, `.L2::cache_hint`, `.1d`)
//! is one token; an opcode is an identifier followed by dotted words. Comments and white space vanish; line
//! markers of the C preprocessor vanish too, but are remembered. Where ptxas's scanner cuts malformed text
//! (`089` is `0` and `89`, `0f3f80` is `0` and `f3f80`), this one cuts it the same way, because the first
//! token that doesn't fit is named in the message.

use crate::diag::Span;
use rustc_hash::FxHashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name: `main`, `%r1`, `$L__BB0_1`.
    Ident,
    /// `_`, `WARP_SZ`, `function_name`, `inlined_at`: words that can name nothing.
    Reserved,
    /// A dotted word: `.entry`, `.s32`, `.shared::cta`.
    Dot,
    /// `.version 9.0`, number and all.
    Version,
    Int,
    /// A decimal number with a fraction or an exponent.
    Float,
    /// `0f3F800000` or `0d3FF0000000000000`: not a number to calculate with.
    HexFloat,
    String,
    /// A punctuation byte, or one of the two-byte operators.
    Punct(u8),
    /// `<<`, `>>`, `<=`, `>=`, `==`, `!=`, `&&`, `||`: the first byte and the second.
    Punct2(u8, u8),
    Eof,
    /// A comment that never ends.
    Unterminated,
}

/// `# 100 "file.cu"`: the next line counts as line 100 of that file.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    /// Offset of the line break that ends the marker.
    pub end: u32,
    pub line: u32,
    /// The name without its quotes.
    pub file: Span,
}

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}

impl Token {
    pub fn span(&self) -> Span {
        Span { start: self.start, end: self.end }
    }

    pub fn is(&self, punct: u8) -> bool {
        self.kind == TokenKind::Punct(punct)
    }
}

const SPACE: u8 = 1;
const NAME: u8 = 2;
const DIGIT: u8 = 4;
/// It may be the first of two bytes that are one operator.
const DOUBLE: u8 = 8;

/// What each byte may be part of.
static CLASS: [u8; 256] = {
    let mut t = [0; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        t[b] = match c {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => NAME | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => NAME,
            b'<' | b'>' | b'=' | b'!' | b'&' | b'|' => DOUBLE,
            _ => 0,
        };
        b += 1;
    }
    t
};

fn class(byte: u8) -> u8 {
    CLASS[byte as usize]
}

pub struct Lexer<'s> {
    source: &'s [u8],
    pos: usize,
    /// The line markers met so far, in order.
    pub markers: Vec<Marker>,
}

impl<'s> Lexer<'s> {
    pub fn new(source: &'s str) -> Lexer<'s> {
        Lexer { source: source.as_bytes(), pos: 0, markers: Vec::new() }
    }

    /// All names from here on that end in a digit.
    pub fn numbered_names(mut self) -> FxHashSet<&'s str> {
        let mut names = FxHashSet::default();
        loop {
            let token = self.next();
            let text = &self.source[token.start as usize..token.end as usize];
            match token.kind {
                TokenKind::Eof => return names,
                TokenKind::Ident if text.last().is_some_and(u8::is_ascii_digit) => {
                    names.extend(std::str::from_utf8(text));
                }
                _ => {}
            }
        }
    }

    fn at(&self, i: usize) -> u8 {
        self.source.get(i).copied().unwrap_or(0)
    }

    /// Moves past white space, comments and line markers; `false` when a comment doesn't end.
    fn skip_blank(&mut self) -> bool {
        self.skip(SPACE);
        !matches!(self.at(self.pos), b'/' | b'#') || self.skip_comments()
    }

    /// The rest of [`Lexer::skip_blank`] where a comment or a line marker may begin, as few tokens have it.
    #[inline(never)]
    fn skip_comments(&mut self) -> bool {
        loop {
            match self.at(self.pos) {
                b'/' if self.at(self.pos + 1) == b'/' => self.skip_line(),
                b'/' if self.at(self.pos + 1) == b'*' => {
                    let body = &self.source[self.pos + 2..];
                    match body.windows(2).position(|w| w == b"*/") {
                        Some(i) => self.pos += i + 4,
                        None => return false,
                    }
                }
                b'#' if self.skip_marker() => {}
                _ => return true,
            }
            self.skip(SPACE);
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.source[self.pos..];
        self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }

    /// Moves past `# 100 "file" 1 3` or `#line 100 "file"`; `false`, and no move, if this is no line marker.
    fn skip_marker(&mut self) -> bool {
        let rest = &self.source[self.pos..];
        let rest = &rest[..rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())];
        let end = (self.pos + rest.len()) as u32;
        let Some((line, name_start, name_len)) = read_marker(rest) else { return false };
        let file = Span::new(self.pos + name_start, self.pos + name_start + name_len);
        if self.markers.last().is_none_or(|m| m.end < end) {
            self.markers.push(Marker { end, line, file });
        }
        self.pos = end as usize;
        true
    }

    pub fn next(&mut self) -> Token {
        if !self.skip_blank() {
            let start = self.pos as u32;
            let end = self.source.len();
            self.pos = end;
            return Token { kind: TokenKind::Unterminated, start, end: end as u32 };
        }
        let start = self.pos;
        let kind = self.token();
        Token { kind, start: start as u32, end: self.pos as u32 }
    }

    fn token(&mut self) -> TokenKind {
        let Some(&byte) = self.source.get(self.pos) else { return TokenKind::Eof };
        match byte {
            b'%' if class(self.at(self.pos + 1)) & NAME != 0 => self.name(),
            b'.' if class(self.at(self.pos + 1)) & DIGIT != 0 => self.dotted_number(),
            b'.' if class(self.at(self.pos + 1)) & NAME != 0 => self.dotted_word(),
            b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            _ if class(byte) & NAME != 0 => self.name(),
            _ => self.punct(byte),
        }
    }

    fn dotted_word(&mut self) -> TokenKind {
        let start = self.pos;
        self.pos += 1;
        self.skip_dotted_word();
        if &self.source[start..self.pos] == b".version" { self.version() } else { TokenKind::Dot }
    }

    fn name(&mut self) -> TokenKind {
        let start = self.pos;
        self.pos += 1;
        self.skip(NAME);
        match &self.source[start..self.pos] {
            b"$" => TokenKind::Punct(b'$'),
            b"_" | b"WARP_SZ" | b"function_name" | b"inlined_at" => TokenKind::Reserved,
            _ => TokenKind::Ident,
        }
    }

    /// After `.version`: blanks and a number on the same line belong to it.
    fn version(&mut self) -> TokenKind {
        let here = self.pos;
        while matches!(self.at(self.pos), b' ' | b'\t') {
            self.pos += 1;
        }
        let (blanks, major) = (self.pos - here, self.digits());
        if blanks > 0 && major > 0 && self.at(self.pos) == b'.' {
            self.pos += 1;
            if self.digits() > 0 {
                return TokenKind::Version;
            }
        }
        self.pos = here;
        TokenKind::Dot
    }

    /// Moves past digits and counts them.
    fn digits(&mut self) -> usize {
        let start = self.pos;
        self.skip(DIGIT);
        self.pos - start
    }

    /// Moves past bytes of a class.
    fn skip(&mut self, wanted: u8) {
        while self.source.get(self.pos).is_some_and(|b| class(*b) & wanted != 0) {
            self.pos += 1;
        }
    }

    /// `.word` or `.word::word::word`; a lone colon is not part of it.
    fn skip_dotted_word(&mut self) {
        self.skip(NAME);
        while self.at(self.pos) == b':'
            && self.at(self.pos + 1) == b':'
            && class(self.at(self.pos + 2)) & NAME != 0
        {
            self.pos += 2;
            self.skip(NAME);
        }
    }

    /// Extends an opcode: all dotted words that follow without a blank. Returns the end of the last.
    pub fn opcode_tail(&mut self) -> u32 {
        while self.at(self.pos) == b'.' {
            let next = class(self.at(self.pos + 1));
            if next & NAME == 0 || next & DIGIT != 0 && self.at_number() {
                break;
            }
            self.pos += 1;
            self.skip_dotted_word();
        }
        self.pos as u32
    }

    /// The byte that the next token begins with, when no blank precedes it.
    pub fn peek_byte(&self) -> u8 {
        self.at(self.pos)
    }

    /// What follows after blanks, without consuming anything.
    pub fn peek_after_blank(&mut self) -> &'s [u8] {
        let here = self.pos;
        let readable = self.skip_blank();
        let next = std::mem::replace(&mut self.pos, here);
        if readable { self.source.get(next..).unwrap_or(&[]) } else { &[] }
    }

    /// Does the dot here begin a number?
    fn at_number(&self) -> bool {
        let rest = self.source.get(self.pos + 1..).unwrap_or(&[]);
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && !matches!(rest.get(digits), Some(b'd' | b'x' | b'b'))
    }

    /// `.5`, `.5e3` are numbers; `.1d`, `.2dms`, `.128x256b`, `.16x64b` are words.
    fn dotted_number(&mut self) -> TokenKind {
        self.pos += 1;
        self.digits();
        if matches!(self.at(self.pos), b'd' | b'x' | b'b') {
            self.skip_dotted_word();
            return TokenKind::Dot;
        }
        self.exponent();
        TokenKind::Float
    }

    /// `e+12`, if all of it is there.
    fn exponent(&mut self) -> bool {
        let here = self.pos;
        if matches!(self.at(self.pos), b'e' | b'E') {
            self.pos += 1 + usize::from(matches!(self.at(self.pos + 1), b'+' | b'-'));
            if self.digits() > 0 {
                return true;
            }
        }
        self.pos = here;
        false
    }

    fn number(&mut self) -> TokenKind {
        let start = self.pos;
        if self.at(start) == b'0'
            && let Some(kind) = self.prefixed_number()
        {
            return kind;
        }
        self.digits();
        let dot = self.at(self.pos) == b'.';
        if dot {
            self.pos += 1;
            self.digits();
        }
        if self.exponent() || dot {
            return TokenKind::Float;
        }
        if self.at(start) == b'0' {
            self.pos = start;
            while matches!(self.at(self.pos), b'0'..=b'7') {
                self.pos += 1;
            }
        }
        self.unsigned_suffix()
    }

    /// `0x1F`, `0b101`, `0f3F800000`, `0d3FF0000000000000`.
    fn prefixed_number(&mut self) -> Option<TokenKind> {
        let start = self.pos + 2;
        let count = |digit: fn(&u8) -> bool| {
            self.source.get(start..).unwrap_or(&[]).iter().take_while(|b| digit(b)).count()
        };
        let hex = || count(u8::is_ascii_hexdigit);
        let (digits, kind) = match self.at(self.pos + 1) {
            b'f' | b'F' if hex() >= 8 => (8, TokenKind::HexFloat),
            b'd' | b'D' if hex() >= 16 => (16, TokenKind::HexFloat),
            b'x' | b'X' => (hex(), TokenKind::Int),
            b'b' | b'B' => (count(|b| matches!(b, b'0' | b'1')), TokenKind::Int),
            _ => (0, TokenKind::Int),
        };
        if digits == 0 {
            return None;
        }
        self.pos = start + digits;
        Some(if kind == TokenKind::Int { self.unsigned_suffix() } else { kind })
    }

    fn unsigned_suffix(&mut self) -> TokenKind {
        self.pos += usize::from(self.at(self.pos) == b'U');
        TokenKind::Int
    }

    /// A string has no escapes and may hold line breaks; without an end it is a lone quote.
    fn string(&mut self) -> TokenKind {
        let rest = self.source.get(self.pos + 1..).unwrap_or(&[]);
        match rest.iter().position(|&b| b == b'"') {
            Some(length) => {
                self.pos += length + 2;
                TokenKind::String
            }
            None => self.punct(b'"'),
        }
    }

    fn punct(&mut self, byte: u8) -> TokenKind {
        self.pos += 1;
        if class(byte) & DOUBLE != 0 {
            let second = self.at(self.pos);
            let same = second == byte && !matches!(byte, b'!');
            let compares = second == b'=' && matches!(byte, b'<' | b'>' | b'!');
            if same || compares {
                self.pos += 1;
                return TokenKind::Punct2(byte, second);
            }
        }
        TokenKind::Punct(byte)
    }
}

/// The line number and the place of the file name in the text of a line marker, which starts with `#`.
fn read_marker(text: &[u8]) -> Option<(u32, usize, usize)> {
    let blanks = |at: usize| at + text[at..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
    let digits = |at: usize| at + text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = blanks(1);
    if text[at..].starts_with(b"line") {
        at = blanks(at + 4);
    }
    let number = at;
    at = digits(at);
    let line = std::str::from_utf8(&text[number..at]).ok()?.parse().ok()?;
    at = blanks(at);
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let name = at + 1;
    let length = text[name..].iter().position(|&b| b == b'"')?;
    at = blanks(name + length + 1);
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at = blanks(digits(at));
    }
    (at == text.len()).then_some((line, name, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            let t = lexer.next();
            if t.kind == TokenKind::Eof {
                return out;
            }
            out.push((t.kind, &text[t.start as usize..t.end as usize]));
        }
    }

    #[test]
    fn words_and_numbers() {
        use TokenKind::*;
        assert_eq!(
            kinds(".1d .5 .5e-3 .16x64b"),
            [(Dot, ".1d"), (Float, ".5"), (Float, ".5e-3"), (Dot, ".16x64b")]
        );
        assert_eq!(
            kinds("0x1fU 0b10 017 1. 1e3 0f3F800000"),
            [
                (Int, "0x1fU"),
                (Int, "0b10"),
                (Int, "017"),
                (Float, "1."),
                (Float, "1e3"),
                (HexFloat, "0f3F800000")
            ]
        );
        assert_eq!(
            kinds("%tid.x .L1::evict_first"),
            [(Ident, "%tid"), (Dot, ".x"), (Dot, ".L1::evict_first")]
        );
    }

    #[test]
    fn malformed_numbers_are_cut_as_ptxas_cuts_them() {
        use TokenKind::*;
        assert_eq!(kinds("089"), [(Int, "0"), (Int, "89")]);
        assert_eq!(kinds("0f3f80"), [(Int, "0"), (Ident, "f3f80")]);
        assert_eq!(kinds("0x 0b2"), [(Int, "0"), (Ident, "x"), (Int, "0"), (Ident, "b2")]);
        assert_eq!(kinds("1.5e"), [(Float, "1.5"), (Ident, "e")]);
        assert_eq!(kinds("0x1.8p3"), [(Int, "0x1"), (Float, ".8"), (Ident, "p3")]);
        assert_eq!(kinds(".version 9.0.1"), [(Version, ".version 9.0"), (Float, ".1")]);
        assert_eq!(kinds("\"open"), [(Punct(b'"'), "\""), (Ident, "open")]);
    }

    #[test]
    fn comments_vanish() {
        assert_eq!(kinds("a /* b */ c // d\n# 1 \"x\"\ne").len(), 3);
        assert_eq!(kinds("# 1 x").len(), 3);
        assert_eq!(kinds("/* never")[0].0, TokenKind::Unterminated);
    }
}
