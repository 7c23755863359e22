//! The report for people at a prompt: the matrix, the findings, and the cases that did not pass.
//!
//! Pure: whether to colour and how wide the terminal is are the caller's to find out. Every colour
//! has a word beside it, so that nothing is lost without.

use std::fmt::Write;

use comfy_table::{Attribute, Cell as TableCell, Color, ContentArrangement, Table, presets};
use ringbreaker_scenarios::words::Verdict;

use super::phrases::{self, Tone};
use crate::report::{CaseResult, Cell, Matrix, Row, RunReport, Weight};

/// Cases that did not pass are listed up to this many; all of them are in the other documents.
const CASES_LISTED: usize = 20;
/// What a table column needs beside its text.
const PADDING: usize = 3;
/// Text is wrapped here on wider terminals.
const TEXT_WIDTH: usize = 100;

/// Writes the report, `width` characters wide.
pub fn render(report: &RunReport, color: bool, width: u16) -> String {
    let width = usize::from(width).max(40);
    let paint = Paint { color, width };
    let mut out = String::new();
    paint.head(&mut out, report);
    paint.matrix(&mut out, &report.matrix);
    paint.findings(&mut out, report);
    paint.objections(&mut out, report);
    paint.summary(&mut out, report);
    out
}

struct Paint {
    color: bool,
    width: usize,
}

impl Paint {
    fn head(&self, out: &mut String, report: &RunReport) {
        let header = &report.header;
        line(out, &self.bold(&format!("{}  {}", header.scenario, header.summary)));
        line(out, &format!("run {}  backend {}  seed {}", header.id, header.backend, header.seed));
        if let Some(notice) = report.notice() {
            line(out, &self.styled(notice, Color::Yellow));
        }
        for note in &header.notes {
            self.wrapped(out, "note: ", note);
        }
        out.push('\n');
    }

    fn matrix(&self, out: &mut String, matrix: &Matrix) {
        if matrix.rows.is_empty() {
            return;
        }
        for part in parts(matrix, self.width) {
            block(out, &self.table(matrix, &part));
            out.push('\n');
        }
    }

    fn table(&self, matrix: &Matrix, columns: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let mut header = vec![TableCell::new("settings")];
        header.extend(columns.iter().filter_map(|&at| matrix.columns.get(at)).map(TableCell::new));
        table.set_header(header.into_iter().map(|cell| cell.add_attribute(Attribute::Bold)));
        for row in &matrix.rows {
            let mut cells = vec![TableCell::new(label(row))];
            cells.extend(columns.iter().map(|&at| match row.cells.get(at) {
                Some(Some(cell)) => cell_of(cell),
                _ => TableCell::new(""),
            }));
            table.add_row(cells);
        }
        table.to_string()
    }

    fn findings(&self, out: &mut String, report: &RunReport) {
        if report.findings.is_empty() {
            return;
        }
        line(out, &self.bold("findings"));
        for finding in &report.findings {
            let (bullet, color) = match finding.weight {
                Weight::Alarm => ("!! ", Color::Red),
                Weight::Warning => (" ! ", Color::Yellow),
                Weight::Remark => (" - ", Color::Reset),
            };
            self.wrapped(out, &self.styled(bullet, color), &finding.sentence);
        }
        out.push('\n');
    }

    fn objections(&self, out: &mut String, report: &RunReport) {
        let objected: Vec<&CaseResult> =
            report.cases.iter().filter(|c| c.verdict.verdict != Verdict::Pass).collect();
        if objected.is_empty() {
            return;
        }
        line(out, &self.bold("cases that did not pass"));
        for case in objected.iter().take(CASES_LISTED) {
            let plan = &case.history.plan;
            let verdict = case.verdict.verdict;
            let head = format!(
                "{} case {}  {}  {}",
                phrases::mark(verdict),
                plan.index,
                plan.column,
                plan.row_label()
            );
            line(out, &self.styled(head.trim_end(), verdict_color(verdict)));
            for reason in case.verdict.objections() {
                self.wrapped(out, "    ", &reason.sentence);
            }
            line(out, &format!("    {}", case.reproduce));
        }
        if objected.len() > CASES_LISTED {
            let more = objected.len() - CASES_LISTED;
            line(out, &format!("  and {more} more; the HTML report has them all"));
        }
        out.push('\n');
    }

    fn summary(&self, out: &mut String, report: &RunReport) {
        let took = phrases::duration(report).map(|t| format!(" in {t}")).unwrap_or_default();
        let text =
            format!("{}  {}{took}", report.verdict.word().to_uppercase(), phrases::totals(report));
        line(out, &self.styled(&text, verdict_color(report.verdict)));
    }

    /// A paragraph with a hanging indent.
    fn wrapped(&self, out: &mut String, first: &str, text: &str) {
        let indent = visible_width(first);
        let room = self.width.min(TEXT_WIDTH).saturating_sub(indent).max(20);
        let mut prefix = first.to_owned();
        let mut current = String::new();
        for word in text.split_whitespace() {
            let grown = current.chars().count() + 1 + word.chars().count();
            if !current.is_empty() && grown > room {
                line(out, &format!("{prefix}{current}"));
                prefix = " ".repeat(indent);
                current.clear();
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        line(out, &format!("{prefix}{current}"));
    }

    fn bold(&self, text: &str) -> String {
        if self.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn styled(&self, text: &str, color: Color) -> String {
        let code = match color {
            Color::Red => 31,
            Color::Green => 32,
            Color::Yellow => 33,
            _ => return text.to_owned(),
        };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The columns side by side in each table: as many as fit, where there are too many for one.
fn parts(matrix: &Matrix, width: usize) -> Vec<Vec<usize>> {
    let widest = |text: String| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let labels = matrix.rows.iter().map(|row| widest(label(row)) + PADDING).max().unwrap_or(0);
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = width;
    for (at, name) in matrix.columns.iter().enumerate() {
        let cells = matrix.rows.iter().filter_map(|row| row.cells.get(at)?.as_ref());
        let text = cells.map(|cell| widest(cell_text(cell))).max().unwrap_or(0);
        let needed = text.max(name.chars().count()) + PADDING;
        match parts.last_mut() {
            Some(part) if used + needed <= width => part.push(at),
            _ => {
                parts.push(vec![at]);
                used = labels;
            }
        }
        used += needed;
    }
    parts
}

fn label(row: &Row) -> String {
    if row.settings.is_empty() { row.label.clone() } else { row.label.replace(' ', "\n") }
}

fn cell_text(cell: &Cell) -> String {
    let verdict = cell.verdict.map_or("", phrases::mark);
    let mut text = format!("{} {verdict}", phrases::outcomes(cell).replace(", ", "\n"));
    let detection = phrases::detection(cell);
    if !detection.is_empty() {
        text.push('\n');
        text.push_str(&detection.replace(" (", "\n").replace(')', ""));
    }
    text
}

fn cell_of(cell: &Cell) -> TableCell {
    let cell_color = match Tone::of_cell(cell) {
        Tone::Fine => Color::Green,
        Tone::Handled => Color::Cyan,
        Tone::Uneasy => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Void => Color::DarkGrey,
    };
    TableCell::new(cell_text(cell)).fg(cell_color)
}

fn verdict_color(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Pass => Color::Green,
        Verdict::Unknown => Color::Yellow,
        Verdict::Fail => Color::Red,
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("invariant: writing to a String cannot fail");
}

fn block(out: &mut String, text: &str) {
    text.lines().for_each(|text| line(out, text));
}

/// Characters on the screen: without escape sequences.
fn visible_width(text: &str) -> usize {
    let mut inside = false;
    let visible = |c: char| {
        match c {
            '\u{1b}' => inside = true,
            'm' if inside => {
                inside = false;
                return false;
            }
            _ => {}
        }
        !inside
    };
    text.chars()
        .filter({
            let mut visible = visible;
            move |c| visible(*c)
        })
        .count()
}
