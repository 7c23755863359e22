//! A rank's log that goes through a pipe, so that a fault can make its writer wait.

use std::{
    fs::{self, File},
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys::fifo;

/// Everything is taken at once.
const ALL: u64 = u64::MAX;
/// How often something is taken where not everything is.
const TICK: Duration = Duration::from_millis(20);
/// How long nothing need be looked at where everything is taken.
const IDLE: Duration = Duration::from_secs(1);

/// The pipe, and the thread that takes what is written to it into a file. Dropping it takes the rest and
/// removes the pipe.
#[derive(Debug)]
pub struct LogPipe {
    path: PathBuf,
    pipe: Arc<File>,
    capacity: usize,
    rate: Arc<AtomicU64>,
    thread: Mutex<Option<(PipeWriter, JoinHandle<()>)>>,
}

impl LogPipe {
    /// Makes the pipe `path`; what is written to it goes into the file `log`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn make(path: &Path, log: &Path) -> io::Result<LogPipe> {
        let (pipe, capacity) = fifo::make(path)?;
        let pipe = Arc::new(pipe);
        let rate = Arc::new(AtomicU64::new(ALL));
        let (told, telling) = io::pipe()?;
        let mut into = File::create(log)?;
        let (from, at) = (Arc::clone(&pipe), Arc::clone(&rate));
        let thread = thread::Builder::new().name("log-pipe".into()).spawn(move || {
            if let Err(error) = take(&from, &told, &at, &mut into) {
                tracing::warn!(%error, "a log is not written any more");
            }
        })?;
        let thread = Mutex::new(Some((telling, thread)));
        Ok(LogPipe { path: path.to_owned(), pipe, capacity, rate, thread })
    }

    /// From now on at most so many bytes a second are taken; none: all.
    pub fn limit(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(ALL), Ordering::Relaxed);
    }

    /// How many bytes wait, and how many can.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn fill(&self) -> io::Result<(usize, usize)> {
        Ok((fifo::waiting(self.pipe.as_fd())?, self.capacity))
    }

    /// Takes the rest, whatever the limit, and ends.
    pub fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((telling, thread)) = thread {
            drop(telling);
            // It says by itself why it ended early.
            let _ended = thread.join();
        }
    }
}

impl Drop for LogPipe {
    fn drop(&mut self) {
        self.end();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove a pipe");
        }
    }
}

/// Until it is told to end.
fn take(pipe: &File, told: &PipeReader, rate: &AtomicU64, into: &mut File) -> io::Result<()> {
    let mut room = 0;
    loop {
        let limited = rate.load(Ordering::Relaxed) != ALL;
        let mut fds = [PollFd::new(told.as_fd(), PollFlags::POLLIN)].to_vec();
        if !limited {
            fds.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
        }
        let pause = if limited { TICK } else { IDLE };
        poll(&mut fds, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX))?;
        if fds[0].revents().is_some_and(|found| !found.is_empty()) {
            return pass(pipe, into, usize::MAX).map(drop);
        }
        match rate.load(Ordering::Relaxed) {
            ALL => room = pass(pipe, into, usize::MAX).map(|_| 0)?,
            rate => {
                // Thousandths of a byte, so that a slow rate is not rounded to nothing.
                room += rate.saturating_mul(u64::try_from(TICK.as_millis()).unwrap_or(0));
                let whole = usize::try_from(room / 1000).unwrap_or(usize::MAX);
                let taken = pass(pipe, into, whole)?;
                room -= (taken as u64) * 1000;
                // What was not there to be taken is not saved up.
                room = room.min(1000 + rate.saturating_mul(100));
            }
        }
    }
}

/// Takes up to so many bytes; less when no more are there.
fn pass(mut pipe: &File, into: &mut File, most: usize) -> io::Result<usize> {
    let mut piece = [0; 4096];
    let mut taken = 0;
    while taken < most {
        let now = piece.len().min(most - taken);
        match pipe.read(&mut piece[..now]) {
            Ok(0) => break,
            Ok(got) => {
                into.write_all(&piece[..got])?;
                taken += got;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, time::Instant};

    use super::*;

    struct Bench {
        directory: tempfile::TempDir,
        pipe: LogPipe,
    }

    impl Bench {
        fn new() -> Bench {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            let pipe = LogPipe::make(&at("pipe"), &at("log")).unwrap();
            Bench { directory, pipe }
        }

        fn write(&self, bytes: usize) -> JoinHandle<()> {
            let path = self.directory.path().join("pipe");
            let mut writer = OpenOptions::new().append(true).open(path).unwrap();
            thread::spawn(move || writer.write_all(&vec![b'x'; bytes]).unwrap())
        }

        fn log(&self) -> usize {
            fs::read(self.directory.path().join("log")).unwrap().len()
        }
    }

    #[test]
    fn without_a_limit_everything_arrives_and_nothing_is_left() {
        let bench = Bench::new();
        bench.write(100_000).join().unwrap();
        bench.pipe.end();
        assert_eq!(bench.log(), 100_000);
        let Bench { directory, pipe } = bench;
        drop(pipe);
        assert!(!directory.path().join("pipe").exists());
    }

    #[test]
    fn with_a_limit_the_writer_waits_for_as_long_as_that_takes() {
        let bench = Bench::new();
        bench.pipe.limit(Some(20_000));
        let begun = Instant::now();
        // The pipe itself holds some, and the first second's worth may come early by a tick or two.
        bench.write(4096 + 10_000).join().unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(350), "{:?}", begun.elapsed());
    }

    #[test]
    fn with_nothing_taken_the_pipe_fills_and_the_writer_waits_until_the_limit_is_lifted() {
        let bench = Bench::new();
        bench.pipe.limit(Some(0));
        let writer = bench.write(50_000);
        while bench.pipe.fill().unwrap().0 < 4096 {
            thread::yield_now();
        }
        assert!(!writer.is_finished());
        assert_eq!(bench.log(), 0);
        bench.pipe.limit(None);
        writer.join().unwrap();
        bench.pipe.end();
        assert_eq!(bench.log(), 50_000);
    }
}
