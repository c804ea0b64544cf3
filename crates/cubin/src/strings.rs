//! String tables.

use rustc_hash::FxHashMap;

/// NUL-terminated strings, named by offset. Keeps the order and the leftovers of the file it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringTable {
    /// As they are in the section.
    pub bytes: Vec<u8>,
}

impl StringTable {
    /// A table with the empty string at offset 0, where ELF wants it.
    pub fn new() -> StringTable {
        StringTable { bytes: vec![0] }
    }

    /// The string at an offset; `None` if it is out of bounds, not terminated, or not UTF-8.
    pub fn get(&self, offset: u32) -> Option<&str> {
        let from = self.bytes.get(offset as usize..)?;
        let length = from.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(from.get(..length)?).ok()
    }
}

/// Finds the offsets of strings in a table, and appends those that are missing.
pub struct Interner {
    table: StringTable,
    offsets: FxHashMap<Vec<u8>, u32>,
}

impl Interner {
    pub fn new(table: StringTable) -> Interner {
        let mut offsets = FxHashMap::default();
        let mut start = 0;
        for string in table.bytes.split_inclusive(|&byte| byte == 0) {
            if let Some((0, text)) = string.split_last() {
                offsets.entry(text.to_vec()).or_insert(start);
            }
            start += string.len() as u32;
        }
        Interner { table, offsets }
    }

    pub fn offset(&mut self, text: &str) -> u32 {
        if let Some(&offset) = self.offsets.get(text.as_bytes()) {
            return offset;
        }
        if self.table.bytes.last().is_some_and(|&byte| byte != 0) {
            self.table.bytes.push(0);
        }
        let offset = self.table.bytes.len() as u32;
        self.table.bytes.extend_from_slice(text.as_bytes());
        self.table.bytes.push(0);
        self.offsets.insert(text.as_bytes().to_vec(), offset);
        offset
    }

    /// The offset of a string that is in the table.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.offsets.get(text.as_bytes()).copied()
    }

    pub fn table(&self) -> &StringTable {
        &self.table
    }

    pub fn finish(self) -> StringTable {
        self.table
    }
}
