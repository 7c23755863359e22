//! libnccl as a table of functions, opened by its absolute path at run time.
//!
//! [`super::open`] loads it in rank processes, the GPU probe in a child of its own: loading runs the
//! library's initialisers, and a loaded library is never unloaded, since NCCL may have started
//! threads. Every symbol is looked up when loading, so that a missing one is an error that names it
//! and never a surprise in the middle of an operation. Versions say little: ncclCommRevoke is in
//! 2.28.9 and not in 2.28.3. Result codes stay plain integers, since releases add some.
//!
//! Nothing here knows about communicators of ranks or about CUDA.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::{Path, PathBuf},
};

use super::{super::code, config::Config};

/// ncclComm_t.
pub(super) type Comm = *mut c_void;
/// cudaStream_t, which is the driver's CUstream.
pub(super) type Stream = *mut c_void;

/// Bytes of an ncclUniqueId (NCCL_UNIQUE_ID_BYTES in nccl.h).
pub(super) const ID_BYTES: usize = 128;

/// ncclUniqueId; passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [u8; ID_BYTES]);

/// Functions that a copy may lack without being useless; each is newer than non-blocking
/// communicators (2.14).
pub const OPTIONAL: &[&str] = &[
    "ncclAlltoAll",
    "ncclCommGrow",
    "ncclCommInitRankScalable",
    "ncclCommRevoke",
    "ncclCommShrink",
    "ncclCommSplit",
    "ncclCommSuspend",
    "ncclCommWindowRegister",
    "ncclMemAlloc",
];

/// Why a copy of libnccl cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// dlopen refused.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// dlopen's own words.
        reason: String,
    },
    /// It lacks a function that no communicator can do without.
    #[error("{} is no libnccl that can be used: it lacks {symbol} (NCCL 2.14 or later is needed)", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
    /// ncclGetVersion failed.
    #[error("{} does not tell its version: {} ({code})", path.display(), code::name(*.code))]
    Version {
        /// The file.
        path: PathBuf,
        /// ncclResult_t.
        code: i32,
    },
}

/// A release of NCCL, such as 2.28.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 2.
    pub major: u32,
    /// 28.
    pub minor: u32,
    /// 9.
    pub patch: u32,
}

impl Version {
    /// From NCCL_VERSION_CODE: 22809 since 2.9, 2804 before (the macro NCCL_VERSION in nccl.h).
    pub const fn from_code(code: u32) -> Version {
        match code {
            0..10_000 => Version { major: code / 1000, minor: code / 100 % 10, patch: code % 100 },
            _ => Version { major: code / 10_000, minor: code / 100 % 100, patch: code % 100 },
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

type Collective = unsafe extern "C" fn(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type Reduction = unsafe extern "C" fn(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type Rooted = unsafe extern "C" fn(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type RootedReduction = unsafe extern "C" fn(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    root: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type Send = unsafe extern "C" fn(
    buffer: *const c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type Recv = unsafe extern "C" fn(
    buffer: *mut c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: Comm,
    stream: Stream,
) -> c_int;
type OfComm = unsafe extern "C" fn(comm: Comm) -> c_int;

/// The functions, by their names without `nccl`. Signatures: nccl.h of 2.28.9.
pub(super) struct Functions {
    pub(super) get_unique_id: unsafe extern "C" fn(id: *mut UniqueId) -> c_int,
    get_error_string: unsafe extern "C" fn(code: c_int) -> *const c_char,
    get_last_error: unsafe extern "C" fn(comm: Comm) -> *const c_char,
    pub(super) comm_init_rank_config: unsafe extern "C" fn(
        comm: *mut Comm,
        ranks: c_int,
        id: UniqueId,
        rank: c_int,
        config: *mut Config,
    ) -> c_int,
    pub(super) comm_get_async_error: unsafe extern "C" fn(comm: Comm, error: *mut c_int) -> c_int,
    pub(super) comm_abort: OfComm,
    pub(super) comm_finalize: OfComm,
    pub(super) comm_destroy: OfComm,
    pub(super) all_reduce: Reduction,
    pub(super) all_gather: Collective,
    pub(super) reduce_scatter: Reduction,
    pub(super) broadcast: Rooted,
    pub(super) reduce: RootedReduction,
    pub(super) send: Send,
    pub(super) recv: Recv,
    pub(super) group_start: unsafe extern "C" fn() -> c_int,
    pub(super) group_end: unsafe extern "C" fn() -> c_int,
}

/// A loaded copy of libnccl.
pub struct Loaded {
    path: PathBuf,
    version: Version,
    optional: Vec<&'static str>,
    pub(super) functions: Functions,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("path", &self.path).field("version", &self.version).finish()
    }
}

impl Loaded {
    /// Loads a copy for as long as the process lives.
    ///
    /// # Errors
    /// When the file cannot be loaded, or is no NCCL of 2.14 or later.
    pub fn open(path: &Path) -> Result<Loaded, LibraryError> {
        // SAFETY: loading runs the file's initialisers: the user names a copy of NCCL, and NCCL's
        // are made to be run by dlopen. It is never unloaded.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
            LibraryError::Load { path: path.to_owned(), reason: words(&error, path) }
        })?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        let from = Source { library, path };
        let functions = functions(&from)?;
        Ok(Loaded {
            version: version(&from)?,
            optional: OPTIONAL.iter().copied().filter(|name| from.has(name)).collect(),
            functions,
            path: path.to_owned(),
        })
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says it is.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Which of [`OPTIONAL`] it has.
    pub fn optional(&self) -> &[&'static str] {
        &self.optional
    }

    /// The library's words for a code.
    pub(super) fn error_string(&self, code: i32) -> String {
        // SAFETY: takes any integer, and returns a string that lives as long as the library.
        text(unsafe { (self.functions.get_error_string)(code) }).unwrap_or_default()
    }

    /// What the library said last in this process; none: nothing. It may be about an earlier error.
    pub(super) fn last_error(&self) -> Option<String> {
        // SAFETY: the communicator is not looked at (init.cc of 2.28: the text belongs to the
        // process), so that null will do.
        text(unsafe { (self.functions.get_last_error)(std::ptr::null_mut()) })
    }
}

/// dlopen's message, which libloading keeps one level down, without the file's own name.
fn words(error: &libloading::Error, path: &Path) -> String {
    use std::error::Error as _;
    let message = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    match message.strip_prefix(&format!("{}: ", path.display())) {
        Some(rest) => rest.to_owned(),
        None => message,
    }
}

/// A C string that NCCL owns, in one line; none: null or empty.
fn text(string: *const c_char) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, and NCCL ends its strings with a NUL. Another thread may write the buffer of
    // the last error meanwhile: the copy may then mix two messages, but its last byte stays NUL.
    let text = unsafe { CStr::from_ptr(string) }.to_string_lossy();
    let line = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ");
    (!line.is_empty()).then_some(line)
}

struct Source<'a> {
    library: &'static libloading::Library,
    path: &'a Path,
}

impl Source<'_> {
    /// The function of this name.
    ///
    /// # Safety
    /// `F` must be the type that nccl.h gives the function.
    unsafe fn get<F: Copy>(&self, symbol: &'static str) -> Result<F, LibraryError> {
        // SAFETY: the caller's promise; the library is never unloaded.
        unsafe { self.library.get::<F>(symbol) }
            .map(|function| *function)
            .map_err(|_| LibraryError::Lacks { path: self.path.to_owned(), symbol })
    }

    fn has(&self, symbol: &'static str) -> bool {
        // SAFETY: only looked up, never called.
        unsafe { self.get::<*const c_void>(symbol) }.is_ok()
    }
}

fn functions(from: &Source<'_>) -> Result<Functions, LibraryError> {
    // SAFETY: every field's type is the declaration of its function in nccl.h of 2.28.9, with enums
    // as the integers they are; these declarations have not changed since 2.14.
    unsafe {
        Ok(Functions {
            get_unique_id: from.get("ncclGetUniqueId")?,
            get_error_string: from.get("ncclGetErrorString")?,
            get_last_error: from.get("ncclGetLastError")?,
            comm_init_rank_config: from.get("ncclCommInitRankConfig")?,
            comm_get_async_error: from.get("ncclCommGetAsyncError")?,
            comm_abort: from.get("ncclCommAbort")?,
            comm_finalize: from.get("ncclCommFinalize")?,
            comm_destroy: from.get("ncclCommDestroy")?,
            all_reduce: from.get("ncclAllReduce")?,
            all_gather: from.get("ncclAllGather")?,
            reduce_scatter: from.get("ncclReduceScatter")?,
            broadcast: from.get("ncclBroadcast")?,
            reduce: from.get("ncclReduce")?,
            send: from.get("ncclSend")?,
            recv: from.get("ncclRecv")?,
            group_start: from.get("ncclGroupStart")?,
            group_end: from.get("ncclGroupEnd")?,
        })
    }
}

fn version(from: &Source<'_>) -> Result<Version, LibraryError> {
    // SAFETY: the type is nccl.h's.
    let get: unsafe extern "C" fn(version: *mut c_int) -> c_int =
        unsafe { from.get("ncclGetVersion") }?;
    let mut version = 0;
    // SAFETY: writes one integer, to a place that lives longer than the call.
    match unsafe { get(&raw mut version) } {
        code::SUCCESS => Ok(Version::from_code(version.unsigned_abs())),
        code => Err(LibraryError::Version { path: from.path.to_owned(), code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_write_a_version_are_read() {
        for (code, want) in
            [(22_809, "2.28.9"), (22_803, "2.28.3"), (23_007, "2.30.7"), (2804, "2.8.4")]
        {
            assert_eq!(Version::from_code(code).to_string(), want);
        }
        assert!(Version::from_code(2804) < Version::from_code(21_403));
    }
}
