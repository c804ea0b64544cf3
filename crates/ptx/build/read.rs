//! Reads the lines of the table. What is wrong with one is told with its file and number.

use crate::form::*;
use crate::target::{Target, Version};
use crate::types::Type;
use crate::words::{Kind, Word};
use std::collections::BTreeMap;

pub type Result<T> = std::result::Result<T, String>;

/// A line of the table and its place.
#[derive(Clone, Copy)]
pub struct Line {
    pub file: &'static str,
    pub number: usize,
    pub text: &'static str,
}

impl Line {
    /// Reads it, and adds its place to what is wrong with it.
    pub fn read<T>(self, read: impl FnOnce(&'static str) -> Result<T>) -> Result<T> {
        read(self.text).map_err(|e| format!("{}:{}: {e}", self.file, self.number))
    }
}

/// What `set`, `arch` and `limit` lines define: the texts behind the names. They may stand after their uses.
#[derive(Default)]
pub struct Definitions {
    sets: BTreeMap<&'static str, &'static str>,
    archs: BTreeMap<&'static str, &'static str>,
    limits: BTreeMap<&'static str, &'static str>,
}

impl Definitions {
    /// Takes the line if it is a definition: `set NAME = TEXT`.
    pub fn take(&mut self, line: &'static str) -> Result<bool> {
        let (head, rest) = first_word(line);
        let (name, text) = first_word(rest);
        let all = match head {
            // `set` is an instruction as well.
            "set" if text.starts_with("= ") => &mut self.sets,
            "arch" => &mut self.archs,
            "limit" => &mut self.limits,
            _ => return Ok(false),
        };
        let text = text.strip_prefix('=').ok_or("NAME = TEXT")?.trim();
        match all.insert(name, text) {
            None => Ok(true),
            Some(_) => Err(format!("{name} is defined twice")),
        }
    }
}

/// The text before the first `|` with blanks around it, and the text behind.
fn column(line: &'static str) -> (&'static str, &'static str) {
    let bytes = line.as_bytes();
    let bar = |i: &usize| bytes[*i - 1] == b' ' && bytes.get(*i + 1).is_none_or(|b| *b == b' ');
    match line.match_indices('|').map(|(i, _)| i).filter(|i| *i > 0).find(bar) {
        Some(i) => (line[..i].trim_end(), line[i + 1..].trim_start()),
        None => (line.trim_end(), ""),
    }
}

/// The first word and what follows it.
pub fn first_word(text: &str) -> (&str, &str) {
    text.split_once(' ').map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

impl Definitions {
    /// `mnemonics modifiers | operands | gates`
    pub fn form(&self, line: &'static str) -> Result<Form> {
        let (opcode, rest) = column(line);
        let (operands, rest) = column(rest);
        let (mut gates, mut error) = (Vec::new(), None);
        for text in rest.split(';').map(str::trim).filter(|g| !g.is_empty()) {
            match text.strip_prefix("error ") {
                Some(text) => error = Some(quoted(text)?),
                None => gates.push(self.gate(text)?),
            }
        }
        let slots = self.slots(first_word(opcode).1)?;
        Ok(Form { slots, operands: self.specs(operands)?, gates: gates.leak(), error })
    }

    /// `<set>`, `.x`, `.x*y`, or several with `/` between: the words that may stand there.
    fn words(&self, text: &str) -> Result<Words> {
        let mut words = Vec::new();
        for part in text.split('/') {
            if let Some(set) = part.strip_prefix('<').and_then(|p| p.strip_suffix('>')) {
                words.extend(self.set(set)?);
            } else {
                let word = part.strip_prefix('.').ok_or_else(|| format!("'{part}' is no word"))?;
                match word.split_once('*') {
                    Some((start, end)) => words.extend(Word::matching(start, end)),
                    None => words.push(Word::find(word).ok_or_else(|| format!("no word .{word}"))?),
                }
            }
        }
        Ok(words.leak())
    }

    fn set(&self, name: &str) -> Result<Vec<Word>> {
        let text = self.sets.get(name).ok_or_else(|| format!("no set <{name}>"))?;
        let parts: Result<Vec<Words>> = text.split_whitespace().map(|part| self.words(part)).collect();
        Ok(parts?.concat())
    }

    fn arch(&self, name: &str) -> Result<Vec<Target>> {
        let text = self.archs.get(name).ok_or_else(|| format!("no arch {name}"))?;
        text.split_whitespace().map(target).collect()
    }

    fn limit(&self, name: &str) -> Result<Limit> {
        let line = self.limits.get(name).ok_or_else(|| format!("no limit {name}"))?;
        let (test, text) = line.split_once(" : ").ok_or("limit NAME = TEST : 'TEXT'")?;
        let (mut test, mut when) = (test.trim(), Condition::default());
        // A test may be of two words; what follows is when it holds.
        while let Some((before, last)) = test.rsplit_once(' ') {
            if !self.version_or_target(last, &mut when)? {
                break;
            }
            test = before.trim();
        }
        Ok(Limit { test: limit_test(test)?, text: Some(quoted(text.trim())?), when })
    }

    fn slots(&self, text: &str) -> Result<&'static [Slot]> {
        let mut slots = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let optional = rest.starts_with('{');
            let (words, others) = match rest.strip_prefix('{') {
                Some(inner) => inner.split_once('}').ok_or("'{' without '}'")?,
                None => rest.split_at(slot_end(rest)),
            };
            let words = self.words(words.trim_end())?;
            slots.push(Slot { kind: words.first().map_or(Kind::Flag, |w| w.kind()), words, optional });
            rest = others.trim_start();
        }
        Ok(slots.leak())
    }

    fn specs(&self, text: &'static str) -> Result<&'static [Spec]> {
        let specs: Result<Vec<Spec>> =
            split_top(text, ',').into_iter().map(|s| self.spec(s.trim())).collect();
        Ok(specs?.leak())
    }

    fn spec(&self, text: &'static str) -> Result<Spec> {
        if text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':') {
            return self.plain_spec(text);
        }
        if text.contains('|')
            && let [first, second] = split_top(text, '|')[..]
        {
            let pair = (self.spec(first)?, self.spec(second)?);
            return Ok(plain(Role::Pair(leak(pair)), TypeRef::Any));
        }
        if let Some(text) = text.strip_prefix('-') {
            return Ok(Spec { negates: true, ..self.spec(text)? });
        }
        if let Some((text, gate)) = text.split_once('@') {
            return Ok(Spec { gate: Some(leak(self.gate(gate)?)), ..self.spec(text.trim())? });
        }
        if let Some((text, word)) = text.rsplit_once(' ').and_then(|(t, w)| Some((t.strip_suffix(" if")?, w)))
        {
            let when = self.words(word)?.first().copied();
            return Ok(Spec { when, ..self.spec(text.trim())? });
        }
        if let Some(text) = text.strip_suffix('?') {
            return Ok(Spec { optional: true, ..self.spec(text)? });
        }
        if text == "_" {
            return Ok(plain(Role::Discard, TypeRef::Any));
        }
        if let Some(text) = text.strip_suffix('_') {
            return Ok(Spec { sink: true, ..self.spec(text)? });
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            return self.vector(inner);
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let role = match place(inner) {
                Some(place) => Role::Memory(place),
                None => Role::Address(self.specs(inner)?),
            };
            return Ok(plain(role, TypeRef::Any));
        }
        self.simple(text)
    }

    /// What stands in braces: `a*4`, `a*4^0`, or `a, b`.
    fn vector(&self, text: &'static str) -> Result<Spec> {
        let (inner, index) = match text.split_once('^') {
            Some((inner, index)) => (inner, Some(number(index)? as u8)),
            None => (text, None),
        };
        let spec = match self.specs(inner)? {
            [spec] => spec.clone(),
            specs => return Ok(Spec { count: Count::Free, ..plain(Role::Tuple(specs), TypeRef::Any) }),
        };
        let count = if spec.count == Count::One { Count::Free } else { spec.count };
        Ok(Spec { count, index, ..spec })
    }

    /// `role(values)#limit:type*count`, of which only the role must be there.
    fn simple(&self, text: &'static str) -> Result<Spec> {
        let (text, count) = match text.split_once('*').filter(|(before, _)| !before.is_empty()) {
            Some((before, count)) if !before.ends_with('(') => (before, self.count(count)?),
            _ => (text, Count::One),
        };
        let (text, ty) = match text.split_once(':') {
            Some((text, ty)) => (text, Some(self.type_ref(ty)?)),
            None => (text, None),
        };
        let (text, names) = text.split_once('#').unwrap_or((text, ""));
        let (role, mut limits) = match text.strip_suffix(')').and_then(|t| t.split_once('(')) {
            Some((role, values)) if !role.is_empty() => (role, usual_limits(values)?),
            _ => (text, Vec::new()),
        };
        for name in names.split('#').filter(|n| !n.is_empty()) {
            limits.push(self.limit(name)?);
        }
        Ok(Spec { count, limits: limits.leak(), ..operand(role, ty)? })
    }

    /// `m`, or `role:type` without anything else, as most operands are.
    fn plain_spec(&self, text: &str) -> Result<Spec> {
        if let Some(place) = place(text) {
            return Ok(plain(Role::Base(place), TypeRef::Any));
        }
        match text.split_once(':') {
            Some((role, ty)) => operand(role, Some(self.type_ref(ty)?)),
            None => operand(text, None),
        }
    }

    fn count(&self, text: &str) -> Result<Count> {
        if text == "v" {
            return Ok(Count::Vector);
        }
        if let Ok(n) = text.parse() {
            return Ok(Count::Exactly(n));
        }
        if let Some(less) = text.strip_prefix("dim") {
            let less = less.strip_prefix('-').unwrap_or("0");
            return Ok(Count::Dimension { less: number(less)? as u16 });
        }
        if let Some(n) = text.strip_suffix('+').and_then(|t| t.parse().ok()) {
            return Ok(Count::AtLeast(n));
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
        if let Some(n) = text.strip_prefix('/').and_then(index) {
            return Ok(TypeRef::Split(n));
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
        Type::find(text).map(TypeRef::Fixed).ok_or_else(|| format!("no type '{text}'"))
    }

    /// `word .x/.y !.z : gate` or `rule mnemonics … : error 'text'`
    pub fn rule(&self, line: &'static str) -> Result<Rule> {
        let (head, text) = first_word(line);
        let (step, text) = match head {
            "word" => (Step::Word, text),
            "rule" => (Step::Rule, first_word(text).1),
            "amid" => (Step::Amid, first_word(text).1),
            _ => (Step::Late, first_word(text).1),
        };
        let (condition, then) = text.split_once(": ").ok_or("WORDS : THEN")?;
        let mut when = Condition::default();
        let (mut present, mut absent, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for part in condition.split_whitespace() {
            let number = |text: &str| text.parse::<usize>().map_err(|e| format!("'{part}': {e}"));
            if self.version_or_target(part, &mut when)? {
                continue;
            }
            if let Some(words) = part.strip_prefix('!') {
                absent.extend(self.words(words)?);
            } else if let Some(n) = part.strip_prefix("args=") {
                when.operands = Some(number(n)?);
            } else if let Some((place, words)) = part.strip_prefix('t').and_then(|p| p.split_once('=')) {
                types.push((number(place)?, self.words(words)?));
            } else {
                present.push(self.words(part)?);
            }
        }
        let when = Condition { present: present.leak(), absent: absent.leak(), types: types.leak(), ..when };
        let then = match then.trim().split_once(' ') {
            Some(("error", text)) => Consequence::Error(quoted(text.trim())?),
            Some(("warn", text)) => Consequence::Warning(quoted(text.trim())?),
            _ => Consequence::Gates(self.gates(then)?),
        };
        Ok(Rule { step, when, then })
    }

    /// `ptx8.0`, `!ptx8.0`, `sm90`, `!sm90`, `in:SET`, `!in:SET`. Is it one of them?
    fn version_or_target(&self, part: &'static str, when: &mut Condition) -> Result<bool> {
        let target = |text: &str| text.parse::<u16>().map_err(|e| format!("'{part}': {e}"));
        if let Some(version) = part.strip_prefix("!ptx") {
            when.until = Some(version_number(version)?);
        } else if let Some(version) = part.strip_prefix("ptx") {
            when.from = Some(version_number(version)?);
        } else if let Some(sm) = part.strip_prefix("!sm") {
            when.until_sm = Some(target(sm)?);
        } else if let Some(sm) = part.strip_prefix("sm") {
            when.from_sm = Some(target(sm)?);
        } else if let Some(set) = part.strip_prefix("!in:") {
            when.outside = self.arch(set)?.leak();
        } else if let Some(set) = part.strip_prefix("in:") {
            when.inside = self.arch(set)?.leak();
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Gates with `;` between.
    fn gates(&self, text: &'static str) -> Result<&'static [Gate]> {
        let gates = text.split(';').map(str::trim).filter(|g| !g.is_empty());
        Ok(gates.map(|g| self.gate(g)).collect::<Result<Vec<Gate>>>()?.leak())
    }

    /// `F'name' >=90 in:SET ptx8.0`
    fn gate(&self, text: &'static str) -> Result<Gate> {
        let end = text.rfind('\'').ok_or("a gate needs a 'name'")?;
        let subject = match text.chars().next() {
            Some('F') => Subject::Feature,
            Some('I') => Subject::Instruction,
            Some('M') => Subject::Modifier,
            _ => return Err(format!("gate '{text}' must begin with F, I or M")),
        };
        let name = text.get(1..=end).unwrap_or("");
        let mut needs = Vec::new();
        for need in text[end + 1..].split_whitespace() {
            if let Some(sm) = need.strip_prefix(">=") {
                needs.push(Need::AtLeast(sm.parse().map_err(|e| format!("'{need}': {e}"))?));
            } else if let Some(set) = need.strip_prefix("in:") {
                needs.push(Need::OneOf(self.arch(set)?.leak()));
            } else if let Some(version) = need.strip_prefix("ptx") {
                needs.push(Need::Version(version_number(version)?));
            } else {
                return Err(format!("'{need}' is no requirement"));
            }
        }
        Ok(Gate { subject, name, needs: needs.leak() })
    }
}

fn plain(role: Role, ty: TypeRef) -> Spec {
    Spec {
        role,
        ty,
        count: Count::One,
        optional: false,
        sink: false,
        special: false,
        negates: false,
        when: None,
        gate: None,
        limits: &[],
        index: None,
    }
}

fn operand(role: &str, ty: Option<TypeRef>) -> Result<Spec> {
    let ty = match role {
        "p" | "q" => TypeRef::Fixed(Type::PRED),
        "i" => ty.unwrap_or(TypeRef::Any),
        _ => ty.unwrap_or(TypeRef::Slot(0)),
    };
    Ok(Spec { special: matches!(role, "s" | "x"), ..plain(named_role(role)?, ty) })
}

fn place(text: &str) -> Option<Place> {
    match text {
        "m" => Some(Place::Named(0)),
        "m1" => Some(Place::Named(1)),
        "m:shared" => Some(Place::Shared),
        "m:global" => Some(Place::Global),
        "m:any" => Some(Place::Any),
        _ => None,
    }
}

/// `90a`
fn target(text: &str) -> Result<Target> {
    Target::find(&format!("sm_{text}")).ok_or_else(|| format!("no target {text}"))
}

fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|e| format!("'{text}': {e}"))
}

fn named_role(text: &str) -> Result<Role> {
    Ok(match text {
        "d" => Role::Dest,
        "a" | "b" | "c" | "s" => Role::Source,
        "x" => Role::Movable,
        "r" => Role::Register,
        "i" => Role::Constant,
        "p" => Role::Pred,
        "q" => Role::PredDest,
        "L" => Role::Label,
        "B" => Role::Targets,
        "F" => Role::Function,
        "S" => Role::Variable,
        "T" => Role::Handle,
        "P" => Role::SamplerOf,
        "(*)" => Role::List,
        "*" => Role::Anything,
        _ => return Err(format!("'{text}' is no operand")),
    })
}

/// `0..15`, `0|2`, `!4`, `/8`, `pow2`, `nonzero`, `fraction`
fn limit_test(text: &'static str) -> Result<Test> {
    Ok(match text {
        "no constant" => Test::Register,
        "size" => Test::Size,
        "vector" => Test::Vector,
        "no selector" => Test::Selector(""),
        _ if text.starts_with('.') => Test::Selector(text),
        _ if text.starts_with('!') => Test::Except(number(&text[1..])?),
        "pow2" => Test::PowerOfTwo,
        "nonzero" => Test::NonZero,
        "fraction" => Test::Fraction,
        _ => match (text.strip_prefix('/'), text.split_once("..")) {
            (Some(multiple), _) => Test::Multiple(number(multiple)?.max(1)),
            (None, Some((low, high))) => Test::Range(number(low)?, number(high)?),
            (None, None) => Test::OneOf(text.split('|').map(number).collect::<Result<Vec<i64>>>()?.leak()),
        },
    })
}

/// The limits in `i(0..15)`, which have the words that ptxas has for most instructions.
fn usual_limits(text: &'static str) -> Result<Vec<Limit>> {
    let (first, second) = text.split_at(text.rfind('/').unwrap_or(0));
    let tests = [first, second].into_iter().filter(|test| !test.is_empty()).map(limit_test);
    let limit = |test: Result<Test>| match test? {
        test @ (Test::Range(..) | Test::Multiple(_) | Test::OneOf(_)) => {
            Ok(Limit { test, text: None, when: Condition::default() })
        }
        _ => Err(format!("'{text}' needs a text")),
    };
    tests.map(limit).collect()
}

fn version_number(text: &str) -> Result<Version> {
    let number = |t: &str| t.parse::<u8>().map_err(|e| format!("'{text}': {e}"));
    let (major, minor) = text.split_once('.').ok_or_else(|| format!("'{text}' is no version"))?;
    Ok(Version::new(number(major)?, number(minor)?))
}

fn quoted(text: &'static str) -> Result<&'static str> {
    text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).ok_or_else(|| format!("{text} needs quotes"))
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

/// What the table is made of lives as long as the build.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
