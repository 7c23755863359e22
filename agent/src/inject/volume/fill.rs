//! A file system is filled by somebody else.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use ringbreaker_scenarios::units::Bytes;

use super::{BALLAST_PREFIX, Volume, afford, grow, measure};
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
    node::VirtualNode,
};

/// A job that frees and takes while we fill: how often what it freed is taken too.
const ROUNDS: u32 = 16;

/// A ballast file takes all of a file system but a margin.
///
/// Witness: statvfs shows no more free than the margin.
pub(in crate::inject) struct Filled {
    fault: &'static str,
    volume: Volume,
    nodes: Targets,
    leave: Bytes,
    name: String,
    ballast: Vec<PathBuf>,
}

impl Filled {
    pub(in crate::inject) fn new(
        fault: &'static str,
        volume: Volume,
        nodes: Targets,
        leave: Bytes,
        id: u32,
    ) -> Filled {
        let name = format!("{BALLAST_PREFIX}{id}");
        Filled { fault, volume, nodes, leave, name, ballast: Vec::new() }
    }

    fn free(&self, node: &VirtualNode) -> Result<Bytes, InjectError> {
        let path = self.volume.outside(node, self.fault)?;
        measure(&path, self.fault).map(|space| space.available)
    }

    fn fill(&mut self, directory: &Path) -> Result<(), InjectError> {
        let path = directory.join(&self.name);
        let (fault, leave) = (self.fault, self.leave.0);
        let free = || Ok(measure(directory, fault)?.available.0.saturating_sub(leave));
        let wanted = free()?;
        afford(self.fault, wanted)?;
        let file = File::create_new(&path)
            .map_err(InjectError::step(self.fault, "make the ballast file"))?;
        self.ballast.push(path);
        for _ in 0..ROUNDS {
            let more = free()?;
            if more == 0 {
                break;
            }
            grow(&file, more).map_err(InjectError::step(self.fault, "fill the file system"))?;
        }
        Ok(())
    }
}

impl Injector for Filled {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let mut directories = Vec::new();
        for node in self.nodes.iter() {
            directories.push(self.volume.outside(node, self.fault)?);
        }
        directories.iter().try_for_each(|directory| self.fill(directory))
    }

    fn witness(&mut self) -> Option<String> {
        let mut most = Bytes(0);
        for node in self.nodes.iter() {
            let free = self.free(node).ok()?;
            if free > self.leave {
                return None;
            }
            most = most.max(free);
        }
        Some(format!("statvfs shows {most} free in {}", self.volume.noun()))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        while let Some(path) = self.ballast.last() {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(InjectError::step(self.fault, "remove the ballast file")(error));
                }
                _ => self.ballast.pop(),
            };
        }
        for node in self.nodes.iter() {
            if self.volume.outside(node, self.fault)?.join(&self.name).exists() {
                let found = format!("{} in {}", self.name, self.volume.noun());
                return Err(InjectError::still_there(self.fault, found));
            }
        }
        Ok(())
    }
}
