//! Mounts of the calling thread's mount namespace.

use std::{fs, io, path::Path};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use ringbreaker_scenarios::units::Bytes;

/// The source that our mounts show.
pub const SOURCE: &str = "ringbreaker";

/// Where mounts of ours are seen by this process: nowhere, unless one has leaked out of a node.
///
/// # Errors
/// When /proc cannot be read.
pub fn ours() -> io::Result<Vec<String>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let target = |line: &str| {
        let (source, rest) = line.split_once(' ')?;
        (source == SOURCE).then(|| rest.split(' ').next().unwrap_or_default().to_owned())
    };
    Ok(mounts.lines().filter_map(target).collect())
}

/// Stops mounts from being passed on to the machine, and from the machine to here.
///
/// # Errors
/// What the kernel says.
pub fn keep_to_ourselves() -> io::Result<()> {
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    Ok(mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?)
}

/// Puts an empty tmpfs of at most `size` over `target`; none: the kernel's default, half the memory.
///
/// # Errors
/// What the kernel says.
pub fn tmpfs(target: &Path, size: Option<Bytes>) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = match size {
        // The kernel takes 0 for "no limit"; one page is the smallest it has.
        Some(Bytes(size)) => format!("mode=1777,size={}", size.max(1)),
        None => "mode=1777".to_owned(),
    };
    Ok(mount(Some(SOURCE), target, Some("tmpfs"), flags, Some(options.as_str()))?)
}

/// Changes how many files a mounted tmpfs of ours can hold; its size stays.
///
/// # Errors
/// What the kernel says, as when it holds more already.
pub fn limit_inodes(target: &Path, inodes: u64) -> io::Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    // The kernel takes 0 for "no limit".
    let options = format!("nr_inodes={}", inodes.max(1));
    Ok(mount(None::<&str>, target, None::<&str>, flags, Some(options.as_str()))?)
}

/// Puts a read-only view of a directory over it. What is open or mapped already goes through the mount
/// below and stays writable, so this is possible at any time, unlike making that mount read-only.
///
/// # Errors
/// What the kernel says; nothing is changed then.
pub fn cover_read_only(target: &Path) -> io::Result<()> {
    mount(Some(target), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    let flags = MsFlags::MS_REMOUNT
        | MsFlags::MS_BIND
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV;
    mount(None::<&str>, target, None::<&str>, flags, None::<&str>).map_err(|error| {
        // A cover that can be written to covers nothing.
        let _uncovered = umount2(target, MntFlags::MNT_DETACH);
        error.into()
    })
}

/// Takes the uppermost mount at `target` away; whoever has it open keeps it.
///
/// # Errors
/// What the kernel says.
pub fn uncover(target: &Path) -> io::Result<()> {
    Ok(umount2(target, MntFlags::MNT_DETACH)?)
}
