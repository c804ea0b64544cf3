//! A line on the terminal about work that takes long: what it is, and for how many seconds it has run. It shows after two
//! seconds, on standard error, if that is a terminal, and goes away when the work is done.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Seconds after which work counts as long.
const PATIENCE: u32 = 2;

/// Shows the line until it is dropped.
pub struct Progress {
    /// Dropped first: that ends the thread.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Nothing happens where nobody looks.
    pub fn show(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { done: None, thread: None };
        }
        let (done, ended) = mpsc::channel();
        let what = what.to_string();
        let work = move || {
            let mut seconds = 0;
            while ended.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                if seconds >= PATIENCE {
                    eprint!("{}", line(&what, seconds));
                }
            }
            if seconds >= PATIENCE {
                eprint!("{CLEAR}");
            }
            // A terminal that is gone needs no line.
            let _ = std::io::stderr().flush();
        };
        Progress { done: Some(done), thread: std::thread::Builder::new().spawn(work).ok() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        // The thread only prints; if it failed, there is nothing to clear.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// To the start of the line, and nothing behind.
const CLEAR: &str = "\r\u{1b}[K";

fn line(what: &str, seconds: u32) -> String {
    format!("{CLEAR}{what}, {}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_replace_each_other() {
        assert_eq!(line("compiling k.ptx", 75), "\r\u{1b}[Kcompiling k.ptx, 1:15");
    }

    /// Tests have no terminal: no thread is made.
    #[test]
    fn nothing_is_shown_where_nobody_looks() {
        let progress = Progress::show("work");
        assert!(std::io::stderr().is_terminal() || progress.thread.is_none());
    }
}
