//! What the part of one case is filled with.

use ringbreaker_scenarios::{
    case::FaultPlan,
    event::{HealReason, What},
    fault::FaultKind,
    units::Nanos,
    words::Detector,
};

use super::{
    curve,
    page::{Mark, class},
    timeline,
};
use crate::{
    outcome::{FaultReport, LatencyReport, RankReport, Spread},
    render::phrases::{self, Tone},
    report::CaseResult,
};

/// Log lines shown a case; the rest is in the rank's log file.
const LINES: usize = 14;
/// A log line is cut here.
const LINE_LENGTH: usize = 400;

pub(super) struct CaseView<'a> {
    pub(super) index: u32,
    pub(super) column: &'a str,
    pub(super) row: String,
    pub(super) repetition: u32,
    pub(super) class: &'static str,
    pub(super) outcome: &'static str,
    pub(super) why: &'a str,
    pub(super) time: String,
    pub(super) verdict: Mark,
    pub(super) reasons: Vec<(Mark, &'a str)>,
    pub(super) timeline: String,
    pub(super) faults: Vec<FaultView<'a>>,
    pub(super) ranks: Vec<RankView<'a>>,
    pub(super) latency: Vec<LatencyView<'a>>,
    pub(super) curve: String,
    pub(super) lines: Vec<LineView>,
    pub(super) lines_left_out: usize,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) reproduce: &'a str,
}

pub(super) struct FaultView<'a> {
    pub(super) label: &'a str,
    pub(super) when: String,
    pub(super) seen: bool,
    pub(super) effect: String,
    pub(super) healed: String,
}

pub(super) struct RankView<'a> {
    pub(super) rank: u32,
    pub(super) note: &'static str,
    pub(super) phase: &'static str,
    pub(super) detector: &'static str,
    pub(super) detected: String,
    pub(super) aborted: String,
    pub(super) exited: String,
    pub(super) end: String,
    pub(super) class: String,
    pub(super) last_op: String,
    pub(super) blames: String,
    pub(super) message: &'a str,
}

pub(super) struct LatencyView<'a> {
    pub(super) operation: &'a str,
    pub(super) clean: String,
    pub(super) under_fault: String,
    pub(super) after_heal: String,
}

pub(super) struct LineView {
    pub(super) when: String,
    pub(super) rank: String,
    pub(super) text: String,
}

impl<'a> CaseView<'a> {
    pub(super) fn of(case: &'a CaseResult) -> CaseView<'a> {
        let (plan, report) = (&case.history.plan, &case.report);
        let zero = report.job.effect.or(report.job.began);
        let all_lines = lines(case, zero);
        let lines_left_out = all_lines.len().saturating_sub(LINES);
        CaseView {
            index: plan.index,
            column: &plan.column,
            row: plan.row_label(),
            repetition: plan.repetition,
            class: class(Tone::of(report.outcome)),
            outcome: report.outcome.word(),
            why: &report.why,
            time: case.detection_time().map(|time| time.to_string()).unwrap_or_default(),
            verdict: Mark::of(case.verdict.verdict),
            reasons: case
                .verdict
                .reasons
                .iter()
                .map(|reason| (Mark::of(reason.verdict), reason.sentence.as_str()))
                .collect(),
            timeline: timeline::draw(case),
            faults: plan.faults.iter().zip(&report.faults).map(|(p, r)| fault(p, r)).collect(),
            ranks: report.ranks.iter().map(|rank| rank_view(rank, report.job.effect)).collect(),
            latency: report.latency.iter().filter(|_| zero.is_some()).map(latency).collect(),
            curve: curve::draw(case),
            lines: all_lines.into_iter().take(LINES).collect(),
            lines_left_out,
            facts: facts(case),
            reproduce: &case.reproduce,
        }
    }
}

fn fault<'a>(plan: &FaultPlan, report: &'a FaultReport) -> FaultView<'a> {
    let effect = match (&report.evidence, &report.failed, &report.unwitnessed) {
        (Some(evidence), _, _) => match report.latency {
            Some(latency) => format!("{evidence} ({latency} after the trigger)"),
            None => evidence.clone(),
        },
        (None, Some(failed), _) => format!("could not be injected: {failed}"),
        (None, None, Some(reason)) => format!("no witness: {reason}"),
        (None, None, None) if report.unexposed.is_some() => {
            format!("cannot be felt: {}", report.unexposed.as_deref().unwrap_or_default())
        }
        (None, None, None) if report.fired() => "no witness".to_owned(),
        (None, None, None) => "never triggered".to_owned(),
    };
    let healed = match (&report.heal_failed, report.healed_because) {
        (Some(reason), _) => format!("not undone: {reason}"),
        // There is nothing to undo in a kill.
        (None, _) if matches!(plan.kind, FaultKind::Kill(_)) => String::new(),
        (None, Some(because)) => {
            let after = report.healed.zip(report.effect).map(|(healed, at)| healed.since(at));
            let after = after.map(|time| format!(" after {time}")).unwrap_or_default();
            format!("undone{after}, {}", heal_reason(because))
        }
        (None, None) if report.fired() => "nothing says it was undone".to_owned(),
        (None, None) => String::new(),
    };
    FaultView {
        label: &report.label,
        when: plan.when.to_string(),
        seen: report.effect.is_some(),
        effect,
        healed,
    }
}

fn heal_reason(because: HealReason) -> &'static str {
    match because {
        HealReason::LifeOver => "its life was over",
        HealReason::CaseEnded => "the case ended",
        HealReason::LeaseExpired => "its lease ran out",
        HealReason::Interrupted => "the run was interrupted",
        HealReason::Recovered => "after its agent had died",
    }
}

fn rank_view(rank: &RankReport, effect: Option<Nanos>) -> RankView<'_> {
    let aborted = match (rank.abort_began, rank.abort_ended, rank.abort_code) {
        (Some(began), Some(ended), code) => {
            let code = code.filter(|code| *code != 0).map(|code| format!(", code {code}"));
            format!("took {}{}", ended.at.since(began.at), code.unwrap_or_default())
        }
        (Some(_), None, _) => "never returned".to_owned(),
        (None, _, _) => String::new(),
    };
    let blames = match (rank.blames, rank.blame_is_true) {
        (Some(blamed), Some(true)) => format!("rank {blamed}, rightly"),
        (Some(blamed), _) => format!("rank {blamed}, wrongly"),
        (None, _) => String::new(),
    };
    RankView {
        rank: rank.rank,
        note: if rank.survivor { "" } else { "target" },
        phase: rank.phase.map_or("", |phase| phase.word()),
        detector: if rank.detector == Detector::Nobody { "" } else { rank.detector.word() },
        detected: phrases::since(rank.detected, effect),
        aborted,
        exited: phrases::since(rank.exited, effect),
        end: phrases::end_of(rank),
        class: rank.error_class.clone().unwrap_or_default(),
        last_op: rank.last_finished_op.map(|op| op.to_string()).unwrap_or_default(),
        blames,
        message: rank.message.as_deref().unwrap_or_default(),
    }
}

fn latency(report: &LatencyReport) -> LatencyView<'_> {
    let text = |spread: Option<Spread>| match spread {
        Some(s) => format!("{} (p99 {}, max {}, {} ops)", s.median, s.p99, s.max, s.count),
        None => "–".to_owned(),
    };
    LatencyView {
        operation: &report.operation,
        clean: text(report.clean),
        under_fault: text(report.under_fault),
        after_heal: text(report.after_heal),
    }
}

fn lines(case: &CaseResult, zero: Option<Nanos>) -> Vec<LineView> {
    let mut found: Vec<(Nanos, LineView)> = case
        .history
        .events
        .iter()
        .filter_map(|event| {
            let What::Log { line } = &event.what else { return None };
            let view = LineView {
                when: zero.map(|zero| signed(event.at, zero)).unwrap_or_default(),
                rank: event.rank.map(|rank| format!("rank {rank}")).unwrap_or_default(),
                text: cut(line),
            };
            Some((event.at, view))
        })
        .collect();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, view)| view).collect()
}

/// `+4ms` or `-1.2s`.
fn signed(at: Nanos, zero: Nanos) -> String {
    if at >= zero { format!("+{}", at.since(zero)) } else { format!("-{}", zero.since(at)) }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_LENGTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Facts of the case as name and value.
fn facts(case: &CaseResult) -> Vec<(&'static str, String)> {
    let (plan, report) = (&case.history.plan, &case.report);
    let job = &report.job;
    let joined = |pairs: &std::collections::BTreeMap<String, String>| {
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("  ")
    };
    let mut facts = vec![("settings", joined(&plan.settings)), ("cap", plan.cap.to_string())];
    let workload = &plan.workload;
    let names = |list: &[String]| list.join(", ");
    facts.push((
        "workload",
        format!(
            "{} of {} {}, {} iterations after {} warm-up, {} ranks on {} nodes",
            names(&workload.collectives.iter().map(ToString::to_string).collect::<Vec<_>>()),
            names(&workload.bytes.iter().map(ToString::to_string).collect::<Vec<_>>()),
            workload.dtype,
            workload.iterations,
            workload.warmup,
            plan.world(),
            plan.cluster.nodes
        ),
    ));
    facts.push(("ranks ran on", joined(&report.stack)));
    facts.push(("connected by", report.transport.clone().unwrap_or_default()));
    facts.push(("last rank gone", phrases::since(job.gone, job.effect)));
    facts.push(("GPU memory free", phrases::since(job.gpu_memory_free, job.effect)));
    facts.push(("left by the job", job.leftovers_of_job.join(", ")));
    facts.push(("left by ringbreaker", job.leftovers_of_harness.join(", ")));
    let unread: Vec<String> =
        report.unread.iter().map(|(name, reason)| format!("{name} ({reason})")).collect();
    facts.push(("read by nothing", unread.join(", ")));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}
