//! Copies of boxes of tensors, piece by piece.

use super::{LANES, Now, Source, Stop, Warp, lanes_of};
use crate::memory::Space;
use crate::ptx::FaultKind;
use crate::ptx::decode::memory::atomic_function;
use crate::sass::flight::{Combine, Flight, Origin, Piece, Place};
use crate::sass::program::{TensorCopy, TensorWay};
use crate::tensor_map::{AXES, BYTES, Cell, TensorMap, readable, writable};
use std::sync::Arc;

impl Warp {
    pub(super) fn tensor_copy(&mut self, now: &mut Now, copy: &TensorCopy) -> Result<(), Stop> {
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        let undefined = |what: String| (FaultKind::Undefined { what }, first);
        let fetch = |warp: &Warp, now: &Now, number: u8, words: u8| {
            warp.registers.fetch_uniform(now.context, Source::Uniform { first: number, words })
        };
        let address = fetch(self, now, copy.map, 2)?;
        let map = self.tensor_map(now, first, address)?;
        if map.rank != usize::from(copy.axes) {
            let what = format!("a copy of {} axes of a tensor that has {}", copy.axes, map.rank);
            return Err(undefined(what));
        }
        let shared = Place::shared(fetch(self, now, copy.place, 1)?);
        shared.aligned(BYTES as u32).map_err(|kind| (kind, first))?;
        let load = copy.way == TensorWay::Load;
        let corner_at = copy.place.saturating_add(1 + u8::from(load));
        let mut corner = [0; AXES];
        for (axis, at) in (0..copy.axes).zip(&mut corner) {
            *at = fetch(self, now, corner_at.saturating_add(axis), 1)? as i32;
        }
        if !load {
            writable(&corner[..map.rank]).map_err(|what| undefined(format!("a copy of {what}")))?;
        }
        let offsets = match copy.offsets {
            Some(number) => unpack(fetch(self, now, number, 1)? as u16, copy.axes),
            None => Vec::new(),
        };
        let cells = map.cells(corner, &offsets).map_err(|what| undefined(format!("a copy of {what}")))?;
        let pieces: Vec<Piece> =
            cells.into_iter().filter_map(|cell| piece(&map, cell, shared, load)).collect();
        let combine = match copy.way {
            TensorWay::Combine(operation) => Some(combine(&map, operation).ok_or_else(|| {
                undefined(format!("{operation} of a tensor of {}", map.element.type_name()))
            })?),
            _ => None,
        };
        let (mut tells, mut all) = (Vec::new(), pieces);
        if load {
            let barrier = Place::shared(fetch(self, now, copy.place.saturating_add(1), 1)?);
            tells.push((barrier, map.bytes()));
            if let Some(number) = copy.multicast {
                let ranks: Vec<usize> = lanes_of(fetch(self, now, number, 1)? as u32 >> 16).collect();
                let everywhere = |piece: &Piece| {
                    let piece = *piece;
                    ranks.iter().map(move |rank| Piece { to: piece.to.in_block(*rank), ..piece })
                };
                all = all.iter().flat_map(everywhere).collect();
                tells = ranks.iter().map(|rank| (barrier.in_block(*rank), map.bytes())).collect();
            }
        }
        let flight = Flight { pieces: all, combine: combine.map(Arc::new), tells, is_by_warp: false };
        self.send(now, flight).map_err(|kind| (kind, first))
    }

    fn tensor_map(&mut self, now: &mut Now, lane: usize, address: u64) -> Result<TensorMap, Stop> {
        const PART: usize = 64;
        readable(Space::of_generic(address)).map_err(|what| (FaultKind::Undefined { what }, lane))?;
        let mut bytes = [0; BYTES];
        for (part, place) in bytes.chunks_exact_mut(PART).enumerate() {
            let address = address.wrapping_add((part * PART) as u64);
            let found = self.bytes_to_read(now, lane, (Space::Generic, address), PART as u8);
            place.copy_from_slice(found.map_err(|kind| (kind, lane))?);
        }
        TensorMap::read(&bytes).map_err(|what| (FaultKind::Unsupported { what }, lane))
    }
}

/// The offsets along the axes between the first and the last share 16 bits.
fn unpack(packed: u16, axes: u8) -> Vec<u16> {
    let count = u32::from(axes).saturating_sub(2);
    let bits = 16 / count.max(1);
    (0..count).map(|axis| (u32::from(packed) >> (axis * bits) & ((1 << bits) - 1)) as u16).collect()
}

/// An element of a box between memory and where it is in shared memory. What is outside of the tensor is filled in
/// there, and written nowhere.
fn piece(map: &TensorMap, cell: Cell, shared: Place, load: bool) -> Option<Piece> {
    let Place::Shared { rank, offset: start } = shared else { return None };
    let bytes = map.element.bytes() as usize;
    let here = Place::Shared { rank, offset: map.swizzled(start, cell.shared) };
    Some(match (load, cell.global) {
        (true, Some(there)) => Piece { from: Origin::Place(Place::Global(there)), to: here, bytes },
        (true, None) => Piece { from: filling(map), to: here, bytes },
        (false, Some(there)) => Piece { from: Origin::Place(here), to: Place::Global(there), bytes },
        (false, None) => return None,
    })
}

/// What a copy finds outside of a tensor.
fn filling(map: &TensorMap) -> Origin {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&map.filling().to_le_bytes());
    Origin::Data(data)
}

fn combine(map: &TensorMap, operation: &str) -> Option<Combine> {
    let ty = ptx::Type::find(map.element.type_name())?;
    Some((ty.bytes() as u8, atomic_function(operation, ty)?))
}
