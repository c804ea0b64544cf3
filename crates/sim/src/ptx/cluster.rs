//! A cluster of blocks: they run side by side, reach each other's shared memory and wait for each other.

use super::block::Block;
use super::program::Program;
use super::races::{Meeting, Races};
use super::{Fault, Launch, Statistics};
use crate::memory::Global;

/// What the threads of a cluster share.
pub struct Memory<'m> {
    pub global: &'m mut Global,
    /// Of each block, by its rank.
    pub shared: &'m mut [Vec<u8>],
    pub barrier: &'m mut ClusterBarrier,
    /// Questions to barriers in memory that were answered in the negative since memory was last written.
    pub vain: &'m mut u64,
    /// Accesses of shared memory, if someone wants to know which ones race.
    pub races: Option<&'m mut Races>,
}

/// The barrier of all threads of a cluster. Arriving and waiting are apart: a thread that has arrived in a phase may
/// wait for its end, which comes when every thread that hasn't exited has arrived.
#[derive(Default)]
pub struct ClusterBarrier {
    /// Phases that are over.
    pub phase: u64,
    /// Lanes, by rank and warp.
    arrived: Vec<Vec<u32>>,
}

impl ClusterBarrier {
    fn new(blocks: usize, warps: usize) -> ClusterBarrier {
        ClusterBarrier { phase: 0, arrived: vec![vec![0; warps]; blocks] }
    }

    pub fn arrive(&mut self, rank: u32, warp: u32, lanes: u32) {
        if let Some(arrived) = self.arrived.get_mut(rank as usize).and_then(|w| w.get_mut(warp as usize)) {
            *arrived |= lanes;
        }
    }

    /// Ends the phase if all have come.
    fn complete(&mut self, blocks: &[Block]) -> bool {
        let everyone = blocks.iter().zip(&self.arrived);
        let mut each = everyone.flat_map(|(block, arrived)| block.alive().into_iter().zip(arrived));
        let someone = self.arrived.iter().flatten().any(|lanes| *lanes != 0);
        if !someone || each.any(|(alive, arrived)| alive & !arrived != 0) {
            return false;
        }
        self.arrived.iter_mut().flatten().for_each(|lanes| *lanes = 0);
        self.phase += 1;
        true
    }

    /// Why it can't complete.
    fn shortage(&self, blocks: &[Block]) -> String {
        let count = |lanes: &[u32]| lanes.iter().map(|lanes| lanes.count_ones()).sum::<u32>();
        let arrived: u32 = self.arrived.iter().map(|lanes| count(lanes)).sum();
        let alive: u32 = blocks.iter().map(|block| count(&block.alive())).sum();
        format!("the barrier of the cluster can't complete: {arrived} of {alive} threads are there")
    }
}

pub struct Cluster<'p> {
    blocks: Vec<Block<'p>>,
    /// Of each block.
    shared: Vec<Vec<u8>>,
    barrier: ClusterBarrier,
    races: Option<Races>,
    step_limit: u64,
}

impl<'p> Cluster<'p> {
    /// The cluster at a place of the grid of clusters.
    pub fn new(program: &'p Program, launch: &'p Launch<'p>, routine: u32, cluster: [u32; 3]) -> Cluster<'p> {
        let size = launch.cluster_size(&program.routines[routine as usize]);
        let ranks = size.iter().product::<u32>();
        let blocks: Vec<Block> =
            (0..ranks).map(|rank| Block::new(program, launch, routine, cluster, rank)).collect();
        let shared = blocks.iter().map(|block| launch.shared_memory(block.shared_bytes())).collect();
        let warps = blocks.first().map_or(0, |block| block.alive().len());
        let barrier = ClusterBarrier::new(blocks.len(), warps);
        let bytes = blocks.first().map_or(0, Block::shared_bytes);
        let races = launch.check_races.then(|| Races::new(blocks.len(), warps, bytes));
        Cluster { blocks, shared, barrier, races, step_limit: launch.step_limit }
    }

    /// Runs until all blocks are done (`true`) or have used up their turn. `vain`: see [`Memory`].
    pub fn run(
        &mut self,
        global: &mut Global,
        vain: &mut u64,
        statistics: &mut Statistics,
        turn: u64,
    ) -> Result<bool, Fault> {
        let end = statistics.steps.saturating_add(turn);
        let Cluster { blocks, shared, barrier, races, step_limit } = self;
        loop {
            let before = statistics.steps;
            let mut met = false;
            for rank in 0..blocks.len() {
                let memory = &mut Memory { global, shared, barrier, vain, races: races.as_mut() };
                blocks[rank].round(memory, statistics)?;
                if barrier.complete(blocks) {
                    met = true;
                    races.iter_mut().for_each(|races| races.complete(Meeting::Cluster));
                    blocks.iter_mut().for_each(Block::leave_cluster_barrier);
                }
            }
            if blocks.iter().all(Block::is_done) {
                return Ok(true);
            }
            if statistics.steps == before && !met {
                let waiting = blocks.iter().find(|block| !block.is_done());
                let fault = waiting.map(|block| block.deadlock(|| barrier.shortage(blocks)));
                return Err(fault.unwrap_or_else(|| Fault::launch("no block can go on")));
            }
            if statistics.steps >= end || statistics.steps > *step_limit {
                return Ok(false);
            }
        }
    }
}
