//! Kernels of one instruction: their inputs, and whether two machines do the same with them.
//!
//! Such a kernel takes a pointer to 256 bytes per thread, operands from 0 on and results from 128 on, and the number of
//! threads. The file of them, `ops_sm_90.ptx`, has each instruction of PTX once.

use crate::Machine;
use crate::ptx::{Fault, FaultKind, Launch};

/// Kernels whose memory may differ from machine to machine, and why.
pub const OWN_WAYS: [(&str, &str); 18] = [
    ("k265", "ld.local of what is no local address"),
    ("k269", "ld.local of what is no local address"),
    ("k398", "cvta.to.shared of what is no shared address"),
    ("k399", "cvta.shared of what is no shared address"),
    ("k415", "%clock"),
    ("k416", "%globaltimer_lo"),
    ("k424", "%clock64"),
    ("k425", "%globaltimer"),
    ("k447", "mma.sp with metadata that name an element twice"),
    ("k460", "mapa: the system keeps the first bytes of shared memory on the machine"),
    ("k462", "an arrival at what is no barrier"),
    ("k463", "a state that is none of a barrier"),
    ("k464", "a state that is none of a barrier"),
    ("k465", "an arrival at what is no barrier"),
    ("k467", "outside of shared memory, which begins elsewhere on the machine"),
    ("k468", "outside of shared memory, which begins elsewhere on the machine"),
    ("k471", "a tensor map where there is none"),
    ("k472", "a tensor map where there is none"),
];

/// Kernels that leave other memory on an H200 than in the simulator, beside those, and why.
pub const OTHER_ON_H200: [(&str, &str); 4] =
    [("k411", "%warpid"), ("k412", "%smid"), ("k414", "%gridid"), ("k421", "%clock_hi")];

/// What an H200 did with a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// [`hash_of_sets`] of the memory that it left.
    Hash(u64),
    /// The driver's code of the error with which it stopped.
    Error(u32),
}

/// What was recorded on an H200, by kernel: lines `NAME HASH` and `NAME error CODE`.
pub fn on_h200(recording: &str) -> impl Iterator<Item = (&str, Recorded)> {
    recording.lines().filter_map(|line| {
        let (kernel, what) = line.split_once(' ')?;
        let recorded = match what.strip_prefix("error ") {
            Some(code) => Recorded::Error(code.parse().ok()?),
            None => Recorded::Hash(u64::from_str_radix(what, 16).ok()?),
        };
        Some((kernel, recorded))
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

/// What a kernel needs of its inputs and of its launch, so that PTX says what it does.
#[derive(Clone, Copy)]
struct Needs {
    threads: usize,
    /// Words of the inputs, by their offset, that are the same in every thread and set.
    words: &'static [(usize, u32)],
    /// Each thread has a place of its own in shared memory.
    own_place: bool,
}

const USUAL: Needs = Needs { threads: 32, words: &[], own_place: false };
const OWN_PLACE: Needs = Needs { own_place: true, ..USUAL };
/// Where `%r1`, `%r2` and `%r4` come from. The last is an offset into shared and local memory for some kernels.
const R1: usize = 0;
const R2: usize = 4;
const R4: usize = 12;
const ALL_LANES: u32 = u32::MAX;

/// Kernels that can't take just any inputs: instructions of the whole warp or block, and those whose result depends on
/// the order of the lanes.
const NEEDS: [(&str, Needs); 10] = [
    ("k336", OWN_PLACE),
    ("k356", OWN_PLACE),
    ("k358", OWN_PLACE),
    ("k377", Needs { words: &[(R1, ALL_LANES)], ..USUAL }),
    ("k379", Needs { words: &[(R2, ALL_LANES)], ..USUAL }),
    ("k382", Needs { words: &[(R2, ALL_LANES)], ..USUAL }),
    ("k385", Needs { threads: 64, ..USUAL }),
    ("k387", Needs { threads: 64, words: &[(R1, 5)], ..USUAL }),
    ("k391", Needs { words: &[(R1, ALL_LANES)], ..USUAL }),
    ("k460", Needs { words: &[(R1, 0)], ..USUAL }),
];

fn needs(kernel: &str) -> Needs {
    NEEDS.iter().find(|(known, _)| *known == kernel).map_or(USUAL, |(_, needs)| *needs)
}

/// Threads of the kernel's one block.
pub fn threads(kernel: &str) -> u32 {
    needs(kernel).threads as u32
}

/// The bytes of the kernel's buffer.
pub fn bytes(kernel: &str) -> usize {
    STRIDE * needs(kernel).threads
}

/// The parameters, for a buffer at this address.
pub fn parameters(kernel: &str, buffer: u64) -> Vec<u8> {
    let mut parameters = buffer.to_le_bytes().to_vec();
    parameters.extend(threads(kernel).to_le_bytes());
    parameters
}

/// A set of inputs that the kernel can take.
pub fn inputs(kernel: &str, set: u64) -> Vec<u8> {
    let Needs { threads, words, own_place } = needs(kernel);
    let mut inputs = any_inputs(threads as u64, set);
    for (thread, inputs) in inputs.chunks_exact_mut(STRIDE).enumerate() {
        let place = own_place.then_some((R4, 16 * thread as u32));
        for (at, word) in words.iter().copied().chain(place) {
            inputs[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    inputs
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
                0 => EDGES[((thread + word * 5) % 19) as usize],
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
    Memory(Vec<u8>),
    Fault(String),
    /// The machine does not know an instruction.
    Unknown(String),
}

/// Runs a kernel with a set of inputs.
pub fn outcome(machine: &mut dyn Machine, kernel: &str, set: u64) -> Outcome {
    let buffer = machine.allocate(inputs(kernel, set));
    let parameters = parameters(kernel, buffer);
    let launch = Launch::new(kernel, [1; 3], [threads(kernel), 1, 1], &parameters);
    match machine.run(&Launch { step_limit: STEP_LIMIT, ..launch }) {
        Ok(_) => Outcome::Memory(machine.read(buffer, bytes(kernel)).unwrap_or_default().to_vec()),
        Err(fault) => {
            let interpreted = fault.downcast_ref::<Fault>().map(|fault| &fault.kind);
            let simulated = fault.downcast_ref::<crate::sass::Fault>().map(|fault| &fault.kind);
            match interpreted.or(simulated) {
                Some(FaultKind::Unsupported { what }) => Outcome::Unknown(what.clone()),
                Some(kind) => Outcome::Fault(kind.to_string()),
                None => Outcome::Fault(fault.to_string()),
            }
        }
    }
}

/// How two outcomes compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// One of them is not known.
    Unknown(String),
    Different(String),
}

/// The same memory, or the same fault?
pub fn compare(expected: &Outcome, got: &Outcome) -> Verdict {
    match (expected, got) {
        (Outcome::Unknown(what), _) | (_, Outcome::Unknown(what)) => Verdict::Unknown(what.clone()),
        (expected, got) if expected == got => Verdict::Same,
        (Outcome::Memory(expected), Outcome::Memory(got)) => {
            let words = expected.chunks_exact(4).zip(got.chunks_exact(4)).enumerate();
            let differing = words.filter(|(_, (expected, got))| expected != got);
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
            let lines = differing.map(|(index, (expected, got))| {
                let (thread, offset) = (index / 64, index % 64 * 4);
                format!("thread {thread} +{offset}: {:08x}, not {:08x}", word(got), word(expected))
            });
            Verdict::Different(lines.take(3).collect::<Vec<_>>().join("; "))
        }
        (expected, got) => {
            let said = |outcome: &Outcome| match outcome {
                Outcome::Fault(what) => what.clone(),
                _ => "it ends".to_string(),
            };
            Verdict::Different(format!("{}, not: {}", said(got), said(expected)))
        }
    }
}
