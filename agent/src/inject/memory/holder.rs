//! `ringbreaker hold-gpu-memory`: the helper process that holds a GPU's memory.
//!
//! It says `ready` and obeys lines: `hold GPU LEAVE` takes all but so many bytes and answers `holds`;
//! `fragment GPU LEAVE PIECE` does so and leaves them in pieces; `free` answers `free BYTES`, what the
//! driver shows; `try BYTES` answers `fits` or `refused`, whether that much can be had in one piece. It
//! gives everything back when its standard input closes.

use std::io;

use crate::rank::nccl::cuda::{CudaError, Device, DeviceMemory};

/// The driver hands memory out in pieces of this size: that much above a margin is there.
pub(super) const PIECE: u64 = 2 << 20;

/// What it holds, and where.
type Holding = Option<(Device, Vec<DeviceMemory>)>;

/// Runs until standard input closes; returns the exit code.
pub fn hold_gpu() -> i32 {
    println!("ready");
    let mut holding: Holding = None;
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

fn obey(line: &str, holding: &mut Holding) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<u64>().map_err(|error| error.to_string());
    let said = |error: CudaError| error.to_string();
    let open = |gpu: &str| Device::open(number(gpu)? as u32).map_err(said);
    match words.as_slice() {
        ["hold", gpu, leave] => {
            let device = open(gpu)?;
            let held = take(&device, number(leave)?).map_err(said)?;
            *holding = Some((device, held));
            Ok("holds".to_owned())
        }
        ["fragment", gpu, leave, piece] => {
            let device = open(gpu)?;
            let held = fragment(&device, number(leave)?, number(piece)?).map_err(said)?;
            *holding = Some((device, held));
            Ok("holds".to_owned())
        }
        ["free"] => {
            let (device, _) = holding.as_ref().ok_or("nothing is held yet")?;
            let (free, _) = device.memory().map_err(said)?;
            Ok(format!("free {free}"))
        }
        ["try", bytes] => {
            let (device, _) = holding.as_ref().ok_or("nothing is held yet")?;
            match device.allocate(number(bytes)? as usize) {
                Ok(memory) => memory.free().map_err(said).map(|()| "fits".to_owned()),
                Err(_) => Ok("refused".to_owned()),
            }
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

/// Takes everything in pieces of one size (and the rest in smaller ones), then gives every second one
/// back, in the order of their addresses, until `leave` is free: no two of those touch.
fn fragment(device: &Device, leave: u64, piece: u64) -> Result<Vec<DeviceMemory>, CudaError> {
    let mut pieces = Vec::new();
    while let Ok(memory) = device.allocate(piece as usize) {
        pieces.push(memory);
    }
    let mut held = take(device, 0)?;
    pieces.sort_by_key(DeviceMemory::address);
    for (number, memory) in pieces.into_iter().enumerate() {
        let (free, _) = device.memory()?;
        match number % 2 {
            1 if free < leave => memory.free()?,
            _ => held.push(memory),
        }
    }
    Ok(held)
}
