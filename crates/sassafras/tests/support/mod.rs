//! What tests with NVIDIA's tools share: the tools, a scratch folder, and our compiler as a function.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A reference tool: from the folder in `SASSAFRAS_TOOLS`, or from the one that `cargo xtask setup` fills.
pub fn tool(name: &str) -> PathBuf {
    let found = std::env::var_os("SASSAFRAS_TOOLS").map(PathBuf::from).or_else(|| {
        let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ref/lib");
        let python = std::fs::read_dir(lib).ok()?.next()?.ok()?.path();
        Some(python.join("site-packages/nvidia/cu13/bin"))
    });
    let path = found.map(|folder| folder.join(name)).filter(|path| path.is_file());
    path.expect("reference tools are missing: run `cargo xtask setup`")
}

/// nvlink says so of objects without a capsule for the finalizer, which ours are, from sm_100 on.
const KNOWN_WARNING: &str = "nvlink warning : Output is limited to run on SM Arch";

/// What a tool prints; it must not fail or complain.
pub fn run(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool(name)).args(arguments).output().expect("the tool runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let complaint = text(&output.stderr);
    let is_fine = complaint.lines().all(|line| line.starts_with(KNOWN_WARNING));
    assert!(output.status.success() && is_fine, "{name} {arguments:?}: {complaint}");
    text(&output.stdout)
}

/// A folder of its own that goes away with the value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("sassafras-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Scratch(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over temporary files are no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The cubin that our compiler makes; `change` sets options.
pub fn compile(source: &str, target: &str, change: impl FnOnce(&mut sassafras::Options)) -> Vec<u8> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let mut options = sassafras::Options::new(ptx::Target::find(target).expect("a target"));
    options.verify = true;
    change(&mut options);
    let output = sassafras::compile_module(&parsed.module.expect("a module"), &options);
    output.cubin.unwrap_or_else(|| panic!("{target}: {:?}", output.diagnostics))
}
