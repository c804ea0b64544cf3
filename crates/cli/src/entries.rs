//! The kernels of a module, and `-e`, which chooses among them.

use crate::log::{Log, Stop};
use crate::options::{Given, Id};
use ptx::ast::{Item, Module};

/// A function with a body.
#[derive(Clone, Copy)]
pub struct Defined<'s> {
    pub name: &'s str,
    pub is_entry: bool,
}

/// For each item of the module the function that it defines, if it does.
pub fn defined<'s>(module: &Module<'s>) -> Vec<Option<Defined<'s>>> {
    let of = |item: &Item<'s>| match item {
        Item::Function(function) if function.body.is_some() => {
            let symbol = module.symbols.get(function.symbol.0 as usize)?;
            let name = module.names.get(symbol.name.0 as usize)?;
            Some(Defined { name, is_entry: function.entry })
        }
        _ => None,
    };
    module.items.iter().map(of).collect()
}

/// `-e`: other kernels are dropped. ptxas compiles functions from last to first, and these in the order of the list. A patch
/// for tools has no kernels, and any of its functions may be named.
pub fn select(given: &Given, module: &mut Module, log: &mut Log) -> Result<(), Stop> {
    let wanted = given.list(Id::Entry);
    if wanted.is_empty() {
        return Ok(());
    }
    let defined = defined(module);
    for name in wanted {
        match defined.iter().flatten().find(|function| function.name == name) {
            None => return Err(log.fatal(&format!("Unknown function {name}"))),
            Some(function) if !function.is_entry && !given.has(Id::ToolsPatch) => {
                log.error(&format!("Entry function '{name}' not found"))
            }
            Some(_) => {}
        }
    }
    log.abort_if_failed()?;
    // What is no kernel comes first, as it was.
    let place = |function: Option<Defined>| match function {
        Some(function) if function.is_entry => {
            wanted.iter().position(|name| name == function.name).map(|place| place + 1)
        }
        _ => Some(0),
    };
    let items = std::mem::take(&mut module.items).into_iter().zip(defined);
    let mut kept: Vec<(usize, Item)> =
        items.filter_map(|(item, function)| Some((place(function)?, item))).collect();
    kept.sort_by_key(|(place, _)| *place);
    module.items = kept.into_iter().map(|(_, item)| item).collect();
    Ok(())
}
