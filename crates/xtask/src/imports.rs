//! `cargo xtask lint`: import cycles between the modules of a crate.
//!
//! * At the top level a folder of `src` is one module, as is a file there. Within a folder each file is one.
//! * An edge is a `crate::` path in code outside of tests. `lib.rs` and `main.rs` have none: they are above all others.
//! * A file and the folder that it belongs to (`a.rs` or `a/mod.rs`, and `a/b.rs`) are one module in several files: the
//!   parent declares and re-exports its children, and children name the parent's types. Such edges don't count.
//!
//! A cycle is a strongly connected component of more than one module. [`KNOWN`] lists the edges that are
//! still to be removed; one that is no longer there must leave the list.

use crate::{Result, shell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crate, module, and what it imports from above.
const KNOWN: [(&str, &str, &str); 3] = [
    // Legality queries of `codegen::legalize` belong to a module below both.
    ("sassafras", "opt", "codegen"),
    // `regalloc::Limits` belongs to `analysis`.
    ("sassafras", "codegen", "regalloc"),
    // `Claims`, `Error` and `RegSet` belong beside `mach::inst`.
    ("sassafras", "mach", "regalloc"),
];

/// The crates that are checked: all.
const CRATES: [&str; 12] =
    ["targets", "ptx", "sass", "cubin", "ori", "sassafras", "sim", "cli", "capi", "python", "gpu", "xtask"];

type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    if let Some(argument) = arguments.next()? {
        return Err(argument.unexpected().into());
    }
    check()
}

pub fn check() -> Result<()> {
    let mut faults = Vec::new();
    for name in CRATES {
        let imports = imports(&shell::root().join("crates").join(name).join("src"))?;
        let known = KNOWN.iter().filter(|(of, ..)| *of == name).map(|(_, from, to)| (*from, *to));
        faults.extend(problems(&imports, &known.collect::<Vec<_>>()).iter().map(|p| format!("{name}: {p}")));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}

/// Cycles at the top level and within folders, and known edges that are gone.
fn problems(imports: &Graph, known: &[(&str, &str)]) -> Vec<String> {
    let mut graphs = vec![Graph::new()];
    let mut folders: BTreeMap<&str, Graph> = BTreeMap::new();
    for (from, all) in imports {
        for to in all {
            let (here, there) = (top(from), top(to));
            match here == there {
                false => graphs[0].entry(here.into()).or_default().insert(there.into()),
                true => folders.entry(here).or_default().entry(from.clone()).or_default().insert(to.clone()),
            };
        }
    }
    graphs.extend(folders.into_values());
    let has = |from: &str, to: &str| graphs.iter().any(|g| g.get(from).is_some_and(|all| all.contains(to)));
    let gone = known.iter().filter(|(from, to)| !has(from, to));
    let mut problems: Vec<String> = gone
        .map(|(from, to)| format!("the known edge {from} -> {to} is gone: remove it from the list"))
        .collect();
    for graph in &mut graphs {
        for (from, to) in known {
            graph.get_mut(*from).map(|all| all.remove(*to));
        }
        problems.extend(cycles(graph).iter().map(|cycle| format!("import cycle: {}", cycle.join(", "))));
    }
    problems
}

fn top(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// The imports of each module of a crate.
fn imports(source: &Path) -> Result<Graph> {
    let mut files = BTreeMap::new();
    collect(source, &[], &mut files)?;
    let modules: BTreeSet<&String> = files.keys().collect();
    let resolve = |path: &str| {
        let mut path = path;
        while !modules.contains(&path.to_string()) {
            path = path.rsplit_once("::")?.0;
        }
        Some(path.to_string())
    };
    let mut graph = Graph::new();
    for (module, file) in &files {
        let related = |other: &String| {
            other == module
                || other.starts_with(&format!("{module}::"))
                || module.starts_with(&format!("{other}::"))
        };
        let text = code(&shell::read(file)?);
        let found =
            paths(&text).iter().filter_map(|path| resolve(path)).filter(|other| !related(other)).collect();
        graph.insert(module.clone(), found);
    }
    Ok(graph)
}

fn collect(folder: &Path, prefix: &[String], files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let inner = [prefix, &[stem.to_string()]].concat();
        if path.is_dir() {
            collect(&path, &inner, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") && !["lib", "main", "tests"].contains(&stem) {
            let module = if stem == "mod" { prefix } else { &inner };
            files.insert(module.join("::"), path);
        }
    }
    files.retain(|module, _| !module.split("::").any(|part| part == "tests"));
    Ok(())
}

/// A source without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The paths after `crate::`, with use trees expanded.
fn paths(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if is_whole {
            expand("", &code[at + "crate::".len()..], &mut all);
        }
    }
    all
}

/// Appends the paths of one use tree; returns the rest of the text.
fn expand<'t>(prefix: &str, text: &'t str, all: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}::{name}") };
    if let Some(after) = rest.strip_prefix("::") {
        return expand(&path, after, all);
    }
    let Some(after) = text.strip_prefix('{') else {
        all.push(path);
        return rest;
    };
    rest = after;
    loop {
        rest = expand(prefix, rest, all).trim_start();
        let next = rest.find([',', '}']).unwrap_or(rest.len());
        match rest[next..].strip_prefix(',').map(str::trim_start) {
            Some(after) if !after.starts_with('}') => rest = after,
            _ => break,
        }
    }
    let close = rest.find('}').map_or(rest.len(), |i| i + 1);
    &rest[close..]
}

/// The strongly connected components of more than one node.
fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let (mut seen, mut work) = (BTreeSet::new(), vec![from]);
        while let Some(node) = work.pop() {
            for next in graph.get(node).into_iter().flatten() {
                if seen.insert(next) {
                    work.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|node| (node, reach(node))).collect();
    let is_mutual =
        |a: &String, b: &String| reached[a].contains(b) && reached.get(b).is_some_and(|r| r.contains(a));
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for node in graph.keys() {
        let component: Vec<String> =
            graph.keys().filter(|other| *other == node || is_mutual(node, other)).cloned().collect();
        found.extend((component.len() > 1).then_some(component));
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_no_import_cycles() {
        check().unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn use_trees_and_inline_paths_are_imports() {
        let text = "use crate::a::{self, b::{C, d}, E,};\nfn f() { crate::x::y::z(); } use crate::m;";
        let found = paths(&code(text));
        assert_eq!(found, ["a::self", "a::b::C", "a::b::d", "a::E", "x::y::z", "m"]);
    }

    #[test]
    fn comments_and_tests_are_no_imports() {
        let text = "// crate::a\nuse crate::b; // crate::c\n#[cfg(test)]\nmod tests { use crate::d; }";
        assert_eq!(paths(&code(text)), ["b"]);
    }

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(from.to_string()).or_default().insert(to.to_string());
        }
        graph
    }

    #[test]
    fn cycles_between_folders_and_within_one_are_found() {
        let imports =
            graph(&[("a::x", "b::y"), ("b::z", "c"), ("c", "a::w"), ("a::x", "a::w"), ("a::w", "a::x")]);
        let found = problems(&imports, &[]);
        assert_eq!(found, ["import cycle: a, b, c", "import cycle: a::w, a::x"]);
    }

    #[test]
    fn known_edges_are_tolerated_until_they_are_gone() {
        let imports = graph(&[("a", "b"), ("b", "a")]);
        assert_eq!(problems(&imports, &[("a", "b")]), [""; 0]);
        assert_eq!(
            problems(&imports, &[("a", "b"), ("a", "c")]),
            ["the known edge a -> c is gone: remove it from the list"]
        );
    }
}
