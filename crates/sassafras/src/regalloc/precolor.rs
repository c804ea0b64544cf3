//! Precoloring: the register operands of wgmma (`HGMMA` and kin) get their registers before any other value.
//!
//! An accumulator passes from wgmma to wgmma, through waits, word by word through arithmetic, and around loops. Ties,
//! packs, unpacks, `Landed` and edges are affinities between values; affine values whose live ranges don't interfere
//! are coalesced into a congruence class (Sreedhar et al., SAS 1999; aggressive coalescing, most expensive moves
//! first). A value has a fixed offset in its class. A class with a wgmma operand gets a run of registers of its own,
//! the widest first.
//!
//! ```text
//! v1 = HGMMA …, v0          v0, v1, v2, v3 and the loop's parameter
//! v2 = Landed v1     ==>    are one class: R24..R151
//! v3 = Pack …               in each iteration, with no move
//! ```
//!
//! Afterwards
//!
//! * precolored values whose live ranges overlap share no register;
//! * a precolored value has one register for its whole live range: it is never moved or spilled;
//! * for every other value the registers are known that precolored values need in its live range
//!   ([`Precoloring::conflicts`]).
//!
//! Classes that find no run of registers are not precolored. Functions without wgmma, or with calls, have no precolored
//! values. Costs a live set per affine value, and a test of all pairs of members when two classes are coalesced.

use super::calls::reserved;
use super::reg_file::{Limits, alignment};
use super::{is_early_clobber, undefined};
use crate::context::Tuning;
use crate::regalloc::reg_set::RegSet;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Pseudo, Value};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Precoloring {
    regs: Vec<Option<u8>>,
    conflicts: Vec<RegSet>,
}

impl Precoloring {
    pub fn new(
        function: &Function,
        (cfg, live): (&Cfg, &Liveness),
        limits: &Limits,
        tuning: &Tuning,
    ) -> Precoloring {
        let seeds = wgmma_operands(function, cfg);
        if seeds.is_empty() || has_calls(function, cfg) {
            return Precoloring::default();
        }
        let affinities = connected(affinities(function, cfg), &seeds, function.values.len());
        let mut classes = CongruenceClasses::new(function, cfg, live, &affinities);
        affinities.into_iter().for_each(|affinity| classes.coalesce(affinity));
        let mut precolored = Precoloring { regs: vec![None; function.values.len()], conflicts: Vec::new() };
        classes.assign((cfg, live), &seeds, (limits, tuning), &mut precolored.regs);
        precolored.find_conflicts(function, cfg, live);
        precolored
    }

    pub fn is_empty(&self) -> bool {
        self.regs.iter().all(Option::is_none)
    }

    /// The register of a precolored value.
    pub fn reg(&self, value: Value) -> Option<u8> {
        self.regs.get(value.index()).copied().flatten()
    }

    /// The registers that precolored values have somewhere in the live range of this one, which is not precolored.
    pub fn conflicts(&self, value: Value) -> RegSet {
        self.conflicts.get(value.index()).copied().unwrap_or_default()
    }

    pub fn has_conflicts(&self, value: Value) -> bool {
        self.conflicts(value) != RegSet::default()
    }

    fn find_conflicts(&mut self, function: &Function, cfg: &Cfg, live: &Liveness) {
        let registers =
            |v: Value| self.regs[v.index()].map(|p| RegSet::of(p, function.values[v].words.into()));
        let registers: Vec<Option<RegSet>> = function.values.keys().map(registers).collect();
        let of = |v: Value| registers[v.index()];
        let mut conflicts = vec![RegSet::default(); function.values.len()];
        let mut precolored = ValueSet::new(function.values.len());
        function.values.keys().filter(|v| of(*v).is_some()).for_each(|v| precolored.insert(v));
        for_each_def(function, cfg, live, |results, live_now| {
            let all = |values: &mut dyn Iterator<Item = Value>| {
                let mut set = RegSet::default();
                values.filter_map(of).for_each(|registers| set.add(registers));
                set
            };
            let new = all(&mut results.iter().copied());
            if new != RegSet::default() {
                live_now.iter().filter(|v| of(*v).is_none()).for_each(|v| conflicts[v.index()].add(new));
            }
            let mut others =
                results.iter().filter(|r| function.values[**r].file == File::R && of(**r).is_none());
            if let Some(first) = others.next() {
                let old = all(&mut live_now.iter_both(&precolored));
                std::iter::once(first).chain(others).for_each(|r| conflicts[r.index()].add(old));
            }
        });
        self.conflicts = conflicts;
    }
}

/// Two values that need no move between them if `part` starts `offset` words after the start of `whole`.
#[derive(Clone, Copy)]
struct Affinity {
    whole: Value,
    part: Value,
    offset: isize,
}

/// The operands of wgmma in R: the seeds of the classes.
fn wgmma_operands(function: &Function, cfg: &Cfg) -> BTreeSet<Value> {
    let wgmmas = insts(function, cfg).map(|(_, data)| data).filter(|d| d.is_wgmma());
    let values = wgmmas.flat_map(|d| d.results.iter().copied().chain(d.args.iter().filter_map(Arg::value)));
    values.filter(|v| function.values[*v].file == File::R && function.values[*v].words > 1).collect()
}

/// The convention fixes registers around calls: nothing is precolored there.
fn has_calls(function: &Function, cfg: &Cfg) -> bool {
    let ops = insts(function, cfg).map(|(_, data)| data.op);
    { ops }.any(|op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry | Pseudo::Leave)))
}

fn insts<'a>(function: &'a Function, cfg: &'a Cfg) -> impl Iterator<Item = (Block, &'a InstData)> + 'a {
    let of = move |b: &'a Block| function.blocks[*b].insts.iter().map(move |i| (*b, &function.insts[*i]));
    cfg.order.iter().flat_map(of)
}

/// All affinities, those with the most expensive moves first.
fn affinities(function: &Function, cfg: &Cfg) -> Vec<Affinity> {
    let depths = loop_depths(function, cfg);
    let undefined = undefined(function, cfg);
    let mut all: Vec<(u32, Affinity)> = Vec::new();
    for (block, data) in insts(function, cfg) {
        // A move between wgmmas would be placed while they are in flight.
        let cost = if data.is_wgmma() { u32::MAX } else { depths[block.index()] };
        all.extend(affinities_of(function, data).into_iter().map(|affinity| (cost, affinity)));
    }
    for &block in &cfg.order {
        for edge in function.blocks[block].end.edges() {
            let pairs = function.blocks[edge.to].params.iter().zip(&edge.args);
            let affinities = pairs.map(|(whole, part)| Affinity { whole: *whole, part: *part, offset: 0 });
            all.extend(affinities.map(|affinity| (depths[block.index()], affinity)));
        }
    }
    let usable = |v: Value| function.values[v].file == File::R && !undefined.contains(v);
    all.retain(|(_, affinity)| usable(affinity.whole) && usable(affinity.part));
    all.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    all.into_iter().map(|(_, affinity)| affinity).collect()
}

/// The affinities that are connected to some seed.
fn connected(mut affinities: Vec<Affinity>, seeds: &BTreeSet<Value>, values: usize) -> Vec<Affinity> {
    let mut adjacent: Vec<Vec<Value>> = vec![Vec::new(); values];
    for affinity in &affinities {
        adjacent[affinity.whole.index()].push(affinity.part);
        adjacent[affinity.part.index()].push(affinity.whole);
    }
    let mut reached = ValueSet::new(values);
    let mut worklist: Vec<Value> = seeds.iter().copied().collect();
    while let Some(value) = worklist.pop() {
        if !reached.contains(value) {
            reached.insert(value);
            worklist.append(&mut adjacent[value.index()]);
        }
    }
    affinities.retain(|affinity| reached.contains(affinity.whole));
    affinities
}

fn affinities_of(function: &Function, data: &InstData) -> Vec<Affinity> {
    let same = |(whole, part): (&Value, Value)| Affinity { whole: *whole, part, offset: 0 };
    let args = || data.args.iter().filter_map(Arg::value);
    match (data.op, &data.guard) {
        (_, Some(guard)) => data.results.iter().zip(guard.else_values.iter().copied()).map(same).collect(),
        (Op::Machine(_), None) => data.results.iter().zip(function.tied(data)).map(same).collect(),
        (Op::Pseudo(Pseudo::Landed | Pseudo::Copy), None) => {
            data.results.iter().zip(args()).map(same).collect()
        }
        (Op::Pseudo(Pseudo::Pack), None) => pack_affinities(function, data),
        (Op::Pseudo(Pseudo::Unpack), None) => unpack_affinities(function, data),
        _ => Vec::new(),
    }
}

fn pack_affinities(function: &Function, data: &InstData) -> Vec<Affinity> {
    let mut next: isize = 0;
    let mut affinities = Vec::new();
    for arg in &data.args {
        let Arg::Use(u) = arg else { return affinities };
        let (first, count) = u.part.map_or((0, function.values[u.value].words), |p| (p.first, p.count));
        affinities.push(Affinity { whole: data.results[0], part: u.value, offset: next - first as isize });
        next += count as isize;
    }
    affinities
}

fn unpack_affinities(function: &Function, data: &InstData) -> Vec<Affinity> {
    let [Arg::Use(u)] = data.args[..] else { return Vec::new() };
    let mut next = u.part.map_or(0, |p| p.first) as isize;
    let affinity = |part: &Value| {
        let offset = next;
        next += function.values[*part].words as isize;
        Affinity { whole: u.value, part: *part, offset }
    };
    data.results.iter().map(affinity).collect()
}

/// Loop depths, estimated from retreating edges in reverse post-order.
fn loop_depths(function: &Function, cfg: &Cfg) -> Vec<u32> {
    let rpo_indices = super::rpo_indices(cfg, function.blocks.len());
    let mut depths = vec![0; function.blocks.len()];
    for (last, from) in cfg.order.iter().enumerate() {
        for to in &cfg.succs[from.index()] {
            let first = rpo_indices[to.index()] as usize;
            let inside = cfg.order.get(first..=last).unwrap_or_default();
            inside.iter().for_each(|b| depths[b.index()] += 1);
        }
    }
    depths
}

/// Calls `visit` for each definition (the parameters of a block are one) with the values that may not share its
/// registers: those that are live after it, the results themselves, and operands that are read after an early clobber.
fn for_each_def(function: &Function, cfg: &Cfg, live: &Liveness, mut visit: impl FnMut(&[Value], &ValueSet)) {
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let mut live_now = live.live_out[block.index()].to_set(function.values.len());
        data.end.uses().for_each(|v| live_now.insert(v));
        for inst in data.insts.iter().rev().map(|i| &function.insts[*i]) {
            if inst.guard.is_some() || is_early_clobber(inst) {
                let else_values = inst.guard.iter().flat_map(|g| g.else_values.iter().copied());
                let overwritten: Vec<Value> = else_values.chain(function.tied(inst)).collect();
                inst.uses().filter(|v| !overwritten.contains(v)).for_each(|v| live_now.insert(v));
            }
            if !inst.results.is_empty() {
                inst.results.iter().for_each(|r| live_now.insert(*r));
                visit(&inst.results, &live_now);
                inst.results.iter().for_each(|r| live_now.remove(*r));
            }
            inst.uses().for_each(|v| live_now.insert(v));
        }
        data.params.iter().for_each(|p| live_now.insert(*p));
        visit(&data.params, &live_now);
    }
}

/// Coalesced values, at fixed offsets.
struct CongruenceClass {
    /// Each with the offset of its first word.
    members: Vec<(Value, usize)>,
    words: usize,
}

struct CongruenceClasses<'a> {
    function: &'a Function,
    /// The live set after the definition of each affine value.
    live_after: Vec<Option<ValueSet>>,
    all: Vec<CongruenceClass>,
    /// The class of each value, and its offset there.
    of: Vec<(usize, usize)>,
}

impl<'a> CongruenceClasses<'a> {
    /// A class for each value.
    fn new(
        function: &'a Function,
        cfg: &Cfg,
        live: &Liveness,
        affinities: &[Affinity],
    ) -> CongruenceClasses<'a> {
        let mut affine = ValueSet::new(function.values.len());
        affinities.iter().flat_map(|affinity| [affinity.whole, affinity.part]).for_each(|v| affine.insert(v));
        let mut live_after = vec![None; function.values.len()];
        for_each_def(function, cfg, live, |results, live_now| {
            let affine = results.iter().filter(|r| affine.contains(**r));
            affine.for_each(|r| live_after[r.index()] = Some(live_now.clone()));
        });
        let singleton =
            |v: Value| CongruenceClass { members: vec![(v, 0)], words: function.values[v].words.into() };
        let all = function.values.keys().map(singleton).collect();
        let of = (0..function.values.len()).map(|class| (class, 0)).collect();
        CongruenceClasses { function, live_after, all, of }
    }

    /// Do the live ranges of two values overlap?
    fn interfere(&self, a: Value, b: Value) -> bool {
        let is_live =
            |v: Value, at: Value| self.live_after[at.index()].as_ref().is_none_or(|set| set.contains(v));
        is_live(a, b) || is_live(b, a)
    }

    /// Merges two classes if their members don't interfere. A class never becomes wider than its widest value.
    fn coalesce(&mut self, affinity: Affinity) {
        let ((a, whole), (b, part)) = (self.of[affinity.whole.index()], self.of[affinity.part.index()]);
        let (at_a, at_b) = (whole as isize + affinity.offset, part as isize);
        if a == b {
            return;
        }
        let inside = |into: usize, from: usize, shift: isize| {
            let shift = usize::try_from(shift).ok()?;
            (shift + self.all[from].words <= self.all[into].words).then_some((into, from, shift))
        };
        let found = inside(a, b, at_a - at_b).or_else(|| inside(b, a, at_b - at_a));
        let Some((into, from, shift)) = found else { return };
        if self.would_interfere(into, from, shift) {
            return;
        }
        for (value, at) in std::mem::take(&mut self.all[from].members) {
            self.all[into].members.push((value, at + shift));
            self.of[value.index()] = (into, at + shift);
        }
    }

    /// Would two values with overlapping live ranges share a register?
    fn would_interfere(&self, into: usize, from: usize, shift: usize) -> bool {
        let range = |(value, at): &(Value, usize)| *at..at + usize::from(self.function.values[*value].words);
        self.all[from].members.iter().any(|b| {
            let b_range = range(b).start + shift..range(b).end + shift;
            let share = |a: &&(Value, usize)| range(a).start < b_range.end && b_range.start < range(a).end;
            self.all[into].members.iter().filter(share).any(|a| self.interfere(a.0, b.0))
        })
    }

    /// Assigns a run of registers to each class with a seed, the widest first.
    fn assign(
        &self,
        (cfg, live): (&Cfg, &Liveness),
        seeds: &BTreeSet<Value>,
        (limits, tuning): (&Limits, &Tuning),
        regs: &mut [Option<u8>],
    ) {
        let first = tuning.regalloc_wgmma_first_register.min(u8::MAX.into()) as usize;
        let chosen: BTreeSet<usize> = seeds.iter().map(|v| self.of[v.index()].0).collect();
        let interfering_classes = self.interfering_classes(cfg, live, &chosen);
        let mut order: Vec<usize> = chosen.into_iter().collect();
        order.sort_by_key(|class| std::cmp::Reverse(self.all[*class].words));
        let mut starts: Vec<Option<usize>> = vec![None; self.all.len()];
        for class in order {
            let words = self.all[class].words;
            let mut taken = reserved(self.function);
            limits.scratch.iter().for_each(|r| taken.add(RegSet::of(*r, 1)));
            for other in &interfering_classes[class] {
                let start = starts[*other];
                start.iter().for_each(|s| taken.add(RegSet::of(*s as u8, self.all[*other].words as u16)));
            }
            let most = usize::from(limits.usable(limits.registers));
            let fits = |start: &usize| {
                start + words <= most
                    && self.is_aligned(class, *start)
                    && !taken.contains_any(*start..start + words)
            };
            starts[class] = (first..most).chain(0..first).find(fits);
            if let Some(start) = starts[class] {
                let members = self.all[class].members.iter();
                members.for_each(|(value, at)| regs[value.index()] = Some((start + at) as u8));
            }
        }
    }

    fn is_aligned(&self, class: usize, start: usize) -> bool {
        let aligned = |(value, at): &(Value, usize)| {
            (start + at).is_multiple_of(alignment(File::R, self.function.values[*value].words))
        };
        self.all[class].members.iter().all(aligned)
    }

    /// The interference graph of the classes.
    fn interfering_classes(
        &self,
        cfg: &Cfg,
        live: &Liveness,
        chosen: &BTreeSet<usize>,
    ) -> Vec<BTreeSet<usize>> {
        let class = |v: Value| Some(self.of[v.index()].0).filter(|c| chosen.contains(c));
        let mut all = vec![BTreeSet::new(); self.all.len()];
        let mut members = ValueSet::new(self.function.values.len());
        chosen.iter().flat_map(|c| &self.all[*c].members).for_each(|(v, _)| members.insert(*v));
        for_each_def(self.function, cfg, live, |results, live_now| {
            for new in results.iter().filter_map(|r| class(*r)) {
                for old in live_now.iter_both(&members).filter_map(class).filter(|old| *old != new) {
                    all[new].insert(old);
                    all[old].insert(new);
                }
            }
        });
        all
    }
}
