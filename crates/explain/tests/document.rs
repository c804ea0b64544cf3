//! The document of real kernels, read back.

use explain::{Image, Launches, Request, explain, page};
use gpu::runline::{self, Run};
use sassafras::Options;
use std::collections::BTreeMap;

const SAXPY: &str = include_str!("../../../examples/saxpy.ptx");
const REDUCE: &str = include_str!("../../../examples/reduce.ptx");
const MATMUL: &str = include_str!("../../ptx/tests/corpus/triton/matmul_k_1.ptx");

/// JSON as this test reads it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Nothing,
    Number(i64),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

impl Value {
    fn read(text: &str) -> Value {
        let mut rest = text;
        let value = Value::next(&mut rest);
        assert_eq!(rest, "", "something behind the document");
        value
    }

    fn next(rest: &mut &str) -> Value {
        let first = rest.chars().next().expect("a value");
        match first {
            '{' | '[' => {
                let (mut items, mut names) = (Vec::new(), Vec::new());
                let close = if first == '{' { '}' } else { ']' };
                *rest = &rest[1..];
                while !rest.starts_with(close) {
                    if first == '{' {
                        names.push(Value::next(rest).text().to_string());
                        *rest = rest.strip_prefix(':').expect("a colon");
                    }
                    items.push(Value::next(rest));
                    *rest = rest.strip_prefix(',').unwrap_or(rest);
                }
                *rest = &rest[1..];
                match first {
                    '{' => Value::Object(names.into_iter().zip(items).collect()),
                    _ => Value::List(items),
                }
            }
            '"' => {
                let (mut text, mut chars) = (String::new(), rest[1..].char_indices());
                loop {
                    match chars.next().expect("an end") {
                        (at, '"') => {
                            *rest = &rest[at + 2..];
                            return Value::Text(text);
                        }
                        (_, '\\') => match chars.next().expect("an escape").1 {
                            'n' => text.push('\n'),
                            't' => text.push('\t'),
                            'u' => (0..4).for_each(|_| assert!(chars.next().is_some())),
                            other => text.push(other),
                        },
                        (_, other) => text.push(other),
                    }
                }
            }
            _ => {
                let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                *rest = behind;
                match word {
                    "null" => Value::Nothing,
                    "true" => Value::Number(1),
                    "false" => Value::Number(0),
                    number => Value::Number(number.parse().expect("a number")),
                }
            }
        }
    }

    fn get(&self, name: &str) -> &Value {
        let Value::Object(members) = self else { panic!("no object for {name}") };
        members.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn list(&self) -> &[Value] {
        let Value::List(items) = self else { panic!("no list: {self:?}") };
        items
    }

    fn text(&self) -> &str {
        let Value::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }

    fn number(&self) -> i64 {
        let Value::Number(number) = self else { panic!("no number: {self:?}") };
        *number
    }

    fn numbers(&self) -> Vec<i64> {
        self.list().iter().map(Value::number).collect()
    }

    fn texts(&self) -> Vec<&str> {
        self.list().iter().map(Value::text).collect()
    }
}

fn json(source: &str, arch: &str, level: u8, compare: Option<&Image>) -> String {
    let options = Options::for_arch(arch).expect("a target").with(|o| o.level = level);
    let read = |path: &str| path.ends_with("triton_kernels.py").then(|| "def k(): pass\n".to_string());
    let request = Request { source, name: "k.ptx", options, compare, launches: Launches::NONE, read: &read };
    explain(&request).unwrap_or_else(|why| panic!("{why:?}")).json
}

/// The functions of a document.
fn functions(source: &str, arch: &str, level: u8) -> Vec<Value> {
    Value::read(&json(source, arch, level, None)).get("functions").list().to_vec()
}

/// The lines of the code after each pass that changed it, made by the edits.
fn codes(function: &Value) -> Vec<(String, Vec<String>)> {
    let (mut lines, mut all) = (Vec::<String>::new(), Vec::new());
    for pass in function.get("passes").list() {
        let Value::List(edits) = pass.get("edits") else { continue };
        let (mut now, mut at) = (Vec::new(), 0);
        for edit in edits {
            let [start, gone] = [0, 1].map(|i| edit.list()[i].number() as usize);
            now.extend_from_slice(&lines[at..start]);
            now.extend(edit.list()[2].texts().iter().map(|text| text.to_string()));
            assert_eq!(edit.list()[2].list().len(), edit.list()[3].list().len());
            at = start + gone;
        }
        now.extend_from_slice(&lines[at..]);
        lines = now;
        all.push((pass.get("name").text().to_string(), lines.clone()));
    }
    all
}

#[test]
fn every_instruction_of_saxpy_has_its_line() {
    for (arch, level) in [("sm_90", 3), ("sm_90", 0), ("sm_100", 3), ("sm_120", 1)] {
        let functions = functions(SAXPY, arch, level);
        let code = functions[0].get("code");
        let used = code.get("used").number() as usize;
        let lines = code.get("line").numbers();
        assert!(used > 10 && lines[..used].iter().all(|line| *line > 0), "{arch} {level}: {lines:?}");
        assert!(lines[used..].iter().all(|line| *line == 0));
        let source: Vec<&str> = SAXPY.lines().collect();
        for (text, line) in code.get("text").texts().iter().zip(lines).take(used) {
            let line = source[line as usize - 1];
            for (operation, word) in
                [("STG", "st.global"), ("FFMA", "fma.rn"), ("ISETP", "setp"), ("LDG", "ld.global")]
            {
                // Operands of an instruction are computed for it.
                assert!(!text.contains(operation) || line.contains(word), "{arch} {level}: {text}: {line}");
            }
        }
    }
}

#[test]
fn edits_lead_to_the_final_code() {
    for (source, arch) in [(SAXPY, "sm_90"), (REDUCE, "sm_100"), (MATMUL, "sm_90a")] {
        for function in functions(source, arch, 3) {
            let codes = codes(&function);
            assert_eq!(codes[0].0, "lower");
            let (last, lines) = codes.last().expect("passes");
            assert_eq!(last, "emit");
            let text = function.get("code").get("text").texts();
            let used = function.get("code").get("used").number() as usize;
            for (line, text) in lines[1..].iter().zip(&text[..used]) {
                assert!(line.contains(text), "{line}: {text}");
            }
            // A pass that is said to change something does.
            assert!(codes.windows(2).all(|pair| pair[0].1 != pair[1].1));
        }
    }
}

#[test]
fn scoreboards_cycles_and_blocks_agree_with_control_codes() {
    for function in functions(REDUCE, "sm_90", 3) {
        let code = function.get("code");
        let controls: Vec<Vec<i64>> = code.get("control").list().iter().map(Value::numbers).collect();
        let cycles = code.get("cycle").numbers();
        assert_eq!(cycles.len(), controls.len() + 1);
        for (i, control) in controls.iter().enumerate() {
            assert_eq!(cycles[i + 1] - cycles[i], control[0].max(1));
        }
        let waits = code.get("waits").numbers();
        let spans = code.get("spans").list();
        for span in spans.iter().map(Value::numbers) {
            let [board, is_read, from, to] = span[..] else { panic!("{span:?}") };
            assert_eq!(controls[from as usize][2 + is_read as usize], board);
            assert!(to == -1 || to > from && waits[to as usize] >> board & 1 == 1);
            // Nothing between waits for it.
            let end = if to == -1 { waits.len() } else { to as usize };
            assert!(waits[from as usize + 1..end].iter().all(|mask| mask >> board & 1 == 0));
        }
        let raised = controls.iter().flat_map(|control| &control[2..4]).filter(|board| **board >= 0).count();
        assert_eq!(spans.len(), raised);
        let targets = code.get("target").numbers();
        let blocks = code.get("block").numbers();
        assert!(blocks.is_sorted() && targets.iter().all(|to| *to < 0 || blocks.contains(to)));
    }
}

/// Timelines of code: every cycle between two steps has a reason, and spans are those of the steps.
fn check_timelines(code: &Value) -> Vec<(String, Vec<Vec<i64>>)> {
    let controls: Vec<Vec<i64>> = code.get("control").list().iter().map(Value::numbers).collect();
    let waits = code.get("waits").numbers();
    let timelines = code.get("timelines").list().iter().map(|timeline| {
        let steps: Vec<Vec<i64>> = timeline.get("steps").list().iter().map(Value::numbers).collect();
        for pair in steps.windows(2) {
            let waited: i64 = pair[1][4..].chunks(2).map(|stall| stall[1]).sum();
            assert_eq!(pair[0][1] + 1 + waited, pair[1][1], "{pair:?}");
        }
        assert!(steps.last().is_some_and(|last| last[1] < timeline.get("end").number()));
        for span in timeline.get("spans").list().iter().map(Value::numbers) {
            let [board, is_read, from, to, done] = span[..] else { panic!("{span:?}") };
            let raised = &steps[from as usize];
            assert_eq!(controls[raised[0] as usize][2 + is_read as usize], board);
            assert_eq!(done, raised[if is_read == 1 { 2 } else { 3 }]);
            let Some(wait) = steps.get(to as usize) else { continue };
            assert!(waits[wait[0] as usize] >> board & 1 == 1 && wait[1] > raised[1]);
        }
        (timeline.get("kind").text().to_string(), steps)
    });
    timelines.collect()
}

#[test]
fn without_a_launch_a_warp_walks_through_the_code() {
    for (source, arch) in [(SAXPY, "sm_90"), (REDUCE, "sm_100"), (MATMUL, "sm_90a"), (SAXPY, "sm_120")] {
        for function in functions(source, arch, 3) {
            let code = function.get("code");
            assert_eq!((function.get("launch"), code.get("profile")), (&Value::Nothing, &Value::Nothing));
            let timelines = check_timelines(code);
            let [(kind, steps)] = &timelines[..] else { panic!("{timelines:?}") };
            assert_eq!(kind, "walk");
            let order: Vec<i64> = steps.iter().map(|step| step[0]).collect();
            assert!(order.iter().copied().eq(0..code.get("used").number()), "{arch}: {order:?}");
        }
    }
}

/// The document of a text with its own run lines.
fn launched(source: &str, runs: &[Run], compare: Option<&Image>) -> Value {
    let options = Options::for_arch("sm_90").expect("a target");
    let request =
        Request { source, name: "k.ptx", options, compare, launches: Launches::of(runs), read: &|_| None };
    Value::read(&explain(&request).unwrap_or_else(|why| panic!("{why:?}")).json)
}

#[test]
fn a_launch_is_in_the_model() {
    let runs = runline::parse(REDUCE).expect("run lines");
    let theirs =
        sassafras::compile(REDUCE, &Options::for_arch("sm_90").expect("a target").with(|o| o.level = 0));
    let theirs = Image::new(&theirs.expect("a cubin").bytes).expect("a cubin");
    let document = launched(REDUCE, &runs, Some(&theirs));
    let names = document.get("reasons").texts();
    for function in document.get("functions").list() {
        let name = function.get("name").text();
        let threads = |run: &Run| run.grid.iter().chain(&run.block).product::<u32>();
        let of_kernel = runs.iter().filter(|run| run.kernel == name);
        let line = function.get("launch").get("line").number() as usize;
        let most = of_kernel.map(threads).max();
        assert_eq!(runs.iter().find(|run| run.line == line).map(threads), most, "{name}");
        for code in ["code", "compare"].map(|code| function.get(code)) {
            let timelines = check_timelines(code);
            assert!(timelines.len() > 1 && timelines.iter().all(|(kind, _)| kind == "launch"));
            // The block's warps meet, and memory takes its time.
            let waits = |reason: &str| {
                let stalls =
                    timelines.iter().flat_map(|(_, steps)| steps.iter().flat_map(|step| step[4..].chunks(2)));
                stalls.filter(|stall| names[stall[0] as usize] == reason).map(|stall| stall[1]).sum::<i64>()
            };
            assert!(waits("long_scoreboard") > 100 && waits("barrier") > 10, "{name}");
            let profile = code.get("profile");
            assert!(profile.get("cycles").number() > 1000);
            let counts: Vec<Vec<i64>> =
                profile.get("instructions").list().iter().map(Value::numbers).collect();
            assert!(profile.get("simulated_blocks").number() > 0 && counts.iter().all(|count| count[1] > 0));
            let used = code.get("used").number();
            assert!(counts.iter().all(|count| count[0] < used) && counts.len() as i64 > used / 2);
        }
    }
    // The same bytes again.
    assert_eq!(document, launched(REDUCE, &runs, Some(&theirs)));
}

#[test]
fn a_launch_that_ends_with_a_fault_is_told() {
    // Memory that is too small.
    let run = runline::launch("saxpy grid=(1) block=(32) args: n:u32=32 a:f32=1 x:f32[1]=0 y:f32[1]=0")
        .expect("a run");
    let document = launched(SAXPY, &[run], None);
    let code = document.get("functions").list()[0].get("code");
    assert!(code.get("refusal").text().contains("memory"), "{:?}", code.get("refusal"));
    let timelines = check_timelines(code);
    assert_eq!(timelines[0].0, "walk");
}

#[test]
fn live_registers_are_within_those_that_the_kernel_has() {
    for function in functions(MATMUL, "sm_90a", 3) {
        let live = function.get("code").get("live").list();
        let most = live.iter().map(|counts| counts.numbers()[0]).max().expect("instructions");
        assert!(most > 32 && most <= function.get("registers").number(), "{most}");
        assert_eq!(live[0].numbers()[0], 0, "nothing is there at the start");
    }
}

#[test]
fn source_lines_and_files() {
    let document = Value::read(&json(MATMUL, "sm_90a", 3, None));
    let file = &document.get("files").list()[0];
    assert_eq!(file.get("text").text(), "def k(): pass\n");
    let lines: Vec<&str> = MATMUL.lines().collect();
    let locations = document.get("locations").list();
    assert!(locations.len() > 100);
    for location in locations.iter().map(Value::numbers) {
        let above =
            lines[..location[0] as usize - 1].iter().rev().find(|line| line.trim().starts_with(".loc"));
        let loc: Vec<i64> =
            above.expect("a .loc").split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        assert_eq!((loc[0] - 1, loc[1]), (location[1], location[2]), "line {}", location[0]);
    }
}

#[test]
fn the_code_is_that_of_the_command() {
    let options = Options::for_arch("sm_90a").expect("a target");
    let plain = sassafras::compile(MATMUL, &options).expect("a cubin");
    let document = Value::read(&json(MATMUL, "sm_90a", 3, Some(&Image::new(&plain.bytes).expect("a cubin"))));
    let function = &document.get("functions").list()[0];
    let (ours, other) = (function.get("code"), function.get("compare"));
    assert_eq!(ours.get("text"), other.get("text"));
    assert_eq!(ours.get("control"), other.get("control"));
    assert_eq!(ours.get("registers"), other.get("registers"));
}

#[test]
fn errors_and_other_targets_are_told() {
    let options = Options::for_arch("sm_90").expect("a target");
    let broken = SAXPY.replace("fma.rn.f32", "fma.f99");
    let request = |source| Request {
        source,
        name: "k.ptx",
        options: options.clone(),
        compare: None,
        launches: Launches::NONE,
        read: &|_| None,
    };
    let why = explain(&request(&broken)).err().expect("an error");
    assert!(why.iter().any(|diagnostic| diagnostic.line == Some(56)), "{why:?}");
    let document = Value::read(&explain::refusal("k.ptx", &broken, &why));
    assert_eq!(document.get("messages").list().len(), why.len());
    let why = explain(&request(MATMUL)).err().expect("another target");
    assert!(why[0].message.contains("sm_90a"), "{why:?}");
}

#[test]
fn the_page_is_one_file() {
    let text = SAXPY.replace("// y = a * x + y", "// </script><script>alert(1)</script>");
    let page = page("a <title>", &json(&text, "sm_90", 3, None));
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("<title>a &lt;title></title>") && !page.contains("{{"));
    for word in ["http://", "https://", "src=", "@import", "url(", "fetch("] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page, self::page_again(&text));
}

fn page_again(text: &str) -> String {
    page("a <title>", &json(text, "sm_90", 3, None))
}
