//! Handles of textures and surfaces: where each comes from, and how an operation names it.
//!
//! To sm_89 an operation takes its handle from constant bank 0 or from a register of each thread. Later machines want
//! it in a uniform register: threads with different handles then take turns.

use super::Lower;
use super::variables::Place;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use sass::{M, Op};

/// Where a handle is.
pub enum Handle {
    /// At this byte of constant bank 0.
    Bank(u32),
    Register(Value),
}

/// What an operation has in place of a handle.
pub enum Name {
    /// `0x0, offset`, in words.
    Bank(i64),
    /// A word of what the operation reads, at a place of its own.
    Register(Value),
    /// A uniform register, or a pair of them for textures.
    Uniform(Value),
}

impl Name {
    /// Does the operation carry `.B`, and which word is the handle?
    pub fn register(&self) -> Option<Arg> {
        match self {
            Name::Register(value) => Some((*value).into()),
            _ => None,
        }
    }
}

/// What a uniform handle consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a texture and of a sampler; zero where the texture's says it all.
    Texture,
    Surface,
}

impl<'a> Lower<'_, 'a> {
    /// The image that an operand in brackets begins with, and what follows it.
    pub(super) fn image(&mut self, operand: &Operand) -> Option<(Handle, &'a [Operand])> {
        let Operand::Address(range) = operand else { return None };
        let body = self.body;
        let (first, rest) = body.list(*range).split_first()?;
        let handle = match first {
            Operand::Symbol(symbol) => match self.place(*symbol)? {
                Place::Image(offset) => Handle::Bank(self.machine.params + offset),
                _ => return None,
            },
            Operand::Reg(reg) => {
                let value = self.read(*reg);
                Handle::Register(self.copy(Arg::word(value, 0)))
            }
            _ => return None,
        };
        Some((handle, rest))
    }

    /// Runs an operation on an image, and what is done with its results.
    pub(super) fn with_image<R>(
        &mut self,
        handle: Handle,
        kind: Kind,
        operation: impl FnOnce(&mut Self, &Name) -> Option<R>,
        finish: impl FnOnce(&mut Self, R) -> Option<()>,
    ) -> Option<()> {
        let name = match handle {
            Handle::Bank(offset) if self.machine.uniform_handles => {
                let word = self.kernel.code.value(File::UR, 1);
                let op = if self.has(Op::ULDC) { Op::ULDC } else { Op::LDCU };
                self.emit_to(op, &[], &[word], &[Arg::Const { bank: 0, offset }]);
                Name::Uniform(self.uniform_handle(word, kind))
            }
            Handle::Bank(offset) => Name::Bank(i64::from(offset / 4)),
            Handle::Register(value) if self.machine.uniform_handles => {
                return self.under_branch(|s| {
                    let results = s.taking_turns(value, kind, operation)?;
                    finish(s, results)
                });
            }
            Handle::Register(value) => Name::Register(value),
        };
        let results = operation(self, &name)?;
        finish(self, results)
    }

    /// One of the handles is everybody's in a round; threads that have another one wait for the next.
    fn taking_turns<R>(
        &mut self,
        handle: Value,
        kind: Kind,
        operation: impl FnOnce(&mut Self, &Name) -> Option<R>,
    ) -> Option<R> {
        self.repeat(&[], |s, _| {
            let other = s.kernel.code.value(File::P, 1);
            let word = s.kernel.code.value(File::UR, 1);
            s.effect(Op::R2UR, &[], &[other, word], &[handle.into()]);
            let name = Name::Uniform(s.uniform_handle(word, kind));
            let mut results = None;
            s.under(Arg::not(other), |s| results = operation(s, &name));
            Some((other, Vec::new(), results?))
        })
    }

    fn uniform_handle(&mut self, word: Value, kind: Kind) -> Value {
        if kind == Kind::Surface {
            return word;
        }
        let zero = self.kernel.code.value(File::UR, 1);
        self.emit_to(Op::UMOV, &[], &[zero], &[Arg::Imm(0)]);
        self.pack_uniform(&[word.into(), zero.into()])
    }

    /// The operands for a handle that is not in a register of each thread.
    pub(super) fn image_args(&self, name: &Name) -> Vec<Arg> {
        match name {
            Name::Bank(offset) => vec![Arg::Imm(0), Arg::Imm(*offset)],
            Name::Register(_) => Vec::new(),
            // sm_90 can add an offset to the handle.
            Name::Uniform(value) if self.machine.handle_offset => vec![(*value).into(), Arg::Imm(0)],
            Name::Uniform(value) => vec![(*value).into()],
        }
    }

    /// Coordinates: a vector, or a lone register that stands for all of them. Elements behind those that count are
    /// not looked at.
    pub(super) fn coordinates(&mut self, operands: &'a [Operand], count: usize) -> Option<Vec<Arg>> {
        let body = self.body;
        let elements = match operands {
            [Operand::Vector(range)] => body.list(*range),
            [lone] if count == 1 => std::slice::from_ref(lone),
            [Operand::Reg(reg)] => {
                let value = self.read(*reg);
                let words = self.kernel.code.values[value].words;
                return (usize::from(words) >= count)
                    .then(|| (0..count as u8).map(|i| Arg::word(value, i)).collect());
            }
            _ => return None,
        };
        elements.get(..count)?.iter().map(|e| self.word(e, ptx::Type::B32)).collect()
    }

    /// Words side by side in registers, as one value.
    pub(super) fn group(&mut self, words: &[Arg]) -> Value {
        let words: Vec<Arg> = words.iter().map(|w| self.in_register(*w)).collect();
        match words[..] {
            [only] => self.copy(only),
            _ => self.pack(&words),
        }
    }

    /// The dimension's name, whether the first coordinate is an index into an array, and the number of the others.
    pub(super) fn surface_geometry(ins: &super::instruction::Ins) -> Option<(M, bool, usize)> {
        Some(match ins.one_of(&["1d", "2d", "3d", "a1d", "a2d"])? {
            "1d" => (M::_1D, false, 1),
            "2d" => (M::_2D, false, 2),
            "3d" => (M::_3D, false, 3),
            "a1d" => (M::_1D_ARRAY, true, 1),
            _ => (M::_2D_ARRAY, true, 2),
        })
    }
}
