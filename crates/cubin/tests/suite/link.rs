//! Relocatable cubins that the builder makes of code that ptxas compiled: `nvlink` must make of them what it makes
//! of the originals.

use std::collections::BTreeSet;

use crate::support::{Scratch, calls_of, module_of, ptx, run};
use cubin::attr::{Attr, Value};
use cubin::elf::section_flags;
use cubin::inspect::CubinReport;
use cubin::{Body, Flags, Object, Section};

/// An object file of a PTX file by ptxas, the same as plain SASS, and as the builder makes it anew: their paths.
struct Objects {
    original: String,
    plain: String,
    built: String,
}

fn compile(scratch: &Scratch, name: &str, target: &str, options: &[&str]) -> Objects {
    let original = scratch.path(&format!("{name}.o"));
    let source = ptx(name);
    run("ptxas", &[&["-c", "-arch", target, &source, "-o", &original], options].concat()).unwrap();
    let object = Object::read(&std::fs::read(&original).unwrap()).unwrap();
    let bytes = module_of(&object).to_object().unwrap().write().unwrap();
    assert_eq!(Object::read(&bytes).unwrap().write().unwrap(), bytes, "{name} {target} {options:?}");
    let built = scratch.write(&format!("{name}.built.o"), &bytes);
    let plain = without_capsule(object).write().unwrap();
    Objects { original, plain: scratch.write(&format!("{name}.plain.o"), &plain), built }
}

/// From sm_100 on, ptxas adds a capsule for the finalizer, of which nvlink makes the code anew. The builder writes
/// none, so what it is compared with must have none either.
fn without_capsule(mut object: Object) -> Object {
    let is_capsule = |section: &Section| section.flags & section_flags::MERCURY != 0;
    let first = object.sections.iter().position(is_capsule).unwrap_or(object.sections.len());
    assert!(object.sections[first..].iter().all(is_capsule), "nothing comes after the capsule");
    object.sections.truncate(first);
    object.header.flags = Flags(object.header.flags.0 & !0xff | Flags::SASS);
    object
}

/// What counts in a linked file, line by line: not the order of symbols and relocations, not who made it, not the
/// capsule for the finalizer, which the builder does not write, and not what only debuggers read.
fn essence(path: &str) -> BTreeSet<String> {
    let object = Object::read(&std::fs::read(path).unwrap()).unwrap();
    let counts = |section: &str| !section.contains("merc") && !section.contains("debug_frame");
    let mut lines = BTreeSet::new();
    for section in object.sections.iter().filter(|section| counts(&section.name)) {
        let Section { name, kind, flags, align, .. } = section;
        match &section.body {
            Body::Bytes(_) | Body::Zeros(_) | Body::Compat(_) => {
                lines.insert(format!("{name} {kind} {flags:#x} {align} {:x?}", section.body));
            }
            Body::Info(attrs) => {
                lines.extend(attrs.iter().map(|attr| format!("{name} {}", named_attr(&object, attr))));
            }
            _ => {}
        }
    }
    let report = CubinReport::new(&object);
    lines.extend(report.symbols.iter().map(|symbol| format!("{symbol:?}")));
    let relocs = report.relocs.iter().filter(|reloc| counts(&reloc.section));
    lines.extend(relocs.map(|reloc| format!("{reloc:?}")));
    let calls = calls_of(&object);
    let lists = [calls.direct, calls.indirect, calls.address_taken, calls.takes_address, calls.prototypes];
    for (index, mut list) in lists.into_iter().enumerate() {
        list.sort();
        lines.insert(format!("call list {index}: {list:?}"));
    }
    lines
}

/// An attribute with symbols by name.
fn named_attr(object: &Object, Attr { code, value }: &Attr) -> String {
    let name = |index: u32| object.symbols()[index as usize].name.clone();
    match value {
        Value::PerSymbol { symbol, value } => format!("{code} {} {value}", name(*symbol)),
        Value::Symbols(symbols) => {
            format!("{code} {:?}", symbols.iter().map(|&symbol| name(symbol)).collect::<BTreeSet<_>>())
        }
        Value::ParamBank(bank) => format!("{code} {} {} {}", name(bank.symbol), bank.base, bank.size),
        other => format!("{code} {other:?}"),
    }
}

/// Links, and returns the path of the result.
fn link(scratch: &Scratch, output: &str, target: &str, objects: [&str; 2]) -> String {
    let path = scratch.path(output);
    run("nvlink", &[&format!("-arch={target}"), objects[0], objects[1], "-o", &path]).unwrap();
    path
}

/// The instructions of all functions, without their encodings.
fn instructions(path: &str) -> Vec<String> {
    let listing = run("cuobjdump", &["-sass", path]).unwrap();
    let lines = listing.lines().filter_map(|line| line.split_once(";"));
    lines.map(|(instruction, _encoding)| instruction.to_string()).collect()
}

#[test]
fn nvlink_makes_the_same_of_built_objects() {
    let scratch = Scratch::new("link");
    let cases: [(&str, &[&str]); 7] = [
        ("sm_75", &[]),
        ("sm_80", &[]),
        ("sm_90", &[]),
        ("sm_100", &[]),
        ("sm_120", &[]),
        ("sm_75", &["-lineinfo"]),
        ("sm_90", &["-g"]),
    ];
    for (target, options) in cases {
        let main = compile(&scratch, "linked", target, options);
        let other = compile(&scratch, "link_other", target, options);
        let plain = link(&scratch, "plain.cubin", target, [&main.plain, &other.plain]);
        let theirs = link(&scratch, "theirs.cubin", target, [&main.original, &other.original]);
        let theirs = instructions(&theirs);
        assert!(theirs.len() > 100, "{target}");
        let both = [&main.built, &other.built];
        let mixed = [[&main.built, &other.plain], [&main.plain, &other.built]];
        let mixed = if target == "sm_90" { &mixed[..] } else { &[] };
        for pair in mixed.iter().chain([&both]) {
            let ours = link(&scratch, "ours.cubin", target, pair.map(String::as_str));
            let (built, original) = (essence(&ours), essence(&plain));
            let added: Vec<_> = built.difference(&original).collect();
            let lost: Vec<_> = original.difference(&built).collect();
            assert!(added.is_empty() && lost.is_empty(), "{target} {options:?}: {added:#?} for {lost:#?}");
            assert_eq!(instructions(&ours), theirs, "{target} {options:?}");
        }
    }
}
