//! Barriers in shared memory, copies of the warp, and matrices that the lanes of a warp share.
//!
//! Copies are done when they are issued. A barrier is 64 bits: how many threads must come in the next phase, how many
//! bytes are on their way, how many threads have yet to come, and the phase. The machine counts threads up to zero; where
//! it keeps the bytes is not known, and no program sees it.

use super::access::word_of;
use super::{LANES, Next, Now, Stop, Warp, lanes_of};
use crate::ptx::FaultKind;
use crate::ptx::memory::{self, Space};
use crate::ptx::program::Lanes;
use crate::sass::program::{Address, Arrive, BulkCopy, Dest, Multiply, Source, Truth};

/// Fields of a barrier: lowest bit, width.
const EXPECTED: (u32, u32) = (1, 20);
const TRANSACTIONS: (u32, u32) = (21, 22);
const PENDING: (u32, u32) = (43, 20);
const PHASE: u64 = 1 << 63;

fn field(word: u64, (bit, width): (u32, u32)) -> u64 {
    word >> bit & (u64::MAX >> (64 - width))
}

fn with(word: u64, (bit, width): (u32, u32), value: u64) -> u64 {
    let mask = u64::MAX >> (64 - width);
    word & !(mask << bit) | (value & mask) << bit
}

/// The barrier after an arrival; `None` if more arrive than are expected.
fn arrived(word: u64, arrivals: u64, transactions: u64, drops: bool) -> Option<u64> {
    let left = (1u64 << PENDING.1) - field(word, PENDING);
    if arrivals > left % (1 << PENDING.1) {
        return None;
    }
    let mut word = with(word, PENDING, field(word, PENDING) + arrivals);
    word = with(word, TRANSACTIONS, field(word, TRANSACTIONS).wrapping_add(transactions));
    if drops {
        word = with(word, EXPECTED, field(word, EXPECTED) + arrivals);
    }
    if field(word, PENDING) == 0 && field(word, TRANSACTIONS) == 0 {
        word = with(word, PENDING, field(word, EXPECTED)) ^ PHASE;
    }
    Some(word)
}

impl Warp {
    /// The barrier at an address of shared memory.
    fn barrier<'m>(&'m mut self, now: &'m mut Now, lane: usize, address: u64) -> Result<&'m mut [u8], Stop> {
        self.bytes(now, lane, (Space::Shared, address), 8).map_err(|kind| (kind, lane))
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
        let barrier = self.barrier(now, first, address)?;
        let old = memory::load(barrier);
        memory::store(barrier, data);
        self.registers.write(now.mask, dest, 2, &[old; LANES]);
        Ok(())
    }

    pub(super) fn arrive_at_place(&mut self, now: &mut Now, arrive: &Arrive) -> Result<(), Stop> {
        let addresses = self.addresses(now, &arrive.place)?;
        let arrivals = self.registers.fetch(now.context, arrive.arrivals)?;
        let transactions = self.registers.fetch(now.context, arrive.transactions)?;
        let mut states: Lanes = [0; LANES];
        for lane in lanes_of(now.mask) {
            let bytes = transactions[lane];
            let bytes = if arrive.completes { bytes.wrapping_neg() } else { bytes };
            let barrier = self.barrier(now, lane, addresses[lane])?;
            let old = memory::load(barrier);
            let new = arrived(old, arrivals[lane], bytes, arrive.drops).ok_or_else(|| {
                let what = "more threads arrive at a barrier than it expects".to_string();
                (FaultKind::Undefined { what }, lane)
            })?;
            memory::store(barrier, new);
            states[lane] = old;
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
            let barrier = memory::load(self.barrier(now, lane, addresses[lane])?);
            over[lane] = u64::from(barrier >> 63 != phases[lane] >> 31 & 1);
        }
        self.registers.write_truth(now.mask, truth, &over);
        let waits = lanes_of(now.mask).any(|lane| over[lane] == 0);
        Ok(if waits { Next::Yield } else { Next::Go(next) })
    }

    /// So many times 16 bytes between global and shared memory; the barrier behind the destination is told.
    pub(super) fn bulk_copy(&mut self, now: &mut Now, copy: &BulkCopy) -> Result<(), Stop> {
        const UNIT: u8 = 16;
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let fetch = |warp: &Warp, first: u8, words: u8| {
            warp.registers.fetch_uniform(now.context, Source::Uniform { first, words })
        };
        let units = fetch(self, copy.size, 1)? & 0xffff;
        let (to, from, barrier) = match copy.to_shared {
            true => {
                let (to, barrier) = (fetch(self, copy.to, 1)?, fetch(self, copy.to.saturating_add(1), 1)?);
                ((Space::Shared, to), (Space::Global, fetch(self, copy.from, 2)?), Some(barrier))
            }
            false => {
                ((Space::Global, fetch(self, copy.to, 2)?), (Space::Shared, fetch(self, copy.from, 1)?), None)
            }
        };
        for unit in 0..units {
            let offset = unit * u64::from(UNIT);
            let mut data = [0; UNIT as usize];
            let source = self.bytes(now, first, (from.0, from.1.wrapping_add(offset)), UNIT);
            data.copy_from_slice(source.map_err(|kind| (kind, first))?);
            let target = self.bytes(now, first, (to.0, to.1.wrapping_add(offset)), UNIT);
            let target = target.map_err(|kind| (kind, first))?;
            if let Some((size, function)) = &copy.reduction {
                let size = usize::from(*size);
                for (new, old) in data.chunks_exact_mut(size).zip(target.chunks_exact(size)) {
                    let combined = function(to.0, memory::load(old).into(), &[memory::load(new).into()]);
                    memory::store(new, combined as u64);
                }
            }
            target.copy_from_slice(&data);
        }
        if let Some(address) = barrier {
            let bytes = units * u64::from(UNIT);
            let barrier = self.barrier(now, first, address)?;
            if let Some(new) = arrived(memory::load(barrier), 0, bytes.wrapping_neg(), false) {
                memory::store(barrier, new);
            }
        }
        Ok(())
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
        let addresses = self.addresses(now, address)?;
        for matrix in 0..count {
            let mut rows = [[0; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = 8 * usize::from(matrix) + row;
                let place = self.bytes(now, lane, (Space::Shared, addresses[lane]), 16);
                bytes.copy_from_slice(place.map_err(|kind| (kind, lane))?);
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
        let addresses = self.addresses(now, address)?;
        for matrix in 0..usize::from(count) {
            let words = *self.registers.general(data, matrix);
            for row in 0..8 {
                let lane = 8 * matrix + row;
                let halves: [u16; 8] = std::array::from_fn(|column| {
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    (words[4 * row + column / 2] >> (16 * (column % 2))) as u16
                });
                let place = self.bytes(now, lane, (Space::Shared, addresses[lane]), 16);
                let place = place.map_err(|kind| (kind, lane))?;
                for (place, half) in place.chunks_exact_mut(2).zip(halves) {
                    place.copy_from_slice(&half.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    pub(super) fn multiply(&mut self, now: &mut Now, multiply: &Multiply) -> Result<(), Stop> {
        if now.mask != u32::MAX {
            let what = "a product of matrices without all lanes".to_string();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A barrier that expects so many threads, as code writes it.
    fn barrier(count: u64) -> u64 {
        let left = (1 << PENDING.1) - count;
        with(with(0, EXPECTED, left), PENDING, left)
    }

    #[test]
    fn phases() {
        let one = arrived(barrier(2), 1, 0, false).unwrap();
        assert_eq!(one & PHASE, 0);
        let two = arrived(one, 1, 0, false).unwrap();
        assert_eq!(two, barrier(2) | PHASE);
        assert_eq!(arrived(barrier(1), 2, 0, false), None);
        assert_eq!(arrived(0, 1, 0, false), None, "what is no barrier expects no one");
    }

    #[test]
    fn transactions() {
        let waiting = arrived(barrier(1), 1, 64, false).unwrap();
        assert_eq!(waiting & PHASE, 0);
        let half = arrived(waiting, 0, 48u64.wrapping_neg(), false).unwrap();
        assert_eq!(half & PHASE, 0);
        assert_eq!(arrived(half, 0, 16u64.wrapping_neg(), false), Some(barrier(1) | PHASE));
    }

    #[test]
    fn threads_that_drop_out() {
        let one = arrived(barrier(2), 1, 0, true).unwrap();
        assert_eq!(arrived(one, 1, 0, false), Some(barrier(1) | PHASE));
    }
}
