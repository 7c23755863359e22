//! Faults of /dev/shm, on the private file systems of nodes.
//!
//! A node's /dev/shm is a tmpfs of a mount namespace without a name: it vanishes with the agent and
//! its ranks, so nothing here needs a journal entry. A /dev/shm that is the machine's own is never
//! touched.

mod fill;
mod inodes;
mod limit;
mod read_only;
mod stale;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::fcntl::{FallocateFlags, fallocate};
use ringbreaker_scenarios::units::Bytes;

pub use self::stale::is_stale;
pub(super) use self::{
    fill::Filled, inodes::NoInodes, limit::Limited, read_only::ReadOnly, stale::Stale,
};
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
/// Where a node has it, seen from inside.
const SHM: &str = "/dev/shm";

/// The node's /dev/shm, unless it is the machine's own.
fn private(node: &VirtualNode, fault: &'static str) -> Result<PathBuf, InjectError> {
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

fn measure(path: &Path, fault: &'static str) -> Result<Space, InjectError> {
    filesystem::space(path).map_err(InjectError::step(fault, "measure /dev/shm"))
}

/// Refuses to take so much of the machine's memory that more than the fault would be felt.
fn afford(fault: &'static str, wanted: u64) -> Result<(), InjectError> {
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
fn grow(file: &File, by: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    let [from, by] = [length, by].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    match fallocate(file, FallocateFlags::empty(), from, by) {
        Err(nix::errno::Errno::ENOSPC) => Ok(()),
        other => Ok(other?),
    }
}
