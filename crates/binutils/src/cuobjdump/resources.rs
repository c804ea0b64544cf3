//! `-res-usage`.

use cubin::attr::{self, Attr, Code, Value};
use cubin::raw::{File, Section};
use cubin::{Home, SectionType, SymbolType};
use std::fmt::Write;

pub fn print(out: &mut String, file: &File) -> Result<(), String> {
    out.push_str("\nResource usage:\n Common:\n");
    let of_all = |names: &[&str]| -> u64 {
        file.sections
            .iter()
            .filter(|section| names.contains(&section.name.as_str()))
            .map(|section| section.size)
            .sum()
    };
    let _ = write!(out, "  GLOBAL:{}", of_all(&[".nv.global", ".nv.global.init"]));
    for bank in BANKS {
        let size = of_all(&[&format!(".nv.constant{bank}")]);
        if size > 0 {
            let _ = write!(out, " CONSTANT[{bank}]:{size}");
        }
    }
    out.push('\n');
    let attributes = file.section(".nv.info").map_or(&[][..], |(_, section)| section.bytes);
    let attributes = attr::decode(attributes).map_err(|flaw| flaw.message)?;
    for (index, section) in file.sections.iter().enumerate() {
        if section.is_code() && !section.is_capsule() {
            function(out, file, &attributes, index, section);
        }
    }
    Ok(())
}

const BANKS: std::ops::Range<u32> = 0..18;

fn function(out: &mut String, file: &File, attributes: &[Attr], index: usize, section: &Section) {
    let name = section.name.strip_prefix(".text.").unwrap_or(&section.name);
    let symbol = file.symbols.iter().position(|symbol| {
        symbol.kind == SymbolType::FUNCTION
            && symbol.name == name
            && symbol.home == Home::Section(index as u32)
    });
    let is_entry = symbol.is_some_and(|symbol| file.symbols[symbol].other.is_entry());
    let value = |wanted: Code| {
        attributes.iter().find_map(|attribute| match attribute.value {
            Value::PerSymbol { symbol: of, value }
                if attribute.code == wanted && Some(of as usize) == symbol =>
            {
                Some(value)
            }
            _ => None,
        })
    };
    let registers = value(Code::REGCOUNT).filter(|_| is_entry);
    // Before sm_90 the section of any function says it too.
    let registers = registers.unwrap_or(section.info >> 24);
    let stack = match value(Code::MIN_STACK_SIZE) {
        Some(u32::MAX) => "UNKNOWN".to_string(),
        stack => stack.unwrap_or(0).to_string(),
    };
    let of_function = |prefix: &str| {
        let wanted = format!("{prefix}.{name}");
        file.sections.iter().find(|section| section.name == wanted).map_or(0, |section| section.size)
    };
    let _ = write!(
        out,
        " Function {name}:\n  REG:{registers} STACK:{stack} SHARED:{} LOCAL:0",
        of_function(".nv.shared")
    );
    for section in &file.sections {
        let bank = section
            .name
            .strip_prefix(".nv.constant")
            .and_then(|rest| rest.strip_suffix(name)?.strip_suffix('.'));
        if let Some(bank) = bank.filter(|bank| bank.parse::<u32>().is_ok_and(|bank| BANKS.contains(&bank)))
            && section.kind != SectionType::NULL
        {
            let _ = write!(out, " CONSTANT[{bank}]:{}", section.size);
        }
    }
    out.push_str(" TEXTURE:0 SURFACE:0 SAMPLER:0\n");
}
