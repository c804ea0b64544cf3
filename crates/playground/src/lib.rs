//! The compiler and the interpreter for a page in a browser.
//!
//! The page writes a PTX text to [`input`], calls [`compile`] or [`run`], and reads JSON of the length that these return
//! from [`output`]. All of them belong to one thread; what a bug ends is a trap, after which the page starts anew.
#![allow(unsafe_code, reason = "names for the page")]

use cubin::json::Json;
use explain::launch::{self, Checks};
use explain::{Launches, Request, explain, refusal};
use gpu::runline::{self, Contents, Run};
use ptx::diag::{Diagnostic, Severity};
use sassafras::Options;
use std::cell::RefCell;

/// The most steps of warps of a run: some seconds.
const STEPS: u64 = 1 << 24;
/// Elements of each buffer that are shown.
const SHOWN: usize = 8;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Room for an input of this length.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Where the last output is.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

fn answer(json: String) -> usize {
    OUTPUT.with_borrow_mut(|output| {
        *output = json.into_bytes();
        output.len()
    })
}

fn text() -> String {
    INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned())
}

/// The names of the targets, as a JSON list.
#[unsafe(no_mangle)]
pub extern "C" fn targets() -> usize {
    answer(Json::List(names().map(Json::text).collect()).compact())
}

fn names() -> impl Iterator<Item = &'static str> {
    targets::PTX_TARGETS.iter().map(|target| target.name)
}

/// Compiles the input for the target of this number in the list, and answers with its document.
#[unsafe(no_mangle)]
pub extern "C" fn compile(target: usize, level: u8) -> usize {
    answer(document(&text(), names().nth(target).unwrap_or_default(), level))
}

fn document(source: &str, target: &str, level: u8) -> String {
    const NAME: &str = "kernel.ptx";
    let options = match Options::for_arch(target) {
        Ok(options) => options.with(|o| {
            o.level = level;
            o.threads = Some(1);
        }),
        Err(error) => return refusal(NAME, source, &[fatal(error.to_string())]),
    };
    let request =
        Request { source, name: NAME, options, compare: None, launches: Launches::NONE, read: &|_| None };
    explain(&request).map_or_else(|why| refusal(NAME, source, &why), |explained| explained.json)
}

fn fatal(message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Fatal, file: None, line: None, span: Default::default(), message }
}

/// Runs the run lines of the input, and answers with what came of each.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> usize {
    let json = runs(&text()).unwrap_or_else(|message| Json::Object(vec![("error", Json::Text(message))]));
    answer(json.compact())
}

fn runs(source: &str) -> Result<Json, String> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let first = parsed.diagnostics.first().map_or(String::new(), |first| first.message.clone());
    let module = parsed.module.as_ref().filter(|_| !parsed.failed()).ok_or(first)?;
    let program = sim::ptx::Program::new(module, source);
    let runs = runline::parse(source).map_err(|error| error.to_string())?;
    if runs.is_empty() {
        return Err("There is no run line. One looks like this: \
                    // run KERNEL grid=(1) block=(32) args: n:u32=32 x:f32[n]=random(1)"
            .into());
    }
    Ok(Json::Object(vec![("runs", Json::list(&runs, |run| outcome(&program, run)))]))
}

fn outcome(program: &sim::ptx::Program, run: &Run) -> Json {
    let checks = Checks { steps: Some(STEPS), ..Checks::default() };
    let result = launch::execute(&mut sim::ptx::Machine::new(program), run, checks);
    let expects = run.args.iter().any(|arg| matches!(arg.contents, Contents::Buffer { after: Some(_), .. }));
    let (ok, message, memory) = match &result {
        Ok(buffers) => {
            let message = if expects { "memory as expected" } else { "done" };
            (true, message, launch::shown(run, buffers, SHOWN))
        }
        Err(why) => (false, why.as_str(), String::new()),
    };
    let sizes = |sizes: [u32; 3]| Json::list(&sizes, |size| Json::Number((*size).into()));
    Json::Object(vec![
        ("line", Json::Number(run.line as u64)),
        ("kernel", Json::text(&run.kernel)),
        ("grid", sizes(run.grid)),
        ("block", sizes(run.block)),
        ("ok", Json::Bool(ok)),
        ("message", Json::text(message)),
        ("memory", Json::Text(memory)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAXPY: &str = include_str!("../../../examples/saxpy.ptx");

    fn put(text: &str) {
        input(text.len());
        INPUT.with_borrow_mut(|input| input.copy_from_slice(text.as_bytes()));
    }

    fn got(length: usize) -> String {
        OUTPUT.with_borrow(|output| {
            assert_eq!(output.len(), length);
            String::from_utf8(output.clone()).expect("UTF-8")
        })
    }

    #[test]
    fn every_target_compiles_or_says_why_not() {
        assert_eq!(got(targets()).matches("sm_").count(), names().count());
        put(SAXPY);
        for (number, name) in names().enumerate() {
            let json = got(compile(number, 3));
            match json.contains("\"functions\":[]") {
                true => assert!(json.contains("\"severity\":\"fatal\""), "{name}: {json}"),
                false => assert!(json.contains("STG.E") && !name.starts_with("sm_8"), "{name}"),
            }
        }
        assert!(got(compile(usize::MAX, 3)).contains("\"severity\":\"fatal\""));
    }

    #[test]
    fn run_lines_are_run() {
        put(SAXPY);
        let json = got(run());
        assert!(json.matches("\"ok\":true").count() == 9 && !json.contains("\"ok\":false"), "{json}");
        put(&SAXPY.replace("fma.rn.f32", "fma.rz.f32"));
        assert!(got(run()).contains("\"ok\":false"));
        put(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n");
        assert!(got(run()).starts_with("{\"error\":\"There is no run line."));
        put("what is this");
        assert!(got(run()).starts_with("{\"error\":"));
    }
}
