//! What a rank writes between operations, as training scripts do.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use ringbreaker_scenarios::units::Bytes;

/// What is written at once.
const PIECE: usize = 1 << 20;

/// Writes a new file of this size beside `path`, through to the disk, and renames it over `path`, so
/// that there is a whole checkpoint at every moment.
///
/// # Errors
/// What the file system says; the last checkpoint is still there then.
pub(super) fn write(path: &Path, bytes: Bytes) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let written = fill(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // A full disk is not to stay full of what is worth nothing.
        let _removed = fs::remove_file(&unfinished);
    }
    written
}

fn fill(path: &Path, bytes: Bytes) -> io::Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![0xc4; PIECE];
    let mut left = usize::try_from(bytes.0).map_err(io::Error::other)?;
    while left > 0 {
        let now = left.min(PIECE);
        file.write_all(&piece[..now])?;
        left -= now;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_replaces_the_last_one_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rank0.checkpoint");
        for bytes in [3 << 20, 5] {
            write(&path, Bytes(bytes)).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_the_file_system_says_is_passed_on() {
        let error = write(Path::new("/nonexistent/rank0.checkpoint"), Bytes(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
