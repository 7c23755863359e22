//! What the page as a whole is filled with.

use askama::Template;
use ringbreaker_scenarios::words::Outcome;

use super::case::CaseView;
use crate::{
    render::phrases::{self, Tone},
    report::{Cell, Matrix, RunReport, Weight},
};

#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    report: &'a RunReport,
    verdict: Mark,
    totals: String,
    took: Option<String>,
    started: String,
    ended: Option<String>,
    /// The swept settings' names, the head of the first column.
    corner: Vec<String>,
    rows: Vec<RowView<'a>>,
    legend: Vec<Meaning>,
    findings: Vec<FindingView<'a>>,
    cases: Vec<CaseView<'a>>,
    /// Outcomes that occur, for the filter.
    outcomes: Vec<&'static str>,
    command: String,
}

/// A verdict as the page shows it.
pub(super) struct Mark {
    pub(super) word: &'static str,
    pub(super) sign: &'static str,
}

struct RowView<'a> {
    label: String,
    cells: Vec<Option<CellView>>,
    title: &'a str,
}

struct CellView {
    class: &'static str,
    words: Vec<String>,
    time: String,
    spread: String,
    mark: Option<Mark>,
    /// Number of the case that the cell leads to: the first that did not pass, or the first.
    first: Option<u32>,
    /// The numbers of the repetitions, such as `cases 10 to 19`.
    repetitions: String,
}

struct Meaning {
    class: &'static str,
    word: &'static str,
    meaning: &'static str,
}

struct FindingView<'a> {
    class: &'static str,
    word: &'static str,
    sentence: &'a str,
}

impl<'a> Page<'a> {
    pub(super) fn of(report: &'a RunReport) -> Page<'a> {
        let outcomes: Vec<&Outcome> = Outcome::ALL
            .iter()
            .filter(|outcome| report.cases.iter().any(|case| case.report.outcome == **outcome))
            .collect();
        Page {
            report,
            verdict: Mark::of(report.verdict),
            totals: phrases::totals(report),
            took: phrases::duration(report).map(|time| time.to_string()),
            started: phrases::clock(&report.header.started),
            ended: report.header.ended.as_deref().map(phrases::clock),
            corner: corner(&report.matrix),
            rows: report.matrix.rows.iter().map(|row| RowView::of(row, report)).collect(),
            legend: outcomes.iter().map(|outcome| Meaning::of(**outcome)).collect(),
            findings: report
                .findings
                .iter()
                .map(|finding| {
                    let (class, word) = match finding.weight {
                        Weight::Alarm => ("bad", "alarm"),
                        Weight::Warning => ("uneasy", "warning"),
                        Weight::Remark => ("void", "remark"),
                    };
                    FindingView { class, word, sentence: &finding.sentence }
                })
                .collect(),
            cases: report.cases.iter().map(CaseView::of).collect(),
            outcomes: outcomes.iter().map(|outcome| outcome.word()).collect(),
            command: report.header.command.join(" "),
        }
    }
}

impl Mark {
    pub(super) fn of(verdict: ringbreaker_scenarios::words::Verdict) -> Mark {
        Mark { word: verdict.word(), sign: phrases::mark(verdict) }
    }
}

/// Names of the swept settings where every row has the same ones.
fn corner(matrix: &Matrix) -> Vec<String> {
    match matrix.rows.first() {
        Some(row) if !row.settings.is_empty() && same_names(matrix) => {
            row.settings.keys().cloned().collect()
        }
        _ => vec!["settings".to_owned()],
    }
}

fn same_names(matrix: &Matrix) -> bool {
    let names = |row: &crate::report::Row| row.settings.keys().cloned().collect::<Vec<_>>();
    matrix.rows.windows(2).all(|pair| names(&pair[0]) == names(&pair[1]))
}

impl<'a> RowView<'a> {
    fn of(row: &'a crate::report::Row, report: &RunReport) -> RowView<'a> {
        let label = if !row.settings.is_empty() && same_names(&report.matrix) {
            row.settings.values().cloned().collect::<Vec<_>>().join(" · ")
        } else {
            row.label.clone()
        };
        let cells = row.cells.iter().map(|cell| cell.as_ref().map(|c| CellView::of(c, report)));
        RowView { label, cells: cells.collect(), title: &row.label }
    }
}

impl CellView {
    fn of(cell: &Cell, report: &RunReport) -> CellView {
        let number = |at: usize| report.cases[at].history.plan.index;
        let worst = cell.cases.iter().copied().max_by_key(|&at| {
            // The first of the worst: earlier positions win among equals.
            (report.cases[at].verdict.verdict, std::cmp::Reverse(at))
        });
        let detection = phrases::detection(cell);
        let (time, spread) = match detection.split_once(" (") {
            Some((time, spread)) => (time.to_owned(), spread.replace(')', "")),
            None => (detection, String::new()),
        };
        CellView {
            class: class(Tone::of_cell(cell)),
            words: phrases::outcomes(cell).split(", ").map(str::to_owned).collect(),
            time,
            spread,
            mark: cell.verdict.map(Mark::of),
            first: worst.map(number),
            repetitions: repetitions(&cell.cases.iter().map(|&at| number(at)).collect::<Vec<_>>()),
        }
    }
}

/// `cases 10 to 19`, or the numbers where they have gaps; empty for a single case.
fn repetitions(numbers: &[u32]) -> String {
    match numbers {
        [] | [_] => String::new(),
        [first, .., last] if (last - first) as usize + 1 == numbers.len() => {
            format!("cases {first} to {last}")
        }
        many => format!("cases {}", many.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Meaning {
    fn of(outcome: Outcome) -> Meaning {
        Meaning {
            class: class(Tone::of(outcome)),
            word: outcome.word(),
            meaning: phrases::meaning(outcome),
        }
    }
}

/// The style sheet's name of a tone.
pub(super) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Fine => "fine",
        Tone::Handled => "handled",
        Tone::Uneasy => "uneasy",
        Tone::Bad => "bad",
        Tone::Void => "void",
    }
}
