//! Large PTX modules for benchmarks: the kernels of the repository's corpus again and again, each time under
//! another name, so that a module of any size looks like one that a front end made. The same size gives the
//! same bytes.

use crate::{Result, shell};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The parts of the corpus: every file in it must be fit for the target below.
const SOURCES: [&str; 3] = ["inductor", "ops", "triton"];
const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// A module of at least `bytes`, and less than one kernel more.
pub fn module(bytes: usize) -> Result<String> {
    let mut declarations = Declarations::default();
    let mut kernels = Vec::new();
    for source in SOURCES {
        for file in shell::files_below(&shell::root().join("crates/ptx/tests/corpus").join(source), "ptx")? {
            for item in items(&shell::read(&file)?) {
                match Kernel::read(&item) {
                    Some(kernel) => kernels.push(kernel),
                    None => declarations.add(&item),
                }
            }
        }
    }
    if kernels.is_empty() {
        return Err("the corpus has no kernel".into());
    }
    let mut module = format!("{HEADER}{}", declarations.text);
    for (number, kernel) in kernels.iter().cycle().enumerate() {
        if module.len() >= bytes {
            break;
        }
        writeln!(module, "{}k{number}_{}", kernel.before_name, kernel.from_name)?;
    }
    Ok(module)
}

/// A kernel's text, cut where its name begins.
struct Kernel {
    before_name: String,
    from_name: String,
}

impl Kernel {
    fn read(item: &str) -> Option<Kernel> {
        let name = item.find(".entry ")? + ".entry ".len();
        Some(Kernel { before_name: item[..name].to_owned(), from_name: item[name..].to_owned() })
    }
}

/// What kernels share, each name once: kernels only need that it is declared, and files repeat the names.
#[derive(Default)]
struct Declarations {
    names: BTreeSet<String>,
    text: String,
}

impl Declarations {
    fn add(&mut self, item: &str) {
        let head = item.split(['[', '=', ';', '(', '"']).next().unwrap_or_default();
        let mut words = head.split_whitespace();
        // Debug sections go with the labels of one kernel, and there is one header.
        let is_left_out = |first: &str| [".version", ".target", ".address_size", ".section"].contains(&first);
        if words.clone().next().is_none_or(is_left_out) {
            return;
        }
        // A file's number serves as its name.
        if words.next_back().is_some_and(|name| self.names.insert(name.to_owned())) {
            self.text += item;
            self.text.push('\n');
        }
    }
}

/// The items of a module, without the comments between them. Enough for what LLVM prints: an item ends with its
/// line, where no brace is open.
fn items(source: &str) -> Vec<String> {
    let one_line =
        |code: &str| [".version", ".target", ".address_size", ".file"].iter().any(|d| code.starts_with(d));
    let mut items = Vec::new();
    let mut item = String::new();
    let mut depth = 0usize;
    for line in source.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        if item.is_empty() && code.is_empty() {
            continue;
        }
        item += line;
        depth = (depth + code.matches('{').count()).saturating_sub(code.matches('}').count());
        if depth == 0 && (code.ends_with([';', '}']) || one_line(code)) {
            items.push(std::mem::take(&mut item));
        } else {
            item.push('\n');
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_module() {
        let source = "\
// made by hand
.version 9.0
.target sm_90a
.extern .func f
(
  .param .b64 p
)
.noreturn;
.global .b8 g[2] = {1, 2};
.visible .entry k(.param .u64 a)
.reqntid 128
{ // body
  { ret; }
}
\t.file\t1 \"a.py\"
\t.section .debug_info
\t{
.b8 1
\t}
";
        let items = items(source);
        assert_eq!(items.len(), 7);
        assert!(items[4].starts_with(".visible") && items[4].ends_with('}'));
        let mut declarations = Declarations::default();
        items.iter().filter(|item| Kernel::read(item).is_none()).for_each(|item| declarations.add(item));
        assert_eq!(declarations.names.into_iter().collect::<Vec<_>>(), ["1", "f", "g"]);
    }

    #[test]
    fn modules_have_the_size_asked_for_and_repeat() {
        let module = module(3_000_000).unwrap();
        assert!((3_000_000..3_300_000).contains(&module.len()), "{}", module.len());
        assert_eq!(module, super::module(3_000_000).unwrap());
    }
}
