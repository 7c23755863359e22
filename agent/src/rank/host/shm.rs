//! The /dev/shm segment that NCCL takes for its proxy's operation pool.

use std::os::fd::OwnedFd;

use nix::{
    errno::Errno,
    fcntl::posix_fallocate,
    unistd::{mkstemp, unlink},
};

use super::super::{backend::CallError, code};

/// Bytes of one segment, one a rank (measured on NCCL 2.28.3 and 2.28.9 with two ranks).
pub(super) const SEGMENT: i64 = 34_210_176;

/// A segment under its name. Space is taken until the last descriptor is closed.
#[derive(Debug)]
pub(super) struct Segment {
    descriptor: OwnedFd,
    path: std::path::PathBuf,
}

impl Segment {
    /// Makes the file and takes its space at once, as NCCL does (mkstemp, fallocate). Where there
    /// is no space the file stays behind, empty, under its name: so do those of NCCL 2.28.9
    /// (recorded, scenarios `quick` and `shm-limit`).
    pub(super) fn create() -> Result<Segment, CallError> {
        let (fd, path) =
            mkstemp("/dev/shm/nccl-XXXXXX").map_err(|e| refused("/dev/shm/nccl-XXXXXX", e))?;
        if let Err(error) = posix_fallocate(&fd, 0, SEGMENT) {
            return Err(refused(&path.display().to_string(), error));
        }
        Ok(Segment { descriptor: fd, path })
    }

    /// Removes the name, as NCCL does once the peers are attached; keeps the space.
    pub(super) fn unlink(self) -> OwnedFd {
        let _removed = unlink(&self.path);
        self.descriptor
    }
}

fn refused(path: &str, error: Errno) -> CallError {
    CallError::new(
        code::SYSTEM_ERROR,
        format!(
            "Error while creating shared memory segment {path} (size {SEGMENT}), error: {} ({})",
            error.desc(),
            error as i32
        ),
    )
}
