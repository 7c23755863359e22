//! File systems of nodes' own, filled or closed while a job runs: /dev/shm, and the storage for checkpoints
//! and logs.
//!
//! Both are tmpfs of a mount namespace without a name: they vanish with the agent and its ranks, so
//! nothing here needs a journal entry. One that is the machine's own is never touched.

mod fill;
mod read_only;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::fcntl::{FallocateFlags, fallocate};
use ringbreaker_scenarios::units::Bytes;

pub(super) use self::{fill::Filled, read_only::ReadOnly};
use super::InjectError;
use crate::{
    node::VirtualNode,
    sys::{
        filesystem::{self, Space},
        procfs,
    },
};

/// What the name of a file begins with that takes space.
pub const BALLAST_PREFIX: &str = "ringbreaker-ballast-";
/// Files of ours may take one part in this many of the memory that the machine has available.
const MOST_SHARE: u64 = 4;
/// Where a node has its shared memory, seen from inside.
pub(super) const SHM: &str = "/dev/shm";

/// Which of a node's file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Volume {
    /// /dev/shm.
    Shm,
    /// What ranks write checkpoints and logs to.
    Storage,
}

impl Volume {
    /// As a noun, for reports.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Volume::Shm => SHM,
            Volume::Storage => "the storage",
        }
    }

    /// Its path inside the node.
    pub(super) fn inside(
        self,
        node: &VirtualNode,
        fault: &'static str,
    ) -> Result<PathBuf, InjectError> {
        match self {
            Volume::Shm => private(node, fault).map(|_| PathBuf::from(SHM)),
            Volume::Storage => storage(node, fault).map(|(inside, _)| inside),
        }
    }

    /// A path under which this process reaches it.
    pub(super) fn outside(
        self,
        node: &VirtualNode,
        fault: &'static str,
    ) -> Result<PathBuf, InjectError> {
        match self {
            Volume::Shm => private(node, fault),
            Volume::Storage => storage(node, fault).map(|(_, outside)| outside),
        }
    }
}

/// The node's storage, inside and outside.
fn storage(node: &VirtualNode, fault: &'static str) -> Result<(PathBuf, PathBuf), InjectError> {
    let reason = "the node was built without storage of its own";
    let found = node.storage().map(|(inside, outside)| (inside.to_owned(), outside));
    found.ok_or_else(|| InjectError::not_possible(fault, reason))
}

/// The node's /dev/shm, unless it is the machine's own.
pub(super) fn private(node: &VirtualNode, fault: &'static str) -> Result<PathBuf, InjectError> {
    let path = node.shm_path();
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let machine = device(Path::new(SHM)).ok();
    let here = device(&path).map_err(InjectError::step(fault, "look at the node's /dev/shm"))?;
    if machine == Some(here) {
        let reason = "the node shares the machine's /dev/shm".to_owned();
        return Err(InjectError::not_possible(fault, reason));
    }
    Ok(path)
}

pub(super) fn measure(path: &Path, fault: &'static str) -> Result<Space, InjectError> {
    filesystem::space(path).map_err(InjectError::step(fault, "measure a file system"))
}

/// Refuses to take so much of the machine's memory that more than the fault would be felt.
pub(super) fn afford(fault: &'static str, wanted: u64) -> Result<(), InjectError> {
    let available = procfs::memory_available()
        .map_err(InjectError::step(fault, "read how much memory is available"))?;
    if wanted <= available.0 / MOST_SHARE {
        return Ok(());
    }
    let reason = format!(
        "it would take {} of the machine's memory, of which {available} are free: give the node a \
         small /dev/shm with the setting shm_size",
        Bytes(wanted)
    );
    Err(InjectError::not_possible(fault, reason))
}

/// Makes a file longer by space that is really taken. A job that is quicker is no error: the next
/// round takes what is left.
pub(super) fn grow(file: &File, by: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    let [from, by] = [length, by].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    match fallocate(file, FallocateFlags::empty(), from, by) {
        Err(nix::errno::Errno::ENOSPC) => Ok(()),
        other => Ok(other?),
    }
}
