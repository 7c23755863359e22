//! An MPS server of the case's own, so that ranks share a GPU without time slices.
//!
//! A case starts it before its ranks and ends it after them: a rank that is killed under MPS may
//! break every other client of the same server, so no two cases share one. Its sockets lie in the
//! agent's directory, since the path of a socket must be short.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{self, ChildStdout},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{CaseError, site::mark_done};
use crate::{
    journal::{EntryId, Journal, Undo},
    sys::{
        process::{Process, SpawnRequest, spawn},
        procfs,
        signal::{self, Signal},
    },
};

const CONTROL: &str = "nvidia-cuda-mps-control";
/// Where drivers put it, beside the directories of PATH.
const USUAL_PLACES: &[&str] = &["/usr/local/nvidia/bin", "/usr/bin", "/usr/local/cuda/bin"];
/// How long the daemon may take to begin, to answer and to end.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// A running daemon. Dropping it without [`Mps::stop`] kills the daemon, not its server.
#[derive(Debug)]
pub(super) struct Mps {
    program: PathBuf,
    directory: PathBuf,
    control: Process,
    journal: Arc<Journal>,
    entries: Vec<EntryId>,
    /// Process id and start time of each server.
    servers: Vec<(u32, u64)>,
}

impl Mps {
    /// Starts a daemon whose files lie in `directory`, which must not exist, and whose log is `log`.
    pub(super) fn start(
        directory: &Path,
        log: &Path,
        journal: Arc<Journal>,
    ) -> Result<Mps, CaseError> {
        let program = find().ok_or_else(|| {
            CaseError::Lacking(format!(
                "a private MPS server needs {CONTROL}, which is not in PATH; install the driver's \
                 tools, or run without private_mps"
            ))
        })?;
        for directory in [directory, log] {
            fs::create_dir_all(directory).map_err(CaseError::file("create", directory))?;
        }
        let mut env = variables(directory);
        env.insert("CUDA_MPS_LOG_DIRECTORY".to_owned(), log.to_string_lossy().into_owned());
        let request = SpawnRequest {
            program: program.clone(),
            args: vec!["-f".into()],
            env,
            ..SpawnRequest::default()
        };
        let control = spawn(request).map_err(|source| CaseError::Step {
            step: "start an MPS server",
            source: io::Error::other(source),
        })?;
        let undo = Undo::KillProcess { pid: control.pid, start_time: control.start_time };
        let entry = journal.record(&undo).map_err(CaseError::step("write the journal"))?;
        let mps = Mps {
            program,
            directory: directory.to_owned(),
            control,
            journal,
            entries: vec![entry],
            servers: Vec::new(),
        };
        match mps.await_begin() {
            Ok(()) => Ok(mps),
            Err(error) => {
                mps.abandon();
                Err(error)
            }
        }
    }

    /// Stops it when the case cannot begin.
    pub(super) fn abandon(self) {
        for what in self.stop() {
            tracing::warn!(what, "left by a case that could not begin");
        }
    }

    /// What ranks find in their environment.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        variables(&self.directory)
    }

    /// The first rank that opened the GPU made the daemon start a server; should this agent die, it
    /// must be ended too.
    pub(super) fn note_servers(&mut self) -> Result<(), CaseError> {
        let list = self.ask("get_server_list").map_err(CaseError::step("ask the MPS daemon"))?;
        for pid in list.lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
            let started = procfs::start_time(pid).map_err(CaseError::step("look at /proc"))?;
            if let Some(start_time) = started {
                let undo = Undo::KillProcess { pid, start_time };
                let entry =
                    self.journal.record(&undo).map_err(CaseError::step("write the journal"))?;
                self.entries.push(entry);
                self.servers.push((pid, start_time));
            }
        }
        Ok(())
    }

    /// Ends the daemon and its servers. What did not end in order is killed; what still runs then
    /// is said.
    pub(super) fn stop(self) -> Vec<String> {
        if let Err(error) = self.ask("quit -t 1") {
            tracing::warn!(%error, "the MPS daemon did not hear that it is to quit");
        }
        let mut left = Vec::new();
        if !matches!(self.control.wait_timeout(PATIENCE), Ok(Some(_))) {
            tracing::warn!("the MPS daemon did not quit");
        }
        for (pid, start_time) in &self.servers {
            if !gone(*pid, *start_time, Duration::ZERO) {
                // Nobody is its parent but the daemon, so its id alone would not be safe.
                let killed = signal::send(*pid, *start_time, Signal::SIGKILL);
                if killed.is_err() || !gone(*pid, *start_time, PATIENCE) {
                    left.push(format!("MPS server process {pid}"));
                }
            }
        }
        let Mps { directory, control, journal, entries, .. } = self;
        // Kills it if it still runs.
        drop(control);
        if let Err(error) = fs::remove_dir_all(&directory) {
            left.push(format!("{}: {error}", directory.display()));
        }
        if left.is_empty() {
            entries.into_iter().for_each(|entry| mark_done(&journal, entry));
        }
        left
    }

    fn await_begin(&self) -> Result<(), CaseError> {
        let begin = Instant::now();
        let listens = self.directory.join("control");
        while !listens.exists() {
            let ended = self.control.try_wait().map_err(CaseError::step("watch the MPS daemon"))?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                return Err(CaseError::Lacking(format!(
                    "{CONTROL} did not begin ({ended:?}); see its log in the case's directory"
                )));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Says one line to the daemon, through a second process of its program, and gives the answer.
    fn ask(&self, line: &str) -> io::Result<String> {
        let mut child = process::Command::new(&self.program)
            .envs(self.variables())
            .stdin(process::Stdio::piped())
            .stdout(process::Stdio::piped())
            .stderr(process::Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(format!("{line}\n").as_bytes())?;
        }
        let answered = answer(child.stdout.take());
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer"));
            }
            thread::sleep(PAUSE);
        }
        let died = |_| Err(io::Error::other("the thread that reads its answer died"));
        answered.map_or_else(|| Ok(String::new()), |reader| reader.join().unwrap_or_else(died))
    }
}

/// Reads beside the wait, so that neither can block the other.
fn answer(stdout: Option<ChildStdout>) -> Option<thread::JoinHandle<io::Result<String>>> {
    let mut stdout = stdout?;
    Some(thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    }))
}

fn variables(directory: &Path) -> BTreeMap<String, String> {
    let directory = directory.to_string_lossy().into_owned();
    BTreeMap::from([("CUDA_MPS_PIPE_DIRECTORY".to_owned(), directory)])
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = USUAL_PLACES.iter().map(PathBuf::from);
    env::split_paths(&path).chain(usual).map(|place| place.join(CONTROL)).find(|p| p.is_file())
}

/// Whether a process is gone (or a zombie of somebody else's), at the latest after `within`.
fn gone(pid: u32, start_time: u64, within: Duration) -> bool {
    let begin = Instant::now();
    loop {
        if matches!(procfs::state(pid, start_time), Ok(None | Some('Z'))) {
            return true;
        }
        if begin.elapsed() >= within {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_daemon_answers_and_leaves_nothing_when_it_is_stopped() {
        if find().is_none() {
            println!("SKIPPED: no {CONTROL} on this machine");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let journal = Arc::new(Journal::open(&directory.path().join("journal")).unwrap());
        let files = directory.path().join("mps");
        let log = directory.path().join("log");
        let mut mps = Mps::start(&files, &log, Arc::clone(&journal)).unwrap();
        let (pid, start_time) = (mps.control.pid, mps.control.start_time);
        assert_eq!(journal.pending().len(), 1);
        mps.note_servers().unwrap();
        assert_eq!(mps.servers, [], "no client came");
        assert!(mps.stop().is_empty());
        assert!(gone(pid, start_time, PATIENCE) && !files.exists());
        assert_eq!(journal.pending(), []);
    }
}
