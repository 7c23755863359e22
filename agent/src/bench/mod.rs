//! Measurements without faults: what `ringbreaker bench` prints.
//!
//! - [`collectives`]: time and bandwidth by size, as nccl-tests counts them;
//! - [`recorder`]: what the black box and the checks cost.
//!
//! The fabric's benchmark lives beside the fabric. Ranks run on this machine's loopback, without
//! virtual nodes, so that only the backend is measured.

pub mod collectives;
mod job;
pub mod recorder;

pub use job::{BenchError, Machine};
