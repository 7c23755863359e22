//! Which settings a library knows: the proof that a name is read is that it is in there. Made for
//! libnccl, used for PyTorch's libraries and sources too.
//!
//! A library asks for a setting by name, so that the name must be among its bytes. The opposite does
//! not hold: a name may be there and be read only in some builds. NCCL composes the names of its own
//! parameters from `NCCL_` and the rest at compile time (NCCL_PARAM in param.h), so they are there in
//! full.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde::Serialize;

use super::shared_end;

/// How much is read at a time.
const CHUNK: usize = 1 << 20;
/// What ends a constant that is looked up.
const END: u8 = 0;
/// Longer runs of letters are compressed code by chance; only their end is kept.
const RUN: usize = 4096;

/// How a name stands in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// Nowhere.
    #[default]
    Absent,
    /// Only as the end of a longer name, in a file whose code was not looked into. Linkers keep a
    /// constant once that is the end of another one (so are NCCL_BLOCKING_WAIT and
    /// TORCH_NCCL_BLOCKING_WAIT the same bytes in PyTorch 2.11), so that it may be read.
    Tail,
    /// As a whole name: nothing that a name can contain comes before or after. Or as the end of a
    /// longer one, and code points to where it begins.
    Whole,
}

/// How each of these names stands in the file. Reads the file once.
///
/// One exception from the rule of the whole name: a constant that lies just before a name can end in a
/// letter by chance, and the name then looks like the end of a longer one (so do NCCL_SOCKET_MAGIC and
/// others in 2.32.3). A name that begins with `NCCL_` counts all the same, unless an underscore comes
/// before it, as in `TORCH_NCCL_`.
///
/// # Errors
/// When the file cannot be read.
pub fn traces(path: &Path, names: &[&str]) -> io::Result<Vec<Trace>> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK];
    let mut search = Search::new(names);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => search.take(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    search.end_of_run(END);
    look_into_code(&file, search)
}

/// Tells for names that stand only at the end of longer ones whether code points to them.
fn look_into_code(file: &File, search: Search<'_>) -> io::Result<Vec<Trace>> {
    let Search { mut found, tails, .. } = search;
    let open = |(found, _): &(&mut Trace, &Vec<u64>)| **found == Trace::Tail;
    let places = found.iter_mut().zip(&tails).filter(open).flat_map(|(_, places)| places);
    let places: HashSet<u64> = places.copied().collect();
    if places.is_empty() {
        return Ok(found);
    }
    if let Some(pointed_to) = shared_end::pointed_to(file, &places)? {
        for (found, places) in found.iter_mut().zip(&tails).filter(open) {
            let read = places.iter().any(|place| pointed_to.contains(place));
            *found = if read { Trace::Whole } else { Trace::Absent };
        }
    }
    Ok(found)
}

/// Which of these names stand in the file as whole names; see [`traces`].
///
/// # Errors
/// When the file cannot be read.
pub fn contained(path: &Path, names: &[&str]) -> io::Result<Vec<bool>> {
    Ok(traces(path, names)?.into_iter().map(|trace| trace == Trace::Whole).collect())
}

/// As [`contained`], for one name.
///
/// # Errors
/// When the file cannot be read.
pub fn contains_name(path: &Path, name: &str) -> io::Result<bool> {
    Ok(contained(path, &[name])?.first().copied().unwrap_or(false))
}

struct Search<'a> {
    names: &'a [&'a str],
    found: Vec<Trace>,
    /// By name, where in the file it begins as the end of a longer one.
    tails: Vec<Vec<u64>>,
    /// How much of the file was taken.
    taken: u64,
    /// Length of the shortest name: whatever is shorter need not be compared.
    shortest: usize,
    /// The bytes since the last one that no name contains.
    run: Vec<u8>,
}

impl<'a> Search<'a> {
    fn new(names: &'a [&'a str]) -> Search<'a> {
        let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
        Search {
            names,
            found: vec![Trace::Absent; names.len()],
            tails: vec![Vec::new(); names.len()],
            taken: 0,
            shortest,
            run: Vec::new(),
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| !IN_NAMES[usize::from(*byte)]) {
            self.extend(&bytes[..end]);
            self.end_of_run(bytes[end]);
            self.taken += 1;
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.taken += bytes.len() as u64;
        self.run.extend_from_slice(bytes);
        let long = self.run.len().saturating_sub(RUN);
        self.run.drain(..long);
    }

    /// The run is over: this byte, which no name contains, comes after it.
    fn end_of_run(&mut self, after: u8) {
        if self.run.len() >= self.shortest {
            for (at, name) in self.names.iter().enumerate() {
                let trace = trace(&self.run, name.as_bytes(), after);
                self.found[at] = self.found[at].max(trace);
                if trace == Trace::Tail {
                    self.tails[at].push(self.taken - name.len() as u64);
                }
            }
        }
        self.run.clear();
    }
}

/// The bytes that names consist of.
const IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

/// What a run of letters says about a name: it is the name, it ends in it and began by chance, or it is
/// a longer name that a linker may have shared.
fn trace(run: &[u8], name: &[u8], after: u8) -> Trace {
    match run.strip_suffix(name) {
        Some(_) if name.is_empty() => Trace::Absent,
        Some([]) => Trace::Whole,
        Some(before) if name.starts_with(b"NCCL_") && !before.ends_with(b"_") => Trace::Whole,
        Some(before) if before.ends_with(b"_") && after == END => Trace::Tail,
        _ => Trace::Absent,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn look(bytes: &[u8], name: &str) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lib");
        fs::write(&file, bytes).unwrap();
        contains_name(&file, name).unwrap()
    }

    #[test]
    fn a_name_counts_only_as_a_whole() {
        for (bytes, want) in [
            (&b"\0NCCL_SOCKET_NTHREADS\0"[..], true),
            (b"NCCL_SOCKET_NTHREADS", true),
            (b"\0NCCL_SOCKET_NTHREADS_MAX\0", false),
            (b"\0TORCH_NCCL_SOCKET_NTHREADS\0", false),
            (b"\0NCCL_SOCKET_NTHREAD\0", false),
            (b"\0NCCL_SOCKET_NTHREADS_MAX\0NCCL_SOCKET_NTHREADS=%d\0", true),
            // A constant that ends in a letter lies just before it.
            (b"\x00\x41QNCCL_SOCKET_NTHREADS\0", true),
            (b"", false),
        ] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(look(bytes, "NCCL_SOCKET_NTHREADS"), want, "{shown:?}");
        }
        assert!(!look(b"\0MY_TIMEOUT\0", "TIMEOUT"));
        assert!(!look(b"\0ATIMEOUT\0", "TIMEOUT"));
    }

    #[test]
    fn a_name_across_the_border_of_two_reads_is_found_and_its_tail_is_still_looked_at() {
        for shift in 0..40 {
            let mut bytes = vec![0; CHUNK - shift];
            bytes.extend_from_slice(b"NCCL_DEBUG\0");
            assert!(look(&bytes, "NCCL_DEBUG"), "shift {shift}");
            let mut longer = vec![0; CHUNK - shift];
            longer.extend_from_slice(b"NCCL_DEBUG_FILE\0");
            assert!(!look(&longer, "NCCL_DEBUG"), "shift {shift}");
            let mut tail = vec![0; CHUNK - shift];
            tail.extend_from_slice(b"TORCH_NCCL_DEBUG\0");
            assert!(!look(&tail, "NCCL_DEBUG"), "shift {shift}");
        }
    }

    #[test]
    fn the_end_of_a_longer_constant_is_neither_there_nor_absent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lib");
        for (bytes, want) in [
            (&b"\0TORCH_NCCL_WAIT\0"[..], Trace::Tail),
            (b"\0TORCH_NCCL_WAIT", Trace::Tail),
            (b"\0TORCH_NCCL_WAIT is set\0", Trace::Absent),
            (b"\0TORCH_NCCL_WAIT\0NCCL_WAIT\0", Trace::Whole),
            (b"\0NCCL_WAIT_MORE\0", Trace::Absent),
        ] {
            fs::write(&file, bytes).unwrap();
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(traces(&file, &["NCCL_WAIT"]).unwrap(), [want], "{shown:?}");
        }
    }

    #[test]
    fn a_file_that_is_absent_is_an_error_and_not_a_no() {
        assert!(contains_name(Path::new("/nonexistent/libnccl.so.2"), "NCCL_DEBUG").is_err());
    }
}
