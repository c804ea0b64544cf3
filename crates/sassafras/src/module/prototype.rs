//! Prototypes of functions: formal parameters and results, their shapes in the ABI, and the text that `nvlink` compares.

use crate::module::abi::{Asked, Shape};
use ptx::Type;
use ptx::ast::{self, Item, Operand, Param, Stmt, Symbol};

/// The formal results and parameters of a function, and its directives.
#[derive(Clone, Copy)]
pub struct Prototype<'a> {
    pub returns: &'a [Param],
    pub params: &'a [Param],
    pub directives: &'a [ast::FunctionDirective<'a>],
}

impl<'a> Prototype<'a> {
    pub fn of(function: &'a ast::Function) -> Prototype<'a> {
        let ast::Function { returns, params, directives, .. } = function;
        Prototype { returns, params, directives }
    }
}

/// The prototype of the function that a call's operands name.
pub fn prototype<'a>(
    module: &'a ast::Module,
    body: &'a ast::Body,
    operands: &[Operand],
) -> Option<Prototype<'a>> {
    let named = |symbol: Symbol| {
        let mut items = module.items.iter();
        let found = items.find_map(|item| match item {
            Item::Function(f) if f.symbol == symbol => Some(Prototype::of(f)),
            _ => None,
        });
        found.or_else(|| {
            body.stmts.iter().find_map(|s| match s {
                Stmt::Function(f) if f.symbol == symbol => Some(Prototype::of(f)),
                Stmt::Prototype(p) if p.label == symbol => {
                    let ast::Prototype { returns, params, directives, .. } = &**p;
                    Some(Prototype { returns, params, directives })
                }
                Stmt::Targets(t) if t.label == symbol => match body.list(t.targets).first() {
                    Some(Operand::Symbol(first)) if *first != symbol => {
                        prototype(module, body, &[Operand::Symbol(*first)])
                    }
                    _ => None,
                },
                _ => None,
            })
        })
    };
    // The last symbol: the function itself, or the prototype after the address in a register.
    operands
        .iter()
        .rev()
        .find_map(|o| if let Operand::Symbol(s) = o { Some(*s) } else { None })
        .and_then(named)
}

/// Does a function have more than one result? Then ptxas uses no ABI for the module.
pub fn has_several_results(module: &ast::Module) -> bool {
    module.items.iter().any(|item| matches!(item, Item::Function(f) if f.returns.len() > 1))
}

/// A last parameter `x[]`: its size is the argument's, and it is on the stack.
pub fn is_variadic(param: &Param) -> bool {
    param.dims.contains(&None)
}

/// Variadic parameters have no bytes.
pub fn shape(param: &Param) -> Shape {
    // A predicate is passed as a word.
    let bytes = if param.ty == Type::PRED { 4 } else { param.bytes() as u32 };
    Shape { bytes, align: param.alignment() as u32 }
}

pub fn shapes(list: &[Param]) -> Vec<Shape> {
    list.iter().map(shape).collect()
}

/// A function's type as `nvlink` compares it: the result and the parameters, each a letter for its scalar type and its
/// array size; then the convention. As ptxas writes it, for all types that it accepts.
pub fn prototype_text(asked: Asked, returns: &[Param], params: &[Param]) -> String {
    let letter = |param: &Param| match (param.ty.bits() * u32::from(param.vector.max(1)), param.ty.name()) {
        (32, "f32") => 'f',
        (64, "f64") => 'd',
        (8, _) => 'b',
        (16, _) => 'h',
        (32, _) => 'i',
        (64, _) => 'l',
        _ => 'x',
    };
    let mut text = "#".to_string();
    if returns.is_empty() {
        text.push('v');
    }
    for param in returns.iter().chain(params) {
        text.push(letter(param));
        if !param.dims.is_empty() {
            let count: u64 = param.dims.iter().map(|n| n.unwrap_or(0)).product();
            text += &count.to_string();
        }
    }
    text + &asked.text(&shapes(returns), &shapes(params))
}
