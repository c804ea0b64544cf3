//! Emission: timed instructions to bytes, with branch distances, and relocations for what the loader fills in.
//!
//! ```text
//! --:-:-:-:05  @P0 BRA b3              16 bytes, distance 0x50
//! --:-:-:-:02  MOV R4, low word    =>  16 bytes, relocation ABS32_LO_32
//! ```
//!
//! Afterwards the function is complete: NOPs are where an instruction must wait longer than a stall can say, the code
//! ends in a branch to itself, and padding reaches as far as the machine prefetches. What the container tells the driver
//! about single instructions (exits, collectives, frame changes) has its addresses. One walk over the code.

use crate::codegen::jump_tables;
use crate::context::target::TargetMachine;
use crate::context::{Context, Options, PassError, PassResult};
use crate::lower::{Kernel, Linked};
use crate::mach::control_codes;
use crate::mach::inst::{Address, MachFunction, MachInst, Origin, Step, Timed};
use crate::mach::linearize::{self, selected};
use crate::mach::unit::{EncodedFunction, JumpTable, LinearCode, Unit};
use crate::module::abi::{Clobbers, Convention};
use cubin::RelocType;
use cubin::module::{FrameStep, SymbolicReloc};
use ori::entity::Entity;
use ori::{Block, Function, Half};
use sass::{Control, Inst, Kind, M, operands as machine};

const WORD: usize = sass::WORD_BYTES as usize;

/// What is added to the number of a function to get its address.
const UNIFIED_FUNCTIONS: &str = "__UFT_OFFSET";

/// Half of an address of 64 bits.
fn half_reloc(half: Half) -> RelocType {
    match half {
        Half::Low => RelocType::ABS32_LO_32,
        Half::High => RelocType::ABS32_HI_32,
    }
}

/// A word of a constant bank in a load, or as the handle of an operation on images. As ptxas has it; but it adds where
/// the parameters begin to the words that it combines a texture and a sampler from, and nvlink has done so, too.
fn slot_reloc(op: sass::Op) -> RelocType {
    match op {
        sass::Op::LDC | sass::Op::ULDC => RelocType::CONST_FIELD21_38,
        sass::Op::LDCU => RelocType::CONST_FIELD22_37,
        _ => RelocType::BINDLESSOFF14_40,
    }
}

fn address(position: usize) -> u32 {
    (position * WORD) as u32
}

impl EncodedFunction {
    fn push(&mut self, inst: &Inst, at: u32) -> PassResult {
        let word = sass::encode(inst).map_err(|e| PassError::NoEncoding(inst.to_string(), e))?;
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.at.push(at);
        Ok(())
    }
}

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let mut linear = std::mem::take(&mut unit.linear);
    let (mut steps, timed) = (std::mem::take(&mut linear.steps), std::mem::take(&mut linear.timed));
    let Unit { kernel, code, options, .. } = &*unit;
    let emitter = Emitter {
        kernel,
        function: &kernel.code,
        linear: &linear,
        positions: positions(&timed),
        target: context.machine,
        options,
    };
    let clobbers = clobbers(kernel, code, &linear.insts, options);
    unit.encoded = EncodedFunction { clobbers, ..emitter.encode(&mut steps, &timed, code.registers)? };
    Ok(())
}

/// What a function writes that its caller might have values in.
fn clobbers(kernel: &Kernel, code: &MachFunction, insts: &[MachInst], options: &Options) -> Clobbers {
    let named = |file: Kind, end: i64| {
        let operands = insts.iter().flat_map(|inst| &inst.operands).filter(|o| o.kind == file);
        let highest = operands.map(|o| o.value).filter(|number| *number < end).max();
        highest.and_then(|number| u8::try_from(number + 1).ok()).unwrap_or(0)
    };
    let own = Convention::own(&kernel.code).unwrap_or_default();
    Clobbers {
        registers: code.registers,
        predicates: named(Kind::P, machine::pt().value),
        barriers: named(Kind::B, i64::MAX),
        preserves_none: !linearize::saves_registers(code, own, options),
    }
}

/// The word at which each instruction is once NOPs are between them; last, the end.
fn positions(timed: &[Timed]) -> Vec<usize> {
    let mut positions = Vec::with_capacity(timed.len() + 1);
    let mut next = 0;
    for t in timed {
        positions.push(next + t.nops.len());
        next += t.nops.len() + 1;
    }
    positions.push(next);
    positions
}

/// 1 is for every machine of the generation. Seen with ptxas: 2 has the small floats, 4 what later machines lack.
fn isa_class(inst: &MachInst) -> u8 {
    use sass::Op;
    let has = |m: M| inst.modifiers.contains(&m);
    match inst.op {
        Op::HGMMA | Op::IGMMA | Op::QGMMA | Op::BGMMA | Op::BMMA => 4,
        Op::IMMA if has(M::_8816) => 4,
        Op::DMMA if !has(M::_8x8x4) => 4,
        Op::F2FP if has(M::E4M3) || has(M::E5M2) => 2,
        _ => 1,
    }
}

fn is_sparse(inst: &MachInst) -> bool {
    use sass::Op;
    matches!(inst.op, Op::HMMA | Op::IMMA | Op::QMMA | Op::OMMA) && inst.modifiers.contains(&M::SP)
}

struct Emitter<'a> {
    kernel: &'a Kernel,
    function: &'a Function,
    linear: &'a LinearCode,
    positions: Vec<usize>,
    target: &'static TargetMachine,
    options: &'a Options,
}

impl Emitter<'_> {
    fn encode(
        &self,
        steps: &mut [Step],
        timed: &[Timed],
        registers: u32,
    ) -> Result<EncodedFunction, PassError> {
        let mut encoded = self.frame_facts(registers);
        let words = self.positions.last().copied().unwrap_or(0);
        encoded
            .bytes
            .reserve_exact((words * WORD + WORD).next_multiple_of(128) + self.target.prefetch_padding);
        encoded.at.reserve_exact(encoded.bytes.capacity() / WORD);
        let nop = selected(&MachInst::new(sass::Op::NOP, &[], &[], Origin::Frame), self.target.isa)?;
        let mut mask = None;
        for (i, ((inst, step), timed)) in self.linear.insts.iter().zip(steps).zip(timed).enumerate() {
            for stall in &timed.nops {
                let control = Control { stall: *stall, yields: true, ..Control::default() };
                encoded.push(&nop.clone().controlled(control), inst.at)?;
            }
            let at = address(self.positions[i]);
            self.note_collective(inst, at, &mut mask, &mut encoded);
            encoded.isa_class = encoded.isa_class.max(isa_class(inst));
            encoded.sparse |= is_sparse(inst);
            if inst.op == sass::Op::EXIT {
                encoded.exits.push(at);
            }
            if let Some(resolved) = self.resolved(inst, i, &mut encoded) {
                step.inst = selected(&resolved, self.target.isa)?;
            }
            step.inst.control = timed.control;
            encoded.push(&step.inst, inst.at)?;
        }
        self.padding(&nop, &mut encoded)?;
        encoded.tables = self.tables();
        Ok(encoded)
    }

    fn tables(&self) -> Vec<JumpTable<u32>> {
        let offset = |inst: usize| address(self.positions[inst]);
        let target = |block: &Block| offset(self.linear.starts[block.index()]);
        let encoded = |table: &JumpTable| JumpTable {
            branch: offset(table.branch as usize),
            place: table.place,
            targets: table.targets.iter().map(target).collect(),
        };
        self.linear.tables.iter().map(encoded).collect()
    }

    /// A branch to itself, then NOPs for the prefetcher.
    fn padding(&self, nop: &Inst, encoded: &mut EncodedFunction) -> PassResult {
        let to_itself = [machine::relative(-(WORD as i64))];
        let branch = MachInst::new(sass::Op::BRA, &[], &to_itself, Origin::Frame);
        let branch = selected(&branch, self.target.isa)?;
        encoded.push(&branch.controlled(control_codes::padding()), 0)?;
        let size = encoded.bytes.len().next_multiple_of(128) + self.target.prefetch_padding;
        while encoded.bytes.len() < size {
            encoded.push(&nop.clone().controlled(control_codes::padding()), 0)?;
        }
        Ok(())
    }

    fn frame_facts(&self, registers: u32) -> EncodedFunction {
        let LinearCode { insts, of_block, frame_ready, saved_bytes, frame, .. } = self.linear;
        let returns = insts.iter().filter(|inst| inst.op == sass::Op::RET).count() as u32;
        let addresses = |block: &Vec<usize>| block.iter().map(|i| address(self.positions[*i])).collect();
        EncodedFunction {
            frame: *frame,
            saves: *saved_bytes,
            restores: saved_bytes * returns,
            registers,
            frame_ready: address(self.positions[*frame_ready]),
            frame_steps: self.frame_steps(),
            of_block: of_block.iter().map(addresses).collect(),
            ..EncodedFunction::default()
        }
    }

    /// The steps of the frame by address. An epilogue that is the last code needs no step that takes it back.
    fn frame_steps(&self) -> Vec<(u32, FrameStep)> {
        if self.linear.frame == 0 && !self.function.moving_stack {
            return Vec::new();
        }
        let steps = &self.linear.frame_steps;
        let last_way_out = steps.iter().rposition(|(_, step)| *step == FrameStep::WayOut);
        let is_last = steps.last().is_some_and(|(inst, _)| inst + 1 == self.linear.insts.len());
        let is_needless = |i: usize| is_last && (Some(i) == last_way_out || i + 1 == steps.len());
        let needed = steps.iter().enumerate().filter(|(i, _)| !is_needless(*i));
        needed.map(|(_, (inst, step))| (address(self.positions[*inst] + 1), *step)).collect()
    }

    /// Notes a warp collective. `mask` is the register of the last wait for other threads, and the byte of the source
    /// that it was for.
    fn note_collective(
        &self,
        inst: &MachInst,
        at: u32,
        mask: &mut Option<(u32, u8)>,
        encoded: &mut EncodedFunction,
    ) {
        use sass::Op;
        let reads = |name: M| inst.operands.iter().any(|o| *o == machine::name(name));
        match inst.op {
            Op::WARPSYNC => {
                let register = inst.operands.iter().find(|o| o.kind == sass::Kind::R);
                *mask = register.map(|o| (inst.at, o.value as u8));
            }
            Op::S2R | Op::S2UR | Op::CS2R => encoded.reads_ctaid_z |= reads(M::SR_CTAID_Z),
            Op::SHFL | Op::VOTE | Op::VOTEU | Op::MATCH | Op::REDUX | Op::CREDUX => {
                if self.kernel.collectives.binary_search(&inst.at).is_ok() {
                    let register = mask.filter(|(of, _)| *of == inst.at).map(|(_, register)| register);
                    encoded.collectives.push((at, register));
                } else if self.kernel.observers.binary_search(&inst.at).is_err() {
                    encoded.warp_wide.push(at);
                }
            }
            _ => {}
        }
    }

    /// How half of a symbol's address gets into the immediate of an instruction. Shared and constant memory have
    /// addresses of one word.
    fn symbol_reloc(&self, symbol: u32, half: Half) -> RelocType {
        match (self.kernel.linked.get(&symbol), half) {
            (None, half) => half_reloc(half),
            (Some(Linked::Shared | Linked::LoaderSize), _) => RelocType::ABS32_32,
            (Some(Linked::Constant), _) => RelocType::ABS16_32,
            (Some(Linked::UnifiedFunction), Half::Low) => RelocType::UNIFIED32_LO_32,
            (Some(Linked::UnifiedFunction), Half::High) => RelocType::UNIFIED32_HI_32,
        }
    }

    /// The instruction with its branch distance or frame offset, if it has one. An address that the loader fills in
    /// stays zero and gets a relocation.
    fn resolved(&self, inst: &MachInst, index: usize, encoded: &mut EncodedFunction) -> Option<MachInst> {
        let here = self.positions[index];
        let branch = self.linear.target(inst).map(|to| {
            let there = self.positions[to];
            let distance = (there as i64 - here as i64 - 1) * WORD as i64;
            with_operands(inst, sass::Kind::Relative, |_| machine::relative(distance))
        });
        let name = |symbol: u32| self.function.symbols[symbol as usize].clone();
        let (kind, symbol, addend) = match inst.address {
            // A pointer to a function is the function's number for all devices.
            None if inst.op == sass::Op::CALL
                && self.options.relocatable
                && self.target.unified_functions =>
            {
                (RelocType::ABS56_16_34, UNIFIED_FUNCTIONS.to_string(), 0)
            }
            None => return branch,
            Some(Address::Half { symbol, addend, half }) => {
                (self.symbol_reloc(symbol, half), name(symbol), addend)
            }
            Some(Address::Ahead { insts, half }) => {
                let there = (self.positions[index + insts] * WORD) as i64;
                (half_reloc(half), self.function.name.clone(), there)
            }
            Some(Address::Slot { symbol }) => (slot_reloc(inst.op), name(symbol), 0),
            // The linker joins the tables of all functions that a kernel runs.
            Some(Address::Table { place }) if self.options.relocatable => {
                let table = self.linear.tables.iter().find(|table| table.place == place);
                let piece = table.map(JumpTable::bytes).unwrap_or_default();
                let symbol = cubin::module::literal_name(&self.function.name, &piece);
                encoded.relocs.push(SymbolicReloc {
                    offset: (here * WORD) as u64,
                    kind: RelocType::CONST_FIELD21_38,
                    symbol,
                    addend: -jump_tables::BIAS,
                });
                return Some(at_start_of_bank(inst));
            }
            Some(Address::Table { .. }) => return branch,
            Some(Address::Call { symbol }) => (self.target.call_reloc, name(symbol), 0),
            // A call of a routine has a target, as a branch has.
            Some(Address::Routine { .. }) => return branch,
            Some(Address::Offset { insts }) => {
                let offset = (self.positions[index + insts] * WORD) as i64;
                return Some(with_operands(inst, sass::Kind::Signed, |_| machine::imm(offset)));
            }
            Some(Address::Start) => {
                let distance = -((here + 1) as i64) * WORD as i64;
                return Some(match inst.op {
                    sass::Op::BRX => with_operands(inst, sass::Kind::Signed, |_| machine::imm(distance)),
                    _ => with_operands(inst, sass::Kind::Relative, |_| machine::relative(distance)),
                });
            }
            Some(Address::Incoming) => {
                let frame = i64::from(self.linear.frame);
                let inst = branch.as_ref().unwrap_or(inst);
                return Some(with_operands(inst, sass::Kind::Signed, |offset| machine::imm(offset + frame)));
            }
        };
        encoded.relocs.push(SymbolicReloc { offset: (here * WORD) as u64, kind, symbol, addend });
        branch
    }
}

/// The load of a word whose offset the linker fills in.
fn at_start_of_bank(inst: &MachInst) -> MachInst {
    let mut inst = inst.clone();
    let banks = inst.operands.iter_mut().filter(|o| o.kind == sass::Kind::ConstR);
    banks.for_each(|o| o.value = 0);
    inst
}

/// The instruction with other operands of a kind.
fn with_operands(inst: &MachInst, kind: sass::Kind, other: impl Fn(i64) -> sass::Operand) -> MachInst {
    let mut inst = inst.clone();
    inst.operands.iter_mut().filter(|o| o.kind == kind).for_each(|o| *o = other(o.value));
    inst
}
