//! Making a program smaller while something stays true of it.
//!
//! Statements are numbered in the order in which they are printed, outer before inner. First they are taken out, many
//! at a time and then fewer; then those that are left are made simpler one by one: a choice or a loop becomes what is
//! inside of it, guards go, constants become small, registers the first of their class. All of that is repeated until
//! nothing can be done, which takes a number of tries about proportional to the size of the result.

use super::exchange::{Access, Action, Map};
use super::{Choice, Program, Statement, Trips};

impl Program {
    /// The smallest program that can be found for which `holds` is true, as it must be for this one.
    pub fn reduce(&self, mut holds: impl FnMut(&Program) -> bool) -> Program {
        let mut best = self.clone();
        loop {
            let before = best.clone();
            take_out(&mut best, &mut holds);
            simplify(&mut best, &mut holds);
            if best == before {
                return best;
            }
        }
    }
}

fn attempt(best: &mut Program, next: Program, holds: &mut impl FnMut(&Program) -> bool) -> bool {
    let good = next != *best && holds(&next);
    if good {
        *best = next;
    }
    good
}

fn take_out(best: &mut Program, holds: &mut impl FnMut(&Program) -> bool) {
    let mut count = best.size().div_ceil(2);
    while count > 0 {
        let mut first = 0;
        while first < best.size() {
            let mut next = best.clone();
            let mut number = 0;
            next.blocks_mut().for_each(|block| delete(block, &mut number, first..first + count));
            if !attempt(best, next, holds) {
                first += count;
            }
        }
        count /= 2;
    }
}

/// Deletes the statements with these numbers; what is inside of one counts, too.
fn delete(block: &mut Vec<Statement>, number: &mut usize, range: std::ops::Range<usize>) {
    block.retain_mut(|statement| {
        let mine = *number;
        *number += 1;
        if range.contains(&mine) {
            *number += statement.size() - 1;
            return false;
        }
        statement.blocks_mut().into_iter().for_each(|inner| delete(inner, number, range.clone()));
        true
    });
}

fn simplify(best: &mut Program, holds: &mut impl FnMut(&Program) -> bool) {
    let mut index = 0;
    while index < best.size() {
        let mut change = 0;
        loop {
            let mut next = best.clone();
            match edit(&mut next, index, change) {
                Edit::Done => {
                    // A change that was good may have made another statement the one with this number.
                    if !attempt(best, next, holds) {
                        change += 1;
                    } else if index >= best.size() {
                        break;
                    }
                }
                Edit::NoMore => break,
            }
        }
        index += 1;
    }
    for next in [Program { grid: 1, ..best.clone() }, Program { block: 32, ..best.clone() }] {
        attempt(best, next, holds);
    }
}

enum Edit {
    Done,
    NoMore,
}

/// Makes the `change`-th change to the statement with this number. Changes that are none count, and are refused.
fn edit(program: &mut Program, mut number: usize, change: usize) -> Edit {
    edit_one_of(program.blocks_mut(), &mut number, change)
}

/// In the block that has the statement.
fn edit_one_of<'b>(
    blocks: impl IntoIterator<Item = &'b mut Vec<Statement>>,
    number: &mut usize,
    change: usize,
) -> Edit {
    for block in blocks {
        let size: usize = block.iter().map(Statement::size).sum();
        if *number < size {
            return edit_block(block, number, change);
        }
        *number -= size;
    }
    Edit::NoMore
}

fn edit_block(block: &mut Vec<Statement>, number: &mut usize, change: usize) -> Edit {
    for i in 0..block.len() {
        if *number == 0 {
            return simpler(block, i, change);
        }
        let size = block[i].size();
        if *number >= size {
            *number -= size;
            continue;
        }
        *number -= 1;
        return edit_one_of(block[i].blocks_mut(), number, change);
    }
    Edit::NoMore
}

fn simpler(block: &mut Vec<Statement>, i: usize, change: usize) -> Edit {
    // What is inside, in place of the statement.
    let mut inner: Vec<Vec<Statement>> = block[i].blocks().into_iter().cloned().collect();
    if let Some(change) = change.checked_sub(inner.len()) {
        return simpler_parts(&mut block[i], change);
    }
    block.splice(i..=i, inner.swap_remove(change));
    Edit::Done
}

fn simpler_parts(statement: &mut Statement, change: usize) -> Edit {
    match (statement, change) {
        (Statement::Row { guard, .. }, 0) => *guard = None,
        (Statement::Row { choices, .. }, change) => {
            // Two ways for each choice.
            let Some(choice) = choices.get_mut((change - 1) / 2) else { return Edit::NoMore };
            *choice = simplest(*choice, change % 2 == 0);
        }
        (Statement::If { otherwise, .. }, 0) => otherwise.clear(),
        (Statement::If { condition, .. } | Statement::Leave { condition, .. }, 1) => {
            condition.negated = false
        }
        (Statement::If { condition, .. } | Statement::Leave { condition, .. }, 2) => condition.register = 0,
        (Statement::Leave { level, .. }, 0) => *level = 0,
        (Statement::Leave { again, .. }, 3) => *again = false,
        (Statement::Loop { trips, .. }, 0..3) => *trips = Trips::Constant(change as u8 + 1),
        (Statement::Loop { style, .. }, 3) => *style = super::Style::Bottom,
        (Statement::Split { otherwise, .. }, 0) => otherwise.clear(),
        (Statement::Split { bit, .. }, 1) => *bit = 0,
        (Statement::Access(access), change) => return simpler_access(access, change),
        (Statement::Switch { index, .. }, 0) => *index = 0,
        (Statement::Switch { ways, .. }, 1) => *ways = super::Ways::Table,
        (Statement::Call { arguments, .. }, 0) => *arguments = [0; 3],
        (Statement::Call { results, .. }, 1) => *results = [0; 2],
        _ => return Edit::NoMore,
    }
    Edit::Done
}

fn simpler_access(access: &mut Access, change: usize) -> Edit {
    match change {
        0 => access.guard = None,
        1 => access.always = false,
        2 => access.order = 0,
        3 => access.form = 0,
        4 => access.qualifier = 0,
        5 => access.shape = 0,
        6 => access.at = 0,
        7 => access.field = 0,
        8 => access.register = 0,
        9 => access.action = if access.action == Action::Load { Action::Load } else { Action::Store },
        10 => access.map = Map::Shift(1),
        11 => access.region = 0,
        _ => return Edit::NoMore,
    }
    Edit::Done
}

fn simplest(choice: Choice, other_way: bool) -> Choice {
    match choice {
        Choice::Derived(derived) => match derived.simpler(other_way) {
            Some(simpler) => Choice::Derived(simpler),
            None => Choice::Register(u8::from(other_way)),
        },
        Choice::Register(_) | Choice::Counter => Choice::Register(u8::from(other_way)),
        Choice::Constant(_) => Choice::Constant(u64::from(other_way)),
        // Numbers of a place go in steps from its first, of which only multiples are known here.
        Choice::Number(number) => Choice::Number(if other_way { number / 2 / 16 * 16 } else { number }),
        Choice::Text(_) => Choice::Text(0),
    }
}
