//! One thing to take back, and how.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::sys::{
    cgroup::Cgroup,
    procfs,
    signal::{self, Signal},
};

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

/// How long a signal may take to show.
const PATIENCE: Duration = Duration::from_secs(2);

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
            Undo::KillProcess { pid, start_time } => self.kill(*pid, *start_time),
            Undo::ContinueProcess { pid, start_time } => self.resume(*pid, *start_time),
            Undo::RemoveCgroup { paths } => self.remove_cgroup(paths),
            Undo::RemoveFile { path } => self.remove_file(path),
        }
    }

    fn kill(&self, pid: u32, start_time: u64) -> Result<Found, UndoError> {
        let ended = |state| matches!(state, None | Some('Z' | 'X'));
        self.signal_until(pid, start_time, Signal::SIGKILL, ended)
    }

    fn resume(&self, pid: u32, start_time: u64) -> Result<Found, UndoError> {
        let runs = |state| state != Some('T');
        self.signal_until(pid, start_time, Signal::SIGCONT, runs)
    }

    /// Sends a signal to a process that is not yet as wanted, and waits until it is.
    fn signal_until(
        &self,
        pid: u32,
        start_time: u64,
        signal: Signal,
        wanted: impl Fn(Option<char>) -> bool,
    ) -> Result<Found, UndoError> {
        let state = || procfs::state(pid, start_time).map_err(|error| self.error(error));
        if wanted(state()?) {
            return Ok(Found::Nothing);
        }
        signal::send(pid, start_time, signal).map_err(|error| self.error(error))?;
        let deadline = Instant::now() + PATIENCE;
        while !wanted(state()?) {
            if Instant::now() > deadline {
                return Err(self.error(format!("{signal} has not helped within {PATIENCE:?}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Found::Undone)
    }

    fn remove_cgroup(&self, paths: &[PathBuf]) -> Result<Found, UndoError> {
        let mut found = Found::Nothing;
        for path in paths {
            let cgroup = Cgroup::adopt(path).map_err(|error| self.error(error))?;
            if path.exists() {
                cgroup.remove().map_err(|error| self.error(error))?;
                found = Found::Undone;
            }
        }
        Ok(found)
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
