//! The calling convention, as ptxas's code shows it (the same on all targets from sm_75 to sm_120).
//!
//! * Parameters take R4 to R15, each the first free registers that its alignment allows; a parameter that finds no
//!   place goes to the stack, from the caller's stack pointer upwards.
//! * A result of up to twelve words comes back in R4 and up. A larger one is written through a local address that
//!   the caller hands over as if it were the first parameter.
//! * R20:R21 is the return address; `RET` reads it.
//! * R2, R16 to R19, R22 to R31, and from R32 on every register whose number modulo 8 is 4 to 7, belong to the caller;
//!   so do B6 and up. Predicates and uniform registers below UR36 do not survive a call.
//! * A pragma gives parameters and results another number of registers from R4 on ([`Room`]). Those don't belong to the
//!   caller then; the return address is in the next two from a multiple of 4 on, if that is behind R20, and R20 and R21
//!   belong to the caller like their neighbours.
//!
//! Seen with `ptxas -c` on callers and callees of functions with parameters of many shapes.

use cubin::module::RegisterRule;
use ori::{Fixed, Function, Op, Pseudo};
use std::ops::{Range, RangeInclusive};

/// First register of parameters and results.
pub const FIRST: u8 = 4;
const USUAL_WORDS: u8 = 12;
const LEAST_RETURN_ADDRESS: u8 = 20;
/// The first convergence barrier that survives a call.
pub const FIRST_SAVED_BARRIER: u8 = 6;
/// The first uniform register that survives a call, as ptxas has it. We keep nothing there across calls.
const FIRST_SAVED_UNIFORM: u32 = 36;

/// How many registers a function has for its parameters, and for its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Words(u8),
    /// As many as it takes, if these are enough.
    UpTo(u8),
}

impl Room {
    pub const USUAL: Room = Room::Words(USUAL_WORDS);

    fn most(self) -> u8 {
        match self {
            Room::Words(words) | Room::UpTo(words) => words,
        }
    }
}

/// Which registers a call has for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    /// How many there are for parameters, and for results.
    words: u8,
}

impl Convention {
    pub const USUAL: Convention = Convention { words: USUAL_WORDS };
    /// With the most words the return address is in R248 and R249.
    pub const MOST_WORDS: u8 = 244;

    pub fn new(words: u8) -> Convention {
        Convention { words: words.min(Convention::MOST_WORDS) }
    }

    /// The most words that there may be where functions have so many registers.
    pub fn most_words(registers: u32) -> u8 {
        let last_address = registers.saturating_sub(AROUND_ADDRESS) / 4 * 4;
        let words = last_address.saturating_sub(FIRST.into());
        words.clamp(USUAL_WORDS.into(), Convention::MOST_WORDS.into()) as u8
    }

    /// That of a call, or of the function that begins or ends there.
    pub fn of(fixed: &Fixed) -> Convention {
        fixed.words.map_or(Convention::USUAL, Convention::new)
    }

    /// How a function is called, if it is no kernel.
    pub fn own(function: &Function) -> Option<Convention> {
        let mut insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
        let entry = insts.find(|i| function.insts[**i].op == Op::Pseudo(Pseudo::Entry))?;
        function.fixed.get(entry).map(Convention::of)
    }

    /// What [`Fixed`] says of it.
    pub fn unusual_words(self) -> Option<u8> {
        Some(self.words).filter(|words| *words != USUAL_WORDS)
    }

    pub fn return_address(self) -> u8 {
        (FIRST + self.words).next_multiple_of(4).max(LEAST_RETURN_ADDRESS)
    }

    fn return_registers(self) -> Range<u8> {
        self.return_address()..self.return_address() + 2
    }

    /// Where the address of an indirect call is put: no parameter lies there, nor the frame pointer.
    pub fn callee(self, function: &Function) -> u8 {
        if function.moving_stack { self.return_registers().end } else { 2 }
    }

    /// A function that calls or is called has at least so many registers.
    pub fn least_registers(self) -> u32 {
        u32::from(self.return_address()) + AROUND_ADDRESS
    }

    /// Must a function give this register back as it found it?
    pub fn is_saved(self, register: u8) -> bool {
        let is_callers = matches!(register, 2 | 16..=31) || register >= 32 && register % 8 >= 4;
        let has_parameter = (FIRST..FIRST + self.words).contains(&register);
        is_callers && !has_parameter && !self.return_registers().contains(&register)
    }

    /// The return address, and registers that someone called in this way may overwrite but not someone called in another.
    pub fn endangers(self, own: Convention) -> impl Iterator<Item = u8> {
        let saved = (0..u8::MAX).filter(move |r| own.is_saved(*r) && !self.is_saved(*r));
        own.return_registers().chain(saved)
    }
}

/// The return address has two registers, and as many belong to the system.
const AROUND_ADDRESS: u32 = 4;

/// What ptxas tells debuggers of each register, in its order. General registers are file 5, uniform ones file 11; files 1,
/// 2 and 9 have predicates and barriers, and the second register of the last two is never named.
pub fn register_rules(sm: u16, convention: Convention) -> Vec<RegisterRule> {
    let last_uniform = if sm >= 100 { 77 } else { 61 };
    let file = |file: u32, numbers: RangeInclusive<u32>, survives: fn(u32) -> bool| {
        numbers.map(move |n| RegisterRule { number: file << 24 | n, survives: survives(n) })
    };
    // The stack pointer and the return address survive until they are said to be saved elsewhere.
    let is_kept = move |n: u8| {
        n == Function::STACK_POINTER || convention.return_registers().contains(&n) || convention.is_saved(n)
    };
    let general = (0..u8::MAX).map(|n| RegisterRule { number: 5 << 24 | u32::from(n), survives: is_kept(n) });
    let lost = |_| false;
    file(9, 0..=0, lost)
        .chain(file(9, 2..=6, lost))
        .chain(file(11, 4..=last_uniform, |n| (FIRST_SAVED_UNIFORM..64).contains(&n)))
        .chain(file(1, 0..=0, lost))
        .chain(file(2, 0..=0, lost))
        .chain(file(2, 2..=6, lost))
        .chain(general)
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

impl Default for Convention {
    fn default() -> Convention {
        Convention::USUAL
    }
}

/// Where everything that goes in and out of a function is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    pub convention: Convention,
    pub params: Vec<Slot>,
    /// The register with the address that large results are written to.
    pub result_address: Option<u8>,
    /// Bytes of parameters on the stack.
    pub stack: u32,
}

impl Signature {
    pub fn new(room: Room, results: &[Shape], params: &[Shape]) -> Signature {
        let mut taken = vec![false; usize::from(room.most())];
        let mut signature = Signature::default();
        let mut result_words: u32 = results.iter().map(|r| r.words()).sum();
        if result_words > u32::from(room.most()) {
            signature.result_address = place(&mut taken, Shape { bytes: 4, align: 4 });
            result_words = 0;
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
        signature.convention = Convention::new(match room {
            Room::Words(words) => words,
            Room::UpTo(_) => {
                let end = taken.iter().rposition(|taken| *taken).map_or(0, |last| last + 1);
                (result_words as u8).max(end as u8)
            }
        });
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
        let s = Signature::new(Room::USUAL, &[], &[B32, B64, B32, quad]);
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8)]);
        let long = Shape { bytes: 20, align: 16 };
        let s = Signature::new(
            Room::USUAL,
            &[],
            &[B32, B64, Shape { bytes: 1, align: 1 }, Shape { bytes: 2, align: 2 }, long],
        );
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8), Stack(0)]);
        let mut many = vec![B32; 11];
        many.extend([B64, B32]);
        let s = Signature::new(Room::USUAL, &[], &many);
        assert_eq!((s.params[11], s.params[12]), (Stack(0), Register(15)));
    }

    /// The rules that ptxas writes for `-g`, as ranges.
    #[test]
    fn registers_for_debuggers() {
        let ranges = |sm: u16| {
            let mut all: Vec<(bool, u32, u32)> = Vec::new();
            for RegisterRule { number, survives } in register_rules(sm, Convention::USUAL) {
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
        let address = |room, bytes| Signature::new(room, &[Shape { bytes, align: 8 }], &[B32]).result_address;
        assert_eq!(address(Room::USUAL, 64), Some(4));
        assert_eq!(address(Room::USUAL, 48), None);
        assert_eq!(address(Room::UpTo(20), 80), None);
        assert_eq!(address(Room::UpTo(20), 96), Some(4));
    }

    /// As ptxas has it for a pragma with the number.
    #[test]
    fn the_return_address_is_behind_the_parameters() {
        let rows =
            [(1, 20), (12, 20), (16, 20), (17, 24), (20, 24), (21, 28), (29, 36), (40, 44), (244, 248)];
        for (words, address) in rows {
            assert_eq!(Convention::new(words).return_address(), address, "{words}");
        }
        // `all`: as many as fit below a limit on registers.
        let most = [24, 28, 32, 47, 48, 255].map(Convention::most_words);
        assert_eq!(most, [16, 20, 24, 36, 40, 244]);
        let aligned = Shape { bytes: 12, align: 16 };
        let holes = [B32, aligned, aligned, aligned, aligned];
        let of = |room| Signature::new(room, &[], &holes);
        assert_eq!(of(Room::UpTo(244)).convention, Convention::new(19));
        assert_eq!(of(Room::Words(40)).params[4], Slot::Register(20));
        assert_eq!(of(Room::Words(18)).params[3..], [Slot::Register(16), Slot::Stack(0)]);
    }

    /// Which registers ptxas's code saves before it overwrites all up to R55.
    #[test]
    fn parameters_are_not_the_callers() {
        let saved = |words: u8| {
            let convention = Convention::new(words);
            (0..56).filter(|r| convention.is_saved(*r)).collect::<Vec<u8>>()
        };
        let of = |ranges: &[RangeInclusive<u8>]| ranges.iter().cloned().flatten().collect::<Vec<u8>>();
        assert_eq!(saved(12), of(&[2..=2, 16..=19, 22..=31, 36..=39, 44..=47, 52..=55]));
        assert_eq!(saved(13), of(&[2..=2, 17..=19, 22..=31, 36..=39, 44..=47, 52..=55]));
        assert_eq!(saved(17), of(&[2..=2, 21..=23, 26..=31, 36..=39, 44..=47, 52..=55]));
        assert_eq!(saved(29), of(&[2..=2, 38..=39, 44..=47, 52..=55]));
        assert_eq!(saved(40), of(&[2..=2, 46..=47, 52..=55]));
    }
}
