//! Data races on shared memory: two accesses of one place, one of them a write, of which neither happens before the
//! other.
//!
//! Every thread has a clock, and knows of the others' clocks what reached it: through barriers of a block, a cluster or
//! a part of a warp, through barriers in memory, and through strong accesses (atomic, volatile, relaxed, acquire,
//! release) of one location, which never race with each other. Each location remembers which thread wrote it and which
//! have read it since, and when. An access is ordered after one of these if its thread knows the other's clock of then.
//!
//! Asynchronous copies and `wgmma` are done by an agent of its own. Who starts one doesn't know that it is
//! over; a thread that waits for its group does, and one that waits at the barrier that counts its bytes. All of a
//! cluster's agents have one clock, so that knowing one is knowing the earlier ones: some races of theirs are missed,
//! none is invented.
//!
//! Lanes of a warp that write the same value in one instruction don't race.

use crate::fault::FaultKind;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What every thread and, at the end, the agent has done as far as someone knows.
type Clocks = Rc<[u32]>;

/// An access that others are compared with.
#[derive(Clone, Copy, Debug)]
struct Access {
    thread: u32,
    clock: u32,
    line: u32,
    strong: bool,
}

/// Who has accessed a place. Writes are by byte, reads by word with the bytes that were read.
#[derive(Clone, Default)]
struct Word {
    writes: [Option<Access>; WORD],
    reads: Vec<(Access, u8)>,
}

const WORD: usize = 4;

/// What is waited for with groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `cp.async`
    Copies,
    /// `cp.async.bulk`
    Bulk,
    /// `wgmma.mma_async`
    Wgmma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    Commit,
    /// Until so many groups are under way.
    Wait(u32),
    /// For all that was started, whether it is in a group or not.
    WaitAll,
}

/// The agent's clock at the last of a thread's operations, and at the end of each group of them.
#[derive(Clone, Default)]
struct Pending {
    open: u32,
    groups: Vec<u32>,
}

/// Something that threads meet at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meeting {
    /// Of a block: its rank, and the barrier's number.
    Barrier(usize, u32),
    Cluster,
    /// A barrier in memory, or a place of strong accesses: rank and offset.
    Place(usize, u64),
}

#[derive(Clone, Default)]
struct Gathering {
    /// What those know that have come since the last phase, and before.
    coming: Vec<u32>,
    /// What is known to those that go.
    over: Option<Clocks>,
}

/// How a place of shared memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub writes: bool,
    /// Strong accesses of one place have an order.
    pub strong: bool,
    /// By the agent, in the name of the thread.
    pub agent: Option<Kind>,
    /// Nothing changes there.
    pub same_value: bool,
}

impl Touch {
    pub const READ: Touch = Touch { writes: false, strong: false, agent: None, same_value: false };
    pub const WRITE: Touch = Touch { writes: true, ..Touch::READ };

    pub fn by_agent(self, kind: Kind) -> Touch {
        Touch { agent: Some(kind), ..self }
    }
}

pub struct Races {
    /// Threads of a block, whole warps.
    block: u32,
    threads: usize,
    /// What each thread knows, its own clock aside.
    known: Vec<Clocks>,
    own: Vec<u32>,
    /// What each thread knows of the agent by waiting for its own groups.
    waited: Vec<u32>,
    agent: u32,
    pending: BTreeMap<(Kind, u32), Pending>,
    meetings: BTreeMap<Meeting, Gathering>,
    /// By rank.
    words: Vec<Vec<Word>>,
}

impl Races {
    /// For blocks of so many warps, each with shared memory of so many bytes.
    pub fn new(blocks: usize, warps: usize, bytes: usize) -> Races {
        let threads = blocks * warps * 32;
        let nothing: Clocks = vec![0; threads + 1].into();
        Races {
            block: warps as u32 * 32,
            threads,
            known: vec![nothing; threads],
            own: vec![1; threads],
            waited: vec![0; threads],
            agent: 0,
            pending: BTreeMap::new(),
            meetings: BTreeMap::new(),
            words: vec![vec![Word::default(); bytes.div_ceil(WORD)]; blocks],
        }
    }

    /// The number of a thread: of the block with a rank, of a warp, of a lane.
    pub fn thread(&self, rank: u32, warp: u32, lane: usize) -> u32 {
        rank * self.block + warp * 32 + lane as u32
    }

    /// Does a thread know of an access?
    fn knows(&self, thread: u32, access: &Access) -> bool {
        let known = self.known[thread as usize].get(access.thread as usize).copied().unwrap_or(0);
        let known = match access.thread as usize {
            agent if agent == self.threads => known.max(self.waited[thread as usize]),
            _ => known,
        };
        access.thread == thread || known >= access.clock
    }

    /// A thread's access of some bytes of a block's shared memory.
    pub fn touch(
        &mut self,
        thread: u32,
        (rank, offset): (usize, u64),
        bytes: u32,
        line: u32,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        let access = match touch.agent {
            Some(kind) => {
                self.agent += 1;
                self.pending.entry((kind, thread)).or_default().open = self.agent;
                Access { thread: self.threads as u32, clock: self.agent, line, strong: false }
            }
            None => Access { thread, clock: self.own[thread as usize], line, strong: touch.strong },
        };
        for at in offset..offset + u64::from(bytes) {
            self.touch_byte(thread, rank, at, access, touch)?;
        }
        Ok(())
    }

    fn touch_byte(
        &mut self,
        thread: u32,
        rank: usize,
        at: u64,
        access: Access,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        let (index, byte) = (at as usize / WORD, at as usize % WORD);
        let Some(word) = self.words.get(rank).and_then(|words| words.get(index)) else { return Ok(()) };
        let bit = 1 << byte;
        let clashes = |other: &Access| !(self.knows(thread, other) || other.strong && access.strong);
        let harmless = |other: &Access| {
            touch.same_value && other.line == access.line && other.thread / 32 == access.thread / 32
        };
        if let Some(write) = word.writes[byte].filter(|other| clashes(other) && !harmless(other)) {
            return Err(self.race(at, touch, &write, true));
        }
        if touch.writes {
            let read = word.reads.iter().find(|(other, bytes)| bytes & bit != 0 && clashes(other));
            if let Some((read, _)) = read {
                return Err(self.race(at, touch, read, false));
            }
        }
        // Readers that this one comes after need not be remembered: what comes after it comes after them.
        let kept: Vec<(Access, u8)> = match touch.writes {
            true => word.reads.iter().filter(|(_, bytes)| bytes & !bit != 0).copied().collect(),
            false => word.reads.iter().filter(|(other, _)| !self.knows(thread, other)).copied().collect(),
        };
        let word = &mut self.words[rank][index];
        word.reads = kept;
        if touch.writes {
            word.reads.iter_mut().for_each(|(_, bytes)| *bytes &= !bit);
            word.writes[byte] = Some(access);
        } else {
            word.reads.push((access, bit));
        }
        Ok(())
    }

    fn race(&self, at: u64, touch: Touch, other: &Access, other_writes: bool) -> FaultKind {
        let name = |writes: bool| if writes { "write" } else { "read" };
        let who = match other.thread as usize {
            agent if agent == self.threads => "what was started there".to_string(),
            thread => format!("block {} thread {}", thread as u32 / self.block, thread as u32 % self.block),
        };
        FaultKind::Race {
            what: format!(
                "this {} of shared memory at {at:#x} has no order with the {} of line {} ({who})",
                name(touch.writes),
                name(other_writes),
                other.line
            ),
            line: other.line,
        }
    }

    /// All that a thread knows, with its own clock, which goes on.
    fn give(&mut self, thread: u32, to: &mut Vec<u32>) {
        to.resize(self.threads + 1, 0);
        let me = thread as usize;
        to.iter_mut().zip(self.known[me].iter()).for_each(|(to, from)| *to = (*to).max(*from));
        to[me] = to[me].max(self.own[me]);
        to[self.threads] = to[self.threads].max(self.waited[me]);
        self.own[me] += 1;
    }

    fn take(&mut self, thread: u32, from: &Clocks) {
        let known = &mut self.known[thread as usize];
        if Rc::ptr_eq(known, from) {
            return;
        }
        let is_new = known.iter().zip(from.iter()).any(|(known, from)| known > from);
        *known = match is_new {
            true => known.iter().zip(from.iter()).map(|(known, from)| *known.max(from)).collect(),
            false => from.clone(),
        };
    }

    /// Threads come to a meeting.
    pub fn arrive(&mut self, meeting: Meeting, threads: impl Iterator<Item = u32>) {
        let mut coming = std::mem::take(&mut self.meetings.entry(meeting).or_default().coming);
        threads.for_each(|thread| self.give(thread, &mut coming));
        self.meetings.entry(meeting).or_default().coming = coming;
    }

    /// What an agent does for a thread is over when a meeting is.
    pub fn arrive_with(&mut self, meeting: Meeting, thread: u32, kind: Kind) {
        let pending = self.pending.get(&(kind, thread));
        let last = pending.map_or(0, |pending| pending.groups.iter().copied().fold(pending.open, u32::max));
        self.arrive(meeting, std::iter::once(thread));
        if let Some(clock) = self.meetings.entry(meeting).or_default().coming.last_mut() {
            *clock = (*clock).max(last);
        }
    }

    /// All have come to a meeting: those that go know what they knew.
    pub fn complete(&mut self, meeting: Meeting) {
        let gathering = self.meetings.entry(meeting).or_default();
        gathering.over = Some(gathering.coming.as_slice().into());
    }

    /// Threads go on from a meeting.
    pub fn leave(&mut self, meeting: Meeting, threads: impl Iterator<Item = u32>) {
        let Some(over) = self.meetings.get(&meeting).and_then(|gathering| gathering.over.clone()) else {
            return;
        };
        threads.for_each(|thread| self.take(thread, &over));
    }

    /// A strong access of a place: it comes after those before it.
    pub fn strong(&mut self, place: (usize, u64), thread: u32, writes: bool) {
        let meeting = Meeting::Place(place.0, place.1);
        self.leave(meeting, std::iter::once(thread));
        if writes {
            self.arrive(meeting, std::iter::once(thread));
            self.complete(meeting);
        }
    }

    /// Threads meet on the spot.
    pub fn meet(&mut self, threads: &[u32]) {
        let mut all = Vec::new();
        threads.iter().for_each(|thread| self.give(*thread, &mut all));
        let all: Clocks = all.into();
        threads.iter().for_each(|thread| self.take(*thread, &all));
    }

    /// A thread ends a group of what it has started, or waits for groups.
    pub fn group(&mut self, thread: u32, kind: Kind, step: GroupStep) {
        let pending = self.pending.entry((kind, thread)).or_default();
        let over = match step {
            GroupStep::Commit => {
                pending.groups.push(pending.open);
                return;
            }
            GroupStep::Wait(left) => {
                let count = pending.groups.len().saturating_sub(left as usize);
                pending.groups.drain(..count).max()
            }
            GroupStep::WaitAll => pending.groups.drain(..).max().max(Some(pending.open)),
        };
        let waited = &mut self.waited[thread as usize];
        *waited = (*waited).max(over.unwrap_or(0));
    }
}
