//! How large and how full a file system is, in bytes and in files.

use std::{io, path::Path};

use nix::sys::{
    statfs::{TMPFS_MAGIC, statfs},
    statvfs::statvfs,
};
use ringbreaker_scenarios::units::Bytes;

/// Size and free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub size: Bytes,
    /// What an ordinary user can still write.
    pub available: Bytes,
}

/// The space of the file system that holds `path`.
///
/// # Errors
/// When `path` does not exist or may not be looked at.
pub fn space(path: &Path) -> io::Result<Space> {
    let found = statvfs(path)?;
    let unit = found.fragment_size();
    Ok(Space {
        size: Bytes(found.blocks() * unit),
        available: Bytes(found.blocks_available() * unit),
    })
}

/// How many files a file system can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// All of them.
    pub total: u64,
    /// How many can still be made.
    pub free: u64,
}

/// The inodes of the file system that holds `path`.
///
/// # Errors
/// When `path` does not exist or may not be looked at.
pub fn inodes(path: &Path) -> io::Result<Inodes> {
    let found = statvfs(path)?;
    Ok(Inodes { total: found.files(), free: found.files_available() })
}

/// Whether a path is in a tmpfs, whose files are memory.
///
/// # Errors
/// When `path` does not exist or may not be looked at.
pub fn is_tmpfs(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.filesystem_type() == TMPFS_MAGIC)
}
