//! Lowering: PTX to Ori, one Ori function per PTX function.
//!
//! Blocks are lowered in dominator-tree pre-order: a block starts with the values that PTX registers have at the end of
//! its immediate dominator, except those that are its parameters ([`control::ssa`]).
//!
//! | question | file |
//! |---|---|
//! | blocks, and the registers that are their parameters | [`control::cfg`], [`control::ssa`] |
//! | dispatch to the file of an instruction; errors for unread modifiers and operands | [`instruction`] |
//! | reading operands, appending operations, writing results | [`build`] |
//! | calls and their parameters | [`control::call`] |
//! | instructions that expand to a routine of several blocks | [`library`] |
//! | everything else | the file of the instruction's family |
//!
//! An 8- or 16-bit PTX register is a word whose upper bits are undefined. A 64- or 128-bit register is a value of two
//! or four words, and a vector register is a value of as many words as its elements take.

mod arith;
mod build;
mod control;
pub mod expand;
mod instruction;
pub mod library;
mod memory;
mod operand_use;
mod sync;
mod tensor;
mod texture;

pub use memory::variables::IMAGE_HANDLE;
pub use tensor::wgmma_stages::Reason;
pub use texture::quad_gradient::withheld;

use crate::context::target::TargetMachine;
use crate::context::{Bounds, CacheRule, Failure, Lines, Tuning};
use crate::module::abi::Clobbers;
use crate::module::data::{self, Data, ImageSlot, KernelParam, first_image, kernel_params};
use crate::module::launch_bounds::Launch;
use crate::module::pragmas::{self, Conventions};
use crate::module::setmaxnreg::Reconfiguration;
use crate::module::shared_layout::KernelShared;
use control::call;
use control::cfg::{self, End, Graph};
use control::constants::Constants;
use control::param_words::ParamWords;
use control::reg_values::{Mark, RegValues};
use control::ssa::{Registers, Ssa};
use cubin::module::SharedVariable;
use memory::stack;
use operand_use::OperandUse;
use ori::{Block, Edge, File, Function, Op, Pseudo, Switch, Terminator, Value};
use ptx::ast;
use rustc_hash::{FxHashMap, FxHashSet};
use sync::fence;
use tensor::{wgmma, wgmma_operands};

/// A kernel or device function, and what its container needs to know.
pub struct Kernel {
    pub code: Function,
    /// Not a device function.
    pub entry: bool,
    pub binding: cubin::Binding,
    pub params: Vec<KernelParam>,
    pub param_bytes: u32,
    /// Bytes of its own shared memory, after that of the module and of functions.
    pub shared_bytes: u64,
    pub shared_align: u64,
    pub module_shared: KernelShared,
    /// Does it refer to dynamic shared memory?
    pub dynamic_shared: bool,
    /// The handles of textures, samplers and surfaces after its parameters, in order.
    pub images: Vec<ImageSlot>,
    pub barriers: u8,
    pub uses: Uses,
    /// Source positions of warp collectives, and of those that only query the state of other lanes, in order.
    pub collectives: Vec<u32>,
    pub observers: Vec<u32>,
    pub launch: Launch,
    pub reconfiguration: Reconfiguration,
    /// Its calls: of functions of this module, of external ones, through pointers with this prototype.
    pub calls: bool,
    pub callees: Vec<String>,
    pub externs: Vec<String>,
    pub pointer_calls: Vec<String>,
    /// Functions whose address it takes.
    pub takes: Vec<String>,
    /// The symbols of `code` that are no addresses in global memory.
    pub linked: FxHashMap<u32, Linked>,
    /// Shared variables of its own that the linker places.
    pub linked_shared: Vec<SharedVariable>,
    /// ptxas's messages about wgmma.
    pub advice: Vec<String>,
    /// Its own variables: bytes from the stack pointer, and from the beginning of its shared memory.
    pub local: Vec<(ast::Symbol, u32)>,
    pub shared: Vec<(ast::Symbol, u64)>,
    /// Locations of PTX registers for the debugger, in the order of the blocks' instructions.
    pub bindings: Vec<Binding>,
}

/// From a program point on, a PTX register has this value.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub reg: ast::Reg,
    pub value: Value,
    pub block: Block,
    /// Offset in the PTX text of the instruction that writes it; 0: since the start of the block.
    pub at: u32,
}

/// What a symbol is for the linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    Shared,
    Constant,
    UnifiedFunction,
    /// A number that the loader fills in.
    LoaderSize,
}

/// Hardware units that a function uses, for the container.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// Tensor copies, updates of tensor maps.
    pub tensor_copies: bool,
    pub map_changes: bool,
    pub launch_control: bool,
    /// Tensor memory, of one CTA or of a CTA pair; and its allocation state.
    pub tensor_memory: bool,
    pub paired_tensor_memory: bool,
    pub tensor_partition: bool,
    /// It is used for more than relinquishing the permit to allocate.
    pub tensor_work: bool,
}

impl Kernel {
    /// A global kernel of which nothing but its code is known.
    pub fn new(code: Function) -> Kernel {
        Kernel {
            code,
            entry: true,
            binding: cubin::Binding::GLOBAL,
            params: Vec::new(),
            param_bytes: 0,
            shared_bytes: 0,
            shared_align: 1,
            module_shared: KernelShared::default(),
            dynamic_shared: false,
            images: Vec::new(),
            barriers: 0,
            uses: Uses::default(),
            collectives: Vec::new(),
            observers: Vec::new(),
            launch: Launch::default(),
            reconfiguration: Reconfiguration::default(),
            calls: false,
            callees: Vec::new(),
            externs: Vec::new(),
            pointer_calls: Vec::new(),
            takes: Vec::new(),
            linked: FxHashMap::default(),
            linked_shared: Vec::new(),
            advice: Vec::new(),
            local: Vec::new(),
            shared: Vec::new(),
            bindings: Vec::new(),
        }
    }

    /// Where the handles of its images begin in bank 0.
    pub fn first_image(&self, machine: &TargetMachine) -> u32 {
        first_image(self.param_bytes, machine)
    }

    /// The most general registers that a thread starts with.
    pub fn registers(&self) -> u32 {
        match self.reconfiguration {
            Reconfiguration::From(start) => start,
            _ => self.launch.registers(),
        }
    }

    /// Bytes of static shared memory and their alignment: the module's first, then its own.
    pub fn shared(&self) -> (u64, u64) {
        let KernelShared { bytes, align, dynamic } = self.module_shared;
        let end = match self.shared_bytes {
            0 => bytes,
            own => self.own_shared_start() + own,
        };
        (end.max(dynamic), align.max(self.shared_align))
    }

    /// Where its own shared variables begin.
    pub fn own_shared_start(&self) -> u64 {
        self.module_shared.bytes.next_multiple_of(self.shared_align)
    }
}

/// What all functions of a module share.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub module: &'a ast::Module<'a>,
    pub machine: &'static TargetMachine,
    pub lines: &'a Lines,
    pub data: &'a Data,
    pub bounds: &'a Bounds,
    /// The most registers that device functions may use.
    pub limits: &'a FxHashMap<ast::Symbol, u32>,
    /// The reason to serialize wgmma, if there is one.
    pub serial: Option<Reason>,
    /// Record which value each PTX register has.
    pub debug: bool,
    /// Registers that are live until their function ends.
    pub watched: &'a [String],
    /// How global loads and stores are cached.
    pub caches: Caches,
    /// Sleep before side effects that other threads can see ([`steer`]).
    pub steered: bool,
    pub tuning: Tuning,
    /// See [`Function::withheld`].
    pub withheld: &'a [(File, u8)],
    /// How functions are called.
    pub conventions: &'a Conventions,
    /// What calls of functions that were compiled before clobber.
    pub clobbers: &'a FxHashMap<ast::Symbol, Clobbers>,
    /// Need the function save no registers for its callers?
    pub preserves_none: bool,
}

/// The cache operators of the command line, for loads and for stores.
pub type Caches = (Option<CacheRule>, Option<CacheRule>);

pub fn function(env: Env, function: &ast::Function) -> Result<Kernel, Failure> {
    let Env { module, lines, .. } = env;
    let refuse = |what: &str| Failure {
        line: lines.line(function.span.start),
        span: function.span,
        message: format!("{what} is not supported yet"),
    };
    let body = function.body.as_ref().ok_or_else(|| refuse("A function without a body"))?;
    let name = data::name(module, function.symbol);
    let mut launch = Launch::new(function, &name, env.bounds, env.machine)
        .map_err(|d| refuse(&format!("Directive '{d}'")))?;
    launch.limit(env.limits.get(&function.symbol).copied());
    let reconfiguration =
        Reconfiguration::plan((env.module, env.lines), env.data.relocatable, function, &launch)?;
    let mut kernel = Kernel {
        entry: function.entry,
        binding: match function.linkage {
            ast::Linkage { weak: true, .. } => cubin::Binding::WEAK,
            ast::Linkage { visible: false, .. } if !function.entry => cubin::Binding::LOCAL,
            _ => cubin::Binding::GLOBAL,
        },
        launch,
        reconfiguration,
        module_shared: env.data.shared.of_kernel(function.symbol),
        ..Kernel::new(Function::new(&name))
    };
    kernel.code.block();
    kernel.code.withheld = env.withheld.to_vec();
    kernel.code.frame = call::outgoing(module, body, env.machine, env.conventions);
    kernel.code.moving_stack = stack::moves(module, body);
    let params = ParamWords::new(module, body, Some(function));
    let watched = watched(module, body, env.watched);
    let returned = function.returns.iter().flat_map(|result| returned(&params, result));
    let lasting: Vec<ast::Reg> = watched.iter().copied().chain(returned).collect();
    let mut lower = Lower::new(&mut kernel, env, body, params, &lasting);
    lower.watched = watched;
    if function.entry {
        (lower.kernel.params, lower.kernel.param_bytes) = kernel_params(function, env.data, env.machine);
    } else {
        lower.device = Some(function);
        call::check_abi(module, function)?;
        lower.receive(function).ok_or_else(|| refuse("A parameter of this kind"))?;
    }
    lower.variables()?;
    lower.advise();
    let (first, _) = lower.run()?;
    let (local, shared) = (sorted(&lower.local), sorted(&lower.shared));
    if lower.has(sass::Op::SYNCS) {
        fence::after_barrier_unit(lower.kernel, env.data.relocatable);
    }
    (kernel.local, kernel.shared) = (local, shared);
    kernel.code.blocks[Function::ENTRY].end = Terminator::Jump(first);
    if pragmas::keep_rolled(module, function) {
        kernel.code.rolled = kernel.code.blocks.keys().collect();
    }
    kernel.collectives.sort_unstable();
    kernel.observers.sort_unstable();
    Ok(kernel)
}

fn sorted<T: Copy>(offsets: &FxHashMap<ast::Symbol, T>) -> Vec<(ast::Symbol, T)> {
    let mut all: Vec<(ast::Symbol, T)> = offsets.iter().map(|(symbol, offset)| (*symbol, *offset)).collect();
    all.sort_by_key(|(symbol, _)| *symbol);
    all
}

/// The registers of a body with these names.
fn watched(module: &ast::Module, body: &ast::Body, names: &[String]) -> Vec<ast::Reg> {
    let mut regs = Vec::new();
    for decl in &body.regs {
        let base = module.names[decl.name.0 as usize];
        for name in names {
            let index = match decl.range {
                None => (name == base).then_some(0),
                Some(count) => {
                    let number = name.strip_prefix(base).and_then(|number| number.parse().ok());
                    number.filter(|number| *number < count)
                }
            };
            regs.extend(index.map(|index| ast::Reg(decl.first.0 + index)));
        }
    }
    regs.sort_unstable();
    regs.dedup();
    regs
}

/// The registers of a formal result.
fn returned(params: &ParamWords, result: &ast::Param) -> Vec<ast::Reg> {
    match result.place {
        ast::ParamPlace::Memory(symbol) => params.all(symbol).collect(),
        ast::ParamPlace::Register(reg) => vec![reg],
    }
}

/// The state of lowering one PTX body: of a function, or of an inlined library routine.
struct Lower<'k, 'a> {
    kernel: &'k mut Kernel,
    module: &'a ast::Module<'a>,
    body: &'a ast::Body<'a>,
    machine: &'static TargetMachine,
    lines: &'a Lines,
    data: &'a Data,
    graph: Graph<'a>,
    ssa: Ssa,
    constants: Constants,
    params: ParamWords,
    /// The registers that returns read, and the set of all registers that are read, computed on demand.
    results: Vec<ast::Reg>,
    read: Option<FxHashSet<ast::Reg>>,
    /// The device function, its incoming parameters, and the address of a large result.
    device: Option<&'a ast::Function<'a>>,
    incoming: Vec<(ast::Reg, Value)>,
    result_address: Option<Value>,
    /// Parameters whose address is taken, and where they begin among the caller's arguments on the stack.
    in_place: FxHashMap<ast::Symbol, u32>,
    conventions: &'a Conventions,
    clobbers: &'a FxHashMap<ast::Symbol, Clobbers>,
    preserves_none: bool,
    return_block: Option<Block>,
    /// The library routine, if this is the body of one.
    routine: Option<library::Inlined>,
    /// The kernel's own shared variables, from the first of them on.
    own: Vec<(ast::Symbol, u64)>,
    /// The offset of each shared variable in the kernel's shared memory.
    shared: FxHashMap<ast::Symbol, u64>,
    /// The offset of each local variable from the stack pointer.
    local: FxHashMap<ast::Symbol, u32>,
    now: RegValues,
    /// The Ori block in which each PTX block begins.
    first: Vec<Block>,
    block: Block,
    /// How many instructions of which block were searched for a wait for the warp, and whether the last event there is
    /// one: see `converge_warp`.
    searched: (Block, usize, bool),
    /// Offset in the PTX text of the instruction being lowered.
    at: u32,
    /// The guard of the instruction being lowered: its predicate, and whether it is negated.
    guard: Option<(Value, bool)>,
    /// Operations from this number on belong to that instruction and can still take its guard.
    unguarded: usize,
    /// The descriptor of global memory, loaded once.
    descriptor: Option<Value>,
    /// Outstanding wgmma.
    outstanding: wgmma::Outstanding,
    /// Record [`Kernel::bindings`]? Registers that are live until the kernel ends.
    debug: bool,
    watched: Vec<ast::Reg>,
    caches: Caches,
    steered: bool,
    tuning: Tuning,
    /// What has been read of the operands of the instruction that is being lowered.
    operand_use: OperandUse,
    /// Are library routines inlined? Decided when the first is needed.
    inlines_routines: Option<bool>,
}

/// A block from which a routine returns, and the values of its results.
type Returned = (Block, Vec<Value>);

/// A step of the walk over the dominator tree.
enum Step {
    Lower(usize),
    /// The block and what it dominates are lowered.
    Leave(Mark),
}

impl<'k, 'a> Lower<'k, 'a> {
    fn new(
        kernel: &'k mut Kernel,
        env: Env<'a>,
        body: &'a ast::Body<'a>,
        params: ParamWords,
        results: &[ast::Reg],
    ) -> Lower<'k, 'a> {
        let graph = Graph::new(env.module, body);
        let outstanding = wgmma::Outstanding::new(env.module, body, &params, &graph, env.serial);
        let awaited = wgmma_operands::sources(env.module, body);
        // A debugger is told the value of each register at each join.
        let unstable = |reg| env.debug || outstanding.registers().contains(&reg);
        let registers = Registers { results, awaited: &awaited, unstable: &unstable };
        let ssa = Ssa::new(env.module, body, &params, &graph, &registers);
        let constants = match env.debug {
            // A debugger may change a register.
            true => Constants::default(),
            false => Constants::new(env.module, body, &params, &ssa.initial),
        };
        Lower {
            kernel,
            module: env.module,
            body,
            machine: env.machine,
            lines: env.lines,
            data: env.data,
            graph,
            ssa,
            constants,
            params,
            results: results.to_vec(),
            read: None,
            device: None,
            incoming: Vec::new(),
            result_address: None,
            in_place: FxHashMap::default(),
            conventions: env.conventions,
            clobbers: env.clobbers,
            preserves_none: env.preserves_none,
            return_block: None,
            routine: None,
            own: Vec::new(),
            shared: FxHashMap::default(),
            local: FxHashMap::default(),
            now: RegValues::default(),
            first: Vec::new(),
            block: Function::ENTRY,
            searched: (Function::ENTRY, 0, false),
            at: 0,
            guard: None,
            unguarded: 0,
            descriptor: None,
            outstanding,
            debug: env.debug,
            watched: Vec::new(),
            caches: env.caches,
            steered: env.steered,
            tuning: env.tuning,
            operand_use: OperandUse::default(),
            inlines_routines: None,
        }
    }

    fn unsupported_at(&self, span: ptx::diag::Span, what: &str) -> Failure {
        let message = format!("{what} is not supported yet");
        Failure { line: self.lines.line(span.start), span, message }
    }

    /// Lowers all blocks. Returns the edge into the first, and of a routine the blocks from which it returns, each with
    /// the values of its results.
    fn run(&mut self) -> Result<(Edge, Vec<Returned>), Failure> {
        self.first = self.graph.blocks.iter().map(|_| self.kernel.code.block()).collect();
        let rolled = self.first.iter().zip(&self.graph.blocks).filter(|(_, block)| block.rolled);
        self.kernel.code.rolled.extend(rolled.map(|(first, _)| *first));
        self.add_params();
        self.at_entry().into_iter().for_each(|(reg, value)| self.now.set(reg, value));
        let mut returns = Vec::new();
        let mut work = vec![Step::Lower(0)];
        while let Some(step) = work.pop() {
            match step {
                Step::Leave(mark) => self.now.restore(mark),
                Step::Lower(b) => {
                    work.push(Step::Leave(self.now.mark()));
                    returns.extend(self.lower_block(b)?);
                    work.extend(self.ssa.children(b).iter().rev().map(|child| Step::Lower(*child)));
                }
            }
        }
        // Edge into the first block, which is a loop header: registers that are not yet defined are undefined values.
        let known: FxHashMap<ast::Reg, Value> = self.at_entry().into_iter().collect();
        let params = self.kernel.code.blocks[self.first[0]].params.clone();
        let mut args = Vec::new();
        for (i, param) in params.iter().enumerate() {
            let value = known.get(&self.ssa.params(0)[i]).copied();
            args.push(value.unwrap_or_else(|| self.undefined_like(*param)));
        }
        Ok((Edge { to: self.first[0], args }, returns))
    }

    /// The parameters of all blocks.
    fn add_params(&mut self) {
        for b in 0..self.first.len() {
            for i in 0..self.ssa.params(b).len() {
                let (file, words) = self.shape(self.ssa.params(b)[i]);
                let param = self.kernel.code.value(file, words);
                self.kernel.code.blocks[self.first[b]].params.push(param);
            }
        }
    }

    /// Lowers a block. Returns where a routine returns, with the values of its results.
    fn lower_block(&mut self, b: usize) -> Result<Option<Returned>, Failure> {
        self.enter(b);
        for i in 0..self.graph.blocks[b].insts.len() {
            let inst = self.graph.blocks[b].insts[i];
            self.begin_inst(inst.span);
            if !self.before(inst) {
                self.inst(inst)?;
            }
        }
        self.before_end(b);
        self.end_block(b)?;
        let is_return = self.routine.is_some() && matches!(self.graph.blocks[b].end, End::Return);
        let block = self.block;
        Ok(is_return.then(|| (block, self.results.clone().into_iter().map(|reg| self.read(reg)).collect())))
    }

    /// Sets the source position of new operations. All operations of an inlined routine get that of the instruction.
    fn begin_inst(&mut self, span: ptx::diag::Span) {
        if self.routine.is_none() {
            self.at = span.start;
        }
    }

    /// The values of registers at the start of a block: of its parameters, else those at the end of its dominator.
    fn enter(&mut self, b: usize) {
        self.block = self.first[b];
        self.outstanding.enter(b);
        if !self.graph.is_join(b) {
            return;
        }
        // Dead here; what the dominator left is no value of an outstanding MMA.
        self.outstanding.registers().iter().for_each(|reg| self.now.remove(*reg));
        for i in 0..self.ssa.params(b).len() {
            let reg = self.ssa.params(b)[i];
            let param = self.kernel.code.blocks[self.block].params[i];
            self.now.set(reg, param);
            self.bind(reg, param, 0);
        }
    }

    fn bind(&mut self, reg: ast::Reg, value: Value, at: u32) {
        let is_named = reg != cfg::CARRY && !self.params.contains(reg);
        if self.debug && is_named {
            self.kernel.bindings.push(Binding { reg, value, block: self.block, at });
        }
    }

    /// The values of registers at entry: the parameters of a routine or a device function.
    fn at_entry(&self) -> Vec<(ast::Reg, Value)> {
        match &self.routine {
            Some(routine) => routine.params.clone(),
            None => self.incoming.clone(),
        }
    }

    fn undefined_like(&mut self, value: Value) -> Value {
        let data = self.kernel.code.values[value];
        self.undefined(data.file, data.words)
    }

    /// An undefined value, defined in the entry block.
    fn undefined(&mut self, file: File, words: u8) -> Value {
        let result = self.kernel.code.value(file, words);
        let data = self.data(Op::Pseudo(Pseudo::Undef), &[], &[result], &[]);
        self.kernel.code.append(Function::ENTRY, data);
        result
    }

    /// The terminator of a block, with the arguments of its edges.
    fn end_block(&mut self, b: usize) -> Result<(), Failure> {
        self.begin_inst(self.graph.blocks[b].span);
        let end = match self.graph.blocks[b].end.clone() {
            End::Exit => Terminator::Exit,
            End::Return if self.routine.is_some() => Terminator::Return,
            End::Return if self.device.is_some() || !self.watched.is_empty() => {
                Terminator::Jump(self.last_edge())
            }
            // A kernel has no caller.
            End::Return => Terminator::Exit,
            End::Jump(to) => Terminator::Jump(self.edge(to)),
            End::Branch { guard, uniform, yes, no } => {
                let (predicate, negated) = self.guard(guard, self.graph.blocks[b].span)?;
                let (yes, no) = (self.edge(yes), self.edge(no));
                Terminator::Branch { predicate, negated, uniform, yes, no }
            }
            End::Switch { index, uniform, targets } => self.switch(index, uniform, &targets),
        };
        let block = &mut self.kernel.code.blocks[self.block];
        (block.end, block.end_at) = (end, self.at);
        Ok(())
    }

    /// The edge to the function's single exit block: threads of a device function reconverge there, and values that a
    /// debugger may read are live until there.
    fn last_edge(&mut self) -> Edge {
        let results = self.device.iter().flat_map(|f| &f.returns).flat_map(|r| returned(&self.params, r));
        let results: Vec<ast::Reg> = results.collect();
        let regs: Vec<ast::Reg> = results.iter().chain(&self.watched).copied().collect();
        let args = regs.iter().map(|reg| self.read(*reg)).collect();
        let to = match self.return_block {
            Some(block) => block,
            None => {
                let block = self.kernel.code.block();
                self.return_block = Some(block);
                let here = std::mem::replace(&mut self.block, block);
                let params: Vec<Value> = regs.iter().map(|reg| self.last_value(*reg)).collect();
                self.kernel.code.blocks[block].params = params.clone();
                let last = &mut self.kernel.code.blocks[block];
                last.end_at = self.at;
                if self.device.is_some() {
                    last.end = Terminator::Return;
                    self.hand_back(&params[..results.len()]);
                }
                self.block = here;
                block
            }
        };
        Edge { to, args }
    }

    /// The value of a register in the exit block.
    fn last_value(&mut self, reg: ast::Reg) -> Value {
        let (file, words) = self.shape(reg);
        let value = self.kernel.code.value(file, words);
        self.bind(reg, value, 0);
        value
    }

    /// `brx.idx`: an index outside of the list is undefined behaviour.
    fn switch(&mut self, index: ast::Reg, uniform: bool, targets: &[usize]) -> Terminator {
        let index = self.read(index);
        let mut edges: FxHashMap<usize, Edge> = FxHashMap::default();
        for to in targets {
            if !edges.contains_key(to) {
                edges.insert(*to, self.edge(*to));
            }
        }
        let switch = Switch::new(index, targets.iter().filter_map(|to| edges.get(to).cloned()));
        Terminator::Switch(Box::new(Switch { uniform, ..switch }))
    }

    fn edge(&mut self, to: usize) -> Edge {
        let args = (0..self.ssa.params(to).len()).map(|i| self.read(self.ssa.params(to)[i])).collect();
        Edge { to: self.first[to], args }
    }

    /// The register file and width in words of a PTX register.
    fn shape(&self, reg: ast::Reg) -> (File, u8) {
        if reg == cfg::CARRY {
            return (File::P, 1);
        }
        if self.params.contains(reg) {
            return (File::R, 1);
        }
        let decl = self.body.reg_decl(reg).0;
        match decl.ty == ptx::Type::PRED {
            true => (File::P, 1),
            false => (File::R, (decl.ty.bits() * u32::from(decl.vector.max(1))).div_ceil(32) as u8),
        }
    }
}
