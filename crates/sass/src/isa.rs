//! Sets of encodings.

pub use targets::Isa;

/// A set of encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsaSet(pub(crate) u16);

impl IsaSet {
    /// Is it one of them?
    pub fn contains(self, isa: Isa) -> bool {
        self.0 >> isa as u16 & 1 == 1
    }
}
