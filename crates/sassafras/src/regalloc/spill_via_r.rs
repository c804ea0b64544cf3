//! Spilling of P, UP, UR and B: such values become words in R, saved after the definition and restored before each use.
//! A block parameter becomes a word altogether. The words themselves may be spilled like all others.
//!
//! | file | the word | after the definition | before a use |
//! |---|---|---|---|
//! | P | a bit of a word that those defined in the same block share | `SEL`, then `@P LOP3` | `LOP3` |
//! | P, a parameter | 1 or 0 | `SEL` | `LOP3` |
//! | UP | 1 or 0 | `USEL`, `MOV` | `R2UR`, `UISETP.NE` |
//! | UR | the same | `MOV` | `R2UR` |
//! | B | what the machine has for them; ptxas saves them so around calls | `BMOV.32.CLEAR` | `BMOV.32` |
//!
//! ```text
//! p1 = ISETP …            p1 = ISETP …; w1 = SEL RZ, 1, !p1
//! …                ==>    …
//! @p1 IADD3 …             p2 = LOP3 w1 & 1; @p2 IADD3 …
//! ```
//!
//! Afterwards the live ranges of the given values, and of those that are restored, span one instruction. One pass.

use ori::{Arg, Block, File, Function, Guard, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::smallvec;

/// Returns the values with live ranges of one instruction from now on.
pub fn rewrite(function: &mut Function, values: &[Value]) -> Vec<Value> {
    let mut rewrite = Rewriter::new(function, values);
    for block in rewrite.function.blocks.keys() {
        rewrite.block(block);
    }
    rewrite.short_lived
}

/// All values of the files of `some`, but for short-lived ones.
pub fn all_of_same_files(function: &Function, some: &[Value], short_lived: &FxHashSet<Value>) -> Vec<Value> {
    let files: Vec<File> = some.iter().map(|v| function.values[*v].file).collect();
    let wanted = |v: &Value| files.contains(&function.values[*v].file) && !short_lived.contains(v);
    function.values.keys().filter(wanted).collect()
}

/// Predicates that share a word.
const BITS: usize = 32;

/// Where a value is saved.
#[derive(Clone, Copy)]
enum Location {
    Word(Value),
    /// Group, and bit of its word.
    Bit(usize, u8),
}

/// Predicates that share a word. Each definition makes a new version of the word; other blocks read the last.
struct Group {
    block: Block,
    versions: Vec<Value>,
    /// How many versions are defined at this point.
    defined: usize,
}

struct Rewriter<'a> {
    function: &'a mut Function,
    locations: FxHashMap<Value, Location>,
    groups: Vec<Group>,
    /// Words that replace values, parameters among them.
    new: FxHashSet<Value>,
    short_lived: Vec<Value>,
    out: Vec<Inst>,
}

impl<'a> Rewriter<'a> {
    fn new(function: &'a mut Function, values: &[Value]) -> Rewriter<'a> {
        let mut locations = FxHashMap::default();
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
                    None => groups.push(Group { block, versions: vec![version], defined: 0 }),
                }
                let bit = groups.last().map_or(0, |g| g.versions.len() - 1) as u8;
                locations.insert(value, Location::Bit(groups.len() - 1, bit));
            }
        }
        for &value in values {
            let words = function.values[value].words;
            locations.entry(value).or_insert_with(|| Location::Word(function.value(File::R, words)));
        }
        let words =
            locations.values().filter_map(|h| if let Location::Word(w) = h { Some(*w) } else { None });
        let new = words.collect();
        Rewriter { function, locations, groups, new, short_lived: values.to_vec(), out: Vec::new() }
    }

    fn block(&mut self, block: Block) {
        self.groups.iter_mut().for_each(|g| g.defined = if g.block == block { 0 } else { g.versions.len() });
        for param in &mut self.function.blocks[block].params {
            if let Some(Location::Word(word)) = self.locations.get(param) {
                *param = *word;
            }
        }
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            let fresh = self.reload_before_use(self.function.insts[inst].uses().collect());
            replace(&mut self.function.insts[inst], &fresh);
            self.out.push(inst);
            for result in self.function.insts[inst].results.clone() {
                self.save_after_def(result);
            }
        }
        self.end(block);
        self.function.blocks[block].insts = std::mem::take(&mut self.out);
    }

    fn save_after_def(&mut self, value: Value) {
        match self.locations.get(&value).copied() {
            Some(Location::Word(word)) => self.save(value, word),
            Some(Location::Bit(group, bit)) => self.set_bit(value, group, bit),
            None => {}
        }
    }

    /// Inserts a predicate into the word of its group.
    fn set_bit(&mut self, predicate: Value, group: usize, bit: u8) {
        let word = self.groups[group].versions[usize::from(bit)];
        self.groups[group].defined = usize::from(bit) + 1;
        let mask = Arg::Imm(1 << bit);
        let Some(before) = usize::from(bit).checked_sub(1).map(|b| self.groups[group].versions[b]) else {
            return self.push(sass::Op::SEL, &[], word, &[Arg::Zero(File::R), mask, Arg::not(predicate)]);
        };
        let args = [before.into(), mask, Arg::Zero(File::R), Arg::Imm(0xfc), Arg::True(false)];
        let guard = Guard { predicate, negated: false, else_values: smallvec![before] };
        let set = InstData { guard: Some(guard), ..data(sass::Op::LOP3, &[M::LUT], word, &args) };
        self.out.push(self.function.insts.push(set));
    }

    /// Saves a value in a word of its own.
    fn save(&mut self, value: Value, word: Value) {
        match self.function.values[value].file {
            File::B => self.push(sass::Op::BMOV, &[M::_32, M::CLEAR], word, &[value.into()]),
            File::UR => self.copy_words(sass::Op::MOV, value, word, File::R),
            File::UP => {
                let uniform = self.function.value(File::UR, 1);
                let args = [Arg::Zero(File::UR), Arg::Imm(1), Arg::not(value)];
                self.push(sass::Op::USEL, &[], uniform, &args);
                self.push(sass::Op::MOV, &[], word, &[uniform.into()]);
            }
            _ => self.push(sass::Op::SEL, &[], word, &[Arg::Zero(File::R), Arg::Imm(1), Arg::not(value)]),
        }
    }

    /// Restores a value.
    fn restore(&mut self, location: Location, value: Value) {
        let (word, bit) = match location {
            Location::Word(word) => (word, 0),
            Location::Bit(group, bit) => {
                let group = &self.groups[group];
                (group.versions[group.defined.saturating_sub(1)], bit)
            }
        };
        let yes = Arg::True(true);
        match self.function.values[value].file {
            File::B => self.push(sass::Op::BMOV, &[M::_32], value, &[word.into()]),
            File::UR => self.copy_words(sass::Op::R2UR, word, value, File::UR),
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

    /// Copies a value to another file word by word.
    fn copy_words(&mut self, op: sass::Op, from: Value, to: Value, file: File) {
        let mut parts: Vec<Arg> = Vec::new();
        for word in 0..self.function.values[from].words {
            let part = self.function.value(file, 1);
            self.push(op, &[], part, &[Arg::word(from, word)]);
            parts.push(part.into());
        }
        let pack = InstData { op: Op::Pseudo(Pseudo::Pack), ..data(op, &[], to, &parts) };
        self.out.push(self.function.insts.push(pack));
    }

    /// Restores the saved values among those that are used: (old, new).
    fn reload_before_use(&mut self, mut used: Vec<Value>) -> Vec<(Value, Value)> {
        used.retain(|v| self.locations.contains_key(v));
        used.sort();
        used.dedup();
        let mut fresh = Vec::new();
        for value in used {
            let shape = self.function.values[value];
            let result = self.function.value(shape.file, shape.words);
            self.restore(self.locations[&value], result);
            self.short_lived.push(result);
            fresh.push((value, result));
        }
        fresh
    }

    /// Arguments of parameters that are words now become words; other saved values are restored.
    fn end(&mut self, block: Block) {
        let mut end = std::mem::replace(&mut self.function.blocks[block].end, Terminator::Exit);
        for edge in end.edges_mut() {
            for i in 0..edge.args.len() {
                let arg = edge.args[i];
                let param = self.function.blocks[edge.to].params[i];
                let is_word = self.locations.contains_key(&param) || self.new.contains(&param);
                if is_word && self.function.values[arg].file != File::R {
                    edge.args[i] = self.word_of(arg);
                }
            }
        }
        let fresh = self.reload_before_use(end.uses().collect());
        for (old, new) in fresh {
            if let Some(decider) = end.decider_mut().filter(|decider| **decider == old) {
                *decider = new;
            }
            for edge in end.edges_mut() {
                edge.args.iter_mut().filter(|v| **v == old).for_each(|v| *v = new);
            }
        }
        self.function.blocks[block].end = end;
    }

    /// A word that holds a value.
    fn word_of(&mut self, value: Value) -> Value {
        let word = |r: &mut Self, value: Value| {
            let word = r.function.value(File::R, r.function.values[value].words);
            r.save(value, word);
            word
        };
        match self.locations.get(&value).copied() {
            Some(Location::Word(word)) => word,
            None => word(self, value),
            Some(Location::Bit(..)) => {
                let fresh = self.reload_before_use(vec![value]);
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
            let uses = std::iter::once(&mut guard.predicate).chain(&mut guard.else_values);
            uses.filter(|v| **v == *old).for_each(|v| *v = *new);
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
