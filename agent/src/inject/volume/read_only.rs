//! A file system can only be read.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use super::Volume;
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
    sys::mount,
};

/// A file that is made to see whether one can be, and removed at once.
const TRIAL: &str = "ringbreaker-trial";

/// A read-only view of a file system of the node lies over it: nothing can be made, removed or opened
/// for writing any more; what is open or mapped already is not touched.
///
/// Witness: to make a file there is refused, "read-only file system".
pub(in crate::inject) struct ReadOnly {
    fault: &'static str,
    volume: Volume,
    nodes: Targets,
    /// How many of the nodes, in their order, are covered.
    covered: usize,
}

impl ReadOnly {
    pub(in crate::inject) fn new(fault: &'static str, volume: Volume, nodes: Targets) -> ReadOnly {
        ReadOnly { fault, volume, nodes, covered: 0 }
    }

    /// Whether a file can be made in a node's file system.
    fn is_writable(&self, node: &VirtualNode) -> Result<bool, InjectError> {
        let trial = self.volume.inside(node, self.fault)?.join(TRIAL);
        let attempt = || File::create(&trial).and_then(|_| fs::remove_file(&trial));
        match Targets::inside(node, attempt) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(false),
            // Full is another fault's doing.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(true),
            Err(error) => Err(InjectError::step(self.fault, "make a file")(error)),
        }
    }

    fn mounted(
        &self,
        node: &VirtualNode,
        step: &str,
        change: impl FnOnce(&Path) -> io::Result<()> + Send,
    ) -> Result<(), InjectError> {
        let path = self.volume.inside(node, self.fault)?;
        let step = format!("{step} {}", self.volume.noun());
        Targets::inside(node, || change(&path)).map_err(InjectError::step(self.fault, step))
    }
}

impl Injector for ReadOnly {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let nodes = self.nodes.clone();
        for node in nodes.iter() {
            self.mounted(node, "cover", mount::cover_read_only)?;
            self.covered += 1;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        for node in self.nodes.iter() {
            if self.is_writable(node).ok()? {
                return None;
            }
        }
        let noun = self.volume.noun();
        Some(format!("to make a file in {noun} was refused: read-only file system"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        let nodes = self.nodes.clone();
        let covered: Vec<&VirtualNode> = nodes.iter().take(self.covered).collect();
        // From the last to the first, so that what fails is tried again.
        for node in covered.into_iter().rev() {
            self.mounted(node, "uncover", mount::uncover)?;
            self.covered -= 1;
            if !self.is_writable(node)? {
                let found = format!("{} can only be read", self.volume.noun());
                return Err(InjectError::still_there(self.fault, found));
            }
        }
        Ok(())
    }
}
