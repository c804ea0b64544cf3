//! Location lists of PTX registers for a debugger: in which machine register or frame slot each is, over which addresses.
//!
//! A PTX register is a value from the instruction that writes it to the next that does ([`Binding`]); the value is
//! where the checker of the register allocation, which follows it word by word, finds it. Its register may be overwritten
//! once the value is dead: then there is no location, and the debugger says so. No location is ever wrong. A forward
//! dataflow over blocks, then one walk.

use crate::lower::{Binding, Kernel};
use crate::mach::inst::{MachFunction, MachInst};
use crate::mach::unit::EncodedFunction;
use crate::regalloc::Checker;
use ori::entity::Entity;
use ori::{Block, Cfg, File, Value};
use ptx::ast::Reg;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const WORD: u32 = sass::WORD_BYTES as u32;

/// Where a word of a register can be. The order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Storage {
    Predicate(u8),
    Register(u8),
    /// Bytes from the stack pointer.
    Frame(u16),
}

/// A word of a register is there before each instruction from the first address to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub storage: Storage,
    pub first: u32,
    pub last: u32,
    pub reg: Reg,
    pub word: u8,
}

/// The locations of all registers of a function, sorted.
pub fn locations(
    kernel: &Kernel,
    code: &MachFunction,
    encoded: &EncodedFunction,
    isa: sass::Isa,
) -> Result<Vec<Location>, String> {
    let cfg = Cfg::new(&kernel.code);
    let checker = Checker::new(&kernel.code, code, isa);
    let of_blocks = by_block(kernel);
    let entries = values_at_entry(&cfg, &of_blocks);
    let mut tracker = Tracker {
        kernel,
        checker: &checker,
        slots: own_slots(code),
        now: BTreeMap::new(),
        open: BTreeMap::new(),
        done: Vec::new(),
    };
    for (i, &block) in code.order.iter().enumerate() {
        let addresses = &encoded.of_block[block.index()];
        let next = code.order[i + 1..].iter().find_map(|b| encoded.of_block[b.index()].first());
        let end = next.copied().unwrap_or(encoded.bytes.len() as u32);
        if let (Some(&start), Some(entry)) = (addresses.first(), &entries[block.index()]) {
            tracker.now = entry.clone();
            tracker.block(block, &of_blocks[block.index()], &Span { start, addresses, end })?;
        }
    }
    let mut all = tracker.finish();
    all.sort_unstable();
    Ok(all)
}

type Values = BTreeMap<Reg, Value>;

fn by_block(kernel: &Kernel) -> Vec<Vec<Binding>> {
    let mut all = vec![Vec::new(); kernel.code.blocks.len()];
    kernel.bindings.iter().for_each(|binding| all[binding.block.index()].push(*binding));
    all
}

/// The values of registers at the entry of a block: those on which all predecessors agree. `None` if it is unreachable.
fn values_at_entry(cfg: &Cfg, bindings: &[Vec<Binding>]) -> Vec<Option<Values>> {
    let mut ends: Vec<Option<Values>> = vec![None; bindings.len()];
    let mut entries: Vec<Option<Values>> = vec![None; bindings.len()];
    loop {
        let mut changed = false;
        for &block in &cfg.order {
            let preds = &cfg.preds[block.index()];
            // A back edge counts once it was visited: what holds there can only become less.
            let mut known = preds.iter().filter_map(|p| ends[p.index()].as_ref());
            let mut entry = known.next().cloned().unwrap_or_default();
            known.for_each(|other| entry.retain(|reg, value| other.get(reg) == Some(value)));
            let (begins, _): (Vec<&Binding>, Vec<&Binding>) =
                bindings[block.index()].iter().partition(|binding| binding.at == 0);
            entry.extend(begins.iter().map(|binding| (binding.reg, binding.value)));
            let mut end = entry.clone();
            end.extend(bindings[block.index()].iter().map(|binding| (binding.reg, binding.value)));
            changed |= ends[block.index()].as_ref() != Some(&end);
            entries[block.index()] = Some(entry);
            ends[block.index()] = Some(end);
        }
        if !changed {
            return entries;
        }
    }
}

/// The slots that belong to one value alone: it is there from its definition on.
fn own_slots(code: &MachFunction) -> FxHashMap<Value, u32> {
    let mut owners: FxHashMap<u32, Vec<Value>> = FxHashMap::default();
    for (index, slot) in code.claims.slots.iter().enumerate() {
        slot.iter().for_each(|slot| owners.entry(*slot).or_default().push(Value::new(index)));
    }
    owners
        .into_iter()
        .filter_map(|(slot, values)| <[Value; 1]>::try_from(values).ok().map(|[v]| (v, slot)))
        .collect()
}

/// The addresses of a block: of its first instruction, of each, and of what follows it.
struct Span<'a> {
    start: u32,
    addresses: &'a [u32],
    end: u32,
}

struct Tracker<'a> {
    kernel: &'a Kernel,
    checker: &'a Checker<'a>,
    slots: FxHashMap<Value, u32>,
    now: Values,
    /// The last known location of each word.
    open: BTreeMap<(Reg, u8), Location>,
    done: Vec<Location>,
}

impl Tracker<'_> {
    fn block(&mut self, block: Block, bindings: &[Binding], span: &Span) -> Result<(), String> {
        let checker = self.checker;
        let mut written = bindings.iter().filter(|binding| binding.at > 0).peekable();
        let mut from = span.start;
        let mut index = 0;
        checker.contents(block, |inst: Option<&MachInst>, registers| {
            // A PTX instruction has written its register where the code of the next one begins.
            let is_past = |binding: &&&Binding| inst.is_none_or(|inst| inst.at > binding.at);
            while let Some(binding) = written.next_if(|binding| is_past(&binding)) {
                self.now.insert(binding.reg, binding.value);
            }
            let to = if inst.is_some() { span.addresses[index] } else { span.end.saturating_sub(WORD) };
            if from <= to {
                let mut storages: FxHashMap<_, Storage> = FxHashMap::default();
                for (&(file, number), root) in registers {
                    let storage = match file {
                        File::R => Storage::Register(number),
                        File::P => Storage::Predicate(number),
                        _ => continue,
                    };
                    storages.entry(*root).and_modify(|known| *known = storage.min(*known)).or_insert(storage);
                }
                self.record(from, to, &|root| storages.get(&root).copied());
            }
            from = to + WORD;
            index += 1;
        })
    }

    /// Before the instructions of these addresses, the words are there.
    fn record(&mut self, first: u32, last: u32, storage_of: &dyn Fn((Value, u8)) -> Option<Storage>) {
        let now = std::mem::take(&mut self.now);
        for (&reg, &value) in &now {
            for word in 0..self.kernel.code.values[value].words {
                let root = self.checker.root(value, word);
                let storage = root.and_then(storage_of).or_else(|| self.in_frame(value, word));
                let Some(storage) = root.and(storage) else { continue };
                let new = Location { storage, first, last, reg, word };
                match self.open.get_mut(&(reg, word)) {
                    Some(old) if old.storage == storage && old.last + WORD == first => old.last = last,
                    _ => self.done.extend(self.open.insert((reg, word), new)),
                }
            }
        }
        self.now = now;
    }

    fn in_frame(&self, value: Value, word: u8) -> Option<Storage> {
        let slot = self.slots.get(&value)? + 4 * u32::from(word);
        u16::try_from(slot).ok().map(Storage::Frame)
    }

    fn finish(mut self) -> Vec<Location> {
        self.done.extend(self.open.into_values());
        self.done
    }
}
