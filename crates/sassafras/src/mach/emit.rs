//! Emission: an allocated function to words, with its prologue and epilogue, and what the loader must fill in.

use crate::context::Options;
use crate::context::target::Machine;
use crate::lower::{Kernel, Linked};
use crate::mach::abi::Convention;
use crate::mach::control_codes::{self, Step};
use crate::mach::inst::{Address, MachFunction, MachInst, Origin};
use crate::mach::reuse;
use cubin::RelocType;
use cubin::module::{FrameStep, SymbolicReloc};
use ori::entity::Entity;
use ori::{Block, Function, Half, Terminator};
use sass::model::Model;
use sass::{Control, Guard, Inst, M, operands as machine};

const WORD: usize = sass::WORD_BYTES as usize;
/// Neither a parameter nor a result, and not the caller's: free at the beginning and end of a function.
const SCRATCH: u8 = 0;

/// What is added to the number of a function to get its address.
const UNIFIED_FUNCTIONS: &str = "__UFT_OFFSET";

/// Half of an address of 64 bits.
fn part(half: Half) -> RelocType {
    match half {
        Half::Low => RelocType::ABS32_LO_32,
        Half::High => RelocType::ABS32_HI_32,
    }
}

/// A word of a constant bank in a load, or as the handle of an operation on images. As ptxas has it; but it adds where
/// the parameters begin to the words that it combines a texture and a sampler from, and nvlink has done so, too.
fn slot(op: sass::Op) -> RelocType {
    match op {
        sass::Op::LDC | sass::Op::ULDC => RelocType::CONST_FIELD21_38,
        sass::Op::LDCU => RelocType::CONST_FIELD22_37,
        _ => RelocType::BINDLESSOFF14_40,
    }
}

fn address(place: usize) -> u32 {
    (place * WORD) as u32
}

/// The words of a function.
#[derive(Debug, Default)]
pub struct Words {
    pub bytes: Vec<u8>,
    /// Offsets of `EXIT`.
    pub exits: Vec<u32>,
    /// Offsets of what threads of a warp do together because the source says so, with the register of the mask; and of
    /// what they do together for the compiler.
    pub collectives: Vec<(u32, Option<u8>)>,
    pub warp_wide: Vec<u32>,
    /// The least class of machines that has all the operations, as `.nv.compat` counts them; and whether a product takes
    /// a sparse matrix.
    pub isa_class: u8,
    pub sparse: bool,
    /// Is the block's third coordinate asked for?
    pub reads_ctaid_z: bool,
    pub relocs: Vec<SymbolicReloc>,
    /// Bytes of the frame, saved registers included.
    pub frame: u32,
    /// Bytes that are saved for the caller, and restored, by all the code there is for it.
    pub saves: u32,
    pub restores: u32,
    /// The highest R that is named, plus one.
    pub registers: u32,
    /// Where the stack pointer has moved.
    pub frame_ready: u32,
    /// What becomes of the frame behind that, and where.
    pub frame_steps: Vec<(u32, FrameStep)>,
    /// By block, where its lines are; only for a debugger.
    pub lines: Vec<Vec<u32>>,
    /// For each word, the byte of the PTX text at which the instruction begins that it is for, 0 where there is none.
    pub at: Vec<u32>,
}

impl Words {
    fn push(&mut self, inst: &Inst, at: u32) -> Result<(), String> {
        let word = sass::encode(inst).map_err(|e| format!("{inst}: {e}"))?;
        self.bytes.extend(word.to_le_bytes());
        self.at.push(at);
        Ok(())
    }
}

pub fn words(
    kernel: &Kernel,
    code: &MachFunction,
    target: &'static Machine,
    options: &Options,
) -> Result<Words, String> {
    let function = &kernel.code;
    let mut e = Emitter {
        kernel,
        function,
        code,
        target,
        lines: Vec::new(),
        placed: vec![Vec::new(); function.blocks.len()],
        ready: 0,
        steps: Vec::new(),
        options,
        starts: vec![0; function.blocks.len()],
        saved: saved(kernel, code),
        frame: 0,
    };
    // Variables may want 16 bytes: the stack pointer is always a multiple of that.
    e.frame = (code.frame + 4 * e.saved.len() as u32).next_multiple_of(16);
    e.prologue();
    for (i, &block) in code.order.iter().enumerate() {
        e.starts[block.index()] = e.lines.len();
        e.lines_of(block);
        let end = e.lines.len();
        e.end(block, &code.order[i + 1..]);
        e.lines[end..].iter_mut().for_each(|line| line.at = function.blocks[block].end_at);
    }
    e.finish()
}

/// Something of the caller's that a device function uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saved {
    Register(u8),
    Barrier(u8),
}

/// 1 is for every machine of the generation. Seen with ptxas: 2 has the small floats, 4 what later machines lack.
fn isa_class(line: &MachInst) -> u8 {
    use sass::Op;
    let has = |m: M| line.modifiers.contains(&m);
    match line.op {
        Op::HGMMA | Op::IGMMA | Op::QGMMA | Op::BGMMA | Op::BMMA => 4,
        Op::IMMA if has(M::_8816) => 4,
        Op::DMMA if !has(M::_8x8x4) => 4,
        Op::F2FP if has(M::E4M3) || has(M::E5M2) => 2,
        _ => 1,
    }
}

fn is_sparse(line: &MachInst) -> bool {
    use sass::Op;
    matches!(line.op, Op::HMMA | Op::IMMA | Op::QMMA | Op::OMMA) && line.modifiers.contains(&M::SP)
}

/// Might shared memory be accessed?
fn may_unsettle(op: sass::Op) -> bool {
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

fn saved(kernel: &Kernel, code: &MachFunction) -> Vec<Saved> {
    let Some(own) = Convention::own(&kernel.code) else { return Vec::new() };
    let return_address = [own.return_address(), own.return_address() + 1];
    let registers = code.used.iter().enumerate().filter(|(_, used)| **used).map(|(n, _)| n as u8);
    let registers = registers.filter(|n| own.is_saved(*n) || kernel.calls && return_address.contains(n));
    let barriers = (own.first_saved_barrier()..code.barriers).map(Saved::Barrier);
    registers.map(Saved::Register).chain(barriers).collect()
}

struct Emitter<'a> {
    kernel: &'a Kernel,
    function: &'a Function,
    code: &'a MachFunction,
    target: &'static Machine,
    options: &'a Options,
    lines: Vec<MachInst>,
    /// By block, which of the lines are its own; only for a debugger.
    placed: Vec<Vec<usize>>,
    /// The line before which the stack pointer has moved.
    ready: usize,
    /// What becomes of the frame, each behind a line.
    steps: Vec<(usize, FrameStep)>,
    /// The first line of each block.
    starts: Vec<usize>,
    saved: Vec<Saved>,
    frame: u32,
}

impl Emitter<'_> {
    fn push(&mut self, op: sass::Op, modifiers: &[M], operands: &[sass::Operand]) -> &mut MachInst {
        self.lines.push(MachInst::new(op, modifiers, operands, Origin::Frame));
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    /// A kernel's stack pointer comes from the driver, a device function's from its caller.
    fn prologue(&mut self) {
        let stack = machine::r(Function::STACK_POINTER);
        let names_it = |l: &MachInst| l.operands.contains(&stack);
        let used = self.frame > 0 || self.kernel.calls || self.function.moving_stack;
        let needed = used || self.code.blocks.iter().flatten().any(names_it);
        if needed && self.kernel.entry {
            let from = machine::c_r(0, sass::RZ, i64::from(self.target.stack));
            self.push(sass::Op::LDC, &[], &[stack, from]);
        }
        self.move_stack(-i64::from(self.frame));
        self.ready = self.lines.len();
        for i in 0..self.saved.len() {
            let place = machine::imm(i64::from(self.code.frame) + 4 * i as i64);
            let register = match self.saved[i] {
                Saved::Register(n) => n,
                Saved::Barrier(n) => {
                    self.push(sass::Op::BMOV, &[M::_32, M::CLEAR], &[machine::r(SCRATCH), machine::b(n)]);
                    SCRATCH
                }
            };
            self.push(sass::Op::STL, &[], &[stack, place, machine::r(register)]);
            if let Saved::Register(register) = self.saved[i] {
                let below = self.frame - self.code.frame - 4 * i as u32;
                self.step(FrameStep::Saved { register, below });
            }
        }
        if self.function.moving_stack {
            self.push(sass::Op::MOV, &[], &[machine::r(Function::FRAME_POINTER), stack]);
            self.step(FrameStep::Base { register: Function::FRAME_POINTER, distance: self.frame });
        }
        // A debugger stops at a function where its second line begins: the first is for what is before the body.
        if self.options.debug_code && self.lines.is_empty() {
            self.push(sass::Op::NOP, &[], &[]);
        }
    }

    /// What the last line means to the frame.
    fn step(&mut self, step: FrameStep) {
        self.steps.extend(self.lines.len().checked_sub(1).map(|line| (line, step)));
    }

    fn lines_of(&mut self, block: Block) {
        let code = self.code;
        let mut settled = !self.target.settles_shared_memory();
        for line in &code.blocks[block.index()] {
            if line.op == sass::Op::LDGSTS && !settled {
                self.settle_shared_memory();
                settled = true;
            }
            settled &= !self.target.settles_shared_memory() || !may_unsettle(line.op);
            if self.options.debug_code {
                self.placed[block.index()].push(self.lines.len());
            }
            self.lines.push(line.clone());
            // A function comes back in the middle of the line that called it, as with ptxas, which moves the result here.
            if self.options.debug_code && line.op == sass::Op::CALL {
                self.push(sass::Op::NOP, &[], &[]).at = line.at;
            }
        }
    }

    /// Loads that load nothing. ptxas puts three of them before a copy to shared memory that is the first of its block,
    /// or the first behind another access of shared memory.
    fn settle_shared_memory(&mut self) {
        for _ in 0..3 {
            let load = self.push(sass::Op::LDS, &[], &[machine::rz(), machine::rz()]);
            load.guard = Guard { not: true, ..Guard::ALWAYS };
        }
    }

    fn epilogue(&mut self) {
        let stack = machine::r(Function::STACK_POINTER);
        self.step(FrameStep::WayOut);
        if self.function.moving_stack {
            self.push(sass::Op::MOV, &[], &[stack, machine::r(Function::FRAME_POINTER)]);
            self.step(FrameStep::Base { register: Function::STACK_POINTER, distance: self.frame });
        }
        for i in 0..self.saved.len() {
            let place = machine::imm(i64::from(self.code.frame) + 4 * i as i64);
            match self.saved[i] {
                Saved::Register(n) => {
                    self.push(sass::Op::LDL, &[], &[machine::r(n), stack, place]);
                    self.step(FrameStep::Restored { register: n });
                }
                Saved::Barrier(n) => {
                    self.push(sass::Op::LDL, &[], &[machine::r(SCRATCH), stack, place]);
                    self.push(sass::Op::BMOV, &[M::_32], &[machine::b(n), machine::r(SCRATCH)]);
                }
            }
        }
        self.move_stack(i64::from(self.frame));
        if self.frame > 0 {
            self.step(FrameStep::Base { register: Function::STACK_POINTER, distance: 0 });
        }
        let own = Convention::own(self.function).unwrap_or_default();
        let back = [machine::r(own.return_address()), machine::imm(0)];
        self.push(sass::Op::RET, &[M::ABS, M::NODEC], &back);
        self.step(FrameStep::Back);
    }

    /// The steps of the frame by address. A way out that is the last code needs no way back.
    fn frame_steps(&self, places: &[usize], lines: usize) -> Vec<(u32, FrameStep)> {
        if self.frame == 0 && !self.function.moving_stack {
            return Vec::new();
        }
        let last_way_out = self.steps.iter().rposition(|(_, step)| *step == FrameStep::WayOut);
        let is_last = self.steps.last().is_some_and(|(line, _)| line + 1 == lines);
        let is_needless = |i: usize| is_last && (Some(i) == last_way_out || i + 1 == self.steps.len());
        let steps = self.steps.iter().enumerate().filter(|(i, _)| !is_needless(*i));
        steps.map(|(_, (line, step))| (address(places[*line] + 1), *step)).collect()
    }

    fn move_stack(&mut self, by: i64) {
        if by != 0 {
            let stack = machine::r(Function::STACK_POINTER);
            self.push(sass::Op::IADD3, &[], &[stack, stack, machine::imm(by), machine::rz()]);
        }
    }

    /// A block that does nothing but lead on is skipped.
    fn destination(&self, mut block: Block) -> Block {
        // A loop of such blocks leads nowhere: after so many steps any of them is right.
        for _ in 0..self.function.blocks.len() {
            match &self.function.blocks[block].end {
                Terminator::Jump(edge) if self.code.blocks[block.index()].is_empty() => block = edge.to,
                _ => break,
            }
        }
        block
    }

    /// Is everyone who would come here sent on?
    fn is_skipped(&self, block: Block) -> bool {
        block != Function::ENTRY && self.destination(block) != block
    }

    /// `rest` are the blocks that follow.
    fn end(&mut self, block: Block, rest: &[Block]) {
        // Does control get there by itself, over blocks that are skipped?
        let is_next = |e: &Self, to: Block| rest.iter().find(|b| !e.is_skipped(**b)) == Some(&to);
        match &self.function.blocks[block].end {
            Terminator::Exit => self.exit(),
            Terminator::Return => self.epilogue(),
            Terminator::Jump(edge) => {
                let to = self.destination(edge.to);
                if !self.is_skipped(block) && !is_next(self, to) {
                    self.branch(Guard::ALWAYS, to);
                }
            }
            Terminator::Branch { negated, yes, no, .. } => {
                let predicate = self.code.branches[block.index()];
                let (yes, no) = (self.destination(yes.to), self.destination(no.to));
                if is_next(self, yes) {
                    self.branch(Guard { predicate, not: !negated }, no);
                } else {
                    self.branch(Guard { predicate, not: *negated }, yes);
                    if !is_next(self, no) {
                        self.branch(Guard::ALWAYS, no);
                    }
                }
            }
        }
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
        let line = self.push(sass::Op::BRA, &[], &[machine::relative(0)]);
        line.guard = guard;
        line.target = Some(to);
    }

    /// Times the lines, adds the self-branch and the padding, fills in distances and addresses, and encodes.
    fn finish(mut self) -> Result<Words, String> {
        let inst = |isa, line: &MachInst| {
            let inst = Inst::new(isa, line.op, &line.modifiers, &line.operands).map_err(|e| e.to_string())?;
            Ok::<_, String>(inst.guarded(line.guard))
        };
        let lines = std::mem::take(&mut self.lines);
        let mut steps = Vec::with_capacity(lines.len());
        for line in &lines {
            let target = line.target.filter(|_| line.op == sass::Op::BRA).map(|b| self.starts[b.index()]);
            steps.push(Step { inst: inst(self.target.isa, line)?, target, leads: false });
        }
        for (line, start) in lines.iter().filter_map(|l| Some((l, self.starts[l.target?.index()]))) {
            // Where a convergence barrier ends, threads come from all over the region.
            debug_assert!(line.target.is_some());
            steps[start].leads = true;
        }
        let model = Model::of(self.target.isa);
        let timed = match self.options.level {
            0 => control_codes::serial(&steps, model),
            _ => {
                let mut timed = control_codes::exact(&steps, model);
                reuse::run(&steps, &mut timed, model);
                timed
            }
        };
        // Where each line is once idle instructions stand between them.
        let mut places = Vec::with_capacity(lines.len() + 1);
        let mut next = 0;
        for t in &timed {
            places.push(next + t.idle.len());
            next += t.idle.len() + 1;
        }
        places.push(next);
        let saved = 4 * self.saved.len() as u32;
        let returns = lines.iter().filter(|line| line.op == sass::Op::RET).count() as u32;
        let mut words = Words {
            frame: self.frame,
            saves: saved,
            restores: saved * returns,
            registers: self.code.registers,
            frame_ready: address(places[self.ready]),
            frame_steps: self.frame_steps(&places, lines.len()),
            lines: self
                .placed
                .iter()
                .map(|lines| lines.iter().map(|i| address(places[*i])).collect())
                .collect(),
            ..Words::default()
        };
        let idle = inst(self.target.isa, &MachInst::new(sass::Op::NOP, &[], &[], Origin::Frame))?;
        let mut mask = None;
        for (i, ((mut line, step), timed)) in lines.into_iter().zip(steps).zip(timed).enumerate() {
            for stall in &timed.idle {
                let control = Control { stall: *stall, yields: true, ..Control::default() };
                words.push(&idle.clone().controlled(control), line.at)?;
            }
            let is_other = self.fill_in(&mut line, i, &places, &mut words);
            let at = address(places[i]);
            self.note_warp(&line, at, &mut mask, &mut words);
            words.isa_class = words.isa_class.max(isa_class(&line));
            words.sparse |= is_sparse(&line);
            if line.op == sass::Op::EXIT {
                words.exits.push(at);
            }
            let inst = if is_other { inst(self.target.isa, &line)? } else { step.inst };
            words.push(&inst.controlled(timed.control), line.at)?;
        }
        let stay = MachInst::new(sass::Op::BRA, &[], &[machine::relative(-(WORD as i64))], Origin::Frame);
        words.push(&inst(self.target.isa, &stay)?.controlled(control_codes::padding()), 0)?;
        let size = words.bytes.len().next_multiple_of(128) + self.target.slack;
        while words.bytes.len() < size {
            words.push(&idle.clone().controlled(control_codes::padding()), 0)?;
        }
        Ok(words)
    }

    /// Notes what a line does with the whole warp. `mask` is the register that the last wait for other threads had, and
    /// the place in the source that it was for.
    fn note_warp(&self, line: &MachInst, at: u32, mask: &mut Option<(u32, u8)>, words: &mut Words) {
        use sass::Op;
        let reads = |name: M| line.operands.iter().any(|o| *o == machine::name(name));
        match line.op {
            Op::WARPSYNC => {
                let register = line.operands.iter().find(|o| o.kind == sass::Kind::R);
                *mask = register.map(|o| (line.at, o.value as u8));
            }
            Op::S2R | Op::S2UR | Op::CS2R => words.reads_ctaid_z |= reads(M::SR_CTAID_Z),
            Op::SHFL | Op::VOTE | Op::VOTEU | Op::MATCH | Op::REDUX | Op::CREDUX => {
                if self.kernel.collectives.binary_search(&line.at).is_ok() {
                    let register = mask.filter(|(of, _)| *of == line.at).map(|(_, register)| register);
                    words.collectives.push((at, register));
                } else if self.kernel.observers.binary_search(&line.at).is_err() {
                    words.warp_wide.push(at);
                }
            }
            _ => {}
        }
    }

    /// How half of a symbol's address gets into the immediate of an instruction. Shared and constant memory have
    /// addresses of one word.
    fn part(&self, symbol: u32, half: Half) -> RelocType {
        match (self.kernel.linked.get(&symbol), half) {
            (None, half) => part(half),
            (Some(Linked::Shared | Linked::LoaderSize), _) => RelocType::ABS32_32,
            (Some(Linked::Constant), _) => RelocType::ABS16_32,
            (Some(Linked::UnifiedFunction), Half::Low) => RelocType::UNIFIED32_LO_32,
            (Some(Linked::UnifiedFunction), Half::High) => RelocType::UNIFIED32_HI_32,
        }
    }

    /// The distance of a branch; an address, which stays zero where the loader fills it in. Is the line another one then?
    fn fill_in(&self, line: &mut MachInst, index: usize, places: &[usize], words: &mut Words) -> bool {
        let here = places[index];
        let is_branch = line.target.is_some();
        if let Some(to) = line.target {
            let distance = (places[self.starts[to.index()]] as i64 - here as i64 - 1) * WORD as i64;
            for operand in line.operands.iter_mut().filter(|o| o.kind == sass::Kind::Relative) {
                *operand = machine::relative(distance);
            }
        }
        let name = |symbol: u32| self.function.symbols[symbol as usize].clone();
        let (kind, symbol, addend) = match line.address {
            // A pointer to a function is the function's number for all devices.
            None if line.op == sass::Op::CALL
                && self.options.relocatable
                && self.target.unified_functions() =>
            {
                (RelocType::ABS56_16_34, UNIFIED_FUNCTIONS.to_string(), 0)
            }
            None => return is_branch,
            Some(Address::Half { symbol, addend, half }) => (self.part(symbol, half), name(symbol), addend),
            Some(Address::Ahead { lines, half }) => {
                (part(half), self.function.name.clone(), (places[index + lines] * WORD) as i64)
            }
            Some(Address::Slot { symbol }) => (slot(line.op), name(symbol), 0),
            Some(Address::Call { symbol }) => (self.target.call_reloc, name(symbol), 0),
            Some(Address::Incoming) => {
                for operand in line.operands.iter_mut().filter(|o| o.kind == sass::Kind::Signed) {
                    *operand = machine::imm(operand.value + i64::from(self.frame));
                }
                return true;
            }
        };
        words.relocs.push(SymbolicReloc { offset: (here * WORD) as u64, kind, symbol, addend });
        is_branch
    }
}
