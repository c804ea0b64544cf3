//! Loads, stores, atomics and copies: the bytes at an address, lane by lane.

use super::{LOCAL_LIMIT, Now, Stop, Warp, too_many};
use crate::fault::FaultKind;
use crate::mbarrier::Mbarrier;
use crate::memory::{self, Space, aligned, rank_and_offset};
use crate::ptx::block::Context;
use crate::ptx::program::{Address, Atomic, Copy, Dest, LANES, Lanes, Limit, Source, Told, lanes};
use crate::ptx::races::{Kind, Meeting, Touch};

/// So many questions in vain to barriers in memory, with no write between them, are no hope for more.
const VAIN_LIMIT: u64 = 1 << 20;

impl Warp {
    pub(super) fn operand(&self, now: &Now, source: &Source) -> Result<Lanes, Stop> {
        self.read(now.context, now.frame, now.mask, source)
    }

    /// The bytes at an address.
    #[inline]
    pub(super) fn bytes<'m>(
        &'m mut self,
        now: &'m mut Now,
        lane: usize,
        (named, address): (Space, u64),
        length: u32,
    ) -> Result<&'m mut [u8], FaultKind> {
        let (space, offset) = named.locate(address);
        aligned(space, offset, length)?;
        let bytes = length as usize;
        let found = match space {
            Space::Global | Space::Generic => now.memory.global.slice(offset, bytes),
            Space::Multicast => now.memory.global.multicast(offset, bytes),
            Space::Shared | Space::Cluster => {
                let (rank, offset) = place_in_cluster(now.context, named, offset);
                let reserved = u64::from(now.context.program.reserved_shared);
                let shared = now.memory.shared.get_mut(rank).filter(|_| offset >= reserved);
                shared.and_then(|shared| memory::slice(shared, offset, bytes))
            }
            Space::Local => {
                let local = &mut self.local[lane];
                let top = self.local_top[lane] as usize;
                if local.len() < top {
                    local.resize(top, 0);
                }
                memory::slice(&mut local[..top], offset, bytes)
            }
            // Only a kernel's parameters have generic addresses.
            Space::Param if named == Space::Generic => self.frames[0].param(lane, offset, bytes),
            Space::Param => self.frames[now.frame as usize].param(lane, offset, bytes),
            // Constant memory is not written: a store to it is refused by the parser.
            Space::Const => {
                return Err(FaultKind::Unsupported { what: "this use of constant memory".into() });
            }
        };
        found.ok_or(FaultKind::OutOfBounds { space: space.name(), address, bytes: length })
    }

    /// Is an access of shared memory in order, if someone wants to know?
    pub(super) fn touch(
        &self,
        now: &mut Now,
        lane: usize,
        (named, address): (Space, u64),
        bytes: u32,
        touch: Touch,
    ) -> Result<(), FaultKind> {
        let Some(races) = &mut now.memory.races else { return Ok(()) };
        let (Space::Shared | Space::Cluster, offset) = named.locate(address) else { return Ok(()) };
        let place = place_in_cluster(now.context, named, offset);
        let thread = races.thread(now.context.rank, self.index, lane);
        if touch.strong {
            races.strong(place, thread, touch.writes);
        }
        races.touch(thread, place, bytes, now.line, touch)
    }

    pub(super) fn addresses(&self, now: &Now, address: &Address) -> Result<Lanes, Stop> {
        let base = self.operand(now, &address.base)?;
        Ok(base.map(|base| base.wrapping_add_signed(address.offset)))
    }

    pub(super) fn load(
        &mut self,
        now: &mut Now,
        address: &Address,
        bytes: u32,
        dests: &[Dest],
        strong: bool,
    ) -> Result<(), Stop> {
        let addresses = self.addresses(now, address)?;
        let length = bytes * dests.len() as u32;
        let mut values = [[0; LANES]; 8];
        if dests.len() > values.len() {
            return Err((too_many(), 0));
        }
        for lane in lanes(now.mask) {
            let at = addresses[lane];
            let constant = address.space == Space::Const
                || address.space == Space::Generic && Space::of_generic(at) == Space::Const;
            let data = if constant {
                let window = if address.space == Space::Generic { Space::Const.window() } else { 0 };
                constant_bytes(now.context, at.wrapping_sub(window), length)
            } else {
                let touch = Touch { strong, ..Touch::READ };
                self.touch(now, lane, (address.space, at), length, touch).map_err(|kind| (kind, lane))?;
                self.bytes(now, lane, (address.space, at), length).map(|bytes| &*bytes)
            };
            let data = data.map_err(|kind| (kind, lane))?;
            for (value, chunk) in values.iter_mut().zip(data.chunks_exact(bytes as usize)) {
                value[lane] = memory::load(chunk);
            }
        }
        for (dest, value) in dests.iter().zip(&values) {
            self.write(now.frame, now.mask, dest, value);
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        now: &mut Now,
        address: &Address,
        bytes: u32,
        sources: &[Source],
        strong: bool,
    ) -> Result<(), Stop> {
        let addresses = self.addresses(now, address)?;
        let length = bytes * sources.len() as u32;
        let mut values = [[0; LANES]; 8];
        if sources.len() > values.len() {
            return Err((too_many(), 0));
        }
        for (value, source) in values.iter_mut().zip(sources) {
            *value = self.operand(now, source)?;
        }
        *now.memory.vain = 0;
        for lane in lanes(now.mask) {
            let (place, stop) = ((address.space, addresses[lane]), |kind| (kind, lane));
            if now.memory.races.is_some() {
                let there = self.bytes(now, lane, place, length).map_err(stop)?;
                let mask = u64::MAX >> (64 - 8 * bytes.min(8));
                let same = |(value, chunk): (&Lanes, &[u8])| memory::load(chunk) == value[lane] & mask;
                let same_value = values.iter().zip(there.chunks_exact(bytes as usize)).all(same);
                let touch = Touch { strong, same_value, ..Touch::WRITE };
                self.touch(now, lane, place, length, touch).map_err(stop)?;
            }
            let data = self.bytes(now, lane, place, length).map_err(stop)?;
            for (value, chunk) in values.iter().zip(data.chunks_exact_mut(bytes as usize)) {
                memory::store(chunk, value[lane]);
            }
        }
        Ok(())
    }

    /// One lane after the other.
    pub(super) fn atomic(&mut self, now: &mut Now, atomic: &Atomic) -> Result<(), Stop> {
        let addresses = self.addresses(now, &atomic.address)?;
        let sources: Vec<Lanes> =
            atomic.sources.iter().map(|source| self.operand(now, source)).collect::<Result<_, _>>()?;
        let words = atomic.bytes.div_ceil(8) as usize;
        let operands = sources.len() / (words * atomic.count.max(1));
        let mut results = vec![[0; LANES]; atomic.dests.len()];
        for lane in lanes(now.mask) {
            for element in 0..atomic.count {
                let at = addresses[lane].wrapping_add(element as u64 * u64::from(atomic.bytes));
                let joined = |index: usize| {
                    let parts = sources[index * words..].iter().take(words).rev();
                    parts.fold(0u128, |out, part| out << 64 | u128::from(part[lane]))
                };
                // The operands of a vector are side by side, those of cas one after the other.
                let arguments: Vec<u128> =
                    (0..operands).map(|k| joined(k * atomic.count + element)).collect();
                let resolved = match atomic.address.space {
                    Space::Generic => Space::of_generic(at),
                    Space::Multicast => Space::Global,
                    space => space,
                };
                let place = (atomic.address.space, at);
                let data = self.bytes(now, lane, place, atomic.bytes).map_err(|kind| (kind, lane))?;
                let old = data
                    .chunks(8)
                    .rev()
                    .fold(0u128, |out, chunk| out << 64 | u128::from(memory::load(chunk)));
                let new = (atomic.function)(resolved, old, &arguments);
                let view = (atomic.view)(old, &arguments);
                self.order_atomic(now, lane, place, atomic, [old, new, view]).map_err(|kind| (kind, lane))?;
                let in_vain = atomic.asks && view == 0;
                let vain = &mut *now.memory.vain;
                *vain = if new != old { 0 } else { *vain + u64::from(in_vain) };
                if *vain > VAIN_LIMIT {
                    return Err((never(at, old as u64), lane));
                }
                self.asked_in_vain |= in_vain;
                let data = self.bytes(now, lane, place, atomic.bytes).map_err(|kind| (kind, lane))?;
                for (i, chunk) in data.chunks_mut(8).enumerate() {
                    memory::store(chunk, (new >> (64 * i)) as u64);
                }
                for (i, result) in results.iter_mut().skip(element * words).take(words).enumerate() {
                    result[lane] = (view >> (64 * i)) as u64;
                }
            }
        }
        for (dest, result) in atomic.dests.iter().zip(&results) {
            self.write(now.frame, now.mask, dest, result);
        }
        Ok(())
    }

    /// What an atomic operation, or one of a barrier in memory, says about order.
    fn order_atomic(
        &self,
        now: &mut Now,
        lane: usize,
        (named, address): (Space, u64),
        atomic: &Atomic,
        [old, new, view]: [u128; 3],
    ) -> Result<(), FaultKind> {
        let Some(told) = atomic.meeting else {
            let touch = Touch { strong: true, ..Touch::WRITE };
            return self.touch(now, lane, (named, address), atomic.bytes, touch);
        };
        if atomic.asks {
            return self.ask(now, lane, (named, address), view != 0);
        }
        let phases = [old, new].map(|bits| Mbarrier::read(bits as u64));
        self.tell(now, lane, (named, address), told, phases)
    }

    /// A barrier in memory has said whether its phase is over.
    fn ask(
        &self,
        now: &mut Now,
        lane: usize,
        (named, address): (Space, u64),
        over: bool,
    ) -> Result<(), FaultKind> {
        let Some(races) = &mut now.memory.races else { return Ok(()) };
        let (Space::Shared | Space::Cluster, offset) = named.locate(address) else { return Ok(()) };
        let (rank, offset) = place_in_cluster(now.context, named, offset);
        let thread = races.thread(now.context.rank, self.index, lane);
        if over {
            races.leave(Meeting::Place(rank, offset), std::iter::once(thread));
        }
        Ok(())
    }

    /// A barrier in memory was told something, before and after which it was like this.
    pub(super) fn tell(
        &self,
        now: &mut Now,
        lane: usize,
        (named, address): (Space, u64),
        told: Told,
        [before, after]: [Mbarrier; 2],
    ) -> Result<(), FaultKind> {
        let Some(races) = &mut now.memory.races else { return Ok(()) };
        let (Space::Shared | Space::Cluster, offset) = named.locate(address) else { return Ok(()) };
        let (rank, offset) = place_in_cluster(now.context, named, offset);
        let meeting = Meeting::Place(rank, offset);
        let thread = races.thread(now.context.rank, self.index, lane);
        match told {
            Told::Thread => races.arrive(meeting, std::iter::once(thread)),
            Told::Started(kind) => races.arrive_with(meeting, thread, kind),
        }
        if after.is_past(before.bits()) {
            races.complete(meeting);
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, now: &mut Now, copy: &Copy) -> Result<(), Stop> {
        let (targets, origins) = (self.addresses(now, &copy.to)?, self.addresses(now, &copy.from)?);
        let bytes = copy.bytes;
        let limits = match &copy.limit {
            Limit::None => [bytes.into(); LANES],
            Limit::Bytes(source) => self.operand(now, source)?,
            Limit::NoneIf(source) => {
                self.operand(now, source)?.map(|p| if p != 0 { 0 } else { bytes.into() })
            }
        };
        *now.memory.vain = 0;
        for lane in lanes(now.mask) {
            let mut data = vec![0; bytes as usize];
            let taken = limits[lane].min(bytes.into()) as usize;
            if taken > 0 {
                let whole = self.bytes(now, lane, (copy.from.space, origins[lane]), bytes);
                data[..taken].copy_from_slice(&whole.map_err(|kind| (kind, lane))?[..taken]);
            }
            let touch = Touch::WRITE.by_agent(Kind::Copies);
            let place = (copy.to.space, targets[lane]);
            self.touch(now, lane, place, bytes, touch).map_err(|kind| (kind, lane))?;
            let target = self.bytes(now, lane, place, bytes);
            target.map_err(|kind| (kind, lane))?.copy_from_slice(&data);
        }
        Ok(())
    }

    pub(super) fn alloca(
        &mut self,
        context: &Context,
        frame: u32,
        mask: u32,
        dest: Dest,
        size: &Source,
        align: u64,
    ) -> Result<(), Stop> {
        let sizes = self.read(context, frame, mask, size)?;
        let mut addresses = [0; LANES];
        for lane in lanes(mask) {
            let align = u32::try_from(align).unwrap_or(16).max(1);
            let start = self.local_top[lane].checked_next_multiple_of(align);
            let top = start.and_then(|start| grow(start, sizes[lane]));
            let (Some(start), Some(top)) = (start, top) else {
                return Err((FaultKind::StackOverflow, lane));
            };
            addresses[lane] = start.into();
            self.local_top[lane] = top;
        }
        self.write(frame, mask, &dest, &addresses);
        Ok(())
    }
}

/// Local memory in use after taking so many bytes more, if there is as much.
pub(super) fn grow(top: u32, bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok().and_then(|bytes| top.checked_add(bytes)).filter(|top| *top <= LOCAL_LIMIT)
}

/// The block of the cluster whose shared memory an address names, and where it is there.
fn place_in_cluster(context: &Context, named: Space, address: u64) -> (usize, u64) {
    match rank_and_offset(address) {
        // The block's own, whatever its rank.
        (0, offset) if named == Space::Shared => (context.rank as usize, offset),
        place => place,
    }
}

/// No thread is left that could complete a barrier in memory.
fn never(address: u64, bits: u64) -> FaultKind {
    let (arrivals, bytes) = Mbarrier::read(bits).missing();
    let what = format!(
        "the barrier at {address:#x} can't complete: {arrivals} arrivals and {bytes} bytes are missing"
    );
    FaultKind::Deadlock { what }
}

pub(super) fn constant_bytes<'m>(
    context: &'m Context,
    offset: u64,
    length: u32,
) -> Result<&'m [u8], FaultKind> {
    aligned(Space::Const, offset, length)?;
    let constants = &context.program.constants;
    let start = usize::try_from(offset).ok();
    let found = start.and_then(|start| constants.get(start..start.checked_add(length as usize)?));
    found.ok_or(FaultKind::OutOfBounds { space: Space::Const.name(), address: offset, bytes: length })
}
