//! The simulator with time: how long the code of a cubin takes on a GPU, and why.
//!
//! [`crate::sass`] executes some blocks and takes down what their warps did ([`crate::sass`]'s trace); [`sm`] gives
//! times to it, one SM in detail: issue by the control codes, pipes, register ports, queues, caches. The rest of the
//! chip is contention: the SM has its share of the bandwidth of the L2 and of memory, and of what SMs read in common
//! each fetches a part. What one SM needs for its blocks is what the grid takes.
//!
//! * The same code, launch and table give the same report.
//! * Control codes are exact; every other number is a line of `timing/parameters.tab`, with its source. What is not
//!   known is there as a default that says so.
//! * Only some blocks of an SM are executed if it has many: the rest takes as long as blocks do in the middle of those
//!   ([`Profile::simulated`] says how many they were).
//!
//! | question | file |
//! |---|---|
//! | which numbers does the model have, and where are they from? | [`parameters`] |
//! | what is known of an instruction, and why does a warp stall? | [`code`] |
//! | when does it issue? | [`sm`] |
//! | caches of instructions | [`fetch`] |
//! | sectors and bank conflicts | [`coalescing`](crate::coalescing) |
//! | caches of data, the L2, memory | [`memory`] |
//! | blocks of an SM | [`occupancy`] |
//! | when do the instructions of one warp issue, and what did it wait for? | [`timeline`] |
//! | lines of source | [`lines`] |

mod code;
mod fetch;
pub mod lines;
mod memory;
pub mod occupancy;
pub mod parameters;
mod sm;
#[cfg(test)]
mod tests;
pub mod timeline;

pub use code::{Pipe, Reason};
pub use memory::Traffic;
pub use sm::{CORES, Count};

use crate::coalescing::SECTOR;
use crate::ptx::Launch;
use crate::sass::trace::{BlockTrace, Extra};
use crate::sass::{Fault, Machine};
use code::Info;
use memory::{Memory, Sharing};
use occupancy::Occupancy;
use parameters::Parameters;
use sm::{Counts, Sm};
use timeline::WarpLog;

/// What the L2 holds when the launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2 {
    /// Nothing of what the launch touches.
    Cold,
    /// All of it: it was launched before.
    Warm,
}

/// How a launch is profiled.
#[derive(Clone, Debug)]
pub struct Options {
    /// The numbers of the model.
    pub parameters: Parameters,
    /// What the L2 holds.
    pub l2: L2,
    /// Warp instructions that are simulated, about.
    pub budget: u64,
    /// So many times the blocks that an SM takes at once are simulated at least.
    pub waves: u64,
    /// Blocks of other SMs that are looked at to see what SMs have in common.
    pub samples: u32,
}

impl Options {
    /// With these numbers, and nothing special.
    pub fn new(parameters: Parameters) -> Options {
        Options { parameters, l2: L2::Warm, budget: 4_000_000, waves: 2, samples: 4 }
    }
}

/// What a launch takes.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The kernel's name, and its launch.
    pub kernel: String,
    /// Blocks along the axes.
    pub grid: [u32; 3],
    /// Threads of a block along them.
    pub block: [u32; 3],
    /// The machine's number, and that of the SMs that have a block.
    pub sm: u16,
    /// See `sm`.
    pub active_sms: u64,
    /// What the L2 held.
    pub l2: L2,
    /// Predicted cycles of the whole launch.
    pub cycles: f64,
    /// Cycles of the SM in detail for the blocks that were simulated.
    pub simulated_cycles: u64,
    /// At the clock of the table.
    pub seconds: f64,
    /// Blocks of the busiest SM, and how many of them were simulated.
    pub blocks: u64,
    /// See `blocks`.
    pub simulated: u64,
    /// Blocks of an SM at a time.
    pub occupancy: Occupancy,
    /// Warps at a time on average, in parts of the most.
    pub achieved: f64,
    /// Instructions that were executed, of the SM's blocks that were simulated.
    pub instructions: Vec<Row>,
    /// Instructions of warps that an SM issued in a cycle.
    pub ipc: f64,
    /// Cycles in which a pipe was busy, in parts of all; queues to memory: of the units behind them.
    pub pipes: Vec<(Pipe, f64)>,
    /// What went through memory, of the whole launch.
    pub traffic: Traffic,
    /// Floating-point operations of the whole launch: those of matrix instructions apart.
    pub flops: f64,
    /// See `flops`.
    pub matrix_flops: f64,
    /// The most that the chip can do in a second: operations, of matrices, bytes of memory.
    pub peaks: [f64; 3],
    /// Waits for others than the simulated blocks, which were taken for over.
    pub assumed: u64,
}

/// An instruction with what became of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its index in the program.
    pub index: usize,
    /// The function, and the address in it.
    pub function: String,
    /// See `function`.
    pub address: u64,
    /// Its text.
    pub text: String,
    /// Counts.
    pub count: Count,
}

impl Row {
    /// Cycles of warps at it, issuing included.
    pub fn cycles(&self) -> u64 {
        self.count.cycles.iter().sum()
    }
}

impl Profile {
    /// Cycles of warps by reason.
    pub fn reasons(&self) -> [u64; Reason::COUNT] {
        let mut sums = [0; Reason::COUNT];
        for row in &self.instructions {
            sums.iter_mut().zip(&row.count.cycles).for_each(|(sum, cycles)| *sum += cycles);
        }
        sums
    }

    /// Instructions that warps executed in the simulated blocks.
    pub fn executed(&self) -> u64 {
        self.instructions.iter().map(|row| row.count.executed).sum()
    }

    /// Bytes from and to the chip's memory.
    pub fn dram_bytes(&self) -> u64 {
        (self.traffic.dram_read + self.traffic.dram_written) * SECTOR
    }

    /// Bytes between the L2 and the SMs.
    pub fn l2_bytes(&self) -> u64 {
        (self.traffic.l2_read + self.traffic.l2_written) * SECTOR
    }
}

/// Blocks in the order in which an SM gets them.
struct Blocks<'m, 'p, 'l> {
    machine: &'m mut Machine<'p>,
    launch: &'l Launch<'l>,
    /// SMs that have blocks, blocks of a cluster.
    active: u64,
    cluster: u32,
    steps: u64,
}

impl Blocks<'_, '_, '_> {
    fn trace(&mut self, number: u64) -> Result<BlockTrace, Fault> {
        let size = u64::from(self.cluster);
        self.machine.trace(self.launch, (number / size, (number % size) as u32), &mut self.steps)
    }

    /// What other SMs touch, from some blocks of the first wave.
    fn sharing(&mut self, resident: u32, samples: u32) -> Result<Sharing, Fault> {
        let wave = self.active * u64::from(resident);
        let total = self.launch.grid.iter().map(|n| u64::from(*n)).product::<u64>().min(wave);
        let mut sharing = Sharing::new((self.active - 1) as f64, f64::from(resident));
        for sample in 0..u64::from(samples) {
            let number = 1 + sample * total.saturating_sub(1) / u64::from(samples).max(1);
            if number >= total || number % self.active == 0 {
                continue;
            }
            let trace = self.trace(number)?;
            sharing.add(trace.warps.iter().flat_map(|warp| warp.extras.iter().flat_map(touched)));
        }
        Ok(sharing)
    }
}

/// Lines of global memory that a record has.
fn touched(extra: &Extra) -> impl Iterator<Item = u64> + '_ {
    let lines = match extra {
        Extra::Global { lines, .. } | Extra::Copy { lines, .. } | Extra::Bulk { lines, .. } => &lines[..],
        _ => &[],
    };
    lines.iter().map(|line| line.number)
}

/// Predicts what a launch takes. The memory of the machine is as after those blocks that were executed.
pub fn profile(machine: &mut Machine, launch: &Launch, options: &Options) -> Result<Profile, Fault> {
    watch(machine, launch, options, 0).map(|(profile, _)| profile)
}

/// As [`profile`], with a log of each warp of the first block: so many of its steps.
pub fn watch(
    machine: &mut Machine,
    launch: &Launch,
    options: &Options,
    most_steps: usize,
) -> Result<(Profile, Vec<WarpLog>), Fault> {
    let p = &options.parameters;
    let program = machine.program();
    let cluster = machine.cluster_blocks(launch)?;
    let resources = program.resources(launch).unwrap_or_default();
    let threads = launch.block.iter().product();
    let occupancy = Occupancy::of(program.target(), p, threads, resources);
    if occupancy.blocks == 0 {
        let what = format!("a block needs more {} than an SM has", occupancy.limit());
        return Err(Fault::of_launch(what));
    }
    let total = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    let active = total.min(p.sms as u64).max(1);
    let blocks = total.div_ceil(active);
    let resident = u64::from(occupancy.blocks).min(blocks) as u32;
    // Checks of the schedule are `verify`'s. Blocks that wait for others through memory would never end.
    let step_limit = launch.step_limit.min(options.budget.saturating_mul(16));
    let launch = &Launch { check_schedule: false, check_registers: false, step_limit, ..launch.clone() };
    let mut source = Blocks { machine, launch, active, cluster, steps: 0 };
    let sharing = source.sharing(resident, options.samples)?;
    let infos = code::infos(program.target().isa, program.code(), program.steps(), p);
    let memory = Memory::new(p, occupancy.cache, active as f64, options.l2 == L2::Warm, sharing);
    let mut sm = Sm::new(&infos, p, memory).watching(most_steps);
    let (mut given, mut executed) = (0, 0u64);
    sm.run(resident, || {
        let enough = given >= 4 * u64::from(resident) && executed > options.budget / 8;
        let too_many = given >= options.waves * u64::from(resident) && executed > options.budget;
        if given == blocks || enough || too_many {
            return Ok(None);
        }
        let trace = source.trace(given * active)?;
        executed += trace.warps.iter().map(|warp| warp.records.len() as u64).sum::<u64>();
        given += 1;
        Ok::<_, Fault>(Some(trace))
    })?;
    let run = Run { infos: &infos, p, launch, total, active, blocks, given };
    sm.logs.sort_by_key(|log| log.warp);
    Ok((run.profile(program, occupancy, options.l2, (sm.counts, sm.memory.traffic)), sm.logs))
}

/// A launch that was simulated.
struct Run<'r> {
    infos: &'r [Info],
    p: &'r Parameters,
    launch: &'r Launch<'r>,
    total: u64,
    active: u64,
    blocks: u64,
    given: u64,
}

impl Run<'_> {
    fn profile(
        &self,
        program: &crate::sass::Program,
        occupancy: Occupancy,
        l2: L2,
        (counts, traffic): (Counts, Traffic),
    ) -> Profile {
        let p = self.p;
        let sm_cycles = extrapolated(&counts.ends, self.blocks, u64::from(occupancy.blocks));
        let cycles = sm_cycles + p.launch_cycles;
        let simulated_cycles = counts.ends.last().copied().unwrap_or(0);
        let scale = self.total as f64 / self.given.max(1) as f64;
        let (mut flops, mut matrix_flops) = (0.0, 0.0);
        for (info, count) in self.infos.iter().zip(&counts.instructions) {
            let sum = info.flops * count.lanes as f64 * scale;
            if info.pipe == Pipe::Tensor { matrix_flops += sum } else { flops += sum }
        }
        let within = simulated_cycles.max(1) as f64;
        let warp_cycles: u64 = counts.instructions.iter().flat_map(|count| &count.cycles).sum();
        let most = f64::from(occupancy.most_warps.max(1));
        let pipe = |pipe: Pipe| {
            let shares = if code::is_of_sm(pipe) { 1.0 } else { CORES as f64 };
            (pipe, counts.busy[pipe as usize] as f64 / (within * shares))
        };
        let second = p.clock_mhz * 1e6 * p.sms;
        Profile {
            kernel: self.launch.kernel.to_string(),
            grid: self.launch.grid,
            block: self.launch.block,
            sm: program.target().sm,
            active_sms: self.active,
            l2,
            cycles,
            simulated_cycles,
            seconds: cycles / (p.clock_mhz * 1e6),
            blocks: self.blocks,
            simulated: self.given,
            achieved: warp_cycles as f64 / (within * most),
            occupancy,
            ipc: counts.issued as f64 / within,
            pipes: Pipe::ALL.into_iter().map(pipe).collect(),
            traffic: traffic.combine(&Traffic::default(), |count, _| (count as f64 * scale).round() as u64),
            flops,
            matrix_flops,
            peaks: [256.0 * second, 4096.0 * second, p.dram_bytes_per_second],
            assumed: counts.assumed,
            instructions: rows(program, counts.instructions),
        }
    }
}

fn rows(program: &crate::sass::Program, counts: Vec<Count>) -> Vec<Row> {
    let executed = counts.into_iter().enumerate().filter(|(_, count)| count.executed > 0);
    let row = |(index, count): (usize, Count)| {
        let (function, address) = program.address(index)?;
        let text = program.code().get(index)?.at(address).to_string();
        Some(Row { index, function: function.to_string(), address, text, count })
    };
    executed.filter_map(row).collect()
}

/// Cycles for all blocks, from the ends of those that were simulated: what is missing takes as long as those in the
/// middle, where the SM was full.
fn extrapolated(ends: &[u64], blocks: u64, resident: u64) -> f64 {
    let (Some(last), count) = (ends.last(), ends.len() as u64) else { return 0.0 };
    if count >= blocks {
        return *last as f64;
    }
    let at = |index: u64| ends[index.min(count - 1) as usize] as f64;
    let first = (resident - 1).min(count - 1);
    let end = if count > 3 * resident { count - resident } else { count - 1 };
    let each = match end.checked_sub(first) {
        None | Some(0) => *last as f64 / count as f64,
        Some(steps) => (at(end) - at(first)) / steps as f64,
    };
    *last as f64 + each * (blocks - count) as f64
}
