//! Run lines on a GPU.
//!
//! Every buffer is between two guards of known bytes, so that a kernel that writes past the end is caught
//! even where the memory after it belongs to the process.

use crate::driver::{Buffer, Device, Error, Event, Launch, Module};
use crate::runline::{Contents, Mismatch, Object, Run};

/// One missed bounds check in a block of 1024 threads of four bytes each still lands in the guard. Keeps the
/// alignment that allocations have.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;

/// Why a run is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Driver(Error),
    Mismatch(Mismatch),
    /// A write outside of a buffer; the offset is from the buffer's start.
    OutOfBounds {
        buffer: String,
        offset: i64,
    },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Driver(error) => error.fmt(f),
            Failure::Mismatch(mismatch) => mismatch.fmt(f),
            Failure::OutOfBounds { buffer, offset } => {
                write!(f, "a write outside of {buffer}, at byte {offset} from its start")
            }
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Driver(error)
    }
}

/// Executes a run and compares memory with what the run expects.
pub fn execute(device: &Device, module: &Module, run: &Run) -> Result<(), Failure> {
    let memory = Memory::new(device, run)?;
    memory.reset()?;
    memory.launch(module)?;
    device.synchronize()?;
    memory.check()
}

/// The shortest time of `count` launches, each from the same memory, in milliseconds.
pub fn shortest_time(device: &Device, module: &Module, run: &Run, count: usize) -> Result<f32, Error> {
    let memory = Memory::new(device, run)?;
    let mut best = f32::INFINITY;
    for _ in 0..count {
        memory.reset()?;
        let start = Event::record(device)?;
        memory.launch(module)?;
        best = best.min(Event::record(device)?.since(&start)?);
    }
    Ok(best)
}

/// The buffers of a run on a device.
struct Memory<'a> {
    device: &'a Device,
    run: &'a Run,
    buffers: Vec<Buffer<'a>>,
}

impl<'a> Memory<'a> {
    fn new(device: &'a Device, run: &'a Run) -> Result<Memory<'a>, Error> {
        let buffers = run.buffers().map(|data| Buffer::new(device, data.len() + 2 * GUARD));
        Ok(Memory { device, run, buffers: buffers.collect::<Result<_, _>>()? })
    }

    fn reset(&self) -> Result<(), Error> {
        for (buffer, data) in self.buffers.iter().zip(self.run.buffers()) {
            buffer.write(&guarded(data))?;
        }
        Ok(())
    }

    fn launch(&self, module: &Module) -> Result<(), Error> {
        let Run { grid, block, shared, .. } = *self.run;
        let addresses: Vec<_> = self.buffers.iter().map(|buffer| buffer.address() + GUARD as u64).collect();
        let kernel = module.kernel(&self.run.kernel)?;
        let make = |object: Object, address| match object {
            Object::Map(tensor) => Ok(self.device.encode(tensor, address)?.to_vec()),
            Object::Image(_) | Object::Multicast => Err(Error::NoImages),
        };
        let parameters = self.run.parameters(&addresses, make)?;
        kernel.launch(Launch { grid, block, shared, in_clusters: false }, &parameters)
    }

    fn check(&self) -> Result<(), Failure> {
        let names = self.run.args.iter().filter(|arg| matches!(arg.contents, Contents::Buffer { .. }));
        let mut results = Vec::new();
        let mut stray = None;
        for ((buffer, data), arg) in self.buffers.iter().zip(self.run.buffers()).zip(names) {
            let mut bytes = vec![0; data.len() + 2 * GUARD];
            buffer.read(&mut bytes)?;
            stray = stray.or_else(|| Some((arg.name.clone(), stray_write(&bytes)?)));
            results.push(bytes.get(GUARD..GUARD + data.len()).unwrap_or_default().to_vec());
        }
        // A wrong value says more than a write next to it.
        self.run.check(&results).map_err(Failure::Mismatch)?;
        match stray {
            None => Ok(()),
            Some((buffer, offset)) => Err(Failure::OutOfBounds { buffer, offset }),
        }
    }
}

fn guarded(data: &[u8]) -> Vec<u8> {
    let guard = [GUARD_BYTE; GUARD];
    [&guard[..], data, &guard[..]].concat()
}

/// The offset from the data of the first guard byte that changed.
fn stray_write(bytes: &[u8]) -> Option<i64> {
    let behind = bytes.len().saturating_sub(GUARD);
    let is_guard = |at: usize| at < GUARD || at >= behind;
    let at = bytes.iter().enumerate().position(|(at, &byte)| is_guard(at) && byte != GUARD_BYTE)?;
    Some(at as i64 - GUARD as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_beside_the_data_are_found() {
        let mut bytes = guarded(&[1, 2, 3, 4]);
        assert_eq!(stray_write(&bytes), None);
        bytes[GUARD + 2] = 9;
        assert_eq!(stray_write(&bytes), None);
        bytes[GUARD + 4] = 0;
        assert_eq!(stray_write(&bytes), Some(4));
        bytes[GUARD - 1] = 0;
        assert_eq!(stray_write(&bytes), Some(-1));
    }
}
