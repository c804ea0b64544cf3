//! Memory instructions as operations: what no one would see go wrong in a quick run (order, fences, threads that must
//! not take part), read off the code.

use cubin::{Body, Object};

/// The operations that a kernel with this body becomes.
fn listing(target: &str, body: &str) -> Result<Vec<String>, String> {
    let source = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.global .texref image;
        .visible .func vanish(.param .b64 a) {{ ret; }}\n.entry k(.param .b64 kp) {{
        .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<9>;
        ld.param.b64 %rd1, [kp];\n{body}\nret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{body}: {:?}", parsed.diagnostics);
    let target = ptx::Target::find(target).expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    let cubin = output.cubin.ok_or_else(|| format!("{:?}", output.diagnostics))?;
    let object = Object::read(&cubin).expect("our own cubin");
    let Some((_, section)) = object.section(".text.k") else { panic!("no code for {body}") };
    let Body::Bytes(bytes) = &section.body else { panic!("no bytes for {body}") };
    let isa = sass::Isa::of_sm(u32::from(target.sm())).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    Ok(bytes.chunks(16).map(|w| sass::decode(isa, word(w)).to_string()).collect())
}

/// The operations among `names`, in order, without operands.
fn operations(target: &str, body: &str, names: &[&str]) -> Vec<String> {
    let all = listing(target, body).unwrap_or_else(|e| panic!("{body}: {e}"));
    let op = |line: &String| {
        let mut words = line.split_whitespace().filter(|w| !w.starts_with('@'));
        words.next().unwrap_or_default().trim_end_matches(';').to_string()
    };
    all.iter().map(op).filter(|op| names.iter().any(|n| op.split('.').next() == Some(n))).collect()
}

#[test]
fn ordered_accesses_have_their_fences_on_the_right_side() {
    let names = ["LDG", "STG", "ATOMG", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL"];
    for (body, expected) in [
        ("ld.acquire.cta.global.b32 %r1, [%rd1];", "LDG.E.STRONG.SM"),
        ("ld.acquire.gpu.global.b32 %r1, [%rd1];", "LDG.E.STRONG.GPU CCTL.IVALL"),
        ("st.release.cta.global.b32 [%rd1], %r1;", "MEMBAR.ALL.CTA STG.E.STRONG.SM"),
        ("st.release.sys.global.b32 [%rd1], %r1;", "MEMBAR.ALL.SYS ERRBAR CGAERRBAR STG.E.STRONG.SYS"),
        (
            "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], %r2;",
            "MEMBAR.ALL.GPU ERRBAR CGAERRBAR ATOMG.E.ADD.STRONG.GPU CCTL.IVALL",
        ),
        ("fence.sc.gpu;", "MEMBAR.SC.GPU ERRBAR CGAERRBAR CCTL.IVALL"),
    ] {
        assert_eq!(operations("sm_90", body, &names).join(" "), expected, "{body}");
    }
    // Before clusters no other block sees shared memory, and there is no barrier for a cluster's errors.
    let before = "MEMBAR.ALL.GPU ERRBAR ATOMS.ADD";
    let body = "atom.acq_rel.gpu.shared.add.u32 %r1, [%rd1], %r2;";
    assert_eq!(operations("sm_80", body, &["ATOMS", "MEMBAR", "ERRBAR", "CCTL"]).join(" "), before);
}

/// As ptxas has it. The caches are emptied when an acquire is done: of a reduction nobody learns when it is.
#[test]
fn an_old_value_that_nobody_reads_is_not_asked_for() {
    let names = ["ATOMG", "ATOM", "REDG", "RED", "CCTL"];
    for (body, expected) in [
        ("atom.global.add.u32 %r1, [%rd1], %r2;", "REDG.E.ADD.STRONG.GPU"),
        ("@%p1 atom.relaxed.gpu.global.add.f32 %f1, [%rd1], %f2;", "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU"),
        ("atom.global.add.u32 %r1, [%rd1], %r2; st.global.u32 [%rd1], %r1;", "ATOMG.E.ADD.STRONG.GPU"),
        ("atom.global.v2.f32.add {%f1, _}, [%rd1], {%f2, %f3};", "REDG.E.ADD.F32x2.FTZ.RN.STRONG.GPU"),
        (
            "atom.global.v2.f32.add {%f1, _}, [%rd1], {%f2, %f3}; st.global.f32 [%rd1], %f1;",
            "ATOMG.E.ADD.F32x2.FTZ.RN.STRONG.GPU",
        ),
        ("atom.global.exch.b32 %r1, [%rd1], %r2;", "ATOMG.E.EXCH.STRONG.GPU"),
        ("atom.add.u32 %r1, [%rd1], %r2;", "ATOM.E.ADD.STRONG.GPU"),
        ("atom.acquire.gpu.global.add.u32 %r1, [%rd1], %r2;", "ATOMG.E.ADD.STRONG.GPU CCTL.IVALL"),
        ("atom.acquire.gpu.global.add.u32 _, [%rd1], %r2;", "ATOMG.E.ADD.STRONG.GPU CCTL.IVALL"),
        ("atom.release.gpu.global.add.u32 %r1, [%rd1], %r2;", "REDG.E.ADD.STRONG.GPU"),
    ] {
        assert_eq!(operations("sm_90", body, &names).join(" "), expected, "{body}");
    }
}

/// Where barriers in shared memory are used, the block's fence comes before each wider one, wherever the barriers are;
/// a function that is called may use them, too.
#[test]
fn wider_fences_wait_for_the_unit_of_barriers() {
    let fences = |target: &str, body: &str| operations(target, body, &["MEMBAR", "SYNCS"]).join(" ");
    let arrive = "mbarrier.arrive.shared.b64 %rd2, [%rd1];";
    for target in ["sm_90", "sm_100", "sm_120"] {
        let of = |body: &str| fences(target, body).replace("SYNCS.ARRIVE.TRANS64.A1T0", "SYNCS");
        assert_eq!(of("fence.acq_rel.gpu;"), "MEMBAR.ALL.GPU");
        assert_eq!(of(&format!("fence.acq_rel.gpu; {arrive}")), "MEMBAR.ALL.CTA MEMBAR.ALL.GPU SYNCS");
        assert_eq!(of(&format!("{arrive} fence.sc.sys;")), "SYNCS MEMBAR.ALL.CTA MEMBAR.SC.SYS");
        assert_eq!(of(&format!("fence.acq_rel.cta; {arrive}")), "MEMBAR.ALL.CTA SYNCS");
        let both = "mbarrier.arrive.release.cluster.shared::cta.b64 %rd2, [%rd1];";
        assert_eq!(of(both), "MEMBAR.ALL.CTA MEMBAR.ALL.GPU SYNCS");
        let call = "fence.acq_rel.gpu; { .param .b64 a; st.param.b64 [a], %rd1; call vanish, (a); }";
        assert_eq!(of(call), "MEMBAR.ALL.CTA MEMBAR.ALL.GPU");
    }
    // Barriers of older machines are words in memory.
    let before = operations("sm_80", &format!("fence.acq_rel.gpu; {arrive}"), &["MEMBAR"]).join(" ");
    assert_eq!(before, "MEMBAR.ALL.GPU MEMBAR.ALL.CTA");
}

#[test]
fn a_fence_obeys_its_guard() {
    let code = listing("sm_90", "setp.ne.s64 %p1, %rd1, 0;\n@!%p1 fence.acq_rel.gpu;").expect("it compiles");
    let parts = ["MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL"];
    for part in parts {
        let line = code.iter().find(|l| l.split_whitespace().any(|w| w.starts_with(part)));
        assert!(line.is_some_and(|l| l.starts_with("@!P")), "{part}: {line:?}");
    }
}

#[test]
fn narrow_loads_fill_wide_registers_with_their_sign() {
    let signed =
        operations("sm_90", "ld.global.s8 %rd2, [%rd1]; st.global.b64 [%rd1], %rd2;", &["LDG", "SHF"]);
    assert_eq!(signed, ["LDG.E.S8", "SHF.R.S32.HI"]);
    let unsigned =
        operations("sm_90", "ld.global.u8 %rd2, [%rd1]; st.global.b64 [%rd1], %rd2;", &["LDG", "SHF"]);
    assert_eq!(unsigned, ["LDG.E.U8"]);
}

/// Generic atomics that the machine can't do everywhere go on with a loop, and only for the threads of the guard.
#[test]
fn generic_float_atomics_have_a_way_for_memory_that_is_not_global() {
    let body = "setp.ne.s64 %p1, %rd1, 0;\n@%p1 atom.add.f32 %f1, [%rd1], %f2;\nst.global.f32 [%rd1], %f1;";
    for target in ["sm_75", "sm_90", "sm_120"] {
        let ops = operations(target, body, &["ATOM", "LD", "FADD", "BRA", "BSSY", "BSYNC"]);
        let at =
            |name: &str| ops.iter().position(|o| o.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        let first = at("ATOM.E.ADD.F32.FTZ.RN");
        assert!(ops[..first].iter().any(|o| o == "BRA"), "{target}: no branch around it: {ops:?}");
        assert!(first < at("LD.E") && at("LD.E") < at("FADD") && at("FADD") < at("ATOM.E.CAS"), "{ops:?}");
    }
}

/// A handle in a register may differ between threads; the machine wants one for the warp.
#[test]
fn threads_with_different_handles_take_turns() {
    let sample = "mov.u32 %r1, %laneid; cvt.u64.u32 %rd2, %r1;\n\
        tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd2, {%f5,%f6}];\nst.global.f32 [%rd1], %f1;";
    let code = listing("sm_90", sample).expect("it compiles");
    let turn = code.iter().position(|l| l.contains("R2UR P")).expect("a common handle");
    let tex = code.iter().position(|l| l.contains("TEX")).expect("a sample");
    let again = code.iter().position(|l| l.starts_with("@P") && l.contains("BRA")).expect("another round");
    assert!(turn < tex && tex < again && code[tex].starts_with("@!P"), "{code:#?}");
    // Older machines take a handle of each thread's.
    assert_eq!(operations("sm_89", sample, &["TEX", "R2UR"]), ["TEX.B.LL"]);
    // A texture of the module has the same handle everywhere.
    let named = sample.replace("[%rd2, {", "[image, {");
    assert_eq!(operations("sm_90", &named, &["TEX", "R2UR"]), ["TEX.LL"]);
    // So has a handle that is a parameter.
    let parameter = sample.replace("[%rd2, {", "[%rd1, {");
    let code = listing("sm_90", &parameter).expect("it compiles");
    assert!(!code.iter().any(|l| l.starts_with("@P") && l.contains("BRA")), "{code:#?}");
}

#[test]
fn elements_that_a_store_leaves_out_are_not_written() {
    let body = "st.global.v8.b32 [%rd1], {%r1, _, %r3, _, _, _, _, %r4};";
    assert_eq!(operations("sm_100", body, &["STG"]), ["STG.E"; 3]);
    let body = "st.release.gpu.v4.b64 [%rd1], {_, %rd2, _, %rd3};";
    let expected = "MEMBAR.ALL.GPU ERRBAR CGAERRBAR ST.E.64.STRONG.GPU ST.E.64.STRONG.GPU";
    assert_eq!(operations("sm_100", body, &["ST", "MEMBAR", "ERRBAR", "CGAERRBAR"]).join(" "), expected);
}
