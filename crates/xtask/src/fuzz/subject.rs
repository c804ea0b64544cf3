//! A generated program, and everything that can be done with it: parse, interpret, compile, simulate.
//!
//! Nothing here touches a file, so that many programs a second can be tried on all cores.

use sim::generate::{self, IMAGES, Program};
use sim::ptx::{FaultKind, Launch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

pub const TARGET: &str = "sm_90";

/// How a program is compiled.
pub struct Way {
    pub name: &'static str,
    pub level: u8,
    pub max_registers: Option<u32>,
    /// For a debugger, with all that it is told.
    pub debug: bool,
}

impl Way {
    /// The options, or nothing where the target is not known.
    fn options(&self) -> Option<sassafras::Options> {
        let mut options = sassafras::Options::new(ptx::Target::find(TARGET)?);
        options.level = self.level;
        // The interpreter rounds every product.
        options.contract = false;
        options.launch.max_registers = self.max_registers;
        if self.debug {
            (options.debug_code, options.debug_info) = (true, sassafras::DebugInfo::Full);
        }
        (options.verify, options.threads) = (true, Some(1));
        Some(options)
    }

    /// Does the compiler do the same in both ways?
    pub fn is_twin(&self, other: &Way) -> bool {
        let same_level = self.options().is_some_and(|options| options.is_same_level(other.level));
        same_level && (self.max_registers, self.debug) == (other.max_registers, other.debug)
    }
}

pub const WAYS: [Way; 5] = [
    Way { name: "O0", level: 0, max_registers: None, debug: false },
    Way { name: "O1", level: 1, max_registers: None, debug: false },
    Way { name: "O3", level: 3, max_registers: None, debug: false },
    Way { name: "O3-32", level: 3, max_registers: Some(32), debug: false },
    Way { name: "g", level: 0, max_registers: None, debug: true },
];

/// What failed. Reduction keeps the stage and lets the rest change.
#[derive(Debug)]
pub struct Failure {
    pub stage: String,
    pub what: String,
}

pub type Outcome<T> = std::result::Result<T, Failure>;

pub fn failure(stage: impl Into<String>, what: impl ToString) -> Failure {
    Failure { stage: stage.into(), what: what.to_string() }
}

/// A panic is a failure of its stage.
pub fn guarded<T>(stage: impl Into<String>, action: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(failure(stage, format!("panic: {}", text.unwrap_or("without a message"))))
    })
}

/// Steps of warps that a program may take: the longest take tens of millions, with loops in functions that loops call.
const STEP_LIMIT: u64 = 1 << 26;

/// Most threads of a program.
const THREADS: u32 = 128;

/// The contents of memory before a run, for the most threads.
static MEMORY: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| (0..IMAGES).map(|number| generate::image(number, THREADS)).collect());

/// A program with its text, parsed.
#[derive(Clone, Copy)]
pub struct Subject<'s> {
    pub program: &'s Program,
    pub source: &'s str,
    pub module: &'s ptx::Module<'s>,
    /// The seed of an adversary that orders threads and delays their stores, if there is one ([`Launch::weak`]).
    pub weak: Option<u64>,
}

pub fn parse(source: &str) -> Outcome<ptx::Module<'_>> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    match parsed.module {
        Some(module) if parsed.diagnostics.is_empty() => Ok(module),
        _ => Err(failure("parse", format!("{:?}", parsed.diagnostics.first()))),
    }
}

/// What the simulator says about a run.
pub enum Simulated {
    Memory(Vec<u8>),
    /// The machine model asks for more time than the code takes: where.
    Hasty(String),
    /// There is an instruction that the simulator doesn't know.
    Unknown(String),
}

impl Subject<'_> {
    /// Memory before a run.
    pub fn image(&self) -> &'static [u8] {
        let image = &MEMORY[(self.program.seed % IMAGES) as usize];
        &image[..self.program.memory_bytes().min(image.len())]
    }

    /// What both executors run with.
    fn launch<T>(&self, memory: u64, run: impl FnOnce(&Launch) -> T) -> T {
        let (name, parameters) = (self.program.name(), generate::parameters(memory));
        let (grid, block) = ([self.program.grid, 1, 1], [self.program.block, 1, 1]);
        let launch = Launch::new(&name, grid, block, &parameters);
        run(&Launch { step_limit: STEP_LIMIT, weak: self.weak, ..launch })
    }

    /// Memory after the interpreter has run the program.
    pub fn interpret(&self) -> Outcome<Vec<u8>> {
        let decoded = sim::ptx::Program::new(self.module, self.source);
        let mut machine = sim::ptx::Machine::new(&decoded);
        let address = machine.allocate(self.image().to_vec());
        self.launch(address, |launch| machine.run(launch)).map_err(|fault| failure("interpreter", fault))?;
        let memory = machine.read(address, self.program.memory_bytes());
        memory.map(<[u8]>::to_vec).ok_or_else(|| failure("interpreter", "memory has another size"))
    }

    /// The same of the program with additions in place of operands that are sums. One parser reads the text for the
    /// interpreter and for the compiler: what it forgets of an operand, both don't see.
    pub fn interpret_plain(&self) -> Outcome<Vec<u8>> {
        let plain = generate::plain_module(std::slice::from_ref(self.program));
        if plain == self.source {
            return self.interpret();
        }
        Subject { source: &plain, module: &parse(&plain)?, ..*self }.interpret()
    }

    /// The cubin of the module.
    pub fn compile(&self, way: &Way) -> Outcome<Vec<u8>> {
        let stage = format!("{} compile", way.name);
        let options = way.options().ok_or_else(|| failure(&stage, "no target"))?;
        guarded(&stage, || {
            let output = sassafras::compile_module(self.module, &options);
            let first = output.diagnostics.first();
            let why = first.map(|d| format!("line {:?}: {}", d.line, d.message)).unwrap_or_default();
            output.cubin.ok_or_else(|| failure(&stage, why))
        })
    }

    /// Memory after the simulator has run the program's machine code. A schedule that was proved is not looked at.
    pub fn simulate(&self, cubin: &[u8], stage: &str, proved: bool) -> Outcome<Simulated> {
        let decoded = sim::sass::Program::new(cubin).map_err(|error| failure(stage, error))?;
        let mut machine = sim::sass::Machine::new(&decoded);
        let address = machine.allocate(self.image().to_vec());
        let run = |launch: &Launch| machine.run(&Launch { check_schedule: !proved, ..launch.clone() });
        match self.launch(address, run) {
            Err(fault) if !fault.hazards.is_empty() => return Ok(Simulated::Hasty(fault.to_string())),
            Err(fault) => match fault.kind {
                FaultKind::Unsupported { what } => return Ok(Simulated::Unknown(what)),
                _ => return Err(failure(stage, fault)),
            },
            Ok(_) => {}
        }
        let memory = machine.read(address, self.program.memory_bytes());
        let memory = memory.ok_or_else(|| failure(stage, "memory has another size"))?;
        Ok(Simulated::Memory(memory.to_vec()))
    }
}

/// How many words of memory differ, and the first of them.
pub fn difference(expected: &[u8], got: &[u8]) -> Option<String> {
    if expected == got {
        return None;
    }
    let pairs = expected.chunks(8).zip(got.chunks(8)).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (want, have))| want != have).collect();
    let (word, (want, have)) = wrong.first()?;
    let (head, record) = (generate::memory_bytes(0), generate::memory_bytes(1) - generate::memory_bytes(0));
    let place = match (8 * word).checked_sub(head) {
        None => format!("byte {} of what all share", 8 * word),
        Some(at) => format!("thread {} byte {}", at / record, at % record),
    };
    Some(format!("{} words differ, first {place}: {have:02x?}, not {want:02x?}", wrong.len()))
}
