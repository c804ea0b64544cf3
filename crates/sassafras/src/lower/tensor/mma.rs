//! Lowers `mma`, `ldmatrix`, `stmatrix` and `movmatrix`: matrices in the registers of a warp.
//!
//! A fragment is the words of a matrix that a thread holds, in the order of PTX, which is the machine's. An MMA that
//! the machine lacks is expanded to others. How, and in which order sums are rounded, is read off ptxas's code.

use crate::lower::Lower;
use crate::lower::arith::words::imm;
use crate::lower::build::{RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::operands as machine;
use sass::{M, Op};

pub type Fragment = Vec<Arg>;

/// `D = A * B + C`.
#[derive(Clone, Copy)]
pub struct Mma {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Is A (or B) column-major?
    pub columns: [bool; 2],
    pub d: Type,
    pub a: Type,
    pub b: Type,
    pub c: Type,
    pub saturate: bool,
    pub rounding: Option<M>,
    /// The bit operation of binary MMAs.
    pub bits: Option<M>,
    pub sparse: Option<Sparse>,
    pub scales: Option<Scales>,
    /// 4-bit elements are packed eight to a word; else each has a byte.
    pub nibbles: bool,
}

/// Block scaling: each block of a row of A, and of a column of B, has a scale factor.
#[derive(Clone, Copy)]
pub struct Scales {
    /// The registers with the scale factors of A and of B.
    pub factors: [Arg; 2],
    /// Selectors: the byte, and the threads of a quad: two bits and one for A, two and two for B.
    pub selector: Arg,
    pub ty: Type,
    /// Four factors in a row: those of blocks of 16.
    pub four: bool,
}

/// The metadata of a sparse A.
#[derive(Clone, Copy)]
pub struct Sparse {
    pub metadata: Arg,
    /// The threads of a quad that hold it.
    pub selector: u32,
    /// The indices of each group are in ascending order.
    pub ordered: bool,
}

/// M, N and K of a shape such as `m16n8k16`.
pub fn dimensions(shape: &str) -> Option<[u32; 3]> {
    let (m, rest) = shape.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// The modifier of a type.
pub fn type_word(ty: Type) -> Option<M> {
    M::from_name(&ty.name().to_uppercase())
}

pub fn rounding(word: &str) -> Option<M> {
    match word {
        "rn" => None,
        "rz" => Some(M::RZ),
        "rm" => Some(M::RM),
        _ => Some(M::RP),
    }
}

/// Includes the types that only matrices have.
fn is_signed(ty: Type) -> bool {
    ty.name().starts_with('s')
}

fn is_byte_float(ty: Type) -> bool {
    matches!(ty.name(), "e4m3" | "e5m2" | "e3m2" | "e2m3" | "e2m1")
}

impl Mma {
    pub fn of(self, [m, n, k]: [u32; 3]) -> Mma {
        Mma { m, n, k, ..self }
    }

    /// The machine operation and its modifiers, if any machine may have this MMA.
    fn operation(&self, shape: &str) -> Option<(Op, Vec<M>)> {
        let mut words = Vec::new();
        words.extend(self.scales.map(|_| M::SF));
        words.extend(self.sparse.map(|_| M::SP));
        words.push(M::from_name(shape)?);
        let (a, b) = (type_word(self.a)?, type_word(self.b)?);
        let op = match self.a.name() {
            "f16" => {
                words.push(type_word(self.d)?);
                words.extend(self.saturate.then_some(M::SATFINITE));
                Op::HMMA
            }
            "bf16" | "tf32" => {
                words.extend([type_word(self.d)?, a]);
                Op::HMMA
            }
            "f64" => {
                words.extend(self.rounding);
                Op::DMMA
            }
            "b1" => {
                words.extend([self.bits?, M::POPC]);
                Op::BMMA
            }
            _ if is_byte_float(self.a) => {
                words.extend([type_word(self.d)?, a, b]);
                if let Some(scales) = self.scales {
                    words.push(if scales.ty.name() == "ue8m0" { M::E8 } else { M::UE4M3 });
                    words.extend(scales.four.then_some(M::_4X));
                }
                if self.nibbles { Op::OMMA } else { Op::QMMA }
            }
            _ => {
                words.extend([a, b]);
                words.extend(self.saturate.then_some(M::SAT));
                Op::IMMA
            }
        };
        Some((op, words))
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn matrix(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        match ins.mnemonic() {
            "mma" => self.mma(ins),
            "ldmatrix" => self.load_matrix(ins),
            "stmatrix" => self.store_matrix(ins),
            _ => self.move_matrix(ins),
        }
    }

    /// The words of a vector of registers, or of one register; constants and special registers are words, too.
    pub(crate) fn fragment(&mut self, operand: &Operand) -> Option<Fragment> {
        self.fragment_of(operand, Type::B32)
    }

    /// The same, with constants of another type.
    pub(crate) fn fragment_of(&mut self, operand: &Operand, ty: Type) -> Option<Fragment> {
        let body = self.body;
        let elements = match operand {
            Operand::Vector(range) => body.list(*range),
            other => std::slice::from_ref(other),
        };
        let mut words = Vec::new();
        for element in elements {
            if !matches!(element, Operand::Reg(_) | Operand::Part { .. }) {
                let values = if ty.bits() == 64 {
                    self.words(element, ty)?.to_vec()
                } else {
                    vec![self.word(element, ty)?]
                };
                words.extend(values.into_iter().map(|word| self.in_register(word)));
                continue;
            }
            let Arg::Use(u) = self.whole(element)? else { return None };
            let part = u.part.map_or((0, self.kernel.code.values[u.value].words), |p| (p.first, p.count));
            words.extend((part.0..part.0 + part.1).map(|w| Arg::word(u.value, w)));
        }
        Some(words)
    }

    /// The operands A, B and C of an MMA with results of a type.
    pub(crate) fn fragments(&mut self, ins: &Ins<'a>, result: Type) -> Option<[Fragment; 3]> {
        let constants = if result == Type::F64 { Type::F64 } else { Type::B32 };
        let mut fragment = |at| self.fragment_of(ins.get(at)?, constants);
        Some([fragment(1)?, fragment(2)?, fragment(3)?])
    }

    pub(crate) fn set_fragment(&mut self, operand: &Operand, words: &[Arg]) -> Option<()> {
        let value = self.value(words);
        self.set(operand, value)
    }

    /// Packs a fragment into an operand; an empty one is RZ.
    fn side_by_side(&mut self, words: &[Arg]) -> Arg {
        match words {
            [] => RZ,
            _ if words.iter().all(|w| *w == RZ) => RZ,
            [word] => *word,
            _ => self.value(words).into(),
        }
    }

    fn mma(&mut self, ins: &Ins<'a>) -> Option<()> {
        let sparse = ins.one_of(&["sp", "sp::ordered_metadata"]);
        let [m, n, k] = dimensions(ins.word(Kind::Shape)?)?;
        let columns = [ins.word(Kind::Layout)? == "col", ins.word(Kind::Layout)? == "col"];
        // The `.kind` is implied by the types and shapes.
        ins.one_of(&["kind::f8f6f4", "kind::mxf8f6f4"]);
        let nibbles = ins.one_of(&["kind::mxf4", "kind::mxf4nvf4"]).is_some();
        let saturate = ins.flag("satfinite");
        let rounding = ins.word(Kind::Rounding).and_then(rounding);
        let bits = ins.one_of(&["xor", "and"]).map(|op| if op == "xor" { M::XOR } else { M::AND });
        ins.flag("popc");
        let types = ins.types();
        let [d, a, b, c] = *types.first_chunk()?;
        let sparse = match sparse {
            Some(word) => {
                let selector = constant(ins.get(5)?, Type::U32)? as u32;
                let metadata = self.word(ins.get(4)?, Type::B32)?;
                Some(Sparse { metadata, selector, ordered: word == "sp::ordered_metadata" })
            }
            None => None,
        };
        let scales = match types.get(4) {
            Some(ty) => Some(self.scales(ins, *ty, if sparse.is_some() { 6 } else { 4 })?),
            None => None,
        };
        let mma = Mma { m, n, k, columns, d, a, b, c, saturate, rounding, bits, sparse, scales, nibbles };
        let [a, b, c] = self.fragments(ins, mma.d)?;
        let d = self.multiply_matrices(&mma, &a, &b, &c)?;
        self.set_fragment(ins.get(0)?, &d)
    }

    /// The scale factors, from operand `at` on: a register of A's and its selectors, and the same for B.
    fn scales(&mut self, ins: &Ins<'a>, ty: Type, at: usize) -> Option<Scales> {
        ins.flag("block_scale");
        let four = ins.starting_with("scale_vec::") == Some("scale_vec::4X");
        let factors = [self.scale_factors(ins.get(at)?)?, self.scale_factors(ins.get(at + 2)?)?];
        let mut fields = Vec::new();
        for operand in [ins.get(at + 1)?, ins.get(at + 3)?] {
            let Operand::Vector(range) = operand else { return None };
            fields.extend(self.body.list(*range));
        }
        let selector = self.scale_selector(&fields)?;
        Some(Scales { factors, selector, ty, four })
    }

    /// A register, perhaps in braces; ptxas takes the first of several.
    fn scale_factors(&mut self, operand: &Operand) -> Option<Arg> {
        self.mark_all(operand);
        let body = self.body;
        match operand {
            Operand::Vector(range) => self.word(body.list(*range).first()?, Type::B32),
            _ => self.word(operand, Type::B32),
        }
    }

    /// Packs the selector: byte and thread of A, byte and thread of B.
    fn scale_selector(&mut self, fields: &[&Operand]) -> Option<Arg> {
        let (mut known, mut word) = (0, RZ);
        for (field, (shift, mask)) in fields.iter().zip([(0, 0x3), (2, 0x4), (3, 0x18), (5, 0x60)]) {
            if let Some(value) = self.constant(field, Type::B16) {
                known |= (value as i64) << shift & mask;
                continue;
            }
            let value = self.word(field, Type::B16)?;
            let moved = match shift {
                0 => value,
                _ => self.emit(Op::SHF, &[M::L, M::U32], 1, &[value, Arg::Imm(shift), RZ]).into(),
            };
            word = self.lop3(moved, Arg::Imm(mask), word, 0xea).into();
        }
        match (known, word) {
            (_, RZ) => Some(Arg::Imm(known)),
            (0, _) => Some(word),
            _ => Some(self.lop3(word, Arg::Imm(known), RZ, 0xfc).into()),
        }
    }

    /// Emits an MMA natively, or expands it.
    pub(crate) fn multiply_matrices(
        &mut self,
        mma: &Mma,
        a: &[Arg],
        b: &[Arg],
        c: &[Arg],
    ) -> Option<Fragment> {
        if let Some(sparse) = self.must_order(mma) {
            return self.mma_sorted_metadata(mma, sparse, a, b, c);
        }
        if let Some((op, words)) = self.native_mma(mma) {
            return self.emit_mma(op, &words, mma, a, b, c);
        }
        if mma.k == 4 && mma.m == 8 && mma.a.name() == "f16" {
            return match self.has_quad_mma() {
                true => self.quad_mma(mma, a, b, c),
                false => self.expand_quad_mma(mma, a, b, c),
            };
        }
        match (mma.a.name(), mma.b.name()) {
            ("f16", _) if mma.c != mma.d => self.mma_mixed_types(mma, a, b, c),
            ("f16", _) if mma.k == 16 => self.mma_split_k(mma, a, b, c),
            ("f64", _) => Some(self.mma_f64_by_m8n8k4(mma, a, b, c)),
            ("u4" | "s4", _) => self.mma_int4_as_int8(mma, a, b, c),
            ("u8" | "s8", _) if mma.m == 8 => self.upper_half(mma, a, b, c),
            ("u8" | "s8", _) if mma.k == 16 => self.mma_split_m(mma, a, b, c),
            ("b1", _) if mma.bits == Some(M::XOR) => self.mma_xor_as_and(mma, a, b, c),
            ("b1", _) => self.mma_bits_as_int8(mma, a, b, c),
            ("e4m3" | "e5m2", "e4m3" | "e5m2") if mma.scales.is_none() => match mma.sparse {
                Some(sparse) => self.sparse_byte_floats(mma, sparse, a, b, c),
                None => self.mma_fp8_as_f16(mma, a, b, c),
            },
            _ => None,
        }
    }

    /// The native operation of an MMA, if the machine has one.
    fn native_mma(&self, mma: &Mma) -> Option<(Op, Vec<M>)> {
        if mma.c != mma.d {
            return None;
        }
        let Mma { m, n, k, .. } = mma;
        let shapes = [format!("{m}{n}{k}"), format!("{m}x{n}x{k}")];
        let mut operands = vec![machine::r(16); 4];
        match (mma.sparse, mma.scales) {
            (None, None) => {}
            (Some(_), None) => operands.extend([machine::r(2), machine::imm(0)]),
            (None, Some(_)) => operands.extend([machine::r(2), machine::r(2), machine::ur(2)]),
            (Some(_), Some(_)) => {
                operands.extend([machine::r(2), machine::r(2), machine::ur(2), machine::imm(0)]);
            }
        }
        let known = |shape: &String| {
            let (op, words) = mma.operation(shape)?;
            self.takes(op, &words, &operands).then_some((op, words))
        };
        shapes.iter().find_map(known)
    }

    fn emit_mma(
        &mut self,
        op: Op,
        words: &[M],
        mma: &Mma,
        a: &[Arg],
        b: &[Arg],
        c: &[Arg],
    ) -> Option<Fragment> {
        // Each thread has 1/32 of D.
        let count = (mma.m * mma.n * mma.d.bits() / (32 * 32)) as u8;
        let mut args = vec![self.side_by_side(a), self.side_by_side(b), self.side_by_side(c)];
        let selector = mma.sparse.map(|s| Arg::Imm(s.selector.into()));
        let Some(scales) = mma.scales else {
            args.extend(mma.sparse.map(|s| s.metadata));
            args.extend(selector);
            let result = self.kernel.code.value(File::R, count);
            self.effect(op, words, &[result], &args);
            return Some(words_of(result, count));
        };
        let [of_a, of_b] = scales.factors;
        args.push(match mma.sparse {
            Some(sparse) => self.side_by_side(&[sparse.metadata, of_a]),
            None => of_a,
        });
        args.push(of_b);
        self.emit_scaled_mma(scales.selector, count, |l, which, result| {
            args.push(which);
            args.extend(selector);
            l.effect(op, words, &[result], &args);
        })
    }

    /// An MMA with a selector in a uniform register. If the selector diverges, a waterfall loop.
    fn emit_scaled_mma(
        &mut self,
        selector: Arg,
        count: u8,
        emit: impl FnOnce(&mut Self, Arg, Value),
    ) -> Option<Fragment> {
        let result = self.kernel.code.value(File::R, count);
        let whole = match selector {
            Arg::Imm(selector) => {
                let which = self.uniform_constant(selector);
                emit(self, which, result);
                result
            }
            _ => {
                let before = self.undefined(File::R, count);
                let done =
                    self.waterfall_loop(Grouping::SameOperands, &[selector], &[before], |l, uniform| {
                        emit(l, *uniform.first()?, result);
                        Some(vec![result])
                    })?;
                *done.first()?
            }
        };
        Some(words_of(whole, count))
    }
}

fn words_of(value: Value, count: u8) -> Fragment {
    (0..count).map(|w| Arg::word(value, w)).collect()
}

/// Expansions of MMAs that the machine lacks.
impl Lower<'_, '_> {
    /// Does the machine have `HMMA.884`, an MMA for each pair of quads?
    pub(crate) fn has_quad_mma(&self) -> bool {
        self.takes(Op::HMMA, &[M::_884, M::F16, M::F16, M::STEP0], &quad_operands())
    }

    /// `m8n8k4` on halves: each step computes two words of D.
    fn quad_mma(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let layout = |columns: bool| if columns { M::COL } else { M::ROW };
        let a = self.side_by_side(a).suffixed(layout(mma.columns[0]));
        let b = self.side_by_side(b).suffixed(layout(mma.columns[1]));
        let wide = mma.d == Type::F32;
        let steps: &[M] =
            if wide { &[M::STEP0, M::STEP1, M::STEP2, M::STEP3] } else { &[M::STEP0, M::STEP1] };
        let mut d = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            // Two words of halves in C are four words of floats in D.
            let from = if mma.c == mma.d { 2 * i } else { 2 * (i / 2) };
            let c = self.side_by_side(c.get(from..from + 2)?);
            let result = self.kernel.code.value(File::R, 2);
            let words = [M::_884, type_word(mma.d)?, type_word(mma.c)?, *step];
            self.effect(Op::HMMA, &words, &[result], &[a, b, c]);
            d.extend([Arg::word(result, 0), Arg::word(result, 1)]);
        }
        Some(d)
    }

    /// f64 `m16n8k…` by `m8n8k4`. Rows 0 to 7 of A are the even elements of its fragment.
    fn mma_f64_by_m8n8k4(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Fragment {
        let small = mma.of([8, 8, 4]);
        let mut d = Vec::new();
        for (half, c) in c.chunks(4).enumerate() {
            let mut sum = c.to_vec();
            for (a, b) in a.chunks(2).skip(half).step_by(2).zip(b.chunks(2)) {
                sum = self.multiply_matrices(&small, a, b, &sum).unwrap_or_default();
            }
            d.extend(sum);
        }
        d
    }

    /// 4-bit integers as bytes: the low nibbles first, then the high ones. The sum doesn't depend on the order of
    /// elements, as long as A and B have the same.
    fn mma_int4_as_int8(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let byte = |ty: Type| Type::find(if is_signed(ty) { "s8" } else { "u8" });
        let bytes = Mma { k: mma.k / 2, a: byte(mma.a)?, b: byte(mma.b)?, saturate: false, ..*mma };
        // The total with C saturates, not each partial sum.
        let mut sum = if mma.saturate { Vec::new() } else { c.to_vec() };
        for shift in [0, 4] {
            let a = self.nibbles(a, mma.a, shift);
            let b = self.nibbles(b, mma.b, shift);
            sum = self.multiply_matrices(&bytes, &a, &b, &sum)?;
        }
        if mma.saturate {
            sum = sum.iter().zip(c).map(|(s, c)| self.add_saturated(*s, *c)).collect();
        }
        Some(sum)
    }

    /// Every other nibble of each word, extended to a byte.
    fn nibbles(&mut self, words: &[Arg], ty: Type, shift: i64) -> Fragment {
        let mut out = Vec::new();
        for word in words {
            let word = match shift {
                0 => *word,
                _ => self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(shift), *word]).into(),
            };
            let low: Arg = self.lop3(word, imm(0x0f0f_0f0f), RZ, 0xc0).into();
            out.push(match is_signed(ty) {
                false => low,
                true => {
                    // 8 * 0x1e is 0xf0: a set sign bit fills the upper nibble of its byte.
                    let signs = self.lop3(low, imm(0x0808_0808), RZ, 0xc0);
                    self.emit(Op::IMAD, &[], 1, &[signs.into(), Arg::Imm(0x1e), low]).into()
                }
            });
        }
        out
    }

    /// Splits K: the first half of the columns of A, then the second.
    pub(crate) fn mma_split_k(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let half = Mma { k: mma.k / 2, ..*mma };
        let ((a, more_a), (b, more_b)) = (a.split_at(a.len() / 2), b.split_at(b.len() / 2));
        // As with ptxas the whole sum saturates, not its first half.
        let sum = self.multiply_matrices(&Mma { saturate: false, ..half }, a, b, c)?;
        self.multiply_matrices(&half, more_a, more_b, &sum)
    }

    /// Splits M: sixteen rows as two times eight.
    fn mma_split_m(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let mut d = Vec::new();
        for (a, c) in a.chunks(1).zip(c.chunks(2)) {
            d.extend(self.multiply_matrices(&mma.of([8, 8, mma.k]), a, b, c)?);
        }
        Some(d)
    }

    /// C and D of different types: accumulates in the wider one.
    fn mma_mixed_types(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        if mma.d == Type::F32 {
            let halves = |word: &Arg| [word.suffixed(M::H0_H0), word.suffixed(M::H1_H1)];
            let c: Fragment = c.iter().flat_map(halves).map(|half| self.half_as_float(half)).collect();
            return self.multiply_matrices(&Mma { c: mma.d, ..*mma }, a, b, &c);
        }
        let d = self.multiply_matrices(&Mma { d: mma.c, ..*mma }, a, b, c)?;
        Some(d.chunks(2).map(|pair| self.floats_as_halves(pair[0], pair[1])).collect())
    }

    /// `m8n8k…` as the upper half of `m16n8k…`.
    fn upper_half(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let a: Fragment = a.iter().flat_map(|word| [*word, RZ]).collect();
        let c: Fragment = if c.is_empty() { Vec::new() } else { [c, &[RZ, RZ]].concat() };
        let mut d = self.multiply_matrices(&mma.of([16, mma.n, mma.k]), &a, b, &c)?;
        d.truncate(2);
        Some(d)
    }

    /// `a ^ b` is `a & !b` or `!a & b`, and never both.
    fn mma_xor_as_and(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let and = Mma { bits: Some(M::AND), ..*mma };
        let mut not = |words: &[Arg]| -> Fragment {
            words.iter().map(|w| self.lop3(RZ, *w, RZ, 0x33).into()).collect()
        };
        let (not_a, not_b) = (not(a), not(b));
        let sum = self.multiply_matrices(&and, a, &not_b, c)?;
        self.multiply_matrices(&and, &not_a, b, &sum)
    }

    /// 1-bit elements as bytes: one bit of each byte at a time, and two bits are the two halves of `m16n8k32`.
    fn mma_bits_as_int8(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let u8 = Type::find("u8")?;
        let bytes = Mma { m: 16, k: 32, a: u8, b: u8, bits: None, ..*mma };
        let rows = (mma.m / 8) as usize;
        let mut sum = match mma.m {
            16 => c.to_vec(),
            _ => [c, &[RZ, RZ]].concat(),
        };
        for (a, b) in a.chunks(rows).zip(b) {
            for bit in [0, 2, 4, 6] {
                let mut of = |word: Arg, bit: i64| self.bit_of_bytes(word, bit);
                let mut pair = |word: Option<&Arg>| match word {
                    Some(word) => [of(*word, bit), of(*word, bit + 1)],
                    None => [RZ, RZ],
                };
                let ([low, high], [low8, high8], b) = (pair(a.first()), pair(a.get(1)), pair(Some(b)));
                sum = self.multiply_matrices(&bytes, &[low, low8, high, high8], &b, &sum)?;
            }
        }
        sum.truncate(2 * rows);
        Some(sum)
    }

    fn bit_of_bytes(&mut self, word: Arg, bit: i64) -> Arg {
        let word = match bit {
            0 => word,
            _ => self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(bit), word]).into(),
        };
        self.lop3(word, imm(0x0101_0101), RZ, 0xc0).into()
    }

    /// 8-bit floats as halves: first the lower two of each word, then the upper two, then C.
    fn mma_fp8_as_f16(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let f16 = Type::find("f16")?;
        let halves = Mma { k: mma.k / 2, a: f16, b: f16, ..*mma };
        let mut sum = Vec::new();
        for upper in [false, true] {
            let a = self.halves_of_bytes(a, mma.a, upper)?;
            let b = self.halves_of_bytes(b, mma.b, upper)?;
            sum = self.multiply_matrices(&halves, &a, &b, &sum)?;
        }
        Some(self.sum_of(mma.d, c, &sum))
    }

    pub(crate) fn sum_of(&mut self, ty: Type, a: &[Arg], b: &[Arg]) -> Fragment {
        let op = if ty == Type::F32 { Op::FADD } else { Op::HADD2 };
        a.iter().zip(b).map(|(a, b)| self.emit(op, &[], 1, &[*a, *b]).into()).collect()
    }

    /// Two bytes of each word as halves.
    pub(crate) fn halves_of_bytes(&mut self, words: &[Arg], ty: Type, upper: bool) -> Option<Fragment> {
        let modifiers = [M::F16, type_word(ty)?, M::UNPACK_B];
        let pick = |word: &Arg| if upper { word.suffixed(M::H1) } else { *word };
        Some(words.iter().map(|w| self.emit(Op::F2FP, &modifiers, 1, &[pick(w)]).into()).collect())
    }
}

/// Between floats and halves.
impl Lower<'_, '_> {
    pub(crate) fn half_as_float(&mut self, half: Arg) -> Arg {
        self.emit(Op::HADD2, &[M::F32], 1, &[Arg::MinusZero, half]).into()
    }

    /// Two floats as the halves of a word, the first below.
    pub(crate) fn floats_as_halves(&mut self, low: Arg, high: Arg) -> Arg {
        let operands = [machine::r(2); 3];
        for names in [&[M::F16, M::F32, M::PACK_AB][..], &[M::PACK_AB]] {
            if self.takes(Op::F2FP, names, &operands) {
                return self.emit(Op::F2FP, names, 1, &[high, low]).into();
            }
        }
        let [low, high] = [low, high].map(|x| self.emit(Op::F2F, &[M::F16, M::F32], 1, &[x]));
        self.prmt(low.into(), 0x5410, high.into()).into()
    }
}

fn quad_operands() -> [sass::Operand; 4] {
    let r = machine::r(2);
    [r, r.suffix(M::ROW), r.suffix(M::COL), r]
}

/// Between registers and shared memory.
impl<'a> Lower<'_, 'a> {
    /// The modifiers for the number of matrices and their layout.
    fn matrix_words(&mut self, ins: &Ins<'a>) -> Option<Vec<M>> {
        let shape = ins.word(Kind::Shape)?;
        let count = ins.word(Kind::Repeat)?;
        let lying = match (shape, ins.flag("trans")) {
            ("m8n8", false) => M::M88,
            ("m8n8", true) => M::MT88,
            ("m8n16", false) => M::M816,
            ("m16n16", true) => M::MT1616,
            ("m16n8", true) => M::MT168,
            _ => return None,
        };
        ins.flag("b8x16");
        let element = match ins.one_of(&["b6x16_p32", "b4x16_p64"]) {
            Some("b6x16_p32") => M::U6x16P32TO8,
            Some(_) => M::U4x16P64TO8,
            None if shape.starts_with("m16") => M::_8,
            None => M::_16,
        };
        // `.b16` or `.b8`, which the shape implies.
        ins.types();
        let mut words = vec![element, lying];
        words.extend(match count {
            "x2" => Some(M::_2),
            "x4" => Some(M::_4),
            _ => None,
        });
        Some(words)
    }

    /// A shared address, converted from a generic one if needed.
    fn matrix_address(&mut self, ins: &Ins<'a>, operand: &Operand) -> Option<[Arg; 2]> {
        match self.space(ins)? {
            Space::Shared => Some(self.address(operand, Space::Shared, 0)?.args()),
            Space::Generic => {
                let address = self.address(operand, Space::Generic, 0)?;
                let Arg::Use(u) = address.base else { return None };
                let low = Arg::word(u.value, u.part.map_or(0, |p| p.first));
                // The window is aligned to 2^32 or its base is known.
                let base = match self.machine.windows.shared {
                    None => low,
                    Some(offset) => {
                        let window = self.in_register(Arg::Const { bank: 0, offset });
                        self.emit(Op::IADD3, &[], 1, &[low, window.negated(), RZ]).into()
                    }
                };
                Some([base, Arg::Imm(address.offset)])
            }
            _ => None,
        }
    }

    fn load_matrix(&mut self, ins: &Ins<'a>) -> Option<()> {
        let words = self.matrix_words(ins)?;
        let address = self.matrix_address(ins, ins.get(1)?)?;
        let Operand::Vector(range) = ins.get(0)? else { return None };
        let result = self.kernel.code.value(File::R, self.body.list(*range).len() as u8);
        self.effect(Op::LDSM, &words, &[result], &address);
        self.set(ins.get(0)?, result)
    }

    fn store_matrix(&mut self, ins: &Ins<'a>) -> Option<()> {
        let words = self.matrix_words(ins)?;
        let [base, offset] = self.matrix_address(ins, ins.get(0)?)?;
        let fragment = self.fragment(ins.get(1)?)?;
        let data = self.side_by_side(&fragment);
        self.effect(Op::STSM, &words, &[], &[base, offset, data]);
        Some(())
    }

    fn move_matrix(&mut self, ins: &Ins<'a>) -> Option<()> {
        ins.word(Kind::Shape)?;
        ins.flag("trans");
        let source = self.word(ins.get(1)?, ins.ty()?)?;
        let result = self.kernel.code.value(File::R, 1);
        self.effect(Op::MOVM, &[M::_16, M::MT88], &[result], &[source]);
        self.set(ins.get(0)?, result)
    }
}
