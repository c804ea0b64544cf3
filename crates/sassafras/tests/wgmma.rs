//! Asynchronous products: what is said about PTX that touches registers in flight, and that main loops leave
//! accumulators where they are.

// Not every test needs all of it.
#[allow(dead_code)]
mod support;

use cubin::{Body, Object};
use std::process::Command;

/// Lines 1 to 9 of each program: the body begins in line 10.
const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u64 o, .param .u64 da, .param .u64 db, .param .u32 n) {\n\
    .reg .b64 %rd<20>; .reg .f32 %f<40>; .reg .b32 %r<40>; .reg .pred %p<8>;\n\
    ld.param.u64 %rd1,[o]; ld.param.u64 %rd2,[da]; ld.param.u64 %rd3,[db]; ld.param.u32 %r1,[n];\n\
    mov.f32 %f1,0f00000000; mov.f32 %f2,%f1; mov.f32 %f3,%f1; mov.f32 %f4,%f1;\n\
    mov.f32 %f5,%f1; mov.f32 %f6,%f1; mov.f32 %f7,%f1; mov.f32 %f8,%f1;\n\
    mov.u32 %r10,%tid.x; mov.u32 %r11,%r10; add.u32 %r12,%r10,1; add.u32 %r13,%r10,2;\n";

/// A word of the tables below as PTX; any other text is PTX itself.
fn line(word: &str) -> &str {
    match word {
        "fence" => "wgmma.fence.sync.aligned;",
        "commit" => "wgmma.commit_group.sync.aligned;",
        "wait" => "wgmma.wait_group.sync.aligned 0;",
        "wait 1" => "wgmma.wait_group.sync.aligned 1;",
        "d" => "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4},%rd2,%rd3,1,1,1,0,0;",
        "zero" => "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4},%rd2,%rd3,0,1,1,0,0;",
        "e" => "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f5,%f6,%f7,%f8},%rd2,%rd3,1,1,1,0,0;",
        "swapped" => {
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f2,%f1,%f3,%f4},%rd2,%rd3,1,1,1,0,0;"
        }
        "a" => {
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4},{%r10,%r11,%r12,%r13},%rd3,1,1,1,0;"
        }
        "to a" => {
            "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%r10,%r11,%r12,%r13},%rd2,%rd3,1,1,1,0,0;"
        }
        "read" => "st.global.f32 [%rd1+16],%f1;",
        "write" => "mov.f32 %f1,0f3f800000;",
        "load" => "ld.global.f32 %f1,[%rd1];",
        "scale" => "mul.f32 %f1,%f1,0f40000000;",
        "change a" => "add.u32 %r10,%r10,7;",
        "store" => "st.global.v4.f32 [%rd1],{%f1,%f2,%f3,%f4};",
        "store e" => "st.global.v4.f32 [%rd1+16],{%f5,%f6,%f7,%f8};",
        "L:" => "mov.u32 %r2,0; L:",
        "loop" => "add.u32 %r2,%r2,1; setp.lt.u32 %p1,%r2,%r1; @%p1 bra L;",
        ptx => ptx,
    }
}

fn program(body: &[&str], before: &str) -> String {
    let lines: Vec<&str> = body.iter().map(|word| line(word)).collect();
    HEAD.replace(".visible", &format!("{before} .visible")) + &lines.join("\n") + "\nret; }\n"
}

/// What is said about a body.
fn messages(body: &[&str], before: &str) -> Vec<String> {
    let source = program(body, before);
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{body:?}: {:?}", parsed.diagnostics);
    let target = ptx::Target::find("sm_90a").expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.verify = true;
        o.relocatable = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    assert!(output.cubin.is_some(), "{body:?}: {:?}", output.diagnostics);
    let info = |d: &ptx::Diagnostic| (d.severity, d.line) == (ptx::Severity::Info, None);
    assert!(output.diagnostics.iter().all(info), "{body:?}");
    output.diagnostics.into_iter().map(|d| d.message).collect()
}

fn arrive(line: u32) -> String {
    format!(
        "(C7519) warpgroup.arrive is injected in around line {line} by compiler to allow use of registers in GMMA in \
         function 'k'"
    )
}

fn wait(line: u32) -> String {
    format!(
        "(C7517) warpgroup.wait is injected in around line {line} by compiler to allow use of registers defined by \
         GMMA in function 'k'"
    )
}

fn serial(code: u32, why: &str) -> String {
    let what = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to";
    format!("(C{code}) {what} {why} in the function 'k'")
}

/// What ptxas says about a body.
fn messages_of_ptxas(scratch: &support::Scratch, body: &[&str], before: &str) -> Vec<String> {
    let input = scratch.write("k.ptx", program(body, before).as_bytes());
    let arguments = ["-c", "-arch=sm_90a", &input, "-o", &scratch.path("k.cubin")];
    let output = Command::new(support::tool("ptxas")).args(arguments).output().expect("ptxas runs");
    let text = String::from_utf8(output.stderr).expect("text");
    let message = |line: &str| line.strip_prefix("ptxas info    : ").expect("information").to_string();
    text.lines().map(message).collect()
}

type Case = (&'static [&'static str], &'static str, Vec<String>);

fn cases() -> Vec<Case> {
    let stage = "wgmma between start and end of the pipeline stage";
    let registers = || vec![serial(7511, "insufficient register resources for the wgmma pipeline")];
    let input = serial(7513, &format!("non wgmma instructions defining input registers of a {stage}"));
    // Two blanks before "a".
    let read = serial(7514, &format!("non wgmma instructions reading accumulator registers of  a {stage}"));
    let unknown = || vec![serial(7509, "the presence of Extern calls")];
    let divergent = serial(7520, "program dependence on compiler-inserted WG.AR in divergent path");
    let ext = ".extern .func ext;";
    vec![
        (&["fence", "d", "commit", "wait", "store"], "", vec![]),
        (&["fence", "d", "wait", "store"], "", vec![]),
        (&["fence", "d", "commit", "store"], "", vec![wait(13)]),
        (&["fence", "d", "store"], "", vec![wait(12)]),
        (&["fence", "d", "commit"], "", vec![wait(13)]),
        (&["d", "commit", "wait", "store"], "", vec![arrive(10)]),
        (&["a", "commit", "wait", "store"], "", vec![arrive(10)]),
        (&["zero", "commit", "wait", "store"], "", vec![arrive(10)]),
        (&["fence", "write", "d", "commit", "wait", "store"], "", vec![arrive(12)]),
        (&["fence", "load", "d", "commit", "wait", "store"], "", vec![arrive(12)]),
        (&["fence", "change a", "a", "commit", "wait", "store"], "", vec![]),
        (&["fence", "a", "change a", "a", "commit", "wait", "store"], "", vec![arrive(13)]),
        (&["fence", "a", "commit", "change a", "wait", "store", "st.global.u32 [%rd1],%r10;"], "", vec![]),
        (&["fence", "d", "commit", "wait", "e", "commit", "wait", "store", "store e"], "", vec![]),
        (&["fence", "d", "commit", "wait", "d", "commit", "wait", "store"], "", vec![]),
        (&["fence", "d", "commit", "wait", "scale", "d", "commit", "wait", "store"], "", vec![arrive(15)]),
        (&["fence", "d", "commit", "read", "wait", "store"], "", vec![wait(13)]),
        (&["fence", "d", "commit", "read", "d", "commit", "wait", "store"], "", vec![wait(13)]),
        (&["fence", "d", "commit", "scale", "fence", "d", "commit", "wait", "store"], "", vec![wait(13)]),
        (&["fence", "d", "commit", "scale", "d", "commit", "wait", "store"], "", vec![arrive(14), wait(13)]),
        (&["fence", "d", "commit", "write", "wait", "store"], "", vec![]),
        (&["fence", "d", "commit", "mov.f32 %f9,%f1;", "wait", "add.f32 %f1,%f1,%f9;", "store"], "", vec![]),
        (&["fence", "d", "scale", "d", "commit", "wait", "store"], "", vec![arrive(13), wait(12)]),
        (
            &["fence", "d", "load", "d", "commit", "wait", "store"],
            "",
            [vec![arrive(13)], registers()].concat(),
        ),
        (&["fence", "d", "swapped", "commit", "wait", "store"], "", registers()),
        (&["fence", "d", "commit", "e", "commit", "wait 1", "store", "wait", "store e"], "", vec![]),
        (&["L:", "fence", "d", "commit", "wait", "loop", "store"], "", vec![]),
        (&["L:", "fence", "d", "commit", "loop", "wait", "store"], "", vec![]),
        (&["L:", "fence", "d", "commit", "wait 1", "loop", "wait", "store"], "", vec![]),
        (&["L:", "scale", "fence", "d", "commit", "loop", "wait", "store"], "", vec![wait(11)]),
        (&["fence", "to a", "a", "commit", "wait", "store"], "", vec![input]),
        (&["fence", "d", "read", "d", "commit", "wait", "store"], "", vec![read]),
        (&["fence", "d", "commit", "call ext;", "wait", "store"], ext, unknown()),
        (&["fence", "d", "commit", "wait", "call ext;", "store"], ext, unknown()),
        (&["fence", "d", "call ext;", "commit", "wait", "store"], ext, vec![divergent]),
    ]
}

#[test]
fn products_that_touch_what_is_in_flight_are_told_of() {
    for (body, before, expected) in cases() {
        assert_eq!(messages(body, before), expected, "{body:?}");
    }
}

/// The table above is what ptxas 13.0.88 says.
#[test]
fn ptxas_says_the_same() {
    let scratch = support::Scratch::new("wgmma");
    for (body, before, expected) in cases() {
        assert_eq!(messages_of_ptxas(&scratch, body, before), expected, "{body:?}");
    }
}

/// The instructions of the first kernel of a file.
fn code(source: &str) -> Vec<sass::Inst> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let target = ptx::Target::find("sm_90a").expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.verify = true;
    });
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    assert!(output.diagnostics.is_empty(), "{:?}", output.diagnostics);
    let object = Object::read(&output.cubin.expect("a cubin")).expect("our own cubin");
    let name = source.split(".entry ").nth(1).and_then(|s| s.split('(').next()).expect("a kernel");
    let (_, section) = object.section(&format!(".text.{name}")).expect("its code");
    let Body::Bytes(bytes) = &section.body else { panic!("no bytes") };
    let isa = sass::Isa::of_sm(90).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    bytes.chunks(16).map(|w| sass::decode(isa, word(w))).collect()
}

fn is_product(inst: &sass::Inst) -> bool {
    inst.form().op == sass::Op::HGMMA
}

/// Attention has all there is: an accumulator that is scaled in each turn, one that begins anew, and fragments of A in
/// registers that are read while the next turn has begun.
#[test]
fn the_main_loop_of_attention_moves_no_operand_of_a_product() {
    let kernels = [
        include_str!("regressions/attention_64.ptx"),
        include_str!("regressions/attention_128_eight_warps.ptx"),
    ];
    for code in kernels.map(code) {
        let first = code.iter().position(is_product).expect("a product");
        let last = code.iter().rposition(is_product).expect("a product");
        let used =
            |inst: &sass::Inst| inst.registers().filter(|r| r.file == sass::Kind::R).collect::<Vec<_>>();
        let operands: Vec<_> = code[first..=last].iter().filter(|i| is_product(i)).flat_map(used).collect();
        let end = |r: &sass::Access| u16::from(r.first) + r.count;
        let meets =
            |a: &sass::Access, b: &sass::Access| u16::from(a.first) < end(b) && u16::from(b.first) < end(a);
        let touches = |inst: &sass::Inst| used(inst).iter().any(|r| operands.iter().any(|o| meets(r, o)));
        for inst in &code[first..=last] {
            let op = inst.form().op;
            assert!(!(op == sass::Op::MOV && used(inst).len() == 2 && touches(inst)), "{inst}");
            assert!(!matches!(op, sass::Op::LDL | sass::Op::STL), "{inst}");
        }
        let arrivals = code.iter().filter(|i| i.to_string().starts_with("WARPGROUP.ARRIVE")).count();
        assert_eq!(arrivals, 2, "one for each group of products");
    }
}

/// The main loop of attention: products, then powers, by which the accumulators are scaled, then products again.
fn end_of_attention_loop() -> (Vec<sass::Inst>, [usize; 3]) {
    let code = code(include_str!("regressions/attention_128_eight_warps.ptx"));
    let last = code.iter().rposition(is_product).expect("a product");
    let power = |inst: &sass::Inst| inst.form().op == sass::Op::MUFU;
    let power = code[..last].iter().rposition(power).expect("a power");
    let first = power + code[power..].iter().position(is_product).expect("a product");
    (code, [power, first, last])
}

/// What many need of one power is done while the others are computed: behind the last one, hardly anything keeps the
/// tensor cores waiting.
#[test]
fn accumulators_are_scaled_while_powers_come() {
    let (code, [power, first, _]) = end_of_attention_loop();
    let scales = |inst: &&sass::Inst| inst.form().op == sass::Op::FMUL;
    assert_eq!(code[power..first].iter().find(scales).map(|i| i.to_string()), None);
}

/// Addresses of the next copies are computed while a product waits for the one before.
#[test]
fn products_have_other_work_between_them() {
    let (code, [_, first, last]) = end_of_attention_loop();
    let computes = |inst: &&sass::Inst| matches!(inst.form().op, sass::Op::IADD3 | sass::Op::IMAD);
    assert!(code[first..last].iter().filter(computes).count() > 4);
}

/// Scores are multiplied with a parameter of the kernel: it takes no general register.
#[test]
fn a_factor_that_stays_the_same_is_uniform() {
    let (code, [_, first, _]) = end_of_attention_loop();
    let product = code.iter().position(is_product).expect("a product");
    let sums = code[product..first].iter().filter(|i| i.form().op == sass::Op::FFMA);
    let uniform = |inst: &&sass::Inst| inst.registers().any(|r| r.file == sass::Kind::U);
    assert_eq!(
        sums.filter(uniform).count(),
        32,
        "a row of 64 columns has 16 in each thread, and there are two"
    );
}

/// The machine takes the upper half of a quad of uniform registers for the descriptor of B.
#[test]
fn descriptors_are_in_quads() {
    let code = code(include_str!("regressions/attention_64.ptx"));
    for inst in code.iter().filter(|inst| is_product(inst)) {
        let descriptors: Vec<_> = inst.registers().filter(|r| r.file == sass::Kind::U).collect();
        assert!(
            descriptors.iter().all(|d| d.first % 4 == 0 && d.count == 4) && descriptors.len() == 1,
            "{inst}"
        );
    }
}

/// The stage of a loop is a counter that starts over; the descriptors are computed of it in uniform registers.
#[test]
fn a_loop_carries_what_its_descriptors_need() {
    let code = code(include_str!("kernels/zones.ptx"));
    let product = code.iter().position(|i| i.form().op == sass::Op::IGMMA).expect("a product");
    // Nothing at all, if what the loop reads is computed in uniform registers, too.
    let brought = code.iter().rposition(|i| i.form().op == sass::Op::R2UR).unwrap_or(0);
    let counts = |inst: &sass::Inst| inst.form().op == sass::Op::USEL;
    assert!(code[brought..product].iter().any(counts), "the last word is brought over before the loop");
    assert!(!code[brought..].iter().any(|i| i.form().op == sass::Op::SEL), "nobody else needs the stage");
}
