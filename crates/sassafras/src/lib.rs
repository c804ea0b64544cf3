//! The compiler: PTX in, cubin out.
//!
//! ```text
//! ptx::Module → lower → ori::Function → opt, codegen → regalloc → mach → object → bytes
//! ```
//!
//! The stages are the folders; `passes.rs` is the pipeline, `driver.rs` takes a module through it. Nothing flows
//! backwards. A kernel that we cannot compile gives diagnostics, never a cubin.

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

pub use context::{Bounds, CacheRule, DebugInfo, Knob, Options, Times, Tuning};
pub use driver::ir_text::{OptError, opt_text, pass_names};
pub use module::tools_patch::not_for_patches;
pub use object::resource_usage::Usage;
pub use passes::{help as help_passes, is_pass, optional as optional_pass};
pub use ptx;

use context::Failure;
use ptx::diag::{Diagnostic, Severity};
use std::fmt;

/// A compiled module.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Compiled {
    /// The ELF file for the driver (`cuModuleLoadData`), or for the linker.
    pub cubin: Vec<u8>,
    /// Warnings of the front end and of the compiler.
    pub warnings: Vec<Diagnostic>,
    /// Resource usage of each function, in the order of the PTX text.
    pub functions: Vec<Usage>,
}

/// Why there is no cubin.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The front end rejects the PTX.
    Ptx(Vec<Diagnostic>),
    /// The module's `.target` can't run on the target, in ptxas's words.
    Target(String),
    /// The compiler rejects the module: a limit is exceeded, or something is not supported.
    Compile(Vec<Diagnostic>),
}

impl Error {
    /// The diagnostics, the first error first; none for [`Error::Target`].
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Error::Ptx(all) | Error::Compile(all) => all,
            Error::Target(_) => &[],
        }
    }
}

impl fmt::Display for Error {
    /// The first error, with its line.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let all = match self {
            Error::Target(refusal) => return f.write_str(refusal),
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

/// Compiles PTX: parses and checks it, checks that its `.target` can run on the target, and generates code.
///
/// Functions are compiled on all processors unless [`Options::threads`] says otherwise; the bytes depend on the text and
/// the options alone.
///
/// ```
/// use sassafras::{Error, Options, compile, ptx};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = "
///     .version 8.0
///     .target sm_75
///     .address_size 64
///     .visible .entry fill(.param .u64 out, .param .u32 value)
///     {
///         .reg .b64 %out;
///         .reg .b32 %value;
///         ld.param.u64 %out, [out];
///         ld.param.u32 %value, [value];
///         st.global.u32 [%out], %value;
///         ret;
///     }";
/// let target = ptx::Target::find("sm_90").ok_or("no such target")?;
/// let compiled = compile(source, &Options::new(target))?;
/// assert!(compiled.cubin.starts_with(b"\x7fELF")); // what cuModuleLoadData takes
/// assert_eq!(compiled.functions[0].spill_stores, 0);
///
/// let error = compile(&source.replace("ret;", "rest;"), &Options::new(target)).unwrap_err();
/// assert!(matches!(error, Error::Ptx(_)));
/// assert!(error.to_string().starts_with("line 12: "));
/// # Ok(())
/// # }
/// ```
pub fn compile(source: &str, options: &Options) -> Result<Compiled, Error> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    if parsed.failed() {
        return Err(Error::Ptx(parsed.diagnostics));
    }
    let Some(module) = parsed.module else { return Err(Error::Ptx(parsed.diagnostics)) };
    if let Some(refusal) = module.target.refusal(options.target, options.target.name()) {
        return Err(Error::Target(refusal));
    }
    let Output { cubin, diagnostics, functions, .. } = compile_module(&module, options);
    match cubin {
        None => Err(Error::Compile(diagnostics)),
        Some(cubin) => {
            Ok(Compiled { cubin, warnings: [parsed.diagnostics, diagnostics].concat(), functions })
        }
    }
}

/// The result of [`compile_module`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Output {
    /// `None` if there are errors.
    pub cubin: Option<Vec<u8>>,
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
}

/// Compiles a module that the front end accepted: one without errors, whose `.target` can run on the target.
///
/// [`compile`] does all of that; this is for callers that read the module first, or compile it several times.
pub fn compile_module(module: &ptx::Module, options: &Options) -> Output {
    let mut output = Output::default();
    let result = driver::cubin(module, options, &mut output);
    if options.time_passes {
        output.log += &output.times.to_string();
    }
    match result {
        Ok(cubin) => output.cubin = cubin,
        Err(failure) => {
            let line = Some(failure.line).filter(|l| *l > 0);
            let Failure { span, message, .. } = failure;
            output.diagnostics.push(Diagnostic {
                severity: Severity::Fatal,
                file: None,
                line,
                span,
                message,
            });
        }
    }
    output
}
