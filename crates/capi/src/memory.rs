//! Reading and writing what a caller points to.
//!
//! The contract of every function here is that of a C interface: a pointer is null, which is refused, or points to as
//! much as the interface says, unused by other threads during the call.
#![allow(unsafe_code, reason = "the memory is the caller's")]

use std::ffi::{CStr, c_char};

/// Puts a value where the caller wants it; `None` if that is nowhere.
///
/// # Safety
/// `place` is null or can be written.
pub unsafe fn put<T>(place: *mut T, value: T) -> Option<()> {
    // SAFETY: the caller's word; `write` drops nothing and needs no valid value before.
    (!place.is_null()).then(|| unsafe { place.write(value) })
}

/// Copies values to the caller.
///
/// # Safety
/// `place` is null or has room for all of them.
pub unsafe fn put_all<T: Copy>(place: *mut T, values: &[T]) -> Option<()> {
    // SAFETY: the caller's word; the values are ours, so the two don't overlap.
    (!place.is_null()).then(|| unsafe { place.copy_from_nonoverlapping(values.as_ptr(), values.len()) })
}

/// The room that [`put_text`] needs as the interfaces count it: with the zero, and none for nothing.
pub fn room_of(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + 1 }
}

/// Copies a text and the zero behind it.
///
/// # Safety
/// `place` is null or has room for the text and one byte.
pub unsafe fn put_text(place: *mut c_char, text: &str) -> Option<()> {
    // SAFETY: the caller's word, twice; a byte more is within the room.
    unsafe {
        put_all(place.cast(), text.as_bytes())?;
        put(place.cast::<u8>().add(text.len()), 0)
    }
}

/// The caller's bytes; none where a length is zero.
///
/// # Safety
/// `start` is null or points to `length` bytes.
pub unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    match (start.is_null(), length) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's word.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(start, length) }),
    }
}

/// The caller's string.
///
/// # Safety
/// `start` is null or points to a string that ends with a zero.
pub unsafe fn text(start: *const c_char) -> Option<String> {
    // SAFETY: the caller's word.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
}

/// The caller's list of strings.
///
/// # Safety
/// `start` is null or points to `count` pointers, each as [`text`] wants it.
pub unsafe fn texts(start: *const *const c_char, count: usize) -> Option<Vec<String>> {
    // SAFETY: the caller's word, as for each string.
    let pointers = match (start.is_null(), count) {
        (_, 0) => &[],
        (true, _) => return None,
        (false, _) => unsafe { std::slice::from_raw_parts(start, count) },
    };
    // SAFETY: the caller's word.
    pointers.iter().map(|pointer| unsafe { text(*pointer) }).collect()
}
