//! Where variables lie.

use super::Lower;
use super::build::RZ;
use ori::{Arg, Half, Value};
use ptx::ast;
use sass::{M, Op};

/// The place of a variable within its space.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bytes from the beginning of the kernel's shared memory.
    Shared(u64),
    /// Bytes from the stack pointer.
    Local(u32),
    /// Bytes from the first parameter.
    Param(u32),
    /// Bytes from the beginning of constant bank 3.
    Const(u32),
    /// The number of the symbol, as [`Arg::Address`] has it.
    Global(u32),
}

impl Lower<'_, '_> {
    pub(super) fn place(&mut self, symbol: ast::Symbol) -> Option<Place> {
        if let Some(offset) = self.shared.get(&symbol) {
            return Some(Place::Shared(*offset));
        }
        if let Some(offset) = self.local.get(&symbol) {
            return Some(Place::Local(*offset));
        }
        let param = self.kernel.params.iter().find(|p| p.symbol == symbol)?;
        Some(Place::Param(param.offset))
    }

    /// Bytes of the module's `.const` variables.
    pub(super) fn const_bytes(&self) -> u32 {
        0
    }

    /// The address of a variable within its own space, one word (two for `.global`).
    pub(super) fn variable_address(&mut self, symbol: ast::Symbol) -> Option<Value> {
        match self.place(symbol)? {
            Place::Shared(offset) => {
                let address = self.shared_place(offset);
                Some(self.copy(address))
            }
            Place::Local(offset) => {
                Some(self.emit(Op::IADD3, &[], 1, &[Arg::Stack, Arg::Imm(i64::from(offset)), RZ]))
            }
            Place::Param(offset) | Place::Const(offset) => {
                Some(self.emit(Op::MOV, &[], 1, &[Arg::Imm(i64::from(offset))]))
            }
            Place::Global(symbol) => {
                let half = |half| Arg::Address { symbol, addend: 0, half };
                Some(self.pack(&[half(Half::Low), half(Half::High)]))
            }
        }
    }

    /// The address in shared memory of this many bytes from the kernel's first.
    fn shared_place(&mut self, offset: u64) -> Arg {
        let base = Arg::Imm(i64::from(self.machine.shared) + offset as i64);
        if !self.machine.has_clusters() {
            return base;
        }
        // Each block of a cluster has its own window of 16 MiB.
        let rank = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_CgaCtaId)]);
        let base = self.in_register(base);
        self.emit(Op::LEA, &[], 1, &[rank.into(), base, Arg::Imm(24)]).into()
    }
}
