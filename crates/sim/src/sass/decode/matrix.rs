//! MMAs: the interpreter's, with the machine's registers.

use super::Decoder;
use crate::mma::{Element, Shape, Sum, multiply, multiply_sparse, registers, registers_of_sparse};
use crate::sass::program::*;
use ori::arith::Int;
use ori::arith::float::{BF16, F16, F32, Flow, Rounding};
use ori::arith::matrix::Accuracy;
use sass::{Inst, Kind, M, Op, Operand, RZ};

/// Rows, columns and depth of an MMA, by the name that an operation has for them.
const SHAPES: [(M, [usize; 3]); 15] = [
    (M::_1684, [16, 8, 4]),
    (M::_1688, [16, 8, 8]),
    (M::_16816, [16, 8, 16]),
    (M::_16832, [16, 8, 32]),
    (M::_16864, [16, 8, 64]),
    (M::_168128, [16, 8, 128]),
    (M::_168256, [16, 8, 256]),
    (M::_8816, [8, 8, 16]),
    (M::_8832, [8, 8, 32]),
    (M::_88128, [8, 8, 128]),
    (M::_884, [8, 8, 4]),
    (M::_8x8x4, [8, 8, 4]),
    (M::_16x8x4, [16, 8, 4]),
    (M::_16x8x8, [16, 8, 8]),
    (M::_16x8x16, [16, 8, 16]),
];

impl Decoder<'_> {
    pub(super) fn mma(&self) -> Option<Action> {
        let inst = self.inst;
        let plain = |operand: &Operand| !operand.is_neg() && !operand.is_abs();
        let known = inst.operands().all(|(_, operand)| plain(operand)) && self.has_no_predicates();
        known.then_some(())?;
        let (_, [m, n, k]) = SHAPES.into_iter().find(|(name, _)| inst.has(*name))?;
        let shape = Shape { m, n, k };
        let ([a, b, c], sum) = elements(inst)?;
        let words = |element: Element| (element.bits() / 32).max(1) as u8;
        let general = inst.operands().enumerate().filter(|(_, (_, operand))| operand.kind == Kind::R);
        let runs: Vec<(u8, u8)> =
            general.map(|(index, (_, operand))| (operand.value as u8, inst.words(index) as u8)).collect();
        let ([dest, left, right, addend], metadata) = match runs[..] {
            [dest, left, right, addend] => ([dest, left, right, addend], None),
            [dest, left, right, addend, (metadata, 1)] if inst.has(M::SP) => {
                ([dest, left, right, addend], Some(metadata))
            }
            _ => return None,
        };
        let mut sources = Vec::new();
        for ((first, count), element) in [(left, a), (right, b), (addend, c)] {
            let words = words(element);
            let register = |word: u8| if first == RZ { RZ } else { first.saturating_add(word) };
            sources.extend((0..count / words).map(|i| Source::General { first: register(i * words), words }));
        }
        let (count, function) = match metadata {
            None => (registers(shape, [a, b, c]), multiply(shape, [a, b, c], sum)),
            Some(_) => {
                let selector = self.selector().into();
                (registers_of_sparse(shape, [a, b, c]), multiply_sparse(shape, [a, b, c], sum, selector))
            }
        };
        (sources.len() == count).then_some(())?;
        sources.extend(metadata.map(|first| Source::General { first, words: 1 }));
        Some(Action::Multiply(Box::new(Multiply {
            sources: sources.into(),
            function,
            dest: dest.0,
            words: words(c),
        })))
    }
}

/// The elements of both factors and of the sum, and how they are summed.
fn elements(inst: &Inst) -> Option<([Element; 3], Sum)> {
    Some(match inst.op() {
        Op::HMMA => {
            let to = if inst.has(M::F32) { F32 } else { F16 };
            if inst.has(M::TF32) {
                let sum = Sum::Float(to, Accuracy::WIDE);
                return Some(([Element::Tf32, Element::Tf32, Element::Float(to)], sum));
            }
            let from = if inst.has(M::BF16) { BF16 } else { F16 };
            let factor = Element::Float(from);
            ([factor, factor, Element::Float(to)], Sum::Float(to, Accuracy::WIDE))
        }
        Op::IMMA => {
            let types = [(M::U8, (8, false)), (M::S8, (8, true)), (M::U4, (4, false)), (M::S4, (4, true))];
            let named = inst.modifiers().filter_map(|m| types.into_iter().find(|(name, _)| *name == m));
            let ints: Vec<Int> = named.map(|(_, (bits, signed))| Int { bits, signed }).collect();
            let [a, b] = ints[..] else { return None };
            let sum = Sum::Int { saturate: inst.has(M::SAT) };
            ([Element::Int(a), Element::Int(b), Element::Int(Int::S32)], sum)
        }
        Op::BMMA => {
            let sum = if inst.has(M::AND) { Sum::And } else { Sum::Xor };
            ([Element::Bit, Element::Bit, Element::Int(Int::S32)], sum)
        }
        Op::DMMA => {
            let roundings = [(M::RM, Rounding::Down), (M::RP, Rounding::Up), (M::RZ, Rounding::Zero)];
            let rounding = roundings.into_iter().find(|(name, _)| inst.has(*name));
            let rounding = rounding.map_or(Rounding::Nearest, |(_, rounding)| rounding);
            ([Element::F64; 3], Sum::F64(Flow { rounding, ..Flow::NEAREST }))
        }
        _ => return None,
    })
}
