//! A run, from scenario to report.
//!
//! - [`core`] decides, purely; [`lane`] is its view of an agent;

pub(crate) mod core;
pub(crate) mod lane;
#[cfg(test)]
pub(crate) mod sample;
