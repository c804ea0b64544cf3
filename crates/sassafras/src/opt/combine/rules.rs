//! Peephole rules: each rule matches one instruction and the definitions of its operands, and returns the replacement.
//!
//! A rule that is profitable only if another instruction becomes dead accesses that instruction through `single_use`.

use super::{
    Combine, Key, PAIR, Rewrite, bitwise, carries, contract, floats, halves, identities, offsets, products,
    selects, shifts,
};
use crate::analysis::effects;
use ori::{Arg, File, Generic, InstData, Op, Part, Pseudo, Use, Value, entity::Entity};
use sass::{M, Suffixes};
use smallvec::SmallVec;
use std::sync::LazyLock;

pub(super) type Rule = fn(&mut Combine, &InstData) -> Option<Rewrite>;

const RULES: &[(Op, Rule)] = &[
    (Op::Pseudo(Pseudo::Pack), repack),
    (Op::Pseudo(Pseudo::Pack), mad_wide),
    (Op::Pseudo(Pseudo::Pack), products::add_to_product),
    (Op::Pseudo(Pseudo::Pack), lea64),
    (Op::Pseudo(Pseudo::Pack), reassociate_add64),
    (Op::Pseudo(Pseudo::Pack), zero_pair),
    (Op::Pseudo(Pseudo::Copy), merge_else_value),
    (Op::Machine(sass::Op::MOV), forward_move),
    (Op::Machine(sass::Op::IADD3), drop_carry),
    (Op::Machine(sass::Op::IADD3), carries::merge),
    (Op::Machine(sass::Op::IADD3), products::middle_sum),
    (Op::Machine(sass::Op::IADD3), add_zero),
    (Op::Machine(sass::Op::IADD3), mad),
    (Op::Machine(sass::Op::IADD3), subtract_product),
    (Op::Machine(sass::Op::IADD3), lea),
    (Op::Machine(sass::Op::IADD3), products::sum_of_multiples),
    (Op::Machine(sass::Op::IADD3), reassociate_add),
    (Op::Machine(sass::Op::LEA), lea_of_constant),
    (Op::Machine(sass::Op::IMAD), mul_by_one),
    (Op::Machine(sass::Op::IMAD), products::wide),
    (Op::Machine(sass::Op::IMAD), products::low_word),
    (Op::Machine(sass::Op::IMAD), products::sum_of_multiples),
    (Op::Machine(sass::Op::IMAD), products::middle_word),
    (Op::Machine(sass::Op::LOP3), bitwise::merge_cone),
    (Op::Machine(sass::Op::ISETP), compare_low_words),
    (Op::Machine(sass::Op::PRMT), prmt_of_prmt),
    (Op::Machine(sass::Op::PRMT), redundant_extension),
    (Op::Machine(sass::Op::PRMT), pack_conversions),
    (Op::Machine(sass::Op::PRMT), halves::pack),
    (Op::Machine(sass::Op::R2UR), constant_r2ur),
    (Op::Machine(sass::Op::SYNCS), fold_offset),
    (Op::Machine(sass::Op::LDC), constant_index),
    (Op::Machine(sass::Op::LDC), offset_index),
    (Op::Machine(sass::Op::SHFL), constant_lane),
    (Op::Machine(sass::Op::NANOSLEEP), constant_time),
    (Op::Machine(sass::Op::BAR), constant_barrier),
    (Op::Machine(sass::Op::FADD), contract::rule),
    (Op::Machine(sass::Op::FADD), floats::saturate),
    (Op::Machine(sass::Op::FADD2), contract::rule),
    (Op::Machine(sass::Op::DADD), contract::rule),
    (Op::Machine(sass::Op::HADD2), contract::rule),
    (Op::Machine(sass::Op::FMUL), |c, data| c.select_constants(data)),
    (Op::Machine(sass::Op::HGMMA), drop_true_scale_predicate),
    (Op::Machine(sass::Op::HADD2), half_of_prmt),
    (Op::Machine(sass::Op::HFMA2), half_of_prmt),
    (Op::Machine(sass::Op::HMUL2), half_of_prmt),
];

/// Applies the first rule that matches, if there is fuel for it.
pub(super) fn apply(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    if effects::is_offset_access(data.op) {
        return fold_offset(c, data).filter(|_| c.fuel.burn());
    }
    for rule in rules_of(data.op) {
        if let Some(rewrite) = rule(c, data) {
            return c.fuel.burn().then_some(rewrite);
        }
    }
    None
}

/// The rules for an operation, in the order of the tables.
fn rules_of(op: Op) -> &'static [Rule] {
    static BY_OP: LazyLock<Vec<Vec<Rule>>> = LazyLock::new(|| {
        let mut by_op: Vec<Vec<Rule>> = Vec::new();
        for (op, rule) in identities::RULES.iter().chain(selects::RULES).chain(shifts::RULES).chain(RULES) {
            let at = number(*op);
            by_op.resize(by_op.len().max(at + 1), Vec::new());
            by_op[at].push(*rule);
        }
        by_op
    });
    BY_OP.get(number(op)).map_or(&[], |rules| rules)
}

/// A number for each operation: those of the compiler first.
fn number(op: Op) -> usize {
    match op {
        Op::Pseudo(op) => op as usize,
        Op::Generic(op) => Pseudo::ALL.len() + op as usize,
        Op::Machine(op) => Pseudo::ALL.len() + Generic::ALL.len() + op as usize,
    }
}

pub(super) const RZ: Arg = Arg::Zero(File::R);

pub(super) fn is_zero(arg: &Arg) -> bool {
    matches!(arg, Arg::Zero(_) | Arg::Imm(0))
}

/// A whole value without modifiers.
pub(super) fn plain(arg: &Arg) -> Option<Value> {
    match arg {
        Arg::Use(u) if u.is_plain() && u.part.is_none() => Some(u.value),
        _ => None,
    }
}

impl Combine<'_> {
    /// The bits of a word that is constant.
    pub(super) fn known_word(&self, arg: &Arg) -> Option<u32> {
        immediate(arg).or_else(|| self.known[plain(arg)?.index()].map(|bits| bits as u32))
    }

    /// The definition of an operand without another use.
    pub(super) fn single_use(&self, arg: &Arg, op: sass::Op) -> Option<&InstData> {
        let value = plain(arg)?;
        let data = self.definition_of(value).filter(|d| d.op == Op::Machine(op) && d.results.len() == 1)?;
        (self.uses[value.index()] == 1).then_some(data)
    }

    /// An instruction with the results of another one, if the machine has a form for it.
    pub(super) fn legal(
        &self,
        like: &InstData,
        op: sass::Op,
        modifiers: &[M],
        args: &[Arg],
    ) -> Option<Rewrite> {
        let args = SmallVec::from_slice(args);
        let new = InstData { op: Op::Machine(op), modifiers: modifiers.into(), args, ..like.clone() };
        self.is_legal(&new).then_some(Rewrite::Inst(Box::new(new)))
    }

    /// The result is an operand, unless that is in another register file.
    pub(super) fn forward(&self, data: &InstData, arg: &Arg) -> Option<Rewrite> {
        let value = plain(arg).filter(|_| data.guard.is_none() && data.results.len() == 1)?;
        let alike = self.function.values[value] == self.function.values[data.results[0]];
        alike.then_some(Rewrite::Value(value))
    }

    /// The same, or a copy of a word of a longer operand: what reads the copy then reads that word.
    pub(super) fn forward_word(&self, data: &InstData, arg: &Arg) -> Option<Rewrite> {
        self.forward(data, arg).or_else(|| {
            let [result] = data.results[..] else { return None };
            let shape = self.function.values[result];
            let is_word = |u: &Use| u.is_plain() && u.part.is_some_and(|part| part.count == 1);
            let from = |u: &Use| self.function.values[u.value];
            // Longer operands are those of loads and matrix products: their words stay in place longer than a move takes.
            let is_copied =
                matches!(arg, Arg::Use(u) if is_word(u) && from(u).words == 2 && from(u).file == File::R);
            if !is_copied || shape.file != File::R || shape.words != 1 || data.guard.is_some() {
                return None;
            }
            let (op, modifiers, args) =
                (Op::Pseudo(Pseudo::Copy), SmallVec::new(), SmallVec::from_slice(&[*arg]));
            Some(Rewrite::Inst(Box::new(InstData { op, modifiers, args, ..data.clone() })))
        })
    }

    /// The pair whose words these are.
    fn pair(&self, low: &Arg, high: &Arg) -> Option<Value> {
        let (Arg::Use(l), Arg::Use(h)) = (low, high) else { return None };
        let word = |u: &Use, first| u.is_plain() && u.part == Some(Part { first, count: 1 });
        let whole = l.value == h.value && self.function.values[l.value].words == 2;
        (whole && word(l, 0) && word(h, 1)).then_some(l.value)
    }

    /// The same, or an available load or pack of the words.
    pub(super) fn whole_pair(&self, [low, high]: &[Arg; 2]) -> Option<Value> {
        let (op, modifiers, args): (_, &[M], &[Arg]) = match (low, high) {
            (Arg::Const { bank: 0, offset }, Arg::Const { bank: 0, offset: next })
                if *next == offset + 4 && !self.machine.constant_operands =>
            {
                let bank = Arg::Bank { bank: 0, index: None, offset: i32::try_from(*offset).ok()? };
                (Op::Machine(sass::Op::LDC), &[M::_64], &[bank])
            }
            (Arg::Use(_), Arg::Use(_)) => (Op::Pseudo(Pseudo::Pack), &[], &[*low, *high]),
            _ => return None,
        };
        let key = Key::new(op, modifiers, args.iter(), std::iter::once(PAIR), None);
        let before = self.available_expression(&key).map(|inst| self.function.insts[inst].results[0]);
        self.pair(low, high).or(before)
    }

    /// The operands of a 64-bit addition with this result.
    pub(super) fn match_add64(&self, low: &Arg, high: &Arg) -> Option<[[Arg; 2]; 2]> {
        let of = |arg: &Arg| self.definition_of(plain(arg)?).filter(|d| d.op == Op::Machine(sass::Op::IADD3));
        let (l, h) = (of(low)?, of(high)?);
        let ([a0, b0, z0], [a1, b1, z1, carry, Arg::True(false)]) = (&l.args[..], &h.args[..]) else {
            return None;
        };
        let fine = |a: &Arg| {
            matches!(a, Arg::Use(u) if u.is_plain())
                || matches!(a, Arg::Imm(_) | Arg::Zero(_) | Arg::Const { .. })
        };
        let carried =
            l.results.len() == 2 && plain(carry) == Some(l.results[1]) && plain(low) == Some(l.results[0]);
        let form = l.modifiers.is_empty() && h.modifiers[..] == [M::X] && h.results.len() == 1;
        let zero = is_zero(z0) && is_zero(z1);
        (carried && form && zero && [a0, b0, a1, b1].into_iter().all(fine))
            .then_some([[*a0, *a1], [*b0, *b1]])
    }
}

/// A pack of all words of a value is that value.
fn repack(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    if data.guard.is_some() {
        return None;
    }
    let word = |arg: &Arg| -> Option<(Value, u8, u8)> {
        let Arg::Use(u) = arg else { return None };
        if let Some(part) = u.part.filter(|_| u.is_plain()) {
            return Some((u.value, part.first, part.count));
        }
        // A result of `Unpack`.
        let definition = c.definition_of(plain(arg)?)?;
        let (Op::Pseudo(Pseudo::Unpack), [Arg::Use(of)]) = (definition.op, &definition.args[..]) else {
            return None;
        };
        let mut first = of.part.map_or(0, |p| p.first);
        for result in &definition.results {
            let words = c.function.values[*result].words;
            if *result == u.value {
                return Some((of.value, first, words));
            }
            first += words;
        }
        None
    };
    let (source, _, _) = word(data.args.first()?)?;
    let mut next = 0;
    for arg in &data.args {
        let (value, first, count) = word(arg)?;
        if value != source || first != next {
            return None;
        }
        next += count;
    }
    let same = c.function.values[source] == c.function.values[data.results[0]]
        && next == c.function.values[source].words;
    same.then_some(Rewrite::Value(source))
}

/// `x + a * b` of 64 bits with 32-bit factors is `IMAD.WIDE`.
fn mad_wide(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [low, high] = &data.args[..] else { return None };
    let [a, b] = c.match_add64(low, high)?;
    for (x, product) in [(a, b), (b, a)] {
        let Some(wide) = c.pair(&product[0], &product[1]) else { continue };
        let Some(imad) = c.definition_of(wide).filter(|d| d.op == Op::Machine(sass::Op::IMAD)) else {
            continue;
        };
        // Even if the product has other uses, this is one instruction in place of two.
        let plain = imad.results.len() == 1 && is_zero(&imad.args[2]);
        let Some(addend) = c.whole_pair(&x).filter(|_| plain) else { continue };
        let modifiers = imad.modifiers.clone();
        return c.legal(data, sass::Op::IMAD, &modifiers, &[imad.args[0], imad.args[1], addend.into()]);
    }
    None
}

/// `x + (y << n)` of 64 bits is a pair of `LEA`.
fn lea64(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([low, high], None) = (&data.args[..], &data.guard) else { return None };
    let [a, b] = c.match_add64(low, high)?;
    let of = |arg: &Arg| c.definition_of(plain(arg)?).filter(|d| d.op == Op::Machine(sass::Op::SHF));
    for (x, shifted) in [(a, b), (b, a)] {
        let (Some(l), Some(h)) = (of(&shifted[0]), of(&shifted[1])) else { continue };
        let ([y0, Arg::Imm(n @ 1..32), RZ], [y, Arg::Imm(m), y1]) = (&l.args[..], &h.args[..]) else {
            continue;
        };
        let form = l.modifiers[..] == [M::L, M::U32] && h.modifiers[..] == [M::L, M::U64, M::HI];
        if !form || y0 != y || n != m || !matches!((y0, y1), (Arg::Use(_), Arg::Use(_))) {
            continue;
        }
        let (y, n) = ([*y0, *y1], Arg::Imm(*n));
        let low = c.function.value(File::R, 1);
        let carry = c.function.value(File::P, 1);
        c.grow_tables();
        let like = |results: &[Value]| InstData { results: results.into(), ..data.clone() };
        let low_sum = c.legal(&like(&[low, carry]), sass::Op::LEA, &[], &[y[0], x[0], n])?;
        let high = c.function.value(File::R, 1);
        c.grow_tables();
        let args = [y[0], x[1], y[1], n, carry.into()];
        let high_sum = c.legal(&like(&[high]), sass::Op::LEA, &[M::HI, M::X], &args)?;
        for sum in [low_sum, high_sum] {
            if let Rewrite::Inst(sum) = sum {
                c.append(*sum);
            }
        }
        let args = SmallVec::from_slice(&[low.into(), high.into()]);
        return Some(Rewrite::Inst(Box::new(InstData { args, ..data.clone() })));
    }
    None
}

/// `(x + n) + m` of 64 bits is `x + (n + m)`: advancing pointers don't depend on each other.
fn reassociate_add64(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([low, high], None) = (&data.args[..], &data.guard) else { return None };
    let [sum, m] = c.match_add64(low, high)?;
    if plain(&sum[0]).is_some_and(|v| c.is_from_loop(v)) {
        return None;
    }
    let [x, n] = c.match_add64(&sum[0], &sum[1])?;
    if !x.iter().all(|word| matches!(word, Arg::Use(_))) {
        return None;
    }
    let all = immediate64(&m)?.wrapping_add(immediate64(&n)?);
    let number = |word: u32| if word == 0 { RZ } else { Arg::Imm(i64::from(word as i32)) };
    let [low, high] = [c.function.value(File::R, 1), c.function.value(File::R, 1)];
    let carry = c.function.value(File::P, 1);
    c.grow_tables();
    let iadd = |results: &[Value], modifiers: &[M], args: &[Arg]| InstData {
        op: Op::Machine(sass::Op::IADD3),
        modifiers: modifiers.into(),
        results: results.into(),
        args: args.into(),
        ..data.clone()
    };
    c.append(iadd(&[low, carry], &[], &[x[0], number(all as u32), RZ]));
    let args = [x[1], number((all >> 32) as u32), RZ, carry.into(), Arg::True(false)];
    c.append(iadd(&[high], &[M::X], &args));
    let args = SmallVec::from_slice(&[low.into(), high.into()]);
    Some(Rewrite::Inst(Box::new(InstData { args, ..data.clone() })))
}

/// The bits of an immediate.
fn immediate(arg: &Arg) -> Option<u32> {
    match arg {
        Arg::Imm(n) => Some(*n as u32),
        Arg::Zero(_) => Some(0),
        _ => None,
    }
}

/// The same of 64 bits.
fn immediate64([low, high]: &[Arg; 2]) -> Option<u64> {
    Some(u64::from(immediate(high)?) << 32 | u64::from(immediate(low)?))
}

/// A half of a `PRMT` that moves whole halves is a half of its operand.
fn half_of_prmt(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let taken = |arg: &Arg| {
        let Arg::Use(u) = arg else { return None };
        let halves: &[usize] = match u.suffixes.only() {
            Some(M::H0_H0) => &[0],
            Some(M::H1_H1) => &[2],
            // A word with the same half twice.
            Some(M::Empty) => &[0, 2],
            _ => return None,
        };
        let prmt =
            c.definition_of(u.value).filter(|d| d.op == Op::Machine(sass::Op::PRMT) && u.part.is_none())?;
        let (true, [a, Arg::Imm(selector), b]) = (prmt.modifiers.is_empty(), &prmt.args[..]) else {
            return None;
        };
        let of = |at: &usize| match selector >> (4 * at) & 0xff {
            0x10 => Some((a, M::H0_H0)),
            0x32 => Some((a, M::H1_H1)),
            0x54 => Some((b, M::H0_H0)),
            0x76 => Some((b, M::H1_H1)),
            _ => None,
        };
        let (source, half) = of(&halves[0])?;
        if halves.iter().any(|at| of(at) != Some((source, half))) {
            return None;
        }
        let Arg::Use(from) = source else { return None };
        let suffixes = Suffixes::one(half);
        let flags = Use { negated: u.negated, absolute: u.absolute, inverted: u.inverted, suffixes, ..*from };
        from.is_plain().then_some(Arg::Use(flags))
    };
    let (at, arg) = data.args.iter().enumerate().find_map(|(at, arg)| Some((at, taken(arg)?)))?;
    let mut new = data.clone();
    new.args[at] = arg;
    Some(Rewrite::Inst(Box::new(new)))
}

/// Two floats that become halves of a word are converted by one operation.
fn pack_conversions(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    // The lower halves of both operands.
    let [low, Arg::Imm(0x5410), high] = &data.args[..] else { return None };
    let of = |arg: &Arg| c.single_use(arg, sass::Op::F2FP).filter(|d| d.modifiers.contains(&M::PACK_AB));
    let (low, high) = (of(low)?, of(high)?);
    let ([Arg::Zero(_), x], [Arg::Zero(_), y]) = (&low.args[..], &high.args[..]) else { return None };
    let is_alike = data.modifiers.is_empty() && low.modifiers == high.modifiers;
    is_alike.then(|| c.legal(data, sass::Op::F2FP, &low.modifiers, &[*y, *x])).flatten()
}

/// Two zero words at an even index of a pack are one `CS2R`.
fn zero_pair(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    if data.guard.is_some() {
        return None;
    }
    let zero = |arg: &Arg| {
        let word = plain(arg).filter(|v| c.function.values[*v].words == 1);
        word.is_some_and(|v| c.known[v.index()] == Some(0))
    };
    let mut offsets = Vec::new();
    let mut words = 0;
    for arg in &data.args {
        offsets.push(words);
        let Arg::Use(u) = arg else { return None };
        words += c.words(u);
    }
    let mut pairs = 0..data.args.len().saturating_sub(1);
    let first = pairs.find(|i| offsets[*i] % 2 == 0 && data.args[*i..*i + 2].iter().all(zero))?;
    let pair = c.materialize(0, 2, data.at)?;
    let mut new = data.clone();
    new.args[first] = pair.into();
    new.args.remove(first + 1);
    Some(if new.args.len() == 1 { Rewrite::Value(pair) } else { Rewrite::Inst(Box::new(new)) })
}

/// A guarded copy of a guarded load: its else value becomes that of the load.
fn merge_else_value(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let guard = data.guard.as_ref()?;
    let loaded = plain(&data.args[0])?;
    let inst = c.definition[loaded.index()]?;
    let load = &c.function.insts[inst];
    let its = load.guard.as_ref()?;
    let same_guard = its.predicate == guard.predicate && its.negated == guard.negated;
    let undefined = |v: Value| c.definition_of(v).is_some_and(|d| d.op == Op::Pseudo(Pseudo::Undef));
    let is_else_undefined = load.results.len() == 1 && its.else_values.iter().all(|k| undefined(*k));
    let else_value = guard.else_values[0];
    let bits = |v: Value| c.known[v.index()].ok_or(v);
    if same_guard && load.results.len() == 1 && bits(its.else_values[0]) == bits(else_value) {
        return Some(Rewrite::Value(loaded));
    }
    let constant =
        c.known[else_value.index()].is_some_and(|bits| bits == 0 || c.function.values[else_value].words == 1);
    let before = constant || c.visited_at[else_value.index()] < c.visited_at[loaded.index()];
    if !same_guard || !is_else_undefined || !before || c.uses[loaded.index()] != 1 || !c.out.contains(&inst) {
        return None;
    }
    Some(Rewrite::DefineBy { inst, else_value })
}

fn forward_move(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [arg] = &data.args[..] else { return None };
    c.forward_word(data, arg).filter(|_| data.modifiers.is_empty())
}

/// The three terms of an addition without carry.
pub(super) fn add_terms(data: &InstData) -> Option<[Arg; 3]> {
    let [a, b, c] = data.args[..] else { return None };
    (data.modifiers.is_empty() && data.results.len() == 1).then_some([a, b, c])
}

/// `x + 0`
fn add_zero(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let all = add_terms(data)?;
    let mut left = all.iter().filter(|t| !is_zero(t));
    let (Some(only), None) = (left.next(), left.next()) else { return None };
    c.forward_word(data, only)
}

/// The upper word of an addition whose lower word has no carry.
fn drop_carry(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([M::X], [a, b, z, Arg::True(false), Arg::True(false)]) = (&data.modifiers[..], &data.args[..])
    else {
        return None;
    };
    let whole = data.results.len() == 1;
    whole.then(|| c.legal(data, sass::Op::IADD3, &[], &[*a, *b, *z])).flatten()
}

/// `x + a * b`
fn mad(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    for (product, x) in [(a, b), (b, a)] {
        let plain_x = plain(&x).is_some() || matches!(x, Arg::Imm(_) | Arg::Stack);
        let Some(imad) = c.single_use(&product, sass::Op::IMAD).filter(|_| plain_x) else { continue };
        if imad.modifiers.is_empty() && is_zero(&imad.args[2]) {
            let args = [imad.args[0], imad.args[1], x];
            if let Some(rewrite) = c.legal(data, sass::Op::IMAD, &[], &args) {
                return Some(rewrite);
            }
        }
    }
    None
}

/// `x - a * n` is `a * -n + x`.
fn subtract_product(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    for (product, x) in [(a, b), (b, a)] {
        let Arg::Use(Use { negated: true, .. }) = product else { continue };
        let Some(imad) = c.single_use(&product.negated(), sass::Op::IMAD).filter(|_| plain(&x).is_some())
        else {
            continue;
        };
        if let ([], [factor, Arg::Imm(n), zero]) = (&imad.modifiers[..], &imad.args[..])
            && is_zero(zero)
        {
            let minus = Arg::Imm(i64::from((*n as i32).wrapping_neg()));
            return c.legal(data, sass::Op::IMAD, &[], &[*factor, minus, x]);
        }
    }
    None
}

/// `x + (a << n)`
fn lea(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    for (shifted, x) in [(a, b), (b, a)] {
        let Some(shift) = c.single_use(&shifted, sass::Op::SHF) else { continue };
        let left = shift.modifiers[..] == [M::L, M::U32];
        let is_word = plain(&x).is_some() || x == Arg::Stack;
        if let ([from, Arg::Imm(n @ 0..32), RZ], true, true) = (&shift.args[..], left, is_word)
            && plain(from).is_some()
        {
            return c.legal(data, sass::Op::LEA, &[], &[*from, x, Arg::Imm(*n)]);
        }
    }
    None
}

/// A shifted constant is a constant: `LEA 3, x, 2` is `x + 12`, and the offset of an access.
fn lea_of_constant(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([], [index, base, Arg::Imm(n @ 0..32)], [_]) =
        (&data.modifiers[..], &data.args[..], &data.results[..])
    else {
        return None;
    };
    let shifted = c.known_word(index)?.wrapping_shl(*n as u32);
    plain(base)?;
    c.legal(data, sass::Op::IADD3, &[], &[*base, Arg::Imm(i64::from(shifted as i32)), RZ])
}

/// `(a + b) + x` is one `IADD3`; constants are added up.
fn reassociate_add(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    for (inner, x) in [(a, b), (b, a)] {
        let Some(value) = plain(&inner).filter(|v| !c.is_from_loop(*v)) else { continue };
        let Some(sum) = c.definition_of(value).filter(|d| d.op == Op::Machine(sass::Op::IADD3)) else {
            continue;
        };
        let Some([p, q, RZ]) = add_terms(sum) else { continue };
        let merged = match (q, x) {
            (Arg::Imm(m), Arg::Imm(n)) => [p, Arg::Imm(i64::from((m as i32).wrapping_add(n as i32))), RZ],
            _ if c.uses[value.index()] == 1 => [p, x, q],
            _ => continue,
        };
        let [first, second, third] = merged;
        for args in [merged, [first, third, second]] {
            if let Some(rewrite) = c.legal(data, sass::Op::IADD3, &[], &args) {
                return Some(rewrite);
            }
        }
    }
    None
}

/// A 64-bit comparison with equal upper words is that of the lower words.
fn compare_low_words(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([.., M::AND, M::EX], [Arg::True(true), a, b, Arg::True(true), lower]) =
        (&data.modifiers[..], &data.args[..])
    else {
        return None;
    };
    (is_zero(a) && is_zero(b)).then(|| c.forward(data, lower)).flatten()
}

/// `R2UR` of a constant is `UMOV`.
fn constant_r2ur(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [arg @ Arg::Use(u)] = &data.args[..] else { return None };
    let bits = c.known[u.value.index()].filter(|_| plain(arg).is_some())?;
    // An undefined else value may be the constant.
    let is_undefined =
        |else_value: &Value| c.definition_of(*else_value).is_some_and(|d| d.op == Op::Pseudo(Pseudo::Undef));
    if data.guard.as_ref().is_some_and(|guard| !guard.else_values.iter().all(is_undefined)) {
        return None;
    }
    let always = InstData { guard: None, ..data.clone() };
    c.legal(&always, sass::Op::UMOV, &[], &[Arg::Imm(i64::from(bits as u32 as i32))])
}

/// A load from a constant bank at a constant index has it in its offset.
fn constant_index(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [Arg::Bank { bank, index: Some(index), offset }] = data.args[..] else { return None };
    let at = c.known[index.index()]? as u32 as i32;
    // Where the sum doesn't wrap, and has the sign bit of the field clear.
    let offset = at.checked_add(offset).filter(|sum| (0..0x8000).contains(sum))?;
    c.legal(data, sass::Op::LDC, &data.modifiers, &[Arg::Bank { bank, index: None, offset }])
}

/// `c[(x + n) + offset]` is `c[x + (n + offset)]`. ptxas has negative indices with positive offsets, so that the sum
/// wraps around, as a sum of words does.
fn offset_index(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [Arg::Bank { bank, index: Some(index), offset }] = data.args[..] else { return None };
    if c.is_from_loop(index) {
        return None;
    }
    let (index, more) = offsets::split(c, index, data.at)?;
    // The field has 16 bits and a sign.
    let offset = i64::from(offset) + more;
    let offset = i32::try_from(offset).ok().filter(|sum| (-0x8000..0x8000).contains(sum))?;
    c.legal(data, sass::Op::LDC, &data.modifiers, &[Arg::Bank { bank, index: Some(index), offset }])
}

/// The lane and the clamp of a shuffle, of which it reads as many bits as an immediate has.
fn constant_lane(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [word, lane, clamp] = data.args[..] else { return None };
    let constant = |arg: Arg, mask: u32| match plain(&arg).and_then(|_| c.known_word(&arg)) {
        Some(bits) => Arg::Imm(i64::from(bits & mask)),
        None => arg,
    };
    let args = [word, constant(lane, 0x1f), constant(clamp, 0x1f1f)];
    (args[..] != data.args[..]).then(|| c.legal(data, sass::Op::SHFL, &data.modifiers, &args)).flatten()
}

fn constant_time(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [time] = data.args[..] else { return None };
    let bits = plain(&time).and_then(|_| c.known_word(&time))?;
    c.legal(data, sass::Op::NANOSLEEP, &data.modifiers, &[Arg::Imm(i64::from(bits))])
}

/// A barrier whose number (bits 0 to 3) and number of threads (from bit 16 on) one register has.
fn constant_barrier(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [both, again, rest @ ..] = &data.args[..] else { return None };
    let bits = plain(both).filter(|_| both == again).and_then(|_| c.known_word(both))?;
    let mut args = vec![Arg::Imm(i64::from(bits & 0xf)), Arg::Imm(i64::from(bits >> 16))];
    args.extend_from_slice(rest);
    c.legal(data, sass::Op::BAR, &data.modifiers, &args)
}

/// The operand and the selector of a `PRMT` of one word and zero.
pub(super) fn match_prmt(data: &InstData) -> Option<(Arg, u32)> {
    match (&data.modifiers[..], &data.args[..], &data.guard) {
        ([], [from, Arg::Imm(selector), Arg::Zero(_)], None) => Some((*from, *selector as u32)),
        _ => None,
    }
}

/// A `PRMT` of a `PRMT`.
fn prmt_of_prmt(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    const ZERO: u32 = 7;
    let (selected, outer) = match_prmt(data)?;
    let inner = c.definition_of(plain(&selected)?).filter(|d| d.op == Op::Machine(sass::Op::PRMT))?;
    let (from, inner) = match_prmt(inner)?;
    let nibble = |index: u32| match outer >> (4 * index) & 15 {
        n @ 0..4 => inner >> (4 * n) & 15,
        n @ 8..12 => match inner >> (4 * (n - 8)) & 15 {
            // The sign of a byte, of zero, or of a sign.
            m @ 0..4 => m | 8,
            4..8 => ZERO,
            sign => sign,
        },
        _ => ZERO,
    };
    let both = (0..4).map(|index| nibble(index) << (4 * index)).sum::<u32>();
    c.legal(data, sass::Op::PRMT, &[], &[from, Arg::Imm(both.into()), RZ])
}

/// An extension of a word whose upper bits are known to be zero.
fn redundant_extension(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let (from, selector) = match_prmt(data)?;
    let zeros = match selector {
        0x7710 => 0xffff_0000,
        0x7770 => 0xffff_ff00,
        0x9910 => 0xffff_8000,
        0x8880 => 0xffff_ff80,
        _ => return None,
    };
    (c.word_of(&from).ones & zeros == 0).then(|| c.forward(data, &from)).flatten()
}

/// The scale predicate of a wgmma (whether it adds to its accumulator) is left out where it is true.
fn drop_true_scale_predicate(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let adds = |arg: &Arg| match arg {
        Arg::Use(u) => {
            c.function.values[u.value].file == File::UP && !u.negated && c.known[u.value.index()] == Some(1)
        }
        _ => false,
    };
    let at = data.args.iter().position(adds)?;
    let mut new = data.clone();
    new.args.remove(at);
    c.is_legal(&new).then(|| Rewrite::Inst(Box::new(new)))
}

/// `a * 1 + x`
fn mul_by_one(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, Arg::Imm(1), x] = add_terms(data)? else { return None };
    c.legal(data, sass::Op::IADD3, &[], &[a, x, RZ])
}

/// The offsets that every access has a form for: see `lower::address`.
const OFFSETS: std::ops::Range<i64> = -(1 << 22)..1 << 22;
/// Those of most accesses.
const LONG_OFFSETS: std::ops::Range<i64> = -(1 << 23)..1 << 23;

/// `[(x + n) + offset]` is `[x + (n + offset)]`, also with `URZ` between the two, as an `mbarrier` has it.
fn fold_offset(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    for at in 0..data.args.len() {
        let is_apart = data.args.get(at + 1) == Some(&Arg::Zero(File::UR));
        let offset_at = at + 1 + usize::from(is_apart);
        let (Some(base), Some(&Arg::Imm(offset))) = (plain(&data.args[at]), data.args.get(offset_at)) else {
            continue;
        };
        if c.is_from_loop(base) {
            continue;
        }
        let Some((base, more)) = base_and_offset(c, base, data.at) else { continue };
        if LONG_OFFSETS.contains(&(offset + more)) {
            let mut new = data.clone();
            (new.args[at], new.args[offset_at]) = (base.into(), Arg::Imm(offset + more));
            // Some forms have a shorter offset. Legalization handles other operands that have no form.
            if c.is_legal(&new) || OFFSETS.contains(&(offset + more)) && !c.is_legal(data) {
                return Some(Rewrite::Inst(Box::new(new)));
            }
        }
    }
    None
}

/// The value and the constant whose sum a base is.
fn base_and_offset(c: &mut Combine, base: Value, at: u32) -> Option<(Value, i64)> {
    let data = c.definition_of(base)?;
    match (data.op, &data.args[..]) {
        // `a * b + x` with constant factors: what is left of a loop's counter after unrolling.
        (Op::Machine(sass::Op::IMAD), [a, b, x])
            if data.results.len() == 1 && data.modifiers.first() == Some(&M::WIDE) =>
        {
            let [a, b] = [c.known_word(a)?, c.known_word(b)?];
            let product = match data.modifiers[..] {
                [M::WIDE] => i64::from(a as i32) * i64::from(b as i32),
                [M::WIDE, M::U32] => (u64::from(a) * u64::from(b)) as i64,
                _ => return None,
            };
            Some((plain(x)?, product)).filter(|_| LONG_OFFSETS.contains(&product))
        }
        (Op::Pseudo(Pseudo::Pack), [low, high]) => {
            let [x, n] = c.match_add64(low, high)?;
            let n = immediate64(&n)? as i64;
            if !LONG_OFFSETS.contains(&n) || !x.iter().all(|w| matches!(w, Arg::Use(_))) {
                return None;
            }
            let pair = c.pair(&x[0], &x[1]);
            Some((pair.unwrap_or_else(|| c.pack_pair(&x, at)), n))
        }
        _ if c.function.values[base].words == 1 => offsets::split(c, base, at),
        _ => None,
    }
}
