//! Programs that were compiled wrongly once. The checkers of all stages pass them now, at every level.

use std::path::Path;

#[test]
fn what_was_wrong_once_passes_all_checkers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a program");
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let module = parsed.module.unwrap_or_else(|| panic!("{}: {:?}", file.display(), parsed.diagnostics));
        for (level, debug_code) in [(0, false), (1, false), (3, false), (0, true)] {
            let target = ptx::Target::find("sm_90a").expect("a target");
            let options = sassafras::Options::new(target).with(|o| {
                o.contract = false;
                (o.verify, o.level, o.debug_code) = (true, level, debug_code);
            });
            let output = sassafras::compile_module(&module, &options);
            let way = if debug_code { "for a debugger" } else { "not for a debugger" };
            assert!(
                output.cubin.is_some(),
                "{} at -O{level}, {way}: {:?}",
                file.display(),
                output.diagnostics
            );
        }
    }
}
