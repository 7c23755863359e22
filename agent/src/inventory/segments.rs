//! Shared memory that nobody uses any more: NCCL's segments of dead jobs, and ballast of ours.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use super::{Inventory, Kind, Whose};
use crate::{
    audit::NCCL_PREFIX,
    sys::census::{self, FileId, Listed},
};

/// What the name of every file of ours begins with.
const OUR_PREFIX: &str = "ringbreaker-";

struct Segment {
    whose: Whose,
    path: String,
    bytes: u64,
}

/// Adds what no process has open or mapped.
pub(super) fn look(directory: &Path, listed: &[Listed], inventory: &mut Inventory) {
    let segments = match segments(directory) {
        Ok(segments) => segments,
        Err(error) => {
            inventory.unseen.push(format!("{}: {error}", directory.display()));
            return;
        }
    };
    if segments.is_empty() {
        return;
    }
    let wanted: BTreeSet<FileId> = segments.keys().copied().collect();
    let (mut used, mut closed) = (BTreeSet::new(), 0);
    for one in listed {
        match census::held(one.pid, &wanted) {
            Ok(held) => used.extend(held),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => closed += 1,
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    if closed > 0 {
        inventory.unseen.push(format!(
            "{closed} processes of other users may use files of {}: run as root to be sure",
            directory.display()
        ));
    }
    for (_, Segment { whose, path, bytes }) in
        segments.into_iter().filter(|(file, _)| !used.contains(file))
    {
        let what = format!("{path}, {bytes} bytes, which no process has open");
        inventory.add(whose, Kind::SharedMemory, what, format!("`rm {path}`"));
    }
}

fn segments(directory: &Path) -> io::Result<BTreeMap<FileId, Segment>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let whose = match () {
            () if name.starts_with(NCCL_PREFIX) => Whose::Job,
            () if name.starts_with(OUR_PREFIX) => Whose::Ours,
            () => continue,
        };
        // One that vanishes meanwhile is not left.
        let Ok(metadata) = entry.metadata() else { continue };
        let path = entry.path().display().to_string();
        let segment = Segment { whose, path, bytes: metadata.len() };
        found.insert(FileId::of(&metadata), segment);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_segment_is_left_over_when_nobody_has_it_open() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["nccl-AbCdEf", "nccl-inUse0", "ringbreaker-ballast-0", "other"] {
            fs::write(directory.path().join(name), [0; 100]).unwrap();
        }
        let _open = File::open(directory.path().join("nccl-inUse0")).unwrap();
        let mut inventory = Inventory::default();
        look(directory.path(), &census::everybody().unwrap(), &mut inventory);
        let mut found: Vec<_> = inventory.found.iter().map(|one| (one.whose, &one.what)).collect();
        found.sort_by_key(|(_, what)| *what);
        let [(Whose::Job, nccl), (Whose::Ours, ballast)] = found[..] else { panic!("{found:#?}") };
        assert!(nccl.contains("nccl-AbCdEf, 100 bytes") && ballast.contains("ringbreaker-ballast"));
    }

    #[test]
    fn a_directory_that_is_not_there_is_not_taken_for_clean() {
        let mut inventory = Inventory::default();
        look(Path::new("/nowhere"), &[], &mut inventory);
        assert!(inventory.found.is_empty() && inventory.unseen.len() == 1, "{inventory:?}");
    }
}
