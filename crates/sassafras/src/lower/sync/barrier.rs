//! Lowers the barriers of a block, a warp and a cluster: `bar`, `barrier`, `barrier.cluster`.

use crate::lower::Lower;
use crate::lower::build::{RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::sync::collectives::{TRUTH, WORD};
use ori::{Arg, Edge, File, Terminator};
use ptx::Type;
use sass::{M, Op};
use targets::DeferBlocking;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn barrier(&mut self, ins: &Ins<'a>) -> Option<()> {
        let name = ins.mnemonic();
        match name {
            "bar.warp" => return self.sync_warp(ins),
            "barrier.cluster.arrive" | "barrier.cluster.wait" => {
                return self.in_guarded_branch(|l| l.cluster_barrier(ins));
            }
            _ => {}
        }
        // `bar` is `barrier.aligned`: all threads of the warp execute it convergently. For unaligned barriers ptxas has
        // the same code except before sm_90, where they don't defer.
        let aligned = ins.flag("aligned") || name.starts_with("bar.") || name == "bar";
        let defers = match self.machine.defer_blocking {
            DeferBlocking::Never => false,
            DeferBlocking::Aligned => aligned,
            DeferBlocking::Always => true,
        };
        let defer: &[M] = if defers { &[M::DEFER_BLOCKING] } else { &[] };
        if name.ends_with("arrive") {
            let operands = self.barrier_operands(ins, 0, Some(1))?;
            return self.arrive_at(aligned, &[M::ARV], &operands);
        }
        if name.ends_with("red") {
            return self.barrier_reduction(ins, aligned, defer);
        }
        if !ins.flag("sync") {
            return None;
        }
        let operands = self.barrier_operands(ins, 0, (ins.len() > 1).then_some(1))?;
        self.arrive_at(aligned, &[&[M::SYNC], defer].concat(), &operands)
    }

    /// Arrives at a barrier. The hardware counts warps, so the whole warp must converge first. Lanes that arrive from
    /// different program points are gathered as ptxas does it; before sm_90, only those at the same program point. (The
    /// pass `convergence` removes the wait where the warp is convergent.)
    fn arrive_at(&mut self, aligned: bool, modifiers: &[M], operands: &[Arg]) -> Option<()> {
        if aligned || !self.machine.collects_unaligned_warps {
            self.wait_for_warp();
            self.effect(Op::BAR, modifiers, &[], operands);
            return Some(());
        }
        self.in_guarded_branch(|l| l.gather_warp(Op::BAR, modifiers, operands, |_| {}))
    }

    fn barrier_reduction(&mut self, ins: &Ins<'a>, aligned: bool, defer: &[M]) -> Option<()> {
        let (op, counts) = match ins.one_of(&["popc", "and", "or"])? {
            "popc" => (M::POPC, true),
            "and" => (M::AND, false),
            _ => (M::OR, false),
        };
        ins.ty()?;
        let last = ins.len() - 1;
        let predicate = self.predicate(ins.get(last)?)?;
        let mut operands = self.barrier_operands(ins, 1, (last > 2).then_some(2))?;
        operands.push(predicate);
        let (file, modifiers) = (if counts { File::R } else { File::P }, [&[M::RED, op], defer].concat());
        if aligned || !self.machine.collects_unaligned_warps {
            self.arrive_at(aligned, &modifiers, &operands)?;
            let result = self.kernel.code.value(file, 1);
            let results =
                if counts { vec![result] } else { vec![self.kernel.code.value(File::R, 1), result] };
            self.effect(Op::B2R, &[M::RESULT], &results, &[]);
            return self.set(ins.get(0)?, result);
        }
        // The result is read while the warp is still gathered, as in ptxas's code: an H200 has given another one to
        // threads that read it after `ENDCOLLECTIVE`.
        self.in_guarded_branch(|l| {
            let registers: &[Arg] = if counts { &[WORD] } else { &[WORD, TRUTH] };
            l.gather_warp(Op::BAR, &modifiers, &operands, |l| {
                l.emit_to(Op::B2R, &[M::RESULT], &[], registers);
            })?;
            let result = l.kernel.code.value(file, 1);
            l.read_fixed(result);
            l.set(ins.get(0)?, result)
        })
    }

    /// The barrier number, and the thread count.
    fn barrier_operands(&mut self, ins: &Ins<'a>, number: usize, count: Option<usize>) -> Option<Vec<Arg>> {
        let number = ins.get(number)?;
        self.kernel.barriers = match constant(number, Type::U32) {
            Some(n) => self.kernel.barriers.max((n & 15) as u8 + 1),
            None => 16,
        };
        let number = match self.word(number, Type::U32)? {
            Arg::Imm(n) => Arg::Imm(n & 15),
            register => register,
        };
        let Some(count) = count else { return Some(vec![number]) };
        let count = match self.word(ins.get(count)?, Type::U32)? {
            Arg::Imm(n) => Arg::Imm(n & 0xfff),
            register => register,
        };
        if let (Arg::Use(_), Arg::Use(_)) = (number, count) {
            // Both in one register: the count above, the number below.
            let number = self.masked(number, 15);
            let count = self.emit(Op::SHF, &[M::L, M::U32], 1, &[count, Arg::Imm(16), RZ]);
            let both: Arg = self.lop3(count.into(), number.into(), RZ, 0xfc).into();
            return Some(vec![both, both]);
        }
        Some(vec![number, count])
    }

    /// In a launch without clusters a cluster is a block: an arrival is a no-op, and a wait is a block barrier.
    fn cluster_barrier(&mut self, ins: &Ins<'a>) -> Option<()> {
        // Every thread takes part with and without `.aligned`: the warp does as one.
        self.aligned(ins);
        let order = ins.one_of(&["release", "relaxed", "acquire"]);
        let arrive = ins.mnemonic() == "barrier.cluster.arrive";
        let row = ptx::sreg::find("%is_explicit_cluster")?.0;
        let predicate = self.special_predicate(row)?;
        let [cluster, block, after] = [(); 3].map(|()| self.kernel.code.block());
        let (yes, no) = (Edge::to(cluster), Edge::to(block));
        let end = Terminator::Branch { predicate, negated: false, uniform: true, yes, no };
        self.kernel.code.blocks[self.block].end = end;
        self.block = cluster;
        if arrive {
            if order != Some("relaxed") {
                self.effect(Op::MEMBAR, &[M::ALL, M::GPU], &[], &[]);
                self.effect(Op::ERRBAR, &[], &[], &[]);
                self.effect(Op::CGAERRBAR, &[], &[], &[]);
            }
            self.effect(Op::UCGABAR_ARV, &[], &[], &[]);
        } else {
            self.effect(Op::UCGABAR_WAIT, &[], &[], &[]);
            self.effect(Op::CCTL, &[M::IVALL], &[], &[]);
        }
        self.kernel.code.blocks[cluster].end = Terminator::Jump(Edge::to(after));
        self.block = block;
        if !arrive {
            self.effect(Op::BAR, &[M::SYNC, M::DEFER_BLOCKING], &[], &[Arg::Imm(0)]);
            self.kernel.barriers = self.kernel.barriers.max(1);
        }
        self.kernel.code.blocks[block].end = Terminator::Jump(Edge::to(after));
        self.block = after;
        Some(())
    }
}
