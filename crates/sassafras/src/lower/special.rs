//! Special registers: where each comes from.

use super::Lower;
use ori::{Arg, Value};
use ptx::ast::Operand;
use sass::{M, Op};

impl Lower<'_, '_> {
    /// A special register of 32 bits.
    pub(super) fn special_word(&mut self, operand: &Operand) -> Option<Value> {
        let Operand::Special { row, component } = operand else { return None };
        let axis = usize::from((*component)?);
        let pick = |names: [M; 3]| names.get(axis).copied().map(Arg::Name);
        let bank = |base: u32| Arg::Bank { bank: 0, index: None, offset: (base + 4 * axis as u32) as i32 };
        Some(match ptx::sreg::TABLE[usize::from(*row)].name {
            "%tid" => {
                let register = pick([M::SR_TID_X, M::SR_TID_Y, M::SR_TID_Z])?;
                self.emit(Op::S2R, &[], 1, &[register])
            }
            "%ctaid" => {
                let register = pick([M::SR_CTAID_X, M::SR_CTAID_Y, M::SR_CTAID_Z])?;
                self.emit(Op::S2R, &[], 1, &[register])
            }
            "%ntid" if axis < 3 => self.emit(Op::LDC, &[], 1, &[bank(self.machine.ntid)]),
            "%nctaid" if axis < 3 => self.emit(Op::LDC, &[], 1, &[bank(self.machine.nctaid)]),
            _ => return None,
        })
    }

    /// A special register of 64 bits.
    pub(super) fn special_wide(&mut self, _: &Operand) -> Option<Value> {
        None
    }

    /// A special register of one bit.
    pub(super) fn special_predicate(&mut self, _row: u16) -> Option<Value> {
        None
    }
}
