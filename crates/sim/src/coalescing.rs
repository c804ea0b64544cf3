//! What the accesses of a warp's lanes cost the memory system: lines and sectors of global memory, passes through the
//! banks of shared memory.
//!
//! | rule | source |
//! |---|---|
//! | a line has 128 bytes, of which sectors of 32 bytes are fetched by themselves | CUDA programming guide; ncu counts sectors |
//! | shared memory has 32 banks of 4 bytes; lanes that read the same word share it | CUDA programming guide |
//! | accesses of 8 bytes go by half warps, of 16 bytes by quarters, unless two of those ask for the same bytes | public microbenchmarks; `tests/microbench/shared_banks.ptx` |

use crate::lanes::{LANES, Lanes, lanes};

/// Bytes of a line and of a sector.
pub const LINE: u64 = 128;
/// See [`LINE`].
pub const SECTOR: u64 = 32;
/// Banks of shared memory, and the bytes of each.
const BANKS: usize = 32;
const BANK_BYTES: u64 = 4;
/// Local memory in the numbering of lines: far above what allocations have.
const LOCAL: u64 = 1 << 50;

/// Sectors of a line of global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The address in lines.
    pub number: u64,
    /// Bit n: the sector n.
    pub sectors: u8,
}

/// Adds an access to lines, which are few.
fn add(lines: &mut Vec<Line>, address: u64, bytes: u64) {
    let mut at = address / SECTOR;
    let last = address.saturating_add(bytes.max(1) - 1) / SECTOR;
    while at <= last {
        let (number, bit) = (at * SECTOR / LINE, 1 << (at % (LINE / SECTOR)));
        match lines.iter_mut().rev().find(|line| line.number == number) {
            Some(line) => line.sectors |= bit,
            None => lines.push(Line { number, sectors: bit }),
        }
        at += 1;
    }
}

/// The lines of an access of global memory.
pub fn lines(bytes: u8, mask: u32, addresses: &Lanes) -> Vec<Line> {
    let mut out = Vec::new();
    lanes(mask).for_each(|lane| add(&mut out, addresses[lane], bytes.into()));
    out
}

/// The lines of a run of bytes.
pub fn run(address: u64, bytes: u64) -> Vec<Line> {
    let mut out = Vec::new();
    if bytes > 0 {
        add(&mut out, address, bytes);
    }
    out
}

/// Adds lines to others.
pub fn merge(lines: &mut Vec<Line>, more: &[Line]) {
    for new in more {
        match lines.iter_mut().rev().find(|line| line.number == new.number) {
            Some(line) => line.sectors |= new.sectors,
            None => lines.push(*new),
        }
    }
}

/// The lines of an access of the threads' own memory: a word of all lanes lies side by side.
pub fn local_lines(bytes: u8, mask: u32, offset: impl Fn(usize) -> u64) -> Vec<Line> {
    let mut out = Vec::new();
    for lane in lanes(mask) {
        for word in 0..u64::from(bytes).div_ceil(BANK_BYTES) {
            let place = (offset(lane) / BANK_BYTES + word) * LINE + lane as u64 * BANK_BYTES;
            add(&mut out, LOCAL.wrapping_add(place), BANK_BYTES);
        }
    }
    out
}

/// Passes through the banks for an access of shared memory.
pub fn passes(bytes: u8, mask: u32, addresses: &Lanes) -> u16 {
    let parts = match bytes {
        16 => 4,
        8 => 2,
        _ => 1,
    };
    let size = LANES / parts;
    let part = |index: usize| mask & (u32::MAX.unbounded_shr((LANES - size) as u32) << (index * size));
    let (mut sum, mut before) = (0, 0);
    for mask in (0..parts).map(part).filter(|mask| *mask != 0) {
        let (passes, words) = passes_of(bytes, mask, addresses);
        // Parts that ask for the same words go together.
        sum += if words == before { 0 } else { passes };
        before = words;
    }
    sum
}

/// The most different words in one bank, and a number that tells sets of words apart.
fn passes_of(bytes: u8, mask: u32, addresses: &Lanes) -> (u16, u64) {
    let mut words: [(u64, u8); LANES * 4] = [(0, 0); LANES * 4];
    let mut count = 0;
    for lane in lanes(mask) {
        for word in 0..u64::from(bytes).div_ceil(BANK_BYTES).min(4) {
            let word = addresses[lane] / BANK_BYTES + word;
            words[count] = (word, (word % BANKS as u64) as u8);
            count += 1;
        }
    }
    let words = &mut words[..count];
    words.sort_unstable();
    let mut in_bank = [0u16; BANKS];
    let (mut last, mut set) = (None, 1u64);
    for (word, bank) in words.iter() {
        if last != Some(*word) {
            in_bank[usize::from(*bank)] += 1;
            set = set.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word + 1);
        }
        last = Some(*word);
    }
    (in_bank.into_iter().max().unwrap_or(0), set)
}

/// How many lanes at most have the same address.
pub fn same(mask: u32, addresses: &Lanes) -> u8 {
    runs(mask, addresses).0
}

/// How many different addresses there are.
pub fn distinct(mask: u32, addresses: &Lanes) -> u8 {
    runs(mask, addresses).1
}

fn runs(mask: u32, addresses: &Lanes) -> (u8, u8) {
    let mut all: Lanes = [0; LANES];
    let mut count = 0;
    for lane in lanes(mask) {
        all[count] = addresses[lane];
        count += 1;
    }
    let all = &mut all[..count];
    all.sort_unstable();
    let (mut longest, mut length, mut different) = (0, 0, 0);
    for index in 0..all.len() {
        let goes_on = index > 0 && all[index] == all[index - 1];
        length = if goes_on { length + 1 } else { 1 };
        different += u8::from(!goes_on);
        longest = longest.max(length);
    }
    (longest, different)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stride(bytes: u64) -> Lanes {
        std::array::from_fn(|lane| 0x1000 + lane as u64 * bytes)
    }

    fn sectors(lines: &[Line]) -> u32 {
        lines.iter().map(|line| line.sectors.count_ones()).sum()
    }

    #[test]
    fn sectors_are_those_that_lanes_touch() {
        // 32 words side by side: one line, four sectors; from 4 bytes before a line on, two lines and five sectors.
        let all = u32::MAX;
        let found = |bytes: u8, addresses: &Lanes| {
            let lines = lines(bytes, all, addresses);
            (lines.len(), sectors(&lines))
        };
        assert_eq!(found(4, &stride(4)), (1, 4));
        assert_eq!(found(4, &stride(4).map(|address| address - 4)), (2, 5));
        assert_eq!(found(4, &stride(8)), (2, 8));
        assert_eq!(found(4, &stride(32)), (8, 32));
        assert_eq!(found(4, &stride(128)), (32, 32));
        assert_eq!(found(16, &stride(16)), (4, 16));
        assert_eq!(found(1, &stride(1)), (1, 1));
        assert_eq!(found(4, &stride(0)), (1, 1));
        assert_eq!(lines(4, 0, &stride(4)), []);
        assert_eq!(run(0x10f0, 0x40).len(), 2);
        assert_eq!(sectors(&run(0x10f0, 0x40)), 3);
    }

    #[test]
    fn local_words_lie_side_by_side() {
        let lines = local_lines(4, u32::MAX, |_| 16);
        assert_eq!((lines.len(), sectors(&lines)), (1, 4));
        let lines = local_lines(16, u32::MAX, |_| 16);
        assert_eq!((lines.len(), sectors(&lines)), (4, 16));
        let lines = local_lines(4, u32::MAX, |lane| 4 * lane as u64);
        assert_eq!((lines.len(), sectors(&lines)), (32, 32));
    }

    #[test]
    fn passes_are_words_of_one_bank() {
        let all = u32::MAX;
        for (bytes, step, want) in
            [(4, 4, 1), (4, 0, 1), (4, 8, 2), (4, 16, 4), (4, 128, 32), (4, 12, 1), (1, 1, 1), (2, 2, 1)]
        {
            assert_eq!(passes(bytes, all, &stride(step)), want, "{bytes} bytes every {step}");
        }
        // Wide accesses take as many passes as they have bytes, if they are free of conflicts; all the same: one.
        for (bytes, step, want) in [(8, 8, 2), (16, 16, 4), (8, 0, 1), (16, 0, 1), (16, 32, 8), (8, 128, 32)]
        {
            assert_eq!(passes(bytes, all, &stride(step)), want, "{bytes} bytes every {step}");
        }
        assert_eq!(passes(4, 0, &stride(4)), 0);
        assert_eq!(passes(4, 0x0001_0001, &stride(8)), 2);
        assert_eq!((same(all, &stride(0)), same(all, &stride(4)), distinct(0xff, &stride(4))), (32, 1, 8));
    }
}
