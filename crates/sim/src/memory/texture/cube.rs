//! Cubes: a direction from a cube's middle points to a place on one of its six faces.
//!
//! Which face, and where on it, is as the CUDA guide's table of cubemap fetches has it. The table says nothing about
//! directions to the edges between faces, nor how the machine divides; where that decides, the read is refused.

use super::{Image, Place, undefined};
use crate::fault::FaultKind;
use ori::arith::approx::{Function, compute};
use ori::arith::float::{F32, Flow};

const FACES: u32 = 6;

/// What the machine's instruction gets of a direction: ptxas 13.0.88 divides by the largest coordinate, by its reciprocal
/// from the function unit, and so do we.
pub fn divided(direction: [u32; 3]) -> [u32; 3] {
    let coordinates = direction.map(f32::from_bits);
    let [x, y, z] = coordinates.map(f32::abs);
    let largest = z.max(x.max(y));
    let unit = Flow { ftz: true, ..Flow::NEAREST };
    let reciprocal = f32::from_bits(compute(Function::Rcp, F32, unit, largest.to_bits().into()) as u32);
    coordinates.map(|coordinate| (coordinate * reciprocal).to_bits())
}

/// The face that a direction points to, the length of the direction across it, and the two coordinates along it.
fn face([x, y, z]: [f64; 3]) -> Option<(u32, f64, [f64; 2])> {
    let [across_x, across_y, across_z] = [x.abs(), y.abs(), z.abs()];
    let second = |positive: bool| u32::from(!positive);
    if across_x > across_y && across_x > across_z {
        Some((second(x > 0.0), across_x, [if x > 0.0 { -z } else { z }, -y]))
    } else if across_y > across_x && across_y > across_z {
        Some((2 + second(y > 0.0), across_y, [x, if y > 0.0 { z } else { -z }]))
    } else if across_z > across_x && across_z > across_y {
        Some((4 + second(z > 0.0), across_z, [if z > 0.0 { x } else { -x }, -y]))
    } else {
        None
    }
}

impl Image {
    /// The place on the faces of a cube of the array that a divided direction points to.
    pub(super) fn on_face(&self, direction: [f32; 3], cube: u32) -> Result<Place, FaultKind> {
        let Some((face, across, along)) = face(direction.map(f64::from)) else {
            return Err(undefined("a direction to an edge of a cube"));
        };
        let [s, t] = along.map(|along| {
            // Divided by its length again, or taken for one that has the length 1: a reciprocal is not exact.
            let [again, once] = [along / across, along].map(|along| (along + 1.0) / 2.0);
            if self.steps(again) == self.steps(once) { Ok(again) } else { Err(()) }
        });
        let (Ok(s), Ok(t)) = (s, t) else {
            return Err(undefined(
                "a direction so close to the edge of a cube's texel that its rounding decides",
            ));
        };
        let cube = cube.min((self.sizes[2] / FACES).max(1) - 1);
        Ok(Place { at: [s, t, 0.0], axes: 2, plane: cube * FACES + face })
    }

    /// What decides about texels and weights: the number of the texel, and of the step of a filter.
    fn steps(&self, at: f64) -> [f64; 2] {
        let texels = at * f64::from(self.sizes[0]);
        [texels.floor(), (texels * 256.0 + 0.5).floor()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middles of the faces, and a quarter of the way to their right and lower edges.
    #[test]
    fn faces_are_the_guides() {
        let directions = [
            ([1.0, -0.25, -0.5], 0),
            ([-1.0, -0.25, 0.5], 1),
            ([0.5, 1.0, 0.25], 2),
            ([0.5, -1.0, -0.25], 3),
            ([0.5, -0.25, 1.0], 4),
            ([-0.5, -0.25, -1.0], 5),
        ];
        for (direction, expected) in directions {
            assert_eq!(face(direction), Some((expected, 1.0, [0.5, 0.25])));
        }
        assert_eq!(face([1.0, -1.0, 0.0]), None);
        assert_eq!(face([f64::NAN, 1.0, 0.0]), None);
    }

    #[test]
    fn directions_end_on_the_cube() {
        let of = |direction: [f32; 3]| divided(direction.map(f32::to_bits)).map(f32::from_bits);
        assert_eq!(of([4.0, -2.0, 1.0]), [1.0, -0.5, 0.25]);
        assert_eq!(of([0.0, 0.125, -0.5]), [0.0, 0.25, -1.0]);
    }
}
