//! Whom the kernel's OOM killer takes (proc_pid_oom_score_adj(5)).

use std::{fs, io};

use super::procfs;

/// The value that takes a process out of the choice.
const NEVER: i32 = -1000;
/// The value that puts a process before all others.
pub const FIRST: i32 = 1000;

/// Takes this process, and children it starts later, out of the OOM killer's choice.
///
/// # Errors
/// Without CAP_SYS_RESOURCE, which root in a container may lack.
pub fn spare_this_process() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", NEVER.to_string())
}

/// Sets the preference of a process, if it still is the one that started at `start_time`, and
/// returns what it was. None: that process is gone.
///
/// # Errors
/// For a value below the one that the process began with, without CAP_SYS_RESOURCE.
pub fn prefer(pid: u32, start_time: u64, preference: i32) -> io::Result<Option<i32>> {
    if procfs::start_time(pid)? != Some(start_time) {
        return Ok(None);
    }
    let file = format!("/proc/{pid}/oom_score_adj");
    let change = || -> io::Result<Option<i32>> {
        let before = fs::read_to_string(&file)?.trim().parse().map_err(io::Error::other)?;
        fs::write(&file, preference.to_string())?;
        Ok(Some(before))
    };
    match change() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other,
    }
}

/// Keeps everything that this process has mapped in memory, its executable and libraries with it: their
/// pages are then not dropped for any process that maps them.
///
/// # Errors
/// What the kernel says, as without CAP_IPC_LOCK.
pub fn keep_program_in_memory() -> io::Result<()> {
    Ok(nix::sys::mman::mlockall(nix::sys::mman::MlockAllFlags::MCL_CURRENT)?)
}
