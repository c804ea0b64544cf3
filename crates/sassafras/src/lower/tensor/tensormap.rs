//! Lowers prefetches and acquires of tensor maps, which the TMA unit caches.
//!
//! The operations are warp-level; divergent addresses need a waterfall loop.

use crate::lower::Lower;
use crate::lower::build::PT;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    /// `prefetch.tensormap`
    pub(crate) fn prefetch_tensormap(&mut self, ins: &Ins<'a>) -> Option<()> {
        let space = self.space(ins)?;
        let address = self.address(ins.get(0)?, space, 0)?;
        let words = self.flat(address);
        let words = match space {
            Space::Generic => words,
            Space::Param | Space::Const => {
                let generic = self.converted(words, space, false)?;
                [Arg::word(generic, 0), Arg::word(generic, 1)]
            }
            _ => return None,
        };
        self.for_each_address(words, |s, map| s.emit_to(Op::UTMACCTL, &[M::PF], &[], &[map.into()]))
    }

    /// `fence.proxy.tensormap::generic.acquire`: makes writes of others visible to the unit.
    pub(crate) fn acquire_tensormap(&mut self, ins: &Ins<'a>) -> Option<()> {
        let Operand::Int { value: 128, .. } = ins.get(1)? else { return None };
        let address = self.address(ins.get(0)?, Space::Generic, 0)?;
        let words = self.flat(address);
        self.for_each_address(words, |s, map| {
            // After all pending operations.
            s.emit_to(Op::DEPBAR, &[], &[], &[Arg::Imm(0x3f)]);
            if s.has(Op::LDCU) {
                s.emit_to(Op::CCTL, &[M::E, M::C, M::LDCU, M::IV, M::DEEP], &[], &[map.into(), Arg::Imm(0)]);
            }
            s.emit_to(Op::UTMACCTL, &[M::IV], &[], &[map.into()]);
        })
    }

    /// Lowers `body` once for each distinct address. It must be idempotent.
    fn for_each_address(&mut self, words: [Arg; 2], body: impl FnOnce(&mut Self, Value)) -> Option<()> {
        let words = words.map(|word| self.in_register(word));
        self.in_guarded_branch(|s| {
            s.loop_while(&[], |s, _| {
                let mut halves = Vec::new();
                let [low, high] = words.map(|word| {
                    let other = s.kernel.code.value(File::P, 1);
                    let half = s.kernel.code.value(File::UR, 1);
                    s.effect(Op::R2UR, &[], &[other, half], &[word]);
                    halves.push(Arg::from(half));
                    other
                });
                let address = s.pack_uniform(&halves);
                body(s, address);
                let either = [PT, low.into(), high.into(), PT, Arg::Imm(0xfc), Arg::Imm(0)];
                Some((s.emit_p(Op::PLOP3, &[M::LUT], &either), Vec::new(), ()))
            })
        })
    }
}
