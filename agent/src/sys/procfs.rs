//! What `/proc` says about a process, and about the machine's memory.

use std::{fs, io, path::Path};

use ringbreaker_scenarios::units::Bytes;

/// The second half of /proc/PID/stat, from which everything here is read.
struct Stat {
    state: char,
    start_time: u64,
}

/// Start time of a process in clock ticks since boot; none: there is no such process.
///
/// # Errors
/// When /proc cannot be read.
pub fn start_time(pid: u32) -> io::Result<Option<u64>> {
    Ok(stat(pid)?.map(|stat| stat.start_time))
}

/// State letter of the process `pid` that started at `start_time`: `R` running, `S` sleeping, `D`
/// waiting for the disk, `T` stopped, `Z` ended but not yet collected; none: gone.
///
/// # Errors
/// When /proc cannot be read.
pub fn state(pid: u32, start_time: u64) -> io::Result<Option<char>> {
    Ok(stat(pid)?.filter(|stat| stat.start_time == start_time).map(|stat| stat.state))
}

/// Whether the process `pid` has this file open. A process whose descriptors may not be looked at
/// counts as having it: it is there.
pub fn has_open(pid: u32, path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors
            .filter_map(Result::ok)
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|open| open == path)),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Whether a thread of a process waits in a function of the kernel whose name contains `function`
/// (proc_pid_wchan(5)). Also false where we may not look, and when the process is gone.
pub fn waits_in(pid: u32, function: &str) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let waits = |path: std::path::PathBuf| {
        fs::read_to_string(path.join("wchan")).is_ok_and(|found| found.contains(function))
    };
    threads.flatten().any(|thread| waits(thread.path()))
}

/// How much memory the machine has.
///
/// # Errors
/// When /proc cannot be read.
pub fn memory_total() -> io::Result<Bytes> {
    meminfo("MemTotal")
}

/// How much swap the machine has.
///
/// # Errors
/// When /proc cannot be read.
pub fn swap_total() -> io::Result<Bytes> {
    meminfo("SwapTotal")
}

/// How much memory programs can still take without swapping.
///
/// # Errors
/// When /proc cannot be read.
pub fn memory_available() -> io::Result<Bytes> {
    meminfo("MemAvailable")
}

/// A field of /proc/meminfo, which counts in units of 1024 bytes (proc_meminfo(5)).
fn meminfo(field: &str) -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/meminfo")?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == field)
        .and_then(|(_, value)| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map(|units| Bytes(units * 1024))
        .ok_or_else(|| io::Error::other(format!("/proc/meminfo has no {field}")))
}

fn stat(pid: u32) -> io::Result<Option<Stat>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat reads {text:?}"))
        }),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(nix::libc::ESRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The command's name stands in parentheses and may hold any character, so fields are counted from
/// the last closing one: state is field 3, start time field 22 (proc_pid_stat(5)).
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b (c)) T 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        let stat = parse(text).unwrap();
        assert_eq!((stat.state, stat.start_time), ('T', 777));
        assert!(parse("42 (short) R 1 2").is_none());
    }

    #[test]
    fn this_process_has_a_start_time_and_an_impossible_one_has_none() {
        let own = std::process::id();
        let started = start_time(own).unwrap().unwrap();
        assert!(state(own, started).unwrap().is_some());
        assert_eq!(state(own, started + 1).unwrap(), None);
        // Process ids end below 2^22.
        assert_eq!(start_time(1 << 23).unwrap(), None);
    }
}
