//! Constants: literals and constant expressions with C's operators and precedence, folded as they are read.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Int { value: u64, unsigned: bool },
    F32(u32),
    F64(u64),
}

/// The value of an integer literal and whether it is unsigned: it says `U`, or doesn't fit 63 bits.
/// Digits beyond 64 bits are lost, as in ptxas.
pub(crate) fn integer(text: &str) -> (u64, bool) {
    let (digits, unsigned) = match text.strip_suffix('U') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let lower = |d: &str, prefix: [char; 2]| {
        d.strip_prefix('0').and_then(|d| d.strip_prefix(prefix)).map(str::to_string)
    };
    let (digits, radix) = match (lower(digits, ['x', 'X']), lower(digits, ['b', 'B'])) {
        (Some(hex), _) => (hex, 16),
        (_, Some(binary)) => (binary, 2),
        _ if digits.len() > 1 && digits.starts_with('0') => (digits.to_string(), 8),
        _ => (digits.to_string(), 10),
    };
    let value = digits
        .chars()
        .filter_map(|c| c.to_digit(radix))
        .fold(0u64, |v, d| v.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(d)));
    (value, unsigned || value > i64::MAX as u64)
}

/// `0f3F800000`, `0d3FF0000000000000`, or a decimal number (which is an f64).
pub(crate) fn float(text: &str) -> Value {
    let hex = |prefix: [char; 2]| text.strip_prefix('0').and_then(|t| t.strip_prefix(prefix));
    if let Some(bits) = hex(['f', 'F']).and_then(|t| u32::from_str_radix(t, 16).ok()) {
        return Value::F32(bits);
    }
    if let Some(bits) = hex(['d', 'D']).and_then(|t| u64::from_str_radix(t, 16).ok()) {
        return Value::F64(bits);
    }
    Value::F64(text.parse::<f64>().unwrap_or(0.0).to_bits())
}

/// Binary operators, loosest first: the level, and the spelling.
const LEVELS: &[&[TokenKind]] = &[
    &[TokenKind::Punct2(b'|', b'|')],
    &[TokenKind::Punct2(b'&', b'&')],
    &[TokenKind::Punct(b'|')],
    &[TokenKind::Punct(b'^')],
    &[TokenKind::Punct(b'&')],
    &[TokenKind::Punct2(b'=', b'='), TokenKind::Punct2(b'!', b'=')],
    &[
        TokenKind::Punct(b'<'),
        TokenKind::Punct(b'>'),
        TokenKind::Punct2(b'<', b'='),
        TokenKind::Punct2(b'>', b'='),
    ],
    &[TokenKind::Punct2(b'<', b'<'), TokenKind::Punct2(b'>', b'>')],
    &[TokenKind::Punct(b'+'), TokenKind::Punct(b'-')],
    &[TokenKind::Punct(b'*'), TokenKind::Punct(b'/'), TokenKind::Punct(b'%')],
];

/// Parentheses and unary operators may nest this deep; deeper input is refused rather than recursed into.
const MAX_DEPTH: u32 = 200;

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Parse<Value> {
        self.conditional(0)
    }

    fn conditional(&mut self, depth: u32) -> Parse<Value> {
        let condition = self.binary(0, depth)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let yes = self.conditional(depth + 1)?;
        self.expect(b':')?;
        let no = self.conditional(depth + 1)?;
        Ok(if truth(condition) { yes } else { no })
    }

    fn binary(&mut self, level: usize, depth: u32) -> Parse<Value> {
        if depth > MAX_DEPTH {
            return self.fatal(self.tok.span(), "Constant expression is nested too deeply");
        }
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        while operators.contains(&self.tok.kind) {
            let operator = self.bump();
            let right = self.binary(level + 1, depth)?;
            left = match combine(operator.kind, left, right) {
                Some(value) => value,
                None => {
                    self.error(operator.span(), "Division by zero in constant expression");
                    left
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self, depth: u32) -> Parse<Value> {
        let token = self.tok;
        match token.kind {
            TokenKind::Punct(op @ (b'-' | b'!' | b'~' | b'+')) => {
                self.bump();
                if depth > MAX_DEPTH {
                    return self.fatal(token.span(), "Constant expression is nested too deeply");
                }
                Ok(apply(op, self.unary(depth + 1)?))
            }
            TokenKind::Punct(b'(') => {
                self.bump();
                if let Some(value) = self.cast(depth)? {
                    return Ok(value);
                }
                let value = self.conditional(depth + 1)?;
                self.expect(b')')?;
                Ok(value)
            }
            TokenKind::Int => {
                self.bump();
                let (value, unsigned) = integer(self.text(token));
                Ok(Value::Int { value, unsigned })
            }
            TokenKind::Float => {
                self.bump();
                Ok(float(self.text(token)))
            }
            TokenKind::Ident if self.text(token) == "WARP_SZ" => {
                self.bump();
                Ok(Value::Int { value: 32, unsigned: false })
            }
            _ => self.syntax_error(),
        }
    }

    /// `(.s64)` or `(.u64)` before an operand; the parenthesis has been read.
    fn cast(&mut self, depth: u32) -> Parse<Option<Value>> {
        let unsigned = match self.dot() {
            ".u64" => true,
            ".s64" => false,
            _ => return Ok(None),
        };
        self.bump();
        self.expect(b')')?;
        Ok(Some(match self.unary(depth + 1)? {
            Value::Int { value, .. } => Value::Int { value, unsigned },
            other => other,
        }))
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

/// The result of a binary operator; `None` for a division by zero.
fn combine(op: TokenKind, left: Value, right: Value) -> Option<Value> {
    if let (Value::Int { value: a, unsigned: ua }, Value::Int { value: b, unsigned: ub }) = (left, right) {
        return integers(op, a, b, ua || ub, ua);
    }
    let as_f64 = |v| match v {
        Value::Int { value, unsigned: true } => value as f64,
        Value::Int { value, .. } => value as i64 as f64,
        Value::F32(bits) => f64::from(f32::from_bits(bits)),
        Value::F64(bits) => f64::from_bits(bits),
    };
    let (a, b) = (as_f64(left), as_f64(right));
    let float = |x: f64| Some(Value::F64(x.to_bits()));
    let bool = |x| Some(Value::Int { value: u64::from(x), unsigned: false });
    match op {
        TokenKind::Punct(b'+') => float(a + b),
        TokenKind::Punct(b'-') => float(a - b),
        TokenKind::Punct(b'*') => float(a * b),
        TokenKind::Punct(b'/') => float(a / b),
        TokenKind::Punct(b'<') => bool(a < b),
        TokenKind::Punct(b'>') => bool(a > b),
        TokenKind::Punct2(b'<', _) => bool(a <= b),
        TokenKind::Punct2(b'>', _) => bool(a >= b),
        TokenKind::Punct2(b'=', _) => bool(a == b),
        TokenKind::Punct2(b'!', _) => bool(a != b),
        TokenKind::Punct2(b'&', _) => bool(a != 0.0 && b != 0.0),
        TokenKind::Punct2(b'|', _) => bool(a != 0.0 || b != 0.0),
        _ => float(0.0),
    }
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
