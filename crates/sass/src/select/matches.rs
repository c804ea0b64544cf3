//! Modifiers that were matched before: a compiler asks for the same few of a form again and again, and to find the choice
//! of each position takes steps back and forth, more than everything else about a form.
//!
//! Each thread has a table of the latest matches, with one place for each hash. What is in it is a function of the form
//! and the modifiers alone, so that it makes no difference what is there.

use super::match_modifiers;
use crate::form::{Form, M};
use crate::inst::{Inst, MAX_MODIFIERS};
use std::cell::RefCell;

/// A power of two; modifiers of an entry.
const ENTRIES: usize = 256;
const MOST: usize = 5;

#[derive(Clone, Copy)]
struct Entry {
    form: Option<&'static Form>,
    given: [M; MOST],
    count: u8,
    /// Do they fit? Then the value of each position.
    fits: bool,
    values: [u8; MAX_MODIFIERS],
}

const EMPTY: Entry =
    Entry { form: None, given: [M::Empty; MOST], count: 0, fits: false, values: [0; MAX_MODIFIERS] };

thread_local! {
    static LATEST: RefCell<[Entry; ENTRIES]> = const { RefCell::new([EMPTY; ENTRIES]) };
}

/// Gives modifiers to the positions of the instruction's form, all of which are zero before.
pub fn of(inst: &mut Inst, given: &[M]) -> bool {
    let form = inst.form;
    if given.len() > MOST || form.mods.is_empty() {
        return match_modifiers(inst, 0, given);
    }
    let address = std::ptr::from_ref(form).addr() / size_of::<Form>();
    let hash = given.iter().fold(address, |hash, m| (hash ^ *m as usize).wrapping_mul(0x9e37_79b1));
    LATEST.with_borrow_mut(|entries| {
        let entry = &mut entries[(hash ^ hash >> 16) % ENTRIES];
        let is_it = entry.form.is_some_and(|of| std::ptr::eq(of, form))
            && usize::from(entry.count) == given.len()
            && entry.given[..given.len()] == *given;
        if !is_it {
            entry.fits = match_modifiers(inst, 0, given);
            (entry.form, entry.count, entry.values) = (Some(form), given.len() as u8, inst.mods);
            entry.given[..given.len()].copy_from_slice(given);
        }
        inst.mods = entry.values;
        entry.fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Op;

    /// Forms and modifiers that share places of the table get what matching them anew gives, in any order.
    #[test]
    fn a_match_is_the_same_again() {
        let lists: [&[M]; 8] = [
            &[],
            &[M::E],
            &[M::E, M::_64],
            &[M::E, M::STRONG_GPU],
            &[M::LT, M::AND],
            &[M::LT, M::U32, M::AND],
            &[M::X],
            &[M::WIDE, M::U32],
        ];
        for _ in 0..2 {
            for form in [Op::LDG, Op::STG, Op::ISETP, Op::IADD3, Op::IMAD].into_iter().flat_map(Form::of) {
                for given in lists {
                    let [mut new, mut again] = [(); 2].map(|()| Inst::empty(form));
                    let fits = match_modifiers(&mut new, 0, given);
                    assert_eq!(of(&mut again, given), fits, "{:?} {given:?}", form.op);
                    assert!(!fits || new.mods == again.mods);
                }
            }
        }
    }
}
