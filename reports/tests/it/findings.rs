//! The rules that make sentences of a matrix.

use ringbreaker_reports::{
    history::CaseHistory,
    report::{RunReport, Weight},
};
use ringbreaker_scenarios::event::{Detection, EndReason, Owner, What};
use ringbreaker_scenarios::words::{Detector, Phase};

use crate::story::{Story, header, kill_noticed, not_runnable, run, stop_unnoticed};

fn sentences(cases: Vec<CaseHistory>) -> Vec<String> {
    let report = RunReport::from(run(cases));
    report.findings.into_iter().map(|finding| finding.sentence).collect()
}

fn stop(mode: &str, timeout: (&str, u64)) -> CaseHistory {
    let swept = |story: Story| story.swept("NCCL_TIMEOUT", timeout.0).swept("error_handling", mode);
    if mode == "none" {
        return swept(stop_unnoticed()).ended(20_002, EndReason::Cap);
    }
    let noticed = 500 + timeout.1;
    let story = [0, 2, 3]
        .into_iter()
        .fold(Story::of("stop").stop(1).steady().strikes(500, "state T"), |story, rank| {
            story.timed_out(noticed + u64::from(rank), rank).exit(noticed + 600, rank, 3)
        });
    swept(story).killed_by_harness(20_000, 1).ended(20_001, EndReason::Cap)
}

fn stops() -> Vec<CaseHistory> {
    ["none", "teardown", "skip-cleanup"]
        .into_iter()
        .flat_map(|mode| [("2s", 2_100), ("5s", 5_080)].map(|timeout| stop(mode, timeout)))
        .collect()
}

#[test]
fn a_column_says_who_noticed_with_which_settings() {
    assert_eq!(
        sentences(stops()),
        [
            "stop: nobody noticed with error_handling = none; the rank's watchdog noticed after 2.1s \
          with NCCL_TIMEOUT = 2s, after 5.08s with NCCL_TIMEOUT = 5s"
        ]
    );
}

#[test]
fn a_setting_without_any_effect_is_named() {
    let cases = ["30", "600"]
        .into_iter()
        .flat_map(|value| {
            let mut cases = [stop("none", ("2s", 2_100)), stop("teardown", ("2s", 2_130))];
            for case in &mut cases {
                case.plan.row.remove("NCCL_TIMEOUT");
                case.plan.row.insert("NCCL_SOCKET_TIMEOUT".into(), value.into());
                case.events.insert(0, unread());
            }
            cases
        })
        .collect();
    let found = sentences(cases);
    assert!(
        found.contains(
            &"NCCL_SOCKET_TIMEOUT made no difference: same outcome, same detector \
                             and like times in all 2 comparisons of its values"
                .to_owned()
        ),
        "{found:#?}"
    );
    assert!(
        found.contains(
            &"the backend does not read NCCL_SOCKET_TIMEOUT: not in the \
                             library"
                .to_owned()
        ),
        "{found:#?}"
    );
    assert!(
        !found.iter().any(|s| s.starts_with("error_handling made no difference")),
        "{found:#?}"
    );
}

fn unread() -> ringbreaker_scenarios::event::Event {
    let name = "NCCL_SOCKET_TIMEOUT".into();
    let what = What::SettingUnread { name, reason: "not in the library".into() };
    ringbreaker_scenarios::event::Event { at: crate::story::at(0), rank: None, what }
}

#[test]
fn ranks_told_late_by_the_aborts_of_their_neighbours_are_named() {
    let found = sentences(vec![kill_noticed().ended(1650, EndReason::RanksGone)]);
    assert_eq!(
        found,
        [
            "kill: an asynchronous error noticed after 4ms",
            "kill: word travels by aborts: rank 3 \
          noticed 611ms after the first rank did (case 0); coordinated_abort = true tells all \
          ranks at once"
        ]
    );
}

#[test]
fn alarms_come_first() {
    let wrong = What::WrongData { op: 1, expected: "1".into(), found: "2".into(), element: 0 };
    let report = RunReport::from(run(vec![
        kill_noticed().left(1, Owner::Job, "port 4000").ended(1650, EndReason::RanksGone),
        kill_noticed()
            .repetition(2)
            .event(9, Some(0), wrong)
            .left(1, Owner::Harness, "netns x")
            .ended(1650, EndReason::RanksGone),
    ]));
    let weights: Vec<Weight> = report.findings.iter().map(|finding| finding.weight).collect();
    assert!(weights.is_sorted(), "{weights:?}");
    let sentences: Vec<&str> = report.findings.iter().map(|f| f.sentence.as_str()).collect();
    assert_eq!(sentences[0], "case 1: ringbreaker left behind netns x");
    assert!(sentences[1].starts_with("kill: silently wrong data (case 1: operation 1 of rank 0"));
    assert!(
        sentences
            .contains(&"kill: the job left something behind in 1 case, such as port 4000 (case 0)")
    );
}

#[test]
fn false_blame_is_named() {
    let blame = What::Detected(Detection {
        detector: Detector::RankWatchdog,
        phase: Phase::Steady,
        code: None,
        message: "rank 3 did not answer".into(),
        op: None,
        blames: Some(3),
    });
    let case = Story::of("kill")
        .kill(1)
        .steady()
        .strikes(500, "gone")
        .signal(500, 1, 9)
        .event(700, Some(0), blame)
        .exit(900, 0, 3)
        .exit(900, 2, 3)
        .exit(900, 3, 3)
        .ended(950, EndReason::RanksGone);
    let found = sentences(vec![case]);
    assert!(
        found.contains(&"kill: rank 0 blamed rank 3, which no fault touched (case 0)".to_owned()),
        "{found:#?}"
    );
}

#[test]
fn what_was_not_measured_is_said() {
    let mut history = run(vec![not_runnable().ended(0, EndReason::Unavailable)]);
    history.pending = vec![kill_noticed().index(1).torn().plan];
    let report = RunReport::from(history);
    let sentences: Vec<&str> = report.findings.iter().map(|f| f.sentence.as_str()).collect();
    assert_eq!(sentences.len(), 2);
    assert!(sentences[0].starts_with("memory: nothing could be measured in 1 case: the case"));
    assert!(sentences[1].starts_with("1 case was planned and never run"));
    assert_eq!(report.verdict, ringbreaker_scenarios::words::Verdict::Unknown);
}

#[test]
fn the_command_keeps_what_shapes_the_plan_and_narrows_to_the_case() {
    let mut history = run(vec![kill_noticed().ended(1650, EndReason::RanksGone)]);
    history.header.command = [
        "ringbreaker",
        "run",
        "quick",
        "--only",
        "kill",
        "--repeat",
        "5",
        "--set",
        "A=b c",
        "--seed=3",
        "--quiet",
        "--lanes",
        "2",
        "--mps",
    ]
    .map(str::to_owned)
    .to_vec();
    assert_eq!(header().seed, 7);
    assert_eq!(
        RunReport::from(history).cases[0].reproduce,
        "ringbreaker run quick --repeat 5 --set 'A=b c' --mps --backend host --seed 7 --only case=0"
    );
}
