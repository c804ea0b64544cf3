//! The target of a compilation: the row of [`targets::Target`], and what the code may use of the machine.

use cubin::RelocType;
use std::ops::Deref;
use targets::Target;

pub use targets::ParamWindow;

/// A target, as code of one kind sees it. Everything else is in the row, which this derefs to.
#[derive(Clone, Copy, Debug)]
pub struct TargetMachine {
    row: &'static Target,
    /// Offset of the descriptor of global memory; machines before sm_80 have none, and patches use none.
    pub descriptor: Option<u32>,
    /// May code use uniform registers? In a kernel that is patched they belong to the kernel.
    pub uniform_registers: bool,
    /// The relocation by which the loader fills in the target of a call.
    pub call_reloc: RelocType,
}

impl Deref for TargetMachine {
    type Target = Target;

    fn deref(&self) -> &Target {
        self.row
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Kernels,
    /// Functions that tools put into kernels (`-astoolspatch`). ptxas's code for them has no uniform register, and
    /// accesses of memory without a descriptor; constant bank 0 is read as in kernels.
    Patches,
}

const COUNT: usize = Target::ALL.len();

static MACHINES: [TargetMachine; COUNT] = machines(Code::Kernels);
static PATCHED_MACHINES: [TargetMachine; COUNT] = machines(Code::Patches);

const fn machines(code: Code) -> [TargetMachine; COUNT] {
    let mut all = [machine(&Target::ALL[0], code); COUNT];
    let mut i = 1;
    while i < COUNT {
        all[i] = machine(&Target::ALL[i], code);
        i += 1;
    }
    all
}

const fn machine(row: &'static Target, code: Code) -> TargetMachine {
    let patches = matches!(code, Code::Patches);
    TargetMachine {
        row,
        descriptor: if patches { None } else { row.descriptor },
        uniform_registers: !patches,
        call_reloc: if row.wide_call_target { RelocType::ABS55_16_34 } else { RelocType::ABS47_34 },
    }
}

impl TargetMachine {
    /// The modifier of block scaling with blocks of 16.
    pub fn block16_modifier(&self) -> sass::M {
        if self.block16_scales { sass::M::BLOCK16 } else { sass::M::_4X }
    }

    /// The operation that loads a word of a constant bank into a uniform register.
    pub fn uniform_constant_load(&self) -> sass::Op {
        if self.has_ldcu { sass::Op::LDCU } else { sass::Op::ULDC }
    }

    /// Do convergence barriers that threads leave by `BREAK` take `RELIABLE`?
    pub fn has_reliable_barriers(&self) -> bool {
        self.sm >= 100
    }

    pub fn of(target: ptx::Target) -> Option<&'static TargetMachine> {
        MACHINES.iter().find(|machine| machine.sm == target.sm())
    }

    /// What code may use of the machine that tools put into the kernels of others.
    pub fn for_patches(target: ptx::Target) -> Option<&'static TargetMachine> {
        PATCHED_MACHINES.iter().find(|machine| machine.sm == target.sm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_use_no_descriptor_and_no_uniform_register() {
        for target in Target::ALL {
            let name = ptx::Target::find(target.name).expect("a name of PTX");
            let [kernels, patches] =
                [TargetMachine::of(name), TargetMachine::for_patches(name)].map(|m| m.expect("a row"));
            assert_eq!((kernels.descriptor, kernels.uniform_registers), (target.descriptor, true));
            assert_eq!((patches.descriptor, patches.uniform_registers), (None, false));
            assert_eq!((kernels.sm, patches.sm), (target.sm, target.sm));
        }
    }
}
