//! The calling convention, as ptxas's code shows it (the same on all targets from sm_75 to sm_120).
//!
//! * Parameters take R4 to R15, first fit by alignment; one that doesn't fit goes to the stack, from the caller's stack
//!   pointer upwards.
//! * A result of up to twelve words is returned in R4 and up. A larger one is written through a local address that the
//!   caller passes as if it were the first parameter.
//! * R20:R21 is the return address; `RET` reads it.
//! * Callee-saved are R2, R16 to R19, R22 to R31, from R32 on every register whose number modulo 8 is 4 to 7, and B6 and
//!   up. Predicates and uniform registers below UR36 are caller-saved.
//! * A pragma gives parameters and results another number of registers from R4 on ([`ParamRegisters`]), which are not
//!   callee-saved then; the return address is in the next two from a multiple of 4 on, if that is after R20, and R20 and
//!   R21 are callee-saved like their neighbours.
//! * `.abi_preserve N`: R2, and N registers from R16 on, are callee-saved, but for the last two that begin with an even
//!   number, which have the return address (R14 and R15 if there are no two). All parameters, and all results, are in
//!   registers: as many as they have words laid out in memory, from R4 on if these are twelve or less. More are after
//!   the preserved registers, as high as they can be with one of the numbers of registers ([`LEVELS`]) that more warps
//!   can run with than with the next.
//! * `.abi_preserve_control N`: barriers from B_N on are callee-saved, in place of those from B6 on.
//!
//! * A call of a function that was compiled before its caller clobbers nothing from the first register, predicate and
//!   barrier on that the function and what it calls leave alone ([`Convention::clobbering`]): ptxas keeps values there,
//!   too.
//! * A function that only such calls reach preserves no register, as with LLVM's `preserve_none`: its callers keep values
//!   beyond those that it writes, or spill what they have there. A spill costs no more than the callee's save, is done for
//!   live values only, and once, however many calls a value lives across; registers are as many as if the function were
//!   inlined. A function that writes more registers than `preserve_none_registers` saves those of the ABI after all: the
//!   registers of a chain of calls add up, and take occupancy ([`Clobbers`]).
//! * A library routine that is part of its caller's code ([`Convention::of_routine`]) is ours alone: parameters, results
//!   and in the last two registers the return address are in a window of general registers, which it clobbers with the
//!   predicates from P3 on and the first barriers, and nothing else.
//!
//! Seen with `ptxas -c` on callers and callees of functions with parameters of many shapes. Where `.abi_preserve` has
//! parameters, ptxas says itself in what `nvlink` compares: the rule gives what it says for 1,088 pairs of a number of
//! registers and one of words on sm_80, 86, 90, 100 and 120.

use cubin::module::RegisterRule;
use ori::{Fixed, Function, Op, Pseudo};
use std::ops::{Range, RangeInclusive};

/// First register of parameters and results.
pub const FIRST: u8 = 4;
const USUAL_WORDS: u8 = 12;
const LEAST_RETURN_ADDRESS: u8 = 20;
/// The first of the registers that `.abi_preserve` counts.
const FIRST_PRESERVED: u8 = 16;
/// One past the last register that a function can have.
const REGISTERS_END: u8 = 253;
/// The barriers that a call clobbers, from B0 on.
const USUAL_BARRIERS: u8 = 6;
/// A library routine clobbers predicates from this one on, and barriers from B0 on.
pub const FIRST_ROUTINE_PREDICATE: u8 = 3;
pub const ROUTINE_BARRIERS: u8 = 3;
/// Numbers of registers with an occupancy of 64, 48, 40, 36, 32, 28, 24, 20, 16, 12 and 8 warps.
const LEVELS: [u32; 11] = [32, 40, 48, 56, 64, 72, 80, 96, 128, 168, 256];
/// The first callee-saved uniform register, as ptxas has it. No value is kept there across calls here.
const FIRST_SAVED_UNIFORM: u32 = 36;

/// No thread has a stack as large as this: what is behind it needs no place of its own.
pub const MOST_STACK: u32 = 1 << 31;

/// How many registers a function has for its parameters, and for its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamRegisters {
    Words(u8),
    /// As many as it takes, if these are enough.
    UpTo(u8),
}

impl ParamRegisters {
    pub const USUAL: ParamRegisters = ParamRegisters::Words(USUAL_WORDS);

    fn most(self) -> u8 {
        match self {
            ParamRegisters::Words(words) | ParamRegisters::UpTo(words) => words,
        }
    }
}

/// What pragmas and directives ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub registers: Option<ParamRegisters>,
    /// The number of `.abi_preserve`; then there are as many parameter registers as it takes.
    pub preserved: Option<u8>,
    /// The number of `.abi_preserve_control`.
    pub barriers: Option<u8>,
}

impl Asked {
    /// How many registers there are for parameters, and for results.
    fn registers(self, results: &[Shape], params: &[Shape]) -> ParamRegisters {
        match self.preserved {
            Some(_) => {
                ParamRegisters::Words(u8::try_from(words_in_memory(results, params)).unwrap_or(u8::MAX))
            }
            None => self.registers.unwrap_or(ParamRegisters::USUAL),
        }
    }

    /// What `nvlink` compares of it, after the types of results and parameters: how many registers they have; with
    /// `.abi_preserve` the first of them and the return address, too; which barriers and registers a call may clobber.
    pub fn text(self, results: &[Shape], params: &[Shape]) -> String {
        let mut text = match (self.preserved, self.registers) {
            (Some(_), _) => {
                let convention = Signature::new(self, results, params).convention;
                let (first, address) = (convention.first(), convention.return_address());
                format!("{}p{first}r{address}", convention.words)
            }
            (None, Some(ParamRegisters::Words(words))) => words.to_string(),
            (None, Some(ParamRegisters::UpTo(_))) => "a".to_string(),
            (None, None) => String::new(),
        };
        if let Some(barriers) = self.barriers {
            text += &format!("sBx{:08x}", (0..barriers).fold(0u32, |mask, n| mask | 1 << n));
        }
        if self.preserved.is_some() {
            let convention = Convention::asked(0, self);
            let is_lost = |r| r != Function::STACK_POINTER && r != sass::RZ && !convention.is_callers(r);
            let digit = |n: u8| (0..4).fold(0, |mask, bit| mask | u32::from(is_lost(4 * n + bit)) << bit);
            text += "sRx";
            text.extend((0..64).rev().map(digit).filter_map(|digit| char::from_digit(digit, 16)));
        }
        if text.is_empty() { text } else { format!("|{text}") }
    }
}

/// How many words parameters have one after the other in memory, or results if that is more.
pub fn words_in_memory(results: &[Shape], params: &[Shape]) -> u32 {
    let append = |end: u32, shape: &Shape| end.next_multiple_of((shape.align / 4).max(1)) + shape.words();
    let of = |list: &[Shape]| list.iter().fold(0, append);
    of(results).max(of(params))
}

/// The registers of a call: parameters, callee-saved ones, the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    /// How many there are for parameters, and for results.
    words: u8,
    /// How many are preserved, if not the usual ones.
    preserved: Option<u8>,
    /// How many barriers are not.
    barriers: u8,
    /// Of a library routine: the first of the registers that it clobbers, and how many there are.
    window: Option<(u8, u8)>,
    /// The callee writes no general register from this one on, and no predicate.
    untouched: Option<u8>,
    untouched_predicates: Option<u8>,
    /// It saves no general register.
    preserves_none: bool,
}

/// What a function that was compiled before its callers writes, with what it calls: registers of each file from the
/// first on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clobbers {
    pub registers: u32,
    pub predicates: u8,
    pub barriers: u8,
    /// Are callee-saved registers of the ABI clobbered, too?
    pub preserves_none: bool,
}

impl Clobbers {
    /// What calls of either clobber.
    pub fn max(self, other: Clobbers) -> Clobbers {
        Clobbers {
            registers: self.registers.max(other.registers),
            predicates: self.predicates.max(other.predicates),
            barriers: self.barriers.max(other.barriers),
            preserves_none: self.preserves_none || other.preserves_none,
        }
    }
}

impl Convention {
    pub const USUAL: Convention = Convention {
        words: USUAL_WORDS,
        preserved: None,
        barriers: USUAL_BARRIERS,
        window: None,
        untouched: None,
        untouched_predicates: None,
        preserves_none: false,
    };
    /// With the most words the return address is in R248 and R249.
    pub const MOST_WORDS: u8 = 244;
    /// With the most preserved registers it is in R250 and R251.
    pub const MOST_PRESERVED: u8 = 237;

    pub fn new(words: u8) -> Convention {
        Convention { words: words.min(Convention::MOST_WORDS), ..Convention::USUAL }
    }

    fn asked(words: u8, asked: Asked) -> Convention {
        let preserved = asked.preserved.map(|count| count.min(Convention::MOST_PRESERVED));
        let barriers = asked.barriers.unwrap_or(USUAL_BARRIERS);
        Convention { preserved, barriers, ..Convention::new(words) }
    }

    /// The most words that there may be where functions have so many registers.
    pub fn most_words(registers: u32) -> u8 {
        let last_address = registers.saturating_sub(AROUND_ADDRESS) / 4 * 4;
        let words = last_address.saturating_sub(FIRST.into());
        words.clamp(USUAL_WORDS.into(), Convention::MOST_WORDS.into()) as u8
    }

    /// That of a call, or of the function whose entry or return it is.
    pub fn of(fixed: &Fixed) -> Convention {
        let asked = Asked { registers: None, preserved: fixed.preserved, barriers: fixed.barriers };
        let convention = Convention::asked(fixed.words.unwrap_or(USUAL_WORDS), asked);
        Convention {
            window: fixed.window,
            untouched: fixed.untouched,
            untouched_predicates: fixed.untouched_predicates,
            preserves_none: fixed.preserves_none,
            ..convention
        }
    }

    /// How a function is called, if it is no kernel.
    pub fn own(function: &Function) -> Option<Convention> {
        let mut insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
        let entry = insts.find(|i| function.insts[**i].op == Op::Pseudo(Pseudo::Entry))?;
        function.fixed.get(entry).map(Convention::of)
    }

    /// What [`Fixed`] says of it.
    pub fn fixed(self) -> Fixed {
        Fixed {
            words: Some(self.words).filter(|words| *words != USUAL_WORDS),
            preserved: self.preserved,
            barriers: Some(self.barriers).filter(|barriers| *barriers != USUAL_BARRIERS),
            window: self.window,
            untouched: self.untouched,
            untouched_predicates: self.untouched_predicates,
            preserves_none: self.preserves_none,
            ..Fixed::default()
        }
    }

    /// How a function is called of which it is known what it writes (interprocedural register allocation; Chow,
    /// "Minimizing register usage penalty at procedure calls", PLDI 1988).
    pub fn clobbering(self, clobbers: Clobbers) -> Convention {
        let untouched = u8::try_from(clobbers.registers).ok().map(|first| first.max(self.end()));
        Convention {
            untouched,
            untouched_predicates: Some(clobbers.predicates),
            preserves_none: clobbers.preserves_none,
            barriers: self.barriers.min(clobbers.barriers),
            ..self
        }
    }

    /// The first general register from which on the callee writes none, if that is known.
    pub fn first_untouched(self) -> Option<u8> {
        self.untouched
    }

    /// That of a function which saves no general register.
    pub fn preserving_none(self) -> Convention {
        Convention { preserves_none: true, ..self }
    }

    /// Does the function save no general register?
    pub fn preserves_none(self) -> bool {
        self.preserves_none
    }

    /// The convention if the function saves the registers of the ABI.
    pub fn preserving_usual(self) -> Convention {
        Convention { preserves_none: false, ..self }
    }

    /// The first register of parameters and results.
    pub fn first(self) -> u8 {
        if let Some((first, _)) = self.window {
            return first;
        }
        self.preserved.map_or(FIRST, |count| first_of(count.into(), self.words.into()) as u8)
    }

    fn has_parameter(self, register: u8) -> bool {
        (self.first()..self.first() + self.words).contains(&register)
    }

    pub fn return_address(self) -> u8 {
        if let Some((first, count)) = self.window {
            return first + count - 2;
        }
        match self.preserved {
            Some(count) => return_address_of(count.into()) as u8,
            None => (FIRST + self.words).next_multiple_of(4).max(LEAST_RETURN_ADDRESS),
        }
    }

    /// The first convergence barrier that survives a call.
    pub fn first_saved_barrier(self) -> u8 {
        self.barriers
    }

    fn return_registers(self) -> Range<u8> {
        self.return_address()..self.return_address() + 2
    }

    /// The register of the address of an indirect call: neither a parameter nor the frame pointer.
    pub fn callee(self, function: &Function) -> u8 {
        if let Some((first, _)) = self.window {
            return first;
        }
        match function.moving_stack {
            false => 2,
            true if self.first() != FIRST => FIRST,
            true => self.return_registers().end,
        }
    }

    /// Is it that of a library routine of the same function?
    pub fn is_routine(self) -> bool {
        self.window.is_some()
    }

    /// Does the predicate survive a call?
    pub fn saves_predicate(self, predicate: u8) -> bool {
        let is_untouched = self.untouched_predicates.is_some_and(|first| predicate >= first);
        is_untouched || self.is_routine() && predicate < FIRST_ROUTINE_PREDICATE
    }

    /// How a library routine is called whose registers begin with this one.
    pub fn of_routine(first: u8, registers: u8) -> Convention {
        let window = Some((first, registers));
        Convention { barriers: ROUTINE_BARRIERS, window, ..Convention::USUAL }
    }

    /// One past the last register with a parameter, a result, or the return address.
    pub fn end(self) -> u8 {
        let words_end = if self.preserved.is_some() { self.first() + self.words } else { 0 };
        self.return_registers().end.max(words_end)
    }

    /// A function that calls or is called has at least so many registers.
    pub fn least_registers(self) -> u32 {
        u32::from(self.end()) + OF_SYSTEM
    }

    /// Does the register survive a call?
    pub fn is_saved(self, register: u8) -> bool {
        if let Some((first, count)) = self.window {
            return !(first..first + count).contains(&register);
        }
        if self.untouched.is_some_and(|first| register >= first) {
            return true;
        }
        !self.preserves_none
            && self.is_callers(register)
            && !self.has_parameter(register)
            && !self.return_registers().contains(&register)
    }

    fn is_callers(self, register: u8) -> bool {
        match (self.preserved, register) {
            (_, 2) => true,
            (Some(count), FIRST_PRESERVED..) => register - FIRST_PRESERVED < count,
            (None, 16..=31) => true,
            (None, 32..) => register % 8 >= 4,
            _ => false,
        }
    }

    /// The return address, and registers that a callee of this convention may clobber but a function of the other must
    /// preserve.
    pub fn endangers(self, own: Convention) -> impl Iterator<Item = u8> {
        let own = own.preserving_usual();
        let saved = (0..u8::MAX).filter(move |r| own.is_saved(*r) && !self.is_saved(*r));
        own.return_registers().chain(saved)
    }

    /// The barriers among them.
    pub fn endangered_barriers(self, own: Convention) -> Range<u8> {
        own.barriers..self.barriers
    }
}

/// Registers of the system.
const OF_SYSTEM: u32 = 2;
/// The return address has two registers, and as many belong to the system.
const AROUND_ADDRESS: u32 = 2 + OF_SYSTEM;

/// Where the return address is if so many registers are preserved; it may be more than there are.
pub fn return_address_of(preserved: u32) -> u32 {
    (u32::from(FIRST_PRESERVED) - 2 + preserved) / 2 * 2
}

/// Where parameters begin if so many registers are preserved. If there are too many words they overlap with the return
/// address, or end after the last register.
pub fn first_of(preserved: u32, words: u32) -> u32 {
    if words <= USUAL_WORDS.into() {
        return FIRST.into();
    }
    let after = (u32::from(FIRST_PRESERVED) + preserved).next_multiple_of(4);
    let enough = LEVELS.into_iter().find(|level| *level >= after + words + AROUND_ADDRESS);
    let end = enough.unwrap_or(LEVELS[LEVELS.len() - 1]) - OF_SYSTEM;
    (end.saturating_sub(words) / 4 * 4).max(FIRST.into())
}

/// What ptxas tells debuggers of each register, in its order. General registers are file 5, uniform ones file 11; files 1,
/// 2 and 9 have predicates and barriers, and the second register of the last two is never named.
pub fn register_rules(last_uniform: u8, convention: Convention) -> Vec<RegisterRule> {
    let file = |file: u32, numbers: RangeInclusive<u32>, survives: fn(u32) -> bool| {
        numbers.map(move |n| RegisterRule { number: file << 24 | n, survives: survives(n) })
    };
    // The stack pointer and the return address survive until they are said to be saved elsewhere; but not, says ptxas, a
    // return address before the registers that are preserved.
    let is_kept = move |n: u8| {
        let is_address = n >= FIRST_PRESERVED && convention.return_registers().contains(&n);
        let is_beyond = convention.preserved.is_some() && n >= REGISTERS_END;
        n == Function::STACK_POINTER || is_address || is_beyond || convention.is_saved(n)
    };
    let general = (0..u8::MAX).map(|n| RegisterRule { number: 5 << 24 | u32::from(n), survives: is_kept(n) });
    let lost = |_| false;
    file(9, 0..=0, lost)
        .chain(file(9, 2..=6, lost))
        .chain(file(11, 4..=last_uniform.into(), |n| (FIRST_SAVED_UNIFORM..64).contains(&n)))
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

/// Size and alignment in bytes. A parameter of no bytes is on the stack, and as large as the argument (`x[]`).
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

/// The registers and stack slots of parameters and results.
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
    pub fn new(asked: Asked, results: &[Shape], params: &[Shape]) -> Signature {
        let registers = asked.registers(results, params);
        let first = Convention::asked(registers.most(), asked).first();
        let mut taken = vec![false; usize::from(registers.most())];
        let mut signature = Signature::default();
        let mut result_words: u32 = results.iter().map(|r| r.words()).sum();
        if result_words > u32::from(registers.most()) {
            signature.result_address =
                first_fit(&mut taken, Shape { bytes: 4, align: 4 }).map(|at| first.saturating_add(at));
            result_words = 0;
        }
        for param in params {
            let register = if param.bytes == 0 { None } else { first_fit(&mut taken, *param) };
            let slot = register.map_or_else(
                || {
                    let offset = signature.stack.next_multiple_of(param.align.max(4));
                    let bytes = param.bytes.min(MOST_STACK).next_multiple_of(4);
                    signature.stack = offset.saturating_add(bytes).min(MOST_STACK);
                    Slot::Stack(offset)
                },
                |at| Slot::Register(first.saturating_add(at)),
            );
            signature.params.push(slot);
        }
        let words = match registers {
            ParamRegisters::Words(words) => words,
            ParamRegisters::UpTo(_) => {
                let end = taken.iter().rposition(|taken| *taken).map_or(0, |last| last + 1);
                (result_words as u8).max(end as u8)
            }
        };
        signature.convention = Convention::asked(words, asked);
        signature
    }
}

/// The first words that are free.
fn first_fit(taken: &mut [bool], shape: Shape) -> Option<u8> {
    let (words, step) = (shape.words() as usize, (shape.align as usize / 4).max(1));
    let at = (0..taken.len())
        .step_by(step)
        .find(|at| taken.get(*at..at + words).is_some_and(|w| w.iter().all(|t| !t)))?;
    taken[at..at + words].fill(true);
    Some(at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const B32: Shape = Shape { bytes: 4, align: 4 };
    const B64: Shape = Shape { bytes: 8, align: 8 };

    /// What ptxas does with the same declarations.
    #[test]
    fn parameters_are_first_fit() {
        use Slot::{Register, Stack};
        let quad = Shape { bytes: 16, align: 16 };
        let s = Signature::new(Asked::default(), &[], &[B32, B64, B32, quad]);
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8)]);
        let long = Shape { bytes: 20, align: 16 };
        let s = Signature::new(
            Asked::default(),
            &[],
            &[B32, B64, Shape { bytes: 1, align: 1 }, Shape { bytes: 2, align: 2 }, long],
        );
        assert_eq!(s.params, [Register(4), Register(6), Register(5), Register(8), Stack(0)]);
        let mut many = vec![B32; 11];
        many.extend([B64, B32]);
        let s = Signature::new(Asked::default(), &[], &many);
        assert_eq!((s.params[11], s.params[12]), (Stack(0), Register(15)));
    }

    /// The rules that ptxas writes for `-g`, as ranges.
    #[test]
    fn register_rules_for_debuggers() {
        let ranges = |sm: u32| {
            let last_uniform = targets::Target::of_sm(sm).expect("a row").last_debug_uniform;
            let mut all: Vec<(bool, u32, u32)> = Vec::new();
            for RegisterRule { number, survives } in register_rules(last_uniform, Convention::USUAL) {
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
    fn large_result_is_returned_in_memory() {
        let asked = |registers| Asked { registers: Some(registers), ..Asked::default() };
        let address = |registers, bytes| {
            Signature::new(asked(registers), &[Shape { bytes, align: 8 }], &[B32]).result_address
        };
        assert_eq!(address(ParamRegisters::USUAL, 64), Some(4));
        assert_eq!(address(ParamRegisters::USUAL, 48), None);
        assert_eq!(address(ParamRegisters::UpTo(20), 80), None);
        assert_eq!(address(ParamRegisters::UpTo(20), 96), Some(4));
    }

    /// As ptxas has it for a pragma with the number.
    #[test]
    fn return_address_is_after_the_parameters() {
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
        let of =
            |registers| Signature::new(Asked { registers: Some(registers), ..Asked::default() }, &[], &holes);
        assert_eq!(of(ParamRegisters::UpTo(244)).convention, Convention::new(19));
        assert_eq!(of(ParamRegisters::Words(40)).params[4], Slot::Register(20));
        assert_eq!(of(ParamRegisters::Words(18)).params[3..], [Slot::Register(16), Slot::Stack(0)]);
    }

    /// Which registers ptxas's code saves where it writes all up to R55.
    #[test]
    fn parameter_registers_are_not_callee_saved() {
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

    #[test]
    fn what_a_callee_leaves_alone_survives_a_call() {
        let of = |registers| Clobbers { registers, predicates: 2, barriers: 3, preserves_none: false };
        let survives = |registers, register| Convention::USUAL.clobbering(of(registers)).is_saved(register);
        assert_eq!(
            [29, 30, 34, 40, 252].map(|register| survives(34, register)),
            [true, true, true, true, true]
        );
        assert_eq!([0, 3, 15, 20, 32, 33].map(|register| survives(34, register)), [false; 6]);
        // Parameters, results and the return address are written by the caller.
        assert_eq!([4, 15, 20, 21].map(|register| survives(2, register)), [false; 4]);
        // One that preserves none leaves what it doesn't write.
        let none = Convention::USUAL.clobbering(Clobbers { preserves_none: true, ..of(34) });
        assert_eq!(
            [2, 16, 29, 33, 34, 40].map(|r| none.is_saved(r)),
            [false, false, false, false, true, true]
        );
        assert_eq!([0, 1, 2, 6].map(|p| none.saves_predicate(p)), [false, false, true, true]);
        assert_eq!(none.first_saved_barrier(), 3);
        let many = Clobbers { barriers: 9, ..of(34) };
        assert_eq!(Convention::USUAL.clobbering(many).first_saved_barrier(), 6, "the callee saves B6 and up");
    }

    const fn preserving(count: u8) -> Asked {
        Asked { registers: None, preserved: Some(count), barriers: None }
    }

    /// As ptxas has it for the number, with so many words of parameters.
    #[test]
    fn return_address_is_after_preserved_registers() {
        let rows = [
            ((0, 10), (4, 14)),
            ((1, 1), (4, 14)),
            ((2, 12), (4, 16)),
            ((9, 1), (4, 22)),
            ((8, 13), (32, 22)),
            ((8, 15), (28, 22)),
            ((8, 20), (24, 22)),
            ((3, 17), (28, 16)),
            ((40, 20), (56, 54)),
            ((40, 21), (72, 54)),
            ((40, 37), (88, 54)),
            ((8, 228), (24, 22)),
            ((236, 12), (4, 250)),
        ];
        for ((count, words), expected) in rows {
            let convention = Signature::new(preserving(count), &[], &vec![B32; words]).convention;
            assert_eq!((convention.first(), convention.return_address()), expected, "{count} {words}");
        }
        let saved = |count: u8| {
            let convention = Signature::new(preserving(count), &[], &[B32]).convention;
            (0..REGISTERS_END).filter(|r| convention.is_saved(*r)).collect::<Vec<u8>>()
        };
        assert_eq!((saved(0), saved(1), saved(2), saved(3)), (vec![2], vec![2, 16], vec![2], vec![2, 18]));
        assert_eq!(saved(9), [2, 16, 17, 18, 19, 20, 21, 24]);
    }

    /// All parameters and results are in registers.
    #[test]
    fn preserving_functions_pass_all_in_registers() {
        let aligned = Shape { bytes: 12, align: 16 };
        let s = Signature::new(preserving(8), &[], &[B32, aligned, aligned, aligned, aligned, B32]);
        assert_eq!(s.params, [24, 28, 32, 36, 40, 25].map(Slot::Register));
        let large = Shape { bytes: 80, align: 4 };
        let s = Signature::new(preserving(8), &[large], &[B32, B32]);
        assert_eq!((s.result_address, s.params), (None, vec![Slot::Register(24), Slot::Register(25)]));
    }

    /// What ptxas writes for `nvlink`.
    #[test]
    fn convention_text_for_nvlink() {
        let rest = "f".repeat(56);
        let both = Asked { barriers: Some(2), ..preserving(8) };
        assert_eq!(both.text(&[B32], &[B32]), format!("|1p4r22sBx00000003sRx7{rest}f00fff9"));
        assert_eq!(preserving(1).text(&[], &[B64]), format!("|2p4r14sRx7{rest}ffefff9"));
        let barriers = Asked { barriers: Some(6), ..Asked::default() };
        assert_eq!(barriers.text(&[], &[]), "|sBx0000003f");
        let registers = |registers| Asked { registers: Some(registers), ..barriers }.text(&[], &[]);
        assert_eq!(registers(ParamRegisters::Words(16)), "|16sBx0000003f");
        assert_eq!(registers(ParamRegisters::UpTo(244)), "|asBx0000003f");
        assert_eq!(Asked::default().text(&[], &[B32]), "");
    }
}
