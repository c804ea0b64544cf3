//! Line tables: what ptxas writes, and what the writer makes of rows.

use cubin::line::{self, Inlined, LineTable, Row, Sequence, SourceFile};
use cubin::{Body, Object};

use crate::support::{Scratch, ptx, run};

fn row(address: u64, file: u64, line: u64) -> Row {
    Row { address, file, line, inlined: None }
}

fn table() -> LineTable {
    let file =
        |name: &str| SourceFile { name: name.into(), directory: 1, modified: 1_700_000_000, size: 300 };
    let inlined = Some(Inlined { call_row: 2, function: 300 });
    LineTable {
        directories: vec!["/home/user".into()],
        files: vec![file("a.cu"), file("b.h")],
        sequences: vec![
            Sequence {
                rows: vec![
                    row(0, 1, 5),
                    row(16, 1, 6),
                    Row { inlined, ..row(16, 2, 1000) },
                    Row { inlined, ..row(0x4000, 2, 3) },
                    row(0x4010, 1, 6),
                    row(0x4020, 1, 6),
                ],
                end: 0x8000,
                ..Sequence::default()
            },
            Sequence { rows: vec![row(0, 2, 1)], end: 16, ..Sequence::default() },
        ],
    }
}

#[test]
fn rows_survive() {
    let (bytes, addresses) = table().write();
    let read = line::read(&bytes).unwrap();
    let mut expected = table();
    for (sequence, address) in expected.sequences.iter_mut().zip(&addresses) {
        sequence.address_at = *address;
        assert_eq!(bytes[*address as usize..][..8], [0; 8]);
    }
    assert_eq!(read, [expected]);
}

#[test]
fn broken_tables_are_refused() {
    let (bytes, _) = table().write();
    let message = |bytes: &[u8]| line::read(bytes).unwrap_err().message;
    let mut other_version = bytes.clone();
    other_version[4] = 5;
    assert_eq!(message(&other_version), "line table of DWARF 5, not 2");
    let mut other_opcodes = bytes.clone();
    other_opcodes[14] = 13;
    assert_eq!(message(&other_opcodes), "line range 14 and opcode base 13 are not those of ptxas");
    for length in 1..bytes.len() {
        assert!(line::read(&bytes[..length]).is_err());
    }
}

/// `nvdisasm -gi` prints the source line of each instruction, with what is inlined where.
fn source_lines(path: &str) -> Vec<String> {
    let listing = run("nvdisasm", &["-c", "-gi", path]).unwrap();
    listing.lines().filter(|line| line.contains("//##")).map(str::to_string).collect()
}

#[test]
fn nvdisasm_reads_rewritten_tables_the_same() {
    let scratch = Scratch::new("line");
    for target in ["sm_75", "sm_90a", "sm_120"] {
        let original = scratch.path("original.cubin");
        run("ptxas", &["-arch", target, "-lineinfo", &ptx("inlined"), "-o", &original]).unwrap();
        let mut object = Object::read(&std::fs::read(&original).unwrap()).unwrap();
        let (index, _) = object.section(".debug_line").expect("a line table");
        let Body::Bytes(bytes) = &object.sections[index].body else { panic!("bytes") };
        let mut table = line::read(bytes).unwrap().remove(0);
        assert!(table.sequences[0].rows.iter().any(|row| row.inlined.is_some()), "{target}");
        assert!(&table.write().0 == bytes, "{target}");

        // The same rows for another name of a file, so that the bytes differ and the relocation moves.
        table.files[1].name = "another_helper.h".into();
        let (written, addresses) = table.write();
        object.sections[index].body = Body::Bytes(written);
        for section in object.sections.iter_mut().filter(|section| section.name.ends_with(".debug_line")) {
            if let Body::Relocs(relocs) = &mut section.body {
                assert_eq!(relocs[0].offset, table.sequences[0].address_at, "{target}");
                relocs[0].offset = addresses[0];
            }
        }
        let rewritten = scratch.write("rewritten.cubin", &object.write().unwrap());
        let lines = source_lines(&original);
        assert!(lines.iter().any(|line| line.contains("inlined at")), "{target}");
        let renamed: Vec<String> =
            lines.iter().map(|line| line.replace("helper.h", "another_helper.h")).collect();
        assert_eq!(source_lines(&rewritten), renamed, "{target}");
    }
}
