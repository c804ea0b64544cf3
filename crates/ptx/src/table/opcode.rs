//! Opcodes: from a spelling such as `ld.global.v4.b32` to the forms that it may be, once per spelling.
//!
//! Everything that depends on the spelling, the target and the version alone is decided here: which modifiers
//! there are, which rows of the table they fit, and what ptxas would say if they don't. Checking an
//! instruction then only looks at its operands.

use super::{Condition, Consequence, Form, Gate, Slot, Step, Table};
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
    /// The rows that take the types and the other words that choose a form: first those that take all words,
    /// in the table's order. Empty if there are none: `errors` says why.
    pub fits: SmallVec<[Fit; 1]>,
    /// What is wrong with the spelling itself, in ptxas's order; said before the operands are looked at.
    pub errors: Vec<OpcodeError>,
    /// What `rule` lines say, and what `late` lines say.
    pub rules: Vec<String>,
    pub late: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpcodeError {
    /// Reported as an error; other checks go on.
    Message(String),
    /// A directive's word in the place of a modifier: the parse ends at this byte of the spelling.
    Syntax { at: usize, word: String },
}

/// A row that the opcode may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub form: u16,
    /// The word in each slot of the row.
    pub chosen: SmallVec<[Option<Word>; 8]>,
    /// The types in the row's type slots.
    pub types: SmallVec<[Option<Type>; 4]>,
    /// Gates that are shut, words that the row doesn't take, required words that aren't there.
    pub errors: Vec<String>,
}

/// Dotted words that ptxas's scanner takes for directives wherever they stand.
const DIRECTIVE_WORDS: &[&str] = &[
    "attribute", "branchtargets", "calltargets", "callprototype", "func", "entry", "reg", "unified", "align",
    "extern", "visible", "version", "target", "pragma", "loc", "file", "section", "maxnreg", "maxntid", "ptr",
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
        rules: Vec::new(),
        late: Vec::new(),
    };
    let mut at = spelling.len() - tail.len();
    for text in tail.split('.').skip(1) {
        if DIRECTIVE_WORDS.contains(&text) {
            op.errors.push(OpcodeError::Syntax { at, word: format!(".{text}") });
            return op;
        }
        match Word::find(text) {
            Some(word) => op.add_word(word),
            None => op.error(format!("Unknown modifier '.{text}'")),
        }
        at += 1 + text.len();
    }
    let Some(forms) = mnemonic.and_then(|m| table.forms_of(m)) else {
        let name = spelling.split('.').next().unwrap_or("");
        op.error(format!("Not a name of any known instruction: '{name}'"));
        return op;
    };
    for text in op.consequences(table, Step::Word, target, version) {
        op.error(text);
    }
    op.rules = op.consequences(table, Step::Rule, target, version);
    op.late = op.consequences(table, Step::Late, target, version);
    op.choose_forms(table, forms, target, version);
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

    /// Of two words of a group the last one counts.
    fn add_word(&mut self, word: Word) {
        if word.kind() == Kind::NameOnly {
            return self.error(word.not_taken(self.mnemonic));
        }
        if !word.kind().repeats()
            && let Some(i) = self.words.iter().position(|w| w.group() == word.group())
        {
            self.words.remove(i);
            if let Some(text) = word.twice() {
                self.error(text);
            }
        }
        self.words.push(word);
    }

    /// What the lines of a step say about this opcode.
    fn consequences(&self, table: &Table, step: Step, target: Target, version: Version) -> Vec<String> {
        let mut texts = Vec::new();
        for rule in table.rules.iter().filter(|r| r.step == step && self.meets(&r.when)) {
            match &rule.then {
                Consequence::Error(text) => texts.push(self.named(text)),
                Consequence::Gate(gate) => texts.extend(self.refusals(gate, target, version)),
            }
        }
        texts
    }

    fn refusals(&self, gate: &Gate, target: Target, version: Version) -> Vec<String> {
        gate.refusals(target, version).map(|text| self.named(&text)).collect()
    }

    fn meets(&self, when: &Condition) -> bool {
        let named = |(mnemonic, prefix): &(&'static str, bool)| match prefix {
            true => self.mnemonic.starts_with(mnemonic),
            false => self.mnemonic == *mnemonic,
        };
        when.mnemonics.iter().any(named)
            && when.present.iter().all(|group| group.iter().any(|w| self.words.contains(w)))
            && !when.absent.iter().any(|w| self.words.contains(w))
    }

    /// A text of the table with `$m` (mnemonic), `$t0`, `$t1` (types) and `$op` filled in.
    fn named(&self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_string();
        }
        let types: Vec<_> = self.words.iter().filter(|w| w.kind() == Kind::Type).map(|w| w.text()).collect();
        let mut out = text.replace("$m", self.mnemonic);
        for (i, ty) in types.iter().enumerate() {
            out = out.replace(&format!("$t{i}"), &ty[1..]);
        }
        if let Some(op) = self.first(Kind::Op).or(self.first(Kind::Exchange)) {
            out = out.replace("$op", &op.text()[1..]);
        }
        out
    }

    /// Finds the rows that the opcode may be, or says why there are none.
    fn choose_forms(&mut self, table: &Table, forms: &[u16], target: Target, version: Version) {
        for &id in forms {
            let form = table.form(id);
            if let Some(mut fit) = fit(id, form, &self.words) {
                let gates = form.gates.iter().flat_map(|g| self.refusals(g, target, version));
                let errors = gates.chain(self.complaints(form, &fit)).collect();
                fit.errors = errors;
                self.fits.push(fit);
            }
        }
        let words = &self.words;
        self.fits.sort_by_key(|f| words.len() - f.chosen.iter().flatten().count());
        if !self.fits.is_empty() {
            return;
        }
        let taken = |word: &Word| forms.iter().any(|id| table.form(*id).slots.iter().any(|s| s.words.contains(word)));
        let chooses = |word: &&Word| word.kind() != Kind::Type && word.kind().chooses_form();
        match self.words.iter().filter(chooses).filter(|w| !taken(w)).min() {
            Some(word) => self.error(word.not_taken(self.mnemonic)),
            None => self.error(format!("Unexpected instruction types specified for '{}'", self.mnemonic)),
        }
    }

    /// Required flags that aren't there, words that the row doesn't take, other required words.
    fn complaints(&self, form: &Form, fit: &Fit) -> Vec<String> {
        let missing = || form.slots.iter().zip(&fit.chosen).filter(|(s, w)| !s.optional && w.is_none()).map(|(s, _)| s);
        let flag = |slot: &Slot| slot.words.len() == 1 && matches!(slot.kind(), Kind::Flag | Kind::FormFlag);
        let mut wrong: SmallVec<[Word; 4]> = self.words.iter().copied().filter(|w| !fit.chosen.contains(&Some(*w))).collect();
        wrong.retain(|w| w.kind() != Kind::Ignored);
        wrong.sort();
        let mut texts: Vec<String> = missing().filter(|s| flag(s)).map(|s| self.lacking(s)).collect();
        texts.extend(wrong.iter().map(|w| w.not_taken(self.mnemonic)));
        texts.extend(missing().filter(|s| !flag(s)).map(|s| self.lacking(s)));
        texts
    }

    /// The text for a required modifier that is not there.
    fn lacking(&self, slot: &Slot) -> String {
        let mnemonic = self.mnemonic;
        let flag = slot.words.iter().find(|w| w.kind() == Kind::Flag);
        match (slot.kind(), flag) {
            (Kind::Rounding, Some(flag)) => {
                format!("Rounding modifier or '{}' modifier required for instruction '{mnemonic}'", flag.text())
            }
            (Kind::Rounding, None) => format!("Rounding modifier required for instruction '{mnemonic}'"),
            (Kind::Compare, _) => format!("Comparison modifier required for instruction '{mnemonic}'"),
            (Kind::Clamp, _) => format!("Clamp modifier required for instruction '{mnemonic}'"),
            (Kind::Op, _) => format!("Reduction operation is required for instruction '{mnemonic}'"),
            (_, Some(flag)) => format!("{} modifier required for instruction '{mnemonic}'", flag.text()),
            _ => format!("Unexpected instruction types specified for '{mnemonic}'"),
        }
    }
}

/// Puts each word into a slot of the row. `None` if the row doesn't take the words that choose a form.
fn fit(id: u16, form: &Form, words: &[Word]) -> Option<Fit> {
    let mut chosen: SmallVec<[Option<Word>; 8]> = SmallVec::from_elem(None, form.slots.len());
    for &word in words {
        match slot_for(form, &chosen, word) {
            Some(i) => chosen[i] = Some(word),
            None if word.kind().chooses_form() => return None,
            None => {}
        }
    }
    let mut types = SmallVec::new();
    for (slot, word) in form.slots.iter().zip(&chosen) {
        if slot.kind() == Kind::Type {
            if word.is_none() && !slot.optional {
                return None;
            }
            types.push(word.and_then(Type::of_word));
        }
    }
    Some(Fit { form: id, chosen, types, errors: Vec::new() })
}

/// The free slot that takes the word. Words of a kind that repeats keep their order.
fn slot_for(form: &Form, chosen: &[Option<Word>], word: Word) -> Option<usize> {
    let kind = word.kind();
    let last = chosen.iter().rposition(|c| c.is_some_and(|w| w.kind() == kind));
    let from = if kind.repeats() { last.map_or(0, |i| i + 1) } else { 0 };
    for (i, slot) in form.slots.iter().enumerate().skip(from) {
        if chosen[i].is_none() && slot.words.contains(&word) {
            return Some(i);
        }
        if kind.repeats() && slot.kind() == kind && !slot.optional && chosen[i].is_none() {
            return None;
        }
    }
    None
}
