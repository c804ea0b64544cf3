//! Matrix multiply-accumulate: which lane and register has which element, and what is done with them. The interpreter and the
//! simulator share them; so do those of a warp (`mma`) and of a warpgroup (`wgmma`), of which each warp has a part.
//!
//! All fragments follow one rule. Lane `l` is in row (or column) `l / 4` of a group of eight; along the other axis
//! each register has the elements that fit into it, at `l % 4`. Further registers of a left operand are first eight
//! rows down, then on to the right; those of a right operand go on along `k`. A sum has pairs of columns, first eight
//! rows down, then on to the right.

use crate::lanes::{LANES, Lanes, WholeFunction};
use ori::arith::Int;
use ori::arith::convert::float_to_float;
use ori::arith::float::{F16, F32, Flow, Format};
use ori::arith::matrix::{self, Accuracy, Factor};
use std::array;

/// The elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    Float(Format),
    /// f32 without its low bits.
    Tf32,
    F64,
    Int(Int),
    Bit,
}

impl Element {
    pub fn bits(self) -> usize {
        match self {
            Element::Float(format) => format.width() as usize,
            Element::Tf32 => 32,
            Element::F64 => 64,
            Element::Int(int) => int.bits as usize,
            Element::Bit => 1,
        }
    }

    /// How many a register has.
    pub fn count(self) -> usize {
        (32 / self.bits()).max(1)
    }

    /// One of the elements that lie side by side in some bits.
    pub fn get(self, bits: u64, index: usize) -> u64 {
        bits >> (index * self.bits()) & u64::MAX >> (64 - self.bits())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// What an MMA does with a row and a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sum {
    /// The format of the sum, and how it is formed.
    Float(Format, Accuracy),
    /// The same for factors of 8 bits in a warp.
    InHalves(Format),
    F64(Flow),
    /// Stops at the ends of 32 bits, or wraps around.
    Int {
        saturate: bool,
    },
    /// Bits that differ, or that both have.
    Xor,
    And,
}

/// Rows and columns, taken apart.
pub struct Mma {
    /// Elements of a row, which may be fewer than those of a column.
    row: usize,
    column: usize,
    /// Where in a column each element of a row belongs; in order where nothing is said.
    chosen: Option<Vec<usize>>,
    kind: Kind,
}

enum Kind {
    Floats { a: Vec<Factor>, b: Vec<Factor>, to: Format, accuracy: Accuracy },
    FloatsInHalves { a: Vec<Factor>, b: Vec<Factor>, to: Format },
    Doubles { a: Vec<u64>, b: Vec<u64>, flow: Flow },
    Integers { a: Vec<i64>, b: Vec<i64>, saturate: bool },
    Bits { a: Vec<u64>, b: Vec<u64>, operation: fn(u64, u64) -> u64 },
}

impl Mma {
    /// `a` has rows and `b` has columns, each of `k` elements side by side.
    pub fn new(sum: Sum, [left, right]: [Element; 2], k: usize, a: Vec<u64>, b: Vec<u64>) -> Mma {
        let kind = match sum {
            Sum::Float(to, accuracy) => {
                Kind::Floats { a: factors(left, &a), b: factors(right, &b), to, accuracy }
            }
            Sum::InHalves(to) => Kind::FloatsInHalves { a: factors(left, &a), b: factors(right, &b), to },
            Sum::F64(flow) => Kind::Doubles { a, b, flow },
            Sum::Int { saturate } => {
                Kind::Integers { a: integers(left, &a), b: integers(right, &b), saturate }
            }
            Sum::Xor => Kind::Bits { a, b, operation: |a, b| a ^ b },
            Sum::And => Kind::Bits { a, b, operation: |a, b| a & b },
        };
        Mma { row: k, column: k, chosen: None, kind }
    }

    /// Rows have half of the elements; the others are zero. `chosen` says for each where in the row it is.
    pub fn sparse(self, chosen: Vec<usize>) -> Mma {
        Mma { row: self.column / 2, chosen: Some(chosen), ..self }
    }

    /// The sum of `c` and the products of a row and a column.
    pub fn at(&self, row: usize, column: usize, c: u64) -> u64 {
        match &self.kind {
            Kind::Floats { a, b, to, accuracy } => {
                matrix::dot(*accuracy, *to, self.pairs(a, b, row, column), c)
            }
            Kind::FloatsInHalves { a, b, to } => matrix::dot_in_halves(*to, self.pairs(a, b, row, column), c),
            Kind::Doubles { a, b, flow } => matrix::dot64(*flow, self.pairs(a, b, row, column), c),
            Kind::Integers { a, b, saturate } => {
                matrix::dot_integers(*saturate, self.pairs(a, b, row, column), c)
            }
            Kind::Bits { a, b, operation } => {
                let ones = self.pairs(a, b, row, column).map(|(a, b)| operation(a, b));
                Int::S32.add(c, ones.sum())
            }
        }
    }

    fn pairs<'p, T: Copy>(
        &'p self,
        a: &'p [T],
        b: &'p [T],
        row: usize,
        column: usize,
    ) -> impl Iterator<Item = (T, T)> + Clone + 'p {
        let first = self.row * row;
        let column = &b[self.column * column..self.column * (column + 1)];
        let chosen = self.chosen.as_deref().map(|chosen| &chosen[first..first + self.row]);
        a[first..first + self.row].iter().enumerate().map(move |(index, a)| {
            let at = chosen.map_or(index, |chosen| chosen[index]);
            (*a, column[at])
        })
    }
}

fn factors(element: Element, bits: &[u64]) -> Vec<Factor> {
    let one = |bits: u64| match element {
        Element::Float(format) => Factor::new(format, bits),
        // The unit doesn't look at the low bits.
        _ => Factor::new(F32, bits & !0x1fff),
    };
    bits.iter().map(|bits| one(*bits)).collect()
}

fn integers(element: Element, bits: &[u64]) -> Vec<i64> {
    let Element::Int(int) = element else { return vec![0; bits.len()] };
    bits.iter().map(|bits| int.value(*bits) as i64).collect()
}

/// Registers of all three operands of a warp.
pub fn registers(shape: Shape, [a, b, c]: [Element; 3]) -> usize {
    held(shape.m * shape.k, a) + held(shape.k * shape.n, b) + held(shape.m * shape.n, c)
}

/// Registers of a lane for so many elements of a warp.
pub fn held(elements: usize, element: Element) -> usize {
    elements / LANES / element.count()
}

/// Where an element is: its lane, register and place in that.
pub type Place = (usize, usize, usize);

fn place_in_a(rows: usize, element: Element, row: usize, k: usize) -> Place {
    let count = element.count();
    let tall = rows / 8;
    (row % 8 * 4 + k / count % 4, row / 8 + k / (4 * count) * tall, k % count)
}

fn place_in_b(element: Element, k: usize, column: usize) -> Place {
    let count = element.count();
    (column * 4 + k / count % 4, k / (4 * count), k % count)
}

/// Pairs of columns, side by side in one register or in two; then rows, then columns from eight on.
fn place_in_c(rows: usize, element: Element, row: usize, column: usize) -> Place {
    let index = column / 8 * (rows / 4) + row / 8 * 2 + column % 2;
    (row % 8 * 4 + column % 8 / 2, index / element.count(), index % element.count())
}

fn element_at(registers: &[Lanes], element: Element, (lane, register, index): Place) -> u64 {
    element.get(registers[register][lane], index)
}

/// Rows of a left operand, each of `k` elements.
pub fn rows_of(registers: &[Lanes], element: Element, rows: usize, k: usize) -> Vec<u64> {
    let places = (0..rows).flat_map(|row| (0..k).map(move |k| place_in_a(rows, element, row, k)));
    places.map(|place| element_at(registers, element, place)).collect()
}

/// Columns of a right operand, each of `k` elements.
fn columns_of(registers: &[Lanes], element: Element, columns: usize, k: usize) -> Vec<u64> {
    let places = (0..columns).flat_map(|column| (0..k).map(move |k| place_in_b(element, k, column)));
    places.map(|place| element_at(registers, element, place)).collect()
}

/// The sums of a warp, in registers: `rows` by `columns` of them. Without `c` they begin at zero.
pub fn sums_of(mma: &Mma, element: Element, [rows, columns]: [usize; 2], c: Option<&[Lanes]>) -> Vec<Lanes> {
    let mut out = vec![[0; LANES]; held(rows * columns, element)];
    for row in 0..rows {
        for column in 0..columns {
            let place = place_in_c(rows, element, row, column);
            let before = c.map_or(0, |registers| element_at(registers, element, place));
            out[place.1][place.0] |= mma.at(row, column, before) << (place.2 * element.bits());
        }
    }
    out
}

/// The elements that sparse rows of a warp have: for each its place along `k`. Half of them are there; of each group
/// of four (of two with 32 bits, of four pairs with 4 bits) the metadata name two in four bits.
///
/// The words lie in some of the four lanes of a row, from the one that the selector says. With 16 bits and more a word
/// has four groups of a row in its lower half and those of the row eight below in its upper one. With fewer it has
/// eight groups of one row; the next lane has those of the row eight below. Seen on an H200.
pub fn chosen(element: Element, k: usize, metadata: &Lanes, selector: usize) -> Vec<usize> {
    const ROWS: usize = 16;
    let group = match element.bits() {
        32 => 2,
        4 => 8,
        _ => 4,
    };
    let groups = k / group;
    let mut places = Vec::with_capacity(ROWS * k / 2);
    for (row, index) in (0..ROWS).flat_map(|row| (0..groups).map(move |index| (row, index))) {
        let (lane, shift) = match element.bits() {
            16.. => (selector * (groups / 4) + index / 4, row / 8 * 16 + index % 4 * 4),
            _ => (2 * (selector + index / 8) + row / 8, index % 8 * 4),
        };
        let bits = metadata[row % 8 * 4 + lane % 4] >> shift;
        let names = [(bits & 3) as usize, (bits >> 2 & 3) as usize];
        let first = group * index;
        match group {
            2 => places.push(first + names[0] / 2),
            4 => places.extend(names.map(|name| first + name)),
            _ => places.extend(names.into_iter().flat_map(|name| [first + 2 * name, first + 2 * name + 1])),
        }
    }
    places
}

/// A sparse MMA of a warp: the metadata come after the other operands.
pub fn multiply_sparse(shape: Shape, [a, b, c]: [Element; 3], sum: Sum, selector: usize) -> WholeFunction {
    let Shape { m, n, k } = shape;
    let first_b = held(m * k / 2, a);
    let first_c = first_b + held(k * n, b);
    let last = first_c + held(m * n, c);
    Box::new(move |inputs| {
        let (rows, columns) = (rows_of(inputs, a, m, k / 2), columns_of(&inputs[first_b..], b, n, k));
        let mma = Mma::new(sum, [a, b], k, rows, columns);
        let mma = mma.sparse(chosen(a, k, &inputs[last], selector));
        sums_of(&mma, c, [m, n], Some(&inputs[first_c..last]))
    })
}

/// Registers of the three operands of a sparse MMA, without the metadata.
pub fn registers_of_sparse(shape: Shape, [a, b, c]: [Element; 3]) -> usize {
    held(shape.m * shape.k / 2, a) + held(shape.k * shape.n, b) + held(shape.m * shape.n, c)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Rows,
    Columns,
}

/// Registers that a lane has for the sums of eight lanes.
pub fn held_by_quads(element: Element) -> usize {
    8 / element.count()
}

/// `mma.m8n8k4` of f16: lanes `4 q` to `4 q + 3` and those sixteen further on have MMA `q` of four. A lane of the
/// upper half has what is four rows down or four columns to the right. The elements of the sum and of the result may
/// differ.
pub fn multiply_quads(layouts: [Layout; 2], [c, d]: [Element; 2], to: Format) -> WholeFunction {
    const N: usize = 8;
    const K: usize = 4;
    let half = Element::Float(F16);
    // An element of a factor: where it is along the axis of eight, along k, and whether k goes over the lanes.
    let place = |across: usize, k: usize, k_over_lanes: bool| {
        let (lane, index) = if k_over_lanes { (k, across % 4) } else { (across % 4, k) };
        (lane + across / 4 * 16, index / 2, index % 2)
    };
    let place_in_sum = |element: Element, row: usize, column: usize| match element.bits() {
        16 => (row % 4 + row / 4 * 16, column / 2, column % 2),
        _ => {
            let lane = row & 1 | column & 2;
            (lane + row / 4 * 16, column & 4 | row & 2 | column & 1, 0)
        }
    };
    Box::new(move |inputs| {
        let mut out = vec![[0; LANES]; held_by_quads(d)];
        for quad in 0..4 {
            let at = |(lane, register, index): Place| (lane + 4 * quad, register, index);
            let factor = |first: usize, k_over_lanes: bool| -> [[u64; K]; N] {
                let place = |across, k| at(place(across, k, k_over_lanes));
                array::from_fn(|across| {
                    array::from_fn(|k| element_at(&inputs[first..], half, place(across, k)))
                })
            };
            let rows = factor(0, layouts[0] == Layout::Columns);
            let columns = factor(2, layouts[1] == Layout::Rows);
            for (row, a) in rows.into_iter().enumerate() {
                for (column, b) in columns.into_iter().enumerate() {
                    let before = element_at(&inputs[4..], c, at(place_in_sum(c, row, column)));
                    let (lane, register, index) = at(place_in_sum(d, row, column));
                    let before = converted(c, d, before);
                    let value = matrix::dot_of_four(to, a, b, before);
                    out[register][lane] |= value << (index * d.bits());
                }
            }
        }
        out
    })
}

/// An addend in the format of the sum.
fn converted(from: Element, to: Element, bits: u64) -> u64 {
    match (from, to) {
        (Element::Float(from), Element::Float(to)) if from != to => {
            float_to_float(from, to, Flow::NEAREST, bits)
        }
        _ => bits,
    }
}

/// A matrix in the registers of a warp in a way of our own, for `wmma`: one element after the other, row by row, each
/// in the next lane. Where the registers have room for more, the matrix is there again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub element: Element,
}

impl Tile {
    /// For each element that a register has room for in each lane, its row and column.
    pub fn places(self, registers: usize) -> impl Iterator<Item = (Place, usize, usize)> {
        let Tile { rows, columns, element } = self;
        let count = element.count();
        (0..registers * count * LANES).map(move |index| {
            let place = (index % LANES, index / LANES / count, index / LANES % count);
            let flat = index % (rows * columns);
            (place, flat / columns, flat % columns)
        })
    }

    /// The rows of a matrix in registers, or its columns.
    fn lines(self, registers: &[Lanes], by_columns: bool) -> Vec<u64> {
        let mut out = vec![0; self.rows * self.columns];
        for (place, row, column) in self.places(registers.len()) {
            let at = if by_columns { column * self.rows + row } else { row * self.columns + column };
            out[at] = element_at(registers, self.element, place);
        }
        out
    }

    /// Registers that hold a matrix.
    fn registers(self) -> usize {
        held(self.rows * self.columns, self.element).max(1)
    }
}

/// `wmma.mma`: the registers of each operand, then what they hold.
pub fn multiply_tiles(
    shape: Shape,
    elements: [Element; 4],
    registers: [usize; 3],
    sum: Sum,
) -> WholeFunction {
    let Shape { m, n, k } = shape;
    let [a, b, c, d] = elements;
    let tile = |rows, columns, element| Tile { rows, columns, element };
    let (left, right) = (tile(m, k, a), tile(k, n, b));
    let (addend, out) = (tile(m, n, c), tile(m, n, d));
    let (first_b, first_c) = (registers[0], registers[0] + registers[1]);
    Box::new(move |inputs| {
        let rows = left.lines(&inputs[..first_b], false);
        let columns = right.lines(&inputs[first_b..first_c], true);
        let before = addend.lines(&inputs[first_c..first_c + registers[2]], false);
        let mma = Mma::new(sum, [a, b], k, rows, columns);
        let mut results = vec![[0; LANES]; out.registers()];
        for ((lane, register, index), row, column) in out.places(results.len()) {
            let value = mma.at(row, column, converted(c, d, before[row * n + column]));
            results[register][lane] |= value << (index * d.bits());
        }
        results
    })
}

/// An MMA of a warp, all operands in registers.
pub fn multiply(shape: Shape, [a, b, c]: [Element; 3], sum: Sum) -> WholeFunction {
    let Shape { m, n, k } = shape;
    let first_b = held(m * k, a);
    let first_c = first_b + held(k * n, b);
    Box::new(move |inputs| {
        let (rows, columns) = (rows_of(inputs, a, m, k), columns_of(&inputs[first_b..], b, n, k));
        let mma = Mma::new(sum, [a, b], k, rows, columns);
        sums_of(&mma, c, [m, n], Some(&inputs[first_c..]))
    })
}
