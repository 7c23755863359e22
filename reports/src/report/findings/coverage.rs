//! What was not measured, and what was left behind.

use std::collections::BTreeMap;

use ringbreaker_scenarios::words::Outcome;

use super::{Finding, Run};
use crate::report::CaseResult;

/// Faults that could not be undone, and left-overs of ringbreaker itself.
pub(super) fn harness_traces(run: &Run) -> Vec<Finding> {
    run.cases
        .iter()
        .flat_map(|case| {
            let index = case.history.plan.index;
            let unhealed = case.report.faults.iter().filter_map(move |fault| {
                let reason = fault.heal_failed.as_ref()?;
                Some(format!(
                    "case {index}: {} could not be undone: {reason}; run `ringbreaker recover`",
                    fault.label
                ))
            });
            let left = case
                .report
                .job
                .leftovers_of_harness
                .iter()
                .map(move |what| format!("case {index}: ringbreaker left behind {what}"));
            unhealed.chain(left).map(Finding::alarm)
        })
        .collect()
}

/// What jobs left behind, one sentence a column.
pub(super) fn job_leftovers(run: &Run) -> Vec<Finding> {
    grouped(run, |case| case.report.job.leftovers_of_job.first().cloned())
        .into_iter()
        .map(|(column, (count, first, index))| {
            Finding::warning(format!(
                "{column}: the job left something behind in {}, such as {first} (case {index})",
                cases(count)
            ))
        })
        .collect()
}

/// Cases that say nothing about the job, one sentence a column and kind, and cases never attempted.
pub(super) fn not_measured(run: &Run) -> Vec<Finding> {
    let kinds = [
        (Outcome::NotExposed, "the fault was not exposed"),
        (Outcome::NotRunnable, "nothing could be measured"),
    ];
    let mut findings: Vec<Finding> = Vec::new();
    for (outcome, what) in kinds {
        let of_kind =
            grouped(run, |case| (case.report.outcome == outcome).then(|| case.report.why.clone()));
        findings.extend(of_kind.into_iter().map(|(column, (count, why, _))| {
            Finding::warning(format!("{column}: {what} in {}: {why}", cases(count)))
        }));
    }
    if !run.pending.is_empty() {
        findings.push(Finding::warning(format!(
            "{} planned and never run; `ringbreaker run --resume` finishes them",
            match run.pending.len() {
                1 => "1 case was".to_owned(),
                more => format!("{more} cases were"),
            }
        )));
    }
    findings
}

/// How often something was the case in each column, with the first instance and its case number.
fn grouped<'a>(
    run: &'a Run,
    pick: impl Fn(&CaseResult) -> Option<String>,
) -> BTreeMap<&'a str, (usize, String, u32)> {
    let mut groups: BTreeMap<&str, (usize, String, u32)> = BTreeMap::new();
    for case in run.cases {
        if let Some(text) = pick(case) {
            let plan = &case.history.plan;
            groups.entry(plan.column.as_str()).or_insert((0, text, plan.index)).0 += 1;
        }
    }
    groups
}

fn cases(count: usize) -> String {
    if count == 1 { "1 case".to_owned() } else { format!("{count} cases") }
}
