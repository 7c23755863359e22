//! Mounts of the calling thread's mount namespace.

use std::{io, path::Path};

use nix::mount::{MsFlags, mount};
use ringbreaker_scenarios::units::Bytes;

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
    Ok(mount(Some("ringbreaker"), target, Some("tmpfs"), flags, Some(options.as_str()))?)
}
