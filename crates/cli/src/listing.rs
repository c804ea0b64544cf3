//! Listings of machine code: words to text with control codes and labels, and back.
//!
//! ```text
//! .target sm_90
//! .section .text.k
//! .L_0040:
//!         /*0040*/ --:-:-:Y:0f  @!P0 BRA .L_0120 ;
//! ```
//!
//! A line has the address (a comment), the control code, and the instruction. A branch names a label; a label is
//! worth the address of the instruction after it, so that lines may be added and removed before the listing
//! goes back to words.

use ::explain::flow;
use cubin::json::quoted;
use sass::{Inst, Isa, Kind, Role};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

const WORD: u64 = sass::WORD_BYTES;

/// The instructions of one section. They are decoded one at a time: a listing takes no more memory than its file.
pub struct Image<'a> {
    section: &'a str,
    isa: Isa,
    words: &'a [[u8; WORD as usize]],
    indirect: flow::Indirect,
}

impl<'a> Image<'a> {
    /// Bytes after the last whole word are an error.
    pub fn new(section: &'a str, isa: Isa, bytes: &'a [u8]) -> Result<Image<'a>, String> {
        let (words, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(format!("{section}: {} bytes are no whole number of instructions", bytes.len()));
        }
        Ok(Image { section, isa, words, indirect: flow::Indirect::new() })
    }

    /// The same with what is known of its indirect branches.
    pub fn branching(self, indirect: flow::Indirect) -> Image<'a> {
        Image { indirect, ..self }
    }

    fn address(index: usize) -> u64 {
        index as u64 * WORD
    }

    fn insts(&self) -> impl Iterator<Item = (usize, Inst)> {
        self.words.iter().map(|word| sass::decode(self.isa, u128::from_le_bytes(*word))).enumerate()
    }

    /// Where a branch or barrier leads, if that is in this image.
    fn target(&self, index: usize, inst: &Inst) -> Option<usize> {
        flow::target(index, inst, self.words.len())
    }

    /// For each instruction: does one lead there?
    fn labels(&self) -> Vec<bool> {
        let mut labels = vec![false; self.words.len()];
        for (index, inst) in self.insts() {
            if let Some(to) = self.target(index, &inst) {
                labels[to] = true;
            }
        }
        labels
    }

    /// Adds the instruction's text to a line, with a label in place of the address that it leads to.
    fn text(&self, line: &mut String, index: usize, inst: &Inst) {
        let start = line.len();
        let _ = write!(line, "{}", inst.at(Self::address(index)));
        let Some(to) = self.target(index, inst) else { return };
        let address = format!("{:#x}", Self::address(to));
        if let Some(at) = line[start..].rfind(&address) {
            line.replace_range(start + at..start + at + address.len(), &label(to));
        }
    }

    pub fn listing(&self, out: &mut impl Write, life: bool) -> io::Result<()> {
        let labels = self.labels();
        let live = if life { self.live() } else { Vec::new() };
        // A damaged name must not look like a line of the listing.
        writeln!(out, ".section {}", self.section.replace(char::is_control, "?"))?;
        let mut line = String::new();
        for (index, inst) in self.insts() {
            line.clear();
            if labels[index] {
                let _ = writeln!(line, "{}:", label(index));
            }
            let _ = write!(line, "        /*{:04x}*/ {}  ", Self::address(index), inst.control);
            self.text(&mut line, index, &inst);
            line.push_str(" ;");
            if let Some(live) = live.get(index) {
                let general = || live.of(flow::FILES[0].1.clone());
                let _ = write!(line, "  // live {:>3}: {}", general().count(), ranges(general()));
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// nvdisasm's text alone, one instruction a line, addresses in place of labels.
    pub fn like_nvdisasm(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for (index, inst) in self.insts() {
            line.clear();
            let address = Self::address(index);
            let _ = writeln!(line, "        /*{address:04x}*/ {} ;", inst.at(address).like_nvdisasm());
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    pub fn json(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{{\"section\":{},\"instructions\":[", quoted(self.section))?;
        for (index, inst) in self.insts() {
            let comma = if index > 0 { "," } else { "" };
            let address = Self::address(index);
            let word = u128::from_le_bytes(self.words[index]);
            let target =
                self.target(index, &inst).map_or_else(|| "null".into(), |to| Self::address(to).to_string());
            let (reads, writes) = (registers(&inst, Role::Use), registers(&inst, Role::Def));
            write!(
                out,
                "{comma}{{\"address\":{address},\"word\":\"{word:#034x}\",\"control\":{},\"text\":{},\"target\":{target},\"reads\":[{reads}],\"writes\":[{writes}]}}",
                quoted(&inst.control.to_string()),
                quoted(&inst.at(address).to_string()),
            )?;
        }
        write!(out, "]}}")
    }

    /// The R registers that are live before each instruction.
    fn live(&self) -> Vec<flow::Registers> {
        let insts: Vec<Inst> = self.insts().map(|(_, inst)| inst).collect();
        flow::live(&insts, &self.indirect, sass::Model::of(self.isa))
    }
}

/// `R2-R5 R8`
fn ranges(registers: impl Iterator<Item = usize>) -> String {
    let mut out = String::new();
    let mut rest = registers.peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|&next| next == last + 1) {
            last = next;
        }
        let space = if out.is_empty() { "" } else { " " };
        let _ = match last == first {
            true => write!(out, "{space}R{first}"),
            false => write!(out, "{space}R{first}-R{last}"),
        };
    }
    out
}

fn label(index: usize) -> String {
    format!(".L_{:04x}", Image::address(index))
}

fn registers(inst: &Inst, role: Role) -> String {
    let file = |kind| match kind {
        Kind::U => "UR",
        Kind::P => "P",
        Kind::V => "UP",
        Kind::B => "B",
        _ => "R",
    };
    let each = inst
        .registers()
        .filter(|a| a.role == role)
        .flat_map(|a| (0..a.count).map(move |w| format!("\"{}{}\"", file(a.file), u16::from(a.first) + w)));
    each.collect::<Vec<_>>().join(",")
}

/// A section of a listing: its name, its lines with their numbers, and the addresses of its labels.
#[derive(Default)]
struct Section {
    name: String,
    lines: Vec<(usize, String)>,
    labels: BTreeMap<String, u64>,
}

/// The words of each section of a listing. Errors name the line.
pub fn assemble(text: &str, isa: Option<Isa>) -> Result<Vec<(String, Vec<u128>)>, String> {
    let mut isa = isa;
    let mut sections: Vec<Section> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let code = without_comments(line);
        let code = code.trim();
        if let Some(name) = code.strip_prefix(".target ") {
            let sm = name.trim().trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().ok();
            isa = Some(sm.and_then(Isa::of_sm).ok_or(format!("line {}: unknown target {name}", i + 1))?);
        } else if let Some(name) = code.strip_prefix(".section ") {
            sections.push(Section { name: name.trim().to_string(), ..Section::default() });
        } else if !code.is_empty() {
            if sections.is_empty() {
                sections.push(Section::default());
            }
            let Some(Section { lines, labels, .. }) = sections.last_mut() else { continue };
            match code.strip_suffix(':') {
                Some(label) => drop(labels.insert(label.to_string(), lines.len() as u64 * WORD)),
                None => lines.push((i + 1, code.trim_end_matches(';').trim().to_string())),
            }
        }
    }
    let isa = isa.ok_or("no target: the listing needs a .target line")?;
    sections.into_iter().map(|s| Ok((s.name, words(isa, &s.lines, &s.labels)?))).collect()
}

fn words(isa: Isa, lines: &[(usize, String)], labels: &BTreeMap<String, u64>) -> Result<Vec<u128>, String> {
    let mut words = Vec::with_capacity(lines.len());
    for (i, (number, line)) in lines.iter().enumerate() {
        let named = line.rsplit([' ', ',']).next().and_then(|l| labels.get_key_value(l));
        let text = match named {
            Some((label, address)) => format!("{}{address:#x}", &line[..line.len() - label.len()]),
            None => line.clone(),
        };
        let inst = sass::parse_at(isa, &text, i as u64 * WORD).map_err(|e| format!("line {number}: {e}"))?;
        words.push(sass::encode(&inst).map_err(|e| format!("line {number}: {e}"))?);
    }
    Ok(words)
}

/// Without `/*…*/` and `//…`.
fn without_comments(line: &str) -> String {
    let line = line.split("//").next().unwrap_or("");
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    out + rest
}
