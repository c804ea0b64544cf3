//! Memory dependence: may two accesses overlap, must two operations keep their order, what clobbers a load.
//!
//! The properties of one operation are in `effects.rs`; here are the questions about two, or about a load and what comes
//! after it. Addresses are compared by base register and offset, and by state space; nothing is known of pointers with
//! other bases. Used by redundant load elimination (`opt/combine/loads.rs`) and by the dependence graph of the scheduler
//! (`codegen/sched_prepass`). Constant time.

use super::effects::{Access, Convergence, Direction, Effects, Memory, Motion, Ordering, Space};

impl Access {
    pub fn may_alias(&self, other: &Access) -> bool {
        use Space::{Generic, ReadOnly};
        if self.space == ReadOnly || other.space == ReadOnly {
            return false;
        }
        if self.space != other.space && self.space != Generic && other.space != Generic {
            return false;
        }
        let same_base = self.base.is_some() && (self.base, self.index) == (other.base, other.index);
        let overlap = self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes;
        !same_base || overlap
    }
}

impl Ordering {
    /// Loads of read-only data stay as well: what an earlier grid writes is read-only no sooner than it is waited for.
    fn covers(&self, space: Space) -> bool {
        match space {
            Space::Shared => self.shared,
            Space::Global | Space::ReadOnly => self.global,
            Space::Generic => self.shared || self.global,
            Space::Local => false,
        }
    }

    pub(super) fn keeps_later(&self, access: &Access) -> bool {
        self.direction != Direction::Release && self.covers(access.space)
    }

    pub(super) fn keeps_earlier(&self, access: &Access) -> bool {
        self.direction != Direction::Acquire && self.covers(access.space)
    }
}

impl Memory {
    /// May it be an access that this holds for?
    fn is_any(&self, holds: impl Fn(&Access) -> bool) -> bool {
        match self {
            Memory::Read(access) | Memory::Write(access) => holds(access),
            Memory::None => false,
            Memory::Unknown => true,
        }
    }
}

impl Effects {
    /// Must the second stay after the first, whatever registers they have?
    pub fn stay_in_order(first: &Effects, second: &Effects) -> bool {
        if first.is_free() || second.is_free() {
            return false;
        }
        first.motion == Motion::Barrier
            || second.motion == Motion::Barrier
            || convergence_order(first, second)
            || memory_order(first, second)
    }

    /// Of two that stay in order: does everything that must come before the second come before the first as well?
    /// Local memory passes what orders others; threads that exchange values pass fences.
    pub fn closes(first: &Effects, second: &Effects) -> bool {
        let is_full = first.motion == Motion::Free && first.orders.is_some_and(|o| o.orders_all());
        let is_fence = first.memory == Memory::None && first.convergence == Convergence::Thread;
        let is_plain = second.orders.is_none() && second.motion == Motion::Free;
        let may_be_local =
            matches!(second.memory, Memory::Read(a) | Memory::Write(a) if a.space == Space::Generic);
        is_full && second.convergence != Convergence::Converge && !may_be_local && (!is_fence || is_plain)
    }

    /// What it does to the loads that are available before it.
    pub fn memory_role(&self) -> MemoryRole {
        match self.memory {
            _ if self.orders.is_some() || self.motion != Motion::Free => MemoryRole::Clobber,
            Memory::None => MemoryRole::NoAccess,
            Memory::Read(Access { space: Space::ReadOnly, .. }) => MemoryRole::InvariantLoad,
            Memory::Read(_) => MemoryRole::Load,
            Memory::Write(_) | Memory::Unknown => MemoryRole::Clobber,
        }
    }
}

fn convergence_order(first: &Effects, second: &Effects) -> bool {
    use Convergence::{Collective, Converge, Matrix, Thread};
    // A convergence point stays between the fences around it.
    let with_thread = |converges: bool, other: &Effects| match other.motion {
        Motion::Wgmma => converges,
        _ => other.memory == Memory::Unknown || converges && other.orders.is_some(),
    };
    match (first.convergence, second.convergence) {
        (Thread, Thread) => false,
        (Matrix, other) | (other, Matrix) => other == Converge,
        (Collective | Converge, Collective | Converge) => true,
        (one, Thread) => with_thread(one == Converge, second),
        (Thread, one) => with_thread(one == Converge, first),
    }
}

fn memory_order(first: &Effects, second: &Effects) -> bool {
    match (&first.orders, &second.orders) {
        (Some(_), Some(_)) => return true,
        (Some(order), None) => return second.memory.is_any(|a| order.keeps_later(a)),
        (None, Some(order)) => return first.memory.is_any(|a| order.keeps_earlier(a)),
        (None, None) => {}
    }
    match (&first.memory, &second.memory) {
        (Memory::None, _) | (_, Memory::None) | (Memory::Read(_), Memory::Read(_)) => false,
        (Memory::Unknown, _) | (_, Memory::Unknown) => true,
        (Memory::Read(a) | Memory::Write(a), Memory::Read(b) | Memory::Write(b)) => a.may_alias(b),
    }
}

/// What an instruction does to available loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRole {
    NoAccess,
    Load,
    /// A load of memory that is not written while the kernel runs.
    InvariantLoad,
    /// It may write, or make writes of other threads visible: no load before it is available after it.
    Clobber,
}
