//! `WARPSYNC.COLLECTIVE` gathers threads, one of which runs the code up to `ENDCOLLECTIVE` for all: nothing else stands
//! behind that. The programs were generated; an H200 gave wrong results where something did.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use cubin::{Body, Object};
use sass::{Inst, Isa, Op};
use support::compile;

const PROGRAMS: [&str; 3] = [
    include_str!("collectives/reduction.ptx"),
    include_str!("collectives/trips.ptx"),
    include_str!("collectives/warp_barrier.ptx"),
];

fn instructions(cubin: &[u8]) -> Vec<Inst> {
    let object = Object::read(cubin).expect("our own cubin");
    let code = object.sections.iter().filter(|s| s.name.starts_with(".text."));
    let bytes = code.filter_map(|s| if let Body::Bytes(bytes) = &s.body { Some(bytes) } else { None });
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    bytes.flat_map(|b| b.chunks(16).map(|w| sass::decode(Isa::Sm90, word(w)))).collect()
}

#[test]
fn nothing_stands_behind_a_collective() {
    let mut seen = 0;
    for (ptx, level) in PROGRAMS.iter().flat_map(|p| [0, 1, 3].map(|level| (p, level))) {
        let insts = instructions(&compile(ptx, "sm_90", |options| options.level = level));
        for pair in insts.windows(2).filter(|pair| pair[0].op() == Op::ENDCOLLECTIVE) {
            assert_eq!(pair[1].op(), Op::BSYNC, "-O{level}");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} collectives");
}

/// The result of a barrier is read by the gathered warp: a generated program read it behind, and an H200 gave some threads
/// another one.
#[test]
fn results_of_barriers_are_read_in_the_collective() {
    let ptx = ".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p) { .reg .pred %p<3>; .reg .b32 %r<3>; \
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 64; @%p1 barrier.cta.red.popc.u32 %r2, 1, 64, %p1; \
        .reg .b64 %rd1; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r2; ret; }";
    for level in [0, 1, 3] {
        let insts = instructions(&compile(ptx, "sm_90", |options| options.level = level));
        let at = |op| insts.iter().position(|i| i.op() == op);
        let (barrier, result, end) = (at(Op::BAR), at(Op::B2R), at(Op::ENDCOLLECTIVE));
        assert!(
            barrier.is_some() && barrier < result && result < end,
            "-O{level}: {barrier:?} {result:?} {end:?}"
        );
    }
}

/// Where the warp is together nobody is gathered: a barrier stands alone, and a mask parts the threads for a while.
#[test]
fn a_whole_warp_is_not_gathered() {
    let ptx = |parts: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p) {{ .reg .pred %p<3>; .reg .b32 %r<5>; \
             .reg .b64 %rd1; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; ld.global.u32 %r2, [%rd1+8]; \
             {parts} barrier.sync 1, %r2; vote.sync.any.pred %p1, %p1, %r2; selp.u32 %r3, 1, 0, %p1; \
             st.global.u32 [%rd1], %r3; DONE: st.global.u32 [%rd1+16], %r1; ret; }}"
        )
    };
    let count = |parts: &str, level, wanted: &dyn Fn(&Inst) -> bool| {
        let insts = instructions(&compile(&ptx(parts), "sm_90", |options| options.level = level));
        insts.iter().filter(|inst| wanted(inst)).count()
    };
    let whole = "setp.eq.u32 %p1, %r2, 3;";
    let parted = "setp.eq.u32 %p1, %r1, 3; @%p1 bra DONE;";
    for level in [0, 1, 3] {
        assert_eq!(count(whole, level, &|i| i.has(sass::M::COLLECTIVE) || i.op() == Op::ENDCOLLECTIVE), 0);
        assert_eq!(count(whole, level, &|i| i.has(sass::M::EXCLUSIVE)), 1, "-O{level}");
        assert_eq!(count(parted, level, &|i| i.has(sass::M::COLLECTIVE)), 2, "-O{level}");
    }
}

/// Threads that come to a barrier one after the other meet before they are gathered there.
#[test]
fn a_barrier_is_come_to_together() {
    let insts = instructions(&compile(PROGRAMS[1], "sm_90", |_| {}));
    let gathered = insts.iter().position(|i| i.op() == Op::WARPSYNC && i.has(sass::M::COLLECTIVE));
    let before = &insts[..gathered.expect("threads are gathered")];
    let meets = |i: &&Inst| i.op() == Op::WARPSYNC && i.has(sass::M::ALL) && !i.has(sass::M::COLLECTIVE);
    assert!(
        before.iter().rev().take(4).any(|i| meets(&i)),
        "{:?}",
        before.iter().rev().take(4).collect::<Vec<_>>()
    );
}
