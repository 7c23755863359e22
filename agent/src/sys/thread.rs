//! Scheduling of the calling thread.

use std::io;

/// Lets timers of the calling thread fire to the nanosecond instead of within the default 50 us.
///
/// # Errors
/// What the kernel says; timers then only are less exact.
pub fn exact_timers() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

/// Lets the calling thread run before others when several want to. Threads that it starts inherit
/// that, processes that the spawner starts do not. Needs root.
///
/// # Errors
/// When the kernel refuses; the thread then takes its turn like any other.
pub fn urgent() -> io::Result<()> {
    // SAFETY: setpriority takes integers. Its "process" 0 is the calling thread on Linux.
    match unsafe { nix::libc::setpriority(nix::libc::PRIO_PROCESS, 0, -10) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
