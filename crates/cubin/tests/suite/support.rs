//! What the tests share: the reference tools, a scratch folder, and a way back from a cubin to a `Module`.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use cubin::attr::{Attr, Code, Value};
use cubin::callgraph::StringOffset;
use cubin::inspect::CubinReport;
use cubin::module::{
    Calls, ClonedFunction, DebugSection, Function, Image, ImageKind, Kernel, Linkage, Memory, Module, Origin,
    Param, Params, Shared, SharedHome, SharedVariable, SymbolicReloc, Tool, Variable,
};
use cubin::{Body, FileType, Home, MemorySpace, Object, Section, Symbol, SymbolType, Target};

/// A reference tool: from the folder in `SASSAFRAS_TOOLS`, or from the one that `cargo xtask setup` fills.
pub fn tool(name: &str) -> PathBuf {
    let folder = match std::env::var_os("SASSAFRAS_TOOLS") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
            let pythons = std::fs::read_dir(lib).ok().into_iter().flatten().flatten();
            let bins = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/bin"));
            bins.filter(|bin| bin.is_dir()).max()
        }
    };
    let path = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    path.expect("reference tools are missing: run `cargo xtask setup`")
}

/// Runs a tool and returns what it prints; `Err` with its messages if it fails.
pub fn run(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool(name)).args(arguments).output().expect("the tool starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{name} {arguments:?}: {}{}", text(&output.stdout), text(&output.stderr)))
}

/// A folder of its own that goes away with the value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("cubin-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Scratch(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over temporary files are no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn ptx(name: &str) -> String {
    format!("{}/tests/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"))
}

/// The `Module` that a compiler would have handed over for an executable or a relocatable cubin.
pub fn module_of(object: &Object) -> Module {
    let functions: Vec<&str> =
        object.sections.iter().filter_map(|section| section.name.strip_prefix(".text.")).collect();
    let slots = relocs_of(object, ".nv.constant4").into_iter();
    let undefined = object
        .symbols()
        .iter()
        .filter(|symbol| symbol.kind == SymbolType::FUNCTION && symbol.home == Home::Undefined);
    let flags = attrs(object, ".nv.info").iter().filter(|attr| attr.value == Value::Flag);
    let report = CubinReport::new(object);
    let target = Target { sm: report.sm, accelerated: report.accelerated == Some(true) };
    Module {
        linkage: match object.header.file_type {
            FileType::RELOCATABLE => Linkage::Relocatable,
            _ => Linkage::Executable,
        },
        tool: Tool { name: "test".into(), ..Tool::default() },
        functions: functions.iter().map(|name| function_of(object, name)).collect(),
        calls: calls_of(object),
        variables: variables_of(object),
        shared: shared_of(object, &functions),
        images: images_of(object),
        address_table: slots.map(|reloc| (reloc.symbol, reloc.addend)).collect(),
        external_functions: undefined.map(|symbol| symbol.name.clone()).collect(),
        attrs: flags.cloned().collect(),
        debug: debug_of(object),
        ..Module::new(target, report.virtual_sm.expect("the target of the PTX"))
    }
}

/// The calls between sections, by name.
pub fn calls_of(object: &Object) -> Calls {
    let body = |name: &str| object.section(name).map(|(_, section)| &section.body);
    let name = |index: u32| object.symbols()[index as usize].name.clone();
    let Some(Body::Strings(strings)) = body(".strtab") else { panic!("no names") };
    let text = |offset: StringOffset| strings.get(offset.0).expect("a prototype").to_string();
    let edges = |list: &[(u32, u32)]| list.iter().map(|&(from, to)| (name(from), name(to))).collect();
    let typed = |list: &[(u32, StringOffset)]| {
        list.iter().map(|&(function, offset)| (name(function), text(offset))).collect()
    };
    let prototypes = match body(".nv.prototype") {
        Some(Body::Prototypes(list)) => list.as_slice(),
        _ => &[],
    };
    let prototypes = prototypes.iter().map(|prototype| (name(prototype.symbol), text(prototype.text)));
    match body(".nv.callgraph") {
        Some(Body::CallGraph(graph)) => Calls {
            direct: edges(&graph.calls),
            indirect: typed(&graph.indirect_calls),
            address_taken: typed(&graph.address_taken),
            takes_address: edges(&graph.takes_address),
            prototypes: prototypes.collect(),
        },
        _ => Calls::default(),
    }
}

/// The variables in the order of their addresses, then those without one. An address tells an alignment that leads
/// back to it.
fn variables_of(object: &Object) -> Vec<Variable> {
    let mut variables = Vec::new();
    let variable = |symbol: &Symbol, memory, origin, align| Variable {
        name: symbol.name.clone(),
        binding: symbol.binding,
        memory,
        origin,
        managed: symbol.other.is_managed_or_unified(),
        align,
        size: symbol.size,
        init: Vec::new(),
        relocs: Vec::new(),
    };
    let is_object = |symbol: &&Symbol| [SymbolType::OBJECT, SymbolType::CUDA_OBJECT].contains(&symbol.kind);
    let sections = [
        (".nv.global.init", Memory::Global),
        (".nv.global", Memory::Global),
        (".nv.constant3", Memory::Constant),
    ];
    for (name, memory) in sections {
        let Some((index, section)) = object.section(name) else { continue };
        let relocs = relocs_of(object, name);
        let content = bytes(object, name);
        let in_section = |symbol: &&Symbol| symbol.home == Home::Section(index as u32);
        let mut symbols: Vec<_> = object.symbols().iter().filter(in_section).filter(is_object).collect();
        symbols.sort_by_key(|symbol| symbol.value);
        for symbol in symbols {
            let range = symbol.value..symbol.value + symbol.size;
            let own = relocs.iter().filter(|reloc| range.contains(&reloc.offset));
            let align = section.align.min(1 << symbol.value.trailing_zeros().min(16));
            variables.push(Variable {
                init: content.get(range.start as usize..range.end as usize).unwrap_or_default().to_vec(),
                relocs: own
                    .map(|reloc| SymbolicReloc { offset: reloc.offset - symbol.value, ..reloc.clone() })
                    .collect(),
                ..variable(symbol, memory, Origin::Here, align)
            });
        }
    }
    for symbol in object.symbols().iter().filter(|symbol| symbol.kind == SymbolType::CUDA_OBJECT) {
        let memory = match symbol.other.space() {
            MemorySpace::GLOBAL => Memory::Global,
            MemorySpace::CONSTANT => Memory::Constant,
            _ => continue,
        };
        match symbol.home {
            Home::Common => variables.push(variable(symbol, memory, Origin::Common, symbol.value)),
            Home::Undefined => variables.push(variable(symbol, memory, Origin::Elsewhere, 1)),
            _ => {}
        }
    }
    variables
}

/// The shared variables, but for that which the target adds by itself. In a relocatable file the value of a symbol
/// is its alignment, in an executable its address.
fn shared_of(object: &Object, functions: &[&str]) -> Vec<SharedVariable> {
    let mut variables = Vec::new();
    for symbol in object.symbols() {
        let section = match symbol.home {
            Home::Section(index) => object.sections[index as usize].name.as_str(),
            _ => "",
        };
        let is_object = [SymbolType::OBJECT, SymbolType::CUDA_OBJECT].contains(&symbol.kind);
        let home = match section {
            ".nv_debug.shared" if is_object && symbol.size == 0 => SharedHome::Launch,
            ".nv_debug.shared" if is_object => SharedHome::Module,
            ".nv.shared.reserved.0" if symbol.name.ends_with("partition") => SharedHome::System,
            "" if symbol.other.space() == MemorySpace::SHARED => SharedHome::Launch,
            _ => match section.strip_prefix(".nv.shared.").filter(|_| is_object) {
                Some(kernel) if kernel != "reserved.0" => {
                    SharedHome::Kernel(functions.iter().position(|name| *name == kernel).expect("a kernel"))
                }
                _ => continue,
            },
        };
        variables.push(SharedVariable {
            name: symbol.name.clone(),
            binding: symbol.binding,
            home,
            align: if symbol.kind == SymbolType::CUDA_OBJECT { symbol.value.max(1) } else { 1 },
            size: symbol.size,
            address: symbol.value,
        });
    }
    variables
}

fn images_of(object: &Object) -> Vec<Image> {
    let image = |(index, symbol): (usize, &Symbol)| {
        let kind = match symbol.kind {
            SymbolType::CUDA_TEXTURE => ImageKind::Texture,
            SymbolType::CUDA_SAMPLER => ImageKind::Sampler {
                init: global_attr(object, Code::SAMPLER_INIT, index as u32),
                force_unnormalized: false,
            },
            SymbolType::CUDA_SURFACE => ImageKind::Surface,
            _ => return None,
        };
        Some(Image { name: symbol.name.clone(), kind, parameter_of: None })
    };
    object.symbols().iter().enumerate().filter_map(image).collect()
}

fn debug_of(object: &Object) -> Vec<DebugSection> {
    let is_debug = |section: &&Section| {
        (section.name.starts_with(".debug_") || section.name.starts_with(".nv_debug_"))
            && section.name != ".debug_frame"
    };
    let debug = object.sections.iter().filter(is_debug);
    let section = |section: &Section| DebugSection {
        name: section.name.clone(),
        bytes: bytes(object, &section.name),
        relocs: relocs_of(object, &section.name),
    };
    debug.map(section).collect()
}

/// The relocations of a section by name of symbol, sorted by offset.
pub fn relocs_of(object: &Object, section: &str) -> Vec<SymbolicReloc> {
    let mut found = Vec::new();
    for prefix in [".rel", ".rela"] {
        let Some((_, section)) = object.section(&format!("{prefix}{section}")) else { continue };
        let Body::Relocs(relocs) = &section.body else { continue };
        found.extend(relocs.iter().map(|reloc| SymbolicReloc {
            offset: reloc.offset,
            kind: reloc.kind,
            symbol: object.symbols()[reloc.symbol as usize].name.clone(),
            addend: reloc.addend,
        }));
    }
    found.sort_by_key(|reloc| reloc.offset);
    found
}

fn clones_of(object: &Object, kernel: &str) -> Vec<ClonedFunction> {
    let text = object.section(&format!(".text.{kernel}")).expect("the text").0;
    let inside = object.symbols().iter().enumerate().filter(|(_, symbol)| {
        symbol.kind == SymbolType::FUNCTION && symbol.home == Home::Section(text as u32)
    });
    let clones = inside.filter(|(_, symbol)| symbol.name != kernel);
    let clone = |(index, symbol): (usize, &Symbol)| ClonedFunction {
        name: symbol.name.clone(),
        binding: symbol.binding,
        offset: symbol.value,
        size: symbol.size,
        frame_size: global_attr(object, Code::FRAME_SIZE, index as u32),
        return_register: 0,
    };
    clones.map(clone).collect()
}

fn global_attr(object: &Object, code: Code, symbol: u32) -> u32 {
    let found = attrs(object, ".nv.info").iter().find_map(|attr| match attr.value {
        Value::PerSymbol { symbol: owner, value } if attr.code == code && owner == symbol => Some(value),
        _ => None,
    });
    found.expect("an attribute of the function")
}

fn function_of(object: &Object, name: &str) -> Function {
    let index = object.symbols().iter().position(|symbol| symbol.name == name).expect("the function");
    let symbol = &object.symbols()[index];
    let global = |code| global_attr(object, code, index as u32);
    let own = attrs(object, &format!(".nv.info.{name}"));
    let exits = match find(own, Code::EXIT_INSTR_OFFSETS) {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::new(),
    };
    let externs = match find(own, Code::EXTERNS) {
        Some(Value::Symbols(symbols)) => symbols.as_slice(),
        _ => &[],
    };
    Function {
        registers: global(Code::REGCOUNT) as u8,
        frame_size: global(Code::FRAME_SIZE),
        exits,
        constant2: bytes(object, &format!(".nv.constant2.{name}")),
        relocs: relocs_of(object, &format!(".text.{name}")),
        constant2_relocs: relocs_of(object, &format!(".nv.constant2.{name}")),
        constant0_relocs: relocs_of(object, &format!(".nv.constant0.{name}")),
        literals: literals_of(object, name),
        clones: clones_of(object, name),
        externs: externs.iter().map(|&index| object.symbols()[index as usize].name.clone()).collect(),
        attrs: own.iter().filter(|attr| is_given(attr)).cloned().collect(),
        kernel: symbol.other.is_entry().then(|| Kernel {
            min_stack_size: match object.header.file_type {
                FileType::RELOCATABLE => 0,
                _ => global(Code::MIN_STACK_SIZE),
            },
            ..kernel_of(object, name, own)
        }),
        ..Function::new(name, symbol.binding, bytes(object, &format!(".text.{name}")))
    }
}

/// Whether an attribute comes from the compiler. Those that every kernel of a target has do where they are not zero.
fn is_given(attr: &Attr) -> bool {
    !MADE.contains(&attr.code)
        || attr.code == Code::SPARSE_MMA_MASK && attr.value != Value::Half(0)
        || attr.code == Code::VRC_CTA_INIT_COUNT && attr.value != Value::Byte(0)
}

fn literals_of(object: &Object, function: &str) -> Vec<Range<u64>> {
    let prefix = format!("{function}.const_opt.");
    let pieces = object.symbols().iter().filter(|symbol| symbol.name.starts_with(&prefix));
    pieces.map(|symbol| symbol.value..symbol.value + symbol.size).collect()
}

fn kernel_of(object: &Object, name: &str, own: &[Attr]) -> Kernel {
    let mut list: Vec<Param> = own.iter().filter_map(param).collect();
    list.reverse();
    let constant0 = section_size(object, &format!(".nv.constant0.{name}")).expect("bank 0");
    let (base, size) = match find(own, Code::PARAM_CBANK) {
        Some(Value::ParamBank(bank)) => (bank.base, bank.size),
        _ => (constant0 as u16, 0),
    };
    let is_executable = object.header.file_type == FileType::EXECUTABLE;
    let reserved = if object.header.sm() >= 90 && is_executable { 0x400 } else { 0 };
    let handle_bytes = constant0 as u32 - u32::from(base) - u32::from(size);
    Kernel {
        params: Params { base, size, list, handle_bytes },
        barriers: match find(own, Code::NUM_BARRIERS) {
            Some(Value::Byte(count)) => *count,
            _ => 0,
        },
        shared: object.section(&format!(".nv.shared.{name}")).map(|(_, section)| Shared {
            size: section_size(object, &section.name).expect("shared memory") - reserved,
            align: section.align,
        }),
        max_registers: match find(own, Code::MAXREG_COUNT) {
            Some(Value::Half(count)) => *count,
            _ => 255,
        },
        max_threads: find(own, Code::MAX_THREADS).and_then(dimensions),
        required_threads: find(own, Code::REQNTID).and_then(dimensions),
        ..Kernel::default()
    }
}

fn find(attrs: &[Attr], code: Code) -> Option<&Value> {
    attrs.iter().find(|attr| attr.code == code).map(|attr| &attr.value)
}

/// Attributes that the builder makes of other parts of the model; a compiler gives all others as they are.
const MADE: [Code; 16] = [
    Code::CBANK_PARAM_SIZE,
    Code::CUDA_API_VERSION,
    Code::EXIT_INSTR_OFFSETS,
    Code::EXTERNS,
    Code::KPARAM_INFO,
    Code::KPARAM_INFO_V2,
    Code::MAXREG_COUNT,
    Code::MAX_THREADS,
    Code::MERCURY_ISA_VERSION,
    Code::NUM_BARRIERS,
    Code::PARAM_CBANK,
    Code::REQNTID,
    Code::SPARSE_MMA_MASK,
    Code::SW2861232_WAR,
    Code::SW_WAR,
    Code::VRC_CTA_INIT_COUNT,
];

pub fn attrs<'a>(object: &'a Object, section: &str) -> &'a [Attr] {
    match object.section(section).map(|(_, section)| &section.body) {
        Some(Body::Info(attrs)) => attrs,
        _ => &[],
    }
}

fn bytes(object: &Object, section: &str) -> Vec<u8> {
    match object.section(section).map(|(_, section)| &section.body) {
        Some(Body::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

fn section_size(object: &Object, section: &str) -> Option<u64> {
    match &object.section(section)?.1.body {
        Body::Zeros(size) => Some(*size),
        Body::Bytes(bytes) => Some(bytes.len() as u64),
        _ => None,
    }
}

fn param(attr: &Attr) -> Option<Param> {
    match attr.value {
        Value::Param(info) => Some(Param {
            offset: info.offset,
            size: info.size,
            space: info.space,
            align: 1 << info.log_align,
            image: None,
        }),
        Value::ParamV2(info) => Some(Param {
            offset: info.offset,
            size: info.size as u16,
            space: cubin::attr::PointerSpace::NONE,
            align: 1,
            image: None,
        }),
        _ => None,
    }
}

fn dimensions(value: &Value) -> Option<[u32; 3]> {
    match value {
        Value::Words(words) => words.as_slice().try_into().ok(),
        _ => None,
    }
}
