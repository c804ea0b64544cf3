//! `cargo xtask fuzz programs`: generated PTX, for which everything must agree.
//!
//! For each program:
//! * the front end accepts it, and its printed form parses back to the same tree, or runs to the same memory;
//! * the interpreter runs it without a fault, and so it does with additions in place of operands that are sums;
//! * it compiles in every one of [`WAYS`], with the checks after each pass on, and nothing panics;
//! * the schedule verifier has nothing to say about the code; the same code is looked at and run once;
//! * the simulator runs the code without a fault, and leaves the memory that the interpreter left;
//! * threads that exchange values leave the same memory with adversaries that order them and delay their stores;
//! * with `--reference`, so does the code that ptxas makes. Where it doesn't, the interpreter is to be looked at first.
//!
//! A program that fails is named with the command that shows it again; the first of each stage are reduced and kept.

use super::ptxas::Ptxas;
use super::subject::{Failure, Outcome, Simulated, Subject, WAYS, Way, difference, failure, guarded, parse};
use super::{Campaign, REFERENCE};
use crate::{Result, shell};
use sim::generate::{self, Kind, Program};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What has happened so far.
#[derive(Default)]
struct Tally {
    programs: u64,
    /// Code that was run, by the way that it was made.
    runs: BTreeMap<&'static str, u64>,
    not_compared: BTreeMap<String, u64>,
    /// Numbers of programs that failed, by stage.
    failed: BTreeMap<String, Vec<u64>>,
}

/// What became of a program.
#[derive(Default)]
struct Checked {
    runs: Vec<&'static str>,
    /// Why a run could not be compared.
    not_compared: Vec<String>,
}

/// Checks programs until all are done or time is up.
pub fn run(campaign: &Campaign) -> Result<()> {
    let ptxas = if campaign.reference { Some(Ptxas::find()?) } else { None };
    let numbers = campaign.numbers();
    let (start, next) = (Instant::now(), AtomicU64::new(numbers.start));
    let tally = Mutex::new(Tally::default());
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs {
            scope.spawn(|| {
                while start.elapsed() < campaign.time_limit {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    one(number, campaign, ptxas.as_ref(), &tally);
                }
            });
        }
    });
    std::panic::set_hook(quiet);
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed = tally.failed.values().map(Vec::len).sum::<usize>();
    summary(&tally, campaign, start.elapsed().as_secs_f32());
    if failed == 0 { Ok(()) } else { Err("there are programs that fail".into()) }
}

/// Checks a program, and says what is wrong with it.
fn one(number: u64, campaign: &Campaign, ptxas: Option<&Ptxas>, tally: &Mutex<Tally>) {
    let program = campaign.program(number);
    let outcome = check(&program, campaign, ptxas);
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.programs += 1;
    let failure = match outcome {
        Ok(checked) => {
            checked.runs.iter().for_each(|way| *tally.runs.entry(way).or_default() += 1);
            checked.not_compared.into_iter().for_each(|why| *tally.not_compared.entry(why).or_default() += 1);
            return;
        }
        Err(failure) => failure,
    };
    let numbers = tally.failed.entry(failure.stage.clone()).or_default();
    numbers.push(number);
    let reduce = numbers.len() <= campaign.reduce;
    drop(tally);
    let again = format!("fuzz programs --kinds {} --seeds {}", program.kind.name(), program.seed);
    println!("{}: {}\n    cargo xtask {again}", failure.stage, failure.what);
    if reduce {
        match reduced(&program, &failure, campaign, ptxas) {
            Ok(text) => println!("    {text}"),
            Err(error) => println!("    not reduced: {error}"),
        }
    }
}

fn summary(tally: &Tally, campaign: &Campaign, seconds: f32) {
    for (way, runs) in &tally.runs {
        println!("{way}: {runs} runs equal");
    }
    for (why, count) in &tally.not_compared {
        println!("{count} runs not compared, because {why}");
    }
    for (stage, numbers) in &tally.failed {
        println!("{stage}: {} failed: {}", numbers.len(), campaign.listed(numbers.iter().copied()));
    }
    let failed = tally.failed.values().map(Vec::len).sum::<usize>();
    let rate = tally.programs as f32 / seconds.max(0.001);
    println!("from seed {}, {seconds:.1} s, {rate:.1} programs/s", campaign.seeds.start);
    println!("programs={} differences={failed}", tally.programs);
}

/// How long a program is reduced: one that takes long to fail does so at every try.
const REDUCE_FOR: Duration = Duration::from_secs(60);

/// Reduces a program that fails, and says where the result is.
fn reduced(program: &Program, found: &Failure, campaign: &Campaign, ptxas: Option<&Ptxas>) -> Result<String> {
    let deadline = Instant::now() + REDUCE_FOR;
    let same = |candidate: &Program| {
        Instant::now() < deadline
            && check(candidate, campaign, ptxas).is_err_and(|failure| failure.stage == found.stage)
    };
    let small = program.reduce(same);
    let Failure { what, .. } = check(&small, campaign, ptxas).err().ok_or("it doesn't fail any more")?;
    shell::create_dir(&campaign.keep)?;
    let path = campaign.keep.join(format!("{}.ptx", small.name()));
    shell::write(&path, generate::module(std::slice::from_ref(&small)))?;
    Ok(format!("{} statements of {} left in {}: {what}", small.size(), program.size(), path.display()))
}

/// Everything that must hold of a program.
fn check(program: &Program, campaign: &Campaign, ptxas: Option<&Ptxas>) -> Outcome<Checked> {
    guarded("check", || {
        let source = generate::module(std::slice::from_ref(program));
        let module = parse(&source)?;
        let subject = Subject { program, source: &source, module: &module, weak: None };
        let expected = subject.interpret()?;
        for adverse in adverse(&subject) {
            if let Some(what) = difference(&expected, &adverse.interpret()?) {
                return Err(failure("order", what));
            }
        }
        if program.kind == Kind::Operands
            && let Some(what) = difference(&subject.interpret_plain()?, &expected)
        {
            return Err(failure("sums", what));
        }
        let printed = ptx::print(&module);
        let printed = Subject { source: &printed, module: &parse(&printed)?, ..subject };
        // The same tree does the same.
        if printed.module != subject.module && printed.interpret()? != expected {
            return Err(failure("printing", "the printed module does something else"));
        }
        let mut checked = Checked::default();
        let mut made: Vec<(&Way, Vec<u8>)> = Vec::new();
        for way in WAYS.iter().filter(|way| campaign.has(way)) {
            if let Some(cubin) = new_code(&subject, way, &made)? {
                let stage = format!("{} schedule", way.name);
                let verdict = sim::verify::verify(&cubin).map_err(|error| failure(&stage, error))?;
                if let Some(first) = verdict.reports.first() {
                    return Err(failure(&stage, first));
                }
                agree(&subject, &cubin, way.name, &expected, &mut checked)?;
                orders(&subject, &cubin, way.name, &expected)?;
                made.push((way, cubin));
            } else {
                checked.runs.push(way.name);
            }
        }
        if let Some(ptxas) = ptxas {
            let cubin = ptxas.compile(&source).map_err(|error| failure(REFERENCE, error))?;
            agree(&subject, &cubin, REFERENCE, &expected, &mut checked)?;
        }
        Ok(checked)
    })
}

/// One program in so many is compiled in all ways, also in those that the compiler says are the same.
const TWINS: u64 = 16;

/// The cubin of a program, unless the same one was made, checked and run before.
fn new_code(subject: &Subject, way: &Way, made: &[(&Way, Vec<u8>)]) -> Outcome<Option<Vec<u8>>> {
    let twin = made.iter().find(|(other, _)| way.is_twin(other));
    if twin.is_some() && !subject.program.seed.is_multiple_of(TWINS) {
        return Ok(None);
    }
    let cubin = subject.compile(way)?;
    match twin {
        Some((other, code)) if *code != cubin => {
            let what = format!("other code than {}, though the same passes run", other.name);
            Err(failure(format!("{} compile", way.name), what))
        }
        _ => Ok(made.iter().all(|(_, code)| *code != cubin).then_some(cubin)),
    }
}

/// Adversaries that a program of threads that exchange values meets. Their extremes are numbered 0 to 7.
const ADVERSARIES: u64 = 3;

/// The program with each of its adversaries, which make a lost ordering a wrong result.
fn adverse<'s>(subject: &Subject<'s>) -> impl Iterator<Item = Subject<'s>> + use<'s> {
    let subject = *subject;
    let count = if subject.program.kind == Kind::Exchange { ADVERSARIES } else { 0 };
    let first = subject.program.seed.wrapping_mul(ADVERSARIES);
    (0..count).map(move |i| Subject { weak: Some(first.wrapping_add(i)), ..subject })
}

/// Does code leave the same memory with all adversaries?
fn orders(subject: &Subject, cubin: &[u8], way: &'static str, expected: &[u8]) -> Outcome<()> {
    for adverse in adverse(subject) {
        let stage = format!("{way} weak simulator");
        let seed = adverse.weak.unwrap_or_default();
        // Without an adversary, the simulator has run it to the end.
        if let Simulated::Memory(got) = adverse.simulate(cubin, &stage, true)?
            && let Some(what) = difference(expected, &got)
        {
            return Err(failure(format!("{way} weak result"), format!("adversary {seed}: {what}")));
        }
    }
    Ok(())
}

/// Does the simulator leave the same memory?
fn agree(
    subject: &Subject,
    cubin: &[u8],
    way: &'static str,
    expected: &[u8],
    checked: &mut Checked,
) -> Outcome<()> {
    let stage = format!("{way} simulator");
    match subject.simulate(cubin, &stage, way != REFERENCE)? {
        Simulated::Memory(got) => match difference(expected, &got) {
            Some(what) => return Err(failure(format!("{way} result"), what)),
            None => checked.runs.push(way),
        },
        Simulated::Hasty(_) if way == REFERENCE => {
            checked.not_compared.push("the machine model asks for more time than ptxas's code takes".into());
        }
        Simulated::Hasty(what) => return Err(failure(stage, what)),
        Simulated::Unknown(what) => {
            let name = what.split(' ').next().unwrap_or(&what);
            checked.not_compared.push(format!("the simulator doesn't know {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs that failed once, and why.
    const FOUND: [(&str, Kind, &[u64]); 6] = [
        ("single precision from halves came a cycle too early", Kind::Mixed, &[45336, 53532, 65597]),
        (
            "the simulator let lanes interrupt each other within a block",
            Kind::Mixed,
            &[201595, 203740, 205449, 206418, 214412, 224429, 229188, 229878, 235149, 236569, 239934, 241261],
        ),
        (
            "lanes at BSYNC waited for lanes that had gone on while they slept in a function",
            Kind::Mixed,
            &[54025, 58088, 58231, 59638, 210638, 217589, 218168, 228839, 243321, 243772, 10003875],
        ),
        ("cycles that one way lacked were spent on another", Kind::Mixed, &[3001861]),
        ("a copy of a uniform register moved to where threads had parted", Kind::Mixed, &[4003931]),
        ("BSSY named spill code ahead of its BSYNC", Kind::Exchange, &[906739]),
    ];

    #[test]
    fn programs_that_failed_once_pass() {
        let campaign = Campaign::of(0..0);
        for (why, kind, seeds) in FOUND {
            for seed in seeds {
                if let Err(failure) = check(&Program::of(kind, *seed), &campaign, None) {
                    panic!("seed {seed} ({why}): {failure:?}");
                }
            }
        }
    }
}
