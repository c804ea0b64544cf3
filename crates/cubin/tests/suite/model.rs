//! The model by itself: what is written reads back, what can't be written or read is an error that says why.

use cubin::attr::{Attr, Code, ParamBank, ParamInfo, PointerSpace, Value};
use cubin::inspect::CubinReport;
use cubin::module::{
    Calls, Function, Kernel, Linkage, Memory, Module, Origin, Param, Params, Shared, SharedHome,
    SharedVariable, SymbolicReloc, TCGEN05_PARTITION, Tool, Variable, layout,
};
use cubin::{
    Binding, Body, FileType, Home, MemorySpace, Note, Object, RelocType, SectionType, SymbolType, Target,
};

use crate::support::{attrs, relocs_of};

fn variable(name: &str, memory: Memory, align: u64, init: &[u8]) -> Variable {
    let (name, init) = (name.to_string(), init.to_vec());
    Variable {
        name,
        binding: Binding::GLOBAL,
        memory,
        origin: Origin::Here,
        managed: false,
        align,
        size: 12,
        init,
        relocs: Vec::new(),
    }
}

/// A module with one of everything.
fn module(sm: u16) -> Module {
    let reloc = |offset, kind, symbol: &str, addend| {
        let symbol = symbol.to_string();
        SymbolicReloc { offset, kind, symbol, addend }
    };
    let param = |offset, size, space, align| Param { offset, size, space, align, image: None };
    let kernel = Function {
        registers: 24,
        frame_size: 16,
        exits: vec![0x70],
        constant2: vec![1, 2, 3, 4],
        relocs: vec![
            reloc(0x20, RelocType::ABS32_LO_32, "pointer", 0),
            reloc(0x30, RelocType::ABS32_HI_32, "pointer", 4),
        ],
        externs: vec!["outside".into()],
        attrs: vec![Attr::words(Code::COOP_GROUP_INSTR_OFFSETS, [0x10, 0x20])],
        kernel: Some(Kernel {
            params: Params {
                base: 0x210,
                size: 12,
                list: vec![param(0, 8, PointerSpace::GLOBAL, 16), param(8, 4, PointerSpace::NONE, 1)],
                handle_bytes: 8,
            },
            min_stack_size: 32,
            barriers: 4,
            shared: Some(Shared { size: 100, align: 16 }),
            required_threads: Some([32, 2, 1]),
            ..Kernel::default()
        }),
        ..Function::new("kernel", Binding::GLOBAL, vec![0; 256])
    };
    let mut pointer = variable("pointer", Memory::Global, 8, &[0; 8]);
    pointer.relocs = vec![reloc(0, RelocType::G64, "zero", 4)];
    Module {
        tool: Tool { name: "tool".into(), command_line: "-arch sm_xx ".into(), ..Tool::default() },
        functions: vec![kernel, Function::new("helper", Binding::LOCAL, vec![0; 128])],
        variables: vec![
            variable("constant", Memory::Constant, 4, &[9; 12]),
            variable("zero", Memory::Global, 16, &[]),
            pointer,
            variable("constant_2", Memory::Constant, 8, &[7]),
        ],
        address_table: vec![("zero".into(), 0), ("pointer".into(), 8)],
        external_functions: vec!["outside".into()],
        calls: Calls { direct: vec![("kernel".into(), "helper".into())], ..Calls::default() },
        ..Module::new(Target { sm, accelerated: false }, 75)
    }
}

fn size_of(object: &Object, name: &str) -> u64 {
    match &object.section(name).unwrap_or_else(|| panic!("section {name}")).1.body {
        Body::Zeros(size) => *size,
        Body::Bytes(bytes) => bytes.len() as u64,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn built_modules_read_back_on_every_target() {
    for sm in targets::Target::ALL.iter().map(|target| target.sm) {
        let object = module(sm).to_object().unwrap();
        let bytes = object.write().unwrap();
        let read = Object::read(&bytes).unwrap();
        assert_eq!(read.write().unwrap(), bytes, "sm_{sm}");
        assert_eq!(read.header.sm(), sm);
        assert_eq!(read.header.flags.kind(), 4, "plain SASS on sm_{sm}");
        assert_eq!(read.segments, object.segments, "sm_{sm}");

        let reserved = if sm >= 90 { 0x400 } else { 0 };
        assert_eq!(size_of(&read, ".nv.shared.kernel"), reserved + 100);
        assert_eq!(size_of(&read, ".nv.constant0.kernel"), 0x210 + 12 + 8);
        assert_eq!(size_of(&read, ".nv.constant3"), 28);
        assert_eq!(size_of(&read, ".nv.constant4"), 16);
        assert_eq!(size_of(&read, ".nv.global"), 12);
        assert_eq!(read.section(".nv.compat").is_some(), sm >= 90);
        assert_eq!(read.section(".nv.rel.action").is_some(), sm < 90);
        assert!(read.sections.iter().all(|section| !section.name.contains("merc")));
        for reloc_section in [".text.kernel", ".nv.constant4", ".nv.global.init"] {
            let expected = if reloc_section == ".nv.global.init" { 1 } else { 2 };
            assert_eq!(relocs_of(&read, reloc_section).len(), expected, "sm_{sm} {reloc_section}");
        }
        let kernel = read.symbols().iter().find(|symbol| symbol.name == "kernel").unwrap();
        assert!(kernel.other.is_entry() && kernel.kind == SymbolType::FUNCTION && kernel.size == 256);
        let index = read.section(".note.nv.cuinfo").unwrap().0 as u32;
        assert_eq!(read.header.flags.0 >> 24, index, "the flags name the note");
    }
}

/// A module with one of everything as an object file.
#[test]
fn built_objects_read_back_on_every_target() {
    for sm in targets::Target::ALL.iter().map(|target| target.sm) {
        let module = Module { linkage: Linkage::Relocatable, ..module(sm) };
        let bytes = module.to_object().unwrap().write().unwrap();
        let object = Object::read(&bytes).unwrap();
        assert_eq!(object.write().unwrap(), bytes, "sm_{sm}");
        assert_eq!((object.header.file_type, object.segments.len()), (FileType::RELOCATABLE, 0));
        // Nothing is reserved but by the linker, and no section is of a plain type.
        assert_eq!(size_of(&object, ".nv.shared.kernel"), 100);
        assert_eq!(CubinReport::new(&object).kernels[0].shared_bytes, 100);
        let kind = |name: &str| object.section(name).unwrap_or_else(|| panic!("section {name}")).1.kind;
        assert_eq!(kind(".nv.constant0.kernel"), SectionType::CUDA_CONSTANT_B0);
        assert_eq!(kind(".nv.constant3"), SectionType::CUDA_CONSTANT_B3);
        assert_eq!(kind(".nv.global.init"), SectionType::CUDA_GLOBAL_INIT);
        assert_eq!(kind(".nv.global"), SectionType::CUDA_GLOBAL);
        assert_eq!(kind(".nv.shared.kernel"), SectionType::CUDA_SHARED);
        let find = |name: &str| object.symbols().iter().find(|symbol| symbol.name == name);
        let constant = find("constant").unwrap();
        assert_eq!((constant.kind, constant.other.space()), (SymbolType::CUDA_OBJECT, MemorySpace::CONSTANT));
        assert_eq!((find("_param").is_some(), find("__UFT").is_some()), (sm < 90, sm >= 90), "sm_{sm}");
        let stack = attrs(&object, ".nv.info").iter().filter(|attr| attr.code == Code::MAX_STACK_SIZE);
        assert_eq!(stack.count(), 2);
    }
}

/// More sections than the file header and the symbols can count, as in a file by ptxas with 22000 kernels.
#[test]
fn files_with_many_sections_read_back() {
    let kernel = |index| Function {
        exits: vec![0],
        kernel: Some(Kernel::default()),
        ..Function::new(format!("k{index}"), Binding::GLOBAL, vec![0x5a; 128])
    };
    for (count, far) in [(21_000, false), (22_000, true)] {
        let functions = (0..count).map(kernel).collect();
        let module = Module { functions, ..Module::new(Target { sm: 75, accelerated: false }, 75) };
        let object = module.to_object().unwrap();
        let bytes = object.write().unwrap();
        assert_eq!((object.sections.len() >= 0xff00, bytes[60..62] == [0, 0]), (far, far));
        let read = Object::read(&bytes).unwrap();
        assert!(read.sections.len() == object.sections.len() && read.symbols() == object.symbols());
        assert!(read.write().unwrap() == bytes);
        let last = read.symbols().iter().find(|symbol| symbol.name == format!("k{}", count - 1)).unwrap();
        let home = read.section(&format!(".text.k{}", count - 1)).unwrap().0;
        assert_eq!(last.home, Home::Section(home as u32));
        assert_eq!(read.section(".symtab_shndx").is_some(), far);
    }
}

#[test]
fn attributes_follow_the_order_of_the_target() {
    let codes = |sm| -> Vec<Code> {
        let object = module(sm).to_object().unwrap();
        attrs(&object, ".nv.info.kernel").iter().map(|attr| attr.code).collect()
    };
    let up_to_89 = [
        Code::CUDA_API_VERSION,
        Code::SW2861232_WAR,
        Code::PARAM_CBANK,
        Code::CBANK_PARAM_SIZE,
        Code::KPARAM_INFO,
        Code::KPARAM_INFO,
        Code::MAXREG_COUNT,
        Code::EXTERNS,
        Code::NUM_BARRIERS,
        Code::MERCURY_ISA_VERSION,
        Code::COOP_GROUP_INSTR_OFFSETS,
        Code::EXIT_INSTR_OFFSETS,
        Code::REQNTID,
    ];
    let since_90 = [
        Code::CUDA_API_VERSION,
        Code::KPARAM_INFO,
        Code::KPARAM_INFO,
        Code::SPARSE_MMA_MASK,
        Code::MAXREG_COUNT,
        Code::EXTERNS,
        Code::NUM_BARRIERS,
        Code::MERCURY_ISA_VERSION,
        Code::COOP_GROUP_INSTR_OFFSETS,
        Code::EXIT_INSTR_OFFSETS,
        Code::REQNTID,
        Code::CBANK_PARAM_SIZE,
        Code::PARAM_CBANK,
        Code::SW_WAR,
    ];
    assert_eq!(codes(80), up_to_89);
    assert_eq!(codes(90), since_90);
}

#[test]
fn given_attributes_replace_the_default() {
    let mut module = module(90);
    module.functions[0].attrs = vec![Attr::half(Code::SPARSE_MMA_MASK, 0x10)];
    let object = module.to_object().unwrap();
    let masks = attrs(&object, ".nv.info.kernel").iter().filter(|attr| attr.code == Code::SPARSE_MMA_MASK);
    assert_eq!(masks.map(|attr| &attr.value).collect::<Vec<_>>(), [&Value::Half(0x10)]);
}

#[test]
fn long_tables_become_several_records() {
    let mut module = module(90);
    let exits: Vec<u32> = (0..40_000).map(|index| 16 * index).collect();
    module.functions[0].exits = exits.clone();
    let bytes = module.to_object().unwrap().write().unwrap();
    let object = Object::read(&bytes).unwrap();
    let tables = attrs(&object, ".nv.info.kernel").iter().filter_map(|attr| match &attr.value {
        Value::Words(words) if attr.code == Code::EXIT_INSTR_OFFSETS => Some(words.as_slice()),
        _ => None,
    });
    let tables: Vec<&[u32]> = tables.collect();
    assert_eq!((tables.len(), tables.concat()), (3, exits));
}

#[test]
fn parameters_are_described_from_the_last_to_the_first() {
    let object = module(90).to_object().unwrap();
    let params = attrs(&object, ".nv.info.kernel").iter().filter_map(|attr| match attr.value {
        Value::Param(param) => Some(param),
        _ => None,
    });
    let expected = |ordinal, offset, size, space, log_align| ParamInfo {
        index: 0,
        ordinal,
        offset,
        size,
        bank: 0x1f,
        space,
        log_align,
    };
    let both = [expected(1, 8, 4, PointerSpace::NONE, 0), expected(0, 0, 8, PointerSpace::GLOBAL, 4)];
    assert_eq!(params.collect::<Vec<_>>(), both);
}

#[test]
fn many_parameter_bytes_take_the_second_form() {
    for (bytes, code) in [(0x1100, Code::KPARAM_INFO), (0x1104, Code::KPARAM_INFO_V2)] {
        let mut module = module(90);
        let kernel = module.functions[0].kernel.as_mut().unwrap();
        kernel.params.size = bytes;
        kernel.params.list =
            vec![Param { offset: 0, size: bytes, space: PointerSpace::NONE, align: 1, image: None }];
        let object = module.to_object().unwrap();
        assert!(attrs(&object, ".nv.info.kernel").iter().any(|attr| attr.code == code), "{bytes:#x}");
    }
}

#[test]
fn attributes_encode_as_ptxas_writes_them() {
    let bank = Value::ParamBank(ParamBank { symbol: 0xd, base: 0x210, size: 8 });
    let param = Value::Param(ParamInfo {
        index: 0,
        ordinal: 3,
        offset: 0x14,
        size: 4,
        bank: 0x1f,
        space: PointerSpace::GLOBAL,
        log_align: 2,
    });
    let cases = [
        (Attr::flag(Code::CTAIDZ_USED), "01 04 00 00"),
        (Attr::byte(Code::NUM_BARRIERS, 4), "02 4c 04 00"),
        (Attr::half(Code::MAXREG_COUNT, 255), "03 1b ff 00"),
        (Attr::words(Code::SW_WAR, [8]), "04 36 04 00 08 00 00 00"),
        (Attr::per_symbol(Code::REGCOUNT, 0xc, 10), "04 2f 08 00 0c 00 00 00 0a 00 00 00"),
        (Attr { code: Code::PARAM_CBANK, value: bank }, "04 0a 08 00 0d 00 00 00 10 02 08 00"),
        (Attr { code: Code::KPARAM_INFO, value: param }, "04 17 0c 00 00 00 00 00 03 00 14 00 02 f4 11 00"),
    ];
    for (attr, hex) in cases {
        let bytes = cubin::attr::encode(std::slice::from_ref(&attr)).unwrap();
        let text: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text.join(" "), hex, "{}", attr.code);
        assert_eq!(cubin::attr::decode(&bytes).unwrap(), [attr]);
    }
}

#[test]
fn odd_records_survive() {
    // A flag with an operand, a byte with a high half, a REGCOUNT of three words, a payload of 3 bytes.
    let bytes = [
        &[1, 4, 7, 0][..],
        &[2, 0x4c, 1, 1],
        &[4, 0x2f, 12, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
        &[4, 0x99, 3, 0, 1, 2, 3],
    ]
    .concat();
    let attrs = cubin::attr::decode(&bytes).unwrap();
    assert_eq!(attrs.len(), 4);
    assert_eq!(cubin::attr::encode(&attrs).unwrap(), bytes);
}

#[test]
fn notes_say_who_and_for_what() {
    let object = module(90).to_object().unwrap();
    let note = |name: &str| match &object.section(name).unwrap().1.body {
        Body::Notes(notes) => notes[0].clone(),
        other => panic!("{other:?}"),
    };
    let Note::Tool(tool) = note(".note.nv.tkinfo") else { panic!("no tool") };
    assert_eq!((tool.tool_name.as_str(), tool.command_line.as_str()), ("tool", "-arch sm_xx "));
    let Note::Cuda(cuda) = note(".note.nv.cuinfo") else { panic!("no architecture") };
    assert_eq!((cuda.virtual_sm, cuda.toolkit), (75, 130));
    let read = Object::read(&object.write().unwrap()).unwrap();
    for name in [".note.nv.tkinfo", ".note.nv.cuinfo", ".nv.callgraph", ".nv.compat"] {
        assert_eq!(read.section(name).unwrap().1.body, object.section(name).unwrap().1.body, "{name}");
    }
}

/// The places that ptxas 13.0.88 gives on sm_110a to the variable of the target and to that of `tcgen05.alloc`.
#[test]
fn reserved_shared_memory_has_variables() {
    let (name, size, align) = TCGEN05_PARTITION;
    let partition = SharedVariable {
        name: name.into(),
        binding: Binding::WEAK,
        home: SharedHome::System,
        align,
        size,
        address: 0,
    };
    for (linkage, section_size, war, partition_at) in
        [(Linkage::Executable, 0xe0, 0x40, 0xc0), (Linkage::Relocatable, 0xa0, 16, 1)]
    {
        let module = Module { linkage, shared: vec![partition.clone()], ..module(110) };
        let bytes = module.to_object().unwrap().write().unwrap();
        let object = Object::read(&bytes).unwrap();
        assert_eq!(size_of(&object, ".nv.shared.reserved.0"), section_size);
        let value =
            |name| object.symbols().iter().find(|symbol| symbol.name == name).expect("the symbol").value;
        assert_eq!((value("__nv_reservedSMEM_gb10b_war_var"), value(name)), (war, partition_at));
        assert_eq!(value(".nv.reservedSmem.cap"), 0x400);
    }
}

#[test]
fn variables_are_laid_out_in_order() {
    assert_eq!(layout(&module(90).variables), [0, 0, 0, 16]);
}

#[test]
fn modules_that_contradict_themselves_are_refused() {
    let refuse = |change: fn(&mut Module), message: &str| {
        let mut module = module(90);
        change(&mut module);
        assert_eq!(module.to_object().unwrap_err().to_string(), message);
    };
    refuse(
        |module| module.variables[1].origin = Origin::Common,
        "variable zero: an executable has to give it a place",
    );
    let lost = SharedVariable {
        name: "lost".into(),
        binding: Binding::LOCAL,
        home: SharedHome::Kernel(1),
        align: 4,
        size: 4,
        address: 0x400,
    };
    let with_shared =
        |home, align| Module { shared: vec![SharedVariable { home, align, ..lost.clone() }], ..module(80) };
    for (home, align, message) in [
        (SharedHome::Kernel(1), 4, "variable lost: there is no shared memory for it"),
        (SharedHome::System, 4, "variable lost: there is no shared memory for it"),
        (SharedHome::Module, 3, "variable lost: alignment 3 is no power of two"),
    ] {
        assert_eq!(with_shared(home, align).to_object().unwrap_err().to_string(), message);
    }
    refuse(
        |module| module.functions[0].literals.push(0..8),
        "literal kernel.const_opt.0.8: constant bank 2 has 4 bytes",
    );
    refuse(|module| module.target.sm = 61, "sm_61 is not a target of this writer");
    refuse(|module| module.functions[1].name = "zero".into(), "symbol zero is defined twice");
    refuse(|module| module.external_functions.clear(), "symbol outside is not defined");
    refuse(|module| module.variables[0].init = vec![1; 13], "variable constant: 13 bytes do not fit into 12");
    refuse(|module| module.variables[1].align = 12, "variable zero: alignment 12 is no power of two");
    refuse(
        |module| {
            module.functions[0].constant2.clear();
            module.functions[0].constant2_relocs = module.functions[0].relocs[..1].to_vec();
        },
        "symbol pointer is to be written into section .nv.constant2.kernel, which is empty",
    );
    refuse(
        |module| module.functions[0].kernel.as_mut().unwrap().params.list[1].align = 3,
        "parameter 1: alignment 3 is no power of two",
    );
}

#[test]
fn models_without_a_file_are_refused() {
    let refuse = |change: fn(&mut Object), message: &str| {
        let mut object = module(90).to_object().unwrap();
        change(&mut object);
        assert_eq!(object.write().unwrap_err().to_string(), message);
    };
    refuse(
        |object| object.header.section_names = 4,
        "section 4 is to hold its names, but is no string table",
    );
    refuse(
        |object| object.sections[3].link = 99,
        "section .symtab: section 99 is to hold its names, but is no string table",
    );
    refuse(
        |object| object.sections[4].body = Body::SameAs(7),
        "section .debug_frame: section 7 is not before it",
    );
    refuse(
        |object| object.sections[4].align = 1 << 40,
        "section .debug_frame: alignment 0x10000000000 is too large",
    );
    refuse(
        |object| {
            let long = Attr::words(Code::EXIT_INSTR_OFFSETS, vec![0; 20_000]);
            object.sections[7].body = Body::Info(vec![long]);
        },
        "section .nv.info: EIATTR_EXIT_INSTR_OFFSETS: a record of 80000 bytes is too long (65535 at most)",
    );
}

#[test]
fn broken_files_are_refused_with_the_place() {
    let good = module(90).to_object().unwrap().write().unwrap();
    let refuse = |change: &dyn Fn(&mut Vec<u8>), message: &str| {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(Object::read(&bytes).unwrap_err().to_string(), message);
    };
    let headers = u64::from_le_bytes(good[0x28..0x30].try_into().unwrap()) as usize;
    let field = |section: usize, offset: usize| headers + 64 * section + offset;
    refuse(&|bytes| bytes.truncate(3), "at offset 0x0: 4 bytes are needed, 3 are left");
    refuse(&|bytes| bytes[0] = 0, "at offset 0x0: this is not an ELF file");
    refuse(&|bytes| bytes[4] = 1, "at offset 0x4: ELF class 1, byte order 1: not 2 and 1");
    refuse(&|bytes| bytes[18] = 62, "at offset 0x12: machine 62 is not CUDA (190)");
    refuse(
        &|bytes| bytes[62] = 9,
        "at offset 0x3e: section 9 is to hold the section names, but is no string table",
    );
    let symbol_table = Object::read(&good).unwrap().section(".symtab").unwrap().0;
    refuse(
        &|bytes| bytes[field(symbol_table, 32)] -= 1,
        "section 3 (.symtab) at offset 0x210: a symbol has 24 bytes, 23 are left",
    );
    refuse(
        &|bytes| bytes[field(symbol_table, 40)] = 3,
        "section 3 (.symtab) at offset 0x0: section 3 is no string table",
    );
    let info = Object::read(&good).unwrap().section(".nv.info").unwrap().0;
    let at = u64::from_le_bytes(good[field(info, 24)..field(info, 32)].try_into().unwrap()) as usize;
    refuse(&|bytes| bytes[at + 12] = 9, "section 7 (.nv.info) at offset 0xc: record format 9 is unknown");
    refuse(
        &|bytes| bytes[at + 2] = 255,
        "section 7 (.nv.info) at offset 0x4: 255 bytes are needed, 56 are left",
    );
    let overlap = "section 4 (.debug_frame) at offset 0x0: the bytes at 0x41 are also part of section 1";
    refuse(&|bytes| bytes[field(4, 24)..field(4, 32)].copy_from_slice(&0x41u64.to_le_bytes()), overlap);
    let mut bytes = good.clone();
    bytes[field(4, 24)..field(4, 32)].copy_from_slice(&0xff_ffffu64.to_le_bytes());
    let message = Object::read(&bytes).unwrap_err().to_string();
    assert!(message.starts_with("section 4 (.debug_frame) at offset 0x0: "), "{message}");
    assert!(message.contains(" bytes at offset 0xffffff are outside of the file"), "{message}");
}
