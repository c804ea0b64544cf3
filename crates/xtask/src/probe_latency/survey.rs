//! The distances that ptxas keeps between dependent instructions: for each pair of ports the least distance in cycles
//! on any path and how often the pair was seen, by target.

use super::{Cells, Table};
use crate::Result;
use cubin::Object;
use sass::model::{Model, Part, Port, Unit};
use sass::{Inst, Isa, Kind, Op, WORD_BYTES};
use sim::verify::{Code, Relation, dependences, read};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was seen in these cubins, joined with what earlier runs saw: the rows of `model/distances/*.txt` of the `sass`
/// crate.
pub fn table(cubins: &[PathBuf], earlier: &Table) -> Result<Vec<(String, Cells)>> {
    let mut survey = survey(cubins, false)?;
    survey.remember(earlier);
    Ok(survey.table())
}

/// The operations behind one pair of ports: relation, `Alu.R`, `Fma.R`.
pub fn operations(cubins: &[PathBuf], pair: &[String; 3]) -> Result<String> {
    let wanted = |(_, relation, from, to, _, _): &OperationPair| {
        [format!("{relation:?}"), name(*from), name(*to)] == *pair
    };
    Ok(survey(cubins, true)?.operations(wanted))
}

/// Operations that never come as close as their unit does, though they had the chance.
pub fn mixed(cubins: &[PathBuf]) -> Result<String> {
    Ok(survey(cubins, true)?.mixed())
}

/// Times that an operation must have been seen before its least distance says anything.
const ENOUGH: u32 = 40;
/// A fixed latency beyond this was never tight: the pair is rare, and other instructions lay between.
const LOOSE: u8 = 24;
/// The same for matrix products, whose longest latency is 29.
const LOOSE_MATRIX: u8 = 36;

/// Distances are followed so far.
const HORIZON: u16 = 120;

#[derive(Clone, Copy, Default)]
struct Seen {
    least: u8,
    times: u32,
}

impl Seen {
    fn add(&mut self, cycles: u16) {
        let cycles = cycles.min(255) as u8;
        self.least = if self.times == 0 { cycles } else { self.least.min(cycles) };
        self.times += 1;
    }

    /// The same programs may have been seen before, so that the numbers of times don't add up.
    fn join(&mut self, (least, times): (u8, u32)) {
        if times > 0 {
            self.least = if self.times == 0 { least } else { self.least.min(least) };
            self.times = self.times.max(times);
        }
    }
}

type Columns = [Seen; Isa::ALL.len()];

/// Target, relation, ports, operations.
type OperationPair = (u32, Relation, Port, Port, String, String);

#[derive(Default)]
struct Survey {
    pairs: BTreeMap<(Relation, Port, Port), Columns>,
    issue: BTreeMap<Unit, Columns>,
    /// With a place where the least distance was seen.
    operations: BTreeMap<OperationPair, (Seen, String)>,
}

fn survey(cubins: &[PathBuf], operations: bool) -> Result<Survey> {
    let mut survey = Survey::default();
    for file in cubins {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let object = Object::read(&std::fs::read(file)?).map_err(|error| failed(&error))?;
        for code in read(&object).map_err(|error| failed(&error))? {
            survey.intervals(&code);
            // A section with a word that the table does not know says nothing, and is said to.
            if let Err(error) = survey.code(&code, operations.then_some(file)) {
                eprintln!("{}", failed(&error));
            }
        }
    }
    Ok(survey)
}

impl Survey {
    fn code(&mut self, code: &Code, file: Option<&PathBuf>) -> std::result::Result<(), sim::verify::Error> {
        let isa = code.isa;
        dependences(code, HORIZON, |d| {
            // Behind an instruction that lets the pipes run empty nothing is seen.
            if d.cycles > HORIZON {
                return;
            }
            self.pairs.entry((d.relation, d.from, d.to)).or_default()[isa as usize].add(d.cycles);
            if let Some(file) = file {
                let (first, second) = (operation(&code.insts[d.first]), operation(&code.insts[d.second]));
                let key = (isa.sm(), d.relation, d.from, d.to, first, second);
                let (seen, place) = self.operations.entry(key).or_default();
                if seen.times == 0 || d.cycles < seen.least.into() {
                    let address = |index: usize| index as u64 * WORD_BYTES;
                    let file = Path::display(file);
                    *place = format!("{file} {} {:x} {:x}", code.name, address(d.first), address(d.second));
                }
                seen.add(d.cycles);
            }
        })
    }

    /// Distances between instructions of one unit that follow each other without a branch between.
    fn intervals(&mut self, code: &Code) {
        let model = Model::of(code.isa);
        let mut last = [None; Unit::COUNT];
        let mut time = 0u16;
        for inst in &code.insts {
            let unit = model.unit(inst);
            if unit == Unit::Branch || time > 0x7000 {
                (last, time) = ([None; Unit::COUNT], 0);
            }
            if let Some(before) = last[unit as usize].replace(time) {
                self.issue.entry(unit).or_default()[code.isa as usize].add(time - before);
            }
            time += u16::from(inst.control.stall.max(1));
        }
    }

    fn operations(&self, wanted: impl Fn(&OperationPair) -> bool) -> String {
        let found = self.operations.iter().filter(|(key, _)| wanted(key));
        let mut lines: Vec<String> = found
            .map(|((sm, _, _, _, first, second), (seen, place))| {
                format!("sm_{sm} {:4} {:6}  {first} -> {second}  {place}\n", seen.least, seen.times)
            })
            .collect();
        lines.sort();
        lines.concat()
    }

    /// Operations that had their unit's part often, as producer or as consumer, and never at the distance of the
    /// two ports: they may belong to another unit.
    fn mixed(&self) -> String {
        let mut sides: BTreeMap<(u32, Port, Port, String), Seen> = BTreeMap::new();
        for ((sm, relation, from, to, first, second), (seen, _)) in &self.operations {
            if *relation == Relation::Raw && is_fixed(*from) {
                for side in [format!("{first} ->"), format!("-> {second}")] {
                    let all = sides.entry((*sm, *from, *to, side)).or_default();
                    all.least = if all.times == 0 { seen.least } else { all.least.min(seen.least) };
                    all.times += seen.times;
                }
            }
        }
        let mut text = String::new();
        for ((sm, from, to, side), seen) in sides {
            let isa = Isa::ALL.iter().position(|isa| isa.sm() == sm).unwrap_or_default();
            let least = self.pairs[&(Relation::Raw, from, to)][isa].least;
            if seen.times >= ENOUGH && seen.least > least {
                let (from, to) = (name(from), name(to));
                text +=
                    &format!("{from} -> {to} {least}: {side} {} of {} on sm_{sm}\n", seen.least, seen.times);
            }
        }
        text
    }

    /// Adds what a table has: rows by their names.
    fn remember(&mut self, earlier: &Table) {
        let join = |columns: &mut Columns, name: String| {
            let cells = earlier.get(&name).copied().unwrap_or_default();
            columns.iter_mut().zip(cells).for_each(|(seen, cell)| seen.join(cell));
        };
        let ports = Unit::ALL.iter().flat_map(|unit| Part::ALL.map(|part| Port { unit: *unit, part }));
        let ports: Vec<Port> = ports.collect();
        for relation in [Relation::Raw, Relation::Waw] {
            for pair in ports.iter().flat_map(|from| ports.iter().map(move |to| (relation, *from, *to))) {
                let mut columns = self.pairs.get(&pair).copied().unwrap_or_default();
                join(&mut columns, row_name(&pair));
                if columns.iter().any(|seen| seen.times > 0) {
                    self.pairs.insert(pair, columns);
                }
            }
        }
        for unit in Unit::ALL {
            join(self.issue.entry(unit).or_default(), issue_name(unit));
        }
        self.issue.retain(|_, columns| columns.iter().any(|seen| seen.times > 0));
    }

    /// The rows in the order of their files.
    fn table(&self) -> Vec<(String, Cells)> {
        let cells = |columns: &Columns| columns.map(|seen| (seen.least, seen.times.min(99999)));
        let mut rows = Vec::new();
        for relation in [Relation::Raw, Relation::Waw] {
            let pairs = self.pairs.iter().filter(|((r, from, _), _)| *r == relation && is_fixed(*from));
            for (pair, columns) in pairs {
                let tight = |seen: &Seen| seen.least <= loose(pair.1.unit);
                let columns = columns.map(|seen| if tight(&seen) { seen } else { Seen::default() });
                rows.push((row_name(pair), cells(&columns)));
            }
        }
        rows.extend(self.issue.iter().map(|(unit, columns)| (issue_name(*unit), cells(columns))));
        rows
    }
}

/// A wait in a loop: how often an instruction issues exactly when the model lets it, held back by this pair of ports,
/// and the distance.
pub type Waits = BTreeMap<(Relation, Port, Port), (u32, u16)>;

/// The waits in the loops of some code.
pub fn waits(cubin: &[u8], waits: &mut Waits) -> Result<()> {
    for code in read(&Object::read(cubin)?)? {
        let model = Model::of(code.isa);
        let mut in_loop = vec![false; code.insts.len()];
        for (index, inst) in code.insts.iter().enumerate() {
            let back = inst.operands().find(|(slot, _)| slot.kind == Kind::Relative);
            let back = back.map_or(0, |(_, operand)| operand.value / WORD_BYTES as i64);
            if inst.op() == Op::BRA && back < -1 {
                let first = index.saturating_add_signed(back as isize + 1);
                in_loop[first..=index].fill(true);
            }
        }
        dependences(&code, 0, |d| {
            let need = match d.relation {
                Relation::Raw => model.raw(d.from, d.to),
                Relation::Waw => model.waw(d.from, d.to),
                Relation::War => return,
            };
            if in_loop[d.second] && !d.read_too && need.signal.is_none() && d.cycles == need.cycles {
                let (times, cycles) = waits.entry((d.relation, d.from, d.to)).or_default();
                *times += 1;
                *cycles = need.cycles;
            }
        })?;
    }
    Ok(())
}

/// `Raw Alu.R Fma.R`, as [`operations`] takes it.
pub fn pair_name((relation, from, to): &(Relation, Port, Port)) -> String {
    format!("{relation:?} {} {}", name(*from), name(*to))
}

/// How the table names a pair.
pub fn row_name((relation, from, to): &(Relation, Port, Port)) -> String {
    let label = if *relation == Relation::Raw { "raw" } else { "waw" };
    format!("{label} {} {}", name(*from), name(*to))
}

fn issue_name(unit: Unit) -> String {
    format!("issue {unit:?} {unit:?}")
}

fn is_fixed(from: Port) -> bool {
    !from.is_late_result() || from.unit.delays_after_signal() || from.unit == Unit::Gmma
}

/// A distance beyond this was never tight.
fn loose(unit: Unit) -> u8 {
    match unit {
        Unit::Fp64 | Unit::TensorLate => u8::MAX,
        unit if unit.is_matrix() => LOOSE_MATRIX,
        _ => LOOSE,
    }
}

fn name(port: Port) -> String {
    format!("{:?}.{:?}", port.unit, port.part)
}

/// The operation with the modifiers that decide how much work it is.
fn operation(inst: &Inst) -> String {
    const TELLING: [&str; 21] = [
        "WIDE", "HI", "MMA", "64", "128", "16816", "1688", "1684", "16832", "16864", "168128", "168256",
        "8816", "8832", "88128", "SP", "F16", "F32", "TF32", "BF16", "BF16_V2",
    ];
    let telling = inst.modifiers().map(|m| m.name()).filter(|name| TELLING.contains(name));
    std::iter::once(inst.op().name()).chain(telling).collect::<Vec<_>>().join(".")
}
