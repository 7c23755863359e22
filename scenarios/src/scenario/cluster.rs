//! `[cluster]` and `[workload]`.

use super::{
    table::{Table, Value},
    value,
};
use crate::{
    case::{CheckpointPlan, ClusterPlan, WorkloadPlan},
    problem::Collector,
    units::{Bytes, Nanos},
    words::{CheckpointRanks, Collective, Dtype},
};

/// Nodes of a cluster: each has an address of one /24, and costs a namespace and a thread.
const MAX_NODES: u32 = 64;
/// Ranks of a node: each is a process.
const MAX_RANKS_PER_NODE: u32 = 64;
/// The largest buffer. A rank holds two of them, and the exact expected values.
const MAX_BYTES: Bytes = Bytes(16 << 30);
/// The largest checkpoint: under a fault it lies in memory.
const MAX_CHECKPOINT: Bytes = Bytes(1 << 30);

/// Reads `[cluster]`.
pub(super) fn cluster(mut t: Table<'_, '_>, c: &mut Collector<'_>) -> Option<ClusterPlan> {
    let nodes = t.required("nodes", "nodes = 2", c);
    let nodes = nodes.and_then(|v| value::whole(v, 1, MAX_NODES, c));
    let each = t.required("ranks_per_node", "ranks_per_node = 1", c);
    let each = each.and_then(|v| value::whole(v, 1, MAX_RANKS_PER_NODE, c));
    let port = t.optional("rendezvous_port");
    let rendezvous_port = port.and_then(|v| value::whole(v, 1, u32::from(u16::MAX), c));
    let span = t.span();
    t.finish(c);
    let (nodes, ranks_per_node) = (nodes?, each?);
    if nodes * ranks_per_node < 2 {
        c.at(
            span,
            "a single rank has no peer that could fail",
            "nodes x ranks_per_node of at least 2",
        );
        return None;
    }
    Some(ClusterPlan {
        nodes,
        ranks_per_node,
        rendezvous_port: rendezvous_port.and_then(|port| u16::try_from(port).ok()),
    })
}

/// What was right in `[workload]`: what it says by itself is held against faults even when its rest
/// is wrong.
#[derive(Default)]
pub(super) struct Workload {
    /// None when something was wrong.
    pub(super) plan: Option<WorkloadPlan>,
    /// None when that was wrong.
    pub(super) iterations: Option<u32>,
}

/// Reads `[workload]`. Sizes are held against the cluster where that is known.
pub(super) fn workload(
    mut t: Table<'_, '_>,
    cluster: Option<&ClusterPlan>,
    c: &mut Collector<'_>,
) -> Workload {
    let collectives = t.required("collective", "collective = \"all_reduce\"", c);
    let collectives = collectives.and_then(|v| value::one_or_more(v, c, value::word));
    let dtype = t.optional("dtype").map_or(Some(Dtype::F32), |v| value::word(v, c));
    let bytes_at = t.required("bytes", "bytes = \"1 MiB\"", c);
    let grain = grain(collectives.as_deref(), dtype, cluster);
    let bytes = bytes_at.and_then(|v| value::one_or_more(v, c, |v, c| buffer(v, grain, c)));
    let iterations = t.required("iterations", "iterations = 100", c);
    let iterations = iterations.and_then(|v| value::whole(v, 1, 100_000_000, c));
    let warmup = t.optional("warmup").map_or(Some(3), |v| warmup(v, c));
    let interval = t.optional("interval").map_or(Some(Nanos::ZERO), |v| value::duration(v, c));
    let check = t.optional("check").map_or(Some(true), |v| value::flag(v, c));
    let checkpoint = t.optional_table("checkpoint", c);
    let checkpoint = checkpoint.map_or(Some(None), |t| self::checkpoint(t, c).map(Some));
    t.finish(c);
    let plan = || {
        Some(WorkloadPlan {
            collectives: collectives?,
            dtype: dtype?,
            bytes: bytes?,
            iterations: iterations?,
            warmup: warmup?,
            interval: interval?,
            check: check?,
            checkpoint: checkpoint?,
        })
    };
    Workload { plan: plan(), iterations }
}

/// Reads `[workload.checkpoint]`.
fn checkpoint(mut t: Table<'_, '_>, c: &mut Collector<'_>) -> Option<CheckpointPlan> {
    let every = t.required("every", "every = 10", c);
    let every = every.and_then(|v| value::whole(v, 1, 100_000_000, c));
    let bytes_at = t.required("bytes", "bytes = \"1 MiB\"", c);
    let bytes = bytes_at.and_then(|v| {
        let bytes = value::size(v, c)?;
        if bytes.0 == 0 || bytes > MAX_CHECKPOINT {
            c.at(v.span(), "this size is out of range", format!("from 1 B to {MAX_CHECKPOINT}"));
            return None;
        }
        Some(bytes)
    });
    let ranks = t.optional("ranks").map_or(Some(CheckpointRanks::All), |v| value::word(v, c));
    t.finish(c);
    Some(CheckpointPlan { every: every?, bytes: bytes?, ranks: ranks? })
}

fn warmup(v: &Value<'_>, c: &mut Collector<'_>) -> Option<u32> {
    // Without one right operation there is no steady state that a fault could end.
    value::whole(v, 1, 100_000, c)
}

/// What every buffer size must be a multiple of: an element, and for operations that cut the buffer
/// into one part a rank, an element a rank.
fn grain(
    collectives: Option<&[Collective]>,
    dtype: Option<Dtype>,
    cluster: Option<&ClusterPlan>,
) -> u64 {
    let element = dtype.map_or(1, Dtype::size);
    let cuts = collectives.is_some_and(|all| all.iter().any(|one| is_cut(*one)));
    match cluster {
        Some(cluster) if cuts => element * u64::from(cluster.nodes * cluster.ranks_per_node),
        _ => element,
    }
}

const fn is_cut(collective: Collective) -> bool {
    match collective {
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => true,
        Collective::AllReduce
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv => false,
    }
}

fn buffer(v: &Value<'_>, grain: u64, c: &mut Collector<'_>) -> Option<Bytes> {
    let Bytes(bytes) = value::size(v, c)?;
    if bytes == 0 || bytes > MAX_BYTES.0 {
        c.at(v.span(), "this size is out of range", format!("from 1 element to {MAX_BYTES}"));
        return None;
    }
    if bytes % grain != 0 {
        let right = bytes.next_multiple_of(grain);
        c.at(
            v.span(),
            format!("{bytes} bytes do not divide into whole elements, as many for each rank"),
            format!("a multiple of {grain} B, such as \"{right} B\""),
        );
        return None;
    }
    Some(Bytes(bytes))
}
