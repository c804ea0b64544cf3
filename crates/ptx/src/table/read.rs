//! Reads the text of the table. Errors name file and line; a test reads all of it.

use super::*;
use crate::types::Type;

struct Reader {
    file: &'static str,
    line: usize,
    sets: FxHashMap<&'static str, Vec<Word>>,
    archs: FxHashMap<&'static str, Vec<Target>>,
    table: Table,
}

type Result<T> = std::result::Result<T, String>;

pub fn table(files: &[(&'static str, &'static str)]) -> Result<Table> {
    let table = Table { forms: Vec::new(), rules: Vec::new(), by_mnemonic: FxHashMap::default() };
    let mut r = Reader { file: "", line: 0, sets: FxHashMap::default(), archs: FxHashMap::default(), table };
    for (file, text) in files {
        r.file = file;
        for (i, line) in text.lines().enumerate() {
            r.line = i + 1;
            let line = line.split(" #").next().unwrap_or("").trim();
            if !line.is_empty() && !line.starts_with('#') {
                r.line(line).map_err(|e| format!("{}:{}: {e}", r.file, r.line))?;
            }
        }
    }
    Ok(r.table)
}

impl Reader {
    fn line(&mut self, line: &'static str) -> Result<()> {
        let (head, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match head {
            "set" => {
                let (name, words) = rest.split_once('=').ok_or("set NAME = WORDS")?;
                let mut all = Vec::new();
                for w in words.split_whitespace() {
                    all.extend(self.words(w)?);
                }
                self.sets.insert(name.trim(), all);
            }
            "arch" => {
                let (name, targets) = rest.split_once('=').ok_or("arch NAME = TARGETS")?;
                let find = |t: &str| Target::find(&format!("sm_{t}")).ok_or(format!("no target {t}"));
                let targets = targets.split_whitespace().map(find).collect::<Result<_>>()?;
                self.archs.insert(name.trim(), targets);
            }
            "rule" => self.rule(rest)?,
            _ => self.form(line)?,
        }
        Ok(())
    }

    /// `mnemonic modifiers | operands | gates`
    fn form(&mut self, line: &'static str) -> Result<()> {
        let mut columns = line.split(" | ");
        let opcode = columns.next().unwrap_or("").trim_end_matches(" |");
        let (mnemonic, modifiers) = opcode.split_once(char::is_whitespace).unwrap_or((opcode, ""));
        let operands = columns.next().unwrap_or("").trim();
        let gates = columns.next().unwrap_or("").split(';').map(str::trim).filter(|g| !g.is_empty());
        let form = Form {
            mnemonic,
            slots: self.slots(&modifiers.split_whitespace().collect::<String>())?,
            operands: self.specs(operands)?,
            gates: gates.map(|g| self.gate(g)).collect::<Result<_>>()?,
        };
        let id = self.table.forms.len() as u16;
        self.table.by_mnemonic.entry(mnemonic).or_default().push(id);
        self.table.forms.push(form);
        Ok(())
    }

    /// `<set>`, `.x`, `.x*y`, or several with `/` between: the words that may stand there.
    fn words(&self, text: &str) -> Result<Vec<Word>> {
        let mut words = Vec::new();
        for part in text.split('/') {
            if let Some(set) = part.strip_prefix('<').and_then(|p| p.strip_suffix('>')) {
                words.extend(self.sets.get(set).ok_or(format!("no set <{set}>"))?);
            } else {
                let word = part.strip_prefix('.').ok_or(format!("'{part}' is no word"))?;
                match word.split_once('*') {
                    Some((start, end)) => words.extend(Word::matching(start, end)),
                    None => words.push(Word::find(word).ok_or(format!("no word .{word}"))?),
                }
            }
        }
        Ok(words)
    }

    fn slots(&self, text: &str) -> Result<Vec<Slot>> {
        let mut slots = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('{') {
                let end = inner.find('}').ok_or("'{' without '}'")?;
                slots.push(Slot { words: self.words(&inner[..end])?, optional: true });
                rest = &inner[end + 1..];
            } else {
                let end = slot_end(rest);
                slots.push(Slot { words: self.words(&rest[..end])?, optional: false });
                rest = &rest[end..];
            }
        }
        Ok(slots)
    }

    fn specs(&self, text: &str) -> Result<Vec<Spec>> {
        split_top(text, ',').into_iter().map(|s| self.spec(s.trim())).collect()
    }

    fn spec(&self, text: &str) -> Result<Spec> {
        if let Some((text, gate)) = text.split_once('@') {
            return Ok(Spec { gate: Some(self.gate(gate)?), ..self.spec(text.trim())? });
        }
        if let [first, second] = split_top(text, '|')[..] {
            let pair = (self.spec(first)?, self.spec(second)?);
            return Ok(plain(Role::Pair(Box::new(pair)), TypeRef::Any));
        }
        if let Some(text) = text.strip_suffix('?') {
            return Ok(Spec { optional: true, ..self.spec(text)? });
        }
        if let Some(text) = text.strip_suffix('_') {
            return Ok(Spec { sink: true, ..self.spec(text)? });
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            let specs = self.specs(inner)?;
            let Ok([spec]) = <[Spec; 1]>::try_from(specs.clone()) else {
                return Ok(Spec { count: Count::Free, ..plain(Role::Tuple(specs), TypeRef::Any) });
            };
            let count = if spec.count == Count::One { Count::Free } else { spec.count };
            return Ok(Spec { count, ..spec });
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let inner = if inner == "m" { Vec::new() } else { self.specs(inner)? };
            return Ok(plain(Role::Address(inner), TypeRef::Any));
        }
        let (text, count) = match text.split_once('*').filter(|(before, _)| !before.is_empty()) {
            Some((before, count)) if !before.ends_with('(') => (before, self.count(count)?),
            _ => (text, Count::One),
        };
        let (text, values) = match text.split_once('(').filter(|(before, _)| !before.is_empty()) {
            Some((role, rest)) => {
                let (values, ty) = rest.split_once(')').ok_or("'(' without ')'")?;
                (format!("{role}{ty}"), self.values(values)?)
            }
            None => (text.to_string(), Values::Any),
        };
        let (role, ty) = match text.split_once(':') {
            Some((role, ty)) => (role, self.type_ref(ty)?),
            None if text == "i" => (text.as_str(), TypeRef::Any),
            None => (text.as_str(), TypeRef::Slot(0)),
        };
        let role = match role {
            "d" => Role::Dest,
            "a" | "b" | "c" => Role::Source,
            "r" => Role::Register,
            "i" => Role::Constant,
            "p" => return Ok(Spec { count, values, ..plain(Role::Pred, TypeRef::Fixed(Type::PRED)) }),
            "q" => return Ok(Spec { count, ..plain(Role::PredDest, TypeRef::Fixed(Type::PRED)) }),
            "L" => Role::Label,
            "F" => Role::Function,
            "S" => Role::Variable,
            "(*)" => Role::List,
            "*" => Role::Anything,
            _ => return Err(format!("'{role}' is no operand")),
        };
        Ok(Spec { count, values, ..plain(role, ty) })
    }

    /// `0..15`, `32..512/32`, `-1|1`
    fn values(&self, text: &str) -> Result<Values> {
        let number = |t: &str| t.parse::<i64>().map_err(|e| format!("'{t}': {e}"));
        let Some((low, high)) = text.split_once("..") else {
            return Ok(Values::OneOf(text.split('|').map(number).collect::<Result<_>>()?));
        };
        let (high, step) = high.split_once('/').unwrap_or((high, "1"));
        Ok(Values::Range { low: number(low)?, high: number(high)?, step: number(step)? })
    }

    fn count(&self, text: &str) -> Result<Count> {
        if text == "v" {
            return Ok(Count::Vector);
        }
        if let Ok(n) = text.parse() {
            return Ok(Count::Exactly(n));
        }
        let number = |t: &str| t.parse::<u16>().map_err(|e| format!("count '{text}': {e}"));
        let (rest, over) = text.split_once('/').unwrap_or((text, "1"));
        let (key, times) = rest.split_once('*').unwrap_or((rest, "1"));
        let (times, over) = (number(times)?, number(over)?);
        let mut chars = key.chars();
        match (chars.next(), chars.next(), chars.next().and_then(|c| c.to_digit(10))) {
            (Some(key), None, None) => Ok(Count::Shape { key, times, over }),
            (Some(rows), Some(columns), Some(n)) => {
                Ok(Count::Fragment { rows, columns, element: n as u8, times, over })
            }
            _ => Err(format!("'{text}' is no count")),
        }
    }

    fn type_ref(&self, text: &str) -> Result<TypeRef> {
        let index = |t: &str| t.parse::<u8>().ok();
        if text == "any" {
            return Ok(TypeRef::Any);
        }
        if let Some(n) = text.strip_prefix("~t").and_then(index) {
            return Ok(TypeRef::AtLeast(n));
        }
        if let Some(n) = text.strip_prefix('t').and_then(index) {
            return Ok(TypeRef::Slot(n));
        }
        if let Some(n) = text.strip_prefix('x').and_then(index) {
            return Ok(TypeRef::Paired(n));
        }
        if let Some(n) = text.strip_prefix('w').and_then(index) {
            return Ok(TypeRef::Wide(n));
        }
        Type::find(text).map(TypeRef::Fixed).ok_or(format!("no type '{text}'"))
    }

    fn rule(&mut self, text: &'static str) -> Result<()> {
        let (when, then) = text.split_once(" : ").ok_or("rule WHEN : THEN")?;
        let mut parts = when.split_whitespace();
        let mnemonic = parts.next().ok_or("rule without mnemonic")?;
        let (mnemonic, prefix) = match mnemonic.strip_suffix('*') {
            Some(m) => (m, true),
            None => (mnemonic, false),
        };
        let (mut present, mut absent, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            if let Some(words) = part.strip_prefix('!') {
                absent.extend(self.words(words)?);
            } else if let Some((place, words)) = part.strip_prefix('t').and_then(|p| p.split_once('=')) {
                let place = place.parse::<usize>().map_err(|e| format!("'{part}': {e}"))?;
                types.push((place, self.words(words)?));
            } else {
                present.push(self.words(part)?);
            }
        }
        let then = match then.trim().strip_prefix("error ") {
            Some(text) => Consequence::Error(quoted(text.trim())?.to_string()),
            None => Consequence::Gate(self.gate(then.trim())?),
        };
        self.table.rules.push(Rule { when: Condition { mnemonic, prefix, present, absent, types }, then });
        Ok(())
    }

    /// `F'name' >=90 in:SET ptx8.0`
    fn gate(&self, text: &str) -> Result<Gate> {
        let end = text.rfind('\'').ok_or("a gate needs a 'name'")?;
        let subject = match text.chars().next() {
            Some('F') => Subject::Feature,
            Some('I') => Subject::Instruction,
            Some('M') => Subject::Modifier,
            _ => return Err(format!("gate '{text}' must begin with F, I or M")),
        };
        let name = text.get(1..=end).unwrap_or("").to_string();
        let mut gate = Gate { subject, name, need: Need::Nothing, version: None };
        for need in text[end + 1..].split_whitespace() {
            if let Some(sm) = need.strip_prefix(">=") {
                gate.need = Need::AtLeast(sm.parse().map_err(|e| format!("'{need}': {e}"))?);
            } else if let Some(set) = need.strip_prefix("in:") {
                gate.need = Need::OneOf(self.archs.get(set).ok_or(format!("no arch {set}"))?.clone());
            } else if let Some((major, minor)) = need.strip_prefix("ptx").and_then(|v| v.split_once('.')) {
                let number = |t: &str| t.parse::<u8>().map_err(|e| format!("'{need}': {e}"));
                gate.version = Some(Version::new(number(major)?, number(minor)?));
            } else {
                return Err(format!("'{need}' is no requirement"));
            }
        }
        Ok(gate)
    }
}

fn plain(role: Role, ty: TypeRef) -> Spec {
    Spec { role, ty, count: Count::One, values: Values::Any, optional: false, sink: false, gate: None }
}

fn quoted(text: &str) -> Result<&str> {
    text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).ok_or(format!("{text} needs quotes"))
}

/// Where a required slot ends: before the next `.` that doesn't follow `/`, `<` or `{`.
fn slot_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 1;
    while i < bytes.len() {
        let starts = matches!(bytes[i], b'.' | b'<' | b'{');
        if starts && bytes[i - 1] != b'/' {
            return i;
        }
        i += 1;
    }
    text.len()
}

/// Splits at `separator` outside brackets, braces and parentheses; nothing for an empty text.
fn split_top(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}
