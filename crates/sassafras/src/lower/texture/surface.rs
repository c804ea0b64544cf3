//! Lowers surface loads, stores and reductions.

use crate::lower::Lower;
use crate::lower::instruction::Ins;
use crate::lower::memory::load_store::{Data, Order, Scope, size_word};
use crate::lower::texture::handles::{Kind as Image, Name};
use ori::{Arg, File};
use ptx::words::Kind;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(crate) fn surface(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "suld.b" => self.surface_load(ins),
            "sust.b" => self.surface_store(ins, true),
            "sust.p" => self.surface_store(ins, false),
            "sured.b" => self.surface_reduction(ins, true),
            "sured.p" => self.surface_reduction(ins, false),
            "suq" => self.image_query(ins),
            _ => None,
        }
    }

    /// Out-of-bounds behaviour: trap, clamp (the machine's default), or zero and no store.
    fn outside(ins: &Ins) -> Option<&'static [M]> {
        Some(match ins.word(Kind::Clamp)? {
            "trap" => &[M::TRAP],
            "clamp" => &[],
            "zero" => &[M::IGN],
            _ => return None,
        })
    }

    /// Cache operators of surfaces as in ptxas: eviction priority and memory order.
    fn surface_manner(ins: &Ins) -> (&'static [M], Order) {
        match ins.one_of(&["ca", "cg", "cs", "cv", "wb", "wt"]) {
            Some("cs") => (&[M::EF], Order::Strong(Scope::Cta)),
            Some("cg" | "cv" | "wt") => (&[], Order::Strong(Scope::Sys)),
            _ => (&[], Order::Strong(Scope::Cta)),
        }
    }

    /// Coordinates in the machine's order: an array index comes last.
    fn surface_coordinates(
        &mut self,
        rest: &'a [ptx::ast::Operand],
        array: bool,
        count: usize,
    ) -> Option<Arg> {
        let mut words = self.coordinates(rest, count + usize::from(array))?;
        if array {
            words.rotate_left(1);
        }
        Some(self.group(&words).into())
    }

    fn handle_args(&self, name: &Name) -> Vec<Arg> {
        name.register().map_or_else(|| self.image_args(name), |handle| vec![handle])
    }

    fn surface_load(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (dimension, array, count) = Self::surface_geometry(ins)?;
        let (evict, order) = Self::surface_manner(ins);
        let (data, outside) = (Data::read(ins)?, Self::outside(ins)?);
        let (surface, rest) = self.image(ins.get(1)?)?;
        let handle = self.handle(surface);
        let at = self.surface_coordinates(rest, array, count)?;
        let (size, order) = (size_word(data.bits(), false)?, self.order(order));
        let modifiers = [&[M::D, M::BA, dimension], evict, size, order, outside].concat();
        let to = ins.get(0)?;
        self.with_image(
            handle,
            Image::Surface,
            |s, name| {
                let result = s.kernel.code.value(File::R, data.words());
                let args = [vec![at], s.handle_args(name)].concat();
                s.effect(Op::SULD, &modifiers, &[result], &args);
                Some(result)
            },
            |s, result| s.unpack(to, result, data),
        )
    }

    /// Raw bytes (`.b`), or texels that are converted to the surface's format (`.p`).
    fn surface_store(&mut self, ins: &Ins<'a>, raw: bool) -> Option<()> {
        let (dimension, array, count) = Self::surface_geometry(ins)?;
        let (evict, order) = Self::surface_manner(ins);
        let (data, outside) = (Data::read(ins)?, Self::outside(ins)?);
        let (surface, rest) = self.image(ins.get(0)?)?;
        let handle = self.handle(surface);
        let at = self.surface_coordinates(rest, array, count)?;
        let value = self.gather(ins.get(1)?, data)?;
        let order = self.order(order);
        let modifiers = match raw {
            true => {
                [&[M::D, M::BA, dimension], evict, size_word(data.bits(), false)?, order, outside].concat()
            }
            false => {
                let components: &[M] = match data.count {
                    1 => &[M::R],
                    2 => &[M::RG],
                    _ => &[],
                };
                [&[M::P, dimension], evict, order, components, outside].concat()
            }
        };
        self.with_image(
            handle,
            Image::Surface,
            |s, name| {
                let args = [vec![at, value.into()], s.handle_args(name)].concat();
                s.effect(Op::SUST, &modifiers, &[], &args);
                Some(())
            },
            |_, ()| Some(()),
        )
    }

    fn surface_reduction(&mut self, ins: &Ins<'a>, raw: bool) -> Option<()> {
        let op = match ins.word(Kind::Op)? {
            "add" => M::ADD,
            "min" => M::MIN,
            "max" => M::MAX,
            "and" => M::AND,
            "or" => M::OR,
            _ => return None,
        };
        let (dimension, array, count) = Self::surface_geometry(ins)?;
        let (data, outside) = (Data::read(ins)?, Self::outside(ins)?);
        let ordered = matches!(op, M::MIN | M::MAX);
        let ty: &[M] = match data.ty.name() {
            "s32" => &[M::S32],
            "u64" => &[M::U64],
            "s64" => &[M::S64],
            // The surface's format determines signedness.
            "b32" if ordered => &[M::SD32],
            "b64" if ordered => &[M::SD64],
            "u32" | "b32" => &[],
            _ => return None,
        };
        let (surface, rest) = self.image(ins.get(0)?)?;
        let handle = self.handle(surface);
        let at = self.surface_coordinates(rest, array, count)?;
        let value = self.gather(ins.get(1)?, data)?;
        let bytes: &[M] = if raw { &[M::BA] } else { &[] };
        let order = self.order(Order::Strong(Scope::Sys));
        let modifiers = [&[M::D], bytes, &[dimension, op], ty, order, outside].concat();
        self.with_image(
            handle,
            Image::Surface,
            |s, name| {
                let args = [vec![at, value.into()], s.handle_args(name)].concat();
                s.effect(Op::SURED, &modifiers, &[], &args);
                Some(())
            },
            |_, ()| Some(()),
        )
    }
}
