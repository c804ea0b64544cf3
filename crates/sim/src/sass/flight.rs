//! Copies of the asynchronous units: from when they are issued until their bytes are there.
//!
//! A copy reads and writes as late as it may. From its issue on, the place that it goes to holds
//! [`POISON`](super::POISON); its bytes land
//!
//! * in a later round of the cluster's warps, where a barrier in shared memory is told, or
//! * when a DEPBAR or a wait mask of the warp waits for the copy's group, or the warp ends.
//!
//! So code that looks at the destination too early, or changes the source too early, gets wrong values.

use super::POISON;
use super::cluster::Common;
use super::warp::ordering::put;
use crate::coalescing;
use crate::mbarrier::Mbarrier;
use crate::memory::weak::{At, Strength, Who};
use crate::memory::{self, Global, RANK_SHIFT, Space, rank_and_offset};
use crate::ptx::FaultKind;
use crate::ptx::program::AtomicFunction;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds of the cluster's warps that a copy takes at least.
const ROUNDS: u64 = 2;

/// Bytes of global memory, or of a block's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Global(u64),
    Shared { rank: usize, offset: u64 },
}

impl Place {
    /// The place of an address of shared memory that may be another block's.
    pub fn shared(address: u64) -> Place {
        let (rank, offset) = rank_and_offset(address);
        Place::Shared { rank, offset }
    }

    /// The same place in another block.
    pub fn in_block(self, rank: usize) -> Place {
        match self {
            Place::Shared { offset, .. } => Place::Shared { rank, offset },
            global => global,
        }
    }

    /// The address in the cluster's shared memory.
    fn in_cluster(self) -> Option<u64> {
        match self {
            Place::Global(_) => None,
            Place::Shared { rank, offset } => Some((rank as u64) << RANK_SHIFT | offset),
        }
    }

    pub fn aligned(self, bytes: u32) -> Result<(), FaultKind> {
        match self {
            Place::Global(address) => memory::aligned(Space::Global, address, bytes),
            Place::Shared { offset, .. } => memory::aligned(Space::Shared, offset, bytes),
        }
    }

    pub fn plus(self, bytes: u64) -> Place {
        match self {
            Place::Global(address) => Place::Global(address.wrapping_add(bytes)),
            Place::Shared { rank, offset } => Place::Shared { rank, offset: offset.wrapping_add(bytes) },
        }
    }

    /// In a cluster of the launch, for [`crate::memory::weak`].
    fn at(self, cluster: u32) -> At {
        match self {
            Place::Global(address) => At::global(address),
            Place::Shared { rank, offset } => At::shared(cluster, rank, offset),
        }
    }

    fn bad(self, bytes: usize) -> FaultKind {
        let (space, address) = match self {
            Place::Global(address) => (Space::Global, address),
            Place::Shared { rank, offset } => (Space::Shared, (rank as u64) << RANK_SHIFT | offset),
        };
        FaultKind::OutOfBounds { space: space.name(), address, bytes: bytes as u32 }
    }
}

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    Place(Place),
    Zeros,
    /// Registers.
    Data([u8; 16]),
}

/// Bytes that go from one place to another: at most 16 if they come from registers.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub from: Origin,
    pub to: Place,
    pub bytes: usize,
}

/// How bytes that come combine with those that are there: the size of an element, and what is done with two.
pub type Combine = (u8, AtomicFunction);

/// A copy under way.
pub struct Flight {
    pub pieces: Vec<Piece>,
    pub combine: Option<Arc<Combine>>,
    /// Barriers that are told about so many bytes.
    pub tells: Vec<(Place, u64)>,
    /// LDGSTS: the warp's own, and not a unit's.
    pub is_by_warp: bool,
}

/// Copies that tell barriers, with the rounds in which they land.
#[derive(Default)]
pub struct Flights {
    round: u64,
    under_way: VecDeque<(u64, Flight)>,
}

impl Common {
    fn bytes<'m>(&'m mut self, global: &'m mut Global, place: Place, bytes: usize) -> Option<&'m mut [u8]> {
        match place {
            Place::Global(address) => global.slice(address, bytes),
            Place::Shared { rank, offset } => self.shared_bytes(rank, offset, bytes),
        }
    }

    /// Shared memory of a block. What is below is the system's.
    #[inline]
    pub fn shared_bytes(&mut self, rank: usize, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let shared = self.shared.get_mut(rank).filter(|_| offset >= self.system)?;
        memory::slice(shared, offset, bytes)
    }

    /// Begins a copy: its places must be there, and its destination has no value until it lands.
    /// `who` is the warp whose own copy it is, and not a unit's.
    pub fn start(&mut self, global: &mut Global, flight: &Flight, who: Option<Who>) -> Result<(), FaultKind> {
        for Piece { from, to, bytes } in flight.pieces.iter().copied() {
            if let Origin::Place(from) = from {
                self.bytes(global, from, bytes).ok_or_else(|| from.bad(bytes))?;
            }
            let weak = global.weak.is_some();
            let target = self.bytes(global, to, bytes).ok_or_else(|| to.bad(bytes))?;
            let poisons = flight.combine.is_none() && matches!(to, Place::Shared { .. });
            if poisons && weak {
                let poison: Vec<u8> = POISON.to_le_bytes().into_iter().cycle().take(bytes).collect();
                put(self, global, who, to.at(self.number), &poison);
            } else if poisons {
                target.iter_mut().zip(POISON.to_le_bytes().into_iter().cycle()).for_each(|(t, p)| *t = p);
            }
        }
        Ok(())
    }

    /// Takes down that a copy begins, if that is asked for.
    pub fn note(&mut self, flight: &Flight) {
        let Some(trace) = &mut self.trace else { return };
        let (mut lines, mut bytes, mut loads) = (Vec::new(), 0, false);
        for piece in &flight.pieces {
            bytes += piece.bytes as u32;
            let global = match (piece.from, piece.to) {
                (Origin::Place(Place::Global(from)), _) => Some((from, true)),
                (_, Place::Global(to)) => Some((to, false)),
                _ => None,
            };
            if let Some((address, from)) = global {
                coalescing::merge(&mut lines, &coalescing::run(address, piece.bytes as u64));
                loads |= from;
            }
        }
        trace.send(lines, bytes, loads, flight.tells.iter().filter_map(|(place, _)| place.in_cluster()));
    }

    /// A copy that lands in a later round.
    pub fn send(&mut self, global: &mut Global, flight: Flight) -> Result<(), FaultKind> {
        self.start(global, &flight, None)?;
        self.send_started(flight);
        Ok(())
    }

    pub fn send_started(&mut self, flight: Flight) {
        self.flights.under_way.push_back((self.flights.round + ROUNDS, flight));
    }

    /// Ends a round: what is due lands, or everything. Says whether anything did.
    pub fn land(&mut self, global: &mut Global, all: bool) -> bool {
        self.flights.round += 1;
        let round = self.flights.round;
        let mut landed = false;
        while self.flights.under_way.front().is_some_and(|(due, _)| all || *due <= round) {
            if let Some((_, flight)) = self.flights.under_way.pop_front() {
                self.arrive_by_unit(global, &flight);
                landed = true;
            }
        }
        landed
    }

    /// A warp has waited for a copy. What it copied itself (LDGSTS) it has written itself.
    pub fn arrive(&mut self, global: &mut Global, flight: &Flight, who: Who) {
        self.finish(global, flight, if flight.is_by_warp { Some(who) } else { None });
    }

    /// A unit is done with a copy.
    fn arrive_by_unit(&mut self, global: &mut Global, flight: &Flight) {
        self.finish(global, flight, None);
    }

    /// The bytes of a copy are there. Its places were checked when it began.
    fn finish(&mut self, global: &mut Global, flight: &Flight, who: Option<Who>) {
        for Piece { from, to, bytes } in flight.pieces.iter().copied() {
            let mut data = match from {
                Origin::Place(from) => {
                    let mut data = self.bytes(global, from, bytes).map(|bytes| bytes.to_vec());
                    if let (Some(weak), Some(data), Some(who)) = (&mut global.weak, &mut data, who) {
                        weak.load(who, from.at(self.number), data, Strength::Weak);
                    }
                    data
                }
                Origin::Data(data) => data.get(..bytes).map(<[u8]>::to_vec),
                Origin::Zeros => None,
            }
            .unwrap_or_else(|| vec![0; bytes]);
            let Some(target) = self.bytes(global, to, bytes) else { continue };
            if let Some((size, function)) = flight.combine.as_deref() {
                let space = if matches!(to, Place::Global(_)) { Space::Global } else { Space::Shared };
                let size = usize::from(*size);
                for (new, old) in data.chunks_exact_mut(size).zip(target.chunks_exact(size)) {
                    let combined = function(space, memory::load(old).into(), &[memory::load(new).into()]);
                    memory::store(new, combined as u64);
                }
            }
            if global.weak.is_some() {
                put(self, global, who, to.at(self.number), &data);
            } else if let Some(target) = self.bytes(global, to, bytes) {
                target.copy_from_slice(&data);
            }
        }
        for (place, bytes) in &flight.tells {
            if let Some(barrier) = self.bytes(global, *place, 8) {
                let old = memory::load(barrier);
                let told = Mbarrier::read(old).complete(*bytes).bits().to_le_bytes();
                if let (Some(trace), Some(address)) = (&mut self.trace, place.in_cluster()) {
                    trace.change(address, old, memory::load(&told), true);
                }
                if global.weak.is_some() {
                    put(self, global, None, place.at(self.number), &told);
                } else if let Some(barrier) = self.bytes(global, *place, 8) {
                    barrier.copy_from_slice(&told);
                }
            }
        }
    }
}

/// Copies of a warp that no barrier is told about: it waits for them by groups.
#[derive(Default)]
pub struct Groups {
    /// Not in a group yet: those of LDGSTS, those of the bulk units.
    open: [Vec<Flight>; 2],
    /// The scoreboard that a group counts on, and its copies; the oldest first.
    closed: VecDeque<(u8, Vec<Flight>)>,
}

/// Which instruction closes a group of a copy.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    Ldgdepbar,
    Utmacmdflush,
}

impl Groups {
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.iter().all(Vec::is_empty)
    }

    pub fn add(&mut self, closing: Closing, flight: Flight) {
        self.open[closing as usize].push(flight);
    }

    pub fn close(&mut self, closing: Closing, scoreboard: u8) {
        let flights = std::mem::take(&mut self.open[closing as usize]);
        self.closed.push_back((scoreboard, flights));
    }

    /// The copies of a scoreboard's groups but for the last few.
    pub fn wait(&mut self, scoreboard: u8, left: usize) -> Vec<Flight> {
        let count = self.closed.iter().filter(|(on, _)| *on == scoreboard).count();
        let mut over = count.saturating_sub(left);
        let mut landing = Vec::new();
        for (_, flights) in self.closed.iter_mut().filter(|(on, _)| *on == scoreboard) {
            if over == 0 {
                break;
            }
            landing.append(flights);
            over -= 1;
        }
        let mut gone = count.saturating_sub(left);
        self.closed.retain(|(on, _)| {
            let leaves = *on == scoreboard && gone > 0;
            gone -= usize::from(leaves);
            !leaves
        });
        landing
    }

    /// All copies that LDGSTS began.
    pub fn wait_for_all(&mut self) -> Vec<Flight> {
        let closed = self.closed.drain(..).flat_map(|(_, flights)| flights);
        let mut all: Vec<Flight> = closed.collect();
        self.open.iter_mut().for_each(|open| all.append(open));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks with shared memory of 64 bytes, and global memory that counts.
    fn memory() -> (Common, Global, u64) {
        let mut global = Global::default();
        let address = global.allocate((0..64).collect());
        (Common::new(vec![vec![0; 64]; 2], 16, 1, 0), global, address)
    }

    fn copy(from: Origin, to: Place) -> Flight {
        let pieces = vec![Piece { from, to, bytes: 16 }];
        Flight { pieces, combine: None, tells: Vec::new(), is_by_warp: false }
    }

    #[test]
    fn bytes_are_poison_until_they_land() {
        let (mut common, mut global, address) = memory();
        let to = Place::Shared { rank: 1, offset: 32 };
        let flight = copy(Origin::Place(Place::Global(address + 16)), to);
        common.send(&mut global, flight).unwrap();
        assert_eq!(common.shared[1][32..36], POISON.to_le_bytes());
        assert!(!common.land(&mut global, false), "not in the round that it was sent in");
        // The source is read when the bytes land.
        global.slice(address + 16, 1).unwrap()[0] = 99;
        assert!(common.land(&mut global, false));
        assert_eq!(common.shared[1][32..35], [99, 17, 18]);
        assert_eq!(common.shared[0][32..35], [0; 3]);
    }

    #[test]
    fn places_are_checked_when_a_copy_begins() {
        let (mut common, mut global, address) = memory();
        let system = Place::Shared { rank: 0, offset: 0 };
        let beyond = Place::Shared { rank: 2, offset: 32 };
        for to in [system, beyond, Place::Global(address + 56)] {
            assert!(common.start(&mut global, &copy(Origin::Zeros, to), None).is_err(), "{to:?}");
        }
    }

    #[test]
    fn groups_are_waited_for_in_order() {
        let mut groups = Groups::default();
        for offset in [16, 32, 48] {
            groups.add(Closing::Ldgdepbar, copy(Origin::Zeros, Place::Shared { rank: 0, offset }));
            groups.close(Closing::Ldgdepbar, 0);
        }
        groups.close(Closing::Utmacmdflush, 1);
        let offset = |flight: &Flight| match flight.pieces[0].to {
            Place::Shared { offset, .. } => offset,
            Place::Global(_) => 0,
        };
        assert_eq!(groups.wait(0, 1).iter().map(offset).collect::<Vec<_>>(), [16, 32]);
        assert_eq!(groups.wait(0, 1).len(), 0);
        assert_eq!(groups.wait(0, 0).iter().map(offset).collect::<Vec<_>>(), [48]);
        assert!(!groups.is_empty());
        groups.wait(1, 0);
        assert!(groups.is_empty());
    }
}
