//! Bad input: random words and damaged text never panic, and a word always survives decoding and encoding.

#[allow(dead_code)]
mod oracle;

use oracle::{Random, RandomWord};
use sass::{Isa, decode, encode, parse};

#[test]
fn any_word_encodes_back() {
    let mut random = Random::from_state(1);
    for isa in Isa::ALL {
        for _ in 0..40_000 {
            let word = random.word();
            let inst = decode(isa, word);
            assert_eq!(encode(&inst), Ok(word), "{isa:?} {word:032x} {inst:?}");
            inst.registers().for_each(|access| assert!(access.alignment() > 0));
        }
    }
}

/// An image is a row of words; what is cut off, shifted or flipped still lists, and encodes back to the same bytes.
#[test]
fn damaged_images_list_and_encode_back() {
    let mut random = Random::from_state(3);
    for isa in Isa::ALL {
        let forms = sass::FORMS.iter().filter(|form| form.isas.contains(isa));
        let words = forms.flat_map(|form| oracle::words_of(form, isa, 1, &mut Random::from_state(4)));
        let mut image: Vec<u8> = words.flat_map(|(word, _)| word.to_le_bytes()).collect();
        for _ in 0..image.len() / 40 {
            let at = random.next() as usize % image.len();
            image[at] ^= 1 << (random.next() % 8);
        }
        for cut in [0, 1, 7, 8, 15] {
            let (words, _) = image[cut..].as_chunks::<16>();
            for (index, bytes) in words.iter().enumerate() {
                let inst = decode(isa, u128::from_le_bytes(*bytes));
                let listing = inst.at(index as u64 * sass::WORD_BYTES);
                assert!(!listing.to_string().is_empty() && !listing.like_nvdisasm().to_string().is_empty());
                assert_eq!(encode(&inst).map(u128::to_le_bytes), Ok(*bytes));
            }
        }
    }
}

#[test]
fn damaged_text_is_an_error_or_an_instruction() {
    let mut random = Random::from_state(2);
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
