//! Locations of variables: stack, shared and parameter layout, constant banks, linker symbols.

use crate::context::Failure;
use crate::lower::build::RZ;
use crate::lower::{Linked, Lower};
use crate::module::data::{self, Home, ImageSlot};
use cubin::module::{ImageKind, SharedHome, SharedVariable};
use ori::{Arg, Half, Value};
use ptx::ast;
use sass::{M, Op};

/// The location of a variable within its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Offset in the kernel's shared memory, or the number of a symbol that the linker allocates there.
    Shared(u64),
    LinkedShared(u32),
    /// Bytes from the stack pointer.
    Local(u32),
    /// Bytes from the caller's stack pointer.
    Incoming(u32),
    /// Bytes from the first parameter.
    Param(u32),
    /// Offset in constant bank 3, or the number of a symbol that the linker allocates there.
    Const(u32),
    LinkedConst(u32),
    /// The number of the symbol, as [`Arg::Address`] has it.
    Global(u32),
    /// A texture, sampler or surface: its name.
    Image(String),
}

/// A word of constant bank 0: at this offset, or at that of a linker symbol.
#[derive(Clone, Copy)]
pub enum Bank {
    At(u32),
    Linked(u32),
}

/// Tags of opaque handles, in their upper word.
pub const IS_TEXTURE: i64 = 0x2000_0000;
pub const IS_SAMPLER: i64 = 0x4000_0000;
pub const IS_SURFACE: i64 = 0x8000_0000u32 as i32 as i64;

/// Bytes of the handle of a texture, sampler or surface.
pub const IMAGE_HANDLE: u32 = 4;

impl Lower<'_, '_> {
    pub(crate) fn location(&mut self, symbol: ast::Symbol) -> Option<Location> {
        if let Some(offset) = self.shared.get(&symbol) {
            return Some(match self.data.relocatable {
                true => Location::LinkedShared(
                    self.linked(&data::local_name(self.module, symbol), Linked::Shared),
                ),
                false => Location::Shared(*offset),
            });
        }
        if let Some(offset) = self.local.get(&symbol) {
            return Some(Location::Local(*offset));
        }
        if let Some(offset) = self.in_place.get(&symbol) {
            return Some(Location::Incoming(*offset));
        }
        if let Some(param) = self.kernel.params.iter().find(|p| p.symbol == symbol && p.image.is_none()) {
            return Some(Location::Param(param.offset));
        }
        if let ast::SymbolKind::Function { .. } = self.module.symbols[symbol.0 as usize].kind {
            let name = data::name(self.module, self.data.aliased(symbol));
            self.kernel.takes.push(name.clone());
            let unified = self.data.relocatable && self.machine.unified_functions;
            return Some(Location::Global(match unified {
                true => self.linked(&name, Linked::UnifiedFunction),
                false => self.kernel.code.symbol(&name),
            }));
        }
        match self.data.home(symbol)? {
            Home::Global(name) => Some(Location::Global(self.kernel.code.symbol(name))),
            Home::Constant(offset) => Some(Location::Const(*offset)),
            Home::LinkedConstant(name) => Some(Location::LinkedConst(self.linked(name, Linked::Constant))),
            Home::LinkedShared(name) => Some(Location::LinkedShared(self.linked(name, Linked::Shared))),
            Home::Shared(offset) => Some(Location::Shared(*offset)),
            // Dynamic shared memory begins after all static variables.
            Home::Dynamic(align) => {
                self.kernel.dynamic_shared = true;
                let end = match self.device {
                    Some(function) => self.data.shared.dynamic_in(function.symbol),
                    None => self.kernel.shared().0,
                };
                Some(Location::Shared(end.next_multiple_of((*align).max(1))))
            }
            Home::Image(name) => Some(Location::Image(name.clone())),
        }
    }

    /// The number of a symbol that is no address in global memory.
    pub(crate) fn linked(&mut self, name: &str, linked: Linked) -> u32 {
        let symbol = self.kernel.code.symbol(name);
        self.kernel.linked.insert(symbol, linked);
        symbol
    }

    /// Where the parameters of this kernel begin in bank 0.
    pub(crate) fn params_start(&self) -> u32 {
        self.machine.params(self.kernel.param_bytes)
    }

    /// The location in bank 0 of a handle, after the parameters. Device functions don't know the kernel's parameters:
    /// for them all kernels of the module have the same slots at the same offset.
    pub(crate) fn image_slot(&mut self, slot: ImageSlot) -> Bank {
        let images = match &self.data.common_slots {
            Some(common) => {
                let at = common.slots.iter().position(|known| *known == slot).unwrap_or(0);
                return Bank::At(common.first + IMAGE_HANDLE * at as u32);
            }
            None if self.slots_are_linked() => {
                let name = slot.image.or(slot.sampler).unwrap_or_default();
                return Bank::Linked(self.kernel.code.symbol(&name));
            }
            None => &mut self.kernel.images,
        };
        let at = images.iter().position(|known| *known == slot).unwrap_or_else(|| {
            images.push(slot);
            images.len() - 1
        });
        Bank::At(self.kernel.first_image(self.machine) + IMAGE_HANDLE * at as u32)
    }

    /// Does the linker allocate the handles? Kernels of other files may call this function.
    pub(crate) fn slots_are_linked(&self) -> bool {
        self.data.relocatable && !self.kernel.entry
    }

    /// Allocates the variables of the body.
    pub(crate) fn variables(&mut self) -> Result<(), Failure> {
        let body = self.body;
        for stmt in &body.stmts {
            let ast::Stmt::Variable(v) = stmt else { continue };
            let ast::SymbolKind::Variable { bytes, align, .. } =
                self.module.symbols[v.symbol.0 as usize].kind
            else {
                continue;
            };
            for symbol in (v.symbol.0..v.symbol.0 + v.range.unwrap_or(1)).map(ast::Symbol) {
                match v.space {
                    ast::Space::Shared if self.kernel.entry && !v.linkage.external => {
                        self.own_shared(symbol, bytes, align.max(1));
                    }
                    ast::Space::Local => {
                        let offset = self.kernel.code.frame.next_multiple_of(align.max(1) as u32);
                        self.local.insert(symbol, offset);
                        self.kernel.code.frame = offset + bytes as u32;
                    }
                    // Parameters of calls are registers, and the rest is the module's.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn own_shared(&mut self, symbol: ast::Symbol, bytes: u64, align: u64) {
        self.kernel.shared_align = self.kernel.shared_align.max(align);
        let offset = self.kernel.shared_bytes.next_multiple_of(align);
        self.kernel.shared_bytes = offset + bytes;
        self.own.push((symbol, offset));
        if self.data.relocatable {
            let name = data::local_name(self.module, symbol);
            // The container knows which kernel this is.
            let home = SharedHome::Kernel(0);
            let binding = cubin::Binding::LOCAL;
            let variable = SharedVariable { name, binding, home, align, size: bytes, address: 0 };
            self.kernel.linked_shared.push(variable);
        }
        // Alignment may enlarge the module's part: offsets are final after the last variable.
        let first = self.kernel.own_shared_start();
        self.shared = self.own.iter().map(|(s, offset)| (*s, first + offset)).collect();
    }

    /// The size of `.const` variables: the module's, or the linker's sum over all files.
    pub(crate) fn const_bytes(&mut self) -> Arg {
        if !self.data.relocatable {
            return Arg::Imm(self.data.constant_bytes as i64);
        }
        let symbol = self.linked(cubin::module::CONSTANT_SIZE, Linked::LoaderSize);
        self.emit(Op::MOV, &[], 1, &[Arg::Address { symbol, addend: 0, half: Half::Low }]).into()
    }

    /// The address of a variable within its own space plus some bytes, one word (two for `.global`).
    pub(crate) fn variable_address(&mut self, symbol: ast::Symbol, plus: i64) -> Option<Value> {
        // Addresses of one word wrap around.
        let word = |n: i64| Arg::Imm(i64::from(n as i32));
        match self.location(symbol)? {
            Location::Shared(at) => {
                let base = word(i64::from(self.machine.shared_base) + at as i64 + plus);
                Some(self.shared_address(base))
            }
            // The linker's offsets start after the reserved bytes.
            Location::LinkedShared(symbol) => {
                let addend = i64::from(self.machine.shared_base) + i64::from(plus as i32);
                Some(self.shared_address(Arg::Address { symbol, addend, half: Half::Low }))
            }
            Location::LinkedConst(symbol) => {
                Some(self.emit(Op::MOV, &[], 1, &[Arg::Address { symbol, addend: plus, half: Half::Low }]))
            }
            Location::Local(at) => {
                Some(self.emit(Op::IADD3, &[], 1, &[Arg::Stack, word(i64::from(at) + plus), RZ]))
            }
            Location::Incoming(at) => {
                let offset = Arg::Incoming(at.wrapping_add(plus as u32));
                Some(self.emit(Op::IADD3, &[], 1, &[Arg::Stack, offset, RZ]))
            }
            Location::Param(at) | Location::Const(at) => {
                Some(self.emit(Op::MOV, &[], 1, &[word(i64::from(at) + plus)]))
            }
            Location::Global(symbol) => {
                let half = |half| Arg::Address { symbol, addend: plus, half };
                Some(self.pack(&[half(Half::Low), half(Half::High)]))
            }
            Location::Image(name) => {
                let tag = match self.data.image_kind(&name)? {
                    ImageKind::Texture => IS_TEXTURE,
                    ImageKind::Sampler { .. } => IS_SAMPLER,
                    ImageKind::Surface => IS_SURFACE,
                };
                (plus == 0).then(|| self.opaque(&name, tag))
            }
        }
    }

    /// The address of a location in the block's own shared memory.
    pub(crate) fn shared_address(&mut self, base: Arg) -> Value {
        if !self.machine.has_clusters {
            return self.copy(base);
        }
        // Each block of a cluster has its own window of 16 MiB.
        let rank = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_CgaCtaId)]);
        let base = self.in_register(base);
        self.emit(Op::LEA, &[], 1, &[rank.into(), base, Arg::Imm(24)])
    }
}
