//! The rank process: one program for every backend.
//!
//! - [`backend`]: what a backend must offer, with [`host`] and [`nccl`] behind it;
//! - [`data`]: what buffers hold and what must come out of an operation;
//! - [`protocol`]: what agent and rank say to each other;

pub mod backend;
pub mod code;
pub mod data;
pub mod host;
pub mod nccl;
pub mod protocol;
