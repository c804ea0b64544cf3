//! Sequentialization of parallel copies (Boissinot et al., "Revisiting Out-of-SSA Translation", CGO 2009).
//!
//! All sources of a parallel copy are read before any destination is written; [`sequence`] gives single moves with the
//! same effect. Quadratic in the number of moves, which are few.

/// Orders moves (to, from) so that no source is overwritten before it is read. A cycle goes through `scratch`, which no
/// move names; `None` if there is a cycle and no scratch.
pub fn sequence<T: Copy + PartialEq>(moves: &[(T, T)], scratch: Option<T>) -> Option<Vec<(T, T)>> {
    let mut pending: Vec<(T, T)> = moves.iter().copied().filter(|(to, from)| to != from).collect();
    let mut out = Vec::new();
    while !pending.is_empty() {
        let free = pending.iter().position(|(to, _)| !pending.iter().any(|(_, from)| from == to));
        match free {
            Some(i) => out.push(pending.remove(i)),
            None => {
                // Every destination has a pending read: break one cycle by saving a source.
                let scratch = scratch?;
                let from = pending[0].1;
                out.push((scratch, from));
                pending.iter_mut().filter(|m| m.1 == from).for_each(|m| m.1 = scratch);
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::sequence;

    /// Runs moves on registers that hold their own number.
    fn run(moves: &[(u8, u8)]) -> Vec<u8> {
        let mut regs: Vec<u8> = (0..10).collect();
        for (to, from) in sequence(moves, Some(9)).unwrap() {
            regs[to as usize] = regs[from as usize];
        }
        regs
    }

    #[test]
    fn sequences_all_permutations_and_fan_outs_of_four() {
        for code in 0..256u32 {
            let moves: Vec<(u8, u8)> = (0..4).map(|i| (i as u8, (code >> (2 * i) & 3) as u8)).collect();
            let regs = run(&moves);
            for (to, from) in moves {
                assert_eq!(regs[to as usize], from);
            }
        }
    }

    #[test]
    fn cycle_needs_scratch() {
        assert_eq!(sequence(&[(0, 1), (1, 0)], None), None);
        assert_eq!(sequence(&[(0, 1), (1, 2)], None), Some(vec![(0, 1), (1, 2)]));
    }
}
