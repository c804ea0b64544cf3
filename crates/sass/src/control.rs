//! The control code: when an instruction may issue, and which scoreboards it raises and waits for.
//!
//! Text form: `wait:read:write:yield:stall`, for example `03:-:1:Y:05` (wait for barriers 0 and 1, signal the
//! write on barrier 1, may yield, stall 5) or `--:-:-:-:01`.

use std::fmt;
use std::str::FromStr;

/// When an instruction may issue, and which scoreboards it raises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Cycles until the next instruction of the warp may issue, 0..=15.
    pub stall: u8,
    /// The scheduler may switch to another warp after this instruction.
    pub yields: bool,
    /// Scoreboard that counts until the results are written.
    pub write: Option<u8>,
    /// Scoreboard that counts until the sources are read.
    pub read: Option<u8>,
    /// Bit n: issue only when scoreboard n is zero.
    pub wait: u8,
    /// Bit n: keep the operand of lane n in the operand cache.
    pub reuse: u8,
}

/// Number of scoreboards.
pub const SCOREBOARDS: u8 = 6;
const NO_SCOREBOARD: u128 = 7;

impl Default for Control {
    /// Stall one cycle, wait for nothing.
    fn default() -> Control {
        Control { stall: 1, yields: false, write: None, read: None, wait: 0, reuse: 0 }
    }
}

/// Why a control code has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlError {
    /// Without yield the stall is 1..=11; with it, 0..=15.
    Stall,
    /// Scoreboards are 0..=5.
    Scoreboard,
    /// `.reuse` needs an instruction that does not yield, and a register operand in that lane.
    Reuse,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ControlError::Stall => "the stall count is out of range (1 to 11, or 0 to 15 with yield)",
            ControlError::Scoreboard => "a scoreboard number is out of range (0 to 5)",
            ControlError::Reuse => "operand reuse needs a register operand and cannot stand with yield",
        })
    }
}

impl Control {
    /// The rules of nvdisasm's `opex` tables: 1..=15 with yield, 17..=27 (bit 109 set) without, 0 drains.
    pub fn check(&self) -> Result<(), ControlError> {
        let scoreboard = |index: Option<u8>| index.is_none_or(|index| index < SCOREBOARDS);
        if self.stall > 15 || !self.yields && !(1..=11).contains(&self.stall) {
            Err(ControlError::Stall)
        } else if !scoreboard(self.write) || !scoreboard(self.read) || self.wait >= 1 << SCOREBOARDS {
            Err(ControlError::Scoreboard)
        } else if self.reuse != 0 && self.yields || self.reuse > 7 {
            Err(ControlError::Reuse)
        } else {
            Ok(())
        }
    }

    pub(crate) fn encode(&self) -> u128 {
        let scoreboard = |index: Option<u8>| index.map_or(NO_SCOREBOARD, u128::from);
        u128::from(self.stall) << 105
            | u128::from(!self.yields) << 109
            | scoreboard(self.write) << 110
            | scoreboard(self.read) << 113
            | u128::from(self.wait) << 116
            | u128::from(self.reuse) << 122
    }

    pub(crate) fn decode(word: u128) -> Control {
        let field = |lo: u32, width: u32| (word >> lo) as u8 & ((1u16 << width) - 1) as u8;
        let scoreboard = |index: u8| Some(index).filter(|&index| u128::from(index) != NO_SCOREBOARD);
        Control {
            stall: field(105, 4),
            yields: field(109, 1) == 0,
            write: scoreboard(field(110, 3)),
            read: scoreboard(field(113, 3)),
            wait: field(116, 6),
            reuse: field(122, 3),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.wait {
            0 => f.write_str("--:")?,
            wait => write!(f, "{wait:02x}:")?,
        }
        for scoreboard in [self.read, self.write] {
            match scoreboard {
                Some(index) => write!(f, "{index}:")?,
                None => f.write_str("-:")?,
            }
        }
        write!(f, "{}:{:02}", if self.yields { 'Y' } else { '-' }, self.stall)
    }
}

impl FromStr for Control {
    type Err = ();

    fn from_str(text: &str) -> Result<Control, ()> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(());
        let (wait, read, write, yields, stall) = (next()?, next()?, next()?, next()?, next()?);
        let scoreboard = |text: &str| match text {
            "-" => Ok(None),
            _ => text.parse().map(Some).map_err(|_| ()),
        };
        let control = Control {
            wait: if wait == "--" { 0 } else { u8::from_str_radix(wait, 16).map_err(|_| ())? },
            read: scoreboard(read)?,
            write: scoreboard(write)?,
            yields: match yields {
                "Y" => true,
                "-" => false,
                _ => return Err(()),
            },
            stall: stall.parse().map_err(|_| ())?,
            reuse: 0,
        };
        if parts.next().is_some() { Err(()) } else { Ok(control) }
    }
}
