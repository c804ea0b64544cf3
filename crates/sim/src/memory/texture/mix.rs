//! Linear filters: texels around a place, each by its weight.
//!
//! Weights are parts of 256 and are split where a place lies between two: first between levels, then between planes of
//! depth, columns and rows, each time so that the parts add up. What an H200 gave is found bit by bit in 66 recordings of
//! 1024 places (`tests/data/filters.txt`, which names two where it is not, and what is refused):
//!
//! * Floats of a plane are cut to the place of the largest one's last bit, and four bits more. The sum is rounded to a
//!   float of the image, halves away from zero.
//! * Fractions are integers of 16 bits; their sum is rounded to one, halves up. How those of s8 and the border become
//!   integers is not known.

use super::{At, Beyond, Channel, Image, Place, undefined};
use crate::fault::FaultKind;
use crate::memory::Global;

/// The weights of a linear filter are so many parts of one.
pub(super) const WEIGHTS: i64 = 256;

/// Bits of floats after the largest one's last that are kept.
const GUARD_BITS: i32 = 4;

/// How channels are added up.
#[derive(Clone, Copy)]
enum Arithmetic {
    /// Floats with so many bits after the point.
    Floats { mantissa: i32 },
    /// Integers, of which so many stand for one; those of the image are so many times smaller.
    Fractions { one: f64, scale: f64 },
}

/// The two texels around a coordinate, `None` where the border is, and the weight of the second.
struct Around {
    texels: [Option<u32>; 2],
    weight: i64,
}

impl Around {
    const NOTHING: Around = Around { texels: [Some(0); 2], weight: 0 };
}

/// A part of a weight, halves up, and what is left of it.
fn split(whole: i64, weight: i64) -> [i64; 2] {
    let part = (whole * weight + WEIGHTS / 2) / WEIGHTS;
    [whole - part, part]
}

/// The weights of the corners (0, 0), (1, 0), (0, 1) and (1, 1), which add up to a whole.
fn plane_weights(whole: i64, x: i64, y: i64) -> [i64; 4] {
    let [left, right] = split(whole, x);
    // On the left halves go down.
    let [upper_left, lower_left] = split(left, WEIGHTS - y);
    let [lower_right, upper_right] = split(right, y);
    [lower_left, lower_right, upper_left, upper_right]
}

impl Arithmetic {
    fn of(image: &Image) -> Result<Arithmetic, FaultKind> {
        let fractions = !image.sampler.as_integers;
        match image.channel {
            Channel::F32 => Ok(Arithmetic::Floats { mantissa: 23 }),
            Channel::F16 => Ok(Arithmetic::Floats { mantissa: 10 }),
            Channel::U8 if fractions => Ok(Arithmetic::Fractions { one: 65535.0, scale: 257.0 }),
            Channel::U16 if fractions => Ok(Arithmetic::Fractions { one: 65535.0, scale: 1.0 }),
            Channel::S16 if fractions => Ok(Arithmetic::Fractions { one: 32767.0, scale: 1.0 }),
            Channel::S8 if fractions => Err(undefined("a linear filter of fractions of s8")),
            _ => Err(undefined("a linear filter of integers")),
        }
    }

    /// A channel as it is added up.
    fn number(self, image: &Image, bits: Option<u32>, border: f32) -> Result<f64, FaultKind> {
        match (self, bits) {
            (Arithmetic::Floats { .. }, bits) => {
                let value = bits.map_or(border, |bits| f32::from_bits(image.value(bits)));
                let finite = value.is_finite().then_some(f64::from(value));
                finite.ok_or_else(|| undefined("a linear filter of infinities or NaNs"))
            }
            (Arithmetic::Fractions { .. }, None) if border == 0.0 => Ok(0.0),
            (Arithmetic::Fractions { .. }, None) => {
                Err(undefined("a border that is not black, of fractions"))
            }
            (Arithmetic::Fractions { scale, .. }, Some(bits)) => Ok(match image.channel {
                // As all of its kind, the least one is -1, too.
                Channel::S16 => f64::from((bits as i16).max(-i16::MAX)),
                _ => f64::from(bits) * scale,
            }),
        }
    }

    /// The sum of a plane's texels, in 256ths.
    fn sum(self, texels: &[(i64, f64)]) -> f64 {
        match self {
            Arithmetic::Fractions { .. } => texels.iter().map(|(weight, value)| *weight as f64 * value).sum(),
            Arithmetic::Floats { mantissa } => {
                let largest = texels.iter().map(|(_, value)| exponent(*value)).max().unwrap_or(0);
                let unit = power_of_two(largest - mantissa - GUARD_BITS);
                let kept = |(weight, value): &(i64, f64)| *weight as f64 * (value / unit).trunc();
                texels.iter().map(kept).sum::<f64>() * unit
            }
        }
    }

    /// What the instruction gives of the sum of all planes.
    fn result(self, sum: f64) -> f32 {
        let whole = WEIGHTS as f64;
        match self {
            Arithmetic::Fractions { one, .. } => ((sum / whole + 0.5).floor() / one) as f32,
            Arithmetic::Floats { mantissa } => {
                let spare = f64::MANTISSA_DIGITS as i32 - 1 - mantissa;
                let (half, below) = (1u64 << (spare - 1), (1u64 << spare) - 1);
                f64::from_bits(((sum / whole).to_bits() + half) & !below) as f32
            }
        }
    }
}

/// Of the first digit of a number.
fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).max(1) as u64) << 52)
}

impl Image {
    /// What a linear filter gives of the texels around a place, in one level or in two.
    pub(super) fn mixed(&self, global: &mut Global, at: At) -> Result<[u32; 4], FaultKind> {
        let arithmetic = Arithmetic::of(self)?;
        let mut sums = [0.0; 4];
        for (number, weight) in self.levels_with_weights(at.level)? {
            let level = self.level(number);
            let place = level.place(at)?;
            if level.sampler.linear {
                level.add_around(global, arithmetic, place, weight, &mut sums)?;
            } else {
                level.add(global, arithmetic, &[(weight, level.nearest(place))], &mut sums)?;
            }
        }
        let mut channels = [0; 4];
        for (channel, sum) in channels.iter_mut().zip(sums).take(self.channels as usize) {
            *channel = arithmetic.result(sum).to_bits();
        }
        Ok(channels)
    }

    /// Adds the texels around a place, plane by plane.
    fn add_around(
        &self,
        global: &mut Global,
        arithmetic: Arithmetic,
        place: Place,
        weight: i64,
        sums: &mut [f64; 4],
    ) -> Result<(), FaultKind> {
        let [x, y, z] = std::array::from_fn(|axis| match axis < place.axes {
            true => self.around(self.sizes[axis], place.at[axis]),
            false => Around::NOTHING,
        });
        for (plane, weight) in z.texels.into_iter().zip(split(weight, z.weight)) {
            let plane = if place.axes == 3 { plane } else { Some(place.plane) };
            let corner = |(corner, weight): (usize, i64)| {
                let column_and_row = x.texels[corner & 1].zip(y.texels[corner >> 1]);
                (weight, column_and_row.zip(plane).map(|((column, row), plane)| [column, row, plane]))
            };
            let weights = plane_weights(weight, x.weight, y.weight);
            let texels: Vec<_> = weights.into_iter().enumerate().map(corner).collect();
            self.add(global, arithmetic, &texels, sums)?;
        }
        Ok(())
    }

    /// Adds texels of a plane by their weights, `None` for the border.
    fn add(
        &self,
        global: &mut Global,
        arithmetic: Arithmetic,
        texels: &[(i64, Option<[u32; 3]>)],
        sums: &mut [f64; 4],
    ) -> Result<(), FaultKind> {
        let weighted = texels.iter().filter(|(weight, _)| *weight > 0);
        let read = weighted
            .map(|(weight, place)| Ok((*weight, place.map(|place| self.bits(global, place)).transpose()?)));
        let texels: Vec<(i64, Option<[u32; 4]>)> = read.collect::<Result<_, FaultKind>>()?;
        for (channel, sum) in sums.iter_mut().enumerate().take(self.channels as usize) {
            let border = self.sampler.border[channel];
            let number =
                |bits: Option<[u32; 4]>| arithmetic.number(self, bits.map(|bits| bits[channel]), border);
            let numbers = texels.iter().map(|(weight, bits)| Ok((*weight, number(*bits)?)));
            *sum += arithmetic.sum(&numbers.collect::<Result<Vec<_>, FaultKind>>()?);
        }
        Ok(())
    }

    /// What is around a coordinate. Where the nearest texel stands for those beyond the edge, so does the nearest place.
    fn around(&self, size: u32, at: f64) -> Around {
        let steps = self.steps_to(size, at);
        let steps = match self.beyond() {
            Beyond::Clamp => steps.clamp(0, WEIGHTS * (i64::from(size) - 1)),
            _ => steps,
        };
        Around { texels: self.texels_beside(size, steps), weight: steps.rem_euclid(WEIGHTS) }
    }

    /// The two texels around a coordinate, `None` where the border is.
    pub(super) fn beside(&self, size: u32, at: f64) -> [Option<u32>; 2] {
        self.texels_beside(size, self.steps_to(size, at))
    }

    /// From the middle of the first texel, which is at a half.
    fn steps_to(&self, size: u32, at: f64) -> i64 {
        ((self.in_texels(size, at) - 0.5) * WEIGHTS as f64 + 0.5).floor() as i64
    }

    fn texels_beside(&self, size: u32, steps: i64) -> [Option<u32>; 2] {
        let number = steps.div_euclid(WEIGHTS);
        [self.inside(size, number), self.inside(size, number.saturating_add(1))]
    }
}
