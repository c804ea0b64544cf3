//! The driver's library, opened at run time: by `dlopen`, on Windows by `LoadLibrary`.
//!
//! It is never closed, so its functions stay valid.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

/// Opens it, or says why not.
pub fn open() -> Result<*mut c_void, String> {
    // SAFETY: the name ends with a zero; the library's initialisers are the vendor's and meant to be run so.
    let library = unsafe { system::open(system::NAME.as_ptr()) };
    if library.is_null() { Err(system::reason()) } else { Ok(library) }
}

/// The address of a function of the library that [`open`] has opened.
pub fn symbol(library: *mut c_void, name: &'static CStr) -> Result<*mut c_void, String> {
    // SAFETY: `library` was opened and is never closed; the name ends with a zero.
    let address = unsafe { system::symbol(library, name.as_ptr()) };
    if address.is_null() { Err(format!("{:?} has no {name:?}", system::NAME)) } else { Ok(address) }
}

#[cfg(unix)]
mod system {
    use std::ffi::{CStr, c_char, c_int, c_void};

    pub const NAME: &CStr = c"libcuda.so.1";
    const RTLD_NOW: c_int = 2;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }

    /// # Safety
    /// `name` ends with a zero.
    pub unsafe fn open(name: *const c_char) -> *mut c_void {
        // SAFETY: the caller's word.
        unsafe { dlopen(name, RTLD_NOW) }
    }

    /// # Safety
    /// `library` is open and `name` ends with a zero.
    pub unsafe fn symbol(library: *mut c_void, name: *const c_char) -> *mut c_void {
        // SAFETY: the caller's word.
        unsafe { dlsym(library, name) }
    }

    /// Why the last call failed.
    pub fn reason() -> String {
        // SAFETY: null, or a string that lives until the next call of this thread.
        let text = unsafe { dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        text.map_or_else(|| "dlopen failed".into(), |text| text.to_string_lossy().into_owned())
    }
}

#[cfg(windows)]
mod system {
    use std::ffi::{CStr, c_char, c_void};

    pub const NAME: &CStr = c"nvcuda.dll";

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn LoadLibraryA(file: *const c_char) -> *mut c_void;
        fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// # Safety
    /// `name` ends with a zero.
    pub unsafe fn open(name: *const c_char) -> *mut c_void {
        // SAFETY: the caller's word.
        unsafe { LoadLibraryA(name) }
    }

    /// # Safety
    /// `library` is open and `name` ends with a zero.
    pub unsafe fn symbol(library: *mut c_void, name: *const c_char) -> *mut c_void {
        // SAFETY: the caller's word.
        unsafe { GetProcAddress(library, name) }
    }

    /// Why the last call failed.
    pub fn reason() -> String {
        std::io::Error::last_os_error().to_string()
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    use std::ffi::{CStr, c_char, c_void};

    pub const NAME: &CStr = c"libcuda";

    /// # Safety
    /// None is needed: there is nothing to open.
    pub unsafe fn open(_: *const c_char) -> *mut c_void {
        std::ptr::null_mut()
    }

    /// # Safety
    /// None is needed: there is nothing to open.
    pub unsafe fn symbol(_: *mut c_void, _: *const c_char) -> *mut c_void {
        std::ptr::null_mut()
    }

    /// Why the last call failed.
    pub fn reason() -> String {
        "there is no CUDA driver for this system".into()
    }
}
