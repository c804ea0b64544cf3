//! Instructions that expand to a routine: PTX of our own (`src/lower/library/*.ptx`), inlined at the use.
//!
//! A routine is a `.func` whose parameters and results are registers. In PTX they are readable, the interpreter can run
//! them, and they work on every target. A routine is parsed when it is first needed.

use super::control::param_words::ParamWords;
use super::{Env, Kernel, Lines, Lower, Returned};
use crate::context::target::TargetMachine;
use crate::context::{Bounds, Tuning};
use crate::module::abi::{Clobbers, Convention, FIRST_ROUTINE_PREDICATE, ROUTINE_BARRIERS};
use crate::module::data::Data;
use crate::module::pragmas::Conventions;
use ori::entity::Entity;
use ori::{Arg, Block, Edge, File, Fixed, Function, InstData, Op, Pseudo, Terminator, Value};
use ptx::ast::{self, Item, ParamPlace, Reg};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// An inlined routine.
pub struct Inlined {
    pub params: Vec<(Reg, Value)>,
}

struct Routine {
    name: &'static str,
    /// The text of the file that it is in.
    file: &'static str,
    /// The header and the routine: parsing the other routines of the file would cost as much again.
    text: OnceLock<String>,
    read: OnceLock<Option<ast::Module<'static>>>,
}

macro_rules! routines {
    ($($file:literal: $($name:literal)*;)*) => {
        [$($(Routine {
            name: $name,
            file: include_str!(concat!("library/", $file, ".ptx")),
            text: OnceLock::new(),
            read: OnceLock::new(),
        }),*),*]
    };
}

const COUNT: usize = 15;
static ROUTINES: [Routine; COUNT] = routines! {
    "bits": "fns";
    "divide": "udiv16" "urem16" "udiv32" "urem32" "udiv64" "urem64" "sdiv64" "srem64";
    "double": "div_f64" "sqrt_f64" "rsqrt_f64";
    "float": "div_f32" "sqrt_f32";
    "policy": "range_policy";
};

/// The environment of code that is in no module of the user.
pub fn detached_env(
    module: &'static ast::Module<'static>,
    machine: &'static TargetMachine,
    tuning: Tuning,
) -> Env<'static> {
    Env {
        module,
        machine,
        lines: LINES.get_or_init(|| Lines::new("")),
        data: DATA.get_or_init(Data::default),
        bounds: &Bounds::NONE,
        limits: LIMITS.get_or_init(FxHashMap::default),
        serial: None,
        debug: false,
        watched: &[],
        caches: (None, None),
        steered: false,
        withheld: &[],
        conventions: CONVENTIONS.get_or_init(Conventions::default),
        clobbers: CLOBBERS.get_or_init(FxHashMap::default),
        preserves_none: false,
        tuning,
    }
}

/// A module and a body without instructions.
pub fn empty() -> Option<(&'static ast::Module<'static>, &'static ast::Body<'static>)> {
    static MODULE: OnceLock<Option<ast::Module<'static>>> = OnceLock::new();
    static BODY: OnceLock<ast::Body<'static>> = OnceLock::new();
    let text = ".version 9.0\n.target sm_75\n.address_size 64\n";
    let module = MODULE.get_or_init(|| ptx::parse(text, &ptx::Options::default()).module);
    Some((module.as_ref()?, BODY.get_or_init(ast::Body::default)))
}

/// Source positions in the library are of no interest to the user: the instruction's own line is reported.
static LINES: OnceLock<Lines> = OnceLock::new();
static DATA: OnceLock<Data> = OnceLock::new();
static CONVENTIONS: OnceLock<Conventions> = OnceLock::new();
static LIMITS: OnceLock<FxHashMap<ast::Symbol, u32>> = OnceLock::new();
static CLOBBERS: OnceLock<FxHashMap<ast::Symbol, Clobbers>> = OnceLock::new();

/// What follows the name of a routine whose last parameter, the rounding, is that to nearest.
const TO_NEAREST: &str = ".rn";

fn find(name: &str) -> Option<(&'static ast::Module<'static>, &'static ast::Function<'static>)> {
    let name = name.strip_suffix(TO_NEAREST).unwrap_or(name);
    let routine = ROUTINES.iter().find(|routine| routine.name == name)?;
    let text = routine.text.get_or_init(|| cut_out(routine.file, name).unwrap_or_default());
    let read = || ptx::parse(text, &ptx::Options::default()).module;
    let module = routine.read.get_or_init(read).as_ref()?;
    module.items.iter().find_map(|item| match item {
        Item::Function(f) => Some((module, &**f)),
        _ => None,
    })
}

/// The header of a file, which ends with an empty line, and one routine of it, which ends with the first brace that
/// begins a line.
fn cut_out(file: &str, name: &str) -> Option<String> {
    let (header, _) = file.get(file.find(".version")?..)?.split_once("\n\n")?;
    let name_at = file.find(&format!(" {name} ("))?;
    let start = file.get(..name_at)?.rfind(".func")?;
    let (routine, _) = file.get(start..)?.split_once("\n}\n")?;
    Some(format!("{header}\n{routine}\n}}\n"))
}

fn registers(params: &[ast::Param]) -> Vec<Reg> {
    let register = |p: &ast::Param| match p.place {
        ParamPlace::Register(reg) => Some(reg),
        ParamPlace::Memory(_) => None,
    };
    params.iter().filter_map(register).collect()
}

/// Registers that belong to the system.
const SYSTEM_REGISTERS: u32 = 2;

/// The first register of a routine that stands for itself; calls move it elsewhere.
pub const WINDOW: u8 = 2;

/// The routines that can be called, with the general registers that each has, its parameters and the return address
/// among them. A test compiles them for all targets with as many.
pub const CALLED: [(&str, u8); 11] = [
    ("div_f32", 12),
    ("sqrt_f32", 12),
    ("div_f64", 16),
    ("div_f64.rn", 16),
    ("sqrt_f64", 12),
    ("sqrt_f64.rn", 12),
    ("rsqrt_f64", 12),
    ("udiv64", 16),
    ("urem64", 16),
    ("sdiv64", 16),
    ("srem64", 16),
];

fn window_registers(name: &str) -> Option<u8> {
    CALLED.iter().find(|(called, _)| *called == name).map(|(_, registers)| *registers)
}

/// Are all of this many registers, from R0 on, below the end of a routine's window?
pub fn fits_window(name: &str, registers: u32) -> bool {
    window_registers(name).is_some_and(|window| registers <= u32::from(WINDOW + window))
}

/// A routine as a function of its own, called as [`Convention::of_routine`] says.
pub fn function(name: &str, machine: &'static TargetMachine, tuning: Tuning) -> Option<Kernel> {
    let (module, source) = find(name)?;
    let body = source.body.as_ref()?;
    let mut kernel = Kernel { entry: false, ..Kernel::new(Function::new(name)) };
    let registers_used = window_registers(name)?;
    kernel.launch.limit(Some(u32::from(WINDOW + registers_used) + SYSTEM_REGISTERS));
    kernel.code.block();
    kernel.code.withheld = withheld();
    let convention = Convention::of_routine(WINDOW, registers_used);
    let results = registers(&source.returns);
    let mut lower = Lower::new(
        &mut kernel,
        detached_env(module, machine, tuning),
        body,
        ParamWords::new(module, body, None),
        &results,
    );
    let mut params = registers(&source.params);
    let rounding = params.pop_if(|_| name.ends_with(TO_NEAREST));
    let values: Vec<Value> = params.iter().map(|reg| lower.parameter(*reg)).collect();
    let data = lower.data(Op::Pseudo(Pseudo::Entry), &[], &values, &[]);
    let entry = lower.kernel.code.append(Function::ENTRY, data);
    let fixed = Fixed { results: consecutive(&lower.kernel.code, &values), ..convention.fixed() };
    lower.kernel.code.fixed.insert(entry, fixed);
    let mut params: Vec<(Reg, Value)> = params.into_iter().zip(values).collect();
    params.extend(rounding.map(|reg| (reg, lower.register(Arg::Imm(0)))));
    lower.routine = Some(Inlined { params });
    let (first, returns) = lower.run().ok()?;
    let last = lower.join_returns(&results, returns);
    let values = lower.kernel.code.blocks[last].params.clone();
    let args: Vec<Arg> = values.iter().map(|v| (*v).into()).collect();
    let data = lower.data(Op::Pseudo(Pseudo::Leave), &[], &[], &args);
    let leave = lower.kernel.code.append(last, data);
    let fixed = Fixed { args: consecutive(&lower.kernel.code, &values), ..convention.fixed() };
    lower.kernel.code.fixed.insert(leave, fixed);
    lower.kernel.code.blocks[last].end = Terminator::Return;
    kernel.code.blocks[Function::ENTRY].end = Terminator::Jump(first);
    Some(kernel)
}

/// What a routine leaves alone, besides all that is after its registers.
fn withheld() -> Vec<(File, u8)> {
    let predicates = (0..FIRST_ROUTINE_PREDICATE).map(|n| (File::P, n));
    let barriers = (ROUTINE_BARRIERS..16).map(|n| (File::B, n));
    [(File::R, 0)].into_iter().chain(predicates).chain(barriers).collect()
}

/// Registers for values from the first of a routine on, aligned to their size.
fn consecutive(code: &Function, values: &[Value]) -> Vec<u8> {
    let mut next = WINDOW;
    let mut place = |value: &Value| {
        let words = code.values[*value].words;
        let at = next.next_multiple_of(words);
        next = at + words;
        at
    };
    values.iter().map(&mut place).collect()
}

impl Lower<'_, '_> {
    /// A new value for a parameter of a routine.
    fn parameter(&mut self, reg: Reg) -> Value {
        let (file, words) = self.shape(reg);
        self.kernel.code.value(file, words)
    }

    /// Calls a routine whose code follows that of the kernel, and returns its results. Where that can't be, in device
    /// functions and between asynchronous MMAs, whose registers are fixed, it is inlined.
    pub(crate) fn call_routine(&mut self, name: &str, args: &[Arg]) -> Option<Vec<Value>> {
        let fixed = |data: &InstData| data.is_wgmma() || data.op == Op::Pseudo(Pseudo::Entry);
        if self.inlines_routines.is_none() {
            let insts = &self.kernel.code.insts;
            self.inlines_routines = Some(insts.keys().any(|i| fixed(&insts[i])));
        }
        if self.inlines_routines == Some(true) {
            return self.routine(name, args);
        }
        let (name, args) = match (args, name) {
            ([args @ .., Arg::Imm(0)], "div_f64" | "sqrt_f64") => (format!("{name}{TO_NEAREST}"), args),
            _ => (name.to_string(), args),
        };
        let convention = Convention::of_routine(WINDOW, window_registers(&name)?);
        let (module, source) = find(&name)?;
        let body = source.body.as_ref()?;
        let code = &mut self.kernel.code;
        let index = code.routines.iter().position(|routine| *routine == name).unwrap_or_else(|| {
            code.routines.push(name);
            code.routines.len() - 1
        });
        let mut values = Vec::new();
        for arg in args {
            let arg = self.in_register(*arg);
            values.push(self.copy(arg));
        }
        let words = |reg: &Reg| body.reg_decl(*reg).0.ty.bits().div_ceil(32) as u8;
        debug_assert!(module.items.len() == 1);
        let results: Vec<Value> = registers(&source.returns)
            .iter()
            .map(|reg| self.kernel.code.value(File::R, words(reg)))
            .collect();
        let of_args = std::iter::once(0).chain(consecutive(&self.kernel.code, &values)).collect();
        let of_results = consecutive(&self.kernel.code, &results);
        let fixed = Fixed { args: of_args, results: of_results, ..convention.fixed() };
        let args: Vec<Arg> =
            std::iter::once(Arg::Imm(index as i64)).chain(values.iter().map(|v| (*v).into())).collect();
        let data = self.data(Op::Pseudo(Pseudo::CallRoutine), &[], &results, &args);
        let inst = self.kernel.code.append(self.block, data);
        self.kernel.code.fixed.insert(inst, fixed);
        Some(results)
    }

    /// A new block with the results as parameters, to which all returns jump.
    fn join_returns(&mut self, results: &[Reg], ends: Vec<Returned>) -> Block {
        let after = self.kernel.code.block();
        for reg in results {
            let param = self.parameter(*reg);
            self.kernel.code.blocks[after].params.push(param);
        }
        for (block, args) in ends {
            self.kernel.code.blocks[block].end = Terminator::Jump(Edge { to: after, args });
        }
        after
    }

    /// Inlines a routine and returns its results. `None` if there is no such routine, or it can't be lowered for this
    /// target.
    pub(crate) fn routine(&mut self, name: &str, args: &[Arg]) -> Option<Vec<Value>> {
        let (module, function) = find(name)?;
        let body = function.body.as_ref()?;
        let values: Vec<Value> = args
            .iter()
            .map(|a| {
                let arg = self.in_register(*a);
                self.copy(arg)
            })
            .collect();
        let results = registers(&function.returns);
        let params = registers(&function.params).into_iter().zip(values).collect();
        let before = self.block;
        let (after, first) = {
            let params_of_calls = ParamWords::new(module, body, None);
            let env = Env {
                caches: self.caches,
                steered: self.steered,
                ..detached_env(module, self.machine, self.tuning)
            };
            let mut inner = Lower::new(self.kernel, env, body, params_of_calls, &results);
            inner.routine = Some(Inlined { params });
            inner.at = self.at;
            inner.descriptor = self.descriptor;
            let (first, returns) = inner.run().ok()?;
            let after = inner.join_returns(&results, returns);
            self.descriptor = inner.descriptor;
            (after, first)
        };
        self.kernel.code.blocks[before].end = Terminator::Jump(first);
        self.block = after;
        Some(self.kernel.code.blocks[after].params.clone())
    }

    /// `work` computed in a cold branch if a predicate is true (false, if negated), else `otherwise`.
    pub(crate) fn select_lazily(
        &mut self,
        (predicate, negated): (Value, bool),
        otherwise: Value,
        work: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Option<Value> {
        let before = self.block;
        let (first, last) = self.cold_branch(work)?;
        let after = self.join_of_branches(otherwise);
        let (yes, no) = (Edge::to(first), Edge { to: after, args: vec![otherwise] });
        let code = &mut self.kernel.code;
        code.blocks[last.0].end = Terminator::Jump(Edge { to: after, args: vec![last.1] });
        code.blocks[before].end = Terminator::Branch { predicate, negated, uniform: false, yes, no };
        self.kernel.code.blocks[after].params.first().copied()
    }

    /// `rare` computed in a cold branch if a predicate is true, else `usual` in another.
    pub(crate) fn select_lazily_between(
        &mut self,
        predicate: Value,
        rare: impl FnOnce(&mut Self) -> Option<Value>,
        usual: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Option<Value> {
        let before = self.block;
        let (first, last) = self.cold_branch(rare)?;
        let first_usual = self.kernel.code.block();
        self.block = first_usual;
        let result = usual(self)?;
        let last_usual = (self.block, result);
        let after = self.join_of_branches(result);
        let code = &mut self.kernel.code;
        for (block, value) in [last, last_usual] {
            code.blocks[block].end = Terminator::Jump(Edge { to: after, args: vec![value] });
        }
        let (yes, no) = (Edge::to(first), Edge::to(first_usual));
        code.blocks[before].end = Terminator::Branch { predicate, negated: false, uniform: false, yes, no };
        self.kernel.code.blocks[after].params.first().copied()
    }

    /// Cold blocks with some work: the first of them, the last one and the value of the work.
    fn cold_branch(
        &mut self,
        work: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Option<(Block, (Block, Value))> {
        let first = self.kernel.code.block();
        self.block = first;
        let result = work(self)?;
        for block in (first.index()..self.kernel.code.blocks.len()).map(Block::new) {
            self.kernel.code.blocks[block].cold = true;
        }
        Some((first, (self.block, result)))
    }

    /// A new block, where lowering goes on, with a parameter like a value.
    fn join_of_branches(&mut self, like: Value) -> Block {
        let after = self.kernel.code.block();
        let data = self.kernel.code.values[like];
        let param = self.kernel.code.value(data.file, data.words);
        self.kernel.code.blocks[after].params.push(param);
        self.block = after;
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_routine_is_found() {
        for routine in &ROUTINES {
            let (module, function) = find(routine.name).expect(routine.name);
            let name = module.symbols[function.symbol.0 as usize].name;
            assert_eq!((module.names[name.0 as usize], module.items.len()), (routine.name, 1));
            let listed = ROUTINES.iter().filter(|other| other.file == routine.file).count();
            assert_eq!(routine.file.matches("\n.func ").count(), listed, "the file of {}", routine.name);
        }
    }
}
