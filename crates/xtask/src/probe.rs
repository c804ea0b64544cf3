//! `probe`: what does nvdisasm know that the instruction table does not? The answer to a new CUDA release.
//!
//! The probing itself is an example program of `sass`, beside its table: random words of all 8192 opcodes of a target
//! go to nvdisasm, and what it names and the table cannot read is listed with a sample. The task fails when a compute
//! opcode has no row at all; single values without a row are listed only.

use crate::{Result, shell};
use std::process::Command;

/// Words for each opcode: enough that an opcode with a few fixed bits shows a legal one.
const TRIES: u32 = 100;

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    let mut targets = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Value(target) => targets.push(number(&target.to_string_lossy())?.to_string()),
            other => return Err(other.unexpected().into()),
        }
    }
    let status = Command::new("cargo")
        .args([
            "run",
            "--release",
            "--quiet",
            "-p",
            "sassafras-sass",
            "--example",
            "missing",
            "--",
            &TRIES.to_string(),
        ])
        .args(targets)
        .current_dir(shell::root())
        .status()?;
    if status.success() { Ok(()) } else { Err("the instruction table is not complete".into()) }
}

/// `90`, `sm_90`, `sm_90a`.
fn number(target: &str) -> Result<u32> {
    let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    digits.parse().map_err(|_| format!("'{target}' is no target: 75, sm_90a").into())
}
