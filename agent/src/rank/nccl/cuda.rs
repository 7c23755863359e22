//! The CUDA driver, through cudarc and dlopen: a device, a stream, an event, memory.
//!
//! A rank takes one [`Device`] and makes everything else on it. Nothing here is destroyed except
//! memory that is exchanged for more: a rank may leave while a kernel of NCCL still spins, and every
//! driver call that frees something would wait for that kernel. The kernel driver takes it all back
//! when the process ends.
//!
//! All handles may be used from any thread (the driver API is thread safe); calls act on the context
//! that [`Device::enter`] makes current.

use std::{ffi::c_int, fs, slice, sync::OnceLock};

use cudarc::driver::{
    result::{self, DriverError},
    sys,
};

use super::{
    super::{backend::CallError, code},
    library,
};

/// Why CUDA cannot do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// libcuda is absent.
    #[error(
        "no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver, put its directory in \
         LD_LIBRARY_PATH, or use --backend host"
    )]
    NoDriver,
    /// There is no device of that number.
    #[error("there is no GPU {index}: the driver shows {count}")]
    NoDevice {
        /// What was asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// A call failed.
    #[error("{call}: {name}: {text}")]
    Call {
        /// The driver function.
        call: &'static str,
        /// Such as CUDA_ERROR_OUT_OF_MEMORY.
        name: String,
        /// In the driver's words.
        text: String,
    },
}

impl CudaError {
    /// For `map_err`: the function that failed.
    fn of(call: &'static str) -> impl Fn(DriverError) -> CudaError {
        move |error| CudaError::Call {
            call,
            name: error.error_name().map_or_else(
                |_| format!("CUresult {}", error.0 as u32),
                |name| name.to_string_lossy().into_owned(),
            ),
            text: error
                .error_string()
                .map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned()),
        }
    }
}

impl From<CudaError> for CallError {
    fn from(error: CudaError) -> CallError {
        CallError::new(code::UNHANDLED_CUDA_ERROR, error.to_string())
    }
}

/// Loads and initialises the driver, once. cudarc panics where libcuda is missing: everything here
/// goes through this first.
fn driver() -> Result<(), CudaError> {
    static STARTED: OnceLock<Result<(), CudaError>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: loads libcuda, whose initialisers are made to be run by dlopen.
            if !unsafe { sys::is_culib_present() } {
                return Err(CudaError::NoDriver);
            }
            result::init().map_err(CudaError::of("cuInit"))
        })
        .clone()
}

/// How many GPUs this process may use (CUDA_VISIBLE_DEVICES counts).
///
/// # Errors
/// Without a driver, or when it refuses.
pub fn device_count() -> Result<u32, CudaError> {
    driver()?;
    let count = result::device::get_count().map_err(CudaError::of("cuDeviceGetCount"))?;
    Ok(count.unsigned_abs())
}

/// The newest CUDA that the driver supports, such as `13.0`.
///
/// # Errors
/// Without a driver.
pub fn cuda_version() -> Result<String, CudaError> {
    driver()?;
    let mut version: c_int = 0;
    // SAFETY: writes one integer, to a place that lives longer than the call.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(CudaError::of("cuDriverGetVersion"))?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// The release of the kernel driver, such as `580.159.04`; none: it does not say.
pub fn driver_release() -> Option<String> {
    release(&fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// The first word made of numbers and dots, in the first line.
fn release(text: &str) -> Option<String> {
    let first = text.lines().next()?;
    let is_release =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    first.split_whitespace().find(is_release).map(ToOwned::to_owned)
}

/// What a GPU is; asking needs no context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// As nvidia-smi writes it, `GPU-...`.
    pub uuid: String,
    /// All of its memory, in bytes.
    pub total_bytes: u64,
}

/// Asks the driver what a GPU is.
///
/// # Errors
/// Without a driver, or where there is no such GPU.
pub fn identity(index: u32) -> Result<Identity, CudaError> {
    let device = device(index)?;
    let name = result::device::get_name(device).map_err(CudaError::of("cuDeviceGetName"))?;
    let uuid = result::device::get_uuid(device).map_err(CudaError::of("cuDeviceGetUuid"))?;
    // SAFETY: the device was returned by the driver.
    let total =
        unsafe { result::device::total_mem(device) }.map_err(CudaError::of("cuDeviceTotalMem"))?;
    let uuid: Vec<u8> = uuid.bytes.iter().map(|byte| byte.cast_unsigned()).collect();
    Ok(Identity { name, uuid: uuid_text(&uuid), total_bytes: total as u64 })
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = "GPU".to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn device(index: u32) -> Result<sys::CUdevice, CudaError> {
    let count = device_count()?;
    if index >= count {
        return Err(CudaError::NoDevice { index, count });
    }
    // Smaller than a count that was an int.
    result::device::get(index as c_int).map_err(CudaError::of("cuDeviceGet"))
}

/// A GPU with its primary context, which is the one that NCCL uses.
#[derive(Debug)]
pub struct Device {
    context: sys::CUcontext,
}

// SAFETY: a context handle may be used from any thread (CUDA driver API, "thread safety").
unsafe impl Send for Device {}
// SAFETY: as above; the handle itself never changes.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a GPU: some 0.3 s and 0.5 GiB of its memory.
    ///
    /// # Errors
    /// Without a driver, without that GPU, or when its memory is used up.
    pub fn open(index: u32) -> Result<Device, CudaError> {
        let device = device(index)?;
        // SAFETY: the device was returned by the driver. The context is never released.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(CudaError::of("cuDevicePrimaryCtxRetain"))?;
        let device = Device { context };
        device.enter()?;
        Ok(device)
    }

    /// Makes its context the current one of this thread; every method of what is made on a device
    /// expects that.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained and never released.
        unsafe { result::ctx::set_current(self.context) }.map_err(CudaError::of("cuCtxSetCurrent"))
    }

    /// Free and total memory in bytes, of all processes.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.enter()?;
        let (free, total) = result::mem_get_info().map_err(CudaError::of("cuMemGetInfo"))?;
        Ok((free as u64, total as u64))
    }

    /// Takes memory. It is never managed memory, which can hang a GPU that is full.
    ///
    /// # Errors
    /// When there is too little.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory, CudaError> {
        self.enter()?;
        // SAFETY: a context is current; the driver refuses zero bytes by itself.
        let at = unsafe { result::malloc_sync(bytes) }.map_err(CudaError::of("cuMemAlloc"))?;
        Ok(DeviceMemory { at, bytes })
    }

    /// Takes memory of the host that the GPU copies from and to directly.
    ///
    /// # Errors
    /// When there is too little.
    pub(super) fn allocate_host(&self, bytes: usize) -> Result<HostMemory, CudaError> {
        self.enter()?;
        // SAFETY: a context is current.
        let at =
            unsafe { result::malloc_host(bytes, 0) }.map_err(CudaError::of("cuMemHostAlloc"))?;
        // SAFETY: `bytes` bytes that were just allocated, belong to nobody else, and are never
        // freed; they are zeroed before anyone reads them.
        let slice = unsafe {
            std::ptr::write_bytes(at.cast::<u8>(), 0, bytes);
            slice::from_raw_parts_mut(at.cast::<u8>(), bytes)
        };
        Ok(HostMemory { slice })
    }

    /// Makes a stream and an event on it.
    ///
    /// # Errors
    /// When the driver refuses.
    pub(super) fn stream(&self) -> Result<Stream, CudaError> {
        self.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(CudaError::of("cuStreamCreate"))?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
            .map_err(CudaError::of("cuEventCreate"))?;
        Ok(Stream { stream, event })
    }
}

/// Memory of a GPU. It stays taken until [`DeviceMemory::free`] or the end of the process.
#[derive(Debug)]
pub struct DeviceMemory {
    at: sys::CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// Its size in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its address on the device.
    pub const fn address(&self) -> u64 {
        self.at
    }

    /// Gives it back. Waits for whatever runs on the device.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn free(self) -> Result<(), CudaError> {
        // SAFETY: allocated by `allocate`, and given up here.
        unsafe { result::free_sync(self.at) }.map_err(CudaError::of("cuMemFree"))
    }
}

/// Pinned memory of the host.
#[derive(Debug)]
pub(super) struct HostMemory {
    slice: &'static mut [u8],
}

impl HostMemory {
    pub(super) const fn bytes(&mut self) -> &mut [u8] {
        self.slice
    }
}

/// A stream with an event that marks the end of what is on it.
#[derive(Debug)]
pub(super) struct Stream {
    stream: sys::CUstream,
    event: sys::CUevent,
}

// SAFETY: stream and event handles may be used from any thread (CUDA driver API).
unsafe impl Send for Stream {}
// SAFETY: as above; the handles themselves never change.
unsafe impl Sync for Stream {}

impl Stream {
    /// As NCCL takes it: cudaStream_t and CUstream are the same (CUDA runtime API, "interactions
    /// with the driver API").
    pub(super) const fn for_nccl(&self) -> library::Stream {
        self.stream.cast()
    }

    /// Copies to the device; `from` must stay as it is until [`Stream::synchronize`] returns.
    pub(super) fn upload(
        &self,
        to: &DeviceMemory,
        from: &HostMemory,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let from = &from.slice[..bytes];
        assert!(bytes <= to.bytes, "invariant: what is uploaded fits");
        // SAFETY: both ends hold that many bytes, and neither is ever freed while in use: pinned
        // memory never, device memory only after a synchronise.
        unsafe { result::memcpy_htod_async(to.at, from, self.stream) }
            .map_err(CudaError::of("cuMemcpyHtoDAsync"))
    }

    /// Copies within one piece of device memory, from its beginning.
    pub(super) fn repeat(
        &self,
        memory: &DeviceMemory,
        to: usize,
        bytes: usize,
    ) -> Result<(), CudaError> {
        assert!(bytes <= to && to + bytes <= memory.bytes, "invariant: copies stay inside");
        // SAFETY: inside the allocation, and the two ranges do not overlap.
        unsafe { result::memcpy_dtod_async(memory.at + to as u64, memory.at, bytes, self.stream) }
            .map_err(CudaError::of("cuMemcpyDtoDAsync"))
    }

    /// Copies from the device; `to` holds the bytes once [`Stream::synchronize`] has returned.
    pub(super) fn download(
        &self,
        from: &DeviceMemory,
        at: usize,
        to: &mut [u8],
    ) -> Result<(), CudaError> {
        assert!(at + to.len() <= from.bytes, "invariant: what is downloaded is there");
        // SAFETY: both ends hold that many bytes; the callers download into pinned memory, which is
        // never freed, and read it after a synchronise.
        unsafe { result::memcpy_dtoh_async(to, from.at + at as u64, self.stream) }
            .map_err(CudaError::of("cuMemcpyDtoHAsync"))
    }

    /// Sets bytes on the device.
    pub(super) fn fill(
        &self,
        memory: &DeviceMemory,
        byte: u8,
        bytes: usize,
    ) -> Result<(), CudaError> {
        assert!(bytes <= memory.bytes, "invariant: what is filled is there");
        // SAFETY: inside the allocation.
        unsafe { result::memset_d8_async(memory.at, byte, bytes, self.stream) }
            .map_err(CudaError::of("cuMemsetD8Async"))
    }

    /// Waits for everything on the stream; never called while an operation of NCCL is on it.
    pub(super) fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream is never destroyed.
        unsafe { result::stream::synchronize(self.stream) }
            .map_err(CudaError::of("cuStreamSynchronize"))
    }

    /// Marks the present end of the stream.
    pub(super) fn mark(&self) -> Result<(), CudaError> {
        // SAFETY: neither is ever destroyed.
        unsafe { result::event::record(self.event, self.stream) }
            .map_err(CudaError::of("cuEventRecord"))
    }

    /// Whether everything up to the mark is done.
    pub(super) fn reached(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is never destroyed.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(CudaError::of("cuEventQuery")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_release_is_read_from_either_kind_of_driver() {
        for text in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Aug  1\nGCC version: 13.2.0",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
        ] {
            assert_eq!(release(text).as_deref(), Some("580.159.04"));
        }
        assert_eq!(release("no driver"), None);
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_writes_it() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(uuid_text(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_machine_without_a_driver_is_told_so_in_one_sentence() {
        match device_count() {
            Err(error) => {
                let message = CallError::from(error).message;
                assert!(!message.contains('\n') && !message.is_empty(), "{message}");
            }
            Ok(count) => println!("SKIPPED: this machine has a driver and {count} GPUs"),
        }
    }
}
