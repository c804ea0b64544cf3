//! What ptxas of each toolkit says of a header or of an instruction: how it is written down.
//!
//! ```text
//! = 9.1 sm_90
//! 13.0 Unsupported .version 9.1; current version is '9.0'
//! 13.1
//! = newest sm_90 ld.volatile.local.u32 %r1, [l];
//! 13.0 Modifier '.volatile' cannot be applied to '.local' space
//! 13.1
//! ```
//!
//! A case is a line with `=`: the version (`newest`: the newest of each release), the target, and perhaps an instruction.
//! `!` before the instruction: we refuse it, though releases accept it. The lines behind it have the first error of each
//! release, or nothing where it accepts the module. Lines with `#` are comments.

use ptx::Toolkit;

pub struct Case {
    /// Comments before it, each with its line break.
    comment: String,
    version: String,
    pub target: String,
    pub form: String,
    pub is_refused_here: bool,
    /// Of each release, in order; `None` if the module is accepted.
    pub answers: Vec<Option<String>>,
}

impl Case {
    pub fn line(&self) -> String {
        let mark = if self.is_refused_here { "! " } else { "" };
        format!("= {} {} {mark}{}", self.version, self.target, self.form).trim_end().to_string()
    }

    /// The module that a release is asked about.
    pub fn source(&self, toolkit: Toolkit) -> String {
        let version = match self.version.as_str() {
            "newest" => toolkit.newest_ptx().to_string(),
            version => version.to_string(),
        };
        let Case { target, form, .. } = self;
        format!(
            "\
.version {version}
.target {target}
.address_size 64
.global .b32 g[4];
.entry k(.param .b64 kp) {{ .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; \
.reg .f64 %d<9>; .reg .b128 %q<5>; .local .align 16 .b8 l[64]; .shared .align 16 .b8 s[64];
{form}
ret; }}
"
        )
    }
}

pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        if line.starts_with('#') || line.is_empty() {
            comment += &format!("{line}\n");
        } else if let Some(head) = line.strip_prefix("= ") {
            let mut words = head.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default().to_string();
            let (version, target, form) = (word(), word(), word());
            let is_refused_here = form.starts_with("! ");
            let form = form.trim_start_matches("! ").to_string();
            let comment = std::mem::take(&mut comment);
            cases.push(Case { comment, version, target, form, is_refused_here, answers: Vec::new() });
        } else {
            let case = cases.last_mut().ok_or("an answer before the first case")?;
            let (_, answer) = line.split_once(' ').unwrap_or((line, ""));
            case.answers.push((!answer.is_empty()).then(|| answer.to_string()));
        }
    }
    Ok(cases)
}

#[allow(dead_code, reason = "the recorder's; the test reads")]
pub fn write(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        text += &format!("{}{}\n", case.comment, case.line());
        for (toolkit, answer) in Toolkit::ALL.iter().zip(&case.answers) {
            let line = format!("{} {}", toolkit.name(), answer.as_deref().unwrap_or_default());
            text += &format!("{}\n", line.trim_end());
        }
    }
    text
}
