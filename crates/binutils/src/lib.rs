//! The tools around the compiler under NVIDIA's names: what is in a cubin as text ([`nvdisasm`], [`cuobjdump`]).
//!
//! Each tool is a function from the words of its command line to an [`Answer`]. What NVIDIA's tools print was read
//! off their output; `cargo xtask conformance binutils` compares.

#![deny(missing_docs)]

mod code;
pub mod cuobjdump;
pub mod fatbinary;
pub mod nvdisasm;
pub mod nvlink;
mod options;
mod reloc;

/// What a tool says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// For stdout.
    pub text: Vec<u8>,
    /// The exit code.
    pub code: u8,
}

/// Exit code of a run that failed: what the callers of NVIDIA's tools know.
pub const FAILED: u8 = 255;

/// A tool: its name, and what it does with the words behind it. An error is a message for stderr.
pub struct Tool {
    /// As it is called.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// How it is called.
    pub usage: &'static str,
    /// Does it.
    pub run: fn(&[String]) -> Result<Answer, String>,
}

/// All tools.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "nvdisasm",
        about: "print a cubin as nvdisasm does",
        usage: nvdisasm::USAGE,
        run: nvdisasm::run,
    },
    Tool {
        name: "cuobjdump",
        about: "print and extract device code as cuobjdump does",
        usage: cuobjdump::USAGE,
        run: cuobjdump::run,
    },
    Tool {
        name: "fatbinary",
        about: "put device code into one file as fatbinary does",
        usage: fatbinary::USAGE,
        run: fatbinary::run,
    },
    Tool {
        name: "nvlink",
        about: "link relocatable cubins as nvlink does",
        usage: nvlink::USAGE,
        run: nvlink::run,
    },
];
