//! Little-endian reading with bounds checks, and little-endian writing.

/// What is wrong with a run of bytes, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// From the start of the run.
    pub offset: u64,
    /// What is wrong.
    pub message: String,
}

impl Flaw {
    /// What is wrong at a byte.
    pub fn new(offset: usize, message: impl Into<String>) -> Self {
        Flaw { offset: offset as u64, message: message.into() }
    }
}

/// Reads fields one after the other. Running past the end is a `Flaw`, never a panic.
#[derive(Clone)]
pub struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, at: 0 }
    }

    /// A cursor that starts at `at`; reading from beyond the end is a `Flaw`.
    pub fn at(data: &'a [u8], at: usize) -> Self {
        Cursor { data, at }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.data.len()
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let end = self.at.checked_add(count);
        match end.and_then(|end| self.data.get(self.at..end)) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => {
                let left = self.data.len().saturating_sub(self.at);
                Err(Flaw::new(self.at, format!("{count} bytes are needed, {left} are left")))
            }
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8, Flaw> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Flaw> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Flaw> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Flaw> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// The little-endian words of a payload, if it is made of whole words.
pub fn words(payload: &[u8]) -> Option<Vec<u32>> {
    let (chunks, rest) = payload.as_chunks::<4>();
    rest.is_empty().then(|| chunks.iter().map(|&chunk| u32::from_le_bytes(chunk)).collect())
}

/// Little-endian appending to a buffer.
pub trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn pad_to(&mut self, align: usize);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn pad_to(&mut self, align: usize) {
        self.resize(self.len().next_multiple_of(align.max(1)), 0);
    }
}
