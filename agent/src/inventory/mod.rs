//! What of ours, or of dead jobs, is on this machine: `ringbreaker audit`.
//!
//! Read-only: nothing is removed, ended or locked. [`take`] looks at everything that a dead agent, a
//! dead guard or a dead NCCL job can leave. Namespaces and TUN devices of virtual nodes have no name:
//! they live as long as a process holds them, so it is processes that are looked for. What cannot be
//! looked at is said in [`Inventory::unseen`], never taken for clean.

mod gpu;
mod processes;
mod segments;

use std::{fs, path::Path};

use crate::{
    presence,
    stop::{Stopped, Switch},
    sys::{
        census::{self, Listed},
        cgroup, mount,
    },
};

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of ringbreaker: a journal, or a thing that no journal lists any more.
    Ours,
    /// Of a job that is dead.
    Job,
}

/// What kind of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A journal with entries that nobody has undone.
    Journal,
    /// A file in /dev/shm.
    SharedMemory,
    /// A process whose parent is gone.
    Process,
    /// A cgroup of an agent that is dead.
    Cgroup,
    /// A mount that has leaked out of a node.
    Mount,
    /// A process whose parent is gone and that has a GPU open.
    Gpu,
}

impl Kind {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::SharedMemory => "shared-memory",
            Kind::Process => "process",
            Kind::Cgroup => "cgroup",
            Kind::Mount => "mount",
            Kind::Gpu => "gpu",
        }
    }
}

/// One thing that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whose.
    pub whose: Whose,
    /// Of what kind.
    pub kind: Kind,
    /// What it is, as a sentence.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// All that is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// What was found.
    pub found: Vec<Finding>,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
    /// Agents that live: what they hold is in use, not left.
    pub agents: Vec<String>,
    /// The kill switch.
    pub stopped: Option<Stopped>,
}

/// Looks at this machine. `state` is the directory of journals; `helpers` are the subcommands of
/// processes that only an agent starts.
pub fn take(state: &Path, helpers: &[String]) -> Inventory {
    let mut inventory = Inventory { stopped: Switch::of(state).look(), ..Inventory::default() };
    journals(state, &mut inventory);
    let listed = census::everybody().unwrap_or_else(|error| {
        inventory.unseen.push(format!("processes: {error}"));
        Vec::new()
    });
    segments::look(Path::new("/dev/shm"), &listed, &mut inventory);
    processes::look(&listed, helpers, &mut inventory);
    cgroups(&listed, &mut inventory);
    mounts(&mut inventory);
    gpu::look(&listed, &mut inventory);
    inventory
}

impl Inventory {
    fn add(&mut self, whose: Whose, kind: Kind, what: String, remedy: impl Into<String>) {
        self.found.push(Finding { whose, kind, what, remedy: remedy.into() });
    }
}

fn journals(state: &Path, inventory: &mut Inventory) {
    let agents = match presence::agents(state) {
        Ok(agents) => agents,
        Err(error) => {
            inventory.unseen.push(format!("journals in {}: {error}", state.display()));
            return;
        }
    };
    for agent in agents {
        if agent.abandoned() {
            let open: Vec<String> = agent.open.iter().map(ToString::to_string).collect();
            let open =
                if open.is_empty() { "lines not understood".into() } else { open.join("; ") };
            let what = format!("{} is dead and left to undo: {open}", agent.name);
            inventory.add(Whose::Ours, Kind::Journal, what, "`ringbreaker recover`");
        } else if agent.alive {
            inventory.agents.push(agent.name);
        }
    }
}

/// Their names carry the number of the agent that made them.
fn cgroups(listed: &[Listed], inventory: &mut Inventory) {
    for path in cgroup::ours() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let owner = name.split('-').find_map(|part| part.parse::<u32>().ok());
        if owner.is_some_and(|pid| listed.iter().any(|listed| listed.pid == pid)) {
            continue;
        }
        let inside = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        let inside = inside.split_whitespace().count();
        let what = format!("cgroup {} of a dead agent, {inside} processes in it", path.display());
        let remedy = format!("`ringbreaker recover`, else `rmdir {}`", path.display());
        inventory.add(Whose::Ours, Kind::Cgroup, what, remedy);
    }
}

fn mounts(inventory: &mut Inventory) {
    match mount::ours() {
        Ok(mounts) => {
            for at in mounts {
                let what = format!("a mount of ours at {at}");
                inventory.add(Whose::Ours, Kind::Mount, what, format!("`umount {at}`"));
            }
        }
        Err(error) => inventory.unseen.push(format!("mounts: {error}")),
    }
}
