//! Copies of boxes of tensors, piece by piece.

use super::{LANES, Now, Source, Stop, Warp, lanes_of};
use crate::ptx::FaultKind;
use crate::ptx::decode::memory::atomic_function;
use crate::ptx::memory::Space;
use crate::sass::flight::{Combine, Flight, Origin, Piece, Place};
use crate::sass::program::{TensorCopy, TensorWay};
use crate::tensor_map::{AXES, BYTES, TensorMap};
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
        let pieces = pieces(&map, corner, shared, load);
        let combine = match copy.way {
            TensorWay::Combine(operation) => Some(combine(&map, operation).ok_or_else(|| {
                undefined(format!("{operation} of a tensor of {}", map.element.type_name()))
            })?),
            _ => None,
        };
        let (mut tells, mut all) = (Vec::new(), pieces);
        if load {
            let barrier = Place::shared(fetch(self, now, copy.place.saturating_add(1), 1)?);
            tells.push((barrier, map.bytes().into()));
            if let Some(number) = copy.multicast {
                let ranks: Vec<usize> = lanes_of(fetch(self, now, number, 1)? as u32 >> 16).collect();
                let everywhere = |piece: &Piece| {
                    let piece = *piece;
                    ranks.iter().map(move |rank| Piece { to: piece.to.in_block(*rank), ..piece })
                };
                all = all.iter().flat_map(everywhere).collect();
                tells = ranks.iter().map(|rank| (barrier.in_block(*rank), map.bytes().into())).collect();
            }
        }
        let flight = Flight { pieces: all, combine: combine.map(Arc::new), tells };
        self.send(now, flight).map_err(|kind| (kind, first))
    }

    fn tensor_map(&mut self, now: &mut Now, lane: usize, address: u64) -> Result<TensorMap, Stop> {
        const PART: usize = 64;
        let mut bytes = [0; BYTES];
        for (part, place) in bytes.chunks_exact_mut(PART).enumerate() {
            let address = address.wrapping_add((part * PART) as u64);
            let found = self.bytes_to_read(now, lane, (Space::Generic, address), PART as u8);
            place.copy_from_slice(found.map_err(|kind| (kind, lane))?);
        }
        TensorMap::read(&bytes).map_err(|what| (FaultKind::Unsupported { what }, lane))
    }
}

/// The elements of a box between memory and where they lie in shared memory. What lies outside of the tensor is filled
/// in there, and written nowhere.
fn pieces(map: &TensorMap, corner: [i32; AXES], shared: Place, load: bool) -> Vec<Piece> {
    let Place::Shared { rank, offset: start } = shared else { return Vec::new() };
    let bytes = map.element.bytes() as usize;
    let piece = |cell: crate::tensor_map::Cell| {
        let offset = map.swizzle.apply(start as u32 + cell.shared).into();
        let here = Place::Shared { rank, offset };
        let there = cell.global.map(Place::Global);
        match (load, there) {
            (true, Some(there)) => Some(Piece { from: Origin::Place(there), to: here, bytes }),
            (true, None) => Some(Piece { from: outside(map), to: here, bytes }),
            (false, Some(there)) => Some(Piece { from: Origin::Place(here), to: there, bytes }),
            (false, None) => None,
        }
    };
    map.tile(corner).filter_map(piece).collect()
}

/// What a copy finds outside of a tensor.
fn outside(map: &TensorMap) -> Origin {
    if !map.fills_nan {
        return Origin::Zeros;
    }
    // All ones but for the sign: a NaN of every format.
    let mut data = [0xff; 16];
    data[map.element.bytes() as usize - 1] = 0x7f;
    Origin::Data(data)
}

fn combine(map: &TensorMap, operation: &str) -> Option<Combine> {
    let ty = ptx::Type::find(map.element.type_name())?;
    Some((ty.bytes() as u8, atomic_function(operation, ty)?))
}
