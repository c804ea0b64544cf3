//! The compiler: PTX in, cubin out.
//!
//! ```
//! let ptx = "
//!     .version 8.0
//!     .target sm_75
//!     .address_size 64
//!     .visible .entry fill(.param .u64 out, .param .u32 value)
//!     {
//!         .reg .b64 %out;
//!         .reg .b32 %value;
//!         ld.param.u64 %out, [out];
//!         ld.param.u32 %value, [value];
//!         st.global.u32 [%out], %value;
//!         ret;
//!     }";
//! let cubin = sassafras::compile_ptx(ptx, "sm_90")?;
//! assert!(cubin.bytes.starts_with(b"\x7fELF")); // what cuModuleLoadData takes
//! assert_eq!(cubin.functions[0].spill_stores, 0);
//!
//! let error = sassafras::compile_ptx(&ptx.replace("ret;", "rest;"), "sm_90").unwrap_err();
//! assert!(error.to_string().starts_with("line 12: "));
//! # Ok::<(), sassafras::Error>(())
//! ```
//!
//! [`compile`] takes [`Options`]: level, debug information, launch bounds, [`Limits`], [`Cancel`]. It needs no GPU,
//! CUDA toolkit, files, environment or clock, and also runs on `wasm32-unknown-unknown`.
//!
//! # Inside
//!
//! ```text
//! ptx::Module → lower → ori::Function → opt, codegen → regalloc → mach → object → bytes
//! ```
//!
//! Each stage is a folder; `passes.rs` is the pipeline, and `driver` takes a module through it. Data flows in one
//! direction only. A kernel that cannot be compiled gives diagnostics, never a cubin.

#![deny(missing_docs)]

mod analysis;
mod codegen;
mod context;
mod driver;
mod lower;
mod mach;
mod module;
mod object;
mod opt;
mod passes;
mod regalloc;

pub use context::{
    Bounds, CacheRule, Cancel, Clock, DebugInfo, Knob, Limits, Options, Snapshot, SnapshotLine, Stop, Times,
    Tuning, system_clock,
};
pub use driver::ir_text::{OptError, opt_text, pass_names};
pub use module::tools_patch::not_for_patches;
pub use object::resource_usage::Usage;
pub use passes::{help as help_passes, is_pass, optional as optional_pass};
pub use ptx;
pub use ptx::diag::{Diagnostic, Severity};

use context::{Ended, Failure};
use std::fmt;

/// A compiled module: the file for the driver, and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cubin {
    /// The ELF file for the driver (`cuModuleLoadData`), or for the linker.
    pub bytes: Vec<u8>,
    /// Warnings of the front end and of the compiler.
    pub warnings: Vec<Diagnostic>,
    /// Resource usage of each function, in the order of the PTX text.
    pub functions: Vec<Usage>,
}

impl AsRef<[u8]> for Cubin {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Cubin> for Vec<u8> {
    fn from(cubin: Cubin) -> Vec<u8> {
        cubin.bytes
    }
}

/// Why there is no cubin.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The front end rejects the PTX.
    Ptx(Vec<Diagnostic>),
    /// There is no such target, or the module's `.target` can't run on it, in ptxas's words.
    Target(String),
    /// The compiler rejects the module: a limit of the machine is exceeded, or something is not supported.
    Compile(Vec<Diagnostic>),
    /// It was cancelled, or takes more than [`Options::limits`] allow.
    Stopped(Stop),
}

impl Error {
    /// The diagnostics, in the order in which ptxas says them; none for [`Error::Target`] and [`Error::Stopped`].
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Error::Ptx(all) | Error::Compile(all) => all,
            Error::Target(_) | Error::Stopped(_) => &[],
        }
    }
}

impl fmt::Display for Error {
    /// The first error, with its line.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let all = match self {
            Error::Target(refusal) => return f.write_str(refusal),
            Error::Stopped(stop) => return stop.fmt(f),
            Error::Ptx(all) | Error::Compile(all) => all,
        };
        let first = all.iter().find(|d| d.severity >= Severity::Error).or(all.first());
        match first {
            None => f.write_str("no reason given"),
            Some(Diagnostic { line: Some(line), message, .. }) => write!(f, "line {line}: {message}"),
            Some(Diagnostic { message, .. }) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// Compiles PTX for a target by name, such as `sm_90` or `sm_90a`, with the default options: best code.
pub fn compile_ptx(source: &str, arch: &str) -> Result<Cubin, Error> {
    compile(source, &Options::for_arch(arch)?)
}

/// Compiles PTX: parses and checks it, checks that its `.target` can run on the target, and generates code.
///
/// Functions are compiled on all processors unless [`Options::threads`] says otherwise; the bytes depend on the text and
/// the options alone.
///
/// ```
/// # let ptx = ".version 8.0 .target sm_75 .entry k() { ret; }";
/// use sassafras::{Options, compile};
/// use std::time::Duration;
///
/// let mut options = Options::for_arch("sm_90")?;
/// options.level = 1;
/// options.limits.time = Some(Duration::from_secs(60));
/// let cubin = compile(ptx, &options)?;
/// # assert!(!cubin.bytes.is_empty());
/// # Ok::<(), sassafras::Error>(())
/// ```
pub fn compile(source: &str, options: &Options) -> Result<Cubin, Error> {
    let options = options.started(source.len()).map_err(Error::Stopped)?;
    let parsed = ptx::parse(source, &ptx::Options::default());
    if parsed.failed() {
        return Err(Error::Ptx(parsed.diagnostics));
    }
    let Some(module) = parsed.module else { return Err(Error::Ptx(parsed.diagnostics)) };
    if let Some(refusal) = module.target.refusal(options.target, options.target.name()) {
        return Err(Error::Target(refusal));
    }
    let output = compile_module(&module, &options);
    match (output.cubin, output.stopped) {
        (_, Some(stop)) => Err(Error::Stopped(stop)),
        (None, None) => Err(Error::Compile(output.diagnostics)),
        (Some(bytes), None) => {
            let warnings = [parsed.diagnostics, output.diagnostics].concat();
            Ok(Cubin { bytes, warnings, functions: output.functions })
        }
    }
}

/// The result of [`compile_module`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Output {
    /// `None` if there are errors.
    pub cubin: Option<Vec<u8>>,
    /// Why it ended early, if it did.
    pub stopped: Option<Stop>,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Notes about the launch bounds of kernels; those of severity `Info` are for `-v`.
    pub notes: Vec<Diagnostic>,
    /// Resource usage of each function, in the order of the PTX text.
    pub functions: Vec<Usage>,
    /// Wall time of stages and passes.
    pub times: Times,
    /// The dumps that [`Options::dump`] and [`Options::time_passes`] ask for.
    pub log: String,
    /// The code after each pass, function by function, if [`Options::snapshots`] asks for it.
    pub snapshots: Vec<Snapshot>,
}

/// Compiles a module that the front end accepted: one without errors ([`ptx::Parsed::failed`]).
///
/// [`compile`] does all of that; this is for callers that read the module first, or compile it several times.
pub fn compile_module(module: &ptx::Module, options: &Options) -> Output {
    let mut output = Output::default();
    let result = match options.started(module.source.text().len()) {
        Ok(options) => driver::cubin(module, &options, &mut output),
        Err(stop) => Err(Ended::Stopped(stop)),
    };
    if options.time_passes {
        output.log += &output.times.to_string();
    }
    let failure = match result {
        Ok(cubin) => {
            output.cubin = cubin;
            return output;
        }
        Err(Ended::Failed(failure)) => failure,
        Err(Ended::Stopped(stop)) => {
            output.stopped = Some(stop);
            Failure::of_module(stop.to_string())
        }
    };
    let Failure { line, span, message } = failure;
    let line = Some(line).filter(|line| *line > 0);
    output.diagnostics.push(Diagnostic { severity: Severity::Fatal, file: None, line, span, message });
    output
}
