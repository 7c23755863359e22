//! Whom the kernel's OOM killer takes.

use std::{fs, io};

/// Takes this process out of the OOM killer's choice (proc_pid_oom_score_adj(5)). Its children
/// inherit that.
///
/// # Errors
/// Without CAP_SYS_RESOURCE.
pub fn spare_this_process() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}
