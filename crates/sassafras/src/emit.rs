//! Emission: an allocated function to words, and words with their attributes to a cubin.

use crate::bank0::Machine;
use crate::lower::Kernel;
use crate::regalloc::{self, Allocation};
use crate::{Failure, Options, legalize, moves, schedule};
use cubin::attr::PointerSpace;
use cubin::module::{Function as CubinFunction, Kernel as CubinKernel, Module, Param, Params, Shared, Tool};
use ori::entity::Entity;
use ori::{Arg, Block, File, Function, InstData, Op, Pseudo, Terminator};
use sass::{Guard, Inst, M, operands as machine};

const WORD: usize = sass::WORD_BYTES as usize;

pub fn function(kernel: &Kernel, target: &'static Machine) -> Result<CubinFunction, Failure> {
    let name = &kernel.code.name;
    let allocation = regalloc::run(&kernel.code).map_err(|e| Failure::internal("regalloc", name, e))?;
    let code =
        Emitter::run(&kernel.code, &allocation, target).map_err(|e| Failure::internal("emit", name, e))?;
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
        exits: code.exits,
        kernel: Some(CubinKernel {
            params,
            barriers: kernel.barriers,
            shared: (kernel.shared_bytes > 0)
                .then_some(Shared { size: kernel.shared_bytes, align: kernel.shared_align }),
            max_threads: kernel.max_threads,
            ..CubinKernel::default()
        }),
        ..CubinFunction::new(name, kernel.binding, code.bytes)
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

struct Code {
    bytes: Vec<u8>,
    exits: Vec<u32>,
    /// The highest R that is named, plus one.
    registers: u32,
}

/// An instruction whose branch distance is not known yet.
struct Pending {
    op: sass::Op,
    modifiers: Vec<M>,
    operands: Vec<sass::Operand>,
    guard: Guard,
    target: Option<Block>,
}

struct Emitter<'a> {
    function: &'a Function,
    allocation: &'a Allocation,
    target: &'static Machine,
    code: Vec<Pending>,
    starts: Vec<usize>,
    registers: u32,
}

impl Emitter<'_> {
    fn run(function: &Function, allocation: &Allocation, target: &'static Machine) -> Result<Code, String> {
        let starts = vec![0; function.blocks.len()];
        let mut e = Emitter {
            function,
            allocation,
            target,
            code: Vec::new(),
            starts,
            registers: allocation.registers,
        };
        let order = &allocation.cfg.order;
        for (i, &block) in order.iter().enumerate() {
            e.starts[block.index()] = e.code.len();
            for &inst in &function.blocks[block].insts {
                e.inst(inst)?;
            }
            e.end(block, order.get(i + 1).copied())?;
        }
        e.finish()
    }

    fn push(&mut self, op: sass::Op, modifiers: &[M], operands: Vec<sass::Operand>) -> &mut Pending {
        let modifiers = modifiers.to_vec();
        self.code.push(Pending { op, modifiers, operands, guard: Guard::ALWAYS, target: None });
        let last = self.code.len() - 1;
        &mut self.code[last]
    }

    fn inst(&mut self, inst: ori::Inst) -> Result<(), String> {
        let data = &self.function.insts[inst];
        if let Some(moves) = self.allocation.kept_moves.get(&inst) {
            for &(file, to, from) in moves {
                self.copy(file, to, from)?;
            }
        }
        let allocation = self.allocation;
        let guard = data.guard.as_ref().map_or(Guard::ALWAYS, |g| Guard {
            predicate: allocation.register(g.predicate, 0),
            not: g.negated,
        });
        let op = match data.op {
            Op::Machine(op) => op,
            Op::Pseudo(op) => {
                let first = self.code.len();
                self.pseudo(op, data)?;
                self.code[first..].iter_mut().for_each(|p| p.guard = guard);
                return Ok(());
            }
        };
        let mut place = |v, w| allocation.register(v, w);
        let operands: Vec<_> = legalize::operands(self.function, data, &mut place).collect();
        let target = data.args.iter().find_map(|a| match a {
            Arg::Target(block) => Some(*block),
            _ => None,
        });
        let pending = self.push(op, &data.modifiers, operands);
        pending.guard = guard;
        pending.target = target;
        Ok(())
    }

    fn pseudo(&mut self, op: Pseudo, data: &InstData) -> Result<(), String> {
        let (Pseudo::Pack | Pseudo::Copy, Some(result)) = (op, data.results.first()) else { return Ok(()) };
        let file = self.function.values[*result].file;
        let mut word = 0;
        let mut wanted = Vec::new();
        for arg in &data.args {
            let Arg::Use(u) = arg else { return Err(format!("{op:?} of something that is no value")) };
            let words = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            for w in 0..words {
                let from = self.allocation.register(u.value, u.part.map_or(0, |p| p.first) + w);
                wanted.push((self.allocation.register(*result, word), from));
                word += 1;
            }
        }
        // The result has no register in common with the arguments, so that no cycle is possible.
        let sequence = moves::sequence(&wanted, None).ok_or("a cycle of moves in a pack")?;
        sequence.into_iter().try_for_each(|(to, from)| self.copy(file, to, from))
    }

    fn copy(&mut self, file: File, to: u8, from: u8) -> Result<(), String> {
        match file {
            File::R => {
                self.registers = self.registers.max(u32::from(to) + 1);
                self.push(sass::Op::MOV, &[], vec![machine::r(to), machine::r(from)]);
            }
            // `0 = 0 and P` is P.
            File::P => {
                let rz = machine::rz();
                let operands = vec![machine::p(to), machine::pt(), rz, rz, machine::p(from)];
                self.push(sass::Op::ISETP, &[M::EQ, M::AND], operands);
            }
            _ => return Err(format!("a move of file {file:?}")),
        }
        Ok(())
    }

    fn end(&mut self, block: Block, next: Option<Block>) -> Result<(), String> {
        match &self.function.blocks[block].end {
            Terminator::Return => return Err("a return".into()),
            Terminator::Exit => {
                self.push(sass::Op::EXIT, &[], Vec::new());
            }
            Terminator::Jump(edge) => {
                self.block_arguments(block, edge)?;
                if next != Some(edge.to) {
                    self.branch(Guard::ALWAYS, edge.to);
                }
            }
            Terminator::Branch { predicate, negated, yes, no, .. } => {
                let predicate = self.allocation.register(*predicate, 0);
                if next == Some(yes.to) {
                    self.branch(Guard { predicate, not: !negated }, no.to);
                } else {
                    self.branch(Guard { predicate, not: *negated }, yes.to);
                    if next != Some(no.to) {
                        self.branch(Guard::ALWAYS, no.to);
                    }
                }
            }
        }
        Ok(())
    }

    fn branch(&mut self, guard: Guard, to: Block) {
        let pending = self.push(sass::Op::BRA, &[], vec![machine::relative(0)]);
        pending.guard = guard;
        pending.target = Some(to);
    }

    fn block_arguments(&mut self, block: Block, edge: &ori::Edge) -> Result<(), String> {
        let params = &self.function.blocks[edge.to].params;
        for file in [File::R, File::P] {
            let mut wanted = Vec::new();
            for (param, arg) in params.iter().zip(&edge.args) {
                let data = self.function.values[*param];
                if data.file == file && self.allocation.has_place(*arg) {
                    let place = |v, w| self.allocation.register(v, w);
                    wanted.extend((0..data.words).map(|w| (place(*param, w), place(*arg, w))));
                }
            }
            let spare = self.allocation.spare(block, file, &wanted);
            let sequence =
                moves::sequence(&wanted, spare).ok_or("no register is free to break a cycle of moves")?;
            sequence.into_iter().try_for_each(|(to, from)| self.copy(file, to, from))?;
        }
        Ok(())
    }

    /// Fills in branch distances, adds the self-branch and the padding, and encodes.
    fn finish(mut self) -> Result<Code, String> {
        let last = self.code.len();
        self.push(sass::Op::BRA, &[], vec![machine::relative(-(WORD as i64))]);
        let end = self.code.len() * WORD;
        let size = end.next_multiple_of(128) + self.target.slack;
        while self.code.len() * WORD < size {
            self.push(sass::Op::NOP, &[], Vec::new());
        }
        let mut code = Code { bytes: Vec::with_capacity(size), exits: Vec::new(), registers: self.registers };
        for (i, pending) in self.code.iter_mut().enumerate() {
            if let Some(to) = pending.target {
                let distance = (self.starts[to.index()] as i64 - i as i64 - 1) * WORD as i64;
                for operand in pending.operands.iter_mut().filter(|o| o.kind == sass::Kind::Relative) {
                    *operand = machine::relative(distance);
                }
            }
            let inst = Inst::new(self.target.isa, pending.op, &pending.modifiers, &pending.operands);
            let inst = inst.map_err(|e| e.to_string())?.guarded(pending.guard);
            let inst = if i < last { schedule::safe(inst) } else { schedule::padding(inst) };
            if pending.op == sass::Op::EXIT {
                code.exits.push((i * WORD) as u32);
            }
            let word = sass::encode(&inst).map_err(|e| e.to_string())?;
            code.bytes.extend(word.to_le_bytes());
        }
        Ok(code)
    }
}
