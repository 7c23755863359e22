//! What can go wrong with the store, in words for the person who has to put it right.

use std::path::{Path, PathBuf};

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields hold")]
pub enum StoreError {
    /// The directory could not be made.
    #[error("cannot make the runs directory {}: {source}; choose another with --dir", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    /// SQLite refused.
    #[error("the run store {} cannot be used: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    /// A newer release made the file.
    #[error(
        "the run store {} is of format {found}, this ringbreaker knows formats up to {known}; \
         use the newer ringbreaker that made it, or another directory with --dir",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// An entry is not what its format says.
    #[error(
        "the run store {} holds an entry that cannot be read: {source}; \
         was it written by a development version?",
        path.display()
    )]
    Unreadable { path: PathBuf, source: serde_json::Error },
    /// No run has that id.
    #[error("no run {run:?} in {}; `ringbreaker runs` lists those there are", path.display())]
    NoSuchRun { run: String, path: PathBuf },
    /// The run has no case with that number.
    #[error("run {run:?} has no case {case}")]
    NoSuchCase { run: String, case: u32 },
    /// A run with that id is stored already.
    #[error("run {run:?} is stored already; give the new run another id")]
    RunExists { run: String },
    /// That attempt is stored already.
    #[error("attempt {attempt} at case {case} of run {run:?} is stored already")]
    AttemptExists { run: String, case: u32, attempt: u32 },
}

impl StoreError {
    /// SQLite's error, with the file it is about.
    pub(super) fn at(path: &Path, source: rusqlite::Error) -> StoreError {
        StoreError::Sqlite { path: path.to_owned(), source }
    }
}
