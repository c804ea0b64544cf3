//! Executable cubins that the builder makes of code that ptxas compiled: the tools must read them as they read
//! the original.

use crate::support::{Scratch, module_of, ptx, relocs_of, run};
use cubin::{Home, Object, SymbolType, Target};

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

/// Every symbol that is not there for a section or for reserved memory, with the name of its section.
fn symbols(object: &Object) -> Vec<String> {
    let ours = object.symbols().iter().filter(|symbol| {
        symbol.kind != SymbolType::SECTION && !symbol.name.is_empty() && !symbol.name.contains("reservedS")
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

fn check(scratch: &Scratch, name: &str, sm: u16, options: &[&str]) {
    let place = format!("{name} sm_{sm} {options:?}");
    let original = scratch.path("original.cubin");
    let (target, source) = (format!("sm_{sm}"), ptx(name));
    run("ptxas", &[&["-arch", &target, &source, "-o", &original], options].concat()).unwrap();
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
    let usage = |file: &str| run("cuobjdump", &["-res-usage", file]).unwrap();
    assert_eq!(sorted_lines(&usage(&built)), sorted_lines(&usage(&original)), "{place}");
    let elf = |file: &str| run("cuobjdump", &["-elf", file]).unwrap();
    let (ours, theirs) = (elf(&built), elf(&original));
    for kernel in object.symbols().iter().filter(|symbol| symbol.other.is_entry()) {
        let name = &kernel.name;
        assert_eq!(attribute_lines(&ours, name), attribute_lines(&theirs, name), "{place} {name}");
    }
    run("nvdisasm", &["-c", &built]).unwrap();
}

#[test]
fn tools_read_built_cubins_like_those_of_ptxas() {
    let scratch = Scratch::new("build");
    for sm in Target::all_sms() {
        check(&scratch, "saxpy", sm, &[]);
    }
    for sm in [75, 80, 90, 100, 120] {
        check(&scratch, "warp", sm, &[]);
        check(&scratch, "variables", sm, &[]);
        // With -g, functions have sections of their own.
        check(&scratch, "functions", sm, &["-g"]);
    }
}
