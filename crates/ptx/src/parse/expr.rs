//! Constants: literals and constant expressions with C's operators and precedence, folded as they are read.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Int { value: u64, unsigned: bool },
    F32(u32),
    F64(u64),
}

/// An integer literal.
pub(crate) struct Literal {
    pub value: u64,
    /// It says `U`, or doesn't fit 63 bits.
    pub unsigned: bool,
    /// ptxas noticed that digits were lost: the value had 64 bits when another digit came.
    pub overflow: bool,
}

/// The value of an integer literal. Digits beyond 64 bits are lost, as in ptxas.
pub(crate) fn integer(text: &str) -> Literal {
    let digits = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (digits, 8),
        _ => (digits, 10),
    };
    let (mut value, mut overflow) = (0u64, false);
    for digit in digits.bytes().filter_map(|b| char::from(b).to_digit(radix)) {
        overflow |= value > i64::MAX as u64;
        value = value.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(digit));
    }
    Literal { value, unsigned: text.ends_with('U') || value > i64::MAX as u64, overflow }
}

/// `0f3F800000` or `0d3FF0000000000000`.
fn hex_float(text: &str) -> Value {
    let bits = u64::from_str_radix(text.get(2..).unwrap_or(""), 16).unwrap_or(0);
    if text.len() <= 10 { Value::F32(bits as u32) } else { Value::F64(bits) }
}

/// A decimal number, and whether it is out of the range of normal numbers.
fn decimal(text: &str) -> (f64, bool) {
    let value = text.parse::<f64>().unwrap_or(0.0);
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    (value, !zero && !value.is_normal())
}

/// How tightly a binary operator binds; `None` for what is no such operator.
fn tightness(operator: TokenKind) -> Option<u32> {
    Some(match operator {
        TokenKind::Punct2(b'|', b'|') => 0,
        TokenKind::Punct2(b'&', b'&') => 1,
        TokenKind::Punct(b'|') => 2,
        TokenKind::Punct(b'^') => 3,
        TokenKind::Punct(b'&') => 4,
        TokenKind::Punct2(b'=' | b'!', b'=') => 5,
        TokenKind::Punct(b'<' | b'>') | TokenKind::Punct2(b'<' | b'>', b'=') => 6,
        TokenKind::Punct2(b'<', b'<') | TokenKind::Punct2(b'>', b'>') => 7,
        TokenKind::Punct(b'+' | b'-') => 8,
        TokenKind::Punct(b'*' | b'/' | b'%') => 9,
        _ => return None,
    })
}

/// Parentheses and unary operators may nest this deep; deeper input is refused rather than recursed into.
const MAX_DEPTH: u32 = 200;

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Parse<Value> {
        // Almost every constant is one number.
        if self.tok.kind == TokenKind::Int
            && matches!(self.lexer.peek_byte(), b',' | b';' | b']' | b'}' | b')')
        {
            let token = self.bump();
            let (value, unsigned) = self.integer_token(token);
            return Ok(Value::Int { value, unsigned });
        }
        self.conditional(0)
    }

    /// A constant that must be an integer; another is reported.
    pub(super) fn integer_constant(&mut self) -> Parse<u64> {
        let value = self.constant()?;
        Ok(self.integer_only(value))
    }

    fn integer_only(&mut self, value: Value) -> u64 {
        match value {
            Value::Int { value, .. } => value,
            _ => {
                self.error(self.tok.span(), "Integer constant expression expected");
                0
            }
        }
    }

    /// The value of a number that has been read, and whether it is unsigned.
    pub(super) fn integer_token(&mut self, token: Token) -> (u64, bool) {
        let literal = integer(self.text(token));
        if literal.overflow {
            self.error(token.span(), "Constant overflow");
        }
        (literal.value, literal.unsigned)
    }

    fn conditional(&mut self, depth: u32) -> Parse<Value> {
        if self.tok.kind == TokenKind::HexFloat {
            let token = self.bump();
            return Ok(hex_float(self.text(token)));
        }
        let condition = self.binary(0, depth)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let yes = self.conditional(depth + 1)?;
        self.expect(b':')?;
        let no = self.conditional(depth + 1)?;
        for value in [condition, yes, no] {
            self.integer_only(value);
        }
        Ok(if truth(condition) { yes } else { no })
    }

    /// Operands with operators between them that bind at least so tightly.
    fn binary(&mut self, loosest: u32, depth: u32) -> Parse<Value> {
        if depth > MAX_DEPTH {
            return self.fatal(self.tok.span(), "Constant expression is nested too deeply");
        }
        let mut left = self.unary(depth)?;
        while let Some(tightness) = tightness(self.tok.kind).filter(|t| *t >= loosest) {
            let operator = self.bump().kind;
            let right = self.binary(tightness + 1, depth)?;
            left = self.combine(operator, left, right)?;
        }
        Ok(left)
    }

    /// The result of a binary operator. Both sides must be integers or both floats; a result has the type
    /// of the left side, that of a comparison or of an operator on integers alone is an integer.
    fn combine(&mut self, operator: TokenKind, left: Value, right: Value) -> Parse<Value> {
        let (float_left, float_right) = (left.is_float(), right.is_float());
        if float_left != float_right {
            self.error(self.tok.span(), "Constant expression type mismatch");
        }
        if !on_floats(operator) && (float_left || float_right) {
            let (a, b) = (self.integer_only(left), self.integer_only(right));
            return Ok(integers(operator, a, b, false, false).unwrap_or(Value::ZERO));
        }
        let result = match (left, right) {
            (Value::Int { value: a, unsigned: ua }, Value::Int { value: b, unsigned: ub }) => {
                integers(operator, a, b, ua || ub, ua)
            }
            _ => floats(operator, left, right),
        };
        match result {
            Some(value) => Ok(value),
            None => self.fatal(self.tok.span(), "Constant expression has division by zero"),
        }
    }

    fn unary(&mut self, depth: u32) -> Parse<Value> {
        let token = self.tok;
        match token.kind {
            TokenKind::Punct(op @ (b'-' | b'!' | b'~' | b'+')) => {
                self.advance();
                if depth > MAX_DEPTH {
                    return self.fatal(token.span(), "Constant expression is nested too deeply");
                }
                let mut value = self.unary(depth + 1)?;
                if matches!(op, b'!' | b'~') && value.is_float() {
                    self.integer_only(value);
                    value = Value::ZERO;
                }
                Ok(apply(op, value))
            }
            TokenKind::Punct(b'(') => {
                self.advance();
                if self.tok.kind == TokenKind::Dot {
                    return self.cast(depth);
                }
                let value = self.conditional(depth + 1)?;
                self.expect(b')')?;
                Ok(value)
            }
            TokenKind::Int => {
                self.advance();
                let (value, unsigned) = self.integer_token(token);
                Ok(Value::Int { value, unsigned })
            }
            TokenKind::Float => {
                self.advance();
                let (value, overflow) = decimal(self.text(token));
                if overflow {
                    self.error(token.span(), "Constant overflow");
                }
                Ok(Value::F64(value.to_bits()))
            }
            TokenKind::Reserved if self.text(token) == "WARP_SZ" => {
                self.advance();
                Ok(Value::Int { value: 32, unsigned: false })
            }
            _ => self.syntax_error(),
        }
    }

    /// `(.s64)` or `(.u64)` before an operand; the parenthesis has been read.
    fn cast(&mut self, depth: u32) -> Parse<Value> {
        let word = self.dot();
        if decl::declared_type(word).is_none() {
            return self.syntax_error();
        }
        self.advance();
        self.expect(b')')?;
        let operand = self.unary(depth + 1)?;
        let value = self.integer_only(operand);
        if !matches!(word, ".u64" | ".s64") {
            self.error(self.tok.span(), "Unsupported cast operation");
        }
        Ok(Value::Int { value, unsigned: word == ".u64" })
    }
}

impl Value {
    const ZERO: Value = Value::Int { value: 0, unsigned: false };

    fn is_float(self) -> bool {
        !matches!(self, Value::Int { .. })
    }

    fn as_f64(self) -> f64 {
        match self {
            Value::Int { value, unsigned: true } => value as f64,
            Value::Int { value, .. } => value as i64 as f64,
            Value::F32(bits) => f64::from(f32::from_bits(bits)),
            Value::F64(bits) => f64::from_bits(bits),
        }
    }
}

/// Does this operator take floats?
fn on_floats(op: TokenKind) -> bool {
    match op {
        TokenKind::Punct(op) => matches!(op, b'+' | b'-' | b'*' | b'/' | b'<' | b'>'),
        TokenKind::Punct2(_, second) => second == b'=',
        _ => false,
    }
}

fn truth(value: Value) -> bool {
    match value {
        Value::Int { value, .. } => value != 0,
        Value::F32(bits) => f32::from_bits(bits) != 0.0,
        Value::F64(bits) => f64::from_bits(bits) != 0.0,
    }
}

fn apply(op: u8, value: Value) -> Value {
    match (op, value) {
        (b'-', Value::Int { value, unsigned }) => Value::Int { value: value.wrapping_neg(), unsigned },
        (b'~', Value::Int { value, unsigned }) => Value::Int { value: !value, unsigned },
        (b'-', Value::F32(bits)) => Value::F32(bits ^ 0x8000_0000),
        (b'-', Value::F64(bits)) => Value::F64(bits ^ (1 << 63)),
        (b'!', value) => Value::Int { value: u64::from(!truth(value)), unsigned: false },
        (_, value) => value,
    }
}

/// The result of an operator of which at least one side is a float; `None` for a division by zero. Where the
/// sides differ, an error has been reported and the result only has the type of the left one.
fn floats(op: TokenKind, left: Value, right: Value) -> Option<Value> {
    let (a, b) = (left.as_f64(), right.as_f64());
    let number = |x: f64| match left {
        Value::Int { .. } => Value::Int { value: x as i64 as u64, unsigned: false },
        _ => Value::F64(x.to_bits()),
    };
    let truth = |x| Value::Int { value: u64::from(x), unsigned: false };
    Some(match op {
        TokenKind::Punct(b'+') => number(a + b),
        TokenKind::Punct(b'-') => number(a - b),
        TokenKind::Punct(b'*') => number(a * b),
        TokenKind::Punct(b'/') if b == 0.0 => return None,
        TokenKind::Punct(b'/') => number(a / b),
        TokenKind::Punct(b'<') => truth(a < b),
        TokenKind::Punct(b'>') => truth(a > b),
        TokenKind::Punct2(b'<', _) => truth(a <= b),
        TokenKind::Punct2(b'>', _) => truth(a >= b),
        TokenKind::Punct2(b'=', _) => truth(a == b),
        _ => truth(a != b),
    })
}

fn integers(op: TokenKind, a: u64, b: u64, unsigned: bool, left_unsigned: bool) -> Option<Value> {
    let (sa, sb) = (a as i64, b as i64);
    let value = match op {
        TokenKind::Punct(b'+') => a.wrapping_add(b),
        TokenKind::Punct(b'-') => a.wrapping_sub(b),
        TokenKind::Punct(b'*') => a.wrapping_mul(b),
        TokenKind::Punct(b'/' | b'%') if b == 0 => return None,
        TokenKind::Punct(b'/') if unsigned => a / b,
        TokenKind::Punct(b'/') => sa.wrapping_div(sb) as u64,
        TokenKind::Punct(b'%') if unsigned => a % b,
        TokenKind::Punct(b'%') => sa.wrapping_rem(sb) as u64,
        TokenKind::Punct(b'&') => a & b,
        TokenKind::Punct(b'|') => a | b,
        TokenKind::Punct(b'^') => a ^ b,
        TokenKind::Punct2(b'<', b'<') => a.checked_shl(b as u32).unwrap_or(0),
        TokenKind::Punct2(b'>', b'>') if left_unsigned => a.checked_shr(b as u32).unwrap_or(0),
        TokenKind::Punct2(b'>', b'>') => (sa >> (b as u32).min(63)) as u64,
        _ => {
            let less = if unsigned { a < b } else { sa < sb };
            let truth = match op {
                TokenKind::Punct(b'<') => less,
                TokenKind::Punct(b'>') => !less && a != b,
                TokenKind::Punct2(b'<', _) => less || a == b,
                TokenKind::Punct2(b'>', _) => !less,
                TokenKind::Punct2(b'=', _) => a == b,
                TokenKind::Punct2(b'!', _) => a != b,
                TokenKind::Punct2(b'&', _) => a != 0 && b != 0,
                _ => a != 0 || b != 0,
            };
            return Some(Value::Int { value: u64::from(truth), unsigned: false });
        }
    };
    Some(Value::Int { value, unsigned })
}
