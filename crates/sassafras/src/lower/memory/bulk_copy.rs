//! Lowers bulk copies of memory and of tensors (TMA), bulk groups, prefetches, and cluster launch control. All are
//! warp-level operations with uniform operands.
//!
//! The uniform operands are tuples of consecutive registers:
//!
//! | operation | first tuple | second tuple | then |
//! |---|---|---|---|
//! | `UBLKCP.S` | destination, barrier | source | size and blocks |
//! | `UBLKCP.G`, `UBLKRED` | destination (and barrier) | source | size |
//! | `UTMALDG` | destination, barrier, coordinates | map | offsets and blocks |
//! | `UTMASTG`, `UTMAREDG` | source, coordinates | map | |
//! | `UTMAPF` | coordinates | map | offsets |
//!
//! The last register has the size in units of 16 bytes, or the offsets of `im2col`, in its low half, and the multicast
//! mask of the cluster's blocks in its high half.

use crate::lower::Lower;
use crate::lower::build::RZ;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use crate::lower::operand_use::VALUE;
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, File};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// PRMT: the low halves of two words, the second one above.
const LOW_HALVES: i64 = 0x5410;
/// PRMT: the low bytes of two words; the upper half is undefined.
const LOW_BYTES: i64 = 0x0040;

/// A warp-level operation being built: operand tuples in the order of the assembly text.
struct Warp {
    op: Op,
    words: Vec<M>,
    turns: Grouping,
    groups: Vec<Vec<Arg>>,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn bulk(&mut self, ins: &Ins<'a>) -> Option<()> {
        let name = ins.mnemonic();
        self.kernel.uses.tensor_copies |= name.ends_with(".tensor");
        self.kernel.uses.map_changes |= name == "tensormap.replace";
        self.kernel.uses.launch_control |= name.starts_with("clusterlaunchcontrol");
        match name {
            "cp.async.bulk" => self.bulk_copy(ins),
            "cp.reduce.async.bulk" => self.bulk_reduce(ins),
            "cp.async.bulk.prefetch" => self.bulk_prefetch(ins),
            "cp.async.bulk.commit_group" => self.in_guarded_branch(|l| {
                l.effect(Op::UTMACMDFLUSH, &[], &[], &[]);
                Some(())
            }),
            "cp.async.bulk.wait_group" => {
                let reads_only = ins.flag("read");
                self.wait_groups(crate::lower::build::constant(ins.get(0)?, Type::U32)?)?;
                if !reads_only {
                    self.effect(Op::CCTL, &[M::IVALL], &[], &[]);
                }
                Some(())
            }
            "cp.async.bulk.tensor" => self.tensor_copy(ins),
            "cp.reduce.async.bulk.tensor" => self.tensor_reduce(ins),
            "cp.async.bulk.prefetch.tensor" => self.tensor_prefetch(ins),
            "tensormap.replace" => self.tensormap_replace(ins),
            "tensormap.cp_fenceproxy" => self.tensormap_publish(ins),
            "clusterlaunchcontrol.try_cancel.async" => self.try_cancel(ins),
            "clusterlaunchcontrol.query_cancel" => self.query_cancel(ins),
            _ => None,
        }
    }

    /// Emits a warp-level operation, and packs its operand tuples.
    fn emit_warp_op(&mut self, warp: Warp) -> Option<()> {
        let all: Vec<Arg> = warp.groups.concat();
        self.in_waterfall(warp.turns, &all, |l, uniform| {
            let mut rest = uniform;
            let mut args = Vec::new();
            for group in &warp.groups {
                let (these, others) = rest.split_at_checked(group.len())?;
                rest = others;
                args.push(match these {
                    [one] => *one,
                    _ => l.pack_uniform(these).into(),
                });
            }
            l.effect(warp.op, &warp.words, &[], &args);
            Some(())
        })
    }

    /// An address of shared memory in one word.
    pub(crate) fn shared_word(&mut self, operand: &Operand) -> Option<Arg> {
        let address = self.address(operand, Space::Shared, 0)?;
        Some(self.within(address, Space::Shared, 0..0).base)
    }

    /// A global or generic address in two words.
    pub(crate) fn far_words(&mut self, operand: &Operand, space: Space) -> Option<Vec<Arg>> {
        let address = self.address(operand, space, 0)?;
        let Arg::Use(base) = self.within(address, space, 0..0).base else { return None };
        Some(vec![Arg::word(base.value, 0), Arg::word(base.value, 1)])
    }

    /// The cache policy operand, if there is one: it replaces the descriptor.
    fn hint(&mut self, ins: &Ins<'a>) -> Option<Option<Vec<Arg>>> {
        self.hint_before(ins, 0)
    }

    /// The same, with so many operands after it.
    fn hint_before(&mut self, ins: &Ins<'a>, after: usize) -> Option<Option<Vec<Arg>>> {
        if !ins.flag("L2::cache_hint") {
            return Some(None);
        }
        Some(Some(self.words(ins.get(ins.len().checked_sub(1 + after)?)?, Type::U64)?.to_vec()))
    }

    /// A size in units of 16 bytes, with a mask of 16 bits above.
    fn size_and_mask(&mut self, size: &Operand, mask: Option<Arg>) -> Option<Arg> {
        let size = self.word(size, Type::U32)?;
        let size = self.in_register(size);
        let units = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(4), size]);
        Some(self.halves(units.into(), mask.unwrap_or(RZ)))
    }

    /// The multicast mask, where the machine has one.
    fn blocks(&mut self, operand: &Operand) -> Option<Option<Arg>> {
        let mask = self.word(operand, Type::B16)?;
        Some(self.machine.multicasts.then_some(mask))
    }

    fn halves(&mut self, low: Arg, high: Arg) -> Arg {
        let (low, high) = (self.in_register(low), self.in_register(high));
        self.emit(Op::PRMT, &[], 1, &[low, Arg::Imm(LOW_HALVES), high]).into()
    }

    fn bulk_copy(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (to, from) = (ins.word(Kind::Space)?, ins.word(Kind::Space)?);
        // The completion mechanism follows from the spaces.
        let _completion = (ins.flag("mbarrier::complete_tx::bytes"), ins.flag("bulk_group"));
        let to_global = to == "global";
        let (multicast, masked) = (ins.flag("multicast::cluster"), ins.flag("cp_mask"));
        // The multicast mask comes before the policy, the byte mask after it.
        let policy = self.hint_before(ins, usize::from(masked))?;
        let mask = match (multicast, masked) {
            (true, _) => self.blocks(ins.get(4)?)?,
            (_, true) => Some(self.word(ins.get(ins.len() - 1)?, Type::B16)?),
            _ => None,
        };
        let source = match from {
            "global" => self.far_words(ins.get(1)?, Space::Global)?,
            _ => vec![self.shared_word(ins.get(1)?)?],
        };
        let destination = match to_global {
            true => self.far_words(ins.get(0)?, Space::Global)?,
            false => vec![self.shared_word(ins.get(0)?)?, self.shared_word(ins.get(3)?)?],
        };
        let size = self.size_and_mask(ins.get(2)?, mask)?;
        let mut words = vec![if to_global { M::G } else { M::S }, if from == "global" { M::G } else { M::S }];
        words.extend(mask.filter(|_| multicast).map(|_| M::MULTICAST));
        words.extend(masked.then_some(M::DST_G_BYTE_MASK));
        let groups = [destination, source, vec![size]].into_iter().chain(policy).collect();
        // A barrier counts each copy; without one, equal copies of several lanes can be merged.
        let turns = if to_global { Grouping::SameOperands } else { Grouping::Thread };
        self.emit_warp_op(Warp { op: Op::UBLKCP, words, turns, groups })
    }

    fn bulk_reduce(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (to, _from) = (ins.word(Kind::Space)?, ins.word(Kind::Space)?);
        let policy = self.hint(ins)?;
        let _completion = (ins.flag("mbarrier::complete_tx::bytes"), ins.flag("bulk_group"));
        // The machine preserves 16-bit subnormals in any case.
        let _ = ins.flag("noftz");
        let op = reduction(ins)?;
        let ty: &[M] = match ins.ty()?.name() {
            "u32" | "b32" => &[],
            "s32" => &[M::S32],
            "u64" | "b64" => &[M::U64],
            "s64" => &[M::S64],
            "f16" => &[M::F16_RN],
            "bf16" => &[M::BF16_RN],
            "f32" => &[M::F32_RN],
            "f64" => &[M::F64_RN],
            _ => return None,
        };
        let source = vec![self.shared_word(ins.get(1)?)?];
        let (space, destination) = match to {
            "global" => (M::G, self.far_words(ins.get(0)?, Space::Global)?),
            _ => (M::S, vec![self.shared_word(ins.get(0)?)?, self.shared_word(ins.get(3)?)?]),
        };
        let size = self.size_and_mask(ins.get(2)?, None)?;
        let words = [&[space, M::S, op], ty].concat();
        let groups = [destination, source, vec![size]].into_iter().chain(policy).collect();
        self.emit_warp_op(Warp { op: Op::UBLKRED, words, turns: Grouping::Thread, groups })
    }

    fn bulk_prefetch(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (_global, _level) = (ins.word(Kind::Space)?, ins.flag("L2"));
        let policy = self.hint(ins)?;
        let source = self.far_words(ins.get(0)?, Space::Global)?;
        let size = self.size_and_mask(ins.get(1)?, None)?;
        let groups = [source, vec![size]].into_iter().chain(policy).collect();
        self.emit_warp_op(Warp { op: Op::UBLKPF, words: vec![M::L2], turns: Grouping::SameOperands, groups })
    }

    /// `[map, {coordinates}]`
    fn map_and_coordinates(&mut self, operand: &Operand) -> Option<(Vec<Arg>, Vec<Arg>)> {
        let Operand::Address(range) = operand else { return None };
        let (coordinates, place) = self.body.list(*range).split_last()?;
        self.mark_parts(coordinates, VALUE);
        let Operand::Vector(coordinates) = coordinates else { return None };
        let at = self.address_at(place, Space::Generic, 0)?;
        let Arg::Use(map) = self.within(at, Space::Generic, 0..0).base else { return None };
        let mut words = Vec::new();
        for coordinate in self.body.list(*coordinates) {
            words.push(self.word(coordinate, Type::B32)?);
        }
        Some((vec![Arg::word(map.value, 0), Arg::word(map.value, 1)], words))
    }

    fn tensor_copy(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (to, _from) = (ins.word(Kind::Space)?, ins.word(Kind::Space)?);
        let policy = self.hint(ins)?;
        let _completion = (ins.flag("mbarrier::complete_tx::bytes"), ins.flag("bulk_group"));
        let dim = dimensions(ins)?;
        if to == "global" {
            let mode: &[M] = match ins.one_of(&["tile", "im2col_no_offs", "tile::scatter4"]) {
                None | Some("tile") => &[],
                Some("im2col_no_offs") => &[M::IM2COL],
                Some(_) => &[M::SCATTER4],
            };
            let (map, coordinates) = self.map_and_coordinates(ins.get(0)?)?;
            let first = [vec![self.shared_word(ins.get(1)?)?], coordinates].concat();
            let groups = [first, map].into_iter().chain(policy).collect();
            let words = [&[dim], mode].concat();
            return self.emit_warp_op(Warp { op: Op::UTMASTG, words, turns: Grouping::SameOperands, groups });
        }
        let mode = ins.one_of(&["tile", "im2col", "im2col::w", "im2col::w::128", "tile::gather4"]);
        let multicast = ins.flag("multicast::cluster");
        let pair = ins.one_of(&["cta_group::1", "cta_group::2"]) == Some("cta_group::2");
        let has_offsets = mode.is_some_and(|m| m.starts_with("im2col"));
        let (map, coordinates) = self.map_and_coordinates(ins.get(1)?)?;
        let address = vec![self.shared_word(ins.get(0)?)?, self.shared_word(ins.get(2)?)?];
        let offsets = if has_offsets { self.im2col_offsets(ins.get(3)?, mode)? } else { RZ };
        let mask = match multicast {
            true => self.blocks(ins.get(3 + usize::from(has_offsets))?)?,
            false => None,
        };
        let mut words = vec![dim];
        words.extend(mode_word(mode));
        words.extend(mask.map(|_| M::MULTICAST));
        words.extend(pair.then_some(M::_2CTA));
        let mut groups = vec![[address, coordinates].concat(), map];
        if has_offsets || mask.is_some() {
            groups.push(vec![self.halves(offsets, mask.unwrap_or(RZ))]);
        }
        groups.extend(policy);
        self.emit_warp_op(Warp { op: Op::UTMALDG, words, turns: Grouping::Thread, groups })
    }

    /// The offsets of `im2col`, packed into 16 bits.
    fn im2col_offsets(&mut self, operand: &Operand, mode: Option<&str>) -> Option<Arg> {
        let Operand::Vector(range) = operand else { return None };
        let mut words = Vec::new();
        for offset in self.body.list(*range) {
            let word = self.word(offset, Type::B16)?;
            words.push(self.in_register(word));
        }
        let mut scaled = |a: Arg, by: i64, b: Arg| -> Arg {
            self.emit(Op::IMAD, &[M::U32], 1, &[a, Arg::Imm(by), b]).into()
        };
        Some(match (mode, &words[..]) {
            (Some("im2col"), [a]) => *a,
            (Some("im2col"), [a, b]) => self.emit(Op::PRMT, &[], 1, &[*a, Arg::Imm(LOW_BYTES), *b]).into(),
            (Some("im2col"), [a, b, c]) => {
                let two = scaled(*b, 1 << 5, *a);
                scaled(*c, 1 << 10, two)
            }
            (_, [a, b]) => scaled(*b, 1 << 11, *a),
            _ => return None,
        })
    }

    fn tensor_reduce(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _spaces = (ins.word(Kind::Space)?, ins.word(Kind::Space)?);
        let policy = self.hint(ins)?;
        let _ = ins.flag("bulk_group");
        let dim = dimensions(ins)?;
        let op = reduction(ins)?;
        let mode: &[M] = match ins.one_of(&["tile", "im2col_no_offs"]) {
            Some("im2col_no_offs") => &[M::IM2COL],
            _ => &[],
        };
        let (map, coordinates) = self.map_and_coordinates(ins.get(0)?)?;
        let first = [vec![self.shared_word(ins.get(1)?)?], coordinates].concat();
        let words = [&[dim], mode, &[op]].concat();
        let groups = [first, map].into_iter().chain(policy).collect();
        self.emit_warp_op(Warp { op: Op::UTMAREDG, words, turns: Grouping::Thread, groups })
    }

    fn tensor_prefetch(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (_global, _level) = (ins.word(Kind::Space)?, ins.flag("L2"));
        let policy = self.hint(ins)?;
        let dim = dimensions(ins)?;
        let mode = ins.one_of(&["tile", "im2col", "im2col::w", "im2col::w::128", "tile::gather4"]);
        let (map, coordinates) = self.map_and_coordinates(ins.get(0)?)?;
        let mut groups = vec![coordinates, map];
        if mode.is_some_and(|m| m.starts_with("im2col")) {
            let offsets = self.im2col_offsets(ins.get(1)?, mode)?;
            groups.push(vec![self.halves(offsets, RZ)]);
        }
        groups.extend(policy);
        let words = [M::L2, dim].into_iter().chain(mode_word(mode)).collect();
        self.emit_warp_op(Warp { op: Op::UTMAPF, words, turns: Grouping::SameOperands, groups })
    }

    /// `clusterlaunchcontrol.try_cancel`: the response goes to shared memory, and a barrier signals it.
    fn try_cancel(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.word(Kind::Space), ins.flag("mbarrier::complete_tx::bytes"), ins.ty()?);
        let cast = if ins.flag("multicast::cluster::all") { M::BROADCAST } else { M::SELFCAST };
        let addresses = [self.shared_word(ins.get(0)?)?, self.shared_word(ins.get(1)?)?];
        self.in_waterfall(Grouping::Thread, &addresses, |l, uniform| {
            let pair = l.pack_uniform(uniform);
            l.effect(Op::UGETNEXTWORKID, &[cast], &[], &[Arg::word(pair, 0), Arg::word(pair, 1)]);
            Some(())
        })
    }

    /// Decodes the response: the first word is x, the next has y below and z above, the lowest bit of the third says
    /// whether there is work.
    fn query_cancel(&mut self, ins: &Ins<'a>) -> Option<()> {
        let what = ins.one_of(&[
            "is_canceled",
            "get_first_ctaid",
            "get_first_ctaid::x",
            "get_first_ctaid::y",
            "get_first_ctaid::z",
        ])?;
        let _ = (ins.types(), ins.word(Kind::Vector));
        let Arg::Use(answer) = self.whole(ins.get(1)?)? else { return None };
        let word = |i: u8| Arg::word(answer.value, answer.part.map_or(0, |p| p.first) + i);
        let to = ins.get(0)?;
        if what == "is_canceled" {
            let bit = self.masked(word(2), 1);
            let canceled = self.emit_p(
                Op::ISETP,
                &[M::NE, M::U32, M::AND],
                &[Arg::True(true), bit.into(), RZ, Arg::True(true)],
            );
            return self.set(to, canceled);
        }
        let x = self.copy(word(0));
        let y = self.masked(word(1), 0xffff);
        let z = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(16), word(1)]);
        match what {
            "get_first_ctaid::x" => self.set(to, x),
            "get_first_ctaid::y" => self.set(to, y),
            "get_first_ctaid::z" => self.set(to, z),
            _ => {
                let all = self.pack(&[x.into(), y.into(), z.into(), Arg::Zero(File::R)]);
                self.set(to, all)
            }
        }
    }
}

fn dimensions(ins: &Ins) -> Option<M> {
    Some(match ins.one_of(&["1d", "2d", "3d", "4d", "5d"])? {
        "1d" => M::_1D,
        "2d" => M::_2D,
        "3d" => M::_3D,
        "4d" => M::_4D,
        _ => M::_5D,
    })
}

fn mode_word(mode: Option<&str>) -> Option<M> {
    Some(match mode? {
        "im2col" => M::IM2COL,
        "im2col::w" => M::W,
        "im2col::w::128" => M::W128,
        "tile::gather4" => M::GATHER4,
        _ => return None,
    })
}

pub fn reduction(ins: &Ins) -> Option<M> {
    Some(match ins.one_of(&["add", "min", "max", "inc", "dec", "and", "or", "xor"])? {
        "add" => M::ADD,
        "min" => M::MIN,
        "max" => M::MAX,
        "inc" => M::INC,
        "dec" => M::DEC,
        "and" => M::AND,
        "or" => M::OR,
        _ => M::XOR,
    })
}
