//! Emission: an allocated function to words, and words with their attributes to a cubin.

use crate::bank0::Machine;
use crate::lower::Kernel;
use crate::mir::{Code, Line, Origin};
use crate::regalloc::{self, Limits};
use crate::{Failure, Options, schedule};
use cubin::attr::PointerSpace;
use cubin::module::{Function as CubinFunction, Kernel as CubinKernel, Module, Param, Params, Shared, Tool};
use ori::entity::Entity;
use ori::{Block, Function, Terminator};
use sass::{Guard, Inst, M, operands as machine};

const WORD: usize = sass::WORD_BYTES as usize;

const STACK_POINTER: u8 = 1;

pub fn function(
    kernel: &mut Kernel,
    target: &'static Machine,
    options: &Options,
) -> Result<CubinFunction, Failure> {
    let name = kernel.code.name.clone();
    let code =
        regalloc::run(&mut kernel.code, Limits::MOST).map_err(|e| Failure::internal("regalloc", &name, e))?;
    if options.verify {
        regalloc::check(&kernel.code, &code).map_err(|e| Failure::internal("regalloc", &name, e))?;
    }
    let words = Emitter::run(&kernel.code, &code, target).map_err(|e| Failure::internal("emit", &name, e))?;
    let params = Params {
        base: target.params as u16,
        size: kernel.param_bytes as u16,
        list: kernel
            .params
            .iter()
            .map(|p| Param {
                offset: p.offset as u16,
                size: p.size as u16,
                space: PointerSpace::NONE,
                align: 1,
            })
            .collect(),
        handle_bytes: 0,
    };
    Ok(CubinFunction {
        // Two registers more than are named belong to the system.
        registers: (code.registers + 2).clamp(4, 255) as u8,
        exits: words.exits,
        frame_size: code.frame,
        kernel: Some(CubinKernel {
            params,
            min_stack_size: code.frame,
            barriers: kernel.barriers,
            shared: (kernel.shared_bytes > 0)
                .then_some(Shared { size: kernel.shared_bytes, align: kernel.shared_align }),
            max_threads: kernel.max_threads,
            ..CubinKernel::default()
        }),
        ..CubinFunction::new(&name, kernel.binding, words.bytes)
    })
}

pub fn module(
    functions: Vec<CubinFunction>,
    module: &ptx::Module,
    options: &Options,
) -> Result<Vec<u8>, String> {
    let target = cubin::Target {
        sm: options.target.sm(),
        accelerated: options.target.suffix() == ptx::target::Suffix::Arch,
    };
    let tool =
        Tool { name: "sassafras".into(), command_line: options.command_line.clone(), ..Tool::default() };
    let module = Module { tool, functions, ..Module::new(target, module.target.sm()) };
    let object = module.to_object().map_err(|e| e.to_string())?;
    object.write().map_err(|e| e.to_string())
}

struct Words {
    bytes: Vec<u8>,
    exits: Vec<u32>,
}

struct Emitter<'a> {
    function: &'a Function,
    code: &'a Code,
    target: &'static Machine,
    lines: Vec<Line>,
    /// The first line of each block.
    starts: Vec<usize>,
}

impl Emitter<'_> {
    fn run(function: &Function, code: &Code, target: &'static Machine) -> Result<Words, String> {
        let starts = vec![0; function.blocks.len()];
        let mut e = Emitter { function, code, target, lines: Vec::new(), starts };
        e.prologue();
        for (i, &block) in code.order.iter().enumerate() {
            e.starts[block.index()] = e.lines.len();
            e.lines.extend(code.blocks[block.index()].iter().cloned());
            e.end(block, &code.order[i + 1..]);
        }
        e.finish()
    }

    fn push(&mut self, op: sass::Op, modifiers: &[M], operands: &[sass::Operand]) -> &mut Line {
        self.lines.push(Line::new(op, modifiers, operands, Origin::Frame));
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    /// The stack pointer comes from the driver; the frame lies above it.
    fn prologue(&mut self) {
        let stack = machine::r(STACK_POINTER);
        let names_it = |l: &Line| l.operands.iter().any(|o| *o == stack);
        if self.code.frame == 0 && !self.code.blocks.iter().flatten().any(names_it) {
            return;
        }
        let from = machine::c_r(0, sass::RZ, i64::from(self.target.stack));
        self.push(sass::Op::LDC, &[], &[stack, from]);
        if self.code.frame > 0 {
            let size = machine::imm(-i64::from(self.code.frame));
            self.push(sass::Op::IADD3, &[], &[stack, stack, size, machine::rz()]);
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

    /// `rest` are the blocks that follow.
    fn end(&mut self, block: Block, rest: &[Block]) {
        // Does control get there by itself, over blocks that are skipped?
        let is_next = |e: &Self, to: Block| {
            let first = rest.iter().find(|b| **b == to || !e.is_skipped(**b) || e.destination(**b) != to);
            first == Some(&to)
        };
        match &self.function.blocks[block].end {
            Terminator::Exit | Terminator::Return => {
                self.push(sass::Op::EXIT, &[], &[]);
            }
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

    /// Is everyone who would come here sent on?
    fn is_skipped(&self, block: Block) -> bool {
        block != Function::ENTRY && self.destination(block) != block
    }

    fn branch(&mut self, guard: Guard, to: Block) {
        let line = self.push(sass::Op::BRA, &[], &[machine::relative(0)]);
        line.guard = guard;
        line.target = Some(to);
    }

    /// Fills in branch distances, adds the self-branch and the padding, and encodes.
    fn finish(mut self) -> Result<Words, String> {
        let last = self.lines.len();
        self.push(sass::Op::BRA, &[], &[machine::relative(-(WORD as i64))]);
        let end = self.lines.len() * WORD;
        let size = end.next_multiple_of(128) + self.target.slack;
        while self.lines.len() * WORD < size {
            self.push(sass::Op::NOP, &[], &[]);
        }
        let mut words = Words { bytes: Vec::with_capacity(size), exits: Vec::new() };
        for (i, line) in self.lines.iter_mut().enumerate() {
            if let Some(to) = line.target {
                let distance = (self.starts[to.index()] as i64 - i as i64 - 1) * WORD as i64;
                for operand in line.operands.iter_mut().filter(|o| o.kind == sass::Kind::Relative) {
                    *operand = machine::relative(distance);
                }
            }
            let inst = Inst::new(self.target.isa, line.op, &line.modifiers, &line.operands);
            let inst = inst.map_err(|e| e.to_string())?.guarded(line.guard);
            let inst = if i < last { schedule::safe(inst) } else { schedule::padding(inst) };
            if line.op == sass::Op::EXIT {
                words.exits.push((i * WORD) as u32);
            }
            let word = sass::encode(&inst).map_err(|e| e.to_string())?;
            words.bytes.extend(word.to_le_bytes());
        }
        Ok(words)
    }
}
