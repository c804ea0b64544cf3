//! Part `corpus`: PTX that real front ends produce. Every file parses and checks without an error, what we
//! print parses back to the same tree, and (`--ptxas-same N`) ptxas makes the same cubin from what we print.

use super::{Bar, Options, cubin_diff, list_differences};
use crate::compile::{compile_theirs, target_of};
use crate::frontend::{self, Reprinted};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let corpus = options.ptx_files();
    let files = shell::files_below(&corpus, "ptx")?;
    let kinds = by_kind(&corpus, &files);
    for (kind, files) in &kinds {
        println!("{kind:<12} {:>4} files", files.len());
    }

    let reprinted: Vec<_> = files.par_iter().map(|file| reprint(file)).collect::<Result<_>>()?;
    let rejected = failures(&files, reprinted.iter().map(|outcome| outcome.as_ref().err().cloned()));
    let changed = failures(&files, reprinted.iter().map(|outcome| outcome.as_ref().ok()?.difference.clone()));
    list_differences("rejected", &rejected, options.show);
    list_differences("print → parse gives another tree", &changed, options.show);
    let accepted = files.len() - rejected.len();
    let all = |what, equal, all| Bar { what, equal, all, percent: 100 };
    let mut bars = vec![
        all("files that parse and check", accepted, files.len()),
        all("print → parse gives the same tree", accepted - changed.len(), files.len()),
    ];
    if options.ptxas_same > 0 {
        let chosen = spread(&kinds, options.ptxas_same);
        let different = different_cubins(&chosen)?;
        list_differences("ptxas does not make the same cubin from our text", &different, options.show);
        let equal = chosen.len() - different.len();
        bars.push(all("ptxas makes the same cubin from our text", equal, chosen.len()));
        for (kind, files) in &kinds {
            let of_kind = files.iter().filter(|file| chosen.contains(file)).count();
            println!("{kind:<12} {of_kind:>4} files through ptxas twice");
        }
    }
    Ok(bars)
}

/// Files by the folder below the corpus that says who made them.
fn by_kind<'a>(corpus: &Path, files: &'a [PathBuf]) -> BTreeMap<String, Vec<&'a PathBuf>> {
    let mut kinds: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
    for file in files {
        let kind = file.strip_prefix(corpus).ok().and_then(|below| below.components().next());
        let kind = kind.map_or_else(String::new, |kind| kind.as_os_str().to_string_lossy().into_owned());
        kinds.entry(kind).or_default().push(file);
    }
    kinds
}

/// `count` files, taken in turn from every kind, so that every kind is there.
fn spread<'a>(kinds: &BTreeMap<String, Vec<&'a PathBuf>>, count: usize) -> Vec<&'a PathBuf> {
    let longest = kinds.values().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|place| kinds.values().filter_map(move |files| files.get(place)));
    in_turn.copied().take(count).collect()
}

fn failures(files: &[impl AsRef<Path>], reasons: impl Iterator<Item = Option<String>>) -> Vec<String> {
    let named = files.iter().zip(reasons);
    named.filter_map(|(file, reason)| Some(format!("{}: {}", file.as_ref().display(), reason?))).collect()
}

/// The inner error says why the file is rejected.
fn reprint(file: &Path) -> Result<std::result::Result<Reprinted, String>> {
    Ok(frontend::reprint(&shell::read(file)?))
}

/// For each file that it is true of, why ptxas does not make the same cubin from what we print.
fn different_cubins(files: &[&PathBuf]) -> Result<Vec<String>> {
    let tools = Tools::find()?;
    let compare = |(number, file): (usize, &&PathBuf)| cubin_difference(&tools, number, file);
    let differences: Vec<_> = files.par_iter().enumerate().map(compare).collect::<Result<_>>()?;
    Ok(failures(files, differences.into_iter()))
}

/// Compiles the file and what we print of it; both are called `in.ptx`, so no path can make a difference.
fn cubin_difference(tools: &Tools, number: usize, file: &Path) -> Result<Option<String>> {
    let source = shell::read(file)?;
    let target = target_of(&source).ok_or_else(|| format!("{} has no .target", file.display()))?;
    let printed = match reprint(file)? {
        Ok(reprinted) => reprinted.text,
        Err(error) => return Ok(Some(format!("rejected: {error}"))),
    };
    let dir = shell::target_dir().join(format!("conformance/corpus/{number}"));
    let original = compile(tools, &dir.join("original"), &source, target)?;
    match compile(tools, &dir.join("printed"), &printed, target) {
        Ok(ours) => cubin_diff::first_difference(&original, &ours),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// What ptxas makes of a text.
pub fn compile(tools: &Tools, dir: &Path, text: &str, target: &str) -> Result<Vec<u8>> {
    compile_theirs(tools, dir, text, target, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_chosen_from() {
        let files = ["c/a/1.ptx", "c/a/2.ptx", "c/a/3.ptx", "c/b/1.ptx"].map(PathBuf::from);
        let kinds = by_kind(Path::new("c"), &files);
        assert_eq!(spread(&kinds, 3), [&files[0], &files[3], &files[1]]);
        assert_eq!(spread(&kinds, 9).len(), 4);
    }

    /// The comparison sees a change of one constant, and does not see empty lines. Needs the reference tools.
    #[test]
    fn cubins_differ_where_they_should() {
        let tools = Tools::find().unwrap();
        let source = shell::read(&shell::root().join("crates/ptx/tests/corpus/triton/vadd_1.ptx")).unwrap();
        let changed = source.replacen("8;", "12;", 1);
        assert_ne!(source, changed);
        let dir = shell::target_dir().join("conformance/self-test");
        let cubin = |name: &str, text: &str| compile(&tools, &dir.join(name), text, "sm_90a").unwrap();
        let original = cubin("original", &source);
        let difference = |other: Vec<u8>| cubin_diff::first_difference(&original, &other).unwrap();
        assert_eq!(difference(cubin("lines", &format!("\n\n\n{source}"))), None);
        assert_eq!(difference(cubin("changed", &changed)).as_deref(), Some("section .text.vadd: contents"));
    }
}
