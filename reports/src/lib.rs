//! Pure: history to outcome to verdict to documents, and the store they come from.
//!
//! No socket, no clock, no entropy: every time in a document comes from the history or from the
//! caller. The only files touched are the store's and, where the caller names the directory, the
//! recordings. Start here:
//!
//! - [`history`]: what a run is made of; [`store`] keeps it in one SQLite file;
//! - [`outcome`]: what happened in a case ([`outcome::judge`]);
//! - [`verdict`]: that, held against the expectations;
//! - [`report`]: all cases of a run together, as a matrix with findings;
//! - [`render`]: the same as a terminal table, an HTML page, JUnit XML, JSON or Markdown;
//! - [`recording`]: what real NCCL did, and how the host stand-in is held to it.

pub mod history;
pub mod outcome;
pub mod recording;
pub mod render;
pub mod report;
pub mod store;
pub mod verdict;
