//! What is wrong with a scenario file, where, and what would be right.
//!
//! The reader of scenario files and the planner make these; `ringbreaker check` prints them. All
//! problems of a file come together, in the order of the file. Nothing here decides what is wrong.

use std::{fmt, ops::Range};

use serde::Serialize;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as the caller named it.
    pub file: String,
    /// Where in it; none: it is not about a place, such as a filter that matches no case.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub right: String,
}

/// A place in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Bytes of the file.
    pub span: Range<usize>,
    /// The text at the place.
    pub offending: String,
    /// The whole line on which the place begins.
    #[serde(skip)]
    source_line: String,
}

/// All problems of one file, in its order; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Place {
    fn new(text: &str, span: Range<usize>) -> Place {
        let start = floor(text, span.start);
        let end = floor(text, span.end.max(start));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        Place {
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            offending: text[start..end].to_owned(),
            source_line: text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
            span: start..end,
        }
    }

    /// How many characters to underline: the place, but not beyond its first line.
    fn width(&self) -> usize {
        self.offending.lines().next().map_or(1, |line| line.chars().count()).max(1)
    }
}

/// The nearest character boundary at or before a byte offset.
fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl Problems {
    /// The problems, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// How many there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// As text, in the way of compilers: message, place, the line with a caret, what is right.
    pub fn render(&self, color: bool) -> String {
        let paint = Paint { on: color };
        let error = paint.red("error");
        let list: String =
            self.list.iter().map(|problem| problem.render(&error, paint) + "\n").collect();
        let count = match self.len() {
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        let file = self.list.first().map_or("", |problem| &problem.file);
        list + &paint.bold(&format!("{count} in {file}")) + "\n"
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Problems {}

/// What is odd in a file and yet allowed, as text in the way of compilers.
pub fn render_warnings(list: &[Problem], color: bool) -> String {
    let paint = Paint { on: color };
    let warning = paint.yellow("warning");
    list.iter().map(|problem| problem.render(&warning, paint) + "\n").collect()
}

impl Problem {
    fn render(&self, kind: &str, paint: Paint) -> String {
        let mut out = format!("{kind}{}\n", paint.bold(&format!(": {}", self.message)));
        let Some(place) = &self.place else {
            return out + &format!("  {} {}\n", paint.blue("= right:"), self.right);
        };
        let number = place.line.to_string();
        let gutter = " ".repeat(number.len());
        let bar = paint.blue("|");
        out += &format!(
            "{gutter}{} {}:{}:{}\n",
            paint.blue("-->"),
            self.file,
            place.line,
            place.column
        );
        out += &format!("{gutter} {bar}\n");
        out += &format!("{} {bar} {}\n", paint.blue(&number), place.source_line);
        let caret = "^".repeat(place.width());
        out += &format!("{gutter} {bar} {}{}\n", " ".repeat(place.column - 1), paint.red(&caret));
        out += &format!("{gutter} {} {}\n", paint.blue("= right:"), self.right);
        out
    }
}

/// Colours, or none.
#[derive(Clone, Copy)]
struct Paint {
    on: bool,
}

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn yellow(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    fn blue(self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }
}

/// Collects the problems of one file.
pub(crate) struct Collector<'t> {
    file: &'t str,
    text: &'t str,
    list: Vec<Problem>,
}

impl<'t> Collector<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Collector<'t> {
        Collector { file, text, list: Vec::new() }
    }

    /// Notes a problem at a place.
    pub(crate) fn at(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        right: impl Into<String>,
    ) {
        let place = Some(Place::new(self.text, span));
        self.push(place, message.into(), right.into());
    }

    /// Notes a problem that is not about a place.
    pub(crate) fn nowhere(&mut self, message: impl Into<String>, right: impl Into<String>) {
        self.push(None, message.into(), right.into());
    }

    fn push(&mut self, place: Option<Place>, message: String, right: String) {
        self.list.push(Problem { file: self.file.to_owned(), place, message, right });
    }

    /// How many problems there are so far.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// What was noted, in the order of the file.
    pub(crate) fn into_list(mut self) -> Vec<Problem> {
        self.list.sort_by_key(|p| p.place.as_ref().map_or(0, |place| place.span.start));
        self.list
    }

    /// The value, if there was no problem.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        let list = self.into_list();
        match value {
            Some(value) if list.is_empty() => Ok(value),
            _ => Err(Problems { list }),
        }
    }
}
