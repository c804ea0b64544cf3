//! Which PTX forms compile: `forms FILE.jsonl TARGET [FAMILY…]`, with FILE as in `data/ptx-forms.jsonl`.
//!
//! Prints each form that the target accepts and we don't compile, with the reason, and a count by family.
//! `KEEP=FOLDER` writes the cubins there, one per family, for nvdisasm to read.

use std::collections::BTreeMap;

const FUNCTION: &str = ".func (.param .b32 fo) ffun (.param .b32 fi) \
    { .reg .b32 %r<3>; ld.param.b32 %r1,[fi]; st.param.b32 [fo],%r1; ret; }";

/// The frame of a form; declarations that it doesn't name are left out, and those that `before` has.
fn frame(target: &str, form: &str, name: &str, before: &str) -> String {
    let module = [
        ("gvar", ".global .b32 gvar[4];"),
        ("cvar", ".const .b32 cvar[4];"),
        ("tref", ".global .texref tref;"),
        ("sref", ".global .surfref sref;"),
        ("ffun", FUNCTION),
    ];
    let inside = [
        ("svar", ".shared .align 16 .b8 svar[64];"),
        ("lvar", ".local .align 16 .b8 lvar[64];"),
        ("%q", ".reg .b128 %q<5>;"),
        ("%b", ".reg .b8 %b<10>;"),
    ];
    let mut text = String::new();
    if before.is_empty() {
        text += &format!(".version 9.0\n.target {target}\n.address_size 64\n");
    }
    for (word, line) in module {
        if form.contains(word) && !before.contains(line) {
            text += &format!("{line}\n");
        }
    }
    text +=
        &format!(".entry {name}(.param .b64 kp) {{ .reg .b16 %h<20>; .reg .b32 %r<300>; .reg .b64 %rd<20>; ");
    text += ".reg .pred %p<8>; .reg .f32 %f<300>; .reg .f64 %d<80>; ";
    text.extend(inside.iter().filter(|(word, _)| form.contains(word)).map(|(_, line)| *line));
    text + "\n" + form + "\nret; }\n"
}

fn compile(source: &str, target: &str) -> Result<Vec<u8>, String> {
    let options = sassafras::Options::new(ptx::Target::find(target).ok_or("no such target")?).with(|o| {
        o.verify = true;
    });
    sassafras::compile(source, &options).map(|compiled| compiled.bytes).map_err(|e| e.to_string())
}

/// A string of a line of JSON.
fn field(line: &str, name: &str) -> Option<String> {
    let key = format!("\"{name}\": \"");
    let from = line.find(&key)? + key.len();
    let mut end = from;
    while *line.as_bytes().get(end)? != b'"' {
        end += if line.as_bytes()[end] == b'\\' { 2 } else { 1 };
    }
    Some(line[from..end].replace("\\\"", "\"").replace("\\n", "\n").replace("\\t", "\t"))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, target, families @ ..] = &args[..] else { panic!("forms FILE.jsonl TARGET [FAMILY…]") };
    let text = std::fs::read_to_string(file).expect("the file of forms");
    let mut count: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (Some(family), Some(ptx)) = (field(line, "family"), field(line, "ptx")) else { continue };
        let accepted = line.split("\"accepted\": [").nth(1).and_then(|r| r.split(']').next()).unwrap_or("");
        let wanted = families.is_empty() || families.contains(&family);
        if !wanted || !accepted.contains(&format!("\"{target}\"")) {
            continue;
        }
        let entry = count.entry(family.clone()).or_default();
        entry.1 += 1;
        match compile(&frame(target, &ptx, "k", ""), target) {
            Ok(_) => {
                entry.0 += 1;
                let all = kept.entry(family).or_default();
                let next = frame(target, &ptx, &format!("k{}", entry.0), all);
                all.push_str(&next);
            }
            Err(why) => println!("{family}: {ptx}\n    {why}"),
        }
    }
    if let Ok(folder) = std::env::var("KEEP") {
        for (family, source) in &kept {
            match compile(source, target) {
                Ok(bytes) => std::fs::write(format!("{folder}/{family}-{target}.cubin"), bytes)
                    .expect("a place to write"),
                Err(why) => println!("{family} together: {why}"),
            }
        }
    }
    for (family, (fine, all)) in count {
        println!("{family}: {fine} of {all}");
    }
}
