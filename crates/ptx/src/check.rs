//! Checks an instruction's operands against the forms that its opcode may be.
//!
//! An instruction is right if one form takes all its operands. The message for a wrong one comes from the form
//! that got furthest. Register types follow one rule ([`compatible`]), found by trying each register type on
//! each class of instruction (docs/ptx-language.md).

use crate::ast::*;
use crate::parse::Parser;
use crate::sreg;
use crate::table::{Count, Fit, Gate, OpcodeError, Role, Spec, Table, TypeRef, Values};
use crate::types::{Class, Type};
use crate::words::Kind;

/// May a register of type `reg` stand where an instruction wants `need`?
pub fn compatible(need: Type, reg: Type) -> bool {
    need.bits() == reg.bits() && same_class(need, reg)
}

/// The rule of `ld`, `st` and `cvt`: the register may be wider, unless its type or the needed one is a float.
pub fn compatible_wider(need: Type, reg: Type) -> bool {
    compatible(need, reg)
        || reg.bits() > need.bits()
            && same_class(need, reg)
            && (need.class() != Class::Float || reg.class() == Class::Bits)
}

fn same_class(need: Type, reg: Type) -> bool {
    // A register of type .f16x2 counts as an integer of 32 bits.
    let int = |t: Type| t.is_int() || t.name() == "f16x2";
    match (need.class(), reg.class()) {
        (Class::Pred, other) | (other, Class::Pred) => other == Class::Pred,
        (_, Class::Bits) | (Class::Bits, _) => true,
        (Class::Float, class) => class == Class::Float,
        _ if need.name() == "f16x2" => reg == need,
        (Class::Unsigned | Class::Signed, _) => int(reg),
        _ => false,
    }
}

/// Lanes of a warp.
const LANES: u32 = 32;

/// Why an operand doesn't fit.
enum Misfit {
    /// `Arguments mismatch for instruction 'x'`
    Mismatch,
    Text(String),
    /// A wrong size or value, which is only looked at when every operand is of the right kind.
    Late(String),
}

/// ptxas's text when no form fits: of the form that only has a wrong size or value, else a text of its own
/// if there is one form, else the general one.
fn explain(misfits: Vec<Misfit>, mnemonic: &str) -> String {
    let general = misfits.len() > 1 && misfits.iter().any(|m| matches!(m, Misfit::Mismatch));
    let late = misfits.iter().position(|m| matches!(m, Misfit::Late(_))).unwrap_or(0);
    match misfits.into_iter().nth(late) {
        Some(Misfit::Late(text)) => text,
        Some(Misfit::Text(text)) if !general => text,
        _ => format!("Arguments mismatch for instruction '{mnemonic}'"),
    }
}

impl Parser<'_> {
    pub(crate) fn check_instruction(&mut self, inst: &Inst) {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        if !opcode.errors.is_empty() {
            for error in opcode.errors.clone() {
                if let OpcodeError::Message(text) = error {
                    self.error(inst.span, text);
                }
            }
            return;
        }
        let table = Table::get();
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let mut misfits = Vec::new();
        for fit in &opcode.fits {
            let matcher = Matcher { parser: self, fit, vector: opcode.vector(), mnemonic: opcode.mnemonic };
            let mut gates = Vec::new();
            match matcher.all(&table.form(fit.form).operands, operands, &mut gates) {
                Ok(()) => return self.check_gates(inst, &gates),
                Err(misfit) => misfits.push(misfit),
            }
        }
        let text = explain(misfits, opcode.mnemonic);
        self.error(inst.span, text);
    }

    fn check_gates(&mut self, inst: &Inst, gates: &[Gate]) {
        for gate in gates {
            for text in gate.refusals(self.target, self.version).into_iter().flatten() {
                self.error(inst.span, text);
            }
        }
        let mut specials: smallvec::SmallVec<[u16; 2]> = smallvec::SmallVec::new();
        for operand in self.body.list(inst.operands) {
            if let Operand::Special { row, .. } = operand {
                specials.push(*row);
            }
        }
        for row in specials {
            self.check_special(inst, row);
        }
    }

    fn check_special(&mut self, inst: &Inst, row: u16) {
        let reg = &sreg::TABLE[row as usize];
        let name = reg.name;
        if self.version < reg.version {
            let v = reg.version;
            self.error(inst.span, format!("Feature '{name}' requires PTX ISA .version {v} or later"));
        } else if self.target.sm() < reg.sm {
            let sm = reg.sm;
            self.error(inst.span, format!("Feature '{name}' requires .target sm_{sm} or higher"));
        }
    }
}

struct Matcher<'a, 's> {
    parser: &'a Parser<'s>,
    fit: &'a Fit,
    vector: u32,
    mnemonic: &'a str,
}

impl Matcher<'_, '_> {
    /// Do the operands fit the specs, optional ones left out where they don't?
    fn all(&self, specs: &[Spec], operands: &[Operand], gates: &mut Vec<Gate>) -> Result<(), Misfit> {
        let mut late = None;
        let mut rest = operands.iter();
        let mut index = 0;
        let mut next = rest.next();
        for spec in specs {
            let Some(operand) = next else {
                if spec.optional {
                    continue;
                }
                return Err(Misfit::Mismatch);
            };
            match self.one(spec, operand, index) {
                Ok(()) => {
                    gates.extend(spec.gate.clone());
                    next = rest.next();
                    index += 1;
                }
                Err(Misfit::Late(text)) if !spec.optional || matches!(operand, Operand::Vector(_)) => {
                    late = late.or(Some(Misfit::Late(text)));
                    next = rest.next();
                    index += 1;
                }
                Err(_) if spec.optional => {}
                Err(misfit) => return Err(misfit),
            }
        }
        match late {
            _ if next.is_some() => Err(Misfit::Mismatch),
            Some(misfit) => Err(misfit),
            None => Ok(()),
        }
    }

    fn one(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        if let Operand::Vector(range) = operand {
            return self.vector(spec, self.parser.body.list(*range), index);
        }
        let braces = matches!(spec.count, Count::Fragment { .. } | Count::Shape { .. });
        match self.count(spec.count) {
            Some(n) if n != 1 || braces => {
                // Its type is looked at before its size.
                self.scalar(&Spec { count: Count::One, ..spec.clone() }, operand, index)?;
                Err(Misfit::Late(format!("Vector expected for argument {index}")))
            }
            _ => self.scalar(spec, operand, index),
        }
    }

    /// How many elements must stand in braces; `None` for any number.
    fn count(&self, count: Count) -> Option<u32> {
        match count {
            Count::One => Some(1),
            Count::Exactly(n) => Some(u32::from(n)),
            Count::Vector => Some(self.vector),
            Count::Shape { key, times, over } => {
                Some(self.shape(key)? * u32::from(times) / u32::from(over.max(1)))
            }
            Count::Fragment { rows, columns, element, times, over } => {
                let element = self.fit.types.get(element as usize).copied().flatten()?;
                let register = element.bits().max(32);
                let bits = self.shape(rows)? * self.shape(columns)? * element.bits() * u32::from(times);
                Some(bits / (LANES * register * u32::from(over.max(1))))
            }
            Count::Free => None,
        }
    }

    /// The number that a shape word gives to a dimension; `x` is the number of repetitions.
    fn shape(&self, key: char) -> Option<u32> {
        let kind = if key == 'x' { Kind::Repeat } else { Kind::Shape };
        self.fit.chosen.iter().flatten().filter(|w| w.kind() == kind).find_map(|w| w.number(key))
    }

    fn vector(&self, spec: &Spec, elements: &[Operand], index: usize) -> Result<(), Misfit> {
        let one = matches!(spec.count, Count::One) || spec.count == Count::Vector && self.vector == 1;
        if one && spec.role != Role::Anything {
            let mnemonic = self.mnemonic;
            return Err(Misfit::Text(format!("Vector operand is not allowed for instruction '{mnemonic}'")));
        }
        if let Role::Tuple(specs) = &spec.role {
            if specs.len() != elements.len() {
                return Err(Misfit::Mismatch);
            }
            return specs.iter().zip(elements).try_for_each(|(s, e)| self.scalar(s, e, index));
        }
        let fragment = matches!(spec.count, Count::Fragment { .. } | Count::Shape { .. });
        match self.element_type(elements)? {
            // Without a register in it, a fragment has no type.
            None if fragment => return Err(Misfit::Mismatch),
            Some(ty) if matches!(spec.role, Role::Dest | Role::Source | Role::Register) => {
                elements.iter().try_for_each(|e| self.element(spec, e))?;
                // Elsewhere .f16x2 counts as an integer of 32 bits, but not in the fragment of a matrix.
                if fragment && ty.name() == "f16x2" && self.wanted(spec).is_some_and(|(t, _)| t.is_int()) {
                    return Err(Misfit::Mismatch);
                }
                self.register(spec, ty)?;
            }
            _ => elements.iter().try_for_each(|e| self.scalar(spec, e, index))?,
        }
        if self.count(spec.count).is_some_and(|n| n as usize != elements.len()) {
            let mnemonic = self.mnemonic;
            let n = elements.len();
            if fragment && !matches!(n, 1 | 2 | 4 | 8) {
                return Err(Misfit::Text(format!("Illegal vector size: {n}")));
            }
            return Err(Misfit::Late(format!("Argument vector size mismatch for instruction '{mnemonic}'")));
        }
        Ok(())
    }

    /// May it stand in a vector of registers? Their types are [`Matcher::element_type`]'s business.
    fn element(&self, spec: &Spec, operand: &Operand) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        match (&spec.role, operand) {
            (Role::Dest, Operand::Reg(_) | Operand::Part { .. } | Operand::Sink) => Ok(()),
            (Role::Dest, _) => {
                Err(Misfit::Text(format!("Result register required for instruction '{mnemonic}'")))
            }
            (_, Operand::Sink) => Err(Misfit::Text("Sink '_' not allowed as a source operand".into())),
            (_, Operand::Reg(_) | Operand::Part { .. } | Operand::Special { .. }) => Ok(()),
            (Role::Source, Operand::Int { .. } | Operand::F32(_) | Operand::F64(_)) => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    /// The type that a vector has as a whole; none if there is no register in it.
    ///
    /// Registers of different types make a vector of untyped bits if one of them is untyped or both are
    /// integers. Constants go with registers of their class.
    fn element_type(&self, elements: &[Operand]) -> Result<Option<Type>, Misfit> {
        let mixed = || {
            let mnemonic = self.mnemonic;
            Misfit::Text(format!(
                "Vector with elements of different types are not allowed in {mnemonic} instruction"
            ))
        };
        let mut whole: Option<Type> = None;
        for element in elements {
            let ty = match element {
                Operand::Reg(reg) => self.parser.body.reg_decl(*reg).0.ty,
                Operand::Special { .. } => Type::B32,
                _ => continue,
            };
            whole = match whole {
                None => Some(ty),
                Some(t) if t.bits() != ty.bits() => {
                    return Err(Misfit::Text("Incompatible elements of vector expression".into()));
                }
                Some(t) if t == ty || t.class() == Class::Bits => Some(t),
                Some(_) if ty.class() == Class::Bits => Some(ty),
                Some(t) if t.is_int() && ty.is_int() => Type::find(&format!("b{}", ty.bits())),
                Some(_) => return Err(mixed()),
            };
        }
        let fits = |element: &Operand, ty: Type| match element {
            Operand::Int { .. } => ty.class() == Class::Bits || ty.is_int(),
            Operand::F32(_) | Operand::F64(_) => ty.class() == Class::Bits || ty.is_float(),
            _ => true,
        };
        match whole {
            Some(ty) if !elements.iter().all(|e| fits(e, ty)) => Err(mixed()),
            _ => Ok(whole),
        }
    }

    fn scalar(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        match (&spec.role, operand) {
            (Role::Anything, _) => Ok(()),
            (_, Operand::Unresolved(_)) => match spec.role {
                Role::Label | Role::Function | Role::Variable => Ok(()),
                _ => Err(Misfit::Mismatch),
            },
            (Role::Address(inside), Operand::Address(range)) => self.address(inside, *range),
            // `ld.global.b32 %r1, var[1]` addresses memory without brackets.
            (Role::Address(inside), Operand::Element(_)) if inside.is_empty() => Ok(()),
            (Role::Pair(pair), Operand::Pair(range)) => match self.parser.body.list(*range) {
                [first, second] => {
                    self.scalar(&pair.0, first, index)?;
                    self.scalar(&pair.1, second, index)
                }
                _ => Err(Misfit::Mismatch),
            },
            (Role::Pair(pair), _) if pair.1.optional => self.scalar(&pair.0, operand, index),
            (Role::List, Operand::List(_)) => Ok(()),
            (Role::Label, Operand::Symbol(s)) => {
                self.symbol(*s, |k| matches!(k, SymbolKind::Label | SymbolKind::Targets))
            }
            (Role::Label, _) => {
                Err(Misfit::Text(format!("Label expected for argument {index} of instruction '{mnemonic}'")))
            }
            (Role::Function, Operand::Symbol(_) | Operand::Reg(_)) => Ok(()),
            (Role::Variable, Operand::Symbol(_) | Operand::Sum(_) | Operand::Element(_)) => Ok(()),
            (Role::Dest | Role::PredDest, _) => self.dest(spec, operand),
            (Role::Source | Role::Register | Role::Pred | Role::Constant, _) => {
                self.source(spec, operand, index)
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    fn symbol(&self, symbol: Symbol, test: impl Fn(&SymbolKind) -> bool) -> Result<(), Misfit> {
        match self.parser.symbols.get(symbol.0 as usize) {
            Some(info) if test(&info.kind) => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    fn dest(&self, spec: &Spec, operand: &Operand) -> Result<(), Misfit> {
        match operand {
            Operand::Sink if spec.sink => Ok(()),
            Operand::Reg(reg) => self.register(spec, self.parser.body.reg_decl(*reg).0.ty),
            Operand::Part { reg, .. } => self.register(spec, self.parser.body.reg_decl(*reg).0.ty),
            Operand::Sink | Operand::Special { .. } | Operand::Not(_) | Operand::Pair(_) => {
                Err(Misfit::Mismatch)
            }
            _ => {
                let mnemonic = self.mnemonic;
                Err(Misfit::Text(format!("Result register required for instruction '{mnemonic}'")))
            }
        }
    }

    fn source(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let constant = matches!(spec.role, Role::Source | Role::Constant | Role::Pred);
        let register = spec.role != Role::Constant;
        match operand {
            Operand::Reg(reg) if register => self.register(spec, self.parser.body.reg_decl(*reg).0.ty),
            Operand::Part { reg, .. } | Operand::Negated(reg) if register => {
                self.register(spec, self.parser.body.reg_decl(*reg).0.ty)
            }
            Operand::Not(reg) if register && spec.role == Role::Pred => {
                self.register(spec, self.parser.body.reg_decl(*reg).0.ty)
            }
            Operand::Sink if spec.sink => Ok(()),
            Operand::Int { value, .. } if constant => self.integer(spec, *value, index),
            Operand::F32(_) if constant => self.float(spec, 32),
            Operand::F64(_) if constant => self.float(spec, 64),
            Operand::Special { .. } => {
                let mnemonic = self.mnemonic;
                let text = format!("Special register argument not allowed for instruction '{mnemonic}'");
                Err(Misfit::Text(text))
            }
            Operand::Symbol(_) | Operand::Sum(_) | Operand::Address(_) => {
                let mnemonic = self.mnemonic;
                Err(Misfit::Text(format!("Argument {index} of instruction '{mnemonic}': must be register")))
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    /// The type that the spec wants, and whether the register may be wider.
    fn wanted(&self, spec: &Spec) -> Option<(Type, bool)> {
        let slot = |n: u8| self.fit.types.get(n as usize).copied().flatten();
        match spec.ty {
            TypeRef::Slot(n) => slot(n).map(|t| (t, false)),
            TypeRef::Wide(n) => slot(n).and_then(Type::widened).map(|t| (t, false)),
            TypeRef::AtLeast(n) => slot(n).map(|t| (t, true)),
            TypeRef::Paired(n) => slot(n).map(|t| (t.paired(), false)),
            TypeRef::Fixed(ty) => Some((ty, false)),
            TypeRef::Any => None,
        }
    }

    fn register(&self, spec: &Spec, reg: Type) -> Result<(), Misfit> {
        let fits = match self.wanted(spec) {
            Some((need, true)) => compatible_wider(need, reg),
            Some((need, false)) => compatible(need, reg),
            None => true,
        };
        if fits { Ok(()) } else { Err(Misfit::Mismatch) }
    }

    fn integer(&self, spec: &Spec, value: u64, index: usize) -> Result<(), Misfit> {
        self.value(&spec.values, value as i64, index)?;
        match self.wanted(spec) {
            Some((need, _)) if matches!(need.class(), Class::Float) => Err(Misfit::Mismatch),
            _ => Ok(()),
        }
    }

    fn value(&self, values: &Values, value: i64, index: usize) -> Result<(), Misfit> {
        let expected = match values {
            Values::Range { low, high, .. } if value < *low || value > *high => {
                let range = format!("expected to be in range [{low}..{high}]");
                let text = format!("value '{value}' out of range, {range}");
                return Err(Misfit::Text(format!(
                    "Argument {index} of instruction '{}': {text}",
                    self.mnemonic
                )));
            }
            Values::Range { low, step, .. } if (value - low) % step != 0 => format!("multiple of {step}"),
            Values::OneOf(list) if !list.contains(&value) => {
                list.iter().map(i64::to_string).collect::<Vec<_>>().join(" or ")
            }
            _ => return Ok(()),
        };
        let text = format!("unexpected value '{value}', expected to be {expected}");
        Err(Misfit::Late(format!("Argument {index} of instruction '{}': {text}", self.mnemonic)))
    }

    /// A constant of 32 or 64 bits: any float takes either; untyped bits take one of their width.
    fn float(&self, spec: &Spec, bits: u32) -> Result<(), Misfit> {
        match self.wanted(spec) {
            _ if spec.values != Values::Any || spec.role == Role::Constant => Err(Misfit::Mismatch),
            Some((need, _)) if need.class() == Class::Float && need.bits() >= 32 => Ok(()),
            Some((need, _)) if need.class() == Class::Bits && need.bits() == bits => Ok(()),
            None => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    fn address(&self, inside: &[Spec], range: Range) -> Result<(), Misfit> {
        let list = self.parser.body.list(range);
        if let Some(Operand::Reg(reg)) = list.first() {
            let ty = self.parser.body.reg_decl(*reg).0.ty;
            if !matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed) {
                let name = self.parser.reg_name(*reg);
                let text = format!(
                    "Illegal to use symbol '{name}' of type {ty:?} as address operand. Use integer or bit only."
                );
                return Err(Misfit::Text(text));
            }
        }
        if inside.is_empty() {
            let offset = matches!(list.get(1), Some(Operand::Offset(_)));
            return if list.len() == 1 + usize::from(offset) { Ok(()) } else { Err(Misfit::Mismatch) };
        }
        let parts: smallvec::SmallVec<[Operand; 4]> =
            list.iter().copied().filter(|o| !matches!(o, Operand::Offset(_))).collect();
        self.all(inside, &parts, &mut Vec::new())
    }
}

impl Parser<'_> {
    /// A register's name as it is written.
    pub(crate) fn reg_name(&self, reg: Reg) -> String {
        let (decl, index) = self.body.reg_decl(reg);
        let name = self.names.text(decl.name);
        if decl.range.is_some() { format!("{name}{index}") } else { name.to_string() }
    }
}

#[cfg(test)]
mod tests {
    /// What is said about an instruction in a kernel for sm_90a.
    fn said(instruction: &str) -> Vec<String> {
        let source = format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() {{\n.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .s32 %s<9>; \
             .reg .b64 %rd<3>; .reg .pred %p<2>;\n{instruction}\nret; }}\n"
        );
        let parsed = crate::parse(&source, &crate::Options::default());
        parsed.diagnostics.iter().map(|d| d.message.clone()).collect()
    }

    #[test]
    fn a_fragment_has_the_size_of_its_shape_and_type() {
        let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}";
        let c = "{%f5,%f6,%f7,%f8}";
        assert!(said(&format!("{mma},{{%r1,%r2,%r3,%r4}},{{%r5,%r6}},{c};")).is_empty());
        let wrong = said(&format!("{mma},{{%r1,%r2}},{{%r5,%r6}},{c};"));
        assert_eq!(wrong, ["Argument vector size mismatch for instruction 'mma'"]);
        let wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4},%rd1,%rd2,%p1,1,1,0";
        assert!(said(&format!("{wgmma},1;")).is_empty());
        assert!(!said(&format!("{wgmma},2;")).is_empty());
    }

    #[test]
    fn a_vector_has_one_type() {
        let ldmatrix = |d: &str| said(&format!("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{{d}}},[%rd1];"));
        assert!(ldmatrix("%r1,%f2").is_empty());
        assert!(ldmatrix("%r1,_").is_empty());
        let mixed = "Vector with elements of different types are not allowed in ldmatrix instruction";
        assert_eq!(ldmatrix("%s1,%f2"), [mixed]);
        assert_eq!(ldmatrix("%r1,%rd2"), ["Incompatible elements of vector expression"]);
    }
}
