//! Expansion of generic operations: each becomes machine operations of the target (the legalization of illegal
//! operations in LLVM, `nir_lower_*` in Mesa).
//!
//! ```text
//! b1: v3 = FDiv.F32 v1, v2          b1: …; v9:P = FCHK v1, v2; branch v9, b2, b3(v8)    fast path
//!     STG …, v3                 =>  b3(v3): STG …, v3
//!                                   b2: (cold) …; jump b3(v12)                          slow path
//! ```
//!
//! It runs after the passes over loops and branches: until then a division is one pure operation, which is hoisted,
//! merged with an equal one, and doesn't split its block. A divisor that is known by now takes the short sequence. The
//! rules are where the PTX instruction is lowered ([`divide`](super::arith::divide), [`float`](super::arith::float));
//! this file finds the operations and splits blocks. Slow paths are marked cold.
//!
//! Afterwards there is no generic operation. Linear.

use super::control::param_words::ParamWords;
use super::{Kernel, Lower, library};
use crate::context::{Context, PassResult};
use ori::eval::generic::Type;
use ori::{Arg, Block, Change, Function, Generic, InstData, Op, Pseudo, Terminator, Use, Value};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let is_generic = |data: &InstData| matches!(data.op, Op::Generic(_));
    let has_one = |b: &Block| function.blocks[*b].insts.iter().any(|i| is_generic(&function.insts[*i]));
    let blocks: Vec<Block> = function.blocks.keys().filter(has_one).collect();
    if blocks.is_empty() {
        return Ok(Change::Nothing);
    }
    let known = constants(function);
    let mut kernel = Kernel::new(std::mem::take(function));
    let outcome = expand(&mut kernel, context, &known, &blocks);
    *function = kernel.code;
    outcome?;
    Ok(Change::ControlFlow)
}

/// The instructions that a generic operation takes where its slow path is not taken (counted in the code of
/// `tests/ir/expand` and of one kernel for each operation on sm_90).
pub fn size(op: Generic, modifiers: &[M]) -> u32 {
    match (op, Type::of(modifiers)) {
        (Generic::Div | Generic::Rem, Some(Type::Integer { bits: 64, .. })) => 60,
        (Generic::Div | Generic::Rem, _) => 20,
        (_, Some(Type::Float { bits: 64 })) => 14,
        _ => 10,
    }
}

fn expand(
    kernel: &mut Kernel,
    context: &Context,
    known: &FxHashMap<Value, u64>,
    blocks: &[Block],
) -> PassResult {
    let (module, body) = library::empty().ok_or("the library is not PTX")?;
    let env = library::detached_env(module, context.machine, context.tuning);
    let params = ParamWords::new(module, body, None);
    let mut lower = Lower::new(kernel, env, body, params, &[]);
    for block in blocks {
        lower.expand_block(*block, known)?;
    }
    Ok(())
}

/// The values that are constants: moves of immediates, and packs of them.
fn constants(function: &Function) -> FxHashMap<Value, u64> {
    let mut known = FxHashMap::default();
    for block in function.blocks.keys() {
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            if let (&[result], None) = (&data.results[..], &data.guard)
                && let Some(bits) = constant(data, &known)
            {
                known.insert(result, bits);
            }
        }
    }
    known
}

fn constant(data: &InstData, known: &FxHashMap<Value, u64>) -> Option<u64> {
    match (data.op, &data.args[..]) {
        (Op::Machine(sass::Op::MOV), [Arg::Imm(n)]) => Some(u64::from(*n as u32)),
        (Op::Machine(sass::Op::CS2R), [Arg::Name(M::SRZ)]) => Some(0),
        (Op::Pseudo(Pseudo::Pack), [Arg::Use(low), Arg::Use(high)]) => {
            let word = |u: &Use| known.get(&u.value).copied().filter(|_| u.is_plain() && u.part.is_none());
            Some(word(high)? << 32 | word(low)?)
        }
        _ => None,
    }
}

impl Lower<'_, '_> {
    /// Expands the generic operations of a block. What comes after one that needs branches moves to the block where
    /// these meet.
    fn expand_block(&mut self, block: Block, known: &FxHashMap<Value, u64>) -> PassResult {
        self.block = block;
        let data = &mut self.kernel.code.blocks[block];
        let insts = std::mem::take(&mut data.insts);
        let end = (std::mem::replace(&mut data.end, Terminator::Exit), data.end_at);
        for inst in insts {
            let data = &self.kernel.code.insts[inst];
            let Op::Generic(op) = data.op else {
                let block = self.block;
                self.kernel.code.blocks[block].insts.push(inst);
                continue;
            };
            let data = data.clone();
            self.at = data.at;
            let value =
                self.generic(op, &data, known).ok_or_else(|| format!("no expansion of {}", op.name()))?;
            let (op, args) = (Op::Pseudo(Pseudo::Copy), smallvec![value.into()]);
            let copy = InstData { op, modifiers: SmallVec::new(), args, ..data };
            self.kernel.code.append(self.block, copy);
        }
        let last = &mut self.kernel.code.blocks[self.block];
        (last.end, last.end_at) = end;
        Ok(())
    }

    /// The value of a generic operation.
    fn generic(&mut self, op: Generic, data: &InstData, known: &FxHashMap<Value, u64>) -> Option<Value> {
        let ty = Type::of(&data.modifiers)?;
        let args: SmallVec<[Value; 2]> = data.args.iter().map(|a| self.register(*a)).collect();
        let modifiers = &data.modifiers[1..];
        let rounding = modifiers.iter().position(|m| *m != M::FTZ).map_or(&[][..], |i| &modifiers[i..=i]);
        let flush = modifiers.contains(&M::FTZ);
        match (op, ty, &args[..]) {
            (Generic::Div | Generic::Rem, Type::Integer { signed, bits }, &[a, b]) => {
                let divisor = match data.args[1] {
                    Arg::Imm(n) => Some(u64::from(n as u32)),
                    Arg::Use(u) => known.get(&u.value).copied().filter(|_| u.part.is_none()),
                    _ => None,
                };
                self.expand_division((signed, bits), [a, b], divisor, op == Generic::Rem)
            }
            (Generic::FDiv, Type::Float { bits: 32 }, &[a, b]) => {
                self.div32(a.into(), b.into(), rounding, flush)
            }
            (Generic::FRcp, Type::Float { bits: 32 }, &[a]) => self.rcp32(a.into(), rounding, flush),
            (Generic::FSqrt, Type::Float { bits: 32 }, &[a]) => self.sqrt32(a.into(), rounding, flush),
            (Generic::FDiv, Type::Float { .. }, &[a, b]) => self.div64(a, b, rounding),
            (Generic::FRcp, Type::Float { .. }, &[a]) => self.rcp64(a, rounding),
            (Generic::FSqrt, Type::Float { .. }, &[a]) => self.sqrt64(a, rounding),
            (Generic::FRsqrt, Type::Float { .. }, &[a]) => self.rsqrt64(a),
            _ => None,
        }
    }

    /// Appends a generic operation.
    pub(crate) fn emit_generic(&mut self, op: Generic, ty: Type, modifiers: &[M], args: &[Arg]) -> Value {
        let result = self.kernel.code.value(ori::File::R, ty.words());
        let modifiers = [&[ty.modifier()], modifiers].concat();
        let data = self.data(Op::Generic(op), &modifiers, &[result], args);
        self.kernel.code.append(self.block, data);
        result
    }
}
