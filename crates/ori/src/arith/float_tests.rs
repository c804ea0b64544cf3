//! Against independent formulations: the host's arithmetic where it rounds to nearest, and the definition of
//! directed rounding with exact doubles elsewhere.

use super::*;
use random::Random;

/// Bits of a float: any, or near others in size, or special.
fn float(random: &mut Random, format: Format) -> u64 {
    let bits = random.next() & (format.sign_bit() << 1).wrapping_sub(1);
    let specials = [0, 1, format.one(), format.largest(), format.infinity(), format.nan];
    match random.next() % 8 {
        0 => specials[(random.next() % 6) as usize] | bits & format.sign_bit(),
        1 => bits & (format.sign_bit() | ((1 << format.mantissa) - 1)),
        2 | 3 => {
            let near = format.one() + ((random.next() % 16) << format.mantissa);
            bits & (format.sign_bit() | ((1 << format.mantissa) - 1)) | near
        }
        _ => bits,
    }
}

fn same32(got: u64, expected: f32, what: &str) {
    let expected = if expected.is_nan() { 0x7fff_ffff } else { expected.to_bits() };
    assert_eq!(got, u64::from(expected), "{what}");
}

#[test]
fn f32_nearest_as_the_host() {
    let mut random = Random::new(1);
    let flow = Flow::NEAREST;
    for _ in 0..300_000 {
        let [a, b, c] = [0; 3].map(|_| float(&mut random, F32));
        let [x, y, z] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        same32(add(F32, flow, a, b), x + y, &format!("{x:e} + {y:e}"));
        same32(sub(F32, flow, a, b), x - y, &format!("{x:e} - {y:e}"));
        same32(mul(F32, flow, a, b), x * y, &format!("{x:e} * {y:e}"));
        same32(fma(F32, flow, a, b, c), x.mul_add(y, z), &format!("{x:e} * {y:e} + {z:e}"));
        same32(div(F32, flow, a, b), x / y, &format!("{x:e} / {y:e}"));
        same32(sqrt(F32, flow, a), x.sqrt(), &format!("sqrt {x:e}"));
        same32(round_to_integer(F32, flow, a), x.round_ties_even(), &format!("round {x:e}"));
        let floor = Flow::rounding(Rounding::Down);
        same32(round_to_integer(F32, floor, a), x.floor(), &format!("floor {x:e}"));
    }
}

fn same64(got: u64, expected: f64, what: &str) {
    if expected.is_nan() {
        assert!(F64.is_nan(got), "{what}: {got:x}");
    } else {
        assert_eq!(got, expected.to_bits(), "{what}");
    }
}

#[test]
fn f64_nearest_as_the_host() {
    let mut random = Random::new(2);
    let flow = Flow::NEAREST;
    for _ in 0..300_000 {
        let [a, b, c] = [0; 3].map(|_| float(&mut random, F64));
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        same64(add(F64, flow, a, b), x + y, &format!("{x:e} + {y:e}"));
        same64(mul(F64, flow, a, b), x * y, &format!("{x:e} * {y:e}"));
        same64(fma(F64, flow, a, b, c), x.mul_add(y, z), &format!("{x:e} * {y:e} + {z:e}"));
        same64(div(F64, flow, a, b), x / y, &format!("{x:e} / {y:e}"));
        same64(sqrt(F64, flow, a), x.sqrt(), &format!("sqrt {x:e}"));
        same64(round_to_integer(F64, flow, a), x.round_ties_even(), &format!("round {x:e}"));
    }
}

/// The value of a finite float of at most 32 bits, exact.
fn exact(format: Format, bits: u64) -> f64 {
    let Exact { negative, exponent, significand } = Exact::decode(format, bits);
    let magnitude = significand as f64 * 2f64.powi(exponent);
    if negative { -magnitude } else { magnitude }
}

/// Is `got` what `rounding` makes of the real number `real`? By definition: no number of the format lies
/// between them on the wrong side.
fn check_directed(format: Format, rounding: Rounding, real: f64, got: u64) {
    let infinite = format.is_infinite(got);
    let value = if !infinite {
        exact(format, got)
    } else if format.is_negative(got) {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    };
    let what = || format!("{real:e} {rounding:?}: {value:e} ({got:x})");
    let step = |bits: u64, up: bool| {
        // The neighbour above or below.
        let away = up != format.is_negative(bits);
        match bits & !format.sign_bit() {
            0 if !away => (!bits & format.sign_bit()) | 1,
            _ if away => bits + 1,
            _ => bits - 1,
        }
    };
    let neighbour = |up: bool| {
        let bits = step(got, up);
        match format.is_infinite(bits) {
            true if format.is_negative(bits) => f64::NEG_INFINITY,
            true => f64::INFINITY,
            false => exact(format, bits),
        }
    };
    let down = match rounding {
        Rounding::Down => true,
        Rounding::Up => false,
        Rounding::Zero => real >= 0.0,
        _ => unreachable!("only directed roundings are checked here"),
    };
    if down {
        assert!(value <= real, "{}", what());
        assert!(infinite && !format.is_negative(got) || neighbour(true) > real, "{}", what());
    } else {
        assert!(value >= real, "{}", what());
        assert!(infinite && format.is_negative(got) || neighbour(false) < real, "{}", what());
    }
}

/// Products of f32 are exact in f64; sums of f16 and bf16 within a range are too.
#[test]
fn directed_roundings_by_definition() {
    let mut random = Random::new(3);
    let directed = [Rounding::Down, Rounding::Up, Rounding::Zero];
    for format in [F16, BF16, F32] {
        for _ in 0..100_000 {
            let [a, b] = [0; 2].map(|_| float(&mut random, format));
            if [a, b].iter().any(|x| format.is_nan(*x) || format.is_infinite(*x)) {
                continue;
            }
            let (x, y) = (exact(format, a), exact(format, b));
            for rounding in directed {
                let flow = Flow::rounding(rounding);
                let product = x * y;
                // In f64 the product of two f32 can't underflow.
                check_directed(format, rounding, product, mul(format, flow, a, b));
                let sum = x + y;
                if sum - x == y && sum - y == x {
                    check_directed(format, rounding, sum, add(format, flow, a, b));
                }
            }
        }
    }
}

/// All pairs of f16 with a set of others: in f64 sums and products are exact, and rounding an exact double
/// to nearest goes through f32 without harm only where it is exact there, so the definition is used: the
/// result's neighbours are not nearer.
#[test]
fn half_precision_all_values() {
    let mut random = Random::new(4);
    let others: Vec<u64> = (0..24).map(|_| float(&mut random, F16)).collect();
    for a in 0..=0xffffu64 {
        for &b in &others {
            if [a, b].iter().any(|x| F16.is_nan(*x) || F16.is_infinite(*x)) {
                continue;
            }
            let (x, y) = (exact(F16, a), exact(F16, b));
            for (real, got) in
                [(x + y, add(F16, Flow::NEAREST, a, b)), (x * y, mul(F16, Flow::NEAREST, a, b))]
            {
                if F16.is_infinite(got) {
                    assert!(real.abs() >= 65520.0);
                    continue;
                }
                let error = (exact(F16, got) - real).abs();
                let magnitude = got & 0x7fff;
                for other in [magnitude.saturating_sub(1), magnitude + 1] {
                    if other >= 0x7c00 {
                        assert!(real.abs() < 65520.0);
                        continue;
                    }
                    let distance = (exact(F16, other) - real.abs()).abs();
                    assert!(error <= distance, "{x} {y}: {got:x}");
                    assert!(error < distance || got & 1 == 0 || other == magnitude, "{x} {y}: {got:x}");
                }
            }
        }
    }
}

#[test]
fn signs_of_zero() {
    let (plus, minus) = (0, F32.sign_bit());
    for (rounding, zero) in [(Rounding::Nearest, plus), (Rounding::Down, minus), (Rounding::Up, plus)] {
        let flow = Flow::rounding(rounding);
        assert_eq!(add(F32, flow, plus, minus), zero);
        assert_eq!(add(F32, flow, F32.one(), F32.one() | minus), zero);
        assert_eq!(add(F32, flow, minus, minus), minus);
        assert_eq!(fma(F32, flow, F32.one(), F32.one() | minus, F32.one()), zero);
    }
    assert_eq!(mul(F32, Flow::NEAREST, minus, F32.one()), minus);
    assert_eq!(sqrt(F32, Flow::NEAREST, minus), minus);
    assert_eq!(abs(F32, Flow::NEAREST, minus), plus);
    assert_eq!(neg(F32, Flow::NEAREST, plus), minus);
}

#[test]
fn flushing_and_clamping() {
    let ftz = Flow { ftz: true, ..Flow::NEAREST };
    assert_eq!(add(F32, ftz, 0x0000_0001, 0), 0);
    assert_eq!(add(F32, ftz, 0x807f_ffff, 0x8000_0000), 0x8000_0000);
    assert_eq!(mul(F32, ftz, 0x0080_0000, 0x3f00_0000), 0);
    assert_eq!(mul(F32, ftz, 0x8080_0000, 0x3f00_0000), 0x8000_0000);
    // Below the smallest normal number when rounded to all digits, as an H200 has it.
    assert_eq!(mul(F32, Flow::NEAREST, 0x00ff_ffff, 0x3f00_0000), 0x0080_0000);
    assert_eq!(mul(F32, ftz, 0x00ff_ffff, 0x3f00_0000), 0);
    assert_eq!(mul(F32, Flow { rounding: Rounding::Up, ..ftz }, 0x0080_0000, 0x3f7f_ffff), 0);
    assert_eq!(mul(F16, ftz, 0x0800, 0x37ff), 0);
    assert_eq!(mul(F16, ftz, 0x2003, 0x1ffa), 0x0400);
    assert_eq!(mul(F16, ftz, 0x2001, 0x1fff), 0x0400);
    assert_eq!(mul(F16, ftz, 0x0800, 0x3800), 0x0400);
    let sat = Flow { clamp: Clamp::Saturate, ..Flow::NEAREST };
    assert_eq!(add(F32, sat, 0x4000_0000, 0), 0x3f80_0000);
    assert_eq!(add(F32, sat, 0xc000_0000, 0), 0);
    assert_eq!(add(F32, sat, 0x7fc0_0000, 0), 0);
    assert_eq!(add(F32, sat, 0x3e80_0000, 0), 0x3e80_0000);
    let relu = Flow { clamp: Clamp::Relu, ..Flow::NEAREST };
    assert_eq!(fma(F16, relu, 0x3c00, 0xbc00, 0), 0);
    assert_eq!(fma(F16, relu, 0x7e00, 0xbc00, 0), 0x7fff);
}

#[test]
fn not_a_number() {
    assert_eq!(add(F32, Flow::NEAREST, 0xffc0_1234, 0), 0x7fff_ffff);
    assert_eq!(mul(F16, Flow::NEAREST, 0x7c00, 0), 0x7fff);
    assert_eq!(add(F64, Flow::NEAREST, 0x7ff0_0000_0000_0001, 0), 0x7ff8_0000_0000_0001);
    assert_eq!(mul(F64, Flow::NEAREST, F64.infinity(), 0), 0xfff8_0000_0000_0000);
    // As seen on an H200.
    let [a, b, c] = [u64::MAX, 0x7ff8_0000_0000_0001, 0x7fff_ffff_7fff_ffff];
    assert_eq!(add(F64, Flow::NEAREST, a, b), b);
    assert_eq!(mul(F64, Flow::NEAREST, c, a), a);
    assert_eq!(fma(F64, Flow::NEAREST, a, b, c), b);
    assert_eq!(fma(F64, Flow::NEAREST, a, F64.one(), c), c);
    assert_eq!(sub(F64, Flow::NEAREST, F64.one(), a), a);
    assert_eq!(abs(F64, Flow::NEAREST, a), a);
}

#[test]
fn minima_and_maxima() {
    let (one, minus_two, nan) = (0x3f80_0000u64, 0xc000_0000u64, 0x7fc0_0000u64);
    let min = MinMax::default();
    let max = MinMax { max: true, ..min };
    let of = |how, a, b| min_max(F32, Flow::NEAREST, how, a, b);
    assert_eq!(of(min, one, minus_two), minus_two);
    assert_eq!(of(max, one, minus_two), one);
    assert_eq!(of(min, nan, one), one);
    assert_eq!(of(max, one, nan), one);
    assert_eq!(of(min, nan, nan), F32.nan);
    assert_eq!(of(min, 0, F32.sign_bit()), F32.sign_bit());
    assert_eq!(of(max, F32.sign_bit(), 0), 0);
    assert_eq!(of(MinMax { nan: true, ..min }, one, nan), F32.nan);
    assert_eq!(of(MinMax { xorsign: true, ..min }, one, minus_two), one | F32.sign_bit());
    assert_eq!(of(MinMax { xorsign: true, ..max }, minus_two, minus_two), 0x4000_0000);
}

#[test]
fn comparisons_as_the_host() {
    use Compare::*;
    let mut random = Random::new(5);
    for _ in 0..100_000 {
        let [a, b] = [0; 2].map(|_| float(&mut random, F32));
        let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        let holds = |compare: Compare| compare.holds(ordering(F32, false, a, b));
        let unordered = x.is_nan() || y.is_nan();
        assert_eq!(holds(Eq), x == y);
        assert_eq!(holds(Ne), x != y && !unordered);
        assert_eq!(holds(Lt), x < y);
        assert_eq!(holds(Le), x <= y);
        assert_eq!(holds(Gt), x > y);
        assert_eq!(holds(Ge), x >= y);
        assert_eq!(holds(Equ), x == y || unordered);
        assert_eq!(holds(Neu), x != y);
        assert_eq!(holds(Ltu), x < y || unordered);
        assert_eq!(holds(Leu), x <= y || unordered);
        assert_eq!(holds(Gtu), x > y || unordered);
        assert_eq!(holds(Geu), x >= y || unordered);
        assert_eq!(holds(Num), !unordered);
        assert_eq!(holds(Nan), unordered);
    }
}
