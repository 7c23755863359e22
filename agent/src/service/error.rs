//! Why an agent ends otherwise than in good order.

use std::{io, path::PathBuf};

use ringbreaker_scenarios::{event::Isolation, units::Nanos};

use crate::{guard::GuardError, spool::SpoolError};

/// Why an agent ends otherwise than in good order.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No address of a controller.
    #[error("{given:?} is not the address of a controller; give one such as 127.0.0.1:7447")]
    Address {
        /// What was given.
        given: String,
    },
    /// An address that others could reach.
    #[error(
        "{given} is not a loopback address; until mutual TLS exists, agent and controller run on one \
         machine: use 127.0.0.1 and the controller's port"
    )]
    NotLoopback {
        /// What was given.
        given: String,
    },
    /// Nobody answered.
    #[error(
        "no controller answered at {address} within {waited}; start `ringbreaker serve` first, or \
         check the address that it prints"
    )]
    NoController {
        /// Where.
        address: String,
        /// How long.
        waited: Nanos,
    },
    /// The controller was there and is gone.
    #[error(
        "the controller at {address} was not heard for {lease}; every fault was healed and the case \
         ended"
    )]
    ControllerLost {
        /// Where.
        address: String,
        /// The lease.
        lease: Nanos,
    },
    /// The controller does not want this agent.
    #[error("the controller at {address} refuses this agent: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its words.
        reason: String,
    },
    /// An isolation that this machine does not offer.
    #[error("isolation {wanted:?} is not possible here, only {best:?}: {reason}")]
    Isolation {
        /// What was asked for.
        wanted: Isolation,
        /// What works.
        best: Isolation,
        /// Why not better.
        reason: String,
    },
    /// A file of the agent could not be used.
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
    /// The guard could not be started.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Observations cannot be kept.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Something is still in force or left behind.
    #[error(
        "not everything could be undone ({what}); the guard tries again now, and `ringbreaker recover` \
         does the same by hand"
    )]
    NotUndone {
        /// What.
        what: String,
    },
}
