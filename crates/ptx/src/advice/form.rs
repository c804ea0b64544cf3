//! The forms of an instruction as people write them: `add{.rnd}{.ftz}{.sat}.f32 d, a, b;`

use crate::diag::Advice;
use crate::table::{self, Count, Fit, Form, Role, Slot, Spec};
use crate::words::{Kind, Word};

/// So many forms are shown, and so many words of a choice.
const MOST_FORMS: usize = 3;
const MOST_WORDS: usize = 6;

/// All words that some form of an instruction takes.
pub fn words(mnemonic: &str) -> impl Iterator<Item = Word> + Clone {
    let forms = table::instruction(mnemonic).map_or(&[][..], |instruction| instruction.forms);
    forms.iter().flat_map(|form| form.slots).flat_map(|slot| slot.words.iter().copied())
}

/// A sentence with the modifiers that an instruction has.
pub fn modifiers(mnemonic: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for word in words(mnemonic) {
        if !all.contains(&word.text()) {
            all.push(word.text());
        }
    }
    let more = if all.len() > 24 { ", …" } else { "" };
    all.truncate(24);
    match all.is_empty() {
        true => format!("`{mnemonic}` takes no modifiers"),
        false => format!("modifiers of `{mnemonic}`: {}{more}", all.join(" ")),
    }
}

/// Adds the forms that have most in common with a spelling.
pub fn similar(mnemonic: &str, spelling: &str, advice: &mut Advice) {
    let Some(instruction) = table::instruction(mnemonic) else { return };
    let given: Vec<Word> = spelling.split('.').skip(1).filter_map(Word::find).collect();
    let score = |form: &Form| {
        let takes = |word: &&Word| form.slots.iter().any(|slot| slot.words.contains(word));
        let asked = form.slots.iter().filter(|slot| !slot.optional).count();
        let met = form
            .slots
            .iter()
            .filter(|slot| !slot.optional && slot.words.iter().any(|w| given.contains(w)))
            .count();
        (given.iter().filter(takes).count() + met, usize::MAX - asked)
    };
    let mut forms: Vec<&Form> =
        instruction.forms.iter().copied().filter(|form| form.error.is_none()).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(score(form)));
    let mut shown: Vec<String> = Vec::new();
    for form in forms {
        let text = format!("`{};`", text(mnemonic, form));
        if shown.len() < MOST_FORMS && !shown.contains(&text) {
            shown.push(text);
        }
    }
    match &shown[..] {
        [] => {}
        [one] => advice.help.push(format!("the form is {one}")),
        _ => advice.help.push(format!("forms that come near:\n{}", shown.join("\n"))),
    }
}

/// A form with all choices.
fn text(mnemonic: &str, form: &Form) -> String {
    let slots: String = form.slots.iter().map(slot).collect();
    format!("{mnemonic}{slots}{}", operands(form.operands))
}

/// A form with the words that an opcode has chosen.
pub fn chosen(mnemonic: &str, fit: &Fit) -> String {
    let of = |(slot_of, word): (&Slot, &Option<Word>)| match word {
        Some(word) => word.text().to_string(),
        None if slot_of.optional => String::new(),
        None => slot(slot_of),
    };
    let slots: String = fit.form.slots.iter().zip(&fit.chosen).map(of).collect();
    let specs: Vec<Spec> = fit
        .form
        .operands
        .iter()
        .filter(|s| s.when.is_none_or(|w| fit.chosen.contains(&Some(w))))
        .cloned()
        .collect();
    format!("{mnemonic}{slots}{}", operands(&specs))
}

fn slot(slot: &Slot) -> String {
    let more = if slot.words.len() > MOST_WORDS { "/…" } else { "" };
    let words: Vec<&str> = slot.words.iter().take(MOST_WORDS).map(|word| word.text()).collect();
    let words = match slot.kind {
        Kind::Rounding if slot.optional && words.len() > 1 => ".rnd".to_string(),
        _ => format!("{}{more}", words.join("/")),
    };
    match (slot.optional, slot.words.len()) {
        (true, _) => format!("{{{words}}}"),
        (false, 1) => words,
        (false, _) => format!("({words})"),
    }
}

fn operands(specs: &[Spec]) -> String {
    let mut names = Names::default();
    let list: Vec<String> = specs.iter().map(|spec| names.of(spec)).collect();
    if list.is_empty() { String::new() } else { format!(" {}", list.join(", ")) }
}

/// Letters for sources, in the order of the manual: `a`, `b`, `c`, …
#[derive(Default)]
struct Names {
    sources: u8,
}

impl Names {
    fn letter(&mut self) -> String {
        self.sources += 1;
        char::from(b'a' + (self.sources - 1).min(25)).to_string()
    }

    fn of(&mut self, spec: &Spec) -> String {
        let plain = match &spec.role {
            Role::Dest => "d".to_string(),
            Role::PredDest => "p".into(),
            Role::Pred => "{!}p".into(),
            Role::Discard => "_".into(),
            Role::Constant => "immediate".into(),
            Role::Memory(_) | Role::Base(_) => format!("[{}]", self.letter()),
            Role::Address(inside) => format!("[{}]", operands(inside).trim_start()),
            Role::Tuple(inside) => format!("{{{}}}", operands(inside).trim_start()),
            Role::Pair(pair) if pair.1.optional => format!("{}{{|q}}", self.of(&pair.0)),
            Role::Pair(pair) => format!("{}|q", self.of(&pair.0)),
            Role::Label => "label".into(),
            Role::Targets => "targets".into(),
            Role::Function => "function".into(),
            Role::Variable => "variable".into(),
            Role::Handle => "handle".into(),
            Role::SamplerOf => "sampler".into(),
            Role::List => "(…)".into(),
            Role::Anything => "…".into(),
            Role::Source | Role::Movable | Role::Register => self.letter(),
        };
        let text = match spec.count {
            Count::One | Count::Vector => plain,
            Count::Exactly(count) => format!("{{{plain}×{count}}}"),
            _ => format!("{{{plain}, …}}"),
        };
        if spec.optional { format!("{text}?") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_read_as_in_the_manual() {
        let mut advice = Advice::default();
        similar("add", "add.f32", &mut advice);
        assert!(advice.help[0].contains("`add{.rnd}{.ftz}{.sat}.f32 d, a, b;`"), "{advice:?}");
        assert!(modifiers("add").starts_with("modifiers of `add`: "));
    }

    /// No form of any instruction is without text.
    #[test]
    fn every_instruction_has_forms() {
        for mnemonic in table::mnemonics() {
            let mut advice = Advice::default();
            similar(mnemonic, mnemonic, &mut advice);
            assert!(advice.help.iter().all(|help| help.contains(mnemonic)), "{mnemonic}: {advice:?}");
        }
    }
}
