//! Numbers as C's `strtol` reads them with base 0: blanks, a sign, then decimal, `0x…` or octal digits.

/// The whole text as a number; nothing at all is zero. A number that does not fit is cut to the nearest that does.
pub fn read(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, base) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i128 = 0;
    for c in digits.chars() {
        value = (value * i128::from(base) + i128::from(c.to_digit(base)?)).min(1 << 64);
    }
    let value = if negative { -value } else { value };
    Some(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn like_strtol() {
        for (text, value) in
            [("", 0), ("3", 3), ("-1", -1), ("+1", 1), ("010", 8), ("0x40", 64), (" 64", 64), ("0", 0)]
        {
            assert_eq!(read(text), Some(value), "{text:?}");
        }
        for text in ["x", "1x", "0x", "08", "64 ", " ", "-", "+", "--1", "1e3", "0b1"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read("99999999999999999999"), Some(i64::MAX));
        assert_eq!(read("-99999999999999999999"), Some(i64::MIN));
    }
}
