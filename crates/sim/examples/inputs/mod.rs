//! Inputs of one-instruction kernels, for the examples that run them.

pub const THREADS: usize = 32;
pub const BYTES: usize = 256 * THREADS;

/// 256 bytes per thread: edge values, random bits, and words whose exponent as an f32 is near a limit. The fourth word, an offset into shared and local memory
/// for some kernels, stays small.
pub fn inputs(set: u64) -> Vec<u8> {
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
    for thread in 0..THREADS as u64 {
        for word in 0..32u64 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let random = state ^ state >> 31;
            let value = match set % 4 {
                0 => EDGES[((thread + word * 5) % 19) as usize],
                1 => EDGES[(random % 19) as usize],
                2 => near_limits(random),
                _ => random,
            };
            // Operands end at byte 100; %r4 is the upper half of the second word.
            out.extend(match word {
                1 => (value & 0xffff_ffff).to_le_bytes(),
                _ => value.to_le_bytes(),
            });
        }
    }
    out
}

/// FNV-1a, 64 bits.
pub fn hash<'b>(bytes: impl Iterator<Item = &'b u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
