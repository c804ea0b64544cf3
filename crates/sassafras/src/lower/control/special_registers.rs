//! Lowers special registers: the source of each, by target.
//!
//! Read off ptxas's code for `mov.u32 %r, REGISTER` on all targets. The offsets are in the target's row: from sm_100
//! on, the launch parameters are in constant bank 0 below an end that moves with the size of the cluster.

use crate::lower::Lower;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use sass::{M, Op};
use targets::{Target, Word};

/// The source of a word.
#[derive(Clone, Copy)]
enum Source {
    Number(i64),
    /// A machine register, through the slow path or the fast one.
    Slow(M),
    Fast(M),
    /// A bit field of one: shift and width.
    Bits(M, i64, i64),
    /// Constant bank 0.
    Bank(Word),
    /// The size of shared memory minus a word of constant bank 0.
    SharedLess(u32),
    /// The minimum of the size of shared memory and another word.
    SharedAtMost(Word),
    /// The cluster id: the block id times the reciprocal of the cluster size, rounded down; and the rank of the block
    /// in it, which takes the size as well.
    ClusterId(M, Word),
    RankInCluster(M, Word, Word),
}

use Source::*;

const AXES: [(M, M); 3] =
    [(M::SR_TID_X, M::SR_CTAID_X), (M::SR_TID_Y, M::SR_CTAID_Y), (M::SR_TID_Z, M::SR_CTAID_Z)];

/// A 32-bit register. `index` is the axis, or the number of a numbered register.
fn source(name: &str, index: usize, target: &Target) -> Option<Source> {
    let (words, bytes) = (&target.launch, 4 * index as u32);
    let clusters = words.clusters.as_ref();
    Some(match name {
        // The fourth element is always 0.
        "%tid" | "%ntid" | "%ctaid" | "%nctaid" | "%clusterid" | "%nclusterid" | "%cluster_ctaid"
        | "%cluster_nctaid"
            if index == 3 =>
        {
            Number(0)
        }
        "%tid" => Slow(AXES.get(index)?.0),
        "%ctaid" => Slow(AXES.get(index)?.1),
        "%ntid" => Bank(Word::At(words.ntid + bytes)),
        "%nctaid" => Bank(Word::At(words.nctaid + bytes)),
        "%clusterid" => ClusterId(AXES.get(index)?.1, clusters?.reciprocals.plus(bytes)),
        "%cluster_ctaid" => {
            let (reciprocal, size) = (clusters?.reciprocals.plus(bytes), clusters?.sizes.plus(bytes));
            RankInCluster(AXES.get(index)?.1, reciprocal, size)
        }
        "%cluster_nctaid" => Bank(clusters?.sizes.plus(bytes)),
        "%nclusterid" => Bank(clusters?.counts.plus(bytes)),
        "%cluster_ctarank" => Slow(M::SR_CgaCtaId),
        "%cluster_nctarank" => Bank(clusters?.blocks),
        "%gridid" => Bank(Word::At(words.gridid)),
        "%laneid" => Slow(M::SR_LANEID),
        "%warpid" => Bits(M::SR_VIRTID, 8, 7),
        "%nwarpid" => target.nwarpid.map_or(Bits(M::SR_VIRTCFG, 8, 8), |warps| Number(warps.into())),
        "%smid" => Slow(M::SR_VIRTUALSMID),
        "%nsmid" => Bank(Word::At(words.nsmid)),
        "%lanemask_eq" => Slow(M::SR_EQMASK),
        "%lanemask_le" => Slow(M::SR_LEMASK),
        "%lanemask_lt" => Slow(M::SR_LTMASK),
        "%lanemask_ge" => Slow(M::SR_GEMASK),
        "%lanemask_gt" => Slow(M::SR_GTMASK),
        "%clock" => Fast(M::SR_CLOCKLO),
        "%clock_hi" => Fast(M::SR_CLOCKHI),
        "%globaltimer_lo" => Fast(M::SR_GLOBALTIMERLO),
        "%globaltimer_hi" => Fast(M::SR_GLOBALTIMERHI),
        "%total_smem_size" => words.system_shared.map_or(Slow(M::SR_SMEMSZ), SharedLess),
        "%aggr_smem_size" => SharedAtMost(clusters?.largest_shared),
        "%dynamic_smem_size" => Bank(words.dynamic_shared),
        _ if name.starts_with("%reserved_smem_offset") => return reserved_shared(name, target),
        "%envreg" if index < 16 => Bank(words.envregs.plus(bytes)),
        "%envreg" => Bank(words.late_envregs.plus(bytes)),
        _ => Fast(counter(name)?),
    })
}

/// Reserved shared memory. It is below that of the kernel if its size is constant, else above.
fn reserved_shared(name: &str, target: &Target) -> Option<Source> {
    let (words, is_below) = (&target.launch, target.shared_base > 0);
    Some(match name {
        "%reserved_smem_offset_begin" if is_below => Number(0),
        "%reserved_smem_offset_0" if is_below => Number(target.reserved_shared.into()),
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => SharedLess(words.system_shared?),
        "%reserved_smem_offset_end" => Bank(words.reserved_shared_end),
        "%reserved_smem_offset_1" => Bank(words.reserved_shared_1),
        "%reserved_smem_offset_cap" if is_below => Number(target.shared_base.into()),
        "%reserved_smem_offset_cap" => Slow(M::SR_SMEMSZ),
        _ => return None,
    })
}

/// Performance counters.
fn counter(name: &str) -> Option<M> {
    let names = [M::SR_PM0, M::SR_PM1, M::SR_PM2, M::SR_PM3, M::SR_PM4, M::SR_PM5, M::SR_PM6, M::SR_PM7];
    let number = name.strip_prefix("%pm")?.trim_end_matches("_64").parse::<usize>().ok()?;
    names.get(number).copied()
}

impl Lower<'_, '_> {
    /// A special register of 32 bits, or the lower half of one of 64.
    pub(crate) fn special_word(&mut self, operand: &Operand) -> Option<Value> {
        let Operand::Special { row, component } = operand else { return None };
        self.mark_read(operand);
        let name = ptx::sreg::TABLE[usize::from(*row)].name;
        let source = source(name, usize::from(component.unwrap_or(0)), self.machine)?;
        Some(self.word_from(source))
    }

    /// Is it a vector, with `.x`, `.y`, `.z` and `.w`?
    pub(crate) fn is_vector(&self, row: u16) -> bool {
        const VECTORS: [&str; 8] = [
            "%tid",
            "%ntid",
            "%ctaid",
            "%nctaid",
            "%clusterid",
            "%nclusterid",
            "%cluster_ctaid",
            "%cluster_nctaid",
        ];
        ptx::sreg::TABLE.get(usize::from(row)).is_some_and(|r| VECTORS.contains(&r.name))
    }

    /// All four elements of a vector.
    pub(crate) fn special_vector(&mut self, row: u16) -> Option<Value> {
        let mut words = Vec::new();
        for element in 0..4 {
            let operand = Operand::Special { row, component: Some(element) };
            words.push(self.special_word(&operand)?.into());
        }
        Some(self.pack(&words))
    }

    fn word_from(&mut self, source: Source) -> Value {
        match source {
            Number(n) => self.emit(Op::MOV, &[], 1, &[Arg::Imm(n)]),
            Slow(name) => self.emit(Op::S2R, &[], 1, &[Arg::Name(name)]),
            Fast(name) => {
                let value = self.kernel.code.value(File::R, 1);
                self.effect(Op::CS2R, &[M::_32], &[value], &[Arg::Name(name)]);
                value
            }
            Bits(name, shift, width) => {
                let word = self.emit(Op::S2R, &[], 1, &[Arg::Name(name)]);
                let args = [Arg::Zero(File::R), Arg::Imm(shift), word.into()];
                let word = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &args);
                self.emit(Op::SGXT, &[M::U32], 1, &[word.into(), Arg::Imm(width)])
            }
            Bank(Word::At(offset)) => self.bank0(1, None, offset),
            Bank(Word::BelowCluster(offset)) => {
                let size = self.emit(Op::CS2R, &[M::_32], 1, &[Arg::Name(M::SR_CgaSize)]);
                let stride = Arg::Imm(-i64::from(Word::BYTES_PER_BLOCK));
                let back = self.emit(Op::IMAD, &[], 1, &[size.into(), stride, Arg::Zero(File::R)]);
                self.bank0(1, Some(back), offset)
            }
            SharedLess(offset) => {
                let (size, less) = (self.word_from(Slow(M::SR_SMEMSZ)), self.bank0(1, None, offset));
                let args = [size.into(), Arg::from(less).negated(), Arg::Zero(File::R)];
                self.emit(Op::IADD3, &[], 1, &args)
            }
            SharedAtMost(other) => {
                let (size, other) = (self.word_from(Slow(M::SR_SMEMSZ)), self.word_from(Bank(other)));
                let args = [Arg::True(true), size.into(), other.into(), Arg::True(true)];
                let less = self.emit_p(Op::ISETP, &[M::LT, M::U32, M::AND], &args);
                self.emit(Op::SEL, &[], 1, &[size.into(), other.into(), less.into()])
            }
            ClusterId(block, reciprocal) => self.cluster_id(block, reciprocal),
            RankInCluster(block, reciprocal, size) => {
                let id = self.cluster_id(block, reciprocal);
                let (size, block) = (self.word_from(Bank(size)), self.word_from(Slow(block)));
                let back = self.negate(&[id.into()]);
                self.emit(Op::IMAD, &[], 1, &[size.into(), back[0], block.into()])
            }
        }
    }

    fn cluster_id(&mut self, block: M, reciprocal: Word) -> Value {
        let block = self.word_from(Slow(block));
        let reciprocal = self.word_from(Bank(reciprocal));
        let float = self.emit(Op::I2FP, &[M::F32, M::U32], 1, &[block.into()]);
        let product = self.emit(Op::FMUL, &[], 1, &[float.into(), reciprocal.into()]);
        self.emit(Op::F2I, &[M::U32, M::TRUNC, M::NTZ], 1, &[product.into()])
    }

    /// Words of constant bank 0.
    fn bank0(&mut self, words: u8, index: Option<Value>, offset: u32) -> Value {
        let size: &[M] = if words == 2 { &[M::_64] } else { &[] };
        self.emit(Op::LDC, size, words, &[Arg::Bank { bank: 0, index, offset: offset as i32 }])
    }

    /// A special register of 64 bits.
    pub(crate) fn special_wide(&mut self, operand: &Operand) -> Option<Value> {
        let Operand::Special { row, component: None } = operand else { return None };
        self.mark_read(operand);
        let words = &self.machine.launch;
        let name = match ptx::sreg::TABLE[usize::from(*row)].name {
            "%gridid" => return Some(self.bank0(2, None, words.gridid)),
            "%current_graph_exec" => return Some(self.bank0(2, None, words.graph_exec)),
            "%clock64" => M::SR_CLOCKLO,
            "%globaltimer" => M::SR_GLOBALTIMERLO,
            name => counter(name)?,
        };
        let value = self.kernel.code.value(File::R, 2);
        self.effect(Op::CS2R, &[], &[value], &[Arg::Name(name)]);
        Some(value)
    }

    /// `%is_explicit_cluster`: a word of constant bank 0 is 1.
    pub(crate) fn special_predicate(&mut self, row: u16) -> Option<Value> {
        if ptx::sreg::TABLE.get(usize::from(row))?.name != "%is_explicit_cluster" {
            return None;
        }
        let offset = self.machine.launch.clusters.as_ref()?.is_explicit;
        let word = self.bank0(1, None, offset);
        let args = [Arg::True(true), word.into(), Arg::Imm(1), Arg::True(true)];
        Some(self.emit_p(Op::ISETP, &[M::EQ, M::AND], &args))
    }
}
