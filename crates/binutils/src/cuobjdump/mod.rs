//! `cuobjdump`: what device code is in a cubin, a fat binary or a host program, as text or as files.

mod resources;
mod sass;
mod symbols;

use crate::Answer;
use crate::options::{Row, Words, flag, value};
use cubin::fatbin::{self, Container, Image, ImageKind};
use cubin::raw::File;
use std::fmt::Write;
use std::path::Path;

/// How it is called.
pub const USAGE: &str = "\
usage: sassafras cuobjdump [OPTIONS] FILE

Prints and extracts the device code of a cubin, a fat binary or a host object or program, as cuobjdump of CUDA 13.2
does.

  -sass, --dump-sass                 the instructions with their words
  -ptx, --dump-ptx                   the PTX
  -res-usage, --dump-resource-usage  registers, stack, shared and constant memory of each function
  -symbols, --dump-elf-symbols       the symbols
  -lelf, -lptx                       names of the images
  -xelf NAMES, -xptx NAMES           images whose names contain one of these, or `all`, as files
  -arch SM                           images for this target only
  -fun NAMES, --function NAMES       code of these functions only
  -all, --all-fatbin                 of a host program, what is not linked too
  -V, --version; -h, --help

docs/binutils.md lists what is refused.
";

static OPTIONS: &[Row] = &[
    flag("all-fatbin", "all"),
    flag("dump-elf", "elf"),
    flag("dump-elf-symbols", "symbols"),
    flag("dump-ptx", "ptx"),
    flag("dump-resource-usage", "res-usage"),
    flag("dump-sass", "sass"),
    value("extract-elf", "xelf"),
    value("extract-ptx", "xptx"),
    value("extract-text", "xtext"),
    value("function", "fun"),
    value("function-index", "findex"),
    value("gpu-architecture", "arch"),
    flag("help", "h"),
    flag("list-elf", "lelf"),
    flag("list-ptx", "lptx"),
    value("list-text", "ltext"),
    value("options-file", "optf"),
    flag("sort-functions", "sort"),
    flag("version", "V"),
];

/// Modes that are not there yet.
const REFUSED: &[&str] = &["dump-elf", "extract-text", "list-text", "function-index", "sort-functions"];

const VERSION: &str = "\
cuobjdump: NVIDIA (R) fat binary dump utility compatible: Sassafras
Cuda compilation tools, release 13.2, V13.2.51
";

/// The command.
pub fn run(words: &[String]) -> Result<Answer, String> {
    let words = Words::parse(OPTIONS, words)?;
    if words.has("help") {
        return Ok(Answer { text: USAGE.into(), code: 0 });
    }
    if words.has("version") {
        return Ok(Answer { text: VERSION.into(), code: 0 });
    }
    if let Some(mode) = REFUSED.iter().find(|mode| words.has(mode)) {
        return Err(format!("cuobjdump: --{mode} is not supported"));
    }
    let [path] = &words.files[..] else {
        return Err(format!("cuobjdump: one input file is needed, not {}", words.files.len()));
    };
    let bytes =
        std::fs::read(path).map_err(|_| format!("cuobjdump fatal   : Could not open input file '{path}'"))?;
    let fail = |error: String| format!("cuobjdump: {path}: {error}");
    let input = Input::read(path, &bytes, &words).map_err(fail)?;
    let text = input.answer(&words).map_err(fail)?;
    Ok(Answer { text: text.into_bytes(), code: 0 })
}

/// A file with device code.
struct Input {
    /// Its name without folder and extension.
    stem: String,
    /// In a cubin there are no headings.
    is_cubin: bool,
    images: Vec<Image>,
}

impl Input {
    fn read(path: &str, bytes: &[u8], words: &Words) -> Result<Input, String> {
        let stem = Path::new(path).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        let is_cubin = fatbin::container(bytes).map_err(|error| error.to_string())? == Container::Cubin;
        let mut images = match is_cubin {
            true => vec![Image::of_cubin(bytes.to_vec())],
            false => images(bytes, words.has("all-fatbin")).map_err(|error| error.to_string())?,
        };
        if let Some(target) = words.get("gpu-architecture") {
            let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
            let sm: u32 = digits.parse().map_err(|_| format!("'{target}' is no target"))?;
            images.retain(|image| image.sm == sm);
        }
        Ok(Input { stem, is_cubin, images })
    }

    fn answer(&self, words: &Words) -> Result<String, String> {
        let mut out = String::new();
        if words.has("extract-elf") || words.has("extract-ptx") {
            self.extract(&mut out, ImageKind::Cubin, words)?;
            self.extract(&mut out, ImageKind::Ptx, words)?;
        } else if words.has("list-elf") || words.has("list-ptx") {
            self.list(&mut out, words)?;
        } else {
            for image in &self.images {
                self.dump(&mut out, image, words)?;
            }
        }
        Ok(out)
    }

    /// The images of a kind, with their names.
    fn named(&self, kind: ImageKind) -> Result<Vec<(String, &Image)>, String> {
        let images = self.images.iter().filter(|image| image.kind == kind);
        images.map(|image| Ok((self.name(image)?, image))).collect()
    }

    fn name(&self, image: &Image) -> Result<String, String> {
        let target = target(image)?;
        let extension = if image.kind == ImageKind::Ptx { "ptx" } else { "cubin" };
        let source = Path::new(&image.identifier).file_stem();
        Ok(match source {
            Some(source) => format!("{}.{target}.{extension}", source.to_string_lossy()),
            None if self.is_cubin => format!("{}.{target}.{extension}", self.stem),
            None => format!("{}.{}.{target}.{extension}", self.stem, image.container + 1),
        })
    }

    fn list(&self, out: &mut String, words: &Words) -> Result<(), String> {
        for (option, kind, title) in
            [("list-elf", ImageKind::Cubin, "ELF"), ("list-ptx", ImageKind::Ptx, "PTX")]
        {
            let named = if words.has(option) { self.named(kind)? } else { Vec::new() };
            for (number, (name, _)) in named.iter().enumerate() {
                let _ = writeln!(out, "{title} file {:>4}: {name}", number + 1);
            }
        }
        Ok(())
    }

    fn extract(&self, out: &mut String, kind: ImageKind, words: &Words) -> Result<(), String> {
        let option = if kind == ImageKind::Ptx { "extract-ptx" } else { "extract-elf" };
        let wanted: Vec<&str> = words.all(option).collect();
        let is_wanted = |name: &str| wanted.iter().any(|part| *part == "all" || name.contains(part));
        for (number, (name, image)) in self.named(kind)?.into_iter().enumerate() {
            if !is_wanted(&name) {
                continue;
            }
            std::fs::write(&name, &image.bytes).map_err(|error| format!("{name}: {error}"))?;
            let _ = match kind {
                ImageKind::Ptx => writeln!(
                    out,
                    "Extracting PTX file and ptxas options {:>4}: {name} -arch={} {}",
                    number + 1,
                    target(image)?,
                    image.options
                ),
                _ => writeln!(out, "Extracting ELF file {:>4}: {name}", number + 1),
            };
        }
        Ok(())
    }

    fn dump(&self, out: &mut String, image: &Image, words: &Words) -> Result<(), String> {
        if !self.is_cubin {
            heading(out, image);
        }
        if image.kind == ImageKind::Ptx {
            if words.has("dump-ptx") {
                let _ = writeln!(out, "{}", String::from_utf8_lossy(&image.bytes));
            }
            return Ok(());
        }
        let asks = ["dump-elf-symbols", "dump-resource-usage", "dump-sass"];
        if image.kind != ImageKind::Cubin || !asks.iter().any(|ask| words.has(ask)) {
            return Ok(());
        }
        let file = File::read(&image.bytes).map_err(|error| error.to_string())?;
        if words.has("dump-elf-symbols") {
            symbols::print(out, &file);
        }
        if words.has("dump-resource-usage") {
            resources::print(out, &file)?;
        }
        if words.has("dump-sass") {
            let functions: Vec<&str> = words.all("function").collect();
            sass::print(out, &file, &functions)?;
        }
        Ok(())
    }
}

/// The images of a file. Of a host program those that are linked, or, where there are none, those that are not;
/// with `-all` both.
fn images(bytes: &[u8], all: bool) -> Result<Vec<Image>, cubin::ReadError> {
    if all || fatbin::container(bytes)? != Container::Host {
        return fatbin::images(bytes);
    }
    let linked = fatbin::images_in(bytes, fatbin::LINKED)?;
    if linked.is_empty() { fatbin::images_in(bytes, fatbin::TO_LINK) } else { Ok(linked) }
}

/// `sm_90a`
fn target(image: &Image) -> Result<String, String> {
    match image.kind {
        ImageKind::Cubin => {
            let file = File::read(&image.bytes).map_err(|error| error.to_string())?;
            Ok(crate::nvdisasm::target(&file))
        }
        _ => Ok(format!("sm_{}", image.sm)),
    }
}

/// What is said of an image of a fat binary.
fn heading(out: &mut String, image: &Image) {
    let kind = match image.kind {
        ImageKind::Ptx => "ptx",
        _ => "elf",
    };
    let (major, minor) = image.version;
    let _ = write!(out, "\nFatbin {kind} code:\n================\narch = sm_{}\n", image.sm);
    let _ = write!(out, "code version = [{major},{minor}]\nhost = linux\ncompile_size = 64bit\n");
    if image.flags & fatbin::flags::DEBUG != 0 {
        out.push_str("has debug info\n");
    }
    if image.compression() != "none" {
        out.push_str("compressed\n");
    }
    if !image.identifier.is_empty() {
        let _ = writeln!(out, "identifier = {}", image.identifier);
    }
    if image.kind == ImageKind::Ptx {
        let _ = writeln!(out, "ptxasOptions = {}", image.options);
    }
}
