//! `bench startup`: one small kernel from PTX to cubin, ptxas and sassafras in turn, many times.

use super::measure::{Usage, judge, measure_in_turn};
use crate::tools::Tools;
use crate::{Result, shell};

const KERNEL: &str = "examples/saxpy.ptx";
const ROUNDS: usize = 100;
const CPU_BAR: f64 = 10.0;

/// What one compiler took, in milliseconds.
struct Times {
    best: f64,
    median: f64,
}

pub fn run() -> Result<()> {
    let tools = Tools::find()?;
    let ours = shell::installed_command()?;
    let dir = shell::target_dir().join("bench");
    shell::create_dir(&dir)?;
    let kernel = shell::root().join(KERNEL);
    let (kernel, cubin) = (kernel.to_string_lossy(), dir.join("startup.cubin"));
    let arguments = ["-arch=sm_90", &kernel, "-o", &cubin.to_string_lossy()];
    let ptxas = tools.bin().join("ptxas");
    let [theirs, own] = measure_in_turn([(&ptxas, &arguments), (&ours, &arguments)], ROUNDS)?;
    report(&Times::of(&theirs), &Times::of(&own))
}

impl Times {
    fn of(runs: &[Usage]) -> Times {
        let mut seconds: Vec<f64> = runs.iter().map(|run| run.cpu).collect();
        seconds.sort_by(f64::total_cmp);
        let at = |place: usize| seconds.get(place).map_or(f64::NAN, |s| s * 1e3);
        Times { best: at(0), median: at(seconds.len() / 2) }
    }
}

/// The medians are compared: the best run of many is a matter of luck for both.
fn report(theirs: &Times, own: &Times) -> Result<()> {
    println!("{KERNEL} to a cubin, {ROUNDS} runs of each; CPU is user and system time");
    println!("             best ms  median ms");
    for (name, times) in [("ptxas", theirs), ("sassafras", own)] {
        println!("{name:<10} {:>9.2} {:>10.2}", times.best, times.median);
    }
    let ratio = theirs.median / own.median;
    println!("best against best: {:.1} times less", theirs.best / own.best);
    judge(ratio, CPU_BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median() {
        let times = |cpu: &[f64]| {
            let runs: Vec<Usage> = cpu.iter().map(|cpu| Usage { cpu: *cpu, peak: 0.0 }).collect();
            Times::of(&runs)
        };
        let three = times(&[0.003, 0.001, 0.002]);
        assert_eq!((three.best, three.median), (1.0, 2.0));
        assert!(report(&times(&[1.0]), &times(&[0.2])).is_err());
        assert!(report(&times(&[1.0]), &times(&[0.1])).is_ok());
    }
}
