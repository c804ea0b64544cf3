//! Handles of textures, samplers and surfaces: their sources and their operand forms.
//!
//! To sm_89 an operation takes its handle from constant bank 0 or from a general register; the handles of a texture and
//! its sampler share a word there. Later machines take the two in a pair of uniform registers: divergent handles need a
//! waterfall loop.
//!
//! In `texmode_unified` a texture's handle includes the sampler. In `texmode_independent` the sampler is an operand.

use crate::lower::Lower;
use crate::lower::build::RZ;
use crate::lower::memory::variables::{Bank, IS_SAMPLER, Location};
use crate::lower::operand_use::VALUE;
use crate::module::data::ImageSlot;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use sass::{M, Op};

/// The source of an image or a sampler.
pub enum Source {
    Variable(String),
    Register(Value),
}

/// The location of a word of a handle.
#[derive(Clone, Copy)]
pub enum Word {
    Bank(Bank),
    Register(Value),
}

pub struct Handle {
    image: Word,
    /// If it has a word of its own.
    sampler: Option<Word>,
}

/// The texture handle is below the sampler handle where they share a word.
const IMAGE_BITS: i64 = 20;
const IMAGE_MASK: i64 = (1 << IMAGE_BITS) - 1;
/// Tag bits of a handle in a register.
const IS_HANDLE: i64 = 0x8000_0000u32 as i32 as i64;

/// The handle operand of an operation.
pub enum Name {
    /// `0x0, offset`, in words.
    Bank(Bank),
    /// A word of the operation's register tuple.
    Register(Value),
    /// A uniform register, or a pair of them for textures.
    Uniform(Value),
}

impl Name {
    /// The register of the handle, for forms with `.B`.
    pub fn register(&self) -> Option<Arg> {
        match self {
            Name::Register(value) => Some((*value).into()),
            _ => None,
        }
    }
}

/// The parts of a uniform handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A texture and a sampler; zero where the texture includes it.
    Texture,
    Surface,
}

impl<'a> Lower<'_, 'a> {
    /// Are samplers variables of their own?
    pub(crate) fn separate_samplers(&self) -> bool {
        self.module.target_options.contains(&"texmode_independent")
    }

    /// The image of a bracketed operand, and the operands after it.
    pub(crate) fn image(&mut self, operand: &Operand) -> Option<(Source, &'a [Operand])> {
        let Operand::Address(range) = operand else { return None };
        let body = self.body;
        let (first, rest) = body.list(*range).split_first()?;
        Some((self.image_source(first)?, rest))
    }

    /// The texture and its sampler, and the operands after them.
    pub(crate) fn sampled_image(&mut self, operand: &Operand) -> Option<(Handle, &'a [Operand])> {
        let (texture, rest) = self.image(operand)?;
        if !self.separate_samplers() {
            return Some((self.handle(texture), rest));
        }
        let (sampler, rest) = rest.split_first()?;
        let sampler = self.image_source(sampler)?;
        let handle = match (texture, sampler) {
            (texture, sampler) if self.machine.uniform_handles => {
                let image = self.image_word(&texture, true);
                Handle { image, sampler: Some(self.image_word(&sampler, false)) }
            }
            (Source::Variable(texture), Source::Variable(sampler)) if !self.slots_are_linked() => {
                let slot = ImageSlot { image: Some(texture), sampler: Some(sampler) };
                Handle { image: Word::Bank(self.image_slot(slot)), sampler: None }
            }
            (texture, sampler) => {
                Handle { image: Word::Register(self.both_in_one(&texture, &sampler)), sampler: None }
            }
        };
        Some((handle, rest))
    }

    /// The handle of an image without a sampler.
    pub(crate) fn handle(&mut self, image: Source) -> Handle {
        Handle { image: self.image_word(&image, true), sampler: None }
    }

    fn image_source(&mut self, operand: &Operand) -> Option<Source> {
        self.mark_parts(operand, VALUE);
        match operand {
            Operand::Symbol(symbol) => match self.location(*symbol)? {
                Location::Image(name) => Some(Source::Variable(name)),
                _ => None,
            },
            Operand::Reg(reg) => {
                let value = self.read(*reg);
                Some(Source::Register(self.copy(Arg::word(value, 0))))
            }
            _ => None,
        }
    }

    fn image_word(&mut self, source: &Source, image: bool) -> Word {
        match source {
            Source::Register(value) => Word::Register(*value),
            Source::Variable(name) => {
                let name = Some(name.clone());
                let slot = match image {
                    true => ImageSlot { image: name, sampler: None },
                    false => ImageSlot { image: None, sampler: name },
                };
                Word::Bank(self.image_slot(slot))
            }
        }
    }

    /// A word of a handle in a register.
    pub(crate) fn in_word(&mut self, word: Word) -> Value {
        match word {
            Word::Register(value) => value,
            Word::Bank(bank) => {
                let from = match bank {
                    Bank::At(offset) => Arg::Bank { bank: 0, index: None, offset: offset as i32 },
                    Bank::Linked(symbol) => Arg::Slot { symbol },
                };
                self.emit(Op::LDC, &[], 1, &[from])
            }
        }
    }

    /// The handles of a texture and of a sampler in one word.
    fn both_in_one(&mut self, texture: &Source, sampler: &Source) -> Value {
        let word = self.image_word(texture, true);
        let image = self.in_word(word);
        let word = self.image_word(sampler, false);
        let above = self.in_word(word);
        let above = match sampler {
            // In bank 0 it is in position already.
            Source::Variable(_) => above,
            Source::Register(_) => {
                self.emit(Op::SHF, &[M::L, M::U32], 1, &[above.into(), Arg::Imm(IMAGE_BITS), RZ])
            }
        };
        // Bitwise select: the first where the mask is set, else the third.
        self.lop3(image.into(), Arg::Imm(IMAGE_MASK), above.into(), 0xe2)
    }

    /// The index of an image or sampler in the driver's table.
    pub(crate) fn image_index(&mut self, source: &Source, image: bool) -> Arg {
        let word = self.image_word(source, image);
        let word = self.in_word(word).into();
        if self.machine.uniform_handles {
            return word;
        }
        match (source, image) {
            (_, true) => self.lop3(word, Arg::Imm(IMAGE_MASK), RZ, 0xc0).into(),
            (Source::Variable(_), false) => self.upper_bits(word).into(),
            (Source::Register(_), false) => {
                self.lop3(word, Arg::Imm((1 << (32 - IMAGE_BITS)) - 1), RZ, 0xc0).into()
            }
        }
    }

    fn upper_bits(&mut self, word: Arg) -> Value {
        self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(IMAGE_BITS), word])
    }

    /// The 64-bit handle of a variable. The upper word is a tag of its kind.
    pub(crate) fn opaque(&mut self, name: &str, tag: i64) -> Value {
        let image = tag != IS_SAMPLER;
        let word = self.image_word(&Source::Variable(name.into()), image);
        let word = self.in_word(word);
        let low = match (self.machine.uniform_handles, image) {
            (true, _) => word,
            (false, true) => self.lop3(word.into(), Arg::Imm(IS_HANDLE), RZ, 0xfc),
            (false, false) => {
                let index = self.upper_bits(word.into());
                self.lop3(index.into(), Arg::Imm(IS_HANDLE), RZ, 0xfc)
            }
        };
        self.pack(&[low.into(), Arg::Imm(tag)])
    }

    /// Lowers an operation on an image, then `finish` on its results.
    pub(crate) fn with_image<R>(
        &mut self,
        handle: Handle,
        kind: Kind,
        operation: impl FnOnce(&mut Self, &Name) -> Option<R>,
        finish: impl FnOnce(&mut Self, R) -> Option<()>,
    ) -> Option<()> {
        let alike = [Some(handle.image), handle.sampler];
        let alike = alike.iter().flatten().all(|word| matches!(word, Word::Bank(_)));
        let name = match handle.image {
            _ if self.machine.uniform_handles && alike => {
                let mut words = Vec::new();
                for word in [Some(handle.image), handle.sampler].into_iter().flatten() {
                    words.push(self.uniform_word(word, &mut None));
                }
                Name::Uniform(self.uniform_handle(words, kind))
            }
            _ if self.machine.uniform_handles => {
                return self.in_guarded_branch(|s| {
                    let results = s.handle_waterfall(&handle, kind, operation)?;
                    finish(s, results)
                });
            }
            Word::Bank(bank) => Name::Bank(bank),
            Word::Register(value) => Name::Register(value),
        };
        let results = operation(self, &name)?;
        finish(self, results)
    }

    /// A word of a handle in a uniform register. If it diverges, one lane's is taken, and `other` is true for lanes
    /// with another one.
    fn uniform_word(&mut self, word: Word, other: &mut Option<Value>) -> Value {
        let result = self.kernel.code.value(File::UR, 1);
        match word {
            Word::Bank(bank) => {
                let op = if self.has(Op::ULDC) { Op::ULDC } else { Op::LDCU };
                let from = match bank {
                    Bank::At(offset) => Arg::Const { bank: 0, offset },
                    Bank::Linked(symbol) => Arg::Slot { symbol },
                };
                self.emit_to(op, &[], &[result], &[from]);
            }
            Word::Register(value) => {
                let differs = self.kernel.code.value(File::P, 1);
                self.effect(Op::R2UR, &[], &[differs, result], &[value.into()]);
                *other = Some(match *other {
                    None => differs,
                    Some(before) => self.either(before, differs),
                });
            }
        }
        result
    }

    fn either(&mut self, a: Value, b: Value) -> Value {
        let args = [
            crate::lower::build::PT,
            a.into(),
            b.into(),
            crate::lower::build::PT,
            Arg::Imm(0xfc),
            Arg::Imm(0),
        ];
        self.emit_p(Op::PLOP3, &[M::LUT], &args)
    }

    /// A waterfall loop over the handles: each iteration executes the lanes with one handle.
    fn handle_waterfall<R>(
        &mut self,
        handle: &Handle,
        kind: Kind,
        operation: impl FnOnce(&mut Self, &Name) -> Option<R>,
    ) -> Option<R> {
        self.loop_while(&[], |s, _| {
            let mut other = None;
            let mut words = Vec::new();
            for word in [Some(handle.image), handle.sampler].into_iter().flatten() {
                words.push(s.uniform_word(word, &mut other));
            }
            let other = other?;
            let name = Name::Uniform(s.uniform_handle(words, kind));
            let mut results = None;
            s.under(Arg::not(other), |s| results = operation(s, &name));
            Some((other, Vec::new(), results?))
        })
    }

    fn uniform_handle(&mut self, mut words: Vec<Value>, kind: Kind) -> Value {
        if kind == Kind::Texture && words.len() == 1 {
            let zero = self.kernel.code.value(File::UR, 1);
            self.emit_to(Op::UMOV, &[], &[zero], &[Arg::Imm(0)]);
            words.push(zero);
        }
        match words[..] {
            [word] => word,
            _ => self.pack_uniform(&words.iter().map(|w| (*w).into()).collect::<Vec<_>>()),
        }
    }

    /// The operands of a handle outside of the register tuple.
    pub(crate) fn image_args(&self, name: &Name) -> Vec<Arg> {
        match name {
            Name::Bank(Bank::At(offset)) => vec![Arg::Imm(0), Arg::Imm(i64::from(offset / 4))],
            Name::Bank(Bank::Linked(symbol)) => vec![Arg::Imm(0), Arg::Slot { symbol: *symbol }],
            Name::Register(_) => Vec::new(),
            // sm_90 can add an offset to the handle.
            Name::Uniform(value) if self.machine.handle_offset => vec![(*value).into(), Arg::Imm(0)],
            Name::Uniform(value) => vec![(*value).into()],
        }
    }

    /// Coordinates: a vector, or a single register for all of them. Further elements are ignored.
    pub(crate) fn coordinates(&mut self, operands: &'a [Operand], count: usize) -> Option<Vec<Arg>> {
        let body = self.body;
        let elements = match operands {
            [Operand::Vector(range)] => body.list(*range),
            [lone] if count == 1 => std::slice::from_ref(lone),
            [lone @ Operand::Reg(reg)] => {
                self.mark_read(lone);
                let value = self.read(*reg);
                let words = self.kernel.code.values[value].words;
                return (usize::from(words) >= count)
                    .then(|| (0..count as u8).map(|i| Arg::word(value, i)).collect());
            }
            _ => return None,
        };
        let (elements, others) = elements.split_at_checked(count)?;
        others.iter().for_each(|other| self.mark_all(other));
        elements.iter().map(|e| self.word(e, ptx::Type::B32)).collect()
    }

    /// Packs words into a register tuple.
    pub(crate) fn group(&mut self, words: &[Arg]) -> Value {
        let words: Vec<Arg> = words.iter().map(|w| self.in_register(*w)).collect();
        match words[..] {
            [only] => self.copy(only),
            _ => self.pack(&words),
        }
    }

    /// The dimension's modifier, whether the first coordinate is an array index, and the number of the others.
    pub(crate) fn surface_geometry(ins: &crate::lower::instruction::Ins) -> Option<(M, bool, usize)> {
        Some(match ins.one_of(&["1d", "2d", "3d", "a1d", "a2d"])? {
            "1d" => (M::_1D, false, 1),
            "2d" => (M::_2D, false, 2),
            "3d" => (M::_3D, false, 3),
            "a1d" => (M::_1D_ARRAY, true, 1),
            _ => (M::_2D_ARRAY, true, 2),
        })
    }
}
