//! Loads, stores, atomics and copies: where their addresses and data are.

use super::Decoder;
use crate::memory::Space;
use crate::memory::weak::{Fence, Scope, Strength};
use crate::ptx::decode::memory::atomic_function;
use crate::sass::program::*;
use ptx::Type;
use sass::{Inst, Kind, M, Op, Operand, Role};

/// Bytes of an access, and whether a narrow value is extended with its sign.
pub fn size(inst: &Inst) -> (u8, bool) {
    let sizes = [
        (M::U8, (1, false)),
        (M::S8, (1, true)),
        (M::U16, (2, false)),
        (M::S16, (2, true)),
        (M::_64, (8, false)),
        (M::_128, (16, false)),
    ];
    sizes.into_iter().find(|(name, _)| inst.has(*name)).map_or((4, false), |(_, size)| size)
}

/// How an atomic operation names a type, and PTX's name of it; the number of elements.
const TYPES: [(M, &str, u8); 19] = [
    (M::F16x2_RN, "f16x2", 1),
    (M::F16x4_RN, "f16x2", 2),
    (M::F16x8_RN, "f16x2", 4),
    (M::BF16x2_RN, "bf16x2", 1),
    (M::BF16x4_RN, "bf16x2", 2),
    (M::BF16x8_RN, "bf16x2", 4),
    (M::F32_FTZ_RN, "f32", 1),
    (M::F32x2_FTZ_RN, "f32", 2),
    (M::F32x4_FTZ_RN, "f32", 4),
    (M::F32_RN, "f32", 1),
    (M::F32x2_RN, "f32", 2),
    (M::F32x4_RN, "f32", 4),
    (M::F64_RN, "f64", 1),
    (M::S64, "s64", 1),
    (M::S32, "s32", 1),
    (M::_128, "b128", 1),
    (M::_64, "u64", 1),
    (M::_32, "u32", 1),
    (M::Empty, "u32", 1),
];

pub(super) const OPERATIONS: [(M, &str); 11] = [
    (M::ADD, "add"),
    (M::MIN, "min"),
    (M::MAX, "max"),
    (M::INC, "inc"),
    (M::DEC, "dec"),
    (M::AND, "and"),
    (M::OR, "or"),
    (M::XOR, "xor"),
    (M::EXCH, "exch"),
    (M::CAS, "cas"),
    (M::CAST, "cas"),
];

impl Decoder<'_> {
    /// Operands in brackets, a list for each pair of them; descriptors are left out.
    fn bracketed(&self) -> Vec<Vec<(usize, &Operand)>> {
        let mut addresses: Vec<Vec<(usize, &Operand)>> = Vec::new();
        for (index, (slot, operand)) in self.inst.operands().enumerate() {
            if slot.frame.is_empty() || slot.frame.contains("desc[") {
                continue;
            }
            if slot.opens || addresses.is_empty() {
                addresses.push(Vec::new());
            }
            if let Some(address) = addresses.last_mut() {
                address.push((index, operand));
            }
        }
        addresses
    }

    pub(super) fn address(&self, number: usize, space: Space) -> Option<Address> {
        let mut address = Address {
            space,
            base: Source::Immediate(0),
            scale: 1,
            uniform: Source::Immediate(0),
            offset: 0,
            wide: false,
        };
        for (index, operand) in self.bracketed().into_iter().nth(number)? {
            let words = self.inst.words(index);
            match operand.kind {
                Kind::R => {
                    address.base = self.source(index, operand)?;
                    address.wide |= words == 2;
                    for suffix in self.inst.suffixes(index) {
                        let scales = [(M::X4, 4), (M::X8, 8), (M::X16, 16)];
                        address.scale = scales.into_iter().find(|(name, _)| *name == suffix)?.1;
                    }
                }
                Kind::U => {
                    address.uniform = self.source(index, operand)?;
                    address.wide |= words == 2;
                }
                Kind::Signed | Kind::Unsigned => address.offset = operand.value,
                _ => return None,
            }
        }
        Some(address)
    }

    /// First registers of operands outside of brackets.
    fn data(&self, role: Role) -> Vec<u8> {
        let operands = self
            .inst
            .operands()
            .filter(|(slot, operand)| slot.frame.is_empty() && slot.role == role && operand.kind == Kind::R);
        operands.map(|(_, operand)| operand.value as u8).collect()
    }

    /// Predicates whose meaning is not known are all true.
    pub(super) fn has_no_predicates(&self) -> bool {
        self.inst.operands().all(|(slot, operand)| match operand.kind {
            Kind::P | Kind::V => match slot.role {
                Role::Def => operand.value == i64::from(sass::PT),
                Role::Use => operand.value == i64::from(sass::PT) && !operand.is_not(),
            },
            _ => true,
        })
    }

    fn space(&self) -> Space {
        match self.inst.op() {
            Op::LDS | Op::STS | Op::ATOMS => Space::Shared,
            Op::LDL | Op::STL => Space::Local,
            Op::LDG | Op::STG | Op::ATOMG | Op::REDG => Space::Global,
            _ => Space::Generic,
        }
    }

    /// How an access is ordered: `.STRONG` and `.MMIO` with their scopes, one word or two.
    fn strength(&self) -> Strength {
        let has = |names: &[M]| names.iter().any(|name| self.inst.has(*name));
        match () {
            () if has(&[M::STRONG_SM, M::STRONG_SM_PRIVATE]) => Strength::Strong(Scope::Block),
            () if has(&[M::STRONG, M::MMIO]) && has(&[M::CTA, M::SM]) => Strength::Strong(Scope::Block),
            () if has(&[M::STRONG, M::MMIO, M::STRONG_GPU, M::STRONG_GPU_PRIVATE, M::STRONG_SYS])
                || has(&[M::MMIO_GPU, M::MMIO_SYS]) =>
            {
                Strength::Strong(Scope::Device)
            }
            () => Strength::Weak,
        }
    }

    /// An atomic operation is strong; of shared memory, in the block.
    fn atomic_scope(&self) -> Scope {
        match self.strength() {
            Strength::Strong(scope) => scope,
            Strength::Weak if self.space() == Space::Shared => Scope::Block,
            Strength::Weak => Scope::Device,
        }
    }

    /// MEMBAR orders what the warp did, and what it read in the block; CCTL.IVALL makes it forget what it has of the
    /// device.
    pub(super) fn fence(&self) -> Action {
        let block = self.inst.has(M::CTA) || self.inst.has(M::SM);
        let scope = if block { Scope::Block } else { Scope::Device };
        match self.inst.op() {
            Op::MEMBAR => Action::Fence(Fence { release: Some(scope), acquire: Some(Scope::Block) }),
            Op::FENCE if self.inst.has(M::G) => {
                Action::Fence(Fence { release: Some(Scope::Device), acquire: None })
            }
            Op::FENCE => Action::Fence(Fence { release: Some(Scope::Block), acquire: None }),
            Op::CCTL if self.inst.has(M::IVALL) => {
                Action::Fence(Fence { release: None, acquire: Some(Scope::Device) })
            }
            _ => Action::Nothing,
        }
    }

    pub(super) fn access(&self) -> Option<Action> {
        self.has_no_predicates().then_some(())?;
        // 256 bits are in two groups of registers, which is not supported.
        (!self.inst.has(M::_256)).then_some(())?;
        let address = self.address(0, self.space())?;
        let (bytes, signed) = size(self.inst);
        Some(match self.inst.op() {
            Op::STG | Op::ST | Op::STS | Op::STL => {
                let data = *self.data(Role::Use).first()?;
                Action::Store { address, bytes, data, strength: self.strength() }
            }
            _ => {
                let (dest, strength) = (self.dest(), self.strength());
                Action::Load(Box::new(Load { address, bytes, signed, dest, strength }))
            }
        })
    }

    /// LDGMC: of one device, a reduction of what all have is what it has.
    pub(super) fn load_multicast(&self) -> Option<Action> {
        let (result, _) = self.inst.operands().enumerate().find(|(_, (slot, _))| slot.role == Role::Def)?;
        let bytes = 4 * u8::try_from(self.inst.words(result)).ok()?;
        let address = self.address(0, Space::Multicast)?;
        let strength = Strength::Strong(Scope::Device);
        Some(Action::Load(Box::new(Load { address, bytes, signed: false, dest: self.dest(), strength })))
    }

    pub(super) fn atomic(&self) -> Option<Action> {
        let inst = self.inst;
        // No check where the address can't be wrong.
        let done = self.truth(0);
        (self.has_no_predicates() || inst.op() == Op::ATOM).then_some(())?;
        if inst.has(M::ARRIVE) || inst.has(M::SAFEADD) {
            return None;
        }
        if inst.has(M::POPC) {
            return self.increment();
        }
        let (_, operation) = OPERATIONS.into_iter().find(|(name, _)| inst.has(*name))?;
        let (_, name, elements) =
            TYPES.into_iter().find(|(name, ..)| *name == M::Empty || inst.has(*name))?;
        let ty = Type::find(name)?;
        let operands = self.data(Role::Use);
        (operands.len() == if operation == "cas" { 2 } else { 1 }).then_some(())?;
        Some(Action::Atomic(Box::new(Atomic {
            address: self.address(0, self.space())?,
            bytes: ty.bytes() as u8,
            elements,
            operands: operands.into(),
            dest: self.dest(),
            function: atomic_function(operation, ty)?,
            tells_success: inst.has(M::CAST),
            works_on_shared: operation == "cas" || matches!(name, "u32" | "s32"),
            works_on_local: matches!(name, "u32" | "s32"),
            done,
            scope: self.atomic_scope(),
        })))
    }

    /// POPC.INC: one more for each lane. What it returns is not known.
    fn increment(&self) -> Option<Action> {
        (self.dest() == Dest::None && self.inst.op() == Op::ATOMS).then_some(())?;
        Some(Action::Atomic(Box::new(Atomic {
            address: self.address(0, self.space())?,
            bytes: 4,
            elements: 1,
            operands: Box::new([]),
            dest: Dest::None,
            function: Box::new(|_, old, _| u128::from((old as u32).wrapping_add(1))),
            tells_success: false,
            works_on_shared: true,
            works_on_local: false,
            done: Truth::None,
            scope: self.atomic_scope(),
        })))
    }

    pub(super) fn copy(&self) -> Option<Action> {
        let (bytes, _) = size(self.inst);
        Some(Action::Copy {
            to: self.address(0, Space::Shared)?,
            from: self.address(1, Space::Global)?,
            bytes,
            valid: self.condition(),
            fills: self.inst.has(M::ZFILL),
        })
    }

    pub(super) fn query_space(&self) -> Option<Action> {
        let spaces =
            [(M::G, Space::Global), (M::L, Space::Local), (M::S, Space::Shared), (M::D, Space::Shared)];
        let (_, space) = spaces.into_iter().find(|(name, _)| self.inst.has(*name))?;
        // What the register result says is not known.
        (self.dest() == Dest::None).then_some(())?;
        Some(Action::QuerySpace { space, address: self.address(0, Space::Generic)?, truth: self.truth(0) })
    }
}
