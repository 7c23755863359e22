//! The scenario model and everything that can be decided before a fault is applied.
//!
//! This crate is pure: it opens no socket, reads no clock and draws no entropy. Time and seed are
//! arguments. Start here:
//!
//! - [`case`]: the plan of one case, which agents carry out and reports are written about;
//! - [`fault`]: one description a fault kind;
//! - [`event`]: what can be observed while a case runs, the entries of the history;
//! - [`words`]: the closed vocabularies (backend, phase, outcome, detector, verdict, ...);
//! - [`units`]: durations and sizes as people write them.

pub mod case;
pub mod event;
pub mod fault;
pub mod units;
pub mod words;
