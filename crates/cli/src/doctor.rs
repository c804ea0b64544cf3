//! `sassafras doctor`: which programs on this machine call ptxas, whether they call us, and the line that makes them.
//! The lines are those of docs/callers.md.
//!
//! Exit code 0: nothing is wrong; 1: a setting names a program that is not there, or this program doesn't compile.

use crate::answer::Answer;
use crate::{Ptxas, options};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const USAGE: &str = "\
usage: sassafras doctor [--python PYTHON]

Looks for Triton, torch, JAX, nvcc and clang, says whether they call this program in place of ptxas, and prints the
line that makes each do so.

  --python PYTHON  where to look for packages (python3)
";

pub fn doctor(words: &[String]) -> Result<Answer, String> {
    let python = match words {
        [] => "python3",
        [option, python] if option == "--python" => python,
        [option] if option == "--python" => return Err(format!("--python needs a program\n{USAGE}")),
        [word, ..] => return Err(format!("unknown option {word}\n{USAGE}")),
    };
    Ok(examine(&Machine::here(python)))
}

/// What is looked at.
struct Machine {
    /// This program, without links.
    program: PathBuf,
    variables: BTreeMap<&'static str, String>,
    /// The folders of `PATH`.
    path: Vec<PathBuf>,
    /// The packages of Python that are installed, with their versions; `None` if there is no Python.
    packages: Option<BTreeMap<String, String>>,
}

const VARIABLES: [&str; 4] =
    ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "XLA_FLAGS", "TORCHINDUCTOR_FORCE_DISABLE_CACHES"];

const PACKAGES: [&str; 3] = ["triton", "torch", "jax"];

impl Machine {
    fn here(python: &str) -> Machine {
        let variable = |name: &'static str| Some((name, std::env::var(name).ok()?));
        let program = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
        let path = std::env::var_os("PATH").unwrap_or_default();
        Machine {
            program,
            variables: VARIABLES.into_iter().filter_map(variable).collect(),
            path: std::env::split_paths(&path).collect(),
            packages: packages(python),
        }
    }

    fn find(&self, program: &str) -> Option<PathBuf> {
        self.path.iter().map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    /// Is this file our program, by a link or as a copy?
    fn is_ours(&self, file: &Path) -> bool {
        let bytes = |file: &Path| std::fs::read(file).ok();
        let is_linked = file.canonicalize().is_ok_and(|path| path == self.program);
        is_linked || bytes(file).is_some_and(|other| bytes(&self.program) == Some(other))
    }

    /// The name `ptxas` for this program, if it has one: beside it, or where packages have it.
    fn as_ptxas(&self) -> Option<PathBuf> {
        let prefix = self.program.parent().and_then(Path::parent);
        let packaged = prefix.map(|prefix| prefix.join("lib/sassafras/bin/ptxas"));
        let places = [Some(self.program.with_file_name("ptxas")), packaged];
        places.into_iter().flatten().find(|place| self.is_ours(place))
    }
}

/// Asks Python for its packages without importing them.
fn packages(python: &str) -> Option<BTreeMap<String, String>> {
    let script = "import importlib.metadata as m, sys\n\
                  for name in sys.argv[1:]:\n    \
                  try: print(name, m.version(name))\n    \
                  except m.PackageNotFoundError: pass";
    let output = Command::new(python).args(["-c", script]).args(PACKAGES).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair =
        |line: &str| line.split_once(' ').map(|(name, version)| (name.to_string(), version.to_string()));
    output.status.success().then(|| text.lines().filter_map(pair).collect())
}

/// The report, line by line.
struct Report {
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, what: &str, state: &str) {
        let _ = writeln!(self.text, "{what:<8} {state}");
    }

    /// A line that a shell takes as it is.
    fn command(&mut self, line: &str) {
        let _ = writeln!(self.text, "             {line}");
    }

    fn wrong(&mut self, what: &str, state: &str) {
        self.failed = true;
        self.line(what, &format!("WRONG: {state}"));
    }
}

fn examine(machine: &Machine) -> Answer {
    let mut report = Report { text: String::new(), failed: false };
    own(machine, &mut report);
    triton(machine, &mut report);
    torch(machine, &mut report);
    jax(machine, &mut report);
    nvcc(machine, &mut report);
    clang(machine, &mut report);
    Answer { code: u8::from(report.failed), text: report.text }
}

/// This program: does it compile, and has it the name that callers look for?
fn own(machine: &Machine, report: &mut Report) {
    let version = env!("CARGO_PKG_VERSION");
    report.line("version", &format!("{version}, {}", machine.program.display()));
    let machines: Vec<String> =
        options::machines().into_iter().filter(|name| name.starts_with("sm_")).collect();
    let fails = |name: &&String| {
        let ptxas = Ptxas { words: vec![format!("-arch={name}")], ..Ptxas::default() };
        ptxas.compile(vec![KERNEL.into()]).cubin.is_none()
    };
    match machines.iter().find(fails) {
        Some(name) => report.wrong("compiler", &format!("a kernel doesn't compile for {name}")),
        None => report.line("compiler", &format!("a kernel compiles for {} machines", machines.len())),
    }
    match machine.as_ptxas() {
        Some(path) => report.line("name", &format!("{} is this program", path.display())),
        None => {
            report.line("name", "callers look for `ptxas`; give this program that name, too:");
            report.command(&format!("ln -s sassafras {}", machine.program.with_file_name("ptxas").display()));
        }
    }
}

/// A kernel for every machine.
const KERNEL: &str = ".version 9.0 .target sm_75 .address_size 64 .entry k() { ret; }";

/// The path that callers are to be told.
fn told(machine: &Machine) -> String {
    callers_path(machine).display().to_string()
}

fn callers_path(machine: &Machine) -> PathBuf {
    machine.as_ptxas().unwrap_or_else(|| machine.program.with_file_name("ptxas"))
}

/// A package with its version; where there is none, says so.
fn package<'m>(machine: &'m Machine, name: &str, report: &mut Report) -> Option<&'m str> {
    let version = machine.packages.as_ref().map(|all| all.get(name).map(String::as_str));
    match version {
        None => report.line(name, "no Python was found; --python names one"),
        Some(None) => report.line(name, "not installed"),
        Some(Some(_)) => {}
    }
    version.flatten()
}

fn triton(machine: &Machine, report: &mut Report) {
    let Some(version) = package(machine, "triton", report) else { return };
    match machine.variables.get("TRITON_PTXAS_PATH").map(Path::new) {
        Some(path) if machine.is_ours(path) => {
            report.line("triton", &format!("{version}, calls this program"))
        }
        Some(path) if !path.is_file() => {
            report
                .wrong("triton", &format!("TRITON_PTXAS_PATH names {}, which is not there", path.display()));
        }
        Some(path) => report.line("triton", &format!("{version}, calls {}", path.display())),
        None => report.line(
            "triton",
            &format!("{version}, calls the ptxas that it has with it; to call this program:"),
        ),
    }
    if !machine.variables.get("TRITON_PTXAS_PATH").is_some_and(|path| machine.is_ours(Path::new(path))) {
        report.command(&format!("export TRITON_PTXAS_PATH={}              # before sm_100", told(machine)));
        report.command(&format!("export TRITON_PTXAS_BLACKWELL_PATH={}    # from sm_100 on", told(machine)));
    }
}

fn torch(machine: &Machine, report: &mut Report) {
    let Some(version) = package(machine, "torch", report) else { return };
    report.line(
        "torch",
        &format!("{version}, torch.compile compiles through Triton: the same lines, and once"),
    );
    report.command("export TORCHINDUCTOR_FORCE_DISABLE_CACHES=1    # where its cache has cubins already");
}

fn jax(machine: &Machine, report: &mut Report) {
    let Some(version) = package(machine, "jax", report) else { return };
    let flags = machine.variables.get("XLA_FLAGS").map_or("", String::as_str);
    let folder = flags.split_whitespace().find_map(|flag| flag.strip_prefix("--xla_gpu_cuda_data_dir="));
    match folder.map(|folder| Path::new(folder).join("bin/ptxas")) {
        Some(ptxas) if machine.is_ours(&ptxas) => {
            return report.line("jax", &format!("{version}, calls this program"));
        }
        Some(ptxas) if !ptxas.is_file() => {
            report
                .wrong("jax", &format!("XLA_FLAGS has XLA look for {}, which is not there", ptxas.display()));
        }
        Some(ptxas) => report.line("jax", &format!("{version}, calls {}", ptxas.display())),
        None => {
            report.line("jax", &format!("{version}, compiles with NVIDIA's library; to call this program:"))
        }
    }
    let path = callers_path(machine);
    let in_bin = path.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    match in_bin {
        Some(folder) => report.command(&format!(
            "export XLA_FLAGS=\"--xla_gpu_cuda_data_dir={} --xla_gpu_enable_libnvptxcompiler=false \
             --xla_gpu_enable_libnvjitlink=false\"",
            folder.display()
        )),
        None => report.command("XLA looks for bin/ptxas: put this program into a folder called bin first"),
    }
}

fn nvcc(machine: &Machine, report: &mut Report) {
    let Some(nvcc) = machine.find("nvcc") else { return report.line("nvcc", "not in the PATH") };
    let real = nvcc.canonicalize().unwrap_or(nvcc);
    let ptxas = real.with_file_name("ptxas");
    if machine.is_ours(&ptxas) {
        return report.line("nvcc", &format!("{}, calls this program", real.display()));
    }
    report.line(
        "nvcc",
        &format!("{}, calls the ptxas beside it; a folder of links calls this program:", real.display()),
    );
    let Some(toolkit) = real.parent().and_then(Path::parent) else { return };
    let toolkit = toolkit.display();
    report.command(&format!(
        "mkdir -p ~/toolkit/bin && ln -s {toolkit}/* ~/toolkit/ ; ln -s {toolkit}/bin/* ~/toolkit/bin/ ; \
         cp --remove-destination {toolkit}/bin/nvcc* ~/toolkit/bin/ && \
         cp --remove-destination {} ~/toolkit/bin/ptxas    # then ~/toolkit/bin/nvcc",
        machine.program.display()
    ));
}

fn clang(machine: &Machine, report: &mut Report) {
    let Some(clang) = machine.find("clang++").or_else(|| machine.find("clang")) else {
        return report.line("clang", "not in the PATH");
    };
    report.line("clang", &format!("{}, takes the path as an option:", clang.display()));
    report.command(&format!("clang++ --ptxas-path={}", told(machine)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with this test as `bin/sassafras`, and a machine that has all callers.
    fn machine(name: &str) -> (PathBuf, Machine) {
        let root = std::env::temp_dir().join(format!("sassafras-doctor-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("bin")).expect("a folder");
        let root = root.canonicalize().expect("the folder");
        for (name, text) in [("sassafras", "us"), ("nvcc", "nvcc"), ("clang++", "clang")] {
            std::fs::write(root.join("bin").join(name), text).expect("a file");
        }
        let packages = PACKAGES.map(|name| (name.to_string(), "1.2".to_string())).into_iter().collect();
        let machine = Machine {
            program: root.join("bin/sassafras"),
            variables: BTreeMap::new(),
            path: vec![root.join("bin")],
            packages: Some(packages),
        };
        (root, machine)
    }

    #[test]
    fn each_caller_gets_its_line() {
        let (root, machine) = machine("lines");
        let Answer { text, code } = examine(&machine);
        let bin = root.join("bin");
        let bin = bin.display();
        for line in [
            "compiler a kernel compiles for 23 machines".to_string(),
            format!("ln -s sassafras {bin}/ptxas"),
            format!("export TRITON_PTXAS_PATH={bin}/ptxas "),
            format!("--xla_gpu_cuda_data_dir={} ", root.display()),
            format!("clang++ --ptxas-path={bin}/ptxas"),
            "~/toolkit/bin/nvcc".to_string(),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(code, 0);
        std::fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn what_is_set_up_is_left_alone_and_what_is_broken_is_told() {
        let (root, mut machine) = machine("set");
        std::fs::write(root.join("bin/ptxas"), "us").expect("a copy");
        machine.variables.insert("TRITON_PTXAS_PATH", root.join("bin/ptxas").display().to_string());
        machine.variables.insert("XLA_FLAGS", format!("--a --xla_gpu_cuda_data_dir={}", root.display()));
        let Answer { text, code } = examine(&machine);
        assert!(text.contains("triton   1.2, calls this program\n"), "{text}");
        assert!(
            text.contains("jax      1.2, calls this program\n") && text.contains("nvcc, calls this program"),
            "{text}"
        );
        assert!(!text.contains("export TRITON") && code == 0, "{text}");

        machine.variables.insert("TRITON_PTXAS_PATH", "/no/such/ptxas".into());
        machine.packages = Some([("triton".to_string(), "3.4".to_string())].into());
        let Answer { text, code } = examine(&machine);
        assert!(text.contains("WRONG: TRITON_PTXAS_PATH names /no/such/ptxas") && code == 1, "{text}");
        assert!(text.contains("torch    not installed"), "{text}");
        // A package has the name elsewhere.
        std::fs::remove_file(root.join("bin/ptxas")).expect("removed");
        std::fs::create_dir_all(root.join("lib/sassafras/bin")).expect("a folder");
        std::fs::write(root.join("lib/sassafras/bin/ptxas"), "us").expect("a copy");
        let told = format!("export TRITON_PTXAS_PATH={}/lib/sassafras/bin/ptxas ", root.display());
        assert!(examine(&machine).text.contains(&told), "{}", examine(&machine).text);

        machine.packages = None;
        assert!(examine(&machine).text.contains("triton   no Python was found"));
        std::fs::remove_dir_all(root).expect("removed");
    }
}
