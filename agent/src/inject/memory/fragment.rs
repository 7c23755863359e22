//! What is free of a GPU's memory is in pieces.

use std::{collections::BTreeSet, io};

use ringbreaker_scenarios::{case::Node, fault::FragmentGpuMemory, units::Bytes};

use super::holder::PIECE;
use crate::{
    inject::{Ground, InjectError, Injector, companion::Companion},
    journal::Undo,
};

const FAULT: &str = "fragment_gpu_memory";

/// A helper process for each GPU that ranks of the nodes use; it takes everything in pieces and gives
/// every second one back. With very small pieces that takes seconds.
///
/// Witness: the driver shows that the margin is free, and refuses twice the size of a piece in one. The
/// driver maps memory in pages and may be able to join pieces that do not touch: then the second half
/// does not hold, and the fault is reported as not seen.
pub(in crate::inject) struct FragmentedGpu {
    fault: FragmentGpuMemory,
    held: Vec<Held>,
}

struct Held {
    gpu: u32,
    holder: Companion,
    /// Whether two pieces in one were refused; none: not tried yet. Trying costs memory for a moment,
    /// so it is done once.
    in_pieces: Option<bool>,
}

impl FragmentedGpu {
    /// Starts the helpers, which hold nothing yet (not even a context).
    pub(in crate::inject) fn new(
        fault: &FragmentGpuMemory,
        nodes: &[Node],
        ground: &Ground,
    ) -> Result<FragmentedGpu, InjectError> {
        let gpus: BTreeSet<u32> = ground.gpus_of(nodes);
        if gpus.is_empty() {
            return Err(InjectError::not_possible(FAULT, "no rank of these nodes uses a GPU"));
        }
        let mut held = Vec::new();
        for gpu in gpus {
            let (holder, _) = Companion::start(ground, "hold-gpu-memory")
                .map_err(InjectError::step(FAULT, "start the helper that holds GPU memory"))?;
            held.push(Held { gpu, holder, in_pieces: None });
        }
        Ok(FragmentedGpu { fault: fault.clone(), held })
    }
}

impl Held {
    fn fragment(&mut self, fault: &FragmentGpuMemory) -> io::Result<()> {
        let FragmentGpuMemory { leave, piece } = fault;
        self.holder.say(&format!("fragment {} {} {}", self.gpu, leave.0, piece.0))?;
        self.holder.hear("holds").map(drop)
    }

    /// What the driver shows as free now.
    fn free(&mut self) -> io::Result<Bytes> {
        self.holder.say("free")?;
        self.holder.hear("free")?.parse().map(Bytes).map_err(io::Error::other)
    }

    fn is_in_pieces(&mut self, piece: Bytes) -> io::Result<bool> {
        if let Some(known) = self.in_pieces {
            return Ok(known);
        }
        self.holder.say(&format!("try {}", 2 * piece.0))?;
        // Any other answer than a refusal means that it fits.
        let refused = self.holder.hear("").map(|answer| answer == "refused")?;
        self.in_pieces = Some(refused);
        Ok(refused)
    }
}

impl Injector for FragmentedGpu {
    fn undo(&self) -> Vec<Undo> {
        self.held.iter().map(|held| held.holder.undo()).collect()
    }

    fn inject(&mut self) -> Result<(), InjectError> {
        for held in &mut self.held {
            let step = format!("take the memory of GPU {} to pieces", held.gpu);
            held.fragment(&self.fault).map_err(InjectError::step(FAULT, step))?;
        }
        Ok(())
    }

    fn witness(&mut self) -> Option<String> {
        let FragmentGpuMemory { leave, piece } = self.fault;
        let mut seen = Vec::new();
        for held in &mut self.held {
            let free = held.free().ok()?;
            if free.0 + PIECE < leave.0 || !held.is_in_pieces(piece).ok()? {
                return None;
            }
            let twice = Bytes(2 * piece.0);
            let gpu = held.gpu;
            seen.push(format!(
                "the driver shows {free} free on GPU {gpu} and refuses {twice} in one"
            ));
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
