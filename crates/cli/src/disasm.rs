//! `sassafras disasm` and `sassafras asm`.

use crate::listing::{Image, assemble};
use cubin::json::quoted;
use cubin::{Body, Object};
use sass::Isa;
use std::io::{self, BufWriter, Write};

pub const DISASM_USAGE: &str = "\
usage: sassafras disasm FILE [OPTIONS]

Prints the code of a cubin. Before each instruction stand its address and its control code: the scoreboards that it
waits for (a mask), the one that it sets when its operands are read, the one when its results are there, Y where the
warp may yield, and the cycles until the next instruction. `sassafras asm` turns the listing back into the same code.

  --raw SM         FILE is a plain image of instructions for this machine (90, sm_100a), not a cubin
  --life           print which registers are live before each instruction
  --json           print JSON
  --like-nvdisasm  print as `nvdisasm -c` does
";

pub const ASM_USAGE: &str = "\
usage: sassafras asm LISTING -o FILE [OPTIONS]

Turns a listing of `sassafras disasm` into instructions, 16 bytes each.

  -o FILE         where they go
  --section NAME  this section alone; needed where the listing has several
  --into CUBIN    write a copy of CUBIN with the listing's code, of the same length, in place of its own
";

/// What to print.
#[derive(Default)]
pub struct Style {
    pub life: bool,
    pub json: bool,
    pub nvdisasm: bool,
}

/// The code of a cubin as text.
pub fn disassemble(cubin: &[u8], style: &Style) -> Result<String, String> {
    let object = Object::read(cubin).map_err(|e| e.to_string())?;
    let (sm, images) = images(&object)?;
    let mut out = Vec::new();
    print(&mut out, "", sm, &images, style).map_err(|e| e.to_string())?;
    String::from_utf8(out).map_err(|e| e.to_string())
}

/// Prints while it decodes; what is left to print is nothing.
pub fn disasm(words: &[String]) -> Result<String, String> {
    let (mut file, mut raw, mut style) = (None, None, Style::default());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--life" => style.life = true,
            "--json" => style.json = true,
            "--like-nvdisasm" => style.nvdisasm = true,
            "--raw" => raw = Some(words.next().ok_or("--raw needs a machine, such as 90")?),
            option if option.starts_with("--") => {
                return Err(format!("unknown option {option}\n{DISASM_USAGE}"));
            }
            path => file = Some(path),
        }
    }
    let file = file.ok_or_else(|| format!("no file is given\n{DISASM_USAGE}"))?;
    let bytes = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let object;
    let (sm, images) = match raw {
        Some(name) => {
            let sm = name.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse();
            let sm = sm.map_err(|_| format!("'{name}' is no machine: 90, sm_100a"))?;
            (sm, vec![Image::new("image", isa(sm)?, &bytes)?])
        }
        None => {
            object = Object::read(&bytes).map_err(|e| format!("{file}: {e}"))?;
            images(&object).map_err(|e| format!("{file}: {e}"))?
        }
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match print(&mut out, file, sm, &images, &style).and_then(|()| out.flush()) {
        // A reader that closes the pipe early is no error of ours.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(String::new()),
    }
}

fn print(out: &mut impl Write, file: &str, sm: u32, images: &[Image], style: &Style) -> io::Result<()> {
    if style.json {
        write!(out, "{{\"file\":{},\"sm\":{sm},\"sections\":[", quoted(file))?;
        for (index, image) in images.iter().enumerate() {
            out.write_all(if index > 0 { b"," } else { b"" })?;
            image.json(out)?;
        }
        return writeln!(out, "]}}");
    }
    if !style.nvdisasm {
        writeln!(out, ".target sm_{sm}")?;
    }
    images.iter().try_for_each(|image| match style.nvdisasm {
        true => image.like_nvdisasm(out),
        false => image.listing(out, style.life),
    })
}

fn isa(sm: u32) -> Result<Isa, String> {
    Isa::of_sm(sm).ok_or(format!("no machine sm_{sm} is known"))
}

/// The code sections of a cubin.
fn images(object: &Object) -> Result<(u32, Vec<Image<'_>>), String> {
    let sm = u32::from(object.header.sm());
    let isa = isa(sm)?;
    let mut images = Vec::new();
    for section in object.sections.iter().filter(|section| is_code(&section.name)) {
        // Two sections may share their bytes.
        let body = match &section.body {
            Body::SameAs(owner) => object.sections.get(*owner).map(|owner| &owner.body),
            body => Some(body),
        };
        if let Some(Body::Bytes(code)) = body {
            let function = section.name.trim_start_matches(".text.");
            let indirect = sim::verify::indirect_branches(object, function);
            images.push(Image::new(&section.name, isa, code)?.branching(indirect));
        }
    }
    Ok((sm, images))
}

fn is_code(section: &str) -> bool {
    section.starts_with(".text.")
}

/// Assembles; the result says what was written.
pub fn asm(words: &[String]) -> Result<String, String> {
    let (mut file, mut output, mut wanted, mut into) = (None, None, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" => output = words.next(),
            "--section" => wanted = words.next(),
            "--into" => into = words.next(),
            option if option.starts_with('-') => return Err(format!("unknown option {option}\n{ASM_USAGE}")),
            path => file = Some(path),
        }
    }
    let file = file.ok_or_else(|| format!("no listing is given\n{ASM_USAGE}"))?;
    let output = output.ok_or_else(|| format!("where to? -o FILE\n{ASM_USAGE}"))?;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let sections = assemble(&text, None).map_err(|e| format!("{file}: {e}"))?;
    let bytes = match into {
        Some(cubin) => {
            let bytes = std::fs::read(cubin).map_err(|e| format!("{cubin}: {e}"))?;
            replace_code(&bytes, &sections).map_err(|e| format!("{cubin}: {e}"))?
        }
        None => one_section(sections, wanted).map_err(|e| format!("{file}: {e}"))?,
    };
    std::fs::write(output, &bytes).map_err(|e| format!("{output}: {e}"))?;
    Ok(String::new())
}

type Sections = Vec<(String, Vec<u128>)>;

fn bytes(words: &[u128]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn one_section(mut sections: Sections, wanted: Option<&String>) -> Result<Vec<u8>, String> {
    if let Some(name) = wanted {
        sections.retain(|(n, _)| n == name);
    }
    let [(_, words)] = &sections[..] else {
        let names: Vec<_> = sections.iter().map(|(n, _)| n.as_str()).collect();
        return Err(format!("{} sections: choose one with --section ({})", names.len(), names.join(", ")));
    };
    Ok(bytes(words))
}

/// The cubin with the code of a listing. Everything else (symbols, line tables, attributes) speaks of the old
/// addresses, so a section keeps its length.
fn replace_code(cubin: &[u8], sections: &Sections) -> Result<Vec<u8>, String> {
    let mut object = Object::read(cubin).map_err(|e| e.to_string())?;
    for (name, words) in sections {
        let section = object.sections.iter_mut().find(|section| section.name == *name);
        let Some(Body::Bytes(code)) = section.map(|section| &mut section.body) else {
            return Err(format!("there is no section {name} with code"));
        };
        let new = bytes(words);
        if new.len() != code.len() {
            return Err(format!("{name} has {} bytes of code, the listing {}", code.len(), new.len()));
        }
        *code = new;
    }
    object.write().map_err(|e| e.to_string())
}
