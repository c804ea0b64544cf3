//! nvJitLink for PTX inputs, under its own names: bare, as programs ask `dlsym` for, and with the version of each release
//! that a header names.
//!
//! Linked or opened as `libnvJitLink.so.12` or `.13`, a library of that name is this one. Cubins, fat binaries, LTO-IR
//! and host objects are refused: there is no linker here yet. Codes and the sizes of logs are as a C program saw them
//! with NVIDIA's library of 13.5.
#![allow(unsafe_code, reason = "names for the linker, and memory of the caller")]
#![allow(non_snake_case, reason = "names of the interface")]

use crate::compile::{Compilation, Outcome, check, compile};
use crate::handles::{Handle, Handles, locked};
use crate::memory;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

type Code = c_int;
const SUCCESS: Code = 0;
const UNRECOGNIZED_OPTION: Code = 1;
const MISSING_ARCH: Code = 2;
const INVALID_INPUT: Code = 3;
const PTX_COMPILE: Code = 4;
const INTERNAL: Code = 6;
const NULL_INPUT: Code = 10;
const INCOMPATIBLE_OPTIONS: Code = 11;
const INCORRECT_INPUT_TYPE: Code = 12;
const UNRECOGNIZED_ARCH: Code = 16;

const INPUT_PTX: c_int = 2;
const INPUT_ANY: c_int = 10;

/// The release of CUDA that we stand in for.
const VERSION: (c_uint, c_uint) = (13, 0);

struct Linker {
    /// Options in ptxas's words.
    words: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    texts: Vec<String>,
    cubin: Option<Vec<u8>>,
    errors: String,
    notes: String,
}

static LINKERS: Handles<Linker> = Handles::new();

/// ptxas's words for nvJitLink's options, or the code for what is wrong with them.
fn words(options: &[String]) -> Result<Vec<String>, Code> {
    let words = options.iter().map(|option| word(option)).collect::<Result<Vec<_>, _>>()?;
    let words: Vec<String> = words.into_iter().flatten().collect();
    let arch = words.iter().find_map(|word| word.strip_prefix("-arch=")).ok_or(MISSING_ARCH)?;
    ptx::Target::find(arch).map(|_| ()).ok_or(UNRECOGNIZED_ARCH)?;
    Ok(words)
}

/// ptxas's word for an option; `None` where PTX is what it is already.
fn word(option: &str) -> Result<Option<String>, Code> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let is_off = ["0", "false"].contains(&value);
    Ok(Some(match name {
        "-arch" | "-maxrregcount" | "-g" | "-O0" | "-O1" | "-O2" | "-O3" => option.to_string(),
        "-lineinfo" | "-generate-line-info" => "-lineinfo".into(),
        "-verbose" | "-v" => "-v".into(),
        "-fma" => format!("-fmad={}", !is_off),
        "-Ofc" => format!("--Ofast-compile={value}"),
        "-split-compile" => format!("--split-compile={value}"),
        "-Xptxas" => value.to_string(),
        "-ftz" | "-prec-div" | "-prec-sqrt" | "-time" | "-no-cache" | "-nvvm-latest" => return Ok(None),
        // What nobody uses may stay.
        "-kernels-used" | "-variables-used" | "-optimize-unused-variables" | "-Xnvvm" => return Ok(None),
        "-lto" | "-ptx" => return Err(INCOMPATIBLE_OPTIONS),
        _ => return Err(UNRECOGNIZED_OPTION),
    }))
}

fn create(handle: *mut Handle, count: u32, options: *const *const c_char) -> Code {
    // SAFETY: the caller's word.
    let options = unsafe { memory::texts(options, count as usize) };
    let Some(options) = options.filter(|_| !handle.is_null()) else { return NULL_INPUT };
    let words = match words(&options) {
        Ok(words) => words,
        Err(code) => return code,
    };
    let linker = LINKERS.add(Linker { words, state: Mutex::default() });
    // SAFETY: the caller's word.
    unsafe { memory::put(handle, linker) }.map_or(NULL_INPUT, |()| SUCCESS)
}

fn destroy(handle: *mut Handle) -> Code {
    // SAFETY: the caller's word.
    let handle = unsafe { handle.as_ref() };
    if handle.is_some_and(|handle| LINKERS.remove(*handle)) { SUCCESS } else { NULL_INPUT }
}

/// Does something with what a handle has.
fn with(handle: Handle, work: impl FnOnce(&Linker, &mut State) -> Code) -> Code {
    match LINKERS.get(handle) {
        Some(linker) => work(&linker, &mut locked(&linker.state)),
        None => NULL_INPUT,
    }
}

fn add_data(handle: Handle, kind: c_int, data: *const c_void, size: usize, name: *const c_char) -> Code {
    // SAFETY: the caller's word.
    let (data, name) = unsafe { (memory::bytes(data.cast(), size), memory::text(name)) };
    with(handle, |_, state| match data {
        None | Some([]) => INVALID_INPUT,
        Some(data) => state.add(kind, data, &name.unwrap_or_default()),
    })
}

fn add_file(handle: Handle, kind: c_int, file: *const c_char) -> Code {
    // SAFETY: the caller's word.
    let file = unsafe { memory::text(file) };
    with(handle, |_, state| match file.as_ref().map(|file| (file, std::fs::read(file))) {
        None => NULL_INPUT,
        Some((file, Ok(data))) => state.add(kind, &data, file),
        Some((file, Err(_))) => {
            state.errors += &format!("no such file: {file}\n");
            INVALID_INPUT
        }
    })
}

impl State {
    /// Takes PTX that the front end accepts.
    fn add(&mut self, kind: c_int, data: &[u8], name: &str) -> Code {
        let data = data.strip_suffix(b"\0").unwrap_or(data);
        let text = std::str::from_utf8(data).ok().filter(|_| [INPUT_PTX, INPUT_ANY].contains(&kind));
        let Some(text) = text.filter(|text| text.contains(".version")) else {
            self.errors += &format!("ERROR 1: bad input: only PTX is supported: {name}\n");
            return INCORRECT_INPUT_TYPE;
        };
        let said = check(text, "application ptx input");
        if !said.is_empty() {
            self.errors += &format!("{said}ERROR NVJITLINK_ERROR_PTX_COMPILE: JIT the PTX ({name})\n");
            return PTX_COMPILE;
        }
        self.texts.push(text.to_string());
        SUCCESS
    }
}

fn complete(handle: Handle) -> Code {
    with(handle, |linker, state| {
        if state.texts.is_empty() {
            state.errors += "ERROR 1: bad input: there is nothing to link\n";
            return INVALID_INPUT;
        }
        let Compilation { outcome, cubin, errors, notes } =
            compile(linker.words.clone(), state.texts.clone(), None);
        state.errors += &errors;
        state.notes += &notes;
        state.cubin = (outcome == Outcome::Cubin).then_some(cubin);
        match outcome {
            Outcome::Cubin => SUCCESS,
            Outcome::Bug => INTERNAL,
            _ => PTX_COMPILE,
        }
    })
}

fn cubin_size(handle: Handle, size: *mut usize) -> Code {
    with(handle, |_, state| match &state.cubin {
        // SAFETY: the caller's word.
        Some(cubin) => unsafe { memory::put(size, cubin.len()) }.map_or(NULL_INPUT, |()| SUCCESS),
        None => INTERNAL,
    })
}

fn cubin(handle: Handle, place: *mut c_void) -> Code {
    with(handle, |_, state| match &state.cubin {
        // SAFETY: the caller's word.
        Some(cubin) => unsafe { memory::put_all(place.cast(), cubin) }.map_or(NULL_INPUT, |()| SUCCESS),
        None => INTERNAL,
    })
}

/// PTX and LTO-IR are results of `-lto` alone.
fn no_size(handle: Handle, _: *mut usize) -> Code {
    with(handle, |_, _| INVALID_INPUT)
}

fn no_text(handle: Handle, _: *mut c_void) -> Code {
    with(handle, |_, _| INVALID_INPUT)
}

fn error_log_size(handle: Handle, size: *mut usize) -> Code {
    // SAFETY: the caller's word.
    with(handle, |_, s| {
        unsafe { memory::put(size, memory::room_of(&s.errors)) }.map_or(NULL_INPUT, |()| SUCCESS)
    })
}

fn error_log(handle: Handle, log: *mut c_char) -> Code {
    // SAFETY: the caller's word.
    with(handle, |_, s| unsafe { memory::put_text(log, &s.errors) }.map_or(NULL_INPUT, |()| SUCCESS))
}

fn info_log_size(handle: Handle, size: *mut usize) -> Code {
    // SAFETY: the caller's word.
    with(handle, |_, s| {
        unsafe { memory::put(size, memory::room_of(&s.notes)) }.map_or(NULL_INPUT, |()| SUCCESS)
    })
}

fn info_log(handle: Handle, log: *mut c_char) -> Code {
    // SAFETY: the caller's word.
    with(handle, |_, s| unsafe { memory::put_text(log, &s.notes) }.map_or(NULL_INPUT, |()| SUCCESS))
}

/// # Safety
/// Both are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvJitLinkVersion(major: *mut c_uint, minor: *mut c_uint) -> Code {
    // SAFETY: the caller's word.
    let written = unsafe { memory::put(major, VERSION.0).and(memory::put(minor, VERSION.1)) };
    written.map_or(NULL_INPUT, |()| SUCCESS)
}

/// Exports functions under their bare names and those of each release.
macro_rules! exported {
    ($($function:ident as $name:ident($($argument:ident: $of:ty),*);)*) => {
        exported! { @names bare "" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_0 "_12_0" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_1 "_12_1" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_2 "_12_2" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_3 "_12_3" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_4 "_12_4" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_5 "_12_5" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_6 "_12_6" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_7 "_12_7" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_8 "_12_8" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_12_9 "_12_9" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_0 "_13_0" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_1 "_13_1" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_2 "_13_2" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_3 "_13_3" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_4 "_13_4" $($function as $name($($argument: $of),*);)* }
        exported! { @names of_13_5 "_13_5" $($function as $name($($argument: $of),*);)* }
    };
    (@names $module:ident "" $($function:ident as $name:ident($($argument:ident: $of:ty),*);)*) => {
        mod $module {
            use super::*;
            $(
                /// # Safety
                /// Pointers are as the interface wants them.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name($($argument: $of),*) -> Code {
                    $function($($argument),*)
                }
            )*
        }
    };
    (@names $module:ident $version:literal $($function:ident as $name:ident($($argument:ident: $of:ty),*);)*) => {
        mod $module {
            use super::*;
            $(
                /// # Safety
                /// Pointers are as the interface wants them.
                #[unsafe(export_name = concat!("__", stringify!($name), $version))]
                pub unsafe extern "C" fn $name($($argument: $of),*) -> Code {
                    $function($($argument),*)
                }
            )*
        }
    };
}

exported! {
    create as nvJitLinkCreate(handle: *mut Handle, count: u32, options: *const *const c_char);
    destroy as nvJitLinkDestroy(handle: *mut Handle);
    add_data as nvJitLinkAddData(handle: Handle, kind: c_int, data: *const c_void, size: usize, name: *const c_char);
    add_file as nvJitLinkAddFile(handle: Handle, kind: c_int, file: *const c_char);
    complete as nvJitLinkComplete(handle: Handle);
    cubin_size as nvJitLinkGetLinkedCubinSize(handle: Handle, size: *mut usize);
    cubin as nvJitLinkGetLinkedCubin(handle: Handle, place: *mut c_void);
    no_size as nvJitLinkGetLinkedPtxSize(handle: Handle, size: *mut usize);
    no_text as nvJitLinkGetLinkedPtx(handle: Handle, place: *mut c_void);
    no_size as nvJitLinkGetLinkedLTOIRSize(handle: Handle, size: *mut usize);
    no_text as nvJitLinkGetLinkedLTOIR(handle: Handle, place: *mut c_void);
    error_log_size as nvJitLinkGetErrorLogSize(handle: Handle, size: *mut usize);
    error_log as nvJitLinkGetErrorLog(handle: Handle, log: *mut c_char);
    info_log_size as nvJitLinkGetInfoLogSize(handle: Handle, size: *mut usize);
    info_log as nvJitLinkGetInfoLog(handle: Handle, log: *mut c_char);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let words = |options: &[&str]| words(&options.iter().map(|o| o.to_string()).collect::<Vec<_>>());
        let given = words(&["-arch=sm_90", "-O3", "-fma=0", "-verbose", "-ftz=1", "-Xptxas=-warn-spills"]);
        assert_eq!(
            given,
            Ok(["-arch=sm_90", "-O3", "-fmad=false", "-v", "-warn-spills"].map(String::from).to_vec())
        );
        assert_eq!(words(&["-O3"]), Err(MISSING_ARCH));
        assert_eq!(words(&["-arch=sm_90", "-bogus"]), Err(UNRECOGNIZED_OPTION));
        assert_eq!(words(&["-arch=sm_9"]), Err(UNRECOGNIZED_ARCH));
        assert_eq!(words(&["-arch=sm_90", "-lto"]), Err(INCOMPATIBLE_OPTIONS));
    }
}
