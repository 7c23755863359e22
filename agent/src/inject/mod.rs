//! Fault injection: one trait, one file a family.
//!
//! A case makes an injector with [`injector`], writes what [`Injector::undo`] says to the journal,
//! and only then injects. Nothing here decides when: triggers, lifetimes and leases belong to the
//! case. Every injector touches only what ringbreaker made: its ranks, namespaces and cgroups.
//!
//! What of a fault outlives a dead agent? Ranks and helper processes are tied to it by the kernel,
//! sockets, namespaces and the fabric vanish with it; still everything that has a name outside of
//! the agent (a stopped process, a helper, a cgroup) is journalled, because the tie is the kernel's
//! word and the journal is ours.

mod clock;
mod companion;
mod ground;
mod layers;
pub mod memory;
mod network;
mod port;
mod process;
mod shm;
mod storage;
mod volume;

use std::io;

use ringbreaker_scenarios::{
    case::{FaultPlan, Node, Rank},
    fault::FaultKind,
    units::Nanos,
};

use self::volume::{Filled, ReadOnly, Volume};
pub use self::{ground::Ground, network::Links, shm::is_stale, volume::BALLAST_PREFIX};
use crate::journal::Undo;

/// The injector of a fault. Companion processes it needs are started here, idle, so that injecting is
/// quick and their undo is known before; dropping the injector ends them. Drop injectors before the
/// nodes: they share them.
///
/// # Errors
/// When the plan names what the case does not have, or this machine cannot carry the fault.
pub fn injector(plan: &FaultPlan, ground: &Ground) -> Result<Box<dyn Injector>, InjectError> {
    let name = plan.kind.name();
    let nodes = || ground.isolated(name, &plan.target.nodes);
    let ranks = || ground.ranks(name, &plan.target.ranks);
    let shaped = |effect| -> Result<Box<dyn Injector>, InjectError> {
        let links = ground.links(name, &plan.target.directions)?;
        let directions = plan.target.directions.clone();
        Ok(Box::new(network::Shaped::new(effect, links, directions, plan.id)))
    };
    Ok(match &plan.kind {
        FaultKind::Kill(fault) => Box::new(process::Killed::new(fault, ranks()?)),
        FaultKind::Stop(_) => Box::new(process::Stopped::new(ranks()?)),
        FaultKind::TakePort(fault) => {
            Box::new(port::Taken::new(fault, nodes()?, ground.rendezvous_port)?)
        }
        FaultKind::MuteListener(fault) => {
            Box::new(port::Mute::new(fault, nodes()?, ground.rendezvous_port)?)
        }
        FaultKind::ExhaustPorts(fault) => {
            Box::new(port::Exhausted::new(fault, nodes()?, ground, plan.id)?)
        }
        FaultKind::NarrowPorts(fault) => {
            Box::new(port::Narrowed::new(fault, nodes()?, ground, plan.id))
        }
        FaultKind::LimitShm(fault) => Box::new(shm::Limited::new(fault, nodes()?)),
        FaultKind::FillShm(fault) => {
            Box::new(Filled::new(name, Volume::Shm, nodes()?, fault.leave, plan.id))
        }
        FaultKind::ExhaustShmInodes(fault) => {
            Box::new(shm::NoInodes::new(fault, nodes()?, ground, plan.id))
        }
        FaultKind::ReadOnlyShm(_) => {
            Box::new(ReadOnly::new(name, Volume::Shm, nodes()?, ground, plan.id))
        }
        FaultKind::StaleShm(fault) => Box::new(shm::Stale::new(fault, nodes()?, plan.id)),
        FaultKind::LimitMemory(fault) => {
            Box::new(memory::RankMemory::new(fault, ranks()?, ground, plan.id)?)
        }
        FaultKind::PressPageCache(fault) => {
            Box::new(memory::PageCache::new(fault, ranks()?, ground, plan.id)?)
        }
        FaultKind::FragmentGpuMemory(fault) => {
            Box::new(memory::FragmentedGpu::new(fault, &plan.target.nodes, ground)?)
        }
        FaultKind::HoldGpuMemory(fault) => {
            Box::new(memory::GpuMemory::new(fault, &plan.target.nodes, ground)?)
        }
        FaultKind::FillStorage(fault) => {
            Box::new(Filled::new(name, Volume::Storage, nodes()?, fault.leave, plan.id))
        }
        FaultKind::ReadOnlyStorage(_) => {
            Box::new(ReadOnly::new(name, Volume::Storage, nodes()?, ground, plan.id))
        }
        FaultKind::SlowStorage(fault) => Box::new(storage::Slow::new(fault, nodes()?)),
        FaultKind::SlowLog(fault) => Box::new(storage::SlowedLog::new(fault, &ranks()?, ground)?),
        FaultKind::ShiftClock(fault) => Box::new(clock::Shifted::new(fault, ranks()?)),
        FaultKind::Delay(fault) => shaped(network::Effect::delay(fault))?,
        FaultKind::Loss(fault) => shaped(network::Effect::loss(fault))?,
        FaultKind::Rate(fault) => shaped(network::Effect::rate(fault))?,
        FaultKind::Partition(_) => shaped(network::Effect::partition())?,
    })
}

/// One fault of one case, not yet injected, in force, or healed.
///
/// Calls come from one thread at a time and may block for some milliseconds (they read and write
/// the kernel's files, start helper processes, enter namespaces): not for the async runtime.
pub trait Injector: Send {
    /// What must be undone if the agent dies while the fault is in force; journalled before
    /// [`Injector::inject`]. Empty when nothing of the fault outlives the agent.
    fn undo(&self) -> Vec<Undo>;

    /// Applies the fault. After an error, [`Injector::heal`] takes back what was done by then.
    fn inject(&mut self) -> Result<(), InjectError>;

    /// Independent evidence that the fault took effect, as a sentence for reports; none: not seen
    /// yet. Called every few milliseconds after `inject` until it answers or the fault is healed.
    fn witness(&mut self) -> Option<String>;

    /// When the fault took effect, for an injector that knows it better than the moment at which its
    /// witness looked: what notices an effect must not seem to come before it. Asked when the witness
    /// has answered.
    fn effect(&self) -> Option<Nanos> {
        None
    }

    /// Takes the fault back and verifies that. Calling it again, or without `inject`, is harmless.
    fn heal(&mut self) -> Result<(), InjectError>;
}

/// A rank process of the case, as an injector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankProcess {
    /// Which rank.
    pub rank: Rank,
    /// The node it runs on.
    pub node: Node,
    /// Its process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot (field 22 of /proc/PID/stat), which tells it from a
    /// later process with the same id.
    pub start_time: u64,
    /// How far its CLOCK_MONOTONIC was ahead of the agent's, in nanoseconds, by its own reading when it
    /// was ready; none: it has not told.
    pub clock_ahead: Option<i64>,
}

/// Why a fault could not be injected or healed.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The plan names something that this case does not have.
    #[error("{fault} cannot act on {target}: this case has no such target")]
    NoTarget {
        /// Name of the kind.
        fault: &'static str,
        /// What was named.
        target: String,
    },
    /// This machine or this isolation cannot carry the fault.
    #[error("{fault} is not possible here: {reason}")]
    NotPossible {
        /// Name of the kind.
        fault: &'static str,
        /// Why, and what would make it possible.
        reason: String,
    },
    /// The kernel refused a step.
    #[error("{fault}: could not {step}: {source}")]
    Step {
        /// Name of the kind.
        fault: &'static str,
        /// What was tried, such as `stop rank 1`.
        step: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The fault was taken back, but the check afterwards still found it.
    #[error("{fault} is still in force after healing: {found}")]
    StillThere {
        /// Name of the kind.
        fault: &'static str,
        /// What was found.
        found: String,
    },
}

impl InjectError {
    /// For `map_err`: the step that the kernel refused.
    fn step(fault: &'static str, step: impl Into<String>) -> impl FnOnce(io::Error) -> InjectError {
        let step = step.into();
        move |source| InjectError::Step { fault, step, source }
    }

    fn not_possible(fault: &'static str, reason: impl Into<String>) -> InjectError {
        InjectError::NotPossible { fault, reason: reason.into() }
    }

    fn still_there(fault: &'static str, found: impl Into<String>) -> InjectError {
        InjectError::StillThere { fault, found: found.into() }
    }
}
