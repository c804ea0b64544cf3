//! Opcodes: from a spelling such as `ld.global.v4.b32` to the forms that it may be, once per spelling.
//!
//! Everything that depends on the spelling, the target and the version alone is decided here: which modifiers
//! there are, which rows of the table they fit, and what ptxas would say if they don't. Checking an
//! instruction then only looks at its operands.

use super::{Condition, Consequence, Form, Gate, Rule, Slot, Table};
use crate::target::{Target, Version};
use crate::types::Type;
use crate::words::{Kind, Word};
use smallvec::SmallVec;

#[derive(Clone, Debug, PartialEq)]
pub struct Opcode {
    /// As written, without blanks.
    pub spelling: String,
    /// The row's mnemonic: one or more words, `cp.async.bulk`. Empty if there is no such instruction.
    pub mnemonic: &'static str,
    /// The modifiers in the order in which they were written.
    pub words: SmallVec<[Word; 8]>,
    /// The rows whose modifiers fit, in the table's order.
    pub fits: SmallVec<[Fit; 1]>,
    /// What is wrong with the spelling itself, in ptxas's order.
    pub errors: Vec<OpcodeError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpcodeError {
    /// Reported as an error; other checks go on.
    Message(String),
    /// A directive's word in the place of a modifier: the parse ends at this byte of the spelling.
    Syntax { at: usize, word: String },
}

/// A row that the modifiers fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub form: u16,
    /// The word in each slot of the row.
    pub chosen: SmallVec<[Option<Word>; 8]>,
    /// The types in the row's type slots.
    pub types: SmallVec<[Option<Type>; 4]>,
}

/// Dotted words that ptxas's scanner takes for directives wherever they stand.
const DIRECTIVE_WORDS: &[&str] = &[
    "attribute",
    "branchtargets",
    "calltargets",
    "callprototype",
    "func",
    "entry",
    "reg",
    "unified",
    "align",
    "extern",
    "visible",
    "version",
    "target",
    "pragma",
    "loc",
    "file",
    "section",
    "maxnreg",
    "maxntid",
    "ptr",
];

impl Opcode {
    /// Is this word among the modifiers?
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| &w.text()[1..] == word)
    }

    /// The first modifier of a kind.
    pub fn first(&self, kind: Kind) -> Option<Word> {
        self.words.iter().copied().find(|w| w.kind() == kind)
    }

    /// The types among the modifiers, in order.
    pub fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.words.iter().filter(|w| w.kind() == Kind::Type).filter_map(|w| Type::of_word(*w))
    }

    /// How many elements `.v2`, `.v4`, `.v8` say; 1 without them.
    pub fn vector(&self) -> u32 {
        self.first(Kind::Vector).and_then(|w| w.number('v')).unwrap_or(1)
    }
}

pub fn resolve(spelling: &str, target: Target, version: Version) -> Opcode {
    let table = Table::get();
    let (mnemonic, tail) = split_mnemonic(table, spelling);
    let mut op = Opcode {
        spelling: spelling.to_string(),
        mnemonic: mnemonic.unwrap_or(""),
        words: SmallVec::new(),
        fits: SmallVec::new(),
        errors: Vec::new(),
    };
    let mut at = spelling.len() - tail.len();
    for text in tail.split('.').skip(1) {
        at += 1;
        if DIRECTIVE_WORDS.contains(&text) {
            op.errors.push(OpcodeError::Syntax { at: at - 1, word: format!(".{text}") });
            return op;
        }
        match Word::find(text) {
            // A second .sync changes nothing, ptxas finds.
            Some(word) if text == "sync" && op.words.contains(&word) => {}
            Some(word) => op.words.push(word),
            None => op.error(format!("Unknown modifier '.{text}'")),
        }
        at += text.len();
    }
    let Some(forms) = mnemonic.and_then(|m| table.forms_of(m)) else {
        let name = spelling.split('.').next().unwrap_or("");
        op.error(format!("Not a name of any known instruction: '{name}'"));
        return op;
    };
    op.duplicates();
    for &id in forms {
        if let Ok(fit) = fit(id, table.form(id), &op.words) {
            op.fits.push(fit);
        }
    }
    if op.errors.is_empty() {
        op.apply_rules(table, target, version);
    }
    if op.fits.is_empty() && op.errors.is_empty() {
        op.explain(table, forms);
    }
    op
}

/// The longest run of leading words that is a mnemonic of the table, and the modifiers behind it.
fn split_mnemonic<'a>(table: &Table, spelling: &'a str) -> (Option<&'static str>, &'a str) {
    let mut best = (None, spelling.find('.').map_or("", |i| &spelling[i..]));
    let ends = spelling.match_indices('.').map(|(i, _)| i).chain([spelling.len()]);
    for end in ends.take(6) {
        if let Some(ids) = table.forms_of(&spelling[..end]) {
            best = (ids.first().map(|id| table.form(*id).mnemonic), &spelling[end..]);
        }
    }
    best
}

impl Opcode {
    fn error(&mut self, message: String) {
        self.errors.push(OpcodeError::Message(message));
    }

    fn duplicates(&mut self) {
        for i in 1..self.words.len() {
            let word = self.words[i];
            if word.kind() == Kind::Layout
                && self.words[..i].iter().filter(|w| w.kind() == Kind::Layout).count() > 1
            {
                self.error(format!("Parsing error near '{}': too many layout specifiers", word.text()));
            }
            if self.words[..i].iter().any(|w| w.kind() == word.kind())
                && let Some(text) = word.kind().twice(word.text())
            {
                self.error(text);
            }
        }
    }

    /// Rules on single words first (`rule * .x`), as ptxas reads them word by word; then those of the
    /// instruction, in the order of the table; then the gates of the first row that fits.
    fn apply_rules(&mut self, table: &Table, target: Target, version: Version) {
        let on_words = |rule: &&Rule| rule.when.mnemonic.is_empty();
        for word in self.words.clone() {
            let here = |rule: &&Rule| rule.when.present.iter().any(|group| group.contains(&word));
            for rule in table.rules.iter().filter(on_words).filter(here) {
                self.apply(rule, target, version);
            }
        }
        for rule in table.rules.iter().filter(|rule| !on_words(rule)) {
            self.apply(rule, target, version);
        }
        if let Some(fit) = self.fits.first() {
            for gate in &table.form(fit.form).gates {
                self.pass(gate, target, version, false);
            }
        }
    }

    fn apply(&mut self, rule: &Rule, target: Target, version: Version) {
        if self.meets(&rule.when) {
            match &rule.then {
                Consequence::Error(text) => self.error(self.named(text)),
                Consequence::Gate(gate) => self.pass(gate, target, version, rule.when.mnemonic.is_empty()),
            }
        }
    }

    /// Asks for the version and then for the target; for a word it is the other way round.
    fn pass(&mut self, gate: &Gate, target: Target, version: Version, on_word: bool) {
        let named = Gate { name: self.named(&gate.name), ..gate.clone() };
        let mut refusals = named.refusals(target, version);
        if on_word {
            refusals.reverse();
        }
        refusals.into_iter().flatten().for_each(|refusal| self.error(refusal));
    }

    fn meets(&self, when: &Condition) -> bool {
        let mnemonic = match when.prefix {
            true => self.mnemonic.starts_with(when.mnemonic),
            false => self.mnemonic == when.mnemonic,
        };
        mnemonic
            && when.present.iter().all(|group| group.iter().any(|w| self.words.contains(w)))
            && !when.absent.iter().any(|w| self.words.contains(w))
            && when.types.iter().all(|(n, words)| self.type_word(*n).is_some_and(|w| words.contains(&w)))
    }

    fn type_word(&self, n: usize) -> Option<Word> {
        self.words.iter().copied().filter(|w| w.kind() == Kind::Type).nth(n)
    }

    /// A text of the table with `$m` (mnemonic), `$t0`, `$t1` (types), `$op` and `$shape` filled in.
    fn named(&self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_string();
        }
        let types: Vec<_> = self.words.iter().filter(|w| w.kind() == Kind::Type).map(|w| w.text()).collect();
        let mut out = text.replace("$m", self.mnemonic);
        for (i, ty) in types.iter().enumerate() {
            out = out.replace(&format!("$t{i}"), &ty[1..]);
        }
        if let Some(op) = self.first(Kind::Op) {
            out = out.replace("$op", &op.text()[1..]);
        }
        if let Some(shape) = self.first(Kind::Shape) {
            out = out.replace("$shape", shape.text());
        }
        out
    }

    /// Why no row fits, in ptxas's words: the types if no row takes them, else the modifiers that the
    /// nearest row doesn't take or lacks.
    fn explain(&mut self, table: &Table, forms: &[u16]) {
        let types: Vec<Word> = self.words.iter().copied().filter(|w| w.kind() == Kind::Type).collect();
        let nearest = forms
            .iter()
            .map(|id| table.form(*id))
            .filter(|form| takes_types(form, &types))
            .min_by_key(|form| misfits(form, &self.words).len());
        let Some(form) = nearest else {
            return self.error(Kind::Type.not_taken("", self.mnemonic));
        };
        let mut wrong = misfits(form, &self.words);
        wrong.sort_by_key(|w| w.kind());
        for word in wrong {
            let other = form.slots.iter().any(|slot| slot.kind() == word.kind());
            self.error(match word.kind().wrong_word(word.text(), self.mnemonic).filter(|_| other) {
                Some(text) => text,
                None => word.kind().not_taken(word.text(), self.mnemonic),
            });
        }
        if self.errors.is_empty() {
            self.error(self.lacking(form));
        }
    }

    /// What is wrong with the layouts of the matrices, if the row has any.
    fn wrong_layout(&self, form: &Form) -> Option<String> {
        let mnemonic = self.mnemonic;
        let slots: Vec<_> = form.slots.iter().filter(|s| s.kind() == Kind::Layout).collect();
        let words: Vec<_> = self.words.iter().filter(|w| w.kind() == Kind::Layout).collect();
        let wrong = slots.iter().zip(&words).position(|(slot, word)| !slot.words.contains(word));
        match (slots.len(), words.len(), wrong) {
            (2, 0, _) => Some(format!("'.alayout.blayout' modifier required for instruction '{mnemonic}'")),
            (2, 1, _) => Some(format!("'.blayout' modifier required for instruction '{mnemonic}'")),
            (slots, words, _) if slots != words => {
                Some(format!("layout modifier required for instruction '{mnemonic}'"))
            }
            (_, _, Some(i)) => {
                let matrix = ["alayout", "blayout"][i.min(1)];
                Some(format!("Illegal {matrix} '{}' for instruction '{mnemonic}'", words[i].text()))
            }
            _ => None,
        }
    }

    /// The text for a required modifier that is not there.
    fn lacking(&self, form: &Form) -> String {
        let mnemonic = self.mnemonic;
        if let Some(text) = self.wrong_layout(form) {
            return text;
        }
        let missing =
            form.slots.iter().find(|s| !s.optional && !s.words.iter().any(|w| self.words.contains(w)));
        match missing.map(Slot::kind) {
            Some(Kind::Rounding) => format!("Rounding modifier required for instruction '{mnemonic}'"),
            Some(Kind::Shape) => format!("Shape modifier required for instruction '{mnemonic}'"),
            Some(Kind::Repeat) => format!(".num modifier required for instruction '{mnemonic}'"),
            Some(Kind::Flag) => {
                let word = missing.and_then(|slot| slot.words.first()).map_or("", |w| w.group());
                format!("{word} modifier required for instruction '{mnemonic}'")
            }
            _ => Kind::Type.not_taken("", mnemonic),
        }
    }
}

/// Do the types keep their order within a kind? Flags and the like may come in any order.
fn ordered(kind: Kind) -> bool {
    matches!(kind, Kind::Type | Kind::Space | Kind::Layout | Kind::Shape | Kind::Op)
}

/// Puts each word into a slot of the row; `Err` with the first word that has none.
fn fit(id: u16, form: &Form, words: &[Word]) -> Result<Fit, Word> {
    let mut chosen: SmallVec<[Option<Word>; 8]> = SmallVec::from_elem(None, form.slots.len());
    for &word in words {
        let kind = word.kind();
        let last = chosen.iter().rposition(|c| c.is_some_and(|w| w.kind() == kind));
        let from = if ordered(kind) { last.map_or(0, |i| i + 1) } else { 0 };
        let mut found = None;
        for (i, slot) in form.slots.iter().enumerate().skip(from) {
            if chosen[i].is_none() && slot.words.contains(&word) {
                found = Some(i);
                break;
            }
            if ordered(kind) && slot.kind() == kind && !slot.optional && chosen[i].is_none() {
                break;
            }
        }
        chosen[found.ok_or(word)?] = Some(word);
    }
    let mut types = SmallVec::new();
    for (slot, word) in form.slots.iter().zip(&chosen) {
        if word.is_none() && !slot.optional {
            return Err(slot.words[0]);
        }
        if slot.kind() == Kind::Type {
            types.push(word.and_then(Type::of_word));
        }
    }
    Ok(Fit { form: id, chosen, types })
}

fn takes_types(form: &Form, types: &[Word]) -> bool {
    let slots = form.slots.iter().filter(|s| s.kind() == Kind::Type).cloned().collect();
    let only_types = Form { mnemonic: form.mnemonic, slots, operands: Vec::new(), gates: Vec::new() };
    fit(0, &only_types, types).is_ok()
}

/// The words that no slot of the row takes.
fn misfits(form: &Form, words: &[Word]) -> Vec<Word> {
    words.iter().copied().filter(|w| !form.slots.iter().any(|s| s.words.contains(w))).collect()
}
