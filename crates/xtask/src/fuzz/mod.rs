//! `cargo xtask fuzz`: inputs that nobody thought of.

mod bundle;
pub mod frontend;
pub mod programs;

use crate::{Result, pressure, shell};
use std::path::PathBuf;
use std::time::Duration;

const PARTS: [&str; 5] = ["frontend", "disasm", "programs", "pressure", "bundle"];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let (mut seconds, mut seed, mut count) = (600u64, None, 1000u64);
    let mut reference = false;
    let mut part = "frontend".to_string();
    let mut folder: Option<PathBuf> = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(name) if PARTS.iter().any(|part| name == *part) => {
                part = name.to_string_lossy().into_owned();
            }
            Value(name) if part == "bundle" && folder.is_none() => folder = Some(name.into()),
            Long("seconds") => seconds = arguments.value()?.parse()?,
            Long("seed") => seed = Some(arguments.value()?.parse()?),
            Long("reference") => reference = true,
            Long("count") => count = arguments.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    match (part.as_str(), folder) {
        ("disasm", _) => disasm(seconds, seed.unwrap_or(1)),
        ("programs", _) => programs::run(seed.unwrap_or(0), count, reference),
        ("pressure", _) => pressure::fuzz(seed.unwrap_or(0), count),
        ("bundle", Some(folder)) => bundle::write(&folder, seed.unwrap_or(0), count, reference),
        ("bundle", None) => Err("which folder? cargo xtask fuzz bundle DIR".into()),
        _ => frontend::run(Duration::from_secs(seconds), seed.unwrap_or(1)),
    }
}

/// Damaged cubins and images for `sassafras disasm`: the test of the command, which says what must hold.
fn disasm(seconds: u64, seed: u64) -> Result<()> {
    let test = "damaged_files_are_listed_or_refused";
    let mut command = shell::cargo(["test", "--release", "-p", "cli", "--test", "disasm", test]);
    command.args(["--", "--exact", "--nocapture"]);
    command.env("SASSAFRAS_FUZZ_SECONDS", seconds.to_string()).env("SASSAFRAS_FUZZ_SEED", seed.to_string());
    shell::run(&mut command)
}
