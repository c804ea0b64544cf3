//! Lowers calls, and the `.param` variables of device functions.
//!
//! A `.param` variable of a body, or a formal parameter of a device function, has no address: its words are registers
//! ([`super::param_words::ParamWords`]), which `ld.param` and `st.param` read and write. A call moves them to the locations of the calling
//! convention. Only a formal parameter whose address is taken is in memory: it is copied to the stack on entry, as with
//! ptxas; a variadic or large one is used where the caller has put it.

use crate::context::Failure;
use crate::context::target::TargetMachine;
use crate::lower::Lower;
use crate::lower::build::{PT, RZ};
use crate::lower::control::param_words::MOST_WORDS;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::OFFSETS;
use crate::lower::operand_use::VALUE;
use crate::lower::texture::gradient;
use crate::module::abi::{self, Asked, Convention, Shape, Signature, Slot};
use crate::module::pragmas::Conventions;
use crate::module::prototype::{
    Prototype, has_several_results, is_variadic, prototype, prototype_text, shape, shapes,
};
use ori::{Arg, File, Fixed, Op, Part, Pseudo, Use, Value};
use ptx::Type;
use ptx::ast::{self, Item, Operand, Param, ParamPlace, Reg, Stmt, Symbol, SymbolKind};
use sass::M;

/// The bytes of the argument of a variadic parameter, which is the last.
fn variadic_bytes(module: &ast::Module, params: &[Param], args: &[Operand]) -> u32 {
    match (params.last(), args.last()) {
        (Some(param), Some(Operand::Symbol(arg))) if is_variadic(param) && args.len() == params.len() => {
            match module.symbols[arg.0 as usize].kind {
                SymbolKind::Variable { bytes, .. } => {
                    (bytes.min(abi::MOST_STACK.into()) as u32).next_multiple_of(4)
                }
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Registers that the calling convention can't pass, if there is one (see [`has_several_results`]).
pub fn check_abi(module: &ast::Module, function: &ast::Function) -> Result<(), Failure> {
    let is_narrow =
        |p: &Param| matches!(p.place, ParamPlace::Register(_)) && (p.ty == Type::PRED || p.ty.bits() < 32);
    let what = match (function.params.iter().any(is_narrow), function.returns.iter().any(is_narrow)) {
        _ if has_several_results(module) => return Ok(()),
        (true, _) => "passing predicate, 8-bit and 16-bit parameters to",
        (false, true) => "returning predicate, 8-bit and 16-bit values from",
        (false, false) => return Ok(()),
    };
    Err(Failure::of_module(format!("In ABI compilation, {what} device functions is not supported")))
}

fn signature(asked: Asked, returns: &[Param], params: &[Param]) -> Signature {
    Signature::new(asked, &shapes(returns), &shapes(params))
}

/// The callee.
struct Callee<'a> {
    /// A function by name, or an address in a register.
    symbol: Option<Symbol>,
    address: Option<Value>,
    asked: Asked,
    prototype: Prototype<'a>,
}

/// The size of the outgoing argument area of a body.
pub fn outgoing(
    module: &ast::Module,
    body: &ast::Body,
    machine: &TargetMachine,
    conventions: &Conventions,
) -> u32 {
    let mut most = 0;
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        let opcode = &module.opcodes[inst.opcode.0 as usize];
        if machine.driver_has_gradients && gradient::lacks_gradient(opcode, body.list(inst.operands)) {
            most = most.max(gradient::STACK);
        }
        if opcode.mnemonic == "call"
            && let Some(prototype) = prototype(module, body, body.list(inst.operands))
        {
            let asked = conventions.of_call(inst.span.start);
            let signature = signature(asked, prototype.returns, prototype.params);
            let args = body.list(inst.operands).iter().rev().find_map(|o| match o {
                Operand::List(range) => Some(body.list(*range)),
                _ => None,
            });
            let rest = variadic_bytes(module, prototype.params, args.unwrap_or(&[]));
            let stack = signature.stack.saturating_add(rest).min(abi::MOST_STACK).next_multiple_of(16);
            let results: u64 = prototype.returns.iter().map(|r| 4 * u64::from(shape(r).words())).sum();
            let results = if signature.result_address.is_some() { results } else { 0 };
            most = most.max((u64::from(stack) + results).min(abi::MOST_STACK.into()) as u32);
        }
    }
    most
}

impl<'a> Lower<'_, 'a> {
    /// `ld.param` and `st.param` of variables that are not in memory.
    pub(crate) fn param_access(&mut self, ins: &Ins<'a>) -> Option<()> {
        ins.one_of(&["param", "param::func"]);
        let count = match ins.one_of(&["v2", "v4", "v8"]) {
            None => 1,
            Some(v) => u32::from(v.as_bytes()[1] - b'0'),
        };
        let ty = ins.ty()?;
        let load = ins.mnemonic() == "ld";
        let (data, address) = if load { (ins.get(0)?, ins.get(1)?) } else { (ins.get(1)?, ins.get(0)?) };
        let (symbol, offset) = self.params.find(self.body, address)?;
        self.mark_all(address);
        let body = self.body;
        let elements = match data {
            Operand::Vector(range) => body.list(*range),
            other => std::slice::from_ref(other),
        };
        if elements.len() as u32 != count {
            return None;
        }
        for (i, element) in elements.iter().enumerate() {
            let at = offset + i as u32 * ty.bytes();
            match load {
                true => self.load_param(element, ty, symbol, at)?,
                false => self.store_param(element, ty, symbol, at)?,
            }
        }
        Some(())
    }

    fn param_word(&self, symbol: Symbol, offset: u32) -> Option<Reg> {
        self.params.word(symbol, offset / 4)
    }

    fn load_param(&mut self, to: &Operand, ty: Type, symbol: Symbol, at: u32) -> Option<()> {
        let words = ty.bits().div_ceil(32);
        let mut parts: Vec<Arg> = Vec::new();
        for word in 0..words {
            // Behind its end a variable has no value.
            let value = match self.param_word(symbol, at + 4 * word) {
                Some(reg) => self.read(reg),
                None => self.undefined(File::R, 1),
            };
            parts.push(value.into());
        }
        if ty.bits() < 32 {
            parts[0] = self.extract(parts[0], at % 4, ty).into();
        }
        // A register may be wider than the type: then the value is extended.
        let wanted = if let Operand::Reg(reg) = to { self.shape(*reg).1 } else { words as u8 };
        if usize::from(wanted) > parts.len() {
            let fill = match ty.is_signed() {
                true => {
                    self.emit(sass::Op::SHF, &[M::R, M::S32, M::HI], 1, &[RZ, Arg::Imm(31), parts[0]]).into()
                }
                false => RZ,
            };
            let fill = self.materialized(fill);
            parts.resize(usize::from(wanted), fill);
        }
        let value = if parts.len() == 1 { self.copy(parts[0]) } else { self.pack(&parts) };
        self.set(to, value)
    }

    /// Also materializes zero.
    fn materialized(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Zero(File::R) => self.emit(sass::Op::MOV, &[], 1, &[RZ]).into(),
            other => self.in_register(other),
        }
    }

    /// Bytes of a word, extended by their type.
    fn extract(&mut self, word: Arg, byte: u32, ty: Type) -> Value {
        let sign = if ty.is_signed() { 8 } else { 0 };
        let pick = |i: u32| -> i64 {
            let bytes = ty.bits() / 8;
            // Above the value: the sign of its last byte, or zero (byte 4 is the first of RZ).
            let nibble = match (i < bytes, ty.is_signed()) {
                (true, _) => byte + i,
                (false, true) => (byte + bytes - 1) | sign,
                (false, false) => 4,
            };
            i64::from(nibble) << (4 * i)
        };
        let selector = (0..4).map(pick).sum();
        self.emit(sass::Op::PRMT, &[], 1, &[word, Arg::Imm(selector), RZ])
    }

    fn store_param(&mut self, from: &Operand, ty: Type, symbol: Symbol, at: u32) -> Option<()> {
        if ty.bits() == 64 {
            let words = self.words(from, ty)?;
            for (i, word) in words.into_iter().enumerate() {
                // What is stored behind the end of a variable is nowhere.
                let Some(reg) = self.param_word(symbol, at + 4 * i as u32) else { break };
                let word = self.in_register(word);
                let value = self.copy(word);
                self.set_reg(reg, value)?;
            }
            return Some(());
        }
        if ty.bits() > 64 {
            let Arg::Use(u) = self.whole(from)? else { return None };
            for i in 0..ty.bits().div_ceil(32) {
                let Some(reg) = self.param_word(symbol, at + 4 * i) else { break };
                let first = u.part.map_or(0, |p| p.first) + i as u8;
                let value = self.copy(Arg::Use(Use { part: Some(Part { first, count: 1 }), ..u }));
                self.set_reg(reg, value)?;
            }
            return Some(());
        }
        let word = self.word(from, ty)?;
        let Some(reg) = self.param_word(symbol, at) else { return Some(()) };
        let word = self.in_register(word);
        let value = match ty.bits() {
            32 => self.copy(word),
            bits => {
                let old = self.read(reg).into();
                // Byte i of the result: of the new value, which is the second operand, or of the old one.
                let (at, bytes) = (at % 4, bits / 8);
                let pick =
                    |i: u32| i64::from(if (at..at + bytes).contains(&i) { 4 + i - at } else { i }) << (4 * i);
                self.emit(sass::Op::PRMT, &[], 1, &[old, Arg::Imm((0..4).map(pick).sum()), word])
            }
        };
        self.set_reg(reg, value)
    }

    /// The incoming parameters of a device function.
    pub(crate) fn receive(&mut self, function: &ast::Function) -> Option<()> {
        let asked = self.conventions.of(function);
        let signature = signature(asked, &function.returns, &function.params);
        let mut results = Vec::new();
        let convention = signature.convention;
        let convention = if self.preserves_none { convention.preserving_none() } else { convention };
        let mut fixed = convention.fixed();
        if let Some(register) = signature.result_address {
            let value = self.kernel.code.value(File::R, 1);
            self.result_address = Some(value);
            results.push(value);
            fixed.results.push(register);
        }
        let (mut loads, mut predicates) = (Vec::new(), Vec::new());
        for (param, slot) in function.params.iter().zip(&signature.params) {
            match *slot {
                Slot::Register(first) => {
                    for (i, reg) in self.words_of(param) {
                        let (file, words) = self.shape(reg);
                        let value = self.kernel.code.value(File::R, words);
                        results.push(value);
                        fixed.results.push(first + i as u8);
                        match file {
                            File::P => predicates.push((reg, value)),
                            _ => self.incoming.push((reg, value)),
                        }
                    }
                }
                // It stays where the caller has put it.
                Slot::Stack(offset) if self.is_used_in_place(param) => {
                    let ParamPlace::Memory(symbol) = param.place else { return None };
                    self.in_place.insert(symbol, offset);
                }
                Slot::Stack(offset) => {
                    loads.extend(self.words_of(param).into_iter().map(|(i, reg)| (reg, offset + 4 * i)));
                }
            }
        }
        let data = self.data(Op::Pseudo(Pseudo::Entry), &[], &results, &[]);
        let inst = self.kernel.code.append(ori::Function::ENTRY, data);
        self.kernel.code.fixed.insert(inst, fixed);
        for (reg, offset) in loads {
            let (file, words) = self.shape(reg);
            let size: &[M] = if words == 2 { &[M::_64] } else { &[] };
            let value = self.kernel.code.value(File::R, words);
            let address = self.incoming_address(offset);
            let data = self.data(Op::Machine(sass::Op::LDL), size, &[value], &address);
            self.kernel.code.append(ori::Function::ENTRY, data);
            match file {
                File::P => predicates.push((reg, value)),
                _ => self.incoming.push((reg, value)),
            }
        }
        for (reg, word) in predicates {
            let value = self.is_nonzero(word);
            self.incoming.push((reg, value));
        }
        self.copy_to_stack(function)
    }

    /// A predicate is passed as a word: not zero?
    fn is_nonzero(&mut self, word: Value) -> Value {
        self.emit_p(sass::Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, word.into(), RZ, PT])
    }

    /// The word in which a predicate is passed; other values as they are.
    fn passed(&mut self, value: Value) -> Value {
        match self.kernel.code.values[value].file {
            File::P => self.emit(sass::Op::SEL, &[], 1, &[RZ, Arg::Imm(1), Arg::not(value)]),
            _ => value,
        }
    }

    /// Copies the formal parameters whose address is taken to the stack.
    fn copy_to_stack(&mut self, function: &ast::Function) -> Option<()> {
        for param in &function.params {
            let ParamPlace::Memory(symbol) = param.place else { continue };
            if self.params.has(symbol) || self.in_place.contains_key(&symbol) {
                continue;
            }
            let Shape { bytes, align } = shape(param);
            let offset = self.kernel.code.frame.next_multiple_of(align.max(4));
            self.kernel.code.frame = offset + bytes.next_multiple_of(4);
            self.local.insert(symbol, offset);
            for (reg, offset) in self.params.all(symbol).zip((offset..).step_by(4)) {
                let (_, value) = *self.incoming.iter().find(|(incoming, _)| *incoming == reg)?;
                let args = [Arg::Stack, Arg::Imm(offset.into()), value.into()];
                let data = self.data(Op::Machine(sass::Op::STL), &[], &[], &args);
                self.kernel.code.append(ori::Function::ENTRY, data);
            }
        }
        Some(())
    }

    /// Is it a parameter on the stack whose address is taken and that isn't copied, as no parameter on the stack is by
    /// ptxas? Nobody knows how large a variadic one is.
    fn is_used_in_place(&self, param: &Param) -> bool {
        let ParamPlace::Memory(symbol) = param.place else { return false };
        !self.params.has(symbol) && (is_variadic(param) || self.params.size(symbol) > MOST_WORDS)
    }

    /// Base and offset of a place among the caller's arguments, in the first block.
    fn incoming_address(&mut self, offset: u32) -> [Arg; 2] {
        // The frame, which nobody knows yet, is added.
        if i64::from(offset) < OFFSETS.end / 2 {
            return [Arg::Stack, Arg::Incoming(offset)];
        }
        let base = self.kernel.code.value(File::R, 1);
        let args = [Arg::Stack, Arg::Incoming(offset), RZ];
        let data = self.data(Op::Machine(sass::Op::IADD3), &[], &[base], &args);
        self.kernel.code.append(ori::Function::ENTRY, data);
        [base.into(), Arg::Imm(0)]
    }

    /// Base and offset of a place that is so many bytes behind another.
    fn stack_address(&mut self, base: Arg, offset: i64) -> [Arg; 2] {
        if OFFSETS.contains(&offset) {
            return [base, Arg::Imm(offset)];
        }
        let offset = Arg::Imm(i64::from(offset as i32));
        [self.emit(sass::Op::IADD3, &[], 1, &[base, offset, RZ]).into(), Arg::Imm(0)]
    }

    /// The registers of a formal parameter, with the numbers of their words: the register that it names, or those of its
    /// words.
    fn words_of(&self, param: &Param) -> Vec<(u32, Reg)> {
        match param.place {
            ParamPlace::Memory(symbol) => self.params.numbered(symbol).collect(),
            ParamPlace::Register(reg) => vec![(0, reg)],
        }
    }

    /// The results of a device function, at the end of the current block.
    pub(crate) fn hand_back(&mut self, values: &[Value]) {
        let values: Vec<Value> = values.iter().map(|value| self.passed(*value)).collect();
        if let Some(address) = self.result_address {
            for (offset, value) in self.offsets_of_results().into_iter().zip(values) {
                let [base, offset] = self.stack_address(address.into(), offset);
                self.emit_to(sass::Op::STL, &[], &[], &[base, offset, value.into()]);
            }
            return;
        }
        let own = Convention::own(&self.kernel.code).unwrap_or_default();
        let (mut fixed, mut next) = (own.fixed(), own.first());
        for value in &values {
            fixed.args.push(next);
            next += self.kernel.code.values[*value].words;
        }
        let args: Vec<Arg> = values.iter().map(|v| (*v).into()).collect();
        let data = self.data(Op::Pseudo(Pseudo::Leave), &[], &[], &args);
        let inst = self.kernel.code.append(self.block, data);
        self.kernel.code.fixed.insert(inst, fixed);
    }

    /// Where the words of the results are in memory, in the order of their registers.
    fn offsets_of_results(&self) -> Vec<i64> {
        let (mut offsets, mut start) = (Vec::new(), 0);
        for result in self.device.iter().flat_map(|f| &f.returns) {
            offsets.extend(self.words_of(result).into_iter().map(|(i, _)| start + 4 * i64::from(i)));
            start += 4 * i64::from(shape(result).words());
        }
        offsets
    }

    pub(crate) fn call(&mut self, ins: &Ins<'a>) -> Option<()> {
        // `.uni` has no effect on the code.
        ins.flag("uni");
        // A call transfers control: a guard becomes a divergent branch around it.
        if self.guard.is_some() {
            return self.in_guarded_branch(|l| l.call_plain(ins));
        }
        self.call_plain(ins)
    }

    fn call_plain(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (module, body) = (self.module, self.body);
        let operands: Vec<&Operand> = (0..ins.len()).filter_map(|i| ins.get(i)).collect();
        let list = |o: &Operand| if let Operand::List(range) = o { Some(body.list(*range)) } else { None };
        let at = operands.iter().position(|o| !matches!(o, Operand::List(_)))?;
        let results = if at == 0 { &[][..] } else { list(operands[0])? };
        let args = operands.get(at + 1).and_then(|o| list(o)).unwrap_or(&[]);
        let copies: Vec<Operand> = operands.iter().map(|o| **o).collect();
        let prototype = prototype(module, body, &copies)?;
        let (symbol, address) = match operands[at] {
            Operand::Symbol(s) => (Some(*s), None),
            operand => (None, Some(self.wide(operand, Type::U64)?)),
        };
        let asked = self.conventions.of_call(self.at);
        let callee = Callee { symbol, address, asked, prototype };
        self.emit_call(&callee, results, args)
    }

    fn emit_call(&mut self, callee: &Callee<'a>, results: &[Operand], args: &[Operand]) -> Option<()> {
        let Prototype { returns, params, .. } = callee.prototype;
        // A variadic parameter may have no argument.
        let least = params.len() - usize::from(params.last().is_some_and(is_variadic));
        if results.len() != returns.len() || !(least..=params.len()).contains(&args.len()) {
            return None;
        }
        let mut signature = signature(callee.asked, returns, params);
        let rest = variadic_bytes(self.module, params, args);
        signature.stack = signature.stack.saturating_add(rest).min(abi::MOST_STACK);
        let callee_symbol = callee.symbol.map(|symbol| self.data.aliased(symbol));
        let convention = match callee_symbol.and_then(|symbol| self.clobbers.get(&symbol)) {
            Some(clobbers) => signature.convention.clobbering(*clobbers),
            None => signature.convention,
        };
        let mut fixed = convention.fixed();
        let mut operands: Vec<Arg> = vec![self.callee(callee, &mut fixed)?];
        if let Some(register) = signature.result_address {
            let offset = i64::from(signature.stack.next_multiple_of(16));
            let top = self.stack_top();
            let address = self.emit(sass::Op::IADD3, &[], 1, &[top, Arg::Imm(offset), RZ]);
            operands.push(address.into());
            fixed.args.push(register);
        }
        for ((arg, param), slot) in args.iter().zip(params).zip(&signature.params) {
            for (word, value) in self.argument(arg, param)? {
                match slot {
                    Slot::Register(first) => {
                        operands.push(value.into());
                        fixed.args.push(first + word as u8);
                    }
                    Slot::Stack(offset) => {
                        let words = self.kernel.code.values[value].words;
                        let size: &[M] = if words == 2 { &[M::_64] } else { &[] };
                        let top = self.stack_top();
                        let [base, to] = self.stack_address(top, i64::from(*offset) + 4 * i64::from(word));
                        self.emit_to(sass::Op::STL, size, &[], &[base, to, value.into()]);
                    }
                }
            }
        }
        self.finish_call(&signature, callee, results, operands, fixed)
    }

    fn finish_call(
        &mut self,
        signature: &Signature,
        callee: &Callee<'a>,
        results: &[Operand],
        operands: Vec<Arg>,
        mut fixed: Fixed,
    ) -> Option<()> {
        let mut next = signature.convention.first();
        let mut values: Vec<(i64, Reg, Value)> = Vec::new();
        let mut start = i64::from(signature.stack.next_multiple_of(16));
        for (result, param) in results.iter().zip(callee.prototype.returns) {
            for (word, reg) in self.result_registers(result, param)? {
                let words = self.shape(reg).1;
                values.push((start + 4 * i64::from(word), reg, self.kernel.code.value(File::R, words)));
            }
            start += 4 * i64::from(shape(param).words());
        }
        let in_registers = signature.result_address.is_none();
        if in_registers {
            for (.., value) in &values {
                fixed.results.push(next);
                next += self.kernel.code.values[*value].words;
            }
        }
        let defined: Vec<Value> = values.iter().filter(|_| in_registers).map(|(.., v)| *v).collect();
        let data = self.data(Op::Pseudo(Pseudo::Call), &[], &defined, &operands);
        let inst = self.kernel.code.append(self.block, data);
        self.kernel.code.fixed.insert(inst, fixed);
        for (offset, reg, value) in values {
            if !in_registers {
                let top = self.stack_top();
                let address = self.stack_address(top, offset);
                self.emit_to(sass::Op::LDL, &[], &[value], &address);
            }
            let value = if self.shape(reg).0 == File::P { self.is_nonzero(value) } else { value };
            self.now.set(reg, value);
        }
        Some(())
    }

    fn callee(&mut self, callee: &Callee<'a>, fixed: &mut Fixed) -> Option<Arg> {
        self.kernel.calls = true;
        if let Some(address) = callee.address {
            let text = prototype_text(callee.asked, callee.prototype.returns, callee.prototype.params);
            self.kernel.pointer_calls.push(text);
            fixed.args.push(Convention::of(fixed).callee(&self.kernel.code));
            return Some(address.into());
        }
        let symbol = self.data.aliased(callee.symbol?);
        let name = crate::module::data::name(self.module, symbol);
        let defined = |i: &Item| matches!(i, Item::Function(f) if f.symbol == symbol && f.body.is_some());
        let is_here = self.module.items.iter().any(defined);
        Some(self.named_callee(name, is_here, fixed))
    }

    fn named_callee(&mut self, name: String, is_here: bool, fixed: &mut Fixed) -> Arg {
        let symbol = self.kernel.code.symbol(&name);
        let list = if is_here { &mut self.kernel.callees } else { &mut self.kernel.externs };
        list.push(name);
        fixed.args.push(u8::MAX);
        Arg::Address { symbol, addend: 0, half: ori::Half::Low }
    }

    /// Calls a driver function. Parameters are words; trailing ones, and the result, may be absent.
    pub(crate) fn call_driver(
        &mut self,
        name: &str,
        params: &[(Shape, Vec<Arg>)],
        result_words: u8,
    ) -> Vec<Value> {
        let shapes: Vec<Shape> = params.iter().map(|(shape, _)| *shape).collect();
        let result = Shape { bytes: 4 * u32::from(result_words), align: 4 };
        let signature = Signature::new(Asked::default(), &[result], &shapes);
        let mut fixed = Fixed::default();
        self.kernel.calls = true;
        let mut operands = vec![self.named_callee(name.into(), false, &mut fixed)];
        for ((_, words), slot) in params.iter().zip(&signature.params) {
            for (i, word) in words.iter().enumerate() {
                let word = self.materialized(*word);
                let value = self.copy(word);
                match slot {
                    Slot::Register(first) => {
                        operands.push(value.into());
                        fixed.args.push(first + i as u8);
                    }
                    Slot::Stack(offset) => {
                        let (top, to) = (self.stack_top(), Arg::Imm(i64::from(*offset) + 4 * i as i64));
                        self.emit_to(sass::Op::STL, &[], &[], &[top, to, value.into()]);
                    }
                }
            }
        }
        let results: Vec<Value> = (0..result_words).map(|_| self.kernel.code.value(File::R, 1)).collect();
        fixed.results = (abi::FIRST..abi::FIRST + result_words).collect();
        let data = self.data(Op::Pseudo(Pseudo::Call), &[], &results, &operands);
        let inst = self.kernel.code.append(self.block, data);
        self.kernel.code.fixed.insert(inst, fixed);
        results
    }

    /// The values of an actual parameter, with the numbers of their first words: the words of a `.param` variable, or a
    /// register or constant.
    fn argument(&mut self, arg: &Operand, param: &Param) -> Option<Vec<(u32, Value)>> {
        self.mark_parts(arg, VALUE);
        match arg {
            Operand::Symbol(symbol) if self.params.has(*symbol) => {
                let words: Vec<(u32, Reg)> = self.params.numbered(*symbol).collect();
                (is_variadic(param) || self.params.size(*symbol) == shape(param).words())
                    .then(|| words.into_iter().map(|(i, r)| (i, self.read(r))).collect())
            }
            Operand::Reg(reg) => {
                let value = self.read(*reg);
                Some(vec![(0, self.passed(value))])
            }
            _ if param.ty.bits() <= 32 => {
                let word = self.word(arg, param.ty)?;
                let word = self.in_register(word);
                Some(vec![(0, self.copy(word))])
            }
            _ => Some(vec![(0, self.wide(arg, param.ty)?)]),
        }
    }

    fn result_registers(&self, result: &Operand, param: &Param) -> Option<Vec<(u32, Reg)>> {
        self.mark_parts(result, VALUE);
        match result {
            Operand::Symbol(symbol) if self.params.has(*symbol) => {
                let fits = self.params.size(*symbol) == shape(param).words();
                fits.then(|| self.params.numbered(*symbol).collect())
            }
            Operand::Reg(reg) => Some(vec![(0, *reg)]),
            _ => None,
        }
    }
}
