//! Part `compile-forms`: every recorded PTX instruction form that ptxas accepts on a target compiles for it, at -O0 and
//! at -O3, with the compiler's own checks on, and nvdisasm reads all the code.
//!
//! Each form is compiled alone, so that one refusal hides no other. Those that compile are then put into one module for
//! each target and level, a kernel each, and nvdisasm reads that.

use super::forms::{Form, declarations, entry};
use super::{Bar, Options, list_differences};
use crate::compile::compile_ours;
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LEVELS: [u8; 2] = [0, 3];

/// Families of forms for the tensor and copy units; the others are for everyone.
const TENSOR: [&str; 9] = ["bulk", "cpasync", "matmov", "mbar", "mma", "mma.sp", "tcgen05", "wgmma", "wmma"];

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    let forms = super::forms::read(options)?;
    let targets: BTreeSet<&str> = forms.iter().flat_map(Form::accepted).collect();
    let jobs: Vec<(&str, u8)> = targets.iter().flat_map(|t| LEVELS.map(|level| (*t, level))).collect();
    let tallies = jobs.par_iter().map(|job| measure(&tools, &forms, *job)).collect::<Result<Vec<Tally>>>()?;

    let mut total = Tally::default();
    println!("target     level   forms  compiled  tensor forms  compiled  read by nvdisasm");
    for ((target, level), tally) in jobs.iter().zip(tallies) {
        let [scalar, tensor] = tally.compiled;
        let read = if tally.unread.is_empty() { "yes" } else { "no" };
        println!(
            "{target:<10} -O{level} {:>10} {:>9} {:>13} {:>9}  {read}",
            tally.forms[0], scalar, tally.forms[1], tensor
        );
        total.add(tally);
    }
    let show = |(why, places): (String, BTreeSet<String>)| {
        format!("{why}\n      on {}", places.into_iter().collect::<Vec<_>>().join(" "))
    };
    let refused: Vec<String> = std::mem::take(&mut total.refused).into_iter().map(show).collect();
    list_differences("forms that don't compile", &refused, options.show);
    list_differences("code that nvdisasm can't read", &total.unread, options.show);
    let bar = |what, kind: usize| {
        let (equal, all) = (total.compiled[kind], total.forms[kind]);
        Bar { what, equal, all, percent: 100 }
    };
    let mut bars = vec![bar("forms compiled", 0), bar("tensor forms compiled", 1)];
    // One family has forms of one kind.
    bars.retain(|bar| options.family.is_none() || bar.all > 0);
    let files = jobs.len();
    bars.push(Bar {
        what: "files read by nvdisasm",
        equal: files - total.unread.len(),
        all: files,
        percent: 100,
    });
    Ok(bars)
}

/// What came of a target and a level. Pairs are for scalar and tensor families.
#[derive(Default)]
struct Tally {
    forms: [usize; 2],
    compiled: [usize; 2],
    /// The forms that don't compile and why, with the targets and levels.
    refused: BTreeMap<String, BTreeSet<String>>,
    /// What nvdisasm said of files that it can't read.
    unread: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        for kind in 0..2 {
            self.forms[kind] += other.forms[kind];
            self.compiled[kind] += other.compiled[kind];
        }
        for (form, places) in other.refused {
            self.refused.entry(form).or_default().extend(places);
        }
        self.unread.extend(other.unread);
    }
}

fn measure(tools: &Tools, forms: &[Form], (target, level): (&str, u8)) -> Result<Tally> {
    let mut tally = Tally::default();
    let head = declarations(target);
    let mut together = head.clone();
    for (number, form) in forms.iter().filter(|form| form.accepted().any(|t| t == target)).enumerate() {
        let kind = usize::from(TENSOR.contains(&form.family.as_str()));
        tally.forms[kind] += 1;
        match compile_ours(&(head.clone() + &entry("k", &form.ptx)), target, level) {
            Ok(_) => {
                tally.compiled[kind] += 1;
                together += &entry(&format!("k{number}"), &form.ptx);
            }
            Err(why) => {
                let places = tally.refused.entry(format!("{}\n      {why}", form.ptx)).or_default();
                places.insert(format!("{target}:O{level}"));
            }
        }
    }
    let cubin =
        compile_ours(&together, target, level).map_err(|e| format!("{target} -O{level}, all forms: {e}"))?;
    let dir = shell::target_dir().join("compile-forms");
    shell::create_dir(&dir)?;
    let file = dir.join(format!("{target}-O{level}.cubin"));
    shell::write(&file, cubin)?;
    let output = shell::capture(tools.command("nvdisasm").arg("-c").arg(&file))?;
    if !output.status.success() || !output.stderr.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        tally.unread.push(format!("{}: {}", file.display(), said.lines().next().unwrap_or("failed")));
    }
    Ok(tally)
}
