//! Lowers `tcgen05.alloc`, `dealloc` and `relinquish_alloc_permit`. Columns of tensor memory are allocated in units of
//! 32.
//!
//! The allocation state is in reserved shared memory, where code of other kernels and debuggers expect it:
//!
//! | offset in the partition | what |
//! |---|---|
//! | 0x08, 0x10 | an mbarrier between the two blocks of a CTA pair, and its phase |
//! | 0x14 | mask of allocated units |
//! | 0x18 | mask of the first units of allocations |
//! | 0x1c | a byte: the block has relinquished its permit |

use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Address;
use crate::lower::sync::collectives::Gathered;
use crate::lower::{Linked, Lower};
use cubin::module::TCGEN05_PARTITION;
use ori::{Arg, Block, Edge, File, Half, Terminator, Value};
use ptx::Type;
use ptx::words::Kind;
use sass::{M, Op};
use smallvec::{SmallVec, smallvec};

const BARRIER: i64 = 0x08;
const PHASE: i64 = 0x10;
const TAKEN: i64 = 0x14;
const FIRSTS: i64 = 0x18;
const GIVEN_UP: i64 = 0x1c;
/// Columns in a unit, as a shift.
const UNIT: i64 = 5;
/// The longest sleep of a wait for the other block in nanoseconds, as ptxas has it.
const LONG_PAUSE: i64 = 10_000_000;
/// The outstanding results of the allocator, as ptxas has it.
const IN_FLIGHT: i64 = 0x36;

/// The address of the allocation state: a general register, or none and a uniform one.
type AllocState = SmallVec<[Arg; 2]>;

/// Masks of the units of an allocation, and of the first of them.
struct Units {
    all: Value,
    first: Value,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn tensor_alloc(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        self.aligned(ins);
        let _ = (ins.word(Kind::Space), ins.ty()?);
        let result = self.shared_word(ins.get(0)?)?;
        let result = self.in_register(result);
        let columns = self.word(ins.get(1)?, Type::U32)?;
        let columns = self.in_register(columns);
        self.in_guarded_branch(|l| {
            let state = if pair { l.state() } else { l.uniform_alloc_state() };
            let after = l.kernel.code.block();
            let gone = l.kernel.code.value(File::R, 1);
            l.effect(Op::LDS, &[M::U8], &[gone], &at(&state, GIVEN_UP));
            let gone = l.unequal(gone.into(), RZ);
            let (refused, goes_on) = l.fork(gone);
            l.block = refused;
            let nothing = l.in_register(Arg::Imm(-1));
            l.effect(Op::STS, &[], &[], &[result, Arg::Imm(0), nothing]);
            l.trap(after);
            l.block = goes_on;
            let count = l.shifted(&[M::R, M::S32, M::HI], [RZ, Arg::Imm(UNIT), columns]);
            match pair {
                false => l.alloc_one_cta(result, count, after),
                true => l.alloc_cta_pair(&state, result, count, after),
            }
            l.reconverge(after);
            Some(())
        })
    }

    /// One thread allocates.
    fn alloc_one_cta(&mut self, result: Arg, count: Value, after: Block) {
        self.one_thread(after);
        let first = self.find_units(count, &[M::FIND_AND_SET, M::ALIGN]);
        let state = self.uniform_alloc_state();
        self.record_units(&state, result, count, first);
        self.jump(self.block, after);
    }

    /// The block of even rank allocates for both and sends the address to the other, which acknowledges: each waits on
    /// its own barrier.
    fn alloc_cta_pair(&mut self, state: &AllocState, result: Arg, count: Value, after: Block) {
        let rank = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_CgaCtaId)]);
        let other = self.lop3(rank.into(), Arg::Imm(1), RZ, 0x3c);
        let odd = self.masked(rank.into(), 1);
        let odd = self.unequal(odd.into(), RZ);
        // The address of a location in the other block.
        let over_there = |l: &mut Self, at: Arg| -> Arg {
            l.emit(Op::PRMT, &[], 1, &[other.into(), Arg::Imm(0x0654), at]).into()
        };
        let own_barrier = self.emit(Op::IADD3, &[], 1, &[state[0], Arg::Imm(BARRIER), RZ]);
        let barrier = over_there(self, own_barrier.into());
        let joined = self.kernel.code.block();
        let (waits, leads) = self.fork(odd);
        self.jump(waits, joined);

        self.block = leads;
        self.one_thread(joined);
        let first = self.find_units(count, &[M::_2CTA, M::FIND_AND_SET, M::ALIGN]);
        self.wait_for_other(state);
        let at = Address { base: barrier, offset: 0 };
        // The other's barrier expects this arrival and the four bytes after it.
        self.unit_arrive(&[M::RED], None, at, Arg::Imm(4));
        let result_there = over_there(self, result);
        let addresses = self.pack(&[result_there, barrier]);
        self.effect(Op::STAS, &[], &[], &[addresses.into(), Arg::Imm(0), first.into()]);
        self.record_units(state, result, count, first);
        self.next_phase(state);
        self.jump(self.block, joined);

        // After the leader's part, not in the other arm of the branch, as in ptxas's code.
        self.block = joined;
        let (follows, done) = self.fork(odd);
        self.jump(done, after);
        self.block = follows;
        self.wait_for_warp();
        self.one_thread(after);
        self.wait_for_other(state);
        let first = self.kernel.code.value(File::R, 1);
        self.effect(Op::LDS, &[], &[first], &[result, Arg::Imm(0)]);
        self.record_units(state, result, count, first);
        self.unit_arrive(&[M::RED, M::A1T0], None, at, RZ);
        self.next_phase(state);
        self.jump(self.block, after);
    }

    /// Continues with one elected thread; the others branch to `after`.
    fn one_thread(&mut self, after: Block) {
        let elected = self.elect_one();
        let (one, others) = self.fork(elected);
        self.jump(others, after);
        self.block = one;
    }

    /// Records units in the allocation state, and stores the address of their first column for the program.
    fn record_units(&mut self, state: &AllocState, result: Arg, count: Value, first: Value) {
        let units = self.units(count, first);
        for (word, bits) in [(TAKEN, units.all), (FIRSTS, units.first)] {
            let args = [&[RZ], &at(state, word)[..], &[bits.into()]].concat();
            self.effect(Op::ATOMS, &[M::OR], &[], &args);
        }
        let address = self.shifted(&[M::L, M::U32], [first.into(), Arg::Imm(UNIT), RZ]);
        self.effect(Op::STS, &[], &[], &[result, Arg::Imm(0), address.into()]);
    }

    /// Waits for the phase of the pair's barrier: tests twice, then sleeps between tests.
    fn wait_for_other(&mut self, state: &AllocState) {
        let phase = self.kernel.code.value(File::R, 1);
        self.effect(Op::LDS, &[], &[phase], &at(state, PHASE));
        let phase = self.shifted(&[M::L, M::U32], [phase.into(), Arg::Imm(31), RZ]).into();
        let barrier = Address { base: state[0], offset: BARRIER };
        let (done, again) = (self.kernel.code.block(), self.kernel.code.block());
        for _ in 0..2 {
            let over = self.unit_wait(true, barrier, phase);
            let not_yet = self.kernel.code.block();
            self.uniform_branch(over, Edge::to(done), Edge::to(not_yet));
            self.block = not_yet;
        }
        self.jump(self.block, again);
        self.block = again;
        let over = self.timed_wait(barrier, phase, Arg::Imm(LONG_PAUSE));
        self.uniform_branch(over, Edge::to(done), Edge::to(again));
        self.block = done;
    }

    fn next_phase(&mut self, state: &AllocState) {
        let one = self.in_register(Arg::Imm(1));
        self.effect(Op::ATOMS, &[M::XOR], &[], &[&[RZ], &at(state, PHASE)[..], &[one]].concat());
    }

    /// Allocates units, retrying until it succeeds, and returns the first one.
    fn find_units(&mut self, count: Value, how: &[M]) -> Value {
        let (done, sleep) = (self.kernel.code.block(), self.kernel.code.block());
        self.try_units(count, how, done, sleep);
        self.block = sleep;
        let backoff = i64::from(self.tuning.tcgen05_alloc_backoff);
        self.effect(Op::NANOSLEEP, &[], &[], &[Arg::Imm(backoff)]);
        self.try_units(count, how, done, sleep);
        self.block = done;
        let first = self.kernel.code.value(File::R, 1);
        self.kernel.code.blocks[done].params = vec![first];
        first
    }

    /// Branches to `done` with the first unit, or to `sleep` if not enough are free.
    fn try_units(&mut self, count: Value, how: &[M], done: Block, sleep: Block) {
        let wanted = self.in_uniform(count.into());
        let (found, first) = (self.kernel.code.value(File::UP, 1), self.kernel.code.value(File::UR, 1));
        self.effect(
            Op::DEPBAR,
            &[M::LE],
            &[],
            &[Arg::Name(crate::lower::memory::cp_async::GROUPS), Arg::Imm(IN_FLIGHT)],
        );
        self.effect(Op::UTCATOMSWS, how, &[found, first], &[wanted]);
        let first = self.emit(Op::MOV, &[], 1, &[first.into()]);
        let found = [PT, PT, PT, found.into(), Arg::Imm(0x80), Arg::Imm(0)];
        let found = self.emit_p(Op::PLOP3, &[M::LUT], &found);
        self.uniform_branch(found, Edge { to: done, args: vec![first] }, Edge::to(sleep));
    }

    pub(crate) fn tensor_dealloc(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        ins.ty()?;
        let address = self.word(ins.get(0)?, Type::U32)?;
        let address = self.in_register(address);
        let columns = self.word(ins.get(1)?, Type::U32)?;
        let columns = self.in_register(columns);
        self.in_guarded_branch(|l| {
            let after = l.kernel.code.block();
            let count = l.shifted(&[M::R, M::S32, M::HI], [RZ, Arg::Imm(UNIT), columns]);
            // The address has the lane above the column.
            let column = l.masked(address, 0xffff);
            let first = l.shifted(&[M::R, M::U32, M::HI], [RZ, Arg::Imm(UNIT), column.into()]);
            let units = l.units(count, first);
            // Traps unless exactly this allocation exists.
            for (word, bits) in [(TAKEN, units.all), (FIRSTS, units.first)] {
                let state = l.uniform_alloc_state();
                let known = l.kernel.code.value(File::R, 1);
                l.effect(Op::LDS, &[], &[known], &at(&state, word));
                let known = l.lop3(known.into(), bits.into(), RZ, 0xc0);
                let wrong = l.unequal(known.into(), bits.into());
                let (trap, goes_on) = l.fork(wrong);
                l.block = trap;
                l.trap(after);
                l.block = goes_on;
            }
            l.wait_for_warp();
            let elected = l.elect_one();
            let [all, first] = [units.all, units.first].map(|bits| l.lop3(RZ, bits.into(), RZ, 0x33));
            let rest = l.in_uniform(all.into());
            l.effect(Op::UTCATOMSWS, &[M::AND], &[], &[Arg::Zero(File::UR), rest]);
            let state = l.uniform_alloc_state();
            for (word, bits) in [(TAKEN, all), (FIRSTS, first)] {
                let common = l.kernel.code.value(File::R, 1);
                // The AND over all threads: a unit that any of them frees is free.
                l.warp_wide(Gathered::Here, Op::REDUX, &[], &[common], &[bits.into()])?;
                let args = [&[RZ], &at(&state, word)[..], &[common.into()]].concat();
                l.under(elected.into(), |l| l.effect(Op::ATOMS, &[M::AND], &[], &args));
            }
            l.jump(l.block, after);
            l.reconverge(after);
            Some(())
        })
    }

    pub(crate) fn relinquish_alloc(&mut self, ins: &Ins<'a>) -> Option<()> {
        self.aligned(ins);
        self.in_guarded_branch(|l| {
            let after = l.kernel.code.block();
            l.one_thread(after);
            let state = l.uniform_alloc_state();
            l.effect(Op::UVIRTCOUNT, &[M::DEALLOC, M::SMPOOL], &[], &[Arg::Imm(0x80)]);
            let yes = l.in_register(Arg::Imm(1));
            l.effect(Op::STS, &[M::U8], &[], &[&at(&state, GIVEN_UP)[..], &[yes]].concat());
            l.jump(l.block, after);
            l.block = after;
            Some(())
        })
    }

    /// The address of the allocation state.
    fn state(&mut self) -> AllocState {
        self.kernel.uses.tensor_partition = true;
        let offset = match self.data.relocatable {
            true => {
                let symbol = self.linked(TCGEN05_PARTITION.0, Linked::Shared);
                Arg::Address { symbol, addend: 0, half: Half::Low }
            }
            false => Arg::Imm(self.machine.tensor_partition().into()),
        };
        smallvec![self.shared_address(offset).into()]
    }

    /// The same in a uniform register, valid in this block only: it isn't preserved across divergence.
    fn uniform_alloc_state(&mut self) -> AllocState {
        let base = self.state()[0];
        smallvec![RZ, self.in_uniform(base)]
    }

    fn units(&mut self, count: Value, first: Value) -> Units {
        let ones = self.in_register(Arg::Imm(-1));
        let above = self.shifted(&[M::L, M::U32], [ones, count.into(), RZ]);
        let low = self.lop3(RZ, above.into(), RZ, 0x33);
        let all = self.shifted(&[M::L, M::U32], [low.into(), first.into(), RZ]);
        let one = self.in_register(Arg::Imm(1));
        let first = self.shifted(&[M::L, M::U32], [one, first.into(), RZ]);
        Units { all, first }
    }

    fn shifted(&mut self, how: &[M], args: [Arg; 3]) -> Value {
        self.emit(Op::SHF, how, 1, &args)
    }

    fn unequal(&mut self, a: Arg, b: Arg) -> Value {
        self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, a, b, PT])
    }

    /// Branches to the first of two new blocks if a predicate is true, else to the second.
    fn fork(&mut self, predicate: Value) -> (Block, Block) {
        let (yes, no) = (self.kernel.code.block(), self.kernel.code.block());
        let edges = (Edge::to(yes), Edge::to(no));
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: false, yes: edges.0, no: edges.1 };
        (yes, no)
    }

    /// A branch of a single thread: it doesn't diverge.
    fn uniform_branch(&mut self, predicate: Value, yes: Edge, no: Edge) {
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: true, yes, no };
    }

    fn jump(&mut self, from: Block, to: Block) {
        self.kernel.code.blocks[from].end = Terminator::Jump(Edge::to(to));
    }

    /// Ends the block with a trap; a debugger may continue at `after`.
    fn trap(&mut self, after: Block) {
        self.effect(Op::BPT, &[M::TRAP], &[], &[Arg::Imm(1)]);
        self.jump(self.block, after);
    }

    fn reconverge(&mut self, after: Block) {
        self.block = after;
        self.wait_for_warp();
    }
}

/// A word of the allocation state.
fn at(state: &AllocState, offset: i64) -> Vec<Arg> {
    state.iter().copied().chain([Arg::Imm(offset)]).collect()
}
