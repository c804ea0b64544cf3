//! A process that does the dangerous work, and says line by line how it goes.
//!
//! A kernel can hang, damage its process or lose the GPU for it. Who starts it in a process of its own learns of all
//! that, and can start another one. A process never outlives its [`Process`].

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

pub enum Said {
    Line(String),
    Nothing(End),
}

/// How a process ended; it was stopped where there is no status.
pub struct End {
    pub status: Option<ExitStatus>,
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

pub struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// This program, with other arguments.
    pub fn start(arguments: impl FnOnce(&mut Command)) -> Result<Process, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        arguments(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("no worker: {error}"))?;
        let output = child.stdout.take().ok_or("a worker without output")?;
        let input = child.stdin.take().ok_or("a worker without input")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Process { child, input, lines })
    }

    /// Tells the process something. One that has ended shows that when it is listened to.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").ok();
    }

    /// The next line, or how the process ended. One that is silent for longer than this is stopped.
    pub fn listen(&mut self, patience: Duration) -> Result<Said, String> {
        let status = match self.lines.recv_timeout(patience) {
            Ok(line) => return Ok(Said::Line(line)),
            Err(RecvTimeoutError::Disconnected) => {
                Some(self.child.wait().map_err(|error| format!("a worker can't be waited for: {error}"))?)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.stop();
                None
            }
        };
        Ok(Said::Nothing(End { status, patience }))
    }

    /// Either step fails only where the process has ended by itself.
    fn stop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}
