//! What an operation computes: the one semantics, on the bits of its arguments.
//!
//! Constant folding, rewrite tests and the simulator call this. An operation, or a form of it, without a row
//! here has no semantics in the compiler and is never folded: [`eval`] gives `None` for a modifier, an argument
//! or an operand suffix that it doesn't know, and never leaves one out.
//!
//! * Arguments are the operation's source operands in the order of the machine's text, one [`Arg`] each, 64-bit
//!   ones whole and the two halves of a half-precision immediate as one word. What may be left out at the end of the text (`PT`, a byte mask) may be left out here.
//! * Predicates are 0 or 1.
//! * The result has the words of the one register result and the predicate results, in order. Predicates
//!   whose meaning isn't known are missing.
//! * `P2R` and `R2P` take the seven predicates as bits of a word, first; `R2P` gives such a word.
//! * A uniform operation means the same as its counterpart on general registers.
//!
//! The meaning of an operation comes from the PTX instruction that ptxas translates to it; where PTX leaves the
//! machine's freedom open, the line says *unverified*.

mod convert;
mod float;
pub mod generic;
mod half;
mod integer;
mod signs;

pub use signs::signed;

use sass::{M, Op};

/// One source operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arg {
    /// The bits; the upper word is zero for operands of one word.
    pub bits: u64,
    /// `-x`, `~x` or `!p`, as the operation has it.
    pub negated: bool,
    /// `|x|`
    pub absolute: bool,
    /// The suffix of the register in the machine's text: `H0_H0`, `B1`, …
    pub part: M,
}

impl Arg {
    /// An operand of one word.
    pub const fn word(bits: u32) -> Arg {
        Arg::wide(bits as u64)
    }

    /// An operand of two words.
    pub const fn wide(bits: u64) -> Arg {
        Arg { bits, negated: false, absolute: false, part: M::Empty }
    }

    /// A predicate operand.
    pub const fn predicate(value: bool) -> Arg {
        Arg::wide(value as u64)
    }

    /// Negates it.
    pub const fn neg(self) -> Arg {
        Arg { negated: !self.negated, ..self }
    }

    /// Takes its absolute value.
    pub const fn abs(self) -> Arg {
        Arg { absolute: true, ..self }
    }

    /// Selects a part of its register.
    pub const fn part(self, part: M) -> Arg {
        Arg { part, ..self }
    }
}

impl From<u32> for Arg {
    fn from(bits: u32) -> Arg {
        Arg::word(bits)
    }
}

/// What an operation gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Results {
    bits: u64,
    words: u8,
    predicates: [bool; 2],
    predicate_count: u8,
}

impl Results {
    fn word(bits: u32) -> Results {
        Results { bits: bits.into(), words: 1, ..Results::default() }
    }

    fn wide(bits: u64) -> Results {
        Results { bits, words: 2, ..Results::default() }
    }

    fn sized(bits: u64, words: u8) -> Results {
        Results { bits, words, ..Results::default() }
    }

    fn predicates(predicates: [bool; 2]) -> Results {
        Results { predicates, predicate_count: 2, ..Results::default() }
    }

    fn with(self, predicate: bool) -> Results {
        Results { predicates: [predicate, false], predicate_count: 1, ..self }
    }

    fn with_two(self, predicates: [bool; 2]) -> Results {
        Results { predicates, predicate_count: 2, ..self }
    }

    /// The register result, both words of it.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// How many words the register result has; 0 where there is none.
    pub fn words(&self) -> u8 {
        self.words
    }

    /// The predicate result with an index.
    pub fn predicate(&self, index: usize) -> Option<bool> {
        (index < usize::from(self.predicate_count)).then(|| self.predicates.get(index).copied())?
    }
}

/// The results of a pure operation, or `None` where its meaning isn't written down here.
pub fn eval(op: Op, modifiers: &[M], args: &[Arg]) -> Option<Results> {
    Meaning::of(op)?.eval(modifiers, args)
}

/// The semantics of an operation, looked up once for many evaluations.
#[derive(Clone, Copy, Debug)]
pub struct Meaning(Function);

type Function = fn(&mut Call) -> Option<Results>;

impl Meaning {
    /// `None` where no form of the operation has a meaning.
    pub fn of(op: Op) -> Option<Meaning> {
        meaning(vector_counterpart(op)).map(Meaning)
    }

    /// The results for some arguments; `None` for a form without a meaning.
    #[inline]
    pub fn eval(self, modifiers: &[M], args: &[Arg]) -> Option<Results> {
        let mut call = Call { modifiers: Modifiers::new(modifiers)?, args };
        let results = self.0(&mut call);
        // Not taken apart and put together again: this is where a simulator spends its time.
        if call.modifiers.all_taken() { results } else { None }
    }
}

/// An operation's modifiers and arguments, while its meaning is looked up.
struct Call<'a> {
    modifiers: Modifiers<'a>,
    args: &'a [Arg],
}

impl Call<'_> {
    fn has(&mut self, modifier: M) -> bool {
        self.modifiers.take(modifier)
    }

    /// The row of the first modifier that a table names.
    fn choose<T: Copy>(&mut self, table: &[(M, T)]) -> Option<T> {
        table.iter().find(|(m, _)| self.modifiers.take(*m)).map(|(_, value)| *value)
    }

    fn arg(&self, index: usize) -> Option<Arg> {
        self.args.get(index).copied()
    }

    /// An argument without any decoration.
    fn plain(&self, index: usize) -> Option<u32> {
        let arg = self.arg(index)?;
        (!arg.negated && !arg.absolute && arg.part == M::Empty).then_some(arg.bits as u32)
    }

    fn plain_wide(&self, index: usize) -> Option<u64> {
        self.plain(index)?;
        self.arg(index).map(|arg| arg.bits)
    }

    /// `~x` where it says so.
    fn inverted(&self, index: usize) -> Option<u32> {
        let arg = self.arg(index)?;
        let word = arg.bits as u32;
        (!arg.absolute && arg.part == M::Empty).then_some(if arg.negated { !word } else { word })
    }

    /// A predicate; true where the text ends before it.
    fn predicate(&self, index: usize) -> Option<bool> {
        match self.arg(index) {
            None => Some(true),
            Some(arg) if arg.absolute || arg.part != M::Empty => None,
            Some(arg) => Some((arg.bits != 0) != arg.negated),
        }
    }

    fn count_is(&self, counts: std::ops::RangeInclusive<usize>) -> Option<()> {
        counts.contains(&self.args.len()).then_some(())
    }
}

/// Modifiers, each of which must be understood.
struct Modifiers<'a> {
    list: &'a [M],
    taken: u32,
}

impl<'a> Modifiers<'a> {
    fn new(list: &'a [M]) -> Option<Modifiers<'a>> {
        (list.len() <= 32).then_some(Modifiers { list, taken: 0 })
    }

    /// Is it there, once more than it was asked for?
    fn take(&mut self, modifier: M) -> bool {
        let index =
            self.list.iter().enumerate().position(|(i, m)| *m == modifier && self.taken >> i & 1 == 0);
        if let Some(i) = index {
            self.taken |= 1 << i;
        }
        index.is_some()
    }

    fn all_taken(&self) -> bool {
        (0..self.list.len()).all(|i| self.taken >> i & 1 == 1)
    }
}

type Boolean = fn(bool, bool) -> bool;

/// `.AND`, `.OR`, `.XOR`: how a comparison is combined with a predicate.
fn boolean(call: &mut Call) -> Option<Boolean> {
    call.choose(&[(M::AND, (|a, b| a & b) as Boolean), (M::OR, |a, b| a | b), (M::XOR, |a, b| a ^ b)])
}

/// Results for a comparison and for its opposite.
fn combine(call: &mut Call, holds: bool, predicate: bool) -> Option<[bool; 2]> {
    let boolean = boolean(call)?;
    Some([boolean(holds, predicate), boolean(!holds, predicate)])
}

/// The operation on general registers that a uniform one computes.
fn vector_counterpart(op: Op) -> Op {
    match op {
        Op::UBMSK => Op::BMSK,
        Op::UBREV => Op::BREV,
        Op::UF2F => Op::F2F,
        Op::UF2FP => Op::F2FP,
        Op::UF2I => Op::F2I,
        Op::UF2IP => Op::F2IP,
        Op::UFADD => Op::FADD,
        Op::UFFMA => Op::FFMA,
        Op::UFHADD => Op::FHADD,
        Op::UFHFMA => Op::FHFMA,
        Op::UFLO => Op::FLO,
        Op::UFMNMX => Op::FMNMX,
        Op::UFMUL => Op::FMUL,
        Op::UFRND => Op::FRND,
        Op::UFSEL => Op::FSEL,
        Op::UFSET => Op::FSET,
        Op::UFSETP => Op::FSETP,
        Op::UI2F => Op::I2F,
        Op::UI2FP => Op::I2FP,
        Op::UI2I => Op::I2I,
        Op::UI2IP => Op::I2IP,
        Op::UIABS => Op::IABS,
        Op::UIADD3 => Op::IADD3,
        Op::UIMAD => Op::IMAD,
        Op::UIMNMX => Op::IMNMX,
        Op::UISETP => Op::ISETP,
        Op::ULEA => Op::LEA,
        Op::ULOP3 => Op::LOP3,
        Op::UMOV => Op::MOV,
        Op::UP2UR => Op::P2R,
        Op::UPLOP3 => Op::PLOP3,
        Op::UPOPC => Op::POPC,
        Op::UPRMT => Op::PRMT,
        Op::UR2UP => Op::R2P,
        Op::USEL => Op::SEL,
        Op::USGXT => Op::SGXT,
        Op::USHF => Op::SHF,
        Op::UVIADD => Op::VIADD,
        Op::UVIMNMX => Op::VIMNMX,
        other => other,
    }
}

fn meaning(op: Op) -> Option<Function> {
    Some(match op {
        Op::BMSK => integer::bmsk,
        Op::BREV => integer::brev,
        Op::FLO => integer::flo,
        Op::I2I => integer::i2i,
        Op::I2IP => integer::i2ip,
        Op::IABS => integer::iabs,
        Op::IADD => integer::iadd,
        Op::IADD3 => integer::iadd3,
        Op::IDP => integer::idp,
        Op::IMAD => integer::imad,
        Op::IMNMX => integer::imnmx,
        Op::ISETP => integer::isetp,
        Op::LEA => integer::lea,
        Op::LOP3 => integer::lop3,
        Op::MOV | Op::MOV64IUR => integer::mov,
        Op::P2R => integer::p2r,
        Op::PLOP3 => integer::plop3,
        Op::POPC => integer::popc,
        Op::PRMT => integer::prmt,
        Op::R2P => integer::r2p,
        Op::SEL => integer::sel,
        Op::SGXT => integer::sgxt,
        Op::SHF => integer::shf,
        Op::VABSDIFF => integer::vabsdiff,
        Op::VABSDIFF4 => integer::vabsdiff4,
        Op::VIADD => integer::viadd,
        Op::VIADDMNMX => integer::viaddmnmx,
        Op::VIMNMX => integer::vimnmx,
        Op::VIMNMX3 => integer::vimnmx3,
        Op::DADD => float::dadd,
        Op::DFMA => float::dfma,
        Op::DMUL => float::dmul,
        Op::DSETP => float::dsetp,
        Op::FCHK => float::fchk,
        Op::FADD => float::fadd,
        Op::FADD2 => float::fadd2,
        Op::FFMA => float::ffma,
        Op::FFMA2 => float::ffma2,
        Op::FHADD => float::fhadd,
        Op::FHFMA => float::fhfma,
        Op::FMNMX => float::fmnmx,
        Op::FMNMX3 => float::fmnmx3,
        Op::FMUL => float::fmul,
        Op::FMUL2 => float::fmul2,
        Op::FSEL => float::fsel,
        Op::FSET => float::fset,
        Op::FSETP => float::fsetp,
        Op::MUFU => float::mufu,
        Op::HADD2 => half::hadd2,
        Op::HFMA2 => half::hfma2,
        Op::HMNMX2 => half::hmnmx2,
        Op::HMUL2 => half::hmul2,
        Op::HSET2 => half::hset2,
        Op::HSETP2 => half::hsetp2,
        Op::VHMNMX => half::vhmnmx,
        Op::F2F => convert::f2f,
        Op::F2FP => convert::f2fp,
        Op::F2I => convert::f2i,
        Op::F2IP => convert::f2ip,
        Op::FRND => convert::frnd,
        Op::I2F | Op::I2FP => convert::i2f,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "eval/tests.rs"]
mod tests;
