//! Real modules: they parse without an error, and what the printer makes of them parses to the same tree.

use ptx::{Options, Parsed, Severity};
use std::path::{Path, PathBuf};

fn modules_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of modules") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            modules_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            found.push(path);
        }
    }
}

fn first_error(parsed: &Parsed) -> Option<String> {
    let error = parsed.diagnostics.iter().find(|d| d.severity >= Severity::Error)?;
    Some(format!("line {}: {}", error.line.unwrap_or(0), error.message))
}

/// What is wrong with a module, if anything is.
fn check(source: &str) -> Result<(), String> {
    let parsed = ptx::parse(source, &Options::default());
    if let Some(error) = first_error(&parsed) {
        return Err(format!("rejected, {error}"));
    }
    let module = parsed.module.ok_or("no module, but no error either")?;
    let printed = ptx::print(&module);
    let again = ptx::parse(&printed, &Options::default());
    match first_error(&again) {
        Some(error) => Err(format!("printed text is rejected, {error}")),
        None if again.module.as_ref() != Some(&module) => Err("printed text has another tree".into()),
        None => Ok(()),
    }
}

#[test]
fn real_modules_survive_printing() {
    let mut files = Vec::new();
    modules_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus"), &mut files);
    files.sort();
    assert!(files.len() >= 40, "only {} modules found", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let source = std::fs::read_to_string(file).expect("a readable module");
        if let Err(why) = check(&source) {
            wrong.push(format!("{}: {why}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} modules:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

/// What no module of the corpus has: each construct of the language that isn't an instruction.
#[test]
fn every_construct_survives_printing() {
    let source = r#"
.version 9.0
.target sm_90, texmode_independent
.address_size 64
.file 1 "a.cu", 1234, 5678
.file 2 "b.cu"
.pragma "nounroll";
.extern .global .align 8 .b8 declared[];
.visible .global .attribute(.managed) .v2 .u32 pair = {1, 2};
.global .u32 matrix[2][3] = {{1, 2, 3}, {4}};
.global .u64 pointers[3] = {pair, generic(pair)+4, matrix+8};
.global .u8 bytes[2] = {0xff(pair), 0xff00(generic(pair)+4)};
.global .f64 number = 1.5;
.global .texref texture = {width = 16, filter_mode = linear};
.global .samplerref sampler = {addr_mode_0 = clamp_to_edge, force_unnormalized_coords = 1};
.const .u32 several<3>;
.common .global .u32 shared_by_modules;
.shared .align 16 .b8 scratch[1024];
.func (.param .u32 r) callee(.param .u32 a, .param .align 8 .b8 b[16]) .abi_preserve 8;
.extern .func never() .noreturn;
.visible .func f(.reg .u32 x) { ret; }
.visible .func g(.reg .u32 x);
.alias g, f;
.weak .entry k(.param .u64 .ptr .global .align 16 p, .param .u32 q)
.maxntid 16, 16, 1 .minnctapersm 2 .pragma "nounroll"; .explicitcluster .maxclusterrank 8
{
    .reg .pred %p<3>;
    .reg .v4 .f32 %v, %w<2>;
    .reg .b64 %rd<3>;
    .local .u32 stack[4];
    .param .u32 argument;
    .func late(.reg .u32 a);
    .alias late, f;
    .pragma "frequency 4";
    .loc 1 2 3
    .loc 1 5 0, function_name $info+4, inlined_at 1 2 3
    P: .callprototype (.param .u32 _) _ (.param .u32 _, .reg .u64 x) .abi_preserve 4;
    Q: .callprototype _ () .noreturn;
    L0: L1:
    T: .branchtargets L<2>, END;
    C: .calltargets f, callee;
    { .reg .u32 inner; L0: @!%p1 bra L0; }
    END:
    ret;
}
.section .debug_str { $info: .b8 107, -1 .b32 $info+4 .b64 .debug_abbrev }
"#;
    check(source).unwrap();
}
