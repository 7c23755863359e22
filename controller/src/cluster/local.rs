//! Agents as children on this machine, one a lane.
//!
//! Guarantees: every child is reported when it ends; at the end none of them is left, and a fault
//! that one of them left behind is found. Children are in process groups of their own, so that
//! Ctrl-C in the terminal reaches the controller alone, which heals in order. An agent that is killed
//! is healed after by its guard.

use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::{process::Command, sync::mpsc};

use crate::{
    error::{Error, Internal},
    run::inbox::Event,
};

/// An agent that ends this often in a row without finishing a case is not started again.
const STARTS_IN_A_ROW: u32 = 3;

/// What every agent child is started with.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The executable.
    pub(crate) program: PathBuf,
    /// Where our server listens.
    pub(crate) controller: SocketAddr,
    /// Where agents journal.
    pub(crate) state: PathBuf,
    /// Copies of libnccl to offer.
    pub(crate) nccl: Vec<PathBuf>,
    /// Where their logs go.
    pub(crate) logs: PathBuf,
}

/// The children.
pub(crate) struct Local {
    recipe: Recipe,
    inbox: mpsc::Sender<Event>,
    lanes: BTreeMap<u32, Lane>,
}

#[derive(Default)]
struct Lane {
    pid: Option<u32>,
    starts_in_a_row: u32,
}

impl Local {
    /// No child yet.
    pub(crate) fn new(recipe: Recipe, inbox: mpsc::Sender<Event>) -> Local {
        Local { recipe, inbox, lanes: BTreeMap::new() }
    }

    /// Starts the agent of a lane; false when that failed too often already.
    pub(crate) fn start(&mut self, lane: u32) -> Result<bool, Error> {
        let entry = self.lanes.entry(lane).or_default();
        if entry.starts_in_a_row >= STARTS_IN_A_ROW {
            return Ok(false);
        }
        entry.starts_in_a_row += 1;
        let child = self.command(lane).and_then(|mut command| command.spawn());
        let mut child = child.map_err(|source| Internal::Io { doing: "start an agent", source })?;
        let pid = child.id().unwrap_or_default();
        self.lanes.entry(lane).or_default().pid = Some(pid);
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            let how = match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => format!("it could not be waited for: {error}"),
            };
            // After the run nobody listens any more.
            let _ = inbox.send(Event::ChildEnded { lane, pid, how }).await;
        });
        Ok(true)
    }

    fn command(&self, lane: u32) -> io::Result<Command> {
        let Recipe { program, controller, state, nccl, logs: _ } = &self.recipe;
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log(lane))?;
        let mut command = Command::new(program);
        command
            .args(["agent", "--controller", &controller.to_string(), "--lane", &lane.to_string()])
            .arg("--state")
            .arg(state)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            // Only a panic of ours leaves them to this; their guards heal then.
            .kill_on_drop(true);
        for path in nccl {
            command.arg("--nccl").arg(path);
        }
        Ok(command)
    }

    /// The log of a lane's agents.
    pub(crate) fn log(&self, lane: u32) -> PathBuf {
        self.recipe.logs.join(format!("agent-{lane}.log"))
    }

    /// The last thing that a lane's log says, with its causes.
    pub(crate) fn last_words(&self, lane: u32) -> Option<String> {
        last_words(&fs::read_to_string(self.log(lane)).ok()?)
    }

    /// The lane that a child serves.
    pub(crate) fn lane_of(&self, pid: u32) -> Option<u32> {
        self.lanes.iter().find(|(_, lane)| lane.pid == Some(pid)).map(|(number, _)| *number)
    }

    /// A child ended; false when it was replaced already.
    pub(crate) fn ended(&mut self, lane: u32, pid: u32) -> bool {
        match self.lanes.get_mut(&lane) {
            Some(entry) if entry.pid == Some(pid) => {
                entry.pid = None;
                true
            }
            _ => false,
        }
    }

    /// A lane's agent finished a case: it is worth starting again.
    pub(crate) fn proved(&mut self, pid: u32) {
        if let Some(lane) = self.lane_of(pid).and_then(|number| self.lanes.get_mut(&number)) {
            lane.starts_in_a_row = 0;
        }
    }

    /// Lanes whose agent runs.
    pub(crate) fn running(&self) -> usize {
        self.lanes.values().filter(|lane| lane.pid.is_some()).count()
    }

    /// Ends one child that is of no use any more; its guard heals.
    pub(crate) fn kill(&self, lane: u32) {
        self.signal(self.lanes.get(&lane).and_then(|entry| entry.pid), Signal::SIGKILL);
    }

    /// Sends a signal to every child that still runs.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for lane in self.lanes.values() {
            self.signal(lane.pid, signal);
        }
    }

    /// A pid is forgotten as soon as its end is known, so this reaches children of ours alone.
    fn signal(&self, pid: Option<u32>, signal: Signal) {
        if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
            // It may have ended a moment ago.
            let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
        }
    }

    /// Directories of agents that are still there although their agents are gone: a guard is still
    /// healing, or could not.
    pub(crate) async fn left_behind(&self, agents: &[String], wait: Duration) -> Vec<PathBuf> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let left = remaining(&self.recipe.state, agents);
            if left.is_empty() || tokio::time::Instant::now() >= deadline {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The last line of a log that says something; causes stand below what they caused.
fn last_words(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_message = |line: &&str| !line.starts_with("caused by: ");
    let from = lines.iter().rposition(is_message).unwrap_or(0);
    Some(lines.get(from..)?.join("; ")).filter(|words| !words.is_empty())
}

fn remaining(state: &Path, agents: &[String]) -> Vec<PathBuf> {
    let directories = agents.iter().map(|id| state.join(format!("agent-{id}")));
    directories.filter(|directory| directory.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_last_words_of_an_agent_are_its_message_with_its_causes() {
        let log = "earlier\nringbreaker: could not create x\n  caused by: no space\n\n";
        assert_eq!(
            last_words(log).as_deref(),
            Some("ringbreaker: could not create x; caused by: no space")
        );
        assert_eq!(last_words("one\ntwo\n").as_deref(), Some("two"));
        assert_eq!(last_words("\n"), None);
    }
}
