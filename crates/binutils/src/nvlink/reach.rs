//! What kernels need: functions that they reach, and what those use.

use super::merge::{Meaning, Program};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Reached {
    /// Units that stay, in their order.
    pub units: BTreeSet<usize>,
    /// Of each kernel the units that it reaches, itself first.
    pub of_kernel: BTreeMap<usize, Vec<usize>>,
    /// Functions that a unit names: it calls them or takes their address.
    pub names: BTreeMap<usize, BTreeSet<usize>>,
    /// Functions that a unit calls by name.
    pub calls: BTreeMap<usize, BTreeSet<usize>>,
    /// Functions whose address is in data.
    pub in_data: BTreeSet<usize>,
    /// Where the calls of a unit through registers may lead: functions whose address is taken, of its prototypes.
    pub indirect: BTreeMap<usize, BTreeSet<usize>>,
}

pub fn reach(program: &Program) -> Reached {
    let mut reached = Reached::default();
    for (index, unit) in program.units.iter().enumerate() {
        let code = |symbol: usize| match program.meaning((unit.object, symbol)) {
            Meaning::Code { unit, .. } => Some(unit),
            _ => None,
        };
        reached.calls.insert(index, unit.calls.iter().filter_map(|&symbol| code(symbol)).collect());
        let mut names = BTreeSet::new();
        for reloc in &unit.relocs {
            if let Some(to) = code(reloc.symbol as usize).filter(|&to| to != index) {
                names.insert(to);
            }
        }
        reached.names.insert(index, names);
        let like = |other: &&usize| {
            program.units[**other].prototype.as_ref().is_some_and(|own| unit.calls_like.contains(own))
        };
        let all: Vec<usize> = (0..program.units.len()).collect();
        reached.indirect.insert(index, all.iter().filter(like).copied().collect());
    }
    for bytes in program.pools.values() {
        for (object, reloc) in &bytes.relocs {
            if let Meaning::Code { unit, .. } = program.meaning((*object, reloc.symbol as usize)) {
                reached.in_data.insert(unit);
            }
        }
    }
    for kernel in (0..program.units.len()).filter(|&index| program.units[index].is_kernel) {
        let all = reached.from(kernel);
        reached.units.extend(&all);
        reached.of_kernel.insert(kernel, all);
    }
    for function in reached.in_data.clone() {
        let all = reached.from(function);
        reached.units.extend(all);
    }
    reached
}

impl Reached {
    /// What may be called next: by name, and where indirect calls may lead.
    fn next(&self, unit: usize) -> impl Iterator<Item = usize> {
        let called = self.calls.get(&unit).into_iter().flatten().copied();
        called.chain(self.indirect.get(&unit).into_iter().flatten().copied())
    }

    /// Depth first, callers before what they call.
    fn from(&self, start: usize) -> Vec<usize> {
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(unit) = open.pop() {
            if seen.insert(unit) {
                all.push(unit);
                let named = self.names.get(&unit).into_iter().flatten().copied();
                let next: Vec<usize> = named.chain(self.next(unit)).collect();
                open.extend(next.into_iter().rev());
            }
        }
        all
    }

    /// The deepest stack below a kernel; none if it calls in a circle.
    pub fn stack(&self, program: &Program, kernel: usize) -> Option<u32> {
        let mut depths = BTreeMap::new();
        self.depth(program, kernel, &mut depths)
    }

    /// Each unit is entered once: a unit that is found open is called by itself.
    fn depth(
        &self,
        program: &Program,
        start: usize,
        depths: &mut BTreeMap<usize, Option<u32>>,
    ) -> Option<u32> {
        let mut path = vec![(start, self.next(start).collect::<Vec<_>>(), 0u32)];
        let mut open = BTreeSet::from([start]);
        while let Some((unit, next, deepest)) = path.last_mut() {
            let Some(callee) = next.pop() else {
                let depth = program.units[*unit].frame.saturating_add(*deepest);
                depths.insert(*unit, Some(depth));
                open.remove(unit);
                path.pop();
                match path.last_mut() {
                    Some((_, _, deepest)) => *deepest = (*deepest).max(depth),
                    None => return Some(depth),
                }
                continue;
            };
            if open.contains(&callee) {
                return None;
            }
            match depths.get(&callee) {
                Some(Some(depth)) => *deepest = (*deepest).max(*depth),
                _ => {
                    open.insert(callee);
                    let next = self.next(callee).collect();
                    path.push((callee, next, 0));
                }
            }
        }
        None
    }
}
