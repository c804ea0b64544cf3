//! `bench simulator`: instructions of lanes that the simulator executes in a second on one core.

use crate::{Result, shell};
use std::process::Command;

/// Millions a second, of every kernel.
const BAR: f64 = 20.0;

pub fn run() -> Result<()> {
    shell::run(&mut shell::cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "sassafras-sim",
        "--example",
        "speed",
    ]))?;
    let output = Command::new(shell::target_dir().join("release/examples/speed")).output()?;
    let text = String::from_utf8(output.stdout)?;
    print!("{text}");
    let speeds = text.lines().filter(|line| line.starts_with("simulator")).map(speed);
    let speeds = speeds.collect::<Result<Vec<f64>>>()?;
    match speeds.iter().copied().reduce(f64::min) {
        Some(least) if output.status.success() && least >= BAR => Ok(()),
        Some(least) => Err(format!("{least} M/s, the bar is {BAR}").into()),
        None => Err("the example measured nothing".into()),
    }
}

/// `...: 25.3 M/s`
fn speed(line: &str) -> Result<f64> {
    let number = line.strip_suffix(" M/s").and_then(|line| line.rsplit(' ').next());
    Ok(number.ok_or_else(|| format!("no speed in '{line}'"))?.parse()?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_a_speed() {
        let line = "simulator mixed: 1000 lane instructions in 0.10 s: 31.5 M/s";
        assert_eq!(super::speed(line).unwrap(), 31.5);
        assert!(super::speed("simulator mixed: no end").is_err());
    }
}
