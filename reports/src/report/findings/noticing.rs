//! Who noticed what, when; and jobs that did not end by themselves.

use ringbreaker_scenarios::{
    units::Nanos,
    words::{Detector, Outcome},
};

use super::{
    Finding, Run,
    alike::alike,
    which::{Settings, which},
};
use crate::{
    outcome::sentence,
    report::{Cell, Row},
};

/// A rank that notices this much later than the first is worth a sentence.
const LATE: Nanos = Nanos::from_millis(300);

/// Wrong contents, in any case.
pub(super) fn wrong_data(run: &Run) -> Vec<Finding> {
    cases_with(run, Outcome::WrongData, Finding::alarm, "silently wrong data")
}

/// Ranks that died though no fault was aimed at them.
pub(super) fn crashes(run: &Run) -> Vec<Finding> {
    cases_with(run, Outcome::Crashed, Finding::warning, "a rank crashed that was no target")
}

/// Jobs that finished, but slower.
pub(super) fn slower(run: &Run) -> Vec<Finding> {
    cases_with(run, Outcome::Degraded, Finding::remark, "survived, but slower")
}

fn cases_with(
    run: &Run,
    outcome: Outcome,
    weigh: fn(String) -> Finding,
    what: &str,
) -> Vec<Finding> {
    columns(run)
        .filter_map(|(column, cells)| {
            let all = settings_of(&cells);
            let hit: Vec<&(&Row, &Cell)> = cells
                .iter()
                .filter(|(_, cell)| cell.outcomes.iter().any(|(found, _)| *found == outcome))
                .collect();
            let example = hit
                .iter()
                .flat_map(|(_, cell)| run.cases_of(cell))
                .find(|case| case.report.outcome == outcome)?;
            let rows: Vec<&Settings> = hit.iter().map(|(row, _)| &row.settings).collect();
            let sentence = format!(
                "{column}: {what}{} (case {}: {})",
                space_before(&which(&rows, &all)),
                example.history.plan.index,
                example.report.why
            );
            Some(weigh(sentence))
        })
        .collect()
}

/// For each fault: with which settings it was noticed, by what, how fast; with which it was not;
/// and with which the job did not end.
pub(super) fn by_column(run: &Run) -> Vec<Finding> {
    columns(run)
        .filter_map(|(column, cells)| {
            let exposed: Vec<(&Row, &Cell)> =
                cells.into_iter().filter(|(_, cell)| cell.exposed > 0).collect();
            let all = settings_of(&exposed);
            let mut parts: Vec<String> = Vec::new();
            let unnoticed = unnoticed(&exposed, &all);
            let left = did_not_end(&exposed, &all);
            let warn = unnoticed.is_some() || left.is_some();
            parts.extend(unnoticed);
            parts.extend(noticed(&exposed, &all));
            parts.extend(left);
            if parts.is_empty() {
                return None;
            }
            let sentence = format!("{column}: {}", parts.join("; "));
            Some(if warn { Finding::warning(sentence) } else { Finding::remark(sentence) })
        })
        .collect()
}

/// Nobody noticed, and it mattered: the job did not finish its work.
fn unnoticed(cells: &[(&Row, &Cell)], all: &[&Settings]) -> Option<String> {
    let blind: Vec<&Settings> = cells
        .iter()
        .filter(|(_, cell)| cell.detection.is_none() && cell.outcome() == Some(Outcome::Hung))
        .map(|(row, _)| &row.settings)
        .collect();
    (!blind.is_empty()).then(|| format!("nobody noticed{}", space_before(&which(&blind, all))))
}

/// One part a detector.
fn noticed(cells: &[(&Row, &Cell)], all: &[&Settings]) -> Vec<String> {
    let mut detectors: Vec<Detector> = cells.iter().filter_map(|(_, c)| main_detector(c)).collect();
    detectors.sort_unstable();
    detectors.dedup();
    detectors
        .into_iter()
        .map(|detector| {
            let of_it: Vec<(&Row, &Cell)> =
                cells.iter().copied().filter(|(_, c)| main_detector(c) == Some(detector)).collect();
            let who = sentence::detector(detector);
            match by_setting(&of_it) {
                Some(times) => format!("{who} noticed {times}"),
                None => {
                    let rows = settings_of(&of_it);
                    let times = range(of_it.iter().filter_map(|(_, cell)| median(cell)));
                    format!("{who} noticed after {times}{}", space_before(&which(&rows, all)))
                }
            }
        })
        .collect()
}

/// The most frequent detector of a cell in which somebody noticed after the effect.
fn main_detector(cell: &Cell) -> Option<Detector> {
    cell.detection?;
    cell.detectors.iter().map(|(detector, _)| *detector).find(|d| *d != Detector::Nobody)
}

fn median(cell: &Cell) -> Option<Nanos> {
    cell.detection.map(|spread| spread.median)
}

/// `after 2.1s with NCCL_TIMEOUT = 2s, 5.1s with NCCL_TIMEOUT = 5s`, when one setting explains the
/// times: alike within each of its values, apart between them.
fn by_setting(cells: &[(&Row, &Cell)]) -> Option<String> {
    let names: Vec<&String> = cells.first()?.0.settings.keys().collect();
    names.into_iter().find_map(|name| {
        let mut groups: Vec<(&String, Vec<Nanos>)> = Vec::new();
        for (row, cell) in cells {
            let (value, time) = (row.settings.get(name)?, median(cell)?);
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, times)) => times.push(time),
                None => groups.push((value, vec![time])),
            }
        }
        groups.sort_by_key(|(_, times)| times.iter().min().copied());
        let even = |times: &[Nanos]| !apart(times.iter().min(), times.iter().max());
        let explained = groups.len() > 1
            && groups.iter().all(|(_, times)| even(times))
            && groups.windows(2).all(|pair| apart(pair[0].1.iter().max(), pair[1].1.iter().min()));
        let text = |(value, times): &(&String, Vec<Nanos>)| {
            format!("after {} with {name} = {value}", range(times.iter().copied()))
        };
        explained.then(|| groups.iter().map(text).collect::<Vec<_>>().join(", "))
    })
}

fn apart(shorter: Option<&Nanos>, longer: Option<&Nanos>) -> bool {
    match (shorter, longer) {
        (Some(shorter), Some(longer)) => longer > shorter && !alike(*shorter, *longer),
        _ => false,
    }
}

/// `2.1s`, or `4ms to 102ms`.
fn range(times: impl Iterator<Item = Nanos>) -> String {
    let times: Vec<Nanos> = times.collect();
    match (times.iter().min(), times.iter().max()) {
        (Some(min), Some(max)) if min.to_string() == max.to_string() => min.to_string(),
        (Some(min), Some(max)) => format!("{min} to {max}"),
        _ => "an unknown time".to_owned(),
    }
}

/// Outcomes in which somebody noticed and the harness had to end ranks all the same.
fn did_not_end(cells: &[(&Row, &Cell)], all: &[&Settings]) -> Option<String> {
    let stuck: Vec<&Settings> = cells
        .iter()
        .filter(|(_, cell)| {
            cell.detection.is_some()
                && cell.outcomes.iter().any(|(outcome, _)| {
                    matches!(outcome, Outcome::Hung | Outcome::AbortHung | Outcome::FailedPartial)
                })
        })
        .map(|(row, _)| &row.settings)
        .collect();
    (!stuck.is_empty()).then(|| {
        let which = which(&stuck, all);
        let space = if which.is_empty() { "" } else { " " };
        format!("{which}{space}ranks had to be killed all the same")
    })
}

/// Ranks that hear of the fault only when their neighbours abort: NCCL's asynchronous error reaches
/// the ring neighbours of a dead rank, the next ranks see an error when those abort (measured with
/// NCCL 2.28: about 0.6 s a hop).
pub(super) fn late_neighbours(run: &Run) -> Vec<Finding> {
    columns(run)
        .filter_map(|(column, cells)| {
            let worst = cells
                .iter()
                .flat_map(|(_, cell)| run.cases_of(cell))
                .filter(|case| !case.history.plan.coordinated_abort)
                .filter_map(|case| {
                    let heard = || {
                        case.report
                            .ranks
                            .iter()
                            .filter(|rank| rank.survivor && rank.detector == Detector::AsyncError)
                    };
                    let first = heard().filter_map(|rank| rank.detected).min_by_key(|m| m.at)?;
                    let last = heard().max_by_key(|rank| rank.detected.map(|m| m.at))?;
                    let gap = last.detected?.at.since(first.at);
                    (gap >= LATE).then_some((gap, last.rank, case.history.plan.index))
                })
                .max()?;
            let (gap, rank, index) = worst;
            Some(Finding::remark(format!(
                "{column}: word travels by aborts: rank {rank} noticed {gap} after the first rank \
                 did (case {index}); coordinated_abort = true tells all ranks at once"
            )))
        })
        .collect()
}

/// Messages that name a rank that no fault touched.
pub(super) fn false_blame(run: &Run) -> Vec<Finding> {
    columns(run)
        .filter_map(|(column, cells)| {
            let mut wrong =
                cells.iter().flat_map(|(_, cell)| run.cases_of(cell)).filter_map(|case| {
                    let rank = case.report.ranks.iter().find(|r| r.blame_is_true == Some(false))?;
                    Some((case.history.plan.index, rank.rank, rank.blames?))
                });
            let (index, rank, blamed) = wrong.next()?;
            let more = match wrong.count() {
                0 => String::new(),
                more => format!(", and {more} more cases"),
            };
            Some(Finding::warning(format!(
                "{column}: rank {rank} blamed rank {blamed}, which no fault touched (case \
                 {index}{more})"
            )))
        })
        .collect()
}

/// Each column with its cells that were attempted.
fn columns<'a>(run: &'a Run) -> impl Iterator<Item = (&'a str, Vec<(&'a Row, &'a Cell)>)> {
    run.matrix.columns.iter().enumerate().map(|(at, column)| {
        let cells = run
            .matrix
            .rows
            .iter()
            .filter_map(|row| Some((row, row.cells.get(at)?.as_ref()?)))
            .filter(|(_, cell)| !cell.cases.is_empty())
            .collect();
        (column.as_str(), cells)
    })
}

fn settings_of<'a>(cells: &[(&'a Row, &'a Cell)]) -> Vec<&'a Settings> {
    cells.iter().map(|(row, _)| &row.settings).collect()
}

fn space_before(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {text}") }
}
