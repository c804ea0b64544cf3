//! Did you mean: the known name that is nearest to a wrong one.

/// The known name that one can get from the wrong one by the fewest changed, missing, added or exchanged letters, if these
/// are few for its length; of several the one that begins most alike, and of these the first one.
pub fn nearest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // One change in three letters, but at least one.
    let most = (wrong.chars().count() / 3).max(1);
    let mut best: Option<((usize, std::cmp::Reverse<usize>), &str)> = None;
    let alike = |name: &str| wrong.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    for name in known {
        if name == wrong || name.len().abs_diff(wrong.len()) > most || name.is_empty() {
            continue;
        }
        // Letters in the wrong case are no change.
        let distance = distance(&wrong.to_ascii_lowercase(), &name.to_ascii_lowercase());
        let rank = (distance, std::cmp::Reverse(alike(name)));
        if distance <= most && best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, name));
        }
    }
    // Two words of one or two letters have nothing in common.
    best.filter(|((distance, _), name)| distance * 2 <= name.len()).map(|(_, name)| name)
}

/// The number of edits, with exchanged neighbours as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // The last row and the one before it.
    let (mut earlier, mut before) = (vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>());
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (before[j - 1] + changed).min(before[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(earlier[j - 2] + 1);
            }
        }
        earlier = std::mem::replace(&mut before, row);
    }
    before[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in
            [("", "", 0), ("add", "ad", 1), ("mvo", "mov", 1), ("kitten", "sitting", 3), ("ab", "ba", 1)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn names_that_are_near() {
        let known = ["add", "and", "mov", "setp", "sm_90", "sm_90a", ".global"];
        for (wrong, right) in [
            ("addd", "add"),
            ("mvo", "mov"),
            ("setq", "setp"),
            ("SM_90", "sm_90"),
            (".globl", ".global"),
            ("ADD", "add"),
        ] {
            assert_eq!(nearest(wrong, known), Some(right), "{wrong}");
        }
        for wrong in ["x", "frobnicate", "", "xy"] {
            assert_eq!(nearest(wrong, known), None, "{wrong}");
        }
    }
}
