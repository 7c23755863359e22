//! An agent's directory: its journal, its spool, and the guard beside it.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::ServiceError;
use crate::{
    guard::Guard,
    journal::Journal,
    presence::CONTROLLER,
    recover::{AGENT_PREFIX, JOURNAL},
    spool::Spool,
    sys::clock,
};

/// Name of the spool within an agent's directory.
const SPOOL: &str = "spool";

/// What an agent keeps on disk while it lives.
pub(super) struct Home {
    /// The agent's id: the same across reconnects.
    pub(super) id: String,
    pub(super) journal: Arc<Journal>,
    pub(super) spool: Arc<Spool>,
    pub(super) directory: PathBuf,
    guard: Guard,
}

/// A name that no other agent has: of this machine by process and moment, of others by the host.
pub(super) fn name(hostname: &str, lane: Option<u32>) -> String {
    let host: String =
        hostname.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let lane = lane.map_or_else(|| "guest".to_owned(), |lane| format!("lane{lane}"));
    format!("{host}-{lane}-{}-{:x}", std::process::id(), clock::now().0)
}

impl Home {
    /// Makes the directory, notes where the controller is for whoever looks for it, and starts the guard.
    pub(super) fn open(state: &Path, id: String, controller: &str) -> Result<Home, ServiceError> {
        let directory = state.join(format!("{AGENT_PREFIX}{id}"));
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |source| ServiceError::File { step, path, source }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(failed("create", &directory))?;
        let path = directory.join(JOURNAL);
        let journal = Arc::new(Journal::open(&path).map_err(failed("open", &path))?);
        let note = directory.join(CONTROLLER);
        fs::write(&note, controller).map_err(failed("write", &note))?;
        let guard = Guard::start(&path)?;
        let spool = Arc::new(Spool::open(&directory.join(SPOOL))?);
        Ok(Home { id, journal, spool, directory, guard })
    }

    /// Lets the guard go and removes the directory, unless something is not undone: then the guard
    /// takes over at once.
    pub(super) fn close(self) -> Result<(), ServiceError> {
        let Home { id: _, journal, spool, directory, guard } = self;
        let pending: Vec<String> =
            journal.pending().iter().map(|(_, undo)| undo.to_string()).collect();
        if !pending.is_empty() {
            return Err(ServiceError::NotUndone { what: pending.join("; ") });
        }
        guard.dismiss()?;
        drop((journal, spool));
        let removed: io::Result<()> = fs::remove_dir_all(&directory);
        removed.map_err(|source| ServiceError::File { step: "remove", path: directory, source })
    }
}
