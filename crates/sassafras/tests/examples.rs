//! The examples, from PTX to a cubin that NVIDIA's tools read.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

use ptx::diag::Severity;
use std::path::Path;

fn compile(source: &str) -> sassafras::Output {
    let parsed = ptx::parse(source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let options = sassafras::Options::new(ptx::Target::find("sm_90").expect("a target")).with(|o| {
        o.contract = false;
        o.command_line = "-arch sm_90 ".into();
        o.verify = true;
    });
    sassafras::compile_module(&parsed.module.expect("a module"), &options)
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

/// What ptxas says of the numbers of `.abi_preserve` and `.abi_preserve_control`, in an object and elsewhere.
#[test]
fn preserved_registers_are_checked() {
    let aborted = "Ptx assembly aborted due to errors".to_string();
    let said = |body: &str, registers: Option<u32>, relocatable: bool| {
        let source = format!(".version 9.0\n.target sm_90\n.address_size 64\n{body}\n");
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.expect("a module");
        let mut options = sassafras::Options::new(module.target).with(|o| {
            o.relocatable = relocatable;
        });
        options.launch.max_registers = registers;
        let output = sassafras::compile_module(&module, &options);
        let text = |d: &ptx::diag::Diagnostic| match d.line {
            Some(line) => format!("{line}: {}", d.message),
            None => d.message.clone(),
        };
        let all: Vec<String> = output.diagnostics.iter().map(text).collect();
        assert_eq!(all.contains(&aborted), output.cubin.is_none(), "{body}: {all:?}");
        all.into_iter().filter(|text| *text != aborted).collect::<Vec<_>>().join("; ")
    };
    let f = |directives: &str| format!(".visible .func f() {directives} {{ ret; }}");
    let scratch = |r: u32| {
        format!(
            "Function 'f' specifies register R{r} as scratch register which is used as return address register"
        )
    };
    let scratch = [14, 15].map(scratch).join("; ");
    for relocatable in [true, false] {
        let said = |body: &str| said(body, None, relocatable);
        assert_eq!(said(&f(".abi_preserve 237 .abi_preserve_control 11")), "");
        assert_eq!(said(&f(".abi_preserve 1")), scratch);
        assert_eq!(said(&f(".abi_preserve 240")), "retaddr_reg 254 is invalid for sm_90");
        assert_eq!(said(&f("\n.abi_preserve\n300")), "6: .abi_preserve 300 is invalid for sm_90");
        assert_eq!(said(&f(".abi_preserve_control 12")), "4: .abi_preserve_control 12 is invalid for sm_90");
        let pragma = "4: Pragma 'abi_param_reg 16' specified multiple times in function 'f'";
        let beside = ".visible .func f() .abi_preserve 8 { .pragma \"abi_param_reg 16\"; ret; }";
        assert_eq!(said(beside), pragma);
        let eleven = (0..11).map(|n| format!(".param .b32 p{n}")).collect::<Vec<_>>().join(", ");
        let overlap = "Parameter registers from R4 to R14 overlap with return address register R14 to R15 for function 'f'";
        let many = format!(".visible .func f({eleven}) .abi_preserve 0 {{ ret; }}");
        assert_eq!(said(&many), format!("{overlap}; {scratch}"));
    }
    assert_eq!(
        said(&f(".abi_preserve 238"), None, true),
        "(C7002) Return Address (252) should be less than 253"
    );
    let of_prototype = ".visible .entry k(.param .b64 p) { .reg .b64 %p; ld.param.b64 %p, [p];\n\
                        P: .callprototype _ () .abi_preserve 250; call %p, P; ret; }";
    assert_eq!(said(of_prototype, None, true), "(C7002) Return Address (264) should be less than 253");
    assert_eq!(said(&f(".abi_preserve 15"), Some(32), true), "");
    assert_eq!(
        said(&f(".abi_preserve 16"), Some(32), true),
        "(C7002) Return Address (30) should be less than 30"
    );
    let restricted = "Cannot specify R32-R33 as return address registers since function 'f' is restricted to use maximum of 32 registers";
    assert_eq!(said(&f(".abi_preserve 18"), Some(32), true), restricted);
}

/// Declarations that differ, with the line where the second one ends.
#[test]
fn preserving_declarations_agree() {
    let counts = |one: &str, other: &str| {
        let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
        let source = format!("{head}.func f() {one};\n.func f() {other}\n{{ ret; }}\n");
        let mut counts: Vec<(String, usize)> = Vec::new();
        for diagnostic in compile(&source).diagnostics.iter().filter(|d| d.line.is_some()) {
            assert_eq!(diagnostic.line, Some(6));
            let what =
                diagnostic.message.strip_prefix("Inconsistent prototypes of 'f', ").expect("a difference");
            let what = what.trim_end_matches(" differ").trim_end_matches(" registers").to_string();
            match counts.last_mut().filter(|(last, _)| *last == what) {
                Some((_, count)) => *count += 1,
                None => counts.push((what, 1)),
            }
        }
        counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
    };
    for (one, other, expected) in [
        (".abi_preserve 8", ".abi_preserve 8", ""),
        (".abi_preserve 4", ".abi_preserve 8", "return address 1, number of scratch 1, scratch 15"),
        (".abi_preserve 4", ".abi_preserve 5", "number of scratch 1, scratch 15"),
        (".abi_preserve 250", ".abi_preserve 252", "return address 1"),
        (
            "",
            ".abi_preserve 4",
            "number of parameter 1, first parameter register 1, return address 1, number of scratch 1",
        ),
        (".abi_preserve_control 8", ".abi_preserve_control 4", "number of scratch 1, scratch 5"),
        (".abi_preserve_control 6", "", "number of scratch 1"),
    ] {
        assert_eq!(counts(one, other), expected, "{one} {other}");
    }
}
