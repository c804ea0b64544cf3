//! nvdisasm, cuobjdump, fatbinary and nvlink under our name against NVIDIA's.
//!
//! Cubins of both compilers, of all targets and kinds in turn: text and fat binaries must be the same bytes; linked
//! cubins the same code, and the same registers, stack and memory of each function.

use super::{Bar, Options, list_differences};
use crate::compile::target_of;
use crate::reference::retarget;
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is compared byte for byte.
const MODES: &[&[&str]] = &[
    &["nvdisasm"],
    &["nvdisasm", "-c"],
    &["nvdisasm", "-c", "-hex"],
    &["nvdisasm", "-raw"],
    &["nvdisasm", "-json"],
    &["nvdisasm", "-sf", "-ndf", "-c"],
    &["cuobjdump", "-sass"],
    &["cuobjdump", "-res-usage"],
    &["cuobjdump", "-symbols"],
    &["cuobjdump", "-lelf"],
];

const TARGETS: &[&str] = &[
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103",
    "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a",
];

const KINDS: &[&[&str]] = &[&[], &["-c"], &["-lineinfo"], &["-g"], &["-O0"], &["-c", "-lineinfo"]];

/// Targets whose linked files are compared: later ones NVIDIA's linker compiles anew.
const LINKED: &[&str] = &["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"];

/// So many cubins of a file with `--corpus`, and without.
const EACH: (usize, usize) = (4, 2);

/// Listings that are longer are left out: the reference takes minutes for them.
const LONGEST: u64 = 400_000;

struct Part {
    tools: Tools,
    ours: PathBuf,
    folder: PathBuf,
}

/// A cubin, and what it was made as.
struct Made {
    path: PathBuf,
    target: &'static str,
}

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    shell::run(&mut shell::cargo(["build", "--quiet", "-p", "sassafras-cli"]))?;
    let folder = shell::target_dir().join("binutils");
    shell::create_dir(&folder)?;
    let part = Part { tools: Tools::find()?, ours: shell::target_dir().join("debug/sassafras"), folder };
    let mut files = shell::files_below(&shell::root().join("crates/cubin/tests/ptx"), "ptx")?;
    if options.corpus.is_some() {
        files.extend(shell::files_below(&options.ptx_files(), "ptx")?);
    }
    let each = if options.corpus.is_some() { EACH.0 } else { EACH.1 };
    let jobs: Vec<(usize, usize)> =
        (0..files.len()).flat_map(|file| (0..each).map(move |turn| (file, turn))).collect();
    let made: Vec<Vec<Made>> = jobs
        .par_iter()
        .map(|&(file, turn)| part.cubins(&files[file], file, turn))
        .collect::<Result<Vec<_>>>()?;
    let cubins: Vec<Made> = made.into_iter().flatten().collect();

    let mut texts: Vec<(&[&str], &Made)> = Vec::new();
    for cubin in &cubins {
        if std::fs::metadata(&cubin.path)?.len() <= LONGEST {
            texts.extend(MODES.iter().map(|mode| (*mode, cubin)));
        }
    }
    let compared: Vec<Option<Option<String>>> =
        texts.par_iter().map(|(mode, cubin)| part.text(mode, &cubin.path)).collect::<Result<Vec<_>>>()?;
    let compared: Vec<Option<String>> = compared.into_iter().flatten().collect();
    let different: Vec<String> = compared.iter().flatten().cloned().collect();
    list_differences("another text", &different, options.show);

    let packed: Vec<Option<String>> =
        cubins.par_iter().map(|cubin| part.fat_binary(cubin)).collect::<Result<Vec<_>>>()?;
    let other_bytes: Vec<String> = packed.iter().flatten().cloned().collect();
    list_differences("another fat binary", &other_bytes, options.show);

    let links: Vec<(&str, &str)> =
        LINKED.iter().flat_map(|target| ["ptxas", "sassafras"].map(|compiler| (*target, compiler))).collect();
    let linked: Vec<Option<String>> =
        links.par_iter().map(|(target, compiler)| part.link(target, compiler)).collect::<Result<Vec<_>>>()?;
    let badly: Vec<String> = linked.iter().flatten().cloned().collect();
    list_differences("another linked cubin", &badly, options.show);
    let bar =
        |what, all: usize, different: usize, percent| Bar { what, equal: all - different, all, percent };
    Ok(vec![
        bar("texts of nvdisasm and cuobjdump", compared.len(), different.len(), 99),
        bar("fat binaries", packed.len(), other_bytes.len(), 100),
        bar("linked cubins", linked.len(), badly.len(), 100),
    ])
}

impl Part {
    fn compiler(&self, name: &str) -> Command {
        if name == "ptxas" { self.tools.command(name) } else { Command::new(&self.ours) }
    }

    /// The cubins that both compilers make of a file in its turn; none where the target has not what it uses.
    fn cubins(&self, file: &Path, number: usize, turn: usize) -> Result<Vec<Made>> {
        let text = shell::read(file)?;
        let own = target_of(&text).unwrap_or("sm_75").to_string();
        let target = TARGETS[(number * 7 + turn * 5) % TARGETS.len()];
        let target = if own.ends_with('a') {
            TARGETS.iter().copied().find(|target| *target == own).unwrap_or(target)
        } else {
            target
        };
        let kind = KINDS[(number * 5 + turn) % KINDS.len()];
        let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        let source = self.folder.join(format!("{stem}-{number}-{turn}.ptx"));
        shell::write(&source, retarget(&text, target))?;
        let mut made = Vec::new();
        for compiler in ["ptxas", "sassafras"] {
            let path = self.folder.join(format!("{stem}-{number}-{turn}.{compiler}.cubin"));
            let mut command = self.compiler(compiler);
            command.arg(format!("-arch={target}")).args(kind).arg(&source).arg("-o").arg(&path);
            if shell::capture(&mut command)?.status.success() {
                made.push(Made { path, target });
            }
        }
        Ok(made)
    }

    /// What differs between the two texts, if they do; nothing where the reference itself fails.
    fn text(&self, mode: &[&str], cubin: &Path) -> Result<Option<Option<String>>> {
        let theirs = shell::capture(self.tools.command(mode[0]).args(&mode[1..]).arg(cubin))?;
        if !theirs.status.success() {
            return Ok(None);
        }
        let ours = shell::capture(Command::new(&self.ours).args(mode).arg(cubin))?;
        if ours.stdout == theirs.stdout {
            return Ok(Some(None));
        }
        let (wanted, got) = (String::from_utf8_lossy(&theirs.stdout), String::from_utf8_lossy(&ours.stdout));
        let line = wanted.lines().zip(got.lines()).find(|(wanted, got)| wanted != got);
        let (wanted, got) = line.unwrap_or(("(length)", ""));
        Ok(Some(Some(format!("{} {}: {wanted:?}, ours {got:?}", mode.join(" "), cubin.display()))))
    }

    fn fat_binary(&self, cubin: &Made) -> Result<Option<String>> {
        let sm = cubin.target.trim_start_matches("sm_");
        let image = format!("--image3=kind=elf,sm={sm},file={}", cubin.path.display());
        let out = |who: &str, what: &str| cubin.path.with_extension(format!("{who}.{what}"));
        let words = |who: &str| {
            ["-64".to_string(), "--compress=false".to_string(), image.clone()].into_iter().chain([
                format!("--create={}", out(who, "fatbin").display()),
                format!("--embedded-fatbin={}", out(who, "c").display()),
            ])
        };
        let theirs = shell::capture(self.tools.command("fatbinary").args(words("theirs")))?;
        let ours = shell::capture(Command::new(&self.ours).arg("fatbinary").args(words("ours")))?;
        if !theirs.status.success() || !ours.status.success() {
            return Ok(Some(format!("{}: one of the two fails", cubin.path.display())));
        }
        for what in ["fatbin", "c"] {
            if shell::read_bytes(&out("theirs", what))? != shell::read_bytes(&out("ours", what))? {
                return Ok(Some(format!("{} {what}", cubin.path.display())));
            }
        }
        Ok(None)
    }

    /// Two modules that call each other, linked by both.
    fn link(&self, target: &str, compiler: &str) -> Result<Option<String>> {
        let mut objects = Vec::new();
        for name in ["linked", "link_other"] {
            let source = shell::root().join(format!("crates/cubin/tests/ptx/{name}.ptx"));
            let object = self.folder.join(format!("{name}.{target}.{compiler}.o.cubin"));
            let mut command = self.compiler(compiler);
            command.arg(format!("-arch={target}")).arg("-c").arg(&source).arg("-o").arg(&object);
            if !shell::capture(&mut command)?.status.success() {
                return Err(format!("{compiler} fails on {} for {target}", source.display()).into());
            }
            objects.push(object);
        }
        let mut answers = Vec::new();
        for who in ["theirs", "ours"] {
            let out = self.folder.join(format!("{target}.{compiler}.{who}.linked.cubin"));
            let mut command =
                if who == "theirs" { self.tools.command("nvlink") } else { Command::new(&self.ours) };
            if who == "ours" {
                command.arg("nvlink");
            }
            command.args(["-arch", target]).args(&objects).arg("-o").arg(&out);
            let output = shell::capture(&mut command)?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                return Ok(Some(format!("{target} {compiler}: {who} fails: {message}")));
            }
            let mut described = self.described(&out)?;
            if compiler == "sassafras" {
                // Shared variables of our objects come in another order.
                described.values_mut().flatten().for_each(|line| *line = without_numbers(line));
            }
            answers.push(described);
        }
        Ok((answers[0] != answers[1]).then(|| format!("{target} {compiler}")))
    }

    /// What a program does with a linked file: its code with the names that relocations give, by function, and what
    /// each function uses.
    fn described(&self, cubin: &Path) -> Result<BTreeMap<String, Vec<String>>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let code = shell::capture(self.tools.command("nvdisasm").args(["-c", "-hex"]).arg(cubin))?;
        let mut section = String::new();
        for line in String::from_utf8_lossy(&code.stdout).lines() {
            if let Some(name) = line.strip_prefix("//--------------------- ") {
                section = name.trim_end_matches(['-', ' ']).to_string();
            } else if line.trim_start().starts_with("/*") {
                all.entry(section.clone()).or_default().push(without_labels(line));
            }
        }
        let usage = shell::capture(self.tools.command("cuobjdump").arg("-res-usage").arg(cubin))?;
        let usage = String::from_utf8_lossy(&usage.stdout).into_owned();
        let lines: Vec<&str> = usage.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with(" Function ")) {
            all.entry(pair[0].to_string()).or_default().push(pair[1].to_string());
        }
        Ok(all)
    }
}

fn without_numbers(line: &str) -> String {
    line.split(' ').map(|word| if word.starts_with("0x") { "0x" } else { word }).collect::<Vec<_>>().join(" ")
}

/// The numbers of labels follow from the order of sections.
fn without_labels(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word.find(".L_x_") {
        Some(at) => {
            format!("{}L{}", &word[..at], word[at + 5..].trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}
