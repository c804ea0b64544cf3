//! The compiler: PTX in, cubin out.
//!
//! ```text
//! ptx::Module → lower → ori::Function → opt, codegen → regalloc → mach → object → bytes
//! ```
//!
//! The stages are the folders; `passes.rs` is the pipeline, `driver.rs` takes a module through it. Nothing flows
//! backwards. A kernel that we cannot compile gives diagnostics, never a cubin.

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
pub use module::tools_patch::not_for_patches;
pub use object::resource_usage::Usage;
pub use opt::text::{OptError, opt_text, pass_names};
pub use passes::{help as help_passes, is_pass, optional as optional_pass};
pub use ptx;

use context::Failure;
use ptx::diag::{Diagnostic, Severity};

/// What came of a compilation.
#[derive(Debug, Default)]
pub struct Output {
    /// `None` if anything was wrong.
    pub cubin: Option<Vec<u8>>,
    /// Why there is no cubin, or what the user should know about it.
    pub diagnostics: Vec<Diagnostic>,
    /// About the launch bounds of kernels; those of severity `Info` are for who asks for more (`-v`).
    pub notes: Vec<Diagnostic>,
    /// What each function uses, in the order of the PTX text.
    pub functions: Vec<Usage>,
    /// How long the parts of it took.
    pub times: Times,
    /// Dumps that were asked for.
    pub log: String,
}

/// Compiles a module that the front end accepted: one without errors, whose `.target` the machine can run.
///
/// Functions are compiled on all processors unless [`Options::threads`] says otherwise; the bytes depend on the text and
/// the options alone.
///
/// ```
/// use sassafras::{Options, compile, ptx};
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
/// let parsed = ptx::parse(source, &ptx::Options::for_file("fill.ptx"));
/// eprint!("{}", ptx::diag::render_ptxas("fill.ptx", &parsed.diagnostics));
/// if parsed.failed() {
///     return Err("this is not right PTX".into());
/// }
/// if let Some(refusal) = parsed.refused_for("sm_90") {
///     return Err(refusal.into());
/// }
/// let module = parsed.module.ok_or("no module")?;
///
/// let machine = ptx::Target::find("sm_90").ok_or("no such machine")?;
/// let output = compile(source, &module, &Options::new(machine));
/// eprint!("{}", ptx::diag::render_ptxas("fill.ptx", &output.diagnostics));
/// let cubin: Vec<u8> = output.cubin.ok_or("not compiled")?; // what cuModuleLoadData takes
/// assert!(cubin.starts_with(b"\x7fELF"));
/// let fill = &output.functions[0];
/// assert_eq!((fill.name.as_str(), fill.spill_stores), ("fill", 0));
/// # Ok(())
/// # }
/// ```
pub fn compile(source: &str, module: &ptx::Module, options: &Options) -> Output {
    let mut output = Output::default();
    let result = driver::cubin(source, module, options, &mut output);
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
