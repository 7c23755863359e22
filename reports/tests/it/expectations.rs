//! Each expectation, held and broken.

use ringbreaker_reports::{
    history::CaseHistory,
    outcome::judge,
    verdict::{CaseVerdict, verdict},
};
use ringbreaker_scenarios::{
    case::Expectation,
    event::{EndReason, Owner, What},
    units::Nanos,
    words::{Detector, Outcome, Verdict},
};

use crate::story::{Story, kill_noticed, not_runnable, stop_unnoticed};

fn check(history: &CaseHistory) -> CaseVerdict {
    verdict(&judge(history), &history.plan)
}

fn kill_expecting(change: impl FnOnce(&mut Expectation)) -> CaseVerdict {
    check(&kill_noticed().expecting(change).ended(1650, EndReason::RanksGone))
}

#[track_caller]
fn is(found: &CaseVerdict, want: Verdict, part: &str) {
    assert_eq!(found.verdict, want, "{found:?}");
    let sentences: Vec<&str> = found.reasons.iter().map(|r| r.sentence.as_str()).collect();
    assert!(sentences.iter().any(|s| s.contains(part)), "{part:?} is not in {sentences:#?}");
}

#[test]
fn an_expected_outcome_passes_and_another_fails() {
    is(&kill_expecting(|_| {}), Verdict::Pass, "outcome failed-clean, expected failed-clean");
    let other = |e: &mut Expectation| e.outcome = vec![Outcome::Hung, Outcome::AbortHung];
    is(&kill_expecting(other), Verdict::Fail, "expected hung or abort-hung");
}

#[test]
fn detection_is_held_to_detector_and_limit() {
    let ms = Nanos::from_millis;
    is(&kill_expecting(|e| e.detected_within = Some(ms(10))), Verdict::Pass, "noticed 4ms after");
    is(&kill_expecting(|e| e.detected_within = Some(ms(3))), Verdict::Fail, "expected within 3ms");
    let by = |e: &mut Expectation| e.detector = vec![Detector::RankWatchdog];
    is(&kill_expecting(by), Verdict::Fail, "first noticed by async-error, expected rank-watchdog");
}

#[test]
fn the_end_is_held_to_its_limit() {
    let ms = Nanos::from_millis;
    is(&kill_expecting(|e| e.ended_within = Some(ms(1200))), Verdict::Pass, "1.14s after");
    is(&kill_expecting(|e| e.ended_within = Some(ms(1000))), Verdict::Fail, "1.14s after");
    let never = stop_unnoticed().expecting(|e| e.ended_within = Some(ms(1000)));
    is(&check(&never.ended(20_002, EndReason::Cap)), Verdict::Fail, "never ended by itself");
}

#[test]
fn silence_breaks_a_detection_limit() {
    is(&check(&stop_unnoticed().ended(20_002, EndReason::Cap)), Verdict::Fail, "nobody noticed");
}

#[test]
fn what_could_not_be_measured_is_unknown() {
    let unavailable = check(&not_runnable().ended(0, EndReason::Unavailable));
    is(&unavailable, Verdict::Unknown, "cannot be run here");
    let unexposed = Story::of("kill")
        .kill(1)
        .expect(&[Outcome::Completed, Outcome::NotExposed])
        .steady()
        .triggered(500)
        .all_exit(900, 0)
        .ended(901, EndReason::RanksGone);
    is(&check(&unexposed), Verdict::Unknown, "no fault was seen to take effect");
}

#[test]
fn one_unwitnessed_fault_of_two_keeps_a_case_from_passing() {
    let case = kill_noticed().kill(3).ended(1650, EndReason::RanksGone);
    is(&check(&case), Verdict::Unknown, "kill rank 3 was never triggered");
}

#[test]
fn leftovers_of_the_job_fail_unless_they_are_allowed() {
    let left = || kill_noticed().left(1649, Owner::Job, "/dev/shm/nccl-a1b2c3 (32.6 MiB)");
    is(&check(&left().ended(1650, EndReason::RanksGone)), Verdict::Fail, "/dev/shm/nccl-a1b2c3");
    let allowed = left().expecting(|e| e.no_leftovers = Some(false));
    is(&check(&allowed.ended(1650, EndReason::RanksGone)), Verdict::Pass, "failed-clean");
}

#[test]
fn traces_of_the_harness_fail_also_what_could_not_be_run() {
    let left = not_runnable().left(1, Owner::Harness, "cgroup ringbreaker-1");
    let found = check(&left.ended(2, EndReason::Unavailable));
    is(&found, Verdict::Fail, "ringbreaker itself left something behind: cgroup ringbreaker-1");
    let unhealed = What::HealFailed { fault: 0, reason: "EBUSY".into() };
    let found =
        check(&kill_noticed().event(1649, None, unhealed).ended(1650, EndReason::RanksGone));
    is(&found, Verdict::Fail, "kill rank 1 could not be undone: EBUSY");
}

#[test]
fn a_clean_case_has_to_complete() {
    let clean =
        |code| Story::of("clean").steady().all_exit(900, code).ended(901, EndReason::RanksGone);
    is(&check(&clean(0)), Verdict::Pass, "outcome completed");
    is(&check(&clean(3)), Verdict::Fail, "a case without fault has to complete");
}

#[test]
fn wrong_data_fails_even_where_no_outcome_was_demanded() {
    let wrong = What::WrongData { op: 1, expected: "1".into(), found: "2".into(), element: 0 };
    let case = kill_noticed().expect(&[]).event(400, Some(0), wrong);
    is(&check(&case.ended(1650, EndReason::RanksGone)), Verdict::Fail, "wrong-data");
}
