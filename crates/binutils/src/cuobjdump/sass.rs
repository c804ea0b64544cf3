//! `-sass`: the instructions of each function, without labels.

use crate::code::{self, Guards, Line, Width};
use cubin::Note;
use cubin::SectionType;
use cubin::raw::File;
use std::fmt::Write;

pub fn print(out: &mut String, file: &File, functions: &[&str]) -> Result<(), String> {
    let isa = code::isa(file.header.sm())?;
    let target = crate::nvdisasm::target(file);
    let _ = write!(out, "\n\tcode for {target}\n");
    let mut all = Vec::new();
    for section in file.sections.iter().filter(|section| section.is_code() && !section.is_capsule()) {
        let name = section.name.strip_prefix(".text.").unwrap_or(&section.name);
        if !functions.is_empty() && !functions.contains(&name) {
            continue;
        }
        let lines: Vec<Line> = code::words(section.bytes)
            .map(|(address, word)| Line::new(&sass::decode(isa, word), address, word, None))
            .collect();
        all.push((name, lines));
    }
    if !all.is_empty() || functions.is_empty() {
        let _ = writeln!(out, "\t.target\t{target}");
    }
    let width = Width::of(all.iter().flat_map(|(_, lines)| lines));
    for (name, lines) in &all {
        let _ = write!(out, "\n\t\tFunction : {name}\n\t.headerflags\t@\"{}\"\n", flags(file));
        for line in lines {
            let _ = writeln!(out, "{}", line.with_word(width, Guards::InColumn));
        }
        out.push_str("\t\t..........\n\n");
    }
    out.push('\n');
    Ok(())
}

fn flags(file: &File) -> String {
    let specific = crate::nvdisasm::target(file).ends_with('a');
    let accelerators = if specific { "EF_CUDA_ACCELERATORS " } else { "" };
    let sm = file.header.sm();
    format!("{accelerators}EF_CUDA_SM{sm} EF_CUDA_VIRTUAL_SM(EF_CUDA_SM{})", virtual_sm(file))
}

/// The `.target` of the PTX.
fn virtual_sm(file: &File) -> u16 {
    let notes = file.sections.iter().filter(|section| section.kind == SectionType::NOTE);
    let mut notes = notes.flat_map(|section| cubin::notes(section.bytes).unwrap_or_default());
    notes
        .find_map(|note| match note {
            Note::Cuda(cuda) => Some(cuda.virtual_sm),
            _ => None,
        })
        .unwrap_or(file.header.sm())
}
