//! Words of a run line.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Integer(u64),
    /// A number with a point or an exponent, as written.
    Decimal(&'a str),
    /// PTX's `0f` and eight hex digits.
    F32Bits(u32),
    /// PTX's `0d` and sixteen hex digits.
    F64Bits(u64),
    Mark(&'static str),
}

/// A mark that starts with another one is before it.
const MARKS: [&str; 24] = [
    "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "(", ")",
    "[", "]", ",", ":",
];

/// Splits `text`, or says what can't be read.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut rest = text.trim_start();
    let mut out = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_digit() {
            number(rest)?
        } else if is_name_start(first) {
            let length = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
            (Token::Name(&rest[..length]), length)
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
            let mark = mark.ok_or_else(|| format!("unexpected {first:?}"))?;
            (Token::Mark(mark), mark.len())
        };
        out.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(out)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | '$')
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

fn number(text: &str) -> Result<(Token<'_>, usize), String> {
    let length = number_length(text);
    let word = &text[..length];
    let digits = word.get(2..).unwrap_or("");
    let token = match word.get(..2) {
        Some("0x") => u64::from_str_radix(digits, 16).ok().map(Token::Integer),
        Some("0f") if digits.len() == 8 => u32::from_str_radix(digits, 16).ok().map(Token::F32Bits),
        Some("0d") if digits.len() == 16 => u64::from_str_radix(digits, 16).ok().map(Token::F64Bits),
        _ if word.contains(['.', 'e']) => word.parse::<f64>().ok().map(|_| Token::Decimal(word)),
        _ => word.parse().ok().map(Token::Integer),
    };
    let token = token.ok_or_else(|| format!("`{word}` is no number"))?;
    Ok((token, length))
}

/// Letters and digits, points, and a sign that follows the `e` of an exponent.
fn number_length(text: &str) -> usize {
    let is_hex = text.starts_with("0x") || text.starts_with("0f") || text.starts_with("0d");
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let is_exponent_sign = !is_hex && matches!(c, '+' | '-') && previous == 'e';
        if !(c.is_ascii_alphanumeric() || c == '.' || is_exponent_sign) {
            return at;
        }
        previous = c;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_forms() {
        let words = tokens("12 0x1F 2.5 1e-3 0f3F800000 0d3FF0000000000000").unwrap();
        let expected = [
            Token::Integer(12),
            Token::Integer(31),
            Token::Decimal("2.5"),
            Token::Decimal("1e-3"),
            Token::F32Bits(0x3f80_0000),
            Token::F64Bits(0x3ff0_0000_0000_0000),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn marks_take_the_longest_match() {
        let words = tokens("a<=b<<1-0xe-2").unwrap();
        let marks: Vec<_> = words.iter().filter(|word| matches!(word, Token::Mark(_))).collect();
        assert_eq!(marks, [&Token::Mark("<="), &Token::Mark("<<"), &Token::Mark("-"), &Token::Mark("-")]);
        assert_eq!(words[0], Token::Name("a"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["12a", "0x", "0f3F80", "1.2.3", "0xfffffffffffffffff"] {
            assert_eq!(tokens(text), Err(format!("`{text}` is no number")));
        }
        assert_eq!(tokens("a # b"), Err("unexpected '#'".into()));
    }
}
