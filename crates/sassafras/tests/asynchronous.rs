//! Operations of the warp and groups of copies, read off the code: what works in most runs even if it is wrong.

use cubin::{Body, Object};

/// The instructions of a kernel with this body.
fn code(target: &str, body: &str) -> Vec<sass::Inst> {
    let source = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.entry k(.param .b64 kp) {{
        .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n{body}\nret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{body}: {:?}", parsed.diagnostics);
    let target = ptx::Target::find(target).expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    let cubin = output.cubin.unwrap_or_else(|| panic!("{body}: {:?}", output.diagnostics));
    let object = Object::read(&cubin).expect("our own cubin");
    let Some((_, section)) = object.section(".text.k") else { panic!("no code for {body}") };
    let Body::Bytes(bytes) = &section.body else { panic!("no bytes for {body}") };
    let isa = sass::Isa::of_sm(u32::from(target.sm())).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    bytes.chunks(16).map(|w| sass::decode(isa, word(w))).collect()
}

fn operations(code: &[sass::Inst]) -> Vec<String> {
    code.iter().map(|inst| inst.form().op.name().to_string()).collect()
}

#[test]
fn each_thread_takes_its_turn_alone() {
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];";
    for target in ["sm_90", "sm_100", "sm_120"] {
        let all = operations(&code(target, copy));
        let at =
            |name: &str| all.iter().position(|op| op == name).unwrap_or_else(|| panic!("{name}: {all:?}"));
        // Who is not elected waits behind the copy, not before it: there they would all come through at once.
        assert!(at("ELECT") < at("UBLKCP") && at("UBLKCP") < at("BSYNC"), "{target}: {all:?}");
    }
}

#[test]
fn groups_of_copies_have_a_scoreboard_of_their_own() {
    let body = "ld.global.b32 %r2, [%rd1]; cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group;
        ld.global.b32 %r3, [%rd1+4]; add.u32 %r2, %r2, %r3; st.global.b32 [%rd2], %r2; cp.async.wait_group 0;";
    for target in ["sm_80", "sm_90", "sm_100"] {
        let code = code(target, body);
        for inst in &code {
            let counts = inst.control.write == Some(0) || inst.control.read == Some(0);
            assert_eq!(counts, inst.form().op == sass::Op::LDGDEPBAR, "{target}: {inst}");
            assert_eq!(inst.control.wait & 1, 0, "{target}: {inst} waits for all groups");
        }
        assert!(code.iter().any(|inst| inst.form().op == sass::Op::DEPBAR), "{target}");
    }
}

/// A wait for groups asks for results that are on their way; whether copies have read their addresses is asked by who
/// writes these registers.
#[test]
fn waits_for_groups_let_copies_read_later() {
    let body = "ld.param.b64 %rd1, [kp]; mov.u32 %r1, %tid.x; cp.async.cg.shared.global [%r1], [%rd1], 16;
        cp.async.commit_group; cp.async.wait_group 1;";
    for target in ["sm_80", "sm_90"] {
        let code = code(target, body);
        let at = |op: sass::Op| code.iter().find(|inst| inst.form().op == op).expect("an instruction");
        let read = at(sass::Op::LDGSTS).control.read.expect("a scoreboard");
        assert_eq!(at(sass::Op::DEPBAR).control.wait >> read & 1, 0, "{target}");
    }
}

/// The address of a copy is not where the loop's pointer will be in the next round: the move would wait for the copy. The
/// clock keeps the two apart.
#[test]
fn moves_at_the_end_of_a_loop_wait_for_no_copy() {
    let body = "ld.param.b64 %rd1, [kp]; ld.param.b64 %rd3, [kp]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x;
        L: ld.shared.b32 %r3, [%r2]; mad.wide.u32 %rd2, %r2, 16, %rd1; add.u64 %rd1, %rd1, %rd3;
        mov.u32 %r4, %clock; mad.lo.u32 %r5, %r3, %r4, %r2; cp.async.cg.shared.global [%r5], [%rd2], 16;
        cp.async.commit_group; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; @%p1 bra L;";
    let code = code("sm_90", body);
    let copy = code.iter().position(|inst| inst.form().op == sass::Op::LDGSTS).expect("a copy");
    let read = code[copy].control.read.expect("a scoreboard");
    let latch = code.iter().position(|inst| inst.form().op == sass::Op::BRA).expect("a loop");
    assert!(copy < latch, "the copy is in the loop");
    code[copy + 1..=latch].iter().for_each(|inst| assert_eq!(inst.control.wait >> read & 1, 0, "{inst}"));
}

#[test]
fn a_store_that_leaves_has_the_scoreboard_that_is_waited_for() {
    let body = "ld.global.b32 %r1, [%rd1]; ld.global.b32 %r2, [%rd1+4];
        st.async.mmio.release.sys.global.b32 [%rd2], %r1; st.global.b32 [%rd1+8], %r2;";
    let code = code("sm_100a", body);
    let store = code.iter().position(|inst| inst.form().op == sass::Op::USTGR).expect("a store");
    assert_eq!(code[store].control.read, Some(5), "{}", code[store]);
    assert_eq!(code[store + 1].to_string(), "DEPBAR.LE SB5, 0x0");
}

/// Nobody else hears of it before the loads of tensor memory are done that `tcgen05.wait::ld` asks for. Other loads don't
/// matter, nor does the wait to who computes.
#[test]
fn loads_of_tensor_memory_are_waited_for() {
    let load = "ld.param.b64 %rd1, [kp]; mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x;
        ld.global.b32 %r5, [%rd1]; tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];";
    let branch = "setp.eq.u32 %p1, %r3, 7; @%p1 bra L; st.global.b32 [%rd1+12], %r4; L:";
    let wait = "tcgen05.wait::ld.sync.aligned; xor.b32 %r6, %r3, 77; mbarrier.arrive.shared.b64 _, [%r4];
        st.global.b32 [%rd1+16], %r1; st.global.b32 [%rd1+20], %r5; st.global.b32 [%rd1+24], %r6;";
    for between in ["", branch] {
        let code = code("sm_100a", &format!("{load} {between} {wait}"));
        let place = |op: sass::Op| code.iter().position(|inst| inst.form().op == op).expect("an instruction");
        let (loads, asks, tells) = (place(sass::Op::LDTM), place(sass::Op::NOP), place(sass::Op::SYNCS));
        assert!(loads < asks && asks < tells, "{:?}", operations(&code));
        let scoreboard = |at: usize| 1u8 << code[at].control.write.expect("a scoreboard");
        let waits =
            |from: usize| code[from + 1..=tells].iter().fold(0, |mask, inst| mask | inst.control.wait);
        assert_eq!(waits(loads) & scoreboard(loads), scoreboard(loads), "{between}");
        assert_eq!(waits(asks) & scoreboard(place(sass::Op::LDG)), 0, "{between}");
        assert!(!between.is_empty() || code[asks].control.wait == 0, "{}", code[asks]);
    }
}

/// A warp gives columns of tensor memory back together, as in ptxas's code: what its threads agree on goes to the books
/// once, and they meet before and behind, also where a debugger lets some go on behind a trap.
#[test]
fn columns_of_tensor_memory_come_back() {
    let body = "ld.param.b64 %rd1, [kp]; mov.u32 %r3, %tid.x; mad.wide.u32 %rd1, %r3, 8, %rd1;
        ld.global.v2.b32 {%r1, %r2}, [%rd1]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, %r2;
        st.global.b32 [%rd1], %r3;";
    let wanted = ["LDS", "WARPSYNC", "ELECT", "UTCATOMSWS", "REDUX", "ATOMS", "BPT"];
    let mut found = operations(&code("sm_100a", body));
    found.retain(|op| wanted.contains(&op.as_str()));
    let mut expected = wanted.to_vec();
    expected.extend(["LDS", "WARPSYNC", "REDUX", "ATOMS", "BPT"]);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Threads that bring the same count arrive together, and where all do nobody takes turns.
#[test]
fn arrivals_of_a_warp() {
    let turns = |count: &str| {
        let body =
            format!("ld.global.b32 %r2, [%rd1]; mbarrier.arrive.noComplete.shared.b64 %rd2, [%r1], {count};");
        let code = code("sm_90", &format!("{body} st.global.b64 [%rd1], %rd2;"));
        let arrivals = code.iter().filter(|inst| inst.has(sass::M::TMASK)).count();
        (arrivals, operations(&code).iter().any(|op| op == "BSYNC"))
    };
    assert_eq!(turns("3"), (1, false));
    assert_eq!(turns("%r2"), (1, true));
}

#[test]
fn matrices_in_tensor_memory_are_not_taken_for_descriptors() {
    let text = |body: &str| {
        let code = code("sm_100a", body);
        let product = code.iter().find(|inst| inst.form().op.name().starts_with("UTC"));
        product.unwrap_or_else(|| panic!("no product in {body}")).to_string()
    };
    let descriptor = text("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;");
    assert!(descriptor.contains("UTCHMMA gdesc["), "{descriptor}");
    let tensor = text("tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r3], %rd2, %r2, %p1;");
    assert!(tensor.contains("UTCHMMA tmem["), "{tensor}");
    let scaled = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r1], %rd1, %rd2, %r2, [%r5], [%r6], %p1;";
    assert_eq!(text(scaled).matches("tmem[").count(), 3, "{}", text(scaled));
}

/// Compilers write `[base + offset]` for every place in tensor memory. The offset wraps, as in ptxas's code.
#[test]
fn places_in_tensor_memory_have_offsets() {
    let has = |body: &str, wanted: &str| {
        let all: Vec<String> = code("sm_100a", body).iter().map(sass::Inst::to_string).collect();
        assert!(all.iter().any(|text| text.contains(wanted)), "{body}: no {wanted} in {all:?}");
    };
    has("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3+32];", "+0x20]");
    has("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r3+-32], 64;", "+-0x20]");
    has("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+4294967300], {%r1};", "+0x4]");
    has("tcgen05.cp.cta_group::1.128x256b [%r3+48], %rd1;", "+0x30]");
    has("tcgen05.mma.cta_group::1.kind::f16 [%r1+80], [%r3+16], %rd2, %r2, %p1;", "0x50");
    let parsed = |place: &str| {
        let text = format!(
            ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() {{ .reg .b32 %r<4>; \
            .reg .b64 %rd<4>; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, {place}; ret; }}\n"
        );
        !ptx::parse(&text, &ptx::Options::default()).failed()
    };
    assert!(parsed("[%r2+4]"));
    assert!(!parsed("[%rd2+4]") && !parsed("[64]"));
}
