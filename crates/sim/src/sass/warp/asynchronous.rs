//! Barriers in shared memory, copies of the warp, and matrices that the lanes of a warp share.

use super::access::word_of;
use super::{LANES, Next, Now, Stop, Warp, lanes_of};
use crate::mbarrier::Mbarrier;
use crate::memory::weak::{Scope, Strength, Who};
use crate::memory::{self, Global, Space, aligned, rank_and_offset};
use crate::ptx::FaultKind;
use crate::ptx::program::Lanes;
use crate::sass::cluster::Common;
use crate::sass::flight::{Closing, Flight, Origin, Piece, Place};
use crate::sass::program::{Address, Arrive, BulkCopy, Dest, Multiply, Source, StoreRemote, Truth};

impl Warp {
    /// The barrier at an address of shared memory, of whichever block.
    fn barrier<'m>(&self, now: &'m mut Now, lane: usize, address: u64) -> Result<&'m mut [u8], Stop> {
        let (rank, offset) = rank_and_offset(address);
        let bad = FaultKind::OutOfBounds { space: Space::Shared.name(), address, bytes: 8 };
        aligned(Space::Shared, address, 8).map_err(|kind| (kind, lane))?;
        now.common.shared_bytes(rank, offset, 8).ok_or((bad, lane))
    }

    pub(super) fn exchange_barrier(
        &mut self,
        now: &mut Now,
        place: &Address,
        data: Source,
        dest: Dest,
    ) -> Result<(), Stop> {
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let address = self.addresses(now, place)?[first];
        let data = self.registers.fetch_uniform(now.context, data)?;
        let update = self.begin_update(now, (Space::Cluster, address), 8);
        let barrier = self.barrier(now, first, address)?;
        let old = memory::load(barrier);
        memory::store(barrier, data);
        if let Some(trace) = &mut now.common.trace {
            trace.make(address);
        }
        self.end_update(now, update, Scope::Device);
        self.registers.write(now.mask, dest, 2, &[old; LANES]);
        Ok(())
    }

    pub(super) fn arrive_at_place(&mut self, now: &mut Now, arrive: &Arrive) -> Result<(), Stop> {
        let addresses = self.addresses(now, &arrive.place)?;
        let arrivals = self.registers.fetch(now.context, arrive.arrivals)?;
        let transactions = self.registers.fetch(now.context, arrive.transactions)?;
        if arrive.after_copies {
            self.land_copies(now);
        }
        // The unit itself orders what the warp did before: ptxas writes no MEMBAR for the release of a block.
        self.order_release(now, Scope::Block);
        let mut states: Lanes = [0; LANES];
        for lane in lanes_of(now.mask) {
            let bytes = i64::from(transactions[lane] as u32);
            let bytes = if arrive.completes { -bytes } else { bytes };
            let update = self.begin_update(now, (Space::Cluster, addresses[lane]), 8);
            let barrier = self.barrier(now, lane, addresses[lane])?;
            let old = memory::load(barrier);
            let new = Mbarrier::read(old).update(arrivals[lane], bytes, arrive.drops).ok_or_else(|| {
                let what = "more threads arrive at a barrier than it expects".to_string();
                (FaultKind::Undefined { what }, lane)
            })?;
            memory::store(barrier, new.bits());
            self.end_update(now, update, Scope::Device);
            if let Some(trace) = &mut now.common.trace {
                trace.change(addresses[lane], old, new.bits(), false);
            }
            states[lane] = old;
        }
        if arrive.together {
            states = told_together(now.mask, &addresses, &arrivals, &states)?;
        }
        self.registers.write(now.mask, arrive.dest, 2, &states);
        Ok(())
    }

    /// Is the phase over whose parity is the sign of a word? Who is told no lets others go first.
    pub(super) fn check_phase(
        &mut self,
        now: &mut Now,
        place: &Address,
        phase: Source,
        truth: Truth,
        next: u32,
    ) -> Result<Next, Stop> {
        let addresses = self.addresses(now, place)?;
        let phases = self.registers.fetch(now.context, phase)?;
        let mut over = [0; LANES];
        for lane in lanes_of(now.mask) {
            self.begin_update(now, (Space::Cluster, addresses[lane]), 8);
            let barrier = memory::load(self.barrier(now, lane, addresses[lane])?);
            over[lane] = u64::from(barrier >> 63 != phases[lane] >> 31 & 1);
            if let Some(trace) = &mut now.common.trace {
                trace.attempt(addresses[lane], over[lane] != 0);
            }
        }
        self.registers.write_truth(now.mask, truth, &over);
        let waits = lanes_of(now.mask).any(|lane| over[lane] == 0);
        if lanes_of(now.mask).any(|lane| over[lane] != 0) {
            self.order_acquire(now, Scope::Block);
        }
        Ok(if waits { Next::Wait } else { Next::Go(next) })
    }

    /// So many times 16 bytes between global and shared memory; the barrier after the destination is told.
    pub(super) fn bulk_copy(&mut self, now: &mut Now, copy: &BulkCopy) -> Result<(), Stop> {
        const UNIT: u64 = 16;
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let fetch = |first: u8, words: u8| {
            self.registers.fetch_uniform(now.context, Source::Uniform { first, words })
        };
        let place = |first: u8, shared: bool| match shared {
            true => fetch(first, 1).map(Place::shared),
            false => fetch(first, 2).map(Place::Global),
        };
        let size = fetch(copy.size, 1)?;
        let bytes = (size & 0xffff) * UNIT;
        let (to, from) = (place(copy.to, copy.to_shared)?, place(copy.from, copy.from_shared)?);
        let barrier = if copy.to_shared { Some(place(copy.to.saturating_add(1), true)?) } else { None };
        let piece = |to: Place| Piece { from: Origin::Place(from), to, bytes: bytes as usize };
        for address in [to, from] {
            address.aligned(UNIT as u32).map_err(|kind| (kind, first))?;
        }
        let (pieces, tells) = match (copy.multicast, barrier) {
            (true, Some(barrier)) => {
                let ranks = lanes_of(size as u32 >> 16);
                let each = |rank: usize| (piece(to.in_block(rank)), (barrier.in_block(rank), bytes));
                ranks.map(each).unzip()
            }
            (_, barrier) => (vec![piece(to)], barrier.map(|barrier| (barrier, bytes)).into_iter().collect()),
        };
        let flight = Flight { pieces, combine: copy.combine.clone(), tells, is_by_warp: false };
        self.send(now, flight).map_err(|kind| (kind, first))
    }

    /// Begins a copy of the bulk units. If it tells no barrier, the warp may wait for its group.
    pub(super) fn send(&mut self, now: &mut Now, flight: Flight) -> Result<(), FaultKind> {
        now.common.note(&flight);
        if !flight.tells.is_empty() {
            return now.common.send(now.global, flight);
        }
        now.common.start(now.global, &flight, None)?;
        self.copies.add(Closing::Utmacmdflush, flight);
        Ok(())
    }

    pub(super) fn store_remote(&mut self, now: &mut Now, store: &StoreRemote) -> Result<(), Stop> {
        let general = |word: usize| *self.registers.general(store.address, word);
        let (addresses, barriers) = (general(0), general(1));
        let bytes = usize::from(store.bytes);
        for lane in lanes_of(now.mask) {
            let mut data = [0; 16];
            for (word, chunk) in data.chunks_exact_mut(4).enumerate().take(bytes.div_ceil(4)) {
                chunk.copy_from_slice(&self.registers.general(store.data, word)[lane].to_le_bytes());
            }
            let to = Place::shared(addresses[lane].into());
            to.aligned(store.bytes.into()).map_err(|kind| (kind, lane))?;
            let flight = Flight {
                pieces: vec![Piece { from: Origin::Data(data), to, bytes }],
                combine: store.combine.clone(),
                tells: vec![(Place::shared(barriers[lane].into()), bytes as u64)],
                is_by_warp: false,
            };
            now.common.note(&flight);
            now.common.send(now.global, flight).map_err(|kind| (kind, lane))?;
        }
        Ok(())
    }

    /// Scoreboards are zero: the groups that count on them are there.
    pub(super) fn await_copies(
        &mut self,
        who: Who,
        global: &mut Global,
        common: &mut Common,
        scoreboards: u8,
    ) {
        for scoreboard in lanes_of(scoreboards.into()) {
            let landing = self.copies.wait(scoreboard as u8, 0);
            landing.iter().for_each(|flight| common.arrive(global, flight, who));
        }
    }

    /// All copies of the warp are there.
    pub(super) fn land_copies(&mut self, now: &mut Now) {
        let (landing, who) = (self.copies.wait_for_all(), self.who(now));
        landing.iter().for_each(|flight| now.common.arrive(now.global, flight, who));
    }

    /// A row of matrix m is at the address of lane 8m + row.
    pub(super) fn load_matrices(
        &mut self,
        now: &mut Now,
        address: &Address,
        count: u8,
        transposed: bool,
        dest: Dest,
    ) -> Result<(), Stop> {
        let (addresses, weak) = (self.addresses(now, address)?, now.is_weak());
        for matrix in 0..count {
            let mut rows = [[0; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = 8 * usize::from(matrix) + row;
                let place = self.bytes(now, lane, (Space::Shared, addresses[lane]), 16);
                bytes.copy_from_slice(place.map_err(|kind| (kind, lane))?);
                if weak {
                    self.see(now, (Space::Shared, addresses[lane]), bytes, Strength::Weak);
                }
            }
            let values = std::array::from_fn(|lane| {
                words_of(lane, transposed, |row, column| {
                    u64::from(rows[row][2 * column]) | u64::from(rows[row][2 * column + 1]) << 8
                })
            });
            self.registers.write(now.mask, word_of(dest, matrix), 1, &values);
        }
        Ok(())
    }

    pub(super) fn store_matrices(
        &mut self,
        now: &mut Now,
        address: &Address,
        count: u8,
        transposed: bool,
        data: u8,
    ) -> Result<(), Stop> {
        let (addresses, weak) = (self.addresses(now, address)?, now.is_weak());
        let who = self.who(now);
        for matrix in 0..usize::from(count) {
            let words = *self.registers.general(data, matrix);
            for row in 0..8 {
                let lane = 8 * matrix + row;
                let halves: [u16; 8] = std::array::from_fn(|column| {
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    (words[4 * row + column / 2] >> (16 * (column % 2))) as u16
                });
                let at = if weak { now.at(Space::Shared, addresses[lane]) } else { None };
                let place = self.bytes(now, lane, (Space::Shared, addresses[lane]), 16);
                let place = place.map_err(|kind| (kind, lane))?;
                if let Some(at) = at {
                    let data = halves.map(u16::to_le_bytes);
                    let store = Strength::Weak;
                    now.memory().with(|weak, memory| weak.store(memory, who, at, data.as_flattened(), store));
                    continue;
                }
                for (place, half) in place.chunks_exact_mut(2).zip(halves) {
                    place.copy_from_slice(&half.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    pub(super) fn multiply(&mut self, now: &mut Now, multiply: &Multiply) -> Result<(), Stop> {
        if now.mask != u32::MAX {
            let what = "an MMA without all lanes".to_string();
            return Err((FaultKind::Undefined { what }, now.mask.trailing_zeros() as usize));
        }
        let fetch = |source: &Source| self.registers.fetch(now.context, *source);
        let inputs = multiply.sources.iter().map(fetch).collect::<Result<Vec<Lanes>, Stop>>()?;
        for (index, values) in (multiply.function)(&inputs).iter().enumerate() {
            let dest = word_of(Dest::General(multiply.dest), index as u8 * multiply.words);
            self.registers.write(now.mask, dest, multiply.words, values);
        }
        Ok(())
    }

    /// A matrix whose rows are in four lanes each becomes its transpose.
    pub(super) fn transpose(&mut self, now: &mut Now, source: Source, dest: Dest) -> Result<(), Stop> {
        let words = self.registers.fetch(now.context, source)?;
        let half = |row: usize, column: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
        let values = std::array::from_fn(|lane| words_of(lane, true, half));
        self.registers.write(now.mask, dest, 1, &values);
        Ok(())
    }
}

/// The two halves of a matrix that a lane has.
fn words_of(lane: usize, transposed: bool, half: impl Fn(usize, usize) -> u64) -> u64 {
    let (row, column) = (lane / 4, 2 * (lane % 4));
    match transposed {
        false => half(row, column) | half(row, column + 1) << 16,
        true => half(column, row) | half(column + 1, row) << 16,
    }
}

/// What each lane is told of states that the lanes found one after the other, if those that came to the same place did
/// so together: the upper word that the first of them found, and the mask of them. ptxas's code has the count in common
/// wherever it asks for that; what a machine does otherwise is not known.
fn told_together(mask: u32, places: &Lanes, counts: &Lanes, states: &Lanes) -> Result<Lanes, Stop> {
    let mut told: Lanes = [0; LANES];
    for lane in lanes_of(mask) {
        let same: Vec<usize> = lanes_of(mask).filter(|other| places[*other] == places[lane]).collect();
        if same.iter().any(|other| counts[*other] != counts[lane]) {
            let what = "threads arrive together with different counts".to_string();
            return Err((FaultKind::Undefined { what }, lane));
        }
        let first = same.first().map_or(0, |first| states[*first]);
        told[lane] = first >> 32 << 32 | same.iter().fold(0, |mask, other| mask | 1 << other);
    }
    Ok(told)
}
