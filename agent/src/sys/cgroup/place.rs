//! Where on this machine a group with a memory limit can be made.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{CgroupError, Version};

/// A directory below which groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) parent: PathBuf,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    mount: PathBuf,
    /// Our own group, from the mount's own root.
    own: PathBuf,
}

/// The place for groups of this process.
pub(super) fn find() -> Result<Place, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::Step {
            path: path.into(),
            step: "read it",
            source,
        })
    };
    let hierarchies = hierarchies(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
    let of = |version| hierarchies.iter().find(move |h| h.version == version);
    // A machine with both has the memory controller in v1, where it is mounted at all.
    if let Some(v1) = of(Version::V1) {
        return Ok(Place { version: Version::V1, parent: v1.mount.join(&v1.own) });
    }
    let v2 = of(Version::V2).ok_or_else(|| CgroupError::NoPlace {
        reason: "neither a v1 memory hierarchy nor a v2 hierarchy is mounted; mount cgroup2 at \
                 /sys/fs/cgroup"
            .into(),
    })?;
    place_in_v2(v2)
}

/// Where hierarchies with groups of ours can be mounted.
pub(super) fn mounts() -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let all = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    all.into_iter().map(|hierarchy| hierarchy.mount).collect()
}

/// The nearest group from our own upwards that hands memory to its children; as the last resort the
/// topmost one is asked to.
fn place_in_v2(v2: &Hierarchy) -> Result<Place, CgroupError> {
    let own = v2.mount.join(&v2.own);
    let ancestors = own.ancestors().take_while(|d| d.starts_with(&v2.mount));
    let here = |parent: &Path| Place { version: Version::V2, parent: parent.to_owned() };
    if let Some(parent) = ancestors.into_iter().find(|d| hands_on_memory(d) && may_write(d)) {
        return Ok(here(parent));
    }
    let control = v2.mount.join("cgroup.subtree_control");
    match fs::write(&control, "+memory") {
        Ok(()) => Ok(here(&v2.mount)),
        Err(error) => Err(CgroupError::NoPlace {
            reason: format!(
                "no group from {} up to {} that may be written to hands the memory controller to \
                 its children, and writing +memory to {} is refused ({error}); run as root, or in a \
                 delegated group (systemd: Delegate=memory)",
                own.display(),
                v2.mount.display(),
                control.display(),
            ),
        }),
    }
}

fn hands_on_memory(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.subtree_control"))
        .is_ok_and(|text| text.split_whitespace().any(|controller| controller == "memory"))
}

fn may_write(group: &Path) -> bool {
    nix::unistd::access(group, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// The hierarchies that matter: v1 with the memory controller, and v2 (proc_pid_mountinfo(5),
/// cgroups(7)).
fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(|line| hierarchy(line, own)).collect()
}

fn hierarchy(line: &str, own: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let memory = || options.split(',').any(|option| option == "memory");
    let version = match kind {
        "cgroup" if memory() => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let own = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let ours = match version {
            Version::V1 => controllers.split(',').any(|controller| controller == "memory"),
            Version::V2 => controllers.is_empty(),
        };
        ours.then_some(path)
    })?;
    // In a container the mount may begin below the hierarchy's own root.
    let own = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
    Some(Hierarchy { version, mount: mount.into(), own: own.to_owned() })
}

impl From<CgroupError> for io::Error {
    fn from(error: CgroupError) -> io::Error {
        let kind = match &error {
            CgroupError::Step { source, .. } => source.kind(),
            CgroupError::NoPlace { .. } => io::ErrorKind::Unsupported,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_read_from_mounts_and_membership() {
        let v1_mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
        let cpu_mount = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        let v2_mount = "41 31 0:38 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let inner = "41 31 0:38 /docker/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let own = "4:memory:/api/1\n1:cpu:/\n0::/api/2";
        let found = |mounts: &[&str], own: &str| {
            hierarchies(&mounts.join("\n"), own)
                .into_iter()
                .map(|h| (h.version, h.mount.join(h.own).display().to_string()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(&[v1_mount, cpu_mount], own),
            [(Version::V1, "/sys/fs/cgroup/memory/api/1".to_owned())]
        );
        assert_eq!(found(&[v2_mount], own), [(Version::V2, "/sys/fs/cgroup/api/2".to_owned())]);
        assert_eq!(
            found(&[inner], "0::/docker/a/b"),
            [(Version::V2, "/sys/fs/cgroup/b".to_owned())]
        );
        assert_eq!(found(&[cpu_mount], own), []);
    }
}
