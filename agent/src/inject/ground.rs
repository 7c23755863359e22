//! What injectors act on: the nodes, ranks and links of one case.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
};

use ringbreaker_scenarios::{
    case::{Node, Rank},
    event::Isolation,
};

use super::{InjectError, Links, RankProcess, layers::Layers, memory::Limit, volume::Volume};
use crate::{fabric::Fabric, log_pipe::LogPipe, node::VirtualNode, program};

/// The case, as injectors see it. Cheap to clone; every clone shares the nodes.
#[derive(Clone)]
pub struct Ground {
    nodes: Arc<Vec<VirtualNode>>,
    links: Option<Arc<Links>>,
    ranks: Vec<RankProcess>,
    /// Where rank 0 listens, if that is fixed.
    pub(super) rendezvous_port: Option<u16>,
    /// Where helper processes leave their complaints.
    pub(super) directory: PathBuf,
    program: Option<PathBuf>,
    gpus: BTreeMap<Rank, u32>,
    /// The pipes that logs of ranks go through.
    pub(super) log_pipes: BTreeMap<Rank, Arc<LogPipe>>,
    /// The memory limits of ranks' cgroups, as faults change them.
    pub(super) memory_limits: Layers<Rank, Limit>,
    /// The ranges of automatic ports of nodes.
    pub(super) port_ranges: Layers<Node, String>,
    /// Which file systems of nodes are covered by a read-only view.
    pub(super) covers: Layers<(Node, Volume), bool>,
    /// How many files the /dev/shm of a node may hold.
    pub(super) shm_inodes: Layers<Node, u64>,
}

/// The nodes that a fault acts on.
#[derive(Clone)]
pub(super) struct Targets {
    all: Arc<Vec<VirtualNode>>,
    chosen: Vec<usize>,
}

impl Targets {
    pub(super) fn iter(&self) -> impl Iterator<Item = &VirtualNode> {
        // Positions were taken from this very list, which never changes.
        self.chosen.iter().filter_map(|index| self.all.get(*index))
    }

    /// Runs `work` inside a node, with one error for both ways to fail.
    pub(super) fn inside<T: Send>(
        node: &VirtualNode,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        node.inside(work)?
    }
}

impl Ground {
    /// The ground of a case whose ranks run.
    pub fn new(
        nodes: Arc<Vec<VirtualNode>>,
        fabric: Option<Arc<Fabric>>,
        ranks: Vec<RankProcess>,
        rendezvous_port: Option<u16>,
        directory: PathBuf,
    ) -> Ground {
        let links = fabric.map(|fabric| Arc::new(Links::new(fabric)));
        Ground {
            nodes,
            links,
            ranks,
            rendezvous_port,
            directory,
            program: None,
            gpus: BTreeMap::new(),
            log_pipes: BTreeMap::new(),
            memory_limits: Layers::default(),
            port_ranges: Layers::default(),
            covers: Layers::default(),
            shm_inodes: Layers::default(),
        }
    }

    /// Takes helper processes from this executable instead of the running one.
    #[must_use]
    pub fn with_program(mut self, program: PathBuf) -> Ground {
        self.program = Some(program);
        self
    }

    /// Says which GPU (CUDA device index) each rank uses; without, GPU faults are refused.
    #[must_use]
    pub fn with_gpus(mut self, gpus: BTreeMap<Rank, u32>) -> Ground {
        self.gpus = gpus;
        self
    }

    /// Says which ranks log into a pipe; without, faults of logs are refused.
    #[must_use]
    pub fn with_log_pipes(mut self, pipes: BTreeMap<Rank, Arc<LogPipe>>) -> Ground {
        self.log_pipes = pipes;
        self
    }

    /// The GPUs that ranks of these nodes use.
    pub(super) fn gpus_of(&self, nodes: &[Node]) -> BTreeSet<u32> {
        let here = self.ranks.iter().filter(|rank| nodes.contains(&rank.node));
        here.filter_map(|rank| self.gpus.get(&rank.rank).copied()).collect()
    }

    pub(super) fn program(&self) -> io::Result<PathBuf> {
        self.program.clone().map_or_else(program::program, Ok)
    }

    pub(super) fn nodes(
        &self,
        fault: &'static str,
        chosen: &[Node],
    ) -> Result<Targets, InjectError> {
        let find = |node: &Node| {
            self.nodes
                .iter()
                .position(|known| known.node() == *node)
                .ok_or_else(|| InjectError::NoTarget { fault, target: format!("node {node}") })
        };
        let chosen = some(fault, "no node", chosen)?.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Targets { all: Arc::clone(&self.nodes), chosen })
    }

    /// The same, of nodes with namespaces of their own: without, a fault would hit the machine.
    pub(super) fn isolated(
        &self,
        fault: &'static str,
        chosen: &[Node],
    ) -> Result<Targets, InjectError> {
        let targets = self.nodes(fault, chosen)?;
        if targets.iter().any(|node| node.isolation() == Isolation::Plain) {
            let reason = "the node has no namespaces of its own; run as root, or where user \
                          namespaces are allowed";
            return Err(InjectError::not_possible(fault, reason));
        }
        Ok(targets)
    }

    pub(super) fn ranks(
        &self,
        fault: &'static str,
        chosen: &[Rank],
    ) -> Result<Vec<RankProcess>, InjectError> {
        let find = |rank: &Rank| {
            self.ranks
                .iter()
                .copied()
                .find(|known| known.rank == *rank)
                .ok_or_else(|| InjectError::NoTarget { fault, target: format!("rank {rank}") })
        };
        some(fault, "no rank", chosen)?.iter().map(find).collect()
    }

    pub(super) fn links(
        &self,
        fault: &'static str,
        directions: &[(Node, Node)],
    ) -> Result<Arc<Links>, InjectError> {
        let links = self.links.as_ref().ok_or_else(|| {
            InjectError::not_possible(fault, "there is no fabric between nodes without namespaces")
        })?;
        for (from, to) in some(fault, "no link", directions)? {
            links.known(*from, *to).map_err(|_| InjectError::NoTarget {
                fault,
                target: format!("the link from node {from} to node {to}"),
            })?;
        }
        Ok(Arc::clone(links))
    }
}

/// A fault on nothing would be reported as injected and never seen.
fn some<'a, T>(
    fault: &'static str,
    nothing: &str,
    chosen: &'a [T],
) -> Result<&'a [T], InjectError> {
    if chosen.is_empty() {
        return Err(InjectError::NoTarget { fault, target: nothing.to_owned() });
    }
    Ok(chosen)
}
