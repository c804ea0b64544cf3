//! What a whole warp does: no lane goes on before all have come.

use super::{Group, Next, Now, State, Stop, Warp};
use crate::memory::{self, Space};
use crate::mma::chosen;
use crate::ptx::block::Context;
use crate::ptx::cluster::Memory;
use crate::ptx::program::{
    Action, Address, GroupAction, LANES, Lanes, MatrixAccess, Rows, Source, TileAccess, Whole, lanes,
};
use crate::ptx::races::{Kind, Touch};

/// Rows of a matrix, and bytes of a row.
const ROWS: usize = 8;
const ROW_BYTES: u32 = 16;

impl Warp {
    pub(super) fn whole(
        &mut self,
        context: &mut Context,
        memory: &mut Memory,
        group: &Group,
        mask: u32,
        action: &Action,
        line: u32,
    ) -> Result<Next, Stop> {
        self.leave_behind(group, mask);
        let pc = group.pc;
        let mut here = vec![Group { mask, state: State::AtSync, ..*group }];
        self.groups.retain(|g| {
            let waits = g.pc == pc && g.state == State::AtSync;
            if waits {
                here.push(*g);
            }
            !waits
        });
        let present = here.iter().fold(0, |m, g| m | g.mask);
        let complete = present == self.alive;
        if complete {
            match action {
                Action::Whole(whole) => self.compute_whole(context, &here, whole)?,
                Action::MatrixAccess(access) => {
                    let now = &mut Now { context, memory, frame: group.frame, mask, line };
                    match access.dests.is_empty() {
                        true => self.store_matrices(now, &here, access)?,
                        false => self.load_matrices(now, &here, access)?,
                    }
                }
                Action::TileAccess(access) => {
                    let now = &mut Now { context, memory, frame: group.frame, mask, line };
                    self.access_tile(now, &here, access)?;
                }
                Action::Wgmma(action) => {
                    let now = &mut Now { context, memory, frame: group.frame, mask, line };
                    self.wgmma(now, &here, action)?;
                }
                _ => {}
            }
        }
        for g in here {
            let next = Group { pc: pc + 1, state: State::Ready, ..g };
            self.park(if complete { next } else { g });
        }
        Ok(Next::Elsewhere)
    }

    /// A value of all lanes, which may be in several frames.
    fn gather(&self, context: &Context, groups: &[Group], source: &Source) -> Result<Lanes, Stop> {
        let mut all = [0; LANES];
        for g in groups {
            let values = self.read(context, g.frame, g.mask, source)?;
            lanes(g.mask).for_each(|lane| all[lane] = values[lane]);
        }
        Ok(all)
    }

    fn compute_whole(&mut self, context: &Context, groups: &[Group], whole: &Whole) -> Result<(), Stop> {
        let inputs: Vec<Lanes> = whole
            .sources
            .iter()
            .map(|source| self.gather(context, groups, source))
            .collect::<Result<_, _>>()?;
        let outputs = (whole.function)(&inputs);
        for g in groups {
            for (dest, values) in whole.dests.iter().zip(&outputs) {
                self.write(g.frame, g.mask, dest, values);
            }
        }
        Ok(())
    }

    fn load_matrices(&mut self, now: &mut Now, groups: &[Group], access: &MatrixAccess) -> Result<(), Stop> {
        let mut results = vec![[0; LANES]; access.dests.len()];
        for (matrix, result) in results.iter_mut().enumerate() {
            let mut elements = [[0u64; ROWS]; ROWS];
            for (row, elements) in elements.iter_mut().enumerate() {
                let bytes = self.matrix_row(now, groups, access, ROWS * matrix + row)?;
                for (element, pair) in elements.iter_mut().zip(bytes.chunks_exact(2)) {
                    *element = u64::from(pair[1]) << 8 | u64::from(pair[0]);
                }
            }
            let get = |row: usize, column: usize| match access.transposed {
                true => elements[column][row],
                false => elements[row][column],
            };
            for (lane, register) in result.iter_mut().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                *register = get(row, column + 1) << 16 | get(row, column);
            }
        }
        for g in groups {
            for (dest, values) in access.dests.iter().zip(&results) {
                self.write(g.frame, g.mask, dest, values);
            }
        }
        Ok(())
    }

    fn store_matrices(&mut self, now: &mut Now, groups: &[Group], access: &MatrixAccess) -> Result<(), Stop> {
        for (matrix, source) in access.sources.iter().enumerate() {
            let registers = self.gather(now.context, groups, source)?;
            let element = |row: usize, column: usize| {
                let (row, column) = if access.transposed { (column, row) } else { (row, column) };
                (registers[row * 4 + column / 2] >> (column % 2 * 16)) as u16
            };
            for row in 0..ROWS {
                let bytes: Vec<u8> =
                    (0..ROWS).flat_map(|column| element(row, column).to_le_bytes()).collect();
                let memory = self.matrix_row(now, groups, access, ROWS * matrix + row)?;
                memory.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// The row whose address a lane has.
    fn matrix_row<'m>(
        &'m mut self,
        now: &'m mut Now,
        groups: &[Group],
        access: &MatrixAccess,
        lane: usize,
    ) -> Result<&'m mut [u8], Stop> {
        let Address { space, base, offset } = &access.address;
        let address = self.gather(now.context, groups, base)?[lane].wrapping_add_signed(*offset);
        let touch = if access.dests.is_empty() { Touch::WRITE } else { Touch::READ };
        let stop = |kind| (kind, lane);
        self.touch(now, lane, (*space, address), ROW_BYTES, touch).map_err(stop)?;
        self.bytes(now, lane, (*space, address), ROW_BYTES).map_err(stop)
    }

    /// `wmma.load` and `wmma.store`.
    fn access_tile(&mut self, now: &mut Now, groups: &[Group], access: &TileAccess) -> Result<(), Stop> {
        let first = groups.iter().map(|g| g.mask.trailing_zeros() as usize).min().unwrap_or(0);
        let Address { space, base, offset } = &access.address;
        let base = self.gather(now.context, groups, base)?[first].wrapping_add_signed(*offset);
        let stride = self.gather(now.context, groups, &access.stride)?[first];
        let bits = access.tile.element.bits() as u64;
        let sources: Vec<Lanes> = access
            .sources
            .iter()
            .map(|source| self.gather(now.context, groups, source))
            .collect::<Result<_, _>>()?;
        let mut results = vec![[0; LANES]; access.dests.len()];
        let registers = results.len().max(sources.len());
        for ((lane, register, index), row, column) in access.tile.places(registers) {
            let (line, along) = if access.by_rows { (row, column) } else { (column, row) };
            let at = (line as u64).wrapping_mul(stride).wrapping_add(along as u64).wrapping_mul(bits);
            let place = (*space, base.wrapping_add(at / 8));
            let memory =
                self.bytes(now, lane, place, (bits / 8).max(1) as u32).map_err(|kind| (kind, lane))?;
            let there = memory::load(memory);
            match sources.get(register) {
                // Elements of less than a byte are never stored.
                Some(source) => memory::store(memory, access.tile.element.get(source[lane], index)),
                None => {
                    let value = there >> (at % 8) & u64::MAX >> (64 - bits);
                    results[register][lane] |= value << (index as u64 * bits);
                }
            }
        }
        for g in groups {
            for (dest, values) in access.dests.iter().zip(&results) {
                self.write(g.frame, g.mask, dest, values);
            }
        }
        Ok(())
    }

    /// A warp's part of a `wgmma`.
    fn wgmma(&mut self, now: &mut Now, groups: &[Group], action: &GroupAction) -> Result<(), Stop> {
        let GroupAction { wgmma, .. } = action;
        // Operands that all lanes have alike.
        let columns = self.gather(now.context, groups, &action.columns)?[0];
        let accumulates = self.gather(now.context, groups, &action.accumulates)?[0] != 0;
        let rows = match &action.rows {
            Rows::Registers(sources) => {
                wgmma.rows_in_registers(&self.gather_all(now.context, groups, sources)?)
            }
            Rows::Memory(descriptor) => {
                let descriptor = self.gather(now.context, groups, descriptor)?[0];
                let warp = self.index as usize % 4;
                wgmma.rows_in_memory(warp, descriptor, |at, bytes| self.operand_in_memory(now, at, bytes))?
            }
        };
        let columns = wgmma.columns(columns, |at, bytes| self.operand_in_memory(now, at, bytes))?;
        let chosen = match &action.metadata {
            Some((source, selector)) => {
                let metadata = self.gather(now.context, groups, source)?;
                Some(chosen(wgmma.elements[0], wgmma.k, &metadata, *selector))
            }
            None => None,
        };
        let before = match accumulates {
            true => Some(self.gather_all(now.context, groups, &action.sums)?),
            false => None,
        };
        let sums = wgmma.sums(rows, columns, chosen, before.as_deref());
        for g in groups {
            for (dest, values) in action.dests.iter().zip(&sums) {
                self.write(g.frame, g.mask, dest, values);
            }
        }
        Ok(())
    }

    fn gather_all(
        &self,
        context: &Context,
        groups: &[Group],
        sources: &[Source],
    ) -> Result<Vec<Lanes>, Stop> {
        sources.iter().map(|source| self.gather(context, groups, source)).collect()
    }

    /// Bits that a `wgmma` reads from shared memory, for the first lane and in its name.
    fn operand_in_memory(&mut self, now: &mut Now, address: u32, bytes: u32) -> Result<u64, Stop> {
        let place = (Space::Shared, u64::from(address));
        let stop = |kind| (kind, 0);
        self.touch(now, 0, place, bytes, Touch::READ.by_agent(Kind::Wgmma)).map_err(stop)?;
        self.bytes(now, 0, place, bytes).map(|bytes| memory::load(bytes)).map_err(stop)
    }
}
