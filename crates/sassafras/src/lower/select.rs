//! What each PTX instruction becomes. The vocabulary is small yet: what is not in it is refused by name.

use super::Lower;
use crate::Failure;
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::{self, Inst, Operand};
use ptx::table::Opcode;
use ptx::words::Kind;
use sass::{M, Op};

/// The opcodes that are lowered so far, as they are spelled, types apart. A modifier that isn't listed would be lost,
/// so an opcode that isn't spelled like this is refused.
const VOCABULARY: &[(&str, &[&str])] = &[
    ("add", &["s32", "u32", "s64", "u64", "f32"]),
    ("sub", &["s32", "u32", "f32"]),
    ("mul.lo", &["s32", "u32"]),
    ("mul.wide", &["s32", "u32"]),
    ("mad.lo", &["s32", "u32"]),
    ("mul", &["f32"]),
    ("fma.rn", &["f32"]),
    ("and", &["b32"]),
    ("or", &["b32"]),
    ("xor", &["b32"]),
    ("shl", &["b32"]),
    ("shr", &["s32", "u32"]),
    ("setp.eq", &["s32", "u32", "f32"]),
    ("setp.ne", &["s32", "u32", "f32"]),
    ("setp.lt", &["s32", "u32", "f32"]),
    ("setp.le", &["s32", "u32", "f32"]),
    ("setp.gt", &["s32", "u32", "f32"]),
    ("setp.ge", &["s32", "u32", "f32"]),
    ("selp", &["b32", "s32", "u32", "f32"]),
    ("mov", &["b32", "s32", "u32", "f32", "b64", "s64", "u64"]),
    ("cvta.to.global", &["u64"]),
    ("ld.param", &["b32", "s32", "u32", "f32", "b64", "s64", "u64"]),
    ("ld.global", &["b32", "s32", "u32", "f32", "b64", "s64", "u64"]),
    ("ld.shared", &["b32", "s32", "u32", "f32", "b64", "s64", "u64"]),
    ("st.global", &["b32", "s32", "u32", "f32"]),
    ("st.shared", &["b32", "s32", "u32", "f32"]),
];

fn in_vocabulary(opcode: &Opcode) -> bool {
    let Some((front, ty)) = opcode.spelling.rsplit_once('.') else { return false };
    VOCABULARY.iter().any(|(known, types)| *known == front && types.contains(&ty))
}

const NO_CARRY: Arg = Arg::True(false);
const RZ: Arg = Arg::Zero(File::R);
const BARRIER: &str = "bar.sync";

impl Lower<'_> {
    pub(super) fn inst(&mut self, inst: &Inst) -> Result<(), Failure> {
        let module = self.module;
        let opcode = &module.opcodes[inst.opcode.0 as usize];
        let body = self.body;
        let operands = body.list(inst.operands);
        let unsupported =
            |l: &Self| l.unsupported_at(inst.span, &format!("Instruction '{}'", opcode.spelling));
        // A guarded barrier is not a barrier for the threads that the guard holds back.
        let guarded_barrier = inst.guard.is_some() && opcode.spelling == BARRIER;
        let known = opcode.spelling == BARRIER || in_vocabulary(opcode);
        if !known || guarded_barrier {
            return Err(unsupported(self));
        }
        let result = self.value(opcode, operands).ok_or_else(|| unsupported(self))?;
        match (operands.first(), result) {
            (_, Lowered::Effect) => {
                if let Some(guard) = inst.guard {
                    self.guard_last(guard, None);
                }
            }
            (Some(Operand::Reg(reg)), Lowered::Value(value)) if self.fits(*reg, value) => {
                let value = match inst.guard {
                    None => value,
                    Some(guard) => self.guarded(guard, *reg, value),
                };
                self.now.insert(*reg, value);
            }
            _ => return Err(unsupported(self)),
        }
        Ok(())
    }

    /// Is the value as wide as the register? PTX lets some instructions have wider registers.
    fn fits(&self, reg: ast::Reg, value: Value) -> bool {
        let data = self.kernel.code.values[value];
        self.shape(reg) == (data.file, data.words)
    }

    /// A guarded result: computed always, chosen by the guard. Memory must not be touched where the guard is
    /// false, so a load is guarded itself.
    fn guarded(&mut self, guard: ast::Guard, reg: ast::Reg, value: Value) -> Value {
        let old = self.read(reg);
        let last = self.kernel.code.blocks[self.block].insts.last().copied();
        let defines = last.is_some_and(|i| self.kernel.code.insts[i].results[..] == [value]);
        if defines {
            self.guard_last(guard, Some(old));
            return value;
        }
        let data = self.kernel.code.values[value];
        let result = self.kernel.code.value(data.file, data.words);
        let copy = self.data(ori::Op::Pseudo(ori::Pseudo::Copy), &[], &[result], &[value.into()]);
        self.kernel.code.append(self.block, copy);
        self.guard_last(guard, Some(old));
        result
    }

    fn value(&mut self, opcode: &Opcode, operands: &[Operand]) -> Option<Lowered> {
        if opcode.spelling == BARRIER {
            return self.barrier(operands);
        }
        let ty = opcode.types().last();
        let value = match (opcode.mnemonic, ty?) {
            ("ld", ty) => self.load(opcode, ty, operands)?,
            ("st", _) => return self.store(opcode, operands),
            ("mov", _) => self.mov(operands.get(1)?)?,
            ("cvta.to", Type::U64) => self.wide(operands.get(1)?)?,
            ("setp", ty) => self.setp(opcode, ty, operands)?,
            ("selp", _) => {
                let (a, b) = (self.reg(operands.get(1)?)?, self.word(operands.get(2)?)?);
                let p = self.predicate(operands.get(3)?)?;
                self.emit(Op::SEL, &[], 1, &[a, b, p])
            }
            (mnemonic, Type::F32) => self.float(mnemonic, operands)?,
            (mnemonic, ty) => self.integer(mnemonic, ty, operands)?,
        };
        Some(Lowered::Value(value))
    }

    fn barrier(&mut self, operands: &[Operand]) -> Option<Lowered> {
        let [Operand::Int { value: id @ 0..16, .. }] = operands else { return None };
        self.emit_to(Op::BAR, &[M::SYNC, M::DEFER_BLOCKING], &[], &[Arg::Imm(*id as i64)]);
        self.kernel.barriers = self.kernel.barriers.max(*id as u8 + 1);
        Some(Lowered::Effect)
    }

    fn float(&mut self, mnemonic: &str, operands: &[Operand]) -> Option<Value> {
        let mut args = Vec::new();
        for operand in operands.get(1..)? {
            args.push(self.word(operand)?);
        }
        let op = match (mnemonic, &mut args[..]) {
            ("add", [_, _]) => Op::FADD,
            ("sub", [_, b]) => {
                *b = match *b {
                    Arg::Imm(bits) => Arg::Imm(bits ^ 0x8000_0000),
                    other => other.negated(),
                };
                Op::FADD
            }
            ("mul", [_, _]) => Op::FMUL,
            ("fma", [_, _, _]) => Op::FFMA,
            _ => return None,
        };
        self.first_in_register(&mut args);
        Some(self.emit(op, &[], 1, &args))
    }

    fn integer(&mut self, mnemonic: &str, ty: Type, operands: &[Operand]) -> Option<Value> {
        if (mnemonic, ty.bits()) == ("add", 64) {
            return self.add64(operands);
        }
        if ty.bits() != 32 {
            return None;
        }
        let mut args = Vec::new();
        for operand in operands.get(1..)? {
            args.push(if args.len() == 2 && mnemonic == "mad.wide" {
                return None;
            } else {
                self.word(operand)?
            });
        }
        if !matches!(mnemonic, "shr") {
            self.first_in_register(&mut args);
        }
        let signed: &[M] = if ty.is_signed() { &[] } else { &[M::U32] };
        let value = match (mnemonic, &args[..]) {
            ("add", [a, b]) => self.emit(Op::IADD3, &[], 1, &[*a, *b, RZ]),
            ("sub", [a, b]) => self.emit(Op::IADD3, &[], 1, &[*a, b.negated(), RZ]),
            ("mul.lo", [a, b]) => self.emit(Op::IMAD, &[], 1, &[*a, *b, RZ]),
            ("mad.lo", [a, b, c]) => self.emit(Op::IMAD, &[], 1, &[*a, *b, *c]),
            ("mul.wide", [a, b]) => self.emit(Op::IMAD, &[&[M::WIDE], signed].concat(), 2, &[*a, *b, RZ]),
            ("shl", [a, b]) => self.emit(Op::SHF, &[M::L, M::U32], 1, &[*a, *b, RZ]),
            ("shr", [a, b]) => {
                let a = self.in_register(*a);
                let sign = if ty.is_signed() { M::S32 } else { M::U32 };
                self.emit(Op::SHF, &[M::R, sign, M::HI], 1, &[RZ, *b, a])
            }
            ("and", [a, b]) => self.logic(*a, *b, 0xc0),
            ("or", [a, b]) => self.logic(*a, *b, 0xfc),
            ("xor", [a, b]) => self.logic(*a, *b, 0x3c),
            _ => return None,
        };
        Some(value)
    }

    fn logic(&mut self, a: Arg, b: Arg, table: i64) -> Value {
        self.emit(Op::LOP3, &[M::LUT], 1, &[a, b, RZ, Arg::Imm(table), NO_CARRY])
    }

    fn add64(&mut self, operands: &[Operand]) -> Option<Value> {
        let (a, b) = (self.words(operands.get(1)?)?, self.words(operands.get(2)?)?);
        let a = [self.in_register(a[0]), self.in_register(a[1])];
        let low = self.kernel.code.value(File::R, 1);
        let carry = self.kernel.code.value(File::P, 1);
        self.emit_to(Op::IADD3, &[], &[low, carry], &[a[0], b[0], RZ]);
        let high = self.emit(Op::IADD3, &[M::X], 1, &[a[1], b[1], RZ, carry.into(), NO_CARRY]);
        Some(self.pack(low, high))
    }

    fn setp(&mut self, opcode: &Opcode, ty: Type, operands: &[Operand]) -> Option<Value> {
        let relation = match opcode.first(Kind::Compare)?.text() {
            ".eq" => M::EQ,
            ".ne" => M::NE,
            ".lt" => M::LT,
            ".le" => M::LE,
            ".gt" => M::GT,
            ".ge" => M::GE,
            _ => return None,
        };
        let (op, modifiers) = match ty {
            Type::F32 => (Op::FSETP, vec![relation, M::AND]),
            _ if ty.is_signed() => (Op::ISETP, vec![relation, M::AND]),
            _ => (Op::ISETP, vec![relation, M::U32, M::AND]),
        };
        let mut args = vec![self.word(operands.get(1)?)?, self.word(operands.get(2)?)?];
        self.first_in_register(&mut args);
        let result = self.kernel.code.value(File::P, 1);
        self.emit_to(op, &modifiers, &[result], &[Arg::True(true), args[0], args[1], Arg::True(true)]);
        Some(result)
    }

    fn mov(&mut self, operand: &Operand) -> Option<Value> {
        match operand {
            Operand::Reg(reg) => Some(self.read(*reg)),
            Operand::Special { row, component } => {
                self.special(ptx::sreg::TABLE[*row as usize].name, *component)
            }
            Operand::Symbol(symbol) => self.shared_address(*symbol),
            _ => {
                let constant = self.word(operand)?;
                Some(self.emit(Op::MOV, &[], 1, &[constant]))
            }
        }
    }

    fn shared_address(&mut self, symbol: ast::Symbol) -> Option<Value> {
        let offset = *self.shared.get(&symbol)?;
        let base = i64::from(self.machine.shared) + offset as i64;
        // Each block of a cluster has its own window of 16 MiB.
        let rank = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_CgaCtaId)]);
        let base = self.in_register(Arg::Imm(base));
        Some(self.emit(Op::LEA, &[], 1, &[rank.into(), base, Arg::Imm(24)]))
    }

    fn special(&mut self, name: &str, component: Option<u8>) -> Option<Value> {
        let axis = usize::from(component?);
        let pick = |names: [M; 3]| names.get(axis).copied().map(Arg::Name);
        let bank = |base: u32| Arg::Bank { bank: 0, offset: base + 4 * axis as u32 };
        Some(match name {
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

    fn load(&mut self, opcode: &Opcode, ty: Type, operands: &[Operand]) -> Option<Value> {
        let words = ty.bits().div_ceil(32) as u8;
        let size: &[M] = if words == 2 { &[M::_64] } else { &[] };
        match opcode.first(Kind::Space)?.text() {
            ".param" => {
                let offset = self.parameter(operands.get(1)?)?;
                Some(self.emit(Op::LDC, size, words, &[Arg::Bank { bank: 0, offset }]))
            }
            ".global" => {
                let (base, offset) = self.address(operands.get(1)?, 2)?;
                let descriptor = self.descriptor()?;
                let modifiers = [&[M::E], size].concat();
                Some(self.emit(Op::LDG, &modifiers, words, &[descriptor.into(), base, offset]))
            }
            ".shared" => {
                let (base, offset) = self.address(operands.get(1)?, 1)?;
                Some(self.emit(Op::LDS, size, words, &[base, offset]))
            }
            _ => None,
        }
    }

    fn store(&mut self, opcode: &Opcode, operands: &[Operand]) -> Option<Lowered> {
        let data = self.word(operands.get(1)?)?;
        let data = self.in_register(data);
        match opcode.first(Kind::Space)?.text() {
            ".global" => {
                let (base, offset) = self.address(operands.first()?, 2)?;
                let descriptor = self.descriptor()?;
                self.emit_to(Op::STG, &[M::E], &[], &[descriptor.into(), base, offset, data]);
            }
            ".shared" => {
                let (base, offset) = self.address(operands.first()?, 1)?;
                self.emit_to(Op::STS, &[], &[], &[base, offset, data]);
            }
            _ => return None,
        }
        Some(Lowered::Effect)
    }

    /// The descriptor of global memory: loaded in the entry, where it dominates every use.
    fn descriptor(&mut self) -> Option<Value> {
        if self.descriptor.is_none() {
            let offset = self.machine.descriptor?;
            let value = self.kernel.code.value(File::UR, 2);
            let data =
                self.data(ori::Op::Machine(Op::ULDC), &[M::_64], &[value], &[Arg::Const { bank: 0, offset }]);
            self.kernel.code.append(ori::Function::ENTRY, data);
            self.descriptor = Some(value);
        }
        self.descriptor
    }

    /// Where a parameter lies in constant bank 0.
    fn parameter(&self, operand: &Operand) -> Option<u32> {
        let Operand::Address(range) = operand else { return None };
        let (symbol, offset) = match self.body.list(*range) {
            [Operand::Symbol(s)] => (s, 0),
            [Operand::Symbol(s), Operand::Offset(n)] => (s, u32::try_from(*n).ok()?),
            _ => return None,
        };
        let param = self.kernel.params.iter().find(|p| p.symbol == *symbol)?;
        Some(self.machine.params + param.offset + offset)
    }

    /// `[base + offset]` with a base of this many words: a register, or a shared variable.
    fn address(&mut self, operand: &Operand, words: u8) -> Option<(Arg, Arg)> {
        let Operand::Address(range) = operand else { return None };
        let (base, offset) = match self.body.list(*range) {
            [base] => (base, 0),
            [base, Operand::Offset(n)] => (base, *n),
            _ => return None,
        };
        let base = match base {
            Operand::Reg(reg) => self.read(*reg),
            Operand::Symbol(symbol) => self.shared_address(*symbol)?,
            _ => return None,
        };
        // The offset field has 24 bits, signed.
        let fits = (-(1 << 23)..1 << 23).contains(&offset);
        (fits && self.kernel.code.values[base].words == words).then_some((base.into(), Arg::Imm(offset)))
    }

    /// A 32-bit register or constant.
    fn word(&mut self, operand: &Operand) -> Option<Arg> {
        match operand {
            Operand::Reg(reg) => {
                let value = self.read(*reg);
                let data = self.kernel.code.values[value];
                (data.file == File::R && data.words == 1).then_some(value.into())
            }
            Operand::Int { value, .. } => Some(Arg::Imm(i64::from(*value as u32 as i32))),
            Operand::F32(bits) => Some(Arg::Imm(i64::from(*bits))),
            Operand::F64(bits) => Some(Arg::Imm(i64::from((f64::from_bits(*bits) as f32).to_bits()))),
            _ => None,
        }
    }

    fn reg(&mut self, operand: &Operand) -> Option<Arg> {
        let word = self.word(operand)?;
        Some(self.in_register(word))
    }

    fn wide(&mut self, operand: &Operand) -> Option<Value> {
        let Operand::Reg(reg) = operand else { return None };
        let value = self.read(*reg);
        (self.kernel.code.values[value].words == 2).then_some(value)
    }

    /// The two words of a 64-bit register or constant.
    fn words(&mut self, operand: &Operand) -> Option<[Arg; 2]> {
        if let Operand::Int { value, .. } = operand {
            let half = |n: u64| Arg::Imm(i64::from(n as u32 as i32));
            return Some([half(*value), half(*value >> 32)]);
        }
        let value = self.wide(operand)?;
        Some([Arg::word(value, 0), Arg::word(value, 1)])
    }

    fn predicate(&mut self, operand: &Operand) -> Option<Arg> {
        match operand {
            Operand::Reg(reg) => Some(self.read(*reg).into()),
            Operand::Not(reg) => Some(Arg::not(self.read(*reg))),
            _ => None,
        }
    }

    fn in_register(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Imm(_) | Arg::Const { .. } => self.emit(Op::MOV, &[], 1, &[arg]).into(),
            other => other,
        }
    }

    /// The machine's first source is always a register.
    fn first_in_register(&mut self, args: &mut [Arg]) {
        if let Some(first) = args.first_mut() {
            *first = self.in_register(*first);
        }
    }
}

/// What an instruction became: a value for its result, or an effect alone.
enum Lowered {
    Value(Value),
    Effect,
}
