//! The write-ahead record of everything that must be undone.
//!
//! The case writes an [`Undo`] before it does what needs undoing, and marks it done when that was
//! healed. The guard and `ringbreaker recover` read the file when the agent is dead and undo the
//! rest. Entries are on disk before [`Journal::record`] returns; a line torn by a crash is an entry
//! whose action never began, and is ignored.
//!
//! The file is JSON lines: one `owner` line, then `undo` and `done` lines.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// How to take one thing back. Each is idempotent and acts only on what it can prove to be ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// End a helper process, if it still is this one.
    KillProcess {
        /// Process id.
        pid: u32,
        /// Start time in clock ticks since boot.
        start_time: u64,
    },
    /// Continue a stopped process, if it still is this one.
    ContinueProcess {
        /// Process id.
        pid: u32,
        /// Start time in clock ticks since boot.
        start_time: u64,
    },
    /// End every process in a cgroup and remove it: one directory a hierarchy.
    RemoveCgroup {
        /// The directories.
        paths: Vec<PathBuf>,
    },
    /// Remove a file whose name begins with `ringbreaker-`.
    RemoveFile {
        /// The file.
        path: PathBuf,
    },
}

/// Number of an entry within its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub u64);

/// An open journal. The process that holds it is its owner; nobody else can open or replay it.
#[derive(Debug)]
pub struct Journal {
    file: std::fs::File,
    next: u64,
}

impl Journal {
    /// Opens or creates the journal at `path`, whose directory must exist.
    pub fn open(path: &Path) -> io::Result<Journal> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Journal { file, next: 0 })
    }

    /// Writes `undo` and returns when it is on disk. Only then may the action begin.
    pub fn record(&mut self, undo: &Undo) -> io::Result<EntryId> {
        let entry = EntryId(self.next);
        self.next += 1;
        self.append(&Line::Undo { entry, undo: undo.clone() })?;
        Ok(entry)
    }

    /// Marks an entry as undone.
    pub fn done(&mut self, entry: EntryId) -> io::Result<()> {
        self.append(&Line::Done { entry })
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        io::Write::write_all(&mut self.file, &text)?;
        self.file.sync_data()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Undo { entry: EntryId, undo: Undo },
    Done { entry: EntryId },
}
