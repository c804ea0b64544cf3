//! Starts workers, prints what they say, and accounts for those that end before their time.

use std::process::ExitCode;
use std::time::Duration;

use gpu::process::{Process, Said};

use crate::{GPU_LOST, Job};

/// What opening the driver may take, on top of the time for a run.
const START: Duration = Duration::from_secs(60);

/// A worker could not begin, and has said why.
const NOTHING_RUN: i32 = 2;

/// Has every job executed, and tells how it went.
pub fn supervise(jobs: &[Job], timeout: Duration) -> Result<ExitCode, String> {
    let (mut done, mut failed) = (0, 0);
    while done < jobs.len() {
        let mut worker = Process::start(|command| {
            command.arg(format!("--worker={done}")).args(std::env::args_os().skip(1));
        })?;
        let first = done;
        let end = loop {
            let patience = if done == first { timeout.saturating_add(START) } else { timeout };
            match worker.listen(patience)? {
                Said::Line(line) => {
                    println!("{line}");
                    failed += usize::from(!line.starts_with("pass"));
                    done += 1;
                }
                Said::Nothing(end) => break end,
            }
        };
        let code = end.status.and_then(|status| status.code());
        if code == Some(NOTHING_RUN) && done == first {
            return Ok(ExitCode::from(2));
        }
        let is_accounted_for = code == Some(GPU_LOST.into()) && done > first;
        if let Some(job) = jobs.get(done).filter(|_| !is_accounted_for) {
            println!("FAIL {job}: {end}");
            failed += 1;
            done += 1;
        }
    }
    println!("{} of {} runs passed", jobs.len() - failed, jobs.len());
    Ok(ExitCode::from(u8::from(failed > 0)))
}
