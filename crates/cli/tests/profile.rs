//! `sassafras profile`: reports of launches in run lines, as text and JSON.

use std::path::Path;
use std::process::{Command, Output};

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sassafras"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}

fn profile(words: &[&str]) -> Output {
    command().arg("profile").args(words).output().expect("the command starts")
}

fn text(words: &[&str]) -> String {
    let output = profile(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{words:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The number after a field's name, wherever it comes first.
fn field(json: &str, name: &str) -> f64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name}"));
    let end = rest.find([',', '}', ']']).expect("an end");
    rest[..end].parse().unwrap_or_else(|_| panic!("{name}: {}", &rest[..end]))
}

#[test]
fn a_report_names_what_there_is() {
    let report = text(&["examples/saxpy.ptx", "--run", "6"]);
    for part in ["predicted", "occupancy", "limited by warps", "roofline", "long_scoreboard", "FFMA", "STG.E"]
    {
        assert!(report.contains(part), "no {part} in:\n{report}");
    }
}

#[test]
fn counts_are_those_of_the_launch() {
    // 4 blocks of 1024 threads, each on its own SM: 32 warps, of which each loads two lines and stores one.
    let report = text(&["examples/saxpy.ptx", "--run", "6", "--json"]);
    let wanted = [
        ("active_sms", 4.0),
        ("simulated_blocks", 1.0),
        ("requests", 4.0 * 32.0 * 3.0),
        ("sectors", 4.0 * 32.0 * 3.0 * 4.0),
        ("l2_sectors_written", 4.0 * 32.0 * 4.0),
        ("memory_sectors_read", 0.0),
        // A product and a sum for each element.
        ("flops", 2.0 * 4096.0),
    ];
    for (name, value) in wanted {
        assert_eq!(field(&report, name), value, "{name}");
    }
    // From memory where the L2 has nothing.
    let cold = text(&["examples/saxpy.ptx", "--run", "6", "--json", "--l2", "cold"]);
    assert_eq!(field(&cold, "memory_sectors_read"), 4.0 * 32.0 * 2.0 * 4.0);
    assert!(field(&cold, "cycles") > field(&report, "cycles"));
}

#[test]
fn reports_are_the_same_each_time() {
    let words = ["examples/reduce.ptx", "--json"];
    assert_eq!(text(&words), text(&words));
}

#[test]
fn a_code_is_as_fast_as_itself() {
    let report = text(&["examples/saxpy.ptx", "--run", "4", "--compare", "examples/saxpy.ptx"]);
    assert!(report.contains("speed of A in units of B's: 1.000"), "{report}");
}

#[test]
fn more_work_takes_longer() {
    let line = |blocks: u32| {
        format!("saxpy grid=({blocks}) block=(256) args: n:u32=1048576 a:f32=2.0 x:f32[n]=1.0 y:f32[n]=1.0")
    };
    let cycles = |blocks: u32| {
        field(&text(&["examples/saxpy.ptx", "--launch", &line(blocks), "--json", "--l2", "cold"]), "cycles")
    };
    let (few, many) = (cycles(264), cycles(4096));
    assert!(many > 1.5 * few, "{few} and {many}");
}

#[test]
fn tables_of_numbers_are_read() {
    let table = text(&["--list-parameters"]);
    assert!(table.contains("latency_shared"), "{table}");
    let slow = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow.tab");
    let row = table.lines().find(|row| row.starts_with("latency_l2 ")).expect("a row");
    let slower = table.replace(row, "latency_l2 2630 cycles unknown ten times as long");
    std::fs::write(&slow, slower).expect("a temporary file");
    let slow = slow.to_str().expect("a path");
    let with = |words: &[&str]| {
        field(&text(&[&["examples/saxpy.ptx", "--run", "6", "--json"], words].concat()), "cycles")
    };
    assert!(with(&["--parameters", slow]) > with(&[]) + 2000.0);
}

#[test]
fn recordings_are_profiled() {
    // The launch of the sixth run line: what is counted does not depend on what is in memory.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let base = 0x2f3b_0000_0000u64;
    let parameters = [&4096u32.to_le_bytes()[..], &2f32.to_le_bytes(), &base.to_le_bytes()].concat();
    let parameters = [parameters, (base + 0x10000).to_le_bytes().to_vec()].concat();
    let hex: String = parameters.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = [
        "kernel saxpy\ngrid 4 1 1\nblock 1024 1 1\nshared 0".to_string(),
        format!("parameters {hex}\nmemory {base:x} 16384 x\nmemory {:x} 16384 -\n", base + 0x10000),
    ];
    let (file, piece) = (folder.join("launch"), [16u64.to_le_bytes(), 4u64.to_le_bytes()].concat());
    std::fs::write(&file, lines.join("\n")).expect("a temporary file");
    std::fs::write(folder.join("x"), [piece, 2f32.to_le_bytes().to_vec()].concat())
        .expect("a temporary file");
    let file = file.to_str().expect("a path");
    let words = ["examples/saxpy.ptx", "--recording", file, "--json"];
    assert_eq!(text(&words), text(&["examples/saxpy.ptx", "--run", "6", "--json"]));

    // Executed, it leaves 2 * 2 in the fifth word of y.
    let changes = folder.join("changes");
    let changes = changes.to_str().expect("a path");
    let words = ["run", "-O3", "examples/saxpy.ptx", "--recording", file, "--changes", changes];
    let output = command().args(words).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(changes).expect("changes");
    assert_eq!(bytes[..16], [(base + 0x10000).to_le_bytes(), 4096u64.to_le_bytes()].concat());
    assert_eq!(bytes[16..48], [[0; 16], [0, 0, 128, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat());
}

#[test]
fn what_can_not_be_done_is_refused() {
    for (words, message) in [
        (&["--no-such"][..], "unknown option"),
        (&[], "no file"),
        (&["examples/saxpy.ptx", "--run", "99"], "no launch of that number"),
        (&["examples/saxpy.ptx", "--l2", "hot"], "--l2 is warm, cold or auto"),
        (&["examples/saxpy.ptx", "--launch", "none grid=(1) block=(32)"], "there is no kernel none"),
        (&["README.md"], "README.md"),
        (&["examples/saxpy.ptx", "--recording", "README.md"], "README.md: line 1"),
        (&["examples/saxpy.ptx", "--parameters", "README.md"], "README.md: line 3"),
    ] {
        let output = profile(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{words:?}: {error}");
        assert!(error.contains(message), "{words:?}: {error}");
    }
}
