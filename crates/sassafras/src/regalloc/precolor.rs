//! Pinned values: what asynchronous products read and write has its registers before anything else gets any.
//!
//! An accumulator goes from product to product, through waits, word by word through arithmetic, and around loops. The
//! values on this way are linked by ties, packs, unpacks, landings and edges; where two linked values are never needed
//! at the same time, sharing a register saves the move between them. Values that share are a *class*: each has a fixed
//! place relative to the others. A class that a product takes part in gets a run of registers of its own.
//!
//! After this:
//!
//! * two pinned values that are alive at the same time have no register in common;
//! * a pinned value has one place for all its life: it is never moved and never goes to memory;
//! * of every other value it is known which registers pinned values need while it lives ([`Pins::closed`]).
//!
//! Classes that find no run of registers are not pinned. Functions without asynchronous products have no pins.

use super::calls::reserved;
use super::reg_file::{Limits, alignment};
use super::{early_writer, undefined};
use crate::regalloc::reg_set::Registers;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Pseudo, Value};
use std::collections::BTreeSet;

/// The first register that is tried: those below are for addresses and the like (ptxas begins at R24, too).
const FIRST: usize = 24;

#[derive(Default)]
pub struct Pins {
    places: Vec<Option<u8>>,
    closed: Vec<Registers>,
}

impl Pins {
    pub fn new(function: &Function, cfg: &Cfg, live: &Liveness, limits: &Limits) -> Pins {
        let seeds = seeds(function, cfg);
        if seeds.is_empty() || has_convention(function, cfg) {
            return Pins::default();
        }
        let links = connected(links(function, cfg), &seeds, function.values.len());
        let mut classes = Classes::new(function, cfg, live, &links);
        links.into_iter().for_each(|link| classes.join(link));
        let mut pins = Pins { places: vec![None; function.values.len()], closed: Vec::new() };
        classes.place(cfg, live, &seeds, limits, &mut pins.places);
        pins.close(function, cfg, live);
        pins
    }

    pub fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    /// The place of a pinned value.
    pub fn place(&self, value: Value) -> Option<u8> {
        self.places.get(value.index()).copied().flatten()
    }

    /// The registers that pinned values have at some time in the life of a value that is not pinned.
    pub fn closed(&self, value: Value) -> Registers {
        self.closed.get(value.index()).copied().unwrap_or_default()
    }

    /// Are there such registers?
    pub fn closes(&self, value: Value) -> bool {
        self.closed(value) != Registers::default()
    }

    fn close(&mut self, function: &Function, cfg: &Cfg, live: &Liveness) {
        let of = |v: Value| self.places[v.index()].map(|p| Registers::of(p, function.values[v].words.into()));
        let mut closed = vec![Registers::default(); function.values.len()];
        at_definitions(function, cfg, live, |results, alive| {
            let all = |values: &mut dyn Iterator<Item = Value>| {
                let mut set = Registers::default();
                values.filter_map(of).for_each(|registers| set.add(registers));
                set
            };
            let new = all(&mut results.iter().copied());
            if new != Registers::default() {
                alive.iter().filter(|v| of(*v).is_none()).for_each(|v| closed[v.index()].add(new));
            }
            let mut others =
                results.iter().filter(|r| function.values[**r].file == File::R && of(**r).is_none());
            if let Some(first) = others.next() {
                let old = all(&mut alive.iter());
                std::iter::once(first).chain(others).for_each(|r| closed[r.index()].add(old));
            }
        });
        self.closed = closed;
    }
}

/// Two values that need no move between them if `part` lies so many words behind the beginning of `whole`.
#[derive(Clone, Copy)]
struct Link {
    whole: Value,
    part: Value,
    offset: isize,
}

/// What asynchronous products read and write in general registers.
fn seeds(function: &Function, cfg: &Cfg) -> BTreeSet<Value> {
    let products = insts(function, cfg).map(|(_, data)| data).filter(|d| is_product(d));
    let values = products.flat_map(|d| d.results.iter().copied().chain(d.args.iter().filter_map(Arg::value)));
    values.filter(|v| function.values[*v].file == File::R && function.values[*v].words > 1).collect()
}

fn is_product(data: &InstData) -> bool {
    use sass::Op::{BGMMA, HGMMA, IGMMA, QGMMA};
    matches!(data.op, Op::Machine(HGMMA | IGMMA | QGMMA | BGMMA))
}

/// Calls put values where they want: nothing is pinned around them.
fn has_convention(function: &Function, cfg: &Cfg) -> bool {
    let ops = insts(function, cfg).map(|(_, data)| data.op);
    { ops }.any(|op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry | Pseudo::Leave)))
}

fn insts<'a>(function: &'a Function, cfg: &'a Cfg) -> impl Iterator<Item = (Block, &'a InstData)> + 'a {
    let of = move |b: &'a Block| function.blocks[*b].insts.iter().map(move |i| (*b, &function.insts[*i]));
    cfg.order.iter().flat_map(of)
}

/// All links, those first whose moves would cost most.
fn links(function: &Function, cfg: &Cfg) -> Vec<Link> {
    let depths = loop_depths(function, cfg);
    let undefined = undefined(function, cfg);
    let mut all: Vec<(u32, Link)> = Vec::new();
    for (block, data) in insts(function, cfg) {
        // A move between products would come while they are in flight.
        let cost = if is_product(data) { u32::MAX } else { depths[block.index()] };
        all.extend(links_of(function, data).into_iter().map(|link| (cost, link)));
    }
    for &block in &cfg.order {
        for edge in function.blocks[block].end.edges() {
            let pairs = function.blocks[edge.to].params.iter().zip(&edge.args);
            let links = pairs.map(|(whole, part)| Link { whole: *whole, part: *part, offset: 0 });
            all.extend(links.map(|link| (depths[block.index()], link)));
        }
    }
    let usable = |v: Value| function.values[v].file == File::R && !undefined.contains(v);
    all.retain(|(_, link)| usable(link.whole) && usable(link.part));
    all.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    all.into_iter().map(|(_, link)| link).collect()
}

/// The links that a way of links leads to from some seed.
fn connected(mut links: Vec<Link>, seeds: &BTreeSet<Value>, values: usize) -> Vec<Link> {
    let mut linked: Vec<Vec<Value>> = vec![Vec::new(); values];
    for link in &links {
        linked[link.whole.index()].push(link.part);
        linked[link.part.index()].push(link.whole);
    }
    let mut reached = ValueSet::new(values);
    let mut new: Vec<Value> = seeds.iter().copied().collect();
    while let Some(value) = new.pop() {
        if !reached.contains(value) {
            reached.insert(value);
            new.append(&mut linked[value.index()]);
        }
    }
    links.retain(|link| reached.contains(link.whole));
    links
}

fn links_of(function: &Function, data: &InstData) -> Vec<Link> {
    let same = |(whole, part): (&Value, Value)| Link { whole: *whole, part, offset: 0 };
    let args = || data.args.iter().filter_map(Arg::value);
    match (data.op, &data.guard) {
        (_, Some(guard)) => data.results.iter().zip(guard.kept.iter().copied()).map(same).collect(),
        (Op::Machine(_), None) => data.results.iter().zip(function.tied(data)).map(same).collect(),
        (Op::Pseudo(Pseudo::Landed | Pseudo::Copy), None) => {
            data.results.iter().zip(args()).map(same).collect()
        }
        (Op::Pseudo(Pseudo::Pack), None) => packed(function, data),
        (Op::Pseudo(Pseudo::Unpack), None) => unpacked(function, data),
        _ => Vec::new(),
    }
}

fn packed(function: &Function, data: &InstData) -> Vec<Link> {
    let mut next: isize = 0;
    let mut links = Vec::new();
    for arg in &data.args {
        let Arg::Use(u) = arg else { return links };
        let (first, count) = u.part.map_or((0, function.values[u.value].words), |p| (p.first, p.count));
        links.push(Link { whole: data.results[0], part: u.value, offset: next - first as isize });
        next += count as isize;
    }
    links
}

fn unpacked(function: &Function, data: &InstData) -> Vec<Link> {
    let [Arg::Use(u)] = data.args[..] else { return Vec::new() };
    let mut next = u.part.map_or(0, |p| p.first) as isize;
    let link = |part: &Value| {
        let offset = next;
        next += function.values[*part].words as isize;
        Link { whole: u.value, part: *part, offset }
    };
    data.results.iter().map(link).collect()
}

/// How many loops each block is in, as far as the order of the blocks tells.
fn loop_depths(function: &Function, cfg: &Cfg) -> Vec<u32> {
    let ranks = super::ranks(cfg, function.blocks.len());
    let mut depths = vec![0; function.blocks.len()];
    for (last, from) in cfg.order.iter().enumerate() {
        for to in &cfg.succs[from.index()] {
            let first = ranks[to.index()] as usize;
            let inside = cfg.order.get(first..=last).unwrap_or_default();
            inside.iter().for_each(|b| depths[b.index()] += 1);
        }
    }
    depths
}

/// Calls `visit` for each definition (the parameters of a block are one) with what may not share its registers: all
/// that is alive behind it, the results themselves, and what the instruction still reads when it has begun to write.
fn at_definitions(
    function: &Function,
    cfg: &Cfg,
    live: &Liveness,
    mut visit: impl FnMut(&[Value], &ValueSet),
) {
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let mut alive = live.live_out[block.index()].clone();
        data.end.uses().for_each(|v| alive.insert(v));
        for inst in data.insts.iter().rev().map(|i| &function.insts[*i]) {
            if inst.guard.is_some() || early_writer(inst) {
                let kept = inst.guard.iter().flat_map(|g| g.kept.iter().copied());
                let over: Vec<Value> = kept.chain(function.tied(inst)).collect();
                inst.uses().filter(|v| !over.contains(v)).for_each(|v| alive.insert(v));
            }
            if !inst.results.is_empty() {
                inst.results.iter().for_each(|r| alive.insert(*r));
                visit(&inst.results, &alive);
                inst.results.iter().for_each(|r| alive.remove(*r));
            }
            inst.uses().for_each(|v| alive.insert(v));
        }
        data.params.iter().for_each(|p| alive.insert(*p));
        visit(&data.params, &alive);
    }
}

/// Values at fixed distances from each other.
struct Class {
    /// Each with its first word, counted from the beginning of the class.
    members: Vec<(Value, usize)>,
    words: usize,
}

struct Classes<'a> {
    function: &'a Function,
    /// What is alive behind the definition of each linked value.
    behind: Vec<Option<ValueSet>>,
    all: Vec<Class>,
    /// The class of each value, and where in it the value is.
    of: Vec<(usize, usize)>,
}

impl<'a> Classes<'a> {
    /// Every value on its own.
    fn new(function: &'a Function, cfg: &Cfg, live: &Liveness, links: &[Link]) -> Classes<'a> {
        let mut linked = ValueSet::new(function.values.len());
        links.iter().flat_map(|link| [link.whole, link.part]).for_each(|v| linked.insert(v));
        let mut behind = vec![None; function.values.len()];
        at_definitions(function, cfg, live, |results, alive| {
            let linked = results.iter().filter(|r| linked.contains(**r));
            linked.for_each(|r| behind[r.index()] = Some(alive.clone()));
        });
        let alone = |v: Value| Class { members: vec![(v, 0)], words: function.values[v].words.into() };
        let all = function.values.keys().map(alone).collect();
        let of = (0..function.values.len()).map(|class| (class, 0)).collect();
        Classes { function, behind, all, of }
    }

    /// Are two values needed at the same time?
    fn interfere(&self, a: Value, b: Value) -> bool {
        let alive = |v: Value, at: Value| self.behind[at.index()].as_ref().is_none_or(|set| set.contains(v));
        alive(a, b) || alive(b, a)
    }

    /// Makes one class of two, if that is possible. It never becomes wider than its widest value.
    fn join(&mut self, link: Link) {
        let ((a, whole), (b, part)) = (self.of[link.whole.index()], self.of[link.part.index()]);
        let (at_a, at_b) = (whole as isize + link.offset, part as isize);
        if a == b {
            return;
        }
        let inside = |into: usize, from: usize, shift: isize| {
            let shift = usize::try_from(shift).ok()?;
            (shift + self.all[from].words <= self.all[into].words).then_some((into, from, shift))
        };
        let found = inside(a, b, at_a - at_b).or_else(|| inside(b, a, at_b - at_a));
        let Some((into, from, shift)) = found else { return };
        if self.clash(into, from, shift) {
            return;
        }
        for (value, at) in std::mem::take(&mut self.all[from].members) {
            self.all[into].members.push((value, at + shift));
            self.of[value.index()] = (into, at + shift);
        }
    }

    /// Would two values that are needed at the same time share a register?
    fn clash(&self, into: usize, from: usize, shift: usize) -> bool {
        let range = |(value, at): &(Value, usize)| *at..at + usize::from(self.function.values[*value].words);
        self.all[from].members.iter().any(|b| {
            let b_range = range(b).start + shift..range(b).end + shift;
            let share = |a: &&(Value, usize)| range(a).start < b_range.end && b_range.start < range(a).end;
            self.all[into].members.iter().filter(share).any(|a| self.interfere(a.0, b.0))
        })
    }

    /// Gives a run of registers to each class that a seed is in, the widest first.
    fn place(
        &self,
        cfg: &Cfg,
        live: &Liveness,
        seeds: &BTreeSet<Value>,
        limits: &Limits,
        places: &mut [Option<u8>],
    ) {
        let chosen: BTreeSet<usize> = seeds.iter().map(|v| self.of[v.index()].0).collect();
        let neighbours = self.neighbours(cfg, live, &chosen);
        let mut order: Vec<usize> = chosen.into_iter().collect();
        order.sort_by_key(|class| std::cmp::Reverse(self.all[*class].words));
        let mut starts: Vec<Option<usize>> = vec![None; self.all.len()];
        for class in order {
            let words = self.all[class].words;
            let mut taken = reserved(self.function);
            limits.scratch.iter().for_each(|r| taken.add(Registers::of(*r, 1)));
            for other in &neighbours[class] {
                let start = starts[*other];
                start.iter().for_each(|s| taken.add(Registers::of(*s as u8, self.all[*other].words as u16)));
            }
            let most = usize::from(limits.usable(limits.registers));
            let fits = |start: &usize| {
                start + words <= most
                    && self.is_aligned(class, *start)
                    && !taken.contains_any(*start..start + words)
            };
            starts[class] = (FIRST..most).chain(0..FIRST).find(fits);
            if let Some(start) = starts[class] {
                let members = self.all[class].members.iter();
                members.for_each(|(value, at)| places[value.index()] = Some((start + at) as u8));
            }
        }
    }

    fn is_aligned(&self, class: usize, start: usize) -> bool {
        let aligned = |(value, at): &(Value, usize)| {
            (start + at).is_multiple_of(alignment(File::R, self.function.values[*value].words))
        };
        self.all[class].members.iter().all(aligned)
    }

    /// For each class those that are alive at the same time.
    fn neighbours(&self, cfg: &Cfg, live: &Liveness, chosen: &BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
        let class = |v: Value| Some(self.of[v.index()].0).filter(|c| chosen.contains(c));
        let mut all = vec![BTreeSet::new(); self.all.len()];
        at_definitions(self.function, cfg, live, |results, alive| {
            for new in results.iter().filter_map(|r| class(*r)) {
                for old in alive.iter().filter_map(class).filter(|old| *old != new) {
                    all[new].insert(old);
                    all[old].insert(new);
                }
            }
        });
        all
    }
}
