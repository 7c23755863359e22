//! Real NCCL, opened at run time: no CUDA is needed to build, and none to start.
//!
//! - [`library`]: libnccl's functions, with everything that can be wrong with a file named;
//! - [`find`]: where copies of libnccl lie;  [`names`]: which settings a copy knows (`shared_end`: also
//!   those whose bytes are the end of a longer name);
//! - [`cuda`]: the driver, a device, a stream, memory;
//! - `config`, `communicator`, `operation`: a non-blocking communicator and what runs on it;
//! - `buffers`: what is sent and what must come out;  `log`: what NCCL's log tells.
//!
//! docs/nccl.md names the facts about NCCL that this relies on, with their sources.

mod buffers;
mod communicator;
mod config;
pub mod cuda;
pub mod find;
pub mod library;
mod log;
pub mod names;
mod operation;
mod shared_end;

use std::{collections::BTreeMap, env, path::Path, sync::Arc};

use ringbreaker_scenarios::case::Rank;

use self::{
    communicator::{NcclCommunicator, Place},
    cuda::Device,
    library::{ID_BYTES, Loaded, UniqueId},
};
use super::{
    backend::{CallError, Communicator, Library},
    code,
};

/// Loads libnccl (the first copy found when none is named) and takes the GPU (the first when none is
/// named): some 0.4 s, nearly all of it for the CUDA context.
///
/// # Errors
/// In one sentence: no libnccl, no driver, no such GPU, or what they said.
pub fn open(library: Option<&Path>, gpu: Option<u32>) -> Result<Arc<dyn Library>, CallError> {
    let unusable = |message: String| CallError::new(code::INVALID_USAGE, message);
    let found = find::copies(&[]);
    let path = library.or_else(|| found.first().map(|path| path.as_path())).ok_or_else(|| {
        unusable(
            "no libnccl.so.2 was found; name one with --nccl, or use --backend host".to_owned(),
        )
    })?;
    let nccl = Loaded::open(path).map_err(|error| unusable(error.to_string()))?;
    let gpu = gpu.unwrap_or(0);
    let device = Device::open(gpu)?;
    Ok(Arc::new(Nccl { nccl: Arc::new(nccl), device: Arc::new(device), gpu }))
}

/// A loaded libnccl and a GPU.
#[derive(Debug)]
struct Nccl {
    nccl: Arc<Loaded>,
    device: Arc<Device>,
    gpu: u32,
}

/// Whether NCCL_COMM_BLOCKING makes communicators blocking that are asked not to be.
fn forced_blocking() -> bool {
    env::var("NCCL_COMM_BLOCKING").is_ok_and(|text| is_one(&text))
}

/// Whether strtoll reads a one, which is the only value that NCCL makes blocking of (init.cc of 2.28).
fn is_one(text: &str) -> bool {
    let text = text.trim_start();
    let digits = text.strip_prefix('+').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].trim_start_matches('0') == "1"
}

impl Library for Nccl {
    fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        let mut is = |name: &str, version: String| versions.insert(name.to_owned(), version);
        is("nccl", self.nccl.version().to_string());
        is("nccl library", self.nccl.path().display().to_string());
        if let Ok(cuda) = cuda::cuda_version() {
            is("cuda driver api", cuda);
        }
        if let Some(release) = cuda::driver_release() {
            is("nvidia driver", release);
        }
        if let Ok(gpu) = cuda::identity(self.gpu) {
            is("gpu", gpu.name);
        }
        versions
    }

    fn make_id(&self) -> Result<Vec<u8>, CallError> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: writes an id, to a place that lives longer than the call.
        let code = unsafe { (self.nccl.functions.get_unique_id)(&raw mut id) };
        match code {
            code::SUCCESS => Ok(id.0.to_vec()),
            code => {
                let words = self.nccl.last_error();
                Err(CallError::new(code, words.unwrap_or_else(|| self.nccl.error_string(code))))
            }
        }
    }

    fn begin_init(
        &self,
        id: &[u8],
        rank: Rank,
        world: u32,
    ) -> Result<Arc<dyn Communicator>, CallError> {
        let id: [u8; ID_BYTES] = id.try_into().map_err(|_| {
            let message = format!("a unique id has {ID_BYTES} bytes, not {}", id.len());
            CallError::new(code::INVALID_ARGUMENT, message)
        })?;
        self.device.enter()?;
        let place = Place { id: UniqueId(id), rank, world };
        Ok(NcclCommunicator::begin(&self.nccl, &self.device, place, forced_blocking())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_one_makes_communicators_blocking() {
        for (text, want) in [
            ("1", true),
            (" 01", true),
            ("+1s", true),
            ("0", false),
            ("", false),
            ("10", false),
            ("true", false),
            ("-1", false),
        ] {
            assert_eq!(is_one(text), want, "{text:?}");
        }
    }
}
