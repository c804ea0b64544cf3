//! Whole kernels of front ends, run with arguments that fit their parameters.
//!
//! Nobody says what the parameters of a kernel mean. A pointer gets memory of its own that is full of numbers which are
//! small and finite as f32, f16, bf16 and f8; an integer becomes a small count, a float a scale, and 128 bytes a tensor
//! map. That is enough for what Triton and its kin make: strides and sizes are powers of two that fit each other.

use crate::Machine;
use crate::ptx::Launch;
use crate::swizzle::Swizzle;
use crate::tensor_map::{self, Element, TensorMap};
use ptx::ast::{Function, Item, Module, Param};

/// Bytes that each pointer points to.
pub const BYTES: usize = 1 << 21;
/// Dynamic shared memory: what Triton may ask for, less some for static variables.
const SHARED: u32 = 200 << 10;
/// What integers are, by their position.
const COUNTS: [u32; 3] = [128, 64, 32];
const SCALE: f32 = 0.5;
/// Rows and columns of a tensor of halves, and of its boxes: as wide as a row of the largest swizzle.
const TENSOR: [u32; 2] = [256, 512];
const TENSOR_BOX: [u32; 2] = [64, 128];

/// What memory is full of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Floats of all sizes.
    Numbers,
    /// Integers of 64 bits from 0 to 31, which are good indices.
    Indices,
}

/// How a kernel is started.
pub struct Case {
    /// Its name.
    pub kernel: String,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    arguments: Vec<(Argument, u64, u64)>,
}

#[derive(Clone, Copy)]
enum Argument {
    Pointer,
    Count(u32),
    Scale,
    Map,
    /// Zeros.
    Other,
}

impl Case {
    /// The cases of a module, one for each of its kernels.
    pub fn of(module: &Module, blocks: u32) -> Vec<Case> {
        let kernels = module.items.iter().filter_map(|item| match item {
            Item::Function(function) if function.entry && function.body.is_some() => Some(&**function),
            _ => None,
        });
        kernels.map(|function| Case::of_kernel(module, function, blocks)).collect()
    }

    fn of_kernel(module: &Module, function: &Function, blocks: u32) -> Case {
        let symbol = module.symbols.get(function.symbol.0 as usize);
        let name =
            symbol.and_then(|info| module.names.get(info.name.0 as usize)).copied().unwrap_or_default();
        let mut block = [128, 1, 1];
        let threads = |name: &str| matches!(name, ".reqntid" | ".maxntid");
        if let Some(directive) = function.directives.iter().find(|directive| threads(directive.name)) {
            for (axis, value) in block.iter_mut().zip(&directive.values) {
                *axis = *value as u32;
            }
        }
        let arguments = function.params.iter().enumerate();
        let arguments =
            arguments.map(|(index, param)| (argument(index, param), param.bytes(), param.alignment()));
        let (grid, shared) = ([blocks, 1, 1], SHARED);
        Case { kernel: name.to_string(), grid, block, shared, arguments: arguments.collect() }
    }

    /// Runs the kernel on a machine; what its pointers point to afterwards.
    pub fn run(
        &self,
        machine: &mut impl Machine,
        data: Data,
    ) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
        let (mut parameters, mut buffers) = (Vec::new(), Vec::new());
        for (index, (argument, bytes, align)) in self.arguments.iter().enumerate() {
            let mut allocate = |machine: &mut dyn Allocate| {
                let address = machine.allocate(data.bytes(index as u32));
                buffers.push(address);
                address
            };
            let start = parameters.len().next_multiple_of((*align).max(1) as usize);
            parameters.resize(start, 0);
            match argument {
                Argument::Pointer => parameters.extend(allocate(machine).to_le_bytes()),
                Argument::Count(count) => parameters.extend(count.to_le_bytes()),
                Argument::Scale => parameters.extend(SCALE.to_le_bytes()),
                Argument::Map => parameters.extend(map(allocate(machine))),
                Argument::Other => {}
            }
            parameters.resize(start + *bytes as usize, 0);
        }
        let mut launch = Launch::new(&self.kernel, self.grid, self.block, &parameters);
        launch.shared = self.shared;
        launch.check_registers = false;
        machine.run(&launch)?;
        let read = |address: &u64| machine.read(*address, BYTES).map(<[u8]>::to_vec).unwrap_or_default();
        Ok(buffers.iter().map(read).collect())
    }
}

/// The part of [`Machine`] that makes no demands on its type.
trait Allocate {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64;
}

impl<M: Machine> Allocate for M {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        Machine::allocate(self, bytes)
    }
}

fn argument(index: usize, param: &Param) -> Argument {
    match (param.bytes(), param.ty.name()) {
        (128, _) => Argument::Map,
        (8, _) => Argument::Pointer,
        (4, "f32") => Argument::Scale,
        (4, _) => Argument::Count(COUNTS[(index + 1) % COUNTS.len()]),
        _ => Argument::Other,
    }
}

impl Data {
    fn bytes(self, seed: u32) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state >> 16
        };
        match self {
            // 16 bits each: 1 to 2 as f16, below 2 as bf16; two of them are a number below 2 as f32.
            Data::Numbers => {
                let next = |_: usize| (random() & 0x833f | 0x3c00) as u16;
                (0..BYTES / 2).map(next).flat_map(u16::to_le_bytes).collect()
            }
            Data::Indices => {
                let next = |_: usize| u64::from(random() & 31);
                (0..BYTES / 8).map(next).flat_map(u64::to_le_bytes).collect()
            }
        }
    }
}

fn map(address: u64) -> [u8; tensor_map::BYTES] {
    let pair = |[a, b]: [u32; 2]| [a, b, 1, 1, 1];
    let row = u64::from(TENSOR[0] * Element::F16.bytes());
    TensorMap {
        address,
        rank: 2,
        element: Element::F16,
        swizzle: Swizzle::Bytes128,
        interleave: 0,
        fills_nan: false,
        sizes: pair(TENSOR),
        strides: [row, 0, 0, 0],
        boxes: pair(TENSOR_BOX),
        steps: [1; 5],
        path: None,
    }
    .write()
}
