//! `cargo xtask release`: what people install, made from a commit into `target/release-files`: the static command as an
//! archive and as a Debian package, the Python wheel, a list of parts for each ([`sbom`]), and checksums of all.
//!
//! The files hold no path of the machine and no time but the commit's, so that a commit gives the same bytes in any
//! folder; `--twice` builds in two folders and compares. What was made is tried before the task ends ([`check`]).

mod check;
mod sbom;

use crate::{Result, shell, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    let (mut twice, mut commit) = (false, "HEAD".to_string());
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Long("twice") => twice = true,
            lexopt::Arg::Long("commit") => commit = arguments.value()?.to_string_lossy().into_owned(),
            other => return Err(other.unexpected().into()),
        }
    }
    // Asked once: there may be another last commit when a build ends.
    let commit = says(git().args(["rev-parse", "--verify"]).arg(format!("{commit}^{{commit}}")))?;
    let time = says(git().args(["show", "--no-patch", "--format=%ct", &commit]))?;
    if twice {
        return compare(&commit, &time);
    }
    let place = Place { root: shell::root().to_path_buf(), target: shell::target_dir(), time };
    let files = place.make()?;
    check::all(&place, &files)?;
    for file in &files {
        println!("{:>10}  {}", std::fs::metadata(file)?.len(), file.display());
    }
    Ok(())
}

/// Builds a commit in two folders whose paths differ in length, and compares the files.
fn compare(commit: &str, time: &str) -> Result<()> {
    let base = shell::target_dir().join("release-twice");
    let mut made = Vec::new();
    for folder in ["a", "another/folder"] {
        let root = base.join(folder);
        shell::create_dir(&root)?;
        checkout(commit, &root)?;
        let place = Place { target: root.join("target"), root, time: time.to_string() };
        let files = place.make()?;
        check::all(&place, &files)?;
        made.push(files);
    }
    let [first, second] = &made[..] else { return Err("two builds expected".into()) };
    let mut different = Vec::new();
    for (one, other) in first.iter().zip(second) {
        let is_same =
            one.file_name() == other.file_name() && shell::read_bytes(one)? == shell::read_bytes(other)?;
        println!("{}  {}", if is_same { "same bytes" } else { "DIFFERENT " }, name(one));
        different.extend((!is_same).then(|| name(one)));
    }
    if first.len() == second.len() && different.is_empty() {
        Ok(())
    } else {
        Err(format!("two builds differ: {}", different.join(", ")).into())
    }
}

/// The files of a commit, and what cargo built there before: files have the commit's time, so that it knows what is new.
fn checkout(commit: &str, folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match () {
            _ if path.ends_with("target") => {}
            _ if path.is_dir() => std::fs::remove_dir_all(&path)?,
            _ => std::fs::remove_file(&path)?,
        }
    }
    let archive = folder.join("commit.tar");
    shell::run(git().args(["archive", "--format=tar", "-o"]).arg(&archive).arg(commit))?;
    shell::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder))?;
    Ok(std::fs::remove_file(&archive)?)
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(shell::root());
    command
}

/// What a command prints, if it succeeds.
fn says(command: &mut Command) -> Result<String> {
    let output = shell::capture(command)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where sources are, where cargo builds, and the time of the commit, the only one in the files.
struct Place {
    root: PathBuf,
    target: PathBuf,
    time: String,
}

impl Place {
    /// Makes all files anew; returns them in order, checksums last.
    fn make(&self) -> Result<Vec<PathBuf>> {
        let out = self.target.join("release-files");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        shell::create_dir(&out)?;
        let program = self.program()?;
        let tree = self.target.join("release-tree");
        self.tree(&program, &tree)?;
        let mut files = vec![
            self.archive(&tree, &out)?,
            self.debian_package(&tree, &out)?,
            self.wheel(&out)?,
            sbom::write(&self.root, "sassafras-cli", TARGET, &out)?,
            sbom::write(&self.root, "sassafras-python", "x86_64-unknown-linux-gnu", &out)?,
        ];
        files.sort();
        files.push(checksums(&files, &out)?);
        Ok(files)
    }

    /// The environment in which the compiler writes no path of this machine.
    fn trimmed(&self, command: &mut Command) -> Result<()> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
        let sysroot = says(Command::new("rustc").args(["--print", "sysroot"]).current_dir(&self.root))?;
        let sysroot = PathBuf::from(sysroot);
        let map = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        // Later ones win: folders of cargo may lie below the checkout.
        let flags = [
            map(&self.root, "/sassafras"),
            map(&self.target, "/sassafras/target"),
            map(&home, "/cargo"),
            map(&sysroot, "/rust"),
        ];
        command
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "0")
            .env("SOURCE_DATE_EPOCH", &self.time)
            .current_dir(&self.root);
        Ok(())
    }

    /// The static command, as `cargo dist` makes it.
    fn program(&self) -> Result<PathBuf> {
        let mut cargo = shell::cargo(["--quiet", "--locked", "dist"]);
        self.trimmed(&mut cargo)?;
        shell::run(&mut cargo)?;
        Ok(self.target.join(TARGET).join("dist/sassafras"))
    }

    /// What is installed below `/usr`.
    fn tree(&self, program: &Path, tree: &Path) -> Result<()> {
        if tree.exists() {
            std::fs::remove_dir_all(tree)?;
        }
        let put = |path: &str, bytes: Vec<u8>, mode: u32| -> Result<()> {
            let file = tree.join(path);
            shell::create_dir(file.parent().unwrap_or(tree))?;
            shell::write(&file, bytes)?;
            set_mode(&file, mode)
        };
        let printed = |words: &[&str]| -> Result<Vec<u8>> {
            let output = shell::capture(Command::new(program).args(words))?;
            if output.status.success() {
                Ok(output.stdout)
            } else {
                Err(format!("sassafras {words:?} failed").into())
            }
        };
        put("bin/sassafras", shell::read_bytes(program)?, 0o755)?;
        put("share/man/man1/sassafras.1", printed(&["man"])?, 0o644)?;
        for command in commands(&String::from_utf8_lossy(&printed(&["help"])?)) {
            let page = format!("share/man/man1/sassafras-{command}.1");
            put(&page, printed(&["man", &command])?, 0o644)?;
        }
        put("share/bash-completion/completions/sassafras", printed(&["completions", "bash"])?, 0o644)?;
        put("share/zsh/vendor-completions/_sassafras", printed(&["completions", "zsh"])?, 0o644)?;
        put("share/fish/vendor_completions.d/sassafras.fish", printed(&["completions", "fish"])?, 0o644)?;
        for text in ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            put(&format!("share/doc/sassafras/{text}"), shell::read_bytes(&self.root.join(text))?, 0o644)?;
        }
        // The name that callers look for, where it hides no other ptxas.
        shell::create_dir(&tree.join("lib/sassafras/bin"))?;
        link("../../../bin/sassafras", &tree.join("lib/sassafras/bin/ptxas"))
    }

    /// `sassafras-VERSION-TARGET.tar.gz`
    fn archive(&self, tree: &Path, out: &Path) -> Result<PathBuf> {
        let stem = format!("sassafras-{VERSION}-{TARGET}");
        let archive = out.join(format!("{stem}.tar"));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg("--mode=u=rwX,go=rX").arg(format!("--mtime=@{}", &self.time));
        // Links keep what they point to.
        tar.arg(format!("--transform=s,^\\./,{stem}/,S")).arg("-cf").arg(&archive);
        shell::run(tar.arg("-C").arg(tree).args(["./bin", "./lib", "./share"]))?;
        shell::run(Command::new("gzip").args(["-n", "-9"]).arg(&archive))?;
        Ok(out.join(format!("{stem}.tar.gz")))
    }

    /// `sassafras_VERSION_amd64.deb`; it depends on nothing.
    fn debian_package(&self, tree: &Path, out: &Path) -> Result<PathBuf> {
        let staged = self.target.join("release-deb");
        if staged.exists() {
            std::fs::remove_dir_all(&staged)?;
        }
        shell::create_dir(&staged.join("DEBIAN"))?;
        shell::run(Command::new("cp").arg("-a").arg(tree).arg(staged.join("usr")))?;
        let doc = staged.join("usr/share/doc/sassafras");
        let licences = [doc.join("LICENSE-MIT"), doc.join("LICENSE-APACHE")];
        let texts = [shell::read(&licences[0])?, shell::read(&licences[1])?];
        shell::write(&doc.join("copyright"), format!("MIT OR Apache-2.0\n\n{}", texts.join("\n\n")))?;
        licences.iter().try_for_each(std::fs::remove_file)?;
        let control = format!(
            "Package: sassafras\nVersion: {VERSION}\nArchitecture: amd64\nSection: devel\nPriority: optional\n\
             Maintainer: The Sassafras authors <sassafras@invalid>\n\
             Description: open PTX compiler with ptxas's options\n \
             Reads PTX, the text that CUDA compilers produce, and writes cubins, which the\n \
             CUDA driver loads. /usr/lib/sassafras/bin/ptxas is the name for programs that\n \
             call ptxas; `sassafras doctor` says how they are told.\n"
        );
        shell::write(&staged.join("DEBIAN/control"), control)?;
        shell::run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&staged))?;
        let package = out.join(format!("sassafras_{VERSION}_amd64.deb"));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&staged).arg(&package);
        shell::run(build.env("SOURCE_DATE_EPOCH", &self.time))?;
        Ok(package)
    }

    fn wheel(&self, out: &Path) -> Result<PathBuf> {
        let mut maturin = Command::new(tools::python());
        self.trimmed(&mut maturin)?;
        maturin.args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", "release", "--out"]);
        shell::run(maturin.arg(out).current_dir(self.root.join("crates/python")))?;
        shell::files_below(out, "whl")?.pop().ok_or_else(|| "maturin made no wheel".into())
    }
}

/// The commands that the help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter_map(|line| line.split_whitespace().next()).map(String::from).collect()
}

/// `SHA256SUMS`, for `sha256sum -c`.
fn checksums(files: &[PathBuf], out: &Path) -> Result<PathBuf> {
    let names = files.iter().map(|file| name(file));
    let output = shell::capture(Command::new("sha256sum").args(names).current_dir(out))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let sums = out.join("SHA256SUMS");
    shell::write(&sums, output.stdout)?;
    Ok(sums)
}

fn set_mode(file: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode))?)
}

fn link(to: &str, at: &Path) -> Result<()> {
    Ok(std::os::unix::fs::symlink(to, at)?)
}
