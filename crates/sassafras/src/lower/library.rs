//! Instructions that expand to a routine: PTX of our own (`src/lower/library/*.ptx`), inlined at the use.
//!
//! A routine is a `.func` whose parameters and results are registers. In PTX they are readable, the interpreter can run
//! them, and they work on every target. A routine is parsed when it is first needed.

use super::control::call::ParamWords;
use super::control::cfg::End;
use super::{Env, Lines, Lower};
use crate::context::Bounds;
use crate::module::data::Data;
use crate::module::pragmas::Conventions;
use ori::{Arg, Edge, Terminator, Value};
use ptx::ast::{self, Item, ParamPlace, Reg};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// An inlined routine.
pub struct Inlined {
    pub params: FxHashMap<Reg, Value>,
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

const COUNT: usize = 13;
static ROUTINES: [Routine; COUNT] = routines! {
    "bits": "fns";
    "divide": "udiv16" "urem16" "udiv32" "urem32" "udiv64" "urem64";
    "double": "div_f64" "sqrt_f64" "rsqrt_f64";
    "float": "div_f32" "sqrt_f32";
    "policy": "range_policy";
};

/// Source positions in the library are of no interest to the user: the instruction's own line is reported.
static LINES: OnceLock<Lines> = OnceLock::new();
static DATA: OnceLock<Data> = OnceLock::new();
static CONVENTIONS: OnceLock<Conventions> = OnceLock::new();

fn find(name: &str) -> Option<(&'static ast::Module<'static>, &'static ast::Function<'static>)> {
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

impl Lower<'_, '_> {
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
        let lines = LINES.get_or_init(|| Lines::new(""));
        let before = self.block;
        let (after, ways, first) = {
            let params_of_calls = ParamWords::new(module, body, None);
            let data = DATA.get_or_init(Data::default);
            let (bounds, machine, watched, caches) = (&Bounds::NONE, self.machine, &[], self.caches);
            let (limits, serial, debug, withheld) = (&FxHashMap::default(), None, false, &[]);
            let (steered, conventions) = (self.steered, CONVENTIONS.get_or_init(Conventions::default));
            let env = Env {
                module,
                machine,
                lines,
                data,
                bounds,
                limits,
                serial,
                debug,
                watched,
                caches,
                steered,
                withheld,
                conventions,
                tuning: self.tuning,
            };
            let mut inner = Lower::new(self.kernel, env, body, params_of_calls, &results);
            inner.routine = Some(Inlined { params });
            inner.at = self.at;
            inner.descriptor = self.descriptor;
            let (first, returns) = inner.run().ok()?;
            let mut ways = Vec::new();
            for b in returns {
                debug_assert!(matches!(inner.graph.blocks[b].end, End::Return));
                inner.now = std::mem::take(&mut inner.at_end[b]);
                inner.block = inner.last[b];
                let args: Vec<Value> = results.iter().map(|r| inner.read(*r)).collect();
                ways.push((inner.last[b], args));
            }
            let shapes: Vec<_> = results.iter().map(|r| inner.shape(*r)).collect();
            self.descriptor = inner.descriptor;
            let after = self.kernel.code.block();
            for (file, words) in shapes {
                let param = self.kernel.code.value(file, words);
                self.kernel.code.blocks[after].params.push(param);
            }
            (after, ways, first)
        };
        self.kernel.code.blocks[before].end = Terminator::Jump(first);
        for (block, args) in ways {
            self.kernel.code.blocks[block].end = Terminator::Jump(Edge { to: after, args });
        }
        self.block = after;
        Some(self.kernel.code.blocks[after].params.clone())
    }
    /// `work` computed in a branch if a predicate is true (false, if negated), else `otherwise`.
    pub(crate) fn select_lazily(
        &mut self,
        (predicate, negated): (Value, bool),
        otherwise: Value,
        work: impl FnOnce(&mut Self) -> Option<Value>,
    ) -> Option<Value> {
        let (before, first) = (self.block, self.kernel.code.block());
        self.block = first;
        let result = work(self)?;
        let after = self.kernel.code.block();
        let data = self.kernel.code.values[otherwise];
        let param = self.kernel.code.value(data.file, data.words);
        let code = &mut self.kernel.code;
        code.blocks[after].params.push(param);
        code.blocks[self.block].end = Terminator::Jump(Edge { to: after, args: vec![result] });
        let (yes, no) = (Edge::to(first), Edge { to: after, args: vec![otherwise] });
        code.blocks[before].end = Terminator::Branch { predicate, negated, uniform: false, yes, no };
        self.block = after;
        Some(param)
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
