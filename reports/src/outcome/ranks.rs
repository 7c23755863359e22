//! What became of each rank, and who of them is a survivor.

use std::collections::BTreeSet;

use ringbreaker_scenarios::{
    case::Rank,
    event::{ExitStatus, HealReason},
    fault::{ActsOn, FaultKind},
    units::Nanos,
    words::Detector,
};

use super::{
    FaultReport, RankReport,
    codes::error_class,
    evidence::{Evidence, Exit, Trace},
    faults::{Effect, moment},
};

/// One report a rank, in order.
pub(super) fn report(evidence: &Evidence, faults: &[FaultReport]) -> Vec<RankReport> {
    let effect = Effect::first_of(faults);
    let touched = touched_ranks(evidence, faults);
    evidence
        .traces
        .iter()
        .map(|(&rank, trace)| {
            let lost_to = lost_to(evidence, rank, trace, faults);
            report_one(evidence, rank, trace, lost_to, effect, &touched)
        })
        .collect()
}

fn report_one(
    evidence: &Evidence,
    rank: Rank,
    trace: &Trace,
    lost_to: Option<&FaultKind>,
    effect: Option<Effect>,
    touched: &BTreeSet<Rank>,
) -> RankReport {
    let told = trace.detection.map(|(_, detection)| detection);
    let (detector, noticed) = noticed(trace, lost_to);
    let code = told.and_then(|detection| detection.code);
    let blames = told.and_then(|detection| detection.blames);
    RankReport {
        rank,
        node: rank.checked_div(evidence.plan.cluster.ranks_per_node).unwrap_or(0),
        survivor: lost_to.is_none(),
        phase: told.map(|detection| detection.phase).or(trace.last_phase),
        detector,
        detected: noticed.map(|at| moment(at, effect)),
        abort_began: trace.abort_began.map(|at| moment(at, effect)),
        abort_ended: trace.abort_ended.map(|(at, _)| moment(at, effect)),
        abort_code: trace.abort_ended.map(|(_, code)| code),
        exited: trace.exit.map(|exit| moment(exit.at, effect)),
        status: trace.exit.map(|exit| exit.status),
        by_harness: trace.exit.is_some_and(|exit| exit.by_harness),
        code,
        error_class: code.map(error_class),
        message: told.map(|detection| detection.message.clone()),
        last_finished_op: trace
            .ops
            .and_then(|ops| ops.last.iter().filter(|op| op.ended.is_some()).map(|op| op.op).max()),
        ops_finished: trace.ops.map(|ops| ops.finished),
        blames,
        blame_is_true: blames.map(|blamed| touched.contains(&blamed)),
    }
}

/// What noticed first in a rank: what it reported, or else the kernel, which ended it with a signal
/// that nobody here sent.
fn noticed(trace: &Trace, lost_to: Option<&FaultKind>) -> (Detector, Option<Nanos>) {
    // The signal that ends the target of a `kill` or a `stop` is ringbreaker's own.
    let by_us = matches!(lost_to, Some(FaultKind::Kill(_) | FaultKind::Stop(_)));
    match (trace.detection, trace.exit) {
        (Some((at, detection)), _) => (detection.detector, Some(at)),
        (None, Some(Exit { at, status: ExitStatus::Signal(_), by_harness: false })) if !by_us => {
            (Detector::Kernel, Some(at))
        }
        (None, _) => (Detector::Nobody, None),
    }
}

/// The fault that took the rank out of the game, so that its own end says nothing.
fn lost_to<'a>(
    evidence: &'a Evidence,
    rank: Rank,
    trace: &Trace,
    faults: &[FaultReport],
) -> Option<&'a FaultKind> {
    let died_of_signal =
        trace.exit.is_some_and(|e| matches!(e.status, ExitStatus::Signal(_)) && !e.by_harness);
    let mut lost = evidence
        .plan
        .faults
        .iter()
        .zip(faults)
        .filter(|(plan, report)| report.fired() && plan.target.ranks.contains(&rank))
        .filter(|(plan, report)| match plan.kind {
            FaultKind::Kill(_) => true,
            // Above the limit by a margin, the rank may well live.
            FaultKind::LimitMemory(_) => died_of_signal,
            // One that was continued while the case went on has to end by itself like any other.
            FaultKind::Stop(_) => !matches!(
                report.healed_because,
                Some(HealReason::LifeOver | HealReason::LeaseExpired | HealReason::Recovered)
            ),
            _ => false,
        });
    lost.next().map(|(plan, _)| &plan.kind)
}

/// The ranks that may rightly be blamed: targets, ranks on target nodes, ranks at target links.
fn touched_ranks(evidence: &Evidence, faults: &[FaultReport]) -> BTreeSet<Rank> {
    let per_node = evidence.plan.cluster.ranks_per_node;
    let of_node = |node: u32| {
        let first = node.saturating_mul(per_node);
        first..first.saturating_add(per_node)
    };
    let faults = evidence.plan.faults.iter().zip(faults);
    faults
        .filter(|(_, report)| report.effect.is_some())
        .flat_map(|(plan, _)| -> Vec<Rank> {
            let target = &plan.target;
            match plan.kind.acts_on() {
                ActsOn::Ranks => target.ranks.clone(),
                ActsOn::Nodes => target.nodes.iter().flat_map(|&node| of_node(node)).collect(),
                ActsOn::Links => target
                    .directions
                    .iter()
                    .flat_map(|&(from, to)| of_node(from).chain(of_node(to)))
                    .collect(),
            }
        })
        .collect()
}
