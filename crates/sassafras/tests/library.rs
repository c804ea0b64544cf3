//! The library as others call it: one call, errors that explain themselves, limits, cancellation.

use sassafras::ptx::{self, Target};
use sassafras::{Cancel, Error, Options, Stop, compile, compile_module, compile_ptx};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SAXPY: &str = include_str!("../../../examples/saxpy.ptx");

fn options() -> Options {
    Options::for_arch("sm_90").expect("a target")
}

fn stopped(change: impl FnOnce(&mut Options)) -> Result<usize, Error> {
    compile(SAXPY, &options().with(change)).map(|cubin| cubin.bytes.len())
}

#[test]
fn one_call() {
    let cubin = compile_ptx(SAXPY, "sm_90").expect("a cubin");
    assert!(cubin.as_ref().starts_with(b"\x7fELF"));
    assert_eq!(cubin.functions.len(), 1);
    assert!(cubin.warnings.is_empty());
    assert_eq!(compile_ptx(SAXPY, "compute_90").map(|same| same.bytes), Ok(cubin.bytes));
}

#[test]
fn errors_say_what_is_wrong() {
    let error = compile_ptx("not PTX", "sm_90").unwrap_err();
    assert!(matches!(error, Error::Ptx(_)) && !error.diagnostics().is_empty());
    let diagnostic = error.diagnostics()[0].to_string();
    assert!(diagnostic.starts_with("line 1: ") && diagnostic.contains(": "), "{diagnostic}");

    let error = compile_ptx(SAXPY, "sm_9000").unwrap_err();
    assert_eq!(error.to_string(), "Value 'sm_9000' is not defined for option 'gpu-name'");

    let error = compile_ptx(&SAXPY.replace(".target sm_90", ".target sm_90a"), "sm_90").unwrap_err();
    assert!(matches!(error, Error::Target(_)), "{error}");
    let _: &(dyn std::error::Error + Send + Sync) = &error;
}

/// A module for sm_90a is none for sm_90, whichever call compiles it.
#[test]
fn modules_are_refused_for_other_targets() {
    let source = ".version 8.0 .target sm_90a .entry k() { ret; }";
    let module = ptx::parse(source, &ptx::Options::default()).module.expect("a module");
    let output = compile_module(&module, &options());
    assert!(output.cubin.is_none());
    assert!(output.diagnostics[0].message.contains("cannot be compiled for architecture 'sm_90'"));
    let own = Options::new(Target::find("sm_90a").expect("a target"));
    assert!(compile_module(&module, &own).cubin.is_some());
}

#[test]
fn limits() {
    let bytes = stopped(|_| {}).expect("a cubin");
    let generous = stopped(|o| {
        o.limits.time = Some(Duration::from_secs(3600));
        o.limits.memory = Some(1 << 30);
    });
    assert_eq!(generous, Ok(bytes));
    assert_eq!(stopped(|o| o.limits.time = Some(Duration::ZERO)), Err(Error::Stopped(Stop::Time)));
    assert_eq!(stopped(|o| o.limits.memory = Some(1 << 10)), Err(Error::Stopped(Stop::Memory)));
    let of_text = SAXPY.len() as u64 * 45;
    assert_eq!(stopped(|o| o.limits.memory = Some(of_text + 1000)), Err(Error::Stopped(Stop::Memory)));
    let no_clock = stopped(|o| {
        o.clock = None;
        o.limits.time = Some(Duration::from_secs(3600));
    });
    assert_eq!(no_clock, Err(Error::Stopped(Stop::NoClock)));
}

#[test]
fn without_a_clock_the_code_is_the_same() {
    let (with, without) = (compile(SAXPY, &options()), compile(SAXPY, &options().with(|o| o.clock = None)));
    let (with, without) = (with.expect("a cubin"), without.expect("a cubin"));
    assert_eq!(with.bytes, without.bytes);
    assert_eq!(without.functions[0].time, Duration::ZERO);
}

/// It is asked before each pass: a compilation ends within one.
#[test]
fn cancellation() {
    let cancel = Cancel::default();
    cancel.cancel();
    assert_eq!(stopped(|o| o.cancel = Some(cancel)), Err(Error::Stopped(Stop::Cancelled)));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let after_ten = Cancel::when(move || count.fetch_add(1, Ordering::Relaxed) >= 10);
    assert_eq!(stopped(|o| o.cancel = Some(after_ten)), Err(Error::Stopped(Stop::Cancelled)));
    assert_eq!(asked.load(Ordering::Relaxed), 11);
}
