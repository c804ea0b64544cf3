//! Shift combining: rotates and funnel shifts, shifted sums, byte extraction, wrapping shift amounts.
//!
//! | operation | becomes |
//! |---|---|
//! | `x << (n & 31)` | a shift whose amount wraps |
//! | `(x << k) \| (y >> (32 - k))` | a funnel shift |
//! | `x + (y >> n)`, unsigned | `LEA.HI y, x, RZ, 32 - n` |
//! | `(x & 0xffff) << 16`: a mask of bits that stay | `x << 16` |
//! | a `PRMT` shifted by bytes | a `PRMT` |
//! | `(x >> 8) & 0xff` | a `PRMT` that extracts the byte |
//! | 64-bit `x + y`, where `y` is a sign-extended word | `IMAD.WIDE y, 1, x` |

use super::bitwise::match_lop3;
use super::rules::{RZ, Rule, add_terms, match_prmt, plain};
use super::{Combine, Rewrite};
use ori::{Arg, InstData, Op, Pseudo};
use sass::M;

pub(super) const RULES: &[(Op, Rule)] = &[
    (Op::Machine(sass::Op::SHF), wrap_amount),
    (Op::Machine(sass::Op::SHF), shift_of_mask),
    (Op::Machine(sass::Op::SHF), shift_of_bytes),
    (Op::Machine(sass::Op::LOP3), funnel_or),
    (Op::Machine(sass::Op::IADD3), funnel_add),
    (Op::Machine(sass::Op::IADD3), add_shifted_right),
    (Op::Machine(sass::Op::LOP3), mask_of_shift),
    (Op::Machine(sass::Op::SGXT), field_of_shift),
    (Op::Pseudo(Pseudo::Pack), add_sign_extended),
];

/// A shift takes the lowest five bits of its amount itself.
fn wrap_amount(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let modifiers: &[M] = match data.modifiers[..] {
        [M::L, M::U32] => &[M::L, M::W, M::U32],
        [M::R, M::U32, M::HI] => &[M::R, M::W, M::U32, M::HI],
        [M::R, M::S32, M::HI] => &[M::R, M::W, M::S32, M::HI],
        _ => return None,
    };
    let [low, amount, high] = data.args[..] else { return None };
    let ([n, Arg::Imm(31), RZ], 0xc0) = match_lop3(c.single_use(&amount, sass::Op::LOP3)?)? else {
        return None;
    };
    // A shift of one word: the other one is zero.
    let one_word = if data.modifiers[0] == M::L { high == RZ } else { low == RZ };
    plain(&n).filter(|_| one_word)?;
    c.legal(data, sass::Op::SHF, modifiers, &[low, n, high])
}

/// The word that is shifted, by how many bits, and whether to the left; without a sign.
fn one_word_shift(data: &InstData) -> Option<(Arg, i64, bool)> {
    match (&data.modifiers[..], &data.args[..]) {
        ([M::L, M::U32], [x, Arg::Imm(n @ 1..32), RZ]) => Some((*x, *n, true)),
        ([M::R, M::U32, M::HI], [RZ, Arg::Imm(n @ 1..32), x]) => Some((*x, *n, false)),
        _ => None,
    }
}

fn like_shift(c: &Combine, data: &InstData, x: Arg) -> Option<Rewrite> {
    let mut args = data.args.clone();
    args[if data.modifiers[0] == M::L { 0 } else { 2 }] = x;
    c.legal(data, sass::Op::SHF, &data.modifiers, &args)
}

/// The bits that a mask clears are shifted out.
fn shift_of_mask(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let (masked, n, left) = one_word_shift(data)?;
    let and = c.definition_of(plain(&masked)?).filter(|d| d.op == Op::Machine(sass::Op::LOP3))?;
    let ([x, Arg::Imm(mask), RZ], 0xc0) = match_lop3(and)? else { return None };
    let stay = if left { u32::MAX >> n } else { u32::MAX << n };
    plain(&x).filter(|_| mask as u32 & stay == stay)?;
    like_shift(c, data, x)
}

fn shift_of_bytes(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    const ZEROS: u32 = 0x7777;
    let (bytes, n, left) = one_word_shift(data)?;
    let (x, selector) = match_prmt(c.single_use(&bytes, sass::Op::PRMT)?)?;
    plain(&x).filter(|_| n % 8 == 0)?;
    let (by, identity) = (n as u32 / 2, 0x3210);
    let [of_prmt, of_word] = [selector & 0xffff, identity].map(|selector: u32| match left {
        true => (selector << by | ZEROS & !(u32::MAX << by)) & 0xffff,
        false => selector >> by | ZEROS & !(0xffff >> by),
    });
    if of_prmt == of_word {
        return like_shift(c, data, x);
    }
    c.legal(data, sass::Op::PRMT, &[], &[x, Arg::Imm(of_prmt.into()), RZ])
}

/// A word and by how many bits it is shifted, to the left or, without its sign, to the right.
fn match_shift(c: &Combine, arg: &Arg, left: bool) -> Option<(Arg, i64)> {
    let data = c.single_use(arg, sass::Op::SHF)?;
    match (&data.modifiers[..], &data.args[..]) {
        ([M::L, M::U32], [x, Arg::Imm(n @ 1..32), RZ]) if left => Some((*x, *n)),
        ([M::R, M::U32, M::HI], [RZ, Arg::Imm(n @ 1..32), x]) if !left => Some((*x, *n)),
        _ => None,
    }
    .filter(|(x, _)| matches!(x, Arg::Use(u) if u.is_plain()))
}

/// Two words shifted against each other: the bits of the one end where those of the other begin.
fn funnel(c: &Combine, data: &InstData, a: &Arg, b: &Arg) -> Option<Rewrite> {
    let both = |l: &Arg, r: &Arg| Some((match_shift(c, l, true)?, match_shift(c, r, false)?));
    let ((high, n), (low, m)) = both(a, b).or_else(|| both(b, a))?;
    let modifiers = [M::L, M::W, M::U32, M::HI];
    (n + m == 32).then(|| c.legal(data, sass::Op::SHF, &modifiers, &[low, Arg::Imm(n), high])).flatten()
}

fn funnel_or(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    // The two have no bit in common: or, exclusive or.
    let ([a, b, RZ], 0xfc | 0x3c) = match_lop3(data)? else { return None };
    funnel(c, data, &a, &b)
}

fn funnel_add(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    funnel(c, data, &a, &b)
}

/// `x + (y >> n)`: the upper word of `y << (32 - n)`, as after a signed division by a power of two.
fn add_shifted_right(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, RZ] = add_terms(data)? else { return None };
    for (shifted, x) in [(a, b), (b, a)] {
        if let Some((y, n)) = match_shift(c, &shifted, false)
            && let Some(rewrite) = c.legal(data, sass::Op::LEA, &[M::HI], &[y, x, RZ, Arg::Imm(32 - n)])
        {
            return Some(rewrite);
        }
    }
    None
}

/// The selector of `PRMT` for some whole bytes from bit `first` on, with zeros or their sign above.
fn field_selector(first: i64, bits: i64, signed: bool) -> Option<i64> {
    const ZERO: i64 = 7;
    let (at, bytes) = (first / 8, bits / 8);
    if first % 8 != 0 || bits % 8 != 0 || !(1..4).contains(&bytes) || at + bytes > 4 {
        return None;
    }
    let fill = if signed { 8 + at + bytes - 1 } else { ZERO };
    Some((0..4).map(|i| if i < bytes { at + i } else { fill } << (4 * i)).sum())
}

/// Some bytes of a word that is shifted to the right.
fn field(c: &Combine, data: &InstData, from: &Arg, bits: i64, signed: bool) -> Option<Rewrite> {
    // A field ends within the word, so that what a shift fills in is not part of it.
    let shift = c.single_use(from, sass::Op::SHF)?;
    let ([M::R, M::U32 | M::S32, M::HI], [RZ, Arg::Imm(n @ 1..32), x]) =
        (&shift.modifiers[..], &shift.args[..])
    else {
        return None;
    };
    let (x, n) = (*x, *n);
    plain(&x)?;
    let selector = field_selector(n, bits, signed)?;
    c.legal(data, sass::Op::PRMT, &[], &[x, Arg::Imm(selector), RZ])
}

fn mask_of_shift(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, Arg::Imm(mask), RZ], 0xc0) = match_lop3(data)? else { return None };
    let bits = match mask {
        0xff => 8,
        0xffff => 16,
        _ => return None,
    };
    field(c, data, &x, bits, false)
}

fn field_of_shift(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [x, Arg::Imm(bits)] = data.args[..] else { return None };
    match data.modifiers[..] {
        [M::U32] => field(c, data, &x, bits, false),
        [] => field(c, data, &x, bits, true),
        _ => None,
    }
}

/// One instruction in place of three.
fn add_sign_extended(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [low, high] = &data.args[..] else { return None };
    let [a, b] = c.match_add64(low, high)?;
    for (x, [word, sign]) in [(a, b), (b, a)] {
        let of_word = plain(&sign).and_then(|v| c.definition_of(v)).filter(|d| {
            let is_sign = [M::R, M::S32, M::HI] == d.modifiers[..] && d.args[..] == [RZ, Arg::Imm(31), word];
            d.op == Op::Machine(sass::Op::SHF) && is_sign
        });
        if of_word.is_none() || plain(&word).is_none() {
            continue;
        }
        if let Some(addend) = c.whole_pair(&x) {
            return c.legal(data, sass::Op::IMAD, &[M::WIDE], &[word, Arg::Imm(1), addend.into()]);
        }
    }
    None
}
