//! The distances of the machine model (`src/model/distances/sm_NN.txt`) as static Rust: for each relation a row for
//! every pair of ports that was seen on some encoding, with a cell for each encoding.

use crate::ports::{Part, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use targets::Isa;

/// Rows of this many sections: `raw`, `waw`, `issue`.
const RELATIONS: [&str; 3] = ["raw", "waw", "issue"];

/// Cycles and times for each encoding; 0 times: never seen.
type Cells = [(u8, u32); Isa::ALL.len()];
/// By number of the unit and of the part, so that rows are sorted as the enumerations are.
type Port = (usize, usize);
type Rows = BTreeMap<(usize, Port, Port), Cells>;

/// The generated module.
pub fn rust(directory: &Path) -> Result<String, String> {
    let mut rows = Rows::new();
    for (column, isa) in Isa::ALL.iter().enumerate() {
        let name = format!("sm_{}.txt", isa.sm());
        let text = fs::read_to_string(directory.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        for (number, line) in text.lines().enumerate() {
            read_line(line, column, &mut rows).map_err(|e| format!("{name}:{}: {e}", number + 1))?;
        }
    }
    Ok(emit(&rows))
}

fn read_line(line: &str, column: usize, rows: &mut Rows) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.is_empty() || words[0].starts_with("//") {
        return Ok(());
    }
    let [relation, from, to, cycles, times] = words[..] else {
        return Err("a row is RELATION FROM TO CYCLES TIMES".into());
    };
    let relation = RELATIONS
        .iter()
        .position(|name| *name == relation)
        .ok_or_else(|| format!("'{relation}' is none of {RELATIONS:?}"))?;
    let port = |text| if RELATIONS[relation] == "issue" { Ok((unit(text)?, 0)) } else { port(text) };
    let cell = (number(cycles)?, number(times)?);
    if cell.1 == 0 {
        return Err("a pair that was never seen has no row".into());
    }
    let old = &mut rows.entry((relation, port(from)?, port(to)?)).or_default()[column];
    if old.1 != 0 {
        return Err(format!("a second row for {from} {to}"));
    }
    *old = cell;
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number in range"))
}

fn port(text: &str) -> Result<Port, String> {
    let (unit_name, part) = text.split_once('.').ok_or_else(|| format!("'{text}' is no port: UNIT.PART"))?;
    let is_named = |candidate: &Part| format!("{candidate:?}") == part;
    let part = Part::ALL.iter().position(is_named).ok_or_else(|| format!("no part '{part}'"))?;
    Ok((unit(unit_name)?, part))
}

fn unit(text: &str) -> Result<usize, String> {
    let is_named = |candidate: &Unit| format!("{candidate:?}") == text;
    Unit::ALL.iter().position(is_named).ok_or_else(|| format!("no unit '{text}'"))
}

fn emit(rows: &Rows) -> String {
    let mut text = String::new();
    let port = |(unit, part): Port| format!("(Unit::{:?}, Part::{:?})", Unit::ALL[unit], Part::ALL[part]);
    for (relation, name) in RELATIONS.iter().enumerate() {
        let _ = writeln!(text, "pub(super) const {}: &[Row] = &[", name.to_uppercase());
        for ((_, from, to), cells) in rows.range((relation, (0, 0), (0, 0))..(relation + 1, (0, 0), (0, 0))) {
            let _ = writeln!(text, "    ({}, {}, {cells:?}),", port(*from), port(*to));
        }
        text += "];\n";
    }
    // Constants, for a start without delay.
    text += "pub(super) static MODELS: [Model; Isa::ALL.len()] = [\n";
    for isa in Isa::ALL {
        let _ = writeln!(text, "    const {{ Model::build(Isa::{isa:?}) }},");
    }
    text + "];\n"
}
