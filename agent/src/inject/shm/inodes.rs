//! /dev/shm takes no more files.

use std::path::Path;

use ringbreaker_scenarios::{case::Node, fault::ExhaustShmInodes};

use crate::{
    inject::{
        Ground, InjectError, Injector,
        ground::Targets,
        layers::Layers,
        volume::{SHM, private},
    },
    journal::Undo,
    sys::{filesystem, mount},
};

const FAULT: &str = "exhaust_shm_inodes";

/// The number of files that the node's tmpfs may hold is brought down to those that it holds, and some.
///
/// Witness: statvfs shows that no more files can be made, although there is space.
pub(in crate::inject) struct NoInodes {
    nodes: Targets,
    leave: u32,
    id: u32,
    shared: Layers<Node, u64>,
}

impl NoInodes {
    pub(in crate::inject) fn new(
        fault: &ExhaustShmInodes,
        nodes: Targets,
        ground: &Ground,
        id: u32,
    ) -> NoInodes {
        NoInodes { nodes, leave: fault.leave, id, shared: ground.shm_inodes.clone() }
    }
}

impl Injector for NoInodes {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let path = private(node, FAULT)?;
            let now = filesystem::inodes(&path)
                .map_err(InjectError::step(FAULT, "count the files of /dev/shm"))?;
            let limit = (now.total - now.free.min(now.total)) + u64::from(self.leave);
            self.shared.push(node.node(), self.id, now.total, limit);
            Targets::inside(node, || mount::limit_inodes(Path::new(SHM), limit))
                .map_err(InjectError::step(FAULT, "limit the files of /dev/shm"))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let mut most = 0;
        for node in self.nodes.iter() {
            let free = filesystem::inodes(&node.shm_path()).ok()?.free;
            if free > u64::from(self.leave) {
                return None;
            }
            most = most.max(free);
        }
        Some(format!("statvfs shows room for {most} more files in /dev/shm"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let Some(right) = self.shared.without(&node.node(), self.id) else { continue };
            Targets::inside(node, || mount::limit_inodes(Path::new(SHM), right))
                .map_err(InjectError::step(FAULT, "lift the limit of files of /dev/shm"))?;
            let now = filesystem::inodes(&node.shm_path())
                .map_err(InjectError::step(FAULT, "count the files of /dev/shm"))?;
            if now.total != right {
                let found = format!("a limit of {} files instead of {right}", now.total);
                return Err(InjectError::still_there(FAULT, found));
            }
            self.shared.forget(&node.node(), self.id);
        }
        Ok(())
    }
}
