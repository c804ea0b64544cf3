//! `sassafras inspect FILE [--json] [--extract DIR]`: what is in a cubin, a fat binary or a host program.

use std::path::Path;

pub const USAGE: &str = "\
usage: sassafras inspect FILE [--json] [--extract DIR]

Prints what is in a cubin, a fat binary, or a program or library of the host with device code in it.

  --json         print JSON
  --extract DIR  write the cubins and PTX texts that FILE contains into DIR, and print their names instead
";

/// What to do, from the words after `inspect`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    file: String,
    json: bool,
    folder: Option<String>,
}

/// Returns what goes to stdout, or why there is nothing.
pub fn inspect(words: &[String]) -> Result<String, String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(USAGE.to_string());
    }
    let request = parse(words)?;
    let file = &request.file;
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let report =
        match &request.folder {
            Some(folder) => extract(&bytes, file, Path::new(folder)),
            None => cubin::inspect(&bytes)
                .map(|inspection| {
                    if request.json {
                        inspection.to_json()
                    } else {
                        with_source_names(inspection).to_string()
                    }
                })
                .map_err(|error| error.to_string()),
        };
    report.map_err(|problem| format!("{file}: {problem}"))
}

fn with_source_names(mut inspection: cubin::inspect::Inspection) -> cubin::inspect::Inspection {
    let cubins = inspection.images.iter_mut().filter_map(|image| image.cubin.as_mut());
    for kernel in cubins.flat_map(|cubin| &mut cubin.kernels) {
        kernel.source_name = in_source(&kernel.name);
    }
    inspection
}

/// The name that C++ code has for a mangled one: `_Z5saxpyif` is `saxpy(int, float)`.
pub fn in_source(name: &str) -> Option<String> {
    // The depth of a name is bounded there; a name that is too deep stays as it is.
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten()?;
    symbol.demangle().ok()
}

fn parse(words: &[String]) -> Result<Request, String> {
    let mut request = Request::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => request.json = true,
            "--extract" => {
                let folder = words.next().ok_or_else(|| format!("--extract needs a folder\n{USAGE}"))?;
                request.folder = Some(folder.clone());
            }
            _ if word.starts_with('-') => return Err(format!("unknown option {word}\n{USAGE}")),
            _ if request.file.is_empty() => request.file = word.clone(),
            _ => return Err(format!("one file at a time\n{USAGE}")),
        }
    }
    if request.file.is_empty() {
        return Err(format!("no file is given\n{USAGE}"));
    }
    if request.json && request.folder.is_some() {
        return Err(format!("--json and --extract exclude each other\n{USAGE}"));
    }
    Ok(request)
}

/// Writes every image of a fat binary or of a host program to a file of its own, and lists the files.
fn extract(bytes: &[u8], file: &str, folder: &Path) -> Result<String, String> {
    let images = cubin::fatbin::images(bytes).map_err(|error| error.to_string())?;
    if images.is_empty() {
        return Err("there is no fat binary in it".to_string());
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    let mut list = String::new();
    for (index, image) in images.iter().enumerate() {
        let path = folder.join(format!("{stem}.{}", image.file_name(index + 1)));
        std::fs::write(&path, &image.bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        list.push_str(&format!("{}\n", path.display()));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::{Request, USAGE, parse};

    fn request(words: &[&str]) -> Result<Request, String> {
        let first_line = |message: String| message.lines().next().unwrap_or_default().to_string();
        parse(&strings(words)).map_err(first_line)
    }

    fn inspect(words: &[&str]) -> Result<String, String> {
        super::inspect(&strings(words))
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn words_in_any_order() {
        let plain = Request { file: "a".into(), ..Request::default() };
        assert_eq!(request(&["a"]), Ok(plain));
        let json = Request { file: "a".into(), json: true, folder: None };
        assert_eq!(request(&["--json", "a"]).as_ref(), Ok(&json));
        assert_eq!(request(&["a", "--json"]), Ok(json));
        let extract = Request { file: "a".into(), json: false, folder: Some("b".into()) };
        assert_eq!(request(&["--extract", "b", "a"]), Ok(extract));
    }

    #[test]
    fn names_as_the_source_has_them() {
        let named = |name: &str| super::in_source(name).unwrap_or_default();
        assert_eq!(named("_Z5saxpyifPKfPf"), "saxpy(int, float, float const*, float*)");
        assert_eq!(named("_ZN2ns6kernelIfLi4EEEvPT_"), "void ns::kernel<float, 4>(float*)");
        for plain in ["saxpy", "_Z", "_Zx", ""] {
            assert_eq!(named(plain), "", "{plain}");
        }
        // Names of others must not overflow the stack.
        assert_eq!(named(&format!("_Z1f{}i", "P".repeat(100_000))), "");
    }

    #[test]
    fn other_words_are_refused() {
        assert_eq!(request(&[]), Err("no file is given".into()));
        assert_eq!(request(&["a", "b"]), Err("one file at a time".into()));
        assert_eq!(request(&["-x", "a"]), Err("unknown option -x".into()));
        assert_eq!(request(&["a", "--extract"]), Err("--extract needs a folder".into()));
        assert_eq!(
            request(&["a", "--json", "--extract", "b"]),
            Err("--json and --extract exclude each other".into())
        );
        assert_eq!(inspect(&["--help"]), Ok(USAGE.to_string()));
    }

    /// A folder of its own that goes away with the value.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let folder = std::env::temp_dir().join(format!("sassafras-inspect-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder for temporary files");
            Scratch(folder)
        }

        fn write(&self, name: &str, bytes: &[u8]) -> String {
            let path = self.0.join(name);
            std::fs::write(&path, bytes).expect("a temporary file");
            path.to_string_lossy().into_owned()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            // Left-over temporary files are no reason to fail.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A fat binary with one image of PTX.
    fn fat_binary(text: &[u8]) -> Vec<u8> {
        let mut image = [0; 64];
        image[0] = 1; // PTX
        image[4] = 64; // the size of this header
        image[8..16].copy_from_slice(&text.len().to_le_bytes());
        image[28] = 75; // the SM
        let header = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        [&header[..], &(image.len() + text.len()).to_le_bytes(), &image, text].concat()
    }

    #[test]
    fn files_are_described_and_taken_apart() {
        let scratch = Scratch::new();
        let module = cubin::Module::new(cubin::Target { sm: 90, accelerated: true }, 90);
        let cubin = scratch.write("a.cubin", &module.to_object().unwrap().write().unwrap());
        assert!(inspect(&[&cubin]).unwrap().starts_with("EXEC for sm_90a from PTX for sm_90"));
        assert!(inspect(&[&cubin, "--json"]).unwrap().starts_with("{"));
        let nothing = inspect(&[&cubin, "--extract", "unused"]).unwrap_err();
        assert_eq!(nothing, format!("{cubin}: there is no fat binary in it"));

        let fat = scratch.write("b.fatbin", &fat_binary(b".version 8.0\n\0\0\0"));
        assert!(inspect(&[&fat]).unwrap().starts_with("fat binary, 1 images\nimage 1: PTX for sm_75"));
        let folder = scratch.0.join("out").to_string_lossy().into_owned();
        let listed = inspect(&[&fat, "--extract", &folder]).unwrap();
        assert_eq!(listed, format!("{folder}/b.1.sm_75.ptx\n"));
        assert_eq!(std::fs::read(listed.trim_end()).unwrap(), b".version 8.0\n");

        let text = scratch.write("c.txt", b"text");
        let message = inspect(&[&text]).unwrap_err();
        assert_eq!(
            message,
            format!("{text}: at offset 0x0: this is no cubin, no fat binary and no 64-bit ELF file")
        );
        assert!(inspect(&["/no/such/file"]).unwrap_err().starts_with("/no/such/file: "));
    }
}
