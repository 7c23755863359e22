//! The guard beside an agent that lives.

use std::{fs, path::Path};

use nix::unistd::{Pid, getsid};
use ringbreaker_agent::{
    guard::Guard,
    journal::{Journal, Undo},
    recover::JOURNAL,
    sys::procfs,
};

use super::rig::{PATIENCE, PROGRAM, within};

/// An agent's directory with a journal that holds one thing to undo: a file.
struct Watched {
    state: tempfile::TempDir,
    journal: Journal,
}

impl Watched {
    fn new() -> Watched {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("agent-guarded")).unwrap();
        let ballast = state.path().join("ringbreaker-ballast-0");
        fs::write(&ballast, "x").unwrap();
        let journal = Journal::open(&state.path().join("agent-guarded").join(JOURNAL)).unwrap();
        journal.record(&Undo::RemoveFile { path: ballast }).unwrap();
        Watched { state, journal }
    }

    fn guard(&self) -> Guard {
        let journal = self.state.path().join("agent-guarded").join(JOURNAL);
        Guard::start_as(Path::new(PROGRAM), &journal).unwrap()
    }

    fn ballast_is_there(&self) -> bool {
        self.state.path().join("ringbreaker-ballast-0").exists()
    }
}

#[test]
fn a_dismissed_guard_leaves_everything_as_it_is() {
    let watched = Watched::new();
    let guard = watched.guard();
    let pid = guard.pid();
    guard.dismiss().unwrap();
    assert_eq!(procfs::start_time(pid).unwrap(), None);
    assert!(watched.ballast_is_there());
    assert_eq!(watched.journal.pending().len(), 1);
}

#[test]
fn a_guard_has_a_session_of_its_own_so_that_no_terminal_reaches_it() {
    let watched = Watched::new();
    let guard = watched.guard();
    let pid = Pid::from_raw(guard.pid().cast_signed());
    assert_eq!(getsid(Some(pid)).unwrap(), pid);
    assert_ne!(getsid(None).unwrap(), pid);
    guard.dismiss().unwrap();
}

#[test]
fn a_guard_whose_pipe_closes_waits_for_the_journal_to_be_free_and_then_heals() {
    let watched = Watched::new();
    drop(watched.guard());
    // The owner of the journal lives: nothing may be touched, however long that takes.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(watched.ballast_is_there());
    let Watched { state, journal } = watched;
    drop(journal);
    let healed = || (!state.path().join("agent-guarded").exists()).then_some(());
    assert!(within(PATIENCE, healed).is_some());
    assert!(!state.path().join("ringbreaker-ballast-0").exists());
}

#[test]
fn a_guard_that_cannot_be_started_is_an_error_at_once() {
    let watched = Watched::new();
    let journal = watched.state.path().join("agent-guarded").join(JOURNAL);
    let error = Guard::start_as(Path::new("/nowhere/ringbreaker"), &journal).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ringbreaker"), "{error}");
    let error = Guard::start_as(Path::new("/bin/false"), &journal).unwrap_err();
    assert!(error.to_string().contains("ended at once"), "{error}");
}
