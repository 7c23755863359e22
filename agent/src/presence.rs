//! Who is there: the agents of a state directory and what each has still to undo, seen from outside.
//!
//! Read-only: takes no lock, so that no agent, guard or `recover` is ever in the way of another.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    journal::{self, Undo},
    recover::{AGENT_PREFIX, JOURNAL},
    sys::procfs,
};

/// Name of the file with the address of an agent's controller, within the agent's directory.
pub const CONTROLLER: &str = "controller";

/// An agent's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Its name, such as `agent-host-lane0-4711-5f3a`.
    pub name: String,
    /// Where it is.
    pub directory: PathBuf,
    /// The agent's process id; none: it never got to open its journal.
    pub pid: Option<u32>,
    /// Whether that process has the journal open.
    pub alive: bool,
    /// Where its controller listens.
    pub controller: Option<String>,
    /// What is to be undone, oldest first.
    pub open: Vec<Undo>,
    /// Lines of the journal that this version does not understand.
    pub unreadable: usize,
}

impl Presence {
    /// Whether it left something: nobody will undo it unless somebody calls `recover`.
    pub fn abandoned(&self) -> bool {
        !self.alive && (!self.open.is_empty() || self.unreadable > 0)
    }
}

/// All agents that have a directory under `state`. One that vanishes meanwhile is not there.
///
/// # Errors
/// When the state directory or a journal cannot be read; no state directory means no agents.
pub fn agents(state: &Path) -> io::Result<Vec<Presence>> {
    let entries = match fs::read_dir(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let directory = entry?.path();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(AGENT_PREFIX) {
            found.extend(absent(look(name, directory))?.flatten());
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn look(name: String, directory: PathBuf) -> io::Result<Option<Presence>> {
    let path = directory.join(JOURNAL);
    let Some(journal) = absent(journal::peek(&path))? else {
        // An agent that is just beginning, or whose directory is just being removed.
        return Ok(None);
    };
    let alive = journal.owner.is_some_and(|pid| procfs::has_open(pid, &path));
    let controller = absent(fs::read_to_string(directory.join(CONTROLLER)))?;
    let journal::Peeked { owner: pid, open, unreadable } = journal;
    Ok(Some(Presence { name, directory, pid, alive, controller, open, unreadable }))
}

/// What is gone meanwhile was not there.
fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn a_living_agent_is_told_from_a_dead_one_that_left_something() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(agents(&state.path().join("nothing")).unwrap(), []);
        let undo = Undo::RemoveFile { path: "/nowhere/ringbreaker-x".into() };
        for name in ["agent-a", "agent-b", "agent-c", "other"] {
            fs::create_dir(state.path().join(name)).unwrap();
        }
        let journal = |name: &str| Journal::open(&state.path().join(name).join(JOURNAL)).unwrap();
        let living = journal("agent-a");
        living.record(&undo).unwrap();
        fs::write(state.path().join("agent-a").join(CONTROLLER), "127.0.0.1:7").unwrap();
        journal("agent-b").record(&undo).unwrap();
        drop(journal("agent-c"));

        let found = agents(state.path()).unwrap();
        let [a, b, c] = found.as_slice() else { panic!("{found:#?}") };
        assert!(a.alive && !a.abandoned());
        assert_eq!((a.controller.as_deref(), a.open.len()), (Some("127.0.0.1:7"), 1));
        assert!(!b.alive && b.abandoned() && b.pid == Some(std::process::id()));
        assert!(!c.alive && !c.abandoned());
    }
}
