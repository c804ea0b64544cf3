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
//! worth the address of the instruction behind it, so that lines may be added and removed before the listing
//! goes back to words.

use sass::{Inst, Isa, Kind, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const WORD: u64 = sass::WORD_BYTES;

/// A run of instructions of one section.
pub struct Image {
    pub section: String,
    pub insts: Vec<Inst>,
}

impl Image {
    /// Decodes; bytes behind the last whole word are an error.
    pub fn decode(section: &str, isa: Isa, bytes: &[u8]) -> Result<Image, String> {
        let (words, rest) = bytes.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(format!("{section}: {} bytes are no whole number of instructions", bytes.len()));
        }
        let insts = words.iter().map(|w| sass::decode(isa, u128::from_le_bytes(*w))).collect();
        Ok(Image { section: section.to_string(), insts })
    }

    fn address(index: usize) -> u64 {
        index as u64 * WORD
    }

    /// Where a branch or barrier leads, if that lies in this image.
    fn target(&self, index: usize) -> Option<usize> {
        let distance = self.insts[index].operands().find(|(slot, _)| slot.kind == Kind::Relative)?.1.value;
        let to = Self::address(index + 1).checked_add_signed(distance)?;
        let to = (to % WORD == 0).then_some((to / WORD) as usize)?;
        (to < self.insts.len()).then_some(to)
    }

    fn labels(&self) -> BTreeSet<usize> {
        (0..self.insts.len()).filter_map(|i| self.target(i)).collect()
    }

    /// The instruction's text, with a label in place of the address that it leads to.
    fn text(&self, index: usize, labels: bool) -> String {
        let text = self.insts[index].at(Self::address(index)).to_string();
        match self.target(index).filter(|_| labels) {
            Some(to) => {
                let address = format!("{:#x}", Self::address(to));
                match text.rfind(&address) {
                    Some(at) => format!("{}{}{}", &text[..at], label(to), &text[at + address.len()..]),
                    None => text,
                }
            }
            None => text,
        }
    }

    pub fn listing(&self, out: &mut String, life: bool) {
        let labels = self.labels();
        let live = if life { Some(self.live()) } else { None };
        let _ = writeln!(out, ".section {}", self.section);
        for (i, inst) in self.insts.iter().enumerate() {
            if labels.contains(&i) {
                let _ = writeln!(out, "{}:", label(i));
            }
            let _ = write!(
                out,
                "        /*{:04x}*/ {}  {} ;",
                Self::address(i),
                inst.control,
                self.text(i, true)
            );
            if let Some(live) = &live {
                let _ = write!(out, "  // live {:>3}: {}", live[i].len(), ranges(&live[i]));
            }
            out.push('\n');
        }
    }

    /// nvdisasm's text alone, one instruction a line, addresses in place of labels.
    pub fn like_nvdisasm(&self, out: &mut String) {
        for (i, inst) in self.insts.iter().enumerate() {
            let _ = writeln!(
                out,
                "        /*{:04x}*/ {} ;",
                Self::address(i),
                inst.at(Self::address(i)).like_nvdisasm()
            );
        }
    }

    pub fn json(&self, out: &mut String) {
        let _ = write!(out, "{{\"section\":{},\"instructions\":[", quoted(&self.section));
        for (i, inst) in self.insts.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let word = sass::encode(inst).map_or_else(|_| "null".into(), |w| format!("\"{w:#034x}\""));
            let target = self.target(i).map_or_else(|| "null".into(), |t| Self::address(t).to_string());
            let (reads, writes) = (registers(inst, Role::Use), registers(inst, Role::Def));
            let _ = write!(
                out,
                "{comma}{{\"address\":{},\"word\":{word},\"control\":{},\"text\":{},\"target\":{target},\"reads\":[{reads}],\"writes\":[{writes}]}}",
                Self::address(i),
                quoted(&inst.control.to_string()),
                quoted(&self.text(i, false)),
            );
        }
        out.push_str("]}");
    }

    /// The R registers that are live before each instruction.
    fn live(&self) -> Vec<BTreeSet<u8>> {
        let mut live = vec![BTreeSet::new(); self.insts.len() + 1];
        let mut changed = true;
        while changed {
            changed = false;
            for i in (0..self.insts.len()).rev() {
                let inst = &self.insts[i];
                let always = inst.guard == sass::Guard::ALWAYS;
                let name = inst.op().name();
                let mut now = BTreeSet::new();
                if !(always && matches!(name, "EXIT" | "BRA" | "RET" | "BRX" | "JMP")) {
                    now.extend(&live[i + 1]);
                }
                // BSSY names a place, but doesn't go there.
                if let Some(to) = self.target(i).filter(|_| name != "BSSY") {
                    now.extend(&live[to]);
                }
                let touched = |role| inst.registers().filter(move |a| a.file == Kind::R && a.role == role);
                let each = |a: sass::Access| (0..a.count).map(move |w| a.first.wrapping_add(w as u8));
                if always {
                    let written: BTreeSet<u8> = touched(Role::Def).flat_map(each).collect();
                    now.retain(|r| !written.contains(r));
                }
                now.extend(touched(Role::Use).flat_map(each));
                if now != live[i] {
                    live[i] = now;
                    changed = true;
                }
            }
        }
        live
    }
}

fn label(index: usize) -> String {
    format!(".L_{:04x}", Image::address(index))
}

/// `R2-R5 R8`
fn ranges(set: &BTreeSet<u8>) -> String {
    let mut out = String::new();
    let mut rest = set.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while rest.next_if(|n| *n == last + 1).is_some() {
            last += 1;
        }
        let space = if out.is_empty() { "" } else { " " };
        let _ = match last == first {
            true => write!(out, "{space}R{first}"),
            false => write!(out, "{space}R{first}-R{last}"),
        };
    }
    out
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

pub fn quoted(text: &str) -> String {
    let escaped = text.chars().fold(String::new(), |mut out, c| {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
        out
    });
    format!("\"{escaped}\"")
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
