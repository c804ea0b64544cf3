//! Values that have no way to memory of their own become words in general registers: saved behind the definition, back
//! before each use. A parameter of a block becomes a word altogether. What the words are:
//!
//! | file | the word | behind the definition | before a use |
//! |---|---|---|---|
//! | P | a bit of a word that those defined in the same block share | `SEL`, then `@P LOP3` | `LOP3` |
//! | P, a parameter | 1 or 0 | `SEL` | `LOP3` |
//! | UP | 1 or 0 | `USEL`, `MOV` | `R2UR`, `UISETP.NE` |
//! | UR | the same | `MOV` | `R2UR` |
//! | B | what the machine has for them; ptxas saves them so around calls | `BMOV.32.CLEAR` | `BMOV.32` |

use ori::{Arg, Block, File, Function, Guard, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::smallvec;

/// Returns the values that live only to the next instruction, or from the last one, from now on.
pub fn as_words(function: &mut Function, values: &[Value]) -> Vec<Value> {
    let mut rewrite = Rewrite::new(function, values);
    for block in rewrite.function.blocks.keys() {
        rewrite.block(block);
    }
    rewrite.brief
}

/// All values of the same files as some, but for those that are brief.
pub fn all_like(function: &Function, some: &[Value], brief: &FxHashSet<Value>) -> Vec<Value> {
    let files: Vec<File> = some.iter().map(|v| function.values[*v].file).collect();
    let wanted = |v: &Value| files.contains(&function.values[*v].file) && !brief.contains(v);
    function.values.keys().filter(wanted).collect()
}

/// Bits of a word.
const BITS: usize = 32;

/// Where a value is kept.
#[derive(Clone, Copy)]
enum Home {
    Word(Value),
    /// Of the word of a group.
    Bit(usize, u8),
}

/// Predicates that share a word. Each definition makes a new version of it, the last of which is what other blocks see.
struct Group {
    block: Block,
    versions: Vec<Value>,
    /// How many have been made where we are.
    made: usize,
}

struct Rewrite<'a> {
    function: &'a mut Function,
    homes: FxHashMap<Value, Home>,
    groups: Vec<Group>,
    /// Words that have taken the place of parameters.
    new: FxHashSet<Value>,
    brief: Vec<Value>,
    out: Vec<Inst>,
}

impl<'a> Rewrite<'a> {
    fn new(function: &'a mut Function, values: &[Value]) -> Rewrite<'a> {
        let mut homes = FxHashMap::default();
        let mut groups: Vec<Group> = Vec::new();
        let wanted: FxHashSet<Value> = values.iter().copied().collect();
        for block in function.blocks.keys() {
            let insts = function.blocks[block].insts.iter();
            let results = insts.flat_map(|i| function.insts[*i].results.iter().copied());
            let is_predicate = |v: &Value| wanted.contains(v) && function.values[*v].file == File::P;
            let predicates: Vec<Value> = results.filter(is_predicate).collect();
            for value in predicates {
                let version = function.value(File::R, 1);
                match groups.last_mut().filter(|g| g.block == block && g.versions.len() < BITS) {
                    Some(group) => group.versions.push(version),
                    None => groups.push(Group { block, versions: vec![version], made: 0 }),
                }
                let bit = groups.last().map_or(0, |g| g.versions.len() - 1) as u8;
                homes.insert(value, Home::Bit(groups.len() - 1, bit));
            }
        }
        for &value in values {
            let words = function.values[value].words;
            homes.entry(value).or_insert_with(|| Home::Word(function.value(File::R, words)));
        }
        let words = homes.values().filter_map(|h| if let Home::Word(w) = h { Some(*w) } else { None });
        let new = words.collect();
        Rewrite { function, homes, groups, new, brief: values.to_vec(), out: Vec::new() }
    }

    fn block(&mut self, block: Block) {
        self.groups.iter_mut().for_each(|g| g.made = if g.block == block { 0 } else { g.versions.len() });
        for param in &mut self.function.blocks[block].params {
            if let Some(Home::Word(word)) = self.homes.get(param) {
                *param = *word;
            }
        }
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            let fresh = self.before_use(self.function.insts[inst].uses().collect());
            replace(&mut self.function.insts[inst], &fresh);
            self.out.push(inst);
            for result in self.function.insts[inst].results.clone() {
                self.behind_definition(result);
            }
        }
        self.end(block);
        self.function.blocks[block].insts = std::mem::take(&mut self.out);
    }

    fn behind_definition(&mut self, value: Value) {
        match self.homes.get(&value).copied() {
            Some(Home::Word(word)) => self.save(value, word),
            Some(Home::Bit(group, bit)) => self.set_bit(value, group, bit),
            None => {}
        }
    }

    /// Puts a predicate into the word of its group.
    fn set_bit(&mut self, predicate: Value, group: usize, bit: u8) {
        let word = self.groups[group].versions[usize::from(bit)];
        self.groups[group].made = usize::from(bit) + 1;
        let mask = Arg::Imm(1 << bit);
        let Some(before) = usize::from(bit).checked_sub(1).map(|b| self.groups[group].versions[b]) else {
            return self.push(sass::Op::SEL, &[], word, &[Arg::Zero(File::R), mask, Arg::not(predicate)]);
        };
        let args = [before.into(), mask, Arg::Zero(File::R), Arg::Imm(0xfc), Arg::True(false)];
        let guard = Guard { predicate, negated: false, kept: smallvec![before] };
        let set = InstData { guard: Some(guard), ..data(sass::Op::LOP3, &[M::LUT], word, &args) };
        self.out.push(self.function.insts.push(set));
    }

    /// Puts a value into a word of its own.
    fn save(&mut self, value: Value, word: Value) {
        match self.function.values[value].file {
            File::B => self.push(sass::Op::BMOV, &[M::_32, M::CLEAR], word, &[value.into()]),
            File::UR => self.word_by_word(sass::Op::MOV, value, word, File::R),
            File::UP => {
                let uniform = self.function.value(File::UR, 1);
                let args = [Arg::Zero(File::UR), Arg::Imm(1), Arg::not(value)];
                self.push(sass::Op::USEL, &[], uniform, &args);
                self.push(sass::Op::MOV, &[], word, &[uniform.into()]);
            }
            _ => self.push(sass::Op::SEL, &[], word, &[Arg::Zero(File::R), Arg::Imm(1), Arg::not(value)]),
        }
    }

    /// Makes a value again from where it is kept.
    fn restore(&mut self, home: Home, value: Value) {
        let (word, bit) = match home {
            Home::Word(word) => (word, 0),
            Home::Bit(group, bit) => {
                let group = &self.groups[group];
                (group.versions[group.made.saturating_sub(1)], bit)
            }
        };
        let yes = Arg::True(true);
        match self.function.values[value].file {
            File::B => self.push(sass::Op::BMOV, &[M::_32], value, &[word.into()]),
            File::UR => self.word_by_word(sass::Op::R2UR, word, value, File::UR),
            File::UP => {
                let uniform = self.function.value(File::UR, 1);
                self.push(sass::Op::R2UR, &[], uniform, &[word.into()]);
                let args = [yes, uniform.into(), Arg::Zero(File::UR), yes];
                self.push(sass::Op::UISETP, &[M::NE, M::AND], value, &args);
            }
            _ => {
                let zero = Arg::Zero(File::R);
                let args = [zero, word.into(), Arg::Imm(1 << bit), zero, Arg::Imm(0xc0), Arg::True(false)];
                self.push(sass::Op::LOP3, &[M::LUT], value, &args);
            }
        }
    }

    /// Brings a value into another file, each word by itself.
    fn word_by_word(&mut self, op: sass::Op, from: Value, to: Value, file: File) {
        let mut parts: Vec<Arg> = Vec::new();
        for word in 0..self.function.values[from].words {
            let part = self.function.value(file, 1);
            self.push(op, &[], part, &[Arg::word(from, word)]);
            parts.push(part.into());
        }
        let pack = InstData { op: Op::Pseudo(Pseudo::Pack), ..data(op, &[], to, &parts) };
        self.out.push(self.function.insts.push(pack));
    }

    /// New values for those that are used.
    fn before_use(&mut self, mut used: Vec<Value>) -> Vec<(Value, Value)> {
        used.retain(|v| self.homes.contains_key(v));
        used.sort();
        used.dedup();
        let mut fresh = Vec::new();
        for value in used {
            let shape = self.function.values[value];
            let result = self.function.value(shape.file, shape.words);
            self.restore(self.homes[&value], result);
            self.brief.push(result);
            fresh.push((value, result));
        }
        fresh
    }

    /// Arguments of parameters that are words now become words, one by one; the others are what they were again.
    fn end(&mut self, block: Block) {
        let mut end = std::mem::replace(&mut self.function.blocks[block].end, Terminator::Exit);
        for edge in end.edges_mut() {
            for i in 0..edge.args.len() {
                let arg = edge.args[i];
                let param = self.function.blocks[edge.to].params[i];
                let becomes_word = self.homes.contains_key(&param) || self.new.contains(&param);
                if becomes_word && self.function.values[arg].file != File::R {
                    edge.args[i] = self.word_of(arg);
                }
            }
        }
        let fresh = self.before_use(end.uses().collect());
        for (old, new) in fresh {
            if let Terminator::Branch { predicate, .. } = &mut end
                && *predicate == old
            {
                *predicate = new;
            }
            for edge in end.edges_mut() {
                edge.args.iter_mut().filter(|v| **v == old).for_each(|v| *v = new);
            }
        }
        self.function.blocks[block].end = end;
    }

    /// A word of its own for a value.
    fn word_of(&mut self, value: Value) -> Value {
        let word = |r: &mut Self, value: Value| {
            let word = r.function.value(File::R, r.function.values[value].words);
            r.save(value, word);
            word
        };
        match self.homes.get(&value).copied() {
            Some(Home::Word(word)) => word,
            None => word(self, value),
            Some(Home::Bit(..)) => {
                let fresh = self.before_use(vec![value]);
                fresh.first().map_or(value, |(_, fresh)| word(self, *fresh))
            }
        }
    }

    fn push(&mut self, op: sass::Op, modifiers: &[M], result: Value, args: &[Arg]) {
        self.out.push(self.function.insts.push(data(op, modifiers, result, args)));
    }
}

fn replace(inst: &mut InstData, fresh: &[(Value, Value)]) {
    for (old, new) in fresh {
        for arg in &mut inst.args {
            if let Arg::Use(u) = arg
                && u.value == *old
            {
                u.value = *new;
            }
        }
        if let Some(guard) = &mut inst.guard {
            let places = std::iter::once(&mut guard.predicate).chain(&mut guard.kept);
            places.filter(|v| **v == *old).for_each(|v| *v = *new);
        }
    }
}

fn data(op: sass::Op, modifiers: &[M], result: Value, args: &[Arg]) -> InstData {
    InstData {
        op: Op::Machine(op),
        modifiers: modifiers.into(),
        results: smallvec![result],
        args: args.into(),
        guard: None,
        at: 0,
    }
}
