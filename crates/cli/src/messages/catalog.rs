//! The code of a message, the way out, and what `sassafras explain` says: read from `catalog.txt`.

use crate::hint::hint;
use std::sync::OnceLock;

/// All messages of one kind.
#[derive(Debug, Default)]
pub struct Entry {
    pub code: &'static str,
    /// The wordings, with `*` for any text.
    pub wordings: Vec<&'static str>,
    /// A way out, with `$1` for what the first star stands for.
    help: &'static str,
    about: &'static str,
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| read(include_str!("catalog.txt")))
}

fn read(text: &'static str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if is_code(line) {
            entries.push(Entry { code: line, ..Entry::default() });
        } else if let Some(entry) = entries.last_mut() {
            match (line.strip_prefix("~ "), line.strip_prefix("= ")) {
                (Some(wording), _) => entry.wordings.push(wording),
                (_, Some(help)) => entry.help = help,
                _ => entry.about = line,
            }
        }
    }
    entries
}

/// `E0101`
pub fn is_code(word: &str) -> bool {
    word.len() == 5 && word.strip_prefix('E').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// What the catalog has about a message.
pub struct Known {
    pub code: &'static str,
    pub help: String,
    /// What the stars of the wording stand for.
    pub words: Vec<String>,
}

/// The first entry that has the message.
pub fn find(message: &str) -> Option<Known> {
    let known = |entry: &Entry| {
        let words = entry.wordings.iter().find_map(|wording| words(wording, message))?;
        let fill =
            |text: String, (index, word): (usize, &&str)| text.replace(&format!("${}", index + 1), word);
        let help = words.iter().enumerate().fold(entry.help.to_string(), fill);
        Some(Known { code: entry.code, help, words: words.into_iter().map(String::from).collect() })
    };
    entries().iter().find_map(known)
}

/// What the stars of a wording stand for in a message; each takes as little as it can.
fn words<'m>(wording: &str, message: &'m str) -> Option<Vec<&'m str>> {
    let Some((start, rest)) = wording.split_once('*') else { return (wording == message).then(Vec::new) };
    let mut message = message.strip_prefix(start)?;
    let mut found = Vec::new();
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        let at = match parts.peek() {
            None if part.is_empty() => message.len(),
            None => message.strip_suffix(part)?.len(),
            Some(_) => message.find(part)?,
        };
        found.push(&message[..at]);
        message = &message[at + part.len()..];
    }
    Some(found)
}

/// `sassafras explain E0101`
pub fn explain(code: &str) -> Result<String, String> {
    let Some(entry) = entries().iter().find(|entry| entry.code == code) else {
        let known = entries().iter().map(|entry| entry.code);
        let near = hint(code, known);
        return Err(format!("there is no message {code}{near}\n`sassafras help messages` lists them"));
    };
    let wordings: String =
        entry.wordings.iter().map(|wording| format!("  {}\n", wording.replace('*', "…"))).collect();
    let help = entry.help.replace(['$'], "…").replace("…1", "…").replace("…2", "…");
    Ok(format!("{code}\n\n{wordings}\n{}\n\nWay out: {help}.\n", folded(entry.about)))
}

/// `sassafras help messages`
pub fn list() -> String {
    let line = |entry: &Entry| {
        let first = entry.wordings.first().map_or(String::new(), |wording| wording.replace('*', "…"));
        format!("{}  {first}\n", entry.code)
    };
    let head =
        "The codes of messages, with the first wording of each; `sassafras explain CODE` says more.\n\n";
    entries().iter().fold(head.to_string(), |text, entry| text + &line(entry))
}

/// Lines of at most a hundred letters.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// What `explain` is asked for, if that is a code.
pub fn asked_for(words: &[String]) -> Option<&str> {
    match words {
        [explain, code] if explain == "explain" && is_code(code) => Some(code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wordings_match_whole_messages() {
        assert_eq!(words("Unknown symbol '*'", "Unknown symbol 'x'"), Some(vec!["x"]));
        assert_eq!(words("a * b*", "a x b"), Some(vec!["x", ""]));
        assert_eq!(words("* requires * or later", "F 'x' requires 8.0 or later"), Some(vec!["F 'x'", "8.0"]));
        assert_eq!(words("Unknown symbol '*'", "Unknown symbols"), None);
        assert_eq!(words("plain", "plain"), Some(vec![]));
    }

    #[test]
    fn every_entry_is_whole_and_codes_rise() {
        let all = entries();
        assert!(all.len() > 60);
        assert!(all.windows(2).all(|pair| pair[0].code < pair[1].code), "codes are in order");
        for entry in all {
            assert!(
                !entry.wordings.is_empty() && !entry.help.is_empty() && entry.about.len() > 40,
                "{}",
                entry.code
            );
            let text = explain(entry.code).expect("an explanation");
            assert!(text.contains("Way out") && !text.contains('$'), "{text}");
        }
        assert!(explain("E0109").is_err());
    }

    /// Everything that ptxas was seen to say, in PTX and on the command line, has a code.
    #[test]
    fn every_recorded_message_has_a_code() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut messages = std::collections::BTreeSet::new();
        for folder in [root.join("../ptx/tests/mistakes"), root.join("tests/commands")] {
            for file in std::fs::read_dir(folder).expect("recordings") {
                let path = file.expect("a file").path();
                let text = if path.is_file() {
                    std::fs::read_to_string(&path).expect("text")
                } else {
                    String::new()
                };
                for severity in ["error   : ", "fatal   : ", "warning : "] {
                    let told = text.lines().filter(|line| line.trim_start().starts_with("ptxas "));
                    messages.extend(
                        told.filter_map(|line| line.split_once(severity)).map(|(_, m)| m.to_string()),
                    );
                }
            }
        }
        messages.remove("Ptx assembly aborted due to errors");
        assert!(messages.len() > 600, "{}", messages.len());
        let without: Vec<&String> = messages.iter().filter(|message| find(message).is_none()).collect();
        assert!(without.is_empty(), "{without:#?}");
    }
}
