//! What the tests share: the reference tools, a scratch folder, and a way back from a cubin to a `Module`.

use std::path::{Path, PathBuf};
use std::process::Command;

use cubin::attr::{Attr, Code, Value};
use cubin::module::{
    ClonedFunction, Function, Kernel, Memory, Module, Param, Params, Shared, SymbolicReloc, Tool, Variable,
};
use cubin::{Body, Home, Object, Symbol, SymbolType, Target};

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

/// The `Module` that a compiler would have handed over for an executable cubin.
pub fn module_of(object: &Object) -> Module {
    let functions = object.sections.iter().filter_map(|section| section.name.strip_prefix(".text."));
    let symbol_name = |index: u32| object.symbols()[index as usize].name.clone();
    let calls = match object.section(".nv.callgraph").map(|(_, section)| &section.body) {
        Some(Body::CallGraph(graph)) => graph.calls.clone(),
        _ => Vec::new(),
    };
    let slots = relocs_of(object, ".nv.constant4").into_iter();
    let undefined = object
        .symbols()
        .iter()
        .filter(|symbol| symbol.kind == SymbolType::FUNCTION && symbol.home == Home::Undefined);
    Module {
        tool: Tool { name: "test".into(), ..Tool::default() },
        functions: functions.map(|name| function_of(object, name)).collect(),
        calls: calls.iter().map(|&(caller, callee)| (symbol_name(caller), symbol_name(callee))).collect(),
        variables: variables_of(object),
        address_table: slots.map(|reloc| (reloc.symbol, reloc.addend)).collect(),
        external_functions: undefined.map(|symbol| symbol.name.clone()).collect(),
        ..Module::new(Target { sm: object.header.sm(), accelerated: false }, 75)
    }
}

/// The variables in the order of their addresses. An address tells an alignment that leads back to it.
fn variables_of(object: &Object) -> Vec<Variable> {
    let mut variables = Vec::new();
    let sections = [
        (".nv.global.init", Memory::Global),
        (".nv.global", Memory::Global),
        (".nv.constant3", Memory::Constant),
    ];
    for (name, memory) in sections {
        let Some((index, section)) = object.section(name) else { continue };
        let relocs = relocs_of(object, name);
        let content = bytes(object, name);
        let in_section = |symbol: &&Symbol| symbol.home == Home::Section(index as u16);
        let objects = object.symbols().iter().filter(in_section);
        let mut symbols: Vec<_> = objects.filter(|symbol| symbol.kind == SymbolType::OBJECT).collect();
        symbols.sort_by_key(|symbol| symbol.value);
        for symbol in symbols {
            let range = symbol.value..symbol.value + symbol.size;
            let own = relocs.iter().filter(|reloc| range.contains(&reloc.offset));
            variables.push(Variable {
                name: symbol.name.clone(),
                binding: symbol.binding,
                memory,
                align: section.align.min(1 << symbol.value.trailing_zeros().min(16)),
                size: symbol.size,
                init: content.get(range.start as usize..range.end as usize).unwrap_or_default().to_vec(),
                relocs: own
                    .map(|reloc| SymbolicReloc { offset: reloc.offset - symbol.value, ..reloc.clone() })
                    .collect(),
            });
        }
    }
    variables
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
        symbol.kind == SymbolType::FUNCTION && symbol.home == Home::Section(text as u16)
    });
    let clones = inside.filter(|(_, symbol)| symbol.name != kernel);
    let clone = |(index, symbol): (usize, &Symbol)| ClonedFunction {
        name: symbol.name.clone(),
        binding: symbol.binding,
        offset: symbol.value,
        size: symbol.size,
        frame_size: global_attr(object, Code::FRAME_SIZE, index as u32),
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
        clones: clones_of(object, name),
        externs: externs.iter().map(|&index| object.symbols()[index as usize].name.clone()).collect(),
        attrs: own.iter().filter(|attr| OTHERS.contains(&attr.code)).cloned().collect(),
        kernel: symbol
            .other
            .is_entry()
            .then(|| Kernel { min_stack_size: global(Code::MIN_STACK_SIZE), ..kernel_of(object, name, own) }),
        ..Function::new(name, symbol.binding, bytes(object, &format!(".text.{name}")))
    }
}

fn kernel_of(object: &Object, name: &str, own: &[Attr]) -> Kernel {
    let mut list: Vec<Param> = own.iter().filter_map(param).collect();
    list.reverse();
    let constant0 = section_size(object, &format!(".nv.constant0.{name}")).expect("bank 0");
    let (base, size) = match find(own, Code::PARAM_CBANK) {
        Some(Value::ParamBank(bank)) => (bank.base, bank.size),
        _ => (constant0 as u16, 0),
    };
    let reserved = if object.header.sm() >= 90 { 0x400 } else { 0 };
    Kernel {
        params: Params { base, size, list, handle_bytes: 0 },
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

/// Attributes that a compiler gives as they are.
const OTHERS: [Code; 7] = [
    Code::COOP_GROUP_INSTR_OFFSETS,
    Code::COOP_GROUP_MASK_REGIDS,
    Code::INT_WARP_WIDE_INSTR_OFFSETS,
    Code::CRS_STACK_SIZE,
    Code::CTAIDZ_USED,
    Code::INDIRECT_BRANCH_TARGETS,
    Code::NUM_MBARRIERS,
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
        }),
        Value::ParamV2(info) => Some(Param {
            offset: info.offset,
            size: info.size as u16,
            space: cubin::attr::PointerSpace::NONE,
            align: 1,
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
