//! Recordings as files: `SCENARIO--COLUMN--ROW.json`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{FORMAT, Recording, capture};
use crate::report::RunReport;

/// Longer names are cut and told apart by a checksum.
const NAME_LENGTH: usize = 120;

/// Why recordings could not be written or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields hold")]
pub enum RecordingError {
    /// The file system refused.
    #[error("cannot {doing} the recording {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// Not what a recording looks like.
    #[error(
        "{} is no recording: {source}; recordings are made by `ringbreaker run --record`, not by hand",
        path.display()
    )]
    Malformed { path: PathBuf, source: serde_json::Error },
    /// A newer release made it.
    #[error("{} is of format {found}, this ringbreaker knows {FORMAT}; use a newer one", path.display())]
    Newer { path: PathBuf, found: u32 },
}

/// Writes one file a cell into `dir`, making it where it is missing; a recording of the same cell
/// that is there already is replaced. Returns the files.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write(dir: &Path, report: &RunReport) -> Result<Vec<PathBuf>, RecordingError> {
    // Also when there is nothing to record: whoever reads it finds no files, and no error.
    let path = dir.to_owned();
    let failed = |source| RecordingError::File { doing: "make the directory of", path, source };
    fs::create_dir_all(dir).map_err(failed)?;
    capture(report).iter().map(|recording| write_one(dir, recording)).collect()
}

/// Writes one recording into `dir`, as [`write()`] does, and returns its file.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_one(dir: &Path, recording: &Recording) -> Result<PathBuf, RecordingError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RecordingError::File { doing: "write", path, source }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let path = dir.join(file_name(recording));
    let mut text = serde_json::to_string_pretty(recording)
        .map_err(|source| RecordingError::Malformed { path: path.clone(), source })?;
    text.push('\n');
    fs::write(&path, text).map_err(failed(&path))?;
    Ok(path)
}

/// Reads every recording in `dir` and below, in order of path.
///
/// # Errors
///
/// When a file cannot be read or is no recording.
pub fn read(dir: &Path) -> Result<Vec<Recording>, RecordingError> {
    let mut paths = Vec::new();
    collect(dir, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| read_one(path)).collect()
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) -> Result<(), RecordingError> {
    let failed = |source| RecordingError::File { doing: "read", path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    Ok(())
}

fn read_one(path: &Path) -> Result<Recording, RecordingError> {
    let text = fs::read_to_string(path).map_err(|source| RecordingError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    })?;
    let malformed = |source| RecordingError::Malformed { path: path.to_owned(), source };
    // The number first: a newer shape may not parse as this one.
    let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
    let found = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(FORMAT) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(RecordingError::Newer { path: path.to_owned(), found });
    }
    serde_json::from_value(value).map_err(malformed)
}

/// The name of a cell's file: the same for the same cell, different for different ones.
fn file_name(recording: &Recording) -> String {
    let row: Vec<String> =
        recording.row.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut identity = format!("{}--{}", recording.scenario, recording.column);
    if !row.is_empty() {
        identity.push_str("--");
        identity.push_str(&row.join(","));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_=.,".contains(c);
    let name: String = identity.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    // Only names that lost something need more to stay apart.
    if name == identity && name.len() <= NAME_LENGTH && !name.starts_with('.') {
        format!("{name}.json")
    } else {
        let cut: String = name.chars().take(NAME_LENGTH).collect();
        format!("{}-{:08x}.json", cut.trim_start_matches('.'), checksum(&identity))
    }
}

/// FNV-1a, 32 bits: stable over releases and machines.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
