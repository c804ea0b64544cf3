//! Compares two cubins that ptxas made from two spellings of one module.
//!
//! Everything must be equal, section by section, but what depends on how the PTX text is broken into lines:
//! when the module has `.loc` directives, ptxas writes the PTX text itself into `.nv_debug_ptx_txt`, and the
//! line of the PTX text for each instruction into `.nv_debug_line_sass` (with its relocations). Measured by
//! putting empty lines before a module: these sections change and nothing else does. File offsets follow from
//! the sizes of the sections, so they aren't compared.

use crate::Result;
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};

fn depends_on_lines(section: &str) -> bool {
    section.ends_with("nv_debug_line_sass") || section == ".nv_debug_ptx_txt"
}

/// The first difference, or `None` if there is none.
pub fn first_difference(left: &[u8], right: &[u8]) -> Result<Option<String>> {
    let (left, right) = (Cubin::read(left)?, Cubin::read(right)?);
    if left.identity != right.identity {
        return Ok(Some("ELF header".into()));
    }
    if left.sections.len() != right.sections.len() {
        return Ok(Some(format!("{} and {} sections", left.sections.len(), right.sections.len())));
    }
    let different = left.sections.iter().zip(&right.sections).find(|(left, right)| left != right);
    Ok(different.map(|(left, right)| {
        let what = if left.name != right.name {
            format!("stands where {} stood", left.name)
        } else if left.fields != right.fields {
            "header".into()
        } else {
            "contents".into()
        };
        format!("section {}: {what}", right.name)
    }))
}

/// The sections of a cubin, and what is in them.
pub fn contents(cubin: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let header = FileHeader64::<LittleEndian>::parse(cubin)?;
    let e = header.endian()?;
    let table = header.sections(e, cubin)?;
    let section = |section: &_| -> Result<(String, Vec<u8>)> {
        let name = String::from_utf8_lossy(table.section_name(e, section)?).into_owned();
        Ok((name, section.data(e, cubin)?.to_vec()))
    };
    table.iter().map(section).collect()
}

struct Cubin<'a> {
    /// Type, machine, version, flags.
    identity: [u32; 4],
    sections: Vec<Section<'a>>,
}

#[derive(PartialEq)]
struct Section<'a> {
    name: String,
    /// Type, flags, address, size, link, info, alignment, entry size.
    fields: [u64; 8],
    data: &'a [u8],
}

impl<'a> Cubin<'a> {
    fn read(bytes: &'a [u8]) -> Result<Cubin<'a>> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let e = header.endian()?;
        let table = header.sections(e, bytes)?;
        let mut sections = Vec::new();
        for section in table.iter() {
            let name = String::from_utf8_lossy(table.section_name(e, section)?).into_owned();
            let kept = !depends_on_lines(&name);
            sections.push(Section {
                fields: [
                    section.sh_type(e).into(),
                    section.sh_flags(e),
                    section.sh_addr(e),
                    if kept { section.sh_size(e) } else { 0 },
                    section.sh_link(e).into(),
                    section.sh_info(e).into(),
                    section.sh_addralign(e),
                    section.sh_entsize(e),
                ],
                data: if kept { section.data(e, bytes)? } else { &[] },
                name,
            });
        }
        let identity =
            [header.e_type(e).into(), header.e_machine(e).into(), header.e_version(e), header.e_flags(e)];
        Ok(Cubin { identity, sections })
    }
}
