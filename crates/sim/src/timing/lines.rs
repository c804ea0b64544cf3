//! Lines of the PTX text, or of the source, for addresses of functions.

use cubin::line::{self, Sequence};
use cubin::{Body, Home, Object};
use std::collections::BTreeMap;

/// For each function, addresses with the line that the code from there on belongs to.
#[derive(Clone, Debug, Default)]
pub struct Lines(BTreeMap<String, Vec<(u64, u64)>>);

impl Lines {
    /// Of the PTX text (`-lineinfo`); nothing where the file has none.
    pub fn of_ptx(file: &[u8]) -> Lines {
        Lines::read(file, "nv_debug_line_sass")
    }

    /// Of the source that `.loc` named.
    pub fn of_source(file: &[u8]) -> Lines {
        Lines::read(file, "debug_line")
    }

    fn read(file: &[u8], name: &str) -> Lines {
        let mut lines = Lines::default();
        let Ok(object) = Object::read(file) else { return lines };
        let tables =
            object.sections.iter().enumerate().filter(|(_, s)| s.name.trim_start_matches('.') == name);
        for (index, section) in tables {
            let Body::Bytes(bytes) = &section.body else { continue };
            for table in line::read(bytes).unwrap_or_default() {
                for sequence in &table.sequences {
                    let Some(function) = function(&object, index, sequence) else { continue };
                    let rows = sequence.rows.iter().map(|row| (row.address, row.line)).collect();
                    lines.0.insert(function, rows);
                }
            }
        }
        lines
    }

    /// The line of an address.
    pub fn line(&self, function: &str, address: u64) -> Option<u64> {
        let rows = self.0.get(function)?;
        let above = rows.partition_point(|(start, _)| *start <= address);
        rows.get(above.checked_sub(1)?).map(|(_, line)| *line)
    }
}

/// The function that the relocation of a sequence's address names.
fn function(object: &Object, section: usize, sequence: &Sequence) -> Option<String> {
    let tables = object.sections.iter().filter(|table| table.info as usize == section);
    let relocs = tables.filter_map(|table| match &table.body {
        Body::Relocs(relocs) => Some(relocs),
        _ => None,
    });
    let reloc = relocs.flatten().find(|reloc| reloc.offset == sequence.address_at)?;
    let Home::Section(home) = object.symbols().get(reloc.symbol as usize)?.home else { return None };
    object.sections.get(home as usize)?.name.strip_prefix(".text.").map(str::to_string)
}
