//! What an agent and its ranks say to each other: JSON lines over a socket pair.
//!
//! ```text
//! agent                                   rank
//!   | -- spawn, spec file, fd ------------> |   process up, device held
//!   | <------------------------ Ready ----- |   (before-init)
//!   | -- MakeId (rank 0) -----------------> |
//!   | -- AwaitId (all others) ------------> |
//!   | <------------------------ Id -------- |
//!   | -- Init { id } (all) ---------------> |   init, first-op, warm-up
//!   | <------------------------ WarmedUp -- |
//!   | -- Go (all, when all are warm) -----> |   counted iterations
//!   | <------------------------ Observed -- |   any time
//!   | -- Abort (coordinated mode) --------> |
//! ```
//!
//! A rank whose socket closes ends: it has lost its agent.

use std::path::PathBuf;

use ringbreaker_scenarios::{
    case::{Rank, WatchdogPlan, WorkloadPlan},
    event::Event,
    units::Nanos,
    words::Backend,
};
use serde::{Deserialize, Serialize};

/// The rank's end of the socket pair is this descriptor.
pub const RANK_FD: i32 = 3;

/// How a rank says why it ended; reports read the same codes.
pub use ringbreaker_scenarios::event::{EXIT_AFTER_ERROR, EXIT_FINISHED, EXIT_HARNESS};

/// What a rank is to be and do, as a JSON file: `ringbreaker rank --spec FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSpec {
    /// What to run.
    pub backend: Backend,
    /// This rank.
    pub rank: Rank,
    /// Number of ranks.
    pub world: u32,
    /// The operations.
    pub workload: WorkloadPlan,
    /// Deadlines and error handling.
    pub watchdog: WatchdogPlan,
    /// Counted iterations whose beginning must be announced at once.
    pub announce: Vec<u32>,
    /// Absolute path of libnccl; none for the host backend.
    pub nccl: Option<PathBuf>,
    /// CUDA device index; none for the host backend.
    pub gpu: Option<u32>,
    /// Where its checkpoint goes; none: it writes none.
    #[serde(default)]
    pub checkpoint: Option<PathBuf>,
    /// The black box; none: no recorder (benchmarks of the recorder only).
    pub blackbox: Option<PathBuf>,
    /// How many operations the black box keeps.
    pub blackbox_ops: u32,
}

/// From agent to rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRank {
    /// Make the unique id (rank 0).
    MakeId,
    /// Rank 0 makes the unique id; the wait for it is a part of communicator creation, with its
    /// deadline, as the wait at a store is in training scripts.
    AwaitId,
    /// Create the communicator, then run the warm-up.
    Init {
        /// The unique id, in hexadecimal.
        id: String,
    },
    /// Run the counted iterations.
    Go,
    /// Abort now: the controller saw the first sign of trouble elsewhere.
    Abort,
}

/// From rank to agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromRank {
    /// The process is up and holds its device.
    Ready {
        /// Its reading of CLOCK_MONOTONIC.
        clock: Nanos,
    },
    /// The unique id, in hexadecimal.
    Id {
        /// The id.
        id: String,
    },
    /// Every warm-up operation is finished and right.
    WarmedUp,
    /// An entry of the history; its rank is this one.
    Observed(Event),
}
