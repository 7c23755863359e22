//! What a run is made of: its header, the plans of its cases, and what was observed in each.
//!
//! The controller makes these while it runs, [`crate::store`] keeps them, and every document is a
//! function of them. Nothing here is a judgement.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{case::CasePlan, event::Event, words::Backend};
use serde::{Deserialize, Serialize};

/// What is known about a run before its first case, and when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Unique within the store, such as `20261201-051530-3fa2`.
    pub id: String,
    /// Name of the scenario, or the path of its file, as it was given.
    pub scenario: String,
    /// The scenario's own one-line summary.
    pub summary: String,
    /// The scenario file, verbatim.
    pub scenario_text: String,
    /// Seed of every draw.
    pub seed: u64,
    /// What ranks ran.
    pub backend: Backend,
    /// When the run began, RFC 3339.
    pub started: String,
    /// When it ended, RFC 3339; none: it is still running, or it was cut short.
    pub ended: Option<String>,
    /// The command line that started it, one word an entry.
    pub command: Vec<String>,
    /// Version of ringbreaker.
    pub version: String,
    /// The commit it was built from, where known.
    pub commit: Option<String>,
    /// The machine and what runs on it: kernel, CPUs, GPUs, libraries.
    pub environment: BTreeMap<String, String>,
    /// What the node probe found, as text for people.
    pub probe: String,
    /// Remarks for the reader, such as settings that were flagged before the run.
    pub notes: Vec<String>,
}

/// Everything that was observed in one attempt at one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseHistory {
    /// What was to be done.
    pub plan: CasePlan,
    /// 1 for the first attempt; a case that was cut short is attempted again on resume.
    pub attempt: u32,
    /// What was observed, in the order in which it arrived.
    pub events: Vec<Event>,
}

/// A whole run, as loaded from the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHistory {
    /// About the run.
    pub header: RunHeader,
    /// The last attempt at each case that was attempted, in order of case.
    pub cases: Vec<CaseHistory>,
    /// Cases that were planned and never attempted, in order of case.
    pub pending: Vec<CasePlan>,
}
