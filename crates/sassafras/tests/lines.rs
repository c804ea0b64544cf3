//! Line tables: nvdisasm must read from our cubin what the PTX says, and what it reads from ptxas's.

mod support;

use cubin::{Body, Object, line};
use sassafras::DebugInfo;
use support::{Scratch, compile, run};

const MACHINES: [&str; 3] = ["sm_75", "sm_90", "sm_120"];

const SOURCE: &str = r#"// A comment goes.
.version 8.0
.target sm_75
.address_size 64

.file 1 "src/kernel.cu", 1700000000, 300
.file 3 "helper.h"

.visible .entry none(.param .u64 out)
{
    ret;
}
.visible .entry lines(.param .u64 out, .param .u32 n) // with {
.pragma "nounroll {";
{
    .reg .b32 x<3>; .reg .b64 d; .reg .pred p;
    ld.param.u64 d, [out];
    .loc 1 5 3
    ld.param.u32 x0, [n];
    .loc 3 10 3, function_name $name0, inlined_at 1 5 3
    st.global.u32 [d], x0;
    .loc 3 20 3, function_name $name1, inlined_at 3 10 3
    st.global.u32 [d+4], x0;
    .loc 1 0 0
    st.global.u32 [d+8], x0;
    .loc 1 6 3
    .loc 3 10 3, function_name $name0, inlined_at 1 6 3
    .loc 3 21 3, function_name $name1, inlined_at 3 10 3
    st.global.u32 [d+12], x0;
    .loc 1 7 1
    setp.eq.u32 p, x0, 7;
    .loc 1 8 1
    @p bra $end;
    .loc 3 8 2
    st.global.u32 [d+16], x0;
$end:
    .loc 1 9 1
    ret;
}

.section .debug_str
{
$name0:
    .b8 115,113,0x75,97,114,101,0
$name1:
    .b8 97,100,100,0
}

"#;

const FIRST_CALL: [&str; 3] = [
    r#""helper.h", line 20 inlined at "helper.h", line 10"#,
    r#""helper.h", line 10 inlined at "src/kernel.cu", line 5"#,
    r#""src/kernel.cu", line 5"#,
];
const SECOND_CALL: [&str; 3] = [
    r#""helper.h", line 21 inlined at "helper.h", line 10"#,
    r#""helper.h", line 10 inlined at "src/kernel.cu", line 6"#,
    r#""src/kernel.cu", line 6"#,
];

/// Each instruction of `nvdisasm -gi`, with the places that it is for.
fn places(listing: &str) -> Vec<(Vec<&str>, &str)> {
    let (mut all, mut now, mut fresh) = (Vec::new(), Vec::new(), false);
    for line in listing.lines() {
        if let Some(place) = line.trim().strip_prefix("//## File ") {
            if std::mem::replace(&mut fresh, true) {
                now.push(place);
            } else {
                now = vec![place];
            }
        } else if let Some((_, instruction)) = line.split_once("*/") {
            fresh = false;
            all.push((now.clone(), instruction.trim()));
        }
    }
    all
}

#[test]
fn each_instruction_has_its_place() {
    let scratch = Scratch::new("places");
    let expected = [
        ("+0x4]", FIRST_CALL.to_vec()),
        // `.loc` with line 0: what was there before.
        ("+0x8]", FIRST_CALL.to_vec()),
        ("+0xc]", SECOND_CALL.to_vec()),
        ("ISETP", vec![r#""src/kernel.cu", line 7"#]),
        // The branch that leaves.
        ("@P0 EXIT", vec![r#""src/kernel.cu", line 8"#]),
        ("+0x10]", vec![r#""helper.h", line 8"#]),
        ("EXIT", vec![r#""src/kernel.cu", line 9"#]),
    ];
    for machine in MACHINES {
        let cubin = scratch.write(
            "lines.cubin",
            &compile(SOURCE, machine, |o| {
                o.debug_info = DebugInfo::Lines;
                o.disabled_passes = vec!["if-convert"];
            }),
        );
        let listing = run("nvdisasm", &["-c", "-gi", &cubin]);
        let all = places(&listing);
        for (operation, places) in &expected {
            let is_guarded = |text: &str| text.starts_with('@');
            let is_wanted =
                |text: &str| text.contains(operation) && is_guarded(text) == is_guarded(operation);
            let found = all.iter().find(|(_, instruction)| is_wanted(instruction));
            let (found, _) = found.unwrap_or_else(|| panic!("{machine}: no {operation} in {listing}"));
            assert_eq!(found, places, "{machine} {operation}");
        }
    }
}

fn bytes<'a>(object: &'a Object, section: &str) -> &'a [u8] {
    match object.section(section).map(|(_, section)| &section.body) {
        Some(Body::Bytes(bytes)) => bytes,
        other => panic!("{section}: {other:?}"),
    }
}

#[test]
fn tables_are_those_of_ptxas() {
    let scratch = Scratch::new("tables");
    // ptxas does not renumber files.
    let renumbered = SOURCE.replace(".file 3", ".file 2").replace(".loc 3", ".loc 2").replace("at 3", "at 2");
    let source = scratch.write("lines.ptx", renumbered.as_bytes());
    for machine in MACHINES {
        let path = scratch.path("theirs.cubin");
        run("ptxas", &["-arch", machine, "-w", "-lineinfo", &source, "-o", &path]);
        let theirs = Object::read(&std::fs::read(path).expect("a cubin")).expect("a cubin");
        let ours =
            Object::read(&compile(SOURCE, machine, |o| o.debug_info = DebugInfo::Lines)).expect("our cubin");
        let debug = |object: &Object| -> Vec<String> {
            let names = object.sections.iter().map(|section| section.name.clone());
            names.filter(|name| name.contains("debug_") && !name.contains("merc")).collect()
        };
        assert_eq!(debug(&ours), debug(&theirs), "{machine}");
        for section in [".debug_str", ".nv_debug_ptx_txt"] {
            assert_eq!(bytes(&ours, section), bytes(&theirs, section), "{machine} {section}");
        }
        let table = |object: &Object, section| line::read(bytes(object, section)).expect("a table").remove(0);
        let (our, their) = (table(&ours, ".debug_line"), table(&theirs, ".debug_line"));
        assert_eq!((&our.directories, &our.files), (&their.directories, &their.files), "{machine}");
        // The first rows: the first `.loc`, and the line of `{`.
        let first = |table: &line::LineTable| -> Vec<_> {
            table.sequences.iter().map(|sequence| sequence.rows[0]).collect()
        };
        assert_eq!(first(&our), first(&their), "{machine}");
        let (our, their) = (table(&ours, ".nv_debug_line_sass"), table(&theirs, ".nv_debug_line_sass"));
        assert_eq!(first(&our), first(&their), "{machine}");
    }
}

#[test]
fn the_code_is_the_same_without_tables() {
    let text = |cubin: &[u8]| bytes(&Object::read(cubin).expect("our cubin"), ".text.lines").to_vec();
    let (plain, with) = (
        compile(SOURCE, "sm_90", |o| o.debug_info = DebugInfo::None),
        compile(SOURCE, "sm_90", |o| o.debug_info = DebugInfo::Lines),
    );
    assert!(Object::read(&plain).expect("our cubin").section(".debug_line").is_none());
    assert_eq!(text(&plain), text(&with));
}
