//! Virtual nodes: a network namespace, a private /dev/shm and a cgroup a rank.
//!
//! The case builds them and hands their ranks' [`Entry`] to the spawner; injectors act on them.
//! Namespaces have no name and vanish with the processes and descriptors that hold them; only cgroups
//! must be undone after a crash ([`VirtualNode::planned_cgroups`] is for the journal). The network
//! between nodes is the [`crate::fabric`]'s.

mod build;
mod probe;

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use ringbreaker_scenarios::{
    case::{Node, NodeLimits, Rank},
    event::Isolation,
};

use crate::{
    fabric::TunPort,
    sys::{
        cgroup::{Cgroup, CgroupError},
        namespace::Namespaces,
        process::Entry,
    },
};

pub(crate) use build::pin_congestion_control;
pub use probe::{Probed, isolation};
pub(crate) use probe::{isolation_as, planned_cgroups, tag};

/// Name of the fabric's interface inside a node, for settings such as NCCL_SOCKET_IFNAME.
pub const INTERFACE: &str = "eth0";
/// The most nodes that one fabric has addresses for.
pub const MOST_NODES: u32 = 250;

/// What a node is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its number within the cluster.
    pub node: Node,
    /// The ranks that will run on it.
    pub ranks: Vec<Rank>,
    /// Kernel limits.
    pub limits: NodeLimits,
    /// A directory, which must exist, over which the node gets a small file system of its own for what
    /// its ranks write; none: they write to the machine's.
    pub storage: Option<PathBuf>,
    /// Unique on this machine; names the cgroups.
    pub tag: String,
}

/// Why a node could not be built.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The fabric has no address for it.
    #[error("node {node} has no address: a cluster has at most {MOST_NODES} nodes on one machine")]
    NoAddress {
        /// Its number.
        node: Node,
    },
    /// A limit that cannot be set here.
    #[error("node {node}: {limit} cannot be set: {reason}")]
    Limit {
        /// Its number.
        node: Node,
        /// Name of the limit, as scenarios write it.
        limit: String,
        /// Why not, and what would help.
        reason: String,
    },
    /// A step failed.
    #[error("node {node}: could not {step}: {source}")]
    Step {
        /// Its number.
        node: Node,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A node, until it is dropped: then its cgroups are emptied (SIGKILL) and removed, and its
/// namespaces vanish with the last process in them.
#[derive(Debug)]
pub struct VirtualNode {
    node: Node,
    isolation: Isolation,
    inside: Option<Inside>,
    cgroups: BTreeMap<Rank, Cgroup>,
    no_cgroups: Option<String>,
    nofile: Option<u64>,
}

/// What only an isolated node has.
#[derive(Debug)]
struct Inside {
    namespaces: Arc<Namespaces>,
    /// Its /dev/shm, seen from the agent.
    shm: OwnedFd,
    /// Its storage: where it is inside, and as it is seen from the agent.
    storage: Option<(PathBuf, OwnedFd)>,
}

impl VirtualNode {
    /// Builds a node in about 2 ms, and the fabric's end of its network; no end when it is
    /// [`Isolation::Plain`].
    ///
    /// # Errors
    /// The step that failed; nothing remains of the node then.
    pub fn build(
        spec: &NodeSpec,
        isolation: Isolation,
    ) -> Result<(VirtualNode, Option<TunPort>), NodeError> {
        build::build(spec, isolation)
    }

    /// Its number.
    pub fn node(&self) -> Node {
        self.node
    }

    /// How it is kept apart.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Its address on the fabric, or 127.0.0.1 without isolation.
    pub fn address(&self) -> Ipv4Addr {
        match self.isolation {
            Isolation::Plain => Ipv4Addr::LOCALHOST,
            Isolation::Namespaces | Isolation::UserNamespace => address(self.node),
        }
    }

    /// A path under which this process reaches the node's /dev/shm, as long as the node lives.
    pub fn shm_path(&self) -> PathBuf {
        match &self.inside {
            Some(inside) => PathBuf::from(format!("/proc/self/fd/{}", inside.shm.as_raw_fd())),
            None => PathBuf::from("/dev/shm"),
        }
    }

    /// The node's own storage: its path inside the node, and one under which this process reaches it as
    /// long as the node lives. None: it has none.
    pub fn storage(&self) -> Option<(&Path, PathBuf)> {
        let (inside, descriptor) = self.inside.as_ref()?.storage.as_ref()?;
        let outside = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        Some((inside, outside))
    }

    /// Runs `work` inside the node's network and mount namespaces, in a short-lived OS thread.
    /// Sockets made there stay on the node when they are used elsewhere.
    ///
    /// # Errors
    /// When the namespaces cannot be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match &self.inside {
            Some(inside) => inside.namespaces.inside(work),
            None => Ok(work()),
        }
    }

    /// The processes on it: id and command name. None without namespaces of its own.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn inhabitants(&self) -> io::Result<Vec<(u32, String)>> {
        self.inside
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |inside| inside.namespaces.inhabitants())
    }

    /// Its namespaces; none without isolation.
    pub(crate) fn namespaces(&self) -> Option<&Namespaces> {
        self.inside.as_ref().map(|inside| &*inside.namespaces)
    }

    /// What a child of this rank does before its program begins.
    pub fn entry(&self, rank: Rank) -> Entry {
        Entry {
            namespaces: self.inside.as_ref().map(|inside| Arc::clone(&inside.namespaces)),
            time: None,
            cgroup_procs: self.cgroup(rank).map(Cgroup::procs_files).unwrap_or_default(),
            nofile: self.nofile,
        }
    }

    /// The cgroup of a rank; none where there are none (see [`VirtualNode::no_cgroups`]).
    pub fn cgroup(&self, rank: Rank) -> Option<&Cgroup> {
        self.cgroups.get(&rank)
    }

    /// Why this node has no cgroups; none: it has them.
    pub fn no_cgroups(&self) -> Option<&str> {
        self.no_cgroups.as_deref()
    }

    /// The directories that [`VirtualNode::build`] will make and that must be removed if this process
    /// dies: for the journal, before they exist.
    pub fn planned_cgroups(spec: &NodeSpec, isolation: Isolation) -> Vec<PathBuf> {
        build::planned_cgroups(spec, isolation)
    }

    /// The directories of its cgroups.
    pub fn cgroup_paths(&self) -> Vec<PathBuf> {
        self.cgroups.values().flat_map(Cgroup::paths).collect()
    }

    /// Ends every process in its cgroups and removes them.
    ///
    /// # Errors
    /// The first group that could not be removed; the others are.
    pub fn remove_cgroups(&mut self) -> Result<(), CgroupError> {
        let mut first = Ok(());
        for (_, cgroup) in std::mem::take(&mut self.cgroups) {
            let removed = cgroup.remove();
            first = first.and(removed);
        }
        first
    }
}

impl Drop for VirtualNode {
    fn drop(&mut self) {
        if let Err(error) = self.remove_cgroups() {
            tracing::warn!(node = self.node, %error, "a cgroup remains");
        }
    }
}

/// The address of a node on every fabric. Fabrics do not see each other, so lanes share addresses.
pub(crate) fn address(node: Node) -> Ipv4Addr {
    let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 77, 0, last)
}
