//! Faults of /dev/shm, on the private file systems of nodes.
//!
//! A node's /dev/shm is a tmpfs of a mount namespace without a name: it vanishes with the agent and
//! its ranks, so nothing here needs a journal entry. A /dev/shm that is the machine's own is never
//! touched.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::fcntl::{FallocateFlags, fallocate};
use ringbreaker_scenarios::{
    fault::{FillShm, LimitShm},
    units::Bytes,
};

use super::{InjectError, Injector, ground::Targets};
use crate::{
    journal::Undo,
    node::VirtualNode,
    sys::{
        filesystem::{self, Space},
        procfs,
    },
};

const LIMIT: &str = "limit_shm";
const FILL: &str = "fill_shm";
/// What the name of a file begins with that takes space.
pub const BALLAST_PREFIX: &str = "ringbreaker-ballast-";
/// tmpfs sizes are whole pages.
const PAGE: u64 = 4096;
/// A fill may take one part in this many of the memory that the machine has available.
const MOST_SHARE: u64 = 4;
/// A job that frees and takes while we fill: how often what it freed is taken too.
const ROUNDS: u32 = 16;

/// The node's /dev/shm, unless it is the machine's own.
fn private(node: &VirtualNode, fault: &'static str) -> Result<PathBuf, InjectError> {
    let path = node.shm_path();
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let machine = device(Path::new("/dev/shm")).ok();
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

/// /dev/shm has a size from the start. The size is set when the node is built (its
/// `NodeLimits::shm_size`), before any rank exists; this only sees to it that it is so.
///
/// Witness: statvfs shows that size.
pub(super) struct Limited {
    nodes: Targets,
    to: Bytes,
}

impl Limited {
    pub(super) fn new(fault: &LimitShm, nodes: Targets) -> Limited {
        Limited { nodes, to: fault.to }
    }

    /// The sizes found, if every node has what was asked for, up to a whole page.
    fn found(&self) -> Result<Option<Bytes>, InjectError> {
        let mut found = None;
        for node in self.nodes.iter() {
            let Space { size, .. } = measure(&private(node, LIMIT)?, LIMIT)?;
            if size.0 != self.to.0.next_multiple_of(PAGE) {
                return Ok(None);
            }
            found = Some(size);
        }
        Ok(found)
    }
}

impl Injector for Limited {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        match self.found()? {
            Some(_) => Ok(()),
            None => Err(InjectError::not_possible(
                LIMIT,
                format!("the node was not built with a /dev/shm of {}", self.to),
            )),
        }
    }

    fn witness(&mut self) -> Option<String> {
        let size = self.found().ok()??;
        Some(format!("statvfs shows a /dev/shm of {size}"))
    }

    /// The file system keeps its size for the life of the node and vanishes with it.
    fn heal(&mut self) -> Result<(), InjectError> {
        Ok(())
    }
}

/// A ballast file takes all of /dev/shm but a margin.
///
/// Witness: statvfs shows no more free than the margin.
pub(super) struct Filled {
    nodes: Targets,
    leave: Bytes,
    name: String,
    ballast: Vec<PathBuf>,
}

impl Filled {
    pub(super) fn new(fault: &FillShm, nodes: Targets, id: u32) -> Filled {
        let name = format!("{BALLAST_PREFIX}{id}");
        Filled { nodes, leave: fault.leave, name, ballast: Vec::new() }
    }

    fn fill(&mut self, directory: &Path) -> Result<(), InjectError> {
        let path = directory.join(&self.name);
        let free = || Ok(measure(directory, FILL)?.available.0.saturating_sub(self.leave.0));
        let wanted = free()?;
        let available = procfs::memory_available()
            .map_err(InjectError::step(FILL, "read how much memory is available"))?;
        if wanted > available.0 / MOST_SHARE {
            let reason = format!(
                "it would take {} of the machine's memory, of which {available} are free: give the \
                 node a small /dev/shm with the setting shm_size",
                Bytes(wanted)
            );
            return Err(InjectError::not_possible(FILL, reason));
        }
        let file =
            File::create_new(&path).map_err(InjectError::step(FILL, "make the ballast file"))?;
        self.ballast.push(path);
        for _ in 0..ROUNDS {
            let more = free()?;
            if more == 0 {
                break;
            }
            grow(&file, more).map_err(InjectError::step(FILL, "fill /dev/shm"))?;
        }
        Ok(())
    }
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

impl Injector for Filled {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let mut directories = Vec::new();
        for node in self.nodes.iter() {
            directories.push(private(node, FILL)?);
        }
        directories.iter().try_for_each(|directory| self.fill(directory))
    }

    fn witness(&mut self) -> Option<String> {
        let mut most = Bytes(0);
        for node in self.nodes.iter() {
            let free = measure(&node.shm_path(), FILL).ok()?.available;
            if free > self.leave {
                return None;
            }
            most = most.max(free);
        }
        Some(format!("statvfs shows {most} free in /dev/shm"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        while let Some(path) = self.ballast.last() {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(InjectError::step(FILL, "remove the ballast file")(error));
                }
                _ => self.ballast.pop(),
            };
        }
        for node in self.nodes.iter() {
            if node.shm_path().join(&self.name).exists() {
                let found = format!("/dev/shm/{}", self.name);
                return Err(InjectError::still_there(FILL, found));
            }
        }
        Ok(())
    }
}
