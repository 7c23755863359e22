//! What can be observed while a case runs: the entries of the append-only history.
//!
//! Events are facts with a time, never judgements; every report is a function of them. The agent
//! makes them, the wire carries them as they are, the store keeps them verbatim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    case::{Node, Rank},
    units::{Bytes, Nanos},
    words::{Backend, Collective, Detector, Phase},
};

/// Exit code of a rank: everything was done, every result right.
pub const EXIT_FINISHED: i32 = 0;
/// Exit code of a rank that could not understand its spec or lost its agent.
pub const EXIT_HARNESS: i32 = 2;
/// Exit code of a rank that noticed an error or a timeout and ended by itself.
pub const EXIT_AFTER_ERROR: i32 = 3;

/// One observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// CLOCK_MONOTONIC of the node when it happened (all ranks of a machine share that clock).
    pub at: Nanos,
    /// The rank it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// What happened.
    pub what: What,
}

/// The kinds of observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each variant's sentence says what its fields hold")]
pub enum What {
    /// The case's nodes were built. `transport` is what carries data between ranks, where known.
    Prepared { backend: Backend, isolation: Isolation, nodes: Vec<NodeAddress> },
    /// The libraries and versions a rank runs on, such as `nccl = 2.28.9`.
    Stack { versions: BTreeMap<String, String> },
    /// What carries data between ranks, read from the backend: `NET/Socket`, `SHM`, `P2P`, ...
    Transport { name: String },
    /// The case cannot be carried out here; nothing was injected.
    Unavailable { reason: String },
    /// A setting of this case that nothing in the backend reads, with what was looked at.
    SettingUnread { name: String, reason: String },
    /// A rank process exists.
    RankStarted { pid: u32 },
    /// A rank entered a phase.
    PhaseEntered { phase: Phase },
    /// All ranks may begin: the case's clock (its cap) starts here.
    Began,
    /// Every rank finished its warm-up operations with right results.
    Steady,
    /// A rank is about to enqueue this counted iteration (only those that a trigger waits for).
    IterationReached { iteration: u32 },
    /// The trigger of a fault was reached; its undo is journalled and synced.
    FaultTriggered { fault: u32 },
    /// The injector returned. Not evidence of an effect.
    FaultInjected { fault: u32 },
    /// Independent evidence that the fault took effect. The event's time is the moment of effect where
    /// the injector knows it (a signal was given to the kernel, the fabric took the first packet), else
    /// the moment at which the witness saw it.
    FaultWitnessed { fault: u32, evidence: String },
    /// The fault cannot touch what carries data between the ranks; it was not injected.
    FaultUnexposed { fault: u32, reason: String },
    /// No evidence was found before the fault ended.
    FaultUnwitnessed { fault: u32, reason: String },
    /// The injector failed; whatever it had done is undone.
    FaultFailed { fault: u32, reason: String },
    /// The fault is undone, and that was verified.
    FaultHealed { fault: u32, because: HealReason },
    /// The fault could not be undone.
    HealFailed { fault: u32, reason: String },
    /// A rank noticed that something is wrong. Each rank reports its first detection only.
    Detected(Detection),
    /// A rank called abort.
    AbortBegan,
    /// Abort returned with this result code.
    AbortEnded { code: i32 },
    /// A rank has written a checkpoint after this counted iteration; it took so long.
    CheckpointWritten { iteration: u32, took: Nanos },
    /// An operation reported success with wrong contents.
    WrongData { op: u64, expected: String, found: String, element: u64 },
    /// A rank process is gone.
    RankExited { status: ExitStatus, by_harness: bool },
    /// What the black box of a rank held when the case ended.
    Ops(OpSummary),
    /// A line of a rank's log that bears on the result.
    Log { line: String },
    /// GPU memory of the ranks was seen to be free again. Asking begins when the last rank is gone and
    /// takes some 0.3 s to begin: what was free by then was free at most that much earlier.
    GpuMemoryFree,
    /// Something was left after the last rank was gone; it has been removed where it was ours.
    LeftOver { of: Owner, what: String },
    /// The case is over.
    Ended { because: EndReason },
}

/// How ranks are kept apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A network namespace, a private /dev/shm and a cgroup a node, made as root.
    Namespaces,
    /// The same inside a user namespace, without cgroups.
    UserNamespace,
    /// None: ranks share the machine's loopback and /dev/shm.
    Plain,
}

/// The address of a node on the fabric (or 127.0.0.1 without isolation).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The node.
    pub node: Node,
    /// Its IPv4 address.
    pub address: String,
}

/// A rank noticed that something is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// What noticed.
    pub detector: Detector,
    /// The phase the rank was in.
    pub phase: Phase,
    /// Result code, where there is one: ncclResult_t as a plain integer.
    pub code: Option<i32>,
    /// The message, as the library or watchdog gave it.
    pub message: String,
    /// The operation in flight, by its number in the black box.
    pub op: Option<u64>,
    /// The rank that the message names as the cause, if it names one.
    pub blames: Option<Rank>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatus {
    /// It ended by itself with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// Why a fault was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealReason {
    /// Its planned life was over.
    LifeOver,
    /// The case ended.
    CaseEnded,
    /// Its lease ran out without being renewed.
    LeaseExpired,
    /// The user interrupted the run.
    Interrupted,
    /// The agent had died; the guard or `ringbreaker recover` undid it.
    Recovered,
}

/// Whose a left-over is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The job left it: a finding about the library.
    Job,
    /// ringbreaker left it: fails the run.
    Harness,
}

/// Why a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The last rank ended.
    RanksGone,
    /// The cap was reached; the harness killed what was left.
    Cap,
    /// The user interrupted the run.
    Interrupted,
    /// The agent or the controller was lost.
    AgentLost,
    /// None of its faults can be felt: nothing was left to wait for.
    Unexposed,
    /// It never began.
    Unavailable,
}

/// What a rank's black box held: counts, latencies and the last operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpSummary {
    /// Operations enqueued, warm-up included.
    pub enqueued: u64,
    /// Operations finished.
    pub finished: u64,
    /// Operations whose result was compared and right.
    pub checked_right: u64,
    /// Operations whose result was compared and wrong.
    pub checked_wrong: u64,
    /// The last operations, oldest first; bounded.
    pub last: Vec<OpRecord>,
}

/// One operation, as the black box keeps it. Times are CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpRecord {
    /// Number of the operation, from 0, warm-up included.
    pub op: u64,
    /// What it was.
    pub collective: Collective,
    /// Size as the workload counts it.
    pub bytes: Bytes,
    /// When it was enqueued.
    pub enqueued: Nanos,
    /// When its end was seen; none: never.
    pub ended: Option<Nanos>,
    /// Whether its contents were right; none: not compared.
    pub right: Option<bool>,
    /// Whether it was a warm-up operation.
    pub warmup: bool,
}
