//! What Hopper has: clusters, tensor copies, products of warpgroups; and products as an H200 computed them.

use super::*;
use std::fmt::Write;

#[test]
fn run_lines_of_hopper() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hopper");
    for (name, least) in [("clusters", 4), ("products", 4), ("tensors", 4)] {
        let file = folder.join(name).with_extension("ptx");
        let runs = run_lines(name, &std::fs::read_to_string(file).unwrap());
        assert!(runs >= least, "{name} has {runs} run lines");
    }
}

/// An H200 stops with error 700, in ptxas's code and in ours.
#[test]
fn a_map_in_shared_memory_is_none() {
    let body = ".reg .b32 %r<3>; .reg .b64 %rd<2>; .shared .align 128 .b8 s[512];
        mov.u32 %r1, s; add.u32 %r2, %r1, 256; mbarrier.init.shared.b64 [%r2], 1;
        cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1;
        cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {0}], [%r2];
        ret;";
    let what = fault(body, 1).kind;
    assert!(
        matches!(&what, FaultKind::Undefined { what } if what.contains("map is not in global")),
        "{what}"
    );
}

#[test]
fn what_is_written_begins_within_the_tensor() {
    assert_eq!(crate::tensor_map::writable(&[0, 7]), Ok(()));
    assert!(crate::tensor_map::writable(&[0, -1]).is_err());
}

fn corpus(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../ptx/tests/corpus/triton");
    std::fs::read_to_string(format!("{folder}/{name}.ptx")).unwrap()
}

fn parsed(source: &str) -> Program {
    let parsed = ::ptx::parse(source, &::ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let program = Program::new(&parsed.module.unwrap(), source);
    assert_eq!(program.unsupported().count(), 0);
    program
}

/// Whole numbers from -4 to 4, as halves, which all sums of products are exact with.
fn halves(count: usize, seed: u32) -> (Vec<i32>, Vec<u8>) {
    /// 0, 1, 2, 3, 4 in f16.
    const HALVES: [u16; 5] = [0, 0x3c00, 0x4000, 0x4200, 0x4400];
    let mut state = seed;
    let numbers: Vec<i32> = (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as i32 % 9 - 4
        })
        .collect();
    let half = |n: &i32| HALVES[n.unsigned_abs() as usize] | if *n < 0 { 0x8000 } else { 0 };
    let bytes = numbers.iter().flat_map(|n| half(n).to_le_bytes()).collect();
    (numbers, bytes)
}

/// `a`, m by k, times `b`, k by n.
fn product(a: &[i32], b: &[i32], [m, n, k]: [usize; 3]) -> Vec<i32> {
    let sum = |i: usize| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum();
    (0..m * n).map(sum).collect()
}

fn half_bits(number: f32) -> u16 {
    use ori::arith::{Flow, convert::float_to_float, float};
    float_to_float(float::F32, float::F16, Flow::NEAREST, number.to_bits().into()) as u16
}

fn halves_at(machine: &mut Machine, address: u64, count: usize) -> Vec<u16> {
    let bytes = machine.read(address, 2 * count).unwrap();
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// Triton's matmul tutorial, with its leaky relu: wgmma with operands that cp.async brings, in swizzled memory.
#[test]
fn triton_multiplies() {
    for (name, tile, shape) in [("matmul_k_1", 64, [128, 192, 96]), ("matmul_k_2", 128, [128, 256, 128])] {
        let [m, n, k] = shape;
        let source = corpus(name);
        let program = parsed(&source);
        let mut machine = Machine::new(&program);
        let ((a, a_bytes), (b, b_bytes)) = (halves(m * k, 1), halves(k * n, 2));
        let buffers = [a_bytes, b_bytes, vec![0; 2 * m * n]].map(|bytes| machine.allocate(bytes));
        let mut parameters: Vec<u8> = buffers.iter().flat_map(|address| address.to_le_bytes()).collect();
        let sizes = [m, n, k, k, n, n].map(|size| (size as u32).to_le_bytes());
        parameters.extend(sizes.concat());
        parameters.extend([0; 16]);
        let grid = [(m / tile * n / tile) as u32, 1, 1];
        let launch = Launch::new("matmul_k", grid, [128, 1, 1], &parameters);
        let launch = Launch { shared: 200 << 10, check_races: name == "matmul_k_1", ..launch };
        machine.run(&launch).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let relu = |sum: &i32| if *sum > 0 { *sum as f32 } else { *sum as f32 * 0.01 };
        let want: Vec<u16> = product(&a, &b, shape).iter().map(|sum| half_bits(relu(sum))).collect();
        assert!(halves_at(&mut machine, buffers[2], m * n) == want, "{name}");
    }
}

/// The same with tensor copies, of a matrix that is no multiple of the boxes; `b` has its columns as rows.
#[test]
fn triton_multiplies_tensors() {
    let shape @ [m, n, k] = [136, 200, 192];
    let source = corpus("matmul_tma_1");
    let program = parsed(&source);
    let mut machine = Machine::new(&program);
    let ((a, a_bytes), (rows_of_b, b_bytes)) = (halves(m * k, 3), halves(n * k, 4));
    let b: Vec<i32> = (0..k * n).map(|i| rows_of_b[i % n * k + i / n]).collect();
    let mut parameters = Vec::new();
    let mut result = 0;
    for (bytes, [rows, columns]) in [(a_bytes, [m, k]), (b_bytes, [n, k]), (vec![0; 2 * m * n], [m, n])] {
        result = machine.allocate(bytes);
        let (sizes, strides) = ([columns as u32, rows as u32], [2 * columns as u64]);
        let tensor = Tensor {
            element: "f16",
            sizes: &sizes,
            strides: &strides,
            boxes: &[64, 128],
            steps: &[1, 1],
            swizzle: 128,
            interleave: 0,
            fills_nan: false,
        };
        parameters.resize(usize::next_multiple_of(parameters.len(), 64), 0);
        parameters.extend(TensorMap::new(result, &tensor).unwrap().write());
        parameters.extend([rows as u32, columns as u32].map(u32::to_le_bytes).concat());
        parameters.extend([columns as u64, 1].map(u64::to_le_bytes).concat());
    }
    parameters.extend([m, n, k].map(|size| (size as u32).to_le_bytes()).concat());
    parameters.resize(usize::next_multiple_of(parameters.len(), 8), 0);
    parameters.extend([0; 16]);
    let launch = Launch::new("matmul_tma", [4, 1, 1], [256, 1, 1], &parameters);
    machine.run(&Launch { shared: 132_000, ..launch }).unwrap_or_else(|fault| panic!("{fault}"));
    let want: Vec<u16> = product(&a, &b, shape).iter().map(|sum| half_bits(*sum as f32)).collect();
    assert!(halves_at(&mut machine, result, m * n) == want);
}

/// An instruction, the registers (or words of shared memory) of its operands, and the selector of a sparse one.
type Recorded = (&'static str, [usize; 3], Option<u32>);

/// What products.h200.bin has: operands of a warp or a warpgroup and what an H200 made of them, of each of these.
#[rustfmt::skip]
const RECORDED: [Recorded; 40] = [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [4, 2, 4], None),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", [2, 1, 4], None),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", [4, 2, 2], None),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", [4, 2, 4], None),
    ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", [2, 1, 4], None),
    ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", [2, 1, 4], None),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [4, 2, 4], None),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", [4, 2, 4], None),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", [4, 4, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", [4, 4, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", [2, 2, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", [2, 2, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", [4, 4, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", [4, 4, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", [2, 2, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", [2, 2, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [2, 2, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [2, 2, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [2, 2, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [2, 2, 4], Some(1)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [2, 2, 4], Some(2)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [2, 2, 4], Some(2)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [2, 2, 4], Some(3)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [2, 2, 4], Some(3)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", [4, 4, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32", [4, 4, 4], Some(0)),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32", [4, 4, 4], Some(0)),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", [4, 64, 4], None),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", [4, 64, 4], None),
    ("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", [4, 64, 4], None),
    ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", [4, 64, 4], None),
    ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", [4, 64, 4], None),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", [4, 64, 2], None),
    ("wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3", [4, 64, 2], None),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", [4, 128, 4], Some(0)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32", [4, 128, 4], Some(0)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", [4, 128, 4], Some(1)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32", [4, 128, 4], Some(1)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8", [4, 128, 4], Some(0)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3", [4, 128, 4], Some(0)),
];

fn registers(first: usize, count: usize) -> String {
    let list: Vec<String> = (first..first + count).map(|r| format!("%r{r}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// A kernel that does one of the products: a thread's registers come from memory, one after the other, and for a
/// warpgroup the columns before all of them, into shared memory.
fn kernel_of(&(instruction, [a, b, c], selector): &Recorded) -> String {
    let group = instruction.starts_with("wgmma");
    let shared = if group { b } else { 0 };
    let loaded = a + if group { 0 } else { b } + c + usize::from(selector.is_some());
    let mut body = format!(
        "mov.u32 %r100, %tid.x; mul.wide.u32 %d3, %r100, 4; add.u64 %d4, %d1, %d3; setp.lt.u32 %p1, %r100, {shared};\n\
         @%p1 ld.global.u32 %r101, [%d4];\nshl.b32 %r102, %r100, 2; mov.u32 %r103, sm; add.u32 %r102, %r102, %r103;\n\
         @%p1 st.shared.u32 [%r102], %r101;\nbar.sync 0;\n\
         mul.wide.u32 %d5, %r100, {}; add.u64 %d6, %d1, %d5; mul.wide.u32 %d7, %r100, {}; add.u64 %d8, %d2, %d7;\n",
        4 * loaded,
        4 * c
    );
    for i in 0..loaded {
        let _ = writeln!(body, "ld.global.u32 %r{i}, [%d6+{}];", 4 * (shared + i));
    }
    let metadata = selector.map_or(String::new(), |selector| format!(", %r{}, {selector}", loaded - 1));
    let first = if group {
        // Core matrices of 128 bytes along k.
        let half = instruction.contains("f16.f16") || instruction.contains("bf16");
        let flags = match instruction.contains(".s32.") {
            true => "",
            false if half => ", 1, 1, 0",
            false => ", 1, 1",
        };
        let _ = writeln!(
            body,
            "shr.u32 %r103, %r103, 4; cvt.u64.u32 %d9, %r103; or.b64 %d9, %d9, 0x80000; setp.eq.u32 %p2, 0, 0;\n\
             {instruction} {}, {}, %d9{metadata}, %p2{flags};",
            registers(a, c),
            registers(0, a)
        );
        a
    } else {
        let [rows, columns, sums] = [registers(0, a), registers(a, b), registers(a + b, c)];
        let _ = writeln!(body, "{instruction} {}, {rows}, {columns}, {sums}{metadata};", registers(60, c));
        60
    };
    for i in 0..c {
        let _ = writeln!(body, "st.global.u32 [%d8+{}], %r{};", 4 * i, first + i);
    }
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 x, .param .u64 o) {{\n\
         .reg .pred %p<4>; .reg .b32 %r<110>; .reg .b64 %d<10>; .shared .align 128 .b8 sm[512];\n\
         ld.param.u64 %d1, [x]; ld.param.u64 %d2, [o];\n{body}ret; }}\n"
    )
}

/// Numbers with random digits and exponents, so that it shows how precise the sums are on the way; sparse products of
/// whole numbers, so that it shows which elements meet.
#[test]
fn products_of_an_h200() {
    let mut rest: &[u8] = include_bytes!("../../../tests/data/products.h200.bin");
    let mut take = |bytes: usize| {
        let (taken, after) = rest.split_at(bytes);
        rest = after;
        taken.to_vec()
    };
    for recorded @ (instruction, [a, b, c], selector) in &RECORDED {
        let group = instruction.starts_with("wgmma");
        let threads = if group { 128 } else { 32 };
        let each = a + c + usize::from(selector.is_some()) + if group { 0 } else { *b };
        let words = threads * each + if group { *b } else { 0 };
        let (operands, want) = (take(4 * words), take(4 * threads * c));
        let source = kernel_of(recorded);
        let program = parsed(&source);
        let mut machine = Machine::new(&program);
        let (input, output) = (machine.allocate(operands), machine.allocate(vec![0; want.len()]));
        let parameters = [input, output].map(u64::to_le_bytes).concat();
        let launch = Launch::new("k", [1; 3], [threads as u32, 1, 1], &parameters);
        machine.run(&launch).unwrap_or_else(|fault| panic!("{instruction}: {fault}"));
        assert!(machine.read(output, want.len()).unwrap() == want, "{instruction} {selector:?}");
    }
    assert!(rest.is_empty(), "{} bytes are left", rest.len());
}
