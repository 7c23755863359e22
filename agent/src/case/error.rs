//! Why a case cannot be carried out here.

use std::{io, path::PathBuf};

use ringbreaker_scenarios::{case::Rank, event::ExitStatus};

use crate::{fabric::FabricError, inject::InjectError, node::NodeError, sys::process::SpawnError};

/// Why a case cannot be carried out here. The controller gets it as the reason of a refusal.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A node could not be built.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The network between nodes could not be started.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A rank could not be started.
    #[error("rank {rank}: {source}")]
    Spawn {
        /// Which.
        rank: Rank,
        /// What failed.
        source: SpawnError,
    },
    /// A file of the case could not be used.
    #[error("could not {step} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The machine refused something that is no file.
    #[error("could not {step}: {source}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A fault that cannot be injected here.
    #[error("fault {label:?}: {source}")]
    Fault {
        /// The fault, as reports name it.
        label: String,
        /// Why not.
        source: InjectError,
    },
    /// The backend needs something that this machine lacks.
    #[error("{0}")]
    Lacking(String),
    /// A rank ended before it was ready.
    #[error("rank {rank} ended with {status:?} before it was ready: {last_words}")]
    RankEnded {
        /// Which.
        rank: Rank,
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// Ranks took too long.
    #[error("ranks {ranks:?} were not ready within {seconds} s; see their logs in {directory}", directory = directory.display())]
    NotReady {
        /// Which.
        ranks: Vec<Rank>,
        /// How long was waited.
        seconds: u64,
        /// Where logs are.
        directory: PathBuf,
    },
    /// The case was ended first.
    #[error("the case was ended before its ranks were ready")]
    EndedEarly,
}

impl CaseError {
    pub(super) fn file(
        step: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| CaseError::File { step, path, source }
    }

    pub(super) fn step(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| CaseError::Step { step, source }
    }
}
