//! Everything that ptxas makes of a folder of PTX: `corpus FOLDER [TARGET...]` compiles each file for each target that
//! ptxas accepts it for, and checks every instruction: it decodes, its text is nvdisasm's, it encodes back to the same
//! bits and its text parses back to the same instruction.
//!
//! `FOLDER` may also be a file of PTX forms, one JSON object a line (`ptx`: an instruction, `accepted`: targets). Each
//! form becomes a kernel that loads the form's registers before it and stores them behind it, so that none is dead.

#[allow(dead_code)]
#[path = "../tests/oracle/mod.rs"]
mod oracle;

use sass::{Isa, WORD_BYTES, decode, encode, parse_at};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

const TARGETS: [&str; 9] =
    ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];

/// Failures that are shown; `SHOW` in the environment overrides it.
fn shown() -> usize {
    env::var("SHOW").ok().and_then(|value| value.parse().ok()).unwrap_or(10)
}

fn main() {
    match run() {
        Ok(clean) => process::exit(i32::from(!clean)),
        Err(error) => {
            eprintln!("{error}");
            process::exit(2);
        }
    }
}

fn run() -> Result<bool, String> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or("corpus FOLDER [TARGET...]")?;
    let mut targets: Vec<String> = arguments.collect();
    if targets.is_empty() {
        targets = TARGETS.map(String::from).to_vec();
    }
    let source = Path::new(&folder);
    let mut files = Vec::new();
    if source.is_dir() {
        ptx_files(source, &mut files)?;
        files.sort();
    }
    let mut clean = true;
    for target in &targets {
        let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
        let isa = digits.parse().ok().and_then(Isa::of_sm).ok_or(format!("no target {target}"))?;
        clean &= match source.is_dir() {
            true => check_target(target, isa, &files)?,
            false => check_forms(target, isa, source)?,
        };
    }
    Ok(clean)
}

/// Forms in one module: enough that ptxas starts seldom, few enough that a module stays small.
const FORMS_A_FILE: usize = 400;

fn check_forms(target: &str, isa: Isa, file: &Path) -> Result<bool, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = format!("\"{target}\"");
    let accepted = |line: &&str| {
        line.split_once("\"accepted\": [")
            .and_then(|(_, rest)| rest.split_once(']'))
            .is_some_and(|(list, _)| list.contains(&name))
    };
    let forms: Vec<&str> = text
        .lines()
        .filter(accepted)
        .filter_map(|line| line.split_once("\"ptx\": \"")?.1.split_once("\", \"").map(|(ptx, _)| ptx))
        .collect();
    let folder = env::temp_dir().join(format!("sass-forms-{}-{target}", process::id()));
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let mut files = Vec::new();
    for (index, forms) in forms.chunks(FORMS_A_FILE).enumerate() {
        let path = folder.join(format!("{index:03}.ptx"));
        let kernels: String = forms.iter().enumerate().map(|(index, form)| kernel(index, form)).collect();
        fs::write(&path, format!("{}{kernels}", HEADER.replace("TARGET", target)))
            .map_err(|e| e.to_string())?;
        files.push(path);
    }
    print!("{} forms; ", forms.len());
    let clean = check_target(target, isa, &files);
    fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    clean
}

/// What the forms name beside registers.
const HEADER: &str = "\
.version 9.0
.target TARGET
.address_size 64
.global .b32 gvar[4];
.const .b32 cvar[4];
.global .texref tref;
.global .surfref sref;
.func (.param .b32 fo) ffun (.param .b32 fi) { .reg .b32 %r<3>; ld.param.b32 %r1,[fi]; st.param.b32 [fo],%r1; ret; }
";

/// Register names of the forms, with their types; longer names first.
const REGISTERS: [(&str, &str); 8] = [
    ("%rd", "b64"),
    ("%r", "b32"),
    ("%f", "f32"),
    ("%h", "b16"),
    ("%d", "f64"),
    ("%q", "b128"),
    ("%b", "b8"),
    ("%p", "pred"),
];

fn kernel(index: usize, form: &str) -> String {
    let mut named = BTreeSet::new();
    for (at, _) in form.match_indices('%') {
        let Some((prefix, kind)) = REGISTERS.iter().find(|(prefix, _)| form[at..].starts_with(prefix)) else {
            continue;
        };
        let digits: String = form[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
        if !digits.is_empty() {
            named.insert((format!("{prefix}{digits}"), *kind));
        }
    }
    let (mut before, mut behind) = (String::new(), String::new());
    for (slot, (register, kind)) in named.iter().enumerate() {
        let place = format!("[%base+{}]", slot * 16);
        if *kind == "pred" {
            before += &format!("ld.global.b32 %bit,{place}; setp.ne.s32 {register},%bit,0;\n");
            behind += &format!("selp.b32 %bit,1,0,{register}; st.global.b32 {place},%bit;\n");
        } else {
            before += &format!("ld.global.{kind} {register},{place};\n");
            behind += &format!("st.global.{kind} {place},{register};\n");
        }
    }
    let rare = |prefix: &str, declaration: &'static str| if form.contains(prefix) { declaration } else { "" };
    format!(
        ".entry k{index}(.param .b64 kp) {{ .reg .b16 %h<20>; .reg .b32 %r<300>; .reg .b64 %rd<20>; .reg .pred %p<8>; \
         .reg .f32 %f<300>; .reg .f64 %d<80>; .shared .align 16 .b8 svar[64]; .local .align 16 .b8 lvar[64]; {}{} \
         .reg .b64 %base; .reg .b32 %bit; ld.param.b64 %base,[kp];\n{before}{form}\n{behind}ret; }}\n",
        rare("%q", ".reg .b128 %q<5>;"),
        rare("%b", ".reg .b8 %b<10>;"),
    )
}

fn ptx_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            ptx_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}

/// Files that ptxas refuses as they stand are tried once more with their `.target` line changed: most code of one
/// target compiles for another.
fn check_target(target: &str, isa: Isa, files: &[PathBuf]) -> Result<bool, String> {
    let folder = env::temp_dir().join(format!("sass-corpus-{}-{target}", process::id()));
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let (mut accepted, mut retargeted, mut instructions) = (0, 0, 0);
    let mut words = BTreeSet::new();
    for file in files {
        let mut cubin = compile(file, target, &folder)?;
        accepted += usize::from(cubin.is_some());
        if cubin.is_none() {
            let changed = folder.join("changed.ptx");
            let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            fs::write(&changed, with_target(&text, target)).map_err(|e| e.to_string())?;
            cubin = compile(&changed, target, &folder)?;
            retargeted += usize::from(cubin.is_some());
        }
        for code in cubin.as_deref().map_or(Some(Vec::new()), code_sections).ok_or("not a cubin")? {
            instructions += code.len();
            words.extend(code);
        }
    }
    fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    let words: Vec<u128> = words.into_iter().collect();
    let failures = failures(isa, &words)?;
    println!(
        "{target}: {accepted} of {} files as they are, {retargeted} with their target changed; {instructions} \
         instructions, {} different words, {} fail",
        files.len(),
        words.len(),
        failures.len()
    );
    failures.iter().take(shown()).for_each(|failure| println!("  {failure}"));
    Ok(failures.is_empty() && accepted + retargeted > 0)
}

/// The cubin that ptxas makes, or nothing where it refuses the file.
fn compile(file: &Path, target: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let cubin = folder.join("cubin");
    let output = Command::new(oracle::nvdisasm()?.with_file_name("ptxas"))
        .args(["-arch", target, "-o"])
        .args([&cubin, file])
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Ok(None);
    }
    fs::read(&cubin).map(Some).map_err(|e| e.to_string())
}

fn with_target(ptx: &str, target: &str) -> String {
    let line = |line: &str| match line.starts_with(".target") {
        true => format!(".target {target}\n"),
        false => format!("{line}\n"),
    };
    ptx.lines().map(line).collect()
}

/// A word's text depends on the word and its address alone, so each different word is asked for once.
fn failures(isa: Isa, words: &[u128]) -> Result<Vec<String>, String> {
    let mut failures = Vec::new();
    for (index, (&word, theirs)) in words.iter().zip(oracle::texts(isa, words)?).enumerate() {
        if let Err(why) = check(isa, word, index as u64 * WORD_BYTES, theirs.as_deref()) {
            failures.push(format!("{word:032x} {} : {why}", theirs.unwrap_or_default()));
        }
    }
    Ok(failures)
}

/// The words of each executable section of an ELF file.
fn code_sections(elf: &[u8]) -> Option<Vec<Vec<u128>>> {
    let number = |at: usize, bytes: usize| {
        let field = elf.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0usize, |value, &byte| value << 8 | usize::from(byte)))
    };
    let (headers, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let mut sections = Vec::new();
    for header in (0..count).map(|index| headers + index * size) {
        const EXECUTABLE: usize = 4;
        if number(header + 8, 8)? & EXECUTABLE != 0 {
            let (offset, length) = (number(header + 0x18, 8)?, number(header + 0x20, 8)?);
            let words = elf.get(offset..offset + length)?.chunks_exact(WORD_BYTES as usize);
            sections
                .push(words.filter_map(|word| Some(u128::from_le_bytes(word.try_into().ok()?))).collect());
        }
    }
    Some(sections)
}

fn check(isa: Isa, word: u128, address: u64, theirs: Option<&str>) -> Result<(), String> {
    let inst = decode(isa, word);
    match (inst.raw_word(), theirs) {
        // ptxas writes a few words that nvdisasm rejects: there is nothing to compare with, and nothing to say.
        (Some(_), None) if encode(&inst) == Ok(word) => return Ok(()),
        (Some(_), _) => return Err("no row".into()),
        _ => (),
    }
    let ours = inst.at(address).like_nvdisasm().to_string();
    if theirs != Some(ours.trim_end()) {
        return Err(format!("prints as {ours}"));
    }
    if encode(&inst) != Ok(word) {
        return Err(format!("encodes as {:x?}", encode(&inst)));
    }
    match parse_at(isa, &format!("{} {}", inst.control, inst.at(address)), address) {
        Ok(parsed) if parsed == inst => Ok(()),
        other => Err(format!("parses as {other:?}")),
    }
}
