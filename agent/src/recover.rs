//! Undo by hand what a dead agent and a dead guard left: `ringbreaker recover`.
//!
//! Every agent has a directory `agent-ID` with its journal under the state directory. An agent whose
//! journal is not locked is dead. The guard uses [`heal`] for its one agent.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::journal::{self, Found, Replayed};

/// Name of the journal within an agent's directory.
pub const JOURNAL: &str = "journal";
/// What the name of every agent's directory begins with.
pub const AGENT_PREFIX: &str = "agent-";
/// How often what could not be undone is tried again: processes that were just killed need a moment
/// to leave their cgroup.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// One thing that a dead agent had left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredItem {
    /// Name of the agent's directory.
    pub agent: String,
    /// What had to be undone, such as `continue stopped process 4711`.
    pub what: String,
    /// What was found, or why it could not be undone and what to do.
    pub result: Result<Found, String>,
}

impl fmt::Display for RecoveredItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveredItem { agent, what, result } = self;
        match result {
            Ok(Found::Undone) => write!(f, "{agent}: {what}: done"),
            Ok(Found::Nothing) => write!(f, "{agent}: {what}: was not needed any more"),
            Err(why) => write!(f, "{agent}: {what}: {why}"),
        }
    }
}

/// The state directory or a journal in it could not be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read {path}: {source}")]
pub struct RecoverError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Heals what every dead agent under `state` left, and removes the directories of those of whom
/// nothing remains. Agents that live are not touched. Blocks for up to some seconds.
///
/// # Errors
/// When a directory or journal cannot be read; what was healed until then stays healed. Things that
/// could not be undone are in the result.
pub fn recover(state: &Path) -> Result<Vec<RecoveredItem>, RecoverError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| RecoverError { path, source }
    };
    let entries = match fs::read_dir(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(unreadable(state))?,
    };
    let mut items = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable(state))?;
        let journal = entry.path().join(JOURNAL);
        let ours = entry.file_name().to_string_lossy().starts_with(AGENT_PREFIX);
        if !ours || !journal.exists() {
            continue;
        }
        match heal(&journal) {
            // Its agent lives, or its guard is healing at this moment or has just done so.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {}
            other => items.extend(other.map_err(unreadable(&journal))?),
        }
    }
    Ok(items)
}

/// Heals what one journal holds, trying again for up to 2 s what fails, and removes the agent's
/// directory around it when nothing remains.
///
/// # Errors
/// `WouldBlock` when the journal's agent lives; otherwise what the file system says.
pub fn heal(journal: &Path) -> io::Result<Vec<RecoveredItem>> {
    let agent = agent_directory(journal);
    let name = agent.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let mut items = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let (healed, left): (Vec<_>, Vec<_>) =
            journal::replay(journal)?.into_iter().partition(Replayed::healed);
        let retry = left.iter().any(|item| matches!(item, Replayed::Undo { .. }));
        items.extend(healed.into_iter().map(|item| recovered(&name, journal, item)));
        if retry && attempt < ATTEMPTS {
            thread::sleep(PAUSE);
            continue;
        }
        if left.is_empty()
            && let Some(agent) = agent
        {
            fs::remove_dir_all(agent)?;
        }
        items.extend(left.into_iter().map(|item| recovered(&name, journal, item)));
        break;
    }
    Ok(items)
}

/// The directory around a journal, if it is an agent's.
fn agent_directory(journal: &Path) -> Option<&Path> {
    let directory = journal.parent()?;
    directory.file_name()?.to_str()?.starts_with(AGENT_PREFIX).then_some(directory)
}

fn recovered(agent: &str, journal: &Path, item: Replayed) -> RecoveredItem {
    let agent = agent.to_owned();
    match item {
        Replayed::Undo { undo, result } => RecoveredItem {
            agent,
            what: undo.to_string(),
            result: result.map_err(|error| error.to_string()),
        },
        Replayed::Unreadable { line, why } => RecoveredItem {
            agent,
            what: format!("understand line {line} of {}", journal.display()),
            result: Err(format!("{why}; read it, undo it by hand, then remove the file")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journal, Undo};

    #[test]
    fn dead_agents_are_healed_and_forgotten_and_living_ones_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let [dead, living] = ["agent-dead", "agent-living"].map(|name| {
            let directory = state.path().join(name);
            fs::create_dir(&directory).unwrap();
            directory
        });
        let ballast = state.path().join("ringbreaker-ballast-1");
        fs::write(&ballast, "x").unwrap();
        let undo = Undo::RemoveFile { path: ballast.clone() };
        Journal::open(&dead.join(JOURNAL)).unwrap().record(&undo).unwrap();
        let journal = Journal::open(&living.join(JOURNAL)).unwrap();
        journal.record(&undo).unwrap();

        let items = recover(state.path()).unwrap();
        assert_eq!(items.len(), 1, "{items:?}");
        assert_eq!(items[0].agent, "agent-dead");
        assert_eq!(items[0].result, Ok(Found::Undone));
        assert!(!ballast.exists() && !dead.exists() && living.exists());
        assert_eq!(journal.pending().len(), 1);
    }

    #[test]
    fn an_agent_of_whom_something_remains_keeps_its_directory() {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().join("agent-a");
        fs::create_dir(&directory).unwrap();
        let foreign = Undo::RemoveFile { path: state.path().join("precious") };
        fs::write(state.path().join("precious"), "x").unwrap();
        Journal::open(&directory.join(JOURNAL)).unwrap().record(&foreign).unwrap();

        let items = recover(state.path()).unwrap();
        assert!(items.iter().all(|item| item.result.is_err()) && items.len() == 1, "{items:?}");
        assert!(directory.exists() && state.path().join("precious").exists());
    }

    #[test]
    fn a_state_directory_that_does_not_exist_holds_nothing() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(recover(&state.path().join("nothing")).unwrap(), []);
    }
}
