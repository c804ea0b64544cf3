//! Races on shared memory: found where there is no order, and nowhere else.

use super::*;

const START: &str = ".reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n\
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; mov.u32 %r9, bar; ld.param.u64 %rd1, [p];\n";

/// The race of a kernel: the lines of both accesses. The body's first line is line 7.
fn race(body: &str, block: u32) -> Option<(u32, u32)> {
    let checked = |launch: &mut Launch| launch.check_races = true;
    match run_body(&format!("{START}{body}\nret;"), block, checked) {
        Ok(_) => None,
        Err(Fault { line, kind: FaultKind::Race { line: other, .. }, .. }) => Some((line, other)),
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn barriers_of_a_block() {
    let exchange = |barrier: &str| {
        format!("st.shared.u32 [%r4], %r1;\n{barrier}\nxor.b32 %r5, %r4, 128;\nld.shared.u32 %r6, [%r5];")
    };
    assert_eq!(race(&exchange("bar.sync 0;"), 64), None);
    let (line, other) = race(&exchange(""), 64).expect("a race");
    assert_eq!((line.max(other), line.min(other)), (10, 7));
    // A barrier of each warp for itself is not enough.
    assert!(race(&exchange("bar.warp.sync -1;"), 64).is_some());
    assert!(race(&exchange("bar.sync 0; bar.sync 0;"), 64).is_none());
    // What an arriving thread did is known to those that wait, not the other way round.
    let handed = "setp.eq.u32 %p2, %r1, 0; setp.lt.u32 %p1, %r1, 32;\n@%p2 st.shared.u32 [s], %r1;\n@%p1 bar.arrive 1, 64;\n\
        @!%p1 bar.sync 1, 64;\n@!%p1 ld.shared.u32 %r5, [s];";
    assert_eq!(race(handed, 64), None);
    assert_eq!(race(&format!("{handed}\n@%p2 st.shared.u32 [s], 6;"), 64), Some((11, 12)));
}

#[test]
fn lanes_of_a_warp() {
    let shifted = |between: &str| {
        format!("st.shared.u32 [%r4], %r1;\n{between}\nxor.b32 %r5, %r4, 4;\nld.shared.u32 %r6, [%r5];")
    };
    assert_eq!(race(&shifted("bar.warp.sync -1;"), 32), None);
    assert_eq!(race(&shifted(""), 32), Some((10, 7)));
    // Bytes of one word are different places.
    assert_eq!(
        race(
            "add.u32 %r5, %r3, %r1; cvt.u16.u32 %r1, %r1;"
                .replace("cvt.u16.u32 %r1, %r1;", "st.shared.u8 [%r5], %r1;")
                .as_str(),
            64
        ),
        None
    );
    assert_eq!(race("st.shared.u32 [s], 7;", 32), None);
    assert!(race("st.shared.u32 [s], %r1;", 32).is_some());
}

#[test]
fn strong_accesses() {
    assert_eq!(race("atom.shared.add.u32 %r5, [s], 1;\natom.shared.max.u32 %r5, [s], %r1;", 64), None);
    assert!(race("atom.shared.add.u32 %r5, [s], 1;\nld.shared.u32 %r5, [s];", 64).is_some());
    // A flag that is released and acquired.
    let flag = |store: &str, load: &str| {
        format!(
            "setp.lt.u32 %p1, %r1, 32;\n@!%p1 bra WAIT;\nst.shared.u32 [%r4], %r1;\nbar.warp.sync -1;\n{store} [s+512], 1;\n\
             bra END;\nWAIT: {load} %r5, [s+512];\nsetp.eq.u32 %p2, %r5, 0;\n@%p2 bra WAIT;\n\
             ld.shared.u32 %r6, [%r4+-128];\nEND:"
        )
    };
    assert_eq!(race(&flag("st.release.cta.shared.u32", "ld.acquire.cta.shared.u32"), 64), None);
    assert!(race(&flag("st.shared.u32", "ld.shared.u32"), 64).is_some());
}

#[test]
fn barriers_in_memory() {
    let handed = |wait: &str| {
        format!(
            "setp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r9], 32;\nbar.sync 0;\nsetp.lt.u32 %p1, %r1, 32;\n\
             @!%p1 bra WAIT;\nst.shared.u32 [%r4], %r1;\nmbarrier.arrive.shared.b64 %rd2, [%r9];\nbra END;\nWAIT: {wait}\n\
             ld.shared.u32 %r6, [%r4+-128];\nEND:"
        )
    };
    let wait = "mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0;\n@!%p2 bra WAIT;";
    assert_eq!(race(&handed(wait), 64), None);
    assert_eq!(race(&handed(""), 64), Some((16, 12)));
}

#[test]
fn asynchronous_copies() {
    let copied = |wait: &str| {
        format!(
            "cp.async.ca.shared.global [%r3], [%rd1], 4;\ncp.async.commit_group;\n{wait}\nld.shared.u32 %r5, [%r3];"
        )
    };
    assert_eq!(race(&copied("cp.async.wait_group 0;"), 1), None);
    assert_eq!(race(&copied("cp.async.wait_all;"), 1), None);
    assert_eq!(race(&copied(""), 1), Some((10, 7)));
    assert_eq!(race(&copied("cp.async.wait_group 1;"), 1), Some((10, 7)));
    let bulk = |wait: &str| {
        format!(
            "mbarrier.init.shared.b64 [%r9], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r9], 16;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r9];\n{wait}\n\
             ld.shared.u32 %r5, [%r3];"
        )
    };
    let wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0; @!%p2 bra WAIT;";
    assert_eq!(race(&bulk(wait), 1), None);
    assert_eq!(race(&bulk(""), 1), Some((11, 9)));
}

/// Examples with shared memory have none.
#[test]
fn examples_are_in_order() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut runs = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "ptx")) {
        let source = std::fs::read_to_string(file).unwrap();
        if source.contains(".shared") {
            runs += run_lines_with(&file.display().to_string(), &source, true);
        }
    }
    assert!(runs >= 3, "{runs} runs");
}
