//! What ends a compilation early: limits and cancellation. Both are asked between passes, so that a compilation ends
//! within the time of one pass over one function.

use crate::context::Options;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time since some start. It never goes back.
pub type Clock = fn() -> Duration;

/// The clock of the system; `None` where there is none (`wasm32-unknown-unknown`).
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub fn system_clock() -> Option<Clock> {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    Some(|| START.get_or_init(Instant::now).elapsed())
}

/// The clock of the system; `None` where there is none (`wasm32-unknown-unknown`).
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub fn system_clock() -> Option<Clock> {
    None
}

/// How much a compilation may take. [`Options::fuel`] limits rewrites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Time by [`Options::clock`], the front end's included.
    pub time: Option<Duration>,
    /// Bytes of memory, counted by sizes: those of the text and of the function that is compiled. The count is the same
    /// on every machine and near the most that one thread takes; each further thread has a function of its own.
    pub memory: Option<u64>,
}

/// Memory that a byte of PTX takes, with all that is made of it but the function in the works, and an instruction of that
/// one: peak memory of `sassafras --split-compile=1` beyond its 7 MB at the start was 44 bytes for each byte of 1.7 MB of
/// nvcc's PTX (98 functions), and 730 bytes for each of 12,400 values of one function (HeCBench's aobench).
const BYTES_OF_TEXT: u64 = 45;
const BYTES_OF_INSTRUCTION: u64 = 750;

/// What a compilation that has begun may still take: memory for a function, and the time when it ends, by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    memory: Option<u64>,
    end: Option<Duration>,
}

/// Cancels a compilation, from another thread or by a question that it asks again and again.
///
/// ```
/// let cancel = sassafras::Cancel::default();
/// let mut options = sassafras::Options::for_arch("sm_90")?;
/// options.cancel = Some(cancel.clone());
/// cancel.cancel(); // any thread, any time
/// let error = sassafras::compile(".version 8.0 .target sm_75 .entry k() { ret; }", &options).unwrap_err();
/// assert_eq!(error, sassafras::Error::Stopped(sassafras::Stop::Cancelled));
/// # Ok::<(), sassafras::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    question: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Cancel {
    /// Cancels as soon as `question` says `true`. All threads that compile ask it.
    pub fn when(question: impl Fn() -> bool + Send + Sync + 'static) -> Cancel {
        Cancel { flag: Arc::default(), question: Some(Arc::new(question)) }
    }

    /// Cancels.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Is it cancelled?
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.question.as_ref().is_some_and(|question| question())
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Cancel").field("flag", &self.flag).finish_non_exhaustive()
    }
}

/// Why a compilation ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// [`Options::cancel`] says so.
    Cancelled,
    /// [`Limits::time`] is over.
    Time,
    /// [`Limits::memory`] is too little.
    Memory,
    /// There is a limit of time, and no [`Options::clock`].
    NoClock,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Stop::Cancelled => "Compilation cancelled",
            Stop::Time => "Compilation takes more than its time limit",
            Stop::Memory => "Compilation takes more than its memory limit",
            Stop::NoClock => "A time limit needs a clock",
        })
    }
}

impl Options {
    /// The time now; zero without a clock.
    pub(crate) fn now(&self) -> Duration {
        self.clock.map_or(Duration::ZERO, |clock| clock())
    }

    /// The options of a compilation that begins now, with a text of so many bytes; one that has begun keeps its budget.
    pub(crate) fn started(&self, text_bytes: usize) -> Result<Options, Stop> {
        let text = text_bytes as u64 * BYTES_OF_TEXT;
        let memory =
            self.limits.memory.map(|limit| limit.checked_sub(text).ok_or(Stop::Memory)).transpose()?;
        let end = self.limits.time.map(|time| self.now() + time);
        let budget = self.budget.unwrap_or(Budget { memory, end });
        let options = Options { budget: Some(budget), ..self.clone() };
        options.go_on(0).map(|()| options)
    }

    /// May the compilation go on, with so many instructions in the function?
    pub(crate) fn go_on(&self, instructions: usize) -> Result<(), Stop> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Stop::Cancelled);
        }
        let Some(Budget { memory, end }) = self.budget else { return Ok(()) };
        if memory.is_some_and(|limit| instructions as u64 * BYTES_OF_INSTRUCTION > limit) {
            return Err(Stop::Memory);
        }
        match (end, self.clock) {
            (Some(_), None) => Err(Stop::NoClock),
            (Some(end), Some(clock)) if clock() >= end => Err(Stop::Time),
            _ => Ok(()),
        }
    }
}
