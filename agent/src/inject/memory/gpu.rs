//! All of a GPU's memory but a margin is held by somebody else.

use std::{collections::BTreeSet, io};

use ringbreaker_scenarios::{case::Node, fault::HoldGpuMemory, units::Bytes};

use super::holder::PIECE;
use crate::{
    inject::{Ground, InjectError, Injector, companion::Companion},
    journal::Undo,
};

const FAULT: &str = "hold_gpu_memory";

/// A helper process for each GPU that ranks of the nodes use; it takes all but the margin.
///
/// Witness: asked anew, the driver shows no more free on each than the margin.
pub(in crate::inject) struct GpuMemory {
    leave: Bytes,
    held: Vec<Held>,
}

struct Held {
    gpu: u32,
    holder: Companion,
}

impl GpuMemory {
    /// Starts the helpers, which hold nothing yet (not even a context).
    pub(in crate::inject) fn new(
        fault: &HoldGpuMemory,
        nodes: &[Node],
        ground: &Ground,
    ) -> Result<GpuMemory, InjectError> {
        let gpus: BTreeSet<u32> = ground.gpus_of(nodes);
        if gpus.is_empty() {
            return Err(InjectError::not_possible(FAULT, "no rank of these nodes uses a GPU"));
        }
        let mut held = Vec::new();
        for gpu in gpus {
            let (holder, _) = Companion::start(ground, "hold-gpu-memory")
                .map_err(InjectError::step(FAULT, "start the helper that holds GPU memory"))?;
            held.push(Held { gpu, holder });
        }
        Ok(GpuMemory { leave: fault.leave, held })
    }
}

impl Held {
    fn take(&mut self, leave: Bytes) -> io::Result<()> {
        self.holder.say(&format!("hold {} {}", self.gpu, leave.0))?;
        self.holder.hear("holds").map(drop)
    }

    /// What the driver shows as free now.
    fn free(&mut self) -> io::Result<Bytes> {
        self.holder.say("free")?;
        self.holder.hear("free")?.parse().map(Bytes).map_err(io::Error::other)
    }
}

impl Injector for GpuMemory {
    fn undo(&self) -> Vec<Undo> {
        self.held.iter().map(|held| held.holder.undo()).collect()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for held in &mut self.held {
            let step = format!("hold the memory of GPU {}", held.gpu);
            held.take(self.leave).map_err(InjectError::step(FAULT, step))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let mut seen = Vec::new();
        for held in &mut self.held {
            let free = held.free().ok()?;
            if free.0 > self.leave.0 + PIECE {
                return None;
            }
            seen.push(format!("the driver shows {free} free on GPU {}", held.gpu));
        }
        Some(seen.join(", "))
    }

    fn heal(&mut self) -> Result<(), InjectError> {
        for held in &mut self.held {
            let step = format!("give back the memory of GPU {}", held.gpu);
            if !held.holder.leave().map_err(InjectError::step(FAULT, step))? {
                let found = format!("the helper process {}", held.holder.pid());
                return Err(InjectError::still_there(FAULT, found));
            }
        }
        Ok(())
    }
}
