//! The nodes of a case and the network between them.

use std::{fs, io, path::PathBuf, sync::Arc};

use ringbreaker_scenarios::{
    case::{Node, NodeLimits},
    event::{Isolation, NodeAddress},
    fault::FaultKind,
};

use super::{Assignment, CaseError, environment::storage_path};
use crate::{
    fabric::{Fabric, TunPort},
    journal::{EntryId, Journal, Undo},
    node::{NodeSpec, VirtualNode},
};

/// What the ranks of a case live on. Dropping it removes everything, without a word about failures;
/// [`Site::remove`] says them.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) nodes: Arc<Vec<VirtualNode>>,
    pub(super) fabric: Option<Arc<Fabric>>,
    journal: Arc<Journal>,
    entry: Option<EntryId>,
}

impl Site {
    /// Builds all nodes and joins them.
    pub(super) fn build(
        assignment: &Assignment,
        isolation: Isolation,
        journal: Arc<Journal>,
    ) -> Result<Site, CaseError> {
        let specs: Vec<NodeSpec> =
            (0..assignment.cluster.nodes).map(|node| spec(assignment, node)).collect();
        // Journalled before they are made, so that no moment of death leaves one behind.
        let planned: Vec<PathBuf> =
            specs.iter().flat_map(|spec| VirtualNode::planned_cgroups(spec, isolation)).collect();
        let entry = match planned.is_empty() {
            true => None,
            false => Some(
                journal
                    .record(&Undo::RemoveCgroup { paths: planned.clone() })
                    .map_err(|source| CaseError::Step { step: "write the journal", source })?,
            ),
        };
        let built = build_nodes(assignment, &specs, isolation);
        if let (Err(_), Some(entry), false) = (&built, entry, planned.iter().any(|p| p.exists())) {
            mark_done(&journal, entry);
        }
        let (nodes, ports) = built?;
        let mut site = Site { nodes: Arc::new(nodes), fabric: None, journal, entry };
        if ports.is_empty() {
            return Ok(site);
        }
        match Fabric::start(ports, assignment.seed) {
            Ok(fabric) => {
                site.fabric = Some(Arc::new(fabric));
                Ok(site)
            }
            Err(error) => {
                site.abandon();
                Err(error.into())
            }
        }
    }

    /// Takes everything down when the case cannot begin. What remains stays in the journal, where
    /// the agent finds it when it leaves.
    pub(super) fn abandon(self) {
        for what in self.remove() {
            tracing::warn!(what, "left by a case that could not begin");
        }
    }

    /// The address of each node.
    pub(super) fn addresses(&self) -> Vec<NodeAddress> {
        let address = |node: &VirtualNode| NodeAddress {
            node: node.node(),
            address: node.address().to_string(),
        };
        self.nodes.iter().map(address).collect()
    }

    /// Takes everything down; what could not be removed stays in the journal and is said. Everybody
    /// else must have let go of the nodes.
    pub(super) fn remove(mut self) -> Vec<String> {
        self.fabric = None;
        let Some(nodes) = Arc::get_mut(&mut self.nodes) else {
            return vec!["nodes that something still holds".to_owned()];
        };
        let failures: Vec<String> = nodes
            .iter_mut()
            .filter_map(|node| node.remove_cgroups().err().map(|error| error.to_string()))
            .collect();
        if failures.is_empty()
            && let Some(entry) = self.entry.take()
        {
            mark_done(&self.journal, entry);
        }
        failures
    }
}

fn build_nodes(
    assignment: &Assignment,
    specs: &[NodeSpec],
    isolation: Isolation,
) -> Result<(Vec<VirtualNode>, Vec<TunPort>), CaseError> {
    let mut nodes = Vec::new();
    let mut ports = Vec::new();
    for spec in specs {
        if assignment.uses_storage(spec.node) {
            let storage = storage_path(&assignment.directory, spec.node);
            fs::create_dir_all(&storage).map_err(CaseError::file("create", &storage))?;
        }
        let (built, port) = VirtualNode::build(spec, isolation)?;
        nodes.push(built);
        ports.extend(port);
    }
    Ok((nodes, ports))
}

/// A mark that cannot be written costs nothing but a needless undo later.
pub(super) fn mark_done(journal: &Journal, entry: EntryId) {
    let marked: io::Result<()> = journal.done(entry);
    if let Err(error) = marked {
        tracing::warn!(%error, "could not mark a journal entry as done");
    }
}

fn spec(assignment: &Assignment, node: Node) -> NodeSpec {
    let case = &assignment.case;
    NodeSpec {
        node,
        ranks: assignment.ranks_of(node).collect(),
        limits: limits(assignment, node),
        storage: assignment.stores_apart(node).then(|| storage_path(&assignment.directory, node)),
        // Lanes are processes and run one case at a time.
        tag: format!("{}-{}-{}-{node}", std::process::id(), case.index, case.attempt),
    }
}

/// The plan's limits, with a small /dev/shm where a fault asks for it: it must be so before the
/// first rank exists.
fn limits(assignment: &Assignment, node: Node) -> NodeLimits {
    let mut limits = assignment.limits.clone();
    for fault in &assignment.faults {
        if let FaultKind::LimitShm(limit) = &fault.kind
            && fault.target.nodes.contains(&node)
        {
            limits.shm_size = Some(limit.to);
        }
    }
    limits
}
