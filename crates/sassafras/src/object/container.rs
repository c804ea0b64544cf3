//! The container: from encoded functions to a cubin, executable or for the linker, with attributes, variables,
//! relocations and debug sections. Functions are written in reverse order of the source, as ptxas does.

use super::resource_usage::Usage;
use super::{Compiled, Input};
use crate::context::target::TargetMachine;
use crate::context::{DebugInfo, Failure, Options, Times};
use crate::lower::{IMAGE_HANDLE, Kernel, Linked, Uses};
use crate::mach::unit::{EncodedFunction, JumpTable};
use crate::module::abi;
use crate::module::abi::Convention;
use crate::module::data::Data;
use crate::module::data::ImageSlot;
use crate::module::setmaxnreg::Reconfiguration;
use crate::object::call_graph::{self, CallGraph};
use crate::object::debug_info;
use crate::object::line_table;
use cubin::RelocType;
use cubin::attr::{Attr, Code as AttrCode, PointerSpace};
use cubin::module::{
    DebugSection, Features, Function, Image, ImageKind, Kernel as CubinKernel, Linkage, Module, Param,
    Params, Shared, SharedHome, SharedVariable, SymbolicReloc, TCGEN05_PARTITION, Tool,
};

/// What `SPARSE_MMA_MASK` is where an MMA takes a sparse matrix.
const SPARSE_MMA: u16 = 0x10;

pub fn module(
    compiled: Vec<Compiled>,
    data: Data,
    input: &Input,
    machine: &'static TargetMachine,
    times: &mut Times,
    options: &Options,
) -> Result<(Vec<u8>, Vec<Usage>), Failure> {
    let start = options.now();
    let externals = call_graph::externals(&compiled, &data.functions);
    let graph = CallGraph::new(&compiled, &data.functions, options.is_called());
    let writer =
        Writer { module: input.module, compiled: &compiled, graph: &graph, data: &data, machine, options };
    let mut functions: Vec<Function> =
        compiled.iter().enumerate().map(|(i, c)| writer.function(i, c)).collect();
    let usage = (0..compiled.len()).map(|i| writer.usage(i, &compiled[i])).collect();
    // ptxas writes functions in reverse order of the source.
    functions.reverse();
    let debug =
        times.of(Times::DEBUG, options, || debug_sections(&compiled, &data, input, machine, options))?;
    let target = cubin::Target {
        sm: options.target.sm(),
        accelerated: options.target.suffix() == ptx::target::Suffix::Arch,
    };
    let tool = Tool {
        name: "sassafras".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: options.command_line.clone(),
        ..Tool::default()
    };
    let module = Module {
        linkage: match (options.relocatable, options.tools_patch) {
            (true, _) => Linkage::Relocatable,
            (_, true) => Linkage::ToolsPatch,
            _ => Linkage::Executable,
        },
        tool,
        functions,
        shared: shared_variables(&compiled, &data),
        external_functions: externals,
        calls: call_graph::calls(&compiled, input.module, &data, input.conventions, options.relocatable),
        variables: data.variables,
        images: images_of_kernels(&compiled, data.images),
        loader_sizes: loader_sizes(&compiled),
        constant_size: options.relocatable.then_some(data.constant_bytes),
        attrs: module_attrs(input.module),
        debug,
        features: features(&compiled),
        ..Module::new(target, input.module.target.sm())
    };
    let bytes = module.to_object().and_then(|object| object.write()).map_err(|e| match e.is_limit {
        true => Failure::of_module(format!("The output is too large: {e}")),
        false => Failure::internal(Times::CONTAINER, "module", e.to_string()),
    })?;
    times.count(Times::CONTAINER, (options.now() - start).saturating_sub(times.part(Times::DEBUG)));
    Ok((bytes, usage))
}

/// Each image that is a parameter gets its kernel, by its index among the functions of the file.
fn images_of_kernels(compiled: &[Compiled], mut images: Vec<Image>) -> Vec<Image> {
    for (index, c) in compiled.iter().rev().enumerate() {
        for image in c.kernel.params.iter().filter_map(|p| p.image) {
            images[image].parameter_of = Some(index);
        }
    }
    images
}

/// The sizes of the driver's descriptors that the code asks for.
fn loader_sizes(compiled: &[Compiled]) -> Vec<String> {
    let sizes = compiled.iter().flat_map(|c| {
        let linked = c.kernel.linked.iter().filter(|(_, kind)| **kind == Linked::LoaderSize);
        linked.map(|(symbol, _)| c.kernel.code.symbols[*symbol as usize].clone())
    });
    call_graph::sorted(sizes.collect())
}

fn module_attrs(module: &ptx::Module) -> Vec<Attr> {
    let independent = module.target_options.contains(&"texmode_independent");
    independent.then(|| Attr::flag(AttrCode::TEXMODE_INDEPENDENT)).into_iter().collect()
}

/// What the file says of the instructions in it.
fn features(compiled: &[Compiled]) -> Features {
    let any = |used: fn(&Uses) -> bool| compiled.iter().any(|c| used(&c.kernel.uses));
    let later = |u: &Uses| {
        u.tensor_copies || u.map_changes || u.launch_control || u.tensor_memory || u.paired_tensor_memory
    };
    let code = compiled.iter().map(|c| c.encoded.isa_class).max().unwrap_or(0);
    let maps = if any(|u| u.tensor_copies) { 1 } else { 0 };
    Features {
        isa_class: code.max(if any(later) { 2 } else { Features::default().isa_class }),
        tensormap: if any(|u| u.map_changes) { 2 } else { maps },
    }
}

/// Warp collectives, for debuggers and checkers.
fn warp_attrs(encoded: &EncodedFunction) -> Vec<Attr> {
    /// The number of the first general register in debug information, and that of a constant mask.
    const R0: u32 = 0x0500_0000;
    const CONSTANT: u32 = u32::MAX;
    let mut attrs = Vec::new();
    if !encoded.collectives.is_empty() {
        let mask = |register: Option<u8>| register.map_or(CONSTANT, |r| R0 | u32::from(r));
        let masks: Vec<u32> = encoded.collectives.iter().map(|(_, register)| mask(*register)).collect();
        let offsets: Vec<u32> = encoded.collectives.iter().map(|(at, _)| *at).collect();
        attrs.push(Attr::words(AttrCode::COOP_GROUP_MASK_REGIDS, masks));
        attrs.push(Attr::words(AttrCode::COOP_GROUP_INSTR_OFFSETS, offsets));
    }
    if !encoded.warp_wide.is_empty() {
        attrs.push(Attr::words(AttrCode::INT_WARP_WIDE_INSTR_OFFSETS, encoded.warp_wide.clone()));
    }
    attrs
}

/// What the driver does for tensor memory before the kernel starts.
/// For each branch by a table its offset, a zero, the number of entries, and the entries.
fn indirect_branches(tables: &[JumpTable<u32>]) -> Option<Attr> {
    let of_table = |table: &JumpTable<u32>| {
        let head = [table.branch, 0, table.targets.len() as u32];
        head.into_iter().chain(table.targets.iter().copied()).collect::<Vec<u32>>()
    };
    let words: Vec<u32> = tables.iter().flat_map(of_table).collect();
    (!words.is_empty()).then(|| Attr::words(AttrCode::INDIRECT_BRANCH_TARGETS, words))
}

/// The tables at their places.
fn constant2(tables: &[JumpTable<u32>]) -> Vec<u8> {
    let end = tables.iter().map(|table| table.bytes().end).max().unwrap_or_default();
    let mut bytes = vec![0; end as usize];
    for table in tables {
        let (words, _) = bytes[table.bytes().start as usize..].as_chunks_mut();
        words.iter_mut().zip(&table.targets).for_each(|(word, target)| *word = target.to_le_bytes());
    }
    bytes
}

fn tensor_memory(uses: &Uses) -> Vec<Attr> {
    let mut attrs = Vec::new();
    if uses.tensor_partition {
        // The books of a pair have a barrier.
        let fragments = if uses.paired_tensor_memory { 7 } else { 6 };
        attrs.push(Attr::words(AttrCode::AT_ENTRY_FRAGMENTS, [fragments]));
        attrs.push(Attr::flag(AttrCode::RESERVED_SMEM_USED));
    }
    attrs.extend(uses.tensor_memory.then(|| Attr::flag(AttrCode::TCGEN05_1CTA_USED)));
    attrs.extend(uses.paired_tensor_memory.then(|| Attr::flag(AttrCode::TCGEN05_2CTA_USED)));
    attrs.extend(uses.tensor_work.then(|| Attr::byte(AttrCode::VRC_CTA_INIT_COUNT, 0x80)));
    attrs
}

/// Variables in the shared memory of the system.
fn system_variables(compiled: &[Compiled]) -> Vec<SharedVariable> {
    let (name, size, align) = TCGEN05_PARTITION;
    let variable = SharedVariable {
        name: name.into(),
        binding: cubin::Binding::WEAK,
        home: SharedHome::System,
        align,
        size,
        address: 0,
    };
    if compiled.iter().any(|c| c.kernel.uses.tensor_partition) { vec![variable] } else { Vec::new() }
}

fn debug_sections(
    compiled: &[Compiled],
    data: &Data,
    input: &Input,
    machine: &'static TargetMachine,
    options: &Options,
) -> Result<Vec<DebugSection>, Failure> {
    match options.debug_info {
        DebugInfo::None => return Ok(Vec::new()),
        DebugInfo::Locs if !line_table::has_locs(input.module) => return Ok(Vec::new()),
        _ => {}
    }
    let functions: Vec<&Compiled> = compiled.iter().rev().collect();
    let mut all = line_table::sections(input, &functions, options.relocatable)?;
    if options.debug_info == DebugInfo::Full {
        all.extend(debug_info::sections(&debug_info::Context { input, functions, data, machine, options })?);
    }
    Ok(all)
}

/// The shared variables of the system, and those that the linker allocates: the module's, then those of kernels.
fn shared_variables(compiled: &[Compiled], data: &Data) -> Vec<SharedVariable> {
    let mut all = system_variables(compiled);
    all.extend(data.linked_shared.iter().cloned());
    for (index, c) in compiled.iter().rev().enumerate() {
        let home = SharedHome::Kernel(index);
        all.extend(c.kernel.linked_shared.iter().map(|v| SharedVariable { home, ..v.clone() }));
    }
    all
}

/// What all functions of a cubin are written with.
#[derive(Clone, Copy)]
struct Writer<'a> {
    module: &'a ptx::Module<'a>,
    compiled: &'a [Compiled<'a>],
    graph: &'a CallGraph,
    data: &'a Data,
    machine: &'static TargetMachine,
    options: &'a Options,
}

impl Writer<'_> {
    fn function(&self, index: usize, compiled: &Compiled) -> Function {
        let Writer { data, machine, options, .. } = *self;
        let Compiled { kernel, encoded, .. } = compiled;
        let mut attrs = kernel.launch.attrs();
        if kernel.calls || !encoded.tables.is_empty() {
            attrs.push(Attr::words(AttrCode::CRS_STACK_SIZE, [0]));
        }
        attrs.extend(indirect_branches(&encoded.tables));
        attrs.extend(tensor_memory(&kernel.uses));
        attrs.extend(warp_attrs(encoded));
        // ptxas numbers the sanitizers: 1 is the checker of memory accesses.
        attrs.extend(options.steer_threads.then(|| Attr::half(AttrCode::SANITIZE, 0)));
        let sparse = encoded.sparse && machine.sparse_mma_mask;
        attrs.extend(sparse.then(|| Attr::half(AttrCode::SPARSE_MMA_MASK, SPARSE_MMA)));
        attrs.extend(self.ctaid_z(index).then(|| Attr::flag(AttrCode::CTAIDZ_USED)));
        if matches!(kernel.reconfiguration, Reconfiguration::From(_)) {
            attrs.push(Attr::flag(AttrCode::REG_RECONFIG));
        }
        let images = images(kernel, data, machine);
        let surfaces = images.iter().any(|r| r.kind == RelocType::SURF_HEADER_INDEX);
        let textures = images.iter().any(|r| r.kind != RelocType::SURF_HEADER_INDEX);
        let banks = [
            (AttrCode::BINDLESS_TEXTURE_BANK, textures || !images.is_empty() && machine.uniform_handles),
            (AttrCode::BINDLESS_SURFACE_BANK, surfaces || !images.is_empty() && machine.uniform_handles),
        ];
        attrs.extend(banks.iter().filter(|(_, used)| *used).map(|(code, _)| Attr::byte(*code, 0)));
        if options.is_called() && !kernel.entry && kernel.barriers > 0 {
            attrs.push(Attr::byte(AttrCode::NUM_BARRIERS, kernel.barriers));
        }
        let convention = compiled.convention;
        let rules = options.debug_code.then(|| abi::register_rules(machine.last_debug_uniform, convention));
        Function {
            aliases: self.aliases(compiled.source.symbol),
            registers: self.registers(index, kernel),
            exits: encoded.exits.clone(),
            errors_at_exit: options.debug_code || options.errors_at_exit,
            frame_size: encoded.frame,
            frame_ready_at: if encoded.frame > 0 { encoded.frame_ready } else { 0 },
            frame_steps: encoded.frame_steps.clone(),
            return_address: convention.return_address(),
            register_rules: rules.unwrap_or_default(),
            relocs: encoded.relocs.clone(),
            constant2: constant2(&encoded.tables),
            literals: match options.relocatable {
                true => encoded.tables.iter().map(JumpTable::bytes).collect(),
                false => Vec::new(),
            },
            constant0_relocs: images,
            externs: self.graph.externs(index),
            attrs,
            kernel: kernel.entry.then(|| self.kernel(index, kernel)),
            ..Function::new(&kernel.code.name, kernel.binding, encoded.bytes.clone())
        }
    }

    fn aliases(&self, of: ptx::ast::Symbol) -> Vec<String> {
        let names = self.data.aliases.iter().filter(|(_, target)| *target == of);
        names.map(|(alias, _)| crate::module::data::name(self.module, *alias)).collect()
    }

    /// Two registers more than are named belong to the system. Functions that call or are called have at least those of
    /// the calling convention.
    fn registers(&self, index: usize, kernel: &Kernel) -> u8 {
        if let Reconfiguration::From(start) = kernel.reconfiguration {
            return start as u8;
        }
        let conventions = kernel.code.fixed.values().map(Convention::of);
        let least = conventions.map(Convention::least_registers).max().unwrap_or(4);
        (self.graph.registers(index) + 2).clamp(least, 255) as u8
    }

    fn usage(&self, index: usize, compiled: &Compiled) -> Usage {
        let Compiled { kernel, code, encoded, start, time, times, .. } = compiled;
        Usage {
            name: kernel.code.name.clone(),
            entry: kernel.entry,
            registers: self.registers(index, kernel).into(),
            max_registers: kernel.launch.registers(),
            barriers: self.graph.barriers(index),
            frame_bytes: encoded.frame,
            stack_bytes: self.graph.stack(index),
            spill_stores: code.spill_stores + encoded.saves,
            spill_loads: code.spill_loads + encoded.restores,
            shared_bytes: if kernel.entry { kernel.shared().0 } else { 0 },
            calls_others: self.graph.calls_others(index),
            callees: if kernel.entry { self.graph.callees(index) } else { Vec::new() },
            start: *start,
            time: *time,
            times: times.clone(),
        }
    }

    /// Up to sm_89 a kernel says whether it reads the third coordinate of its block.
    fn ctaid_z(&self, index: usize) -> bool {
        self.machine.ctaidz_used
            && self.graph.reach(index).into_iter().any(|f| self.compiled[f].encoded.reads_ctaid_z)
    }

    fn kernel(&self, index: usize, kernel: &Kernel) -> CubinKernel {
        let Writer { graph, data, machine, options, .. } = *self;
        let param = |p: &crate::module::data::KernelParam| Param {
            offset: p.offset as u16,
            size: p.size as u16,
            space: match p.image.and_then(|image| data.images.get(image)).map(|image| image.kind) {
                None => PointerSpace::NONE,
                Some(ImageKind::Texture) => PointerSpace::TEXTURE,
                Some(ImageKind::Surface) => PointerSpace::SURFACE,
                Some(ImageKind::Sampler { .. }) => PointerSpace::SAMPLER,
            },
            align: 1,
            image: p.image,
        };
        let base = machine.params(kernel.param_bytes);
        let (first, slots) = image_slots(kernel, data, machine);
        let handles_end = if slots.is_empty() { 0 } else { first + IMAGE_HANDLE * slots.len() as u32 };
        let params = Params {
            base: base as u16,
            size: kernel.param_bytes as u16,
            list: kernel.params.iter().map(param).collect(),
            handle_bytes: handles_end.saturating_sub(base + kernel.param_bytes),
        };
        let (size, align) = kernel.shared();
        // The linker allocates what the launch adds.
        let uses_dynamic = || graph.reach(index).into_iter().any(|f| self.compiled[f].kernel.dynamic_shared);
        let uses_shared = size > 0 || !options.relocatable && uses_dynamic();
        CubinKernel {
            params,
            // ptxas has 0 where recursion makes it unknown.
            min_stack_size: graph.stack(index).unwrap_or(0),
            barriers: graph.barriers(index),
            shared: uses_shared.then_some(Shared { size, align }),
            max_registers: kernel.launch.registers() as u16,
            max_threads: kernel.launch.max_threads,
            required_threads: kernel.launch.required_threads,
        }
    }
}

/// The handles that a kernel has after its parameters, and where they begin in bank 0.
fn image_slots<'a>(kernel: &'a Kernel, data: &'a Data, machine: &TargetMachine) -> (u32, &'a [ImageSlot]) {
    match &data.common_slots {
        _ if !kernel.entry => (0, &[]),
        Some(common) => (common.first, &common.slots),
        None => (kernel.first_image(machine), &kernel.images),
    }
}

/// The loader writes the handles of images after the parameters.
fn images(kernel: &Kernel, data: &Data, machine: &TargetMachine) -> Vec<SymbolicReloc> {
    let (first, slots) = image_slots(kernel, data, machine);
    let sampler =
        if machine.uniform_handles { RelocType::SAMP_HEADER_INDEX_0 } else { RelocType::SAMP_HEADER_INDEX };
    let mut relocs = Vec::new();
    for (i, slot) in slots.iter().enumerate() {
        let offset = u64::from(first + IMAGE_HANDLE * i as u32);
        let reloc = |kind, name: &String| SymbolicReloc { offset, kind, symbol: name.clone(), addend: 0 };
        relocs.extend(slot.image.as_ref().map(|name| match data.image_kind(name) {
            Some(ImageKind::Surface) => reloc(RelocType::SURF_HEADER_INDEX, name),
            _ => reloc(RelocType::TEX_HEADER_INDEX, name),
        }));
        relocs.extend(slot.sampler.as_ref().map(|name| reloc(sampler, name)));
    }
    relocs
}
