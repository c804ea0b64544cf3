//! Executable cubins that the builder makes of code that ptxas compiled: the tools must read them as they read
//! the original.

use crate::support::{Scratch, module_of, ptx, relocs_of, run};
use cubin::module::SymbolicReloc;
use cubin::{Body, Home, Object, SymbolType};

/// The lines of `cuobjdump -elf` that describe the attributes of a kernel, without indices of symbols.
fn attribute_lines(dump: &str, kernel: &str) -> Vec<String> {
    let section = format!("\n.nv.info.{kernel}\n");
    let start = dump.rfind(&section).expect("the attributes of the kernel") + section.len();
    let lines = dump[start..].lines().take_while(|line| line.starts_with('\t'));
    let mut lines: Vec<String> = lines.map(str::to_string).collect();
    for code in ["EIATTR_PARAM_CBANK", "EIATTR_EXTERNS"] {
        let attribute = lines.iter().position(|line| line.ends_with(code));
        if let Some(value) = attribute.and_then(|attribute| lines.get_mut(attribute + 2)) {
            let fields: Vec<&str> = value.split_whitespace().skip(2).collect();
            *value = format!("symbol {}", fields.join(" "));
        }
    }
    lines
}

/// Every symbol that is not there for a section, with the name of its section. (With -g ptxas reserves no memory.)
fn symbols(object: &Object) -> Vec<String> {
    let ours = object.symbols().iter().filter(|symbol| {
        symbol.kind != SymbolType::SECTION && !symbol.name.is_empty() && !symbol.name.ends_with("0_alias")
    });
    let mut lines: Vec<String> = ours
        .map(|symbol| {
            let home = match symbol.home {
                Home::Section(index) => object.sections[index as usize].name.clone(),
                other => format!("{other:?}"),
            };
            let (kind, binding, other) = (symbol.kind, symbol.binding, symbol.other);
            let (value, size) = (symbol.value, symbol.size);
            format!("{} {kind} {binding} {other:?} {home} {value:#x} {size:#x}", symbol.name)
        })
        .collect();
    lines.sort();
    lines
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    lines
}

fn check(scratch: &Scratch, name: &str, target: &str, options: &[&str]) {
    let place = format!("{name} {target} {options:?}");
    let original = scratch.path("original.cubin");
    let source = ptx(name);
    run("ptxas", &[&["-arch", target, &source, "-o", &original], options].concat()).unwrap();
    let object = Object::read(&std::fs::read(&original).unwrap()).unwrap();
    let built = module_of(&object).to_object().unwrap();
    let bytes = built.write().unwrap();
    assert_eq!(Object::read(&bytes).unwrap().write().unwrap(), bytes, "{place}");
    assert_eq!(symbols(&built), symbols(&object), "{place}");
    let texts = object.sections.iter().filter(|section| section.name.starts_with(".text"));
    let data = [".nv.constant3", ".nv.constant4", ".nv.global.init"].map(String::from);
    for section in texts.map(|section| section.name.clone()).chain(data) {
        assert_eq!(relocs_of(&built, &section), relocs_of(&object, &section), "{place} {section}");
    }

    let built = scratch.write("built.cubin", &bytes);
    let sass = |file: &str| run("cuobjdump", &["-sass", file]).unwrap();
    assert!(sass(&original).contains("EXIT"), "{place}");
    assert_eq!(sass(&built), sass(&original), "{place}");
    // It fails on files with samplers before sm_90, by whomever they are.
    let usage = |file: &str| run("cuobjdump", &["-res-usage", file]).ok();
    let (ours, theirs) = (usage(&built), usage(&original));
    assert_eq!(ours.as_deref().map(sorted_lines), theirs.as_deref().map(sorted_lines), "{place}");
    assert!(theirs.is_some() || name == "images", "{place}");
    let elf = |file: &str| run("cuobjdump", &["-elf", file]).unwrap();
    let (ours, theirs) = (elf(&built), elf(&original));
    for kernel in object.symbols().iter().filter(|symbol| symbol.other.is_entry()) {
        let name = &kernel.name;
        assert_eq!(attribute_lines(&ours, name), attribute_lines(&theirs, name), "{place} {name}");
    }
}

#[test]
fn tools_read_built_cubins_of_every_target_like_those_of_ptxas() {
    let scratch = Scratch::new("targets");
    for sm in targets::Target::ALL.iter().map(|target| target.sm) {
        check(&scratch, "saxpy", &format!("sm_{sm}"), &[]);
    }
}

#[test]
fn tools_read_built_cubins_like_those_of_ptxas() {
    let scratch = Scratch::new("build");
    for target in
        ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"].iter().filter(|_| std::env::var_os("QUICK").is_none())
    {
        check(&scratch, "warp", target, &[]);
        check(&scratch, "variables", target, &[]);
        // With -g, functions have sections of their own.
        check(&scratch, "functions", target, &["-g"]);
    }
}

#[test]
fn tools_read_built_images_and_shared_variables_like_those_of_ptxas() {
    let scratch = Scratch::new("memory");
    for target in ["sm_75", "sm_90", "sm_110"] {
        check(&scratch, "images", target, &[]);
        // With -g, shared variables have symbols.
        check(&scratch, "shared", target, &["-g"]);
    }
    check(&scratch, "tensor_memory", "sm_100a", &[]);
}

/// The common entry of a clone in `.debug_frame`, which tells that R4 has its way back, by ptxas and by the builder.
#[test]
fn debuggers_find_the_way_out_of_clones() {
    let scratch = Scratch::new("frame");
    for target in ["sm_75", "sm_90"] {
        let original = scratch.path("original.cubin");
        run("ptxas", &["-arch", target, &ptx("variables"), "-o", &original]).unwrap();
        let object = Object::read(&std::fs::read(&original).unwrap()).unwrap();
        let mut module = module_of(&object);
        module.functions[0].clones[0].return_register = 4;
        let built = module.to_object().unwrap();
        let entry = |object: &Object| -> (Vec<u8>, usize) {
            let Body::Bytes(frames) = &object.section(".debug_frame").unwrap().1.body else {
                panic!("bytes")
            };
            let starts = frames.windows(12).enumerate().filter(|(_, bytes)| bytes[..4] == [0xff; 4]);
            let mut starts = starts.filter(|(_, bytes)| bytes[4..12] == 0x3cu64.to_le_bytes());
            let start = starts.next().expect("an entry of 60 bytes").0;
            (frames[start..start + 72].to_vec(), start)
        };
        assert_eq!(entry(&built).0, entry(&object).0, "{target}");
        // The start of the section in the computed address.
        let base = |object: &Object| {
            let start = entry(object).1 as u64;
            let inside = |reloc: &SymbolicReloc| (start..start + 72).contains(&reloc.offset);
            let reloc = relocs_of(object, ".debug_frame").into_iter().find(inside).expect("a relocation");
            (reloc.offset - start, reloc.symbol, reloc.addend)
        };
        assert_eq!(base(&built), base(&object), "{target}");
    }
}
