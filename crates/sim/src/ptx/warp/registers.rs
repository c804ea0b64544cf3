//! Registers, special registers, and what is computed from them.

use super::{LANES, RESULTS, Stop, Warp};
use crate::fault::FaultKind;
use crate::ptx::block::Context;
use crate::ptx::program::{Dest, Function, Lanes, Source, Special};

impl Warp {
    pub(super) fn check_written(
        &self,
        context: &Context,
        frame: u32,
        slot: usize,
        mask: u32,
    ) -> Result<(), Stop> {
        let frame = &self.frames[frame as usize];
        let missing = mask & !frame.written[slot];
        if missing == 0 || !context.launch.check_registers {
            return Ok(());
        }
        let register = context.program.routines[frame.routine as usize].slot_names[slot].clone();
        Err((FaultKind::Uninitialised { register }, missing.trailing_zeros() as usize))
    }

    /// The value in each lane.
    pub(super) fn read(
        &self,
        context: &Context,
        frame: u32,
        mask: u32,
        source: &Source,
    ) -> Result<Lanes, Stop> {
        Ok(match source {
            Source::Slot(slot) => {
                self.check_written(context, frame, *slot as usize, mask)?;
                self.frames[frame as usize].slots[*slot as usize]
            }
            Source::Constant(value) => **value,
            Source::Not(slot) => {
                self.check_written(context, frame, *slot as usize, mask)?;
                self.frames[frame as usize].slots[*slot as usize].map(|value| u64::from(value == 0))
            }
            Source::Special(special) => self.special(context, *special),
            Source::Local(offset) => self.frames[frame as usize].local.map(|base| u64::from(base + offset)),
            Source::Shared(offset) => [context.shared_address(*offset); LANES],
            Source::DynamicShared(more) => {
                [context.shared_address(context.dynamic).wrapping_add_signed(*more); LANES]
            }
        })
    }

    fn special(&self, context: &Context, special: Special) -> Lanes {
        let lane_values = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let same = |value: u32| [u64::from(value); LANES];
        let launch = context.launch;
        match special {
            Special::Tid(axis) => lane_values(&|lane| context.thread(self.index, lane).thread[axis]),
            Special::Ntid(axis) => same(launch.block[axis]),
            Special::Ctaid(axis) => same(context.block[axis]),
            Special::Nctaid(axis) => same(launch.grid[axis]),
            Special::ClusterId(axis) => same(context.cluster[axis]),
            Special::NClusterId(axis) => same(launch.grid[axis] / context.cluster_size[axis].max(1)),
            Special::ClusterCtaid(axis) => same(context.block[axis] % context.cluster_size[axis].max(1)),
            Special::ClusterNctaid(axis) => same(context.cluster_size[axis]),
            Special::ClusterCtarank => same(context.rank),
            Special::ClusterNctarank => same(context.cluster_size.iter().product()),
            Special::IsExplicitCluster => same(context.is_explicit_cluster().into()),
            Special::LaneId => lane_values(&|lane| lane),
            Special::WarpId => same(self.index),
            Special::LaneMask(f) => lane_values(&f),
            Special::Clock => [context.clock; LANES],
            Special::ClockHigh => [context.clock >> 32; LANES],
            Special::TotalSharedSize => same(context.shared_bytes - context.program.reserved_shared),
            Special::DynamicSharedSize => same(launch.shared),
        }
    }

    pub(super) fn write(&mut self, frame: u32, mask: u32, dest: &Dest, values: &Lanes) {
        self.frames[frame as usize].write(mask, dest, values);
    }

    pub(super) fn compute(
        &mut self,
        context: &Context,
        frame: u32,
        mask: u32,
        sources: &[Source],
        dests: &[Dest],
        function: &Function,
    ) -> Result<(), Stop> {
        /// Most arguments of one instruction.
        const ARGUMENTS: usize = 16;
        // What is no register is looked up first, so that the rest can be borrowed.
        let mut looked_up: [Option<Lanes>; 2] = [None; 2];
        let mut used = 0;
        for source in sources {
            if !matches!(source, Source::Slot(_) | Source::Constant(_)) {
                let place = looked_up.get_mut(used).ok_or((too_many(), 0))?;
                *place = Some(self.read(context, frame, mask, source)?);
                used += 1;
            }
        }
        let mut inputs: [&Lanes; ARGUMENTS] = [&[0; LANES]; ARGUMENTS];
        let mut extra = looked_up.iter().flatten();
        for (input, source) in inputs.iter_mut().zip(sources) {
            *input = match source {
                Source::Slot(slot) => {
                    self.check_written(context, frame, *slot as usize, mask)?;
                    &self.frames[frame as usize].slots[*slot as usize]
                }
                Source::Constant(value) => value,
                _ => extra.next().unwrap_or(&[0; LANES]),
            };
        }
        let (Some(inputs), true) = (inputs.get(..sources.len()), dests.len() <= RESULTS) else {
            return Err((too_many(), 0));
        };
        function(inputs, &mut self.outputs[..dests.len()], mask);
        for (dest, values) in dests.iter().zip(self.outputs.iter()) {
            self.frames[frame as usize].write(mask, dest, values);
        }
        Ok(())
    }
}

pub(super) fn too_many() -> FaultKind {
    FaultKind::Unsupported { what: "an instruction with so many operands".into() }
}
