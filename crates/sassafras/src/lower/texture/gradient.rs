//! Lowers `tex.grad` where the machine has no operation for it: 3D, cubes, and depth comparison. From sm_90 on a driver
//! function does it; before, quads of threads ([`crate::lower::texture::quad_gradient`]).
//!
//! Seen in ptxas's code: parameters are the opaque handles, then coordinates, both derivatives and offsets as four
//! words each, and the reference value. The results are the residency predicate and the texel.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use crate::module::abi::Shape;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::table::Opcode;
use sass::{M, Op};

const HANDLE: Shape = Shape { bytes: 8, align: 8 };
const VECTOR: Shape = Shape { bytes: 16, align: 16 };
const NUMBER: Shape = Shape { bytes: 4, align: 4 };

/// Stack bytes of such a call.
pub const STACK: u32 = 48;

/// The operands after the derivatives: offsets in braces, then the reference value.
const FIRST_OPTION: usize = 4;

/// Does the machine lack an operation for this gradient?
pub fn lacks_gradient(opcode: &Opcode, operands: &[Operand]) -> bool {
    let compares = || operands.iter().skip(FIRST_OPTION).any(|o| !matches!(o, Operand::Vector(_)));
    opcode.mnemonic == "tex.grad" && (["3d", "cube", "acube"].iter().any(|g| opcode.has(g)) || compares())
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn expand_gradient(&mut self, ins: &Ins<'a>) -> Option<()> {
        // A call: a guard becomes a divergent branch around it.
        if self.guard.is_some() {
            return self.in_guarded_branch(|s| s.expand_gradient(ins));
        }
        match self.machine.driver_has_gradients {
            true => self.gradient_by_driver(ins),
            false => self.gradient_by_quad(ins),
        }
    }

    fn gradient_by_driver(&mut self, ins: &Ins<'a>) -> Option<()> {
        let geometry = ins.one_of(&["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"])?;
        let count = match geometry {
            "1d" | "a1d" => 1,
            "2d" | "a2d" => 2,
            _ => 3,
        };
        let (halves, floats) = self.texture_types(ins)?;
        let result = match (halves, ins.result_type()) {
            (true, _) => "f16",
            (false, ty) => ty?.name(),
        };
        let (to, resident) = self.texel_and_residence(ins.get(0)?)?;
        let mut name = "__cuda_syscall_tex_grad_".to_string();
        name += if resident.is_some() { "pred_" } else { "" };
        let coordinate = if floats { "f32" } else { "s32" };
        name += &format!("{geometry}_v4_{result}_{coordinate}");
        let mut params = self.handles(ins.get(1)?, count + usize::from(geometry.starts_with('a')))?;
        name += if self.separate_samplers() { "_texmode_independent" } else { "" };
        for derivative in [2, 3] {
            let words = self.coordinates(std::slice::from_ref(ins.get(derivative)?), count)?;
            params.push((VECTOR, words));
        }
        for option in FIRST_OPTION..ins.len() {
            match ins.get(option)? {
                offsets @ Operand::Vector(_) => {
                    name += "_offset";
                    params.push((VECTOR, self.coordinates(std::slice::from_ref(offsets), count)?));
                }
                compare => {
                    name += "_depth_compare";
                    params.push((NUMBER, vec![self.word(compare, Type::F32)?]));
                }
            }
        }
        let words = if halves { 3 } else { 5 };
        let results = self.call_driver(&name, &params, words);
        self.take_texel(to, resident, &results, halves)
    }

    /// The opaque handles and the coordinates.
    fn handles(&mut self, operand: &'a Operand, count: usize) -> Option<Vec<(Shape, Vec<Arg>)>> {
        let Operand::Address(range) = operand else { return None };
        let body = self.body;
        let samplers = usize::from(self.separate_samplers());
        let (handles, rest) = body.list(*range).split_at_checked(1 + samplers)?;
        let mut params = Vec::new();
        for handle in handles {
            let value = match handle {
                Operand::Symbol(symbol) => {
                    self.mark_read(handle);
                    self.variable_address(*symbol, 0)?
                }
                other => self.wide(other, Type::U64)?,
            };
            params.push((HANDLE, vec![Arg::word(value, 0), Arg::word(value, 1)]));
        }
        params.push((VECTOR, self.coordinates(rest, count)?));
        Some(params)
    }

    fn take_texel(
        &mut self,
        to: &Operand,
        resident: Option<&Operand>,
        results: &[Value],
        halves: bool,
    ) -> Option<()> {
        let (there, texel) = results.split_first()?;
        match (halves, texel) {
            (true, [low, high]) => self.set_texel(to, *low, *high, true)?,
            _ => {
                let words: Vec<Arg> = texel.iter().map(|v| (*v).into()).collect();
                let all = self.pack(&words);
                self.set(to, all)?;
            }
        }
        let Some(resident) = resident else { return Some(()) };
        let args = [PT, (*there).into(), RZ, PT];
        let there = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &args);
        self.set(resident, there)
    }
}
