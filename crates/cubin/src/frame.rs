//! `.debug_frame`: where the frame of a function is. Debuggers read it; the driver does not.
//!
//! 64-bit DWARF, one common entry and one description per function. Register n is number 0x05000000 + n.

use crate::bytes::Put;
use crate::line::put_uleb;

const DEF_CFA: u8 = 0x0c;
const SAME_VALUE: u8 = 0x08;
const ADVANCE_LOC4: u8 = 0x04;
const NO_RETURN_REGISTER: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];
const CODE_ALIGN: u32 = 4;
const DATA_ALIGN: u8 = 0x7c; // -4

/// One function as the section describes it.
pub struct Frame {
    pub code_size: u64,
    pub frame_size: u32,
    /// Where the stack pointer has moved down, in bytes of code.
    pub ready_at: u32,
}

/// The section, and for each frame the offset of the field that holds the function's address.
pub fn encode(frames: &[Frame]) -> (Vec<u8>, Vec<u64>) {
    let mut out = Vec::new();
    let mut addresses = Vec::with_capacity(frames.len());
    for frame in frames {
        let common = out.len() as u64;
        entry(&mut out, |out| {
            out.put_u64(u64::MAX); // this is a common entry
            out.extend_from_slice(&[3, 0, CODE_ALIGN as u8, DATA_ALIGN]);
            out.extend_from_slice(&NO_RETURN_REGISTER);
            define_frame(out, 0);
            for register in [255, 1] {
                out.put_u8(SAME_VALUE);
                put_uleb(out, register_number(register));
            }
        });
        entry(&mut out, |out| {
            out.put_u64(common);
            addresses.push(out.len() as u64);
            out.put_u64(0);
            out.put_u64(frame.code_size);
            if frame.ready_at > 0 {
                out.put_u8(ADVANCE_LOC4);
                out.put_u32(frame.ready_at / CODE_ALIGN);
            }
            define_frame(out, frame.frame_size);
        });
    }
    (out, addresses)
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

fn define_frame(out: &mut Vec<u8>, offset: u32) {
    out.put_u8(DEF_CFA);
    put_uleb(out, register_number(1));
    put_uleb(out, offset.into());
}

fn register_number(register: u64) -> u64 {
    0x0500_0000 + register
}
