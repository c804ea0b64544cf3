//! The extension module `sassafras._native`: what the Python package's functions call. Its own interface is plain values;
//! `python/sassafras/__init__.py` has names, defaults, types and exceptions.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sassafras::ptx;
use std::time::Duration;

/// An offset, bytes, and the index of the memory that the kernel gets the address of, if the bytes are memory: one that
/// has come before has its bytes already.
type Argument = (usize, Vec<u8>, Option<usize>);

/// Severity, line, message.
type Diagnostic = (String, Option<u32>, String);

/// A cubin, or why there is none, and diagnostics.
type Compiled<'py> = (Option<Bound<'py, PyBytes>>, String, Vec<Diagnostic>);

/// How to compile, from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Request {
    arch: Option<String>,
    opt_level: u8,
    debug: bool,
    line_info: bool,
    relocatable: bool,
    fmad: bool,
    max_registers: Option<u32>,
    threads: Option<usize>,
    time_limit: Option<f64>,
    memory_limit: Option<u64>,
}

impl Request {
    fn options(self, source: &str) -> Result<sassafras::Options, sassafras::Error> {
        let own = || ptx::parse(source, &ptx::Options::default()).module.map(|module| module.target);
        let mut options = match (&self.arch, own) {
            (Some(arch), _) => sassafras::Options::for_arch(arch)?,
            // Without a module the target doesn't matter: the text is refused.
            (None, own) => sassafras::Options::new(own().unwrap_or_default()),
        };
        options.level = if self.debug { 0 } else { self.opt_level };
        options.debug_code = self.debug;
        options.debug_info = match (self.debug, self.line_info) {
            (true, _) => sassafras::DebugInfo::Full,
            (false, true) => sassafras::DebugInfo::Lines,
            (false, false) => sassafras::DebugInfo::Locs,
        };
        options.relocatable = self.relocatable;
        options.contract = self.fmad;
        options.launch.max_registers = self.max_registers;
        options.threads = self.threads;
        options.limits.time =
            self.time_limit.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        options.limits.memory = self.memory_limit;
        Ok(options)
    }
}

#[pymodule]
mod _native {
    use super::*;
    use pyo3::exceptions::{PyRuntimeError, PyValueError};
    use sassafras_cli::Listing;

    /// Compiles PTX. Other threads of Python run meanwhile.
    #[pyfunction]
    fn compile<'py>(py: Python<'py>, source: &str, request: Request) -> Compiled<'py> {
        let result =
            py.detach(|| request.options(source).and_then(|options| sassafras::compile(source, &options)));
        let listed = |all: &[sassafras::Diagnostic]| {
            all.iter().map(|d| (d.severity.to_string(), d.line, d.message.clone())).collect()
        };
        match result {
            Ok(cubin) => (Some(PyBytes::new(py, &cubin.bytes)), String::new(), listed(&cubin.warnings)),
            Err(error) => (None, error.to_string(), listed(error.diagnostics())),
        }
    }

    #[pyfunction]
    fn disassemble(py: Python, cubin: &[u8], style: &str) -> PyResult<String> {
        let listing = match style {
            "plain" => Listing::Plain,
            "life" => Listing::Life,
            "nvdisasm" => Listing::Nvdisasm,
            "json" => Listing::Json,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "no style '{style}': plain, life, nvdisasm, json"
                )));
            }
        };
        py.detach(|| sassafras_cli::disassemble(cubin, listing)).map_err(PyValueError::new_err)
    }

    /// JSON.
    #[pyfunction]
    fn inspect(data: &[u8]) -> PyResult<String> {
        cubin::inspect(data).map(|found| found.to_json()).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    #[pyfunction]
    fn verify(py: Python, cubin: &[u8]) -> PyResult<Vec<String>> {
        let verdict = py.detach(|| sim::verify::verify(cubin).map_err(|error| error.to_string()));
        Ok(verdict.map_err(PyValueError::new_err)?.reports.iter().map(ToString::to_string).collect())
    }

    /// Offset, size and whether it is a float, of each parameter of a kernel.
    #[pyfunction]
    fn parameters(program: &[u8], kernel: &str) -> PyResult<Vec<(u64, u64, bool)>> {
        super::parameters(program, kernel).map_err(PyValueError::new_err)
    }

    /// Runs a kernel; returns what its memory holds then.
    #[pyfunction]
    fn run<'py>(
        py: Python<'py>,
        program: &[u8],
        launch: super::LaunchRequest,
        args: Vec<Argument>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let buffers = py.detach(|| super::run(program, &launch, args)).map_err(|error| match error {
            super::RunError::Program(what) => PyValueError::new_err(what),
            super::RunError::Fault(what) => PyRuntimeError::new_err(what),
        })?;
        Ok(buffers.iter().map(|buffer| PyBytes::new(py, buffer)).collect())
    }

    /// The command; returns the exit code.
    #[pyfunction]
    fn command(py: Python, program: &str, words: Vec<String>) -> u8 {
        py.detach(|| sassafras_cli::command(program, words))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// A launch, from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LaunchRequest {
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    opt_level: Option<u8>,
    races: bool,
    weak: Option<u64>,
    max_steps: Option<u64>,
}

enum RunError {
    /// It can't be run.
    Program(String),
    /// It did something that it must not do.
    Fault(String),
}

fn is_cubin(program: &[u8]) -> bool {
    program.starts_with(b"\x7fELF")
}

fn source(program: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(program).map_err(|_| "neither PTX nor a cubin".to_string())
}

fn module(source: &str) -> Result<ptx::Module<'_>, String> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let first =
        parsed.diagnostics.iter().find(|d| d.severity >= ptx::Severity::Error).map(ToString::to_string);
    match (first, parsed.module) {
        (None, Some(module)) => Ok(module),
        (first, _) => Err(first.unwrap_or_else(|| "no module".into())),
    }
}

fn parameters(program: &[u8], kernel: &str) -> Result<Vec<(u64, u64, bool)>, String> {
    let no_kernel = || format!("no kernel '{kernel}'");
    if is_cubin(program) {
        let found = cubin::inspect(program).map_err(|error| error.to_string())?;
        let kernels = found.images.iter().filter_map(|image| image.cubin.as_ref()).flat_map(|c| &c.kernels);
        let mut kernels = kernels.filter(|k| k.name == kernel);
        let mut params = kernels.next().map(|k| k.params.iter().collect::<Vec<_>>()).ok_or_else(no_kernel)?;
        params.sort_by_key(|param| param.ordinal);
        return Ok(params.iter().map(|param| (param.offset.into(), param.size.into(), false)).collect());
    }
    let module = module(source(program)?)?;
    let functions = module.items.iter().filter_map(|item| match item {
        ptx::ast::Item::Function(function) if function.entry => Some(&**function),
        _ => None,
    });
    let name = |symbol: ptx::ast::Symbol| {
        let name = module.symbols.get(symbol.0 as usize).map(|info| info.name.0 as usize);
        name.and_then(|name| module.names.get(name).copied())
    };
    let mut functions = functions.filter(|f| name(f.symbol) == Some(kernel));
    let function = functions.next().ok_or_else(no_kernel)?;
    let mut end = 0;
    let place = |param: &ptx::ast::Param| {
        let natural = u64::from(param.ty.bytes()) * u64::from(param.vector);
        let offset = u64::next_multiple_of(end, param.align.map_or(natural, u64::from).max(1));
        end = offset + param.bytes();
        (offset, param.bytes(), param.ty.is_float())
    };
    Ok(function.params.iter().map(place).collect())
}

fn run(program: &[u8], launch: &LaunchRequest, args: Vec<Argument>) -> Result<Vec<Vec<u8>>, RunError> {
    let load = || -> Result<_, String> {
        if is_cubin(program) {
            return Ok((None, Some(sim::sass::Program::new(program).map_err(|error| error.to_string())?)));
        }
        let source = source(program)?;
        let module = module(source)?;
        let Some(level) = launch.opt_level else {
            return Ok((Some(sim::ptx::Program::new(&module, source)), None));
        };
        let options = sassafras::Options::new(module.target).with(|o| {
            o.level = level;
            // The same bits as the interpreter's.
            o.contract = false;
        });
        let cubin = sassafras::compile(source, &options).map_err(|error| error.to_string())?;
        Ok((None, Some(sim::sass::Program::new(&cubin.bytes).map_err(|error| error.to_string())?)))
    };
    match load().map_err(RunError::Program)? {
        (Some(program), _) => execute(&mut sim::ptx::Machine::new(&program), launch, args),
        (_, Some(_)) if launch.races => {
            Err(RunError::Program("races are found in PTX, not in compiled code".into()))
        }
        (_, Some(program)) => execute(&mut sim::sass::Machine::new(&program), launch, args),
        _ => Err(RunError::Program("nothing to run".into())),
    }
}

fn execute(
    machine: &mut dyn sim::Machine,
    request: &LaunchRequest,
    args: Vec<Argument>,
) -> Result<Vec<Vec<u8>>, RunError> {
    let mut parameters: Vec<u8> = Vec::new();
    let mut buffers: Vec<(u64, usize)> = Vec::new();
    for (offset, data, memory) in args {
        let bytes = match memory {
            None => data,
            Some(index) => {
                if index == buffers.len() {
                    let length = data.len();
                    buffers.push((machine.allocate(data), length));
                }
                buffers.get(index).map_or(0, |(address, _)| *address).to_le_bytes().to_vec()
            }
        };
        parameters.resize(parameters.len().max(offset + bytes.len()), 0);
        parameters[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    let mut launch = sim::ptx::Launch::new(&request.kernel, request.grid, request.block, &parameters);
    launch.shared = request.shared;
    launch.check_races = request.races;
    launch.weak = request.weak;
    launch.step_limit = request.max_steps.unwrap_or(launch.step_limit);
    machine.run(&launch).map_err(|fault| RunError::Fault(fault.to_string()))?;
    let read = |(address, length)| machine.read(address, length).map(<[u8]>::to_vec).unwrap_or_default();
    Ok(buffers.into_iter().map(read).collect())
}
