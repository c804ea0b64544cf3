//! MMAs of a warpgroup and what orders them.

use super::Decoder;
use crate::mma::{Element, Sum};
use crate::sass::program::*;
use crate::warpgroup::Wgmma;
use ori::arith::Int;
use ori::arith::float::{BF16, E4M3, E5M2, F16, F32};
use ori::arith::matrix::Accuracy;
use sass::{Kind, M, Op, Operand};

impl Decoder<'_> {
    /// WARPGROUP.ARRIVE orders registers, which are read and written at once here; DEPBAR waits.
    pub(super) fn warpgroup(&self) -> Option<Action> {
        if self.inst.has(M::ARRIVE) {
            return Some(Action::Nothing);
        }
        self.inst.has(M::DEPBAR).then_some(())?;
        let (_, left) = self.inst.operands().nth(1)?;
        Some(Action::WaitWgmma { left: u8::try_from(left.value).ok()? })
    }

    /// `HGMMA.64x64x16.F32 sum, rows or both descriptors, …, addend, whether it is added, gsb0`.
    pub(super) fn wgmma(&self) -> Option<Action> {
        let inst = self.inst;
        // What REGOFFSET adds to which register is not known.
        (!inst.has(M::REGOFFSET)).then_some(())?;
        let [n, k] = inst.modifiers().find_map(|name| shape(name.name()))?;
        let (elements, sum) = self.group_elements()?;
        let general: Vec<&Operand> = self.operands_of(Kind::R).collect();
        let sparse = inst.has(M::SP);
        let (metadata, general) = match general.split_last() {
            Some((last, others)) if sparse => (Some((last.value as u8, self.selector())), others),
            _ => (None, &general[..]),
        };
        let (rows, [dest, addend]) = match *general {
            [dest, rows, addend] => (Some(rows), [dest, addend]),
            [dest, addend] => (None, [dest, addend]),
            _ => return None,
        };
        let place = inst.operands().position(|(_, operand)| operand.kind == Kind::U)?;
        let descriptors = inst.operands().nth(place)?.1.value as u8;
        let says = |name: M| inst.suffixes(place).any(|suffix| suffix == name);
        let wgmma = Wgmma {
            n,
            k,
            elements,
            sum,
            negated: [says(M::negA) || rows.is_some_and(|rows| rows.is_neg()), says(M::negB)],
            transposed: [says(M::tnspA), says(M::tnspB)],
            sparse,
        };
        Some(Action::MultiplyInGroup(Box::new(MultiplyInGroup {
            wgmma,
            rows: rows.map(|operand| operand.value as u8),
            descriptors,
            adds: self.only_condition_or_never()?,
            addend: addend.value as u8,
            metadata,
            dest: dest.value as u8,
            closes: (0..inst.operands().count()).any(|index| inst.name(index) == M::gsb0),
        })))
    }

    /// Whose word of the metadata of a sparse MMA counts.
    pub(super) fn selector(&self) -> u8 {
        self.operands_of(Kind::Unsigned).next().map_or(0, |operand| operand.value as u8)
    }

    fn operands_of(&self, kind: Kind) -> impl Iterator<Item = &Operand> {
        self.inst.operands().map(|(_, operand)| operand).filter(move |operand| operand.kind == kind)
    }

    /// The one uniform predicate: whether the addend counts.
    fn only_condition_or_never(&self) -> Option<Condition> {
        let operand = self.operands_of(Kind::V).next()?;
        let source = Source::UniformPredicate(operand.value as u8 & 7);
        Some(Condition { source, not: operand.is_not() })
    }

    fn group_elements(&self) -> Option<([Element; 3], Sum)> {
        let inst = self.inst;
        let named = |names: &[(M, Element)]| -> Vec<Element> {
            let one = |name: M| names.iter().find(|(known, _)| *known == name).map(|(_, element)| *element);
            inst.modifiers().filter_map(one).collect()
        };
        let to = if inst.has(M::F32) { F32 } else { F16 };
        let accuracy = if inst.op() == Op::QGMMA { Accuracy::NARROW } else { Accuracy::WIDE };
        let float = |a: Element, b: Element| ([a, b, Element::Float(to)], Sum::Float(to, accuracy));
        Some(match inst.op() {
            Op::HGMMA => {
                let element = match () {
                    () if inst.has(M::TF32) => Element::Tf32,
                    () if inst.has(M::BF16) => Element::Float(BF16),
                    () => Element::Float(F16),
                };
                float(element, element)
            }
            Op::QGMMA => {
                let factors = named(&[(M::E4M3, Element::Float(E4M3)), (M::E5M2, Element::Float(E5M2))]);
                let [a, b] = factors[..] else { return None };
                float(a, b)
            }
            Op::IGMMA => {
                let byte = |signed| Element::Int(Int { bits: 8, signed });
                let [a, b] = named(&[(M::U8, byte(false)), (M::S8, byte(true))])[..] else { return None };
                ([a, b, Element::Int(Int::S32)], Sum::Int { saturate: inst.has(M::SAT) })
            }
            _ => ([Element::Bit, Element::Bit, Element::Int(Int::S32)], Sum::And),
        })
    }
}

/// Columns and depth of `64x128x16`.
fn shape(name: &str) -> Option<[usize; 2]> {
    let (n, k) = name.strip_prefix("64x")?.split_once('x')?;
    Some([n.parse().ok()?, k.parse().ok()?])
}
