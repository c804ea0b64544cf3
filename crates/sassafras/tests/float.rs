//! Which machine operations floats, halves, comparisons and conversions become.

/// The machine text of a kernel that loads `%f2 %f3 %d2 %d3 %h2 %r2`, does one instruction, and stores what it wrote.
fn listing(target: &str, instruction: &str, store: &str) -> Vec<String> {
    let source = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{ .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %d<4>; .reg .b16 %h<4>;\n\
         .reg .b32 %r<4>; .reg .pred %p<4>; ld.param.u64 %rd1, [p];\n\
         ld.global.f32 %f2, [%rd1]; ld.global.f32 %f3, [%rd1+4]; ld.global.f64 %d2, [%rd1+8];\n\
         ld.global.f64 %d3, [%rd1+16]; ld.global.b16 %h2, [%rd1+24]; ld.global.b32 %r2, [%rd1+28];\n\
         {instruction}\n{store}\nret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{instruction}: {:?}", parsed.diagnostics);
    let target = ptx::Target::find(target).expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.contract = false;
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    let cubin = output.cubin.unwrap_or_else(|| panic!("{instruction}: {:?}", output.diagnostics));
    let object = cubin::Object::read(&cubin).expect("a cubin");
    let Some((_, cubin::Section { body: cubin::Body::Bytes(code), .. })) = object.section(".text.k") else {
        panic!("{instruction}: the kernel has no code")
    };
    let isa = sass::Isa::of_sm(u32::from(target.sm())).expect("an encoding");
    let (words, _) = code.as_chunks::<16>();
    words.iter().map(|w| sass::decode(isa, u128::from_le_bytes(*w)).to_string()).collect()
}

fn count(listing: &[String], operation: &str) -> usize {
    listing.iter().filter(|line| line.split_whitespace().any(|word| word == operation)).count()
}

const F32: &str = "st.global.f32 [%rd1+32], %f1;";
const F64: &str = "st.global.f64 [%rd1+32], %d1;";
const B16: &str = "st.global.b16 [%rd1+32], %h1;";
const B32: &str = "st.global.b32 [%rd1+32], %r1;";

/// A modifier of PTX that gets lost on the way is wrong code: each of these stands in the machine's operation.
#[test]
fn modifiers_reach_the_machine() {
    for (instruction, store, operation) in [
        ("add.rz.ftz.sat.f32 %f1, %f2, %f3;", F32, "FADD.FTZ.RZ.SAT"),
        ("fma.rm.sat.f32 %f1, %f2, %f3, %f2;", F32, "FFMA.RM.SAT"),
        ("mul.rp.f64 %d1, %d2, %d3;", F64, "DMUL.RP"),
        ("max.ftz.NaN.xorsign.abs.f32 %f1, %f2, %f3;", F32, "FMNMX.FTZ.NAN.XORSIGN"),
        ("fma.rn.ftz.relu.f16 %h1, %h2, %h2, %h2;", B16, "HFMA2.FTZ.RELU"),
        ("min.NaN.xorsign.abs.bf16x2 %r1, %r2, %r2;", B32, "HMNMX2.BF16_V2.NAN.XORSIGN"),
        ("cvt.rmi.ftz.s16.f32 %h1, %f2;", B16, "F2I.FTZ.S16.FLOOR.NTZ"),
        ("cvt.rp.f16.f64 %h1, %d2;", B16, "F2F.F16.F64.RP"),
        ("cvt.rz.relu.satfinite.bf16x2.f32 %r1, %f2, %f3;", B32, "F2FP.SATFINITE.RELU.BF16.F32.PACK_AB.RZ"),
        (
            "cvt.rn.satfinite.relu.e4m3x2.f32 %h1, %f2, %f3;",
            B16,
            "F2FP.SATFINITE.RELU.E4M3.F32.PACK_AB_MERGE_C",
        ),
        ("set.ltu.ftz.or.f16x2.f16x2 %r1, %r2, %r2, %p1;", B32, "HSET2.BF.LTU.FTZ.OR"),
    ] {
        let listing = listing("sm_90", instruction, store);
        assert_eq!(count(&listing, operation), 1, "{instruction}\n{}", listing.join("\n"));
    }
}

/// Machines that lack an operation get another that does the same.
#[test]
fn each_machine_has_its_way() {
    let half = |target| listing(target, "cvt.rn.f16.f32 %h1, %f2;", B16);
    assert_eq!(count(&half("sm_75"), "F2F.F16.F32"), 1);
    assert_eq!(count(&half("sm_80"), "F2FP.PACK_AB"), 1);
    assert_eq!(count(&half("sm_90"), "F2FP.F16.F32.PACK_AB"), 1);
    let least = |target| listing(target, "min.f32 %f1, %f2, %f3, %f2;", F32);
    assert_eq!(count(&least("sm_100"), "FMNMX3"), 1);
    assert_eq!(count(&least("sm_120"), "FMNMX"), 2);
}

/// The short way stays short: what is rare is behind a branch. Rounding in a direction has no short way.
#[test]
fn division_checks_and_branches() {
    let nearest = listing("sm_90", "div.rn.f32 %f1, %f2, %f3;", F32);
    assert_eq!(count(&nearest, "FCHK"), 1, "{}", nearest.join("\n"));
    let check = nearest.iter().position(|line| line.contains("FCHK"));
    let double = nearest.iter().position(|line| line.contains("DFMA"));
    assert!(check < double && double.is_some(), "{}", nearest.join("\n"));
    let down = listing("sm_90", "div.rm.f32 %f1, %f2, %f3;", F32);
    assert_eq!(count(&down, "FCHK"), 0);
    assert_eq!(count(&down, "F2F.F32.F64.RM"), 1, "{}", down.join("\n"));
}

/// Under a guard, a result that was itself made conditionally keeps both conditions.
#[test]
fn a_guard_does_not_replace_another() {
    let guarded = "setp.lt.f32 %p1, %f2, %f3; mov.f32 %f1, 0f00000000; @%p1 sqrt.approx.f32 %f1, %f2;";
    let listing = listing("sm_90", guarded, F32);
    let conditional = |line: &&String| line.contains("FMUL") && line.trim_start().starts_with('@');
    assert_eq!(listing.iter().filter(conditional).count(), 2, "{}", listing.join("\n"));
}
