//! Relations of comparisons: which one is the complement of another, and which one holds of the operands in the other
//! order. Floats that are NaN have no order: `LT` is false of them, its complement `GEU` true.

use sass::M;

/// Relations of integers and their complements; of floats, which may be unordered.
const OF_INTEGERS: [(M, M); 3] = [(M::LT, M::GE), (M::LE, M::GT), (M::EQ, M::NE)];
const OF_FLOATS: [(M, M); 7] = [
    (M::LT, M::GEU),
    (M::LE, M::GTU),
    (M::GT, M::LEU),
    (M::GE, M::LTU),
    (M::EQ, M::NEU),
    (M::NE, M::EQU),
    (M::NUM, M::NAN),
];

/// The complement of a relation.
pub fn complement(op: sass::Op, relation: M) -> Option<M> {
    let pairs: &[(M, M)] = if op == sass::Op::ISETP { &OF_INTEGERS } else { &OF_FLOATS };
    pairs.iter().find_map(|(one, other)| match relation {
        r if r == *one => Some(*other),
        r if r == *other => Some(*one),
        _ => None,
    })
}

/// The relation of the operands in the other order.
pub fn swapped(relation: M) -> M {
    match relation {
        M::LT => M::GT,
        M::LE => M::GE,
        M::GT => M::LT,
        M::GE => M::LE,
        M::LTU => M::GTU,
        M::LEU => M::GEU,
        M::GTU => M::LTU,
        M::GEU => M::LEU,
        symmetric => symmetric,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complements_and_swapped_relations_agree_with_eval() {
        use ori::eval::{Arg as Bits, eval};
        let floats = [0.0, -0.0, 1.0, -2.5, f32::INFINITY, f32::NAN].map(f32::to_bits);
        let relations = [
            M::LT,
            M::LE,
            M::GT,
            M::GE,
            M::EQ,
            M::NE,
            M::LTU,
            M::LEU,
            M::GTU,
            M::GEU,
            M::EQU,
            M::NEU,
            M::NUM,
            M::NAN,
        ];
        for (op, relation) in
            [sass::Op::ISETP, sass::Op::FSETP].into_iter().flat_map(|o| relations.map(|r| (o, r)))
        {
            let holds = |relation, a: u32, b: u32| {
                let args = [Bits::word(a), Bits::word(b), Bits::predicate(true)];
                eval(op, &[relation, M::AND], &args).and_then(|r| r.predicate(0))
            };
            // Every relation that the operation has, and no other: integers are always numbers.
            assert_eq!(
                holds(relation, 0, 0).is_some(),
                complement(op, relation).is_some(),
                "{op:?} {relation:?}"
            );
            let Some(other) = complement(op, relation) else { continue };
            for (a, b) in floats.into_iter().flat_map(|a| floats.map(|b| (a, b))) {
                let truth = holds(relation, a, b).expect("a relation");
                assert_eq!(holds(other, a, b), Some(!truth), "{op:?} {relation:?} {a:x} {b:x}");
                assert_eq!(holds(swapped(relation), b, a), Some(truth), "{op:?} {relation:?} {a:x} {b:x}");
            }
        }
    }
}
