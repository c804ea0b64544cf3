//! The shape of the table at run time: what a `Form` says of its instruction.
//!
//! The statics are generated from `table/*.txt`. Every bit of a word belongs to exactly one of: the guard, the
//! control code, a modifier, an operand, or the form itself (`base`); the build checks it. So a word that matches
//! a form decodes and encodes back to the same bits.

use crate::flag;
use crate::isa::{Isa, IsaSet};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// A bit field of up to three pieces, most significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    lo: [u8; 3],
    width: [u8; 3],
}

impl Bits {
    /// Bits of all pieces together.
    pub fn width(self) -> u32 {
        self.width.iter().map(|&width| u32::from(width)).sum()
    }

    /// Does the field have this bit of the word?
    pub fn contains(self, bit: u8) -> bool {
        self.pieces().any(|(lo, width, _)| (lo..lo + width).contains(&bit))
    }

    /// The field's largest value.
    pub(crate) fn ones(self) -> i64 {
        (1 << self.width()) - 1
    }

    /// Where each piece is, with a mask of its width; pieces are at most 64 bits wide.
    fn pieces(&self) -> impl DoubleEndedIterator<Item = (u8, u8, u64)> {
        let pieces = self.lo.iter().zip(&self.width).filter(|(_, width)| **width > 0);
        pieces.map(|(&lo, &width)| (lo, width, u64::MAX >> (64 - width)))
    }

    pub(crate) fn get(self, word: u128) -> u64 {
        // The first piece is shifted by its own width, which may be all 64 bits, when there is nothing to shift yet.
        self.pieces().fold(0, |value: u64, (lo, width, mask)| {
            value.unbounded_shl(u32::from(width)) | (word >> lo) as u64 & mask
        })
    }

    pub(crate) fn put(self, word: &mut u128, mut value: u64) {
        for (lo, width, mask) in self.pieces().rev() {
            *word = *word & !(u128::from(mask) << lo) | u128::from(value & mask) << lo;
            value = value.unbounded_shr(u32::from(width));
        }
    }

    /// One piece of the field as a field of its own.
    pub(crate) fn piece(self, index: usize) -> Bits {
        let mut bits = Bits { lo: [0; 3], width: [0; 3] };
        (bits.lo[0], bits.width[0]) = (self.lo[index], self.width[index]);
        bits
    }
}

/// One way to encode an operation: a row of the table, with the kinds of its operands settled.
#[derive(Debug)]
pub struct Form {
    /// The operation.
    pub op: Op,
    /// The encodings that have it.
    pub isas: IsaSet,
    /// What runs it.
    pub class: Class,
    /// `P`, or `V` where a uniform predicate guards.
    pub guard: Kind,
    /// In the order of the text.
    pub mods: &'static [Mod],
    /// The operands, in the order of the text.
    pub slots: &'static [Slot],
    pub(crate) base: u128,
    pub(crate) fields: u128,
    /// Operand-cache lanes that the form has an operand for.
    pub lanes: u8,
    /// Where the row is, for messages.
    pub line: &'static str,
    /// The families (`Kind::family`) of operands that some slot takes, and of those that must be given.
    takes: u16,
    needs: u16,
    /// The slots, a bit each, that have modifiers of their own: names after the operand.
    suffixed: u16,
}

/// The form of words that no row describes: the word itself, as two halves.
pub static RAW: Form = Form {
    op: Op::RAW,
    isas: IsaSet(u16::MAX),
    class: Class::Control,
    guard: Kind::P,
    mods: &[],
    slots: &[],
    base: 0,
    fields: 0,
    lanes: 0,
    line: "",
    takes: 0,
    needs: 0,
    suffixed: 0,
};

impl PartialEq for Form {
    fn eq(&self, other: &Form) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Form {}

impl Form {
    /// The forms of an operation, in table order.
    pub fn of(op: Op) -> &'static [Form] {
        let (start, end) = BY_OP[op as usize];
        &FORMS[usize::from(start)..usize::from(end)]
    }

    /// Modifiers that the form takes: those that it always has, and of each kind one that `choose` picks among its
    /// values. `None` if it picks one that is not defined.
    pub fn choose_modifiers(&self, mut choose: impl FnMut(&[(M, u8)]) -> M) -> Option<Vec<M>> {
        let mut all = Vec::new();
        for m in self.mods {
            let name = match m {
                Mod::Literal(name) => *name,
                Mod::Field { values, slot: None, .. } => choose(values),
                _ => continue,
            };
            if name == M::Undefined {
                return None;
            }
            all.extend((name != M::Empty).then_some(name));
        }
        Some(all)
    }

    /// The bits of the word that the form decides, where they are set, and the bits that it leaves to the guard,
    /// the control code, the modifiers and the operands.
    pub fn bits(&self) -> (u128, u128) {
        (self.base, self.fields)
    }

    /// Whether operands of these families (a set of `Kind::family` bits) may fit. It rules most forms out at once: the
    /// forms of a row differ in the kind of one operand.
    pub(crate) fn may_take(&self, families: u16) -> bool {
        families & !self.takes == 0 && self.needs & !families == 0
    }

    const fn with_kinds(mut self) -> Form {
        let mut index = 0;
        while index < self.slots.len() {
            let slot = &self.slots[index];
            let family = slot.kind.family();
            self.takes |= match slot.kind {
                Kind::Literal => Kind::Name.family() | Kind::U.family() | Kind::Signed.family(),
                Kind::Relative => family | Kind::Signed.family(),
                Kind::V => family | Kind::P.family(),
                _ => family,
            };
            // Predicate results and names may be left out, too; a distance may be given as a number.
            let may_be_absent = !matches!(slot.hide, Hide::Never)
                || matches!(slot.kind, Kind::P | Kind::V | Kind::Name | Kind::Literal | Kind::Relative);
            if !may_be_absent {
                self.needs |= family;
            }
            index += 1;
        }
        let mut index = 0;
        while index < self.mods.len() {
            if let Mod::Field { slot: Some(slot), .. } = self.mods[index] {
                self.suffixed |= 1 << slot;
            }
            index += 1;
        }
        self
    }

    /// Has the operand in this slot modifiers of its own?
    pub(crate) fn has_suffixes(&self, slot: usize) -> bool {
        self.suffixed >> slot & 1 != 0
    }

    pub(crate) fn matching(isa: Isa, word: u128) -> impl Iterator<Item = &'static Form> {
        let code = (word & 0xfff) as usize | ((word >> 91 & 1) as usize) << 12;
        let (start, end) = BY_CODE[code];
        CANDIDATES[usize::from(start)..usize::from(end)]
            .iter()
            .map(|&index| &FORMS[usize::from(index)])
            .filter(move |form| form.isas.contains(isa) && word & !form.fields == form.base)
    }
}

/// What a modifier position prints.
#[derive(Debug)]
pub enum Mod {
    /// Always printed, takes no bits.
    Literal(M),
    /// A field of the word. With `slot`, it is printed after that operand instead of the operation.
    Field {
        /// Each name and its number.
        values: &'static [(M, u8)],
        /// Where the number is in the word.
        at: Bits,
        /// The position of the operand.
        slot: Option<usize>,
    },
    /// Takes no bits: the first name whose conditions on the operands hold (IMAD.MOV, IMAD.SHL).
    Alias(&'static [(M, &'static [(usize, When)])]),
}

/// A condition of an alias on one operand.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// It is zero or RZ.
    Zero,
    /// It is a power of two above one, and not 0x10000, which nvdisasm does not count.
    PowerOfTwo,
    /// It is this number.
    Is(i64),
}

/// What kind of operand a slot takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// General register.
    R,
    /// Uniform register.
    U,
    /// Predicate.
    P,
    /// Uniform predicate.
    V,
    /// Convergence barrier register.
    B,
    /// `c[bank][offset]`.
    Const,
    /// `c[bank][offset]` with an offset in bytes.
    ConstB,
    /// `c[bank][R+offset]`.
    ConstR,
    /// `c[bank][UR+offset]`.
    ConstU,
    /// `cx[UR][offset]`.
    Bindless,
    /// A signed number.
    Signed,
    /// An unsigned number.
    Unsigned,
    /// Unsigned, printed in base ten.
    Decimal,
    /// The bits of a single.
    Float,
    /// The bits of a half.
    Half,
    /// The bits of a bfloat16.
    Bfloat,
    /// The high 32 bits of a double.
    Double,
    /// Byte distance from the next instruction, printed as an address.
    Relative,
    /// A set of small numbers: `{3,1}`.
    Set,
    /// Four two-bit choices of FSWZADD.
    Swizzle,
    /// A value with a name.
    Name,
    /// A fixed word that takes no bits.
    Literal,
}

impl Kind {
    /// Kinds that can stand for each other when an instruction is built share a bit.
    pub(crate) const fn family(self) -> u16 {
        match self {
            Kind::R => 1,
            Kind::U => 1 << 1,
            Kind::P => 1 << 2,
            Kind::V => 1 << 3,
            Kind::B => 1 << 4,
            Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU => 1 << 5,
            Kind::Bindless => 1 << 6,
            Kind::Name => 1 << 7,
            Kind::Relative => 1 << 8,
            Kind::Literal => 1 << 9,
            Kind::Signed | Kind::Unsigned | Kind::Decimal | Kind::Set | Kind::Swizzle => 1 << 10,
            Kind::Float | Kind::Half | Kind::Bfloat | Kind::Double => 1 << 10,
        }
    }

    /// A number in the instruction itself.
    pub fn is_immediate(self) -> bool {
        matches!(
            self,
            Kind::Signed
                | Kind::Unsigned
                | Kind::Decimal
                | Kind::Float
                | Kind::Half
                | Kind::Bfloat
                | Kind::Double
        )
    }
}

/// When an operand is left out of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hide {
    /// It is always printed.
    Never,
    /// PT, RZ, URZ or zero.
    Default,
    /// !PT.
    NotTrue,
    /// A mask with all bits set.
    Ones,
}

/// What an instruction does with a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It writes it.
    Def,
    /// It reads it.
    Use,
}

/// Registers of an operand: `count` times what each named modifier's value stands for.
#[derive(Debug)]
pub struct Words {
    /// Registers, if no modifier changes it.
    pub count: u16,
    /// So many of the first are named and not touched: beside A in registers, a descriptor of B is in the upper two
    /// of four.
    pub unused: u16,
    /// The positions of the modifiers that multiply it.
    pub by: &'static [usize],
}

impl M {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        // `Empty` and `Undefined` come before the names.
        (self as usize).checked_sub(2).map_or("", |index| M_NAMES[index].1)
    }

    /// Whether the name spans several words of the text.
    pub(crate) fn has_dot(self) -> bool {
        (self as usize).checked_sub(2).is_some_and(|index| HAS_DOT[index])
    }

    /// The modifier that is printed so.
    pub fn from_name(name: &str) -> Option<M> {
        M_NAMES.binary_search_by(|(_, text)| (*text).cmp(name)).ok().map(|index| M_NAMES[index].0)
    }
}

impl Op {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        OP_NAMES[self as usize].1
    }

    /// An MMA that a warpgroup starts and does not wait for.
    pub fn is_wgmma(self) -> bool {
        Form::of(self).first().is_some_and(|form| form.class == Class::Gmma)
    }

    /// The operation that is printed so.
    pub fn from_name(name: &str) -> Option<Op> {
        OP_NAMES.binary_search_by(|(_, text)| (*text).cmp(name)).ok().map(|index| OP_NAMES[index].0)
    }
}

impl Slot {
    /// Whether the slot is closed to this register because it reads as a constant.
    pub(crate) fn forbids(&self, value: i64) -> bool {
        let constant = if matches!(self.kind, Kind::P | Kind::V) { 7 } else { 255 };
        self.nonzero && value == constant
    }
}

/// One operand position.
#[derive(Debug)]
pub struct Slot {
    /// What it takes.
    pub kind: Kind,
    /// Where its value is in the word.
    pub at: Bits,
    /// An immediate or offset is stored divided by `1 << shift`; a register printed `again` is this much higher.
    pub shift: u8,
    /// The values of a `Name`.
    pub names: &'static [(M, u8)],
    /// The word of a `Literal`.
    pub literal: M,
    /// The bit for `-x`.
    pub neg: Option<u8>,
    /// The bit for `|x|`.
    pub abs: Option<u8>,
    /// The bit for `!p`.
    pub not: Option<u8>,
    /// `neg` means bitwise complement; for a predicate: it is stored as 7 - p.
    pub inverts: bool,
    /// Operand-cache lane that a `.reuse` of this operand sets.
    pub lane: Option<u8>,
    /// When the text leaves it out.
    pub hide: Hide,
    /// Read or written.
    pub role: Role,
    /// How many registers.
    pub words: Words,
    /// The text that opens the brackets around this operand, or nothing.
    pub frame: &'static str,
    /// It is the first in its brackets.
    pub opens: bool,
    /// It is the last in its brackets.
    pub closes: bool,
    /// Separated from the operand before by a space alone.
    pub spaced: bool,
    /// Printed after the register, always.
    pub suffix: M,
    /// The operand before, printed once more: it has no bits of its own.
    pub again: bool,
    /// What is printed after the operand follows the closing bracket: `gdesc[UR4].tnspA`.
    pub outside: bool,
    /// In the word, but not in nvdisasm's text: the descriptor register of sm_80 to sm_89.
    pub silent: bool,
    /// RZ, URZ or PT may not be here.
    pub nonzero: bool,
    /// An offset that is printed signed even when it is alone in its brackets.
    pub signed_alone: bool,
    /// What is printed after the operand is inside the bars: `|R6.H1|`, but `|R6|.H1_H1` in arithmetic.
    pub inside: bool,
    /// nvdisasm writes `c[0x0] [0x4]` in packed-half operations.
    pub spaced_bank: bool,
    /// The signs that may be here: `flag`.
    pub(crate) allows: u8,
}

/// Latency class: which pipe runs the operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Integer, logic, compare, select, min/max.
    Alu,
    /// FADD, FMUL, FFMA, IMAD of 32 bits.
    Fma,
    /// IMAD.WIDE and IMAD.HI.
    Wide,
    /// Packed half arithmetic.
    Half,
    /// HFMA2.MMA: half arithmetic on the tensor pipe.
    Hmma2,
    /// Double precision at full rate: sm_90 and sm_100.
    Double,
    /// Double precision at a low rate, with a scoreboard: the other targets.
    Fp64,
    /// HMMA, IMMA, QMMA, BMMA, DMMA.
    Tensor,
    /// HGMMA and kin.
    Gmma,
    /// MUFU, conversions, bit counts: the quarter-rate unit.
    Xu,
    /// Loads and everything else that returns a value through a memory queue.
    Load,
    /// Stores and everything else that reads registers late and returns nothing.
    Store,
    /// Uniform datapath.
    Uniform,
    /// Uniform operations that return late.
    UniformLoad,
    /// Uniform operations that read late and return nothing.
    UniformStore,
    /// Branches, barriers of the convergence unit, EXIT.
    Control,
}

/// How the issue logic learns that an instruction is done with its registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scoreboards {
    /// Results arrive late: a write barrier tells when.
    pub write: bool,
    /// Sources are read late: a read barrier tells when.
    pub read: bool,
}

impl Class {
    /// Which scoreboards its instructions need.
    pub fn scoreboards(self) -> Scoreboards {
        let (write, read) = match self {
            Class::Xu | Class::Load | Class::UniformLoad | Class::Fp64 => (true, true),
            Class::Store | Class::UniformStore => (false, true),
            _ => (false, false),
        };
        Scoreboards { write, read }
    }
}
