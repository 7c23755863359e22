//! The small process beside the agent that heals at once when the agent dies.
//!
//! The agent starts it with [`Guard::start`] and holds the other end of its standard input. When
//! that pipe closes without a word, the agent is dead, however it died: the guard replays the
//! journal and removes the agent's state directory. [`Guard::dismiss`] says good-bye first, and the
//! guard just leaves. It runs in a session of its own, so that neither Ctrl-C nor a closed terminal
//! reaches it. A guard that is killed together with its agent is what `ringbreaker recover` is for.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    iter,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::{
    program,
    recover::{self, RecoveredItem},
};

/// What the agent writes when it leaves in good order.
const GOODBYE: &[u8] = b"q";
/// What the guard prints when it watches.
const READY: &str = "guard: watching";
/// How often the guard looks whether the agent's lock is gone: at first, and after 2 s.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(250);
/// Exit codes, as in the documentation of `ringbreaker`.
const HEALED: i32 = 0;
const NOT_HEALED: i32 = 13;

/// The agent's end of its guard.
///
/// Dropping it without [`Guard::dismiss`] makes the guard heal as soon as the journal is closed.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: ChildStdin,
}

/// Keeps a guard beside the agent: in place of one that something has ended, another is started.
#[derive(Debug)]
pub struct Keeper {
    journal: PathBuf,
    guard: Mutex<Option<Guard>>,
}

impl Keeper {
    /// Starts the guard of this journal, which need not exist yet.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start(journal: &Path) -> Result<Keeper, GuardError> {
        let guard = Mutex::new(Some(Guard::start(journal)?));
        Ok(Keeper { journal: journal.to_owned(), guard })
    }

    /// Looks whether the guard is there. Blocks for some milliseconds when it is not.
    ///
    /// # Errors
    /// When no other can be started; the next look tries again.
    pub fn tend(&self) -> Result<(), GuardError> {
        let mut guard = self.guard();
        if let Some(current) = guard.as_mut()
            && let Ok(Some(status)) = current.child.try_wait()
        {
            tracing::warn!(%status, "something ended the guard: another is started");
            *current = Guard::start(&self.journal)?;
        }
        Ok(())
    }

    /// As [`Guard::dismiss`]; from then on there is none to tend.
    ///
    /// # Errors
    /// As [`Guard::dismiss`].
    pub fn dismiss(&self) -> Result<(), GuardError> {
        let guard = self.guard().take();
        guard.map_or(Ok(()), Guard::dismiss)
    }

    /// Lets the guard heal as soon as the journal is closed.
    pub fn forsake(&self) {
        drop(self.guard().take());
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        // A panic while it was held left one guard or none, either of which is true.
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard could not be started or dismissed.
#[derive(Debug, thiserror::Error)]
#[error("could not {step} the guard process {program}: {source}")]
pub struct GuardError {
    /// What was tried.
    pub step: &'static str,
    /// The executable.
    pub program: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Guard {
    /// Starts a guard of this journal and returns when it watches.
    ///
    /// # Errors
    /// When the process cannot be started or ends at once.
    pub fn start(journal: &Path) -> Result<Guard, GuardError> {
        let program = program::program().map_err(|source| GuardError {
            step: "find",
            program: PathBuf::from("ringbreaker"),
            source,
        })?;
        Guard::start_as(&program, journal)
    }

    /// [`Guard::start`] with this executable.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start_as(program: &Path, journal: &Path) -> Result<Guard, GuardError> {
        let failed = |step| move |source| GuardError { step, program: program.to_owned(), source };
        let mut child = Command::new(program)
            .arg("guard")
            .arg("--journal")
            .arg(journal)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("start"))?;
        let pipe = child.stdin.take().ok_or_else(no_pipe).map_err(failed("talk to"))?;
        let output = child.stdout.take().ok_or_else(no_pipe).map_err(failed("listen to"))?;
        let mut guard = Guard { child, pipe };
        let watching =
            BufReader::new(output).lines().map_while(Result::ok).any(|line| line == READY);
        if watching {
            return Ok(guard);
        }
        let status = guard.child.wait().map_err(failed("wait for"))?;
        Err(failed("start")(io::Error::other(format!("it ended at once with {status}"))))
    }

    /// The guard's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells the guard that the agent leaves in good order, and waits for it. Blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// When the guard is gone already: something ended it.
    pub fn dismiss(self) -> Result<(), GuardError> {
        let Guard { mut child, mut pipe } = self;
        let told = pipe.write_all(GOODBYE);
        // It reads to the end of the pipe before it leaves.
        drop(pipe);
        let program = PathBuf::from("guard");
        told.and_then(|()| child.wait().map(drop)).map_err(|source| GuardError {
            step: "dismiss",
            program,
            source,
        })
    }
}

fn no_pipe() -> io::Error {
    io::Error::other("it has no pipe")
}

/// `ringbreaker guard --journal FILE`: waits for the end of standard input, then heals. Returns the
/// exit code: 0 when nothing is left, 13 when something could not be undone.
pub fn main(journal: &Path) -> i32 {
    // Fails only for the leader of a process group, which then has no terminal to lose either.
    let _ = nix::unistd::setsid();
    println!("{READY}");
    let mut last_words = Vec::new();
    // An error here means the same as the end of the pipe: nobody is there any more.
    let _ = io::stdin().read_to_end(&mut last_words);
    if last_words == GOODBYE {
        return HEALED;
    }
    match heal_when_free(journal) {
        Ok(items) => {
            let left: Vec<_> = items.iter().filter(|item| item.result.is_err()).collect();
            for item in &left {
                eprintln!("guard: {item}");
            }
            if left.is_empty() { HEALED } else { NOT_HEALED }
        }
        Err(error) => {
            eprintln!("guard: could not read {}: {error}", journal.display());
            NOT_HEALED
        }
    }
}

/// Heals as soon as the agent's lock on its journal is gone, which takes a moment after its pipe
/// closed; for ever if the agent lives on, since then it heals by itself.
fn heal_when_free(journal: &Path) -> io::Result<Vec<RecoveredItem>> {
    for pause in iter::repeat_n(SOON, 400).chain(iter::repeat(LATER)) {
        match recover::heal(journal) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(pause),
            // Somebody ran `ringbreaker recover` meanwhile, or the agent died before it had a journal.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Not there, or not empty: then it is nothing that this agent began with.
                let _ = journal.parent().map(fs::remove_dir);
                return Ok(Vec::new());
            }
            other => return other,
        }
    }
    Ok(Vec::new())
}
