//! What can go wrong, as values that say where.

use crate::bytes::Flaw;

/// Bytes that are not a cubin, or a broken one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The file or one of its sections.
    pub place: Place,
    /// From the start of the place.
    pub offset: u64,
    /// What is wrong.
    pub message: String,
}

/// Where in a file an error is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Somewhere in it.
    File,
    /// In a section.
    Section {
        /// Its position in the table of sections.
        index: usize,
        /// Its name.
        name: String,
    },
}

impl ReadError {
    pub(crate) fn in_file(offset: u64, message: impl Into<String>) -> ReadError {
        ReadError { place: Place::File, offset, message: message.into() }
    }

    pub(crate) fn in_section(index: usize, name: &str, flaw: Flaw) -> ReadError {
        let place = Place::Section { index, name: name.to_string() };
        ReadError { place, offset: flaw.offset, message: flaw.message }
    }
}

impl From<Flaw> for ReadError {
    fn from(flaw: Flaw) -> ReadError {
        ReadError::in_file(flaw.offset, flaw.message)
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::File => write!(f, "at offset {:#x}: {}", self.offset, self.message),
            Place::Section { index, name } => {
                write!(f, "section {index} ({name}) at offset {:#x}: {}", self.offset, self.message)
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// A model that has no file: an index that points nowhere, or a number too large for its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The section that can't be written; `None` for the file as a whole.
    pub section: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The model is sound, but larger than files are here.
    pub is_limit: bool,
}

impl WriteError {
    pub(crate) fn in_file(message: impl Into<String>) -> WriteError {
        WriteError { section: None, message: message.into(), is_limit: false }
    }

    pub(crate) fn in_section(name: &str, message: impl Into<String>) -> WriteError {
        WriteError { section: Some(name.to_string()), message: message.into(), is_limit: false }
    }

    /// The same as an error about a limit.
    pub(crate) fn limit(self) -> WriteError {
        WriteError { is_limit: true, ..self }
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.section {
            Some(name) => write!(f, "section {name}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for WriteError {}
