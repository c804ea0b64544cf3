//! Weak memory between warps, and a scheduler that looks for the worst: code that orders its accesses gives the same
//! result with every seed; where an ordering is lost, some seed gives another one.
//!
//! [`Launch::weak`](crate::ptx::Launch::weak) turns it on. The interpreter uses the scheduler ([`Order`]) alone: its lanes
//! run one by one between the instructions that bring them together. In the simulator, lanes that are together stay so,
//! which of several divergent groups runs first is the adversary's choice, and so is which warp runs next and for how
//! long. There memory is weak, too: a store becomes visible to other *agents* as late as the adversary likes, and a load
//! of global memory may return any value since the agent's last acquire. An agent is what sees its own accesses in order:
//! a warp, since the memory pipeline takes a warp's accesses in order, those of diverged lanes among them.
//!
//! A store goes to its agent's **store buffer**; from there to the **block level**, which the agents of the block see;
//! from there to the **device level**. Each word has a log of the writes that left a buffer; an agent has two
//! views, numbers of the last write of its block and of the device that it has acquired. A weak load must return the
//! newest write in its views, or its own.
//!
//! | rule | why |
//! |---|---|
//! | a release of a scope (MEMBAR, BAR, SYNCS.ARRIVE) empties the store buffer to its level; of the device, it takes along what the agent has acquired from its block | cumulativity: PTX ISA, "Causality order"; ptxas writes MEMBAR.ALL.GPU after `bar.sync` for all threads' stores |
//! | an acquire of the block (BAR, MEMBAR, a strong load, an atomic, LDS, SYNCS.PHASECHK) moves the block view, and takes over what others of the block acquired of the device before they released | `ld.acquire.cta` is a strong load and nothing else in ptxas's code; a barrier after `ld.acquire.gpu` of one thread serves all |
//! | an acquire of the device (CCTL.IVALL) moves the device view | `ld.acquire.gpu` is LDG.STRONG.GPU and CCTL.IVALL: the first-level cache is not coherent |
//! | strong loads and atomics read the newest value that is visible | PTX ISA, "Coherence" |
//! | strong stores may stay in the buffer for some turns, in no order among each other | `st.relaxed` is STG.STRONG without MEMBAR; without MEMBAR.SC, store buffering is allowed |
//! | loads of shared memory read the newest visible value, and acquire | `ld.acquire.cta.shared` is LDS and nothing else |
//! | accesses of one word by one agent are in order | PTX ISA, "Coherence", and a warp's pipeline |
//! | asynchronous units read and write at the device level, when they are waited for | PTX ISA, "Async proxy"; CCTL.IVALL after `cp.async.bulk.wait_group` |
//! | LDGSTS lands in the store buffer of its warp | `cp.async.wait_group` makes copies visible to the executing thread |
//!
//! Not modelled: proxies (a lost FENCE.VIEW.ASYNC between other agents is found only as far as it empties a buffer),
//! surfaces and textures (they see memory as it is), the difference between the fences `.sc` and `.acq_rel`, and
//! scopes between block and device.

use crate::memory::Global;
use random::Random;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a word of the log.
const WORD: usize = 4;
/// Writes of a word that are remembered.
const HISTORY: usize = 16;
/// A write that has not come to the device level.
const NEVER: u64 = u64::MAX;
/// Blocks of a cluster, at most.
const CLUSTER: u32 = 16;

/// How far a fence or a strong access reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Block,
    Device,
}

/// How an access of memory is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Weak,
    Strong(Scope),
}

/// What a fence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub release: Option<Scope>,
    pub acquire: Option<Scope>,
}

/// Who accesses memory: an agent and its block, numbers of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub agent: u32,
    pub block: u32,
}

/// An address: global memory, or shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    space: u32,
    address: u64,
}

impl At {
    pub fn global(address: u64) -> At {
        At { space: 0, address }
    }

    /// Shared memory of the block with a rank in a cluster of the launch.
    pub fn shared(cluster: u32, rank: usize, offset: u64) -> At {
        At { space: 1 + cluster.wrapping_mul(CLUSTER).wrapping_add(rank as u32), address: offset }
    }

    fn is_shared(self) -> bool {
        self.space != 0
    }

    /// The word that it lies in, and the byte there.
    fn word(self) -> (At, usize) {
        let byte = (self.address % WORD as u64) as usize;
        (At { address: self.address - byte as u64, ..self }, byte)
    }
}

/// The bytes themselves: the newest that left a store buffer.
pub struct Bytes<'m> {
    pub global: &'m mut Global,
    /// Of the running cluster, by rank.
    pub shared: &'m mut [Vec<u8>],
}

impl Bytes<'_> {
    fn byte(&mut self, at: At, index: usize) -> Option<&mut u8> {
        let address = at.address + index as u64;
        match at.space.checked_sub(1) {
            None => self.global.slice(address, 1)?.first_mut(),
            Some(space) => self.shared.get_mut((space % CLUSTER) as usize)?.get_mut(address as usize),
        }
    }

    /// What is there; zeros where nothing is.
    pub fn read(&mut self, at: At, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| self.byte(at, index).map_or(0, |byte| *byte)).collect()
    }

    /// Runs something on the model, if memory is weak.
    pub fn with<R>(&mut self, run: impl FnOnce(&mut Weak, &mut Bytes) -> R) -> Option<R> {
        let mut weak = self.global.weak.take()?;
        let result = run(&mut weak, self);
        self.global.weak = Some(weak);
        Some(result)
    }
}

/// Some bytes of a word.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    bytes: [u8; WORD],
    mask: u8,
}

impl Part {
    fn has(self, byte: usize) -> bool {
        self.mask >> byte & 1 == 1
    }

    fn set(&mut self, byte: usize, value: u8) {
        self.bytes[byte] = value;
        self.mask |= 1 << byte;
    }
}

/// A write that left a store buffer.
#[derive(Clone, Debug)]
struct Write {
    part: Part,
    who: Who,
    /// When it came to the block level, and to the device level.
    when: u64,
    device: u64,
}

/// The writes of a word in coherence order, and what it held before.
#[derive(Clone, Debug, Default)]
struct Log {
    before: [u8; WORD],
    writes: Vec<Write>,
}

#[derive(Clone, Debug, Default)]
struct Agent {
    /// Stores that nobody else sees, with the scope of strong ones.
    buffer: BTreeMap<At, (Part, Option<Scope>)>,
    block_view: u64,
    device_view: u64,
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// The device view of those who have released.
    device_view: u64,
    /// Words with writes that have come to the block level only.
    words: BTreeSet<At>,
}

/// How often of a hundred times the adversary delays a store, makes a load early, and lets a strong store become
/// visible in a round.
#[derive(Clone, Copy, Debug)]
struct Policy {
    late: usize,
    early: usize,
    ages: usize,
}

/// The state of the memory model.
#[derive(Clone, Debug)]
pub struct Weak {
    random: Random,
    policy: Policy,
    now: u64,
    agents: BTreeMap<u32, Agent>,
    blocks: BTreeMap<u32, Block>,
    logs: BTreeMap<u32, HashMap<u64, Log>>,
    /// Agents that are done, with strong stores in their buffers.
    lingering: Vec<Who>,
}

impl Weak {
    /// The first seeds have stores as late and loads as early as can be, then neither, then both in turn.
    pub fn new(seed: u64) -> Weak {
        const LAZY: Policy = Policy { late: 100, early: 100, ages: 25 };
        // For the short turns of a random order.
        const SLOW: Policy = Policy { ages: 5, ..LAZY };
        const EAGER: Policy = Policy { late: 0, early: 0, ages: 25 };
        const MIXED: Policy = Policy { late: 50, early: 50, ages: 5 };
        let policy = [LAZY, EAGER, LAZY, EAGER, MIXED, SLOW, EAGER, MIXED][(seed % 8) as usize];
        Weak {
            random: Random::new(seed ^ 0x5eed),
            policy,
            now: 1,
            agents: BTreeMap::new(),
            blocks: BTreeMap::new(),
            logs: BTreeMap::new(),
            lingering: Vec::new(),
        }
    }

    /// A store of bytes that are there.
    pub fn store(&mut self, memory: &mut Bytes, who: Who, at: At, data: &[u8], strength: Strength) {
        let late = self.random.chance(self.policy.late);
        for (word, part) in parts(at, data) {
            let agent = self.agents.entry(who.agent).or_default();
            let (pending, scope) = agent.buffer.entry(word).or_default();
            (0..WORD).filter(|byte| part.has(*byte)).for_each(|byte| pending.set(byte, part.bytes[byte]));
            if let Strength::Strong(strong) = strength {
                *scope = Some(scope.map_or(strong, |scope| scope.max(strong)));
            }
            if !late {
                let strong = strength != Strength::Weak;
                self.empty(memory, who, word, if strong { Scope::Block } else { Scope::Device });
            }
        }
    }

    /// A load: `data` holds what memory has, and gets what the agent sees.
    pub fn load(&mut self, who: Who, at: At, data: &mut [u8], strength: Strength) {
        let newest = at.is_shared() || strength != Strength::Weak;
        if newest {
            self.acquire(who, Scope::Block);
        } else if !self.random.chance(self.policy.early) {
            self.see_own(who, at, data);
            return;
        }
        let Some(logs) = self.logs.get(&at.space) else { return self.see_own(who, at, data) };
        let nothing = Agent::default();
        let agent = self.agents.get(&who.agent).unwrap_or(&nothing);
        for (index, value) in data.iter_mut().enumerate() {
            let (word, byte) = At { address: at.address + index as u64, ..at }.word();
            let Some(log) = logs.get(&word.address) else { continue };
            let sees = |write: &&Write| {
                let same_block = write.who.block == who.block;
                let visible = match newest {
                    true => same_block || write.device != NEVER,
                    false => {
                        same_block && write.when <= agent.block_view || write.device <= agent.device_view
                    }
                };
                write.part.has(byte) && (visible || write.who == who)
            };
            let seen = log.writes.iter().rev().find(sees);
            *value = seen.map_or(log.before[byte], |write| write.part.bytes[byte]);
        }
        self.see_own(who, at, data);
    }

    fn see_own(&self, who: Who, at: At, data: &mut [u8]) {
        let Some(agent) = self.agents.get(&who.agent).filter(|agent| !agent.buffer.is_empty()) else {
            return;
        };
        for (index, value) in data.iter_mut().enumerate() {
            let (word, byte) = At { address: at.address + index as u64, ..at }.word();
            if let Some((part, _)) = agent.buffer.get(&word).filter(|(part, _)| part.has(byte)) {
                *value = part.bytes[byte];
            }
        }
    }

    /// Before an atomic operation, or one of a unit, on bytes in place: the agent's own stores to them are there.
    pub fn before_update(&mut self, memory: &mut Bytes, who: Who, at: At, bytes: usize) {
        for (word, _) in parts(at, &vec![0; bytes]) {
            self.empty(memory, who, word, Scope::Device);
        }
    }

    /// After it: what was there before, and what is there now.
    pub fn after_update(&mut self, who: Who, at: At, old: &[u8], new: &[u8], scope: Scope) {
        let before: BTreeMap<At, Part> = parts(at, old).into_iter().collect();
        for (word, part) in parts(at, new) {
            let old = before.get(&word).map_or([0; WORD], |part| part.bytes);
            self.record(who, word, old, part, scope);
        }
    }

    /// A unit writes at once, for all.
    pub fn write_by_unit(&mut self, memory: &mut Bytes, at: At, data: &[u8]) {
        const UNIT: Who = Who { agent: u32::MAX, block: u32::MAX };
        for (word, part) in parts(at, data) {
            self.commit(memory, UNIT, word, part, Scope::Device);
        }
    }

    pub fn fence(&mut self, memory: &mut Bytes, who: Who, fence: Fence) {
        if let Some(scope) = fence.release {
            self.release(memory, who, scope);
        }
        if let Some(scope) = fence.acquire {
            self.acquire(who, scope);
        }
    }

    /// What the agent wrote comes to a level; to the device, with what it has acquired from its block.
    pub fn release(&mut self, memory: &mut Bytes, who: Who, scope: Scope) {
        let agent = self.agents.entry(who.agent).or_default();
        let words: Vec<At> = agent.buffer.keys().copied().collect();
        for word in words {
            self.empty(memory, who, word, scope);
        }
        let view = self.agents.get(&who.agent).map_or((0, 0), |agent| (agent.block_view, agent.device_view));
        let block = self.blocks.entry(who.block).or_default();
        block.device_view = block.device_view.max(view.1);
        if scope == Scope::Device {
            self.publish(who, view.0);
        }
    }

    fn publish(&mut self, who: Who, view: u64) {
        self.now += 1;
        let Some(block) = self.blocks.get_mut(&who.block) else { return };
        let (logs, now) = (&mut self.logs, self.now);
        block.words.retain(|word| {
            let log = logs.get_mut(&word.space).and_then(|logs| logs.get_mut(&word.address));
            let Some(log) = log else { return false };
            let mut left = false;
            for write in log.writes.iter_mut().filter(|write| write.device == NEVER) {
                if write.who == who || write.who.block == who.block && write.when <= view {
                    write.device = now;
                } else {
                    left |= write.who.block == who.block;
                }
            }
            left
        });
    }

    pub fn acquire(&mut self, who: Who, scope: Scope) {
        let of_block = self.blocks.get(&who.block).map_or(0, |block| block.device_view);
        let agent = self.agents.entry(who.agent).or_default();
        agent.block_view = self.now;
        agent.device_view = match scope {
            Scope::Block => agent.device_view.max(of_block),
            Scope::Device => self.now,
        };
    }

    /// A round of turns is over: some of an agent's stores become visible, strong ones soon.
    pub fn age(&mut self, memory: &mut Bytes, who: Who) {
        let Some(agent) = self.agents.get(&who.agent) else { return };
        let words: Vec<(At, bool)> =
            agent.buffer.iter().map(|(word, (_, scope))| (*word, scope.is_some())).collect();
        for (word, strong) in words {
            // Shared memory is polled with plain loads, and its flags are plain stores.
            let percent = if strong || word.is_shared() { self.policy.ages } else { 1 };
            if self.random.chance(percent) {
                self.empty(memory, who, word, if strong { Scope::Block } else { Scope::Device });
            }
        }
    }

    /// The same for those whose cluster is done, and who have strong stores that nobody has seen.
    pub fn age_lingering(&mut self, memory: &mut Bytes) {
        let lingering = std::mem::take(&mut self.lingering);
        for who in lingering {
            self.age(memory, who);
            self.linger(who);
        }
    }

    fn linger(&mut self, who: Who) {
        let strong = |agent: &Agent| agent.buffer.values().any(|(_, scope)| scope.is_some());
        if self.agents.get(&who.agent).is_some_and(strong) {
            self.lingering.push(who);
        }
    }

    /// A cluster is done, and so are its agents: its shared memory is gone.
    pub fn forget_cluster(&mut self, cluster: u32, agents: impl Iterator<Item = Who>) {
        agents.for_each(|who| self.linger(who));
        let first = At::shared(cluster, 0, 0).space;
        let spaces = first..first + CLUSTER;
        self.logs.retain(|space, _| !spaces.contains(space));
        for agent in self.agents.values_mut() {
            agent.buffer.retain(|word, _| !spaces.contains(&word.space));
        }
        self.blocks.values_mut().for_each(|block| block.words.retain(|word| !spaces.contains(&word.space)));
    }

    /// The grid is done: all that was written is there.
    pub fn finish(&mut self, memory: &mut Bytes) {
        for (_, agent) in std::mem::take(&mut self.agents) {
            for (word, (part, _)) in agent.buffer.into_iter().filter(|(word, _)| !word.is_shared()) {
                for byte in (0..WORD).filter(|byte| part.has(*byte)) {
                    if let Some(place) = memory.byte(word, byte) {
                        *place = part.bytes[byte];
                    }
                }
            }
        }
    }

    /// A word of a store buffer comes to a level, or to that of its own strong stores.
    fn empty(&mut self, memory: &mut Bytes, who: Who, word: At, scope: Scope) {
        let taken = self.agents.get_mut(&who.agent).and_then(|agent| agent.buffer.remove(&word));
        let Some((part, strong)) = taken else { return };
        self.commit(memory, who, word, part, strong.map_or(scope, |strong| strong.max(scope)));
    }

    fn commit(&mut self, memory: &mut Bytes, who: Who, word: At, part: Part, scope: Scope) {
        let mut old = [0; WORD];
        for (byte, old) in old.iter_mut().enumerate() {
            if let Some(place) = memory.byte(word, byte) {
                *old = *place;
                if part.has(byte) {
                    *place = part.bytes[byte];
                }
            }
        }
        self.record(who, word, old, part, scope);
    }

    fn record(&mut self, who: Who, word: At, old: [u8; WORD], part: Part, scope: Scope) {
        self.now += 1;
        let logs = self.logs.entry(word.space).or_default();
        let log = logs.entry(word.address).or_insert_with(|| Log { before: old, writes: Vec::new() });
        let device = if scope == Scope::Device { self.now } else { NEVER };
        log.writes.push(Write { part, who, when: self.now, device });
        if log.writes.len() > HISTORY {
            let first = log.writes.remove(0);
            let known = (0..WORD).filter(|byte| first.part.has(*byte));
            known.for_each(|byte| log.before[byte] = first.part.bytes[byte]);
        }
        if scope == Scope::Block {
            self.blocks.entry(who.block).or_default().words.insert(word);
        }
    }
}

/// Bytes by the words that they lie in.
fn parts(at: At, data: &[u8]) -> Vec<(At, Part)> {
    let mut parts: Vec<(At, Part)> = Vec::new();
    for (index, value) in data.iter().enumerate() {
        let (word, byte) = At { address: at.address + index as u64, ..at }.word();
        if parts.last().is_none_or(|(last, _)| *last != word) {
            parts.push((word, Part::default()));
        }
        if let Some((_, part)) = parts.last_mut() {
            part.set(byte, *value);
        }
    }
    parts
}

/// Who runs next, and for how long: the adversary as a scheduler.
#[derive(Clone, Debug)]
pub struct Order {
    random: Random,
    warps: Choice,
    lanes: Choice,
}

/// The order of turns that the adversary wants, or the usual one.
pub fn turns(order: Option<&mut Order>, count: usize) -> impl Iterator<Item = usize> + use<> {
    let adverse = order.map(|order| order.turns(count));
    (0..count).map(move |turn| adverse.as_ref().map_or(turn, |order| order[turn]))
}

/// Which of several that could run goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    First,
    Last,
    Random,
}

impl Order {
    /// Of a part of the launch with a number of its own. The first seeds have the extremes.
    pub fn new(seed: u64, part: u64) -> Order {
        use Choice::{First, Last, Random as Any};
        let table = [
            (First, Last),
            (First, First),
            (Last, First),
            (Last, Last),
            (Any, Any),
            (Any, Any),
            (Any, First),
            (Any, Last),
        ];
        let (warps, lanes) = table[(seed % 8) as usize];
        Order { random: Random::new(seed.wrapping_mul(0x1_0001).wrapping_add(part)), warps, lanes }
    }

    /// The order in which so many warps, or blocks, have their turns in a round.
    pub fn turns(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        match self.warps {
            Choice::First => {}
            Choice::Last => order.reverse(),
            Choice::Random => {
                for last in (1..count).rev() {
                    order.swap(last, self.random.below(last + 1));
                }
            }
        }
        order
    }

    /// Steps of a turn, of at most so many.
    pub fn steps(&mut self, most: u64) -> u64 {
        match self.warps {
            Choice::Random => [1, 2, 5, 17, 61, most][self.random.below(6)].min(most),
            _ => most,
        }
    }

    /// Do lanes of the interpreter run one by one? With some seeds they stay in lock step.
    pub fn parts_lanes(&self) -> bool {
        self.warps != Choice::Random || self.lanes == Choice::Random
    }

    /// Does the turn end after an access of memory, or after an operation that orders some? For how many rounds?
    pub fn interrupts(&mut self, orders: bool) -> Option<u32> {
        let percent = if orders { 50 } else { 12 };
        let interrupts = self.warps == Choice::Random && self.random.chance(percent);
        interrupts.then(|| self.random.below(12) as u32)
    }

    /// Do lanes that take a branch go before those that don't?
    pub fn takes_branch(&mut self) -> bool {
        match self.lanes {
            Choice::First => false,
            Choice::Last => true,
            Choice::Random => self.random.chance(50),
        }
    }

    /// Which of so many groups of lanes goes next; the first is the one that has waited longest.
    pub fn group(&mut self, count: usize) -> usize {
        match self.lanes {
            Choice::First if self.random.chance(12) => count.saturating_sub(1),
            Choice::First => 0,
            // Now and then the other end, as lanes may wait for those that would never run.
            Choice::Last if self.random.chance(12) => 0,
            Choice::Last => count.saturating_sub(1),
            Choice::Random => self.random.below(count),
        }
    }

    /// Does another cluster begin while so many run? All may have to, but few at a time are the rule.
    pub fn begins(&mut self, running: usize) -> bool {
        running < 4 || self.random.chance(2)
    }

    /// One of so many.
    pub fn any(&mut self, count: usize) -> usize {
        self.random.below(count)
    }
}

#[cfg(test)]
mod tests;
