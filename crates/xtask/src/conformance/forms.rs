//! Part `forms`: for every recorded PTX instruction form and every target, our verdict and the text of our
//! first error against those of ptxas.
//!
//! The data file has one JSON object a line: `family`, `key`, `ptx` (the instruction), `accepted` (targets) and
//! `rejected` (error text → targets), recorded from ptxas 13.0.88 at `.version 9.0` with the form inside
//! [`frame`]. The repository holds every tenth form of the whole data.

use super::json::Json;
use super::{Bar, Options, list_differences, percentage};
use crate::{Result, frontend, shell};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Of the rejected forms, the share that must be rejected with the same words.
const TEXT_BAR: usize = 99;

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let forms = read(options)?;

    // Parallel over forms, gathered in the order of the file.
    let tallies = forms.par_iter().map(measure).collect::<Vec<Tally>>();

    let mut families: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut total = Tally::default();
    for (form, tally) in forms.iter().zip(tallies) {
        families.entry(&form.family).or_default().count(&tally);
        total.add(tally);
    }
    print_table(&families, &total);
    list_differences("forms with another verdict", &total.wrong_verdicts, options.show);
    list_differences("forms rejected with other words", &total.wrong_texts, options.show);
    Ok(vec![
        Bar { what: "verdicts equal to ptxas", equal: total.verdicts_equal, all: total.checks, percent: 100 },
        Bar {
            what: "error texts equal, of the rejected",
            equal: total.texts_equal,
            all: total.rejected,
            percent: TEXT_BAR,
        },
    ])
}

/// The recorded forms, those of one family if only that is wanted.
pub fn read(options: &Options) -> Result<Vec<Form>> {
    let path = options.forms();
    let text = shell::read(&path)?;
    let mut forms = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let form = Form::read(line).map_err(|e| format!("{}:{}: {e}", path.display(), number + 1))?;
        if options.family.as_ref().is_none_or(|family| *family == form.family) {
            forms.push(form);
        }
    }
    Ok(forms)
}

pub struct Form {
    pub family: String,
    pub ptx: String,
    /// For each target, `None` if ptxas accepts the form, else the text of its error.
    verdicts: Vec<(String, Option<String>)>,
}

impl Form {
    /// The targets on which ptxas takes it.
    pub fn accepted(&self) -> impl Iterator<Item = &str> {
        self.verdicts.iter().filter(|(_, error)| error.is_none()).map(|(target, _)| target.as_str())
    }

    fn read(line: &str) -> Result<Form> {
        let json = Json::parse(line)?;
        let mut verdicts = Vec::new();
        for target in json.get("accepted")?.array()? {
            verdicts.push((target.str()?.to_owned(), None));
        }
        for (text, targets) in json.get("rejected")?.object()? {
            for target in targets.array()? {
                verdicts.push((target.str()?.to_owned(), Some(text.clone())));
            }
        }
        let text = |key| Ok::<_, crate::Error>(json.get(key)?.str()?.to_owned());
        Ok(Form { family: text("family")?, ptx: text("ptx")?, verdicts })
    }
}

/// The module that the form was recorded in.
fn frame(target: &str, form: &str) -> String {
    declarations(target) + &entry("k", form)
}

/// What stands before the kernel.
pub fn declarations(target: &str) -> String {
    format!(
        "\
.version 9.0
.target {target}
.address_size 64
.global .b32 gvar[4];
.const .b32 cvar[4];
.global .texref tref;
.global .surfref sref;
.func (.param .b32 fo) ffun (.param .b32 fi) {{ .reg .b32 %r<3>; ld.param.b32 %r1,[fi]; st.param.b32 [fo],%r1; ret; }}
"
    )
}

/// The kernel around a form.
pub fn entry(name: &str, form: &str) -> String {
    let q = if form.contains("%q") { " .reg .b128 %q<5>;" } else { "" };
    let b8 = if form.contains("%b") { " .reg .b8 %b<10>;" } else { "" };
    format!(
        "\
.entry {name}(.param .b64 kp) {{ .reg .b16 %h<20>; .reg .b32 %r<300>; .reg .b64 %rd<20>; .reg .pred %p<8>; \
.reg .f32 %f<300>; .reg .f64 %d<80>; .shared .align 16 .b8 svar[64]; .local .align 16 .b8 lvar[64];{q}{b8}
{form}
ret; }}
"
    )
}

#[derive(Default)]
struct Tally {
    forms: usize,
    checks: usize,
    rejected: usize,
    verdicts_equal: usize,
    texts_equal: usize,
    wrong_verdicts: Vec<String>,
    wrong_texts: Vec<String>,
}

impl Tally {
    fn count(&mut self, other: &Tally) {
        self.forms += other.forms;
        self.checks += other.checks;
        self.rejected += other.rejected;
        self.verdicts_equal += other.verdicts_equal;
        self.texts_equal += other.texts_equal;
    }

    fn add(&mut self, other: Tally) {
        self.count(&other);
        self.wrong_verdicts.extend(other.wrong_verdicts);
        self.wrong_texts.extend(other.wrong_texts);
    }
}

fn measure(form: &Form) -> Tally {
    let mut tally = Tally { forms: 1, ..Tally::default() };
    let mut wrong_verdicts = Differences::default();
    let mut wrong_texts = Differences::default();
    for (target, theirs) in &form.verdicts {
        let ours = frontend::check("form.ptx", &frame(target, &form.ptx), None).first_error;
        tally.checks += 1;
        tally.rejected += usize::from(theirs.is_some());
        if ours.is_some() != theirs.is_some() {
            wrong_verdicts.add(target, theirs, &ours);
            continue;
        }
        tally.verdicts_equal += 1;
        if ours != *theirs {
            wrong_texts.add(target, theirs, &ours);
        } else if ours.is_some() {
            tally.texts_equal += 1;
        }
    }
    tally.wrong_verdicts = wrong_verdicts.list(&form.ptx);
    tally.wrong_texts = wrong_texts.list(&form.ptx);
    tally
}

/// The differences of one form: the targets by what ptxas says and what we say.
#[derive(Default)]
struct Differences(BTreeMap<(String, String), Vec<String>>);

impl Differences {
    fn add(&mut self, target: &str, theirs: &Option<String>, ours: &Option<String>) {
        // Many texts name the target, and differ in nothing else.
        let show = |verdict: &Option<String>| match verdict {
            Some(text) => text.replace(&format!("'{target}'"), "'TARGET'"),
            None => "accepted".into(),
        };
        self.0.entry((show(theirs), show(ours))).or_default().push(target.to_owned());
    }

    fn list(self, form: &str) -> Vec<String> {
        let show = |((theirs, ours), targets): ((String, String), Vec<String>)| {
            format!("{form}\n      ptxas: {theirs}\n      ours:  {ours}\n      on {}", targets.join(" "))
        };
        self.0.into_iter().map(show).collect()
    }
}

fn print_table(families: &BTreeMap<&str, Tally>, total: &Tally) {
    println!("family     forms   checks  verdicts equal      rejected  texts equal");
    for (family, tally) in families.iter().map(|(name, tally)| (*name, tally)).chain([("all", total)]) {
        println!(
            "{family:<8} {:>7} {:>8} {:>7} {} {:>9} {:>7} {}",
            tally.forms,
            tally.checks,
            tally.verdicts_equal,
            percentage(tally.verdicts_equal, tally.checks),
            tally.rejected,
            tally.texts_equal,
            percentage(tally.texts_equal, tally.rejected),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, frame};

    #[test]
    fn reads_a_form() {
        let line = r#"{"family": "int", "key": "k", "ptx": "p;", "accepted": ["sm_90"], "rejected": {"no": ["sm_75", "sm_80"]}}"#;
        let form = Form::read(line).unwrap();
        assert_eq!(form.family, "int");
        let verdict = |target: &str, text: Option<&str>| (target.to_owned(), text.map(str::to_owned));
        assert_eq!(
            form.verdicts,
            [verdict("sm_90", None), verdict("sm_75", Some("no")), verdict("sm_80", Some("no"))]
        );
    }

    #[test]
    fn registers_of_rare_types_only_where_used() {
        assert!(frame("sm_90", "mov.b128 %q1,%q2;").contains(".b128 %q<5>"));
        assert!(!frame("sm_90", "add.s32 %r1,%r2,%r3;").contains(".b128"));
        assert!(!frame("sm_90", "add.s32 %r1,%r2,%r3;").contains("%b<"));
    }
}
