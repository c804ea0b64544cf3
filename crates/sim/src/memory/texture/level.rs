//! Levels of mipmaps: which one a read takes, or which two it mixes.
//!
//! A level is a number in steps of 1/256, rounded down and kept between the first and the last one. The nearest level is
//! that number rounded, halves up; the step is the second level's weight where two are mixed. An H200 did so at all of
//! 8192 levels from -1 to 6.
//!
//! Derivatives give the binary logarithm of how many texels a step is long, along the longer of the two; for derivatives
//! along one axis each an H200 was seen to be at most [`UNSURE`] steps off, at 2048 places. How it adds up those along
//! several axes is not known, nor the very step: reads that depend on it are refused.

use super::mix::WEIGHTS;
use super::{Image, undefined};
use crate::fault::FaultKind;

/// What an instruction says about the level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Level {
    #[default]
    /// The largest.
    First,
    /// Of a fetch by number.
    Number(u32),
    /// Of a sample.
    At(f32),
    /// From one place to the next along two directions, by axis.
    Derivatives([[f32; 3]; 2]),
    /// From the places of neighbouring threads.
    Neighbours,
}

const UNSURE: f64 = 2.0;

impl Image {
    pub(super) fn level_number(&self, level: Level) -> Result<u32, FaultKind> {
        match level {
            Level::Number(number) if number < self.levels => Ok(number),
            Level::First => Ok(0),
            _ => Err(undefined("a level that the image hasn't got")),
        }
    }

    pub(super) fn nearest_level(&self, level: Level) -> Result<u32, FaultKind> {
        let [least, most] = self.steps_between(level)?.map(|steps| (steps + WEIGHTS / 2) / WEIGHTS);
        if least == most {
            Ok(least as u32)
        } else {
            Err(undefined("derivatives that are so close to the middle of two levels"))
        }
    }

    /// The levels that a sample mixes, and their weights, which add up to 256.
    pub(super) fn levels_with_weights(&self, level: Level) -> Result<Vec<(u32, i64)>, FaultKind> {
        if !self.sampler.linear_levels {
            return Ok(vec![(self.nearest_level(level)?, WEIGHTS)]);
        }
        let [steps, most] = self.steps_between(level)?;
        if steps != most {
            return Err(undefined("levels that are mixed by derivatives"));
        }
        let (first, weight) = ((steps / WEIGHTS) as u32, steps % WEIGHTS);
        let pair = [(first, WEIGHTS - weight), (first + 1, weight)];
        Ok(pair.into_iter().filter(|(_, weight)| *weight > 0).collect())
    }

    /// The least and the most steps from the first level on.
    fn steps_between(&self, level: Level) -> Result<[i64; 2], FaultKind> {
        let last = i64::from(self.levels - 1) * WEIGHTS;
        let kept = |steps: f64| (steps.floor() as i64).clamp(0, last);
        match level {
            _ if self.levels == 1 => Ok([0; 2]),
            Level::First | Level::Number(_) => Ok([0; 2]),
            Level::At(level) if level.is_nan() => Err(undefined("a level that is no number")),
            Level::At(level) => Ok([kept(f64::from(level) * WEIGHTS as f64); 2]),
            Level::Neighbours => Err(undefined("the levels of a mipmap, by the places of other threads")),
            Level::Derivatives(derivatives) => {
                let [across, down] = derivatives.map(|derivative| self.length_along_axis(derivative));
                let (Some(across), Some(down)) = (across, down) else {
                    return Err(undefined("the length of derivatives along several axes"));
                };
                let steps = across.max(down).log2() * WEIGHTS as f64;
                Ok([steps - UNSURE, steps + UNSURE].map(kept))
            }
        }
    }

    /// The length in texels of a derivative along one axis.
    fn length_along_axis(&self, derivative: [f32; 3]) -> Option<f64> {
        let texels = |axis: usize| f64::from(derivative[axis]).abs() * f64::from(self.sizes[axis]);
        let lengths: Vec<f64> = (0..3).map(texels).filter(|length| *length != 0.0).collect();
        match lengths[..] {
            [] => Some(0.0),
            [length] if !length.is_nan() => Some(length),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Description, Image};
    use super::*;

    fn image(linear_levels: bool) -> Image {
        let description = Description {
            channel: "f32",
            channels: 1,
            sizes: &[16, 8],
            layered: false,
            cube: false,
            levels: 5,
            beyond: "clamp",
            normalised: true,
            linear: false,
            linear_levels,
            as_integers: false,
        };
        Image::new(0, &description).expect("an image")
    }

    /// Between which of 1024 levels from -1 on, 7/1024 apart, an H200 changes to the next one.
    #[test]
    fn nearest_levels_are_an_h200s() {
        let changes = [(219, 0), (220, 1), (365, 1), (366, 2), (511, 2), (512, 3), (658, 3), (659, 4)];
        for (number, expected) in changes {
            let level = number as f32 * 7.0 / 1024.0 - 1.0;
            assert_eq!(image(false).nearest_level(Level::At(level)), Ok(expected));
        }
        assert_eq!([-1.0, 5.98].map(|level| image(false).nearest_level(Level::At(level))), [Ok(0), Ok(4)]);
    }

    #[test]
    fn weights_are_rounded_down() {
        assert_eq!(image(true).levels_with_weights(Level::At(1.4648)), Ok(vec![(1, 138), (2, 118)]));
        assert_eq!(image(true).levels_with_weights(Level::At(9.0)), Ok(vec![(4, 256)]));
    }

    /// Half the image is 8 texels along x, and 4 along y.
    #[test]
    fn derivatives_are_measured_in_texels() {
        let along = |x: f32, y: f32| Level::Derivatives([[x, 0.0, 0.0], [0.0, y, 0.0]]);
        assert_eq!(image(false).nearest_level(along(0.5, 0.5)), Ok(3));
        assert_eq!(image(false).nearest_level(along(0.125, 0.5)), Ok(2));
        assert_eq!(image(false).nearest_level(along(0.0, 0.0)), Ok(0));
        assert!(image(false).nearest_level(along(2f32.sqrt() / 16.0, 0.0)).is_err());
        assert!(image(true).levels_with_weights(along(0.5, 0.5)).is_err());
        let slanted = Level::Derivatives([[0.5, 0.5, 0.0], [0.0; 3]]);
        assert!(image(false).nearest_level(slanted).is_err());
    }
}
