//! The static issue model: what the control codes of one warp say about time. The timeline is of [`crate::timeline`].
//!
//! One warp runs the code in the order in which it is laid out, each instruction once, and nothing else runs: the next
//! instruction issues when the stall count of this one is over. So the cycle of an instruction is the least number of
//! cycles after the start. A wait for a scoreboard takes as long as what it waits for takes, which nobody knows before the
//! run: it is marked, and counts as nothing.

use sass::{Control, Inst, M, Op};

/// From the instruction that raises a scoreboard to the first one, in the order of the code, that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its number.
    pub scoreboard: u8,
    /// It counts until the sources are read, not until the results are there.
    pub read: bool,
    /// The instruction that raises it.
    pub from: usize,
    /// The one that waits; `None`: there is none behind it.
    pub to: Option<usize>,
}

/// The cycle in which each instruction issues, and the one after the last.
pub fn cycles(insts: &[Inst]) -> Vec<u64> {
    // A stall of none without a hold is until the pipes are empty; it counts as one cycle.
    let next = |now: &mut u64, inst: &Inst| {
        let cycle = *now;
        *now += u64::from(inst.control.stall.max(1));
        Some(cycle)
    };
    let mut now = 0;
    let mut all: Vec<u64> = insts.iter().filter_map(|inst| next(&mut now, inst)).collect();
    all.push(now);
    all
}

/// The scoreboards that an instruction waits for, as a mask, and of one how many may still count.
pub fn waits(inst: &Inst) -> (u8, Option<(u8, usize)>) {
    let number = |position: usize| inst.operands().nth(position).map_or(0, |(_, operand)| operand.value);
    let of_mask = inst.control.wait;
    match inst.op() {
        // DEPBAR.LE SBn, count, {set}: n down to count, the set down to zero.
        Op::DEPBAR if inst.has(M::LE) => {
            let (board, left) = ((number(0) & 7) as u8, number(1).max(0) as usize);
            let set = of_mask | number(2) as u8 & 0x3f;
            if left == 0 { (set | 1 << board, None) } else { (set, Some((board, left))) }
        }
        Op::DEPBAR => (of_mask | number(0) as u8 & 0x3f, None),
        _ => (of_mask, None),
    }
}

/// All spans, in the order of the instructions that raise scoreboards; each instruction comes with its number.
pub fn spans<'i>(insts: impl IntoIterator<Item = (usize, &'i Inst)>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    let mut open: Vec<Vec<usize>> = vec![Vec::new(); usize::from(sass::SCOREBOARDS)];
    for (index, inst) in insts {
        let (mask, counted) = waits(inst);
        for (board, open) in open.iter_mut().enumerate() {
            let left = match counted {
                Some((counted, left)) if usize::from(counted) == board => left,
                _ if mask >> board & 1 == 1 => 0,
                _ => continue,
            };
            // They end in order.
            let ended = open.len().saturating_sub(left);
            open.drain(..ended).for_each(|span| all[span].to = Some(index));
        }
        let Control { read, write, .. } = inst.control;
        for (board, is_read) in [(read, true), (write, false)] {
            let Some(scoreboard) = board.filter(|board| *board < sass::SCOREBOARDS) else { continue };
            open[usize::from(scoreboard)].push(all.len());
            all.push(Span { scoreboard, read: is_read, from: index, to: None });
        }
    }
    all
}
