//! `wgmma`. They are done on the spot, so that fences and waits are nothing.

use super::matrix::{element, shape, sum_of};
use super::{Decoder, Ins, constant};
use crate::mma::{Element, Shape, held};
use crate::ptx::program::{Action, GroupAction, Rows};
use crate::ptx::races::Kind;
use crate::warpgroup::Wgmma;
use ::ptx::Type;
use ::ptx::ast::Operand;

/// Rows of a warp.
const ROWS: usize = 16;

impl<'a> Decoder<'a> {
    pub(super) fn group(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "wgmma.mma_async" => {}
            "wgmma.commit_group" | "wgmma.wait_group" => return self.group_step(ins, Kind::Wgmma),
            _ => return self.nothing(ins),
        }
        ins.ignore(&["sync", "aligned", "popc"]);
        let sparse = ins.flag("sp");
        let Shape { n, k, .. } = shape(ins.take(|w| shape(w.text()).is_some())?.text())?;
        let saturate = ins.flag("satfinite");
        let elements = [ins.ty()?, ins.ty()?, ins.ty()?].map(element);
        let [sum_element, left, right] = [elements[0]?, elements[1]?, elements[2]?];
        let (sum, float) = match left {
            Element::Bit => (crate::mma::Sum::And, ins.flag("and").then_some(false)?),
            Element::Int(_) => (crate::mma::Sum::Int { saturate }, false),
            _ => (sum_of(sum_element, left, true)?, true),
        };
        let (accumulators, rows, columns) = (ins.get(0)?, ins.get(1)?, ins.get(2)?);
        let mut next = 3;
        let mut take = || {
            next += 1;
            ins.get(next - 1)
        };
        let metadata = match sparse {
            true => Some((self.source(take()?, Type::B32)?, constant(take()?, Type::U32)? as usize)),
            false => None,
        };
        let accumulates = self.predicate(take()?)?;
        let in_registers = matches!(rows, Operand::Vector(_));
        let mut wgmma = Wgmma {
            n,
            k,
            elements: [left, right, sum_element],
            sum,
            negated: [false; 2],
            transposed: [false; 2],
            sparse,
        };
        if float {
            for side in 0..2 {
                wgmma.negated[side] = constant(take()?, Type::B32)? as i32 == -1;
            }
        }
        if left.bits() == 16 {
            for side in usize::from(in_registers)..2 {
                wgmma.transposed[side] = constant(take()?, Type::U32)? == 1;
            }
        }
        let sums = self.sources(accumulators, Type::B32)?;
        (sums.len() == held(ROWS * n, sum_element)).then_some(())?;
        let rows = match in_registers {
            true => {
                let sources = self.sources(rows, Type::B32)?;
                let elements = ROWS * if sparse { k / 2 } else { k };
                (sources.len() == held(elements, left)).then_some(())?;
                Rows::Registers(sources.into())
            }
            false => Rows::Memory(self.source(rows, Type::B64)?),
        };
        Some(Action::Wgmma(Box::new(GroupAction {
            wgmma,
            rows,
            columns: self.source(columns, Type::B64)?,
            metadata,
            accumulates,
            sums: sums.into(),
            dests: self.dests(accumulators, Type::B32)?.into(),
        })))
    }
}
