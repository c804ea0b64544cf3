//! Which lines differ between two texts.
//!
//! Lines that are there once in both texts and in the same order are anchors; between two anchors the longest common
//! subsequence is kept where that takes few steps, and else nothing. So the work is near linear, and the result is right
//! whatever it is: applied to the first text, the edits give the second.

use std::collections::BTreeMap;
use std::ops::Range;

/// Lines of the old text that others take the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Lines of the old text that go; where the range is empty, the place.
    pub old: Range<usize>,
    /// The lines of the new text that come.
    pub new: Range<usize>,
}

/// Most steps of the quadratic part between two anchors.
const STEPS: usize = 1 << 18;

/// The edits that make `new` of `old`, in order, each as small as it is.
pub fn edits<T: Ord>(old: &[T], new: &[T]) -> Vec<Edit> {
    let mut kept = Vec::new();
    common(old, new, 0..old.len(), 0..new.len(), &mut kept);
    let mut edits = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (a, b) in kept.into_iter().chain([(old.len(), new.len())]) {
        if (a, b) != (i, j) {
            edits.push(Edit { old: i..a, new: j..b });
        }
        (i, j) = (a + 1, b + 1);
    }
    edits
}

/// Pairs of equal lines, both ascending.
fn common<T: Ord>(
    old: &[T],
    new: &[T],
    mut a: Range<usize>,
    mut b: Range<usize>,
    kept: &mut Vec<(usize, usize)>,
) {
    while !a.is_empty() && !b.is_empty() && old[a.start] == new[b.start] {
        kept.push((a.start, b.start));
        (a.start, b.start) = (a.start + 1, b.start + 1);
    }
    let mut tail = 0;
    while tail < a.len().min(b.len()) && old[a.end - 1 - tail] == new[b.end - 1 - tail] {
        tail += 1;
    }
    let (ends, a, b) = ((a.end - tail, b.end - tail), a.start..a.end - tail, b.start..b.end - tail);
    if !a.is_empty() && !b.is_empty() {
        let anchors = anchors(old, new, a.clone(), b.clone());
        if anchors.is_empty() {
            longest(old, new, a, b, kept);
        } else {
            let (mut i, mut j) = (a.start, b.start);
            for (x, y) in anchors {
                common(old, new, i..x, j..y, kept);
                kept.push((x, y));
                (i, j) = (x + 1, y + 1);
            }
            common(old, new, i..a.end, j..b.end, kept);
        }
    }
    kept.extend((0..tail).map(|n| (ends.0 + n, ends.1 + n)));
}

/// Lines that are once in each range: the longest run of them that is in the same order in both.
fn anchors<T: Ord>(old: &[T], new: &[T], a: Range<usize>, b: Range<usize>) -> Vec<(usize, usize)> {
    let mut seen: BTreeMap<&T, (usize, usize, usize, usize)> = BTreeMap::new();
    for i in a {
        let entry = seen.entry(&old[i]).or_default();
        (entry.0, entry.1) = (entry.0 + 1, i);
    }
    for j in b {
        if let Some(entry) = seen.get_mut(&new[j]) {
            (entry.2, entry.3) = (entry.2 + 1, j);
        }
    }
    let once = seen.into_values().filter(|(m, _, n, _)| (*m, *n) == (1, 1));
    let mut pairs: Vec<(usize, usize)> = once.map(|(_, i, _, j)| (i, j)).collect();
    pairs.sort_unstable();
    increasing(&pairs)
}

/// The longest subsequence whose second numbers increase.
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the pair that ends such a subsequence with the least number; and for each pair the one before.
    let (mut ends, mut before) = (Vec::<usize>::new(), vec![None; pairs.len()]);
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < pair.1);
        before[index] = length.checked_sub(1).map(|last| ends[last]);
        ends.truncate(length.max(ends.len()));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let chain = std::iter::successors(ends.last().copied(), |index| before[*index]);
    let mut chain: Vec<_> = chain.map(|index| pairs[index]).collect();
    chain.reverse();
    chain
}

/// The longest common subsequence of two ranges that are short enough.
fn longest<T: Ord>(old: &[T], new: &[T], a: Range<usize>, b: Range<usize>, kept: &mut Vec<(usize, usize)>) {
    let width = b.len() + 1;
    if a.len().saturating_mul(width) > STEPS {
        return;
    }
    // The length for each pair of suffixes.
    let mut lengths = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = match old[a.start + i] == new[b.start + j] {
                true => 1 + lengths[(i + 1) * width + j + 1],
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if old[a.start + i] == new[b.start + j] {
            kept.push((a.start + i, b.start + j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(old: &[u32], new: &[u32], edits: &[Edit]) -> Vec<u32> {
        let (mut out, mut at) = (Vec::new(), 0);
        for edit in edits {
            out.extend(&old[at..edit.old.start]);
            out.extend(&new[edit.new.clone()]);
            at = edit.old.end;
        }
        out.extend(&old[at..]);
        out
    }

    #[test]
    fn edits_are_small() {
        let edit = |old, new| Edit { old, new };
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), []);
        assert_eq!(edits(&[1, 2, 3], &[1, 3]), [edit(1..2, 1..1)]);
        assert_eq!(edits(&[1, 3], &[1, 2, 3, 4]), [edit(1..1, 1..2), edit(2..2, 3..4)]);
        assert_eq!(edits(&[1, 1, 1], &[1, 1]), [edit(2..3, 2..2)]);
        assert_eq!(edits(&[], &[7]), [edit(0..0, 0..1)]);
        assert_eq!(edits(&[1, 2, 3, 4, 5], &[5, 2, 3, 4, 1]).len(), 2);
    }

    #[test]
    fn edits_lead_to_the_new_text() {
        let mut state = random::Random::from_state(1);
        let mut random = |below: usize| state.below(below);
        for _ in 0..2000 {
            let (values, long) = (1 + random(40), random(60));
            let old: Vec<u32> = (0..long).map(|_| random(values) as u32).collect();
            let mut new = old.clone();
            for _ in 0..random(8) {
                match random(3) {
                    0 if !new.is_empty() => drop(new.remove(random(new.len()))),
                    1 if new.len() > 1 => new.swap(0, 1),
                    _ => new.insert(random(new.len() + 1), random(values) as u32),
                }
            }
            assert_eq!(apply(&old, &new, &edits(&old, &new)), new);
        }
    }
}
