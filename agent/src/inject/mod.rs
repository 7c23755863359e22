//! Fault injection: one trait, one file a family.
//!
//! A case makes an injector with [`injector`], writes what [`Injector::undo`] says to the journal,
//! and only then injects. Nothing here decides when: triggers, lifetimes and leases belong to the
//! case. Every injector touches only what ringbreaker made: its ranks, namespaces and cgroups.

use ringbreaker_scenarios::case::{Node, Rank};

use crate::journal::Undo;

/// One fault of one case, not yet injected, in force, or healed.
///
/// Calls come from one thread at a time and may block for some milliseconds (they read and write
/// the kernel's files, start helper processes, enter namespaces): not for the async runtime.
pub trait Injector: Send {
    /// What must be undone if the agent dies while the fault is in force; journalled before
    /// [`Injector::inject`]. Empty when nothing of the fault outlives the agent.
    fn undo(&self) -> Vec<Undo>;

    /// Applies the fault. After an error, [`Injector::heal`] takes back what was done by then.
    fn inject(&mut self) -> Result<(), InjectError>;

    /// Independent evidence that the fault took effect, as a sentence for reports; none: not seen
    /// yet. Called every few milliseconds after `inject` until it answers or the fault is healed.
    fn witness(&mut self) -> Option<String>;

    /// Takes the fault back and verifies that. Calling it again, or without `inject`, is harmless.
    fn heal(&mut self) -> Result<(), InjectError>;
}

/// A rank process of the case, as an injector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankProcess {
    /// Which rank.
    pub rank: Rank,
    /// The node it runs on.
    pub node: Node,
    /// Its process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot (field 22 of /proc/PID/stat), which tells it from a
    /// later process with the same id.
    pub start_time: u64,
}

/// Why a fault could not be injected or healed.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The plan names something that this case does not have.
    #[error("{fault} cannot act on {target}: this case has no such target")]
    NoTarget {
        /// Name of the kind.
        fault: &'static str,
        /// What was named.
        target: String,
    },
    /// This machine or this isolation cannot carry the fault.
    #[error("{fault} is not possible here: {reason}")]
    NotPossible {
        /// Name of the kind.
        fault: &'static str,
        /// Why, and what would make it possible.
        reason: String,
    },
    /// The kernel refused a step.
    #[error("{fault}: could not {step}: {source}")]
    Step {
        /// Name of the kind.
        fault: &'static str,
        /// What was tried, such as `stop rank 1`.
        step: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The fault was taken back, but the check afterwards still found it.
    #[error("{fault} is still in force after healing: {found}")]
    StillThere {
        /// Name of the kind.
        fault: &'static str,
        /// What was found.
        found: String,
    },
}
