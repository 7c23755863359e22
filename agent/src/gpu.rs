//! The GPUs and copies of libnccl of this machine, found by a child process.
//!
//! The agent itself never loads the driver or libnccl: a CUDA context holds GPU memory and would be
//! there when the agent forks, and libnccl may start threads. The child `ringbreaker probe-gpu` asks,
//! prints what it found as JSON, and is gone.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{
    program::program,
    rank::nccl::{
        cuda::{self, Device},
        find,
        library::Loaded,
    },
};

/// What is there on every machine whose NVIDIA driver is loaded.
const DRIVER: &str = "/dev/nvidiactl";

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// CUDA's number for it.
    pub index: u32,
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// As nvidia-smi writes it.
    pub uuid: String,
    /// Release of the kernel driver.
    pub driver: String,
    /// All of its memory.
    pub total_bytes: u64,
    /// What is free of it beside the context of the process that asks (some 0.5 GiB).
    pub free_bytes: u64,
}

/// A copy of libnccl that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Such as `2.28.9`.
    pub version: String,
    /// The functions it has that not every release has.
    pub optional_symbols: Vec<String>,
}

/// What a machine has for real NCCL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The GPUs.
    pub gpus: Vec<GpuInfo>,
    /// The copies of libnccl, best first.
    pub nccl: Vec<NcclInfo>,
    /// Why something that could be there is not, one sentence each.
    pub missing: Vec<String>,
}

/// Looks for GPUs and for libnccl: at the named copies, or in the usual places. Takes about half a
/// second where there is a GPU, and starts nothing where there is neither driver nor library.
pub fn find(named: &[PathBuf]) -> Found {
    if !Path::new(DRIVER).exists() && find::copies(named).is_empty() {
        let missing = vec![format!("no NVIDIA driver is loaded ({DRIVER} is not there)")];
        return Found { missing, ..Found::default() };
    }
    ask_child(named).unwrap_or_else(|error| Found {
        missing: vec![format!("failed to look for GPUs: {error}")],
        ..Found::default()
    })
}

fn ask_child(named: &[PathBuf]) -> io::Result<Found> {
    let output = Command::new(program()?)
        .arg("probe-gpu")
        .args(named)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

/// The child: looks, prints, and returns its exit code.
pub fn probe_main(named: &[PathBuf]) -> i32 {
    let found = look(named);
    let text = serde_json::to_string(&found).expect("invariant: our own words are valid JSON");
    println!("{text}");
    0
}

fn look(named: &[PathBuf]) -> Found {
    let mut found = Found::default();
    match cuda::device_count() {
        Ok(0) => found.missing.push("the NVIDIA driver shows no GPU".to_owned()),
        Ok(count) => {
            for index in 0..count {
                match gpu(index) {
                    Ok(gpu) => found.gpus.push(gpu),
                    Err(error) => found.missing.push(format!("GPU {index}: {error}")),
                }
            }
        }
        Err(error) => found.missing.push(error.to_string()),
    }
    for path in find::copies(named) {
        match Loaded::open(&path) {
            Ok(library) => found.nccl.push(NcclInfo {
                version: library.version().to_string(),
                optional_symbols: library.optional().iter().map(|s| (*s).to_owned()).collect(),
                path,
            }),
            Err(error) => found.missing.push(error.to_string()),
        }
    }
    found
}

fn gpu(index: u32) -> Result<GpuInfo, cuda::CudaError> {
    let identity = cuda::identity(index)?;
    // Only a context can be asked for free memory.
    let (free, _) = Device::open(index)?.memory()?;
    Ok(GpuInfo {
        index,
        name: identity.name,
        uuid: identity.uuid,
        driver: cuda::driver_release().unwrap_or_default(),
        total_bytes: identity.total_bytes,
        free_bytes: free,
    })
}
