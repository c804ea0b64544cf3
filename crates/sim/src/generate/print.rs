//! Programs as PTX.
//!
//! Global memory, behind the kernel's first parameter:
//!
//! | bytes | what | register |
//! |---|---|---|
//! | 1024 | the table, which nobody writes | `%table` |
//! | 256 | the totals, which all threads add to | `%totals` |
//! | for each thread a record: | | |
//! | 8 for each register | the values that registers start with | `%record` |
//! | 128 | the thread's own memory | `%mine` |
//! | 8 for each register | the values that registers end with | |
//!
//! A thread has 64 bytes of shared memory at `%slot`; the next thread's are at `%peer`. `frame` is 64 bytes of local
//! memory. Both begin with zeros. `lookup` is constant memory, `values` the kernel's second parameter.
//!
//! Only registers that a program mentions are set up and written back.

use super::class::{self, CLASSES, Class};
use super::random::Random;
use super::templates::{self, Piece, Template};
use super::{ARGUMENTS, Choice, Guard, Program, RESULTS, Statement, Style, Trips};
use std::collections::BTreeSet;
use std::fmt::Write;

pub const TOTALS: u32 = 1024;
pub const RECORDS: u32 = TOTALS + 256;
pub const SCRATCH: u32 = 128;
/// Bytes of shared memory that a thread has.
const SLOT: u32 = 64;

/// The kernel's second parameter.
pub const PARAMETERS: [u8; 32] = [
    0x78, 0x56, 0x34, 0x12, 0xff, 0xff, 0xff, 0x7f, 0x00, 0x00, 0x80, 0x3f, 0x05, 0x00, 0x00, 0x80, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x81, 0x02, 0xf3, 0x04, 0xe5, 0x06, 0xd7, 0x08,
];

/// All parameters of a kernel, as they lie in memory.
pub fn parameters(memory: u64) -> Vec<u8> {
    [memory.to_le_bytes().as_slice(), &PARAMETERS].concat()
}

fn record_bytes() -> u32 {
    16 * class::registers().count() as u32 + SCRATCH
}

/// Bytes of global memory for so many threads.
pub fn memory_bytes(threads: u32) -> usize {
    (RECORDS + threads * record_bytes()) as usize
}

/// A module with these programs as its kernels.
pub fn module(programs: &[Program]) -> String {
    let lookup: Vec<String> = (0..64u32).map(|i| ((i * i * 37 + i * 11 + 5) & 0xff).to_string()).collect();
    let mut text = String::from(".version 8.5\n.target sm_90\n.address_size 64\n");
    let _ = writeln!(text, ".const .align 16 .b8 lookup[64] = {{{}}};", lookup.join(", "));
    programs.iter().for_each(|program| text.push_str(&program.text()));
    text
}

impl Program {
    /// The functions that are called, and the kernel.
    fn text(&self) -> String {
        let whole_warps = self.block.is_multiple_of(32);
        let mask = if whole_warps { "-1" } else { "%all" };
        let mut printer = Printer::new(self);
        printer.block(&self.body, &Here { mask: Some(mask.into()), full: whole_warps, block: true });
        let (body, numbers) = (printer.text, printer.numbers);
        let used = used(&self.body);
        let mut text = self.function_texts(printer.called);
        let _ = writeln!(
            text,
            ".visible .entry {}(.param .u64 memory, .param .align 8 .b8 values[32])\n{{",
            self.name()
        );
        declarations(&mut text, numbers);
        let _ = writeln!(text, "\t.shared .align 16 .b8 slots[{}];", self.block * SLOT);
        self.prologue(&mut text, &used, &body);
        text.push_str(&body);
        epilogue(&mut text, &used);
        text.push_str("\tret;\n}\n");
        text
    }

    /// The functions that are called from the kernel or each other, the last first, as they are declared before they
    /// are called.
    fn function_texts(&self, mut called: BTreeSet<u8>) -> String {
        let mut texts = Vec::new();
        for (index, block) in (0u8..).zip(&self.functions) {
            if !called.contains(&index) {
                continue;
            }
            let mut printer = Printer { function: Some(index), ..Printer::new(self) };
            printer.block(block, &Here::UNKNOWN);
            called.append(&mut printer.called);
            texts.push(function_text(
                &function_name(self.seed, index),
                block,
                &printer.text,
                printer.numbers,
            ));
        }
        texts.reverse();
        texts.concat()
    }

    fn prologue(&self, text: &mut String, used: &BTreeSet<(Class, u8)>, body: &str) {
        let block = self.block;
        let _ = writeln!(text, "\tld.param.u64 %table, [memory];\n\tcvta.to.global.u64 %table, %table;");
        let _ = writeln!(text, "\tmov.u32 %tr0, %tid.x;\n\tmov.u32 %tr1, %ctaid.x;");
        let _ = writeln!(text, "\tmad.lo.u32 %tr1, %tr1, {block}, %tr0;");
        let _ = writeln!(text, "\tmad.wide.u32 %record, %tr1, {}, %table;", record_bytes());
        let _ = writeln!(text, "\tadd.u64 %record, %record, {RECORDS};");
        let own = 8 * class::registers().count();
        let derived = [
            ("%totals", format!("add.u64 %totals, %table, {TOTALS};")),
            ("%mine", format!("add.u64 %mine, %record, {own};")),
            (
                "%all",
                format!(
                    "and.b32 %all, %tr0, -32;\n\tsub.u32 %all, {block}, %all;\n\tshl.b32 %all, 1, %all;\n\t\
                     sub.u32 %all, %all, 1;"
                ),
            ),
            ("%slot", format!("mov.u32 %slot, slots;\n\tmad.lo.u32 %slot, %tr0, {SLOT}, %slot;")),
            (
                "%peer",
                format!(
                    "add.u32 %tr1, %tr0, 1;\n\trem.u32 %tr1, %tr1, {block};\n\tmov.u32 %peer, slots;\n\t\
                     mad.lo.u32 %peer, %tr1, {SLOT}, %peer;"
                ),
            ),
        ];
        let shared = body.contains("%slot") || body.contains("%peer");
        for (register, code) in derived {
            if body.contains(register) || register == "%slot" && shared {
                let _ = writeln!(text, "\t{code}");
            }
        }
        if shared {
            zeros(text, "shared", "%slot");
        }
        if body.contains("frame") {
            zeros(text, "local", "frame");
        }
        for (at, class, number) in places(used) {
            let info = class.info();
            let _ = match class {
                Class::Predicate => {
                    writeln!(text, "\tld.global.u8 %tr0, [%record+{at}];\n\tsetp.ne.u32 %p{number}, %tr0, 0;")
                }
                _ => writeln!(text, "\tld.global.{} %{}{number}, [%record+{at}];", info.ty, info.name),
            };
        }
    }
}

fn function_name(seed: u64, index: u8) -> String {
    format!("f{seed}_{index}")
}

/// A function begins with its arguments in the first registers of their classes, and constants in the others.
fn function_text(name: &str, block: &[Statement], body: &str, numbers: u32) -> String {
    let mut text = format!(
        ".func (.param .align 8 .b8 results[16]) {name}(.param .b64 at, .param .b64 from, .param .b32 own,\n\t\
         .param .b32 a, .param .b64 b, .param .f32 c)\n{{\n"
    );
    let mut used = used(block);
    used.extend(RESULTS.map(|class| (class, 0)));
    declarations(&mut text, numbers);
    let _ = writeln!(
        text,
        "\tld.param.b64 %record, [at];\n\tld.param.b64 %table, [from];\n\tld.param.b32 %slot, [own];"
    );
    let _ = writeln!(text, "\tadd.u64 %totals, %table, {TOTALS};");
    let _ = writeln!(text, "\tadd.u64 %mine, %record, {};", 8 * class::registers().count());
    if body.contains("frame") {
        zeros(&mut text, "local", "frame");
    }
    for (at, class, number) in places(&used) {
        let info = class.info();
        let parameter = ARGUMENTS.iter().position(|argument| (*argument, 0) == (class, number));
        let constant = class.constant(&mut Random::new(at as u64));
        let _ = match (parameter, class) {
            (Some(i), _) => {
                writeln!(text, "\tld.param.{} %{}0, [{}];", info.ty, info.name, ["a", "b", "c"][i])
            }
            (None, Class::Predicate) => {
                writeln!(text, "\tld.param.u32 %tr0, [a];\n\tsetp.lt.s32 %p{number}, %tr0, {};", 8 * number)
            }
            (None, _) => {
                writeln!(text, "\tmov.{} %{}{number}, {};", info.ty, info.name, class.literal(constant))
            }
        };
    }
    text.push_str(body);
    text.push_str("RETURN:\n\tst.param.b32 [results], %r0;\n\tst.param.b64 [results+8], %d0;\n\tret;\n}\n");
    text
}

fn zeros(text: &mut String, space: &str, base: &str) {
    for at in (0..SLOT).step_by(16) {
        let _ = writeln!(text, "\tst.{space}.v4.u32 [{base}+{at}], {{0, 0, 0, 0}};");
    }
}

fn declarations(text: &mut String, numbers: u32) {
    for info in &CLASSES {
        let _ = writeln!(text, "\t.reg .{} %{}<{}>;", info.ty, info.name, info.count);
    }
    for (ty, name) in
        [("pred", "tp"), ("b16", "th"), ("b32", "tr"), ("b64", "td"), ("f32", "tf"), ("f64", "tg")]
    {
        let _ = writeln!(text, "\t.reg .{ty} %{name}<2>;");
    }
    text.push_str("\t.reg .b64 %table, %totals, %record, %mine;\n\t.reg .b32 %slot, %peer, %all;\n");
    if numbers > 0 {
        for name in ["count", "trips", "then", "else"] {
            let _ = writeln!(text, "\t.reg .b32 %{name}<{numbers}>;");
        }
        let _ = writeln!(text, "\t.reg .pred %again<{numbers}>;");
    }
    let _ = writeln!(text, "\t.local .align 16 .b8 frame[{SLOT}];");
}

/// Registers with the offsets of their values.
fn places(used: &BTreeSet<(Class, u8)>) -> impl Iterator<Item = (usize, Class, u8)> {
    let all = class::registers().enumerate();
    all.filter(|(_, register)| used.contains(register)).map(|(i, (class, number))| (8 * i, class, number))
}

/// Writes the registers back. A NaN becomes the canonical one, as only that it is one is certain.
fn epilogue(text: &mut String, used: &BTreeSet<(Class, u8)>) {
    let results = 8 * class::registers().count() + SCRATCH as usize;
    for (at, class, number) in places(used) {
        let at = at + results;
        let info = class.info();
        let register = format!("%{}{number}", info.name);
        let (ty, canonical) = match class {
            Class::Predicate => {
                let _ = writeln!(
                    text,
                    "\tselp.u32 %tr0, 1, 0, {register};\n\tst.global.u8 [%record+{at}], %tr0;"
                );
                continue;
            }
            Class::Short | Class::Word | Class::Long => {
                let _ = writeln!(text, "\tst.global.{} [%record+{at}], {register};", info.ty);
                continue;
            }
            Class::Float => ("f32", "0f7fffffff"),
            Class::Double => ("f64", "0d7ff8000000000000"),
            Class::Half | Class::HalfPair => ("f16", "0x7fff"),
            Class::Brain | Class::BrainPair => ("bf16", "0x7fff"),
        };
        let move_type = class.info().ty;
        if matches!(class, Class::HalfPair | Class::BrainPair) {
            let _ = writeln!(text, "\tmov.b32 {{%th0, %th1}}, {register};");
            for half in 0..2 {
                let _ = writeln!(text, "\tsetp.nan.{ty} %tp0, %th{half}, %th{half};");
                let _ = writeln!(text, "\tselp.b16 %th{half}, {canonical}, %th{half}, %tp0;");
            }
            let _ = writeln!(text, "\tst.global.v2.b16 [%record+{at}], {{%th0, %th1}};");
        } else {
            let _ = writeln!(text, "\tsetp.nan.{ty} %tp0, {register}, {register};");
            let _ = writeln!(text, "\tselp.{move_type} {register}, {canonical}, {register}, %tp0;");
            let _ = writeln!(text, "\tst.global.{move_type} [%record+{at}], {register};");
        }
    }
}

/// The registers that statements mention.
fn used(block: &[Statement]) -> BTreeSet<(Class, u8)> {
    let mut used = BTreeSet::new();
    let guard = |guard: &Guard| (Class::Predicate, guard.register);
    for statement in block {
        match statement {
            Statement::Row { guard: condition, template, choices } => {
                used.extend(condition.as_ref().map(guard));
                let template = &templates::table()[*template];
                used.extend(registers(template, choices).into_iter().flatten());
            }
            Statement::If { condition, .. } | Statement::Leave { condition, .. } => {
                used.insert(guard(condition));
            }
            Statement::Loop { style, trips, .. } => {
                used.extend(if let Style::Middle(condition) = style { Some(guard(condition)) } else { None });
                used.extend(if let Trips::Register(r) = trips { Some((Class::Word, *r)) } else { None });
            }
            Statement::Switch { index: register, .. } => {
                used.insert((Class::Word, *register));
            }
            Statement::Call { arguments, results, .. } => {
                used.extend(ARGUMENTS.into_iter().zip(*arguments));
                used.extend(RESULTS.into_iter().zip(*results));
            }
        }
        statement.blocks().into_iter().for_each(|inner| used.extend(self::used(inner)));
    }
    used
}

/// For each open place of a template the register that stands there. Results of one row are different registers: what
/// one instruction would leave in a register that it writes twice is not defined.
fn registers(template: &Template, choices: &[Choice]) -> Vec<Option<(Class, u8)>> {
    let mut results = BTreeSet::new();
    let places = template.pieces.iter().filter(|piece| piece.is_open());
    places
        .zip(choices)
        .map(|(piece, choice)| {
            let class = piece.class()?;
            let number = match choice {
                Choice::Register(number) => *number,
                Choice::Counter => 0,
                _ => return None,
            };
            let count = class.info().count;
            let mut register = (class, number % count);
            if matches!(piece, Piece::Result(_)) {
                let next = (0..count).map(|i| (class, (number + i) % count));
                register = next.into_iter().find(|r| !results.contains(r)).unwrap_or(register);
                results.insert(register);
            }
            Some(register)
        })
        .collect()
}

/// Which threads are known to come to a place together.
#[derive(Clone)]
struct Here {
    /// The lanes of a warp, as an operand.
    mask: Option<String>,
    /// All 32 of them.
    full: bool,
    /// All threads of the block.
    block: bool,
}

impl Here {
    const UNKNOWN: Here = Here { mask: None, full: false, block: false };
}

struct Printer<'p> {
    program: &'p Program,
    /// The function that is printed; the kernel without one.
    function: Option<u8>,
    called: BTreeSet<u8>,
    text: String,
    /// The numbers of the loops around.
    loops: Vec<u32>,
    /// Numbers of statements with labels and registers of their own.
    numbers: u32,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program) -> Printer<'p> {
        let (text, loops) = (String::new(), Vec::new());
        Printer { program, function: None, called: BTreeSet::new(), text, loops, numbers: 0 }
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push('\t');
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn label(&mut self, name: &str, number: u32) {
        let _ = writeln!(self.text, "{name}{number}:");
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    fn block(&mut self, block: &[Statement], here: &Here) {
        block.iter().for_each(|statement| self.statement(statement, here));
    }

    fn statement(&mut self, statement: &Statement, here: &Here) {
        match statement {
            Statement::Row { guard, template, choices } => self.row(*guard, *template, choices, here),
            Statement::If { condition, then, otherwise } => self.choice(*condition, then, otherwise, here),
            Statement::Loop { style, trips, body } => self.repeat(*style, *trips, body, here),
            Statement::Switch { index, arms } => self.switch(*index, arms),
            Statement::Leave { condition, level, again } => {
                let around = self.loops.len().checked_sub(1 + usize::from(*level));
                let label = match around.map(|i| self.loops[i]) {
                    Some(number) if *again => format!("NEXT{number}"),
                    Some(number) => format!("DONE{number}"),
                    None if self.function.is_some() => "RETURN".into(),
                    None => return,
                };
                self.line(format!("{}bra {label};", at(*condition)));
            }
            Statement::Call { function, arguments, results } => self.call(*function, *arguments, *results),
        }
    }

    fn call(&mut self, function: u8, [a, b, c]: [u8; 3], [word, long]: [u8; 2]) {
        let exists = usize::from(function) < self.program.functions.len();
        if !exists || self.function.is_some_and(|caller| caller >= function) {
            return;
        }
        self.called.insert(function);
        // The names are not those of the function's own parameters: ptxas takes them for these, even in a scope.
        let arguments = [
            ("b64", "%record".to_string()),
            ("b64", "%table".to_string()),
            ("b32", "%slot".to_string()),
            ("b32", format!("%r{a}")),
            ("b64", format!("%d{b}")),
            ("f32", format!("%f{c}")),
        ];
        self.line("{\n\t.param .align 8 .b8 q[16];");
        for (i, (ty, value)) in arguments.iter().enumerate() {
            self.line(format!(".param .{ty} p{i};\n\tst.param.{ty} [p{i}], {value};"));
        }
        let name = function_name(self.program.seed, function);
        self.line(format!("call (q), {name}, (p0, p1, p2, p3, p4, p5);"));
        self.line(format!("ld.param.b32 %r{word}, [q];\n\tld.param.b64 %d{long}, [q+8];\n\t}}"));
    }

    /// A row is left out where it needs threads that may not be here.
    fn row(&mut self, guard: Option<Guard>, template: usize, choices: &[Choice], here: &Here) {
        let template = &templates::table()[template];
        let mut text = String::new();
        let mut open = choices.iter().zip(registers(template, choices));
        for piece in &template.pieces {
            match (piece, &here.mask) {
                (Piece::Text(piece), _) => text.push_str(piece),
                (Piece::Members, Some(mask)) => text.push_str(mask),
                (Piece::Full, Some(mask)) if here.full => text.push_str(mask),
                (Piece::Block, _) if here.block => {}
                (Piece::Members | Piece::Full | Piece::Block, _) => return,
                (piece, _) => match open.next() {
                    Some((choice, register)) => text.push_str(&self.open(piece, *choice, register)),
                    None => return,
                },
            }
        }
        // A kernel's parameters are not a function's.
        if self.function.is_some() && text.contains("values") {
            return;
        }
        let guard = guard.filter(|_| !template.is_collective()).map(at).unwrap_or_default();
        for instruction in text.split_inclusive(';') {
            self.line(format!("{guard}{}", instruction.trim()));
        }
    }

    fn open(&self, piece: &Piece, choice: Choice, register: Option<(Class, u8)>) -> String {
        match (piece, choice, register) {
            (_, Choice::Counter, _) if !self.loops.is_empty() => {
                format!("%count{}", self.loops[self.loops.len() - 1])
            }
            (_, _, Some((class, number))) => format!("%{}{number}", class.info().name),
            (Piece::OneOf(texts), Choice::Text(i), _) => texts.get(usize::from(i)).unwrap_or(&"").to_string(),
            (_, Choice::Constant(bits), _) => {
                piece.class().map(|class| class.literal(bits)).unwrap_or_default()
            }
            (_, Choice::Number(number), _) => number.to_string(),
            _ => String::new(),
        }
    }

    fn choice(&mut self, condition: Guard, then: &[Statement], otherwise: &[Statement], here: &Here) {
        let number = self.number();
        let (mut yes, mut no) = (Here::UNKNOWN, Here::UNKNOWN);
        if let (Some(mask), true) = (&here.mask, is_collective(then) || is_collective(otherwise)) {
            // The lanes that will be on either side.
            let not = if condition.negated { "!" } else { "" };
            let predicate = condition.register;
            self.line(format!("vote.sync.ballot.b32 %then{number}, {not}%p{predicate}, {mask};"));
            self.line(format!("xor.b32 %else{number}, %then{number}, {mask};"));
            yes.mask = Some(format!("%then{number}"));
            no.mask = Some(format!("%else{number}"));
        }
        let opposite = Guard { negated: !condition.negated, ..condition };
        self.line(format!("{}bra ELSE{number};", at(opposite)));
        self.block(then, &yes);
        if !otherwise.is_empty() {
            self.line(format!("bra END{number};"));
        }
        self.label("ELSE", number);
        if !otherwise.is_empty() {
            self.block(otherwise, &no);
            self.label("END", number);
        }
    }

    fn repeat(&mut self, style: Style, trips: Trips, body: &[Statement], here: &Here) {
        let number = self.number();
        let trips = match trips {
            Trips::Constant(trips) => trips.to_string(),
            Trips::Register(register) => {
                self.line(format!("and.b32 %trips{number}, %r{register}, 7;"));
                if style != Style::Top {
                    self.line(format!("add.u32 %trips{number}, %trips{number}, 1;"));
                }
                format!("%trips{number}")
            }
        };
        // Threads that enter or leave at different times are not together.
        let middle = if let Style::Middle(guard) = style { Some(guard) } else { None };
        let together = !trips.starts_with('%') && !has_exit(body) && middle.is_none();
        let inside = if together { here } else { &Here::UNKNOWN };
        let (count, again) = (format!("%count{number}"), format!("%again{number}"));
        let first = if style == Style::Down { &trips } else { "0" };
        self.line(format!("mov.u32 {count}, {first};"));
        if let Some(guard) = middle {
            self.line(format!("{}bra MIDDLE{number};", at(guard)));
        }
        self.label("LOOP", number);
        if style == Style::Top {
            self.line(format!("setp.ge.u32 {again}, {count}, {trips};"));
            self.line(format!("@{again} bra DONE{number};"));
        }
        self.loops.push(number);
        let (before, behind) = body.split_at(body.len() / 2);
        self.block(before, inside);
        if middle.is_some() {
            self.label("MIDDLE", number);
        }
        self.block(behind, inside);
        self.loops.pop();
        self.label("NEXT", number);
        match style {
            Style::Bottom | Style::Middle(_) => {
                self.line(format!("add.u32 {count}, {count}, 1;"));
                self.line(format!("setp.lt.u32 {again}, {count}, {trips};"));
                self.line(format!("@{again} bra LOOP{number};"));
            }
            Style::Top => {
                self.line(format!("add.u32 {count}, {count}, 1;"));
                self.line(format!("bra LOOP{number};"));
            }
            Style::Down => {
                self.line(format!("sub.u32 {count}, {count}, 1;"));
                self.line(format!("setp.ne.u32 {again}, {count}, 0;"));
                self.line(format!("@{again} bra LOOP{number};"));
            }
        }
        self.label("DONE", number);
    }

    fn switch(&mut self, index: u8, arms: &[Vec<Statement>]) {
        let number = self.number();
        let labels: Vec<String> = (0..arms.len()).map(|i| format!("ARM{number}_{i}")).collect();
        self.line(format!("WAYS{number}: .branchtargets {};", labels.join(", ")));
        self.line(format!("and.b32 %tr0, %r{index}, {};", arms.len().saturating_sub(1)));
        self.line(format!("brx.idx %tr0, WAYS{number};"));
        for (arm, label) in arms.iter().zip(&labels) {
            let _ = writeln!(self.text, "{label}:");
            self.block(arm, &Here::UNKNOWN);
            self.line(format!("bra END{number};"));
        }
        self.label("END", number);
    }
}

fn at(guard: Guard) -> String {
    format!("@{}%p{} ", if guard.negated { "!" } else { "" }, guard.register)
}

fn is_collective(block: &[Statement]) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Row { template, .. } => templates::table()[*template].is_collective(),
        other => other.blocks().into_iter().any(|inner| is_collective(inner)),
    })
}

fn has_exit(block: &[Statement]) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Leave { .. } => true,
        other => other.blocks().into_iter().any(|inner| has_exit(inner)),
    })
}
