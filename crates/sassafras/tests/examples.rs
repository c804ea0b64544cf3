//! The examples, from PTX to a cubin that NVIDIA's tools read.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use ptx::diag::Severity;
use std::path::Path;

fn compile(source: &str) -> sassafras::Output {
    let parsed = ptx::parse(source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let options = sassafras::Options {
        command_line: "-arch sm_90 ".into(),
        verify: true,
        ..sassafras::Options::new(ptx::Target::find("sm_90").expect("a target"))
    };
    sassafras::compile(source, &parsed.module.expect("a module"), &options)
}

#[test]
fn examples_compile_and_the_tools_read_them() {
    let scratch = support::Scratch::new("examples");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (name, kernels) in [
        ("saxpy", &["saxpy"][..]),
        ("reduce", &["reduce_u32", "reduce_f32"]),
        ("collatz", &["collatz", "collatz_sum"]),
    ] {
        let source = std::fs::read_to_string(folder.join(format!("{name}.ptx"))).expect("an example");
        let output = compile(&source);
        let cubin = output.cubin.unwrap_or_else(|| panic!("{name}: {:?}", output.diagnostics));
        assert_eq!(
            compile(&source).cubin.as_ref(),
            Some(&cubin),
            "{name}: the same input gives the same bytes"
        );
        let file = scratch.write(&format!("{name}.cubin"), &cubin);
        let listing = support::run("nvdisasm", &["-c", &file]);
        let elf = support::run("cuobjdump", &["-elf", &file]);
        for kernel in kernels {
            assert!(listing.contains(&format!(".text.{kernel}:")), "{name}: no {kernel} in the listing");
            assert!(elf.contains(&format!(".nv.info.{kernel}")), "{name}: no attributes of {kernel}");
        }
    }
}

/// Pragmas of the module may change how calls work: both sides must agree. The messages are ptxas's.
#[test]
fn pragmas_are_obeyed_or_refused() {
    let module = |pragma: &str, params: usize, calls: &str| {
        let numbers = || 0..params;
        let list = |of: &dyn Fn(usize) -> String| numbers().map(of).collect::<Vec<_>>().join(", ");
        let formal = list(&|n| format!(".param .b32 x{n}"));
        let store: String =
            numbers().map(|n| format!(".param .b32 a{n}; st.param.b32 [a{n}], {n};\n")).collect();
        let output = compile(&format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n{pragma}\n.func f({formal}) {{ ret; }}\n\
             .visible .entry k() {{\n{calls}\n{store}call f, ({});\nret; }}\n",
            list(&|n| format!("a{n}")),
        ));
        let said: Vec<String> = output.diagnostics.iter().map(|d| d.message.clone()).collect();
        assert_eq!(output.cubin.is_some(), output.diagnostics.iter().all(|d| d.severity < Severity::Error));
        said.join("; ")
    };
    let all = ".pragma \"abi_param_reg all\";";
    let call = ".pragma \"call_abi_param_reg all\";";
    let mismatch = "ABI mismatch when 'k' calls 'f': number of registers used for parameter passing differ";
    let short = "Pragma abi_param_reg value should be atleast 3 to fit all the parameters in registers; \
                 Ptx assembly aborted due to errors";
    let wrong = "Invalid value 'some' specified for .pragma 'abi_param_reg some'; \
                 abi_param_reg 0 is invalid for sm_90; Ptx assembly aborted due to errors";
    let high = "(C7005) With specified parameters, return address is 254 registers and exceeds specified max reg \
                (253); Ptx assembly aborted due to errors";
    let higher = "Parameter register 253 is invalid for sm_90; Ptx assembly aborted due to errors";
    let beyond = "abi_param_reg 705032704 is invalid for sm_90; Ptx assembly aborted due to errors";
    let (of_twenty, call_of_twenty) = (".pragma \"abi_param_reg 20\";", ".pragma \"call_abi_param_reg 20\";");
    for (pragma, params, calls, expected) in [
        (".pragma \"nounroll\";", 3, "", ""),
        (all, 3, call, ""),
        (of_twenty, 3, call_of_twenty, ""),
        (".pragma \"nounroll\", \"abi_param_reg 20\";", 20, call_of_twenty, ""),
        (of_twenty, 3, call, mismatch),
        // The last one before the call.
        (of_twenty, 3, ".pragma \"call_abi_param_reg 20\", \"call_abi_param_reg 21\";", mismatch),
        (all, 3, "", mismatch),
        ("", 3, call, mismatch),
        (".pragma \"abi_param_reg 2\";", 3, call, short),
        (all, 20, call, ""),
        (".pragma \"abi_param_reg 244\";", 3, ".pragma \"call_abi_param_reg 244\";", ""),
        (".pragma \"abi_param_reg 245\";", 3, "", high),
        (".pragma \"abi_param_reg 249\";", 3, "", higher),
        (".pragma \"abi_param_reg 5000000000\";", 3, "", beyond),
        (".pragma \"abi_param_reg some\";", 3, call, wrong),
        ("", 20, ".pragma \"foo\", \"nounroll\";", "Pragma 'foo' unsupported"),
        // Once for each function.
        (".pragma \"foo\";", 3, "", "Pragma 'foo' not supported; Pragma 'foo' not supported"),
    ] {
        assert_eq!(module(pragma, params, calls), expected, "{pragma} {params} {calls}");
    }
}

/// Another convention of ptxas's: only where no one else calls can it be left alone, by name or through a pointer.
#[test]
fn preserved_registers_are_refused_for_linkers() {
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let declared = ".extern .func f() .abi_preserve 8;\n.visible .entry k() { call f; ret; }";
    let pointer = ".visible .entry k(.param .b64 p) { .reg .b64 %p; ld.param.b64 %p, [p];\n\
                   P: .callprototype _ () .abi_preserve_control 2; call %p, P; ret; }";
    let defined = ".func f() .abi_preserve 8 { ret; }\n.visible .entry k() { call f; ret; }";
    for (body, directive) in
        [(declared, ".abi_preserve"), (pointer, ".abi_preserve_control"), (defined, ".abi_preserve")]
    {
        let source = format!("{head}{body}\n");
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.expect("a module");
        let defaults = sassafras::Options::new(module.target);
        let options = sassafras::Options { relocatable: true, ..defaults };
        let output = sassafras::compile(&source, &module, &options);
        let said: Vec<&str> = output.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(said, [format!("Directive '{directive}' is not supported yet")]);
        assert!(output.cubin.is_none());
    }
    assert!(compile(&format!("{head}{defined}\n")).cubin.is_some());
}
