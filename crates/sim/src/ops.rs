//! Kernels of one instruction: their inputs, and whether two machines do the same with them.
//!
//! Such a kernel takes a pointer to 256 bytes per thread, operands from 0 on and results from 128 on, and the number of
//! threads. The file of them, `ops_sm_90.ptx`, has each instruction of PTX once.
//!
//! Some of them read shared memory that nobody wrote, wait at a barrier that nobody made, or need a tensor map. What is
//! in shared memory before they start is therefore a part of their inputs ([`shared`]), and so is the map
//! ([`tensor`]). With these, each kernel does one thing on all machines, but for what the tables here name.

use crate::Machine;
use crate::mbarrier::Mbarrier;
use crate::ptx::{Fault, FaultKind, Launch};
use crate::swizzle::Swizzle;
use crate::tensor_map::{self, Element, TensorMap};
use std::mem::discriminant;

/// Bytes of each thread, from and up to, that machines may fill as they like, and what they are.
const OPEN: [(&str, [usize; 2], &str); 13] = [
    ("k399", [148, 152], "the window of shared memory, the upper half of a generic address"),
    ("k411", [128, 132], "%warpid"),
    ("k412", [128, 132], "%smid"),
    ("k414", [128, 132], "%gridid"),
    ("k415", [128, 132], "%clock"),
    ("k416", [128, 132], "%globaltimer_lo"),
    ("k421", [128, 132], "%clock_hi"),
    ("k424", [144, 152], "%clock64"),
    ("k425", [144, 152], "%globaltimer"),
    ("k462", [144, 148], STATE),
    ("k465", [144, 148], STATE),
    ("k471", [16, 24], "the address of the tensor map, an input"),
    ("k472", [16, 24], "the address of the tensor map, an input"),
];

/// What a program can see of a state is in the upper half. In the lower one an H200 was seen to have the barrier's
/// address after an arrival, and the bytes after one that expects some.
const STATE: &str = "the lower half of a barrier's opaque state";

/// Kernels that end while their store is on its way: an H200 may find the block gone when it arrives (error 719), which
/// it did with the code of `ptxas -O3`.
pub const UNFINISHED: [(&str, &str); 2] =
    [("k475", "nothing waits for the store"), ("k476", "nothing waits for the reduction")];

/// Kernels that stop, at -O0 at least, and why.
pub const STOPPING: [(&str, &str); 9] = [
    ("k257", NO_LOCAL_ADDRESS),
    ("k261", NO_LOCAL_ADDRESS),
    ("k265", NO_LOCAL_ADDRESS),
    ("k269", NO_LOCAL_ADDRESS),
    ("k273", NO_LOCAL_ADDRESS),
    ("k279", NO_LOCAL_ADDRESS),
    ("k394", "brkpt, and no debugger"),
    ("k395", "trap"),
    ("k474", "multimem of plain memory"),
];
/// All addresses that these kernels can have are above 1024: shared memory, where they come from, begins there.
const NO_LOCAL_ADDRESS: &str = "an address that is beyond all local memory";

/// What became of a kernel on an H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// [`hash_of_sets`] of the memory that it left.
    Hash(u64),
    /// The driver's code of the error with which it stopped.
    Error(u32),
    /// It didn't end, or the process that ran it did not live to tell.
    Lost,
}

impl Recorded {
    /// From the text of a recording.
    pub fn parse(text: &str) -> Option<Recorded> {
        match text.strip_prefix("error:") {
            Some(code) => code.parse().ok().map(Recorded::Error),
            None if text == "lost" => Some(Recorded::Lost),
            None => u64::from_str_radix(text, 16).ok().map(Recorded::Hash),
        }
    }
}

impl std::fmt::Display for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recorded::Hash(hash) => write!(f, "{hash:016x}"),
            Recorded::Error(code) => write!(f, "error:{code}"),
            Recorded::Lost => write!(f, "lost"),
        }
    }
}

/// Whose code an H200 ran, at which level.
pub const CODES: [&str; 5] = ["ptxas-O0", "ptxas-O3", "ours-O0", "ours-O1", "ours-O3"];

/// What was recorded on an H200, by kernel and code: lines `NAME` with what all codes did, or with what each did.
pub fn on_h200(recording: &str) -> impl Iterator<Item = (&str, [Recorded; CODES.len()])> {
    recording.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let kernel = words.next()?;
        let recorded = words.map(Recorded::parse).collect::<Option<Vec<_>>>()?;
        match recorded[..] {
            [all] => Some((kernel, [all; CODES.len()])),
            _ => Some((kernel, recorded.try_into().ok()?)),
        }
    })
}

/// FNV-1a, 64 bits.
pub fn hash<'b>(bytes: impl Iterator<Item = &'b u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The hash of what all sets leave, one after the other; `None` if one of them leaves no memory.
pub fn hash_of_sets<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> Option<u64> {
    let memory = |outcome: &'o Outcome| match outcome {
        Outcome::Memory(memory) => Some(memory),
        _ => None,
    };
    let all = outcomes.map(memory).collect::<Option<Vec<_>>>()?;
    Some(hash(all.into_iter().flatten()))
}

/// Sets of inputs that an H200 was given.
pub const SETS_ON_H200: u64 = 64;

/// A run with more steps of warps has no end.
const STEP_LIMIT: u64 = 1 << 20;

/// Bytes that each thread has of the buffer.
const STRIDE: usize = 256;

/// What a kernel needs of its inputs and of its launch, so that it does one thing.
#[derive(Clone, Copy)]
struct Needs {
    threads: usize,
    /// Words of the inputs, by their offset: bits that stay as they are, and bits that are set.
    words: &'static [(usize, u32, u32)],
    /// Each thread has a place of its own in shared memory.
    own_place: bool,
    /// Shared memory is full of barriers.
    barriers: bool,
    /// `%rd1` is the address of a tensor map.
    tensor: bool,
    /// The block is a cluster.
    cluster: bool,
}

const USUAL: Needs =
    Needs { threads: 32, words: &[], own_place: false, barriers: false, tensor: false, cluster: false };
const OWN_PLACE: Needs = Needs { own_place: true, ..USUAL };
const OWN_BARRIER: Needs = Needs { barriers: true, ..OWN_PLACE };
const IN_CLUSTER: Needs = Needs { cluster: true, ..OWN_BARRIER };
/// Where `%r1`, `%r2`, `%r4` and `%rd1` come from. `%r4` is an offset into shared memory for some kernels.
const R1: usize = 0;
const R2: usize = 4;
const R4: usize = 12;
const RD1: usize = 16;
const ALL_LANES: u32 = u32::MAX;
/// Bytes between the places of two threads in the 4096 of shared memory.
const PLACE: u32 = 128;

/// Kernels that can't take just any inputs: instructions of the whole warp or block, those whose result depends on the
/// order of the lanes, and those of asynchronous units, which need barriers, sizes and coordinates that are good.
const NEEDS: [(&str, Needs); 20] = [
    ("k336", OWN_PLACE),
    ("k356", OWN_PLACE),
    ("k358", OWN_PLACE),
    ("k377", Needs { words: &[(R1, 0, ALL_LANES)], ..USUAL }),
    ("k379", Needs { words: &[(R2, 0, ALL_LANES)], ..USUAL }),
    ("k382", Needs { words: &[(R2, 0, ALL_LANES)], ..USUAL }),
    ("k385", Needs { threads: 64, ..USUAL }),
    ("k387", Needs { threads: 64, words: &[(R1, 0, 5)], ..USUAL }),
    ("k391", Needs { words: &[(R1, 0, ALL_LANES)], ..USUAL }),
    ("k460", Needs { words: &[(R1, 0, 0)], ..USUAL }),
    ("k462", OWN_BARRIER),
    ("k463", OWN_BARRIER),
    ("k464", OWN_BARRIER),
    ("k465", Needs { words: &[(R1, 0xf_ffff, 0)], ..OWN_BARRIER }),
    ("k467", Needs { words: &[(R1, 0, 16)], ..OWN_BARRIER }),
    ("k468", Needs { words: &[(R1, 0, 16)], ..OWN_PLACE }),
    ("k471", Needs { words: COORDINATES, tensor: true, ..OWN_BARRIER }),
    ("k472", Needs { words: COORDINATES, tensor: true, ..OWN_PLACE }),
    ("k475", IN_CLUSTER),
    ("k476", IN_CLUSTER),
];
/// Some of them outside of the tensor. An H200 stops where a row's part doesn't begin at a multiple of 16 bytes.
const COORDINATES: &[(usize, u32, u32)] = &[(R1, 0x1c, 0), (R2, 0x1f, 0)];

/// The tensor of words after the threads' bytes and its map, and what a copy takes of it.
pub const TENSOR: [u32; 2] = [16, 16];
/// See [`TENSOR`].
pub const TENSOR_BOX: [u32; 2] = [4, 4];
const TENSOR_BYTES: usize = 16 * 16 * 4;

/// What is in shared memory when a kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Nothing.
    Zeros,
    /// In each 8 bytes a barrier that waits for so many.
    Barriers(u32),
}

fn needs(kernel: &str) -> Needs {
    NEEDS.iter().find(|(known, _)| *known == kernel).map_or(USUAL, |(_, needs)| *needs)
}

/// Threads of the kernel's one block.
pub fn threads(kernel: &str) -> u32 {
    needs(kernel).threads as u32
}

/// Is the kernel's block launched as a cluster? Executors take any block for one.
pub fn in_cluster(kernel: &str) -> bool {
    needs(kernel).cluster
}

/// Shared memory before a run: barriers wait for one thread or for more than come.
pub fn shared(kernel: &str, set: u64) -> Shared {
    if needs(kernel).barriers { Shared::Barriers(1 + (set / 4 % 2) as u32) } else { Shared::Zeros }
}

/// The address of the kernel's tensor, if it has one, for a buffer at this address.
pub fn tensor(kernel: &str, buffer: u64) -> Option<u64> {
    needs(kernel).tensor.then(|| buffer + (map_at(kernel) + STRIDE) as u64)
}

/// Where the tensor's map is in the buffer.
fn map_at(kernel: &str) -> usize {
    STRIDE * needs(kernel).threads
}

/// The bytes of the kernel's buffer.
pub fn bytes(kernel: &str) -> usize {
    map_at(kernel) + if needs(kernel).tensor { STRIDE + TENSOR_BYTES } else { 0 }
}

/// The parameters, for a buffer at this address.
pub fn parameters(kernel: &str, buffer: u64) -> Vec<u8> {
    let mut parameters = buffer.to_le_bytes().to_vec();
    parameters.extend(threads(kernel).to_le_bytes());
    parameters
}

/// A set of inputs that the kernel can take, for a buffer at this address, with the map of its [`tensor`].
pub fn inputs(kernel: &str, set: u64, buffer: u64, map: Option<[u8; tensor_map::BYTES]>) -> Vec<u8> {
    let Needs { threads, words, own_place, .. } = needs(kernel);
    let mut inputs = any_inputs(threads as u64, set);
    for (thread, inputs) in inputs.chunks_exact_mut(STRIDE).enumerate() {
        let place = own_place.then_some((R4, 0, PLACE * thread as u32));
        for (at, keeps, sets) in words.iter().copied().chain(place) {
            let word = load(&inputs[at..at + 4]) & keeps | sets;
            inputs[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        if map.is_some() {
            let address = buffer + map_at(kernel) as u64;
            inputs[RD1..RD1 + 8].copy_from_slice(&address.to_le_bytes());
        }
    }
    if let Some(map) = map {
        inputs.extend(map);
        inputs.resize(bytes(kernel) - TENSOR_BYTES, 0);
        inputs.extend((1..=TENSOR_BYTES as u32 / 4).flat_map(u32::to_le_bytes));
    }
    inputs
}

fn load(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// What of the buffer machines have to agree on: all but what is [`OPEN`], and the map.
pub fn compared(kernel: &str, mut memory: Vec<u8>) -> Vec<u8> {
    for (_, [from, to], _) in OPEN.iter().filter(|(known, ..)| *known == kernel) {
        memory
            .chunks_exact_mut(STRIDE)
            .take(needs(kernel).threads)
            .for_each(|thread| thread[*from..*to].fill(0));
    }
    if needs(kernel).tensor {
        let at = map_at(kernel);
        memory[at..at + tensor_map::BYTES].fill(0);
    }
    memory
}

/// What of a kernel's results is not compared.
pub fn open(kernel: &str) -> Option<&'static str> {
    OPEN.iter().find(|(known, ..)| *known == kernel).map(|(.., what)| *what)
}

/// Edge values, random bits, and words whose exponent as an f32 is near a limit.
fn any_inputs(threads: u64, set: u64) -> Vec<u8> {
    const EDGES: [u64; 19] = [
        0,
        1,
        2,
        u64::MAX,
        0x8000_0000_8000_0000,
        0x7fff_ffff_7fff_ffff,
        0x7f80_0000_7f80_0000,
        0xff80_0000_ff80_0000,
        0x7fc0_0001_7fc0_0001,
        0x3f80_0000_3f80_0000,
        0x0000_0001_0080_0000,
        0x7bff_7bff_3c00_3c00,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0001,
        0x3ff0_0000_0000_0000,
        0x0010_0000_0000_0000,
        0x3f7f_ffff_3f7f_ffff,
        0x0080_0000_0080_0000,
        0x0400_3bff_0400_3bff,
    ];
    const EXPONENTS: [u64; 12] = [0, 1, 2, 3, 63, 64, 112, 126, 127, 142, 190, 254];
    let near_limits = |random: u64| {
        let half = |bits: u64| bits & 0x807f_ffff | EXPONENTS[(bits >> 24 & 0x7f) as usize % 12] << 23;
        half(random >> 32) << 32 | half(random & 0xffff_ffff)
    };
    let mut state = set.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut out = Vec::new();
    for thread in 0..threads {
        for word in 0..32u64 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let random = state ^ state >> 31;
            let value = match set % 4 {
                // Each set has other pairs of operands.
                0 => EDGES[((thread + word * (set / 4 + 1)) % 19) as usize],
                1 => EDGES[(random % 19) as usize],
                2 => near_limits(random),
                _ => random,
            };
            // Operands end at byte 100; %r4, an offset, is the upper half of the second word.
            out.extend(match word {
                1 => (value & 0xffff_ffff).to_le_bytes(),
                _ => value.to_le_bytes(),
            });
        }
    }
    out
}

/// What became of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It came to its end, and left this.
    Memory(Vec<u8>),
    /// It stopped.
    Fault(FaultKind),
    /// The machine does not know an instruction.
    Unknown(String),
}

/// Runs a kernel with a set of inputs.
pub fn outcome(machine: &mut dyn Machine, kernel: &str, set: u64) -> Outcome {
    let buffer = machine.allocate(vec![0; bytes(kernel)]);
    let map = tensor(kernel, buffer).map(map_of);
    machine.write(buffer, &inputs(kernel, set, buffer, map));
    let parameters = parameters(kernel, buffer);
    let shared_contents = match shared(kernel, set) {
        Shared::Zeros => 0,
        Shared::Barriers(count) => Mbarrier::new(count.into()).bits(),
    };
    let launch = Launch::new(kernel, [1; 3], [threads(kernel), 1, 1], &parameters);
    match machine.run(&Launch { step_limit: STEP_LIMIT, shared_contents, ..launch }) {
        Ok(_) => {
            let memory = machine.read(buffer, bytes(kernel)).unwrap_or_default();
            Outcome::Memory(compared(kernel, memory.to_vec()))
        }
        Err(fault) => {
            let interpreted = fault.downcast_ref::<Fault>().map(|fault| &fault.kind);
            let simulated = fault.downcast_ref::<crate::sass::Fault>().map(|fault| &fault.kind);
            match interpreted.or(simulated) {
                Some(FaultKind::Unsupported { what }) => Outcome::Unknown(what.clone()),
                Some(kind) => Outcome::Fault(kind.clone()),
                None => Outcome::Unknown(fault.to_string()),
            }
        }
    }
}

/// The map of a tensor at this address.
fn map_of(address: u64) -> [u8; tensor_map::BYTES] {
    let pair = |[a, b]: [u32; 2]| [a, b, 1, 1, 1];
    TensorMap {
        address,
        rank: 2,
        element: Element::U32,
        swizzle: Swizzle::None,
        interleave: 0,
        fills_nan: false,
        sizes: pair(TENSOR),
        strides: [u64::from(TENSOR[0] * Element::U32.bytes()), 0, 0, 0],
        boxes: pair(TENSOR_BOX),
        steps: [1; 5],
        path: None,
    }
    .write()
}

/// How two outcomes compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Same,
    /// One of them is not known.
    Unknown(String),
    /// Not the same, and how.
    Different(String),
}

/// The same memory, or a fault of the same kind? Which of several bytes is found to be outside first, is open.
pub fn compare(expected: &Outcome, got: &Outcome) -> Verdict {
    match (expected, got) {
        (Outcome::Unknown(what), _) | (_, Outcome::Unknown(what)) => Verdict::Unknown(what.clone()),
        (expected, got) if expected == got => Verdict::Same,
        (Outcome::Fault(expected), Outcome::Fault(got)) if discriminant(expected) == discriminant(got) => {
            Verdict::Same
        }
        (Outcome::Memory(expected), Outcome::Memory(got)) => {
            let words = expected.chunks_exact(4).zip(got.chunks_exact(4)).enumerate();
            let differing = words.filter(|(_, (expected, got))| expected != got);
            let lines = differing.map(|(index, (expected, got))| {
                let (thread, offset) = (index / 64, index % 64 * 4);
                format!("thread {thread} +{offset}: {:08x}, not {:08x}", load(got), load(expected))
            });
            Verdict::Different(lines.take(3).collect::<Vec<_>>().join("; "))
        }
        (expected, got) => {
            let said = |outcome: &Outcome| match outcome {
                Outcome::Fault(kind) => kind.to_string(),
                _ => "it ends".to_string(),
            };
            Verdict::Different(format!("{}, not: {}", said(got), said(expected)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_sets_are_the_same() {
        let sets: BTreeSet<Vec<u8>> = (0..SETS_ON_H200).map(|set| inputs("k0", set, 0, None)).collect();
        assert_eq!(sets.len() as u64, SETS_ON_H200);
    }

    #[test]
    fn a_tensor_is_behind_the_threads() {
        let at = tensor("k471", 0x1000).unwrap();
        assert_eq!(at, 0x1000 + 33 * STRIDE as u64);
        let inputs = inputs("k471", 3, 0x1000, Some([7; tensor_map::BYTES]));
        assert_eq!(inputs.len(), bytes("k471"));
        assert_eq!(inputs[RD1..RD1 + 8], (0x1000 + 32 * STRIDE as u64).to_le_bytes());
        assert_eq!(load(&inputs[33 * STRIDE..][..4]), 1);
        let compared = compared("k471", inputs);
        assert_eq!(compared[RD1..RD1 + 8], [0; 8]);
        assert_eq!(compared[32 * STRIDE..33 * STRIDE], [0; STRIDE]);
    }

    #[test]
    fn a_recording_has_a_word_for_all_codes_or_one_for_each() {
        let text =
            "k0 00000000000000ff\nk1 error:700 0000000000000001 error:700 lost error:700\nk2 error:1 lost\n";
        let recorded: Vec<_> = on_h200(text).collect();
        let stopped = Recorded::Error(700);
        assert_eq!(recorded.len(), 2, "a line with two words says nothing");
        assert_eq!(recorded[0], ("k0", [Recorded::Hash(255); 5]));
        assert_eq!(recorded[1].1, [stopped, Recorded::Hash(1), stopped, Recorded::Lost, stopped]);
        assert_eq!(recorded[1].1[1].to_string(), "0000000000000001");
    }
}
