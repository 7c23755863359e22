//! What is left after a case: of the job (a finding) and of ringbreaker (a failure).
//!
//! The case calls [`job`] when its ranks are gone and its faults healed, while the nodes still exist,
//! and [`harness`] when they have been removed. Both report what they find and remove what is ours to
//! remove. A node without namespaces of its own is not searched: what lies there may be anybody's.

use std::{fs, io, path::PathBuf};

use ringbreaker_scenarios::event::{Isolation, Owner};

use crate::{
    inject::{BALLAST_PREFIX, is_stale},
    journal::Journal,
    node::VirtualNode,
    sys::{cgroup::Cgroup, mount, sockets},
};

/// A left-over, and whose it is.
pub type LeftOver = (Owner, String);

/// What NCCL calls its segments in /dev/shm (NCCL src/misc/shmutils.cc).
pub(crate) const NCCL_PREFIX: &str = "nccl-";

/// What the ranks left on their nodes: shared memory, processes, listening sockets. And ballast of
/// ours that a fault should have taken along.
pub fn job(nodes: &[VirtualNode]) -> Vec<LeftOver> {
    let mut found = Vec::new();
    for node in nodes.iter().filter(|node| node.isolation() != Isolation::Plain) {
        for (what, part) in [
            ("/dev/shm", files(node)),
            ("storage", ballast(node)),
            ("processes", processes(node)),
            ("listening sockets", listeners(node)),
        ] {
            match part {
                Ok(part) => found.extend(part),
                Err(error) => found.push(unseen(node, what, &error)),
            }
        }
    }
    found
}

/// What could not be looked at may hide anything, so it counts as a left-over of ours.
fn unseen(node: &VirtualNode, what: &str, error: &io::Error) -> LeftOver {
    let node = node.node();
    (Owner::Harness, format!("the {what} of node {node} could not be looked at: {error}"))
}

fn files(node: &VirtualNode) -> io::Result<Vec<LeftOver>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(node.shm_path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let planted = || entry.metadata().is_ok_and(|file| is_stale(&file));
        let owner = match () {
            () if name.starts_with(BALLAST_PREFIX) => Owner::Harness,
            // The node's /dev/shm was empty: a file that is older than the job is a fault's.
            () if name.starts_with(NCCL_PREFIX) && planted() => Owner::Harness,
            () if name.starts_with(NCCL_PREFIX) => Owner::Job,
            () => continue,
        };
        let size = entry.metadata().map_or(0, |found| found.len());
        // The file system is the node's own and vanishes with it; removing is for what still runs.
        let removed =
            fs::remove_file(entry.path()).map_or_else(|e| e.to_string(), |()| "removed".into());
        found.push((
            owner,
            format!("node {}: /dev/shm/{name}, {size} bytes ({removed})", node.node()),
        ));
    }
    Ok(found)
}

/// Ballast of ours in the node's storage; checkpoints and logs belong there.
fn ballast(node: &VirtualNode) -> io::Result<Vec<LeftOver>> {
    let Some((_, storage)) = node.storage() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in fs::read_dir(storage)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(BALLAST_PREFIX) {
            found.push((Owner::Harness, format!("node {}: {name} in its storage", node.node())));
        }
    }
    Ok(found)
}

fn processes(node: &VirtualNode) -> io::Result<Vec<LeftOver>> {
    let inhabitants = node.inhabitants()?;
    let tell = |(pid, command)| {
        (Owner::Job, format!("node {}: process {pid} ({command}) still runs", node.node()))
    };
    Ok(inhabitants.into_iter().map(tell).collect())
}

fn listeners(node: &VirtualNode) -> io::Result<Vec<LeftOver>> {
    let sockets = node.inside(sockets::listening)??;
    let tell = |socket: sockets::Listening| {
        (Owner::Job, format!("node {}: port {} still listens", node.node(), socket.port))
    };
    Ok(sockets.into_iter().map(tell).collect())
}

/// What we left although the nodes are gone: cgroups (which are removed now, with what is in them),
/// journal entries that nobody marked as done, mounts.
pub fn harness(journal: &Journal, cgroups: &[PathBuf]) -> Vec<LeftOver> {
    let mut found = Vec::new();
    for path in cgroups.iter().filter(|path| path.exists()) {
        let removed = Cgroup::adopt(path)
            .and_then(|group| group.remove().map_err(io::Error::other))
            .map_or_else(|error| error.to_string(), |()| "removed".to_owned());
        found.push(format!("cgroup {} ({removed})", path.display()));
    }
    found.extend(journal.pending().iter().map(|(_, undo)| format!("not undone: {undo}")));
    match mount::ours() {
        Ok(mounts) => found.extend(mounts.iter().map(|at| format!("mount at {at}"))),
        Err(error) => found.push(format!("the mounts could not be looked at: {error}")),
    }
    found.into_iter().map(|what| (Owner::Harness, what)).collect()
}
