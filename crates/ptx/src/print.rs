//! The printer: a tree back to text that parses to the same tree.

use crate::ast::*;
use crate::sreg;
use std::fmt::Write;

/// The module as PTX.
pub fn print(module: &Module) -> String {
    let mut p = Printer { module, out: String::new() };
    p.header();
    for item in &module.items {
        p.item(item);
    }
    p.out
}

struct Printer<'a, 's> {
    module: &'a Module<'s>,
    out: String,
}

/// Appends formatted text; writing to a string cannot fail.
macro_rules! put {
    ($p:expr, $($arg:tt)*) => {{ let _ = write!($p.out, $($arg)*); }};
}

impl<'s> Printer<'_, 's> {
    fn header(&mut self) {
        let m = self.module;
        put!(self, ".version {}\n.target {}", m.version, m.target.name());
        for option in &m.target_options {
            put!(self, ", {option}");
        }
        self.out.push('\n');
        if let Some(bits) = m.address_size {
            put!(self, ".address_size {bits}\n");
        }
    }

    fn name(&self, name: Name) -> &'s str {
        self.module.names.get(name.0 as usize).copied().unwrap_or("_")
    }

    fn symbol_name(&self, symbol: Symbol) -> String {
        match self.module.symbols.get(symbol.0 as usize) {
            Some(SymbolInfo { name, member: Some(i), .. }) => format!("{}{i}", self.name(*name)),
            Some(info) => self.name(info.name).to_string(),
            None => "_".to_string(),
        }
    }

    /// The name as a declaration has it: a range has its prefix alone.
    fn declared_name(&self, symbol: Symbol) -> &'s str {
        self.module.symbols.get(symbol.0 as usize).map_or("_", |s| self.name(s.name))
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Variable(v) => self.variable(v, ""),
            Item::Function(f) => self.function(f),
            Item::File(f) => {
                put!(self, ".file {} {}", f.index, f.path);
                for value in &f.stamp {
                    put!(self, ", {value}");
                }
                self.out.push('\n');
            }
            Item::Section(s) => self.section(s),
            Item::Pragma(strings) => self.pragma(strings, ""),
            Item::Alias(alias) => self.alias(alias, ""),
        }
    }

    fn alias(&mut self, alias: &Alias, indent: &str) {
        let (alias, target) = (self.symbol_name(alias.alias), self.symbol_name(alias.target));
        put!(self, "{indent}.alias {alias}, {target};\n");
    }

    fn pragma(&mut self, strings: &[&str], indent: &str) {
        put!(self, "{indent}.pragma {};\n", strings.join(", "));
    }

    fn loc(&mut self, loc: &Loc, indent: &str) {
        put!(self, "{indent}.loc {} {} {}", loc.file, loc.line, loc.column);
        if let Some(i) = &loc.inlined {
            let function = self.name(i.function);
            put!(self, ", function_name {function}");
            if i.offset != 0 {
                put!(self, "+{}", i.offset);
            }
            put!(self, ", inlined_at {} {} {}", i.file, i.line, i.column);
        }
        self.out.push('\n');
    }

    fn section(&mut self, section: &Section) {
        put!(self, ".section {}\n{{\n", section.name);
        for line in &section.lines {
            match line {
                SectionLine::Label(name) => put!(self, "{name}:\n"),
                SectionLine::Data(ty, values) => put!(self, "{ty:?} {}\n", values.join(",")),
            }
        }
        self.out.push_str("}\n");
    }

    fn linkage(&mut self, l: Linkage) {
        let words =
            [(l.external, ".extern "), (l.visible, ".visible "), (l.weak, ".weak "), (l.common, ".common ")];
        for (on, word) in words {
            if on {
                self.out.push_str(word);
            }
        }
    }

    fn variable(&mut self, v: &Variable, indent: &str) {
        self.out.push_str(indent);
        self.linkage(v.linkage);
        self.out.push_str(v.space.text());
        self.attributes(&v.attributes);
        if let Some(align) = v.align {
            put!(self, " .align {align}");
        }
        if v.vector > 1 {
            put!(self, " .v{}", v.vector);
        }
        put!(self, " {:?}", v.ty);
        let name = self.declared_name(v.symbol);
        put!(self, " {name}");
        if let Some(n) = v.range {
            put!(self, "<{n}>");
        }
        self.dims(&v.dims);
        if let Some(init) = &v.init {
            self.out.push_str(" = ");
            self.initialiser(init);
        }
        self.out.push_str(";\n");
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        if attributes.is_empty() {
            return;
        }
        let texts: Vec<String> = attributes
            .iter()
            .map(|a| match a {
                Attribute::Managed => ".managed".to_string(),
                Attribute::Unified(low, high) => format!(".unified({low}, {high})"),
            })
            .collect();
        put!(self, " .attribute({})", texts.join(", "));
    }

    fn ptr(&mut self, ptr: Option<Ptr>) {
        let Some(ptr) = ptr else { return };
        self.out.push_str(" .ptr");
        if let Some(space) = ptr.space {
            put!(self, " {}", space.text());
        }
        if let Some(opaque) = ptr.opaque {
            put!(self, " .{}", opaque.name());
        }
        if let Some(align) = ptr.align {
            put!(self, " .align {align}");
        }
    }

    fn dims(&mut self, dims: &[Option<u64>]) {
        for d in dims {
            match d {
                Some(n) => put!(self, "[{n}]"),
                None => self.out.push_str("[]"),
            }
        }
    }

    fn initialiser(&mut self, init: &Initialiser) {
        match init {
            Initialiser::Int(v) => self.int(*v, *v > i64::MAX as u64),
            Initialiser::F32(bits) => put!(self, "0f{bits:08X}"),
            Initialiser::F64(bits) => put!(self, "0d{bits:016X}"),
            Initialiser::Address { symbol, offset, generic, mask } => {
                let mut text = self.symbol_name(*symbol);
                if *generic {
                    text = format!("generic({text})");
                }
                if *offset != 0 {
                    text = format!("{text}+{offset}");
                }
                match mask {
                    Some(mask) => put!(self, "0x{mask:X}({text})"),
                    None => self.out.push_str(&text),
                }
            }
            Initialiser::List(list) => {
                self.out.push('{');
                for (i, element) in list.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.initialiser(element);
                }
                self.out.push('}');
            }
            Initialiser::Fields(fields) => {
                let texts: Vec<String> =
                    fields.iter().map(|(name, value)| self.field(*name, *value)).collect();
                put!(self, "{{{}}}", texts.join(", "));
            }
        }
    }

    fn field(&self, name: Name, value: FieldValue) -> String {
        let name = self.name(name);
        match value {
            FieldValue::Int(value) => format!("{name} = {}", value as i64),
            FieldValue::F64(bits) => format!("{name} = 0d{bits:016X}"),
            FieldValue::Word(word) => format!("{name} = {}", self.name(word)),
        }
    }

    fn int(&mut self, value: u64, unsigned: bool) {
        match (unsigned, value as i64) {
            (false, negative @ ..0) => put!(self, "{negative}"),
            (true, 0..) => put!(self, "{value}U"),
            _ => put!(self, "{value}"),
        }
    }

    fn function(&mut self, f: &Function) {
        self.linkage(f.linkage);
        self.out.push_str(if f.entry { ".entry" } else { ".func" });
        self.attributes(&f.attributes);
        self.out.push(' ');
        if !f.returns.is_empty() {
            self.params(&f.returns);
            self.out.push(' ');
        }
        let name = self.symbol_name(f.symbol);
        self.out.push_str(&name);
        self.params(&f.params);
        self.directives(&f.directives);
        let Some(body) = &f.body else {
            self.out.push_str(";\n");
            return;
        };
        self.out.push_str("\n{\n");
        BodyPrinter { p: self, body, depth: 1 }.stmts();
        self.out.push_str("}\n");
    }

    fn params(&mut self, params: &[Param]) {
        self.out.push('(');
        for (i, param) in params.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.param(param);
        }
        self.out.push(')');
    }

    fn param(&mut self, param: &Param) {
        let memory = matches!(param.place, ParamPlace::Memory(_));
        self.out.push_str(if memory { ".param" } else { ".reg" });
        if let Some(align) = param.align {
            put!(self, " .align {align}");
        }
        if param.vector > 1 {
            put!(self, " .v{}", param.vector);
        }
        put!(self, " {:?}", param.ty);
        self.ptr(param.ptr);
        let name = param.name.map_or("_", |n| self.name(n));
        put!(self, " {name}");
        self.dims(&param.dims);
    }

    fn directives(&mut self, directives: &[FunctionDirective]) {
        for d in directives {
            put!(self, "\n{}", d.name);
            for (i, value) in d.values.iter().enumerate() {
                put!(self, "{}{value}", if i == 0 { " " } else { ", " });
            }
            if d.name == ".pragma" {
                put!(self, " {};", d.strings.join(", "));
            }
        }
    }
}

struct BodyPrinter<'p, 'a, 's> {
    p: &'p mut Printer<'a, 's>,
    body: &'p Body<'p>,
    depth: usize,
}

impl BodyPrinter<'_, '_, '_> {
    fn stmts(&mut self) {
        for stmt in &self.body.stmts {
            if matches!(stmt, Stmt::Close) {
                self.depth -= 1;
            }
            let indent = "\t".repeat(self.depth);
            match stmt {
                Stmt::Inst(inst) => self.inst(inst, &indent),
                Stmt::Label(symbol, _) => {
                    let name = self.p.symbol_name(*symbol);
                    put!(self.p, "{name}:\n");
                }
                Stmt::Regs(range) => self.regs(*range, &indent),
                Stmt::Variable(v) => self.p.variable(v, &indent),
                Stmt::Open => {
                    put!(self.p, "{indent}{{\n");
                    self.depth += 1;
                }
                Stmt::Close => put!(self.p, "{indent}}}\n"),
                Stmt::Loc(loc) => self.p.loc(loc, &indent),
                Stmt::Pragma(strings) => self.p.pragma(strings, &indent),
                Stmt::Targets(t) => self.targets(t),
                Stmt::Prototype(proto) => self.prototype(proto),
                Stmt::Function(f) => {
                    self.p.out.push_str(&indent);
                    self.p.function(f);
                }
                Stmt::Alias(alias) => self.p.alias(alias, &indent),
            }
        }
    }

    fn regs(&mut self, range: Range, indent: &str) {
        let decls = &self.body.regs[range.first as usize..(range.first + range.len) as usize];
        let Some(first) = decls.first() else { return };
        put!(self.p, "{indent}.reg");
        if first.vector > 1 {
            put!(self.p, " .v{}", first.vector);
        }
        put!(self.p, " {:?} ", first.ty);
        for (i, decl) in decls.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let name = self.p.name(decl.name);
            put!(self.p, "{comma}{name}");
            if let Some(n) = decl.range {
                put!(self.p, "<{n}>");
            }
        }
        self.p.out.push_str(";\n");
    }

    fn targets(&mut self, t: &Targets) {
        let word = if t.calls { ".calltargets" } else { ".branchtargets" };
        let label = self.p.symbol_name(t.label);
        put!(self.p, "{label}: {word} ");
        self.list(t.targets);
        if t.targets.len == 0 {
            // A list needs something in it: a range of no names, whatever their prefix.
            put!(self.p, "{label}<0>");
        }
        self.p.out.push_str(";\n");
    }

    fn prototype(&mut self, proto: &Prototype) {
        let label = self.p.symbol_name(proto.label);
        put!(self.p, "{label}: .callprototype ");
        if !proto.returns.is_empty() {
            self.p.params(&proto.returns);
            self.p.out.push(' ');
        }
        self.p.out.push('_');
        self.p.params(&proto.params);
        self.p.directives(&proto.directives);
        self.p.out.push_str(";\n");
    }

    fn inst(&mut self, inst: &Inst, indent: &str) {
        self.p.out.push_str(indent);
        if let Some(guard) = inst.guard {
            let not = if guard.negated { "!" } else { "" };
            put!(self.p, "@{not}");
            match guard.predicate {
                Predicate::Reg(reg) => self.reg(reg),
                Predicate::Special(row) => self.special(row, None),
            }
            self.p.out.push(' ');
        }
        self.p.out.push_str(&self.p.module.opcodes[inst.opcode.0 as usize].spelling);
        if inst.operands.len > 0 {
            self.p.out.push(' ');
            self.list(inst.operands);
        }
        self.p.out.push_str(";\n");
    }

    fn reg(&mut self, reg: Reg) {
        let (decl, index) = self.body.reg_decl(reg);
        self.p.out.push_str(self.p.module.names.get(decl.name.0 as usize).copied().unwrap_or("_"));
        if decl.range.is_some() {
            put!(self.p, "{index}");
        }
    }

    fn list(&mut self, range: Range) {
        for (i, operand) in self.body.list(range).iter().enumerate() {
            match operand {
                Operand::Offset(_) => {}
                _ if i > 0 => self.p.out.push_str(", "),
                _ => {}
            }
            self.operand(operand);
        }
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Reg(reg) => self.reg(*reg),
            Operand::Not(reg) => {
                self.p.out.push('!');
                self.reg(*reg);
            }
            Operand::Negated(reg) => {
                self.p.out.push('-');
                self.reg(*reg);
            }
            Operand::Part { reg, part, negated } => {
                if *negated {
                    self.p.out.push('-');
                }
                self.reg(*reg);
                self.p.out.push_str(part.text());
            }
            Operand::Special { row, component } => self.special(*row, *component),
            Operand::Int { value, unsigned } => self.p.int(*value, *unsigned),
            Operand::F32(bits) => put!(self.p, "0f{bits:08X}"),
            Operand::F64(bits) => put!(self.p, "0d{bits:016X}"),
            Operand::Symbol(symbol) => {
                let name = self.p.symbol_name(*symbol);
                self.p.out.push_str(&name);
            }
            Operand::Offset(n) => put!(self.p, "+{n}"),
            Operand::Sum(range) => self.list(*range),
            Operand::Element(range) => {
                if let [base, index, more @ ..] = self.body.list(*range) {
                    self.operand(base);
                    self.p.out.push('[');
                    match index {
                        Operand::Offset(n) => put!(self.p, "{n}"),
                        index => self.operand(index),
                    }
                    more.iter().for_each(|o| self.operand(o));
                    self.p.out.push(']');
                }
            }
            Operand::Address(range) => self.enclosed('[', *range, ']'),
            Operand::Vector(range) => self.enclosed('{', *range, '}'),
            Operand::List(range) => self.enclosed('(', *range, ')'),
            Operand::Pair(range) => {
                if let [first, second] = self.body.list(*range) {
                    self.operand(first);
                    self.p.out.push('|');
                    self.operand(second);
                }
            }
            Operand::Sink => self.p.out.push('_'),
            Operand::Unresolved(name) => self.p.out.push_str(self.p.name(*name)),
        }
    }

    fn enclosed(&mut self, open: char, range: Range, close: char) {
        self.p.out.push(open);
        self.list(range);
        self.p.out.push(close);
    }

    fn special(&mut self, row: u16, component: Option<u8>) {
        let reg = &sreg::TABLE[row as usize];
        match (reg.name, component) {
            (name, Some(n)) if reg.vector => put!(self.p, "{name}{}", ELEMENTS[n as usize % 4]),
            (name, Some(n)) => put!(self.p, "{name}{n}"),
            (name, None) => self.p.out.push_str(name),
        }
    }
}
