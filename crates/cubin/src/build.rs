//! `Module` to `Object`: an executable cubin of plain SASS.
//!
//! The file is planned first (`Part`s in the order of ptxas), which fixes every section index; then the symbols
//! are listed, which fixes every symbol index; then each part is filled in. Targets from sm_100 on get no
//! capsule for the finalizer: the driver and the tools take plain SASS, which runs on its own SM only.

use std::collections::HashMap;

use crate::attr::{Attr, Code, MAX_V1_PARAM_BYTES, PARAM_BANK_UNSPECIFIED};
use crate::attr::{ParamBank, ParamInfo, ParamInfoV2, Value};
use crate::callgraph::CallGraph;
use crate::compat::{Compat, CompatCode, CompatValue};
use crate::elf::{PHDR_SIZE, REL_SIZE, RELA_SIZE, SYM_SIZE, section_flags, segment_flags};
use crate::error::WriteError;
use crate::frame::{self, Frame};
use crate::module::{Function, Kernel, Module, Params, Pool, SymbolicReloc, Variable, layout};
use crate::names::{Binding, FileType, MemorySpace, RelocType, SectionType, SegmentType, SymbolType};
use crate::note::{CudaInfo, Note, ToolInfo};
use crate::object::{
    Abi, Body, Extent, Flags, Header, Home, Object, Reloc, Section, Segment, Symbol, SymbolOther,
};
use crate::strings::StringTable;
use crate::target::{Generation, Traits};

/// The version of the CUDA API that a kernel is for, and the toolkit in `.note.nv.cuinfo`: 13.0.
const API_VERSION: u32 = 130;
const NOTE_VERSION: u16 = 2;
/// Code is fetched in lines of this size.
const TEXT_ALIGN: u64 = 128;
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
    DebugFrame,
    Debug(usize),
    ToolNote,
    CudaNote,
    Info,
    Compat,
    FunctionInfo(usize),
    CallGraph,
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
    ReservedShared,
    Shared(usize),
    Global,
}

impl Module {
    /// The executable cubin of the module. Fails if the module contradicts itself: a symbol that is not there,
    /// a name used twice, a size that its field can't hold.
    pub fn to_object(&self) -> Result<Object, WriteError> {
        let traits = self.target.traits().ok_or_else(|| {
            WriteError::in_file(format!("sm_{} is not a target of this writer", self.target.sm))
        })?;
        Builder::new(self, traits)?.object()
    }

    fn kernels(&self) -> impl Iterator<Item = (usize, &Function, &Kernel)> {
        let functions = self.functions.iter().enumerate();
        functions.filter_map(|(index, function)| Some((index, function, function.kernel.as_ref()?)))
    }
}

struct Builder<'a> {
    module: &'a Module,
    traits: &'static Traits,
    generation: &'static Generation,
    /// The offset of each variable in its section.
    offsets: Vec<u64>,
    /// Relocations by the section that they patch; only those that are not empty.
    relocs: Vec<(Part, Vec<SymbolicReloc>)>,
    debug_frame: Vec<u8>,
    parts: Vec<Part>,
    section_indices: HashMap<Part, usize>,
    symbols: Vec<Symbol>,
    /// Symbols by name; sections have theirs under the name of the section.
    symbol_indices: HashMap<String, u32>,
}

impl<'a> Builder<'a> {
    fn new(module: &'a Module, traits: &'static Traits) -> Result<Builder<'a>, WriteError> {
        let frames = module.functions.iter().map(|function| Frame {
            code_size: function.code.len() as u64,
            frame_size: function.frame_size,
            ready_at: function.frame_ready_at,
        });
        let (debug_frame, addresses) = frame::encode(&frames.collect::<Vec<_>>());
        let mut builder = Builder {
            module,
            traits,
            generation: traits.generation,
            offsets: layout(&module.variables),
            relocs: Vec::new(),
            debug_frame,
            parts: Vec::new(),
            section_indices: HashMap::new(),
            symbols: Vec::new(),
            symbol_indices: HashMap::new(),
        };
        builder.relocs = builder.collect_relocs(&addresses);
        builder.parts = builder.plan();
        builder.section_indices = builder.parts.iter().copied().zip(1..).collect();
        builder.check()?;
        builder.list_symbols()?;
        Ok(builder)
    }

    fn object(&self) -> Result<Object, WriteError> {
        let mut sections = vec![Section::new("", SectionType::NULL, 0, Body::Bytes(Vec::new()))];
        for &part in &self.parts {
            sections.push(self.section(part)?);
        }
        let cuinfo = u8::try_from(self.index(Part::CudaNote)).unwrap_or(0);
        let header = Header {
            file_type: FileType::EXECUTABLE,
            abi: Abi::CURRENT,
            version: 1,
            flags: Flags::new(Flags::SASS, self.module.target.sm, cuinfo),
            section_names: 1,
            segment_header_size: PHDR_SIZE as u16,
        };
        Ok(Object { header, sections, segments: self.segments() })
    }

    /// Refuses what would be written wrong without notice.
    fn check(&self) -> Result<(), WriteError> {
        for variable in &self.module.variables {
            let Variable { name, align, size, init, .. } = variable;
            if !align.is_power_of_two() {
                let message = format!("variable {name}: alignment {align} is no power of two");
                return Err(WriteError::in_file(message));
            }
            if init.len() as u64 > *size {
                let message = format!("variable {name}: {} bytes do not fit into {size}", init.len());
                return Err(WriteError::in_file(message));
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

    // ── The plan ────────────────────────────────────────────────────────────────────────────────────────

    /// The sections of the file in order.
    fn plan(&self) -> Vec<Part> {
        let module = self.module;
        let functions = 0..module.functions.len();
        let each = |part: fn(usize) -> Part| functions.clone().map(part);
        let kernels = || module.kernels().map(|(index, ..)| index);
        let has_pool = |pool| module.variables.iter().any(|variable| variable.pool() == pool);

        let mut parts = vec![Part::SectionNames, Part::SymbolNames, Part::Symbols, Part::DebugFrame];
        parts.extend((0..module.debug.len()).map(Part::Debug));
        parts.extend([Part::ToolNote, Part::CudaNote, Part::Info]);
        parts.extend(self.generation.has_compat.then_some(Part::Compat));
        parts.extend(each(Part::FunctionInfo));
        parts.push(Part::CallGraph);
        parts.extend(self.generation.has_rel_action.then_some(Part::RelAction));
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
        parts.extend(self.generation.has_reserved_shared.then_some(Part::ReservedShared));
        let with_shared = module.kernels().filter(|(_, _, kernel)| kernel.shared.is_some());
        parts.extend(with_shared.map(|(index, ..)| Part::Shared(index)));
        parts.extend(has_pool(Pool::Zero).then_some(Part::Global));
        if self.generation.constant0_last {
            parts.extend(kernels().map(Part::Constant0));
        }
        parts
    }

    /// The section index of a part; 0, the null section, for a part that is not in the file.
    fn index(&self, part: Part) -> usize {
        self.section_indices.get(&part).copied().unwrap_or(0)
    }

    fn collect_relocs(&self, frame_addresses: &[u64]) -> Vec<(Part, Vec<SymbolicReloc>)> {
        let module = self.module;
        let data = |offset, symbol: &str, addend| SymbolicReloc {
            offset,
            kind: RelocType::DATA_64,
            symbol: symbol.to_string(),
            addend,
        };
        let mut all = Vec::new();
        for (index, function) in module.functions.iter().enumerate() {
            all.push((Part::Text(index), function.relocs.clone()));
            all.push((Part::Constant2(index), function.constant2_relocs.clone()));
        }
        let slots = module.address_table.iter().enumerate();
        let slots = slots.map(|(slot, (symbol, addend))| data(8 * slot as u64, symbol, *addend));
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
        let frames = module.functions.iter().zip(frame_addresses);
        let frames = frames.map(|(function, &offset)| data(offset, &function.name, 0));
        all.push((Part::DebugFrame, frames.collect()));
        all.retain(|(_, relocs)| !relocs.is_empty());
        all
    }

    /// Splits into relocations for a `REL` section and for a `RELA` section.
    fn split<'r>(&self, relocs: &'r [SymbolicReloc]) -> (Vec<&'r SymbolicReloc>, Vec<&'r SymbolicReloc>) {
        relocs.iter().partition(|reloc| self.generation.rel_without_addend && reloc.addend == 0)
    }

    // ── Symbols ─────────────────────────────────────────────────────────────────────────────────────────

    /// Lists the symbols: null, one per section that others refer to, then locals, then the rest.
    fn list_symbols(&mut self) -> Result<(), WriteError> {
        let mut symbols = vec![Symbol::null()];
        for &part in &self.parts {
            if has_section_symbol(part) {
                symbols.push(Symbol {
                    name: self.name(part),
                    kind: SymbolType::SECTION,
                    home: self.home(part),
                    ..Symbol::null()
                });
            }
        }
        let (locals, others): (Vec<_>, Vec<_>) =
            self.named_symbols().into_iter().partition(|symbol| symbol.binding == Binding::LOCAL);
        symbols.extend(locals);
        symbols.extend(others);
        for (index, symbol) in symbols.iter().enumerate() {
            if self.symbol_indices.insert(symbol.name.clone(), index as u32).is_some() {
                return Err(WriteError::in_file(format!("symbol {} is defined twice", symbol.name)));
            }
        }
        self.symbols = symbols;
        Ok(())
    }

    fn named_symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        let mut add = |name: &str, binding, kind, other, home, value, size| {
            symbols.push(Symbol { name: name.to_string(), kind, binding, other, home, value, size });
        };
        let plain = SymbolOther(0);
        if self.generation.has_reserved_shared {
            let offset = self.traits.reserved_shared.offset;
            let reserved = SymbolOther::in_space(MemorySpace::RESERVED_SHARED);
            let home = self.home(Part::ReservedShared);
            let (offset_name, alias) = (".nv.reservedSmem.offset0", "__nv_reservedSMEM_offset_0_alias");
            add(offset_name, Binding::WEAK, SymbolType::OBJECT, plain, Home::Undefined, offset, 4);
            add(alias, Binding::WEAK, SymbolType::NONE, reserved, home, offset, 0);
        }
        for (variable, &offset) in self.module.variables.iter().zip(&self.offsets) {
            let home = self.home(match variable.pool() {
                Pool::Initialized => Part::GlobalInit,
                Pool::Zero => Part::Global,
                Pool::Constant => Part::Constants,
            });
            add(&variable.name, variable.binding, SymbolType::OBJECT, plain, home, offset, variable.size);
        }
        for (index, function) in self.module.functions.iter().enumerate() {
            let home = self.home(Part::Text(index));
            let other = if function.kernel.is_some() { SymbolOther::ENTRY } else { plain };
            let size = function.code.len() as u64;
            add(&function.name, function.binding, SymbolType::FUNCTION, other, home, 0, size);
            for clone in &function.clones {
                let (offset, size) = (clone.offset, clone.size);
                add(&clone.name, clone.binding, SymbolType::FUNCTION, plain, home, offset, size);
            }
        }
        for name in &self.module.external_functions {
            add(name, Binding::GLOBAL, SymbolType::FUNCTION, plain, Home::Undefined, 0, 0);
        }
        symbols
    }

    fn home(&self, part: Part) -> Home {
        Home::from_index(self.index(part) as u16)
    }

    fn symbol(&self, name: &str) -> Result<u32, WriteError> {
        let index = self.symbol_indices.get(name).copied();
        index.ok_or_else(|| WriteError::in_file(format!("symbol {name} is not defined")))
    }

    // ── Sections ────────────────────────────────────────────────────────────────────────────────────────

    fn name(&self, part: Part) -> String {
        let function = |index: usize| &self.module.functions[index].name;
        match part {
            Part::SectionNames => ".shstrtab".into(),
            Part::SymbolNames => ".strtab".into(),
            Part::Symbols => ".symtab".into(),
            Part::DebugFrame => ".debug_frame".into(),
            Part::Debug(index) => self.module.debug[index].name.clone(),
            Part::ToolNote => ".note.nv.tkinfo".into(),
            Part::CudaNote => ".note.nv.cuinfo".into(),
            Part::Info => ".nv.info".into(),
            Part::Compat => ".nv.compat".into(),
            Part::FunctionInfo(index) => format!(".nv.info.{}", function(index)),
            Part::CallGraph => ".nv.callgraph".into(),
            Part::RelAction => ".nv.rel.action".into(),
            Part::Rel(index) => format!(".rel{}", self.name(self.relocs[index].0)),
            Part::Rela(index) => format!(".rela{}", self.name(self.relocs[index].0)),
            Part::AddressTable => ".nv.constant4".into(),
            Part::Constants => ".nv.constant3".into(),
            Part::Constant2(index) => format!(".nv.constant2.{}", function(index)),
            Part::Constant0(index) => format!(".nv.constant0.{}", function(index)),
            Part::Text(index) => format!(".text.{}", function(index)),
            Part::GlobalInit => ".nv.global.init".into(),
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
            Part::Rel(_) => REL_SIZE,
            Part::Rela(_) => RELA_SIZE,
            Part::CallGraph | Part::RelAction => 8,
            _ => 0,
        } as u64;
        Ok(Section { flags, link, info, entry_size, ..Section::new(self.name(part), kind, align, body) })
    }

    fn content(&self, part: Part) -> Result<(SectionType, u64, Body), WriteError> {
        let module = self.module;
        let function = |index: usize| &module.functions[index];
        let bits = |align, bytes| (SectionType::PROGBITS, align, Body::Bytes(bytes));
        Ok(match part {
            Part::SectionNames | Part::SymbolNames => {
                (SectionType::STRTAB, 1, Body::Strings(StringTable::new()))
            }
            Part::Symbols => (SectionType::SYMTAB, 8, Body::Symbols(self.symbols.clone())),
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
            Part::RelAction => (SectionType::CUDA_RELOCINFO, 8, Body::Bytes(REL_ACTION.to_vec())),
            Part::Rel(index) => (SectionType::REL, 8, self.reloc_body(&self.split(&self.relocs[index].1).0)?),
            Part::Rela(index) => {
                (SectionType::RELA, 8, self.reloc_body(&self.split(&self.relocs[index].1).1)?)
            }
            Part::AddressTable => bits(8, vec![0; 8 * module.address_table.len()]),
            Part::Constants => self.pool_body(Pool::Constant)?,
            Part::Constant2(index) => bits(4, function(index).constant2.clone()),
            Part::Constant0(index) => bits(4, vec![0; constant0_size(function(index))]),
            Part::Text(index) => bits(TEXT_ALIGN, function(index).code.clone()),
            Part::GlobalInit => self.pool_body(Pool::Initialized)?,
            Part::ReservedShared => {
                let reserved = self.traits.reserved_shared;
                (SectionType::NOBITS, reserved.align, Body::Zeros(reserved.size))
            }
            Part::Shared(index) => {
                let shared = function(index).kernel.as_ref().and_then(|kernel| kernel.shared);
                let (size, align) = shared.map_or((0, 1), |shared| (shared.size, shared.align));
                (
                    SectionType::NOBITS,
                    align.max(1),
                    Body::Zeros(self.generation.shared_base.saturating_add(size)),
                )
            }
            Part::Global => {
                let (align, size) = self.pool_size(Pool::Zero);
                (SectionType::NOBITS, align, Body::Zeros(size))
            }
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
            Part::Info | Part::CallGraph => (0, symbols, 0),
            Part::FunctionInfo(function) => (INFO_LINK, symbols, index(Part::Text(function))),
            Part::Rel(relocs) | Part::Rela(relocs) => (INFO_LINK, symbols, index(self.relocs[relocs].0)),
            Part::AddressTable | Part::Constants => (ALLOC, 0, 0),
            Part::Constant2(function) | Part::Constant0(function) => {
                (ALLOC | INFO_LINK, 0, index(Part::Text(function)))
            }
            Part::Text(function) => (ALLOC | EXEC, symbols, self.text_info(function)?),
            Part::GlobalInit | Part::Global | Part::ReservedShared => (ALLOC | WRITE, 0, 0),
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
        variables.filter(move |(variable, _)| variable.pool() == pool)
    }

    fn pool_size(&self, pool: Pool) -> (u64, u64) {
        self.members(pool).fold((1, 0), |(align, size), (variable, offset)| {
            (align.max(variable.align), size.max(offset.saturating_add(variable.size)))
        })
    }

    fn pool_body(&self, pool: Pool) -> Result<(SectionType, u64, Body), WriteError> {
        let (align, size) = self.pool_size(pool);
        if size > MAX_POOL {
            return Err(WriteError::in_file(format!("variables with values take {size} bytes: too many")));
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
        let edge = |(caller, callee): &(String, String)| Ok((self.symbol(caller)?, self.symbol(callee)?));
        let calls = self.module.calls.iter().map(edge).collect::<Result<_, WriteError>>()?;
        Ok(CallGraph { calls, ..CallGraph::default() })
    }

    // ── Notes and attributes ────────────────────────────────────────────────────────────────────────────

    fn tool_note(&self) -> Note {
        let tool = &self.module.tool;
        Note::Tool(ToolInfo {
            note_version: NOTE_VERSION.into(),
            object_name: tool.object_name.clone(),
            tool_name: tool.name.clone(),
            tool_version: tool.version.clone(),
            branch: tool.branch.clone(),
            command_line: tool.command_line.clone(),
        })
    }

    fn cuda_note(&self) -> Note {
        let virtual_sm = self.module.virtual_sm;
        Note::Cuda(CudaInfo { note_version: NOTE_VERSION, virtual_sm, toolkit: API_VERSION })
    }

    fn compat(&self) -> Vec<Compat> {
        let features = self.module.features;
        let byte = |code, value| Compat { code, value: CompatValue::Byte(value) };
        let finalize = CompatValue::Words(vec![self.traits.fastpath_finalize, 0]);
        vec![
            byte(CompatCode::CUDA_ACCELERATOR_TARGET, self.module.target.accelerated.into()),
            byte(CompatCode::ISA_CLASS, features.isa_class),
            byte(CompatCode::INST_TCGEN05_MMA, 5),
            Compat {
                code: CompatCode::MERCURY_ISA_MAJOR_MINOR_VERSION,
                value: CompatValue::Half(self.generation.mercury_isa),
            },
            byte(CompatCode::INST_TENSORMAP_V1, features.tensormap),
            byte(CompatCode::ENABLE_OPPORTUNISTIC_FINALIZATION, 1),
            Compat { code: CompatCode::CAN_FASTPATH_FINALIZE, value: finalize },
        ]
    }

    /// The attributes of `.nv.info`.
    fn global_attrs(&self) -> Result<Vec<Attr>, WriteError> {
        let mut attrs = Vec::new();
        for function in &self.module.functions {
            let symbol = self.symbol(&function.name)?;
            attrs.push(Attr::per_symbol(Code::REGCOUNT, symbol, function.registers.into()));
            for clone in &function.clones {
                let clone_symbol = self.symbol(&clone.name)?;
                attrs.push(Attr::per_symbol(Code::FRAME_SIZE, clone_symbol, clone.frame_size));
            }
            attrs.push(Attr::per_symbol(Code::FRAME_SIZE, symbol, function.frame_size));
        }
        for (_, function, kernel) in self.module.kernels() {
            let symbol = self.symbol(&function.name)?;
            attrs.push(Attr::per_symbol(Code::MIN_STACK_SIZE, symbol, kernel.min_stack_size));
        }
        attrs.extend(self.module.attrs.iter().cloned());
        Ok(attrs)
    }

    /// The attributes of `.nv.info.<function>`.
    fn function_attrs(&self, function: &Function) -> Result<Vec<Attr>, WriteError> {
        let traits = self.traits;
        let mut attrs = vec![Attr::words(Code::CUDA_API_VERSION, [API_VERSION])];
        attrs.extend(traits.sw_war.map(|war| Attr::words(Code::SW_WAR, [war])));
        attrs.extend(traits.sw2861232_war.then(|| Attr::flag(Code::SW2861232_WAR)));
        attrs.extend(traits.reserved_shared_used.then(|| Attr::flag(Code::RESERVED_SMEM_USED)));
        attrs.extend(self.generation.has_sparse_mma_mask.then(|| Attr::half(Code::SPARSE_MMA_MASK, 0)));
        attrs.extend(traits.vrc_cta_init_count.then(|| Attr::byte(Code::VRC_CTA_INIT_COUNT, 0)));
        attrs.push(Attr::half(Code::MERCURY_ISA_VERSION, self.generation.mercury_isa));
        if !function.exits.is_empty() {
            attrs.push(Attr::words(Code::EXIT_INSTR_OFFSETS, function.exits.clone()));
        }
        if !function.externs.is_empty() {
            let symbols = function.externs.iter().map(|name| self.symbol(name));
            let symbols = symbols.collect::<Result<Vec<_>, _>>()?;
            attrs.push(Attr { code: Code::EXTERNS, value: Value::Symbols(symbols) });
        }
        if let Some(kernel) = &function.kernel {
            self.kernel_attrs(function, kernel, &mut attrs)?;
        }
        // What the caller gives replaces what the target has by default.
        attrs.retain(|attr| function.attrs.iter().all(|given| given.code != attr.code));
        attrs.extend(function.attrs.iter().cloned());
        attrs.sort_by_key(|attr| self.generation.attr_rank(attr.code));
        Ok(attrs.into_iter().flat_map(split_long_table).collect())
    }

    fn kernel_attrs(
        &self,
        function: &Function,
        kernel: &Kernel,
        attrs: &mut Vec<Attr>,
    ) -> Result<(), WriteError> {
        attrs.push(Attr::half(Code::MAXREG_COUNT, kernel.max_registers));
        if kernel.barriers > 0 {
            attrs.push(Attr::byte(Code::NUM_BARRIERS, kernel.barriers));
        }
        attrs.extend(kernel.max_threads.map(|threads| Attr::words(Code::MAX_THREADS, threads)));
        attrs.extend(kernel.required_threads.map(|threads| Attr::words(Code::REQNTID, threads)));
        let params = &kernel.params;
        if params.list.is_empty() {
            return Ok(());
        }
        attrs.extend(param_attrs(params)?);
        let symbol = self.symbol(&format!(".nv.constant0.{}", function.name))?;
        let bank = ParamBank { symbol, base: params.base, size: params.size };
        attrs.push(Attr::half(Code::CBANK_PARAM_SIZE, params.size));
        attrs.push(Attr { code: Code::PARAM_CBANK, value: Value::ParamBank(bank) });
        Ok(())
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
        let is_writable =
            |part| matches!(part, Part::GlobalInit | Part::ReservedShared | Part::Shared(_) | Part::Global);
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

fn has_section_symbol(part: Part) -> bool {
    !matches!(
        part,
        Part::SectionNames
            | Part::SymbolNames
            | Part::Symbols
            | Part::Info
            | Part::Compat
            | Part::FunctionInfo(_)
            | Part::Rel(_)
            | Part::Rela(_)
            | Part::ReservedShared
    )
}

/// A record holds no more than 65535 bytes: a longer table becomes several records of the same code. (ptxas 13.0
/// drops the high bits of the size, and most of the table with them.)
fn split_long_table(attr: Attr) -> Vec<Attr> {
    /// Divides by 2 and by 4, so that tables of pairs and of quadruples stay whole.
    const MAX_WORDS: usize = 0xfff0 / 4;
    match &attr.value {
        Value::Words(words) if words.len() > MAX_WORDS => {
            words.chunks(MAX_WORDS).map(|chunk| Attr::words(attr.code, chunk)).collect()
        }
        _ => vec![attr],
    }
}

/// Bank 0 holds what the driver keeps before the parameters, the parameters, and the handles.
fn constant0_size(function: &Function) -> usize {
    let params = function.kernel.as_ref().map(|kernel| &kernel.params);
    params.map_or(0, |params| {
        usize::from(params.base) + usize::from(params.size) + params.handle_bytes as usize
    })
}

/// One attribute per parameter, the last parameter first.
fn param_attrs(params: &Params) -> Result<Vec<Attr>, WriteError> {
    let mut attrs = Vec::with_capacity(params.list.len());
    for (ordinal, param) in params.list.iter().enumerate().rev() {
        let ordinal = u16::try_from(ordinal)
            .map_err(|_| WriteError::in_file(format!("{} parameters are too many", params.list.len())))?;
        if !param.align.is_power_of_two() {
            let message = format!("parameter {ordinal}: alignment {} is no power of two", param.align);
            return Err(WriteError::in_file(message));
        }
        let (index, offset) = (0, param.offset);
        attrs.push(if u32::from(params.size) > MAX_V1_PARAM_BYTES {
            let info = ParamInfoV2 { index, ordinal, offset, size: param.size.into() };
            Attr { code: Code::KPARAM_INFO_V2, value: Value::ParamV2(info) }
        } else {
            let info = ParamInfo {
                index,
                ordinal,
                offset,
                size: param.size,
                bank: PARAM_BANK_UNSPECIFIED,
                space: param.space,
                log_align: param.align.trailing_zeros() as u8,
            };
            Attr { code: Code::KPARAM_INFO, value: Value::Param(info) }
        });
    }
    Ok(attrs)
}
