//! How a rank ends after it noticed something: the error-handling modes, blocking wait, the
//! coordinated abort, and the loss of its agent.

use std::time::Duration;

use ringbreaker_agent::{
    rank::protocol::{EXIT_AFTER_ERROR, EXIT_HARNESS, ToRank},
    sys::signal::Signal,
};
use ringbreaker_scenarios::{
    event::{ExitStatus, What},
    words::{Detector, ErrorHandling, Phase},
};

use super::job::{Job, Plan};

fn killed_neighbour(plan: Plan) -> Job {
    let mut job = Job::steady(plan);
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGKILL).unwrap();
    assert_eq!(job.ranks[1].detects().detector, Detector::AsyncError);
    job
}

fn aborted(observed: &[What]) -> bool {
    observed.contains(&What::AbortBegan) && observed.contains(&What::AbortEnded { code: 0 })
}

#[test]
fn teardown_aborts_and_dies_of_sigabrt() {
    let mut job = killed_neighbour(Plan::endless(2).handling(ErrorHandling::Teardown));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Signal(6));
    assert!(aborted(&job.ranks[1].observed_within(Duration::ZERO)));
}

#[test]
fn skip_cleanup_dies_of_sigabrt_without_aborting() {
    let mut job = killed_neighbour(Plan::endless(2).handling(ErrorHandling::SkipCleanup));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Signal(6));
    let observed = job.ranks[1].observed_within(Duration::ZERO);
    assert!(!observed.contains(&What::AbortBegan), "{observed:#?}");
}

#[test]
fn cleanup_only_aborts_and_the_process_ends_by_itself() {
    let mut job = killed_neighbour(Plan::endless(2).handling(ErrorHandling::CleanupOnly));
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    assert!(aborted(&job.ranks[1].observed_within(Duration::ZERO)));
}

#[test]
fn with_mode_none_the_error_is_reported_and_the_rank_waits_for_ever() {
    let mut job = killed_neighbour(Plan::endless(2).handling(ErrorHandling::None));
    // Longer than an abort takes.
    let observed = job.ranks[1].observed_within(Duration::from_millis(900));
    assert!(!observed.contains(&What::AbortBegan), "{observed:#?}");
    assert_eq!(job.ranks[1].process.try_wait().unwrap(), None, "it is still there");
}

#[test]
fn with_mode_none_an_operation_that_was_only_late_is_finished_and_so_is_the_work() {
    let mut plan = Plan::endless(2).handling(ErrorHandling::None);
    plan = plan.op_timeout(Duration::from_millis(300));
    plan.workload.iterations = 60;
    let mut job = Job::steady(plan);
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGSTOP).unwrap();
    assert_eq!(job.ranks[1].detects().detector, Detector::RankWatchdog);
    job.ranks[0].process.signal(Signal::SIGCONT).unwrap();
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(0));
    assert_eq!(job.ranks[1].black_box().checked_right, 62);
}

#[test]
fn blocking_wait_finds_errors_and_deadlines_without_a_watchdog() {
    let blocking = || {
        let mut plan = Plan::endless(2).op_timeout(Duration::from_secs(1));
        // Meaningless without a watchdog: the waiting thread aborts and the process lives on.
        plan.watchdog.error_handling = ErrorHandling::SkipCleanup;
        plan.watchdog.blocking_wait = true;
        plan
    };
    for (signal, detector) in
        [(Signal::SIGKILL, Detector::AsyncError), (Signal::SIGSTOP, Detector::RankWatchdog)]
    {
        let mut job = Job::steady(blocking());
        job.reach(20);
        job.ranks[0].process.signal(signal).unwrap();
        assert_eq!(job.ranks[1].detects().detector, detector);
        assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
        assert!(aborted(&job.ranks[1].observed_within(Duration::ZERO)));
    }
}

#[test]
fn a_dump_wait_lies_between_noticing_and_aborting() {
    let mut plan = Plan::endless(2);
    plan.watchdog.dump_wait = ringbreaker_scenarios::units::Nanos::from_millis(400);
    let mut job = killed_neighbour(plan);
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
    let mut when = |wanted: fn(&What) -> bool| {
        job.ranks[1].until("a time", |said| match said {
            ringbreaker_agent::rank::protocol::FromRank::Observed(event) if wanted(&event.what) => {
                Some(event.at)
            }
            _ => None,
        })
    };
    let detected = when(|what| matches!(what, What::Detected(_)));
    let began = when(|what| *what == What::AbortBegan);
    assert!(began.since(detected).0 >= 400_000_000, "{detected} {began}");
}

#[test]
fn a_coordinated_abort_ends_a_rank_in_every_phase() {
    for phase in [Phase::BeforeInit, Phase::Init, Phase::Steady] {
        let mut job = Plan::endless(2).handling(ErrorHandling::SkipCleanup).start();
        match phase {
            Phase::Init => {
                job.init_only(&[1]);
                job.ranks[1].enters(Phase::Init);
            }
            Phase::Steady => {
                job.init();
                job.go();
                job.reach(20);
            }
            _ => {}
        }
        job.ranks[1].tell(&ToRank::Abort);
        assert_eq!(job.ranks[1].detects().detector, Detector::Controller, "{phase}");
        assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_AFTER_ERROR), "{phase}");
        let observed = job.ranks[1].observed_within(Duration::ZERO);
        assert!(phase != Phase::Steady || aborted(&observed), "{phase}: {observed:#?}");
    }
}

#[test]
fn a_rank_that_waits_for_go_follows_a_coordinated_abort() {
    let mut job = Plan::endless(1).start();
    job.init();
    job.ranks[0].until("warm", |said| {
        matches!(said, ringbreaker_agent::rank::protocol::FromRank::WarmedUp).then_some(())
    });
    job.ranks[0].tell(&ToRank::Abort);
    assert_eq!(job.ranks[0].ends(), ExitStatus::Code(EXIT_AFTER_ERROR));
}

#[test]
fn a_rank_that_has_lost_its_agent_leaves() {
    let mut job = Job::steady(Plan::endless(2));
    job.reach(20);
    job.ranks[1].lose_agent();
    assert_eq!(job.ranks[1].ends(), ExitStatus::Code(EXIT_HARNESS));
}

#[test]
fn sigterm_ends_a_rank_as_it_ends_any_program() {
    let mut job = Job::steady(Plan::endless(2));
    job.reach(20);
    job.ranks[0].process.signal(Signal::SIGTERM).unwrap();
    assert_eq!(job.ranks[0].ends(), ExitStatus::Signal(15));
    assert_eq!(job.ranks[1].detects().detector, Detector::AsyncError);
}
