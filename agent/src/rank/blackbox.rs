//! The black box of a rank: its last operations in a mapped file, which outlives SIGKILL.
//!
//! One thread of the rank writes, the agent reads when the rank is gone (or stopped: nothing here
//! takes a lock). A record is valid when its first word, written last, says so.
//!
//! ```text
//! header, 8 words:  magic  capacity  enqueued  finished  right  wrong  -  -
//! record, 8 words:  number+1  kind  bytes  enqueued  ended  check  -  -      x capacity
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use nix::{
    fcntl::posix_fallocate,
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};
use ringbreaker_scenarios::{
    event::{OpRecord, OpSummary},
    units::{Bytes, Nanos},
    words::Collective,
};

use super::backend::Op;

const MAGIC: u64 = u64::from_be_bytes(*b"ringbbx1");
const WORDS: usize = 8;
const CAPACITY: usize = 1;
const ENQUEUED: usize = 2;
const FINISHED: usize = 3;
const RIGHT: usize = 4;
const WRONG: usize = 5;

const UNCHECKED: u64 = 0;
const CHECKED_RIGHT: u64 = 1;
const CHECKED_WRONG: u64 = 2;
const WARMUP: u64 = 1 << 8;

/// A black box that could not be made or read.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} the black box {}", path.display())]
pub struct BlackBoxError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The writing end. Used by one thread.
#[derive(Debug)]
pub struct BlackBox {
    words: NonNull<AtomicU64>,
    length: usize,
    capacity: usize,
}

// SAFETY: the mapping is owned by this value and unmapped when it is dropped; words are atomics.
unsafe impl Send for BlackBox {}
// SAFETY: as above; `&BlackBox` gives access to atomics alone.
unsafe impl Sync for BlackBox {}

impl BlackBox {
    /// Maps the file that [`prepare`] made, or makes it; it keeps the last `capacity` operations.
    pub fn create(path: &Path, capacity: u32) -> Result<BlackBox, BlackBoxError> {
        let failed = |source| BlackBoxError { action: "make", path: path.to_owned(), source };
        let (capacity, length) = size(capacity);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        if !is_prepared(&file, length).map_err(failed)? {
            file.set_len(0).map_err(failed)?;
            // Takes the space: a full disk is an error here and not a SIGBUS at some later operation.
            posix_fallocate(&file, 0, length as i64).map_err(|e| failed(e.into()))?;
        }
        let words = map(&file, length).map_err(|e| failed(e.into()))?;
        let made = BlackBox { words, length, capacity };
        made.word(CAPACITY).store(capacity as u64, Ordering::Relaxed);
        made.word(0).store(MAGIC, Ordering::Release);
        Ok(made)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.length / 8, "invariant: a record lies within the black box");
        // SAFETY: the mapping is `length` bytes long, page-aligned, and lives as long as `self`.
        unsafe { self.words.add(index).as_ref() }
    }

    fn record(&self, op: u64) -> usize {
        (1 + (op % self.capacity as u64) as usize) * WORDS
    }

    /// An operation is about to be handed over.
    pub fn enqueued(&self, op: &Op, warmup: bool, at: Nanos) {
        let record = self.record(op.number);
        self.word(record).store(0, Ordering::Relaxed);
        // Nothing of the new record may be seen under the old one's number.
        fence(Ordering::Release);
        let kind = op.collective as u64 | if warmup { WARMUP } else { 0 };
        for (offset, value) in [kind, op.bytes, at.0, 0, UNCHECKED].into_iter().enumerate() {
            self.word(record + 1 + offset).store(value, Ordering::Relaxed);
        }
        self.word(record).store(op.number + 1, Ordering::Release);
        self.word(ENQUEUED).fetch_add(1, Ordering::Relaxed);
    }

    /// Its end was seen.
    pub fn ended(&self, op: &Op, at: Nanos) {
        self.word(self.record(op.number) + 4).store(at.0, Ordering::Release);
        self.word(FINISHED).fetch_add(1, Ordering::Relaxed);
    }

    /// Its result was compared.
    pub fn checked(&self, op: &Op, right: bool) {
        let (check, count) = if right { (CHECKED_RIGHT, RIGHT) } else { (CHECKED_WRONG, WRONG) };
        self.word(self.record(op.number) + 5).store(check, Ordering::Release);
        self.word(count).fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for BlackBox {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `create` with this length and nothing refers to it now.
        let unmapped = unsafe { munmap(self.words.cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "the mapping was ours");
    }
}

/// Makes the file of a rank's black box in the name of another process, its agent: the kernel charges
/// pages to who touches them first. Charged to the rank they would be in the way of a fault that
/// takes the rank's memory: the OOM killer is not called while such pages are being written to
/// disk (seen on Linux 6.1 with cgroup v1: up to a second late).
pub fn prepare(path: &Path, capacity: u32) -> io::Result<()> {
    fs::write(path, vec![0; size(capacity).1])
}

/// Capacity in operations, and length of the file in bytes.
fn size(capacity: u32) -> (usize, usize) {
    let capacity = capacity.max(1) as usize;
    (capacity, (capacity + 1) * WORDS * 8)
}

/// Whether it is a file of this length that nobody has written a record to.
fn is_prepared(file: &File, length: usize) -> io::Result<bool> {
    let mut magic = [0; 8];
    Ok(file.metadata()?.len() == length as u64
        && file.read_at(&mut magic, 0)? == magic.len()
        && magic == [0; 8])
}

fn map(file: &File, length: usize) -> nix::Result<NonNull<AtomicU64>> {
    let length = length.try_into().expect("invariant: a black box is never empty");
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh shared mapping of a file that has this length; nobody else shrinks it.
    unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, 0) }.map(NonNull::cast)
}

/// Reads what a rank left. Records that were being written at its death are left out.
pub fn read(path: &Path) -> Result<OpSummary, BlackBoxError> {
    let failed = |source| BlackBoxError { action: "read", path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(failed)?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|c| u64::from_ne_bytes(c.try_into().expect("invariant: chunks of eight")))
        .collect();
    let foreign = || failed(io::Error::new(io::ErrorKind::InvalidData, "no black box of ours"));
    let header = words.get(..WORDS).ok_or_else(foreign)?;
    if header.iter().all(|word| *word == 0) {
        // Prepared, and its rank never came so far.
        return Ok(OpSummary::default());
    }
    if header[0] != MAGIC || (header[CAPACITY] as usize + 1) * WORDS > words.len() {
        return Err(foreign());
    }
    let mut last: Vec<OpRecord> = words.chunks_exact(WORDS).skip(1).filter_map(record).collect();
    last.sort_by_key(|r| r.op);
    Ok(OpSummary {
        enqueued: header[ENQUEUED],
        finished: header[FINISHED],
        checked_right: header[RIGHT],
        checked_wrong: header[WRONG],
        last,
    })
}

fn record(words: &[u64]) -> Option<OpRecord> {
    Some(OpRecord {
        op: words[0].checked_sub(1)?,
        collective: *Collective::ALL.get((words[1] & 0xFF) as usize)?,
        bytes: Bytes(words[2]),
        enqueued: Nanos(words[3]),
        ended: (words[4] != 0).then_some(Nanos(words[4])),
        right: match words[5] {
            CHECKED_RIGHT => Some(true),
            CHECKED_WRONG => Some(false),
            _ => None,
        },
        warmup: words[1] & WARMUP != 0,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use nix::{
        sys::{
            signal::{Signal, raise},
            wait::waitpid,
        },
        unistd::{ForkResult, fork},
    };
    use ringbreaker_scenarios::words::Dtype;

    use super::*;

    fn op(number: u64) -> Op {
        Op { number, collective: Collective::AllGather, dtype: Dtype::F32, bytes: 64 }
    }

    #[test]
    fn the_last_operations_are_kept_and_all_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("box");
        let black_box = BlackBox::create(&path, 4).unwrap();
        for n in 0..10 {
            black_box.enqueued(&op(n), n < 2, Nanos(100 + n));
            if n < 9 {
                black_box.ended(&op(n), Nanos(200 + n));
                black_box.checked(&op(n), n != 8);
            }
        }
        let summary = read(&path).unwrap();
        assert_eq!((summary.enqueued, summary.finished), (10, 9));
        assert_eq!((summary.checked_right, summary.checked_wrong), (8, 1));
        assert_eq!(summary.last.iter().map(|r| r.op).collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(summary.last[2].right, Some(false));
        assert_eq!(summary.last[3].ended, None);
        assert_eq!(summary.last[3].collective, Collective::AllGather);
        assert!(!summary.last[3].warmup);
    }

    #[test]
    fn a_prepared_file_is_taken_over_and_that_of_an_earlier_rank_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("box");
        prepare(&path, 8).unwrap();
        assert_eq!(read(&path).unwrap(), OpSummary::default());
        let inode = || fs::metadata(&path).unwrap().ino();
        let before = inode();
        BlackBox::create(&path, 8).unwrap().enqueued(&op(1), false, Nanos(7));
        assert_eq!(inode(), before);
        assert_eq!(read(&path).unwrap().enqueued, 1);
        drop(BlackBox::create(&path, 8).unwrap());
        assert_eq!(read(&path).unwrap().enqueued, 0);
    }

    #[test]
    fn what_was_written_outlives_sigkill() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("box");
        let black_box = BlackBox::create(&path, 8).unwrap();
        // SAFETY: the child writes to mapped memory and kills itself; it allocates nothing.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                black_box.enqueued(&op(5), false, Nanos(7));
                let _ = raise(Signal::SIGKILL);
                unreachable!("the process is dead");
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).unwrap();
                let summary = read(&path).unwrap();
                assert_eq!(summary.last[0].op, 5);
                assert_eq!(summary.last[0].enqueued, Nanos(7));
            }
        }
    }

    #[test]
    fn a_file_that_is_no_black_box_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("box");
        fs::write(&path, [7; 640]).unwrap();
        assert!(read(&path).is_err());
        fs::write(&path, "short").unwrap();
        assert!(read(&path).is_err());
    }
}
