//! Notes, `.nv.compat`, and the attributes of the file and of its functions.

use super::Builder;
use crate::attr::{Attr, Code, PARAM_BANK_UNSPECIFIED};
use crate::attr::{ParamBank, ParamInfo, ParamInfoV2, Value};
use crate::compat::{Compat, CompatCode, CompatValue};
use crate::error::WriteError;
use crate::module::{Function, ImageKind, Kernel, Linkage, Params};
use crate::note::{CudaInfo, Note, ToolInfo};

/// The version of the CUDA API that a kernel is for, and the toolkit in `.note.nv.cuinfo`: 13.0.
const API_VERSION: u32 = 130;
const NOTE_VERSION: u16 = 2;

impl Builder<'_> {
    pub(super) fn tool_note(&self) -> Note {
        let tool = &self.module.tool;
        Note::Tool(ToolInfo {
            note_version: NOTE_VERSION.into(),
            object_name: tool.object_name.clone(),
            tool_name: tool.name.clone(),
            tool_version: tool.version.clone(),
            branch: tool.branch.clone(),
            command_line: tool.command_line.clone(),
        })
    }

    pub(super) fn cuda_note(&self) -> Note {
        let virtual_sm = self.module.virtual_sm;
        Note::Cuda(CudaInfo { note_version: NOTE_VERSION, virtual_sm, toolkit: API_VERSION })
    }

    pub(super) fn compat(&self) -> Vec<Compat> {
        let features = self.module.features;
        let byte = |code, value| Compat { code, value: CompatValue::Byte(value) };
        let finalize = CompatValue::Words(vec![self.row.fastpath_finalize, 0]);
        vec![
            byte(CompatCode::CUDA_ACCELERATOR_TARGET, self.module.target.accelerated.into()),
            byte(CompatCode::ISA_CLASS, features.isa_class),
            byte(CompatCode::INST_TCGEN05_MMA, 5),
            Compat {
                code: CompatCode::MERCURY_ISA_MAJOR_MINOR_VERSION,
                value: CompatValue::Half(self.generation.mercury_isa),
            },
            byte(CompatCode::INST_TENSORMAP_V1, features.tensormap),
            byte(CompatCode::ENABLE_OPPORTUNISTIC_FINALIZATION, 1),
            Compat { code: CompatCode::CAN_FASTPATH_FINALIZE, value: finalize },
        ]
    }

    /// The attributes of `.nv.info`.
    pub(super) fn global_attrs(&self) -> Result<Vec<Attr>, WriteError> {
        let mut attrs = Vec::new();
        for function in &self.module.functions {
            let symbol = self.symbol(&function.name)?;
            attrs.push(Attr::per_symbol(Code::REGCOUNT, symbol, function.registers.into()));
            if self.is_relocatable() {
                attrs.push(Attr::per_symbol(Code::MAX_STACK_SIZE, symbol, 0));
            }
            for clone in &function.clones {
                let clone_symbol = self.symbol(&clone.name)?;
                attrs.push(Attr::per_symbol(Code::FRAME_SIZE, clone_symbol, clone.frame_size));
            }
            attrs.push(Attr::per_symbol(Code::FRAME_SIZE, symbol, function.frame_size));
            attrs.extend(function.errors_at_exit.then(|| Attr::flag(Code::GEN_ERRBAR_AT_EXIT)));
        }
        for image in self.module.images.iter().filter(|image| image.parameter_of.is_none()) {
            if let ImageKind::Sampler { init, force_unnormalized } = image.kind {
                let symbol = self.symbol(&image.name)?;
                attrs.push(Attr::per_symbol(Code::SAMPLER_INIT, symbol, init));
                let force = Attr::per_symbol(Code::SAMPLER_FORCE_UNNORMALIZED, symbol, 1);
                attrs.extend(force_unnormalized.then_some(force));
            }
        }
        for (_, function, kernel) in self.module.kernels().filter(|_| !self.is_relocatable()) {
            let symbol = self.symbol(&function.name)?;
            attrs.push(Attr::per_symbol(Code::MIN_STACK_SIZE, symbol, kernel.min_stack_size));
        }
        attrs.extend(self.module.attrs.iter().cloned());
        Ok(attrs)
    }

    /// The attributes of `.nv.info.<function>`.
    pub(super) fn function_attrs(&self, function: &Function) -> Result<Vec<Attr>, WriteError> {
        let mut attrs = vec![Attr::words(Code::CUDA_API_VERSION, [API_VERSION])];
        attrs.extend(self.row.sw_war.map(|war| Attr::words(Code::SW_WAR, [war])));
        attrs.extend(self.row.sw2861232_war.then(|| Attr::flag(Code::SW2861232_WAR)));
        if self.module.linkage == Linkage::ToolsPatch {
            attrs.push(Attr::flag(Code::TOOLS_PATCH_FUNC));
        } else if self.row.reserved_variable.is_some() {
            attrs.push(Attr::flag(Code::RESERVED_SMEM_USED));
        }
        attrs.extend(self.row.sparse_mma_mask.then(|| Attr::half(Code::SPARSE_MMA_MASK, 0)));
        attrs.extend(self.row.vrc_cta_init_count.then(|| Attr::byte(Code::VRC_CTA_INIT_COUNT, 0)));
        attrs.push(Attr::half(Code::MERCURY_ISA_VERSION, self.generation.mercury_isa));
        if !function.exits.is_empty() {
            attrs.push(Attr::words(Code::EXIT_INSTR_OFFSETS, function.exits.clone()));
        }
        if !function.externs.is_empty() {
            let symbols = function.externs.iter().map(|name| self.symbol(name));
            let symbols = symbols.collect::<Result<Vec<_>, _>>()?;
            attrs.push(Attr { code: Code::EXTERNS, value: Value::Symbols(symbols) });
        }
        if let Some(kernel) = &function.kernel {
            self.kernel_attrs(function, kernel, &mut attrs)?;
        }
        // What the caller gives replaces what the target has by default.
        attrs.retain(|attr| function.attrs.iter().all(|given| given.code != attr.code));
        attrs.extend(function.attrs.iter().cloned());
        attrs.sort_by_key(|attr| self.generation.attr_rank(attr.code));
        Ok(attrs.into_iter().flat_map(split_long_table).collect())
    }

    fn kernel_attrs(
        &self,
        function: &Function,
        kernel: &Kernel,
        attrs: &mut Vec<Attr>,
    ) -> Result<(), WriteError> {
        attrs.push(Attr::half(Code::MAXREG_COUNT, kernel.max_registers));
        if kernel.barriers > 0 {
            attrs.push(Attr::byte(Code::NUM_BARRIERS, kernel.barriers));
        }
        attrs.extend(kernel.max_threads.map(|threads| Attr::words(Code::MAX_THREADS, threads)));
        attrs.extend(kernel.required_threads.map(|threads| Attr::words(Code::REQNTID, threads)));
        let params = &kernel.params;
        if params.list.is_empty() {
            return Ok(());
        }
        attrs.extend(self.param_attrs(params)?);
        let symbol = self.symbol(&format!(".nv.constant0.{}", function.name))?;
        let bank = ParamBank { symbol, base: params.base, size: params.size };
        attrs.push(Attr::half(Code::CBANK_PARAM_SIZE, params.size));
        attrs.push(Attr { code: Code::PARAM_CBANK, value: Value::ParamBank(bank) });
        Ok(())
    }

    /// One attribute per parameter, the last parameter first.
    fn param_attrs(&self, params: &Params) -> Result<Vec<Attr>, WriteError> {
        let mut attrs = Vec::with_capacity(params.list.len());
        for (ordinal, param) in params.list.iter().enumerate().rev() {
            let ordinal = u16::try_from(ordinal).map_err(|_| {
                WriteError::in_file(format!("{} parameters are too many", params.list.len())).limit()
            })?;
            if !param.align.is_power_of_two() {
                let message = format!("parameter {ordinal}: alignment {} is no power of two", param.align);
                return Err(WriteError::in_file(message));
            }
            let image = param.image.and_then(|image| self.module.images.get(image));
            let index = image.map_or(Ok(0), |image| self.symbol(&image.name))?;
            let offset = param.offset;
            attrs.push(if u32::from(params.size) > targets::Target::SMALL_PARAM_BYTES {
                let info = ParamInfoV2 { index, ordinal, offset, size: param.size.into() };
                Attr { code: Code::KPARAM_INFO_V2, value: Value::ParamV2(info) }
            } else {
                let info = ParamInfo {
                    index,
                    ordinal,
                    offset,
                    size: param.size,
                    bank: PARAM_BANK_UNSPECIFIED,
                    space: param.space,
                    log_align: param.align.trailing_zeros() as u8,
                };
                Attr { code: Code::KPARAM_INFO, value: Value::Param(info) }
            });
        }
        Ok(attrs)
    }
}

/// A record holds no more than 65535 bytes: a longer table becomes several records of the same code. (ptxas 13.0
/// drops the high bits of the size, and most of the table with them.)
fn split_long_table(attr: Attr) -> Vec<Attr> {
    /// Divides by 2 and by 4, so that tables of pairs and of quadruples stay whole.
    const MAX_WORDS: usize = 0xfff0 / 4;
    match &attr.value {
        Value::Words(words) if words.len() > MAX_WORDS => {
            words.chunks(MAX_WORDS).map(|chunk| Attr::words(attr.code, chunk)).collect()
        }
        _ => vec![attr],
    }
}
