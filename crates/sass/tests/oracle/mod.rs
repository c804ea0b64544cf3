//! nvdisasm as an oracle: words in, text out, thousands at a time. Shared by the tests and the example programs.

use sass::{Form, Inst, Isa, WORD_BYTES, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

pub const MISSING: &str = "reference tools are missing: run `cargo xtask setup`";

/// NOP, in place of words that nvdisasm rejects.
const NOP: u128 = 0x000f_c000_0000_0000_0000_0000_0000_7918;

/// `$SASSAFRAS_TOOLS`, or where `cargo xtask setup` puts the tools.
pub fn nvdisasm() -> Result<PathBuf, String> {
    let directory = match env::var_os("SASSAFRAS_TOOLS") {
        Some(directory) => Some(PathBuf::from(directory)),
        None => {
            let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
            let pythons = fs::read_dir(library).map_err(|_| MISSING)?;
            let mut directories: Vec<PathBuf> = pythons
                .filter_map(|entry| entry.ok())
                .map(|entry| entry.path().join("site-packages/nvidia/cu13/bin"))
                .filter(|path| path.is_dir())
                .collect();
            directories.sort();
            directories.pop()
        }
    };
    directory
        .map(|directory| directory.join("nvdisasm"))
        .filter(|path| path.exists())
        .ok_or_else(|| MISSING.into())
}

/// The text of each word at address `16 * index`, or nothing where nvdisasm rejects the word.
pub fn texts(isa: Isa, words: &[u128]) -> Result<Vec<Option<String>>, String> {
    let mut texts = Vec::new();
    for (index, chunk) in words.chunks(1 << 14).enumerate() {
        texts.extend(chunk_texts(isa, chunk, (index << 14) as u64 * WORD_BYTES)?);
    }
    Ok(texts)
}

fn chunk_texts(isa: Isa, words: &[u128], base: u64) -> Result<Vec<Option<String>>, String> {
    let mut words = words.to_vec();
    let mut rejected = BTreeSet::new();
    let file = env::temp_dir().join(format!("sass-oracle-{}-{isa:?}-{base}.bin", process::id()));
    loop {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::write(&file, bytes).map_err(|e| e.to_string())?;
        let output = Command::new(nvdisasm()?)
            .args(["-b", &format!("SM{}", isa.sm()), "-ndf", "-base", &format!("{base:#x}")])
            .arg(&file)
            .output()
            .map_err(|e| e.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let bad: BTreeSet<usize> =
            errors.split("at address 0x").skip(1).filter_map(|rest| index(rest, base)).collect();
        if output.status.success() && bad.is_empty() {
            fs::remove_file(&file).map_err(|e| e.to_string())?;
            return Ok(lines(&String::from_utf8_lossy(&output.stdout), words.len(), &rejected, base));
        }
        let before = rejected.len();
        for index in bad {
            rejected.insert(index);
            *words.get_mut(index).ok_or("an error outside the file")? = NOP;
        }
        if rejected.len() == before {
            // Some errors name no address: the word is found by halves.
            fs::remove_file(&file).map_err(|e| e.to_string())?;
            if !errors.contains("Illegal instruction") {
                return Err(format!("nvdisasm failed: {errors}"));
            }
            return halves(isa, &words, &rejected, base);
        }
    }
}

fn halves(
    isa: Isa,
    words: &[u128],
    rejected: &BTreeSet<usize>,
    base: u64,
) -> Result<Vec<Option<String>>, String> {
    if words.len() == 1 {
        return Ok(vec![None]);
    }
    let (first, second) = words.split_at(words.len() / 2);
    let mut texts = chunk_texts(isa, first, base)?;
    texts.extend(chunk_texts(isa, second, base + first.len() as u64 * WORD_BYTES)?);
    rejected.iter().for_each(|&index| texts[index] = None);
    Ok(texts)
}

/// The index of the word at the hexadecimal address that starts `text`.
fn index(text: &str, base: u64) -> Option<usize> {
    let digits = text.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    Some(((u64::from_str_radix(digits, 16).ok()?.checked_sub(base)?) / WORD_BYTES) as usize)
}

fn lines(text: &str, count: usize, rejected: &BTreeSet<usize>, base: u64) -> Vec<Option<String>> {
    let mut texts = vec![None; count];
    for line in text.lines() {
        let Some((address, rest)) =
            line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/"))
        else {
            continue;
        };
        if let Some(index) = index(address, base).filter(|index| *index < count && !rejected.contains(index))
        {
            texts[index] = Some(rest.trim().trim_end_matches([' ', ';']).to_string());
        }
    }
    texts
}

pub use random::Random;

pub trait RandomWord {
    /// Random bits in which runs of zeros and ones are common: RZ, PT, zero offsets and defaults turn up.
    fn word(&mut self) -> u128;
}

impl RandomWord for Random {
    fn word(&mut self) -> u128 {
        let mut word = 0;
        for shift in (0..128).step_by(8) {
            let bits = self.next();
            let byte = match bits >> 8 & 7 {
                0 => 0,
                1 => 0xff,
                _ => bits & 0xff,
            };
            word |= u128::from(byte) << shift;
        }
        word
    }
}

/// Up to `count` random words of a form that decode as this form, with legal control codes.
pub fn words_of(form: &'static Form, isa: Isa, count: usize, random: &mut Random) -> Vec<(u128, Inst)> {
    let (base, fields) = form.bits();
    let control = 0xf_ffff << 105;
    let mut words = Vec::new();
    // Most tries fail for forms with many undefined values; a form that never matches is reported by its tests.
    for _ in 0..count * 400 {
        if words.len() == count {
            break;
        }
        let mut word = base | random.word() & fields & !control;
        let stall = 1 + u128::from(random.next() % 11);
        let reuse =
            if random.next().is_multiple_of(4) { u128::from(random.next() as u8 & form.lanes) } else { 0 };
        word |= (stall | 1 << 4 | 7 << 5 | 7 << 8 | reuse << 17) << 105;
        if random.next().is_multiple_of(2) {
            word = word & !0xf000 | 0x7000;
        }
        let inst = decode(isa, word);
        if inst.form() == form {
            words.push((word, inst));
        }
    }
    words
}

/// A difference between our text and nvdisasm's.
pub struct Difference {
    pub isa: Isa,
    pub word: u128,
    pub ours: String,
    pub theirs: Option<String>,
}

/// Checks `count` random words of every form of a target; differences by row.
pub fn check_rows(
    isa: Isa,
    count: usize,
) -> Result<(usize, BTreeMap<&'static str, Vec<Difference>>), String> {
    let mut cases = Vec::new();
    let mut differences: BTreeMap<&'static str, Vec<Difference>> = BTreeMap::new();
    for form in sass::FORMS.iter().filter(|form| form.isas.contains(isa)) {
        // The seed is fixed, so that a failure can be repeated.
        let words = words_of(form, isa, count, &mut Random::from_state(isa.sm().into()));
        if words.is_empty() {
            let ours = "no word decodes as this form: an earlier row hides it".to_string();
            let difference = Difference { isa, word: form.bits().0, ours, theirs: None };
            differences.entry(form.line).or_default().push(difference);
        }
        cases.extend(words.into_iter().map(|(word, inst)| (form, word, inst)));
    }
    let words: Vec<u128> = cases.iter().map(|case| case.1).collect();
    for (index, ((form, word, inst), theirs)) in cases.iter().zip(texts(isa, &words)?).enumerate() {
        let ours = inst.at(index as u64 * WORD_BYTES).like_nvdisasm().to_string();
        if theirs.as_deref() != Some(ours.trim_end()) {
            differences.entry(form.line).or_default().push(Difference { isa, word: *word, ours, theirs });
        }
    }
    Ok((words.len(), differences))
}
