//! Checks that cubins survive reading and writing: `cargo run -p sassafras-cubin --example roundtrip -- FILE…`
//!
//! For each file: it reads; writing the model gives the same bytes; reading those gives the same model. At the end
//! come counts of what was seen, among them what has no typed form. The exit status is 1 if any file failed.

use std::process::ExitCode;

use cubin::attr::Value;
use cubin::compat::CompatValue;
use cubin::line::{self, LineTable, Row};
use cubin::{Body, Extent, Note, Object, SectionType};

fn main() -> ExitCode {
    let mut counts = Counts::default();
    for path in std::env::args().skip(1) {
        match check(&path) {
            Ok(object) => counts.add(&object),
            Err(problem) => {
                counts.failures += 1;
                println!("{path}: {problem}");
            }
        }
    }
    println!("{counts}");
    if counts.failures + counts.bad_line_tables == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(path: &str) -> Result<Object, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let object = Object::read(&bytes).map_err(|error| format!("reading: {error}"))?;
    let written = object.write().map_err(|error| format!("writing: {error}"))?;
    if written != bytes {
        let at = written.iter().zip(&bytes).position(|(ours, theirs)| ours != theirs);
        let sizes = (written.len(), bytes.len());
        return Err(format!("the bytes differ, first at {at:x?}; sizes {sizes:x?}"));
    }
    let again = Object::read(&written).map_err(|error| format!("reading again: {error}"))?;
    if again != object {
        return Err("the second model differs from the first".into());
    }
    Ok(object)
}

#[derive(Default)]
struct Counts {
    files: usize,
    failures: usize,
    sections: usize,
    symbols: usize,
    relocs: usize,
    unnamed_relocs: usize,
    attrs: usize,
    raw_attrs: usize,
    unnamed_attrs: usize,
    segments: usize,
    fixed_segments: usize,
    untyped_notes: usize,
    untyped_call_graphs: usize,
    line_tables: usize,
    same_line_bytes: usize,
    bad_line_tables: usize,
}

impl Counts {
    fn add(&mut self, object: &Object) {
        self.files += 1;
        self.sections += object.sections.len();
        self.segments += object.segments.len();
        let fixed = object.segments.iter().filter(|segment| matches!(segment.extent, Extent::Fixed { .. }));
        self.fixed_segments += fixed.count();
        for section in &object.sections {
            self.add_body(section.kind, &section.body);
            if [".debug_line", ".nv_debug_line_sass"].contains(&section.name.as_str()) {
                self.add_lines(&section.body);
            }
        }
    }

    /// Line tables are not part of the model; they have to survive as rows.
    fn add_lines(&mut self, body: &Body) {
        let Body::Bytes(bytes) = body else { return };
        let Ok(tables) = line::read(bytes) else {
            self.bad_line_tables += 1;
            return;
        };
        let written: Vec<u8> = tables.iter().flat_map(|table| table.write().0).collect();
        self.line_tables += 1;
        self.same_line_bytes += usize::from(&written == bytes);
        let rows = |tables: &[LineTable]| -> Vec<Vec<Row>> {
            let sequences = tables.iter().flat_map(|table| &table.sequences);
            sequences.map(|sequence| sequence.rows.clone()).collect()
        };
        let same = line::read(&written).is_ok_and(|again| rows(&again) == rows(&tables));
        self.bad_line_tables += usize::from(!same);
    }

    fn add_body(&mut self, kind: SectionType, body: &Body) {
        match body {
            Body::Symbols(symbols) => self.symbols += symbols.len(),
            Body::Relocs(relocs) => {
                self.relocs += relocs.len();
                // The capsule's relocations have numbers of their own, which no tool names.
                let unnamed = relocs.iter().filter(|reloc| reloc.kind.name().is_none());
                self.unnamed_relocs += if kind == SectionType::MERCURY_RELA { 0 } else { unnamed.count() };
            }
            Body::Info(attrs) => {
                self.attrs += attrs.len();
                let raw = |value: &Value| matches!(value, Value::RawSized(_) | Value::RawShort { .. });
                self.raw_attrs += attrs.iter().filter(|attr| raw(&attr.value)).count();
                self.unnamed_attrs += attrs.iter().filter(|attr| attr.code.name().is_none()).count();
            }
            Body::Compat(records) => {
                self.attrs += records.len();
                let raw = |value: &CompatValue| {
                    matches!(value, CompatValue::RawSized(_) | CompatValue::RawShort { .. })
                };
                self.raw_attrs += records.iter().filter(|record| raw(&record.value)).count();
                self.unnamed_attrs += records.iter().filter(|record| record.code.name().is_none()).count();
            }
            Body::Notes(notes) => {
                self.untyped_notes += notes.iter().filter(|note| matches!(note, Note::Other { .. })).count();
            }
            Body::Bytes(_) if kind == SectionType::CUDA_CALLGRAPH => self.untyped_call_graphs += 1,
            _ => {}
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} files survive, {} do not", self.files, self.failures)?;
        writeln!(f, "{} sections, {} symbols", self.sections, self.symbols)?;
        writeln!(f, "{} segments, {} of them not a run of sections", self.segments, self.fixed_segments)?;
        writeln!(f, "{} relocations, {} of them without a name", self.relocs, self.unnamed_relocs)?;
        writeln!(
            f,
            "{} attributes, {} of them raw, {} without a name",
            self.attrs, self.raw_attrs, self.unnamed_attrs
        )?;
        writeln!(
            f,
            "{} line tables, {} written with the same bytes, {} with other rows",
            self.line_tables, self.same_line_bytes, self.bad_line_tables
        )?;
        write!(f, "{} untyped notes, {} untyped call graphs", self.untyped_notes, self.untyped_call_graphs)
    }
}
