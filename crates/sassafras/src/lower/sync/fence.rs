//! Lowers fences: `fence`, `membar`, and those of ordered accesses.

use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::memory::load_store::Scope;
use crate::lower::{Kernel, Lower};
use ori::Arg;
use sass::{M, Op};

/// A fence wider than the block does not seem to wait for the mbarrier unit; a block fence does. ptxas puts a block
/// fence before each wider one wherever the unit is used in a kernel or its callees, before the fence or after it, and
/// in each function of an object. Only fences of aliases are excluded.
pub(crate) fn after_barrier_unit(kernel: &mut Kernel, is_linked_later: bool) {
    let function = &mut kernel.code;
    let is = |f: &ori::Function, inst: ori::Inst, op: Op| f.insts[inst].op == ori::Op::Machine(op);
    let is_alone = kernel.entry && !kernel.calls && !is_linked_later;
    let blocks: Vec<ori::Block> = function.blocks.keys().collect();
    let uses_unit = |b: &ori::Block| function.blocks[*b].insts.iter().any(|i| is(function, *i, Op::SYNCS));
    if is_alone && !blocks.iter().any(uses_unit) {
        return;
    }
    for block in blocks {
        let mut insts = Vec::new();
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            let is_wide = |m: &M| matches!(m, M::GPU | M::SYS);
            if is(function, inst, Op::MEMBAR) && function.insts[inst].modifiers.iter().any(is_wide) {
                let mut narrow = function.insts[inst].clone();
                narrow.modifiers = [M::ALL, M::CTA].into_iter().collect();
                insts.push(function.insts.push(narrow));
            }
            insts.push(inst);
        }
        function.blocks[block].insts = insts;
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn fence(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "membar" => self.membar(ins),
            "fence" => self.plain_fence(ins),
            "fence.proxy" | "membar.proxy" => self.proxy_fence(ins),
            _ => None,
        }
    }

    fn membar(&mut self, ins: &Ins<'a>) -> Option<()> {
        let scope = match ins.one_of(&["cta", "gl", "sys"])? {
            "cta" => Scope::Cta,
            "gl" => Scope::Gpu,
            _ => Scope::Sys,
        };
        self.full_fence(M::SC, scope);
        Some(())
    }

    fn plain_fence(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.flag("mbarrier_init") {
            // mbarrier words are written in order; no other access needs ordering.
            self.compiler_fence(&[M::GPU, M::S]);
            return (ins.flag("release") && ins.flag("cluster")).then_some(());
        }
        if ins.flag("sync_restrict::shared::cluster") {
            self.compiler_fence(&[M::GPU]);
            return (ins.flag("acquire") && ins.flag("cluster")).then_some(());
        }
        if ins.flag("sync_restrict::shared::cta") {
            self.shared_view();
            return (ins.flag("release") && ins.flag("cluster")).then_some(());
        }
        let order = ins.one_of(&["sc", "acq_rel", "acquire", "release"]);
        let scope = Scope::read(ins)?;
        match order {
            Some("sc") => self.full_fence(M::SC, scope),
            // Documented from sm_90 on; ptxas takes it for older targets but makes no code for them that
            // nvdisasm can read. The stronger fence is right there.
            Some("acquire") if self.machine.has_clusters => self.after_acquire(scope),
            Some("release") if self.machine.has_clusters => self.before_release(scope),
            _ => self.full_fence(M::ALL, scope),
        }
        Some(())
    }

    fn full_fence(&mut self, order: M, scope: Scope) {
        self.memory_barrier(order, scope);
        self.after_acquire(scope);
    }

    /// Release: earlier accesses of the thread are visible to the scope.
    pub(crate) fn before_release(&mut self, scope: Scope) {
        self.memory_barrier(M::ALL, scope);
    }

    /// Acquire: stale lines of this SM's cache are invalidated.
    pub(crate) fn after_acquire(&mut self, scope: Scope) {
        match scope {
            Scope::Cta => self.compiler_fence(&[M::CTA]),
            _ => self.effect(Op::CCTL, &[M::IVALL], &[], &[]),
        }
    }

    /// A compiler-only fence, where the machine needs no instruction: see [`ori::Pseudo::MemoryFence`].
    pub(crate) fn compiler_fence(&mut self, words: &[M]) {
        let data = self.data(ori::Op::Pseudo(ori::Pseudo::MemoryFence), words, &[], &[]);
        self.kernel.code.append(self.block, data);
    }

    /// Beyond the block, errors of earlier accesses are collected too.
    fn memory_barrier(&mut self, order: M, scope: Scope) {
        self.effect(Op::MEMBAR, &[order, scope.word()], &[], &[]);
        if scope != Scope::Cta {
            self.effect(Op::ERRBAR, &[], &[], &[]);
            if self.has(Op::CGAERRBAR) {
                self.effect(Op::CGAERRBAR, &[], &[], &[]);
            }
        }
    }

    /// Makes shared memory visible to the async proxy.
    fn shared_view(&mut self) {
        self.effect(Op::MEMBAR, &[M::ALL, M::CTA], &[], &[]);
        self.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::S], &[], &[]);
    }

    fn proxy_fence(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.flag("alias") {
            return self.alias_fence();
        }
        if ins.flag("async::generic") {
            let fits = ins.flag("cluster");
            if ins.flag("release") {
                self.shared_view();
                return (fits && ins.flag("sync_restrict::shared::cta")).then_some(());
            }
            self.compiler_fence(&[M::GPU]);
            return (fits && ins.flag("acquire") && ins.flag("sync_restrict::shared::cluster")).then_some(());
        }
        if ins.flag("tensormap::generic") {
            let scope = Scope::read(ins)?;
            if ins.flag("acquire") {
                return self.acquire_tensormap(ins);
            }
            if !ins.flag("release") {
                return None;
            }
            // Tensor maps are read from outside the block, whatever the scope.
            self.before_release(if scope == Scope::Cta { Scope::Gpu } else { scope });
            return Some(());
        }
        if !ins.flag("async") {
            return None;
        }
        match ins.word(ptx::words::Kind::Space) {
            Some("global") => self.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::G], &[], &[]),
            Some("shared::cta") => self.shared_view(),
            None | Some("shared::cluster") => {
                self.effect(Op::MEMBAR, &[M::ALL, M::GPU], &[], &[]);
                self.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::S], &[], &[]);
            }
            _ => return None,
        }
        Some(())
    }

    /// Between two virtual aliases of a location. A word of bank 0 says how far apart they may be.
    fn alias_fence(&mut self) -> Option<()> {
        let Some(alias) = &self.machine.alias_word else {
            self.effect(Op::MEMBAR, &[M::SC, M::GPU], &[], &[]);
            self.effect(Op::CCTL, &[M::IVALL], &[], &[]);
            return Some(());
        };
        let word =
            self.emit(Op::LDC, &[], 1, &[Arg::Bank { bank: 0, index: None, offset: alias.offset as i32 }]);
        let bits = self.lop3(word.into(), Arg::Imm(alias.mask), RZ, 0xc0);
        let near = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, bits.into(), RZ, PT]);
        self.under(near.into(), |s| s.effect(Op::MEMBAR, &[M::SC, M::GPU], &[], &[]));
        self.under(Arg::not(near), |s| s.effect(Op::MEMBAR, &[M::SC, M::SYS], &[], &[]));
        self.effect(Op::CCTL, &[M::IVALL], &[], &[]);
        Some(())
    }
}
