//! Loads, stores, atomics and copies: the bytes at an address, lane by lane.

use super::{LANES, Now, Stop, Warp, lanes_of};
use crate::memory::weak::{Scope, Strength};
use crate::memory::{self, Space, aligned, rank_and_offset};
use crate::ptx::FaultKind;
use crate::ptx::program::Lanes;
use crate::sass::flight::{Closing, Flight, Origin, Piece, Place};
use crate::sass::program::{Address, Atomic, Dest, Load, Truth};
use ori::arith::Int;

/// Bytes of the largest access.
const LARGEST: usize = 16;

impl Warp {
    pub(super) fn addresses(&self, now: &mut Now, address: &Address) -> Result<Lanes, Stop> {
        let base = self.registers.fetch(now.context, address.base)?;
        let uniform = self.registers.fetch_uniform(now.context, address.uniform)?;
        let scale = u64::from(address.scale);
        let mask = if address.wide { u64::MAX } else { u32::MAX.into() };
        let addresses = base.map(|base| {
            base.wrapping_mul(scale).wrapping_add(uniform).wrapping_add_signed(address.offset) & mask
        });
        if let Some(trace) = &mut now.common.trace {
            trace.addresses(address.space, &addresses);
        }
        Ok(addresses)
    }

    /// The bytes at an address.
    #[inline]
    pub(super) fn bytes<'m>(
        &'m mut self,
        now: &'m mut Now,
        lane: usize,
        (asked, address): (Space, u64),
        length: u8,
    ) -> Result<&'m mut [u8], FaultKind> {
        let (space, offset) = asked.locate(address);
        aligned(space, offset, length.into())?;
        let bytes = usize::from(length);
        let found = match space {
            Space::Global | Space::Generic => now.global.slice(offset, bytes),
            Space::Multicast => now.global.multicast(offset, bytes),
            Space::Shared | Space::Cluster => {
                let (rank, offset) = shared_place(asked, offset, now.context.rank as usize);
                now.common.shared_bytes(rank, offset, bytes)
            }
            Space::Local => {
                let local = &mut self.local[lane];
                if local.is_empty() {
                    local.resize(now.context.kernel.stack as usize, 0);
                }
                memory::slice(local, offset, bytes)
            }
            // Nobody can write there; reading is `constant_bytes`.
            Space::Const | Space::Param => None,
        };
        found.ok_or(FaultKind::OutOfBounds { space: space.name(), address, bytes: length.into() })
    }

    /// The bytes at an address, for reading: constants and parameters have generic addresses, too.
    pub(super) fn bytes_to_read<'m>(
        &'m mut self,
        now: &'m mut Now,
        lane: usize,
        (space, address): (Space, u64),
        length: u8,
    ) -> Result<&'m [u8], FaultKind> {
        let constant = match (space, Space::of_generic(address)) {
            (Space::Generic, window @ (Space::Const | Space::Param)) => window,
            _ => return self.bytes(now, lane, (space, address), length).map(|bytes| &*bytes),
        };
        let offset = address.wrapping_sub(constant.window());
        aligned(constant, offset, length.into())?;
        // Parameters have the address of the bank, so that they are as aligned as they are there.
        let (bank, first) = match constant {
            Space::Param => (now.context.bank(0), now.context.kernel.parameters.base),
            _ => (now.context.bank(3), 0),
        };
        let start = usize::try_from(offset).ok().filter(|start| *start >= first);
        let found = start.and_then(|start| bank.get(start..start.checked_add(length.into())?));
        found.ok_or(FaultKind::OutOfBounds { space: constant.name(), address, bytes: length.into() })
    }

    pub(super) fn load(&mut self, now: &mut Now, load: &Load) -> Result<(), Stop> {
        let addresses = self.addresses(now, &load.address)?;
        let words = load.bytes.div_ceil(4);
        let int = Int { bits: 8 * u32::from(load.bytes.min(4)), signed: load.signed };
        let mut values = [[0; LANES]; LARGEST / 4];
        let weak = now.is_weak();
        for lane in lanes_of(now.mask) {
            let place = (load.address.space, addresses[lane]);
            let data = self.bytes_to_read(now, lane, place, load.bytes).map_err(|kind| (kind, lane))?;
            if weak {
                let mut seen = [0; LARGEST];
                let seen = &mut seen[..usize::from(load.bytes)];
                seen.copy_from_slice(data);
                self.see(now, place, seen, load.strength);
                for (value, chunk) in values.iter_mut().zip(seen.chunks(4)) {
                    value[lane] = int.extended(memory::load(chunk));
                }
                continue;
            }
            for (value, chunk) in values.iter_mut().zip(data.chunks(4)) {
                value[lane] = int.extended(memory::load(chunk));
            }
        }
        for (word, values) in (0..words).zip(&values) {
            self.registers.write(now.mask, word_of(load.dest, word), 1, values);
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        now: &mut Now,
        address: &Address,
        bytes: u8,
        data: u8,
        strength: Strength,
    ) -> Result<(), Stop> {
        let addresses = self.addresses(now, address)?;
        let (weak, who) = (now.is_weak(), self.who(now));
        for lane in lanes_of(now.mask) {
            let word = |word: usize| self.registers.general(data, word)[lane];
            let words = [word(0), if bytes > 4 { word(1) } else { 0 }];
            let more = if bytes > 8 { [word(2), word(3)] } else { [0; 2] };
            let space = address.space.stored(addresses[lane]);
            let at = if weak { now.at(space, addresses[lane]) } else { None };
            let place = self.bytes(now, lane, (space, addresses[lane]), bytes);
            let place = place.map_err(|kind| (kind, lane))?;
            if let Some(at) = at {
                let mut data = [0; LARGEST];
                for (chunk, word) in data.chunks_mut(4).zip(words.into_iter().chain(more)) {
                    memory::store(chunk, word.into());
                }
                let data = &data[..usize::from(bytes)];
                now.memory().with(|weak, memory| weak.store(memory, who, at, data, strength));
                continue;
            }
            for (chunk, word) in place.chunks_mut(4).zip(words.into_iter().chain(more)) {
                memory::store(chunk, word.into());
            }
        }
        Ok(())
    }

    pub(super) fn atomic(&mut self, now: &mut Now, atomic: &Atomic) -> Result<(), Stop> {
        let addresses = self.addresses(now, &atomic.address)?;
        let words = atomic.bytes.div_ceil(4);
        let mut results = [[0; LANES]; LARGEST / 4];
        let mut done = [1; LANES];
        let weak = now.is_weak();
        for lane in lanes_of(now.mask) {
            let address = addresses[lane];
            let length = atomic.bytes * atomic.elements;
            let reached = match atomic.dest {
                Dest::None => atomic.address.space.stored(address),
                _ => atomic.address.space,
            };
            let space = match reached {
                Space::Generic => Space::of_generic(address),
                Space::Multicast => Space::Global,
                space => space,
            };
            let works = match space {
                Space::Global => true,
                Space::Shared => atomic.works_on_shared || atomic.address.space == Space::Shared,
                Space::Local => atomic.works_on_local,
                _ => false,
            };
            if !works {
                if atomic.done == Truth::None {
                    let what = format!("an atomic operation of this kind on {} memory", space.name());
                    return Err((FaultKind::Unsupported { what }, lane));
                }
                done[lane] = 0;
                continue;
            }
            // All of a vector is there, or none of it is touched.
            self.bytes(now, lane, (reached, address), length).map_err(|kind| (kind, lane))?;
            let update = match weak {
                true => self.begin_update(now, (reached, address), length.into()),
                false => None,
            };
            for element in 0..atomic.elements {
                let first = usize::from(element * words);
                let mut operands = [0; 2];
                for (operand, register) in operands.iter_mut().zip(&atomic.operands) {
                    *operand = (0..usize::from(words)).rev().fold(0u128, |value, word| {
                        value << 32 | u128::from(self.registers.general(*register, first + word)[lane])
                    });
                }
                let at = address.wrapping_add(u64::from(element * atomic.bytes));
                let place = self.bytes(now, lane, (reached, at), atomic.bytes);
                let place = place.map_err(|kind| (kind, lane))?;
                let old = place.iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
                let new = (atomic.function)(space, old, &operands);
                for (place, byte) in place.iter_mut().zip(new.to_le_bytes()) {
                    *place = byte;
                }
                let result = if atomic.tells_success { u128::from(old == operands[0]) } else { old };
                for word in 0..usize::from(words) {
                    results[first + word][lane] = (result >> (32 * word)) as u32 as u64;
                }
            }
            self.end_update(now, update, atomic.scope);
        }
        if weak && atomic.dest != Dest::None {
            self.order_acquire(now, Scope::Block);
        }
        self.registers.write_truth(now.mask, atomic.done, &done);
        for (word, values) in (0..words * atomic.elements).zip(&results) {
            self.registers.write(now.mask, word_of(atomic.dest, word), 1, values);
        }
        Ok(())
    }

    /// From global to shared memory; zeros in lanes that are not valid, and at the end where the address says so.
    pub(super) fn copy(
        &mut self,
        now: &mut Now,
        (to, from): (&Address, &Address),
        bytes: u8,
        valid: u32,
        fills: bool,
    ) -> Result<(), Stop> {
        let (targets, sources) = (self.addresses(now, to)?, self.addresses(now, from)?);
        let mut pieces = Vec::new();
        for lane in lanes_of(now.mask) {
            let zeros = if fills { sources[lane] & u64::from(bytes - 1) } else { 0 };
            let source = sources[lane] - zeros;
            let (rank, offset) = shared_place(to.space, targets[lane], now.context.rank as usize);
            let target = Place::Shared { rank, offset };
            aligned(to.space, targets[lane], bytes.into()).map_err(|kind| (kind, lane))?;
            let copied = if valid >> lane & 1 == 1 { u64::from(bytes) - zeros } else { 0 };
            if copied > 0 {
                aligned(from.space, source, bytes.into()).map_err(|kind| (kind, lane))?;
                let from = Origin::Place(Place::Global(source));
                pieces.push(Piece { from, to: target, bytes: copied as usize });
            }
            if copied < u64::from(bytes) {
                let rest = (u64::from(bytes) - copied) as usize;
                pieces.push(Piece { from: Origin::Zeros, to: target.plus(copied), bytes: rest });
            }
        }
        let flight = Flight { pieces, combine: None, tells: Vec::new(), is_by_warp: true };
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let who = self.who(now);
        now.common.start(now.global, &flight, Some(who)).map_err(|kind| (kind, first))?;
        self.copies.add(Closing::Ldgdepbar, flight);
        Ok(())
    }

    pub(super) fn query_space(
        &mut self,
        now: &mut Now,
        space: Space,
        address: &Address,
        truth: Truth,
    ) -> Result<(), Stop> {
        // The machine knows no constants: they are in global memory.
        let is_there = |address: u64| match Space::of_generic(address) {
            Space::Shared => space == Space::Shared,
            Space::Local => space == Space::Local,
            _ => space == Space::Global,
        };
        let values = self.addresses(now, address)?.map(|address| u64::from(is_there(address)));
        self.registers.write_truth(now.mask, truth, &values);
        Ok(())
    }
}

/// The block and the offset of an address of shared memory. A generic address names the block; one of LDS and its kin
/// may leave the block's own number out.
pub(super) fn shared_place(asked: Space, address: u64, own: usize) -> (usize, u64) {
    match (asked, rank_and_offset(address)) {
        (Space::Shared, (0, offset)) => (own, offset),
        (_, place) => place,
    }
}

/// The place of a word of a result.
pub(super) fn word_of(dest: Dest, word: u8) -> Dest {
    match dest {
        Dest::General(first) => Dest::General(first.saturating_add(word)),
        Dest::Uniform(first) => Dest::Uniform(first.saturating_add(word)),
        Dest::None => Dest::None,
    }
}
