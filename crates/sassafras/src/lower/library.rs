//! Instructions that become a routine: PTX of our own (`src/library/*.ptx`), put in at the place of use.
//!
//! A routine is a `.func` whose parameters and results are registers. Writing them in PTX keeps them readable, lets
//! the interpreter run them, and makes them work on every target. A file is read when one of its routines is needed.

use super::call::ParamWords;
use super::graph::End;
use super::{Env, Lines, Lower};
use crate::data::Data;
use crate::launch::Bounds;
use ori::{Arg, Edge, Terminator, Value};
use ptx::ast::{self, Item, ParamPlace, Reg};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// A routine at its place of use.
pub struct Inlined {
    pub params: FxHashMap<Reg, Value>,
}

struct Source {
    text: &'static str,
    read: OnceLock<Option<ast::Module<'static>>>,
}

const fn source(text: &'static str) -> Source {
    Source { text, read: OnceLock::new() }
}

macro_rules! files {
    ($($name:literal)*) => {
        [$(source(include_str!(concat!("../library/", $name, ".ptx")))),*]
    };
}

const COUNT: usize = 5;
static FILES: [Source; COUNT] = files! {
    "bits"
    "divide"
    "double"
    "float"
    "policy"
};

/// Places in the library are of no interest to the user: the instruction's own line counts.
static LINES: OnceLock<Lines> = OnceLock::new();
static DATA: OnceLock<Data> = OnceLock::new();

fn find(name: &str) -> Option<(&'static ast::Module<'static>, &'static ast::Function<'static>)> {
    let head = format!(" {name} (");
    let source = FILES.iter().find(|file| file.text.contains(&head))?;
    let module =
        source.read.get_or_init(|| ptx::parse(source.text, &ptx::Options::default()).module).as_ref()?;
    let named = |f: &ast::Function| module.names[module.symbols[f.symbol.0 as usize].name.0 as usize] == name;
    module.items.iter().find_map(|item| match item {
        Item::Function(f) if named(f) => Some((module, &**f)),
        _ => None,
    })
}

fn registers(params: &[ast::Param]) -> Vec<Reg> {
    let register = |p: &ast::Param| match p.place {
        ParamPlace::Register(reg) => Some(reg),
        ParamPlace::Memory(_) => None,
    };
    params.iter().filter_map(register).collect()
}

impl Lower<'_, '_> {
    /// Puts a routine in here and returns its results. `None` if there is no such routine, or it can't be lowered
    /// for this machine.
    pub(super) fn routine(&mut self, name: &str, args: &[Arg]) -> Option<Vec<Value>> {
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
                withheld,
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
    /// A value that is worked out by `work` where a predicate holds (or doesn't, if negated), and is `otherwise`
    /// elsewhere.
    pub(super) fn where_holds(
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
