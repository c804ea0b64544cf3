//! The code of a function after each pass, for those who show what the compiler does ([`Options::snapshots`]).
//!
//! [`Options::snapshots`]: crate::Options::snapshots

/// The code of a function after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The function's name.
    pub function: String,
    /// The pass's name; `lower` for the code before the first one.
    pub pass: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Machine code, not Ori.
    pub machine: bool,
    /// The code, if the pass changed it.
    pub lines: Option<Vec<SnapshotLine>>,
}

/// A line of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLine {
    /// Without its end, and without the offset that Ori's text has there.
    pub text: String,
    /// Byte of the PTX text at which the instruction begins that it is for, 0 where there is none.
    pub at: u32,
}

impl SnapshotLine {
    /// The lines of Ori text, whose offsets are at their ends.
    pub(crate) fn of_ori(text: &str) -> Vec<SnapshotLine> {
        let line = |line: &str| {
            let (text, at) = line.rsplit_once(" !").unwrap_or((line, ""));
            match at.parse() {
                Ok(at) => SnapshotLine { text: text.to_string(), at },
                Err(_) => SnapshotLine { text: line.to_string(), at: 0 },
            }
        };
        text.lines().map(line).collect()
    }
}

/// What a compilation notes on its way: dumps as text, and snapshots.
#[derive(Debug, Default)]
pub struct Record {
    pub log: String,
    pub snapshots: Vec<Snapshot>,
}

impl Record {
    /// Adds the snapshot of a pass; its lines go if they are those of the last one.
    pub(crate) fn keep(&mut self, snapshot: Snapshot) {
        let last = self.snapshots.iter().rev().find_map(|other| other.lines.as_ref());
        let is_same = last.is_some() && last == snapshot.lines.as_ref();
        let lines = snapshot.lines.filter(|_| !is_same);
        self.snapshots.push(Snapshot { lines, ..snapshot });
    }
}

#[cfg(test)]
mod tests {
    use super::SnapshotLine;

    #[test]
    fn offsets_leave_the_text() {
        let lines = SnapshotLine::of_ori("b0:\n    v1:R = MOV v0 !12\n    branch !v1, b1, b2\n");
        assert_eq!(lines.iter().map(|line| line.at).collect::<Vec<_>>(), [0, 12, 0]);
        assert_eq!(lines[1].text, "    v1:R = MOV v0");
        assert_eq!(lines[2].text, "    branch !v1, b1, b2");
    }
}
