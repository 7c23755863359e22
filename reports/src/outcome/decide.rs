//! The one outcome of a case. The order of the questions here is the table in the module above.

use ringbreaker_scenarios::{
    case::{FaultPlan, RankPlan, Trigger},
    event::{EXIT_AFTER_ERROR, EXIT_FINISHED, EXIT_HARNESS, EndReason, ExitStatus, What},
    exposure::{Exposure, exposure},
    words::{Detector, ErrorHandling, Outcome, Phase},
};

use super::{
    FaultReport, JobReport, LatencyReport, RankReport,
    evidence::Evidence,
    latency::{self, Pace},
    sentence,
};

/// The exit code of a Rust program whose main thread panicked.
const EXIT_PANIC: i32 = 101;
/// SIGABRT, by which PyTorch's watchdog (and the rank's) ends its own process.
const SIGABRT: i32 = 6;

/// Everything the questions are asked of.
pub(super) struct Facts<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) ranks: &'a [RankReport],
    pub(super) faults: &'a [FaultReport],
    pub(super) job: &'a JobReport,
    pub(super) latency: &'a [LatencyReport],
}

/// An outcome with its reason.
type Answer = Option<(Outcome, String)>;

/// Asks the questions in order; the first that has an answer decides.
pub(super) fn decide(facts: &Facts) -> (Outcome, String) {
    facts
        .unavailable()
        .or_else(|| facts.wrong_data())
        .or_else(|| facts.cut_short())
        .or_else(|| facts.never_steady())
        .or_else(|| facts.crashed())
        .or_else(|| facts.not_exposed())
        .or_else(|| facts.not_ended())
        .or_else(|| facts.failed_clean())
        .unwrap_or_else(|| facts.finished())
}

impl Facts<'_> {
    fn survivors(&self) -> impl Iterator<Item = &RankReport> {
        self.ranks.iter().filter(|rank| rank.survivor)
    }

    fn unavailable(&self) -> Answer {
        let reason = self.evidence.unavailable.map(str::to_owned).or_else(|| {
            (self.job.end == Some(EndReason::Unavailable)).then(|| "no reason was given".to_owned())
        })?;
        Some((Outcome::NotRunnable, format!("the case cannot be run here: {reason}")))
    }

    fn wrong_data(&self) -> Answer {
        for (rank, trace) in &self.evidence.traces {
            if let Some(What::WrongData { op, expected, found, element }) = trace.wrong_data {
                let why = format!(
                    "operation {op} of rank {rank} reported success, but element {element} was \
                     {found} where {expected} was right"
                );
                return Some((Outcome::WrongData, why));
            }
            let wrong = trace.ops.map_or(0, |ops| ops.checked_wrong);
            let noticed = trace.detection.is_some_and(|(_, d)| d.detector == Detector::DataCheck);
            if wrong > 0 || noticed {
                let why = format!("rank {rank} found wrong contents in operations that succeeded");
                return Some((Outcome::WrongData, why));
            }
        }
        None
    }

    fn cut_short(&self) -> Answer {
        let not_runnable = |why: String| Some((Outcome::NotRunnable, why));
        match self.job.end {
            Some(EndReason::Interrupted) => {
                return not_runnable("the user interrupted the run during this case".to_owned());
            }
            Some(EndReason::AgentLost) => {
                return not_runnable("the agent was lost during this case".to_owned());
            }
            None => return not_runnable("the history ends before the case did".to_owned()),
            Some(
                EndReason::RanksGone
                | EndReason::Cap
                | EndReason::Unexposed
                | EndReason::Unavailable,
            ) => {}
        }
        if let Some(rank) = self.ranks.iter().find(|rank| rank.status.is_none()) {
            let why = format!("the history does not tell how rank {} ended", rank.rank);
            return not_runnable(why);
        }
        let gave_up =
            |r: &&RankReport| !r.by_harness && r.status == Some(ExitStatus::Code(EXIT_HARNESS));
        let rank = self.survivors().find(gave_up)?;
        not_runnable(format!(
            "rank {} gave up for a reason of the harness (exit {EXIT_HARNESS}); see its log",
            rank.rank
        ))
    }

    /// A clean case has no fault to wait for: what keeps it from steady state is its result.
    fn never_steady(&self) -> Answer {
        let plans = &self.evidence.plan.faults;
        let waited = !plans.is_empty() && plans.iter().all(needs_steady);
        if !waited || self.job.steady.is_some() || self.faults.iter().any(FaultReport::fired) {
            return None;
        }
        let seen = match sentence::first_notice(self.ranks, self.job) {
            Some(notice) => notice,
            None => "no rank said why".to_owned(),
        };
        Some((
            Outcome::NotRunnable,
            format!("steady state was never reached, so no fault was injected: {seen}"),
        ))
    }

    fn crashed(&self) -> Answer {
        self.survivors().find_map(|rank| {
            let how = match rank.status? {
                _ if rank.by_harness => return None,
                ExitStatus::Signal(SIGABRT) if self.ends_itself_by_signal(rank) => return None,
                ExitStatus::Signal(signal) => {
                    format!("died of signal {signal}, which ringbreaker did not send")
                }
                ExitStatus::Code(EXIT_PANIC) => "panicked".to_owned(),
                ExitStatus::Code(EXIT_FINISHED | EXIT_AFTER_ERROR) => return None,
                ExitStatus::Code(_) if rank.detector != Detector::Nobody => return None,
                ExitStatus::Code(code) => format!("ended with code {code} without saying why"),
            };
            Some((Outcome::Crashed, format!("rank {} was no target and {how}", rank.rank)))
        })
    }

    fn plan_of(&self, rank: &RankReport) -> Option<&RankPlan> {
        self.evidence.plan.ranks.get(usize::try_from(rank.rank).ok()?)
    }

    /// Whether SIGABRT is this rank's own way of ending after it had noticed.
    fn ends_itself_by_signal(&self, rank: &RankReport) -> bool {
        let noticed = self.evidence.traces.get(&rank.rank).is_some_and(|t| t.detection.is_some());
        let mode = self.plan_of(rank).map(|plan| plan.watchdog.error_handling);
        noticed && matches!(mode, Some(ErrorHandling::Teardown | ErrorHandling::SkipCleanup))
    }

    fn not_exposed(&self) -> Answer {
        if self.faults.is_empty() || self.faults.iter().any(|fault| fault.effect.is_some()) {
            return None;
        }
        let plans = &self.evidence.plan.faults;
        let reasons: Vec<String> = plans
            .iter()
            .zip(self.faults)
            .map(|(plan, fault)| self.why_without_effect(plan, fault))
            .collect();
        let transport = match self.evidence.transport {
            Some(name) => format!("; ranks were connected by {name}"),
            None => String::new(),
        };
        let why = format!("no fault was seen to take effect: {}{transport}", reasons.join("; "));
        Some((Outcome::NotExposed, why))
    }

    /// Why a fault was not seen to take effect, with what carried data where that tells.
    fn why_without_effect(&self, plan: &FaultPlan, fault: &FaultReport) -> String {
        let label = &fault.label;
        if let Some(reason) = &fault.unexposed {
            return format!("{label} cannot be felt ({reason})");
        }
        if let Some(reason) = &fault.failed {
            return format!("{label} could not be injected ({reason})");
        }
        let transports = self.evidence.transport.iter().copied().collect();
        let backend = self.evidence.plan.backend;
        if let Exposure::Not(reason) = exposure(&plan.kind, plan.when, backend, &transports) {
            return format!("{label} had no witness ({reason})");
        }
        match &fault.unwitnessed {
            Some(reason) => format!("{label} had no witness ({reason})"),
            None if fault.fired() => format!("{label} had no witness"),
            None => format!("{label} was never triggered"),
        }
    }

    /// Some survivor did not end by itself.
    fn not_ended(&self) -> Answer {
        let left: Vec<&RankReport> = self.survivors().filter(|rank| rank.by_harness).collect();
        if left.is_empty() {
            return None;
        }
        let who = sentence::ranks(left.iter().map(|rank| rank.rank));
        let cap = self.evidence.plan.cap;
        let Some(notice) = sentence::first_notice(self.ranks, self.job) else {
            let why = format!("nobody noticed; {who} had to be ended by the harness (cap {cap})");
            return Some((Outcome::Hung, why));
        };
        if let Some(rank) = left.iter().find(|rank| self.tried_to_end(rank)) {
            let how = match (rank.abort_began, rank.abort_ended) {
                (Some(_), None) => "abort never returned",
                (Some(_), Some(_)) => "abort returned, but the process did not end",
                (None, _) => "it never got as far as to end",
            };
            let rank = rank.rank;
            let why =
                format!("{notice}; in rank {rank} {how}; {who} had to be ended by the harness");
            return Some((Outcome::AbortHung, why));
        }
        let ended = self.survivors().filter(|rank| !rank.by_harness).count();
        if ended > 0 {
            let why = format!(
                "{notice}; {ended} of {} surviving ranks ended by themselves, {who} had to be ended \
                 by the harness",
                ended + left.len()
            );
            return Some((Outcome::FailedPartial, why));
        }
        let why =
            format!("{notice}, but nothing acted on it; {who} had to be ended by the harness");
        Some((Outcome::Hung, why))
    }

    /// Whether a rank that had to be ended had begun, or was bound, to end by itself.
    fn tried_to_end(&self, rank: &RankReport) -> bool {
        let bound_to = rank.detected.is_some()
            && self.plan_of(rank).is_some_and(|plan| {
                plan.watchdog.blocking_wait || plan.watchdog.error_handling != ErrorHandling::None
            });
        rank.abort_began.is_some() || bound_to
    }

    /// Every survivor ended by itself, and not all of them with their work done.
    fn failed_clean(&self) -> Answer {
        let all_finished =
            self.survivors().all(|rank| rank.status == Some(ExitStatus::Code(EXIT_FINISHED)));
        if self.survivors().next().is_none() {
            let why = "every rank was a target; none was left to notice".to_owned();
            return Some((Outcome::FailedClean, why));
        }
        if all_finished {
            return None;
        }
        let notice = sentence::first_notice(self.ranks, self.job)
            .unwrap_or_else(|| "no rank reported what it noticed".to_owned());
        let last = match self.job.survivors_gone.and_then(|moment| moment.since_effect) {
            Some(time) => format!(", the last {time} after the effect"),
            None => String::new(),
        };
        let why = format!("{notice}; every surviving rank ended by itself{last}");
        Some((Outcome::FailedClean, why))
    }

    /// Every survivor finished its work.
    fn finished(&self) -> (Outcome, String) {
        let count = self.survivors().count();
        let all = if count == self.ranks.len() {
            format!("all {count} ranks finished every operation with right results")
        } else {
            format!("the {count} surviving ranks finished every operation with right results")
        };
        if let Some(notice) = sentence::first_notice(self.ranks, self.job) {
            return (Outcome::Recovered, format!("{notice}, and yet {all}"));
        }
        if self.faults.is_empty() {
            return (Outcome::Completed, all);
        }
        match latency::pace(self.latency) {
            Pace::Slower(how) => (Outcome::Degraded, format!("{all}, but slower: {how}")),
            Pace::Same => (Outcome::Completed, format!("{all}, as fast as before the fault")),
            Pace::Unmeasured => (
                Outcome::Completed,
                format!("{all}; there were too few operations to compare times with"),
            ),
        }
    }
}

/// Whether the fault waits for the steady state gate.
fn needs_steady(fault: &FaultPlan) -> bool {
    match fault.when {
        Trigger::After(_) | Trigger::Iteration(_) => true,
        Trigger::Phase(phase) => matches!(phase, Phase::Steady | Phase::Abort | Phase::Done),
    }
}
