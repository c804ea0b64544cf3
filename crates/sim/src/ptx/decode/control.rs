//! Branches, calls, barriers, and what the lanes of a warp do together.

use super::{Decoder, Dest, Ins, Number, Place, Source};
use crate::ptx::program::{
    Action, Argument, Barrier, Call, Callee, Reduction, Return, Shuffle, Warp, WarpOperation,
};
use ::ptx::Type;
use ::ptx::ast::{Operand, SymbolKind};
use ::ptx::words::Kind;
use ori::arith::Int;

impl<'a> Decoder<'a> {
    pub(super) fn control(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "bra" => {
                ins.flag("uni");
                let Operand::Symbol(label) = ins.get(0)? else { return None };
                Some(Action::Branch { target: self.body.label(*label)? })
            }
            "brx.idx" => {
                ins.flag("uni");
                let Operand::Symbol(label) = ins.get(1)? else { return None };
                Some(Action::BranchIndexed {
                    index: self.source(ins.get(0)?, Type::U32)?,
                    targets: self.body.branch_targets(*label)?.into(),
                })
            }
            "call" => self.call(ins),
            "ret" => {
                ins.flag("uni");
                Some(Action::Return)
            }
            "exit" => Some(Action::Exit),
            "trap" | "brkpt" => Some(Action::Trap),
            "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" | "bar.warp" => self.warp(ins),
            "barrier.cluster.arrive" => self.nothing(ins).map(|_| Action::ClusterArrive),
            "barrier.cluster.wait" => self.nothing(ins).map(|_| Action::ClusterWait),
            name if name.starts_with("bar") => self.barrier(ins),
            // Memory is sequentially consistent, sleep takes no time, registers are plenty.
            _ => self.nothing(ins),
        }
    }

    /// An instruction all of which changes nothing here.
    pub(super) fn nothing(&self, ins: &Ins) -> Option<Action> {
        while ins.take(|_| true).is_some() {}
        ins.skip(0);
        Some(Action::Nothing)
    }

    fn call(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.flag("uni");
        let mut next = 0;
        let list = |next: &mut usize| match ins.operands.get(*next) {
            Some(Operand::List(range)) => {
                ins.get(*next);
                *next += 1;
                self.code.list(*range)
            }
            _ => &[],
        };
        let returns = list(&mut next);
        let target = ins.get(next)?;
        next += 1;
        let arguments = list(&mut next);
        // What an indirect call may reach is not needed to reach it.
        ins.skip(next);
        let callee = match target {
            Operand::Symbol(symbol) => match self.body.place(self.layout, *symbol)? {
                Place::Function(index) => Callee::Direct(index),
                _ => return None,
            },
            register => Callee::Indirect(self.source(register, Type::U64)?),
        };
        Some(Action::Call(Box::new(Call {
            callee,
            arguments: arguments.iter().map(|a| self.argument(a)).collect::<Option<_>>()?,
            returns: returns.iter().map(|r| self.returned(r)).collect::<Option<_>>()?,
        })))
    }

    /// A `.param` variable: where it is.
    fn param(&self, operand: &Operand) -> Option<(u32, u32)> {
        let Operand::Symbol(symbol) = operand else { return None };
        let Place::Param(offset) = self.body.place(self.layout, *symbol)? else { return None };
        match self.symbol_kind(*symbol)? {
            SymbolKind::Variable { bytes, .. } => Some((offset, u32::try_from(*bytes).ok()?)),
            _ => None,
        }
    }

    /// The width of a register is that of its declaration, whatever the callee calls it.
    fn register_type(&self, operand: &Operand) -> Type {
        match operand {
            Operand::Reg(reg) => self.code.reg_decl(*reg).0.ty,
            _ => Type::B64,
        }
    }

    fn argument(&self, operand: &Operand) -> Option<Argument> {
        if let Some((offset, bytes)) = self.param(operand) {
            return Some(Argument::Param { offset, bytes });
        }
        let ty = match operand {
            Operand::F32(_) => Type::F32,
            Operand::F64(_) => Type::F64,
            other => self.register_type(other),
        };
        Some(Argument::Values(self.sources(operand, ty)?.into()))
    }

    fn returned(&self, operand: &Operand) -> Option<Return> {
        if let Some((offset, bytes)) = self.param(operand) {
            return Some(Return::Param { offset, bytes });
        }
        Some(Return::Values(self.dests(operand, self.register_type(operand))?.into()))
    }

    fn barrier(&self, ins: &Ins<'a>) -> Option<Action> {
        let name = ins.mnemonic();
        ins.flag("sync");
        ins.flag("aligned");
        let reduces = name.ends_with(".red");
        let reduction = match ins.word(Kind::Op) {
            _ if !reduces => Reduction::None,
            Some("popc") => Reduction::Popc,
            Some("and") => Reduction::And,
            Some("or") => Reduction::Or,
            _ => return None,
        };
        let mut dest = Dest::SINK;
        let mut first = 0;
        if reduces {
            dest = self.dest(ins.get(0)?, ins.ty()?)?;
            first = 1;
        }
        let last = ins.len() - usize::from(reduces);
        let predicate = if reduces { Some(self.predicate(ins.get(last)?)?) } else { None };
        let number = self.source(ins.get(first)?, Type::U32)?;
        let threads =
            if last > first + 1 { Some(self.source(ins.get(first + 1)?, Type::U32)?) } else { None };
        let waits = !name.ends_with(".arrive");
        Some(Action::Barrier(Box::new(Barrier { number, threads, waits, reduction, predicate, dest })))
    }

    fn warp(&self, ins: &Ins<'a>) -> Option<Action> {
        let sync = ins.flag("sync");
        let make = |members, operation, sources: Vec<Source>, dests: Vec<Dest>| {
            let (sources, dests) = (sources.into(), dests.into());
            Some(Action::Warp(Box::new(Warp { members, operation, sources, dests })))
        };
        let members = |i: usize| match sync {
            true => self.source(ins.get(i)?, Type::U32).map(Some),
            false => Some(None),
        };
        match ins.mnemonic() {
            "bar.warp" => make(members(0)?, WarpOperation::Sync, vec![], vec![]),
            "activemask" => {
                let dest = self.dest(ins.get(0)?, ins.ty()?)?;
                make(None, WarpOperation::ActiveMask, vec![], vec![dest])
            }
            "elect" => {
                let dests = self.pair(ins.get(0)?, Type::U32)?;
                make(members(1)?, WarpOperation::Elect, vec![], dests.into())
            }
            "shfl" => {
                let mode = ins.choose(&[
                    ("up", Shuffle::Up),
                    ("down", Shuffle::Down),
                    ("bfly", Shuffle::Butterfly),
                    ("idx", Shuffle::Index),
                ])?;
                let ty = ins.ty()?;
                let dests = self.pair(ins.get(0)?, ty)?;
                let argument = |i: usize| self.source(ins.get(i)?, ty);
                let sources = vec![argument(1)?, argument(2)?, argument(3)?];
                make(members(4)?, WarpOperation::Shuffle(mode), sources, dests.into())
            }
            "vote" => {
                let operation = ins.choose(&[
                    ("all", WarpOperation::VoteAll),
                    ("any", WarpOperation::VoteAny),
                    ("uni", WarpOperation::VoteUniform),
                    ("ballot", WarpOperation::Ballot),
                ])?;
                let dest = self.dest(ins.get(0)?, ins.ty()?)?;
                make(members(2)?, operation, vec![self.predicate(ins.get(1)?)?], vec![dest])
            }
            "match" => {
                let operation =
                    ins.choose(&[("any", WarpOperation::MatchAny), ("all", WarpOperation::MatchAll)])?;
                let ty = ins.ty()?;
                let dests = self.pair(ins.get(0)?, Type::U32)?;
                make(members(2)?, operation, vec![self.source(ins.get(1)?, ty)?], dests.into())
            }
            "redux" => {
                let operation = ins.word(Kind::Op)?;
                let ty = ins.ty()?;
                let Number::Int(int, 1) = Number::of(ty)? else { return None };
                let f: fn(u64, u64) -> u64 = match (operation, int.signed) {
                    ("add", _) => |a, b| Int::U32.add(a, b),
                    ("min", false) => |a, b| Int::U32.min_of(a, b),
                    ("max", false) => |a, b| Int::U32.max_of(a, b),
                    ("min", true) => |a, b| Int::S32.min_of(a, b),
                    ("max", true) => |a, b| Int::S32.max_of(a, b),
                    ("and", _) => |a, b| a & b,
                    ("or", _) => |a, b| a | b,
                    ("xor", _) => |a, b| a ^ b,
                    _ => return None,
                };
                let dest = self.dest(ins.get(0)?, ty)?;
                let source = self.source(ins.get(1)?, ty)?;
                make(members(2)?, WarpOperation::Reduce(f), vec![source], vec![dest])
            }
            _ => None,
        }
    }
}
