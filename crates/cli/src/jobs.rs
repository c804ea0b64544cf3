//! How many threads compile: `--split-compile`, and what make allows (`--jobserver`).
//!
//! Without a word about it there is a thread for each processor; a module of one function never has more than one.
//! Below a `make -j`, processors belong to all its jobs: each thread but the first needs a token of make's job server,
//! one byte in a pipe, and puts it back at the end. Tokens that others have are not waited for.
//!
//! The crate `jobserver` is not used: it takes over make's own descriptors, for which its way in is `unsafe`, and is made for
//! programs that wait for tokens. Opening the pipe anew and one read that doesn't wait is all that is needed here.

use crate::entries;
use crate::log::Log;
use crate::options::{Given, Id};
use ptx::ast::Module;
use std::fs::File;
use std::io::{Read, Write};
#[cfg(target_os = "linux")]
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

/// Threads to compile with. What make has lent goes back to it when this is dropped.
pub struct Threads {
    /// `None`: as many as there are processors.
    pub count: Option<usize>,
    _tokens: Option<Tokens>,
}

impl Threads {
    pub fn ask(given: &Given, module: &Module, log: &mut Log) -> Threads {
        let wanted = match given.number(Id::SplitCompile) {
            None | Some(0) => None,
            Some(number) => usize::try_from(number).ok(),
        };
        let functions = entries::defined(module).iter().flatten().count();
        let flags = std::env::var("MAKEFLAGS").unwrap_or_default();
        let is_asked = given.has(Id::JobServer) && wanted != Some(1);
        if is_asked && given.has(Id::SplitCompile) && Server::find(&flags).is_none() {
            let support = "GNU Jobserver support requested, but no compatible jobserver found.";
            log.warning(&format!("{support} Ignoring '--jobserver'"));
        }
        let is_shared = is_asked || !given.has(Id::SplitCompile);
        if functions < 2 || !is_shared || !flags.contains(AUTHORITY) {
            return Threads { count: wanted, _tokens: None };
        }
        // The first thread is the job itself.
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let most = wanted.unwrap_or_else(processors).min(functions) - 1;
        let tokens = Server::find(&flags).and_then(|server| server.take(most).ok());
        Threads { count: Some(1 + tokens.as_ref().map_or(0, |tokens| tokens.bytes.len())), _tokens: tokens }
    }
}

/// How make names its job server; before version 4.2 the word was `fds`.
const AUTHORITY: &str = "--jobserver-";

/// A read that finds nothing returns at once.
#[cfg(target_os = "linux")]
const NON_BLOCKING: i32 = 0o4000;

/// Both ends of make's pipe, opened anew: the flags of make's own descriptors stay as they are.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "pipes are found by their names on Linux alone")
)]
struct Server {
    tokens: File,
    returns: File,
}

impl Server {
    /// The server that `MAKEFLAGS` names, if it can be reached: make closes its pipe for jobs that it takes for no
    /// make.
    #[cfg(target_os = "linux")]
    fn find(flags: &str) -> Option<Server> {
        let word = flags.split_whitespace().rev().find_map(|word| word.strip_prefix(AUTHORITY))?;
        let place = word.strip_prefix("auth=").or_else(|| word.strip_prefix("fds="))?;
        let (read, write) = match (place.strip_prefix("fifo:"), place.split_once(',')) {
            (Some(path), _) => (path.to_string(), path.to_string()),
            (None, Some((read, write))) => (descriptor(read)?, descriptor(write)?),
            (None, None) => return None,
        };
        let open = |options: &mut std::fs::OpenOptions, path: &str| {
            let is_pipe = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
            is_pipe.then(|| options.custom_flags(NON_BLOCKING).open(path).ok()).flatten()
        };
        Some(Server {
            tokens: open(File::options().read(true), &read)?,
            returns: open(File::options().write(true), &write)?,
        })
    }

    /// Elsewhere a pipe of make's can't be opened anew; there is one thread then.
    #[cfg(not(target_os = "linux"))]
    fn find(_: &str) -> Option<Server> {
        None
    }

    /// As many tokens as are free now, up to `most`.
    fn take(mut self, most: usize) -> std::io::Result<Tokens> {
        let mut bytes = vec![0; most];
        let count = match self.tokens.read(&mut bytes) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
            result => result.unwrap_or(0),
        };
        bytes.truncate(count);
        Ok(Tokens { bytes, returns: self.returns })
    }
}

/// The path of a descriptor of ours.
#[cfg(target_os = "linux")]
fn descriptor(number: &str) -> Option<String> {
    number.parse::<u32>().ok().map(|number| format!("/proc/self/fd/{number}"))
}

struct Tokens {
    bytes: Vec<u8>,
    returns: File,
}

impl Drop for Tokens {
    fn drop(&mut self) {
        // If make is gone, they are not missed.
        let _ = self.returns.write_all(&self.bytes);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_and_go_back() {
        let path = std::env::temp_dir().join(format!("sassafras-jobs-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let mut pipe = File::options().read(true).write(true).open(&path).expect("the pipe");
        pipe.write_all(b"abc").expect("room");
        let flags = format!(" -j4 --jobserver-auth=fifo:{}", path.display());
        let find = || Server::find(&flags).expect("a server");
        let two = find().take(2).expect("tokens");
        let rest = find().take(7).expect("tokens");
        let none = find().take(7).expect("no tokens");
        assert_eq!((&two.bytes[..], &rest.bytes[..], &none.bytes[..]), (&b"ab"[..], &b"c"[..], &b""[..]));
        drop((two, rest, none));
        assert_eq!(find().take(7).expect("tokens").bytes.len(), 3);
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn no_server() {
        for flags in ["", "-j --jobserver-auth=fifo:/", "--jobserver-auth=98,99", "--jobserver-auth=x"] {
            assert!(Server::find(flags).is_none(), "{flags}");
        }
    }
}
