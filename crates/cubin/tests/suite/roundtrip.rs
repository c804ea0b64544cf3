//! Files by ptxas survive reading and writing, and a file that was laid out anew reads the same to the tools.

use cubin::{Body, Object};

use crate::support::{Scratch, ptx, run};

const FILES: [&str; 5] = ["saxpy", "warp", "variables", "calls", "inlined"];
const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100", "sm_120"];
const OPTIONS: [&[&str]; 5] = [&[], &["-lineinfo"], &["-g"], &["-c"], &["-ewp"]];

/// Files with reserved shared memory, which only these targets and instructions have.
const RESERVED: [(&str, &str, &[&str]); 4] = [
    ("shared", "sm_110", &[]),
    ("shared", "sm_110", &["-c"]),
    ("tensor_memory", "sm_100a", &[]),
    ("tensor_memory", "sm_100a", &["-c"]),
];

/// Every combination of file, target and options, as (description, path of the cubin).
fn compile_all(scratch: &Scratch) -> Vec<(String, String)> {
    let mut cases = RESERVED.to_vec();
    for name in FILES {
        for target in TARGETS {
            cases.extend(OPTIONS.map(|options| (name, target, options)));
        }
    }
    let mut cubins = Vec::new();
    for (name, target, options) in cases {
        let description = format!("{name} {target} {}", options.join(" "));
        let path = scratch.path(&format!("{}.cubin", cubins.len()));
        let source = ptx(name);
        run("ptxas", &[&["-arch", target, &source, "-o", &path], options].concat()).unwrap();
        cubins.push((description, path));
    }
    cubins
}

/// `cuobjdump -elf` without the column that tells where in the file a section is.
fn dump_without_offsets(path: &str) -> String {
    let dump = run("cuobjdump", &["-elf", path]).unwrap();
    let mut lines = Vec::new();
    let mut in_table = false;
    for line in dump.lines() {
        in_table = line.starts_with("Index Offset") || in_table && !line.is_empty();
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [index, _offset, rest @ ..] if in_table => lines.push(format!("{index} {}", rest.join(" "))),
            _ => lines.push(line.to_string()),
        }
    }
    lines.join("\n")
}

#[test]
fn files_by_ptxas_survive() {
    let scratch = Scratch::new("roundtrip");
    for (description, path) in compile_all(&scratch) {
        let bytes = std::fs::read(&path).unwrap();
        let object = Object::read(&bytes).unwrap_or_else(|error| panic!("{description}: {error}"));
        let written = object.write().unwrap();
        assert_eq!(Object::read(&written).unwrap(), object, "{description}");
        assert!(written == bytes, "{description}: the bytes differ");
    }
}

#[test]
fn files_laid_out_anew_read_the_same() {
    let scratch = Scratch::new("repack");
    let mut moved = 0;
    for name in FILES {
        for (target, option) in
            [("sm_75", "-g"), ("sm_90a", "-lineinfo"), ("sm_90a", "-c"), ("sm_120", "-lineinfo")]
        {
            let original = scratch.path("original.cubin");
            run("ptxas", &["-arch", target, option, &ptx(name), "-o", &original]).unwrap();
            let bytes = std::fs::read(&original).unwrap();
            let mut object = Object::read(&bytes).unwrap();
            // Another layout: no gaps, and a first section of another size, so that all others move.
            object.sections.iter_mut().for_each(|section| section.gap = 0);
            if let Body::Strings(names) = &mut object.sections[1].body {
                names.bytes.extend_from_slice(b"one more name\0");
            }
            let written = object.write().unwrap();
            moved += usize::from(written != bytes);
            let rewritten = scratch.write("rewritten.cubin", &written);
            let place = format!("{name} {target} {option}");
            let listing = |path: &str| run("nvdisasm", &["-c", "-g", path]);
            assert_eq!(listing(&rewritten), listing(&original), "{place}");
            let (ours, theirs) = (dump_without_offsets(&rewritten), dump_without_offsets(&original));
            // The section names have grown by design.
            let grown = |dump: &str| {
                dump.lines().filter(|line| !line.ends_with(".shstrtab")).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(grown(&ours), grown(&theirs), "{place}");
        }
    }
    assert_eq!(moved, 4 * FILES.len());
}
