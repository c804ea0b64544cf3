//! Compare-and-select idioms: minimum, maximum, and predicates that were converted to a word.
//!
//! | operation | becomes |
//! |---|---|
//! | integer `x < y ? x : y` | the minimum; likewise for the other relations |
//! | float `x > c ? x : c`, for a constant `c` | the maximum; likewise for the other relations |
//! | `max(max(x, y), z)` | one three-operand operation |
//! | `max(x + y, z)` | one operation |
//! | `max(min(x, y), 0)` | one operation with `.RELU` |
//! | `(p ? 1 : 0) != 0`, `\|p ? 2.0 : 0.0\| >= 1.0`, and other comparisons of a select of two constants | `p`, its negation, or a constant |
//!
//! Forms that a target lacks are not used: the table of forms decides.

use super::rules::{RZ, Rule, add_terms, is_zero, plain};
use super::{Combine, Rewrite};
use ori::{Arg, InstData, Op, Use, Value, entity::Entity};
use sass::M;

pub(super) const RULES: &[(Op, Rule)] = &[
    (Op::Machine(sass::Op::SEL), integer_min_max),
    (Op::Machine(sass::Op::SEL), float_min_max),
    (Op::Machine(sass::Op::FSEL), float_min_max),
    (Op::Machine(sass::Op::ISETP), predicate_of_select),
    (Op::Machine(sass::Op::FSETP), predicate_of_select),
    (Op::Machine(sass::Op::VIMNMX), relu),
    (Op::Machine(sass::Op::VIMNMX), min_max_of_sum),
    (Op::Machine(sass::Op::VIMNMX), min_max_of_three),
    (Op::Machine(sass::Op::FMNMX), float_min_max_of_three),
];

/// A comparison of two operands, and what is selected where it is true and where it is not.
struct Selection {
    relation: M,
    /// Further modifiers of the comparison.
    unsigned: bool,
    operands: [Arg; 2],
    yes: Arg,
    no: Arg,
}

/// A select by a comparison that has no other use.
fn match_selection(c: &Combine, data: &InstData, compare: sass::Op) -> Option<Selection> {
    let [a, b, Arg::Use(p)] = data.args[..] else { return None };
    let definition = c.definition_of(p.value).filter(|d| d.op == Op::Machine(compare))?;
    let (relation, unsigned) = match definition.modifiers[..] {
        [relation, M::AND] => (relation, false),
        [relation, M::U32, M::AND] => (relation, true),
        _ => return None,
    };
    let [Arg::True(true), x, y, Arg::True(true)] = definition.args[..] else { return None };
    let is_alone = data.modifiers.is_empty() && definition.results.len() == 1 && c.uses[p.value.index()] == 1;
    let (yes, no) = if p.negated { (b, a) } else { (a, b) };
    is_alone.then_some(Selection { relation, unsigned, operands: [x, y], yes, no })
}

/// Are two operands the same word?
fn is_same(c: &Combine, a: &Arg, b: &Arg) -> bool {
    a == b || c.known_word(a).is_some_and(|bits| c.known_word(b) == Some(bits))
}

fn integer_min_max(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let s = match_selection(c, data, sass::Op::ISETP)?;
    let [x, y] = s.operands;
    let is_less = match s.relation {
        M::LT | M::LE => true,
        M::GT | M::GE => false,
        _ => return None,
    };
    let is_min = match () {
        () if is_same(c, &s.yes, &x) && is_same(c, &s.no, &y) => is_less,
        () if is_same(c, &s.yes, &y) && is_same(c, &s.no, &x) => !is_less,
        () => return None,
    };
    // Some targets have a modifier for signed words, and some another operation.
    let sign: &[M] = if s.unsigned { &[M::U32] } else { &[] };
    let signed: &[M] = if s.unsigned { &[M::U32] } else { &[M::S32] };
    let forms = [(sass::Op::VIMNMX, sign), (sass::Op::VIMNMX, signed), (sass::Op::IMNMX, sign)];
    forms.iter().find_map(|(op, modifiers)| c.legal(data, *op, modifiers, &[x, y, Arg::True(is_min)]))
}

/// A float and a constant. For NaN the operation gives the constant, and so must the select; zeros are ordered by the
/// operation, and equal for the comparison.
fn float_min_max(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let s = match_selection(c, data, sass::Op::FSETP)?;
    let [x, limit] = s.operands;
    let bits = c.known_word(&limit).filter(|bits| !f32::from_bits(*bits).is_nan())?;
    plain(&x)?;
    let takes_x = is_same(c, &s.yes, &x) && is_same(c, &s.no, &limit);
    let takes_limit = is_same(c, &s.yes, &limit) && is_same(c, &s.no, &x);
    let is_zero = bits << 1 == 0;
    let is_min = match s.relation {
        M::LT if takes_x => Some(true).filter(|_| bits != 0),
        M::GT if takes_x => Some(false).filter(|_| !is_zero || bits == 0),
        M::LE if takes_x => Some(true).filter(|_| !is_zero),
        M::GE if takes_x => Some(false).filter(|_| !is_zero),
        M::GEU if takes_limit => Some(true).filter(|_| bits != 0),
        M::LEU if takes_limit => Some(false).filter(|_| !is_zero || bits == 0),
        M::GTU if takes_limit => Some(true).filter(|_| !is_zero),
        M::LTU if takes_limit => Some(false).filter(|_| !is_zero),
        _ => None,
    }?;
    c.legal(data, sass::Op::FMNMX, &[], &[x, limit, Arg::True(is_min)])
}

/// A word that is one of two constants.
struct ConstantSelect {
    predicate: Use,
    /// Where the predicate holds, and where it doesn't.
    bits: [u32; 2],
}

impl ConstantSelect {
    /// A select or guarded move of constants, or a function of one and of constants.
    fn of(c: &Combine, word: Value, depth: u32) -> Option<ConstantSelect> {
        let data = &c.function.insts[c.definition[word.index()]?];
        match (data.op, &data.guard, &data.args[..]) {
            (Op::Machine(sass::Op::SEL), None, [a, b, Arg::Use(p)]) if data.modifiers.is_empty() => {
                Some(ConstantSelect { predicate: *p, bits: [c.known_word(a)?, c.known_word(b)?] })
            }
            (Op::Machine(sass::Op::MOV), Some(guard), [word]) => {
                let no = guard.else_values.first().map(|v| Arg::Use(Use::of(*v)))?;
                let bits = [c.known_word(word)?, c.known_word(&no)?];
                Some(ConstantSelect {
                    predicate: Use { negated: guard.negated, ..Use::of(guard.predicate) },
                    bits,
                })
            }
            (Op::Machine(_), None, args) if depth > 0 && data.results.len() == 1 => {
                let is_known = |a: &Arg| !matches!(a, Arg::Use(_)) || c.known_word(a).is_some();
                let at = args.iter().position(|a| !is_known(a))?;
                let select = ConstantSelect::of(c, plain(&args[at])?, depth - 1)?;
                let [yes, no] = select.bits.map(|bits| c.result_with(data, at, bits));
                Some(ConstantSelect { bits: [yes? as u32, no? as u32], ..select })
            }
            _ => None,
        }
    }
}

impl Combine<'_> {
    /// The first result of an instruction with a constant as an operand, if that is known then.
    fn result_with(&self, data: &InstData, at: usize, bits: u32) -> Option<u64> {
        let mut data = data.clone();
        data.args[at] = Arg::Imm(i64::from(bits as i32));
        let result = *data.results.first()?;
        let results = self.constants().evaluate(&data)?;
        results.iter().find(|(value, _)| *value == result).map(|(_, bits)| *bits)
    }
}

/// The value of a word operand, and what its signs make of bits: those of floats change the uppermost bit.
fn signed_word(data: &InstData, word: &Arg) -> Option<(Value, impl Fn(u32) -> u32 + use<>)> {
    let Arg::Use(u) = *word else { return None };
    let without_signs = Use { negated: false, absolute: false, ..u };
    let is_float = data.op == Op::Machine(sass::Op::FSETP);
    let value = plain(&Arg::Use(if is_float { without_signs } else { u }))?;
    let signs = move |bits: u32| {
        let bits = if u.absolute { bits & !SIGN } else { bits };
        if u.negated { bits ^ SIGN } else { bits }
    };
    Some((value, signs))
}

/// The sign bit of a float.
const SIGN: u32 = 1 << 31;

/// A comparison of `p ? 1 : 0`, or of another word that is one of two constants, with a constant.
fn predicate_of_select(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [Arg::True(true), x, y, and] = &data.args[..] else { return None };
    let (at, word) = match (c.known_word(x), c.known_word(y)) {
        (None, Some(_)) => (1, x),
        (Some(_), None) => (2, y),
        _ => return None,
    };
    let table = match data.modifiers.last()? {
        M::AND => 0xc0,
        M::OR => 0xfc,
        M::XOR => 0x3c,
        _ => return None,
    };
    if data.guard.is_some() || data.results.len() != 1 || data.modifiers.contains(&M::EX) {
        return None;
    }
    let (word, signs) = signed_word(data, word)?;
    let select = ConstantSelect::of(c, word, c.tuning.combine_select_depth)?;
    let mut alone = data.clone();
    alone.args[3] = Arg::True(true);
    alone.modifiers.pop();
    alone.modifiers.push(M::AND);
    let [yes, no] = select.bits.map(|bits| c.result_with(&alone, at, signs(bits)));
    let (yes, no) = (yes? != 0, no? != 0);
    // The result is a constant, the predicate, or its opposite.
    let p = match yes == no {
        true => Arg::True(yes),
        false => Arg::Use(Use { negated: select.predicate.negated != no, ..select.predicate }),
    };
    if table == 0xc0
        && *and == Arg::True(true)
        && let Some(rewrite) = c.forward(data, &p)
    {
        return Some(rewrite);
    }
    let all = Arg::True(true);
    c.legal(data, sass::Op::PLOP3, &[M::LUT], &[all, p, *and, all, Arg::Imm(table), Arg::Imm(0)])
}

/// The operands of a minimum or maximum of two words, and which of them it is.
fn match_min_max(data: &InstData) -> Option<([Arg; 2], bool)> {
    let [x, y, Arg::True(is_min)] = data.args[..] else { return None };
    (data.results.len() == 1).then_some(([x, y], is_min))
}

/// The maximum of zero and of a minimum or maximum.
fn relu(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, y], false) = match_min_max(data)? else { return None };
    if !data.modifiers.is_empty() || !is_zero(&y) {
        return None;
    }
    for op in [sass::Op::VIMNMX, sass::Op::VIMNMX3, sass::Op::VIADDMNMX] {
        if let Some(inner) = c.single_use(&x, op).filter(|d| d.modifiers.is_empty()) {
            let args = inner.args.clone();
            return c.legal(data, op, &[M::RELU], &args);
        }
    }
    None
}

/// The sum goes into the minimum or maximum of words. That of packed halves would not carry from one to the other.
fn min_max_of_sum(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, y], is_min) = match_min_max(data)?;
    if data.modifiers.iter().any(|m| matches!(m, M::S16x2 | M::U16x2)) {
        return None;
    }
    for (sum, other) in [(x, y), (y, x)] {
        let Some([a, b, RZ]) = c.single_use(&sum, sass::Op::IADD3).and_then(add_terms) else { continue };
        for (a, b) in [(a, b), (b, a)] {
            // Constants and signs have one place each.
            let args = [a, b, other, Arg::True(is_min)];
            if plain(&a).is_some()
                && let Some(rewrite) = c.legal(data, sass::Op::VIADDMNMX, &data.modifiers, &args)
            {
                return Some(rewrite);
            }
        }
    }
    None
}

fn min_max_of_three(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, y], is_min) = match_min_max(data)?;
    for (inner, other) in [(x, y), (y, x)] {
        let Some(two) = c.single_use(&inner, sass::Op::VIMNMX) else { continue };
        let Some(([a, b], inner_min)) = match_min_max(two) else { continue };
        // The outer one may have `.RELU`: the result of three operands is limited, too.
        let is_alike = data.modifiers.iter().filter(|m| **m != M::RELU).eq(two.modifiers.iter());
        if inner_min != is_min || !is_alike {
            continue;
        }
        let all = [[a, b, other], [a, other, b], [b, other, a]];
        let three = |[a, b, d]: &[Arg; 3]| {
            c.legal(data, sass::Op::VIMNMX3, &data.modifiers, &[*a, *b, *d, Arg::True(is_min)])
        };
        if let Some(rewrite) = all.iter().find_map(three) {
            return Some(rewrite);
        }
    }
    None
}

fn float_min_max_of_three(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, y], is_min) = match_min_max(data)?;
    let ([] | [M::FTZ]) = data.modifiers[..] else { return None };
    for (inner, other) in [(x, y), (y, x)] {
        let Some(two) = c.single_use(&inner, sass::Op::FMNMX) else { continue };
        let Some(([a, b], inner_min)) = match_min_max(two) else { continue };
        if inner_min == is_min && two.modifiers == data.modifiers {
            let args = [a, b, other, Arg::True(is_min)];
            return c.legal(data, sass::Op::FMNMX3, &data.modifiers, &args);
        }
    }
    None
}
