//! An agent's directory: its journal, its spool, and the guard beside it.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::gethostname;

use super::ServiceError;
use crate::{
    guard::Keeper,
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
    pub(super) keeper: Arc<Keeper>,
}

/// A name that no other agent has: of this machine by process and moment, of others by the host.
pub(super) fn name(lane: Option<u32>) -> String {
    let hostname = gethostname().unwrap_or_default();
    let host: String = hostname
        .to_string_lossy()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let lane = lane.map_or_else(|| "guest".to_owned(), |lane| format!("lane{lane}"));
    format!("{host}-{lane}-{}-{:x}", std::process::id(), clock::now().0)
}

impl Home {
    /// Starts the guard, so that no moment is without one, makes the directory, and notes where the
    /// controller is for whoever looks for it.
    pub(super) fn open(state: &Path, id: String, controller: &str) -> Result<Home, ServiceError> {
        let directory = state.join(format!("{AGENT_PREFIX}{id}"));
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |source| ServiceError::File { step, path, source }
        };
        let path = directory.join(JOURNAL);
        let keeper = Arc::new(Keeper::start(&path)?);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(failed("create", &directory))?;
        let journal = Arc::new(Journal::open(&path).map_err(failed("open", &path))?);
        let note = directory.join(CONTROLLER);
        fs::write(&note, controller).map_err(failed("write", &note))?;
        let spool = Arc::new(Spool::open(&directory.join(SPOOL))?);
        Ok(Home { id, journal, spool, directory, keeper })
    }

    /// Lets the guard go and removes the directory, unless something is not undone: then the guard
    /// takes over at once.
    pub(super) fn close(self) -> Result<(), ServiceError> {
        let Home { id: _, journal, spool, directory, keeper } = self;
        let pending: Vec<String> =
            journal.pending().iter().map(|(_, undo)| undo.to_string()).collect();
        if !pending.is_empty() {
            keeper.forsake();
            return Err(ServiceError::NotUndone { what: pending.join("; ") });
        }
        if let Err(error) = keeper.dismiss() {
            tracing::warn!(%error, "the guard was gone already");
        }
        drop((journal, spool));
        let removed: io::Result<()> = fs::remove_dir_all(&directory);
        removed.map_err(|source| ServiceError::File { step: "remove", path: directory, source })
    }
}
