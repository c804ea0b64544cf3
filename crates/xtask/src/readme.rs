//! `cargo xtask readme`: a new user's first ten minutes. The shell commands of README.md are run as they are printed, in order,
//! in a shell that has nothing of this machine but Rust and the system's programs, with an empty home folder.
//!
//! Every block has an entry here, by its first line: that it runs, and how it ends, or why it isn't run.

use crate::{Result, shell};
use std::path::Path;
use std::process::Command;

enum Entry {
    /// It is run, and ends with this exit code.
    Run(i32),
    /// It is not, and this is why.
    Skip(&'static str),
}

use Entry::{Run, Skip};

const BLOCKS: &[(&str, Entry)] = &[
    ("cargo install --locked --path crates/cli", Run(0)),
    ("sassafras -arch=sm_90 examples/saxpy.ptx -o saxpy.cubin", Run(0)),
    ("sassafras -arch=sm_90 --diagnostics=rich examples/messages/mistakes.ptx", Run(255)),
    ("sassafras doctor", Run(0)),
    (
        "rustup target add x86_64-unknown-linux-musl",
        Skip("`cargo xtask release` builds the command so, and tries it"),
    ),
    (
        "cargo xtask setup && cargo xtask test",
        Skip("it is what runs this; and `setup` is where its tools come from"),
    ),
    (
        "sassafras explain examples/saxpy.ptx -o saxpy.html   # a page: PTX, passes, SASS, timeline, occupancy",
        Run(0),
    ),
];

pub fn run() -> Result<()> {
    let blocks = blocks(&shell::read(&shell::root().join("README.md"))?);
    check_entries(&blocks)?;
    let home = shell::target_dir().join("readme-home");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    shell::create_dir(&home)?;
    for block in &blocks {
        match entry(block) {
            Some(Run(code)) => run_block(block, *code, &home)?,
            Some(Skip(reason)) => println!("not run ({reason}):\n{block}"),
            None => {}
        }
    }
    Ok(())
}

fn first_line(block: &str) -> &str {
    block.lines().next().unwrap_or_default()
}

fn entry(block: &str) -> Option<&'static Entry> {
    BLOCKS.iter().find(|(first, _)| *first == first_line(block)).map(|(_, entry)| entry)
}

/// The texts between ```` ```sh ```` and ```` ``` ````.
fn blocks(text: &str) -> Vec<String> {
    let fenced = text.split("```sh\n").skip(1);
    fenced.filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

/// Has each block an entry, and each entry a block?
fn check_entries(blocks: &[String]) -> Result<()> {
    let new = blocks.iter().map(|block| first_line(block)).find(|first| entry(first).is_none());
    if let Some(new) = new {
        return Err(format!(
            "README.md has a block of commands that crates/xtask/src/readme.rs doesn't know: {new}"
        )
        .into());
    }
    let gone = BLOCKS.iter().find(|(first, _)| !blocks.iter().any(|block| first_line(block) == *first));
    gone.map_or(Ok(()), |(gone, _)| Err(format!("README.md has no block `{gone}` any more").into()))
}

/// Runs a block line by line, as somebody does who copies it.
fn run_block(block: &str, code: i32, home: &Path) -> Result<()> {
    let rust = |variable: &str, folder: &str| {
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(folder).into_os_string());
        std::env::var_os(variable).or(own).ok_or(format!("neither {variable} nor HOME is set"))
    };
    let installed = home.join(".cargo");
    let path = std::env::var("PATH").map_err(|_| "PATH is not set")?;
    for line in block.lines() {
        println!("$ {line}");
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-euo", "pipefail", "-c", line]).current_dir(shell::root());
        command.env_clear().env("HOME", home).env("PATH", format!("{}/bin:{path}", installed.display()));
        command
            .env("CARGO_HOME", rust("CARGO_HOME", ".cargo")?)
            .env("RUSTUP_HOME", rust("RUSTUP_HOME", ".rustup")?);
        // What the tests built need not be built again; what is installed goes to the empty home.
        command.env("CARGO_TARGET_DIR", shell::target_dir()).env("CARGO_INSTALL_ROOT", &installed);
        let output = shell::capture(&mut command)?;
        if output.status.code() != Some(code) {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{line}` ended with {}, not {code}:\n{said}", output.status).into());
        }
        if output.stdout.is_empty() && output.stderr.is_empty() && !line.contains(" -o ") {
            return Err(format!("`{line}` says nothing").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_an_entry() {
        let blocks = blocks(&shell::read(&shell::root().join("README.md")).expect("README.md"));
        assert!(blocks.len() >= 5, "{blocks:?}");
        check_entries(&blocks).expect("entries for all blocks");
    }

    #[test]
    fn new_and_lost_blocks_are_errors() {
        let mut all = blocks(&shell::read(&shell::root().join("README.md")).expect("README.md"));
        all.push("rm -rf /\n".into());
        assert!(check_entries(&all).is_err());
        assert!(check_entries(&[]).is_err());
    }
}
