//! The machine code of one function of a cubin, ours or anyone's, as the document has it.

use crate::timeline::{Launched, Place};
use crate::{flow, schedule};
use cubin::inspect::CubinReport;
use cubin::json::Json;
use cubin::{Body, Object, line};
use sass::{Guard, Inst, Isa, Model, Op};
use sim::sass::Program;
use std::collections::BTreeMap;

/// A cubin that has been read.
pub struct Image {
    object: Object,
    report: CubinReport,
    isa: Isa,
    /// As the simulator has it, or why it can't.
    program: Result<Program, String>,
    /// By function, where in its code rows of the table of PTX lines begin.
    lines: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Image {
    /// Reads a cubin, or says what is wrong with it.
    pub fn new(bytes: &[u8]) -> Result<Image, String> {
        let object = Object::read(bytes).map_err(|e| e.to_string())?;
        let sm = object.header.sm();
        let isa = Isa::of_sm(sm.into()).ok_or(format!("no machine sm_{sm} is known"))?;
        let report = CubinReport::new(&object);
        let lines = ptx_lines(&object).map_err(|flaw| format!("line table: {}", flaw.message))?;
        let program = Program::new(bytes).map_err(|error| error.to_string());
        Ok(Image { object, report, isa, program, lines })
    }

    /// The tool that made it, with its version.
    pub fn tool(&self) -> &str {
        self.report.tool.as_ref().map_or("unknown tool", |(tool, _)| tool)
    }

    /// `sm_90`
    pub fn machine(&self) -> String {
        format!("sm_{}", self.object.header.sm())
    }

    fn insts(&self, function: &str) -> Option<Vec<Inst>> {
        let (_, section) = self.object.section(&format!(".text.{function}"))?;
        // Two sections may share their bytes.
        let body = match &section.body {
            Body::SameAs(owner) => &self.object.sections.get(*owner)?.body,
            body => body,
        };
        let Body::Bytes(bytes) = body else { return None };
        let (words, _) = bytes.as_chunks();
        Some(words.iter().map(|word| sass::decode(self.isa, u128::from_le_bytes(*word))).collect())
    }

    /// As the simulator has it, or why it can't.
    pub(crate) fn program(&self) -> Result<&Program, String> {
        self.program.as_ref().map_err(String::clone)
    }

    /// The document's entry for a function; `None` if it has no code here. `launched`: what a launch did, or why it
    /// couldn't be.
    pub fn code(&self, function: &str, launched: Option<&Result<Launched, String>>) -> Option<Json> {
        let insts = self.insts(function)?;
        let length = insts.len();
        let model = Model::of(self.isa);
        let lines = self.lines_of(function, &insts);
        let targets: Vec<_> =
            insts.iter().enumerate().map(|(i, inst)| flow::target(i, inst, length)).collect();
        let indirect = sim::verify::indirect_branches(&self.object, function);
        let number = |n: usize| Json::Number(n as u64);
        let board = |board: Option<u8>| board.map_or(Json::Signed(-1), |board| Json::Number(board.into()));
        let control = |inst: &Inst| {
            let sass::Control { stall, yields, write, read, wait, reuse } = inst.control;
            let bits = [u64::from(stall), u64::from(yields)].map(Json::Number);
            let masks = [wait, reuse].map(|mask| Json::Number(mask.into()));
            Json::List([&bits[..], &[board(write), board(read)], &masks[..]].concat())
        };
        let counts = |set: &flow::Registers| {
            Json::List(flow::FILES.iter().map(|(_, file)| number(set.of(file.clone()).count())).collect())
        };
        let span = |span: &schedule::Span| {
            let to = span.to.map_or(Json::Signed(-1), number);
            Json::List(vec![number(span.scoreboard.into()), number(span.read.into()), number(span.from), to])
        };
        let text =
            |(index, inst): (usize, &Inst)| Json::text(inst.at(index as u64 * sass::WORD_BYTES).to_string());
        let waits = |inst: &Inst| {
            let (mask, counted) = schedule::waits(inst);
            number((mask | counted.map_or(0, |(board, _)| 1 << board)).into())
        };
        let kernel = self.report.kernels.iter().find(|kernel| kernel.name == function);
        let of_kernel = |number: Option<u64>| number.map_or(Json::Null, Json::Number);
        let used = used(&insts);
        let place = self.program.as_ref().ok().and_then(|program| {
            let first = program.instructions_of(function)?.start;
            Some(Place { program, range: first..first + used, insts: &insts })
        });
        let launch = launched.and_then(|launched| launched.as_ref().ok());
        let timelines =
            place.as_ref().map(|place| launch.map_or_else(|| place.walk(), |launch| place.warps(launch)));
        let profile = place.as_ref().zip(launch).map(|(place, launch)| place.profile(launch));
        let refusal = launched.and_then(|launched| launched.as_ref().err());
        Some(Json::Object(vec![
            ("tool", Json::text(self.tool())),
            ("machine", Json::text(self.machine())),
            ("registers", of_kernel(kernel.and_then(|k| k.registers).map(u64::from))),
            ("shared", of_kernel(kernel.map(|k| k.shared_bytes))),
            ("local", of_kernel(kernel.and_then(|k| k.local_bytes).map(u64::from))),
            ("barriers", of_kernel(kernel.map(|k| k.barriers.into()))),
            ("text", Json::List(insts.iter().enumerate().map(text).collect())),
            ("control", Json::list(&insts, control)),
            ("waits", Json::list(&insts, waits)),
            ("unit", Json::list(&insts, |inst| Json::text(format!("{:?}", model.unit(inst))))),
            ("cycle", Json::list(&schedule::cycles(&insts), |cycle| Json::Number(*cycle))),
            ("live", Json::list(&flow::live(&insts, &indirect, model), counts)),
            ("line", Json::list(&lines, |line| Json::Number(*line))),
            ("target", Json::list(&targets, |to| to.map_or(Json::Signed(-1), number))),
            ("block", Json::list(&leaders(&insts, &targets, &indirect), |leader| number(*leader))),
            ("spans", Json::list(&schedule::spans(insts.iter().enumerate()), span)),
            ("used", number(used)),
            ("timelines", timelines.unwrap_or(Json::List(Vec::new()))),
            ("profile", profile.unwrap_or(Json::Null)),
            ("refusal", refusal.map_or(Json::Null, Json::text)),
        ]))
    }

    /// The PTX line of each instruction, 0 where there is none: without a table, and what fills the section.
    fn lines_of(&self, function: &str, insts: &[Inst]) -> Vec<u64> {
        let rows = self.lines.get(function).map_or(&[][..], Vec::as_slice);
        let used = used(insts);
        let line = |index: usize| {
            let address = index as u64 * sass::WORD_BYTES;
            let next = rows.partition_point(|(start, _)| *start <= address);
            rows.get(next.wrapping_sub(1)).filter(|_| index < used).map_or(0, |(_, line)| *line)
        };
        (0..insts.len()).map(line).collect()
    }
}

/// How many instructions there are without what fills the section: a branch to itself and `NOP`s.
fn used(insts: &[Inst]) -> usize {
    let is_filler = |(index, inst): &(usize, &Inst)| match inst.op() {
        Op::NOP => true,
        Op::BRA => inst.guard == Guard::ALWAYS && flow::target(*index, inst, insts.len()) == Some(*index),
        _ => false,
    };
    insts.len() - insts.iter().enumerate().rev().take_while(is_filler).count()
}

/// The first instructions of blocks.
fn leaders(insts: &[Inst], targets: &[Option<usize>], indirect: &flow::Indirect) -> Vec<usize> {
    let is_jump = |index: usize| flow::leaves(&insts[index]) || matches!(insts[index].op(), Op::CALL);
    let mut leaders = vec![false; insts.len()];
    let in_tables = indirect.values().flatten().filter(|to| **to < insts.len());
    targets.iter().flatten().chain(in_tables).for_each(|to| leaders[*to] = true);
    (0..insts.len()).filter(|index| *index == 0 || leaders[*index] || is_jump(index - 1)).collect()
}

/// `.nv_debug_line_sass`: by function, addresses with lines. Each sequence is of the function that the relocation of its
/// address names.
fn ptx_lines(object: &Object) -> Result<BTreeMap<String, Vec<(u64, u64)>>, cubin::Flaw> {
    let section = |name: &str| object.section(name).map(|(_, section)| &section.body);
    let Some(Body::Bytes(bytes)) = section(".nv_debug_line_sass") else { return Ok(BTreeMap::new()) };
    let relocs = [".rel.nv_debug_line_sass", ".rela.nv_debug_line_sass"].into_iter().filter_map(section);
    let symbols: BTreeMap<u64, u32> = relocs
        .flat_map(|body| match body {
            Body::Relocs(relocs) => relocs.as_slice(),
            _ => &[],
        })
        .map(|reloc| (reloc.offset, reloc.symbol))
        .collect();
    let mut lines = BTreeMap::new();
    for sequence in line::read(bytes)?.into_iter().flat_map(|table| table.sequences) {
        let symbol =
            symbols.get(&sequence.address_at).and_then(|index| object.symbols().get(*index as usize));
        if let Some(symbol) = symbol {
            // A function, or the section that it is in.
            let name = symbol.name.strip_prefix(".text.").unwrap_or(&symbol.name);
            lines.insert(name.to_string(), sequence.rows.iter().map(|row| (row.address, row.line)).collect());
        }
    }
    Ok(lines)
}
