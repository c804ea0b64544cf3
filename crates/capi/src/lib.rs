//! libsassafras: the compiler for C programs, and for programs that load NVIDIA's libraries.
//!
//! * [`own`]: the functions of `include/sassafras.h`.
//! * [`nvptx`]: the PTX Compiler API, under its own names.
//! * [`jitlink`]: nvJitLink for PTX inputs, under its own names with and without versions.
//!
//! What holds:
//! 1. No pointer of a caller is kept after a call returns, but for the payload of a flow callback, which is only handed
//!    back.
//! 2. A handle is a number, looked up in a table ([`handles`]): one that was destroyed, or never was one, is an error.
//!    Handles may be used by any thread, one by several.
//! 3. No panic leaves a call ([`compile`]): the compiler runs on a thread of its own, with enough stack for it, and what
//!    a bug ends there is an internal error here.
//! 4. All unsafe code reads or writes what a caller points to; the contract is that of the C interface ([`memory`]).

mod compile;
mod handles;
mod jitlink;
mod memory;
mod nvptx;
mod own;
