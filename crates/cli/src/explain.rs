//! `sassafras explain FILE.ptx`: one HTML page that shows what becomes of a kernel.

use crate::hint::hint;
use crate::messages::catalog;
use crate::options::Arch;
use crate::progress::Progress;
use ::explain::{Image, Launches, Request, page};
use gpu::runline::{self, Run};
use std::path::{Path, PathBuf};

pub const USAGE: &str = "\
usage: sassafras explain FILE.ptx [-o PAGE.html] [OPTIONS]

Compiles FILE.ptx and writes a page that shows the source, the code after each pass, and the machine code with control
codes, register pressure, an issue timeline and occupancy, linked line by line. The page needs no network. The timeline
is that of the model of `sassafras profile`: of the launches in run lines (crates/gpu/README.md), for each kernel the
one with the most threads; without one, a warp walks straight through the code. docs/explain.md says more.

  -o FILE           where the page goes (FILE.html); - is stdout
  -arch SM          the target (the one that FILE.ptx names)
  -O0 ... -O3       the level of optimization (-O3)
  --compare CUBIN   show the code of another cubin of this module beside ours; with -lineinfo it is linked, too
  --launch TEXT     a launch in place of the run lines: 'k grid=(64) block=(128) args: n:u32=8192 x:f32[n]=random(1)'
  --run N           the Nth launch in FILE.ptx, from 1
  --json            write the document that the page shows, in place of the page
";

#[derive(Default)]
struct Words {
    file: Option<String>,
    output: Option<String>,
    arch: Option<String>,
    level: Option<u8>,
    compare: Option<String>,
    launch: Option<String>,
    run: Option<usize>,
    json: bool,
}

impl Words {
    fn read(words: &[String]) -> Result<Words, String> {
        let mut given = Words::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "-o" => given.output = Some(value()?),
                "-arch" | "--arch" => given.arch = Some(value()?),
                "--compare" => given.compare = Some(value()?),
                "--launch" => given.launch = Some(value()?),
                "--run" => {
                    given.run = Some(value()?.parse().map_err(|_| "--run takes a number".to_string())?)
                }
                "--json" => given.json = true,
                "-O0" | "-O1" | "-O2" | "-O3" => given.level = word[2..].parse().ok(),
                word if word.starts_with("-arch=") || word.starts_with("--arch=") => {
                    given.arch = word.split_once('=').map(|(_, arch)| arch.to_string());
                }
                word if word.starts_with('-') => return Err(format!("unknown option {word}\n{USAGE}")),
                _ if given.file.is_some() => return Err(format!("one file at a time\n{USAGE}")),
                _ => given.file = Some(word.clone()),
            }
        }
        Ok(given)
    }
}

/// Writes the page; what is left to print is where it is.
pub fn explain(words: &[String]) -> Result<String, String> {
    let given = Words::read(words)?;
    let file = given.file.as_ref().ok_or_else(|| format!("no file is given\n{USAGE}"))?;
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        // `E031` is hardly a file.
        Err(_) if is_like_code(file) => return catalog::explain(file),
        Err(error) => return Err(format!("{file}: {error}")),
    };
    let source = ptx::source_text(&bytes).map_err(|d| format!("{file}: {}", d.message))?;
    let compare = match &given.compare {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
            Some(Image::new(&bytes).map_err(|e| format!("{path}: {e}"))?)
        }
        None => None,
    };
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let name = Path::new(file).file_name().map_or(file.clone(), |name| name.to_string_lossy().into_owned());
    let runs = runs(&given, source).map_err(|error| format!("{file}: {error}"))?;
    let request = Request {
        source,
        name: &name,
        options: options(&given, source)?,
        compare: compare.as_ref(),
        launches: Launches::of(&runs),
        read: &|path| read(folder, path),
    };
    let refused = |why: Vec<_>| crate::log::rich_text(file, source, &why, &[]);
    let progress = Progress::show(&format!("{name}: compiling, and simulating launches"));
    let explained = ::explain::explain(&request).map_err(refused)?;
    drop(progress);
    let unknown = runs.iter().map(|run| &run.kernel).find(|kernel| !explained.kernels.contains(kernel));
    if let Some(kernel) = unknown.filter(|_| given.launch.is_some()) {
        let near = hint(kernel, explained.kernels.iter().map(String::as_str));
        return Err(format!("{file} has no kernel {kernel}{near}"));
    }
    let (text, suffix) = match given.json {
        true => (explained.json, "json"),
        false => (page(&format!("{name} · sassafras explain"), &explained.json), "html"),
    };
    match given.output.as_deref() {
        Some("-") => Ok(text),
        output => {
            let path = output.map_or_else(|| PathBuf::from(file).with_extension(suffix), PathBuf::from);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(format!("{}\n", path.display()))
        }
    }
}

/// The launches for the timeline.
fn runs(given: &Words, source: &str) -> Result<Vec<Run>, String> {
    if let Some(text) = &given.launch {
        return runline::launch(text).map(|run| vec![run]).map_err(|error| error.message);
    }
    let runs = runline::parse(source).map_err(|error| error.to_string());
    let Some(number) = given.run else {
        // A comment that begins like a run line need not be one.
        return Ok(runs.unwrap_or_else(|error| {
            eprintln!("the timeline is without run lines: {error}");
            Vec::new()
        }));
    };
    let mut runs = runs?;
    match number {
        number if (1..=runs.len()).contains(&number) => Ok(vec![runs.swap_remove(number - 1)]),
        _ => Err(format!("there are {} launches", runs.len())),
    }
}

fn is_like_code(word: &str) -> bool {
    word.strip_prefix('E').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn options(given: &Words, source: &str) -> Result<sassafras::Options, String> {
    let arch = match &given.arch {
        Some(arch) => Arch::find(arch).map(|arch| arch.target),
        None => ptx::parse(source, &ptx::Options::default()).module.map(|module| module.target),
    };
    let target = match (arch, &given.arch) {
        (Some(target), _) => target,
        (None, Some(arch)) => {
            let known = targets::PTX_TARGETS.iter().map(|target| target.name);
            return Err(format!("'{arch}' is no target{}", hint(arch, known)));
        }
        // What is wrong with the text is said when it is compiled.
        (None, None) => ptx::Target::default(),
    };
    Ok(sassafras::Options::new(target).with(|o| o.level = given.level.unwrap_or(o.level)))
}

/// A source file that the module names: as it is named, or beside the module.
fn read(folder: &Path, path: &str) -> Option<String> {
    let beside = Path::new(path).file_name().map(|name| folder.join(name));
    let places = [Some(PathBuf::from(path)), Some(folder.join(path)), beside];
    places.into_iter().flatten().find_map(|place| std::fs::read_to_string(place).ok())
}
