//! What is reported about one case. Plain data; every field follows from the history.
//!
//! Times since the fault's effect are none where there was no effect (a clean case, or a fault
//! without witness) or where the thing never happened. Something that happened before the effect
//! has its moment (`at`), and no time since.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::{Node, Rank},
    event::{EndReason, ExitStatus, HealReason, Isolation},
    units::Nanos,
    words::{Detector, Outcome, Phase},
};
use serde::Serialize;

/// What happened in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    /// Exactly one of the closed set.
    pub outcome: Outcome,
    /// Why it is that one, as a sentence.
    pub why: String,
    /// Each rank, in order.
    pub ranks: Vec<RankReport>,
    /// The job as a whole.
    pub job: JobReport,
    /// Each planned fault, in order.
    pub faults: Vec<FaultReport>,
    /// Operation times before and after the effect, one entry a collective and size.
    pub latency: Vec<LatencyReport>,
    /// Settings of the case that nothing in the backend reads, with what was looked at.
    pub unread: BTreeMap<String, String>,
    /// Versions the ranks ran on, such as `nccl = 2.28.9`.
    pub stack: BTreeMap<String, String>,
    /// What carried data between ranks, where known.
    pub transport: Option<String>,
    /// How ranks were kept apart from the machine.
    pub isolation: Option<Isolation>,
}

/// A moment, and how long after the first effect of a fault it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC.
    pub at: Nanos,
    /// Time since the effect; none: no effect, or this was before it.
    pub since_effect: Option<Nanos>,
}

/// What happened to one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankReport {
    /// The rank.
    pub rank: Rank,
    /// The node it ran on.
    pub node: Node,
    /// Whether the outcome asks how it ended; not so for a rank that was killed, or that was
    /// stopped until the end.
    pub survivor: bool,
    /// The phase it was in when it noticed, or else the last one it entered.
    pub phase: Option<Phase>,
    /// What noticed first in this rank.
    pub detector: Detector,
    /// When it noticed.
    pub detected: Option<Moment>,
    /// When it called abort.
    pub abort_began: Option<Moment>,
    /// When abort returned.
    pub abort_ended: Option<Moment>,
    /// What abort returned.
    pub abort_code: Option<i32>,
    /// When the process was gone.
    pub exited: Option<Moment>,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// The harness ended it: it had not ended by itself.
    pub by_harness: bool,
    /// Result code that it noticed.
    pub code: Option<i32>,
    /// The name of that code, such as `ncclRemoteError`.
    pub error_class: Option<String>,
    /// What it said on noticing.
    pub message: Option<String>,
    /// Number of the last operation that it finished.
    pub last_finished_op: Option<u64>,
    /// Operations finished; none: no black box was read.
    pub ops_finished: Option<u64>,
    /// The rank that its message names as the cause.
    pub blames: Option<Rank>,
    /// Whether that rank was touched by a fault; none: it names nobody.
    pub blame_is_true: Option<bool>,
}

/// What happened to the job as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// When the ranks were told to begin.
    pub began: Option<Nanos>,
    /// When all of them were warm.
    pub steady: Option<Nanos>,
    /// When the first witnessed fault took effect.
    pub effect: Option<Nanos>,
    /// When the first rank noticed.
    pub detected: Option<Moment>,
    /// That rank.
    pub detected_by: Option<Rank>,
    /// What noticed.
    pub detector: Detector,
    /// When the last rank was gone, also where the harness ended it.
    pub gone: Option<Moment>,
    /// When the last survivor had ended by itself; none: one did not.
    pub survivors_gone: Option<Moment>,
    /// When the GPU memory of the ranks was free.
    pub gpu_memory_free: Option<Moment>,
    /// What the job left behind.
    pub leftovers_of_job: Vec<String>,
    /// What ringbreaker left behind.
    pub leftovers_of_harness: Vec<String>,
    /// When the case was over.
    pub ended: Option<Nanos>,
    /// Why it was over.
    pub end: Option<EndReason>,
}

/// What happened to one planned fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultReport {
    /// Its number within the case.
    pub id: u32,
    /// Its name, such as `kill rank 1`.
    pub label: String,
    /// When its trigger was reached.
    pub triggered: Option<Nanos>,
    /// When the injector had returned.
    pub injected: Option<Nanos>,
    /// When it took effect, as a witness saw it.
    pub effect: Option<Nanos>,
    /// What the witness saw.
    pub evidence: Option<String>,
    /// From trigger to effect.
    pub latency: Option<Nanos>,
    /// When it was undone, and that was verified.
    pub healed: Option<Nanos>,
    /// Why it was undone.
    pub healed_because: Option<HealReason>,
    /// Why it could not be felt and was not injected.
    pub unexposed: Option<String>,
    /// Why there was no effect, as far as known.
    pub unwitnessed: Option<String>,
    /// Why it could not be injected.
    pub failed: Option<String>,
    /// Why it could not be undone.
    pub heal_failed: Option<String>,
}

/// Times of the operations of one collective and size, over all surviving ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyReport {
    /// Collective and size, such as `all_reduce 1 MiB`.
    pub operation: String,
    /// Operations that had ended before the effect, warm-up included but for the first.
    pub clean: Option<Spread>,
    /// Operations under way at or after the effect, while the fault was in force.
    pub under_fault: Option<Spread>,
    /// Operations begun after the last fault was healed.
    pub after_heal: Option<Spread>,
}

/// A summary of several measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// The middle one.
    pub median: Nanos,
    /// Nine in ten are no longer.
    pub p90: Nanos,
    /// Ninety-nine in a hundred are no longer.
    pub p99: Nanos,
    /// The longest.
    pub max: Nanos,
}

impl Spread {
    /// Summarises; none for nothing. Percentiles are nearest-rank: always a value that was measured.
    pub fn of(mut values: Vec<Nanos>) -> Option<Spread> {
        values.sort_unstable();
        let max = *values.last()?;
        let count = values.len();
        let at = |percent: usize| values[(count * percent).div_ceil(100).max(1) - 1];
        Some(Spread { count, median: at(50), p90: at(90), p99: at(99), max })
    }
}
