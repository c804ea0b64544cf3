//! `nvlink`: relocatable cubins to one that the driver loads.
//!
//! [`input`] finds the cubins in objects, archives and fat binaries; [`merge`] gives all functions and variables one
//! numbering and resolves names; [`reach`] finds what kernels need, with its registers, barriers and stack;
//! [`shared`] gives places in shared memory; [`output`] writes the file.

mod input;
mod merge;
mod output;
mod patch;
mod reach;
mod shared;

use crate::Answer;
use crate::options::{Row, Words, flag, value};

/// How it is called.
pub const USAGE: &str = "\
usage: sassafras nvlink -arch=SM [OPTIONS] FILES -o FILE

Links relocatable cubins, of this compiler and of ptxas, as nvlink of CUDA 13.0 does. FILES are cubins, fat binaries,
objects of the host compiler and archives of these.

  -arch=SM, --arch SM                 the target: sm_90, sm_100a
  -o FILE, --output-file FILE         where the cubin goes
  -l NAME, -L FOLDER                  archives, and where they are
  --register-link-binaries=FILE       names of the linked objects, for the host compiler
  -v, --verbose                       what each kernel uses
  -w, --disable-warnings              no warnings
  -m64, -g, -cpu-arch, -host-ccbin, -report-arch, -suppress-stack-size-warning, -suppress-arch-warning,
  -ignore-host-info, -use-host-info, -keep-system-libraries, -disable-infos
                                      accepted
  -V, --version; -h, --help

docs/binutils.md lists what is refused.
";

static OPTIONS: &[Row] = &[
    value("arch", "arch"),
    value("cpu-arch", "cpu-arch"),
    flag("debug", "g"),
    flag("device-stack-protector", "device-stack-protector"),
    flag("disable-infos", "disable-infos"),
    flag("disable-warnings", "w"),
    flag("dlto", "dlto"),
    flag("dump-callgraph", "dump-callgraph"),
    flag("emit-ptx", "emit-ptx"),
    flag("extra-warnings", "extrawarn"),
    flag("help", "h"),
    value("host-ccbin", "host-ccbin"),
    flag("ignore-host-info", "ignore-host-info"),
    flag("keep-system-libraries", "keep-system-libraries"),
    value("kernels-used", "kernels-used"),
    value("library", "l"),
    value("library-path", "L"),
    flag("link-time-opt", "lto"),
    value("machine", "m"),
    flag("m64", "m64"),
    value("maxrregcount", "maxrregcount"),
    value("options-file", "optf"),
    value("output-file", "o"),
    flag("preserve-relocs", "preserve-relocs"),
    value("register-link-binaries", "register-link-binaries"),
    flag("relocatable-link", "r"),
    flag("report-arch", "report-arch"),
    flag("suppress-arch-warning", "suppress-arch-warning"),
    flag("suppress-debug-info", "suppress-debug-info"),
    flag("suppress-stack-size-warning", "suppress-stack-size-warning"),
    flag("use-host-info", "use-host-info"),
    value("variables-used", "variables-used"),
    flag("verbose", "v"),
    flag("version", "V"),
    flag("warning-as-error", "Werror"),
];

/// What needs more than linking, or is not there yet.
const REFUSED: &[&str] = &[
    "device-stack-protector",
    "dlto",
    "dump-callgraph",
    "emit-ptx",
    "kernels-used",
    "link-time-opt",
    "preserve-relocs",
    "relocatable-link",
    "variables-used",
];

const VERSION: &str = "\
nvlink: NVIDIA (R) Cuda linker compatible: Sassafras
Cuda compilation tools, release 13.0, V13.0.88
";

/// The command.
pub fn run(words: &[String]) -> Result<Answer, String> {
    let fail = |error: String| format!("nvlink fatal   : {error}");
    let words = attached(words);
    let words = Words::parse(OPTIONS, &words).map_err(fail)?;
    if words.has("help") {
        return Ok(Answer { text: USAGE.into(), code: 0 });
    }
    if words.has("version") {
        return Ok(Answer { text: VERSION.into(), code: 0 });
    }
    if let Some(mode) = REFUSED.iter().find(|mode| words.has(mode)) {
        return Err(fail(format!("--{mode} is not supported")));
    }
    let arch = words.get("arch").ok_or_else(|| fail("no target is given: -arch=sm_90".into()))?;
    let output = words.get("output-file").unwrap_or("a.out");
    let inputs = input::gather(&words, arch).map_err(fail)?;
    if !words.has("disable-warnings") && !words.has("suppress-arch-warning") {
        inputs.warnings.iter().for_each(|warning| eprintln!("nvlink warning : {warning}"));
    }
    let linked = link(&inputs.objects, arch)?;
    if !words.has("disable-warnings") && !words.has("suppress-stack-size-warning") {
        linked.warnings.iter().for_each(|warning| eprintln!("nvlink warning : {warning}"));
    }
    std::fs::write(output, &linked.bytes).map_err(|error| fail(format!("{output}: {error}")))?;
    if let Some(path) = words.get("register-link-binaries") {
        let names: String =
            inputs.modules.iter().map(|name| format!("DEFINE_REGISTER_FUNC({name})\n")).collect();
        let text = format!("#define NUM_PRELINKED_OBJECTS {}\n{names}", inputs.modules.len());
        std::fs::write(path, text).map_err(|error| fail(format!("{path}: {error}")))?;
    }
    if words.has("verbose") && !words.has("disable-infos") {
        eprint!("{}", linked.report);
    }
    Ok(Answer::default())
}

/// `-lcudadevrt` and `-L/usr/lib` as an option and its value.
fn attached(words: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for word in words {
        match (word.get(..2), word.get(2..)) {
            (Some(option @ ("-l" | "-L")), Some(value))
                if !value.is_empty() && !word.starts_with("-lto") && !value.starts_with('=') =>
            {
                out.extend([option.to_string(), value.to_string()]);
            }
            _ => out.push(word.clone()),
        }
    }
    out
}

/// What linking gives.
pub struct Linked {
    /// The cubin.
    pub bytes: Vec<u8>,
    /// What is said with `-v`.
    pub report: String,
    /// What may be wrong.
    pub warnings: Vec<String>,
}

/// A relocatable cubin, and what it is called in messages.
pub struct Object {
    /// The file.
    pub name: String,
    /// The cubin.
    pub object: cubin::Object,
}

/// Links relocatable cubins for a target. An error is all messages for stderr.
pub fn link(objects: &[Object], arch: &str) -> Result<Linked, String> {
    let program = merge::merge(objects)?;
    let reached = reach::reach(&program);
    let places = shared::places(&program, &reached);
    output::write(objects, &program, &reached, &places, arch)
}
