//! `-json`: the functions of a file with their instructions.

use super::labels::Labels;
use super::print::{self, Named};
use crate::code;
use cubin::raw::File;
use cubin::{Note, Symbol, SymbolType};
use sass::{Inst, Op};
use std::fmt::Write;

/// nvdisasm's own words about itself.
const PRODUCER: &str = "nvdisasm V13.2.51 Build cuda_13.2.r13.2/compiler.37434383_0";

pub fn file(file: &File) -> Result<String, String> {
    let labels = Labels::new(file)?;
    let isa = code::isa(file.header.sm())?;
    let mut out = head(file);
    out.push_str(",[");
    let mut separator = "";
    for (index, section) in file.sections.iter().enumerate() {
        if !section.is_code() || section.is_capsule() {
            continue;
        }
        let functions = functions(file, &labels, index);
        for (number, function) in functions.iter().enumerate() {
            let end = functions.get(number + 1).map_or(section.size, |next| next.value);
            let _ = write!(
                out,
                "{separator}{{\"function-name\":\"{}\",\"start\":{},\"length\":{},\"other-attributes\":[],\"sass-instructions\":[",
                function.name, function.value, function.size
            );
            let mut comma = "";
            let inside = |address: u64| (function.value..end).contains(&address);
            for (address, word) in code::words(section.bytes).filter(|(address, _)| inside(*address)) {
                out.push_str(comma);
                instruction(&mut out, file, &labels, index, address, &sass::decode(isa, word));
                comma = ",";
            }
            out.push_str("]}");
            separator = ",";
        }
    }
    out.push_str("]]");
    Ok(out)
}

/// The functions of a section, in the order of the code.
fn functions<'a>(file: &'a File, labels: &Labels, section: usize) -> Vec<&'a Symbol> {
    let here = labels.symbols.range((section, 0)..(section + 1, 0)).flat_map(|(_, symbols)| symbols);
    let symbols = here.filter_map(|&symbol| file.symbols.get(symbol));
    symbols.filter(|symbol| symbol.kind == SymbolType::FUNCTION).collect()
}

fn head(file: &File) -> String {
    let header = &file.header;
    let (major, minor) = (header.sm() / 10, header.sm() % 10);
    let mut out = format!(
        "[{{\"ELF\":{{\"layout-id\":{},\"ei_osabi\":{},\"ei_abiversion\":{}}},\"SM\":{{\"version\":{{\"major\":{major},\"minor\":{minor}}}}},",
        header.flags.kind(),
        header.abi.os,
        header.abi.version,
    );
    let _ = write!(
        out,
        "\"SchemaVersion\":{{\"major\":13,\"minor\":2,\"revision\":0}},\"Producer\":\"{PRODUCER}\",\"Description\":\"\""
    );
    let (mut cuda, mut tool) = (String::new(), String::new());
    for section in file.sections.iter().filter(|section| section.kind == cubin::SectionType::NOTE) {
        for note in cubin::notes(section.bytes).unwrap_or_default() {
            match note {
                Note::Cuda(info) => {
                    let _ = write!(
                        cuda,
                        ",\".note.nv.cuinfo\":{{\"nv_note_cuinfo\":{},\"nv_note_cuinfo_virt_sm\":{},\"nv_note_cuinfo_toolVersion\":{}}}",
                        info.note_version, info.virtual_sm, info.toolkit
                    );
                }
                Note::Tool(info) if tool.is_empty() => {
                    let _ = write!(
                        tool,
                        ",\".note.nv.tkinfo\":{{\"nv_note_tkinfo\": {},\"tki_objFname\": \"{}\", \"tki_toolName\": \"{}\",\"tki_toolVersion\": \"{}\",\"tki_toolBranch\": \"{}\",\"tki_toolOptions\": \"{}\"}}",
                        info.note_version,
                        escaped(&info.object_name),
                        escaped(&info.tool_name),
                        escaped(&info.tool_version),
                        escaped(&info.branch),
                        escaped(&info.command_line)
                    );
                }
                _ => {}
            }
        }
    }
    out + &cuda + &tool + "}"
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn instruction(out: &mut String, file: &File, labels: &Labels, section: usize, address: u64, inst: &Inst) {
    let instead = print::instead(file, labels, section, address, inst, Named::Bare);
    let at = inst.at(address).like_nvdisasm();
    let text = match &instead {
        Some((operand, text)) => at.with(*operand, text).to_string(),
        None => at.to_string(),
    };
    let (guard, text) = match text.split_once(' ').filter(|_| text.starts_with('@')) {
        Some((guard, text)) => (guard, text),
        None => ("", text.as_str()),
    };
    let (opcode, operands) = text.split_once(' ').unwrap_or((text, ""));
    // The word for all predicates counts as one that guards.
    let (guard, operands) = match operands.replacen("PR, ", "", 1) {
        rest if rest != operands => ("PR", rest),
        _ => (guard, operands.to_string()),
    };
    out.push('{');
    if !guard.is_empty() {
        let _ = write!(out, "\"predicate\":\"{guard}\",");
    }
    let _ = write!(out, "\"opcode\":\"{opcode}\"");
    if !operands.is_empty() {
        let _ = write!(out, ",\"operands\":\"{}\"", escaped(&joined(&operands)));
    }
    let is_call = instead.is_some() || code::target(inst, address).is_none();
    let attributes = attributes(inst, is_call);
    if !attributes.is_empty() {
        let _ = write!(out, ",\"other-attributes\":{{{attributes}}}");
    }
    out.push('}');
}

/// Commas without blanks, also where the listing has a blank alone; a bracket follows a register without one.
fn joined(operands: &str) -> String {
    let text = operands.replace(", [", "[").replace(", ", ",");
    let mut out = String::with_capacity(text.len());
    let mut depth = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        let separates = c == ' ' && depth == 0 && chars.peek().is_some_and(|&next| next != ',');
        out.push(if separates { ',' } else { c });
    }
    out
}

/// A call to a place without a name is a jump.
fn attributes(inst: &Inst, is_call: bool) -> &'static str {
    match inst.op() {
        Op::BAR => "\"inter-warp-barrier\":\"True\"",
        Op::CALL if is_call => "\"control-flow\":\"True\",\"subroutine-call\":\"True\"",
        Op::BMOV
        | Op::BPT
        | Op::BRA
        | Op::BREAK
        | Op::BRX
        | Op::BSSY
        | Op::BSYNC
        | Op::CALL
        | Op::ELECT
        | Op::ENDCOLLECTIVE
        | Op::EXIT
        | Op::NANOSLEEP
        | Op::RET
        | Op::WARPSYNC
        | Op::YIELD => "\"control-flow\":\"True\"",
        _ => "",
    }
}
