//! A C program with 16 threads, linked with the static and the shared library, with and without the address sanitizer.
//! The shared library is found by the name of NVIDIA's as well.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries that Rust's own needs from the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"];

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Builds the libraries as this test was built; returns where they are. Cargo doesn't: a test can't import them.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    let profile = program.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "sassafras-capi"]).arg("--target-dir");
    cargo.arg(profile.parent().expect("target"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    run(&mut cargo);
    profile.to_path_buf()
}

fn compile(out: &Path, flags: &[&str], libraries: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"));
    run(cc.arg(root.join("tests/program.c")).arg("-o").arg(out).args(libraries));
}

#[test]
fn static_and_shared() {
    let built = libraries();
    let (archive, shared) = (built.join("libsassafras.a"), built.join("libsassafras.so"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    std::fs::create_dir_all(&folder).expect("a folder");
    // What a program asks for that was linked with NVIDIA's library.
    let alias = folder.join("libnvJitLink.so.13");
    std::fs::copy(&shared, &alias).expect("a copy");

    let text = |path: &Path| path.to_str().expect("a name").to_string();
    let (archive, alias) = (text(&archive), text(&alias));
    let path = format!("-Wl,-rpath,{}", folder.display());
    let with_archive: Vec<&str> = [archive.as_str()].into_iter().chain(SYSTEM).collect();
    let with_shared = [alias.as_str(), path.as_str(), "-lpthread"];
    for (name, libraries) in [("static", &with_archive[..]), ("shared", &with_shared)] {
        for (kind, flags) in [("plain", &[][..]), ("asan", &["-fsanitize=address"])] {
            let program = folder.join(format!("{name}-{kind}"));
            compile(&program, flags, libraries);
            assert_eq!(run(&mut Command::new(&program)), "done\n", "{name}, {kind}");
        }
    }
}
