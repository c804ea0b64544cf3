//! The machine model: when an instruction may issue after another that it depends on.
//!
//! What holds:
//! * An instruction belongs to a [`Unit`]; each of its registers is touched through a [`Port`] (the unit, and which of
//!   its inputs or outputs). Distances depend on the two ports and on the target alone, so a scheduler looks a pair up
//!   in a table: [`Model::raw`], [`Model::waw`], [`Model::war`].
//! * A [`Need`] is a distance in cycles between the two issues, and for a *late* port also a signal: the first
//!   instruction must count on a scoreboard that is waited for before the second one issues.
//! * A scoreboard that is waited for sooner than [`VISIBLE`] cycles after it was set does not hold the waiter back.
//! * A late unit works in order: [`Unit::reads_before`] and [`Unit::returns_before`] say where the signal of a later
//!   instruction speaks for an earlier one, so that one barrier on the last of a run is enough.
//!
//! The distances were measured in code that ptxas 13.0 emits (`cargo xtask probe-latency` regenerates
//! `model/distances/*.txt`, which say how often each was seen). A pair that was never seen is taken from the safe side:
//! the longest on other targets; else the longest distance that was seen from this result, or to this source from the
//! plainest units, whichever is longer; of a result of which nothing was seen, [`UNKNOWN`]. `probe-latency --unknown`
//! and `--waits` list such pairs. Nothing here was measured on a GPU.

pub mod cache;
pub mod issue;
mod ports;
mod unit;

/// `distances/*.txt`, made static by the build script.
mod distances {
    use super::{Isa, Model, Part, Row, Unit};
    include!(concat!(env!("OUT_DIR"), "/distances.rs"));
}

pub use ports::{Part, Unit};
pub use unit::{Port, Touch, Touches};

use crate::inst::Inst;
use crate::isa::Isa;

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

/// What must be between two instructions that touch the same register.
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
    /// The model of an encoding.
    pub fn of(isa: Isa) -> &'static Model {
        &distances::MODELS[isa as usize]
    }

    /// Evaluated at compile time, for a start without delay; hence the plain loops here and below.
    const fn build(isa: Isa) -> Model {
        let mut interval = [1; Unit::COUNT];
        let mut i = 0;
        while i < distances::ISSUE.len() {
            let ((unit, _), _, seen) = distances::ISSUE[i];
            interval[unit as usize] = max(seen[isa as usize].0, 1);
            i += 1;
        }
        Model { isa, raw: Matrix::of(isa, distances::RAW), waw: Matrix::of(isa, distances::WAW), interval }
    }

    /// The encoding that it is the model of.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Every register that the instruction reads or writes, with the port that it goes through; implied predicates
    /// (P2R, R2P) included, constants (RZ, PT) left out.
    pub fn touches(&self, inst: &Inst) -> Touches {
        Touches::of(inst, self.isa)
    }

    /// The same, one after the other: no list is made. `unit` is what runs the instruction.
    pub fn for_each_touch(&self, inst: &Inst, unit: Unit, visit: impl FnMut(Touch)) {
        unit::for_each_touch(inst, unit, visit);
    }

    /// What runs the instruction.
    pub fn unit(&self, inst: &Inst) -> Unit {
        Unit::of(inst, self.isa)
    }

    /// What the instruction reads through the operand cache.
    pub fn cached<'a>(&self, inst: &'a Inst) -> impl Iterator<Item = cache::Cached> + 'a {
        cache::reads(inst, self.unit(inst))
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
            // One after the other in one queue.
            _ if source.is_late_source() => 1,
            (source, result) if source.is_matrix() || source == Unit::Double || result == Unit::Fp64 => 1,
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
    rows: [[u8; Port::COUNT]; ROWS],
    /// The row of each port.
    row: [u8; Port::COUNT],
    longest: [u8; Port::COUNT],
}

/// Enough rows for either matrix.
const ROWS: usize = 1 + max(firsts(distances::RAW), firsts(distances::WAW)) as usize;

/// How many ports come first in a pair, if the pairs of each are adjacent; else more than that.
const fn firsts(seen: &[Row]) -> u8 {
    let (mut count, mut i) = (0, 0);
    while i < seen.len() {
        if i == 0 || Port::new(seen[i].0).index() != Port::new(seen[i - 1].0).index() {
            count += 1;
        }
        i += 1;
    }
    count
}

/// The distance of a pair. What was not seen on this target but on others has the longest of those.
const fn distance(isa: Isa, seen: &Row) -> u8 {
    let (cycles, times) = seen.2[isa as usize];
    if times > 0 {
        return cycles;
    }
    let (mut longest, mut i) = (0, 0);
    while i < seen.2.len() {
        longest = max(longest, seen.2[i].0);
        i += 1;
    }
    longest
}

const fn max(a: u8, b: u8) -> u8 {
    if a > b { a } else { b }
}

/// Each number, but no less than this.
const fn at_least(mut numbers: [u8; Port::COUNT], least: u8) -> [u8; Port::COUNT] {
    let mut i = 0;
    while i < numbers.len() {
        numbers[i] = max(numbers[i], least);
        i += 1;
    }
    numbers
}

impl Matrix {
    const fn of(isa: Isa, seen: &[Row]) -> Matrix {
        // The worst from each port, and to each from the simplest units, for pairs that were never seen.
        let (mut from, mut to) = ([0; Port::COUNT], [0; Port::COUNT]);
        let mut i = 0;
        while i < seen.len() {
            let (first, second, cycles) =
                (Port::new(seen[i].0), Port::new(seen[i].1), distance(isa, &seen[i]));
            if !matches!(second.unit, Unit::Gmma) {
                from[first.index()] = max(from[first.index()], cycles);
            }
            if first.unit.is_plain() {
                to[second.index()] = max(to[second.index()], cycles);
            }
            i += 1;
        }
        let unknown = [UNKNOWN as u8; Port::COUNT];
        let mut matrix = Matrix { rows: [unknown; ROWS], row: [0; Port::COUNT], longest: unknown };
        let (mut next, mut i) = (1, 0);
        while i < seen.len() {
            let (first, second) = (Port::new(seen[i].0).index(), Port::new(seen[i].1).index());
            if matrix.row[first] == 0 {
                matrix.row[first] = next;
                next += 1;
                if from[first] > 0 {
                    matrix.rows[matrix.row[first] as usize] = at_least(to, from[first]);
                    matrix.longest[first] = from[first];
                }
            }
            matrix.rows[matrix.row[first] as usize][second] = distance(isa, &seen[i]);
            i += 1;
        }
        matrix
    }

    fn cycles(&self, first: Port, second: Port) -> u16 {
        u16::from(self.rows[self.row[first.index()] as usize][second.index()])
    }

    fn longest(&self, first: Port) -> u16 {
        u16::from(self.longest[first.index()])
    }
}
