//! Every row of the table, on every target: random words print as nvdisasm prints them.
//!
//! `SASS_WORDS_PER_ROW` sets how many words a form gets (8 if unset).

mod oracle;

use sass::{Isa, encode, parse};

#[test]
fn random_words_of_every_row_print_like_nvdisasm() {
    let count = std::env::var("SASS_WORDS_PER_ROW").ok().and_then(|value| value.parse().ok()).unwrap_or(8);
    let mut report = String::new();
    for isa in Isa::ALL {
        let (words, differences) = oracle::check_rows(isa, count).unwrap();
        assert!(words > 1000, "{isa:?} has only {words} words to check");
        for (line, found) in differences {
            let first = &found[0];
            let theirs = first.theirs.as_deref().unwrap_or("-");
            report += &format!(
                "{line} {:?} {:032x}\n  ours   {}\n  theirs {theirs}\n",
                first.isa, first.word, first.ours
            );
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn random_words_of_every_row_encode_and_parse_back() {
    let mut report = String::new();
    for isa in Isa::ALL {
        for form in sass::FORMS.iter().filter(|form| form.isas.contains(isa)) {
            for (word, inst) in oracle::words_of(form, isa, 8, &mut oracle::Random::from_state(7)) {
                assert_eq!(encode(&inst), Ok(word), "{} {isa:?} {inst}", form.line);
                let line = format!("{} {inst}", inst.control);
                let parsed = parse(isa, &line);
                if parsed.as_ref().ok().and_then(|inst| encode(inst).ok()) != Some(word) {
                    report += &format!("{} {isa:?} {word:032x} {line}\n  {parsed:x?}\n", form.line);
                }
            }
        }
    }
    assert!(report.is_empty(), "{report}");
}
