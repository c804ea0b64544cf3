//! Programs as PTX.
//!
//! Global memory, after the kernel's first parameter:
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
use super::derived::{self, Base, bits_class};
use super::exchange::{self, State, Tracker};
use super::templates::{self, Piece, Template};
use super::{ARGUMENTS, Choice, Derived, Guard, Kind, Program, RESULTS, Statement, Style, Trips, Ways};
use random::Random;
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
    module_with(programs, false)
}

/// The same module, in which additions stand in place of operands that are sums.
pub fn plain_module(programs: &[Program]) -> String {
    module_with(programs, true)
}

fn module_with(programs: &[Program], plain: bool) -> String {
    let lookup: Vec<String> = (0..64u32).map(|i| ((i * i * 37 + i * 11 + 5) & 0xff).to_string()).collect();
    let mut text = String::from(".version 8.5\n.target sm_90\n.address_size 64\n");
    let _ = writeln!(text, ".const .align 16 .b8 lookup[64] = {{{}}};", lookup.join(", "));
    programs.iter().for_each(|program| text.push_str(&program.text(plain)));
    text
}

impl Program {
    /// The functions that are called, and the kernel.
    fn text(&self, plain: bool) -> String {
        let whole_warps = self.block.is_multiple_of(32);
        let mask = if whole_warps { "-1" } else { "%all" };
        let mut printer = Printer { plain, ..Printer::new(self) };
        let here = Here {
            mask: Some(mask.into()),
            full: whole_warps,
            block: true,
            whole_warp: true,
            xor_bits: 31,
            number: 0,
        };
        printer.block(&self.body, &here);
        printer.wait_for_copies();
        let (body, numbers) = (printer.text, printer.numbers);
        let (used, regions) = (used(&self.body), printer.tracker.used);
        let mut text = exchange::global_variable(&self.name(), &regions, self.grid);
        text.push_str(&self.function_texts(printer.called));
        let _ = writeln!(
            text,
            ".visible .entry {}(.param .u64 memory, .param .align 8 .b8 values[32])\n{{",
            self.name()
        );
        declarations(&mut text, numbers, self.kind);
        let _ = writeln!(text, "\t.shared .align 16 .b8 slots[{}];", self.block * SLOT);
        if self.kind == Kind::Exchange {
            exchange::declarations(&mut text, &regions);
        }
        self.prologue(&mut text, &used, &body);
        if self.kind == Kind::Exchange {
            exchange::prologue(&mut text, &self.name(), &regions, self.block);
        }
        text.push_str(&body);
        epilogue(&mut text, &used);
        if self.kind == Kind::Exchange {
            exchange::epilogue(&mut text, &regions, SCRATCH);
        }
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
            let name = function_name(self, index);
            texts.push(function_text(&name, block, &printer.text, printer.numbers, self.kind));
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
            (MINE, format!("add.u64 %mine, %record, {own};")),
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
            let always = register == "%slot" && shared || register == MINE && self.kind == Kind::Exchange;
            if always || body.contains(register) {
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
            let at = start(self.kind, class, number).unwrap_or(at);
            let _ = match class {
                Class::Predicate => {
                    writeln!(text, "\tld.global.u8 %tr0, [%record+{at}];\n\tsetp.ne.u32 %p{number}, %tr0, 0;")
                }
                _ => writeln!(text, "\tld.global.{} %{}{number}, [%record+{at}];", info.ty, info.name),
            };
        }
    }
}

fn function_name(program: &Program, index: u8) -> String {
    format!("f_{}_{index}", program.name())
}

/// Where integer registers start, if not with values of their own: many of those that are negated in other types hold
/// floats.
fn start(kind: Kind, class: Class, number: u8) -> Option<usize> {
    let from = match (kind, class) {
        (Kind::Mixed | Kind::Exchange, _) => return None,
        (_, Class::Word) => [
            None,
            None,
            Some(Class::Float),
            Some(Class::Float),
            Some(Class::HalfPair),
            Some(Class::BrainPair),
        ],
        (_, Class::Long) => [None, Some(Class::Double), Some(Class::Double), None, None, None],
        (_, Class::Short) => [None, Some(Class::Half), Some(Class::Brain), None, None, None],
        _ => return None,
    };
    let from = (*from.get(usize::from(number))?)?;
    let register = (from, number % from.info().count);
    class::registers().position(|other| other == register).map(|i| 8 * i)
}

const MINE: &str = "%mine";

/// A function begins with its arguments in the first registers of their classes, and constants in the others.
fn function_text(name: &str, block: &[Statement], body: &str, numbers: u32, kind: Kind) -> String {
    let mut text = format!(
        ".func (.param .align 8 .b8 results[16]) {name}(.param .b64 at, .param .b64 from, .param .b32 own,\n\t\
         .param .b32 a, .param .b64 b, .param .f32 c)\n{{\n"
    );
    let mut used = used(block);
    used.extend(RESULTS.map(|class| (class, 0)));
    declarations(&mut text, numbers, kind);
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

fn declarations(text: &mut String, numbers: u32, kind: Kind) {
    for info in &CLASSES {
        let _ = writeln!(text, "\t.reg .{} %{}<{}>;", info.ty, info.name, info.count);
    }
    for (ty, name) in
        [("pred", "tp"), ("b16", "th"), ("b32", "tr"), ("b64", "td"), ("f32", "tf"), ("f64", "tg")]
    {
        let _ = writeln!(text, "\t.reg .{ty} %{name}<2>;");
    }
    if matches!(kind, Kind::Modifiers | Kind::Operands) {
        for class in [Class::Predicate, Class::Short, Class::Word, Class::Long] {
            let info = class.info();
            let _ = writeln!(text, "\t.reg .{} %m{}<{}>;", info.ty, info.name, derived::REGISTERS);
        }
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
                used.extend(kept(template, choices));
            }
            Statement::Access(access) => {
                used.extend(access.guard.as_ref().map(guard));
                used.extend(access.registers());
            }
            Statement::Split { .. } => {}
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

/// The registers that get an operand's value as well.
fn kept<'a>(template: &'a Template, choices: &'a [Choice]) -> impl Iterator<Item = (Class, u8)> + 'a {
    let open = template.pieces.iter().filter(|piece| piece.is_open()).zip(choices);
    open.filter_map(|(piece, choice)| {
        let Choice::Derived(derived) = choice else { return None };
        let class = bits_class(piece.class()?);
        derived.keep.map(|number| (class, number % class.info().count))
    })
}

/// For each open place of a template the register that stands there. Results of one row are different registers: what
/// one instruction would leave in a register that it writes twice is not defined.
fn registers(template: &Template, choices: &[Choice]) -> Vec<Option<(Class, u8)>> {
    let mut results = BTreeSet::new();
    let places = template.pieces.iter().filter(|piece| piece.is_open());
    places
        .zip(choices)
        .map(|(piece, choice)| {
            let mut class = piece.class()?;
            let number = match choice {
                Choice::Register(number) => *number,
                Choice::Counter => 0,
                Choice::Derived(derived) => {
                    let Base::Register(number) = derived.base else { return None };
                    class = if derived.own { class } else { bits_class(class) };
                    number
                }
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
pub struct Here {
    /// The lanes of a warp, as an operand.
    pub mask: Option<String>,
    /// All 32 of them.
    pub full: bool,
    /// All threads of the block.
    pub block: bool,
    /// All threads of the warp.
    pub whole_warp: bool,
    /// With a lane also those are here whose numbers differ in these bits.
    pub xor_bits: u32,
    /// Different where other lanes are here.
    pub number: u32,
}

impl Here {
    const UNKNOWN: Here =
        Here { mask: None, full: false, block: false, whole_warp: false, xor_bits: 0, number: 0 };
}

pub struct Printer<'p> {
    pub program: &'p Program,
    /// The function that is printed; the kernel without one.
    pub function: Option<u8>,
    called: BTreeSet<u8>,
    /// Without operands that are sums.
    plain: bool,
    text: String,
    /// The numbers of the loops around.
    pub loops: Vec<u32>,
    /// Those that all threads here run as often as each other.
    pub together: Vec<u32>,
    pub tracker: Tracker,
    /// Numbers of statements with labels and registers of their own.
    numbers: u32,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program) -> Printer<'p> {
        Printer {
            program,
            function: None,
            called: BTreeSet::new(),
            plain: false,
            text: String::new(),
            loops: Vec::new(),
            together: Vec::new(),
            tracker: Tracker::default(),
            numbers: 0,
        }
    }

    pub fn line(&mut self, line: impl AsRef<str>) {
        self.text.push('\t');
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn label(&mut self, name: &str, number: u32) {
        let _ = writeln!(self.text, "{name}{number}:");
    }

    pub fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    pub fn block(&mut self, block: &[Statement], here: &Here) {
        block.iter().for_each(|statement| self.statement(statement, here));
    }

    fn statement(&mut self, statement: &Statement, here: &Here) {
        match statement {
            Statement::Row { guard, template, choices } => self.row(*guard, *template, choices, here),
            Statement::Access(access) => self.access(access, here),
            Statement::If { condition, then, otherwise } => self.choice(*condition, then, otherwise, here),
            Statement::Split { bit, then, otherwise } => self.split(*bit, then, otherwise, here),
            Statement::Loop { style, trips, body } => self.repeat(*style, *trips, body, here),
            Statement::Switch { index, ways, arms } => self.switch((*index, *ways), arms, here),
            Statement::Leave { condition, level, again } => {
                self.wait_for_copies();
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
        let name = function_name(self.program, function);
        self.line(format!("call (q), {name}, (p0, p1, p2, p3, p4, p5);"));
        self.line(format!("ld.param.b32 %r{word}, [q];\n\tld.param.b64 %d{long}, [q+8];\n\t}}"));
    }

    /// A row is left out where it needs threads that may not be here.
    fn row(&mut self, guard: Option<Guard>, template: usize, choices: &[Choice], here: &Here) {
        let template = &templates::table()[template];
        let mut text = String::new();
        let mut open = choices.iter().zip(registers(template, choices));
        let mut around = Around::default();
        for (i, piece) in template.pieces.iter().enumerate() {
            match (piece, &here.mask) {
                (Piece::Text(piece), _) => text.push_str(piece),
                (Piece::Members, Some(mask)) => text.push_str(mask),
                (Piece::Full, Some(mask)) if here.full => text.push_str(mask),
                (Piece::Block, _) if here.block => {}
                (Piece::Members | Piece::Full | Piece::Block, _) => return,
                (piece, _) => match open.next() {
                    Some((Choice::Derived(choice), register)) => {
                        let sum = takes_sum(&text, template.pieces.get(i + 1));
                        text.push_str(&around.operand(piece, choice, register, sum, self.plain));
                    }
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
        around.before.iter().for_each(|line| self.line(line));
        for instruction in text.split_inclusive(';') {
            self.line(format!("{guard}{}", instruction.trim()));
        }
        around.after.iter().for_each(|line| self.line(line));
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
        self.part(here, &[then, otherwise]);
        let number = self.number();
        let (mut yes, mut no) = (Here::UNKNOWN, Here::UNKNOWN);
        (yes.number, no.number) = (2 * number + 1, 2 * number + 2);
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
        self.sides(number, (then, &yes), (otherwise, &no));
    }

    /// What stands after the branch to `ELSE`.
    fn sides(&mut self, number: u32, (then, yes): (&[Statement], &Here), other: (&[Statement], &Here)) {
        let (otherwise, no) = other;
        let mut touched = self.side(then, yes);
        if !otherwise.is_empty() {
            self.line(format!("bra END{number};"));
        }
        self.label("ELSE", number);
        if !otherwise.is_empty() {
            touched.merge(&self.side(otherwise, no));
            self.label("END", number);
        }
        self.tracker.state.merge(&touched);
    }

    /// Lanes with a bit of their number go one way, the others another.
    fn split(&mut self, bit: u8, then: &[Statement], otherwise: &[Statement], here: &Here) {
        self.part(here, &[then, otherwise]);
        let (number, bit) = (self.number(), 1u32 << (bit % 5));
        let lanes = (0..32).filter(|lane| lane & bit != 0).fold(0u32, |mask, lane| mask | 1 << lane);
        let side = |lanes: u32, register: String, which: u32| {
            let mask = match here.mask.as_deref() {
                // A mask that is a number stays one.
                Some("-1") => Some((format!("{lanes:#x}"), None)),
                Some(mask) => {
                    let outer = mask.strip_prefix("0x").and_then(|text| u32::from_str_radix(text, 16).ok());
                    Some(match outer {
                        Some(outer) => (format!("{:#x}", outer & lanes), None),
                        None => (register.clone(), Some(format!("and.b32 {register}, {mask}, {lanes:#x};"))),
                    })
                }
                None => None,
            };
            let (mask, line) = mask.unzip();
            let xor_bits = here.xor_bits & !bit;
            (Here { mask, xor_bits, number: 2 * number + which, ..Here::UNKNOWN }, line.flatten())
        };
        let (yes, first) = side(lanes, format!("%then{number}"), 1);
        let (no, second) = side(!lanes, format!("%else{number}"), 2);
        [first, second].into_iter().flatten().for_each(|line| self.line(line));
        self.line(format!("mov.u32 %tr0, %laneid;\n\tand.b32 %tr0, %tr0, {bit};"));
        self.line(format!("setp.eq.u32 %again{number}, %tr0, 0;\n\t@%again{number} bra ELSE{number};"));
        self.sides(number, (then, &yes), (otherwise, &no));
    }

    fn repeat(&mut self, style: Style, trips: Trips, body: &[Statement], here: &Here) {
        self.wait_for_copies();
        // Threads that enter or leave at different times are not together.
        let middle = if let Style::Middle(guard) = style { Some(guard) } else { None };
        let together = !matches!(trips, Trips::Register(_)) && !has_exit(body) && middle.is_none();
        if !together {
            self.part(here, &[body]);
        }
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
            // A kernel's parameters are not a function's.
            Trips::Parameter(word) if self.function.is_some() => (word % 4 + 1).to_string(),
            Trips::Parameter(word) => {
                self.line(format!("ld.param.u32 %trips{number}, [values+{}];", 4 * (word % 8)));
                self.line(format!("and.b32 %trips{number}, %trips{number}, 7;"));
                if style != Style::Top {
                    self.line(format!("add.u32 %trips{number}, %trips{number}, 1;"));
                }
                format!("%trips{number}")
            }
        };
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
        if together {
            self.iterate_together(number, body, here);
        } else {
            let (before, after) = body.split_at(body.len() / 2);
            let mut touched = self.side(before, &Here::UNKNOWN);
            if middle.is_some() {
                self.label("MIDDLE", number);
            }
            touched.merge(&self.side(after, &Here::UNKNOWN));
            self.tracker.state.merge(&touched);
        }
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

    /// The body of a loop whose iterations all threads here begin together. What is known at its beginning holds before
    /// the loop and at the end of its body, so it is printed until that is so.
    fn iterate_together(&mut self, number: u32, body: &[Statement], here: &Here) {
        self.together.push(number);
        let (length, numbers) = (self.text.len(), self.numbers);
        self.tracker.blur();
        let mut start: State = self.tracker.state.clone();
        loop {
            self.block(body, here);
            self.wait_for_copies();
            self.tracker.state.swap();
            let mut both = start.clone();
            both.merge(&self.tracker.state);
            if both == start {
                break;
            }
            start = both;
            self.text.truncate(length);
            (self.numbers, self.tracker.state) = (numbers, start.clone());
        }
        self.tracker.state = start;
        self.tracker.blur();
        self.together.pop();
    }

    /// Tests of a value in `%tr0`, so many in a row at most.
    fn search(&mut self, cases: &[(i32, String)], most: usize, otherwise: &str) {
        if cases.len() <= most {
            for (value, label) in cases {
                self.line(format!("setp.eq.s32 %tp0, %tr0, {value};"));
                self.line(format!("@%tp0 bra {label};"));
            }
            self.line(format!("bra {otherwise};"));
            return;
        }
        let (low, high) = cases.split_at(cases.len() / 2);
        let (value, label) = &high[0];
        self.line(format!("setp.lt.s32 %tp0, %tr0, {value};"));
        self.line(format!("@%tp0 bra BELOW_{label};"));
        self.search(high, most, otherwise);
        let _ = writeln!(self.text, "BELOW_{label}:");
        self.search(low, most, otherwise);
    }

    fn switch(&mut self, (index, ways): (u8, Ways), arms: &[Vec<Statement>], here: &Here) {
        self.part(here, &arms.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut touched = State::default();
        let number = self.number();
        let labels: Vec<String> = (0..arms.len()).map(|i| format!("ARM{number}_{i}")).collect();
        let values = 2 * arms.len().next_power_of_two();
        self.line(format!("and.b32 %tr0, %r{index}, {};", values - 1));
        match ways {
            _ if labels.is_empty() => {}
            Ways::Table => {
                let entries: Vec<&str> = labels.iter().cycle().take(values).map(String::as_str).collect();
                self.line(format!("WAYS{number}: .branchtargets {};", entries.join(", ")));
                self.line(format!("brx.idx %tr0, WAYS{number};"));
            }
            Ways::Tests(first) | Ways::Search(first) => {
                // Values on both sides of the cases.
                self.line(format!("add.s32 %tr0, %tr0, {};", i32::from(first) - 1));
                let cases: Vec<(i32, String)> =
                    (i32::from(first)..).zip(labels[1..].iter().cloned()).collect();
                let most = if matches!(ways, Ways::Search(_)) { 2 } else { cases.len() };
                self.search(&cases, most, &labels[0]);
            }
        }
        for (arm, label) in arms.iter().zip(&labels) {
            let _ = writeln!(self.text, "{label}:");
            touched.merge(&self.side(arm, &Here::UNKNOWN));
            self.line(format!("bra END{number};"));
        }
        self.label("END", number);
        self.tracker.state.merge(&touched);
    }
}

/// The instructions around a row that its operands ask for.
#[derive(Default)]
struct Around {
    before: Vec<String>,
    after: Vec<String>,
    /// Operands so far.
    count: usize,
}

impl Around {
    /// An operand that is computed before the row.
    fn operand(
        &mut self,
        piece: &Piece,
        choice: &Derived,
        register: Option<(Class, u8)>,
        sum: bool,
        plain: bool,
    ) -> String {
        let Some(class) = piece.class() else { return String::new() };
        let source = match (choice.base, register) {
            (Base::Constant(bits), _) => bits_class(class).literal(bits),
            (_, register) => register.map(|(c, n)| format!("%{}{n}", c.info().name)).unwrap_or_default(),
        };
        let number = self.count;
        self.count += 1;
        let operand = choice.operand(class, &source, number, &mut self.before);
        if let Some(keep) = choice.keep {
            let info = bits_class(class).info();
            self.after.push(format!("mov.{} %{}{}, {operand};", info.ty, info.name, keep % info.count));
        }
        match sum && class != Class::Predicate {
            true => choice.with_number(class, operand, number, plain, &mut self.before),
            false => operand,
        }
    }
}

/// May the operand after a text be a sum? Elements of vectors, parts of registers and addresses may not. ptxas refuses it
/// in video instructions and in those that it makes routines of: some divisions, and roots and reciprocals of doubles.
/// Additions in place of sums come before the row, so that only its first instruction may have one: the others may read
/// what it writes.
fn takes_sum(text: &str, next: Option<&Piece>) -> bool {
    if text.contains(';') {
        return false;
    }
    let instruction = text.trim_start();
    let inside = |open: char, close: char| instruction.rfind(open) > instruction.rfind(close);
    let part = matches!(next, Some(Piece::OneOf(texts)) if texts.iter().any(|text| text.starts_with('.')));
    let refused = ["v", "div", "rem", "rcp", "sqrt"].iter().any(|start| instruction.starts_with(start));
    !inside('{', '}') && !inside('[', ']') && !part && !refused
}

pub fn at(guard: Guard) -> String {
    format!("@{}%p{} ", if guard.negated { "!" } else { "" }, guard.register)
}

fn is_collective(block: &[Statement]) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Row { template, .. } => templates::table()[*template].is_collective(),
        Statement::Access(_) => true,
        other => other.blocks().into_iter().any(|inner| is_collective(inner)),
    })
}

fn has_exit(block: &[Statement]) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Leave { .. } => true,
        other => other.blocks().into_iter().any(|inner| has_exit(inner)),
    })
}
