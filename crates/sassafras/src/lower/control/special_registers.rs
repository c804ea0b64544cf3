//! Special registers: where each comes from, on each machine.
//!
//! Read off ptxas's code for `mov.u32 %r, REGISTER` on all targets. From sm_100 on, what a launch decides lies in
//! constant bank 0 below an end that moves with the size of the cluster.

use crate::lower::Lower;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use sass::{M, Op};

/// Where a word comes from.
#[derive(Clone, Copy)]
enum Source {
    Number(i64),
    /// A machine register, through the slow path or the fast one.
    Slow(M),
    Fast(M),
    /// Some bits of one: how far down, how many.
    Bits(M, i64, i64),
    /// Constant bank 0.
    Bank(u32),
    /// Constant bank 0, less 0xa0 bytes for each block of the cluster.
    Cluster(u32),
    /// Shared memory's size, less a word of constant bank 0.
    SharedLess(u32),
    /// The smaller one of shared memory's size and another word.
    SharedAtMost(&'static Source),
    /// The number of the cluster: that of the block times the reciprocal of the cluster's size, rounded down; and
    /// the block's place in it.
    ClusterId(M, &'static Source),
    PlaceInCluster(M, &'static Source, &'static Source),
}

use Source::*;

const AXES: [(M, M); 3] =
    [(M::SR_TID_X, M::SR_CTAID_X), (M::SR_TID_Y, M::SR_CTAID_Y), (M::SR_TID_Z, M::SR_CTAID_Z)];

/// Sizes of the cluster and their reciprocals, by axis, on sm_90 and later.
static SIZES_90: [Source; 3] = [Bank(0x144), Bank(0x148), Bank(0x14c)];
static SIZES_100: [Source; 3] = [Cluster(0x2a0), Cluster(0x2a4), Cluster(0x2a8)];
static RECIPROCALS_90: [Source; 3] = [Bank(0x150), Bank(0x154), Bank(0x158)];
static RECIPROCALS_100: [Source; 3] = [Cluster(0x2b0), Cluster(0x2b4), Cluster(0x2b8)];
static LARGEST_90: Source = Bank(0x13c);
static LARGEST_100: Source = Cluster(0x2bc);

/// A register of 32 bits. `index` is the axis, or the number of a numbered register.
fn source(name: &str, index: usize, sm: u16) -> Option<Source> {
    let blackwell = sm >= 100;
    let by_axis = |sources: &'static [Source; 3]| sources.get(index);
    let (sizes, reciprocals, largest) = match blackwell {
        true => (&SIZES_100, &RECIPROCALS_100, &LARGEST_100),
        false => (&SIZES_90, &RECIPROCALS_90, &LARGEST_90),
    };
    let word = 4 * index as u32;
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
        "%ntid" => Bank(if blackwell { 0x360 } else { 0x0 } + word),
        "%nctaid" => Bank(if blackwell { 0x370 } else { 0xc } + word),
        "%clusterid" => ClusterId(AXES.get(index)?.1, by_axis(reciprocals)?),
        "%cluster_ctaid" => PlaceInCluster(AXES.get(index)?.1, by_axis(reciprocals)?, by_axis(sizes)?),
        "%cluster_nctaid" => *by_axis(sizes)?,
        "%nclusterid" if blackwell => Cluster(0x2c0 + word),
        "%nclusterid" => Bank(0x15c + word),
        "%cluster_ctarank" => Slow(M::SR_CgaCtaId),
        "%cluster_nctarank" if blackwell => Cluster(0x2cc),
        "%cluster_nctarank" => Bank(0x188),
        "%gridid" => Bank(if blackwell { 0x140 } else { 0x30 }),
        "%laneid" => Slow(M::SR_LANEID),
        "%warpid" => Bits(M::SR_VIRTID, 8, 7),
        "%nwarpid" => match sm {
            75 => Number(32),
            80 | 87 => Number(64),
            81..90 => Number(48),
            _ => Bits(M::SR_VIRTCFG, 8, 8),
        },
        "%smid" => Slow(M::SR_VIRTUALSMID),
        "%nsmid" => Bank(if blackwell { 0x2d0 } else { 0x10c }),
        "%lanemask_eq" => Slow(M::SR_EQMASK),
        "%lanemask_le" => Slow(M::SR_LEMASK),
        "%lanemask_lt" => Slow(M::SR_LTMASK),
        "%lanemask_ge" => Slow(M::SR_GEMASK),
        "%lanemask_gt" => Slow(M::SR_GTMASK),
        "%clock" => Fast(M::SR_CLOCKLO),
        "%clock_hi" => Fast(M::SR_CLOCKHI),
        "%globaltimer_lo" => Fast(M::SR_GLOBALTIMERLO),
        "%globaltimer_hi" => Fast(M::SR_GLOBALTIMERHI),
        "%total_smem_size" if sm == 75 => Slow(M::SR_SMEMSZ),
        "%total_smem_size" => SharedLess(if blackwell { 0x16c } else { 0x114 }),
        "%aggr_smem_size" => SharedAtMost(largest),
        "%dynamic_smem_size" if blackwell => Cluster(0x2ac),
        "%dynamic_smem_size" => Bank(0x2c),
        "%reserved_smem_offset_begin" if sm >= 90 => Number(0),
        "%reserved_smem_offset_0" if sm >= 90 => Number(if blackwell { 0x40 } else { 0 }),
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => SharedLess(0x114),
        "%reserved_smem_offset_end" => match sm {
            0..90 => Bank(0x120),
            90 => Bank(0x68),
            _ => Cluster(0x278),
        },
        "%reserved_smem_offset_1" => match sm {
            0..90 => Bank(0x124),
            90 => Bank(0x6c),
            _ => Cluster(0x27c),
        },
        "%reserved_smem_offset_cap" if sm >= 90 => Number(0x400),
        "%reserved_smem_offset_cap" => Slow(M::SR_SMEMSZ),
        "%envreg" => match sm {
            0..90 => Bank(0x88 + word),
            90 => Bank(0x40 + word),
            _ if index < 16 => Cluster(0x250 + word),
            _ => Bank(0x90 + word),
        },
        _ => Fast(counter(name)?),
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
        let name = ptx::sreg::TABLE[usize::from(*row)].name;
        let source = source(name, usize::from(component.unwrap_or(0)), self.machine.sm)?;
        Some(self.word_from(source))
    }

    /// Is it one of those with `.x`, `.y`, `.z` and `.w`?
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

    /// All four elements of one of those.
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
            Bank(offset) => self.bank0(1, None, offset),
            Cluster(offset) => {
                let size = self.emit(Op::CS2R, &[M::_32], 1, &[Arg::Name(M::SR_CgaSize)]);
                let back = self.emit(Op::IMAD, &[], 1, &[size.into(), Arg::Imm(-0xa0), Arg::Zero(File::R)]);
                self.bank0(1, Some(back), offset)
            }
            SharedLess(offset) => {
                let (size, less) = (self.word_from(Slow(M::SR_SMEMSZ)), self.bank0(1, None, offset));
                let args = [size.into(), Arg::from(less).negated(), Arg::Zero(File::R)];
                self.emit(Op::IADD3, &[], 1, &args)
            }
            SharedAtMost(other) => {
                let (size, other) = (self.word_from(Slow(M::SR_SMEMSZ)), self.word_from(*other));
                let args = [Arg::True(true), size.into(), other.into(), Arg::True(true)];
                let less = self.emit_p(Op::ISETP, &[M::LT, M::U32, M::AND], &args);
                self.emit(Op::SEL, &[], 1, &[size.into(), other.into(), less.into()])
            }
            ClusterId(block, reciprocal) => self.cluster_id(block, reciprocal),
            PlaceInCluster(block, reciprocal, size) => {
                let id = self.cluster_id(block, reciprocal);
                let (size, block) = (self.word_from(*size), self.word_from(Slow(block)));
                let back = self.negate(&[id.into()]);
                self.emit(Op::IMAD, &[], 1, &[size.into(), back[0], block.into()])
            }
        }
    }

    fn cluster_id(&mut self, block: M, reciprocal: &Source) -> Value {
        let block = self.word_from(Slow(block));
        let reciprocal = self.word_from(*reciprocal);
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
        let Operand::Special { row, .. } = operand else { return None };
        let sm = self.machine.sm;
        let name = match ptx::sreg::TABLE[usize::from(*row)].name {
            "%gridid" => return Some(self.bank0(2, None, if sm >= 100 { 0x140 } else { 0x30 })),
            "%current_graph_exec" => {
                let offset = match sm {
                    75 => 0x120,
                    0..90 => 0x130,
                    90 => 0x190,
                    _ => 0x2e8,
                };
                return Some(self.bank0(2, None, offset));
            }
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
        let word = self.bank0(1, None, if self.machine.sm >= 100 { 0x36c } else { 0x140 });
        let args = [Arg::True(true), word.into(), Arg::Imm(1), Arg::True(true)];
        Some(self.emit_p(Op::ISETP, &[M::EQ, M::AND], &args))
    }
}
