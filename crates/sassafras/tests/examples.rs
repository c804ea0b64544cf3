//! The examples, from PTX to a cubin that NVIDIA's tools read.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder with ptxas, nvdisasm and the others.
fn tools() -> PathBuf {
    let found = std::env::var_os("SASSAFRAS_TOOLS").map(PathBuf::from).or_else(|| {
        let python = std::fs::read_dir(root().join("target/ref/lib")).ok()?.next()?.ok()?.path();
        Some(python.join("site-packages/nvidia/cu13/bin"))
    });
    found
        .filter(|f| f.join("nvdisasm").exists())
        .expect("reference tools are missing: run `cargo xtask setup`")
}

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

/// What a tool prints about a file; it must not complain.
fn ask(tool: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(tools().join(tool)).args(arguments).arg(file).output().expect("the tool runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && complaint.is_empty(), "{tool} on {}: {complaint}", file.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn examples_compile_and_the_tools_read_them() {
    for (name, kernels) in [
        ("saxpy", &["saxpy"][..]),
        ("reduce", &["reduce_u32", "reduce_f32"]),
        ("collatz", &["collatz", "collatz_sum"]),
    ] {
        let source =
            std::fs::read_to_string(root().join(format!("examples/{name}.ptx"))).expect("an example");
        let output = compile(&source);
        let cubin = output.cubin.unwrap_or_else(|| panic!("{name}: {:?}", output.diagnostics));
        assert_eq!(
            compile(&source).cubin.as_ref(),
            Some(&cubin),
            "{name}: the same input gives the same bytes"
        );
        let file = std::env::temp_dir().join(format!("sassafras-{}-{name}.cubin", std::process::id()));
        std::fs::write(&file, &cubin).expect("a place for the cubin");
        let listing = ask("nvdisasm", &["-c"], &file);
        let elf = ask("cuobjdump", &["-elf"], &file);
        std::fs::remove_file(&file).expect("the cubin is there");
        for kernel in kernels {
            assert!(listing.contains(&format!(".text.{kernel}:")), "{name}: no {kernel} in the listing");
            assert!(elf.contains(&format!(".nv.info.{kernel}")), "{name}: no attributes of {kernel}");
        }
    }
}

/// What is outside the vocabulary must be refused: dropping it would give wrong code.
#[test]
fn what_is_missing_is_refused_by_name() {
    let header = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let functions = ".visible .func f();\n.visible .func g() { ret; }\n.alias f, g;\n";
    let output = compile(&format!("{header}{functions}.entry k() {{ ret; }}\n"));
    assert!(output.cubin.is_none(), "an alias is compiled");
    let [diagnostic] = &output.diagnostics[..] else { panic!("{:?}", output.diagnostics) };
    assert!(diagnostic.message.ends_with("is not supported yet"), "{}", diagnostic.message);
}
