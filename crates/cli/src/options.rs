//! The command line: ptxas's words, and a few of our own.
//!
//! Long names take two dashes, short ones take one; a value follows after `=` or as the next word, glued only to
//! `-O` and `-m`. Words that we don't know are refused with ptxas's text.

use ptx::Target;
use std::ffi::OsString;

pub enum Command {
    Help,
    Version,
    Compile(Box<Request>),
}

pub struct Request {
    pub inputs: Vec<String>,
    pub output: String,
    pub target: Target,
    /// The machine as it was named.
    pub arch: String,
    /// `-arch=compute_XX`: check, write nothing.
    pub parse_only: bool,
    /// `--diagnostics=rich`
    pub rich: bool,
    pub verify: bool,
    pub dump: Option<String>,
    /// As the cubin's note has it.
    pub command_line: String,
}

pub const VERSION: &str = "sassafras: an open PTX compiler, in the place of
ptxas: NVIDIA (R) Ptx optimizing assembler
Cuda compilation tools, release 13.0, V13.0.88
";

pub const HELP: &str = "Usage: sassafras [options] FILE.ptx

Compiles PTX to a cubin, taking ptxas's options:

  -arch, --gpu-name NAME        the machine: sm_90, sm_90a; compute_NN checks and writes nothing
  -o, --output-file FILE        where the cubin goes (default: elf.o)
  -m, --machine 64              the address size
  -O, --opt-level N             accepted; all code is compiled at level 0 for now
  -V, --version   -h, --help

and, of its own:

  sassafras disasm FILE         a listing with control codes; also --life, --json, --like-nvdisasm, --raw SM
  sassafras asm LISTING -o FILE a listing back to words
  sassafras inspect FILE        what is in a cubin, a fat binary or a host file; also --json, --extract DIR

  --diagnostics=rich            errors with the source line and help
  --verify                      check the IR after every pass
  --dump-ir[=PASS]              print the IR after PASS, or after each
";

/// What an option takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Nothing,
    /// A word of its own or after `=`.
    Value,
    /// Only after `=`.
    Optional,
}

/// Long name, short name, and what it takes.
const OPTIONS: &[(&str, &str, Takes)] = &[
    ("--gpu-name", "-arch", Takes::Value),
    ("--output-file", "-o", Takes::Value),
    ("--machine", "-m", Takes::Value),
    ("--opt-level", "-O", Takes::Value),
    ("--help", "-h", Takes::Nothing),
    ("--version", "-V", Takes::Nothing),
    ("--diagnostics", "", Takes::Value),
    ("--verify", "", Takes::Nothing),
    ("--dump-ir", "", Takes::Optional),
];

/// Options whose value may be glued to the short name.
const GLUED: &[&str] = &["-O", "-m"];

pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut words = words.map(|w| w.to_string_lossy().into_owned());
    let mut r = Request {
        inputs: Vec::new(),
        output: "elf.o".into(),
        target: Target::default(),
        arch: Target::default().name().to_string(),
        parse_only: false,
        rich: false,
        verify: false,
        dump: None,
        command_line: String::new(),
    };
    let (mut help, mut version, mut empty) = (false, false, true);
    while let Some(word) = words.next() {
        empty = false;
        if !word.starts_with('-') || word == "-" {
            r.inputs.push(word);
            continue;
        }
        let (name, mut value) = split(&word);
        let option = OPTIONS.iter().find(|(long, short, _)| name == *long || name == *short);
        let Some(&(long, _, takes)) = option else {
            return Err(format!("Unknown option '{}'", &word[1..]));
        };
        if takes == Takes::Nothing && value.is_some() {
            return Err(format!("no argument expected after '{name}'"));
        }
        if takes == Takes::Value && value.is_none() && name != "-O" {
            value = words.next();
            if value.is_none() {
                return Err(format!("argument expected after '{name}'"));
            }
        }
        let value = value.unwrap_or_default();
        match long {
            "--help" => help = true,
            "--version" => version = true,
            "--verify" => r.verify = true,
            "--diagnostics" => r.rich = value == "rich",
            "--dump-ir" => r.dump = Some(if value.is_empty() { "all".into() } else { value }),
            "--output-file" => r.output = value,
            "--gpu-name" => {
                let undefined = || format!("Value '{value}' is not defined for option 'gpu-name'");
                r.target = Target::find(&value).filter(|t| t.sm() >= 75).ok_or_else(undefined)?;
                r.parse_only = value.starts_with("compute_");
                r.arch = value;
            }
            "--machine" if value != "64" => {
                return Err(format!("Value '{value}' is not defined for option 'machine'"));
            }
            "--opt-level" if value.parse::<i64>().is_err() => {
                return Err(format!("'{value}': expected a number"));
            }
            _ => {}
        }
    }
    if empty || help {
        return Ok(Command::Help);
    }
    if version {
        return Ok(Command::Version);
    }
    r.command_line = format!("-arch {} ", r.target.name());
    Ok(Command::Compile(Box::new(r)))
}

fn split(word: &str) -> (&str, Option<String>) {
    if let Some((name, value)) = word.split_once('=') {
        return (name, Some(value.to_string()));
    }
    for glued in GLUED {
        if let Some(value) = word.strip_prefix(glued).filter(|v| v.starts_with(|c: char| c.is_ascii_digit()))
        {
            return (glued, Some(value.to_string()));
        }
    }
    (word, None)
}
