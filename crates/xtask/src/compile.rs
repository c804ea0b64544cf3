//! What our compiler and ptxas make of a text.

use crate::tools::Tools;
use crate::{Result, shell};
use std::path::Path;

/// What our compiler makes of a text at a level, with its checks.
pub fn compile_ours(source: &str, target: &str, level: u8) -> std::result::Result<Vec<u8>, String> {
    let target = ptx::Target::find(target).ok_or("no such target")?;
    let options = sassafras::Options::new(target).with(|o| {
        o.level = level;
        o.verify = true;
        // As the interpreter, and ptxas with the option that says so.
        o.contract = false;
    });
    sassafras::compile(source, &options).map(|compiled| compiled.bytes).map_err(|e| e.to_string())
}

/// What ptxas makes of a text at a level.
pub fn compile_theirs(tools: &Tools, dir: &Path, text: &str, target: &str, level: u8) -> Result<Vec<u8>> {
    compile_with(tools, dir, text, target, &[&format!("-O{level}")])
}

/// What ptxas makes of a text with these options.
pub fn compile_with(
    tools: &Tools,
    dir: &Path,
    text: &str,
    target: &str,
    options: &[&str],
) -> Result<Vec<u8>> {
    shell::create_dir(dir)?;
    shell::write(&dir.join("in.ptx"), text)?;
    let mut ptxas = tools.command("ptxas");
    ptxas.arg(format!("-arch={target}")).args(options);
    ptxas.args(["in.ptx", "-o", "out.cubin"]).current_dir(dir);
    let output = shell::capture(&mut ptxas)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(stderr.lines().next().unwrap_or("ptxas fails without a message").into());
    }
    Ok(std::fs::read(dir.join("out.cubin"))?)
}

/// The machine that a module names in its `.target`.
pub fn target_of(source: &str) -> Option<&str> {
    let rest = source.lines().find_map(|line| line.trim_start().strip_prefix(".target"))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_the_first_word() {
        assert_eq!(target_of(".version 9.0\n.target sm_90a, debug\n"), Some("sm_90a"));
        assert_eq!(target_of("\t.target\tsm_75 // all\n"), Some("sm_75"));
        assert_eq!(target_of(".target sm_75;\n"), Some("sm_75"));
        assert_eq!(target_of(".version 9.0\n"), None);
    }
}
