//! `Module` to `Object`: an executable or a relocatable cubin of plain SASS.
//!
//! The file is planned first (`Part`s in the order of ptxas), which fixes every section index; then the symbols
//! are listed, which fixes every symbol index; then each part is filled in. Targets from sm_100 on get no
//! capsule for the finalizer: the driver and the tools take plain SASS, which runs on its own SM only.
//!
//! A relocatable file leaves to the linker what an executable decides: where variables are (the value of a symbol
//! of shared or common memory is its alignment), what is reserved, what a kernel needs of stack. Its sections and
//! symbols say which memory they belong to by their types, and addresses in `.debug_frame` are relocations.

mod attrs;
mod symbols;

use rustc_hash::FxHashMap;
use std::ops::Range;

use crate::callgraph::{CallGraph, Prototype, StringOffset};
use crate::elf::symbol_home::FIRST_RESERVED;
use crate::elf::{PHDR_SIZE, REL_SIZE, RELA_SIZE, SYM_SIZE, section_flags, segment_flags};
use crate::error::WriteError;
use crate::frame::{self, Fields, Frame, Returns};
use crate::module::{
    Function, Kernel, Linkage, Module, Origin, Pool, SharedHome, SharedVariable, SymbolicReloc, Variable,
    append, layout,
};
use crate::names::{Binding, FileType, RelocType, SectionType, SegmentType};
use crate::object::{Abi, Body, Extent, Flags, Header, Home, Object, Reloc, Section, Segment, Symbol};
use crate::strings::{Interner, StringTable};
use crate::target::Generation;
use targets::Target as Row;

/// Code is fetched in lines of this size.
const TEXT_ALIGN: u64 = 128;
/// The place of `Part::SymbolHomes`, after the symbols.
const SYMBOL_HOMES_AT: usize = 3;
/// Variables with values fill no more than this of a file.
const MAX_POOL: u64 = 1 << 31;
/// `.nv.rel.action`, the same in every file up to sm_89: how to apply `R_CUDA_CONST_FIELD22_37`.
const REL_ACTION: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// A section to be. Numbers are indices into `Module::functions` and `Module::debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    SectionNames,
    SymbolNames,
    Symbols,
    /// The sections of symbols, in a file with so many that they don't fit into the symbols.
    SymbolHomes,
    DebugFrame,
    Debug(usize),
    ToolNote,
    CudaNote,
    Info,
    Compat,
    FunctionInfo(usize),
    CallGraph,
    Prototypes,
    RelAction,
    /// Relocations without addends, where the target keeps them apart. An index into `Builder::relocs`.
    Rel(usize),
    Rela(usize),
    AddressTable,
    Constants,
    Constant2(usize),
    Constant0(usize),
    Text(usize),
    GlobalInit,
    /// The shared variables of no kernel in particular. Its name notwithstanding it is no debug information.
    ModuleShared,
    ReservedShared,
    Shared(usize),
    Global,
}

impl Module {
    /// The cubin of the module. Fails if the module contradicts itself: a symbol that is not there,
    /// a name used twice, a size that its field can't hold.
    pub fn to_object(&self) -> Result<Object, WriteError> {
        let row = self.target.row().ok_or_else(|| {
            WriteError::in_file(format!("sm_{} is not a target of this writer", self.target.sm))
        })?;
        Builder::new(self, row)?.object()
    }

    fn kernels(&self) -> impl Iterator<Item = (usize, &Function, &Kernel)> {
        let functions = self.functions.iter().enumerate();
        functions.filter_map(|(index, function)| Some((index, function, function.kernel.as_ref()?)))
    }
}

struct Builder<'a> {
    module: &'a Module,
    row: &'static Row,
    generation: &'static Generation,
    /// The offset of each variable in its section.
    offsets: Vec<u64>,
    /// Relocations by the section that they patch; only those that are not empty.
    relocs: Vec<(Part, Vec<SymbolicReloc>)>,
    debug_frame: Vec<u8>,
    /// The variables of `.nv.shared.reserved.0`, with their offsets.
    reserved: Vec<(SharedVariable, u64)>,
    /// `.strtab` as it starts: with the prototypes, which other sections name by offset.
    prototypes: Interner,
    parts: Vec<Part>,
    section_indices: FxHashMap<Part, usize>,
    symbols: Vec<Symbol>,
    /// Symbols by name; sections have theirs under the name of the section.
    symbol_indices: FxHashMap<String, u32>,
}

impl<'a> Builder<'a> {
    fn new(module: &'a Module, row: &'static Row) -> Result<Builder<'a>, WriteError> {
        let frames: Vec<_> = module.functions.iter().flat_map(frames).collect();
        let (debug_frame, fields) = frame::encode(&frames);
        let mut builder = Builder {
            module,
            row,
            generation: Generation::of(row.container),
            offsets: layout(&module.variables),
            relocs: Vec::new(),
            debug_frame,
            reserved: symbols::reserved_variables(module, row),
            prototypes: Interner::new(StringTable::new()),
            parts: Vec::new(),
            section_indices: FxHashMap::default(),
            symbols: Vec::new(),
            symbol_indices: FxHashMap::default(),
        };
        let calls = &module.calls;
        for (_, text) in calls.address_taken.iter().chain(&calls.indirect).chain(&calls.prototypes) {
            builder.prototypes.offset(text);
        }
        builder.relocs = builder.collect_relocs(&fields);
        builder.parts = builder.plan();
        builder.section_indices = builder.parts.iter().copied().zip(1..).collect();
        builder.check()?;
        builder.list_symbols()?;
        Ok(builder)
    }

    fn is_relocatable(&self) -> bool {
        self.module.linkage == Linkage::Relocatable
    }

    fn object(&self) -> Result<Object, WriteError> {
        let mut sections = vec![Section::new("", SectionType::NULL, 0, Body::Bytes(Vec::new()))];
        for &part in &self.parts {
            sections.push(self.section(part)?);
        }
        let cuinfo = u8::try_from(self.index(Part::CudaNote)).unwrap_or(0);
        let header = Header {
            file_type: match self.module.linkage {
                Linkage::Executable | Linkage::ToolsPatch => FileType::EXECUTABLE,
                Linkage::Relocatable => FileType::RELOCATABLE,
            },
            abi: Abi::CURRENT,
            version: 1,
            flags: Flags::new(Flags::SASS, self.module.target.sm, cuinfo),
            section_names: 1,
            segment_header_size: match self.module.linkage {
                Linkage::Executable | Linkage::ToolsPatch => PHDR_SIZE as u16,
                Linkage::Relocatable => self.generation.unused_segment_header_size,
            },
        };
        let segments = if self.is_relocatable() { Vec::new() } else { self.segments() };
        Ok(Object { header, sections, segments })
    }

    /// Refuses what would be written wrong without notice.
    fn check(&self) -> Result<(), WriteError> {
        let module = self.module;
        module.variables.iter().try_for_each(|variable| self.check_variable(variable))?;
        module.shared.iter().try_for_each(|variable| self.check_shared(variable))?;
        for function in &module.functions {
            let size = function.constant2.len() as u64;
            if let Some(piece) = function.literals.iter().find(|piece| piece.end > size || piece.is_empty()) {
                let name = function.literal_name(piece);
                return Err(WriteError::in_file(format!("literal {name}: constant bank 2 has {size} bytes")));
            }
        }
        for (patched, relocs) in &self.relocs {
            if let (0, Some(reloc)) = (self.index(*patched), relocs.first()) {
                let (symbol, section) = (&reloc.symbol, self.name(*patched));
                let message =
                    format!("symbol {symbol} is to be written into section {section}, which is empty");
                return Err(WriteError::in_file(message));
            }
        }
        Ok(())
    }

    fn check_variable(&self, variable: &Variable) -> Result<(), WriteError> {
        let Variable { name, align, size, init, .. } = variable;
        if variable.origin != Origin::Here && !self.is_relocatable() {
            return Err(WriteError::in_file(format!(
                "variable {name}: an executable has to give it a place"
            )));
        }
        if !align.is_power_of_two() {
            let message = format!("variable {name}: alignment {align} is no power of two");
            return Err(WriteError::in_file(message));
        }
        if init.len() as u64 > *size {
            let message = format!("variable {name}: {} bytes do not fit into {size}", init.len());
            return Err(WriteError::in_file(message));
        }
        Ok(())
    }

    fn check_shared(&self, variable: &SharedVariable) -> Result<(), WriteError> {
        let SharedVariable { name, align, .. } = variable;
        if !align.is_power_of_two() {
            let message = format!("variable {name}: alignment {align} is no power of two");
            return Err(WriteError::in_file(message));
        }
        let home = match variable.home {
            SharedHome::Kernel(index) => Part::Shared(index),
            SharedHome::System => Part::ReservedShared,
            SharedHome::Module | SharedHome::Launch => return Ok(()),
        };
        if self.index(home) == 0 {
            return Err(WriteError::in_file(format!("variable {name}: there is no shared memory for it")));
        }
        Ok(())
    }

    // ── The plan ────────────────────────────────────────────────────────────────────────────────────────

    /// The sections of the file in order.
    fn plan(&self) -> Vec<Part> {
        let module = self.module;
        let functions = 0..module.functions.len();
        let each = |part: fn(usize) -> Part| functions.clone().map(part);
        let kernels = || module.kernels().map(|(index, ..)| index);
        let has_pool = |pool| module.variables.iter().any(|variable| variable.pool() == Some(pool));

        let mut parts = vec![Part::SectionNames, Part::SymbolNames, Part::Symbols, Part::DebugFrame];
        parts.extend((0..module.debug.len()).map(Part::Debug));
        parts.extend([Part::ToolNote, Part::CudaNote, Part::Info]);
        parts.extend(self.generation.has_compat.then_some(Part::Compat));
        parts.extend(each(Part::FunctionInfo));
        parts.push(Part::CallGraph);
        parts.extend((!module.calls.prototypes.is_empty()).then_some(Part::Prototypes));
        let has_rel_action = self.generation.has_rel_action && !self.is_relocatable();
        parts.extend(has_rel_action.then_some(Part::RelAction));
        for (index, (_, relocs)) in self.relocs.iter().enumerate() {
            let (without, with) = self.split(relocs);
            parts.extend((!without.is_empty()).then_some(Part::Rel(index)));
            parts.extend((!with.is_empty()).then_some(Part::Rela(index)));
        }
        parts.extend((!module.address_table.is_empty()).then_some(Part::AddressTable));
        parts.extend(has_pool(Pool::Constant).then_some(Part::Constants));
        let has_constant2 = |&index: &usize| !module.functions[index].constant2.is_empty();
        parts.extend(functions.clone().filter(has_constant2).map(Part::Constant2));
        if !self.generation.constant0_last {
            parts.extend(kernels().map(Part::Constant0));
        }
        parts.extend(each(Part::Text));
        parts.extend(has_pool(Pool::Initialized).then_some(Part::GlobalInit));
        let is_module_shared = |variable: &SharedVariable| match variable.home {
            SharedHome::Module => true,
            SharedHome::Launch => !self.is_relocatable(),
            SharedHome::Kernel(_) | SharedHome::System => false,
        };
        parts.extend(module.shared.iter().any(is_module_shared).then_some(Part::ModuleShared));
        let has_reserved = match module.linkage {
            Linkage::Executable => self.generation.has_reserved_shared,
            Linkage::Relocatable | Linkage::ToolsPatch => !self.reserved.is_empty(),
        };
        parts.extend(has_reserved.then_some(Part::ReservedShared));
        let with_shared = module.kernels().filter(|(_, _, kernel)| kernel.shared.is_some());
        parts.extend(with_shared.map(|(index, ..)| Part::Shared(index)));
        parts.extend(has_pool(Pool::Zero).then_some(Part::Global));
        if self.generation.constant0_last {
            parts.extend(kernels().map(Part::Constant0));
        }
        if parts.len() + 1 >= FIRST_RESERVED.into() {
            parts.insert(SYMBOL_HOMES_AT, Part::SymbolHomes);
        }
        parts
    }

    /// The section of each symbol, as ptxas lists them: near ones too, 0 for none.
    fn symbol_homes(&self) -> Vec<u8> {
        let index = |symbol: &Symbol| match symbol.home {
            Home::Section(index) => index,
            _ => 0,
        };
        self.symbols.iter().flat_map(|symbol| index(symbol).to_le_bytes()).collect()
    }

    /// The section index of a part; 0, the null section, for a part that is not in the file.
    fn index(&self, part: Part) -> usize {
        self.section_indices.get(&part).copied().unwrap_or(0)
    }

    fn collect_relocs(&self, frame_fields: &[Fields]) -> Vec<(Part, Vec<SymbolicReloc>)> {
        let module = self.module;
        let mut all = Vec::new();
        for (index, function) in module.functions.iter().enumerate() {
            all.push((Part::Text(index), function.relocs.clone()));
            all.push((Part::Constant2(index), function.constant2_relocs.clone()));
            all.push((Part::Constant0(index), function.constant0_relocs.clone()));
        }
        let slots = module.address_table.iter().enumerate();
        let slots = slots.map(|(slot, (symbol, addend))| address(8 * slot as u64, symbol, *addend));
        all.push((Part::AddressTable, slots.collect()));
        for (patched, pool) in [(Part::GlobalInit, Pool::Initialized), (Part::Constants, Pool::Constant)] {
            let mut relocs = Vec::new();
            for (variable, base) in self.members(pool) {
                relocs.extend(variable.relocs.iter().map(|reloc| SymbolicReloc {
                    offset: base.saturating_add(reloc.offset),
                    ..reloc.clone()
                }));
            }
            all.push((patched, relocs));
        }
        for (index, section) in module.debug.iter().enumerate() {
            all.push((Part::Debug(index), section.relocs.clone()));
        }
        all.push((Part::DebugFrame, self.frame_relocs(frame_fields)));
        all.retain(|(_, relocs)| !relocs.is_empty());
        all
    }

    /// The linker drops the description of a function that it drops: it clears the size of the code.
    fn frame_relocs(&self, fields: &[Fields]) -> Vec<SymbolicReloc> {
        let functions = self.module.functions.iter();
        let starts = functions.flat_map(|function| {
            let clones = function.clones.iter().map(|clone| clone.offset);
            std::iter::once(0).chain(clones).map(|start| (function.name.as_str(), start))
        });
        let mut relocs = Vec::new();
        for ((function, start), fields) in starts.zip(fields) {
            relocs.push(address(fields.code_start, function, start as i64));
            relocs.extend(fields.return_base.map(|base| address(base, function, 0)));
            if self.is_relocatable() {
                let (common, common_at) = fields.common;
                relocs.push(address(common_at, &self.name(Part::DebugFrame), common as i64));
                let kind = RelocType::UNUSED_CLEAR64;
                relocs.push(SymbolicReloc { kind, ..address(fields.code_size, function, 0) });
            }
        }
        relocs
    }

    /// Splits into relocations for a `REL` section and for a `RELA` section.
    fn split<'r>(&self, relocs: &'r [SymbolicReloc]) -> (Vec<&'r SymbolicReloc>, Vec<&'r SymbolicReloc>) {
        relocs.iter().partition(|reloc| {
            let clears = reloc.kind == RelocType::UNUSED_CLEAR64;
            self.generation.rel_without_addend && reloc.addend == 0 && !clears
        })
    }

    // ── Sections ────────────────────────────────────────────────────────────────────────────────────────

    fn name(&self, part: Part) -> String {
        let function = |index: usize| &self.module.functions[index].name;
        match part {
            Part::SectionNames => ".shstrtab".into(),
            Part::SymbolNames => ".strtab".into(),
            Part::Symbols => ".symtab".into(),
            Part::SymbolHomes => ".symtab_shndx".into(),
            Part::DebugFrame => ".debug_frame".into(),
            Part::Debug(index) => self.module.debug[index].name.clone(),
            Part::ToolNote => ".note.nv.tkinfo".into(),
            Part::CudaNote => ".note.nv.cuinfo".into(),
            Part::Info => ".nv.info".into(),
            Part::Compat => ".nv.compat".into(),
            Part::FunctionInfo(index) => format!(".nv.info.{}", function(index)),
            Part::CallGraph => ".nv.callgraph".into(),
            Part::Prototypes => ".nv.prototype".into(),
            Part::RelAction => ".nv.rel.action".into(),
            Part::Rel(index) => format!(".rel{}", self.name(self.relocs[index].0)),
            Part::Rela(index) => format!(".rela{}", self.name(self.relocs[index].0)),
            Part::AddressTable => ".nv.constant4".into(),
            Part::Constants => ".nv.constant3".into(),
            Part::Constant2(index) => format!(".nv.constant2.{}", function(index)),
            Part::Constant0(index) => format!(".nv.constant0.{}", function(index)),
            Part::Text(index) => format!(".text.{}", function(index)),
            Part::GlobalInit => ".nv.global.init".into(),
            Part::ModuleShared => ".nv_debug.shared".into(),
            Part::ReservedShared => ".nv.shared.reserved.0".into(),
            Part::Shared(index) => format!(".nv.shared.{}", function(index)),
            Part::Global => ".nv.global".into(),
        }
    }

    fn section(&self, part: Part) -> Result<Section, WriteError> {
        let (kind, align, body) = self.content(part)?;
        let (flags, link, info) = self.links(part)?;
        let entry_size = match part {
            Part::Symbols => SYM_SIZE,
            Part::SymbolHomes => 4,
            Part::Rel(_) => REL_SIZE,
            Part::Rela(_) => RELA_SIZE,
            Part::CallGraph | Part::Prototypes | Part::RelAction => 8,
            _ => 0,
        } as u64;
        let kind = memory_type(part).filter(|_| self.is_relocatable()).unwrap_or(kind);
        Ok(Section { flags, link, info, entry_size, ..Section::new(self.name(part), kind, align, body) })
    }

    fn content(&self, part: Part) -> Result<(SectionType, u64, Body), WriteError> {
        let module = self.module;
        let function = |index: usize| &module.functions[index];
        let bits = |align, bytes| (SectionType::PROGBITS, align, Body::Bytes(bytes));
        let zeros = |(align, size)| (SectionType::NOBITS, align, Body::Zeros(size));
        Ok(match part {
            Part::SectionNames => (SectionType::STRTAB, 1, Body::Strings(StringTable::new())),
            Part::SymbolNames => (SectionType::STRTAB, 1, Body::Strings(self.prototypes.table().clone())),
            Part::Symbols => (SectionType::SYMTAB, 8, Body::Symbols(self.symbols.clone())),
            Part::SymbolHomes => (SectionType::SYMTAB_SHNDX, 4, Body::Bytes(self.symbol_homes())),
            Part::DebugFrame => bits(1, self.debug_frame.clone()),
            Part::Debug(index) => bits(1, module.debug[index].bytes.clone()),
            Part::ToolNote => (SectionType::NOTE, 4, Body::Notes(vec![self.tool_note()])),
            Part::CudaNote => (SectionType::NOTE, 4, Body::Notes(vec![self.cuda_note()])),
            Part::Info => (SectionType::CUDA_INFO, 4, Body::Info(self.global_attrs()?)),
            Part::Compat => (SectionType::CUDA_COMPAT_INFO, 4, Body::Compat(self.compat())),
            Part::FunctionInfo(index) => {
                (SectionType::CUDA_INFO, 4, Body::Info(self.function_attrs(function(index))?))
            }
            Part::CallGraph => (SectionType::CUDA_CALLGRAPH, 4, Body::CallGraph(self.call_graph()?)),
            Part::Prototypes => (SectionType::CUDA_PROTOTYPE, 4, Body::Prototypes(self.prototype_list()?)),
            Part::RelAction => (SectionType::CUDA_RELOCINFO, 8, Body::Bytes(REL_ACTION.to_vec())),
            Part::Rel(index) => (SectionType::REL, 8, self.reloc_body(&self.split(&self.relocs[index].1).0)?),
            Part::Rela(index) => {
                (SectionType::RELA, 8, self.reloc_body(&self.split(&self.relocs[index].1).1)?)
            }
            Part::AddressTable => bits(8, vec![0; 8 * module.address_table.len()]),
            Part::Constants => self.pool_body(Pool::Constant)?,
            Part::Constant2(index) => {
                bits(literal_align(&function(index).literals), function(index).constant2.clone())
            }
            Part::Constant0(index) => bits(4, vec![0; constant0_size(function(index))]),
            Part::Text(index) => bits(TEXT_ALIGN, function(index).code.clone()),
            Part::GlobalInit => self.pool_body(Pool::Initialized)?,
            Part::ModuleShared => {
                let variables = module.shared.iter();
                zeros(self.module_shared_extent(variables.filter(|shared| shared.home == SharedHome::Module)))
            }
            Part::ReservedShared => zeros(self.reserved_extent()),
            Part::Shared(index) => {
                let shared = function(index).kernel.as_ref().and_then(|kernel| kernel.shared);
                let (align, size) = shared.map_or((1, 0), |shared| (shared.align, shared.size));
                zeros((align.max(1), self.shared_base().saturating_add(size)))
            }
            Part::Global => zeros(self.pool_size(Pool::Zero)),
        })
    }

    /// `sh_flags`, `sh_link` and `sh_info`.
    fn links(&self, part: Part) -> Result<(u64, u32, u32), WriteError> {
        use section_flags::{ALLOC, EXEC, INFO_LINK, NOTE_CUINFO, NOTE_TKINFO, WRITE};
        let symbols = self.index(Part::Symbols) as u32;
        let index = |part| self.index(part) as u32;
        Ok(match part {
            Part::Symbols => {
                let first_global = self.symbols.iter().position(|symbol| symbol.binding != Binding::LOCAL);
                (0, index(Part::SymbolNames), first_global.unwrap_or(self.symbols.len()) as u32)
            }
            Part::ToolNote => (NOTE_TKINFO, 0, 0),
            Part::CudaNote if self.generation.has_compat => {
                (NOTE_CUINFO | INFO_LINK, index(Part::ToolNote), index(Part::Compat))
            }
            Part::CudaNote => (NOTE_CUINFO, index(Part::ToolNote), 0),
            Part::SymbolHomes | Part::Info | Part::CallGraph | Part::Prototypes => (0, symbols, 0),
            Part::FunctionInfo(function) => (INFO_LINK, symbols, index(Part::Text(function))),
            Part::Rel(relocs) | Part::Rela(relocs) => (INFO_LINK, symbols, index(self.relocs[relocs].0)),
            Part::AddressTable | Part::Constants => (ALLOC, 0, 0),
            Part::Constant2(function) | Part::Constant0(function) => {
                (ALLOC | INFO_LINK, 0, index(Part::Text(function)))
            }
            Part::Text(function) => (ALLOC | EXEC, symbols, self.text_info(function)?),
            Part::GlobalInit | Part::Global | Part::ModuleShared | Part::ReservedShared => {
                (ALLOC | WRITE, 0, 0)
            }
            Part::Shared(function) => (ALLOC | WRITE | INFO_LINK, 0, index(Part::Text(function))),
            Part::SectionNames
            | Part::SymbolNames
            | Part::DebugFrame
            | Part::Debug(_)
            | Part::Compat
            | Part::RelAction => (0, 0, 0),
        })
    }

    fn text_info(&self, index: usize) -> Result<u32, WriteError> {
        let function = &self.module.functions[index];
        let symbol = self.symbol(&function.name)?;
        if !self.generation.registers_in_text_info {
            return Ok(symbol);
        }
        Ok(u32::from(function.registers) << 24 | symbol)
    }

    /// The variables of a pool, with their offsets.
    fn members(&self, pool: Pool) -> impl Iterator<Item = (&'a Variable, u64)> {
        let variables = self.module.variables.iter().zip(self.offsets.iter().copied());
        variables.filter(move |(variable, _)| variable.pool() == Some(pool))
    }

    fn pool_size(&self, pool: Pool) -> (u64, u64) {
        self.members(pool).fold((1, 0), |(align, size), (variable, offset)| {
            (align.max(variable.align), size.max(offset.saturating_add(variable.size)))
        })
    }

    /// Where the shared memory of a kernel starts; in a relocatable file the linker adds what is reserved.
    fn shared_base(&self) -> u64 {
        if self.is_relocatable() { 0 } else { self.row.shared_base.into() }
    }

    /// Alignment and size of `.nv_debug.shared`.
    fn module_shared_extent<'s>(&self, variables: impl Iterator<Item = &'s SharedVariable>) -> (u64, u64) {
        variables.fold((1, self.shared_base()), |(align, mut end), variable| {
            if self.is_relocatable() {
                append(&mut end, variable.align, variable.size);
            } else {
                end = end.max(variable.address.saturating_add(variable.size));
            }
            (align.max(variable.align), end)
        })
    }

    /// Alignment and size of `.nv.shared.reserved.0`.
    fn reserved_extent(&self) -> (u64, u64) {
        let base = if self.is_relocatable() { 0 } else { self.row.reserved_shared.into() };
        self.reserved.iter().fold((1, base), |(align, size), (variable, offset)| {
            (align.max(variable.align), size.max(offset.saturating_add(variable.size)))
        })
    }

    fn pool_body(&self, pool: Pool) -> Result<(SectionType, u64, Body), WriteError> {
        let (align, size) = self.pool_size(pool);
        if size > MAX_POOL {
            let message = format!("variables with values take {size} bytes: too many");
            return Err(WriteError::in_file(message).limit());
        }
        let mut bytes = Vec::with_capacity(size as usize);
        for (variable, offset) in self.members(pool) {
            bytes.resize(offset as usize, 0);
            bytes.extend_from_slice(&variable.init);
            bytes.resize((offset + variable.size) as usize, 0);
        }
        Ok((SectionType::PROGBITS, align, Body::Bytes(bytes)))
    }

    fn reloc_body(&self, relocs: &[&SymbolicReloc]) -> Result<Body, WriteError> {
        let resolve = |reloc: &&SymbolicReloc| {
            let symbol = self.symbol(&reloc.symbol)?;
            Ok(Reloc { offset: reloc.offset, symbol, kind: reloc.kind, addend: reloc.addend })
        };
        Ok(Body::Relocs(relocs.iter().map(resolve).collect::<Result<_, WriteError>>()?))
    }

    fn call_graph(&self) -> Result<CallGraph, WriteError> {
        let calls = &self.module.calls;
        let edge = |(caller, callee): &(String, String)| Ok((self.symbol(caller)?, self.symbol(callee)?));
        let typed = |(function, text): &(String, String)| Ok((self.symbol(function)?, self.prototype(text)?));
        Ok(CallGraph {
            calls: calls.direct.iter().map(edge).collect::<Result<_, WriteError>>()?,
            address_taken: calls.address_taken.iter().map(typed).collect::<Result<_, WriteError>>()?,
            indirect_calls: calls.indirect.iter().map(typed).collect::<Result<_, WriteError>>()?,
            takes_address: calls.takes_address.iter().map(edge).collect::<Result<_, WriteError>>()?,
        })
    }

    fn prototype_list(&self) -> Result<Vec<Prototype>, WriteError> {
        let prototypes = self.module.calls.prototypes.iter();
        prototypes
            .map(|(function, text)| {
                Ok(Prototype { symbol: self.symbol(function)?, text: self.prototype(text)? })
            })
            .collect()
    }

    fn prototype(&self, text: &str) -> Result<StringOffset, WriteError> {
        let offset = self.prototypes.find(text).map(StringOffset);
        offset.ok_or_else(|| WriteError::in_file(format!("prototype {text} is not listed")))
    }

    // ── Segments ────────────────────────────────────────────────────────────────────────────────────────

    fn segments(&self) -> Vec<Segment> {
        use segment_flags::{EXEC, READ, WRITE};
        let segment = |kind, flags, extent| Segment { kind, flags, extent, align: 8 };
        let run = |flags, belongs: fn(Part) -> bool| {
            let first = self.parts.iter().position(|&part| belongs(part))? + 1;
            let last = self.parts.iter().rposition(|&part| belongs(part))? + 1;
            Some(segment(SegmentType::LOAD, flags, Extent::Sections { first, last }))
        };
        let is_constant = |part| matches!(part, Part::AddressTable | Part::Constants | Part::Constant2(_));
        let is_text = |part| matches!(part, Part::Text(_));
        let is_constant0 = |part| matches!(part, Part::Constant0(_));
        let is_read_only = |part| {
            matches!(
                part,
                Part::AddressTable
                    | Part::Constants
                    | Part::Constant2(_)
                    | Part::Constant0(_)
                    | Part::Text(_)
            )
        };
        let is_writable = |part| {
            use Part::{Global, GlobalInit, ModuleShared, ReservedShared, Shared};
            matches!(part, GlobalInit | ModuleShared | ReservedShared | Shared(_) | Global)
        };
        let headers = |kind, flags| Some(segment(kind, flags, Extent::ProgramHeaders));
        let planned = if self.generation.constant0_last {
            vec![
                headers(SegmentType::PHDR, READ),
                headers(SegmentType::LOAD, READ),
                run(READ, is_constant),
                run(READ | EXEC, is_text),
                run(READ | WRITE, is_writable),
                run(READ, is_constant0),
            ]
        } else {
            vec![
                headers(SegmentType::PHDR, READ | EXEC),
                run(READ | EXEC, is_read_only),
                run(READ | WRITE, is_writable),
                headers(SegmentType::LOAD, READ | EXEC),
            ]
        };
        planned.into_iter().flatten().collect()
    }
}

/// The type of a section of memory in a relocatable file.
fn memory_type(part: Part) -> Option<SectionType> {
    match part {
        Part::Constant0(_) => Some(SectionType::CUDA_CONSTANT_B0),
        Part::Constant2(_) => Some(SectionType::CUDA_CONSTANT_B2),
        Part::Constants => Some(SectionType::CUDA_CONSTANT_B3),
        Part::AddressTable => Some(SectionType::CUDA_CONSTANT_B4),
        Part::GlobalInit => Some(SectionType::CUDA_GLOBAL_INIT),
        Part::Global => Some(SectionType::CUDA_GLOBAL),
        Part::Shared(_) | Part::ModuleShared => Some(SectionType::CUDA_SHARED),
        Part::ReservedShared => Some(SectionType::CUDA_RESERVED_SHARED),
        _ => None,
    }
}

/// The relocation of an address in data.
fn address(offset: u64, symbol: &str, addend: i64) -> SymbolicReloc {
    SymbolicReloc { offset, kind: RelocType::DATA_64, symbol: symbol.to_string(), addend }
}

/// The frames of a function and of its clones.
fn frames(function: &Function) -> Vec<Frame<'_>> {
    let end = function.clones.iter().map(|clone| clone.offset).min();
    let own = Frame {
        code_start: 0,
        code_size: end.unwrap_or(function.code.len() as u64),
        frame_size: function.frame_size,
        ready_at: function.frame_ready_at,
        steps: &function.frame_steps,
        rules: &function.register_rules,
        returns: match function.kernel {
            Some(_) => Returns::Never,
            None => Returns::ToAddress(function.return_address),
        },
    };
    let clones = function.clones.iter().map(|clone| Frame {
        code_start: clone.offset,
        code_size: clone.size,
        frame_size: clone.frame_size,
        ready_at: 0,
        steps: &[],
        rules: &[],
        returns: Returns::ToOffset(clone.return_register),
    });
    std::iter::once(own).chain(clones).collect()
}

/// Doubles are aligned as such where the linker may move them.
fn literal_align(literals: &[Range<u64>]) -> u64 {
    let is_double = |piece: &Range<u64>| piece.end.checked_sub(piece.start) == Some(8);
    if literals.iter().any(is_double) { 8 } else { 4 }
}

/// Bank 0 holds what the driver keeps before the parameters, the parameters, and the handles.
fn constant0_size(function: &Function) -> usize {
    let params = function.kernel.as_ref().map(|kernel| &kernel.params);
    params.map_or(0, |params| {
        usize::from(params.base) + usize::from(params.size) + params.handle_bytes as usize
    })
}
