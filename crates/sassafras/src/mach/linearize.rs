//! Linearization: the blocks in layout order become one list of instructions, with the prologue and the epilogues
//! (prologue/epilogue insertion), and branches for terminators.
//!
//! ```text
//! b0: ...; branch P0, b1, b2      LDC R1, c[0x0][0x28]; ...; @!P0 BRA b2
//! b1: ...; return            =>   ...; LDL R16, [R1]; ...; RET.ABS.NODEC R20
//! b2: exit                        EXIT
//! ```
//!
//! Afterwards every instruction is a form of the machine; a block that only jumps is skipped by those that lead to it,
//! one that only exits is a guarded `EXIT` in each of them, but for those that a table of branch targets names, and no branch goes to the instruction after it. Branch distances, addresses and control codes are still missing.
//! Linear in the size of the code, but for branches over runs of empty blocks.

use crate::context::target::TargetMachine;
use crate::context::{Context, DebugInfo, Options, PassResult};
use crate::lower::{Kernel, library};
use crate::mach::early_return::{self, EarlyReturn};
use crate::mach::inst::{Address, MachFunction, MachInst, Origin, Step};
use crate::mach::unit::{JumpTable, LinearCode, Unit};
use crate::module::abi::Convention;
use cubin::module::FrameStep;
use ori::entity::Entity;
use ori::{Arg, Block, Function, Op, Pseudo, Switch, Terminator};
use sass::{Guard, Inst, M, SelectError, operands as machine};
use smallvec::SmallVec;

/// Neither parameters nor results, and caller-saved: free in prologue and epilogue.
const SCRATCH: [u8; 2] = [0, 3];

/// The encoder's form of an instruction; distances and addresses are as they are in the operands.
pub fn selected(inst: &MachInst, isa: sass::Isa) -> Result<Inst, SelectError> {
    let selected = Inst::new(isa, inst.op, &inst.modifiers, &inst.operands)?;
    Ok(selected.guarded(inst.guard))
}

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let machine = context.machine;
    // The instructions move to the list: large functions are not there twice. Only a debugger wants to know afterwards
    // where values were in the blocks.
    let insts = match unit.options.debug_info {
        DebugInfo::Full => unit.code.blocks.clone(),
        _ => std::mem::take(&mut unit.code.blocks),
    };
    let Unit { kernel, code, options, .. } = &*unit;
    let blocks = kernel.code.blocks.len();
    let saved = callee_saved(kernel, code, options);
    let saved_bytes = saved.bytes();
    let linear = LinearCode {
        // Terminators, prologue and epilogues are beside them.
        insts: Vec::with_capacity(insts.iter().map(|insts| insts.len() + 1).sum::<usize>() + 16),
        starts: vec![0; blocks],
        of_block: vec![Vec::new(); blocks],
        saved_bytes,
        // Variables may want 16 bytes: the stack pointer is always a multiple of that.
        frame: (code.frame + saved_bytes).next_multiple_of(16),
        ..LinearCode::default()
    };
    let mut linearizer = Linearizer {
        kernel,
        function: &kernel.code,
        code,
        in_tables: Vec::new(),
        is_empty: insts.iter().map(Vec::is_empty).collect(),
        target: machine,
        options,
        saved,
        linear,
    };
    linearizer.in_tables = linearizer.table_targets();
    let mut insts = insts;
    linearizer.prologue(&mut insts);
    let mut insts: Vec<Option<Vec<MachInst>>> = insts.into_iter().map(Some).collect();
    for (i, &block) in code.order.iter().enumerate() {
        linearizer.linear.starts[block.index()] = linearizer.linear.insts.len();
        linearizer.block(block, insts[block.index()].take().unwrap_or_default());
        let end = linearizer.linear.insts.len();
        linearizer.terminator(block, &code.order[i + 1..]);
        let at = kernel.code.blocks[block].end_at;
        linearizer.linear.insts[end..].iter_mut().for_each(|inst| inst.at = at);
    }
    let mut linear = linearizer.linear;
    append_routines(unit, &mut linear, machine)?;
    unit.linear = linear;
    unit.linear.steps = steps(&unit.linear, machine)?;
    Ok(())
}

fn steps(linear: &LinearCode, machine: &TargetMachine) -> Result<Vec<Step>, SelectError> {
    let mut steps = Vec::with_capacity(linear.insts.len());
    for inst in &linear.insts {
        let targets = linear.target(inst).filter(|_| inst.op == sass::Op::BRA).into_iter().collect();
        steps.push(Step { inst: selected(inst, machine.isa)?, targets, is_leader: false });
    }
    for JumpTable { branch, targets, .. } in &linear.tables {
        let mut targets: SmallVec<[usize; 1]> = targets.iter().map(|b| linear.starts[b.index()]).collect();
        targets.sort_unstable();
        targets.dedup();
        targets.iter().for_each(|target| steps[*target].is_leader = true);
        steps[*branch as usize].targets = targets;
    }
    // The target of a convergence barrier is one, too: threads come there from all over the region.
    for target in linear.insts.iter().filter_map(|inst| linear.target(inst)) {
        steps[target].is_leader = true;
    }
    Ok(steps)
}

/// Appends the library routines that are called, each with its registers where its calls expect them.
fn append_routines(unit: &Unit, linear: &mut LinearCode, machine: &'static TargetMachine) -> PassResult {
    for (index, name) in unit.kernel.code.routines.iter().enumerate() {
        let Some(window) = called_with(&unit.kernel.code, index) else { continue };
        let routine = (unit.compile_routine)(name, machine, unit.options)?;
        let (start, blocks) = (linear.insts.len(), linear.starts.len());
        linear.starts.extend(routine.starts.iter().map(|at| start + at));
        linear.of_block.extend(routine.starts.iter().map(|_| Vec::new()));
        let calls = |inst: &MachInst| inst.address == Some(Address::Routine { index: index as u32 });
        for call in linear.insts.iter_mut().filter(|inst| calls(inst)) {
            call.target = Some(Block::new(blocks + Function::ENTRY.index()));
        }
        for mut inst in routine.insts {
            inst.target = inst.target.map(|block| Block::new(blocks + block.index()));
            let registers = inst.operands.iter_mut().filter(|o| o.kind == sass::Kind::R);
            for register in registers.filter(|o| o.value != i64::from(sass::RZ)) {
                register.value += i64::from(window) - i64::from(library::WINDOW);
            }
            linear.insts.push(inst);
        }
    }
    Ok(())
}

/// The first register of the window that the calls of a routine give it; `None` if it isn't called.
fn called_with(function: &Function, index: usize) -> Option<u8> {
    let calls = |inst: &ori::Inst| {
        let data = &function.insts[*inst];
        data.op == Op::Pseudo(Pseudo::CallRoutine) && data.args.first() == Some(&Arg::Imm(index as i64))
    };
    // All calls have the same window: which one is found first makes no difference.
    let (_, fixed) = function.fixed.iter().find(|(inst, _)| calls(inst))?;
    fixed.window.map(|(first, _)| first)
}

/// What a device function must restore for its caller. Each tuple of registers has an aligned place of its size, for it
/// comes before smaller ones; then come the barriers.
#[derive(Default)]
struct Saved {
    /// The first register, and how many there are.
    tuples: Vec<(u8, u8)>,
    barriers: Vec<u8>,
}

impl Saved {
    fn bytes(&self) -> u32 {
        let words: u32 = self.tuples.iter().map(|(_, words)| u32::from(*words)).sum();
        4 * (words + self.barriers.len() as u32)
    }

    /// The tuples with their offsets.
    fn tuples(&self) -> impl Iterator<Item = (u8, u8, u32)> + '_ {
        self.tuples.iter().scan(0, |next, (first, words)| {
            let offset = *next;
            *next += 4 * u32::from(*words);
            Some((*first, *words, offset))
        })
    }

    fn offset_of_barrier(&self, index: usize) -> u32 {
        self.bytes() - 4 * (self.barriers.len() - index) as u32
    }
}

fn callee_saved(kernel: &Kernel, code: &MachFunction, options: &Options) -> Saved {
    let Some(own) = Convention::own(&kernel.code) else { return Saved::default() };
    let own = if saves_registers(code, own, options) { own.preserving_usual() } else { own };
    let return_address = [own.return_address(), own.return_address() + 1];
    let registers = code.used.iter().enumerate().filter(|(_, used)| **used).map(|(n, _)| n as u8);
    let registers = registers.filter(|n| own.is_saved(*n) || kernel.calls && return_address.contains(n));
    let barriers = (own.first_saved_barrier()..code.barriers).collect();
    // A debugger finds each register where ptxas stores it. The stack pointer of ptxas's code is a multiple of 8.
    let widest = match options.debug_code {
        true => 1,
        false if options.is_called() => 2,
        false => 4,
    };
    Saved { tuples: tuples(&registers.collect::<Vec<u8>>(), widest), barriers }
}

/// Registers as aligned tuples of four, two and one, the wide ones first.
fn tuples(registers: &[u8], widest: u8) -> Vec<(u8, u8)> {
    let (mut all, mut rest) = (Vec::new(), registers);
    while let [first, ..] = rest {
        let is_tuple = |words: &u8| {
            let last = rest.get(usize::from(*words) - 1);
            first % words == 0 && last == Some(&(first + words - 1))
        };
        let words = [4, 2, 1].into_iter().find(|words| *words <= widest && is_tuple(words)).unwrap_or(1);
        all.push((*first, words));
        rest = &rest[usize::from(words)..];
    }
    all.sort_by_key(|(_, words)| std::cmp::Reverse(*words));
    all
}

/// Does a function save registers for its callers? One that need not does if it writes many, for occupancy.
pub fn saves_registers(code: &MachFunction, own: Convention, options: &Options) -> bool {
    !own.preserves_none() || code.registers > options.tuning.preserve_none_registers
}

/// Might shared memory be accessed?
fn may_access_shared(op: sass::Op) -> bool {
    use sass::{Class, Op};
    let far = matches!(op, Op::LDGSTS | Op::LDGDEPBAR | Op::LDG | Op::STG | Op::LDC);
    let reaches_memory = |class| {
        matches!(
            class,
            Class::Load | Class::Store | Class::UniformLoad | Class::UniformStore | Class::Control
        )
    };
    !far && sass::Form::of(op).iter().any(|f| reaches_memory(f.class))
}

/// The modifier of an access to so many words.
fn size(words: u8) -> &'static [M] {
    match words {
        4 => &[M::_128],
        2 => &[M::_64],
        _ => &[],
    }
}

struct Linearizer<'a> {
    kernel: &'a Kernel,
    function: &'a Function,
    /// Without its instructions; `is_empty` says by block whether it has any.
    code: &'a MachFunction,
    is_empty: Vec<bool>,
    /// By block: does a table of branch targets name it?
    in_tables: Vec<bool>,
    target: &'static TargetMachine,
    options: &'a Options,
    saved: Saved,
    linear: LinearCode,
}

impl Linearizer<'_> {
    fn push(&mut self, op: sass::Op, modifiers: &[M], operands: &[sass::Operand]) -> &mut MachInst {
        let insts = &mut self.linear.insts;
        insts.push(MachInst::new(op, modifiers, operands, Origin::Frame));
        let last = insts.len() - 1;
        &mut insts[last]
    }

    /// A kernel's stack pointer comes from the driver, a device function's from its caller.
    fn prologue(&mut self, insts: &mut [Vec<MachInst>]) {
        let stack = machine::r(Function::STACK_POINTER);
        let names_it = |l: &MachInst| l.operands.contains(&stack);
        let used = self.linear.frame > 0 || self.kernel.calls || self.function.moving_stack;
        let needed = used || insts.iter().flatten().any(names_it);
        if needed && self.kernel.entry {
            let from = machine::c_r(0, sass::RZ, i64::from(self.target.stack));
            self.push(sass::Op::LDC, &[], &[stack, from]);
        }
        self.load_uniform_constants();
        let mut scratch = SCRATCH.to_vec();
        if self.saved.bytes() > 0 && !self.options.debug_code && self.options.level > 0 {
            let early = early_return::find(self.function, self.code, insts, self.target);
            if let Some(early) = early {
                let unwritten: Vec<u8> = SCRATCH.into_iter().filter(|r| !early.writes(*r)).collect();
                if self.saved.barriers.is_empty() || !unwritten.is_empty() {
                    scratch = unwritten;
                    self.return_early(early, &mut insts[Function::ENTRY.index()]);
                }
            }
        }
        self.move_stack(-i64::from(self.linear.frame));
        self.linear.frame_ready = self.linear.insts.len();
        let saved = std::mem::take(&mut self.saved);
        for (first, words, offset) in saved.tuples() {
            self.push(sass::Op::STL, size(words), &[stack, self.slot(offset), machine::r(first)]);
            for word in 0..words {
                let below = self.linear.frame - self.code.frame - offset - 4 * u32::from(word);
                self.frame_step(FrameStep::Saved { register: first + word, below });
            }
        }
        for (i, (barrier, scratch)) in saved.barriers.iter().zip(scratch.iter().cycle()).enumerate() {
            let (scratch, slot) = (machine::r(*scratch), self.slot(saved.offset_of_barrier(i)));
            self.push(sass::Op::BMOV, &[M::_32, M::CLEAR], &[scratch, machine::b(*barrier)]);
            self.push(sass::Op::STL, &[], &[stack, slot, scratch]);
        }
        self.saved = saved;
        if self.function.moving_stack {
            self.push(sass::Op::MOV, &[], &[machine::r(Function::FRAME_POINTER), stack]);
            let distance = self.linear.frame;
            self.frame_step(FrameStep::Base { register: Function::FRAME_POINTER, distance });
        }
        // A debugger stops at a function where its second line begins: the first is for what is before the body.
        if self.options.debug_code && self.linear.insts.is_empty() {
            self.push(sass::Op::NOP, &[], &[]);
        }
    }

    /// Returns if all threads take the way out.
    fn return_early(&mut self, early: EarlyReturn, first: &mut Vec<MachInst>) {
        self.linear.insts.extend(first.drain(..early.before));
        let condition = machine::p(early.condition.predicate);
        let condition = if early.condition.not { condition.not() } else { condition };
        self.push(sass::Op::VOTE, &[M::ALL], &[machine::p(early.vote), condition]);
        let with_frame = Block::new(self.linear.starts.len());
        let branch = self.push(sass::Op::BRA, &[], &[machine::relative(0)]);
        (branch.guard, branch.target) = (Guard::not(early.vote), Some(with_frame));
        self.linear.insts.extend(early.way_out);
        let own = Convention::own(self.function).unwrap_or_default();
        let address = machine::r(own.return_address());
        self.push(sass::Op::RET, &[M::ABS, M::NODEC], &[address, machine::imm(0)]);
        self.linear.starts.push(self.linear.insts.len());
        self.linear.of_block.push(Vec::new());
    }

    /// Loads [`Function::uniform_constants`], two neighbours at once where they are aligned.
    fn load_uniform_constants(&mut self) {
        let words = &self.function.uniform_constants;
        let mut rest = &words[..];
        while let [(offset, register), after @ ..] = rest {
            let is_pair =
                offset % 8 == 0 && register % 2 == 0 && after.first() == Some(&(offset + 4, register + 1));
            let (size, count): (&[M], usize) = if is_pair { (&[M::_64], 2) } else { (&[], 1) };
            let operands = [machine::ur(*register), machine::c(0, i64::from(*offset))];
            self.push(self.target.uniform_constant_load(), size, &operands);
            rest = &rest[count..];
        }
    }

    /// What the last instruction means to the frame.
    fn frame_step(&mut self, step: FrameStep) {
        let last = self.linear.insts.len().checked_sub(1);
        self.linear.frame_steps.extend(last.map(|inst| (inst, step)));
    }

    fn block(&mut self, block: Block, insts: Vec<MachInst>) {
        let mut settled = !self.target.settles_shared_memory;
        for inst in insts {
            if inst.op == sass::Op::LDGSTS && !settled {
                self.settle_shared_memory();
                settled = true;
            }
            settled &= !self.target.settles_shared_memory || !may_access_shared(inst.op);
            if self.options.debug_code {
                self.linear.of_block[block.index()].push(self.linear.insts.len());
            }
            let (op, at) = (inst.op, inst.at);
            self.linear.insts.push(inst);
            // A function returns into the middle of the line that called it, as with ptxas, which moves the result here.
            if self.options.debug_code && op == sass::Op::CALL {
                self.push(sass::Op::NOP, &[], &[]).at = at;
            }
        }
    }

    /// Loads that load nothing. ptxas puts three of them before a copy to shared memory that is the first of its block,
    /// or the first after another access of shared memory.
    fn settle_shared_memory(&mut self) {
        for _ in 0..3 {
            let load = self.push(sass::Op::LDS, &[], &[machine::rz(), machine::rz()]);
            load.guard = Guard { not: true, ..Guard::ALWAYS };
        }
    }

    fn epilogue(&mut self) {
        let stack = machine::r(Function::STACK_POINTER);
        self.frame_step(FrameStep::WayOut);
        if self.function.moving_stack {
            self.push(sass::Op::MOV, &[], &[stack, machine::r(Function::FRAME_POINTER)]);
            let distance = self.linear.frame;
            self.frame_step(FrameStep::Base { register: Function::STACK_POINTER, distance });
        }
        let saved = std::mem::take(&mut self.saved);
        let barriers: Vec<(usize, u8)> = saved.barriers.iter().copied().enumerate().collect();
        let mut rounds = barriers.chunks(SCRATCH.len());
        // Other loads hide the latency of the first barriers'.
        let first = rounds.next().unwrap_or_default();
        self.load_barriers(&saved, first);
        for (register, words, offset) in saved.tuples() {
            self.push(sass::Op::LDL, size(words), &[machine::r(register), stack, self.slot(offset)]);
            for word in 0..words {
                self.frame_step(FrameStep::Restored { register: register + word });
            }
        }
        self.restore_barriers(first);
        for round in rounds {
            self.load_barriers(&saved, round);
            self.restore_barriers(round);
        }
        self.saved = saved;
        self.move_stack(i64::from(self.linear.frame));
        if self.linear.frame > 0 {
            self.frame_step(FrameStep::Base { register: Function::STACK_POINTER, distance: 0 });
        }
        let own = Convention::own(self.function).unwrap_or_default();
        let address = machine::r(own.return_address());
        if own.is_routine() {
            // The offset from the start of the function has one word.
            self.push(sass::Op::MOV, &[], &[machine::r(own.return_address() + 1), machine::rz()]);
            let back = self.push(sass::Op::RET, &[M::REL, M::NODEC], &[address, machine::relative(0)]);
            back.address = Some(Address::Start);
            return;
        }
        self.push(sass::Op::RET, &[M::ABS, M::NODEC], &[address, machine::imm(0)]);
        self.frame_step(FrameStep::Back);
    }

    fn load_barriers(&mut self, saved: &Saved, barriers: &[(usize, u8)]) {
        for ((i, _), scratch) in barriers.iter().zip(SCRATCH) {
            let slot = self.slot(saved.offset_of_barrier(*i));
            let stack = machine::r(Function::STACK_POINTER);
            self.push(sass::Op::LDL, &[], &[machine::r(scratch), stack, slot]);
        }
    }

    fn restore_barriers(&mut self, barriers: &[(usize, u8)]) {
        for ((_, barrier), scratch) in barriers.iter().zip(SCRATCH) {
            self.push(sass::Op::BMOV, &[M::_32], &[machine::b(*barrier), machine::r(scratch)]);
        }
    }

    /// A place among the saved registers.
    fn slot(&self, offset: u32) -> sass::Operand {
        machine::imm(i64::from(self.code.frame) + i64::from(offset))
    }

    fn move_stack(&mut self, by: i64) {
        if by != 0 {
            let stack = machine::r(Function::STACK_POINTER);
            // The stack pointer wraps around.
            let by = machine::imm(i64::from(by as i32));
            self.push(sass::Op::IADD3, &[], &[stack, stack, by, machine::rz()]);
        }
    }

    /// Where control goes from the beginning of a block: on past blocks that only jump.
    fn destination(&self, mut block: Block) -> Block {
        // A cycle of such blocks leads nowhere: after so many steps any of them is right.
        for _ in 0..self.function.blocks.len() {
            match &self.function.blocks[block].end {
                Terminator::Jump(edge) if self.is_empty[block.index()] => block = edge.to,
                _ => break,
            }
        }
        block
    }

    /// The blocks that tables of branch targets name.
    fn table_targets(&self) -> Vec<bool> {
        let mut named = vec![false; self.function.blocks.len()];
        for &block in &self.code.order {
            if let Terminator::Switch(switch) = &self.function.blocks[block].end {
                switch.edges.iter().for_each(|edge| named[self.destination(edge.to).index()] = true);
            }
        }
        named
    }

    /// Does every edge to the block lead past it?
    fn is_skipped(&self, block: Block) -> bool {
        block != Function::ENTRY && (self.destination(block) != block || self.is_exit(block))
    }

    /// Is the block a single `EXIT`? Then those that lead to it have one in place of the branch.
    fn is_exit(&self, block: Block) -> bool {
        block != Function::ENTRY
            && !self.in_tables[block.index()]
            && matches!(self.function.blocks[block].end, Terminator::Exit)
            && self.is_empty[block.index()]
            && !self.options.debug_code
            && !self.options.errors_at_exit
            && self.options.level > 0
    }

    /// `rest` are the blocks that follow in the layout.
    fn terminator(&mut self, block: Block, rest: &[Block]) {
        let falls_through = |l: &Self, to: Block| rest.iter().find(|b| !l.is_skipped(**b)) == Some(&to);
        match &self.function.blocks[block].end {
            Terminator::Exit if self.is_skipped(block) => {}
            Terminator::Exit => self.exit(),
            Terminator::Return => self.epilogue(),
            Terminator::Jump(edge) => {
                let to = self.destination(edge.to);
                if !self.is_skipped(block) && !falls_through(self, to) {
                    self.branch(Guard::ALWAYS, to);
                }
            }
            Terminator::Switch(switch) => self.indirect_branch(block, switch),
            Terminator::Branch { negated, yes, no, .. } => {
                let predicate = self.code.branches[block.index()];
                let (yes, no) = (self.destination(yes.to), self.destination(no.to));
                if falls_through(self, yes) {
                    self.branch(Guard { predicate, not: !negated }, no);
                } else {
                    // Where neither follows, an iteration takes one branch, and the way out two.
                    let is_back = |to: Block| !rest.contains(&to);
                    let goes_on = !falls_through(self, no) && is_back(no) && !is_back(yes);
                    let (first, not, second) =
                        if goes_on { (no, !negated, yes) } else { (yes, *negated, no) };
                    self.branch(Guard { predicate, not }, first);
                    if !falls_through(self, second) {
                        self.branch(Guard::ALWAYS, second);
                    }
                }
            }
        }
    }

    /// The entries of the table are offsets from the start of the function.
    fn indirect_branch(&mut self, block: Block, switch: &Switch) {
        let address = machine::r(self.code.branches[block.index()]);
        let branch = self.push(sass::Op::BRX, &[], &[address, machine::imm(0)]);
        branch.address = Some(Address::Start);
        let edges = switch.table.iter().filter_map(|entry| switch.edges.get(*entry as usize));
        let targets = edges.map(|edge| self.destination(edge.to)).collect();
        let branch = self.linear.insts.len() as u32 - 1;
        let place = switch.place.unwrap_or_default();
        self.linear.tables.push(JumpTable { branch, place, targets });
    }

    /// Before a thread ends, its faults may have to show: ptxas waits for them, and for a debugger for its stores too.
    fn exit(&mut self) {
        let Options { debug_code, errors_at_exit, .. } = *self.options;
        if debug_code {
            self.push(sass::Op::MEMBAR, &[M::SC, M::VC], &[]);
        }
        if debug_code || errors_at_exit {
            self.push(sass::Op::ERRBAR, &[], &[]);
            if sass::legal(self.target.isa, sass::Op::CGAERRBAR, &[], &[]) {
                self.push(sass::Op::CGAERRBAR, &[], &[]);
            }
        }
        self.push(sass::Op::EXIT, &[], &[]);
    }

    fn branch(&mut self, guard: Guard, to: Block) {
        if self.is_exit(to) {
            self.push(sass::Op::EXIT, &[], &[]).guard = guard;
            return;
        }
        let branch = self.push(sass::Op::BRA, &[], &[machine::relative(0)]);
        branch.guard = guard;
        branch.target = Some(to);
    }
}
