//! The scripts of `tests/bench` that need no GPU. `predict.py`: a whole program's launches, recorded on the host and
//! profiled in both codes. `kernels.py build`: a program with the code of several compilers, to be timed on a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Launches with a pointer in a structure, a table in constant memory, and a second kernel that loops as often as the
/// first one says.
const PROGRAM: &str = r#"
#include <cstdio>
struct Place { int first; float *values; };
__constant__ float factors[32];
__device__ int rounds;
__global__ void scale(Place place, const int *indices, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    place.values[place.first + indices[i]] *= factors[threadIdx.x];
    counts[i] = indices[i] + rounds;
}
__global__ void repeat(float *values, const int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < counts[i]; k++) values[i] = values[i] * 0.5f + 1.0f;
}
int main() {
    int indices[64], *device, *counts, seven = 7;
    float table[32], *values;
    for (int i = 0; i < 64; i++) indices[i] = i, table[i % 32] = 2;
    cudaMalloc(&device, sizeof indices);
    cudaMalloc(&counts, sizeof indices);
    cudaMalloc(&values, 68 * sizeof(float));
    cudaMemcpy(device, indices, sizeof indices, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(factors, table, sizeof table);
    cudaMemcpyToSymbol(rounds, &seven, sizeof seven);
    scale<<<2, 32>>>(Place{4, values}, device, counts);
    repeat<<<2, 32>>>(values, counts);
    cudaMemcpy(indices, counts, sizeof indices, cudaMemcpyDeviceToHost);
    return indices[63] == 70 ? 0 : 1;
}
"#;

const MAKEFILE: &str = "main: main.cu\n\t$(CC) -O3 -arch=$(ARCH) $< -o $@\nrun: main\n\t./main\n";

/// The toolkit of the reference tools.
fn toolkit() -> PathBuf {
    let bin = match std::env::var_os("SASSAFRAS_TOOLS") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
            let pythons = std::fs::read_dir(lib).ok().into_iter().flatten().flatten();
            let bins = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/bin"));
            bins.filter(|bin| bin.is_dir()).max()
        }
    };
    let bin = bin.filter(|bin| bin.join("nvcc").is_file());
    bin.expect("reference tools are missing: run `cargo xtask setup`").join("..")
}

/// A folder with the program below `others`.
fn folder_of_program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = folder.join("others/tiny");
    std::fs::create_dir_all(&program).expect("a temporary folder");
    std::fs::write(program.join("main.cu"), PROGRAM).expect("a temporary file");
    std::fs::write(program.join("Makefile"), MAKEFILE).expect("a temporary file");
    folder
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bench").join(name)
}

#[test]
fn a_program_is_built_once_with_the_code_of_all_compilers() {
    let folder = folder_of_program("kernels");
    let mut command = Command::new("python3");
    command.arg(script("kernels.py")).arg("build").arg(folder.join("bundle"));
    command
        .arg("--others")
        .arg(folder.join("others"))
        .args(["--only", "^tiny$"])
        .arg("--cuda")
        .arg(toolkit());
    command.args([
        "--code",
        concat!("serial=", env!("CARGO_BIN_EXE_sassafras"), " --disable-pass sched-prepass"),
    ]);
    let output = command.arg(env!("CARGO_BIN_EXE_sassafras")).output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let code_of = |who: &str| {
        let files = std::fs::read_dir(folder.join("bundle/code").join(who)).expect("a folder");
        let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        let [file] = &files[..] else { panic!("{who}: {files:?}") };
        (file.file_name().expect("a name").to_owned(), std::fs::read(file).expect("a fat binary"))
    };
    let codes = ["ptxas", "ours", "serial"].map(code_of);
    // All stand for the same fat binary of the program, which is an executable beside its command.
    assert!(codes.iter().all(|(name, _)| *name == codes[0].0), "{text}");
    assert!(codes[0].1 != codes[1].1 && codes[1].1 != codes[2].1, "{text}");
    for file in ["programs/others.tiny/main", "lib/libtimer.so", "kernels.py"] {
        assert!(folder.join("bundle").join(file).is_file(), "no {file}: {text}");
    }
    let run = std::fs::read_to_string(folder.join("bundle/programs/others.tiny/command")).expect("a command");
    assert_eq!(run, "./main\n");
}

#[test]
fn launches_of_a_program_are_recorded_and_profiled() {
    let folder = folder_of_program("predict");
    let out = folder.join("out.json");
    let mut command = Command::new("python3");
    command.arg(script("predict.py")).arg(env!("CARGO_BIN_EXE_sassafras")).arg("--no-own");
    command.arg("--others").arg(folder.join("others")).arg("--out").arg(&out);
    command.arg("--cuda").arg(toolkit()).arg("--work").arg(folder.join("work"));
    let output = command.output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let json = std::fs::read_to_string(out).expect("the results");
    for kernel in ["_Z5scale5PlacePKiPi", "_Z6repeatPfPKi"] {
        assert!(json.contains(kernel), "{text}");
    }
    assert_eq!(json.matches("\"ratio\"").count(), 2, "{text}");
    // 32 rounds and more, of more than two instructions each: the second kernel saw what the first one wrote.
    let (_, rest) = json.split_once("_Z6repeatPfPKi").expect("a row");
    let (_, rest) = rest.split_once("\"executed\": ").expect("a count");
    let count: u32 = rest[..rest.find('\n').expect("an end")].parse().expect("a number");
    assert!(count > 64, "{count}: {text}");
}
