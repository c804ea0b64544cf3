//! `sassafras opt --pass P[,P...] [--arch sm_90] FILE.ori`: runs passes on IR text.

use sassafras::{Options, opt_text, pass_names, ptx};

pub const USAGE: &str = "\
usage: sassafras opt --pass PASS[,PASS...] [--arch sm_90] [--maxrregcount N] [--opt-level N] [--fuel N] FILE.ori

Runs passes, in the order given, on functions in the text form of the IR (`--dump-ir` prints it), verifies the IR
before the first pass and after each, and prints the result: machine code, if `regalloc` is among them. FILE `-` is
standard input.

  --pass PASS,...   the passes; `--pass help` lists them in the order of the pipeline
  --arch TARGET     the target; sm_90 unless given
  --maxrregcount N  registers of a thread
  --opt-level N     the level for passes that ask for it (`control-codes`); 3 unless given
  --fuel N          do no more than N optional rewrites in each function
";

/// The arguments of `opt`.
struct Request {
    file: String,
    passes: String,
    options: Options,
}

/// Returns the text for stdout, or the reason for which there is none.
pub fn opt(words: &[String]) -> Result<String, String> {
    let request = parse(words)?;
    if request.passes == "help" {
        return Ok(pass_names().map(|name| format!("{name}\n")).collect());
    }
    let file = &request.file;
    let source = match file.as_str() {
        "" => return Err(format!("no file is given\n{USAGE}")),
        "-" => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let source = source.map_err(|error| format!("{file}: {error}"))?;
    let passes: Vec<&str> = request.passes.split(',').filter(|name| !name.is_empty()).collect();
    opt_text(&source, &passes, &request.options).map_err(|error| format!("{file}: {error}"))
}

fn parse(words: &[String]) -> Result<Request, String> {
    let arch = ptx::Target::find("sm_90").ok_or("no default target")?;
    let mut request = Request { file: String::new(), passes: String::new(), options: Options::new(arch) };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut operand = || words.next().ok_or_else(|| format!("{word} needs an argument\n{USAGE}"));
        match word.as_str() {
            "--pass" => request.passes = operand()?.clone(),
            "--arch" => {
                let name = operand()?;
                let target = ptx::Target::find(name).ok_or_else(|| format!("unknown target {name}"))?;
                request.options.target = target;
            }
            "--maxrregcount" => request.options.launch.max_registers = Some(number(operand()?)?),
            "--opt-level" => request.options.level = number(operand()?)?.min(3) as u8,
            "--fuel" => request.options.fuel = Some(number(operand()?)?),
            "-" if request.file.is_empty() => request.file = word.clone(),
            _ if word.starts_with('-') => return Err(format!("unknown option {word}\n{USAGE}")),
            _ if request.file.is_empty() => request.file = word.clone(),
            _ => return Err(format!("one file at a time\n{USAGE}")),
        }
    }
    Ok(request)
}

fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    fn opt(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        super::opt(&words).map_err(|message| message.lines().next().unwrap_or_default().to_string())
    }

    #[test]
    fn passes_are_listed_in_order() {
        let list = opt(&["--pass", "help"]).expect("a list");
        assert!(list.starts_with("simplify\n") && list.contains("\nlicm\n"), "{list}");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert_eq!(opt(&["--pass", "licm"]), Err("no file is given".into()));
        assert_eq!(opt(&["--pass"]), Err("--pass needs an argument".into()));
        assert_eq!(opt(&["--fuel", "x", "f"]), Err("'x' is not a number".into()));
        assert_eq!(opt(&["--arch", "sm_1", "f"]), Err("unknown target sm_1".into()));
        assert_eq!(opt(&["a", "b"]), Err("one file at a time".into()));
        assert!(opt(&["--pass", "licm", "/no/such/file"]).is_err_and(|e| e.starts_with("/no/such/file: ")));
    }

    #[test]
    fn a_file_goes_through_the_passes() {
        let file = std::env::temp_dir().join(format!("sassafras-opt-{}.ori", std::process::id()));
        std::fs::write(&file, "function f {\nb0:\n    v0:R = MOV 0x1\n    exit\n}\n").expect("a file");
        let path = file.to_string_lossy().into_owned();
        assert_eq!(opt(&["--pass", "dce", &path]), Ok("function f {\nb0:\n    exit\n}\n".into()));
        assert_eq!(opt(&["--pass", "nope", &path]), Err(format!("{path}: unknown pass 'nope'")));
        // A left-over temporary file is no reason to fail.
        let _ = std::fs::remove_file(&file);
    }
}
