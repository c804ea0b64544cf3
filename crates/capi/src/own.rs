//! The functions of `include/sassafras.h`.
#![allow(unsafe_code, reason = "names for the linker, and memory of the caller")]

use crate::compile::{Compilation, Outcome, compile};
use crate::memory;
use std::ffi::{CString, c_char, c_int};

/// What `sassafras_compile` returns.
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct sassafras_result {
    compilation: Compilation,
    /// Errors, then notes.
    log: CString,
}

/// # Safety
/// `ptx` points to `length` bytes, `options` to `count` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sassafras_compile(
    ptx: *const c_char,
    length: usize,
    options: *const *const c_char,
    count: usize,
) -> *mut sassafras_result {
    // SAFETY: the caller's word.
    let (text, words) = unsafe { (memory::bytes(ptx.cast(), length), memory::texts(options, count)) };
    let compilation = match (text, words) {
        (Some(text), Some(words)) => compile(words, vec![String::from_utf8_lossy(text).into_owned()], None),
        _ => Compilation::refused("No input"),
    };
    let log = format!("{}{}", compilation.errors, compilation.notes).replace('\0', " ");
    let log = CString::new(log).unwrap_or_default();
    Box::into_raw(Box::new(sassafras_result { compilation, log }))
}

/// # Safety
/// `result` is null or came from `sassafras_compile` and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sassafras_ok(result: *const sassafras_result) -> c_int {
    // SAFETY: the caller's word.
    let result = unsafe { result.as_ref() };
    let is_right = |r: &sassafras_result| matches!(r.compilation.outcome, Outcome::Cubin | Outcome::Parsed);
    c_int::from(result.is_some_and(is_right))
}

/// # Safety
/// As for `sassafras_ok`; `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sassafras_cubin(result: *const sassafras_result, size: *mut usize) -> *const u8 {
    // SAFETY: the caller's word.
    let cubin = unsafe { result.as_ref() }.map_or(&[][..], |result| &result.compilation.cubin);
    // SAFETY: the caller's word.
    unsafe { memory::put(size, cubin.len()) };
    if cubin.is_empty() { std::ptr::null() } else { cubin.as_ptr() }
}

/// # Safety
/// As for `sassafras_ok`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sassafras_log(result: *const sassafras_result) -> *const c_char {
    // SAFETY: the caller's word.
    unsafe { result.as_ref() }.map_or(c"".as_ptr(), |result| result.log.as_ptr())
}

/// # Safety
/// As for `sassafras_ok`; the result is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sassafras_free(result: *mut sassafras_result) {
    if !result.is_null() {
        // SAFETY: it came from `Box::into_raw`, by the caller's word, and is freed once.
        drop(unsafe { Box::from_raw(result) });
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sassafras_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
