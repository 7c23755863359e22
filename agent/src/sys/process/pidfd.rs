//! Process descriptors: a process that cannot be mistaken for another.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::Signal,
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
};
use ringbreaker_scenarios::event::ExitStatus;

/// A descriptor of the process `pid`; none: there is no such process.
pub(crate) fn open(pid: u32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: pidfd_open takes two integers and no pointer.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match (fd, Errno::last()) {
        (-1, Errno::ESRCH | Errno::EINVAL) => Ok(None),
        (-1, error) => Err(error.into()),
        (fd, _) => {
            let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
            // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
    }
}

/// Sends a signal. False: the process has ended and was collected.
pub(crate) fn signal(pidfd: RawFd, signal: Signal) -> io::Result<bool> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo asks the kernel to fill it in as kill(2) does.
    let answer =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal as i32, no_info, 0) };
    match (answer, Errno::last()) {
        (0, _) => Ok(true),
        (_, Errno::ESRCH) => Ok(false),
        (_, error) => Err(error.into()),
    }
}

/// Waits until the process has ended, or the limit has passed. It is not collected.
pub(crate) fn wait_for_end(pidfd: RawFd, limit: Option<Duration>) -> io::Result<()> {
    // SAFETY: the caller's owned descriptor outlives this call.
    let fd = unsafe { BorrowedFd::borrow_raw(pidfd) };
    let timeout = match limit {
        None => PollTimeout::NONE,
        // Rounded up: a poll of 0 ms for 0.9 ms would make a caller's loop spin.
        Some(limit) => {
            PollTimeout::try_from(limit.as_micros().div_ceil(1_000)).unwrap_or(PollTimeout::MAX)
        }
    };
    loop {
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop).map_err(io::Error::from),
        }
    }
}

/// Collects the child if it has ended.
pub(crate) fn collect(pidfd: RawFd) -> io::Result<Option<ExitStatus>> {
    // SAFETY: the caller's owned descriptor outlives this call.
    let fd = unsafe { BorrowedFd::borrow_raw(pidfd) };
    debug_assert_eq!(fd.as_raw_fd(), pidfd);
    match waitid(Id::PIDFd(fd), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG)? {
        WaitStatus::Exited(_, code) => Ok(Some(ExitStatus::Code(code))),
        WaitStatus::Signaled(_, signal, _) => Ok(Some(ExitStatus::Signal(signal as i32))),
        _ => Ok(None),
    }
}
