//! Every process of this machine that can be seen, and which files it holds.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::sys::stat::makedev;

/// A file, whatever its name is where it is seen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that this describes.
    pub fn of(metadata: &fs::Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A process, as it was a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Process id.
    pub pid: u32,
    /// Who started it, or who took it over.
    pub parent: u32,
    /// The kernel's short name of it.
    pub command: String,
    /// Its arguments, the first being its name; none of a kernel thread.
    pub arguments: Vec<String>,
    /// Name of the executable file, where that may be looked at.
    pub program: Option<String>,
}

/// Everybody. Processes that end meanwhile, and zombies, are left out.
///
/// # Errors
/// When /proc cannot be read.
pub fn everybody() -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            listed.extend(look(pid, &entry.path()));
        }
    }
    Ok(listed)
}

fn look(pid: u32, directory: &Path) -> Option<Listed> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    // The name stands in parentheses and may hold any character.
    let (before, after) = stat.rsplit_once(')')?;
    let command = before.split_once('(')?.1.to_owned();
    let mut fields = after.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let line = fs::read(directory.join("cmdline")).unwrap_or_default();
    let words =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut arguments: Vec<String> = words.collect();
    // Each argument ends in a zero byte.
    arguments.pop();
    let program = fs::read_link(directory.join("exe")).ok();
    let program = program.as_deref().and_then(Path::file_name);
    // Of a file that was replaced the kernel says so behind its name.
    let program =
        program.map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
    Some(Listed { pid, parent, command, arguments, program })
}

/// Which of these files a process has open or mapped.
///
/// # Errors
/// When it may not be looked at, as one of another user.
pub fn held(pid: u32, wanted: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory.join("fd"))? {
        // Follows the link to the open file itself.
        let open = entry.and_then(|entry| fs::metadata(entry.path()));
        found.extend(open.ok().map(|open| FileId::of(&open)).filter(|file| wanted.contains(file)));
    }
    let maps = fs::read_to_string(directory.join("maps"))?;
    found.extend(maps.lines().filter_map(mapped).filter(|file| wanted.contains(file)));
    Ok(found)
}

/// Whether a process has this device file open; false when it may not be looked at.
pub fn has_device_open(pid: u32, device: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.map(|entry| fs::read_link(entry.path())).any(|link| link.is_ok_and(|link| link == device))
}

/// Whether a mount of this source is seen by a process: it lives in a mount namespace that has one.
pub fn sees_mount(pid: u32, source: &str) -> bool {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').next() == Some(source))
}

/// A line of /proc/PID/maps: addresses, permissions, offset, major:minor in hexadecimal, inode, path
/// (proc_pid_maps(5)).
fn mapped(line: &str) -> Option<FileId> {
    let mut fields = line.split_whitespace().skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let inode = fields.next()?.parse().ok().filter(|inode| *inode != 0)?;
    Some(FileId { device: makedev(number(major)?, number(minor)?), inode })
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::process::CommandExt, process::Command};

    use super::*;

    #[test]
    fn this_process_is_listed_with_its_parent_and_program() {
        let own = std::process::id();
        let listed = everybody().unwrap().into_iter().find(|listed| listed.pid == own).unwrap();
        assert_eq!(listed.parent, std::os::unix::process::parent_id());
        let program = std::env::current_exe().unwrap();
        assert_eq!(listed.program.as_deref(), program.file_name().unwrap().to_str());
        assert!(!listed.arguments.is_empty() && listed.arguments.iter().all(|a| !a.is_empty()));
    }

    #[test]
    fn a_file_is_found_while_it_is_open_or_mapped_under_whatever_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        fs::write(&path, [0; 4096]).unwrap();
        let wanted = BTreeSet::from([FileId::of(&fs::metadata(&path).unwrap())]);
        let own = std::process::id();
        assert_eq!(held(own, &wanted).unwrap(), BTreeSet::new());
        let open = File::open(&path).unwrap();
        fs::rename(&path, directory.path().join("renamed")).unwrap();
        assert_eq!(held(own, &wanted).unwrap(), wanted);
        drop(open);
        assert_eq!(held(own, &wanted).unwrap(), BTreeSet::new());
    }

    #[test]
    fn a_mapping_is_read_as_the_kernel_writes_it() {
        let line = "7f0000000000-7f0000001000 rw-s 00000000 00:1a 34   /dev/shm/nccl-AbCdEf";
        assert_eq!(mapped(line), Some(FileId { device: makedev(0, 0x1a), inode: 34 }));
        assert_eq!(mapped("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn arguments_are_told_apart_from_the_name_of_the_file() {
        let mut child = Command::new("sleep").arg0("other name").arg("100").spawn().unwrap();
        let found = || {
            let all = everybody().unwrap();
            all.into_iter().find(|listed| listed.pid == child.id()).map(|listed| listed.arguments)
        };
        while found().is_none_or(|arguments| arguments != ["other name", "100"]) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(everybody().unwrap().iter().all(|listed| listed.pid != child.id()));
    }
}
