//! Checks files of `WORD text` lines (hex word, nvdisasm's text): does each word decode, print as nvdisasm prints
//! it, encode back to the same bits, and parse back to the same instruction?
//!
//! `cargo run --example words -- sm_90a.txt ...` prints counts and, per operation, the first failures.

use sass::{Isa, Kind, decode, encode, parse_at};
use std::collections::BTreeMap;
use std::{env, fs, process};

/// Failures of one operation that are shown in full; `SHOW` in the environment overrides it.
fn shown() -> usize {
    env::var("SHOW").ok().and_then(|value| value.parse().ok()).unwrap_or(2)
}

fn main() {
    let mut clean = true;
    for file in env::args().skip(1) {
        let Some((isa, text)) = read(&file) else {
            eprintln!("{file}: cannot read it, or its name has no target (sm_90a.txt)");
            process::exit(2);
        };
        clean &= report(&file, isa, &text);
    }
    process::exit(i32::from(!clean));
}

fn read(file: &str) -> Option<(Isa, String)> {
    let digits: String = file.rsplit_once("sm_")?.1.chars().take_while(char::is_ascii_digit).collect();
    Some((Isa::of_sm(digits.parse().ok()?)?, fs::read_to_string(file).ok()?))
}

fn report(file: &str, isa: Isa, text: &str) -> bool {
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut total = 0;
    for line in text.lines() {
        let Some((word, expected)) = line.split_once(' ') else { continue };
        let Ok(word) = u128::from_str_radix(word, 16) else { continue };
        total += 1;
        if let Err(why) = check(isa, word, expected) {
            let operation = expected.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
            let operation = operation.split('.').next().unwrap_or("").to_string();
            failures.entry(operation).or_default().push(format!("{word:032x} {expected}\n      {why}"));
        }
    }
    let failed: usize = failures.values().map(Vec::len).sum();
    println!("{file}: {} of {total} words pass", total - failed);
    let mut failures: Vec<_> = failures.into_iter().collect();
    failures.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.len()));
    for (operation, lines) in failures {
        println!("  {operation}: {}", lines.len());
        for line in lines.iter().take(shown()) {
            println!("    {line}");
        }
    }
    failed == 0
}

fn check(isa: Isa, word: u128, expected: &str) -> Result<(), String> {
    let inst = decode(isa, word);
    if inst.raw_word().is_some() {
        return Err("no row".into());
    }
    let address = address(&inst, expected);
    let text = inst.at(address).like_nvdisasm().to_string();
    if text.trim_end() != expected.trim_end() {
        return Err(text);
    }
    let text = inst.at(address).to_string();
    if encode(&inst) != Ok(word) {
        return Err(format!("encodes as {:032x?}", encode(&inst)));
    }
    match parse_at(isa, &format!("{} {text}", inst.control), address) {
        Ok(parsed) if parsed == inst => Ok(()),
        Ok(parsed) => Err(format!("parses as {parsed:?}, encodes as {:x?}", encode(&parsed))),
        Err(error) => Err(format!("does not parse: {error}")),
    }
}

/// The files do not say where a word stood; a branch target tells.
fn address(inst: &sass::Inst, expected: &str) -> u64 {
    let relative = inst.operands().find(|(slot, _)| slot.kind == Kind::Relative);
    let target = expected.rsplit([' ', ',']).next().unwrap_or("");
    let (negative, digits) = target.strip_prefix('-').map_or((false, target), |digits| (true, digits));
    let target = digits.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
    match (relative, target) {
        (Some((_, operand)), Some(target)) => {
            let target = if negative { -target } else { target };
            (target - sass::WORD_BYTES as i64).wrapping_sub(operand.value) as u64
        }
        _ => 0,
    }
}
