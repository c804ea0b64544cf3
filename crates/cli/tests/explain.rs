//! `sassafras explain`: what it writes where, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("explain-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn explain(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sassafras"));
    command.arg("explain").args(words).current_dir(folder).output().expect("the command runs")
}

const KERNEL: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.file 1 \"far/away/kernel.cu\"\n\
    .visible .entry k(.param .u64 p) {\n.reg .b64 %d; .reg .b32 %r;\n.loc 1 2 0\nld.param.u64 %d, [p];\n\
    mov.u32 %r, %tid.x;\n.loc 1 3 0\nst.global.u32 [%d], %r;\nret;\n}\n";

#[test]
fn a_page_with_the_source_beside_it() {
    let folder = folder("page");
    std::fs::write(folder.join("k.ptx"), KERNEL).expect("written");
    std::fs::write(folder.join("kernel.cu"), "first\nsecond\nthird line\n").expect("written");
    let output = explain(&folder, &["k.ptx"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "k.html\n");
    let page = std::fs::read_to_string(folder.join("k.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("third line") && page.contains("STG.E"));
}

#[test]
fn a_document_for_another_target_and_level() {
    let folder = folder("document");
    std::fs::write(folder.join("k.ptx"), KERNEL).expect("written");
    let output = explain(&folder, &["--json", "-arch=sm_100", "-O0", "-o", "-", "k.ptx"]);
    let json = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && json.starts_with("{\"format\":1,"), "{json:.200}");
    assert!(json.contains("\"target\":\"sm_100\",\"level\":0,") && json.contains("\"text\":null"));
}

/// The command line's launches; what it writes.
fn launched(kernel: &str, words: &[&str]) -> String {
    let folder = folder("launched");
    std::fs::write(folder.join("k.ptx"), kernel).expect("written");
    let output = explain(&folder, &[&["k.ptx", "--json", "-o", "-"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn launches_are_in_the_timeline() {
    let launch = "k grid=(2) block=(64) args: p:u32[64]=0";
    let lines = format!(
        "// run {launch}\n// expect p[i] = 0\n// run k grid=(1) block=(32) args: p:u32[64]=0\n// expect p[i] = 0\n"
    );
    let with_lines = lines + KERNEL;
    let (two, one) = ("\"grid\":[2,1,1],\"block\":[64,1,1]", "\"grid\":[1,1,1],\"block\":[32,1,1]");
    for (kernel, words, wanted) in [
        (KERNEL, &["--launch", launch][..], two),
        (&with_lines, &[], two),
        (&with_lines, &["--run", "2"], one),
    ] {
        let json = launched(kernel, words);
        assert!(json.contains(wanted) && json.contains("\"kind\":\"launch\""), "{words:?}: {json:.2000}");
        assert_eq!(json, launched(kernel, words));
    }
    let json = launched(KERNEL, &[]);
    assert!(json.contains("\"launch\":null") && json.contains("\"kind\":\"walk\""));
    // A comment that begins like a run line.
    assert!(launched(&format!("// run it twice\n{KERNEL}"), &[]).contains("\"kind\":\"walk\""));
    let json = launched(KERNEL, &["--launch", "k grid=(1) block=(32) args: p:u64=0"]);
    assert!(json.contains("\"refusal\":\"") && json.contains("\"kind\":\"walk\""));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let folder = folder("refused");
    std::fs::write(folder.join("bad.ptx"), KERNEL.replace("mov.u32", "mov.f99")).expect("written");
    std::fs::write(folder.join("k.ptx"), KERNEL).expect("written");
    std::fs::write(folder.join("no.cubin"), "no cubin").expect("written");
    let cases: [(&[&str], &str); 13] = [
        (&[], "no file is given"),
        (&["missing.ptx"], "missing.ptx: "),
        (&["bad.ptx"], "bad.ptx:9"),
        (&["k.ptx", "-arch=sm_12"], "'sm_12' is no target"),
        (&["k.ptx", "-arch", "sm_91"], "did you mean sm_90?"),
        (&["E031"], "there is no message E031; did you mean E0301?"),
        (&["k.ptx", "-arch=sm_80"], "sm_80"),
        (&["k.ptx", "--compare", "no.cubin"], "no.cubin: "),
        (&["k.ptx", "--what"], "unknown option --what"),
        (&["k.ptx", "--run", "1"], "there are 0 launches"),
        (&["k.ptx", "--run", "x"], "--run takes a number"),
        (&["k.ptx", "--launch", "k grid"], "`=` is missing"),
        (&["k.ptx", "--launch", "kk grid=(1) block=(1)"], "k.ptx has no kernel kk"),
    ];
    for (words, message) in cases {
        let output = explain(&folder, words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(255), "{words:?}");
        assert!(message == "sm_80" || error.contains(message), "{words:?}: {error}");
        assert!(!error.contains("panicked") && !error.is_empty(), "{words:?}: {error}");
        assert!(!folder.join("k.html").exists());
    }
}
