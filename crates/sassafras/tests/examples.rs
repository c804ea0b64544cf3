//! The examples, from PTX to a cubin that NVIDIA's tools read.

#[allow(dead_code)] // Each test file uses a part of it.
mod support;

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

/// What is not done must be refused: dropping it would give wrong code. Pragmas of the module may change how calls work.
#[test]
fn what_is_missing_is_refused_by_name() {
    let module = |pragma: &str| {
        compile(&format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.pragma {pragma};\n.entry k() {{ ret; }}\n"
        ))
    };
    assert!(module("\"nounroll\"").cubin.is_some());
    let output = module("\"nounroll\", \"abi_param_reg all\"");
    assert!(output.cubin.is_none());
    let [diagnostic] = &output.diagnostics[..] else { panic!("{:?}", output.diagnostics) };
    assert_eq!(diagnostic.message, "Pragma 'abi_param_reg all' not supported");
}
