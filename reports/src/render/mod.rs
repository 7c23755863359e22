//! Documents about a run. Each is a function of a [`crate::report::RunReport`] and nothing else.
//!
//! - [`terminal`]: the matrix as a table, for people at a prompt;
//! - [`html`]: one self-contained page;
//! - [`junit`]: for continuous integration;
//! - [`json`]: everything, for machines, in a stable shape;
//! - [`markdown`]: for issues and pull requests.

pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
mod phrases;
pub mod terminal;

/// A document that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the {document} report: {reason}; the run itself is stored and unharmed")]
pub struct RenderError {
    /// Which document.
    pub document: &'static str,
    /// What the writer said.
    pub reason: String,
}
