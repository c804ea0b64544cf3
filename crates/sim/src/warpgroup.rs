//! MMAs of a warpgroup (`wgmma`, and the machine's HGMMA, QGMMA, IGMMA and BGMMA): 64 rows, of which each of four
//! warps has 16. Columns come from shared memory by a [`Descriptor`], rows from there or from registers.
//!
//! What a warp computes doesn't depend on the other three, so that an executor may do it warp by warp, at any time
//! between the instruction and the wait for it.

use crate::descriptor::Descriptor;
use crate::lanes::Lanes;
use crate::mma::{Element, Mma, Sum, rows_of, sums_of};

/// Rows of a warp.
const ROWS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wgmma {
    pub n: usize,
    /// Elements of a column; a sparse row has half as many.
    pub k: usize,
    /// Of the rows, the columns and the sums.
    pub elements: [Element; 3],
    pub sum: Sum,
    /// Elements of rows and of columns change their sign.
    pub negated: [bool; 2],
    /// Which of the matrices in memory are transposed: `k` goes across lines of 16 bytes.
    pub transposed: [bool; 2],
    pub sparse: bool,
}

impl Wgmma {
    /// The elements of a warp's rows, from its registers.
    pub fn rows_in_registers(&self, registers: &[Lanes]) -> Vec<u64> {
        let k = if self.sparse { self.k / 2 } else { self.k };
        self.signed(0, rows_of(registers, self.elements[0], ROWS, k))
    }

    /// The elements of the rows of a warp of the group (0 to 3), from shared memory. `read` gives the bits of 2 or 4
    /// bytes at an address.
    pub fn rows_in_memory<E>(
        &self,
        warp: usize,
        descriptor: u64,
        read: impl FnMut(u32, u32) -> Result<u64, E>,
    ) -> Result<Vec<u64>, E> {
        let lines = ROWS * warp..ROWS * (warp + 1);
        let k = if self.sparse { self.k / 2 } else { self.k };
        Ok(self.signed(0, self.lines(0, lines, k, Descriptor::new(descriptor), read)?))
    }

    /// The elements of all columns, from shared memory.
    pub fn columns<E>(
        &self,
        descriptor: u64,
        read: impl FnMut(u32, u32) -> Result<u64, E>,
    ) -> Result<Vec<u64>, E> {
        Ok(self.signed(1, self.lines(1, 0..self.n, self.k, Descriptor::new(descriptor), read)?))
    }

    fn lines<E>(
        &self,
        side: usize,
        lines: std::ops::Range<usize>,
        k: usize,
        descriptor: Descriptor,
        mut read: impl FnMut(u32, u32) -> Result<u64, E>,
    ) -> Result<Vec<u64>, E> {
        let element = self.elements[side];
        let mut elements = Vec::with_capacity(lines.len() * k);
        for line in lines {
            let line = line as u32;
            if self.transposed[side] {
                for k in 0..k as u32 {
                    elements.push(read(descriptor.across_k(line, k), 2)?);
                }
                continue;
            }
            for word in 0..(k * element.bits() / 32) as u32 {
                let bits = read(descriptor.along_k(line, 4 * word), 4)?;
                elements.extend((0..element.count()).map(|index| element.get(bits, index)));
            }
        }
        Ok(elements)
    }

    fn signed(&self, side: usize, mut elements: Vec<u64>) -> Vec<u64> {
        if self.negated[side] {
            let sign = 1 << (self.elements[side].bits() - 1);
            elements.iter_mut().for_each(|element| *element ^= sign);
        }
        elements
    }

    /// The sums of a warp: `chosen` for sparse rows, `before` where something is added to.
    pub fn sums(
        &self,
        rows: Vec<u64>,
        columns: Vec<u64>,
        chosen: Option<Vec<usize>>,
        before: Option<&[Lanes]>,
    ) -> Vec<Lanes> {
        let [left, right, element] = self.elements;
        let mma = Mma::new(self.sum, [left, right], self.k, rows, columns);
        let mma = match chosen {
            Some(chosen) => mma.sparse(chosen),
            None => mma,
        };
        sums_of(&mma, element, [ROWS, self.n], before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ori::arith::float::{F16, F32};
    use ori::arith::matrix::Accuracy;
    use std::convert::Infallible;

    #[test]
    fn columns_are_found_by_their_descriptor() {
        let wgmma = Wgmma {
            n: 8,
            k: 16,
            elements: [Element::Float(F16), Element::Float(F16), Element::Float(F32)],
            sum: Sum::Float(F32, Accuracy::WIDE),
            negated: [false; 2],
            transposed: [false; 2],
            sparse: false,
        };
        // Two core matrices of 128 bytes, one for each half of k.
        let descriptor = (128 >> 4) << 16 | 0x400 >> 4;
        let address = |at: u32, bytes: u32| -> Result<u64, Infallible> {
            assert_eq!(bytes, 4);
            Ok(u64::from(at))
        };
        let Ok(columns) = wgmma.columns(descriptor, address);
        assert_eq!(columns.len(), 8 * (16));
        assert_eq!([columns[0], columns[2], columns[8], columns[16]], [0x400, 0x404, 0x480, 0x410]);
    }
}
