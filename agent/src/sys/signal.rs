//! Signals to processes that are known by id and start time, so that a later process which was given
//! the same id is never hit.

use std::{io, os::fd::AsRawFd};

use super::{process::pidfd, procfs};

pub use nix::sys::signal::Signal;

/// Sends `signal` to the process `pid` if it still is the one that started at `start_time` (clock
/// ticks since boot). False: that process is gone.
///
/// # Errors
/// When the kernel refuses, such as for a process of another user.
pub fn send(pid: u32, start_time: u64, signal: Signal) -> io::Result<bool> {
    // The descriptor is taken first and the start time read second: from then on the descriptor is
    // known to mean the right process, whatever happens to its id.
    let Some(descriptor) = pidfd::open(pid)? else { return Ok(false) };
    if procfs::start_time(pid)? != Some(start_time) {
        return Ok(false);
    }
    pidfd::signal(descriptor.as_raw_fd(), signal)
}
