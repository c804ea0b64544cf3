//! `cargo xtask fuzz tokens`: programs damaged in their tokens and statements, for the whole compiler.
//!
//! Damaged bytes rarely get past the parser. Here a round changes what the language is made of: numbers become the edges
//! of their types, registers and modifiers others of the same program, statements are left out, repeated, moved and
//! nested. What the front end accepts is compiled at -O0 or at -O3 with the checks of all passes. A panic, an internal
//! error, and time out of proportion to the input are failures. So is a refusal after the front end, if ptxas is there
//! and accepts the program. The input of a failure is kept under `target/fuzz`; the same seed gives the same rounds.

use super::frontend::{Random, keep, panic_text, peak_memory};
use crate::compile::{compile_ours, compile_with, target_of};
use crate::tools::Tools;
use crate::{Result, shell};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

/// Larger programs take too long for what they add.
const MOST_BYTES: usize = 24 << 10;
/// A compilation may take this long, and this long for each byte.
const BASE_TIME: Duration = Duration::from_secs(20);
const TIME_PER_BYTE: Duration = Duration::from_millis(2);
/// The target of programs that name an older one.
const OLDEST: &str = "sm_75";
const MOST_NESTING: usize = 300;

/// Numbers at the edges of types and fields.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "128",
    "255",
    "256",
    "32767",
    "65535",
    "65536",
    "8388607",
    "8388608",
    "-8388609",
    "16777216",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
    "0f7F800000",
    "0f80000000",
    "0d7FF0000000000000",
];

pub fn run(time: Duration, seed: u64) -> Result<()> {
    let seeds = seeds()?;
    let tools = Tools::find().ok();
    let mut random = Random::new(seed);
    let start = Instant::now();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut tally = Tally::default();
    let mut failure = None;
    while start.elapsed() < time && failure.is_none() {
        let input = damaged(&seeds, &mut random);
        tally.rounds += 1;
        failure = round(&input, tools.as_ref(), &mut tally).err().map(|what| (what, input));
    }
    std::panic::set_hook(quiet);
    println!(
        "{} programs, {} accepted, {} compiled, {} refused as by ptxas, peak memory {} MB",
        tally.rounds,
        tally.accepted,
        tally.compiled,
        tally.refused.len(),
        peak_memory()? >> 20
    );
    match failure {
        None => Ok(()),
        Some((what, input)) => {
            let path = keep(input.as_bytes())?;
            Err(format!("round {} of seed {seed}: {what}; the input is {}", tally.rounds, path.display())
                .into())
        }
    }
}

#[derive(Default)]
struct Tally {
    rounds: u64,
    accepted: u64,
    compiled: u64,
    /// What was said of refused programs, each once.
    refused: BTreeSet<String>,
}

/// Small programs of the repository.
fn seeds() -> Result<Vec<String>> {
    let mut seeds = Vec::new();
    for folder in ["crates/sassafras/tests", "crates/ptx/tests/corpus/ops", "tests/llvm"] {
        for path in shell::files_below(&shell::root().join(folder), "ptx")? {
            let text = shell::read(&path)?;
            seeds.extend((text.len() <= MOST_BYTES).then_some(text));
        }
    }
    if seeds.is_empty() { Err("nothing to start from".into()) } else { Ok(seeds) }
}

/// Names, numbers and words with dots as they are written; blanks and every other character alone.
fn tokens(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '%');
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let end = match is_part(first) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(end);
        all.push(token);
        rest = behind;
    }
    all
}

fn damaged(seeds: &[String], random: &mut Random) -> String {
    let seed = &seeds[random.below(seeds.len())];
    let mut all: Vec<String> = tokens(seed).into_iter().map(String::from).collect();
    for _ in 0..1 + random.below(3) {
        match random.below(8) {
            0 | 1 => replace(&mut all, random, is_number, |_, random| {
                NUMBERS[random.below(NUMBERS.len())].to_string()
            }),
            2 => {
                let registers: Vec<String> = all.iter().filter(|t| t.starts_with('%')).cloned().collect();
                replace(
                    &mut all,
                    random,
                    |t| t.starts_with('%'),
                    |old, random| {
                        registers.get(random.below(registers.len())).map_or(old.to_string(), Clone::clone)
                    },
                );
            }
            3 | 4 => {
                let words: Vec<String> =
                    all.iter().flat_map(|t| t.split('.').skip(1)).map(String::from).collect();
                replace(&mut all, random, is_opcode, |old, random| exchanged(old, &words, random));
            }
            5 => statement(&mut all, random, |all, range, _| drop(all.drain(range))),
            6 => statement(&mut all, random, |all, range, random| {
                let copy = all[range].to_vec();
                let ends: Vec<usize> = (0..all.len()).filter(|i| all[*i] == ";").collect();
                let Some(to) = ends.get(random.below(ends.len())) else { return };
                all.splice(to + 1..to + 1, copy);
            }),
            _ => statement(&mut all, random, |all, range, random| {
                let depth = 1 + random.below(MOST_NESTING);
                all.insert(range.end, "}".repeat(depth));
                all.insert(range.start, "{".repeat(depth));
            }),
        }
    }
    all.concat()
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// A word with modifiers.
fn is_opcode(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_lowercase()) && token.contains('.')
}

fn replace(
    all: &mut [String],
    random: &mut Random,
    fits: impl Fn(&str) -> bool,
    other: impl Fn(&str, &mut Random) -> String,
) {
    let places: Vec<usize> = (0..all.len()).filter(|i| fits(&all[*i])).collect();
    if let Some(at) = places.get(random.below(places.len())) {
        all[*at] = other(&all[*at], random);
    }
}

/// One modifier becomes another word of the program, or goes.
fn exchanged(opcode: &str, words: &[String], random: &mut Random) -> String {
    let mut parts: Vec<&str> = opcode.split('.').collect();
    let at = 1 + random.below(parts.len() - 1);
    match words.get(random.below(words.len())) {
        Some(word) if random.below(6) != 0 => parts[at] = word,
        _ => drop(parts.remove(at)),
    }
    parts.join(".")
}

/// Does something to the tokens of one statement.
fn statement(
    all: &mut Vec<String>,
    random: &mut Random,
    change: impl Fn(&mut Vec<String>, std::ops::Range<usize>, &mut Random),
) {
    let ends: Vec<usize> = (0..all.len()).filter(|i| all[*i] == ";").collect();
    let Some(&end) = ends.get(random.below(ends.len())) else { return };
    let is_edge = |token: &String| matches!(token.as_str(), ";" | "{" | "}" | ":");
    let start = all[..end].iter().rposition(is_edge).map_or(0, |edge| edge + 1);
    change(all, start..end + 1, random);
}

fn round(input: &str, tools: Option<&Tools>, tally: &mut Tally) -> std::result::Result<(), String> {
    let start = Instant::now();
    let parsed = catch_unwind(|| {
        let parsed = ptx::parse(input, &ptx::Options::default());
        !parsed.failed() && parsed.module.is_some()
    });
    if !parsed.map_err(|panic| panic_text(&panic))? {
        return Ok(());
    }
    tally.accepted += 1;
    let named = target_of(input).filter(|name| ptx::Target::find(name).is_some_and(|t| t.sm() >= 75));
    let target = named.unwrap_or(OLDEST);
    let level = if tally.accepted.is_multiple_of(2) { 0 } else { 3 };
    let compiled = catch_unwind(|| compile_ours(input, target, level)).map_err(|panic| panic_text(&panic))?;
    let most = BASE_TIME + TIME_PER_BYTE * input.len() as u32;
    if start.elapsed() > most {
        return Err(format!("{} bytes took {:?} at -O{level}", input.len(), start.elapsed()));
    }
    match compiled {
        Ok(_) => tally.compiled += 1,
        Err(why) if why.contains("Internal error") => return Err(format!("-O{level}: {why}")),
        Err(why) => {
            let dir = shell::target_dir().join("fuzz/tokens");
            let options = [&*format!("-O{level}")];
            let accepts = |tools| compile_with(tools, &dir, input, target, &options).is_ok();
            if tools.is_some_and(accepts) {
                return Err(format!("ptxas accepts what we refuse: {why}"));
            }
            tally.refused.insert(why);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text() {
        let text = "@%p1 bra.uni L1; // Ü\n\tmov.b32 %r1, 0f3F800000;";
        assert_eq!(tokens(text).concat(), text);
        assert!(tokens(text).contains(&"bra.uni") && tokens(text).contains(&"%r1"));
    }

    #[test]
    fn the_same_seed_gives_the_same_programs() {
        let seeds = ["add.s32 %r1, %r2, 3; { sub.u32 %r2, %r1, 4; } ret;".to_string()];
        let of = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| damaged(&seeds, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
