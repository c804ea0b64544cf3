//! The contents of an `mbarrier`. PTX keeps them opaque; here 64 bits have, from the lowest: how many arrivals a phase
//! needs (20 bits), how many are pending (20), the bytes that transactions still owe (21, signed), and the phase's
//! parity. The state that an arrival gives back is the contents before it.

const COUNT_BITS: u32 = 20;
const OWED_BITS: u32 = 21;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    expected: u64,
    pending: u64,
    owed: i64,
    odd: bool,
}

impl Mbarrier {
    pub fn new(count: u64) -> Mbarrier {
        Mbarrier { expected: count & COUNT, pending: count & COUNT, owed: 0, odd: false }
    }

    pub fn read(bits: u64) -> Mbarrier {
        let owed = (bits >> (2 * COUNT_BITS) << (64 - OWED_BITS)) as i64 >> (64 - OWED_BITS);
        let odd = bits >> (2 * COUNT_BITS + OWED_BITS) & 1 == 1;
        Mbarrier { expected: bits & COUNT, pending: bits >> COUNT_BITS & COUNT, owed, odd }
    }

    pub fn bits(self) -> u64 {
        let owed = self.owed as u64 & ((1 << OWED_BITS) - 1);
        u64::from(self.odd) << (2 * COUNT_BITS + OWED_BITS)
            | owed << (2 * COUNT_BITS)
            | (self.pending & COUNT) << COUNT_BITS
            | self.expected & COUNT
    }

    pub fn arrive(mut self, count: u64) -> Mbarrier {
        self.pending = self.pending.saturating_sub(count);
        self.settled()
    }

    /// An arrival that is not expected again in later phases.
    pub fn drop(mut self, count: u64) -> Mbarrier {
        self.expected = self.expected.saturating_sub(count);
        self.arrive(count)
    }

    pub fn expect(mut self, bytes: u64) -> Mbarrier {
        self.owed += bytes as u32 as i64;
        self
    }

    pub fn complete(mut self, bytes: u64) -> Mbarrier {
        self.owed -= bytes as u32 as i64;
        self.settled()
    }

    /// A phase ends when nothing is pending; the next one begins.
    fn settled(self) -> Mbarrier {
        match (self.pending, self.owed) {
            (0, 0) => Mbarrier { pending: self.expected, odd: !self.odd, ..self },
            _ => self,
        }
    }

    /// Is the phase of a state over?
    pub fn is_past(self, state: u64) -> bool {
        self.odd != Mbarrier::read(state).odd
    }

    /// Is the last phase with this parity over?
    pub fn is_past_parity(self, odd: bool) -> bool {
        self.odd != odd
    }

    /// Arrivals and bytes that the phase still waits for.
    pub fn missing(self) -> (u64, i64) {
        (self.pending, self.owed)
    }

    pub fn pending(self) -> u64 {
        self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases() {
        let start = Mbarrier::new(2);
        let state = start.bits();
        let one = start.arrive(1);
        assert_eq!((one.pending(), one.is_past(state), one.is_past_parity(true)), (1, false, true));
        let waiting = one.expect(64).arrive(1);
        assert!(!waiting.is_past(state));
        let over = waiting.complete(48).complete(16);
        assert!(over.is_past(state) && over.is_past_parity(false));
        assert_eq!(Mbarrier::read(over.bits()), over);
        assert_eq!(over.pending(), 2);
        assert_eq!(over.drop(1).arrive(1).pending(), 1);
    }

    #[test]
    fn transactions_may_come_before_they_are_expected() {
        let early = Mbarrier::new(1).complete(100);
        assert_eq!(Mbarrier::read(early.bits()), early);
        assert!(early.expect(100).arrive(1).is_past(Mbarrier::new(1).bits()));
    }
}
