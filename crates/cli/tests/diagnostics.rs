//! Messages for people and for programs: typical mistakes, each of which must be told with the token that is wrong and a way
//! out, and JSON that is as its schema says.
//!
//! docs/diagnostics.md shows all of them. The test compares; `SASSAFRAS_REWRITE=1` writes the page anew.

#[path = "diagnostics/json.rs"]
mod json;

use json::Json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// So many mistakes are wanted.
const WANTED: usize = 40;

#[derive(Debug, Default)]
struct Case {
    name: String,
    token: String,
    help: String,
    command: Option<String>,
    source: String,
}

/// What stands around lines of a body.
const HEAD: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<4>;
    .shared .align 4 .b32 tile[32];
";
const TAIL: &str = "    ret;\n}\n";

impl Case {
    fn source(&self) -> String {
        match () {
            _ if self.source.starts_with('.') => self.source.clone(),
            _ => format!("{HEAD}{}{TAIL}", self.source),
        }
    }

    fn words(&self) -> Vec<&str> {
        self.command.as_deref().unwrap_or("-arch=sm_90 k.ptx").split(' ').collect()
    }

    /// With the form behind the command, or in front where the end matters.
    fn words_in(&self, form: &str) -> Vec<String> {
        let mut words: Vec<String> = self.words().into_iter().map(String::from).collect();
        let at = if words.last().is_some_and(|word| word == "-o") { 0 } else { words.len() };
        words.insert(at, format!("--diagnostics={form}"));
        words
    }

    /// What the command says in this form.
    fn said(&self, form: &str) -> String {
        let folder = scratch(&self.name);
        std::fs::write(folder.join("k.ptx"), self.source()).expect("a file");
        let output = Command::new(env!("CARGO_BIN_EXE_sassafras"))
            .current_dir(&folder)
            .args(self.words_in(form))
            .output()
            .expect("the command runs");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(output.status.code(), Some(255), "{}", self.name);
        assert!(output.stdout.is_empty(), "{}", self.name);
        String::from_utf8(output.stderr).expect("text")
    }
}

/// A folder of its own, empty, so that the names of files that are near are always the same.
fn scratch(name: &str) -> PathBuf {
    let test = std::thread::current().name().unwrap_or_default().replace(':', "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", name.replace(' ', "-")));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("diagnostics/cases.txt").lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(Case { name: name.into(), ..Case::default() });
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        match () {
            _ if case.token.is_empty() => case.token = line.strip_prefix("token ").expect("a token").into(),
            _ if case.help.is_empty() => case.help = line.strip_prefix("help ").expect("a way out").into(),
            _ if line.starts_with("$ ") => case.command = Some(line[2..].into()),
            _ => {
                case.source += line;
                case.source.push('\n');
            }
        }
    }
    cases
}

/// The objects of a run.
fn objects(text: &str) -> Vec<Json> {
    text.lines().map(|line| json::parse(line).unwrap_or_else(|| panic!("no JSON: {line}"))).collect()
}

#[test]
fn each_mistake_names_its_token_and_a_way_out() {
    let cases = cases();
    assert!(cases.len() >= WANTED, "{} mistakes", cases.len());
    let mut missed = String::new();
    for case in &cases {
        let said = case.said("json");
        let told = |object: &Json| {
            let text = object.get("place").and_then(|place| place.get("text")).and_then(Json::text);
            let helps = object.get("help").map_or(Vec::new(), Json::items);
            let names = text.is_some_and(|text| text.starts_with(&case.token));
            let coded = object.get("code").and_then(Json::text).is_some();
            names
                && coded
                && helps.iter().any(|help| help.text().is_some_and(|help| help.contains(&case.help)))
        };
        if !objects(&said).iter().any(told) {
            let _ = writeln!(
                missed,
                "{}: '{}' and '{}' wanted\n{}",
                case.name,
                case.token,
                case.help,
                case.said("rich")
            );
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

#[test]
fn the_page_shows_what_is_said() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    let mut text = include_str!("diagnostics/head.md").to_string();
    for (index, case) in cases().iter().enumerate() {
        let _ = write!(text, "\n### {}. {}\n\n", index + 1, capital(&case.name));
        if case.command.is_none() {
            let source = case.source();
            let shown = if case.source.starts_with('.') { source.as_str() } else { case.source.as_str() };
            let _ = write!(text, "```ptx\n{}\n```\n\n", shown.trim_end());
        }
        let _ = write!(text, "```text\n{}\n```\n", case.said("rich").trim_end());
    }
    if std::env::var_os("SASSAFRAS_REWRITE").is_some() {
        std::fs::write(&page, &text).expect("the page is written");
    }
    let written = std::fs::read_to_string(&page).expect("the page");
    assert!(written == text, "docs/diagnostics.md is not what is said: SASSAFRAS_REWRITE=1 writes it anew");
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// All that is said in JSON, about mistakes, warnings and with `-v`.
#[test]
fn json_is_as_its_schema_says() {
    let schema = json::parse(include_str!("../../../docs/diagnostics.schema.json")).expect("the schema");
    let mut lines = 0;
    for case in cases() {
        let said = case.said("json");
        for object in objects(&said) {
            let fault = json::fault(&schema, &schema, &object);
            assert_eq!(fault, None, "{}: {object:?}", case.name);
            lines += 1;
        }
        let last = objects(&said).pop().expect("a summary");
        assert_eq!(last.get("kind").and_then(Json::text), Some("summary"), "{}", case.name);
    }
    assert!(lines > 2 * WANTED, "{lines} lines");

    let good = Case { name: "good".into(), source: "    mov.u32 %r1, 1;\n".into(), ..Case::default() };
    let folder = scratch("good");
    std::fs::write(folder.join("k.ptx"), good.source()).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_sassafras"))
        .current_dir(&folder)
        .args(["-arch=sm_90", "-v", "-g", "--diagnostics=json", "k.ptx"])
        .output()
        .expect("the command runs");
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(output.status.success());
    let said = objects(&String::from_utf8(output.stderr).expect("text"));
    assert!(said.iter().all(|object| json::fault(&schema, &schema, object).is_none()), "{said:?}");
    let severity = |object: &Json| object.get("severity").and_then(Json::text).map(String::from);
    let severities: Vec<String> = said.iter().filter_map(severity).collect();
    assert!(
        severities.iter().any(|s| s == "info") && severities.iter().any(|s| s == "warning"),
        "{severities:?}"
    );
}

/// The schema refuses what is not so: else it would prove nothing.
#[test]
fn the_schema_refuses_other_objects() {
    let schema = json::parse(include_str!("../../../docs/diagnostics.schema.json")).expect("the schema");
    let good = r#"{"kind":"summary","errors":1,"warnings":0}"#;
    assert_eq!(json::fault(&schema, &schema, &json::parse(good).expect("JSON")), None);
    for bad in [
        r#"{"kind":"summary","errors":1}"#,
        r#"{"kind":"summary","errors":-1,"warnings":0}"#,
        r#"{"kind":"summary","errors":"1","warnings":0}"#,
        r#"{"kind":"other","errors":1,"warnings":0}"#,
        r#"{"kind":"summary","errors":1,"warnings":0,"more":1}"#,
        "[]",
    ] {
        assert!(json::fault(&schema, &schema, &json::parse(bad).expect("JSON")).is_some(), "{bad}");
    }
}

#[test]
fn codes_are_explained() {
    let run = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sassafras")).args(words).output().expect("the command runs")
    };
    for case in cases() {
        for object in objects(&case.said("json")) {
            let Some(code) = object.get("code").and_then(Json::text).map(String::from) else { continue };
            let output = run(&["explain", &code]);
            assert!(output.status.success() && output.stdout.starts_with(code.as_bytes()), "{code}");
        }
    }
    assert_eq!(run(&["explain", "E9999"]).status.code(), Some(255));
    let list = run(&["help", "messages"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("E0101  Unknown symbol"));
}
