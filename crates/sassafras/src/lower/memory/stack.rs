//! Lowers `alloca`, `stacksave` and `stackrestore`: dynamic stack allocation.
//!
//! The stack pointer moves down by the size, and the frame is addressed through a frame pointer
//! ([`ori::Function::frame_register`]). The lowest bytes are the outgoing argument area, so an allocation starts above
//! it.

use crate::lower::Lower;
use crate::lower::build::RZ;
use crate::lower::control::call;
use crate::lower::instruction::Ins;
use ori::Arg;
use ptx::ast;
use ptx::ast::Operand;
use sass::Op;

/// Callees rely on it: their frames have variables with this alignment.
const LEAST_ALIGNMENT: u64 = 16;

/// Does a body move its stack pointer?
pub fn moves(module: &ast::Module, body: &ast::Body) -> bool {
    let moving = |inst: &ast::Inst| {
        matches!(module.opcodes[inst.opcode.0 as usize].mnemonic, "alloca" | "stackrestore")
    };
    body.stmts.iter().any(|s| matches!(s, ast::Stmt::Inst(i) if moving(i)))
}

impl<'a> Lower<'_, 'a> {
    /// The base of the outgoing argument area.
    pub(crate) fn stack_top(&self) -> Arg {
        if self.kernel.code.moving_stack { Arg::StackTop } else { Arg::Stack }
    }

    pub(crate) fn stack(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        match ins.mnemonic() {
            "alloca" => self.alloca(ins, ty),
            "stacksave" => {
                // No `MOV`: that could be rematerialized elsewhere.
                let top = self.stack_top();
                let value = self.emit(Op::IADD3, &[], 1, &[top, Arg::Imm(0), RZ]);
                self.set_pointer(ins.get(0)?, value.into(), ty)
            }
            "stackrestore" => {
                let saved = self.pointer(ins.get(0)?, ty)?;
                self.move_stack(saved);
                Some(())
            }
            _ => None,
        }
    }

    fn alloca(&mut self, ins: &Ins<'a>, ty: ptx::Type) -> Option<()> {
        let size = self.pointer(ins.get(1)?, ty)?;
        let align = match ins.get(2) {
            Some(Operand::Int { value, .. }) => *value,
            Some(_) => return None,
            None => LEAST_ALIGNMENT,
        };
        let align = align.max(LEAST_ALIGNMENT);
        let below = u64::from(call::outgoing(self.module, self.body, self.machine, self.conventions));
        // The argument area is padded so that the address above it is aligned if the stack pointer is.
        let aligned = below.next_multiple_of(align);
        let extra = if aligned == below { RZ } else { Arg::Imm(below as i64 - aligned as i64) };
        let top = self.stack_top();
        let size = self.in_register(size);
        let lower = self.emit(Op::IADD3, &[], 1, &[top, size.negated(), extra]);
        let mask = Arg::Imm(i64::from((align as u32).wrapping_neg() as i32));
        let new = self.lop3(lower.into(), mask, RZ, 0xc0);
        self.move_stack(new.into());
        let address = self.emit(Op::IADD3, &[], 1, &[new.into(), Arg::Imm(aligned as i64), RZ]);
        self.set_pointer(ins.get(0)?, address.into(), ty)
    }

    fn move_stack(&mut self, to: Arg) {
        self.effect(Op::MOV, &[], &[], &[Arg::StackTop, to]);
    }

    /// The low word of a pointer or size.
    fn pointer(&mut self, operand: &Operand, ty: ptx::Type) -> Option<Arg> {
        match ty.bits() {
            64 => Some(self.words(operand, ty)?[0]),
            _ => self.word(operand, ty),
        }
    }

    fn set_pointer(&mut self, to: &Operand, address: Arg, ty: ptx::Type) -> Option<()> {
        let value = match ty.bits() {
            64 => self.pack(&[address, RZ]),
            _ => self.copy(address),
        };
        self.set(to, value)
    }
}
