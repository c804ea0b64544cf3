//! Whole kernels: the examples with their run lines, and small ones with known answers.

use super::*;

mod hopper;
mod races;

use crate::memory::texture::{Description, Image};
use crate::tensor_map::{Tensor, TensorMap};
use gpu::runline;

/// The map or the handle of a run line.
fn make(machine: &mut Machine, object: runline::Object, address: u64) -> Result<Vec<u8>, String> {
    match object {
        runline::Object::Map(tensor) => {
            let runline::Tensor { element, sizes, strides, boxes, steps, .. } = tensor;
            let runline::Tensor { swizzle, interleave, fills_nan, .. } = *tensor;
            let tensor = Tensor { element, sizes, strides, boxes, steps, swizzle, interleave, fills_nan };
            Ok(TensorMap::new(address, &tensor)?.write().to_vec())
        }
        runline::Object::Multicast => Ok(machine.add_multicast(address).to_le_bytes().to_vec()),
        runline::Object::Image(image) => {
            let description = Description {
                channel: image.channel,
                channels: image.channels,
                sizes: &image.sizes,
                layered: image.layered,
                cube: image.cube,
                levels: image.levels,
                beyond: image.beyond,
                normalised: image.normalised,
                linear: image.linear,
                linear_levels: image.linear_levels,
                as_integers: image.integers,
            };
            Ok(machine.add_image(Image::new(address, &description)?).to_le_bytes().to_vec())
        }
    }
}

/// Runs the run lines of a PTX text; how many there were.
fn run_lines(name: &str, source: &str) -> usize {
    run_lines_with(name, source, false)
}

fn run_lines_with(name: &str, source: &str, check_races: bool) -> usize {
    let parsed = ::ptx::parse(source, &::ptx::Options::default());
    assert!(!parsed.failed(), "{name}: {:?}", parsed.diagnostics);
    let module = parsed.module.unwrap_or_else(|| panic!("{name} has no module"));
    let program = Program::new(&module, source);
    let runs = runline::parse(source).unwrap_or_else(|error| panic!("{name}: {error}"));
    for run in &runs {
        let mut machine = Machine::new(&program);
        let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
        let parameters = run.parameters(&addresses, |object, address| make(&mut machine, object, address));
        let parameters = parameters.unwrap_or_else(|what| panic!("{name}: {what}"));
        let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
        let launch = Launch { shared: run.shared, check_races, ..launch };
        machine.run(&launch).unwrap_or_else(|fault| panic!("{name}:{} {}: {fault}", run.line, run.kernel));
        let results: Vec<Vec<u8>> = addresses
            .iter()
            .zip(run.buffers())
            .map(|(address, data)| machine.read(*address, data.len()).unwrap_or_default().to_vec())
            .collect();
        run.check(&results).unwrap_or_else(|mismatch| panic!("{name}:{}: {mismatch}", run.line));
    }
    runs.len()
}

#[test]
fn examples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut runs = 0;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "ptx")) {
        runs += run_lines(&file.display().to_string(), &std::fs::read_to_string(file).unwrap());
    }
    assert!(runs >= 20, "{runs} run lines");
}

#[test]
fn kernels() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    for name in ["asynchronous", "calls", "divergence", "images", "matrix", "memory", "warp"] {
        let file = folder.join(name).with_extension("ptx");
        let runs = run_lines(name, &std::fs::read_to_string(file).unwrap());
        assert!(runs >= 4, "{name} has {runs} run lines");
    }
}

/// Runs the one kernel `k(.param .u64 p)` with a buffer of 64 bytes; the body's first line is line 5.
fn run_body(body: &str, block: u32, change: impl Fn(&mut Launch)) -> Result<Statistics, Fault> {
    let source =
        format!(".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) {{\n{body}\n}}\n");
    let parsed = ::ptx::parse(&source, &::ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let program = Program::new(&parsed.module.unwrap(), &source);
    let mut machine = Machine::new(&program);
    let parameters = machine.allocate(vec![0; 64]).to_le_bytes();
    let mut launch = Launch::new("k", [1; 3], [block, 1, 1], &parameters);
    change(&mut launch);
    machine.run(&launch)
}

fn fault(body: &str, block: u32) -> Fault {
    run_body(body, block, |_| {}).expect_err("the kernel ends without a fault")
}

#[test]
fn bad_accesses() {
    let address = ".reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 4 .b8 s[64]; .local .align 4 .b8 l[8];\n\
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [p]; add.u64 %rd3, %rd1, %rd2;\n";
    let after = |access: &str| fault(&format!("{address}{access}\nret;"), 32);
    let outside = after("ld.global.u32 %r2, [%rd3];");
    assert_eq!(outside.line, 7);
    assert!(matches!(outside.kind, FaultKind::OutOfBounds { space: "global", bytes: 4, .. }), "{outside}");
    assert_eq!(outside.thread.map(|t| t.thread), Some([16, 0, 0]));
    let misaligned = after("st.global.u64 [%rd3], %rd1;");
    assert!(matches!(misaligned.kind, FaultKind::Misaligned { bytes: 8, .. }), "{misaligned}");
    assert_eq!(misaligned.thread.map(|t| t.thread), Some([1, 0, 0]));
    let null = after("mov.u64 %rd1, 0; ld.u32 %r2, [%rd1];");
    assert!(matches!(null.kind, FaultKind::OutOfBounds { address: 0, .. }), "{null}");
    let shared = after("ld.shared.u32 %r2, [s+64];");
    assert!(matches!(shared.kind, FaultKind::OutOfBounds { space: "shared", .. }), "{shared}");
    let local = after("ld.local.u32 %r2, [l+8];");
    assert!(matches!(local.kind, FaultKind::OutOfBounds { space: "local", .. }), "{local}");
    let atomic = after("atom.global.add.u32 %r2, [%rd1+64], 1;");
    assert!(matches!(atomic.kind, FaultKind::OutOfBounds { .. }), "{atomic}");
}

#[test]
fn unwritten_registers() {
    let half = ".reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;\n\
        @%p1 mov.u32 %r2, 1;\nadd.u32 %r3, %r1, %r2;\nret;";
    let unwritten = fault(half, 32);
    assert_eq!(unwritten.kind, FaultKind::Uninitialised { register: "%r2".into() });
    assert_eq!((unwritten.line, unwritten.thread.map(|t| t.thread)), (7, Some([8, 0, 0])));
    assert!(run_body(half, 32, |launch| launch.check_registers = false).is_ok());
    let guard = fault(".reg .pred %p<2>;\n@%p1 ret;\nret;", 1);
    assert_eq!(guard.kind, FaultKind::Uninitialised { register: "%p1".into() });
}

#[test]
fn waiting_for_ever() {
    let barrier = fault(
        ".reg .pred %p<2>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40;\n\
         @%p1 bra A;\nbar.sync 1;\nbra B;\nA: bar.sync 0;\nB: ret;",
        64,
    );
    assert!(matches!(&barrier.kind, FaultKind::Deadlock { what } if what.contains("barrier")), "{barrier}");
    let lanes = fault(
        ".reg .pred %p<2>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;\n\
         @%p1 bra A;\nvote.sync.any.pred %p1, %p1, -1;\nbra B;\nA: vote.sync.any.pred %p1, %p1, -1;\nB: ret;",
        32,
    );
    assert!(matches!(&lanes.kind, FaultKind::Deadlock { what } if what.contains("lanes")), "{lanes}");
    let too_few = fault("bar.sync 0, 64;\nret;", 32);
    assert!(matches!(&too_few.kind, FaultKind::Deadlock { what } if what.contains("32 of 64")), "{too_few}");
    let cluster = fault(
        ".reg .pred %p<2>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;\n\
         @%p1 barrier.cluster.arrive;\n@%p1 barrier.cluster.wait;\n@!%p1 bar.sync 0;\nret;",
        32,
    );
    assert_eq!(cluster.line, 7);
    assert!(matches!(&cluster.kind, FaultKind::Deadlock { what } if what.contains("8 of 32")), "{cluster}");
    let in_memory = fault(
        ".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>; .shared .align 8 .b64 bar;\nmov.u32 %r1, bar;\n\
         mbarrier.init.shared.b64 [%r1], 3;\nmbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 48;\n\
         L: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@!%p1 bra L;\nret;",
        1,
    );
    assert_eq!(in_memory.line, 9);
    let missing = "2 arrivals and 48 bytes are missing";
    assert!(matches!(&in_memory.kind, FaultKind::Deadlock { what } if what.contains(missing)), "{in_memory}");
    let endless = run_body("L: bra L;", 1, |launch| launch.step_limit = 10_000).expect_err("an end");
    assert!(matches!(endless.kind, FaultKind::StepLimit { .. }), "{endless}");
}

#[test]
fn undefined_things() {
    let foreign = fault(".reg .b32 %r<3>; .reg .pred %p<2>;\nactivemask.b32 %r1; bar.warp.sync 1;\nret;", 32);
    assert!(
        matches!(&foreign.kind, FaultKind::Undefined { what } if what.contains("member mask")),
        "{foreign}"
    );
    assert_eq!(fault("trap;", 1).kind, FaultKind::Trap);
    let deep = ".version 8.0\n.target sm_90\n.address_size 64\n.func f();\n.func f() {\ncall f;\nret; }\n\
        .entry k() {\ncall f;\nret; }\n";
    let module = ::ptx::parse(deep, &::ptx::Options::default()).module.unwrap();
    let program = Program::new(&module, deep);
    let deep = Machine::new(&program).run(&Launch::new("k", [1; 3], [1; 3], &[])).expect_err("no end");
    assert_eq!((deep.line, deep.kind), (6, FaultKind::StackOverflow));
    let call = fault(".reg .b64 %rd<2>; mov.u64 %rd1, 16;\nP: .callprototype _ ();\ncall %rd1, P;\nret;", 1);
    assert!(matches!(call.kind, FaultKind::BadCall { .. }), "{call}");
    let launch = run_body("ret;", 1, |launch| launch.kernel = "other").expect_err("no such kernel");
    assert!(matches!(launch.kind, FaultKind::Launch { .. }), "{launch}");
    let parameters = run_body("ret;", 1, |launch| launch.parameters = &[1, 2]).expect_err("parameters");
    assert!(matches!(parameters.kind, FaultKind::Launch { .. }), "{parameters}");
}

/// One kernel per instruction: all execute, and only what must fault does.
#[test]
fn one_kernel_per_instruction() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../ptx/tests/corpus/ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(file).unwrap();
    let module = ::ptx::parse(&source, &::ptx::Options::default()).module.unwrap();
    let program = Program::new(&module, &source);
    let mut executed = 0;
    for kernel in program.kernels() {
        let mut machine = Machine::new(&program);
        // All ones are good member masks; the fourth word is an offset into shared memory.
        let thread = [[0xff; 12].as_slice(), &[0; 4], &[0x3f; 112], &[0; 128]].concat();
        let mut parameters = machine.allocate(thread.repeat(32)).to_le_bytes().to_vec();
        parameters.extend([32, 0, 0, 0]);
        match machine.run(&Launch::new(kernel, [1; 3], [32, 1, 1], &parameters)).map_err(|fault| fault.kind) {
            Ok(_) => executed += 1,
            // trap, brkpt; 32 threads at a barrier for 64; barrier number -1.
            Err(FaultKind::Trap) if matches!(kernel, "k394" | "k395") => {}
            Err(FaultKind::Deadlock { .. }) if kernel == "k385" => {}
            Err(FaultKind::Undefined { .. }) if kernel == "k387" => {}
            // multimem of plain memory.
            Err(FaultKind::OutOfBounds { space: "multimem", .. }) if kernel == "k474" => {}
            // Bulk copies of more bytes than there are: the size is a member mask of all lanes.
            Err(FaultKind::OutOfBounds { .. }) if matches!(kernel, "k467" | "k468") => {}
            // Local accesses at an address of shared memory.
            Err(FaultKind::OutOfBounds { space: "local", .. })
                if matches!(kernel, "k257" | "k261" | "k265" | "k269" | "k273" | "k279") => {}
            // A tensor map where there is none.
            Err(FaultKind::Misaligned { .. }) if matches!(kernel, "k471" | "k472") => {}
            Err(kind) => panic!("{kernel}: {kind}"),
        }
    }
    assert_eq!(executed, 473);
}
