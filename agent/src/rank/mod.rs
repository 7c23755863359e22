//! The rank process: one program for every backend.
//!
//! - [`protocol`]: what agent and rank say to each other;

pub mod host;
pub mod nccl;
pub mod protocol;
