//! /dev/shm can only be read.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use super::{SHM, private};
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
    sys::mount,
};

const FAULT: &str = "read_only_shm";
/// A file that is made to see whether one can be, and removed at once.
const TRIAL: &str = "/dev/shm/ringbreaker-trial";

/// A read-only view of the node's /dev/shm lies over it: nothing can be made, removed or opened for
/// writing any more; what is open or mapped already is not touched.
///
/// Witness: to make a file there is refused, "read-only file system".
pub(in crate::inject) struct ReadOnly {
    nodes: Targets,
    /// How many of the nodes, in their order, are covered.
    covered: usize,
}

impl ReadOnly {
    pub(in crate::inject) fn new(nodes: Targets) -> ReadOnly {
        ReadOnly { nodes, covered: 0 }
    }
}

/// Whether a file can be made in the node's /dev/shm.
fn is_writable(node: &VirtualNode) -> io::Result<bool> {
    let attempt = || File::create(TRIAL).and_then(|_| fs::remove_file(TRIAL));
    match Targets::inside(node, attempt) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(false),
        Err(error) => Err(error),
    }
}

impl Injector for ReadOnly {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            private(node, FAULT)?;
            Targets::inside(node, || mount::cover_read_only(Path::new(SHM)))
                .map_err(InjectError::step(FAULT, "cover /dev/shm"))?;
            self.covered += 1;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        for node in self.nodes.iter() {
            if is_writable(node).ok()? {
                return None;
            }
        }
        Some("to make a file in /dev/shm was refused: read-only file system".to_owned())
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        // From the last to the first, so that what fails is tried again.
        let covered: Vec<&VirtualNode> = self.nodes.iter().take(self.covered).collect();
        for node in covered.into_iter().rev() {
            Targets::inside(node, || mount::uncover(Path::new(SHM)))
                .map_err(InjectError::step(FAULT, "uncover /dev/shm"))?;
            self.covered -= 1;
            let step = InjectError::step(FAULT, "make a file in /dev/shm");
            match Targets::inside(node, || File::create(TRIAL).and_then(|_| fs::remove_file(TRIAL)))
            {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                    let found = "a /dev/shm that can only be read";
                    return Err(InjectError::still_there(FAULT, found));
                }
                // Full is another fault's doing.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                other => other.map_err(step)?,
            }
        }
        Ok(())
    }
}
