//! Command lines in the style of the CUDA tools: `-o FILE`, `-o=FILE`, `--output FILE`; long and short names alike
//! may have one dash or two.

/// An option that a tool knows.
pub struct Row {
    pub long: &'static str,
    pub short: &'static str,
    pub takes_value: bool,
}

/// An option that needs no value.
pub const fn flag(long: &'static str, short: &'static str) -> Row {
    Row { long, short, takes_value: false }
}

/// An option with a value.
pub const fn value(long: &'static str, short: &'static str) -> Row {
    Row { long, short, takes_value: true }
}

/// What was said: options by their long names, and what is no option.
#[derive(Default)]
pub struct Words {
    pub options: Vec<(&'static str, String)>,
    pub files: Vec<String>,
}

impl Words {
    pub fn parse(rows: &'static [Row], words: &[String]) -> Result<Words, String> {
        let mut parsed = Words::default();
        parsed.add(rows, words.iter().cloned(), 0)?;
        Ok(parsed)
    }

    fn add(
        &mut self,
        rows: &'static [Row],
        words: impl Iterator<Item = String>,
        depth: usize,
    ) -> Result<(), String> {
        let mut words = words;
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
                self.files.push(word);
                continue;
            };
            let name = name.strip_prefix('-').unwrap_or(name);
            let (name, attached) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (name, None),
            };
            let row = rows.iter().find(|row| row.long == name || row.short == name);
            let row = row.ok_or_else(|| format!("Unknown option '{word}'"))?;
            let value = match (row.takes_value, attached) {
                (true, Some(value)) => value,
                (true, None) => words.next().ok_or_else(|| format!("'{word}' needs a value"))?,
                (false, value) => value.unwrap_or_default(),
            };
            if row.long == "options-file" {
                self.add_file(rows, &value, depth)?;
            } else {
                self.options.push((row.long, value));
            }
        }
        Ok(())
    }

    fn add_file(&mut self, rows: &'static [Row], path: &str, depth: usize) -> Result<(), String> {
        if depth > 8 {
            return Err(format!("options files name each other: {path}"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
        self.add(rows, words.into_iter(), depth + 1)
    }

    pub fn has(&self, long: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == long)
    }

    /// The last value of an option.
    pub fn get(&self, long: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| *name == long).map(|(_, value)| value.as_str())
    }

    /// All values of an option as they are.
    pub fn each<'a>(&'a self, long: &'a str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(name, _)| *name == long).map(|(_, value)| value.as_str())
    }

    /// All values of an option; each may be a list.
    pub fn all<'a>(&'a self, long: &'a str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(name, _)| *name == long).flat_map(|(_, value)| value.split(','))
    }
}
