//! The language as a whole: text in, bytes out. Expected values come from plain Rust.

use super::*;

const SAXPY: &str = include_str!("../../../../examples/saxpy.ptx");
const REDUCE: &str = include_str!("../../../../examples/reduce.ptx");
const COLLATZ: &str = include_str!("../../../../examples/collatz.ptx");

fn no_object(_: Object, _: u64) -> Result<Vec<u8>, String> {
    Err("there is no map and no image here".into())
}

/// The only run of a file.
fn single(text: &str) -> Run {
    let mut runs = parse(text).unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn scalar(run: &Run, name: &str) -> u64 {
    match run.args.iter().find(|arg| arg.name == name).unwrap().contents {
        Contents::Scalar(value) => value,
        _ => panic!("{name} is not a scalar"),
    }
}

/// A buffer's elements before and after.
fn buffer<T>(run: &Run, name: &str, element: fn(u64) -> T) -> (Vec<T>, Vec<T>) {
    let arg = run.args.iter().find(|arg| arg.name == name).unwrap();
    let Contents::Buffer { before, after } = &arg.contents else { panic!("{name} is a scalar") };
    let read = |bytes: &[u8]| {
        bytes.chunks_exact(arg.ty.size()).map(|bytes| element(arg.ty.load(bytes))).collect::<Vec<T>>()
    };
    (read(before), read(after.as_ref().unwrap_or(before)))
}

fn words(run: &Run, name: &str) -> (Vec<u32>, Vec<u32>) {
    buffer(run, name, |value| value as u32)
}

fn floats(run: &Run, name: &str) -> (Vec<f32>, Vec<f32>) {
    buffer(run, name, |value| f32::from_bits(value as u32))
}

/// What `expression` gives for the elements of a buffer of `ty`, with a few arguments to use.
fn values(ty: &str, count: usize, expression: &str) -> Vec<u64> {
    let text = format!(
        "// run k grid=(4) block=(64) args: n:u32=7 d:s32=-2 f:f32=1.5 w:u32[4]=[3, 0xffffffff, 5, 9] \
         g:f32[2]=[0.5, -4.0] out:{ty}[{count}]=0\n// expect out[i] = {expression}"
    );
    buffer(&single(&text), "out", |value| value).1
}

fn value(ty: &str, expression: &str) -> u64 {
    values(ty, 1, expression)[0]
}

fn value_error(ty: &str, expression: &str) -> String {
    let line = format!(
        "// run k grid=(1) block=(1) args: w:u32[4]=i out:{ty}[1]=0\n// expect out[i] = {expression}"
    );
    error(&line).trim_end_matches(" (for the run of line 1)").trim_start_matches("line 2: ").to_string()
}

#[test]
fn a_run_line_in_full() {
    let text = "
        // run saxpy$1 grid=(5,2) block=(16,4,2) shared=1024 args: \\
        //     n:u32=3 a:f32=-2.5 x:f32[n]=i b:u8=0x1ff out:s16[2*n-1]=[1,-2,3,-4,5]
        // expect out[i] = -out[i]";
    let run = single(text);
    assert_eq!((run.line, run.kernel.as_str()), (2, "saxpy$1"));
    assert_eq!((run.grid, run.block, run.shared), ([5, 2, 1], [16, 4, 2], 1024));
    assert_eq!(
        (scalar(&run, "n"), scalar(&run, "a") as u32, scalar(&run, "b")),
        (3, (-2.5f32).to_bits(), 0xff)
    );
    assert_eq!(floats(&run, "x").0, [0.0, 1.0, 2.0]);
    let (before, after) = buffer(&run, "out", |value| value as i64);
    assert_eq!((before, after), (vec![1, -2, 3, -4, 5], vec![-1, 2, -3, 4, -5]));
}

#[test]
fn parameters_are_aligned_to_their_size() {
    let text = "// run k grid=(1) block=(1) args: a:u8=1 b:u32=2 c:u16=3 p:f32[1]=0 d:u8=4 q:u8[2]=0 e:u16=5
                // expect p = [1]";
    let bytes = single(text).parameters(&[0x1122_3344_5566_7788, 9], no_object).unwrap();
    let expected = [
        1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, // a, b, c
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // p
        4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0, // d, q, e
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn expectations_apply_to_the_runs_right_above() {
    let text = "// run a grid=(1) block=(1) args: x:u32[2]=1
                // run b grid=(1) block=(1) args: x:u32[3]=2 y:u32[1]=0
                // expect x[i] = x[i] + 1
                // run c grid=(1) block=(1) args: x:u32[1]=7 y:u32[1]=8
                // expect y[i] = x[i]
                // expect x = [0]";
    let runs = parse(text).unwrap();
    let after = |run: &Run, name| words(run, name).1;
    assert_eq!((after(&runs[0], "x"), after(&runs[1], "x")), (vec![2, 2], vec![3, 3, 3]));
    // Expectations are about old values, in whatever order they are.
    assert_eq!((after(&runs[2], "x"), after(&runs[2], "y")), (vec![0], vec![7]));
}

#[test]
fn prose_and_code_are_not_run_lines() {
    let text = "// runs fast\n// we expect much\nmov.u32 %r1, 0; // run k\n// run\n//\n";
    assert_eq!(parse(text), Ok(vec![]));
}

#[test]
fn operators_bind_as_in_rust() {
    assert_eq!(value("s32", "1 + 2 * 3 - 4 / 2"), 5);
    assert_eq!(value("s32", "20 - 5 - 3"), 12);
    assert_eq!(value("s32", "1 << 2 + 1"), 8);
    assert_eq!(value("s32", "6 & 3 == 2"), 1);
    assert_eq!(value("s32", "1 | 6 ^ 2 & 3"), 1 | (6 ^ (2 & 3)));
    assert_eq!(value("s32", "-(1 + 2) * 3") as i64, -9);
    assert_eq!(value("u32", "~w[0]"), 0xffff_fffc);
}

#[test]
fn arithmetic_is_in_the_type_of_the_operands() {
    assert_eq!(value("u32", "w[1] + 2"), 1);
    assert_eq!(value("u32", "w[1] * w[1]"), 1);
    assert_eq!(value("u32", "w[1] >> 31"), 1);
    assert_eq!(value("s32", "d >> 1") as i64, -1);
    assert_eq!(value("s32", "d / 2 * 3") as i64, -3);
    assert_eq!(value("u64", "u64(w[1]) + 2"), 0x1_0000_0001);
    assert_eq!(value("f32", "g[0] / 3.0") as u32, (0.5f32 / 3.0).to_bits());
    assert_eq!(value("f32", "fma(f, 0.1, g[1])") as u32, 1.5f32.mul_add(0.1, -4.0).to_bits());
    assert_eq!(value("f64", "0.1 + 0.2"), (0.1f64 + 0.2).to_bits());
    assert_eq!(value("f32", "f32(w[1])") as u32, (u32::MAX as f32).to_bits());
    assert_eq!(value("u32", "u32(g[1])"), 0);
    assert_eq!(value("s32", "s32(g[1] * f)") as i64, -6);
}

#[test]
fn indices_and_literals_are_integers_until_they_meet_a_type() {
    assert_eq!(values("u32", 5, "i * i + n"), [7, 8, 11, 16, 23]);
    assert_eq!(values("u32", 3, "w[3 - i]"), [9, 5, 0xffff_ffff]);
    assert_eq!(values("s32", 3, "i / 2 - 1"), [-1i64 as u64, -1i64 as u64, 0]);
    let halves: Vec<f32> =
        values("f32", 4, "i / 2 + 0.5").iter().map(|&bits| f32::from_bits(bits as u32)).collect();
    assert_eq!(halves, [0.5, 0.5, 1.5, 1.5]);
    assert_eq!(value("u64", "0xffffffffffffffff"), u64::MAX);
    assert_eq!(value("u32", "nctaid * ntid"), 256);
}

#[test]
fn conditions_choose_and_count_as_numbers() {
    assert_eq!(values("u32", 4, "if(w[i] > n, w[i], 0)"), [0, 0xffff_ffff, 0, 9]);
    assert_eq!(values("u32", 4, "(w[i] > 4) + (w[i] < 9)"), [1, 1, 2, 1]);
    assert_eq!(value("u32", "d < 0"), 1);
    assert_eq!(value("u32", "0f7FC00000 == 0f7FC00000"), 0);
    // The side that is not chosen is not computed.
    assert_eq!(values("u32", 6, "if(i < 4, w[i], 1)"), [3, 0xffff_ffff, 5, 9, 1, 1]);
}

#[test]
fn sums_and_counts() {
    assert_eq!(value("u32", "sum(j, 0, 4, w[j])"), 3 - 1 + 5 + 9);
    assert_eq!(values("u32", 3, "sum(j, i, 3, sum(k, 0, j, 10 * j + k))"), [10 + 20 + 21, 10 + 41, 41]);
    assert_eq!(value("u32", "sum(j, 3, 3, w[99])"), 0);
    assert_eq!(value("u32", "count(v, u32(27), v > 1, if(v & 1 == 0, v / 2, 3 * v + 1))"), 111);
    assert_eq!(value("u32", "count(v, w[0], v != 0, v - 1)"), 3);
}

#[test]
fn random_inputs_depend_on_seed_and_index_alone() {
    let text = "// run k grid=(1) block=(1) args: a:u32[5]=random(1) b:u32[3]=random(1) c:u32[5]=random(2) \
                one:u32=random(1) d:f32[5]=random(1)*2 e:s32[5]=random(3,-2,2)
                // expect a[i] = random(1)";
    let run = single(text);
    let a = words(&run, "a");
    assert_eq!(a.0, a.1);
    assert_eq!(words(&run, "b").0, a.0[..3]);
    assert_ne!(words(&run, "c").0, a.0);
    assert_eq!(scalar(&run, "one"), a.0[0].into());
    assert!(floats(&run, "d").0.iter().all(|value| (-2.0..2.0).contains(value)));
    assert!(buffer(&run, "e", |value| value as i64).0.iter().all(|value| (-2..2).contains(value)));
}

#[test]
fn check_names_the_first_wrong_element() {
    let run = single(
        "// run k grid=(1) block=(1) args: x:u32[2]=5 y:f32[3]=0\n// expect y = [1.0, -0.0, 0f7FC00000]",
    );
    let bytes = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (same, right) = (bytes(&[5, 5]), bytes(&[0x3f80_0000, 0x8000_0000, 0x7fff_ffff]));
    assert_eq!(run.check(&[same.clone(), right.clone()]), Ok(()));

    let wrong = run.check(&[same.clone(), bytes(&[0x3f80_0000, 0, 0x7f80_0000])]).unwrap_err();
    let said = "y[1] is 0.0 (0f00000000), expected -0.0 (0f80000000); 2 of 3 elements are wrong";
    assert_eq!(wrong.to_string(), said);

    let touched = run.check(&[bytes(&[5, 6]), right.clone()]).unwrap_err();
    assert_eq!(touched.to_string(), "x[1] is 6 (0x6), expected 5 (0x5); 1 of 2 elements are wrong");

    let short = run.check(&[same]).unwrap_err();
    assert_eq!((short.index, short.got.as_str(), short.wrong), (0, "missing", 3));
}

#[test]
fn mistakes_in_run_lines_are_told() {
    let cases = [
        ("// run k", "line 1: `grid=` is missing at the end"),
        ("// run k gird=(1)", "line 1: `grid=` is missing before `gird`"),
        ("// run k grid=(1) block=(0)", "line 1: `block` has a size of 0"),
        ("// run k grid=(1,1,1,1) block=(1)", "line 1: `)` is missing before `,`"),
        ("// run k grid=(1) block=(1) args: x:u33=1", "line 1: `u33` is no type"),
        ("// run k grid=(1) block=(1) args: x:u32=1 x:u32=1", "line 1: two arguments are called `x`"),
        (
            "// run k grid=(1) block=(1) args: x:u32=1.5",
            "line 1: this is a decimal number, not u32; convert it, as in u32(…)",
        ),
        ("// run k grid=(1) block=(1) args: x:u32=i", "line 1: there is no `i` here"),
        ("// run k grid=(1) block=(1) args: x:u32[2]=[1]", "line 1: 1 values for 2 elements"),
        ("// run k grid=(1) block=(1) args: x:u32[1<<21]=0", "line 1: a buffer has 0 to 1048576 elements"),
        ("// run k grid=(1) block=(1) args: x:u32[0-1]=0", "line 1: a buffer has 0 to 1048576 elements"),
        ("// run k grid=(1) block=(1) extra", "line 1: the end of the line is missing before `extra`"),
        ("//\n// run k grid=(1) block=(1)", "line 2: nothing is expected of this run"),
        ("// expect x[i] = 1", "line 1: no run line before this one"),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message, "for {text}");
    }
}

#[test]
fn mistakes_in_expressions_are_told() {
    let cases = [
        ("w[4]", "for i = 0: w[4] is outside of the buffer's 4 elements"),
        ("w[i-1]", "for i = 0: w[-1] is outside of the buffer's 4 elements"),
        ("w", "`w` is a buffer: name an element, as in w[i]"),
        ("w[0.5]", "this is a decimal number, not an integer"),
        ("1 / w[0]", "for i = 0: a division by zero"),
        ("w[0] + 1.5", "u32 and a decimal number do not go together; convert one"),
        ("w[0] + f32(1)", "u32 and f32 do not go together; convert one"),
        ("u32(1.5 % 2.0)", "bits and remainders are of integers, but this is a decimal number"),
        ("nothing", "there is no `nothing` here"),
        ("sin(1)", "there is no function `sin`"),
        ("count(v, 1, v > 0, v)", "`v` has no type; give it one, as in u32(27)"),
        ("random(1, 5, 5)", "for i = 0: there is no number from 5 up to but not including 5"),
        ("1 +", "a value is missing at the end"),
        ("(1", "`)` is missing at the end"),
        ("1 2", "the end of the line is missing before `2`"),
    ];
    for (expression, message) in cases {
        assert_eq!(value_error("u32", expression), message, "for {expression}");
    }
}

#[test]
fn what_can_be_expected_is_told() {
    let run = "// run k grid=(1) block=(1) args: n:u32=1 x:u32[1]=1\n";
    let cases = [
        ("// expect y[i] = 1", "there is no argument `y`"),
        ("// expect n = [1]", "`n` is no buffer: nothing can be expected of it"),
        ("// expect x[j] = 1", "the index of an expectation is `i`, as in x[i]"),
        ("// expect x[i] = 1\n// expect x[i] = 1", "`x` has an expectation already"),
    ];
    for (expect, message) in cases {
        let said = error(&format!("{run}{expect}"));
        assert!(said.contains(&format!(": {message} (for the run of line 1)")), "{said}");
    }
}

#[test]
fn no_expression_takes_for_ever_or_overflows_the_stack() {
    assert!(value_error("u32", "count(v, w[0], v == 0, v)").contains("too many steps"));
    assert!(value_error("u32", "sum(j, 0, 1 << 60, 1)").contains("too many steps"));
    for text in ["(".repeat(100_000), "-".repeat(100_000), "1+".repeat(100_000), "w[".repeat(100_000)] {
        assert_eq!(value_error("u32", &text), "the expression is too long");
    }
}

/// Every line with one character changed is read or refused; none panics.
#[test]
fn no_text_makes_the_reader_panic() {
    let run = "// run k$ grid=(2,1) block=(32) shared=4 args: n:u32=3 f:f32[n]=[1.5, 0f3F800000, -2] \
               x:s16[4]=random(1, -5, 5)";
    let expect = "// expect x[i] = if(i % 2 != 0, min(x[i], 3) << 1, \
                  sum(j, 0, n, count(v, s16(j), v > 0, v - 1)) & ~7)";
    let text = format!("{run}\n{expect}");
    assert!(parse(&text).is_ok());
    let mut refused = 0;
    for at in 0..text.len() {
        for change in ["", " ", "%", "(", "[", "]", "-", "9", "e", "\\", "\n", "é", "n"] {
            let changed = format!("{}{change}{}", &text[..at], &text[at + 1..]);
            refused += usize::from(parse(&changed).is_err());
        }
    }
    assert!(refused > 1000);
}

#[test]
fn saxpy_expects_what_rust_computes() {
    for run in parse(SAXPY).unwrap() {
        let (n, a) = (scalar(&run, "n") as usize, f32::from_bits(scalar(&run, "a") as u32));
        let (x, (y, expected)) = (floats(&run, "x").0, floats(&run, "y"));
        for (i, expected) in expected.iter().enumerate() {
            let want = if i < n { a.mul_add(x[i], y[i]) } else { y[i] };
            assert!(
                want.to_bits() == expected.to_bits() || (want.is_nan() && expected.is_nan()),
                "line {}",
                run.line
            );
        }
    }
}

#[test]
fn reduce_expects_what_rust_computes() {
    for run in parse(REDUCE).unwrap() {
        let (threads, blocks) = (run.block[0] as usize, run.grid[0] as usize);
        if run.kernel == "reduce_u32" {
            let mut sums: Vec<u32> = words(&run, "x")
                .0
                .chunks(threads)
                .map(|part| part.iter().fold(0, |sum: u32, value| sum.wrapping_add(*value)))
                .collect();
            sums.resize(blocks, 0);
            assert_eq!(words(&run, "out").1, sums, "line {}", run.line);
        } else {
            // Backwards, to see that the order does not matter.
            let sums: Vec<f32> =
                floats(&run, "x").0.chunks(threads).map(|part| part.iter().rev().sum::<f32>()).collect();
            assert_eq!(floats(&run, "out").1, sums, "line {}", run.line);
        }
    }
}

#[test]
fn collatz_expects_what_rust_computes() {
    fn steps(mut value: u32) -> u32 {
        let mut steps = 0;
        while value > 1 {
            value = if value.is_multiple_of(2) { value / 2 } else { value.wrapping_mul(3).wrapping_add(1) };
            steps += 1;
        }
        steps
    }
    for run in parse(COLLATZ).unwrap() {
        let (n, x) = (scalar(&run, "n") as usize, words(&run, "x").0);
        let (name, per_element): (_, fn(u32) -> u32) = match run.kernel.as_str() {
            "collatz" => ("steps", steps),
            _ => ("total", |value| (0..value & 15).map(|j| steps(value + j)).sum()),
        };
        let (before, after) = words(&run, name);
        let want = |i: usize| if i < n { per_element(x[i]) } else { before[i] };
        assert_eq!(after, (0..x.len()).map(want).collect::<Vec<u32>>(), "line {}", run.line);
    }
}

#[test]
fn the_examples_cover_the_shapes_that_matter() {
    for text in [SAXPY, REDUCE, COLLATZ] {
        let runs = parse(text).unwrap();
        for block in [32, 96, 256, 1024] {
            assert!(runs.iter().any(|run| run.block == [block, 1, 1]), "no block of {block}");
        }
        assert!(runs.iter().any(|run| scalar(run, "n") == 1));
        assert!(runs.iter().any(|run| !scalar(run, "n").is_multiple_of(32) && run.grid[0] > 1));
        // Nothing is launched with fewer threads than elements.
        assert!(runs.iter().all(|run| u64::from(run.grid[0] * run.block[0]) >= scalar(run, "n")));
    }
}

#[test]
fn maps_refer_to_memory() {
    let text = "k grid=(1) block=(32) memory: x:u16[64*40]=i \
        args: n:u32=3 m:map(x, f16, (64, 40), box=(32, 8), swizzle=64, interleave=16, fill=nan) y:u32[4]=0";
    let run = launch(text).unwrap();
    let Contents::Map(map) = &run.args[2].contents else { panic!("{:?}", run.args) };
    assert_eq!((map.buffer, map.element, map.fills_nan), (0, "f16", true));
    assert_eq!((map.swizzle, map.interleave), (64, 16));
    assert_eq!((&map.sizes[..], &map.strides[..], &map.boxes[..]), (&[64, 40][..], &[128][..], &[32, 8][..]));
    let make = |object: Object, address: u64| -> Result<Vec<u8>, String> {
        let Object::Map(map) = object else { return Err("an image".into()) };
        assert_eq!((map.steps.len(), address), (2, 0x1000));
        Ok(vec![7; MAP_BYTES])
    };
    let bytes = run.parameters(&[0x1000, 0x2000], make).unwrap();
    // The memory has no parameter of its own.
    assert_eq!((&bytes[..4], bytes[64], bytes[191], bytes.len()), (&[3, 0, 0, 0][..], 7, 7, 200));
    assert_eq!(bytes[192..], 0x2000u64.to_le_bytes());
    assert!(launch("k grid=(1) block=(1) args: m:map(x, f16, (1), box=(1))").is_err());
    let axes = "k grid=(1) block=(1) args: x:u16[4]=0 m:map(x, f16, (2, 2), box=(1))";
    assert!(launch(axes).unwrap_err().message.contains("2 axes"));
}

#[test]
fn multicast_addresses_refer_to_memory() {
    let run = launch("k grid=(1) block=(1) args: x:u32[4]=i m:multicast(x)").unwrap();
    assert_eq!(run.args[1].contents, Contents::Multicast(0));
    let make = |object: Object, address: u64| -> Result<Vec<u8>, String> {
        assert!(matches!(object, Object::Multicast));
        Ok((address + 1).to_le_bytes().to_vec())
    };
    let bytes = run.parameters(&[0x1000], make).unwrap();
    assert_eq!(bytes, [0x1000u64.to_le_bytes(), 0x1001u64.to_le_bytes()].concat());
    assert!(launch("k grid=(1) block=(1) args: m:multicast(x)").is_err());
}

#[test]
fn images_have_faces_and_levels() {
    let run = launch(
        "k grid=(1) block=(1) args: x:u8[42]=i t:image(x, u8, (2, 2, 6), cube, levels=2, linear_levels)",
    )
    .unwrap();
    let Contents::Image(image) = &run.args[1].contents else { panic!("{:?}", run.args) };
    assert!(image.cube && image.linear_levels && image.levels == 2);
}

#[test]
fn images_refer_to_memory() {
    let text = "k grid=(1) block=(32) args: x:u8[96]=i n:u32=3 \
        t:image(x, u8x4, (4, 3, 2), layered, wrap, normalised, linear, integers)";
    let run = launch(text).unwrap();
    let Contents::Image(image) = &run.args[2].contents else { panic!("{:?}", run.args) };
    assert_eq!((image.buffer, image.channel, image.channels, image.beyond), (0, "u8", 4, "wrap"));
    assert_eq!((&image.sizes[..], image.layered), (&[4, 3, 2][..], true));
    assert!(image.normalised && image.linear && image.integers);
    assert!(!image.cube && !image.linear_levels && image.levels == 1);
    let make = |object: Object, address: u64| -> Result<Vec<u8>, String> {
        assert!(matches!(object, Object::Image(_)) && address == 0x1000);
        Ok(vec![7; 8])
    };
    let bytes = run.parameters(&[0x1000], make).unwrap();
    assert_eq!((bytes[8], bytes[16], bytes.len()), (3, 7, 24));
    for (wrong, message) in [
        ("x:u8[4]=0 t:image(x, u8x3, (1))", "`u8x3` is no type of texels"),
        ("x:u8[4]=0 t:image(x, f64, (1))", "`f64` is no type of texels"),
        ("x:u8[4]=0 t:image(x, u8, (1,1,1,1))", "at most 3 axes"),
        ("x:u8[4]=0 t:image(x, u8, (4), round)", "no image is `round`"),
        ("x:u8[4]=0 t:image(x, u8, (4), levels)", "`=` is missing"),
        ("t:image(x, u8, (4))", "no buffer `x`"),
    ] {
        let error = launch(&format!("k grid=(1) block=(1) args: {wrong}")).unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
}
