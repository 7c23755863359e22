//! All of a GPU's memory but a margin is held by somebody else.

use std::{collections::BTreeSet, io};

use ringbreaker_scenarios::{case::Node, fault::HoldGpuMemory, units::Bytes};

use crate::{
    inject::{Ground, InjectError, Injector, companion::Companion},
    journal::Undo,
    rank::nccl::cuda::{CudaError, Device, DeviceMemory},
};

const FAULT: &str = "hold_gpu_memory";
/// The driver hands memory out in pieces of this size: that much above the margin is there.
const PIECE: u64 = 2 << 20;

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

/// `ringbreaker hold-gpu-memory`: says `ready`, reads `hold GPU LEAVE` and answers `holds`, reads
/// `free` and answers `free BYTES`; gives everything back when its standard input closes. Returns the
/// exit code.
pub fn hold_gpu() -> i32 {
    println!("ready");
    let mut holding: Option<(Device, Vec<DeviceMemory>)> = None;
    for line in io::stdin().lines() {
        let Ok(line) = line else { break };
        match obey(&line, &mut holding) {
            Ok(answer) => println!("{answer}"),
            Err(error) => {
                eprintln!("hold-gpu-memory: {line}: {error}");
                return 1;
            }
        }
    }
    // The driver takes everything back when the process ends.
    0
}

fn obey(line: &str, holding: &mut Option<(Device, Vec<DeviceMemory>)>) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["hold", gpu, leave] => {
            let number = |word: &str| word.parse::<u64>().map_err(|error| error.to_string());
            let device = Device::open(number(gpu)? as u32).map_err(|error| error.to_string())?;
            let held = take(&device, number(leave)?).map_err(|error| error.to_string())?;
            *holding = Some((device, held));
            Ok("holds".to_owned())
        }
        ["free"] => {
            let (device, _) = holding.as_ref().ok_or("nothing is held yet")?;
            let (free, _) = device.memory().map_err(|error| error.to_string())?;
            Ok(format!("free {free}"))
        }
        _ => Err("no such order".to_owned()),
    }
}

/// Takes plain device memory in ever smaller pieces until no more than `leave` is free.
fn take(device: &Device, leave: u64) -> Result<Vec<DeviceMemory>, CudaError> {
    let mut held = Vec::new();
    let mut piece = u64::MAX;
    loop {
        let (free, _) = device.memory()?;
        let excess = free.saturating_sub(leave);
        // Whole pieces of the driver's own size; below one there is nothing left to take.
        piece = piece.min(excess) / PIECE * PIECE;
        if piece == 0 {
            return Ok(held);
        }
        match device.allocate(piece as usize) {
            Ok(memory) => held.push(memory),
            // Memory in one piece may be refused where the same amount in smaller ones is not.
            Err(_) => piece /= 2,
        }
    }
}
