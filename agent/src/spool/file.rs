//! The spool's file: a line with the number of the first entry, then one JSON line an entry.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Entry, SpoolError};

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    length: usize,
}

/// The first line: the number of the entry that follows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    first: u64,
}

#[derive(Debug)]
pub(super) struct SpoolFile {
    file: File,
    path: PathBuf,
    length: u64,
}

/// What an opened file holds: itself, the number of its first entry, where all entries lie.
type Opened = (SpoolFile, u64, VecDeque<Place>);

impl SpoolFile {
    pub(super) fn open(path: &Path) -> Result<Opened, SpoolError> {
        let failed = |step| {
            let path = path.to_owned();
            move |source| SpoolError::File { step, path, source }
        };
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(failed("read"))?,
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 {
            return Ok((SpoolFile::begin(path, 1)?, 1, VecDeque::new()));
        }
        let (first, places) = parse(path, &bytes[..whole])?;
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed("open"))?;
        let length = whole as u64;
        file.set_len(length).map_err(failed("shorten"))?;
        Ok((SpoolFile { file, path: path.to_owned(), length }, first, places))
    }

    /// An empty spool at `path`, in place of what was there.
    fn begin(path: &Path, first: u64) -> Result<SpoolFile, SpoolError> {
        let begin = || {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
            let head = line(&Head { first })?;
            file.write_all_at(&head, 0)?;
            Ok(SpoolFile { file, path: path.to_owned(), length: head.len() as u64 })
        };
        begin().map_err(|source| SpoolError::File { step: "begin", path: path.to_owned(), source })
    }

    pub(super) fn len(&self) -> u64 {
        self.length
    }

    pub(super) fn append(&mut self, entry: &Entry) -> Result<Place, SpoolError> {
        let write = || {
            let bytes = line(entry)?;
            self.file.write_all_at(&bytes, self.length)?;
            Ok(Place { offset: self.length, length: bytes.len() })
        };
        let place = write().map_err(|source| self.failed("append to", source))?;
        self.length += place.length as u64;
        Ok(place)
    }

    pub(super) fn read(&self, place: Place) -> Result<Entry, SpoolError> {
        let bytes = self.bytes(place)?;
        serde_json::from_slice(&bytes).map_err(|error| SpoolError::Damaged {
            path: self.path.clone(),
            offset: place.offset,
            reason: error.to_string(),
        })
    }

    /// Keeps only these entries; the file is replaced in one step.
    pub(super) fn rewrite(
        &mut self,
        first: u64,
        keep: &VecDeque<Place>,
    ) -> Result<VecDeque<Place>, SpoolError> {
        let beside = self.path.with_extension("new");
        let mut new = SpoolFile::begin(&beside, first)?;
        let mut places = VecDeque::with_capacity(keep.len());
        for place in keep {
            let bytes = self.bytes(*place)?;
            new.file
                .write_all_at(&bytes, new.length)
                .map_err(|source| new.failed("append to", source))?;
            places.push_back(Place { offset: new.length, length: place.length });
            new.length += place.length as u64;
        }
        fs::rename(&beside, &self.path).map_err(|source| self.failed("replace", source))?;
        new.path.clone_from(&self.path);
        *self = new;
        Ok(places)
    }

    fn bytes(&self, place: Place) -> Result<Vec<u8>, SpoolError> {
        let mut bytes = vec![0; place.length];
        self.file
            .read_exact_at(&mut bytes, place.offset)
            .map_err(|source| self.failed("read", source))?;
        Ok(bytes)
    }

    fn failed(&self, step: &'static str, source: io::Error) -> SpoolError {
        SpoolError::File { step, path: self.path.clone(), source }
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.write_all(b"\n")?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<(u64, VecDeque<Place>), SpoolError> {
    let damaged =
        |offset: u64, reason: String| SpoolError::Damaged { path: path.to_owned(), offset, reason };
    let mut places = VecDeque::new();
    let mut first = None;
    let mut offset = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match first {
            None => {
                let head: Head =
                    serde_json::from_slice(line).map_err(|e| damaged(offset, e.to_string()))?;
                first = Some(head.first);
            }
            Some(first) => {
                let entry: Entry =
                    serde_json::from_slice(line).map_err(|e| damaged(offset, e.to_string()))?;
                let due = first + places.len() as u64;
                if entry.sequence != due {
                    let reason = format!("number {} where {due} is due", entry.sequence);
                    return Err(damaged(offset, reason));
                }
                places.push_back(Place { offset, length: line.len() });
            }
        }
        offset += line.len() as u64;
    }
    first.map(|first| (first, places)).ok_or_else(|| damaged(0, "it is empty".to_owned()))
}
