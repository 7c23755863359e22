//! Mounts of the calling thread's mount namespace.

use std::{fs, io, path::Path};

use nix::mount::{MsFlags, mount};
use ringbreaker_scenarios::units::Bytes;

/// The source that our mounts show.
const SOURCE: &str = "ringbreaker";

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
