//! Child processes that die with the agent.
//!
//! Every child is forked by one OS thread that lives as long as this process and carries
//! PR_SET_PDEATHSIG: the kernel ties that signal to the *thread* that forked, so a child of a worker
//! thread would die with the worker. Cases spawn ranks with [`spawn`], injectors their helpers.
//!
//! A [`Process`] holds a pidfd: it never signals a later process that was given the same id.

pub mod entry;
mod fork;
pub(super) mod pidfd;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use ringbreaker_scenarios::event::ExitStatus;

use super::procfs;

pub use entry::Entry;

/// Where a standard stream of a child goes.
#[derive(Debug, Default)]
pub enum Stdio {
    /// /dev/null.
    #[default]
    Null,
    /// The agent's own.
    Inherit,
    /// This descriptor.
    Fd(OwnedFd),
}

/// A child to start.
#[derive(Debug, Default)]
pub struct SpawnRequest {
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Environment variables, on top of the agent's own environment.
    pub env: BTreeMap<String, String>,
    /// Variables of the agent's own environment that the child does not get.
    pub env_remove: Vec<String>,
    /// Working directory; none: the agent's, by name (also after a change of mount namespace).
    pub directory: Option<PathBuf>,
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// Descriptors that the child finds under exactly these numbers (3 and up). It gets no others.
    pub fds: Vec<(OwnedFd, i32)>,
    /// Namespaces, cgroup and limits to enter before the program begins.
    pub entry: Option<Entry>,
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A step between fork and the program's beginning failed; the child is gone.
    #[error("could not start {}: {step}: {source}", program.display())]
    Step {
        /// The executable.
        program: PathBuf,
        /// The step, such as `enter the network namespace`.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The thread that forks children could not be started or has ended.
    #[error("the thread that starts processes is gone: {reason}; restart the agent")]
    SpawnerGone {
        /// What happened.
        reason: String,
    },
}

type Job = (SpawnRequest, mpsc::SyncSender<Result<Process, SpawnError>>);

/// Starts a child and returns when its program has begun (or could not). Blocks for about 1 ms.
///
/// # Errors
/// The step that failed. Nothing of the child remains then.
pub fn spawn(request: SpawnRequest) -> Result<Process, SpawnError> {
    static SPAWNER: OnceLock<io::Result<mpsc::Sender<Job>>> = OnceLock::new();
    let gone = |reason: String| SpawnError::SpawnerGone { reason };
    let spawner = SPAWNER.get_or_init(start_spawner).as_ref().map_err(|e| gone(e.to_string()))?;
    let (answer, result) = mpsc::sync_channel(1);
    spawner.send((request, answer)).map_err(|e| gone(e.to_string()))?;
    result.recv().map_err(|e| gone(e.to_string()))?
}

/// The thread ends with the process: its sender is never dropped.
fn start_spawner() -> io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new().name("spawner".into()).spawn(move || {
        for (request, answer) in jobs {
            // The asker waits for the answer; if it is gone, dropping the child ends it.
            drop(answer.send(fork::fork_and_exec(request)));
        }
    })?;
    Ok(sender)
}

/// A child. Dropping it ends it (SIGKILL) and collects it.
#[derive(Debug)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, which tells it from a later process of the same id.
    pub start_time: u64,
    pidfd: OwnedFd,
    /// Set by whoever collects the child first.
    status: Mutex<Option<ExitStatus>>,
}

impl Process {
    /// Waits until it has ended and returns how. Blocks; any number of threads may wait.
    ///
    /// # Errors
    /// When the child was collected by someone else, which nothing in the agent does.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        pidfd::wait_for_end(self.pidfd.as_raw_fd(), None)?;
        self.try_wait()?.ok_or_else(|| io::Error::other("ended without leaving a status"))
    }

    /// Waits at most this long. None: it has not ended.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn wait_timeout(&self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        pidfd::wait_for_end(self.pidfd.as_raw_fd(), Some(limit))?;
        self.try_wait()
    }

    /// How it ended; none: it has not. Does not block.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_none() {
            *status = pidfd::collect(self.pidfd.as_raw_fd())?;
        }
        Ok(*status)
    }

    /// Sends a signal. False: it has ended and was collected.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        pidfd::signal(self.pidfd.as_raw_fd(), signal)
    }

    /// State letter (see [`procfs::state`]); none: ended and collected.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn state(&self) -> io::Result<Option<char>> {
        procfs::state(self.pid, self.start_time)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.try_wait(), Ok(None)) {
            return;
        }
        // A process that does not die of SIGKILL hangs in the kernel; waiting on would hang us too.
        let ended = self
            .signal(Signal::SIGKILL)
            .and_then(|_| self.wait_timeout(Duration::from_secs(2)))
            .is_ok_and(|status| status.is_some());
        if !ended {
            tracing::warn!(pid = self.pid, "a process did not end within 2 s of SIGKILL");
        }
    }
}
