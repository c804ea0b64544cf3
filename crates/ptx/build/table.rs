//! The table put together: its rows and rules, and which of them each mnemonic and each word has.

use crate::form::*;
use crate::read::{Definitions, Line, Result, first_word};
use crate::types::Type;
use crate::words::{Kind, Word};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Table {
    pub forms: Vec<Form>,
    /// All `word`, `rule`, `amid` and `late` lines, in order.
    pub rules: Vec<Rule>,
    /// The rules of `word` lines by the words that they name.
    pub word_rules: BTreeMap<Word, Vec<usize>>,
    pub instructions: BTreeMap<&'static str, Lines>,
    /// The rules for mnemonics that begin with a text.
    prefix_rules: Vec<(&'static str, usize)>,
}

/// The rows and rules that name a mnemonic, in order.
#[derive(Default)]
pub struct Lines {
    pub forms: Vec<usize>,
    pub rules: Vec<usize>,
}

pub fn table(lines: &[Line]) -> Result<Table> {
    let mut definitions = Definitions::default();
    let mut others = Vec::new();
    for &line in lines {
        if !line.read(|text| definitions.take(text))? {
            others.push(line);
        }
    }
    let mut table = Table::default();
    for line in others {
        line.read(|text| table.line(text, &definitions))?;
    }
    table.share_out_prefix_rules()?;
    match table.instructions.iter().find(|(_, lines)| lines.forms.is_empty()) {
        Some((mnemonic, _)) => Err(format!("there are rules about {mnemonic}, which is no instruction")),
        None => Ok(table),
    }
}

impl Table {
    fn line(&mut self, line: &'static str, definitions: &Definitions) -> Result<()> {
        let (head, rest) = first_word(line);
        let id = self.rules.len();
        match head {
            "word" => {
                let rule = definitions.rule(line)?;
                for word in rule.when.present.iter().copied().flatten() {
                    self.word_rules.entry(*word).or_default().push(id);
                }
                self.rules.push(rule);
            }
            "rule" | "amid" | "late" => {
                for mnemonic in first_word(rest).0.split('/') {
                    match mnemonic.strip_suffix('*') {
                        Some(prefix) => self.prefix_rules.push((prefix, id)),
                        None => self.instructions.entry(mnemonic).or_default().rules.push(id),
                    }
                }
                self.rules.push(definitions.rule(line)?);
            }
            _ => {
                for mnemonic in head.split('/') {
                    self.instructions.entry(mnemonic).or_default().forms.push(self.forms.len());
                }
                self.forms.push(definitions.form(line)?);
            }
        }
        Ok(())
    }

    fn share_out_prefix_rules(&mut self) -> Result<()> {
        for &(prefix, id) in &self.prefix_rules {
            let mut fitting = self.instructions.iter_mut().filter(|(m, _)| m.starts_with(prefix)).peekable();
            if fitting.peek().is_none() {
                return Err(format!("there is no instruction {prefix}*"));
            }
            fitting.for_each(|(_, lines)| lines.rules.push(id));
        }
        let ids = self.instructions.values_mut().map(|lines| &mut lines.rules);
        for ids in ids.chain(self.word_rules.values_mut()) {
            ids.sort_unstable();
            ids.dedup();
        }
        Ok(())
    }

    /// How many operations a form of an instruction takes at most.
    pub fn operations(&self, lines: &Lines) -> usize {
        let count = |form: &Form| form.slots.iter().filter(|slot| slot.kind.is_operation()).count();
        lines.forms.iter().map(|id| count(&self.forms[*id])).max().unwrap_or(0)
    }

    /// Does some form take argument lists?
    pub fn takes_lists(&self, lines: &Lines) -> bool {
        let mut specs = lines.forms.iter().flat_map(|id| self.forms[*id].operands);
        specs.any(|spec| spec.role == Role::List)
    }

    /// See [`Instruction::vector_sizes`].
    pub fn vector_sizes(&self, lines: &Lines) -> Vec<u32> {
        let mut sizes = Vec::new();
        for form in lines.forms.iter().map(|id| &self.forms[*id]) {
            add_sizes(form, form.operands, &mut sizes);
        }
        sizes.retain(|n| !matches!(n, 1 | 2 | 4));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

fn add_sizes(form: &Form, specs: &[Spec], all: &mut Vec<u32>) {
    for spec in specs {
        match spec.role {
            Role::Address(inside) => add_sizes(form, inside, all),
            _ => all.extend(sizes(form, spec.count)),
        }
    }
}

/// The sizes of a vector with the words that the row takes; none where it can't tell.
fn sizes(form: &Form, count: Count) -> Vec<u32> {
    let of_kind =
        |kind: Kind| form.slots.iter().filter(move |s| s.kind == kind).flat_map(|s| s.words.iter().copied());
    match count {
        Count::Exactly(n) => vec![u32::from(n)],
        Count::Shape { key, times, over } => {
            let numbers = of_kind(Count::shape_kind(key)).filter_map(|w| w.number(key));
            numbers.map(|n| n * u32::from(times) / u32::from(over.max(1))).collect()
        }
        Count::Fragment { element, .. } => {
            let types = form.slots.iter().filter(|s| s.kind == Kind::Type).nth(element as usize);
            let types = types.iter().flat_map(|s| s.words.iter()).filter_map(|w| Type::of_word(*w));
            let types: Vec<Type> = types.collect();
            let fragments =
                |shape: Word| types.iter().filter_map(move |ty| count.fragment(|key| shape.number(key), *ty));
            of_kind(Kind::Shape).flat_map(fragments).collect()
        }
        Count::Dimension { .. } => (1..=5).collect(),
        Count::Vector => of_kind(Kind::Vector).filter_map(|w| w.number('v')).collect(),
        Count::One | Count::AtLeast(_) | Count::Free => Vec::new(),
    }
}
