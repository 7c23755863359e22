//! Undo everything that a journal holds and that is not marked as done.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
};

use super::{
    Found, Undo, UndoError,
    lines::{Line, Lines},
    lock,
};

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// An entry that was not done.
    Undo {
        /// The entry.
        undo: Undo,
        /// What was found, or why it could not be undone.
        result: Result<Found, UndoError>,
    },
    /// A whole line that says nothing this version understands. A torn last line is not reported.
    Unreadable {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl Replayed {
    /// Whether nothing remains to be done by hand.
    pub fn healed(&self) -> bool {
        matches!(self, Replayed::Undo { result: Ok(_), .. })
    }
}

/// Undoes, last first, what is not done, and marks what succeeded as done. Idempotent.
///
/// # Errors
/// `WouldBlock` when the journal's owner lives (or somebody else replays it); otherwise what the
/// file system says. Failures of single entries are in the result.
pub fn replay(path: &Path) -> io::Result<Vec<Replayed>> {
    replay_with(path, Undo::apply)
}

/// [`replay`] with another way to undo, for tests of the journal itself.
///
/// # Errors
/// As [`replay`].
pub fn replay_with(
    path: &Path,
    mut apply: impl FnMut(&Undo) -> Result<Found, UndoError>,
) -> io::Result<Vec<Replayed>> {
    let mut file = lock(path, &mut OpenOptions::new())?;
    let lines = Lines::read(&file)?;
    file.set_len(lines.whole_bytes)?;
    let mut report: Vec<Replayed> = lines
        .unreadable
        .into_iter()
        .map(|(line, why)| Replayed::Unreadable { line, why })
        .collect();
    for (entry, undo) in lines.open.into_iter().rev() {
        let result = apply(&undo);
        if result.is_ok() {
            let mut text = serde_json::to_vec(&Line::Done { entry })?;
            text.push(b'\n');
            file.write_all(&text)?;
        }
        report.push(Replayed::Undo { undo, result });
    }
    Ok(report)
}
