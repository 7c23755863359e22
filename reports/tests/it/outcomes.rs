//! One history a row of the outcome table, and the table of all of them as a snapshot.

use std::fmt::Write;

use ringbreaker_reports::{history::CaseHistory, outcome::judge};
use ringbreaker_scenarios::{
    case::Trigger,
    event::{
        EndReason::{self, AgentLost, Cap, Interrupted, RanksGone, Unavailable, Unexposed},
        HealReason, What,
    },
    words::{Detector, ErrorHandling, Outcome, Phase},
};

use crate::story::{Story, kill_noticed, not_runnable, stop_unnoticed};

const CLEAN: [u64; 40] = [9_000; 40];

/// Clean operations until 460 ms (rank time), then `under` for each of 20 more.
fn slowed(under: u64) -> Vec<u64> {
    let mut times = CLEAN.to_vec();
    times.extend([under; 20]);
    times
}

fn delayed(under: u64) -> CaseHistory {
    Story::of("delay")
        .delay(0, 1)
        .steady()
        .strikes(470, "probe packets took 5 ms longer")
        .all_exit(5_000, 0)
        .ops(5_000, &slowed(under))
        .healed(5_001, HealReason::CaseEnded)
        .ended(5_002, EndReason::RanksGone)
}

fn wrong_data() -> CaseHistory {
    let wrong = What::WrongData { op: 12, expected: "10".into(), found: "7".into(), element: 3 };
    kill_noticed().event(300, Some(2), wrong).ended(1650, EndReason::RanksGone)
}

type Row = (&'static str, Outcome, CaseHistory);

fn histories() -> Vec<Row> {
    [without_result(), early(), crashed(), stuck(), targets(), finished()]
        .into_iter()
        .flatten()
        .collect()
}

fn struck() -> Story {
    steady_kill().strikes(500, "gone").signal(500, 1, 9)
}

fn steady_kill() -> Story {
    Story::of("kill").kill(1).mode(ErrorHandling::Teardown).steady()
}

fn stopped() -> Story {
    Story::of("stop").stop(1).mode(ErrorHandling::Teardown).steady().strikes(500, "state T")
}

/// Cases that say nothing about the job, unless data was wrong.
fn without_result() -> Vec<Row> {
    vec![
        (
            "the node lacks what is needed",
            Outcome::NotRunnable,
            not_runnable().ended(0, Unavailable),
        ),
        ("wrong contents", Outcome::WrongData, wrong_data()),
        ("wrong contents in an interrupted case", Outcome::WrongData, {
            let mut case = wrong_data();
            case.events.retain(|event| !matches!(event.what, What::Ended { .. }));
            case
        }),
        ("interrupted", Outcome::NotRunnable, kill_noticed().ended(1650, Interrupted)),
        (
            "the agent was lost, and the ranks with it",
            Outcome::NotRunnable,
            steady_kill().signal(300, 0, 9).ended(301, AgentLost),
        ),
        ("no end in the history", Outcome::NotRunnable, kill_noticed().torn()),
        (
            "no end of a rank in the history",
            Outcome::NotRunnable,
            struck().exit(900, 0, 3).exit(900, 2, 3).ended(950, RanksGone),
        ),
        (
            "a rank gave up for a reason of the harness",
            Outcome::NotRunnable,
            struck().exit(900, 0, 3).exit(900, 2, 2).exit(900, 3, 3).ended(950, RanksGone),
        ),
        (
            "never steady, so nothing was injected",
            Outcome::NotRunnable,
            Story::of("kill")
                .kill(1)
                .began()
                .async_error(50, 0)
                .all_exit(90, 3)
                .ended(95, RanksGone),
        ),
    ]
}

/// Nobody left, before steady state, and faults without effect.
fn early() -> Vec<Row> {
    vec![
        (
            "every rank was a target",
            Outcome::FailedClean,
            [1, 2, 3]
                .into_iter()
                .fold(struck(), |story, rank| story.kill(rank))
                .kill(0)
                .event(500, None, What::FaultTriggered { fault: 1 })
                .event(500, None, What::FaultTriggered { fault: 2 })
                .event(500, None, What::FaultTriggered { fault: 3 })
                .event(500, None, What::FaultTriggered { fault: 4 })
                .signal(500, 0, 9)
                .signal(500, 2, 9)
                .signal(500, 3, 9)
                .ended(501, RanksGone),
        ),
        (
            "a clean case that fails before it is steady",
            Outcome::FailedClean,
            Story::of("clean").began().async_error(50, 0).all_exit(90, 3).ended(95, RanksGone),
        ),
        (
            "a fault during init needs no steady state",
            Outcome::FailedClean,
            Story::of("kill")
                .kill(1)
                .when(Trigger::Phase(Phase::Init))
                .began()
                .strikes(20, "gone")
                .signal(20, 1, 9)
                .timed_out(2_020, 0)
                .exit(2_100, 0, 3)
                .exit(2_100, 2, 3)
                .exit(2_100, 3, 3)
                .ended(2_110, RanksGone),
        ),
        (
            "fired, but no witness",
            Outcome::NotExposed,
            steady_kill().triggered(500).all_exit(900, 0).ended(950, RanksGone),
        ),
        (
            "cannot be felt",
            Outcome::NotExposed,
            steady_kill()
                .unexposed(300, "data goes by P2P: no packet crosses a link")
                .killed_by_harness(310, 0)
                .killed_by_harness(310, 1)
                .killed_by_harness(310, 2)
                .killed_by_harness(310, 3)
                .ended(350, Unexposed),
        ),
        (
            "never triggered",
            Outcome::NotExposed,
            steady_kill().all_exit(900, 0).ended(950, RanksGone),
        ),
    ]
}

/// Bystanders that die, and SIGABRT that is no crash.
fn crashed() -> Vec<Row> {
    vec![
        (
            "a bystander dies of a signal",
            Outcome::Crashed,
            struck()
                .async_error(504, 0)
                .exit(900, 0, 3)
                .signal(700, 2, 11)
                .exit(900, 3, 3)
                .ended(950, RanksGone),
        ),
        (
            "a bystander panics",
            Outcome::Crashed,
            struck().exit(900, 0, 3).exit(700, 2, 101).exit(900, 3, 3).ended(950, RanksGone),
        ),
        (
            "a bystander aborts without having noticed",
            Outcome::Crashed,
            struck().exit(900, 0, 3).signal(700, 2, 6).exit(900, 3, 3).ended(950, RanksGone),
        ),
        (
            "SIGABRT after noticing is how teardown ends a rank",
            Outcome::FailedClean,
            kill_noticed().ended(1650, RanksGone),
        ),
        (
            "SIGABRT after noticing is a crash where the mode does not end ranks",
            Outcome::Crashed,
            kill_noticed().mode(ErrorHandling::CleanupOnly).ended(1650, RanksGone),
        ),
    ]
}

/// Ranks that the harness had to end.
fn stuck() -> Vec<Row> {
    vec![
        ("nobody noticed", Outcome::Hung, stop_unnoticed().ended(20_002, Cap)),
        (
            "noticed by a watchdog that only logs",
            Outcome::Hung,
            stop_unnoticed().timed_out(2_600, 0).ended(20_002, Cap),
        ),
        (
            "abort never returned",
            Outcome::AbortHung,
            struck()
                .async_error(504, 0)
                .abort_begins(0, 505)
                .killed_by_harness(20_000, 0)
                .exit(900, 2, 3)
                .exit(900, 3, 3)
                .ended(20_001, Cap),
        ),
        (
            "noticed and bound to end, but did not",
            Outcome::AbortHung,
            struck()
                .async_error(504, 0)
                .killed_by_harness(20_000, 0)
                .killed_by_harness(20_000, 2)
                .killed_by_harness(20_000, 3)
                .ended(20_001, Cap),
        ),
        (
            "the neighbours ended, the far rank was never told",
            Outcome::FailedPartial,
            struck()
                .async_error(504, 0)
                .exit(900, 0, 3)
                .async_error(504, 2)
                .exit(900, 2, 3)
                .killed_by_harness(20_000, 3)
                .ended(20_001, Cap),
        ),
    ]
}

/// Who is a survivor and who is not.
fn targets() -> Vec<Row> {
    vec![
        (
            "a rank that stays stopped is no survivor",
            Outcome::FailedClean,
            stopped()
                .timed_out(2_500, 0)
                .timed_out(2_500, 2)
                .timed_out(2_500, 3)
                .exit(3_000, 0, 3)
                .exit(3_000, 2, 3)
                .exit(3_000, 3, 3)
                .killed_by_harness(20_000, 1)
                .healed(20_000, HealReason::CaseEnded)
                .ended(20_001, Cap),
        ),
        (
            "a rank that was continued has to end by itself",
            Outcome::FailedPartial,
            stopped()
                .timed_out(2_500, 0)
                .healed(4_500, HealReason::LifeOver)
                .exit(3_000, 0, 3)
                .exit(3_000, 2, 3)
                .exit(3_000, 3, 3)
                .killed_by_harness(20_000, 1)
                .ended(20_001, Cap),
        ),
        (
            "the OOM killer ends the target: the effect, not a crash",
            Outcome::FailedClean,
            Story::of("memory")
                .limit_memory(1)
                .steady()
                .strikes(500, "oom_kill rose to 1")
                .signal(500, 1, 9)
                .async_error(505, 0)
                .exit(900, 0, 3)
                .exit(900, 2, 3)
                .exit(900, 3, 3)
                .ended(950, RanksGone),
        ),
        (
            "nobody noticed that the OOM killer ended the target",
            Outcome::Hung,
            [0, 2, 3]
                .into_iter()
                .fold(
                    Story::of("memory")
                        .limit_memory(1)
                        .steady()
                        .strikes(500, "oom_kill rose to 1")
                        .signal(500, 1, 9),
                    |story, rank| story.killed_by_harness(20_000, rank),
                )
                .ended(20_001, Cap),
        ),
    ]
}

/// Jobs that finished their work.
fn finished() -> Vec<Row> {
    vec![
        (
            "noticed, and finished all the same",
            Outcome::Recovered,
            Story::of("delay")
                .delay(0, 1)
                .mode(ErrorHandling::None)
                .steady()
                .strikes(470, "late")
                .timed_out(2_500, 0)
                .all_exit(5_000, 0)
                .ended(5_001, RanksGone),
        ),
        ("slower than the clean tail", Outcome::Degraded, delayed(19_000)),
        ("as fast as before", Outcome::Completed, delayed(9_100)),
        ("a little slower, within the margin", Outcome::Completed, delayed(9_900)),
        ("one long stall", Outcome::Degraded, {
            let mut times = slowed(9_000);
            times[50] = 1_500_000;
            stopped()
                .healed(1_900, HealReason::LifeOver)
                .all_exit(5_000, 0)
                .ops(5_000, &times)
                .ended(5_001, RanksGone)
        }),
        (
            "nothing to compare with",
            Outcome::Completed,
            Story::of("delay")
                .delay(0, 1)
                .steady()
                .strikes(470, "late")
                .all_exit(900, 0)
                .ended(901, RanksGone),
        ),
        (
            "clean",
            Outcome::Completed,
            Story::of("clean").steady().all_exit(900, 0).ended(901, RanksGone),
        ),
    ]
}

#[test]
fn every_row_of_the_table_has_its_outcome() {
    let mut wrong = String::new();
    for (name, want, history) in histories() {
        let report = judge(&history);
        if report.outcome != want {
            writeln!(wrong, "{name}: wanted {want}, got {}: {}", report.outcome, report.why)
                .unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_outcome_says_why_in_a_sentence() {
    let table: String = histories()
        .iter()
        .map(|(name, _, history)| {
            let report = judge(history);
            format!("{name}\n    {}: {}\n", report.outcome, report.why)
        })
        .collect();
    insta::assert_snapshot!(table);
}

#[test]
fn every_outcome_occurs_in_the_table() {
    let found: Vec<Outcome> = histories().iter().map(|(_, _, h)| judge(h).outcome).collect();
    for outcome in Outcome::ALL {
        assert!(found.contains(outcome), "{outcome} has no history");
    }
}

#[test]
fn a_rank_may_notice_before_the_witness_does() {
    let case = Story::of("kill")
        .kill(1)
        .steady()
        .triggered(499)
        .async_error(501, 0)
        .event(503, None, What::FaultWitnessed { fault: 0, evidence: "gone".into() })
        .ended(1000, EndReason::Cap);
    let job = judge(&case).job;
    assert_eq!(job.detected.unwrap().since_effect, Some(ringbreaker_scenarios::units::Nanos::ZERO));
    assert_eq!(job.detector, Detector::AsyncError);
}

#[test]
fn what_was_noticed_before_the_trigger_has_no_time_since_the_effect() {
    let case = kill_noticed().timed_out(200, 3).ended(1650, EndReason::RanksGone);
    let report = judge(&case);
    assert_eq!(report.job.detected_by, Some(3));
    assert_eq!(report.job.detected.unwrap().since_effect, None);
}

#[test]
fn the_whole_report_of_a_noticed_kill() {
    let report = judge(&kill_noticed().ended(1650, EndReason::RanksGone));
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}
