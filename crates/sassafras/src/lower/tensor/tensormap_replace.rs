//! Lowers `tensormap.replace` and `tensormap.cp_fenceproxy`: updates of a tensor map in memory, and publishing it to
//! the TMA unit. [`sass::tensor_map`] has the layout.

use crate::lower::Lower;
use crate::lower::build::{RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use crate::lower::memory::load_store::Scope;
use ori::{Arg, File, Value};
use ptx::Type;
use sass::tensor_map::{self, Choice, Field};
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(crate) fn tensormap_replace(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.flag("tile"), ins.types());
        let what = ins.one_of(&[
            "global_address",
            "rank",
            "box_dim",
            "global_dim",
            "global_stride",
            "element_stride",
            "elemtype",
            "interleave_layout",
            "swizzle_mode",
            "swizzle_atomicity",
            "fill_mode",
        ])?;
        let space = self.space(ins)?;
        let map = self.address(ins.get(0)?, space, 128)?;
        match what {
            "global_address" => {
                let value = self.wide(ins.get(1)?, Type::B64)?;
                self.store_word(space, map, 0, value);
            }
            "rank" => {
                let rank = self.word(ins.get(1)?, Type::U32)?;
                self.replace_field(space, map, tensor_map::RANK, rank);
            }
            "box_dim" | "global_dim" | "element_stride" => {
                let axis = constant(ins.get(1)?, Type::U32)? as u32;
                let size = self.word(ins.get(2)?, Type::U32)?;
                let size = self.in_register(size);
                let last = self.emit(Op::IADD3, &[], 1, &[size, Arg::Imm(-1), RZ]);
                match what {
                    "box_dim" => self.replace_field(space, map, tensor_map::box_size(axis), last.into()),
                    "element_stride" => self.replace_field(space, map, tensor_map::step(axis), last.into()),
                    _ => self.store_word(space, map, tensor_map::SIZES + 4 * axis, last),
                }
            }
            "global_stride" => {
                let axis = constant(ins.get(1)?, Type::U32)? as u32;
                let [low, high] = self.words(ins.get(2)?, Type::B64)?.map(|w| self.in_register(w));
                let shift = Arg::Imm(tensor_map::STRIDE_SHIFT.into());
                let units = self.emit(Op::SHF, &[M::R, M::U64], 1, &[low, shift, high]);
                let above = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, shift, high]);
                self.store_word(space, map, tensor_map::STRIDES + 4 * axis, units);
                self.replace_field(space, map, tensor_map::stride_above(axis), above.into());
            }
            _ => {
                let fields = Choice::named(what)?.fields(constant(ins.get(1)?, Type::U32)? as u32);
                if fields.is_empty() {
                    return None;
                }
                for (field, value) in fields {
                    self.replace_field(space, map, field, Arg::Imm(value.into()));
                }
            }
        }
        Some(())
    }

    /// (word & ~mask) | (value << shift & mask)
    fn replace_field(&mut self, space: Space, map: Address, field: Field, value: Arg) {
        let value = match value {
            Arg::Imm(n) => self.in_register(Arg::Imm(i64::from((n << field.shift) as i32))),
            value if field.shift == 0 => value,
            value => {
                self.emit(Op::SHF, &[M::L, M::U32], 1, &[value, Arg::Imm(field.shift.into()), RZ]).into()
            }
        };
        let old = self.load_word(space, map, field.word);
        let mask = Arg::Imm(i64::from((field.mask() << field.shift) as i32));
        let new = self.lop3(old.into(), mask, value, 0xb8);
        self.store_word(space, map, field.word, new);
    }

    fn load_word(&mut self, space: Space, map: Address, offset: u32) -> Value {
        let address = Address { offset: map.offset + i64::from(offset), ..map };
        let word = self.kernel.code.value(File::R, 1);
        match space {
            Space::Shared => {
                let words = self.shared_load_words(&[]);
                self.effect(Op::LDS, &words, &[word], &address.args());
            }
            _ => {
                let op = if space == Space::Global { Op::LDG } else { Op::LD };
                let args = self.described(address, None);
                self.effect(op, &[M::E], &[word], &args);
            }
        }
        word
    }

    fn store_word(&mut self, space: Space, map: Address, offset: u32, value: Value) {
        let address = Address { offset: map.offset + i64::from(offset), ..map };
        let size: &[M] = if self.kernel.code.values[value].words == 2 { &[M::_64] } else { &[] };
        let (op, words, mut args) = match space {
            Space::Shared => (Op::STS, size.to_vec(), address.args().to_vec()),
            _ => {
                let op = if space == Space::Global { Op::STG } else { Op::ST };
                (op, [&[M::E], size].concat(), self.described(address, None))
            }
        };
        args.push(value.into());
        self.effect(op, &words, &[], &args);
    }

    /// `tensormap.cp_fenceproxy`: each thread of the warp copies a word of the map, visible to the unit.
    pub(crate) fn tensormap_publish(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        let _ = (ins.flag("tensormap::generic"), ins.flag("release"));
        // The unit reads maps from outside the block.
        let scope = Scope::read(ins)?.max(Scope::Gpu);
        let (Space::Global, Space::Shared) = (self.space(ins)?, self.space(ins)?) else { return None };
        let _whole_map = constant(ins.get(2)?, Type::U32).filter(|n| *n == 128)?;
        let lane = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]);
        let offset = self.emit(Op::SHF, &[M::L, M::U32], 1, &[lane.into(), Arg::Imm(2), RZ]);
        let from = self.address(ins.get(1)?, Space::Shared, 0)?;
        let from_base = self.emit(Op::IADD3, &[], 1, &[from.base, offset.into(), RZ]);
        let word = self.load_word(Space::Shared, Address { base: from_base.into(), ..from }, 0);
        let to = self.address(ins.get(0)?, Space::Global, 0)?;
        let Arg::Use(base) = to.base else { return None };
        let base = self.add64([Arg::word(base.value, 0), Arg::word(base.value, 1)], [offset.into(), RZ]);
        let order = self.order(crate::lower::memory::load_store::Order::Strong(scope));
        // As in ptxas's code, no descriptor.
        let mut args = vec![Arg::True(true), RZ];
        args.extend(Address { base: base.into(), ..to }.args());
        args.push(word.into());
        self.effect(Op::ATOMG, &[&[M::E, M::EXCH], order].concat(), &[], &args);
        Some(())
    }
}
