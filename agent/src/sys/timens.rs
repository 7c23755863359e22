//! Time namespaces (time_namespaces(7)): CLOCK_MONOTONIC and CLOCK_BOOTTIME of a process with an offset.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    thread,
};

use nix::{libc, sched::CloneFlags, unistd::gettid};

/// What nix does not know by name.
const NEW_TIME: CloneFlags = CloneFlags::from_bits_retain(libc::CLONE_NEWTIME);

/// A time namespace whose clocks are that many nanoseconds ahead of ours, with nobody in it yet. It
/// vanishes with its last process and descriptor.
///
/// # Errors
/// When the kernel has none (before 5.6, or built without), refuses (root or a user namespace is
/// needed), or a clock would be below zero.
pub fn shifted(offset: i64) -> io::Result<OwnedFd> {
    let (seconds, nanos) = (offset.div_euclid(1_000_000_000), offset.rem_euclid(1_000_000_000));
    thread::scope(|scope| {
        let made =
            thread::Builder::new().name("time-namespace".into()).spawn_scoped(scope, || {
                // Only children of this thread would enter it, and it has none.
                nix::sched::unshare(NEW_TIME)?;
                let thread = gettid();
                let offsets = format!("monotonic {seconds} {nanos}\nboottime {seconds} {nanos}\n");
                // Not /proc/self: that is the first thread of this process.
                fs::write(format!("/proc/{thread}/timens_offsets"), offsets)?;
                Ok(File::open(format!("/proc/{thread}/ns/time_for_children"))?.into())
            })?;
        made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How far the clocks of a process are ahead of ours, in nanoseconds, as the kernel tells: none when it
/// is in our own time namespace, and CLOCK_MONOTONIC's offset otherwise.
///
/// # Errors
/// When there is no such process.
pub fn offset_of(pid: u32) -> io::Result<Option<i64>> {
    let number = |process: &str| fs::metadata(format!("/proc/{process}/ns/time")).map(|m| m.ino());
    if number(&pid.to_string())? == number("self")? {
        return Ok(None);
    }
    let text = fs::read_to_string(format!("/proc/{pid}/timens_offsets"))?;
    parse(&text).map(Some).ok_or_else(|| io::Error::other(format!("timens_offsets reads {text:?}")))
}

/// A line a clock: its name, seconds, nanoseconds.
fn parse(text: &str) -> Option<i64> {
    let line = text.lines().find(|line| line.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(seconds * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic        3600         0\nboottime         3600         0\n";
        assert_eq!(parse(text), Some(3_600_000_000_000));
        assert_eq!(parse("monotonic -1 500000000\n"), Some(-500_000_000));
        assert_eq!(parse("boottime 1 0\n"), None);
    }

    #[test]
    fn this_process_is_in_its_own_time_namespace() {
        match offset_of(std::process::id()) {
            Ok(offset) => assert_eq!(offset, None),
            Err(error) => println!("SKIPPED: no time namespaces: {error}"),
        }
    }
}
