//! The kinds of programs. A seed gives one program of each.

/// What a program is mostly made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Some groups of the table, each in the company of others.
    Mixed,
    /// Threads of a warp or a block exchange values through memory.
    Exchange,
    /// Operations on values that were negated, complemented or made absolute, in types of their own and of others.
    Modifiers,
    /// Operands that are a register plus a number.
    Operands,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Mixed, Kind::Exchange, Kind::Modifiers, Kind::Operands];

    /// As `--kinds` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mixed => "mixed",
            Kind::Exchange => "exchange",
            Kind::Modifiers => "modifiers",
            Kind::Operands => "operands",
        }
    }

    /// The kind of this name.
    pub fn find(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The first letter of a kernel's name: programs of several kinds may be in one module.
    pub fn letter(self) -> char {
        match self {
            Kind::Mixed => 'k',
            Kind::Exchange => 'x',
            Kind::Modifiers => 'm',
            Kind::Operands => 'o',
        }
    }
}
