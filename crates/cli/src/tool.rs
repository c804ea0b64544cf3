//! A command beside compiling. The commands themselves are rows of `tools`, which imports them; what they need to know of
//! each other is here.

use crate::answer::Answer;

/// The names of all commands, in the order of the table.
pub const NAMES: &[&str] = &[
    "disasm",
    "asm",
    "inspect",
    "verify",
    "run",
    "explain",
    "profile",
    "opt",
    "doctor",
    "completions",
    "man",
    "help",
];

pub struct Tool {
    pub name: &'static str,
    pub about: &'static str,
    pub usage: &'static str,
    pub run: fn(&[String]) -> Result<Answer, String>,
}

impl Tool {
    /// The options that the usage text explains: what begins with a dash at the start of its lines.
    pub fn options(&self) -> Vec<&'static str> {
        let lines = self.usage.lines().filter_map(|line| line.strip_prefix("  -").map(|_| line.trim_start()));
        let ends = |c: char| matches!(c, ' ' | '[' | '=' | ',');
        lines.filter_map(|line| line.split(ends).next()).filter(|option| option.len() > 1).collect()
    }

    /// Words that are neither options nor files.
    pub fn words(&self) -> Vec<&'static str> {
        match self.name {
            "completions" => vec!["bash", "zsh", "fish"],
            "help" | "man" => NAMES.to_vec(),
            _ => Vec::new(),
        }
    }
}
