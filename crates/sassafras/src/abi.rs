//! The calling convention, as ptxas's code shows it (the same on all targets from sm_75 to sm_120).
//!
//! * Parameters take R4 to R15, each the first free registers that its alignment allows; a parameter that finds no
//!   place goes to the stack, from the caller's stack pointer upwards.
//! * A result of up to twelve words comes back in R4 and up. A larger one is written through a local address that
//!   the caller hands over as if it were the first parameter.
//! * R20:R21 is the return address; `RET` reads it.
//! * R2, R16 to R19, R22 to R31, and from R32 on every register whose number modulo 8 is 4 to 7, belong to the caller;
//!   so do B6 and up. Predicates and uniform registers below UR36 do not survive a call.
//!
//! Seen with `ptxas -c` on callers and callees of functions with parameters of many shapes.

use cubin::module::RegisterRule;
use std::ops::RangeInclusive;

/// First register of parameters and results, and how many there are.
pub const FIRST: u8 = 4;
pub const WORDS: u32 = 12;
pub const RETURN_ADDRESS: u8 = 20;
const RETURN_ADDRESS_HIGH: u8 = RETURN_ADDRESS + 1;
/// Where the address of an indirect call is put: no parameter lies there, nor the frame pointer.
pub fn callee(function: &ori::Function) -> u8 {
    if function.moving_stack { 18 } else { 2 }
}
/// The first convergence barrier that survives a call.
pub const FIRST_SAVED_BARRIER: u8 = 6;
/// The first uniform register that survives a call, as ptxas has it. We keep nothing there across calls.
const FIRST_SAVED_UNIFORM: u32 = 36;
/// A kernel that calls has at least so many registers.
pub const LEAST_REGISTERS: u32 = 24;

/// Must a function give this register back as it found it?
pub fn is_saved(register: u8) -> bool {
    match register {
        2 | 16..=19 | 22..=31 => true,
        0..=31 => false,
        _ => register % 8 >= 4,
    }
}

/// What ptxas tells debuggers of each register, in its order. General registers are file 5, uniform ones file 11; files 1,
/// 2 and 9 have predicates and barriers, and the second register of the last two is never named.
pub fn register_rules(sm: u16) -> Vec<RegisterRule> {
    let last_uniform = if sm >= 100 { 77 } else { 61 };
    let file = |file: u32, numbers: RangeInclusive<u32>, survives: fn(u32) -> bool| {
        numbers.map(move |n| RegisterRule { number: file << 24 | n, survives: survives(n) })
    };
    // The stack pointer and the return address survive until they are said to be saved elsewhere.
    let is_kept = |n: u32| matches!(n as u8, 1 | RETURN_ADDRESS..=RETURN_ADDRESS_HIGH) || is_saved(n as u8);
    let lost = |_| false;
    file(9, 0..=0, lost)
        .chain(file(9, 2..=6, lost))
        .chain(file(11, 4..=last_uniform, |n| (FIRST_SAVED_UNIFORM..64).contains(&n)))
        .chain(file(1, 0..=0, lost))
        .chain(file(2, 0..=0, lost))
        .chain(file(2, 2..=6, lost))
        .chain(file(5, 0..=254, is_kept))
        .collect()
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// From this register on.
    Register(u8),
    /// At this offset from the caller's stack pointer.
    Stack(u32),
}

/// Size and alignment in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub bytes: u32,
    pub align: u32,
}

impl Shape {
    pub fn words(self) -> u32 {
        self.bytes.div_ceil(4).max(1)
    }
}

/// Where everything that goes in and out of a function is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    pub params: Vec<Slot>,
    /// The register with the address that large results are written to.
    pub result_address: Option<u8>,
    /// Bytes of parameters on the stack.
    pub stack: u32,
}

impl Signature {
    pub fn new(results: &[Shape], params: &[Shape]) -> Signature {
        let mut taken = [false; WORDS as usize];
        let mut signature = Signature::default();
        if results.iter().map(|r| r.words()).sum::<u32>() > WORDS {
            signature.result_address = place(&mut taken, Shape { bytes: 4, align: 4 });
        }
        for param in params {
            let slot = place(&mut taken, *param).map_or_else(
                || {
                    let offset = signature.stack.next_multiple_of(param.align.max(4));
                    signature.stack = offset + 4 * param.words();
                    Slot::Stack(offset)
                },
                Slot::Register,
            );
            signature.params.push(slot);
        }
        signature
    }
}

fn place(taken: &mut [bool], shape: Shape) -> Option<u8> {
    let (words, step) = (shape.words() as usize, (shape.align as usize / 4).max(1));
    let at = (0..taken.len())
        .step_by(step)
        .find(|at| taken.get(*at..at + words).is_some_and(|w| w.iter().all(|t| !t)))?;
    taken[at..at + words].fill(true);
    Some(FIRST + at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const B32: Shape = Shape { bytes: 4, align: 4 };
    const B64: Shape = Shape { bytes: 8, align: 8 };

    /// What ptxas does with the same declarations.
    #[test]
    fn parameters_fill_the_holes() {
        use Slot::{Register, Stack};
        let quad = Shape { bytes: 16, align: 16 };
        let s = Signature::new(&[], &[B32, B64, B32, quad]);
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8)]);
        let long = Shape { bytes: 20, align: 16 };
        let s = Signature::new(
            &[],
            &[B32, B64, Shape { bytes: 1, align: 1 }, Shape { bytes: 2, align: 2 }, long],
        );
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8), Stack(0)]);
        let mut many = vec![B32; 11];
        many.extend([B64, B32]);
        let s = Signature::new(&[], &many);
        assert_eq!((s.params[11], s.params[12]), (Stack(0), Register(15)));
    }

    /// The rules that ptxas writes for `-g`, as ranges.
    #[test]
    fn registers_for_debuggers() {
        let ranges = |sm: u16| {
            let mut all: Vec<(bool, u32, u32)> = Vec::new();
            for RegisterRule { number, survives } in register_rules(sm) {
                match all.last_mut().filter(|(kept, _, last)| *kept == survives && *last + 1 == number) {
                    Some((_, _, last)) => *last = number,
                    None => all.push((survives, number, number)),
                }
            }
            all
        };
        let first = [
            (false, 0x900_0000, 0x900_0000),
            (false, 0x900_0002, 0x900_0006),
            (false, 0xb00_0004, 0xb00_0023),
            (true, 0xb00_0024, 0xb00_003d),
        ];
        let general = [
            (false, 0x500_0000, 0x500_0000),
            (true, 0x500_0001, 0x500_0002),
            (false, 0x500_0003, 0x500_000f),
            (true, 0x500_0010, 0x500_001f),
            (false, 0x500_0020, 0x500_0023),
            (true, 0x500_0024, 0x500_0027),
        ];
        let hopper = ranges(90);
        assert_eq!(hopper[..4], first);
        assert_eq!(hopper[7..13], general);
        assert_eq!(hopper.last(), Some(&(true, 0x500_00fc, 0x500_00fe)));
        let blackwell = [(true, 0xb00_0024, 0xb00_003f), (false, 0xb00_0040, 0xb00_004d)];
        assert_eq!(ranges(100)[3..5], blackwell);
    }

    #[test]
    fn a_large_result_goes_through_memory() {
        let s = Signature::new(&[Shape { bytes: 64, align: 8 }], &[B32]);
        assert_eq!((s.result_address, s.params[0]), (Some(4), Slot::Register(5)));
        assert_eq!(Signature::new(&[Shape { bytes: 48, align: 8 }], &[B32]).result_address, None);
    }
}
