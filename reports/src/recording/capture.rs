//! From a run to its recordings.

use super::{FORMAT, RankRecord, Recording, Repetition, Stack};
use crate::{
    history::RunHeader,
    outcome::{Moment, RankReport},
    report::{CaseResult, RunReport},
};

use ringbreaker_scenarios::{units::Nanos, words::Outcome};

/// One recording a cell. Repetitions that could not be run say nothing and are left out; a cell of
/// nothing else has no recording.
pub fn capture(report: &RunReport) -> Vec<Recording> {
    report
        .matrix
        .cells()
        .filter_map(|(_, _, cell)| {
            let cases: Vec<&CaseResult> = cell
                .cases
                .iter()
                .map(|&at| &report.cases[at])
                .filter(|case| case.report.outcome != Outcome::NotRunnable)
                .collect();
            recording(&report.header, &cases)
        })
        .collect()
}

fn recording(header: &RunHeader, cases: &[&CaseResult]) -> Option<Recording> {
    let first = cases.first()?;
    let plan = &first.history.plan;
    Some(Recording {
        format: FORMAT,
        stack: Stack {
            backend: plan.backend,
            versions: first.report.stack.clone(),
            environment: header.environment.clone(),
            transport: first.report.transport.clone(),
            ringbreaker: header.version.clone(),
            commit: header.commit.clone(),
            recorded: header.started.clone(),
        },
        scenario: plan.scenario.clone(),
        column: plan.column.clone(),
        row: plan.row.clone(),
        nodes: plan.cluster.nodes,
        ranks_per_node: plan.cluster.ranks_per_node,
        workload: plan.workload.clone(),
        settings: plan.settings.clone(),
        faults: plan.faults.clone(),
        repetitions: cases.iter().map(|case| repetition(case)).collect(),
    })
}

fn repetition(case: &CaseResult) -> Repetition {
    let (plan, report) = (&case.history.plan, &case.report);
    let job = &report.job;
    let first = report.ranks.iter().find(|rank| Some(rank.rank) == job.detected_by);
    Repetition {
        repetition: plan.repetition,
        seed: plan.seed,
        outcome: report.outcome,
        why: report.why.clone(),
        detector: job.detector,
        detected: since(job.detected),
        detected_by: job.detected_by,
        error_class: first.and_then(|rank| rank.error_class.clone()),
        ended: since(job.survivors_gone),
        evidence: report.faults.iter().map(|fault| fault.evidence.clone()).collect(),
        leftovers: job.leftovers_of_job.clone(),
        ranks: report.ranks.iter().map(rank).collect(),
    }
}

fn rank(report: &RankReport) -> RankRecord {
    RankRecord {
        rank: report.rank,
        survivor: report.survivor,
        phase: report.phase,
        detector: report.detector,
        detected: since(report.detected),
        code: report.code,
        error_class: report.error_class.clone(),
        message: report.message.clone(),
        abort_took: report
            .abort_began
            .zip(report.abort_ended)
            .map(|(began, ended)| ended.at.since(began.at)),
        exited: since(report.exited),
        status: report.status,
        by_harness: report.by_harness,
        blames: report.blames,
        blame_is_true: report.blame_is_true,
    }
}

fn since(moment: Option<Moment>) -> Option<Nanos> {
    moment.and_then(|moment| moment.since_effect)
}
