//! What the workspace depends on, held to `deny.toml` without cargo-deny: only crates that it allows, from crates.io or
//! this repository, one version of each, with a licence that it allows. And no crate names a dependency that its code
//! doesn't use.

use crate::{Result, shell};
use std::collections::BTreeMap;
use std::path::Path;

/// A line of `cargo tree`.
#[derive(Debug, PartialEq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Where it is from, if not from crates.io: a folder, or the address of a repository.
    source: Option<String>,
    pub licence: String,
}

pub fn check() -> Result<()> {
    let rules = shell::read(&shell::root().join("deny.toml"))?;
    let mut errors = verdicts(&packages()?, &list(&rules, "licenses"), &list(&rules, "bans"));
    errors.extend(unused()?);
    match errors.len() {
        0 => Ok(()),
        _ => Err(format!("dependencies:\n{}", errors.join("\n")).into()),
    }
}

/// All packages that are built for the workspace, on any target.
fn packages() -> Result<Vec<Package>> {
    tree(shell::root(), &["--workspace", "--target=all", "--all-features", "--edges=normal,build,dev"])
}

/// What `cargo tree` lists in a folder with these words.
pub fn tree(root: &Path, words: &[&str]) -> Result<Vec<Package>> {
    let mut command = shell::cargo(["tree", "--locked", "--prefix=none", "--format={p}|{l}|"]);
    command.args(words).current_dir(root);
    let output = shell::capture(&mut command)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(package).collect())
}

/// `cli v0.1.0 (/home/cli)|MIT OR Apache-2.0|`
fn package(line: &str) -> Option<Package> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.splitn(3, ' ');
    let (name, version) = (words.next()?.to_owned(), words.next()?.to_owned());
    // Macros are marked as such.
    let source = words.next().map(|source| source.trim_start_matches("(proc-macro)").trim());
    let source = source.filter(|source| !source.is_empty());
    let source = source.map(|source| source.trim_matches(['(', ')']).to_owned());
    Some(Package { name, version, source, licence: licence.split('|').next()?.to_owned() })
}

/// The strings of `allow` in a section of `deny.toml`.
fn list(rules: &str, section: &str) -> Vec<String> {
    let lines = rules.lines().map(|line| line.split('#').next().unwrap_or_default());
    let lines = lines.skip_while(|line| line.trim() != format!("[{section}]")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('[')).skip_while(|line| !line.starts_with("allow"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(String::from).collect()
}

fn verdicts(packages: &[Package], licences: &[String], crates: &[String]) -> Vec<String> {
    let mut errors = Vec::new();
    let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
    let root = shell::root().to_string_lossy();
    for Package { name, version, source, licence } in packages {
        if !crates.contains(name) {
            errors.push(format!("{name}: deny.toml doesn't allow it"));
        }
        if !is_allowed(licence, licences) {
            errors.push(format!("{name}: deny.toml doesn't allow the licence '{licence}'"));
        }
        if source.as_ref().is_some_and(|source| !source.starts_with(&*root)) {
            errors.push(format!("{name}: it is not from crates.io: {source:?}"));
        }
        if versions.insert(name, version).is_some_and(|other| other != version) {
            errors.push(format!("{name}: there is more than one version"));
        }
    }
    let gone = crates.iter().filter(|name| !versions.contains_key(name.as_str()));
    errors.extend(gone.map(|name| format!("{name}: deny.toml has it, and nothing depends on it")));
    errors.sort();
    errors.dedup();
    errors
}

/// Is one choice of each part allowed? `(MIT OR Apache-2.0) AND Unicode-3.0`
fn is_allowed(licence: &str, licences: &[String]) -> bool {
    let one_of = |choices: &str| choices.split(" OR ").any(|choice| licences.iter().any(|l| l == choice));
    licence.split(" AND ").all(|part| one_of(part.trim_matches(['(', ')'])))
}

/// Dependencies that a crate's manifest names and no file of it uses.
fn unused() -> Result<Vec<String>> {
    let mut errors = Vec::new();
    for manifest in shell::files_below(&shell::root().join("crates"), "toml")? {
        let Some(folder) = manifest.parent() else { continue };
        if !manifest.ends_with("Cargo.toml") {
            continue;
        }
        let files = shell::files_below(folder, "rs")?;
        let code = files.iter().map(|file| shell::read(file)).collect::<Result<Vec<_>>>()?.concat();
        for name in dependencies(&shell::read(&manifest)?) {
            let path = format!("{}::", name.replace('-', "_"));
            if !code.contains(&path) {
                errors.push(format!("{}: nothing uses {name}", manifest.display()));
            }
        }
    }
    Ok(errors)
}

/// The names in the sections `dependencies`, `dev-dependencies` and `build-dependencies`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut is_in = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_in = line.ends_with("dependencies]");
        } else if is_in && !line.starts_with('#') {
            names.extend(line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[licenses]\nallow = [\"MIT\"]\n[bans]\nmultiple-versions = \"deny\"\nallow = [\n    \
                         { crate = \"one\" }, # \"why\"\n    { crate = \"two\" },\n]\n[sources]\nallow-git = [\"no\"]\n";

    fn errors(lines: &[&str]) -> Vec<String> {
        let packages: Vec<Package> = lines.iter().filter_map(|line| package(line)).collect();
        verdicts(&packages, &list(RULES, "licenses"), &list(RULES, "bans"))
    }

    #[test]
    fn reads_the_rules() {
        assert_eq!(list(RULES, "licenses"), ["MIT"]);
        assert_eq!(list(RULES, "bans"), ["one", "two"]);
    }

    #[test]
    fn each_rule_is_held() {
        assert!(errors(&["one v1.0.0|MIT|", "two v1.0.0|Zlib OR MIT|", "one v1.0.0|MIT| (*)"]).is_empty());
        let two = "two v1.0.0|MIT|";
        assert_eq!(errors(&[two]), ["one: deny.toml has it, and nothing depends on it"]);
        assert_eq!(
            errors(&[two, "one v1.0.0|MIT|", "one v2.0.0|MIT|"]),
            ["one: there is more than one version"]
        );
        assert!(errors(&[two, "one v1.0.0|GPL-3.0|"])[0].contains("'GPL-3.0'"));
        assert!(errors(&["two v1.0.0|(MIT OR Zlib) AND MIT|", "one v1.0.0|MIT|"]).is_empty());
        assert!(errors(&[two, "one v1.0.0|(MIT OR Zlib) AND Zlib|"])[0].contains("Zlib"));
        assert!(errors(&[two, "one v1.0.0 (https://example.org/one#1)|MIT|"])[0].contains("crates.io"));
        assert!(errors(&[two, "one v1.0.0|MIT|", "six v1.0.0|MIT|"])[0].starts_with("six"));
    }

    #[test]
    fn names_of_dependencies() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\n# why\none.workspace = true\ntwo = \"1\"\n[lints]\nw = 1\n";
        assert_eq!(dependencies(manifest), ["one", "two"]);
    }
}
