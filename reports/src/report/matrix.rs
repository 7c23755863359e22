//! The matrix: settings down, faults across, all repetitions of a case in one cell.

use std::collections::BTreeMap;

use ringbreaker_scenarios::{
    case::CasePlan,
    units::Nanos,
    words::{Detector, Outcome, Verdict},
};
use serde::Serialize;

use super::CaseResult;
use crate::{outcome::Spread, verdict};

/// Settings down, faults across; rows and columns in the order in which cases first name them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// The faults or groups of faults.
    pub columns: Vec<String>,
    /// The combinations of swept settings.
    pub rows: Vec<Row>,
}

/// One combination of swept settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As one line; `as the scenario has them` where nothing is swept.
    pub label: String,
    /// The swept settings.
    pub settings: BTreeMap<String, String>,
    /// One a column; none where the scenario has no such case.
    pub cells: Vec<Option<Cell>>,
}

/// All repetitions of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Positions of the attempted cases in [`super::RunReport::cases`].
    pub cases: Vec<usize>,
    /// Planned repetitions that were never attempted.
    pub pending: usize,
    /// How often each outcome was seen, the most frequent first.
    pub outcomes: Vec<(Outcome, usize)>,
    /// Who noticed first, and how often, the most frequent first.
    pub detectors: Vec<(Detector, usize)>,
    /// From effect to first detection, over the repetitions in which somebody noticed.
    pub detection: Option<Spread>,
    /// Repetitions in which a fault took effect.
    pub exposed: usize,
    /// The worst verdict; `unknown` while a repetition is pending.
    pub verdict: Option<Verdict>,
}

/// The label of a row of a scenario that sweeps nothing.
pub const UNSWEPT: &str = "settings as in the scenario";

impl Matrix {
    pub(super) fn of(cases: &[CaseResult], pending: &[CasePlan]) -> Matrix {
        let mut plans: Vec<(&CasePlan, Option<usize>)> = Vec::new();
        plans.extend(cases.iter().enumerate().map(|(at, case)| (&case.history.plan, Some(at))));
        plans.extend(pending.iter().map(|plan| (plan, None)));
        plans.sort_by_key(|(plan, _)| plan.index);

        let mut matrix = Matrix::default();
        for (plan, at) in plans {
            let cell = matrix.cell_mut(plan);
            match at {
                Some(at) => cell.cases.push(at),
                None => cell.pending += 1,
            }
        }
        for cell in matrix.rows.iter_mut().flat_map(|row| row.cells.iter_mut().flatten()) {
            cell.summarise(cases);
        }
        matrix
    }

    /// The cell of a plan, made where it is missing.
    fn cell_mut(&mut self, plan: &CasePlan) -> &mut Cell {
        let column =
            position_or_push(&mut self.columns, |c| *c == plan.column, || plan.column.clone());
        let row = position_or_push(
            &mut self.rows,
            |r| r.settings == plan.row,
            || Row {
                label: if plan.row.is_empty() { UNSWEPT.to_owned() } else { plan.row_label() },
                settings: plan.row.clone(),
                cells: Vec::new(),
            },
        );
        let width = self.columns.len();
        for row in &mut self.rows {
            row.cells.resize(width, None);
        }
        self.rows[row].cells[column].get_or_insert_default()
    }

    /// Every cell with its row and its column's name, row by row.
    pub fn cells(&self) -> impl Iterator<Item = (&Row, &str, &Cell)> {
        self.rows.iter().flat_map(|row| {
            row.cells.iter().zip(&self.columns).filter_map(move |(cell, column)| {
                cell.as_ref().map(|cell| (row, column.as_str(), cell))
            })
        })
    }
}

fn position_or_push<T>(
    list: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

impl Cell {
    fn summarise(&mut self, all: &[CaseResult]) {
        let cases: Vec<&CaseResult> = self.cases.iter().map(|&at| &all[at]).collect();
        self.outcomes = tally(cases.iter().map(|case| case.report.outcome));
        self.detectors = tally(cases.iter().map(|case| case.report.job.detector));
        self.exposed = cases.iter().filter(|case| case.report.job.effect.is_some()).count();
        self.detection =
            Spread::of(cases.iter().filter_map(|case| case.detection_time()).collect());
        let pending = (self.pending > 0).then_some(Verdict::Unknown);
        self.verdict =
            Some(verdict::merge_all(cases.iter().map(|c| c.verdict.verdict).chain(pending)));
    }

    /// The most frequent outcome; none while nothing was attempted.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.first().map(|(outcome, _)| *outcome)
    }

    /// Repetitions that a fault hit and in which nobody noticed.
    pub fn unnoticed(&self) -> usize {
        self.exposed.saturating_sub(self.detection.map_or(0, |spread| spread.count))
    }
}

impl CaseResult {
    /// From effect to first detection.
    pub fn detection_time(&self) -> Option<Nanos> {
        self.report.job.detected.and_then(|moment| moment.since_effect)
    }
}

/// How often each value occurs, the most frequent first, ties in the values' own order.
fn tally<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    let mut counts: Vec<(T, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
