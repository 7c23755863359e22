//! /dev/shm is small from the start.

use ringbreaker_scenarios::{fault::LimitShm, units::Bytes};

use crate::{
    inject::{
        InjectError, Injector,
        ground::Targets,
        volume::{measure, private},
    },
    journal::Undo,
    sys::filesystem::Space,
};

const FAULT: &str = "limit_shm";
/// tmpfs sizes are whole pages.
const PAGE: u64 = 4096;

/// /dev/shm has a size from the start. The size is set when the node is built (its
/// `NodeLimits::shm_size`), before any rank exists; this only sees to it that it is so.
///
/// Witness: statvfs shows that size.
pub(in crate::inject) struct Limited {
    nodes: Targets,
    to: Bytes,
}

impl Limited {
    pub(in crate::inject) fn new(fault: &LimitShm, nodes: Targets) -> Limited {
        Limited { nodes, to: fault.to }
    }

    /// The sizes found, if every node has what was asked for, up to a whole page.
    fn found(&self) -> Result<Option<Bytes>, InjectError> {
        let mut found = None;
        for node in self.nodes.iter() {
            let Space { size, .. } = measure(&private(node, FAULT)?, FAULT)?;
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
                FAULT,
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
