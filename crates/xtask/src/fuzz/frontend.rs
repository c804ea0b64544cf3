//! `cargo xtask fuzz frontend`: bad bytes for the front end, made from good files.
//!
//! Each round takes a file of the repository's corpus or a recorded mistake, damages it in a few places, and
//! parses it. A panic, a parse that takes out of proportion to the input, and memory out of proportion to the
//! input are failures; so is an accepted module that doesn't print back to the same tree. The input of a
//! failure is kept under `target/fuzz`. The same seed gives the same rounds.

use crate::frontend::Reprinted;
use crate::{Result, shell};
pub(super) use random::Random;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A parse may take this long, plus this long for each byte: a hundred times what it takes on a slow machine.
const BASE_TIME: Duration = Duration::from_millis(500);
const TIME_PER_BYTE: Duration = Duration::from_micros(2);

/// Peak memory of the process: this much, and this much for each byte of the largest input.
const BASE_MEMORY: u64 = 96 << 20;
const MEMORY_PER_BYTE: u64 = 100;

/// Words that a random place of a file may get.
const DICTIONARY: &[&str] = &[
    ".reg",
    ".b32",
    ".param",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    ":",
    "::",
    "<",
    ">",
    "@",
    "!",
    "-",
    "+",
    "|",
    "_",
    "%r1",
    "%p1",
    "%tid.x",
    "0x",
    "0f3F800000",
    "1e999",
    "99999999999999999999",
    "\"",
    "/*",
    "//",
    "# 1 \"x\"\n",
    ".version 9.0",
    ".target sm_90a",
    ".entry k",
    ".func",
    "add.s32",
    "ld.global.v4.f32",
    "bra",
    "call",
    ".loc 1 2 3",
    ".section .debug_info {",
    ".callprototype",
    ".branchtargets",
    "WARP_SZ",
    "?",
    "~~~~~~",
    "((((((((",
    "\u{80}",
    "\0",
    ".align 3",
    "<4294967295>",
    "[18446744073709551615]",
    ".v4",
    ".attribute(.managed)",
    "= {1,2,{3}}",
    "generic(",
    "\r\n",
];

pub fn run(time: Duration, seed: u64) -> Result<()> {
    let seeds = seeds()?;
    let mut random = Random::new(seed);
    let start = Instant::now();
    let (mut rounds, mut accepted, mut bytes, mut largest) = (0u64, 0u64, 0u64, 0usize);
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut failure = None;
    while start.elapsed() < time && failure.is_none() {
        let input = damaged(&seeds, &mut random);
        rounds += 1;
        bytes += input.len() as u64;
        largest = largest.max(input.len());
        match round(&input) {
            Ok(fine) => accepted += u64::from(fine),
            Err(what) => failure = Some((what, input)),
        }
    }
    std::panic::set_hook(quiet);
    if let Some((what, input)) = failure {
        let path = keep(&input)?;
        return Err(format!("round {rounds} of seed {seed}: {what}; the input is {}", path.display()).into());
    }
    let (peak, most) = (peak_memory()?, BASE_MEMORY + MEMORY_PER_BYTE * largest as u64);
    println!(
        "{rounds} inputs ({} MB, the largest {largest} bytes), {accepted} accepted, peak memory {} MB",
        bytes >> 20,
        peak >> 20
    );
    if peak > most {
        return Err(format!("peak memory {peak} is above {most}").into());
    }
    Ok(())
}

fn seeds() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for path in shell::files_below(&shell::root().join("crates/ptx/tests/corpus"), "ptx")? {
        seeds.push(shell::read(&path)?.into_bytes());
    }
    for path in shell::files_below(&shell::root().join("crates/ptx/tests/mistakes"), "txt")? {
        // A case is what stands between `=== name` and `--- stderr`.
        for case in shell::read(&path)?.split("\n=== ").filter_map(|c| c.split_once('\n')) {
            seeds.push(case.1.split("\n--- stderr").next().unwrap_or("").as_bytes().to_vec());
        }
    }
    if seeds.is_empty() { Err("nothing to start from".into()) } else { Ok(seeds) }
}

fn damaged(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(8) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(64)).min(input.len());
        match random.below(7) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            3 => {
                let word = DICTIONARY[random.below(DICTIONARY.len())];
                input.splice(at..at, word.bytes());
            }
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(200)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            5 if random.below(8) == 0 => input.truncate(at),
            6 if random.below(16) == 0 => {
                let word = DICTIONARY[random.below(DICTIONARY.len())].repeat(1 + random.below(2000));
                input.splice(at..at, word.bytes());
            }
            _ => {}
        }
    }
    input
}

/// Was the input accepted? `Err` with what went wrong.
fn round(input: &[u8]) -> std::result::Result<bool, String> {
    let start = Instant::now();
    let result = catch_unwind(|| {
        let Ok(source) = ptx::source_text(input) else { return Ok(false) };
        match crate::frontend::reprint(source) {
            Err(_) => Ok(false),
            Ok(Reprinted { difference: Some(what), .. }) => {
                Err(format!("an accepted module prints to {what}"))
            }
            Ok(_) => Ok(true),
        }
    });
    let most = BASE_TIME + TIME_PER_BYTE * input.len() as u32;
    if start.elapsed() > most {
        return Err(format!("{} bytes took {:?}", input.len(), start.elapsed()));
    }
    match result {
        Ok(verdict) => verdict,
        Err(panic) => Err(panic_text(&panic)),
    }
}

/// What a panic says.
pub(super) fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("panic: {}", text.unwrap_or_default())
}

pub(super) fn keep(input: &[u8]) -> Result<PathBuf> {
    let folder = shell::target_dir().join("fuzz");
    shell::create_dir(&folder)?;
    let path = folder.join("failure.ptx");
    shell::write(&path, input)?;
    Ok(path)
}

/// The most memory that this process ever had, in bytes.
pub(super) fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes << 10)
}
