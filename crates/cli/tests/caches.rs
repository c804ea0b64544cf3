//! `-dlcm`, `-flcm`, `-dscm`, `-fscm`: which instructions the cache options change, and to what. The rows are what ptxas
//! makes of the same kernel for sm_90.

use std::process::Command;

const KERNEL: &str = ".version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %p; .reg .b32 %r<4>;
    ld.param.u64 %p, [p];
    ld.global.b32 %r0, [%p];
    ld.global.cg.b32 %r1, [%p+4];
    ld.global.nc.b32 %r2, [%p+8];
    ld.relaxed.gpu.global.b32 %r3, [%p+12];
    st.global.b32 [%p+16], %r0;
    st.global.cs.b32 [%p+24], %r1;
    st.volatile.global.b32 [%p+32], %r2;
    st.b32 [%p+40], %r3;
    ret;
}";

const LOADS: &str = "LDG.E LDG.E.STRONG.GPU LDG.E.CONSTANT LDG.E.STRONG.GPU";
const STORES: &str = "STG.E STG.E.EF STG.E.STRONG.SYS ST.E";

/// The loads and stores of the kernel, in its order.
fn accesses(option: &str) -> String {
    let cubin = std::env::temp_dir().join(format!("sassafras-caches-{}.cubin", std::process::id()));
    let path = cubin.to_str().expect("a path");
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_sassafras")).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let compile = ["-arch=sm_90", "-O0", "-ias", KERNEL, "-o", path, option];
    run(if option.is_empty() { &compile[..6] } else { &compile });
    let listing = run(&["disasm", path]);
    let _ = std::fs::remove_file(cubin);
    let is_access = |word: &&str| ["LDG.", "STG.", "ST."].iter().any(|start| word.starts_with(start));
    listing.split_whitespace().filter(is_access).collect::<Vec<_>>().join(" ")
}

#[test]
fn options_name_the_cache_operator() {
    let loads = |loads: &str| format!("{loads} {STORES}");
    let stores = |stores: &str| format!("{LOADS} {stores}");
    for (option, wanted) in [
        ("", loads(LOADS)),
        ("-dlcm=ca", loads("LDG.E.STRONG.SM LDG.E.STRONG.GPU LDG.E.CONSTANT LDG.E.STRONG.GPU")),
        ("-dlcm=cs", loads("LDG.E.EF LDG.E.STRONG.GPU LDG.E.EF.CONSTANT LDG.E.STRONG.GPU")),
        ("-dlcm=lu", loads("LDG.E.LU LDG.E.STRONG.GPU LDG.E.CONSTANT LDG.E.STRONG.GPU")),
        ("-flcm=cv", loads("LDG.E.STRONG.SYS LDG.E.STRONG.SYS LDG.E.CONSTANT LDG.E.STRONG.GPU")),
        ("-flcm=cs", loads("LDG.E.EF LDG.E.EF LDG.E.EF.CONSTANT LDG.E.STRONG.GPU")),
        ("-dscm=wt", stores("STG.E.STRONG.SYS STG.E.EF STG.E.STRONG.SYS ST.E.STRONG.SYS")),
        ("-fscm=cg", stores("STG.E.STRONG.GPU STG.E.STRONG.GPU STG.E.STRONG.SYS ST.E.STRONG.GPU")),
    ] {
        assert_eq!(accesses(option), wanted, "{option}");
    }
}
