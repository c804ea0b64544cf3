//! The text form of the IR is complete: after every pass it is read back to the same text, and the next pass makes the
//! same of the function that was read back as of the one that was printed. `SASSAFRAS_CORPUS` names a folder with more
//! PTX.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let more = std::env::var_os("SASSAFRAS_CORPUS").map(PathBuf::from);
    let folders = [here.join("../../examples"), here.join("tests/kernels")].into_iter().chain(more);
    let mut all: Vec<PathBuf> = folders
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder of programs"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptx"))
        .collect();
    all.sort();
    all
}

/// The dumps of a program after each pass; the level of optimization decides which passes there are.
fn dumps(source: &str, level: u8, relocatable: bool) -> String {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let module = parsed.module.expect("a module");
    let mut options = sassafras::Options::new(ptx::Target::find("sm_90a").expect("a target"));
    (options.level, options.verify, options.dump) = (level, true, Some("all".to_string()));
    options.relocatable = relocatable;
    let output = sassafras::compile_module(&module, &options);
    assert!(output.cubin.is_some(), "{:?}", output.diagnostics);
    output.log
}

#[test]
fn every_dump_reads_back() {
    let programs = programs();
    assert!(programs.len() >= 4);
    for program in programs {
        let source = std::fs::read_to_string(&program).expect("a program");
        for level in [0, 3] {
            reads_back(&dumps(&source, level, false), &program.display().to_string());
        }
    }
}

const MACHINE: &str = "; machine code after ";

/// The dumps of a program: the function, the pass, and the text after it.
fn steps(dumps: &str) -> Vec<(&str, &str, &str)> {
    let step = |dump| {
        let ori = str::split(dump, MACHINE).next().expect("the text before it");
        let (pass, text) = ori.split_once('\n').expect("a name and a text");
        let name = text.split_whitespace().nth(1).expect("a function's name");
        (name, pass, text.trim())
    };
    dumps.split("; after ").skip(1).map(step).collect()
}

/// A text with values numbered in the order in which they are named: dead values have numbers, but are in no text.
fn renumbered(text: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut result = String::new();
    let mut previous = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let digits = rest[c.len_utf8()..].split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if c == 'v' && !digits.is_empty() && !previous.is_alphanumeric() && previous != '_' {
            let next = numbers.len();
            result += &format!("v{}", numbers.entry(digits).or_insert(next));
            (previous, rest) = ('0', &rest[1 + digits.len()..]);
        } else {
            result.push(c);
            (previous, rest) = (c, &rest[c.len_utf8()..]);
        }
    }
    result
}

/// Launch bounds and `setmaxnreg` limit registers, which the text form does not say: the scheduler is not asked then.
const LIMITS: [&str; 4] = [".maxntid", ".reqntid", ".maxnreg", "setmaxnreg"];

#[test]
fn passes_see_the_same_function_in_text() {
    let options = sassafras::Options::new(ptx::Target::find("sm_90a").expect("a target"));
    let mut compared = 0;
    for program in programs() {
        let source = std::fs::read_to_string(&program).expect("a program");
        let limited = LIMITS.iter().any(|directive| source.contains(directive));
        let dumps = dumps(&source, 3, false);
        for pair in steps(&dumps).windows(2) {
            let [(function, _, before), (next, pass, after)] = *pair else { continue };
            if function != next || limited && pass == "sched-prepass" {
                continue;
            }
            let place = format!("{}: {function}, {pass}", program.display());
            let text = sassafras::opt_text(before, &[pass], &options);
            let text = text.unwrap_or_else(|e| panic!("{place}: {e}"));
            assert_eq!(renumbered(text.trim()), renumbered(after), "{place}");
            compared += 1;
        }
    }
    assert!(compared >= 500, "{compared} steps");
}

fn reads_back(dumps: &str, program: &str) {
    for dump in dumps.split("; after ").skip(1) {
        let dump = dump.split(MACHINE).next().expect("the text before it");
        let (pass, text) = dump.split_once('\n').expect("a name and a text");
        let place = format!("{program} after {pass}");
        let functions = ori::parse::parse(text).unwrap_or_else(|e| panic!("{place}: {e}"));
        let [function] = &functions[..] else { panic!("{place}: not one function") };
        assert_eq!(function.to_string().trim(), text.trim(), "{place}");
        ori::verify::verify(function).unwrap_or_else(|e| panic!("{place}: {e}"));
    }
}

/// The instructions of machine code before `emit`, without comments and terminators.
fn machine_instructions(dumps: &str) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for dump in dumps.split(MACHINE).skip(1) {
        let (pass, text) = dump.split_once('\n').expect("a name and a text");
        let text = text.split("; after ").next().expect("the text before it");
        let lines = text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|_| pass != "emit");
        let lines = lines.map(|line| line.split(" ; ").next().unwrap_or(line).trim());
        let is_end = |line: &str| {
            matches!(line, "exit" | "return")
                || line.starts_with("jump ")
                || line.contains(" branch ")
                || line.starts_with("switch ")
        };
        all.extend(lines.filter(|line| !is_end(line)).map(|line| (pass, line)));
    }
    all
}

#[test]
fn machine_code_reads_back() {
    let mut count = 0;
    for program in programs() {
        let source = std::fs::read_to_string(&program).expect("a program");
        for level in [0, 3] {
            for (pass, line) in machine_instructions(&dumps(&source, level, false)) {
                let inst =
                    sass::parse(sass::Isa::Sm90, line).unwrap_or_else(|e| panic!("{pass}: {line}: {e:?}"));
                let text = line.rsplit("  ").next();
                assert_eq!(Some(inst.to_string().as_str()), text, "{} after {pass}", program.display());
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count} instructions");
}

#[test]
fn conventions_read_back() {
    let source = ".version 9.0\n.target sm_90a\n.address_size 64\n\
                  .extern .func f() .abi_preserve 8 .abi_preserve_control 3;\n\
                  .visible .func (.param .b32 r) g(.param .b32 a) .abi_preserve 9 {\n\
                  .reg .b32 %a; ld.param.b32 %a, [a]; call f; st.param.b32 [r], %a; ret; }\n";
    let dumps = dumps(source, 3, true);
    for part in [" keeping 8 losing B3}", " of 1 keeping 9}"] {
        assert!(dumps.contains(part), "{part}: {dumps}");
    }
    reads_back(&dumps, "conventions");
}

/// What only older machines and objects have.
#[test]
fn withheld_registers_and_slots_read_back() {
    let text = "function f {\n  withheld R24\n  withheld B15\n  symbol picture\nb0:\n    \
                v0:R = LDC slot($0)\n    MOV fixed(R24), v0\n    exit\n}";
    let functions = ori::parse::parse(text).expect("a function");
    assert_eq!(functions[0].withheld, [(ori::File::R, 24), (ori::File::B, 15)]);
    assert_eq!(functions[0].to_string().trim(), text);
}

#[test]
fn mistakes_name_their_line() {
    let wrong = |text: &str| ori::parse::parse(text).expect_err(text).to_string();
    assert_eq!(wrong("function f {\nb0:\n  v0:R = NOPE v1\n  exit\n}"), "line 3: unknown operation 'NOPE'");
    assert_eq!(wrong("function f {\nb0:\n  jump b99999999999\n}"), "line 3: 99999999999 is too large");
    assert_eq!(wrong("function f {\nb0:\n"), "line 2: the function does not end");
    assert_eq!(wrong("v0:R = MOV 0x0"), "line 1: expected 'function NAME {'");
}
