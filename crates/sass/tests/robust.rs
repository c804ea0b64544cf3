//! Bad input: random words and damaged text never panic, and a word always survives decoding and encoding.

#[allow(dead_code)]
mod oracle;

use oracle::Random;
use sass::{Isa, decode, encode, parse};

#[test]
fn any_word_encodes_back() {
    let mut random = Random(1);
    for isa in Isa::ALL {
        for _ in 0..40_000 {
            let word = random.word();
            let inst = decode(isa, word);
            assert_eq!(encode(&inst), Ok(word), "{isa:?} {word:032x} {inst:?}");
            inst.registers().for_each(|access| assert!(access.alignment() > 0));
        }
    }
}

#[test]
fn damaged_text_is_an_error_or_an_instruction() {
    let mut random = Random(2);
    let scraps = [
        "[", "]", "c[", "cx[", "{", "}", "+", "-", "|", "~", "!", ".", ",", " ", "0x", "R", "UR", "é", "e+",
        "@", "QNAN", "9",
    ];
    let mut parsed = 0;
    for isa in Isa::ALL {
        for form in sass::FORMS.iter().filter(|form| form.isas.contains(isa)) {
            for (_, inst) in oracle::words_of(form, isa, 1, &mut random) {
                let mut text = format!("{} {inst}", inst.control);
                let place = (0..=random.next() as usize % (text.len() + 1))
                    .rev()
                    .find(|&at| text.is_char_boundary(at));
                text.insert_str(place.unwrap_or(0), scraps[random.next() as usize % scraps.len()]);
                parsed += usize::from(parse(isa, &text).is_ok());
                text.truncate(place.unwrap_or(0));
                parsed += usize::from(parse(isa, &text).is_ok());
            }
        }
    }
    assert!(parsed > 100, "most damage should not look like an instruction, but some does: {parsed}");
}
