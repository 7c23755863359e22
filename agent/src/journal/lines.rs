//! The lines of a journal file, and what a sequence of them amounts to.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};

use super::{EntryId, Undo};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    /// Who opened the file.
    Owner { pid: u32 },
    /// Something that must be undone from here on.
    Undo { entry: EntryId, undo: Undo },
    /// It was undone.
    Done { entry: EntryId },
}

/// What the lines read so far amount to.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Entries that are not done.
    pub(super) open: BTreeMap<EntryId, Undo>,
    /// Whole lines that could not be understood: number (from 1) and why.
    pub(super) unreadable: Vec<(usize, String)>,
    /// Length of the file up to and including its last newline; what follows is torn.
    pub(super) whole_bytes: u64,
    /// Who opened the file last.
    pub(super) owner: Option<u32>,
    next: u64,
}

impl Lines {
    /// Reads the file from its beginning.
    pub(super) fn read(mut file: &File) -> io::Result<Lines> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(Lines::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Lines {
        let mut lines = Lines::default();
        for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(whole) = text.strip_suffix(b"\n") else { break };
            lines.whole_bytes += text.len() as u64;
            match serde_json::from_slice(whole) {
                Ok(line) => lines.take(line),
                Err(error) => lines.unreadable.push((index + 1, error.to_string())),
            }
        }
        lines
    }

    /// Adds one line.
    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Owner { pid } => self.owner = Some(pid),
            Line::Undo { entry, undo } => {
                self.next = self.next.max(entry.0 + 1);
                self.open.insert(entry, undo);
            }
            Line::Done { entry } => {
                self.open.remove(&entry);
            }
        }
    }

    /// A number that no entry has.
    pub(super) fn next(&self) -> EntryId {
        EntryId(self.next)
    }
}
