//! The front end under test, called in process: the one place that knows its interface.

use ptx::diag::{ABORTED, render_ptxas};
use ptx::{Options, Parsed, Severity, Toolkit};

/// What the `sassafras` command says about a module when it only parses and checks it.
pub struct Checked {
    /// The text of the first error, without its location; `None` if the module is accepted.
    pub first_error: Option<String>,
    pub stderr: String,
    pub exit_code: i32,
}

/// `arch` is the value of `-arch`; `None` for the module's own target.
pub fn check(file: &str, source: &str, arch: Option<&str>) -> Checked {
    // The recorded answers are those of 13.0.
    let options = Options { check_only: true, toolkit: Some(Toolkit::V13_0), ..Options::for_file(file) };
    let parsed = ptx::parse(source, &options);
    let mut stderr = render_ptxas(file, &parsed.diagnostics);
    let mut first_error = first_error(&parsed);
    if parsed.failed() {
        stderr += ABORTED;
        stderr.push('\n');
    } else if let Some(refusal) = arch.and_then(|arch| parsed.refused_for(arch)) {
        stderr += &format!("ptxas fatal   : {refusal}\n");
        first_error = Some(refusal);
    }
    let exit_code = if first_error.is_some() { 255 } else { 0 };
    Checked { first_error, stderr, exit_code }
}

/// What we print for a module that we accept.
pub struct Reprinted {
    pub text: String,
    /// Why the printed text does not parse back to the same tree, if it doesn't.
    pub difference: Option<String>,
}

/// `Err` if the module is rejected.
pub fn reprint(source: &str) -> Result<Reprinted, String> {
    let options = Options::default();
    let parsed = ptx::parse(source, &options);
    if let Some(error) = first_error(&parsed) {
        return Err(error);
    }
    let module = parsed.module.ok_or("no module, but no error either")?;
    let text = ptx::print(&module);
    let again = ptx::parse(&text, &options);
    // Sums that the parser expands leave their operands in the body (`ptx/src/parse/sums.rs`): the text decides there.
    let is_expanded = text.contains("$sum") && again.module.as_ref().is_some_and(|m| ptx::print(m) == text);
    let difference = match first_error(&again) {
        Some(error) => Some(format!("the printed text is rejected: {error}")),
        None if again.module.as_ref() != Some(&module) && !is_expanded => Some("another tree".into()),
        None => None,
    };
    drop(again);
    Ok(Reprinted { text, difference })
}

fn first_error(parsed: &Parsed) -> Option<String> {
    parsed.diagnostics.iter().find(|d| d.severity >= Severity::Error).map(|d| d.message.clone())
}
