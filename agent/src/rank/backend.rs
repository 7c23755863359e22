//! What a backend is to the rank program: a library that makes communicators, and a communicator
//! that runs one operation at a time.
//!
//! The shape is that of a non-blocking NCCL communicator: calls return at once, `status` tells how
//! they went, and `abort` may come from another thread at any moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ringbreaker_scenarios::{
    case::Rank,
    words::{Collective, Dtype},
};

use super::code;

/// An error code with the library's own words for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ({}): {message}", code::name(*.code), .code)]
pub struct CallError {
    /// ncclResult_t as a plain integer.
    pub code: i32,
    /// What the library said.
    pub message: String,
}

impl CallError {
    /// An error with this code and message.
    pub fn new(code: i32, message: impl Into<String>) -> CallError {
        CallError { code, message: message.into() }
    }
}

/// What a communicator is doing, as its asynchronous error tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommStatus {
    /// The last call has not taken effect yet.
    InProgress,
    /// Ready for the next call.
    Ready,
    /// Something failed. It stays failed.
    Failed(CallError),
}

/// Whether the operation in flight has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpStatus {
    /// Not yet.
    Running,
    /// Its result is in the receive buffer; means nothing once abort has begun.
    Finished,
    /// The device refused (a CUDA error). A library's own errors come through `status` instead.
    Failed(CallError),
}

/// How far a handed-over operation has got when `enqueue` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It is on its way; what goes wrong from here on is an asynchronous error.
    Taken,
    /// It is being taken (connections are made, memory is allocated): `status` is `InProgress`
    /// until it is, and what goes wrong until then is the call's own error.
    Pending,
}

/// The comparison of a result with the exact expected values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every compared element is right.
    Right,
    /// The first wrong element.
    Wrong {
        /// Its index.
        element: u64,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its number, from 0, warm-up included; also varies the data.
    pub number: u64,
    /// What it is.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Size of its largest buffer.
    pub bytes: u64,
}

/// A library that makes communicators.
pub trait Library: Send + Sync {
    /// Names and versions of what is loaded, such as `nccl = 2.28.9`.
    fn versions(&self) -> BTreeMap<String, String>;

    /// Makes the unique id; rank 0 only.
    fn make_id(&self) -> Result<Vec<u8>, CallError>;

    /// Begins to create a communicator; `status` tells when it is ready. Must not block.
    fn begin_init(
        &self,
        id: &[u8],
        rank: Rank,
        world: u32,
    ) -> Result<Arc<dyn Communicator>, CallError>;
}

/// A communicator of one rank. One thread issues operations; any thread may ask for the status or
/// abort.
pub trait Communicator: Send + Sync {
    /// The asynchronous state. Never blocks.
    fn status(&self) -> CommStatus;

    /// Fills the send buffer for this operation and poisons the receive buffer, so that a result
    /// left over from an earlier operation cannot pass for this one's.
    fn prepare(&self, op: &Op) -> Result<(), CallError>;

    /// Hands the operation over. Must not block.
    fn enqueue(&self, op: &Op) -> Result<Handover, CallError>;

    /// Waits for the end of the operation in flight, no longer than this.
    fn wait(&self, at_most: Duration) -> OpStatus;

    /// Compares the receive buffer with the exact expected values.
    fn check(&self, op: &Op) -> Result<Check, CallError>;

    /// Ends whatever is going on and frees the communicator. Returns the result code. The caller
    /// sees to it that it is called once and that nothing else is called after it.
    fn abort(&self) -> i32;

    /// Leaves the communicator in good order, giving up after this long.
    fn finalize(&self, at_most: Duration) -> Result<(), CallError>;

    /// What carries data between ranks, where the backend knows it.
    fn transport(&self) -> Option<String>;
}
