//! Files of an earlier run lie in /dev/shm.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ringbreaker_scenarios::{fault::StaleShm, units::Bytes};

use crate::{
    inject::{
        InjectError, Injector,
        ground::Targets,
        volume::{SHM, afford, grow, measure, private},
    },
    journal::Undo,
    node::VirtualNode,
    sys::filesystem,
};

const FAULT: &str = "stale_shm";
/// When the earlier run was, in seconds since 1970: a day of the year 2000. No file that a job makes
/// is that old, so the age tells these files from the job's own, for the audit and for tidy-up jobs.
const LONG_AGO: u64 = 951_782_400;

/// Files with names of NCCL's form (`nccl-` and six letters or digits) and the age of an earlier run.
/// Such a name cannot collide: mkstemp, with which NCCL makes its own, tries another. What they take
/// is space, and files.
///
/// Witness: a listing of the node's /dev/shm, from inside, shows them, and statvfs that their space is
/// taken.
pub(in crate::inject) struct Stale {
    nodes: Targets,
    fault: StaleShm,
    id: u32,
    made: Vec<Made>,
}

/// A file of ours. By its number, because somebody may have tidied up and a job taken the name.
struct Made {
    path: PathBuf,
    inode: u64,
}

/// Whether a file in /dev/shm is older than any job of ours.
pub fn is_stale(file: &Metadata) -> bool {
    let limit = SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO);
    file.modified().is_ok_and(|modified| modified <= limit)
}

impl Stale {
    pub(in crate::inject) fn new(fault: &StaleShm, nodes: Targets, id: u32) -> Stale {
        Stale { nodes, fault: fault.clone(), id, made: Vec::new() }
    }

    fn leave_files(&mut self, directory: &Path) -> Result<(), InjectError> {
        let StaleShm { files, each } = self.fault;
        let wanted = u64::from(files) * each.0;
        afford(FAULT, wanted)?;
        let free = measure(directory, FAULT)?.available;
        if free.0 < wanted {
            let reason = format!("{} of files do not fit {free} of /dev/shm", Bytes(wanted));
            return Err(InjectError::not_possible(FAULT, reason));
        }
        for number in 0..files {
            // Six characters, different for every fault of a case.
            let name = format!("nccl-{:02}{:04}", self.id % 100, number);
            let path = directory.join(name);
            let made = make(&path, each).map_err(InjectError::step(FAULT, "make a stale file"))?;
            self.made.push(Made { path, inode: made });
        }
        Ok(())
    }

    /// How many of the files a node shows, and whether their space is taken.
    fn shown(&self, node: &VirtualNode) -> io::Result<usize> {
        Targets::inside(node, || {
            let used = filesystem::space(Path::new(SHM)).map(|s| s.size.0 - s.available.0)?;
            if used < u64::from(self.fault.files) * self.fault.each.0 {
                return Ok(0);
            }
            let files = fs::read_dir(SHM)?.flatten();
            let ours = |number: u64| self.made.iter().any(|made| made.inode == number);
            let stale = |file: &Metadata| is_stale(file) && ours(file.ino());
            Ok(files.filter(|file| file.metadata().is_ok_and(|file| stale(&file))).count())
        })
    }
}

/// Its inode number.
fn make(path: &Path, size: Bytes) -> io::Result<u64> {
    let file = File::create_new(path)?;
    if size.0 > 0 {
        grow(&file, size.0)?;
    }
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO))?;
    Ok(file.metadata()?.ino())
}

impl Injector for Stale {
    fn undo(&self) -> Vec<Undo> {
        Vec::new()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        let mut directories = Vec::new();
        for node in self.nodes.iter() {
            directories.push(private(node, FAULT)?);
        }
        directories.iter().try_for_each(|directory| self.leave_files(directory))
    }

    fn witness(&mut self) -> Option<String> {
        let StaleShm { files, each } = self.fault;
        for node in self.nodes.iter() {
            if self.shown(node).ok()? < files as usize {
                return None;
            }
        }
        Some(format!("/dev/shm shows {files} old files named nccl-*, each of {each}"))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        while let Some(Made { path, inode }) = self.made.last() {
            let is_ours = fs::metadata(path).is_ok_and(|file| file.ino() == *inode);
            if is_ours {
                fs::remove_file(path).map_err(InjectError::step(FAULT, "remove a stale file"))?;
            }
            self.made.pop();
        }
        Ok(())
    }
}
