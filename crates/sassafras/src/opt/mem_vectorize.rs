//! Memory access vectorization: merges adjacent loads or stores of shared and local memory, and loads from constant banks
//! at an index, and removes unused words at the ends of vector loads.
//!
//! ```text
//! v1 = LDS v0, 0x0                       v5:R2 = LDS.64 v0, 0x0
//! v2 = LDS v0, 0x4                  →    v1, v2 = Unpack v5
//! STS v0, 0x10, v1                       v6:R2 = Pack v1, v2
//! STS v0, 0x14, v2                       STS.64 v0, 0x10, v6
//! ```
//!
//! One walk over each block collects accesses with the same base, operation and guard. An operation that must keep its
//! order with one of them (`analysis/memory_dependence.rs`: fences, barriers, accesses that may alias) ends the
//! collection. A vector load is placed at its first member, a vector store at its last. The address must have the
//! alignment that the machine requires (`analysis/alignment.rs`). Global memory is not vectorized, because hardly any
//! base is known to be aligned; ptxas does not vectorize it either. Of guarded accesses only stores are merged, because
//! merging loads would require merging else values.
//!
//! Postcondition: no two mergeable plain accesses to an aligned pair are left. Cost: linear in the block; collections
//! are bounded (`vectorize_open`, `vectorize_members`).

use crate::analysis::alignment::Alignment;
use crate::analysis::effects::{self, Access, Effects, Memory};
use crate::context::{Context, Fuel, PassResult, Tuning};
use ori::entity::Entity;
use ori::{Arg, Block, Change, File, Function, Inst, InstData, Op, Part, Pseudo, Value};
use rustc_hash::FxHashMap;
use sass::{M, Op as Name};
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let rewrites = context.fuel.used();
    narrow(function, &cfg.order, &mut context.fuel);
    let is_candidate = |i: &Inst| Candidate::read(function, *i).is_some();
    if cfg.order.iter().any(|b| function.blocks[*b].insts.iter().filter(|i| is_candidate(i)).nth(1).is_some())
    {
        let alignment = Alignment::new(function, &cfg);
        for &block in &cfg.order {
            vectorize_block(function, block, &alignment, &context.tuning, &mut context.fuel);
        }
    }
    Ok(Change::Instructions.when(context.fuel.used() != rewrites))
}

/// What accesses of one vector have in common.
#[derive(Clone, PartialEq)]
struct Key {
    op: Name,
    base: Arg,
    guard: Option<(Value, bool)>,
}

/// A load or store that may become part of a vector.
#[derive(Clone)]
struct Candidate {
    inst: Inst,
    offset: i64,
    bytes: i64,
    effects: Effects,
}

impl Candidate {
    fn read(function: &Function, inst: Inst) -> Option<(Key, Candidate)> {
        let data = &function.insts[inst];
        if data.op == Op::Machine(Name::LDC) {
            return Candidate::of_constants(data, inst);
        }
        let Op::Machine(op @ (Name::LDS | Name::STS | Name::LDL | Name::STL)) = data.op else { return None };
        let effects = Effects::of(data);
        let (Memory::Read(access) | Memory::Write(access)) = effects.memory else { return None };
        let Access { base: Some(base), index: None, offset, bytes, .. } = access else { return None };
        let is_load = matches!(op, Name::LDS | Name::LDL);
        let has_form = matches!(data.modifiers[..], [] | [M::_64])
            && effects::is_plain_access(data)
            && data.args.len() == if is_load { 2 } else { 3 }
            && data.results.len() == usize::from(is_load);
        let guard = data.guard.as_ref().map(|g| (g.predicate, g.negated));
        (has_form && !(is_load && guard.is_some()))
            .then_some((Key { op, base, guard }, Candidate { inst, offset, bytes, effects }))
    }

    /// A load of a word from a constant bank, at an index that is not known.
    fn of_constants(data: &InstData, inst: Inst) -> Option<(Key, Candidate)> {
        let [Arg::Bank { bank, index: Some(index), offset }] = data.args[..] else { return None };
        let is_plain = data.modifiers.is_empty() && data.guard.is_none() && data.results.len() == 1;
        let base = Arg::Bank { bank, index: Some(index), offset: 0 };
        let key = Key { op: Name::LDC, base, guard: None };
        let candidate = Candidate { inst, offset: offset.into(), bytes: 4, effects: Effects::NONE };
        is_plain.then_some((key, candidate))
    }

    fn overlaps(&self, other: &Candidate) -> bool {
        self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes
    }
}

/// Accesses that may be moved to each other.
struct Group {
    key: Key,
    /// In the order of the code.
    members: Vec<Candidate>,
    /// What a further load would move over: operations behind the first load that write or order.
    passed: Vec<Effects>,
}

impl Group {
    fn is_load(&self) -> bool {
        matches!(self.key.op, Name::LDS | Name::LDL | Name::LDC)
    }

    /// Must an operation stay behind one of its accesses?
    fn keeps(&self, effects: &Effects) -> bool {
        self.members.iter().any(|m| Effects::stay_in_order(&m.effects, effects))
    }

    /// May an access with the same key not become a member? A load moves to the first one.
    fn excludes(&self, own: &Candidate, limit: usize) -> bool {
        self.members.len() >= limit
            || self.members.iter().any(|m| m.overlaps(own))
            || self.passed.iter().any(|passed| Effects::stay_in_order(passed, &own.effects))
    }

    /// The operation stands between the accesses.
    fn pass(&mut self, effects: &Effects) {
        let only_reads = matches!(effects.memory, Memory::None | Memory::Read(_)) && effects.orders.is_none();
        if self.is_load() && !only_reads {
            self.passed.push(*effects);
        }
    }

    /// The accesses that become vectors.
    fn vectors(mut self, alignment: &Alignment) -> Vec<Vector> {
        let (zeros, sizes) = match self.key.base {
            Arg::Bank { index: Some(index), .. } => (alignment.zeros(&index.into()), [8].as_slice()),
            base => (alignment.zeros(&base), [16, 8].as_slice()),
        };
        let is_load = self.is_load();
        // Memory of a block ends at a multiple of 16 bytes: of an aligned vector the word behind three others is there.
        let may_read_more = self.key.op == Name::LDS;
        self.members.sort_by_key(|m| m.offset);
        let mut all = Vec::new();
        let mut rest = &self.members[..];
        while let Some(first) = rest.first() {
            let taken = sizes.iter().find_map(|&bytes| {
                let is_aligned = first.offset % bytes == 0 && 1i64 << zeros.min(4) >= bytes;
                let count = is_aligned.then(|| run_of(rest, bytes)).flatten();
                let three =
                    || (is_aligned && bytes == 16 && may_read_more).then(|| run_of(rest, 12)).flatten();
                Some((bytes, count.or_else(three)?))
            });
            let count = taken.map_or(1, |(_, count)| count);
            if let Some((bytes, count)) = taken {
                all.push(Vector { is_load, bytes, members: rest[..count].to_vec() });
            }
            rest = &rest[count..];
        }
        all
    }
}

/// Accesses that become one.
struct Vector {
    is_load: bool,
    bytes: i64,
    /// By offset.
    members: Vec<Candidate>,
}

/// How many of the first accesses fill so many bytes exactly.
fn run_of(members: &[Candidate], bytes: i64) -> Option<usize> {
    let (start, mut end) = (members.first()?.offset, members.first()?.offset);
    for (index, member) in members.iter().enumerate() {
        if member.offset != end {
            return None;
        }
        end += member.bytes;
        if end - start >= bytes {
            return (end - start == bytes && index > 0).then_some(index + 1);
        }
    }
    None
}

fn vectorize_block(
    function: &mut Function,
    block: Block,
    alignment: &Alignment,
    tuning: &Tuning,
    fuel: &mut Fuel,
) {
    let limit = tuning.vectorize_members as usize;
    let mut open: Vec<Group> = Vec::new();
    let mut vectors: Vec<Vector> = Vec::new();
    let mut close = |group: Group| vectors.extend(group.vectors(alignment));
    for &inst in &function.blocks[block].insts {
        let effects = Effects::of(&function.insts[inst]);
        let candidate = Candidate::read(function, inst);
        if candidate.is_none() && effects.is_free() {
            continue;
        }
        let ends = |group: &Group| match &candidate {
            Some((key, own)) if group.key == *key => group.excludes(own, limit),
            _ => group.passed.len() >= limit || group.keeps(&effects),
        };
        open.extract_if(.., |group| ends(group)).for_each(&mut close);
        open.iter_mut().for_each(|group| group.pass(&effects));
        if let Some((key, own)) = candidate {
            match open.iter_mut().find(|group| group.key == key) {
                Some(group) => group.members.push(own),
                None => {
                    if open.len() >= tuning.vectorize_open as usize {
                        close(open.remove(0));
                    }
                    open.push(Group { key, members: vec![own], passed: Vec::new() });
                }
            }
        }
    }
    open.into_iter().for_each(&mut close);
    vectors.retain(|_| fuel.burn());
    if !vectors.is_empty() {
        merge(function, block, vectors);
    }
}

/// Replaces the accesses of each vector by one.
fn merge(function: &mut Function, block: Block, vectors: Vec<Vector>) {
    // By instruction: the vector that takes its place, or none where it is part of one that stands elsewhere.
    let mut place: FxHashMap<Inst, Option<Vector>> = FxHashMap::default();
    let order: FxHashMap<Inst, usize> =
        function.blocks[block].insts.iter().enumerate().map(|(at, inst)| (*inst, at)).collect();
    for vector in vectors {
        let at = |m: &&Candidate| order.get(&m.inst).copied();
        let members = vector.members.iter();
        let stays = if vector.is_load { members.min_by_key(at) } else { members.max_by_key(at) };
        let Some(stays) = stays.map(|m| m.inst) else { continue };
        place.extend(vector.members.iter().map(|m| (m.inst, None)));
        place.insert(stays, Some(vector));
    }
    let mut packed: FxHashMap<Vec<Arg>, Value> = FxHashMap::default();
    let mut out = Vec::with_capacity(order.len());
    for inst in std::mem::take(&mut function.blocks[block].insts) {
        match place.remove(&inst) {
            None => out.push(inst),
            Some(None) => {}
            Some(Some(vector)) => emit_vector(function, inst, &vector, &mut packed, &mut out),
        }
    }
    function.blocks[block].insts = out;
}

fn emit_vector(
    function: &mut Function,
    inst: Inst,
    vector: &Vector,
    packed: &mut FxHashMap<Vec<Arg>, Value>,
    out: &mut Vec<Inst>,
) {
    let words = (vector.bytes / 4) as u8;
    let mut data = function.insts[inst].clone();
    data.modifiers = smallvec![if words == 4 { M::_128 } else { M::_64 }];
    let offset = vector.members[0].offset;
    match &mut data.args[..] {
        [Arg::Bank { offset: own, .. }] => *own = offset as i32,
        args => args[1] = Arg::Imm(offset),
    }
    if data.results.is_empty() {
        let stored: Vec<Arg> = vector.members.iter().map(|m| function.insts[m.inst].args[2]).collect();
        data.args[2] = pack(function, stored, words, data.at, packed, out).into();
        out.push(function.insts.push(data));
    } else {
        let loaded = vector.members.iter().flat_map(|m| function.insts[m.inst].results.iter().copied());
        let mut results: SmallVec<[Value; 2]> = loaded.collect();
        if vector.members.iter().map(|m| m.bytes).sum::<i64>() < vector.bytes {
            results.push(function.value(File::R, 1));
        }
        let whole = function.value(File::R, words);
        data.results = smallvec![whole];
        let at = data.at;
        out.push(function.insts.push(data));
        let unpack = InstData::new(Op::Pseudo(Pseudo::Unpack), &results, &[whole.into()]);
        out.push(function.insts.push(InstData { at, ..unpack }));
    }
}

/// The words of a vector side by side; the same words once in a block.
fn pack(
    function: &mut Function,
    stored: Vec<Arg>,
    words: u8,
    at: u32,
    packed: &mut FxHashMap<Vec<Arg>, Value>,
    out: &mut Vec<Inst>,
) -> Value {
    if let Some(value) = packed.get(&stored) {
        return *value;
    }
    let mut args: SmallVec<[Arg; 6]> = SmallVec::new();
    for arg in &stored {
        args.push(match arg {
            Arg::Use(_) => *arg,
            constant => {
                let word = function.value(File::R, 1);
                let data = InstData::new(Op::Machine(Name::MOV), &[word], &[*constant]);
                out.push(function.insts.push(InstData { at, ..data }));
                word.into()
            }
        });
    }
    let value = function.value(File::R, words);
    let data = InstData::new(Op::Pseudo(Pseudo::Pack), &[value], &args);
    out.push(function.insts.push(InstData { at, ..data }));
    packed.insert(stored, value);
    value
}

/// Vector loads whose first or last words have no use are narrowed to a half or to one word.
fn narrow(function: &mut Function, order: &[Block], fuel: &mut Fuel) {
    let read = ReadWords::new(function, order);
    for &block in order {
        let mut at = 0;
        while let Some(&inst) = function.blocks[block].insts.get(at) {
            at += 1;
            if let Some(part) = read.narrower(function, inst)
                && fuel.burn()
            {
                narrow_load(function, inst, part, read.unpack[function.insts[inst].results[0].index()]);
            }
        }
    }
}

/// Which words of each value have a use.
struct ReadWords {
    /// A bit for each word; all are set if a use is not known.
    words: Vec<u8>,
    /// The only reader of a value, if it is an `Unpack`.
    unpack: Vec<Option<Inst>>,
}

impl ReadWords {
    fn new(function: &Function, order: &[Block]) -> ReadWords {
        let counts = function.use_counts(order.iter().copied());
        let mut unpack = vec![None; function.values.len()];
        let mut words = vec![u8::MAX; function.values.len()];
        for inst in order.iter().flat_map(|b| &function.blocks[*b].insts) {
            let data = &function.insts[*inst];
            let (Op::Pseudo(Pseudo::Unpack), [Arg::Use(u)], None) = (data.op, &data.args[..], &data.guard)
            else {
                continue;
            };
            if u.part.is_none() && u.is_plain() && counts[u.value.index()] == 1 {
                unpack[u.value.index()] = Some(*inst);
                words[u.value.index()] = used_results(function, data, &counts);
            }
        }
        ReadWords { words, unpack }
    }

    /// The words that an unguarded plain load of a vector needs, if they are fewer.
    fn narrower(&self, function: &Function, inst: Inst) -> Option<Part> {
        let data = &function.insts[inst];
        let Op::Machine(Name::LDG | Name::LDS | Name::LDL | Name::LD) = data.op else { return None };
        let [result] = data.results[..] else { return None };
        let words = function.values[result].words;
        let vector = matches!((words, vector_modifier(data)), (2, Some(M::_64)) | (4, Some(M::_128)));
        if !vector || data.guard.is_some() || !effects::is_plain_access(data) {
            return None;
        }
        let used = self.words.get(result.index()).copied()?;
        let parts = [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (2, 2)];
        let fits = |&(first, count): &(u8, u8)| {
            let mask = ((1 << count) - 1) << first;
            first + count <= words && count < words && used & !mask == 0 && used & mask != 0
        };
        parts.into_iter().find(fits).map(|(first, count)| Part { first, count })
    }
}

/// The words of an `Unpack` whose results have a use. Results of several words are left alone.
fn used_results(function: &Function, data: &InstData, counts: &[u32]) -> u8 {
    let mut used = 0;
    for (index, result) in data.results.iter().enumerate() {
        if function.values[*result].words != 1 || index >= 8 {
            return u8::MAX;
        }
        used |= u8::from(counts[result.index()] > 0) << index;
    }
    used
}

/// The modifier of its width.
fn vector_modifier(data: &InstData) -> Option<M> {
    data.modifiers.iter().copied().find(|m| matches!(m, M::_64 | M::_128))
}

fn narrow_load(function: &mut Function, inst: Inst, part: Part, unpack: Option<Inst>) {
    let Some(unpack) = unpack else { return };
    let load = &function.insts[inst];
    let Some(at) = (1..load.args.len())
        .find(|at| matches!(load.args[*at], Arg::Imm(_)) && !matches!(load.args[*at - 1], Arg::Imm(_)))
    else {
        return;
    };
    let results = function.insts[unpack].results.clone();
    let kept: SmallVec<[Value; 2]> =
        results[usize::from(part.first)..usize::from(part.first + part.count)].into();
    let narrow = function.value(File::R, part.count);
    let load = &mut function.insts[inst];
    load.results = smallvec![narrow];
    if let Arg::Imm(offset) = &mut load.args[at] {
        *offset += 4 * i64::from(part.first);
    }
    let width = load.modifiers.iter().position(|m| matches!(m, M::_64 | M::_128));
    match (width, part.count) {
        (Some(width), 1) => drop(load.modifiers.remove(width)),
        (Some(width), _) => load.modifiers[width] = M::_64,
        _ => {}
    }
    let data = &mut function.insts[unpack];
    data.args = smallvec![narrow.into()];
    match kept.len() {
        1 => (data.op, data.results) = (Op::Pseudo(Pseudo::Copy), kept),
        _ => data.results = kept,
    }
}
