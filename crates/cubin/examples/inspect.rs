//! Prints what is in a cubin, a fat binary or a host program:
//! `cargo run -p sassafras-cubin --example inspect -- [--json | --extract FOLDER] FILE`

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["--json", file] => inspect(file).map(|inspection| print!("{}", inspection.to_json())),
        ["--extract", folder, file] => extract(folder, file),
        [file] => inspect(file).map(|inspection| print!("{inspection}")),
        _ => Err("usage: inspect [--json | --extract FOLDER] FILE".to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn inspect(file: &str) -> Result<cubin::Inspection, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    cubin::inspect(&bytes).map_err(|error| format!("{file}: {error}"))
}

fn extract(folder: &str, file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let images = cubin::fatbin::images(&bytes).map_err(|error| format!("{file}: {error}"))?;
    for (index, image) in images.iter().enumerate() {
        let path = format!("{folder}/{}", image.file_name(index + 1));
        std::fs::write(&path, &image.bytes).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}");
    }
    Ok(())
}
