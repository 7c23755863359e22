//! One self-contained page: matrix, findings, a part a case with its timeline, environment.
//!
//! No network, no font, no image from anywhere; a few lines of script filter the cases and nothing
//! depends on them. Templates are in `templates/`; here is what they are filled with.

mod case;
mod curve;
mod page;
mod timeline;

use askama::Template as _;

use super::RenderError;
use crate::report::RunReport;

/// Writes the page.
///
/// # Errors
///
/// When a template cannot be filled.
pub fn render(report: &RunReport) -> Result<String, RenderError> {
    page::Page::of(report)
        .render()
        .map_err(|error| RenderError { document: "HTML", reason: error.to_string() })
}
