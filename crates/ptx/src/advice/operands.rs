//! Which operand of an instruction doesn't fit, what was expected there, and what was found.

use super::{form, is_result};
use crate::ast::{Inst, Operand, SymbolKind};
use crate::check::Matcher;
use crate::diag::{Advice, Span};
use crate::lex::{Lexer, TokenKind};
use crate::parse::Parser;
use crate::table::{Count, Fit, Role, Spec};
use crate::types::{Class, Type};

/// How well a form takes the operands.
struct Held<'f> {
    fit: &'f Fit,
    specs: Vec<&'f Spec>,
    /// The operands that don't fit.
    wrong: Vec<usize>,
    /// There are too many or too few of them.
    miscounted: bool,
}

impl Parser<'_> {
    pub(super) fn operand_advice(&self, message: &str, inst: &Inst, advice: &mut Advice) {
        let spans = operand_spans(self.source, inst.span);
        let at = |index: usize| spans.get(index).copied();
        if message.starts_with("Arguments mismatch for instruction") {
            self.mismatch(inst, &spans, advice);
        } else if message.contains("vector size")
            || message.contains("Vector operand")
            || message.contains("ector of size")
        {
            let is_vector = |span: &Span| self.slice(*span).starts_with('{');
            advice.place = spans.iter().copied().find(is_vector).or(advice.place);
        } else if let Some(rest) = message.strip_prefix("Argument ") {
            let index = rest.split(' ').next().and_then(|number| number.parse::<usize>().ok());
            // What stands in brackets counts one by one, as do the operands before it.
            let is_plain = !self.slice(inst.span).contains(['[', '{']);
            advice.place = index.filter(|index| is_plain || *index == 0).and_then(at).or(advice.place);
            if let (Some(index), Some(_)) = (index, advice.place) {
                self.expected(inst, index, advice);
            }
        } else if message.starts_with("Result ")
            || message.starts_with("Video selector is not allowed on destination")
        {
            advice.place = at(0).or(advice.place);
            advice.label = Some("the result".into());
        } else if message.contains("Sink '_'") {
            advice.place = spans.iter().copied().find(|span| self.slice(*span) == "_").or(advice.place);
        } else if message.starts_with("Predicate output expected") {
            advice.place = at(0).or(advice.place);
            advice.label = Some("a second result, a predicate, is expected: `d|p`".into());
        } else if message.starts_with("Special register argument") {
            let is_special = |span: &Span| {
                self.slice(*span).starts_with('%') && crate::sreg::find(self.slice(*span)).is_some()
            };
            advice.place = spans.iter().copied().find(is_special).or(advice.place);
            advice.label = Some("a special register".into());
            advice.help.push("move it into a register first: `mov.u32 %r, %special;`".into());
        } else if message.starts_with("State space mismatch") || message.starts_with("State space incorrect")
        {
            advice.place =
                spans.iter().copied().find(|span| self.slice(*span).starts_with('[')).or(advice.place);
        } else if message.starts_with("Label ") || message.starts_with("Illegal operand type") {
            let index =
                message.split("argument ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
            let address = spans.iter().copied().find(|span| self.slice(*span).starts_with('['));
            if let (None, Some(address)) = (index, address) {
                advice.place = Some(address);
                let what =
                    "brackets take a variable or parameter that is declared, or a register with an address";
                advice.help.push(what.into());
            } else {
                advice.place = at(index.unwrap_or(0)).or(advice.place);
            }
        }
    }

    /// What the best form wants at a place, for a message that says only which place it is.
    fn expected(&self, inst: &Inst, index: usize, advice: &mut Advice) {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let Some(held) = opcode.fits.first().map(|fit| self.hold(inst, fit)) else { return };
        let operands = self.body.list(inst.operands);
        if let (Some(spec), Some(operand)) = (held.specs.get(index), operands.get(index)) {
            let wanted = self.wanted_text(held.fit, spec);
            advice.label = Some(format!("expected {wanted}, found {}", self.found_text(operand)));
        }
    }

    /// Arguments that no form takes: the form that takes most of them, and the first that it doesn't.
    fn mismatch(&self, inst: &Inst, spans: &[Span], advice: &mut Advice) {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let held = opcode.fits.iter().map(|fit| self.hold(inst, fit));
        let best = held.min_by_key(|held| (held.miscounted, held.fit.misfits, held.wrong.len()));
        let Some(held) = best else { return };
        let wanted = format!("`{};`", form::chosen(opcode.mnemonic, held.fit));
        if held.miscounted {
            let least = held.specs.iter().filter(|spec| !spec.optional).count();
            let most = held.specs.len();
            let takes = if least == most { most.to_string() } else { format!("{least} to {most}") };
            let spelling = &opcode.spelling;
            let (first, last) = (spans.first().copied(), spans.last().copied());
            advice.place = first.zip(last).map(|(first, last)| first.to(last)).or(advice.place);
            advice.label = Some(format!("{} operands, `{spelling}` takes {takes}", operands.len()));
        } else if let Some(index) = held.wrong.first().copied()
            && let (Some(spec), Some(operand)) = (held.specs.get(index), operands.get(index))
        {
            let wanted = self.wanted_text(held.fit, spec);
            advice.place = spans.get(index).copied().or(advice.place);
            advice.label = Some(format!("expected {wanted}, found {}", self.found_text(operand)));
            advice.help.extend(self.way_out(held.fit, spec, operand));
            for index in &held.wrong[1..] {
                if let (Some(span), Some(spec), Some(operand)) =
                    (spans.get(*index), held.specs.get(*index), operands.get(*index))
                {
                    let wanted = self.wanted_text(held.fit, spec);
                    advice
                        .related
                        .push((*span, format!("expected {wanted}, found {}", self.found_text(operand))));
                }
            }
        }
        advice.help.push(format!("the form is {wanted}"));
    }

    fn hold<'f>(&self, inst: &Inst, fit: &'f Fit) -> Held<'f> {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let here = |spec: &&Spec| spec.when.is_none_or(|word| fit.chosen.contains(&Some(word)));
        let mut specs: Vec<&Spec> = fit.form.operands.iter().filter(here).collect();
        // Optional operands are left out from the end on, which is how almost all forms have them.
        while specs.len() > operands.len()
            && let Some(at) = specs.iter().rposition(|spec| spec.optional)
        {
            specs.remove(at);
        }
        let miscounted = specs.len() != operands.len();
        let fails = |(index, (spec, operand)): (usize, (&&Spec, &Operand))| {
            (!Matcher::new(self, opcode, fit).takes(spec, operand, index)).then_some(index)
        };
        let wrong = specs.iter().zip(operands).enumerate().filter_map(fails).collect();
        Held { fit, specs, wrong, miscounted }
    }

    fn wanted_type(&self, fit: &Fit, spec: &Spec) -> Option<Type> {
        Matcher::wanted_by(fit, spec).map(|(ty, _)| ty)
    }

    fn wanted_text(&self, fit: &Fit, spec: &Spec) -> String {
        let of_type = match self.wanted_type(fit, spec) {
            Some(Type::PRED) => return "a predicate register".into(),
            Some(ty) => format!(" of type .{}", ty.name()),
            None => String::new(),
        };
        let one = match &spec.role {
            Role::Dest | Role::Register => format!("a register{of_type}"),
            Role::PredDest | Role::Pred => "a predicate register".into(),
            Role::Source | Role::Movable => format!("a register or constant{of_type}"),
            Role::Constant => "a constant".into(),
            Role::Discard => "`_`".into(),
            Role::Memory(_) | Role::Base(_) | Role::Address(_) => "an address in brackets".into(),
            Role::Tuple(_) => "a vector in braces".into(),
            Role::Pair(pair) if pair.1.optional => return self.wanted_text(fit, &pair.0),
            Role::Pair(_) => "a pair `d|p`".into(),
            Role::Label => "a label".into(),
            Role::Targets => "the label of a `.branchtargets`".into(),
            Role::Function => "a function".into(),
            Role::Variable => "the name of a variable".into(),
            Role::Handle => "a texture, sampler or surface".into(),
            Role::SamplerOf => "a sampler".into(),
            Role::List => "a list in parentheses".into(),
            Role::Anything => "an operand".into(),
        };
        match spec.count {
            Count::Exactly(count) if count > 1 => format!("a vector of {count} elements, each {one}"),
            Count::AtLeast(_)
            | Count::Free
            | Count::Shape { .. }
            | Count::Fragment { .. }
            | Count::Dimension { .. } => {
                format!("a vector in braces, each element {one}")
            }
            _ => one,
        }
    }

    fn found_text(&self, operand: &Operand) -> String {
        let register = |reg: &crate::ast::Reg| {
            let ty = self.body.reg_decl(*reg).0.ty;
            format!("`{}` of type .{}", self.reg_name(*reg), ty.name())
        };
        match operand {
            Operand::Reg(reg) => register(reg),
            Operand::Not(reg) => format!("the negated {}", register(reg)),
            Operand::Negated(reg) => format!("the negated {}", register(reg)),
            Operand::Part { reg, .. } => format!("a part of {}", register(reg)),
            Operand::Special { row, .. } => {
                format!("the special register `{}`", crate::sreg::TABLE[*row as usize].name)
            }
            Operand::Int { value, .. } => format!("the integer {}", *value as i64),
            Operand::F32(bits) => format!("the floating-point constant {}", f32::from_bits(*bits)),
            Operand::F64(bits) => format!("the floating-point constant {}", f64::from_bits(*bits)),
            Operand::Symbol(symbol) => {
                let info = self.symbols.get(symbol.0 as usize);
                let name = info.map_or("?", |info| self.names.text(info.name));
                let what = match info.map(|info| &info.kind) {
                    Some(SymbolKind::Variable { .. }) => "variable",
                    Some(SymbolKind::Function { .. } | SymbolKind::Alias(_)) => "function",
                    Some(_) => "label",
                    None => return "a name that is not declared".into(),
                };
                format!("the {what} `{name}`")
            }
            Operand::Sum(_) => "a sum".into(),
            Operand::Offset(_) => "an offset".into(),
            Operand::Element(_) => "an element of a variable".into(),
            Operand::Address(_) => "an address".into(),
            Operand::Vector(range) => format!("a vector of {} elements", range.len),
            Operand::List(_) => "a list in parentheses".into(),
            Operand::Pair(_) => "a pair".into(),
            Operand::Sink => "`_`".into(),
            Operand::Unresolved(name) => format!("`{}`, which is not declared", self.names.text(*name)),
        }
    }

    /// How an operand becomes one that fits, where that is plain.
    fn way_out(&self, fit: &Fit, spec: &Spec, operand: &Operand) -> Option<String> {
        let spec = match &spec.role {
            Role::Pair(pair) => &pair.0,
            _ => spec,
        };
        let need = match spec.role {
            Role::Pred | Role::PredDest => Some(Type::PRED),
            _ => self.wanted_type(fit, spec),
        };
        match (&spec.role, operand, need) {
            (Role::Memory(_) | Role::Address(_), Operand::Reg(_) | Operand::Symbol(_), _) => {
                Some("an address stands in brackets: `[%rd1+4]`".into())
            }
            (role, Operand::Address(_), _) if !matches!(role, Role::Memory(_) | Role::Address(_)) => {
                Some("load the value first: only loads, stores and atomics take addresses".into())
            }
            (_, Operand::Reg(reg), Some(need)) => {
                let found = self.body.reg_decl(*reg).0.ty;
                let (need_name, found_name) = (need.name(), found.name());
                let is_number = |ty: Type| {
                    !matches!(ty.class(), Class::Pred | Class::Opaque | Class::Packed | Class::Bits)
                };
                match () {
                    _ if need == Type::PRED && is_result(&spec.role) => {
                        Some("declare it as a predicate: `.reg .pred %p;`".into())
                    }
                    _ if need == Type::PRED => Some("compare first: `setp.ne.s32 %p, …, 0;`".into()),
                    _ if found == Type::PRED => Some(format!(
                        "make a number of it: `selp.{need_name} d, 1, 0, {};`",
                        self.reg_name(*reg)
                    )),
                    _ if is_result(&spec.role) && need.bits() != found.bits() => Some(format!(
                        "declare the result as `.reg .{need_name}`, or take the instruction's form for .{found_name}"
                    )),
                    _ if need.bits() == found.bits() => Some(format!(
                        "`mov.b{0}` moves the bits to a register of type .{need_name}; `cvt` converts the value",
                        need.bits()
                    )),
                    _ if is_number(need) && is_number(found) => {
                        let round = if need.is_float() != found.is_float()
                            || need.is_float() && need.bits() < found.bits()
                        {
                            if need.is_float() { ".rn" } else { ".rzi" }
                        } else {
                            ""
                        };
                        Some(format!("convert it first: `cvt{round}.{need_name}.{found_name}`"))
                    }
                    _ if is_number(need) && found.class() == Class::Bits => {
                        // Bits are read as a number of the wanted kind.
                        let kind = &need_name[..1];
                        let round = if kind == "f" { ".rn" } else { "" };
                        Some(format!("convert it first: `cvt{round}.{need_name}.{kind}{}`", found.bits()))
                    }
                    _ => {
                        let (has, wants) = (found.bits(), need.bits());
                        Some(format!(
                            "it has {has} bits, {wants} are wanted: take another register, or `cvt`"
                        ))
                    }
                }
            }
            (_, Operand::F32(_) | Operand::F64(_), Some(need)) if need.is_int() => {
                Some("write an integer, or take the instruction's form for floats".into())
            }
            (_, Operand::Int { value, .. }, Some(need)) if need.is_float() => {
                Some(format!("write a float: `{}.0`", *value as i64))
            }
            (Role::Dest | Role::Register, Operand::Int { .. } | Operand::F32(_) | Operand::F64(_), _) => {
                Some("move the constant into a register first".into())
            }
            _ => None,
        }
    }
}

/// The operands of an instruction as they stand in the source: what is between commas, brackets and braces kept whole.
fn operand_spans(source: &str, inst: Span) -> Vec<Span> {
    let text = &source[inst.start as usize..(inst.end as usize).min(source.len())];
    let mut lexer = Lexer::new(text);
    let mut spans: Vec<Span> = Vec::new();
    let (mut depth, mut open) = (0i32, None::<Span>);
    let mut is_opcode = true;
    loop {
        let token = lexer.next();
        let span = Span { start: token.start + inst.start, end: token.end + inst.start };
        match token.kind {
            TokenKind::Eof | TokenKind::Unterminated => break,
            TokenKind::Punct(b';') => break,
            TokenKind::Punct(b',') if depth == 0 => {
                spans.extend(open.take());
                continue;
            }
            TokenKind::Punct(b'[' | b'{' | b'(') => depth += 1,
            TokenKind::Punct(b']' | b'}' | b')') => depth -= 1,
            // The opcode: a name, and the dotted words behind it.
            TokenKind::Ident if is_opcode && token.start == 0 => continue,
            TokenKind::Dot if is_opcode => continue,
            _ => {}
        }
        is_opcode = false;
        open = Some(open.map_or(span, |open| open.to(span)));
    }
    spans.extend(open);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_cut_at_commas() {
        let source = "  add.s32 %r1, [%r2+4], {a, b}, /* x, */ 7 ;";
        let spans = operand_spans(source, Span::new(2, source.len()));
        let texts: Vec<&str> = spans.iter().map(|s| &source[s.start as usize..s.end as usize]).collect();
        assert_eq!(texts, ["%r1", "[%r2+4]", "{a, b}", "7"]);
    }
}
