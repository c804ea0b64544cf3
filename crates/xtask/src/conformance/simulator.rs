//! `conformance simulator`: kernels of one instruction, in every way that there is to run them. The interpreter runs
//! their PTX, the simulator ptxas's code and ours, and an H200 ran ptxas's and was recorded.
//!
//! Every kernel is accounted for: it leaves the same memory in all ways, it stops in all of them, or it is listed with
//! the reason why it is not compared.

use super::corpus::compile;
use super::{Bar, Options, compile_ours, list_differences};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::ops::{self, Outcome, Recorded, SETS_ON_H200, Verdict};
use std::collections::BTreeMap;

const LEVELS: [u8; 3] = [0, 1, 3];

/// What is known of a kernel after it ran in all ways.
enum Account {
    SameMemory,
    Stops,
    /// The executors agree, and they are not compared with an H200.
    NotOnH200(String),
    NotCompared(String),
    Different(String),
}

/// Who runs the kernels, beside the interpreter, and what an H200 did.
struct Ways<'p> {
    interpreted: sim::ptx::Program,
    simulated: Vec<(String, sim::sass::Program)>,
    recorded: BTreeMap<&'p str, Recorded>,
}

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let source = shell::read(&options.ptx_files().join("ops/ops_sm_90.ptx"))?;
    let recording = shell::read(&shell::root().join("crates/sim/tests/data/ops_sm_90.h200.txt"))?;
    let ways = Ways::new(&source, &recording)?;
    let kernels: Vec<&str> = ways.interpreted.kernels().collect();
    let accounts: Vec<Account> = kernels.par_iter().map(|kernel| ways.account(kernel)).collect();

    let (mut same, mut stop) = (0, 0);
    let (mut different, mut elsewhere, mut not_compared) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, account) in kernels.iter().zip(accounts) {
        match account {
            Account::SameMemory => same += 1,
            Account::Stops => stop += 1,
            Account::NotOnH200(why) => elsewhere.push(format!("{kernel}: {why}")),
            Account::NotCompared(why) => not_compared.push(format!("{kernel}: {why}")),
            Account::Different(what) => different.push(format!("{kernel}: {what}")),
        }
    }
    let executors = ways.simulated.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    println!("{} kernels, {SETS_ON_H200} sets of inputs: interpreter, {executors}, H200", kernels.len());
    println!("the same memory in all ways: {same}; all of them stop: {stop}");
    list_differences("other memory, or another end", &different, options.show);
    list_differences("the same in all executors, not compared with an H200", &elsewhere, usize::MAX);
    list_differences("not compared", &not_compared, usize::MAX);
    let agree = same + stop + elsewhere.len();
    let compared = agree + different.len();
    Ok(vec![
        Bar { what: "kernels that do the same in all executors", equal: agree, all: compared, percent: 100 },
        Bar { what: "kernels that are compared", equal: compared, all: kernels.len(), percent: 95 },
    ])
}

impl<'p> Ways<'p> {
    fn new(source: &str, recording: &'p str) -> Result<Ways<'p>> {
        let module = ptx::parse(source, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
        let scratch = shell::target_dir().join("conformance/simulator");
        let theirs = compile(&Tools::find()?, &scratch, source, "sm_90")?;
        let mut simulated = vec![("ptxas".to_string(), sim::sass::Program::new(&theirs)?)];
        for level in LEVELS {
            let ours = compile_ours(source, "sm_90", level)?;
            simulated.push((format!("ours -O{level}"), sim::sass::Program::new(&ours)?));
        }
        let interpreted = sim::ptx::Program::new(&module, source);
        Ok(Ways { interpreted, simulated, recorded: ops::on_h200(recording).collect() })
    }

    fn account(&self, kernel: &str) -> Account {
        let reason = |table: &[(&str, &str)]| {
            table.iter().find(|(known, _)| *known == kernel).map(|(_, why)| why.to_string())
        };
        if let Some(why) = reason(&ops::OWN_WAYS) {
            return Account::NotCompared(why);
        }
        let interpreter = |set| ops::outcome(&mut sim::ptx::Machine::new(&self.interpreted), kernel, set);
        let expected: Vec<Outcome> = (0..SETS_ON_H200).map(interpreter).collect();
        for (name, program) in &self.simulated {
            for (set, expected) in (0..SETS_ON_H200).zip(&expected) {
                let got = ops::outcome(&mut sim::sass::Machine::new(program), kernel, set);
                match ops::compare(expected, &got) {
                    Verdict::Same => {}
                    Verdict::Unknown(what) => return Account::NotCompared(format!("{name}: no {what}")),
                    Verdict::Different(what) => {
                        return Account::Different(format!("{name}, set {set}: {what}"));
                    }
                }
            }
        }
        match reason(&ops::OTHER_ON_H200) {
            Some(why) => Account::NotOnH200(why),
            None => self.beside_h200(kernel, &expected),
        }
    }

    /// What the executors agree on, beside what was recorded.
    fn beside_h200(&self, kernel: &str, expected: &[Outcome]) -> Account {
        let hash = ops::hash_of_sets(expected.iter());
        match (self.recorded.get(kernel), hash) {
            (Some(Recorded::Hash(theirs)), Some(ours)) if *theirs == ours => Account::SameMemory,
            (Some(Recorded::Error(_)), None) => Account::Stops,
            (Some(Recorded::Hash(_)), Some(_)) => Account::Different("other memory than on an H200".into()),
            (Some(Recorded::Hash(_)), None) => Account::Different("stops, and ends on an H200".into()),
            (Some(Recorded::Error(code)), Some(_)) => {
                Account::Different(format!("ends, and an H200 stops with error {code}"))
            }
            (None, _) => Account::NotOnH200("not recorded".into()),
        }
    }
}
