//! The document: what the compiler does to a module, as JSON. `docs/explain.md` describes it field by field.

use crate::code::Image;
use crate::diff;
use crate::timeline::{self, Launches};
use cubin::json::Json;
use gpu::runline::Run;
use ptx::ast::{Function, Item, Module, Stmt};
use ptx::diag::{Diagnostic, Severity};
use sassafras::{DebugInfo, Options, Snapshot, SnapshotLine};
use std::collections::BTreeMap;

/// The version of the schema. It grows when a reader of the one before would misread a document.
pub const FORMAT: u64 = 1;

/// What is explained.
pub struct Request<'a> {
    /// The PTX text, and its name.
    pub source: &'a str,
    /// See `source`.
    pub name: &'a str,
    /// How it is compiled.
    pub options: Options,
    /// Cubins of the same module, made by others.
    pub compare: Option<&'a Image>,
    /// What is launched for the timeline.
    pub launches: Launches<'a>,
    /// Reads a file that `.file` names; `None` if it isn't there.
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

/// A module that was compiled.
pub struct Explained {
    /// The document, in one line.
    pub json: String,
    /// The names of its kernels.
    pub kernels: Vec<String>,
    /// The cubin, as it is without tables of lines.
    pub cubin: Vec<u8>,
}

/// Compiles a module and writes down how. `Err`: why there is no code.
pub fn explain(request: &Request) -> Result<Explained, Vec<Diagnostic>> {
    let parsed = ptx::parse(request.source, &ptx::Options::for_file(request.name));
    let module = match parsed.module {
        Some(module) if !parsed.diagnostics.iter().any(|d| d.severity >= Severity::Error) => module,
        _ => return Err(parsed.diagnostics),
    };
    let options = request.options.clone().with(|o| {
        o.snapshots = true;
        if o.debug_info != DebugInfo::Full {
            o.debug_info = DebugInfo::Lines;
        }
    });
    let output = sassafras::compile_module(&module, &options);
    let Some(cubin) = output.cubin else { return Err(output.diagnostics) };
    let image = Image::new(&cubin).map_err(plain)?;
    let lines = Lines::new(request.source);
    let function = |usage: &sassafras::Usage| {
        let source = functions(&module).find(|f| name(&module, f) == usage.name);
        let first = source.map_or(0, |f| lines.line(f.span.start));
        let last = source.map_or(0, |f| last_line(f, &lines));
        let run = request.launches.largest(&usage.name);
        let code = |image: &Image| {
            let launched = run.map(|run| request.launches.launch(image, run));
            image.code(&usage.name, launched.as_ref()).unwrap_or(Json::Null)
        };
        Json::Object(vec![
            ("name", Json::text(&usage.name)),
            ("entry", Json::Bool(usage.entry)),
            ("lines", Json::List(vec![Json::Number(first), Json::Number(last)])),
            ("threads", Json::list(&source.map_or(Vec::new(), threads), |t| Json::Number(*t))),
            ("registers", Json::Number(usage.registers.into())),
            ("max_registers", Json::Number(usage.max_registers.into())),
            ("shared", Json::Number(usage.shared_bytes)),
            ("stack", Json::Number(usage.stack_bytes.unwrap_or(usage.frame_bytes).into())),
            ("spill_stores", Json::Number(usage.spill_stores.into())),
            ("spill_loads", Json::Number(usage.spill_loads.into())),
            ("passes", passes(&usage.name, &output.snapshots, &lines)),
            ("launch", run.map_or(Json::Null, launch)),
            ("code", code(&image)),
            ("compare", request.compare.map_or(Json::Null, code)),
        ])
    };
    let warnings = [parsed.diagnostics, output.diagnostics].concat();
    let document = Json::Object(vec![
        ("format", Json::Number(FORMAT)),
        ("compiler", Json::text(format!("sassafras {}", env!("CARGO_PKG_VERSION")))),
        ("name", Json::text(request.name)),
        ("target", Json::text(options.target.name())),
        ("level", Json::Number(options.level.into())),
        ("machine", machine(options.target)),
        ("reasons", timeline::reasons()),
        ("source", Json::text(request.source)),
        ("files", files(&module, request.read)),
        ("locations", locations(&module, &lines)),
        ("messages", Json::list(&warnings, message)),
        ("functions", Json::list(&output.functions, function)),
    ]);
    let kernels = output.functions.iter().filter(|usage| usage.entry).map(|usage| usage.name.clone());
    Ok(Explained { json: document.compact(), kernels: kernels.collect(), cubin })
}

fn launch(run: &Run) -> Json {
    let axes = |axes: [u32; 3]| Json::list(&axes, |n| Json::Number((*n).into()));
    Json::Object(vec![
        ("line", Json::Number(run.line as u64)),
        ("grid", axes(run.grid)),
        ("block", axes(run.block)),
    ])
}

/// A document for a text that is not compiled: its messages alone.
pub fn refusal(name: &str, source: &str, diagnostics: &[Diagnostic]) -> String {
    Json::Object(vec![
        ("format", Json::Number(FORMAT)),
        ("name", Json::text(name)),
        ("source", Json::text(source)),
        ("messages", Json::list(diagnostics, message)),
        ("functions", Json::List(Vec::new())),
    ])
    .compact()
}

fn plain(message: String) -> Vec<Diagnostic> {
    let (severity, span) = (Severity::Fatal, Default::default());
    vec![Diagnostic { severity, file: None, line: None, span, message }]
}

fn message(diagnostic: &Diagnostic) -> Json {
    Json::Object(vec![
        ("severity", Json::text(diagnostic.severity.to_string())),
        ("line", diagnostic.line.map_or(Json::Null, |line| Json::Number(line.into()))),
        ("text", Json::text(&diagnostic.message)),
    ])
}

/// The facts that decide how many blocks an SM takes.
fn machine(target: ptx::Target) -> Json {
    use targets::Target;
    let Some(row) = Target::of_sm(target.sm()) else { return Json::Null };
    let facts = [
        ("warp", Target::WARP),
        ("threads", row.threads_per_sm),
        ("blocks", row.blocks_per_sm),
        ("partitions", Target::PARTITIONS),
        ("registers_per_partition", Target::REGISTERS_PER_PARTITION),
        ("register_unit", Target::REGISTER_UNIT),
        ("shared", row.shared_per_sm),
        ("system_shared_per_block", row.system_shared_per_block),
        ("shared_unit", row.shared_unit),
    ];
    Json::Object(facts.map(|(name, number)| (name, Json::Number(number.into()))).into())
}

fn functions<'m, 's>(module: &'m Module<'s>) -> impl Iterator<Item = &'m Function<'s>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.body.is_some() => Some(&**function),
        _ => None,
    })
}

fn name<'s>(module: &Module<'s>, function: &Function) -> &'s str {
    let symbol = module.symbols.get(function.symbol.0 as usize);
    symbol.and_then(|symbol| module.names.get(symbol.name.0 as usize)).copied().unwrap_or_default()
}

/// Threads of a block, if the function says: those that it must have, or the most.
fn threads(function: &Function) -> Vec<u64> {
    let named = |name| function.directives.iter().find(|directive| directive.name == name);
    named(".reqntid").or(named(".maxntid")).map_or(Vec::new(), |directive| directive.values.clone())
}

fn last_line(function: &Function, lines: &Lines) -> u64 {
    let of_stmt = |stmt: &Stmt| match stmt {
        Stmt::Inst(inst) => Some(inst.span.end),
        _ => None,
    };
    let mut body = function.body.iter().flat_map(|body| &body.stmts).filter_map(of_stmt);
    lines.line(body.next_back().unwrap_or(function.span.end))
}

/// The files that line tables name, with their text if it can be read.
fn files(module: &Module, read: &dyn Fn(&str) -> Option<String>) -> Json {
    let files = module.items.iter().filter_map(|item| match item {
        Item::File(file) => Some(file.path.trim_matches('"')),
        _ => None,
    });
    let file = |path: &str| {
        let text = read(path).map_or(Json::Null, Json::text);
        Json::Object(vec![("name", Json::text(path)), ("text", text)])
    };
    Json::List(files.map(file).collect())
}

/// For each PTX line with an instruction that has a `.loc`: the line, the position of its file in the list, and its line
/// there.
fn locations(module: &Module, lines: &Lines) -> Json {
    let indices = module.items.iter().filter_map(|item| match item {
        Item::File(file) => Some(file.index),
        _ => None,
    });
    let numbers: BTreeMap<u32, u64> = indices.zip(0..).collect();
    let mut all: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for function in functions(module) {
        let mut now = None;
        for stmt in function.body.iter().flat_map(|body| &body.stmts) {
            match stmt {
                // Line 0 says that there is none.
                Stmt::Loc(loc) if loc.line > 0 => {
                    now = numbers.get(&loc.file).map(|n| (*n, u64::from(loc.line)))
                }
                Stmt::Loc(_) => now = None,
                Stmt::Inst(inst) => {
                    if let Some(place) = now {
                        all.insert(lines.line(inst.span.start), place);
                    }
                }
                _ => {}
            }
        }
    }
    let row =
        |(line, (file, at)): (&u64, &(u64, u64))| Json::List([*line, *file, *at].map(Json::Number).into());
    Json::List(all.iter().map(row).collect())
}

/// The passes of a function, each with the edits that make its code of the code before.
fn passes(function: &str, snapshots: &[Snapshot], lines: &Lines) -> Json {
    let mut last: Vec<&SnapshotLine> = Vec::new();
    let mut all = Vec::new();
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.function == function) {
        let now = snapshot.lines.as_ref().map(|lines| lines.iter().filter(is_code).collect::<Vec<_>>());
        let edits = now.as_ref().map_or(Json::Null, |now| edits(&last, now, lines));
        last = now.unwrap_or(last);
        all.push(Json::Object(vec![
            ("name", Json::text(snapshot.pass)),
            ("about", Json::text(snapshot.about)),
            ("form", Json::text(if snapshot.machine { "machine" } else { "ori" })),
            ("edits", edits),
        ]));
    }
    Json::List(all)
}

/// Which values may be contracted is no code, and there is a line for each.
fn is_code(line: &&SnapshotLine) -> bool {
    !line.text.starts_with("  contractable ")
}

/// Edits: the first line of the old text, how many go, the lines that come, and the PTX line of each.
fn edits(old: &[&SnapshotLine], new: &[&SnapshotLine], lines: &Lines) -> Json {
    let [before, after] = [old, new].map(|lines| lines.iter().map(|l| (&l.text, l.at)).collect::<Vec<_>>());
    let edit = |edit: &diff::Edit| {
        let new = &new[edit.new.clone()];
        let line_of = |at: u32| if at == 0 { 0 } else { lines.line(at) };
        Json::List(vec![
            Json::Number(edit.old.start as u64),
            Json::Number(edit.old.len() as u64),
            Json::list(new, |line| Json::text(&line.text)),
            Json::list(new, |line| Json::Number(line_of(line.at))),
        ])
    };
    Json::list(&diff::edits(&before, &after), edit)
}

/// Line numbers of a text, from 1.
struct Lines(Vec<u32>);

impl Lines {
    fn new(text: &str) -> Lines {
        let newlines = text.bytes().zip(1..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        Lines(std::iter::once(0).chain(newlines).collect())
    }

    fn line(&self, offset: u32) -> u64 {
        self.0.partition_point(|start| *start <= offset) as u64
    }
}
