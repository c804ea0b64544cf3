//! The contents of an `mbarrier`, which PTX keeps opaque, as the machine has them. From the lowest bit: one that is
//! zero, how many arrivals a phase needs (20 bits), the bytes that transactions still owe (22, signed), how many
//! arrivals are pending (20), and the phase's parity. Arrivals are counted up to zero.
//!
//! ptxas's code writes all of it but the bytes when it makes a barrier, and reads what is pending. The state that an
//! arrival gives back is the contents before it.

/// Fields: lowest bit, width.
const EXPECTED: (u32, u32) = (1, 20);
const OWED: (u32, u32) = (21, 22);
const PENDING: (u32, u32) = (43, 20);
const PARITY: u32 = 63;

fn field(bits: u64, (lowest, width): (u32, u32)) -> u64 {
    bits >> lowest & (u64::MAX >> (64 - width))
}

fn at(value: u64, (lowest, width): (u32, u32)) -> u64 {
    (value & (u64::MAX >> (64 - width))) << lowest
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    expected: u64,
    pending: u64,
    owed: i64,
    odd: bool,
}

impl Mbarrier {
    pub fn new(count: u64) -> Mbarrier {
        let count = field(count, (0, PENDING.1));
        Mbarrier { expected: count, pending: count, owed: 0, odd: false }
    }

    pub fn read(bits: u64) -> Mbarrier {
        let count = |place: (u32, u32)| field(field(bits, place).wrapping_neg(), (0, place.1));
        let owed = (field(bits, OWED) << (64 - OWED.1)) as i64 >> (64 - OWED.1);
        Mbarrier { expected: count(EXPECTED), pending: count(PENDING), owed, odd: bits >> PARITY == 1 }
    }

    pub fn bits(self) -> u64 {
        u64::from(self.odd) << PARITY
            | at(self.pending.wrapping_neg(), PENDING)
            | at(self.owed as u64, OWED)
            | at(self.expected.wrapping_neg(), EXPECTED)
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

    /// What an instruction of the machine does: so many arrive, who may drop out, and more bytes are owed; `None` if
    /// more arrive than are expected.
    pub fn update(mut self, arrivals: u64, bytes: i64, drops: bool) -> Option<Mbarrier> {
        self.pending = self.pending.checked_sub(arrivals)?;
        self.owed += bytes;
        if drops {
            self.expected = self.expected.saturating_sub(arrivals);
        }
        Some(self.settled())
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

    /// What ptxas's code writes for `mbarrier.init` with these counts.
    #[test]
    fn a_new_barrier() {
        assert_eq!(Mbarrier::new(1).bits(), 0x7fff_f800_001f_fffe);
        assert_eq!(Mbarrier::new(2).bits(), 0x7fff_f000_001f_fffc);
    }

    #[test]
    fn no_more_than_are_expected() {
        assert_eq!(Mbarrier::new(1).update(2, 0, false), None);
        assert_eq!(Mbarrier::read(0).update(1, 0, false), None, "what is no barrier expects no one");
        let one = Mbarrier::new(2).update(1, 0, true).unwrap();
        let over = one.update(1, 0, false).unwrap();
        assert_eq!((over.pending(), over.is_past_parity(false)), (1, true));
    }
}
