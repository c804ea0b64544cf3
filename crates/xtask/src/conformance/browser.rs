//! Chromium without a window, driven through a pair of pipes by its DevTools protocol.
//!
//! The pipes are FIFOs in a folder of the run's own, which the browser inherits as the descriptors that the protocol
//! names. Only what the tests need is here: pages, sizes, scripts, keys, the pointer, pictures.

use super::json::Json;
use crate::{Result, shell};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// A run that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(180);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The browser that is installed.
pub fn find() -> Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        "chromium is missing: run `cargo xtask setup`, or install it (on Debian and Ubuntu: `apt install chromium`)"
            .into()
    })
}

pub struct Browser {
    child: Child,
    commands: File,
    answers: BufReader<File>,
    folder: PathBuf,
    session: String,
    number: u64,
    /// Dropped when the browser ends, which ends the watch.
    _watch: Sender<()>,
}

impl Browser {
    /// Starts it with one empty page.
    pub fn start() -> Result<Browser> {
        let folder = shell::target_dir().join(format!("pages/browser-{}", std::process::id()));
        shell::create_dir(&folder)?;
        shell::run(Command::new("mkfifo").args(["commands", "answers"]).current_dir(&folder))?;
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<commands 4>answers"])
            .arg(find()?)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let watch = watch(child.id());
        // The shell opens them in this order.
        let commands = File::options().write(true).open(folder.join("commands"))?;
        let answers = BufReader::new(File::open(folder.join("answers"))?);
        let (session, number) = (String::new(), 0);
        let mut browser = Browser { child, commands, answers, folder, session, number, _watch: watch };
        let target = browser.ask("Target.createTarget", "{\"url\":\"about:blank\"}")?;
        let target = member(&target, "targetId")?;
        let attached = format!("{{\"targetId\":\"{target}\",\"flatten\":true}}");
        let answer = browser.ask("Target.attachToTarget", &attached)?;
        browser.session = member(&answer, "sessionId")?;
        browser.ask("Page.enable", "{}")?;
        Ok(browser)
    }

    /// Sends a command and waits for its answer; events are passed over.
    fn ask(&mut self, method: &str, parameters: &str) -> Result<String> {
        self.number += 1;
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!(",\"sessionId\":\"{session}\""),
        };
        let start = format!("{{\"id\":{},", self.number);
        write!(self.commands, "{start}\"method\":\"{method}\",\"params\":{parameters}{session}}}\0")?;
        loop {
            let mut bytes = Vec::new();
            if self.answers.read_until(0, &mut bytes)? == 0 {
                return Err(format!("the browser ended, or took longer than {LIMIT:?}, at {method}").into());
            }
            let answer = String::from_utf8_lossy(&bytes).into_owned();
            if answer.starts_with(&start) {
                return match answer.starts_with(&format!("{start}\"error\"")) {
                    true => Err(format!("{method}: {answer}").into()),
                    false => Ok(answer),
                };
            }
        }
    }

    /// Goes to an address, and waits until `ready` is true there.
    pub fn open(&mut self, address: &str, ready: &str) -> Result<()> {
        self.ask("Page.navigate", &format!("{{\"url\":{}}}", quoted(address)))?;
        self.wait(ready)
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) -> Result<()> {
        for _ in 0..600 {
            if self.script(&format!("String(Boolean({expression}))")).is_ok_and(|value| value == "true") {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(25));
        }
        Err(format!("this does not become true: {expression}").into())
    }

    /// The string that a script ends with; a promise is waited for.
    pub fn script(&mut self, script: &str) -> Result<String> {
        let parameters =
            format!("{{\"expression\":{},\"awaitPromise\":true,\"returnByValue\":true}}", quoted(script));
        let answer = self.ask("Runtime.evaluate", &parameters)?;
        if answer.contains("\"exceptionDetails\":") {
            let why = member(&answer, "description").unwrap_or(answer);
            return Err(format!("a script fails: {why}").into());
        }
        member(&answer, "value")
    }

    /// The size of the page in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let parameters =
            format!("{{\"width\":{width},\"height\":{height},\"deviceScaleFactor\":1,\"mobile\":false}}");
        self.ask("Emulation.setDeviceMetricsOverride", &parameters).map(drop)
    }

    /// A key, by its name in JavaScript.
    pub fn key(&mut self, key: &str) -> Result<()> {
        let text =
            if key.chars().count() == 1 { format!(",\"text\":{}", quoted(key)) } else { String::new() };
        for kind in ["keyDown", "keyUp"] {
            let parameters = format!("{{\"type\":\"{kind}\",\"key\":{}{text}}}", quoted(key));
            self.ask("Input.dispatchKeyEvent", &parameters)?;
        }
        Ok(())
    }

    /// The pointer goes to the middle of the element that an expression names, and clicks if it should.
    pub fn point(&mut self, element: &str, click: bool) -> Result<()> {
        let place = format!(
            "(() => {{ const r = ({element}).getBoundingClientRect(); \
             return `\"x\":${{r.x + Math.min(r.width / 2, 60)}},\"y\":${{r.y + r.height / 2}}` }})()"
        );
        let place = self.script(&place)?;
        let kinds: &[&str] =
            if click { &["mouseMoved", "mousePressed", "mouseReleased"] } else { &["mouseMoved"] };
        for kind in kinds {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let parameters =
                format!("{{\"type\":\"{kind}\",{place},\"button\":\"{button}\",\"clickCount\":1}}");
            self.ask("Input.dispatchMouseEvent", &parameters)?;
        }
        Ok(())
    }

    /// A picture of what is in sight, as PNG in base 64.
    pub fn picture(&mut self) -> Result<String> {
        let answer = self.ask("Page.captureScreenshot", "{\"format\":\"png\"}")?;
        member(&answer, "data")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.ask("Browser.close", "{}");
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Ends a process that is still there after the limit.
fn watch(process: u32) -> Sender<()> {
    let (sender, receiver) = channel::<()>();
    thread::spawn(move || {
        if receiver.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
    });
    sender
}

/// The string after the first member of this name.
fn member(answer: &str, name: &str) -> Result<String> {
    let key = format!("\"{name}\":\"");
    let start = answer.find(&key).map(|at| at + key.len() - 1);
    let start = start.ok_or_else(|| format!("no '{name}' in {answer:.300}"))?;
    let mut end = start + 1;
    let bytes = answer.as_bytes();
    while bytes.get(end).is_some_and(|byte| *byte != b'"') {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    Ok(Json::parse(answer.get(start..=end).unwrap_or_default())?.str()?.to_string())
}

fn quoted(text: &str) -> String {
    cubin::json::Json::text(text).compact()
}

/// A folder's files over HTTP on this machine's own address, for as long as the program runs. Returns the address.
pub fn serve(folder: &Path) -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/", listener.local_addr()?);
    let folder = folder.to_path_buf();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || answer(stream, &folder));
        }
    });
    Ok(address)
}

/// Answers one request.
fn answer(stream: std::net::TcpStream, folder: &Path) -> Option<()> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    reader.read_line(&mut line).ok()?;
    let mut header = String::new();
    while reader.read_line(&mut header).ok()? > 2 {
        header.clear();
    }
    let path = line.split(' ').nth(1)?.split(['?', '#']).next()?.trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let kinds = [
        ("html", "text/html"),
        ("js", "text/javascript"),
        ("css", "text/css"),
        ("wasm", "application/wasm"),
        ("ptx", "text/plain"),
    ];
    let suffix = path.rsplit('.').next()?;
    let kind = kinds.iter().find(|(known, _)| *known == suffix).map(|(_, kind)| *kind);
    let bytes = kind.filter(|_| !path.contains("..")).and_then(|_| std::fs::read(folder.join(path)).ok());
    let (status, bytes) = bytes.map_or(("404 Not Found", Vec::new()), |bytes| ("200 OK", bytes));
    let kind = kind.unwrap_or("text/plain");
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )
    .ok()?;
    stream.write_all(&bytes).ok()
}
