//! What a file with device code contains, for people (`Display`) and for programs (`to_json`).

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use rustc_hash::FxHashMap;
use std::fmt;

use crate::attr::{Attr, Code, PointerSpace, Value};
use crate::compat::{CompatCode, CompatValue};
use crate::error::ReadError;
use crate::fatbin::{self, Container, Image, ImageKind};
use crate::json::Json;
use crate::names::{FileType, SymbolType};
use crate::note::Note;
use crate::object::{Body, Home, Object, Section, Symbol};

/// A file and the device code in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub container: Container,
    pub images: Vec<ImageReport>,
}

/// One image: of a fat binary, of a host program, or the cubin itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReport {
    pub kind: ImageKind,
    pub sm: u32,
    pub size: u64,
    /// How it is stored in a fat binary; `None` for a cubin by itself.
    pub storage: Option<Storage>,
    /// What is in a cubin; `None` for PTX.
    pub cubin: Option<CubinReport>,
}

/// How a fat binary holds an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub compression: &'static str,
    pub stored_size: u64,
    pub identifier: String,
    pub options: String,
}

/// What a cubin contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinReport {
    pub file_type: FileType,
    pub sm: u16,
    /// Compiled for the `a` variant of the SM; `None` where the file does not say.
    pub accelerated: Option<bool>,
    pub virtual_sm: Option<u16>,
    /// Name and version of the tool, and its command line.
    pub tool: Option<(String, String)>,
    pub kernels: Vec<KernelReport>,
    pub symbols: Vec<SymbolReport>,
    pub relocs: Vec<RelocReport>,
}

/// What a kernel needs and takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelReport {
    pub name: String,
    /// The name as the source has it, if whoever prints the report knows how names are mangled.
    pub source_name: Option<String>,
    pub code_bytes: u64,
    pub registers: Option<u32>,
    /// Static shared memory, without what the system reserves.
    pub shared_bytes: u64,
    /// Stack of a thread, callees included.
    pub local_bytes: Option<u32>,
    pub barriers: u8,
    pub params: Vec<ParamReport>,
    pub attributes: Vec<AttributeReport>,
}

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamReport {
    pub ordinal: u16,
    /// From the start of the parameters.
    pub offset: u16,
    /// In constant bank 0, if the file says.
    pub bank_offset: Option<u32>,
    pub size: u32,
    pub space: PointerSpace,
}

/// An attribute of a kernel, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeReport {
    pub name: String,
    pub value: String,
}

/// A symbol, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolReport {
    pub name: String,
    pub kind: String,
    pub binding: String,
    pub section: String,
    pub value: u64,
    pub size: u64,
}

/// A relocation, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocReport {
    pub section: String,
    pub offset: u64,
    pub kind: String,
    pub symbol: String,
    pub addend: i64,
}

/// Looks into a cubin, a fat binary or a host program.
pub fn inspect(data: &[u8]) -> Result<Inspection, ReadError> {
    let container = fatbin::container(data)?;
    let images = match container {
        Container::Cubin => {
            let object = Object::read(data)?;
            let (sm, size) = (object.header.sm().into(), data.len() as u64);
            let cubin = Some(CubinReport::new(&object));
            vec![ImageReport { kind: ImageKind::Cubin, sm, size, storage: None, cubin }]
        }
        Container::FatBinary | Container::Host => {
            fatbin::images(data)?.iter().map(ImageReport::new).collect::<Result<_, _>>()?
        }
    };
    Ok(Inspection { container, images })
}

impl ImageReport {
    fn new(image: &Image) -> Result<ImageReport, ReadError> {
        let cubin = match image.kind {
            ImageKind::Cubin => Some(CubinReport::new(&Object::read(&image.bytes)?)),
            ImageKind::Ptx | ImageKind::Other(_) => None,
        };
        let storage = Storage {
            compression: image.compression(),
            stored_size: image.stored_size,
            identifier: image.identifier.clone(),
            options: image.options.clone(),
        };
        let (kind, sm, size) = (image.kind, image.sm, image.bytes.len() as u64);
        Ok(ImageReport { kind, sm, size, storage: Some(storage), cubin })
    }
}

impl CubinReport {
    /// Of a cubin that has been read.
    pub fn new(object: &Object) -> CubinReport {
        let notes = object.sections.iter().flat_map(|section| match &section.body {
            Body::Notes(notes) => notes.as_slice(),
            _ => &[],
        });
        let (mut tool, mut virtual_sm) = (None, None);
        for note in notes {
            match note {
                Note::Tool(info) => {
                    tool = Some((
                        format!("{} {}", info.tool_name, info.tool_version),
                        info.command_line.clone(),
                    ));
                }
                Note::Cuda(info) => virtual_sm = Some(info.virtual_sm),
                Note::Other { .. } => {}
            }
        }
        let lookup = Lookup::new(object);
        let entries = object.symbols().iter().enumerate().filter(|(_, symbol)| symbol.other.is_entry());
        CubinReport {
            file_type: object.header.file_type,
            sm: object.header.sm(),
            accelerated: accelerated(object),
            virtual_sm,
            tool,
            kernels: entries.map(|(index, symbol)| KernelReport::new(&lookup, index, symbol)).collect(),
            symbols: symbol_reports(object),
            relocs: reloc_reports(object),
        }
    }
}

fn accelerated(object: &Object) -> Option<bool> {
    let records = object.sections.iter().find_map(|section| match &section.body {
        Body::Compat(records) => Some(records),
        _ => None,
    })?;
    let record = records.iter().find(|record| record.code == CompatCode::CUDA_ACCELERATOR_TARGET)?;
    Some(record.value != CompatValue::Byte(0))
}

/// Finds sections by name and attributes by symbol, however many there are.
struct Lookup<'a> {
    object: &'a Object,
    sections: FxHashMap<&'a str, &'a Section>,
    /// The attributes of `.nv.info` that say something about a symbol.
    per_symbol: FxHashMap<(Code, u32), u32>,
}

impl<'a> Lookup<'a> {
    fn new(object: &'a Object) -> Lookup<'a> {
        let sections = object.sections.iter().map(|section| (section.name.as_str(), section)).collect();
        let mut lookup = Lookup { object, sections, per_symbol: FxHashMap::default() };
        for attr in lookup.attrs(".nv.info") {
            if let Value::PerSymbol { symbol, value } = attr.value {
                lookup.per_symbol.insert((attr.code, symbol), value);
            }
        }
        lookup
    }

    fn attrs(&self, section: &str) -> &'a [Attr] {
        match self.sections.get(section).map(|section| &section.body) {
            Some(Body::Info(attrs)) => attrs,
            _ => &[],
        }
    }

    /// The static shared memory of a kernel, without what the system reserves. Relocatable files leave that to the
    /// linker.
    fn shared_bytes(&self, kernel: &str) -> u64 {
        let header = &self.object.header;
        let row = targets::Target::of_sm(header.sm());
        let row = row.filter(|_| header.file_type != FileType::RELOCATABLE);
        let reserved = row.map_or(0, |row| row.shared_base.into());
        match self.sections.get(format!(".nv.shared.{kernel}").as_str()).map(|section| &section.body) {
            Some(Body::Zeros(size)) => size.saturating_sub(reserved),
            _ => 0,
        }
    }
}

impl KernelReport {
    fn new(lookup: &Lookup, symbol_index: usize, symbol: &Symbol) -> KernelReport {
        let per_symbol = |code| lookup.per_symbol.get(&(code, symbol_index as u32)).copied();
        let own = lookup.attrs(&format!(".nv.info.{}", symbol.name));
        let barriers = own.iter().find_map(|attr| match attr.value {
            Value::Byte(count) if attr.code == Code::NUM_BARRIERS => Some(count),
            _ => None,
        });
        let others = own.iter().filter(|attr| !is_param(attr));
        KernelReport {
            name: symbol.name.clone(),
            source_name: None,
            code_bytes: symbol.size,
            registers: per_symbol(Code::REGCOUNT),
            shared_bytes: lookup.shared_bytes(&symbol.name),
            local_bytes: per_symbol(Code::MIN_STACK_SIZE).or_else(|| per_symbol(Code::FRAME_SIZE)),
            barriers: barriers.unwrap_or(0),
            params: param_reports(own),
            attributes: others.map(|attr| attribute(lookup.object, attr)).collect(),
        }
    }
}

fn is_param(attr: &Attr) -> bool {
    matches!(attr.value, Value::Param(_) | Value::ParamV2(_))
}

fn param_reports(attrs: &[Attr]) -> Vec<ParamReport> {
    let base = attrs.iter().find_map(|attr| match attr.value {
        Value::ParamBank(bank) => Some(u32::from(bank.base)),
        _ => None,
    });
    let report = |ordinal, offset, size, space| ParamReport {
        ordinal,
        offset,
        bank_offset: base.map(|base| base + u32::from(offset)),
        size,
        space,
    };
    let mut params: Vec<ParamReport> = attrs
        .iter()
        .filter_map(|attr| match attr.value {
            Value::Param(p) => Some(report(p.ordinal, p.offset, p.size.into(), p.space)),
            Value::ParamV2(p) => Some(report(p.ordinal, p.offset, p.size, PointerSpace::NONE)),
            _ => None,
        })
        .collect();
    params.sort_by_key(|param| param.ordinal);
    params
}

fn attribute(object: &Object, attr: &Attr) -> AttributeReport {
    let symbol_name = |index: u32| symbol_name(object, index);
    let words = |words: &[u32]| words.iter().map(|word| format!("{word:#x}")).collect::<Vec<_>>().join(" ");
    let value = match &attr.value {
        Value::Flag => String::new(),
        Value::Byte(value) => format!("{value:#x}"),
        Value::Half(value) => format!("{value:#x}"),
        Value::Words(values) => words(values),
        Value::PerSymbol { symbol, value } => format!("{} {value:#x}", symbol_name(*symbol)),
        Value::Symbols(symbols) => {
            symbols.iter().map(|&symbol| symbol_name(symbol)).collect::<Vec<_>>().join(" ")
        }
        Value::Param(param) => format!("{param:?}"),
        Value::ParamV2(param) => format!("{param:?}"),
        Value::ParamBank(bank) => format!("base {:#x} size {:#x}", bank.base, bank.size),
        Value::RawSized(bytes) => format!("{bytes:02x?}"),
        Value::RawShort { bytes, .. } => format!("{bytes:02x?}"),
    };
    let name = attr.code.to_string();
    AttributeReport { name: name.trim_start_matches("EIATTR_").to_string(), value }
}

fn symbol_name(object: &Object, index: u32) -> String {
    object
        .symbols()
        .get(index as usize)
        .map_or_else(|| format!("symbol {index}"), |symbol| symbol.name.clone())
}

/// All symbols but those that stand for sections.
fn symbol_reports(object: &Object) -> Vec<SymbolReport> {
    let named = object.symbols().iter().skip(1).filter(|symbol| symbol.kind != SymbolType::SECTION);
    let report = |symbol: &Symbol| SymbolReport {
        name: symbol.name.clone(),
        kind: symbol.kind.to_string(),
        binding: symbol.binding.to_string(),
        section: match symbol.home {
            Home::Undefined => "undefined".to_string(),
            Home::Absolute => "absolute".to_string(),
            Home::Common => "common".to_string(),
            Home::Reserved(index) => format!("{index:#x}"),
            Home::Section(index) => section_name(object, index as usize),
        },
        value: symbol.value,
        size: symbol.size,
    };
    named.map(report).collect()
}

fn reloc_reports(object: &Object) -> Vec<RelocReport> {
    let mut reports = Vec::new();
    for section in &object.sections {
        if let Body::Relocs(relocs) = &section.body {
            let patched = section_name(object, section.info as usize);
            reports.extend(relocs.iter().map(|reloc| RelocReport {
                section: patched.clone(),
                offset: reloc.offset,
                kind: reloc.kind.to_string(),
                symbol: symbol_name(object, reloc.symbol),
                addend: reloc.addend,
            }));
        }
    }
    reports
}

fn section_name(object: &Object, index: usize) -> String {
    object.sections.get(index).map_or_else(|| format!("section {index}"), |section| section.name.clone())
}

// ── For people ──────────────────────────────────────────────────────────────────────────────────────────────

fn kind_name(kind: ImageKind) -> String {
    match kind {
        ImageKind::Ptx => "PTX".to_string(),
        ImageKind::Cubin => "cubin".to_string(),
        ImageKind::Other(kind) => format!("kind {kind}"),
    }
}

fn container_name(container: Container) -> &'static str {
    match container {
        Container::Cubin => "cubin",
        Container::FatBinary => "fat binary",
        Container::Host => "host program",
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.container != Container::Cubin {
            writeln!(f, "{}, {} images", container_name(self.container), self.images.len())?;
        }
        for (index, image) in self.images.iter().enumerate() {
            if let Some(storage) = &image.storage {
                let (number, kind, sm, size) = (index + 1, kind_name(image.kind), image.sm, image.size);
                write!(f, "image {number}: {kind} for sm_{sm}, {size} bytes")?;
                if storage.compression != "none" {
                    write!(f, " ({} with {})", storage.stored_size, storage.compression)?;
                }
                for (label, text) in [("from", &storage.identifier), ("options", &storage.options)] {
                    if !text.is_empty() {
                        write!(f, ", {label} {text}")?;
                    }
                }
                writeln!(f)?;
            }
            if let Some(cubin) = &image.cubin {
                write!(f, "{cubin}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for CubinReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.accelerated == Some(true) { "a" } else { "" };
        write!(f, "{} for sm_{}{suffix}", self.file_type, self.sm)?;
        if let Some(virtual_sm) = self.virtual_sm {
            write!(f, " from PTX for sm_{virtual_sm}")?;
        }
        if let Some((tool, command_line)) = &self.tool {
            write!(f, ", by {tool} with {}", command_line.trim_end())?;
        }
        writeln!(f)?;
        for kernel in &self.kernels {
            write!(f, "{kernel}")?;
        }
        if !self.symbols.is_empty() {
            writeln!(f, "\nsymbols")?;
        }
        for symbol in &self.symbols {
            let SymbolReport { name, kind, binding, section, value, size } = symbol;
            writeln!(f, "  {value:#8x} {size:#8x} {kind:<12} {binding:<6} {section} {name}")?;
        }
        if !self.relocs.is_empty() {
            writeln!(f, "\nrelocations")?;
        }
        for RelocReport { section, offset, kind, symbol, addend } in &self.relocs {
            writeln!(f, "  {section}+{offset:#x} {kind} {symbol}+{addend:#x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<u32>| value.map_or_else(|| "?".to_string(), |value| value.to_string());
        writeln!(f, "\nkernel {}", self.name)?;
        if let Some(name) = &self.source_name {
            writeln!(f, "  source     {name}")?;
        }
        writeln!(f, "  code       {} bytes", self.code_bytes)?;
        writeln!(f, "  registers  {}", number(self.registers))?;
        writeln!(f, "  shared     {} bytes", self.shared_bytes)?;
        writeln!(f, "  local      {} bytes", number(self.local_bytes))?;
        writeln!(f, "  barriers   {}", self.barriers)?;
        for param in &self.params {
            write!(f, "  param {:<4} {} bytes at {:#x}", param.ordinal, param.size, param.offset)?;
            if let Some(offset) = param.bank_offset {
                write!(f, ", c[0x0][{offset:#x}]")?;
            }
            if param.space != PointerSpace::NONE {
                write!(f, ", pointer to {}", param.space)?;
            }
            writeln!(f)?;
        }
        for attribute in &self.attributes {
            writeln!(f, "  {}", format!("{} {}", attribute.name, attribute.value).trim_end())?;
        }
        Ok(())
    }
}

// ── For programs ────────────────────────────────────────────────────────────────────────────────────────────

impl Inspection {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        let json = Json::Object(vec![
            ("container", Json::text(container_name(self.container))),
            ("images", Json::list(&self.images, image_json)),
        ]);
        format!("{json}\n")
    }
}

fn image_json(image: &ImageReport) -> Json {
    let storage = image.storage.as_ref().map_or(Json::Null, |storage| {
        Json::Object(vec![
            ("compression", Json::text(storage.compression)),
            ("stored_size", Json::Number(storage.stored_size)),
            ("identifier", Json::text(&storage.identifier)),
            ("options", Json::text(&storage.options)),
        ])
    });
    Json::Object(vec![
        ("kind", Json::Text(kind_name(image.kind))),
        ("sm", Json::Number(image.sm.into())),
        ("size", Json::Number(image.size)),
        ("storage", storage),
        ("cubin", image.cubin.as_ref().map_or(Json::Null, cubin_json)),
    ])
}

fn cubin_json(cubin: &CubinReport) -> Json {
    let tool = cubin.tool.as_ref().map_or(Json::Null, |(tool, command_line)| {
        Json::Object(vec![("name", Json::text(tool)), ("command_line", Json::text(command_line))])
    });
    Json::Object(vec![
        ("type", Json::Text(cubin.file_type.to_string())),
        ("sm", Json::Number(cubin.sm.into())),
        ("accelerated", cubin.accelerated.map_or(Json::Null, Json::Bool)),
        ("virtual_sm", cubin.virtual_sm.map_or(Json::Null, |sm| Json::Number(sm.into()))),
        ("tool", tool),
        ("kernels", Json::list(&cubin.kernels, kernel_json)),
        ("symbols", Json::list(&cubin.symbols, symbol_json)),
        ("relocations", Json::list(&cubin.relocs, reloc_json)),
    ])
}

fn kernel_json(kernel: &KernelReport) -> Json {
    let number = |value: Option<u32>| value.map_or(Json::Null, |value| Json::Number(value.into()));
    let param = |param: &ParamReport| {
        Json::Object(vec![
            ("ordinal", Json::Number(param.ordinal.into())),
            ("offset", Json::Number(param.offset.into())),
            ("bank_offset", number(param.bank_offset)),
            ("size", Json::Number(param.size.into())),
            ("space", Json::Text(param.space.to_string())),
        ])
    };
    let attribute = |attribute: &AttributeReport| {
        Json::Object(vec![("name", Json::text(&attribute.name)), ("value", Json::text(&attribute.value))])
    };
    Json::Object(vec![
        ("name", Json::text(&kernel.name)),
        ("code_bytes", Json::Number(kernel.code_bytes)),
        ("registers", number(kernel.registers)),
        ("shared_bytes", Json::Number(kernel.shared_bytes)),
        ("local_bytes", number(kernel.local_bytes)),
        ("barriers", Json::Number(kernel.barriers.into())),
        ("params", Json::list(&kernel.params, param)),
        ("attributes", Json::list(&kernel.attributes, attribute)),
    ])
}

fn symbol_json(symbol: &SymbolReport) -> Json {
    Json::Object(vec![
        ("name", Json::text(&symbol.name)),
        ("kind", Json::text(&symbol.kind)),
        ("binding", Json::text(&symbol.binding)),
        ("section", Json::text(&symbol.section)),
        ("value", Json::Number(symbol.value)),
        ("size", Json::Number(symbol.size)),
    ])
}

fn reloc_json(reloc: &RelocReport) -> Json {
    Json::Object(vec![
        ("section", Json::text(&reloc.section)),
        ("offset", Json::Number(reloc.offset)),
        ("kind", Json::text(&reloc.kind)),
        ("symbol", Json::text(&reloc.symbol)),
        ("addend", Json::Signed(reloc.addend)),
    ])
}
