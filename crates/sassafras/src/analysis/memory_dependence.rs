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
        let overlap = self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes;
        // Numbers first: operands take longer to compare.
        overlap || self.base.is_none() || (self.base, self.index) != (other.base, other.index)
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

    /// Does it stay in order with others only that are not of this kind? It reads memory at most, and takes part with
    /// its registers alone.
    pub fn is_passive(&self) -> bool {
        let is_alone = matches!(self.convergence, Convergence::Thread | Convergence::Matrix);
        let reads = matches!(self.memory, Memory::None | Memory::Read(_));
        is_alone && reads && self.orders.is_none() && self.motion == Motion::Free
    }

    /// Of two that stay in order: does everything that must come before the second come before the first as well?
    /// Local memory passes what orders others, unless the bytes may be the same; threads that exchange values pass fences.
    pub fn closes(first: &Effects, second: &Effects) -> bool {
        let is_full = first.motion == Motion::Free && first.orders.is_some_and(|o| o.orders_all());
        let is_fence = matches!(first.memory, Memory::None) && first.convergence == Convergence::Thread;
        let is_plain = second.orders.is_none() && second.motion == Motion::Free;
        let is_local = |a: &Access| matches!(a.space, Space::Generic | Space::Local);
        let may_be_local = matches!(&second.memory, Memory::Read(a) | Memory::Write(a) if is_local(a));
        is_full && second.convergence != Convergence::Converge && !may_be_local && (!is_fence || is_plain)
    }

    /// Is it not known what it accesses, or is it a strong access by a generic address?
    fn may_access_all(&self) -> bool {
        match self.memory {
            Memory::None => false,
            Memory::Read(access) | Memory::Write(access) => {
                access.space == Space::Generic && self.orders.is_some()
            }
            Memory::Unknown => true,
        }
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
        _ => other.may_access_all() || converges && other.orders.is_some(),
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
    let is_ordered = match (&first.orders, &second.orders) {
        (Some(_), Some(_)) => true,
        (Some(order), None) => second.memory.is_any(|a| order.keeps_later(a)),
        (None, Some(order)) => first.memory.is_any(|a| order.keeps_earlier(a)),
        (None, None) => false,
    };
    is_ordered || may_conflict(&first.memory, &second.memory)
}

/// May both access the same bytes, one of them to write?
fn may_conflict(first: &Memory, second: &Memory) -> bool {
    match (first, second) {
        (Memory::None, _) | (_, Memory::None) | (Memory::Read(_), Memory::Read(_)) => false,
        (Memory::Unknown, other) | (other, Memory::Unknown) => other.is_any(|a| a.space != Space::Local),
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
