//! The faults: one description a kind. A kind has exactly one variant here, one message on the
//! wire, one injector in the agent and one row in docs/faults.md; the compiler or a test says when
//! one of them is missing.

pub mod clock;
pub mod memory;
pub mod network;
pub mod port;
pub mod process;
pub mod shm;
pub mod storage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use clock::ShiftClock;
pub use memory::{FragmentGpuMemory, HoldGpuMemory, LimitMemory, PressPageCache};
pub use network::{Delay, Loss, Partition, Rate};
pub use port::{ExhaustPorts, MuteListener, NarrowPorts, PortRole, TakePort};
pub use process::{Kill, Signal, Stop};
pub use shm::{ExhaustShmInodes, FillShm, LimitShm, ReadOnlyShm, StaleShm};
pub use storage::{FillStorage, ReadOnlyStorage, SlowLog, SlowStorage};

/// A kind of fault with its parameters. Externally tagged, as in `inject.kill = { ... }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// A signal that ends a rank.
    Kill(Kill),
    /// SIGSTOP, and SIGCONT when the fault's life ends.
    Stop(Stop),
    /// Somebody else listens on the port that the job wants.
    TakePort(TakePort),
    /// Somebody else accepts the job's connections and never answers.
    MuteListener(MuteListener),
    /// No automatic port is left on a node.
    ExhaustPorts(ExhaustPorts),
    /// A node has few automatic ports.
    NarrowPorts(NarrowPorts),
    /// /dev/shm is small from the start.
    LimitShm(LimitShm),
    /// /dev/shm is filled while the job runs.
    FillShm(FillShm),
    /// /dev/shm takes no more files.
    ExhaustShmInodes(ExhaustShmInodes),
    /// /dev/shm can only be read.
    ReadOnlyShm(ReadOnlyShm),
    /// Files of an earlier run lie in /dev/shm.
    StaleShm(StaleShm),
    /// A rank's memory limit is reached, down to the OOM killer.
    LimitMemory(LimitMemory),
    /// Page cache crowds a rank's memory.
    PressPageCache(PressPageCache),
    /// All of the GPU's memory but a margin is held by somebody else.
    HoldGpuMemory(HoldGpuMemory),
    /// What is free of a GPU's memory is in pieces.
    FragmentGpuMemory(FragmentGpuMemory),
    /// A rank's clock differs from that of the others.
    ShiftClock(ShiftClock),
    /// What ranks write to is full.
    FillStorage(FillStorage),
    /// What ranks write to can only be read.
    ReadOnlyStorage(ReadOnlyStorage),
    /// What ranks write to is slow.
    SlowStorage(SlowStorage),
    /// What a rank logs is taken too slowly.
    SlowLog(SlowLog),
    /// Packets of a link arrive late.
    Delay(Delay),
    /// Packets of a link are lost.
    Loss(Loss),
    /// A link is slow.
    Rate(Rate),
    /// Nothing passes a link.
    Partition(Partition),
}

impl FaultKind {
    /// The name in scenario files: `kill`, `take_port`, ...
    pub const fn name(&self) -> &'static str {
        match self {
            FaultKind::Kill(_) => "kill",
            FaultKind::Stop(_) => "stop",
            FaultKind::TakePort(_) => "take_port",
            FaultKind::MuteListener(_) => "mute_listener",
            FaultKind::ExhaustPorts(_) => "exhaust_ports",
            FaultKind::NarrowPorts(_) => "narrow_ports",
            FaultKind::LimitShm(_) => "limit_shm",
            FaultKind::FillShm(_) => "fill_shm",
            FaultKind::ExhaustShmInodes(_) => "exhaust_shm_inodes",
            FaultKind::ReadOnlyShm(_) => "read_only_shm",
            FaultKind::StaleShm(_) => "stale_shm",
            FaultKind::LimitMemory(_) => "limit_memory",
            FaultKind::PressPageCache(_) => "press_page_cache",
            FaultKind::HoldGpuMemory(_) => "hold_gpu_memory",
            FaultKind::FragmentGpuMemory(_) => "fragment_gpu_memory",
            FaultKind::ShiftClock(_) => "shift_clock",
            FaultKind::FillStorage(_) => "fill_storage",
            FaultKind::ReadOnlyStorage(_) => "read_only_storage",
            FaultKind::SlowStorage(_) => "slow_storage",
            FaultKind::SlowLog(_) => "slow_log",
            FaultKind::Delay(_) => "delay",
            FaultKind::Loss(_) => "loss",
            FaultKind::Rate(_) => "rate",
            FaultKind::Partition(_) => "partition",
        }
    }

    /// Every name, in the order of the documentation.
    pub const NAMES: &'static [&'static str] = &[
        "kill",
        "stop",
        "take_port",
        "mute_listener",
        "exhaust_ports",
        "narrow_ports",
        "limit_shm",
        "fill_shm",
        "exhaust_shm_inodes",
        "read_only_shm",
        "stale_shm",
        "limit_memory",
        "press_page_cache",
        "hold_gpu_memory",
        "fragment_gpu_memory",
        "shift_clock",
        "fill_storage",
        "read_only_storage",
        "slow_storage",
        "slow_log",
        "delay",
        "loss",
        "rate",
        "partition",
    ];

    /// How the fault is undone, as a sentence's end: `undo: ...`.
    pub const fn undo(&self) -> &'static str {
        match self {
            FaultKind::Kill(_) => "nothing to undo: a killed rank does not come back",
            FaultKind::Stop(_) => "SIGCONT",
            FaultKind::TakePort(_) | FaultKind::MuteListener(_) => "close the listener",
            FaultKind::ExhaustPorts(_) => "close the listeners, restore the port range",
            FaultKind::NarrowPorts(_) => "restore the port range",
            FaultKind::LimitShm(_) => "goes with the node's mount namespace",
            FaultKind::FillShm(_) | FaultKind::FillStorage(_) => "remove the file",
            FaultKind::ExhaustShmInodes(_) => "lift the limit of files",
            FaultKind::ReadOnlyShm(_) | FaultKind::ReadOnlyStorage(_) => {
                "take the read-only mount away"
            }
            FaultKind::SlowStorage(_) => "let everybody through",
            FaultKind::SlowLog(_) => "take everything",
            FaultKind::StaleShm(_) => "remove the files",
            FaultKind::LimitMemory(_) | FaultKind::PressPageCache(_) => {
                "end the helper, lift the limit"
            }
            FaultKind::HoldGpuMemory(_) | FaultKind::FragmentGpuMemory(_) => "end the holder",
            FaultKind::ShiftClock(_) => "goes with the rank",
            FaultKind::Delay(_)
            | FaultKind::Loss(_)
            | FaultKind::Rate(_)
            | FaultKind::Partition(_) => "clear the rule of the link",
        }
    }

    /// What the fault acts on.
    pub const fn acts_on(&self) -> ActsOn {
        match self {
            FaultKind::Kill(_)
            | FaultKind::Stop(_)
            | FaultKind::LimitMemory(_)
            | FaultKind::PressPageCache(_)
            | FaultKind::ShiftClock(_)
            | FaultKind::SlowLog(_) => ActsOn::Ranks,
            FaultKind::TakePort(_)
            | FaultKind::MuteListener(_)
            | FaultKind::ExhaustPorts(_)
            | FaultKind::NarrowPorts(_)
            | FaultKind::LimitShm(_)
            | FaultKind::FillShm(_)
            | FaultKind::ExhaustShmInodes(_)
            | FaultKind::ReadOnlyShm(_)
            | FaultKind::StaleShm(_)
            | FaultKind::HoldGpuMemory(_)
            | FaultKind::FragmentGpuMemory(_)
            | FaultKind::FillStorage(_)
            | FaultKind::ReadOnlyStorage(_)
            | FaultKind::SlowStorage(_) => ActsOn::Nodes,
            FaultKind::Delay(_)
            | FaultKind::Loss(_)
            | FaultKind::Rate(_)
            | FaultKind::Partition(_) => ActsOn::Links,
        }
    }
}

/// What a fault kind acts on; a target is resolved to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActsOn {
    /// Rank processes.
    Ranks,
    /// Nodes.
    Nodes,
    /// Directions of links between nodes.
    Links,
}
