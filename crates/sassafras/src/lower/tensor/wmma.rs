//! Lowers `wmma`: matrices that are loaded, multiplied and stored as a whole.
//!
//! The layout of fragments is ours to choose, but for code that other compilers have made of the same program. It is
//! that of ptxas's code (dumped from an H200): the fragments of one or more `mma` instructions.
//!
//! A warp is eight groups of four threads. The group determines which row of A (or column of B) a thread has: the
//! *slow* direction; the index in the group which elements of it: the *fast* direction. Adjacent elements of a thread
//! in the fast direction are a *cell*.

use crate::lower::Lower;
use crate::lower::build::RZ;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use crate::lower::memory::load_store::{Order, size_word};
use crate::lower::tensor::mma::{Fragment, Mma, dimensions, rounding};
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};
use std::collections::BTreeMap;

/// Which matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    A,
    B,
    /// Also D.
    C,
}

/// A matrix in memory and in registers.
struct Matrix {
    space: Space,
    base: Address,
    /// The stride in elements; the matrix's own where none is given.
    stride: Arg,
    bits: u32,
    /// The elements of a cell are contiguous in memory.
    along: bool,
    /// Elements of a cell.
    cell: u32,
    /// The cells of the first thread: slow, fast.
    cells: Vec<(u32, u32)>,
}

impl Matrix {
    /// Halves in the transposed layout are accessed as if in the direct one, and transposed in registers.
    fn turned(self) -> (Matrix, bool) {
        if self.along || self.bits != 16 {
            return (self, false);
        }
        let cells = self.cells.iter().map(|(slow, fast)| (*fast, *slow)).collect();
        (Matrix { along: true, cells, ..self }, true)
    }

    /// Does it consist of tiles of eight rows of 16 bytes that `LDSM` reads? ptxas reads A and B so.
    fn has_tiles(&self, which: Which) -> bool {
        which != Which::C && self.space == Space::Shared && self.along && matches!(self.bits, 8 | 16)
    }

    fn cell_words(&self) -> usize {
        (self.cell * self.bits).div_ceil(32) as usize
    }
}

/// The cells of a matrix.
fn cells(which: Which, [m, n, k]: [u32; 3], bits: u32, transposed: bool) -> (u32, Vec<(u32, u32)>) {
    let (slow, fast) = match which {
        Which::A => (m, k),
        Which::B => (n, k),
        Which::C if transposed => (n, m),
        Which::C => (m, n),
    };
    let cell = if which == Which::C { 2 } else { (32 / bits).max(1) };
    let rows = |from: u32, to: u32| (from..to.min(slow)).step_by(8);
    let columns = || (0..fast).step_by(4 * cell as usize);
    let by_sixteen = match which {
        Which::C => true,
        // The larger one is the machine's A.
        Which::A => m > 8,
        Which::B => m == 8 && n > 8,
    };
    let mut all = Vec::new();
    let step = if by_sixteen { 16 } else { 8 };
    for block in (0..slow).step_by(step as usize) {
        for column in columns() {
            all.extend(rows(block, block + step).map(|row| (row, column)));
        }
    }
    (cell, all)
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn wmma(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        match ins.mnemonic() {
            "wmma.load.a" => self.load_fragment(ins, Which::A),
            "wmma.load.b" => self.load_fragment(ins, Which::B),
            "wmma.load.c" => self.load_fragment(ins, Which::C),
            "wmma.store.d" => self.store_fragment(ins),
            "wmma.mma" => self.multiply_fragments(ins),
            _ => None,
        }
    }

    /// Is `m8n32k16` computed as the transposed MMA? Not where the machine multiplies bytes eight rows at a time.
    fn is_transposed(&self, [m, n, _]: [u32; 3], integer: bool) -> bool {
        let operands = [sass::operands::r(4); 4];
        let sixteen = self.takes(Op::IMMA, &[M::_16816, M::U8, M::U8], &operands);
        m == 8 && n == 32 && (!integer || sixteen)
    }

    fn matrix_in_memory(&mut self, ins: &Ins<'a>, which: Which, memory: usize) -> Option<Matrix> {
        let space = self.space(ins)?;
        let shape = dimensions(ins.word(Kind::Shape)?)?;
        let by_rows = ins.word(Kind::Layout)? == "row";
        let ty = ins.ty()?;
        let transposed = self.is_transposed(shape, ty.name() == "s32");
        let bits = ty.bits();
        let (cell, cells) = cells(which, shape, bits, transposed);
        let [m, n, k] = shape;
        let (rows, columns) = match which {
            Which::A => (m, k),
            Which::B => (k, n),
            Which::C => (m, n),
        };
        let stride = match ins.len() > 2 {
            true => self.word(ins.get(2)?, Type::U32)?,
            false => Arg::Imm(i64::from(if by_rows { columns } else { rows })),
        };
        // The fast direction of A and C is along rows, that of B along columns.
        let fast_is_row = (which != Which::B) != (which == Which::C && transposed);
        let base = self.address(ins.get(memory)?, space, 1 << 12)?;
        Some(Matrix { space, base, stride, bits, along: by_rows == fast_is_row, cell, cells })
    }

    fn load_fragment(&mut self, ins: &Ins<'a>, which: Which) -> Option<()> {
        let (matrix, turned) = self.matrix_in_memory(ins, which, 1)?.turned();
        let words = match (matrix.has_tiles(which), turned) {
            (true, _) => self.load_tiles(&matrix, turned)?,
            (false, false) => self.load_cells(&matrix)?,
            (false, true) => self.load_cells(&matrix)?.iter().map(|word| self.turned_word(*word)).collect(),
        };
        // Fragments of halves have eight registers, whatever the shape: the words are repeated.
        let count = self.fragment_words(ins.get(0)?)?;
        let words: Fragment = words.iter().copied().cycle().take(count).collect();
        self.set_fragment(ins.get(0)?, &words)
    }

    /// Transposes a word of each row of a tile to a word of each column.
    fn turned_word(&mut self, word: Arg) -> Arg {
        let result = self.kernel.code.value(File::R, 1);
        self.effect(Op::MOVM, &[M::_16, M::MT88], &[result], &[word]);
        result.into()
    }

    /// Up to four tiles at once: threads `8i` to `8i + 7` have the addresses of the rows of tile `i`.
    fn load_tiles(&mut self, matrix: &Matrix, turned: bool) -> Option<Fragment> {
        let lying = if turned { M::MT88 } else { M::M88 };
        let mut words = Fragment::new();
        for tiles in matrix.cells.chunks(4) {
            let address = self.tile_rows(matrix, tiles)?;
            let count: &[M] = match tiles.len() {
                1 => &[],
                2 => &[M::_2],
                _ => &[M::_4],
            };
            let result = self.kernel.code.value(File::R, tiles.len() as u8);
            self.effect(Op::LDSM, &[&[M::_16, lying], count].concat(), &[result], &address);
            words.extend((0..tiles.len()).map(|w| Arg::word(result, w as u8)));
        }
        Some(words)
    }

    /// The address of each thread's row. Two bits of the lane select the tile; each of them moves the address by its
    /// amount.
    fn tile_rows(&mut self, matrix: &Matrix, tiles: &[(u32, u32)]) -> Option<[Arg; 2]> {
        let bytes = i64::from(matrix.bits / 8);
        let &(slow, fast) = tiles.first()?;
        let lane: Arg = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]).into();
        let mut row: Arg = self.masked(lane, 7).into();
        let mut base = matrix.base.base;
        for (bit, tile) in [(3, tiles.get(1)), (4, tiles.get(2))] {
            let Some(tile) = tile else { continue };
            let (down, right) = (tile.0.checked_sub(slow)?, tile.1.checked_sub(fast)?);
            let set = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(bit), lane]);
            let set: Arg = self.masked(set.into(), 1).into();
            row = self.emit(Op::IMAD, &[], 1, &[set, Arg::Imm(down.into()), row]).into();
            base = self.emit(Op::IMAD, &[], 1, &[set, Arg::Imm(i64::from(right) * bytes), base]).into();
        }
        let first = self.in_register(Arg::Imm(i64::from(slow) * bytes));
        let row = self.emit(Op::IMAD, &[], 1, &[row, Arg::Imm(bytes), first]);
        let stride = self.in_register(matrix.stride);
        let base = self.emit(Op::IMAD, &[], 1, &[row.into(), stride, base]);
        Some([base.into(), Arg::Imm(matrix.base.offset + i64::from(fast) * bytes)])
    }

    fn load_cells(&mut self, matrix: &Matrix) -> Option<Fragment> {
        let mut addresses = ElementAddresses::new(self, matrix)?;
        let mut words: Fragment = Vec::new();
        for &(slow, fast) in &matrix.cells {
            if matrix.along {
                let address = addresses.of(self, slow, fast);
                let cell = self.load_cell(matrix, address, matrix.cell * matrix.bits)?;
                words.extend((0..matrix.cell_words()).map(|w| Arg::word(cell, w as u8)));
                continue;
            }
            let mut elements = Vec::new();
            for i in 0..matrix.cell {
                let address = addresses.of(self, slow, fast + i);
                let element = self.load_cell(matrix, address, matrix.bits)?;
                elements.extend((0..matrix.bits.div_ceil(32)).map(|w| Arg::word(element, w as u8)));
            }
            match matrix.bits {
                32.. => words.extend(elements),
                bits => words.push(self.join(&elements, bits).into()),
            }
        }
        Some(words)
    }

    fn store_fragment(&mut self, ins: &Ins<'a>) -> Option<()> {
        let mut words = self.fragment(ins.get(1)?)?;
        let (matrix, turned) = self.matrix_in_memory(ins, Which::C, 0)?.turned();
        if turned {
            words = words.iter().map(|word| self.turned_word(*word)).collect();
        }
        let mut addresses = ElementAddresses::new(self, &matrix)?;
        for (&(slow, fast), cell) in matrix.cells.iter().zip(words.chunks(matrix.cell_words())) {
            if matrix.along {
                let address = addresses.of(self, slow, fast);
                let cell = self.value(cell);
                self.store_cell(&matrix, address, matrix.cell * matrix.bits, cell)?;
                continue;
            }
            for i in 0..matrix.cell {
                let address = addresses.of(self, slow, fast + i);
                let element = match matrix.bits {
                    32 => *cell.get(i as usize)?,
                    _ => self.value(cell.get(2 * i as usize..2 * i as usize + 2)?).into(),
                };
                let element = self.copy(element);
                self.store_cell(&matrix, address, matrix.bits, element)?;
            }
        }
        Some(())
    }

    fn fragment_words(&self, operand: &Operand) -> Option<usize> {
        let Operand::Vector(range) = operand else { return None };
        let elements = self.body.list(*range);
        let mut widths = elements.iter().map(|element| self.width(element));
        // `_` is as wide as the other elements.
        let width = widths.find_map(|width| width).unwrap_or(32);
        Some(elements.len() * width.div_ceil(32) as usize)
    }

    fn load_cell(&mut self, matrix: &Matrix, address: Address, bits: u32) -> Option<Value> {
        let size = size_word(bits, false)?;
        let result = self.kernel.code.value(File::R, bits.div_ceil(32) as u8);
        let (op, modifiers, args) = match matrix.space {
            Space::Shared => (Op::LDS, self.shared_load_words(size), address.args().to_vec()),
            space => {
                let op = if space == Space::Global { Op::LDG } else { Op::LD };
                let words = [&[M::E], size, self.order(Order::Weak)].concat();
                (op, words, self.described(address, None))
            }
        };
        self.effect(op, &modifiers, &[result], &args);
        Some(result)
    }

    fn store_cell(&mut self, matrix: &Matrix, address: Address, bits: u32, value: Value) -> Option<()> {
        let size = size_word(bits, false)?;
        let (op, modifiers, mut args) = match matrix.space {
            Space::Shared => (Op::STS, size.to_vec(), address.args().to_vec()),
            space => {
                let op = if space == Space::Global { Op::STG } else { Op::ST };
                let words = [&[M::E], size, self.order(Order::Weak)].concat();
                (op, words, self.described(address, None))
            }
        };
        args.push(value.into());
        self.steer_store();
        self.effect(op, &modifiers, &[], &args);
        Some(())
    }

    /// One or more `mma`.
    fn multiply_fragments(&mut self, ins: &Ins<'a>) -> Option<()> {
        let shape = dimensions(ins.word(Kind::Shape)?)?;
        // The fragments have been loaded: the layout in memory no longer matters.
        let _ = [ins.word(Kind::Layout)?, ins.word(Kind::Layout)?];
        let rounding = ins.word(Kind::Rounding).and_then(rounding);
        let bits = ins.one_of(&["xor", "and"]).map(|op| if op == "xor" { M::XOR } else { M::AND });
        ins.flag("popc");
        let mut saturate = ins.flag("satfinite");
        let f16 = Type::find("f16")?;
        let (d, a, b, c) = match ins.types()[..] {
            // `.satfinite` of floats, before PTX 6.5: only sm_75 has that. As with ptxas it means nothing elsewhere.
            [d, c] => {
                saturate &= self.has_quad_mma();
                (d, f16, f16, c)
            }
            [d, a, b, c] => (d, a, b, c),
            _ => return None,
        };
        let [m, n, k] = shape;
        let mma = Mma {
            m,
            n,
            k,
            columns: [false, true],
            d,
            a,
            b,
            c,
            saturate,
            rounding,
            bits,
            sparse: None,
            scales: None,
            nibbles: false,
        };
        let [a, b, c] = self.fragments(ins, mma.d)?;
        let d = match (m, n) {
            (8, 8) => self.multiply_matrices(&mma, &a, &b, &c)?,
            (8, _) if !self.is_transposed(shape, mma.d.name() == "s32") => {
                self.pieces(&mma.of([8, 8, k]), [a.get(..1)?].into_iter().cycle(), b.chunks(1), c.chunks(2))?
            }
            // A and B are swapped.
            (8, _) => self.larger(&mma, &b, &a, &c)?,
            (32, _) => self.larger(&mma, &a, &b, &c)?,
            _ => {
                let a = &a[..a.len().min(if mma.a == f16 { 4 } else { a.len() })];
                let b = &b[..b.len().min(if mma.a == f16 { 4 } else { b.len() })];
                self.pieces(&mma.of([16, 8, k]), [a].into_iter().cycle(), halves(b), halves(&c))?
            }
        };
        self.set_fragment(ins.get(0)?, &d)
    }

    /// Thirty-two rows times eight columns.
    fn larger(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let mma = mma.of([16, 8, mma.k]);
        // Fragments of halves are repeated.
        let b = &b[..b.len().min(2)];
        self.pieces(&mma, halves(a), [b].into_iter().cycle(), halves(c))
    }

    fn pieces<'f>(
        &mut self,
        mma: &Mma,
        a: impl Iterator<Item = &'f [Arg]>,
        b: impl Iterator<Item = &'f [Arg]>,
        c: impl Iterator<Item = &'f [Arg]>,
    ) -> Option<Fragment> {
        let mut d = Vec::new();
        for ((a, b), c) in a.zip(b).zip(c) {
            d.extend(match mma.a.name() {
                // ptxas takes four columns at a time, which rounds twice.
                "tf32" => self.mma_split_k(mma, a, b, c)?,
                _ => self.multiply_matrices(mma, a, b, c)?,
            });
        }
        Some(d)
    }
}

fn halves(words: &[Arg]) -> std::slice::Chunks<'_, Arg> {
    words.chunks((words.len() / 2).max(1))
}

/// The addresses of a matrix's elements, each multiple of the stride computed once.
struct ElementAddresses {
    along: bool,
    space: Space,
    offset: i64,
    /// The step in the contiguous direction in bytes; `None` for less than one.
    bytes: Option<i64>,
    bits: i64,
    stride: Arg,
    lane: Arg,
    strides: BTreeMap<u32, Arg>,
}

impl ElementAddresses {
    fn new(lower: &mut Lower, matrix: &Matrix) -> Option<ElementAddresses> {
        let lane: Arg = lower.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]).into();
        let group = lower.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(2), lane]);
        let thread = lower.masked(lane, 3);
        let bits = i64::from(matrix.bits);
        let bytes = (bits >= 8).then_some(bits / 8);
        // Elements smaller than a byte: a stride is a number of bytes all the same.
        let stride = lower.in_register(matrix.stride);
        let stride = match bytes {
            Some(_) => stride,
            None => {
                let shift = Arg::Imm((8 / bits).ilog2().into());
                lower.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, shift, stride]).into()
            }
        };
        let scaled = bytes.unwrap_or(1);
        let cell = i64::from(matrix.cell) * bits / 8;
        let (with_stride, alone) = match matrix.along {
            true => ((group, scaled), (thread, cell)),
            false => ((thread, cell), (group, scaled)),
        };
        let mut addresses = ElementAddresses {
            along: matrix.along,
            space: matrix.space,
            offset: matrix.base.offset,
            bytes,
            bits,
            stride,
            lane: matrix.base.base,
            strides: BTreeMap::new(),
        };
        addresses.lane = addresses.sum(lower, alone.0.into(), Arg::Imm(alone.1));
        let times = lower.emit(Op::IMAD, &[], 1, &[with_stride.0.into(), Arg::Imm(with_stride.1), RZ]);
        addresses.lane = addresses.sum(lower, times.into(), stride);
        Some(addresses)
    }

    /// The thread's address plus `a * b`.
    fn sum(&self, lower: &mut Lower, a: Arg, b: Arg) -> Arg {
        match self.space {
            Space::Shared => lower.emit(Op::IMAD, &[], 1, &[a, b, self.lane]).into(),
            _ => lower.emit(Op::IMAD, &[M::WIDE, M::U32], 2, &[a, b, self.lane]).into(),
        }
    }

    fn of(&mut self, lower: &mut Lower, slow: u32, fast: u32) -> Address {
        let (strides, beside) = if self.along { (slow, fast) } else { (fast, slow) };
        let base = match (strides, self.strides.get(&strides)) {
            (0, _) => self.lane,
            (_, Some(known)) => *known,
            _ => {
                let times = Arg::Imm(i64::from(strides) * self.bytes.unwrap_or(1));
                let base = self.sum(lower, self.stride, times);
                self.strides.insert(strides, base);
                base
            }
        };
        Address { base, offset: self.offset + i64::from(beside) * self.bits / 8 }
    }
}
