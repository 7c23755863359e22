//! A file system can only be read.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use ringbreaker_scenarios::case::Node;

use super::Volume;
use crate::{
    inject::{Ground, InjectError, Injector, ground::Targets, layers::Layers},
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
    id: u32,
    shared: Layers<(Node, Volume), bool>,
}

impl ReadOnly {
    pub(in crate::inject) fn new(
        fault: &'static str,
        volume: Volume,
        nodes: Targets,
        ground: &Ground,
        id: u32,
    ) -> ReadOnly {
        ReadOnly { fault, volume, nodes, id, shared: ground.covers.clone() }
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
        for node in self.nodes.iter() {
            self.mounted(node, "cover", mount::cover_read_only)?;
            self.shared.push((node.node(), self.volume), self.id, false, true);
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
        for node in self.nodes.iter() {
            let key = (node.node(), self.volume);
            let Some(another) = self.shared.without(&key, self.id) else { continue };
            // Views of several faults lie on each other; which of them goes does not matter.
            self.mounted(node, "uncover", mount::uncover)?;
            self.shared.forget(&key, self.id);
            if !another && !self.is_writable(node)? {
                let found = format!("{} can only be read", self.volume.noun());
                return Err(InjectError::still_there(self.fault, found));
            }
        }
        Ok(())
    }
}
