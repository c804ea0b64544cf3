//! The pages of `sassafras explain` and the playground, in Chromium: what a reader does, and what must come of it.
//!
//! Checks that need no more than the page are scripts (`pages/*.js`); each returns its checks as lines: a name, and what
//! is wrong, if anything. Keys and the pointer are the browser's own.

use super::browser::{self, Browser};
use super::json::Json;
use super::{Bar, Options};
use crate::bench::scale::shapes;
use crate::tools::Tools;
use crate::{Result, playground, shell};
use gpu::runline;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const HELPERS: &str = include_str!("pages/helpers.js");
const LINKS: &str = include_str!("pages/links.js");
const TIMELINE: &str = include_str!("pages/timeline.js");
const LARGE: &str = include_str!("pages/large.js");
const SOURCE: &str = include_str!("pages/source.js");
const COMPARED: &str = include_str!("pages/compared.js");
const PLAYGROUND: &str = include_str!("pages/playground.js");

/// PTX instructions of the large kernel: it becomes 5,000 of the machine.
const LARGE_SIZE: usize = 10_500;

/// A launch of the matrix product, whose blocks have four warps.
const MATMUL: &str = "matmul_k grid=(4) block=(128) shared=32768 args: a:u16[16384]=random(1) b:u16[16384]=random(2) \
                      c:u16[16384]=0 m:u32=128 n:u32=128 k:u32=128 as:u32=128 bs:u32=128 cs:u32=128 x:u64=0 y:u64=0";

/// What stands for the source of a Triton kernel: as many lines as its line table names.
const SOURCE_LINES: usize = 100;

struct Checks {
    passed: usize,
    all: usize,
}

impl Checks {
    fn add(&mut self, page: &str, name: &str, wrong: &str) {
        self.all += 1;
        self.passed += usize::from(wrong.is_empty());
        if !wrong.is_empty() {
            println!("{page}: {name}: {wrong}");
        }
    }

    /// Runs the checks of a script.
    fn script(&mut self, browser: &mut Browser, page: &str, script: &str) -> Result<()> {
        let answer =
            browser.script(&format!("(async () => {{ {HELPERS}\n{script}\n return report(); }})()"))?;
        for line in Json::parse(&answer)?.array()? {
            let (name, wrong) = line.str()?.split_once('\t').ok_or("a check without a name")?;
            self.add(page, name, wrong);
        }
        Ok(())
    }

    fn expect(&mut self, browser: &mut Browser, page: &str, name: &str, expression: &str) -> Result<()> {
        let wrong = match browser.wait(expression) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        self.add(page, name, &wrong);
        Ok(())
    }

    fn bar(self, what: &'static str) -> Bar {
        Bar { what, equal: self.passed, all: self.all, percent: 100 }
    }
}

/// The page of `sassafras explain`.
pub fn run(options: &Options) -> Result<Vec<Bar>> {
    browser::find()?;
    let folder = shell::target_dir().join("pages");
    shell::create_dir(&folder)?;
    let root = shell::root();
    let matmul = root.join("crates/ptx/tests/corpus/triton/matmul_k_1.ptx");
    let large = folder.join("large.ptx");
    let straight = shapes::ALL.iter().find(|shape| shape.name == "straight").ok_or("no such shape")?;
    shell::write(&large, shapes::module(straight, LARGE_SIZE))?;
    let theirs = folder.join("theirs.cubin");
    let mut ptxas = Tools::find()?.command("ptxas");
    shell::run(ptxas.args(["-arch=sm_90a", "-lineinfo", "-o"]).args([&theirs, &matmul]))?;
    let mut checks = Checks { passed: 0, all: 0 };
    let mut browser = Browser::start()?;
    browser.resize(1440, 900)?;
    let pages: [(&str, &Path, Option<&Path>, &str); 5] = [
        ("saxpy", &root.join("examples/saxpy.ptx"), None, LINKS),
        ("large", &large, None, LARGE),
        ("vadd", &root.join("crates/ptx/tests/corpus/triton/vadd_1.ptx"), None, SOURCE),
        ("matmul", &matmul, Some(&theirs), COMPARED),
        // The last one: it leaves the browser with the dark theme.
        ("reduce", &root.join("examples/reduce.ptx"), None, TIMELINE),
    ];
    for (name, source, compare, script) in pages {
        let page = folder.join(format!("{name}.html"));
        let launch = (name == "matmul").then_some(MATMUL);
        let lines = (name == "vadd").then_some(SOURCE_LINES);
        write_page(source, (compare, launch), lines, &page)?;
        browser.open(&format!("file://{}", page.display()), "window.explain && explain.func")?;
        checks.script(&mut browser, name, script)?;
        if name == "saxpy" {
            hands(&mut checks, &mut browser)?;
        }
        if let Some(folder) = &options.bundle {
            picture(&mut browser, folder, name)?;
        }
    }
    Ok(vec![checks.bar("checks of the explain page")])
}

/// Keys and the pointer.
fn hands(checks: &mut Checks, browser: &mut Browser) -> Result<()> {
    let row = |pane: &str, text: &str| {
        format!(
            "[...document.querySelectorAll('[data-pane={pane}] .row')].find((row) => row.textContent.includes('{text}'))"
        )
    };
    let linked = |pane: &str, kind: &str, text: &str| {
        format!(
            "[...document.querySelectorAll('[data-pane={pane}] .row.{kind}')].some((row) => row.textContent.includes('{text}'))"
        )
    };
    browser.script("explain.select([], null); ''")?;
    browser.point(&row("ptx", "fma.rn.f32"), false)?;
    checks.expect(browser, "saxpy", "pointing at PTX shows its SASS", &linked("sass", "hovered", "FFMA"))?;
    checks.expect(browser, "saxpy", "pointing at PTX shows its IR", &linked("ir", "hovered", "FFMA"))?;
    browser.point(&row("sass", "STG.E"), true)?;
    checks.expect(
        browser,
        "saxpy",
        "a click on SASS keeps its PTX",
        &linked("ptx", "linked", "st.global.f32"),
    )?;
    checks.expect(browser, "saxpy", "a click on SASS keeps its IR", &linked("ir", "linked", "STG.E"))?;
    checks.expect(
        browser,
        "saxpy",
        "the card tells of the instruction",
        "document.querySelector('[data-card=details]').textContent.includes('SB4')",
    )?;
    browser.key("ArrowUp")?;
    checks.expect(browser, "saxpy", "the arrow goes a row up", &linked("sass", "cursor", "FFMA"))?;
    browser.script("window.before = explain.panes.ir.pass; ''")?;
    browser.key("[")?;
    checks.expect(browser, "saxpy", "[ goes a pass back", "explain.panes.ir.pass < before")?;
    browser.key("]")?;
    checks.expect(browser, "saxpy", "] goes a pass on", "explain.panes.ir.pass === before")?;
    browser.key("/")?;
    for key in ["l", "d", "g"] {
        browser.key(key)?;
    }
    checks.expect(
        browser,
        "saxpy",
        "search counts",
        "document.querySelector('.count').textContent === '4'",
    )?;
    browser.key("Enter")?;
    checks.expect(
        browser,
        "saxpy",
        "Enter goes to the first",
        "document.querySelector('.count').textContent === '1/4'",
    )?;
    browser.key("Escape")?;
    checks.expect(
        browser,
        "saxpy",
        "Escape lets go",
        "document.querySelectorAll('.row.hit').length === 0",
    )?;
    browser.script("window.theme = document.documentElement.dataset.theme; ''")?;
    browser.key("d")?;
    checks.expect(
        browser,
        "saxpy",
        "d turns light to dark",
        "document.documentElement.dataset.theme !== theme",
    )?;
    browser.key("d")?;
    browser.key("w")?;
    checks.expect(
        browser,
        "saxpy",
        "w goes to what waits",
        "explain.panes.sass.code.waits[explain.panes.sass.picked] > 0",
    )
}

/// As `sassafras explain` does, in process; `lines`: the source is there, and has so many.
fn write_page(
    source: &Path,
    (compare, launch): (Option<&Path>, Option<&str>),
    lines: Option<usize>,
    page: &Path,
) -> Result<()> {
    let text = shell::read(source)?;
    let runs =
        launch.map_or_else(|| runline::parse(&text), |launch| runline::launch(launch).map(|run| vec![run]));
    let runs = runs.map_err(|error| error.to_string())?;
    let target = ptx::parse(&text, &ptx::Options::default()).module.ok_or("no PTX")?.target;
    let other = compare.map(|path| Ok(explain::Image::new(&shell::read_bytes(path)?)?)).transpose();
    let other: Option<explain::Image> = other.map_err(|error: crate::Error| error)?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let request = explain::Request {
        source: &text,
        name: &name,
        options: sassafras::Options::new(target),
        compare: other.as_ref(),
        launches: explain::Launches::of(&runs),
        read: &|_| lines.map(|lines| "x = 1  # one\n".repeat(lines)),
    };
    let first = |why: Vec<ptx::Diagnostic>| why.first().map_or(String::new(), |d| d.message.clone());
    let explained = explain::explain(&request).map_err(first)?;
    shell::write(page, explain::page(&name, &explained.json))
}

/// Keeps a picture of a page.
fn picture(browser: &mut Browser, folder: &Path, name: &str) -> Result<()> {
    shell::create_dir(folder)?;
    let text = browser.picture()?;
    let mut decoder = Command::new("base64");
    decoder.arg("-d").stdin(Stdio::piped());
    let mut child = decoder.stdout(File::create(folder.join(format!("{name}.png")))?).spawn()?;
    let input = child.stdin.take().ok_or("base64 takes nothing")?;
    std::io::Write::write_all(&mut { input }, text.as_bytes())?;
    if child.wait()?.success() { Ok(()) } else { Err("base64 fails".into()) }
}

/// The playground.
pub fn playground(options: &Options) -> Result<Vec<Bar>> {
    browser::find()?;
    let folder = shell::target_dir().join("playground");
    let sizes = playground::build(&folder)?;
    let all: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    println!("{all} bytes after gzip");
    let mut checks = Checks { passed: 0, all: 0 };
    let large = if all > playground::MOST_BYTES { format!("{all} bytes") } else { String::new() };
    checks.add("playground", "at most 1.5 MB after gzip", &large);
    let address = browser::serve(&folder)?;
    let mut browser = Browser::start()?;
    browser.resize(1440, 900)?;
    browser.open(&address, "Number(document.body?.dataset.compiled) >= 1")?;
    checks.script(&mut browser, "playground", PLAYGROUND)?;
    let times = browser.script("JSON.stringify(window.times)")?;
    println!("milliseconds of the compiler, and until all is shown, the best of five: {times}");
    if let Some(folder) = &options.bundle {
        picture(&mut browser, folder, "playground")?;
    }
    let shared = browser.script("document.body.dataset.shared")?;
    let before = browser.script("document.querySelector('.editor').value")?;
    browser.open("about:blank", "location.href === 'about:blank'")?;
    browser.open(&shared, "Number(document.body?.dataset.compiled) >= 1")?;
    let after = browser.script("document.querySelector('.editor').value")?;
    let wrong = if before == after { "" } else { "another text" };
    checks.add("playground", "a shared address has the text", wrong);
    let chosen = "document.querySelector('.chips').textContent.includes('sm_120') && \
                  document.querySelector('.level').value === '1'";
    checks.expect(&mut browser, "playground", "a shared address has target and level", chosen)?;
    Ok(vec![checks.bar("checks of the playground")])
}
