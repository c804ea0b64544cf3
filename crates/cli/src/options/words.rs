//! Words of options files, and lists with commas. All rules were measured with ptxas 13.0.88.

/// Blanks between the words of an options file; form feeds are not.
const BLANKS: &[char] = &[' ', '\t', '\n', '\r'];

/// The words of an options file. The text ends at a NUL. A backslash takes the next character as it is; double quotes
/// keep blanks together and are dropped, also those after a backslash.
pub fn of_file(text: &str) -> Result<Vec<String>, String> {
    let text = text.split('\0').next().unwrap_or_default();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                let next = characters.next().ok_or("Stray '' character")?;
                word.get_or_insert_default().push(next);
            }
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default().push('"');
            }
            c if !quoted && BLANKS.contains(&c) => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err(STRAY_QUOTE.into());
    }
    words.extend(word);
    Ok(words.iter().map(|word| without_quotes(word)).collect())
}

const STRAY_QUOTE: &str = "Stray '\"' character";

/// A quote stays only after a backslash that itself was escaped.
fn without_quotes(word: &str) -> String {
    let mut plain = String::new();
    for c in word.chars() {
        if c != '"' || plain.ends_with('\\') {
            plain.push(c);
        }
    }
    plain
}

/// The parts of a list: commas between, blanks around them dropped, empty ones dropped; quotes keep a comma.
pub fn of_list(text: &str) -> Result<Vec<String>, String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => parts.push(String::new()),
            c => {
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    if quoted {
        return Err(STRAY_QUOTE.into());
    }
    let trimmed = parts.iter().map(|part| part.trim_matches([' ', '\t']).to_string());
    Ok(trimmed.filter(|part| !part.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_files() {
        let read = |text| of_file(text).map_err(|e| e.to_string());
        let words = |words: &[&str]| Ok(words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        assert_eq!(read("-o x\r\nt.ptx\n"), words(&["-o", "x", "t.ptx"]));
        assert_eq!(read(r#"-o "x y" 'a b'"#), words(&["-o", "x y", "'a", "b'"]));
        assert_eq!(read(r#""a\"b" a\\b a\ b """#), words(&["ab", r"a\b", "a b", ""]));
        assert_eq!(read(r#"-o "\\" t"#), words(&["-o", r#"\""#, "t"]));
        assert_eq!(read("-O2\u{c}-w"), words(&["-O2\u{c}-w"]));
        assert_eq!(read("-o x\0y t.ptx"), words(&["-o", "x"]));
        assert_eq!(read("-o \"x"), Err("Stray '\"' character".into()));
        assert_eq!(read("-o x\\"), Err("Stray '' character".into()));
    }

    #[test]
    fn lists() {
        assert_eq!(of_list(" k ,,\"a,b\",c\"d\"").unwrap(), ["k", "a,b", "cd"]);
        assert_eq!(of_list("").unwrap(), [""; 0]);
        assert_eq!(of_list(r"a\,b").unwrap(), [r"a\", "b"]);
        assert!(of_list("\"k").is_err());
    }
}
