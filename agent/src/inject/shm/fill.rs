//! /dev/shm is filled by somebody else.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use ringbreaker_scenarios::{fault::FillShm, units::Bytes};

use super::{BALLAST_PREFIX, afford, grow, measure, private};
use crate::{
    inject::{InjectError, Injector, ground::Targets},
    journal::Undo,
};

const FAULT: &str = "fill_shm";
/// A job that frees and takes while we fill: how often what it freed is taken too.
const ROUNDS: u32 = 16;

/// A ballast file takes all of /dev/shm but a margin.
///
/// Witness: statvfs shows no more free than the margin.
pub(in crate::inject) struct Filled {
    nodes: Targets,
    leave: Bytes,
    name: String,
    ballast: Vec<PathBuf>,
}

impl Filled {
    pub(in crate::inject) fn new(fault: &FillShm, nodes: Targets, id: u32) -> Filled {
        let name = format!("{BALLAST_PREFIX}{id}");
        Filled { nodes, leave: fault.leave, name, ballast: Vec::new() }
    }

    fn fill(&mut self, directory: &Path) -> Result<(), InjectError> {
        let path = directory.join(&self.name);
        let free = || Ok(measure(directory, FAULT)?.available.0.saturating_sub(self.leave.0));
        let wanted = free()?;
        afford(FAULT, wanted)?;
        let file =
            File::create_new(&path).map_err(InjectError::step(FAULT, "make the ballast file"))?;
        self.ballast.push(path);
        for _ in 0..ROUNDS {
            let more = free()?;
            if more == 0 {
                break;
            }
            grow(&file, more).map_err(InjectError::step(FAULT, "fill /dev/shm"))?;
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
            directories.push(private(node, FAULT)?);
        }
        directories.iter().try_for_each(|directory| self.fill(directory))
    }

    fn witness(&mut self) -> Option<String> {
        let mut most = Bytes(0);
        for node in self.nodes.iter() {
            let free = measure(&node.shm_path(), FAULT).ok()?.available;
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
                    return Err(InjectError::step(FAULT, "remove the ballast file")(error));
                }
                _ => self.ballast.pop(),
            };
        }
        for node in self.nodes.iter() {
            if node.shm_path().join(&self.name).exists() {
                let found = format!("/dev/shm/{}", self.name);
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}
