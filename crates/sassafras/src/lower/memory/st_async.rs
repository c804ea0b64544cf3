//! Lowers asynchronous stores and reductions, `st.async` and `red.async`, and the zero fill `st.bulk`.

use crate::lower::Lower;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use crate::lower::memory::bulk_copy::reduction;
use crate::lower::memory::load_store::{Data, Scope, size_word};
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// The scoreboard that counts stores until they are issued (`mach/control_codes.rs`).
const LEAVING: M = M::SB5;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn async_store(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "st.bulk" => self.store_zeros(ins),
            _ if ins.flag("mbarrier::complete_tx::bytes") => self.counted_store(ins),
            _ => self.released_store(ins),
        }
    }

    /// To the shared memory of a block of the cluster; its barrier counts the bytes. The address tuple is the data's,
    /// then the barrier's.
    fn counted_store(&mut self, ins: &Ins<'a>) -> Option<()> {
        let reduces = ins.mnemonic() == "red.async";
        // The barrier orders it, and its scope is that of the address.
        let _ = (ins.flag("weak"), ins.flag("relaxed"), Scope::read(ins), ins.word(Kind::Space));
        let (op, mut words) = match reduces {
            true => (Op::REDAS, vec![reduction(ins)?]),
            false => (Op::STAS, Vec::new()),
        };
        let data = Data::read(ins)?;
        match (reduces, data.ty.name()) {
            (true, "s32") => words.push(M::S32),
            _ => words.extend(size_word(data.bits(), false)?),
        }
        let value = self.gather(ins.get(1)?, data)?;
        let addresses = [self.shared_word(ins.get(0)?)?, self.shared_word(ins.get(2)?)?];
        let addresses = self.pack(&addresses);
        self.effect(op, &words, &[], &[addresses.into(), Arg::Imm(0), value.into()]);
        Some(())
    }

    /// To global memory, with release order.
    fn released_store(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (_release, mmio, scope) = (ins.flag("release"), ins.flag("mmio"), Scope::read(ins)?);
        let order = match (mmio, scope) {
            (_, Scope::Cta) => return None,
            (false, Scope::Gpu) => M::STRONG_GPU,
            (false, Scope::Sys) => M::STRONG_SYS,
            (true, Scope::Gpu) => M::MMIO_GPU,
            (true, Scope::Sys) => M::MMIO_SYS,
        };
        // A generic address must be one of global memory.
        let _ = ins.word(Kind::Space);
        let (op, mut words) = match ins.mnemonic() {
            "red.async" => (Op::UREDGR, vec![M::E, reduction(ins)?, M::NA]),
            _ => (Op::USTGR, vec![M::E, M::NA]),
        };
        let data = Data::read(ins)?;
        match (op, data.ty.name()) {
            (Op::UREDGR, "s32") => words.push(M::S32),
            _ => words.extend(size_word(data.bits(), false)?),
        }
        words.push(order);
        let value = self.gather(ins.get(1)?, data)?;
        if !self.has(op) {
            return self.store_synchronously(ins.get(0)?, &words, scope, value);
        }
        let mut all = self.far_words(ins.get(0)?, Space::Global)?;
        all.extend((0..data.words()).map(|i| Arg::word(value, i)));
        self.in_waterfall(Grouping::Thread, &all, |l, uniform| {
            let (address, value) = uniform.split_at_checked(2)?;
            let (address, value) = (l.pack_uniform(address), l.pack_uniform(value));
            l.effect(Op::MEMBAR, &[M::ALL, M::CTA], &[], &[]);
            l.effect(op, &words, &[], &[address.into(), Arg::Imm(0), value.into()]);
            // As ptxas does: waits until the store is issued.
            l.effect(Op::DEPBAR, &[M::LE], &[], &[Arg::Name(LEAVING), Arg::Imm(0)]);
            Some(())
        })
    }

    /// Without a native form: an ordinary store after the release fence. `words` are the modifiers of the missing form.
    fn store_synchronously(
        &mut self,
        address: &Operand,
        words: &[M],
        scope: Scope,
        value: Value,
    ) -> Option<()> {
        self.before_release(scope);
        let reduces = words.contains(&M::ADD);
        let op = if reduces { Op::REDG } else { Op::STG };
        let words: Vec<M> = words.iter().copied().filter(|w| *w != M::NA).collect();
        let address = self.address(address, Space::Global, 0)?;
        // I/O has no descriptor.
        let mmio = words.iter().any(|w| matches!(w, M::MMIO_GPU | M::MMIO_SYS));
        let mut args = if mmio { address.args().to_vec() } else { self.described(address, None) };
        args.push(value.into());
        self.effect(op, &words, &[], &args);
        Some(())
    }

    /// Zeros shared memory, in units of eight bytes.
    fn store_zeros(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.flag("weak"), ins.word(Kind::Space));
        let Operand::Int { value: 0, .. } = ins.get(2)? else { return None };
        let address = self.shared_word(ins.get(0)?)?;
        let size = ins.get(1)?;
        let [low, high] = match self.count_words(size) {
            1 => [self.word(size, Type::U32)?, Arg::Zero(ori::File::R)],
            _ => self.words(size, Type::U64)?,
        };
        let [low, high] = [low, high].map(|w| self.in_register(w));
        let units = self.emit(Op::SHF, &[M::R, M::U64], 1, &[low, Arg::Imm(3), high]);
        self.in_waterfall(Grouping::SameOperands, &[address, units.into()], |l, uniform| {
            let args = [uniform[0], Arg::Imm(0), Arg::Name(M::URZ), uniform[1]];
            l.effect(Op::UMEMSETS, &[M::_64], &[], &args);
            Some(())
        })
    }

    /// The words of a register; a constant has two.
    fn count_words(&self, operand: &Operand) -> u8 {
        match operand {
            Operand::Reg(reg) => self.shape(*reg).1,
            _ => 2,
        }
    }
}
