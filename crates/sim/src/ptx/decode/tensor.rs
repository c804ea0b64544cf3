//! Copies of boxes of tensors, and the maps that say what a tensor is.

use super::memory::HINTS;
use super::{Decoder, Ins, Source, constant};
use crate::memory::Space;
use crate::ptx::program::{Action, Bulk, Delivery, Direction, Tensor};
use crate::tensor_map::{self, MapField};
use ::ptx::Type;
use ::ptx::ast::Operand;
use ::ptx::words::Kind;
use sass::tensor_map::Choice;

const OPERATIONS: [(&str, &str); 8] = [
    ("add", "add"),
    ("min", "min"),
    ("max", "max"),
    ("inc", "inc"),
    ("dec", "dec"),
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
];

impl<'a> Decoder<'a> {
    pub(super) fn tensor(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "cp.async.bulk.prefetch.tensor" => self.nothing(ins),
            "tensormap.replace" => self.replace_in_map(ins),
            "tensormap.cp_fenceproxy" => self.publish_map(ins),
            _ => self.copy_of_tensor(ins),
        }
    }

    /// `[to], [map, {coordinates}], [barrier], {offsets}, blocks, policy` or `[map, {coordinates}], [from], policy`.
    fn copy_of_tensor(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.choose(&[("1d", ()), ("2d", ()), ("3d", ()), ("4d", ()), ("5d", ())])?;
        let (to, from) = (self.space(ins)?, self.space(ins)?);
        let loads = from == Space::Global;
        ins.ignore(&["tile", "im2col_no_offs", "mbarrier::complete_tx::bytes", "bulk_group"]);
        let along_filter = ins.flag("im2col");
        let (many, hinted) = (ins.flag("multicast::cluster"), ins.flag("L2::cache_hint"));
        let operation = match ins.mnemonic() {
            "cp.reduce.async.bulk.tensor" => Some(ins.choose(&OPERATIONS)?),
            _ => None,
        };
        if hinted {
            ins.get(ins.len() - 1);
        }
        let (shared, map) = if loads { (0, 1) } else { (1, 0) };
        let (map, corner) = self.address_and_more(ins.get(map)?, Space::Generic)?;
        let [corner] = corner else { return None };
        let shared = self.address(ins.get(shared)?, if loads { to } else { from })?;
        let mut next = 2;
        let mut take = || {
            next += 1;
            ins.get(next - 1)
        };
        let (mut offsets, direction) = (
            Vec::new(),
            match loads {
                true => {
                    let barrier = Some(self.address(take()?, Space::Cluster)?);
                    Direction::Load(Delivery { barrier, blocks: None })
                }
                false => Direction::Store(operation),
            },
        );
        if along_filter {
            offsets = self.sources(take()?, Type::B16)?;
        }
        let direction = match (direction, many) {
            (Direction::Load(delivery), true) => {
                let blocks = Some(self.source(take()?, Type::B16)?);
                Direction::Load(Delivery { blocks, ..delivery })
            }
            (direction, _) => direction,
        };
        Some(Action::Tensor(Box::new(Tensor {
            map,
            corner: self.sources(corner, Type::B32)?.into(),
            offsets: offsets.into(),
            shared,
            direction,
        })))
    }

    /// `[map], value` or `[map], axis, value`.
    fn replace_in_map(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.flag("tile").then_some(())?;
        let axis = |ins: &Ins<'a>| constant(ins.get(1)?, Type::U32).map(|axis| axis as u32);
        let name = ins.choose(&FIELDS.map(|(name, _)| (name, name)))?;
        let indexed = FIELDS.iter().find(|(known, _)| *known == name)?.1;
        let field = match name {
            "global_address" => MapField::Address,
            "rank" => MapField::Rank,
            "box_dim" => MapField::Box(axis(ins)?),
            "global_dim" => MapField::Size(axis(ins)?),
            "global_stride" => MapField::Stride(axis(ins)?),
            "element_stride" => MapField::Step(axis(ins)?),
            name => MapField::Choice(Choice::named(name)?),
        };
        let space = self.space(ins)?;
        while ins.word(Kind::Type).is_some() {}
        let address = self.address(ins.get(0)?, space)?;
        let value = self.source(ins.get(if indexed { 2 } else { 1 })?, Type::B64)?;
        Some(Action::ReplaceInMap { address, field, value })
    }

    /// Copies a map to where copies read it.
    fn publish_map(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.ignore(HINTS);
        ins.ignore(&["tensormap::generic", "sync", "aligned"]);
        let (to, from) = (self.space(ins)?, self.space(ins)?);
        let whole = matches!(ins.get(2)?, Operand::Int { value, .. } if *value == tensor_map::BYTES as u64);
        whole.then_some(())?;
        Some(Action::Bulk(Box::new(Bulk {
            to: self.address(ins.get(0)?, to)?,
            from: self.address(ins.get(1)?, from)?,
            bytes: Source::constant(tensor_map::BYTES as u64),
            combine: None,
            delivery: Delivery::default(),
        })))
    }
}

/// The fields of a map, and whether there is one for each axis.
const FIELDS: [(&str, bool); 11] = [
    ("global_address", false),
    ("rank", false),
    ("box_dim", true),
    ("global_dim", true),
    ("global_stride", true),
    ("element_stride", true),
    ("elemtype", false),
    ("interleave_layout", false),
    ("swizzle_mode", false),
    ("swizzle_atomicity", false),
    ("fill_mode", false),
];
