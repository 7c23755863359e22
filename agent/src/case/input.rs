//! What the thread of a case hears.

use ringbreaker_scenarios::{
    case::Rank,
    event::{EndReason, ExitStatus},
    units::Nanos,
};
use tokio::sync::oneshot;

use crate::rank::protocol::FromRank;

/// Where the answer to a command goes: done, or refused with the reason.
pub type Answer = oneshot::Sender<Result<(), String>>;

/// From the service and from the ranks.
#[derive(Debug)]
pub(super) enum Input {
    /// Command: let the ranks initialise.
    Begin(Answer),
    /// Command: tell all ranks to abort.
    AbortRanks(Answer),
    /// Command: end everything.
    Finish(EndReason, Answer),
    /// The controller was heard.
    Renewed,
    /// A rank said something.
    Said { rank: Rank, at: Nanos, said: FromRank },
    /// A rank said what nobody understands.
    Garbled { rank: Rank, at: Nanos, line: String },
    /// A rank's process is gone.
    Exited { rank: Rank, at: Nanos, status: ExitStatus },
}
