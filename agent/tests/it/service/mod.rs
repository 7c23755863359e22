//! An agent and its controller: registration, commands, streams that break, leases that end.

mod controller;
mod guard;
mod stop;

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use ringbreaker_proto::v1::{self, answer, command::Action, fault::Kind, trigger::When};
use ringbreaker_scenarios::{
    event::{EndReason, Event, ExitStatus, HealReason, Owner, What},
    words::Detector,
};

use self::controller::{Rig, runs};
use crate::inject::rig::PATIENCE;

fn case() -> Option<v1::CaseRef> {
    Some(v1::CaseRef { run: "r".to_owned(), index: 0, attempt: 1 })
}

/// Two nodes with a rank each that reduce a little, many times.
fn prepare(rig: &Rig, faults: Vec<v1::Fault>) -> Action {
    let watchdog = v1::Watchdog {
        op_timeout_ns: Some(20_000_000_000),
        error_handling: "cleanup-only".to_owned(),
        poll_ns: 10_000_000,
        ..v1::Watchdog::default()
    };
    let rank = v1::RankSetup { watchdog: Some(watchdog), ..v1::RankSetup::default() };
    let workload = v1::Workload {
        collectives: vec!["all_reduce".to_owned()],
        dtype: "f32".to_owned(),
        bytes: vec![4096],
        iterations: 1_000_000,
        warmup: 2,
        interval_ns: 1_000_000,
        check: true,
        checkpoint: None,
    };
    Action::Prepare(v1::Prepare {
        case: case(),
        backend: "host".to_owned(),
        nodes: 2,
        ranks_per_node: 1,
        workload: Some(workload),
        ranks: vec![rank.clone(), rank],
        faults,
        settings: vec!["NCCL_TIMEOUT".to_owned()],
        directory: rig.directory.path().join("case").to_string_lossy().into_owned(),
        ..v1::Prepare::default()
    })
}

fn begin() -> Action {
    Action::Begin(v1::Begin { case: case() })
}

fn finish(because: &str) -> Action {
    Action::Finish(v1::Finish { case: case(), because: because.to_owned() })
}

/// A fault of rank 1 at counted iteration 5.
fn of_rank_1(kind: Kind, lease: Duration) -> v1::Fault {
    v1::Fault {
        id: 0,
        label: "a fault of rank 1".to_owned(),
        trigger: Some(v1::Trigger { when: Some(When::Iteration(5)) }),
        target: Some(v1::Target { ranks: vec![1], ..v1::Target::default() }),
        lasts_ns: None,
        lease_ns: u64::try_from(lease.as_nanos()).unwrap(),
        kind: Some(kind),
    }
}

fn killed() -> Vec<v1::Fault> {
    vec![of_rank_1(Kind::Kill(v1::Kill { signal: "KILL".to_owned() }), Duration::from_secs(60))]
}

fn done() -> answer::Result {
    answer::Result::Done(v1::Done {})
}

fn count(events: &[Event], is: impl Fn(&What) -> bool) -> usize {
    events.iter().filter(|event| is(&event.what)).count()
}

fn exits(events: &[Event]) -> Vec<(u32, ExitStatus, bool)> {
    let exit = |event: &Event| match event.what {
        What::RankExited { status, by_harness } => Some((event.rank?, status, by_harness)),
        _ => None,
    };
    let mut exits: Vec<_> = events.iter().filter_map(exit).collect();
    exits.sort_by_key(|(rank, ..)| *rank);
    exits
}

fn has_ended(events: &[Event], why: EndReason) -> bool {
    events.last().is_some_and(|event| event.what == What::Ended { because: why })
}

/// No agent is left in the state directory, and no rank runs.
fn assert_nothing_is_left(rig: &Rig) {
    let left: Vec<_> = std::fs::read_dir(rig.state())
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    for pid in rig.rank_pids() {
        assert!(!runs(pid), "rank process {pid} still runs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_registers_with_its_probe_and_a_repeated_command_repeats_its_answer() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let register = session.register.clone();
    assert!(register.agent_id.contains("lane0") && register.cases.is_empty(), "{register:?}");
    assert_eq!(register.probe.clone().unwrap().pid, rig.agent.pid());
    let names = vec!["NCCL_DEBUG".to_owned(), "NCCL_NO_SUCH_THING".to_owned()];
    let examine = Action::ExamineSettings(v1::ExamineSettings {
        backend: "host".to_owned(),
        names,
        nccl_path: String::new(),
    });
    let first = rig.ask(&mut session, 7, examine.clone()).await;
    let answer::Result::Settings(examined) = &first else { panic!("{first:?}") };
    let read: Vec<bool> = examined.findings.iter().map(|finding| finding.read).collect();
    assert_eq!(read, [true, false], "{examined:?}");
    // What is repeated is not looked at again: another action under the same id changes nothing.
    assert_eq!(rig.ask(&mut session, 7, begin()).await, first);
    session.command(8, None).await;
    let unknown = rig.answer(&mut session, 8).await;
    let answer::Result::Refused(refused) = &unknown else { panic!("{unknown:?}") };
    assert!(refused.reason.contains("does not know that command"), "{refused:?}");

    drop(session);
    let mut session = rig.welcomed().await;
    assert_eq!(session.register.agent_id, register.agent_id);
    assert_eq!(rig.ask(&mut session, 7, begin()).await, first, "also on another stream");
    assert_eq!(rig.ask(&mut session, 9, Action::Leave(v1::Leave {})).await, done());
    rig.drain(session).await;
    assert_eq!(rig.agent.end().await.code(), Some(0));
    assert_nothing_is_left(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_with_a_killed_rank_runs_from_prepare_to_finish() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let prepare = prepare(&rig, killed());
    assert_eq!(rig.ask(&mut session, 1, prepare.clone()).await, done());
    let busy = rig.ask(&mut session, 2, prepare).await;
    assert!(matches!(&busy, answer::Result::Refused(r) if r.reason.contains("busy")), "{busy:?}");
    assert_eq!(rig.ask(&mut session, 3, begin()).await, done());
    rig.until(&mut session, "two exits", |events| exits(events).len() == 2).await;
    assert_eq!(rig.ask(&mut session, 4, finish("ranks-gone")).await, done());
    rig.until(&mut session, "end", |events| has_ended(events, EndReason::RanksGone)).await;

    let events = &rig.stored;
    assert_eq!(exits(events)[1], (1, ExitStatus::Signal(9), false), "{events:#?}");
    assert!(!exits(events)[0].2, "rank 0 ended by itself");
    for (name, found) in [
        ("prepared", count(events, |what| matches!(what, What::Prepared { .. }))),
        ("began", count(events, |what| *what == What::Began)),
        ("steady", count(events, |what| *what == What::Steady)),
        ("triggered", count(events, |what| *what == What::FaultTriggered { fault: 0 })),
        ("injected", count(events, |what| *what == What::FaultInjected { fault: 0 })),
        ("witnessed", count(events, |what| matches!(what, What::FaultWitnessed { fault: 0, .. }))),
        ("healed", count(events, |what| matches!(what, What::FaultHealed { fault: 0, .. }))),
        ("unread", count(events, |what| matches!(what, What::SettingUnread { .. }))),
    ] {
        assert_eq!(found, 1, "{name}: {events:#?}");
    }
    let detected = |event: &Event| matches!(event.what, What::Detected(_)) && event.rank == Some(0);
    let noticed = events.iter().find(|event| detected(event)).expect("rank 0 noticed").at;
    let when = |is: fn(&What) -> bool| events.iter().find(|event| is(&event.what)).unwrap().at;
    let triggered = when(|what| matches!(what, What::FaultTriggered { .. }));
    let effect = when(|what| matches!(what, What::FaultWitnessed { .. }));
    assert!(triggered <= effect && effect < noticed, "cause before reaction: {events:#?}");
    assert_eq!(count(events, |what| matches!(what, What::Ops(ops) if ops.finished > 5)), 2);
    let harness = |what: &What| matches!(what, What::LeftOver { of: Owner::Harness, .. });
    assert_eq!(count(events, harness), 0, "{events:#?}");
    let files: Vec<_> = std::fs::read_dir(rig.directory.path().join("case"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(files.iter().all(|name| name.ends_with(".log")), "{files:?}");

    assert_eq!(rig.ask(&mut session, 5, Action::Leave(v1::Leave {})).await, done());
    rig.drain(session).await;
    assert_eq!(rig.agent.end().await.code(), Some(0));
    assert_nothing_is_left(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_loses_and_doubles_nothing() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let prepare = prepare(&rig, killed());
    assert_eq!(rig.ask(&mut session, 1, prepare.clone()).await, done());
    session.command(2, Some(begin())).await;
    // The agent never hears that these are stored.
    let begun = |events: &[Event]| count(events, |what| *what == What::Began) == 1;
    rig.answer(&mut session, 2).await;
    rig.until_silent(&mut session, "begin", false, begun).await;
    drop(session);

    let session = rig.session().await;
    assert_eq!(session.register.cases, [case().unwrap()]);
    drop(session);

    let mut session = rig.welcomed().await;
    // The controller cannot know whether its commands arrived, so it repeats them.
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    rig.until(&mut session, "two exits", |events| exits(events).len() == 2).await;
    assert_eq!(rig.ask(&mut session, 3, finish("ranks-gone")).await, done());
    rig.until(&mut session, "end", |events| has_ended(events, EndReason::RanksGone)).await;
    // `Rig` stores by number and would have panicked at a gap.
    assert_eq!(rig.rank_pids().len(), 2, "the case was prepared once: {:#?}", rig.stored);
    assert_eq!(count(&rig.stored, |what| *what == What::Began), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_whose_lease_is_not_renewed_is_healed() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let lease = Duration::from_millis(200);
    let stopped = vec![of_rank_1(Kind::Stop(v1::Stop {}), lease)];
    let prepare = prepare(&rig, stopped);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    // The controller is there, but heartbeats go unanswered.
    session.lively = false;
    let expired = What::FaultHealed { fault: 0, because: HealReason::LeaseExpired };
    rig.until(&mut session, "healing", |events| count(events, |what| *what == expired) == 1).await;
    assert_eq!(rig.ask(&mut session, 3, finish("cap")).await, done());
    rig.until(&mut session, "end", |events| has_ended(events, EndReason::Cap)).await;
    assert!(
        exits(&rig.stored)
            .iter()
            .all(|(_, status, by_harness)| { *by_harness && *status == ExitStatus::Signal(9) }),
        "the ranks went on, and the harness ended them: {:#?}",
        rig.stored
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_hear_its_controller_for_a_lease_heals_and_leaves() {
    let mut rig = Rig::start().await;
    let mut session = rig.session().await;
    rig.welcome(&session, Duration::from_secs(2)).await;
    let stopped = vec![of_rank_1(Kind::Stop(v1::Stop {}), Duration::from_secs(60))];
    let prepare = prepare(&rig, stopped);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    assert!(rig.rank_pids().iter().all(|pid| runs(*pid)));
    session.lively = false;
    rig.drain(session).await;
    assert_eq!(rig.agent.end().await.code(), Some(1), "it says that it lost its controller");
    assert_nothing_is_left(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_told_to_end_heals_first_and_reports_it() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let stopped = vec![of_rank_1(Kind::Stop(v1::Stop {}), Duration::from_secs(60))];
    let prepare = prepare(&rig, stopped);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    let agent = Pid::from_raw(i32::try_from(rig.agent.pid()).unwrap());
    for _ in 0..3 {
        kill(agent, Signal::SIGTERM).unwrap();
    }
    rig.drain(session).await;
    assert_eq!(rig.agent.end().await.code(), Some(0));
    let healed = What::FaultHealed { fault: 0, because: HealReason::Interrupted };
    assert_eq!(count(&rig.stored, |what| *what == healed), 1, "{:#?}", rig.stored);
    assert!(has_ended(&rig.stored, EndReason::Interrupted), "{:#?}", rig.stored);
    assert_nothing_is_left(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_cannot_be_carried_out_is_refused_with_the_reason() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let Action::Prepare(mut impossible) = prepare(&rig, Vec::new()) else { unreachable!() };
    impossible.limits = Some(v1::Limits {
        sysctls: [("no_such_sysctl".to_owned(), "1".to_owned())].into(),
        ..v1::Limits::default()
    });
    let refusal = rig.ask(&mut session, 1, Action::Prepare(impossible)).await;
    let answer::Result::Refused(refused) = &refusal else { panic!("{refusal:?}") };
    assert!(refused.reason.contains("no_such_sysctl"), "{refused:?}");
    // The agent is free again, and nothing is left to finish.
    assert_eq!(rig.ask(&mut session, 2, finish("unavailable")).await, done());
    let prepare = prepare(&rig, Vec::new());
    assert_eq!(rig.ask(&mut session, 3, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 4, finish("interrupted")).await, done());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_that_are_told_to_abort_say_that_the_controller_told_them() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let prepare = prepare(&rig, Vec::new());
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let steady = |events: &[Event]| count(events, |what| *what == What::Steady) == 1;
    rig.until(&mut session, "steady state", steady).await;
    let abort = Action::AbortRanks(v1::AbortRanks { case: case() });
    assert_eq!(rig.ask(&mut session, 3, abort).await, done());
    let told = |what: &What| matches!(what, What::Detected(found) if found.detector == Detector::Controller);
    rig.until(&mut session, "two aborts", |events| count(events, told) == 2).await;
    assert_eq!(rig.ask(&mut session, 4, finish("cap")).await, done());
    rig.until(&mut session, "end", |events| has_ended(events, EndReason::Cap)).await;
    assert_eq!(exits(&rig.stored).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_killed_agent_nothing_remains_but_its_logs() {
    let mut rig = Rig::start().await;
    let mut session = rig.welcomed().await;
    let stopped = vec![of_rank_1(Kind::Stop(v1::Stop {}), Duration::from_secs(60))];
    let prepare = prepare(&rig, stopped);
    assert_eq!(rig.ask(&mut session, 1, prepare).await, done());
    assert_eq!(rig.ask(&mut session, 2, begin()).await, done());
    let witnessed = |what: &What| matches!(what, What::FaultWitnessed { .. });
    rig.until(&mut session, "witness", |events| count(events, witnessed) == 1).await;
    let agent = Pid::from_raw(i32::try_from(rig.agent.pid()).unwrap());
    kill(agent, Signal::SIGKILL).unwrap();
    rig.agent.end().await;
    // The guard removes the agent's directory when it has healed.
    let begin = std::time::Instant::now();
    let left = || std::fs::read_dir(rig.state()).is_ok_and(|mut entries| entries.next().is_some());
    while left() || rig.rank_pids().iter().any(|pid| runs(*pid)) {
        assert!(begin.elapsed() < PATIENCE, "the guard does not heal");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_nothing_is_left(&rig);
}
