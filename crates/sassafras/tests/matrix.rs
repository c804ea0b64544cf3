//! Matrix products: which operations they become, and that products of a warpgroup overlap only where they may.

use sass::{Op, Target};

fn code(target: &str, body: &str) -> Vec<String> {
    code_of_version("9.0", target, body)
}

fn code_of_version(version: &str, target: &str, body: &str) -> Vec<String> {
    let source = format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .entry k(.param .b64 to, .param .b64 a, .param .b64 b, .param .b32 n) {{\n\
         .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n\
         ld.param.b64 %rd1, [to]; ld.param.b64 %rd2, [a]; ld.param.b64 %rd3, [b]; ld.param.b32 %r1, [n];\n\
         {body}\nret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let options = sassafras::Options::new(ptx::Target::find(target).expect("a target")).with(|o| {
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    let cubin = output.cubin.unwrap_or_else(|| panic!("{target}: {:?}", output.diagnostics));
    let object = cubin::Object::read(&cubin).expect("our cubin");
    let (_, section) = object.section(".text.k").expect("the kernel's code");
    let cubin::Body::Bytes(text) = &section.body else { panic!("code is bytes") };
    let isa = Target::of_name(target).expect("a machine").isa;
    let words = text.chunks_exact(16).map(|w| u128::from_le_bytes(w.try_into().expect("16 bytes")));
    words.map(|w| sass::decode(isa, w)).filter(|i| i.op() != Op::NOP).map(|i| i.to_string()).collect()
}

/// How many instructions begin like this.
fn count(code: &[String], beginning: &str) -> usize {
    code.iter().filter(|line| line.starts_with(beginning)).count()
}

#[test]
fn a_product_is_what_the_machine_has() {
    let halves = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},\
                  {%r2,%r3,%r4,%r5},{%r6,%r7},{%f1,%f2,%f3,%f4}; st.global.f32 [%rd1], %f1;";
    for (target, operation, times) in
        [("sm_80", "HMMA.16816.F32 ", 1), ("sm_90", "HMMA.16816.F32 ", 1), ("sm_120", "HMMA.16816.F32 ", 1)]
    {
        assert_eq!(count(&code(target, halves), operation), times, "{target}");
    }
    let bytes = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1,%f2,%f3,%f4},\
                 {%r2,%r3,%r4,%r5},{%r6,%r7},{%f1,%f2,%f3,%f4}; st.global.f32 [%rd1], %f1;";
    assert_eq!(count(&code("sm_89", bytes), "QMMA.16832.F32.E4M3.E4M3 "), 1);
    assert_eq!(count(&code("sm_90", bytes), "HMMA.16816.F32 "), 2);
}

/// `.satfinite` of floats was there before PTX 6.5. Only sm_75 has it, for the last of the two steps, as with ptxas.
#[test]
fn a_sum_of_floats_saturates_where_the_machine_can() {
    let product = "wmma.mma.sync.aligned.col.row.m8n32k16.f32.f32.satfinite {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8},\
                   {%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r9},{%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r9},\
                   {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}; st.global.f32 [%rd1], %f1;";
    let code = code_of_version("6.4", "sm_75", product);
    let plain = count(&code, "HMMA.1688.F32 ");
    assert_eq!((plain, count(&code, "HMMA.1688.F32.SATFINITE ")), (2, 2), "{code:#?}");
}

/// Lanes that wait at an mbarrier by themselves may sleep, and BSYNC goes on without lanes that sleep. On an H200 the rest of
/// the warp then ran into an illegal instruction.
#[test]
fn after_a_wait_of_some_lanes_the_warp_converges_before_an_aligned_instruction() {
    let wait = "mov.u32 %r9, %tid.x; setp.ne.u32 %p1, %r9, 0; @%p1 bra DONE;\n\
                WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra WAIT;\nDONE:\n";
    let cases = [
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1]; st.global.b32 [%rd1], %r2;", "LDSM"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r9};", "STSM"),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r9; st.global.b32 [%rd1], %r2;", "MOVM"),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r9,%r9}, {%r9},\
             {%f1,%f2,%f3,%f4}; st.global.f32 [%rd1], %f1;",
            "HMMA",
        ),
        ("wgmma.fence.sync.aligned;", "WARPGROUP.ARRIVE"),
        ("wgmma.wait_group.sync.aligned 0;", "WARPGROUP.DEPBAR"),
        ("wgmma.commit_group.sync.aligned;", "HGMMA"),
        ("barrier.cluster.arrive.relaxed.aligned;", "UCGABAR_ARV"),
    ];
    for (instruction, operation) in cases {
        let code = code("sm_90a", &format!("{wait}{instruction}"));
        let position = |beginning: &str| code.iter().rposition(|line| line.starts_with(beginning));
        let (wait, at) = (position("WARPSYNC.ALL"), position(operation));
        assert!(wait.is_some() && wait < at && position("BSYNC") < wait, "{instruction}: {code:#?}");
        let without = self::code("sm_90a", instruction);
        assert_eq!(count(&without, "WARPSYNC"), 0, "{without:#?}");
    }
}

const LOOP: &str = "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; mov.b32 %r2, 0;\n\
    L: wgmma.fence.sync.aligned;\n\
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd2, %rd3, 1, 1, 1, 0, 0;\n\
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd3, %rd2, 1, 1, 1, 0, 0;\n\
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;\n\
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;\n";
const STORE: &str = "st.global.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};";

#[test]
fn accumulators_stay_in_flight_around_a_loop() {
    let code = code("sm_90a", &format!("{LOOP} wgmma.wait_group.sync.aligned 0; {STORE}"));
    assert_eq!(count(&code, "WARPGROUP.ARRIVE"), 1, "{code:#?}");
    assert_eq!(count(&code, "WARPGROUP.DEPBAR.LE gsb0, 0x1"), 1, "{code:#?}");
    assert_eq!(count(&code, "WARPGROUP.DEPBAR.LE gsb0, 0x0"), 1, "{code:#?}");
}

#[test]
fn without_a_wait_before_the_use_one_is_put_in() {
    let code = code("sm_90a", &format!("{LOOP} {STORE}"));
    assert_eq!(count(&code, "WARPGROUP.DEPBAR.LE gsb0, 0x1"), 1, "{code:#?}");
    assert_eq!(count(&code, "WARPGROUP.DEPBAR.LE gsb0, 0x0"), 1, "{code:#?}");
}

/// The threads of a warp that met make a product; it doesn't go where they may be apart.
#[test]
fn a_product_stays_behind_the_meeting_of_its_threads() {
    let product = "ld.global.v4.b32 {%r2,%r3,%r4,%r5}, [%rd2];\n\
        L: add.u32 %r1, %r1, -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;\n\
        bar.warp.sync %r2;\n\
        mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r6,%r7,%r8,%r9}, {%r2,%r3,%r4,%r5}, {%r2,%r3},\
        {%r2,%r3,%r4,%r5}; st.global.v4.b32 [%rd1], {%r6,%r7,%r8,%r9};";
    let code = code("sm_90", product);
    let place = |name: &str| code.iter().position(|line| line.starts_with(name)).expect(name);
    assert!(place("WARPSYNC") < place("BMMA"), "{code:#?}");
}

/// Uniform registers are the warp's: threads on one side of a branch don't write over what the others need.
#[test]
fn uniform_values_of_one_side_of_a_branch_are_apart() {
    let parts = ".shared .align 8 .b64 barrier; mov.u32 %r2, %laneid; mov.u32 %r3, barrier; st.global.b32 [%rd1], %r2;\n\
        setp.eq.u32 %p1, %r2, 0; @%p1 bra L;\n\
        mbarrier.init.shared.b64 [%r3], 1; exit;\n\
        L: st.global.b32 [%rd1+4], %r3;";
    let code = code("sm_90", parts);
    let branch = code.iter().position(|line| line.contains("BRA")).expect("a branch");
    let store = code.iter().rposition(|line| line.starts_with("STG.E desc[UR0]")).expect("a store");
    let write = ["UR0", "UR1"].map(|register| format!(" {register},"));
    let is_written = |line: &String| write.iter().any(|register| line.contains(register));
    assert!(branch < store && !code[branch..].iter().any(is_written), "{code:#?}");
}
