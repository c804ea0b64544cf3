//! Code that tools put into the kernels of others (`-astoolspatch`): what it may use, what the file says of it, and what
//! it does. `patches/functions.ptx` has patches as nvcc makes them for NVIDIA's Sanitizer API.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use cubin::{Body, Object};
use sass::Target;
use sim::Machine;
use std::collections::BTreeSet;
use support::{Scratch, compile, run};

const FUNCTIONS: &str = include_str!("patches/functions.ptx");
const PATCHES: [&str; 4] = ["Count", "Record", "Heavy", "Warp"];
const LEVELS: [u8; 3] = [0, 1, 3];
/// The variable of `functions.ptx`.
const VARIABLE: &str = "of_module";
/// A patch has 24 registers, of which two belong to the system.
const LAST_REGISTER: u32 = 21;

fn patch(machine: &str, level: u8) -> Vec<u8> {
    compile(FUNCTIONS, machine, |options| {
        options.tools_patch = true;
        options.level = level;
    })
}

fn texts(object: &Object) -> impl Iterator<Item = (&str, &[u8])> {
    object.sections.iter().filter_map(|section| match &section.body {
        Body::Bytes(bytes) if section.name.starts_with(".text.") => Some((&*section.name, &bytes[..])),
        _ => None,
    })
}

/// The numbers behind a letter, as in `R17`.
fn numbers<'a>(text: &'a str, file: &'a str) -> impl Iterator<Item = u32> + 'a {
    let names =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(move |word| word.strip_prefix(file));
    names.filter_map(|number| number.parse().ok())
}

/// No uniform register, no descriptor, no bank of constants but the driver's; 22 registers.
#[test]
fn patches_use_what_they_may() {
    for (machine, level) in Target::ALL.iter().flat_map(|t| LEVELS.map(|level| (t.name, level))) {
        let object = Object::read(&patch(machine, level)).expect("our own cubin");
        let isa = Target::of_name(machine).expect("a machine").isa;
        let mut accesses = 0;
        for (name, bytes) in texts(&object) {
            for word in bytes.chunks(16) {
                let word = u128::from_le_bytes(word.try_into().expect("16 bytes"));
                let text = sass::decode(isa, word).to_string();
                let what = format!("{machine} -O{level} {name}: {text}");
                assert!(numbers(&text, "UR").chain(numbers(&text, "UP")).next().is_none(), "{what}");
                assert!(!text.contains("desc["), "{what}");
                assert!(!text.contains("c[0x") || text.contains("c[0x0]"), "{what}");
                assert!(numbers(&text, "R").all(|register| register <= LAST_REGISTER), "{what}");
                accesses += usize::from(["LD.E", "ST.E", "ATOM"].iter().any(|op| text.contains(op)));
            }
        }
        assert!(accesses > 10, "{machine} -O{level}: {accesses} accesses of memory");
    }
}

/// A function that needs a barrier, the third coordinate of its block and a function of the driver's, and one that calls it.
const CALLS: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
    .visible .func Count(.param .b64 p) { .reg .b64 %p; .reg .b32 %x; .reg .pred %q; .param .b64 a, b; .param .b32 r; \
    ld.param.b64 %p, [p]; bar.sync 3; mov.u32 %x, %ctaid.z; st.param.b64 [a], %p; st.param.b64 [b], %p; \
    call (r), vprintf, (a, b); st.global.u32 [%p], %x; setp.eq.u32 %q, %x, 3; @%q exit; ret; }\n\
    .visible .func Record(.param .b64 p) { .reg .b64 %p; .param .b64 a; ld.param.b64 %p, [p]; st.param.b64 [a], %p; \
    call Count, (a); st.global.u32 [%p], 1; ret; }\n";

/// What the file says that does not depend on the code: its kind, sections, symbols, attributes of functions, and how
/// the addresses of variables get into the code.
fn essence(cubin: &[u8]) -> BTreeSet<String> {
    use cubin::attr::Code;
    const OF_CODE: [Code; 5] = [
        Code::ANNOTATIONS,
        Code::COOP_GROUP_INSTR_OFFSETS,
        Code::COOP_GROUP_MASK_REGIDS,
        Code::CRS_STACK_SIZE,
        Code::INT_WARP_WIDE_INSTR_OFFSETS,
    ];
    const NUMBERED: [Code; 2] = [Code::EXIT_INSTR_OFFSETS, Code::EXTERNS];
    let object = Object::read(cubin).expect("a cubin");
    let report = cubin::inspect::CubinReport::new(&object);
    let mut all = BTreeSet::from([format!("{:?}", object.header.file_type)]);
    let is_patch = |name: &str| PATCHES.iter().any(|patch| name.ends_with(patch));
    for section in &object.sections {
        let of_function = [".text.", ".nv.info."].iter().any(|start| section.name.starts_with(start));
        // Relocations are those of calls, too; ptxas has a second form of the code from sm_100 on.
        let is_other = |start: &&str| section.name.starts_with(*start);
        if [".rel", ".nv.merc", ".nv.capmerc"].iter().any(is_other) || of_function && !is_patch(&section.name)
        {
            continue;
        }
        all.insert(format!("{} {:?}", section.name, section.kind));
        if let (Body::Info(attrs), true) = (&section.body, of_function) {
            let attrs = attrs.iter().filter(|attr| !OF_CODE.contains(&attr.code));
            all.extend(attrs.map(|attr| match NUMBERED.contains(&attr.code) {
                true => format!("{} {:?}", section.name, attr.code),
                false => format!("{} {attr:?}", section.name),
            }));
        }
    }
    let is_known = |name: &str| is_patch(name) || name.contains("Smem") || name == VARIABLE;
    for symbol in report.symbols.iter().filter(|symbol| is_known(&symbol.name)) {
        let size = if is_patch(&symbol.name) { 0 } else { symbol.size };
        all.insert(format!("{} {} {} {size}", symbol.name, symbol.kind, symbol.binding));
    }
    let is_of_code = |reloc: &&cubin::inspect::RelocReport| reloc.section.starts_with(".text");
    let of_variable = report.relocs.iter().filter(is_of_code).filter(|reloc| reloc.symbol == VARIABLE);
    all.extend(of_variable.map(|reloc| format!("{VARIABLE} {}", reloc.kind)));
    all
}

#[test]
fn the_file_is_as_ptxas_makes_it() {
    let scratch = Scratch::new("patches");
    for (source, machine) in [FUNCTIONS, CALLS].iter().flat_map(|s| Target::ALL.iter().map(|t| (*s, t.name)))
    {
        let (file, path) = (scratch.write("functions.ptx", source.as_bytes()), scratch.path("theirs.cubin"));
        run("ptxas", &["-astoolspatch", "-arch", machine, &file, "-o", &path]);
        let theirs = essence(&std::fs::read(&path).expect("a cubin"));
        let ours = essence(&compile(source, machine, |options| options.tools_patch = true));
        let (more, less) = (ours.difference(&theirs), theirs.difference(&ours));
        let [more, less] = [more.collect::<Vec<_>>(), less.collect()];
        assert!(more.is_empty() && less.is_empty(), "{machine}: more {more:#?} less {less:#?}");
    }
}

/// A kernel whose threads part, and call a patch in a loop with values that live on.
fn kernel(patch: &str) -> String {
    format!(
        ".visible .entry k(.param .b64 state) {{
            .reg .b64 %state, %p; .reg .b32 %i, %t, %size, %r, %a<12>; .reg .pred %q;
            .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 d; .param .b32 e; .param .b64 f; .param .b32 g;
            ld.param.b64 %state, [state]; mov.b32 %t, %tid.x; mov.b32 %i, 0; mov.b32 %r, 0;
            mov.b32 %a1, %ntid.x; add.u32 %a2, %t, 3; mul.lo.u32 %a3, %t, %t; xor.b32 %a4, %t, 77; shl.b32 %a5, %t, 3;
            again:
            add.u32 %size, %t, %i; and.b32 %size, %size, 12; add.u32 %size, %size, 4;
            mad.wide.u32 %p, %t, 4, 4096;
            st.param.b64 [a], %state; st.param.b64 [b], 0x1234; st.param.b64 [c], %p; st.param.b32 [d], %size;
            st.param.b32 [e], %i; st.param.b64 [f], 0;
            call (g), {patch}, (a, b, c, d, e, f);
            ld.param.b32 %a6, [g]; add.u32 %r, %r, %a6;
            add.u32 %i, %i, 1; and.b32 %a7, %t, 3; setp.lt.u32 %q, %i, %a7; @%q bra again;
            add.u32 %r, %r, %a1; mad.lo.u32 %r, %r, 5, %a2; mad.lo.u32 %r, %r, 5, %a3; mad.lo.u32 %r, %r, 5, %a4;
            mad.lo.u32 %r, %r, 5, %a5;
            mad.wide.u32 %p, %t, 4, %state; st.global.u32 [%p+64], %r; ret;
        }}\n"
    )
}

const THREADS: u32 = 80;
const ROOM: usize = 400;

/// What a run leaves: counts, results of the kernel, and what was recorded, in order.
fn outcome(machine: &mut dyn Machine) -> Vec<u8> {
    let list = machine.allocate(vec![0; 8 * ROOM]);
    let mut state = vec![0; 64 + 4 * THREADS as usize];
    state[36..40].copy_from_slice(&(ROOM as u32).to_le_bytes());
    state[40..48].copy_from_slice(&list.to_le_bytes());
    let length = state.len();
    let address = machine.allocate(state);
    let parameters = address.to_le_bytes();
    machine
        .run(&sim::ptx::Launch::new("k", [1, 1, 1], [THREADS, 1, 1], &parameters))
        .unwrap_or_else(|fault| panic!("{fault}"));
    let mut state = machine.read(address, length).expect("memory").to_vec();
    state[40..48].fill(0);
    let mut records: Vec<[u8; 8]> = machine.read(list, 8 * ROOM).expect("memory").as_chunks().0.to_vec();
    records.sort();
    state.extend(records.iter().flatten());
    state
}

/// The same code, as an object for the linker, called by kernels of ours and of ptxas: the interpreter's memory.
#[test]
fn patches_do_what_the_text_says() {
    let scratch = Scratch::new("patched");
    let header = ".version 9.0\n.target sm_75\n.address_size 64\n";
    for name in PATCHES {
        let whole = format!("{FUNCTIONS}\n{}", kernel(name));
        let parsed = ptx::parse(&whole, &ptx::Options::default());
        assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
        let program = sim::ptx::Program::new(&parsed.module.expect("a module"), &whole);
        let wanted = outcome(&mut sim::ptx::Machine::new(&program));
        assert_ne!(wanted[..8], [0; 8], "{name} counts");

        let declared = format!(
            ".extern .func (.param .b32 g) {name}(.param .b64 a, .param .b64 b, .param .b64 c, .param .b32 d, \
             .param .b32 e, .param .b64 f);\n"
        );
        let caller = scratch.write("k.ptx", format!("{header}{declared}{}", kernel(name)).as_bytes());
        let (kernel, linked) = (scratch.path("k.o"), scratch.path("linked.cubin"));
        run("ptxas", &["-c", "-arch=sm_90", &caller, "-o", &kernel]);
        for level in LEVELS {
            let object = compile(FUNCTIONS, "sm_90", |options| {
                options.tools_patch = true;
                options.relocatable = true;
                options.level = level;
            });
            let read = |bytes: &[u8]| Object::read(bytes).expect("our own cubin");
            let (plain, object_read) = (read(&patch("sm_90", level)), read(&object));
            assert_eq!(
                texts(&plain).collect::<BTreeSet<_>>(),
                texts(&object_read).collect::<BTreeSet<_>>(),
                "-O{level}: an object has the code of the patch"
            );
            let object = scratch.write("functions.o", &object);
            run("nvlink", &["-arch=sm_90", &kernel, &object, "-o", &linked]);
            let cubin = std::fs::read(&linked).expect("a cubin");
            let program = sim::sass::Program::new(&cubin).expect("a program");
            let found = outcome(&mut sim::sass::Machine::new(&program));
            assert!(found == wanted, "{name} -O{level}");
        }
    }
}

/// What can't be a patch ends with ptxas's words, or with ours where ptxas takes uniform registers nevertheless.
#[test]
fn what_is_no_patch_is_refused() {
    let allowed = "is not allowed when command line option '--compile-as-tools-patch' is specified ";
    let rows = [
        (".shared .b32 s;", "ret;", "Allocating additional shared memory"),
        (".const .b32 c;", "ret;", "Allocating additional constants"),
        (".global .texref t;", "ret;", "Allocating additional textures"),
        (".global .surfref t;", "ret;", "Allocating additional surfaces"),
        (".entry k { ret; }", "ret;", "Entry function"),
        ("", ".shared .b32 s; ret;", "Allocating additional shared memory"),
        ("", "redux.sync.add.u32 %r, %r, -1; ret;", "Instruction 'redux'"),
        ("", "cp.async.wait_all; ret;", "Instruction 'cp'"),
        ("", "mbarrier.arrive.shared.b64 %p, [%p]; ret;", "Instruction 'mbarrier'"),
        ("", "pr: .callprototype _ (); call %p, (), pr; ret;", "Using indirect function calls"),
        (".func g { ret; }", "mov.u64 %p, g; ret;", "Taking address of device functions"),
        (".func g { ret; } .global .u64 v = g;", "ret;", "Taking address of device functions"),
    ];
    let answer = |items: &str, body: &str| {
        let source = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n{items}\n\
             .visible .func f(.reg .b64 %p, .reg .b32 %r) {{ .reg .pred %q; {body} }}\n"
        );
        let parsed = ptx::parse(&source, &ptx::Options::default());
        assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
        let mut options = sassafras::Options::new(ptx::Target::find("sm_90").expect("a target"));
        options.tools_patch = true;
        let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
        assert!(output.cubin.is_none(), "{items} {body}");
        output.diagnostics.first().map(|d| d.message.clone()).unwrap_or_default()
    };
    for (items, body, what) in rows {
        assert_eq!(answer(items, body), format!("{what} {allowed}"));
    }
    let elected = answer("", "elect.sync %r|%q, -1; st.u32 [%p], %r; ret;");
    assert!(elected.contains("uniform registers"), "{elected}");
}
