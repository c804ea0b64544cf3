//! Run lines: a kernel's launches, inputs and expected results, in the comments of its PTX file.
//!
//! `parse` turns a file into `Run`s. A run is plain data: the launch, the bytes of every buffer before it and
//! the bytes that must be there after it. Whoever executes kernels (a GPU, an interpreter, a simulator)
//! places the buffers, hands `Run::parameters` to the kernel and asks `Run::check` about what came back. README.md
//! describes the language.
//!
//! The same text gives the same bytes everywhere. No text makes this module panic or run without end.

mod eval;
mod expression;
mod parse;
mod token;
mod types;

pub use types::{Type, splitmix64};

/// One launch of a kernel with all that goes in and all that must come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The line of the PTX file, from 1.
    pub line: usize,
    pub kernel: String,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// In the order of the kernel's parameters.
    pub args: Vec<Arg>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub name: String,
    /// Of the scalar, or of the buffer's elements; of a map it says nothing.
    pub ty: Type,
    pub contents: Contents,
    /// The kernel has a parameter for it; otherwise it is memory that others refer to.
    pub passed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Passed by value; the bits as in `Type::load`.
    Scalar(u64),
    /// Passed as a 64-bit address. `after` is as long as `before`; without it the buffer must stay as it was.
    Buffer { before: Vec<u8>, after: Option<Vec<u8>> },
    /// Passed by value, as a tensor map of 128 bytes.
    Map(Tensor),
    /// Passed as the handle of a texture or surface.
    Image(Image),
    /// The number of a buffer, passed as the address by which `multimem` reaches it.
    Multicast(usize),
}

/// What a run line describes and only its runner can make.
#[derive(Clone, Copy, Debug)]
pub enum Object<'r> {
    /// A tensor map of [`MAP_BYTES`].
    Map(&'r Tensor),
    /// A handle of 8 bytes.
    Image(&'r Image),
    /// An address of 8 bytes.
    Multicast,
}

/// Texels, and how they are sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// The argument that has its texels, side by side, row by row.
    pub buffer: usize,
    /// What a channel is, as PTX calls it, and how many a texel has.
    pub channel: &'static str,
    pub channels: u32,
    /// Width, height, depth; the last is the number of layers if it is layered, of faces if it is a cube.
    pub sizes: Vec<u32>,
    pub layered: bool,
    pub cube: bool,
    /// Each half as large as the one before; they follow each other in the buffer.
    pub levels: u32,
    /// What is beyond the edges: `wrap`, `clamp`, `mirror` or `border`, which is black.
    pub beyond: &'static str,
    /// Coordinates go from 0 to 1.
    pub normalised: bool,
    /// Texels around a place are mixed.
    pub linear: bool,
    /// So are the levels around one that is asked for.
    pub linear_levels: bool,
    /// Channels of 8 and 16 bits are integers, not fractions.
    pub integers: bool,
}

/// What a tensor map describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The argument that has its elements.
    pub buffer: usize,
    /// Their type, as PTX calls it.
    pub element: &'static str,
    /// Elements along each axis, the fastest first.
    pub sizes: Vec<u32>,
    /// Bytes from one to the next along each axis but the first.
    pub strides: Vec<u64>,
    /// What a copy takes, and every how many elements.
    pub boxes: Vec<u32>,
    pub steps: Vec<u32>,
    /// Bytes of a row that are mixed in shared memory: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// Bytes of the channels that are side by side, if not all of them are: 0, 16 or 32.
    pub interleave: u32,
    /// What is outside is a NaN, not zero.
    pub fills_nan: bool,
}

/// Bytes of a tensor map, and what it is aligned to.
pub const MAP_BYTES: usize = 128;
const MAP_ALIGNMENT: usize = 64;
const HANDLE_ALIGNMENT: usize = 8;

/// A run line that can't be read, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// A buffer that does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub buffer: String,
    /// The first wrong element.
    pub index: usize,
    pub got: String,
    pub want: String,
    /// How many elements are wrong, out of how many.
    pub wrong: usize,
    pub total: usize,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { buffer, index, got, want, wrong, total } = self;
        write!(f, "{buffer}[{index}] is {got}, expected {want}; {wrong} of {total} elements are wrong")
    }
}

impl std::error::Error for Mismatch {}

/// The runs of a PTX file, in order.
pub fn parse(ptx: &str) -> Result<Vec<Run>, ParseError> {
    let mut runs: Vec<Run> = Vec::new();
    // The runs that the next expectation is about, and the line of the first of them while it has none.
    let mut group = 0;
    let mut unchecked = None;
    for Directive { line, word, text } in directives(ptx) {
        let fail = |message| ParseError { line, message };
        match word {
            Word::Run => {
                if unchecked.is_none() {
                    group = runs.len();
                    unchecked = Some(line);
                }
                runs.push(parse::run(line, &text).map_err(fail)?);
            }
            Word::Expect if group == runs.len() => return Err(fail("no run line before this one".into())),
            Word::Expect => {
                for run in runs.iter_mut().skip(group) {
                    let about = run.line;
                    let said = |message| fail(format!("{message} (for the run of line {about})"));
                    parse::expect(run, &text).map_err(said)?;
                }
                unchecked = None;
            }
        }
    }
    match unchecked {
        None => Ok(runs),
        Some(line) => Err(ParseError { line, message: "nothing is expected of this run".into() }),
    }
}

/// One run of which nothing is expected: the text of a run line after its first word.
pub fn launch(text: &str) -> Result<Run, ParseError> {
    parse::run(1, text).map_err(|message| ParseError { line: 1, message })
}

struct Directive {
    line: usize,
    word: Word,
    text: String,
}

enum Word {
    Run,
    Expect,
}

/// The comments that start with `run` or `expect`, joined with the lines that they go on to.
fn directives(ptx: &str) -> impl Iterator<Item = Directive> {
    let mut lines = ptx.lines().zip(1..);
    std::iter::from_fn(move || {
        loop {
            let (source, line) = lines.next()?;
            let Some((word, first)) = comment(source).and_then(directive_word) else { continue };
            let mut text = first.to_string();
            while let Some(start) = text.strip_suffix('\\') {
                let next = lines.next().and_then(|(source, _)| comment(source)).unwrap_or("");
                text = format!("{start} {next}");
            }
            return Some(Directive { line, word, text });
        }
    })
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    line.trim().strip_prefix("//").map(str::trim)
}

fn directive_word(text: &str) -> Option<(Word, &str)> {
    let (word, rest) = text.split_once(char::is_whitespace)?;
    match word {
        "run" => Some((Word::Run, rest)),
        "expect" => Some((Word::Expect, rest)),
        _ => None,
    }
}

impl Run {
    /// The initial contents of the buffers, in the order of the arguments.
    pub fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        self.args.iter().filter_map(|arg| match &arg.contents {
            Contents::Buffer { before, .. } => Some(before.as_slice()),
            _ => None,
        })
    }

    /// The kernel's parameters as they are in memory, each aligned to its size. `addresses` says where the
    /// buffers are, in the order of `buffers`; `make` gives the bytes of a tensor map or of a handle for what is
    /// at an address.
    pub fn parameters<E>(
        &self,
        addresses: &[u64],
        mut make: impl FnMut(Object, u64) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let mut rest = addresses.iter();
        let placed = self.args.iter().map(|arg| match arg.contents {
            Contents::Buffer { .. } => rest.next().copied().unwrap_or(0),
            _ => 0,
        });
        let placed: Vec<u64> = placed.collect();
        let mut out: Vec<u8> = Vec::new();
        for (arg, address) in self.args.iter().zip(&placed).filter(|(arg, _)| arg.passed) {
            let (alignment, bytes) = match &arg.contents {
                Contents::Scalar(value) => (arg.ty.size(), value.to_le_bytes()[..arg.ty.size()].to_vec()),
                Contents::Buffer { .. } => (8, address.to_le_bytes().to_vec()),
                Contents::Map(tensor) => {
                    let address = placed.get(tensor.buffer).copied().unwrap_or(0);
                    (MAP_ALIGNMENT, make(Object::Map(tensor), address)?)
                }
                Contents::Image(image) => {
                    let address = placed.get(image.buffer).copied().unwrap_or(0);
                    (HANDLE_ALIGNMENT, make(Object::Image(image), address)?)
                }
                Contents::Multicast(buffer) => {
                    let address = placed.get(*buffer).copied().unwrap_or(0);
                    (HANDLE_ALIGNMENT, make(Object::Multicast, address)?)
                }
            };
            out.resize(out.len().next_multiple_of(alignment), 0);
            out.extend(bytes);
        }
        Ok(out)
    }

    /// Compares what the buffers hold after the run with what they should hold. `results` are in the order of
    /// `buffers`; one that is missing or too short is wrong.
    pub fn check(&self, results: &[Vec<u8>]) -> Result<(), Mismatch> {
        let mut results = results.iter();
        for arg in &self.args {
            if let Contents::Buffer { before, after } = &arg.contents {
                let result = results.next().map_or(&[][..], |result| result);
                arg.compare(result, after.as_ref().unwrap_or(before))?;
            }
        }
        Ok(())
    }
}

impl Arg {
    fn compare(&self, got: &[u8], want: &[u8]) -> Result<(), Mismatch> {
        let size = self.ty.size();
        let total = want.len() / size;
        let mut got = got.chunks_exact(size).map(|element| self.ty.load(element));
        let mut first = None;
        let mut wrong = 0;
        for (index, want) in want.chunks_exact(size).map(|element| self.ty.load(element)).enumerate() {
            let got = got.next();
            if !got.is_some_and(|got| self.ty.agrees(got, want)) {
                first = first.or(Some((index, got, want)));
                wrong += 1;
            }
        }
        let Some((index, got, want)) = first else { return Ok(()) };
        let got = got.map_or("missing".into(), |got| self.ty.show(got));
        let (buffer, want) = (self.name.clone(), self.ty.show(want));
        Err(Mismatch { buffer, index, got, want, wrong, total })
    }
}

#[cfg(test)]
mod tests;
