//! `conformance simulator`: kernels of one instruction, in every way that there is to run them. The interpreter runs
//! their PTX, the simulator ptxas's code and ours, and an H200 ran the same five cubins and was recorded
//! (`ops-bundle`).
//!
//! Every kernel is accounted for: it leaves the same memory in all ways, it stops in all of them, or the table that
//! names it in `sim::ops` says why it does neither.

use super::{Bar, Options, list_differences};
use crate::tools::Tools;
use crate::{Result, ops as codes, shell};
use rayon::prelude::*;
use sim::Machine;
use sim::ops::{self, CODES, Outcome, Recorded, SETS_ON_H200, Verdict};
use std::collections::BTreeMap;

/// What is known of a kernel after it ran in all ways.
enum Account {
    SameMemory,
    /// The same but for bytes that are open, and what they are.
    SameBut(String),
    Stops(String),
    /// It depends on the code whether it stops; with each code, the simulator does what an H200 does.
    ByCode(String),
    /// The same memory, where an H200 comes to the end: with some code it may find the block gone first.
    Unfinished(String),
    /// The executors agree, and nobody recorded an H200.
    NotRecorded,
    NotCompared(String),
    Different(String),
}

/// Who runs the kernels, beside the interpreter, and what an H200 did.
struct Ways<'p> {
    interpreted: sim::ptx::Program,
    /// In the order of [`CODES`].
    simulated: Vec<sim::sass::Program>,
    recorded: BTreeMap<&'p str, [Recorded; CODES.len()]>,
}

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let source = shell::read(&options.ptx_files().join("ops/ops_sm_90.ptx"))?;
    let recording = shell::read(&shell::root().join("crates/sim/tests/data/ops_sm_90.h200.txt"))?;
    let ways = Ways::new(&source, &recording)?;
    let kernels: Vec<&str> = ways.interpreted.kernels().collect();
    let accounts: Vec<Account> = kernels.par_iter().map(|kernel| ways.account(kernel)).collect();

    let mut same = 0;
    let [mut different, mut open, mut stop, mut by_code, mut unfinished, mut elsewhere, mut not_compared] =
        [const { Vec::new() }; 7];
    for (kernel, account) in kernels.iter().zip(accounts) {
        match account {
            Account::SameMemory => same += 1,
            Account::SameBut(what) => open.push(format!("{kernel}: {what}")),
            Account::Stops(why) => stop.push(format!("{kernel}: {why}")),
            Account::ByCode(why) => by_code.push(format!("{kernel}: {why}")),
            Account::Unfinished(why) => unfinished.push(format!("{kernel}: {why}")),
            Account::NotRecorded => elsewhere.push(kernel.to_string()),
            Account::NotCompared(why) => not_compared.push(format!("{kernel}: {why}")),
            Account::Different(what) => different.push(format!("{kernel}: {what}")),
        }
    }
    println!(
        "{} kernels, {SETS_ON_H200} sets of inputs; the interpreter runs PTX, the simulator and an H200 run",
        kernels.len()
    );
    println!("{}", CODES.join(", "));
    println!("the same memory in all ways: {same}");
    list_differences("other memory, or another end", &different, options.show);
    list_differences("the same memory but for what each machine has of its own", &open, usize::MAX);
    list_differences("stop in all ways", &stop, usize::MAX);
    list_differences("stop with some codes; the simulator does what an H200 does", &by_code, usize::MAX);
    list_differences("the same memory where an H200 comes to the end", &unfinished, usize::MAX);
    list_differences("the same in all executors, not recorded on an H200", &elsewhere, options.show);
    list_differences("not compared", &not_compared, usize::MAX);
    let all = kernels.len();
    let recorded = same + open.len() + stop.len() + by_code.len() + unfinished.len();
    let agree = recorded + elsewhere.len();
    Ok(vec![
        Bar { what: "kernels that do the same in all executors", equal: agree, all, percent: 100 },
        Bar { what: "kernels that do the same on an H200", equal: recorded, all, percent: 99 },
    ])
}

impl<'p> Ways<'p> {
    fn new(source: &str, recording: &'p str) -> Result<Ways<'p>> {
        let module = ptx::parse(source, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
        let cubins =
            codes::codes(&Tools::find()?, &shell::target_dir().join("conformance/simulator"), source)?;
        let load = |cubin: &Vec<u8>| Ok(sim::sass::Program::new(cubin)?);
        let simulated = cubins.iter().map(load).collect::<Result<Vec<_>>>()?;
        let interpreted = sim::ptx::Program::new(&module, source);
        Ok(Ways { interpreted, simulated, recorded: ops::on_h200(recording).collect() })
    }

    fn account(&self, kernel: &str) -> Account {
        let stopping =
            ops::STOPPING.iter().find(|(known, _)| *known == kernel).map(|(_, why)| why.to_string());
        let expected = outcomes(kernel, || sim::ptx::Machine::new(&self.interpreted));
        let recorded = self.recorded.get(kernel);
        let unfinished = ops::UNFINISHED.iter().find(|(known, _)| *known == kernel);
        let (mut by_code, mut lost) = (false, false);
        for (code, program) in self.simulated.iter().enumerate() {
            let got = outcomes(kernel, || sim::sass::Machine::new(program));
            let name = CODES[code];
            let error = recorded.is_some_and(|codes| matches!(codes[code], Recorded::Error(_)));
            if unfinished.is_some() && error {
                lost = true;
            } else if let Some(what) = recorded.and_then(|codes| beside_h200(&got, codes[code])) {
                return Account::Different(format!("{name}: {what}"));
            }
            match first_difference(&expected, &got) {
                None => {}
                Some((_, Verdict::Unknown(what))) => {
                    return Account::NotCompared(format!("{name}: no {what}"));
                }
                Some(_) if stopping.is_some() => by_code = true,
                Some((set, verdict)) => return Account::Different(format!("{name}, set {set}: {verdict:?}")),
            }
        }
        match (ops::hash_of_sets(expected.iter()), stopping, ops::open(kernel)) {
            (None, None, _) => Account::Different("stops, and no table says why".into()),
            (Some(_), Some(_), _) => Account::Different("ends, and a table says that it stops".into()),
            _ if recorded.is_none() => Account::NotRecorded,
            (None, Some(why), _) if by_code => Account::ByCode(why),
            (None, Some(why), _) => Account::Stops(why),
            _ if lost => Account::Unfinished(unfinished.map_or(String::new(), |(_, why)| why.to_string())),
            (Some(_), None, Some(what)) => Account::SameBut(what.into()),
            (Some(_), None, None) => Account::SameMemory,
        }
    }
}

/// What becomes of a kernel with each set of inputs.
fn outcomes<M: Machine>(kernel: &str, machine: impl Fn() -> M) -> Vec<Outcome> {
    (0..SETS_ON_H200).map(|set| ops::outcome(&mut machine(), kernel, set)).collect()
}

/// The first set that two machines don't do the same with.
fn first_difference(expected: &[Outcome], got: &[Outcome]) -> Option<(usize, Verdict)> {
    let verdicts = expected.iter().zip(got).map(|(expected, got)| ops::compare(expected, got));
    verdicts.enumerate().find(|(_, verdict)| *verdict != Verdict::Same)
}

/// What the simulator did with a code, beside what an H200 did with it: how they differ, if they do.
fn beside_h200(simulated: &[Outcome], recorded: Recorded) -> Option<String> {
    match (recorded, ops::hash_of_sets(simulated.iter())) {
        (Recorded::Hash(theirs), Some(ours)) if theirs == ours => None,
        (Recorded::Error(_), None) => None,
        (Recorded::Hash(_), Some(_)) => Some("other memory than on an H200".into()),
        (Recorded::Hash(_), None) => Some("stops, and ends on an H200".into()),
        (recorded, _) => Some(format!("an H200: {recorded}")),
    }
}
