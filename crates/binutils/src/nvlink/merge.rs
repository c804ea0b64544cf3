//! One numbering for the functions and variables of all objects.

use super::Object;
use cubin::attr::{Attr, Code, Value};
use cubin::callgraph::StringOffset;
use cubin::{Binding, Body, Home, MemorySpace, Reloc, Section, SectionType, Symbol, SymbolType};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A symbol of an object: (object, index).
pub type Id = (usize, usize);

/// What a symbol stands for after all names are resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The machine, the driver or nobody defines it.
    External,
    /// In the code of a unit.
    Code { unit: usize, offset: u64 },
    /// In one of the pools.
    Data { pool: Pool, offset: u64 },
    /// A variable in shared memory, by its number.
    Shared(usize),
    /// In a constant bank of one function.
    OwnConstant { bank: u8, offset: u64 },
    /// In a section of debug information.
    Debug { section: usize, offset: u64 },
    /// Nothing that a relocation may ask for.
    Nothing,
}

/// Memory that all functions share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pool {
    Constant3,
    Initialized,
    Zeroed,
}

/// A section of code with what belongs to it.
pub struct Unit {
    pub object: usize,
    pub name: String,
    pub code: Vec<u8>,
    pub relocs: Vec<Reloc>,
    /// The symbol that the section is called by.
    pub symbol: usize,
    pub is_kernel: bool,
    pub info: Vec<Attr>,
    /// (name, bytes, alignment) of the constant banks.
    pub constants: Vec<(String, Vec<u8>, u64)>,
    pub registers: u32,
    pub frame: u32,
    pub barriers: u8,
    /// The symbols that it calls by name.
    pub calls: Vec<usize>,
    /// Prototypes of calls through a register.
    pub calls_like: Vec<String>,
    /// Its own prototype, if its address is taken.
    pub prototype: Option<String>,
}

/// A variable in shared memory.
pub struct SharedVariable {
    pub size: u64,
    pub align: u64,
    /// Its size is given at launch.
    pub is_dynamic: bool,
}

/// Bytes of one of the pools, or of a section of debug information.
#[derive(Default)]
pub struct Bytes {
    pub name: String,
    pub bytes: Vec<u8>,
    pub align: u64,
    /// With the object that they are from; offsets are in `bytes`.
    pub relocs: Vec<(usize, Reloc)>,
}

#[derive(Default)]
pub struct Program {
    pub units: Vec<Unit>,
    pub shared: Vec<SharedVariable>,
    pub pools: BTreeMap<Pool, Bytes>,
    pub debug: Vec<Bytes>,
    /// By object and symbol.
    pub meanings: Vec<Vec<Meaning>>,
    /// The symbol that a name stands for, for symbols that another object defines.
    pub resolved: BTreeMap<Id, Id>,
}

impl Program {
    /// The symbol that a symbol stands for.
    pub fn resolve(&self, id: Id) -> Id {
        self.resolved.get(&id).copied().unwrap_or(id)
    }

    pub fn meaning(&self, id: Id) -> Meaning {
        let (object, symbol) = self.resolve(id);
        self.meanings[object].get(symbol).copied().unwrap_or(Meaning::Nothing)
    }
}

/// Functions that the driver brings along.
const SYSTEM_CALLS: &[&str] = &["vprintf", "malloc", "free", "__assertfail", "__trap"];

/// Symbols that the machine or the linker itself gives a meaning.
fn is_predefined(name: &str) -> bool {
    name.is_empty()
        || SYSTEM_CALLS.contains(&name)
        || name.starts_with(".nv.reservedSmem.")
        || name.starts_with("__UFT")
        || name.starts_with("__UDT")
        || name.starts_with("__nv_reservedSMEM")
}

pub fn merge(objects: &[Object]) -> Result<Program, String> {
    let mut program = Program::default();
    let winners = definitions(objects)?;
    for (index, object) in objects.iter().enumerate() {
        Merger { program: &mut program, objects, winners: &winners, index, object: &object.object }.run()?;
    }
    resolve(objects, &winners, &mut program)?;
    commons(objects, &winners, &mut program);
    Ok(program)
}

fn definitions(objects: &[Object]) -> Result<BTreeMap<&str, Id>, String> {
    let mut winners: BTreeMap<&str, Id> = BTreeMap::new();
    let mut errors = String::new();
    let rank = |symbol: &Symbol| match (symbol.home, symbol.binding) {
        (Home::Common, _) => 1,
        (_, Binding::WEAK) => 2,
        _ => 3,
    };
    for (object, symbol, row) in symbols(objects) {
        if row.binding == Binding::LOCAL || row.home == Home::Undefined || row.name.is_empty() {
            continue;
        }
        match winners.get(row.name.as_str()) {
            Some(&(other, index)) => {
                let first = &objects[other].object.symbols()[index];
                let (old, new) = (rank(first), rank(row));
                if old == 3 && new == 3 {
                    let names = (&objects[object].name, &objects[other].name);
                    let _ = writeln!(
                        errors,
                        "nvlink error   : Multiple definition of '{}' in '{}', first defined in '{}'",
                        row.name, names.0, names.1
                    );
                } else if new > old || (new == 1 && row.size > first.size) {
                    winners.insert(&row.name, (object, symbol));
                }
            }
            None => drop(winners.insert(&row.name, (object, symbol))),
        }
    }
    if errors.is_empty() { Ok(winners) } else { Err(errors + "nvlink fatal   : merge_elf failed") }
}

fn symbols(objects: &[Object]) -> impl Iterator<Item = (usize, usize, &Symbol)> {
    let of = |(object, input)| {
        let input: &Object = input;
        input.object.symbols().iter().enumerate().map(move |(index, symbol)| (object, index, symbol))
    };
    objects.iter().enumerate().flat_map(of)
}

fn resolve(objects: &[Object], winners: &BTreeMap<&str, Id>, program: &mut Program) -> Result<(), String> {
    let mut errors = String::new();
    for (object, symbol, row) in symbols(objects) {
        if row.binding == Binding::LOCAL || row.kind == SymbolType::SECTION {
            continue;
        }
        if let Some(&winner) = winners.get(row.name.as_str()) {
            if winner != (object, symbol) {
                program.resolved.insert((object, symbol), winner);
            }
        } else if row.home == Home::Undefined && row.other.space() == MemorySpace::SHARED && row.size == 0 {
            // Shared memory whose size is given at launch: all such names are the same place.
            program.shared.push(SharedVariable { size: 0, align: 16, is_dynamic: true });
            program.meanings[object][symbol] = Meaning::Shared(program.shared.len() - 1);
        } else if row.binding != Binding::WEAK && !is_predefined(&row.name) {
            let name = &objects[object].name;
            let _ = writeln!(errors, "nvlink error   : Undefined reference to '{}' in '{name}'", row.name);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.trim_end().to_string()) }
}

/// Places for common variables.
fn commons(objects: &[Object], winners: &BTreeMap<&str, Id>, program: &mut Program) {
    for &(object, symbol) in winners.values() {
        let row = &objects[object].object.symbols()[symbol];
        if row.home == Home::Common {
            let pool = program.pools.entry(Pool::Zeroed).or_default();
            let offset = pool.append(&vec![0; row.size as usize], row.value);
            program.meanings[object][symbol] = Meaning::Data { pool: Pool::Zeroed, offset };
        }
    }
}

impl Bytes {
    fn append(&mut self, bytes: &[u8], align: u64) -> u64 {
        let align = align.max(1);
        let offset = (self.bytes.len() as u64).next_multiple_of(align);
        self.bytes.resize(offset as usize, 0);
        self.bytes.extend_from_slice(bytes);
        self.align = self.align.max(align);
        offset
    }
}

struct Merger<'a> {
    program: &'a mut Program,
    objects: &'a [Object],
    winners: &'a BTreeMap<&'a str, Id>,
    index: usize,
    object: &'a cubin::Object,
}

/// Where a section went.
#[derive(Clone, Copy)]
enum Went {
    Nowhere,
    Unit(usize),
    Pool(Pool, u64),
    Debug(usize, u64),
    Shared,
    OwnConstant(u8),
}

impl Merger<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut went = Vec::new();
        for index in 0..self.object.sections.len() {
            went.push(self.section(index)?);
        }
        let mut meanings = Vec::new();
        for symbol in self.object.symbols() {
            meanings.push(self.meaning(symbol, &went));
        }
        self.program.meanings.push(meanings);
        Ok(())
    }

    fn fail(&self, message: &str) -> String {
        format!("nvlink fatal   : {}: {message}", self.objects[self.index].name)
    }

    fn body(&self, index: usize) -> &Body {
        match &self.object.sections[index].body {
            Body::SameAs(owner) => &self.object.sections[*owner].body,
            body => body,
        }
    }

    fn section(&mut self, index: usize) -> Result<Went, String> {
        let section = &self.object.sections[index];
        if section.flags & cubin::elf::section_flags::MERCURY != 0 {
            return Ok(Went::Nowhere);
        }
        let name = section.name.clone();
        match section.kind {
            SectionType::PROGBITS if name.starts_with(".text.") => self.unit(index),
            SectionType::PROGBITS if is_debug(&name) => {
                let Body::Bytes(bytes) = self.body(index).clone() else { return Ok(Went::Nowhere) };
                Ok(self.debug(index, &name, &bytes))
            }
            SectionType::CUDA_GLOBAL => Ok(self.pool(index, Pool::Zeroed)),
            SectionType::CUDA_GLOBAL_INIT => Ok(self.pool(index, Pool::Initialized)),
            SectionType::CUDA_CONSTANT_B3 => Ok(self.pool(index, Pool::Constant3)),
            SectionType::CUDA_SHARED => Ok(Went::Shared),
            SectionType::CUDA_CONSTANT_B0 => Ok(Went::OwnConstant(0)),
            SectionType::CUDA_CONSTANT_B2 => Ok(Went::OwnConstant(2)),
            SectionType::CUDA_UFT
            | SectionType::CUDA_UFT_ENTRY
            | SectionType::CUDA_UDT
            | SectionType::CUDA_UDT_ENTRY => Err(self.fail(&format!("{name} is not supported"))),
            kind if (SectionType::CUDA_CONSTANT_B0..=SectionType(0x7000_0075)).contains(&kind) => {
                Err(self.fail(&format!("{name} is not supported")))
            }
            _ => Ok(Went::Nowhere),
        }
    }

    fn relocs(&self, section: usize) -> Vec<Reloc> {
        let tables = self.object.sections.iter().filter(|table| {
            matches!(table.kind, SectionType::REL | SectionType::RELA) && table.info as usize == section
        });
        let mut all = Vec::new();
        for table in tables {
            if let Body::Relocs(relocs) = &table.body {
                let implicit = table.kind == SectionType::REL;
                all.extend(relocs.iter().map(|reloc| match self.body(section) {
                    Body::Bytes(bytes) if implicit => super::patch::with_implicit_addend(*reloc, bytes),
                    _ => *reloc,
                }));
            }
        }
        all.sort_by_key(|reloc| reloc.offset);
        all
    }

    fn pool(&mut self, index: usize, pool: Pool) -> Went {
        let bytes = match self.body(index) {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Zeros(size) => vec![0; *size as usize],
            _ => Vec::new(),
        };
        let align = self.object.sections[index].align;
        let relocs = self.relocs(index);
        let pool_bytes = self.program.pools.entry(pool).or_default();
        let offset = pool_bytes.append(&bytes, align);
        pool_bytes.relocs.extend(relocs.into_iter().map(|reloc| (self.index, moved(reloc, offset))));
        Went::Pool(pool, offset)
    }

    fn debug(&mut self, index: usize, name: &str, bytes: &[u8]) -> Went {
        let relocs = self.relocs(index);
        let known = self.program.debug.iter().position(|section| section.name == name);
        let number = known.unwrap_or_else(|| {
            self.program.debug.push(Bytes { name: name.to_string(), ..Bytes::default() });
            self.program.debug.len() - 1
        });
        let section = &mut self.program.debug[number];
        let offset = section.append(bytes, self.object.sections[index].align);
        section.relocs.extend(relocs.into_iter().map(|reloc| (self.index, moved(reloc, offset))));
        Went::Debug(number, offset)
    }

    fn unit(&mut self, index: usize) -> Result<Went, String> {
        let section: &Section = &self.object.sections[index];
        let name = section.name.strip_prefix(".text.").unwrap_or(&section.name).to_string();
        let here = |symbol: &Symbol| {
            symbol.home == Home::Section(index as u32) && symbol.kind == SymbolType::FUNCTION
        };
        let symbol = self.object.symbols().iter().position(|symbol| here(symbol) && symbol.name == name);
        let symbol = symbol.ok_or_else(|| self.fail(&format!("no symbol for {}", section.name)))?;
        let row = &self.object.symbols()[symbol];
        let is_global = row.binding != Binding::LOCAL;
        if is_global && self.winners.get(name.as_str()).is_some_and(|winner| *winner != (self.index, symbol))
        {
            return Ok(Went::Nowhere); // A weak one that another object defines too.
        }
        let Body::Bytes(code) = self.body(index).clone() else {
            return Err(self.fail(&format!("{} has no code", section.name)));
        };
        let global_info = self.object.attributes(".nv.info");
        let value = |code: Code| {
            global_info.iter().find_map(|attribute| match attribute.value {
                Value::PerSymbol { symbol: of, value } if attribute.code == code && of as usize == symbol => {
                    Some(value)
                }
                _ => None,
            })
        };
        let is_of_unit = |other: &&Section| {
            other.info as usize == index && other.flags & cubin::elf::section_flags::MERCURY == 0
        };
        let sections = || self.object.sections.iter().filter(is_of_unit);
        let info = sections().find_map(|section| match &section.body {
            Body::Info(attributes) if section.kind == SectionType::CUDA_INFO => Some(attributes.clone()),
            _ => None,
        });
        let info = info.unwrap_or_default();
        let barriers = info.iter().find_map(|attribute| match attribute.value {
            Value::Byte(count) if attribute.code == Code::NUM_BARRIERS => Some(count),
            _ => None,
        });
        let constants = self
            .object
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| is_of_unit(section) && section.name.starts_with(".nv.constant"));
        let constants = constants.filter_map(|(index, section)| match self.body(index) {
            Body::Bytes(bytes) => Some((section.name.clone(), bytes.clone(), section.align)),
            _ => None,
        });
        let unit = Unit {
            object: self.index,
            code,
            relocs: self.relocs(index),
            symbol,
            is_kernel: row.other.is_entry(),
            constants: constants.collect(),
            registers: value(Code::REGCOUNT).unwrap_or(0),
            frame: value(Code::FRAME_SIZE).unwrap_or(0),
            barriers: barriers.unwrap_or(0),
            calls: self.calls(symbol),
            calls_like: self.prototypes(symbol, |graph| &graph.indirect_calls),
            prototype: self.prototypes(symbol, |graph| &graph.address_taken).pop(),
            info,
            name,
        };
        self.program.units.push(unit);
        Ok(Went::Unit(self.program.units.len() - 1))
    }

    fn calls(&self, symbol: usize) -> Vec<usize> {
        let graph = super::output::call_graph(self.object);
        let rows = graph.map_or(&[][..], |graph| graph.calls.as_slice());
        rows.iter()
            .filter(|(caller, _)| *caller as usize == symbol)
            .map(|(_, callee)| *callee as usize)
            .collect()
    }

    /// The prototypes that the call graph has for a function in one of its lists.
    fn prototypes(
        &self,
        symbol: usize,
        list: impl Fn(&cubin::callgraph::CallGraph) -> &Vec<(u32, StringOffset)>,
    ) -> Vec<String> {
        let graph = super::output::call_graph(self.object);
        let rows = graph.map_or(&[][..], |graph| list(graph).as_slice());
        let names = super::output::symbol_names(self.object);
        let own = rows.iter().filter(|(function, _)| *function as usize == symbol);
        own.filter_map(|(_, text)| names?.get(text.0).map(str::to_string)).collect()
    }

    fn meaning(&mut self, symbol: &Symbol, went: &[Went]) -> Meaning {
        let Home::Section(section) = symbol.home else {
            return if symbol.home == Home::Undefined { Meaning::External } else { Meaning::Nothing };
        };
        match went.get(section as usize).copied().unwrap_or(Went::Nowhere) {
            Went::Unit(unit) => Meaning::Code { unit, offset: symbol.value },
            Went::Pool(pool, base) => Meaning::Data { pool, offset: base + symbol.value },
            Went::Debug(section, base) => Meaning::Debug { section, offset: base + symbol.value },
            Went::OwnConstant(bank) => Meaning::OwnConstant { bank, offset: symbol.value },
            Went::Shared if symbol.kind != SymbolType::SECTION => {
                // The value of a symbol that has no place yet is its alignment.
                let variable =
                    SharedVariable { size: symbol.size, align: symbol.value.max(1), is_dynamic: false };
                self.program.shared.push(variable);
                Meaning::Shared(self.program.shared.len() - 1)
            }
            _ => Meaning::Nothing,
        }
    }
}

fn moved(reloc: Reloc, by: u64) -> Reloc {
    Reloc { offset: reloc.offset + by, ..reloc }
}

fn is_debug(name: &str) -> bool {
    name.starts_with(".debug_") || name.starts_with(".nv_debug_")
}
