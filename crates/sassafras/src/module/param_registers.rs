//! The pragma `abi_param_reg`: its text, and the limit that it and `.abi_preserve` are checked against.

use ptx::ast::{Body, Stmt};

pub const PARAMETERS: &str = "abi_param_reg ";

/// The pragmas in a body.
pub fn of_body<'b>(body: &'b Body) -> impl Iterator<Item = &'b str> {
    let pragmas = body.stmts.iter().filter_map(|s| if let Stmt::Pragma(p) = s { Some(p) } else { None });
    pragmas.flat_map(|strings| strings.iter()).map(|s| s.trim_matches('"'))
}

/// The register limit of all device functions, and whether functions of other files rely on a pragma.
#[derive(Clone, Copy)]
pub struct Limit {
    pub registers: u32,
    pub relocatable: bool,
}
