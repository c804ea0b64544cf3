//! Writes the table as static Rust: `Op`, `M` (every modifier and named operand), `FORMS` and the two indexes.

use crate::row::{Form, Mod, Name, Pieces, SM_75, SM_120, Slot, Table, width};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Guard, control code: bits that every instruction has.
const COMMON: u128 = 0xf000 | 0xf_ffff << 105;

/// The operation of words that no row describes; its one form is not in the table.
const RAW: &str = "RAW";

pub fn rust(table: &Table) -> Result<String, String> {
    let mut forms: Vec<&Form> = table.forms.iter().collect();
    forms.sort_by(|a, b| a.op.cmp(&b.op)); // stable: rows of one operation keep their order
    let mut out = String::new();
    names(&mut out, &forms);
    let mut by_code: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    writeln!(
        out,
        "/// Every form, the forms of an operation together.\npub static FORMS: [Form; {}] = [",
        forms.len()
    )
    .unwrap();
    let mut errors = BTreeSet::new();
    for (index, form) in forms.iter().enumerate() {
        by_code.entry(form.code).or_default().push(index);
        if let Err(error) = form_static(&mut out, form) {
            errors.insert(format!("{}: {error}", form.line));
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_iter().collect::<Vec<_>>().join("\n"));
    }
    writeln!(out, "];").unwrap();
    indexes(&mut out, &forms, &by_code);
    Ok(out)
}

/// A printed name as a Rust identifier.
fn ident(name: &str) -> String {
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) { format!("_{clean}") } else { clean }
}

fn enumeration(out: &mut String, name: &str, doc: &str, values: &BTreeSet<&str>, first: &str) {
    let idents: Vec<(String, &str)> = values.iter().map(|value| (ident(value), *value)).collect();
    writeln!(out, "/// {doc}\n#[allow(non_camel_case_types, clippy::upper_case_acronyms)]").unwrap();
    writeln!(out, "#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]\n#[repr(u16)]")
        .unwrap();
    writeln!(out, "pub enum {name} {{ {first}").unwrap();
    for (ident, value) in &idents {
        writeln!(out, "/// `{value}`\n{ident},").unwrap();
    }
    let list = format!("{}_NAMES", name.to_ascii_uppercase());
    writeln!(out, "}}\n/// Every name, sorted as text.\npub static {list}: &[({name}, &str)] = &[").unwrap();
    for (ident, value) in &idents {
        writeln!(out, "({name}::{ident}, {value:?}),").unwrap();
    }
    writeln!(out, "];").unwrap();
}

fn names(out: &mut String, forms: &[&Form]) {
    let mut ops: BTreeSet<&str> = forms.iter().map(|form| form.op.as_str()).collect();
    ops.insert(RAW);
    enumeration(out, "Op", "An operation: the first word of an instruction's text.", &ops, "");
    let mut names: BTreeSet<&str> = BTreeSet::new();
    fn add<'a>(names: &mut BTreeSet<&'a str>, values: &'a [Name]) {
        names.extend(values.iter().filter_map(|value| match value {
            Name::Text(text, _) => Some(text.as_str()),
            _ => None,
        }));
    }
    for form in forms {
        for m in &form.mods {
            match m {
                Mod::Literal(text) => {
                    names.insert(text.as_str());
                }
                Mod::Field { names: values, .. } => add(&mut names, values),
                Mod::Alias(alternatives) => names.extend(alternatives.iter().map(|(name, _)| name.as_str())),
            }
        }
        for slot in &form.slots {
            add(&mut names, &slot.names);
            names.extend(Some(slot.literal.as_str()).filter(|text| !text.is_empty()));
            names.extend(Some(slot.suffix.as_str()).filter(|text| !text.is_empty()));
        }
    }
    let first = "/// A value that prints nothing.\nEmpty,\n/// A value that has no name.\nUndefined,";
    enumeration(
        out,
        "M",
        "A modifier, or an operand that is a name (special registers and the like).",
        &names,
        first,
    );
    suffixes(out, forms);
    let dotted: Vec<bool> = names.iter().map(|name| name.contains('.')).collect();
    writeln!(out, "static HAS_DOT: [bool; {}] = {dotted:?};", dotted.len()).unwrap();
}

/// The names that stand after operands, and those that a builder marks operands in brackets with.
fn suffixes(out: &mut String, forms: &[&Form]) {
    let mut names = BTreeSet::from(["T", "D"]);
    for form in forms {
        for m in &form.mods {
            if let Mod::Field { names: values, slot: Some(_), .. } = m {
                names.extend(values.iter().filter_map(|value| match value {
                    Name::Text(text, _) => Some(text.as_str()),
                    _ => None,
                }));
            }
        }
        names.extend(form.slots.iter().map(|slot| slot.suffix.as_str()).filter(|text| !text.is_empty()));
    }
    let list: String = names.iter().map(|name| format!(", M::{}", ident(name))).collect();
    let count = names.len() + 1;
    writeln!(out, "pub(crate) static SUFFIXES: [M; {count}] = [M::Empty{list}];").unwrap();
}

fn bits(pieces: &Pieces) -> String {
    let mut lo = [0; 3];
    let mut width = [0; 3];
    for (index, piece) in pieces.iter().enumerate().take(3) {
        (lo[index], width[index]) = *piece;
    }
    format!("Bits {{ lo: {lo:?}, width: {width:?} }}")
}

fn values(names: &[Name]) -> String {
    let mut text = String::from("&[");
    for name in names {
        let (m, words) = match name {
            Name::Undefined => ("Undefined".to_string(), 0),
            Name::Empty(words) => ("Empty".to_string(), *words),
            Name::Text(text, words) => (ident(text), *words),
        };
        write!(text, "(M::{m},{words}),").unwrap();
    }
    text + "]"
}

fn modifier(out: &mut String, m: &Mod) {
    match m {
        Mod::Literal(text) => writeln!(out, "Mod::Literal(M::{}),", ident(text)),
        Mod::Field { names, at, slot, .. } => {
            writeln!(out, "Mod::Field {{ values: {}, at: {}, slot: {slot:?} }},", values(names), bits(at))
        }
        Mod::Alias(alternatives) => {
            let mut text = String::new();
            for (name, conditions) in alternatives {
                let conditions: Vec<String> = conditions
                    .iter()
                    .map(|(slot, what)| match what.as_str() {
                        "z" => format!("({slot}, When::Zero)"),
                        "p" => format!("({slot}, When::PowerOfTwo)"),
                        value => format!("({slot}, When::Is({}))", value.trim_start_matches(':')),
                    })
                    .collect();
                write!(text, "(M::{}, &[{}]),", ident(name), conditions.join(",")).unwrap();
            }
            writeln!(out, "Mod::Alias(&[{text}]),")
        }
    }
    .unwrap();
}

/// Which modifier's value counts the registers of an operand. `*4:2`: of four, the first two are not touched.
fn words(form: &Form, slot: &Slot) -> Result<String, String> {
    let (mut count, mut unused) = (1, 0);
    let mut by = Vec::new();
    for factor in &slot.words {
        let factor = match factor.split_once(':').filter(|_| !factor.starts_with('(')) {
            Some((factor, first)) => {
                unused = first.parse::<u16>().map_err(|_| format!("`*{factor}:{first}`"))?;
                factor
            }
            None => factor,
        };
        if let Ok(number) = factor.parse::<u16>() {
            count *= number;
            continue;
        }
        let index = form
            .mods
            .iter()
            .position(|m| matches!(m, Mod::Field { label, .. } if label == factor))
            .ok_or(format!("`*{factor}`: the row has no such modifier"))?;
        by.push(index.to_string());
    }
    Ok(format!("Words {{ count: {count}, unused: {unused}, by: &[{}] }}", by.join(",")))
}

/// Only operations that read their registers at issue have an operand cache. Matrix operations have no lane for the
/// accumulator; HMMA of sm_75 and those of sm_120 have one for B alone, on sm_120 none if they are sparse or scaled.
fn cached(form: &Form, lane: u8) -> bool {
    let literal = |name: &str| form.mods.iter().any(|m| matches!(m, Mod::Literal(text) if text == name));
    match form.class.as_str() {
        "alu" | "fma" | "wide" | "half" | "hmma2" | "double" | "fp64" => true,
        "tensor" if form.isas & SM_75 != 0 && form.op == "HMMA" => lane == 1,
        "tensor" if form.isas & SM_120 != 0 => lane == 1 && !literal("SP") && !literal("SF"),
        "tensor" => lane < 2,
        _ => false,
    }
}

fn slot_static(out: &mut String, form: &Form, slot: &Slot) -> Result<(), String> {
    let option = |bit: Option<u8>| bit.map_or("None".to_string(), |bit| format!("Some({bit})"));
    let name = |text: &str| if text.is_empty() { "Empty".to_string() } else { ident(text) };
    writeln!(
        out,
        "Slot {{ kind: Kind::{}, at: {}, shift: {}, names: {}, literal: M::{}, neg: {}, abs: {}, not: {}, inverts: {}, \
         lane: {}, hide: Hide::{}, role: Role::{}, words: {}, frame: {:?}, opens: {}, closes: {}, spaced: {}, suffix: M::{}, again: {}, outside: {}, silent: {}, spaced_bank: {}, inside: {}, signed_alone: {}, nonzero: {}, allows: {} }},",
        slot.kind,
        bits(&slot.at),
        slot.shift,
        values(&slot.names),
        name(&slot.literal),
        option(slot.neg),
        option(slot.abs),
        option(slot.not),
        slot.inverts,
        option(slot.lane.filter(|&lane| cached(form, lane))),
        slot.hide,
        if slot.def { "Def" } else { "Use" },
        words(form, slot)?,
        slot.frame,
        slot.opens,
        slot.closes,
        slot.spaced,
        name(&slot.suffix),
        slot.again,
        slot.outside,
        slot.silent,
        slot.half && matches!(slot.kind.as_str(), "Const" | "Bindless") && form.class != "hmma2",
        slot.inside || slot.half && matches!(slot.kind.as_str(), "Const" | "Bindless" | "U"),
        slot.signed_alone,
        slot.nonzero,
        allows(form, slot),
    )
    .unwrap();
    Ok(())
}

/// The signs that may stand at an operand, as flags of `inst::flag`.
fn allows(form: &Form, slot: &Slot) -> String {
    let signs = [
        (slot.neg.is_some() && !slot.inverts, "NEG"),
        (slot.neg.is_some() && slot.inverts, "INV"),
        (slot.abs.is_some(), "ABS"),
        (slot.not.is_some(), "NOT"),
        (slot.lane.is_some_and(|lane| cached(form, lane)), "REUSE"),
    ];
    let flags: Vec<String> =
        signs.iter().filter(|(has, _)| *has).map(|(_, flag)| format!("flag::{flag}")).collect();
    if flags.is_empty() { "0".to_string() } else { flags.join("|") }
}

fn mask(pieces: &Pieces) -> u128 {
    pieces.iter().fold(0, |mask, &(lo, width)| mask | (((1u128 << width) - 1) << lo))
}

/// Bits that the operands and modifiers of a form decide.
fn field_mask(form: &Form) -> Result<u128, String> {
    let mut fields = COMMON;
    let mut add = |what: &str, bits: u128| {
        let overlap = fields & bits;
        fields |= bits;
        if overlap == 0 { Ok(()) } else { Err(format!("{what}: bits {overlap:#x} have two meanings")) }
    };
    for m in &form.mods {
        if let Mod::Field { at, label, .. } = m {
            add(label, mask(at))?;
        }
    }
    for slot in form.slots.iter().filter(|slot| !slot.again) {
        add(&slot.kind, mask(&slot.at))?;
        for bit in [slot.neg, slot.abs, slot.not].into_iter().flatten() {
            add(&slot.kind, 1 << bit)?;
        }
    }
    Ok(fields)
}

fn form_static(out: &mut String, form: &Form) -> Result<(), String> {
    let fields = field_mask(form)?;
    let mut base = u128::from(form.code & 0xfff) | u128::from(form.code >> 12) << 91;
    for (pieces, value) in &form.fixed {
        let mut left = width(pieces);
        for &(lo, width) in pieces {
            left -= u32::from(width);
            base |= u128::from(value >> left & ((1u64 << width) - 1)) << lo;
        }
        if mask(pieces) & (fields | 0xfff | 1 << 91) != 0 {
            return Err(format!(
                "fixed bits {:#x} belong to a field",
                mask(pieces) & (fields | 0xfff | 1 << 91)
            ));
        }
    }
    let lanes = form.slots.iter().filter_map(|slot| slot.lane).filter(|&lane| cached(form, lane));
    let lanes = lanes.fold(0, |lanes, lane| lanes | 1u8 << lane);
    let guard = if form.uniform_guard { "V" } else { "P" };
    let mut class = form.class.clone();
    if let Some(first) = class.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    writeln!(
        out,
        "Form {{ op: Op::{}, isas: IsaSet({:#x}), class: Class::{class}, guard: Kind::{guard}, base: {base:#x}, fields: {fields:#x}, lanes: {lanes}, line: {:?}, mods: &[",
        ident(&form.op),
        form.isas,
        form.line,
    )
    .unwrap();
    for m in &form.mods {
        modifier(out, m);
    }
    writeln!(out, "], slots: &[").unwrap();
    for slot in &form.slots {
        slot_static(out, form, slot)?;
    }
    writeln!(out, "], takes: 0, needs: 0, suffixed: 0 }}.with_kinds(),").unwrap();
    Ok(())
}

/// `BY_OP`: the forms of each operation. `BY_CODE`: for each 13-bit opcode, a range of `CANDIDATES`.
fn indexes(out: &mut String, forms: &[&Form], by_code: &BTreeMap<u16, Vec<usize>>) {
    let mut ops: BTreeSet<&str> = forms.iter().map(|form| form.op.as_str()).collect();
    ops.insert(RAW);
    writeln!(out, "pub(crate) static BY_OP: [(u16, u16); {}] = [", ops.len()).unwrap();
    for op in ops {
        let start = forms.partition_point(|form| form.op.as_str() < op);
        let end = forms.partition_point(|form| form.op.as_str() <= op);
        writeln!(out, "({start},{end}),").unwrap();
    }
    let candidates: Vec<usize> = by_code.values().flatten().copied().collect();
    writeln!(out, "];\npub(crate) static CANDIDATES: [u16; {}] = {candidates:?};", candidates.len()).unwrap();
    let mut ranges = vec![(0, 0); 1 << 13];
    let mut start = 0;
    for (&code, forms) in by_code {
        ranges[usize::from(code)] = (start, start + forms.len());
        start += forms.len();
    }
    writeln!(out, "pub(crate) static BY_CODE: [(u16, u16); 8192] = {ranges:?};").unwrap();
}
