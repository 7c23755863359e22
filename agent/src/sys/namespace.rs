//! Anonymous network and mount namespaces.
//!
//! They have no name anywhere: descriptors hold them, so they vanish with the last process and
//! descriptor, also when the agent is killed. Namespaces belong to threads, so everything that must
//! happen inside happens in a short-lived OS thread that is never given other work.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    thread,
};

use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::stat::fstat,
};

use super::mount;

/// A network namespace and a mount namespace.
#[derive(Debug)]
pub struct Namespaces {
    /// The network namespace.
    pub net: OwnedFd,
    /// The mount namespace.
    pub mount: OwnedFd,
}

impl Namespaces {
    /// Makes both and runs `setup` inside of them. Mounts made there are seen nowhere else.
    ///
    /// # Errors
    /// When the kernel refuses (root or a user namespace is needed) or `setup` fails; nothing
    /// remains then.
    pub fn create<T, E>(setup: impl FnOnce() -> Result<T, E> + Send) -> Result<(Namespaces, T), E>
    where
        T: Send,
        E: From<io::Error> + Send,
    {
        in_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(io::Error::from)?;
            mount::keep_to_ourselves()?;
            let made = setup()?;
            let net = File::open("/proc/thread-self/ns/net")?.into();
            let mount = File::open("/proc/thread-self/ns/mnt")?.into();
            Ok((Namespaces { net, mount }, made))
        })
    }

    /// Runs `work` inside of both, in a short-lived thread. Sockets made there stay in the network
    /// namespace when they are used elsewhere. Relative paths mean nothing inside.
    ///
    /// # Errors
    /// When they cannot be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_own_thread(|| {
            // A thread that shares its working directory with others may not change mounts.
            unshare(CloneFlags::CLONE_FS)?;
            setns(self.mount.as_fd(), CloneFlags::CLONE_NEWNS)?;
            setns(self.net.as_fd(), CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }
}

impl Namespaces {
    /// The processes whose network namespace this is: id and command name.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn inhabitants(&self) -> io::Result<Vec<(u32, String)>> {
        let own = fstat(&self.net)?;
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let directory = entry?.path();
            let pid = directory.file_name().and_then(|name| name.to_str()?.parse().ok());
            // A process that ends meanwhile, or that we may not look at, is not one of ours.
            let (Some(pid), Ok(net)) = (pid, fs::metadata(directory.join("ns/net"))) else {
                continue;
            };
            if (net.dev(), net.ino()) == (own.st_dev, own.st_ino) {
                let command = fs::read_to_string(directory.join("comm")).unwrap_or_default();
                found.push((pid, command.trim().to_owned()));
            }
        }
        Ok(found)
    }
}

/// Runs `work` in a fresh OS thread and passes its panic on.
fn in_own_thread<T: Send, E: From<io::Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
