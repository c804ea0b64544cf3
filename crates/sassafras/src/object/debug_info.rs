//! Debug information (`-g`): the DWARF sections of the PTX text with addresses in place of names, and where a debugger
//! finds the registers of the PTX, which DWARF calls by their names.
//!
//! | what a section names | what it gets |
//! |---|---|
//! | a label of a function | the address of the first instruction after it; the function's begin or end where there is none |
//! | a function, a `.global` variable | its address |
//! | a `.const` variable | its offset in the bank |
//! | a variable in shared memory, a kernel's parameter | its address in shared memory, in constant bank 0 |
//! | a `.local` variable | `DW_OP_addr` and its operand become `DW_OP_fbreg` and no-operations |
//! | a section, a label of one | the offset; in an object for the linker a relocation |
//!
//! All of it was read off what ptxas 13.0.88 makes of what nvcc and clang write.

use super::{Compiled, Input};
use crate::context::target::TargetMachine;
use crate::context::{Failure, Options};
use crate::module::data::{self, Data, Home};
use crate::object::debug_variables::{self, Location, Storage};
use cubin::RelocType;
use cubin::module::{DebugSection, SymbolicReloc};
use ptx::Type;
use ptx::ast::{self, Item, SectionLine, Stmt};
use rustc_hash::FxHashMap;

/// What the sections are made from; functions in the order of their sections.
pub struct Context<'a> {
    pub input: &'a Input<'a>,
    pub functions: Vec<&'a Compiled<'a>>,
    pub data: &'a Data,
    pub machine: &'static TargetMachine,
    pub options: &'a Options,
}

/// They follow the line tables and `.debug_str`.
pub fn sections(context: &Context) -> Result<Vec<DebugSection>, Failure> {
    let mut all = register_tables(context)?;
    let names = Names::new(context);
    let mut of_text: Vec<&str> = Vec::new();
    for section in written(context.input.module) {
        if section.name != NAMES && !of_text.contains(&section.name) {
            of_text.push(section.name);
        }
    }
    // ptxas has the abbreviations first, then the others in the order of the text.
    of_text.sort_by_key(|name| *name != ".debug_abbrev");
    for name in of_text {
        all.push(names.section(name, context)?);
    }
    Ok(all)
}

/// The section of names, which line tables have too.
const NAMES: &str = ".debug_str";

/// Sections that are written whatever the text has.
const OWN_SECTIONS: [&str; 2] = [".debug_line", ".debug_frame"];

fn written<'a>(module: &'a ast::Module) -> impl Iterator<Item = &'a ast::Section<'a>> {
    module
        .items
        .iter()
        .filter_map(|item| if let Item::Section(section) = item { Some(section) } else { None })
}

/// The registers that the sections name (`DW_OP_regx`): those that a user may ask for. The number of such a register
/// has the characters of its name for digits.
pub fn watched(module: &ast::Module) -> Vec<String> {
    const OP_REGX: u8 = 0x90;
    let mut names = Vec::new();
    for section in written(module) {
        let lines = section.lines.iter().filter_map(|line| match line {
            SectionLine::Data(ty, values) if ty.bytes() == 1 => Some(values),
            _ => None,
        });
        let bytes: Vec<u8> = lines.flatten().filter_map(|value| number(value)).map(|n| n as u8).collect();
        let operands =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == OP_REGX).map(|(at, _)| &bytes[at + 1..]);
        names.extend(operands.filter_map(register_name));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn register_name(operand: &[u8]) -> Option<String> {
    let length = operand.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let groups = operand[..length.min(9)].iter().enumerate();
    let number = groups.fold(0, |number, (i, byte)| number | u64::from(byte & 0x7f) << (7 * i));
    let digits: Vec<u8> = number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    String::from_utf8(digits).ok().filter(|name| name.starts_with('%'))
}

/// What a name in a section means.
#[derive(Clone, Debug)]
enum Meaning {
    Number(i64),
    /// Something that the linker or the loader places.
    Symbol {
        name: String,
        addend: i64,
        is_constant: bool,
    },
    Section {
        name: String,
        offset: i64,
    },
    /// Bytes from the upper end of the frame.
    Frame(i64),
}

struct Names(FxHashMap<String, Meaning>);

impl Names {
    fn new(context: &Context) -> Names {
        let mut names = Names(FxHashMap::default());
        names.sections(context.input.module);
        names.variables(context);
        for compiled in &context.functions {
            names.function(context, compiled);
        }
        names
    }

    /// The first meaning of a name counts.
    fn set(&mut self, name: String, meaning: Meaning) {
        self.0.entry(name).or_insert(meaning);
    }

    fn symbol(&mut self, name: String, of: &str, addend: i64) {
        self.set(name, Meaning::Symbol { name: of.to_string(), addend, is_constant: false });
    }

    fn sections(&mut self, module: &ast::Module) {
        let mut sizes: FxHashMap<&str, i64> = OWN_SECTIONS.iter().map(|name| (*name, 0)).collect();
        for section in written(module) {
            let size = sizes.entry(section.name).or_default();
            for line in &section.lines {
                match line {
                    SectionLine::Label(label) => {
                        let meaning = Meaning::Section { name: section.name.to_string(), offset: *size };
                        self.set(label.to_string(), meaning);
                    }
                    SectionLine::Data(ty, values) => *size += i64::from(ty.bytes()) * values.len() as i64,
                }
            }
        }
        for name in sizes.into_keys() {
            self.set(name.to_string(), Meaning::Section { name: name.to_string(), offset: 0 });
        }
    }

    fn variables(&mut self, context: &Context) {
        let module = context.input.module;
        let all = (0..module.symbols.len() as u32).map(ast::Symbol);
        for (symbol, home) in all.filter_map(|symbol| Some((symbol, context.data.home(symbol)?))) {
            let name = data::name(module, symbol);
            let base = i64::from(context.machine.shared_base);
            match home {
                Home::Global(of) | Home::Image(of) => self.symbol(name, of, 0),
                Home::LinkedConstant(of) => self.constant(name, of),
                // The section's symbols keep their names.
                Home::Constant(_) => self.constant(name.clone(), &name),
                Home::LinkedShared(of) => self.symbol(name, of, base),
                Home::Shared(offset) => self.set(name, Meaning::Number(base + *offset as i64)),
                Home::Dynamic(_) => self.set(name, Meaning::Number(base)),
            }
        }
    }

    fn constant(&mut self, name: String, of: &str) {
        self.set(name, Meaning::Symbol { name: of.to_string(), addend: 0, is_constant: true });
    }

    fn function(&mut self, context: &Context, compiled: &Compiled) {
        let Context { input, machine, options, .. } = context;
        let kernel = &compiled.kernel;
        let own = &kernel.code.name;
        let name = |symbol: ast::Symbol| data::name(input.module, symbol);
        for param in &kernel.params {
            self.set(
                name(param.symbol),
                Meaning::Number(i64::from(machine.params(kernel.param_bytes) + param.offset)),
            );
        }
        for (symbol, offset) in &kernel.local {
            self.set(name(*symbol), Meaning::Frame(i64::from(*offset) - i64::from(compiled.encoded.frame)));
        }
        for (symbol, offset) in &kernel.shared {
            let base = i64::from(machine.shared_base);
            match options.relocatable {
                true => self.symbol(name(*symbol), &data::local_name(input.module, *symbol), base),
                false => self.set(name(*symbol), Meaning::Number(base + *offset as i64)),
            }
        }
        self.symbol(own.clone(), own, 0);
        for (label, address) in labels(compiled) {
            self.symbol(name(label), own, address);
        }
    }

    fn section(&self, name: &str, context: &Context) -> Result<DebugSection, Failure> {
        let mut out = Output {
            relocatable: context.options.relocatable,
            section: DebugSection { name: name.to_string(), bytes: Vec::new(), relocs: Vec::new() },
        };
        for section in written(context.input.module).filter(|section| section.name == name) {
            for line in &section.lines {
                let SectionLine::Data(ty, values) = line else { continue };
                for value in values {
                    let meaning = self.meaning(value).ok_or_else(|| unknown(value, name))?;
                    out.put(meaning, ty.bytes() as usize);
                }
            }
        }
        Ok(out.section)
    }

    /// A number, a name, a name with an offset, or the distance of two names.
    fn meaning(&self, text: &str) -> Option<Meaning> {
        if let Some(number) = number(text) {
            return Some(Meaning::Number(number));
        }
        let of = |name: &str| self.0.get(name.trim()).cloned();
        let Some(sign) = text.find(['+', '-']) else { return of(text) };
        let (first, second) = (of(&text[..sign])?, text[sign + 1..].trim());
        let is_minus = text[sign..].starts_with('-');
        match (number(second), first) {
            (Some(plus), first) => Some(first.moved(if is_minus { -plus } else { plus })),
            (None, first) if is_minus => Some(Meaning::Number(first.offset() - of(second)?.offset())),
            _ => None,
        }
    }
}

impl Meaning {
    /// From the beginning of what it is in.
    fn offset(&self) -> i64 {
        match self {
            Meaning::Number(offset) | Meaning::Frame(offset) | Meaning::Section { offset, .. } => *offset,
            Meaning::Symbol { addend, .. } => *addend,
        }
    }

    fn moved(mut self, by: i64) -> Meaning {
        match &mut self {
            Meaning::Number(offset) | Meaning::Frame(offset) | Meaning::Section { offset, .. } => {
                *offset += by
            }
            Meaning::Symbol { addend, .. } => *addend += by,
        }
        self
    }
}

fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|bits| bits as i64),
        None => text.parse().ok().or_else(|| text.parse::<u64>().ok().map(|bits| bits as i64)),
    }
}

fn unknown(value: &str, section: &str) -> Failure {
    Failure::of_module(format!("'{value}' in section '{section}' is not supported yet"))
}

/// Where the labels of a function are in its code.
fn labels(compiled: &Compiled) -> Vec<(ast::Symbol, i64)> {
    let Compiled { source, encoded, .. } = compiled;
    let mut starts: Vec<(u32, i64)> = Vec::new();
    for (index, at) in encoded.at.iter().enumerate().filter(|(_, at)| **at > 0) {
        starts.push((*at, index as i64 * sass::WORD_BYTES as i64));
    }
    // Of several words for an instruction, the first.
    starts.sort_unstable();
    let address = |at: u32| match starts.get(starts.partition_point(|(start, _)| *start < at)) {
        Some((_, address)) => *address,
        None => encoded.bytes.len() as i64,
    };
    let mut all = Vec::new();
    let mut is_begin = true;
    for stmt in source.body.iter().flat_map(|body| &body.stmts) {
        match stmt {
            // The prologue belongs to the function too.
            Stmt::Label(symbol, _) if is_begin => all.push((*symbol, 0)),
            Stmt::Label(symbol, span) => all.push((*symbol, address(span.start))),
            Stmt::Inst(_) => is_begin = false,
            _ => {}
        }
    }
    all
}

const OP_ADDR: u8 = 0x03;
const OP_FBREG: u8 = 0x91;
const OP_NOP: u8 = 0x96;

/// A section as it is written.
struct Output {
    relocatable: bool,
    section: DebugSection,
}

impl Output {
    fn put(&mut self, meaning: Meaning, size: usize) {
        let wide = size == 8;
        let plain = if wide { RelocType::DATA_64 } else { RelocType::DATA_32 };
        match meaning {
            Meaning::Number(number) => self.bytes(number, size),
            Meaning::Frame(offset) => self.frame_offset(offset, size),
            Meaning::Section { offset, .. } if !self.relocatable => self.bytes(offset, size),
            Meaning::Section { name, offset } => self.reloc(name, plain, offset, size),
            Meaning::Symbol { name, addend, is_constant: true } => {
                let kind = if wide { RelocType::G64 } else { RelocType::G32 };
                self.reloc(name, kind, addend, size);
            }
            Meaning::Symbol { name, addend, .. } => self.reloc(name, plain, addend, size),
        }
    }

    fn bytes(&mut self, number: i64, size: usize) {
        self.section.bytes.extend(number.to_le_bytes().into_iter().take(size));
    }

    fn reloc(&mut self, symbol: String, kind: RelocType, addend: i64, size: usize) {
        let offset = self.section.bytes.len() as u64;
        self.section.relocs.push(SymbolicReloc { offset, kind, symbol, addend });
        self.bytes(addend, size);
    }

    /// A local variable has no address: the operation before becomes another one, and takes as many bytes.
    fn frame_offset(&mut self, offset: i64, size: usize) {
        match self.section.bytes.last_mut() {
            Some(operation) if *operation == OP_ADDR => *operation = OP_FBREG,
            _ => return self.bytes(offset, size),
        }
        let mut operand = Vec::new();
        put_signed(&mut operand, offset);
        operand.resize(size.max(operand.len()), OP_NOP);
        self.section.bytes.extend(operand);
    }
}

/// A number in groups of seven bits; the last has the sign.
fn put_signed(out: &mut Vec<u8>, mut number: i64) {
    while !(-64..64).contains(&number) {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8 & 0x7f);
}

/// `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`: for each function its name, the number of its entries, and
/// the entries; the one section has locations, the other types.
fn register_tables(context: &Context) -> Result<Vec<DebugSection>, Failure> {
    let (mut registers, mut types) = (Vec::new(), Vec::new());
    for compiled in &context.functions {
        let Compiled { kernel, code, encoded, source, .. } = compiled;
        let Some(body) = &source.body else { continue };
        let name = &kernel.code.name;
        let locations = debug_variables::locations(kernel, code, encoded, context.machine.isa)
            .map_err(|e| Failure::internal("debug", name, e))?;
        for out in [&mut registers, &mut types] {
            out.extend(name.bytes().chain([0]));
            out.extend((locations.len() as u32).to_le_bytes());
        }
        for location in &locations {
            let (decl, index) = body.reg_decl(location.reg);
            let base = context.input.module.names[decl.name.0 as usize];
            let name = decl.range.map_or_else(|| base.to_string(), |_| format!("{base}{index}"));
            put_location(&mut registers, location, &name);
            types.push(type_code(decl.ty, decl.vector));
        }
    }
    let section = |name: &str, bytes| DebugSection { name: name.into(), bytes, relocs: Vec::new() };
    Ok(vec![section(".nv_debug_info_reg_sass", registers), section(".nv_debug_info_reg_type", types)])
}

fn put_location(out: &mut Vec<u8>, location: &Location, name: &str) {
    /// The kinds of locations.
    const PREDICATE: u32 = 0x0200_0000;
    const REGISTER: u32 = 0x0500_0000;
    /// With the number of the register that the bytes are counted from: the stack pointer.
    const FRAME: u32 = 0x0701_0000;
    let storage = match location.storage {
        Storage::Predicate(number) => PREDICATE | u32::from(number),
        Storage::Register(number) => REGISTER | u32::from(number),
        Storage::Frame(offset) => FRAME | u32::from(offset),
    };
    out.extend(u32::from(location.word).to_le_bytes());
    out.extend(name.bytes().chain([0]));
    for number in [storage, location.first, location.last] {
        out.extend(number.to_le_bytes());
    }
}

/// The types of registers in the order of ptxas's numbers.
const TYPES: [&str; 18] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f16x2", "f32",
    "f64", "pred", "b128",
];

/// Vectors of two and four have a bit of their own.
fn type_code(ty: Type, vector: u8) -> u8 {
    let code = TYPES.iter().position(|name| *name == ty.name()).unwrap_or(0) as u8;
    let vector = match vector {
        2 => 0x40,
        4 => 0x80,
        _ => 0,
    };
    code | vector
}
