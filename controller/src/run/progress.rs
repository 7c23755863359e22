//! What a run looks like while it goes on: a live display on a terminal, plain lines elsewhere.
//!
//! All of it goes to standard error, so that standard output holds the result alone.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use ringbreaker_reports::report::CaseResult;
use ringbreaker_scenarios::{
    case::CasePlan,
    event::{Event, What},
    units::Nanos,
    words::{Detector, Outcome, Verdict},
};

use super::{estimate, lane::AgentId};
use crate::{cli::documents::tell, clock};

/// The display of one run.
pub(crate) struct Progress {
    view: View,
    color: bool,
    total: usize,
    finished: usize,
    began: Nanos,
    lanes: u32,
    /// The guesses for cases that are not finished.
    remaining: BTreeMap<u32, Nanos>,
    /// The sum of the guesses for those that are.
    done: Nanos,
}

enum View {
    Live { all: MultiProgress, bar: ProgressBar, cases: BTreeMap<AgentId, (ProgressBar, String)> },
    Plain,
    Quiet,
}

impl Progress {
    /// A display for these cases.
    pub(crate) fn new<'a>(
        quiet: bool,
        plans: impl IntoIterator<Item = &'a CasePlan>,
        lanes: u32,
    ) -> Progress {
        let remaining: BTreeMap<u32, Nanos> =
            plans.into_iter().map(|plan| (plan.index, estimate::case(plan))).collect();
        let terminal = stderr().is_terminal();
        let view = match (quiet, terminal) {
            (true, _) => View::Quiet,
            (false, true) => live(remaining.len()),
            (false, false) => View::Plain,
        };
        Progress {
            view,
            color: terminal && std::env::var_os("NO_COLOR").is_none(),
            total: remaining.len(),
            finished: 0,
            began: clock::now(),
            lanes,
            remaining,
            done: Nanos::ZERO,
        }
    }

    /// Something worth knowing.
    pub(crate) fn note(&self, text: &str) {
        match &self.view {
            // The display itself cannot be told that standard error is closed.
            View::Live { all, .. } => drop(all.println(text)),
            View::Plain => tell(text),
            View::Quiet => {}
        }
    }

    /// Something that must be known, even when quiet.
    pub(crate) fn warn(&self, text: &str) {
        match &self.view {
            View::Quiet => tell(&format!("ringbreaker: {text}")),
            View::Live { .. } | View::Plain => self.note(&format!("! {text}")),
        }
    }

    /// A case was handed to an agent.
    pub(crate) fn case_began(&mut self, agent: &AgentId, plan: &CasePlan) {
        let title = title(plan);
        if let View::Live { all, bar, cases } = &mut self.view {
            let line = all.insert_before(bar, ProgressBar::new_spinner());
            line.set_style(spinner());
            line.enable_steady_tick(Duration::from_millis(120));
            line.set_message(format!("{title}  preparing"));
            if let Some((old, _)) = cases.insert(agent.clone(), (line, title)) {
                old.finish_and_clear();
            }
        }
    }

    /// Something was observed in a case.
    pub(crate) fn observed(&mut self, agent: &AgentId, event: &Event) {
        if let View::Live { cases, .. } = &self.view
            && let Some((line, title)) = cases.get(agent)
            && let Some(word) = stage(event)
        {
            line.set_message(format!("{title}  {word}"));
        }
    }

    /// An attempt is over, but its case is not: the agent's line goes.
    pub(crate) fn case_left(&mut self, agent: &AgentId) {
        if let View::Live { cases, .. } = &mut self.view
            && let Some((line, _)) = cases.remove(agent)
        {
            line.finish_and_clear();
        }
    }

    /// A case is over.
    pub(crate) fn case_ended(&mut self, agent: Option<&AgentId>, result: &CaseResult) {
        if let Some(agent) = agent {
            self.case_left(agent);
        }
        self.finished += 1;
        let index = result.history.plan.index;
        self.done = self.done + self.remaining.remove(&index).unwrap_or(Nanos::ZERO);
        let line = line(result, self.finished, self.total, self.color);
        self.note(&line);
        let left = self.time_left();
        if let View::Live { bar, .. } = &self.view {
            bar.set_position(self.finished as u64);
            bar.set_message(left);
        }
    }

    fn time_left(&self) -> String {
        let sum = self.remaining.values().fold(Nanos::ZERO, |sum, guess| sum + *guess);
        if sum == Nanos::ZERO {
            return String::new();
        }
        let elapsed = clock::now().since(self.began);
        let left = estimate::left(elapsed, self.done, sum, self.lanes);
        format!("about {} left", estimate::words(left))
    }

    /// Leaves the finished lines alone on the screen.
    pub(crate) fn close(&mut self) {
        if let View::Live { bar, cases, .. } = &mut self.view {
            for (line, _) in std::mem::take(cases).into_values() {
                line.finish_and_clear();
            }
            bar.finish_and_clear();
        }
    }
}

fn live(total: usize) -> View {
    let all = MultiProgress::new();
    let bar = all.add(ProgressBar::new(total as u64));
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} cases  {elapsed}  {msg}")
        .expect("invariant: the template is constant");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    View::Live { all, bar, cases: BTreeMap::new() }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("  {spinner} {elapsed:>4} {wide_msg}")
        .expect("invariant: the template is constant")
}

fn title(plan: &CasePlan) -> String {
    format!("{:>4}  {}  {}", plan.index, plan.column, plan.row_label())
}

/// What a case is doing, in few words; none: nothing new to say.
fn stage(event: &Event) -> Option<String> {
    Some(match &event.what {
        What::Began => "initialising".to_owned(),
        What::Steady => "steady".to_owned(),
        What::FaultTriggered { .. } => "injecting".to_owned(),
        What::FaultWitnessed { .. } => "fault in effect".to_owned(),
        What::Detected(detection) => format!("noticed by {}", detection.detector),
        What::AbortBegan => "aborting".to_owned(),
        What::FaultHealed { .. } => "healed".to_owned(),
        _ => return None,
    })
}

/// One finished case as one line.
fn line(result: &CaseResult, finished: usize, total: usize, color: bool) -> String {
    let plan = &result.history.plan;
    let job = &result.report.job;
    let after = job.detected.and_then(|m| m.since_effect);
    let noticed = match (job.detector, after) {
        // It began with no fault that anybody could have noticed.
        (Detector::Nobody, _) if result.report.outcome == Outcome::NotRunnable => {
            "not possible here".to_owned()
        }
        (Detector::Nobody, _) => "nobody noticed".to_owned(),
        (detector, Some(after)) => format!("{detector} after {after}"),
        (detector, None) => detector.to_string(),
    };
    let noticed = if plan.faults.is_empty() { String::new() } else { noticed };
    let verdict = result.verdict.verdict;
    let paint = match verdict {
        Verdict::Pass => "\x1b[32m",
        Verdict::Unknown => "\x1b[33m",
        Verdict::Fail => "\x1b[31m",
    };
    let (on, off) = if color { (paint, "\x1b[0m") } else { ("", "") };
    let width = total.to_string().len();
    let text = format!(
        "{finished:>width$}/{total}  {on}{verdict:<7}{off}  {:<14}  {:<18}  {}  {noticed}",
        result.report.outcome,
        plan.column,
        plan.row_label(),
    );
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ringbreaker_reports::history::{CaseHistory, RunHeader};
    use ringbreaker_scenarios::{
        event::{Detection, EndReason, ExitStatus},
        words::{Backend, Phase},
    };

    use super::*;
    use crate::run::sample;

    fn header() -> RunHeader {
        RunHeader {
            id: "r1".into(),
            scenario: "sample".into(),
            summary: String::new(),
            scenario_text: String::new(),
            seed: 1,
            backend: Backend::Host,
            started: "2026-12-01T05:15:30Z".into(),
            ended: None,
            command: vec![],
            version: String::new(),
            commit: None,
            environment: BTreeMap::new(),
            probe: String::new(),
            notes: vec![],
        }
    }

    fn result(what: Vec<(u64, Option<u32>, What)>) -> CaseResult {
        let event = |(at, rank, what)| Event { at: Nanos::from_millis(at), rank, what };
        let events = what.into_iter().map(event).collect();
        let history = CaseHistory { plan: sample::plan(3), attempt: 1, events };
        CaseResult::of(history, &header())
    }

    #[test]
    fn a_finished_case_is_told_with_who_noticed_and_after_how_long() {
        let exited = |status, by_harness| What::RankExited { status, by_harness };
        let detection = Detection {
            detector: Detector::AsyncError,
            phase: Phase::Steady,
            code: Some(6),
            message: "remote error".into(),
            op: Some(5),
            blames: None,
        };
        let result = result(vec![
            (0, None, What::Began),
            (10, None, What::Steady),
            (20, None, What::FaultTriggered { fault: 0 }),
            (20, None, What::FaultInjected { fault: 0 }),
            (21, None, What::FaultWitnessed { fault: 0, evidence: "gone".into() }),
            (21, Some(1), exited(ExitStatus::Signal(9), false)),
            (51, Some(0), What::Detected(detection)),
            (60, Some(0), exited(ExitStatus::Code(3), false)),
            (61, None, What::Ended { because: EndReason::RanksGone }),
        ]);
        let line = line(&result, 7, 28, false);
        assert!(line.starts_with(" 7/28  "), "{line}");
        assert!(line.contains("failed-clean") && line.contains("NCCL_TIMEOUT=2s"), "{line}");
        assert!(line.ends_with("async-error after 30ms"), "{line}");
    }

    #[test]
    fn a_case_that_could_not_run_is_told_as_such() {
        let result = result(vec![
            (0, None, What::Unavailable { reason: "no GPU".into() }),
            (0, None, What::Ended { because: EndReason::Unavailable }),
        ]);
        let line = line(&result, 1, 1, false);
        assert!(line.contains("not-runnable") && !line.contains("noticed"), "{line}");
    }
}
