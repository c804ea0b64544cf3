//! The cubins in the files of a command line.

use super::Object;
use crate::options::Words;
use cubin::fatbin::{self, Container, ImageKind};
use cubin::{FileType, Home};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Default)]
pub struct Inputs {
    pub objects: Vec<Object>,
    /// Names that the host compiler gave the files.
    pub modules: Vec<String>,
    pub warnings: Vec<String>,
}

pub fn gather(words: &Words, arch: &str) -> Result<Inputs, String> {
    let mut inputs = Inputs::default();
    let mut archives = Vec::new();
    for path in &words.files {
        let bytes =
            std::fs::read(path).map_err(|error| format!("Could not open input file '{path}': {error}"))?;
        if bytes.starts_with(ARCHIVE) {
            archives.push((path.clone(), bytes));
        } else {
            let file = read(path, &bytes, arch)?;
            inputs.add(path, file, arch);
        }
    }
    for name in words.all("library") {
        // As with nvlink, a library that is nowhere is no error: the host's linker is given the same names.
        if let Some(path) = find(words, name) {
            let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            archives.push((path.display().to_string(), bytes));
        }
    }
    for (path, bytes) in &archives {
        inputs.add_archive(path, bytes, arch)?;
    }
    Ok(inputs)
}

fn find(words: &Words, name: &str) -> Option<PathBuf> {
    let file = format!("lib{name}.a");
    words.all("library-path").map(|folder| Path::new(folder).join(&file)).find(|path| path.is_file())
}

/// A file of the command line or of an archive.
struct Found {
    cubins: Vec<cubin::Object>,
    module: Option<String>,
    has_code: bool,
}

/// The target without the letter: what is built for sm_90 links with sm_90a.
fn number(arch: &str) -> Option<u32> {
    arch.rsplit('_').next()?.trim_end_matches(['a', 'f']).parse().ok()
}

fn read(path: &str, bytes: &[u8], arch: &str) -> Result<Found, String> {
    let sm = number(arch).ok_or_else(|| format!("'{arch}' is no target"))?;
    let fail = |error: String| format!("{path}: {error}");
    let container = fatbin::container(bytes).map_err(|error| fail(error.to_string()))?;
    let mut found = Found { cubins: Vec::new(), module: None, has_code: false };
    let images = match container {
        Container::Cubin => vec![fatbin::Image::of_cubin(bytes.to_vec())],
        Container::FatBinary => fatbin::images(bytes).map_err(|error| fail(error.to_string()))?,
        Container::Host => {
            let sections = cubin::elf_sections(bytes).map_err(|error| fail(error.to_string()))?;
            let module = sections.iter().find(|(name, _)| name == "__nv_module_id");
            found.module =
                module.map(|(_, bytes)| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string());
            let relocatable = sections.iter().filter(|(name, _)| name == "__nv_relfatbin");
            let mut images = Vec::new();
            for (_, bytes) in relocatable {
                images.extend(fatbin::images(bytes).map_err(|error| fail(error.to_string()))?);
            }
            images
        }
    };
    found.has_code = !images.is_empty();
    let mut containers = BTreeSet::new();
    for image in images.iter().filter(|image| image.kind == ImageKind::Cubin && image.sm == sm) {
        // One of each fat binary.
        if !containers.insert(image.container) {
            continue;
        }
        let object = cubin::Object::read(&image.bytes).map_err(|error| fail(error.to_string()))?;
        if object.header.file_type == FileType::RELOCATABLE {
            found.cubins.push(object);
        } else if container == Container::Cubin {
            return Err(fail("it is linked already".into()));
        }
    }
    Ok(found)
}

impl Inputs {
    fn add(&mut self, path: &str, found: Found, arch: &str) {
        let name = Path::new(path).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        if found.cubins.is_empty() && found.has_code {
            self.warnings.push(format!("SM Arch ('{arch}') not found in '{path}'"));
        }
        if found.has_code {
            self.modules.extend(found.module);
        }
        self.objects.extend(found.cubins.into_iter().map(|object| Object { name: name.clone(), object }));
    }

    /// Adds the members that define something that is missing.
    fn add_archive(&mut self, path: &str, bytes: &[u8], arch: &str) -> Result<(), String> {
        let mut members = Vec::new();
        for (name, bytes) in members_of(bytes).map_err(|error| format!("{path}: {error}"))? {
            // Members that are no objects, and objects of the host alone.
            if fatbin::container(bytes).is_ok() {
                members.push((name.clone(), read(&name, bytes, arch)?));
            }
        }
        loop {
            let missing = self.missing();
            let wanted = members.iter().position(|(_, member)| {
                member.cubins.iter().any(|cubin| defined(cubin).any(|name| missing.contains(name)))
            });
            let Some(wanted) = wanted else { return Ok(()) };
            let (name, member) = members.remove(wanted);
            self.add(&name, member, arch);
        }
    }

    fn missing(&self) -> BTreeSet<String> {
        let all = || self.objects.iter().map(|object| &object.object);
        let defined: BTreeSet<&str> = all().flat_map(defined).collect();
        let undefined = all().flat_map(|object| object.symbols()).filter(|symbol| {
            symbol.home == Home::Undefined
                && !symbol.name.is_empty()
                && symbol.binding == cubin::Binding::GLOBAL
        });
        undefined
            .filter(|symbol| !defined.contains(symbol.name.as_str()))
            .map(|symbol| symbol.name.clone())
            .collect()
    }
}

fn defined(object: &cubin::Object) -> impl Iterator<Item = &str> {
    let symbols = object.symbols().iter();
    let global =
        symbols.filter(|symbol| symbol.binding != cubin::Binding::LOCAL && symbol.home != Home::Undefined);
    global.map(|symbol| symbol.name.as_str())
}

const ARCHIVE: &[u8] = b"!<arch>\n";
const MEMBER_HEADER: usize = 60;

/// The members of an archive of `ar`, GNU's kind, without its tables.
fn members_of(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, String> {
    let mut members = Vec::new();
    let mut long_names: &[u8] = &[];
    let mut at = ARCHIVE.len();
    while let Some(header) = bytes.get(at..at + MEMBER_HEADER) {
        let field =
            |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).trim().to_string();
        let size: usize = field(48..58).parse().map_err(|_| "a member has no size".to_string())?;
        let body = bytes.get(at + MEMBER_HEADER..at + MEMBER_HEADER + size).ok_or("a member is cut off")?;
        let name = field(0..16);
        match name.as_str() {
            "/" | "/SYM64/" => {}
            "//" => long_names = body,
            name => members.push((member_name(name, long_names), body)),
        }
        at += MEMBER_HEADER + size + size % 2;
    }
    Ok(members)
}

fn member_name(name: &str, long_names: &[u8]) -> String {
    let long = name.strip_prefix('/').and_then(|offset| offset.parse::<usize>().ok());
    let text = match long.and_then(|offset| long_names.get(offset..)) {
        Some(rest) => {
            String::from_utf8_lossy(rest.split(|&byte| byte == b'\n').next().unwrap_or_default()).into()
        }
        None => name.to_string(),
    };
    text.trim_end_matches('/').to_string()
}
