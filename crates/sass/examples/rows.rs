//! Random words of every row against nvdisasm: `rows COUNT [SM...]` prints the rows that differ, worst first.

#[allow(dead_code)]
#[path = "../tests/oracle/mod.rs"]
mod oracle;

use sass::Isa;
use std::collections::BTreeMap;
use std::{env, process};

fn main() {
    let numbers: Vec<u32> = env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(8) as usize;
    let isas: Vec<Isa> = match numbers.get(1..) {
        Some(sms) if !sms.is_empty() => sms.iter().filter_map(|&sm| Isa::of_sm(sm)).collect(),
        _ => Isa::ALL.to_vec(),
    };
    let mut rows: BTreeMap<&str, Vec<oracle::Difference>> = BTreeMap::new();
    for isa in isas {
        match oracle::check_rows(isa, count) {
            Ok((words, differences)) => {
                let failed: usize = differences.values().map(Vec::len).sum();
                println!("{isa:?}: {words} words, {failed} differ in {} rows", differences.len());
                for (line, found) in differences {
                    rows.entry(line).or_default().extend(found);
                }
            }
            Err(error) => {
                eprintln!("{error}");
                process::exit(2);
            }
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
    for (line, found) in &rows {
        let isas: std::collections::BTreeSet<Isa> = found.iter().map(|difference| difference.isa).collect();
        println!("{line}: {} {isas:?}", found.len());
        for difference in found.iter().step_by(found.len().div_ceil(2)) {
            println!("    {:?} {:032x}\n      ours   {}", difference.isa, difference.word, difference.ours);
            println!("      theirs {}", difference.theirs.as_deref().unwrap_or("-"));
        }
    }
    process::exit(i32::from(!rows.is_empty()));
}
