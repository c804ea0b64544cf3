//! Checks calls: the target, the number of arguments, and each argument against its formal parameter.
//!
//! Returns and parameters follow one rule. Scalars match when they are equally wide and not one an integer and
//! the other a float; arrays match when they take equally many bytes; alignments must be equal. A register may
//! stand for a scalar parameter in memory and the other way round. The rule was read off a table of all kinds
//! of formals against all kinds of arguments.

use super::compatible;
use crate::ast::*;
use crate::parse::{Formal, Parse, Parser, Signature};
use crate::target::Version;
use crate::types::{Class, Type};

/// The operands of a call.
struct Call {
    returns: Vec<Operand>,
    target: Operand,
    args: Vec<Operand>,
    /// The label of a prototype or of call targets.
    table: Option<Operand>,
}

/// What an argument is to its formal parameter.
struct Shape {
    ty: Type,
    vector: u8,
    bytes: u64,
    align: u64,
    array: bool,
    memory: bool,
}

impl Parser<'_> {
    pub(super) fn check_call(&mut self, inst: &Inst) -> Parse<()> {
        let Some(call) = self.call(inst) else { return Ok(()) };
        match (call.target, call.table) {
            (Operand::Symbol(_), Some(table)) => {
                self.error(inst.span, "Argument 0 of instruction 'call': must be register");
                return self.check_table(inst, &call, table).map(drop);
            }
            (Operand::Symbol(symbol), None) => self.check_direct(inst, &call, symbol),
            (Operand::Unresolved(name), _) => {
                let name = self.names.text(name);
                self.error(inst.span, format!("Call to '{name}' requires call prototype"));
            }
            (_, None) => {
                self.error(inst.span, "Label expected for argument 0 of instruction 'call'");
                return self.fatal(inst.span, "Call target not recognized");
            }
            (Operand::Reg(reg), Some(table)) => return self.check_indirect(inst, &call, reg, table),
            _ => self.error(inst.span, "Arguments mismatch for instruction 'call'"),
        }
        Ok(())
    }

    fn call(&self, inst: &Inst) -> Option<Call> {
        let list = |operand: &Operand| match operand {
            Operand::List(range) => Some(self.body.list(*range).to_vec()),
            _ => None,
        };
        let mut operands = self.body.list(inst.operands);
        let take_list = |operands: &mut &[Operand]| {
            let taken = operands.first().and_then(list);
            if taken.is_some() {
                *operands = &operands[1..];
            }
            taken.unwrap_or_default()
        };
        let returns = take_list(&mut operands);
        let (&target, mut operands) = operands.split_first()?;
        let args = take_list(&mut operands);
        Some(Call { returns, target, args, table: operands.first().copied() })
    }

    fn check_direct(&mut self, inst: &Inst, call: &Call, symbol: Symbol) {
        match self.symbols.get(symbol.0 as usize).map(|s| s.kind.clone()) {
            Some(SymbolKind::Function { entry: false }) => self.check_signature(inst, call, symbol),
            Some(SymbolKind::Alias(real)) => self.check_signature(inst, call, real),
            Some(SymbolKind::Variable { .. }) => {
                self.error(inst.span, "Label expected for argument 0 of instruction 'call'");
                self.error(inst.span, "Argument 0 of instruction 'call': must be register");
            }
            Some(_) => self.error(inst.span, "Illegal call target, device function expected"),
            None => {}
        }
    }

    fn check_indirect(&mut self, inst: &Inst, call: &Call, reg: Reg, table: Operand) -> Parse<()> {
        let ty = self.body.reg_decl(reg).0.ty;
        if !compatible(Type::U64, ty) && !compatible(Type::U32, ty) {
            self.error(inst.span, "Arguments mismatch for instruction 'call'");
            return Ok(());
        }
        self.gate("indirect call", Version::new(2, 1), 0, inst.span);
        if self.target.sm() < 20 {
            self.error(inst.span, "Instruction 'indirect call' requires .target sm_20 or higher");
        }
        for function in self.check_table(inst, call, table)? {
            self.check_signature(inst, call, function);
        }
        Ok(())
    }

    /// What a call through a register may reach: a prototype, or the functions of a `.calltargets`.
    fn check_table(&mut self, inst: &Inst, call: &Call, table: Operand) -> Parse<Vec<Symbol>> {
        let is_variable = |s: &SymbolInfo| matches!(s.kind, SymbolKind::Variable { .. });
        match table {
            Operand::Symbol(label) if self.signatures.contains_key(&label) => Ok(vec![label]),
            Operand::Symbol(label) if self.call_targets.contains_key(&label) => {
                Ok(self.call_targets.get(&label).cloned().unwrap_or_default())
            }
            Operand::Symbol(label) if !self.symbols.get(label.0 as usize).is_some_and(is_variable) => {
                self.fatal(inst.span, "Call target not recognized")
            }
            Operand::Unresolved(name) => {
                let name = self.names.text(name);
                self.error(inst.span, format!("Unknown symbol '{name}'"));
                self.error(inst.span, "Arguments mismatch for instruction 'call'");
                Ok(Vec::new())
            }
            _ => {
                let index = 1 + usize::from(!call.args.is_empty());
                let text = format!(
                    "Label or .u32/.u64/.u8 array expected for argument {index} of instruction 'call'"
                );
                self.fatal(inst.span, text)
            }
        }
    }

    fn check_signature(&mut self, inst: &Inst, call: &Call, function: Symbol) {
        let Some(signature) = self.signatures.get(&function).cloned() else { return };
        let Signature { returns, params, names, .. } = &signature;
        // The open array at the end of a variadic function's parameters may be left out.
        let variadic = params.last().is_some_and(|p| p.array && p.bytes == 0);
        let missing = params.len().wrapping_sub(call.args.len());
        if returns.len() != call.returns.len() || missing != 0 && !(variadic && missing == 1) {
            self.error(inst.span, "Call has wrong number of parameters");
        }
        let (return_names, param_names) = names.split_at(returns.len().min(names.len()));
        for ((formal, name), actual) in returns.iter().zip(return_names).zip(&call.returns) {
            if !matches!(actual, Operand::Sink) {
                self.check_argument(inst, formal, *name, *actual);
            }
        }
        for ((formal, name), actual) in params.iter().zip(param_names).zip(&call.args) {
            self.check_argument(inst, formal, *name, *actual);
        }
    }

    fn check_argument(&mut self, inst: &Inst, formal: &Formal, name: Option<Name>, actual: Operand) {
        let formal_name = name.map_or("_", |n| self.names.text(n)).to_string();
        let wrong_type = format!("Type of argument does not match formal parameter '{formal_name}'");
        let wrong_align = format!("Alignment of argument does not match formal parameter '{formal_name}'");
        let constant_fits =
            |class: Class| !formal.array && matches!(formal.ty.class(), c if c == class || c == Class::Bits);
        let shape = match actual {
            Operand::Int { .. } if constant_fits(Class::Unsigned) || constant_fits(Class::Signed) => return,
            Operand::F32(_) | Operand::F64(_) if constant_fits(Class::Float) => return,
            Operand::Int { .. } | Operand::F32(_) | Operand::F64(_) => {
                return self.error(inst.span, wrong_type);
            }
            Operand::Sink => {
                let text = format!("Illegal argument for formal parameter '{formal_name}'");
                return self.error(inst.span, text);
            }
            Operand::Symbol(symbol) if self.is_own_formal(symbol) => {
                let name = self.symbol_name(symbol);
                let text = format!(
                    "Formal parameter '{name}' declared in .param space cannot be used as argument to call"
                );
                return self.error(inst.span, text);
            }
            other => self.shape(other),
        };
        for text in self.complaints_about_place(formal, &formal_name, actual, shape.as_ref()) {
            self.error(inst.span, text);
        }
        if shape.as_ref().is_none_or(|s| !s.matches(formal)) {
            self.error(inst.span, wrong_type);
        }
        if shape.as_ref().is_none_or(|s| s.align != formal.align) {
            self.error(inst.span, wrong_align);
        }
    }

    /// What is wrong with where an argument is.
    fn complaints_about_place(
        &self,
        formal: &Formal,
        formal_name: &str,
        actual: Operand,
        shape: Option<&Shape>,
    ) -> Vec<String> {
        let mut texts = Vec::new();
        let name = match actual {
            Operand::Reg(reg) => self.reg_name(reg),
            Operand::Symbol(symbol) => self.symbol_name(symbol),
            Operand::Special { row, .. } => crate::sreg::TABLE[row as usize].name.to_string(),
            _ => String::new(),
        };
        let illegal_space = match actual {
            Operand::Special { .. } => true,
            Operand::Symbol(symbol) => match self.symbols.get(symbol.0 as usize).map(|s| &s.kind) {
                Some(SymbolKind::Variable { space, .. }) => *space != Space::Param,
                Some(SymbolKind::Function { .. }) => true,
                _ => false,
            },
            _ => false,
        };
        if illegal_space {
            texts.push(format!("Call argument '{name}' has illegal state space"));
        } else if shape.is_none() {
            texts.push(format!("Illegal argument for formal parameter '{formal_name}'"));
        }
        let array_for_register = shape.is_some_and(|s| s.array) && !formal.memory;
        let register_for_array = shape.is_some_and(|s| !s.memory) && formal.array && formal.bytes > 0;
        if array_for_register || register_for_array {
            texts.push(format!("Inconsistent state space for parameter '{name}'"));
        }
        texts
    }

    /// The shape of an argument; `None` for what can't be one.
    fn shape(&self, operand: Operand) -> Option<Shape> {
        match operand {
            Operand::Reg(reg) => {
                let RegDecl { ty, vector, .. } = *self.body.reg_decl(reg).0;
                let bytes = u64::from(ty.bytes()) * u64::from(vector);
                Some(Shape {
                    ty,
                    vector,
                    bytes,
                    align: alignment(ty, vector, None),
                    array: false,
                    memory: false,
                })
            }
            Operand::Symbol(symbol) => match self.symbols.get(symbol.0 as usize)?.kind {
                SymbolKind::Variable { space, ty, vector, bytes, align, array } => {
                    Some(Shape { ty, vector, bytes, align, array, memory: space == Space::Param })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What goes to a call or comes from it does so for all threads.
    pub(crate) fn check_argument_guard(&mut self, inst: &Inst) {
        let mnemonic = self.opcodes[inst.opcode.0 as usize].mnemonic;
        if inst.guard.is_none() || !matches!(mnemonic, "ld" | "st") {
            return;
        }
        let address = self.body.list(inst.operands).iter().find_map(|o| match o {
            Operand::Address(range) => self.body.list(*range).first(),
            _ => None,
        });
        let Some(Operand::Symbol(symbol)) = address.copied() else { return };
        let kind = self.symbols.get(symbol.0 as usize).map(|info| &info.kind);
        let is_param = matches!(kind, Some(SymbolKind::Variable { space: Space::Param, .. }));
        if is_param && !self.is_own_formal(symbol) {
            let name = self.symbol_name(symbol);
            let text = format!("Illegal to predicate instruction '{mnemonic}.param' with operand '{name}'");
            self.error(inst.span, text);
        }
    }

    fn is_own_formal(&self, symbol: Symbol) -> bool {
        let formals = &self.function.formals;
        formals.params.contains(&symbol) || formals.returns.contains(&symbol)
    }

    pub(crate) fn symbol_name(&self, symbol: Symbol) -> String {
        match self.symbols.get(symbol.0 as usize) {
            Some(SymbolInfo { name, member: Some(i), .. }) => format!("{}{i}", self.names.text(*name)),
            Some(SymbolInfo { name, .. }) => self.names.text(*name).to_string(),
            None => String::new(),
        }
    }
}

impl Shape {
    fn matches(&self, formal: &Formal) -> bool {
        if formal.array || self.array {
            let open = formal.bytes == 0;
            return formal.array && self.array && (open || formal.bytes == self.bytes);
        }
        // Vectors count as untyped bits, and so does a register of two halves.
        let untyped = self.vector > 1 || formal.vector > 1 || self.ty.name() == "f16x2";
        match untyped {
            true => formal.bytes == self.bytes,
            false => compatible(formal.ty, self.ty),
        }
    }
}

#[cfg(test)]
mod tests {
    /// What is said about a body that can call `f`, which takes a word and returns one.
    fn said(body: &str) -> Vec<String> {
        let source = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.func (.param .b32 r) f (.param .b32 a) {{ ret; }}\n\
             .entry k() {{\n.reg .b64 %rd<3>; .reg .f32 %f<3>; .param .b32 x; .param .b32 y; .param .b64 wide;\n\
             {body}\nret; }}\n"
        );
        let parsed = crate::parse(&source, &crate::Options::default());
        parsed.diagnostics.iter().map(|d| d.message.clone()).collect()
    }

    #[test]
    fn arguments_match_their_formals() {
        assert!(said("call (y), f, (x);").is_empty());
        assert!(said("call (_), f, (%f1);").is_empty());
        assert_eq!(said("call f, (x);"), ["Call has wrong number of parameters"]);
        let wide = said("call (y), f, (wide);");
        assert_eq!(wide[0], "Type of argument does not match formal parameter 'a'");
        assert_eq!(wide[1], "Alignment of argument does not match formal parameter 'a'");
    }

    #[test]
    fn a_call_through_a_register_needs_a_prototype() {
        assert!(
            said("P: .callprototype (.param .b32 _) _ (.param .b32 _); call (y), %rd1, (x), P;").is_empty()
        );
        assert_eq!(said("call (y), nothing, (x);")[0], "Call to 'nothing' requires call prototype");
        let wrong = said("call (y), %rd1, (x);");
        assert_eq!(
            wrong,
            ["Label expected for argument 0 of instruction 'call'", "Call target not recognized"]
        );
    }
}
