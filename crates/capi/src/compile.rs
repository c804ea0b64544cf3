//! One compilation, away from the caller's stack and behind a boundary for panics.

use ptx::Severity;
use sassafras::Cancel;
use sassafras_cli::{Compiled, Message, Ptxas};
use std::any::Any;
use std::thread;

/// The main thread's usual stack: a caller's thread may have less.
const STACK_BYTES: usize = 8 << 20;

/// How a compilation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a cubin.
    Cubin,
    /// The texts are right, and that was all that was asked for.
    Parsed,
    /// The texts or the options are wrong.
    Failed,
    /// The PTX is of a later version than the compiler knows.
    Version,
    /// It was cancelled.
    Cancelled,
    /// The compiler has a bug, or there is no thread for it.
    Bug,
}

/// What came of texts: a cubin, and two texts as NVIDIA's libraries have them.
pub struct Compilation {
    pub outcome: Outcome,
    pub cubin: Vec<u8>,
    /// Errors.
    pub errors: String,
    /// Everything else.
    pub notes: String,
}

impl Compilation {
    fn of(compiled: Compiled, is_cancelled: bool) -> Compilation {
        let is_error = |message: &&Message| message.severity >= Severity::Error;
        let (errors, notes): (Vec<_>, Vec<_>) = compiled.messages.iter().partition(is_error);
        let is_version = errors.iter().any(|message| message.text.contains("Unsupported .version"));
        let outcome = match (compiled.succeeded, &compiled.cubin) {
            (true, Some(_)) => Outcome::Cubin,
            (true, None) => Outcome::Parsed,
            _ if is_cancelled => Outcome::Cancelled,
            _ if is_version => Outcome::Version,
            _ => Outcome::Failed,
        };
        let cubin = compiled.cubin.unwrap_or_default();
        Compilation { outcome, cubin, errors: lines(&errors), notes: lines(&notes) }
    }

    /// One that ends before it begins.
    pub fn refused(why: &str) -> Compilation {
        let errors = format!("ptxas fatal   : {why}\n");
        Compilation { outcome: Outcome::Failed, cubin: Vec::new(), errors, notes: String::new() }
    }

    fn bug(what: &str) -> Compilation {
        Compilation { outcome: Outcome::Bug, ..Compilation::refused(&format!("Internal error: {what}")) }
    }
}

fn lines(messages: &[&Message]) -> String {
    messages.iter().map(|message| format!("{}\n", message.text)).collect()
}

/// Compiles PTX texts to one cubin with ptxas's options. It never panics.
pub fn compile(words: Vec<String>, texts: Vec<String>, cancel: Option<Cancel>) -> Compilation {
    let work = move || {
        let compiled = Ptxas { words, cancel: cancel.clone() }.compile(texts);
        Compilation::of(compiled, cancel.is_some_and(|cancel| cancel.is_cancelled()))
    };
    isolated(work).unwrap_or_else(|what| Compilation::bug(&what))
}

/// What the front end says against a text, in ptxas's words; empty if nothing. It never panics.
pub fn check(text: &str, name: &str) -> String {
    let work = || {
        let parsed = ptx::parse(text, &ptx::Options { check_only: true, ..ptx::Options::for_file(name) });
        let said = ptx::diag::render_ptxas(name, &parsed.diagnostics);
        if parsed.failed() { format!("{said}{}\n", ptx::diag::ABORTED) } else { String::new() }
    };
    isolated(work).unwrap_or_else(|what| Compilation::bug(&what).errors)
}

/// Runs `work` on a thread with enough stack; `Err` says what ended it.
fn isolated<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => Err(text_of(&*panic).to_string()),
            Err(error) => Err(error.to_string()),
        }
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        let cancel = Cancel::when(|| panic!("planted"));
        let texts = vec![".version 8.0 .target sm_90 .entry k() { ret; }".to_string()];
        let compilation = compile(vec!["-arch=sm_90".into()], texts, Some(cancel));
        assert_eq!(compilation.outcome, Outcome::Bug);
        assert_eq!(compilation.errors, "ptxas fatal   : Internal error: planted\n");
    }
}
