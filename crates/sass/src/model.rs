//! The machine model: when an instruction may issue after another that it depends on.
//!
//! What holds:
//! * An instruction belongs to a [`Unit`]; each of its registers is touched through a [`Port`] (the unit, and which of
//!   its inputs or outputs). Distances depend on the two ports and on the target alone, so a scheduler looks a pair up
//!   in a table: [`Model::raw`], [`Model::waw`], [`Model::war`].
//! * A [`Need`] is a distance in cycles between the two issues, and for a *late* port also a signal: the first
//!   instruction must count on a scoreboard that somebody has waited for before the second one issues.
//! * A scoreboard that is waited for sooner than [`VISIBLE`] cycles after it was set does not hold the waiter back.
//! * A late unit works in order: [`Unit::reads_before`] and [`Unit::returns_before`] say where the signal of a later
//!   instruction speaks for an earlier one, so that one barrier on the last of a run is enough.
//!
//! The distances were measured in code that ptxas 13.0 emits (`cargo xtask probe-latency` regenerates
//! `model/distances.rs`, which says how often each was seen). A pair that was never seen is taken from the safe side:
//! the longest on other targets; else the longest distance that was seen from this result, or to this source from the plainest units, whichever is longer;
//! of a result of which nothing was seen, [`UNKNOWN`]. Nothing here was measured on a GPU.

mod distances;
mod unit;

pub use unit::{Part, Port, Touch, Touches, Unit};

use crate::inst::Inst;
use crate::isa::Isa;
use std::sync::OnceLock;

/// Cycles between an instruction that sets a scoreboard and the first one that sees it set.
pub const VISIBLE: u16 = 2;

/// Registers of all files in one numbering: see [`Touch::registers`].
pub const REGISTERS: usize = 544;

/// Which scoreboard of the first instruction tells that the second may issue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Signal {
    /// The write scoreboard: results are there (and sources long read).
    Write,
    /// The read scoreboard or the write scoreboard: sources are read.
    Read,
}

/// What must lie between two instructions that touch the same register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// Cycles from the issue of the first to the issue of the second.
    pub cycles: u16,
    /// The first has no fixed latency: its scoreboard must be waited for as well.
    pub signal: Option<Signal>,
}

/// A pair of ports with the least distance that was seen, and how often, for each of [`Isa::ALL`]; 0 times: never.
type Row = ((Unit, Part), (Unit, Part), [(u8, u32); Isa::ALL.len()]);

/// The distances of one target.
pub struct Model {
    isa: Isa,
    raw: Matrix,
    waw: Matrix,
    interval: [u8; Unit::COUNT],
}

impl Model {
    pub fn of(isa: Isa) -> &'static Model {
        static MODELS: [OnceLock<Model>; Isa::ALL.len()] = [const { OnceLock::new() }; Isa::ALL.len()];
        MODELS[isa as usize].get_or_init(|| Model::build(isa))
    }

    fn build(isa: Isa) -> Model {
        let mut interval = [1; Unit::COUNT];
        for ((unit, _), (_, _), seen) in distances::ISSUE {
            interval[*unit as usize] = seen[isa as usize].0.max(1);
        }
        Model { isa, raw: Matrix::of(isa, distances::RAW), waw: Matrix::of(isa, distances::WAW), interval }
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Every register that the instruction reads or writes, with the port that it goes through; implied predicates
    /// (P2R, R2P) included, constants (RZ, PT) left out.
    pub fn touches<'a>(&self, inst: &'a Inst) -> Touches<'a> {
        Touches::of(inst, self.isa)
    }

    pub fn unit(&self, inst: &Inst) -> Unit {
        Unit::of(inst, self.isa)
    }

    /// Cycles between two instructions of this unit, dependent or not.
    pub fn interval(&self, unit: Unit) -> u16 {
        u16::from(self.interval[unit as usize])
    }

    /// Read after write: `result` of the first instruction is `source` of the second.
    pub fn raw(&self, result: Port, source: Port) -> Need {
        let late = result.is_late_result() && !result.unit.forwards_to(source.unit);
        let cycles = if result.unit.delays_after_signal() || !late {
            self.raw.cycles(result, source)
        } else {
            VISIBLE
        };
        Need { cycles, signal: late.then_some(Signal::Write) }
    }

    /// Write after write: both instructions write the register.
    pub fn waw(&self, first: Port, second: Port) -> Need {
        let late = first.is_late_result() && !first.unit.returns_before(second.unit);
        let cycles = match first.is_late_result() {
            true => VISIBLE,
            // What any reader may read has been written.
            false => self.waw.cycles(first, second).min(self.raw.longest(first)),
        };
        Need { cycles, signal: late.then_some(Signal::Write) }
    }

    /// Write after read: the second instruction overwrites what the first one reads.
    ///
    /// Sources are read at issue or soon after, sooner than anything is written: all that was seen between
    /// instructions of fixed latency is one cycle, two where the writer of an R register is late (but one before double
    /// precision, and after a matrix or full-rate double-precision instruction), and three where UMOV or ULDC, which
    /// write early, overwrite a source of the uniform datapath.
    pub fn war(&self, source: Port, result: Port) -> Need {
        let late = source.is_late_source() && !source.unit.reads_before(result.unit);
        let cycles = match (source.unit, result.unit) {
            (Unit::Uniform, Unit::UniformMove) => 3,
            _ if late => VISIBLE,
            // Behind each other in one queue.
            _ if source.is_late_source() => 1,
            (Unit::Double | Unit::Tensor | Unit::TensorInteger | Unit::TensorSmall, _) | (_, Unit::Fp64) => 1,
            (_, writer) if writer.writes_late() && source.part.is_general() => VISIBLE,
            _ => 1,
        };
        Need { cycles, signal: late.then_some(Signal::Read) }
    }

    /// Cycles after which nothing has to wait for this result any more, scoreboards aside.
    pub fn settled(&self, result: Port) -> u16 {
        if result.is_late_result() && !result.unit.delays_after_signal() {
            VISIBLE
        } else {
            self.raw.longest(result)
        }
    }

    /// Cycles after which a source may be overwritten by anything, scoreboards aside.
    pub const CONSUMED: u16 = 3;
}

/// The distance of a pair of which nothing is known: longer than any that was seen, scoreboards aside.
pub const UNKNOWN: u16 = 40;

/// Cycles by pair of ports.
struct Matrix {
    /// Cycles from one port to each other. The first row is that of all ports of which nothing was seen, and most are:
    /// they give no result.
    rows: Vec<[u8; Port::COUNT]>,
    /// The row of each port.
    row: [u8; Port::COUNT],
    longest: [u8; Port::COUNT],
}

impl Matrix {
    fn of(isa: Isa, rows: &[Row]) -> Matrix {
        // What was not seen on this target but on others has the longest of those.
        let least = |columns: &[(u8, u32)]| match columns[isa as usize] {
            (_, 0) => columns.iter().filter(|(_, times)| *times > 0).map(|(cycles, _)| *cycles).max(),
            (cycles, _) => Some(cycles),
        };
        let seen = |row: &Row| Some((Port::new(row.0), Port::new(row.1), least(&row.2)?));
        let known = || rows.iter().filter_map(seen);
        // The worst from each port, and to each from the simplest units, for pairs that were never seen.
        let (mut from, mut to) = ([0u8; Port::COUNT], [0u8; Port::COUNT]);
        for (first, second, cycles) in known() {
            if second.unit != Unit::Gmma {
                from[first.index()] = from[first.index()].max(cycles);
            }
            if first.unit.is_plain() {
                to[second.index()] = to[second.index()].max(cycles);
            }
        }
        let (mut rows, mut row) = (vec![[UNKNOWN as u8; Port::COUNT]], [0; Port::COUNT]);
        for (first, second, least) in known() {
            let (first, second) = (first.index(), second.index());
            if row[first] == 0 {
                row[first] = rows.len() as u8;
                rows.push(if from[first] > 0 { to.map(|to| to.max(from[first])) } else { rows[0] });
            }
            rows[row[first] as usize][second] = least;
        }
        let longest = from.map(|longest| if longest > 0 { longest } else { UNKNOWN as u8 });
        Matrix { rows, row, longest }
    }

    fn cycles(&self, first: Port, second: Port) -> u16 {
        u16::from(self.rows[self.row[first.index()] as usize][second.index()])
    }

    fn longest(&self, first: Port) -> u16 {
        u16::from(self.longest[first.index()])
    }
}
