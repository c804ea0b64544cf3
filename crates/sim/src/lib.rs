//! Running and proving code without a GPU.
//!
//! ```
//! let source = ".version 9.0
//! .target sm_90
//! .address_size 64
//! .entry store(.param .u64 to) {
//!     .reg .b64 %a;
//!     ld.param.u64 %a, [to];
//!     st.global.u32 [%a], 7;
//!     ret;
//! }";
//! let module = ptx::parse(source, &ptx::Options::default()).module.unwrap();
//! let program = sim::ptx::Program::new(&module, source);
//! let mut machine = sim::ptx::Machine::new(&program);
//! let memory = machine.allocate(vec![0; 4]);
//! machine.run(&sim::ptx::Launch::new("store", [1, 1, 1], [32, 1, 1], &memory.to_le_bytes())).unwrap();
//! assert_eq!(machine.read(memory, 4), Some(&[7, 0, 0, 0][..]));
//! ```
//!
//! * [`generate`] makes random PTX programs that are well defined, and reduces those that show an error.
//! * [`ptx`] executes a PTX module: grids of blocks of warps of threads, on memory with bounds.
//! * [`sass`] executes a cubin: the machine's own code, with its convergence, uniform registers and times.
//! * [`kernels`] starts whole kernels of front ends.
//! * [`ops`] compares the two on kernels of one instruction.
//! * `mma`, `warpgroup`, `descriptor`, `swizzle` and [`tensor_map`] are what both know about matrices and
//!   tensors: who has which element, how sums are formed, where operands lie in shared memory, what a copy takes.
//! * `memory` is what both run on: bytes with bounds; in it, [`texture`] is what both know about images, and `weak` memory
//!   that threads see in no certain order, with a scheduler that looks for the worst.
//! * [`timing`] predicts how long the code of a cubin takes on a GPU, and why.
//! * [`verify`] proves that the control codes of a program cover every dependence between its registers, on every path.
//!   It knows the machine from `sass::model`, and neither PTX nor our compiler: any cubin will do.

#![deny(missing_docs)]

pub use memory::texture;

use ptx::{Launch, Statistics};

mod barriers;
mod coalescing;
mod descriptor;
mod fault;
pub mod generate;
pub mod kernels;
mod lanes;
mod mbarrier;
mod memory;
mod mma;
pub mod ops;
pub mod ptx;
pub mod sass;
mod swizzle;
pub mod tensor_map;
pub mod timing;
pub mod verify;
mod warpgroup;

/// What the interpreter and the simulator have in common: memory, and kernels that run on it.
pub trait Machine {
    /// Global memory that holds these bytes; its address.
    fn allocate(&mut self, bytes: Vec<u8>) -> u64;
    /// Bytes of global memory, if they are all of one allocation.
    fn read(&mut self, address: u64, length: usize) -> Option<&[u8]>;
    /// Puts bytes into global memory; `None` if they are not all of one allocation.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()>;
    /// The handle of an image whose texels are in memory, for textures and surfaces.
    fn add_image(&mut self, image: texture::Image) -> u64;
    /// The address by which `multimem` reaches memory that was allocated.
    fn add_multicast(&mut self, address: u64) -> u64;
    /// Runs a kernel to its end.
    fn run(&mut self, launch: &Launch) -> Result<Statistics, Box<dyn std::error::Error>>;
}

/// A machine whose runs all have an adversary with a seed ([`Launch::weak`]).
pub struct Adverse<M> {
    /// What runs.
    pub machine: M,
    /// Which order the adversary chooses.
    pub seed: u64,
}

impl<M: Machine> Machine for Adverse<M> {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.machine.allocate(bytes)
    }

    fn read(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        self.machine.read(address, length)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.machine.write(address, bytes)
    }

    fn add_image(&mut self, image: texture::Image) -> u64 {
        self.machine.add_image(image)
    }

    fn add_multicast(&mut self, address: u64) -> u64 {
        self.machine.add_multicast(address)
    }

    fn run(&mut self, launch: &Launch) -> Result<Statistics, Box<dyn std::error::Error>> {
        self.machine.run(&Launch { weak: Some(self.seed), ..launch.clone() })
    }
}

impl Machine for ptx::Machine<'_> {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        ptx::Machine::allocate(self, bytes)
    }

    fn read(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        ptx::Machine::read(self, address, length)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        ptx::Machine::write(self, address, bytes)
    }

    fn add_image(&mut self, image: texture::Image) -> u64 {
        ptx::Machine::add_image(self, image)
    }

    fn add_multicast(&mut self, address: u64) -> u64 {
        ptx::Machine::add_multicast(self, address)
    }

    fn run(&mut self, launch: &Launch) -> Result<Statistics, Box<dyn std::error::Error>> {
        Ok(ptx::Machine::run(self, launch)?)
    }
}

impl Machine for sass::Machine<'_> {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        sass::Machine::allocate(self, bytes)
    }

    fn read(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        sass::Machine::read(self, address, length)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        sass::Machine::write(self, address, bytes)
    }

    fn add_image(&mut self, image: texture::Image) -> u64 {
        sass::Machine::add_image(self, image)
    }

    fn add_multicast(&mut self, address: u64) -> u64 {
        sass::Machine::add_multicast(self, address)
    }

    fn run(&mut self, launch: &Launch) -> Result<Statistics, Box<dyn std::error::Error>> {
        Ok(sass::Machine::run(self, launch)?)
    }
}
