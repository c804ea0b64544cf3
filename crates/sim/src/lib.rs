//! Running and proving code without a GPU.
//!
//! * [`generate`] makes random PTX programs that are well defined, and reduces those that show an error.
//! * [`ptx`] executes a PTX module: grids of blocks of warps of threads, on memory with bounds.
//! * [`sass`] executes a cubin: the machine's own code, with its convergence, uniform registers and times.
//! * [`verify`] proves that the control codes of a program cover every dependence between its registers, on every path.
//!   It knows the machine from `sass::model`, and neither PTX nor our compiler: any cubin will do.

pub mod generate;
pub mod ptx;
pub mod sass;
pub mod verify;
