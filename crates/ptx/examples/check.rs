//! Reads PTX files and prints what ptxas would print about them.
fn main() {
    for path in std::env::args().skip(1) {
        let source = std::fs::read_to_string(&path).expect("readable file");
        let parsed = ptx::parse(&source, &ptx::Options::for_file(&path));
        print!("{}", ptx::diag::render_ptxas(&path, &parsed.diagnostics));
        if let Some(module) = parsed.module.filter(|_| std::env::var_os("PRINT").is_some()) {
            print!("{}", ptx::print(&module));
        }
    }
}
