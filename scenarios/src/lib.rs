//! The scenario model and everything that can be decided before a fault is applied.
//!
//! This crate is pure: it opens no socket, reads no clock and draws no entropy. Time and seed are
//! arguments. Start here:
//!
//! - [`scenario`]: scenario files, and a reader that finds every problem at once ([`problem`]);
//! - [`library`]: the scenarios that are shipped, and [`schema`], by which editors complete more;
//! - [`plan`]: from a scenario and a seed to its cases;
//! - [`settings`]: who reads which setting, and what it does;
//! - [`case`]: the plan of one case, which agents carry out and reports are written about;
//! - [`fault`]: one description a fault kind;
//! - [`exposure`]: whether a fault can be felt, given what carries data;
//! - [`event`]: what can be observed while a case runs, the entries of the history;
//! - [`words`]: the closed vocabularies (backend, phase, outcome, detector, verdict, ...);
//! - [`units`]: durations and sizes as people write them.

pub mod case;
pub mod event;
pub mod exposure;
pub mod fault;
pub mod library;
mod nearest;
pub mod plan;
pub mod problem;
pub mod scenario;
pub mod schema;
pub mod settings;
pub mod units;
pub mod words;
