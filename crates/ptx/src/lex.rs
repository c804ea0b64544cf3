//! The lexer: bytes to tokens, one at a time, no allocation.
//!
//! Input is ASCII without NUL (checked before lexing). A dotted word (`.global`, `.L2::cache_hint`, `.1d`)
//! is one token; an opcode is an identifier followed by dotted words. Comments and white space vanish.

use crate::diag::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name: `main`, `%r1`, `$L__BB0_1`, `_`.
    Ident,
    /// A dotted word: `.entry`, `.s32`, `.shared::cta`.
    Dot,
    Int,
    Float,
    String,
    /// A punctuation byte, or one of the two-byte operators.
    Punct(u8),
    /// `<<`, `>>`, `<=`, `>=`, `==`, `!=`, `&&`, `||`: the first byte and the second.
    Punct2(u8, u8),
    Eof,
    /// A comment or string that never ends.
    Unterminated,
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
/// Bytes that may stand inside a dotted word besides name bytes.
const COLON: u8 = 8;

/// What each byte may be part of.
static CLASS: [u8; 256] = {
    let mut t = [0; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        if c == b' ' || c == b'\t' || c == b'\n' || c == b'\r' || c == 0x0b || c == 0x0c {
            t[b] = SPACE;
        } else if c.is_ascii_digit() {
            t[b] = NAME | DIGIT;
        } else if c.is_ascii_alphabetic() || c == b'_' || c == b'$' {
            t[b] = NAME;
        } else if c == b':' {
            t[b] = COLON;
        }
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
}

impl<'s> Lexer<'s> {
    pub fn new(source: &'s str) -> Lexer<'s> {
        Lexer { source: source.as_bytes(), pos: 0 }
    }

    fn at(&self, i: usize) -> u8 {
        self.source.get(i).copied().unwrap_or(0)
    }

    /// Moves past white space, comments and line markers; `false` when a comment doesn't end.
    fn skip_blank(&mut self) -> bool {
        loop {
            while class(self.at(self.pos)) & SPACE != 0 {
                self.pos += 1;
            }
            match self.at(self.pos) {
                b'/' if self.at(self.pos + 1) == b'/' => self.skip_line(),
                b'/' if self.at(self.pos + 1) == b'*' => {
                    let body = &self.source[self.pos + 2..];
                    match body.windows(2).position(|w| w == b"*/") {
                        Some(i) => self.pos += i + 4,
                        None => return false,
                    }
                }
                // `# 1 "file"`: a line marker of the C preprocessor.
                b'#' => self.skip_line(),
                _ => return true,
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.source[self.pos..];
        self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }

    pub fn next(&mut self) -> Token {
        let blank = self.pos;
        if !self.skip_blank() {
            let end = self.source.len();
            self.pos = end;
            return Token { kind: TokenKind::Unterminated, start: blank as u32, end: end as u32 };
        }
        let start = self.pos;
        let kind = self.token();
        Token { kind, start: start as u32, end: self.pos as u32 }
    }

    fn token(&mut self) -> TokenKind {
        if self.pos >= self.source.len() {
            return TokenKind::Eof;
        }
        let byte = self.source[self.pos];
        let c = class(byte);
        if c & DIGIT != 0 {
            return self.number();
        }
        if c & NAME != 0 || byte == b'%' && class(self.at(self.pos + 1)) & NAME != 0 {
            self.pos += 1;
            self.skip_name();
            return TokenKind::Ident;
        }
        match byte {
            b'.' if class(self.at(self.pos + 1)) & DIGIT != 0 => self.dotted_number(),
            b'.' if class(self.at(self.pos + 1)) & NAME != 0 => {
                self.pos += 1;
                self.skip_dotted_word();
                TokenKind::Dot
            }
            b'"' => self.string(),
            _ => self.punct(byte),
        }
    }

    fn skip_name(&mut self) {
        while class(self.at(self.pos)) & NAME != 0 {
            self.pos += 1;
        }
    }

    /// `.word` or `.word::word::word`; a lone colon is not part of it.
    fn skip_dotted_word(&mut self) {
        self.skip_name();
        while self.at(self.pos) == b':'
            && self.at(self.pos + 1) == b':'
            && class(self.at(self.pos + 2)) & NAME != 0
        {
            self.pos += 2;
            self.skip_name();
        }
    }

    /// Extends an opcode: all dotted words that follow without a blank. Returns the end of the last.
    pub fn opcode_tail(&mut self) -> u32 {
        while self.at(self.pos) == b'.' && class(self.at(self.pos + 1)) & NAME != 0 {
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

    /// `.5`, `.5e3` are numbers; `.1d`, `.2dms`, `.128x256b`, `.16x64b` are words.
    fn dotted_number(&mut self) -> TokenKind {
        let start = self.pos;
        self.pos += 1;
        self.skip_dotted_word();
        let text = &self.source[start + 1..self.pos];
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        match text.get(digits) {
            None => TokenKind::Float,
            Some(b'e' | b'E') if digits > 0 => {
                self.exponent_sign();
                TokenKind::Float
            }
            Some(_) => TokenKind::Dot,
        }
    }

    /// After a mantissa that ended in `e`: takes a sign and the digits behind it.
    fn exponent_sign(&mut self) {
        let last = self.source[self.pos - 1];
        if (last == b'e' || last == b'E')
            && matches!(self.at(self.pos), b'+' | b'-')
            && class(self.at(self.pos + 1)) & DIGIT != 0
        {
            self.pos += 1;
            while class(self.at(self.pos)) & DIGIT != 0 {
                self.pos += 1;
            }
        }
    }

    fn number(&mut self) -> TokenKind {
        let start = self.pos;
        if self.at(start) == b'0' {
            let digits = match self.at(start + 1) {
                b'f' | b'F' => 8,
                b'd' | b'D' => 16,
                _ => 0,
            };
            if digits != 0 && (0..digits).all(|i| self.at(start + 2 + i).is_ascii_hexdigit()) {
                self.pos = start + 2 + digits;
                return TokenKind::Float;
            }
            match self.at(start + 1) {
                b'x' | b'X' => return self.radix(|b| b.is_ascii_hexdigit()),
                b'b' | b'B' => return self.radix(|b| b == b'0' || b == b'1'),
                _ => {}
            }
        }
        while class(self.at(self.pos)) & DIGIT != 0 {
            self.pos += 1;
        }
        let mut kind = TokenKind::Int;
        if self.at(self.pos) == b'.' {
            self.pos += 1;
            kind = TokenKind::Float;
            while class(self.at(self.pos)) & DIGIT != 0 {
                self.pos += 1;
            }
        }
        if matches!(self.at(self.pos), b'e' | b'E') {
            let sign = usize::from(matches!(self.at(self.pos + 1), b'+' | b'-'));
            if class(self.at(self.pos + 1 + sign)) & DIGIT != 0 {
                self.pos += 1 + sign;
                kind = TokenKind::Float;
                while class(self.at(self.pos)) & DIGIT != 0 {
                    self.pos += 1;
                }
            }
        }
        if kind == TokenKind::Int && self.at(self.pos) == b'U' {
            self.pos += 1;
        }
        kind
    }

    fn radix(&mut self, digit: impl Fn(u8) -> bool) -> TokenKind {
        self.pos += 2;
        while digit(self.at(self.pos)) {
            self.pos += 1;
        }
        if self.at(self.pos) == b'U' {
            self.pos += 1;
        }
        TokenKind::Int
    }

    fn string(&mut self) -> TokenKind {
        self.pos += 1;
        loop {
            match self.at(self.pos) {
                b'"' => {
                    self.pos += 1;
                    return TokenKind::String;
                }
                b'\\' => self.pos += 2,
                _ if self.pos >= self.source.len() => {
                    self.pos = self.source.len();
                    return TokenKind::Unterminated;
                }
                _ => self.pos += 1,
            }
        }
    }

    fn punct(&mut self, byte: u8) -> TokenKind {
        let second = self.at(self.pos + 1);
        let double = matches!(
            (byte, second),
            (b'<', b'<')
                | (b'>', b'>')
                | (b'<', b'=')
                | (b'>', b'=')
                | (b'=', b'=')
                | (b'!', b'=')
                | (b'&', b'&')
                | (b'|', b'|')
        );
        self.pos += 1 + usize::from(double);
        if double { TokenKind::Punct2(byte, second) } else { TokenKind::Punct(byte) }
    }
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
                (Float, "0f3F800000")
            ]
        );
        assert_eq!(
            kinds("%tid.x .L1::evict_first"),
            [(Ident, "%tid"), (Dot, ".x"), (Dot, ".L1::evict_first")]
        );
    }

    #[test]
    fn comments_vanish() {
        assert_eq!(kinds("a /* b */ c // d\n# 1 \"x\"\ne").len(), 3);
        assert_eq!(kinds("/* never")[0].0, TokenKind::Unterminated);
    }
}
