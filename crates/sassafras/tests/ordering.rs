//! Accesses to memory stay on their side of what orders them, in the code that comes out.
//!
//! Each instruction that orders memory stands between a load or store and another one, of shared and of global memory,
//! with the same base, so that nothing but the instruction keeps them in order; and between two loads of the same
//! address, which must stay two. (What the instructions order, and become, is in `docs/memory-ordering.md`.)

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use cubin::{Body, Object};

/// Instructions that order shared and global memory, for whomever, and the targets from which on they are there.
const BOTH: &[(&str, u32)] = &[
    ("bar.warp.sync 0xffffffff;", 75),
    ("bar.warp.sync 0xff;", 75),
    ("bar.warp.sync %m;", 75),
    ("bar.sync 0;", 75),
    ("barrier.sync 1, 64;", 75),
    ("bar.arrive 1, 64;", 75),
    ("bar.red.popc.u32 %y, 0, %p;", 75),
    ("membar.cta;", 75),
    ("membar.gl;", 75),
    ("membar.sys;", 75),
    ("fence.acq_rel.cta;", 75),
    ("fence.acq_rel.gpu;", 75),
    ("fence.sc.sys;", 75),
    ("fence.acquire.cta;", 90),
    ("fence.acquire.gpu;", 90),
    ("fence.release.cta;", 90),
    ("fence.release.gpu;", 90),
    ("fence.proxy.async;", 90),
    ("fence.proxy.alias;", 75),
    ("fence.acquire.sync_restrict::shared::cluster.cluster;", 90),
    ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;", 90),
    ("mbarrier.arrive.shared.b64 %d, [s];", 80),
    ("mbarrier.test_wait.shared.b64 %p, [s], %d;", 80),
    ("mbarrier.try_wait.parity.shared.b64 %p, [s], %y;", 90),
    ("barrier.cluster.arrive;", 90),
    ("barrier.cluster.wait;", 90),
    ("griddepcontrol.wait;", 90),
    ("griddepcontrol.launch_dependents;", 90),
    ("nanosleep.u32 20;", 75),
    ("atom.acquire.gpu.global.add.u32 %y, [%g+512], 1;", 75),
    ("atom.acq_rel.cta.shared.add.u32 %y, [s], 1;", 75),
    ("atom.release.gpu.global.add.u32 %y, [%g+512], 1;", 75),
    ("ld.acquire.cta.shared.u32 %y, [s];", 75),
    ("ld.acquire.gpu.global.u32 %y, [%g+512];", 75),
];

/// Those that order shared memory alone.
const SHARED: &[(&str, u32)] = &[
    ("fence.mbarrier_init.release.cluster;", 90),
    ("fence.proxy.async.shared::cta;", 90),
    ("cp.async.wait_group 0;", 80),
    ("cp.async.wait_all;", 80),
    ("st.volatile.shared.u32 [s], %y;", 75),
    ("ld.volatile.shared.u32 %y, [s];", 75),
];

const TARGETS: [(&str, u32); 4] = [("sm_75", 75), ("sm_80", 80), ("sm_90a", 90), ("sm_100a", 100)];
const FIRST: &str = "+0x10]";
const SECOND: &str = "+0x20]";

/// The accesses of a kernel at the two offsets, in order.
fn accesses(target: &str, level: u8, body: &str) -> Vec<String> {
    let source = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.shared .align 16 .b8 s[64];\n\
         .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 at) {{\n\
         .reg .b32 %a, %m, %v, %x, %y, %z, %me; .reg .b64 %g, %o, %d, %w; .reg .pred %p;\n\
         ld.param.u64 %g, [in]; ld.param.u64 %o, [out]; ld.param.u32 %a, [at]; mov.u32 %me, %tid.x;\n\
         mad.lo.u32 %a, %me, 4, %a; mul.wide.u32 %w, %me, 4; add.u64 %g, %g, %w; add.u64 %o, %o, %w;\n\
         mov.u64 %d, 0; mov.u32 %y, 0; mov.u32 %x, 0; mov.u32 %z, 0; setp.lt.u32 %p, %me, 5; mov.u32 %m, %me;\n\
         ld.global.nc.u32 %v, [%g+1024];\n{body}\n\
         add.u32 %x, %x, %y; mad.lo.u32 %x, %x, 3, %z; st.global.u32 [%o+768], %x; ret; }}\n"
    );
    let cubin = support::compile(&source, target, |options| options.level = level);
    let object = Object::read(&cubin).expect("our own cubin");
    let sm = ptx::Target::find(target).expect("a target").sm();
    let isa = sass::Isa::of_sm(u32::from(sm)).expect("a machine");
    let Some((_, section)) = object.section(".text.k") else { panic!("no code for {body}") };
    let Body::Bytes(bytes) = &section.body else { panic!("no bytes for {body}") };
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    let lines = bytes.chunks(16).map(|w| sass::decode(isa, word(w)).to_string());
    lines.filter(|line| line.contains(FIRST) || line.contains(SECOND)).collect()
}

/// A load or a store at an offset.
fn access(kind: &str, space: &str, offset: u32, value: &str) -> String {
    let base = if space.ends_with("shared") { "%a" } else { "%g" };
    match kind {
        "ld" => format!("ld.{space}.u32 {value}, [{base}+{offset}];"),
        _ => format!("st.{space}.u32 [{base}+{offset}], %v;"),
    }
}

fn stays_in_order((target, level): (&str, u8), space: &str, instruction: &str) {
    for before in ["ld", "st"] {
        for after in ["ld", "st"] {
            let (first, second) = (access(before, space, 16, "%x"), access(after, space, 32, "%z"));
            let found = accesses(target, level, &format!("{first}\n{instruction}\n{second}"));
            let at = format!("{target} -O{level}: {first} {instruction} {second}\n{found:#?}");
            assert_eq!(found.len(), 2, "{at}");
            assert!(found[0].contains(FIRST) && found[1].contains(SECOND), "{at}");
        }
    }
    let [one, two] = ["%x", "%z"].map(|value| access("ld", space, 16, value));
    let found = accesses(target, level, &format!("{one}\n{instruction}\n{two}"));
    assert_eq!(found.len(), 2, "{target} -O{level}: {one} {instruction} {two}\n{found:#?}");
}

fn check(instructions: &[(&str, u32)], spaces: &[&str]) {
    for (target, sm) in TARGETS {
        for (instruction, _) in instructions.iter().filter(|(_, since)| *since <= sm) {
            for space in spaces {
                [1, 3].into_iter().for_each(|level| stays_in_order((target, level), space, instruction));
            }
        }
    }
}

#[test]
fn no_access_passes_what_orders_all_memory() {
    check(BOTH, &["shared", "global"]);
}

#[test]
fn no_access_of_shared_memory_passes_what_orders_that() {
    check(SHARED, &["shared"]);
}

/// Without an order, and over what orders nothing, the load goes first, and two loads become one: the tests above
/// would see it.
#[test]
fn what_orders_nothing_is_passed() {
    let shuffle = "shfl.sync.bfly.b32 %y, %me, 1, 31, 0xffffffff;";
    for nothing in ["", shuffle, "vote.sync.ballot.b32 %y, %p, 0xffffffff;", "activemask.b32 %y;"] {
        for space in ["shared", "global"] {
            let (store, load) = (access("st", space, 16, ""), access("ld", space, 32, "%z"));
            let found = accesses("sm_90a", 3, &format!("{store}\n{nothing}\n{load}"));
            assert!(found.len() == 2 && found[0].contains(SECOND), "{nothing}: {found:#?}");
            let twice = access("ld", space, 16, "%x") + nothing + &access("ld", space, 16, "%z");
            assert_eq!(accesses("sm_90a", 3, &twice).len(), 1, "{nothing}");
        }
    }
}

/// Volatile accesses keep their order with each other, whatever their addresses, and none is left out.
#[test]
fn volatile_accesses_stay_as_they_are() {
    for (target, _) in TARGETS {
        for (space, level) in [("shared", 1), ("shared", 3), ("global", 1), ("global", 3)] {
            stays_in_order((target, level), &format!("volatile.{space}"), "");
        }
    }
}
