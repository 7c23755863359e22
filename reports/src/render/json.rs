//! Everything about a run, for machines; with [`Detail::History`] also what it was judged from.
//!
//! The shape is stable: within one [`FORMAT`], fields are added and never renamed, removed or given
//! another meaning. All times are nanoseconds; those called `at`, and those of events, are
//! CLOCK_MONOTONIC of the node; those called `since_effect` count from the first effect of a fault.
//! Words (outcomes, detectors, verdicts, phases) are spelled as everywhere else.
//!
//! ```text
//! { "format": 1, "notice": null | text, "verdict", "counts": { "pass", "unknown", "fail", "pending" },
//!   "run":      { id, scenario, summary, scenario_text, seed, backend, started, ended, command, ... },
//!   "matrix":   { "columns": [name], "rows": [{ label, settings, cells: [null | { outcomes, ... }] }] },
//!   "findings": [{ weight, sentence }],
//!   "cases":    [{ index, column, row, repetition, attempt, settings, outcome, why, verdict, reasons,
//!                  reproduce, report }],       with History also plan, events
//!   "pending":  [{ index, column, row, repetition }] }
//! ```

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::CasePlan,
    event::Event,
    words::{Outcome, Verdict},
};
use serde::Serialize;

use super::RenderError;
use crate::{
    history::RunHeader,
    outcome::CaseReport,
    report::{CaseResult, Finding, Matrix, RunReport},
    verdict::Reason,
};

/// How much of a run is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What was found: some kilobytes a case.
    Report,
    /// That, and of each case its plan and every event, each operation of each rank among them: tens
    /// to hundreds of kilobytes a case.
    History,
}

/// Number of the shape.
pub const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    notice: Option<&'static str>,
    verdict: Verdict,
    counts: Counts,
    run: &'a RunHeader,
    matrix: &'a Matrix,
    findings: &'a [Finding],
    cases: Vec<Case<'a>>,
    pending: Vec<Which<'a>>,
}

#[derive(Serialize)]
struct Counts {
    pass: usize,
    unknown: usize,
    fail: usize,
    pending: usize,
}

#[derive(Serialize)]
struct Which<'a> {
    index: u32,
    column: &'a str,
    row: &'a BTreeMap<String, String>,
    repetition: u32,
}

#[derive(Serialize)]
struct Case<'a> {
    #[serde(flatten)]
    which: Which<'a>,
    attempt: u32,
    /// Those in force, swept or not.
    settings: &'a BTreeMap<String, String>,
    outcome: Outcome,
    why: &'a str,
    verdict: Verdict,
    reasons: &'a [Reason],
    reproduce: &'a str,
    report: &'a CaseReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a CasePlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [Event]>,
}

/// Writes the document, indented.
///
/// # Errors
///
/// When a value cannot be written as JSON.
pub fn render(report: &RunReport, detail: Detail) -> Result<String, RenderError> {
    let [(_, pass), (_, unknown), (_, fail)] = report.counts();
    let document = Document {
        format: FORMAT,
        notice: report.notice(),
        verdict: report.verdict,
        counts: Counts { pass, unknown, fail, pending: report.pending.len() },
        run: &report.header,
        matrix: &report.matrix,
        findings: &report.findings,
        cases: report.cases.iter().map(|result| case(result, detail)).collect(),
        pending: report.pending.iter().map(which).collect(),
    };
    serde_json::to_string_pretty(&document)
        .map_err(|error| RenderError { document: "JSON", reason: error.to_string() })
}

fn which(plan: &CasePlan) -> Which<'_> {
    Which { index: plan.index, column: &plan.column, row: &plan.row, repetition: plan.repetition }
}

fn case(case: &CaseResult, detail: Detail) -> Case<'_> {
    let whole = detail == Detail::History;
    Case {
        which: which(&case.history.plan),
        attempt: case.history.attempt,
        settings: &case.history.plan.settings,
        outcome: case.report.outcome,
        why: &case.report.why,
        verdict: case.verdict.verdict,
        reasons: &case.verdict.reasons,
        reproduce: &case.reproduce,
        report: &case.report,
        plan: whole.then_some(&case.history.plan),
        events: whole.then_some(&case.history.events),
    }
}
