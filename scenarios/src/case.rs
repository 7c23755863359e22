//! The plan of one case: everything is decided, nothing has happened yet.
//!
//! The planner makes these from a scenario, a seed and a world; agents carry them out; reports are
//! written about them. A plan holds no path, no process id and no clock reading.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    fault::FaultKind,
    units::{Bytes, Nanos},
    words::{Backend, CheckpointRanks, Collective, Detector, Dtype, ErrorHandling, Outcome, Phase},
};

/// A rank's number within its communicator, from 0.
pub type Rank = u32;
/// A node's number within its cluster, from 0.
pub type Node = u32;

/// One cell of a scenario's matrix in one repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CasePlan {
    /// Position in the run, from 0; also the case's id within the run.
    pub index: u32,
    /// Name of the scenario it comes from.
    pub scenario: String,
    /// The matrix column: the fault or group of faults, or `clean`.
    pub column: String,
    /// The matrix row: the swept settings that tell this case from others, as typed.
    pub row: BTreeMap<String, String>,
    /// 1 for the first repetition.
    pub repetition: u32,
    /// Seed of this case's own draws (targets are drawn already; the fabric draws losses).
    pub seed: u64,
    /// What ranks run.
    pub backend: Backend,
    /// Nodes and ranks.
    pub cluster: ClusterPlan,
    /// What ranks do.
    pub workload: WorkloadPlan,
    /// Every setting in force, swept or not, as typed: environment variables in upper case, rank
    /// watchdog settings and kernel limits in lower case.
    pub settings: BTreeMap<String, String>,
    /// What each rank gets, in order of rank; differs from rank to rank only by `[[per_rank]]`.
    pub ranks: Vec<RankPlan>,
    /// Kernel limits of every node.
    pub limits: NodeLimits,
    /// The faults, all of this one case.
    pub faults: Vec<FaultPlan>,
    /// The controller tells all ranks to abort at the first sign.
    pub coordinated_abort: bool,
    /// When the case is ended by the harness, counted from the moment its ranks are told to begin.
    pub cap: Nanos,
    /// What must hold.
    pub expect: Expectation,
}

impl CasePlan {
    /// The swept settings as one line, `NCCL_TIMEOUT=2s error_handling=none`.
    pub fn row_label(&self) -> String {
        self.row.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    }

    /// Number of ranks.
    pub fn world(&self) -> u32 {
        self.cluster.nodes * self.cluster.ranks_per_node
    }

    /// The node a rank runs on; ranks fill nodes in order.
    pub fn node_of(&self, rank: Rank) -> Node {
        rank / self.cluster.ranks_per_node
    }
}

/// Nodes and ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Number of nodes.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// When set, rank 0 listens here for the others (NCCL_COMM_ID) instead of on a port of the
    /// kernel's choice.
    pub rendezvous_port: Option<u16>,
}

/// What ranks do: for each size, `warmup` clean operations, then `iterations` counted ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// The operations, taken in turn.
    pub collectives: Vec<Collective>,
    /// Element type.
    pub dtype: Dtype,
    /// Sizes of the largest buffer of an operation, in turn; for all_gather the receive buffer, for
    /// reduce_scatter the send buffer (as nccl-tests counts).
    pub bytes: Vec<Bytes>,
    /// Counted operations after the steady state gate, over all sizes and collectives.
    pub iterations: u32,
    /// Clean operations before the gate.
    pub warmup: u32,
    /// Pause between operations, as a training step would make.
    pub interval: Nanos,
    /// Compare every result with the exact expected values.
    pub check: bool,
    /// Files that ranks write between operations; none: they write none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointPlan>,
}

/// A checkpoint, as training scripts write one: a new file, written through to the disk, then renamed
/// over the last one. Who writes does nothing else meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPlan {
    /// After every so many counted operations.
    pub every: u32,
    /// How large the file is.
    pub bytes: Bytes,
    /// Who writes one.
    pub ranks: CheckpointRanks,
}

impl CheckpointPlan {
    /// Whether this rank writes.
    pub fn is_written_by(&self, rank: Rank) -> bool {
        match self.ranks {
            CheckpointRanks::All => true,
            CheckpointRanks::First => rank == 0,
        }
    }
}

/// What one rank gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlan {
    /// Environment variables, on top of the agent's own environment.
    pub env: BTreeMap<String, String>,
    /// The rank's watchdog.
    pub watchdog: WatchdogPlan,
}

/// The rank's watchdog, after PyTorch's: one thread that looks at unfinished work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogPlan {
    /// Deadline of communicator creation; none: waits for ever, as PyTorch does.
    pub init_timeout: Option<Nanos>,
    /// Deadline of the first operation (connections are made in it); none: `op_timeout`.
    pub first_op_timeout: Option<Nanos>,
    /// Deadline of each operation, from enqueue; none: never (raw NCCL).
    pub op_timeout: Option<Nanos>,
    /// What happens on an error or timeout.
    pub error_handling: ErrorHandling,
    /// The calling thread waits for each operation itself, aborts and ends on error or timeout;
    /// no watchdog runs (TORCH_NCCL_BLOCKING_WAIT).
    pub blocking_wait: bool,
    /// How often the watchdog looks. PyTorch: 100 ms.
    pub poll: Nanos,
    /// How long the watchdog waits between noticing and acting, for dumps. PyTorch 2.7+: 60 s;
    /// earlier releases and the default here: none.
    pub dump_wait: Nanos,
}

impl Default for WatchdogPlan {
    fn default() -> WatchdogPlan {
        WatchdogPlan {
            init_timeout: None,
            first_op_timeout: None,
            op_timeout: None,
            error_handling: ErrorHandling::SkipCleanup,
            blocking_wait: false,
            poll: Nanos::from_millis(100),
            dump_wait: Nanos::ZERO,
        }
    }
}

/// Kernel limits of a node or of the ranks on it. None: as the machine has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLimits {
    /// Size of /dev/shm.
    pub shm_size: Option<Bytes>,
    /// Memory limit of each rank's cgroup.
    pub memory_limit: Option<Bytes>,
    /// Soft and hard limit of open descriptors of each rank.
    pub nofile: Option<u64>,
    /// net.ipv4 sysctls of the node's network namespace, by short name, such as `tcp_retries2`.
    pub sysctls: BTreeMap<String, String>,
}

/// A fault of a case: kind, target, trigger and lifetime, all drawn and resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultPlan {
    /// Position within the case, from 0.
    pub id: u32,
    /// How reports name it, such as `kill rank 1`.
    pub label: String,
    /// Kind and parameters.
    pub kind: FaultKind,
    /// When it is injected.
    pub when: Trigger,
    /// What it acts on.
    pub target: Target,
    /// When it is healed, counted from its effect; none: at the end of the case.
    pub lasts: Option<Nanos>,
    /// How long it may live without being renewed by the controller.
    pub lease: Nanos,
}

/// What a fault is injected on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// This long after steady state.
    After(Nanos),
    /// When the first target rank (for links and nodes: any rank) begins this counted iteration.
    Iteration(u32),
    /// When the first target rank (for links and nodes: any rank) enters this phase.
    Phase(Phase),
}

/// A resolved target: which of the lists is used follows from the kind (`FaultKind::acts_on`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Rank processes.
    pub ranks: Vec<Rank>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Directions `(from, to)` of links between nodes.
    pub directions: Vec<(Node, Node)>,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::After(time) => write!(f, "{time} after steady state"),
            Trigger::Iteration(number) => write!(f, "at iteration {number}"),
            Trigger::Phase(phase) => write!(f, "in phase {phase}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(numbers("rank", &self.ranks));
        parts.extend(numbers("node", &self.nodes));
        for &(from, to) in &self.directions {
            let both = self.directions.contains(&(to, from));
            if !both {
                parts.push(format!("link {from} -> {to}"));
            } else if from < to {
                parts.push(format!("link {from} <-> {to}"));
            }
        }
        f.pad(&parts.join(", "))
    }
}

/// `rank 3`, `ranks 1, 2`, or nothing.
fn numbers(what: &str, list: &[u32]) -> Option<String> {
    let texts: Vec<String> = list.iter().map(u32::to_string).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(format!("{what} {one}")),
        many => Some(format!("{what}s {}", many.join(", "))),
    }
}

/// What must hold for the verdict `pass`. Empty lists and nones demand nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// The outcome is one of these.
    pub outcome: Vec<Outcome>,
    /// The first detector is one of these.
    pub detector: Vec<Detector>,
    /// From effect to first detection.
    pub detected_within: Option<Nanos>,
    /// From effect until the last rank was gone.
    pub ended_within: Option<Nanos>,
    /// Nothing of the job (shm files, sockets, processes, GPU memory) is left; default true.
    pub no_leftovers: Option<bool>,
}
