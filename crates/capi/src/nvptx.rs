//! NVIDIA's PTX Compiler API under its own names, as its documentation describes it.
//!
//! What that leaves open is as a C program saw it with NVIDIA's library of 13.4: the size of a log counts the zero behind
//! it and is 0 without one, warnings are in the info log, an option is one string or two but none with a blank, and a
//! handle that is destroyed keeps its value.
#![allow(unsafe_code, reason = "names for the linker, and memory of the caller")]
#![allow(non_snake_case, reason = "names of the interface")]

use crate::compile::{Compilation, Outcome, compile};
use crate::handles::{Handle, Handles, locked};
use crate::memory;
use ptx::Toolkit;
use sassafras::Cancel;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

type Code = c_int;
const SUCCESS: Code = 0;
const INVALID_HANDLE: Code = 1;
const INVALID_INPUT: Code = 2;
const FAILURE: Code = 3;
const INTERNAL: Code = 4;
const INCOMPLETE: Code = 6;
const UNSUPPORTED_VERSION: Code = 7;
const CANCELLED: Code = 9;
const PARSE_ONLY: Code = 10;

/// The release of CUDA that we stand in for.
const VERSION: (c_uint, c_uint) = (13, 0);

struct Compiler {
    text: String,
    callback: Mutex<Option<Callback>>,
    done: Mutex<Option<Compilation>>,
}

/// A flow callback, and the payload that is handed to it.
#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    payload: *mut c_void,
}

// SAFETY: the interface asks for a callback that any thread may call; the payload is only handed to it.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    fn cancels(&self) -> bool {
        // SAFETY: the interface asks for a function of this type that is there during the compilation.
        unsafe { (self.function)(self.payload, std::ptr::null_mut()) == 1 }
    }
}

static COMPILERS: Handles<Compiler> = Handles::new();

/// Does something with a log; before a compilation it is empty.
fn with_log(compiler: Handle, log: fn(&Compilation) -> &str, work: impl FnOnce(&str) -> Code) -> Code {
    let Some(compiler) = COMPILERS.get(compiler) else { return INVALID_HANDLE };
    work(locked(&compiler.done).as_ref().map_or("", log))
}

/// Does something with the program that was made.
fn with_program(compiler: Handle, work: impl FnOnce(&[u8]) -> Code) -> Code {
    let Some(compiler) = COMPILERS.get(compiler) else { return INVALID_HANDLE };
    let done = locked(&compiler.done);
    let is_made = |done: &&Compilation| done.outcome == Outcome::Cubin;
    done.as_ref().filter(is_made).map_or(INCOMPLETE, |done| work(&done.cubin))
}

fn put(written: Option<()>) -> Code {
    if written.is_some() { SUCCESS } else { INVALID_INPUT }
}

/// # Safety
/// Both are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetVersion(major: *mut c_uint, minor: *mut c_uint) -> Code {
    // SAFETY: the caller's word.
    put(unsafe { memory::put(major, VERSION.0).and(memory::put(minor, VERSION.1)) })
}

/// The PTX versions of that release. Newer ones are accepted, too; but who asks wants to know what to write.
fn versions() -> Vec<[c_int; 2]> {
    Toolkit::USUAL.versions().map(|v| [v.major.into(), v.minor.into()]).collect()
}

/// # Safety
/// `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetNumSupportedVersions(count: *mut c_int) -> Code {
    // SAFETY: the caller's word.
    put(unsafe { memory::put(count, versions().len() as c_int) })
}

/// # Safety
/// `list` is null or has room for all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetSupportedVersions(list: *mut [c_int; 2]) -> Code {
    // SAFETY: the caller's word.
    put(unsafe { memory::put_all(list, &versions()) })
}

/// The numbers of the machines that there is code for.
fn archs() -> Vec<c_int> {
    targets().map(|target| target.sm().into()).collect()
}

fn targets() -> impl Iterator<Item = ptx::Target> {
    let numbers = (75..200).filter_map(|number| ptx::Target::find(&format!("sm_{number}")));
    numbers.filter(|target| target.row().is_some())
}

/// # Safety
/// `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetNumSupportedArchs(count: *mut c_int) -> Code {
    // SAFETY: the caller's word.
    put(unsafe { memory::put(count, archs().len() as c_int) })
}

/// # Safety
/// `list` is null or has room for all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetSupportedArchs(list: *mut c_int) -> Code {
    // SAFETY: the caller's word.
    put(unsafe { memory::put_all(list, &archs()) })
}

/// # Safety
/// `compiler` is null or can be written, `code` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCreate(
    compiler: *mut Handle,
    length: usize,
    code: *const c_char,
) -> Code {
    // SAFETY: the caller's word.
    let text = unsafe { memory::bytes(code.cast(), length) };
    let Some(text) = text.filter(|text| !compiler.is_null() && !text.is_empty()) else {
        return INVALID_INPUT;
    };
    // The length may count the zero behind the text.
    let text = String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text)).into_owned();
    let handle = COMPILERS.add(Compiler { text, callback: Mutex::default(), done: Mutex::default() });
    // SAFETY: the caller's word.
    put(unsafe { memory::put(compiler, handle) })
}

/// # Safety
/// `compiler` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerDestroy(compiler: *mut Handle) -> Code {
    // SAFETY: the caller's word.
    let handle = unsafe { compiler.as_ref() };
    if handle.is_some_and(|handle| COMPILERS.remove(*handle)) { SUCCESS } else { INVALID_HANDLE }
}

/// # Safety
/// `options` points to `count` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCompile(
    compiler: Handle,
    count: c_int,
    options: *const *const c_char,
) -> Code {
    let Some(compiler) = COMPILERS.get(compiler) else { return INVALID_HANDLE };
    let Ok(count) = usize::try_from(count) else { return INVALID_INPUT };
    // SAFETY: the caller's word.
    let Some(words) = (unsafe { memory::texts(options, count) }) else { return INVALID_INPUT };
    let callback = *locked(&compiler.callback);
    let cancel = callback.map(|callback| Cancel::when(move || callback.cancels()));
    let compilation = compile(words, vec![compiler.text.clone()], cancel);
    let code = match compilation.outcome {
        Outcome::Cubin => SUCCESS,
        Outcome::Parsed => PARSE_ONLY,
        Outcome::Failed => FAILURE,
        Outcome::Version => UNSUPPORTED_VERSION,
        Outcome::Cancelled => CANCELLED,
        Outcome::Bug => INTERNAL,
    };
    *locked(&compiler.done) = Some(compilation);
    code
}

/// # Safety
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgramSize(compiler: Handle, size: *mut usize) -> Code {
    // SAFETY: the caller's word.
    with_program(compiler, |program| put(unsafe { memory::put(size, program.len()) }))
}

/// # Safety
/// `image` is null or has room for the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgram(compiler: Handle, image: *mut u8) -> Code {
    // SAFETY: the caller's word.
    with_program(compiler, |program| put(unsafe { memory::put_all(image, program) }))
}

/// # Safety
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLogSize(compiler: Handle, size: *mut usize) -> Code {
    // SAFETY: the caller's word.
    with_log(compiler, |done| &done.errors, |log| put(unsafe { memory::put(size, memory::room_of(log)) }))
}

/// # Safety
/// `log` is null or has room for the text and a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLog(compiler: Handle, log: *mut c_char) -> Code {
    // SAFETY: the caller's word.
    with_log(compiler, |done| &done.errors, |text| put(unsafe { memory::put_text(log, text) }))
}

/// # Safety
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLogSize(compiler: Handle, size: *mut usize) -> Code {
    // SAFETY: the caller's word.
    with_log(compiler, |done| &done.notes, |log| put(unsafe { memory::put(size, memory::room_of(log)) }))
}

/// # Safety
/// `log` is null or has room for the text and a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLog(compiler: Handle, log: *mut c_char) -> Code {
    // SAFETY: the caller's word.
    with_log(compiler, |done| &done.notes, |text| put(unsafe { memory::put_text(log, text) }))
}

/// # Safety
/// Any thread may call the callback with the payload as long as the handle compiles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerSetFlowCallback(
    compiler: Handle,
    callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    payload: *mut c_void,
) -> Code {
    let Some(compiler) = COMPILERS.get(compiler) else { return INVALID_HANDLE };
    let Some(function) = callback else { return INVALID_INPUT };
    *locked(&compiler.callback) = Some(Callback { function, payload });
    SUCCESS
}
