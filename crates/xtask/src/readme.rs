//! `cargo xtask readme`: a new user's first ten minutes. The shell commands of README.md are run as they are printed, in
//! order, in a root of their own (`readme/root.sh`) that has nothing of this machine but the system's programs and Rust: a
//! clone of the repository, and an empty home. Where a machine allows no namespaces, the commands are run in the checkout
//! with an empty environment and an empty home, and that is said.
//!
//! Every block has an entry here, by its first line: that it runs, and how it ends, or why it isn't run.

use crate::{Result, shell};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What makes the root, and runs a command line in it.
const ROOT: &str = include_str!("readme/root.sh");

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
    ("cargo xtask setup && cargo xtask test", Skip("it is what runs this, in `.ci/run`")),
    (
        "sassafras explain examples/saxpy.ptx -o saxpy.html   # a page: PTX, passes, SASS, timeline, occupancy",
        Run(0),
    ),
];

pub fn run() -> Result<()> {
    let blocks = blocks(&shell::read(&shell::root().join("README.md"))?);
    check_entries(&blocks)?;
    let place = NewPlace::make()?;
    for block in &blocks {
        match entry(block) {
            Some(Run(code)) => run_block(block, *code, &place)?,
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

/// What a new user has: a clone, Rust, an empty home.
struct NewPlace {
    folder: PathBuf,
    toolchain: PathBuf,
    registry: PathBuf,
    /// Has it a root of its own?
    is_root: bool,
}

impl NewPlace {
    fn make() -> Result<NewPlace> {
        let folder = shell::target_dir().join("readme");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        for name in ["root", "home"] {
            shell::create_dir(&folder.join(name))?;
        }
        clone_into(&folder.join("clone"))?;
        let sysroot = shell::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        let toolchain = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(own);
        let registry = cargo.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry");
        let mut place = NewPlace { folder, toolchain, registry, is_root: true };
        let tried = place.run("true")?;
        if !tried.status.success() {
            let said = String::from_utf8_lossy(&tried.stderr);
            println!("no root of its own, which takes `unshare` of util-linux and user namespaces: {said}");
            place.is_root = false;
            let cargo = place.folder.join("home/.cargo");
            shell::create_dir(&cargo)?;
            std::os::unix::fs::symlink(&place.registry, cargo.join("registry"))?;
        }
        Ok(place)
    }

    /// Runs a command line there.
    fn run(&self, line: &str) -> Result<Output> {
        let own = |name: &str| self.folder.join(name);
        if !self.is_root {
            return self.run_in_checkout(line);
        }
        let mut command = Command::new("unshare");
        // Namespaces of its own, in which any user may mount.
        command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["bash", "-c", ROOT, "root.sh"]);
        command.args([&own("root"), &own("clone")]).args([shell::root(), &shell::target_dir()]);
        command.args([&own("home"), &self.toolchain, &self.registry]).arg(line);
        shell::capture(&mut command)
    }

    fn run_in_checkout(&self, line: &str) -> Result<Output> {
        let (home, rust) = (self.folder.join("home"), self.toolchain.join("bin"));
        let path = format!("{}:{}:/usr/bin:/bin", home.join(".cargo/bin").display(), rust.display());
        let mut command = Command::new("bash");
        command.env_clear().env("HOME", home).env("PATH", path).env("CARGO_TARGET_DIR", shell::target_dir());
        command.args(["--noprofile", "--norc", "-c", "set -euo pipefail && eval \"$0\"", line]);
        shell::capture(command.current_dir(shell::root()))
    }
}

/// Copies what a clone of the checkout would have, with the times of files and folders: what was built of them is as new.
fn clone_into(folder: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(shell::root());
    let files = shell::capture(&mut list)?.stdout;
    let mut folders = BTreeSet::new();
    for file in String::from_utf8(files)?.split_terminator('\0') {
        let (from, to) = (shell::root().join(file), folder.join(file));
        // One that was deleted is listed until that is committed.
        if !from.exists() {
            continue;
        }
        shell::create_dir(to.parent().unwrap_or(folder))?;
        std::fs::copy(&from, &to)?;
        keep_time(&from, &to)?;
        folders.extend(Path::new(file).ancestors().skip(1).map(Path::to_path_buf));
    }
    folders.iter().try_for_each(|path| keep_time(&shell::root().join(path), &folder.join(path)))
}

fn keep_time(from: &Path, to: &Path) -> Result<()> {
    Ok(File::open(to)?.set_modified(from.metadata()?.modified()?)?)
}

/// Runs a block line by line, as somebody does who copies it.
fn run_block(block: &str, code: i32, place: &NewPlace) -> Result<()> {
    for line in block.lines() {
        println!("$ {line}");
        let output = place.run(line)?;
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
    fn the_root_has_nothing_of_this_machine() {
        let place = NewPlace::make().expect("a clone");
        let said = |line: &str| {
            let output = place.run(line).expect("unshare");
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        assert_eq!(said("ls -A ~"), ".cargo\n");
        assert_eq!(said("pwd"), format!("{}\n", shell::root().display()));
        assert_eq!(said("echo ${LANG:-none}${CARGO:-}"), "none\n");
        if !place.is_root {
            return;
        }
        assert_eq!(said("ls target/ref/bin 2> /dev/null || echo none"), "none\n");
        assert!(said("command -v ptxas || echo none").contains("none"));
        assert!(said("cat Cargo.toml").contains("[workspace]"));
        // Each line begins anew, but for the home and the clone.
        said("touch ~/kept /tmp/lost");
        assert_eq!(said("ls ~/kept && ls /tmp/lost 2> /dev/null || echo none").lines().last(), Some("none"));
        assert_eq!(place.run("exit 7").expect("unshare").status.code(), Some(7));
    }

    #[test]
    fn new_and_lost_blocks_are_errors() {
        let mut all = blocks(&shell::read(&shell::root().join("README.md")).expect("README.md"));
        all.push("rm -rf /\n".into());
        assert!(check_entries(&all).is_err());
        assert!(check_entries(&[]).is_err());
    }
}
