//! A run's report in each format, and where it is printed.

use std::io::{self, IsTerminal as _, Write as _};

use ringbreaker_reports::{
    render::{self, json::Detail},
    report::RunReport,
};

use super::args::Document;
use crate::error::{Error, Internal};

/// Columns of a table when standard output is no terminal.
const WIDTH: u16 = 120;

/// The document as text.
pub(crate) fn render(report: &RunReport, format: Document, color: bool) -> Result<String, Error> {
    let rendered = match format {
        Document::Terminal => Ok(render::terminal::render(report, color, WIDTH)),
        Document::Html => render::html::render(report),
        Document::Junit => render::junit::render(report),
        Document::Json => render::json::render(report, Detail::Report),
        Document::History => render::json::render(report, Detail::History),
        Document::Markdown => Ok(render::markdown::render(report)),
    };
    rendered.map_err(|source| Internal::Document { source: Box::new(source) }.into())
}

/// The matrix as wide and colourful as standard output is.
pub(crate) fn for_terminal(report: &RunReport) -> String {
    let terminal = io::stdout().is_terminal();
    let color = terminal && std::env::var_os("NO_COLOR").is_none();
    let width = terminal_size::terminal_size().filter(|_| terminal);
    let width = width.map_or(WIDTH, |(terminal_size::Width(columns), _)| columns);
    render::terminal::render(report, color, width)
}

/// Prints to standard output. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // Whoever closed it does not want the rest.
    let _ = write!(out, "{text}{end}").and_then(|()| out.flush());
}

/// JSON for machines, readable by people.
pub(crate) fn print_json(value: &serde_json::Value) {
    print(&serde_json::to_string_pretty(value).expect("invariant: a JSON value has a text"));
}

/// Says something on standard error. A terminal that has gone away must not keep us from healing.
pub(crate) fn tell(text: &str) {
    // There is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether what is said on standard error may be coloured.
pub(crate) fn color_on_stderr() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
