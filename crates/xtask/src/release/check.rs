//! Tries what was made: nothing of this machine is in it, the command needs no library and compiles from each package.

use super::{Place, name};
use crate::{Result, shell, wheel};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn all(place: &Place, files: &[PathBuf]) -> Result<()> {
    let scratch = place.target.join("release-tried");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    shell::create_dir(&scratch)?;
    checksums(files)?;
    for file in files {
        match name(file) {
            file_name if file_name.ends_with(".tar.gz") => {
                let folder =
                    unpack(Command::new("tar").arg("-xzf").arg(file).arg("-C"), &scratch.join("archive"))?;
                installed(place, &folder.join(file_name.trim_end_matches(".tar.gz")))?;
            }
            file_name if file_name.ends_with(".deb") => {
                let folder =
                    unpack(Command::new("dpkg-deb").arg("--extract").arg(file), &scratch.join("deb"))?;
                installed(place, &folder.join("usr"))?;
            }
            file_name if file_name.ends_with(".whl") => {
                let script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
                let folder =
                    unpack(Command::new("python3").args(["-c", script]).arg(file), &scratch.join("wheel"))?;
                for extension in ["so", "json", "py", "pyi", "txt"] {
                    for part in shell::files_below(&folder, extension)? {
                        no_path_of(place, &part)?;
                    }
                }
                wheel::try_out(file)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs a command that unpacks into the folder that is its last word.
fn unpack(command: &mut Command, folder: &Path) -> Result<PathBuf> {
    shell::create_dir(folder)?;
    shell::run(command.arg(folder))?;
    Ok(folder.to_path_buf())
}

fn checksums(files: &[PathBuf]) -> Result<()> {
    let sums = files.iter().find(|file| file.ends_with("SHA256SUMS")).ok_or("there are no checksums")?;
    let folder = sums.parent().ok_or("the files are in no folder")?;
    let listed = shell::read(sums)?.lines().count();
    if listed + 1 != files.len() {
        return Err(format!("{listed} checksums for {} files", files.len() - 1).into());
    }
    shell::run(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder))
}

/// The command, and the name that callers look for, in an environment without anything.
fn installed(place: &Place, usr: &Path) -> Result<()> {
    let program = usr.join("bin/sassafras");
    no_path_of(place, &program)?;
    is_static(&program)?;
    for (program, words) in [
        (&program, &["-arch=sm_90", "examples/saxpy.ptx", "-o"][..]),
        (&usr.join("lib/sassafras/bin/ptxas"), &["-arch=sm_90", "examples/saxpy.ptx", "-o"]),
    ] {
        let cubin = usr.join("saxpy.cubin");
        let mut command = Command::new(program);
        shell::run(command.env_clear().args(words).arg(&cubin).current_dir(&place.root))?;
        if !shell::read_bytes(&cubin)?.starts_with(b"\x7fELF") {
            return Err(format!("{} makes no cubin", program.display()).into());
        }
        std::fs::remove_file(&cubin)?;
    }
    for file in ["share/man/man1/sassafras.1", "share/bash-completion/completions/sassafras"] {
        if shell::read(&usr.join(file))?.is_empty() {
            return Err(format!("{file} is empty").into());
        }
    }
    Ok(())
}

/// No interpreter and no library that the system would have to find.
fn is_static(program: &Path) -> Result<()> {
    let bytes = shell::read_bytes(program)?;
    let elf = object::File::parse(&*bytes)?;
    match elf.sections().find(|section| matches!(section.name(), Ok(".interp" | ".dynamic"))) {
        Some(section) => Err(format!("{}: it has {}", program.display(), section.name()?).into()),
        None => Ok(()),
    }
}

/// Neither the checkout, nor cargo's folder, nor the user's is named in the file.
fn no_path_of(place: &Place, file: &Path) -> Result<()> {
    let bytes = shell::read_bytes(file)?;
    let home = std::env::var("HOME").unwrap_or_default();
    let paths = [place.root.display().to_string(), place.target.display().to_string(), format!("{home}/.")];
    for path in paths.iter().filter(|path| path.len() > 3) {
        if bytes.windows(path.len()).any(|window| window == path.as_bytes()) {
            return Err(format!("{}: it has the path {path}", file.display()).into());
        }
    }
    Ok(())
}
