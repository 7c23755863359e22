//! The environment of a rank: what the plan says, on top of what this machine needs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use ringbreaker_scenarios::{
    case::{Node, Rank},
    event::Isolation,
    words::Backend,
};

use super::{Assignment, equipment::Equipment};
use crate::node::{self, VirtualNode};

/// What a rank finds in its environment, beside the agent's own.
pub(super) fn environment(
    assignment: &Assignment,
    rank: Rank,
    nodes: &[VirtualNode],
    equipment: &Equipment,
) -> BTreeMap<String, String> {
    let mut env = equipment.env.clone();
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    let isolation = nodes.first().map_or(Isolation::Plain, VirtualNode::isolation);
    let interface = match isolation {
        // Never the machine's own network.
        Isolation::Plain => "lo",
        Isolation::Namespaces | Isolation::UserNamespace => node::INTERFACE,
    };
    set("NCCL_SOCKET_IFNAME", interface.to_owned());
    if let (Some(port), Some(first)) = (assignment.cluster.rendezvous_port, nodes.first()) {
        set("NCCL_COMM_ID", format!("{}:{port}", first.address()));
    }
    let node = assignment.node_of(rank);
    let apart = assignment.stores_apart(node);
    let piped = assignment.pipes_log(rank);
    if assignment.backend == Backend::Nccl || apart || piped {
        let log = match (piped, apart) {
            (true, _) => pipe_path(&assignment.directory, rank),
            (false, true) => log_path(&storage_path(&assignment.directory, node), rank, Log::Nccl),
            (false, false) => log_path(&assignment.directory, rank, Log::Nccl),
        };
        set("NCCL_DEBUG_FILE", log.to_string_lossy().into_owned());
        // Which transport was chosen is said at this level only.
        set("NCCL_DEBUG", "INFO".to_owned());
    }
    if assignment.backend == Backend::Nccl {
        // Loading every kernel of the library at once would cost each rank seconds and memory.
        set("CUDA_MODULE_LOADING", "LAZY".to_owned());
        set("NCCL_HOSTID", host_id(assignment, rank, equipment.gpus));
    }
    if let Some(plan) = assignment.ranks.get(rank as usize) {
        env.extend(plan.env.clone());
    }
    env
}

/// NCCL refuses two ranks of one host on one GPU ("Duplicate GPU detected"), so ranks that share
/// GPUs each claim a host of their own, and talk through NET/Socket. Otherwise a virtual node is a
/// host, so that what its ranks say to other nodes crosses the fabric.
fn host_id(assignment: &Assignment, rank: Rank, gpus: u32) -> String {
    match assignment.world() > gpus {
        true => format!("ringbreaker-rank-{rank}"),
        false => format!("ringbreaker-node-{}", assignment.node_of(rank)),
    }
}

/// The logs of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// Its standard output and error.
    Own,
    /// What NCCL writes.
    Nccl,
}

pub(super) fn log_path(directory: &Path, rank: Rank, log: Log) -> std::path::PathBuf {
    directory.join(match log {
        Log::Own => format!("rank{rank}.log"),
        Log::Nccl => format!("rank{rank}.nccl.log"),
    })
}

/// The pipe that NCCL's log of a rank goes through, where it does.
pub(super) fn pipe_path(directory: &Path, rank: Rank) -> PathBuf {
    directory.join(format!("rank{rank}.nccl.pipe"))
}

/// Where ranks of a node write what outlives them: checkpoints, and NCCL's log where a fault of storage
/// is planned.
pub(super) fn storage_path(directory: &Path, node: Node) -> PathBuf {
    directory.join(format!("storage{node}"))
}

pub(super) fn checkpoint_path(assignment: &Assignment, rank: Rank) -> Option<PathBuf> {
    let plan = assignment.workload.checkpoint.as_ref()?;
    let storage = storage_path(&assignment.directory, assignment.node_of(rank));
    plan.is_written_by(rank).then(|| storage.join(format!("rank{rank}.checkpoint")))
}

pub(super) fn spec_path(directory: &Path, rank: Rank) -> std::path::PathBuf {
    directory.join(format!("rank{rank}.spec.json"))
}

pub(super) fn blackbox_path(directory: &Path, rank: Rank) -> std::path::PathBuf {
    directory.join(format!("rank{rank}.blackbox"))
}
