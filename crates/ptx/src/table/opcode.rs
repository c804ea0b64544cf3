//! Opcodes: from a spelling such as `ld.global.v4.b32` to the forms that it may be, once per spelling.
//!
//! Everything that depends on the spelling, the target and the version alone is decided here: which modifiers
//! there are, which rows of the table they fit, and what ptxas would say if they don't. Checking an
//! instruction then only looks at its operands.

use super::{
    Condition, Consequence, Form, Gate, Instruction, Rule, Slot, Spec, Step, Words, instruction, word_rules,
};
use crate::diag::Severity;
use crate::target::{Target, Toolkit, Version};
use crate::types::{Class, Type};
use crate::words::{Kind, Turn, Word};
use smallvec::SmallVec;

/// All that follows from the spelling of an opcode.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Opcode {
    /// As written, without blanks.
    pub spelling: String,
    /// The row's mnemonic: one or more words, `cp.async.bulk`. Empty if there is no such instruction.
    pub mnemonic: &'static str,
    /// The modifiers in the order in which they were written.
    pub words: SmallVec<[Word; 8]>,
    /// The rows that take the types and the other words that choose a form: first those that take them best,
    /// in the table's order. Empty if there are none: `errors` says why.
    pub fits: SmallVec<[Fit; 1]>,
    /// What is wrong with the spelling itself, in ptxas's order.
    pub errors: Vec<OpcodeError>,
    /// What `rule` lines say, and what `amid` and `late` lines say.
    pub rules: Vec<Remark>,
    pub late: Vec<Remark>,
    /// Some row minds the value of a constant.
    pub bounds_constants: bool,
    /// Some row of the instruction takes argument lists in parentheses.
    pub takes_lists: bool,
}

/// What a rule says about an opcode, if the instruction has so many operands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Remark {
    pub operands: Option<usize>,
    pub turn: Turn,
    pub severity: Severity,
    pub text: String,
}

/// What is wrong with an opcode's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub enum OpcodeError {
    /// A wrong modifier, said before the operands are read.
    Word(String),
    /// A modifier at a wrong place, which does no harm.
    Warning(String),
    /// There is no such form, said when the operands have been read; they are not checked then.
    Form(String),
    /// A directive's word in the place of a modifier: the parse ends at this byte of the spelling.
    Syntax { at: usize, word: String },
}

/// A row that the opcode may be.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Fit {
    pub form: &'static Form,
    /// The word in each slot of the row.
    pub chosen: SmallVec<[Option<Word>; 8]>,
    /// The types in the row's type slots.
    pub types: SmallVec<[Option<Type>; 4]>,
    /// The words that the row doesn't take.
    pub extra: SmallVec<[Word; 2]>,
    /// How many words the row doesn't take or lacks.
    pub misfits: usize,
    /// Gates that are shut, words that the row doesn't take, required words that aren't there.
    pub errors: Vec<(Turn, String)>,
}

impl Fit {
    /// Has every word a slot, and every slot that needs one a word?
    fn takes_all(&self, form: &Form) -> bool {
        self.extra.is_empty() && form.slots.iter().zip(&self.chosen).all(|(s, w)| s.optional || w.is_some())
    }

    /// Does the row ask for a word of this kind that isn't there?
    pub fn lacks(&self, kind: Kind) -> bool {
        self.form.slots.iter().zip(&self.chosen).any(|(s, w)| s.kind == kind && !s.optional && w.is_none())
    }
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

    /// Can a vector of this size be read at all? Any can where one holds a large matrix.
    pub fn reads_vector(&self, size: usize) -> bool {
        if matches!(size, 1 | 2 | 4) {
            return true;
        }
        let sizes = instruction(self.mnemonic).map_or(&[][..], |i| i.vector_sizes);
        sizes.last().is_some_and(|n| *n > 8) || sizes.iter().any(|n| *n as usize == size)
    }

    /// How many elements `.v2`, `.v4`, `.v8` say; 1 without them.
    pub fn vector(&self) -> u32 {
        self.first(Kind::Vector).and_then(|w| w.number('v')).unwrap_or(1)
    }
}

/// `glued` bytes of the spelling were written without a blank: the mnemonic is among them. Rows that came after `toolkit`
/// don't count.
pub fn resolve(spelling: &str, glued: usize, target: Target, version: Version, toolkit: Toolkit) -> Opcode {
    let (found, tail) = split_mnemonic(spelling, glued);
    let mut op = Opcode {
        spelling: spelling.to_string(),
        mnemonic: found.map_or("", |i| i.mnemonic),
        words: SmallVec::new(),
        fits: SmallVec::new(),
        errors: Vec::new(),
        rules: Vec::new(),
        late: Vec::new(),
        bounds_constants: false,
        takes_lists: false,
    };
    let mut at = spelling.len() - tail.len();
    for text in tail.split('.').skip(1) {
        if DIRECTIVE_WORDS.contains(&text) {
            op.errors.push(OpcodeError::Syntax { at, word: format!(".{text}") });
            return op;
        }
        match Word::find(text) {
            Some(word) => {
                op.add_word(word);
                for rule in word_rules(word) {
                    let remarks = op.remarks(rule, target, version);
                    op.errors.extend(remarks.into_iter().map(|remark| OpcodeError::Word(remark.text)));
                }
            }
            None => op.wrong_word(format!("Unknown modifier '.{text}'")),
        }
        at += 1 + text.len();
    }
    op.warn_of_vector();
    let Some(instruction) = found else {
        let name = spelling.split('.').next().unwrap_or("");
        op.no_form(format!("Not a name of any known instruction: '{name}'"));
        return op;
    };
    let more_operations = op.drop_operations(instruction.operations);
    for rule in instruction.rules {
        let remarks = op.remarks(rule, target, version);
        if rule.step == Step::Rule { &mut op.rules } else { &mut op.late }.extend(remarks);
    }
    op.choose_forms(instruction, target, version, toolkit);
    let taken = |fit: &Fit| fit.chosen.iter().flatten().any(|w| w.kind().is_operation());
    if more_operations && op.fits.iter().any(taken) {
        op.no_form("Multiple instruction post-operation flags set".into());
    }
    op
}

/// The mnemonic of an opcode; empty if there is no such instruction. `glued` as for [`resolve`].
pub fn mnemonic(spelling: &str, glued: usize) -> &'static str {
    split_mnemonic(spelling, glued).0.map_or("", |i| i.mnemonic)
}

/// The instruction that the longest run of leading words names, and the modifiers behind it.
fn split_mnemonic(spelling: &str, glued: usize) -> (Option<&'static Instruction>, &str) {
    let mut best = (None, spelling.find('.').map_or("", |i| &spelling[i..]));
    let ends = spelling.match_indices('.').map(|(i, _)| i).chain([spelling.len()]);
    for end in ends.take(6).filter(|end| *end <= glued) {
        if let Some(instruction) = instruction(&spelling[..end]) {
            best = (Some(instruction), &spelling[end..]);
        }
    }
    best
}

impl Opcode {
    fn wrong_word(&mut self, message: String) {
        self.errors.push(OpcodeError::Word(message));
    }

    fn no_form(&mut self, message: String) {
        self.errors.push(OpcodeError::Form(message));
    }

    /// `.v2` belongs before a type.
    fn warn_of_vector(&mut self) {
        let at = self.words.iter().position(|w| w.kind() == Kind::Vector);
        let before = at.and_then(|i| self.words.get(i + 1)).map(|w| w.kind());
        if at.is_some() && before != Some(Kind::Type) {
            self.errors.push(OpcodeError::Warning("Vector Type not specified properly".into()));
        }
    }

    /// Of two words of a group the last one counts.
    fn add_word(&mut self, word: Word) {
        let kind = word.kind();
        let same_kind = self.words.iter().filter(|w| w.kind() == kind).count();
        let same_group = self.words.iter().position(|w| w.group() == word.group());
        match same_group {
            _ if kind == Kind::NameOnly => return self.wrong_word(word.not_taken(self.mnemonic)),
            _ if kind == Kind::Layout && same_kind == 2 => {
                let text = format!("Parsing error near '{}': too many layout specifiers", word.text());
                return self.wrong_word(text);
            }
            Some(i) if !kind.repeats() => {
                self.words.remove(i);
                word.twice().into_iter().for_each(|text| self.wrong_word(text));
            }
            _ => {}
        }
        self.words.push(word);
    }

    /// Of more operations than a row takes the last ones count. Were there more?
    fn drop_operations(&mut self, taken: usize) -> bool {
        let said = self.words.iter().filter(|w| w.kind().is_operation()).count();
        let mut extra = said.saturating_sub(taken.max(1));
        let more = extra > 0;
        self.words.retain(|w| {
            let drop = extra > 0 && w.kind().is_operation();
            extra -= usize::from(drop);
            !drop
        });
        more
    }

    /// What a line says about this opcode.
    fn remarks(&self, rule: &Rule, target: Target, version: Version) -> Vec<Remark> {
        let met = self.meets(&rule.when).filter(|_| rule.when.is_current(target, version));
        let Some(met) = met else { return Vec::new() };
        let (severity, texts) = match &rule.then {
            Consequence::Error(text) => (Severity::Error, vec![self.named(text, &met)]),
            Consequence::Warning(text) => {
                let text = self.named(text, &met).replace("$target", target.name());
                (Severity::Warning, vec![text])
            }
            Consequence::Gates(gates) => {
                let refusals = gates.iter().flat_map(|gate| self.refusals(gate, &met, target, version));
                (Severity::Error, refusals.collect())
            }
        };
        let (operands, turn) = (rule.when.operands, rule.turn());
        texts.into_iter().map(|text| Remark { operands, turn, severity, text }).collect()
    }

    fn refusals(&self, gate: &Gate, met: &[Word], target: Target, version: Version) -> Vec<String> {
        gate.refusals(target, version).map(|text| self.named(&text, met)).collect()
    }

    /// Does the rule apply to this opcode? The words that met its groups, one each.
    fn meets(&self, when: &Condition) -> Option<SmallVec<[Word; 4]>> {
        let one_of = |group: Words| self.words.iter().copied().find(|w| group.contains(w));
        let typed = |(n, words): &(usize, Words)| self.type_word(*n).is_some_and(|w| words.contains(&w));
        // Most rules are about words that aren't there.
        let applies = when.present.iter().all(|group| one_of(group).is_some())
            && one_of(when.absent).is_none()
            && when.types.iter().all(typed);
        if applies { when.present.iter().map(|group| one_of(group)).collect() } else { None }
    }

    fn type_word(&self, n: usize) -> Option<Word> {
        self.words.iter().copied().filter(|w| w.kind() == Kind::Type).nth(n)
    }

    /// A text of the table with `$m` (mnemonic), `$t0`, `$t1` (types), `$op`, and `$1`, `$2`, … (the words that
    /// met the groups of a rule) filled in.
    fn named(&self, text: &str, met: &[Word]) -> String {
        if !text.contains('$') {
            return text.to_string();
        }
        let types: Vec<_> = self.words.iter().filter(|w| w.kind() == Kind::Type).map(|w| w.text()).collect();
        let mut out = text.replace("$m", self.mnemonic).replace("$types", &types.concat());
        for (i, word) in met.iter().enumerate() {
            let (key, word) = (format!("${}", i + 1), word.text());
            let short = word.rsplit("::").next().unwrap_or(word);
            out = out.replace(&format!("{key}::"), &format!(".{short}")).replace(&key, word);
        }
        for (i, ty) in types.iter().enumerate() {
            out = out.replace(&format!("$t{i}"), &ty[1..]);
        }
        if let Some(op) = self.first(Kind::Op).or(self.first(Kind::Exchange)) {
            out = out.replace("$op", &op.text()[1..]);
        }
        if let Some(shape) = self.first(Kind::Shape) {
            out = out.replace("$shape", shape.text());
        }
        out
    }

    /// Finds the rows that the opcode may be, or says why there are none.
    fn choose_forms(
        &mut self,
        instruction: &Instruction,
        target: Target,
        version: Version,
        toolkit: Toolkit,
    ) {
        let forms = instruction.forms;
        for form in forms.iter().filter(|form| form.is_known_to(toolkit)) {
            if let Some(mut fit) = fit(form, &self.words) {
                let gates = form.gates.iter().flat_map(|g| self.refusals(g, &[], target, version));
                let complaints = self.complaints(form, &fit);
                fit.misfits = complaints.len();
                let error = form.error.iter().map(|text| (Turn::LAST, self.named(text, &[])));
                fit.errors = gates.map(|text| (Turn::FIRST, text)).chain(complaints).chain(error).collect();
                self.fits.push(fit);
            }
        }
        self.fits.sort_by_key(|f| f.misfits);
        self.takes_lists = instruction.takes_lists;
        let mut specs = self.fits.iter().flat_map(|fit| fit.form.operands);
        self.bounds_constants = specs.any(Spec::bounds_constants);
        if !self.fits.is_empty() {
            return;
        }
        let taken = |word: &Word| forms.iter().any(|f| f.slots.iter().any(|s| s.words.contains(word)));
        let chooses = |word: &&Word| word.kind() != Kind::Type && word.kind().chooses_form();
        match self.words.iter().filter(chooses).filter(|w| !taken(w)).min() {
            Some(word) => self.no_form(word.not_taken(self.mnemonic)),
            None => self.no_form(format!("Unexpected instruction types specified for '{}'", self.mnemonic)),
        }
    }

    /// Words that the row doesn't take and required ones that aren't there.
    fn complaints(&self, form: &Form, fit: &Fit) -> Vec<(Turn, String)> {
        let mut all: Vec<(Turn, String)> = Vec::new();
        if fit.takes_all(form) && !form.takes(Kind::Layout) {
            return all;
        }
        all.extend(self.wrong_layouts(form).into_iter().map(|text| (Turn::of_text("row"), text)));
        self.wrong_spaces(form, fit, &mut all);
        let told_above = |kind: Kind| kind == Kind::Space || kind == Kind::Layout && form.takes(Kind::Layout);
        for &word in fit.extra.iter().filter(|w| w.kind() != Kind::Ignored && !told_above(w.kind())) {
            self.too_much(form, word, &mut all);
        }
        for (slot, _) in form.slots.iter().zip(&fit.chosen).filter(|(s, w)| !s.optional && w.is_none()) {
            let wrong = fit.extra.iter().any(|w| w.kind() == slot.kind || self.instead(*w, slot.kind));
            match (slot.kind, slot.flag()) {
                (Kind::Layout | Kind::Space, _) => {}
                // Rounding or a flag: asked for where the flag is.
                (_, Some(flag)) => all.push((Turn::of(flag), self.lacking(slot))),
                // A word of the kind that doesn't fit is complaint enough.
                (Kind::Rounding | Kind::Compare | Kind::Clamp | Kind::Shape, _) if wrong => {}
                // Asked for where the other operations of `atom` and `red` are.
                (Kind::Op, _) => all.push((Turn::of_text("inc"), self.lacking(slot))),
                _ => all.push((Turn::of(slot.words[0]), self.lacking(slot))),
            }
        }
        all
    }

    /// Do other rows of the instruction take this word instead of one of that kind?
    fn instead(&self, word: Word, kind: Kind) -> bool {
        let forms = instruction(self.mnemonic).map_or(&[][..], |instruction| instruction.forms);
        let mut slots = forms.iter().flat_map(|form| form.slots).filter(|slot| slot.kind == kind);
        slots.any(|slot| slot.words.contains(&word))
    }

    /// The complaints about a word that has no place in a row.
    fn too_much(&self, form: &Form, word: Word, all: &mut Vec<(Turn, String)>) {
        let has_kind = form.slots.iter().any(|s| s.words.iter().any(|w| w.kind() == word.kind()));
        let either = form.slots.iter().find(|s| s.words.contains(&word));
        let mnemonic = self.mnemonic;
        if let Some((slot, flag)) = either.and_then(|slot| Some((slot, slot.flag()?))) {
            return all.push((Turn::of(flag), self.lacking(slot)));
        }
        let mut say = |text: String| all.push((Turn::of(word), text));
        match word.kind() {
            Kind::Compare if has_kind => say(MISMATCH.to_string()),
            Kind::Rounding if has_kind && word.text() == ".rs" => {
                say(format!("Illegal modifier '.rs' for instruction '{mnemonic}'"));
            }
            Kind::Shape if has_kind => {
                say(format!("Illegal matrix shape '{}' for instruction '{mnemonic}'", word.text()));
            }
            Kind::Exchange => {
                let ty = self.types().next().map_or(String::new(), |ty| format!("{ty:?}"));
                say(word.not_taken(&format!("{mnemonic}{ty}")));
            }
            Kind::Compare => {
                say(word.not_taken(mnemonic));
                let fits = self.types().next().is_none_or(|ty| compares(word, ty));
                all.extend((!fits).then(|| (Turn::of(word), MISMATCH.to_string())));
            }
            Kind::Vector => {
                say(word.not_taken(mnemonic));
                let bits = self.types().next().map_or(0, Type::bits) * self.vector();
                let text = "Vector type too large, exceeds 128 bit limit";
                all.extend((bits > 128).then(|| (Turn::of(word), text.to_string())));
            }
            Kind::Eviction if has_kind => {
                let level = word.stem();
                say(format!(
                    "Duplicate '{level}::eviction_priority' modifier specified for instruction '{mnemonic}'"
                ));
                say(format!(
                    "Incorrect '.level::eviction_priority' modifier specified for instruction '{mnemonic}'"
                ));
            }
            _ => {
                say(word.not_taken(mnemonic));
                let group = form.slots.iter().any(|s| s.words.iter().any(|w| w.group() == word.group()));
                all.extend(word.not_taken_again(mnemonic).filter(|_| !group));
            }
        }
    }

    /// What is wrong with the layouts of the matrices, if the row has any.
    fn wrong_layouts(&self, form: &Form) -> Vec<String> {
        let mnemonic = self.mnemonic;
        let slots: SmallVec<[&Slot; 2]> = form.slots.iter().filter(|s| s.kind == Kind::Layout).collect();
        let words: SmallVec<[&Word; 2]> = self.words.iter().filter(|w| w.kind() == Kind::Layout).collect();
        let pairs = slots.iter().zip(&words).zip(["alayout", "blayout"]);
        let required = |what: &[&str]| {
            what.iter().map(|what| format!("{what} modifier required for instruction '{mnemonic}'")).collect()
        };
        match (slots.len(), words.len()) {
            (0, _) => Vec::new(),
            (2, 0) => required(&["'.alayout.blayout'", "alayout", "blayout"]),
            (2, 1) => required(&["'.blayout'", "blayout"]),
            (slots, words) if slots != words => required(&["layout"]),
            _ => {
                let wrong = pairs.filter(|((slot, word), _)| !slot.words.contains(word));
                wrong
                    .map(|((_, word), matrix)| {
                        format!("Illegal {matrix} '{}' for instruction '{mnemonic}'", word.text())
                    })
                    .collect()
            }
        }
    }

    /// What is wrong with the state spaces.
    fn wrong_spaces(&self, form: &Form, fit: &Fit, all: &mut Vec<(Turn, String)>) {
        let mnemonic = self.mnemonic;
        let slots: SmallVec<[&Slot; 2]> = form.slots.iter().filter(|s| s.kind == Kind::Space).collect();
        let words: SmallVec<[Word; 2]> =
            self.words.iter().copied().filter(|w| w.kind() == Kind::Space).collect();
        let wrong = fit.extra.iter().any(|w| w.kind() == Kind::Space);
        if !wrong && !fit.lacks(Kind::Space) {
            return;
        }
        let incorrect = format!("State space incorrect for instruction '{mnemonic}'");
        let number = format!("Unexpected number of state spaces specified in instruction '{mnemonic}'");
        let text = match (words.len(), slots.len()) {
            (_, 0) => format!("No state space qualifier expected for instruction '{mnemonic}'"),
            (0, 1) => format!("State space modifier required for instruction '{mnemonic}'"),
            (3.., _) => "Multiple state spaces specified".into(),
            (said, taken) if said > taken || !wrong => number,
            (1, 2) if slots.iter().all(|slot| !slot.optional) => number,
            _ => {
                let misplaced = words.iter().zip(&slots).filter(|(w, s)| !s.words.contains(w)).count();
                let turn = Turn::of_text("global");
                return all.extend(std::iter::repeat_n((turn, incorrect), misplaced.max(1)));
            }
        };
        all.push((Turn::of_text("global"), text));
    }

    /// The text for a required modifier that is not there.
    fn lacking(&self, slot: &Slot) -> String {
        let mnemonic = self.mnemonic;
        let flag = slot.flag().map(if slot.words.len() == 1 { Word::text } else { Word::stem });
        let boolean = slot.words.iter().all(|w| BOOLEAN.contains(&w.text()));
        let required = match (slot.kind, flag) {
            (Kind::Rounding, Some(flag)) => format!("Rounding modifier or '{flag}' modifier required"),
            (_, Some(flag)) => format!("{flag} modifier required"),
            (Kind::Rounding, _) => "Rounding modifier required".into(),
            (Kind::Compare, _) => "Comparison modifier required".into(),
            (Kind::Clamp, _) => "Clamp modifier required".into(),
            (Kind::Geometry | Kind::Dimension, _) => "Geometry modifier required".into(),
            (Kind::Shape, _) => "Shape modifier required".into(),
            (Kind::Repeat, _) => ".num modifier required".into(),
            (Kind::Op, _) if boolean => "Boolean operation is required".into(),
            (Kind::Op, _) => "Reduction operation is required".into(),
            _ => return format!("Unexpected instruction types specified for '{mnemonic}'"),
        };
        format!("{required} for instruction '{mnemonic}'")
    }
}

/// Is this a comparison of values of that type?
fn compares(word: Word, ty: Type) -> bool {
    match word.text() {
        ".eq" | ".ne" => true,
        ".lt" | ".le" | ".gt" | ".ge" => ty.class() != Class::Bits,
        ".lo" | ".ls" | ".hi" | ".hs" => ty.class() == Class::Unsigned,
        _ => ty.is_float(),
    }
}

const MISMATCH: &str = "Mismatch between instruction type and comparison qualifier";
const BOOLEAN: &[&str] = &[".and", ".or", ".xor"];

/// Puts each word into a slot of the row. `None` if the row doesn't take the words that choose a form.
fn fit(form: &'static Form, words: &[Word]) -> Option<Fit> {
    let mut chosen: SmallVec<[Option<Word>; 8]> = SmallVec::from_elem(None, form.slots.len());
    let mut extra = SmallVec::new();
    for &word in words {
        match slot_for(form, &chosen, word) {
            Some(i) => chosen[i] = Some(word),
            None if word.kind().chooses_form() => return None,
            None => extra.push(word),
        }
    }
    let mut types = SmallVec::new();
    for (slot, word) in form.slots.iter().zip(&chosen) {
        if slot.kind == Kind::Type {
            if word.is_none() && !slot.optional {
                return None;
            }
            types.push(word.and_then(Type::of_word));
        }
    }
    Some(Fit { form, chosen, types, extra, misfits: 0, errors: Vec::new() })
}

/// The free slot that takes the word. Words of a kind that repeats keep their order,
/// except that priorities name their level.
fn slot_for(form: &Form, chosen: &[Option<Word>], word: Word) -> Option<usize> {
    let kind = word.kind();
    let ordered = kind.repeats() && kind != Kind::Eviction;
    let last = || chosen.iter().rposition(|c| c.is_some_and(|w| w.kind() == kind));
    let from = if ordered { last().map_or(0, |i| i + 1) } else { 0 };
    for (i, slot) in form.slots.iter().enumerate().skip(from) {
        if chosen[i].is_none() && slot.words.contains(&word) {
            return Some(i);
        }
        if ordered && slot.kind == kind && !slot.optional && chosen[i].is_none() {
            return None;
        }
    }
    None
}
