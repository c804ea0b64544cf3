//! Starts workers, prints what they say, and accounts for those that end before their time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::{GPU_LOST, Job};

/// What opening the driver may take, on top of the time for a run.
const START: Duration = Duration::from_secs(60);

/// A worker could not begin, and has said why.
const NOTHING_RUN: i32 = 2;

/// Has every job executed, and tells how it went.
pub fn supervise(jobs: &[Job], timeout: Duration) -> Result<ExitCode, String> {
    let (mut done, mut failed) = (0, 0);
    while done < jobs.len() {
        let mut worker = Worker::start(done)?;
        let first = done;
        let end = loop {
            let patience = if done == first { timeout.saturating_add(START) } else { timeout };
            match worker.verdict(patience)? {
                Said::Verdict(line) => {
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

enum Said {
    Verdict(String),
    Nothing(End),
}

/// How a worker ended; it was stopped where there is no status.
struct End {
    status: Option<ExitStatus>,
    patience: Duration,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => write!(f, "the process ended without a verdict ({status})"),
            None => write!(f, "not done after {} s", self.patience.as_secs()),
        }
    }
}

struct Worker {
    process: Child,
    lines: Receiver<String>,
}

impl Worker {
    fn start(first: usize) -> Result<Worker, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg(format!("--worker={first}")).args(std::env::args_os().skip(1)).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("no worker: {error}"))?;
        let output = process.stdout.take().ok_or("a worker without output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Worker { process, lines })
    }

    fn verdict(&mut self, patience: Duration) -> Result<Said, String> {
        let status = match self.lines.recv_timeout(patience) {
            Ok(line) => return Ok(Said::Verdict(line)),
            Err(RecvTimeoutError::Disconnected) => {
                Some(self.process.wait().map_err(|error| format!("a worker can't be waited for: {error}"))?)
            }
            Err(RecvTimeoutError::Timeout) => {
                // Either of these fails only where the worker has just ended by itself.
                self.process.kill().ok();
                self.process.wait().ok();
                None
            }
        };
        Ok(Said::Nothing(End { status, patience }))
    }
}
