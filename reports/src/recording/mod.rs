//! What real NCCL did, as files; and how the host stand-in is held to it.
//!
//! `ringbreaker run --record DIR` writes one JSON file a cell (fault and settings) with all its
//! repetitions; they are never written by hand. [`compare`] holds the stand-in's own recordings
//! against them; [`known`] holds the differences there are to a list of differences with reasons.

mod capture;
mod compare;
mod files;
pub mod known;

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::{FaultPlan, Rank, WorkloadPlan},
    event::ExitStatus,
    units::Nanos,
    words::{Backend, Detector, Outcome, Phase},
};
use serde::{Deserialize, Serialize};

pub use capture::capture;
pub use compare::{Aspect, Difference, compare};
pub use files::{RecordingError, read, write, write_one};

/// Number of the files' shape: fields are added within one number, never renamed or removed.
pub const FORMAT: u32 = 1;

/// All repetitions of one cell, on one stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// What it was recorded on.
    pub stack: Stack,
    /// Name of the scenario.
    pub scenario: String,
    /// The matrix column.
    pub column: String,
    /// The matrix row.
    pub row: BTreeMap<String, String>,
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// What ranks did.
    pub workload: WorkloadPlan,
    /// Every setting in force.
    pub settings: BTreeMap<String, String>,
    /// The faults, as drawn for the first repetition.
    pub faults: Vec<FaultPlan>,
    /// What happened, one entry a repetition.
    pub repetitions: Vec<Repetition>,
}

/// What a recording was made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// What ranks ran.
    pub backend: Backend,
    /// Versions as the ranks reported them: `nccl`, `driver`, `gpu`, ...
    pub versions: BTreeMap<String, String>,
    /// The machine as the run's header describes it: kernel, CPUs, ...
    pub environment: BTreeMap<String, String>,
    /// What carried data between ranks.
    pub transport: Option<String>,
    /// Version of ringbreaker.
    pub ringbreaker: String,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// When the run began, RFC 3339.
    pub recorded: String,
}

/// What happened in one repetition. Times count from the first effect of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Which one, from 1.
    pub repetition: u32,
    /// Seed of the case.
    pub seed: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Why that.
    pub why: String,
    /// Who noticed first.
    pub detector: Detector,
    /// When.
    pub detected: Option<Nanos>,
    /// In which rank.
    pub detected_by: Option<Rank>,
    /// The error class that this rank reported.
    pub error_class: Option<String>,
    /// When the last survivor had ended by itself.
    pub ended: Option<Nanos>,
    /// What witnesses saw of the faults, one entry a fault.
    pub evidence: Vec<Option<String>>,
    /// What the job left behind.
    pub leftovers: Vec<String>,
    /// Each rank.
    pub ranks: Vec<RankRecord>,
}

/// What happened to one rank. Times count from the first effect of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRecord {
    /// The rank.
    pub rank: Rank,
    /// Whether no fault took it out of the game.
    pub survivor: bool,
    /// Where it was.
    pub phase: Option<Phase>,
    /// What noticed.
    pub detector: Detector,
    /// When.
    pub detected: Option<Nanos>,
    /// Result code.
    pub code: Option<i32>,
    /// Its name.
    pub error_class: Option<String>,
    /// The message, with addresses and ports as they were.
    pub message: Option<String>,
    /// How long abort took.
    pub abort_took: Option<Nanos>,
    /// When the process was gone.
    pub exited: Option<Nanos>,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// The harness ended it.
    pub by_harness: bool,
    /// The rank that the message names.
    pub blames: Option<Rank>,
    /// Whether that is the truth.
    pub blame_is_true: Option<bool>,
}
