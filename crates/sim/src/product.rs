//! Products of matrices: which lane and register has which element, and what is done with them. The interpreter and the
//! simulator share them; so do the products of a warp (mma) and of a warpgroup (wgmma), of which each warp has a part.
//!
//! All fragments follow one rule. Lane `l` is in row (or column) `l / 4` of a group of eight; along the other axis
//! each register has the elements that fit into it, at `l % 4`. Further registers of a left operand are first eight
//! rows down, then on to the right; those of a right operand go on along `k`. A sum has pairs of columns, first eight
//! rows down, then on to the right.

use crate::ptx::program::{LANES, Lanes, WholeFunction};
use ori::arith::Int;
use ori::arith::float::{F32, Flow, Format};
use ori::arith::matrix::{self, Accuracy, Factor};

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

/// What a product does with a row and a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sum {
    /// The format of the sum, and how it is formed.
    Float(Format, Accuracy),
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
pub struct Products {
    /// Elements of a row, which may be fewer than those of a column.
    row: usize,
    column: usize,
    /// Where in a column each element of a row belongs; in order where nothing is said.
    chosen: Option<Vec<usize>>,
    kind: Kind,
}

enum Kind {
    Floats { a: Vec<Factor>, b: Vec<Factor>, to: Format, accuracy: Accuracy },
    Doubles { a: Vec<u64>, b: Vec<u64>, flow: Flow },
    Integers { a: Vec<i64>, b: Vec<i64>, saturate: bool },
    Bits { a: Vec<u64>, b: Vec<u64>, operation: fn(u64, u64) -> u64 },
}

impl Products {
    /// `a` has rows and `b` has columns, each of `k` elements side by side.
    pub fn new(sum: Sum, [left, right]: [Element; 2], k: usize, a: Vec<u64>, b: Vec<u64>) -> Products {
        let kind = match sum {
            Sum::Float(to, accuracy) => {
                Kind::Floats { a: factors(left, &a), b: factors(right, &b), to, accuracy }
            }
            Sum::F64(flow) => Kind::Doubles { a, b, flow },
            Sum::Int { saturate } => {
                Kind::Integers { a: integers(left, &a), b: integers(right, &b), saturate }
            }
            Sum::Xor => Kind::Bits { a, b, operation: |a, b| a ^ b },
            Sum::And => Kind::Bits { a, b, operation: |a, b| a & b },
        };
        Products { row: k, column: k, chosen: None, kind }
    }

    /// Rows have half of the elements; the others are zero. `chosen` says for each where in the row it is.
    pub fn sparse(self, chosen: Vec<usize>) -> Products {
        Products { row: self.column / 2, chosen: Some(chosen), ..self }
    }

    /// The sum of `c` and the products of a row and a column.
    pub fn at(&self, row: usize, column: usize, c: u64) -> u64 {
        match &self.kind {
            Kind::Floats { a, b, to, accuracy } => {
                matrix::dot(*accuracy, *to, self.pairs(a, b, row, column), c)
            }
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
    ) -> impl Iterator<Item = (T, T)> + 'p {
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
type Place = (usize, usize, usize);

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
pub fn sums_of(
    products: &Products,
    element: Element,
    [rows, columns]: [usize; 2],
    c: Option<&[Lanes]>,
) -> Vec<Lanes> {
    let mut out = vec![[0; LANES]; held(rows * columns, element)];
    for row in 0..rows {
        for column in 0..columns {
            let place = place_in_c(rows, element, row, column);
            let before = c.map_or(0, |registers| element_at(registers, element, place));
            out[place.1][place.0] |= products.at(row, column, before) << (place.2 * element.bits());
        }
    }
    out
}

/// A product of a warp, all operands in registers.
pub fn multiply(shape: Shape, [a, b, c]: [Element; 3], sum: Sum) -> WholeFunction {
    let Shape { m, n, k } = shape;
    let first_b = held(m * k, a);
    let first_c = first_b + held(k * n, b);
    Box::new(move |inputs| {
        let (rows, columns) = (rows_of(inputs, a, m, k), columns_of(&inputs[first_b..], b, n, k));
        let products = Products::new(sum, [a, b], k, rows, columns);
        sums_of(&products, c, [m, n], Some(&inputs[first_c..]))
    })
}
