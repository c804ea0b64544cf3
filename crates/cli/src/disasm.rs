//! `sassafras disasm` and `sassafras asm`.

use crate::listing::{Image, assemble, quoted};
use cubin::{Body, Object};
use sass::Isa;
use std::fmt::Write;

pub const USAGE: &str = "\
sassafras disasm FILE [--raw SM] [--life] [--json] [--like-nvdisasm]
  a listing of a cubin, or with --raw of a plain image of instructions for that machine (90, 100, …)
sassafras asm LISTING -o FILE [--section NAME]
  the words of a listing, or of one section of it
";

/// What `disasm` prints.
pub fn disasm(words: &[String]) -> Result<String, String> {
    let (mut file, mut raw, mut life, mut json, mut nvdisasm) = (None, None, false, false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--life" => life = true,
            "--json" => json = true,
            "--like-nvdisasm" => nvdisasm = true,
            "--raw" => raw = Some(words.next().ok_or("--raw needs a machine, such as 90")?),
            option if option.starts_with("--") => return Err(format!("unknown option {option}\n{USAGE}")),
            path => file = Some(path),
        }
    }
    let file = file.ok_or(USAGE)?;
    let bytes = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let (sm, images) = match raw {
        Some(sm) => {
            let sm = sm.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().unwrap_or(0);
            (sm, vec![Image::decode("image", isa(sm)?, &bytes)?])
        }
        None => images(&bytes).map_err(|e| format!("{file}: {e}"))?,
    };
    let mut out = String::new();
    if json {
        let _ = write!(out, "{{\"file\":{},\"sm\":{sm},\"sections\":[", quoted(file));
        for (i, image) in images.iter().enumerate() {
            out.push_str(if i > 0 { "," } else { "" });
            image.json(&mut out);
        }
        out.push_str("]}\n");
        return Ok(out);
    }
    if !nvdisasm {
        let _ = writeln!(out, ".target sm_{sm}");
    }
    for image in &images {
        match nvdisasm {
            true => image.like_nvdisasm(&mut out),
            false => image.listing(&mut out, life),
        }
    }
    Ok(out)
}

fn isa(sm: u32) -> Result<Isa, String> {
    Isa::of_sm(sm).ok_or(format!("no machine sm_{sm} is known"))
}

/// The code sections of a cubin.
fn images(bytes: &[u8]) -> Result<(u32, Vec<Image>), String> {
    let object = Object::read(bytes).map_err(|e| e.to_string())?;
    let sm = u32::from(object.header.sm());
    let isa = isa(sm)?;
    let mut images = Vec::new();
    for section in object.sections.iter().filter(|s| s.name.starts_with(".text.")) {
        if let Body::Bytes(code) = &section.body {
            images.push(Image::decode(&section.name, isa, code)?);
        }
    }
    Ok((sm, images))
}

/// Assembles; the result says what was written.
pub fn asm(words: &[String]) -> Result<String, String> {
    let (mut file, mut output, mut wanted) = (None, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" => output = words.next(),
            "--section" => wanted = words.next(),
            path => file = Some(path),
        }
    }
    let (file, output) = (file.ok_or(USAGE)?, output.ok_or(USAGE)?);
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let mut sections = assemble(&text, None).map_err(|e| format!("{file}: {e}"))?;
    if let Some(name) = wanted {
        sections.retain(|(n, _)| n == name);
    }
    let [(_, words)] = &sections[..] else {
        let names: Vec<_> = sections.iter().map(|(n, _)| n.as_str()).collect();
        return Err(format!(
            "{file} has {} sections: choose one with --section ({})",
            names.len(),
            names.join(", ")
        ));
    };
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(output, &bytes).map_err(|e| format!("{output}: {e}"))?;
    Ok(String::new())
}
