//! A run, from scenario to report.
//!
//! - [`core`] decides, purely; [`lane`] is its view of an agent;
//! - [`inbox`] is the one queue into a run; [`fleet`] is the wire's view of the agents;

pub(crate) mod core;
pub(crate) mod fleet;
pub(crate) mod inbox;
pub(crate) mod lane;
#[cfg(test)]
pub(crate) mod sample;
