//! Control groups with a memory limit, v1 and v2.
//!
//! A group is made under the agent's own group where that is allowed (v1), or under the nearest
//! ancestor that hands the memory controller to its children (v2: a group with processes of its own
//! may not have groups with controllers below it). Dropping a [`Cgroup`] does not remove it: the
//! node does that, and the journal after a crash.

mod place;

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::{errno::Errno, sys::signal::Signal, unistd::Pid};
use ringbreaker_scenarios::units::Bytes;

use place::Place;

/// What the name of every group begins with that we made; nothing else is ever removed.
pub const PREFIX: &str = "ringbreaker-";

/// The version decides the names of files and how a limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy a controller; ours is `memory`.
    V1,
    /// One hierarchy.
    V2,
}

/// A group of our own.
#[derive(Debug)]
pub struct Cgroup {
    version: Version,
    directory: PathBuf,
}

/// Why there are no cgroups here.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// There is no memory controller that we may use.
    #[error("no cgroup with a memory limit can be made: {reason}")]
    NoPlace {
        /// What was looked at, and what would help.
        reason: String,
    },
    /// A file or directory of the group refused.
    #[error("cgroup {}: could not {step}: {source}", path.display())]
    Step {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Every group of ours, whoever made it, below the mounted hierarchies.
pub fn ours() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut unseen = place::mounts();
    while let Some(directory) = unseen.pop() {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            match entry.file_name().to_string_lossy().starts_with(PREFIX) {
                true => found.push(entry.path()),
                false => unseen.push(entry.path()),
            }
        }
    }
    found
}

impl Cgroup {
    /// Makes the group `ringbreaker-NAME`.
    ///
    /// # Errors
    /// When there is no usable memory controller, or the name is taken.
    pub fn create(name: &str) -> Result<Cgroup, CgroupError> {
        let group = Cgroup::planned(name)?;
        fs::create_dir(&group.directory)
            .map_err(|source| group.error(&group.directory, "create it", source))?;
        Ok(group)
    }

    /// The directories that [`Cgroup::create`] would make, for the journal: it must know them before
    /// they exist.
    ///
    /// # Errors
    /// When there is no usable memory controller.
    pub fn planned_paths(name: &str) -> Result<Vec<PathBuf>, CgroupError> {
        Ok(Cgroup::planned(name)?.paths())
    }

    fn planned(name: &str) -> Result<Cgroup, CgroupError> {
        let Place { version, parent } = place::find()?;
        Ok(Cgroup { version, directory: parent.join(format!("{PREFIX}{name}")) })
    }

    /// A group that an earlier process made, from its journal.
    ///
    /// # Errors
    /// `InvalidInput` when the directory's name does not begin with [`PREFIX`].
    pub fn adopt(directory: &Path) -> io::Result<Cgroup> {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(PREFIX) {
            let why = format!("{} is not a cgroup of ours", directory.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let v2 = directory.join("cgroup.controllers").exists();
        let version = if v2 { Version::V2 } else { Version::V1 };
        Ok(Cgroup { version, directory: directory.to_owned() })
    }

    /// Which kind of hierarchy it is in.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its directories, for the journal.
    pub fn paths(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    /// The files through which a process joins (it writes `0`).
    pub fn procs_files(&self) -> Vec<PathBuf> {
        vec![self.directory.join("cgroup.procs")]
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// When there is no such process or the kernel refuses.
    pub fn join(&self, pid: u32) -> Result<(), CgroupError> {
        self.write("cgroup.procs", &pid.to_string(), "move a process into it")
    }

    /// Limits its memory; none lifts the limit. `swap`: what does not fit may go there; without, the
    /// limit includes swap.
    ///
    /// # Errors
    /// On v1 a limit below what is in use and cannot be reclaimed is refused (`ResourceBusy`); v2
    /// takes it and lets the OOM killer make room.
    pub fn set_memory_limit(&self, limit: Option<Bytes>, swap: bool) -> Result<(), CgroupError> {
        let step = "set the memory limit";
        let swap = swap || limit.is_none();
        match self.version {
            Version::V1 => self.set_memory_limit_v1(limit, swap),
            Version::V2 => {
                if self.directory.join("memory.swap.max").exists() {
                    let text = if swap { "max" } else { "0" };
                    self.write("memory.swap.max", text, step)?;
                }
                let text = limit.map_or_else(|| "max".to_owned(), |Bytes(n)| n.to_string());
                self.write("memory.max", &text, step)
            }
        }
    }

    /// The kernel keeps memory <= memory+swap at every moment, so the order depends on the direction;
    /// instead of asking which it is, the total is lifted first and lowered last.
    fn set_memory_limit_v1(&self, limit: Option<Bytes>, swap: bool) -> Result<(), CgroupError> {
        let step = "set the memory limit";
        let (memory, total) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
        let text = limit.map_or_else(|| "-1".to_owned(), |Bytes(n)| n.to_string());
        // The file is absent when the kernel does not account swap.
        let accounted = self.directory.join(total).exists();
        if accounted {
            self.write(total, "-1", step)?;
        }
        self.write(memory, &text, step)?;
        if accounted && !swap {
            self.write(total, &text, step)?;
        }
        Ok(())
    }

    /// Its memory limit; none: it has none of its own.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn memory_limit(&self) -> Result<Option<Bytes>, CgroupError> {
        let file = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        // v2 says "max"; v1 says the largest number of whole pages there is, about 2^63.
        let limit = self.read(file)?.trim().parse().ok();
        Ok(limit.filter(|limit| *limit < 1 << 62).map(Bytes))
    }

    /// What its processes use: memory, page cache and tmpfs pages.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn memory_usage(&self) -> Result<Bytes, CgroupError> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let text = self.read(file)?;
        text.trim().parse().map(Bytes).map_err(|e| {
            self.error(&self.directory.join(file), "read a number", io::Error::other(e))
        })
    }

    /// How much of what it uses is page cache.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn page_cache(&self) -> Result<Bytes, CgroupError> {
        let name = match self.version {
            Version::V1 => "cache",
            Version::V2 => "file",
        };
        Ok(Bytes(field(&self.read("memory.stat")?, name)))
    }

    /// How much of its memory is swapped out.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn swap_usage(&self) -> Result<Bytes, CgroupError> {
        match self.version {
            Version::V1 => Ok(Bytes(field(&self.read("memory.stat")?, "swap"))),
            // Absent where the kernel has no swap.
            Version::V2 if !self.directory.join("memory.swap.current").exists() => Ok(Bytes(0)),
            Version::V2 => {
                let text = self.read("memory.swap.current")?;
                Ok(Bytes(text.trim().parse().unwrap_or(0)))
            }
        }
    }

    /// How often pages were taken from it: by the kernel to make room, and on v1 also when its own
    /// processes freed them. Counting hits of the limit would not do: v1 counts those of the limit that
    /// includes swap on some kernels and not on others (6.18: not).
    ///
    /// # Errors
    /// When the group is gone.
    pub fn pages_taken(&self) -> Result<u64, CgroupError> {
        let name = match self.version {
            Version::V1 => "pgpgout",
            Version::V2 => "pgsteal",
        };
        Ok(field(&self.read("memory.stat")?, name))
    }

    /// How many of its processes the OOM killer has ended.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn oom_kills(&self) -> Result<u64, CgroupError> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        Ok(field(&self.read(file)?, "oom_kill"))
    }

    /// The processes in it.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn pids(&self) -> Result<Vec<u32>, CgroupError> {
        Ok(self.read("cgroup.procs")?.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Ends every process in it (SIGKILL) and waits, for at most 2 s, until it is empty. A group that
    /// is gone is empty.
    ///
    /// # Errors
    /// When processes remain.
    pub fn kill_all(&self) -> Result<(), CgroupError> {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            if !self.directory.exists() {
                return Ok(());
            }
            let pids = self.pids()?;
            if pids.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let left = io::Error::other(format!("processes {pids:?} remain after SIGKILL"));
                return Err(self.error(&self.directory, "empty it", left));
            }
            self.kill(&pids)?;
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Membership says that a process is ours; it is read again at every round, because v1 has no
    /// way to kill a group at once.
    fn kill(&self, pids: &[u32]) -> Result<(), CgroupError> {
        if self.directory.join("cgroup.kill").exists() {
            return self.write("cgroup.kill", "1", "kill its processes");
        }
        for pid in pids {
            match nix::sys::signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(e) => return Err(self.error(&self.directory, "kill a process", e.into())),
            }
        }
        Ok(())
    }

    /// Ends what is in it and removes it. A group that is gone already is fine.
    ///
    /// # Errors
    /// When processes remain or the directory cannot be removed.
    pub fn remove(&self) -> Result<(), CgroupError> {
        self.kill_all()?;
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            match fs::remove_dir(&self.directory) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A process that was just killed leaves its group a moment later.
                Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                    if Instant::now() > deadline {
                        return Err(self.error(&self.directory, "remove it", error));
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(self.error(&self.directory, "remove it", error)),
            }
        }
    }

    fn write(&self, file: &str, text: &str, step: &'static str) -> Result<(), CgroupError> {
        let path = self.directory.join(file);
        fs::write(&path, text).map_err(|source| self.error(&path, step, source))
    }

    fn read(&self, file: &str) -> Result<String, CgroupError> {
        let path = self.directory.join(file);
        fs::read_to_string(&path).map_err(|source| self.error(&path, "read it", source))
    }

    fn error(&self, path: &Path, step: &'static str, source: io::Error) -> CgroupError {
        debug_assert!(path.starts_with(&self.directory));
        CgroupError::Step { path: path.to_owned(), step, source }
    }
}

/// The number behind `name` in a file of `name number` lines; 0 when it has no such line.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), 3);
        assert_eq!(field(text, "oom"), 0);
    }

    #[test]
    fn only_groups_of_ours_are_adopted() {
        assert!(Cgroup::adopt(Path::new("/sys/fs/cgroup/memory/system.slice")).is_err());
        assert!(Cgroup::adopt(Path::new("/sys/fs/cgroup/memory/ringbreaker-gone")).is_ok());
    }

    #[test]
    fn removing_a_group_that_is_gone_is_fine() {
        let group =
            Cgroup::adopt(Path::new("/sys/fs/cgroup/memory/ringbreaker-never-was")).unwrap();
        group.remove().unwrap();
    }
}
