//! MMAs of a warpgroup: each warp has its rows of them.
//!
//! One is computed when it is issued; that its registers aren't read before it is waited for is checked in time,
//! as for every instruction. What it read of shared memory must still be there when it is waited for: the machine may
//! have read it as late as that.

use super::{LANES, Now, Source, Stop, Warp};
use crate::memory;
use crate::mma::{chosen, held};
use crate::ptx::FaultKind;
use crate::ptx::program::Lanes;
use crate::sass::program::{Dest, MultiplyInGroup};
use std::collections::VecDeque;

/// Warps of a group.
const WARPS: usize = 4;
/// Rows of a warp.
const ROWS: usize = 16;

/// What was read of shared memory: address, bytes and their value.
type Reading = (u32, u8, u32);

/// MMAs in flight.
#[derive(Default)]
pub struct InFlight {
    open: Vec<Issued>,
    /// Groups, the oldest first.
    closed: VecDeque<Vec<Issued>>,
}

struct Issued {
    /// The instruction.
    index: u32,
    readings: Vec<Reading>,
}

impl Warp {
    pub(super) fn multiply_in_group(
        &mut self,
        now: &mut Now,
        multiply: &MultiplyInGroup,
        index: u32,
    ) -> Result<(), Stop> {
        if now.mask != u32::MAX {
            let what = "a wgmma without all lanes".to_string();
            return Err((FaultKind::Undefined { what }, now.mask.trailing_zeros() as usize));
        }
        let descriptor = |warp: &Warp, side: u8| {
            let first = multiply.descriptors.saturating_add(2 * side);
            warp.registers.fetch_uniform(now.context, Source::Uniform { first, words: 2 })
        };
        let (for_rows, for_columns) = (descriptor(self, 0)?, descriptor(self, 1)?);
        let wgmma = &multiply.wgmma;
        let [left, _, to] = wgmma.elements;
        let rank = now.context.rank as usize;
        let mut readings = Vec::new();
        // `ptxas -O0` waits for MMAs with one more, which takes what the system keeps at 0 for its operands.
        let waits = for_rows == 0 && for_columns == 0;
        let mut read = |address: u32, bytes: u32| {
            if waits {
                return Ok(0);
            }
            let found = now.common.shared_bytes(rank, address.into(), bytes as usize);
            let value = found.map(|bytes| memory::load(bytes)).ok_or_else(|| {
                let (space, address) = (memory::Space::Shared.name(), address.into());
                (FaultKind::OutOfBounds { space, address, bytes }, 0)
            })?;
            readings.push((address, bytes as u8, value as u32));
            Ok(value)
        };
        let rows = match multiply.rows {
            Some(first) => {
                let elements = ROWS * wgmma.k / if wgmma.sparse { 2 } else { 1 };
                let registers = self.run_of(first, held(elements, left));
                wgmma.rows_in_registers(&registers)
            }
            None => wgmma.rows_in_memory(self.index as usize % WARPS, for_rows, &mut read)?,
        };
        let columns = wgmma.columns(for_columns, &mut read)?;
        let adds = self.registers.holds(multiply.adds, now.mask) != 0;
        let before = adds.then(|| self.run_of(multiply.addend, held(ROWS * wgmma.n, to)));
        let chosen = multiply.metadata.map(|(register, selector)| {
            let metadata = self.registers.general(register, 0).map(u64::from);
            chosen(left, wgmma.k, &metadata, selector.into())
        });
        let sums = wgmma.sums(rows, columns, chosen, before.as_deref());
        for (word, values) in sums.iter().enumerate() {
            let dest = Dest::General(multiply.dest.saturating_add(word as u8));
            self.registers.write(now.mask, dest, 1, values);
        }
        self.in_flight.open.push(Issued { index, readings });
        if multiply.closes {
            let group = std::mem::take(&mut self.in_flight.open);
            self.in_flight.closed.push_back(group);
        }
        Ok(())
    }

    fn run_of(&self, first: u8, count: usize) -> Vec<Lanes> {
        (0..count).map(|word| self.registers.general(first, word).map(u64::from)).collect()
    }

    /// MMAs are done but for the last few groups: what they read must not have changed.
    pub(super) fn await_wgmma(&mut self, now: &mut Now, left: usize) -> Result<(), Stop> {
        let rank = now.context.rank as usize;
        while self.in_flight.closed.len() > left {
            for issued in self.in_flight.closed.pop_front().into_iter().flatten() {
                let changed = issued.readings.iter().find(|(address, bytes, value)| {
                    let found = now.common.shared_bytes(rank, (*address).into(), (*bytes).into());
                    found.is_none_or(|bytes| memory::load(bytes) as u32 != *value)
                });
                if let Some((address, ..)) = changed {
                    let place = now.context.program.place(issued.index as usize);
                    let place = place.map_or(String::new(), |place| format!("{:#x}", place.site.address));
                    let what = format!(
                        "shared memory at {address:#x} was written while the wgmma at {place} was in flight"
                    );
                    return Err((FaultKind::Undefined { what }, now.mask.trailing_zeros() as usize % LANES));
                }
            }
        }
        Ok(())
    }
}
