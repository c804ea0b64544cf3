//! Asynchronous copies and stores, and the barriers that count their bytes.
//!
//! All that is asynchronous is done on the spot, which PTX allows.

use super::memory::{HINTS, atomic_function};
use super::{Decoder, Dest, Ins, Source};
use crate::mbarrier::Mbarrier;
use crate::memory::Space;
use crate::ptx::program::{Action, Address, Atomic, AtomicFunction, Bulk, Delivery, Told};
use crate::ptx::races;
use ::ptx::Type;
use ::ptx::ast::Operand;
use ::ptx::words::Kind;

const COMPLETES: &str = "mbarrier::complete_tx::bytes";
/// Bytes of a barrier.
const BARRIER: u32 = 8;

impl<'a> Decoder<'a> {
    pub(super) fn asynchronous(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "cp.async.bulk.commit_group" | "cp.async.bulk.wait_group" => {
                self.group_step(ins, races::Kind::Bulk)
            }
            "cp.async.bulk.prefetch" => self.nothing(ins),
            "cp.async.bulk" | "cp.reduce.async.bulk" => self.bulk(ins),
            "cp.async.mbarrier.arrive" => {
                // Without `.noinc` the arrival is one more that the barrier waits for: nothing changes.
                let counts = ins.flag("noinc");
                let address = self.barrier_address(ins, ins.get(0)?)?;
                ins.ty()?;
                let change: AtomicFunction =
                    Box::new(move |_, old, _| if counts { at(old).arrive(1).bits().into() } else { old });
                let mut arrival = atomic(address, Vec::new(), Vec::new(), change);
                if let Action::Atomic(arrival) = &mut arrival {
                    arrival.meeting = Some(Told::Started(races::Kind::Copies));
                }
                Some(arrival)
            }
            "st.async" => self.store_async(ins),
            "red.async" => self.reduce_async(ins),
            _ => self.mbarrier(ins),
        }
    }

    /// Where a barrier is.
    fn barrier_address(&self, ins: &Ins<'a>, operand: &Operand) -> Option<Address> {
        ins.ignore(HINTS);
        let space = self.space(ins)?;
        self.address(operand, space)
    }

    fn mbarrier(&self, ins: &Ins<'a>) -> Option<Action> {
        let name = ins.mnemonic();
        if name == "mbarrier.pending_count" {
            ins.ty()?;
            let dest = self.dest(ins.get(0)?, Type::U32)?;
            let state = self.source(ins.get(1)?, Type::B64)?;
            let pending = |[state]: [u64; 1]| Mbarrier::read(state).pending();
            return self.compute(dest, vec![state], super::map(pending));
        }
        let (parity, incomplete) = (ins.flag("parity"), ins.flag("noComplete"));
        let _ = incomplete;
        if name.contains("_wait") {
            return self.wait(ins, parity || name.ends_with(".parity"));
        }
        let gives_state = name.starts_with("mbarrier.arrive");
        let first = usize::from(gives_state);
        let address = self.barrier_address(ins, ins.get(first)?)?;
        ins.ty()?;
        let dests = if gives_state { vec![self.dest(ins.get(0)?, Type::B64)?] } else { Vec::new() };
        let count = match ins.get(first + 1) {
            Some(operand) => self.source(operand, Type::U32)?,
            None => Source::constant(1),
        };
        type Change = fn(Mbarrier, u64) -> Mbarrier;
        let change: Change = match name {
            "mbarrier.init" => |_, count| Mbarrier::new(count),
            "mbarrier.inval" => |_, _| Mbarrier::new(0),
            "mbarrier.expect_tx" => Mbarrier::expect,
            "mbarrier.complete_tx" => Mbarrier::complete,
            "mbarrier.arrive" => Mbarrier::arrive,
            "mbarrier.arrive_drop" => Mbarrier::drop,
            "mbarrier.arrive.expect_tx" => |barrier, bytes| barrier.expect(bytes).arrive(1),
            "mbarrier.arrive_drop.expect_tx" => |barrier, bytes| barrier.expect(bytes).drop(1),
            _ => return None,
        };
        let function: AtomicFunction =
            Box::new(move |_, old, operands| change(at(old), operands[0] as u64).bits().into());
        Some(atomic(address, vec![count], dests, function))
    }

    /// `test_wait` and `try_wait` ask; a program that waits does so in a loop. A hint of how long changes nothing.
    fn wait(&self, ins: &Ins<'a>, parity: bool) -> Option<Action> {
        let address = self.barrier_address(ins, ins.get(1)?)?;
        ins.ty()?;
        let dest = self.dest(ins.get(0)?, Type::PRED)?;
        let state = self.source(ins.get(2)?, if parity { Type::U32 } else { Type::B64 })?;
        ins.skip(3);
        let Action::Atomic(mut atomic) = atomic(address, vec![state], vec![dest], Box::new(|_, old, _| old))
        else {
            return None;
        };
        atomic.asks = true;
        atomic.view = match parity {
            true => |old, operands| at(old).is_past_parity(operands[0] & 1 == 1).into(),
            false => |old, operands| at(old).is_past(operands[0] as u64).into(),
        };
        Some(Action::Atomic(atomic))
    }

    /// `[to], [from], bytes`, the barrier that counts them and the blocks that get them.
    fn bulk(&self, ins: &Ins<'a>) -> Option<Action> {
        let (to, from) = (self.space(ins)?, self.space(ins)?);
        let completes = ins.flag(COMPLETES) || to != Space::Global;
        ins.flag("bulk_group");
        ins.ignore(HINTS);
        let (many, hinted) = (ins.flag("multicast::cluster"), ins.flag("L2::cache_hint"));
        let bytes = self.source(ins.get(2)?, Type::U32)?;
        let combine = match ins.mnemonic() {
            "cp.reduce.async.bulk" => {
                let operation = ins.word(Kind::Op).or_else(|| ins.word(Kind::Exchange))?;
                let ty = ins.ty()?;
                Some((atomic_function(operation, ty)?, ty.bytes()))
            }
            _ => None,
        };
        (ins.len() == 3 + [completes, many, hinted].map(usize::from).iter().sum::<usize>()).then_some(())?;
        if hinted {
            ins.get(ins.len() - 1);
        }
        Some(Action::Bulk(Box::new(Bulk {
            to: self.address(ins.get(0)?, to)?,
            from: self.address(ins.get(1)?, from)?,
            bytes,
            combine,
            delivery: Delivery {
                barrier: if completes { Some(self.address(ins.get(3)?, Space::Cluster)?) } else { None },
                blocks: if many { Some(self.source(ins.get(4)?, Type::B16)?) } else { None },
            },
        })))
    }

    /// Bytes have come.
    fn completion(&self, barrier: &Operand, bytes: Source) -> Option<Action> {
        let address = self.address(barrier, Space::Cluster)?;
        let complete: AtomicFunction =
            Box::new(|_, old, operands| at(old).complete(operands[0] as u64).bits().into());
        Some(atomic(address, vec![bytes], Vec::new(), complete))
    }

    /// `[to], value, [barrier]`.
    fn store_async(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.ignore(HINTS);
        let to = self.space(ins)?;
        ins.flag(COMPLETES).then_some(())?;
        let _ = ins.word(Kind::Vector);
        let ty = ins.ty()?;
        let sources = self.sources(ins.get(1)?, ty)?;
        let total = u64::from(ty.bytes()) * sources.len() as u64;
        let address = self.address(ins.get(0)?, to)?;
        let store = Action::Store { address, bytes: ty.bytes(), sources: sources.into(), strong: false };
        let completion = self.completion(ins.get(2)?, Source::constant(total))?;
        Some(Action::Both(Box::new([store, completion])))
    }

    fn reduce_async(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.ignore(HINTS);
        let to = self.space(ins)?;
        ins.flag(COMPLETES).then_some(())?;
        let operation = ins.word(Kind::Op).or_else(|| ins.word(Kind::Exchange))?;
        let ty = ins.ty()?;
        let function = atomic_function(operation, ty)?;
        let address = self.address(ins.get(0)?, to)?;
        let mut reduction = Atomic::new(address, ty.bytes(), self.sources(ins.get(1)?, ty)?, function);
        reduction.count = 1;
        let completion = self.completion(ins.get(2)?, Source::constant(ty.bytes().into()))?;
        Some(Action::Both(Box::new([Action::Atomic(Box::new(reduction)), completion])))
    }
}

fn at(bits: u128) -> Mbarrier {
    Mbarrier::read(bits as u64)
}

fn atomic(address: Address, sources: Vec<Source>, dests: Vec<Dest>, function: AtomicFunction) -> Action {
    let meeting = Some(Told::Thread);
    let atomic = Atomic { dests: dests.into(), meeting, ..Atomic::new(address, BARRIER, sources, function) };
    Action::Atomic(Box::new(atomic))
}
