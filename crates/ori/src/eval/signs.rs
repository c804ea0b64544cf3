//! What the signs before an operand do to its bits, for each kind of number.

use super::Arg;
use crate::arith::float::{BF16, F16, F32, F64, Format};
use sass::signs::Number;

/// The bits that an operand with signs stands for, or `None` where that is not one value in a register.
///
/// The carry of a sum is another matter: `-0` carries, and zero does not.
pub fn signed(number: Number, arg: Arg) -> Option<u64> {
    let Arg { bits, negated, absolute, .. } = arg;
    Some(match number {
        Number::F32 => each(arg, F32, 1),
        Number::F64 => each(arg, F64, 1),
        // Whether it is a NaN depends on the other word, too.
        Number::F64High => arg.signed(F64, bits << 32) >> 32,
        Number::F16 | Number::F16x2 => each(arg, F16, 2),
        Number::Bf16 | Number::Bf16x2 => each(arg, BF16, 2),
        Number::F32x2 => each(arg, F32, 2),
        Number::Integer(_) | Number::Bits | Number::Predicate if absolute => return None,
        Number::Integer(32) if negated => u64::from((bits as u32).wrapping_neg()),
        Number::Integer(_) if negated => bits.wrapping_neg(),
        Number::Bits if negated => !bits,
        Number::Predicate if negated => bits ^ 1,
        Number::Integer(_) | Number::Bits | Number::Predicate => bits,
        Number::F8x4 | Number::Matrix | Number::Integers | Number::Shifted => return None,
    })
}

/// Each of some elements that lie side by side.
fn each(arg: Arg, format: Format, count: u32) -> u64 {
    let width = format.width();
    let mask = u64::MAX >> (64 - width);
    (0..count).fold(0, |all, i| all | arg.signed(format, arg.bits >> (i * width) & mask) << (i * width))
}

#[cfg(test)]
mod tests {
    use super::super::eval;
    use super::*;
    use random::Random;
    use sass::signs::number;
    use sass::{FORMS, Form, Kind, M, Mod, Role, Slot};

    const EDGES: [u64; 16] = [
        0,
        1,
        u64::MAX,
        0x8000_0000_8000_0000,
        0x7fff_ffff_7fff_ffff,
        0x7f80_0000_ff80_0000,
        0x7fc0_0001_ffc0_0001,
        0x3f80_0000_bf80_0000,
        0x8000_0001_0040_0000,
        0x7bff_fc00_3c00_bc00,
        0x7e01_fe01_8001_0001,
        0x7ff0_0000_0000_0000,
        0xfff8_0000_0000_0001,
        0x7ff8_dead_0000_0001,
        0xbff0_0000_0000_0000,
        0xff81_7f81_8000_0001,
    ];

    fn bits(random: &mut Random) -> u64 {
        if random.chance(50) { random.pick(&EDGES) } else { random.next() }
    }

    fn argument(form: &Form, index: usize, slot: &Slot, random: &mut Random) -> Arg {
        let wide = slot.words.count == 2;
        let bits = match slot.kind {
            Kind::P | Kind::V => random.next() >> 40 & 1,
            Kind::R | Kind::U if wide => bits(random),
            Kind::R | Kind::U => bits(random) & 0xffff_ffff,
            _ => bits(random) & (u64::MAX >> (64 - slot.at.width().clamp(1, 32))),
        };
        let part = form.mods.iter().find_map(|m| match m {
            Mod::Field { values, slot: Some(of), .. } if *of == index => Some(random.pick(values).0),
            _ => None,
        });
        Arg::wide(bits).part(part.filter(|p| *p != M::Undefined).unwrap_or(M::Empty))
    }

    /// An operand with signs gives what the same bits with these signs give: for every form of the table, with any
    /// modifiers, for each operand that has signs.
    #[test]
    fn signs_are_what_they_are_for_the_number() {
        let mut random = Random::new(1);
        let (mut checked, mut forms) = (0, 0);
        for form in &FORMS[..] {
            let sources: Vec<(usize, &Slot)> =
                form.slots.iter().enumerate().filter(|(_, s)| s.role == Role::Use).collect();
            let mut understood = false;
            for _ in 0..200 {
                let modifiers = form.choose_modifiers(|values| random.pick(values).0);
                let Some(modifiers) = modifiers else { continue };
                let args: Vec<Arg> =
                    sources.iter().map(|(index, slot)| argument(form, *index, slot, &mut random)).collect();
                let mut source = 0;
                for (at, (_, slot)) in sources.iter().enumerate() {
                    if matches!(slot.kind, Kind::P | Kind::V) {
                        continue;
                    }
                    let kind = number(form.op, &modifiers, source);
                    source += 1;
                    let Some(kind) = kind else { continue };
                    for (negated, absolute) in [(true, false), (false, true), (true, true)] {
                        if negated && slot.neg.is_none() || absolute && slot.abs.is_none() {
                            continue;
                        }
                        let mut with = args.clone();
                        with[at] = Arg { negated, absolute, ..args[at] };
                        let Some(bits) = signed(kind, with[at]) else { continue };
                        let mut changed = args.clone();
                        changed[at].bits = bits;
                        let (Some(expected), Some(got)) =
                            (eval(form.op, &modifiers, &changed), eval(form.op, &modifiers, &with))
                        else {
                            continue;
                        };
                        let sum = matches!(kind, Number::Integer(_));
                        let same = expected.bits() == got.bits() && (sum || expected == got);
                        assert!(
                            same,
                            "{} {modifiers:?} operand {at} {kind:?}: {with:x?} gives {got:x?}, {changed:x?} {expected:x?}",
                            form.op.name()
                        );
                        understood = true;
                        checked += 1;
                    }
                }
            }
            forms += usize::from(understood);
        }
        assert!(checked > 50_000 && forms > 200, "{checked} operands of {forms} forms");
    }
}
