//! Words that ptxas emits, with nvdisasm's text (`words/*.txt`, a sample that has every operation): each decodes,
//! prints the same, encodes back to the same bits and parses back to the same instruction.

use sass::{Inst, Isa, Kind, WORD_BYTES, decode, encode, parse_at};
use std::fs;
use std::path::Path;

#[test]
fn real_words_decode_print_encode_and_parse() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/words");
    let mut checked = 0;
    for sm in ["75", "80", "89", "90a", "100a", "120"] {
        let isa = Isa::of_sm(sm.trim_end_matches('a').parse().unwrap()).unwrap();
        for line in fs::read_to_string(directory.join(format!("sm_{sm}.txt"))).unwrap().lines() {
            let (word, text) = line.split_once(' ').unwrap();
            check(isa, u128::from_str_radix(word, 16).unwrap(), text);
            checked += 1;
        }
    }
    assert!(checked >= 2000, "the sample has shrunk to {checked} words");
}

fn check(isa: Isa, word: u128, expected: &str) {
    let inst = decode(isa, word);
    assert!(inst.raw_word().is_none(), "{isa:?} {word:032x} {expected} has no row");
    let address = address(&inst, expected);
    assert_eq!(
        inst.at(address).like_nvdisasm().to_string().trim_end(),
        expected.trim_end(),
        "{isa:?} {word:032x}"
    );
    assert_eq!(encode(&inst), Ok(word), "{isa:?} {expected}");
    let line = format!("{} {}", inst.control, inst.at(address));
    assert_eq!(parse_at(isa, &line, address).as_ref(), Ok(&inst), "{isa:?} {line}");
}

/// The files do not say where a word stood; a branch target tells.
fn address(inst: &Inst, expected: &str) -> u64 {
    let target = expected.rsplit([' ', ',']).next().unwrap_or("");
    let (negative, digits) = target.strip_prefix('-').map_or((false, target), |digits| (true, digits));
    let target = digits.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
    match (inst.operands().find(|(slot, _)| slot.kind == Kind::Relative), target) {
        (Some((_, operand)), Some(target)) => {
            let target = if negative { -target } else { target };
            target.wrapping_sub(WORD_BYTES as i64).wrapping_sub(operand.value) as u64
        }
        _ => 0,
    }
}
