//! The operand cache on one path: what is kept in it, and whether a read finds it rightly.
//!
//! What is kept must be found by the next reader of its slot ([`sass::model::cache`] has the rule) before the cache
//! empties, and must not have been overwritten until then. Found and overwritten, the reader gets the old value
//! ([`Short::Cached`]). Not found, the flag is for nothing, and the compiler that set it took something else to come next
//! ([`Short::Unread`]).

use super::{Dependence, Relation, Short};
use sass::model::cache::{Cached, SLOTS, empties};
use sass::model::{Model, Part, Port, Unit};
use sass::{Inst, Kind, Role};

/// An operand in a slot of the cache.
#[derive(Clone, Copy)]
struct Kept {
    read: Cached,
    /// The instruction that keeps it, and its port.
    index: usize,
    port: Port,
    is_stale: bool,
}

pub struct Cache {
    kept: [Option<Kept>; SLOTS],
    is_empty: bool,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { kept: [None; SLOTS], is_empty: true }
    }
}

impl Cache {
    /// Issues an instruction; what goes wrong goes to `found`.
    pub fn step(
        &mut self,
        model: &Model,
        index: usize,
        inst: &Inst,
        found: &mut impl FnMut(Dependence, Short),
    ) {
        if self.is_empty && inst.control.reuse == 0 {
            return;
        }
        let port = Port { unit: model.unit(inst), part: Part::R };
        for read in model.cached(inst) {
            let Some(kept) = self.kept[read.slot].take() else { continue };
            match read.finds(&kept.read) {
                true if kept.is_stale => found(kept.dependence(Relation::Raw, index, port), Short::Cached),
                true => {}
                false => kept.report_unread(index, port, found),
            }
        }
        for read in model.cached(inst).filter(|read| inst.control.reuse >> read.lane & 1 == 1) {
            self.kept[read.slot] = Some(Kept { read, index, port, is_stale: false });
            self.is_empty = false;
        }
        for written in model.touches(inst).filter(|t| t.role == Role::Def && t.file == Kind::R) {
            let overlaps = |kept: &Kept| kept.read.registers().any(|r| written.registers().contains(&r));
            for kept in self.kept.iter_mut().flatten() {
                kept.is_stale |= overlaps(kept);
            }
        }
        if empties(inst.op(), inst.control) {
            self.empty(index, found);
        }
    }

    /// The cache loses what it has, by the instruction at `index` or after it.
    pub fn empty(&mut self, index: usize, found: &mut impl FnMut(Dependence, Short)) {
        if !self.is_empty {
            for kept in self.kept.iter_mut().filter_map(Option::take) {
                kept.report_unread(index, kept.port, found);
            }
            self.is_empty = true;
        }
    }
}

impl Kept {
    /// Nobody has read it. Of half arithmetic ptxas itself keeps some operands in vain: those that a comparison of halves reads
    /// next, and those of sums that are encoded as HFMA2, by the lane that they had before.
    fn report_unread(&self, second: usize, to: Port, found: &mut impl FnMut(Dependence, Short)) {
        if self.port.unit != Unit::Half {
            found(self.dependence(Relation::War, second, to), Short::Unread);
        }
    }

    fn dependence(&self, relation: Relation, second: usize, to: Port) -> Dependence {
        Dependence {
            relation,
            register: self.read.registers().start as u16,
            first: self.index,
            from: self.port,
            second,
            to,
            read_too: false,
            cycles: 0,
            signalled: true,
        }
    }
}
