//! Which settings a library knows: the proof that a name is read is that it is in there. Made for
//! libnccl, used for PyTorch's libraries and sources too.
//!
//! A library asks for a setting by name, so that the name must be among its bytes. The opposite does
//! not hold: a name may be there and be read only in some builds. NCCL composes the names of its own
//! parameters from `NCCL_` and the rest at compile time (NCCL_PARAM in param.h), so they are there in
//! full.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;
/// Longer runs of letters are compressed code by chance; only their end is kept.
const RUN: usize = 4096;

/// Which of these names stand in the file as whole names: nothing that a name can contain comes
/// before or after. Reads the file once.
///
/// One exception: a constant that lies just before a name can end in a letter by chance, and the name
/// then looks like the end of a longer one (so do NCCL_SOCKET_MAGIC and others in 2.32.3). A name that
/// begins with `NCCL_` counts all the same, unless an underscore comes before it, as in
/// `TORCH_NCCL_`.
///
/// # Errors
/// When the file cannot be read.
pub fn contained(path: &Path, names: &[&str]) -> io::Result<Vec<bool>> {
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
    search.end_of_run();
    Ok(search.found)
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
    found: Vec<bool>,
    /// Length of the shortest name: whatever is shorter need not be compared.
    shortest: usize,
    /// The bytes since the last one that no name contains.
    run: Vec<u8>,
}

impl<'a> Search<'a> {
    fn new(names: &'a [&'a str]) -> Search<'a> {
        let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
        Search { names, found: vec![false; names.len()], shortest, run: Vec::new() }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| !IN_NAMES[usize::from(*byte)]) {
            self.extend(&bytes[..end]);
            self.end_of_run();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.run.extend_from_slice(bytes);
        let long = self.run.len().saturating_sub(RUN);
        self.run.drain(..long);
    }

    fn end_of_run(&mut self) {
        if self.run.len() >= self.shortest {
            for (name, found) in self.names.iter().zip(&mut self.found) {
                *found = *found || ends_in(&self.run, name.as_bytes());
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

/// Whether a run of letters is this name, or ends in it and began by chance.
fn ends_in(run: &[u8], name: &[u8]) -> bool {
    let Some(before) = run.strip_suffix(name) else { return false };
    !name.is_empty()
        && (before.is_empty() || (name.starts_with(b"NCCL_") && !before.ends_with(b"_")))
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
    fn a_file_that_is_absent_is_an_error_and_not_a_no() {
        assert!(contains_name(Path::new("/nonexistent/libnccl.so.2"), "NCCL_DEBUG").is_err());
    }
}
