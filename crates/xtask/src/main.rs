//! Development tasks, called as `cargo xtask <task>`.
//!
//! A task ends with exit code 0 only when everything that it was asked to do was done and every bar was met.
//! Nothing is skipped silently: what cannot be measured is an error that says what to do.

use std::process::ExitCode;

mod allocated;
/// The command's: a campaign of programs takes a fifth less time with it.
#[path = "../../cli/src/allocator.rs"]
mod allocator;
mod bench;
mod bundle;
mod compile;
mod conformance;
mod cuda_bundle;
mod dependencies;
mod frontend;
mod fuzz;
mod imports;
mod ops;
mod playground;
mod pressure;
mod probe;
mod probe_latency;
mod readme;
mod reference;
mod release;
mod setup;
mod shell;
mod test;
mod tools;
mod tuned;
mod wheel;

#[global_allocator]
static ALLOCATOR: allocated::Counting = allocated::Counting;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

const USAGE: &str = "\
cargo xtask <task>

  setup                          install the pinned reference tools under target/ref
  test                           format, lints, documentation, dependencies, all tests, the short conformance parts
  lint                           import cycles between the modules of each crate
  dependencies                   licences, sources, versions and use of dependencies, by deny.toml
  conformance [PART] [OPTIONS]   compare with the reference tools; without PART, all parts
      forms                      every PTX instruction form on every target: verdict and error text
      compile-forms              every accepted form compiles at -O0 and -O3, and nvdisasm reads the code
      corpus                     real PTX parses, prints back to the same tree and the same cubin
      mistakes                   bad inputs: the same messages as ptxas
      commands                   command lines: the same exit code, messages and outputs as ptxas
      reproducible               the same code whatever the threads, path, date and kernel's name
      simulator                  ptxas's code in the simulator leaves the memory that the interpreter leaves
      kernels                    attention, products and their kin: interpreter, ptxas's code and ours leave the same
      matrix                     what matrix instructions compute on eight targets: interpreter, ptxas's code and ours
      tensor-text                tensor and asynchronous instructions become the same operations as with ptxas
      verify                     the schedule verifier has nothing to report, on ptxas's code and on ours
      mutants                    the schedule verifier finds each of 10,000 planted errors
      modifiers                  `neg`, `abs` and `not` in front of every operand: the interpreter's memory at all levels
      ordering-mutants           the simulator's weak mode finds each planted loss of memory ordering
      pages                      the page of `sassafras explain` in Chromium: links, plots, timeline, keys, search
      playground                 the playground in Chromium: compile, run, share; its size and its speed
      binutils                   nvdisasm, cuobjdump, fatbinary and nvlink against NVIDIA's
      world DIR...               PTX of other people: verdicts and messages as ptxas's, verify and nvdisasm have no complaint
      --corpus DIR               folder with corpus/ and data/ (default: the small ones of the repository)
      --show N                   list the first N differences of each kind (default 20)
      --family NAME              forms, compile-forms, tensor-text, matrix: this family only
      --ptxas-same N             corpus: ptxas makes the same cubin from our printed text, for N files
      --record                   commands: write down ptxas's answers anew
      --bundle DIR               pages, playground: pictures of the pages go there; modifiers: the modules and cubins for a machine with a GPU, in place of a run here
      --ours-only                modifiers --bundle: without ptxas's cubins
      --gpu                      modifiers: on this machine's GPU, in place of the simulator
      --target SM                modifiers: for another target than sm_90a; world: for these in place of each file's own
      --program FILE             world: this compiler in place of the one that `cargo dist` builds
  bench frontend [MB...]         CPU time and memory of parse and check against ptxas (default 5 50 200)
  bench compile [DIR...]         CPU time of real kernels, PTX to cubin, against `ptxas -O3` (bar: 3)
  bench instructions BEFORE AFTER [DIR...]
                                 instructions that two builds of the compiler execute, by valgrind (bar: 1.02)
  bench startup                  CPU time of one small kernel, PTX to cubin, against ptxas
  bench simulator                lane instructions a second (bar: 20 million)
  bench code [DIR...]            what our code is made of, against that of `ptxas -O3`: instructions, in all and in
                                 innermost loops, dead ones, moves, BSSY and BSYNC, guarded accesses, registers, bytes, ...
      --program FILE             this compiler in place of a release build
      --target SM                another target than sm_90a
      --by COLUMN                also this count for each file
  bench scale [SHAPE...]         CPU time and memory of generated code of all sizes against ptxas, and how they grow
  bench spills [DIR...]          bytes spilled with few registers against ptxas's: 300 values at once (bar: 1.5), and DIR
  bench gpu --bundle DIR         a folder that times tests/bench, others' programs and Triton's kernels on a machine with a
                                 GPU and nvcc, in ptxas's code and in ours: `python3 DIR/bench/run.py --help` there
  bench gpu --report FILE.json   docs/performance.md, from what that run wrote
  fuzz frontend                  damaged PTX: no panic, no hang, memory in proportion to the input
  fuzz tokens                    PTX with other tokens and statements, for the whole compiler: no panic, no internal error
  fuzz disasm                    damaged cubins and images for `sassafras disasm`: a listing or a message
      --seconds N                how long (default 600)
      --seed N                   other damage (default 1)
  fuzz programs                  generated PTX: the interpreter, the compiler's checks and all levels agree
  fuzz print                     the text of generated programs
  fuzz pressure                  generated PTX with more values than registers: right with 24 to 255 of them
  fuzz gpu                       the same programs on this machine's GPU, against the interpreter
      --seeds A..B               which programs (default 0..1000); --seeds A is one
      --jobs N                   how many at a time (default: the processors)
      --time-limit N             no more after this many seconds
      --kinds NAME,NAME          mixed, exchange, modifiers, operands (default: mixed); a program of each for a seed
      --ways NAME,NAME           how to compile: O0, O1, O3, O3-32, g (default: all of them)
      --reference                with ptxas's code, too
      --keep DIR                 where reduced programs go (default target/fuzz)
      --reduce N                 programs: how many failures of one stage are reduced (default 2)
      --simulator                gpu: the simulator in place of a GPU
  tuned                          this program built anew for `fuzz programs`, by what a small campaign was seen to do
  probe [SM...]                  opcodes and values that nvdisasm knows and the instruction table does not
  probe-latency [TARGET...]      distances between dependent instructions in ptxas's code, against the machine model
      --corpus DIR               real PTX beside the random programs
      --programs N               random programs for each target (default 1000)
      --unknown                  list the pairs that the table has not seen on every target
      --ops RELATION FROM TO     list the operations behind one pair of ports: Raw Alu.R Fma.R
      --waits                    list where loops of our code wait for a distance that was never seen
      --mixed                    list operations that never come as close as their unit does
      --write                    add what was measured to the model's table
      --fresh                    put it in place of the table: after a unit was split
  playground [DIR]               the playground: a folder of static files (default target/playground)
  wheel                          the Python package: built, installed into a fresh environment, tested there
      --release                  as for people (default: as tests are built)
  release                        what people install: static command, Debian package, wheel, checksums, lists of parts
      --twice                    a commit built in two folders: the same bytes
      --commit REV               which one (default: the last)
  readme                         the commands of README.md, as they are printed
  gpu-bundle DIR                 a folder that runs all kernels with run lines on any machine with the CUDA driver
  ops-bundle DIR                 a folder that records what a GPU does with each instruction, in ptxas's code and in ours
  record-ops DIR                 records that on this machine; DIR has the cubins, and gets the recording
      --keep NAME,NAME           the memory that these kernels leave in ptxas's code, too
  cuda-bundle DIR                a folder that builds and runs tests/cuda on a machine with a GPU and nvcc

SASSAFRAS_TOOLS=DIR names another folder with the reference tools.";

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> Result<()> {
    let mut arguments = lexopt::Parser::from_env();
    let task = match arguments.next()? {
        Some(lexopt::Arg::Value(task)) => task.to_string_lossy().into_owned(),
        Some(lexopt::Arg::Long("help") | lexopt::Arg::Short('h')) | None => {
            println!("{USAGE}");
            return Ok(());
        }
        Some(option) => return Err(option.unexpected().into()),
    };
    match task.as_str() {
        "setup" => setup::run(arguments),
        "test" => test::run(arguments),
        "lint" => imports::run(arguments),
        "dependencies" => dependencies::check(),
        "conformance" => conformance::run(arguments),
        "bench" => bench::run(arguments),
        "fuzz" => fuzz::run(arguments),
        "playground" => playground::run(arguments),
        "probe" => probe::run(arguments),
        "probe-latency" => probe_latency::run(arguments),
        "tuned" => tuned::run(),
        "wheel" => wheel::run(arguments),
        "release" => release::run(arguments),
        "readme" => readme::run(),
        "gpu-bundle" => bundle::run(arguments),
        "ops-bundle" => ops::bundle(arguments),
        "record-ops" => ops::record(arguments),
        "cuda-bundle" => cuda_bundle::run(arguments),
        other => Err(format!("no task '{other}'\n\n{USAGE}").into()),
    }
}
