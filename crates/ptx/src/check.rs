//! Checks an instruction's operands against the forms that its opcode may be.
//!
//! An instruction is right if one form takes all its operands. As in ptxas, operands of a wrong kind or type end the
//! check; vectors of a wrong size, constants out of bounds and the like are only told after modifiers and gates.
//! Register types follow one rule ([`compatible`]), found by trying each register type on each class of instruction
//! (docs/ptx-language.md).

mod address;
mod call;
mod known;
mod vector;

use crate::ast::*;
use crate::diag::{Severity, Span};
use crate::parse::{Parse, Parser};
use crate::sreg;
use crate::table::{Fit, Gate, Limit, Opcode, OpcodeError, Place, Remark, Role, Spec, Test, TypeRef};
use crate::types::{Class, Type};
use crate::words::{Kind, Turn, Word};

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

/// Why an operand doesn't fit.
enum Misfit {
    /// `Arguments mismatch for instruction 'x'`
    Mismatch,
    /// Seen when the operand is read.
    Text(String),
    /// Only looked at when every operand is of a fitting kind; [`Found::note`] keeps it and goes on.
    Late(Turn, String),
    /// A vector of a wrong size; as above.
    Size(Turn),
    /// A sink where a result must be; the end of everything if nothing else is wrong with the operands.
    Discard,
}

impl Misfit {
    /// A fault that is told after everything else.
    fn late(text: impl Into<String>) -> Misfit {
        Misfit::Late(Turn::LAST, text.into())
    }

    /// A fault that is told after what there is to say about this word.
    fn after(word: &str, text: impl Into<String>) -> Misfit {
        Misfit::Late(Turn::of_text(word), text.into())
    }
}

/// What a row's limits say about vectors is told after what there is to say about this word.
const VECTOR_LIMITS: &str = "exch";

/// Something to say about an instruction.
type Said = (Turn, Severity, String);

/// ptxas's text when no row takes the operands: the first one's own, unless another one has none.
fn explain(misfits: Vec<Misfit>, mnemonic: &str) -> String {
    let general = misfits.iter().any(|m| matches!(m, Misfit::Mismatch));
    match misfits.into_iter().next() {
        Some(Misfit::Text(text)) if !general => text,
        _ => format!("Arguments mismatch for instruction '{mnemonic}'"),
    }
}

impl Parser<'_> {
    fn check_in_full(&mut self, inst: &Inst) -> Parse<()> {
        let said = self.diagnostics.len();
        let checked = self.check_operands(inst);
        if self.advises() {
            self.advise_about_operands(said, inst);
        }
        checked
    }

    fn check_operands(&mut self, inst: &Inst) -> Parse<()> {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let signs = Signs::of(&self.function.negated);
        let errors = opcode.errors.clone();
        for text in signs.errors(&opcode.words.clone()) {
            self.error(inst.span, text);
        }
        for error in errors {
            if let OpcodeError::Form(text) = error {
                self.error(inst.span, text);
            }
        }
        if self.opcodes[inst.opcode.0 as usize].fits.is_empty() {
            return Ok(());
        }
        match self.choose(inst) {
            Ok((i, found)) => {
                let fit = &self.opcodes[inst.opcode.0 as usize].fits[i];
                let calls = fit.form.operands.iter().any(|s| s.role == Role::Function);
                if found.discards {
                    let texts =
                        fit.errors.iter().map(|(_, text)| text).chain(&found.broken).cloned().collect();
                    return self.no_discard(inst, texts);
                }
                let said = self.remarks(inst, fit, signs);
                self.check_found(inst, &found, said);
                if calls { self.check_call(inst) } else { Ok(()) }
            }
            Err(texts) => {
                texts.into_iter().for_each(|text| self.error(inst.span, text));
                Ok(())
            }
        }
    }

    /// Nothing can be discarded here: the end of the parse.
    fn no_discard(&mut self, inst: &Inst, texts: Vec<String>) -> Parse<()> {
        texts.into_iter().for_each(|text| self.error(inst.span, text));
        let mnemonic = self.opcodes[inst.opcode.0 as usize].mnemonic;
        self.fatal(inst.span, format!("Result discard mode is not allowed for instruction '{mnemonic}'"))
    }

    /// What there is to say about the modifiers and signs of an instruction that takes this row.
    fn remarks(&self, inst: &Inst, fit: &Fit, signs: Signs) -> Vec<Said> {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let specs = fit.form.operands;
        let said = |remarks: &[Remark]| -> Vec<Said> {
            let applies = |r: &&Remark| r.operands.is_none_or(|n| n == operands.len());
            remarks.iter().filter(applies).map(|r| (r.turn, r.severity, r.text.clone())).collect()
        };
        let error = |(turn, text): &(Turn, String)| (*turn, Severity::Error, text.clone());
        let mut all = said(&opcode.rules);
        all.extend(fit.errors.iter().map(error));
        all.extend(said(&opcode.late));
        let result = matches!(operands.first(), Some(o) if !matches!(o, Operand::Vector(_)))
            && specs.first().is_some_and(|s| s.role == Role::Dest);
        if result && fit.extra.iter().any(|w| w.kind() == Kind::Vector) {
            let size = format!("Argument vector size mismatch for instruction '{}'", opcode.mnemonic);
            all.extend(["Result vector expected".into(), size].map(|t| error(&(Turn::of_text("exch"), t))));
        }
        if signs.product != signs.third && !specs.iter().any(|s| s.negates) {
            let text = format!("Operand negation not allowed for instruction '{}'", opcode.mnemonic);
            all.push(error(&(Turn::of_text("po"), text)));
        }
        all
    }

    /// The number of the row that takes the operands, best without faults, and what they bring to light; `Err` with
    /// ptxas's words if there is none.
    fn choose(&self, inst: &Inst) -> Result<(usize, Found), Vec<String>> {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let mut best = None;
        let mut misfits = Vec::new();
        for (i, fit) in opcode.fits.iter().enumerate() {
            // What a row that takes all words says about the operands goes before a row that doesn't.
            if fit.misfits > 0 && (best.is_some() || matches!(misfits.first(), Some(Misfit::Text(_)))) {
                break;
            }
            let mut matcher = Matcher::new(self, opcode, fit);
            match matcher.all(fit.form.operands, operands, 0) {
                Ok(()) if matcher.found.faultless() => return Ok((i, matcher.found)),
                Ok(()) => best = best.or(Some((i, matcher.found))),
                // A row of vectors has nothing to say about scalars.
                Err(_) if fit.lacks(Kind::Vector) => misfits.push(Misfit::Mismatch),
                Err(misfit) => misfits.push(misfit),
            }
        }
        if let Some(best) = best {
            return Ok(best);
        }
        let unasked = opcode.fits.iter().find_map(|fit| self.unasked_operand(inst, fit));
        Err(unasked.into_iter().chain([explain(misfits, opcode.mnemonic)]).collect())
    }

    /// ptxas's words for an operand that only a modifier could ask for.
    fn unasked_operand(&self, inst: &Inst, fit: &Fit) -> Option<String> {
        let specs = fit.form.operands;
        let word = specs.iter().find_map(|s| s.when.filter(|w| !fit.chosen.contains(&Some(*w))))?;
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        let operands = self.body.list(inst.operands);
        let mut matcher = Matcher::new(self, opcode, fit);
        let all: Vec<&Spec> = specs.iter().collect();
        matcher.rest(&all, operands, 0).ok().filter(|()| matcher.found.faultless())?;
        let (mnemonic, word, n) = (opcode.mnemonic, word.text(), operands.len());
        Some(format!("{word} modifier required for instruction '{mnemonic}' with {n} arguments"))
    }

    /// What is wrong with an instruction whose operands fit: its modifiers, the gates of its operands, its
    /// constants, its special registers.
    fn check_found(&mut self, inst: &Inst, found: &Found, mut said: Vec<Said>) {
        let refusals = found.gates.iter().flat_map(|g| g.refusals(self.target, self.version));
        said.extend(refusals.map(|text| (Turn::LAST, Severity::Error, text)));
        said.extend(found.late.iter().map(|(turn, text)| (*turn, Severity::Error, text.clone())));
        let mnemonic = self.opcodes[inst.opcode.0 as usize].mnemonic;
        let size = format!("Argument vector size mismatch for instruction '{mnemonic}'");
        said.extend(found.sizes.iter().map(|turn| (*turn, Severity::Error, size.clone())));
        said.extend(found.broken.iter().map(|text| (Turn::LAST, Severity::Error, text.clone())));
        said.sort_by_key(|(turn, _, _)| *turn);
        for (_, severity, text) in said {
            self.report(severity, inst.span, text);
        }
        if found.odd_address {
            let text = "Unexpected instruction types specified for";
            self.warn(inst.span, format!("{text} '{mnemonic} instruction with function address operand'"));
        }
        let mut specials: smallvec::SmallVec<[u16; 2]> = smallvec::SmallVec::new();
        for operand in self.body.list(inst.operands) {
            if let Operand::Special { row, .. } = operand {
                specials.push(*row);
            }
        }
        for row in specials {
            self.check_special(inst.span, row);
        }
    }

    pub(crate) fn check_special(&mut self, span: Span, row: u16) {
        let reg = &sreg::TABLE[row as usize];
        let name = reg.name;
        if !self.version.reaches(reg.version) {
            let v = reg.version;
            self.error(span, format!("Feature '{name}' requires PTX ISA .version {v} or later"));
        }
        if self.target.sm() < reg.sm {
            let sm = reg.sm;
            self.error(span, format!("Feature '{name}' requires .target sm_{sm} or higher"));
        }
    }
}

/// What matching operands that fit brought to light.
#[derive(Default)]
struct Found {
    /// Gates of optional operands that are there.
    gates: Vec<&'static Gate>,
    /// Faults of operands of the right kind: another row may take them.
    late: Vec<(Turn, String)>,
    /// Vectors of a wrong size.
    sizes: Vec<Turn>,
    /// A sink stands where there must be a result.
    discards: bool,
    /// The address of a function is taken for something else than a word of untyped or unsigned bits.
    odd_address: bool,
    /// Limits that constants and selectors don't obey.
    broken: Vec<String>,
}

impl Found {
    /// Can no other row be better?
    fn faultless(&self) -> bool {
        self.late.is_empty() && self.sizes.is_empty() && !self.discards
    }

    /// Keeps a fault for later, unless it is one that is seen at once.
    fn note(&mut self, misfit: Misfit) -> Result<(), Misfit> {
        match misfit {
            Misfit::Late(turn, text) => self.late.push((turn, text)),
            Misfit::Size(turn) => self.sizes.push(turn),
            Misfit::Discard => self.discards = true,
            Misfit::Mismatch | Misfit::Text(_) => return Err(misfit),
        }
        Ok(())
    }

    fn mark(&self) -> [usize; 4] {
        [self.gates.len(), self.late.len(), self.sizes.len(), self.broken.len()]
    }

    /// Forgets what came after the mark.
    fn back_to(&mut self, [gates, late, sizes, broken]: [usize; 4]) {
        self.gates.truncate(gates);
        self.late.truncate(late);
        self.sizes.truncate(sizes);
        self.broken.truncate(broken);
    }
}

/// What is negated. ptxas keeps one sign for the product of the first two sources and one for the third, whatever
/// the instruction is, so that two negated factors pass everywhere.
#[derive(Clone, Copy)]
struct Signs {
    product: bool,
    third: bool,
    /// The result, or an operand behind the third source.
    other: bool,
}

impl Signs {
    /// `negated`: the places of operands with a minus before them.
    fn of(negated: &[usize]) -> Signs {
        let at = |i: usize| negated.contains(&i);
        let other = negated.iter().any(|i| !(1..4).contains(i));
        Signs { product: at(1) != at(2), third: at(3), other }
    }

    /// What ptxas says before it looks at the form.
    fn errors(self, words: &[Word]) -> impl Iterator<Item = String> {
        let clash = self.product && self.third;
        let limited = "Operand negation limited to either (source A xor source B) or source C";
        let limits = usize::from(self.other) + usize::from(clash);
        let plus_one = words.iter().filter(move |w| w.text() == ".po" && self.product != self.third);
        std::iter::repeat_n(limited.to_string(), limits).chain(plus_one.filter_map(|w| w.twice()))
    }
}

fn is_negated(operand: &Operand) -> bool {
    matches!(operand, Operand::Negated(_) | Operand::Part { negated: true, .. })
}

/// Holds operands against a row.
pub(crate) struct Matcher<'a, 's> {
    parser: &'a Parser<'s>,
    fit: &'a Fit,
    vector: u32,
    mnemonic: &'static str,
    found: Found,
}

impl<'a, 's> Matcher<'a, 's> {
    pub(crate) fn new(parser: &'a Parser<'s>, opcode: &'a Opcode, fit: &'a Fit) -> Matcher<'a, 's> {
        let (vector, mnemonic) = (opcode.vector(), opcode.mnemonic);
        Matcher { parser, fit, vector, mnemonic, found: Found::default() }
    }

    /// Does a lone operand fit a lone spec, without a fault?
    pub(crate) fn takes(mut self, spec: &Spec, operand: &Operand, index: usize) -> bool {
        self.one(spec, operand, index).is_ok() && self.found.faultless()
    }

    /// Do the operands fit the specs, optional ones left out where that makes the rest fit?
    /// What stands in brackets counts one by one in ptxas's argument numbers; `index` is the first one's.
    fn all(&mut self, specs: &[Spec], operands: &[Operand], index: usize) -> Result<(), Misfit> {
        let here = |s: &&Spec| s.when.is_none_or(|w| self.fit.chosen.contains(&Some(w)));
        let specs: smallvec::SmallVec<[&Spec; 8]> = specs.iter().filter(here).collect();
        self.rest(&specs, operands, index)
    }

    fn rest(&mut self, specs: &[&Spec], operands: &[Operand], index: usize) -> Result<(), Misfit> {
        let Some((spec, others)) = specs.split_first() else {
            return if operands.is_empty() { Ok(()) } else { Err(Misfit::Mismatch) };
        };
        let mark = self.found.mark();
        let taken = match operands.split_first() {
            Some((operand, left)) => self
                .one(spec, operand, index)
                .and_then(|()| self.rest(others, left, index + self.arguments(operand))),
            None => Err(Misfit::Mismatch),
        };
        match taken {
            // Two handles in brackets: the sampler must be there if it is told apart from the texture.
            Err(_) if spec.optional && spec.role == Role::Handle && self.parser.separate_samplers => {
                Err(self.no_handle(spec, index))
            }
            Err(_) if spec.optional => {
                self.found.back_to(mark);
                self.rest(others, operands, index)
            }
            taken => taken,
        }
    }

    fn one(&mut self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        self.found.gates.extend(spec.gate);
        let result = match (&spec.role, operand) {
            (Role::Pair(pair), _) => self.pair(pair, operand, index),
            (_, Operand::Pair(range)) => self.unasked_pair(spec, *range, index),
            (_, Operand::Vector(range)) => self.vector(spec, self.parser.body.list(*range), index),
            _ => self.lone(spec, operand, index),
        };
        result.or_else(|misfit| self.found.note(misfit))
    }

    fn pair(&mut self, pair: &(Spec, Spec), operand: &Operand, index: usize) -> Result<(), Misfit> {
        let Operand::Pair(range) = operand else {
            self.one(&pair.0, operand, index)?;
            return if pair.1.optional { Ok(()) } else { Err(self.predicate_expected()) };
        };
        match self.parser.body.list(*range) {
            [first, second] => {
                self.one(&pair.0, first, index)?;
                if *second == Operand::Sink && !pair.1.sink {
                    return Err(self.predicate_expected());
                }
                match (second, self.one(&pair.1, second, index)) {
                    // It is told twice of a name without a meaning.
                    (Operand::Unresolved(_), Err(_)) => {
                        self.found.note(self.predicate_expected())?;
                        Err(self.predicate_expected())
                    }
                    (Operand::Reg(_), Err(_)) => Err(self.predicate_expected()),
                    (_, second) => second,
                }
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    fn predicate_expected(&self) -> Misfit {
        Misfit::after("gl", format!("Predicate output expected for instruction '{}'", self.mnemonic))
    }

    /// `%r|%p` where there is one result only.
    fn unasked_pair(&mut self, spec: &Spec, pair: Range, index: usize) -> Result<(), Misfit> {
        let [first, second] = self.parser.body.list(pair) else { return Err(Misfit::Mismatch) };
        self.one(spec, first, index)?;
        let text = format!("Predicate output not allowed for instruction '{}'", self.mnemonic);
        self.found.note(Misfit::after("gl", text))?;
        match second {
            Operand::Reg(reg) if self.parser.body.reg_decl(*reg).0.ty != Type::PRED => {
                Err(self.predicate_expected())
            }
            _ => Ok(()),
        }
    }

    fn no_sink(&self, spec: &Spec) -> Misfit {
        match spec.role {
            Role::Dest | Role::PredDest => Misfit::Discard,
            _ => Misfit::Text("Sink '_' not allowed as a source operand".into()),
        }
    }

    /// One operand, and what its value and selector must obey.
    fn scalar(&mut self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        self.kind(spec, operand, index)?;
        let limits = spec.limits.iter().filter_map(|limit| self.broken(limit, operand, index));
        let broken: Vec<String> = self.unselectable(spec, operand).into_iter().chain(limits).collect();
        self.found.broken.extend(broken);
        Ok(())
    }

    /// Is it of a kind and type that the spec takes?
    fn kind(&mut self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        if let Some((reg, _)) = self.parser.sum_of_register(operand) {
            return self.register_sum(spec, reg, index);
        }
        match (&spec.role, operand) {
            (Role::Anything, _) => Ok(()),
            (_, Operand::Unresolved(_)) => match spec.role {
                Role::Label | Role::Function | Role::Variable => Ok(()),
                _ => Err(Misfit::Mismatch),
            },
            (Role::Memory(place), Operand::Address(range)) => self.memory(*place, *range, index),
            // `ld.global.b32 %r1, var[1]` addresses memory without brackets.
            (Role::Memory(place), Operand::Element(range)) => {
                self.memory(*place, Range { first: range.first, len: 1 }, index)
            }
            (Role::Address(inside), Operand::Address(range)) => self.address(inside, *range, index),
            (Role::Base(_), Operand::Reg(_)) => Ok(()),
            (Role::Base(place), Operand::Symbol(s)) => self.address_variable(*s, self.space(*place)),
            (Role::List, Operand::List(_)) => Ok(()),
            (Role::Discard, Operand::Sink) => Ok(()),
            (Role::Discard, Operand::Reg(_)) => {
                let space = self.fit.chosen.iter().flatten().find(|w| w.kind() == Kind::Space);
                let space = space.map_or("", |w| w.text());
                let text = "Sink '_' is expected as a destination operand for instruction";
                Err(Misfit::late(format!("{text} '{mnemonic}' with '{space}'")))
            }
            (Role::Label | Role::Targets, _) => self.label(spec, operand, index),
            (Role::Handle | Role::SamplerOf, _) => self.handle(spec, operand, index),
            (Role::Function, _) if !matches!(operand, Operand::List(_)) => Ok(()),
            (Role::Movable | Role::Variable, Operand::Symbol(s)) => {
                self.found.odd_address |= self.is_odd_address(spec, *s);
                self.taken_address(spec, *s)
            }
            (Role::Movable | Role::Variable, Operand::Sum(range) | Operand::Element(range)) => {
                match (self.parser.body.list(*range), &spec.role) {
                    ([Operand::Symbol(s), ..], Role::Variable) => self.variable(*s),
                    ([Operand::Symbol(s), ..], _) => self.moved_address(spec, *s),
                    (_, Role::Variable) => Ok(()),
                    _ => Err(Misfit::Mismatch),
                }
            }
            (Role::Dest | Role::PredDest, _) => self.dest(spec, operand, index),
            (Role::Source | Role::Movable | Role::Register | Role::Pred | Role::Constant, _) => {
                self.source(spec, operand, index)
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    /// `%r1 + 4` may stand where `%r1` may be read.
    fn register_sum(&mut self, spec: &Spec, reg: Reg, index: usize) -> Result<(), Misfit> {
        self.kind(spec, &Operand::Reg(reg), index)?;
        match spec.role {
            Role::Dest | Role::PredDest | Role::Discard => Err(self.no_result()),
            _ => Ok(()),
        }
    }

    fn label(&mut self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let is = |kind: SymbolKind| matches!(operand, Operand::Symbol(s) if self.symbol(*s, |k| *k == kind).is_ok());
        let expected = format!("expected for argument {index} of instruction '{}'", self.mnemonic);
        match (&spec.role, operand) {
            (Role::Label, _) if is(SymbolKind::Label) => Ok(()),
            (Role::Label, Operand::Sink) => Err(self.no_sink(&Spec { role: Role::Dest, ..spec.clone() })),
            (Role::Label, _) => {
                self.found.note(Misfit::late(format!("Label {expected}")))?;
                let variable = |k: &SymbolKind| match k {
                    SymbolKind::Variable { array, .. } => Some(*array),
                    _ => None,
                };
                let register =
                    format!("Argument {index} of instruction '{}': must be register", self.mnemonic);
                match operand {
                    Operand::Address(_) => Err(Misfit::late(register)),
                    Operand::Symbol(s) if self.symbol(*s, |k| variable(k) == Some(true)).is_ok() => {
                        Err(Misfit::Mismatch)
                    }
                    Operand::Symbol(s) if self.symbol(*s, |k| variable(k) == Some(false)).is_ok() => {
                        Err(Misfit::late(register))
                    }
                    _ => Ok(()),
                }
            }
            _ if is(SymbolKind::Targets) => Ok(()),
            _ if is(SymbolKind::Label) => {
                Err(Misfit::late(format!("Label with '.branchtargets' directive {expected}")))
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    /// The address of a variable as an operand, which the arguments of a call don't have.
    fn taken_address(&self, spec: &Spec, symbol: Symbol) -> Result<(), Misfit> {
        match spec.role {
            _ if self.call_parameter(symbol) => {
                let name = self.parser.symbol_name(symbol);
                Err(Misfit::late(format!("Illegal to take address of parameter '{name}'")))
            }
            Role::Variable => self.variable(symbol),
            _ => self.moved_address(spec, symbol),
        }
    }

    /// A function's address as something else than a word of untyped or unsigned bits is worth a warning.
    fn is_odd_address(&self, spec: &Spec, symbol: Symbol) -> bool {
        let word = |ty: Type| matches!(ty.name(), "b32" | "u32" | "b64" | "u64");
        let function = self.symbol(symbol, |k| matches!(k, SymbolKind::Function { .. })).is_ok();
        function && self.wanted(spec).is_some_and(|(ty, _)| !word(ty))
    }

    fn variable(&self, symbol: Symbol) -> Result<(), Misfit> {
        self.address_variable(symbol, self.space(Place::Named(0)))
    }

    /// Is it a `.param` variable of the body, which holds an argument of a call and has no address?
    fn call_parameter(&self, symbol: Symbol) -> bool {
        let formals = &self.parser.function.formals;
        let param = |k: &SymbolKind| matches!(k, SymbolKind::Variable { space: Space::Param, .. });
        self.symbol(symbol, param).is_ok()
            && !formals.params.contains(&symbol)
            && !formals.returns.contains(&symbol)
    }

    /// The address of a variable or function as a value. ptxas takes a function's for a value of any type.
    fn moved_address(&self, spec: &Spec, symbol: Symbol) -> Result<(), Misfit> {
        let Some(info) = self.parser.symbols.get(symbol.0 as usize) else { return Ok(()) };
        let need = self.wanted(spec).map(|(ty, _)| ty);
        match info.kind {
            SymbolKind::Function { .. } => Ok(()),
            SymbolKind::Variable { ty, .. } if ty.class() == Class::Opaque => match need {
                Some(Type::U64) | None => Ok(()),
                _ => {
                    let kind = if ty.name() == "surfref" { "surface" } else { "texture" };
                    Err(Misfit::late(format!("Indirect access to {kind} requires .u64 type")))
                }
            },
            SymbolKind::Variable { .. } if need.is_none_or(|t| t.is_int() || t.class() == Class::Bits) => {
                Ok(())
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    /// A special register, by its width; not as a float.
    fn read_special(&self, spec: &Spec, row: u16) -> Result<(), Misfit> {
        let Some((need, wider)) = self.wanted(spec) else { return Ok(()) };
        match sreg::TABLE[row as usize].fits(need, wider) {
            false => Err(Misfit::Mismatch),
            true if need.is_float() => Err(self.no_special()),
            true => Ok(()),
        }
    }

    fn no_special(&self) -> Misfit {
        let text = format!("Special register argument not allowed for instruction '{}'", self.mnemonic);
        Misfit::after("col", text)
    }

    /// A texture, sampler or surface where the spec wants such a one, or a register with its handle.
    fn handle(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let need = match spec.role {
            Role::SamplerOf if self.parser.separate_samplers => Type::find("samplerref"),
            Role::SamplerOf => Type::find("texref"),
            _ => self.wanted(spec).map(|(ty, _)| ty),
        };
        let spec = Spec { ty: need.map_or(TypeRef::Any, TypeRef::Fixed), ..spec.clone() };
        let symbol = match operand {
            Operand::Reg(reg) => {
                let handle = Spec { ty: TypeRef::Fixed(Type::U64), ..spec };
                return self.register(&handle, self.parser.body.reg_decl(*reg).0.ty);
            }
            Operand::Symbol(symbol) => symbol,
            _ => return Err(Misfit::Mismatch),
        };
        let Some(info) = self.parser.symbols.get(symbol.0 as usize) else { return Ok(()) };
        match info.kind {
            SymbolKind::Variable { ty, .. } if Some(ty) == need => Ok(()),
            SymbolKind::Variable { ty, .. } if ty.class() == Class::Opaque => {
                Err(self.no_handle(&spec, index))
            }
            _ => Err(Misfit::Mismatch),
        }
    }

    fn no_handle(&self, spec: &Spec, index: usize) -> Misfit {
        let mnemonic = self.mnemonic;
        let need = self.wanted(spec).map_or("", |(ty, _)| ty.name());
        // Only a sampler that isn't told apart has no handle of its own.
        let or_register =
            if need == "samplerref" && !self.parser.separate_samplers { "" } else { " or .u64 register" };
        Misfit::Text(format!("Argument {index} of instruction '{mnemonic}': .{need}{or_register} expected"))
    }

    fn symbol(&self, symbol: Symbol, test: impl Fn(&SymbolKind) -> bool) -> Result<(), Misfit> {
        match self.parser.symbols.get(symbol.0 as usize) {
            Some(info) if test(&info.kind) => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    fn dest(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        match operand {
            Operand::Sink if spec.sink => Ok(()),
            Operand::Reg(reg) | Operand::Part { reg, .. } | Operand::Negated(reg) => {
                self.register(spec, self.parser.body.reg_decl(*reg).0.ty)
            }
            Operand::Sink => Err(self.no_sink(spec)),
            Operand::Not(_) if spec.role != Role::PredDest => Err(Misfit::Mismatch),
            Operand::Int { .. } | Operand::F32(_) | Operand::F64(_) | Operand::Sum(_) | Operand::Not(_) => {
                // A constant must be one that could be read there.
                let source = if spec.role == Role::PredDest { Role::Pred } else { Role::Source };
                self.source(&Spec { role: source, ..spec.clone() }, operand, index)?;
                Err(self.no_result())
            }
            Operand::Symbol(s) if self.symbol(*s, |k| matches!(k, SymbolKind::Function { .. })).is_ok() => {
                Err(self.no_result())
            }
            _ => Err(self.no_register(spec, operand, index)),
        }
    }

    fn no_result(&self) -> Misfit {
        Misfit::after("exch", format!("Result register required for instruction '{}'", self.mnemonic))
    }

    /// What is wrong with an operand that is neither register nor constant. Where the instruction's own type
    /// is wanted, ptxas takes names and addresses for values at first.
    fn no_register(&self, spec: &Spec, operand: &Operand, index: usize) -> Misfit {
        let mnemonic = self.mnemonic;
        let typed = !matches!(spec.ty, TypeRef::Fixed(_));
        let looks_right = match operand {
            Operand::Special { row, .. } => {
                let reg = &sreg::TABLE[*row as usize];
                let fits = self.wanted(spec).is_none_or(|(need, wider)| reg.fits(need, wider));
                let reads = self.fit.form.operands.iter().any(|s| s.special);
                return match (fits, spec.role == Role::Dest && reads) {
                    (false, _) => Misfit::Mismatch,
                    (true, false) => self.no_special(),
                    (true, true) => {
                        Misfit::after("col", "Read-only special register cannot be destination argument")
                    }
                };
            }
            Operand::Symbol(s) => {
                let value = |k: &SymbolKind| matches!(k, SymbolKind::Variable { ty, .. } if ty.class() != Class::Opaque);
                typed && self.symbol(*s, value).is_ok()
            }
            Operand::Sum(_) => typed,
            Operand::Address(range) if typed => match self.parser.body.list(*range) {
                [Operand::Reg(reg)] => self.register(spec, self.parser.body.reg_decl(*reg).0.ty).is_ok(),
                [Operand::Symbol(_)] => self.wanted(spec).is_some_and(|(ty, _)| compatible(ty, Type::U32)),
                _ => false,
            },
            _ => false,
        };
        match looks_right {
            true => Misfit::late(format!("Argument {index} of instruction '{mnemonic}': must be register")),
            false => Misfit::Mismatch,
        }
    }

    fn source(&self, spec: &Spec, operand: &Operand, index: usize) -> Result<(), Misfit> {
        let constant = spec.role != Role::Register;
        let negates = spec.role == Role::Pred || self.wanted(spec).is_some_and(|(ty, _)| ty == Type::PRED);
        let register = spec.role != Role::Constant;
        match operand {
            Operand::Reg(reg) if register => self.register(spec, self.parser.body.reg_decl(*reg).0.ty),
            Operand::Part { reg, .. } | Operand::Negated(reg) if register => {
                self.register(spec, self.parser.body.reg_decl(*reg).0.ty)
            }
            Operand::Not(reg) if register && negates => {
                self.register(spec, self.parser.body.reg_decl(*reg).0.ty)
            }
            Operand::Sink if spec.sink => Ok(()),
            Operand::Sink => Err(self.no_sink(spec)),
            Operand::Int { .. } if constant => self.integer(spec),
            // An address with an offset is a constant, but one without is not.
            Operand::Sum(_) if spec.role == Role::Source => self.integer(spec),
            Operand::Special { row, .. } if spec.special => self.read_special(spec, *row),
            // ptxas takes the address of a function for a value of the instruction's type, whatever that is.
            Operand::Symbol(s)
                if spec.role == Role::Source
                    && !matches!(spec.ty, TypeRef::Fixed(_))
                    && self.wanted(spec).is_none_or(|(need, _)| need.class() != Class::Packed)
                    && self.symbol(*s, |k| matches!(k, SymbolKind::Function { .. })).is_ok() =>
            {
                Ok(())
            }
            Operand::F32(_) if constant => self.float(spec, 32),
            Operand::F64(_) if constant => self.float(spec, 64),
            _ => Err(self.no_register(spec, operand, index)),
        }
    }

    /// The type that the spec wants, and whether the register may be wider.
    fn wanted(&self, spec: &Spec) -> Option<(Type, bool)> {
        Matcher::wanted_by(self.fit, spec)
    }

    /// The same for a row alone.
    pub(crate) fn wanted_by(fit: &Fit, spec: &Spec) -> Option<(Type, bool)> {
        let slot = |n: u8| fit.types.get(n as usize).copied().flatten();
        match spec.ty {
            TypeRef::Slot(n) => slot(n).map(|t| (t, false)),
            TypeRef::Wide(n) => slot(n).and_then(Type::widened).map(|t| (t, false)),
            TypeRef::Split(n) => slot(n).map(|t| (t, false)),
            TypeRef::AtLeast(n) => slot(n).map(|t| (t, true)),
            TypeRef::Paired(n) => slot(n).map(|t| (t.paired(), false)),
            TypeRef::Fixed(ty) => Some((ty, false)),
            TypeRef::Any => None,
        }
    }

    fn register(&self, spec: &Spec, reg: Type) -> Result<(), Misfit> {
        let fits = match self.wanted(spec) {
            Some((need, true)) => compatible_wider(need, reg),
            // Where a type is fixed, and in a matrix, two halves don't pass for an integer.
            Some((need, false))
                if matches!(spec.ty, TypeRef::Fixed(_) | TypeRef::Paired(_)) && need.is_int() =>
            {
                compatible(need, reg) && reg.class() != Class::Packed
            }
            Some((need, false)) => compatible(need, reg),
            None => true,
        };
        if fits { Ok(()) } else { Err(Misfit::Mismatch) }
    }

    fn integer(&self, spec: &Spec) -> Result<(), Misfit> {
        match self.wanted(spec) {
            Some((need, _)) if matches!(need.class(), Class::Float | Class::Packed) => Err(Misfit::Mismatch),
            _ => Ok(()),
        }
    }

    /// A constant of 32 or 64 bits: any float takes either; untyped bits take one of their width.
    fn float(&self, spec: &Spec, bits: u32) -> Result<(), Misfit> {
        match self.wanted(spec) {
            _ if spec.role == Role::Constant => Err(Misfit::Mismatch),
            Some((need, _)) if need.class() == Class::Float && need.bits() >= 32 => Ok(()),
            Some((need, _)) if need.class() == Class::Bits && need.bits() == bits => Ok(()),
            None => Ok(()),
            _ => Err(Misfit::Mismatch),
        }
    }

    /// How many arguments an operand is.
    fn arguments(&self, operand: &Operand) -> usize {
        let Operand::Address(range) = operand else { return 1 };
        self.parser.body.list(*range).iter().filter(|o| !matches!(o, Operand::Offset(_))).count()
    }

    fn address(&mut self, inside: &[Spec], range: Range, index: usize) -> Result<(), Misfit> {
        let list = match self.parser.body.list(range) {
            // A place in tensor memory is a register, perhaps with an offset.
            [base @ Operand::Reg(_), Operand::Offset(_)]
                if matches!(inside, [Spec { role: Role::Register, .. }]) =>
            {
                std::slice::from_ref(base)
            }
            list => list,
        };
        self.all(inside, list, index)
    }

    /// ptxas's words if a constant breaks the limit.
    fn broken(&self, limit: &Limit, operand: &Operand, index: usize) -> Option<String> {
        if !limit.when.is_current(self.parser.target, self.parser.version) {
            return None;
        }
        let obeys = match (&limit.test, operand) {
            (Test::Except(other), Operand::Int { value, .. }) => *value as i64 != *other,
            (Test::Range(low, high), Operand::Int { value, .. }) => (*low..=*high).contains(&(*value as i64)),
            (Test::OneOf(values), Operand::Int { value, .. }) => values.contains(&(*value as i64)),
            (Test::Multiple(n), Operand::Int { value, .. }) => *value as i64 % n == 0,
            (Test::NonZero, Operand::Int { value, .. }) => *value != 0,
            (Test::PowerOfTwo, Operand::Int { value, .. }) => value.is_power_of_two(),
            (Test::Selector(all), Operand::Part { part, .. }) => {
                all.split(' ').any(|pattern| part.fits(pattern))
            }
            (Test::Register, Operand::Int { .. }) => false,
            (Test::Fraction, Operand::F64(bits)) => {
                f64::from_bits(*bits) > 0.0 && f64::from_bits(*bits) <= 1.0
            }
            (Test::Fraction, Operand::F32(bits)) => {
                f32::from_bits(*bits) > 0.0 && f32::from_bits(*bits) <= 1.0
            }
            _ => true,
        };
        if obeys { None } else { Some(self.limit_text(limit, operand, index)) }
    }

    fn limit_text(&self, limit: &Limit, operand: &Operand, index: usize) -> String {
        let (signed, unsigned) = match operand {
            Operand::Int { value, .. } => ((*value as i64).to_string(), value.to_string()),
            Operand::F64(bits) => (format!("{:.6}", f64::from_bits(*bits)), String::new()),
            Operand::F32(bits) => (format!("{:.6}", f32::from_bits(*bits)), String::new()),
            _ => Default::default(),
        };
        let field = self.fit.chosen.iter().flatten().next().map_or("", |w| w.text());
        let text =
            limit.text().replace("$v", &signed).replace("$u", &unsigned).replace("$n", &index.to_string());
        text.replace("$m", self.mnemonic).replace("$w", field)
    }

    /// ptxas's words for a video selector where no limit speaks of selectors.
    fn unselectable(&self, spec: &Spec, operand: &Operand) -> Option<String> {
        let Operand::Part { reg, .. } = operand else { return None };
        let vector = self.parser.body.reg_decl(*reg).0.vector > 1;
        if vector || spec.limits.iter().any(|l| matches!(l.test, Test::Selector(_))) {
            return None;
        }
        let place =
            if matches!(spec.role, Role::Dest | Role::PredDest) { "destination" } else { "source operand" };
        Some(format!("Video selector is not allowed on {place} for instruction '{}'", self.mnemonic))
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
