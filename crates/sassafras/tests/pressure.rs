//! Operands that hardly fit into the registers, and such that don't.

use std::fmt::Write;

fn compile(source: &str, registers: u32) -> Result<Vec<u8>, String> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let module = parsed.module.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let target = ptx::Target::find("sm_90a").expect("a target");
    let mut options = sassafras::Options::new(target).with(|o| {
        o.contract = false;
        o.verify = true;
    });
    options.launch.max_registers = Some(registers);
    let output = sassafras::compile_module(&module, &options);
    let first = output.diagnostics.first().map(|d| d.message.clone());
    output.cubin.ok_or_else(|| first.unwrap_or_default())
}

fn list(name: &str, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", all.join(", "))
}

fn kernel(registers: &str, body: &str) -> String {
    format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b64 %p;\n\
         {registers}\nld.param.u64 %p, [p];\n{body}ret;\n}}\n"
    )
}

/// Four products of doubles in a row; all operands are alive to the end.
fn doubles() -> String {
    let mut body = String::new();
    for (name, count, at) in [("a", 8, 0), ("b", 4, 64), ("c", 4, 128)] {
        for i in 0..count {
            let _ = writeln!(body, "ld.global.f64 %{name}{i}, [%p+{}];", at + 8 * i);
        }
    }
    let product = "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64";
    let (a, b, c, d) = (list("a", 8), list("b", 4), list("c", 4), list("d", 4));
    let _ = writeln!(body, "{product} {d}, {a}, {b}, {c};\n{product} {d}, {a}, {b}, {d};");
    for i in 0..4 {
        let _ = writeln!(body, "add.f64 %d{i}, %d{i}, %c{i};\nst.global.f64 [%p+{}], %d{i};", 8 * i);
    }
    for i in 0..8 {
        let _ = writeln!(body, "st.global.f64 [%p+{}], %a{i};", 256 + 8 * i);
    }
    kernel(".reg .f64 %a<8>, %b<4>, %c<4>, %d<4>;", &body)
}

#[test]
fn wide_operands_fit_where_they_can() {
    for registers in [64, 56, 48] {
        let compiled = compile(&doubles(), registers);
        assert!(compiled.is_ok(), "{registers}: {compiled:?}");
    }
}

/// ptxas says the same, with the same numbers.
#[test]
fn a_product_of_a_warpgroup_that_cannot_fit_is_refused() {
    let mut body = String::from("ld.global.u64 %x, [%p];\n");
    for i in 0..64 {
        let _ = writeln!(body, "ld.global.f32 %c{i}, [%p+{}];", 16 + 4 * i);
    }
    let product = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16";
    let _ = writeln!(body, "wgmma.fence.sync.aligned;\n{product} {}, %x, %x, 1, 1, 1, 0, 0;", list("c", 64));
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    for i in 0..64 {
        let _ = writeln!(body, "st.global.f32 [%p+{}], %c{i};", 16 + 4 * i);
    }
    let source = kernel(".reg .b64 %x;\n.reg .f32 %c<64>;", &body);
    assert!(compile(&source, 96).is_ok());
    let line = source.lines().position(|l| l.starts_with(product)).expect("the product") + 1;
    let refusal = format!(
        "(C7602) Insufficient registers (24) to compile instruction at line {line} in function k. \
         Try to compile with register target of 90 or higher."
    );
    assert_eq!(compile(&source, 24), Err(refusal));
}

/// Eight predicates decide eight products: one more than there are uniform predicates.
#[test]
fn more_uniform_predicates_than_registers() {
    let mut body = String::from("ld.global.u64 %x, [%p];\n");
    for i in 0..10 {
        let _ = writeln!(body, "ld.global.u32 %n, [%p+{}];\nsetp.ne.u32 %q{i}, %n, 0;", 4 * i);
    }
    for i in 0..8 {
        let _ = writeln!(body, "ld.global.f32 %c{i}, [%p+{}];", 64 + 4 * i);
    }
    body += "wgmma.fence.sync.aligned;\n";
    for _ in 0..2 {
        for i in 0..10 {
            let product = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16";
            let _ = writeln!(body, "{product} {}, %x, %x, %q{i}, 1, 1, 0, 0;", list("c", 8));
        }
    }
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    for i in 0..8 {
        let _ = writeln!(body, "st.global.f32 [%p+{}], %c{i};", 64 + 4 * i);
    }
    let source = kernel(".reg .b64 %x;\n.reg .b32 %n;\n.reg .f32 %c<8>;\n.reg .pred %q<10>;", &body);
    for registers in [40, 64, 255] {
        let compiled = compile(&source, registers);
        assert!(compiled.is_ok(), "{registers}: {compiled:?}");
    }
}

/// All addresses, then all values, then all stores, as Triton writes them: none of them has to wait in memory.
#[test]
fn layers_take_no_more_registers_than_their_widest_part() {
    let mut body = String::from("ld.global.u32 %x0, [%p];\nmov.b64 %a0, %p;\n");
    for i in 1..100 {
        let _ = writeln!(body, "mad.lo.u32 %x{i}, %x{}, 3, 1;", i - 1);
    }
    for i in 1..100 {
        let _ = writeln!(body, "mad.wide.u32 %a{i}, %x{i}, 4, %p;");
    }
    for i in 1..100 {
        let _ = writeln!(body, "setp.lt.u32 %q{i}, %x{i}, 7;");
    }
    for i in 1..100 {
        let _ = writeln!(body, "@%q{i} st.global.u32 [%a{i}], %x{};", i - 1);
    }
    let source = kernel(".reg .b32 %x<100>;\n.reg .b64 %a<100>;\n.reg .pred %q<100>;", &body);
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let mut options = sassafras::Options::new(ptx::Target::find("sm_90a").expect("a target"));
    options.launch.max_registers = Some(64);
    let output = sassafras::compile_module(&module, &options);
    assert!(output.cubin.is_some(), "{:?}", output.diagnostics);
    assert_eq!(output.functions[0].spill_stores, 0);
}
