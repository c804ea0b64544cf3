//! A list of the parts of a product in CycloneDX's JSON: every crate that is linked into it, with licence, source and
//! checksum as cargo has them.

use crate::dependencies::{Package, tree};
use crate::{Result, shell};
use cubin::json::Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Writes `PACKAGE-VERSION.cdx.json`.
pub fn write(root: &Path, package: &str, target: &str, out: &Path) -> Result<PathBuf> {
    let words = ["--package", package, "--edges=normal", "--target", target];
    let mut parts = tree(root, &words)?;
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    parts.dedup_by(|a, b| (&a.name, &a.version) == (&b.name, &b.version));
    let checksums = checksums(&shell::read(&root.join("Cargo.lock"))?);
    let product =
        parts.iter().position(|part| part.name == package).ok_or("cargo doesn't list the product")?;
    let product = parts.remove(product);
    let version = product.version.trim_start_matches('v').to_string();
    let text = document(&product, &parts, &checksums).to_string() + "\n";
    let file = out.join(format!("{package}-{version}.cdx.json"));
    shell::write(&file, text)?;
    Ok(file)
}

/// The checksums of `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entry = |text: &str| {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_start_matches(" = ").trim_matches('"').to_string())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

fn document(product: &Package, parts: &[Package], checksums: &BTreeMap<(String, String), String>) -> Json {
    let text = |text: &str| Json::text(text);
    let metadata = Json::Object(vec![("component", component("application", product, checksums))]);
    Json::Object(vec![
        ("bomFormat", text("CycloneDX")),
        ("specVersion", text("1.5")),
        ("version", Json::Number(1)),
        ("metadata", metadata),
        ("components", Json::list(parts, |part| component("library", part, checksums))),
    ])
}

fn component(kind: &str, package: &Package, checksums: &BTreeMap<(String, String), String>) -> Json {
    let version = package.version.trim_start_matches('v');
    let purl = format!("pkg:cargo/{}@{version}", package.name);
    let licence = Json::Object(vec![("expression", Json::text(&package.licence))]);
    let mut fields = vec![
        ("type", Json::text(kind)),
        ("bom-ref", Json::text(&purl)),
        ("name", Json::text(&package.name)),
        ("version", Json::text(version)),
        ("purl", Json::text(&purl)),
        ("licenses", Json::List(vec![licence])),
    ];
    if let Some(sum) = checksums.get(&(package.name.clone(), version.to_string())) {
        let hash = Json::Object(vec![("alg", Json::text("SHA-256")), ("content", Json::text(sum))]);
        fields.push(("hashes", Json::List(vec![hash])));
    }
    Json::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_from_elsewhere_has_its_checksum() {
        let out = std::env::temp_dir().join(format!("sassafras-sbom-{}", std::process::id()));
        shell::create_dir(&out).unwrap();
        let file = write(shell::root(), "sassafras-cli", "x86_64-unknown-linux-musl", &out).unwrap();
        let text = shell::read(&file).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        assert!(
            text.contains("\"pkg:cargo/rustc-hash@") && text.contains("\"pkg:cargo/sassafras-ptx@0.1.0\"")
        );
        // What tests and tasks alone need is no part.
        assert!(!text.contains("pkg:cargo/proptest@") && !text.contains("pkg:cargo/pyo3@"));
        let parts: Vec<&str> = text.split("\"bom-ref\"").skip(1).collect();
        let without: Vec<&&str> =
            parts.iter().filter(|p| !p.contains("sassafras") && !p.contains("SHA-256")).collect();
        assert!(parts.len() > 8 && without.is_empty(), "{without:?}");
    }
}
