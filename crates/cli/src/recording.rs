//! A launch of a whole program, as `tests/bench/record/recorder.c` writes it down: the kernel, its sizes and parameters,
//! and the memory that it can reach at the addresses that it had, so that pointers in it hold.
//!
//! ```text
//! kernel NAME
//! grid X Y Z
//! block X Y Z
//! cluster X Y Z                  if the launch asks for one
//! shared BYTES
//! parameters HEX
//! variable NAME FILE             what the host wrote to a variable of the module
//! memory ADDRESS BYTES FILE      ADDRESS in hexadecimal
//! ```
//!
//! A FILE is beside the recording and holds pieces: offset, length (8 bytes each), bytes. What no piece has is zero; `-`
//! is a file without pieces.

use sim::ptx::Launch;
use sim::sass::{Machine, Program};
use std::path::{Path, PathBuf};

/// The most memory that is taken into the simulator.
const MOST_MEMORY: u64 = 16 << 30;
/// Changes are written in pieces of this size.
const PIECE: usize = 4096;

/// A launch, with its memory still in files.
#[derive(Debug, Default)]
pub struct Recording {
    folder: PathBuf,
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    shared: u32,
    parameters: Vec<u8>,
    variables: Vec<(String, String)>,
    memory: Vec<(u64, u64, String)>,
}

impl Recording {
    pub fn read(path: &str) -> Result<Recording, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_path_buf();
        let mut recording = Recording { folder, ..Recording::default() };
        for (line, number) in text.lines().zip(1..) {
            let error = || format!("{path}: line {number}: a recording has no such line");
            recording.take(line).ok_or_else(error)?;
        }
        if recording.kernel.is_empty() || recording.grid.contains(&0) || recording.block.contains(&0) {
            return Err(format!("{path} is no recording of a launch"));
        }
        if recording.bytes() > MOST_MEMORY {
            return Err(format!("{path}: {} bytes of memory are too many to simulate", recording.bytes()));
        }
        Ok(recording)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        match (word, &words[..]) {
            ("kernel", [name]) => self.kernel = name.to_string(),
            ("grid", sizes) => self.grid = axes(sizes)?,
            ("block", sizes) => self.block = axes(sizes)?,
            ("cluster", sizes) => self.cluster = Some(axes(sizes)?),
            ("shared", [bytes]) => self.shared = bytes.parse().ok()?,
            ("parameters", [text]) => self.parameters = hexadecimal(text)?,
            ("variable", [name, file]) => self.variables.push((name.to_string(), is_beside(file)?)),
            ("memory", [address, bytes, file]) => {
                let address = u64::from_str_radix(address, 16).ok()?;
                self.memory.push((address, bytes.parse().ok()?, is_beside(file)?));
            }
            _ => return None,
        }
        Some(())
    }

    /// Bytes of global memory that the launch can reach.
    pub fn bytes(&self) -> u64 {
        self.memory.iter().fold(0, |sum, (_, bytes, _)| sum.saturating_add(*bytes))
    }

    pub fn launch(&self) -> Launch<'_> {
        let launch = Launch::new(&self.kernel, self.grid, self.block, &self.parameters);
        Launch { shared: self.shared, cluster: self.cluster, ..launch }
    }

    /// Gives variables of the module the values that the host gave them. Those that the code does not have, as nothing
    /// uses them, are left out.
    pub fn write_variables(&self, program: &mut Program) -> Result<(), String> {
        for (name, file) in &self.variables {
            for (offset, bytes) in self.pieces(file)? {
                program.write_variable(name, offset, &bytes);
            }
        }
        Ok(())
    }

    /// A machine with the memory of the launch.
    pub fn machine<'p>(&self, program: &'p Program) -> Result<Machine<'p>, String> {
        let mut machine = Machine::new(program);
        for (address, bytes, file) in &self.memory {
            let mut memory = vec![0; usize::try_from(*bytes).unwrap_or(usize::MAX)];
            for (offset, piece) in self.pieces(file)? {
                let place =
                    usize::try_from(offset).ok().and_then(|at| memory.get_mut(at..)?.get_mut(..piece.len()));
                place
                    .ok_or_else(|| format!("{file}: a piece is outside its memory"))?
                    .copy_from_slice(&piece);
            }
            machine
                .place(*address, memory)
                .ok_or_else(|| format!("memory at {address:#x} can't be placed"))?;
        }
        Ok(machine)
    }

    /// Runs all of the launch, and writes what it changed in memory: pieces with addresses in place of offsets.
    pub fn execute(&self, mut program: Program, changes: &str) -> Result<(), String> {
        self.write_variables(&mut program)?;
        let (before, mut machine) = (self.machine(&program)?, self.machine(&program)?);
        // Whether the schedule is right is the verifier's question.
        let launch = Launch { check_schedule: false, check_registers: false, ..self.launch() };
        machine.run(&launch).map_err(|fault| format!("{}: {fault}", self.kernel))?;
        let pieces = self.changes(before, machine);
        std::fs::write(changes, pieces).map_err(|error| format!("{changes}: {error}"))
    }

    fn changes(&self, mut before: Machine, mut after: Machine) -> Vec<u8> {
        let mut out = Vec::new();
        for (address, bytes, _) in &self.memory {
            let length = *bytes as usize;
            let pair = before.read(*address, length).zip(after.read(*address, length));
            let Some((old, new)) = pair else { continue };
            for (index, (old, new)) in old.chunks(PIECE).zip(new.chunks(PIECE)).enumerate() {
                if old != new {
                    out.extend((address + (index * PIECE) as u64).to_le_bytes());
                    out.extend((new.len() as u64).to_le_bytes());
                    out.extend(new);
                }
            }
        }
        out
    }

    fn pieces(&self, file: &str) -> Result<Vec<(u64, Vec<u8>)>, String> {
        if file == "-" {
            return Ok(Vec::new());
        }
        let path = self.folder.join(file);
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        while let Some((head, after)) = rest.split_at_checked(16).filter(|_| !rest.is_empty()) {
            let [offset, length] = [0, 8].map(|at| word(head, at));
            let length = usize::try_from(length).ok().filter(|length| *length <= after.len());
            let length = length.ok_or_else(|| format!("{} ends within a piece", path.display()))?;
            pieces.push((offset, after[..length].to_vec()));
            rest = &after[length..];
        }
        Ok(pieces)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn axes(words: &[&str]) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// The name of a file in the recording's folder: none that leads elsewhere.
fn is_beside(file: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    file.chars().all(is_name).then(|| file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, text: &str) -> String {
        let folder = std::env::temp_dir().join(format!("sassafras-recording-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }

    #[test]
    fn launches_are_read() {
        let text =
            "kernel k\ngrid 2 1 1\nblock 64 2 1\nshared 16\nparameters 00ff\nmemory 2f3b00000000 4096 -\n";
        let recording = Recording::read(&written("good", text)).unwrap();
        let launch = recording.launch();
        assert_eq!((launch.kernel, launch.grid, launch.block), ("k", [2, 1, 1], [64, 2, 1]));
        assert_eq!((launch.shared, launch.parameters, recording.bytes()), (16, &[0, 255][..], 4096));
    }

    #[test]
    fn other_lines_are_refused() {
        let good = "kernel k\ngrid 1 1 1\nblock 1 1 1\n";
        let files = ["../x", "/etc/passwd", "a/b", "a.b"].map(|file| format!("{good}memory 10 1 {file}\n"));
        let wrong =
            ["kernel\n", "grid 1 1\n", "block 1 1 x\n", "parameters 0\n", "memory g 1 -\n", "more 1\n"];
        let wrong = wrong.map(|line| format!("{good}{line}"));
        let incomplete = ["", "kernel k\n", "kernel k\ngrid 1 1 1\nblock 0 1 1\n"].map(String::from);
        let large = [format!("{good}memory 10 99999999999999 -\n")];
        for text in files.iter().chain(&wrong).chain(&incomplete).chain(&large) {
            assert!(Recording::read(&written("wrong", text)).is_err(), "{text}");
        }
    }

    #[test]
    fn pieces_end_where_the_file_does() {
        let text = "kernel k\ngrid 1 1 1\nblock 1 1 1\n";
        let recording = Recording::read(&written("pieces", text)).unwrap();
        let piece = |offset: u64, length: u64| [offset.to_le_bytes(), length.to_le_bytes()].concat();
        let file = |name: &str, bytes: &[u8]| std::fs::write(recording.folder.join(name), bytes).unwrap();
        file("two", &[piece(8, 2), vec![1, 2], piece(64, 1), vec![3]].concat());
        file("cut", &[piece(8, 3), vec![1, 2]].concat());
        assert_eq!(recording.pieces("two").unwrap(), [(8, vec![1, 2]), (64, vec![3])]);
        assert!(recording.pieces("cut").is_err());
        assert!(recording.pieces("none").is_err());
        assert_eq!(recording.pieces("-").unwrap(), []);
    }
}
