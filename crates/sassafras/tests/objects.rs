//! Relocatable objects: `nvlink` must link ours with ours and with ptxas's, and put into our code the places that it
//! gave to variables.

mod support;

use cubin::attr::{Code, Value};
use cubin::inspect::CubinReport;
use cubin::{Body, Object};
use std::collections::BTreeSet;
use support::{Scratch, compile, run};

const MACHINES: [&str; 5] = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"];

/// The PTX files of the container's own link test: one refers to the other in every way.
fn ptx_path(name: &str) -> String {
    format!("{}/../cubin/tests/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"))
}

/// An object by ptxas and one of ours: their paths.
fn objects(scratch: &Scratch, name: &str, machine: &str) -> [String; 2] {
    let theirs = scratch.path(&format!("{name}.theirs.o"));
    run("ptxas", &["-c", "-arch", machine, &ptx_path(name), "-o", &theirs]);
    let source = std::fs::read_to_string(ptx_path(name)).expect("a PTX file");
    let ours = compile(&source, machine, |options| options.relocatable = true);
    [theirs, scratch.write(&format!("{name}.ours.o"), &ours)]
}

fn link(scratch: &Scratch, machine: &str, objects: [&str; 2]) -> Object {
    let path = scratch.path("linked.cubin");
    run("nvlink", &[&format!("-arch={machine}"), objects[0], objects[1], "-o", &path]);
    run("nvdisasm", &["-c", &path]);
    read(&path)
}

fn read(path: &str) -> Object {
    Object::read(&std::fs::read(path).expect("a file")).expect("a cubin")
}

fn bytes<'a>(object: &'a Object, section: &str) -> &'a [u8] {
    match object.section(section).map(|(_, section)| &section.body) {
        Some(Body::Bytes(bytes)) => bytes,
        other => panic!("{section}: {other:?}"),
    }
}

/// What must not depend on who compiled: the variables with their first values, and what kernels need of shared memory
/// and barriers. Addresses, registers and stacks may differ.
fn essence(object: &Object) -> BTreeSet<String> {
    let report = CubinReport::new(object);
    let mut lines = BTreeSet::new();
    for symbol in report.symbols.iter().filter(|symbol| symbol.size > 0 && symbol.kind.contains("OBJECT")) {
        let content = match symbol.section.as_str() {
            ".nv.global.init" | ".nv.constant3" => {
                let range = symbol.value as usize..(symbol.value + symbol.size) as usize;
                bytes(object, &symbol.section).get(range).map(<[u8]>::to_vec)
            }
            _ => None,
        };
        lines.insert(format!("{} {} {} {content:?}", symbol.name, symbol.section, symbol.size));
    }
    for kernel in &report.kernels {
        let params: Vec<_> = kernel.params.iter().map(|param| (param.offset, param.size)).collect();
        let needs = (kernel.shared_bytes, kernel.barriers, params);
        lines.insert(format!("{} {needs:?}", kernel.name));
    }
    lines
}

/// The linker gives the kernel the stack of the deepest way through the functions that it calls; none of those calls
/// another.
fn check_stack(object: &Object) {
    let Some(Body::Info(attrs)) = object.section(".nv.info").map(|(_, section)| &section.body) else {
        panic!("no attributes")
    };
    let of = |code: Code, function: &str| {
        let found = attrs.iter().find_map(|attr| match attr.value {
            Value::PerSymbol { symbol, value } if attr.code == code => {
                (object.symbols()[symbol as usize].name == function).then_some(value)
            }
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{function} has no {code}"))
    };
    let callees = ["scale", "stacked", "increment", "negate"];
    let deepest = callees.iter().map(|callee| of(Code::FRAME_SIZE, callee)).max();
    assert_eq!(of(Code::MIN_STACK_SIZE, "run"), of(Code::FRAME_SIZE, "run") + deepest.unwrap_or(0));
}

#[test]
fn nvlink_joins_our_objects_with_any() {
    let scratch = Scratch::new("link");
    for machine in MACHINES {
        let main = objects(&scratch, "linked", machine);
        let other = objects(&scratch, "link_other", machine);
        let theirs = essence(&link(&scratch, machine, [&main[0], &other[0]]));
        assert!(theirs.len() > 10, "{machine}: {theirs:#?}");
        for pair in [[&main[1], &other[0]], [&main[0], &other[1]], [&main[1], &other[1]]] {
            let linked = link(&scratch, machine, pair.map(String::as_str));
            check_stack(&linked);
            let ours = essence(&linked);
            let (added, lost): (Vec<_>, Vec<_>) =
                (ours.difference(&theirs).collect(), theirs.difference(&ours).collect());
            assert!(added.is_empty() && lost.is_empty(), "{machine} {pair:?}: {added:#?} for {lost:#?}");
        }
    }
}

/// The immediate operand of the instruction at an offset of a kernel's code.
fn immediate(object: &Object, kernel: &str, offset: u64) -> u64 {
    let word = bytes(object, &format!(".text.{kernel}"));
    let at = offset as usize + 4;
    u64::from(u32::from_le_bytes(word[at..at + 4].try_into().expect("four bytes")))
}

#[test]
fn code_gets_the_places_that_the_linker_gives() {
    let scratch = Scratch::new("places");
    for machine in MACHINES {
        let main = objects(&scratch, "linked", machine);
        let other = objects(&scratch, "link_other", machine);
        let object = CubinReport::new(&read(&main[1]));
        let linked = link(&scratch, machine, [&main[1], &other[0]]);
        let report = CubinReport::new(&linked);
        let relocs = |kind: &'static str| {
            object.relocs.iter().filter(move |reloc| {
                reloc.section.trim_end_matches('a').ends_with(".text.run") && reloc.kind == kind
            })
        };
        let mut constants = 0;
        for reloc in relocs("R_CUDA_ABS16_32") {
            let symbol =
                report.symbols.iter().find(|symbol| symbol.name == reloc.symbol).expect("a constant");
            let place = symbol.value as i64 + reloc.addend;
            assert_eq!(immediate(&linked, "run", reloc.offset) as i64, place, "{machine} {}", reloc.symbol);
            constants += 1;
        }
        // An address that is needed twice is made once.
        assert!((3..=4).contains(&constants), "{machine}: {constants}");

        // The addends are the same for all of a variable, so that they can be told apart by their places alone.
        let mut shared: Vec<(u64, &str)> = Vec::new();
        for reloc in relocs("R_CUDA_ABS32_32") {
            shared.push((immediate(&linked, "run", reloc.offset), &reloc.symbol));
        }
        shared.sort();
        shared.dedup();
        let size = |name: &str| {
            object.symbols.iter().find(|symbol| symbol.name == name).expect("a shared variable").size
        };
        assert_eq!(shared.len(), 4, "{machine}: {shared:?}");
        for pair in shared.windows(2) {
            assert!(pair[0].0 + size(pair[0].1) <= pair[1].0, "{machine}: {shared:?}");
        }
        // What the launch adds comes last, behind what is static and what the system has.
        let (_, kernel) = linked.section(".nv.shared.run").expect("shared memory");
        let Body::Zeros(end) = kernel.body else { panic!("{machine}: {:?}", kernel.body) };
        assert_eq!(shared.last(), Some(&(end, "dynamic")), "{machine}: {shared:?}");
    }
}

/// The calls that cross files, as nvlink sees them, and the types that it compares.
#[test]
fn prototypes_are_those_of_ptxas() {
    let scratch = Scratch::new("prototypes");
    let types = [
        ".param .b8 x",
        ".param .b16 x",
        ".param .f16 x",
        ".param .b32 x",
        ".param .f32 x",
        ".param .b64 x",
        ".param .f64 x",
        ".param .b128 x",
        ".param .align 8 .b8 x[12]",
        ".param .align 1 .b8 x[1]",
        ".param .b32 x[3]",
        ".param .f32 x[3]",
        ".param .f64 x[2]",
        ".param .u16 x[2]",
        ".reg .b32 x",
    ];
    let mut source = ".version 9.0\n.target sm_90\n.address_size 64\n".to_string();
    for (i, ty) in types.iter().enumerate() {
        source += &format!(".visible .func f{i}({ty}, {}) {{ ret; }}\n", ty.replace('x', "y"));
    }
    let path = scratch.write("types.ptx", source.as_bytes());
    let theirs = scratch.path("types.o");
    run("ptxas", &["-c", "-arch", "sm_90", &path, "-o", &theirs]);
    let prototypes = |object: &Object| -> BTreeSet<(String, String)> {
        let Some(Body::Strings(strings)) = object.section(".strtab").map(|(_, s)| &s.body) else {
            panic!("no names")
        };
        let Some(Body::Prototypes(list)) = object.section(".nv.prototype").map(|(_, s)| &s.body) else {
            panic!("no prototypes")
        };
        let text =
            |offset: cubin::callgraph::StringOffset| strings.get(offset.0).expect("a text").to_string();
        list.iter().map(|p| (object.symbols()[p.symbol as usize].name.clone(), text(p.text))).collect()
    };
    let ours = compile(&source, "sm_90", |options| options.relocatable = true);
    let ours = prototypes(&Object::read(&ours).expect("our object"));
    assert_eq!(ours.len(), types.len());
    assert_eq!(ours, prototypes(&read(&theirs)));
}

/// Addresses in data, whole and byte by byte: of variables and functions, generic or not.
#[test]
fn addresses_in_data_are_relocated_as_ptxas_does() {
    let scratch = Scratch::new("data");
    let source = r"
.version 8.0
.target sm_75
.address_size 64
.visible .const .u32 c[10];
.visible .global .u32 g[10];
.visible .func f() { ret; }
.extern .func far();
.visible .global .u64 whole[7] = {f, far, c, generic(c), g, generic(g)+4, g+8};
.visible .const .u64 pointer = f;
.visible .global .u8 bytes[6] = {0xFF(f), 0xFF00(f), 0xFF(g), 0xFF0000(generic(c)), 0xFF00000000000000(c), 0xFF(g+4)};
";
    let path = scratch.write("data.ptx", source.as_bytes());
    for machine in MACHINES {
        let theirs = scratch.path("data.o");
        run("ptxas", &["-c", "-arch", machine, &path, "-o", &theirs]);
        let relocs = |object: &Object| -> Vec<(String, String, i64)> {
            let all = CubinReport::new(object).relocs;
            let of_data =
                all.into_iter().filter(|r| r.section.contains("global") || r.section.contains("constant"));
            let mut list: Vec<_> = of_data.map(|reloc| (reloc.symbol, reloc.kind, reloc.addend)).collect();
            list.sort();
            list
        };
        let ours = compile(source, machine, |options| options.relocatable = true);
        let ours = relocs(&Object::read(&ours).expect("our object"));
        assert_eq!(ours.len(), 14, "{machine}");
        let without_capsule = |mut object: Object| {
            object.sections.retain(|section| !section.name.contains("merc"));
            object
        };
        assert_eq!(ours, relocs(&without_capsule(read(&theirs))), "{machine}");
    }
}

/// Functions under two names, one of which data has; a table leads to a function that calls the driver.
const NAMES: &str = "
    .version 8.0
    .target sm_75
    .address_size 64
    .extern .func free (.param .b64 address);
    .visible .func (.param .b32 y) foo (.param .b32 x) { st.param.b32 [y], 5; ret; }
    .visible .func (.param .b32 y) bar (.param .b32 x);
    .alias bar, foo;
    .func release (.param .b64 x)
    {
        .reg .b64 %rd;
        .param .b64 address;
        ld.param.b64 %rd, [x];
        st.param.b64 [address], %rd;
        call free, (address);
        ret;
    }
    .visible .global .u64 table[2] = { bar, release };
    .visible .entry k (.param .u64 p)
    {
        .reg .b64 %rd<3>;
        .param .b64 x;
        ld.param.u64 %rd0, [p];
        ld.global.u64 %rd1, [table+8];
        st.param.b64 [x], %rd0;
    P: .callprototype _ (.param .b64 _);
        call %rd1, (x), P;
        ret;
    }
";

fn symbol(object: &Object, name: &str) -> (String, u64, u64) {
    let report = CubinReport::new(object);
    let found = report.symbols.iter().find(|symbol| symbol.name == name);
    let symbol = found.unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.section.clone(), symbol.value, symbol.size)
}

/// The functions that an executable says a kernel may need of others.
fn externs(object: &Object, kernel: &str) -> Vec<String> {
    let section = object.section(&format!(".nv.info.{kernel}"));
    let Some(Body::Info(attrs)) = section.map(|(_, section)| &section.body) else { panic!("no attributes") };
    match attrs.iter().find(|attr| attr.code == Code::EXTERNS).map(|attr| &attr.value) {
        Some(Value::Symbols(symbols)) => symbols.iter().map(|symbol| name(object, *symbol)).collect(),
        other => panic!("{kernel}: {other:?}"),
    }
}

fn name(object: &Object, symbol: u32) -> String {
    object.symbols()[symbol as usize].name.clone()
}

/// The functions that pointers may lead to, and those that call through pointers.
fn pointer_calls(object: &Object) -> [BTreeSet<String>; 2] {
    let Some(Body::CallGraph(graph)) = object.section(".nv.callgraph").map(|(_, section)| &section.body)
    else {
        panic!("no call graph")
    };
    [&graph.address_taken, &graph.indirect_calls]
        .map(|list| list.iter().map(|(symbol, _)| name(object, *symbol)).collect())
}

#[test]
fn an_alias_is_a_symbol_without_size() {
    for machine in MACHINES {
        for relocatable in [false, true] {
            let ours = compile(NAMES, machine, |options| options.relocatable = relocatable);
            let object = Object::read(&ours).expect("a cubin");
            let (section, value, size) = symbol(&object, "foo");
            assert!(section == ".text.foo" && value == 0 && size > 0, "{machine}: {section} {value} {size}");
            assert_eq!(symbol(&object, "bar"), (section, 0, 0), "{machine}");
        }
    }
}

#[test]
fn pointers_lead_to_the_driver() {
    let scratch = Scratch::new("pointers");
    let source = scratch.write("names.ptx", NAMES.as_bytes());
    for machine in MACHINES {
        let theirs = scratch.path("names.o");
        run("ptxas", &["-c", "-arch", machine, &source, "-o", &theirs]);
        let theirs = pointer_calls(&read(&theirs));
        assert!(theirs.iter().all(|list| !list.is_empty()), "{machine}: {theirs:?}");
        for relocatable in [false, true] {
            let ours = compile(NAMES, machine, |options| options.relocatable = relocatable);
            let object = Object::read(&ours).expect("a cubin");
            assert_eq!(pointer_calls(&object), theirs, "{machine}");
            if !relocatable {
                assert_eq!(externs(&object, "k"), ["free"], "{machine}");
            }
        }
    }
}

const IMAGES: &str = "
.global .texref picture;
.global .surfref canvas;
.visible .func (.param .b32 r) look(.param .b32 x, .param .b32 y)
{
    .reg .b64 %rd<3>; .reg .f32 %f<9>; .reg .b32 %r<5>;
    ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y]; ld.param.u32 %r1, [x];
    tex.2d.v4.f32.f32 {%f5,%f6,%f7,%f8}, [pictureSAMPLER, {%f1,%f2}];
    suld.b.2d.b32.trap %r2, [canvas, {%r1,%r1}];
    txq.width.b32 %r3, [picture];
    mov.u64 %rd1, picture;
    cvt.u32.u64 %r4, %rd1;
    xor.b32 %r2, %r2, %r3; xor.b32 %r2, %r2, %r4; mov.b32 %f3, %r2; add.f32 %f3, %f3, %f5;
    st.param.f32 [r], %f3;
    ret;
}
";

const VIEWER: &str = "
.extern .func (.param .b32 r) look(.param .b32 x, .param .b32 y);
.visible .entry view(.param .u64 out, .param .u32 more)
{
    .reg .b64 %rd<2>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [out];
    { .param .b32 x; .param .b32 y; .param .b32 r;
      st.param.f32 [x], 0f3f800000; st.param.f32 [y], 0f3f800000;
      call (r), look, (x, y);
      ld.param.f32 %f1, [r]; }
    st.global.f32 [%rd1], %f1;
    ret;
}
";

/// The words of a kernel's bank 0 that the loader fills in: what kind of number, and whose.
fn slots(object: &Object) -> BTreeSet<(String, String, u64)> {
    let report = CubinReport::new(object);
    let of_bank = report.relocs.iter().filter(|r| r.section.ends_with(".nv.constant0.view"));
    of_bank.map(|r| (r.kind.to_string(), r.symbol.clone(), r.offset)).collect()
}

/// A device function doesn't know where the handles of images are: the linker tells it.
#[test]
fn images_in_functions_get_slots_from_the_linker() {
    let scratch = Scratch::new("slots");
    for (machine, mode) in MACHINES.iter().flat_map(|m| ["", ", texmode_independent"].map(|mode| (*m, mode)))
    {
        let what = format!("{machine}{mode}");
        let head = format!(".version 9.0\n.target {machine}{mode}\n.address_size 64\n");
        let (sampler, declared) = match mode {
            "" => ("", ""),
            _ => (", how", ".global .samplerref how;\n"),
        };
        let sources = [format!("{head}{declared}{}", IMAGES.replace("SAMPLER", sampler)), head + VIEWER];
        let made = sources.iter().enumerate().map(|(i, source)| {
            let (ptx, theirs) =
                (scratch.write("x.ptx", source.as_bytes()), scratch.path(&format!("theirs{i}.o")));
            run("ptxas", &["-c", "-arch", machine, &ptx, "-o", &theirs]);
            let ours = compile(source, machine, |options| options.relocatable = true);
            [theirs, scratch.write(&format!("ours{i}.o"), &ours)]
        });
        let made: Vec<[String; 2]> = made.collect();
        let kinds = |object: &Object| {
            slots(object).into_iter().map(|(kind, symbol, _)| (kind, symbol)).collect::<BTreeSet<_>>()
        };
        // From sm_100 on nvlink has another way for objects that are all by ptxas, with another kind for samplers.
        let expected = kinds(&link(&scratch, machine, [&made[0][0], &made[1][1]]));
        assert_eq!(expected.len(), if mode.is_empty() { 2 } else { 3 }, "{what}: {expected:?}");
        for viewer in &made[1] {
            let linked = link(&scratch, machine, [&made[0][1], viewer]);
            assert_eq!(kinds(&linked), expected, "{what}");
            let isa = sass::Isa::of_sm(machine[3..].parse().expect("a number")).expect("a machine");
            let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
            let code =
                bytes(&linked, ".text.look").chunks(16).map(|w| sass::decode(isa, word(w)).to_string());
            let code: Vec<String> = code.collect();
            for (_, symbol, offset) in slots(&linked) {
                let names = [format!("c[0x0][{offset:#x}]"), format!("0x0, {:#x}", offset / 4)];
                let is_read = |line: &&String| names.iter().any(|name| line.contains(name));
                assert!(
                    code.iter().any(|line| is_read(&line)),
                    "{what}: {symbol} at {offset:#x} in {code:#?}"
                );
            }
        }
    }
}

/// A file with a kernel, and one with the function that it calls: with so many words of parameters and results, in
/// registers as a pragma asks for. The function calls another, and both callers keep much in registers meanwhile.
fn caller_and_callee(words: u32, results: u32, pragma: &str) -> [String; 2] {
    let each = |count: u32, text: &dyn Fn(u32) -> String| (0..count).map(text).collect::<String>();
    let head = ".version 8.0\n.target sm_75\n.address_size 64\n";
    let registers = ".reg .b32 %a<300>, %k<40>, %s, %t; .reg .b64 %p, %d;\n";
    let formal = (0..words).map(|n| format!(".param .b32 p{n}")).collect::<Vec<_>>().join(", ");
    let signature =
        format!(".func (.param .align 4 .b8 r[{}]) wide(.param .b64 first, {formal})", 4 * results);
    let caller = format!(
        "{head}.pragma \"abi_param_reg {pragma}\";\n.extern {signature};\n\
         .visible .entry k(.param .b64 out) {{ {registers} ld.param.b64 %p, [out]; mov.b32 %t, %tid.x;\n{}\
         {{ .param .b64 a; .param .align 4 .b8 b[{bytes}]; st.param.b64 [a], 0x300000005;\n{}\n\
         .pragma \"call_abi_param_reg {pragma}\"; call (b), wide, (a, {});\n\
         mul.lo.u32 %s, %t, {}; mul.wide.u32 %d, %s, 4; add.u64 %p, %p, %d;\n{} }}\n\
         mov.b32 %s, 0;\n{} st.global.b32 [%p+{bytes}], %s; ret; }}\n",
        each(40, &|n| format!("mad.lo.u32 %k{n}, %t, {n}, {n};\n")),
        each(words, &|n| format!(
            ".param .b32 c{n}; mad.lo.u32 %s, %t, {}, {n}; st.param.b32 [c{n}], %s;\n",
            n + 3
        )),
        (0..words).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", "),
        results + 1,
        each(results, &|n| format!("ld.param.b32 %s, [b+{}]; st.global.b32 [%p+{}], %s;\n", 4 * n, 4 * n)),
        each(40, &|n| format!("mad.lo.u32 %s, %k{n}, {}, %s;\n", n + 1)),
        bytes = 4 * results,
    );
    let callee = format!(
        "{head}.func (.param .b32 r) low(.param .b64 x) {{ .reg .b32 %a, %b; ld.param.b32 %a, [x];\n\
         ld.param.b32 %b, [x+4]; add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }}\n\
         .visible {signature} {{ .pragma \"abi_param_reg {pragma}\"; {registers} ld.param.b64 %d, [first];\n\
         {}{{ .param .b64 a; .param .b32 b; st.param.b64 [a], %d; call (b), low, (a); ld.param.b32 %s, [b]; }}\n\
         {}{} ret; }}\n",
        each(words, &|n| format!("ld.param.b32 %a{n}, [p{n}];\n")),
        each(words, &|n| format!("mad.lo.u32 %s, %a{n}, {}, %s;\n", n + 1)),
        each(results, &|n| format!("add.u32 %t, %s, {n}; st.param.b32 [r+{}], %t;\n", 4 * n)),
    );
    [caller, callee]
}

/// What the kernel of [`caller_and_callee`] writes.
fn written(words: u32, results: u32, threads: u32) -> Vec<u8> {
    let sum = |count: u32, of: &dyn Fn(u32) -> u32| (0..count).map(of).fold(0, u32::wrapping_add);
    let of_thread = |thread: u32| {
        let result = 8 + sum(words, &|n| (thread * (n + 3) + n) * (n + 1));
        let kept = sum(40, &|n| (thread * n + n) * (n + 1));
        (0..results).map(move |n| result + n).chain([kept])
    };
    (0..threads).flat_map(of_thread).flat_map(u32::to_le_bytes).collect()
}

/// Where parameters are, what survives a call and where the return address is: whoever compiles.
#[test]
fn pragmas_move_parameters_as_ptxas_does() {
    const THREADS: u32 = 32;
    let scratch = Scratch::new("parameters");
    let rows =
        [(3, 2, "12"), (13, 13, "all"), (14, 20, "24"), (22, 1, "24"), (38, 40, "all"), (10, 61, "70")];
    for (machine, (words, results, pragma)) in
        ["sm_75", "sm_90", "sm_120"].iter().flat_map(|m| rows.map(|r| (*m, r)))
    {
        let files = caller_and_callee(words, results, pragma);
        let wanted = written(words, results, THREADS);
        run_pairs(&scratch, machine, &files, THREADS, &wanted, &format!("{words} {results} {pragma}"));
    }
}

/// Links a kernel `k` with a file that it calls, each of them ours or ptxas's, and runs it: what it writes is wanted.
/// Warnings don't count: of functions that call themselves, and of return addresses that are where parameters may be.
fn run_pairs(scratch: &Scratch, machine: &str, files: &[String; 2], threads: u32, wanted: &[u8], what: &str) {
    let objects = ["caller", "callee"].map(|name| {
        let source = &files[usize::from(name == "callee")];
        let (path, theirs) =
            (scratch.write("in.ptx", source.as_bytes()), scratch.path(&format!("{name}.theirs.o")));
        run("ptxas", &["-c", "-w", "-arch", machine, &path, "-o", &theirs]);
        let ours = compile(source, machine, |options| options.relocatable = true);
        [theirs, scratch.write(&format!("{name}.ours.o"), &ours)]
    });
    for (caller, callee) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let linked = scratch.path("linked.cubin");
        let arch = format!("-arch={machine}");
        run(
            "nvlink",
            &[
                "--suppress-stack-size-warning",
                &arch,
                &objects[0][caller],
                &objects[1][callee],
                "-o",
                &linked,
            ],
        );
        let cubin = std::fs::read(&linked).expect("a cubin");
        let program = sim::sass::Program::new(&cubin).expect("a program");
        let mut simulator = sim::sass::Machine::new(&program);
        let out = simulator.allocate(vec![0; wanted.len()]);
        let parameters = out.to_le_bytes();
        let launch = sim::ptx::Launch::new("k", [1, 1, 1], [threads, 1, 1], &parameters);
        let what = format!("{machine} {what}: {caller} calls {callee}");
        simulator.run(&launch).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let found = simulator.read(out, wanted.len()).expect("memory");
        assert!(found == wanted, "{what}");
    }
}

/// A kernel and a function with directives, in two files. The kernel calls it with forty values that live on, some of its
/// threads within so many barriers, and all through a pointer. The function calls others, one that calls itself among them,
/// within four barriers and with sixty values that live on.
fn preserving(words: u32, results: u32, directives: &str, depth: u32) -> [String; 2] {
    let head = ".version 9.0\n.target sm_80\n.address_size 64\n";
    let each = |count: u32, text: &dyn Fn(u32) -> String| (0..count).map(text).collect::<String>();
    let registers = ".reg .b32 %a<300>, %k<60>, %s, %t, %x; .reg .b64 %p, %d, %f; .reg .pred %q;\n";
    let formal = (0..words).map(|n| format!(".param .b32 p{n}")).collect::<Vec<_>>().join(", ");
    let types = (0..words).map(|_| ".param .b32 _").collect::<Vec<_>>().join(", ");
    let bytes = 4 * results;
    let signature =
        format!(".func (.param .align 4 .b8 r[{bytes}]) wide(.param .b64 first, {formal}) {directives}");
    let nest = |depth: u32, inner: &str| {
        let into = each(depth, &|n| format!("setp.le.u32 %q, %t, {n}; @%q bra $L{n};\n"));
        let out =
            (0..depth).rev().map(|n| format!("mad.lo.u32 %x, %x, 5, {n};\n$L{n}:\n")).collect::<String>();
        format!("{into}{inner}{out}")
    };
    let call = |how: &str, prototype: &str| {
        let actual = each(words, &|n| {
            format!(".param .b32 c{n}; mad.lo.u32 %s, %t, {}, {n}; st.param.b32 [c{n}], %s;\n", n + 3)
        });
        let names = (0..words).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
        let sum = each(results, &|n| format!("ld.param.b32 %s, [b+{}]; add.u32 %x, %x, %s;\n", 4 * n));
        format!(
            "{{ .param .b64 a; .param .align 4 .b8 b[{bytes}]; st.param.b64 [a], 0x300000005;\n{actual}\
             call (b), {how}, (a, {names}){prototype};\n{sum} }}\n"
        )
    };
    let caller = format!(
        "{head}.extern {signature};\n.visible .entry k(.param .b64 out) {{ {registers}\
         P: .callprototype (.param .align 4 .b8 _[{bytes}]) _ (.param .b64 _, {types}) {directives};\n\
         ld.param.b64 %p, [out]; mov.b32 %t, %tid.x; mov.b32 %x, 0;\n{}{}mov.b64 %f, wide;\n{}{}\
         mul.wide.u32 %d, %t, 4; add.u64 %p, %p, %d; st.global.b32 [%p], %x; ret; }}\n",
        each(40, &|n| format!("mad.lo.u32 %k{n}, %t, {n}, {n};\n")),
        nest(depth, &call("wide", "")),
        call("%f", ", P"),
        each(40, &|n| format!("mad.lo.u32 %x, %k{n}, {}, %x;\n", n + 1)),
    );
    let low = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %d; call (b), low, (a); ld.param.b32 %a0, [b]; \
               add.u32 %x, %x, %a0; }\n";
    let callee = format!(
        "{head}.func (.param .b32 r) low(.param .b64 x) {{ .reg .b32 %a, %b; ld.param.b32 %a, [x];\n\
         ld.param.b32 %b, [x+4]; add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }}\n\
         .func (.param .b32 r) again(.param .b32 n) {directives} {{ .reg .b32 %n, %m; .reg .pred %q;\n\
         ld.param.b32 %n, [n]; mov.b32 %m, 1; setp.eq.u32 %q, %n, 0; @%q bra $L;\n\
         {{ .param .b32 a, b; sub.u32 %m, %n, 1; st.param.b32 [a], %m; call (b), again, (a); ld.param.b32 %m, [b]; }}\n\
         mad.lo.u32 %m, %m, 2, %n;\n$L: st.param.b32 [r], %m; ret; }}\n\
         .visible {signature} {{ {registers} ld.param.b64 %d, [first]; mov.b32 %t, %tid.x; mov.b32 %x, 0;\n\
         {{ .param .b32 a, b; st.param.b32 [a], 3; call (b), again, (a); ld.param.b32 %s, [b]; }}\n{}{}{}{}{} ret; }}\n",
        each(words, &|n| format!("ld.param.b32 %a{n}, [p{n}]; mad.lo.u32 %s, %a{n}, {}, %s;\n", n + 1)),
        each(60, &|n| format!("mad.lo.u32 %k{n}, %s, {}, {n};\n", n + 1)),
        nest(4, low),
        each(60, &|n| format!("mad.lo.u32 %x, %k{n}, {}, %x;\n", n + 3)),
        each(results, &|n| format!("add.u32 %s, %x, {n}; st.param.b32 [r+{}], %s;\n", 4 * n)),
    );
    [caller, callee]
}

/// What the kernel of [`preserving`] writes.
fn preserved(words: u32, results: u32, depth: u32, threads: u32) -> Vec<u8> {
    let add = |sum: u32, n: u32| sum.wrapping_add(n);
    let nested = |depth: u32, thread: u32, x: u32| {
        let x = if thread >= depth { x } else { 0 };
        (0..depth.min(thread)).rev().fold(x, |x, n| x.wrapping_mul(5).wrapping_add(n))
    };
    let of_thread = |thread: u32| {
        const AGAIN: u32 = 19;
        let s = (0..words).map(|n| (thread * (n + 3) + n).wrapping_mul(n + 1)).fold(AGAIN, add);
        let kept = (0..60).map(|n| s.wrapping_mul(n + 1).wrapping_add(n).wrapping_mul(n + 3));
        let wide = kept.fold(nested(4, thread, 8), add);
        let call = (0..results).map(|n| wide.wrapping_add(n)).fold(0, add);
        let x = nested(depth, thread, call).wrapping_add(call);
        (0..40).map(|n| (thread * n + n) * (n + 1)).fold(x, add)
    };
    (0..threads).map(of_thread).flat_map(u32::to_le_bytes).collect()
}

/// Where parameters and the return address are, and which registers and barriers survive a call.
#[test]
fn directives_preserve_what_ptxas_preserves() {
    const THREADS: u32 = 32;
    let scratch = Scratch::new("preserving");
    // The last number: how many barriers ptxas has for the caller. More it moves to registers, in a way that the
    // simulator doesn't follow.
    let rows = [
        (3, 2, ".abi_preserve 0", 6),
        (3, 2, ".abi_preserve 1 .abi_preserve_control 0", 12),
        (10, 12, ".abi_preserve 9 .abi_preserve_control 11", 1),
        (12, 1, ".abi_preserve 8", 6),
        (38, 3, ".abi_preserve 40", 6),
        (3, 30, ".abi_preserve 100 .abi_preserve_control 3", 9),
        (2, 1, ".abi_preserve 237", 6),
        (14, 20, ".abi_preserve_control 8", 4),
    ];
    for (machine, (words, results, directives, depth)) in
        ["sm_80", "sm_90", "sm_100"].iter().flat_map(|m| rows.map(|r| (*m, r)))
    {
        let files = preserving(words, results, directives, depth);
        let wanted = preserved(words, results, depth, THREADS);
        run_pairs(&scratch, machine, &files, THREADS, &wanted, &format!("{words} {results} {directives}"));
    }
}

/// A kernel with a table, and a function that has one if ptxas compiles it: the linker joins them in one bank.
#[test]
fn tables_are_linked() {
    const THREADS: u32 = 32;
    let scratch = Scratch::new("tables");
    let arms = |factor: u32| {
        let arm = |n: u32| format!("A{n}: mad.lo.u32 %x, %t, {}, {n}; bra D;\n", factor + n);
        (0..5).map(arm).collect::<String>()
    };
    let table = "T: .branchtargets A0, A1, A2, A3, A4, A2; rem.u32 %y, %t, 6; brx.idx %y, T;\n";
    for machine in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        let head = format!(".version 9.0\n.target {machine}\n.address_size 64\n");
        let registers = ".reg .b32 %x, %y, %t; .reg .b64 %p, %d;";
        let signature = ".func (.param .b32 r) f(.param .b32 a)";
        let callee = format!(
            "{head}.visible {signature} {{ {registers} ld.param.b32 %t, [a];\n{table}{}\
             D: st.param.b32 [r], %x; ret; }}\n",
            arms(9)
        );
        let caller = format!(
            "{head}.extern {signature};\n.visible .entry k(.param .b64 out) {{ {registers}\n\
             ld.param.b64 %p, [out]; mov.b32 %t, %tid.x;\n{table}{}D:\n\
             {{ .param .b32 a, b; st.param.b32 [a], %t; call (b), f, (a); ld.param.b32 %y, [b]; }}\n\
             mad.lo.u32 %x, %y, 1000, %x; mul.wide.u32 %d, %t, 4; add.u64 %p, %p, %d;\n\
             st.global.b32 [%p], %x; ret; }}\n",
            arms(2)
        );
        let of_thread = |t: u32| {
            let n = if t % 6 == 5 { 2 } else { t % 6 };
            1000 * (t * (9 + n) + n) + t * (2 + n) + n
        };
        let wanted: Vec<u8> = (0..THREADS).map(of_thread).flat_map(u32::to_le_bytes).collect();
        run_pairs(&scratch, machine, &[caller, callee], THREADS, &wanted, "tables");
    }
}

/// ptxas compiles them, too; what nothing reads or writes of a parameter costs nothing.
#[test]
fn parameters_of_any_size_compile() {
    for bytes in [64_000, 10_000_000, 1 << 30, u32::MAX] {
        let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
        let function = format!(
            "{head}.visible .func (.param .b32 r) f(.param .align 4 .b8 x[{bytes}])\n\
             {{ .reg .b32 %r; ld.param.b32 %r, [x+60]; st.param.b32 [r], %r; ret; }}\n"
        );
        compile(&function, "sm_90", |options| options.relocatable = true);
    }
    let caller = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .extern .func f(.param .align 4 .b8 x[64000]);\n\
        .visible .func k() { { .param .align 4 .b8 y[64000]; st.param.b32 [y+63996], 1; call f, (y); } ret; }\n";
    compile(caller, "sm_90", |options| options.relocatable = true);
}

#[test]
fn a_variable_may_be_declared_before_and_after_its_definition() {
    let kernel = ".visible .entry k() { .reg .b32 %r; ld.global.u32 %r, [g]; st.global.u32 [g], %r; ret; }\n";
    let (outside, here) = (".extern .global .u32 g;\n", ".visible .global .u32 g = 3;\n");
    for declarations in [[outside, here, outside], [outside, outside, ""], [here, outside, outside]] {
        let declarations = declarations.concat();
        let source = format!(".version 8.0\n.target sm_90\n.address_size 64\n{declarations}{kernel}");
        for relocatable in [false, true] {
            compile(&source, "sm_90", |options| options.relocatable = relocatable);
        }
    }
}
