//! `-sanitize=threadsteer`: before which instructions a thread sleeps. The numbers are those that ptxas 13.0 has for
//! the same instruction.

use std::process::Command;

const SLEEPS: &[(&str, usize)] = &[
    ("st.global.b32 [%p], %r;", 1),
    ("st.b32 [%p], %r;", 1),
    ("st.release.gpu.b32 [%p], %r;", 1),
    ("st.shared.v2.b32 [%s], {%r, %r};", 1),
    ("@%q st.shared.b32 [%s], %r;", 1),
    ("st.local.b32 [%s], %r;", 0),
    ("atom.global.add.u32 %r, [%p], 1;", 1),
    ("atom.shared.cas.b32 %r, [%s], %r, 1;", 1),
    ("red.global.add.u32 [%p], 1;", 1),
    ("cp.async.ca.shared.global [%s], [%p], 16;", 2),
    ("cp.async.wait_all;", 0),
    ("multimem.st.global.u32 [%p], %r;", 1),
    ("multimem.red.global.add.u32 [%p], %r;", 1),
    ("multimem.ld_reduce.global.add.u32 %r, [%p];", 0),
    ("wmma.store.d.sync.aligned.m16n16k16.row.global.f16 [%p], {%r, %r, %r, %r};", 4),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%s], {%r};", 0),
    ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%s], %r, [%s+8];", 0),
    ("cp.async.bulk.global.shared::cta.bulk_group [%p], [%s], 16;", 0),
    ("tensormap.replace.tile.global_address.global.b1024.b64 [%p], %p;", 1),
    ("mbarrier.arrive.shared.b64 _, [%s];", 0),
    ("ld.global.b32 %r, [%p];", 0),
];

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sassafras")).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn listing(instruction: &str, options: &[&str]) -> String {
    let cubin = std::env::temp_dir().join(format!("sassafras-sanitize-{}.cubin", std::process::id()));
    let path = cubin.to_str().expect("a path");
    let kernel = format!(
        ".version 8.8 .target sm_90a .address_size 64
.visible .entry k(.param .u64 p) {{
    .reg .b64 %p; .reg .b32 %r; .reg .b32 %s; .reg .pred %q;
    .shared .align 128 .b8 s[1024];
    ld.param.u64 %p, [p]; mov.b32 %r, 3; mov.b32 %s, s; setp.eq.u64 %q, %p, 0;
    {instruction}
    ret;
}}"
    );
    run(&[&["-arch=sm_90a", "-ias", &kernel, "-o", path], options].concat());
    let listing = run(&["disasm", path]);
    let _ = std::fs::remove_file(cubin);
    listing
}

#[test]
fn threads_sleep_before_what_others_see() {
    for level in ["-O0", "-O3"] {
        for (instruction, sleeps) in SLEEPS {
            let steered = listing(instruction, &[level, "-sanitize=threadsteer"]);
            assert_eq!(
                steered.matches("NANOSLEEP.RAND 0x3e8").count(),
                *sleeps,
                "{level} {instruction}\n{steered}"
            );
            assert!(!listing(instruction, &[level]).contains("NANOSLEEP"), "{level} {instruction}");
        }
    }
}
