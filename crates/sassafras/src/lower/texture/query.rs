//! Lowers `txq`, `suq` and `istypep`: properties of textures, samplers and surfaces.
//!
//! The machine returns the size of a level. Everything else is in tables of the driver, one record for each texture,
//! sampler or surface; the loader fills in the size of a record. Fields and tables are those of ptxas's code.

use crate::lower::build::RZ;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Address;
use crate::lower::memory::load_store::Order;
use crate::lower::texture::handles::{Kind as Image, Source};
use crate::lower::{Linked, Lower};
use ori::{Arg, File, Half, Value};
use ptx::Type;
use ptx::words::Kind;
use sass::{M, Op};

/// A table: the offset of its address from that of the first one, the symbol of the record size, and the field offsets.
struct Table {
    offset_in_tables: u32,
    record: &'static str,
    fields: &'static [(&'static str, i64)],
}

static TEXTURES: Table = Table {
    offset_in_tables: 0,
    record: ".nv.unified.texrefDescSize",
    fields: &[
        // A record has no such field; ptxas reads the first one.
        ("force_unnormalized_coords", 0x00),
        ("addr_mode_0", 0x0c),
        ("addr_mode_1", 0x10),
        ("addr_mode_2", 0x14),
        ("filter_mode", 0x18),
        ("normalized_coords", 0x1c),
        ("channel_data_type", 0x20),
        ("channel_order", 0x24),
        ("array_size", 0x28),
        ("num_mipmap_levels", 0x2c),
        ("num_samples", 0x30),
    ],
};

/// With separate samplers.
static PLAIN_TEXTURES: Table = Table {
    offset_in_tables: 0,
    record: ".nv.independent.texrefDescSize",
    fields: &[
        ("normalized_coords", 0x0c),
        ("channel_data_type", 0x10),
        ("channel_order", 0x14),
        ("array_size", 0x18),
        ("num_mipmap_levels", 0x1c),
        ("num_samples", 0x20),
    ],
};

static SAMPLERS: Table = Table {
    offset_in_tables: 8,
    record: ".nv.independent.samplerrefDescSize",
    fields: &[
        ("addr_mode_0", 0x00),
        ("addr_mode_1", 0x04),
        ("addr_mode_2", 0x08),
        ("filter_mode", 0x0c),
        ("force_unnormalized_coords", 0x10),
    ],
};

static SURFACES: Table = Table {
    offset_in_tables: 16,
    record: ".nv.surfrefDescSize",
    fields: &[
        ("channel_data_type", 0x0c),
        ("channel_order", 0x10),
        ("memory_layout", 0x14),
        ("array_size", 0x1c),
    ],
};

impl Table {
    fn field(&self, name: &str) -> Option<i64> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, offset)| *offset)
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn image_query(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _b32 = ins.ty()?;
        let question = ins.word(Kind::Query)?;
        let (image, rest) = self.image(ins.get(1)?)?;
        if !rest.is_empty() {
            return None;
        }
        let mask = match question {
            "width" => 1,
            "height" => 2,
            "depth" => 4,
            _ => return self.ask_table(ins, question, &image),
        };
        let level = match ins.mnemonic() {
            "txq.level" => self.word(ins.get(2)?, Type::B32)?,
            _ => Arg::Imm(0),
        };
        let to = ins.get(0)?;
        let handle = self.handle(image);
        self.with_image(
            handle,
            Image::Texture,
            |s, name| {
                let words: Vec<Arg> = name.register().into_iter().chain([level]).collect();
                let words = s.group(&words);
                let separate: &[M] = if name.register().is_some() { &[M::B] } else { &[] };
                let (nothing, result) = (s.kernel.code.value(File::R, 1), s.kernel.code.value(File::R, 1));
                let mut args = vec![words.into(), Arg::Name(M::TEX_HEADER_DIMENSION)];
                args.extend(s.image_args(name));
                args.push(Arg::Imm(mask));
                s.effect(Op::TXQ, separate, &[nothing, result], &args);
                Some(result)
            },
            |s, result| s.set(to, result),
        )
    }

    fn ask_table(&mut self, ins: &Ins<'a>, question: &str, image: &Source) -> Option<()> {
        let table = match ins.mnemonic() {
            "suq" => &SURFACES,
            "txq" if !self.separate_samplers() => &TEXTURES,
            "txq" if SAMPLERS.field(question).is_some() => &SAMPLERS,
            "txq" => &PLAIN_TEXTURES,
            _ => return None,
        };
        let field = table.field(question)?;
        let index = self.image_index(image, !std::ptr::eq(table, &SAMPLERS));
        let symbol = self.linked(table.record, Linked::LoaderSize);
        let size = self.emit(Op::MOV, &[], 1, &[Arg::Address { symbol, addend: 0, half: Half::Low }]);
        let offset = self.emit(Op::IMAD, &[], 1, &[index, size.into(), Arg::Imm(field)]);
        let start = self.bank0_pair(self.machine.image_tables + table.offset_in_tables);
        let offset_in_tables = self.add64(start, [offset.into(), RZ]);
        let value = self.load_record(offset_in_tables);
        self.set(ins.get(0)?, value)
    }

    /// The tables are read-only while a kernel runs.
    fn load_record(&mut self, offset_in_tables: Value) -> Value {
        let result = self.kernel.code.value(File::R, 1);
        let words = [&[M::E], self.order(Order::Constant)].concat();
        let args = self.described(Address { base: offset_in_tables.into(), offset: 0 }, None);
        self.effect(Op::LDG, &words, &[result], &args);
        result
    }

    /// Tests the type of an opaque handle: its upper word has a bit for each.
    pub(crate) fn istypep(&mut self, ins: &Ins<'a>) -> Option<()> {
        use crate::lower::memory::variables::{IS_SAMPLER, IS_SURFACE, IS_TEXTURE};
        let bit = match ins.ty()?.name() {
            "texref" => IS_TEXTURE,
            "samplerref" => IS_SAMPLER,
            "surfref" => IS_SURFACE,
            _ => return None,
        };
        let [_, high] = self.words(ins.get(1)?, Type::U64)?;
        let masked = self.lop3(high, Arg::Imm(bit), RZ, 0xc0);
        let args = [crate::lower::build::PT, masked.into(), RZ, crate::lower::build::PT];
        let value = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &args);
        self.set(ins.get(0)?, value)
    }
}
