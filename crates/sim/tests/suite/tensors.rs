//! Copies of tensors: the interpreter and the simulator on our code bring the same to shared memory, and what an H200
//! brought where that was recorded.
//!
//! A line of `tensors.txt` is a case; its first lines say what it consists of. Both refuse boxes that begin in the midst
//! of 16 bytes, and what is not known: elements that are rounded on the way, NaN in place of some types.

use sim::Machine;
use sim::ops::{Recorded, hash};
use sim::ptx::Launch;
use sim::tensor_map::{Path, Tensor, TensorMap};
use std::str::FromStr;

const CASES: &str = include_str!("../data/tensors.txt");
const ELEMENTS: u32 = 1 << 20;
/// Shared memory that comes out; the barrier lies behind it.
const SHARED: usize = 16384;
const THREADS: u32 = 128;
/// A copy that a barrier waits for in vain has no end.
const STEP_LIMIT: u64 = 1 << 18;

struct Case {
    name: &'static str,
    axes: usize,
    along_filter: bool,
    /// Bytes, coordinates, offsets.
    inputs: Vec<i32>,
    map: TensorMap,
    recorded: Option<Recorded>,
}

/// Numbers in a row.
fn list<T: FromStr>(text: &str) -> Vec<T> {
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("'{word}' in '{text}'"));
    text.split_whitespace().map(number).collect()
}

/// The path of a filter, for as many axes as there are.
fn path(text: &str) -> Option<Path> {
    let [lower, upper, pixels] = text.split('/').collect::<Vec<_>>()[..] else { return None };
    let corner = |text: &str| {
        let places: Vec<i32> = list(text);
        std::array::from_fn(|axis| places.get(axis).copied().unwrap_or(0))
    };
    Some(Path { lower: corner(lower), upper: corner(upper), pixels: list(pixels)[0] })
}

impl Case {
    fn read(line: &'static str) -> Case {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, inputs, element, sizes, strides, boxes, steps, manner, along, recorded] = fields[..]
        else {
            panic!("{line}")
        };
        let (sizes, boxes, steps): (Vec<u32>, Vec<u32>, Vec<u32>) = (list(sizes), list(boxes), list(steps));
        let (strides, ways): (Vec<u64>, Vec<u32>) = (list(strides), list(manner.trim_end_matches(" nan")));
        let tensor = Tensor {
            element,
            sizes: &sizes,
            strides: &strides,
            boxes: &boxes,
            steps: &steps,
            swizzle: ways[0],
            interleave: ways.get(1).copied().unwrap_or(0),
            fills_nan: manner.ends_with("nan"),
        };
        let map = TensorMap::new(0, &tensor).expect(name);
        Case {
            name,
            axes: sizes.len(),
            along_filter: path(along).is_some(),
            inputs: list(inputs),
            map: TensorMap { path: path(along), ..map },
            recorded: match (recorded, recorded.strip_prefix("error ")) {
                ("-", _) => None,
                (_, Some(code)) => Some(Recorded::Error(code.parse().expect(code))),
                (hash, None) => Some(Recorded::Hash(u64::from_str_radix(hash, 16).expect(hash))),
            },
        }
    }

    /// Fills shared memory, copies, waits, and writes down what is there.
    fn source(&self) -> String {
        let offsets = if self.along_filter { self.axes - 2 } else { 0 };
        let load = |i: usize| format!("ld.global.u32 %r{}, [%d1+{}];\n", 30 + i, 4 + 4 * i);
        let loads: String = (0..self.axes + offsets).map(load).collect();
        let narrow = |i: usize| format!("cvt.u16.u32 %h{i}, %r{};\n", 30 + self.axes + i);
        let narrowed: String = (0..offsets).map(narrow).collect();
        let list = |prefix: &str, first: usize, count: usize| {
            (first..first + count).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(", ")
        };
        let coordinates = list("%r", 30, self.axes);
        let (mode, added) = match self.along_filter {
            true => ("im2col", format!(", {{{}}}", list("%h", 0, offsets))),
            false => ("tile", String::new()),
        };
        let axes = self.axes;
        format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n\
             .visible .entry k(.param .align 64 .b8 map[128], .param .u64 pin, .param .u64 pout) {{\n\
             .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<60>; .reg .b64 %d<10>;\n\
             ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout]; mov.u32 %r1, %tid.x;\n\
             mov.u32 %r5, %r1; mov.u32 %r7, sm; mov.b64 %d3, map; cvta.param.u64 %d3, %d3;\n\
             F: shl.b32 %r8, %r5, 2; add.u32 %r8, %r8, %r7; mov.u32 %r9, 0xdeadbeef; st.shared.u32 [%r8], %r9;\n\
             add.u32 %r5, %r5, {THREADS}; setp.lt.u32 %p1, %r5, {words};\n@%p1 bra F;\n\
             add.u32 %r20, %r7, {SHARED}; setp.eq.u32 %p2, %r1, 0;\n\
             @%p2 mbarrier.init.shared.b64 [%r20], 1;\n\
             fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0;\n\
             ld.global.u32 %r21, [%d1];\n{loads}{narrowed}\
             @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], %r21;\n\
             @%p2 cp.async.bulk.tensor.{axes}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes \
             [%r7], [%d3, {{{coordinates}}}], [%r20]{added};\n\
             W: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;\n@!%p3 bra W;\n\
             mov.u32 %r5, %r1;\n\
             G: shl.b32 %r8, %r5, 2; add.u32 %r8, %r8, %r7; ld.shared.u32 %r9, [%r8];\n\
             mul.wide.u32 %d5, %r5, 4; add.u64 %d5, %d5, %d2; st.global.u32 [%d5], %r9;\n\
             add.u32 %r5, %r5, {THREADS}; setp.lt.u32 %p1, %r5, {words};\n@%p1 bra G;\nret; }}\n",
            words = SHARED / 4,
        )
    }
}

/// Numbers, and every so often a subnormal one.
fn tensor() -> Vec<u8> {
    let number = |i: u32| ((i.wrapping_mul(2_654_435_761) >> 8) % 100_000) as f32 / 7.0;
    let bits = |i: u32| if i.is_multiple_of(97) { 0x0001_2345 } else { number(i).to_bits() };
    (0..ELEMENTS).flat_map(|i| bits(i).to_le_bytes()).collect()
}

fn outcome(machine: &mut dyn Machine, case: &Case, tensor: &[u8]) -> Result<u64, String> {
    let address = machine.allocate(tensor.to_vec());
    let inputs = machine.allocate(case.inputs.iter().flat_map(|word| word.to_le_bytes()).collect());
    let results = machine.allocate(vec![0; SHARED]);
    let mut parameters = TensorMap { address, ..case.map }.write().to_vec();
    parameters.extend([inputs, results].into_iter().flat_map(u64::to_le_bytes));
    let launch = Launch::new("k", [1; 3], [THREADS, 1, 1], &parameters);
    let launch = Launch { shared: SHARED as u32 + 64, step_limit: STEP_LIMIT, ..launch };
    machine.run(&launch).map_err(|fault| fault.to_string())?;
    Ok(hash(machine.read(results, SHARED).expect("memory").iter()))
}

#[test]
fn all_bring_the_same() {
    let cases: Vec<Case> = CASES.lines().filter(|line| !line.starts_with('#')).map(Case::read).collect();
    let tensor = tensor();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in &cases {
        let source = case.source();
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.unwrap_or_else(|| panic!("{}: {:?}", case.name, parsed.diagnostics));
        let interpreted = sim::ptx::Program::new(&module, &source);
        let expected = outcome(&mut sim::ptx::Machine::new(&interpreted), case, &tensor);
        let options = sassafras::Options::new(module.target);
        let cubin = sassafras::compile_module(&module, &options).cubin.expect(case.name);
        let program = sim::sass::Program::new(&cubin).expect(case.name);
        let simulated = outcome(&mut sim::sass::Machine::new(&program), case, &tensor);
        let recorded = match (case.recorded, &expected) {
            (None, _) | (Some(Recorded::Error(_)), Err(_)) => true,
            (Some(Recorded::Hash(hash)), Ok(expected)) => hash == *expected,
            _ => false,
        };
        match (&expected, &simulated) {
            (Ok(expected), Ok(simulated)) if expected == simulated && recorded => compared += 1,
            (Err(_), Err(_)) if recorded => {}
            _ => wrong.push(format!("{}: {expected:x?}, simulator {simulated:x?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(compared >= 30, "{compared} copies");
}
