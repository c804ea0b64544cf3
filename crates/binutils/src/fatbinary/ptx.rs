//! PTX as it is in a fat binary: without comments and most blanks.

/// The ISA that the text is written in.
pub fn version(text: &str) -> Option<(u16, u16)> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(".version"))?;
    let number = line.split_whitespace().next()?.trim_end_matches(';');
    let (major, minor) = number.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The text without comments. Of blanks that follow each other the first is left, at the start of a line none;
/// strings stay as they are.
pub fn stripped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut blank = true; // what was read last was a blank, or the start of a line
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
            blank = false;
            continue;
        }
        if c == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            blank = false;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let is_blank = c == ' ' || c == '\t';
        if !(is_blank && blank) {
            out.push(c);
        }
        blank = is_blank || c == '\n';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fatbinary makes of the same text.
    #[test]
    fn comments_and_blanks_go() {
        let text = "// head\n.version 9.0\n.target sm_90  // x\n\t/* a\nb */ .visible /* c */ .entry k()\n\t\tret ;\t\n.file 1 \"a  b//c\"\n";
        let wanted = "\n.version 9.0\n.target sm_90 \n .visible  .entry k()\nret ;\t\n.file 1 \"a  b//c\"\n";
        assert_eq!(stripped(text), wanted);
        assert_eq!(version(text), Some((9, 0)));
    }
}
