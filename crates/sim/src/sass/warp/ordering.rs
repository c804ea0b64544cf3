//! What the warp sees of memory, and others of the warp's, where [`crate::memory::weak`] decides.

use super::access::shared_place;
use super::{Now, Warp};
use crate::memory::weak::{At, Bytes, Fence, Scope, Strength, Who};
use crate::memory::{Global, Space};
use crate::sass::cluster::Common;

impl Now<'_, '_> {
    pub(super) fn is_weak(&self) -> bool {
        self.global.weak.is_some()
    }

    /// Memory as the model takes it.
    pub(super) fn memory(&mut self) -> Bytes<'_> {
        Bytes { global: self.global, shared: &mut self.common.shared }
    }

    /// The address as the model has it; none where a thread's own memory or a constant is.
    pub(super) fn at(&self, asked: Space, address: u64) -> Option<At> {
        let (space, offset) = asked.locate(address);
        match space {
            Space::Global | Space::Generic => Some(At::global(offset)),
            Space::Multicast => Some(At::global(offset.wrapping_sub(Space::Multicast.window()))),
            Space::Shared | Space::Cluster => {
                let (rank, offset) = shared_place(asked, offset, self.context.rank as usize);
                Some(At::shared(self.common.number, rank, offset))
            }
            Space::Local | Space::Const | Space::Param => None,
        }
    }
}

/// Bytes in place before an operation changes them: where they are, and what they were.
pub(super) struct Update {
    at: At,
    old: Vec<u8>,
}

impl Warp {
    pub(super) fn who(&self, now: &Now) -> Who {
        now.context.who(self.index)
    }

    pub(super) fn fence(&self, now: &mut Now, fence: Fence) {
        let who = self.who(now);
        now.memory().with(|weak, memory| weak.fence(memory, who, fence));
    }

    pub(super) fn order_release(&self, now: &mut Now, scope: Scope) {
        self.fence(now, Fence { release: Some(scope), acquire: None });
    }

    pub(super) fn order_acquire(&self, now: &mut Now, scope: Scope) {
        self.fence(now, Fence { release: None, acquire: Some(scope) });
    }

    /// What the warp sees of bytes that memory has.
    pub(super) fn see(&self, now: &mut Now, (space, address): (Space, u64), data: &mut [u8], how: Strength) {
        let Some(at) = now.at(space, address) else { return };
        let who = self.who(now);
        now.memory().with(|weak, _| weak.load(who, at, data, how));
    }

    /// Begins to change bytes in place: the warp's own stores are there.
    pub(super) fn begin_update(&self, now: &mut Now, place: (Space, u64), bytes: usize) -> Option<Update> {
        let (at, who) = (now.at(place.0, place.1)?, self.who(now));
        now.memory().with(|weak, memory| {
            weak.before_update(memory, who, at, bytes);
            Update { at, old: memory.read(at, bytes) }
        })
    }

    pub(super) fn end_update(&self, now: &mut Now, update: Option<Update>, scope: Scope) {
        let Some(Update { at, old }) = update else { return };
        let who = self.who(now);
        now.memory().with(|weak, memory| {
            let new = memory.read(at, old.len());
            weak.after_update(who, at, &old, &new, scope);
        });
    }
}

/// Bytes that a copy writes: for a warp that waits for it, in its own name, otherwise for all.
pub fn put(common: &mut Common, global: &mut Global, who: Option<Who>, at: At, data: &[u8]) {
    let mut memory = Bytes { global, shared: &mut common.shared };
    memory.with(|weak, memory| match who {
        Some(who) => weak.store(memory, who, at, data, Strength::Weak),
        None => weak.write_by_unit(memory, at, data),
    });
}
