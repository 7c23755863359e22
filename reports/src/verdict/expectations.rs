//! Each expectation of a case, checked.

use ringbreaker_scenarios::{
    case::{CasePlan, Expectation},
    units::Nanos,
    words::{Outcome, Verdict},
};

use super::{CaseVerdict, Reason, merge_all};
use crate::outcome::CaseReport;

/// Holds what happened against what was expected.
pub fn verdict(report: &CaseReport, plan: &CasePlan) -> CaseVerdict {
    let mut reasons = safety(report);
    match inconclusive(report) {
        Some(why) => reasons.push(Reason::new(Verdict::Unknown, why)),
        None => {
            reasons.extend(witnesses(report));
            reasons.push(outcome(report, plan));
            let expect = &plan.expect;
            reasons.extend(detector(report, expect));
            reasons.extend(detected_within(report, expect));
            reasons.extend(ended_within(report, expect));
            reasons.extend(leftovers(report, expect));
        }
    }
    CaseVerdict { verdict: merge_all(reasons.iter().map(|r| r.verdict)), reasons }
}

impl Reason {
    fn new(verdict: Verdict, sentence: String) -> Reason {
        Reason { verdict, sentence }
    }

    fn held(holds: bool, sentence: String) -> Reason {
        Reason::new(if holds { Verdict::Pass } else { Verdict::Fail }, sentence)
    }
}

/// What fails a case whatever was expected: traces of the harness on the machine.
fn safety(report: &CaseReport) -> Vec<Reason> {
    let unhealed = report.faults.iter().filter_map(|fault| {
        let reason = fault.heal_failed.as_ref()?;
        Some(format!("{} could not be undone: {reason}", fault.label))
    });
    let left = report
        .job
        .leftovers_of_harness
        .iter()
        .map(|what| format!("ringbreaker itself left something behind: {what}"));
    unhealed.chain(left).map(|sentence| Reason::new(Verdict::Fail, sentence)).collect()
}

/// Outcomes that say nothing about the job, so that no expectation can be checked.
fn inconclusive(report: &CaseReport) -> Option<String> {
    matches!(report.outcome, Outcome::NotRunnable | Outcome::NotExposed)
        .then(|| format!("{}: {}", report.outcome, report.why))
}

/// A fault that no witness saw cannot yield `pass`.
fn witnesses(report: &CaseReport) -> Vec<Reason> {
    report
        .faults
        .iter()
        .filter(|fault| fault.effect.is_none())
        .map(|fault| {
            let label = &fault.label;
            let sentence = if fault.fired() {
                format!("no witness saw {label} take effect")
            } else {
                format!("{label} was never triggered")
            };
            Reason::new(Verdict::Unknown, sentence)
        })
        .collect()
}

fn outcome(report: &CaseReport, plan: &CasePlan) -> Reason {
    let (found, why) = (report.outcome, &report.why);
    let expected = &plan.expect.outcome;
    if !expected.is_empty() {
        let words = one_of(expected);
        return Reason::held(
            expected.contains(&found),
            format!("outcome {found}, expected {words}: {why}"),
        );
    }
    if plan.faults.is_empty() {
        return Reason::held(
            found == Outcome::Completed,
            format!("outcome {found}, a case without fault has to complete: {why}"),
        );
    }
    // Wrong results are never what somebody left unsaid.
    Reason::held(
        found != Outcome::WrongData,
        format!("outcome {found}, no outcome was demanded: {why}"),
    )
}

fn detector(report: &CaseReport, expect: &Expectation) -> Option<Reason> {
    let found = report.job.detector;
    (!expect.detector.is_empty()).then(|| {
        let sentence = format!("first noticed by {found}, expected {}", one_of(&expect.detector));
        Reason::held(expect.detector.contains(&found), sentence)
    })
}

fn detected_within(report: &CaseReport, expect: &Expectation) -> Option<Reason> {
    let limit = expect.detected_within?;
    let job = &report.job;
    Some(match (job.detected, job.effect) {
        (_, None) => Reason::new(
            Verdict::Unknown,
            format!("no fault took effect, so that nothing could be noticed within {limit}"),
        ),
        (None, _) => Reason::new(Verdict::Fail, format!("nobody noticed, expected within {limit}")),
        (Some(moment), _) => within("noticed", moment.since_effect, limit),
    })
}

fn ended_within(report: &CaseReport, expect: &Expectation) -> Option<Reason> {
    let limit = expect.ended_within?;
    let job = &report.job;
    Some(match (job.survivors_gone, job.effect) {
        (_, None) => Reason::new(
            Verdict::Unknown,
            format!("no fault took effect, so that no end within {limit} could be measured"),
        ),
        (None, _) => Reason::new(
            Verdict::Fail,
            format!("a surviving rank never ended by itself, expected within {limit}"),
        ),
        (Some(moment), _) => {
            within("the last surviving rank had ended", moment.since_effect, limit)
        }
    })
}

fn within(what: &str, time: Option<Nanos>, limit: Nanos) -> Reason {
    match time {
        Some(time) => Reason::held(
            time <= limit,
            format!("{what} {time} after the effect, expected within {limit}"),
        ),
        None => Reason::new(
            Verdict::Unknown,
            format!("{what} before the fault took effect, expected within {limit} after it"),
        ),
    }
}

fn leftovers(report: &CaseReport, expect: &Expectation) -> Option<Reason> {
    let left = &report.job.leftovers_of_job;
    if !expect.no_leftovers.unwrap_or(true) {
        return None;
    }
    let sentence = if left.is_empty() {
        "the job left nothing behind".to_owned()
    } else {
        format!("the job left behind: {}", left.join(", "))
    };
    Some(Reason::held(left.is_empty(), sentence))
}

/// `a`, `a or b`, `a, b or c`.
fn one_of<W: ToString>(words: &[W]) -> String {
    let words: Vec<String> = words.iter().map(W::to_string).collect();
    match words.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use ringbreaker_scenarios::words::Detector;

    use super::*;

    #[test]
    fn alternatives_read_as_people_write_them() {
        let words = [Detector::AsyncError, Detector::CallError, Detector::Nobody];
        assert_eq!(one_of(&words), "async-error, call-error or nobody");
        assert_eq!(one_of(&words[..1]), "async-error");
    }
}
