//! `nvdisasm`: a cubin as assembly text.

mod data;
mod info;
mod json;
mod labels;
mod print;

use crate::Answer;
use crate::options::{Row, Words, flag, value};
use cubin::raw::File;

/// How it is called.
pub const USAGE: &str = "\
usage: sassafras nvdisasm [OPTIONS] FILE

Prints a cubin as nvdisasm of CUDA 13.2 does.

  -c, --print-code                   only sections with code
  -hex, --print-instruction-encoding the words beside the instructions
  -json, --emit-json                 the functions as JSON
  -raw, --print-raw                  blanks in place of tabs
  -sf, --separate-functions          blank lines before functions
  -ndf, --no-dataflow                not where indirect branches lead
  -sort, --sort-sections             sections by name
  -b, --binary SMxy                  FILE holds instructions alone; -base ADDRESS is where they are
  -V, --version; -h, --help

docs/binutils.md lists what is refused.
";

static OPTIONS: &[Row] = &[
    value("base-address", "base"),
    value("binary", "b"),
    value("cuda-function-index", "fun"),
    flag("emit-json", "json"),
    flag("help", "h"),
    value("life-range-mode", "lrm"),
    flag("no-dataflow", "ndf"),
    flag("no-vliw", "novliw"),
    value("options-file", "optf"),
    flag("output-control-flow-graph", "cfg"),
    flag("output-control-flow-graph-with-basic-blocks", "bbcfg"),
    flag("print-code", "c"),
    flag("print-instr-offsets-cfg", "poff"),
    flag("print-instruction-encoding", "hex"),
    flag("print-life-ranges", "plr"),
    flag("print-line-info", "g"),
    flag("print-line-info-inline", "gi"),
    flag("print-line-info-ptx", "gp"),
    flag("print-raw", "raw"),
    flag("separate-functions", "sf"),
    flag("sort-sections", "sort"),
    flag("version", "V"),
];

/// Modes that are not there yet.
const REFUSED: &[&str] = &[
    "cuda-function-index",
    "life-range-mode",
    "output-control-flow-graph",
    "output-control-flow-graph-with-basic-blocks",
    "print-instr-offsets-cfg",
    "print-life-ranges",
    "print-line-info",
    "print-line-info-inline",
    "print-line-info-ptx",
];

const VERSION: &str = "\
nvdisasm: NVIDIA (R) CUDA disassembler compatible: Sassafras
Cuda compilation tools, release 13.2, V13.2.51
";

/// What to print.
#[derive(Default)]
pub struct Style {
    /// Only sections with code.
    pub code_only: bool,
    /// The words beside the instructions.
    pub words: bool,
    /// Guards stand beside their instructions.
    pub raw: bool,
    /// Blank lines before functions.
    pub separate: bool,
    /// Sections by name.
    pub sorted: bool,
    /// Where indirect branches lead.
    pub dataflow: bool,
}

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
        return Err(format!("nvdisasm: --{mode} is not supported"));
    }
    let [file] = &words.files[..] else {
        return Err(format!("nvdisasm: one input file is needed, not {}", words.files.len()));
    };
    let bytes = std::fs::read(file).map_err(|error| format!("nvdisasm: cannot open {file}: {error}"))?;
    let fail = |error: String| format!("nvdisasm: {file}: {error}");
    let text = match words.get("binary") {
        Some(machine) => binary(&bytes, machine, &words).map_err(fail)?,
        None if words.has("emit-json") => {
            let file = File::read(&bytes).map_err(|error| fail(error.to_string()))?;
            json::file(&file).map_err(fail)?
        }
        None => disassemble(&bytes, &style(&words)).map_err(fail)?,
    };
    let text = if words.has("print-raw") { without_tabs(&text) } else { text };
    Ok(Answer { text: text.into_bytes(), code: 0 })
}

fn style(words: &Words) -> Style {
    Style {
        code_only: words.has("print-code"),
        raw: words.has("print-raw"),
        words: words.has("print-instruction-encoding"),
        separate: words.has("separate-functions"),
        sorted: words.has("sort-sections"),
        dataflow: !words.has("no-dataflow"),
    }
}

/// The target of a cubin: `sm_90a`.
pub fn target(file: &File) -> String {
    print::target(file)
}

/// A cubin as text.
pub fn disassemble(bytes: &[u8], style: &Style) -> Result<String, String> {
    let file = File::read(bytes).map_err(|error| error.to_string())?;
    print::file(&file, style)
}

/// Instructions without a container.
fn binary(bytes: &[u8], machine: &str, words: &Words) -> Result<String, String> {
    let lower = machine.to_lowercase();
    let digits = lower.trim_start_matches("sm").trim_start_matches('_').trim_end_matches(['a', 'f']);
    let sm = digits.parse().map_err(|_| format!("'{machine}' is no machine"))?;
    let base = words.get("base-address").unwrap_or("0");
    let base = match base.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => base.parse(),
    };
    let base = base.map_err(|_| "the base address is no number".to_string())?;
    print::binary(bytes, sm, base, &lower, words.has("print-instruction-encoding"))
}

/// Tab stops are eight columns apart.
fn without_tabs(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let next = (column / 8 + 1) * 8;
                out.extend(std::iter::repeat_n(' ', next - column));
                column = next;
            }
            '\n' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}
