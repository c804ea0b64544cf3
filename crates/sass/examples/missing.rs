//! What nvdisasm knows and the table does not: `missing TRIES [SM...]` asks about random words of all 8192 opcodes of
//! a target and lists, by operation, the opcodes with legal words that no row describes (covered/legal and a sample).
//! The exit code is 1 if a compute opcode has no row at all.

#[allow(dead_code)]
#[path = "../tests/oracle/mod.rs"]
mod oracle;

use oracle::{Random, RandomWord};
use sass::{Isa, WORD_BYTES, decode, parse_at};
use std::collections::BTreeMap;
use std::{env, process};

/// What is known of one opcode.
#[derive(Default)]
struct Opcode {
    legal: usize,
    decoded: usize,
    /// A legal word that no row describes, and its text.
    sample: Option<(u128, String)>,
}

/// Operations of the graphics pipeline, left out on purpose.
const GRAPHICS: [&str; 12] = [
    "AL2P",
    "ALD",
    "AST",
    "IPA",
    "ISBERD",
    "ISBEWR",
    "LDTRAM",
    "OUT",
    "PIXLD",
    "KILL",
    "CSMTEST",
    "FOOTPRINT",
];

fn main() {
    let numbers: Vec<u32> = env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let tries = numbers.first().copied().unwrap_or(24) as usize;
    let isas: Vec<Isa> = match numbers.get(1..) {
        Some(sms) if !sms.is_empty() => sms.iter().filter_map(|&sm| Isa::of_sm(sm)).collect(),
        _ => Isa::ALL.to_vec(),
    };
    let (mut families, mut values) = (Report::new(), Report::new());
    for isa in isas {
        let opcodes = probe(isa, tries).unwrap_or_else(|error| {
            eprintln!("{error}");
            process::exit(2)
        });
        let known = opcodes.values().filter(|opcode| opcode.decoded > 0).count();
        let (legal, decoded) = opcodes.values().fold((0, 0), |sum, o| (sum.0 + o.legal, sum.1 + o.decoded));
        println!(
            "{isa:?}: {known} of {} compute opcodes have a row; {decoded} of {legal} random legal words decode",
            opcodes.len()
        );
        for (code, opcode) in &opcodes {
            let Some((word, text)) = &opcode.sample else { continue };
            let share = format!("{}/{}", opcode.decoded, opcode.legal);
            let report = if opcode.decoded == 0 { &mut families } else { &mut values };
            let lines = report.entry(operation(text)).or_default();
            lines.push(format!("{isa:?} {code:04x} {share:7} {word:032x} {text}"));
        }
    }
    print("opcodes without a row", &families);
    print("opcodes with values that no row has", &values);
    process::exit(i32::from(!families.is_empty()));
}

/// Lines by operation.
type Report = BTreeMap<String, Vec<String>>;

fn print(title: &str, report: &Report) {
    println!("{}: {title}", report.values().map(Vec::len).sum::<usize>());
    for (operation, lines) in report {
        println!("{operation}");
        lines.iter().for_each(|line| println!("  {line}"));
    }
}

/// The first word of a text, without guard and modifiers.
fn operation(text: &str) -> String {
    let name = text.split(' ').find(|word| !word.starts_with('@')).unwrap_or("");
    name.split('.').next().unwrap_or("").to_string()
}

/// `1.5.H1`, `-QNAN .NP`: a part of a register cannot be a part of a number. nvdisasm prints it, no compiler writes it.
fn has_suffixed_number(text: &str) -> bool {
    text.split(", ").skip(1).any(|operand| {
        let number = operand.trim_start_matches(['+', '-']);
        let is_number = number.starts_with(|c: char| c.is_ascii_digit()) || number.contains("NAN ");
        let suffix = number.rsplit('.').next().unwrap_or("");
        is_number && number.contains('.') && suffix.starts_with(|c: char| c.is_ascii_uppercase())
    })
}

/// Random words of every opcode: typical ones (most fields zero or all ones) and wild ones.
fn probe(isa: Isa, tries: usize) -> Result<BTreeMap<u16, Opcode>, String> {
    let mut random = Random::from_state(u64::from(isa.sm()));
    let mut words = Vec::new();
    // Some words of the graphics operations ALD and AST match two classes of nvdisasm, which then gives up.
    for code in (0..1u128 << 13).filter(|code| !matches!(code & 0x1ff, 0x121 | 0x122)) {
        for _ in 0..tries {
            let control = 1 << 105 | 1 << 109 | 0x3f << 110;
            let body = random.word() & !(0x1f << 91 | 0xfff);
            words.push(body & ((1 << 92) - 1) & !0xf000 | 0x7000 | code & 0xfff | code >> 12 << 91 | control);
        }
    }
    let mut opcodes: BTreeMap<u16, Opcode> = BTreeMap::new();
    for (index, (word, text)) in words.iter().zip(oracle::texts(isa, &words)?).enumerate() {
        // `???` and `INVALID` stand for values without a name: no compiler writes them.
        let Some(text) = text.filter(|text| !text.contains("???") && !text.contains("INVALID")) else {
            continue;
        };
        // A placeholder name stands for an operation that nvdisasm does not show.
        if GRAPHICS.contains(&operation(&text).as_str())
            || text.starts_with("__")
            || has_suffixed_number(&text)
        {
            continue;
        }
        let code = (word & 0xfff | word >> 91 << 12 & 0x1000) as u16;
        let opcode = opcodes.entry(code).or_default();
        opcode.legal += 1;
        // Random words have bits set that mean nothing, which our rows do not accept: then the text must parse.
        let address = index as u64 * WORD_BYTES;
        if decode(isa, *word).raw_word().is_none() || parse_at(isa, &text, address).is_ok() {
            opcode.decoded += 1;
        } else {
            opcode.sample.get_or_insert((*word, text));
        }
    }
    Ok(opcodes)
}
