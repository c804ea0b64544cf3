//! `sassafras disasm` and `sassafras asm`, as processes: what they print is all that counts.
//!
//! - A listing of a cubin that ptxas made goes back to the same cubin, byte for byte.
//! - Damaged cubins, truncated files and random bytes are listed or refused with a message: no panic, no hang. A
//!   listing of a damaged image still goes back to the same bytes.
//!
//! `SASSAFRAS_CORPUS` names a folder of PTX for the first (default: some of this repository's);
//! `SASSAFRAS_FUZZ_SECONDS` and `SASSAFRAS_FUZZ_SEED` make the second a campaign in place of a fixed number of files.

use random::Random;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

const TARGETS: [&str; 9] =
    ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];

/// Files of the damage test, without a time of its own.
const FILES: usize = 300;

/// A damaged file is at most some hundred KB; listing it takes milliseconds.
const MOST_TIME: Duration = Duration::from_secs(5);

/// The exit code of an error; a panic would be 101.
const FAILED: i32 = 255;

fn ptxas() -> PathBuf {
    let folder = match env::var_os("SASSAFRAS_TOOLS") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
            let pythons = fs::read_dir(lib).ok().into_iter().flatten().flatten();
            let bins = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/bin"));
            bins.filter(|bin| bin.is_dir()).max()
        }
    };
    let path = folder.map(|folder| folder.join("ptxas")).filter(|path| path.is_file());
    path.expect("reference tools are missing: run `cargo xtask setup`")
}

fn sassafras(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sassafras"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    sassafras(arguments).output().expect("sassafras starts")
}

/// A folder of its own that goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let folder = env::temp_dir().join(format!("sassafras-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        Scratch(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over temporary files are no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All PTX files below a folder, sorted.
fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(ptx_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The cubin that ptxas makes of a file for a target, where it accepts the file. Few files name an old target, so the
/// `.target` line is changed: most code compiles for another one.
fn compile(file: &Path, target: &str, scratch: &Scratch) -> Option<Vec<u8>> {
    let (ptx, cubin) = (scratch.path("changed.ptx"), scratch.path("ptxas.cubin"));
    let text = fs::read_to_string(file).expect("a PTX file");
    let line = |line: &str| match line.starts_with(".target") {
        true => format!(".target {target}\n"),
        false => format!("{line}\n"),
    };
    fs::write(&ptx, text.lines().map(line).collect::<String>()).expect("a temporary file");
    let output = Command::new(ptxas()).args(["-arch", target, "-o", &cubin, &ptx]).output();
    let accepted = output.expect("ptxas starts").status.success();
    accepted.then(|| fs::read(&cubin).expect("ptxas wrote its cubin"))
}

#[test]
fn listings_go_back_to_the_same_cubin() {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/tests/corpus");
    // The whole of a named corpus, every sixth file of the repository's.
    let (folder, step) =
        env::var_os("SASSAFRAS_CORPUS").map_or((small, 6), |folder| (PathBuf::from(folder), 1));
    let files: Vec<PathBuf> = ptx_files(&folder).into_iter().step_by(step).collect();
    let scratch = Scratch::new("round-trip");
    let (cubin, listing, back) = (scratch.path("cubin"), scratch.path("listing"), scratch.path("back"));
    for target in TARGETS {
        let mut checked = 0;
        for file in &files {
            let Some(bytes) = compile(file, target, &scratch) else { continue };
            fs::write(&cubin, &bytes).unwrap();
            let printed = run(&["disasm", &cubin]);
            assert!(printed.status.success(), "{} for {target}: {printed:?}", file.display());
            fs::write(&listing, &printed.stdout).unwrap();
            let assembled = run(&["asm", &listing, "--into", &cubin, "-o", &back]);
            assert!(assembled.status.success(), "{} for {target}: {assembled:?}", file.display());
            assert!(fs::read(&back).unwrap() == bytes, "{} for {target} comes back changed", file.display());
            checked += 1;
        }
        println!("{target}: {checked} of {} files", files.len());
        assert!(checked > 0, "ptxas accepts no file for {target}");
    }
}

/// Cubins of several targets, and images of the instructions that `sass` is tested with.
fn seeds(scratch: &Scratch) -> Vec<Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Vec::new();
    for target in ["sm_75", "sm_89", "sm_90a", "sm_100a", "sm_120a"] {
        let files = ptx_files(&crates.join("cubin/tests/ptx"));
        seeds.extend(files.iter().filter_map(|file| compile(file, target, scratch)));
    }
    assert!(seeds.len() > 10, "ptxas made only {} cubins", seeds.len());
    for entry in fs::read_dir(crates.join("sass/tests/words")).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        let word = |line: &str| u128::from_str_radix(line.split(' ').next()?, 16).ok().map(u128::to_le_bytes);
        seeds.push(text.lines().filter_map(word).flatten().collect());
    }
    seeds.sort(); // a folder has no order of its own
    seeds
}

/// Values that fields of a header take badly.
const EXTREMES: [u64; 9] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX >> 1, u64::MAX];

/// A file damaged in a few places, or no file at all.
fn damaged(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if random.below(20) == 0 {
        return (0..random.below(4096)).map(|_| random.next() as u8).collect();
    }
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(64)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
            2 | 3 => {
                // The file header comes first, the section headers are near the end: fields are aligned.
                let near = [0, bytes.len().saturating_sub(2048)][random.below(2)] + random.below(256) * 4;
                let value = EXTREMES[random.below(EXTREMES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)];
                bytes.iter_mut().skip(near).zip(&value[..width]).for_each(|(byte, new)| *byte = *new);
            }
            4 => drop(bytes.drain(at..end)),
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            6 if random.below(4) == 0 => bytes.truncate(at),
            7 if random.below(4) == 0 => bytes.truncate(random.below(200)),
            _ => {}
        }
    }
    bytes
}

/// Runs `disasm` on a file; `Err` with what is wrong with the way that it ended. Was the file listed?
fn listed(arguments: &[&str], output: &str) -> Result<bool, String> {
    let errors = format!("{output}.errors");
    let start = Instant::now();
    let mut process = sassafras(arguments)
        .stdout(fs::File::create(output).expect("a temporary file"))
        .stderr(fs::File::create(&errors).expect("a temporary file"))
        .stdin(Stdio::null())
        .spawn()
        .expect("sassafras starts");
    let status = loop {
        if let Some(status) = process.try_wait().expect("a status") {
            break status;
        }
        if start.elapsed() > MOST_TIME {
            process.kill().expect("it can be stopped");
            process.wait().expect("it ends");
            return Err(format!("runs for more than {MOST_TIME:?}"));
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    let message = fs::read_to_string(&errors).unwrap_or_default();
    match status.code() {
        Some(0) if message.is_empty() => Ok(true),
        Some(FAILED) if message.starts_with("sassafras: ") && message.len() < 2000 => Ok(false),
        code => Err(format!("ends with {code:?} and says {message:?}")),
    }
}

/// One damaged file: as a cubin in one of the styles, or as an image, which must come back from its listing.
fn round(file: &str, bytes: &[u8], random: &mut Random, scratch: &Scratch) -> Result<bool, String> {
    fs::write(file, bytes).expect("a temporary file");
    let (listing, back) = (scratch.path("listing"), scratch.path("back"));
    if random.below(3) > 0 {
        let style = [None, Some("--life"), Some("--json"), Some("--like-nvdisasm")][random.below(4)];
        let arguments: Vec<&str> = ["disasm", file].into_iter().chain(style).collect();
        return listed(&arguments, &listing);
    }
    let machine = TARGETS[random.below(TARGETS.len())];
    if !listed(&["disasm", file, "--raw", machine], &listing)? {
        return if bytes.len().is_multiple_of(16) { Err("an image is refused".into()) } else { Ok(false) };
    }
    let assembled = run(&["asm", &listing, "-o", &back]);
    if !assembled.status.success() {
        return Err(format!("its listing does not assemble: {}", String::from_utf8_lossy(&assembled.stderr)));
    }
    if fs::read(&back).ok().as_deref() != Some(bytes) {
        return Err(format!("its listing for {machine} goes back to other bytes"));
    }
    Ok(true)
}

#[test]
fn damaged_files_are_listed_or_refused() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let time = number("SASSAFRAS_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = number("SASSAFRAS_FUZZ_SEED").unwrap_or(1);
    let scratch = Scratch::new("damage");
    let seeds = seeds(&scratch);
    let file = scratch.path("damaged");
    let mut random = Random::new(seed);
    let start = Instant::now();
    let (mut files, mut accepted) = (0, 0);
    while time.map_or(files < FILES, |time| start.elapsed() < time) {
        let bytes = damaged(&seeds, &mut random);
        files += 1;
        match round(&file, &bytes, &mut random, &scratch) {
            Ok(fine) => accepted += usize::from(fine),
            Err(what) => {
                let kept = env::temp_dir().join("sassafras-disasm-failure");
                fs::write(&kept, &bytes).expect("a file for the failure");
                panic!("file {files} of seed {seed}: {what}; it is {}", kept.display());
            }
        }
    }
    println!("{files} files, {accepted} listed, {} refused", files - accepted);
    assert!(accepted > files / 10 && accepted < files, "{accepted} of {files} files were listed");
}
