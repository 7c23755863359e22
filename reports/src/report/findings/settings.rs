//! Settings that did nothing.

use std::collections::{BTreeMap, BTreeSet};

use ringbreaker_scenarios::{
    units::Nanos,
    words::{Detector, Outcome},
};

use super::{Finding, Run, alike::alike, which::Settings};
use crate::{
    outcome::Spread,
    report::{Cell, Row},
};

/// Settings that nothing in the backend reads.
pub(super) fn unread(run: &Run) -> Vec<Finding> {
    let mut unread: BTreeMap<&String, &String> = BTreeMap::new();
    for case in run.cases {
        unread.extend(&case.report.unread);
    }
    unread
        .into_iter()
        .map(|(name, reason)| {
            Finding::warning(format!("the backend does not read {name}: {reason}"))
        })
        .collect()
}

/// Swept settings whose values made no difference that was measured, in any fault column.
pub(super) fn without_difference(run: &Run) -> Vec<Finding> {
    let names: BTreeSet<&String> = run.matrix.rows.iter().flat_map(|r| r.settings.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| {
            let compared = comparisons(run, name);
            let alike = !compared.is_empty() && compared.iter().all(|(a, b)| a.is_like(b));
            alike.then(|| {
                Finding::warning(format!(
                    "{name} made no difference: same outcome, same detector and like times in all \
                     {} comparisons of its values",
                    compared.len()
                ))
            })
        })
        .collect()
}

/// Cells of one fault column whose rows differ in this setting alone, pair by pair.
fn comparisons(run: &Run, name: &String) -> Vec<(Behaviour, Behaviour)> {
    let rows = &run.matrix.rows;
    let mut pairs = Vec::new();
    for (at, a) in rows.iter().enumerate() {
        for b in rows.iter().skip(at + 1).filter(|b| differ_only_in(a, b, name)) {
            for (left, right) in a.cells.iter().zip(&b.cells) {
                let (Some(left), Some(right)) = (left, right) else { continue };
                // A column in which nothing took effect shows no behaviour to compare.
                if left.exposed > 0 && right.exposed > 0 {
                    pairs.push((Behaviour::of(run, left), Behaviour::of(run, right)));
                }
            }
        }
    }
    pairs
}

fn differ_only_in(a: &Row, b: &Row, name: &String) -> bool {
    let without = |settings: &Settings| -> Vec<(String, String)> {
        settings
            .iter()
            .filter(|(key, _)| *key != name)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    a.settings.get(name) != b.settings.get(name) && without(&a.settings) == without(&b.settings)
}

/// What a cell did, as far as two cells are compared.
struct Behaviour {
    outcome: Option<Outcome>,
    detector: Option<Detector>,
    detected: Option<Nanos>,
    ended: Option<Nanos>,
}

impl Behaviour {
    fn of(run: &Run, cell: &Cell) -> Behaviour {
        let ends = run
            .cases_of(cell)
            .filter_map(|case| case.report.job.survivors_gone?.since_effect)
            .collect();
        Behaviour {
            outcome: cell.outcome(),
            detector: cell.detectors.first().map(|(detector, _)| *detector),
            detected: cell.detection.map(|spread| spread.median),
            ended: Spread::of(ends).map(|spread| spread.median),
        }
    }

    fn is_like(&self, other: &Behaviour) -> bool {
        self.outcome == other.outcome
            && self.detector == other.detector
            && both_alike(self.detected, other.detected)
            && both_alike(self.ended, other.ended)
    }
}

/// Both absent, or alike.
fn both_alike(a: Option<Nanos>, b: Option<Nanos>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => alike(a, b),
        (a, b) => a.is_none() == b.is_none(),
    }
}
