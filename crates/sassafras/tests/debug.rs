//! Debug information: the sections are those of ptxas with other addresses, and registers are where the tables say.

mod support;

use cubin::{Body, Object, RelocType};
use sassafras::DebugInfo;
use std::collections::BTreeSet;
use support::{Scratch, compile, run};

/// What nvcc -G makes of a kernel with a called function, and variables in registers and in every kind of memory.
const SOURCE: &str = include_str!("kernels/debug.ptx");
const KERNEL: &str = "_Z1kPif1S";

const MACHINES: [&str; 3] = ["sm_75", "sm_90", "sm_120"];

fn source(machine: &str) -> String {
    SOURCE.replace("sm_90", machine)
}

fn ours(machine: &str, relocatable: bool) -> Vec<u8> {
    compile(&source(machine), machine, |options| {
        options.level = 0;
        options.debug_code = true;
        options.debug_info = DebugInfo::Full;
        options.relocatable = relocatable;
    })
}

fn theirs(scratch: &Scratch, machine: &str, relocatable: bool) -> Object {
    let (input, path) = (scratch.write("in.ptx", source(machine).as_bytes()), scratch.path("theirs.cubin"));
    let arch = format!("-arch={machine}");
    let mode: &[&str] = if relocatable { &["-c"] } else { &[] };
    run("ptxas", &[&[&arch, "-g", &input, "-o", &path], mode].concat());
    Object::read(&std::fs::read(path).expect("a cubin")).expect("a cubin")
}

fn bytes<'a>(object: &'a Object, section: &str) -> &'a [u8] {
    match object.section(section).map(|(_, section)| &section.body) {
        Some(Body::Bytes(bytes)) => bytes,
        other => panic!("{section}: {other:?}"),
    }
}

/// Offset, kind and symbol. A kernel's own shared variable is `$__name__number` in our objects.
fn relocs(object: &Object, section: &str) -> BTreeSet<(u64, RelocType, String)> {
    let names = [format!(".rel{section}"), format!(".rela{section}")];
    let lists = object.sections.iter().filter(|s| names.contains(&s.name)).filter_map(|s| match &s.body {
        Body::Relocs(relocs) => Some(relocs),
        _ => None,
    });
    let name = |index: u32| {
        let name = &object.symbols()[index as usize].name;
        let own = name.strip_prefix("$__").and_then(|name| name.rsplit_once("__"));
        own.map_or(name.as_str(), |(name, _)| name).to_string()
    };
    lists.flatten().map(|reloc| (reloc.offset, reloc.kind, name(reloc.symbol))).collect()
}

#[test]
fn sections_are_those_of_ptxas() {
    let scratch = Scratch::new("debug");
    for (machine, relocatable) in MACHINES.iter().flat_map(|m| [(m, false), (m, true)]) {
        let ours = Object::read(&ours(machine, relocatable)).expect("our cubin");
        let theirs = theirs(&scratch, machine, relocatable);
        let names = |object: &Object| -> Vec<String> {
            let all = object.sections.iter().map(|section| section.name.clone());
            all.filter(|n| n.contains("debug_") && !n.contains("merc") && !n.starts_with(".rel")).collect()
        };
        assert_eq!(names(&ours), names(&theirs), "{machine}");
        for section in names(&ours).iter().filter(|n| n.contains("ptx_txt") || n.contains("abbrev")) {
            assert_eq!(bytes(&ours, section), bytes(&theirs, section), "{machine} {section}");
        }
        for section in [".debug_info", ".debug_loc"] {
            assert_eq!(relocs(&ours, section), relocs(&theirs, section), "{machine} {section}");
            same_but_for_addresses(&ours, &theirs, section);
        }
    }
}

/// Addresses and offsets in the frame depend on the code.
fn same_but_for_addresses(ours: &Object, theirs: &Object, section: &str) {
    const OP_FBREG: u8 = 0x91;
    let (our, their) = (bytes(ours, section), bytes(theirs, section));
    assert_eq!(our.len(), their.len());
    let relocs = relocs(ours, section);
    for (at, _) in our.iter().zip(their).enumerate().filter(|(_, (a, b))| a != b) {
        let is_address = relocs.iter().any(|(offset, ..)| (*offset..offset + 8).contains(&(at as u64)));
        assert!(is_address || our[at - 1] == OP_FBREG, "{section} {at:#x}");
    }
}

#[derive(Debug)]
struct Entry {
    name: String,
    word: u32,
    place: u32,
    first: u32,
    last: u32,
}

/// The table of a function.
fn registers(object: &Object, function: &str) -> Vec<Entry> {
    let mut rest = bytes(object, ".nv_debug_info_reg_sass");
    let number = |rest: &mut &[u8]| {
        let (head, tail) = rest.split_at(4);
        *rest = tail;
        u32::from_le_bytes(head.try_into().expect("four bytes"))
    };
    let text = |rest: &mut &[u8]| {
        let end = rest.iter().position(|byte| *byte == 0).expect("an end");
        let name = String::from_utf8(rest[..end].to_vec()).expect("a name");
        *rest = &rest[end + 1..];
        name
    };
    while !rest.is_empty() {
        let name = text(&mut rest);
        let mut entries = Vec::new();
        for _ in 0..number(&mut rest) {
            let word = number(&mut rest);
            let name = text(&mut rest);
            let [place, first, last] = [number(&mut rest), number(&mut rest), number(&mut rest)];
            entries.push(Entry { name, word, place, first, last });
        }
        if name == function {
            return entries;
        }
    }
    panic!("no table for {function}");
}

/// Address and text of each instruction of the kernel.
fn listing(scratch: &Scratch, cubin: &[u8]) -> Vec<(u32, String)> {
    let path = scratch.write("ours.cubin", cubin);
    let text = run("nvdisasm", &["-c", &path]);
    let text = text.split(&format!("\n.text.{KERNEL}:")).nth(1).expect("the kernel").split("\n//---").next();
    let line = |line: &str| {
        let (address, text) = line.trim().strip_prefix("/*")?.split_once("*/")?;
        Some((u32::from_str_radix(address, 16).ok()?, text.trim().to_string()))
    };
    text.unwrap_or_default().lines().filter_map(line).collect()
}

#[test]
fn registers_are_where_the_table_says() {
    let scratch = Scratch::new("registers");
    let cubin = compile(&source("sm_90"), "sm_90", |options| {
        options.level = 0;
        options.debug_code = true;
        options.debug_info = DebugInfo::Full;
    });
    let entries = registers(&Object::read(&cubin).expect("our cubin"), KERNEL);
    let listing = listing(&scratch, &cubin);
    // `mov.u32 %r6, %tid.x`, `mul.f32 %f4, …`, `setp.lt.s32 %p1, …`, and the loop's variable, which lives over calls.
    for (operation, register) in [("S2R", "%r6"), ("FMUL", "%f4"), ("ISETP.LT", "%p1")] {
        let (address, text) = listing.iter().find(|(_, text)| text.contains(operation)).expect(operation);
        let written =
            text.split([' ', ',']).find(|w| w.starts_with(['R', 'P']) && w.len() < 5).expect("a register");
        let number: u32 = written[1..].parse().expect("a number");
        let kind = if written.starts_with('P') { 0x0200_0000 } else { 0x0500_0000 };
        let behind = address + 16;
        let found = entries.iter().find(|e| e.name == register && (e.first..=e.last).contains(&behind));
        assert_eq!(found.map(|e| (e.place, e.word)), Some((kind | number, 0)), "{text}: {entries:?}");
    }
    // What the DWARF sections name lives to the end: `f`, which the last line does not read, and `i`.
    let end = listing.iter().rev().find(|(_, text)| text.starts_with("MEMBAR")).expect("the end").0;
    for register in ["%f1", "%r1"] {
        let is_there = entries.iter().any(|e| e.name == register && (e.first..=e.last).contains(&end));
        assert!(is_there, "{register} at {end:#x}: {entries:?}");
    }
    let call = listing.iter().find(|(_, text)| text.starts_with("CALL")).expect("a call").0;
    for register in ["%r1", "%r3", "%f1", "%rd1"] {
        let is_there = |at: u32| {
            let mut known = entries.iter().filter(|e| e.name == register && e.word == 0);
            known.any(|e| (e.first..=e.last).contains(&at))
        };
        assert!(is_there(call) && is_there(call + 16), "{register}: {entries:?}");
    }
}

/// A debugger stops at a function where its second line begins, shows its variables while another one is called, and
/// comes back to the middle of a line.
#[test]
fn functions_begin_before_their_bodies_and_keep_what_they_had() {
    let scratch = Scratch::new("functions");
    let whole = source("sm_90").replace(".loc\t1 4 42", ".loc\t1 5 42");
    // Without the sections nothing is kept, and the function needs no frame.
    let (text, _) = whole.split_once("\t.section").expect("sections");
    let text = text.replace("sm_90, debug", "sm_90");
    for (source, keeps) in [(&whole, true), (&text, false)] {
        let cubin = compile(source, "sm_90", |options| {
            options.level = 0;
            options.debug_code = true;
            options.debug_info = DebugInfo::Full;
        });
        let path = scratch.write("ours.cubin", &cubin);
        let listing = run("nvdisasm", &["-g", "-c", &path]);
        let function = listing.split("\n.text._Z6squarei:").nth(1).expect("the function");
        let body = function.split_once("line 4").and_then(|(_, rest)| rest.split_once("line 5"));
        let (before, body) = body.unwrap_or_else(|| panic!("{function}"));
        assert!(
            before.contains("/*0000*/") && !before.contains("IMAD") && body.contains("IMAD"),
            "{function}"
        );
        // A function comes back to the line of the call.
        let mut behind =
            listing.lines().skip_while(|line| !line.contains("CALL")).filter(|line| line.contains(" ;"));
        assert!(behind.nth(1).is_some_and(|line| line.contains("NOP")), "{listing}");
        let back = body.lines().find(|line| line.contains("RET.")).and_then(|line| line.split("*/").next());
        let back = back.and_then(|line| u32::from_str_radix(line.trim().trim_start_matches("/*"), 16).ok());
        let entries = registers(&Object::read(&cubin).expect("our cubin"), "_Z6squarei");
        let is_there = |e: &Entry| e.name == "%r2" && back.is_some_and(|at| (e.first..=e.last).contains(&at));
        assert_eq!(entries.iter().any(is_there), keeps, "{back:?} {entries:?}");
    }
}

#[test]
fn places_of_a_word_do_not_overlap() {
    let object = Object::read(&ours("sm_90", false)).expect("our cubin");
    for function in [KERNEL, "_Z6squarei"] {
        let entries = registers(&object, function);
        for (i, a) in entries.iter().enumerate() {
            assert!(a.first <= a.last, "{a:?}");
            let same = |b: &&Entry| (&b.name, b.word) == (&a.name, a.word);
            for b in entries[i + 1..].iter().filter(same) {
                assert!(a.last < b.first || b.last < a.first, "{a:?} {b:?}");
            }
        }
    }
}
