//! The steps of building a node.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use ringbreaker_scenarios::{
    case::{Node, NodeLimits, Rank},
    event::Isolation,
    units::Bytes,
};

use super::{INTERFACE, Inside, MOST_NODES, NodeError, NodeSpec, VirtualNode, address};
use crate::{
    fabric::TunPort,
    sys::{
        cgroup::Cgroup,
        interface, mount,
        namespace::Namespaces,
        netlink, sysctl,
        tun::{self, Offload},
    },
};

/// The usual size of an Ethernet, so that segments and rates are as on a real link.
const MTU: u16 = 1500;
/// The kernel drops silently when a device's queue is full; shorter ones were seen to drop.
const QUEUE_PACKETS: u32 = 4096;
/// Size of a node's /dev/shm when nothing else is asked for. tmpfs takes memory only when written.
const SHM_SIZE: Bytes = Bytes(1 << 30);
/// Size of a node's own storage.
const STORAGE_SIZE: Bytes = Bytes(64 << 20);

impl NodeError {
    fn step(node: Node, step: &'static str) -> impl FnOnce(io::Error) -> NodeError {
        move |source| NodeError::Step { node, step, source }
    }
}

/// `Namespaces::create` fails with the kernel's own words before a node's step is known.
struct SetupError(NodeError);

impl From<io::Error> for SetupError {
    fn from(source: io::Error) -> SetupError {
        SetupError(NodeError::Step { node: 0, step: "make its namespaces", source })
    }
}

/// What is made inside of the namespaces.
struct Made {
    shm: OwnedFd,
    storage: Option<(PathBuf, OwnedFd)>,
    tun: File,
    offload: Offload,
}

pub(super) fn build(
    spec: &NodeSpec,
    isolation: Isolation,
) -> Result<(VirtualNode, Option<TunPort>), NodeError> {
    let node = spec.node;
    if node >= MOST_NODES {
        return Err(NodeError::NoAddress { node });
    }
    refuse_limits_without_isolation(spec, isolation)?;
    let mut built = VirtualNode {
        node,
        isolation,
        inside: None,
        cgroups: BTreeMap::new(),
        no_cgroups: None,
        nofile: spec.limits.nofile,
    };
    let port = match isolation {
        Isolation::Plain => None,
        Isolation::Namespaces | Isolation::UserNamespace => {
            let (namespaces, made) = Namespaces::create(|| setup(spec).map_err(SetupError))
                .map_err(|SetupError(error)| error.of(node))?;
            let Made { shm, storage, .. } = made;
            built.inside = Some(Inside { namespaces: Arc::new(namespaces), shm, storage });
            Some(TunPort { node, address: address(node), tun: made.tun, offload: made.offload })
        }
    };
    add_cgroups(&mut built, spec)?;
    Ok((built, port))
}

impl NodeError {
    /// The same error of another node.
    fn of(self, node: Node) -> NodeError {
        match self {
            NodeError::Step { step, source, .. } => NodeError::Step { node, step, source },
            other => other,
        }
    }
}

fn refuse_limits_without_isolation(spec: &NodeSpec, isolation: Isolation) -> Result<(), NodeError> {
    let NodeLimits { shm_size, memory_limit, nofile: _, sysctls } = &spec.limits;
    let refuse = |limit: &str, needs: &str| {
        let reason = format!("it needs {needs}, and this node is {isolation:?}");
        Err(NodeError::Limit { node: spec.node, limit: limit.to_owned(), reason })
    };
    if isolation == Isolation::Plain {
        if shm_size.is_some() {
            return refuse("shm_size", "a mount namespace");
        }
        if let Some(name) = sysctls.keys().next() {
            return refuse(name, "a network namespace");
        }
    }
    if memory_limit.is_some() && isolation != Isolation::Namespaces {
        return refuse("memory_limit", "memory cgroups, which need root");
    }
    Ok(())
}

/// Runs inside of the new namespaces.
fn setup(spec: &NodeSpec) -> Result<Made, NodeError> {
    let step = |step| NodeError::step(spec.node, step);
    let shm = Path::new("/dev/shm");
    mount::tmpfs(shm, Some(spec.limits.shm_size.unwrap_or(SHM_SIZE)))
        .map_err(step("mount its /dev/shm"))?;
    let shm = File::open(shm).map_err(step("open its /dev/shm"))?.into();
    let storage = spec.storage.as_deref().map(mount_storage).transpose();
    let storage = storage.map_err(step("mount its storage"))?;
    interface::bring_up("lo").map_err(step("bring up its loopback"))?;
    set_sysctls(spec)?;
    let (tun, offload) = tun::create(INTERFACE)
        .map_err(step("make its TUN device (is /dev/net/tun there, and may it be opened?)"))?;
    interface::set_mtu(INTERFACE, MTU).map_err(step("set the MTU"))?;
    if let Err(error) = netlink::set_queue_length(INTERFACE, QUEUE_PACKETS) {
        tracing::warn!(%error, "the device keeps its short queue: bursts may be dropped");
    }
    interface::set_address(INTERFACE, address(spec.node), 24).map_err(step("set its address"))?;
    interface::bring_up(INTERFACE).map_err(step("bring up its interface"))?;
    Ok(Made { shm, storage, tun, offload })
}

fn mount_storage(at: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    mount::tmpfs(at, Some(STORAGE_SIZE))?;
    Ok((at.to_owned(), File::open(at)?.into()))
}

fn set_sysctls(spec: &NodeSpec) -> Result<(), NodeError> {
    // The fabric carries IPv4; without this every interface sends IPv6 router solicitations.
    // Set before the interface exists, so that it never has an IPv6 address. Absent without IPv6.
    drop(sysctl::write("net.ipv6.conf.default.disable_ipv6", "1"));
    pin_congestion_control();
    for (name, value) in &spec.limits.sysctls {
        sysctl::write(&format!("net.ipv4.{name}"), value).map_err(|error| NodeError::Limit {
            node: spec.node,
            limit: name.clone(),
            reason: format!("net.ipv4.{name} = {value:?} was refused: {error}"),
        })?;
    }
    Ok(())
}

/// Runs inside of a namespace. A new one inherits the machine's choice of congestion control, which
/// would make runs differ between machines.
pub(crate) fn pin_congestion_control() {
    let pinned = ["cubic", "reno"]
        .iter()
        .any(|name| sysctl::write("net.ipv4.tcp_congestion_control", name).is_ok());
    if !pinned {
        tracing::warn!("neither cubic nor reno is available: the machine's default is used");
    }
}

/// The directories of the cgroups that building makes; none where there can be no cgroups.
pub(super) fn planned_cgroups(spec: &NodeSpec, isolation: Isolation) -> Vec<PathBuf> {
    if isolation != Isolation::Namespaces {
        return Vec::new();
    }
    let paths = |rank: &Rank| Cgroup::planned_paths(&cgroup_name(spec, *rank)).unwrap_or_default();
    spec.ranks.iter().flat_map(paths).collect()
}

fn cgroup_name(spec: &NodeSpec, rank: Rank) -> String {
    format!("{}-n{}-r{rank}", spec.tag, spec.node)
}

fn add_cgroups(built: &mut VirtualNode, spec: &NodeSpec) -> Result<(), NodeError> {
    if built.isolation != Isolation::Namespaces {
        built.no_cgroups = Some("memory cgroups need root and namespaces".to_owned());
        return Ok(());
    }
    let refuse = |reason| {
        let limit = "memory_limit".to_owned();
        NodeError::Limit { node: spec.node, limit, reason }
    };
    for &rank in &spec.ranks {
        match Cgroup::create(&cgroup_name(spec, rank)) {
            Ok(cgroup) => {
                // Kept first, so that it is removed should the limit be refused.
                built.cgroups.insert(rank, cgroup);
                if let (Some(cgroup), Some(limit)) = (built.cgroup(rank), spec.limits.memory_limit)
                {
                    cgroup
                        .set_memory_limit(Some(limit), false)
                        .map_err(|e| refuse(e.to_string()))?;
                }
            }
            Err(error) if spec.limits.memory_limit.is_some() => {
                return Err(refuse(error.to_string()));
            }
            Err(error) => {
                built.no_cgroups = Some(error.to_string());
                return Ok(());
            }
        }
    }
    Ok(())
}
