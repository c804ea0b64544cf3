//! `.debug_frame`: where the frame of a function is, and where it returns to. Debuggers read it; the driver does not.
//!
//! 64-bit DWARF, one common entry and one description per function. Register n is number 0x05000000 + n. Saved
//! registers are described as by ptxas 13.0: a register is saved after its store and restored after its load. With `-g`
//! the common entry says of every register whether it survives a call; what called a kernel has no registers. To which
//! register a clone moves its return address, which ptxas says too, is left out.

use crate::bytes::Put;
use crate::line::put_uleb;
use crate::module::{FrameStep, RegisterRule};

const ADVANCE_LOC4: u8 = 0x04;
const OFFSET_EXTENDED: u8 = 0x05;
const RESTORE_EXTENDED: u8 = 0x06;
const UNDEFINED: u8 = 0x07;
const SAME_VALUE: u8 = 0x08;
const REMEMBER_STATE: u8 = 0x0a;
const RESTORE_STATE: u8 = 0x0b;
const DEF_CFA: u8 = 0x0c;
const VAL_EXPRESSION: u8 = 0x16;
const OP_ADDR: u8 = 0x03;
const OP_PLUS: u8 = 0x22;
const OP_BREGX: u8 = 0x92;

const CODE_ALIGN: u32 = 4;
const DATA_ALIGN: u8 = 0x7c; // -DATA_UNIT
const DATA_UNIT: u32 = 4;
const STACK_POINTER: u64 = 1;
const ZERO: u64 = 255;
/// Not a register: a name for a return address that has to be computed.
const COMPUTED_ADDRESS: u64 = 256;
/// A kernel has no caller.
const NO_ADDRESS: u64 = u32::MAX as u64;

/// One function as the section describes it.
pub struct Frame<'a> {
    /// Where its code starts in its section.
    pub code_start: u64,
    pub code_size: u64,
    pub frame_size: u32,
    /// Where the stack pointer has moved down, in bytes of code.
    pub ready_at: u32,
    /// What happens after that.
    pub steps: &'a [(u32, FrameStep)],
    /// What becomes of each register.
    pub rules: &'a [RegisterRule],
    pub returns: Returns,
}

/// How a function finds its way back.
#[derive(Clone, Copy)]
pub enum Returns {
    Never,
    /// By an address in two registers, this one and the next.
    ToAddress(u8),
    /// By an offset from the start of the section, in this register.
    ToOffset(u8),
}

/// Where the description of one function has fields for the linker.
#[derive(Default)]
pub struct Fields {
    /// The offset of the common entry, and where it is written.
    pub common: (u64, u64),
    pub code_start: u64,
    pub code_size: u64,
    /// The start of the section in the return address.
    pub return_base: Option<u64>,
}

/// The section, and the fields of each frame.
pub fn encode(frames: &[Frame]) -> (Vec<u8>, Vec<Fields>) {
    let mut out = Vec::new();
    let fields = frames.iter().map(|frame| describe(frame, &mut out)).collect();
    (out, fields)
}

fn describe(frame: &Frame, out: &mut Vec<u8>) -> Fields {
    let common = out.len() as u64;
    let mut fields = Fields::default();
    entry(out, |out| {
        out.put_u64(u64::MAX); // this is a common entry
        out.extend_from_slice(&[3, 0, CODE_ALIGN as u8, DATA_ALIGN]);
        put_uleb(
            out,
            match frame.returns {
                Returns::Never => NO_ADDRESS,
                Returns::ToAddress(first) => register(first.into()),
                Returns::ToOffset(_) => register(COMPUTED_ADDRESS),
            },
        );
        define_frame(out, STACK_POINTER, 0);
        same_value(out, ZERO);
        if let Returns::ToOffset(offset) = frame.returns {
            same_value(out, STACK_POINTER);
            same_value(out, offset.into());
            fields.return_base = Some(put_computed_address(out, offset));
        } else if frame.rules.is_empty() {
            same_value(out, STACK_POINTER);
            if let Returns::ToAddress(first) = frame.returns {
                [first, first + 1].iter().for_each(|number| same_value(out, (*number).into()));
            }
        } else {
            frame.rules.iter().for_each(|rule| put_rule(out, rule, frame.returns));
        }
    });
    entry(out, |out| {
        fields.common = (common, out.len() as u64);
        out.put_u64(common);
        fields.code_start = out.len() as u64;
        out.put_u64(frame.code_start);
        fields.code_size = out.len() as u64;
        out.put_u64(frame.code_size);
        if matches!(frame.returns, Returns::ToOffset(_)) {
            return; // It lives in the frame of its caller.
        }
        advance(out, 0, frame.ready_at);
        define_frame(out, STACK_POINTER, frame.frame_size);
        let mut at = frame.ready_at;
        for (from, step) in frame.steps {
            advance(out, at, *from);
            put_step(out, *step);
            at = *from;
        }
    });
    fields
}

fn put_rule(out: &mut Vec<u8>, rule: &RegisterRule, returns: Returns) {
    let is_stack_pointer = u64::from(rule.number) == register(STACK_POINTER);
    let survives = rule.survives && (is_stack_pointer || !matches!(returns, Returns::Never));
    out.put_u8(if survives { SAME_VALUE } else { UNDEFINED });
    put_uleb(out, rule.number.into());
}

fn advance(out: &mut Vec<u8>, from: u32, to: u32) {
    if to > from {
        out.put_u8(ADVANCE_LOC4);
        out.put_u32((to - from) / CODE_ALIGN);
    }
}

fn put_step(out: &mut Vec<u8>, step: FrameStep) {
    match step {
        FrameStep::Base { register, distance } => define_frame(out, register.into(), distance),
        FrameStep::Saved { register: saved, below } => {
            out.put_u8(OFFSET_EXTENDED);
            put_uleb(out, register(saved.into()));
            put_uleb(out, (below / DATA_UNIT).into());
        }
        FrameStep::Restored { register: restored } => {
            out.put_u8(RESTORE_EXTENDED);
            put_uleb(out, register(restored.into()));
        }
        FrameStep::WayOut => out.put_u8(REMEMBER_STATE),
        FrameStep::Back => out.put_u8(RESTORE_STATE),
    }
}

/// Writes an entry with its length before it, padded with no-operations to 8 bytes.
fn entry(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u32(u32::MAX); // 64-bit DWARF
    let length_at = out.len();
    out.put_u64(0);
    let start = out.len();
    body(out);
    out.pad_to(8);
    let length = (out.len() - start) as u64;
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}

/// The return address is the start of the section plus a register. Tells where the start is to be written.
fn put_computed_address(out: &mut Vec<u8>, offset: u8) -> u64 {
    let mut expression = vec![OP_ADDR];
    expression.put_u64(0);
    expression.put_u8(OP_BREGX);
    put_uleb(&mut expression, register(offset.into()));
    expression.extend_from_slice(&[0, OP_PLUS]);
    out.put_u8(VAL_EXPRESSION);
    put_uleb(out, register(COMPUTED_ADDRESS));
    put_uleb(out, expression.len() as u64);
    let start = out.len() as u64 + 1;
    out.extend_from_slice(&expression);
    start
}

fn define_frame(out: &mut Vec<u8>, base: u64, offset: u32) {
    out.put_u8(DEF_CFA);
    put_uleb(out, register(base));
    put_uleb(out, offset.into());
}

fn same_value(out: &mut Vec<u8>, number: u64) {
    out.put_u8(SAME_VALUE);
    put_uleb(out, register(number));
}

fn register(number: u64) -> u64 {
    0x0500_0000 + number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `llvm-dwarfdump` reads in a section of ptxas for the same steps.
    #[test]
    fn saved_registers() {
        let steps = [
            (0x20, FrameStep::Saved { register: 16, below: 8 }),
            (0x40, FrameStep::WayOut),
            (0x50, FrameStep::Restored { register: 16 }),
            (0x60, FrameStep::Base { register: 1, distance: 0 }),
            (0x70, FrameStep::Back),
        ];
        let (returns, rules) = (Returns::ToAddress(20), &[][..]);
        let (code_start, code_size, frame_size, ready_at) = (0, 0x80, 24, 0x10);
        let frame = Frame { code_start, code_size, frame_size, ready_at, steps: &steps, rules, returns };
        let (bytes, fields) = encode(&[frame]);
        let described = &bytes[fields[0].code_size as usize + 8..];
        let (r1, r16) = ([0x81, 0x80, 0x80, 0x28], [0x90, 0x80, 0x80, 0x28]);
        let mut wanted: Vec<u8> = vec![ADVANCE_LOC4, 4, 0, 0, 0, DEF_CFA];
        wanted.extend(r1);
        wanted.extend([24, ADVANCE_LOC4, 4, 0, 0, 0, OFFSET_EXTENDED]);
        wanted.extend(r16);
        wanted.extend([2, ADVANCE_LOC4, 8, 0, 0, 0, REMEMBER_STATE]);
        wanted.extend([ADVANCE_LOC4, 4, 0, 0, 0, RESTORE_EXTENDED]);
        wanted.extend(r16);
        wanted.extend([ADVANCE_LOC4, 4, 0, 0, 0, DEF_CFA]);
        wanted.extend(r1);
        wanted.extend([0, ADVANCE_LOC4, 4, 0, 0, 0, RESTORE_STATE]);
        assert_eq!(&described[..wanted.len()], wanted);
        assert!(described[wanted.len()..].iter().all(|byte| *byte == 0), "no-operations fill up");
    }
}
