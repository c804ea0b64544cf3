//! Places in shared memory.
//!
//! A function that several kernels reach has one code, so a variable has the same place in all kernels that need it.
//! Variables get the lowest place that no variable of one of their kernels has; first those that a kernel's own code
//! names first. Memory whose size is given at launch follows: kernels that share a function which uses it agree on
//! where it starts.

use super::merge::{Meaning, Program};
use super::reach::Reached;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Places {
    /// By variable, without what the system reserves.
    pub of_variable: BTreeMap<usize, u64>,
    /// By kernel; none for kernels without shared memory.
    pub sizes: BTreeMap<usize, u64>,
    /// By unit: where memory starts whose size is given at launch.
    pub dynamic: BTreeMap<usize, u64>,
}

/// What memory of the launch is aligned to.
const DYNAMIC_ALIGN: u64 = 16;

pub fn places(program: &Program, reached: &Reached) -> Places {
    let mut places = Places::default();
    let named = |unit: usize| {
        let unit = &program.units[unit];
        unit.relocs.iter().filter_map(|reloc| match program.meaning((unit.object, reloc.symbol as usize)) {
            Meaning::Shared(variable) => Some(variable),
            _ => None,
        })
    };
    let mut kernels_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut order = Vec::new();
    for (&kernel, units) in &reached.of_kernel {
        for variable in units.iter().flat_map(|&unit| named(unit)) {
            if kernels_of.entry(variable).or_default().insert(kernel) && !order.contains(&variable) {
                order.push(variable);
            }
        }
    }
    let fixed = order.iter().copied().filter(|&variable| !program.shared[variable].is_dynamic);
    for variable in fixed {
        let kernels = &kernels_of[&variable];
        let taken = places.of_variable.iter().filter(|(other, _)| !kernels_of[other].is_disjoint(kernels));
        let mut taken: Vec<(u64, u64)> =
            taken.map(|(&other, &at)| (at, at + program.shared[other].size)).collect();
        taken.sort_unstable();
        let row = &program.shared[variable];
        let mut at = 0u64;
        for (start, end) in taken {
            if at + row.size > start && end > at {
                at = end.next_multiple_of(row.align);
            }
        }
        places.of_variable.insert(variable, at);
        for &kernel in kernels {
            let size = places.sizes.entry(kernel).or_default();
            *size = (*size).max(at + row.size);
        }
    }
    let uses_dynamic: BTreeSet<usize> = reached
        .units
        .iter()
        .copied()
        .filter(|&unit| named(unit).any(|variable| program.shared[variable].is_dynamic))
        .collect();
    agree(reached, &uses_dynamic, &mut places);
    places
}

/// Raises the sizes of kernels that share a function with memory of the launch, until they agree.
fn agree(reached: &Reached, uses_dynamic: &BTreeSet<usize>, places: &mut Places) {
    let users = |unit: usize| reached.of_kernel.iter().filter(move |(_, units)| units.contains(&unit));
    loop {
        let mut changed = false;
        for &unit in uses_dynamic {
            let kernels: Vec<usize> = users(unit).map(|(&kernel, _)| kernel).collect();
            let size = |kernel: &usize| places.sizes.get(kernel).copied().unwrap_or(0);
            let start = kernels.iter().map(size).max().unwrap_or(0).next_multiple_of(DYNAMIC_ALIGN);
            for kernel in kernels {
                changed |= places.sizes.insert(kernel, start) != Some(start);
            }
            places.dynamic.insert(unit, start);
        }
        if !changed {
            return;
        }
    }
}
