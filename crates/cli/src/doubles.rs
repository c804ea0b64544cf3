//! `--warn-on-double-precision-use`: a warning for each instruction on doubles.

use ptx::ast::{Item, Module, Stmt};
use ptx::diag::{Diagnostic, Severity, Span};

const MESSAGE: &str = "Program is doing double precision computations.";

/// Puts the warnings among the front end's diagnostics: each before what is said about a later line. As an error ptxas
/// says it once a line.
pub fn warn(source: &str, module: &Module, is_error: bool, diagnostics: &mut Vec<Diagnostic>) {
    let mut warnings = warnings(source, module);
    if is_error {
        warnings.dedup_by_key(|warning| warning.line);
    }
    let mut warnings = warnings.into_iter().peekable();
    let mut all = Vec::new();
    for diagnostic in std::mem::take(diagnostics) {
        while let Some(warning) = warnings.next_if(|w| w.line <= diagnostic.line) {
            all.push(warning);
        }
        all.push(diagnostic);
    }
    all.extend(warnings);
    *diagnostics = all;
}

/// Instructions for which ptxas says it twice.
const TWICE: [&str; 2] = ["cvt", "testp"];

/// ptxas goes by the modifier: loads and moves count too.
fn warnings(source: &str, module: &Module) -> Vec<Diagnostic> {
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    });
    let is_double = |stmt: &Stmt| match stmt {
        Stmt::Inst(inst) => {
            let opcode = module.opcodes.get(inst.opcode.0 as usize)?;
            let is_double = opcode.spelling.split('.').any(|word| word == "f64");
            let times = if TWICE.contains(&opcode.mnemonic) { 2 } else { 1 };
            is_double.then_some(std::iter::repeat_n(inst.span, times))
        }
        _ => None,
    };
    let mut place = Place { line: 1, byte: 0 };
    let warning = |span: Span| Diagnostic {
        severity: Severity::Warning,
        file: None,
        line: Some(place.line_at(source, span.start as usize)),
        span,
        message: MESSAGE.to_string(),
    };
    functions.flat_map(|body| &body.stmts).filter_map(is_double).flatten().map(warning).collect()
}

/// How far lines have been counted.
struct Place {
    line: u32,
    byte: usize,
}

impl Place {
    fn line_at(&mut self, source: &str, byte: usize) -> u32 {
        let new = source.as_bytes().get(self.byte..byte).unwrap_or_default();
        self.line += new.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.byte = self.byte.max(byte);
        self.line
    }
}
