//! Bitwise function merging: combines a cone of `LOP3`s over at most three values into one `LOP3`.
//!
//! ```text
//! v3 = LOP3.LUT v1, v2, RZ, 0x3c         ; b ^ c
//! v4 = LOP3.LUT v0, v3, RZ, 0xc0         ; a & (b ^ c)
//! v5 = LOP3.LUT v1, v2, RZ, 0xc0         ; b & c
//! v6 = LOP3.LUT v4, v5, RZ, 0x3c    →    v6 = LOP3.LUT v0, v1, v2, 0xe8     ; the majority of a, b, c
//! ```
//!
//! The operands of an instruction are replaced by those of their definitions if at most three leaves remain and at
//! least one definition becomes dead. The truth table over the leaves is computed entry by entry, so every function is
//! covered.

use super::rules::{RZ, is_zero, plain};
use super::{Combine, Rewrite};
use ori::{Arg, InstData, Op, entity::Entity};
use sass::M;
use smallvec::SmallVec;

/// A bitwise function of three operands, by its truth table.
pub(super) type Lop3 = ([Arg; 3], i64);

/// The operands of a `LOP3`, and its table.
pub(super) fn match_lop3(data: &InstData) -> Option<Lop3> {
    let [a, b, c, Arg::Imm(table), Arg::True(false)] = data.args[..] else { return None };
    (data.modifiers[..] == [M::LUT] && data.results.len() == 1).then_some(([a, b, c], table))
}

/// The entry of a table for three bits.
pub(super) fn lut_bit(table: i64, [a, b, c]: [bool; 3]) -> bool {
    table >> (usize::from(a) << 2 | usize::from(b) << 1 | usize::from(c)) & 1 != 0
}

/// Which operands are replaced by their definitions, as bits: most of them first.
const SUBSETS: [u8; 7] = [0b111, 0b110, 0b101, 0b011, 0b100, 0b010, 0b001];

/// Only the second operand can be a constant, so the order matters.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// A `LOP3` and the `LOP3`s that define some of its operands.
struct Cone {
    root: Lop3,
    /// The definition of each operand that is replaced.
    inner: [Option<Lop3>; 3],
    leaves: SmallVec<[Arg; 3]>,
}

impl Cone {
    /// `None` if there are more than three leaves, or one that an operand of another position can't be.
    fn new(root: Lop3, inner: [Option<Lop3>; 3]) -> Option<Cone> {
        let mut leaves: SmallVec<[Arg; 3]> = SmallVec::new();
        for (operand, inner) in root.0.iter().zip(&inner) {
            let inputs = inner.as_ref().map_or(std::slice::from_ref(operand), |(operands, _)| &operands[..]);
            for input in inputs.iter().filter(|input| constant_bit(input).is_none()) {
                if matches!(input, Arg::Use(u) if !u.is_plain()) {
                    return None;
                }
                if !leaves.contains(input) {
                    leaves.push(*input);
                }
            }
        }
        (leaves.len() <= 3).then_some(Cone { root, inner, leaves })
    }

    /// The function's bit for a bit of each leaf.
    fn bit(&self, of_leaf: [bool; 3]) -> bool {
        let input = |arg: &Arg| {
            let leaf = || self.leaves.iter().position(|leaf| leaf == arg).is_some_and(|index| of_leaf[index]);
            constant_bit(arg).unwrap_or_else(leaf)
        };
        let operand = |index: usize| match &self.inner[index] {
            Some((operands, table)) => lut_bit(*table, operands.each_ref().map(input)),
            None => input(&self.root.0[index]),
        };
        lut_bit(self.root.1, [operand(0), operand(1), operand(2)])
    }

    /// Operands and table with the leaves in an order.
    fn arguments(&self, order: [usize; 3]) -> [Arg; 5] {
        let mut table = 0;
        for bits in 0..8u8 {
            let mut of_leaf = [false; 3];
            for (position, leaf) in order.into_iter().enumerate() {
                of_leaf[leaf] = bits >> (2 - position) & 1 != 0;
            }
            table |= i64::from(self.bit(of_leaf)) << bits;
        }
        let [a, b, c] = order.map(|leaf| self.leaves.get(leaf).copied().unwrap_or(RZ));
        [a, b, c, Arg::Imm(table), Arg::True(false)]
    }
}

/// All bits of the operand, if they are the same.
fn constant_bit(arg: &Arg) -> Option<bool> {
    match arg {
        arg if is_zero(arg) => Some(false),
        Arg::Imm(bits) if *bits as u32 == u32::MAX => Some(true),
        _ => None,
    }
}

/// The `LOP3` that defines an operand, and whether it has no other use.
fn definition(c: &Combine, arg: &Arg) -> Option<(Lop3, bool)> {
    let value = plain(arg)?;
    let data = c.definition_of(value).filter(|d| d.op == Op::Machine(sass::Op::LOP3))?;
    Some((match_lop3(data)?, c.uses[value.index()] == 1))
}

pub(super) fn merge_cone(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let root = match_lop3(data)?;
    let definitions = root.0.each_ref().map(|arg| definition(c, arg));
    for subset in SUBSETS {
        let is_taken = |index: usize| subset >> index & 1 != 0;
        let taken = [0, 1, 2].map(|index| definitions[index].filter(|_| is_taken(index)));
        let is_whole = (0..3).all(|index| is_taken(index) == taken[index].is_some());
        // Those with other uses stay: they are looked through only beside one that becomes dead.
        if !is_whole || !taken.iter().flatten().any(|(_, is_single_use)| *is_single_use) {
            continue;
        }
        let Some(cone) = Cone::new(root, taken.map(|t| t.map(|(lop3, _)| lop3))) else { continue };
        let found = ORDERS
            .into_iter()
            .find_map(|order| c.legal(data, sass::Op::LOP3, &[M::LUT], &cone.arguments(order)));
        if found.is_some() {
            return found;
        }
    }
    None
}
