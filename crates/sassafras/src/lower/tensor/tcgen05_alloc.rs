//! Columns of tensor memory are handed out in units of 32.
//!
//! Books are kept in the shared memory of the system, where other kernels' code and debuggers look for them:
//!
//! | bytes from the partition's first | what |
//! |---|---|
//! | 0x08, 0x10 | a barrier between the two blocks of a pair, and its phase |
//! | 0x14 | the columns that are taken, a bit each |
//! | 0x18 | the first columns of what is taken |
//! | 0x1c | a byte: the block has given up its right to take more |

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
/// Nanoseconds before another try.
const PAUSE: i64 = 100;
/// Nanoseconds that a wait for the other block sleeps at most, as ptxas has it.
const LONG_PAUSE: i64 = 10_000_000;
/// How many results of the allocator may be under way, as ptxas has it.
const IN_FLIGHT: i64 = 0x36;

/// The registers of the books' address: a general one, or none and a uniform one.
type Books = SmallVec<[Arg; 2]>;

/// Bits for the units of an allocation, and for the first of them.
struct Units {
    all: Value,
    first: Value,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn tensor_alloc(&mut self, ins: &Ins<'a>, pair: bool) -> Option<()> {
        let _ = (ins.flag("sync"), ins.flag("aligned"), ins.word(Kind::Space), ins.ty()?);
        let result = self.shared_word(ins.get(0)?)?;
        let result = self.in_register(result);
        let columns = self.word(ins.get(1)?, Type::U32)?;
        let columns = self.in_register(columns);
        self.in_guarded_branch(|l| {
            let books = if pair { l.books() } else { l.books_here() };
            let after = l.kernel.code.block();
            let gone = l.kernel.code.value(File::R, 1);
            l.effect(Op::LDS, &[M::U8], &[gone], &at(&books, GIVEN_UP));
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
                true => l.alloc_cta_pair(&books, result, count, after),
            }
            l.reconverge(after);
            Some(())
        })
    }

    /// One thread takes the units.
    fn alloc_one_cta(&mut self, result: Arg, count: Value, after: Block) {
        self.one_thread(after);
        let first = self.find_units(count, &[M::FIND_AND_SET, M::ALIGN]);
        let books = self.books_here();
        self.note_units(&books, result, count, first);
        self.jump(self.block, after);
    }

    /// The block of even rank takes the units for both and tells the other one, which answers: each waits on its own
    /// barrier for the other.
    fn alloc_cta_pair(&mut self, books: &Books, result: Arg, count: Value, after: Block) {
        let rank = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_CgaCtaId)]);
        let other = self.lop3(rank.into(), Arg::Imm(1), RZ, 0x3c);
        let odd = self.masked(rank.into(), 1);
        let odd = self.unequal(odd.into(), RZ);
        // The other block's address for a place of this one's.
        let over_there = |l: &mut Self, at: Arg| -> Arg {
            l.emit(Op::PRMT, &[], 1, &[other.into(), Arg::Imm(0x0654), at]).into()
        };
        let own_barrier = self.emit(Op::IADD3, &[], 1, &[books[0], Arg::Imm(BARRIER), RZ]);
        let barrier = over_there(self, own_barrier.into());
        let joined = self.kernel.code.block();
        let (waits, leads) = self.fork(odd);
        self.jump(waits, joined);

        self.block = leads;
        self.one_thread(joined);
        let first = self.find_units(count, &[M::_2CTA, M::FIND_AND_SET, M::ALIGN]);
        self.wait_for_other(books);
        let at = Address { base: barrier, offset: 0 };
        // The other's barrier waits for this arrival and for the four bytes that come after it.
        self.unit_arrive(&[M::RED], None, at, Arg::Imm(4));
        let result_there = over_there(self, result);
        let addresses = self.pack(&[result_there, barrier]);
        self.effect(Op::STAS, &[], &[], &[addresses.into(), Arg::Imm(0), first.into()]);
        self.note_units(books, result, count, first);
        self.next_phase(books);
        self.jump(self.block, joined);

        // Not beside the first part but behind it, as in ptxas's code.
        self.block = joined;
        let (follows, done) = self.fork(odd);
        self.jump(done, after);
        self.block = follows;
        self.wait_for_warp();
        self.one_thread(after);
        self.wait_for_other(books);
        let first = self.kernel.code.value(File::R, 1);
        self.effect(Op::LDS, &[], &[first], &[result, Arg::Imm(0)]);
        self.note_units(books, result, count, first);
        self.unit_arrive(&[M::RED, M::A1T0], None, at, RZ);
        self.next_phase(books);
        self.jump(self.block, after);
    }

    /// Goes on with one thread; the others go to `after`.
    fn one_thread(&mut self, after: Block) {
        let elected = self.elect_one();
        let (one, others) = self.fork(elected);
        self.jump(others, after);
        self.block = one;
    }

    /// Enters units in the books, and the address of their first column where the program wants it.
    fn note_units(&mut self, books: &Books, result: Arg, count: Value, first: Value) {
        let units = self.units(count, first);
        for (word, bits) in [(TAKEN, units.all), (FIRSTS, units.first)] {
            let args = [&[RZ], &at(books, word)[..], &[bits.into()]].concat();
            self.effect(Op::ATOMS, &[M::OR], &[], &args);
        }
        let address = self.shifted(&[M::L, M::U32], [first.into(), Arg::Imm(UNIT), RZ]);
        self.effect(Op::STS, &[], &[], &[result, Arg::Imm(0), address.into()]);
    }

    /// Waits for the phase of the pair's barrier to end: looks twice, then sleeps in between.
    fn wait_for_other(&mut self, books: &Books) {
        let phase = self.kernel.code.value(File::R, 1);
        self.effect(Op::LDS, &[], &[phase], &at(books, PHASE));
        let phase = self.shifted(&[M::L, M::U32], [phase.into(), Arg::Imm(31), RZ]).into();
        let barrier = Address { base: books[0], offset: BARRIER };
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

    fn next_phase(&mut self, books: &Books) {
        let one = self.in_register(Arg::Imm(1));
        self.effect(Op::ATOMS, &[M::XOR], &[], &[&[RZ], &at(books, PHASE)[..], &[one]].concat());
    }

    /// Takes so many units from the allocator, waiting until there are some, and returns the first one.
    fn find_units(&mut self, count: Value, how: &[M]) -> Value {
        let (done, sleep) = (self.kernel.code.block(), self.kernel.code.block());
        self.try_units(count, how, done, sleep);
        self.block = sleep;
        self.effect(Op::NANOSLEEP, &[], &[], &[Arg::Imm(PAUSE)]);
        self.try_units(count, how, done, sleep);
        self.block = done;
        let first = self.kernel.code.value(File::R, 1);
        self.kernel.code.blocks[done].params = vec![first];
        first
    }

    /// Goes to `done` with the first unit of so many, or to `sleep` if there are not as many.
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
        let _ = (ins.flag("sync"), ins.flag("aligned"), ins.ty()?);
        let address = self.word(ins.get(0)?, Type::U32)?;
        let address = self.in_register(address);
        let columns = self.word(ins.get(1)?, Type::U32)?;
        let columns = self.in_register(columns);
        self.in_guarded_branch(|l| {
            let after = l.kernel.code.block();
            let count = l.shifted(&[M::R, M::S32, M::HI], [RZ, Arg::Imm(UNIT), columns]);
            // The lanes are above the columns.
            let column = l.masked(address, 0xffff);
            let first = l.shifted(&[M::R, M::U32, M::HI], [RZ, Arg::Imm(UNIT), column.into()]);
            let units = l.units(count, first);
            // What was not handed out can't come back, and it does so as it was handed out.
            for (word, bits) in [(TAKEN, units.all), (FIRSTS, units.first)] {
                let books = l.books_here();
                let known = l.kernel.code.value(File::R, 1);
                l.effect(Op::LDS, &[], &[known], &at(&books, word));
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
            let books = l.books_here();
            for (word, bits) in [(TAKEN, all), (FIRSTS, first)] {
                let common = l.kernel.code.value(File::R, 1);
                // Of all threads: what one of them gives back goes.
                l.warp_wide(Gathered::Here, Op::REDUX, &[], &[common], &[bits.into()])?;
                let args = [&[RZ], &at(&books, word)[..], &[common.into()]].concat();
                l.under(elected.into(), |l| l.effect(Op::ATOMS, &[M::AND], &[], &args));
            }
            l.jump(l.block, after);
            l.reconverge(after);
            Some(())
        })
    }

    pub(crate) fn relinquish_alloc(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.flag("sync"), ins.flag("aligned"));
        self.in_guarded_branch(|l| {
            let after = l.kernel.code.block();
            l.one_thread(after);
            let books = l.books_here();
            l.effect(Op::UVIRTCOUNT, &[M::DEALLOC, M::SMPOOL], &[], &[Arg::Imm(0x80)]);
            let yes = l.in_register(Arg::Imm(1));
            l.effect(Op::STS, &[M::U8], &[], &[&at(&books, GIVEN_UP)[..], &[yes]].concat());
            l.jump(l.block, after);
            l.block = after;
            Some(())
        })
    }

    /// Where the books are.
    fn books(&mut self) -> Books {
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

    /// The same in a uniform register, for this block of the program alone: it holds nothing where the warp has parted.
    fn books_here(&mut self) -> Books {
        let base = self.books()[0];
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

    /// Ends the block: to the first of two new ones where a predicate holds, else to the second.
    fn fork(&mut self, predicate: Value) -> (Block, Block) {
        let (yes, no) = (self.kernel.code.block(), self.kernel.code.block());
        let edges = (Edge::to(yes), Edge::to(no));
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: false, yes: edges.0, no: edges.1 };
        (yes, no)
    }

    /// A branch of one thread: it parts from nobody.
    fn uniform_branch(&mut self, predicate: Value, yes: Edge, no: Edge) {
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: true, yes, no };
    }

    fn jump(&mut self, from: Block, to: Block) {
        self.kernel.code.blocks[from].end = Terminator::Jump(Edge::to(to));
    }

    /// Ends the block with a trap; should the debugger go on, it does so there.
    fn trap(&mut self, after: Block) {
        self.effect(Op::BPT, &[M::TRAP], &[], &[Arg::Imm(1)]);
        self.jump(self.block, after);
    }

    fn reconverge(&mut self, after: Block) {
        self.block = after;
        self.wait_for_warp();
    }
}

/// A place in the books.
fn at(books: &Books, offset: i64) -> Vec<Arg> {
    books.iter().copied().chain([Arg::Imm(offset)]).collect()
}
