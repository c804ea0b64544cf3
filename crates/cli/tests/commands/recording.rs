//! Recorded command lines: how they are written down, and how one is run.
//!
//! ```text
//! $ -arch=sm_90 -g -O3 t.ptx
//! > 255
//!   ptxas fatal   : Optimized debugging not supported
//! $ -arch=sm_90 - < t.ptx
//! > 0 elf.o
//! ```
//!
//! A line with `$` has the words after the command's name, in double quotes where they have blanks, and perhaps a file
//! for the standard input. A line with `>` has the exit code, `stdout` if anything was printed there, and the files
//! that are new or changed. Indented lines are the standard error. Lines with `#` are comments. Each command runs in a
//! folder with a copy of `inputs/`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug, PartialEq)]
pub struct Case {
    /// Comments before it, each with its line break.
    pub comment: String,
    pub words: Vec<String>,
    pub stdin: Option<String>,
    /// `None`: not recorded yet.
    pub answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub exit_code: i32,
    pub outputs: Vec<String>,
    pub stderr: String,
}

impl Answer {
    /// A plain no of ours: no file, and it says that something is not supported.
    pub fn is_refusal(&self) -> bool {
        self.exit_code == 255 && self.outputs.is_empty() && self.stderr.contains("not supported")
    }
}

impl Case {
    pub fn line(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let stdin = self.stdin.as_ref().map(|file| format!(" < {file}")).unwrap_or_default();
        format!("$ {}{stdin}", words.join(" ")).trim_end().to_string()
    }

    /// Runs a program with these words in `folder`, which holds the inputs and nothing else.
    pub fn run(&self, program: &Path, inputs: &Path, folder: &Path) -> Result<Answer, String> {
        let fails = |error: std::io::Error| format!("{}: {error}", self.line());
        let before = prepare(inputs, folder).map_err(fails)?;
        let stdin = self.stdin.as_ref().and_then(|file| before.get(file)).cloned().unwrap_or_default();
        let mut child = Command::new(program)
            .args(&self.words)
            .current_dir(folder)
            .env_remove("MAKEFLAGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fails)?;
        // Most commands don't read it, and may be gone.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(&stdin));
        let output = child.wait_with_output().map_err(fails)?;
        let exit_code = output.status.code().ok_or_else(|| format!("{}: killed", self.line()))?;
        let mut outputs: Vec<String> =
            (!output.stdout.is_empty()).then(|| "stdout".to_string()).into_iter().collect();
        let after = files(folder).map_err(fails)?;
        outputs.extend(
            after.into_iter().filter(|(name, bytes)| before.get(name) != Some(bytes)).map(|(name, _)| name),
        );
        let stderr =
            String::from_utf8_lossy(&output.stderr).lines().map(|line| normalized(line) + "\n").collect();
        Ok(Answer { exit_code, outputs, stderr })
    }
}

/// Makes the folder equal to the inputs: what is there already stays, for most commands change nothing.
fn prepare(inputs: &Path, folder: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    std::fs::create_dir_all(folder)?;
    let (wanted, found) = (files(inputs)?, files(folder)?);
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        std::fs::remove_file(folder.join(name))?;
    }
    for (name, bytes) in wanted.iter().filter(|(name, bytes)| found.get(*name) != Some(*bytes)) {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(wanted)
}

fn files(folder: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
    }
    Ok(found)
}

/// What depends on the moment, the process or the register allocator becomes `#`, and ptxas's name for its copy of the
/// standard input becomes ours.
fn normalized(line: &str) -> String {
    const UNITS: &[&str] = &[" ms", " KB", "%)", " registers"];
    let mut line = line.to_string();
    for unit in UNITS {
        let Some(end) = line.find(unit) else { continue };
        let digits = line[..end].chars().rev().take_while(|c| c.is_ascii_digit() || *c == '.').count();
        if digits > 0 {
            line.replace_range(end - digits..end, "#");
        }
    }
    while let Some(start) = line.find("/tmp/tmpxft_") {
        let Some(length) = line[start..].find("_stdin") else { break };
        line.replace_range(start..start + length + "_stdin".len(), "<stdin>");
    }
    line
}

pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix('$') {
            let (words, stdin) = unquoted(words)?;
            cases.push(Case { comment: std::mem::take(&mut comment), words, stdin, answer: None });
        } else if let Some(answer) = line.strip_prefix("> ") {
            let (code, outputs) = answer.split_once(' ').unwrap_or((answer, ""));
            let exit_code = code.parse().map_err(|_| format!("'{line}': no exit code"))?;
            let (outputs, _) = unquoted(outputs)?;
            let case = cases.last_mut().ok_or_else(|| format!("'{line}' before any command"))?;
            case.answer = Some(Answer { exit_code, outputs, stderr: String::new() });
        } else if let Some(line) = line.strip_prefix("  ") {
            let answer = cases.last_mut().and_then(|case| case.answer.as_mut());
            answer.ok_or_else(|| format!("'{line}' before any answer"))?.stderr += &format!("{line}\n");
        } else if line.starts_with('#') || line.is_empty() {
            comment += &format!("{line}\n");
        } else {
            return Err(format!("'{line}' is neither a command nor an answer"));
        }
    }
    Ok(cases)
}

pub fn write(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        text += &format!("{}{}\n", case.comment, case.line());
        let Some(answer) = &case.answer else { continue };
        text += &format!("> {}", answer.exit_code);
        answer.outputs.iter().for_each(|name| text += &format!(" {}", quoted(name)));
        text += "\n";
        answer.stderr.lines().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

/// Plain where that is clear; else in double quotes, with `\"`, `\\`, `\n` and `\t`.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !"\"\\<".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}

/// The words of a line, and the file behind `<`.
fn unquoted(line: &str) -> Result<(Vec<String>, Option<String>), String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = line.trim_start();
    let mut stdin = None;
    while !rest.is_empty() {
        if let Some(file) = rest.strip_prefix("< ") {
            stdin = Some(file.trim().to_string());
            break;
        }
        let (word, tail) = match rest.strip_prefix('"') {
            Some(tail) => quoted_word(tail).ok_or_else(|| format!("'{line}': a quote is open"))?,
            None => {
                let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
                (word.to_string(), tail)
            }
        };
        words.push(word);
        rest = tail.trim_start();
    }
    Ok((words, stdin))
}

fn quoted_word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => word.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => word.push(other),
        }
    }
    None
}
