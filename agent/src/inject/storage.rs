//! Faults of storage alone. What it shares with /dev/shm is in [`super::volume`].

use ringbreaker_scenarios::{fault::SlowStorage, units::Nanos};

use super::{InjectError, Injector, ground::Targets, volume::Volume};
use crate::{
    journal::Undo,
    sys::fanotify::{Held, HeldOpens},
};

const FAULT: &str = "slow_storage";

/// Every opening of a file in the node's storage waits. The kernel asks us before it opens a file there
/// (fanotify), and we answer late. When the agent dies the kernel lets everybody through.
///
/// Witness: the kernel asked about an opening by somebody else, and waits for the answer. Effect: when it
/// asked.
pub(super) struct Slow {
    nodes: Targets,
    by: Nanos,
    holders: Vec<HeldOpens>,
}

impl Slow {
    pub(super) fn new(fault: &SlowStorage, nodes: Targets) -> Slow {
        Slow { nodes, by: fault.by, holders: Vec::new() }
    }

    fn first(&self) -> Option<Held> {
        self.holders.iter().filter_map(HeldOpens::first).min_by_key(|held| held.at)
    }
}

impl Injector for Slow {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for node in self.nodes.iter() {
            let path = Volume::Storage.inside(node, FAULT)?;
            let holder = Targets::inside(node, || HeldOpens::below(&path, self.by.into()))
                .map_err(InjectError::step(FAULT, "hold up opens of the storage (needs root)"))?;
            self.holders.push(holder);
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let Held { pid, .. } = self.first()?;
        Some(format!("the kernel holds up process {pid}, which opens a file in the storage"))
    }

    fn effect(&self) -> Option<Nanos> {
        self.first().map(|first| first.at)
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        // Lets everybody through who waits.
        self.holders.clear();
        Ok(())
    }
}
