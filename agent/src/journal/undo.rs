//! One thing to take back, and how.

use std::{
    fmt, fs, io,
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

/// What the name of every file begins with that ringbreaker makes outside its own directories.
const OUR_FILES: &str = "ringbreaker-";

/// What an undo found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was there, and is undone.
    Undone,
    /// There was nothing to undo.
    Nothing,
}

/// Why something could not be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not {what}: {why}")]
pub struct UndoError {
    /// What was tried.
    pub what: String,
    /// What stood in the way.
    pub why: String,
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undo::KillProcess { pid, .. } => write!(f, "end helper process {pid}"),
            Undo::ContinueProcess { pid, .. } => write!(f, "continue stopped process {pid}"),
            Undo::RemoveCgroup { paths } => {
                let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
                write!(f, "remove cgroup {}", paths.join(" and "))
            }
            Undo::RemoveFile { path } => write!(f, "remove file {}", path.display()),
        }
    }
}

impl Undo {
    /// Undoes it now.
    ///
    /// # Errors
    /// What stands in the way; trying again later is safe.
    pub fn apply(&self) -> Result<Found, UndoError> {
        match self {
            Undo::KillProcess { .. } | Undo::ContinueProcess { .. } | Undo::RemoveCgroup { .. } => {
                Err(self.error("not built yet"))
            }
            Undo::RemoveFile { path } => self.remove_file(path),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<Found, UndoError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(OUR_FILES) {
            return Err(self.error("only files that begin with \"ringbreaker-\" are ours"));
        }
        match fs::remove_file(path) {
            Ok(()) => Ok(Found::Undone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(self.error(error)),
        }
    }

    fn error(&self, why: impl ToString) -> UndoError {
        UndoError { what: self.to_string(), why: why.to_string() }
    }
}
