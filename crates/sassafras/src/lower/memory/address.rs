//! Addresses: bracketed operands, conversion between a space and the generic one, and distributed shared memory.

use crate::context::target::ParamWindow;
use crate::lower::Lower;
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::memory::variables::Location;
use crate::lower::operand_use::VALUE;
use ori::{Arg, File, Half, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// The state space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    /// Of this block.
    Shared,
    /// Of any block of the cluster: generic accesses through the shared window.
    Cluster,
    Local,
    Const,
    Param,
}

impl Space {
    /// `None` for other modifiers.
    fn of(word: Option<&str>) -> Option<Space> {
        Some(match word {
            None => Space::Generic,
            Some("global") => Space::Global,
            Some("shared" | "shared::cta") => Space::Shared,
            Some("shared::cluster") => Space::Cluster,
            Some("local") => Space::Local,
            Some("const") => Space::Const,
            Some("param" | "param::entry") => Space::Param,
            Some(_) => return None,
        })
    }

    /// May an access have a cache operator?
    pub fn is_cached(self) -> bool {
        matches!(self, Space::Generic | Space::Global)
    }

    /// Words of an address.
    fn words(self) -> u8 {
        match self {
            Space::Generic | Space::Global | Space::Cluster => 2,
            _ => 1,
        }
    }
}

/// `[base + offset]`, as machine operands: the base is a register pair for global and generic memory, else one
/// register.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: Arg,
    pub offset: i64,
}

impl Address {
    pub fn args(self) -> [Arg; 2] {
        [self.base, Arg::Imm(self.offset)]
    }
}

/// Offset fields are signed, of 24 bits; those of atomics on some machines have 23.
pub(crate) const OFFSETS: std::ops::Range<i64> = -(1 << 22)..1 << 22;

impl<'a> Lower<'_, 'a> {
    /// The space that an instruction names.
    pub(crate) fn space(&mut self, ins: &Ins<'a>) -> Option<Space> {
        Space::of(ins.word(Kind::Space))
    }

    /// An address operand. Adding up to `reach` bytes stays within the offset field.
    pub(crate) fn address(&mut self, operand: &Operand, space: Space, reach: i64) -> Option<Address> {
        let Operand::Address(range) = operand else { return None };
        let (base, offset) = match self.body.list(*range) {
            [base] => (base, 0),
            [base, offset @ Operand::Offset(n)] => {
                self.mark_read(offset);
                (base, *n)
            }
            _ => return None,
        };
        // A register, a variable or a number: none has more parts.
        self.mark_parts(base, VALUE);
        let address = match base {
            Operand::Reg(reg) => {
                let value = self.read(*reg);
                Address { base: self.base(value, space)?, offset }
            }
            Operand::Symbol(symbol) => self.variable_in_space(*symbol, offset, space)?,
            // The front end accepts absolute addresses for local memory only.
            Operand::Int { value, .. } if space == Space::Local => {
                Address { base: RZ, offset: *value as i64 + offset }
            }
            _ => return None,
        };
        Some(self.within_reach(address, space, reach))
    }

    /// A register as a base; where one word is enough, the low word of a wide register.
    fn base(&mut self, value: Value, space: Space) -> Option<Arg> {
        let words = self.kernel.code.values[value].words;
        match (words, space) {
            // The upper word of the shared window extends the address.
            (1 | 2, Space::Cluster) => Some(self.shared_generic(Arg::word(value, 0)).into()),
            (2, _) if space.words() == 1 => Some(Arg::word(value, 0)),
            _ => (words == space.words()).then(|| value.into()),
        }
    }

    /// The generic address of an address in distributed shared memory.
    fn shared_generic(&mut self, low: Arg) -> Value {
        let high = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_SWINHI)]);
        self.pack(&[low, high.into()])
    }

    fn variable_in_space(&mut self, symbol: ptx::ast::Symbol, offset: i64, space: Space) -> Option<Address> {
        Some(match (self.location(symbol)?, space) {
            (Location::Shared(_) | Location::LinkedShared(_), Space::Shared | Space::Cluster) => {
                let value = self.variable_address(symbol, 0)?;
                Address { base: self.base(value, space)?, offset }
            }
            (Location::Local(at), Space::Local) => {
                Address { base: Arg::Stack, offset: offset + i64::from(at) }
            }
            (Location::Const(at), Space::Const) | (Location::Param(at), Space::Param) => {
                Address { base: RZ, offset: offset + i64::from(at) }
            }
            (Location::LinkedConst(_), Space::Const) | (Location::Incoming(_), Space::Local) => {
                Address { base: self.variable_address(symbol, 0)?.into(), offset }
            }
            (Location::Global(symbol), Space::Global | Space::Generic) => {
                let half = |half| Arg::Address { symbol, addend: offset, half };
                let base = self.pack(&[half(Half::Low), half(Half::High)]);
                Address { base: base.into(), offset: 0 }
            }
            // A generic access of a variable elsewhere: its generic address.
            (Location::Shared(_) | Location::LinkedShared(_), Space::Generic) => {
                self.generic_variable(symbol, offset, Space::Shared)?
            }
            (Location::Local(_) | Location::Incoming(_), Space::Generic) => {
                self.generic_variable(symbol, offset, Space::Local)?
            }
            _ => return None,
        })
    }

    fn generic_variable(&mut self, symbol: ptx::ast::Symbol, offset: i64, space: Space) -> Option<Address> {
        let within = self.variable_address(symbol, 0)?;
        let base = self.converted([within.into(), RZ], space, false)?;
        Some(Address { base: base.into(), offset })
    }

    /// Adds an offset that doesn't fit the field to the base.
    fn within_reach(&mut self, address: Address, space: Space, reach: i64) -> Address {
        if OFFSETS.contains(&(address.offset + reach)) {
            return self.within(address, space, OFFSETS);
        }
        self.within(address, space, 0..0)
    }

    /// Adds an offset outside of a range to the base.
    pub(crate) fn within(
        &mut self,
        address: Address,
        space: Space,
        offsets: std::ops::Range<i64>,
    ) -> Address {
        let offset = address.offset;
        if offsets.contains(&offset) || offset == 0 {
            return address;
        }
        let half = |n: i64| Arg::Imm(i64::from(n as i32));
        let base = match (address.base, space.words()) {
            (Arg::Use(u), 2) => {
                let words = [Arg::word(u.value, 0), Arg::word(u.value, 1)];
                self.add64(words, [half(offset), half(offset >> 32)])
            }
            (base, _) => self.emit(Op::IADD3, &[], 1, &[base, half(offset), RZ]),
        };
        Address { base: base.into(), offset: 0 }
    }

    /// The address operands of a global access: first an L2 policy, or the default descriptor, where the machine has
    /// one.
    pub(crate) fn described(&mut self, address: Address, policy: Option<Value>) -> Vec<Arg> {
        let descriptor = match policy {
            Some(policy) => Some(Arg::from(policy).suffixed(M::D)),
            None => self.descriptor().map(Arg::from),
        };
        descriptor.into_iter().chain(address.args()).collect()
    }

    /// The descriptor of global memory.
    pub(crate) fn descriptor(&mut self) -> Option<Value> {
        if self.descriptor.is_none() {
            let offset = self.machine.descriptor?;
            let value = self.kernel.code.value(File::UR, 2);
            let op = if self.has(Op::ULDC) { Op::ULDC } else { Op::LDCU };
            let data =
                self.data(ori::Op::Machine(op), &[M::_64], &[value], &[Arg::Const { bank: 0, offset }]);
            self.kernel.code.append(ori::Function::ENTRY, data);
            self.descriptor = Some(value);
        }
        self.descriptor
    }

    /// Two words of constant bank 0.
    pub(crate) fn bank0_pair(&mut self, offset: u32) -> [Arg; 2] {
        let from = Arg::Bank { bank: 0, index: None, offset: offset as i32 };
        let value = self.emit(Op::LDC, &[M::_64], 2, &[from]);
        [Arg::word(value, 0), Arg::word(value, 1)]
    }

    /// An address as two words.
    pub(crate) fn flat(&mut self, address: Address) -> [Arg; 2] {
        let Address { base, offset } = address;
        let words = match base {
            Arg::Use(u) if self.count(&base) == 2 => [Arg::word(u.value, 0), Arg::word(u.value, 1)],
            _ => [base, RZ],
        };
        if offset == 0 {
            return words;
        }
        let half = |n: i64| Arg::Imm(i64::from(n as i32));
        let sum = self.add64(words, [half(offset), half(offset >> 32)]);
        [Arg::word(sum, 0), Arg::word(sum, 1)]
    }

    /// `cvta` and `cvta.to`: adds or subtracts the window base of the space.
    pub(crate) fn cvta(&mut self, ins: &Ins<'a>) -> Option<()> {
        let to = ins.mnemonic() == "cvta.to";
        let ty = ins.ty()?;
        let space = self.space(ins)?;
        let from = self.cvta_source(ins.get(1)?, ty)?;
        let value = self.converted(from, space, to)?;
        self.set_address(ins.get(0)?, value)
    }

    /// Converts a generic address to the space (`to`), or back.
    pub(crate) fn converted(&mut self, from: [Arg; 2], space: Space, to: bool) -> Option<Value> {
        Some(match space {
            // A global address is the generic one.
            Space::Global => self.pack(&from),
            Space::Shared | Space::Cluster => match (self.machine.windows.shared, to) {
                (None, true) => self.pack(&[from[0], RZ]),
                (None, false) => self.shared_generic(from[0]),
                (Some(window), _) => self.shift_window(from, window, to),
            },
            Space::Local => self.shift_window(from, self.machine.windows.local, to),
            Space::Const => self.shift_window(from, self.machine.windows.constant, to),
            Space::Param => match self.machine.windows.params {
                ParamWindow::Range { first, .. } => self.shift_window(from, first, to),
                ParamWindow::Bank { base, .. } => {
                    let start = i64::from(self.params_start());
                    let (low, high) = if to { (-start, -1) } else { (start, 0) };
                    let within = self.add64(from, [Arg::Imm(low), Arg::Imm(high)]);
                    self.shift_window([Arg::word(within, 0), Arg::word(within, 1)], base, to)
                }
            },
            Space::Generic => return None,
        })
    }

    /// A register, or a variable.
    fn cvta_source(&mut self, operand: &Operand, ty: Type) -> Option<[Arg; 2]> {
        let (symbol, offset) = match operand {
            Operand::Symbol(symbol) => (*symbol, 0),
            Operand::Sum(_) => self.symbol_and_offset(operand)?,
            _ if ty.bits() == 32 => return Some([self.word(operand, ty)?, RZ]),
            _ => return self.words(operand, ty),
        };
        let value = self.variable_address(symbol, offset)?;
        Some(match self.kernel.code.values[value].words {
            1 => [value.into(), RZ],
            _ => [Arg::word(value, 0), Arg::word(value, 1)],
        })
    }

    fn shift_window(&mut self, address: [Arg; 2], window: u32, to: bool) -> Value {
        let window = self.bank0_pair(window);
        match to {
            true => self.sub64(address, window),
            false => self.add64(address, window),
        }
    }

    fn sub64(&mut self, a: [Arg; 2], b: [Arg; 2]) -> Value {
        let low = self.kernel.code.value(File::R, 1);
        let carry = self.kernel.code.value(File::P, 1);
        self.emit_to(Op::IADD3, &[], &[low, carry], &[a[0], b[0].negated(), RZ]);
        let high = self.emit(Op::IADD3, &[M::X], 1, &[a[1], b[1].inverted(), RZ, carry.into(), NOT_PT]);
        self.pack(&[low.into(), high.into()])
    }

    /// Writes an address of 64 bits to a register of 64 or 32.
    fn set_address(&mut self, operand: &Operand, value: Value) -> Option<()> {
        let narrow = matches!(operand, Operand::Reg(reg) if self.shape(*reg).1 == 1);
        let value = if narrow { self.copy(Arg::word(value, 0)) } else { value };
        self.set(operand, value)
    }

    /// `isspacep`. Constants and parameters are compared with their windows, the others queried by the machine.
    pub(crate) fn isspacep(&mut self, ins: &Ins<'a>) -> Option<()> {
        let space = self.space(ins)?;
        let operand = ins.get(1)?;
        let address = match operand {
            Operand::Reg(_) | Operand::Part { .. } => match self.whole(operand)? {
                Arg::Use(u) if self.count(&Arg::Use(u)) == 2 => self.copy(Arg::Use(u)),
                word => self.pack(&[word, RZ]),
            },
            // A constant or a special register.
            _ => {
                let words = self.words(operand, Type::U64)?;
                self.pack(&words)
            }
        };
        let value = match space {
            Space::Shared => self.query_space(address, M::S),
            Space::Cluster => self.query_space(address, M::D),
            Space::Local => self.query_space(address, M::L),
            Space::Global => {
                let global = self.query_space(address, M::G);
                let constant = self.in_const_window(address);
                self.emit_p(
                    Op::PLOP3,
                    &[M::LUT],
                    &[PT, global.into(), Arg::not(constant), PT, Arg::Imm(0x80), Arg::Imm(0)],
                )
            }
            Space::Const => self.in_const_window(address),
            Space::Param => self.in_param_window(address),
            Space::Generic => return None,
        };
        self.set(ins.get(0)?, value)
    }

    fn query_space(&mut self, address: Value, space: M) -> Value {
        let result = self.kernel.code.value(File::P, 1);
        self.emit_to(Op::QSPC, &[M::E, space], &[result], &[RZ, address.into(), Arg::Imm(0)]);
        result
    }

    /// From the first variable to the last.
    fn in_const_window(&mut self, address: Value) -> Value {
        let first = self.bank0_pair(self.machine.windows.constant);
        let bytes = self.const_bytes();
        let end = self.add64(first, [bytes, RZ]);
        let below_end = self.compare64(address, M::LT, [Arg::word(end, 0), Arg::word(end, 1)], PT);
        self.compare64(address, M::GE, first, below_end.into())
    }

    fn in_param_window(&mut self, address: Value) -> Value {
        let (first, last) = match self.machine.windows.params {
            ParamWindow::Range { first, last } => (self.bank0_pair(first), self.bank0_pair(last)),
            ParamWindow::Bank { base, size } => {
                let base = self.bank0_pair(base);
                let size =
                    self.emit(Op::LDC, &[], 1, &[Arg::Bank { bank: 0, index: None, offset: size as i32 }]);
                let first = self.add64(base, [Arg::Imm(i64::from(self.params_start())), RZ]);
                let last = self.add64(base, [size.into(), RZ]);
                let halves = |v| [Arg::word(v, 0), Arg::word(v, 1)];
                (halves(first), halves(last))
            }
        };
        let not_above = self.compare64(address, M::LE, last, PT);
        self.compare64(address, M::GE, first, not_above.into())
    }

    /// Compares unsigned 64-bit numbers, ANDed with another condition.
    fn compare64(&mut self, a: Value, relation: M, b: [Arg; 2], and: Arg) -> Value {
        let low = self.emit_p(Op::ISETP, &[relation, M::U32, M::AND], &[PT, Arg::word(a, 0), b[0], PT]);
        let args = [PT, Arg::word(a, 1), b[1], and, low.into()];
        self.emit_p(Op::ISETP, &[relation, M::U32, M::AND, M::EX], &args)
    }

    /// `mapa`: the address of a shared location in another block. The rank of the block is the highest byte of the low
    /// word.
    pub(crate) fn mapa(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        // A generic address differs in its upper word only.
        let _ = self.space(ins)?;
        let from = self.cvta_source(ins.get(1)?, ty)?;
        let rank = self.word(ins.get(2)?, Type::U32)?;
        let low = self.emit(Op::PRMT, &[], 1, &[rank, Arg::Imm(0x0654), from[0]]);
        let value = self.pack(&[low.into(), from[1]]);
        self.set_address(ins.get(0)?, value)
    }

    pub(crate) fn getctarank(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let _ = self.space(ins)?;
        let from = self.cvta_source(ins.get(1)?, ty)?;
        let rank = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(24), from[0]]);
        self.set(ins.get(0)?, rank)
    }
}
