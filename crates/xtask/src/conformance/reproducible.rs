//! Part `reproducible`: our code depends on the PTX text and the options alone. Every file of the corpus is compiled
//! with one thread, with eight of them from another folder, under another name and with another date, and with other
//! names for its kernels: the bytes of the code are the same, and but for the note of the command line the whole cubin.

use super::{Bar, Options, cubin_diff, list_differences};
use crate::compile::target_of;
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The section with the command line, which has the number of threads.
const COMMAND_LINE: &str = ".note.nv.tkinfo";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    shell::run(&mut shell::cargo(["build", "--quiet", "-p", "sassafras-cli"]))?;
    let files = shell::files_below(&options.ptx_files(), "ptx")?;
    let (mut different, mut renamed, mut kernels, mut not_compiled) = (Vec::new(), Vec::new(), 0, Vec::new());
    for file in &files {
        let source = shell::read(file)?;
        let target = target_of(&source).filter(|target| is_machine(target)).unwrap_or("sm_90");
        let compile =
            |place: &str, text: &str, threads| compile(&scratch().join(place), text, target, threads);
        let Some(first) = compile("first/in.ptx", &source, 1)? else {
            not_compiled.push(file.display().to_string());
            continue;
        };
        let second = compile("second/other.ptx", &source, 8)?.unwrap_or_default();
        different.extend(difference(&first, &second)?.map(|what| format!("{}: {what}", file.display())));
        let names = kernel_names(&source);
        kernels += names.len();
        let third = compile("third/in.ptx", &with_other_names(&source, &names), 8)?.unwrap_or_default();
        renamed.extend(changed_code(&first, &third, &names)?);
    }
    list_differences("not compiled", &not_compiled, options.show);
    list_differences("another cubin with other threads, path and date", &different, options.show);
    list_differences("other code under another name", &renamed, options.show);
    let all = |what, wrong: usize, all: usize| Bar { what, equal: all - wrong.min(all), all, percent: 100 };
    let compiled = files.len() - not_compiled.len();
    Ok(vec![
        Bar { what: "files that compile", equal: compiled, all: files.len(), percent: 90 },
        all("the same cubin, whatever threads, path, date", different.len(), compiled),
        all("the same code, whatever the kernel's name", renamed.len(), kernels),
    ])
}

fn is_machine(target: &str) -> bool {
    let number = target.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_alphabetic());
    number.parse::<u32>().is_ok_and(|sm| sm >= 75)
}

fn scratch() -> PathBuf {
    shell::target_dir().join("conformance/reproducible")
}

/// The cubin of a text that lies in this file; `None` if it does not compile.
fn compile(path: &Path, text: &str, target: &str, threads: u64) -> Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(path);
    shell::create_dir(folder)?;
    shell::write(path, text)?;
    // A date of its own for each way to compile.
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 * threads);
    std::fs::File::options().write(true).open(path)?.set_modified(date)?;
    let mut command = std::process::Command::new(shell::target_dir().join("debug/sassafras"));
    command.current_dir(folder).arg(format!("-arch={target}")).arg(format!("-split-compile={threads}"));
    command.args(["-lineinfo", "-w", "-o", "out.cubin"]).arg(path.file_name().unwrap_or_default());
    let output = shell::capture(&mut command)?;
    Ok(if output.status.success() { Some(std::fs::read(folder.join("out.cubin"))?) } else { None })
}

fn difference(first: &[u8], second: &[u8]) -> Result<Option<String>> {
    let (first, second) = (cubin_diff::contents(first)?, cubin_diff::contents(second)?);
    if first.len() != second.len() {
        return Ok(Some(format!("{} and {} sections", first.len(), second.len())));
    }
    let mut pairs = first.iter().zip(&second).filter(|(one, _)| one.0 != COMMAND_LINE);
    Ok(pairs.find(|(one, other)| one != other).map(|(one, _)| format!("section {}", one.0)))
}

/// What stands behind `.entry`.
fn kernel_names(source: &str) -> Vec<&str> {
    let behind = source.match_indices(".entry").map(|(at, word)| source[at + word.len()..].trim_start());
    let name = |text: &'_ str| text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    let mut names: Vec<&str> =
        behind.map(|text| &text[..name(text)]).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

fn other_name(name: &str) -> String {
    format!("{name}_by_another_name")
}

fn with_other_names(source: &str, names: &[&str]) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = match is_of_name(first) {
            true => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, behind) = rest.split_at(length);
        if names.contains(&word) {
            text.push_str(&other_name(word))
        } else {
            text.push_str(word)
        }
        rest = behind;
    }
    text
}

/// The kernels whose code differs under another name.
fn changed_code(first: &[u8], third: &[u8], names: &[&str]) -> Result<Vec<String>> {
    let (first, third) = (cubin_diff::contents(first)?, cubin_diff::contents(third)?);
    let code = |sections: &[(String, Vec<u8>)], name: &str| {
        let section = format!(".text.{name}");
        sections.iter().find(|(known, _)| *known == section).map(|(_, bytes)| bytes.clone())
    };
    let is_same = |name: &&&str| {
        let one = code(&first, name);
        one.is_some() && one == code(&third, &other_name(name))
    };
    Ok(names.iter().filter(|name| !is_same(name)).map(|name| name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_and_nothing_else() {
        let source =
            ".visible .entry k(.param .u64 k_param_0) { ld.param.u64 %k, [k_param_0]; }\n.entry k2() {}";
        assert_eq!(kernel_names(source), ["k", "k2"]);
        let wanted = ".visible .entry k_by_another_name(.param .u64 k_param_0) { ld.param.u64 %k, [k_param_0]; }\n\
                      .entry k2_by_another_name() {}";
        assert_eq!(with_other_names(source, &kernel_names(source)), wanted);
    }
}
