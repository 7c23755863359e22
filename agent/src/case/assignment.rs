//! What one case is for this agent: its plan without the parts that only reports need.

use std::{fmt, path::PathBuf};

use ringbreaker_scenarios::{
    case::{ClusterPlan, FaultPlan, Node, NodeLimits, Rank, RankPlan, WorkloadPlan},
    fault::FaultKind,
    units::Nanos,
    words::Backend,
};
use serde::{Deserialize, Serialize};

/// Which attempt at which case of which run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CaseId {
    /// Id of the run.
    pub run: String,
    /// Position of the case within the run.
    pub index: u32,
    /// Which attempt.
    pub attempt: u32,
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case {} of run {} (attempt {})", self.index, self.run, self.attempt)
    }
}

/// Everything an agent needs to carry out one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Which case.
    pub case: CaseId,
    /// What ranks run.
    pub backend: Backend,
    /// Path of libnccl; none: this agent's own choice.
    pub nccl: Option<PathBuf>,
    /// Nodes and ranks.
    pub cluster: ClusterPlan,
    /// What ranks do.
    pub workload: WorkloadPlan,
    /// What each rank gets, in order of rank.
    pub ranks: Vec<RankPlan>,
    /// Kernel limits of every node.
    pub limits: NodeLimits,
    /// The faults; their ids are their positions.
    pub faults: Vec<FaultPlan>,
    /// Seed of the fabric's draws.
    pub seed: u64,
    /// Names whose readers the case wants to be told about.
    pub settings: Vec<String>,
    /// Where logs and black boxes go, absolute.
    pub directory: PathBuf,
    /// Ranks share the GPU through an MPS server of their own.
    pub private_mps: bool,
}

impl Assignment {
    /// Number of ranks.
    pub fn world(&self) -> u32 {
        self.cluster.nodes * self.cluster.ranks_per_node
    }

    /// The node a rank runs on; ranks fill nodes in order.
    pub fn node_of(&self, rank: Rank) -> Node {
        rank / self.cluster.ranks_per_node
    }

    /// Whether a node gets storage of its own, because a fault is to act on it.
    pub fn stores_apart(&self, node: Node) -> bool {
        let on_storage = |fault: &&FaultPlan| {
            matches!(
                fault.kind,
                FaultKind::FillStorage(_)
                    | FaultKind::ReadOnlyStorage(_)
                    | FaultKind::SlowStorage(_)
            )
        };
        self.faults.iter().filter(on_storage).any(|fault| fault.target.nodes.contains(&node))
    }

    /// Whether a rank logs into a pipe, because a fault is to act on it.
    pub fn pipes_log(&self, rank: Rank) -> bool {
        self.faults.iter().any(|fault| {
            matches!(fault.kind, FaultKind::SlowLog(_)) && fault.target.ranks.contains(&rank)
        })
    }

    /// Whether anybody writes to the storage of a node.
    pub fn uses_storage(&self, node: Node) -> bool {
        self.workload.checkpoint.is_some() || self.stores_apart(node)
    }

    /// What faults add to the clocks of a rank, in nanoseconds.
    pub fn clock_offset(&self, rank: Rank) -> i64 {
        let shifts = self.faults.iter().filter(|fault| fault.target.ranks.contains(&rank));
        let offset = |fault: &FaultPlan| match &fault.kind {
            FaultKind::ShiftClock(shift) => shift.offset(),
            _ => 0,
        };
        shifts.map(offset).sum()
    }

    /// What the agent's clock read when that of a rank read this.
    pub fn agents_time(&self, rank: Rank, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add_signed(self.clock_offset(rank).saturating_neg()))
    }

    /// The ranks of a node.
    pub fn ranks_of(&self, node: Node) -> impl Iterator<Item = Rank> + use<> {
        let per_node = self.cluster.ranks_per_node;
        node * per_node..(node + 1) * per_node
    }
}
