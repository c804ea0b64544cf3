//! `verify CUBIN...`: reports and counts, for trying the verifier on many files.
fn main() {
    let (mut instructions, mut reports) = (0, 0);
    for file in std::env::args().skip(1) {
        match sim::verify::verify(&std::fs::read(&file).unwrap()) {
            Ok(verdict) => {
                instructions += verdict.instructions;
                reports += verdict.reports.len();
                for report in verdict.reports {
                    print!("{file} {report}");
                }
            }
            Err(error) => println!("{file} ERROR {error}"),
        }
    }
    println!("{instructions} instructions, {reports} reports");
}
