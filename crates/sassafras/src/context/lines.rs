//! Line numbers of a source text.

/// Byte offsets of the lines of a source.
pub struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub fn new(source: &str) -> Lines {
        let newlines = source.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1);
        Lines { starts: std::iter::once(0).chain(newlines).collect() }
    }

    pub fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|s| *s <= offset) as u32
    }
}
