//! The 64 bits of a barrier in shared memory: how many threads must come in the next phase, how many bytes are on their
//! way, how many threads have yet to come, and the phase. The machine counts threads up to zero; where it keeps the
//! bytes is not known, and no program sees it.

/// Fields of a barrier: lowest bit, width.
const EXPECTED: (u32, u32) = (1, 20);
const TRANSACTIONS: (u32, u32) = (21, 22);
const PENDING: (u32, u32) = (43, 20);
const PHASE: u64 = 1 << 63;

fn field(word: u64, (bit, width): (u32, u32)) -> u64 {
    word >> bit & (u64::MAX >> (64 - width))
}

fn with(word: u64, (bit, width): (u32, u32), value: u64) -> u64 {
    let mask = u64::MAX >> (64 - width);
    word & !(mask << bit) | (value & mask) << bit
}

/// The barrier after an arrival; `None` if more arrive than are expected.
pub fn arrived(word: u64, arrivals: u64, transactions: u64, drops: bool) -> Option<u64> {
    let left = (1u64 << PENDING.1) - field(word, PENDING);
    if arrivals > left % (1 << PENDING.1) {
        return None;
    }
    let mut word = with(word, PENDING, field(word, PENDING) + arrivals);
    word = with(word, TRANSACTIONS, field(word, TRANSACTIONS).wrapping_add(transactions));
    if drops {
        word = with(word, EXPECTED, field(word, EXPECTED) + arrivals);
    }
    if field(word, PENDING) == 0 && field(word, TRANSACTIONS) == 0 {
        word = with(word, PENDING, field(word, EXPECTED)) ^ PHASE;
    }
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A barrier that expects so many threads, as code writes it.
    fn barrier(count: u64) -> u64 {
        let left = (1 << PENDING.1) - count;
        with(with(0, EXPECTED, left), PENDING, left)
    }

    #[test]
    fn phases() {
        let one = arrived(barrier(2), 1, 0, false).unwrap();
        assert_eq!(one & PHASE, 0);
        let two = arrived(one, 1, 0, false).unwrap();
        assert_eq!(two, barrier(2) | PHASE);
        assert_eq!(arrived(barrier(1), 2, 0, false), None);
        assert_eq!(arrived(0, 1, 0, false), None, "what is no barrier expects no one");
    }

    #[test]
    fn transactions() {
        let waiting = arrived(barrier(1), 1, 64, false).unwrap();
        assert_eq!(waiting & PHASE, 0);
        let half = arrived(waiting, 0, 48u64.wrapping_neg(), false).unwrap();
        assert_eq!(half & PHASE, 0);
        assert_eq!(arrived(half, 0, 16u64.wrapping_neg(), false), Some(barrier(1) | PHASE));
    }

    #[test]
    fn threads_that_drop_out() {
        let one = arrived(barrier(2), 1, 0, true).unwrap();
        assert_eq!(arrived(one, 1, 0, false), Some(barrier(1) | PHASE));
    }
}
