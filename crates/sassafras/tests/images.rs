//! What code and loader agree on: handles of textures, samplers and surfaces, parameters, addresses of functions, the
//! stack. nvdisasm reads all of it.

mod support;

use cubin::attr::{Code, Value};
use cubin::{Body, Object, RelocType};
use support::{Scratch, compile, run};

fn object(machine: &str, mode: &str, declarations: &str, params: &str, body: &str) -> Object {
    let source = format!(
        ".version 9.0\n.target {machine}{mode}\n.address_size 64\n.global .texref t;\n.global .surfref s;\n\
         {declarations}\n.visible .entry k({params}) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<20>;\n\
         {body}\nret; }}\n"
    );
    let cubin = compile(&source, machine, |_| {});
    // Tests run at the same time, each in its own folder.
    let scratch = Scratch::new(&format!("images-{}", std::thread::current().name().unwrap_or_default()));
    run("nvdisasm", &["-c", &scratch.write("k.cubin", &cubin)]);
    Object::read(&cubin).expect("our own cubin")
}

fn listing(object: &Object, machine: &str) -> Vec<String> {
    let Some(Body::Bytes(bytes)) = object.section(".text.k").map(|(_, s)| &s.body) else { panic!("no code") };
    let sm = machine.trim_start_matches("sm_").parse().expect("a number");
    let isa = sass::Isa::of_sm(sm).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    bytes.chunks(16).map(|w| sass::decode(isa, word(w)).to_string()).collect()
}

/// The places in bank 0 that the loader fills in, and with what.
fn handles(object: &Object) -> Vec<(u64, RelocType)> {
    let mut all = Vec::new();
    for section in [".rel.nv.constant0.k", ".rela.nv.constant0.k"] {
        if let Some(Body::Relocs(relocs)) = object.section(section).map(|(_, s)| &s.body) {
            all.extend(relocs.iter().map(|r| (r.offset, r.kind)));
        }
    }
    all.sort_by_key(|(at, kind)| (*at, kind.0));
    all
}

const SAMPLE: &str = "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, q, {%f5,%f6}];";

/// To sm_89 a texture and its sampler share a word of bank 0; later each has its own.
#[test]
fn a_sampler_stands_beside_its_texture() {
    let mode = ", texmode_independent";
    let made = |machine| object(machine, mode, ".global .samplerref q;", ".param .b64 p", SAMPLE);
    let (texture, sampler) = (RelocType::TEX_HEADER_INDEX, RelocType::SAMP_HEADER_INDEX);
    assert_eq!(handles(&made("sm_80")), [(0x168, texture), (0x168, sampler)]);
    assert_eq!(handles(&made("sm_90")), [(0x218, texture), (0x21c, RelocType::SAMP_HEADER_INDEX_0)]);
}

/// The size of a level comes from the machine, all else from a table whose records the loader measures.
#[test]
fn queries_read_the_drivers_tables() {
    for (machine, table) in
        [("sm_75", "c[0x0][0x70]"), ("sm_90", "c[0x0][0xf0]"), ("sm_100", "c[0x0][0x150]")]
    {
        let body = "txq.array_size.b32 %r1, [t]; st.shared.b32 [%r1], %r1;";
        let object = object(machine, "", "", ".param .b64 p", body);
        let code = listing(&object, machine);
        assert!(code.iter().any(|line| line.contains(table)), "{machine}: {code:#?}");
        assert!(object.symbols().iter().any(|s| s.name == ".nv.unified.texrefDescSize"), "{machine}");
    }
}

/// What a sampler alone knows is in its record: that of a handle in a register, too. Records of textures with samplers
/// have no such field, and ptxas reads their first one.
#[test]
fn samplers_in_registers_have_records() {
    for (mode, offset, size) in [
        ("", "RZ", ".nv.unified.texrefDescSize"),
        (", texmode_independent", "0x10", ".nv.independent.samplerrefDescSize"),
    ] {
        let body = "ld.param.b64 %rd1, [p]; txq.force_unnormalized_coords.b32 %r1, [%rd1]; st.shared.b32 [%r1], %r1;";
        for machine in ["sm_75", "sm_90", "sm_100"] {
            let object = object(machine, mode, "", ".param .b64 p", body);
            let code = listing(&object, machine);
            let is_place = |line: &&String| line.contains("IMAD R") && line.contains(offset);
            assert!(code.iter().any(|line| is_place(&line)), "{machine}{mode}: {code:#?}");
            assert!(object.symbols().iter().any(|s| s.name == size), "{machine}{mode}");
        }
    }
}

/// Opaque parameters take no bytes, and a parameter is aligned where it lies in bank 0.
#[test]
fn parameters_lie_where_ptxas_puts_them() {
    let params = ".param .b32 a, .param .texref u, .param .align 64 .b8 m[128], .param .b32 z";
    let body = "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [u, {%f5,%f6}]; st.shared.f32 [%r1], %f1;";
    let object = object("sm_90", "", "", params, body);
    let Some(Body::Info(attrs)) = object.section(".nv.info.k").map(|(_, s)| &s.body) else {
        panic!("no attributes")
    };
    let place = |attr: &cubin::attr::Attr| match attr.value {
        Value::Param(info) if attr.code == Code::KPARAM_INFO => Some((info.ordinal, info.offset, info.size)),
        _ => None,
    };
    let mut places: Vec<_> = attrs.iter().filter_map(place).collect();
    places.sort();
    // 0x210 + 0x30 is a multiple of 64.
    assert_eq!(places, [(0, 0, 4), (1, 0xffff, 0), (2, 0x30, 128), (3, 0xb0, 4)]);
}

/// The address of a function is a number in data, and what a pointer may call counts for the kernel.
#[test]
fn functions_have_addresses_in_initialisers() {
    let functions = ".func (.param .b32 o) f(.param .b32 i) { .local .b8 a[64]; .reg .b32 %r<3>; mov.u32 %r1, a; \
        st.local.b32 [%r1], 5; ld.param.b32 %r1, [i]; st.param.b32 [o], %r1; ret; }\n\
        .global .align 8 .u64 table[2] = {0, f};";
    let body = "ld.global.u64 %rd1, [table+8]; { .param .b32 o; .param .b32 i; st.param.b32 [i], %r1; \
        P: .callprototype (.param .b32 _) _ (.param .b32 _); call (o), %rd1, (i), P; ld.param.b32 %r2, [o]; }";
    let object = object("sm_90", "", functions, ".param .b64 p", body);
    let Some(Body::Relocs(relocs)) = object.section(".rela.nv.global.init").map(|(_, s)| &s.body) else {
        panic!("no relocations")
    };
    assert_eq!(relocs.iter().map(|r| (r.offset, r.kind)).collect::<Vec<_>>(), [(8, RelocType::DATA_64)]);
    let Some(Body::Info(attrs)) = object.section(".nv.info").map(|(_, s)| &s.body) else {
        panic!("no attributes")
    };
    let stack = attrs.iter().find_map(|attr| match attr.value {
        Value::PerSymbol { value, .. } if attr.code == Code::MIN_STACK_SIZE => Some(value),
        _ => None,
    });
    assert!(stack.is_some_and(|bytes| bytes >= 64), "{stack:?}");
}

/// The frame is reached from its own register where the stack pointer moves.
#[test]
fn a_moving_stack_leaves_the_frame_in_place() {
    let body = "{ .local .b32 v[4]; ld.param.b64 %rd1, [p]; alloca.u64 %rd2, %rd1, 32; st.local.b32 [%rd2], %r1; \
        st.local.b32 [v], %r1; stackrestore.u64 %rd2; }";
    let object = object("sm_90", "", "", ".param .b64 p", body);
    let code = listing(&object, "sm_90");
    let has = |text: &str| code.iter().any(|line| line.contains(text));
    let moves_stack = code.iter().any(|line| line.contains("MOV") && line.contains(" R1, "));
    assert!(has("MOV R2, R1") && moves_stack && has("STL [R2], "), "{code:#?}");
    assert!(has("0xffffffe0"), "{code:#?}");
}

/// A policy takes the descriptor's place; to sm_89 the word says so.
#[test]
fn policies_reach_the_access() {
    let body =
        "ld.param.b64 %rd1, [p]; ld.global.L2::cache_hint.b32 %r1, [%rd1], %rd1; st.shared.b32 [%r1], %r1;";
    for machine in ["sm_80", "sm_90"] {
        let code = listing(&object(machine, "", "", ".param .b64 p", body), machine);
        let load = code.iter().find(|line| line.contains("LDG")).expect("a load");
        assert!(load.contains(" desc["), "{machine}: {load}");
    }
}
