//! The `sassafras` command as a library: called with ptxas's words it does what ptxas does.
//!
//! [`command`] is the command. [`Ptxas`] takes texts and keeps messages in place of files and stderr, for programs that
//! compile in process with ptxas's options.
//!
//! ```
//! let ptxas = sassafras_cli::Ptxas { words: vec!["-arch=sm_90".into(), "-v".into()], ..Default::default() };
//! let compiled = ptxas.compile(vec![".version 8.0 .target sm_90 .entry k() { ret; }".into()]);
//! assert!(compiled.cubin.is_some() && compiled.succeeded);
//! assert!(compiled.messages.iter().any(|message| message.text.contains("Used 4 registers")));
//! ```

mod answer;
mod command_line;
mod compile;
mod completions;
mod disasm;
mod doctor;
mod doubles;
mod entries;
mod explain;
mod hint;
mod inputs;
mod inspect;
mod jobs;
mod listing;
mod log;
mod manual;
mod messages;
mod opt;
mod options;
mod profile;
mod progress;
mod recording;
mod run;
mod statistics;
mod tool;
mod tools;
mod trace;
mod usage;
mod verify;

pub use log::{FAILED, Message};
pub use ptx::Severity;

use sassafras::Cancel;
use std::path::Path;

/// The command: `program` is the name that it is called by, and `words` follow. Returns the exit code.
pub fn command(program: &str, words: Vec<String>) -> u8 {
    if let Some(exit_code) = tools::call_as(program, &words) {
        return exit_code;
    }
    // Linked as ptxas, it is ptxas: a file may be called `disasm`.
    let name = Path::new(program).file_stem().unwrap_or_default();
    let is_ptxas = name.to_string_lossy().ends_with("ptxas");
    if let Some(exit_code) = (!is_ptxas).then(|| tools::call(&words)).flatten() {
        return exit_code;
    }
    match compile::run(words, is_ptxas) {
        Ok(()) => 0,
        Err(log::Stop) => FAILED,
    }
}

/// Says that a bug ended the compilation, as any other failure is told.
pub fn report_bug(what: &dyn std::fmt::Display) {
    log::Log::default().fatal(&format!("Internal error: {what}"));
}

/// ptxas in process.
#[derive(Clone, Debug, Default)]
pub struct Ptxas {
    /// Options as on the command line: `-arch=sm_90`, `-O1`, `-v`, …
    pub words: Vec<String>,
    /// Ends a compilation early.
    pub cancel: Option<Cancel>,
}

/// What came of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled {
    /// No error was said. Without a cubin, the texts were only to be parsed.
    pub succeeded: bool,
    /// The file for the driver or the linker.
    pub cubin: Option<Vec<u8>>,
    /// What ptxas would print.
    pub messages: Vec<Message>,
}

impl Ptxas {
    /// Compiles PTX texts to one cubin, as ptxas compiles several inputs.
    pub fn compile(self, texts: Vec<String>) -> Compiled {
        let mut log = log::Log::keeping();
        let result = compile::of_texts(self.words, texts, self.cancel, &mut log);
        let (succeeded, cubin) = (result.is_ok(), result.unwrap_or_default());
        Compiled { succeeded, cubin, messages: log.into_messages() }
    }
}

/// How [`disassemble`] prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// With control codes and labels; `sassafras asm` reads it.
    #[default]
    Plain,
    /// With the live registers before each instruction as well.
    Life,
    /// As `nvdisasm -c` prints.
    Nvdisasm,
    /// As JSON.
    Json,
}

/// The code of a cubin as text, or what is wrong with the file.
pub fn disassemble(cubin: &[u8], listing: Listing) -> Result<String, String> {
    let is = |other| listing == other;
    let style =
        disasm::Style { life: is(Listing::Life), json: is(Listing::Json), nvdisasm: is(Listing::Nvdisasm) };
    disasm::disassemble(cubin, &style)
}
