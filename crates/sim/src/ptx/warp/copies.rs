//! Copies of the asynchronous kind: of many bytes, of boxes of tensors. They are done on the spot.

use super::access::constant_bytes;
use super::{Now, Stop, Warp};
use crate::fault::FaultKind;
use crate::mbarrier::Mbarrier;
use crate::memory::{self, RANK_SHIFT, Space, aligned};
use crate::ptx::program::{Address, Bulk, Delivery, Direction, Lanes, Source, Tensor, Told, lanes};
use crate::ptx::races::{Kind, Touch};
use crate::tensor_map::{self, AXES, MapField, TensorMap};

/// Bulk copies have sizes and addresses that are multiples of this.
const BULK_STEP: u32 = 16;
/// A box is at a multiple of this in shared memory.
const BOX_ALIGNMENT: u32 = 128;
/// A map is read in parts, each aligned to its size.
const MAP_PART: u32 = 64;
/// Bytes of a barrier.
const BARRIER: u32 = 8;

/// An address and the space that it is of.
type Location = (Space, u64);

/// Where a copy goes, and the barrier that counts its bytes.
struct Target {
    place: Location,
    barrier: Option<Location>,
}

/// Who gets what a copy brings: for each lane the barrier and the blocks.
struct Receivers {
    barriers: Option<(Space, Lanes)>,
    blocks: Option<Lanes>,
}

impl Receivers {
    /// Where a lane's copy to some place goes: there, or to the same place in several blocks.
    fn of(&self, lane: usize, place: Location) -> Vec<Target> {
        let barrier = self.barriers.map(|(space, barriers)| (space, barriers[lane]));
        let Some(blocks) = &self.blocks else { return vec![Target { place, barrier }] };
        let within = |(_, address): Location, rank: u64| {
            let offset = address & ((1 << RANK_SHIFT) - 1);
            (Space::Cluster, rank << RANK_SHIFT | offset)
        };
        let ranks = (0..16).filter(|rank| blocks[lane] >> rank & 1 == 1);
        let target =
            |rank| Target { place: within(place, rank), barrier: barrier.map(|at| within(at, rank)) };
        ranks.map(target).collect()
    }
}

impl Warp {
    fn receivers(&self, now: &Now, delivery: &Delivery) -> Result<Receivers, Stop> {
        let barriers = match &delivery.barrier {
            Some(address) => Some((address.space, self.addresses(now, address)?)),
            None => None,
        };
        let blocks = match &delivery.blocks {
            Some(source) => Some(self.operand(now, source)?),
            None => None,
        };
        Ok(Receivers { barriers, blocks })
    }

    /// Bytes have come.
    fn complete(
        &mut self,
        now: &mut Now,
        lane: usize,
        barrier: Option<Location>,
        bytes: u64,
    ) -> Result<(), FaultKind> {
        let Some(place) = barrier else { return Ok(()) };
        let memory = self.bytes(now, lane, place, BARRIER)?;
        let before = Mbarrier::read(memory::load(memory));
        let after = before.complete(bytes);
        memory::store(memory, after.bits());
        self.tell(now, lane, place, Told::Started(Kind::Bulk), [before, after])
    }

    pub(super) fn bulk(&mut self, now: &mut Now, bulk: &Bulk) -> Result<(), Stop> {
        let (targets, origins) = (self.addresses(now, &bulk.to)?, self.addresses(now, &bulk.from)?);
        let sizes = self.operand(now, &bulk.bytes)?;
        let receivers = self.receivers(now, &bulk.delivery)?;
        *now.memory.vain = 0;
        for lane in lanes(now.mask) {
            let stop = |kind| (kind, lane);
            let size = u64::from(sizes[lane] as u32);
            for Target { place: to, barrier } in receivers.of(lane, (bulk.to.space, targets[lane])) {
                for at in (0..size).step_by(BULK_STEP as usize) {
                    let from = (bulk.from.space, origins[lane].wrapping_add(at));
                    let to = (to.0, to.1.wrapping_add(at));
                    self.bulk_step(now, lane, from, to, bulk).map_err(stop)?;
                }
                self.complete(now, lane, barrier, size).map_err(stop)?;
            }
        }
        Ok(())
    }

    fn bulk_step(
        &mut self,
        now: &mut Now,
        lane: usize,
        from: Location,
        to: Location,
        bulk: &Bulk,
    ) -> Result<(), FaultKind> {
        self.touch(now, lane, from, BULK_STEP, Touch::READ.by_agent(Kind::Bulk))?;
        self.touch(now, lane, to, BULK_STEP, Touch::WRITE.by_agent(Kind::Bulk))?;
        let data: Vec<u8> = self.bytes(now, lane, from, BULK_STEP)?.to_vec();
        let there = self.bytes(now, lane, to, BULK_STEP)?;
        match &bulk.combine {
            None => there.copy_from_slice(&data),
            Some((function, bytes)) => {
                let elements = there.chunks_mut(*bytes as usize).zip(data.chunks(*bytes as usize));
                for (old, new) in elements {
                    let operands = [memory::load(new).into()];
                    let result = function(bulk.to.space, memory::load(old).into(), &operands);
                    memory::store(old, result as u64);
                }
            }
        }
        Ok(())
    }

    /// The bytes of a tensor map.
    fn map_at(
        &mut self,
        now: &mut Now,
        lane: usize,
        (space, address): Location,
    ) -> Result<[u8; tensor_map::BYTES], FaultKind> {
        let mut map = [0; tensor_map::BYTES];
        for (index, part) in map.chunks_exact_mut(MAP_PART as usize).enumerate() {
            let at = address.wrapping_add(index as u64 * u64::from(MAP_PART));
            let (located, offset) = space.locate(at);
            part.copy_from_slice(match located {
                Space::Const => constant_bytes(now.context, offset, MAP_PART)?,
                _ => self.bytes(now, lane, (space, at), MAP_PART)?,
            });
        }
        Ok(map)
    }

    pub(super) fn tensor(&mut self, now: &mut Now, tensor: &Tensor) -> Result<(), Stop> {
        let maps = self.addresses(now, &tensor.map)?;
        let shared = self.addresses(now, &tensor.shared)?;
        let mut corner = [[0; super::LANES]; AXES];
        for (values, source) in corner.iter_mut().zip(&tensor.corner) {
            *values = self.operand(now, source)?;
        }
        let offsets: Vec<Lanes> =
            tensor.offsets.iter().map(|source| self.operand(now, source)).collect::<Result<_, _>>()?;
        let receivers = match &tensor.direction {
            Direction::Load(delivery) => Some(self.receivers(now, delivery)?),
            Direction::Store(_) => None,
        };
        *now.memory.vain = 0;
        for lane in lanes(now.mask) {
            let stop = |kind| (kind, lane);
            let undefined = |what: String| (FaultKind::Undefined { what: format!("a copy of {what}") }, lane);
            tensor_map::readable(tensor.map.space.locate(maps[lane]).0).map_err(undefined)?;
            let map = self.map_at(now, lane, (tensor.map.space, maps[lane])).map_err(stop)?;
            let map = TensorMap::read(&map).map_err(undefined)?;
            if map.rank != tensor.corner.len() {
                return Err(undefined(format!("{} coordinates of {} axes", tensor.corner.len(), map.rank)));
            }
            let corner: [i32; AXES] = std::array::from_fn(|axis| corner[axis][lane] as i32);
            if receivers.is_none() {
                tensor_map::writable(&corner[..map.rank]).map_err(undefined)?;
            }
            let offsets: Vec<u16> = offsets.iter().map(|offset| offset[lane] as u16).collect();
            let cells = map.cells(corner, &offsets).map_err(undefined)?;
            let place = (tensor.shared.space, shared[lane]);
            match &receivers {
                Some(receivers) => {
                    let targets = receivers.of(lane, place);
                    self.load_box(now, lane, &map, &cells, &targets).map_err(stop)?;
                }
                None => self.store_box(now, lane, &map, &cells, place, &tensor.direction).map_err(stop)?,
            }
        }
        Ok(())
    }

    fn load_box(
        &mut self,
        now: &mut Now,
        lane: usize,
        map: &TensorMap,
        cells: &[tensor_map::Cell],
        targets: &[Target],
    ) -> Result<(), FaultKind> {
        let size = map.element.bytes();
        for Target { place: (space, place), barrier } in targets {
            aligned(*space, *place, BOX_ALIGNMENT)?;
            for cell in cells {
                let value = match cell.global {
                    Some(address) => memory::load(self.bytes(now, lane, (Space::Global, address), size)?),
                    None => map.filling(),
                };
                let at = map.swizzled(*place, cell.shared);
                self.touch(now, lane, (*space, at), size, Touch::WRITE.by_agent(Kind::Bulk))?;
                memory::store(self.bytes(now, lane, (*space, at), size)?, value);
            }
            self.complete(now, lane, *barrier, u64::from(size) * cells.len() as u64)?;
        }
        Ok(())
    }

    fn store_box(
        &mut self,
        now: &mut Now,
        lane: usize,
        map: &TensorMap,
        cells: &[tensor_map::Cell],
        (space, place): Location,
        direction: &Direction,
    ) -> Result<(), FaultKind> {
        aligned(space, place, BOX_ALIGNMENT)?;
        let size = map.element.bytes();
        let function = match direction {
            Direction::Store(Some(operation)) => {
                let ty = ::ptx::Type::find(map.element.type_name());
                let function = ty.and_then(|ty| crate::ptx::decode::memory::atomic_function(operation, ty));
                let what = || format!("'{operation}' of {}", map.element.type_name());
                Some(function.ok_or_else(|| FaultKind::Undefined { what: what() })?)
            }
            _ => None,
        };
        for cell in cells {
            let Some(address) = cell.global else { continue };
            let at = map.swizzled(place, cell.shared);
            self.touch(now, lane, (space, at), size, Touch::READ.by_agent(Kind::Bulk))?;
            let new = memory::load(self.bytes(now, lane, (space, at), size)?);
            let there = self.bytes(now, lane, (Space::Global, address), size)?;
            let value = match &function {
                Some(function) => function(Space::Global, memory::load(there).into(), &[new.into()]) as u64,
                None => new,
            };
            memory::store(there, value);
        }
        Ok(())
    }

    pub(super) fn replace_in_map(
        &mut self,
        now: &mut Now,
        address: &Address,
        field: MapField,
        value: &Source,
    ) -> Result<(), Stop> {
        let (addresses, values) = (self.addresses(now, address)?, self.operand(now, value)?);
        for lane in lanes(now.mask) {
            let stop = |kind| (kind, lane);
            let place = (address.space, addresses[lane]);
            let mut map = self.map_at(now, lane, place).map_err(stop)?;
            tensor_map::replace(&mut map, field, values[lane]);
            for (index, part) in map.chunks_exact(MAP_PART as usize).enumerate() {
                let at = (place.0, place.1.wrapping_add(index as u64 * u64::from(MAP_PART)));
                self.bytes(now, lane, at, MAP_PART).map_err(stop)?.copy_from_slice(part);
            }
        }
        Ok(())
    }
}
