//! Jump tables: a switch loads where it goes from constant bank 2, as ptxas's code does.
//!
//! ```text
//! switch v0, [0 1 2 1], b1, b2, b3   ==>   v1:R = SHF.L.U32 v0, 0x2, RZ
//!                                          v2:R = LDC load c[0x2][v1+0x10]
//!                                          v3:R = MOV RZ
//!                                          v4:R2 = Pack v2, v3
//!                                          switch v4 at 0x10, [0 1 2 1], b1, b2, b3
//! ```
//!
//! An entry is the offset of a block from the start of the function's code; `BRX` (`mach/linearize.rs`) adds it to where
//! the code is. The tables of a function follow each other in the order of its blocks. A table that does not fit into the
//! bank becomes a tree of comparisons.
//!
//! In a relocatable file the linker adds where it puts a table. The load's offset is a signed half-word: ptxas takes
//! 0x8000 from it and adds that to the index, for tables in the upper half of the bank. So does this pass.
//!
//! Postcondition: every switch has a place for its table. Cost: linear in the blocks and tables.

use crate::codegen::switch_lower;
use crate::context::{Context, JumpTables, PassResult};
use ori::{Arg, Block, Change, Cursor, File, Function, Op, Pseudo, Terminator};
use sass::{M, Op as Name};

/// Constant bank 2.
pub const BANK: u8 = 2;

/// Bytes of a constant bank.
const BANK_BYTES: usize = 1 << 16;

/// What the index of a load is more than the offset in a table that the linker places.
pub const BIAS: i64 = 0x8000;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let (mut change, mut next) = (Change::Nothing, 0);
    for block in function.blocks.keys() {
        let Terminator::Switch(switch) = &function.blocks[block].end else { continue };
        let end = next + 4 * switch.table.len();
        if end > BANK_BYTES || next as i64 >= BIAS {
            switch_lower::make_tree(function, block);
            change = Change::ControlFlow;
            continue;
        }
        load_entry(function, block, next as u32, context.jump_tables);
        change = change.max(Change::Instructions);
        next = end;
    }
    Ok(change)
}

fn load_entry(function: &mut Function, block: Block, place: u32, tables: JumpTables) {
    let data = &function.blocks[block];
    let (at, Some(index)) = (data.end_at, data.end.decider()) else { return };
    let zero = Arg::Zero(File::R);
    let mut cursor = Cursor::at_end(function, block).at(at);
    let scaled = match tables {
        JumpTables::Linked => {
            cursor.word(Name::LEA, &[], File::R, &[index.into(), Arg::Imm(BIAS), Arg::Imm(2)])
        }
        _ => cursor.word(Name::SHF, &[M::L, M::U32], File::R, &[index.into(), Arg::Imm(2), zero]),
    };
    let from = Arg::Bank { bank: BANK, index: Some(scaled), offset: place as i32 };
    let low = cursor.word(Name::LDC, &[], File::R, &[from]);
    // Code is shorter than 2 GiB.
    let high = cursor.word(Name::MOV, &[], File::R, &[zero]);
    let pair = cursor.build(Op::Pseudo(Pseudo::Pack), &[], (File::R, 2), &[low.into(), high.into()]);
    if let Terminator::Switch(switch) = &mut function.blocks[block].end {
        (switch.index, switch.place) = (pair, Some(place));
    }
}
